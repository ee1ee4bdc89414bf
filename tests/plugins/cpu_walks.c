/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Results do not depend on the layout of operands or on the number of threads: transposed inputs, rows that
 * repeat one element, results written past the caches, scans along and across lines. Each is compared with a
 * plain loop.
 */
#include "fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Integers, whose sums are exact in every dtype here. */
static double number_at(int64_t i)
{
    return (double)(i * 7 % 61 - 30);
}
static void put(void *data, tn_dtype dtype, int64_t i, double value)
{
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, 4);
    if (dtype == TN_FLOAT32)
        ((float *)data)[i] = single;
    else if (dtype == TN_BFLOAT16)
        ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
    else
        ((int64_t *)data)[i] = (int64_t)value;
}
static double get(const void *data, tn_dtype dtype, int64_t i)
{
    if (dtype == TN_FLOAT32) return (double)((const float *)data)[i];
    if (dtype == TN_INT64) return (double)((const int64_t *)data)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    float single;
    memcpy(&single, &bits, 4);
    return (double)single;
}

/* A tensor over `elements` numbers in memory with the given strides. */
static fixture_tensor make(fixture *f, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                           const int64_t *strides, int64_t elements)
{
    void *data = calloc((size_t)elements, 8);
    for (int64_t i = 0; i < elements; i++) put(data, dtype, i, number_at(i));
    fixture_tensor t = fixture_tensor_make(f, dtype, 1, &elements, data);
    free(data);
    t.desc.rank = (uint8_t)rank;
    memcpy(t.sizes, sizes, rank * sizeof *sizes);
    memcpy(t.strides, strides, rank * sizeof *strides);
    return t;
}

/* out = a + b for matrices; the inputs have the given strides. */
static void check_add(tn_dtype dtype, int64_t rows, int64_t columns, const int64_t *a_strides,
                      const int64_t *b_strides, int32_t threads)
{
    const int64_t sizes[2] = {rows, columns}, strides[2] = {columns, 1}, n = rows * columns;
    fixture f;
    fixture_nest nest;
    void *got = calloc((size_t)n, 8);
    fixture_open(&f);
    f.threads = threads;
    fixture_tensor a = make(&f, dtype, 2, sizes, a_strides, n), b = make(&f, dtype, 2, sizes, b_strides, n),
                   o = make(&f, dtype, 2, sizes, strides, n);
    fixture_tensor *operands[] = {&o, &a, &b};
    for (int k = 0; k < 3; k++) {
        operands[k]->desc.sizes = operands[k]->sizes;
        operands[k]->desc.strides = operands[k]->strides;
    }
    tn_value args[] = {fixture_value(&a), fixture_value(&b), tn_value_int(1)}, out = fixture_value(&o);
    fixture_pointwise(&nest, operands, 3, 1);
    cr_assert_eq(fixture_run(&f, "aten::add.Tensor", args, 3, &out, 1, &nest.nest), TN_OK);
    fixture_read(&f, &o, got);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            double want = number_at(r * a_strides[0] + c * a_strides[1]) +
                          number_at(r * b_strides[0] + c * b_strides[1]);
            double found = get(got, dtype, r * columns + c);
            if (found != want) /* an assertion for each element would take longer than the kernels */
                cr_assert(0, "row %d, column %d: %g, not %g", (int)r, (int)c, found, want);
        }
    fixture_close(&f);
    free(got);
}

static const tn_dtype dtypes[] = {TN_FLOAT32, TN_BFLOAT16, TN_INT64};

Test(cpu_walks, inputs_across_the_output)
{
    enum { ROWS = 71, COLUMNS = 613 }; /* neither is a whole number of tiles */
    for (int k = 0; k < 3; k++)
        for (int32_t threads = 1; threads < 4; threads++) {
            check_add(dtypes[k], ROWS, COLUMNS, (int64_t[]){COLUMNS, 1}, (int64_t[]){1, ROWS}, threads);
            check_add(dtypes[k], ROWS, COLUMNS, (int64_t[]){1, ROWS}, (int64_t[]){1, ROWS}, threads);
            check_add(dtypes[k], ROWS, COLUMNS, (int64_t[]){0, 1}, (int64_t[]){1, ROWS}, threads);
        }
}

Test(cpu_walks, rows_of_one_element)
{
    static const int64_t columns[] = {2, 7, 8, 9, 49, 255, 300};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 7; i++)
            check_add(dtypes[k], 4099, columns[i], (int64_t[]){1, 0}, (int64_t[]){1, 0}, 1 + i % 3);
}

Test(cpu_walks, results_past_the_caches)
{
    /* 33 MiB each; the last rows end within a line. */
    check_add(TN_FLOAT32, 8449, 1024, (int64_t[]){1024, 1}, (int64_t[]){1024, 1}, 1);
    check_add(TN_FLOAT32, 8449, 1024, (int64_t[]){1024, 1}, (int64_t[]){1, 8449}, 2);
    check_add(TN_FLOAT32, 8449, 1025, (int64_t[]){0, 1}, (int64_t[]){1, 8449}, 2);
    check_add(TN_BFLOAT16, 16897, 1025, (int64_t[]){1025, 1}, (int64_t[]){1025, 1}, 2);
}

/* Matrices of [lines, length] that are scanned along their last or their first dimension. */
typedef struct scan {
    int64_t lines, length;
    int64_t strides[2]; /* of the lines, of the scanned dimension */
    fixture_tensor x, o, at;
    fixture_nest nest;
} scan;

/* A loop nest over the tensors, outputs first. The lines are innermost, then the scanned dimension. */
static void fill_nest(scan *c, fixture_tensor *const *tensors, uint32_t count)
{
    tn_operand *operands = c->nest.operands;
    for (uint32_t k = 0; k < count; k++) {
        int64_t bytes = tn_dtype_bytes(tensors[k]->desc.dtype);
        c->nest.strides[k][0] = c->strides[0] * bytes;
        c->nest.strides[k][1] = c->strides[1] * bytes;
        operands[k] = (tn_operand){
            .dtype = tensors[k]->desc.dtype, .host = tensors[k]->desc.host, .strides = c->nest.strides[k]};
    }
    c->nest.sizes[0] = c->lines;
    c->nest.sizes[1] = c->length;
    c->nest.nest = (tn_nest){.size = sizeof(tn_nest),
                             .rank = 2,
                             .kept = 1,
                             .n_operands = count,
                             .n_outputs = count - 1,
                             .operand_bytes = sizeof(tn_operand),
                             .numel = c->lines * c->length,
                             .sizes = c->nest.sizes,
                             .operands = operands};
}

static void compare_scans(const scan *c, tn_dtype dtype, const void *sums, const void *tops,
                          const int64_t *places)
{
    for (int64_t line = 0; line < c->lines; line++) {
        double sum = 0, top = -INFINITY;
        int64_t place = -1;
        for (int64_t i = 0; i < c->length; i++) {
            int64_t k = line * c->strides[0] + i * c->strides[1];
            double x_k = number_at(k);
            sum += x_k;
            place = x_k >= top ? i : place;
            top = x_k >= top ? x_k : top;
            if (get(sums, dtype, k) != sum || get(tops, dtype, k) != top || places[k] != place)
                cr_assert(0, "line %d, place %d", (int)line, (int)i);
        }
    }
}

/* cumsum and cummax along the last dimension or across it. */
static void check_scan(tn_dtype dtype, int64_t lines, int64_t length, int32_t across, int32_t threads)
{
    const int64_t sizes[2] = {lines, length}, n = lines * length;
    scan c = {.lines = lines, .length = length, .strides = {across ? 1 : length, across ? lines : 1}};
    fixture f;
    void *sums = calloc((size_t)n, 8), *tops = calloc((size_t)n, 8);
    int64_t *places = calloc((size_t)n, 8);
    fixture_open(&f);
    f.threads = threads;
    c.x = make(&f, dtype, 2, sizes, c.strides, n);
    c.o = make(&f, dtype, 2, sizes, c.strides, n);
    c.at = make(&f, TN_INT64, 2, sizes, c.strides, n);
    tn_value args[] = {fixture_value(&c.x), tn_value_int(1), tn_value_none()};
    tn_value outs[] = {fixture_value(&c.o), fixture_value(&c.at)};
    fill_nest(&c, (fixture_tensor *[]){&c.o, &c.at, &c.x}, 3);
    cr_assert_eq(fixture_run(&f, "aten::cummax", args, 2, outs, 2, &c.nest.nest), TN_OK);
    fixture_read(&f, &c.o, tops);
    fixture_read(&f, &c.at, places);
    fill_nest(&c, (fixture_tensor *[]){&c.o, &c.x}, 2);
    cr_assert_eq(fixture_run(&f, "aten::cumsum", args, 3, outs, 1, &c.nest.nest), TN_OK);
    fixture_read(&f, &c.o, sums);
    compare_scans(&c, dtype, sums, tops, places);
    fixture_tensor_free(&f, &c.x);
    fixture_tensor_free(&f, &c.o);
    fixture_tensor_free(&f, &c.at);
    fixture_close(&f);
    free(sums);
    free(tops);
    free(places);
}

Test(cpu_walks, scans_along_and_across)
{
    static const int64_t lines[] = {1, 3, 9, 700}, lengths[] = {1, 5, 1100};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 3; j++)
            for (int32_t across = 0; across < 2; across++) {
                check_scan(TN_FLOAT32, lines[i], lengths[j], across, 1 + j);
                check_scan(TN_INT64, lines[i], lengths[j], across, 1 + j);
            }
}
