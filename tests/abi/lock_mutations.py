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

# (header, pattern, replacement, words that the refusal must hold, or None when it is allowed)
MUTATIONS = [
    ("base.h", r"(    int32_t code;)", r"    int32_t inserted;\n    int32_t inserted2;\n\1", "tn_error.code moved"),
    ("base.h", r"(    int32_t code;[^\n]*\n)(    int32_t error_class;[^\n]*\n)", r"\2\1", "tn_error.code moved"),
    ("base.h", r"    int32_t native_code;", r"    int64_t native_code;", "tn_error.native_code moved or changed its width"),
    ("base.h", r"    int32_t native_code;", r"    uint32_t native_code;", "tn_error.native_code changed its type"),
    ("base.h", r"X\(TN_E_DTYPE, 3,", r"X(TN_E_DTYPE, 33,", "constant TN_E_DTYPE changed"),
    ("base.h", r"#define TN_CODE_BFLOAT +4u\n", "#define TN_CODE_BFLOAT 9u\n", "constant TN_CODE_BFLOAT changed"),
    ("base.h", r"#define TN_CLASS_CONTRACT +5\n", "", "constant TN_CLASS_CONTRACT is gone"),
    ("value.h", r"(        void \*pointer;)", r"\1\n        uint32_t extra;", "tn_value is frozen"),
    ("plugin.h", r"(    char build_id\[64\];)", r"\1\n    uint32_t extra, extra2;", "cannot read the member"),
    ("plugin.h", r"(    char build_id)\[64\];", r"\1[72];", "tn_plugin_info.build_id moved or changed its width"),
    ("plugin.h", r"#define TN_PLUGIN_MAGIC  \"TENON", '#define TN_PLUGIN_MAGIC  "TENOM', "TN_PLUGIN_MAGIC changed"),
    ("plugin.h", r"int32_t \(\*status\)\(void \*self, void \*device\);", "", "tn_device_interface.status is gone"),
    ("plugin.h", r"(int32_t \(\*status\)\(void \*self, )void \*device\)", r"\1uint64_t device)",
     "tn_device_interface.status changed its type"),
    ("device.h", r"(tn_device_count\()tn_context \*ctx, ", r"\1", "function tn_device_count changed"),
    ("device.h", r"(    int32_t priority_high;)", r"\1\n    uint32_t hole;", "a hole of 4 bytes"),
    # Allowed.
    ("plugin.h", r"(    int32_t \(\*self_test\)\(void \*self\) TN_HOST_THREAD;)", r"\1\n    int32_t (*added)(void *self);",
     None),
    ("base.h", r"(#define TN_MAX_RANK 64)", r"\1\n#define TN_ADDED 7", None),
    ("op.h", r"(    int32_t threads;[^\n]*\n    uint32_t )reserved;", r"\1lanes;", None),
    ("device.h", r"(TN_API tn_device tn_device_at\(tn_context \*)ctx", r"\1context", None),
]


def check(include):
    run = subprocess.run([sys.executable, str(ROOT / "abi" / "lock.py"), "check", "--include", str(include)],
                         capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


def try_mutation(folder, header, pattern, replacement, expected):
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "abi" / "include", folder)
    path = folder / "tenon" / header
    text, count = re.subn(pattern, replacement, path.read_text(), count=1)
    if count != 1:
        return f"{header}: {pattern} is not in the header: the mutation needs an update"
    path.write_text(text)
    status, output = check(folder)
    if expected is None:
        return None if status == 0 else f"{header}: {pattern}: allowed, but refused:\n{output}"
    if status == 0:
        return f"{header}: {pattern}: not caught"
    return None if expected in output else f"{header}: {pattern}: expected '{expected}' in:\n{output}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        failures = [f for m in MUTATIONS if (f := try_mutation(Path(folder) / "include", *m))]
    print("\n".join(failures) or f"{len(MUTATIONS)} mutations judged rightly")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
