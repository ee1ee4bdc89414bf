#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the coverage of the tests: report.py FOLDER [--missed WORD...]

One line for each room of the tree: the shares of lines and of branches that the runs in the build FOLDER executed.
--missed lists what was not executed instead, in files whose path contains one of the words ("" for all): the line's number,
how many of its branches were never taken, and its text.

excluded.txt beside this script names what cannot be reached, with reasons; those lines and branches do not count, nor do
the branches of RULES. The report ends with how many these are. An entry whose text is not found, or whose lines are all
executed, is an error, so that the list stays short.
"""
import argparse
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
EXCLUDED = Path(__file__).resolve().parent / "excluded.txt"


# Branches that no test can decide, by the text of their line.
RULES = (
    (re.compile(r"\batomic_compare_exchange_weak\w*\("), "fails when another thread is faster, or for no reason"),
    (re.compile(r"^\s*assert\("), "its failing side ends the process; release builds leave it out"),
    (re.compile(r"__builtin_unreachable\(\)"), "says to the compiler what cannot be"),
    (re.compile(r"^\s*cJSON_ArrayForEach\("), "the macro asks whether the list is NULL, which its callers never pass"),
)


def read_notes(folder):
    """(note, what gcov says of its object) for each object of the build that counts."""
    # A compiler that is interrupted leaves a note without an object, as does a source that left the build.
    notes = [str(path) for path in sorted(folder.rglob("*.gcno")) if path.with_suffix(".o").exists()]
    if not notes:
        sys.exit(f"coverage: {folder} has no counts")
    run = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", *notes],
                         capture_output=True, text=True, cwd=folder)
    if run.returncode:
        sys.exit(f"coverage: gcov failed\n{run.stderr}")
    for text in run.stdout.splitlines():
        said = json.loads(text)
        yield Path(said["current_working_directory"], said["data_file"]), said


def add_counts(lines, said):
    """Adds what one object says of a file. A header's functions are in many objects: one that executes a branch is enough."""
    for line in said:
        executed, taken = lines.get(line["line_number"], (False, []))
        branches = [branch["count"] > 0 for branch in line["branches"]]
        lines[line["line_number"]] = (executed or line["count"] > 0,
                                      [any(pair) for pair in zip_longest(taken, branches, fillvalue=False)])


def read_counts(folder):
    """{path: {line number: (executed, [taken branches as bool])}}, and the paths that only objects older than the file tell
    of. What a half finished build or a file that is gone left in the folder does not count."""
    counts, old = {}, set()
    for note, said in read_notes(folder):
        for file in said["files"]:
            path = Path(os.path.normpath(Path(said["current_working_directory"], file["file"])))
            if not path.is_relative_to(ROOT) or path.is_relative_to(ROOT / "tests") or not path.exists():
                continue
            name = str(path.relative_to(ROOT))
            if name.startswith("build"):
                continue
            if path.stat().st_mtime > note.stat().st_mtime:
                old.add(name)
            else:
                add_counts(counts.setdefault(name, {}), file["lines"])
    return counts, sorted(old - counts.keys())


def read_excluded():
    """[(path, text, whether it must name something)]; see the head of excluded.txt."""
    entries, errors = [], []
    for number, line in enumerate(EXCLUDED.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        place, _, reason = line.partition(" -- ")
        path, _, text = place.partition(": ")
        if not reason.strip() or not text.strip():
            errors.append(f"excluded.txt:{number}: not 'PATH: TEXT -- REASON'")
        else:
            entries.append((path, text.strip(), not reason.strip().startswith("sometimes:")))
    return entries, errors


def drop(lines, number, excluded):
    """Removes what was not reached in one line; returns whether there was anything."""
    executed, branches = lines[number]
    missed = branches.count(False)
    excluded[0] += not executed
    excluded[1] += missed
    if executed:
        lines[number] = (True, [taken for taken in branches if taken])
    else:
        del lines[number]
    return missed > 0 or not executed


def source_of(path):
    return (ROOT / path).read_text().splitlines() if (ROOT / path).exists() else []


def numbers_of(source, text):
    """The numbers of the lines that an entry means: those that contain its text, or all of a function."""
    if not text.startswith("function "):
        return [n for n, line in enumerate(source, 1) if text in line]
    name = re.compile(rf"^\S.*\b{re.escape(text.split()[1])}\(")
    first = next((n for n, line in enumerate(source, 1) if name.search(line)), len(source) + 1)
    last = next((n for n in range(first, len(source) + 1) if source[n - 1] == "}"), 0)
    return range(first, last + 1)


def exclude(counts, entries):
    """Removes what the rules and the entries name. Returns how many lines and branches these are, and the entries that
    name nothing that is missed."""
    errors, excluded = [], [0, 0]
    for path, lines in counts.items():
        for number, text in enumerate(source_of(path), 1):
            if number in lines and lines[number][0] and any(rule.search(text) for rule, _ in RULES):
                drop(lines, number, excluded)
    for path, text, must in entries:
        lines = counts.get(path, {})
        numbers = [n for n in numbers_of(source_of(path), text) if n in lines]
        if not sum(drop(lines, number, excluded) for number in numbers) and must:
            errors.append(f"excluded.txt: nothing is missed at '{path}: {text}'")
    return excluded, errors


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
    counts, old = read_counts(args.folder.resolve())
    if old:
        print(f"not compiled since they changed, and left out: {', '.join(old)}", file=sys.stderr)
    entries, errors = read_excluded()
    excluded, unused = exclude(counts, entries)
    errors += unused
    if args.missed:
        print_missed(counts, args.missed)
    else:
        print_rooms(counts)
        print(f"excluded: {excluded[0]} lines and {excluded[1]} branches (tools/coverage/excluded.txt and the rules of report.py)")
        print("docs/coverage.md says what remains, and why")
        print("\n".join(errors), end="\n" if errors else "")
    return 1 if errors and not args.missed else 0


if __name__ == "__main__":
    sys.exit(main())
