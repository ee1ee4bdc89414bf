/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of an OpenCL device, and buffers that other libraries of its context share with it (DLPack). */
#include <criterion/criterion.h>
#include <string.h>
#include <tenon/tenon.h>
#include "../behaviour/dlpack.h"
#include "../gpu/device_suite.h"

#define DL_OPENCL 4

typedef struct DLManagedTensorVersioned capsule;

static void open_device(void)
{
    open_first(NULL, "opencl", "no OpenCL device (Debian: pocl-opencl-icd)");
    s = tn_scope_open(ctx);
}
TestSuite(interop, .init = open_device, .fini = close_device);

/* The capsule has the buffer and an offset: a cl_mem has no address. */
Test(interop, another_stream_of_the_context_takes_a_buffer)
{
    capsule *c = NULL;
    tn_stream *other;
    tn_tensor *all = tn_from_data(s, TN_FLOAT32, TN_INTS(4), (float[]){1, 2, 3, 4}, device);
    tn_tensor *half = tn_narrow(s, tn_add_scalar(s, all, 1), 0, 2, 2);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &other), TN_OK);
    tn_dlpack_options options = {.size = sizeof options, .flags = TN_DLPACK_STREAM};
    cr_assert_eq(tn_stream_native(other, &options.stream), TN_OK);
    cr_assert_eq(tn_to_dlpack_with(half, &options, &c), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(c->tensor.device.type, DL_OPENCL);
    cr_assert_eq(c->tensor.byte_offset % 8, 0);
    cr_assert_gt(c->tensor.byte_offset, 0);
    cr_assert_eq(tn_stream_set_current(ctx, other), TN_OK);
    tn_tensor *taken = tn_from_dlpack(s, c);
    cr_assert_not_null(taken, "%s", tn_scope_error(s)->message);
    expect_pair(tn_mul_scalar(s, taken, 10), 40, 50);
    tn_mul_scalar_(s, taken, 2);
    expect_pair(taken, 8, 10);
    cr_assert_eq(tn_stream_set_current(ctx, tn_stream_default(ctx, device)), TN_OK);
    expect_pair(half, 8, 10);
    tn_drop(s, taken);
    expect_pair(tn_add_scalar(s, half, 1), 9, 11);
    tn_stream_release(other);
}

/* Both contexts of Tenon make an OpenCL context each. */
Test(interop, a_buffer_of_another_opencl_context_is_refused)
{
    capsule *c = NULL;
    tn_context *elsewhere;
    cr_assert_eq(tn_context_create(NULL, &elsewhere), TN_OK);
    tn_scope *scope = tn_scope_open(elsewhere);
    tn_tensor *t =
        tn_from_data(scope, TN_FLOAT32, TN_INTS(2), (float[]){1, 2}, tn_device_parse(elsewhere, "opencl:0"));
    cr_assert_eq(tn_to_dlpack(t, &c), TN_OK);
    cr_assert_null(tn_from_dlpack(s, c));
    cr_assert(strstr(tn_scope_error(s)->message, "is not a buffer of this device's context"), "%s",
              tn_scope_error(s)->message);
    tn_scope_close(scope);
    tn_context_destroy(elsewhere);
}

Test(interop, settings)
{
    tn_value v = tn_value_none();
    cr_assert_eq(tn_device_get_setting(ctx, device, "blocking", &v), TN_OK);
    cr_assert(v.tag == TN_TAG_BOOL && v.as.i == 0);
    cr_assert_eq(tn_device_set_setting(ctx, device, "blocking", tn_value_bool(1)), TN_OK);
    cr_assert_eq(tn_device_set_setting(ctx, device, "cache", tn_value_bool(0)), TN_OK);
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[]){1, 2}, device);
    tn_tensor *sum = tn_add(s, t, t);
    cr_assert_eq(tn_stream_query(tn_stream_current(ctx, device)), 1);
    expect_pair(sum, 2, 4);
}
