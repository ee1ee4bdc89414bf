/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library of kernels for a device of another plugin, written against that vendor's own API: it knows no handle of
 * the plugin. It defines `native::scale` and `native::pair`, which only have rows for the device "reference", and
 * replaces the row of aten::cosh there until native::remove is called.
 */
#define TN_PLUGIN
#include "../plugins/slots.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/operator_library.h>
#include <tenon/ops.h>

/* ---- The vendor's API: what the reference device calls its context ---------------------------------------- */

/* Queues work on a stream; it runs when the work before it is done. */
typedef int32_t vendor_enqueue(void *stream, void (*work)(void *user), void *user);

typedef struct vendor {
    vendor_enqueue *const *enqueue;
    void *stream;
} vendor;

static int32_t find_vendor(const tn_call *call, vendor *out)
{
    uint64_t context = 0, stream = 0;
    int32_t status = call->host->native(call, TN_NATIVE_CONTEXT, NULL, &context);
    if (!status) status = call->host->native(call, TN_NATIVE_STREAM, NULL, &stream);
    out->enqueue = (vendor_enqueue *const *)(uintptr_t)context;
    out->stream = (void *)(uintptr_t)stream;
    return status;
}

/* The place of a tensor's first element in the vendor's terms. */
static int32_t find_data(const tn_call *call, const tn_tensor_desc *d, float **out)
{
    uint64_t allocation = 0;
    int32_t status = call->host->native(call, TN_NATIVE_ALLOCATION, d->allocation, &allocation);
    *out = (float *)(uintptr_t)(allocation + d->byte_offset);
    return status;
}

/* ---- Work that is queued ----------------------------------------------------------------------------------- */

typedef struct work {
    const float *from;
    float *to;
    int64_t count;
    float by;
    int32_t is_cosh;
} work;

static void run_work(void *user)
{
    work *w = user;
    for (int64_t i = 0; i < w->count; i++) w->to[i] = w->is_cosh ? w->by : w->from[i] * w->by;
    free(w);
}

static int64_t numel(const tn_tensor_desc *d)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < d->rank; i++) n *= d->sizes[i];
    return n;
}

static int32_t queue(const tn_call *call, float by, int32_t is_cosh)
{
    const tn_tensor_desc *in = tn_desc(call->args[0].as.tensor), *out = tn_desc(call->outs[0].as.tensor);
    work w = {.count = numel(out), .by = by, .is_cosh = is_cosh}, *copy;
    float *from = NULL;
    vendor v;
    int32_t status = find_vendor(call, &v);
    if (!status) status = find_data(call, in, &from);
    if (!status) status = find_data(call, out, &w.to);
    w.from = from;
    copy = status ? NULL : malloc(sizeof *copy);
    if (!copy) return status ? status : TN_E_OUT_OF_MEMORY;
    *copy = w;
    return (*v.enqueue)(v.stream, run_work, copy);
}

static int32_t run_scale(void *self, const tn_call *call)
{
    if (strcmp(call->name, "native::scale") || !call->op) return TN_E_INTERNAL;
    return queue(call, (float)tn_value_as_float(call->args[1]), 0);
}

/* A value that no cosh has, so that it shows which row has run. */
static int32_t run_cosh(void *self, const tn_call *call)
{
    return queue(call, -1, 1);
}

/* A kernel that calls operators: x * x + offset, with the offset from an argument that it takes in host memory. */
static int32_t run_pair(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *x = call->args[0].as.tensor;
    const tn_tensor_desc *offset = tn_desc(call->args[1].as.tensor);
    if (!s || !offset->host || tn_desc(x)->host) return TN_E_INTERNAL;
    tn_tensor *y = tn_add_scalar(s, tn_mul(s, x, x), (double)((const float *)offset->host)[0]);
    tn_copy_(s, call->outs[0].as.tensor, y);
    return tn_scope_failed(s);
}

/* ---- Rows --------------------------------------------------------------------------------------------------- */

#define SCALE "native::scale(Tensor x, float by) -> Tensor"
#define PAIR  "native::pair(Tensor x, Tensor offset) -> Tensor"
static const tn_dtype floats[] = {TN_FLOAT32, 0};
static const tn_row_argument pair_arguments[] = {{.strides = TN_STRIDES_ANY, .dtypes = floats},
                                                 {.place = TN_PLACE_HOST, .dtypes = floats}};
static const tn_kernel_row rows[] = {
    {.size = sizeof(tn_kernel_row), .schema = SCALE, .dtypes = floats, .run = run_scale},
    {.size = sizeof(tn_kernel_row),
     .flags = TN_ROW_SCOPE,
     .schema = PAIR,
     .dtypes = floats,
     .run = run_pair,
     .n_arguments = 2,
     .arguments = pair_arguments}};
static const tn_kernel_row cosh_rows[] = {{.size = sizeof(tn_kernel_row),
                                           .priority = 100,
                                           .schema = "aten::cosh(Tensor self) -> Tensor",
                                           .dtypes = floats,
                                           .run = run_cosh}};

/* native::remove(Tensor x) -> Tensor gives x back and takes the row of cosh away. */
static int32_t remove_rows(void *self, const tn_call *call)
{
    const tn_host *host = self;
    int32_t status = host->unregister_kernels(host->context, "reference", cosh_rows);
    return status ? status : call->host->set_output(call, 0, call->args[0].as.tensor);
}

static int32_t init(const tn_host *host, void **out_self)
{
    const tn_operator_def scale = {.size = sizeof scale, .schema = SCALE, .infer = slot_infer_like_first},
                          pair = {.size = sizeof pair, .schema = PAIR, .infer = slot_infer_like_first},
                          removal = {.size = sizeof removal,
                                     .schema = "native::remove(Tensor x) -> Tensor",
                                     .composite = remove_rows,
                                     .self = (void *)(uintptr_t)host};
    int32_t status = host->register_operator(host->context, &scale);
    if (!status) status = host->register_operator(host->context, &pair);
    if (!status) status = host->register_operator(host->context, &removal);
    if (!status)
        status = host->register_kernels(host->context, "reference", (void *)(uintptr_t)host, rows, 2,
                                        sizeof *rows);
    if (!status)
        status = host->register_kernels(host->context, "reference", (void *)(uintptr_t)host, cosh_rows, 1,
                                        sizeof *cosh_rows);
    *out_self = (void *)(uintptr_t)host;
    return status;
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    return tn_operators_entry(offer, out, init);
}

TN_DEFINE_PLUGIN("native", "1.0", "Tests", 0, entry);
