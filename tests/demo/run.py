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


def refused(program, arguments, *words):
    """It ends at once, with a message that names what is wrong."""
    run = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=600)
    return run.returncode != 0 and "training [" not in run.stdout and all(word in run.stderr for word in words)


def bad_options(program, folder):
    yield "a seed that is not a number", refused(program, ["--seed", "1x"], "--seed", "1x")
    yield "a seed beyond 64 bits", refused(program, ["--seed", "99999999999999999999"], "--seed", "99999999999999999999")
    yield "an empty number", refused(program, ["--epochs", ""], "--epochs")
    yield "an unknown option", refused(program, ["--epoch", "1"], "--epoch")
    yield "an option without its value", refused(program, ["--epochs"], "--epochs")
    yield "a number after an equals sign", refused(program, ["--batch=x"], "--batch", "'x'")
    yield "no epochs", refused(program, ["--epochs", "0"], "--epochs", "from 1")
    yield "a dtype that it does not train in", refused(program, ["--dtype", "int8"], "--dtype", "int8", "bf16")
    yield "a batch of more than there is", refused(program, ["--images", "64", "--device", "cpu", "--output", folder], "128", "64")
    yield "a folder that cannot be made", refused(program, ["--output", "/proc/demo"], "--output", "/proc/demo")
    yield "a device that is not there", refused(program, ["--device", "nosuch", "--output", folder], "nosuch")


def main():
    if not DATA.is_dir():
        print("skipped: dataset-fashion-mnist is not installed\n0 passed, 0 failed, 1 skipped")
        return 77
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        accuracy, curve, weights = train(sys.argv[1], 1, Path(one))
        again = train(sys.argv[1], 2, Path(two))
        refusals = dict(bad_options(sys.argv[1], one))
    checks = {"learns (at least 65 %)": accuracy >= 65, "same accuracy with two threads": again[0] == accuracy,
              "same curve": again[1] == curve, "same weights": again[2] == weights}
    checks.update((f"refuses {text}", good) for text, good in refusals.items())
    for text, good in checks.items():
        print("ok  " if good else "FAIL", text)
    failed = sum(not good for good in checks.values())
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
