#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the waits of the CUDA plugin out one by one and shows that waits.c finds each.

    mutants.py BUILD PROGRAM
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True
import mutation  # noqa: E402

FILE = "plugins/cuda/cuda.c"
# (what is forgotten, file, text, replacement)
MUTANTS = [
    ("synchronise: the wait", FILE, "return check(d, CALL(d, cuStreamSynchronize, stream_of(queue)), \"queued work\");",
     "return TN_OK;"),
    ("query: the answer", FILE, "CUresult result = CALL(d, cuStreamQuery, stream_of(queue));", "CUresult result = CUDA_SUCCESS;"),
    ("wait: the event", FILE, "return native_wait(device, (uintptr_t)stream_of(queue), event);", "return TN_OK;"),
    ("event: the wait of the host", FILE,
     "return check(d, CALL(d, cuEventSynchronize, ((cuda_event *)event)->event), \"queued work\");", "return TN_OK;"),
    ("event: the state", FILE, "CUresult result = CALL(d, cuEventQuery, ((cuda_event *)event)->event);",
     "CUresult result = CUDA_SUCCESS;"),
    ("elapsed: the wait for both events", FILE, "int32_t status = event_wait(d, end);", "int32_t status = TN_OK;"),
    ("callback: its place in the stream", FILE, "return CHECKED(d, cuLaunchHostFunc, stream_of(queue), callback, user);",
     "callback(user);\n    return TN_OK;"),
]

if __name__ == "__main__":
    sys.exit(mutation.hunt_plugin(Path(sys.argv[1]).resolve(), sys.argv[2], "cuda", MUTANTS))
