/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call in progress. Its frame lives on the stack: the checked arguments, the outputs as the shape rule
 * described them, the call that the kernel gets. Layers and shape rules see nothing else.
 */
#ifndef TNI_DISPATCHER_FRAME_H
#define TNI_DISPATCHER_FRAME_H

#include "core/graph.h"
#include "core/loop_nest.h"
#include "core/thread.h"
#include "dispatcher/registry.h"

typedef struct tni_out_meta {
    uint32_t defined; /* 0: an output that the operator leaves out */
    uint32_t rank;
    tn_dtype dtype;
    uint32_t has_strides; /* 0: contiguous */
    int64_t *sizes;       /* in the frame's arena */
    int64_t *strides;
} tni_out_meta;

struct tni_frame {
    tn_context *ctx;
    tni_registry *registry;
    const tni_op *op;     /* as called */
    const tn_value *args; /* complete, with defaults; those of out forms end with the out arguments */
    tn_value *outs;       /* the caller owns the results when the call returns */
    uint32_t n_args;      /* of the base form, without out arguments */
    uint32_t n_outs;
    uint32_t layers; /* bits of the layers that the call still passes */

    /* Set by the shape rule. tni_frame_init clears from here to `meta`, which is fast up to 80 bytes. */
    tn_device device;    /* where the outputs live */
    tn_dtype call_dtype; /* the kernel computes in it; 0: the dtype of the first tensor */
    uint32_t keep_dtype; /* bits of tensor arguments that are not cast to call_dtype (indices, masks) */
    uint64_t reduced;    /* reductions: bits of the dimensions of argument 0 that are reduced */
    double identity;     /* reductions: the result over no elements */
    uint8_t keepdim;
    uint8_t positions;       /* argmax and argmin: the reduced dimensions keep their order */
    uint8_t done;            /* the rule made the outputs itself */
    uint8_t is_kernel_scope; /* `scope` is one that the row of a kernel asked for */
    uint8_t refuses_scope;   /* `scope` is that of a function which may not call operators: each call fails */
    uint8_t reads_random_state; /* the row has TN_ROW_RANDOM_STATE */
    uint8_t runs_once;          /* the kernel may not be called again, see tn_kernel_fn */
    uint8_t reserved;

    uint32_t wants_grad; /* an argument requires a gradient and recording is on */
    uint32_t arena_used; /* words */
    tni_device *open_device;
    tn_stream *stream;
    tni_kept *kept;
    tn_scope *scope; /* of a composite or gradient function, or of a kernel; or one that refuses */

    tni_out_meta meta[TNI_MAX_OUTPUTS];
    tn_tensor *given[TNI_MAX_OUTPUTS]; /* in-place and out forms: where output i goes; else NULL */

    /* Kernel side */
    tn_call call;
    tni_frame *outer; /* while a plugin has this frame's call: the frame whose call a plugin had before */
    int64_t arena[512];
};

/* Called before and after a plugin's function that gets the frame's call: in between, and on this thread only,
 * the functions of tn_host accept the call. */
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
/* Argument i of the schema. */
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
/* Describes output i as a contiguous tensor, or as one with these strides. Copies sizes and strides. */
int32_t tni_out(tni_frame *f, uint32_t i, tn_dtype dtype, uint32_t rank, const int64_t *sizes);
int32_t tni_out_strided(tni_frame *f, uint32_t i, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                        const int64_t *strides);
/* Like t: same sizes, strides by the preserve rule. dtype 0: t's. */
int32_t tni_out_like(tni_frame *f, uint32_t i, const tn_tensor *t, tn_dtype dtype);
/* View rules: t becomes output i; takes the reference. */
static inline int32_t tni_out_give(tni_frame *f, uint32_t i, tn_tensor *t)
{
    f->outs[i] = tn_value_tensor(t);
    f->done = 1;
    return TN_OK;
}
/* tni_error with the operator's name before the text: "add: ...". */
int32_t tni_fail(const tni_frame *f, int32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails unless all tensor arguments are on one device; 0-dim CPU tensors may stand among them. */
int32_t tni_check_devices(tni_frame *f);

/* ---- the call path ---- */
/* Runs the next layer of the call; after the last one, the backend. */
int32_t tni_next(tni_frame *f);
/* Backend: shape rule, outputs, kernel. */
int32_t tni_run(tni_frame *f);
/* A complete call. The caller owns the results. */
int32_t tni_call(tn_context *ctx, const tni_op *op, const tn_value *args, uint32_t n_args, tn_value *outs,
                 uint32_t n_outs);

#endif
