/* SPDX-License-Identifier: Apache-2.0 */
/* The device of honest.h. */
#include "honest.h"

#include "../plugins/host_slots.h"

#include <sys/mman.h>

#define PAGE 4096u

/* ---- memory: the last byte of an allocation lies before a page without access */

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

/* ---- device, streams, events: all is done at once */

static const tn_dtype dtypes[] = {TN_FLOAT32, 0};

int32_t honest_facts(void *self, uint32_t index, tn_device_facts *out)
{
    tn_device_facts facts = {HOST_FACTS(out, TN_MEMORY_DEVICE, dtypes, "Honest device"),
                             .total_memory = (uint64_t)1 << 30};
    return host_facts(&facts, out);
}

static int32_t device_open(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    *out_device = &the;
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

/* ---- one kernel */

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

/* ---- the plugin */

int32_t honest_init(const tn_host *host, void **out_self)
{
    the.host = host;
    *out_self = &the;
    return TN_OK;
}

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    const tn_named_interface all[] = {{"tenon.device", &the.device}, {"tenon.memory", &the.memory},
                                      {"tenon.copy", &the.copy},     {"tenon.stream", &the.stream},
                                      {"tenon.event", &the.event},   {"tenon.kernels", &the.kernels}};
    return tn_interface_find(all, sizeof all / sizeof *all, name, 1);
}

honest the = {
    .table = {.init = honest_init, .get_interface = get_interface, .shutdown = host_no_shutdown},
    .device = {.size = sizeof(tn_device_interface),
               HOST_DEVICE_SLOTS("liar", host_enumerate_one, honest_facts, device_open, host_device_done)},
    .memory = {.size = sizeof(tn_memory_interface),
               HOST_MEMORY_SLOTS(honest_alloc, memory_free, host_fill, host_info_unknown)},
    .copy = {.size = sizeof(tn_copy_interface), HOST_COPY_SLOTS},
    .stream = {.size = sizeof(tn_stream_interface),
               .create = make_stream,
               HOST_STREAM_SLOTS,
               .wait_event = host_order},
    .event = {.size = sizeof(tn_event_interface), .create = make_event, HOST_EVENT_SLOTS},
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
    lie();
    return tn_negotiate_slots(offer, out, &the.table);
}

#ifndef PLUGIN_FLAGS
#define PLUGIN_FLAGS 0
#endif
TN_DEFINE_PLUGIN("liar", "1.0", "Tests", PLUGIN_FLAGS, entry);
