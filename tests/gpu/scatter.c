/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scatters of the GPU plugins against loops over the source: the same elements in the same order, whether an item of the device
 * takes a line or an element of a sorted one. Lines are short and long, alone and beside each other.
 */
#include "../core/at_end.h"
#include "../plugins/frequency.h"
#include "device_suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Whether a scatter ran on the CPU would not show in its values. */
static void close_suite(void)
{
    const uint64_t on_cpu = tn_inspect_fallback_count(ctx);
    close_device();
    MUST_HOLD(on_cpu == 0);
}
TestSuite(scatter, .init = open_tested_device, .fini = close_suite, .timeout = 600);

enum { LONG = 700 }; /* elements of a line that GPUs sort */

/* self is [outer, size, inner], index and source [outer, n, inner]; lines of one element each are one dimension. */
typedef struct shape {
    int64_t outer, size, n, inner;
    int32_t is_shared; /* all lines have the index of the first one */
} shape;
static const shape shapes[] = {
    {1, 50, 1, 1, 0},    {1, 50, 255, 1, 0}, {1, 50, 256, 1, 0}, {1, 50, LONG, 1, 0}, {1, 1, 300, 1, 0},
    {1, 900, 300, 1, 0}, {2, 9, 300, 2, 0},  {1, 20, 270, 3, 1}, {3, 20, 260, 5, 1},  {4, 6, 20, 300, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* What the host knows of a case. */
typedef struct values {
    const shape *of;
    tn_dtype dtype;
    double *self, *source;
    int64_t *index;
} values;

static int64_t count_of(const shape *c, int64_t along)
{
    return c->outer * along * c->inner;
}

/* Small integers, which are exact in every dtype and so are their sums; noise where its sums depend on their order. */
static double element(tn_dtype dtype, int64_t i, uint32_t *state)
{
    switch (dtype) {
    case TN_FLOAT32:
        return (double)(float)noise(state);
    case TN_FLOAT64:
        return noise(state);
    case TN_BOOL:
        return (double)(i / 3 % 2);
    case TN_UINT8:
        return (double)(i * 5 % 7);
    default:
        return (double)(i * 5 % 7 - 3);
    }
}

static values make(const shape *c, tn_dtype dtype)
{
    const int64_t held = count_of(c, c->size), given = count_of(c, c->n);
    uint32_t state = 7;
    values v = {c, dtype, malloc((size_t)held * sizeof(double)), malloc((size_t)given * sizeof(double)),
                malloc((size_t)given * sizeof(int64_t))};
    for (int64_t i = 0; i < held; i++) v.self[i] = element(dtype, i + 2, &state);
    for (int64_t i = 0; i < given; i++) {
        const int64_t line = c->is_shared ? 0 : i / (c->n * c->inner) * c->inner + i % c->inner;
        const int64_t k = i / c->inner % c->n;
        v.source[i] = element(dtype, i, &state);
        v.index[i] = (k * k + (3 + line) * k + line) % c->size;
    }
    return v;
}

static void drop(values *v)
{
    free(v->self);
    free(v->source);
    free(v->index);
}

static tn_tensor *on_device(tn_dtype dtype, tn_ints sizes, const double *data)
{
    tn_tensor *t = tn_from_data(s, TN_FLOAT64, sizes, data, TN_CPU);
    return tn__to_copy(s, tn__to_copy(s, t, .dtype = dtype), .device = device);
}

static tn_ints sizes_of(const shape *c, int64_t along, int64_t out[3])
{
    out[0] = c->outer;
    out[1] = along;
    out[2] = c->inner;
    return count_of(c, 1) == 1 ? (tn_ints){out + 1, 1} : (tn_ints){out, 3};
}

static int64_t dim_of(const shape *c)
{
    return count_of(c, 1) == 1 ? 0 : 1;
}

static tn_tensor *self_of(const values *v)
{
    int64_t sizes[3];
    return on_device(v->dtype, sizes_of(v->of, v->of->size, sizes), v->self);
}
static tn_tensor *source_of(const values *v)
{
    int64_t sizes[3];
    return on_device(v->dtype, sizes_of(v->of, v->of->n, sizes), v->source);
}
/* Of a shared index one line, expanded. */
static tn_tensor *index_of(const values *v)
{
    const shape *c = v->of;
    int64_t sizes[3];
    if (!c->is_shared) return tn_from_data(s, TN_INT64, sizes_of(c, c->n, sizes), v->index, device);
    int64_t *line = malloc((size_t)c->n * sizeof *line);
    for (int64_t k = 0; k < c->n; k++) line[k] = v->index[k * c->inner];
    tn_tensor *t = tn_from_data(s, TN_INT64, TN_INTS(c->n, 1), line, device);
    free(line);
    return tn_expand(s, t, sizes_of(c, c->n, sizes));
}

/* The elements of `t` are `want`; quotients may differ in the last place. */
static void expect(tn_tensor *t, const double *want, int64_t count, const char *what, double tolerance)
{
    double *got = malloc((size_t)count * sizeof *got);
    t = tn__to_copy(s, tn__to_copy(s, t, .device = TN_CPU), .dtype = TN_FLOAT64);
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s: %s", what,
                 tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(tn_tensor_numel(t), count);
    cr_assert_eq(tn_to_host(s, t, got, (uint64_t)count * sizeof *got), TN_OK);
    for (int64_t i = 0; i < count; i++)
        cr_assert(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])) ||
                      fabs(got[i] - want[i]) <= tolerance * fabs(want[i]),
                  "%s: element %lld is %.17g, not %.17g", what, (long long)i, got[i], want[i]);
    free(got);
}

static void expect_self(const values *v, tn_tensor *t, const char *what, double tolerance)
{
    char text[128];
    const shape *c = v->of;
    snprintf(text, sizeof text, "%s of %s, [%lld, %lld -> %lld, %lld]", what, tn_dtype_name(v->dtype),
             (long long)c->outer, (long long)c->n, (long long)c->size, (long long)c->inner);
    expect(t, v->self, count_of(c, c->size), text, tolerance);
}

/* Where element i of the source goes to. */
static double *target(const values *v, int64_t i)
{
    const shape *c = v->of;
    return &v->self[(i / (c->n * c->inner) * c->size + v->index[i]) * c->inner + i % c->inner];
}

static double rounded(tn_dtype dtype, double x)
{
    return dtype == TN_FLOAT32 ? (double)(float)x : x;
}

static double combined(const char *how, tn_dtype dtype, double old, double x)
{
    if (strcmp(how, "prod") == 0) return rounded(dtype, old * x);
    if (strcmp(how, "amax") == 0) return isnan(old) || old > x ? old : x;
    if (strcmp(how, "amin") == 0) return isnan(old) || old < x ? old : x;
    return rounded(dtype, old + x);
}

/* Combines the source into self, in its order. */
static void combine(const values *v, const char *how, int32_t includes_self)
{
    const shape *c = v->of;
    const int64_t held = count_of(c, c->size), given = count_of(c, c->n);
    int64_t *counts = calloc((size_t)held, sizeof *counts);
    for (int64_t i = 0; i < given; i++) {
        double *to = target(v, i);
        const int32_t is_first = !includes_self && !counts[to - v->self];
        *to = is_first ? v->source[i] : combined(how, v->dtype, *to, v->source[i]);
        counts[to - v->self]++;
    }
    for (int64_t i = 0; i < held && strcmp(how, "mean") == 0; i++) {
        if (counts[i]) v->self[i] /= (double)(counts[i] + (includes_self ? 1 : 0));
        if (v->dtype == TN_INT64) v->self[i] = floor(v->self[i]);
    }
    free(counts);
}

static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT16, TN_BFLOAT16, TN_INT64,
                                  TN_INT16,   TN_UINT8,   TN_BOOL,     TN_FLOAT64};

static uint32_t count_dtypes(void)
{
    return sizeof dtypes / sizeof *dtypes - (has_double() ? 0u : 1u);
}

Test(scatter, the_last_of_equal_positions_counts)
{
    for (uint32_t k = 0; k < count_dtypes(); k++)
        for (int i = 0; i < SHAPES; i++) {
            values v = make(&shapes[i], dtypes[k]);
            tn_tensor *t = tn_scatter_(s, self_of(&v), dim_of(v.of), index_of(&v), source_of(&v));
            for (int64_t j = 0; j < count_of(v.of, v.of->n); j++) *target(&v, j) = v.source[j];
            expect_self(&v, t, "scatter", 0);
            drop(&v);
        }
}

Test(scatter, sums_are_made_in_the_order_of_the_source)
{
    for (uint32_t k = 0; k < count_dtypes(); k++)
        for (int i = 0; i < SHAPES; i++) {
            if (dtypes[k] == TN_BOOL || dtypes[k] == TN_UINT8) continue;
            values v = make(&shapes[i], dtypes[k]);
            tn_tensor *t = tn_scatter_add_(s, self_of(&v), dim_of(v.of), index_of(&v), source_of(&v));
            combine(&v, "sum", 1);
            expect_self(&v, t, "scatter_add", 0);
            drop(&v);
        }
}

Test(scatter, reductions_with_and_without_self)
{
    static const char *const ways[] = {"sum", "mean", "amax", "amin", "prod"};
    static const tn_dtype of[] = {TN_FLOAT32, TN_INT64, TN_FLOAT64};
    for (uint32_t k = 0; k < (has_double() ? 3 : 2); k++)
        for (int i = 3; i < SHAPES; i++)
            for (int way = 0; way < 10; way++) {
                const char *how = ways[way / 2];
                values v = make(&shapes[i], of[k]);
                const int32_t is_float = of[k] != TN_INT64;
                if (is_float && (how[0] == 'a')) v.source[5] = (double)NAN;
                for (int64_t j = 0; how[0] == 'p' && j < count_of(v.of, v.of->n); j++)
                    v.source[j] = is_float ? rounded(of[k], 1 + v.source[j] / 64) : j % 3 ? 1 : -1;
                tn_tensor *t = tn_scatter_reduce_(s, self_of(&v), dim_of(v.of), index_of(&v), source_of(&v),
                                                  how, .include_self = way % 2);
                combine(&v, how, way % 2);
                expect_self(&v, t, how, !is_float || how[0] != 'm' ? 0 : of[k] == TN_FLOAT32 ? 5e-7 : 1e-15);
                drop(&v);
            }
}

/* The number of so many significant bits that is nearest to x; of two the even one. */
static double of_bits(int bits, double x)
{
    int exponent;
    const double fraction = frexp(x, &exponent);
    return ldexp(rint(ldexp(fraction, bits)), exponent - bits);
}

/* Sums, means and products of half types are made in float32. */
Test(scatter, half_types_are_rounded_once)
{
    static const char *const ways[] = {"sum", "mean", "prod"};
    static const tn_dtype of[] = {TN_FLOAT16, TN_BFLOAT16};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < SHAPES; i++)
            for (int way = 0; way < 6; way++) {
                const char *how = ways[way / 2];
                const int64_t held = count_of(&shapes[i], shapes[i].size),
                              given = count_of(&shapes[i], shapes[i].n);
                values v = make(&shapes[i], of[k]);
                for (int64_t j = 0; j < given; j++)
                    v.source[j] = how[0] == 'p' ? 1 + (double)(j % 5 - 2) / 64 : 1 + (double)(j % 7) / 8;
                tn_tensor *self = self_of(&v);
                tn_scatter_reduce_(s, self, dim_of(v.of), index_of(&v), source_of(&v), how,
                                   .include_self = way % 2);
                v.dtype = TN_FLOAT32;
                combine(&v, how, way % 2);
                for (int64_t j = 0; j < held; j++) v.self[j] = of_bits(k ? 8 : 11, (double)(float)v.self[j]);
                expect_self(&v, self, how, 0);
                drop(&v);
            }
    const shape c = {1, 3, 600, 1, 0};
    values v = make(&c, TN_BFLOAT16);
    tn_tensor *at = tn_zeros_like(s, index_of(&v)), *ones = tn_ones_like(s, source_of(&v));
    v.self[0] = 600;
    v.self[1] = v.self[2] = 0;
    tn_tensor *none = tn_zeros_like(s, self_of(&v));
    expect_self(&v, tn_scatter_add(s, none, 0, at, ones), "scatter_add", 0);
    expect_self(&v, tn_index_add(s, none, 0, at, ones), "index_add", 0);
    expect_self(&v, tn_scatter_value_reduce(s, none, 0, at, TN_SCALAR(1), "add"), "scatter", 0);
    drop(&v);
}

/* The source may be larger than the index, and self in another order. */
Test(scatter, operands_with_strides_of_their_own)
{
    const shape c = {1, 30, 300, 1, 0};
    values v = make(&c, TN_FLOAT32);
    tn_tensor *self = tn_select(s, tn_stack(s, TN_TENSORS(self_of(&v), self_of(&v)), .dim = 1), 1, 1);
    tn_tensor *source = tn_cat(s, TN_TENSORS(source_of(&v), self_of(&v)), 0);
    tn_tensor *index = index_of(&v);
    index = tn_select(s, tn_stack(s, TN_TENSORS(tn_neg(s, index), index), .dim = 1), 1, 1);
    tn_scatter_add_(s, self, 0, index, source);
    tn_scatter_value_(s, self, 0, tn_slice(s, index, .end = 280), TN_SCALAR(2));
    tn_scatter_value_reduce_(s, self, 0, index, TN_SCALAR(0.25), "add");
    combine(&v, "sum", 1);
    for (int64_t j = 0; j < 280; j++) *target(&v, j) = 2;
    for (int64_t j = 0; j < 300; j++) *target(&v, j) = (double)(float)(*target(&v, j) + 0.25);
    expect_self(&v, self, "scatter of parts", 0);
    drop(&v);
}

/* self is [size, inner]. */
Test(scatter, rows_are_added_and_reduced)
{
    const shape c = {1, 40, 300, 70, 1};
    values v = make(&c, TN_FLOAT32), w = make(&c, TN_FLOAT32);
    tn_tensor *self = tn_select(s, self_of(&v), 0, 0), *source = tn_select(s, source_of(&v), 0, 0);
    tn_tensor *index = tn_select(s, tn_select(s, index_of(&v), 2, 0), 0, 0);
    tn_tensor *sums = tn_index_add(s, self, 0, index, source);
    tn_tensor *means = tn_index_reduce(s, self, 0, index, source, "mean", .include_self = 0);
    combine(&v, "sum", 1);
    expect_self(&v, sums, "index_add", 0);
    combine(&w, "mean", 0);
    expect_self(&w, means, "index_reduce", 5e-7);
    drop(&v);
    drop(&w);
}

/* Two indices and a mask: self is [20, 6], and the elements that they choose are scattered as one line. */
Test(scatter, elements_are_put_and_accumulated)
{
    double x[120], y[400], put[120], masked[120];
    int64_t rows[400], columns[400];
    uint32_t state = 3;
    for (int i = 0; i < 120; i++) x[i] = put[i] = masked[i] = (double)(float)noise(&state);
    for (int i = 0; i < 400; i++) {
        y[i] = (double)(float)noise(&state);
        rows[i] = i * i % 20;
        columns[i] = i * 5 % 6 - 6;
        double *to = &put[rows[i] * 6 + columns[i] + 6];
        *to = (double)(float)(*to + y[i]);
    }
    tn_tensor *self = on_device(TN_FLOAT32, TN_INTS(20, 6), x),
              *source = on_device(TN_FLOAT32, TN_INTS(400), y);
    tn_tensor *at[] = {tn_from_data(s, TN_INT64, TN_INTS(400), rows, device),
                       tn_from_data(s, TN_INT64, TN_INTS(400), columns, device)};
    tn_index_put_(s, self, TN_TENSORS(at[0], at[1]), source, .accumulate = 1);
    expect(self, put, 120, "index_put", 0);

    double large[1200];
    for (int i = 0; i < 1200; i++) large[i] = i < 120 ? x[i] : (double)(float)noise(&state);
    tn_tensor *many = on_device(TN_FLOAT32, TN_INTS(1200), large);
    tn_index_put_(s, many, TN_TENSORS(tn_gt_scalar(s, many, TN_SCALAR(0))),
                  tn_neg(s, tn_masked_select(s, many, tn_gt_scalar(s, many, TN_SCALAR(0)))));
    for (int i = 0; i < 1200; i++) large[i] = -fabs(large[i]);
    expect(many, large, 1200, "index_put of a mask", 0);
}

/* self is [30, 4, 3]: one index chooses rows of 12 elements, two choose rows of 3, and one in the middle no rows. */
Test(scatter, rows_are_put_and_accumulated)
{
    enum { COUNT = 300, HELD = 30 * 4 * 3 };
    static double x[HELD], y[COUNT * 12], want[HELD];
    int64_t first[COUNT], second[COUNT];
    uint32_t state = 11;
    for (int i = 0; i < HELD; i++) x[i] = (double)(float)noise(&state);
    for (int i = 0; i < COUNT * 12; i++) y[i] = (double)(float)noise(&state);
    for (int64_t i = 0; i < COUNT; i++) {
        first[i] = i * i % 30 - (i % 2 ? 30 : 0);
        second[i] = i % 4;
    }
    for (int way = 0; way < 6; way++) {
        const int adds = way % 2, of = way / 2; /* the first index, both, the second */
        const int64_t width = of == 1 ? 3 : 12;
        for (int i = 0; i < HELD; i++) want[i] = x[i];
        for (int64_t i = 0; i < COUNT && of < 2; i++)
            for (int64_t c = 0; c < width; c++) {
                double *to = &want[(first[i] + 30) % 30 * 12 + (of ? second[i] * 3 : 0) + c];
                *to = (double)(float)(adds ? *to + y[i * width + c] : y[i * width + c]);
            }
        for (int64_t i = 0; i < 9 * 90 && of == 2; i++) { /* values are [30, 9, 3] */
            double *to = &want[i / 27 * 12 + second[i / 3 % 9] * 3 + i % 3];
            *to = (double)(float)(adds ? *to + y[i] : y[i]);
        }
        tn_tensor *rows = tn_from_data(s, TN_INT64, TN_INTS(COUNT), first, device);
        tn_tensor *inner = tn_from_data(s, TN_INT64, TN_INTS(of == 1 ? COUNT : 9), second, device);
        tn_tensor *const at[][2] = {{rows, NULL}, {rows, inner}, {NULL, inner}};
        tn_ints sizes = of == 0 ? TN_INTS(COUNT, 4, 3) : of == 1 ? TN_INTS(COUNT, 3) : TN_INTS(30, 9, 3);
        tn_tensor *self = on_device(TN_FLOAT32, TN_INTS(30, 4, 3), x);
        tn_index_put_(s, self, ((tn_tensors){at[of], of == 0 ? 1 : 2}), on_device(TN_FLOAT32, sizes, y),
                      .accumulate = adds);
        expect(self, want, HELD, "index_put", 0);
    }
    int64_t bad[] = {0, 30};
    tn_index_put_(s, on_device(TN_FLOAT32, TN_INTS(30, 4, 3), x),
                  TN_TENSORS(tn_from_data(s, TN_INT64, TN_INTS(2), bad, device)),
                  on_device(TN_FLOAT32, TN_INTS(2, 4, 3), y));
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_E_INDEX);
    tn_index_put_(s, on_device(TN_FLOAT32, TN_INTS(30, 0), x),
                  TN_TENSORS(tn_from_data(s, TN_INT64, TN_INTS(1), bad, device)),
                  on_device(TN_FLOAT32, TN_INTS(1, 0), y));
    cr_assert_eq(tn_scope_failed(s), TN_OK);
}

/* Row 3 is padding. Sums of half types are rounded once. */
Test(scatter, gradients_of_a_table)
{
    static const tn_dtype of[] = {TN_FLOAT32, TN_FLOAT16, TN_BFLOAT16, TN_FLOAT64};
    enum { ROWS = 300, WIDTH = 33, TABLE = 11 };
    double *grad = malloc(ROWS * WIDTH * sizeof *grad);
    int64_t index[ROWS];
    for (int64_t i = 0; i < ROWS; i++) index[i] = i * i % TABLE;
    for (uint32_t k = 0; k < (has_double() ? 4 : 3); k++)
        for (int narrow = 0; narrow < 2; narrow++) {
            double sums[TABLE * WIDTH] = {0};
            uint32_t state = 5;
            for (int i = 0; i < ROWS * WIDTH; i++) {
                double *to = &sums[index[i / WIDTH] * WIDTH + i % WIDTH];
                grad[i] = element(of[k], i, &state);
                if (index[i / WIDTH] != 3) *to = rounded(of[k], *to + grad[i]);
            }
            tn_tensor *places = tn__to_copy(s, tn_from_data(s, TN_INT64, TN_INTS(ROWS), index, device),
                                            .dtype = narrow ? TN_INT32 : TN_INT64);
            tn_tensor *t = tn_embedding_dense_backward(s, on_device(of[k], TN_INTS(ROWS, WIDTH), grad),
                                                       places, TABLE, 3, 0);
            expect(t, sums, (int64_t)TABLE * WIDTH, "embedding_dense_backward", 0);
        }
    free(grad);
}

/* The late error of a call names a bad position; the others are written, and the device works afterwards. */
static void expect_late(tn_tensor *t, const double *want, int64_t count, const char *text)
{
    const int32_t status = tn_device_synchronize(ctx, device);
    cr_assert_eq(status, TN_E_INDEX, "status %d", status);
    cr_assert_not_null(strstr(tn_last_error()->message, text), "%s", tn_last_error()->message);
    expect(t, want, count, text, 0);
}

Test(scatter, positions_out_of_range_are_reported)
{
    static const struct {
        int64_t position;
        const char *text;
    } bad[] = {{50, "index 50 is out of bounds for dimension with size 50"},
               {-1, "index -1 is out of bounds for dimension with size 50"},
               {((int64_t)1 << 32) + 60, "index 4294967356 is out of bounds for dimension with size 50"}};
    const shape c = {1, 50, LONG, 1, 0};
    for (int i = 0; i < 3; i++) {
        char text[128];
        values v = make(&c, TN_FLOAT32);
        v.index[123] = bad[i].position;
        tn_tensor *t = self_of(&v), *u = self_of(&v), *index = index_of(&v), *source = source_of(&v);
        for (int64_t j = 0; j < LONG; j++)
            if (j != 123) *target(&v, j) = v.source[j];
        tn_scatter_(s, t, 0, index, source);
        snprintf(text, sizeof text, "scatter: %s", bad[i].text);
        expect_late(t, v.self, 50, text);
        drop(&v);
        v = make(&c, TN_FLOAT32);
        v.index[123] = 0;
        v.source[123] = 0;
        combine(&v, "sum", 1);
        tn_scatter_add_(s, u, 0, index, source);
        snprintf(text, sizeof text, "scatter_add: %s", bad[i].text);
        expect_late(u, v.self, 50, text);
        drop(&v);
    }
}

Test(scatter, positions_that_differ_above_their_low_half)
{
    const shape c = {1, 50, LONG, 1, 0};
    values v = make(&c, TN_FLOAT32);
    v.index[123] += (int64_t)1 << 32;
    tn_tensor *t = self_of(&v), *index = index_of(&v), *source = source_of(&v);
    tn_scatter_(s, t, 0, index, source);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_E_INDEX);
    tn_scatter_add_(s, t, 0, index, source);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_E_INDEX);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK, "the error comes once");
    drop(&v);
}

static void expect_no_row(const char *text)
{
    const int32_t status = tn_device_synchronize(ctx, device);
    cr_assert_eq(status, TN_E_INDEX, "status %d", status);
    cr_assert_not_null(strstr(tn_last_error()->message, text), "%s", tn_last_error()->message);
}

Test(scatter, a_row_of_no_table_is_reported)
{
    int64_t index[300] = {[299] = 4};
    double *grad = calloc(300 * 5, sizeof *grad);
    tn_tensor *places = tn_from_data(s, TN_INT64, TN_INTS(300), index, device);
    tn_embedding_dense_backward(s, on_device(TN_FLOAT32, TN_INTS(300, 5), grad), places, 4, -1, 0);
    expect_no_row("embedding_dense_backward: index out of range in self: got 4, expected 0 to 3");
    free(grad);
}

Test(scatter, who_chooses_a_row_of_no_table_is_named)
{
    const double ones[3 * 12] = {1};
    tn_tensor *index = tn_from_data(s, TN_INT64, TN_INTS(2), (int64_t[]){2, 102}, device);
    tn_tensor *table = on_device(TN_FLOAT32, TN_INTS(3, 12), ones),
              *t = on_device(TN_FLOAT32, TN_INTS(3), ones);
    tn_embedding(s, table, index);
    expect_no_row("embedding: index out of range in self: got 102, expected 0 to 2");
    tn_index_select(s, table, 0, index);
    expect_no_row("index_select: index out of range in self: got 102, expected 0 to 2");
    tn_index_select(s, tn_t(s, table), 1, index);
    expect_no_row("index_select: index out of range in self: got 102, expected 0 to 2");
    tn_index_reduce_(s, t, 0, index, on_device(TN_FLOAT32, TN_INTS(2), ones), "amax");
    expect_no_row("index_reduce: index out of range in self: got 102, expected 0 to 2");
}

Test(scatter, nothing_is_scattered)
{
    const double x[] = {1, 2, 3};
    tn_tensor *t = on_device(TN_FLOAT32, TN_INTS(3), x);
    tn_tensor *none = tn_empty(s, TN_INTS(0), .dtype = TN_INT64), *nothing = tn_empty(s, TN_INTS(0));
    tn_scatter_(s, t, 0, none, nothing);
    tn_scatter_add_(s, t, 0, none, nothing);
    tn_scatter_reduce_(s, t, 0, none, nothing, "amax", .include_self = 0);
    expect(t, x, 3, "scatter of nothing", 0);
}
