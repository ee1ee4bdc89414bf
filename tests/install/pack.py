#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A packed copy (`./dev pack`) as a machine has it on which nothing can be built or installed: it loads no library of others but
those of its own and of the C and C++ runtime, and its commands run without the environment of this shell.

    pack.py BUILD SOURCE
"""
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

# Of the C and the C++ runtime, by the packages libc6, libstdc++6 and libgcc-s1 of Debian.
RUNTIME = {"ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libresolv.so.2", "libstdc++.so.6",
           "libgcc_s.so.1"}
TYPE = "reference"


def run(*command, folder=None):
    done = subprocess.run(["env", "-i", "PATH=/usr/bin:/bin", f"HOME={folder or '/'}", *map(str, command)], cwd=folder, capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def foreign(path, folder):
    """What the loader finds for a file outside of the pack, the runtime left out, or does not find."""
    _, listed = run("ldd", path)
    found = re.findall(r"^\s*(\S+) => (\S+)", listed, flags=re.M)
    return [f"{path.name}: {name} {place}" for name, place in found
            if name not in RUNTIME and not place.startswith(f"{folder}/")]


def faults(build, source, root):
    """What is wrong, one line each."""
    status, said = run(sys.executable, source / "tools/pack.py", TYPE, root / "copy.tar", "--without", "golden,demo", "--build", build)
    if status:
        return [f"pack: {said}"]
    with tarfile.open(root / "copy.tar") as archive:
        archive.extractall(root)
    folder = root / f"tenon-{TYPE}"
    files = [p for p in folder.rglob("*") if p.is_file() and not p.is_symlink() and p.read_bytes()[:4] == b"\x7fELF"]
    wrong = [line for path in files for line in foreign(path, folder)]
    if len(files) < 10:
        wrong.append(f"only {len(files)} programs and libraries are packed")
    if any((folder / name).exists() for name in ("oracle", "data", "build/examples")):
        wrong.append("what was to be left out is packed")
    status, said = run("bash", folder / "dev", "device", TYPE, "out", "doctor", folder=folder)
    report = (folder / "out/doctor.txt").read_text()
    decoy = root / "decoy"
    decoy.mkdir()
    (decoy / "libcjson.so.1").write_text("")
    status_of_decoy, said_of_decoy = run("env", f"LD_LIBRARY_PATH={decoy}", "bash", folder / "dev", "device", TYPE, "other", "doctor", folder=folder)
    if status_of_decoy:
        wrong.append(f"LD_LIBRARY_PATH replaces a packed library: {said_of_decoy}")
    if status or "no problems" not in report or f"{folder}/build/plugins/{TYPE}/" not in report:
        wrong.append(f"device: {said}{report}")
    wrong += [f"doctor: {place}" for place in re.findall(r"(/\S*(?:libopenblas|libdnnl)\S*)", report)
              if not str(Path(place).resolve()).startswith(f"{folder}/libraries/")]
    status, said = run("bash", folder / "dev", "bench", "calls", "--device", f"{TYPE}:0", "--rounds", "1", "--seconds", "0.001", folder=folder)
    if status or not re.search(r"^add +[\d,]+", said, flags=re.M):
        wrong.append(f"bench: {said}")
    status, said = run("bash", folder / "dev", "device", TYPE, "out", "golden", folder=folder)
    if status == 0 or "no step 'golden'" not in said:
        wrong.append(f"a step of a part that is not packed: {status} {said}")
    status, said = run("bash", folder / "dev", "test", folder=folder)
    if status == 0 or "packed copy" not in said:
        wrong.append(f"another command: {status} {said}")
    return wrong


def main():
    build, source = map(Path, sys.argv[1:3])
    if run("sh", "-c", "command -v patchelf")[0]:
        print("patchelf is not there\n0 passed, 0 failed, 1 skipped")
        return 77
    with tempfile.TemporaryDirectory() as root:
        wrong = faults(build.resolve(), source.resolve(), Path(root).resolve())
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{0 if wrong else 1} passed, {1 if wrong else 0} failed, 0 skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
