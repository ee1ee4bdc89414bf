#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the waits of the CUDA plugin out one by one and shows that waits.c finds each; the same for its graphs, and for what
libraries do.

    mutants.py BUILD PROGRAM waits|graphs|products|convolutions|factors|collectives|failures|sharing|ranges
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
    ("nonzero: the wait for the count", "plugins/gpu/index.c",
     "if (!status) status = gpu_the_driver.queue_finish(d->handle, queue);", ""),
    ("faults: the wait for the read", "plugins/gpu/launch.c",
     "if (!status) status = gpu_the_driver.queue_finish(d->handle, stream->queue);\n    if (status || fault[0]", "if (status || fault[0]"),
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
LIBRARIES = "plugins/cuda/libraries.c"
PRODUCTS = [
    ("plan: the bias of the call", BLAS, "int result = m->bias.memory ? set_bias(b, p, m) : CUBLAS_SUCCESS;", "int result = 0;"),
    ("plan: alignment", BLAS, "return cuda_alignment(matrix_at(m));", "return 256;"),
    ("plan: the key", LIBRARIES, "while (p && memcmp(p + 1, key, n) != 0) p = p->next;", ""),
    ("sums: TF32 only if allowed", BLAS, "m->dtype == GPU_F32 && (call->flags & TN_CALL_ALLOW_TF32)", "m->dtype == GPU_F32"),
    ("sums: deterministic", BLAS, "if (call->flags & TN_CALL_DETERMINISTIC) return LT_REDUCE_COMPUTE;", ""),
    ("sums: float32 for half types", BLAS, "if (dtype < GPU_F32 && !(call", "if (0 && !(call"),
    ("failure: the product is refused", BLAS, "p->head.is_supported = 0;\n        return TN_E_UNSUPPORTED;", "return TN_OK;"),
    ("closing: the plans", LIBRARIES, "if (l->n_plans) forget_plans(l);", ""),
    ("closing: the library", LIBRARIES, "if (l->handle) functions_of(l)[DESTROY].destroy(l->handle);", ""),
    ("opening: what it fails with", LIBRARIES, "if (result) l->handle = NULL;", ""),
    ("matrices: what is added", "plugins/gpu/library.c", "if (is_bias && m->beta == 1) {", "if (is_bias) {"),
    ("matrices: contiguous columns", "plugins/gpu/library.c", "((row == 1 || n_rows == 1) && column >= n_rows)", "1"),
]
DNN = "plugins/cuda/dnn.c"
CONVOLUTION = "plugins/gpu/convolution.c"
CONVOLUTIONS = [
    ("plan: alignment", DNN, "k.alignments[i] = cuda_alignment(places[i]);", "k.alignments[i] = 256;"),
    ("plan: the dilation", DNN, "memcpy(k.dilation, w->dilation, sizeof k.dilation);", "for (int i = 0; i < 3; i++) k.dilation[i] = 1;"),
    ("plan: axes with padding", DNN, " && w->padding[0] == 0 ? 2 : 3", " ? 2 : 3"),
    ("plan: kept", LIBRARIES, "    *bucket = p;\n", ""),
    ("engine: deterministic", DNN, "if (call->flags & TN_CALL_DETERMINISTIC) refused |= 1u << DNN_NOTE_NONDETERMINISTIC;", ""),
    ("engine: TF32 only if allowed", DNN, "dtype == GPU_F32 && !(call->flags & TN_CALL_ALLOW_TF32)", "0"),
    ("engine: sums of half types", DNN, "refused |= 1u << DNN_NOTE_REDUCED_SUMS;", ";"),
    ("engine: its notes", DNN, "if (!is_allowed(n, configs[i], p->key.refused_notes)) continue;", ""),
    ("engine: its workspace", DNN, "p->workspace <= WORKSPACE", "1"),
    ("engine: the fallback", DNN, "choose(n, p, DNN_CHOOSE_FALLBACK)", "1"),
    ("call: the stream", DNN, "if (!result) result = n->cudnnSetStream(n->base.handle, cuda_stream_of(queue));", ""),
    ("call: the workspace", DNN, "set(&m, DNN_PACK_WORKSPACE, DNN_POINTER, 1, &workspace);",
     "void *none = NULL;\n    set(&m, DNN_PACK_WORKSPACE, DNN_POINTER, 1, &none);"),
    ("call: what it refuses", DNN, "if (!p->head.is_supported) return TN_E_UNSUPPORTED;", ""),
    ("closing: descriptors", DNN, "if (all[i]) ((const cuda_dnn *)l)", "if (i && all[i]) ((const cuda_dnn *)l)"),
    ("bias: added", CONVOLUTION, "if (status || !bias.memory) return status;", "return status;"),
    ("bias: its channels", CONVOLUTION, "n.strides[2][1] = bytes;", ""),
]
NCCL = "plugins/cuda/nccl.c"
COLLECTIVES = [
    ("group: all ranks at once", NCCL, "    TRY(g, ncclGroupStart);\n", ""),
    ("meeting: before the first message", NCCL, "if (c->has_met || a", "if (1 || a"),
    ("meeting: a byte from each rank", NCCL, "(char *)m->scratch + RECEIVED_AT + k", "(char *)m->scratch + SCRATCH"),
    ("bools: any and all", NCCL, "reduction == TN_REDUCE_SUM || reduction == TN_REDUCE_MAX ? NCCL_MAX : NCCL_MIN, 1", "own, 1"),
    ("complex numbers: pairs", NCCL, "(form){NCCL_FLOAT32, own, is_linear ? 2 : 0}", "(form){NCCL_FLOAT32, own, is_linear}"),
    ("complex numbers: no products", NCCL, "(form){NCCL_FLOAT32, own, is_linear ? 2 : 0}", "(form){NCCL_FLOAT32, own, 2}"),
    ("reductions: their numbers", NCCL, "NCCL_PRODUCT, NCCL_MIN, NCCL_MAX,", "NCCL_PRODUCT, NCCL_MAX, NCCL_MIN,"),
    ("tensors: where they are read", NCCL, "return (const char *)r->from + r->from_offset;", "return (const char *)r->from;"),
    ("tensors: where they are written", NCCL, "return (char *)r->to + r->to_offset;", "return (char *)r->to;"),
    ("streams: those of the call", NCCL, "return (void *)cuda_stream_of(((const gpu_stream *)r->stream)->queue);", "return NULL;"),
    ("exchange: the parts that are sent", NCCL, "from_of(r) + other * p->count", "from_of(r)"),
    ("making: the device of each rank", NCCL, "int32_t was_entered = cuda_enter(m->device);\n        TRY(&g", "int32_t was_entered = 0;\n        TRY(&g"),
    ("group: the context before", NCCL, "    int result = nccl.ncclGroupEnd();\n    cuda_leave(c->members[0].device, g->was_entered);",
     "    int result = nccl.ncclGroupEnd();"),
    ("status: late errors", NCCL, "if (late && late != NCCL_IN_PROGRESS) {", "if (0) {"),
    ("abort: the calls under way", NCCL, "is_broken ? nccl.ncclCommAbort(m->comm) : nccl.ncclCommDestroy(m->comm)",
     "nccl.ncclCommDestroy(m->comm)"),
    ("release: the communicators", NCCL, "    (void)let_go(c, is_broken);\n", ""),
    ("release: their memory", NCCL, "if (m->scratch) gpu_the_driver.free(m->device, m->scratch);", ""),
    ("release: their queues", NCCL, "if (m->queue) gpu_the_driver.queue_destroy(m->device, m->queue);", ""),
]
FAILURES = [
    ("failure: the communicator has failed", NCCL, "    c->failed = g->result;\n", ""),
    ("failure: the group still ends", NCCL, "int result = nccl.ncclGroupEnd();", "int result = g->result ? 0 : nccl.ncclGroupEnd();"),
    ("failure: the first result", NCCL, "    if (!g->result) {\n        g->result = result;", "    {\n        g->result = result;"),
    ("failed creation: what was made", NCCL, "        destroy(self, c);\n", "        free(c);\n"),
    ("asking: its own failure", NCCL, "if (result) return refuse(self, m->comm, result, \"ncclCommGetAsyncError\");", ""),
]
SOLVER = "plugins/cuda/solver.c"
FACTOR = "plugins/gpu/factors.c"
FACTORS = [
    ("call: the stream", SOLVER, "int result = s->cusolverDnSetStream(s->base.handle, cuda_stream_of(queue));", "int result = 0;"),
    ("call: each matrix of a batch", SOLVER, "f->a.offset + i * f->rows * f->columns * bytes", "f->a.offset"),
    ("call: each matrix's pivots", SOLVER, "f->extra.offset + i * f->count * extra_bytes", "f->extra.offset"),
    ("call: each matrix's info", SOLVER, "f->infos.offset + i * sizeof(int)", "f->infos.offset"),
    ("call: the workspace", SOLVER, "if (!result && length > 0) {", "if (0) {"),
    ("call: after a failure", SOLVER, "i < f->batches && !result; i++)", "i < f->batches; i++)"),
    ("cholesky: the triangle", FACTOR, "if (!status) status = clear_other_side(call, &f);", ""),
    ("cholesky: what is left of a triangle", FACTOR, "const uint64_t last = rest > side ? rest - side : 0,", "const uint64_t last = 0,"),
    ("eigenvalues: infos", FACTOR, "if (!status) status = check_infos(call, &f, \"linalg.eigh\", \"eigenvalues\");", ""),
    ("singular values: infos", FACTOR, "if (!status) status = check_infos(call, &f, \"linalg.svd\", \"singular values\");", ""),
    ("singular values: wide matrices", FACTOR, "is_wide = m < n,", "is_wide = 0,"),
    ("singular values: vectors of each matrix", SOLVER, "f->b.offset + i * f->rows * f->right_sides * bytes", "f->b.offset"),
    ("singular values: rows of each matrix", SOLVER, "f->c.offset + i * f->columns * f->columns * bytes", "f->c.offset"),
    ("singular values: all vectors", SOLVER, "f->right_sides == f->rows ? 'A' : 'S'", "'S'"),
    ("eigenvalues: the triangle", FACTOR, "f.is_upper = triangle == 'U' || triangle == 'u';", ""),
    ("solve: sides", FACTOR, "f.is_transposed = (uint32_t)(is_left == is_adjoint);", "f.is_transposed = (uint32_t)is_adjoint;"),
    ("results: their order", FACTOR, "if (!is_row_major && is_column_major(t)) return TN_OK;", "return TN_OK;"),
    ("rows: the library is there", FACTOR, "libraries->can_factor && libraries->can_factor(d->handle)", "libraries->can_factor"),
    ("rows: errors at once", FACTOR, "tn_value_as_bool(call->args[2]) ? \"errors are asked for at once\" : ", ""),
    ("rows: empty tensors", FACTOR, "if (t && !gpu_numel(t)) return \"a tensor is empty\";", ""),
]
SHARE = "plugins/cuda/share.c"
SHARING = [
    ("memory: whole pages", SHARE, "made.bytes = (bytes + granularity - 1) / granularity * granularity;", "made.bytes = bytes;"),
    ("memory: the device may use it", SHARE, "status = SHARE(d, cuMemSetAccess, made.address, made.bytes, &access, 1);", "status = TN_OK;"),
    ("memory: its handle goes", SHARE, "    CALL(d, cuMemRelease, m->handle);\n", ""),
    ("memory: its mapping goes", SHARE, "if (is_mapped) CALL(d, cuMemUnmap, m->address, m->bytes);", ""),
    ("memory: its addresses go", SHARE, "if (m->address) CALL(d, cuMemAddressFree, m->address, m->bytes);", ""),
    ("memory: freed as what it is", FILE, " && !VENDOR_FREE_SHARED(d, memory)", ""),
    ("import: a file that is too small", SHARE, "result == CUDA_ERROR_INVALID_VALUE && made.is_imported", "0"),
    ("event: for other processes", SHARE, "CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING", "CU_EVENT_DISABLE_TIMING"),
    ("event: recorded again", SHARE, "return CHECKED(d, cuEventRecord, ((cuda_event *)event)->event, cuda_stream_of(queue));", "return TN_OK;"),
    ("event: not of the pool", SHARE, ".is_shared = 1", ".is_shared = 0"),
    ("event: its destruction", FILE, "        CALL(d, cuEventDestroy, e->event);\n        free(e);\n        return;", "        free(e);\n        return;"),
]
RANGES = [
    ("range: its end", "plugins/cuda/ranges.c", "    nvtxRangePop();\n", ""),
    ("range: its name", "plugins/gpu/launch.c", "gpu_the_driver.range_begin(job->call->name)", "gpu_the_driver.range_begin(job->kernel)"),
]
SETS = {"waits": WAITS, "graphs": GRAPHS, "products": PRODUCTS, "convolutions": CONVOLUTIONS, "factors": FACTORS,
        "collectives": COLLECTIVES, "failures": FAILURES, "sharing": SHARING,
        "ranges": RANGES}

if __name__ == "__main__":
    sys.exit(mutation.hunt_plugin(Path(sys.argv[1]).resolve(), [sys.argv[2], "--filter", sys.argv[3] + "/*"], "cuda", SETS[sys.argv[3]]))
