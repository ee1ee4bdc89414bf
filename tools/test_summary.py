#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up a run of the tests: test_summary.py testlog.json [--sanitizer FOLDER]

Criterion's binaries count the tests in them; other programs may print a line "N passed, N failed, N skipped" of their
own; anything else counts as one test. Prints what was skipped, what failed with the last lines that it wrote, and at the
end, alone on its line, the sum. Exits with 1 if anything failed, or if nothing ran.
"""
import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

SYNTHESIS = re.compile(r"Synthesis: Tested: (\d+) \| Passing: (\d+) \| Failing: (\d+) \| Crashing: (\d+)")
SKIPPED = re.compile(r"\[SKIP\] (.*)")
FINDING = re.compile(r"ERROR: |runtime error: |WARNING: ThreadSanitizer|ERROR SUMMARY: [1-9]") # their other lines are remarks
FRAME = re.compile(r"^\s+#\d+ .*$", re.M)
OWN_SUM = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
GOOD, SKIP = ("OK", "EXPECTEDFAIL"), ("SKIP",)
TAIL = 30  # lines of a failed test that are shown


def count(test):
    """(passed, failed, skipped, reasons of skips) of one program."""
    text = COLOUR.sub("", test.get("stdout", "") + "\n" + test.get("stderr", ""))
    synthesis, sums, skips = SYNTHESIS.findall(text), OWN_SUM.findall(text), SKIPPED.findall(text)
    if synthesis:
        passed = sum(int(s[1]) for s in synthesis)
        failed = sum(int(s[2]) for s in synthesis)  # those that crashed among them
        skipped = len(skips)
    elif sums:
        passed, failed, skipped = (int(n) for n in sums[-1])
    else:
        passed, failed, skipped = test["result"] in GOOD, 0, test["result"] in SKIP
        skips = [test["name"]] if skipped else []
    if test["result"] not in GOOD + SKIP and failed == 0:
        failed = 1  # it crashed, ran out of time, or left with a status of its own
    return int(passed), failed, int(skipped), skips


def show_failure(test):
    text = COLOUR.sub("", test.get("stdout", "") + test.get("stderr", ""))
    lines = [line for line in text.splitlines() if line.strip() and not re.match(r"\[(RUN |PASS|SKIP|----)\]\s*\S*::", line)]
    # Meson's random byte for fresh and freed memory: with it the run can be repeated.
    perturb = (test.get("env") or {}).get("MALLOC_PERTURB_")
    with_byte = f", MALLOC_PERTURB_={perturb}" if perturb else ""
    print(f"\n---- {test['name']}: {test['result']} after {test.get('duration', 0):.1f} s{with_byte}")
    print("\n".join(lines[-TAIL:]))


def is_criterions(text):
    """Whether these are leaks that Criterion's runner made by itself: no frame is of another library or of a program."""
    frames = FRAME.findall(text)
    return "LeakSanitizer" in text and bool(frames) and all("libsanitizer" in f or "/libcriterion.so" in f for f in frames)


def sanitizer_findings(folder):
    """Files that sanitizers wrote: a finding does not fail a test by itself."""
    texts = {p: p.read_text(errors="replace") for p in sorted(Path(folder).iterdir())}
    findings = [p for p, text in texts.items() if FINDING.search(text) and not is_criterions(text)]
    for path in findings:
        print(f"\n---- {path}")
        print("\n".join(texts[path].splitlines()[:TAIL]))
    return len(findings)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("--sanitizer", type=Path)
    args = parser.parse_args()
    tests = [json.loads(line) for line in args.log.read_text().splitlines()] if args.log.exists() else []
    passed = failed = skipped = 0
    broken, skips = [], Counter()
    for test in tests:
        good, bad, left_out, reasons = count(test)
        passed, failed, skipped = passed + good, failed + bad, skipped + left_out
        broken += [test] if bad else []
        skips.update(reasons)
    for reason, times in skips.items():
        print(f"skipped: {reason}" + (f" ({times} times)" if times > 1 else ""))
    for test in broken:
        show_failure(test)
    if args.sanitizer:
        failed += sanitizer_findings(args.sanitizer)
    if not tests:
        print("no test ran")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
