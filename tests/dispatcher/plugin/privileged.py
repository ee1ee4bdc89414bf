#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process with rights that its user lacks (set-user-id) takes nothing from the environment: no place to search, no verdict
of a probe. Needs root, to make such a program.

    privileged.py PROGRAM
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

NOBODY = 65534


def main():
    if os.geteuid() != 0:
        print("0 passed, 0 failed, 1 skipped: needs root")
        return 77
    with tempfile.TemporaryDirectory(dir=Path(sys.argv[1]).resolve().parent) as name:
        folder, program = Path(name), Path(name) / "program"
        folder.chmod(0o755)
        (folder / "added").mkdir(mode=0o755)
        shutil.copy(sys.argv[1], program)
        environment = {**os.environ, "TENON_PLUGIN_ADD": str(folder / "added"), "XDG_CACHE_HOME": str(folder / "cache")}

        def places():
            done = subprocess.run([program], env=environment, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{program}: status {done.returncode}\n{done.stderr}\n0 passed, 1 failed, 0 skipped")
            return done.stdout.split("\n")

        plain = places()
        os.chown(program, NOBODY, NOBODY)
        program.chmod(0o4755)
        if os.statvfs(program).f_flag & os.ST_NOSUID:
            print("0 passed, 0 failed, 1 skipped: the file system knows no set-user-id")
            return 77
        privileged = places()
    added = str(folder / "added")
    if added not in plain or added in privileged or not privileged:
        print(f"plain: {plain}\nprivileged: {privileged}\n0 passed, 1 failed, 0 skipped")
        return 1
    print("1 passed, 0 failed, 0 skipped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
