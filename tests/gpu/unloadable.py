#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A runtime of a vendor that is there and cannot be loaded: the plugin says so with the reason, and not that it is absent.

    unloadable.py TENON TYPE LIBRARY
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def report(done, *wanted):
    """The status of a test of doctor: it says all that is wanted, or what it said instead is printed."""
    lacking = [text for text in wanted if text not in done.stdout]
    if lacking:
        print(f"doctor does not say {lacking}:\n{done.stdout}{done.stderr}")
    print(f"{len(wanted) - len(lacking)} passed, {len(lacking)} failed, 0 skipped")
    return 1 if lacking else 0


def main():
    tool, device, library = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, library)
        file.write_text("This is not a library, but it is longer than the head of one, so that the loader reads all of its head.\n")
        done = subprocess.run([tool, "doctor"], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "LC_ALL": "C", "LD_LIBRARY_PATH": folder})
    return report(done, f"loaded   {device}", f"{library} cannot be loaded: {file}: invalid ELF header", "\n  cpu  (chosen)")


if __name__ == "__main__":
    sys.exit(main())
