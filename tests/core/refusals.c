/* SPDX-License-Identifier: Apache-2.0 */
/* What the core's functions refuse, and the text of each refusal. */
#include <criterion/criterion.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/inspect.h>
#include <tenon/plugin.h>
#include "core/current.h"
#include "core/dlpack.h"
#include "core/dtype.h"
#include "core/finding.h"
#include "core/io/safetensors.h"
#include "core/scope.h"
#include "core/transfer.h"
#include "fixture.h"
#include "refused.h"

TestSuite(refusals, .init = open_fakes, .fini = close_fakes);

/* ---- Elements and host memory -------------------------------------------------------------------------------- */

Test(refusals, tensors_from_data)
{
    static const int64_t many[TN_MAX_RANK + 1];
    const float one = 1;
    char text[80];
    cr_assert_null(tn_from_data(s, TN_FLOAT32, TN_INTS(1), NULL, TN_CPU));
    expect_scope(TN_E_ARGUMENT, "tn_from_data: data is NULL");
    cr_assert_null(tn_from_data(s, 77, TN_INTS(1), &one, TN_CPU));
    expect_scope(TN_E_DTYPE, "tn_from_data: 0x4d is not a dtype");
    snprintf(text, sizeof text, "tensors have 0 to %d dimensions, not %d", TN_MAX_RANK, TN_MAX_RANK + 1);
    cr_assert_null(tn_from_data(s, TN_FLOAT32, (tn_ints){many, TN_MAX_RANK + 1}, &one, TN_CPU));
    expect_scope(TN_E_SHAPE, text);
    snprintf(text, sizeof text, "tensors have 0 to %d dimensions, not -1", TN_MAX_RANK);
    cr_assert_null(tn_from_data(s, TN_FLOAT32, (tn_ints){many, -1}, &one, TN_CPU));
    expect_scope(TN_E_SHAPE, text);
    snprintf(text, sizeof text, "tensors have 0 to %d dimensions, not 2", TN_MAX_RANK);
    cr_assert_null(tn_from_data(s, TN_FLOAT32, (tn_ints){NULL, 2}, &one, TN_CPU));
    expect_scope(TN_E_SHAPE, text);
    cr_assert_not_null(tn_from_data(s, TN_FLOAT32, TN_INTS(0), NULL, TN_CPU), "nothing to read");
}

static void count_deletion(void *user)
{
    ++*(int *)user;
}

Test(refusals, tensors_on_memory_of_the_program)
{
    float data[4] = {1, 2, 3, 4};
    int deleted = 0;
    const int64_t sizes[] = {2, 2}, huge[] = {INT64_MAX / 4, 1}, strides[] = {2, 1};
    const struct {
        tn_blob blob;
        int32_t status;
        const char *text;
    } cases[] = {
        {{.dtype = 77, .data = data, .sizes = {sizes, 2}}, TN_E_DTYPE, "tn_from_blob: 0x4d is not a dtype"},
        {{.dtype = TN_FLOAT32, .sizes = {sizes, 2}}, TN_E_ARGUMENT, "tn_from_blob: data is NULL"},
        {{.dtype = TN_FLOAT32, .data = data, .sizes = {sizes, 2}, .storage_offset = -1},
         TN_E_ARGUMENT,
         "tn_from_blob: storage_offset is negative"},
        {{.dtype = TN_FLOAT32, .data = data, .sizes = {sizes, 2}, .strides = {strides, 1}},
         TN_E_SHAPE,
         "tn_from_blob: 2 sizes, but 1 strides"},
        {{.dtype = TN_COMPLEX128, .data = data, .sizes = {huge, 2}, .strides = {strides, 2}},
         TN_E_SHAPE,
         "tn_from_blob: the sizes are too large"},
        {{.dtype = TN_FLOAT32, .data = data, .sizes = {sizes, 2}, .storage_offset = INT64_MAX},
         TN_E_SHAPE,
         "tn_from_blob: the sizes are too large"},
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        tn_blob b = cases[i].blob;
        b.size = sizeof b;
        b.deleter = count_deletion;
        b.user = &deleted;
        cr_assert_null(tn_from_blob(s, &b));
        expect_scope(cases[i].status, cases[i].text);
        cr_assert_eq(deleted, i + 1, "the memory is given back once");
    }
    deleted = 0;
    tn_blob b = {.size = 4, .deleter = count_deletion, .user = &deleted};
    cr_assert_null(tn_from_blob(s, &b));
    cr_assert(tn_scope_failed(s));
    b.size = sizeof b;
    cr_assert_null(tn_from_blob(s, &b)); /* the scope has failed before */
    cr_assert_eq(deleted, 1);
    tn_scope_clear(s);
}

Test(refusals, elements_as_numbers)
{
    const double half = 0.5, complex_one[] = {1, 2}, plain[] = {3, 0}, large[] = {1e300, -1e300, NAN};
    const uint64_t most = UINT64_MAX;
    const int8_t stored[] = {5, 6};
    double pair[2] = {9, 9};
    tn_tensor *z = tn_from_data(s, TN_COMPLEX128, TN_NO_INTS, complex_one, TN_CPU);
    tn_tensor *real = tn_from_data(s, TN_COMPLEX128, TN_NO_INTS, plain, TN_CPU);
    tn_tensor *u = tn_from_data(s, TN_UINT64, TN_NO_INTS, &most, TN_CPU);
    tn_tensor *q = tn_from_data(s, TN_QINT8, TN_NO_INTS, stored, TN_CPU);
    tn_tensor *two = tn_from_data(s, TN_INT8, TN_INTS(2), stored, TN_CPU);
    cr_assert(isnan(tn_item_double(s, z)));
    expect_scope(TN_E_DTYPE, "item: a complex number with an imaginary part cannot be made real");
    cr_assert_eq(tn_item_int(s, z), 0);
    expect_scope(TN_E_DTYPE, "item: a complex number with an imaginary part cannot be made real");
    cr_assert_eq(tn_item_double(s, real), 3);
    cr_assert_eq(tn_item_int(s, real), 3);
    cr_assert(tn_item_bool(s, z) && tn_item_bool(s, real));
    cr_assert_eq(tn_item_complex(s, z, pair), TN_OK);
    cr_assert(pair[0] == 1 && pair[1] == 2);
    cr_assert_eq(tn_item_double(s, u), 18446744073709551615.0);
    cr_assert_eq(tn_item_int(s, u), 0);
    expect_scope(TN_E_ARGUMENT, "item: 18446744073709551615 is not a signed 64-bit integer");
    cr_assert_eq(tn_item_int(s, tn_from_data(s, TN_UINT64, TN_NO_INTS, &(uint64_t){INT64_MAX}, TN_CPU)),
                 INT64_MAX);
    cr_assert_eq(tn_item_complex(s, u, pair), TN_OK);
    cr_assert(pair[0] == 18446744073709551615.0 && pair[1] == 0);
    cr_assert_eq(tn_item_complex(s, tn_from_data(s, TN_FLOAT64, TN_NO_INTS, &half, TN_CPU), pair), TN_OK);
    cr_assert(pair[0] == 0.5 && pair[1] == 0);
    const char *const texts[] = {"item: 1e+300 is not a signed 64-bit integer",
                                 "item: -1e+300 is not a signed 64-bit integer"};
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(tn_item_int(s, tn_from_data(s, TN_FLOAT64, TN_NO_INTS, &large[i], TN_CPU)), 0);
        expect_scope(TN_E_ARGUMENT, texts[i]);
    }
    cr_assert_eq(tn_item_int(s, tn_from_data(s, TN_FLOAT64, TN_NO_INTS, &large[2], TN_CPU)), 0);
    cr_assert(tn_scope_failed(s));
    tn_scope_clear(s);
    tn_item_double(s, q);
    expect_scope(TN_E_DTYPE, "a quantised tensor has no plain value");
    cr_assert_eq(tn_item_complex(s, two, pair), TN_E_ARGUMENT);
    expect_scope(TN_E_ARGUMENT, "item: a Tensor with 2 elements cannot be converted to Scalar");
}

Test(refusals, scalars_as_tensors)
{
    cr_assert_null(tn_scalar_tensor_of(s, tn_value_string("1"), 0, TN_CPU));
    cr_assert(strstr(tn_scope_error(s)->message, "tn_scalar_tensor_of: the value is not a number (tag "));
    tn_scope_clear(s);
    cr_assert_null(tn_scalar_tensor_of(s, tn_value_int(1), 77, TN_CPU));
    expect_scope(TN_E_DTYPE, "tn_scalar_tensor_of: 0x4d is not a dtype");
    cr_assert_eq(tn_item_int(s, tn_scalar_tensor_of(s, tn_value_bool(1), TN_INT64, 0)), 1);
}

/* ---- DLPack ---------------------------------------------------------------------------------------------------- */

Test(refusals, dlpack)
{
    float data[4] = {0};
    int64_t sizes[] = {2, 2}, strides[] = {2, -1}, huge[] = {INT64_MAX / 4, 1};
    const DLManagedTensorVersioned sound = {
        .version = {1, 0},
        .dl_tensor = {
            .data = data, .device = {DLPACK_CPU, 0}, .ndim = 2, .dtype = {2, 32, 1}, .shape = sizes}};
    struct {
        DLManagedTensorVersioned m;
        int32_t status;
        const char *text;
    } cases[] = {
        {sound, TN_E_VERSION, "tn_from_dlpack: version 2.0 of DLPack; this library knows 1.x"},
        {sound, TN_E_UNSUPPORTED,
         "tn_from_dlpack: no device here has memory of DLPack's device type 2, number 0"},
        {sound, TN_E_DTYPE, "tn_from_dlpack: no dtype for code 2 of 32 bits in 4 lanes"},
        {sound, TN_E_DTYPE, "tn_from_dlpack: no dtype for code 2 of 33 bits in 1 lanes"},
        {sound, TN_E_SHAPE, "tn_from_dlpack: -1 dimensions"},
        {sound, TN_E_SHAPE, "tn_from_dlpack: 1000 dimensions"},
        {sound, TN_E_SHAPE, "tn_from_dlpack: 2 dimensions"},
        {sound, TN_E_UNSUPPORTED, "tn_from_dlpack: negative strides are not supported"},
        {sound, TN_E_ARGUMENT, "tn_from_dlpack: data is NULL"},
        {sound, TN_E_SHAPE, "tn_from_dlpack: the sizes are too large"},
    };
    cases[0].m.version.major = 2;
    cases[1].m.dl_tensor.device.device_type = 2;
    cases[2].m.dl_tensor.dtype.lanes = 4;
    cases[3].m.dl_tensor.dtype.bits = 33;
    cases[4].m.dl_tensor.ndim = -1;
    cases[5].m.dl_tensor.ndim = 1000;
    cases[6].m.dl_tensor.shape = NULL;
    cases[7].m.dl_tensor.strides = strides;
    cases[8].m.dl_tensor.data = NULL;
    cases[9].m.dl_tensor.shape = huge;
    cases[9].m.dl_tensor.dtype = (DLDataType){2, 64, 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_null(tn_from_dlpack(s, &cases[i].m)); /* no deleter: nothing to call */
        expect_scope(cases[i].status, cases[i].text);
    }
    const uint8_t byte = 0;
    DLManagedTensorVersioned *out = NULL;
    cr_assert_eq(tn_to_dlpack(tn_from_data(s, TN_QUINT8, TN_NO_INTS, &byte, TN_CPU), &out), TN_E_DTYPE);
    expect_last(TN_E_DTYPE, "tn_to_dlpack: DLPack has no dtype quint8");
}

/* ---- Scopes ---------------------------------------------------------------------------------------------------- */

Test(refusals, options_of_a_scope)
{
    static const struct {
        tn_scope_options options;
        const char *text;
    } cases[] = {
        {{.grad_mode = 9}, "tn_scope_options: unknown grad_mode 9 (expected TN_GRAD_...)"},
        {{.flags = 8}, "tn_scope_options: unknown flags 0x8"},
        {{.autocast = 9}, "tn_scope_options: unknown autocast 9 (expected TN_SCOPE_AUTOCAST_...)"},
        {{.autocast_dtype = TN_FLOAT32}, "tn_scope_options: autocast_dtype must be float16 or bfloat16"},
        {{.autocast_device = TN_DEVICE_MISSING},
         "tn_scope_options: autocast_device is a device that is missing"},
        {{.default_dtype = TN_INT32},
         "tn_scope_options: default_dtype must be float16, bfloat16, float32 or float64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_scope_options o = cases[i].options;
        o.size = sizeof o;
        tn_scope *child = tn_scope_open_with(ctx, &o);
        cr_assert_str_eq(tn_scope_error(child)->message, cases[i].text);
        tn_scope_close(child);
    }
    static const tn_dtype sound[] = {TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64};
    for (int i = 0; i < 4; i++) {
        const tn_scope_options o = {
            .size = sizeof o, .default_dtype = sound[i], .autocast_dtype = i < 2 ? sound[i] : 0};
        tn_scope *child = tn_scope_open_with(ctx, &o);
        cr_assert_not(tn_scope_failed(child));
        cr_assert_eq(tni_default_dtype(ctx), sound[i]);
        tn_scope_close(child);
    }
}

/* ---- Devices ------------------------------------------------------------------------------------------------- */

Test(refusals, drivers_without_a_required_slot)
{
#define AT(slot) offsetof(tni_driver, slot)
    static const struct {
        const char *interface;
        size_t slots[4];
    } cases[] = {
        {"tenon.device", {AT(device.enumerate), AT(device.facts), AT(device.open), AT(device.close)}},
        {"tenon.memory", {AT(memory.alloc), AT(memory.free)}},
        {"tenon.copy", {AT(copy.host_to_device), AT(copy.device_to_host), AT(copy.device_to_device)}},
        {"tenon.stream", {AT(stream.create), AT(stream.destroy), AT(stream.query), AT(stream.synchronize)}},
    };
#undef AT
    fake other = {.type = "other", .count = 1};
    for (size_t i = 0; i < 4 * sizeof cases / sizeof *cases; i++) {
        char text[80];
        const size_t slot = cases[i / 4].slots[i % 4];
        if (!slot) continue;
        tni_driver d = fake_driver(&other);
        memset((char *)&d + slot, 0, sizeof(void *));
        snprintf(text, sizeof text, "plugin fake: a required slot of %s is absent", cases[i / 4].interface);
        cr_assert_eq(tni_device_type_add(ctx, &d), TN_E_CONTRACT);
        expect_last(TN_E_CONTRACT, text);
    }
    static const char *const names[] = {NULL, "", "a:b"};
    for (int i = 0; i < 3; i++) {
        tni_driver d = fake_driver(&other);
        d.device.type = names[i];
        cr_assert_eq(tni_device_type_add(ctx, &d), TN_E_CONTRACT);
        expect_last(TN_E_CONTRACT, "plugin fake: a device type needs a name without ':'");
    }
}

/* Facts of a device as one number asks for them. */
static int32_t odd_facts;

static int32_t facts_of_odd_devices(void *self, uint32_t index, tn_device_facts *out)
{
    static const uint32_t alignments[] = {3, 128u << 20};
    static const int32_t statuses[] = {-5, 4711, TN_E_DEVICE};
    (void)self, (void)index;
    if (odd_facts < 2) out->alignment = alignments[odd_facts];
    if (odd_facts == 2) memset((char *)out + out->size, 1, 8);
    return odd_facts < 3 ? TN_OK : statuses[odd_facts - 3];
}

Test(refusals, facts_that_no_device_has)
{
    static const refused_status cases[] = {
        {TN_E_CONTRACT, "plugin fake: an alignment of 3 bytes (a power of two, at most 67108864)"},
        {TN_E_CONTRACT, "plugin fake: an alignment of 134217728 bytes (a power of two, at most 67108864)"},
        {TN_E_CONTRACT, "plugin fake: facts wrote past the "},
        {TN_E_CONTRACT, "plugin fake: facts of a device returned -5, which is not a valid status"},
        {TN_E_CONTRACT, "plugin fake: facts of a device returned 4711, which is not a valid status"},
        {TN_E_DEVICE, "facts of a device"},
    };
    static const char *const types[] = {"odd0", "odd1", "odd2",
                                        "odd3", "odd4", "odd5"}; /* the context keeps them */
    for (odd_facts = 0; odd_facts < 6; odd_facts++) {
        const char *type = types[odd_facts];
        fake odd = {.type = type, .count = 1, .device_class = TN_DEVICE_DISCRETE};
        tni_driver d = fake_driver(&odd);
        d.device.facts = facts_of_odd_devices;
        cr_assert_eq(tni_device_type_add(ctx, &d), TN_OK);
        cr_assert_eq(tn_device_count(ctx, type), 0);
        cr_assert_eq(tn_last_error()->code, cases[odd_facts].status, "%d", odd_facts);
        cr_expect_not_null(strstr(tn_last_error()->message, cases[odd_facts].text), "%s",
                           tn_last_error()->message);
    }
    const tni_driver d = fake_driver(&gpu);
    cr_assert_eq(tni_device_type_add(ctx, &d), TN_E_EXISTS);
    expect_last(TN_E_EXISTS, "device type 'gpu' is already there");
}

/* A slot that says it is done and gives nothing. */
static int32_t make_nothing(void *self, void *device, uint32_t flags, void **out)
{
    (void)self, (void)device, (void)flags;
    *out = NULL;
    return TN_OK;
}

static int32_t open_nothing(void *self, uint32_t index, const tn_device_options *options, void **out)
{
    (void)self, (void)index, (void)options;
    *out = NULL;
    return TN_OK;
}

Test(refusals, handles_that_are_missing)
{
    tn_event *event = NULL;
    static fake none[] = {{.type = "closed", .count = 1, .device_class = TN_DEVICE_DISCRETE},
                          {.type = "eventless", .count = 1, .device_class = TN_DEVICE_DISCRETE}};
    tni_driver d = fake_driver(&none[0]);
    d.device.open = open_nothing;
    cr_assert_eq(tni_device_type_add(ctx, &d), TN_OK);
    cr_assert_null(tni_device_get(ctx, tn_device_parse(ctx, "closed:0")));
    cr_expect_not_null(
        strstr(tn_last_error()->message, "plugin fake: open said it is done, but gave no handle"), "%s",
        tn_last_error()->message);
    d = fake_driver(&none[1]);
    d.event.create = make_nothing;
    cr_assert_eq(tni_device_type_add(ctx, &d), TN_OK);
    cr_assert_eq(tn_event_create(ctx, tn_device_parse(ctx, "eventless:0"), 0, &event), TN_E_CONTRACT);
    expect_last(TN_E_CONTRACT, "plugin fake: event.create said it is done, but gave no handle");
    cr_assert_null(event);
}

Test(refusals, events)
{
    tn_event *event = NULL, *other = NULL;
    double ms;
    static fake mute = {.type = "mute", .count = 1, .device_class = TN_DEVICE_DISCRETE, .no_events = 1};
    const tni_driver d = fake_driver(&mute);
    cr_assert_eq(tni_device_type_add(ctx, &d), TN_OK);
    cr_assert_eq(tn_event_create(ctx, tn_device_parse(ctx, "mute:0"), TN_EVENT_TIMING, &event),
                 TN_E_UNSUPPORTED);
    expect_last(TN_E_UNSUPPORTED, "plugin fake has no events with timing");
    cr_assert_eq(tn_event_create(ctx, TN_CPU, TN_EVENT_TIMING, &event), TN_OK);
    cr_assert_eq(tn_event_create(ctx, tn_device_parse(ctx, "gpu:0"), TN_EVENT_TIMING, &other), TN_OK);
    cr_assert_eq(tn_event_elapsed(event, other, &ms), TN_E_DEVICE);
    expect_last(TN_E_DEVICE, "the two events are of different devices");
    tn_event_release(event);
    cr_assert_eq(tn_event_create(ctx, tn_device_parse(ctx, "gpu:0"), TN_EVENT_TIMING, &event), TN_OK);
    cr_assert_eq(tn_event_record(event, tn_stream_current(ctx, tn_device_parse(ctx, "gpu:0"))), TN_OK);
    cr_assert_neq(tn_event_elapsed(event, other, &ms), TN_OK, "one of them was never recorded");
    cr_assert_neq(tn_event_elapsed(other, event, &ms), TN_OK);
    tn_event_release(event);
    tn_event_release(other);
    tn_event_release(NULL);
}

Test(refusals, half_of_an_allocator)
{
    counting c = {0};
    tn_context *own = NULL;
    tn_context_options options = {.size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY};
    options.allocator = counting_allocator(&c);
    options.allocator.free = NULL;
    cr_assert_eq(tn_context_create(&options, &own), TN_E_ARGUMENT);
    expect_last(TN_E_ARGUMENT, "tn_context_options: allocator needs both alloc and free");
    options.allocator = counting_allocator(&c);
    options.allocator.alloc = NULL;
    cr_assert_eq(tn_context_create(&options, &own), TN_E_ARGUMENT);
    cr_assert_eq(c.calls, 0);
}

Test(refusals, more_devices_than_there_can_be)
{
    fake crowd = {.type = "crowd", .count = INT16_MAX + 1};
    tni_driver d = fake_driver(&crowd);
    cr_assert_eq(tni_device_type_add(ctx, &d), TN_OK);
    cr_assert_eq(tn_device_count(ctx, "crowd"), 0);
    expect_last(TN_E_CONTRACT, "plugin fake reports 32768 devices");
    fake none[TNI_MAX_DEVICE_TYPES];
    char names[TNI_MAX_DEVICE_TYPES][16], text[80];
    int32_t status = TN_OK;
    for (int i = 0; i < TNI_MAX_DEVICE_TYPES && !status; i++) {
        snprintf(names[i], sizeof names[i], "type%d", i);
        none[i] = (fake){.type = names[i], .count = 0};
        d = fake_driver(&none[i]);
        status = tni_device_type_add(ctx, &d);
    }
    snprintf(text, sizeof text, "more than %d device types in one context", TNI_MAX_DEVICE_TYPES);
    cr_assert_eq(status, TN_E_UNSUPPORTED);
    expect_last(TN_E_UNSUPPORTED, text);
    cr_assert_null(tni_device_get(ctx, tn_device_parse(ctx, "type0:0")));
    expect_last(TN_E_DEVICE, "device type0:0: the plugin found no device");
}

Test(refusals, devices_by_odd_numbers)
{
    cr_assert_null(tni_device_get(ctx, 0));
    expect_last(TN_E_DEVICE, "no device was given");
    cr_assert_null(tni_device_get(ctx, TN_DEVICE(TN_INTERNED_CPU, -7)));
    expect_last(TN_E_DEVICE, "device cpu: the index -7 is not one of a device");
    cr_assert_eq(tn_device_count(NULL, NULL), 0);
    uint64_t bytes = 0;
    gpu.memory = 4096;
    cr_assert_eq(tn_device_memory(ctx, tn_device_parse(ctx, "gpu:0"), &bytes, NULL), TN_OK);
    cr_assert_eq(bytes, 4096);
    cr_assert_eq(tn_device_memory(ctx, tn_device_parse(ctx, "gpu:0"), NULL, &bytes), TN_OK);
}

Test(refusals, texts_of_devices)
{
    char text[32] = "kept";
    cr_assert_eq(tn_device_format(ctx, TN_CPU, NULL, 8), NULL);
    cr_assert_str_eq(tn_device_format(ctx, TN_CPU, text, 0), "kept");
    cr_assert_str_eq(tn_device_format(ctx, 0, text, sizeof text), "none");
    cr_assert_str_eq(tn_device_format(ctx, TN_DEVICE(9999, 1), text, sizeof text), "unknown:1");
    cr_assert_str_eq(tn_device_format(NULL, TN_CPU, text, sizeof text), "unknown");
    static const char *const odd[] = {"1gpu", "gpu:", "gpu:01", "gpu:99999999999", "gpu:1x", "gpu-1", ":1"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char expected[64];
        snprintf(expected, sizeof expected, "Invalid device string: '%s'", odd[i]);
        cr_assert(tn_device_parse(ctx, odd[i]) & TN_DEVICE_MISSING, "%s", odd[i]);
        expect_last(TN_E_DEVICE, expected);
    }
    cr_assert_eq(TN_DEVICE_INDEX(tn_device_parse(ctx, "G_pu2:12")), 12);
}

/* Equal in class and speed: bandwidth, then memory decide. */
static int32_t facts_by_index(void *self, uint32_t index, tn_device_facts *out)
{
    static const uint64_t bandwidth[] = {5, 7, 7, 7}, memory[] = {9, 1, 2, 1};
    (void)self;
    out->device_class = TN_DEVICE_ACCELERATOR;
    out->memory_kinds = TN_MEMORY_DEVICE | TN_MEMORY_UNIFIED;
    out->bandwidth = bandwidth[index];
    out->total_memory = memory[index];
    return TN_OK;
}

static int32_t facts_of_a_later_class(void *self, uint32_t index, tn_device_facts *out)
{
    (void)self, (void)index;
    out->device_class = 77;
    out->memory_kinds = TN_MEMORY_UNIFIED;
    return TN_OK;
}

Test(refusals, rank_of_devices_of_one_class)
{
    const char *why = NULL;
    unsetenv("TENON_DEVICE");
    fake fast = {.type = "fast", .count = 4}, later = {.type = "later", .count = 1},
         none = {.type = "none", .count = 0, .reason = "no card"};
    tn_context *own = fake_context(NULL, NULL);
    tni_driver d = fake_driver(&none);
    cr_assert_eq(tni_device_type_add(own, &d), TN_OK);
    cr_assert_eq(tn_device_choose(own, NULL, NULL),
                 TN_DEVICE_MISSING | TN_DEVICE(tn_intern(own, "best"), -1));
    expect_last(TN_E_DEVICE, "no device to choose: no device; none: no card");
    cr_assert_eq(tn_device_at(own, 0), TN_DEVICE_MISSING);
    expect_last(TN_E_INDEX, "device_at: argument 'i': there are no devices (got 0)");
    d = fake_driver(&later);
    d.device.facts = facts_of_a_later_class;
    cr_assert_eq(tni_device_type_add(own, &d), TN_OK);
    cr_assert_eq(tn_device_choose(own, "", &why), tn_device_parse(own, "later:0"));
    cr_assert_not_null(strstr(why, "later:0 (, unknown) is the best of 1"), "%s", why);
    d = fake_driver(&fast);
    d.device.facts = facts_by_index;
    cr_assert_eq(tni_device_type_add(own, &d), TN_OK);
    static const char *const order[] = {"fast:2", "fast:1", "fast:3", "fast:0", "later:0"};
    for (int32_t i = 0; i < 5; i++)
        cr_assert_eq(tn_device_at(own, i), tn_device_parse(own, order[i]), "%s", order[i]);
    setenv("TENON_DEVICE", "best", 1);
    cr_assert_eq(tn_device_choose(own, NULL, &why), tn_device_parse(own, "fast:2"));
    cr_assert_not_null(strstr(why, "; none: no card"), "%s", why);
    setenv("TENON_DEVICE", "", 1);
    cr_assert_eq(tn_device_choose(own, NULL, &why), tn_device_parse(own, "fast:2"));
    tn_context_destroy(own);
}

/* ---- Current streams ------------------------------------------------------------------------------------------- */

/* A thread remembers so many; those of other contexts are forgotten first. */
Test(refusals, more_current_devices_than_a_thread_remembers)
{
    tn_context *other = fake_context(NULL, NULL);
    int32_t status = TN_OK;
    uint32_t type = 1;
    cr_assert_eq(tni_current_set_index(other, 1, 5), TN_OK);
    for (; !status && type < 10000; type++) status = tni_current_set_index(ctx, type, 1);
    cr_assert_eq(status, TN_E_UNSUPPORTED);
    cr_assert_not_null(strstr(tn_last_error()->message, "current devices and streams on one thread"));
    cr_assert_eq(tni_current_index(other, 1), 0, "forgotten");
    for (uint32_t k = 1; k + 1 < type; k++) {
        cr_assert_eq(tni_current_index(ctx, k), 1);
        cr_assert_eq(tni_current_set_index(ctx, k, 0), TN_OK);
    }
    cr_assert_eq(tni_current_set_index(ctx, type, 3), TN_OK);
    cr_assert_eq(tni_current_index(ctx, type), 3);
    tn_context_destroy(other);
}

/* ---- Findings -------------------------------------------------------------------------------------------------- */

Test(refusals, findings_are_counted_and_limited)
{
    tn_finding f = {.size = sizeof f, .kind = "leak"};
    cr_assert_eq(tni_report(ctx, &f), TN_E_ARGUMENT);
    expect_last(TN_E_ARGUMENT, "tn_finding: kind and text are required");
    char text[32];
    f.text = text;
    for (int i = 0; i < 1005; i++) {
        snprintf(text, sizeof text, "%d", i);
        cr_assert_eq(tni_report(ctx, &f), TN_OK);
    }
    snprintf(text, sizeof text, "7"); /* known: counted, not kept again */
    cr_assert_eq(tni_report(ctx, &f), TN_OK);
    cr_assert_eq(tn_inspect_finding_count(ctx), 1000);
    cr_assert_eq(tn_inspect_finding_dropped(ctx), 5);
    cr_assert_eq(tn_inspect_finding_dropped(NULL), 0);
    tn_finding out = {.size = sizeof out};
    cr_assert_eq(tn_inspect_finding(ctx, 7, &out), TN_OK);
    cr_assert_eq(out.count, 2);
    cr_assert_str_eq(out.finder, "host");
    cr_assert_str_eq(out.plugin, "?");
    cr_assert_eq(tn_inspect_finding(ctx, 1000, &out), TN_E_INDEX);
    expect_last(TN_E_INDEX, "inspect_finding: no finding 1000");
}

/* Each text decides whether two findings are the same. */
Test(refusals, findings_that_differ_in_one_text)
{
    tn_finding base = {
        .size = sizeof base, .kind = "k", .finder = "f", .plugin = "p", .text = "t", .slot = "s", .op = "o"};
    const char **const texts[] = {&base.kind, &base.finder, &base.plugin, &base.text, &base.slot, &base.op};
    cr_assert_eq(tni_report(ctx, &base), TN_OK);
    for (uint32_t i = 0; i < 6; i++) {
        const char *before = *texts[i];
        *texts[i] = "other";
        cr_assert_eq(tni_report(ctx, &base), TN_OK);
        cr_assert_eq(tn_inspect_finding_count(ctx), i + 2);
        *texts[i] = before;
    }
    base.op = NULL;
    cr_assert_eq(tni_report(ctx, &base), TN_OK);
    cr_assert_eq(tn_inspect_finding_count(ctx), 8);
}

/* ---- What plugins call ----------------------------------------------------------------------------------------- */

Test(refusals, slots_of_the_host_without_a_scope)
{
    const tn_host *host = &ctx->host;
    cr_assert_eq(host->scope_failed(NULL), TN_E_CONTRACT);
    expect_last(TN_E_CONTRACT, "scope_failed: no scope (only composites and gradients have one)");
    cr_assert_eq(host->scope_fail(NULL, TN_E_SHAPE, "x"), TN_E_CONTRACT);
    expect_last(TN_E_CONTRACT, "scope_fail: no scope (only composites and gradients have one)");
    cr_assert_null(host->scope_memory(NULL, 8));
    expect_last(TN_E_CONTRACT, "scope_memory: no scope (only composites and gradients have one)");
    host->drop(NULL, NULL);
    cr_assert_null(tn_last_error());
    char *memory = host->scope_memory(s, 8);
    memcpy(memory, "1234567", 8);
    const float one = 1;
    host->drop(s, tn_from_data(s, TN_FLOAT32, TN_NO_INTS, &one, TN_CPU));
    cr_assert_eq(host->scope_fail(s, TN_E_SHAPE, NULL), TN_E_SHAPE);
    cr_assert_eq(host->scope_failed(s), TN_E_SHAPE);
    tn_scope_clear(s);
    cr_assert_str_eq(memory, "1234567");
}

Test(refusals, findings_without_memory)
{
    counting c = {0};
    tn_context_options options = {.size = sizeof options,
                                  .flags = TN_CONTEXT_NO_DISCOVERY | TN_CONTEXT_DEBUG_HANDLES};
    tn_context *own = NULL;
    options.allocator = counting_allocator(&c);
    cr_assert_eq(tn_context_create(&options, &own), TN_OK);
    const tn_finding f = {
        .size = sizeof f, .kind = "k", .text = "t", .op = "o", .slot = "s", .place = "p", .other = ""};
    int64_t before = c.live;
    int32_t n = 1;
    for (; n < 100; n++) {
        c.fail_at = c.calls + n;
        int32_t status = tni_report(own, &f);
        if (status == TN_OK) break;
        cr_assert_eq(status, TN_E_OUT_OF_MEMORY);
        cr_assert_eq(c.live, before);
        cr_assert_eq(tn_inspect_finding_count(own), 0);
    }
    cr_assert_gt(n, 5);
    cr_assert_eq(tn_inspect_finding_count(own), 1);
    const tn_finding later = {.size = 4};
    cr_assert_neq(tni_report(own, &later), TN_OK);
    const tn_finding no_text = {.size = sizeof no_text, .text = "t"};
    cr_assert_eq(tni_report(own, &no_text), TN_E_ARGUMENT);
    tn_context_destroy(own);
    cr_assert_eq(c.live, 0);
}

/* ---- Text and numbers ------------------------------------------------------------------------------------------ */

/* Well-formed bytes are those of table 3-7 of the Unicode standard. */
Test(refusals, bytes_that_are_not_utf8)
{
    static const char *const good[] = {"",
                                       "a",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xe1\x80\xbf",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xf0\x90\x80\x80",
                                       "\xf3\xbf\xbf\xbf",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc2",
                                      "\xc2\x41",
                                      "\xc2\xc0",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xe1\x80",
                                      "\xe1\x80\x41",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xf1\x80\x80",
                                      "\xf1\x80\x80\x41"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        cr_expect(tni_utf8_check(good[i], strlen(good[i])), "%zu", i);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_not(tni_utf8_check(bad[i], strlen(bad[i])), "%zu", i);
    cr_expect_not(tni_utf8_check("a\0b", 3));
}

Test(refusals, numbers_that_are_not_dtypes)
{
    const tn_dtype odd = 77, wide = TN_DTYPE(TN_CODE_COMPLEX, 8);
    cr_assert_not(tn_dtype_is_floating(odd));
    cr_assert_not(tn_dtype_is_complex(wide));
    cr_assert_eq(tn_promote_types(odd, TN_FLOAT32), 0);
    cr_assert_eq(tn_promote_types(TN_FLOAT32, odd), 0);
    cr_assert_not(tn_can_cast(odd, TN_FLOAT32));
    cr_assert_not(tn_can_cast(TN_FLOAT32, odd));
    cr_assert_str_eq(tni_dtype_error_name(odd), "an unknown dtype");
    cr_assert_str_eq(tni_dtype_error_name(TN_FLOAT8_E5M2), "float8_e5m2");
}
