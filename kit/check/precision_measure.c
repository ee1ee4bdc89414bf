/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures one operator and dtype: exact values once, then the results of the device and of the CPU plugin
 * for the same inputs. Repeats and a second stream show whether the bits are the same. Prints nothing.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/device.h>
#include "precision.h"

#define VALUE_BITS 160 /* of exact values: three times a float64 */
#define SURPRISED  4   /* allowed error at a special value, in ULP */
#define MAX_SLOPES 600 /* gradients are compared of this many elements; differences are slow */
#define REPEATS    2

typedef struct work {
    const precision_options *o;
    precision_row *row;
    precision_inputs inputs;
    double numbers[4]; /* arguments that are not tensors */
    mpfr_t x[2 * PRECISION_MAX_INPUTS];
    mpfr_t *exact; /* one or two for each element */
    int32_t parts;
    double *got, *errors;
    unsigned char *raw, *again;
    size_t raw_bytes;
} work;

static void load_inputs(work *w, int64_t i)
{
    for (int32_t k = 0; k < w->inputs.arrays; k++) mpfr_set_d(w->x[k], w->inputs.x[k][i], MPFR_RNDN);
}

static int32_t make_exact(work *w)
{
    const precision_function *f = w->row->function;
    w->parts = w->row->format->complex ? 2 : 1;
    w->exact = malloc((size_t)(w->inputs.count * w->parts + 1) * sizeof(*w->exact));
    if (!w->exact) return 0;
    for (int64_t i = 0; i < w->inputs.count; i++) {
        mpfr_t *out = w->exact + i * w->parts;
        for (int32_t k = 0; k < w->parts; k++) mpfr_init2(out[k], VALUE_BITS);
        load_inputs(w, i);
        if (w->parts == 2 && w->inputs.classes[i] == PRECISION_SPECIAL) continue; /* judged separately */
        if (w->parts == 2)
            precision_pairs(f->name, out, w->x);
        else
            f->real(out[0], w->x, w->numbers);
    }
    return 1;
}

/* ---- One column -------------------------------------------------------------------------------------- */

/* A denormal number, or one with a denormal result. */
static int32_t class_of(const work *w, const precision_format *out, int64_t i)
{
    int32_t class = w->inputs.classes[i];
    mpfr_srcptr exact = w->exact[i * w->parts];
    int32_t tiny = mpfr_regular_p(exact) && mpfr_get_exp(exact) - 1 < out->least;
    return class != PRECISION_SPECIAL && tiny && w->parts == 1 ? PRECISION_DENORMAL : class;
}

/* A sum whose terms cancel cannot be more exact than the terms: the ratio of the greatest term's unit to
 * the result's. */
static double of_terms(const work *w, const precision_format *out, int64_t i)
{
    int32_t unit = precision_unit(out, w->exact[i]), greatest = unit;
    mpfr_t term;
    mpfr_init2(term, 53);
    /* Of three inputs the last two form one term; of two, both do. */
    for (int32_t k = 0; k < (w->row->function->inputs == 2 ? 2 : 1); k++) {
        mpfr_set_d(term, w->inputs.x[k][i], MPFR_RNDN);
        if (mpfr_number_p(term) && precision_unit(out, term) > greatest) greatest = precision_unit(out, term);
    }
    mpfr_clear(term);
    return ldexp(1, unit - greatest);
}

static double error_of(const work *w, const precision_format *out, int64_t i)
{
    if (w->parts == 1 && w->row->function->flags & PRECISION_TERMS)
        return precision_error(out, w->got[i], w->exact[i]) * of_terms(w, out, i);
    if (w->parts == 1) return precision_error(out, w->got[i], w->exact[i]);
    if (out->complex) return precision_error_pair(out, w->got + 2 * i, w->exact + 2 * i);
    return precision_error(out, w->got[i], w->exact[2 * i]);
}

static void keep_worst(const work *w, const precision_format *out, precision_stats *stats, int64_t i)
{
    for (int32_t k = 0; k < w->inputs.arrays; k++) stats->worst[k] = w->inputs.x[k][i];
    for (int32_t k = 0; k < w->parts; k++) {
        stats->got[k] = out->complex ? w->got[2 * i + k] : k == 0 ? w->got[i] : 0;
        stats->want[k] = mpfr_get_d(w->exact[i * w->parts + k], MPFR_RNDN);
    }
}

static void measure_class(work *w, const precision_format *out, precision_column *column, int32_t class)
{
    precision_stats *stats = &column->classes[class];
    double greatest = -1;
    int64_t count = 0;
    for (int64_t i = 0; i < w->inputs.count; i++) {
        if (class_of(w, out, i) != class) continue;
        double error = error_of(w, out, i);
        if (fabs(error) > greatest) {
            greatest = fabs(error);
            keep_worst(w, out, stats, i);
        }
        w->errors[count++] = error;
        if (class == PRECISION_DENORMAL && w->parts == 1 && w->got[i] == 0 && fabs(error) >= 1)
            column->flushes = 1;
    }
    precision_stats_finish(stats, w->errors, count);
}

/* Whether a result differs from the definition, which goes to `want`. */
static int32_t surprising(const work *w, const precision_format *out, int64_t i, double *want)
{
    precision_part parts[2];
    double x[2 * PRECISION_MAX_INPUTS], got = w->got[i];
    if (w->parts == 1) {
        want[0] = mpfr_get_d(w->exact[i], MPFR_RNDN);
        if (!(fabs(error_of(w, out, i)) <= SURPRISED)) return 1;
        return mpfr_zero_p(w->exact[i]) && got == 0 && !signbit(got) != !mpfr_signbit(w->exact[i]);
    }
    for (int32_t k = 0; k < w->inputs.arrays; k++) x[k] = w->inputs.x[k][i];
    precision_pairs_special(w->row->function->name, x, w->inputs.arrays, parts);
    for (int32_t k = 0; k < 2; k++) want[k] = parts[k].value;
    return !precision_pair_fits(out, out->complex ? w->got + 2 * i : w->got + i, parts, out->complex ? 2 : 1);
}

static void measure_special(work *w, const precision_format *out, precision_column *column)
{
    for (int64_t i = 0; i < w->inputs.count; i++) {
        double want[2] = {0, 0};
        if (w->inputs.classes[i] != PRECISION_SPECIAL) continue;
        column->special_count++;
        if (!surprising(w, out, i, want)) continue;
        if (column->surprise_count < PRECISION_MAX_SURPRISES) {
            precision_surprise *surprise = &column->surprises[column->surprise_count];
            for (int32_t k = 0; k < w->inputs.arrays; k++) surprise->x[k] = w->inputs.x[k][i];
            for (int32_t k = 0; k < (out->complex ? 2 : 1); k++)
                surprise->got[k] = w->got[out->complex ? 2 * i + k : i];
            memcpy(surprise->want, want, sizeof(want));
        }
        column->surprise_count++;
    }
}

static int32_t same_bits(precision_call *call, double *numbers, const void *raw, void *again, size_t bytes)
{
    const precision_format *format;
    return precision_run(call, numbers, again, &format, NULL, 0) != TN_OK || memcmp(raw, again, bytes) == 0;
}

void precision_repeats(precision_call *call, precision_column *column, double *numbers, const void *raw,
                       void *again, size_t bytes)
{
    tn_context *ctx = call->options->ctx;
    tn_stream *stream = NULL;
    int32_t threads = tn_get_num_threads(ctx);
    column->same_again = column->same_elsewhere = 1;
    for (int32_t k = 0; k < REPEATS; k++) column->same_again &= same_bits(call, numbers, raw, again, bytes);
    /* One more element than needed, if there is one. */
    tn_set_num_threads(ctx, threads > 1 ? 1 : 2);
    column->same_threads = same_bits(call, numbers, raw, again, bytes);
    tn_set_num_threads(ctx, threads);
    if (tn_stream_create(ctx, call->device, 0, &stream) != TN_OK) return;
    call->stream = stream;
    column->same_elsewhere = same_bits(call, numbers, raw, again, bytes);
    call->stream = NULL;
    tn_stream_release(stream);
}

/* The gradient for ones, compared with differences of the exact function. */
static void measure_slopes(work *w, precision_call *call, precision_column *column)
{
    const precision_format *format = NULL;
    int64_t count = 0, stride = w->inputs.count / MAX_SLOPES + 1;
    double greatest = -1;
    mpfr_t slope;
    mpfr_init2(slope, VALUE_BITS);
    for (call->which = 0; call->which < w->row->function->inputs; call->which++) {
        if (precision_run(call, w->got, NULL, &format, NULL, 0) != TN_OK) continue;
        for (int64_t i = 0; i < w->inputs.count; i += stride) {
            if (w->inputs.classes[i] > PRECISION_LARGE) continue;
            load_inputs(w, i);
            precision_slope(w->row->function, slope, w->x, w->numbers, call->which);
            if (!mpfr_number_p(slope)) continue;
            double error = precision_error(format, w->got[i], slope);
            if (fabs(error) > greatest) {
                greatest = fabs(error);
                keep_worst(w, format, &column->slope, i);
                column->slope.want[0] = mpfr_get_d(slope, MPFR_RNDN);
            }
            w->errors[count++] = error;
        }
    }
    precision_stats_finish(&column->slope, w->errors, count);
    call->which = -1;
    mpfr_clear(slope);
}

static int32_t measure_column(work *w, tn_device device, precision_column *column)
{
    precision_row *row = w->row;
    const precision_format *out = NULL;
    precision_call call = {.options = w->o,
                           .device = device,
                           .function = row->function,
                           .format = row->format,
                           .inputs = &w->inputs,
                           .which = -1};
    char reason[sizeof(row->skipped)];
    if (precision_run(&call, w->got, w->raw, &out, reason, sizeof(reason)) != TN_OK) {
        if (column == &row->device) memcpy(row->skipped, reason, sizeof(reason));
        return 0;
    }
    w->raw_bytes = (size_t)(w->inputs.count * tn_dtype_bytes(out->dtype));
    for (int32_t class = 0; class < PRECISION_SPECIAL; class ++) measure_class(w, out, column, class);
    measure_special(w, out, column);
    precision_repeats(&call, column, w->errors, w->raw, w->again, w->raw_bytes);
    if (w->parts == 1 && !(row->function->flags & PRECISION_NO_SLOPE)) measure_slopes(w, &call, column);
    return 1;
}

/* ---- A row ------------------------------------------------------------------------------------------- */

static int32_t make_buffers(work *w)
{
    /* The gradients of all inputs are judged together. */
    size_t count = (size_t)(w->inputs.count * 2 * PRECISION_MAX_INPUTS + 1);
    w->got = malloc(count * sizeof(double));
    w->errors = malloc(count * sizeof(double));
    w->raw = calloc(count, sizeof(double));
    w->again = calloc(count, sizeof(double));
    return w->got && w->errors && w->raw && w->again;
}

static void finish(work *w)
{
    for (int64_t i = 0; w->exact && i < w->inputs.count * w->parts; i++) mpfr_clear(w->exact[i]);
    for (int32_t k = 0; k < 2 * PRECISION_MAX_INPUTS; k++) mpfr_clear(w->x[k]);
    free(w->exact);
    free(w->got);
    free(w->errors);
    free(w->raw);
    free(w->again);
    precision_inputs_finish(&w->inputs);
}

int32_t precision_measure(const precision_options *o, precision_row *row)
{
    work w = {.o = o, .row = row};
    row->class_names = precision_class_names;
    for (int32_t k = 0; k < 2 * PRECISION_MAX_INPUTS; k++) mpfr_init2(w.x[k], 53);
    precision_numbers(o, row->function, w.numbers, 4);
    int32_t ok = precision_inputs_make(&w.inputs, row->function, row->format, o->samples, o->seed);
    ok = ok && make_exact(&w) && make_buffers(&w);
    if (ok) measure_column(&w, o->device, &row->device);
    if (ok && o->cpu && !row->skipped[0]) row->has_cpu = measure_column(&w, o->cpu, &row->cpu);
    finish(&w);
    return ok;
}

double precision_greatest(const precision_column *column)
{
    double greatest = 0;
    for (int32_t class = 0; class < PRECISION_DENORMAL; class ++)
        if (column->classes[class].count && column->classes[class].greatest > greatest)
            greatest = column->classes[class].greatest;
    return greatest;
}
