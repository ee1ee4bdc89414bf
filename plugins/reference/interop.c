/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What other libraries and other processes use. The device's memory belongs to the process, so that another copy of the
 * plugin, in another context, is another library; other processes get the file behind an allocation.
 */
#include "reference.h"

#include <string.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#define DLPACK_EXTENSION 12

/* By which the other side sees that it got the right file. */
typedef struct file_id {
    uint64_t device;
    uint64_t inode;
} file_id;

static int32_t dlpack_device(void *self, void *device, int32_t *out_type, int32_t *out_id)
{
    *out_type = DLPACK_EXTENSION;
    *out_id = (int32_t)((reference_device *)device)->index;
    return TN_OK;
}

/* A native stream is the stream, also one of another context. */
static int32_t wait_native(void *self, void *device, uint64_t native, void *event)
{
    return reference_event_wait(event, (reference_stream *)(uintptr_t)native);
}

static int32_t import_pointer(void *self, void *device, void *data, uint64_t bytes, tn_memory *out)
{
    char *handle;
    uint64_t offset;
    if (!reference_memory_borrow(device, data, bytes, &handle, &offset))
        return reference_error(self, TN_E_ARGUMENT, "reference: %llu bytes at %p are not memory of device %u",
                               (unsigned long long)bytes, data, ((reference_device *)device)->index);
    out->kind = TN_MEMORY_DEVICE;
    out->allocation = handle;
    out->offset = offset;
    out->address = (uint64_t)(uintptr_t)data;
    out->bytes = bytes;
    return TN_OK;
}

static void release_memory(void *self, void *device, const tn_memory *memory)
{
    reference_memory_forget(device, memory->allocation);
}

static int32_t export_memory(void *self, void *device, void *allocation, tn_process_handle *out)
{
    struct stat facts;
    int file = reference_memory_file(device, allocation);
    if (file < 0 || fstat(file, &facts))
        return reference_error(self, TN_E_STATE,
                               "reference: the memory was not requested with TN_REQUEST_SHAREABLE");
    const file_id id = {facts.st_dev, facts.st_ino};
    memcpy(out->id, &id, sizeof(id));
    out->bytes = (uint64_t)facts.st_size;
    out->file = fcntl(file, F_DUPFD_CLOEXEC, 0);
    if (out->file < 0) return reference_error(self, TN_E_IO, "reference: no second descriptor of a file");
    return TN_OK;
}

static int32_t import_memory(void *self, void *device, const tn_process_handle *handle, tn_memory *out)
{
    struct stat facts;
    file_id id;
    char *made;
    memcpy(&id, handle->id, sizeof(id));
    if (handle->file < 0 || fstat(handle->file, &facts))
        return reference_error(self, TN_E_ARGUMENT, "reference: the file descriptor %d is not open",
                               handle->file);
    if (facts.st_dev != id.device || facts.st_ino != id.inode)
        return reference_error(self, TN_E_ARGUMENT, "reference: the file descriptor %d is of another file",
                               handle->file);
    if (!handle->bytes || handle->bytes > (uint64_t)facts.st_size)
        return reference_error(self, TN_E_ARGUMENT, "reference: the file has %lld bytes, not %llu",
                               (long long)facts.st_size, (unsigned long long)handle->bytes);
    int32_t status = reference_memory_open(device, handle->file, handle->bytes, &made);
    if (status) return status;
    out->kind = TN_MEMORY_DEVICE;
    out->allocation = made;
    out->address = (uint64_t)(uintptr_t)made;
    out->bytes = handle->bytes;
    return TN_OK;
}

static int32_t export_event(void *self, void *device, void *event, tn_process_handle *out)
{
    return reference_event_export(self, event, out);
}

static int32_t import_event(void *self, void *device, const tn_process_handle *handle, void **out_event)
{
    return reference_event_import(self, handle, out_event);
}

const tn_interop_interface reference_interop_interface = TN_INTERFACE(
    tn_interop_interface, .dlpack_device = dlpack_device, .wait_native = wait_native,
    .import_pointer = import_pointer, .release_memory = release_memory, .export_memory = export_memory,
    .import_memory = import_memory, .export_event = export_event, .import_event = import_event);
