#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the warnings of another compiler: check_warnings.py FOLDER [--compiler clang] [-j JOBS]

The compiler reads each C file of the build FOLDER with the options that it is built with, once for every set of macros,
and writes no object file, so this takes a fraction of a build. Of the levels of the CPU plugin only the first is read. Any
warning is a failure.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

KEPT = ("-I", "-D", "-W", "-m", "-std", "-isystem", "-pthread", "-fopenmp")  # options that change what the compiler reads
WITH_OUTPUT = {"-o", "-MF", "-MQ", "-MT"}


def options_of(command):
    """The options of a compilation that matter here, in the order of the command line."""
    kept, words = [], iter(shlex.split(command))
    for word in words:
        if word in WITH_OUTPUT:
            next(words)
        elif word.startswith(KEPT):
            kept += [word, next(words)] if word == "-isystem" else [word]
    return kept


def readings(folder):
    """{(file, macros): options}: one for all targets that compile a file with the same macros."""
    found = {}
    for entry in json.loads((folder / "compile_commands.json").read_text()):
        if entry["file"].endswith(".c"):
            options = options_of(entry["command"])
            key = entry["file"], *sorted(o for o in options if o.startswith("-D") and not o.startswith("-DLEVEL"))
            found.setdefault(key, options)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compiler", default="clang")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    args = parser.parse_args()

    def read(item):
        (file, *_), options = item
        command = [args.compiler, "-fsyntax-only", "-Werror", "-Wno-error=unknown-warning-option", *options, file]
        return file, subprocess.run(command, cwd=args.folder, capture_output=True, text=True)

    with ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(read, readings(args.folder).items()))
    bad = [(file, run) for file, run in results if run.returncode]
    for _, run in bad:
        print(run.stderr, end="")
    print(f"{args.compiler}: {len(results)} readings of {len({file for file, _ in results})} files, {len(bad)} with warnings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
