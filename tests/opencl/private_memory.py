#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels of OpenCL C keep their variables and arguments in registers: clang compiles them for a GPU and says what lies in memory.

    private_memory.py CLANG TOOLS FOLDER,... FILE.cl:TYPE[:GROUP[:DTYPE]]...

TOOLS has gen_cuda.py, which knows the kernels that need such memory. Of a file the first program is compiled that computes in float, or
the first one. Where the device libraries of ROCm are not installed, the test is skipped.
"""
import glob
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TARGET = "gfx1030"
LIBRARIES = ["/usr/lib/*/amdgcn/bitcode", "/opt/rocm/amdgcn/bitcode"]


def kernels_of(clang, folders, library, path, options):
    """Bytes of memory that an item of each kernel has."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.s")
        command = [clang, "-x", "cl", "-cl-std=CL1.2", "-target", "amdgcn-amd-amdhsa", f"-mcpu={TARGET}", "-O3", "-w", "-S",
                   f"--rocm-device-lib-path={library}", "-Xclang", "-finclude-default-header", *(f"-I{f}" for f in folders), *options,
                   path, "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stderr}")
        found = re.findall(r"\.amdhsa_kernel (\w+)\n.*?private_segment_fixed_size (\d+)", out.read_text(), re.S)
        return {name: int(size) for name, size in found}


def main():
    clang, tools, folders, *words = sys.argv[1:]
    sys.path.insert(0, tools)
    from gen_cuda import IN_MEMORY, options
    library = next((found for pattern in LIBRARIES for found in glob.glob(pattern) if Path(found, "opencl.bc").exists()), None)
    if not library:
        print("the device libraries of ROCm are not installed")
        sys.exit(77)
    chosen = {}
    for word in words:
        path, *numbers = word.split(":")
        if path not in chosen or (numbers[0] == "32" and chosen[path][0] != "32"):
            chosen[path] = numbers
    jobs = [(path, options("_".join([Path(path).stem, *numbers, *["0"] * (len(numbers) == 1)]))) for path, numbers in chosen.items()]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda job: kernels_of(clang, folders.split(","), library, *job), jobs))
    failures = [f"{Path(path).name}: an item of {name} has {size} bytes in memory" for (path, _), kernels in zip(jobs, found)
                for name, size in kernels.items() if size and name not in IN_MEMORY]
    failures += [f"no kernel has memory for {name}: take it out of IN_MEMORY" for name in IN_MEMORY
                 if not any(kernels.get(name) for kernels in found)]
    print(f"{sum(map(len, found))} kernels of {len(jobs)} programs")
    sys.exit("\n".join(failures) or 0)


if __name__ == "__main__":
    main()
