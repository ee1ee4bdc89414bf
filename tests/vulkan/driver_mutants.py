#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes what the driver does for devices other than lavapipe out of it, one by one, and shows that its tests find each.

    driver_mutants.py BUILD PROGRAM    PROGRAM is that of driver.c and its neighbours, into which the driver is compiled

The table is the list `driver` of mutants.toml.
"""
import os
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.dont_write_bytecode = True
import mutation  # noqa: E402


def main(build, program):
    build = Path(build).resolve()
    target = str(Path(program).resolve().relative_to(build))
    commands = mutation.compile_commands(build, lambda output: output.startswith(target + ".p/"))
    if not mutation.is_plain(commands):
        return mutation.SKIPPED
    link = mutation.link_command(build, target)

    def make(folder, *mutant):
        made = mutation.compile_mutant(build, commands, folder, *mutant)
        if not made:
            return None
        replaced, changed = made
        words = [str(changed) if w == replaced else w for w in link]
        words[words.index("-o") + 1] = str(folder / "driver")
        subprocess.run(words, cwd=build, check=True)
        return str(folder / "driver"), os.environ

    mutants = tomllib.loads((HERE / "mutants.toml").read_text())["driver"]
    return mutation.hunt(build, mutants, "driver", (program, os.environ), make)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
