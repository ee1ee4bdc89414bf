#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each function of Level Zero that the plugin calls fails once on the test driver, and ../cuda/work.c goes on: every failure is an
error that names what failed, none is a crash, a wrong result or a report of the driver. Machines without a device say why.

    each_fault.py WORK TENON SYMBOLS_H

SYMBOLS_H is that of the plugin.
"""
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cuda"))
sys.dont_write_bytecode = True
from faults import finish, run_with, without_fault, without_reason  # noqa: E402

LOST, OUT_OF_MEMORY, BUILD_FAILURE, UNKNOWN = "0x70000001", "0x70000003", "0x70000004", "0x7ffffffe"
NAMES = {LOST: "ZE_RESULT_ERROR_DEVICE_LOST", OUT_OF_MEMORY: "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", UNKNOWN: "ZE_RESULT_ERROR_UNKNOWN"}

# Where a failure changes no result: the function gives a fact of the device or gives something back, or code is compiled each time.
FACTS = {"zeDriverGetApiVersion", "zeDriverGetProperties", "zeDriverGetExtensionProperties", "zeDeviceGetMemoryProperties",
         "zeDeviceGetMemoryAccessProperties", "zeDeviceCanAccessPeer", "zeDeviceGetStatus", "zeDevicePciGetPropertiesExt",
         "zesDeviceEnumMemoryModules", "zesMemoryGetProperties", "zesMemoryGetState"}
GIVES_BACK = {"zeContextDestroy", "zeMemFree", "zeCommandListDestroy", "zeEventPoolDestroy", "zeEventDestroy", "zeModuleDestroy",
              "zeModuleBuildLogDestroy", "zeKernelDestroy"}
SILENT = FACTS | GIVES_BACK | {"zeModuleGetNativeBinary"}

# What errors say in place of the function's name.
WORDS = {"zeInit": "found no driver: zeInit gives", "zeMemAllocDevice": "allocating 24 bytes failed", "zeMemAllocHost": "bytes of the host failed",
         "zeMemAllocShared": "bytes of shared memory failed", "zeCommandListAppendBarrier": "a barrier failed",
         "zeCommandListAppendMemoryCopy": "a copy to the device failed", "zeCommandListAppendMemoryFill": "a fill failed",
         "zeCommandListAppendLaunchKernel": "a kernel failed", "zeEventHostSynchronize": "queued work failed",
         "zeEventQueryStatus": "queued work failed", "zeEventQueryKernelTimestamp": "the time of an event failed",
         "zeModuleCreate": "the device code does not compile", "zeKernelCreate": "convert failed"}
SAYS = {"zeModuleBuildLogGetString": "(no log)"}
WITHOUT = {"zeInit", "zeDriverGet", "zeDeviceGet", "zeDeviceGetProperties"}  # there is no device, or it cannot be opened

# What has to be set so that the function is called.
SETTINGS = {"zeMemAllocShared": {"ZE_TEST_INTEGRATED": "1"}, "zeDevicePciGetPropertiesExt": {"ZE_TEST_UUID": "a"},
            "zeDeviceGetStatus": {"FAULTY_DELAY": "20"}, "zeEventHostSynchronize": {"FAULTY_DELAY": "20"},
            "zeModuleBuildLogGetString": {"FAULTY_FAIL_TOO": f"zeModuleCreate:1:{BUILD_FAILURE}"}}

# Descriptions of a device are asked for before it is opened, and fail without a word; opening it is this call.
OPENS = {"zeDeviceGetModuleProperties": 4}

# What the library says of itself, and what `tenon doctor` makes of it.
ABSENT = [(f"zeInit:1:{UNKNOWN}", "found no driver: zeInit gives ZE_RESULT_ERROR_"),
          (f"zeDriverGet:1:{UNKNOWN}", "zeDriverGet failed: ZE_RESULT_ERROR_UNKNOWN"),
          (f"zeDeviceGet:1:{UNKNOWN}", "zeDeviceGet failed: ZE_RESULT_ERROR_UNKNOWN")]


def check(work, function, call, result):
    """What is wrong about a run in which one call fails, or None."""
    settings = {"FAULTY_FAIL": f"{function}:{call}:{result}", "ZE_TEST_FAULTS": "1", **SETTINGS.get(function, {})}
    if function.startswith("zes"):
        settings["ZES_ENABLE_SYSMAN"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        cache = folder if function == "zeModuleGetNativeBinary" else "/proc/nowhere"  # programs are compiled
        status, said = run_with(work, {"XDG_CACHE_HOME": cache, **settings})
    where = f"call {call} of {function} gives {result}: "
    reports = [line for line in re.findall(r"^ze_driver: .*", said, re.M) if not line.endswith(" fails")]
    if status or "wrong:" in said or reports:
        return where + f"status {status}\n{said}"
    if f"ze_driver: {function} fails" not in said and call == OPENS.get(function, 1):
        return where + f"it is not called\n{said}"
    if result != LOST and "status 0, other 0" not in said and function not in WITHOUT:
        return where + f"the device is lost\n{said}"
    if call != OPENS.get(function, 1) or function in SILENT or result == OUT_OF_MEMORY:  # for memory there is a second try
        return None
    words = (WORDS.get(function, f"{function} failed"), f"{function} failed")
    is_named = any(w in line and NAMES[result] in line for line in said.splitlines() for w in words)
    if not is_named and SAYS.get(function, "\n\n") not in said:
        return where + f"no error says '{words[0]}' and {NAMES[result]}\n{said}"
    return None


def main():
    work, tool, header = sys.argv[1:]
    status, said = run_with(work, {})
    if "found no driver: zeInit gives" in said:
        print("skipped: no OpenCL device for the test driver (Debian: pocl-opencl-icd)\n0 passed, 0 failed, 1 skipped")
        return 77
    failures = without_fault("xpu", status, said)
    functions = re.findall(r"\bX\((zes?[A-Z]\w+)\)", Path(header).read_text())
    cases = [(f, call, result) for f in functions for call in {1, OPENS.get(f, 1)} for result in (UNKNOWN, LOST)]
    cases += [("work", call, LOST) for call in (3, 6, 12)]
    cases += [(f, call, OUT_OF_MEMORY) for f in functions if re.search("Alloc(?!Prop)|Create|Append", f) for call in (1, 2)]
    with ThreadPoolExecutor(2) as pool:
        failures += [wrong for wrong in pool.map(lambda case: check(work, *case), cases) if wrong]
    failures += without_reason(tool, [({"FAULTY_FAIL": fault}, reason) for fault, reason in ABSENT])
    return finish(len(cases) + len(ABSENT) + 1, failures)


if __name__ == "__main__":
    sys.exit(main())
