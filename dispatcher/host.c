/* SPDX-License-Identifier: Apache-2.0 */
/* What plugins call back: the slots of the host table (plugin.h) that take a call or an operator. */
#include <string.h>
#include "core/block.h"
#include "core/graph.h"
#include "dispatcher/backend.h"
#include "dispatcher/custom.h"
#include "dispatcher/define.h"

/* The frame of a call that runs on this thread, else NULL and an error. The address is compared with those of
 * the running frames before it is read, since a plugin may pass a call that has ended. */
static tni_frame *frame_of(const tn_call *call, const char *what)
{
    tni_frame *f = tni_tls.running;
    while (f && call && f != call->state) f = f->outer;
    if (!f || !call) {
        tni_error(TN_E_CONTRACT, "%s: %s", what,
                  call ? "the call is over, or runs on another thread" : "no call was given");
        return NULL;
    }
    return f;
}

static void release_block(void *block)
{
    tni_block_free(block);
}

/* Memory on the call's stream. It is freed when the kernel returns: the allocator reuses it only for later work
 * of the same stream. */
int32_t tni_host_workspace(const tn_call *call, uint64_t bytes, void **out_allocation, uint64_t *out_offset,
                           void **out_host)
{
    tni_frame *f = frame_of(call, "workspace");
    tni_block *block;
    int32_t status;
    if (!f) return TN_E_CONTRACT;
    if (!f->open_device) return tni_error(TN_E_STATE, "workspace: a shape rule or composite has no device");
    status = tni_block_alloc(f->open_device, bytes, f->stream, &block);
    if (status) return status;
    status = tni_host_keep_alive(call, block, release_block);
    if (status) {
        tni_block_free(block);
        return status;
    }
    if (out_allocation) *out_allocation = block->allocation;
    if (out_offset) *out_offset = block->offset;
    if (out_host) *out_host = block->host;
    return TN_OK;
}

int32_t tni_plugin_status(const tni_op *op, const char *function, int32_t status)
{
    if (status < 0 || status >= TN_STATUS_COUNT)
        status = tni_error(TN_E_CONTRACT, "%s of %s returned %d, not a valid status code", function,
                           tni_op_name(op), status);
    return status == TN_OK ? TN_OK : tni_error_ensure(status, tni_op_name(op));
}

int32_t tni_host_keep_alive(const tn_call *call, void *pointer, void (*release)(void *pointer))
{
    tni_frame *f = frame_of(call, "keep_alive");
    if (!f) return TN_E_CONTRACT;
    if (!f->open_device || f->scope || !release)
        return tni_error(TN_E_STATE, "keep_alive: %s",
                         release ? "only kernels may call it" : "release is NULL");
    tni_kept *kept = tni_alloc(f->ctx, sizeof *kept);
    if (!kept) return TN_E_OUT_OF_MEMORY;
    *kept = (tni_kept){
        .next = f->kept, .pointer = pointer, .release = release, .is_block = release == release_block};
    f->kept = kept;
    return TN_OK;
}

int32_t tni_host_resize_output(const tn_call *call, uint32_t i, uint32_t rank, const int64_t *sizes)
{
    if (!frame_of(call, "resize_output")) return TN_E_CONTRACT;
    int64_t strides[TN_MAX_RANK], numel;
    tn_tensor *t = i < call->n_outs ? tn_value_as_tensor(call->outs[i]) : NULL;
    int32_t status;
    if (!t || rank > TN_MAX_RANK) return tni_error(TN_E_CONTRACT, "resize_output: there is no output %u", i);
    status = tni_numel(rank, sizes, &numel);
    if (status) return status;
    tni_contiguous_strides(rank, sizes, strides);
    if ((uint64_t)numel * (uint64_t)tn_dtype_bytes(t->desc.dtype) > t->storage->bytes) {
        status = tni_storage_resize(t->storage, (uint64_t)numel * (uint64_t)tn_dtype_bytes(t->desc.dtype));
    }
    return status ? status : tni_tensor_set_view(t, rank, sizes, strides, 0);
}

int32_t tni_host_define_output(const tn_call *call, uint32_t i, tn_dtype dtype, uint32_t rank,
                               const int64_t *sizes, tn_device device)
{
    tni_frame *f = frame_of(call, "define_output");
    if (!f) return TN_E_CONTRACT;
    if (f->open_device || f->scope)
        return tni_fail(f, TN_E_CONTRACT, "define_output: only shape rules may call it");
    if (i >= f->op->base->n_returns || rank > TN_MAX_RANK || (rank && !sizes))
        return tni_fail(f, TN_E_CONTRACT, "the shape rule defined output %u of rank %u", i, rank);
    if (tni_dtype_index(dtype) < 0)
        return tni_fail(f, TN_E_CONTRACT, "the shape rule gave output %u an unknown dtype", i);
    if (device) f->device = device;
    return tni_out(f, i, dtype, rank, sizes);
}

int32_t tni_host_set_output(const tn_call *call, uint32_t i, tn_tensor *t)
{
    const tni_frame *f = frame_of(call, "set_output");
    if (!f) return TN_E_CONTRACT;
    if (!f->scope) return tni_error(TN_E_CONTRACT, "set_output: only composites and gradients may call it");
    if (i >= call->n_outs) return tni_error(TN_E_CONTRACT, "set_output: there is no output %u", i);
    call->outs[i] = tn_value_tensor(t);
    return TN_OK;
}

tn_scope *tni_host_call_scope(const tn_call *call)
{
    const tni_frame *f = frame_of(call, "call_scope");
    return f ? f->scope : NULL;
}

int32_t tni_host_random_reserve(const tn_call *call, tn_generator *generator, uint64_t count,
                                uint64_t *out_seed, uint64_t *out_offset)
{
    tni_frame *f = frame_of(call, "random_reserve");
    if (!f) return TN_E_CONTRACT;
    if (!generator && f->open_device) generator = tni_default_generator(f->open_device);
    if (!generator)
        return tni_error(TN_E_STATE, "random_reserve: the call has neither a generator nor a device");
    if (f->open_device) {
        int32_t status = tni_capture_refuse(f->stream, "%s, which draws random numbers,", tni_op_name(f->op));
        if (status) return status;
    }
    tni_generator_reserve(generator, count, out_seed, out_offset);
    return TN_OK;
}

static int32_t host_scope_call(tn_scope *s, uint32_t op, const tn_value *args, uint32_t n_args,
                               tn_value *outs, uint32_t n_outs)
{
    if (!s) return tni_no_scope("scope_call");
    return tn_scope_call(s, op, args, n_args, outs, n_outs);
}

static int32_t host_register_operator(void *context, const tn_operator_def *def)
{
    return tni_operator_define(context, def, NULL);
}

static int32_t host_register_kernels(void *context, const char *device_type, void *self,
                                     const tn_kernel_row *rows, uint32_t count, uint32_t row_bytes)
{
    return tni_kernels_register(context, device_type, "a plugin", self, rows, count, row_bytes);
}

static uint32_t host_find_operator(void *context, const char *name)
{
    return tn_operator_find(context, name);
}

void tni_host_fill(tn_context *ctx)
{
    ctx->host.workspace = tni_host_workspace;
    ctx->host.resize_output = tni_host_resize_output;
    ctx->host.define_output = tni_host_define_output;
    ctx->host.set_output = tni_host_set_output;
    ctx->host.call_scope = tni_host_call_scope;
    ctx->host.random_reserve = tni_host_random_reserve;
    ctx->host.keep_alive = tni_host_keep_alive;
    ctx->host.register_operator = host_register_operator;
    ctx->host.register_kernels = host_register_kernels;
    ctx->host.find_operator = host_find_operator;
    ctx->host.scope_call = host_scope_call;
}
