#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tenon/device_kernel.h is OpenCL C and CUDA too: the kernel of its own comment compiles with it, without a warning.

    device_kernel.py CLANG INCLUDE
"""
import re
import subprocess
import sys
from pathlib import Path

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
          "-Wno-unused-function", "-Wno-unknown-cuda-version"]
# What a kernel may use of the header beside the example.
USES = """
__kernel void others(__global float *out, __global const ushort *in, ulong seed)
{
    uint counter[4] = {1, 0, 0, 0}, key[2] = {(uint)seed, 0}, words[4];
    tn_philox(counter, key, words);
    tn_random_words(seed, 1, words);
    out[0] = tn_uniform_float(words[0], 1) + tn_float_of_half(in[0]) + tn_float_of_bfloat16(in[1]);
    out[1] = tn_float_of_half(tn_half_of_float(out[0])) + tn_float_of_bfloat16(tn_bfloat16_of_float(out[0]));
    out[2] = tn_uniform_float((uint)tn_random_word(seed, 0, get_global_id(0), 0), 0);
}
"""


def compiles(clang, language, options, text):
    command = [clang, "-x", language, *STRICT, *options, "-"]
    run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=600)
    if run.returncode:
        print(" ".join(command), run.stderr[:3000], sep="\n")
    return run.returncode == 0


def main():
    clang, include = sys.argv[1:]
    header = (Path(include) / "tenon/device_kernel.h").read_text()
    example = "\n".join(re.findall(r"^ \*     (.*)$", header, re.M))
    assert "__kernel void add" in example, "the comment has an example"
    failed = 0
    for standard in ("CL1.2", "CL2.0", "CL3.0"):
        for text in (f"#include <tenon/device_kernel.h>\n{example}\n{USES}", f"{header}\n{example}\n{USES}"):
            options = [f"-cl-std={standard}", "-Xclang", "-finclude-default-header", f"-I{include}"]
            failed += not compiles(clang, "cl", options, text)
        # A device without double: the header must not use it.
        options = [f"-cl-std={standard}", "-Xclang", "-finclude-default-header", "-Xclang", "-cl-ext=-cl_khr_fp64,-__opencl_c_fp64", f"-I{include}"]
        failed += not compiles(clang, "cl", options, f"#include <tenon/device_kernel.h>\n{example}\n{USES}")
    # CUDA and HIP compile it for both sides; clang knows their words as attributes.
    words = "#define __host__ __attribute__((host))\n#define __device__ __attribute__((device))\n#define __CUDACC__ 1\n"
    call = "#define __global__ __attribute__((global))\n__global__ void f(tn_s64 *o, tn_walk w) { *o = tn_walk_offset(&w, 0, 1); }\n"
    options = ["-nocudainc", "-nocudalib", "--cuda-device-only", "-std=c++17", f"-I{include}"]
    failed += not compiles(clang, "cuda", options, f"{words}#include <tenon/device_kernel.h>\n{call}")
    print(f"{10 - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
