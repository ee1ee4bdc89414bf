/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 1, indices out of range: a kernel that reads positions from memory must report a wrong one, at once
 * or late, and the device must work afterwards. Without the check it reads or writes memory of others.
 */
#include "call.h"
#include "sources.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 5, COLUMNS = 7 };

/* The arguments after (self, dim, index). */
enum { NOTHING, SOURCE, NUMBER, SOURCE_AND_REDUCE };

static const struct {
    const char *op, *kernel;
    int behind;
    int flat; /* the index has one dimension */
} operators[] = {
    {"aten::gather", "gather", NOTHING, 0},
    {"aten::index_select", "gather", NOTHING, 1},
    {"aten::scatter_.src", "scatter", SOURCE, 0},
    {"aten::scatter_.value", "scatter", NUMBER, 0},
    {"aten::scatter_add_", "scatter", SOURCE, 0},
    {"aten::scatter_reduce_.two", "scatter", SOURCE_AND_REDUCE, 0},
    {"aten::index_add_", "scatter", SOURCE, 1},
    {"aten::index_copy_", "scatter", SOURCE, 1},
};

/* The first position past the end, one far beyond, two below 0. */
static const struct {
    const char *name;
    double position;
} positions[] = {
    {"one-too-large", COLUMNS}, {"far-too-large", 1e15}, {"negative", -COLUMNS - 1}, {"minus-one", -1}};
#define POSITIONS (int64_t)(sizeof positions / sizeof *positions)

typedef struct index_call {
    call_plan plan;
    call_tensor self, index, source;
    double values[4]; /* of the index, repeated; the last one is wrong */
} index_call;

static void make_call(index_call *k, size_t op, int64_t position)
{
    static const int64_t sizes[] = {ROWS, COLUMNS}, part[] = {ROWS, 4};
    call_plan *p = &k->plan;
    k->self = k->source = (call_tensor){.dtype = TN_FLOAT32, .low = -3, .high = 3, .step = 0.25};
    k->index = (call_tensor){.dtype = TN_INT64, .values = k->values, .count = 4};
    k->values[1] = 2;
    k->values[2] = COLUMNS - 1;
    k->values[3] = positions[position].position;
    call_shape(&k->self, 2, sizes);
    call_shape(&k->source, 2, part);
    call_shape(&k->index, operators[op].flat ? 1 : 2, operators[op].flat ? part + 1 : part);
    p->args[p->n_args++] = call_argument(&k->self);
    p->args[p->n_args++] = tn_value_int(1);
    p->args[p->n_args++] = call_argument(&k->index);
    if (operators[op].behind == SOURCE || operators[op].behind == SOURCE_AND_REDUCE)
        p->args[p->n_args++] = call_argument(&k->source);
    if (operators[op].behind == NUMBER) p->args[p->n_args++] = tn_value_float(1.5);
    if (operators[op].behind == SOURCE_AND_REDUCE) p->args[p->n_args++] = tn_value_string("sum");
}

/* After the error was reported once, the stream takes work again and sums are right. */
static void works_afterwards(check_target *t, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    tn_tensor *x = tn_full(s, TN_INTS(10), 3, .dtype = TN_FLOAT32, .device = t->device);
    double got = tn_item_double(s, tn_sum(s, x));
    if (tn_scope_failed(s))
        check_fail_with_error(out, s, "the first work after the error was reported");
    else
        check_that(out, got == 30, "the first sum after the error is %g, expected 30", got);
    tn_scope_close(s);
}

/* The status of the call, or of the late error. */
static int32_t call(check_target *t, tn_scope *s, const index_call *k, check_watch *w)
{
    tn_value args[CALL_MAX_ARGS], out = tn_value_none();
    if (call_arguments(s, &k->plan, t->device, args)) return TN_E_STATE;
    tn_device_synchronize(t->ctx, t->device);
    check_watch_begin(t, w);
    int32_t status = tn_scope_call(s, k->plan.op, args, k->plan.n_args, &out, 1), late;
    late = tn_device_synchronize(t->ctx, t->device);
    return status ? status : late;
}

static void run(check_target *t, const check_case *c, check_result *out)
{
    size_t op = (size_t)(c->number / POSITIONS);
    const char *name = operators[op].op;
    index_call k = {.plan = {.op = tn_operator_find(t->ctx, name), .name = name, .seed = check_seed(t, c)}};
    check_watch watch = {0};
    tn_scope *s = tn_scope_open(t->ctx);
    make_call(&k, op, c->number % POSITIONS);
    int32_t status = call(t, s, &k, &watch);
    out->way = check_watch_end(t, &watch);
    check_that(out, status != TN_OK,
               "%s: position %.0f along a dimension of %d elements, and no error: neither by the call nor by "
               "device.synchronize",
               name, positions[c->number % POSITIONS].position, COLUMNS);
    tn_scope_close(s);
    t->error_line[0] = 0; /* it may have been logged */
    if (status && status != TN_E_DEVICE_LOST) works_afterwards(t, out);
    if (out->way == CHECK_WAY_CPU) check_absent(out, "the CPU answers for %s", watch.fallbacks);
}

void check_index_cases(check_target *t, check_list *list)
{
    if (!check_has_dtype(t, TN_FLOAT32)) return;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        uint32_t op = tn_operator_find(t->ctx, operators[i].op);
        if (!op) continue;
        for (int64_t k = 0; k < POSITIONS; k++)
            check_add(list,
                      &(check_case){.tier = 1,
                                    .tags = CHECK_TAG_OPTIONAL | CHECK_TAG_ALONE, /* it may write anywhere */
                                    .run = run,
                                    .number = (int64_t)i * POSITIONS + k},
                      "1/%s/%s/out-of-range/%s", operators[i].kernel, operators[i].op, positions[k].name);
    }
}
