/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenon check --op ns::name LIB.so`: whether a custom operator behaves as its schema and registration say.
 * Seven parts, with a case for each call that the operator accepts: schema, shape, layouts, gradient,
 * differences, traced, leaks.
 */
#include "custom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/inspect.h>
#include "guard.h"
#include "sources.h"
#include "../rows.h"

static void *bytes_of(tn_scope *s, const tn_tensor *t)
{
    int64_t bytes = tn_tensor_numel(t) * tn_dtype_bytes(tn_tensor_dtype(t));
    void *data = tn_scope_memory(s, (uint64_t)bytes + 1);
    return data && tn_to_host(s, t, data, (uint64_t)bytes) == TN_OK ? data : NULL;
}

static int same_bytes(tn_scope *s, const tn_tensor *t, const void *before)
{
    int64_t bytes = tn_tensor_numel(t) * tn_dtype_bytes(tn_tensor_dtype(t));
    void *now = bytes_of(s, t);
    return now && before && memcmp(now, before, (size_t)bytes) == 0;
}

/* ---- 1: the schema holds ------------------------------------------------------------------------------- */

/* A tensor among the arguments before the call. */
typedef struct state {
    uint32_t argument;
    tn_tensor *tensor;
    void *bytes;
    uint64_t version;
} state;

static uint32_t note_states(custom_run *r, state *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_args; i++) {
        tn_tensor *tensors[CUSTOM_MAX_ITEMS];
        const uint32_t count = custom_tensors(&r->args[i], 1, tensors, CUSTOM_MAX_ITEMS - n);
        for (uint32_t k = 0; k < count; k++)
            out[n++] = (state){i, tensors[k], bytes_of(r->s, tensors[k]), tn_tensor_version(tensors[k])};
    }
    return n;
}

static void check_argument(check_target *t, const custom_call *call, custom_run *r, const state *before,
                           check_result *out)
{
    tn_argument_info info = custom_argument(t, call->op, 0, before->argument);
    int written = (info.flags & TN_ARG_WRITTEN) != 0;
    tn_tensor *x = before->tensor;
    if (!written && !same_bytes(r->s, x, before->bytes))
        check_fail(out,
                   "argument '%s' changed, and the schema does not say that it is written (write Tensor(a!))",
                   info.name);
    if (!written && tn_tensor_version(x) != before->version)
        check_fail(out,
                   "argument '%s': its version changed, although the schema does not say that it is written",
                   info.name);
    if (written && tn_tensor_numel(x) && tn_tensor_version(x) == before->version)
        check_fail(out, "argument '%s': the schema says that it is written, but its version did not change",
                   info.name);
}

/* Whether a tensor of the one value, also in a list, shares memory with one of the other; *out_any: whether both have
 * tensors with elements. */
static int share_memory(const tn_value *a, const tn_value *b, int *out_any)
{
    tn_tensor *x[CUSTOM_MAX_ITEMS], *y[CUSTOM_MAX_ITEMS];
    const uint32_t n = custom_tensors(a, 1, x, CUSTOM_MAX_ITEMS),
                   m = custom_tensors(b, 1, y, CUSTOM_MAX_ITEMS);
    int shared = 0;
    *out_any = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (tn_tensor_numel(x[i]) == 0) continue;
        *out_any |= m > 0;
        for (uint32_t k = 0; k < m; k++) shared |= tn_tensor_is_alias(x[i], y[k]);
    }
    return shared;
}

/* Results share memory with an argument only where both are of one alias set. */
static void check_alias(check_target *t, const custom_call *call, custom_run *r, uint32_t result,
                        check_result *out)
{
    tn_argument_info returned = custom_argument(t, call->op, 1, result);
    const tn_value *y = &r->outs[result];
    const char *where = y->tag == TN_TAG_TENSORS ? "a tensor of the list that is " : "";
    int any;
    for (uint32_t i = 0; i < r->n_args; i++) {
        tn_argument_info info = custom_argument(t, call->op, 0, i);
        int allowed = returned.alias_set && info.alias_set && strcmp(returned.alias_set, info.alias_set) == 0;
        int shared = share_memory(y, &r->args[i], &any);
        if (shared && !allowed)
            check_fail(out,
                       "%sresult %u shares memory with argument '%s', and the schema does not say so (write "
                       "Tensor(a) for both)",
                       where, result, info.name);
        if (any && !shared && allowed)
            check_fail(out, "%sresult %u does not share memory with argument '%s', as the schema says", where,
                       result, info.name);
    }
    for (uint32_t k = 0; k < result; k++)
        if (!returned.alias_set && share_memory(y, &r->outs[k], &any))
            check_fail(out, "results %u and %u share memory", k, result);
}

/* Nothing beside the results was written. */
static void check_guards(const custom_run *r, check_result *out)
{
    char text[160];
    for (uint32_t i = 0; i < r->n_outs; i++) {
        const tn_tensor *y = tn_value_as_tensor(r->outs[i]);
        if (y && guard_is_broken(y, text, sizeof text))
            check_fail(out, "the kernel writes outside of result %u: %s", i, text);
    }
    if (guard_any_is_broken(text, sizeof text))
        check_fail(out, "the kernel writes outside of its tensors: %s", text);
}

/* Whether the device type has a row of the operator, of whatever dtype. */
static int has_row(const check_target *t, const custom_call *call)
{
    tn_operator_info op = {.size = sizeof op};
    tn_inspect_operator_by_number(t->ctx, call->op, &op);
    return check_has_kernel(t, op.base ? op.base : call->op, t->type, 0);
}

void custom_schema(check_target *t, const check_case *c, check_result *out)
{
    const custom_call *call = c->data;
    state before[CUSTOM_MAX_ITEMS];
    check_watch watch;
    custom_run r;
    custom_open(&r, t, call, t->device, TN_GRAD_OFF);
    const uint32_t n = note_states(&r, before);
    check_watch_begin(t, &watch);
    const int failed = custom_do(&r, call);
    const int32_t way = check_watch_end(t, &watch);
    if (has_row(t, call)) out->way = way;
    if (failed) {
        check_fail_with_error(out, r.s, "the call");
    } else {
        for (uint32_t i = 0; i < n; i++) check_argument(t, call, &r, &before[i], out);
        for (uint32_t i = 0; i < r.n_outs; i++) check_alias(t, call, &r, i, out);
        check_guards(&r, out);
    }
    custom_close(&r);
}

/* ---- 2: the shape rule agrees with what computes ------------------------------------------------------- */

static void compare_shapes(check_result *out, const char *rule, const char *real, const tn_tensor *a,
                           const tn_tensor *b, uint32_t i)
{
    check_that(out, tn_tensor_dtype(a) == tn_tensor_dtype(b), "result %u: %s says %s, %s gives %s", i, rule,
               tn_dtype_name(tn_tensor_dtype(a)), real, tn_dtype_name(tn_tensor_dtype(b)));
    check_that(out, tn_tensor_rank(a) == tn_tensor_rank(b), "result %u: %s says %d dimensions, %s gives %d",
               i, rule, (int)tn_tensor_rank(a), real, (int)tn_tensor_rank(b));
    for (int64_t d = 0; d < tn_tensor_rank(a) && tn_tensor_rank(a) == tn_tensor_rank(b); d++)
        check_that(out, tn_tensor_size(a, d) == tn_tensor_size(b, d),
                   "result %u: %s says size %lld at %d, %s gives %lld", i, rule,
                   (long long)tn_tensor_size(a, d), (int)d, real, (long long)tn_tensor_size(b, d));
}

/* All tensors of a result. */
static void compare_result(check_result *out, const char *rule, const char *real, const tn_value *a,
                           const tn_value *b, uint32_t i)
{
    tn_tensor *x[CUSTOM_MAX_ITEMS], *y[CUSTOM_MAX_ITEMS];
    const uint32_t n = custom_tensors(a, 1, x, CUSTOM_MAX_ITEMS),
                   m = custom_tensors(b, 1, y, CUSTOM_MAX_ITEMS);
    check_that(out, n == m, "result %u: %s gives %u tensor%s, %s %u", i, rule, n, n == 1 ? "" : "s", real, m);
    for (uint32_t k = 0; k < n && n == m; k++) compare_shapes(out, rule, real, x[k], y[k], i);
}

/* Fills cached memory of that size with a pattern, which then shows where a kernel does not write. */
static void stain(custom_run *r, const tn_tensor *like, double pattern)
{
    tn_tensor *t = tn_full_like(r->s, (tn_tensor *)(uintptr_t)like, tn_value_float(pattern));
    tn_drop(r->s, t);
}

/* The same call twice, over memory with different patterns. */
static void check_whole(check_target *t, const custom_call *call, check_result *out)
{
    void *bytes[CUSTOM_MAX_OUTS] = {NULL};
    custom_run first, again;
    custom_open(&first, t, call, t->device, TN_GRAD_OFF);
    custom_open(&again, t, call, t->device, TN_GRAD_OFF);
    for (int k = 0; k < 2; k++) {
        custom_run *r = k ? &again : &first;
        guard_fill(k ? 0x3f : 0x41);
        if (custom_do(r, call)) continue;
        /* First for the sizes of the results, then over the pattern. */
        for (uint32_t i = 0; i < r->n_outs; i++) {
            tn_tensor *y = tn_value_as_tensor(r->outs[i]);
            if (y) stain(r, y, k ? 1 : 2);
        }
        if (custom_do(r, call)) continue;
        for (uint32_t i = 0; i < r->n_outs; i++) {
            tn_tensor *y = tn_value_as_tensor(r->outs[i]);
            if (!y) continue;
            if (k == 0) bytes[i] = bytes_of(first.s, y);
            if (k == 1 && bytes[i] && !same_bytes(again.s, y, bytes[i]))
                check_fail(out,
                           "result %u differs between two equal calls: the kernel does not write all of it, "
                           "or reads "
                           "what is not its own",
                           i);
        }
    }
    custom_close(&again);
    custom_close(&first);
}

void custom_shape(check_target *t, const check_case *c, check_result *out)
{
    const custom_call *call = c->data;
    tn_device places[2] = {t->device, t->other};
    custom_run meta;
    if (custom_has_tag(t, call, "dynamic_output_shape")) {
        check_skip(out, "shapes depend on data");
        return;
    }
    custom_open(&meta, t, call, tn_device_parse(t->ctx, "meta"), TN_GRAD_OFF);
    if (custom_do(&meta, call))
        check_fail_with_error(out, meta.s, "on the device 'meta', which asks the shape rule alone,");
    for (int k = 0; k < 2 && out->outcome == CHECK_PASSED; k++) {
        custom_run real;
        if (!places[k]) continue;
        custom_open(&real, t, call, places[k], TN_GRAD_OFF);
        if (custom_do(&real, call))
            check_fail_with_error(out, real.s, k ? "on the other device" : "the call");
        else
            for (uint32_t i = 0; i < real.n_outs; i++)
                compare_result(out, "the shape rule", k ? t->other_name : t->name, &meta.outs[i],
                               &real.outs[i], i);
        custom_close(&real);
    }
    custom_close(&meta);
    if (out->outcome == CHECK_PASSED && !custom_has_tag(t, call, "nondeterministic"))
        check_whole(t, call, out);
}

/* ---- The cases ----------------------------------------------------------------------------------------- */

/* The call did not end as a call that the operator refuses. */
static void faulty_call(check_target *t, const check_case *c, check_result *out)
{
    check_fail(out, "%s", custom_tried(c->data).reason);
}

/* The operator refuses all guessed calls. */
static void no_call(check_target *t, const check_case *c, check_result *out)
{
    const custom_call *call = c->data;
    custom_run r;
    if (!call->op) {
        check_fail(out, "the library defines no operator '%s'", t->options->op);
        return;
    }
    custom_open(&r, t, call, t->device, TN_GRAD_OFF);
    if (custom_do(&r, call))
        check_fail(out,
                   "the operator refuses every call guessed from its schema; give one with --args. The first "
                   "error: %s",
                   tn_scope_error(r.s) ? tn_scope_error(r.s)->message : "nothing");
    custom_close(&r);
}

static void refused_call(check_target *t, const check_case *c, check_result *out)
{
    const custom_call *call = c->data;
    custom_run r;
    custom_open(&r, t, call, t->device, TN_GRAD_OFF);
    if (custom_do(&r, call)) check_fail_with_error(out, r.s, "the given call");
    custom_close(&r);
}

static void unreadable(check_target *t, const check_case *c, check_result *out)
{
    check_fail(out, "--args is neither JSON nor a file with JSON: %s", t->options->args);
}

/* ---- What the calls do not show ------------------------------------------------------------------------- */

static void fail_with(void *user, const char *text)
{
    check_fail(user, "%s", text);
}

static void count_row(void *user, const char *text)
{
    (void)user, (void)text;
}

/* Of the library, or near the operator if it was found by its manifest. */
static unused_rows rows_of(const check_target *t, int foreign)
{
    return (unused_rows){t->options->plugin ? t->plugin : NULL, t->options->op, foreign};
}

static void tell_misspelt(check_target *t, const check_case *c, check_result *out)
{
    const unused_rows which = rows_of(t, 0);
    misspelt_rows(t->ctx, &which, fail_with, out);
}

static void skip_with(void *user, const char *text)
{
    check_skip(user, "%s", text);
}

static void tell_foreign(check_target *t, const check_case *c, check_result *out)
{
    const unused_rows which = rows_of(t, 1);
    misspelt_rows(t->ctx, &which, skip_with, out);
}

/* Rows for a device type that no plugin here has: it may be another vendor's. */
static void rows_elsewhere(check_target *t, const check_case *c, check_result *out)
{
    rows_of_unknown_types(t->ctx, rows_of(t, 0).plugin, skip_with, out);
}

static void list_rows(check_target *t, check_list *list)
{
    const unused_rows misspelt = rows_of(t, 0), foreign = rows_of(t, 1);
    if (misspelt_rows(t->ctx, &misspelt, count_row, NULL))
        check_add(list, &(check_case){.tier = 1, .run = tell_misspelt}, "1/custom/%s/rows", t->options->op);
    if (misspelt_rows(t->ctx, &foreign, count_row, NULL))
        check_add(list, &(check_case){.tier = 1, .run = tell_foreign}, "1/custom/%s/rows/namespace",
                  t->options->op);
    if (rows_of_unknown_types(t->ctx, misspelt.plugin, count_row, NULL))
        check_add(list, &(check_case){.tier = 1, .run = rows_elsewhere}, "1/custom/%s/rows/devices",
                  t->options->op);
}

/* ---- What was found when the library was loaded --------------------------------------------------------- */

static void tell_finding(check_target *t, const check_case *c, check_result *out)
{
    check_fail(out, "when the library was loaded: %s", (const char *)c->data);
}

static void list_findings(check_target *t, check_list *list)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < tn_inspect_finding_count(t->ctx); i++) {
        tn_finding f = {.size = sizeof f};
        if (tn_inspect_finding(t->ctx, i, &f) || (t->options->plugin && strcmp(f.plugin, t->plugin)))
            continue;
        check_case c = {.tier = 1, .run = tell_finding, .data = check_text(list, "%s: %s", f.kind, f.text)};
        check_add(list, &c, "1/custom/%s/load/%u", t->options->op, ++count);
    }
}

/* The names of the arguments that guessed calls leave at their defaults, in the list's memory; NULL: none. */
static const char *kept_arguments(check_target *t, check_list *list, uint32_t op)
{
    const char *names = NULL;
    for (uint32_t i = 0; i < tn_inspect_argument_count(t->ctx, op, 0); i++) {
        tn_argument_info info = custom_argument(t, op, 0, i);
        if (!info.default_text && !(info.flags & TN_ARG_OPTIONAL)) continue;
        names = check_text(list, "%s%s'%s'", names ? names : "", names ? ", " : "", info.name);
    }
    return names;
}

static void tell_kept(check_target *t, const check_case *c, check_result *out)
{
    check_skip(out, "the guessed calls leave %s at the defaults; --args gives calls with other values",
               (const char *)c->data);
}

void check_custom_operator(check_target *t, check_list *list)
{
    static const struct {
        const char *name;
        check_fn run;
    } parts[] = {{"schema", custom_schema},
                 {"shape", custom_shape},
                 {"layouts", custom_layouts},
                 {"gradient", custom_gradient},
                 {"differences", custom_differences},
                 {"traced", custom_traced},
                 {"leaks", custom_leaks}};
    uint32_t op = tn_operator_find(t->ctx, t->options->op), n = 0, taken = 0, faults = 0;
    custom_call none = {0}, *calls = op ? custom_calls(t, list, op, &n) : NULL,
                *first = check_memory(list, sizeof none);
    const char *name = t->options->op;
    if (n) *first = calls[0];
    custom_choose(calls, n);
    tn_clear_error();
    for (uint32_t i = 0; i < n; i++) {
        check_case c = {.tier = 1, .data = &calls[i], .run = refused_call};
        const int faulty = custom_tried(&calls[i]).state == CUSTOM_FAULTY;
        if (faulty) c.run = faulty_call;
        if (faulty || (calls[i].given && !calls[i].chosen))
            check_add(list, &c, "1/custom/%s/call/%s", name, calls[i].name);
        faults += (uint32_t)faulty;
        taken += (uint32_t)calls[i].chosen;
        for (uint32_t k = 0; calls[i].chosen && k < sizeof parts / sizeof *parts; k++) {
            c.run = parts[k].run;
            check_add(list, &c, "1/custom/%s/%s/%s", name, parts[k].name, calls[i].name);
        }
    }
    const char *kept = taken && !t->options->args ? kept_arguments(t, list, op) : NULL;
    if (kept)
        check_add(list, &(check_case){.tier = 1, .data = kept, .run = tell_kept}, "1/custom/%s/arguments",
                  name);
    custom_list_refused(t, list, calls, n);
    list_rows(t, list);
    if (t->options->plugin && taken)
        check_add(list, &(check_case){.tier = 1, .run = custom_library_leaks}, "1/custom/%s/leaks/library",
                  name);
    list_findings(t, list);
    tn_clear_error();
    if (t->options->args && op && n == 0)
        check_add(list, &(check_case){.tier = 1, .data = first, .run = unreadable}, "1/custom/%s/call", name);
    else if (!taken && !faults && !(n && calls[0].given))
        check_add(list, &(check_case){.tier = 1, .data = first, .run = no_call}, "1/custom/%s/call", name);
}

/* A table of the parts and their findings. */
static void tell(check_run *run)
{
    static const char *const columns[] = {"part",    "calls",         "passed", "failed",
                                          "skipped", "first finding", NULL};
    static const char *const names[] = {"call",   "schema", "shape",     "layouts", "gradient", "differences",
                                        "traced", "leaks",  "arguments", "refused", "rows",     "load"};
    cJSON *table = check_table(run, "custom", run->options->op, columns);
    for (uint32_t p = 0; p < sizeof names / sizeof *names; p++) {
        uint32_t counts[CHECK_OUTCOMES] = {0}, count = 0;
        const char *finding = "";
        char part[64];
        cJSON *row = cJSON_CreateArray();
        snprintf(part, sizeof part, "/%s", names[p]);
        for (uint32_t i = 0; i < run->count; i++) {
            const char *at =
                strstr(run->entries[i].name + strlen("1/custom/") + strlen(run->options->op), part);
            if (at != run->entries[i].name + strlen("1/custom/") + strlen(run->options->op)) continue;
            const check_result *result = &run->entries[i].result;
            count++;
            counts[result->outcome]++;
            if (result->outcome != CHECK_PASSED && !*finding) finding = result->reason;
        }
        if (!count) {
            cJSON_Delete(row);
            continue;
        }
        cJSON_AddItemToArray(row, cJSON_CreateString(names[p]));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(count));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(counts[CHECK_PASSED]));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(counts[CHECK_FAILED] + counts[CHECK_CRASHED]));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(counts[CHECK_SKIPPED]));
        cJSON_AddItemToArray(row, cJSON_CreateString(finding));
        check_table_row(table, row);
    }
}

/* The dtype of a guessed call, or "given 1": `length` characters of the name. NULL: another case. */
static const char *kind_of(const check_run *run, const check_entry *e, size_t *length)
{
    const char *at = e->name + strlen("1/custom/") + strlen(run->options->op), *part = "/schema/";
    if (e->result.way == CHECK_WAY_NONE || strncmp(at, part, strlen(part)) != 0) return NULL;
    at += strlen(part);
    *length = strncmp(at, "given ", 6) ? strcspn(at, " ") : strlen(at);
    return at;
}

/* Which calls of an operator with a row the row computed: the composite computes the others, and nothing else says so. */
static void tell_ways(check_run *run)
{
    static const char *const columns[] = {"calls of", "by the row", "by the composite", "on the CPU", NULL};
    cJSON *table = NULL;
    size_t length, other;
    for (uint32_t i = 0; i < run->count; i++) {
        const char *kind = kind_of(run, &run->entries[i], &length), *other_kind;
        uint32_t counts[CHECK_WAYS] = {0}, first = run->count;
        for (uint32_t k = 0; k < run->count && kind; k++) {
            other_kind = kind_of(run, &run->entries[k], &other);
            if (!other_kind || other != length || strncmp(other_kind, kind, length)) continue;
            if (first == run->count) first = k;
            counts[run->entries[k].result.way]++;
        }
        if (!kind || first != i) continue; /* each kind once */
        if (!table) table = check_table(run, "custom_ways", "who computed", columns);
        cJSON *row = cJSON_CreateArray();
        char text[64];
        snprintf(text, sizeof text, "%.*s", (int)length, kind);
        cJSON_AddItemToArray(row, cJSON_CreateString(text));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(counts[CHECK_WAY_NATIVE]));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(counts[CHECK_WAY_COMPOSITE]));
        cJSON_AddItemToArray(row, cJSON_CreateNumber(counts[CHECK_WAY_CPU]));
        check_table_row(table, row);
    }
}

int32_t check_custom(check_run *run)
{
    static const check_source sources[] = {check_custom_operator};
    if (custom_try_calls(run) == 0 && check_execute(run, sources, 1) == 0) {
        tell(run);
        tell_ways(run);
    }
    custom_forget_tries();
    return check_verdict(run);
}
