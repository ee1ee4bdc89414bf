#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which GPUs the HIP plugin has device code for, if the build may choose: those that hipcc compiles for, as here a compiler that
knows two targets and has the device library of one. And which programs the build takes, from what a compiler says about memory.

    targets.py GEN_CUDA
"""
import subprocess
import sys
import tempfile
from pathlib import Path

COMPILER = """#!/bin/sh
for word in "$@"; do
    case "$word" in
        --offload-arch=gfx90a) known=1 ;;
        --offload-arch=gfx1100) echo "cannot find ROCm device library for gfx1100" >&2; exit 1 ;;
        --offload-arch=*) echo "invalid target ID" >&2; exit 1 ;;
        -o) shows=1 ;;
    esac
done
[ "$known$shows" = 11 ]
"""

# Says that an item of KERNEL has SCRATCH bytes of memory.
TELLS = """#!/bin/sh
printf 'Function Name: KERNEL__memory_0_0\\n    VGPRs: 9\\n    ScratchSize [bytes/lane]: SCRATCH\\n    VGPRs Spill: 0\\n' >&2
"""


def status_of(tool, folder, kernel, scratch, target):
    hipcc, source = Path(folder, "hipcc"), Path(folder, "memory.cl")
    hipcc.write_text(TELLS.replace("KERNEL", kernel).replace("SCRATCH", str(scratch)))
    hipcc.chmod(0o755)
    source.write_text("")
    return subprocess.run([sys.executable, tool, "program", f"{hipcc}:{target}", folder, source, "memory_0_0", f"{folder}/out.fatbin",
                           f"{folder}/out.txt"], capture_output=True).returncode


def main(tool):
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for kernel, scratch, target, expected in [("copy", 0, "gfx90a", 0), ("copy", 16, "gfx90a", 1), ("copy", 16, "gfx906", 0),
                                                  ("transpose", 16, "gfx90a", 0)]:
            if status_of(tool, folder, kernel, scratch, target) != expected:
                failures.append(f"{kernel} with {scratch} bytes for {target}: the status is not {expected}")
    with tempfile.TemporaryDirectory() as folder:
        hipcc = Path(folder, "hipcc")
        hipcc.write_text(COMPILER)
        hipcc.chmod(0o755)
        for wanted, expected in [("gfx90a,gfx942,gfx1100", "gfx90a"), ("gfx942,gfx90a", "gfx90a"), ("gfx942,gfx1100", "")]:
            done = subprocess.run([sys.executable, tool, "targets", hipcc, wanted], capture_output=True, text=True)
            if done.returncode or done.stdout.strip() != expected:
                failures.append(f"{wanted}: '{done.stdout.strip()}', expected '{expected}'\n{done.stderr}")
    print(*failures, sep="\n")
    print(f"{7 - len(failures)} passed, {len(failures)} failed, 0 skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
