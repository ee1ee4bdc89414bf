/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins without optional slots, with slots that break the contract, and with memory of each kind. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/allocator.h"
#include "core/transfer.h"
#include "fixture.h"
#include "child.h"
#include "at_end.h"

/* A second driver, whose slots a test replaces before it adds it. */
static fake f;
static tni_driver driver;

static void open_driver(void)
{
    open_fakes();
    f = (fake){.type = "odd", .count = 1, .device_class = TN_DEVICE_DISCRETE};
    driver = fake_driver(&f);
}

static void close_driver(void)
{
    close_fakes();
    MUST_HOLD(f.closed == f.opened);
}

TestSuite(plugin_slots, .init = open_driver, .fini = close_driver);

static tn_device add(void)
{
    cr_assert_eq(tni_device_type_add(ctx, &driver), TN_OK);
    return tn_device_parse(ctx, "odd:0");
}

static tni_device *add_open(void)
{
    tni_device *d = tni_device_get(ctx, add());
    cr_assert_not_null(d, "%s", tn_last_error()->message);
    return d;
}

/* ---- Memory ------------------------------------------------------------------------------------------------ */

/* What the slot gives instead of what the fake gave; 0: as it was. */
static struct {
    uint64_t address, offset, bytes;
    uint32_t size;
    int32_t no_bytes, host_is_odd, no_host;
} wrong;
static int32_t (*right_alloc)(void *self, void *device, const tn_memory_request *request, tn_memory *out);
static void (*right_free)(void *self, void *device, const tn_memory *memory);
static tn_memory right; /* the fake's last memory */
static int32_t freed;

static int32_t alloc_wrongly(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    int32_t status = right_alloc(self, device, request, out);
    right = *out;
    if (wrong.address) out->address = wrong.address;
    if (wrong.offset) out->offset = wrong.offset;
    if (wrong.bytes) out->bytes = wrong.bytes;
    if (wrong.size) out->size = wrong.size;
    if (wrong.no_bytes) out->bytes = 0;
    if (wrong.host_is_odd) out->host = (char *)out->host + 1;
    if (wrong.no_host) out->host = NULL;
    return status;
}

static void free_right(void *self, void *device, const tn_memory *memory)
{
    cr_expect_eq(memory->allocation, right.allocation);
    right_free(self, device, &right);
    freed++;
}

static int32_t own_alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    return alloc_wrongly(self, device, request, out);
}

static void own_free(void *self, void *device, const tn_memory *memory, void *stream)
{
    free_right(self, device, memory);
}

static void replace_memory(void)
{
    right_alloc = driver.memory.alloc;
    right_free = driver.memory.free;
    driver.memory.alloc = alloc_wrongly;
    driver.memory.free = free_right;
}

/* The memory is refused with this text and given back. */
static void expect_wrong(tni_device *d, const char *text)
{
    tni_block *b = NULL;
    int32_t before = freed;
    cr_expect_eq(tni_block_alloc(d, 4096, d->default_stream, &b), TN_E_CONTRACT, "%s", text);
    cr_assert_not_null(tn_last_error());
    cr_expect_not_null(strstr(tn_last_error()->message, text), "%s", tn_last_error()->message);
    cr_expect_eq(freed, before + 1);
    cr_expect_eq(f.live_allocations, 0);
    memset(&wrong, 0, sizeof wrong);
    cr_expect_eq(tni_block_alloc(d, 4096, d->default_stream, &b), TN_OK, "the next one is right");
    tni_block_free(b);
    cr_expect_eq(tn_memory_empty_cache(ctx, d->id), TN_OK);
    tn_memory_stats stats = {.size = sizeof stats};
    cr_assert_eq(tn_memory_get_stats(ctx, d->id, &stats), TN_OK);
    cr_expect_eq(stats.reserved_bytes, 0);
    cr_expect_eq(stats.allocated_bytes, 0);
}

static int32_t facts_with_alignment(void *self, uint32_t index, tn_device_facts *out)
{
    out->device_class = f.device_class;
    out->memory_kinds = f.device_class == TN_DEVICE_HOST ? TN_MEMORY_HOST : TN_MEMORY_DEVICE;
    out->alignment = 256;
    return TN_OK;
}

static void expect_all_wrong(const char *slot)
{
    tni_device *d = add_open();
    char text[80];
    wrong.size = 3;
    snprintf(text, sizeof text, "plugin fake: %s changed the size of its output to 3", slot);
    expect_wrong(d, text);
    wrong.bytes = 100;
    snprintf(text, sizeof text, "plugin fake: %s gave 100 bytes (asked for ", slot);
    expect_wrong(d, text);
    wrong.address = 128;
    expect_wrong(d, "plugin fake: memory at address 0x80, offset 0 is not aligned to 256 bytes");
    wrong.offset = 16;
    expect_wrong(d, "plugin fake: memory at address 0x0, offset 16 is not aligned to 256 bytes");
}

Test(plugin_slots, wrong_memory)
{
    replace_memory();
    driver.device.facts = facts_with_alignment;
    expect_all_wrong("memory.alloc");
}

Test(plugin_slots, wrong_memory_of_its_own_allocator)
{
    replace_memory();
    driver.memory.alloc = right_alloc;
    driver.device.facts = facts_with_alignment;
    driver.allocator = (tn_allocator_interface){sizeof driver.allocator, 0, own_alloc, own_free};
    expect_all_wrong("allocator.alloc");
}

Test(plugin_slots, wrong_memory_of_a_host_device)
{
    f.device_class = TN_DEVICE_HOST;
    replace_memory();
    tni_device *d = add_open();
    wrong.no_host = 1;
    expect_wrong(d, "plugin fake: memory of a host device has no address");
    wrong.host_is_odd = 1;
    expect_wrong(d, "is not aligned to 64 bytes");
}

/* A plugin need not repeat how much was asked for, and without alignment any place is good. */
Test(plugin_slots, memory_of_any_place)
{
    tni_block *b = NULL;
    replace_memory();
    tni_device *d = add_open();
    wrong.no_bytes = 1;
    wrong.address = 3;
    cr_assert_eq(tni_block_alloc(d, 100, d->default_stream, &b), TN_OK);
    cr_expect_eq(b->address, 3);
    cr_expect_eq(b->bytes, 512);
    tni_block_free(b);
}

static uint32_t kinds, class_of_facts;

static int32_t facts_of_kinds(void *self, uint32_t index, tn_device_facts *out)
{
    out->device_class = class_of_facts;
    out->memory_kinds = kinds;
    return TN_OK;
}

/* Which of its kinds of memory a device's tensors use, and whether its calls wait. */
Test(plugin_slots, kinds_of_memory)
{
    static const struct {
        uint32_t device_class, kinds, used;
        int32_t synchronous;
    } cases[] = {
        {TN_DEVICE_HOST, TN_MEMORY_HOST, TN_MEMORY_HOST, 1},
        {TN_DEVICE_HOST, TN_MEMORY_DEVICE, TN_MEMORY_DEVICE, 0},
        {TN_DEVICE_HOST, TN_MEMORY_UNIFIED, TN_MEMORY_UNIFIED, 1},
        {TN_DEVICE_INTEGRATED, TN_MEMORY_UNIFIED | TN_MEMORY_DEVICE, TN_MEMORY_UNIFIED, 0},
        {TN_DEVICE_INTEGRATED, TN_MEMORY_DEVICE, TN_MEMORY_DEVICE, 0},
        {TN_DEVICE_DISCRETE, TN_MEMORY_UNIFIED | TN_MEMORY_DEVICE, TN_MEMORY_DEVICE, 0},
        {TN_DEVICE_DISCRETE, TN_MEMORY_UNIFIED, TN_MEMORY_UNIFIED, 0},
        {TN_DEVICE_DISCRETE, TN_MEMORY_HOST, TN_MEMORY_HOST, 0},
    };
    char types[16][8], name[16];
    driver.device.facts = facts_of_kinds;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(types[i], sizeof types[i], "odd%zu", i);
        driver.device.type = types[i];
        kinds = cases[i].kinds;
        class_of_facts = cases[i].device_class;
        cr_assert_eq(tni_device_type_add(ctx, &driver), TN_OK);
        snprintf(name, sizeof name, "%s:0", types[i]);
        const tni_device *d = tni_device_get(ctx, tn_device_parse(ctx, name));
        cr_assert_not_null(d);
        cr_expect_eq(d->memory_kind, cases[i].used, "%zu: %u", i, d->memory_kind);
        cr_expect_eq(d->synchronous, cases[i].synchronous, "%zu", i);
    }
}

/* Memory that the host sees, of a device that works later: reads wait for the stream, and nothing is copied. */
static int32_t alloc_visible(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    int32_t status = right_alloc(self, device, request, out);
    right = *out;
    out->host = *(void **)out->allocation; /* the fake's block begins with its address */
    return status;
}

static tn_device add_visible(void)
{
    replace_memory();
    driver.memory.alloc = alloc_visible;
    driver.device.facts = facts_of_kinds;
    class_of_facts = TN_DEVICE_INTEGRATED;
    kinds = TN_MEMORY_UNIFIED;
    return add();
}

static void write_nine(void *user)
{
    ((float *)user)[0] = 9;
}

static int32_t never_copied(void *self, void *device, void *host, const tn_memory *pinned, void *allocation,
                            uint64_t offset, uint64_t bytes, void *stream)
{
    return TN_E_IO;
}

/* What unfinished work writes is there before the host reads. */
Test(plugin_slots, visible_memory_is_read_after_the_work)
{
    float got[2] = {0};
    f.has_callbacks = 1;
    driver = fake_driver(&f);
    driver.copy.device_to_host = never_copied;
    tn_device d = add_visible();
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[]){1, 2}, d);
    tn_tensor *first = NULL;
    const int64_t none = 0;
    cr_assert_eq(tni_tensor_view(t, 0, &none, &none, 0, &first), TN_OK);
    cr_assert_eq(tn_tensor_data(t), fake_address(t));
    fake_work(tn_stream_current(ctx, d));
    cr_assert_eq(tn_stream_add_callback(tn_stream_current(ctx, d), write_nine, tn_tensor_data(t)), TN_OK);
    cr_assert_eq(*(float *)tn_tensor_data(t), 1, "nothing waits for it yet");
    cr_assert_eq(tn_to_host(s, t, got, sizeof got), TN_OK);
    cr_expect_eq(got[0], 9);
    cr_expect_eq(got[1], 2);
    *(float *)tn_tensor_data(t) = 3;
    fake_work(tn_stream_current(ctx, d));
    cr_assert_eq(tn_stream_add_callback(tn_stream_current(ctx, d), write_nine, tn_tensor_data(t)), TN_OK);
    cr_expect_eq(tn_item_double(s, first), 9);
    tn_release(first);
}

/* Memory that another process gave has no address, of the same device. */
Test(plugin_slots, memory_without_an_address_among_visible_memory)
{
    float got[2] = {0};
    tn_device d = add_visible();
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[]){1, 2}, d);
    t->desc.host = NULL;
    cr_assert_eq(tn_to_host(s, t, got, sizeof got), TN_OK);
    cr_expect_eq(got[1], 2);
}

Test(plugin_slots, visible_memory)
{
    const float data[6] = {0, 1, 2, 3, 4, 5};
    const int64_t sizes[] = {3, 2}, strides[] = {1, 3};
    float got[6];
    tn_tensor *turned = NULL;
    tn_device d = add_visible();
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(2, 3), data, d);
    cr_assert_eq(tni_tensor_view(t, 2, sizes, strides, 0, &turned), TN_OK);
    fake_work(tn_stream_current(ctx, d));
    int32_t waited = f.synchronizes;
    cr_assert_eq(tn_to_host(s, turned, got, sizeof got), TN_OK);
    cr_assert_eq(f.synchronizes, waited + 1);
    cr_assert_eq(got[1], 3);
    cr_assert_eq(got[5], 5);
    f.fail_slot = 1;
    cr_assert_eq(tn_to_host(s, turned, got, sizeof got), TN_E_INTERNAL);
    tn_scope_clear(s);
    tn_clear_error();
    tn_release(turned);
}

static int32_t info_fails(void *self, void *device, uint64_t *out_free, uint64_t *out_total)
{
    return TN_E_IO;
}

Test(plugin_slots, memory_information)
{
    uint64_t free_bytes = 9, total = 9;
    tn_device d = add();
    cr_assert_eq(tn_device_memory(ctx, d, NULL, NULL), TN_OK);
    f.memory = 1 << 20;
    cr_assert_eq(tn_device_memory(ctx, d, &free_bytes, &total), TN_OK);
    cr_assert_eq(total, 1 << 20);
    tni_device_type *type = tni_device_type_find(ctx, TN_DEVICE_TYPE(d));
    type->driver.memory.info = info_fails;
    tni_device *device = tni_device_get(ctx, d);
    cr_assert_eq(tn_device_memory(ctx, d, &free_bytes, &total), TN_E_IO);
    cr_assert_not_null(strstr(tn_last_error()->message, "memory information failed"), "%s",
                       tn_last_error()->message);
    cr_assert_eq(tn_memory_set_fraction(ctx, d, 0.5), TN_E_IO);
    /* Out of memory is still told, with nothing known of the device. */
    tni_block *b = NULL;
    cr_assert_eq(tni_block_alloc(device, 2 << 20, device->default_stream, &b), TN_E_OUT_OF_MEMORY);
    cr_assert_not_null(strstr(tn_last_error()->message, " 2.00 MiB. 0 bytes is allocated by tensors"), "%s",
                       tn_last_error()->message);
    type->driver.memory.info = NULL;
    cr_assert_eq(tni_block_alloc(device, 2 << 20, device->default_stream, &b), TN_E_OUT_OF_MEMORY);
    cr_assert_eq(tn_device_memory(ctx, d, &free_bytes, &total), TN_OK);
    cr_assert_eq(free_bytes, 0);
    cr_assert_eq(total, 0, "facts of this device say nothing");
    REFUSED(tn_memory_set_fraction(ctx, d, 0.5), TN_E_UNSUPPORTED,
            "a fraction of the memory: plugin fake does not say how much its device has");
    tn_device missing = tn_device_parse(ctx, "odd:4");
    cr_assert_eq(tn_device_memory(ctx, missing, NULL, NULL), TN_E_DEVICE);
    cr_assert_eq(tn_memory_set_fraction(ctx, missing, 0.5), TN_E_DEVICE);
}

/* A user's allocator needs a device that takes memory of others. */
Test(plugin_slots, devices_that_take_no_allocator_of_the_user)
{
    fake own = {.type = "own", .count = 1, .device_class = TN_DEVICE_DISCRETE, .own_allocator = 1};
    tn_context *other = fake_context(NULL, &own);
    REFUSED(tn_memory_set_allocator(other, tn_device_parse(other, "own:0"), "lib.so", "a", "f"),
            TN_E_UNSUPPORTED, "memory_set_allocator: plugin fake has an allocator of its own");
    tn_context_destroy(other);
    REFUSED(tn_memory_set_allocator(ctx, add(), "lib.so", "a", "f"), TN_E_UNSUPPORTED,
            "memory_set_allocator: plugin fake takes no memory of other libraries (interop.import_pointer)");
    cr_assert_eq(f.opened, 1);
}

/* Options of the environment that a device cannot have keep it from being opened. */
Test(plugin_slots, options_of_the_environment)
{
    setenv("TENON_ALLOC_CONF", "no_cache:True", 1);
    fake own = {.type = "own", .count = 1, .device_class = TN_DEVICE_DISCRETE, .own_allocator = 1};
    fake plain = {.type = "plain", .count = 1, .device_class = TN_DEVICE_DISCRETE};
    tn_context *other = fake_context(NULL, &own);
    cr_assert_null(tni_device_get(other, tn_device_parse(other, "own:0")));
    expect_last(TN_E_UNSUPPORTED,
                "plugin fake has an allocator of its own: its devices have no cache to switch off");
    tn_context_destroy(other);
    cr_assert_eq(own.closed, 1);
    cr_assert_eq(own.live_streams, 0);
    setenv("TENON_ALLOC_CONF", "per_process_memory_fraction:0.5", 1);
    other = fake_context(NULL, &plain);
    cr_assert_null(tni_device_get(other, tn_device_parse(other, "plain:0")));
    expect_last(TN_E_UNSUPPORTED,
                "a fraction of the memory: plugin fake does not say how much its device has");
    tn_context_destroy(other);
    cr_assert_eq(plain.closed, 1);
    setenv("TENON_ALLOC_CONF", "", 1);
    other = fake_context(NULL, &plain);
    cr_assert_not_null(tni_device_get(other, tn_device_parse(other, "plain:0")));
    tn_context_destroy(other);
}

/* ---- Devices ----------------------------------------------------------------------------------------------- */

static int32_t native_fails(void *self, void *device, uint32_t kind, void *handle, uint64_t *out)
{
    return kind == TN_NATIVE_STREAM ? TN_E_IO : TN_E_UNSUPPORTED;
}

Test(plugin_slots, native_handles)
{
    tn_device d = add();
    uint64_t out = 77;
    tni_device *device = tni_device_get(ctx, d);
    cr_assert_eq(tn_device_native(ctx, d, TN_NATIVE_DEVICE, &out), TN_OK);
    cr_assert_eq(out, 0);
    REFUSED(tn_device_native(ctx, d, TN_NATIVE_CONTEXT, &out), TN_E_UNSUPPORTED,
            "plugin fake gives no native context handle");
    REFUSED(tn_device_native(ctx, d, TN_NATIVE_STREAM, &out), TN_E_ARGUMENT,
            "tn_device_native: argument 'kind': got 3, expected TN_NATIVE_DEVICE or _CONTEXT");
    REFUSED(tni_native(device, 0, NULL, &out), TN_E_ARGUMENT, "native: there is no kind 0 of native handles");
    REFUSED(tni_native(device, 5, NULL, &out), TN_E_ARGUMENT, "native: there is no kind 5 of native handles");
    cr_assert_eq(tn_device_native(ctx, tn_device_parse(ctx, "odd:3"), TN_NATIVE_DEVICE, &out), TN_E_DEVICE);
    device->type->driver.device.native = native_fails;
    cr_assert_eq(tn_stream_native(device->default_stream, &out), TN_E_IO);
    device->type->driver.device.native = NULL;
    REFUSED(tn_stream_native(device->default_stream, &out), TN_E_UNSUPPORTED,
            "plugin fake gives no native stream handle");
    cr_assert_eq(out, 0);
}

static int32_t status_of_device;
static const char *text_of_device;

static int32_t device_status(void *self, void *device)
{
    if (text_of_device) return tni_error(status_of_device, "%s", text_of_device);
    return status_of_device;
}

static char logged[256];

static void keep_line(void *user, int32_t level, const char *text)
{
    snprintf(logged, sizeof logged, "%s", text);
}

/* A device is lost once, for the first reason that the plugin tells. */
static void lose(const char *reason, const char *expected)
{
    char refused[128];
    driver.device.status = device_status;
    tn_device d = add();
    tni_device *device = tni_device_get(ctx, d);
    status_of_device = TN_E_IO;
    cr_assert_eq(tn_device_status(ctx, d), TN_E_IO);
    status_of_device = TN_OK;
    cr_assert_eq(tn_device_status(ctx, d), TN_OK);
    tni_device_check_lost(device->type);
    cr_assert_eq(tni_device_get(ctx, d), device, "it is there");
    status_of_device = TN_E_DEVICE_LOST;
    text_of_device = reason;
    ctx->log = keep_line;
    tni_error(TN_E_SHAPE, "sizes");
    tni_device_check_lost(device->type);
    cr_assert_eq(tn_last_error()->code, TN_E_SHAPE, "the error before is kept");
    ctx->log = NULL;
    snprintf(refused, sizeof refused, "device odd:0 is lost: %s", expected);
    cr_assert_str_eq(logged, refused);
    text_of_device = "another reason";
    tni_device_check_lost(device->type);
    cr_assert_null(tni_device_get(ctx, d));
    snprintf(refused, sizeof refused, "device odd:0 is lost, and its tensors with it: %s", expected);
    expect_last(TN_E_DEVICE_LOST, refused);
    cr_assert_eq(tn_device_status(ctx, d), TN_E_DEVICE_LOST);
}

Test(plugin_slots, a_device_lost_for_a_reason)
{
    lose("the cable is out", "the cable is out");
}

Test(plugin_slots, a_device_lost_without_a_reason)
{
    lose(NULL, tn_status_text(TN_E_DEVICE_LOST));
}

Test(plugin_slots, no_status)
{
    tn_device d = add();
    cr_assert_eq(tn_device_status(ctx, d), TN_OK);
    tni_device_check_lost(tni_device_get(ctx, d)->type);
    cr_assert_not_null(tni_device_get(ctx, d));
    cr_assert_eq(tn_device_status(ctx, tn_device_parse(ctx, "odd:2")), TN_E_DEVICE);
    cr_assert_eq(tn_device_count(NULL, NULL), 0);
    cr_assert_eq(tn_device_count(ctx, NULL), 4);
    cr_assert_eq(tn_device_count(ctx, "odd"), 1);
    tn_device_facts facts = {.size = sizeof facts};
    REFUSED(tn_device_get_facts(ctx, tn_device_parse(ctx, "odd:2"), &facts), TN_E_DEVICE,
            "device odd:2: there is only 1 of this type");
    REFUSED(tn_device_set_current(ctx, tn_device_parse(ctx, "none:0")), TN_E_DEVICE,
            "device none:0: no plugin offers this type (there are: cpu, gpu, odd)");
    cr_assert_eq(tn_device_get_facts(NULL, d, &facts), TN_E_ARGUMENT);
    cr_assert_eq(tn_device_set_current(NULL, d), TN_E_ARGUMENT);
}

/* A device that cannot be opened is missing for this reason. */
Test(plugin_slots, a_missing_device_that_does_not_open)
{
    char text[160];
    tn_device d = add();
    f.fail_slot = 1;
    cr_assert_null(tni_device_get(ctx, d | TN_DEVICE_MISSING));
    const char *last = tn_last_error()->message;
    snprintf(text, sizeof text, "%s", last);
    cr_assert_eq(strncmp(text, "missing device odd:0: opening a device", 38), 0, "%s", text);
    cr_assert_null(tni_device_get(ctx, d | TN_DEVICE_MISSING));
    expect_last(TN_E_DEVICE, "missing device odd:0: it could not be used when it was chosen");
    f.empty_slot = 1;
    f.fail_slot = 0;
    tn_context *other = fake_context(NULL, &f);
    cr_assert_null(tni_device_get(other, tn_device_parse(other, "odd:0")));
    expect_last(TN_E_CONTRACT, "plugin fake: open said it is done, but gave no handle");
    tn_context_destroy(other);
}

/* After a fork the child's devices, streams, events and tensors are refused, and releasing them does nothing. */
Test(plugin_slots, after_a_fork)
{
    tn_device d = tn_device_parse(ctx, "gpu:0");
    tn_stream *stream = NULL;
    tn_event *event = NULL;
    tni_block *b = NULL;
    const float one = 1;
    tn_tensor *on_cpu = tn_retain(tn_from_data(s, TN_FLOAT32, TN_INTS(1), &one, TN_CPU));
    tni_device *device = tni_device_get(ctx, d);
    cr_assert_eq(tn_stream_create(ctx, d, 0, &stream), TN_OK);
    cr_assert_eq(tn_event_create(ctx, d, 0, &event), TN_OK);
    cr_assert_eq(tni_block_alloc(device, 100, stream, &b), TN_OK);
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        int ok = !tni_device_get(ctx, d) && tn_last_error()->code == TN_E_FORKED;
        int32_t live = gpu.live_streams + gpu.live_events + gpu.live_allocations;
        tn_stream_release(stream);
        tn_event_release(event);
        tni_block_free(b);
        tn_release(on_cpu);
        ok = ok && live == gpu.live_streams + gpu.live_events + gpu.live_allocations;
        ok = ok && tn_stream_synchronize(stream) == TN_E_FORKED;
        _exit(ok ? 0 : 1);
    }
    expect_success_of(child);
    tn_stream_release(stream);
    tn_event_release(event);
    tni_block_free(b);
    tn_release(on_cpu);
}

/* ---- Events and callbacks ---------------------------------------------------------------------------------- */

static void count_call(void *user)
{
    ++*(int *)user;
}

/* An interface of events that cannot make one is as good as none, and so is one whose streams cannot wait. */
Test(plugin_slots, events_that_cannot_be_made)
{
    tn_stream *a = NULL, *b = NULL;
    tn_event *e = NULL;
    driver.event.create = NULL;
    driver.stream.wait_event = NULL;
    tn_device d = add();
    cr_assert_eq(tn_stream_create(ctx, d, 0, &a), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, d, 0, &b), TN_OK);
    REFUSED(tn_event_create(ctx, d, TN_EVENT_TIMING, &e), TN_E_UNSUPPORTED,
            "plugin fake has no events with timing");
    cr_assert_eq(tn_event_create(ctx, d, 0, &e), TN_OK);
    cr_assert_eq(tn_stream_wait_event(b, e), TN_OK, "not recorded: nothing to wait for");
    fake_work(a);
    cr_assert_eq(tn_event_record(e, a), TN_OK);
    cr_assert_eq(tn_event_query(e), 0);
    cr_assert_eq(tn_stream_wait_event(a, e), TN_OK, "its own stream is in order");
    cr_assert_eq(tn_event_query(e), 0);
    cr_assert_eq(tn_stream_wait_event(b, e), TN_OK);
    cr_assert_eq(tn_event_query(e), 1);
    cr_assert_eq(tn_stream_wait_stream(a, tn_stream_default(ctx, TN_CPU)), TN_OK);
    tn_event_release(e);
    tn_stream_release(a);
    tn_stream_release(b);
}

Test(plugin_slots, events_that_streams_cannot_wait_for)
{
    tn_stream *a = NULL, *b = NULL;
    driver.stream.wait_event = NULL;
    tn_device d = add();
    cr_assert_eq(tn_stream_create(ctx, d, 0, &a), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, d, 0, &b), TN_OK);
    fake_work(a);
    cr_assert_eq(tn_stream_wait_stream(b, a), TN_OK, "the host waits");
    cr_assert_eq(tn_stream_query(a), 1);
    tn_stream *other = tn_stream_current(ctx, tn_device_parse(ctx, "gpu:0"));
    fake_work(other);
    cr_assert_eq(tn_stream_wait_stream(a, other), TN_OK, "of another type");
    cr_assert_eq(tn_stream_query(other), 1);
    tn_stream_release(a);
    tn_stream_release(b);
}

Test(plugin_slots, callbacks)
{
    int calls = 0;
    fake asked = f;
    asked.type = "asked";
    asked.has_callbacks = 1;
    tn_device plain = add();
    static fake kept;
    kept = asked;
    driver = fake_driver(&kept);
    cr_assert_eq(tni_device_type_add(ctx, &driver), TN_OK);
    tn_stream *without = tn_stream_current(ctx, plain),
              *with = tn_stream_current(ctx, tn_device_parse(ctx, "asked:0"));
    fake_work(with);
    cr_assert_eq(tn_stream_add_callback(with, count_call, &calls), TN_OK);
    cr_assert_eq(calls, 0);
    fake_finish(with);
    cr_assert_eq(calls, 1);
    kept.fail_slot = 1;
    cr_assert_eq(tn_stream_add_callback(with, count_call, &calls), TN_E_INTERNAL);
    cr_assert_eq(calls, 1);
    fake_work(without);
    cr_assert_eq(tn_stream_add_callback(without, count_call, &calls), TN_OK, "the host waits, and calls it");
    cr_assert_eq(calls, 2);
    cr_assert_eq(tn_stream_add_callback(tn_stream_default(ctx, TN_CPU), count_call, &calls), TN_OK);
    cr_assert_eq(calls, 3);
    REFUSED(tn_stream_add_callback(with, NULL, NULL), TN_E_ARGUMENT, "stream_add_callback: callback is NULL");
}
