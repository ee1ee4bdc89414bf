#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A short run of the demo: it learns, writes its files, and the same seed gives the same curve with any number of threads."""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path("/usr/share/datasets/fashion-mnist")


def train(program, threads, folder):
    command = [program, "--epochs", "1", "--images", "2560", "--threads", str(threads), "--output", str(folder), "--device", "cpu"]
    run = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"^test accuracy: ([\d.]+) %$", run.stdout, re.M)
    if run.returncode or not found:
        sys.exit(f"{run.stdout[-1500:]}\n{run.stderr[-1500:]}\n0 passed, 1 failed, 0 skipped")
    return float(found[1]), (folder / "loss.svg").read_bytes(), (folder / "weights.safetensors").read_bytes()


def main():
    if not DATA.is_dir():
        print("skipped: dataset-fashion-mnist is not installed\n0 passed, 0 failed, 1 skipped")
        return 77
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        accuracy, curve, weights = train(sys.argv[1], 1, Path(one))
        again = train(sys.argv[1], 2, Path(two))
    checks = {"learns (at least 65 %)": accuracy >= 65, "same accuracy with two threads": again[0] == accuracy,
              "same curve": again[1] == curve, "same weights": again[2] == weights}
    for text, good in checks.items():
        print("ok  " if good else "FAIL", text)
    failed = sum(not good for good in checks.values())
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
