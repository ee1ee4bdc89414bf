# SPDX-License-Identifier: Apache-2.0
"""What the scripts that test commands share: checks that fail by an exception, run one after the other."""
import json
import subprocess


class Failure(Exception):
    pass


def run_checks(checks, *arguments):
    """The exit status: 1 when a check failed. Each is called with the arguments."""
    failed = 0
    for check in checks:
        try:
            check(*arguments)
        except (Failure, json.JSONDecodeError, subprocess.TimeoutExpired) as e:
            print(f"{check.__name__}: {e}")
            failed += 1
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0
