#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon check` on a plugin of the GPU family: tiers 0 to 4 are whole, every kernel runs on the device, nothing fails.

    check.py TENON PLUGIN [--unsupported FILE] [NAME...]

NAME: what this device leaves to the CPU besides, in some dtype; FILE: cases that it cannot run, each with the reason
"""
import json
import os
import subprocess
import sys

# What the family leaves to the CPU: complex numbers of float16.
LEFT_OUT = {"aten::complex"}
# A sanitizer sees the host's code, which is the same for all dtypes: enough is one of each kind, and tier 1's cases without any.
SANITIZED = ["--filter", "^[0234]/|^1/(options|late)/|/out-of-range/|/(float32|bfloat16|int64)(/|$)"] if "SANITIZER_LOGS" in os.environ else []
LEAST_CASES = {0: 45, 1: 8000, 2: 2, 3: 70, 4: 2} # devices without float64 have fewer than others


def main():
    tool, plugin, *more = sys.argv[1:]
    cannot, names = (more[:2], more[2:]) if more[:1] == ["--unsupported"] else ([], more)
    left_out = LEFT_OUT | set(names)
    done = subprocess.run([tool, "check", plugin, "--tier", "4", "--jobs", "2", "--json", "-", *cannot, *SANITIZED], capture_output=True, text=True)
    if "no device here" in done.stdout:
        print("skipped: no device (Debian: pocl-opencl-icd for OpenCL, mesa-vulkan-drivers for Vulkan)\n0 passed, 0 failed, 1 skipped")
        return 77
    report = json.loads(done.stdout)
    wrong = [f"{c['name']}: {c['outcome']}: {c.get('reason', '')}" for c in report["cases"] if not c["as_expected"]]
    for tier in report["tiers"]:
        if not tier["whole"] or tier["passed"] < LEAST_CASES[tier["tier"]] // (4 if SANITIZED else 1):
            wrong.append(f"tier {tier['tier']}: {tier['passed']} cases passed, whole: {tier['whole']}")
    lacking = {name.split("/")[-1] for name in report["tiers"][1]["lacking"]}
    wrong += [f"{name} runs on the CPU" for name in sorted(lacking - left_out)]
    if not SANITIZED:
        wrong += [f"{name} has a kernel by now: take it out of the list" for name in sorted(left_out - lacking)]
    print(*wrong[:100], done.stderr[-2000:], sep="\n")
    passed = sum(c["outcome"] == "passed" for c in report["cases"])
    print(f"{passed} passed, {len(wrong)} failed, 0 skipped")
    return 1 if wrong or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
