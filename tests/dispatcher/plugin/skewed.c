/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device plugin that does nothing, compiled once for each way in which a plugin can be wrong or of another
 * version (CASE_...). The tests know by the file's name what the library must say of it.
 */
#include <signal.h>
#include <stdlib.h>
#include "../../plugins/host_slots.h"
#include <unistd.h>

/* Names and the generation of the table, for the cases that are about them. */
#ifndef TABLE_ABI
#define TABLE_ABI out->abi
#endif
#ifndef PLUGIN_NAME
#define PLUGIN_NAME "skewed"
#endif
#ifndef DEVICE_TYPE
#define DEVICE_TYPE "skewed"
#endif

static int32_t enumerate(void *self, uint32_t *out_count, const char **out_reason)
{
    (void)self;
#ifdef CASE_enumerate_fails
    return TN_E_DEVICE;
#endif
    *out_count = 0;
    *out_reason = "this is a test";
    return TN_OK;
}

static int32_t facts(void *self, uint32_t index, tn_device_facts *out)
{
    (void)self, (void)index, (void)out;
    return TN_E_DEVICE;
}

static int32_t open_device(void *self, uint32_t index, const tn_device_options *options, void **out)
{
    (void)self, (void)index, (void)out;
    return TN_E_DEVICE;
}

/* A table with a tail that this version does not know. */
typedef struct longer_device_interface {
    tn_device_interface known;
    void *tail[8];
} longer_device_interface;

static const longer_device_interface device_interface = {
    .known =
        {
#if defined(CASE_shorter_required)
            .size = offsetof(tn_device_interface, synchronize),
#elif defined(CASE_longer)
            .size = sizeof(longer_device_interface),
#elif defined(CASE_no_size)
            .size = 0,
#else
            .size = sizeof(tn_device_interface),
#endif
            .type = DEVICE_TYPE,
            .enumerate = enumerate,
#ifndef CASE_missing_slot
            .facts = facts,
#endif
            .open = open_device,
            .close = host_close,
            .synchronize = host_device_done,
        },
    .tail = {(void *)1, (void *)2},
};

static int32_t alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    (void)self, (void)device, (void)request, (void)out;
    return TN_E_OUT_OF_MEMORY;
}

static void free_memory(void *self, void *device, const tn_memory *memory)
{
    (void)self, (void)device, (void)memory;
}

static const tn_memory_interface memory_interface = {
#ifdef CASE_shorter
    .size = offsetof(tn_memory_interface, pin), /* as if compiled before the optional slots were there */
#else
    .size = sizeof(tn_memory_interface),
#endif
    HOST_MEMORY_SLOTS(alloc, free_memory, host_fill, host_info_unknown),
    .trim = host_device_done,
};

static const tn_copy_interface copy_interface = {.size = sizeof(tn_copy_interface), HOST_COPY_SLOTS};

static int32_t create_stream(void *self, void *device, const tn_stream_options *options, void **out_stream)
{
    (void)self, (void)device, (void)options, (void)out_stream;
    return TN_E_DEVICE;
}

static const tn_stream_interface stream_interface = {
    .size = sizeof(tn_stream_interface),
    .create = create_stream,
    HOST_STREAM_SLOTS,
};

#if defined(CASE_short_rows) || defined(CASE_kernels_only) || defined(CASE_shim_with_device)
static int32_t run(void *self, const tn_call *call)
{
    (void)self, (void)call;
    return TN_OK;
}
static const tn_kernel_row rows[] = {
    {.size = sizeof(tn_kernel_row), .schema = "aten::neg(Tensor self) -> Tensor", .run = run}};
#endif

static const tn_kernels_interface kernels_interface = {.size = sizeof(tn_kernels_interface),
#if defined(CASE_no_rows)
                                                       .count = 3,
                                                       .row_bytes = sizeof(tn_kernel_row)
#elif defined(CASE_short_rows)
                                                       .count = 1,
                                                       .row_bytes = 8,
                                                       .rows = rows
#elif defined(CASE_kernels_only)
                                                       .count = 1,
                                                       .row_bytes = sizeof(tn_kernel_row),
                                                       .rows = rows
#endif
};

/* Cases that are a shim and nothing else. */
#if defined(CASE_shim) || defined(CASE_shim_passes) || defined(CASE_shim_refuses) || \
    defined(CASE_shim_hides_shutdown)
#define ONLY_SHIM
#endif

#if defined(CASE_shim_with_device) || defined(ONLY_SHIM)
#ifdef CASE_shim_refuses
static const tn_host *host_of_shim;
static int32_t configure(void *self, const char *setting)
{
    (void)self, (void)setting;
    return host_of_shim->error(host_of_shim->context, TN_E_ARGUMENT, "no such setting");
}
#endif

static int32_t wrap(void *self, const tn_host *host, const tn_shim_target *target, void **out_self,
                    tn_plugin_table *out)
{
    (void)self;
    int32_t status = target->open(target->next, host, out_self, out);
#ifdef CASE_shim_hides_shutdown
    if (status == TN_OK) out->shutdown = NULL;
#elif !defined(CASE_shim_passes)
    if (status == TN_OK) out->get_interface = NULL; /* what no shim may do */
#endif
    return status;
}
static const tn_shim_interface shim_interface = {.size = sizeof(tn_shim_interface),
#ifdef CASE_shim_refuses
                                                 .configure = configure,
#endif
                                                 .wrap = wrap};
#endif

#ifdef CASE_experimental
static const char *const experimental_names[] = {"tenon.x.first", "tenon.x.second"};
#elif defined(CASE_experimental_rest)
static const char *const experimental_names[] = {"tenon.x.first", "tenon.x."};
#else
static const char *const experimental_names[] = {"tenon.trace"};
#endif
static const tn_experimental_interface experimental = {
    .size = sizeof(tn_experimental_interface),
    .count = sizeof experimental_names / sizeof *experimental_names,
#ifndef CASE_experimental_null
    .names = experimental_names
#endif
};

#ifdef CASE_autocast_dtype
static const tn_autocast_interface autocast_interface = {.size = sizeof(tn_autocast_interface),
                                                         .low_dtype = TN_INT64};
#endif

static int32_t equal(const char *a, const char *b)
{
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    (void)self;
    if (version != 1) return NULL;
#ifdef CASE_operators
    return NULL;
#endif
#if defined(CASE_shim_with_device) || defined(ONLY_SHIM)
    if (equal(name, "tenon.shim")) return &shim_interface;
#endif
#ifdef ONLY_SHIM
    return NULL;
#endif
#ifdef CASE_kernels_only
    return equal(name, "tenon.kernels") ? &kernels_interface : NULL;
#endif
    if (equal(name, "tenon.device")) return &device_interface;
    if (equal(name, "tenon.memory")) return &memory_interface;
#ifndef CASE_no_copy
    if (equal(name, "tenon.copy")) return &copy_interface;
#endif
    if (equal(name, "tenon.stream")) return &stream_interface;
    if (equal(name, "tenon.kernels")) return &kernels_interface;
#ifdef CASE_autocast_dtype
    if (equal(name, "tenon.autocast")) return &autocast_interface;
#endif
#if defined(CASE_experimental) || defined(CASE_experimental_name) || defined(CASE_experimental_rest) || \
    defined(CASE_experimental_null)
    if (equal(name, "tenon.experimental")) return &experimental;
#endif
    return NULL;
}

static int32_t init(const tn_host *host, void **out_self)
{
    static int state;
#ifdef CASE_init_fails
    return host->error(host->context, TN_E_DEVICE, "no licence for this machine");
#endif
#ifdef CASE_init_fails_otherwise
    (void)host->error(host->context, TN_E_STATE, "an error of something else");
    return TN_E_DEVICE;
#endif
#ifdef CASE_init_fails_silently
    return TN_E_DEVICE;
#endif
#ifdef CASE_init_crashes
    abort();
#endif
#ifdef CASE_init_raises
    raise(CASE_init_raises);
#endif
#ifdef CASE_shim_refuses
    host_of_shim = host;
#endif
    (void)host;
    *out_self = &state;
    return TN_OK;
}

#if defined(CASE_quiesce_fails) || defined(CASE_self_test)
static int32_t lost(void *self)
{
    (void)self;
    return TN_E_DEVICE_LOST;
}
#endif

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
#ifdef CASE_declines
    static const char reason[] = "this plugin wants generation 9";
    for (uint32_t i = 0; i < sizeof(reason) && i < offer->reason_bytes; i++) offer->reason[i] = reason[i];
#endif
#if defined(CASE_declines) || defined(CASE_declines_silently)
    return TN_E_VERSION;
#endif
    int32_t status = tn_negotiate(offer, out);
    if (status != TN_OK) return status;
#ifndef CASE_no_init
    out->init = init;
#endif
#ifndef CASE_no_get_interface
    out->get_interface = get_interface;
#endif
#if defined(CASE_quiesce_fails)
    out->quiesce = lost;
#elif defined(CASE_self_test)
    out->self_test = lost;
#endif
#ifndef CASE_no_shutdown
    out->shutdown = host_no_shutdown;
#endif
    out->abi = TABLE_ABI;
    return TN_OK;
}

#ifdef CASE_constructor_crashes
__attribute__((constructor)) static void crash(void)
{
    abort();
}
#endif
#ifdef CASE_constructor_hangs
__attribute__((constructor)) static void hang(void)
{
    for (;;) pause();
}
#endif
#ifdef CASE_constructor_exits
__attribute__((constructor)) static void leave(void)
{
    _exit(3);
}
#endif
#ifdef CASE_unresolved
extern void tenon_test_nobody_defines_this(void);
void (*volatile tenon_test_reference)(void) = tenon_test_nobody_defines_this;
#endif

#if defined(CASE_no_symbol)
TN_API extern int tenon_test_other_symbol;
int tenon_test_other_symbol = 1;
int32_t (*volatile tenon_test_entry)(const tn_host_offer *, tn_plugin_table *) = entry;
#elif defined(CASE_bss)
TN_API extern tn_plugin_info tenon_plugin;
tn_plugin_info tenon_plugin;
int32_t (*volatile tenon_test_entry)(const tn_host_offer *, tn_plugin_table *) = entry;
#elif defined(CASE_function)
TN_API void tenon_plugin(void);
int32_t (*volatile tenon_test_entry)(const tn_host_offer *, tn_plugin_table *) = entry;
void tenon_plugin(void) {}
#elif defined(CASE_small)
TN_API extern const char tenon_plugin[16];
const char tenon_plugin[16] = "TENON\x1a\x0d\x0a";
int32_t (*volatile tenon_test_entry)(const tn_host_offer *, tn_plugin_table *) = entry;
#elif defined(CASE_block)
/* Written by hand, with the fields of the case. */
#ifndef STAMP
#define STAMP TN_PLUGIN_STAMP
#endif
#ifndef ABI
#define ABI TN_ABI_GENERATION
#endif
#ifndef MAGIC
#define MAGIC 'T'
#endif
#ifndef SANITIZER
#define SANITIZER TN_SANITIZER
#endif
#ifndef BLOCK_SIZE
#define BLOCK_SIZE (uint32_t)sizeof(tn_plugin_info)
#endif
TN_API extern const tn_plugin_info tenon_plugin;
const tn_plugin_info tenon_plugin = {
    .magic = {MAGIC, 'E', 'N', 'O', 'N', 0x1a, 0x0d, 0x0a},
    .size = BLOCK_SIZE,
    .stamp = STAMP,
    .abi_min = ABI,
    .abi_max = ABI,
    .architecture = TN_ARCHITECTURE,
    .pointer_bits = sizeof(void *) * 8,
    .sanitizer = SANITIZER,
    .name = "skewed",
#ifndef NO_ENTRY
    .entry = entry,
#endif
};
#else
#ifndef FLAGS
#define FLAGS 0
#endif
TN_DEFINE_PLUGIN(PLUGIN_NAME, "1.2", "Tests", FLAGS, entry);
#endif
