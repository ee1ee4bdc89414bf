#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages that `./dev package` made: what is in them, and their use as the READMEs say, twice: unpacked into a
folder, and installed by apt-get into a bare Debian 12, where root has debootstrap and a mirror can be reached.

    packages.py FOLDER

Installs nothing on the machine itself. Prints `N passed, N failed, N skipped`, and why something was skipped.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import install
from install import Failure, House, Skip, expect

SOURCE = Path(__file__).resolve().parents[2]
NEEDS = {"libtenon0": "libcjson1", "tenon-plugins": "libsleef3", "libtenon-dev": "libtenon0", "tenon-tools": "libmpfr6"}
HAS = {"libtenon0": "libtenon.so.0", "tenon-plugins": "libtenon_cpu.so", "libtenon-dev": "tenon.h", "tenon-tools": "tenon-probe"}
# What an author of programs has beside the packages.
BUILDS = ["gcc", "g++", "libc6-dev", "pkgconf", "meson", "ninja-build", "cmake", "make", "binutils"]
READS = ["man-db", "bash-completion", "zsh", "fish"]


class Unpacked(House):
    """The packages unpacked into a folder."""

    def __init__(self, debs, root):
        self.debs = debs
        super().__init__(root, SOURCE, "cc", "c++", root)

    def install(self):
        for deb in self.debs.values():
            self.run(["dpkg-deb", "-x", deb, self.root / "tree"])
        self.use_tree(self.root / "tree")


class Bare(House):
    """The packages in a Debian 12 that has nothing else: commands run inside, where the root folder has the same path."""

    def __init__(self, debs, root, system):
        self.debs, self.system = debs, Path(system)
        super().__init__(root, SOURCE, "cc", "c++", root)

    def run(self, command, folder=None, *arguments, **options):
        return super().run(["chroot", self.system, "env", "-C", folder or "/", *command], None, *arguments, **options)

    def install(self):
        """By apt-get, first without anything else: the packages must name all that they need."""
        self.environment.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", DEBIAN_FRONTEND="noninteractive", HOME="/root", LANG="C.UTF-8")
        inside = self.system / str(self.root).lstrip("/")
        inside.mkdir(parents=True)
        for deb in self.debs.values():
            shutil.copy(deb, self.root)
        subprocess.run(["mount", "--bind", self.root, inside], check=True)
        subprocess.run(["mount", "-t", "proc", "proc", self.system / "proc"], check=True)
        self.prefix = self.system / "usr"
        self.run(["apt-get", "install", "-qy", "--no-install-recommends", *(self.root / deb.name for deb in self.debs.values())])
        expect("no problems" in self.run(["tenon", "doctor"]), "the command alone")
        self.run(["apt-get", "install", "-qy", "--no-install-recommends", *BUILDS, *READS])


def check_contents(house):
    """Four packages; no file is in two; each has what it is for and says what it needs."""
    expect(set(house.debs) == set(NEEDS), "the packages", str(sorted(house.debs)))
    owners, contents = {}, house.folder("contents")
    for name, deb in house.debs.items():
        folder = contents / name
        house.run(["dpkg-deb", "-x", deb, folder])
        for path in (p.relative_to(folder) for p in folder.rglob("*") if not p.is_dir()):
            expect(path not in owners, f"{path} is in {owners.get(path)} and {name}")
            owners[path] = name
        expect(any(path.name == HAS[name] for path in owners if owners[path] == name), f"{HAS[name]} is in {name}")
        depends = house.run(["dpkg-deb", "-f", deb, "Depends"])
        expect(NEEDS[name] in depends, f"{name} needs {NEEDS[name]}", depends)


def check_first(house):
    """The first program of the README and that of the guide, compiled by the commands that stand there."""
    folder = house.folder("first")
    for document, package, output in (("README.md", "tenon", "tensor([[2.,-2.],[2.,2.]])"), ("docs/train-a-model.md", "tenon-train", "learnt")):
        (folder / "first.c").write_text((SOURCE / document).read_text().split("```c\n")[1].split("```")[0])
        house.run(["sh", "-c", f"cc first.c $(pkg-config --cflags --libs {package}) -o first"], folder)
        expect("".join(house.use(folder / "first").split()) == output, f"the program of {document}")
    report = house.use("tenon", "doctor")
    expect("loaded   cpu" in report and report.endswith("no problems\n"), "doctor", report)


def check_found(house):
    """`man` and the shells of Debian find pages and completions by themselves."""
    for command in re.findall(r"^  ([\w-]+) ", house.use("tenon", "--help"), re.M):
        page = house.run(["man", f"tenon-{command}"])
        expect(f"tenon {command}" in page and "--" in page, f"the page of {command}", page)
    expect("TENON_DEVICE" in house.run(["man", "tenon"]), "variables of the environment")
    bash = "source /usr/share/bash-completion/bash_completion; _completion_loader tenon; complete -p tenon"
    expect("_tenon" in house.run(["bash", "-c", bash]), "bash finds the completion")
    expect(house.run(["zsh", "-fc", "autoload -U compinit; compinit -uD; echo $_comps[tenon]"]) == "_tenon\n", "zsh finds the completion")
    expect(house.run(["fish", "-c", "complete -C 'tenon gol'"]).startswith("golden"), "fish finds the completion")


IN_BOTH = [check_first, install.check_operators_cc, install.check_static, install.check_cmake, install.check_new_operators, install.check_plugin_meson,
           install.check_new_app, install.check_cplusplus]


def run_checks(house, checks):
    """How many failed."""
    failed = 0
    for check in checks:
        try:
            check(house)
        except (Failure, OSError, subprocess.SubprocessError) as e:
            print(f"{type(house).__name__}: {check.__name__}: {e}")
            failed += 1
    return failed


def bare_system(folder):
    """Unpacks a minimal Debian 12 into the folder."""
    if os.geteuid() or not shutil.which("debootstrap"):
        raise Skip("a bare Debian 12 needs root and debootstrap")
    done = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", folder], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skip(f"debootstrap failed: {(done.stdout + done.stderr).strip().splitlines()[-1]}")
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", folder / "etc")


def main():
    if not os.geteuid() and not os.environ.get("TENON_MOUNTS_ARE_OWN"):  # mounts end with this process
        os.execvpe("unshare", ["unshare", "--mount", sys.executable, *sys.argv], {**os.environ, "TENON_MOUNTS_ARE_OWN": "1"})
    debs = {path.name.split("_")[0]: path for path in Path(sys.argv[1]).resolve().glob("*.deb")}
    os.umask(0o022)
    failed, skipped, checks = 0, 0, [check_contents, *IN_BOTH]
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as root:
        failed += run_checks(Unpacked(debs, Path(root).resolve()), checks)
    inside = [*IN_BOTH, check_found]
    with tempfile.TemporaryDirectory() as system, tempfile.TemporaryDirectory() as root:
        try:
            bare_system(Path(system))
            try:
                failed += run_checks(Bare(debs, Path(root).resolve(), system), inside)
            finally:
                for path in (Path(system) / "proc", Path(system) / str(Path(root).resolve()).lstrip("/")):
                    subprocess.run(["umount", "--quiet", path], check=False)
        except Skip as e:
            print(e)
            skipped = len(inside)
        except Failure as e:
            print(f"Bare: {e}")
            failed += len(inside)
    print(f"{len(checks) + len(inside) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
