#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a test of the build with Valgrind's memcheck: under_valgrind.py FOLDER COMMAND...

The programs of the build FOLDER run under it, and the programs that they start. If the test is a script, its interpreter
does not: each argument that is a program of FOLDER is replaced by a script that starts it under memcheck. Findings go into
FOLDER/valgrind, one file for each process, which is empty if there are none.
"""
import os
import shlex
import sys
import tempfile
from pathlib import Path

OPTIONS = ["--quiet", "--trace-children=yes", "--trace-children-skip=*python*,/bin/*,/usr/bin/*",
           "--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite", "--num-callers=30"]


def is_program(argument, folder):
    path = Path(argument).resolve()
    return path.is_relative_to(folder) and path.is_file() and os.access(path, os.X_OK) and ".so" not in path.name


def main():
    folder, command = Path(sys.argv[1]).resolve(), sys.argv[2:]
    logs = folder / "valgrind"
    valgrind = ["valgrind", *OPTIONS, f"--log-file={logs}/%p"]
    if is_program(command[0], folder):
        os.execvp(valgrind[0], valgrind + command)
    with tempfile.TemporaryDirectory() as temporary:
        for i, argument in enumerate(command):
            if is_program(argument, folder):
                stand_in = Path(temporary) / str(i) / Path(argument).name
                stand_in.parent.mkdir()
                stand_in.write_text(f'#!/bin/sh\nexec {shlex.join(valgrind + [str(Path(argument).resolve())])} "$@"\n')
                stand_in.chmod(0o755)
                command[i] = str(stand_in)
        return os.spawnvp(os.P_WAIT, command[0], command)


sys.exit(main())
