/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and events that other processes open. The memory is mapped, not of cuMemAlloc: a file descriptor stands for it, so it
 * lives as long as one process has it. An event is one of CUDA for good, which each record records anew.
 */
#include "cuda_driver.h"

#include <stdlib.h>
#include <sys/stat.h>

struct cuda_share {
    cuda_share *next;
    CUdeviceptr address;
    size_t bytes;
    CUmemGenericAllocationHandle handle;
    int32_t is_imported;
};

/* ---- Memory ------------------------------------------------------------------------------------------------- */

/* As cuda_check; what the GPU or its driver does not support is no failure of theirs. */
static int32_t check(cuda_device *d, CUresult result, const char *what)
{
    if (result != CUDA_ERROR_NOT_SUPPORTED) return cuda_check(d, result, what);
    return gpu_error(d->plugin, TN_E_UNSUPPORTED, "memory and events of several processes: %s failed: %s",
                     what, cuda_result_name(d->cu, result));
}
#define SHARE(d, function, ...) check(d, CALL(d, function, __VA_ARGS__), #function)

static CUmemAllocationProp properties_of(const cuda_device *d)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->id}};
}

/* Undoes what was done of make_address, and lets go of the memory. */
static void let_go(cuda_device *d, const cuda_share *m, int32_t is_mapped)
{
    if (is_mapped) CALL(d, cuMemUnmap, m->address, m->bytes);
    if (m->address) CALL(d, cuMemAddressFree, m->address, m->bytes);
    CALL(d, cuMemRelease, m->handle);
}

/* Gives the memory of m->handle an address, and keeps it in the device's list. Takes the handle, also when it fails. */
static int32_t map(cuda_device *d, const cuda_share *from, size_t alignment, void **out_memory)
{
    cuda_share *m = malloc(sizeof *m), made = *from;
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->id},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    int32_t status = m ? TN_OK : gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory"),
            is_mapped = 0;
    if (!status) status = SHARE(d, cuMemAddressReserve, &made.address, made.bytes, alignment, 0, 0);
    if (!status) {
        CUresult result = CALL(d, cuMemMap, made.address, made.bytes, 0, made.handle, 0);
        is_mapped = result == CUDA_SUCCESS;
        if (result == CUDA_ERROR_INVALID_VALUE && made.is_imported)
            status = gpu_error(d->plugin, TN_E_ARGUMENT,
                               "the memory of another process has less than %zu bytes", made.bytes);
        else
            status = check(d, result, "cuMemMap");
    }
    if (!status) status = SHARE(d, cuMemSetAccess, made.address, made.bytes, &access, 1);
    if (status) {
        let_go(d, &made, is_mapped);
        free(m);
        return status;
    }
    pthread_mutex_lock(&d->lock);
    made.next = d->shares;
    *m = made;
    __atomic_store_n(&d->shares, m, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&d->lock);
    *out_memory = (void *)(uintptr_t)m->address;
    return TN_OK;
}

static int32_t granularity_of(cuda_device *d, size_t *out)
{
    const CUmemAllocationProp properties = properties_of(d);
    return SHARE(d, cuMemGetAllocationGranularity, out, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
}

static int32_t alloc(void *device, uint64_t bytes, void **out_memory, uint64_t *out_bytes)
{
    cuda_device *d = device;
    const CUmemAllocationProp properties = properties_of(d);
    cuda_share made = {0};
    size_t granularity = 0;
    int32_t status = granularity_of(d, &granularity);
    if (status) return status;
    made.bytes = (bytes + granularity - 1) / granularity * granularity;
    status = SHARE(d, cuMemCreate, &made.handle, made.bytes, &properties, 0);
    if (!status) status = map(d, &made, granularity, out_memory);
    if (!status) *out_bytes = made.bytes;
    return status;
}

/* Takes the entry out of the list. */
static cuda_share *take(cuda_device *d, const void *memory)
{
    pthread_mutex_lock(&d->lock);
    cuda_share **at = &d->shares, *found;
    while (*at && (*at)->address != (uintptr_t)memory) at = &(*at)->next;
    found = *at;
    if (found) __atomic_store_n(at, found->next, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&d->lock);
    return found;
}

int32_t cuda_share_free(cuda_device *d, const void *memory)
{
    cuda_share *m = __atomic_load_n(&d->shares, __ATOMIC_ACQUIRE) ? take(d, memory) : NULL;
    if (!m) return 0;
    let_go(d, m, 1);
    free(m);
    return 1;
}

static int32_t export_memory(void *device, void *memory, tn_process_handle *out)
{
    cuda_device *d = device;
    CUmemGenericAllocationHandle handle = 0;
    size_t bytes = 0;
    int file = -1;
    pthread_mutex_lock(&d->lock);
    for (const cuda_share *m = d->shares; m; m = m->next)
        if (m->address == (uintptr_t)memory && !m->is_imported) {
            handle = m->handle;
            bytes = m->bytes;
        }
    pthread_mutex_unlock(&d->lock);
    if (!bytes)
        return gpu_error(d->plugin, TN_E_STATE, "the memory was not requested with TN_REQUEST_SHAREABLE");
    int32_t status =
        SHARE(d, cuMemExportToShareableHandle, &file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (status) return status;
    out->file = file;
    out->bytes = bytes;
    return TN_OK;
}

/* CUDA looks itself whether the descriptor is of its memory, and whether the memory is as large as it should be. */
static int32_t import_memory(void *device, const tn_process_handle *handle, void **out_memory)
{
    cuda_device *d = device;
    cuda_share made = {.bytes = handle->bytes, .is_imported = 1};
    size_t granularity = 0;
    struct stat facts;
    if (handle->file < 0 || fstat(handle->file, &facts))
        return gpu_error(d->plugin, TN_E_ARGUMENT, "the file descriptor %d is not open", handle->file);
    int32_t status = granularity_of(d, &granularity);
    if (status) return status;
    if (!handle->bytes || handle->bytes % granularity)
        return gpu_error(d->plugin, TN_E_ARGUMENT, "memory of another process cannot have %llu bytes",
                         (unsigned long long)handle->bytes);
    CUresult result = CALL(d, cuMemImportFromShareableHandle, &made.handle, (void *)(uintptr_t)handle->file,
                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE)
        return gpu_error_native(d->plugin, TN_E_ARGUMENT, (int32_t)result, cuda_result_name(d->cu, result),
                                "the file descriptor %d is not of memory of CUDA (%s)", handle->file,
                                cuda_result_name(d->cu, result));
    status = check(d, result, "cuMemImportFromShareableHandle");
    return status ? status : map(d, &made, granularity, out_memory);
}

/* ---- Events ------------------------------------------------------------------------------------------------- */

/* Makes the driver's event of one of CUDA; takes that, also when it fails. */
static int32_t wrap(cuda_device *d, int32_t status, CUevent event, void **out_event)
{
    cuda_event *e = status ? NULL : malloc(sizeof *e);
    if (status) return status;
    if (!e) {
        CALL(d, cuEventDestroy, event);
        return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    }
    *e = (cuda_event){.event = event, .is_shared = 1};
    *out_event = e;
    return TN_OK;
}

static int32_t event_create(void *device, void **out_event)
{
    cuda_device *d = device;
    CUevent event = NULL;
    int32_t status = CHECKED(d, cuEventCreate, &event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    return wrap(d, status, event, out_event);
}

static int32_t event_record(void *device, void *queue, void *event)
{
    cuda_device *d = device;
    return CHECKED(d, cuEventRecord, ((cuda_event *)event)->event, cuda_stream_of(queue));
}

static int32_t export_event(void *device, void *event, tn_process_handle *out)
{
    cuda_device *d = device;
    CUipcEventHandle handle;
    int32_t status = SHARE(d, cuIpcGetEventHandle, &handle, ((cuda_event *)event)->event);
    if (status) return status;
    _Static_assert(sizeof handle <= sizeof out->id, "the handle of an event fits");
    memcpy(out->id, &handle, sizeof handle);
    return TN_OK;
}

static int32_t import_event(void *device, const tn_process_handle *handle, void **out_event)
{
    cuda_device *d = device;
    CUipcEventHandle id;
    CUevent event = NULL;
    memcpy(&id, handle->id, sizeof id);
    CUresult result = CALL(d, cuIpcOpenEventHandle, &event, id);
    if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE)
        return gpu_error_native(d->plugin, TN_E_ARGUMENT, (int32_t)result, cuda_result_name(d->cu, result),
                                "the handle is not of an event that lives (%s)",
                                cuda_result_name(d->cu, result));
    return wrap(d, check(d, result, "cuIpcOpenEventHandle"), event, out_event);
}

const gpu_share_driver cuda_shares = {
    .alloc = alloc,
    .export_memory = export_memory,
    .import_memory = import_memory,
    .event_create = event_create,
    .event_record = event_record,
    .export_event = export_event,
    .import_event = import_event,
};
