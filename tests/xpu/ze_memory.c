/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the Level Zero driver for tests: addresses of devices fault, and what they stand for lies at a fixed distance. Those of
 * shared memory fault as long as queued work uses the allocation.
 */
#include "ze_driver.h"

/* ---- Memory -------------------------------------------------------------------------------------------------- */

static allocation allocations[MOST_MEMORY];
static uint32_t n_allocations;
static char *arena; /* what is given out; the memory itself lies ARENA behind */
static uint64_t arena_used;
static int arena_file;

static int make_arena(void)
{
    if (arena) return 1;
    arena_file = memfd_create("ze_driver", MFD_CLOEXEC);
    char *at = mmap(NULL, 2 * ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena_file < 0 || at == MAP_FAILED || ftruncate(arena_file, (off_t)ARENA) != 0) return 0;
    for (int i = 0; i < 2; i++)
        if (mmap(at + (size_t)i * ARENA, ARENA, i ? PROT_READ | PROT_WRITE : PROT_NONE,
                 MAP_SHARED | MAP_FIXED | MAP_NORESERVE, arena_file, 0) == MAP_FAILED)
            return 0;
    arena = at;
    return 1;
}

int is_device_memory(const void *p)
{
    return arena && (const char *)p >= arena && (const char *)p < arena + ARENA;
}

/* Where the memory of an address really is. */
void *real_address(const void *p)
{
    return (char *)(uintptr_t)p + (is_device_memory(p) ? ARENA : 0);
}

allocation *allocation_of(const void *p)
{
    for (uint32_t i = 0; i < n_allocations; i++) {
        allocation *a = &allocations[i];
        if ((const char *)p >= a->base && (const char *)p < a->base + a->bytes) return a;
    }
    return NULL;
}

/* Device memory has to be alive as a whole; memory of the host may be anybody's. */
void expect_memory(const void *p, size_t bytes, const char *function)
{
    if (!is_device_memory(p)) return;
    const allocation *a = allocation_of(p);
    if (!a) report("%s: %p is no memory, or was freed", function, p);
    if (a && (const char *)p + bytes > a->base + a->bytes)
        report("%s: %zu bytes at %p leave an allocation of %zu", function, bytes, p, a->bytes);
}

void *ze_test_place(ze_context_handle_t context, const void *p, size_t bytes)
{
    pthread_mutex_lock(&lock);
    const allocation *a = is_device_memory(p) ? allocation_of(p) : NULL;
    const int is_inside = a && a->context == context && (const char *)p + bytes <= a->base + a->bytes;
    pthread_mutex_unlock(&lock);
    return is_inside ? real_address(p) : NULL;
}

/* Place i of those that a command uses, which may be NULL; 0: it has no more. */
static int place_of(const command *c, uint32_t i, const char **out)
{
    const struct _ze_kernel_handle_t *k = c->arguments;
    *out = i == 0 ? c->to : i == 1 ? c->from : NULL;
    if (i < 2) return 1;
    if (!k || i - 2 >= k->n_args) return 0;
    if (k->args[i - 2].is_memory) memcpy(out, k->args[i - 2].bytes, sizeof *out);
    return 1;
}

/* Whether a queued command of any list uses memory between two addresses. */
static int is_in_use(const char *from, const char *to)
{
    const char *p;
    for (ze_command_list_handle_t list = lists; list; list = list->next)
        for (const command *c = list->first; c; c = c->next)
            for (uint32_t i = 0; place_of(c, i, &p); i++)
                if (p && p >= from && p < to) return 1;
    return 0;
}

static void let_host(allocation *a, int is_allowed)
{
    if (a->is_open == is_allowed) return;
    a->is_open = is_allowed;
    if (mprotect(a->base, (a->bytes + 4095) / 4096 * 4096, is_allowed ? PROT_READ | PROT_WRITE : PROT_NONE))
        report("mprotect failed");
}

/* When a command was queued, or has left its list: the host sees the shared memory that it uses if no command does. */
void watch_shared(const command *c)
{
    const char *p;
    for (uint32_t i = 0; place_of(c, i, &p); i++) {
        allocation *a = is_device_memory(p) ? allocation_of(p) : NULL;
        if (a && a->is_shared) let_host(a, !is_in_use(a->base, a->base + a->bytes));
    }
}

/* Whether the size is one that the device gives: larger ones have to be asked for. */
static int is_size(size_t bytes, const void *extension, const char *function)
{
    const ze_relaxed_allocation_limits_exp_desc_t *limits = extension;
    const size_t largest = (size_t)setting_or("ZE_TEST_LARGEST", (long)LARGEST);
    if (limits && limits->stype != ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC)
        report("%s: an extension of type %x", function, (unsigned)limits->stype);
    if (limits && setting("ZE_TEST_LIMITED")) report("%s: no limit is lifted", function);
    const int is_lifted = limits && limits->flags == ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE;
    return bytes && (bytes <= largest || is_lifted);
}

/* Memory of the arena, under the lock. */
static ze_result_t take(ze_context_handle_t context, ze_device_handle_t device, size_t bytes,
                        size_t alignment, int is_shared, void **out)
{
    if (setting("FAULTY_LARGEST") && bytes > (size_t)setting("FAULTY_LARGEST"))
        return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    if (alignment & (alignment - 1)) return ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT;
    uint64_t room = (bytes + 4096 + 4095) / 4096 * 4096; /* a page that belongs to nobody behind it */
    if (!make_arena() || device->taken + bytes > memory_bytes() || n_allocations == MOST_MEMORY ||
        arena_used + room > ARENA)
        return ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY;
    allocation *a = &allocations[n_allocations++];
    *a = (allocation){.base = arena + arena_used,
                      .bytes = bytes,
                      .context = context,
                      .device = device,
                      .is_shared = is_shared};
    *out = a->base;
    arena_used += room;
    device->taken += bytes;
    context->children++;
    memset(real_address(*out), 0xC5, bytes);
    if (is_shared) let_host(a, 1);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeMemAllocDevice(ze_context_handle_t context, const ze_device_mem_alloc_desc_t *desc,
                                        size_t bytes, size_t alignment, ze_device_handle_t device, void **out)
{
    ENTER(context, 'C');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC);
    if (!is_size(bytes, desc->pNext, __func__)) return leave(ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    return leave(take(context, device, bytes, alignment, 0, out));
}

ze_result_t ZE_APICALL zeMemAllocShared(ze_context_handle_t context, const ze_device_mem_alloc_desc_t *desc,
                                        const ze_host_mem_alloc_desc_t *of_host, size_t bytes,
                                        size_t alignment, ze_device_handle_t device, void **out)
{
    ENTER(context, 'C');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC);
    EXPECT_TYPE(of_host, ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC);
    if (!is_size(bytes, desc->pNext, __func__)) return leave(ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    if (!(shared_capabilities() & ZE_MEMORY_ACCESS_CAP_FLAG_RW))
        return leave(ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
    if (!device) report("%s: the memory belongs to no device", __func__);
    return leave(device ? take(context, device, bytes, alignment, 1, out) : ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

ze_result_t ZE_APICALL zeMemAllocHost(ze_context_handle_t context, const ze_host_mem_alloc_desc_t *desc,
                                      size_t bytes, size_t alignment, void **out)
{
    ENTER(context, 'C');
    EXPECT_TYPE(desc, ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC);
    if (!is_size(bytes, desc->pNext, __func__)) return leave(ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    if (n_allocations == MOST_MEMORY || posix_memalign(out, alignment < 64 ? 64 : alignment, bytes))
        return leave(ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
    allocations[n_allocations++] = (allocation){.base = *out, .bytes = bytes, .context = context};
    context->children++;
    memset(*out, 0xC5, bytes);
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeMemFree(ze_context_handle_t context, void *p)
{
    if (!context || !p) return ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
    pthread_mutex_lock(&lock);
    allocation *a = allocation_of(p);
    if (!a || a->base != p || a->context != context) {
        report("zeMemFree: %p is not the start of an allocation of this context", p);
        return leave(ZE_RESULT_ERROR_INVALID_ARGUMENT);
    }
    if (!is_lost && is_in_use(a->base, a->base + a->bytes)) report("zeMemFree: queued work uses %p", p);
    if (a->device) {
        if (a->is_shared) let_host(a, 0);
        a->device->taken -= a->bytes;
        fallocate(arena_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, a->base - arena, (off_t)a->bytes);
    } else {
        free(a->base);
    }
    *a = allocations[--n_allocations];
    context->children--;
    return leave(fault_of(__func__));
}

ze_result_t ZE_APICALL zeMemGetAllocProperties(ze_context_handle_t context, const void *p,
                                               ze_memory_allocation_properties_t *out,
                                               ze_device_handle_t *out_device)
{
    ENTER(context, 'C');
    EXPECT_TYPE(out, ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES);
    const allocation *a = allocation_of(p);
    int is_here = a && a->context == context;
    out->type = !is_here       ? ZE_MEMORY_TYPE_UNKNOWN
                : a->is_shared ? ZE_MEMORY_TYPE_SHARED
                : a->device    ? ZE_MEMORY_TYPE_DEVICE
                               : ZE_MEMORY_TYPE_HOST;
    if (out_device) *out_device = is_here ? a->device : NULL;
    return leave(ZE_RESULT_SUCCESS);
}

ze_result_t ZE_APICALL zeMemGetAddressRange(ze_context_handle_t context, const void *p, void **base,
                                            size_t *bytes)
{
    ENTER(context, 'C');
    const allocation *a = allocation_of(p);
    if (!a) return leave(ZE_RESULT_ERROR_UNKNOWN);
    *base = a->base;
    *bytes = a->bytes;
    return leave(ZE_RESULT_SUCCESS);
}
