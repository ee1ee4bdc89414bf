#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the waits of a GPU plugin, and what else its table has, out one by one and shows that a program of tests finds each.

    mutants.py BUILD DRIVER SET PROGRAM...

The table is tests/DRIVER/mutants.toml, SET a list in it; PROGRAM the words that run the program.
"""
import sys
import tomllib
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))
sys.dont_write_bytecode = True
import mutation  # noqa: E402


def main(build, driver, name, *program):
    sets = tomllib.loads((TESTS / driver / "mutants.toml").read_text())
    return mutation.hunt_plugin(Path(build).resolve(), list(program), driver, sets[name])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
