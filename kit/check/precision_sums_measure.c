/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures one operator of precision_sums.h and dtype: the results of the device and of the CPU plugin for
 * each class of inputs, along both dimensions where that applies. Prints nothing.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "precision_sums.h"

#define VALUE_BITS    320 /* of exact values: wide terms and their squares are added without loss */
#define SLOPE_BITS    500
#define TERMS         333 /* of a row; of a product PRODUCT_TERMS */
#define PRODUCT_ROWS  6
#define PRODUCT_TERMS 96
#define MANY_TERMS    100 /* for each sample */
#define SURPRISED     4   /* allowed error at a special value, in ULP */

typedef struct work {
    const precision_options *o;
    precision_row *row;
    const sums_function *f;
    sums_problem problem;
    mpfr_t *exact, *scale;
    double *got;
    unsigned char *raw, *again;
    double *errors; /* of one class, of both dimensions */
    int64_t count, capacity;
} work;

/* ---- One problem --------------------------------------------------------------------------------------- */

static void drop_exact(work *w)
{
    for (int64_t i = 0; w->exact && w->scale && i < w->problem.results; i++) {
        mpfr_clear(w->exact[i]);
        mpfr_clear(w->scale[i]);
    }
    free(w->exact);
    free(w->scale);
    free(w->got);
    free(w->raw);
    free(w->again);
    w->exact = w->scale = NULL;
    w->got = NULL;
    w->raw = w->again = NULL;
}

static int64_t most_numbers(const sums_problem *p)
{
    int64_t most = p->results;
    for (int32_t k = 0; k < p->f->inputs; k++)
        if (p->counts[k] > most) most = p->counts[k];
    return most;
}

static int32_t make_exact(work *w, mpfr_prec_t bits)
{
    int64_t results = w->problem.results, most = most_numbers(&w->problem);
    w->exact = malloc((size_t)(results + 1) * sizeof(*w->exact));
    w->scale = malloc((size_t)(results + 1) * sizeof(*w->scale));
    w->got = malloc((size_t)(most + 1) * sizeof(double));
    w->raw = calloc((size_t)(most + 1), sizeof(double));
    w->again = calloc((size_t)(most + 1), sizeof(double));
    for (int64_t i = 0; w->exact && w->scale && i < results; i++) {
        mpfr_init2(w->exact[i], bits);
        mpfr_init2(w->scale[i], bits);
    }
    return w->exact && w->scale && w->got && w->raw && w->again;
}

/* The text of the arguments, with numbers in place of letters. */
static void arguments_of(const sums_problem *p, char *out, size_t bytes)
{
    const char *at = p->f->arguments ? strpbrk(p->f->arguments, "DN") : NULL;
    out[0] = 0;
    if (at)
        snprintf(out, bytes, "%.*s%lld%s", (int)(at - p->f->arguments), p->f->arguments,
                 *at == 'D' ? (long long)p->dim : (long long)p->n, at + 1);
}

/* Calls the operator with the problem's numbers; `order` has the inputs as the schema wants them. */
typedef struct sums_call {
    precision_function function;
    precision_inputs inputs;
    precision_shape shapes[SUMS_MAX_INPUTS];
    precision_call call;
    char arguments[64];
} sums_call;

/* The third input of a sum with a product comes first in the schema. */
static int32_t place_of(const sums_function *f, int32_t k)
{
    return f->inputs == 3 ? (k + 1) % 3 : k;
}

static void make_call(work *w, sums_call *c, tn_device device)
{
    const sums_problem *p = &w->problem;
    memset(c, 0, sizeof(*c));
    arguments_of(p, c->arguments, sizeof(c->arguments));
    c->function = (precision_function){.name = p->f->name, .arguments = c->arguments, .inputs = p->f->inputs};
    for (int32_t k = 0; k < p->f->inputs; k++) {
        int32_t place = place_of(p->f, k);
        c->inputs.x[place] = p->x[k];
        c->shapes[place] = (precision_shape){.dims = p->dims[k]};
        memcpy(c->shapes[place].sizes, p->sizes[k], sizeof(p->sizes[k]));
    }
    c->inputs.count = p->results;
    c->call = (precision_call){.options = w->o,
                               .device = device,
                               .function = &c->function,
                               .format = w->row->format,
                               .inputs = &c->inputs,
                               .shapes = c->shapes,
                               .which = -1};
}

/* ---- Classes ------------------------------------------------------------------------------------------- */

static int32_t keep_error(work *w, double error)
{
    if (w->count == w->capacity) {
        int64_t capacity = w->capacity ? 2 * w->capacity : 4096;
        double *grown = realloc(w->errors, (size_t)capacity * sizeof(double));
        if (!grown) return 0;
        w->errors = grown;
        w->capacity = capacity;
    }
    w->errors[w->count++] = error;
    return 1;
}

static void judge(work *w, const precision_format *format, precision_stats *stats, int64_t i)
{
    double of_result, error = sums_error(format, w->got[i], w->exact[i], w->scale[i], &of_result);
    if (stats->count == 0 || fabs(error) > stats->greatest) {
        stats->greatest = fabs(error);
        stats->worst[0] = (double)i;
        stats->got[0] = w->got[i];
        stats->want[0] = mpfr_get_d(w->exact[i], MPFR_RNDN);
    }
    if (fabs(of_result) > stats->of_result) stats->of_result = fabs(of_result);
    stats->count += keep_error(w, error);
}

static void judge_special(work *w, const precision_format *format, precision_column *column)
{
    for (int64_t i = 0; i < w->problem.results; i++) {
        double of_result, error = sums_error(format, w->got[i], w->exact[i], w->scale[i], &of_result);
        int32_t tiny = mpfr_regular_p(w->exact[i]) && mpfr_get_exp(w->exact[i]) - 1 < format->least;
        column->special_count++;
        if (tiny && w->got[i] == 0 && fabs(of_result) >= 1) column->flushes = 1;
        if (fabs(error) <= SURPRISED) continue;
        if (column->surprise_count < PRECISION_MAX_SURPRISES) {
            precision_surprise *surprise = &column->surprises[column->surprise_count];
            surprise->x[0] = (double)i;
            surprise->got[0] = w->got[i];
            surprise->want[0] = mpfr_get_d(w->exact[i], MPFR_RNDN);
        }
        column->surprise_count++;
    }
}

/* The problem of a class, with exact values. */
static int32_t make_problem(work *w, int32_t class, int32_t dim)
{
    int32_t product = !w->f->row, many = class == SUMS_MANY, ok;
    int64_t rows = many ? 1 : product ? PRODUCT_ROWS : 2 + w->o->samples / 50;
    int64_t n = many ? MANY_TERMS * w->o->samples : product ? PRODUCT_TERMS : TERMS;
    if (class == PRECISION_SPECIAL)
        ok = sums_problem_special(&w->problem, w->f, w->row->format, dim);
    else
        ok = sums_problem_init(&w->problem, w->f, rows, n, dim);
    if (!ok) return 0;
    if (class != PRECISION_SPECIAL) sums_fill(&w->problem, w->row->format, class, w->o->seed);
    ok = make_exact(w, VALUE_BITS);
    if (ok) sums_exact(&w->problem, w->exact, w->scale);
    return ok;
}

static void drop_problem(work *w)
{
    drop_exact(w);
    sums_problem_finish(&w->problem);
}

/* Runs the current problem on one device. */
static int32_t measure_problem(work *w, tn_device device, precision_column *column, int32_t class)
{
    sums_call c;
    const precision_format *format;
    char reason[sizeof(w->row->skipped)];
    make_call(w, &c, device);
    if (precision_run(&c.call, w->got, w->raw, &format, reason, sizeof(reason)) != TN_OK) {
        if (column == &w->row->device) memcpy(w->row->skipped, reason, sizeof(reason));
        return 0;
    }
    if (class == PRECISION_SPECIAL) {
        judge_special(w, format, column);
        return 1;
    }
    for (int64_t i = 0; i < w->problem.results; i++) judge(w, format, &column->classes[class], i);
    if (class == SUMS_MANY && w->problem.dim)
        precision_repeats(&c.call, column, w->got, w->raw, w->again,
                          (size_t)(w->problem.results * tn_dtype_bytes(format->dtype)));
    return 1;
}

static int32_t has_class(const sums_function *f, int32_t class, int32_t dim)
{
    if (!dim && (!f->strided || (class == SUMS_MANY && f->kind == SUMS_OF_POWERS))) return 0;
    return class == PRECISION_SPECIAL || (class < SUMS_CLASSES && f->classes >> class & 1);
}

static int32_t measure_classes(work *w, tn_device device, precision_column *column)
{
    for (int32_t class = 0; class < PRECISION_CLASSES; class ++) {
        w->count = 0;
        for (int32_t dim = 1; dim >= 0; dim--) {
            if (!has_class(w->f, class, dim)) continue;
            int32_t ok = make_problem(w, class, dim) && measure_problem(w, device, column, class);
            drop_problem(w);
            if (!ok) return 0;
        }
        if (class < SUMS_CLASSES) precision_stats_finish(&column->classes[class], w->errors, w->count);
    }
    return 1;
}

/* ---- Gradients ----------------------------------------------------------------------------------------- */

#define SLOPE_ROWS 3
#define SLOPE_N    6

/* The exact gradient for input `which`, element i, and the size of its terms, as the first two of w->exact's. */
static void judge_slope(work *w, const precision_format *format, precision_stats *stats,
                        const double *weights, int32_t which, int64_t i)
{
    mpfr_t sum, size, term;
    mpfr_inits2(SLOPE_BITS, sum, size, term, (mpfr_ptr)0);
    mpfr_set_zero(sum, 1);
    mpfr_set_zero(size, 1);
    sums_slopes(&w->problem, w->exact, which, i);
    for (int64_t r = 0; r < w->problem.results; r++) {
        mpfr_mul_d(term, w->exact[r], weights[r], MPFR_RNDN);
        mpfr_add(sum, sum, term, MPFR_RNDN);
        mpfr_abs(term, term, MPFR_RNDN);
        mpfr_add(size, size, term, MPFR_RNDN);
    }
    double of_result, error = sums_error(format, w->got[i], sum, size, &of_result);
    if (stats->count == 0 || fabs(error) > stats->greatest) {
        stats->greatest = fabs(error);
        stats->worst[0] = (double)i;
        stats->got[0] = w->got[i];
        stats->want[0] = mpfr_get_d(sum, MPFR_RNDN);
    }
    if (fabs(of_result) > stats->of_result) stats->of_result = fabs(of_result);
    stats->count += keep_error(w, error);
    mpfr_clears(sum, size, term, (mpfr_ptr)0);
}

static int32_t measure_slopes(work *w, tn_device device, precision_column *column)
{
    uint64_t state = w->o->seed;
    int32_t ok = sums_problem_init(&w->problem, w->f, SLOPE_ROWS, SLOPE_N, 1) && make_exact(w, SLOPE_BITS);
    double *weights = ok ? malloc((size_t)w->problem.results * sizeof(double)) : NULL;
    if (weights) {
        sums_call c;
        const precision_format *format;
        sums_fill(&w->problem, w->row->format, SUMS_UNIFORM, w->o->seed);
        for (int64_t r = 0; r < w->problem.results; r++)
            weights[r] = precision_rounded(w->row->format, precision_share(&state) - 0.5);
        make_call(w, &c, device);
        c.call.weights = weights;
        w->count = 0;
        for (int32_t k = 0; k < w->f->inputs; k++) {
            c.call.which = place_of(w->f, k);
            if (precision_run(&c.call, w->got, NULL, &format, NULL, 0) != TN_OK) continue;
            for (int64_t i = 0; i < w->problem.counts[k]; i++)
                judge_slope(w, format, &column->slope, weights, k, i);
        }
        precision_stats_finish(&column->slope, w->errors, w->count);
    }
    free(weights);
    drop_problem(w);
    return weights != NULL;
}

int32_t sums_measure(const precision_options *o, const sums_function *f, precision_row *row)
{
    work w = {.o = o, .row = row, .f = f};
    row->class_names = sums_class_names;
    int32_t ok = measure_classes(&w, o->device, &row->device) && measure_slopes(&w, o->device, &row->device);
    if (ok && o->cpu)
        row->has_cpu = measure_classes(&w, o->cpu, &row->cpu) && measure_slopes(&w, o->cpu, &row->cpu);
    free(w.errors);
    return ok || row->skipped[0];
}
