/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, dims and overlap. Error texts are those of PyTorch 2.13. */
#include "core/shape.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *last_message(void)
{
    return tn_last_error()->message;
}

static int32_t broadcast(tni_shape *shape, uint32_t rank, const int64_t *a, uint32_t other_rank,
                         const int64_t *b)
{
    memcpy(shape->sizes, a, rank * sizeof(int64_t));
    shape->rank = rank;
    return tni_broadcast(shape, other_rank, b);
}
#define SIZES(...)                                            \
    (sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]) \
    {                                                         \
        __VA_ARGS__                                           \
    }
#define NO_SIZES         \
    0, (const int64_t[]) \
    {                    \
        0                \
    }

static void expect_sizes(const tni_shape *shape, uint32_t rank, const int64_t *sizes)
{
    cr_assert_eq(shape->rank, rank);
    cr_assert_arr_eq(shape->sizes, sizes, rank * sizeof(int64_t));
}

Test(shape, numel)
{
    int64_t n = -7;
    cr_assert_eq(tni_numel(SIZES(2, 3, 4), &n), TN_OK);
    cr_assert_eq(n, 24);
    cr_assert_eq(tni_numel(NO_SIZES, &n), TN_OK);
    cr_assert_eq(n, 1);
    cr_assert_eq(tni_numel(SIZES(1ll << 40, 1ll << 40, 0), &n), TN_OK);
    cr_assert_eq(n, 0);
    cr_assert_eq(tni_numel(SIZES(1ll << 40, 1ll << 40), &n), TN_E_SHAPE);
    cr_assert_eq(tni_numel(SIZES(2, -1), &n), TN_E_SHAPE);
    cr_assert_str_eq(last_message(), "Trying to create tensor with negative dimension -1: [2, -1]");
    cr_assert_eq(n, 0);
}

Test(shape, broadcasting)
{
    tni_shape s;
    cr_assert_eq(broadcast(&s, SIZES(2, 1, 3), SIZES(4, 1)), TN_OK);
    expect_sizes(&s, SIZES(2, 4, 3));
    cr_assert_eq(broadcast(&s, SIZES(3), SIZES(5, 2, 1)), TN_OK);
    expect_sizes(&s, SIZES(5, 2, 3));
    cr_assert_eq(broadcast(&s, NO_SIZES, SIZES(5, 2)), TN_OK);
    expect_sizes(&s, SIZES(5, 2));
    cr_assert_eq(broadcast(&s, SIZES(5, 2), NO_SIZES), TN_OK);
    expect_sizes(&s, SIZES(5, 2));
    cr_assert_eq(broadcast(&s, SIZES(1, 3), SIZES(0, 1)), TN_OK);
    expect_sizes(&s, SIZES(0, 3));
    cr_assert_eq(broadcast(&s, SIZES(3, 2), SIZES(3, 3)), TN_E_SHAPE);
    cr_assert_str_eq(last_message(),
                     "The size of tensor a (2) must match the size of tensor b (3) at non-singleton "
                     "dimension 1");
    expect_sizes(&s, SIZES(3, 2));
    cr_assert_eq(broadcast(&s, SIZES(2, 3), SIZES(0, 3)), TN_E_SHAPE);
}

Test(shape, dims_wrap)
{
    int64_t d = 99;
    cr_assert_eq(tni_wrap_dim(-1, 3, &d), TN_OK);
    cr_assert_eq(d, 2);
    cr_assert_eq(tni_wrap_dim(-1, 0, &d), TN_OK);
    cr_assert_eq(d, 0);
    cr_assert_eq(tni_wrap_dim(2, 2, &d), TN_E_INDEX);
    cr_assert_str_eq(last_message(),
                     "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
    cr_assert_eq(tni_wrap_dim(1, 0, &d), TN_E_INDEX);
    cr_assert_str_eq(last_message(),
                     "Dimension out of range (expected to be in range of [-1, 0], but got 1)");
    cr_assert_eq(tni_wrap_dim(INT64_MIN, 2, &d), TN_E_INDEX);
}

Test(shape, dim_masks)
{
    uint64_t mask = 99;
    int64_t dims[] = {0, -1}, twice[] = {0, 1, -2};
    cr_assert_eq(tni_dim_mask(tn_value_ints(dims, 2), 3, 0, &mask), TN_OK);
    cr_assert_eq(mask, 5);
    cr_assert_eq(tni_dim_mask(tn_value_none(), 3, 0, &mask), TN_OK);
    cr_assert_eq(mask, 7);
    cr_assert_eq(tni_dim_mask(tn_value_ints(dims, 0), 3, 1, &mask), TN_OK);
    cr_assert_eq(mask, 7);
    cr_assert_eq(tni_dim_mask(tn_value_ints(dims, 0), 3, 0, &mask), TN_OK);
    cr_assert_eq(mask, 0);
    cr_assert_eq(tni_dim_mask(tn_value_int(-2), 3, 0, &mask), TN_OK);
    cr_assert_eq(mask, 2);
    cr_assert_eq(tni_dim_mask(tn_value_none(), 64, 0, &mask), TN_OK);
    cr_assert_eq(mask, UINT64_MAX);
    cr_assert_eq(tni_dim_mask(tn_value_int(0), 0, 0, &mask), TN_OK);
    cr_assert_eq(mask, 0);
    cr_assert_eq(tni_dim_mask(tn_value_ints(twice, 3), 2, 0, &mask), TN_E_ARGUMENT);
    cr_assert_str_eq(last_message(), "dim 0 appears multiple times in the list of dims");
    cr_assert_eq(tni_dim_mask(tn_value_int(3), 3, 0, &mask), TN_E_INDEX);
}

static int32_t infer(uint32_t rank, const int64_t *requested, int64_t numel, int64_t *out)
{
    return tni_infer_size(requested, rank, numel, out);
}

Test(shape, sizes_are_inferred)
{
    int64_t out[4];
    cr_assert_eq(infer(SIZES(-1, 2), 6, out), TN_OK);
    cr_assert_eq(out[0], 3);
    cr_assert_eq(infer(SIZES(3, 2), 6, out), TN_OK);
    cr_assert_eq(infer(NO_SIZES, 1, out), TN_OK);
    cr_assert_eq(infer(SIZES(-1, 3), 0, out), TN_OK);
    cr_assert_eq(out[0], 0);
    static const struct {
        int64_t requested[2], numel;
        const char *text;
    } bad[] = {
        {{2, 5}, 6, "shape '[2, 5]' is invalid for input of size 6"},
        {{-1, 4}, 6, "shape '[-1, 4]' is invalid for input of size 6"},
        {{0, -1}, 6, "shape '[0, -1]' is invalid for input of size 6"},
        {{-1, -1}, 6, "only one dimension can be inferred"},
        {{-2, 3}, 6, "invalid shape dimension -2 at index 0 of shape [-2, 3]"},
        {{-1, 0},
         0,
         "cannot reshape tensor of 0 elements into shape [-1, 0] because the unspecified dimension size -1 "
         "can be any "
         "value and is ambiguous"},
        {{1ll << 40, 1ll << 40}, 0, "shape '[1099511627776, 1099511627776]' is invalid for input of size 0"},
    };
    for (uint32_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        cr_assert_eq(tni_infer_size(bad[i].requested, 2, bad[i].numel, out), TN_E_SHAPE);
        cr_assert_str_eq(last_message(), bad[i].text);
    }
}

Test(shape, text)
{
    char buffer[64];
    cr_assert_str_eq(tni_shape_text(SIZES(2, 3), buffer, sizeof(buffer)), "[2, 3]");
    cr_assert_str_eq(tni_shape_text(NO_SIZES, buffer, sizeof(buffer)), "[]");
    cr_assert_str_eq(tni_shape_text(SIZES(-5), buffer, sizeof(buffer)), "[-5]");
    cr_assert_str_eq(tni_shape_text(SIZES(1000, 2000), buffer, 6), "[1000");
}

/* A tensor of float32 on a storage that is only an address. */
static void set_tensor(tn_tensor *t, tni_storage *storage, uint32_t rank, const int64_t *sizes,
                       const int64_t *strides, uint64_t offset)
{
    memset(t, 0, sizeof(*t));
    t->desc.rank = rank;
    t->desc.sizes = sizes;
    t->desc.strides = strides;
    t->desc.dtype = TN_FLOAT32;
    t->desc.byte_offset = offset * 4;
    t->storage = storage;
    t->state = tni_stride_state(rank, sizes, strides);
    tni_numel(rank, sizes, &t->numel);
}

Test(overlap, cases)
{
    static tni_storage one, other;
    static const int64_t four[] = {4}, unit[] = {1}, zero[] = {0}, two[] = {2}, square[] = {2, 2},
                         rows[] = {2, 1}, columns[] = {1, 2};
    tn_tensor a, b;
    set_tensor(&a, &one, 1, four, unit, 0);
    cr_assert_not(tni_overlaps_itself(&a));
    cr_assert_eq(tni_overlap(&a, &a), TNI_OVERLAP_FULL);
    set_tensor(&b, &one, 1, four, unit, 1);
    cr_assert_eq(tni_overlap(&a, &b), TNI_OVERLAP_PARTIAL);
    set_tensor(&b, &one, 1, four, unit, 4);
    cr_assert_eq(tni_overlap(&a, &b), TNI_OVERLAP_NONE);
    set_tensor(&b, &other, 1, four, unit, 0);
    cr_assert_eq(tni_overlap(&a, &b), TNI_OVERLAP_NONE);
    set_tensor(&b, &one, 1, four, unit, 0);
    cr_assert_eq(tni_overlap(&a, &b), TNI_OVERLAP_FULL);
    set_tensor(&b, &one, 1, four, zero, 0);
    cr_assert(tni_overlaps_itself(&b));
    cr_assert_eq(tni_overlap(&a, &b), TNI_OVERLAP_NONE); /* not known, so it counts as none */
    set_tensor(&a, &one, 1, four, two, 0);
    set_tensor(&b, &one, 1, four, two, 0);
    cr_assert_eq(tni_overlap(&a, &b), TNI_OVERLAP_FULL);
    set_tensor(&a, &one, 2, square, rows, 0);
    set_tensor(&b, &one, 2, square, columns, 0);
    cr_assert_eq(tni_overlap(&a, &b), TNI_OVERLAP_PARTIAL); /* x and its transpose */
    /* Elements of another width in the same bytes, a part of them, none, tensors without dimensions. */
    static const int64_t eight[] = {8}, six[] = {6}, none[] = {0};
    set_tensor(&a, &one, 1, four, unit, 0);
    set_tensor(&b, &one, 1, eight, unit, 0);
    b.desc.dtype = TN_INT16;
    cr_assert_eq(tni_overlap(&a, &b), TNI_OVERLAP_FULL);
    set_tensor(&b, &one, 1, six, unit, 0);
    b.desc.dtype = TN_INT16;
    cr_assert_eq(tni_overlap(&a, &b), TNI_OVERLAP_PARTIAL);
    set_tensor(&b, &one, 1, none, unit, 0);
    cr_assert_eq(tni_overlap(&a, &b), TNI_OVERLAP_NONE);
    cr_assert_eq(tni_overlap(&b, &a), TNI_OVERLAP_NONE);
    set_tensor(&a, &one, 0, none, unit, 0);
    set_tensor(&b, &one, 0, none, unit, 0);
    cr_assert_eq(tni_overlap(&a, &b), TNI_OVERLAP_FULL);
    b.desc.dtype = TN_INT32;
    cr_assert_eq(tni_overlap(&a, &b), TNI_OVERLAP_FULL);
    set_tensor(&b, &one, 0, none, unit, 1);
    cr_assert_eq(tni_overlap(&a, &b), TNI_OVERLAP_NONE);
    set_tensor(&a, &one, 1, four, two, 0);
    set_tensor(&b, &one, 1, four, two, 0);
    b.desc.dtype = TN_INT16;
    cr_assert_eq(tni_overlap(&a, &b), TNI_OVERLAP_NONE); /* not dense: not known */
    cr_assert_not(tni_overlaps_itself(&a));
}
