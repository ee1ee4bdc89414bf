#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""checks.tsv says for every documented check which test shows it, or why it does not concern what is built.

Each row must name a test that exists, or give a reason; the numbers 1 to 305 and R1 to R70 must all be there.
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def exists(test):
    """Whether `program:suite.name` is in a test program's source."""
    program, _, name = test.partition(":")
    source = HERE.parent / f"{program}.c"
    if not source.is_file():
        return False
    suite, _, name = name.partition(".")
    return not name or re.search(rf"^(Test|ON_EACH_DEVICE)\({suite}, {name}[,)]", source.read_text(), re.M) is not None


def main():
    rows = [line.split("\t") for line in (HERE / "checks.tsv").read_text().splitlines() if line and line[0] != "#"]
    numbers = [row[0] for row in rows]
    wrong = [f"{row[0]}: {row[1:]}" for row in rows
             if len(row) != 2 or not (exists(row[1]) or re.match(r"-: \w", row[1]))]
    wrong += [f"{n} is missing" for n in [*map(str, range(1, 306)), *(f"R{i}" for i in range(1, 71))] if n not in numbers]
    wrong += [f"{n} stands twice" for n in sorted(set(numbers)) if numbers.count(n) > 1]
    print(*wrong, sep="\n")
    print(f"{sum(row[1][0] != '-' for row in rows)} of {len(rows)} documented checks are shown by a test")
    print(f"{len(rows) - len(wrong)} passed, {len(wrong)} failed, 0 skipped")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
