/* SPDX-License-Identifier: Apache-2.0 */
/* Strides: expected values were recorded from PyTorch 2.13. */
#include "core/shape.h"

#include <criterion/criterion.h>
#include <string.h>

/* Short names for rows of one line. */
enum {
    DENSE = TNI_DENSE,
    CONTIGUOUS = TNI_CONTIGUOUS | TNI_DENSE,
    LAST = TNI_CHANNELS_LAST,
    LAST_3D = TNI_CHANNELS_LAST_3D
};

static const struct {
    uint32_t rank;
    int64_t sizes[5], strides[5];
    uint32_t state;
    int32_t format;
    int64_t preserved[5]; /* strides of empty_like */
} states[] = {
    {4, {1, 3, 3, 3}, {9, 9, 1, 3}, DENSE, 0, {9, 9, 1, 3}},
    {4, {1, 2, 3, 2}, {12, 6, 2, 1}, CONTIGUOUS, 0, {12, 6, 2, 1}},
    {4, {5, 4, 4, 1}, {1, 0, 0, 1}, 0, 0, {16, 4, 1, 1}},
    {5, {2, 3, 1, 1, 1}, {3, 1, 1, 1, 1}, CONTIGUOUS | LAST_3D, 0, {3, 1, 1, 1, 1}},
    {5, {3, 2, 1, 1, 2}, {1, 3, 1, 1, 6}, DENSE, 0, {1, 3, 1, 1, 6}},
    {4, {2, 4, 1, 4}, {16, 4, 4, 1}, CONTIGUOUS, 0, {16, 4, 4, 1}},
    {4, {0, 1, 1, 4}, {0, 4, 4, 1}, CONTIGUOUS, 0, {0, 4, 4, 1}},
    {4, {5, 3, 3, 4}, {36, 12, 4, 1}, CONTIGUOUS, 0, {36, 12, 4, 1}},
    {5, {5, 3, 3, 5, 3}, {180, 60, 15, 3, 1}, 0, 0, {135, 45, 15, 3, 1}},
    {4, {1, 1, 3, 3}, {9, 9, 3, 1}, CONTIGUOUS | LAST, 0, {9, 9, 3, 1}},
    {5, {5, 1, 1, 1, 2}, {2, 3, 12, 1, 0}, 0, 0, {2, 10, 10, 2, 1}},
    {3, {5, 3, 1}, {1, 0, 1}, 0, 0, {3, 1, 1}},
    {4, {1, 2, 1, 1}, {2, 1, 2, 2}, CONTIGUOUS | LAST, 2, {2, 1, 2, 2}},
    {4, {4, 1, 3, 1}, {3, 3, 1, 1}, CONTIGUOUS | LAST, 0, {3, 3, 1, 1}},
    {4, {3, 2, 3, 5}, {30, 1, 10, 2}, DENSE | LAST, 2, {30, 1, 10, 2}},
    {5, {3, 1, 1, 4, 2}, {8, 4, 1, 1, 4}, DENSE, 0, {8, 4, 1, 1, 4}},
    {4, {2, 2, 5, 5}, {1, 10, 20, 2}, DENSE, 0, {1, 10, 20, 2}},
    {4, {1, 4, 4, 1}, {16, 1, 4, 4}, DENSE | LAST, 2, {16, 1, 4, 4}},
    {4, {1, 2, 1, 1}, {2, 1, 1, 1}, CONTIGUOUS | LAST, 0, {2, 1, 1, 1}},
    {4, {1, 1, 1, 1}, {1, 1, 12, 0}, CONTIGUOUS | LAST, 0, {1, 1, 12, 0}},
    {4, {3, 3, 1, 2}, {6, 1, 6, 3}, DENSE | LAST, 2, {6, 1, 6, 3}},
    {4, {1, 1, 2, 1}, {2, 1, 1, 1}, CONTIGUOUS | LAST, 2, {2, 1, 1, 1}},
    {4, {1, 2, 5, 2}, {20, 1, 4, 2}, DENSE | LAST, 2, {20, 1, 4, 2}},
    {4, {1, 1, 4, 2}, {8, 1, 2, 1}, CONTIGUOUS | LAST, 2, {8, 1, 2, 1}},
    {4, {1, 1, 2, 3}, {6, 1, 3, 1}, CONTIGUOUS | LAST, 2, {6, 1, 3, 1}},
    {5, {2, 1, 1, 1, 3}, {3, 3, 3, 3, 1}, CONTIGUOUS | LAST_3D, 0, {3, 3, 3, 3, 1}},
    {5, {1, 1, 1, 5, 2}, {10, 10, 10, 2, 1}, CONTIGUOUS | LAST_3D, 0, {10, 10, 10, 2, 1}},
    {5, {1, 1, 1, 1, 1}, {2, 8, 1, 4, 2}, CONTIGUOUS | LAST_3D, 0, {2, 8, 1, 4, 2}},
    {5, {1, 1, 4, 1, 1}, {4, 1, 1, 1, 1}, CONTIGUOUS | LAST_3D, 3, {4, 1, 1, 1, 1}},
    {5, {4, 1, 5, 5, 1}, {25, 1, 5, 1, 1}, CONTIGUOUS | LAST_3D, 3, {25, 1, 5, 1, 1}},
    {5, {2, 4, 3, 1, 1}, {12, 1, 4, 4, 4}, DENSE | LAST_3D, 3, {12, 1, 4, 4, 4}},
    {5, {4, 3, 2, 1, 1}, {6, 1, 3, 6, 3}, DENSE | LAST_3D, 0, {6, 1, 3, 6, 3}},
    {5, {4, 4, 2, 2, 4}, {64, 1, 32, 16, 4}, DENSE | LAST_3D, 3, {64, 1, 32, 16, 4}},
    {5, {5, 3, 2, 1, 1}, {6, 1, 3, 3, 3}, DENSE | LAST_3D, 3, {6, 1, 3, 3, 3}},
    {5, {4, 2, 4, 2, 1}, {16, 1, 4, 2, 2}, DENSE | LAST_3D, 3, {16, 1, 4, 2, 2}},
    {4, {1, 2, 1, 3}, {1, 1, 2, 2}, DENSE | LAST, 0, {1, 1, 2, 2}},
    {5, {3, 1, 1, 2, 2}, {4, 1, 4, 2, 1}, CONTIGUOUS | LAST_3D, 3, {4, 1, 4, 2, 1}},
    {4, {1, 5, 3, 1}, {1, 1, 5, 1}, DENSE | LAST, 0, {1, 1, 5, 1}},
    {4, {1, 5, 3, 1}, {15, 1, 5, 1}, DENSE | LAST, 0, {15, 1, 5, 1}},
    {4, {1, 5, 1, 2}, {5, 1, 1, 5}, DENSE | LAST, 0, {5, 1, 1, 5}},
    {5, {1, 1, 2, 5, 3}, {30, 1, 15, 3, 1}, CONTIGUOUS | LAST_3D, 3, {30, 1, 15, 3, 1}},
    {5, {4, 5, 1, 4, 1}, {20, 1, 5, 5, 1}, DENSE | LAST_3D, 0, {20, 1, 5, 5, 1}},
    {5, {1, 3, 5, 1, 4}, {60, 1, 12, 60, 3}, DENSE | LAST_3D, 0, {60, 1, 12, 60, 3}},
    {5, {1, 2, 1, 1, 2}, {1, 1, 1, 1, 2}, DENSE | LAST_3D, 0, {1, 1, 1, 1, 2}},
    {5, {4, 4, 2, 4, 3}, {180, 1, 60, 12, 4}, 0, 3, {96, 1, 48, 12, 4}},
    {5, {1, 4, 2, 1, 5}, {80, 1, 40, 40, 4}, 0, 3, {40, 1, 20, 20, 4}},
    {4, {2, 1, 5, 5}, {150, 1, 15, 3}, 0, 2, {25, 1, 5, 1}},
    {4, {1, 3, 4, 5}, {180, 1, 20, 4}, 0, 2, {60, 1, 15, 3}},
    {4, {3, 3, 3, 2}, {54, 1, 9, 3}, 0, 2, {18, 1, 6, 3}},
    {4, {4, 4, 1, 1}, {8, 1, 8, 8}, 0, 2, {4, 1, 4, 4}},
    {5, {3, 1, 4, 5, 3}, {144, 1, 18, 3, 1}, 0, 3, {60, 1, 15, 3, 1}},
    {5, {1, 1, 1, 2, 3}, {112, 1, 56, 14, 2}, 0, 3, {6, 1, 6, 3, 1}},
};

static const struct {
    uint32_t rank;
    int64_t sizes[5], strides[5];
    uint32_t new_rank;
    int64_t new_sizes[8];
    int32_t is_view;
    int64_t expected[8];
} views[] = {
    {2, {4, 1}, {2, 1}, 4, {1, 2, 2, 1}, 1, {8, 4, 2, 1}},
    {2, {1, 0}, {1, 1}, 3, {4, 2, 0}, 1, {2, 1, 1}},
    {3, {1, 1, 5}, {5, 5, 1}, 1, {5}, 1, {1}},
    {3, {5, 4, 3}, {12, 3, 1}, 4, {1, 1, 15, 4}, 1, {60, 60, 4, 1}},
    {4, {2, 5, 1, 1}, {5, 1, 1, 1}, 3, {1, 1, 10}, 1, {10, 10, 1}},
    {3, {3, 2, 1}, {2, 1, 1}, 4, {3, 1, 2, 1}, 1, {2, 2, 1, 1}},
    {2, {1, 1}, {1, 1}, 0, {0}, 1, {0}},
    {4, {4, 0, 1, 2}, {1, 0, 1, 0}, 3, {1, 4, 0}, 1, {4, 1, 1}},
    {4, {3, 4, 1, 3}, {12, 3, 3, 1}, 1, {36}, 1, {1}},
    {2, {3, 3}, {0, 1}, 3, {3, 3, 1}, 1, {0, 1, 1}},
    {3, {3, 1, 1}, {2, 1, 1}, 2, {3, 1}, 1, {2, 1}},
    {2, {4, 1}, {1, 1}, 2, {4, 1}, 1, {1, 1}},
    {4, {4, 3, 4, 1}, {12, 4, 1, 1}, 5, {2, 2, 1, 6, 2}, 1, {24, 12, 12, 2, 1}},
    {3, {5, 4, 1}, {4, 1, 1}, 2, {4, 5}, 1, {5, 1}},
    {4, {5, 1, 1, 5}, {5, 5, 5, 1}, 3, {1, 1, 25}, 1, {25, 25, 1}},
    {4, {1, 5, 3, 1}, {5, 1, 5, 5}, 2, {5, 3}, 1, {1, 5}},
    {3, {3, 1, 1}, {1, 3, 1}, 1, {3}, 1, {1}},
    {2, {4, 1}, {2, 1}, 3, {4, 1, 1}, 1, {2, 1, 1}},
    {3, {0, 2, 3}, {16, 4, 1}, 1, {0}, 1, {1}},
    {4, {1, 4, 3, 1}, {32, 4, 1, 1}, 4, {1, 2, 2, 3}, 1, {16, 8, 4, 1}},
    {4, {5, 5, 1, 1}, {10, 2, 1, 2}, 4, {5, 5, 1, 1}, 1, {10, 2, 2, 2}},
    {4, {5, 2, 1, 0}, {1, 5, 10, 10}, 3, {2, 0, 0}, 1, {1, 1, 1}},
    {4, {1, 1, 5, 1}, {5, 5, 1, 5}, 1, {5}, 1, {1}},
    {2, {2, 2}, {2, 1}, 2, {2, 2}, 1, {2, 1}},
    {2, {1, 4}, {4, 1}, 1, {4}, 1, {1}},
    {3, {2, 1, 2}, {10, 5, 1}, 1, {4}, 0, {0}},
    {4, {3, 4, 1, 3}, {1, 9, 3, 3}, 3, {1, 36, 1}, 0, {0}},
    {3, {2, 4, 1}, {1, 2, 1}, 2, {8, 1}, 0, {0}},
    {3, {4, 2, 3}, {6, 30, 1}, 5, {3, 1, 2, 2, 2}, 0, {0}},
    {3, {4, 4, 5}, {40, 5, 1}, 4, {8, 2, 1, 5}, 0, {0}},
    {2, {2, 4}, {5, 1}, 3, {1, 4, 2}, 0, {0}},
    {4, {3, 3, 5, 1}, {108, 18, 3, 1}, 2, {9, 5}, 0, {0}},
    {2, {2, 5}, {1, 2}, 1, {10}, 0, {0}},
    {4, {1, 4, 4, 2}, {6, 3, 12, 3}, 2, {32, 1}, 0, {0}},
    {3, {5, 1, 4}, {3, 3, 1}, 4, {1, 4, 1, 5}, 0, {0}},
    {3, {4, 5, 5}, {25, 1, 5}, 3, {1, 100, 1}, 0, {0}},
    {3, {2, 1, 3}, {1, 1, 0}, 3, {3, 2, 1}, 0, {0}},
    {4, {3, 5, 2, 3}, {1, 9, 45, 3}, 3, {10, 3, 3}, 0, {0}},
    {4, {3, 5, 4, 1}, {1, 0, 0, 1}, 2, {30, 2}, 0, {0}},
    {4, {5, 1, 4, 5}, {20, 4, 1, 4}, 4, {4, 5, 5, 1}, 0, {0}},
};

static const struct {
    uint32_t ranks[2];
    int64_t sizes[2][5], strides[2][5];
    uint32_t rank;
    int64_t shape[5], expected[5]; /* strides of the sum */
} sums[] = {
    {{3, 1}, {{1, 5, 1}, {2}}, {{5, 1, 5}, {1}}, 3, {1, 5, 2}, {10, 2, 1}},
    {{4, 4}, {{1, 5, 5, 4}, {1, 5, 5, 4}}, {{0, 6, 3, 2}, {4, 1, 1, 2}}, 4, {1, 5, 5, 4}, {100, 20, 4, 1}},
    {{3, 4}, {{5, 1, 4}, {1, 5, 1, 4}}, {{8, 8, 1}, {20, 4, 4, 1}}, 4, {1, 5, 1, 4}, {20, 4, 4, 1}},
    {{4, 4}, {{4, 1, 1, 1}, {4, 3, 2, 2}}, {{1, 4, 4, 1}, {2, 0, 0, 1}}, 4, {4, 3, 2, 2}, {12, 4, 2, 1}},
    {{2, 1}, {{1, 1}, {2}}, {{1, 1}, {1}}, 2, {1, 2}, {2, 1}},
    {{4, 5},
     {{2, 1, 1, 2}, {3, 2, 1, 1, 2}},
     {{2, 2, 2, 1}, {4, 2, 12, 1, 1}},
     5,
     {3, 2, 1, 1, 2},
     {4, 2, 12, 2, 1}},
    {{3, 5}, {{1, 1, 4}, {3, 1, 2, 1, 4}}, {{4, 4, 1}, {1, 1, 0, 1, 0}}, 5, {3, 1, 2, 1, 4}, {8, 8, 4, 4, 1}},
    {{4, 2}, {{1, 1, 5, 3}, {5, 3}}, {{15, 1, 3, 1}, {3, 1}}, 4, {1, 1, 5, 3}, {15, 1, 3, 1}},
    {{3, 1}, {{1, 1, 1}, {1}}, {{1, 2, 1}, {1}}, 3, {1, 1, 1}, {1, 1, 1}},
    {{4, 4}, {{2, 5, 1, 5}, {2, 5, 1, 5}}, {{0, 5, 5, 1}, {25, 5, 5, 1}}, 4, {2, 5, 1, 5}, {25, 5, 5, 1}},
    {{3, 1}, {{2, 1, 1}, {3}}, {{2, 1, 1}, {1}}, 3, {2, 1, 3}, {3, 3, 1}},
    {{2, 1}, {{2, 4}, {1}}, {{4, 4}, {1}}, 2, {2, 4}, {1, 2}},
    {{5, 5},
     {{4, 5, 5, 1, 3}, {4, 1, 5, 1, 1}},
     {{1, 60, 4, 300, 20}, {4, 6, 1, 0, 2}},
     5,
     {4, 5, 5, 1, 3},
     {1, 60, 4, 300, 20}},
    {{3, 1}, {{1, 1, 1}, {1}}, {{1, 1, 1}, {1}}, 3, {1, 1, 1}, {1, 1, 1}},
    {{3, 4}, {{1, 4, 3}, {1, 1, 1, 1}}, {{3, 3, 1}, {8, 4, 2, 1}}, 4, {1, 1, 4, 3}, {12, 3, 3, 1}},
    {{3, 3}, {{1, 1, 4}, {1, 1, 4}}, {{0, 12, 1}, {0, 0, 1}}, 3, {1, 1, 4}, {4, 4, 1}},
    {{4, 2}, {{1, 2, 5, 1}, {1, 1}}, {{10, 5, 1, 1}, {1, 1}}, 4, {1, 2, 5, 1}, {10, 5, 1, 1}},
    {{4, 2}, {{4, 1, 3, 1}, {3, 1}}, {{1, 54, 9, 27}, {1, 1}}, 4, {4, 1, 3, 1}, {1, 12, 4, 12}},
    {{5, 3}, {{4, 1, 2, 1, 1}, {2, 3, 1}}, {{4, 2, 1, 1, 1}, {1, 1, 2}}, 5, {4, 1, 2, 3, 1}, {6, 6, 1, 2, 6}},
    {{3, 5},
     {{2, 1, 4}, {4, 1, 2, 1, 4}},
     {{12, 1, 12}, {8, 8, 4, 4, 1}},
     5,
     {4, 1, 2, 1, 4},
     {8, 8, 1, 1, 2}},
    {{5, 5},
     {{2, 1, 1, 1, 3}, {2, 1, 1, 1, 3}},
     {{3, 3, 3, 3, 1}, {3, 3, 3, 3, 1}},
     5,
     {2, 1, 1, 1, 3},
     {3, 3, 3, 3, 1}},
    {{3, 3}, {{1, 1, 1}, {1, 1, 1}}, {{1, 1, 1}, {1, 1, 1}}, 3, {1, 1, 1}, {1, 1, 1}},
    {{4, 4}, {{2, 4, 1, 3}, {2, 4, 1, 3}}, {{1, 6, 24, 2}, {12, 3, 3, 1}}, 4, {2, 4, 1, 3}, {1, 6, 24, 2}},
    {{4, 4}, {{4, 4, 3, 4}, {4, 4, 3, 4}}, {{48, 1, 16, 4}, {48, 12, 4, 1}}, 4, {4, 4, 3, 4}, {48, 1, 16, 4}},
    {{4, 4}, {{5, 3, 3, 5}, {5, 3, 3, 5}}, {{45, 1, 15, 3}, {1, 5, 15, 45}}, 4, {5, 3, 3, 5}, {45, 1, 15, 3}},
    {{2, 2}, {{1, 1}, {1, 1}}, {{1, 1}, {1, 1}}, 2, {1, 1}, {1, 1}},
    {{2, 2}, {{1, 4}, {1, 4}}, {{4, 1}, {1, 2}}, 2, {1, 4}, {4, 1}},
    {{4, 4}, {{3, 2, 1, 1}, {3, 2, 1, 1}}, {{12, 6, 12, 1}, {2, 1, 2, 2}}, 4, {3, 2, 1, 1}, {2, 1, 2, 1}},
    {{3, 3}, {{2, 3, 2}, {2, 3, 2}}, {{12, 4, 1}, {14, 2, 1}}, 3, {2, 3, 2}, {6, 2, 1}},
    {{4, 4}, {{3, 4, 2, 3}, {3, 4, 2, 3}}, {{8, 2, 1, 24}, {24, 6, 1, 2}}, 4, {3, 4, 2, 3}, {8, 2, 1, 24}},
    {{3, 3}, {{1, 1, 2}, {1, 1, 2}}, {{2, 2, 1}, {1, 1, 1}}, 3, {1, 1, 2}, {2, 2, 1}},
    {{3, 3}, {{3, 1, 4}, {3, 1, 4}}, {{9, 54, 1}, {4, 4, 1}}, 3, {3, 1, 4}, {4, 12, 1}},
    {{5, 5},
     {{1, 3, 1, 1, 3}, {1, 3, 1, 1, 3}},
     {{9, 3, 9, 9, 1}, {9, 1, 9, 9, 3}},
     5,
     {1, 3, 1, 1, 3},
     {9, 3, 9, 9, 1}},
};

static void set_tensor(tn_tensor *t, uint32_t rank, const int64_t *sizes, const int64_t *strides)
{
    memset(t, 0, sizeof(*t));
    t->desc.rank = rank;
    t->desc.sizes = sizes;
    t->desc.strides = strides;
    t->state = tni_stride_state(rank, sizes, strides);
}

Test(strides, states_and_formats)
{
    int64_t out[5];
    tn_tensor t;
    for (uint32_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
        uint32_t rank = states[i].rank;
        cr_assert_eq(tni_stride_state(rank, states[i].sizes, states[i].strides), states[i].state, "row %u",
                     i);
        cr_assert_eq(tni_stride_format(rank, states[i].sizes, states[i].strides), states[i].format, "row %u",
                     i);
        set_tensor(&t, rank, states[i].sizes, states[i].strides);
        tni_preserve_strides(&t, rank, states[i].sizes, out);
        cr_assert_arr_eq(out, states[i].preserved, rank * sizeof(int64_t), "row %u", i);
    }
}

Test(strides, views)
{
    int64_t out[8];
    for (uint32_t i = 0; i < sizeof(views) / sizeof(*views); i++) {
        int32_t is_view = tni_view_strides(views[i].rank, views[i].sizes, views[i].strides, views[i].new_rank,
                                           views[i].new_sizes, out);
        cr_assert_eq(is_view, views[i].is_view, "row %u", i);
        if (is_view)
            cr_assert_arr_eq(out, views[i].expected, views[i].new_rank * sizeof(int64_t), "row %u", i);
    }
    int64_t ones[] = {1, 1};
    cr_assert(tni_view_strides(0, NULL, NULL, 2, ones, out));
    cr_assert_arr_eq(out, ones, sizeof(ones));
    cr_assert(tni_view_strides(2, ones, ones, 0, NULL, out));
}

Test(strides, pointwise_outputs)
{
    int64_t out[5];
    tn_tensor t[2], *inputs[2] = {&t[0], &t[1]};
    for (uint32_t i = 0; i < sizeof(sums) / sizeof(*sums); i++) {
        for (int k = 0; k < 2; k++) set_tensor(&t[k], sums[i].ranks[k], sums[i].sizes[k], sums[i].strides[k]);
        tni_pointwise_strides(inputs, 2, sums[i].rank, sums[i].shape, out);
        cr_assert_arr_eq(out, sums[i].expected, sums[i].rank * sizeof(int64_t), "row %u", i);
    }
}

Test(strides, formats)
{
    int64_t out[5];
    static const int64_t sizes[] = {2, 3, 4, 5, 6}, nchw[] = {60, 20, 5, 1}, nhwc[] = {60, 1, 15, 3},
                         ndhwc[] = {360, 1, 90, 18, 3};
    cr_assert_eq(tni_format_strides(4, sizes, TN_CONTIGUOUS_FORMAT, out), TN_OK);
    cr_assert_arr_eq(out, nchw, sizeof(nchw));
    cr_assert_eq(tni_format_strides(4, sizes, TN_CHANNELS_LAST, out), TN_OK);
    cr_assert_arr_eq(out, nhwc, sizeof(nhwc));
    cr_assert_eq(tni_format_strides(5, sizes, TN_CHANNELS_LAST_3D, out), TN_OK);
    cr_assert_arr_eq(out, ndhwc, sizeof(ndhwc));
    cr_assert_eq(tni_format_strides(3, sizes, TN_CHANNELS_LAST, out), TN_E_SHAPE);
    cr_assert_eq(tni_format_strides(4, sizes, TN_CHANNELS_LAST_3D, out), TN_E_SHAPE);
    cr_assert_str_eq(tn_last_error()->message, "required rank 5 tensor to use channels_last_3d format");
    cr_assert_eq(tni_format_strides(3, sizes, 77, out), TN_E_ARGUMENT);
}

Test(strides, extent_of_a_view)
{
    int64_t n, sizes[] = {3, 4}, strides[] = {10, 2}, zero[] = {3, 0}, huge[] = {INT64_MAX / 2, 1},
               negative[] = {1, -1};
    cr_assert_eq(tni_storage_extent(2, sizes, strides, &n), TN_OK);
    cr_assert_eq(n, 27);
    cr_assert_eq(tni_storage_extent(2, zero, strides, &n), TN_OK);
    cr_assert_eq(n, 0);
    cr_assert_eq(tni_storage_extent(0, NULL, NULL, &n), TN_OK);
    cr_assert_eq(n, 1);
    cr_assert_eq(tni_storage_extent(2, sizes, huge, &n), TN_E_SHAPE);
    cr_assert_eq(tni_storage_extent(2, sizes, negative, &n), TN_E_SHAPE);
}

Test(strides, bytes_that_no_storage_has)
{
    uint64_t n;
    cr_assert_eq(tni_storage_needed(3, 4, 8, &n), TN_OK);
    cr_assert_eq(n, 56);
    cr_assert_eq(tni_storage_needed(INT64_MAX, 0, 8, &n), TN_OK);
    cr_assert_eq(n, 0);
    cr_assert_eq(tni_storage_needed((int64_t)1 << 61, 1, 8, &n), TN_E_SHAPE);
    cr_assert_eq(tni_storage_needed(INT64_MAX, 1, 1, &n), TN_E_SHAPE);
}

/* A dimension of size 1 may have any stride, also a negative one. */
Test(strides, extent_of_a_dimension_of_size_1)
{
    int64_t n, sizes[] = {1, 4}, strides[] = {-7, 2};
    cr_assert_eq(tni_storage_extent(2, sizes, strides, &n), TN_OK);
    cr_assert_eq(n, 7);
}

Test(strides, views_of_no_elements)
{
    const int64_t sizes[] = {0, 3}, strides[] = {5, 7}, other[] = {3, 0}, row[] = {1, 1}, flat[] = {0},
                  one[] = {1};
    int64_t out[2];
    cr_assert(tni_view_strides(2, sizes, strides, 2, sizes, out));
    cr_assert_arr_eq(out, strides, sizeof strides, "the same shape keeps its strides");
    cr_assert(tni_view_strides(2, sizes, strides, 2, other, out));
    cr_assert_arr_eq(out, row, sizeof row);
    cr_assert(tni_view_strides(2, sizes, strides, 1, flat, out));
    cr_assert_arr_eq(out, one, sizeof one);
}

/* The output of no inputs is row-major, and so is that of inputs that do not agree. */
Test(strides, outputs_without_a_model)
{
    const int64_t sizes[] = {2, 3}, row[] = {3, 1}, column[] = {1, 2}, wide[] = {4, 1};
    int64_t out[2];
    tn_tensor t[3], *inputs[] = {&t[0], &t[1], &t[2]};
    tni_pointwise_strides(NULL, 0, 2, sizes, out);
    cr_assert_arr_eq(out, row, sizeof row);
    set_tensor(&t[0], 2, sizes, column);
    set_tensor(&t[1], 2, sizes, column);
    tni_pointwise_strides(inputs, 2, 2, sizes, out);
    cr_assert_arr_eq(out, column, sizeof column, "like both");
    set_tensor(&t[1], 2, sizes, row);
    tni_pointwise_strides(inputs, 2, 2, sizes, out);
    cr_assert_arr_eq(out, column, sizeof column, "the first decides");
    set_tensor(&t[1], 2, sizes, wide);
    tni_pointwise_strides(inputs, 2, 2, sizes, out);
    cr_assert_arr_eq(out, column, sizeof column);
    set_tensor(&t[0], 2, sizes, wide); /* not dense */
    tni_pointwise_strides(inputs, 1, 2, sizes, out);
    cr_assert_arr_eq(out, row, sizeof row);
    const int64_t three = 3, one = 1;
    set_tensor(&t[0], 1, &three, &one); /* broadcast */
    tni_pointwise_strides(inputs, 1, 2, sizes, out);
    cr_assert_arr_eq(out, row, sizeof row);
    set_tensor(&t[0], 2, sizes, row);
    set_tensor(&t[1], 1, &three, &one);
    tni_pointwise_strides(inputs, 2, 2, sizes, out);
    cr_assert_arr_eq(out, row, sizeof row);
}
