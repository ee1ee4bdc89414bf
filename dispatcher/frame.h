/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call in flight. The frame lives on the stack of the call: the checked arguments, what the shape rule
 * said of the outputs, what the kernel will get. Layers and shape rules see nothing else.
 */
#ifndef TNI_DISPATCHER_FRAME_H
#define TNI_DISPATCHER_FRAME_H

#include "core/graph.h"
#include "core/loop_nest.h"
#include "core/thread.h"
#include "dispatcher/registry.h"

#define TNI_MAX_ARGS    32
#define TNI_MAX_OUTPUTS 8

typedef struct tni_out_meta {
    uint32_t defined; /* 0: an output that the operator leaves out */
    uint32_t rank;
    tn_dtype dtype;
    uint32_t has_strides; /* 0: row-major */
    int64_t *sizes;       /* in the frame's arena */
    int64_t *strides;
} tni_out_meta;

struct tni_frame {
    tn_context *ctx;
    tni_registry *registry;
    const tni_op *op;     /* as called */
    const tn_value *args; /* complete: defaults filled in. Out forms: the out arguments come last */
    tn_value *outs;       /* results, references of the caller's when the call returns */
    uint32_t n_args;      /* of the base form, without out arguments */
    uint32_t n_outs;
    uint32_t layers; /* bits of those that still want the call */

    /* What the shape rule says. All from here to `meta` is zero at first; more than 80 bytes are cleared
     * slowly */
    tn_device device;    /* where the outputs live */
    tn_dtype call_dtype; /* what the kernel computes in; 0: the dtype of the first tensor */
    uint32_t keep_dtype; /* bits of tensor arguments that are not cast to call_dtype (indices, masks) */
    uint64_t reduced;    /* reductions: dimensions of argument 0 that go away */
    double identity;     /* reductions: the result over no elements */
    uint8_t keepdim;
    uint8_t positions; /* the result is a position (argmax): the reduced dimensions keep their order */
    uint8_t done;      /* the rule made the outputs itself */
    uint8_t reserved[5];

    uint32_t wants_grad; /* an argument takes part in autograd and recording is on */
    uint32_t arena_used; /* words */
    tni_device *open_device;
    tn_stream *stream;
    tni_kept *kept;
    tn_scope *scope; /* of a composite or gradient body, made when asked for */

    tni_out_meta meta[TNI_MAX_OUTPUTS];
    tn_tensor *given[TNI_MAX_OUTPUTS]; /* in-place and out forms: where output i goes; else NULL */

    /* Kernel side */
    tn_call call;
    tni_frame *outer; /* the one that was in a plugin's hands before, while this one is */
    int64_t arena[512];
};

/* Around a function that gets the frame's call: only then, and on this thread, the host's functions take it.
 */
static inline void tni_frame_lend(tni_frame *f)
{
    f->outer = tni_tls.running;
    tni_tls.running = f;
}
static inline void tni_frame_take_back(const tni_frame *f)
{
    tni_tls.running = f->outer;
}

/* ---- what shape rules use ---- */
/* Argument readers; index is that of the schema. */
static inline tn_tensor *tni_arg_tensor(const tni_frame *f, uint32_t i)
{
    return tn_value_as_tensor(f->args[i]);
}
static inline int64_t tni_arg_int(const tni_frame *f, uint32_t i)
{
    return tn_value_as_int(f->args[i]);
}
static inline double tni_arg_float(const tni_frame *f, uint32_t i)
{
    return tn_value_as_float(f->args[i]);
}
static inline int32_t tni_arg_bool(const tni_frame *f, uint32_t i)
{
    return tn_value_as_bool(f->args[i]);
}
static inline int32_t tni_arg_given(const tni_frame *f, uint32_t i)
{
    return f->args[i].tag != TN_TAG_NONE;
}
/* Memory until the call ends; NULL and an error when the arena is full (it holds 4 KiB). */
void *tni_frame_memory(tni_frame *f, uint64_t bytes);
/* Says that output i is a row-major tensor, or one with strides. Copies sizes and strides. */
int32_t tni_out(tni_frame *f, uint32_t i, tn_dtype dtype, uint32_t rank, const int64_t *sizes);
int32_t tni_out_strided(tni_frame *f, uint32_t i, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                        const int64_t *strides);
/* Like t: same sizes, strides by the preserve rule. dtype 0: t's. */
int32_t tni_out_like(tni_frame *f, uint32_t i, const tn_tensor *t, tn_dtype dtype);
/* View rules: gives output i, taking the reference. */
static inline int32_t tni_out_give(tni_frame *f, uint32_t i, tn_tensor *t)
{
    f->outs[i] = tn_value_tensor(t);
    f->done = 1;
    return TN_OK;
}
/* tni_error with the operator's name before the text: "add: ...". */
int32_t tni_fail(const tni_frame *f, int32_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Refuses unless all tensor arguments are on one device (0-dim CPU tensors may mix); ATen's text. */
int32_t tni_check_devices(tni_frame *f);

/* ---- the call path ---- */
/* Runs the next layer that wants the call, at last the backend. */
int32_t tni_next(tni_frame *f);
/* Backend: shape rule, outputs, kernel. */
int32_t tni_run(tni_frame *f);
/* A complete call with owned results. `scope_of_error` may be NULL. */
int32_t tni_call(tn_context *ctx, const tni_op *op, const tn_value *args, uint32_t n_args, tn_value *outs,
                 uint32_t n_outs);

#endif
