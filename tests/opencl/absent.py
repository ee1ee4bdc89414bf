#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Machines without an OpenCL device: the plugin loads, says why it has none, and other devices go on.

    absent.py TENON PLUGIN EMPTY_ICD    EMPTY_ICD is a driver without devices
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def doctor(tool, vendors):
    done = subprocess.run([tool, "doctor"], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "OCL_ICD_VENDORS": str(vendors)})
    return done.stdout + done.stderr


def main():
    tool, _, empty = sys.argv[1:]
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "none").mkdir()
        (folder / "broken").mkdir()
        (folder / "broken" / "broken.icd").write_text("/nonexistent/libdriver.so\n")
        (folder / "empty").mkdir()
        (folder / "empty" / "empty.icd").write_text(empty + "\n")
        for vendors, reason in ((folder / "none", "found no driver (ICD)"), (folder / "broken", "found no driver (ICD)"),
                                (Path("/nonexistent"), "found no driver (ICD)"),
                                (folder / "empty", "found 1 driver (ICD) without a device")):
            said = doctor(tool, vendors)
            if "libOpenCL.so.1 is not installed" in said:
                print("skipped: no ICD loader (Debian: ocl-icd-libopencl1)\n0 passed, 0 failed, 1 skipped")
                return 77
            if reason not in said or "loaded   opencl" not in said or "\n  cpu  (chosen)" not in said:
                failures.append(f"{vendors.name}: doctor does not say '{reason}':\n{said}")
    print(*failures, sep="\n")
    print(f"{4 - len(failures)} passed, {len(failures)} failed, 0 skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
