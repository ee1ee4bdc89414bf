#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lock catches what it must: each mutation of the headers below has to be refused with the expected words, and
each of the allowed ones has to pass."""
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

HEADERS, LOADER, NUMBERS = "abi/include/tenon", "dispatcher/plugin/load.c", "ops/table/numbers.txt"

# (what is done, file, pattern, replacement, words that the refusal must hold, or None when it is allowed)
MUTATIONS = [
    ("a field in the middle", "base.h", r"(    int32_t code;)", r"    int32_t inserted;\n    int32_t inserted2;\n\1",
     "tn_error.code moved"),
    ("two fields in another order", "base.h", r"(    int32_t code;[^\n]*\n)(    int32_t error_class;[^\n]*\n)", r"\2\1",
     "tn_error.code moved"),
    ("a wider field", "base.h", r"    int32_t native_code;", r"    int64_t native_code;",
     "tn_error.native_code moved or changed its width"),
    ("another sign", "base.h", r"    int32_t native_code;", r"    uint32_t native_code;",
     "tn_error.native_code changed its type"),
    ("another status code", "base.h", r"X\(TN_E_DTYPE, 3,", r"X(TN_E_DTYPE, 33,", "constant TN_E_DTYPE changed"),
    ("another constant", "base.h", r"#define TN_CODE_BFLOAT +4u\n", "#define TN_CODE_BFLOAT 9u\n",
     "constant TN_CODE_BFLOAT changed"),
    ("a constant taken away", "base.h", r"#define TN_CLASS_CONTRACT +5[^\n]*\n", "", "constant TN_CLASS_CONTRACT is gone"),
    ("other bits of a dtype", "base.h", r"TN_CAST\(uint32_t, bits\) << 8 \| 1u << 16", "TN_CAST(uint32_t, bits) << 12 | 1u << 24",
     "constant TN_FLOAT32 changed"),
    ("a larger value", "value.h", r"(        void \*pointer;)", r"\1\n        uint32_t extra;", "tn_value is frozen"),
    ("a longer frozen struct", "value.h", r"(typedef struct tn_ints \{\n    const tn_write_TN_INTS \*data;\n    int64_t count;)",
     r"\1\n    int64_t more;", "tn_ints is frozen"),
    ("another tag of a value", "value.h", r"#define TN_TAG_FLOAT +4u", "#define TN_TAG_FLOAT 5u", "constant TN_TAG_FLOAT changed"),
    ("two members in one declaration", "plugin.h", r"(    char build_id\[64\];)", r"\1\n    uint32_t extra, extra2;",
     "cannot read the member"),
    ("a longer text in the block", "plugin.h", r"(    char build_id)\[64\];", r"\1[72];",
     "tn_plugin_info.build_id moved or changed its width"),
    ("a shorter text", "device.h", r"    char name\[64\];", "    char name[32];", "tn_device_facts.name moved or changed its width"),
    ("the last field taken away", "device.h", r"    char architecture\[32\];\n", "", "tn_device_facts.architecture is gone"),
    ("an alignment", "device.h", r"    uint64_t total_memory;", "    uint64_t total_memory __attribute__((aligned(64)));",
     "cannot read the member"),
    ("a hole", "device.h", r"(    int32_t priority_high;)", r"\1\n    uint32_t hole;", "a hole of 4 bytes"),
    ("another magic", "plugin.h", r"#define TN_PLUGIN_MAGIC  \"TENON", '#define TN_PLUGIN_MAGIC  "TENOM',
     "TN_PLUGIN_MAGIC changed"),
    ("another schema", "op.h", r'"prim::fill\(Tensor\(a!\) self, Scalar value\)', '"prim::fill(Tensor(a!) self, Scalar value, int n)',
     "TN_SCHEMA_FILL changed"),
    ("a slot taken away", "plugin.h", r"int32_t \(\*status\)\(void \*self, void \*device\);", "",
     "tn_device_interface.status is gone"),
    ("two slots of one type in another order", "plugin.h", r"\(\*status\)(\(void \*self, void \*device\);\n.*\n.*)\(\*synchronize\)",
     r"(*synchronize)\1(*status)", "tn_device_interface.status moved"),
    ("another parameter of a slot", "plugin.h", r"(int32_t \(\*status\)\(void \*self, )void \*device\)", r"\1uint64_t device)",
     "tn_device_interface.status changed its type"),
    ("another result of a slot", "plugin.h", r"void( \(\*close\)\(void \*self, TN_TAKES void \*device\))", r"int32_t\1",
     "tn_device_interface.close changed its type"),
    ("another kernel signature", "op.h", r"(\(\*tn_kernel_fn\)\(void \*self, const tn_call \*call)\)", r"\1, uint64_t n)",
     "type tn_kernel_fn changed"),
    ("another signature", "device.h", r"(tn_device_count\()tn_context \*ctx, ", r"\1", "function tn_device_count changed"),
    ("a function taken away", "device.h", r"TN_API tn_device tn_device_at\([^;]*;\n", "", "function tn_device_at is gone"),
    ("another owner", "device.h", r"(tn_stream_release\()TN_TAKES ", r"\1TN_BORROWS ", "notes tn_stream_release changed"),
    ("other threads", "plugin.h", r"(\(\*open\)\([^;]*\)) TN_HOST_THREAD;", r"\1 TN_ANY_THREAD;",
     "notes tn_device_interface.open changed"),
    ("an optional slot made required", LOADER, r"(SLOT\(tn_memory_interface, info\),)", r"\1 SLOT(tn_memory_interface, trim),",
     "demand tn_memory_interface.trim changed: 'optional', now 'required'"),
    ("a required slot made optional", LOADER, r"\s*SLOT\(tn_stream_interface, query\),", "",
     "demand tn_stream_interface.query changed: 'required', now 'optional'"),
    ("an optional interface made required", LOADER, r"(\{\"tenon.event\", PLACE\(driver.event\)), 0,", r"\1, 1,",
     "demand tenon.event changed: 'optional', now 'required'"),
    ("another number of an operator", NUMBERS, r"(?m)^1\t", "9999\t", "operator 1 is gone"),
    # Allowed.
    ("a slot at the end", "plugin.h", r"(    int32_t \(\*self_test\)\(void \*self\) TN_HOST_THREAD;)",
     r"\1\n    int32_t (*added)(void *self);", None),
    ("a new constant", "base.h", r"(#define TN_MAX_RANK 64)", r"\1\n#define TN_ADDED 7", None),
    ("an experimental interface", "plugin.h", r"(/\* The plugin's own table, filled by entry. \*/)",
     r"#define TN_X_FLAG 3u\ntypedef struct tn_x_trace_interface {\n    uint32_t size;\n    int64_t wide;\n} tn_x_trace_interface;\n\1", None),
    ("a name for a reserve", "tensor.h", r"(    uint32_t rank;[^\n]*\n    uint32_t )reserved;", r"\1lanes;", None),
    ("another name of a parameter", "device.h", r"(TN_API tn_device tn_device_at\(tn_context \*)ctx", r"\1context", None),
]


def check(root):
    run = subprocess.run([sys.executable, str(ROOT / "abi" / "lock.py"), "check", "--include", str(root / "abi" / "include"),
                          "--loader", str(root / LOADER), "--numbers", str(root / NUMBERS)], capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


def copy_contract(root):
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(ROOT / "abi" / "include", root / "abi" / "include")
    for file in (LOADER, NUMBERS):
        (root / file).parent.mkdir(parents=True)
        shutil.copy(ROOT / file, root / file)


def try_mutation(root, what, file, pattern, replacement, expected):
    copy_contract(root)
    path = root / (file if "/" in file else f"{HEADERS}/{file}")
    text, count = re.subn(pattern, replacement, path.read_text(), count=1)
    if count != 1:
        return f"{file}: {what}: the pattern is not in the file: the mutation needs an update"
    path.write_text(text)
    status, output = check(root)
    if expected is None:
        return None if status == 0 else f"{file}: {what}: allowed, but refused:\n{output}"
    if status == 0:
        return f"{file}: {what}: not caught"
    return None if expected in output else f"{file}: {what}: expected '{expected}' in:\n{output}"


def main():
    """Prints the table of mutations, then the failures."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for mutation in MUTATIONS:
            results.append((mutation, try_mutation(Path(folder) / "root", *mutation)))
            (what, file, *_, expected), failure = results[-1]
            verdict = "WRONG" if failure else "passes, as it may" if expected is None else f"caught: {expected}"
            print(f"{what:<40} {Path(file).name:<12} {verdict}", flush=True)
    failures = [f for _, f in results if f]
    illegal = [f for (*_, expected), f in results if expected]
    print(*failures, sep="\n")
    print(f"{illegal.count(None)} of {len(illegal)} illegal changes caught, {len(results) - len(illegal)} legal ones tried")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
