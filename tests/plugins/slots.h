/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of slots with the arguments that tests care about: the structs are filled here. */
#ifndef TENON_TESTS_PLUGINS_SLOTS_H
#define TENON_TESTS_PLUGINS_SLOTS_H

#include <tenon/plugin.h>

/* Members of a struct: the interfaces of a plugin, NULL where it has none. */
#define SLOT_INTERFACES                          \
    const tn_device_interface *device_interface; \
    const tn_memory_interface *memory;           \
    const tn_copy_interface *copy;               \
    const tn_stream_interface *streams;          \
    const tn_event_interface *events;            \
    const tn_kernels_interface *kernels;         \
    const tn_graph_interface *graphs;            \
    const tn_collectives_interface *collectives

/* Asks the plugin with `table` and `self`, members of *of, for all of them. */
#define SLOT_FIND_INTERFACES(of)                                                        \
    ((of)->device_interface = (of)->table.get_interface((of)->self, "tenon.device", 1), \
     (of)->memory = (of)->table.get_interface((of)->self, "tenon.memory", 1),           \
     (of)->copy = (of)->table.get_interface((of)->self, "tenon.copy", 1),               \
     (of)->streams = (of)->table.get_interface((of)->self, "tenon.stream", 1),          \
     (of)->events = (of)->table.get_interface((of)->self, "tenon.event", 1),            \
     (of)->kernels = (of)->table.get_interface((of)->self, "tenon.kernels", 1),         \
     (of)->graphs = (of)->table.get_interface((of)->self, "tenon.graph", 1),            \
     (of)->collectives = (of)->table.get_interface((of)->self, "tenon.collectives", 1))

static inline int32_t slot_open(const tn_device_interface *device, void *self, uint32_t index, void **out)
{
    const tn_device_options options = {.size = sizeof options};
    return device->open(self, index, &options, out);
}

static inline int32_t slot_stream(const tn_stream_interface *stream, void *self, void *device,
                                  int32_t priority, void **out)
{
    const tn_stream_options options = {.size = sizeof options, .priority = priority};
    return stream->create(self, device, &options, out);
}

static inline int32_t slot_instantiate(const tn_graph_interface *graph, void *self, void *device, void *from,
                                       void **out)
{
    const tn_graph_options options = {.size = sizeof options};
    return graph->instantiate(self, device, from, &options, out);
}

static inline int32_t slot_communicator(const tn_collectives_interface *collectives, void *self,
                                        void *const *devices, uint32_t count, void **out)
{
    const tn_communicator_options options = {
        .size = sizeof options, .count = count, .world = count, .devices = devices};
    return collectives->create(self, &options, out);
}

/* Memory whose allocation it fills: `allocation` and `host` are written on success. */
static inline int32_t slot_alloc(const tn_memory_interface *memory, void *self, void *device, uint64_t bytes,
                                 uint32_t kind, void **out_allocation, void **out_host)
{
    const tn_memory_request request = {.size = sizeof request, .kind = kind, .bytes = bytes};
    tn_memory made = {.size = sizeof made};
    int32_t status = memory->alloc(self, device, &request, &made);
    if (status) return status;
    *out_allocation = made.allocation;
    *out_host = made.host;
    return TN_OK;
}

/* For memory of slot_alloc of a plugin that keeps nothing in tn_memory.state and gives whole allocations. */
static inline void slot_free(const tn_memory_interface *memory, void *self, void *device, void *allocation,
                             uint64_t bytes)
{
    const tn_memory given = {.size = sizeof given, .allocation = allocation, .bytes = bytes};
    memory->free(self, device, &given);
}

static inline int32_t slot_workspace(const tn_call *call, const tn_host *host, uint64_t bytes,
                                     void **out_allocation)
{
    const tn_memory_request request = {.size = sizeof request, .bytes = bytes};
    tn_memory made = {.size = sizeof made};
    int32_t status = host->workspace(call, &request, &made);
    if (!status) *out_allocation = made.allocation;
    return status;
}

/* Output i of a shape rule. */
static inline int32_t slot_define(const tn_call *call, const tn_host *host, uint32_t i, tn_dtype dtype,
                                  uint32_t rank, const int64_t *sizes, tn_device device)
{
    const tn_output output = {
        .size = sizeof output, .dtype = dtype, .rank = rank, .sizes = sizes, .device = device};
    return host->define_output(call, i, &output);
}

/* A shape rule: one output like the first argument, a tensor. */
static inline int32_t slot_infer_like_first(void *self, const tn_call *call)
{
    const tn_tensor_desc *x = tn_desc(call->args[0].as.tensor);
    const tn_output out = {.size = sizeof out, .dtype = x->dtype, .rank = x->rank, .sizes = x->sizes};
    (void)self;
    return call->host->define_output(call, 0, &out);
}

#endif
