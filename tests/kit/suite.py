# SPDX-License-Identifier: Apache-2.0
"""What the scripts that test commands share: checks that fail by an exception, run one after the other."""
import contextlib
import json
import os
import signal
import subprocess


class Failure(Exception):
    pass


@contextlib.contextmanager
def session(command, environment):
    """A process with a session of its own, of which nothing is left at the end."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def end(process):
    """Asks a session to end, as `timeout` does; what the command then says."""
    os.killpg(process.pid, signal.SIGTERM)
    said = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, *said)


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
