/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces: the operators that a thread calls, recorded as a list that can be read, and run again on other
 * tensors. A trace holds the calls of the program, before autograd and mixed precision act on them: each run
 * records gradients and casts as its own scope says.
 *
 * Tensors have numbers: the inputs from 0, then constants and results in order of appearance. A constant is
 * a tensor that is neither an input nor the result of a traced call, for example a parameter. The trace
 * keeps constants alive, sees later writes to them, and writes to them where the traced program did.
 * Scalars, strings and lists keep the values that they had in the traced calls, even if the program read
 * them from a tensor; branches stay as taken. Random operators draw new numbers in each run.
 */
#ifndef TENON_TRACE_H
#define TENON_TRACE_H

#include <tenon/op.h>

TN_BEGIN_DECLS

typedef struct tn_call_trace tn_call_trace;

#ifndef TN_PLUGIN
/*
 * Starts to record the calls of this thread, each after it has succeeded. NULL and an error on this thread if
 * it is tracing already. The results of traced calls stay in memory until tn_call_trace_end.
 */
TN_API TN_GIVES TN_NULLABLE tn_call_trace *tn_call_trace_begin(tn_context *ctx, tn_tensors inputs);
/*
 * Ends the recording, on the thread that began it. `outputs` are the tensors that a run returns. TN_E_STATE
 * if a call used a view of a traced tensor that no operator made: the trace cannot be run then, only
 * released.
 */
TN_API int32_t tn_call_trace_end(tn_call_trace *trace, tn_tensors outputs);
/* Releases a trace; must be called before the context ends. A trace that was not ended is discarded, on the
 * thread that began it only. NULL is ignored. */
TN_API void tn_call_trace_release(TN_TAKES TN_NULLABLE tn_call_trace *trace);

/*
 * Runs the calls again. Any number of threads may run a trace at once, if its calls do not write to
 * constants, which all runs share. `outs` has room for the outputs, which belong to the scope.
 */
TN_API int32_t tn_call_trace_run(tn_scope *s, const tn_call_trace *trace, tn_tensors inputs,
                                 TN_OUT tn_tensor **outs);

/* One call. Its arrays belong to the trace. */
typedef struct tn_call_trace_step {
    uint32_t size;
    uint32_t op;
    const char *name;     /* "aten::add.Tensor" */
    const uint32_t *used; /* numbers of the tensor arguments, in order */
    const uint32_t *made; /* numbers of the tensor results: new ones, or those of arguments */
    uint32_t n_used;
    uint32_t n_made;
} tn_call_trace_step;
TN_API uint32_t tn_call_trace_count(const tn_call_trace *trace) TN_ANY_THREAD;
/* The caller sets out->size. TN_E_INDEX beyond the last. */
TN_API int32_t tn_call_trace_get(const tn_call_trace *trace, uint32_t i,
                                 TN_OUT tn_call_trace_step *out) TN_ANY_THREAD;
/* Writes one line for each call, "%3 = aten::add.Tensor(%0, %2, 1)", truncated to `bytes` with the
 * terminating zero. Returns the length of the whole text. */
TN_API uint64_t tn_call_trace_text(const tn_call_trace *trace, TN_OUT char *text,
                                   uint64_t bytes) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
