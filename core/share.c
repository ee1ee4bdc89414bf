/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that several processes share. On devices that run work at once it is a sealed file in memory, which nobody can
 * shrink below the mappings of others; elsewhere the plugin gives it (tenon.interop). A storage of such memory is known
 * by its deleter.
 */
#include <tenon/interop.h>
#include <tenon/op_numbers.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/allocator.h"
#include "core/debug.h"
#include "core/scope.h"
#include "core/shape.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* What a shared storage holds. */
typedef struct shared {
    tni_device *device;
    tn_memory memory;
    tni_block *block; /* that was asked for here, of other devices; or NULL */
    int32_t file;     /* of a device that runs work at once, else -1 */
    int32_t imported; /* from another process */
} shared;

/* ---- Files in memory ----------------------------------------------------------------------------------- */

/* By which the other side sees that it got the right file. */
typedef struct file_id {
    uint64_t device;
    uint64_t inode;
} file_id;

static int32_t file_error(const char *what)
{
    return tni_error(TN_E_IO, "memory of several processes: %s: %s", what, strerror(errno));
}

static int32_t map_file(shared *m, uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->file, 0);
    if (at == MAP_FAILED) return file_error("mmap");
    m->memory = (tn_memory){.size = sizeof m->memory,
                            .kind = TN_MEMORY_HOST,
                            .allocation = at,
                            .host = at,
                            .address = (uint64_t)(uintptr_t)at,
                            .bytes = bytes};
    return TN_OK;
}

static int32_t make_file(shared *m, uint64_t bytes)
{
    m->file = memfd_create("tenon-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (m->file < 0) return file_error("memfd_create");
    if (ftruncate(m->file, (off_t)bytes)) return file_error("ftruncate");
    if (fcntl(m->file, F_ADD_SEALS, SEALS)) return file_error("sealing the file");
    return map_file(m, bytes);
}

static int32_t open_file(shared *m, const tn_process_handle *handle)
{
    struct stat facts;
    file_id id;
    memcpy(&id, handle->id, sizeof id);
    m->file = handle->file < 0 ? -1 : fcntl(handle->file, F_DUPFD_CLOEXEC, 0);
    if (m->file < 0 || fstat(m->file, &facts))
        return tni_error(TN_E_ARGUMENT, "memory of another process: the file descriptor %d is not open",
                         handle->file);
    if (facts.st_dev != id.device || facts.st_ino != id.inode)
        return tni_error(TN_E_ARGUMENT,
                         "memory of another process: the file descriptor %d is of another file",
                         handle->file);
    if (handle->bytes > INT64_MAX || facts.st_size < (off_t)handle->bytes)
        return tni_error(TN_E_ARGUMENT, "memory of another process: the file has %lld bytes, not %llu",
                         (long long)facts.st_size, (unsigned long long)handle->bytes);
    int seals = fcntl(m->file, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return tni_error(TN_E_ARGUMENT,
                         "memory of another process: the file may be cut (it lacks F_SEAL_SHRINK)");
    return map_file(m, handle->bytes);
}

/* ---- Storages ------------------------------------------------------------------------------------------ */

static void destroy_shared(shared *m)
{
    const tni_driver *driver = &m->device->type->driver;
    if (m->device->synchronous && m->memory.host) munmap(m->memory.host, m->memory.bytes);
    if (m->file >= 0) close(m->file);
    if (!m->device->synchronous && m->memory.allocation && m->imported)
        driver->interop.release_memory(driver->self, m->device->handle, &m->memory);
    tni_block_free(m->block);
    tni_free(m->device->ctx, m, sizeof *m);
}

/* The deleter of shared storages: work on any stream may still use the memory. */
static void release_shared(void *user)
{
    shared *m = user;
    if (!m->device->synchronous)
        tni_late_keep(m->device, tni_device_wait(m->device), "waiting to release memory");
    destroy_shared(m);
}

static shared *shared_of(const tn_tensor *t)
{
    return t->storage->deleter == release_shared ? t->storage->deleter_user : NULL;
}

static int32_t can_share(const tni_device *d)
{
    const tn_interop_interface *i = &d->type->driver.interop;
    return d->synchronous || (i->size && i->export_memory && i->import_memory && i->release_memory);
}

static int32_t refuse_device(const tni_device *d)
{
    return tni_error(TN_E_UNSUPPORTED, "plugin %s has no memory that processes can share",
                     d->type->driver.plugin);
}

static int32_t import(shared *m, const tn_process_handle *handle)
{
    const tni_driver *driver = &m->device->type->driver;
    m->imported = 1;
    if (m->device->synchronous) return open_file(m, handle);
    m->memory.size = sizeof m->memory;
    int32_t status = driver->interop.import_memory(driver->self, m->device->handle, handle, &m->memory);
    if (status) return tni_driver_error(m->device->type, status, "opening memory of another process");
    return tni_memory_check(m->device, "interop.import_memory", &m->memory, handle->bytes);
}

/* A storage of new memory of so many bytes, or of that of a handle. */
static int32_t make_storage(tni_device *d, uint64_t bytes, const tn_process_handle *handle, tni_storage **out)
{
    if (!can_share(d)) return refuse_device(d);
    shared *m = tni_alloc_zeroed(d->ctx, sizeof *m);
    if (!m) return TN_E_OUT_OF_MEMORY;
    m->device = d;
    m->file = -1;
    int32_t status = handle           ? import(m, handle)
                     : d->synchronous ? make_file(m, bytes)
                                      : tni_block_alloc_shareable(d, bytes, &m->block, &m->memory);
    if (!status) status = tni_storage_wrap_memory(d, &m->memory, bytes, release_shared, m, out);
    if (status) destroy_shared(m);
    return status;
}

/* ---- Tensors ------------------------------------------------------------------------------------------- */

/* An empty tensor has a byte of memory, too. */
static uint64_t storage_bytes(const tn_tensor *t)
{
    uint64_t bytes = (uint64_t)(t->numel * tn_dtype_bytes(t->desc.dtype));
    return bytes ? bytes : 1;
}

static int32_t check_shareable(const tn_tensor *t)
{
    int32_t status = tni_tensor_check(t);
    if (status) return status;
    if (!t->storage->device) return tni_error(TN_E_DEVICE, "tn_share: a meta tensor has no memory");
    if (tni_dtype_index(t->desc.dtype) < 0)
        return tni_error(TN_E_DTYPE, "tn_share: the dtype 0x%x has no meaning in another process",
                         t->desc.dtype);
    return TN_OK;
}

static int32_t share(tn_scope *s, tn_tensor *t, tn_tensor **out)
{
    tni_storage *storage;
    int32_t status = check_shareable(t);
    if (status) return status;
    if (shared_of(t)) {
        *out = tn_retain(t);
        return TN_OK;
    }
    status = make_storage(t->storage->device, storage_bytes(t), NULL, &storage);
    if (status) return status;
    status = tni_tensor_on(storage, t->desc.dtype, t->desc.rank, t->desc.sizes, NULL, 0, out);
    if (status) tni_storage_release(storage);
    if (status || !t->numel) return status;
    tn_value args[] = {tn_value_tensor(*out), tn_value_tensor(t), tn_value_bool(0)}, outs[1];
    uint32_t mode = tni_tls.grad_mode;
    tni_tls.grad_mode = TN_GRAD_OFF;
    status = t->ctx->host.scope_call(s, TN_OP_COPY_, args, 3, outs, 1);
    tni_tls.grad_mode = mode;
    return status;
}

tn_tensor *tn_share(tn_scope *s, tn_tensor *t)
{
    tn_tensor *out = NULL;
    if (tn_scope_failed(s)) return NULL;
    int32_t status = share(s, t, &out);
    if (!status && s->ctx->flags & TNI_CONTEXT_LEAKS) tni_debug_made(out, "tn_share");
    if (!status) return tni_scope_own(s, out);
    tn_release(out);
    tni_scope_record(s, status);
    return NULL;
}

static int32_t export_memory(const shared *m, tn_process_handle *out)
{
    const tni_driver *driver = &m->device->type->driver;
    struct stat facts;
    *out = (tn_process_handle){.size = sizeof *out, .file = -1, .bytes = m->memory.bytes};
    if (!m->device->synchronous) {
        int32_t status =
            driver->interop.export_memory(driver->self, m->device->handle, m->memory.allocation, out);
        return status ? tni_driver_error(m->device->type, status, "sharing memory") : TN_OK;
    }
    if (fstat(m->file, &facts)) return file_error("fstat");
    const file_id id = {facts.st_dev, facts.st_ino};
    memcpy(out->id, &id, sizeof id);
    out->file = fcntl(m->file, F_DUPFD_CLOEXEC, 0);
    return out->file < 0 ? file_error("a second file descriptor") : TN_OK;
}

/* `waits`: for the tensor's stream. */
static int32_t export_tensor(tn_tensor *t, int32_t waits, tn_shared_tensor *out)
{
    int32_t status = check_shareable(t);
    if (status) return status;
    const shared *m = shared_of(t);
    if (!m)
        return tni_error(TN_E_STATE,
                         "tn_share_export: the tensor's memory cannot be shared; tn_share makes a copy");
    if (m->imported)
        return tni_error(TN_E_STATE, "tn_share_export: the memory is of another process, which exports it");
    if (waits && !m->device->synchronous) status = tn_stream_synchronize(tni_current_stream(m->device));
    if (status) return status;
    *out = (tn_shared_tensor){.size = sizeof *out,
                              .dtype = t->desc.dtype,
                              .rank = t->desc.rank,
                              .device_index = TN_DEVICE_INDEX(t->desc.device),
                              .storage_offset = (uint64_t)t->offset};
    snprintf(out->device_type, sizeof out->device_type, "%s", m->device->type->driver.device.type);
    memcpy(out->sizes, t->desc.sizes, t->desc.rank * sizeof *out->sizes);
    memcpy(out->strides, t->desc.strides, t->desc.rank * sizeof *out->strides);
    return export_memory(m, &out->memory);
}

int32_t tn_share_export(tn_tensor *t, tn_shared_tensor *out)
{
    tn_shared_tensor known;
    int32_t status = export_tensor(t, 1, &known);
    return status ? status : tni_struct_write(out, &known, sizeof known, "tn_shared_tensor");
}

/* What another process says of a tensor; its elements lie within the memory that it says. */
static int32_t check_shared(const tn_shared_tensor *t)
{
    int64_t extent, bytes;
    if (tni_dtype_index(t->dtype) < 0)
        return tni_error(TN_E_DTYPE, "a tensor of another process: there is no dtype 0x%x", t->dtype);
    if (t->rank > TN_MAX_RANK || !memchr(t->device_type, 0, sizeof t->device_type))
        return tni_error(TN_E_ARGUMENT, "a tensor of another process: its description is damaged");
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->sizes[i] < 0 || t->strides[i] < 0)
            return tni_error(TN_E_SHAPE,
                             "a tensor of another process: negative size or stride of dimension %u", i);
    }
    int32_t status = tni_storage_extent(t->rank, t->sizes, t->strides, &extent);
    if (status) return status;
    if (t->storage_offset > INT64_MAX ||
        __builtin_add_overflow(extent, (int64_t)t->storage_offset, &extent) ||
        __builtin_mul_overflow(extent, tn_dtype_bytes(t->dtype), &bytes) || (uint64_t)bytes > t->memory.bytes)
        return tni_error(TN_E_ARGUMENT, "a tensor of another process: its elements do not fit in %llu bytes",
                         (unsigned long long)t->memory.bytes);
    return TN_OK;
}

static int32_t import_tensor(tn_context *ctx, const tn_shared_tensor *t, tn_tensor **out)
{
    tni_storage *storage;
    int32_t status = check_shared(t);
    if (status) return status;
    tni_device *d = tni_device_get(ctx, TN_DEVICE(tn_intern(ctx, t->device_type), t->device_index));
    if (!d) return tn_last_error()->code;
    status = make_storage(d, t->memory.bytes, &t->memory, &storage);
    if (status) return status;
    status = tni_tensor_on(storage, t->dtype, t->rank, t->sizes, t->strides, (int64_t)t->storage_offset, out);
    if (status) tni_storage_release(storage);
    return status;
}

static tn_tensor *give(tn_scope *s, int32_t status, tn_tensor *t, const char *maker)
{
    if (!status && s->ctx->flags & TNI_CONTEXT_LEAKS) tni_debug_made(t, maker);
    if (!status) return tni_scope_own(s, t);
    tni_scope_record(s, status);
    return NULL;
}

tn_tensor *tn_share_import(tn_scope *s, const tn_shared_tensor *shared_tensor)
{
    tn_shared_tensor known;
    tn_tensor *t = NULL;
    if (tn_scope_failed(s)) return NULL;
    int32_t status = tni_struct_read(&known, sizeof known, shared_tensor, "tn_shared_tensor");
    if (!status) status = import_tensor(s->ctx, &known, &t);
    return give(s, status, t, "tn_share_import");
}

/* ---- Sockets ------------------------------------------------------------------------------------------- */

#define MAGIC      "TNSHARE"
#define MOST_FILES 2

/* Both sides are of one machine; other versions of the library have other lengths. */
typedef struct message {
    char magic[8];
    uint32_t bytes;
    uint32_t has_event;
    tn_shared_tensor tensor;
    tn_process_handle event;
} message;

typedef union control {
    struct cmsghdr header; /* for its alignment */
    char room[CMSG_SPACE(MOST_FILES * sizeof(int))];
} control;

static int32_t socket_error(const char *what)
{
    return tni_error(TN_E_IO, "%s: %s", what, strerror(errno));
}

static int32_t send_message(int32_t socket, const message *m, const int *files, uint32_t n_files)
{
    control c;
    uint64_t sent = 0;
    memset(&c, 0, sizeof c);
    while (sent < sizeof *m) {
        struct iovec rest = {(char *)(uintptr_t)m + sent, sizeof *m - sent};
        struct msghdr header = {.msg_iov = &rest, .msg_iovlen = 1};
        if (!sent && n_files) { /* the files go with the first byte */
            header.msg_control = &c;
            header.msg_controllen = CMSG_SPACE(n_files * sizeof(int));
            *CMSG_FIRSTHDR(&header) = (struct cmsghdr){.cmsg_len = CMSG_LEN(n_files * sizeof(int)),
                                                       .cmsg_level = SOL_SOCKET,
                                                       .cmsg_type = SCM_RIGHTS};
            memcpy(CMSG_DATA(CMSG_FIRSTHDR(&header)), files, n_files * sizeof(int));
        }
        ssize_t n = sendmsg(socket, &header, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return socket_error("tn_share_send: the socket");
        sent += (uint64_t)n;
    }
    return TN_OK;
}

static int32_t take_event(tn_tensor *t, tn_event *event, message *m)
{
    if (!event) return TN_OK;
    if (event->device != t->storage->device)
        return tni_error(TN_E_DEVICE, "tn_share_send: the event is of another device than the tensor");
    m->has_event = 1;
    m->event.size = sizeof m->event;
    return tn_event_export(event, &m->event);
}

int32_t tn_share_send(int32_t socket, tn_tensor *t, tn_event *event)
{
    message m = {
        .magic = MAGIC, .bytes = sizeof m, .tensor = {.memory = {.file = -1}}, .event = {.file = -1}};
    int files[MOST_FILES];
    uint32_t n_files = 0;
    int32_t status = export_tensor(t, !event, &m.tensor);
    if (!status) status = take_event(t, event, &m);
    if (!status && m.tensor.memory.file >= 0) files[n_files++] = m.tensor.memory.file;
    if (!status && m.event.file >= 0) files[n_files++] = m.event.file;
    if (!status) status = send_message(socket, &m, files, n_files);
    if (m.tensor.memory.file >= 0) close(m.tensor.memory.file);
    if (m.event.file >= 0) close(m.event.file);
    return status;
}

/* Adds the files of a received part to the list; those for which there is no room are closed. */
static void take_files(struct msghdr *header, int *files, uint32_t *n_files)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        uint64_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (uint64_t i = 0; i < count; i++) {
            int file;
            memcpy(&file, CMSG_DATA(c) + i * sizeof file, sizeof file);
            if (*n_files < MOST_FILES)
                files[(*n_files)++] = file;
            else
                close(file);
        }
    }
}

static int32_t receive_message(int32_t socket, message *m, int *files, uint32_t *n_files)
{
    uint64_t got = 0;
    while (got < sizeof *m) {
        control c;
        struct iovec rest = {(char *)m + got, sizeof *m - got};
        struct msghdr header = {
            .msg_iov = &rest, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c.room};
        ssize_t n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return socket_error("tn_share_receive: the socket");
        if (!n) return tni_error(TN_E_IO, "tn_share_receive: the other side has closed the socket");
        take_files(&header, files, n_files);
        got += (uint64_t)n;
        if (got >= sizeof m->magic + sizeof m->bytes &&
            (memcmp(m->magic, MAGIC, sizeof m->magic) || m->bytes != sizeof *m))
            return tni_error(TN_E_VERSION,
                             "tn_share_receive: what came is not a tensor of this version of the library");
    }
    return TN_OK;
}

/* The description has room for the number of the file in the process that sent it. */
static int32_t place_files(message *m, const int *files, uint32_t n_files)
{
    uint32_t used = 0;
    if (m->tensor.memory.file >= 0) m->tensor.memory.file = used < n_files ? files[used++] : -1;
    if (m->has_event && m->event.file >= 0) m->event.file = used < n_files ? files[used++] : -1;
    return used == n_files ? TN_OK
                           : tni_error(TN_E_IO, "tn_share_receive: %u files came, not %u", n_files, used);
}

/* The event that came along: for the caller, or waited for here. */
static int32_t receive_event(tn_context *ctx, tn_device device, const message *m, tn_event **out)
{
    tn_event *event = NULL;
    int32_t status = m->has_event ? tn_event_import(ctx, device, &m->event, &event) : TN_OK;
    if (!status && event && !out) status = tn_event_synchronize(event);
    if (!status && out)
        *out = event;
    else
        tn_event_release(event);
    return status;
}

tn_tensor *tn_share_receive(tn_scope *s, int32_t socket, tn_event **out_event)
{
    message m;
    int files[MOST_FILES];
    uint32_t n_files = 0;
    tn_tensor *t = NULL;
    if (tn_scope_failed(s)) return NULL;
    int32_t status = receive_message(socket, &m, files, &n_files);
    if (!status) status = place_files(&m, files, n_files);
    if (!status) status = import_tensor(s->ctx, &m.tensor, &t);
    if (!status && (status = receive_event(s->ctx, t->desc.device, &m, out_event))) tn_release(t);
    for (uint32_t i = 0; i < n_files; i++) close(files[i]);
    return give(s, status, t, "tn_share_receive");
}
