/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speed of the operators of the workload, at its sizes: nanoseconds for a call, bytes of its arguments for
 * each second, and the ratio to the CPU plugin. Samples of both devices alternate and medians count; with
 * --cpu-time the processor time of this process, and the least counts, as other work only adds to it. Every
 * call is waited for, so short ones show the overhead. No case fails for being slow.
 */
#include "../calls/request.h"
#include "modes.h"
#include "shrink.h"
#include "trace.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_OUTS    16
#define SAMPLES     15
#define FORMS_OF_OP 3
#define BUDGET      0.6 /* seconds of samples for one case at most, both devices */
#define SLOW        2.0 /* seconds for one call, above which a smaller one is measured */

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* What a sample measures, in seconds. */
static double sample_now(const check_target *t)
{
    struct timespec now;
    clock_gettime(t->options->cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

typedef struct runner {
    tn_scope *s;
    tn_device device;
    uint32_t op, n_args, n_outs;
    double bytes; /* of the call's arguments */
    tn_value args[REQUEST_MAX_ARGUMENTS];
    double samples[SAMPLES];
    uint32_t n_samples;
} runner;

/* The largest recorded call of the form, with sizes divided. 1: it cannot be made. */
static int open_runner(check_target *t, const trace_form *f, int divisor, tn_device device, runner *r)
{
    memset(r, 0, sizeof *r);
    r->device = device;
    r->s = tn_scope_open(t->ctx);
    r->op = tn_operator_find(t->ctx, f->op);
    r->n_outs = r->op ? tn_inspect_argument_count(t->ctx, r->op, 1) : MAX_OUTS + 1;
    if (!r->op || r->n_outs > MAX_OUTS) return 1;
    cJSON *call = cJSON_Parse(f->large);
    if (divisor > 1) shrink_call(call, divisor, 0);
    char *text = cJSON_PrintUnformatted(call);
    r->n_args = trace_arguments(r->s, r->op, text, device, r->args);
    r->bytes = trace_bytes(call);
    cJSON_free(text);
    cJSON_Delete(call);
    return tn_scope_failed(r->s) != 0;
}

/* One call, waited for; its time in seconds, or -1. */
static double sample(check_target *t, runner *r)
{
    tn_value outs[MAX_OUTS];
    tn_scope *s = tn_scope_open_child(r->s, NULL);
    double start = sample_now(t);
    int32_t status = tn_scope_call(s, r->op, r->args, r->n_args, outs, r->n_outs);
    if (!status) status = tn_device_synchronize(t->ctx, r->device);
    start = sample_now(t) - start;
    tn_scope_close(s);
    return status ? -1 : start;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The sample that counts. */
static double chosen_sample(const check_target *t, runner *r)
{
    qsort(r->samples, r->n_samples, sizeof *r->samples, by_value);
    return r->n_samples ? r->samples[t->options->cpu_time ? 0 : r->n_samples / 2] : 0;
}

/* The first call on a device, which is not counted. A call above the cap on bytes, or one that takes
 * seconds, is replaced by a smaller one. 0, or 1 when a call failed. */
static int begin(check_target *t, const trace_form *f, int *divisor, runner *r)
{
    int failed = 1;
    for (; *divisor <= 64; *divisor *= 4) {
        failed = open_runner(t, f, *divisor, t->device, r);
        if (!failed && r->bytes > t->options->max_bytes && *divisor < 64) failed = 2;
        if (!failed) {
            double seconds = sample(t, r);
            if (seconds >= SLOW) seconds = sample(t, r); /* the first may have compiled */
            if (seconds >= 0 && (seconds < SLOW || *divisor == 64)) return 0;
            failed = seconds < 0 ? 1 : 2;
        }
        if (failed == 1 && *divisor == 1) return 1; /* as it was recorded, it must work */
        tn_scope_close(r->s);
    }
    *divisor = 1; /* no smaller call is legal */
    return open_runner(t, f, 1, t->device, r) || sample(t, r) < 0;
}

/* Fills the samples of one or both; 0, or 1 when a call failed. */
static int measure(check_target *t, double budget, runner *a, runner *b)
{
    double until;
    if (b && sample(t, b) < 0) return 1; /* not counted */
    until = seconds_now() + budget;
    for (uint32_t i = 0; i < SAMPLES && (i < 1 || seconds_now() < until); i++) {
        a->samples[a->n_samples++] = sample(t, a);
        if (b) b->samples[b->n_samples++] = sample(t, b);
    }
    return 0;
}

static void run_form(check_target *t, const check_case *c, check_result *out)
{
    const trace_form *f = c->data;
    runner a, b;
    int both = t->device != TN_CPU && t->other == TN_CPU;
    check_watch watch;
    if (!tn_operator_find(t->ctx, f->op)) {
        check_skip(out, "Tenon has no operator %s", f->op);
        return;
    }
    int divisor = 1;
    check_watch_begin(t, &watch);
    int failed = begin(t, f, &divisor, &a);
    out->way = check_watch_end(t, &watch);
    if (both) failed |= open_runner(t, f, divisor, TN_CPU, &b);
    double budget = t->options->max_seconds / (double)c->number;
    if (failed || measure(t, budget < BUDGET ? budget : BUDGET, &a, both ? &b : NULL)) {
        check_fail_with_error(out, tn_scope_failed(a.s) ? a.s : NULL, f->op);
    } else {
        out->data = cJSON_CreateObject();
        cJSON_AddStringToObject(out->data, "op", f->op);
        cJSON_AddStringToObject(out->data, "form", f->key);
        cJSON_AddNumberToObject(out->data, "bytes", a.bytes);
        cJSON_AddNumberToObject(out->data, "ns", chosen_sample(t, &a) * 1e9);
        if (both) cJSON_AddNumberToObject(out->data, "cpu_ns", chosen_sample(t, &b) * 1e9);
    }
    tn_scope_close(a.s);
    if (both) tn_scope_close(b.s);
}

static void run_no_trace(check_target *t, const check_case *c, check_result *out)
{
    check_fail(out, "%s", (const char *)c->data);
}

/* The forms of an operator that move the most bytes. */
static int is_chosen(const trace *tr, uint32_t i)
{
    uint32_t before = 0;
    for (uint32_t k = 0; k < tr->count; k++) {
        if (strcmp(tr->forms[k].op, tr->forms[i].op)) continue;
        before +=
            tr->forms[k].bytes > tr->forms[i].bytes || (tr->forms[k].bytes == tr->forms[i].bytes && k < i);
    }
    return before < FORMS_OF_OP;
}

static void add_forms(check_target *t, check_list *list)
{
    trace tr;
    trace_read(list, t->options, &tr);
    if (tr.error[0])
        check_add(list, &(check_case){.run = run_no_trace, .data = check_text(list, "%s", tr.error)},
                  "speed/trace");
    int64_t chosen = 0; /* they share --max-seconds */
    for (uint32_t i = 0; !tr.error[0] && i < tr.count; i++) chosen += is_chosen(&tr, i);
    for (uint32_t i = 0; !tr.error[0] && i < tr.count; i++) {
        if (is_chosen(&tr, i))
            check_add(list, &(check_case){.run = run_form, .data = &tr.forms[i], .number = chosen},
                      "speed/%s/%s", tr.forms[i].op, tr.forms[i].key);
    }
}

static double number(const cJSON *j, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(j, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static void add_row(cJSON *table, const check_result *r)
{
    cJSON *row = cJSON_CreateArray();
    double ns = number(r->data, "ns"), cpu = number(r->data, "cpu_ns"), bytes = number(r->data, "bytes");
    cJSON_AddItemToArray(row, cJSON_Duplicate(cJSON_GetObjectItem(r->data, "op"), 0));
    cJSON_AddItemToArray(row, cJSON_Duplicate(cJSON_GetObjectItem(r->data, "form"), 0));
    cJSON_AddItemToArray(row, cJSON_CreateString(check_way_name(r->way)));
    cJSON_AddItemToArray(row, cJSON_CreateNumber((double)(int64_t)(bytes / 1e3)));
    cJSON_AddItemToArray(row, cJSON_CreateNumber((double)(int64_t)ns));
    cJSON_AddItemToArray(row, cJSON_CreateNumber(ns > 0 ? bytes / ns : 0));
    cJSON_AddItemToArray(row, cpu > 0 ? cJSON_CreateNumber((double)(int64_t)cpu) : cJSON_CreateString(""));
    cJSON_AddItemToArray(row, cpu > 0 && ns > 0 ? cJSON_CreateNumber(cpu / ns) : cJSON_CreateString(""));
    check_table_row(table, row);
}

int32_t check_speed(check_run *run)
{
    static const check_source sources[] = {add_forms};
    static const char *const columns[] = {"operator", "arguments",     "way",           "kB", "ns",
                                          "GB/s",     "ns on the CPU", "times as fast", NULL};
    cJSON *table = NULL;
    if (check_execute(run, sources, 1)) return check_verdict(run);
    for (uint32_t i = 0; i < run->count; i++) {
        if (!run->entries[i].result.data) continue;
        if (!table) table = check_table(run, "speed", "Speed of the operators of the workload", columns);
        add_row(table, &run->entries[i].result);
    }
    if (table) snprintf(run->note, sizeof run->note, "These are measurements: no case fails for being slow.");
    return check_verdict(run);
}
