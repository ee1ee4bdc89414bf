#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what the tests reached: report.py FOLDER [--missed WORD...]

One line for each room of the tree: the shares of lines and of branches that the runs in the build FOLDER executed.
--missed lists what was not executed instead, in files whose path contains one of the words ("" for all): the line's number,
how many of its branches were never taken, and its text.

excluded.txt beside this script names what cannot be reached, with reasons; those lines and branches do not count. An
entry whose text is not found, or whose lines are all executed, is an error, so that the list stays short.
"""
import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
EXCLUDED = Path(__file__).resolve().parent / "excluded.txt"


def read_counts(folder):
    """{path: {line number: (executed, [taken branches as bool])}}"""
    command = ["gcovr", "--root", str(ROOT), "--object-directory", str(folder), "--json", "-", "-j", str(os.cpu_count()),
               "--exclude", "tests/.*", "--exclude", "build.*", "--exclude-unreachable-branches", str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if run.returncode:
        sys.exit(f"coverage: gcovr failed\n{run.stderr}")
    return {file["file"]: {line["line_number"]: (line["count"] > 0, [branch["count"] > 0 for branch in line["branches"]])
                           for line in file["lines"] if not line["gcovr/noncode"]}
            for file in json.loads(run.stdout)["files"] if not file["file"].startswith("build")}


def read_excluded():
    """[(path, text, branches only)]; see the head of excluded.txt."""
    entries, errors = [], []
    for number, line in enumerate(EXCLUDED.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        place, _, reason = line.partition(" -- ")
        path, _, text = place.partition(": ")
        if not reason.strip() or not text.strip():
            errors.append(f"excluded.txt:{number}: not 'PATH: TEXT -- REASON'")
        else:
            entries.append((path, text.strip()))
    return entries, errors


def exclude(counts, entries):
    """Removes what the entries name; returns the entries that name nothing that is missed."""
    errors = []
    for path, text in entries:
        lines, missed = counts.get(path, {}), 0
        source = (ROOT / path).read_text().splitlines() if (ROOT / path).exists() else []
        for number in [n for n, line in enumerate(source, 1) if text in line and n in lines]:
            executed, branches = lines[number]
            missed += not executed or not all(branches)
            if executed:
                lines[number] = (True, [taken for taken in branches if taken])
            else:
                del lines[number]
        if not missed:
            errors.append(f"excluded.txt: nothing is missed at '{path}: {text}'")
    return errors


def room_of(path):
    parts = Path(path).parts
    return "/".join(parts[:2]) if parts[0] == "plugins" else parts[0]


def share(part, whole):
    return f"{100 * part / whole:6.1f} %" if whole else "     - "


def print_rooms(counts):
    sums = defaultdict(lambda: [0, 0, 0, 0])
    for path, lines in counts.items():
        s = sums[room_of(path)]
        for executed, branches in lines.values():
            s[0] += executed
            s[1] += 1
            s[2] += sum(branches)
            s[3] += len(branches)
    print(f"{'room':20} {'lines':>8} {'of':>7} {'branches':>9} {'of':>7}")
    for room, (executed, lines, taken, branches) in sorted(sums.items()):
        print(f"{room:20} {share(executed, lines)} {lines:7} {share(taken, branches):>9} {branches:7}")


def print_missed(counts, words):
    for path, lines in sorted(counts.items()):
        if not any(word in path for word in words):
            continue
        source = (ROOT / path).read_text().splitlines()
        for number, (executed, branches) in sorted(lines.items()):
            if not executed or not all(branches):
                what = f"{branches.count(False)}/{len(branches)}" if executed else "####"
                print(f"{path}:{number}: {what:>5} {source[number - 1].strip()}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--missed", nargs="+", metavar="WORD")
    args = parser.parse_args()
    counts = read_counts(args.folder.resolve())
    entries, errors = read_excluded()
    errors += exclude(counts, entries)
    if args.missed:
        print_missed(counts, args.missed)
    else:
        print_rooms(counts)
        print("\n".join(errors), end="\n" if errors else "")
    return 1 if errors and not args.missed else 0


if __name__ == "__main__":
    sys.exit(main())
