/* SPDX-License-Identifier: Apache-2.0 */
/* What plugins call back: the slots of the host table (plugin.h) that take a call or an operator. */
#include <string.h>
#include "core/block.h"
#include "core/graph.h"
#include "dispatcher/backend.h"
#include "dispatcher/custom.h"
#include "dispatcher/define.h"
#include "dispatcher/rows.h"

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

/* A composite or a gradient, which work on the scope of the call; a kernel may have a scope, too. */
static int32_t is_function(const tni_frame *f)
{
    return f->scope && !f->is_kernel_scope && !f->refuses_scope;
}

static void release_block(void *block)
{
    tni_block_free(block);
}

/* Reads a request for memory on this device. */
static int32_t read_request(const tni_device *d, const tn_memory_request *request, const char *what,
                            tn_memory_request *out)
{
    int32_t status = tni_struct_read(out, sizeof *out, request, "tn_memory_request");
    if (status) return status;
    if (out->kind && out->kind != d->memory_kind)
        return tni_error(TN_E_UNSUPPORTED, "%s: memory of kind %u (tensors of this device have kind %u)",
                         what, out->kind, d->memory_kind);
    if (out->flags) return tni_error(TN_E_UNKNOWN_FIELD, "%s: unknown flags 0x%x", what, out->flags);
    if (out->alignment & (out->alignment - 1))
        return tni_error(TN_E_ARGUMENT, "%s: the alignment %u is not a power of two", what, out->alignment);
    return TN_OK;
}

/* A block with room to begin at a multiple of the alignment, and the memory in it. */
static int32_t alloc_aligned(tni_device *d, const tn_memory_request *request, tn_stream *stream,
                             tni_block **out, tn_memory *memory)
{
    uint64_t granule = tni_allocator_granule(d->allocator), more = 0;
    if (request->bytes && request->alignment > granule) more = request->alignment - granule;
    int32_t status = tni_block_alloc(d, request->bytes + more, stream, out);
    if (status) return status;
    const tni_block *b = *out;
    uint64_t start = b->address ? b->address : b->host ? (uint64_t)(uintptr_t)b->host : b->offset;
    uint64_t skip = more ? (0 - start) & (request->alignment - 1u) : 0;
    *memory = (tn_memory){.size = sizeof *memory,
                          .kind = d->memory_kind,
                          .allocation = b->allocation,
                          .offset = b->offset + skip,
                          .host = b->host ? (char *)b->host + skip : NULL,
                          .address = b->address ? b->address + skip : 0,
                          .bytes = request->bytes,
                          .state = *out};
    return TN_OK;
}

/* Memory on the call's stream. It is freed when the kernel returns: the allocator reuses it only for later work
 * of the same stream. */
int32_t tni_host_workspace(const tn_call *call, const tn_memory_request *request, tn_memory *out)
{
    tni_frame *f = frame_of(call, "workspace");
    tn_memory_request r;
    tn_memory memory;
    tni_block *block;
    if (!f) return TN_E_CONTRACT;
    if (!f->open_device) return tni_error(TN_E_STATE, "workspace: a shape rule or composite has no device");
    int32_t status = read_request(f->open_device, request, "workspace", &r);
    if (!status) status = alloc_aligned(f->open_device, &r, f->stream, &block, &memory);
    if (status == TN_E_OUT_OF_MEMORY) f->runs_once = 1; /* the caches are empty already */
    if (status) return status;
    status = tni_host_keep_alive(call, block, release_block);
    if (!status) return tni_struct_write(out, &memory, sizeof memory, "tn_memory");
    tni_block_free(block);
    return status;
}

static void work_queued(const tn_call *call)
{
    tni_frame *f = frame_of(call, "work_queued");
    if (f) f->runs_once = 1;
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
    if (!f->open_device || is_function(f) || !release)
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
    int64_t strides[TN_MAX_RANK], numel, offset;
    tn_tensor *t = i < call->n_outs ? tn_value_as_tensor(call->outs[i]) : NULL;
    int32_t status;
    uint64_t bytes;
    if (!t || rank > TN_MAX_RANK) return tni_error(TN_E_CONTRACT, "resize_output: there is no output %u", i);
    status = tni_numel(rank, sizes, &numel);
    if (status) return status;
    tni_contiguous_strides(rank, sizes, strides);
    offset = tni_tensor_offset(t); /* of a tensor that the program gave */
    bytes = (uint64_t)(numel + offset) * (uint64_t)tn_dtype_bytes(t->desc.dtype);
    if (bytes > t->storage->bytes) status = tni_storage_resize(t->storage, bytes);
    return status ? status : tni_tensor_set_view(t, rank, sizes, strides, offset);
}

static int32_t no_output(const tni_op *op, const char *what, uint32_t i)
{
    return tni_error(TN_E_CONTRACT, "%s: there is no output %u (%s has %u result%s)", what, i,
                     tni_op_name(op), op->n_returns, op->n_returns == 1 ? "" : "s");
}

/* The strides of a new tensor. An operator that works in place has none. */
static int32_t check_strides(const tni_frame *f, uint32_t i, const tn_output *o)
{
    char sizes[256], strides[256];
    for (uint32_t d = 0; d < o->rank; d++) {
        if (o->strides[d] < 0)
            return tni_fail(f, TN_E_CONTRACT, "the shape rule gave output %u the stride %lld", i,
                            (long long)o->strides[d]);
    }
    if (f->op->form == TNI_FORM_INPLACE || !tni_strides_overlap(o->rank, o->sizes, o->strides)) return TN_OK;
    return tni_fail(
        f, TN_E_CONTRACT,
        "the shape rule gave output %u of sizes %s the strides %s, by which elements share memory", i,
        tni_shape_text(o->rank, o->sizes, sizes, sizeof sizes),
        tni_shape_text(o->rank, o->strides, strides, sizeof strides));
}

int32_t tni_host_define_output(const tn_call *call, uint32_t i, const tn_output *output)
{
    tni_frame *f = frame_of(call, "define_output");
    tn_output o;
    if (!f) return TN_E_CONTRACT;
    if (f->open_device || is_function(f))
        return tni_fail(f, TN_E_CONTRACT, "define_output: only shape rules may call it");
    int32_t status = tni_struct_read(&o, sizeof o, output, "tn_output");
    if (status) return status;
    if (i >= f->op->base->n_returns) return no_output(f->op->base, "define_output", i);
    if (o.rank > TN_MAX_RANK || (o.rank && !o.sizes))
        return tni_fail(f, TN_E_CONTRACT, "the shape rule defined output %u of rank %u%s", i, o.rank,
                        o.rank > TN_MAX_RANK ? "" : " without sizes");
    if (tni_dtype_check(f->ctx, o.dtype, ""))
        return tni_fail(f, TN_E_CONTRACT, "the shape rule gave output %u an unknown dtype", i);
    status = o.strides ? check_strides(f, i, &o) : TN_OK;
    if (status) return status;
    if (o.device) f->device = o.device;
    status = tni_out_strided(f, i, o.dtype, o.rank, o.sizes, o.strides);
    for (uint32_t d = 0; status && d < o.rank; d++) {
        if (o.sizes[d] < 0)
            return tni_fail(f, TN_E_CONTRACT, "the shape rule gave output %u the size %lld in dimension %u",
                            i, (long long)o.sizes[d], d);
    }
    return status;
}

int32_t tni_host_set_output(const tn_call *call, uint32_t i, tn_tensor *t)
{
    const tni_frame *f = frame_of(call, "set_output");
    if (!f) return TN_E_CONTRACT;
    if (!is_function(f))
        return tni_error(TN_E_CONTRACT, "set_output: only composites and gradients may call it");
    if (i >= call->n_outs) return tni_error(TN_E_CONTRACT, "set_output: there is no output %u", i);
    call->outs[i] = tn_value_tensor(t);
    return TN_OK;
}

/* The call ends it. */
static void forget_scope(void *scope) {}

/*
 * For a kernel whose row has no scope, and for a shape rule. A plugin's typed calls read the scope before they call the
 * host, so it cannot be NULL. What is kept lets tni_kernel_after look for it, which a call that keeps nothing does not reach.
 */
static __attribute__((noinline)) tn_scope *open_refusing(tni_frame *f)
{
    tni_kept *kept = f->open_device ? tni_alloc(f->ctx, sizeof *kept) : NULL;
    if (f->open_device && !kept) return NULL;
    const int32_t status =
        f->open_device
            ? tni_fail(f, TN_E_CONTRACT,
                       "the kernel calls an operator, and its row does not have the flag TN_ROW_SCOPE")
            : tni_fail(f, TN_E_CONTRACT, "the shape rule calls an operator (expected only define_output)");
    f->scope = tni_scope_open_refusing(f->ctx, status);
    f->refuses_scope = f->scope != NULL;
    if (kept) {
        *kept = (tni_kept){.next = f->kept, .release = forget_scope, .is_block = 1};
        f->kept = kept;
    }
    return f->scope;
}

int32_t tni_frame_end_refusing(tni_frame *f, int32_t status)
{
    if (!f->refuses_scope) return status;
    const int32_t refused = tni_scope_close_refusing(f->scope);
    f->scope = NULL;
    f->refuses_scope = 0;
    return refused ? refused : status;
}

tn_scope *tni_host_call_scope(const tn_call *call)
{
    tni_frame *f = frame_of(call, "call_scope");
    if (!f) return NULL;
    return f->scope ? f->scope : open_refusing(f);
}

int32_t tni_host_random_reserve(const tn_call *call, tn_generator *generator, uint64_t count,
                                tn_random_numbers *out)
{
    tni_frame *f = frame_of(call, "random_reserve");
    tn_random_numbers numbers = {.size = sizeof numbers};
    if (!f) return TN_E_CONTRACT;
    if (!generator && f->open_device) generator = tni_default_generator(f->open_device);
    if (!generator)
        return tni_error(TN_E_STATE, "random_reserve: the call has neither a generator nor a device");
    tn_tensor *state = NULL;
    int32_t status = TN_OK;
    if (f->open_device && tni_stream_captures(f->stream)) {
        status = f->reads_random_state
                     ? tni_capture_random(f->stream, generator, count, &numbers.offset, &state)
                     : tni_capture_refuse(f->stream,
                                          "%s, whose kernel cannot draw other random numbers in each replay,",
                                          tni_op_name(f->op));
        if (status) return status;
        numbers.state = state ? &state->desc : NULL;
    }
    if (!state) tni_generator_reserve(generator, count, &numbers.seed, &numbers.offset);
    return tni_struct_write(out, &numbers, sizeof numbers, "tn_random_numbers");
}

static int32_t host_native(const tn_call *call, uint32_t kind, void *allocation, uint64_t *out)
{
    const tni_frame *f = frame_of(call, "native");
    if (!f) return TN_E_CONTRACT;
    if (!f->open_device) return tni_error(TN_E_STATE, "native: a shape rule or composite has no device");
    if (kind == TN_NATIVE_ALLOCATION && !allocation)
        return tni_error(TN_E_ARGUMENT, "native: no allocation was given");
    void *handle = kind == TN_NATIVE_STREAM       ? f->stream->handle
                   : kind == TN_NATIVE_ALLOCATION ? allocation
                                                  : NULL;
    return tni_native(f->open_device, kind, handle, out);
}

static int32_t host_storage(const tn_call *call, const tn_tensor *t, tn_storage_facts *out)
{
    if (!frame_of(call, "storage")) return TN_E_CONTRACT;
    if (!t) return tni_error(TN_E_ARGUMENT, "storage: no tensor was given");
    const tn_storage_facts facts = {.size = sizeof facts,
                                    .identity = tni_storage_identity(t->storage),
                                    .version = atomic_load(&t->storage->version),
                                    .bytes = t->storage->bytes};
    return tni_struct_write(out, &facts, sizeof facts, "tn_storage_facts");
}

/* ---- Memory outside a call ----------------------------------------------------------------------------- */

/* The open device with this handle, else NULL and an error. */
static tni_device *device_of(tn_context *ctx, const void *handle, const char *what)
{
    uint32_t n = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < ctx->types[k]->count; i++) {
            tni_device *d = &ctx->types[k]->devices[i];
            if (atomic_load_explicit(&d->open, memory_order_acquire) == TNI_DEVICE_OPEN &&
                d->handle == handle)
                return d;
        }
    }
    tni_error(TN_E_DEVICE, "%s: the handle is not that of an open device", what);
    return NULL;
}

/* The stream of this device with the plugin's handle; NULL handle: the default one. */
static tn_stream *stream_of(tni_device *d, const void *handle)
{
    if (!handle) return d->default_stream;
    pthread_mutex_lock(&d->lock);
    tn_stream *s = d->streams;
    while (s && (s->handle != handle || atomic_load(&s->id) == TNI_DEAD_STREAM)) s = s->next;
    pthread_mutex_unlock(&d->lock);
    return s;
}

static int32_t host_memory_alloc(void *context, void *device, const tn_memory_request *request,
                                 tn_memory *out)
{
    tni_device *d = device_of(context, device, "memory_alloc");
    tn_memory_request r;
    tn_memory memory;
    tni_block *block;
    if (!d) return TN_E_DEVICE;
    int32_t status = read_request(d, request, "memory_alloc", &r);
    if (status) return status;
    tn_stream *stream = stream_of(d, r.stream);
    if (!stream) return tni_error(TN_E_ARGUMENT, "memory_alloc: the stream is not one of this device");
    status = alloc_aligned(d, &r, stream, &block, &memory);
    if (!status && (status = tni_struct_write(out, &memory, sizeof memory, "tn_memory")))
        tni_block_free(block);
    return status;
}

static void host_memory_free(void *context, void *device, const tn_memory *memory)
{
    if (memory && memory->state) tni_block_free(memory->state);
}

static int32_t host_reclaim(void *context, void *device, uint64_t *out_bytes)
{
    tni_device *d = device_of(context, device, "reclaim");
    return d ? tni_memory_reclaim(d, out_bytes) : TN_E_DEVICE;
}

/* ---- Operators and scopes ------------------------------------------------------------------------------ */

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

/* The name of the plugin whose init runs on this thread. */
static const char *plugin_of_thread(const tn_context *ctx)
{
    const tni_registry *r = ctx->registry;
    const char *name = atomic_load(&r->starting_on) == &tni_tls ? atomic_load(&r->starting) : NULL;
    return name ? name : "a plugin";
}

static int32_t host_register_kernels(void *context, const char *device_type, void *self,
                                     const tn_kernel_row *rows, uint32_t count, uint32_t row_bytes)
{
    return tni_kernels_register(context, &(tni_rows){.device_type = device_type,
                                                     .owner = plugin_of_thread(context),
                                                     .self = self,
                                                     .rows = rows,
                                                     .count = count,
                                                     .row_bytes = row_bytes});
}

static int32_t host_unregister_kernels(void *context, const char *device_type, const tn_kernel_row *rows)
{
    return tni_kernels_unregister(context, device_type, rows);
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
    ctx->host.native = host_native;
    ctx->host.storage = host_storage;
    ctx->host.unregister_kernels = host_unregister_kernels;
    ctx->host.memory_alloc = host_memory_alloc;
    ctx->host.memory_free = host_memory_free;
    ctx->host.reclaim = host_reclaim;
    ctx->host.work_queued = work_queued;
}
