/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases of the precision report, one for each operator and dtype of the device. A case measures and stores
 * its numbers as data; precision.c makes tables of them. Numbers that JSON cannot express are texts.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "precision_sums.h"
#include "sources.h"

#define SAMPLES 1000 /* of each class, unless --samples says otherwise */

void precision_add_number(cJSON *j, const char *key, double x)
{
    char text[32];
    cJSON *item;
    /* cJSON writes too few digits of the largest numbers, which are then read as infinity. */
    snprintf(text, sizeof(text), x != x ? "nan" : isinf(x) ? (x > 0 ? "inf" : "-inf") : "%.17g", x);
    item = fabs(x) < 1e300 ? cJSON_CreateNumber(x) : cJSON_CreateString(text);
    if (key)
        cJSON_AddItemToObject(j, key, item);
    else
        cJSON_AddItemToArray(j, item);
}

/* Numbers that give a position: pairs have twice as many; a problem has the index of the result. */
static int32_t numbers_of(const precision_row *row)
{
    return row->class_names == sums_class_names ? 1 : row->function->inputs * (row->format->complex ? 2 : 1);
}

static cJSON *stats_json(const precision_row *row, const precision_stats *s)
{
    cJSON *j = cJSON_CreateObject(), *at = cJSON_CreateArray();
    cJSON_AddNumberToObject(j, "count", (double)s->count);
    precision_add_number(j, "max", s->greatest);
    precision_add_number(j, "p99", s->p99);
    precision_add_number(j, "mean", s->mean);
    if (row->class_names == sums_class_names) precision_add_number(j, "of_result", s->of_result);
    if (s->lost) cJSON_AddNumberToObject(j, "lost", (double)s->lost);
    for (int32_t k = 0; k < numbers_of(row); k++) precision_add_number(at, NULL, s->worst[k]);
    cJSON_AddItemToObject(j, "at", at);
    for (int32_t k = 0; k < (row->format->complex ? 2 : 1); k++) {
        precision_add_number(j, k ? "got_imaginary" : "got", s->got[k]);
        precision_add_number(j, k ? "exact_imaginary" : "exact", s->want[k]);
    }
    return j;
}

/* Readers of JSON lose the sign of a zero. */
static void add_signed(cJSON *j, const char *key, const char *zero, double x)
{
    precision_add_number(j, key, x);
    if (x == 0) cJSON_AddStringToObject(j, zero, signbit(x) ? "-0" : "+0");
}

static cJSON *surprises_json(const precision_row *row, const precision_column *c)
{
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < c->surprise_count && i < PRECISION_MAX_SURPRISES; i++) {
        cJSON *j = cJSON_CreateObject(), *at = cJSON_CreateArray();
        for (int32_t k = 0; k < numbers_of(row); k++) precision_add_number(at, NULL, c->surprises[i].x[k]);
        cJSON_AddItemToObject(j, "at", at);
        const precision_surprise *surprise = &c->surprises[i];
        for (int32_t k = 0; k < (row->format->complex ? 2 : 1); k++) {
            add_signed(j, k ? "got_imaginary" : "got", k ? "got_imaginary_zero" : "got_zero",
                       surprise->got[k]);
            add_signed(j, k ? "exact_imaginary" : "exact", k ? "exact_imaginary_zero" : "exact_zero",
                       surprise->want[k]);
        }
        cJSON_AddItemToArray(list, j);
    }
    return list;
}

static cJSON *column_json(const precision_row *row, const precision_column *c)
{
    cJSON *j = cJSON_CreateObject(), *classes = cJSON_AddObjectToObject(j, "classes"), *special;
    precision_add_number(j, "max", precision_greatest(c));
    for (int32_t i = 0; i < PRECISION_SPECIAL; i++)
        if (c->classes[i].count)
            cJSON_AddItemToObject(classes, row->class_names[i], stats_json(row, &c->classes[i]));
    if (c->slope.count) cJSON_AddItemToObject(j, "gradient", stats_json(row, &c->slope));
    special = cJSON_AddObjectToObject(j, "special");
    cJSON_AddNumberToObject(special, "count", (double)c->special_count);
    cJSON_AddNumberToObject(special, "unexpected", (double)c->surprise_count);
    cJSON_AddItemToObject(special, "first", surprises_json(row, c));
    cJSON_AddBoolToObject(j, "flushes_denormals", c->flushes);
    cJSON_AddBoolToObject(j, "same_over_repeats", c->same_again);
    cJSON_AddBoolToObject(j, "same_over_streams", c->same_elsewhere);
    cJSON_AddBoolToObject(j, "same_over_threads", c->same_threads);
    return j;
}

static cJSON *row_json(const precision_row *row)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "operator", row->function->name);
    if (row->function->arguments) cJSON_AddStringToObject(j, "arguments", row->function->arguments);
    cJSON_AddStringToObject(j, "dtype", row->format->name);
    cJSON_AddStringToObject(j, "unit", row->class_names == sums_class_names ? "terms" : "result");
    if (row->function->opencl > 0 && row->format->dtype == TN_FLOAT32)
        cJSON_AddNumberToObject(j, "opencl", row->function->opencl);
    cJSON_AddItemToObject(j, "device", column_json(row, &row->device));
    if (row->has_cpu) cJSON_AddItemToObject(j, "other", column_json(row, &row->cpu));
    return j;
}

static precision_options options_of(const check_target *t)
{
    return (precision_options){.ctx = t->ctx,
                               .device = t->device,
                               .cpu = t->other,
                               .seed = t->options->seed,
                               .samples = t->options->samples ? (int64_t)t->options->samples : SAMPLES};
}

/* Takes the row. */
static void finish_case(precision_row *row, int32_t ok, check_result *out)
{
    if (!ok)
        check_fail(out, "no memory for inputs");
    else if (row->skipped[0])
        check_skip(out, "not computed: %s", row->skipped);
    else
        out->data = row_json(row);
    free(row);
}

static void run_case(check_target *t, const check_case *c, check_result *out)
{
    precision_row *row = calloc(1, sizeof(*row));
    precision_options o = options_of(t);
    if (!row) {
        check_fail(out, "no memory for a row");
        return;
    }
    row->function = c->data;
    row->format = &precision_formats[c->number];
    finish_case(row, precision_measure(&o, row), out);
}

static void run_sums_case(check_target *t, const check_case *c, check_result *out)
{
    const sums_function *f = c->data;
    precision_row *row = calloc(1, sizeof(*row));
    precision_function named = {.name = f->name, .inputs = f->inputs};
    precision_options o = options_of(t);
    if (!row) {
        check_fail(out, "no memory for a row");
        return;
    }
    row->function = &named;
    row->format = &precision_formats[c->number];
    finish_case(row, sums_measure(&o, f, row), out);
}

void check_precision_functions(check_target *t, check_list *list)
{
    for (const precision_function *f = precision_functions; f->name; f++) {
        for (int64_t i = 0; precision_formats[i].dtype; i++) {
            const precision_format *format = &precision_formats[i];
            check_case c = {.tier = 1, .run = run_case, .data = f, .number = i};
            if (format->complex ? !precision_has_pairs(f->name) : !f->real) continue;
            if (!check_has_dtype(t, format->dtype)) continue;
            if (f->arguments)
                check_add(list, &c, "1/precision/%s(%s)/%s", f->name, f->arguments, format->name);
            else
                check_add(list, &c, "1/precision/%s/%s", f->name, format->name);
        }
    }
}

void check_precision_sums(check_target *t, check_list *list)
{
    for (const sums_function *f = sums_functions; f->name; f++) {
        for (int64_t i = 0; precision_formats[i].dtype; i++) {
            const precision_format *format = &precision_formats[i];
            check_case c = {.tier = 1, .run = run_sums_case, .data = f, .number = i};
            if (!format->complex && check_has_dtype(t, format->dtype))
                check_add(list, &c, "1/precision/%s/%s", f->name, format->name);
        }
    }
}
