#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Machines without a Vulkan driver: the plugin loads, says why it has no device, and other devices go on.

    absent.py TENON
"""
import os
import subprocess
import sys


def main():
    done = subprocess.run([sys.argv[1], "doctor"], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "VK_ICD_FILENAMES": "/nonexistent/driver.json", "VK_DRIVER_FILES": "/nonexistent/driver.json"})
    if "libvulkan.so.1 is not installed" in done.stdout:
        print("skipped: no Vulkan loader (Debian: libvulkan1)\n0 passed, 0 failed, 1 skipped")
        return 77
    wanted = ("found no driver (ICD): VK_ERROR_INCOMPATIBLE_DRIVER", "loaded   vulkan", "\n  cpu  (chosen)")
    lacking = [text for text in wanted if text not in done.stdout]
    if lacking:
        print(f"doctor does not say {lacking}:\n{done.stdout}{done.stderr}")
    print(f"{len(wanted) - len(lacking)} passed, {len(lacking)} failed, 0 skipped")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
