/* SPDX-License-Identifier: Apache-2.0 */
/* The outermost layer: calls the observers before and after each call. Off while there are none. */
#include "core/profile.h"
#include "core/thread.h"
#include "dispatcher/call.h"
#include "dispatcher/rooms.h"

#define MAX_OBSERVERS 8

static tn_call_info info_of(const tni_frame *f, uint64_t sequence)
{
    return (tn_call_info){.size = sizeof(tn_call_info),
                          .op = f->op->number,
                          .name = tni_op_name(f->op),
                          .args = f->args,
                          .n_args = f->op->n_args,
                          .n_outs = f->n_outs,
                          .depth = tni_tls.call_depth - 1,
                          .sequence = sequence,
                          .device = f->device};
}

/* The profile alone observes: it needs neither the list nor what observers are told. */
static int32_t profile(tni_frame *f)
{
    char shapes[TNI_PROFILE_SHAPES];
    tni_profile_site site = {
        .kind = TN_PROFILE_OPERATOR, .number = f->op->number, .name = tni_op_name(f->op)};
    if (TNI_UNLIKELY(tni_profile_flags(f->ctx) & TN_PROFILE_SHAPES)) {
        site.shapes = shapes;
        site.shapes_bytes = tni_profile_shapes(f->args, f->op->n_args, shapes);
    }
    uint64_t token = tni_profile_enter(f->ctx, &site);
    int32_t status = tni_next(f);
    tni_profile_leave(f->ctx, token);
    return status;
}

static int32_t observe(tni_frame *f)
{
    tni_registry *r = f->registry;
    const tni_profiler *profiler = atomic_load_explicit(&f->ctx->profiler, memory_order_acquire);
    if (profiler && atomic_load_explicit(&profiler->is_alone, memory_order_relaxed)) return profile(f);
    tn_observer seen[MAX_OBSERVERS];
    uint64_t tokens[MAX_OBSERVERS] = {0}, sequence = atomic_fetch_add(&r->sequence, 1),
             turn = tni_tls.observer_count++;
    uint32_t n = 0;
    tn_call_info info = info_of(f, sequence);
    int32_t status;
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < r->observers.count; i++) {
        const tni_observer_slot *slot = (const tni_observer_slot *)r->observers.data + i;
        if (slot->handle && (slot->observer.sample <= 1 || turn % slot->observer.sample == 0))
            seen[n++] = slot->observer;
    }
    pthread_mutex_unlock(&r->lock);
    for (uint32_t i = 0; i < n; i++) {
        if (seen[i].enter) seen[i].enter(seen[i].user, &info, &tokens[i]);
    }
    status = tni_next(f);
    info.status = status;
    info.outs = f->outs;
    info.device = f->device;
    for (uint32_t i = n; i-- > 0;) {
        if (seen[i].leave) seen[i].leave(seen[i].user, &info, tokens[i]);
    }
    return status;
}

int32_t tni_observe_init(tn_context *ctx, const tn_context_options *options)
{
    (void)options;
    tni_layer_set(ctx, TNI_LAYER_OBSERVE, observe, 0);
    return TN_OK;
}

/* Under the lock: the list has changed. Returns how many observers there are. */
static uint32_t look_at_list(tn_context *ctx)
{
    tni_registry *r = ctx->registry;
    tni_profiler *profiler = atomic_load_explicit(&ctx->profiler, memory_order_acquire);
    const tni_observer_slot *slots = r->observers.data;
    uint32_t count = 0, profiles = 0;
    for (uint32_t i = 0; i < r->observers.count; i++) {
        count += slots[i].handle != 0;
        profiles += slots[i].handle && slots[i].handle == r->profile_observer;
    }
    if (profiler) atomic_store(&profiler->is_alone, count == 1 && profiles == 1);
    return count;
}

int32_t tn_observer_add(tn_context *ctx, const tn_observer *observer, uint64_t *out_handle)
{
    int32_t unusable = tni_context_check(ctx);
    if (unusable) return unusable;
    tni_registry *r = ctx->registry;
    tni_observer_slot *slot = NULL;
    int32_t status = TN_OK;
    if (!observer || observer->size < sizeof(tn_observer) || !out_handle) {
        return tni_error(TN_E_ARGUMENT, "observer_add: %s",
                         !observer     ? "observer is NULL"
                         : !out_handle ? "out_handle is NULL"
                                       : "observer: set size to sizeof(tn_observer)");
    }
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < r->observers.count && !slot; i++) {
        tni_observer_slot *s = (tni_observer_slot *)r->observers.data + i;
        if (!s->handle) slot = s;
    }
    if (!slot && r->observers.count == MAX_OBSERVERS) {
        status = tni_error(TN_E_STATE, "observer_add: there are %d observers, the most that a context takes",
                           MAX_OBSERVERS);
    } else if (!slot) {
        slot = tni_vector_push(ctx, &r->observers, sizeof *slot);
        if (!slot) status = TN_E_OUT_OF_MEMORY;
    }
    if (slot) {
        slot->observer = *observer;
        slot->handle = *out_handle = atomic_fetch_add(&r->sequence, 1) + 1;
        tni_layer_set_always(r, TNI_LAYER_OBSERVE, 1);
        (void)look_at_list(ctx);
    }
    pthread_mutex_unlock(&r->lock);
    return status;
}

void tn_observer_remove(tn_context *ctx, uint64_t handle)
{
    if (tni_context_check(ctx)) return;
    tni_registry *r = ctx->registry;
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < r->observers.count; i++) {
        tni_observer_slot *s = (tni_observer_slot *)r->observers.data + i;
        if (s->handle == handle) s->handle = 0;
    }
    if (!look_at_list(ctx)) tni_layer_set_always(r, TNI_LAYER_OBSERVE, 0);
    pthread_mutex_unlock(&r->lock);
}
