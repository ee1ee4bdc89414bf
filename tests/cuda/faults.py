#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each function of CUDA, or of HIP, that the plugin calls fails once, and work.c goes on: every failure is an error by name,
none is a crash, a wrong result or a leak. Machines without a device say why.

    faults.py WORK TENON SYMBOLS_H

SYMBOLS_H is that of a plugin. The HIP plugin's gives each function of CUDA its name in HIP.
"""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

# Where a failure changes no result: the function gives a fact of the device, asks, or gives something back.
FACTS = {"cuDriverGetVersion", "cuGetErrorName", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetUuid", "cuDeviceGetPCIBusId",
         "cuDeviceGetAttribute", "cuDeviceTotalMem", "cuDeviceCanAccessPeer", "cuCtxGetCurrent", "cuCtxPopCurrent", "hipGetDeviceProperties", "hipGetDevice",
         "cuThreadExchangeStreamCaptureMode", "cuStreamIsCapturing"}
GIVES_BACK = {"cuDevicePrimaryCtxRelease", "cuMemFree", "cuMemFreeHost", "cuStreamDestroy", "cuEventDestroy", "cuModuleUnload", "cuGraphDestroy",
              "cuGraphExecDestroy", "cuCtxPopCurrent", "cuCtxPushCurrent", "cuCtxGetCurrent",
              "cuMemRelease", "cuMemAddressFree", "cuMemUnmap"}
LEFT = {"cuMemUnmap": 0}  # tried again in the end; else at most one object is left
UNUSED = {"cuStreamGetCtx", "cuMemAllocManaged"}  # of streams of the program; of integrated devices (cuda/unified)
NAMES = {1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 700: "CUDA_ERROR_ILLEGAL_ADDRESS", 999: "CUDA_ERROR_UNKNOWN"}
HIP_NAMES = {1: "hipErrorInvalidValue", 2: "hipErrorOutOfMemory", 201: "hipErrorInvalidContext", 700: "hipErrorIllegalAddress", 999: "hipErrorUnknown"}
HIP_OWN = ["hipGetDevice", "hipSetDevice", "hipGetDeviceProperties", "cuGraphGetNodes", "cuStreamIsCapturing"]

# What the library says of itself, and what `tenon doctor` makes of it.
ABSENT = [({"FAULTY_FAIL": "cuInit:1:100"}, "cuInit failed: CUDA_ERROR_NO_DEVICE"),
          ({"CUDA_TEST_DEVICES": "0"}, "found 0 GPUs, none of compute capability 8.0 or later"),
          ({"CUDA_TEST_COMPUTE": "7"}, "found 2 GPUs, none of compute capability 8.0 or later"),
          ({"CUDA_TEST_DRIVER": "12080"}, "the NVIDIA driver is for CUDA 12.8, the plugin needs 13.0")]
HIP_ABSENT = [({"FAULTY_FAIL": "cuInit:1:100"}, "hipInit failed: hipErrorNoDevice"),
              ({"CUDA_TEST_DEVICES": "0"}, "found 0 GPUs, none of the architectures gfx"),
              ({"HIP_TEST_ARCHITECTURE": "gfx90"}, "found 2 GPUs, none of the architectures gfx"),
              ({"HIP_TEST_ARCHITECTURE": "gfx803:xnack-"}, "found 2 GPUs, none of the architectures gfx")]


def run(work, fault=None):
    return run_with(work, {"FAULTY_FAIL": fault} if fault else {})


def run_with(work, settings):
    done = subprocess.run([work], capture_output=True, text=True, timeout=120, env={**os.environ, **settings})
    said = re.sub(r"^\d+ warnings? generated\.\n", "", done.stderr, flags=re.M)  # of PoCL, when it first compiles a twin
    return done.returncode, done.stdout + said


def check(work, names, function, call, result):
    """What is wrong about a run in which one call fails, or None."""
    status, said = run(work, f"{function}:{call}:{result}")
    where = f"call {call} of {function} returns {result}: "
    if status or "wrong:" in said:
        return where + f"status {status}\n{said}"
    if "no device" in said:
        return None if function in FACTS | {"cuInit", "cuDeviceGetCount"} else where + said
    live = int(re.search(r"live (-?\d+)", said)[1])
    has_lost = names is HIP_NAMES and result == 700  # HIP gives the context up at the end of the process only
    if live < 0 or live > (LEFT.get(function, 1) if function in GIVES_BACK else 0) and not has_lost:
        return where + f"{live} objects are left\n{said}"
    if result == 999 and "status 0, other 0" not in said:  # the context answers afterwards
        return where + f"the device is lost\n{said}"
    is_silent = function in FACTS | GIVES_BACK | UNUSED or result == 2  # for memory there is a second try
    name = names[201 if function == "hipSetDevice" else result]  # the call that needed the device is not made
    if name not in said and call == 1 and not is_silent:
        return where + f"no error names it\n{said}"
    return None


def doctor(tool, settings):
    done = subprocess.run([tool, "doctor"], capture_output=True, text=True, timeout=60, env={**os.environ, **settings})
    return done.stdout + done.stderr


def of_the_machine(tool, library):
    """What is wrong about the machine's own library: it may be absent, but must have the functions that the plugin requires, also
    where the headers have some that it lacks."""
    said = doctor(tool, {"LD_LIBRARY_PATH": ""})
    is_installed = library in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    wanted = is_installed or re.search(rf"{library}\.\d+ not found: no ", said)
    return [f"doctor on the machine's own library:\n{said}"] if not wanted or re.search(rf"{library}\.\d+ has no ", said) else []


def without_fault(plugin, status, said):
    """What is wrong about a run in which nothing fails."""
    whole = re.fullmatch(rf"(6 (\S+:\d+: )?plugin {plugin} has no .*\n)*status 0, other 0\ncalled 1, live 0\n", said)
    return [] if whole and not status else [f"without a fault:\n{said}"]


def without_reason(tool, cases):
    """What doctor does not say: pairs of settings and the reason why there is no device."""
    told = [(settings, reason, doctor(tool, settings)) for settings, reason in cases]
    return [f"{settings}: doctor does not say '{reason}':\n{said}" for settings, reason, said in told if reason not in said]


def finish(cases, failures):
    """Prints the failures and the summary; the status of the test."""
    print(*failures, sep="\n")
    print(f"{cases - len(failures)} passed, {len(failures)} failed, 0 skipped")
    return 1 if failures else 0


def main():
    work, tool, header = sys.argv[1:]
    status, said = run(work)
    if "no device" in said:
        print("skipped: no OpenCL device for the twins (Debian: pocl-opencl-icd)\n0 passed, 0 failed, 1 skipped")
        return 77
    failures = without_fault("hip", status, said)
    text = open(header).read()
    functions = re.findall(r"^#define (cu[A-Z]\w+) +hip", text, re.M)
    is_hip = len(functions) > 0
    functions = functions + HIP_OWN if is_hip else re.findall(r"\bX\((cu\w+)\)", text)
    cases = [(f, 1, result) for f in functions for result in (1, 700)] + [("work", call, 700) for call in (3, 6, 12)]
    cases += [(f, 1, 999) for f in functions if re.search("Launch|Memcpy|Record", f)]
    cases += [(f, call, 2) for f in functions if re.search("Alloc|Create|Load|Launch", f) for call in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        failures += [wrong for wrong in pool.map(lambda case: check(work, HIP_NAMES if is_hip else NAMES, *case), cases) if wrong]
    if not is_hip:
        said = run(work, "cuModuleLoadData:1:222")[1]  # the PTX is newer than the driver
        if "CUDA_ERROR_UNSUPPORTED_PTX_VERSION: this GPU needs a driver that is as new as" not in said:
            failures.append(f"PTX that is too new:\n{said}")
    absent = HIP_ABSENT if is_hip else ABSENT
    failures += without_reason(tool, absent)
    failures += of_the_machine(tool, "libamdhip64.so" if is_hip else "libcuda.so")
    return finish(len(cases) + len(absent) + 2 + (not is_hip), failures)


if __name__ == "__main__":
    sys.exit(main())
