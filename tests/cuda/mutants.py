#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the waits of the CUDA plugin out one by one and shows that waits.c finds each; the same for its graphs and graphs.c.

    mutants.py BUILD PROGRAM waits|graphs
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True
import mutation  # noqa: E402

FILE = "plugins/cuda/cuda.c"
# (what is forgotten, file, text, replacement)
WAITS = [
    ("synchronise: the wait", FILE, "return cuda_check(d, CALL(d, cuStreamSynchronize, cuda_stream_of(queue)), \"queued work\");",
     "return TN_OK;"),
    ("query: the answer", FILE, "CUresult result = CALL(d, cuStreamQuery, cuda_stream_of(queue));", "CUresult result = CUDA_SUCCESS;"),
    ("wait: the event", FILE, "return native_wait(device, (uintptr_t)cuda_stream_of(queue), event);", "return TN_OK;"),
    ("event: the wait of the host", FILE,
     "return cuda_check(d, CALL(d, cuEventSynchronize, ((cuda_event *)event)->event), \"queued work\");", "return TN_OK;"),
    ("event: the state", FILE, "CUresult result = CALL(d, cuEventQuery, ((cuda_event *)event)->event);",
     "CUresult result = CUDA_SUCCESS;"),
    ("elapsed: the wait for both events", FILE, "int32_t status = event_wait(d, end);", "int32_t status = TN_OK;"),
    ("callback: its place in the stream", FILE, "return CHECKED(d, cuLaunchHostFunc, cuda_stream_of(queue), callback, user);",
     "callback(user);\n    return TN_OK;"),
]
GRAPH = "plugins/gpu/graph.c"
GRAPHS = [
    ("capture: others may allocate", "plugins/cuda/graph.c", "CU_STREAM_CAPTURE_MODE_RELAXED", "CU_STREAM_CAPTURE_MODE_GLOBAL"),
    ("launch: the faults of the stream", GRAPH, "if (!status) status = driver->copy(d->handle, s->queue, s->faults, 0, faults, 0, FAULT_BYTES);",
     ""),
    ("launch: the faults before it", GRAPH,
     "if (!status) status = driver->copy(d->handle, s->queue, faults, 0, s->faults, 0, FAULT_BYTES);", ""),
    ("launch: the stream may have a fault", GRAPH, "s->may_have_fault = 1;", ""),
    ("capture: faults of the graph", GRAPH, "return g->faults;", "return s->faults;"),
    ("capture: streams that join", GRAPH, "if (!g->is_over && !gpu_stream_capture(s))", "if (0)"),
    ("random numbers: the state", "plugins/gpu/basic.c", "nest.values[3] = state != NULL;", "nest.values[3] = 0;"),
    ("update: the executable", "plugins/cuda/graph.c", "CUresult result = CALL(d, cuGraphExecUpdate, executable, graph, &why);",
     "CUresult result = CUDA_SUCCESS;"),
]

if __name__ == "__main__":
    sys.exit(mutation.hunt_plugin(Path(sys.argv[1]).resolve(), sys.argv[2], "cuda", GRAPHS if sys.argv[3] == "graphs" else WAITS))
