/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop nest. Apart from literal cases, nests of random operands are walked, and must visit for each
 * operand the addresses that the definition of broadcasting gives, the same number of times.
 */
#include "core/loop_nest.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

typedef struct operand {
    tn_tensor t;
    int64_t sizes[6], strides[6];
} operand;

static void set_operand(operand *o, uint32_t rank, const int64_t *sizes, const int64_t *strides)
{
    memset(o, 0, sizeof(*o));
    if (rank) memcpy(o->sizes, sizes, rank * 8);
    if (rank) memcpy(o->strides, strides, rank * 8);
    o->t.desc.dtype = TN_FLOAT32;
    o->t.desc.rank = rank;
    o->t.desc.sizes = o->sizes;
    o->t.desc.strides = o->strides;
    o->t.desc.host = o;
    o->t.desc.allocation = &o->t;
    o->t.desc.byte_offset = 64;
    o->t.state = tni_stride_state(rank, sizes, strides);
    tni_numel(rank, sizes, &o->t.numel);
}

static void set_contiguous(operand *o, uint32_t rank, const int64_t *sizes)
{
    int64_t strides[6];
    tni_contiguous_strides(rank, sizes, strides);
    set_operand(o, rank, sizes, strides);
}

static void expect(const tni_nest *n, uint32_t rank, uint32_t kept, const int64_t *sizes)
{
    cr_assert_eq(n->nest.rank, rank);
    cr_assert_eq(n->nest.kept, kept);
    if (rank) cr_assert_arr_eq(n->nest.sizes, sizes, rank * 8);
}

static void expect_strides(const tni_nest *n, uint32_t k, const int64_t *strides)
{
    if (n->nest.rank) cr_assert_arr_eq(n->nest.operands[k].strides, strides, n->nest.rank * 8);
}
#define LIST(...) ((const int64_t[]){__VA_ARGS__})

/* A nest of the input's shape. */
static void pointwise(tni_nest *n, const operand *out, const operand *in)
{
    tni_nest_init(n, in->t.desc.rank, in->t.desc.sizes);
    tni_nest_add(n, &out->t, TN_OPERAND_OUTPUT);
    tni_nest_add(n, &in->t, 0);
}

static void reduce(tni_nest *n, const operand *out, const operand *in, uint64_t mask, int32_t keepdim)
{
    tni_nest_init(n, in->t.desc.rank, in->t.desc.sizes);
    tni_nest_add_reduced(n, &out->t, mask, keepdim);
    tni_nest_add(n, &in->t, 0);
}

/* The same, finished. */
static void finish_pointwise(tni_nest *n, const operand *out, const operand *in)
{
    pointwise(n, out, in);
    tni_nest_finish(n, 0);
}

static void finish_reduction(tni_nest *n, const operand *out, const operand *in, uint64_t mask,
                             int32_t keepdim)
{
    reduce(n, out, in, mask, keepdim);
    tni_nest_finish(n, mask);
}

Test(loop_nest, contiguous_operands_are_one_dimension)
{
    operand out, a;
    tni_nest n;
    double number[2] = {0};
    set_contiguous(&out, 3, LIST(2, 3, 4));
    set_contiguous(&a, 3, LIST(2, 3, 4));
    pointwise(&n, &out, &a);
    tni_nest_add_immediate(&n, number, TN_FLOAT64);
    tni_nest_finish(&n, 0);
    expect(&n, 1, 1, LIST(24));
    expect_strides(&n, 0, LIST(4));
    expect_strides(&n, 1, LIST(4));
    expect_strides(&n, 2, LIST(0));
    const tn_nest *nest = &n.nest;
    cr_assert_eq(nest->numel, 24);
    cr_assert_eq(nest->n_outputs, 1);
    cr_assert_eq(nest->n_operands, 3);
    cr_assert_eq(nest->operand_bytes, sizeof(tn_operand));
    cr_assert_eq(nest->operands[0].flags, TN_OPERAND_OUTPUT);
    cr_assert_eq(nest->operands[1].host, (char *)&a);
    cr_assert_eq(nest->operands[1].allocation, &a.t);
    cr_assert_eq(nest->operands[1].byte_offset, 64);
    cr_assert_eq(nest->operands[2].flags, TN_OPERAND_IMMEDIATE);
    cr_assert_eq(nest->operands[2].dtype, TN_FLOAT64);
    cr_assert_eq(nest->operands[2].host, (char *)number);
}

Test(loop_nest, one_element_has_rank_0)
{
    operand out, a;
    tni_nest n;
    set_contiguous(&out, 0, LIST(0));
    set_contiguous(&a, 2, LIST(1, 1));
    finish_pointwise(&n, &out, &a);
    expect(&n, 0, 0, NULL);
    cr_assert_eq(n.nest.numel, 1);
}

Test(loop_nest, rows_and_columns_are_broadcast)
{
    operand out, row, column, number;
    tni_nest n;
    set_contiguous(&out, 2, LIST(3, 4));
    set_contiguous(&row, 1, LIST(4));
    set_contiguous(&column, 2, LIST(3, 1));
    set_contiguous(&number, 0, LIST(0));
    tni_nest_init(&n, 2, LIST(3, 4));
    tni_nest_add(&n, &out.t, TN_OPERAND_OUTPUT);
    tni_nest_add(&n, &row.t, 0);
    tni_nest_add(&n, &column.t, 0);
    tni_nest_add(&n, &number.t, 0);
    tni_nest_finish(&n, 0);
    expect(&n, 2, 2, LIST(4, 3));
    expect_strides(&n, 0, LIST(4, 16));
    expect_strides(&n, 1, LIST(4, 0));
    expect_strides(&n, 2, LIST(0, 4));
    expect_strides(&n, 3, LIST(0, 0));
}

Test(loop_nest, transposed_operands_become_one_dimension)
{
    operand out, a;
    tni_nest n;
    set_operand(&out, 4, LIST(2, 3, 4, 5), LIST(60, 1, 15, 3));
    set_operand(&a, 4, LIST(2, 3, 4, 5), LIST(60, 1, 15, 3));
    finish_pointwise(&n, &out, &a);
    expect(&n, 1, 1, LIST(120));
    expect_strides(&n, 1, LIST(4));
}

Test(loop_nest, the_output_decides_the_order)
{
    operand out, a;
    tni_nest n;
    set_contiguous(&out, 2, LIST(3, 4));
    set_operand(&a, 2, LIST(3, 4), LIST(1, 3));
    finish_pointwise(&n, &out, &a);
    expect(&n, 2, 2, LIST(4, 3));
    expect_strides(&n, 1, LIST(12, 4));
}

Test(loop_nest, reduced_dimensions_come_last)
{
    operand out, in;
    tni_nest n;
    set_contiguous(&in, 3, LIST(2, 3, 4));
    set_contiguous(&out, 2, LIST(2, 4));
    finish_reduction(&n, &out, &in, 2, 0);
    expect(&n, 3, 2, LIST(4, 2, 3));
    expect_strides(&n, 0, LIST(4, 16, 0));
    expect_strides(&n, 1, LIST(4, 48, 16));
    set_contiguous(&out, 3, LIST(2, 1, 4));
    finish_reduction(&n, &out, &in, 2, 1);
    expect(&n, 3, 2, LIST(4, 2, 3));
    expect_strides(&n, 0, LIST(4, 16, 0));
    set_contiguous(&out, 1, LIST(2));
    finish_reduction(&n, &out, &in, 6, 0);
    expect(&n, 2, 1, LIST(2, 12));
    expect_strides(&n, 0, LIST(4, 0));
    expect_strides(&n, 1, LIST(48, 4));
    set_contiguous(&out, 0, LIST(0));
    finish_reduction(&n, &out, &in, 7, 0);
    expect(&n, 1, 0, LIST(24));
    expect_strides(&n, 0, LIST(0));
    expect_strides(&n, 1, LIST(4));
}

Test(loop_nest, reduced_dimensions_of_one_element_vanish)
{
    operand out, in;
    tni_nest n;
    set_contiguous(&in, 2, LIST(3, 1));
    set_contiguous(&out, 1, LIST(3));
    finish_reduction(&n, &out, &in, 2, 0);
    expect(&n, 1, 1, LIST(3));
    expect_strides(&n, 0, LIST(4));
}

Test(loop_nest, positions_keep_their_order)
{
    operand out, in;
    tni_nest n;
    set_operand(&in, 2, LIST(3, 4), LIST(1, 3)); /* transposed: sorting would turn it */
    set_contiguous(&out, 0, LIST(0));
    reduce(&n, &out, &in, 3, 0);
    tni_nest_finish_positions(&n, 3);
    expect(&n, 2, 0, LIST(4, 3));
    expect_strides(&n, 1, LIST(12, 4));
    set_contiguous(&in, 2, LIST(3, 4));
    reduce(&n, &out, &in, 3, 0);
    tni_nest_finish_positions(&n, 3);
    expect(&n, 1, 0, LIST(12));
}

Test(loop_nest, a_scanned_dimension_stands_alone)
{
    operand out, in;
    tni_nest n;
    set_contiguous(&in, 3, LIST(2, 3, 4));
    set_contiguous(&out, 3, LIST(2, 3, 4));
    pointwise(&n, &out, &in);
    tni_nest_finish_scan(&n, 4);
    expect(&n, 2, 1, LIST(6, 4));
    expect_strides(&n, 0, LIST(16, 4));
    set_contiguous(&in, 2, LIST(5, 1));
    set_contiguous(&out, 2, LIST(5, 1));
    pointwise(&n, &out, &in);
    tni_nest_finish_scan(&n, 2);
    expect(&n, 2, 1, LIST(5, 1));
    set_contiguous(&in, 0, LIST(0));
    set_contiguous(&out, 0, LIST(0));
    pointwise(&n, &out, &in);
    tni_nest_finish_scan(&n, 1);
    expect(&n, 1, 0, LIST(1));
}

/* The sum over all visits of a hash of the operands' offsets, which the order of visits does not change. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u ^ b;
    return (h ^ h >> 29) * 0x94d049bb133111ebu;
}

static uint64_t walk(const tn_nest *nest)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < nest->numel; i++) {
        uint64_t h = 0;
        for (uint32_t k = 0; k < nest->n_operands; k++) {
            int64_t rest = i, offset = 0;
            for (uint32_t d = 0; d < nest->rank; d++) {
                offset += rest % nest->sizes[d] * nest->operands[k].strides[d];
                rest /= nest->sizes[d];
            }
            h = mix(h, (uint64_t)offset);
        }
        sum += h;
    }
    return sum;
}

static uint64_t walk_by_definition(const operand *operands, uint32_t count, uint32_t rank,
                                   const int64_t *shape, int64_t numel)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < numel; i++) {
        uint64_t h = 0;
        for (uint32_t k = 0; k < count; k++) {
            const tn_tensor_desc *t = &operands[k].t.desc;
            int64_t rest = i, offset = 0;
            for (uint32_t d = 0; d < rank; d++) {
                int64_t at = rest % shape[rank - 1 - d];
                rest /= shape[rank - 1 - d];
                if (d < t->rank && t->sizes[t->rank - 1 - d] != 1)
                    offset += at * t->strides[t->rank - 1 - d] * 4;
            }
            h = mix(h, (uint64_t)offset);
        }
        sum += h;
    }
    return sum;
}

static uint32_t state = 1;
static uint32_t next_random(uint32_t below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

static void random_operand(operand *o, uint32_t rank, const int64_t *shape, int32_t is_output)
{
    int64_t sizes[6], strides[6], stride = 1;
    uint32_t first = is_output ? 0 : next_random(rank + 1) * next_random(2), order[6];
    uint32_t n = rank - first;
    for (uint32_t i = 0; i < n; i++) {
        sizes[i] = !is_output && next_random(4) == 0 ? 1 : shape[first + i];
        order[i] = i;
    }
    for (uint32_t i = n; i > 1 && next_random(2); i--) {
        uint32_t j = next_random(i), t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
    for (uint32_t i = n; i-- > 0;) {
        strides[order[i]] = !is_output && next_random(6) == 0 ? 0 : stride;
        stride *= sizes[order[i]] * (next_random(5) == 0 ? 2 : 1);
    }
    set_operand(o, n, sizes, strides);
}

Test(loop_nest, random_nests_visit_what_broadcasting_says)
{
    for (int round = 0; round < 3000; round++) {
        operand operands[4];
        int64_t shape[6], numel = 1;
        uint32_t rank = next_random(6), count = 1 + next_random(4);
        tni_nest n;
        for (uint32_t i = 0; i < rank; i++) numel *= shape[i] = 1 + next_random(4);
        tni_nest_init(&n, rank, shape);
        for (uint32_t k = 0; k < count; k++) {
            random_operand(&operands[k], rank, shape, k == 0);
            tni_nest_add(&n, &operands[k].t, k == 0 ? TN_OPERAND_OUTPUT : 0);
        }
        tni_nest_finish(&n, 0);
        cr_assert_eq(n.nest.kept, n.nest.rank);
        cr_assert_eq(walk(&n.nest), walk_by_definition(operands, count, rank, shape, numel), "round %d",
                     round);
        for (uint32_t d = 0; d < n.nest.rank; d++) cr_assert_gt(n.nest.sizes[d], 1);
    }
}
