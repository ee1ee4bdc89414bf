/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel call for a stream's thread. Everything in a call is borrowed until the kernel returns, so it is
 * copied deeply: values, lists, strings, descriptors, the nest and the bytes of host operands. In the copy
 * `host` is the private address of the device's memory, and ranges are checked when it is looked up.
 */
#include "reference.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct work {
    reference_task task;
    reference_device *device;
    const reference_kernel *kernel;
    int32_t status; /* the first error while copying */
    int32_t reserved;
    tn_call call;
} work;

int32_t reference_fail(reference_failure *failure, int32_t status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(failure->text, sizeof(failure->text), format, list);
    va_end(list);
    return status;
}

/* ---- Copying ----------------------------------------------------------------------------------------- */

static void fail(work *w, int32_t status, const char *text)
{
    if (!w->status) w->status = reference_error(w->device->state, status, "%s: %s", w->kernel->name, text);
}

/* Memory of the task with a copy of `bytes` from `from`; NULL after a failure. */
static void *copy_bytes(work *w, const void *from, uint64_t bytes)
{
    void *memory = w->status ? NULL : reference_task_memory(&w->task, bytes);
    if (!memory)
        fail(w, TN_E_OUT_OF_MEMORY, "no host memory to queue the call");
    else if (bytes)
        memcpy(memory, from, bytes);
    return memory;
}

/* Bytes from the first element to the end of the last one; 0 for an empty tensor. */
static uint64_t extent(uint32_t rank, const int64_t *sizes, const int64_t *strides, int64_t unit,
                       int64_t bytes)
{
    int64_t last = 0;
    for (uint32_t d = 0; d < rank; d++) {
        if (sizes[d] == 0) return 0;
        last += (sizes[d] - 1) * strides[d] * unit;
    }
    return (uint64_t)(last + bytes);
}

static void *resolve(work *w, const void *allocation, uint64_t offset, uint64_t bytes)
{
    void *data = bytes && !w->status ? reference_resolve(w->device, allocation, offset, bytes) : NULL;
    if (bytes && !data && !w->status) w->status = TN_E_CONTRACT;
    return data;
}

static tn_tensor *copy_tensor(work *w, const tn_tensor *t)
{
    const tn_tensor_desc *from = tn_desc(t);
    tn_tensor_desc *to = copy_bytes(w, from, sizeof(*from));
    if (!to) return NULL;
    int64_t bytes = tn_dtype_bytes(from->dtype);
    to->sizes = copy_bytes(w, from->sizes, from->rank * sizeof(int64_t));
    to->strides = copy_bytes(w, from->strides, from->rank * sizeof(int64_t));
    if (from->host && from->rank == 0)
        to->host = copy_bytes(w, from->host, (uint64_t)bytes);
    else if (from->host)
        fail(w, TN_E_CONTRACT, "a tensor in host memory has dimensions");
    else
        to->host = resolve(w, from->allocation, from->byte_offset,
                           extent(from->rank, from->sizes, from->strides, bytes, bytes));
    return (tn_tensor *)(void *)to;
}

static tn_tensor *const *copy_tensors(work *w, tn_tensor *const *from, uint32_t count)
{
    tn_tensor **to = copy_bytes(w, (const void *)from, count * sizeof(*from));
    for (uint32_t i = 0; to && i < count; i++)
        if (from[i]) to[i] = copy_tensor(w, from[i]);
    return to;
}

static tn_value *copy_values(work *w, const tn_value *from, uint32_t count);

static const char *const *copy_strings(work *w, const char *const *from, uint32_t count)
{
    const char **to = copy_bytes(w, (const void *)from, count * sizeof(*from));
    for (uint32_t i = 0; to && i < count; i++) to[i] = copy_bytes(w, from[i], strlen(from[i]) + 1);
    return to;
}

static tn_value copy_value(work *w, tn_value v)
{
    switch (v.tag) {
    case TN_TAG_TENSOR:
        v.as.tensor = copy_tensor(w, v.as.tensor);
        break;
    case TN_TAG_TENSORS:
        v.as.tensors = copy_tensors(w, v.as.tensors, v.count);
        break;
    case TN_TAG_COMPLEX:
        v.as.floats = copy_bytes(w, v.as.floats, 2 * sizeof(double));
        break;
    case TN_TAG_STRING:
        v.as.string = copy_bytes(w, v.as.string, (uint64_t)v.count + 1);
        break;
    case TN_TAG_INTS:
        v.as.ints = copy_bytes(w, v.as.ints, v.count * sizeof(int64_t));
        break;
    case TN_TAG_FLOATS:
        v.as.floats = copy_bytes(w, v.as.floats, v.count * sizeof(double));
        break;
    case TN_TAG_BOOLS:
        v.as.bools = copy_bytes(w, v.as.bools, v.count);
        break;
    case TN_TAG_SCALARS:
        v.as.values = copy_values(w, v.as.values, v.count);
        break;
    case TN_TAG_STRINGS:
        v.as.strings = copy_strings(w, v.as.strings, v.count);
        break;
    default:
        break;
    }
    return v;
}

static tn_value *copy_values(work *w, const tn_value *from, uint32_t count)
{
    tn_value *to = copy_bytes(w, from, count * sizeof(*from));
    for (uint32_t i = 0; to && i < count; i++) to[i] = copy_value(w, from[i]);
    return to;
}

static void copy_operand(work *w, const tn_nest *nest, const tn_operand *from, tn_operand *to)
{
    int64_t bytes = tn_dtype_bytes(from->dtype);
    *to = *from;
    to->strides = copy_bytes(w, from->strides, nest->rank * sizeof(int64_t));
    if (from->flags & TN_OPERAND_IMMEDIATE)
        to->host = copy_bytes(w, from->host, (uint64_t)bytes);
    else
        to->host = resolve(w, from->allocation, from->byte_offset,
                           extent(nest->rank, nest->sizes, from->strides, 1, bytes));
}

static const tn_nest *copy_nest(work *w, const tn_nest *from)
{
    tn_nest *to = from ? copy_bytes(w, from, sizeof(*from)) : NULL;
    if (!to) return NULL;
    to->sizes = copy_bytes(w, from->sizes, from->rank * sizeof(int64_t));
    tn_operand *operands =
        w->status ? NULL : reference_task_memory(&w->task, from->n_operands * sizeof(*operands));
    if (!operands) {
        fail(w, TN_E_OUT_OF_MEMORY, "no host memory to queue the call");
        return NULL;
    }
    to->operands = operands;
    to->operand_bytes = sizeof(*operands);
    for (uint32_t i = 0; i < from->n_operands; i++) {
        const char *operand = (const char *)from->operands + (size_t)i * from->operand_bytes;
        copy_operand(w, from, (const tn_operand *)(const void *)operand, &operands[i]);
    }
    return to;
}

/* ---- Running ----------------------------------------------------------------------------------------- */

static void run_work(reference_stream *stream, reference_task *task)
{
    const work *w = (const work *)task;
    reference_failure failure = {""};
    char text[sizeof(failure.text) + 64];
    int32_t status = w->kernel->run(&w->call, w->kernel->opcode, &failure);
    if (!status) return;
    snprintf(text, sizeof(text), "%s: %s", w->kernel->name, failure.text);
    reference_stream_fail(stream, status, text);
}

reference_task *reference_work_create(reference_device *device, const tn_call *call,
                                      const reference_kernel *kernel, int32_t *out_status)
{
    work *w = reference_task_create(sizeof(*w), run_work);
    if (!w) {
        *out_status = reference_error(device->state, TN_E_OUT_OF_MEMORY,
                                      "%s: no host memory to queue the call", kernel->name);
        return NULL;
    }
    w->device = device;
    w->kernel = kernel;
    w->call = (tn_call){.size = sizeof(w->call),
                        .flags = call->flags,
                        .n_args = call->n_args,
                        .n_outs = call->n_outs,
                        .args = copy_values(w, call->args, call->n_args),
                        .outs = copy_values(w, call->outs, call->n_outs)};
    w->call.nest = copy_nest(w, call->nest);
    if (kernel->needs_nest && !call->nest) fail(w, TN_E_CONTRACT, "came without a nest");
    if (!w->status) return &w->task;
    *out_status = w->status;
    reference_task_destroy(&w->task);
    return NULL;
}

const reference_kernel *reference_work_kernel(const reference_task *task)
{
    return task->run == run_work ? ((const work *)task)->kernel : NULL;
}

const tn_call *reference_work_call(const reference_task *task)
{
    return &((const work *)task)->call;
}

int32_t reference_enqueue(void *self, const tn_call *call)
{
    int32_t status = TN_OK;
    reference_task *task = reference_work_create(call->device, call, call->data, &status);
    return task ? reference_stream_push(call->stream, task) : status;
}
