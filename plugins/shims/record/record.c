/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record: writes every call of the host to the plugins into the file that TENON_RECORD names, with the bytes
 * that kernels read and wrote, for `tenon replay`. Each kernel is waited for, so that its record is complete:
 * a recorded program is slow and has no races. The format is in docs/record-format.md.
 */
#include "record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* ---- The file ---------------------------------------------------------------------------------------- */

static int32_t record_configure(shim *s, const char *setting)
{
    const uint32_t head[2] = {RECORD_VERSION, 0};
    record_file *f = calloc(1, sizeof(*f));
    if (!f) return shim_error(s->host, TN_E_OUT_OF_MEMORY, "record: out of memory");
    s->state = f;
    pthread_mutex_init(&f->lock, NULL);
    f->file = fopen(setting, "ae");
    if (!f->file)
        return shim_error(s->host, TN_E_IO, "record: cannot write %s: %s", setting, strerror(errno));
    if (flock(fileno(f->file), LOCK_EX | LOCK_NB))
        return shim_error(s->host, TN_E_STATE, "record: another context is recording to %s", setting);
    if (ftruncate(fileno(f->file), 0) || fwrite(RECORD_MAGIC, 8, 1, f->file) != 1 ||
        fwrite(head, sizeof(head), 1, f->file) != 1)
        return shim_error(s->host, TN_E_IO, "record: cannot write %s: %s", setting, strerror(errno));
    return TN_OK;
}

static void record_finish(shim *s)
{
    record_file *f = s->state;
    record_buffer end = {0};
    if (!f) return;
    if (f->file) {
        record_u64(&end, f->records);
        record_write(f, RECORD_END, &end);
        if (fclose(f->file) || f->failed)
            if (s->host->log)
                s->host->log(s->host->context, TN_LOG_ERROR,
                             "record: the file is incomplete: writing failed");
    }
    pthread_mutex_destroy(&f->lock);
    free(f->blobs);
    free(f);
    s->state = NULL;
}

static int32_t record_attach(shim_plugin *w)
{
    record_file *f = w->shim->state;
    record_plugin *p = calloc(1, sizeof(*p));
    record_buffer b = {0};
    if (!f || !p) {
        free(p);
        return shim_error(w->outer, TN_E_OUT_OF_MEMORY, "record: no file, or out of memory");
    }
    pthread_mutex_init(&p->lock, NULL);
    w->tool = p;
    p->index = f->plugins++;
    record_u32(&b, p->index);
    record_text(&b, w->info->name);
    record_text(&b, w->info->version);
    record_write(f, RECORD_PLUGIN, &b);
    return TN_OK;
}

static void record_detach(shim_plugin *w)
{
    record_plugin *p = w->tool;
    if (!p) return;
    pthread_mutex_destroy(&p->lock);
    free(p->allocations);
    free(p);
}

/* ---- Devices ----------------------------------------------------------------------------------------- */

static void add_device(shim_call *c)
{
    record_file *f = c->plugin->shim->state;
    void *handle = *(void **)c->values[2].pointer; /* index, options, out_device */
    pthread_mutex_lock(&f->lock);
    if (f->n_devices < RECORD_DEVICES) f->devices[f->n_devices++] = (record_device){handle, c->plugin};
    pthread_mutex_unlock(&f->lock);
}

static void remove_device(const shim_call *c)
{
    record_file *f = c->plugin->shim->state;
    pthread_mutex_lock(&f->lock);
    for (uint32_t i = 0; i < f->n_devices; i++) {
        if (f->devices[i].plugin != c->plugin || f->devices[i].handle != c->values[0].pointer) continue;
        f->devices[i] = f->devices[--f->n_devices];
        break;
    }
    pthread_mutex_unlock(&f->lock);
}

/* Whether the row may be for the devices of this plugin. Two plugins may give the same handle. */
static int32_t is_for(const shim_row *row, const shim_plugin *w)
{
    if (row->device_type) return strcmp(row->device_type, w->inner.device.type) == 0;
    return w == row->plugin || !row->plugin->inner.device.size;
}

/* The plugin on whose device the kernel runs, or NULL. */
static const shim_plugin *find_owner(const shim_call *c)
{
    record_file *f = c->plugin->shim->state;
    const shim_plugin *found = NULL;
    pthread_mutex_lock(&f->lock);
    for (uint32_t i = 0; i < f->n_devices && !found; i++) {
        if (f->devices[i].handle == c->call->device && is_for(c->row, f->devices[i].plugin))
            found = f->devices[i].plugin;
    }
    pthread_mutex_unlock(&f->lock);
    return found;
}

/* ---- Kernels ----------------------------------------------------------------------------------------- */

static int32_t before_kernel(shim_call *c)
{
    const tn_call *call = c->call;
    record_kernel *note = calloc(1, sizeof(*note));
    if (!note) return shim_error(c->plugin->outer, TN_E_OUT_OF_MEMORY, "record: out of memory");
    c->note = note;
    note->owner = find_owner(c);
    int32_t status = note->owner
                         ? record_wait(c) /* a late error is this call's */
                         : shim_error(c->plugin->outer, TN_E_UNSUPPORTED,
                                      "record: the kernel of %s cannot be recorded: no plugin is known "
                                      "whose device it runs on",
                                      c->row->op);
    if (status) {
        free(note);
        c->note = NULL;
        return status;
    }
    record_buffer *b = &note->call;
    record_u32(b, call->flags);
    record_u32(b, (uint32_t)call->threads);
    record_u64(b, (uint64_t)(uintptr_t)call->device);
    record_u64(b, (uint64_t)(uintptr_t)call->stream);
    record_u32(b, call->n_args);
    for (uint32_t i = 0; i < call->n_args; i++) record_value(c, b, &call->args[i]);
    record_u32(b, call->n_outs);
    for (uint32_t i = 0; i < call->n_outs; i++) record_value(c, b, &call->outs[i]);
    record_nest(c, b, call->nest);
    return TN_OK;
}

static void after_kernel(shim_call *c)
{
    record_kernel *note = c->note;
    record_buffer b = {0};
    if (!note) return;
    const record_plugin *p = note->owner->tool;
    int32_t late = c->status == TN_OK ? record_wait(c) : TN_OK;
    if (late) c->status = late;
    record_u64(&b, c->number);
    record_u32(&b, p->index);
    record_u32(&b, (uint32_t)c->status);
    record_text(&b, c->row->op);
    record_bytes(&b, note->call.data, note->call.used);
    record_u32(&b, note->n_host_calls);
    record_bytes(&b, note->host_calls.data, note->host_calls.used);
    record_u32(&b, c->status == TN_OK ? c->call->n_outs : 0);
    for (uint32_t i = 0; c->status == TN_OK && i < c->call->n_outs; i++)
        record_value(c, &b, &c->call->outs[i]);
    b.failed |= note->call.failed | note->host_calls.failed;
    record_write(c->plugin->shim->state, RECORD_KERNEL, &b);
    free(note->call.data);
    free(note->host_calls.data);
    free(note);
}

/* Records a call that a kernel made of the host. */
static void after_host_call(const shim_call *c)
{
    const shim_call *kernel = shim_kernel_call(c->outer);
    record_kernel *note = kernel && kernel->id == SHIM_KERNEL_RUN ? kernel->note : NULL;
    const shim_value *v = c->values;
    if (!note || c->status) return;
    record_buffer *b = &note->host_calls;
    if (c->id == SHIM_HOST_WORKSPACE) {
        record_u32(b, RECORD_WORKSPACE);
        record_u64(b, 1);
        record_u64(b, v[4].number); /* call, kind, flags, alignment, bytes */
    } else if (c->id == SHIM_HOST_RESIZE_OUTPUT) {
        record_u32(b, RECORD_RESIZE_OUTPUT);
        record_u64(b, 1 + v[2].number);
        record_u64(b, v[1].number);
        record_bytes(b, v[3].pointer, v[2].number * sizeof(int64_t));
    } else if (c->id == SHIM_HOST_RANDOM_RESERVE) {
        record_u32(b, RECORD_RANDOM_RESERVE);
        record_u64(b, 3);
        record_u64(b, v[2].number);
        record_u64(b, *(const uint64_t *)v[3].pointer);
        record_u64(b, *(const uint64_t *)v[4].pointer);
    } else {
        return;
    }
    note->n_host_calls++;
}

/* ---- Other slots ------------------------------------------------------------------------------------- */

static int32_t is_copy(uint32_t id)
{
    return id == SHIM_COPY_HOST_TO_DEVICE || id == SHIM_COPY_DEVICE_TO_HOST;
}

/* The bytes of a copy between host and device: the source or, after a wait, the result. */
static uint64_t copied_bytes(shim_call *c)
{
    const shim_plugin *w = c->plugin;
    const shim_value *v = c->values; /* device, allocation, offset, host, pinned, bytes, stream */
    int32_t to_device = c->id == SHIM_COPY_HOST_TO_DEVICE;
    const void *host = to_device ? v[3].pointer : v[1].pointer;
    if (!to_device && (c->status = w->inner.stream.synchronize(w->self, v[0].pointer, v[6].pointer)) != TN_OK)
        return 0;
    return record_blob(w->shim->state, host, v[5].number);
}

static void put_argument(shim_call *c, record_buffer *b, uint32_t i, uint64_t blob)
{
    const shim_argument *a = &c->slot->arguments[i];
    const shim_value *v = &c->values[i];
    int32_t is_output = (a->notes & SHIM_OUT) != 0;
    uint64_t number = v->number;
    if (a->kind == SHIM_TEXT && !is_output) {
        record_u32(b, RECORD_TEXT);
        record_u32(b, 0);
        record_text(b, v->text);
        return;
    }
    if (is_output) number = 0;
    if (is_output && c->status == TN_OK && v->pointer && a->bytes <= 8) memcpy(&number, v->pointer, a->bytes);
    record_u32(b, a->kind == SHIM_HOST_MEMORY && is_copy(c->id) ? RECORD_BYTES : RECORD_NUMBER);
    record_u32(b, (uint32_t)is_output);
    record_u64(b, a->kind == SHIM_HOST_MEMORY && is_copy(c->id) ? blob : number);
}

/* Mappings have one argument more than in the header: the bytes that the program saw, or left. */
static int32_t is_view(const shim_call *c)
{
    return c->id == SHIM_MEMORY_MAP || c->id == SHIM_MEMORY_UNMAP;
}

static void put_view(shim_call *c, record_buffer *b)
{
    uint64_t blob = c->mark; /* of unmap */
    if (c->id == SHIM_MEMORY_MAP && c->status == TN_OK) {
        void *host = *(void **)c->values[5].pointer;
        record_mapped(c->plugin->tool, host, c->values[3].number);
        blob = record_blob(c->plugin->shim->state, host, c->values[3].number);
    }
    record_u32(b, RECORD_BYTES);
    record_u32(b, 0);
    record_u64(b, c->status == TN_OK ? blob : 0);
}

static void before_unmap(shim_call *c)
{
    uint64_t bytes = record_unmapped(c->plugin->tool, c->values[2].pointer);
    c->mark = bytes ? record_blob(c->plugin->shim->state, c->values[2].pointer, bytes) : 0;
}

static void after_slot(shim_call *c)
{
    record_plugin *p = c->plugin->tool;
    record_buffer b = {0};
    uint64_t blob = is_copy(c->id) && c->status == TN_OK ? copied_bytes(c) : 0;
    int32_t allocates =
        c->id == SHIM_MEMORY_ALLOC || c->id == SHIM_MEMORY_RESERVE || c->id == SHIM_ALLOCATOR_ALLOC;
    if (allocates && c->status == TN_OK) record_allocated(p, *(void **)c->values[7].pointer);
    record_u64(&b, c->number);
    record_u32(&b, p->index);
    record_u32(&b, (uint32_t)c->status);
    record_text(&b, c->slot->name);
    record_u32(&b, c->slot->n_arguments + (is_view(c) ? 1u : 0u));
    for (uint32_t i = 0; i < c->slot->n_arguments; i++) put_argument(c, &b, i, blob);
    if (is_view(c)) put_view(c, &b);
    record_write(c->plugin->shim->state, RECORD_CALL, &b);
}

/* A recording holds what each call did; a graph does its work later, and collectives work on several
 * devices. */
static int32_t refuse(const shim_call *c)
{
    return shim_error(c->plugin->outer, TN_E_UNSUPPORTED, "record: %s cannot be recorded",
                      c->id == SHIM_GRAPH_BEGIN          ? "graphs"
                      : c->id == SHIM_COLLECTIVES_CREATE ? "collectives"
                                                         : "what other libraries and processes own");
}

/* Others may change what it brings while the recording goes on. */
static int32_t imports(uint32_t id)
{
    return id == SHIM_INTEROP_IMPORT_POINTER || id == SHIM_INTEROP_IMPORT_MEMORY ||
           id == SHIM_INTEROP_IMPORT_EVENT;
}

static int32_t gives_back(uint32_t id)
{
    return id == SHIM_MEMORY_FREE || id == SHIM_ALLOCATOR_FREE;
}

static int32_t record_before(shim_call *c)
{
    if (c->id == SHIM_GRAPH_BEGIN || c->id == SHIM_COLLECTIVES_CREATE || imports(c->id)) return refuse(c);
    if (c->id == SHIM_KERNEL_RUN) return before_kernel(c);
    if (!c->plugin->tool) return TN_OK;
    if (c->id == SHIM_MEMORY_UNMAP) before_unmap(c);
    if (c->id == SHIM_DEVICE_CLOSE && c->plugin->shim->state) remove_device(c);
    if (!gives_back(c->id)) return TN_OK;
    record_freed(c->plugin->tool, c->values[2].pointer); /* device, kind, allocation */
    after_slot(c); /* before another thread can be given the same handle */
    return TN_OK;
}

static void record_after(shim_call *c)
{
    if (!c->plugin->tool || !c->plugin->shim->state) return;
    if (c->id == SHIM_DEVICE_OPEN && c->status == TN_OK) add_device(c);
    if (c->id == SHIM_KERNEL_RUN)
        after_kernel(c);
    else if (c->slot->of_host)
        after_host_call(c);
    else if (!c->definition && c->id != SHIM_KERNEL_CAN_RUN && c->id != SHIM_CALLBACK_RUN &&
             c->id != SHIM_PLUGIN_GET_INTERFACE && !gives_back(c->id) && c->id != SHIM_PLUGIN_INIT)
        after_slot(c);
}

SHIM_TOOL(record, .attach = record_attach, .detach = record_detach);
