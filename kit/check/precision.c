/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenon check --mode precision`: tables of the measurements, beside the other device, OpenCL's bounds and
 * an earlier report, and which rows meet --max-ulp. The measurements are made elsewhere.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "precision.h"
#include "sources.h"

#define MOVED 0.05 /* a greatest error that differs by less ULP from the earlier report's is not mentioned */

static const cJSON *member(const cJSON *j, const char *key)
{
    return j ? cJSON_GetObjectItemCaseSensitive(j, key) : NULL;
}

/* NaN if there is no such number. */
static double number(const cJSON *j, const char *key)
{
    const cJSON *item = member(j, key);
    if (cJSON_IsNumber(item)) return item->valuedouble;
    return cJSON_IsString(item) ? strtod(item->valuestring, NULL) : (double)NAN;
}

static const char *text(const cJSON *j, const char *key)
{
    const cJSON *item = member(j, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* An error as text; "-" for NaN. */
static cJSON *error_cell(double x)
{
    char buffer[32];
    if (x != x) return cJSON_CreateString("-");
    snprintf(buffer, sizeof(buffer), fabs(x) < 1000 ? "%.2f" : "%.2g", x);
    return cJSON_CreateString(buffer);
}

static void add_text(cJSON *row, const char *value)
{
    cJSON_AddItemToArray(row, cJSON_CreateString(value));
}

static void operator_name(const cJSON *data, char *out, size_t bytes)
{
    const char *arguments = text(data, "arguments");
    snprintf(out, bytes, "%s%s%s%s", text(data, "operator"), *arguments ? "(" : "", arguments,
             *arguments ? ")" : "");
}

/* ---- An earlier report --------------------------------------------------------------------------------- */

/* The earlier report's measurement for the case of that name, or NULL. */
static const cJSON *earlier(const cJSON *report, const char *name)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, member(report, "cases"))
    {
        if (strcmp(text(entry, "name"), name) == 0) return member(entry, "data");
    }
    return NULL;
}

/* ---- Tables ------------------------------------------------------------------------------------------- */

/* The greatest value of a field over the classes to which bounds apply. */
static double over_classes(const cJSON *column, const char *key)
{
    double greatest = NAN;
    const cJSON *class;
    cJSON_ArrayForEach(class, member(column, "classes"))
    {
        double x = number(class, key);
        if (strcmp(class->string, precision_class_names[PRECISION_DENORMAL]) == 0) continue;
        if (x == x && !(fabs(x) <= fabs(greatest))) greatest = x;
    }
    return greatest;
}

/* For an operator on groups of elements, whose errors are counted in units of their terms. */
static int32_t is_sum(const cJSON *data)
{
    return strcmp(text(data, "unit"), "terms") == 0;
}

static void add_special(cJSON *row, const cJSON *column)
{
    char buffer[64];
    const cJSON *special = member(column, "special");
    double unexpected = number(special, "unexpected"), count = number(special, "count");
    if (count == 0)
        snprintf(buffer, sizeof(buffer), "-");
    else if (unexpected > 0)
        snprintf(buffer, sizeof(buffer), "%g of %g differ", unexpected, count);
    else
        snprintf(buffer, sizeof(buffer), "as defined");
    add_text(row, buffer);
}

static const char *sameness(const cJSON *column)
{
    if (!cJSON_IsTrue(member(column, "same_over_repeats"))) return "no: repeats differ";
    if (cJSON_IsFalse(member(column, "same_over_threads"))) return "no: threads differ";
    return cJSON_IsTrue(member(column, "same_over_streams")) ? "yes" : "no: streams differ";
}

static const char *const functions_columns[] = {"operator",  "dtype",     "max",      "p99",
                                                "mean",      "small",     "medium",   "large",
                                                "near",      "denormal",  "gradient", "special values",
                                                "denormals", "same bits", "other",    "before",
                                                "OpenCL",    "",          NULL};
static const char *const sums_columns[] = {"operator",  "dtype",     "max",      "p99",
                                           "mean",      "uniform",   "wide",     "cancelling",
                                           "many",      "of result", "gradient", "special values",
                                           "denormals", "same bits", "other",    "before",
                                           "OpenCL",    "",          NULL};
#define FIRST_CLASS 5
#define CLASSES_END 10

/* The errors of the classes in the columns; "of result" is the error of class many in units of the result. */
static void add_classes(cJSON *row, const cJSON *device, const char *const *columns)
{
    const cJSON *classes = member(device, "classes");
    for (int32_t i = FIRST_CLASS; i < CLASSES_END; i++) {
        int32_t own = strcmp(columns[i], "of result") == 0;
        cJSON_AddItemToArray(
            row, error_cell(number(member(classes, own ? "many" : columns[i]), own ? "of_result" : "max")));
    }
}

static const char *verdict(double greatest, double opencl, double demand)
{
    if (opencl == opencl && !(greatest <= opencl)) return "worse than OpenCL's bound";
    return demand <= 0 ? "" : greatest <= demand ? "meets" : "does not meet";
}

static void add_row(const check_run *run, cJSON *table, const cJSON *data, const cJSON *before)
{
    cJSON *row = cJSON_CreateArray();
    const cJSON *device = member(data, "device");
    double greatest = number(device, "max"), opencl = number(data, "opencl");
    char name[160];
    operator_name(data, name, sizeof(name));
    add_text(row, name);
    add_text(row, text(data, "dtype"));
    cJSON_AddItemToArray(row, error_cell(greatest));
    cJSON_AddItemToArray(row, error_cell(over_classes(device, "p99")));
    cJSON_AddItemToArray(row, error_cell(over_classes(device, "mean")));
    add_classes(row, device, is_sum(data) ? sums_columns : functions_columns);
    cJSON_AddItemToArray(row, error_cell(number(member(device, "gradient"), "max")));
    add_special(row, device);
    add_text(row, cJSON_IsTrue(member(device, "flushes_denormals")) ? "flushed" : "kept");
    add_text(row, sameness(device));
    cJSON_AddItemToArray(row, error_cell(number(member(data, "other"), "max")));
    cJSON_AddItemToArray(row, error_cell(number(member(before, "device"), "max")));
    cJSON_AddItemToArray(row, error_cell(opencl));
    add_text(row, verdict(greatest, opencl, run->options->max_ulp));
    check_table_row(table, row);
}

/* Tables without rows are omitted. */
static void table_of_errors(check_run *run, const cJSON *report, int32_t sums)
{
    cJSON *table = NULL;
    for (uint32_t i = 0; i < run->count; i++) {
        const check_entry *e = &run->entries[i];
        if (!e->result.data || is_sum(e->result.data) != sums) continue;
        if (!table)
            table = check_table(run, sums ? "sums" : "precision",
                                sums ? "Sums and products: errors in units of the last place of their terms"
                                     : "Errors in units of the last place of the exact result",
                                sums ? sums_columns : functions_columns);
        add_row(run, table, e->result.data, earlier(report, e->name));
    }
}

/* A number of `one`, with the sign of a zero. */
static void print_value(const cJSON *one, const char *key, const char *zero, char *out, size_t bytes)
{
    if (member(one, zero))
        snprintf(out, bytes, "%s", text(one, zero));
    else
        snprintf(out, bytes, "%.4g", number(one, key));
}

static void add_surprise(cJSON *row, const cJSON *one)
{
    static const char *const keys[2][2][2] = {
        {{"got", "got_zero"}, {"got_imaginary", "got_imaginary_zero"}},
        {{"exact", "exact_zero"}, {"exact_imaginary", "exact_imaginary_zero"}}};
    for (int32_t i = 0; i < 2; i++) {
        char parts[2][32], both[80];
        for (int32_t k = 0; k < 2; k++)
            print_value(one, keys[i][k][0], keys[i][k][1], parts[k], sizeof(parts[k]));
        int32_t pair = member(one, keys[i][1][0]) != NULL;
        snprintf(both, sizeof(both), "%s%s%s", parts[0], pair ? ", " : "", pair ? parts[1] : "");
        add_text(row, both);
    }
}

/* Special values with an unexpected result. */
static void table_of_surprises(check_run *run)
{
    static const char *const columns[] = {"operator", "dtype", "at", "got", "defined", NULL};
    cJSON *table =
        check_table(run, "special", "Special values with an unexpected result (the first few)", columns);
    for (uint32_t i = 0; i < run->count; i++) {
        const cJSON *data = run->entries[i].result.data, *one;
        cJSON_ArrayForEach(one, member(member(member(data, "device"), "special"), "first"))
        {
            cJSON *row = cJSON_CreateArray();
            char name[160], *at = cJSON_PrintUnformatted(member(one, "at"));
            operator_name(data, name, sizeof(name));
            add_text(row, name);
            add_text(row, text(data, "dtype"));
            add_text(row, at ? at : "");
            add_surprise(row, one);
            check_table_row(table, row);
            free(at);
        }
    }
}

/* What is better or worse than in the earlier report. */
static void table_of_moves(check_run *run, const cJSON *report)
{
    static const char *const columns[] = {"operator", "dtype", "class", "before", "now", "", NULL};
    cJSON *table = check_table(run, "moved", "Changed since the earlier report", columns);
    for (uint32_t i = 0; i < run->count; i++) {
        const cJSON *data = run->entries[i].result.data, *before = earlier(report, run->entries[i].name),
                    *class;
        char name[160];
        if (!data || !before) continue;
        operator_name(data, name, sizeof(name));
        cJSON_ArrayForEach(class, member(member(data, "device"), "classes"))
        {
            const char *key = class->string;
            double old = number(member(member(member(before, "device"), "classes"), key), "max");
            double now = number(class, "max");
            if (old != old || now != now || old == now || fabs(old - now) < MOVED) continue;
            cJSON *row = cJSON_CreateArray();
            add_text(row, name);
            add_text(row, text(data, "dtype"));
            add_text(row, key);
            cJSON_AddItemToArray(row, error_cell(old));
            cJSON_AddItemToArray(row, error_cell(now));
            add_text(row, now < old ? "better" : "worse");
            check_table_row(table, row);
        }
    }
}

/* How many rows meet --max-ulp, and which do not; one row. */
static void table_of_demand(check_run *run)
{
    static const char *const columns[] = {"demand", "met by", "not met by", "of these", NULL};
    cJSON *table = check_table(run, "demand", "At most this many units in the last place", columns), *row;
    char list[2000] = "", name[160];
    uint32_t met = 0, unmet = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        const cJSON *data = run->entries[i].result.data;
        if (!data) continue;
        if (number(member(data, "device"), "max") <= run->options->max_ulp) {
            met++;
            continue;
        }
        size_t used = strlen(list);
        operator_name(data, name, sizeof(name));
        snprintf(list + used, sizeof(list) - used, "%s%s/%s", unmet++ ? ", " : "", name, text(data, "dtype"));
    }
    row = cJSON_CreateArray();
    cJSON_AddItemToArray(row, cJSON_CreateNumber(run->options->max_ulp));
    cJSON_AddItemToArray(row, cJSON_CreateNumber(met));
    cJSON_AddItemToArray(row, cJSON_CreateNumber(unmet));
    add_text(row, list);
    check_table_row(table, row);
    run->unmet = unmet > 0;
}

/* A measurement fails no case unless --max-ulp is given. */
static void note_meaning(check_run *run)
{
    uint32_t rows = 0, special = 0, bounds = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        const cJSON *data = run->entries[i].result.data, *device = member(data, "device");
        if (!data) continue;
        rows++;
        special += number(member(device, "special"), "unexpected") > 0;
        bounds += number(data, "opencl") < number(device, "max");
    }
    snprintf(run->note, sizeof(run->note),
             "Of %u rows, %u have special values that differ from their definitions, and %u exceed OpenCL's "
             "bound.\n%s",
             rows, special, bounds,
             run->options->max_ulp > 0
                 ? "The outcome depends on --max-ulp alone."
                 : "These are measurements: none of them fails a case. --max-ulp N fails rows above N.");
}

int32_t check_precision(check_run *run)
{
    static const check_source sources[] = {check_precision_functions, check_precision_sums};
    cJSON *report = run->options->against ? check_read_json(run->options->against) : NULL;
    if (run->options->against && !member(report, "cases")) {
        snprintf(run->fatal, sizeof(run->fatal), "%s is not a report of tenon check", run->options->against);
        cJSON_Delete(report);
        return 2;
    }
    if (check_execute(run, sources, sizeof sources / sizeof *sources) == 0) {
        table_of_errors(run, report, 0);
        table_of_errors(run, report, 1);
        table_of_surprises(run);
        if (report) table_of_moves(run, report);
        if (run->options->max_ulp > 0) table_of_demand(run);
        note_meaning(run);
    }
    cJSON_Delete(report);
    return check_verdict(run);
}
