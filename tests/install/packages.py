#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages that `./dev package` made: what is in them, and a program with what they unpack to.

    packages.py FOLDER

Installs nothing. Prints `N passed, N failed, 0 skipped`.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
NEEDS = {"libtenon0": "libcjson1", "tenon-plugins": "libsleef3", "libtenon-dev": "libtenon0", "tenon-tools": "libmpfr6"}
HAS = {"libtenon0": "libtenon.so.0", "tenon-plugins": "libtenon_cpu.so", "libtenon-dev": "tenon.h", "tenon-tools": "tenon-probe"}


def run(*command, **environment):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, env={**os.environ, **environment}).stdout


def check_contents(debs, root):
    """Four packages; no file is in two; each has what it is for and says what it needs."""
    assert set(debs) == set(NEEDS), sorted(debs)
    owners = {}
    for name, deb in debs.items():
        folder = root / name
        run("dpkg-deb", "-x", deb, folder)
        for path in (p.relative_to(folder) for p in folder.rglob("*") if not p.is_dir()):
            assert path not in owners, f"{path} is in {owners[path]} and {name}"
            owners[path] = name
        assert any(path.name == HAS[name] for path in owners if owners[path] == name), f"{HAS[name]} is not in {name}"
        depends = run("dpkg-deb", "-f", deb, "Depends")
        assert NEEDS[name] in depends, f"{name} does not need {NEEDS[name]}: {depends}"


def check_program(debs, root):
    """The README's program, compiled and run with the unpacked files."""
    tree = root / "tree"
    for deb in debs.values():
        run("dpkg-deb", "-x", deb, tree)
    for pc in tree.rglob("*.pc"):
        pc.write_text(pc.read_text().replace("prefix=/usr\n", f"prefix={tree}/usr\n"))
    library = next(tree.rglob("libtenon.so.0")).parent
    block = (SOURCE / "README.md").read_text().split("```c\n")[1].split("```")[0]
    (root / "first.c").write_text(block)
    flags = run("pkg-config", "--cflags", "--libs", "tenon", PKG_CONFIG_PATH=str(library / "pkgconfig")).split()
    run("cc", root / "first.c", *flags, "-o", root / "first")
    output = run(root / "first", LD_LIBRARY_PATH=str(library))
    assert "".join(output.split()) == "tensor([[2.,-2.],[2.,2.]])", output
    assert "cpu" in run(tree / "usr/bin/tenon", "devices", LD_LIBRARY_PATH=str(library))
    page = next(tree.rglob("tenon.1.gz"))
    assert "TENON_DEVICE" in run("gzip", "-dc", page)


def main():
    debs = {path.name.split("_")[0]: path for path in Path(sys.argv[1]).glob("*.deb")}
    os.umask(0o022)
    failed = 0
    checks = [check_contents, check_program]
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as root:
        for check in checks:
            try:
                check(debs, Path(root))
            except (AssertionError, OSError, subprocess.CalledProcessError) as e:
                print(f"{check.__name__}: {e} {getattr(e, 'stderr', '') or ''}")
                failed += 1
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
