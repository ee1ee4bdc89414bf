/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators. Arguments are checked here once, and errors name the call, the tensor and the rank; the
 * plugin then queues all ranks. Calls to one plugin come one at a time, so that the ranks of two calls on the
 * same devices are always queued in the same order. A call may wait for other processes for ever; only an abort, from
 * another thread, does not wait for its turn then.
 */
#include <time.h>
#include <tenon/collectives.h>

#include "core/handle.h"
#include "core/dtype.h"
#include "core/graph.h"
#include "core/shape.h"
#include "core/tensor.h"

#define MOST_RANKS 64u
#define PATIENCE   1 /* seconds after which a call that has not returned is taken to wait for ever */

struct tn_communicator {
    tn_context *ctx;
    tni_handle_mark life;
    tni_device_type *type;
    void *handle;
    uint32_t count;       /* ranks of this process */
    uint32_t first_rank;  /* the first of them */
    uint32_t world;       /* ranks of all processes */
    pthread_mutex_t lock; /* of status and abort, which do not wait for other calls */
    atomic_int aborted;
    tni_device *devices[MOST_RANKS];
};

static const tn_collectives_interface *slots(const tn_communicator *c)
{
    return &c->type->driver.collectives;
}

/* ---- Life ---------------------------------------------------------------------------------------------- */

static int32_t take_devices(tn_communicator *c, const tn_device *devices, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        tni_device *d = tni_device_get(c->ctx, devices[i]);
        if (!d) return tn_last_error()->code;
        if (i && d->type != c->type)
            return tni_error(TN_E_DEVICE,
                             "tn_communicator_create: devices[%u] is of another type than devices[0]", i);
        for (uint32_t k = 0; k < i; k++) {
            if (c->devices[k] == d)
                return tni_error(TN_E_DEVICE,
                                 "tn_communicator_create: devices[%u] and devices[%u] are the same", k, i);
        }
        c->type = d->type;
        c->devices[i] = d;
        c->count++;
    }
    if (c->type->driver.collectives.size) return TN_OK;
    return tni_error(TN_E_UNSUPPORTED, "plugin %s has no collectives (no interface tenon.collectives)",
                     c->type->driver.plugin);
}

static int32_t make_handle(tn_communicator *c, const tn_communicator_group *group)
{
    void *devices[MOST_RANKS];
    const tn_communicator_options options = {.size = sizeof options,
                                             .count = c->count,
                                             .first_rank = c->first_rank,
                                             .world = c->world,
                                             .devices = devices,
                                             .id = group->id,
                                             .id_bytes = group->id_bytes};
    for (uint32_t i = 0; i < c->count; i++) devices[i] = c->devices[i]->handle;
    pthread_mutex_lock(&c->type->collectives);
    int32_t status = slots(c)->create(c->type->driver.self, &options, &c->handle);
    pthread_mutex_unlock(&c->type->collectives);
    if (status) return tni_driver_error(c->type, status, "making a communicator");
    return c->handle ? TN_OK : tni_no_handle(c->type, "collectives.create");
}

static int32_t check_group(const tn_communicator_group *g)
{
    if (!g->count || g->count > MOST_RANKS)
        return tni_error(TN_E_ARGUMENT, "tn_communicator_create: %u devices; 1 to %u are possible", g->count,
                         MOST_RANKS);
    if (g->first_rank > g->world || g->count > g->world - g->first_rank)
        return tni_error(TN_E_ARGUMENT, "tn_communicator_join: ranks %u to %u of %u", g->first_rank,
                         g->first_rank + g->count - 1, g->world);
    if (g->world > g->count && (!g->id || !g->id_bytes))
        return tni_error(TN_E_ARGUMENT,
                         "tn_communicator_join: argument 'id': missing, but %u of %u ranks are elsewhere",
                         g->world - g->count, g->world);
    return TN_OK;
}

static int32_t create(tn_context *ctx, const tn_communicator_group *group, tn_communicator **out)
{
    int32_t status = tni_context_check(ctx);
    if (!status) status = check_group(group);
    if (status) return status;
    tn_communicator *c = tni_alloc_zeroed(ctx, sizeof *c);
    if (!c) return TN_E_OUT_OF_MEMORY;
    c->ctx = ctx;
    c->first_rank = group->first_rank;
    c->world = group->world;
    pthread_mutex_init(&c->lock, NULL);
    status = take_devices(c, group->devices, group->count);
    if (!status && c->world > c->count && !slots(c)->unique_id)
        status = tni_error(TN_E_UNSUPPORTED, "plugin %s has collectives within one process only",
                           c->type->driver.plugin);
    if (!status) status = make_handle(c, group);
    if (status) {
        pthread_mutex_destroy(&c->lock);
        tni_free(ctx, c, sizeof *c);
        return status;
    }
    tni_context_own(ctx);
    tni_handle_made(ctx, c, "communicator");
    *out = c;
    return TN_OK;
}

int32_t tn_communicator_create(tn_context *ctx, const tn_device *devices, uint32_t count,
                               tn_communicator **out)
{
    const tn_communicator_group all = {
        .size = sizeof all, .count = count, .world = count, .devices = devices};
    return create(ctx, &all, out);
}

int32_t tn_communicator_join(tn_context *ctx, const tn_communicator_group *group, tn_communicator **out)
{
    tn_communicator_group known;
    int32_t status = tni_struct_read(&known, sizeof known, group, "tn_communicator_group");
    return status ? status : create(ctx, &known, out);
}

int32_t tn_communicator_unique_id(tn_context *ctx, tn_device device, void *id, uint64_t room,
                                  uint64_t *out_bytes)
{
    const tni_device *d = tni_device_get(ctx, device);
    if (!d) return tn_last_error()->code;
    const tni_driver *driver = &d->type->driver;
    if (!driver->collectives.size || !driver->collectives.unique_id)
        return tni_error(TN_E_UNSUPPORTED, "plugin %s has no collectives over several processes",
                         driver->plugin);
    pthread_mutex_lock(&d->type->collectives);
    int32_t status = driver->collectives.unique_id(driver->self, id, room, out_bytes);
    pthread_mutex_unlock(&d->type->collectives);
    return status ? tni_driver_error(d->type, status, "making the id of a communicator") : TN_OK;
}

static int32_t check_alive(const tn_communicator *c)
{
    return atomic_load(&c->aborted) ? tni_error(TN_E_STATE, "the communicator was aborted") : TN_OK;
}

int32_t tn_communicator_status(tn_communicator *communicator)
{
    tn_communicator *c = communicator;
    if (!c) return tni_error(TN_E_ARGUMENT, "tn_communicator_status: no communicator");
    int32_t status = tni_context_check_kept(c->ctx);
    if (status) return status;
    pthread_mutex_lock(&c->lock);
    status = check_alive(c);
    if (!status && (status = slots(c)->status(c->type->driver.self, c->handle)))
        status = tni_driver_error(c->type, status, "a collective that was queued before");
    pthread_mutex_unlock(&c->lock);
    return status;
}

int32_t tn_communicator_abort(tn_communicator *communicator)
{
    tn_communicator *c = communicator;
    if (!c) return tni_error(TN_E_ARGUMENT, "tn_communicator_abort: no communicator");
    int32_t status = tni_context_check_kept(c->ctx);
    if (status) return status;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE;
    const int32_t has_turn = pthread_mutex_timedlock(&c->type->collectives, &until) == 0;
    pthread_mutex_lock(&c->lock);
    if (!atomic_exchange(&c->aborted, 1) && slots(c)->abort)
        status = slots(c)->abort(c->type->driver.self, c->handle);
    pthread_mutex_unlock(&c->lock);
    if (has_turn) pthread_mutex_unlock(&c->type->collectives);
    return status ? tni_driver_error(c->type, status, "ending the calls of a communicator") : TN_OK;
}

void tn_communicator_release(tn_communicator *communicator)
{
    tn_communicator *c = communicator;
    if (!c || tni_context_check_kept(c->ctx)) return;
    tn_context *ctx = c->ctx;
    if (!tni_handle_may_end(ctx, &c->life, "communicator", __builtin_return_address(0))) return;
    for (uint32_t i = 0; i < c->count; i++)
        tni_late_keep(c->devices[i], tni_device_wait(c->devices[i]), "waiting for a communicator's device");
    pthread_mutex_lock(&c->type->collectives);
    slots(c)->destroy(c->type->driver.self, c->handle);
    pthread_mutex_unlock(&c->type->collectives);
    pthread_mutex_destroy(&c->lock);
    tni_handle_free(ctx, c, sizeof *c, &c->life);
    tni_context_unown(ctx);
}

uint32_t tn_communicator_size(const tn_communicator *communicator)
{
    return communicator ? communicator->count : 0;
}

uint32_t tn_communicator_world(const tn_communicator *communicator)
{
    return communicator ? communicator->world : 0;
}

uint32_t tn_communicator_first_rank(const tn_communicator *communicator)
{
    return communicator ? communicator->first_rank : 0;
}

tn_device tn_communicator_device(const tn_communicator *communicator, uint32_t rank)
{
    return communicator && rank < communicator->count ? communicator->devices[rank]->id : 0;
}

int32_t tn_communicator_reduces(const tn_communicator *communicator, tn_dtype dtype, uint32_t reduction)
{
    if (!communicator || reduction > TN_REDUCE_AVERAGE) return 0;
    return slots(communicator)->supports(communicator->type->driver.self, dtype, reduction) == 1;
}

/* ---- Checks -------------------------------------------------------------------------------------------- */

/* A list of tensors of a call, for texts. */
typedef struct list {
    const char *call;
    const char *name;
    tn_tensor *const *tensors;
    int32_t written;
} list;

static int32_t refuse_device(const tn_communicator *c, const list *l, uint32_t i)
{
    char is[64], rank[64];
    tn_device_format(c->ctx, l->tensors[i]->desc.device, is, sizeof is);
    tn_device_format(c->ctx, c->devices[i]->id, rank, sizeof rank);
    return tni_error(TN_E_DEVICE, "%s: %s[%u] is on %s; rank %u is %s", l->call, l->name, i, is, i, rank);
}

/* The tensor of rank i, which is on its device. */
static int32_t check_tensor(const list *l, const tn_tensor *t, uint32_t i)
{
    int32_t status = tni_tensor_check(t);
    if (status) return status;
    if (t->desc.layout != TN_INTERNED_STRIDED || !tni_is_contiguous(t) ||
        t->desc.flags & (TN_DESC_CONJ | TN_DESC_NEG))
        return tni_error(TN_E_ARGUMENT,
                         "%s: %s[%u] must be contiguous (and not lazily conjugated or negated)", l->call,
                         l->name, i);
    if (l->written && tni_grad_enabled() && tni_autograd_state_of(t) & TNI_WANTS_GRAD)
        return tni_error(TN_E_AUTOGRAD,
                         "%s: %s[%u] requires a gradient, which collectives do not record: call it where "
                         "recording is off",
                         l->call, l->name, i);
    return TN_OK;
}

static int32_t check_one(const tn_communicator *c, const list *l, uint32_t i)
{
    tn_tensor *t = l->tensors[i];
    if (!t) return tni_error(TN_E_ARGUMENT, "%s: %s[%u] is missing", l->call, l->name, i);
    return t->desc.device == c->devices[i]->id ? check_tensor(l, t, i) : refuse_device(c, l, i);
}

/* All of one dtype and shape, each on its rank's device. */
static int32_t check_list(const tn_communicator *c, const list *l)
{
    int32_t status = TN_OK;
    if (!l->tensors) return tni_error(TN_E_ARGUMENT, "%s: '%s' is missing", l->call, l->name);
    for (uint32_t i = 0; i < c->count && !status; i++) {
        char shape[128], first[128];
        const tn_tensor *t = l->tensors[i], *t0 = l->tensors[0];
        if ((status = check_one(c, l, i))) return status;
        if (t->desc.dtype != t0->desc.dtype)
            return tni_error(TN_E_DTYPE, "%s: %s[%u] is %s, but %s[0] is %s", l->call, l->name, i,
                             tn_dtype_name(t->desc.dtype), l->name, tn_dtype_name(t0->desc.dtype));
        int32_t same = t->desc.rank == t0->desc.rank;
        for (uint32_t k = 0; same && k < t->desc.rank; k++) same = t->desc.sizes[k] == t0->desc.sizes[k];
        if (!same)
            status = tni_error(TN_E_SHAPE, "%s: %s[%u] has the shape %s, but %s[0] %s", l->call, l->name, i,
                               tni_shape_text(t->desc.rank, t->desc.sizes, shape, sizeof shape), l->name,
                               tni_shape_text(t0->desc.rank, t0->desc.sizes, first, sizeof first));
    }
    return status;
}

static int32_t check_call(const tn_communicator *c, const char *call, uint32_t count)
{
    if (!c) return tni_error(TN_E_ARGUMENT, "%s: no communicator", call);
    if (count != c->count)
        return tni_error(TN_E_ARGUMENT, "%s: %u tensors for %u ranks", call, count, c->count);
    return tn_communicator_status((tn_communicator *)(uintptr_t)c);
}

static int32_t check_reduction(const tn_communicator *c, const char *call, tn_dtype dtype, uint32_t reduction)
{
    static const char *const names[] = {"SUM", "PRODUCT", "MIN", "MAX", "AVERAGE"};
    if (reduction > TN_REDUCE_AVERAGE)
        return tni_error(TN_E_ARGUMENT, "%s: there is no reduction %u (TN_REDUCE_...)", call, reduction);
    int32_t is_complex = tn_dtype_is_complex(dtype),
            orders = reduction == TN_REDUCE_MIN || reduction == TN_REDUCE_MAX;
    if ((orders && is_complex) ||
        (reduction == TN_REDUCE_AVERAGE && !is_complex && !tn_dtype_is_floating(dtype)))
        return tni_error(TN_E_DTYPE, "%s: TN_REDUCE_%s is not for %s", call, names[reduction],
                         tn_dtype_name(dtype));
    if (!tn_communicator_reduces(c, dtype, reduction))
        return tni_error(TN_E_DTYPE, "%s: plugin %s does not reduce %s by TN_REDUCE_%s", call,
                         c->type->driver.plugin, tn_dtype_name(dtype), names[reduction]);
    return TN_OK;
}

/* outs[i] and inputs[i] of one storage: only where the smaller is its own part of the larger. */
static int32_t check_overlap(const char *call, const tn_tensor *large, const tn_tensor *small, uint32_t i,
                             uint32_t rank)
{
    uint64_t item = (uint64_t)tn_dtype_bytes(small->desc.dtype), part = (uint64_t)small->numel * item;
    uint64_t from = small->desc.byte_offset, at = large->desc.byte_offset,
             bytes = (uint64_t)large->numel * item;
    if (large->desc.allocation != small->desc.allocation || from + part <= at || at + bytes <= from ||
        from == at + rank * part)
        return TN_OK;
    return tni_error(
        TN_E_ARGUMENT,
        "%s: outs[%u] and inputs[%u] overlap; only a rank's own part of the larger may be shared", call, i,
        i);
}

/* all_gather and reduce_scatter: each of `large` holds one of `small` for each rank. */
static int32_t check_parts(const tn_communicator *c, const list *large, const list *small)
{
    int32_t status = check_list(c, large);
    if (!status) status = check_list(c, small);
    if (status) return status;
    const tn_tensor *l = large->tensors[0], *s = small->tensors[0];
    if (l->desc.dtype != s->desc.dtype)
        return tni_error(TN_E_DTYPE, "%s: %s are %s, but %s %s", large->call, large->name,
                         tn_dtype_name(l->desc.dtype), small->name, tn_dtype_name(s->desc.dtype));
    if (l->numel != s->numel * (int64_t)c->world)
        return tni_error(TN_E_SHAPE, "%s: %s have %lld elements; %u ranks with %s of %lld make %lld",
                         large->call, large->name, (long long)l->numel, c->world, small->name,
                         (long long)s->numel, (long long)(s->numel * (int64_t)c->world));
    for (uint32_t i = 0; i < c->count && !status; i++)
        status = check_overlap(large->call, large->tensors[i], small->tensors[i], i, c->first_rank + i);
    return status;
}

/* ---- Calls --------------------------------------------------------------------------------------------- */

static int32_t keep_memory(tn_tensor *t, tn_stream *stream)
{
    return t && t->storage->block ? tni_block_record(t->storage->block, stream) : TN_OK;
}

/* The ranks' streams and memory; either list may be NULL. */
static int32_t fill_ranks(const tn_communicator *c, const char *call, tn_tensor *const *from,
                          tn_tensor *const *to, tn_collective_rank *ranks)
{
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < c->count && !status; i++) {
        tn_stream *stream = tni_current_stream(c->devices[i]);
        ranks[i] = (tn_collective_rank){.size = sizeof *ranks, .stream = stream->handle};
        if ((status = tni_capture_refuse(stream, "%s", call))) return status;
        if (from) {
            ranks[i].from = from[i]->desc.allocation;
            ranks[i].from_offset = from[i]->desc.byte_offset;
            status = keep_memory(from[i], stream);
        }
        if (to && !status) {
            ranks[i].to = to[i]->desc.allocation;
            ranks[i].to_offset = to[i]->desc.byte_offset;
            status = keep_memory(to[i], stream);
        }
    }
    return status;
}

/* Takes the lock of the calls, which finish gives back. An abort may have been faster. */
static int32_t take_turn(const tn_communicator *c)
{
    pthread_mutex_lock(&c->type->collectives);
    int32_t status = check_alive(c);
    if (status) pthread_mutex_unlock(&c->type->collectives);
    return status;
}

static int32_t begin(const tn_communicator *c, const char *call, tn_tensor *const *from, tn_tensor *const *to,
                     tn_collective_rank *ranks)
{
    int32_t status = fill_ranks(c, call, from, to, ranks);
    return status ? status : take_turn(c);
}

static int32_t finish(tn_communicator *c, int32_t status, const char *call, tn_tensor *const *written)
{
    pthread_mutex_unlock(&c->type->collectives);
    if (status) return tni_driver_error(c->type, status, call);
    for (uint32_t i = 0; written && i < c->count; i++) tni_bump_version(written[i]);
    return TN_OK;
}

static uint64_t bytes_of(const tn_tensor *t)
{
    return (uint64_t)t->numel * (uint64_t)tn_dtype_bytes(t->desc.dtype);
}

/* The call and its one list of tensors, which it writes. */
static int32_t check_tensors(const tn_communicator *c, const char *call, tn_tensor *const *tensors,
                             uint32_t count)
{
    int32_t status = check_call(c, call, count);
    return status ? status : check_list(c, &(list){call, "tensors", tensors, 1});
}

int32_t tn_communicator_all_reduce(tn_communicator *c, tn_tensor *const *tensors, uint32_t count,
                                   uint32_t reduction)
{
    tn_collective_rank ranks[MOST_RANKS];
    int32_t status = check_tensors(c, __func__, tensors, count);
    if (!status) status = check_reduction(c, __func__, tensors[0]->desc.dtype, reduction);
    if (status || !tensors[0]->numel || (status = begin(c, __func__, tensors, tensors, ranks))) return status;
    status = slots(c)->all_reduce(c->type->driver.self, c->handle, ranks, sizeof *ranks,
                                  (uint64_t)tensors[0]->numel, tensors[0]->desc.dtype, reduction);
    return finish(c, status, __func__, tensors);
}

int32_t tn_communicator_broadcast(tn_communicator *c, tn_tensor *const *tensors, uint32_t count,
                                  uint32_t root)
{
    tn_collective_rank ranks[MOST_RANKS];
    int32_t status = check_tensors(c, __func__, tensors, count);
    if (!status && root >= c->world)
        status = tni_error(TN_E_ARGUMENT, "%s: root %u; the ranks are 0 to %u", __func__, root, c->world - 1);
    if (status || !tensors[0]->numel || (status = begin(c, __func__, tensors, tensors, ranks))) return status;
    status = slots(c)->broadcast(c->type->driver.self, c->handle, ranks, sizeof *ranks, bytes_of(tensors[0]),
                                 root);
    return finish(c, status, __func__, tensors);
}

int32_t tn_communicator_all_gather(tn_communicator *c, tn_tensor *const *outs, tn_tensor *const *inputs,
                                   uint32_t count)
{
    tn_collective_rank ranks[MOST_RANKS];
    int32_t status = check_call(c, __func__, count);
    if (!status)
        status = check_parts(c, &(list){__func__, "outs", outs, 1}, &(list){__func__, "inputs", inputs, 0});
    if (status || !inputs[0]->numel || (status = begin(c, __func__, inputs, outs, ranks))) return status;
    status = slots(c)->all_gather(c->type->driver.self, c->handle, ranks, sizeof *ranks, bytes_of(inputs[0]));
    return finish(c, status, __func__, outs);
}

/* Inputs and outs of one shape, with a part for each rank, in different memory. */
static int32_t check_exchange(const tn_communicator *c, const list *to, const list *from)
{
    int32_t status = check_list(c, to);
    if (!status) status = check_list(c, from);
    if (status) return status;
    const tn_tensor *a = to->tensors[0], *b = from->tensors[0];
    if (a->desc.dtype != b->desc.dtype || a->numel != b->numel)
        return tni_error(TN_E_SHAPE, "%s: outs have %lld elements of %s, inputs %lld of %s", to->call,
                         (long long)a->numel, tn_dtype_name(a->desc.dtype), (long long)b->numel,
                         tn_dtype_name(b->desc.dtype));
    if (a->numel % c->world)
        return tni_error(TN_E_SHAPE, "%s: %lld elements are not %u equal parts", to->call,
                         (long long)a->numel, c->world);
    for (uint32_t i = 0; i < c->count; i++) {
        a = to->tensors[i];
        b = from->tensors[i];
        uint64_t bytes = (uint64_t)a->numel * (uint64_t)tn_dtype_bytes(a->desc.dtype);
        if (a->desc.allocation == b->desc.allocation && a->desc.byte_offset < b->desc.byte_offset + bytes &&
            b->desc.byte_offset < a->desc.byte_offset + bytes)
            return tni_error(TN_E_ARGUMENT, "%s: outs[%u] and inputs[%u] overlap", to->call, i, i);
    }
    return TN_OK;
}

int32_t tn_communicator_all_to_all(tn_communicator *c, tn_tensor *const *outs, tn_tensor *const *inputs,
                                   uint32_t count)
{
    tn_collective_rank ranks[MOST_RANKS];
    int32_t status = check_call(c, __func__, count);
    if (!status)
        status =
            check_exchange(c, &(list){__func__, "outs", outs, 1}, &(list){__func__, "inputs", inputs, 0});
    if (status || !inputs[0]->numel || (status = begin(c, __func__, inputs, outs, ranks))) return status;
    status = slots(c)->all_to_all(c->type->driver.self, c->handle, ranks, sizeof *ranks,
                                  bytes_of(inputs[0]) / c->world);
    return finish(c, status, __func__, outs);
}

int32_t tn_communicator_reduce_scatter(tn_communicator *c, tn_tensor *const *outs, tn_tensor *const *inputs,
                                       uint32_t count, uint32_t reduction)
{
    tn_collective_rank ranks[MOST_RANKS];
    int32_t status = check_call(c, __func__, count);
    if (!status)
        status = check_parts(c, &(list){__func__, "inputs", inputs, 0}, &(list){__func__, "outs", outs, 1});
    if (!status) status = check_reduction(c, __func__, outs[0]->desc.dtype, reduction);
    if (status || !outs[0]->numel || (status = begin(c, __func__, inputs, outs, ranks))) return status;
    status = slots(c)->reduce_scatter(c->type->driver.self, c->handle, ranks, sizeof *ranks,
                                      (uint64_t)outs[0]->numel, outs[0]->desc.dtype, reduction);
    return finish(c, status, __func__, outs);
}

int32_t tn_communicator_barrier(tn_communicator *c)
{
    tn_collective_rank ranks[MOST_RANKS];
    int32_t status = check_call(c, __func__, c ? c->count : 0);
    if (!status) status = begin(c, __func__, NULL, NULL, ranks);
    if (status) return status;
    status = slots(c)->barrier(c->type->driver.self, c->handle, ranks, sizeof *ranks);
    return finish(c, status, __func__, NULL);
}

/* ---- From one rank to another -------------------------------------------------------------------------- */

/* The rank of this process whose device has the tensor. */
static int32_t rank_of(const tn_communicator *c, const char *call, const tn_tensor *t, uint32_t other,
                       uint32_t *out)
{
    char device[64];
    if (!t) return tni_error(TN_E_ARGUMENT, "%s: the tensor is missing", call);
    for (uint32_t i = 0; i < c->count; i++) {
        if (c->devices[i]->id != t->desc.device) continue;
        *out = i;
        if (other < c->world && other != c->first_rank + i) return TN_OK;
        return tni_error(TN_E_ARGUMENT, "%s: rank %u (expected another rank than %u, below %u)", call, other,
                         c->first_rank + i, c->world);
    }
    return tni_error(TN_E_DEVICE, "%s: the tensor is on %s, not on a device of the communicator", call,
                     tn_device_format(c->ctx, t->desc.device, device, sizeof device));
}

/* Fills the rank's part; TN_OK and stream 0: there is nothing to do. */
static int32_t prepare(tn_communicator *c, const char *call, tn_tensor *t, uint32_t other, int32_t written,
                       uint32_t *out_i, tn_collective_rank *out)
{
    *out = (tn_collective_rank){.size = sizeof *out};
    int32_t status = c ? tn_communicator_status(c) : tni_error(TN_E_ARGUMENT, "%s: no communicator", call);
    if (!status) status = rank_of(c, call, t, other, out_i);
    if (status) return status;
    if (!slots(c)->send || !slots(c)->receive)
        return tni_error(TN_E_UNSUPPORTED, "%s: plugin %s cannot send from rank to rank", call,
                         c->type->driver.plugin);
    status = check_tensor(&(list){call, "tensor", NULL, written}, t, *out_i);
    if (status || !t->numel) return status;
    tn_stream *stream = tni_current_stream(c->devices[*out_i]);
    status = tni_capture_refuse(stream, "%s", call);
    if (!status) status = keep_memory(t, stream);
    if (status) return status;
    out->stream = stream->handle;
    if (written) {
        out->to = t->desc.allocation;
        out->to_offset = t->desc.byte_offset;
    } else {
        out->from = t->desc.allocation;
        out->from_offset = t->desc.byte_offset;
    }
    return TN_OK;
}

static int32_t exchange(tn_communicator *c, const char *call, tn_tensor *t, uint32_t other, int32_t receives)
{
    tn_collective_rank rank;
    uint32_t i = 0;
    int32_t status = prepare(c, call, t, other, receives, &i, &rank);
    if (status || !rank.stream || (status = take_turn(c))) return status;
    status = (receives ? slots(c)->receive : slots(c)->send)(c->type->driver.self, c->handle, &rank,
                                                             c->first_rank + i, other, bytes_of(t));
    status = finish(c, status, call, NULL);
    if (receives && !status) tni_bump_version(t);
    return status;
}

int32_t tn_communicator_send(tn_communicator *communicator, tn_tensor *t, uint32_t to)
{
    return exchange(communicator, "tn_communicator_send", t, to, 0);
}

int32_t tn_communicator_receive(tn_communicator *communicator, tn_tensor *t, uint32_t from)
{
    return exchange(communicator, "tn_communicator_receive", t, from, 1);
}
