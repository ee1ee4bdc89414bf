/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator library that breaks the contract in the way that TENON_LIAR names. It defines
 * odd::twice(Tensor x, *, float by=2.0) -> Tensor with a shape rule, a composite, a gradient, and a kernel
 * for the CPU, and odd::total(Tensor[] xs) -> Tensor, whose gradient is a list; all correct except for the lie.
 */
#define TN_PLUGIN
#include <tenon/operator_library.h>
#include "../slots.h"
#include <tenon/ops.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static tn_call kept;

static int lies(const char *how)
{
    const char *lie = getenv("TENON_LIAR");
    return lie && strcmp(lie, how) == 0;
}

static int32_t fail(const tn_call *call)
{
    return call->host->error(call->host->context, TN_E_ARGUMENT, "liar: it fails");
}

static void *ask_for_scope(void *call)
{
    const tn_call *c = call;
    c->host->call_scope(c);
    return NULL;
}

static void elsewhere(const tn_call *call)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, ask_for_scope, (void *)(uintptr_t)call) == 0)
        pthread_join(thread, NULL);
}

static void release(void *pointer) {}

/* A call that has ended, and whose memory has been written by others since. */
static const tn_call *overwritten_call(void)
{
    static tn_call call;
    memset(&call, 0xa5, sizeof call);
    return &call;
}

/* All functions of the host that take a call, each of which must refuse this one. */
static int32_t use_ended_call(const tn_host *host, const tn_call *call, tn_tensor *t)
{
    const tn_memory_request request = {.size = sizeof request, .bytes = 8};
    const tn_output output = {.size = sizeof output, .dtype = TN_FLOAT32};
    tn_memory memory = {.size = sizeof memory};
    tn_random_numbers numbers = {.size = sizeof numbers};
    tn_storage_facts facts = {.size = sizeof facts};
    uint64_t handle;
    int32_t refused = host->set_output(call, 0, t) == TN_E_CONTRACT && !host->call_scope(call) &&
                      host->define_output(call, 0, &output) == TN_E_CONTRACT &&
                      host->resize_output(call, 0, 0, NULL) == TN_E_CONTRACT &&
                      host->workspace(call, &request, &memory) == TN_E_CONTRACT &&
                      host->random_reserve(call, NULL, 1, &numbers) == TN_E_CONTRACT &&
                      host->keep_alive(call, NULL, release) == TN_E_CONTRACT &&
                      host->native(call, TN_NATIVE_STREAM, NULL, &handle) == TN_E_CONTRACT &&
                      host->storage(call, t, &facts) == TN_E_CONTRACT;
    host->work_queued(call);
    return refused ? TN_OK : TN_E_STATE;
}

static void *use_ended_call_of(void *host)
{
    return (void *)(uintptr_t)use_ended_call(host, overwritten_call(), NULL);
}

/* The same on a thread that is in no plugin. */
static int32_t use_ended_call_elsewhere(const tn_host *host)
{
    pthread_t thread;
    void *status = NULL;
    if (pthread_create(&thread, NULL, use_ended_call_of, (void *)(uintptr_t)host)) return TN_E_STATE;
    pthread_join(thread, &status);
    return (int32_t)(intptr_t)status;
}

/* ---- Shape rule -------------------------------------------------------------------------------------- */

static int32_t infer(void *self, const tn_call *call)
{
    const tn_host *host = call->host;
    const tn_tensor_desc *x = tn_desc(call->args[0].as.tensor);
    const int64_t negative[] = {-1};
    if (lies("rule-not-defined")) return TN_OK;
    if (lies("rule-dtype")) return slot_define(call, host, 0, 0x1234, x->rank, x->sizes, 0);
    if (lies("rule-size")) return slot_define(call, host, 0, x->dtype, 1, negative, 0);
    if (lies("rule-no-sizes")) return slot_define(call, host, 0, x->dtype, 1, NULL, 0);
    if (lies("rule-output")) return slot_define(call, host, 7, x->dtype, x->rank, x->sizes, 0);
    if (lies("rule-device")) return slot_define(call, host, 0, x->dtype, x->rank, x->sizes, TN_CPU);
    if (lies("rule-strides")) {
        const int64_t none[] = {0, 0};
        const tn_output output = {
            .size = sizeof output, .dtype = x->dtype, .rank = x->rank, .sizes = x->sizes, .strides = none};
        return host->define_output(call, 0, &output);
    }
    if (lies("rule-operator")) tn_neg(host->call_scope(call), call->args[0].as.tensor);
    if (lies("rule-scope")) host->call_scope(call);
    if (lies("rule-writes")) call->outs[0] = call->args[0];
    if (lies("rule-writes-and-fails")) {
        call->outs[0] = call->args[0];
        return fail(call);
    }
    if (lies("rule-no-status")) return -77;
    return slot_define(call, host, 0, x->dtype, x->rank, x->sizes, 0);
}

/* ---- Composite --------------------------------------------------------------------------------------- */

static int32_t composite(void *self, const tn_call *call)
{
    const tn_host *host = call->host;
    const tn_value two = tn_value_float(2);
    tn_scope *s = host->call_scope(call);
    tn_tensor *y = tn_mul_scalar(s, call->args[0].as.tensor, two);
    if (lies("composite-not-given")) return TN_OK;
    if (lies("composite-dtype")) y = tn_to(s, y, TN_FLOAT64);
    if (lies("composite-shape")) y = tn_unsqueeze(s, y, 0);
    if (lies("composite-device")) y = tn_zeros(s, TN_INTS(2, 2), .dtype = TN_FLOAT32, .device = TN_CPU);
    if (lies("composite-defines")) slot_define(call, host, 0, TN_FLOAT32, 0, NULL, 0);
    if (lies("composite-keeps")) host->keep_alive(call, &kept, release);
    if (lies("composite-elsewhere")) elsewhere(call);
    if (lies("composite-error-then-ok")) fail(call);
    if (lies("composite-no-status")) return 4711;
    if (lies("composite-arguments")) ((tn_value *)(uintptr_t)call->args)[0] = two;
    if (lies("composite-output")) host->set_output(call, 3, y);
    if (lies("composite-writes")) {
        call->outs[0] = tn_value_tensor(y);
        return TN_OK;
    }
    if (lies("composite-writes-and-fails")) {
        call->outs[0] = tn_value_tensor(y);
        return fail(call);
    }
    if (lies("call-is-over")) {
        if (kept.size) kept.host->call_scope(&kept);
        kept = *call;
    }
    return host->set_output(call, 0, y);
}

/* ---- Gradient: its arguments are that of the output, then x and by ------------------------------------- */

static int32_t backward(void *self, const tn_call *call)
{
    const tn_host *host = call->host;
    tn_scope *s = host->call_scope(call);
    tn_tensor *g = tn_mul_scalar(s, call->args[0].as.tensor, tn_value_float(2));
    if (lies("gradient-dtype")) g = tn_to(s, g, TN_FLOAT64);
    if (lies("gradient-shape")) g = tn_sum(s, g);
    if (lies("gradient-device")) g = tn_zeros(s, TN_INTS(2, 2), .dtype = TN_FLOAT32, .device = TN_CPU);
    if (lies("gradient-of-number")) host->set_output(call, 1, g);
    if (lies("gradient-error-then-ok")) fail(call);
    if (lies("gradient-uses-ended-call")) {
        int32_t status = use_ended_call(host, overwritten_call(), g);
        if (!status) status = use_ended_call_elsewhere(host);
        if (status) return status;
    }
    if (lies("gradient-list")) {
        tn_tensor **grads = tn_scope_memory(s, sizeof *grads);
        if (!grads) return TN_E_OUT_OF_MEMORY;
        grads[0] = g;
        call->outs[0] = tn_value_tensors(grads, 1);
        return TN_OK;
    }
    if (lies("gradient-writes")) {
        call->outs[0] = tn_value_tensor(g);
        return TN_OK;
    }
    return host->set_output(call, 0, g);
}

/* ---- Kernel ------------------------------------------------------------------------------------------ */

static int32_t kernel(void *self, const tn_call *call)
{
    static int32_t runs;
    const float *x = tn_desc(call->args[0].as.tensor)->host;
    tn_tensor *out = call->outs[0].as.tensor;
    float *y = tn_desc(out)->host;
    int64_t n = tn_tensor_numel(out);
    for (int64_t i = 0; i < n; i++) y[i] = 2 * x[i];
    if (lies("kernel-operator")) tn_neg(call->host->call_scope(call), call->args[0].as.tensor);
    if (lies("kernel-sets")) call->host->set_output(call, 0, call->args[0].as.tensor);
    /* The host would call it again, and then it succeeds. */
    if (lies("kernel-queued") && !runs++) {
        call->host->work_queued(call);
        return TN_E_OUT_OF_MEMORY;
    }
    if (lies("kernel-writes")) call->outs[0] = tn_value_none();
    return TN_OK;
}

/* ---- A list ------------------------------------------------------------------------------------------ */

static int32_t total(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *sum = tn_mul_scalar(s, call->args[0].as.tensors[0], tn_value_float(1));
    for (uint32_t i = 1; i < call->args[0].count; i++) sum = tn_add(s, sum, call->args[0].as.tensors[i]);
    return call->host->set_output(call, 0, sum);
}

/* Stores the list, since set_output takes one tensor. */
static int32_t total_backward(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_tensor *g = call->args[0].as.tensor;
    const uint32_t n = call->args[1].count;
    tn_tensor **grads = tn_scope_memory(s, n * sizeof *grads);
    if (!grads) return TN_E_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < n; i++) grads[i] = g;
    if (lies("list-shape")) grads[n - 1] = tn_sum(s, g);
    call->outs[0] = tn_value_tensors(grads, n);
    return lies("list-fails") ? fail(call) : TN_OK;
}

/* ---- Composites that need not call set_output ----------------------------------------------------------- */

static int32_t count(void *self, const tn_call *call)
{
    static tn_tensor *list[1];
    list[0] = call->args[0].as.tensor;
    if (!lies("count-not-given")) call->outs[0] = tn_value_int(tn_tensor_numel(list[0]));
    call->outs[1] = tn_value_tensors(list, 1);
    if (lies("count-writes")) call->outs[2] = call->args[0];
    return lies("count-writes") ? TN_OK : call->host->set_output(call, 2, list[0]);
}

/* Writes the last argument and gives nothing. */
static int32_t grow(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_add_scalar_(s, call->args[call->n_args - 1].as.tensor, tn_value_int(1));
    return tn_scope_failed(s);
}

static int32_t define_nothing(void *self, const tn_call *call)
{
    return TN_OK;
}

/* The host casts what it copies into the argument. */
static int32_t give_doubles(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    return call->host->set_output(call, 0, tn_to(s, tn_neg(s, call->args[0].as.tensor), TN_FLOAT64));
}

/* ---- The plugin -------------------------------------------------------------------------------------- */

#define SCHEMA "odd::twice(Tensor x, *, float by=2.0) -> Tensor"

static const tn_operator_def twice = {.size = sizeof(tn_operator_def),
                                      .schema = SCHEMA,
                                      .saves = "x",
                                      .infer = infer,
                                      .composite = composite,
                                      .backward = backward};
static const tn_operator_def list = {.size = sizeof(tn_operator_def),
                                     .schema = "odd::total(Tensor[] xs) -> Tensor",
                                     .saves = "xs",
                                     .composite = total,
                                     .backward = total_backward};
static const tn_operator_def others[] = {
    {.size = sizeof *others, .schema = "odd::count(Tensor x) -> (int, Tensor[], Tensor)", .composite = count},
    {.size = sizeof *others, .schema = "odd::grow_(Tensor(a!) self) -> Tensor(a!)", .composite = grow},
    {.size = sizeof *others,
     .schema = "odd::grow.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
     .composite = grow},
    {.size = sizeof *others,
     .schema = "odd::ruled_(Tensor(a!) self) -> Tensor(a!)",
     .infer = define_nothing,
     .composite = grow},
    {.size = sizeof *others,
     .schema = "odd::doubles_(Tensor(a!) self) -> Tensor(a!)",
     .infer = infer,
     .composite = give_doubles},
};
static const tn_dtype dtypes[] = {TN_FLOAT32, 0};
static const tn_kernel_row rows[] = {
    {.size = sizeof(tn_kernel_row), .schema = SCHEMA, .dtypes = dtypes, .run = kernel}};

static int32_t init(const tn_host *host, void **out_self)
{
    int32_t status = host->register_operator(host->context, &twice);
    if (!status) status = host->register_operator(host->context, &list);
    for (uint32_t i = 0; i < sizeof others / sizeof *others && !status; i++)
        status = host->register_operator(host->context, &others[i]);
    if (!status) status = host->register_kernels(host->context, "cpu", NULL, rows, 1, sizeof(tn_kernel_row));
    *out_self = lies("init-state-and-fails") ? (void *)(uintptr_t)&twice : NULL;
    if (lies("init-fails") || lies("init-state-and-fails"))
        return host->error(host->context, TN_E_STATE, "liar: it does not start");
    return status;
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    return tn_operators_entry(offer, out, init);
}

TN_DEFINE_PLUGIN("odd", "1.0", "Tests", 0, entry);
