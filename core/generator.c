/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generators: a Philox seed and the number of counters taken. Each device has a default generator, made when
 * the device is opened. A generator made by a program keeps its context; a device's does not.
 */
#include <string.h>
#include "core/device.h"
#include "core/thread.h"

int32_t tni_generator_create(tn_context *ctx, uint64_t seed, tn_generator **out)
{
    tn_generator *g = tni_alloc_zeroed(ctx, sizeof *g);
    if (!g) return TN_E_OUT_OF_MEMORY;
    atomic_init(&g->refs, 1);
    g->ctx = ctx;
    g->seed = seed;
    pthread_mutex_init(&g->lock, NULL);
    *out = g;
    return TN_OK;
}

int32_t tn_generator_create(tn_context *ctx, uint64_t seed, tn_generator **out)
{
    int32_t status = tni_context_check(ctx);
    if (!status && !out) status = tni_error(TN_E_ARGUMENT, "tn_generator_create: argument 'out' is NULL");
    if (!status) status = tni_generator_create(ctx, seed, out);
    if (status) return status;
    (*out)->owns_context = 1;
    tni_handle_made(ctx, *out, "generator");
    tni_context_own(ctx);
    return TN_OK;
}

void tn_generator_release(tn_generator *generator)
{
    if (!generator ||
        !tni_handle_may_end(generator->ctx, &generator->life, "generator", __builtin_return_address(0)))
        return;
    if (atomic_fetch_sub_explicit(&generator->refs, 1, memory_order_acq_rel) != 1) return;
    tn_context *ctx = generator->ctx;
    int32_t owns = generator->owns_context;
    pthread_mutex_destroy(&generator->lock);
    tni_handle_free(ctx, generator, sizeof *generator, &generator->life);
    if (owns) tni_context_unown(ctx);
}

void tni_generator_reserve(tn_generator *generator, uint64_t count, uint64_t *out_seed, uint64_t *out_offset)
{
    if (TNI_UNLIKELY(tni_tls.saved_hooks != NULL) && tni_random_again(count, 0, out_seed, out_offset) > 0)
        return;
    pthread_mutex_lock(&generator->lock);
    *out_seed = generator->seed;
    *out_offset = generator->offset;
    generator->offset += count;
    pthread_mutex_unlock(&generator->lock);
    if (TNI_UNLIKELY(tni_tls.saved_hooks != NULL))
        tni_random_note(&(tni_random_draw){count, *out_seed, *out_offset, 0});
}

/* ---- Numbers that are drawn again ---------------------------------------------------------------------- */

void tni_random_note(const tni_random_draw *draw)
{
    for (const tni_saving *frame = tni_tls.saved_hooks; frame; frame = frame->outer) {
        tni_random_log *log = frame->random;
        if (!log) continue;
        if (log->replays) return; /* what is around it ran in full before */
        tni_random_draw *noted = tni_vector_push(log->ctx, &log->draws, sizeof *noted);
        if (noted)
            *noted = *draw;
        else
            log->is_short = 1;
    }
}

int32_t tni_random_again(uint64_t count, int32_t is_captured, uint64_t *out_seed, uint64_t *out_offset)
{
    const tni_saving *frame = tni_tls.saved_hooks;
    while (frame && !(frame->random && frame->random->replays)) frame = frame->outer;
    if (!frame) return 0;
    tni_random_log *log = frame->random;
    const tni_random_draw *draw =
        log->next < log->draws.count ? (const tni_random_draw *)log->draws.data + log->next : NULL;
    if (draw && is_captured && !draw->is_captured) return -1;
    if (!draw || draw->count != count || draw->is_captured != is_captured) {
        log->is_short = 1;
        return 0;
    }
    log->next++;
    *out_seed = draw->seed;
    *out_offset = draw->offset;
    tni_random_note(draw);
    return 1;
}

/* ---- Default generators, state ------------------------------------------------------------------------- */

tn_generator *tni_default_generator(tni_device *device)
{
    if (TNI_UNLIKELY(tni_tls.replaced_device) && TN_DEVICE_TYPE(device->id) == TN_INTERNED_CPU)
        device = tni_tls.replaced_device;
    return device->generator;
}

int32_t tni_generator_check(const tn_generator *generator)
{
    if (!generator) return tni_error(TN_E_ARGUMENT, "a generator is missing");
    int32_t status = tni_context_check_kept(generator->ctx);
    return status ? status : tni_handle_check(generator->ctx, &generator->life, "generator");
}

tn_generator *tn_default_generator(tn_context *ctx, tn_device device)
{
    tni_device *d = tni_device_get(ctx, device);
    return d ? d->generator : NULL;
}

void tn_generator_get_state(tn_generator *generator, tn_generator_state *out)
{
    if (tni_generator_check(generator)) return;
    tn_generator_state state = {.size = out->size};
    pthread_mutex_lock(&generator->lock);
    state.seed = generator->seed;
    state.offset = generator->offset;
    pthread_mutex_unlock(&generator->lock);
    memcpy(out, &state, state.size < sizeof state ? state.size : sizeof state);
}

int32_t tn_generator_set_state(tn_generator *generator, const tn_generator_state *state)
{
    tn_generator_state known;
    int32_t status = tni_generator_check(generator);
    if (!status) status = tni_struct_read(&known, sizeof known, state, "tn_generator_state");
    if (status) return status;
    pthread_mutex_lock(&generator->lock);
    generator->seed = known.seed;
    generator->offset = known.offset;
    pthread_mutex_unlock(&generator->lock);
    return TN_OK;
}

void tn_generator_seed(tn_generator *generator, uint64_t seed)
{
    if (tni_generator_check(generator)) return;
    pthread_mutex_lock(&generator->lock);
    generator->seed = seed;
    generator->offset = 0;
    pthread_mutex_unlock(&generator->lock);
}

/* A device opened from now on takes ctx->seed; those that are open are seeded here. */
void tn_manual_seed(tn_context *ctx, uint64_t seed)
{
    if (tni_context_check(ctx)) return;
    pthread_mutex_lock(&ctx->lock);
    ctx->seed = seed;
    pthread_mutex_unlock(&ctx->lock);
    uint32_t n = atomic_load_explicit(&ctx->type_count, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < ctx->types[i]->count; k++) {
            tni_device *d = &ctx->types[i]->devices[k];
            pthread_mutex_lock(
                &d->lock); /* a device that is being opened has read the seed before or after */
            if (d->generator) tn_generator_seed(d->generator, seed);
            pthread_mutex_unlock(&d->lock);
        }
    }
}
