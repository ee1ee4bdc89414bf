/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ends of the three plugins beside this header: slots that all three have, in the tables of the contract, and
 * the life of a `plugin`, which begins with its host. Included behind the slots, which have the names used here,
 * and behind `#define NAME`, the name of the plugin and of its devices. A plugin whose only kernel is exp defines
 * EXP_LIMITS, members of its row.
 */
#ifdef EXP_LIMITS
static const tn_dtype floats[] = {TN_FLOAT32, 0};
static const tn_kernel_row rows[] = {{.size = sizeof(tn_kernel_row),
                                      .strides = TN_STRIDES_ANY,
                                      .schema = "aten::exp(Tensor self) -> Tensor",
                                      .dtypes = floats,
                                      .run = run_exp,
                                      .can_run = can_run_exp,
                                      EXP_LIMITS}};
#endif

#define DEVICE_SLOTS                                                                                        \
    .size = sizeof(tn_device_interface), .type = NAME, .enumerate = enumerate, .facts = device_facts,       \
    .open = device_open, .close = device_close, .status = device_status, .synchronize = device_synchronize, \
    .native = device_native
static const tn_device_interface device_interface = {DEVICE_SLOTS};
static const tn_kernels_interface kernels_interface = {
    .size = sizeof(tn_kernels_interface), .count = 1, .row_bytes = sizeof(tn_kernel_row), .rows = rows};

#define MEMORY_SLOTS                                                                                      \
    .size = sizeof(tn_memory_interface), .alloc = memory_alloc, .free = memory_free, .fill = memory_fill, \
    .info = memory_info
#define COPY_SLOTS                                                                                         \
    .size = sizeof(tn_copy_interface), .host_to_device = host_to_device, .device_to_host = device_to_host, \
    .device_to_device = device_to_device
#define STREAM_SLOTS                                                                         \
    .size = sizeof(tn_stream_interface), .create = stream_create, .destroy = stream_destroy, \
    .query = stream_query, .synchronize = stream_synchronize, .wait_event = stream_wait_event
#define EVENT_SLOTS                                                                       \
    .size = sizeof(tn_event_interface), .create = event_create, .destroy = event_destroy, \
    .record = event_record, .query = event_query, .synchronize = event_synchronize

#define GRAPH_SLOTS                                                                                       \
    .size = sizeof(tn_graph_interface), .begin = graph_begin, .end = graph_end, .destroy = graph_destroy, \
    .instantiate = graph_instantiate, .launch = graph_launch, .destroy_executable = graph_destroy_executable

/* The interfaces that all three have; another may follow. */
#define INTERFACES                                                            \
    {"tenon.device", &device_interface}, {"tenon.memory", &memory_interface}, \
        {"tenon.copy", &copy_interface}, {"tenon.stream", &stream_interface}, \
        {"tenon.event", &event_interface},                                    \
    {                                                                         \
        "tenon.kernels", &kernels_interface                                   \
    }
#define INTERFACE_OF(list, name, version) \
    tn_interface_find(list, sizeof(list) / sizeof *(list), name, version)

static int32_t init(const tn_host *host, void **out_self)
{
    plugin *p = calloc(1, sizeof *p);
    if (!p) return host->error(host->context, TN_E_OUT_OF_MEMORY, NAME ": out of memory");
    p->host = host;
    *out_self = p;
    return TN_OK;
}

static void shutdown(void *self)
{
    free(self);
}

static const void *get_interface(void *self, const char *name, uint32_t version);

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    static const tn_plugin_table slots = {.init = init, .get_interface = get_interface, .shutdown = shutdown};
    return tn_negotiate_slots(offer, out, &slots);
}

TN_DEFINE_PLUGIN(NAME, "1.0", "Tests", 0, entry);
