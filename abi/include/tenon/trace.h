/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces: the operators that a thread calls, written down as a list that can be read and run again on other
 * tensors. What is written down is what the program calls, above autograd and mixed precision: a run records
 * gradients and casts as its own scope says.
 *
 * Values have numbers: the inputs from 0, then constants and results in the order in which they appear. A
 * constant is a tensor that is no input and that no traced call made, a parameter for example; the trace
 * keeps it, sees later writes to it, and writes to it itself where the program did. Numbers, strings and
 * lists are those of the traced calls, also where the program took them from a tensor; branches are those
 * that were taken. Random operators draw anew in each run.
 */
#ifndef TENON_TRACE_H
#define TENON_TRACE_H

#include <tenon/op.h>

TN_BEGIN_DECLS

typedef struct tn_call_trace tn_call_trace;

#ifndef TN_PLUGIN
/*
 * From here on the calls of this thread are written down, each after it has succeeded. NULL and an error on
 * this thread when it is tracing already. What the traced calls make stays in memory until tn_call_trace_end.
 */
TN_API TN_GIVES TN_NULLABLE tn_call_trace *tn_call_trace_begin(tn_context *ctx, tn_tensors inputs);
/*
 * Ends it, on the thread that began. `outputs` are what a run gives. TN_E_STATE when the trace is not to be
 * trusted, because a call used a view of a traced tensor that no operator made; it can only be released then.
 */
TN_API int32_t tn_call_trace_end(tn_call_trace *trace, tn_tensors outputs);
/* Before the context ends. A trace that was not ended is given up, on the thread that began it only. NULL is
 * ignored. */
TN_API void tn_call_trace_release(TN_TAKES TN_NULLABLE tn_call_trace *trace);

/*
 * Runs the calls again, from any thread, any number of threads at once (as far as the operators themselves
 * allow it: constants are shared). `outs` has room for the outputs, which belong to the scope.
 */
TN_API int32_t tn_call_trace_run(tn_scope *s, const tn_call_trace *trace, tn_tensors inputs,
                                 TN_OUT tn_tensor **outs);

/* One call. Arrays are the trace's. */
typedef struct tn_call_trace_step {
    uint32_t size;
    uint32_t op;
    const char *name;     /* "aten::add.Tensor" */
    const uint32_t *used; /* numbers of the tensors among its arguments, in order */
    const uint32_t *made; /* of the tensors among its results: new numbers, or those of arguments */
    uint32_t n_used;
    uint32_t n_made;
} tn_call_trace_step;
TN_API uint32_t tn_call_trace_count(const tn_call_trace *trace) TN_ANY_THREAD;
/* The caller sets out->size. TN_E_INDEX beyond the last. */
TN_API int32_t tn_call_trace_get(const tn_call_trace *trace, uint32_t i,
                                 TN_OUT tn_call_trace_step *out) TN_ANY_THREAD;
/* One line for each call, "%3 = aten::add.Tensor(%0, %2, 1)", zero-terminated and cut at `bytes`. Returns the
 * length that the whole text has. */
TN_API uint64_t tn_call_trace_text(const tn_call_trace *trace, TN_OUT char *text,
                                   uint64_t bytes) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
