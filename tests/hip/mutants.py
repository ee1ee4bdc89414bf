#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes what is HIP's alone in the HIP plugin out piece by piece and shows that waits.c finds each. The waits that it shares with the
CUDA plugin are tested there.

    mutants.py BUILD PROGRAM
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True
import mutation  # noqa: E402

FILE = "plugins/hip/hip.c"
# (what is forgotten, file, text, replacement)
MUTANTS = [
    ("callback: its place in the stream", FILE, "int32_t status = CHECKED(d, hipStreamAddCallback, stream, run_call_back, c, 0);",
     "int32_t status = TN_OK;\n    run_call_back(stream, hipSuccess, c);"),
    ("callback: the call", FILE, "if (result == hipSuccess) c->function(c->user);", ""),
    ("enter: the device", FILE, "return d->cu->hipSetDevice(d->id) == hipSuccess ? before + 1 : -1;", "return 0;"),
    ("leave: the device before", FILE, "if (was_entered > 0) d->cu->hipSetDevice(was_entered - 1);", ""),
]

if __name__ == "__main__":
    sys.exit(mutation.hunt_plugin(Path(sys.argv[1]).resolve(), sys.argv[2], "hip", MUTANTS))
