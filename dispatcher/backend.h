/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend: runs a call below all layers. One function for each way to prepare a kernel, and what they
 * share: outputs, kernels, copies, the fallback to the CPU.
 */
#ifndef TNI_DISPATCHER_BACKEND_H
#define TNI_DISPATCHER_BACKEND_H

#include "core/context.h"
#include "core/profile.h"
#include "dispatcher/call.h"

/* Memory of a prepared call beyond its own; begins with tensors to release. */
typedef struct tni_prepared_memory {
    struct tni_prepared_memory *next;
    tn_context *ctx;
    uint64_t bytes;
    uint64_t n_tensors;
} tni_prepared_memory;

/* The arguments of a kernel after casts and copies, and the temporaries to release. */
#define TNI_PREPARED_TEMPORARIES 64 /* those that need no memory of their own */
typedef struct tni_prepared {
    tn_value args[TNI_MAX_ARGS];
    tn_value outs[TNI_MAX_OUTPUTS];
    tn_tensor *temporaries[TNI_PREPARED_TEMPORARIES];
    tni_prepared_memory *memory;
    uint32_t n_temporaries;
    uint32_t n_args;
    uint32_t n_outs;
} tni_prepared;

void tni_prepared_init(tni_prepared *p, const tni_frame *f);
/* Releases the temporaries. Their memory stays ordered by the stream. */
void tni_prepared_finish(tni_prepared *p);
/* Takes the reference. Fails without memory, and releases t then. */
int32_t tni_prepared_own(tni_prepared *p, tn_tensor *t);
/* Memory for a list of `count` tensors until tni_prepared_finish; NULL and an error without memory. */
tn_tensor **tni_prepared_list(tni_prepared *p, tn_context *ctx, uint32_t count);

/* One for each kind of operator; tni_run (run.c) chooses. */
int32_t tni_run_pointwise(tni_frame *f);
/* Runs the call if the fast path can; TNI_NOT_FAST: tni_run_pointwise must. */
#define TNI_NOT_FAST (-1)
int32_t tni_run_fast_pointwise(tni_frame *f);
static inline int32_t tni_run_elementwise(tni_frame *f)
{
    int32_t status = tni_run_fast_pointwise(f);
    return TNI_UNLIKELY(status == TNI_NOT_FAST) ? tni_run_pointwise(f) : status;
}
int32_t tni_run_reduction(tni_frame *f);
int32_t tni_run_scan(tni_frame *f);
int32_t tni_run_structured(tni_frame *f);
int32_t tni_run_composite(tni_frame *f);
int32_t tni_run_view(tni_frame *f);
/* The function of an operator that only copies or fills (clone, copy_, _to_copy, fill_), else NULL. */
tni_layer_fn *tni_copy_operator_of(uint32_t number);

/* ---- outputs ---- */
/* Sets f->given: the tensors that the results of in-place and out forms go to. */
static inline void tni_find_given(tni_frame *f)
{
    const tni_op *op = f->op;
    for (uint32_t i = 0; i < op->n_given; i++) f->given[i] = tni_arg_tensor(f, op->first_given + i);
}
/*
 * Makes the outputs that the shape rule described. f->outs[i] is the result: a given tensor, resized if it is
 * an out argument, or a new one. The kernel writes targets[i]: the result, or a temporary if its dtype,
 * strides or overlap do not suit, or if it is to be resized and an input as well. `strict`: the target must have
 * the strides of the rule.
 */
int32_t tni_make_outputs(tni_frame *f, tni_prepared *p, tn_tensor **targets, int32_t strict);
/* Copies temporaries into the given tensors; counts the writes. A given tensor is resized here if it is an input,
 * or if the kernel has resized the temporary. */
int32_t tni_finish_outputs(tni_frame *f, tn_tensor **targets);
/* f->device, f->open_device, f->stream. */
int32_t tni_find_device(tni_frame *f);
/* Fails unless the tensor given for output i has the right device and size and a dtype that the result can be
 * cast to. Out arguments are resized. */
int32_t tni_check_given(tni_frame *f, uint32_t i);
/* Fails if two tensors that an out form is to write share memory: results of different sizes cannot both be in one. */
int32_t tni_check_results_apart(tni_frame *f);
/* Copies an item of a list, a result, to the tensor of an out form, which is resized if it has another size. */
int32_t tni_give_item(tni_frame *f, tn_tensor *given, tn_tensor *item);
/* Takes finished results over as the outputs; copies them into given tensors. */
int32_t tni_give_results(tni_frame *f, tn_value *results, uint32_t n);
/* Fails if the dtype of a given tensor cannot hold the result. */
int32_t tni_check_castable(tni_frame *f, tn_dtype from, tn_dtype to);

/* ---- kernels ---- */
/* The first kernel from `k` on that lists a vendor's dtype, or NULL. */
const tni_kernel *tni_kernel_for_vendor(const tni_kernel *k, tn_dtype dtype);
/* The first kernel from `k` on that takes the dtype, or NULL. */
static inline const tni_kernel *tni_kernel_for(const tni_kernel *k, tn_dtype dtype)
{
    int32_t index = tni_dtype_index(dtype);
    if (TNI_UNLIKELY(index < 0) && tni_dtype_is_vendor(dtype)) return tni_kernel_for_vendor(k, dtype);
    uint32_t bit = index >= 0 ? 1u << index : 0;
    while (k && (tni_kernel_is_disabled(k) || !(k->dtypes == UINT32_MAX || k->dtypes & bit)))
        k = tni_kernel_follower(k);
    return k;
}
/* The first kernel of the operator for the frame's open device, and the next one. */
static inline const tni_kernel *tni_kernel_first(const tni_frame *f, const tni_op *op, tn_dtype dtype)
{
    if (!f->open_device) return NULL;
    return tni_kernel_for(
        atomic_load_explicit(&op->kernels[f->open_device->type->slot], memory_order_acquire), dtype);
}
static inline const tni_kernel *tni_kernel_next(const tni_kernel *after, tn_dtype dtype)
{
    return tni_kernel_for(tni_kernel_follower(after), dtype);
}
#define TNI_BINDING_FLAGS 0xffffu /* of TN_CALL_... */
/* The error of an operator, or of its kernel, in deterministic mode. */
int32_t tni_refuse_nondeterministic(const tni_op *op);
/* Whether the kernel may run. Otherwise the result of the call: a refusal, or the status of a kernel that has run
 * here because it has a scope, or is measured or waited for. */
#define TNI_KERNEL_MAY_RUN (-1)
int32_t tni_kernel_ask(tni_frame *f, const tni_kernel *k, const char **reason);
int32_t tni_kernel_after(tni_frame *f, const tni_kernel *k, int32_t status, const char **reason);
/* Asks can_run, then runs a kernel of the base operator. TN_E_UNSUPPORTED: it refused and wrote nothing;
 * *reason (static) says why. */
static inline int32_t tni_kernel_run(tni_frame *f, const tni_kernel *k, const tn_value *args,
                                     const tn_value *outs, const tn_nest *nest, const char **reason)
{
    tn_context *ctx = f->ctx;
    tn_call *c = &f->call;
    c->size = sizeof *c;
    uint32_t flags = atomic_load_explicit(&ctx->call_flags, memory_order_relaxed);
    c->flags = flags & ~TNI_CALL_INTERNAL;
    c->n_args = f->n_args - k->unknown_args;
    c->n_outs = f->op->base->n_returns;
    c->args = args;
    c->outs = (tn_value *)(uintptr_t)outs;
    c->nest = nest;
    c->data = k->row.data;
    c->device = f->open_device->handle;
    c->stream = f->stream->handle;
    c->host = &ctx->host;
    c->state = f;
    c->stream_id = f->stream->id;
    c->threads = atomic_load_explicit(&ctx->threads, memory_order_relaxed);
    c->op = f->op->base->number;
    c->name = f->op->base->name;
    if (TNI_UNLIKELY(k->asks || flags & TNI_BINDING_FLAGS)) {
        int32_t answer = tni_kernel_ask(f, k, reason);
        if (answer != TNI_KERNEL_MAY_RUN) return answer;
    }
    tni_frame_lend(f);
    int32_t status = k->row.run(k->self, c);
    tni_frame_take_back(f);
    return TNI_LIKELY(!status && !f->kept) ? TN_OK : tni_kernel_after(f, k, status, reason);
}
/* Without a kernel: runs the composite, else on the CPU, else fails. */
int32_t tni_fall_back(tni_frame *f, const char *reason);
/* Fails if the policy forbids fallbacks to the CPU. */
int32_t tni_fallback_allowed(tn_context *ctx, const tni_op *op, const char *reason);
/* Counts a fallback, with the bytes that were copied for it. `reason` is static. */
void tni_fallback_count(tn_context *ctx, const tni_op *op, tn_device device, uint64_t bytes,
                        const char *reason);

/* Composites that only call another operator ("scalar_other", "view_copy"), see redirect.c. */
void tni_composite_redirect(tn_scope *s, const tni_op *op, const tn_value *args, tn_value *outs);
/* Operators that call another one for each item of lists, see foreach.c. */
void tni_composite_foreach(tni_frame *f, tn_scope *s, tn_value *outs);
/* Operators that are not built in, see custom.c. */
int32_t tni_custom_infer(tni_frame *f);
void tni_custom_composite(tni_frame *f, tn_scope *s, tn_value *outs);

/* ---- copies, see copy.c ---- */
/* dst = src, broadcast, cast, from any device to any. */
int32_t tni_copy_tensor(tn_tensor *dst, tn_tensor *src);
/* `non_blocking`: a copy between pinned memory of the host and a device may return before it is done. */
int32_t tni_copy_tensor_as(tn_tensor *dst, tn_tensor *src, int32_t non_blocking);
int32_t tni_fill_tensor(tn_tensor *t, tn_value value);
/* New tensors; the caller owns them. */
int32_t tni_contiguous_copy(tn_tensor *t, tn_dtype dtype, int32_t memory_format, tn_tensor **out);
int32_t tni_to_cpu(tn_tensor *t, tn_tensor **out);    /* same sizes and strides, bytes as stored */
int32_t tni_from_cpu(tn_tensor *dst, tn_tensor *cpu); /* same sizes and dtype */
uint64_t tni_tensor_bytes(const tn_tensor *t);

#endif
