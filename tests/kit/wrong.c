/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device that `tenon new-plugin` writes, with the fault that TENON_TEST_FAULT names: what `tenon check`
 * must find, and in which case. A few slots and rows of its tables are replaced.
 */
#include <stdlib.h>

/* The device's own plugin block is disabled; its entry is called from the one below. */
#define TN_PLUGIN
#include <tenon/plugin.h>
#undef TN_PLUGIN
#undef TN_DEFINE_PLUGIN
#define TN_DEFINE_PLUGIN(name, version, vendor, flags, entry_function) \
    static int32_t (*const plain_entry)(const tn_host_offer *, tn_plugin_table *) = entry_function
#include "../../examples/plugin/plugin.c"
#include "../../examples/plugin/kernels.c"

#include <unistd.h>

static int fault(const char *name)
{
    const char *wish = getenv("TENON_TEST_FAULT");
    return wish && strcmp(wish, name) == 0;
}

/* ---- Slots --------------------------------------------------------------------------------------------- */

/* Flips a bit of long copies. */
static int32_t wrong_device_to_host(void *self, void *device, void *host, const tn_memory *pinned,
                                    void *allocation, uint64_t offset, uint64_t bytes, void *stream)
{
    int32_t status = device_to_host(self, device, host, NULL, allocation, offset, bytes, stream);
    if (bytes > 4096) ((char *)host)[4096] ^= 1;
    return status;
}

/* Breaks the promised alignment. */
static int32_t wrong_alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    tn_memory_request more = *request;
    more.bytes += 64;
    int32_t status = memory_alloc(self, device, &more, out);
    if (status) return status;
    out->allocation = (char *)out->allocation + 8;
    out->host = out->allocation;
    return TN_OK;
}

static void wrong_free(void *self, void *device, const tn_memory *memory)
{
    tn_memory right = *memory;
    right.allocation = (char *)right.allocation - 8;
    memory_free(self, device, &right);
}

static int32_t wrong_query(void *self, void *device, void *stream, int32_t *out_done)
{
    *out_done = 0;
    return TN_OK;
}

/* Fills one byte too many. */
static int32_t wrong_fill(void *self, void *device, void *allocation, uint64_t offset, uint64_t bytes,
                          uint32_t value, void *stream)
{
    return memory_fill(self, device, allocation, offset, bytes == 3 ? 4 : bytes, value, stream);
}

static int32_t two_devices(void *self, uint32_t *out_count, const char **out_reason)
{
    *out_reason = NULL;
    *out_count = 2;
    return TN_OK;
}

/* Ignores the offset in the source. */
static int32_t wrong_peer(void *self, void *to_device, void *to, uint64_t to_offset, void *from_device,
                          void *from, uint64_t from_offset, uint64_t bytes, void *stream)
{
    return device_to_device(self, to_device, to, to_offset, from, 0, bytes, stream);
}

static int32_t wrong_self_test(void *self)
{
    return fail(((state *)self)->host, TN_E_DEVICE, "wrong: the fan does not turn");
}

static void wrong_close(void *self, void *device)
{
    abort();
}

/* ---- Rows ---------------------------------------------------------------------------------------------- */

/* Ignores alpha. */
static int32_t wrong_add(void *self, const tn_call *call)
{
    tn_strided out = tn_strided_operand(call->nest, 0), a = tn_strided_operand(call->nest, 1),
               b = tn_strided_operand(call->nest, 2);
    for (int64_t i = 0; i < call->nest->numel; i++)
        tn_strided_put(
            &out, i,
            tn_plain_compute(TN_PLAIN_ADD, tn_strided_get(&a, i), tn_strided_get(&b, i), tn_number_whole(1)));
    return TN_OK;
}

/* Treats every operand as contiguous, or as one number. */
static int32_t wrong_mul(void *self, const tn_call *call)
{
    const tn_nest *nest = call->nest;
    tn_strided operands[3];
    for (uint32_t n = 0; n < 3; n++) {
        operands[n] = tn_strided_operand(nest, n);
        operands[n].strides[0] = nest->rank && operands[n].strides[0] ? tn_dtype_bytes(operands[n].dtype) : 0;
        operands[n].sizes[0] = nest->numel;
        operands[n].rank = 1;
    }
    for (int64_t i = 0; i < nest->numel; i++)
        tn_strided_put(&operands[0], i,
                       tn_plain_compute(TN_PLAIN_MUL, tn_strided_get(&operands[1], i),
                                        tn_strided_get(&operands[2], i), tn_number_whole(1)));
    return TN_OK;
}

static int32_t wrong_sum(void *self, const tn_call *call)
{
    if (fault("hang")) sleep(3600);
    if (fault("native") || fault("crash"))
        call->host->log(call->host->context, TN_LOG_WARN, "wrong: queue 3 is stuck");
    if (fault("native"))
        return call->host->error_native(call->host->context, TN_E_DEVICE, "the queue refuses the sum", -36,
                                        "CL_INVALID_COMMAND_QUEUE");
    if (fault("crash")) abort();
    return TN_E_UNSUPPORTED; /* although can_run agreed */
}

/* ---- Tables -------------------------------------------------------------------------------------------- */

static tn_device_interface my_device;
static tn_memory_interface my_memory;
static tn_copy_interface my_copy;
static tn_stream_interface my_stream;
static tn_kernels_interface my_kernels;
static tn_kernel_row my_rows[256];

/* Replaces the run functions of an operator's rows. */
static void replace(const char *name, tn_kernel_fn run)
{
    for (uint32_t i = 0; i < my_kernels.count; i++) {
        const char *schema = my_rows[i].schema;
        if (strncmp(schema, name, strlen(name)) == 0 && schema[strlen(name)] == '(') my_rows[i].run = run;
    }
}

static int32_t (*plain_init)(const tn_host *host, void **out_self);

static void make_tables(void)
{
    my_device = device_interface;
    my_memory = memory_interface;
    my_copy = copy_interface;
    my_stream = stream_interface;
    my_kernels = acme_kernels;
    my_kernels.rows = my_rows;
    memcpy(my_rows, acme_kernels.rows, acme_kernels.count * sizeof(my_rows[0]));
    my_device.type = "wrong";
    if (fault("close")) my_device.close = wrong_close;
    if (fault("copy")) my_copy.device_to_host = wrong_device_to_host;
    if (fault("alignment")) {
        my_memory.alloc = wrong_alloc;
        my_memory.free = wrong_free;
    }
    if (fault("fill")) my_memory.fill = wrong_fill;
    if (fault("peer")) {
        my_device.enumerate = two_devices;
        my_copy.peer = wrong_peer;
    }
    if (fault("query")) my_stream.query = wrong_query;
    if (fault("add")) replace("aten::add.Tensor", wrong_add);
    if (fault("strides")) replace("aten::mul.Tensor", wrong_mul);
    if (fault("name")) {
        my_rows[my_kernels.count] = my_rows[my_kernels.count - 1];
        my_rows[my_kernels.count++].schema = "aten::reluu(Tensor self) -> Tensor";
        my_rows[my_kernels.count] = my_rows[my_kernels.count - 1];
        my_rows[my_kernels.count++].schema = "mylib::later(Tensor self) -> Tensor"; /* may be defined later */
    }
    if (fault("crash") || fault("hang") || fault("breach") || fault("native")) {
        replace("aten::sum", wrong_sum);
        replace("aten::sum.dim_IntList", wrong_sum);
    }
}

/* Rows for a device type that is there elsewhere, for one that is misspelt, and one that needs a newer Tenon. */
static int32_t init_with_rows(const tn_host *host, void **out_self)
{
    static const tn_kernel_row sound[] = {
        {.size = sizeof(tn_kernel_row), .schema = "aten::relu(Tensor self) -> Tensor", .run = wrong_add},
        {.size = sizeof(tn_kernel_row), .schema = "aten::neg(Tensor self) -> Tensor", .run = wrong_add}};
    static const tn_kernel_row newer[] = {{.size = sizeof(tn_kernel_row),
                                           .flags = 1u << 30,
                                           .schema = "aten::relu(Tensor self) -> Tensor",
                                           .run = wrong_add}};
    int32_t status = host->register_kernels(host->context, "reference", NULL, sound, 2, sizeof(sound[0]));
    if (!status) status = host->register_kernels(host->context, "wrnog", NULL, sound, 1, sizeof(sound[0]));
    if (!status) status = host->register_kernels(host->context, "wrong", NULL, newer, 1, sizeof(newer[0]));
    return status ? status : plain_init(host, out_self);
}

/* The second one is not there. */
static const char *const experimental_names[] = {"tenon.x.there", "tenon.x.missing"};
static const tn_experimental_interface my_experimental = {
    .size = sizeof my_experimental, .count = 2, .names = experimental_names};

static const void *my_interface(void *self, const char *name, uint32_t version)
{
    if (version != 1) return NULL;
    if (!strcmp(name, "tenon.device")) return &my_device;
    if (!strcmp(name, "tenon.memory")) return &my_memory;
    if (!strcmp(name, "tenon.copy")) return &my_copy;
    if (!strcmp(name, "tenon.stream")) return &my_stream;
    if (fault("experimental") && !strcmp(name, "tenon.experimental")) return &my_experimental;
    if (!strcmp(name, "tenon.x.there")) return &my_experimental; /* any table */
    if (!strcmp(name, "tenon.kernels")) return fault("no-kernels") ? NULL : &my_kernels;
    return NULL;
}

static int32_t my_entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    int32_t status = plain_entry(offer, out);
    if (status != TN_OK) return status;
    if (fault("load")) abort();
    make_tables();
    out->get_interface = my_interface;
    if (fault("self-test")) out->self_test = wrong_self_test;
    if (fault("rows")) {
        plain_init = out->init;
        out->init = init_with_rows;
    }
    return TN_OK;
}

TN_API const tn_plugin_info tenon_plugin = {.magic = {'T', 'E', 'N', 'O', 'N', 0x1a, 0x0d, 0x0a},
                                            .size = sizeof(tn_plugin_info),
                                            .stamp = TN_PLUGIN_STAMP,
                                            .abi_min = TN_ABI_GENERATION,
                                            .abi_max = TN_ABI_GENERATION,
                                            .header_minor = TN_ABI_MINOR,
                                            .architecture = TN_ARCHITECTURE,
                                            .pointer_bits = 64,
                                            .sanitizer = TN_SANITIZER,
                                            .name = "wrong",
                                            .version = "1.0",
                                            .vendor = "Test",
                                            .entry = my_entry};
