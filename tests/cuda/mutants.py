#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the waits of the CUDA plugin out one by one and shows that waits.c finds each; the same for its graphs, and for products by a
library.

    mutants.py BUILD PROGRAM waits|graphs|products
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True
import mutation  # noqa: E402

FILE = "plugins/cuda/driver.c"
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
    ("callback: its place in the stream", FILE, "return cuda_call_back(device, cuda_stream_of(queue), callback, user);",
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

BLAS = "plugins/cuda/blas.c"
PRODUCTS = [
    ("plan: the bias of the call", BLAS, "int result = m->bias.memory ? set_bias(b, p, m) : CUBLAS_SUCCESS;", "int result = 0;"),
    ("plan: alignment", BLAS, "return (uint32_t)(address & -address);", "return 256;"),
    ("plan: the key", BLAS, "while (p && memcmp(&p->key, key, sizeof *key) != 0) p = p->next;", ""),
    ("sums: TF32 only if allowed", BLAS, "m->dtype == GPU_F32 && (call->flags & TN_CALL_ALLOW_TF32)", "m->dtype == GPU_F32"),
    ("sums: deterministic", BLAS, "if (call->flags & TN_CALL_DETERMINISTIC) return LT_REDUCE_COMPUTE;", ""),
    ("sums: float32 for half types", BLAS, "if (dtype < GPU_F32 && !(call", "if (0 && !(call"),
    ("failure: the product is refused", BLAS, "p->is_supported = 0;\n        return TN_E_UNSUPPORTED;", "return TN_OK;"),
    ("closing: the plans", BLAS, "    forget_plans(b);\n    int32_t was_entered", "    int32_t was_entered"),
    ("matrices: what is added", "plugins/gpu/library.c", "if (is_bias && m->beta == 1) {", "if (is_bias) {"),
    ("matrices: contiguous columns", "plugins/gpu/library.c", "((row == 1 || n_rows == 1) && column >= n_rows)", "1"),
]
SETS = {"waits": WAITS, "graphs": GRAPHS, "products": PRODUCTS}

if __name__ == "__main__":
    sys.exit(mutation.hunt_plugin(Path(sys.argv[1]).resolve(), [sys.argv[2], "--filter", sys.argv[3] + "/*"], "cuda", SETS[sys.argv[3]]))
