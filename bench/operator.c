/* SPDX-License-Identifier: Apache-2.0 */
/* Any operator with any arguments, through the boxed call: {"open": "call"} and the members that
 * kit/calls/request.h lists. With "undo" an operator that takes the same arguments follows each call. */
#include "bench.h"
#include "kit/calls/request.h"

#define MAX_RESULTS 16

typedef struct operation {
    tn_scope *s;                       /* owns arguments and their lists */
    cJSON *request;                    /* has their texts */
    uint32_t op, undo, n_args, n_outs; /* undo: 0 if there is none */
    tn_value args[REQUEST_MAX_ARGUMENTS];
} operation;

/* The operator that a member of the request names, or 0. */
static uint32_t named_operator(const bench *b, const char *key)
{
    const cJSON *name = cJSON_GetObjectItem(b->request, key);
    return cJSON_IsString(name) ? tn_operator_find(b->ctx, name->valuestring) : 0;
}

/* A copy on the device with the same strides, gaps included. */
static tn_tensor *moved(tn_scope *s, tn_tensor *t, tn_device device)
{
    if (!t || tn_tensor_device(t) == device) return t;
    tn_ints sizes = {tn_tensor_sizes(t), tn_tensor_rank(t)},
            strides = {tn_tensor_strides(t), tn_tensor_rank(t)};
    int64_t extent = tn_tensor_numel(t) > 0;
    for (int64_t d = 0; extent && d < sizes.count; d++) extent += (sizes.data[d] - 1) * strides.data[d];
    tn_tensor *flat = tn_as_strided(s, t, TN_INTS(extent), TN_INTS(1));
    return tn_as_strided(s, tn_to_device(s, flat, device, tn_tensor_dtype(t)), sizes, strides);
}

/* The tensors of the arguments become copies on the device. */
static void move_arguments(operation *o, tn_device device)
{
    for (uint32_t i = 0; i < o->n_args; i++) {
        tn_value *v = &o->args[i];
        if (v->tag == TN_TAG_TENSOR) v->as.tensor = moved(o->s, v->as.tensor, device);
        if (v->tag != TN_TAG_TENSORS) continue;
        tn_tensor **list = tn_scope_memory(o->s, (v->count + 1) * sizeof *list);
        for (uint32_t k = 0; list && k < v->count; k++) list[k] = moved(o->s, v->as.tensors[k], device);
        v->as.tensors = list;
    }
}

static int call_open(bench *b)
{
    operation *o = bench_state(b, sizeof *o);
    if (!o) return 1;
    o->s = tn_scope_open(b->ctx);
    o->op = named_operator(b, "op");
    o->undo = named_operator(b, "undo");
    if (!o->op) return bench_absent(b, "no such operator");
    o->n_outs = tn_inspect_argument_count(b->ctx, o->op, 1);
    if (o->n_outs > MAX_RESULTS) return bench_absent(b, "the operator has too many results");
    o->request = cJSON_Duplicate(b->request, 1);
    o->n_args = request_arguments(o->s, o->op, o->request, o->args);
    if (b->device != TN_CPU && !tn_scope_failed(o->s)) move_arguments(o, b->device);
    return tn_scope_failed(o->s) ? bench_failed(b, o->s) : 0;
}

static void call_close(bench *b)
{
    operation *o = b->state;
    tn_scope_close(o->s);
    cJSON_Delete(o->request);
}

/* 0, or 1 with the error in the bench's answer. */
static int call_once(bench *b, uint32_t op)
{
    operation *o = b->state;
    tn_value outs[MAX_RESULTS];
    tn_error *error = NULL;
    if (tn_call_operator(b->ctx, op, o->args, o->n_args, outs, o->n_outs, &error)) {
        bench_absent(b, "%s", error ? error->message : "unknown error");
        tn_error_release(error);
        return 1;
    }
    for (uint32_t k = 0; k < o->n_outs; k++) tn_value_release(b->ctx, &outs[k]);
    return 0;
}

static int call_run(bench *b, int64_t n)
{
    const operation *o = b->state;
    int failed = 0;
    for (int64_t i = 0; i < n && !failed; i++)
        failed = call_once(b, o->op) || (o->undo && call_once(b, o->undo));
    return failed;
}

int main(int argc, char **argv)
{
    static const bench_case cases[] = {{"call", call_open, call_run, call_close, NULL}};
    return bench_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
