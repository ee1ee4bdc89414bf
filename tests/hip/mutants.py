#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes what is HIP's alone in the HIP plugin out piece by piece and shows that interop.c finds each. The waits that it shares with the
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
    ("callback: the call", FILE, "if (result == hipSuccess) c->function(c->user);", ""),
    ("enter: the device", FILE, "return d->cu->hipSetDevice(d->id) == hipSuccess ? before + 1 : -1;", "return 0;"),
    ("stream: its device", FILE, "return CHECKED(d, hipStreamGetDevice, stream, out);", "return TN_OK;"),
    ("architecture: features are no part of it", FILE, "(int)strcspn(properties.gcnArchName, \":\")", "31"),
    ("leave: the device before", FILE, "if (was_entered > 0) d->cu->hipSetDevice(was_entered - 1);", ""),
]

if __name__ == "__main__":
    sys.exit(mutation.hunt_plugin(Path(sys.argv[1]).resolve(), sys.argv[2], "hip", MUTANTS))
