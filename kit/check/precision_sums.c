/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact sums and products, and functions of them; see precision_sums.h. `scale` says by how many units of its
 * last place a result moves when each input moves by one unit of its own: for a sum the size of its terms, for
 * a variance its condition number (Chan, Golub and LeVeque, "Algorithms for computing the sample variance",
 * 1983), for a power of e its exponent.
 */
#include <math.h>
#include <stdlib.h>
#include "precision_sums.h"

#define STEP_BITS 100 /* differences are taken over 2^-100: their error is 2^-200 of the slope, or so */

/* ---- Rows ---------------------------------------------------------------------------------------------- */

/* The sum of x and that of |x|. */
static void add_all(mpfr_t out, mpfr_t scale, const mpfr_t *x, int64_t n)
{
    mpfr_set_zero(out, 1);
    mpfr_set_zero(scale, 1);
    for (int64_t i = 0; i < n; i++) {
        mpfr_add(out, out, x[i], MPFR_RNDN);
        mpfr_signbit(x[i]) ? mpfr_sub(scale, scale, x[i], MPFR_RNDN)
                           : mpfr_add(scale, scale, x[i], MPFR_RNDN);
    }
}

static void exact_sum(mpfr_t *out, mpfr_t *scale, const mpfr_t *x, int64_t n)
{
    add_all(*out, *scale, x, n);
}
static void exact_mean(mpfr_t *out, mpfr_t *scale, const mpfr_t *x, int64_t n)
{
    add_all(*out, *scale, x, n);
    mpfr_div_si(*out, *out, (long)n, MPFR_RNDN);
    mpfr_div_si(*scale, *scale, (long)n, MPFR_RNDN);
}
static void exact_prod(mpfr_t *out, mpfr_t *scale, const mpfr_t *x, int64_t n)
{
    mpfr_set_ui(*out, 1, MPFR_RNDN);
    for (int64_t i = 0; i < n; i++) mpfr_mul(*out, *out, x[i], MPFR_RNDN);
    mpfr_abs(*scale, *out, MPFR_RNDN);
}
static void exact_cumsum(mpfr_t *out, mpfr_t *scale, const mpfr_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        mpfr_abs(scale[i], x[i], MPFR_RNDN);
        mpfr_set(out[i], x[i], MPFR_RNDN);
        if (i > 0) mpfr_add(out[i], out[i], out[i - 1], MPFR_RNDN);
        if (i > 0) mpfr_add(scale[i], scale[i], scale[i - 1], MPFR_RNDN);
    }
}
static void sum_of_squares(mpfr_t out, const mpfr_t *x, mpfr_srcptr center, int64_t n)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(out));
    mpfr_set_zero(out, 1);
    for (int64_t i = 0; i < n; i++) {
        mpfr_set(t, x[i], MPFR_RNDN);
        if (center) mpfr_sub(t, t, center, MPFR_RNDN);
        mpfr_fma(out, t, t, out, MPFR_RNDN);
    }
    mpfr_clear(t);
}
static void exact_norm(mpfr_t *out, mpfr_t *scale, const mpfr_t *x, int64_t n)
{
    sum_of_squares(*out, x, NULL, n);
    mpfr_sqrt(*out, *out, MPFR_RNDN);
    mpfr_set(*scale, *out, MPFR_RNDN);
}
/* The scale is sqrt(S sum x^2) / (n - 1), where S is the sum of squared deviations. */
static void exact_var(mpfr_t *out, mpfr_t *scale, const mpfr_t *x, int64_t n)
{
    exact_mean(out, scale, x, n);
    sum_of_squares(*scale, x, *out, n);
    mpfr_swap(*out, *scale);
    sum_of_squares(*scale, x, NULL, n);
    mpfr_mul(*scale, *scale, *out, MPFR_RNDN);
    mpfr_sqrt(*scale, *scale, MPFR_RNDN);
    mpfr_div_si(*out, *out, (long)n - 1, MPFR_RNDN);
    mpfr_div_si(*scale, *scale, (long)n - 1, MPFR_RNDN);
}

/* The greatest of x, and the sum of e^(x - greatest). */
static void powers(mpfr_t greatest, mpfr_t sum, const mpfr_t *x, int64_t n)
{
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(sum));
    mpfr_set(greatest, x[0], MPFR_RNDN);
    mpfr_set_zero(sum, 1);
    for (int64_t i = 1; i < n; i++) mpfr_max(greatest, greatest, x[i], MPFR_RNDN);
    for (int64_t i = 0; i < n; i++) {
        mpfr_sub(t, x[i], greatest, MPFR_RNDN);
        mpfr_exp(t, t, MPFR_RNDN);
        mpfr_add(sum, sum, t, MPFR_RNDN);
    }
    mpfr_clear(t);
}
/* A unit of the sum of powers, of which one is 1, is one of 1 in its logarithm (Blanchard, Higham and Higham,
 * "Accurately computing the log-sum-exp and softmax functions", 2021). */
static void exact_logsumexp(mpfr_t *out, mpfr_t *scale, const mpfr_t *x, int64_t n)
{
    mpfr_t greatest;
    int32_t nan = 0;
    mpfr_init2(greatest, mpfr_get_prec(*out));
    for (int64_t i = 0; i < n; i++) nan |= mpfr_nan_p(x[i]) != 0;
    powers(greatest, *out, x, n);
    mpfr_log(*scale, *out, MPFR_RNDN);
    mpfr_add(*out, *scale, greatest, MPFR_RNDN);
    /* The limit if the greatest is an infinity. */
    if (mpfr_inf_p(greatest) && !nan) mpfr_set(*out, greatest, MPFR_RNDN);
    mpfr_abs(greatest, greatest, MPFR_RNDN);
    mpfr_add(*scale, *scale, greatest, MPFR_RNDN);
    mpfr_add_ui(*scale, *scale, 1, MPFR_RNDN);
    mpfr_clear(greatest);
}
static void exact_softmax(mpfr_t *out, mpfr_t *scale, const mpfr_t *x, int64_t n)
{
    mpfr_t greatest, sum;
    mpfr_inits2(mpfr_get_prec(*out), greatest, sum, (mpfr_ptr)0);
    powers(greatest, sum, x, n);
    for (int64_t i = 0; i < n; i++) {
        mpfr_sub(scale[i], x[i], greatest, MPFR_RNDN);
        mpfr_exp(out[i], scale[i], MPFR_RNDN);
        mpfr_div(out[i], out[i], sum, MPFR_RNDN);
        mpfr_ui_sub(scale[i], 1, scale[i], MPFR_RNDN);
        mpfr_mul(scale[i], scale[i], out[i], MPFR_RNDN);
    }
    mpfr_clears(greatest, sum, (mpfr_ptr)0);
}
static void exact_log_softmax(mpfr_t *out, mpfr_t *scale, const mpfr_t *x, int64_t n)
{
    mpfr_t greatest, sum;
    mpfr_inits2(mpfr_get_prec(*out), greatest, sum, (mpfr_ptr)0);
    powers(greatest, sum, x, n);
    mpfr_log(sum, sum, MPFR_RNDN);
    for (int64_t i = 0; i < n; i++) {
        mpfr_sub(out[i], x[i], greatest, MPFR_RNDN);
        mpfr_sub(scale[i], sum, out[i], MPFR_RNDN);
        mpfr_add_ui(scale[i], scale[i], 1, MPFR_RNDN);
        mpfr_sub(out[i], out[i], sum, MPFR_RNDN);
    }
    mpfr_clears(greatest, sum, (mpfr_ptr)0);
}

/* (x - mean) / sqrt(variance + eps); its terms are x and the mean. */
#define EPS 1.0000000000000001e-05
static void exact_layer_norm(mpfr_t *out, mpfr_t *scale, const mpfr_t *x, int64_t n)
{
    mpfr_t mean, size, spread;
    mpfr_inits2(mpfr_get_prec(*out), mean, size, spread, (mpfr_ptr)0);
    exact_mean(&mean, &size, x, n);
    sum_of_squares(spread, x, mean, n);
    mpfr_div_si(spread, spread, (long)n, MPFR_RNDN);
    mpfr_add_d(spread, spread, EPS, MPFR_RNDN);
    mpfr_rec_sqrt(spread, spread, MPFR_RNDN);
    for (int64_t i = 0; i < n; i++) {
        mpfr_abs(scale[i], x[i], MPFR_RNDN);
        mpfr_add(scale[i], scale[i], size, MPFR_RNDN);
        mpfr_mul(scale[i], scale[i], spread, MPFR_RNDN);
        mpfr_sub(out[i], x[i], mean, MPFR_RNDN);
        mpfr_mul(out[i], out[i], spread, MPFR_RNDN);
    }
    mpfr_clears(mean, size, spread, (mpfr_ptr)0);
}

/* ---- Products ------------------------------------------------------------------------------------------ */

static void set_sizes(sums_problem *p, int32_t input, int32_t dims, const int64_t *sizes)
{
    p->dims[input] = dims;
    p->counts[input] = 1;
    for (int32_t i = 0; i < dims; i++) {
        p->sizes[input][i] = sizes[i];
        p->counts[input] *= sizes[i];
    }
}

static int64_t sizes_of_mm(sums_problem *p, int64_t rows, int64_t n)
{
    set_sizes(p, 0, 2, (int64_t[]){rows, n});
    set_sizes(p, 1, 2, (int64_t[]){n, rows});
    p->results = rows * rows;
    return n;
}
static void term_of_mm(const sums_problem *p, int64_t r, int64_t t, int64_t *first, int64_t *second)
{
    *first = r / p->rows * p->n + t;
    *second = t * p->rows + r % p->rows;
}
/* The third input is last here, but first in the call. */
static int64_t sizes_of_addmm(sums_problem *p, int64_t rows, int64_t n)
{
    set_sizes(p, 2, 2, (int64_t[]){rows, rows});
    return sizes_of_mm(p, rows, n);
}
#define BATCHES 2
static int64_t sizes_of_bmm(sums_problem *p, int64_t rows, int64_t n)
{
    set_sizes(p, 0, 3, (int64_t[]){BATCHES, rows, n});
    set_sizes(p, 1, 3, (int64_t[]){BATCHES, n, rows});
    p->results = BATCHES * rows * rows;
    return n;
}
static void term_of_bmm(const sums_problem *p, int64_t r, int64_t t, int64_t *first, int64_t *second)
{
    int64_t batch = r / (p->rows * p->rows);
    term_of_mm(p, r % (p->rows * p->rows), t, first, second);
    *first += batch * p->rows * p->n;
    *second += batch * p->rows * p->n;
}
/* Windows of 3 by 3 over images of 5 by 4: 6 results for each of `rows` filters. */
#define WINDOW 3
#define HEIGHT 5
#define WIDTH  4
#define DOWN   (HEIGHT - WINDOW + 1)
#define ACROSS (WIDTH - WINDOW + 1)
static int64_t sizes_of_conv(sums_problem *p, int64_t rows, int64_t n)
{
    int64_t channels =
        2 * ((n + 2 * WINDOW * WINDOW - 1) / (2 * WINDOW * WINDOW)); /* the two halves may cancel */
    set_sizes(p, 0, 4, (int64_t[]){1, channels, HEIGHT, WIDTH});
    set_sizes(p, 1, 4, (int64_t[]){rows, channels, WINDOW, WINDOW});
    p->results = rows * DOWN * ACROSS;
    return channels * WINDOW * WINDOW;
}
static void term_of_conv(const sums_problem *p, int64_t r, int64_t t, int64_t *first, int64_t *second)
{
    int64_t filter = r / (DOWN * ACROSS), y = r / ACROSS % DOWN, x = r % ACROSS;
    int64_t channel = t / (WINDOW * WINDOW), down = t / WINDOW % WINDOW, across = t % WINDOW;
    *first = (channel * HEIGHT + y + down) * WIDTH + x + across;
    *second = filter * p->n + t;
}

#define ALL_CLASSES   ((1 << SUMS_CLASSES) - 1)
#define NO_CANCELLING (ALL_CLASSES & ~(1 << SUMS_CANCELLING))

/* Functions of lines along a dimension, and products, whose terms are numbered. */
#define LINES(aten, args, of, magnitudes, function, ...)                                                  \
    {                                                                                                     \
        .name = aten, .arguments = args, .inputs = 1, .kind = of, .classes = magnitudes, .row = function, \
        __VA_ARGS__                                                                                       \
    }
#define PRODUCT(aten, count, terms, shapes)                                                          \
    {                                                                                                \
        .name = aten, .inputs = count, .kind = SUMS_OF_TERMS, .classes = ALL_CLASSES, .term = terms, \
        .sizes = shapes                                                                              \
    }

const sums_function sums_functions[] = {
    LINES("aten::sum.dim_IntList", "dim=[D]", SUMS_OF_TERMS, ALL_CLASSES, exact_sum, .strided = 1),
    LINES("aten::mean.dim", "dim=[D]", SUMS_OF_TERMS, ALL_CLASSES, exact_mean, .strided = 1),
    LINES("aten::prod.dim_int", "dim=D", SUMS_OF_FACTORS, NO_CANCELLING, exact_prod, .strided = 1),
    LINES("aten::var.correction", "dim=[D]", SUMS_OF_SPREADS, ALL_CLASSES, exact_var, .strided = 1),
    LINES("aten::linalg_vector_norm", "dim=[D]", SUMS_OF_TERMS, NO_CANCELLING, exact_norm, .strided = 1),
    LINES("aten::logsumexp", "dim=[D]", SUMS_OF_POWERS, ALL_CLASSES, exact_logsumexp, .strided = 1),
    LINES("aten::softmax.int", "dim=D", SUMS_OF_POWERS, ALL_CLASSES, exact_softmax, .strided = 1, .each = 1),
    LINES("aten::log_softmax.int", "dim=D", SUMS_OF_POWERS, ALL_CLASSES, exact_log_softmax, .strided = 1,
          .each = 1),
    LINES("aten::cumsum", "dim=D", SUMS_OF_TERMS, ALL_CLASSES, exact_cumsum, .strided = 1, .each = 1),
    LINES("aten::layer_norm", "normalized_shape=[N]", SUMS_OF_SPREADS, ALL_CLASSES, exact_layer_norm,
          .each = 1),
    PRODUCT("aten::mm", 2, term_of_mm, sizes_of_mm),
    PRODUCT("aten::bmm", 2, term_of_bmm, sizes_of_bmm),
    PRODUCT("aten::addmm", 3, term_of_mm, sizes_of_addmm),
    PRODUCT("aten::conv2d", 2, term_of_conv, sizes_of_conv),
    {.name = NULL},
};

/* ---- Problems ------------------------------------------------------------------------------------------ */

int32_t sums_problem_init(sums_problem *p, const sums_function *f, int64_t rows, int64_t n, int32_t dim)
{
    *p = (sums_problem){.f = f, .rows = rows, .n = n, .dim = dim};
    if (f->row) {
        set_sizes(p, 0, 2, dim ? (int64_t[]){rows, n} : (int64_t[]){n, rows});
        p->results = f->each ? rows * n : rows;
    } else {
        p->n = f->sizes(p, rows, n);
    }
    for (int32_t k = 0; k < f->inputs; k++) {
        p->x[k] = calloc((size_t)p->counts[k], sizeof(double));
        if (p->x[k]) continue;
        sums_problem_finish(p);
        return 0;
    }
    return 1;
}

void sums_problem_finish(sums_problem *p)
{
    for (int32_t k = 0; k < SUMS_MAX_INPUTS; k++) {
        free(p->x[k]);
        p->x[k] = NULL;
    }
}

/* ---- Evaluation ---------------------------------------------------------------------------------------- */

/* One input element moved by `step`. */
typedef struct change {
    int32_t which;
    int64_t i;
    mpfr_srcptr step; /* NULL: none */
} change;

static void load(mpfr_t out, const sums_problem *p, int32_t which, int64_t i, const change *c)
{
    mpfr_set_d(out, p->x[which][i], MPFR_RNDN);
    if (c->step && c->which == which && c->i == i) mpfr_add(out, out, c->step, MPFR_RNDN);
}

static mpfr_t *numbers(int64_t count, mpfr_prec_t bits)
{
    mpfr_t *x = malloc((size_t)(count + 1) * sizeof(*x));
    for (int64_t i = 0; x && i < count; i++) mpfr_init2(x[i], bits);
    return x;
}
static void free_numbers(mpfr_t *x, int64_t count)
{
    for (int64_t i = 0; x && i < count; i++) mpfr_clear(x[i]);
    free(x);
}

static void evaluate_rows(const sums_problem *p, mpfr_t *out, mpfr_t *scale, const change *c)
{
    mpfr_prec_t bits = mpfr_get_prec(*out);
    int64_t along = p->dim ? 1 : p->rows, across = p->dim ? p->n : 1, some = p->f->each ? p->n : 1;
    mpfr_t *x = numbers(p->n, bits), *row_out = numbers(some, bits), *row_scale = numbers(some, bits);
    for (int64_t row = 0; x && row_out && row_scale && row < p->rows; row++) {
        for (int64_t i = 0; i < p->n; i++) load(x[i], p, 0, row * across + i * along, c);
        p->f->row(row_out, row_scale, (const mpfr_t *)x, p->n);
        for (int64_t i = 0; i < some; i++) {
            int64_t at = p->f->each ? row * across + i * along : row;
            mpfr_swap(out[at], row_out[i]);
            mpfr_swap(scale[at], row_scale[i]);
        }
    }
    free_numbers(x, p->n);
    free_numbers(row_out, some);
    free_numbers(row_scale, some);
}

static void evaluate_product(const sums_problem *p, mpfr_t *out, mpfr_t *scale, const change *c, int64_t r)
{
    mpfr_t a, b;
    mpfr_inits2(mpfr_get_prec(*out), a, b, (mpfr_ptr)0);
    mpfr_set_zero(a, 1);
    if (p->f->inputs > 2) load(a, p, 2, r, c);
    mpfr_set(out[r], a, MPFR_RNDN);
    mpfr_abs(scale[r], a, MPFR_RNDN);
    for (int64_t t = 0; t < p->n; t++) {
        int64_t first, second;
        p->f->term(p, r, t, &first, &second);
        load(a, p, 0, first, c);
        load(b, p, 1, second, c);
        mpfr_mul(a, a, b, MPFR_RNDN);
        mpfr_add(out[r], out[r], a, MPFR_RNDN);
        mpfr_abs(a, a, MPFR_RNDN);
        mpfr_add(scale[r], scale[r], a, MPFR_RNDN);
    }
    mpfr_clears(a, b, (mpfr_ptr)0);
}

static void evaluate(const sums_problem *p, mpfr_t *out, mpfr_t *scale, const change *c)
{
    if (p->f->row) {
        evaluate_rows(p, out, scale, c);
        return;
    }
    for (int64_t r = 0; r < p->results; r++) evaluate_product(p, out, scale, c, r);
}

void sums_exact(const sums_problem *p, mpfr_t *out, mpfr_t *scale)
{
    evaluate(p, out, scale, &(change){0});
}

void sums_slopes(const sums_problem *p, mpfr_t *out, int32_t which, int64_t i)
{
    mpfr_prec_t bits = mpfr_get_prec(*out);
    mpfr_t *down = numbers(p->results, bits), *scale = numbers(p->results, bits), step;
    mpfr_init2(step, 64);
    mpfr_set_ui_2exp(step, 1, -STEP_BITS, MPFR_RNDN);
    if (down && scale) {
        evaluate(p, out, scale, &(change){which, i, step});
        mpfr_neg(step, step, MPFR_RNDN);
        evaluate(p, down, scale, &(change){which, i, step});
        for (int64_t r = 0; r < p->results; r++) {
            mpfr_sub(out[r], out[r], down[r], MPFR_RNDN);
            mpfr_mul_2si(out[r], out[r], STEP_BITS - 1, MPFR_RNDN);
        }
    }
    mpfr_clear(step);
    free_numbers(down, p->results);
    free_numbers(scale, p->results);
}

double sums_error(const precision_format *f, double got, mpfr_srcptr exact, mpfr_srcptr scale,
                  double *of_result)
{
    int32_t unit = precision_unit(f, exact), terms = mpfr_regular_p(scale) ? precision_unit(f, scale) : unit;
    *of_result = precision_error(f, got, exact);
    return terms > unit ? ldexp(*of_result, unit - terms) : *of_result;
}
