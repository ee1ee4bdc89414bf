/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coverage map: which calls of a recorded workload run in the plugin itself, as composites or on the
 * CPU, what that copies, and which kernels would save most. Of each form only one call is run: the smallest,
 * with its sizes reduced where that stays legal. The other calls are assumed to go the same way, and to copy
 * in proportion to their bytes.
 */
#include "../calls/request.h"
#include "modes.h"
#include "shrink.h"
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_OUTS 16
/* Bytes of the tensors of a call. Up to SMALL_CALL every device is fast; up to LARGE_CALL costs are worth
 * measuring. */
#define SMALL_CALL 32768
#define LARGE_CALL 4194304

/* ---- One form ------------------------------------------------------------------------------------------ */

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The dtypes that an operator was called with while watched: "float16, int64". */
static void dtypes_of(const check_target *t, uint32_t op, char *text, size_t bytes)
{
    size_t used = 0;
    *text = 0;
    for (uint32_t i = 0; i < t->n_seen && used < bytes; i++) {
        const char *name = t->seen[i].op == op ? tn_dtype_name(t->seen[i].dtype) : NULL;
        if (name) used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", name);
    }
}

/* The operators that ran on the CPU since the watch began. */
static cJSON *fallbacks(check_target *t)
{
    char dtypes[96];
    cJSON *list = cJSON_CreateArray();
    for (uint32_t i = 0; i < tn_inspect_fallback_count(t->ctx); i++) {
        tn_fallback_info f = {.size = sizeof f};
        if (tn_inspect_fallback(t->ctx, i, &f) || !f.count) continue;
        cJSON *j = cJSON_CreateObject();
        dtypes_of(t, f.op, dtypes, sizeof dtypes);
        cJSON_AddStringToObject(j, "op", f.name);
        cJSON_AddStringToObject(j, "dtype", dtypes);
        cJSON_AddNumberToObject(j, "count", (double)f.count);
        cJSON_AddNumberToObject(j, "bytes", (double)f.bytes);
        cJSON_AddStringToObject(j, "reason", f.reason ? f.reason : "");
        cJSON_AddItemToArray(list, j);
    }
    return list;
}

/* One call of a form and its outcome. */
typedef struct attempt {
    double bytes; /* of the tensors among its arguments */
    double seconds;
    int32_t way;
    uint32_t nested; /* calls inside it */
    cJSON *fallbacks;
    char names[560]; /* of the operators that fell back */
} attempt;

/* How a call is made smaller; see shrink.h. */
typedef struct shrinking {
    int divisor, leading;
} shrinking;

/* Runs the call of the form, made smaller as `how` says (NULL: not at all). Returns the status; `out`
 * (NULL: not needed) gets a failure. The caller deletes a->fallbacks. */
static int32_t try_call(check_target *t, const trace_form *f, uint32_t op, const shrinking *how, attempt *a,
                        check_result *out)
{
    tn_value args[REQUEST_MAX_ARGUMENTS], outs[MAX_OUTS];
    uint32_t n_outs = tn_inspect_argument_count(t->ctx, op, 1);
    check_watch watch;
    cJSON *call = cJSON_Parse(f->text);
    if (how) shrink_call(call, how->divisor, how->leading);
    char *text = cJSON_PrintUnformatted(call);
    tn_scope *s = tn_scope_open(t->ctx);
    uint32_t n = trace_arguments(s, op, text, t->device, args);
    tn_device_synchronize(t->ctx, t->device);
    check_watch_begin(t, &watch);
    double start = seconds_now();
    int32_t status = tn_scope_failed(s) ? tn_scope_failed(s) : tn_scope_call(s, op, args, n, outs, n_outs);
    if (!status) status = tn_device_synchronize(t->ctx, t->device);
    cJSON_Delete(a->fallbacks);
    *a = (attempt){.bytes = trace_bytes(call), .seconds = seconds_now() - start};
    a->way = check_watch_end(t, &watch);
    a->nested = t->nested;
    a->fallbacks = fallbacks(t);
    snprintf(a->names, sizeof a->names, "%s", watch.fallbacks);
    if (status && out) check_fail_with_error(out, tn_scope_failed(s) ? s : NULL, f->op);
    tn_scope_close(s);
    cJSON_free(text);
    cJSON_Delete(call);
    return status;
}

/* Sizes that depend on each other (windows, parts) rule some of them out; batches and channels can mostly
 * be reduced. */
static const shrinking shrinkings[] = {{64, 0}, {16, 0}, {8, 0}, {4, 0}, {2, 0}, {16, 2}, {16, 1}};
#define SHRINKINGS (sizeof shrinkings / sizeof *shrinkings)

static double bytes_of(const trace_form *f, const shrinking *how)
{
    cJSON *call = cJSON_Parse(f->text);
    shrink_call(call, how->divisor, how->leading);
    double bytes = trace_bytes(call);
    cJSON_Delete(call);
    return bytes;
}

/* The largest call that runs quickly, at least as large as the one already run. */
static int32_t try_large(check_target *t, const trace_form *f, uint32_t op, attempt *a, check_result *out)
{
    double least = a->bytes;
    if (f->text_bytes <= LARGE_CALL) return try_call(t, f, op, NULL, a, out);
    for (size_t i = SHRINKINGS; i-- > 0;) {
        double bytes = bytes_of(f, &shrinkings[i]);
        if (bytes >= least && bytes <= LARGE_CALL && !try_call(t, f, op, &shrinkings[i], a, NULL))
            return TN_OK;
    }
    return try_call(t, f, op, NULL, a, out);
}

/* The smallest legal call shows the way. If the CPU ran all of it, the cost is measured at a larger size,
 * where it exceeds the cost of a call. Kernels of the device may be slow and are not run at larger sizes. */
static int32_t try_sizes(check_target *t, const trace_form *f, uint32_t op, attempt *a, check_result *out)
{
    int32_t status = TN_E_SHAPE;
    if (!t->options->full_size && f->text_bytes > SMALL_CALL) {
        for (size_t i = 0; status && i < SHRINKINGS; i++)
            status = try_call(t, f, op, &shrinkings[i], a, NULL);
        if (!status && a->way == CHECK_WAY_CPU && a->nested <= 1) status = try_large(t, f, op, a, out);
        t->error_line[0] = 0; /* the program did not make this smaller call */
        if (!status) return status;
    }
    return try_call(t, f, op, NULL, a, out);
}

static void run_form(check_target *t, const check_case *c, check_result *out)
{
    const trace_form *f = c->data;
    attempt a = {0};
    uint32_t op = tn_operator_find(t->ctx, f->op);
    if (!op || tn_inspect_argument_count(t->ctx, op, 1) > MAX_OUTS) {
        check_skip(out, "Tenon has no operator %s", f->op);
        return;
    }
    int32_t status = try_sizes(t, f, op, &a, out);
    out->way = a.way;
    out->data = cJSON_CreateObject();
    cJSON_AddStringToObject(out->data, "op", f->op);
    cJSON_AddNumberToObject(out->data, "calls", (double)f->calls);
    cJSON_AddNumberToObject(out->data, "distinct", f->distinct);
    /* Bytes of all calls relative to the one that ran. */
    cJSON_AddNumberToObject(out->data, "scale", a.bytes > 0 ? f->bytes / a.bytes : (double)f->calls);
    cJSON_AddNumberToObject(out->data, "call_seconds", a.seconds);
    cJSON_AddNumberToObject(out->data, "launches", a.nested);
    cJSON_AddItemToObject(out->data, "fallbacks", a.fallbacks);
    if (!status && out->way == CHECK_WAY_CPU) check_absent(out, "the CPU answers for %s", a.names);
}

static void run_no_trace(check_target *t, const check_case *c, check_result *out)
{
    check_fail(out, "%s", (const char *)c->data);
}

static void add_forms(check_target *t, check_list *list)
{
    trace tr;
    trace_read(list, t->options, &tr);
    if (tr.error[0]) {
        check_add(list, &(check_case){.run = run_no_trace, .data = check_text(list, "%s", tr.error)},
                  "coverage/trace");
        return;
    }
    for (uint32_t i = 0; i < tr.count; i++)
        check_add(list, &(check_case){.tags = CHECK_TAG_OPTIONAL, .run = run_form, .data = &tr.forms[i]},
                  "coverage/%s/%s", tr.forms[i].op, tr.forms[i].key);
}

/* ---- Sums ---------------------------------------------------------------------------------------------- */

typedef struct sum {
    char name[96], dtype[96];
    double launches; /* of composites: calls inside, all together */
    double calls, ways[CHECK_WAYS], failed, bytes, seconds;
    double forms;
    char reason[96];
} sum;

typedef struct sums {
    sum *items;
    uint32_t count;
} sums;

static sum *sum_of(sums *all, const char *name, const char *dtype)
{
    for (uint32_t i = 0; i < all->count; i++) {
        if (!strcmp(all->items[i].name, name) && !strcmp(all->items[i].dtype, dtype)) return &all->items[i];
    }
    sum *larger = realloc(all->items, (all->count + 1) * sizeof *larger);
    if (!larger) exit(2);
    all->items = larger;
    all->items[all->count] = (sum){.calls = 0};
    snprintf(all->items[all->count].name, sizeof larger->name, "%s", name);
    snprintf(all->items[all->count].dtype, sizeof larger->dtype, "%s", dtype);
    return &all->items[all->count++];
}

static double number(const cJSON *j, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(j, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static const char *text(const cJSON *j, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(j, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* A call may have several fallbacks; its time is divided among them by their bytes. */
static void take_fallbacks(sums *missing, sum *op, const cJSON *data)
{
    const cJSON *f;
    double scale = number(data, "scale"), all = 0;
    cJSON_ArrayForEach(f, cJSON_GetObjectItem(data, "fallbacks")) all += number(f, "bytes");
    cJSON_ArrayForEach(f, cJSON_GetObjectItem(data, "fallbacks"))
    {
        sum *m = sum_of(missing, text(f, "op"), text(f, "dtype"));
        double bytes = number(f, "bytes");
        m->calls += number(f, "count") * number(data, "calls");
        m->bytes += bytes * scale;
        m->seconds += all > 0 ? number(data, "call_seconds") * scale * bytes / all : 0;
        m->forms++;
        snprintf(m->reason, sizeof m->reason, "%s", text(f, "reason"));
        op->bytes += bytes * scale;
    }
}

/* A kernel of its own would save all launches but one. */
static void take_composite(sums *composites, const cJSON *data)
{
    double launches = number(data, "launches"), calls = number(data, "calls");
    if (launches < 2) return;
    sum *c = sum_of(composites, text(data, "op"), "");
    c->calls += calls;
    c->launches += launches * calls;
    c->seconds += number(data, "call_seconds") * calls * (launches - 1) / launches;
    c->forms++;
}

static void add_up(const check_run *run, sums *operators, sums *missing, sums *composites, sum *total)
{
    for (uint32_t i = 0; i < run->count; i++) {
        const check_result *r = &run->entries[i].result;
        double calls = number(r->data, "calls");
        if (!r->data) continue;
        sum *op = sum_of(operators, text(r->data, "op"), "");
        op->calls += calls;
        op->forms++;
        if (r->outcome == CHECK_FAILED || r->outcome == CHECK_CRASHED)
            op->failed += calls;
        else
            op->ways[r->way] += calls;
        take_fallbacks(missing, op, r->data);
        if (r->outcome == CHECK_PASSED && r->way == CHECK_WAY_COMPOSITE) take_composite(composites, r->data);
    }
    for (uint32_t i = 0; i < operators->count; i++) {
        const sum *op = &operators->items[i];
        total->calls += op->calls;
        total->failed += op->failed;
        total->bytes += op->bytes;
        for (int k = 0; k < CHECK_WAYS; k++) total->ways[k] += op->ways[k];
    }
}

/* ---- Tables -------------------------------------------------------------------------------------------- */

static int by_calls(const void *a, const void *b)
{
    const sum *x = a, *y = b;
    return x->calls < y->calls ? 1 : x->calls > y->calls ? -1 : strcmp(x->name, y->name);
}

static int by_bytes(const void *a, const void *b)
{
    const sum *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : by_calls(a, b);
}

static int by_seconds(const void *a, const void *b)
{
    const sum *x = a, *y = b;
    return x->seconds < y->seconds ? 1 : x->seconds > y->seconds ? -1 : by_calls(a, b);
}

static double tenths(double value)
{
    return (double)(int64_t)(value * 10) / 10;
}

static double megabytes(double bytes)
{
    return (double)(int64_t)(bytes / 1e4) / 100;
}

static void add_numbers(cJSON *row, const sum *s)
{
    cJSON_AddItemToArray(row, cJSON_CreateNumber(s->calls));
    cJSON_AddItemToArray(row, cJSON_CreateNumber(s->ways[CHECK_WAY_NATIVE] + s->ways[CHECK_WAY_NONE]));
    cJSON_AddItemToArray(row, cJSON_CreateNumber(s->ways[CHECK_WAY_COMPOSITE]));
    cJSON_AddItemToArray(row, cJSON_CreateNumber(s->ways[CHECK_WAY_CPU]));
    cJSON_AddItemToArray(row, cJSON_CreateNumber(s->failed));
    cJSON_AddItemToArray(row, cJSON_CreateNumber(megabytes(s->bytes)));
}

static void add_composites(check_run *run, sums *composites)
{
    static const char *const columns[] = {
        "composite", "ms saved", "launches saved", "calls", "launches a call", "forms", NULL};
    if (!composites->count) return;
    cJSON *table = check_table(
        run, "fuse", "Composites that a kernel of their own would make faster, by the time of small calls",
        columns);
    qsort(composites->items, composites->count, sizeof *composites->items, by_seconds);
    for (uint32_t i = 0; i < composites->count; i++) {
        const sum *s = &composites->items[i];
        cJSON *row = cJSON_CreateArray();
        cJSON_AddItemToArray(row, cJSON_CreateString(s->name));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(tenths(s->seconds * 1e3)));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(s->launches - s->calls));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(s->calls));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(tenths(s->launches / s->calls)));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(s->forms));
        check_table_row(table, row);
    }
}

static void add_tables(check_run *run, sums *operators, sums *missing, const sum *total)
{
    static const char *const by_operator[] = {"operator", "calls",  "native",    "composite",
                                              "cpu",      "failed", "MB copied", NULL};
    static const char *const next[] = {"kernel",        "dtype", "MB saved",          "calls",
                                       "ms on the CPU", "forms", "why it falls back", NULL};
    cJSON *table = check_table(run, "coverage", "Coverage of the workload, in calls", by_operator), *row;
    qsort(operators->items, operators->count, sizeof *operators->items, by_calls);
    if (missing->count) qsort(missing->items, missing->count, sizeof *missing->items, by_bytes);
    for (uint32_t i = 0; i <= operators->count; i++) {
        const sum *s = i < operators->count ? &operators->items[i] : total;
        row = cJSON_CreateArray();
        cJSON_AddItemToArray(row, cJSON_CreateString(s->name));
        add_numbers(row, s);
        check_table_row(table, row);
    }
    table = check_table(run, "next",
                        missing->count ? "Implement these next" : "Implement these next: nothing falls back",
                        next);
    for (uint32_t i = 0; i < missing->count; i++) {
        const sum *s = &missing->items[i];
        row = cJSON_CreateArray();
        cJSON_AddItemToArray(row, cJSON_CreateString(s->name));
        cJSON_AddItemToArray(row, cJSON_CreateString(s->dtype));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(megabytes(s->bytes)));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(s->calls));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(tenths(s->seconds * 1e3)));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(s->forms));
        cJSON_AddItemToArray(row, cJSON_CreateString(s->reason));
        check_table_row(table, row);
    }
}

int32_t check_coverage(check_run *run)
{
    static const check_source sources[] = {add_forms};
    sums operators = {0}, missing = {0}, composites = {0};
    sum total = {.name = "all"};
    if (!check_execute(run, sources, 1)) {
        add_up(run, &operators, &missing, &composites, &total);
        if (total.calls > 0) add_tables(run, &operators, &missing, &total);
        add_composites(run, &composites);
    }
    free(operators.items);
    free(missing.items);
    free(composites.items);
    return check_verdict(run);
}
