#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test programs with the reference device's chaos on: TENON_REFERENCE_CHAOS=SEED. Short form: one seed; TENON_TEST_LONG=1:
twelve. A failure is printed with the seed that shows it again."""
import os
import subprocess
import sys

SEEDS = range(1, 13) if os.environ.get("TENON_TEST_LONG") else range(1, 2)


def main():
    passed = failed = 0
    for seed in SEEDS:
        environment = dict(os.environ, TENON_REFERENCE_CHAOS=str(seed))
        for program in sys.argv[1:]:
            run = subprocess.run(program.split(), capture_output=True, text=True, env=environment, timeout=600)
            good = run.returncode in (0, 77)
            passed += good
            failed += not good
            if not good:
                print(f"FAIL TENON_REFERENCE_CHAOS={seed} {program}: status {run.returncode}\n{run.stdout[-2000:]}\n{run.stderr[-2000:]}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
