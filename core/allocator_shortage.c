/* SPDX-License-Identifier: Apache-2.0 */
/* A device is out of memory: the error that says where its memory is, in PyTorch's words, and the observers. */
#include <stdio.h>
#include <sys/resource.h>
#include "core/allocator_history.h"
#include "core/number_text.h"
#include "core/text.h"

#define SIZE_BYTES 32

/* "20.00 MiB", as PyTorch writes sizes. */
static const char *size_text(uint64_t bytes, char out[SIZE_BYTES])
{
    static const char *const units[] = {"KiB", "MiB", "GiB"};
    double size = (double)bytes / 1024;
    uint32_t unit = 0;
    for (; size >= 1024 && unit < 2; unit++) size /= 1024;
    if (bytes < 1024)
        snprintf(out, SIZE_BYTES, "%llu bytes", (unsigned long long)bytes);
    else
        tni_snprintf(out, SIZE_BYTES, "%.2f %s", size, units[unit]);
    return out;
}

/* The operator that made the block is found where the history has it. */
static void look_at_block(const struct tni_allocator *a, const tni_block *b, tn_memory_shortage *s)
{
    if (b->state == TNI_BLOCK_FREE) {
        if (b->bytes > s->largest_free) s->largest_free = b->bytes;
        return;
    }
    if (b->state == TNI_BLOCK_USED && b->part_of->pool->capture + b->part_of->pool->number)
        s->private_bytes += b->bytes;
    if (b->bytes <= s->largest_bytes) return;
    const tni_history_event *made = tni_history_origin(a, tni_place_of(b), TNI_HISTORY_ALLOC);
    s->largest_bytes = b->bytes;
    s->largest_operator = made && made->operator_name ? made->operator_name : "";
}

/* Where the memory is. Under the lock. */
static void look_around(struct tni_allocator *a, tn_memory_shortage *s)
{
    if (a->shards) tni_cache_settle(a); /* counts of small blocks arrive late */
    s->allocated_bytes = a->stats.allocated_bytes;
    s->reserved_bytes = a->stats.reserved_bytes;
    s->limit = a->limit;
    s->largest_operator = "";
    for (const tni_allocation *part = a->allocations; part; part = part->next) {
        for (const tni_block *b = part->first; b; b = b->after) look_at_block(a, b, s);
    }
}

/* Limits of the process itself, which the memory of the machine says nothing about: ulimit, systemd's LimitAS. */
static void add_limits_of_process(const tn_memory_shortage *s, tni_text *t)
{
    static const struct {
        int which;
        const char *what;
    } limits[] = {{RLIMIT_AS, "address space (RLIMIT_AS)"}, {RLIMIT_DATA, "data (RLIMIT_DATA)"}};
    char size[SIZE_BYTES];
    struct rlimit limit;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        if (getrlimit(limits[i].which, &limit) || limit.rlim_cur == RLIM_INFINITY) continue;
        if (s->total_bytes && limit.rlim_cur > s->total_bytes) continue;
        tni_text_add(t, " The process may have at most %s of %s.", size_text(limit.rlim_cur, size),
                     limits[i].what);
    }
}

static void write_text(const tn_memory_shortage *s, const char *device, tni_text *t)
{
    char size[SIZE_BYTES], other[SIZE_BYTES];
    uint64_t unused = s->reserved_bytes > s->allocated_bytes ? s->reserved_bytes - s->allocated_bytes : 0;
    tni_text_add(t, "%s is out of memory. Tried to allocate %s.", device, size_text(s->asked_bytes, size));
    if (s->total_bytes)
        tni_text_add(t, " The device has a total capacity of %s of which %s is free.",
                     size_text(s->total_bytes, size), size_text(s->free_bytes, other));
    if (TN_DEVICE_TYPE(s->device) == TN_INTERNED_CPU) add_limits_of_process(s, t);
    tni_text_add(t, " %s is allocated by tensors", size_text(s->allocated_bytes, size));
    if (s->private_bytes)
        tni_text_add(t, ", with %s in private pools and graphs", size_text(s->private_bytes, size));
    tni_text_add(t, ", and %s is reserved but unallocated", size_text(unused, size));
    if (s->largest_free) tni_text_add(t, " (the largest free block: %s)", size_text(s->largest_free, size));
    if (s->limit) tni_text_add(t, "; the limit set for this program is %s", size_text(s->limit, size));
    tni_text_add(t, ".");
    if (s->largest_bytes)
        tni_text_add(t, " The largest allocation is %s%s%s.", size_text(s->largest_bytes, size),
                     s->largest_operator[0] ? ", made by " : "", s->largest_operator);
    if (unused >= s->asked_bytes)
        tni_text_add(t, " If reserved but unallocated memory is large, try TENON_ALLOC_CONF="
                        "max_split_size_mb:128 or garbage_collection_threshold:0.8 against fragmentation.");
}

/* The error, and then the observers, who may fail at something else. */
static int32_t tell(const struct tni_allocator *a, const tn_memory_shortage *s)
{
    char name[64], text[1200];
    tni_text t = tni_text_begin(text, sizeof text);
    write_text(s, tn_device_format(a->device->ctx, s->device, name, sizeof name), &t);
    int32_t status = tni_error_wrap(TN_E_OUT_OF_MEMORY, "%s", text);
    tni_error_plugin(a->device->type->driver.plugin);
    tn_error *error = tni_error_copy();
    tni_memory_observers_call(a->device->ctx, s);
    tni_error_restore(error);
    tn_error_release(error);
    return status;
}

int32_t tni_out_of_memory(struct tni_allocator *a, uint64_t bytes)
{
    const tni_driver *driver = &a->device->type->driver;
    tn_memory_shortage s = {.size = sizeof s,
                            .device = a->device->id,
                            .asked_bytes = bytes,
                            .total_bytes = a->device->facts.total_memory};
    char name[64];
    if (driver->memory.info &&
        driver->memory.info(driver->self, a->device->handle, &s.free_bytes, &s.total_bytes))
        s.free_bytes = 0;
    tni_allocator_enter(a);
    a->stats.out_of_memory++;
    look_around(a, &s);
    if (a->history) tni_history_note(a, TNI_HISTORY_OOM, s.free_bytes, bytes, NULL);
    tni_allocator_leave(a);
    if (!a->is_pinned) return tell(a, &s);
    return tni_error_wrap(TN_E_OUT_OF_MEMORY,
                          "%s pins no more memory of the host: %llu bytes asked for; %llu are in tensors and "
                          "copies, %llu reserved",
                          tn_device_format(a->device->ctx, a->device->id, name, sizeof name),
                          (unsigned long long)bytes, (unsigned long long)s.allocated_bytes,
                          (unsigned long long)s.reserved_bytes);
}
