#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Machines without a device of Level Zero: the plugin loads, says why it has none, and other devices go on.

    absent.py TENON
"""
import os
import subprocess
import sys


def main():
    environment = {k: v for k, v in os.environ.items() if k != "ZE_ENABLE_ALT_DRIVERS"}
    done = subprocess.run([sys.argv[1], "doctor"], capture_output=True, text=True, timeout=60, env=environment)
    said = done.stdout + done.stderr
    if "Level Zero test device" in said or "xpu:0" in said:
        print("skipped: this machine has a device of Level Zero\n0 passed, 0 failed, 1 skipped")
        return 77
    good = "loaded   xpu" in said and "\n  cpu  (chosen)" in said and \
        ("libze_loader.so.1 is not installed" in said or "libze_loader.so.1 found no driver: zeInit gives ZE_RESULT_ERROR_UNINITIALIZED" in said)
    print("" if good else said, f"{int(good)} passed, {int(not good)} failed, 0 skipped", sep="\n")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
