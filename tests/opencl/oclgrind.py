#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs kernels.c on oclgrind, which looks at each access of a kernel: every kernel, in the form for processors and in that for GPUs.

    oclgrind.py PROGRAM DRIVER CC FOLDER,... FILE.cl:TYPE[:GROUP[:DTYPE]]... [-- FORM...]

PROGRAM is kernels.c, DRIVER the library of faulty_icd.c. FILE.cl with its numbers are all programs of device code
(plugins/gpu/meson.build), so what the preprocessor finds there is the list of kernels. A kernel that did not run and is not in
NOT_THERE is a failure, and so is one of NOT_THERE that ran, or a finding. A buffer a byte too short must be one.

Each test runs twice: accesses are checked in both, races are looked for in the first and values that were not initialised in the
second. That search crashes in some kernels (oclgrind 21.10), which the report says; the test passes if the first run does.

Without TENON_TEST_DEVICES only the check with the short buffer runs, and one test. oclgrind 21.10 takes memory that
clEnqueueFillBuffer wrote for uninitialised, and a new buffer at the place of an old one for as initialised as that one: see
FAULTY_CHECKED in faulty_icd.c. FORM is processor or gpu; without one it is both.
"""
import collections
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Form, "file variant kernel", why the plugin never queues it there.
NOT_THERE = [
    ("processor", "lines 64:0:9 *", "float64 is left to the composites, which are as exact"),
    ("processor", "product 64:0:9 *pa[cn]*", "panels are of float32"),
    ("processor", "windows 64:?:9 add_windows", "products with windows are of float32"),
    ("processor", "windows * unfold", "windows are packed into panels"),
    ("processor", "windows 32:?:? *_pool_backward", "by images"),
    ("processor", "windows 64:?:9 *_pool_backward", "by images"),
    ("gpu", "memory 0 copy_rows", "for processors"),
    ("gpu", "memory 0 transpose", "for processors"),
    ("gpu", "sort 0:? radix_*", "for processors"),
    ("gpu", "windows 64:?:9 add_windows", "products with windows are of float32"),
    ("gpu", "windows 64:?:9 unfold", "products with windows are of float32"),
    ("*", "windows ?*:1:* convolve*", "the programs of adaptive pooling"),
    ("*", "windows ?*:1:* add_windows", "the programs of adaptive pooling"),
    ("*", "windows ?*:1:* unfold", "the programs of adaptive pooling"),
    ("*", "windows 1:* *_pool_backward", "integers have no gradients"),
    ("*", "windows 1:* average_pool", "means are of floats"),
    ("*", "windows 1:1:? max_pool", "adaptive pooling is of floats"),
    ("*", "windows 1:* convolve*", "convolutions are of floats"),
    ("*", "windows 1:* add_windows", "convolutions are of floats"),
    ("*", "windows 1:* unfold", "convolutions are of floats"),
    ("*", "numbers 1 scatter_rows", "gradients are floats"),
    ("*", "numbers 32 iota", "for devices without float64"),
    ("*", "pointwise 1:1:0 dense", "bools are moved as bytes"),
]
INTEGERS = [f"pointwise 1:1:{dtype} dense" for dtype in (1, 2, 3, 4, 5)]  # in each width
CONTROL = "elements_are_computed"


def kernels_of(cc, folders, word, form):
    """The kernels of a program, as "file variant kernel". Programs of one call are not compiled apart by dtype: see dense."""
    path, *numbers = word.split(":")
    stem, (kind, group, *dtype) = Path(path).stem, (numbers + ["0"])[:max(2, len(numbers))]
    if stem == "pointwise" and dtype:
        return [f"pointwise {':'.join(numbers)} dense"]
    if (stem, form) in (("attention", "gpu"), ("attention_groups", "processor")):
        return []
    options = [f"-DGPU_TYPE={kind}", f"-DGPU_GROUP={group}", f"-DGPU_PROCESSOR={int(form == 'processor')}"]
    options += [f"-DGPU_DTYPE={dtype[0]}"] if dtype else []
    done = subprocess.run([cc, "-E", "-P", "-x", "c", "-D__OPENCL_C_VERSION__=120", "-Dcl_khr_fp64", *options, *(f"-I{f}" for f in folders),
                           path], capture_output=True, text=True, check=True)
    return [f"{stem} {':'.join(numbers)} {name}" for name in re.findall(r"__kernel\b[^;{]*?\bvoid\s+(\w+)", done.stdout)]


def kernels_that_ran(log, files, variants):
    """The same from the lines of FAULTY_KERNELS."""
    ran = set()
    for line in log.read_text().splitlines() if log.exists() else []:
        options, kernel = line.split("\t")
        is_set = dict(re.findall(r"-DGPU_(\w+)=(\d+)", options))
        if kernel == "dense":
            if is_set["DTYPE_0"] == is_set["DTYPE_1"]:
                ran.add(f"pointwise {is_set['TYPE']}:{is_set['GROUP']}:{is_set['DTYPE_0']} dense")
            continue
        parts = [is_set[k] for k in ("TYPE", "GROUP", "DTYPE") if k in is_set]
        names = [f"{files[kernel]} {':'.join(parts[:n])} {kernel}" for n in range(1, len(parts) + 1)]
        ran.add(next((name for name in names[::-1] if name in variants), names[-1]))
    return ran


class Oclgrind:
    def __init__(self, program, driver, folder):
        self.program, self.folder = str(Path(program).resolve()), folder
        command = shutil.which("oclgrind")
        self.library = Path(command).resolve().parent.parent / "lib" / "oclgrind" / "liboclgrind-rt-icd.so" if command else None
        (folder / "oclgrind.icd").write_text(f"{Path(driver).resolve()}\n")

    def run(self, form, test, **more):
        """Findings, and whether the test passed."""
        env = {**os.environ, "OCL_ICD_VENDORS": str(self.folder / "oclgrind.icd"), "FAULTY_DRIVER": str(self.library),
               "FAULTY_KERNELS": str(self.folder / form), "FAULTY_CHECKED": "1", "TENON_ALLOC_CONF": "no_cache:True",
               "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable", **more}
        env.pop("POCL_DEVICES", None)
        if form == "gpu":
            env["FAULTY_GPU"] = "1"
        done = subprocess.run([self.program, "-j1", "--filter", f"kernels/{test}"], capture_output=True, text=True, env=env)
        said = done.stdout + done.stderr
        findings = re.findall(r"^(\w[^\n]*?)(?: at \w+ memory address \w+| to \w+ memory address \w+)?\n\tKernel:? (\w+)", said, re.M)
        return collections.Counter(f"{kernel}: {what}" for what, kernel in findings), done.returncode, said


def tests_of(program):
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^\W+(\w+)$", listed, re.M)


def check_form(oclgrind, form, words, cc, folders, is_long):
    failures = []
    short, _, said = oclgrind.run(form, CONTROL, OCLGRIND_DATA_RACES="1", FAULTY_SHORT="1", FAULTY_KERNELS="/dev/null")
    if not short:
        failures.append(f"{form}: a buffer that is a byte too short is not found: {said[-500:]}")
    tests = [t for t in tests_of(oclgrind.program) if is_long or t == CONTROL]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        races = list(pool.map(lambda test: oclgrind.run(form, test, OCLGRIND_DATA_RACES="1"), tests))
        values = list(pool.map(lambda test: oclgrind.run(form, test, OCLGRIND_UNINITIALIZED="1"), tests))
    ended = [test for test, (_, status, said) in zip(tests, values) if status and "CRASH!" in said]
    for i, (findings, status, said) in enumerate(races + values):
        test, is_search = tests[i % len(tests)], i >= len(tests)
        failures += [f"{form}: {test}: {what} ({count} times)" for what, count in findings.items()]
        if status and not (is_search and "CRASH!" in said):
            failures.append(f"{form}: {test} failed: {said[-800:]}")
    there = {name for word in words for name in kernels_of(cc, folders, word, form)} | set(INTEGERS)
    files = {name.split()[2]: name.split()[0] for name in there}
    ran = kernels_that_ran(oclgrind.folder / form, files, there)
    known = {name for name in there for on, pattern, _ in NOT_THERE if fnmatch.fnmatchcase(form, on) and fnmatch.fnmatchcase(name, pattern)}
    if is_long:
        failures += [f"{form}: {name} did not run" for name in sorted(there - ran - known)]
        failures += [f"{form}: {name} ran: take it out of NOT_THERE" for name in sorted(ran & known)]
    print(f"{form}: {len(ran & there)} of {len(there - known)} kernels of programs ran, {len({n.split()[2] for n in ran})} by name, in "
          f"{len(tests)} tests; {len(known)} are never queued")
    if ended:
        print(f"{form}: the search for uninitialised values ended oclgrind itself in {', '.join(ended)}")
    return failures


def main():
    arguments = sys.argv[1:]
    forms = arguments[arguments.index("--") + 1:] if "--" in arguments else ["processor", "gpu"]
    program, driver, cc, folders, *words = arguments[:arguments.index("--")] if "--" in arguments else arguments
    with tempfile.TemporaryDirectory() as folder:
        oclgrind = Oclgrind(program, driver, Path(folder))
        if not oclgrind.library or not oclgrind.library.exists():
            print("skipped: oclgrind is not installed (Debian: oclgrind)\n0 passed, 0 failed, 1 skipped")
            return 77
        failures = [f for form in forms for f in check_form(oclgrind, form, words, cc, folders.split(","), "TENON_TEST_DEVICES" in os.environ)]
    print(*failures, sep="\n")
    print(f"{0 if failures else len(forms)} passed, {len(failures)} failed, 0 skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
