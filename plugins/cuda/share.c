/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory and events that other processes open. The memory is mapped, not of cuMemAlloc: a file descriptor stands for it, so it
 * lives as long as one process has it. An event is one of CUDA for good, which each record records anew.
 */
#include "mapped.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

struct cuda_share {
    cuda_share *next;
    CUdeviceptr address;
    size_t bytes;
    CUmemGenericAllocationHandle handle;
    int32_t is_imported, is_free;
};

/* ---- Memory ------------------------------------------------------------------------------------------------- */

static int32_t check(cuda_device *d, CUresult result, const char *what)
{
    return cuda_mapped_check(d, result, "memory and events of several processes", what);
}
#define SHARE(d, function, ...) check(d, CALL(d, function, __VA_ARGS__), #function)

/* Undoes what was done of `map`, and lets go of the memory. 0: the driver does not unmap it. */
static int32_t let_go(cuda_device *d, const cuda_share *m, int32_t is_mapped)
{
    if (is_mapped && CALL(d, cuMemUnmap, m->address, m->bytes)) return 0;
    if (m->address) CALL(d, cuMemAddressFree, m->address, m->bytes);
    CALL(d, cuMemRelease, m->handle);
    return 1;
}

/* Gives the memory of m->handle an address, and keeps it in the device's list. Takes the handle, also when it fails. */
static int32_t map(cuda_device *d, const cuda_share *from, size_t alignment, void **out_memory)
{
    cuda_share *m = malloc(sizeof *m), made = *from;
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
    pthread_mutex_lock(&d->mapping); /* which devices may use it does not change meanwhile */
    if (!status) status = check(d, cuda_mapped_allow(d, made.address, made.bytes), "cuMemSetAccess");
    made.is_free = status && !let_go(d, &made, is_mapped);
    if (!status || made.is_free) {
        made.next = d->shares;
        *m = made;
        __atomic_store_n(&d->shares, m, __ATOMIC_RELEASE);
    } else {
        free(m);
    }
    pthread_mutex_unlock(&d->mapping);
    if (!status) *out_memory = (void *)(uintptr_t)made.address;
    return status;
}

static int32_t granularity_of(cuda_device *d, size_t *out)
{
    const CUmemAllocationProp properties =
        cuda_mapped_properties(d, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    return SHARE(d, cuMemGetAllocationGranularity, out, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
}

static int32_t alloc(void *device, uint64_t bytes, void **out_memory, uint64_t *out_bytes)
{
    cuda_device *d = device;
    const CUmemAllocationProp properties =
        cuda_mapped_properties(d, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
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

int32_t cuda_share_free(cuda_device *d, const void *memory)
{
    if (!__atomic_load_n(&d->shares, __ATOMIC_ACQUIRE)) return 0;
    pthread_mutex_lock(&d->mapping);
    cuda_share **at = &d->shares, *found;
    while (*at && ((*at)->address != (uintptr_t)memory || (*at)->is_free)) at = &(*at)->next;
    found = *at;
    if (found) {
        found->is_free = 1;
        if (let_go(d, found, 1)) {
            __atomic_store_n(at, found->next, __ATOMIC_RELEASE);
            free(found);
        }
    }
    pthread_mutex_unlock(&d->mapping);
    return found != NULL;
}

CUresult cuda_shares_admit(cuda_device *d, const CUmemAccessDesc *reader)
{
    CUresult result = CUDA_SUCCESS;
    for (const cuda_share *m = d->shares; m && !result; m = m->next)
        if (!m->is_free) result = CALL(d, cuMemSetAccess, m->address, m->bytes, reader, 1);
    return result;
}

void cuda_shares_close(cuda_device *d)
{
    for (cuda_share *m = d->shares, *next; m; m = next) {
        next = m->next;
        (void)let_go(d, m, 1);
        free(m);
    }
    d->shares = NULL;
}

static int32_t export_memory(void *device, void *memory, tn_process_handle *out)
{
    cuda_device *d = device;
    CUmemGenericAllocationHandle handle = 0;
    size_t bytes = 0;
    int file = -1;
    pthread_mutex_lock(&d->mapping);
    for (const cuda_share *m = d->shares; m; m = m->next)
        if (m->address == (uintptr_t)memory && !m->is_imported) {
            handle = m->handle;
            bytes = m->bytes;
        }
    pthread_mutex_unlock(&d->mapping);
    if (!bytes)
        return gpu_error(d->plugin, TN_E_STATE, "the memory was not requested with TN_REQUEST_SHAREABLE");
    int32_t status =
        SHARE(d, cuMemExportToShareableHandle, &file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (status) return status;
    fcntl(file, F_SETFD, FD_CLOEXEC);
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
    int32_t status = SHARE(d, cuEventCreate, &event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
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
    if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_HANDLE ||
        result == CUDA_ERROR_INVALID_CONTEXT) /* the last one for an event of this process */
        return gpu_error_native(d->plugin, TN_E_ARGUMENT, (int32_t)result, cuda_result_name(d->cu, result),
                                "the handle is not of an event of another process that lives (%s)",
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
