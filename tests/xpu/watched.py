#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a test and fails, too, if the test driver of Level Zero had something to report.

    watched.py COMMAND...
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report"
        status = subprocess.run(sys.argv[1:], env={**os.environ, "ZE_TEST_REPORT": str(file)}).returncode
        found = file.read_text().splitlines() if file.exists() else []
    for line in dict.fromkeys(found):
        print(f"{line} ({found.count(line)} times)")
    return status or int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
