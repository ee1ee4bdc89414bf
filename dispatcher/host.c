/* SPDX-License-Identifier: Apache-2.0 */
/* What plugins call back: the host table of plugin.h. */
#include <string.h>
#include "core/finding.h"
#include "core/graph.h"
#include "dispatcher/backend.h"
#include "dispatcher/custom.h"
#include "dispatcher/define.h"

/* The frame of a call that runs on this thread; else NULL and an error. A call that is over is not trusted.
 */
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

/* A status that a plugin may name. */
static int32_t status_of(int32_t code)
{
    return code > TN_OK && code < TN_STATUS_COUNT ? code : TN_E_CONTRACT;
}

static int32_t host_error(void *context, int32_t code, const char *message)
{
    (void)context;
    return tni_error(status_of(code), "%s", message ? message : "");
}

static int32_t host_error_native(void *context, int32_t code, const char *message, int32_t native_code,
                                 const char *native_text)
{
    (void)context;
    code = tni_error(status_of(code), "%s", message ? message : "");
    tni_error_native(native_code, native_text);
    return code;
}

static void host_log(void *context, int32_t level, const char *text)
{
    tni_log(context, level, "%s", text ? text : "");
}
static uint32_t host_intern(void *context, const char *text)
{
    return tn_intern(context, text);
}
static const char *host_interned(void *context, uint32_t id)
{
    return tn_interned(context, id);
}
static void *host_alloc(void *context, uint64_t bytes)
{
    return tni_alloc(context, bytes);
}
static void host_free(void *context, void *memory, uint64_t bytes)
{
    tni_free(context, memory, bytes);
}

static void release_block(void *block)
{
    tni_block_free(block);
}

/* Memory of the call's stream: freed at once, the allocator keeps it in order of the stream. */
int32_t tni_host_workspace(const tn_call *call, uint64_t bytes, void **out_allocation, uint64_t *out_offset,
                           void **out_host)
{
    tni_frame *f = frame_of(call, "workspace");
    tni_block *block;
    int32_t status;
    if (!f) return TN_E_CONTRACT;
    if (!f->open_device) return tni_error(TN_E_STATE, "workspace: the call has no device");
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
        status = tni_error(TN_E_CONTRACT, "%s of %s returned %d, which is no status", function,
                           tni_op_name(op), status);
    return status == TN_OK ? TN_OK : tni_error_ensure(status, tni_op_name(op));
}

/*
 * What is kept alive is released when the kernel function has returned: memory of the allocator may be given
 * to later work of the same stream only, which comes after.
 */
int32_t tni_host_keep_alive(const tn_call *call, void *pointer, void (*release)(void *pointer))
{
    tni_frame *f = frame_of(call, "keep_alive");
    if (!f) return TN_E_CONTRACT;
    if (!f->open_device || f->scope || !release)
        return tni_error(TN_E_STATE, "keep_alive: no kernel's call, or no release");
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
    if (!t || rank > TN_MAX_RANK) return tni_error(TN_E_CONTRACT, "resize_output: no output %u", i);
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
        return tni_fail(f, TN_E_CONTRACT, "define_output: only a shape rule defines outputs");
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
    if (!f->scope)
        return tni_error(TN_E_CONTRACT, "set_output: only composites and gradients give outputs by it");
    if (i >= call->n_outs) return tni_error(TN_E_CONTRACT, "set_output: no output %u", i);
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
    if (!generator) return tni_error(TN_E_STATE, "random_reserve: the call has no device");
    if (f->open_device) {
        int32_t status = tni_capture_refuse(f->stream, "%s, which draws random numbers,", tni_op_name(f->op));
        if (status) return status;
    }
    tni_generator_reserve(generator, count, out_seed, out_offset);
    return TN_OK;
}

/* Scope functions for plugins: a kernel has no scope, and then NULL comes. */
static int32_t no_scope(const char *what)
{
    return tni_error(TN_E_CONTRACT, "%s: no scope (only composites and gradients have one)", what);
}

static int32_t host_scope_call(tn_scope *s, uint32_t op, const tn_value *args, uint32_t n_args,
                               tn_value *outs, uint32_t n_outs)
{
    return s ? tn_scope_call(s, op, args, n_args, outs, n_outs) : no_scope("scope_call");
}

static int32_t host_scope_failed(const tn_scope *s)
{
    return s ? tn_scope_failed(s) : no_scope("scope_failed");
}

static int32_t host_scope_fail(tn_scope *s, int32_t code, const char *message)
{
    return s ? tn_scope_fail(s, status_of(code), message ? message : "") : no_scope("scope_fail");
}

static void *host_scope_memory(tn_scope *s, uint64_t bytes)
{
    if (s) return tn_scope_memory(s, bytes);
    no_scope("scope_memory");
    return NULL;
}

static void host_drop(tn_scope *s, tn_tensor *t)
{
    if (s) tn_drop(s, t);
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

static int32_t host_report(void *context, const tn_finding *finding)
{
    return tni_report(context, finding);
}

void tni_host_fill(tn_context *ctx)
{
    ctx->host = (tn_host){
        .size = sizeof(tn_host),
        .abi_major = TN_ABI_MAJOR,
        .abi_minor = TN_ABI_MINOR,
        .context = ctx,
        .error = host_error,
        .error_native = host_error_native,
        .log = host_log,
        .intern = host_intern,
        .interned = host_interned,
        .alloc = host_alloc,
        .free = host_free,
        .workspace = tni_host_workspace,
        .resize_output = tni_host_resize_output,
        .define_output = tni_host_define_output,
        .set_output = tni_host_set_output,
        .call_scope = tni_host_call_scope,
        .random_reserve = tni_host_random_reserve,
        .keep_alive = tni_host_keep_alive,
        .register_operator = host_register_operator,
        .register_kernels = host_register_kernels,
        .find_operator = host_find_operator,
        .scope_call = host_scope_call,
        .scope_failed = host_scope_failed,
        .scope_fail = host_scope_fail,
        .scope_memory = host_scope_memory,
        .drop = host_drop,
        .report = host_report,
    };
}
