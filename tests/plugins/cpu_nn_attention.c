/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of the CPU plugin against the plain formula in float64. */
#include "attention_formula.h"
#include "cpu_nn.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/kernel.h>

#define FORWARD  "aten::_scaled_dot_product_flash_attention_for_cpu"
#define BACKWARD "aten::_scaled_dot_product_flash_attention_for_cpu_backward"

/* The bits of a number that its dtype holds exactly. */
static void encode(double x, tn_dtype dtype, char *to)
{
    float single = (float)x;
    uint16_t half = dtype == TN_FLOAT16 ? tn_half_store(x, 10, 15) : tn_half_store(x, 7, 127);
    if (dtype == TN_FLOAT64)
        memcpy(to, &x, 8);
    else if (dtype == TN_FLOAT32)
        memcpy(to, &single, 4);
    else
        memcpy(to, &half, 2);
}
static double decode(const char *from, tn_dtype dtype)
{
    double x;
    float single;
    uint16_t half;
    if (dtype == TN_FLOAT64) return memcpy(&x, from, 8), x;
    if (dtype == TN_FLOAT32) return memcpy(&single, from, 4), (double)single;
    memcpy(&half, from, 2);
    return dtype == TN_FLOAT16 ? tn_half_load(half, 10, 15) : tn_half_load(half, 7, 127);
}

static fixture_tensor tensor_of(fixture *f, tn_dtype dtype, uint32_t rank, const int64_t *sizes,
                                const double *x, int64_t count)
{
    int64_t bytes = tn_dtype_bytes(dtype);
    char *data = calloc((size_t)count + 1, (size_t)bytes);
    for (int64_t i = 0; x && i < count; i++) encode(x[i], dtype, data + i * bytes);
    fixture_tensor t = fixture_tensor_make(f, dtype, rank, sizes, data);
    free(data);
    return t;
}

static void expect(fixture *f, const fixture_tensor *t, const double *expected, int64_t count,
                   double tolerance, const char *what)
{
    int64_t bytes = tn_dtype_bytes(t->desc.dtype);
    char *got = malloc(t->bytes + 1);
    cr_assert_eq(fixture_read(f, t, got), TN_OK);
    for (int64_t i = 0; i < count; i++) {
        double x = decode(got + i * bytes, t->desc.dtype);
        bool near = x == expected[i] || fabs(x - expected[i]) <= tolerance * (1 + fabs(expected[i]));
        cr_assert(near, "%s: element %lld is %.9g, not %.9g", what, (long long)i, x, expected[i]);
    }
    free(got);
}

/* Tensors of a problem and its calls. */
typedef struct calls {
    fixture_tensor in[INPUTS], out[RESULTS];
    tn_value forward[7], backward[10], outs[2], grads[3];
} calls;

static void make_calls(fixture *f, const problem *p, const attention_numbers *n, calls *c)
{
    const int64_t *q = SIZES(p->batch, p->heads, p->queries, p->width);
    const int64_t *k = SIZES(p->batch, p->key_heads, p->keys, p->width);
    const int64_t *v = SIZES(p->batch, p->key_heads, p->keys, p->value_width);
    const int64_t *o = SIZES(p->batch, p->heads, p->queries, p->value_width);
    const int64_t *mask = p->mask == 1 ? SIZES(p->queries, p->keys) : SIZES(1, p->heads, 1, p->keys);
    tn_dtype log_dtype = p->dtype == TN_FLOAT64 ? TN_FLOAT64 : TN_FLOAT32;
    const int64_t *in_sizes[INPUTS] = {q, k, v, o, mask}, *out_sizes[RESULTS] = {o, o, q, k, v};
    for (int t = 0; t < INPUTS; t++) {
        if (t == MASK && !p->mask) continue;
        c->in[t] =
            tensor_of(f, p->dtype, t == MASK && p->mask == 1 ? 2 : 4, in_sizes[t], n->in[t], n->in_count[t]);
    }
    for (int t = 0; t < RESULTS; t++)
        c->out[t] = tensor_of(f, t == LOG_SUM ? log_dtype : p->dtype, t == LOG_SUM ? 3 : 4, out_sizes[t],
                              NULL, n->out_count[t]);
    tn_value forward[] = {fixture_value(&c->in[QUERY]),
                          fixture_value(&c->in[KEY]),
                          fixture_value(&c->in[VALUE]),
                          tn_value_float(0),
                          tn_value_bool(p->causal),
                          p->mask ? fixture_value(&c->in[MASK]) : tn_value_none(),
                          tn_value_none()};
    tn_value backward[] = {
        fixture_value(&c->in[GRAD]),     forward[0], forward[1], forward[2], fixture_value(&c->out[OUT]),
        fixture_value(&c->out[LOG_SUM]), forward[3], forward[4], forward[5], forward[6]};
    memcpy(c->forward, forward, sizeof forward);
    memcpy(c->backward, backward, sizeof backward);
    for (int t = 0; t < 2; t++) c->outs[t] = fixture_value(&c->out[t]);
    for (int t = 0; t < 3; t++) c->grads[t] = fixture_value(&c->out[GRAD_QUERY + t]);
}

static void run_calls(fixture *f, calls *c, int32_t threads)
{
    cr_assert_eq(nn_run(f, FORWARD, c->forward, 7, c->outs, 2, threads, 0), TN_OK);
    cr_assert_eq(nn_run(f, BACKWARD, c->backward, 10, c->grads, 3, threads, 0), TN_OK);
}

static void open_problem(const problem *p, fixture *f, attention_numbers *n, calls *c)
{
    fixture_open(f);
    make_numbers(p, n);
    make_calls(f, p, n, c);
}

static void check(problem p)
{
    static const char *const names[RESULTS] = {"out", "logsumexp", "grad_query", "grad_key", "grad_value"};
    double tolerance = p.dtype == TN_FLOAT64   ? 1e-13
                       : p.dtype == TN_FLOAT32 ? 4e-6
                       : p.dtype == TN_FLOAT16 ? 2e-3
                                               : 2e-2;
    fixture f;
    attention_numbers n;
    calls c;
    open_problem(&p, &f, &n, &c);
    for (int32_t threads = 1; threads <= 3; threads += 2) {
        run_calls(&f, &c, threads);
        for (int t = 0; t < RESULTS; t++)
            expect(&f, &c.out[t], n.out[t], n.out_count[t], tolerance * (t >= GRAD_QUERY ? 4 : 1), names[t]);
    }
    free_numbers(&n);
    fixture_close(&f);
}

Test(cpu_nn_attention, is_the_formula_in_every_dtype)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16};
    for (uint32_t i = 0; i < COUNT(dtypes); i++)
        check((problem){2, 3, 3, 37, 41, 24, 24, .dtype = dtypes[i]});
}

Test(cpu_nn_attention, covers_several_blocks_and_tiles)
{
    check((problem){1, 2, 2, 211, 530, 64, 64, .dtype = TN_FLOAT32});
    check((problem){1, 2, 2, 530, 270, 64, 64, .causal = true, .dtype = TN_FLOAT32});
    check((problem){1, 1, 1, 600, 600, 20, 36, .causal = true, .dtype = TN_FLOAT64});
    check((problem){1, 2, 2, 100, 300, 7, 130, .dtype = TN_FLOAT32});
}

Test(cpu_nn_attention, few_queries_read_keys_in_place)
{
    check((problem){2, 2, 2, 1, 700, 64, 64, .dtype = TN_FLOAT32});
    check((problem){2, 2, 1, 2, 300, 50, 70, .mask = 1, .dtype = TN_FLOAT32});
    check((problem){1, 2, 2, 2, 9, 10, 10, .causal = true, .dtype = TN_BFLOAT16});
    check((problem){1, 2, 2, 1, 9, 10, 10, .dtype = TN_FLOAT64});
}

/* Rows and heads in which every key is masked give zeros and -Inf. */
Test(cpu_nn_attention, masks_leave_keys_out)
{
    check((problem){2, 2, 2, 130, 290, 32, 32, .mask = 1, .dtype = TN_FLOAT32});
    check((problem){2, 3, 3, 130, 290, 32, 32, .mask = 2, .dtype = TN_FLOAT32});
    check((problem){1, 2, 2, 20, 30, 16, 16, .mask = 1, .dtype = TN_FLOAT16});
}

Test(cpu_nn_attention, groups_of_queries_share_keys)
{
    check((problem){2, 6, 2, 110, 300, 32, 32, .dtype = TN_FLOAT32});
    check((problem){1, 4, 1, 300, 300, 16, 16, .causal = true, .dtype = TN_FLOAT32});
}

Test(cpu_nn_attention, has_the_same_bits_for_any_number_of_threads)
{
    const problem p = {1, 2, 1, 500, 700, 40, 24, .causal = true, .dtype = TN_FLOAT32};
    fixture f;
    attention_numbers n;
    calls c;
    char *first[RESULTS], *again;
    open_problem(&p, &f, &n, &c);
    for (int32_t threads = 1; threads <= 4; threads++) {
        run_calls(&f, &c, threads);
        for (int t = 0; t < RESULTS; t++) {
            again = malloc(c.out[t].bytes);
            cr_assert_eq(fixture_read(&f, &c.out[t], again), TN_OK);
            if (threads == 1)
                first[t] = again;
            else
                cr_assert_eq(memcmp(first[t], again, c.out[t].bytes), 0, "result %d with %d threads", t,
                             threads);
            if (threads > 1) free(again);
        }
    }
    for (int t = 0; t < RESULTS; t++) free(first[t]);
    free_numbers(&n);
    fixture_close(&f);
}

/* Projections give [batch, length, heads, width]; their views have heads before length. */
Test(cpu_nn_attention, reads_and_writes_views)
{
    const problem p = {1, 3, 3, 70, 70, 16, 16, .causal = true, .dtype = TN_FLOAT32};
    fixture f;
    attention_numbers n;
    calls c;
    open_problem(&p, &f, &n, &c);
    float *columns = malloc(sizeof(float) * (size_t)n.in_count[QUERY]), *got = malloc(c.out[OUT].bytes);
    for (int64_t h = 0; h < 3; h++)
        for (int64_t i = 0; i < 70; i++)
            for (int64_t x = 0; x < 16; x++)
                columns[(x * 70 + i) * 3 + h] = (float)n.in[QUERY][(h * 70 + i) * 16 + x];
    fixture_tensor turned = fixture_tensor_make(&f, TN_FLOAT32, 4, SIZES(1, 16, 70, 3), columns);
    fixture_tensor view = nn_transposed(&turned, 1, 3);
    fixture_tensor out = nn_tensor(&f, 4, SIZES(1, 16, 70, 3), 0), out_view = nn_transposed(&out, 1, 3);
    c.forward[0] = fixture_value(&view);
    c.outs[0] = fixture_value(&out_view);
    cr_assert_eq(nn_run(&f, FORWARD, c.forward, 7, c.outs, 2, 2, 0), TN_OK);
    cr_assert_eq(fixture_read(&f, &out, got), TN_OK);
    for (int64_t i = 0; i < n.out_count[OUT]; i++) {
        double expected = n.out[OUT][((i % 3) * 70 + i / 3 % 70) * 16 + i / 210];
        cr_assert_float_eq((double)got[i], expected, 1e-5, "element %lld", (long long)i);
    }
    free(columns);
    free(got);
    free_numbers(&n);
    fixture_close(&f);
}

Test(cpu_nn_attention, leaves_broadcast_batches_and_wrong_masks_to_the_composite)
{
    fixture f;
    attention_numbers n;
    calls c;
    const problem p = {2, 4, 2, 5, 6, 8, 8, .dtype = TN_FLOAT32};
    open_problem(&p, &f, &n, &c);
    const tn_kernel_row *row = fixture_row(&f, FORWARD);
    fixture_tensor short_mask = nn_tensor(&f, 2, SIZES(5, 4), 1),
                   three = nn_tensor(&f, 4, SIZES(2, 3, 5, 8), 1);
    tn_call call = fixture_call(&f, row, c.forward, 7, c.outs, 2);
    cr_assert_null(row->can_run(f.self, &call));
    c.forward[5] = fixture_value(&short_mask);
    cr_assert_str_eq(row->can_run(f.self, &call), "the mask has another shape or dtype than the scores");
    c.forward[5] = tn_value_none();
    c.forward[0] = fixture_value(&three);
    cr_assert_str_eq(row->can_run(f.self, &call), "the heads of keys do not divide those of queries");
    free_numbers(&n);
    fixture_close(&f);
}
