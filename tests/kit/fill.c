/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of tensors that the kit makes. */
#include "../../kit/calls/fill.h"

#include <criterion/criterion.h>
#include <math.h>

Test(fill, a_bool_is_0_or_1)
{
    static const double values[] = {0, 0.5, 1, 2, 3, 5.9, -1, 1e30, INFINITY, NAN};
    static const uint8_t bytes[] = {0, 0, 1, 1, 1, 1, 1, 0, 0, 0};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        uint8_t byte = 0x5a;
        fill_store(&byte, TN_BOOL, values[i]);
        cr_expect_eq(byte, bytes[i], "%g became %d", values[i], byte);
    }
}

static int is_refused(tn_context *ctx, tn_ints sizes, tn_ints strides)
{
    tn_scope *s = tn_scope_open(ctx);
    const fill_wish wish = {.dtype = TN_FLOAT32, .sizes = sizes, .strides = strides, .high = 1};
    int refused = fill_tensor(s, &wish) == NULL;
    cr_expect_eq(refused, tn_scope_failed(s) == TN_E_SHAPE);
    tn_scope_close(s);
    return refused;
}

/* Sizes and strides come from files. */
Test(fill, sizes_and_strides_that_cannot_be_are_refused)
{
    tn_context *ctx;
    const tn_ints none = {NULL, 0};
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    cr_expect(!is_refused(ctx, TN_INTS(2, 3), none));
    cr_expect(!is_refused(ctx, TN_INTS(2, 3), TN_INTS(1, 2)));
    cr_expect(!is_refused(ctx, TN_INTS(0, INT64_MAX), none));
    cr_expect(is_refused(ctx, TN_INTS(2, 3), TN_INTS(1)));
    cr_expect(is_refused(ctx, TN_INTS(-1), none));
    cr_expect(is_refused(ctx, TN_INTS(2), TN_INTS(-1)));
    cr_expect(is_refused(ctx, TN_INTS(INT64_MAX), none));
    cr_expect(is_refused(ctx, TN_INTS(INT64_C(1) << 40, INT64_C(1) << 40), none));
    cr_expect(is_refused(ctx, TN_INTS(2, 2), TN_INTS(INT64_MAX, INT64_MAX)));
    tn_context_destroy(ctx);
}

/* The first element is the fourth one of the storage: the same numbers as without an offset, from the fourth on. */
Test(fill, an_offset_leaves_elements_of_the_storage_before_the_first_one)
{
    tn_context *ctx;
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    tn_scope *s = tn_scope_open(ctx);
    fill_wish wish = {.dtype = TN_FLOAT32, .sizes = TN_INTS(7), .high = 1};
    const float *whole = tn_tensor_data(fill_tensor(s, &wish));
    wish.sizes = TN_INTS(2, 2);
    wish.offset = 3;
    const tn_tensor *x = fill_tensor(s, &wish);
    cr_assert_not_null(x);
    cr_expect_eq(tn_tensor_storage_offset(x), 3);
    cr_expect_arr_eq(tn_tensor_data(x), whole + 3, 4 * sizeof(float));
    wish.sizes = TN_INTS(0, 2);
    cr_expect_not_null(fill_tensor(s, &wish));
    tn_scope_close(s);
    s = tn_scope_open(ctx);
    wish.offset = -1;
    cr_expect_null(fill_tensor(s, &wish));
    cr_expect_eq(tn_scope_failed(s), TN_E_SHAPE);
    tn_scope_close(s);
    tn_context_destroy(ctx);
}
