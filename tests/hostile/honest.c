/* SPDX-License-Identifier: Apache-2.0 */
/* The device of honest.h. */
#include "honest.h"

#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u

/* ---- memory: the last byte of an allocation lies before a page without access ---------------------------
 */

static uint64_t pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

int32_t honest_alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    uint64_t bytes = request->bytes;
    char *memory =
        mmap(NULL, pages(bytes) + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return TN_E_OUT_OF_MEMORY;
    mprotect(memory + pages(bytes), PAGE, PROT_NONE);
    out->kind = request->kind;
    out->allocation = memory;
    out->bytes = bytes;
    return TN_OK;
}

static void memory_free(void *self, void *device, const tn_memory *memory)
{
    munmap(memory->allocation, pages(memory->bytes) + PAGE);
}

static int32_t memory_fill(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                           uint32_t value, void *stream)
{
    memset((char *)allocation + offset, (int)value, bytes);
    return TN_OK;
}

static int32_t memory_info(void *self, void *device, uint64_t *out_free, uint64_t *out_total)
{
    *out_free = *out_total = 0;
    return TN_OK;
}

static int32_t host_to_device(void *self, void *device, void *allocation, uint64_t offset, const void *host,
                              const tn_memory *pinned, uint64_t bytes, void *stream)
{
    memcpy((char *)allocation + offset, host, bytes);
    return TN_OK;
}

static int32_t device_to_host(void *self, void *device, void *host, const tn_memory *pinned, void *allocation,
                              uint64_t offset, uint64_t bytes, void *stream)
{
    memcpy(host, (char *)allocation + offset, bytes);
    return TN_OK;
}

static int32_t device_to_device(void *self, void *device, void *to, uint64_t to_offset, void *from,
                                uint64_t from_offset, uint64_t bytes, void *stream)
{
    memcpy((char *)to + to_offset, (char *)from + from_offset, bytes);
    return TN_OK;
}

/* ---- device, streams, events: all is done at once -------------------------------------------------------
 */

static const tn_dtype dtypes[] = {TN_FLOAT32, 0};

static int32_t enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    *out_count = 1;
    *out_reason = NULL;
    return TN_OK;
}

int32_t honest_facts(void *self, uint32_t index, tn_device_facts *out)
{
    tn_device_facts facts = {.size = out->size,
                             .device_class = TN_DEVICE_VIRTUAL,
                             .memory_kinds = TN_MEMORY_DEVICE,
                             .total_memory = (uint64_t)1 << 30,
                             .alignment = 64,
                             .dtypes = dtypes,
                             .name = "Honest device"};
    memcpy(out, &facts, out->size < sizeof facts ? out->size : sizeof facts);
    return TN_OK;
}

static int32_t device_open(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    *out_device = &the;
    return TN_OK;
}

static void device_close(void *self, void *device) {}

static int32_t device_synchronize(void *self, void *device)
{
    return TN_OK;
}

static int32_t make_stream(void *self, void *device, const tn_stream_options *options, void **out)
{
    *out = &the.stream;
    return TN_OK;
}

static int32_t make_event(void *self, void *device, uint32_t flags, void **out)
{
    *out = &the.event;
    return TN_OK;
}

static void destroy(void *self, void *device, void *handle) {}

static int32_t query(void *self, void *device, void *handle, int32_t *out_done)
{
    *out_done = 1;
    return TN_OK;
}

static int32_t synchronize(void *self, void *device, void *handle)
{
    return TN_OK;
}

static int32_t relate(void *self, void *device, void *a, void *b)
{
    return TN_OK;
}

/* ---- one kernel ------------------------------------------------------------------------------------------
 */

#define MAX_RANK 64

static const tn_operand *operand(const tn_nest *n, uint32_t i)
{
    return (const tn_operand *)(const void *)((const char *)n->operands + (size_t)i * n->operand_bytes);
}

int32_t honest_add(void *self, const tn_call *call)
{
    const tn_nest *n = call->nest;
    int64_t index[MAX_RANK] = {0};
    char *at[3];
    float alpha = (float)tn_value_as_float(call->args[2]);
    for (uint32_t i = 0; i < 3; i++) {
        const tn_operand *o = operand(n, i);
        at[i] = o->flags & TN_OPERAND_IMMEDIATE ? o->host : (char *)o->allocation + o->byte_offset;
    }
    for (int64_t k = 0; k < n->numel; k++) {
        *(float *)(void *)at[0] = *(float *)(void *)at[1] + alpha * *(float *)(void *)at[2];
        for (uint32_t d = 0; d < n->rank; d++) {
            int64_t back = ++index[d] == n->sizes[d] ? n->sizes[d] : 0;
            for (uint32_t i = 0; i < 3; i++) at[i] += operand(n, i)->strides[d] * (1 - back);
            if (!back) break;
            index[d] = 0;
        }
    }
    return TN_OK;
}

/* ---- the plugin ------------------------------------------------------------------------------------------
 */

int32_t honest_init(const tn_host *host, void **out_self)
{
    the.host = host;
    *out_self = &the;
    return TN_OK;
}

static void plugin_shutdown(void *self) {}

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    const struct {
        const char *name;
        const void *table;
    } all[] = {{"tenon.device", &the.device}, {"tenon.memory", &the.memory}, {"tenon.copy", &the.copy},
               {"tenon.stream", &the.stream}, {"tenon.event", &the.event},   {"tenon.kernels", &the.kernels}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i].name)) return all[i].table;
    return NULL;
}

honest the = {
    .table = {.init = honest_init, .get_interface = get_interface, .shutdown = plugin_shutdown},
    .device = {.size = sizeof(tn_device_interface),
               .type = "liar",
               .enumerate = enumerate,
               .facts = honest_facts,
               .open = device_open,
               .close = device_close,
               .synchronize = device_synchronize},
    .memory = {.size = sizeof(tn_memory_interface),
               .alloc = honest_alloc,
               .free = memory_free,
               .fill = memory_fill,
               .info = memory_info},
    .copy = {.size = sizeof(tn_copy_interface),
             .host_to_device = host_to_device,
             .device_to_host = device_to_host,
             .device_to_device = device_to_device},
    .stream = {.size = sizeof(tn_stream_interface),
               .create = make_stream,
               .destroy = destroy,
               .query = query,
               .synchronize = synchronize,
               .wait_event = relate},
    .event = {.size = sizeof(tn_event_interface),
              .create = make_event,
              .destroy = destroy,
              .record = relate,
              .query = query,
              .synchronize = synchronize},
    .kernels = {.size = sizeof(tn_kernels_interface),
                .count = 1,
                .row_bytes = sizeof(tn_kernel_row),
                .rows = the.rows},
    .rows = {{.size = sizeof(tn_kernel_row),
              .strides = TN_STRIDES_ANY,
              .schema = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
              .dtypes = dtypes,
              .run = honest_add}},
};

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    int32_t status = tn_negotiate(offer, out);
    if (status) return status;
    lie();
    out->init = the.table.init;
    out->get_interface = the.table.get_interface;
    out->quiesce = the.table.quiesce;
    out->shutdown = the.table.shutdown;
    return TN_OK;
}

#ifndef PLUGIN_FLAGS
#define PLUGIN_FLAGS 0
#endif
TN_DEFINE_PLUGIN("liar", "1.0", "Tests", PLUGIN_FLAGS, entry);
