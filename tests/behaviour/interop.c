/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack between two contexts on the reference device: each is another library to the other. */
#include "dlpack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>
#include "fixture.h"
#include "reference.h"

typedef struct DLManagedTensorVersioned capsule;

static tn_tensor *three(side *a)
{
    return tn_from_data(a->s, TN_FLOAT32, TN_INTS(3), (float[]){1, 2, 3}, a->device);
}

static void expect_refusal(int32_t status, int32_t want, const char *part)
{
    cr_assert_eq(status, want, "%d: %s", status, tn_last_error()->message);
    cr_assert(strstr(tn_last_error()->message, part), "%s", tn_last_error()->message);
}

/* ---- Both ways ----------------------------------------------------------------------------------------- */

Test(interop, two_libraries_share_memory_of_a_device)
{
    side a = open_side(), b = open_side();
    capsule *c = NULL;
    int32_t type, id;
    cr_assert_eq(tn_device_dlpack(a.ctx, a.device, &type, &id), TN_OK);
    cr_assert_eq(type, DL_EXTENSION);
    cr_assert_eq(id, 0);
    tn_tensor *x = tn_from_data(a.s, TN_FLOAT32, TN_INTS(2, 3), (float[]){0, 1, 2, 3, 4, 5}, a.device);
    tn_tensor *column = tn_select(a.s, x, 1, 1); /* begins within the storage, with stride 3 */
    cr_assert_eq(tn_to_dlpack(column, &c), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(c->version.major, 1);
    cr_assert_eq(c->tensor.device.type, DL_EXTENSION);
    cr_assert_eq(c->tensor.strides[0], 3);
    cr_assert_eq(c->tensor.dtype.bits, 32);
    cr_assert_eq(c->flags, 0);
    tn_tensor *y = tn_from_dlpack(b.s, c);
    cr_assert_not_null(y, "%s", tn_scope_error(b.s)->message);
    cr_assert_eq(tn_tensor_device(y), b.device);
    expect_floats(b.s, y, (float[]){1, 4}, 2);
    tn_mul_scalar_(b.s, y, 10);
    cr_assert_eq(tn_device_synchronize(b.ctx, b.device), TN_OK);
    expect_floats(a.s, x, (float[]){0, 10, 2, 3, 40, 5}, 6);
    close_side(&b); /* gives the memory back */
    expect_floats(a.s, tn_add_scalar(a.s, column, 1), (float[]){11, 41}, 2);
    close_side(&a);
}

/* The exporter's tensor and its scope may go first. */
Test(interop, a_capsule_keeps_the_memory)
{
    side a = open_side(), b = open_side();
    capsule *c = NULL;
    cr_assert_eq(tn_to_dlpack(three(&a), &c), TN_OK);
    tn_scope_close(a.s);
    a.s = tn_scope_open(a.ctx);
    tn_tensor *other = tn_zeros(a.s, TN_INTS(3), .dtype = TN_FLOAT32, .device = a.device);
    tn_tensor *y = tn_from_dlpack(b.s, c);
    expect_floats(a.s, other, (float[]){0, 0, 0}, 3);
    expect_floats(b.s, y, (float[]){1, 2, 3}, 3);
    close_side(&b);
    close_side(&a);
}

Test(interop, a_capsule_comes_back_to_its_own_context)
{
    side a = open_side();
    capsule *c = NULL;
    tn_tensor *x = three(&a);
    cr_assert_eq(tn_to_dlpack(x, &c), TN_OK);
    tn_tensor *y = tn_from_dlpack(a.s, c);
    cr_assert_not_null(y);
    tn_add_scalar_(a.s, y, 1);
    expect_floats(a.s, x, (float[]){2, 3, 4}, 3);
    tn_drop(a.s, y);
    expect_floats(a.s, tn_add_scalar(a.s, x, 1), (float[]){3, 4, 5}, 3);
    close_side(&a);
}

/* ---- Order --------------------------------------------------------------------------------------------- */

/* A tensor whose value is computed when somebody waits for it, or a minute later: until then it is NaN. */
static tn_tensor *late(side *a)
{
    cr_assert_eq(tn_device_set_setting(a->ctx, a->device, "poison", tn_value_bool(1)), TN_OK);
    cr_assert_eq(tn_device_set_setting(a->ctx, a->device, "lazy", tn_value_int(60000)), TN_OK);
    return tn_full(a->s, TN_INTS(2), 7, .dtype = TN_FLOAT32, .device = a->device);
}

static float first_seen(side *b, capsule *c)
{
    float got[2];
    tn_tensor *y = tn_from_dlpack(b->s, c);
    cr_assert_eq(tn_to_host(b->s, y, got, sizeof got), TN_OK);
    return got[0];
}

static uint64_t native_stream(side *b)
{
    uint64_t native = 0;
    cr_assert_eq(tn_stream_native(tn_stream_current(b->ctx, b->device), &native), TN_OK);
    return native;
}

Test(interop, the_consumers_stream_waits_for_the_producer)
{
    side a = open_side(), b = open_side();
    capsule *c = NULL;
    tn_tensor *x = late(&a);
    const tn_dlpack_options options = {
        .size = sizeof options, .flags = TN_DLPACK_STREAM, .stream = native_stream(&b)};
    cr_assert_eq(tn_to_dlpack_with(x, &options, &c), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(first_seen(&b, c), 7);
    close_side(&b);
    close_side(&a);
}

Test(interop, without_a_wait_the_consumer_is_too_early)
{
    side a = open_side(), b = open_side();
    capsule *c = NULL;
    tn_tensor *x = late(&a);
    const tn_dlpack_options options = {.size = sizeof options, .flags = TN_DLPACK_NO_WAIT};
    cr_assert_eq(tn_to_dlpack_with(x, &options, &c), TN_OK);
    cr_assert(isnan(first_seen(&b, c)));
    close_side(&b);
    close_side(&a);
}

Test(interop, without_options_the_host_waits)
{
    side a = open_side(), b = open_side();
    capsule *c = NULL;
    cr_assert_eq(tn_to_dlpack(late(&a), &c), TN_OK);
    cr_assert_eq(first_seen(&b, c), 7);
    close_side(&b);
    close_side(&a);
}

/* ---- Refusals ------------------------------------------------------------------------------------------ */

static int deleted;

static void count_deletion(capsule *c)
{
    (void)c;
    deleted++;
}

static void expect_no_import(side *b, capsule *c, const char *part)
{
    int before = deleted;
    cr_assert_null(tn_from_dlpack(b->s, c));
    cr_assert(strstr(tn_scope_error(b->s)->message, part), "%s", tn_scope_error(b->s)->message);
    cr_assert_eq(deleted, before + 1);
    tn_scope_close(b->s);
    b->s = tn_scope_open(b->ctx);
}

Test(interop, capsules_that_cannot_be_imported_are_refused_and_deleted)
{
    side a = open_side();
    capsule *whole = NULL;
    cr_assert_eq(tn_to_dlpack(three(&a), &whole), TN_OK);
    capsule c = *whole;
    c.deleter = count_deletion;
    c.tensor.device.type = DL_CUDA;
    expect_no_import(&a, &c, "no device here has memory of DLPack's device type 2, number 0");
    c.tensor.device.type = DL_EXTENSION;
    c.tensor.device.id = 5;
    expect_no_import(&a, &c, "no device here has memory of DLPack's device type 12, number 5");
    c.tensor.device.id = 0;
    c.tensor.data = &c;
    expect_no_import(&a, &c, "are not memory of device 0");
    c.tensor.data = whole->tensor.data;
    c.tensor.shape = (int64_t[]){1 << 30};
    expect_no_import(&a, &c, "are not memory of device 0");
    c.tensor.shape = whole->tensor.shape;
    c.flags = 1;
    expect_no_import(&a, &c, "the memory is read-only");
    c.flags = 0;
    c.version.major = 2;
    expect_no_import(&a, &c, "version 2.");
    whole->deleter(whole);
    close_side(&a);
}

Test(interop, wrong_options_are_refused)
{
    side a = open_side();
    capsule *c = NULL;
    tn_tensor *x = three(&a);
    tn_dlpack_options o = {.size = sizeof o, .flags = 64};
    expect_refusal(tn_to_dlpack_with(x, &o, &c), TN_E_UNKNOWN_FIELD, "unknown flags 0x40");
    o.flags = TN_DLPACK_STREAM | TN_DLPACK_NO_WAIT;
    expect_refusal(tn_to_dlpack_with(x, &o, &c), TN_E_ARGUMENT, "exclude each other");
    o.flags = TN_DLPACK_READ_ONLY;
    cr_assert_eq(tn_to_dlpack_with(x, &o, &c), TN_OK);
    cr_assert_eq(c->flags, 1);
    c->deleter(c);
    close_side(&a);
}
