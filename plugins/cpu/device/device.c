/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU as a device: there is one, its memory is host memory, and its streams run work at once. A stream
 * has no state, so waits return immediately.
 */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ALIGNMENT  64u                 /* a cache line, and the widest vector */
#define HUGE_PAGE  ((uint64_t)2 << 20) /* size and alignment of a large page */
#define HUGE_BYTES ((uint64_t)8 << 20) /* allocations of this size and more use large pages */

/* The handle of the device and of all streams, which only need an address that is not NULL. */
typedef struct cpu_handle {
    uint64_t unused;
} cpu_handle;

typedef struct cpu_event {
    int32_t recorded;
    struct timespec time;
} cpu_event;

static int32_t make_handle(void *self, void **out)
{
    cpu_state *state = self;
    cpu_handle *handle = calloc(1, sizeof *handle);
    if (!handle) return state->host->error(state->host->context, TN_E_OUT_OF_MEMORY, "cpu: out of memory");
    *out = handle;
    return TN_OK;
}

/* ---- Device ------------------------------------------------------------------------------------------ */

static int32_t enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    *out_count = 1;
    *out_reason = NULL;
    return TN_OK;
}

void cpu_device_name(char *name, size_t bytes)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(name, bytes, "CPU");
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(name, bytes, "%.*s", (int)bytes - 1, colon + 2);
        break;
    }
    if (file) fclose(file);
}

static int32_t facts(void *self, uint32_t index, tn_device_facts *out)
{
    static const char *const levels[CPU_LEVEL_COUNT] = {"base", "avx2", "avx512"};
    uint32_t size = out->size < sizeof *out ? out->size : (uint32_t)sizeof *out;
    tn_device_facts f = {
        .size = out->size,
        .device_class = TN_DEVICE_HOST,
        .memory_kinds = TN_MEMORY_HOST | TN_MEMORY_UNIFIED,
        .compute_units = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
        .total_memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE),
        .alignment = ALIGNMENT,
        .dtypes = cpu_everything_dtypes,
    };
    cpu_device_name(f.name, sizeof f.name);
    snprintf(f.architecture, sizeof f.architecture, "%s", levels[cpu_level()]);
    memcpy(out, &f, size);
    return TN_OK;
}

static int32_t open_device(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    return make_handle(self, out_device);
}

static void close_device(void *self, void *device)
{
    free(device);
}

static int32_t device_status(void *self, void *device)
{
    return TN_OK;
}

const tn_device_interface cpu_device_interface = TN_INTERFACE(
    tn_device_interface, .type = "cpu", .enumerate = enumerate, .facts = facts, .open = open_device,
    .close = close_device, .status = device_status, .synchronize = device_status);

/* ---- Memory ------------------------------------------------------------------------------------------ */

static int32_t allocate(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    cpu_state *state = self;
    void *memory = NULL;
    uint64_t bytes = request->bytes, alignment = bytes >= HUGE_BYTES ? HUGE_PAGE : ALIGNMENT;
    if (alignment < request->alignment) alignment = request->alignment;
    if (request->flags)
        return state->host->error(state->host->context, TN_E_UNKNOWN_FIELD, "cpu: unknown flags of memory");
    if (posix_memalign(&memory, alignment, bytes ? bytes : 1) != 0)
        return state->host->error(state->host->context, TN_E_OUT_OF_MEMORY, "cpu: out of memory");
    /* Only advice: it has no effect where large pages are disabled. */
    if (bytes >= HUGE_BYTES && !atomic_load(&state->no_huge_pages))
        (void)madvise(memory, bytes, MADV_HUGEPAGE);
    out->kind = request->kind;
    out->allocation = memory;
    out->host = memory;
    out->address = (uint64_t)(uintptr_t)memory;
    out->bytes = bytes;
    return TN_OK;
}

static void release(void *self, void *device, const tn_memory *memory)
{
    free(memory->allocation);
}

static int32_t fill_bytes(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                          uint32_t value, void *stream)
{
    memset((char *)allocation + offset, (int)value, bytes);
    return TN_OK;
}

static int32_t memory_info(void *self, void *device, uint64_t *out_free, uint64_t *out_total)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    *out_free = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * page;
    *out_total = (uint64_t)sysconf(_SC_PHYS_PAGES) * page;
    return TN_OK;
}

static int32_t map(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                   uint32_t flags, void **out_host)
{
    *out_host = (char *)allocation + offset;
    return TN_OK;
}

static int32_t unmap(void *self, void *device, void *allocation, void *host)
{
    return TN_OK;
}

const tn_memory_interface cpu_memory_interface =
    TN_INTERFACE(tn_memory_interface, .alloc = allocate, .free = release, .fill = fill_bytes,
                 .info = memory_info, .map = map, .unmap = unmap);

/* ---- Copies ------------------------------------------------------------------------------------------ */

static int32_t host_to_device(void *self, void *device, void *allocation, uint64_t offset, const void *host,
                              const tn_memory *pinned, uint64_t bytes, void *stream)
{
    memmove((char *)allocation + offset, host, bytes);
    return TN_OK;
}

static int32_t device_to_host(void *self, void *device, void *host, const tn_memory *pinned, void *allocation,
                              uint64_t offset, uint64_t bytes, void *stream)
{
    memmove(host, (const char *)allocation + offset, bytes);
    return TN_OK;
}

static int32_t device_to_device(void *self, void *device, void *to, uint64_t to_offset, void *from,
                                uint64_t from_offset, uint64_t bytes, void *stream)
{
    memmove((char *)to + to_offset, (const char *)from + from_offset, bytes);
    return TN_OK;
}

const tn_copy_interface cpu_copy_interface =
    TN_INTERFACE(tn_copy_interface, .host_to_device = host_to_device, .device_to_host = device_to_host,
                 .device_to_device = device_to_device);

/* ---- Streams ----------------------------------------------------------------------------------------- */

static int32_t create_stream(void *self, void *device, const tn_stream_options *options, void **out_stream)
{
    return make_handle(self, out_stream);
}

static void destroy_stream(void *self, void *device, void *stream)
{
    free(stream);
}

static int32_t query_stream(void *self, void *device, void *stream, int32_t *out_done)
{
    *out_done = 1;
    return TN_OK;
}

static int32_t synchronize_stream(void *self, void *device, void *stream)
{
    return TN_OK;
}

static int32_t wait_event(void *self, void *device, void *stream, void *event)
{
    return TN_OK;
}

static int32_t host_callback(void *self, void *device, void *stream, void (*callback)(void *user), void *user)
{
    callback(user);
    return TN_OK;
}

const tn_stream_interface cpu_stream_interface = TN_INTERFACE(
    tn_stream_interface, .create = create_stream, .destroy = destroy_stream, .query = query_stream,
    .synchronize = synchronize_stream, .wait_event = wait_event, .host_callback = host_callback);

/* ---- Events ------------------------------------------------------------------------------------------ */

static int32_t create_event(void *self, void *device, uint32_t flags, void **out_event)
{
    cpu_state *state = self;
    cpu_event *event = calloc(1, sizeof *event);
    if (!event) return state->host->error(state->host->context, TN_E_OUT_OF_MEMORY, "cpu: out of memory");
    *out_event = event;
    return TN_OK;
}

static void destroy_event(void *self, void *device, void *event)
{
    free(event);
}

static int32_t record_event(void *self, void *device, void *event, void *stream)
{
    cpu_event *e = event;
    clock_gettime(CLOCK_MONOTONIC, &e->time);
    e->recorded = 1;
    return TN_OK;
}

static int32_t query_event(void *self, void *device, void *event, int32_t *out_done)
{
    *out_done = 1;
    return TN_OK;
}

static int32_t synchronize_event(void *self, void *device, void *event)
{
    return TN_OK;
}

static int32_t elapsed(void *self, void *device, void *start, void *end, double *out_ms)
{
    cpu_state *state = self;
    const cpu_event *a = start, *b = end;
    if (!a->recorded || !b->recorded)
        return state->host->error(state->host->context, TN_E_STATE,
                                  "both events must be recorded before calculating elapsed time");
    *out_ms =
        (double)(b->time.tv_sec - a->time.tv_sec) * 1e3 + (double)(b->time.tv_nsec - a->time.tv_nsec) * 1e-6;
    return TN_OK;
}

const tn_event_interface cpu_event_interface =
    TN_INTERFACE(tn_event_interface, .create = create_event, .destroy = destroy_event, .record = record_event,
                 .query = query_event, .synchronize = synchronize_event, .elapsed = elapsed);
