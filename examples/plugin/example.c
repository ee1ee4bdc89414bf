/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device in one file: "example", which is host memory in disguise. It has the four required interfaces and
 * five kernel rows; everything else that a program asks of it runs on the CPU. It sees the installed header
 * and nothing else of Tenon.
 *
 * Read it from the bottom: the entry, the tables of functions, then the functions.
 */
#define TN_PLUGIN
#include <tenon/plugin.h>

#include <stdlib.h>
#include <string.h>

/* The state of one context. All that the plugin knows hangs from it; there are no globals. */
typedef struct example {
    const tn_host *host;
    int32_t device; /* its address is the handle of the one device */
    int32_t stream; /* its address is the handle of the one stream, which does everything at once */
} example;

static const tn_dtype computes_in[] = {TN_FLOAT32, 0};

static int32_t fail(const tn_host *host, int32_t code, const char *message)
{
    return host->error(host->context, code, message);
}

/* ---- Device ------------------------------------------------------------------------------------------- */

static int32_t enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    *out_count = 1;
    *out_reason = NULL;
    return TN_OK;
}

/* The host may be older or newer than this file: give it as many bytes as it knows, and keep its size. */
static int32_t facts(void *self, uint32_t index, tn_device_facts *out)
{
    tn_device_facts f = {
        .device_class = TN_DEVICE_VIRTUAL,
        .memory_kinds = TN_MEMORY_UNIFIED,
        .compute_units = 1,
        .alignment = 64,
        .dtypes = computes_in,
        .name = "Example device",
        .architecture = "host",
    };
    f.size = out->size;
    memcpy(out, &f, out->size < sizeof(f) ? out->size : sizeof(f));
    return TN_OK;
}

static int32_t device_open(void *self, uint32_t index, void **out_device)
{
    example *e = self;
    if (index != 0) return fail(e->host, TN_E_DEVICE, "example: there is one device, with index 0");
    *out_device = &e->device;
    return TN_OK;
}

static void device_close(void *self, void *device) {}

static int32_t device_synchronize(void *self, void *device)
{
    return TN_OK;
}

/* ---- Memory ------------------------------------------------------------------------------------------- */

/* The handle of an allocation is its address, and the host may use it. */
static int32_t memory_alloc(void *self, void *device, uint64_t bytes, uint32_t kind, void **out_allocation,
                            void **out_host)
{
    const example *e = self;
    void *memory = NULL;
    if (posix_memalign(&memory, 64, (size_t)bytes))
        return fail(e->host, TN_E_OUT_OF_MEMORY, "example: out of memory");
    *out_allocation = memory;
    *out_host = memory;
    return TN_OK;
}

static void memory_free(void *self, void *device, void *allocation, uint64_t bytes)
{
    free(allocation);
}

static int32_t memory_fill(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                           uint32_t value, void *stream)
{
    memset((char *)allocation + offset, (int)value, (size_t)bytes);
    return TN_OK;
}

static int32_t memory_info(void *self, void *device, uint64_t *out_free, uint64_t *out_total)
{
    *out_free = 0; /* unknown */
    *out_total = 0;
    return TN_OK;
}

/* ---- Copies ------------------------------------------------------------------------------------------- */

static int32_t host_to_device(void *self, void *device, void *allocation, uint64_t offset, const void *host,
                              uint64_t bytes, void *stream)
{
    memcpy((char *)allocation + offset, host, (size_t)bytes);
    return TN_OK;
}

static int32_t device_to_host(void *self, void *device, void *host, void *allocation, uint64_t offset,
                              uint64_t bytes, void *stream)
{
    memcpy(host, (const char *)allocation + offset, (size_t)bytes);
    return TN_OK;
}

static int32_t device_to_device(void *self, void *device, void *to, uint64_t to_offset, void *from,
                                uint64_t from_offset, uint64_t bytes, void *stream)
{
    memcpy((char *)to + to_offset, (const char *)from + from_offset, (size_t)bytes);
    return TN_OK;
}

/* ---- Streams ------------------------------------------------------------------------------------------ */

static int32_t stream_create(void *self, void *device, int32_t priority, void **out_stream)
{
    *out_stream = &((example *)self)->stream;
    return TN_OK;
}

static void stream_destroy(void *self, void *device, void *stream) {}

static int32_t stream_query(void *self, void *device, void *stream, int32_t *out_done)
{
    *out_done = 1;
    return TN_OK;
}

static int32_t stream_synchronize(void *self, void *device, void *stream)
{
    return TN_OK;
}

/* ---- Kernels ------------------------------------------------------------------------------------------ */

/* Steps `index`, dimension 0 fastest, through `sizes`; 0 when it has come round. */
static int next_index(uint32_t rank, const int64_t *sizes, int64_t *index)
{
    for (uint32_t d = 0; d < rank; d++) {
        if (++index[d] < sizes[d]) return 1;
        index[d] = 0;
    }
    return 0;
}

/* Distance of the element at `index`, in the unit of the strides. */
static int64_t distance(uint32_t rank, const int64_t *strides, const int64_t *index)
{
    int64_t sum = 0;
    for (uint32_t d = 0; d < rank; d++) sum += index[d] * strides[d];
    return sum;
}

/* Operands are stepped over by the size that the host gives, which may be larger than ours. */
static const tn_operand *operand(const tn_nest *nest, uint32_t i)
{
    return (const tn_operand *)(const void *)((const char *)nest->operands + (size_t)i * nest->operand_bytes);
}

static float *element(const tn_operand *o, uint32_t rank, const int64_t *index)
{
    return (float *)(void *)(o->host + distance(rank, o->strides, index));
}

/* prim::fill(Tensor(a!) self, Scalar value): what is written stands in outs; descriptors count in elements.
 */
static int32_t fill(void *self, const tn_call *call)
{
    const tn_tensor_desc *out = tn_desc(call->outs[0].as.tensor);
    float value = (float)tn_value_as_float(call->args[1]);
    int64_t index[TN_MAX_RANK] = {0};
    do ((float *)out->host)[distance(out->rank, out->strides, index)] = value;
    while (next_index(out->rank, out->sizes, index));
    return TN_OK;
}

/* The row takes one dtype on both sides; said before the call, so that the host can look elsewhere. */
static const char *copy_can_run(void *self, const tn_call *call)
{
    return tn_desc(call->args[1].as.tensor)->dtype == TN_FLOAT32 ? NULL : "the source is not float32";
}

/* prim::copy(Tensor(a!) self, Tensor src): src is broadcast, and its rank may be smaller. */
static int32_t copy(void *self, const tn_call *call)
{
    const tn_tensor_desc *out = tn_desc(call->outs[0].as.tensor), *in = tn_desc(call->args[1].as.tensor);
    int64_t index[TN_MAX_RANK] = {0}, strides[TN_MAX_RANK] = {0};
    for (uint32_t d = 0; d < in->rank; d++)
        strides[out->rank - in->rank + d] = in->sizes[d] == 1 ? 0 : in->strides[d];
    do
        ((float *)out->host)[distance(out->rank, out->strides, index)] =
            ((const float *)in->host)[distance(out->rank, strides, index)];
    while (next_index(out->rank, out->sizes, index));
    return TN_OK;
}

/* aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1): the nest is ready to be walked. */
static int32_t add(void *self, const tn_call *call)
{
    const tn_nest *nest = call->nest;
    float alpha = (float)tn_value_as_float(call->args[2]);
    int64_t index[TN_MAX_RANK] = {0};
    do
        *element(operand(nest, 0), nest->rank, index) = *element(operand(nest, 1), nest->rank, index) +
                                                        alpha * *element(operand(nest, 2), nest->rank, index);
    while (next_index(nest->rank, nest->sizes, index));
    return TN_OK;
}

static int32_t mul(void *self, const tn_call *call)
{
    const tn_nest *nest = call->nest;
    int64_t index[TN_MAX_RANK] = {0};
    do
        *element(operand(nest, 0), nest->rank, index) =
            *element(operand(nest, 1), nest->rank, index) * *element(operand(nest, 2), nest->rank, index);
    while (next_index(nest->rank, nest->sizes, index));
    return TN_OK;
}

/* sum(x, dtype=float64) of float32 has another dtype in the output than in the input. */
static const char *sum_can_run(void *self, const tn_call *call)
{
    return tn_desc(call->outs[0].as.tensor)->dtype == TN_FLOAT32 ? NULL : "the result is not float32";
}

/* The first `kept` dimensions of the nest are those of the result, the others are summed over. */
static int32_t sum(void *self, const tn_call *call)
{
    const tn_nest *nest = call->nest;
    uint32_t kept = nest->kept, reduced = nest->rank - nest->kept;
    int64_t index[TN_MAX_RANK] = {0};
    do {
        double total = 0;
        do total += *element(operand(nest, 1), nest->rank, index);
        while (next_index(reduced, nest->sizes + kept, index + kept));
        *element(operand(nest, 0), nest->rank, index) = (float)total;
    } while (next_index(kept, nest->sizes, index));
    return TN_OK;
}

#define ROW(text, function, check)                                                                       \
    {                                                                                                    \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_ANY, .schema = text, .dtypes = computes_in, \
        .run = function, .can_run = check                                                                \
    }
static const tn_kernel_row rows[] = {
    ROW(TN_SCHEMA_FILL, fill, NULL),
    ROW(TN_SCHEMA_COPY, copy, copy_can_run),
    ROW("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", add, NULL),
    ROW("aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", mul, NULL),
    ROW("aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", sum, sum_can_run),
    ROW("aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None)"
        " -> Tensor",
        sum, sum_can_run),
};

/* ---- Tables: what the host sees. A slot that is not named is absent, and the host's default serves. ---- */

static const tn_device_interface device_interface = {
    .size = sizeof(tn_device_interface),
    .type = "example",
    .enumerate = enumerate,
    .facts = facts,
    .open = device_open,
    .close = device_close,
    .synchronize = device_synchronize,
};
static const tn_memory_interface memory_interface = {
    .size = sizeof(tn_memory_interface),
    .alloc = memory_alloc,
    .free = memory_free,
    .fill = memory_fill,
    .info = memory_info,
};
static const tn_copy_interface copy_interface = {
    .size = sizeof(tn_copy_interface),
    .host_to_device = host_to_device,
    .device_to_host = device_to_host,
    .device_to_device = device_to_device,
};
static const tn_stream_interface stream_interface = {
    .size = sizeof(tn_stream_interface),
    .create = stream_create,
    .destroy = stream_destroy,
    .query = stream_query,
    .synchronize = stream_synchronize,
};
static const tn_kernels_interface kernels_interface = {
    .size = sizeof(tn_kernels_interface),
    .count = sizeof(rows) / sizeof(rows[0]),
    .row_bytes = sizeof(rows[0]),
    .rows = rows,
};

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    if (version != 1) return NULL;
    if (!strcmp(name, "tenon.device")) return &device_interface;
    if (!strcmp(name, "tenon.memory")) return &memory_interface;
    if (!strcmp(name, "tenon.copy")) return &copy_interface;
    if (!strcmp(name, "tenon.stream")) return &stream_interface;
    if (!strcmp(name, "tenon.kernels")) return &kernels_interface;
    return NULL;
}

static int32_t init(const tn_host *host, void **out_self)
{
    example *e = host->alloc(host->context, sizeof(*e));
    if (!e) return fail(host, TN_E_OUT_OF_MEMORY, "example: out of memory");
    memset(e, 0, sizeof(*e));
    e->host = host;
    *out_self = e;
    return TN_OK;
}

static void shutdown(void *self)
{
    example *e = self;
    e->host->free(e->host->context, e, sizeof(*e));
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    int32_t status = tn_negotiate(offer, out);
    if (status != TN_OK) return status;
    out->init = init;
    out->get_interface = get_interface;
    out->shutdown = shutdown;
    return TN_OK;
}

TN_DEFINE_PLUGIN("example", "1.0", "Example Vendor", 0, entry);
