#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the device code of the GPU family to SPIR-V for OpenCL and prints a C file with the modules (plugins/gpu/modules.h).

    gen_spirv.py --clang CLANG --translator LLVM-SPIRV --validator SPIRV-VAL --folders FOLDER,... --work FOLDER
                 FILE:TYPE[:GROUP[:DTYPE]]...

clang and llvm-spirv are of one version. FILE is a path; TYPE, GROUP and DTYPE are the numbers that launch.c gives.
Optimisation is left to the driver: the translator takes no optimised code. A module that spirv-val refuses ends the build.

Variants that do not compute in double are compiled twice. Their ordinary modules convert from and to float64, which
compilers for devices without float64 refuse. The second modules have no double at all; WITHOUT_DOUBLE ends their options.
"""
import argparse
import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gen_cuda import options  # what launch.c writes for a variant

WITHOUT_DOUBLE = "-cl-ext=-cl_khr_fp64"  # XPU_WITHOUT_DOUBLE of plugins/xpu/program.c
COMPUTES_IN_DOUBLE = "64"


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def compile_one(a, job):
    word, has_double = job
    path, *variant = word.split(":")
    name = Path(path).name
    if len(variant) == 1:
        variant.append("0")
    variant = "_".join([Path(path).stem, *variant])
    words = options(variant)
    base = a.work / (variant if has_double else f"{variant}_without_double")
    limits = [] if has_double else ["-Xclang", WITHOUT_DOUBLE]
    run(a.clang, "-x", "cl", "-cl-std=CL1.2", "-target", "spir64", "-O2", "-Xclang", "-disable-llvm-passes", "-Xclang",
        "-finclude-default-header", *limits, *(f"-I{f}" for f in a.folders), *words, "-emit-llvm", "-c", path, "-o", f"{base}.bc")
    run(a.translator, "--spirv-max-version=1.2", f"{base}.bc", "-o", f"{base}.spv")
    run(a.validator, "--target-env", "opencl2.2", f"{base}.spv")
    return name, " ".join(words + limits[1:]), f"{base}.spv"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clang", required=True)
    parser.add_argument("--translator", required=True)
    parser.add_argument("--validator", required=True)
    parser.add_argument("--folders", required=True, type=lambda text: text.split(","))
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("variants", nargs="+")
    a = parser.parse_args()
    a.work.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(2) as pool:
        jobs = [(word, True) for word in a.variants] + \
            [(word, False) for word in a.variants if word.split(":")[1] != COMPUTES_IN_DOUBLE]
        modules = list(pool.map(lambda job: compile_one(a, job), jobs))
    print('/* Made by tools/gen_spirv.py. */\n#include "modules.h"\n')
    for i, (_, _, path) in enumerate(modules):
        print(f'__asm__(".section .rodata\\n.balign 8\\n.hidden gpu_module_{i}\\n.globl gpu_module_{i}\\ngpu_module_{i}:\\n'
              f'.incbin \\"{Path(path).resolve()}\\"\\n.previous\\n");\nextern const uint8_t gpu_module_{i}[];')
    print("\nconst gpu_module gpu_modules[] = {")
    for i, (name, words, path) in enumerate(modules):
        data = Path(path).read_bytes()
        digest = hashlib.sha256(data).hexdigest()[:16]  # so that this text changes with the module
        print(f'    {{"{name}", "{words}", gpu_module_{i}, {len(data)}}}, /* {digest} */')
    print("    {0, 0, 0, 0},\n};")


if __name__ == "__main__":
    main()
