/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of the vendor's libraries, in a table by hashes of their keys, and the key of a convolution. */
#include "plans.h"

#include <stdlib.h>

/* ---- The table ---------------------------------------------------------------------------------------------- */

static uint32_t bucket_of(const void *key, size_t n)
{
    const uint8_t *bytes = key;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < n; i++) hash = (hash ^ bytes[i]) * 16777619u;
    return (hash ^ hash >> 16) % GPU_PLAN_BUCKETS;
}

gpu_plan *gpu_plan_find(const gpu_plans *plans, const void *key, size_t key_bytes)
{
    gpu_plan *p = plans->buckets[bucket_of(key, key_bytes)];
    while (p && memcmp(p + 1, key, key_bytes) != 0) p = p->next;
    return p;
}

gpu_plan *gpu_plan_add(gpu_plans *plans, const void *key, size_t key_bytes, size_t plan_bytes)
{
    gpu_plan **bucket = &plans->buckets[bucket_of(key, key_bytes)], *p = calloc(1, plan_bytes);
    if (!p) return NULL;
    memcpy(p + 1, key, key_bytes);
    p->next = *bucket;
    *bucket = p;
    plans->count++;
    return p;
}

void gpu_plan_pin(gpu_plans *plans, gpu_plan *p)
{
    plans->pinned += !p->is_pinned;
    p->is_pinned = 1;
}

int32_t gpu_plans_are_full(const gpu_plans *plans)
{
    return plans->count - plans->pinned >= GPU_PLANS;
}

void gpu_plans_make_room(gpu_plans *plans, void (*destroy)(const void *library, gpu_plan *p),
                         const void *library)
{
    for (uint32_t i = 0; i < GPU_PLAN_BUCKETS; i++) {
        for (gpu_plan **at = &plans->buckets[i], *p = *at; p; p = *at) {
            if (p->is_pinned) {
                at = &p->next;
                continue;
            }
            *at = p->next;
            destroy(library, p);
            free(p);
            plans->count--;
        }
    }
}

void gpu_plans_clear(gpu_plans *plans, void (*destroy)(const void *library, gpu_plan *p), const void *library)
{
    for (uint32_t i = 0; i < GPU_PLAN_BUCKETS; i++)
        for (gpu_plan *p = plans->buckets[i]; p; p = p->next) p->is_pinned = 0;
    plans->pinned = 0;
    gpu_plans_make_room(plans, destroy, library);
}

/* ---- Convolutions ------------------------------------------------------------------------------------------- */

static uint32_t axes_of(const gpu_window *w)
{
    return w->in[0] == 1 && w->out[0] == 1 && w->kernel_size[0] == 1 && w->padding[0] == 0 ? 2 : 3;
}

gpu_window_key gpu_window_key_of(const gpu_convolution *c)
{
    const gpu_window *w = c->window;
    gpu_window_key k = {.pass = c->pass,
                        .dtype = w->dtype,
                        .axes = axes_of(w),
                        .images = w->images,
                        .groups = w->groups,
                        .in_channels = w->in_channels,
                        .out_channels = w->out_channels};
    memcpy(k.in, w->in, sizeof k.in);
    memcpy(k.out, w->out, sizeof k.out);
    memcpy(k.kernel_size, w->kernel_size, sizeof k.kernel_size);
    memcpy(k.stride, w->stride, sizeof k.stride);
    memcpy(k.padding, w->padding, sizeof k.padding);
    memcpy(k.dilation, w->dilation, sizeof k.dilation);
    return k;
}

uint32_t gpu_window_sizes(const gpu_window_key *k, uint32_t which, int64_t sizes[5])
{
    const uint32_t *const axes[] = {k->in, k->kernel_size, k->out};
    const int64_t firsts[] = {k->images, (int64_t)k->groups * k->out_channels, k->images};
    const int64_t seconds[] = {(int64_t)k->groups * k->in_channels, k->in_channels,
                               (int64_t)k->groups * k->out_channels};
    sizes[0] = firsts[which];
    sizes[1] = seconds[which];
    for (uint32_t i = 0; i < k->axes; i++) sizes[2 + i] = axes[which][3 - k->axes + i];
    return k->axes + 2;
}
