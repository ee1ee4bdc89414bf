#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the device code of the GPU family with nvcc or hipcc, a program for each variant of a file, and lists what came out.

    gen_cuda.py include NVCC                prints the folder of its headers
    gen_cuda.py targets HIPCC TARGET[,TARGET...]  prints those that HIPCC compiles for, with commas between
    gen_cuda.py program NVCC FOLDER[,FOLDER...] FILE VARIANT OUT.fatbin OUT.txt
    gen_cuda.py program HIPCC:TARGET[,TARGET...] FOLDER[,FOLDER...] FILE VARIANT OUT.fatbin OUT.txt
    gen_cuda.py table FILE... FATBIN...     prints C: the programs, with their images by .incbin, and the names of the files
    gen_cuda.py registers TXT...            prints Markdown: registers of each kernel for each architecture
    gen_cuda.py twins FOLDER[,FOLDER...] FILE... FATBIN...  prints C: each kernel in the images with its arguments

A VARIANT is FILE_TYPE_GROUP[_DTYPE], as plugins/gpu/launch.c asks for it; it is the name of the program. A kernel of it is
KERNEL__VARIANT, so that names are unique among all programs. An image of nvcc has machine code for sm_80 and sm_90, and PTX
for all later GPUs; one of hipcc has machine code for each target. A kernel that spills registers, or keeps its variables in memory, is an
error, but for targets of hipcc that nobody has compiled for yet: there it is slow.
"""
import hashlib
import os
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from gen_device import expand, without_comments

RUN = 4  # elements that an item of a dense program computes: gpu_dense_run of plugins/gpu/launch.c
# Products and sums stay apart as the dialect says; an unused function is an ordinary thing in a shared header.
NVCC = ["-fatbin", "--no-compress", "-gencode", "arch=compute_80,code=[sm_80,sm_90,compute_80]", "-O3", "-fmad=false",
        "-Xptxas", "-v", "-diag-suppress", "177,550"]
HIPCC = ["--genco", "-O3", "-ffp-contract=off", "-Wno-pass-failed", "-Rpass-analysis=kernel-resource-usage"]
KNOWN_TARGETS = ("sm_80", "sm_90", "gfx90a", "gfx1030")
# Kernels with arrays that are indexed by data, which lie in memory of each item.
IN_MEMORY = {"transpose": "a tile; for processors", "radix_count": "digits; for processors", "radix_move": "digits; for processors",
             "select_first": "the elements that are kept, in their order"}
KERNEL = re.compile(r"\bGPU_KERNEL\s+void\s+(\w+)\s*\(([^)]*)\)")


def include(nvcc):
    said = subprocess.run([nvcc, "-dryrun", "x.cu"], capture_output=True, text=True).stderr
    top = re.search(r"^#\$ TOP=(.*)$", said, re.M)
    print(Path(top[1], "include").resolve() if top else "")


def targets(hipcc, wanted):
    """A compiler may know a target for which the device libraries are lacking: so each one is tried."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty.hip")
        source.write_text('extern "C" __attribute__((global)) void empty(float *x) { *x = __builtin_sqrtf(*x); }\n')
        tries = [subprocess.Popen([hipcc, "--genco", f"--offload-arch={t}", source, "-o", f"{source}.{t}"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, env={**os.environ, "TMPDIR": folder}) for t in wanted.split(",")]
        print(",".join(t for t, one in zip(wanted.split(","), tries) if one.wait() == 0))


def parts_of(variant):
    """File, type, group and dtype (None: any) of a variant."""
    stem, numbers = re.fullmatch(r"(\w+?)((?:_\d+)+)", variant).groups()
    kind, group, *dtype = map(int, numbers[1:].split("_"))
    return stem, kind, group, dtype[0] if dtype else None


def options(variant):
    """What plugins/gpu/launch.c writes for a variant."""
    stem, kind, group, dtype = parts_of(variant)
    words = [f"-DGPU_TYPE={kind}", f"-DGPU_GROUP={group}", "-DGPU_PROCESSOR=0"]
    if kind == 32:
        words.append("-cl-single-precision-constant")
    if dtype is not None:
        words.append(f"-DGPU_DTYPE={dtype}")
        if stem == "pointwise":
            words += ["-DGPU_DENSE=1", f"-DGPU_RUN={RUN}"]
    return words


def text_of(path, folders):
    return without_comments("\n".join(expand(Path(path), [Path(f) for f in folders.split(",")], set())))


def program(compiler, folders, path, variant, out, log):
    compiler, _, targets = compiler.partition(":")
    flags = HIPCC + [f"--offload-arch={t}" for t in targets.split(",")] if targets else NVCC
    source = Path(out).with_suffix(".hip" if targets else ".cu")
    command = [compiler, *flags, *(word for word in options(variant) if not word.startswith("-cl")), str(source), "-o", out]
    text = f"// {' '.join(command)}\n" + KERNEL.sub(lambda m: m[0].replace(m[1], f"{m[1]}__{variant}", 1), text_of(path, folders))
    if Path(out).exists() and Path(log).exists() and source.exists() and source.read_text() == text:
        Path(out).touch()  # a comment changed, or a header of other files
        Path(log).touch()
        return
    source.write_text(text)
    with tempfile.TemporaryDirectory(dir=source.parent) as temporary:  # hipcc leaves an empty folder for each program
        run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TMPDIR": temporary})
    said = [l for l in (run.stdout + run.stderr).splitlines() if not l.startswith("ptxas info")]
    Path(log).write_text(run.stdout + run.stderr)
    if run.returncode:
        source.unlink()
        sys.exit(f"{variant}: {Path(compiler).name} failed\n" + "\n".join(said))
    spilling = [name for name, target, _, spilled in resources(log, targets)
                if spilled and target in KNOWN_TARGETS and not (targets and name.split("__")[0] in IN_MEMORY)]
    if spilling:
        source.unlink()  # so that the next build says it again
        sys.exit(f"{variant}: registers are spilled, or variables lie in memory, in {', '.join(spilling)}")


def resources(log, targets=""):
    """Kernel, architecture, registers and bytes of an item's memory (nvcc: of what is spilled) of each kernel in a compiler's text."""
    text = Path(log).read_text()
    name = architecture = None
    spilled = 0
    for line in text.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            name, architecture = match[1], match[2]
        elif match := re.search(r"(\d+) bytes spill stores", line):
            spilled = int(match[1])
        elif match := re.search(r"Used (\d+) registers", line):
            yield name, architecture, int(match[1]), spilled
    turns = {}
    for part in text.split("Function Name: ")[1:]:  # of hipcc, for each target in turn, in the order of their names
        # gfx90a moves vector registers to its accumulators first, which costs no memory and does not count as a spill here.
        vectors, scratch = (int(re.search(p, part)[1]) for p in (r" VGPRs: (\d+)", r"ScratchSize [^:]*: (\d+)"))
        name = part.split()[0]
        turns[name] = turns.get(name, -1) + 1
        yield name, sorted(targets.split(","))[turns[name]] if targets else "", vectors, scratch


def table(paths):
    images = [path for path in paths if path.endswith(".fatbin")]
    print('/* Made by tools/gen_cuda.py. */\n#include "gpu.h"\n#include "modules.h"\n')
    for image in images:
        name = Path(image).stem
        print(f'__asm__(".pushsection .rodata\\n.balign 64\\ngpu_image_{name}:\\n.incbin \\"{image}\\"\\n.balign 64\\n.popsection\\n");\n'
              f'extern const uint8_t gpu_image_{name}[] __attribute__((visibility("hidden")));')
    print("\nconst gpu_module gpu_modules[] = {")
    for image in images:
        name, data = Path(image).stem, Path(image).read_bytes()
        digest = hashlib.sha256(data).hexdigest()[:16]  # so that this text changes with the image
        print(f'    {{"{parts_of(name)[0]}.cl", "{" ".join(options(name))}", gpu_image_{name}, {len(data)}}}, /* {digest} */')
    print("    {0, 0, 0, 0},\n};\n\nconst gpu_source gpu_sources[] = {")
    for path in paths:
        if path not in images:
            print(f'    {{"{Path(path).name}", "{Path(path).stem}"}},')
    print("    {0, 0},\n};")


def registers(logs):
    found = {}
    for log in logs:
        for name, architecture, count, _ in resources(log):
            kernel, variant = name.split("__")
            key = (parts_of(variant)[0] + ".cl", kernel)
            found.setdefault(key, {}).setdefault(architecture, []).append(count)
    names = sorted({a for counts in found.values() for a in counts})
    print("| file | kernel | programs | " + " | ".join(names) + " |\n|---|---|---|" + "---|" * len(names))
    for (path, kernel), counts in sorted(found.items()):
        cells = [f"{min(c)}" if min(c) == max(c) else f"{min(c)}-{max(c)}" for c in (counts[a] for a in names)]
        print(f"| `{path}` | `{kernel}` | {len(counts[names[0]])} | " + " | ".join(cells) + " |")


def kernels_of_image(path):
    """For each cubin in an image that is not compressed, the names of its kernels: global functions of its symbols."""
    data = Path(path).read_bytes()
    at = data.find(b"\x7fELF")
    while at >= 0:
        section_offset, = struct.unpack_from("<Q", data, at + 40)
        size, count = struct.unpack_from("<HH", data, at + 58)
        names = set()
        for i in range(count):
            head = at + section_offset + i * size
            _, kind, _, _, offset, length, link = struct.unpack_from("<IIQQQQI", data, head)
            if kind != 2:
                continue
            strings, = struct.unpack_from("<Q", data, at + section_offset + link * size + 24)
            for symbol in range(at + offset, at + offset + length, 24):
                name, info = struct.unpack_from("<IB", data, symbol)
                if info == 0x12:
                    begin = at + strings + name
                    names.add(data[begin:data.index(b"\0", begin)].decode())
        yield names
        at = data.find(b"\x7fELF", at + 4)


def argument(text):
    """The size of an argument, as C; 0 for memory."""
    if "GPU_GLOBAL" in text:
        return "0"
    return f"sizeof({text.split()[0]})"


def twins(folders, paths):
    signatures = {}
    images = [path for path in paths if path.endswith(".fatbin")]
    for path in paths:
        if path in images:
            continue
        text = text_of(path, folders)
        signatures[Path(path).stem] = {m[1]: [argument(a.strip()) for a in m[2].split(",")] for m in KERNEL.finditer(text)}
    print('/* Made by tools/gen_cuda.py. */\n#include "twins.h"\n\nconst twin twins[] = {')
    for image in images:
        variant = Path(image).stem
        stem = parts_of(variant)[0]
        for_each = list(kernels_of_image(image))
        if not for_each or not for_each[0] or any(names != for_each[0] for names in for_each):
            sys.exit(f"{variant}: the architectures have different kernels")
        for name in sorted(for_each[0]):
            kernel = name.split("__")[0]
            if name != f"{kernel}__{variant}" or kernel not in signatures[stem]:
                sys.exit(f"{variant}: the image has the kernel {name}, the source has not")
            sizes = signatures[stem][kernel]
            print(f'    {{"{name}", "{stem}.cl", "{" ".join(options(variant))}", "{kernel}", {len(sizes)}, {{{", ".join(sizes)}}}}},')
    print("    {0},\n};")


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    if command == "include":
        include(rest[0])
    elif command == "targets":
        targets(*rest)
    elif command == "program":
        program(*rest)
    elif command == "twins":
        twins(rest[0], rest[1:])
    else:
        {"table": table, "registers": registers}[command](rest)
