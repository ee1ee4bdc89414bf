/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the host cannot read. Each allocation is an anonymous file mapped twice: without access at the
 * address that serves as its handle, and with access at an address that only this plugin knows. Pages
 * without access surround both, so that kernels that run over an end fault. Copies and fills are queued.
 */
#include "reference.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Allocations ------------------------------------------------------------------------------------- */

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t region_bytes(const reference_allocation *a)
{
    return 2 * a->mapped + 3 * page_bytes();
}

/* Reserves page, handle, page, data, page; then maps a file over handle and data. 0 on failure. */
static int map_twice(reference_allocation *a, int file)
{
    uint64_t page = page_bytes();
    char *region = mmap(NULL, region_bytes(a), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED) return 0;
    a->handle = region + page;
    a->data = a->handle + a->mapped + page;
    int good =
        mmap(a->handle, a->mapped, PROT_NONE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED &&
        mmap(a->data, a->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
    if (!good) munmap(region, region_bytes(a));
    return good;
}

static int keeps_file(const reference_allocation *a)
{
    return a->shareable || a->grows;
}

/* New memory, in a file that stays open if others may open it, or if it grows. Only then may it shrink below mappings. */
static int make(reference_allocation *a)
{
    a->file = memfd_create("tenon-reference", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int good = a->file >= 0;
    if (good && !a->grows)
        good = ftruncate(a->file, (off_t)a->mapped) == 0 &&
               fcntl(a->file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0;
    good = good && map_twice(a, a->file);
    if (a->file >= 0 && !(good && keeps_file(a))) close(a->file);
    return good;
}

static void unmap(const reference_allocation *a)
{
    if (a->borrowed) return;
    if (keeps_file(a)) close(a->file);
    munmap(a->handle - page_bytes(), region_bytes(a));
}

/* Position of the first allocation whose handle is not below `handle`. */
static size_t lower_bound(const reference_state *state, const char *handle)
{
    size_t low = 0, high = state->n_allocations;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)state->allocations[middle].handle < (uintptr_t)handle)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int reserve_entry(reference_state *state)
{
    if (state->n_allocations < state->allocations_capacity) return 1;
    size_t capacity = state->allocations_capacity ? 2 * state->allocations_capacity : 64;
    reference_allocation *grown = realloc(state->allocations, capacity * sizeof(*grown));
    if (!grown) return 0;
    state->allocations = grown;
    state->allocations_capacity = capacity;
    return 1;
}

/* With the lock held and room for an entry. */
static void add(reference_state *state, const reference_allocation *a)
{
    size_t at = lower_bound(state, a->handle);
    memmove(&state->allocations[at + 1], &state->allocations[at],
            (state->n_allocations - at) * sizeof(state->allocations[0]));
    state->allocations[at] = *a;
    state->n_allocations++;
}

static uint64_t bytes_left(const reference_device *device)
{
    uint64_t limit = atomic_load(&device->state->memory_limit);
    return limit > device->used ? limit - device->used : 0;
}

static int insert(reference_state *state, reference_allocation *a)
{
    if (a->bytes > bytes_left(a->device) || !reserve_entry(state) || !make(a)) return 0;
    add(state, a);
    a->device->used += a->bytes;
    if (!a->grows) reference_poison(&state->chaos, a->data, a->mapped);
    return 1;
}

/* ---- Quarantine: freed allocations that late work may still write to, or read poison from -------------- */

#define QUARANTINE_COUNT 8u
#define QUARANTINE_BYTES ((uint64_t)32 << 20) /* bytes of one allocation; larger ones are freed at once */

/* The oldest one leaves the quarantine; a write to it after it was freed is logged. */
static void leave_quarantine(reference_state *state)
{
    const reference_allocation *a = &state->quarantine[0];
    if (!reference_is_poison(a->data, a->mapped) && state->host->log)
        state->host->log(state->host->context, TN_LOG_ERROR,
                         "reference: memory was written after it was freed");
    unmap(a);
    state->n_quarantine--;
    memmove(&state->quarantine[0], &state->quarantine[1], state->n_quarantine * sizeof(*a));
}

/* With the memory lock held; owns the mapping from then on. */
static void quarantine(reference_state *state, const reference_allocation *a)
{
    if (!state->quarantine) state->quarantine = calloc(QUARANTINE_COUNT, sizeof(*a));
    if (!state->chaos.poison || !state->quarantine || a->mapped > QUARANTINE_BYTES) {
        unmap(a);
        return;
    }
    reference_poison(&state->chaos, a->data, a->mapped);
    if (state->n_quarantine == QUARANTINE_COUNT) leave_quarantine(state);
    state->quarantine[state->n_quarantine++] = *a;
}

/* `grows`: addresses without memory. */
static int32_t give(reference_state *state, void *device, const tn_memory_request *request, int32_t grows,
                    tn_memory *out)
{
    uint64_t bytes = request->bytes;
    int32_t status = reference_check_lost(device);
    if (status) return status;
    if (request->kind != TN_MEMORY_DEVICE || request->flags & ~TN_REQUEST_SHAREABLE)
        return reference_error(state, TN_E_UNSUPPORTED, "reference: memory of kind %u with flags 0x%x",
                               request->kind, request->flags);
    if (request->alignment > page_bytes())
        return reference_error(state, TN_E_UNSUPPORTED, "reference: memory aligned to %u bytes",
                               request->alignment);
    uint64_t page = page_bytes();
    reference_allocation a = {.bytes = grows ? 0 : bytes,
                              .device = device,
                              .shareable = (request->flags & TN_REQUEST_SHAREABLE) != 0,
                              .grows = grows};
    int good = 0;
    if (grows || bytes <= atomic_load(&state->memory_limit)) {
        a.mapped = (bytes + page - 1) / page * page;
        pthread_mutex_lock(&state->memory_lock);
        good = insert(state, &a);
        pthread_mutex_unlock(&state->memory_lock);
    }
    if (!good)
        return reference_error(state, TN_E_OUT_OF_MEMORY, "reference: no %llu bytes are left",
                               (unsigned long long)bytes);
    out->kind = TN_MEMORY_DEVICE;
    out->allocation = a.handle;
    out->address = (uint64_t)(uintptr_t)a.handle;
    out->bytes = bytes;
    return TN_OK;
}

static int32_t memory_alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    return give(self, device, request, 0, out);
}

static int32_t memory_reserve(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    return give(self, device, request, 1, out);
}

/* With the lock held. */
static reference_allocation *find(reference_state *state, const void *handle)
{
    size_t at = lower_bound(state, handle);
    return at < state->n_allocations && state->allocations[at].handle == handle ? &state->allocations[at]
                                                                                : NULL;
}

/* With the lock held. */
static reference_allocation take_out(reference_state *state, const reference_allocation *at)
{
    reference_allocation a = *at;
    size_t i = (size_t)(at - state->allocations);
    state->n_allocations--;
    memmove(&state->allocations[i], &state->allocations[i + 1],
            (state->n_allocations - i) * sizeof(state->allocations[0]));
    return a;
}

static void memory_free(void *self, void *device, const tn_memory *memory)
{
    reference_state *state = self;
    pthread_mutex_lock(&state->memory_lock);
    const reference_allocation *at = find(state, memory->allocation);
    if (at) {
        const reference_allocation a = take_out(state, at);
        a.device->used -= a.bytes;
        if (keeps_file(&a))
            unmap(&a); /* other processes may go on, and what grows has only a part of its pages */
        else
            quarantine(state, &a);
    }
    pthread_mutex_unlock(&state->memory_lock);
}

#define UNIT ((uint64_t)2 << 20) /* of sizes of memory that grows */

/* With the lock held. */
static int32_t set_bytes(reference_state *state, reference_allocation *a, uint64_t bytes)
{
    uint64_t before = a->bytes;
    if ((bytes > before && bytes - before > bytes_left(a->device)) || ftruncate(a->file, (off_t)bytes) != 0)
        return reference_error(state, TN_E_OUT_OF_MEMORY, "reference: memory cannot grow to %llu bytes",
                               (unsigned long long)bytes);
    if (bytes > before) reference_poison(&state->chaos, a->data + before, bytes - before);
    a->device->used += bytes - before;
    a->bytes = bytes;
    return TN_OK;
}

static int32_t memory_resize(void *self, void *device, void *allocation, uint64_t bytes)
{
    reference_state *state = self;
    int32_t status = reference_check_lost(device);
    if (status) return status;
    pthread_mutex_lock(&state->memory_lock);
    reference_allocation *a = find(state, allocation);
    if (a && a->grows && a->device == device && bytes % UNIT == 0 && bytes <= a->mapped)
        status = set_bytes(state, a, bytes);
    else
        status = reference_error(state, TN_E_CONTRACT, "reference: %p cannot have %llu bytes", allocation,
                                 (unsigned long long)bytes);
    pthread_mutex_unlock(&state->memory_lock);
    return status;
}

char *reference_resolve(reference_device *device, const void *handle, uint64_t offset, uint64_t bytes)
{
    reference_state *state = device->state;
    reference_allocation a = {.handle = NULL};
    pthread_mutex_lock(&state->memory_lock);
    const reference_allocation *at = find(state, handle);
    if (at) a = *at;
    pthread_mutex_unlock(&state->memory_lock);
    if (!a.handle || a.device != device) {
        reference_error(state, TN_E_CONTRACT, "reference: %p is not an allocation of device %u", handle,
                        device->index);
        return NULL;
    }
    if (offset > a.bytes || bytes > a.bytes - offset) {
        reference_error(state, TN_E_CONTRACT,
                        "reference: %llu bytes at offset %llu are outside an allocation of %llu bytes",
                        (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)a.bytes);
        return NULL;
    }
    return a.data + offset;
}

static int32_t memory_info(void *self, void *device, uint64_t *out_free, uint64_t *out_total)
{
    reference_state *state = self;
    int32_t status = reference_check_lost(device);
    if (status) return status;
    pthread_mutex_lock(&state->memory_lock);
    *out_free = bytes_left(device);
    pthread_mutex_unlock(&state->memory_lock);
    *out_total = atomic_load(&state->memory_limit);
    return TN_OK;
}

/* ---- Memory of others ---------------------------------------------------------------------------------- */

/* All states of the process. This is what a driver would know: a real device's memory belongs to the process. */
static pthread_mutex_t states_lock = PTHREAD_MUTEX_INITIALIZER;
static reference_state *states;

void reference_memory_init(reference_state *state)
{
    pthread_mutex_lock(&states_lock);
    state->next = states;
    states = state;
    pthread_mutex_unlock(&states_lock);
}

/* The allocation of one of the devices with this index that contains the range. */
static int find_range(reference_state *state, uint32_t index, const char *data, uint64_t bytes,
                      reference_allocation *out)
{
    int found = 0;
    pthread_mutex_lock(&state->memory_lock);
    size_t after = lower_bound(state, data + 1);
    if (after > 0) {
        *out = state->allocations[after - 1];
        uint64_t offset = (uint64_t)(data - out->handle);
        found = out->device->index == index && offset <= out->bytes && bytes <= out->bytes - offset;
    }
    pthread_mutex_unlock(&state->memory_lock);
    return found;
}

static int borrow(reference_device *device, const reference_allocation *from)
{
    reference_state *state = device->state;
    pthread_mutex_lock(&state->memory_lock);
    reference_allocation *at = find(state, from->handle);
    int good = at || reserve_entry(state);
    if (at) {
        at->borrowed++;
        at->bytes = from->bytes; /* it may have grown */
    } else if (good) {
        reference_allocation a = *from;
        a.device = device;
        a.borrowed = 1;
        add(state, &a);
    }
    pthread_mutex_unlock(&state->memory_lock);
    return good;
}

int reference_memory_borrow(reference_device *device, const char *data, uint64_t bytes, char **out_handle,
                            uint64_t *out_offset)
{
    reference_allocation a;
    int found = find_range(device->state, device->index, data, bytes, &a), own = found && !a.borrowed;
    pthread_mutex_lock(&states_lock);
    for (reference_state *s = states; s && !found; s = s->next)
        if (s != device->state) found = find_range(s, device->index, data, bytes, &a);
    pthread_mutex_unlock(&states_lock);
    if (!found || (!own && !borrow(device, &a))) return 0;
    *out_handle = a.handle;
    *out_offset = (uint64_t)(data - a.handle);
    return 1;
}

int32_t reference_memory_open(reference_device *device, int file, uint64_t bytes, char **out_handle)
{
    reference_state *state = device->state;
    uint64_t page = page_bytes();
    reference_allocation a = {
        .bytes = bytes, .mapped = (bytes + page - 1) / page * page, .device = device, .imported = 1};
    pthread_mutex_lock(&state->memory_lock);
    int good = reserve_entry(state) && map_twice(&a, file);
    if (good) add(state, &a);
    pthread_mutex_unlock(&state->memory_lock);
    if (!good)
        return reference_error(state, TN_E_OUT_OF_MEMORY,
                               "reference: memory of another process cannot be mapped");
    *out_handle = a.handle;
    return TN_OK;
}

void reference_memory_forget(reference_device *device, const void *handle)
{
    reference_state *state = device->state;
    pthread_mutex_lock(&state->memory_lock);
    reference_allocation *at = find(state, handle);
    if (at && at->borrowed > 1) {
        at->borrowed--;
    } else if (at && (at->borrowed || at->imported)) {
        const reference_allocation a = take_out(state, at);
        unmap(&a);
    }
    pthread_mutex_unlock(&state->memory_lock);
}

int reference_memory_file(reference_device *device, const void *handle)
{
    reference_state *state = device->state;
    pthread_mutex_lock(&state->memory_lock);
    const reference_allocation *at = find(state, handle);
    int file = at && at->shareable && !at->borrowed ? at->file : -1;
    pthread_mutex_unlock(&state->memory_lock);
    return file;
}

void reference_memory_finish(reference_state *state)
{
    pthread_mutex_lock(&states_lock);
    for (reference_state **link = &states; *link; link = &(*link)->next) {
        if (*link != state) continue;
        *link = state->next;
        break;
    }
    pthread_mutex_unlock(&states_lock);
    for (size_t i = 0; i < state->n_allocations; i++) unmap(&state->allocations[i]);
    while (state->n_quarantine) leave_quarantine(state);
    while (state->pinned) {
        reference_pinned *p = state->pinned;
        state->pinned = p->next;
        free(p);
    }
    free(state->quarantine);
    free(state->allocations);
}

/* ---- Pinned memory ----------------------------------------------------------------------------------- */

/* Host memory needs no preparation here; the list is for checks of copies. */
static int32_t memory_pin(void *self, void *device, void *host, uint64_t bytes, tn_memory *out)
{
    reference_state *state = self;
    int32_t status = reference_check_lost(device);
    if (status) return status;
    if ((uintptr_t)host % page_bytes() || bytes % page_bytes())
        return reference_error(state, TN_E_CONTRACT, "reference: %llu bytes at %p are not whole pages",
                               (unsigned long long)bytes, host);
    reference_pinned *p = malloc(sizeof(*p));
    if (!p) return reference_error(state, TN_E_OUT_OF_MEMORY, "reference: no host memory to pin memory");
    pthread_mutex_lock(&state->memory_lock);
    *p = (reference_pinned){.next = state->pinned, .host = host, .bytes = bytes, .device = device};
    state->pinned = p;
    pthread_mutex_unlock(&state->memory_lock);
    out->kind = TN_MEMORY_HOST;
    out->host = host;
    out->bytes = bytes;
    return TN_OK;
}

static void memory_unpin(void *self, void *device, const tn_memory *memory)
{
    reference_state *state = self;
    pthread_mutex_lock(&state->memory_lock);
    reference_pinned **link = &state->pinned, *gone;
    while (*link && ((*link)->host != memory->host || (*link)->device != device)) link = &(*link)->next;
    gone = *link;
    if (gone) *link = gone->next;
    pthread_mutex_unlock(&state->memory_lock);
    free(gone);
}

/* TN_OK if `pinned` is NULL, or pinned for the device and around the range. */
static int32_t check_pinned(reference_device *device, const tn_memory *pinned, const void *host,
                            uint64_t bytes)
{
    reference_state *state = device->state;
    if (!pinned) return TN_OK;
    pthread_mutex_lock(&state->memory_lock);
    const reference_pinned *p = state->pinned;
    while (p && (p->host != pinned->host || p->device != device)) p = p->next;
    int32_t inside = p && (const char *)host >= p->host && bytes <= p->bytes &&
                     (uint64_t)((const char *)host - p->host) <= p->bytes - bytes;
    pthread_mutex_unlock(&state->memory_lock);
    if (inside) return TN_OK;
    return reference_error(state, TN_E_CONTRACT,
                           "reference: %llu bytes at %p are not in the memory that was pinned for device %u",
                           (unsigned long long)bytes, host, device->index);
}

/* ---- Queued fills and copies ------------------------------------------------------------------------- */

typedef struct transfer {
    reference_task task;
    char *to;
    const char *from; /* NULL: fill with `value` */
    uint64_t bytes;
    int32_t value;
    int32_t reserved;
} transfer;

static void run_transfer(reference_stream *stream, reference_task *task)
{
    const transfer *t = (const transfer *)task;
    reference_device *device = reference_stream_device(stream);
    pthread_rwlock_rdlock(&device->transfers);
    if (!atomic_load(&device->lost)) {
        if (t->from)
            memmove(t->to, t->from, t->bytes);
        else
            memset(t->to, t->value, t->bytes);
    }
    pthread_rwlock_unlock(&device->transfers);
}

static int32_t push_transfer(reference_state *state, char *to, const char *from, uint64_t bytes,
                             uint32_t value, void *stream)
{
    transfer *t = reference_task_create(sizeof(*t), run_transfer);
    if (!t) return reference_error(state, TN_E_OUT_OF_MEMORY, "reference: no host memory to queue a copy");
    t->to = to;
    t->from = from;
    t->bytes = bytes;
    t->value = (int32_t)(value & 0xffu);
    return reference_stream_push(stream, &t->task);
}

static int32_t memory_fill(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                           uint32_t value, void *stream)
{
    char *to = reference_resolve(device, allocation, offset, bytes);
    return to ? push_transfer(self, to, NULL, bytes, value, stream) : TN_E_CONTRACT;
}

/* The host's bytes stay as they are until the stream has passed, so they are not copied here. */
static int32_t host_to_device(void *self, void *device, void *allocation, uint64_t offset, const void *host,
                              const tn_memory *pinned, uint64_t bytes, void *stream)
{
    int32_t status = reference_stream_check_runs(stream, "a copy from the host");
    if (!status) status = check_pinned(device, pinned, host, bytes);
    if (status) return status;
    char *to = reference_resolve(device, allocation, offset, bytes);
    return to ? push_transfer(self, to, host, bytes, 0, stream) : TN_E_CONTRACT;
}

static int32_t device_to_host(void *self, void *device, void *host, const tn_memory *pinned, void *allocation,
                              uint64_t offset, uint64_t bytes, void *stream)
{
    int32_t status = reference_stream_check_runs(stream, "a copy to the host");
    if (!status) status = check_pinned(device, pinned, host, bytes);
    if (status) return status;
    const char *from = reference_resolve(device, allocation, offset, bytes);
    return from ? push_transfer(self, host, from, bytes, 0, stream) : TN_E_CONTRACT;
}

static int32_t copy(reference_state *state, void *to_device, void *to, uint64_t to_offset, void *from_device,
                    void *from, uint64_t from_offset, uint64_t bytes, void *stream)
{
    char *target = reference_resolve(to_device, to, to_offset, bytes);
    const char *source = target ? reference_resolve(from_device, from, from_offset, bytes) : NULL;
    return source ? push_transfer(state, target, source, bytes, 0, stream) : TN_E_CONTRACT;
}

static int32_t peer(void *self, void *to_device, void *to, uint64_t to_offset, void *from_device, void *from,
                    uint64_t from_offset, uint64_t bytes, void *stream)
{
    int32_t status = reference_stream_check_runs(stream, "a copy between devices");
    if (status) return status;
    return copy(self, to_device, to, to_offset, from_device, from, from_offset, bytes, stream);
}

static int32_t device_to_device(void *self, void *device, void *to, uint64_t to_offset, void *from,
                                uint64_t from_offset, uint64_t bytes, void *stream)
{
    return copy(self, device, to, to_offset, device, from, from_offset, bytes, stream);
}

/* The address that only this plugin knows; writes of the host are seen at once. */
static int32_t memory_map(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                          uint32_t flags, void **out_host)
{
    int32_t status = reference_check_lost(device);
    if (status) return status;
    if (!flags || flags & ~(TN_MAP_READ | TN_MAP_WRITE))
        return reference_error(self, TN_E_ARGUMENT, "reference: memory is mapped with flags 0x%x", flags);
    char *data = reference_resolve(device, allocation, offset, bytes);
    if (!data) return TN_E_CONTRACT;
    *out_host = data;
    return TN_OK;
}

static int32_t memory_unmap(void *self, void *device, void *allocation, void *host)
{
    const char *data = reference_resolve(device, allocation, 0, 0);
    return data && (char *)host >= data ? TN_OK : TN_E_CONTRACT;
}

/* Nothing is cached. */
static int32_t memory_trim(void *self, void *device)
{
    (void)self;
    return reference_check_lost(device);
}

const tn_memory_interface reference_memory_interface = TN_INTERFACE(
    tn_memory_interface, .alloc = memory_alloc, .free = memory_free, .fill = memory_fill, .info = memory_info,
    .pin = memory_pin, .unpin = memory_unpin, .map = memory_map, .unmap = memory_unmap, .trim = memory_trim,
    .reserve = memory_reserve, .resize = memory_resize);
const tn_copy_interface reference_copy_interface =
    TN_INTERFACE(tn_copy_interface, .host_to_device = host_to_device, .device_to_host = device_to_host,
                 .device_to_device = device_to_device, .peer = peer);
