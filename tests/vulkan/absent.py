#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Machines without a Vulkan driver: the plugin loads, says why it has no device, and other devices go on.

    absent.py TENON
"""
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "gpu"))
sys.dont_write_bytecode = True
from unloadable import report  # noqa: E402


def main():
    done = subprocess.run([sys.argv[1], "doctor"], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "VK_ICD_FILENAMES": "/nonexistent/driver.json", "VK_DRIVER_FILES": "/nonexistent/driver.json"})
    if "libvulkan.so.1 is not installed" in done.stdout:
        print("skipped: no Vulkan loader (Debian: libvulkan1)\n0 passed, 0 failed, 1 skipped")
        return 77
    return report(done, "found no driver (ICD): VK_ERROR_INCOMPATIBLE_DRIVER", "loaded   vulkan", "\n  cpu  (chosen)")


if __name__ == "__main__":
    sys.exit(main())
