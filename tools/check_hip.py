#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the device code of the GPU family with hipcc, every variant that plugins/gpu/meson.build lists.

    check_hip.py --work FOLDER [--targets gfx906,...]

It is an error if a variant does not compile, if the targets have different kernels, or if one spills vector registers.
"""
import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gen_cuda import KERNEL, kernels_of_image, options, parts_of, text_of

HOUSE = Path(__file__).resolve().parent.parent
FOLDERS = ",".join(str(HOUSE / f) for f in ("plugins/gpu/device", "plugins/formulas", "abi/include/tenon"))
TARGETS = "gfx906"
FLAGS = ["--genco", "-O3", "-ffp-contract=off", "-Wno-pass-failed", "-Rpass-analysis=kernel-resource-usage"]


def variants(meson):
    """The words of a list in meson, FILE:TYPE[:GROUP[:DTYPE]], as names of programs."""
    found = []
    for name, words in re.findall(r"^  '(\w+)': \[([^\]]*)\]", meson, re.M):
        for word in re.findall(r"'([\d:]+)'", words):
            found.append("_".join([name, *(word.split(":") + ["0"] * (":" not in word))]))
    return found


def compile_one(variant, targets, work):
    source, out = work / f"{variant}.hip", work / f"{variant}.co"
    text = text_of(HOUSE / "plugins/gpu/device" / f"{parts_of(variant)[0]}.cl", FOLDERS)
    source.write_text(text)
    command = ["hipcc", *FLAGS, *(f"--offload-arch={t}" for t in targets), *(w for w in options(variant) if not w.startswith("-cl")),
               str(source), "-o", str(out)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        return variant, None, [f"{variant}: hipcc failed\n{run.stdout}{run.stderr}"]
    return variant, run.stderr, [f"{variant}: {w}" for w in wrong_of(out, run.stderr, targets)]


def wrong_of(out, said, targets):
    images = list(kernels_of_image(out))
    if len(images) != len(targets) or not images[0] or any(image != images[0] for image in images):
        yield f"{len(images)} code objects for {len(targets)} targets, or not the same kernels in each"
    for kernel, _, spilled in resources(said):
        if spilled:
            yield f"{kernel} spills {spilled} vector registers"


def resources(said):
    """Kernel, vector registers and how many of them are spilled, for each target in turn."""
    for part in said.split("Function Name: ")[1:]:
        yield (part.split()[0], int(re.search(r" VGPRs: (\d+)", part)[1]), int(re.search(r"VGPRs Spill: (\d+)", part)[1]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--targets", default=TARGETS, type=lambda t: t.split(","))
    parser.add_argument("--work", required=True, type=Path)
    a = parser.parse_args()
    a.work.mkdir(parents=True, exist_ok=True)
    names = variants((HOUSE / "plugins/gpu/meson.build").read_text())
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda v: compile_one(v, a.targets, a.work), names))
    wrong = [w for _, _, found in done for w in found]
    print(*wrong, sep="\n")
    most = max((count for _, said, _ in done if said for _, count, _ in resources(said)), default=0)
    print(f"{len(names)} programs for {', '.join(a.targets)}; at most {most} vector registers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
