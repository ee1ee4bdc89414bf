/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of kernels, shape rules and composites that the host refuses, each with a text that says why; what it
 * answers during a capture and to a kernel with a scope of its own; sizes above a row's limits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/plugin.h>
#include "../plugins/slots.h"
#include "support.h"

static tn_device device;

static void set_up(void)
{
    setenv("TENON_REFERENCE_DEVICES", "2", 1); /* the second is not opened */
    open_context();
    device = tn_device_parse(ctx, "reference:0");
    cr_assert_not(device & TN_DEVICE_MISSING);
}

TestSuite(host_requests, .init = set_up, .fini = close_context);

static int runs;

/* The last call of the host gave this status, and an error with this text. */
static void expect_refusal(int32_t got, int32_t status, const char *text)
{
    cr_expect_eq(got, status, "%d: %s", got, text);
    expect_last_error(status, text);
}

#define SCHEMA "test::asks(Tensor x) -> Tensor"

/* Calls test::asks with this kernel on the reference device. */
static tn_tensor *ask_with(tn_kernel_fn kernel, uint32_t flags)
{
    const tn_kernel_row row = {
        .size = sizeof row, .strides = TN_STRIDES_ANY, .schema = SCHEMA, .run = kernel, .flags = flags};
    runs = 0;
    uint32_t op = define(SCHEMA);
    cr_assert_eq(tn_kernels_add(ctx, "reference", NULL, &row, 1), TN_OK);
    return CALL(op, tn_value_tensor(tn_full(s, TN_INTS(4), 2, .dtype = TN_FLOAT32, .device = device)));
}

/* ---- Memory -------------------------------------------------------------------------------------------------- */

static int32_t ask_for_memory(void *self, const tn_call *call)
{
    const tn_host *h = call->host;
    tn_memory_request r = {.size = sizeof r, .bytes = 64};
    tn_memory memory = {.size = sizeof memory};
    uint64_t freed = 7, native = 0;
    runs++;
    expect_refusal(h->workspace(call, NULL, &memory), TN_E_ARGUMENT, "tn_memory_request is NULL");
    expect_refusal(h->workspace(call, &r, NULL), TN_E_ARGUMENT, "tn_memory is NULL");
    expect_refusal(h->memory_alloc(h->context, call->device, NULL, &memory), TN_E_ARGUMENT,
                   "tn_memory_request is NULL");
    expect_refusal(h->memory_alloc(h->context, call->device, &r, NULL), TN_E_ARGUMENT, "tn_memory is NULL");
    expect_refusal(h->memory_alloc(h->context, &runs, &r, &memory), TN_E_DEVICE,
                   "memory_alloc: the handle is not that of an open device");
    expect_refusal(h->reclaim(h->context, &runs, &freed), TN_E_DEVICE,
                   "reclaim: the handle is not that of an open device");
    r.kind = TN_MEMORY_HOST;
    expect_refusal(h->workspace(call, &r, &memory), TN_E_UNSUPPORTED, "workspace: memory of kind 2 (tensors");
    r.kind = 0;
    r.stream = &runs;
    expect_refusal(h->memory_alloc(h->context, call->device, &r, &memory), TN_E_ARGUMENT,
                   "memory_alloc: the stream is not one of this device");
    r.stream = call->stream;
    cr_expect_eq(h->memory_alloc(h->context, call->device, &r, &memory), TN_OK);
    cr_expect_eq(memory.bytes, 64);
    h->memory_free(h->context, call->device, &memory);
    h->memory_free(h->context, call->device, NULL);
    memory.state = NULL;
    h->memory_free(h->context, call->device, &memory);
    r.kind = memory.kind; /* that of tensors, by name */
    cr_expect_eq(h->workspace(call, &r, &memory), TN_OK);
    cr_expect_eq(h->native(call, TN_NATIVE_ALLOCATION, memory.allocation, &native), TN_OK);
    cr_expect_neq(native, 0);
    r.bytes = UINT64_MAX / 2;
    cr_expect_eq(h->workspace(call, &r, &memory), TN_E_OUT_OF_MEMORY);
    cr_expect_eq(h->memory_alloc(h->context, call->device, &r, &memory), TN_E_OUT_OF_MEMORY);
    return TN_OK;
}

Test(host_requests, memory)
{
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_stream *stream = NULL, *other = NULL;
    cr_assert_eq(tn_stream_create(ctx, device, 0, &stream), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &other), TN_OK);
    cr_assert_eq(tn_stream_set_current(ctx, stream), TN_OK);
    tn_memory_get_stats(ctx, device, &before);
    tn_stream_release(other); /* its handle is not one of a stream of the device any more */
    cr_expect_not_null(ask_with(ask_for_memory, 0));
    cr_expect_eq(runs, 1);
    tn_device_synchronize(ctx, device);
    tn_memory_get_stats(ctx, device, &after);
    cr_expect_leq(after.allocated_bytes, before.allocated_bytes + 2 * 4096, "more than two tensors: %llu",
                  (unsigned long long)(after.allocated_bytes - before.allocated_bytes));
    tn_stream_set_current(ctx, tn_stream_default(ctx, device));
    tn_stream_release(stream);
}

/* ---- Other slots --------------------------------------------------------------------------------------------- */

static void forget(void *pointer) {}

static int32_t ask_for_the_rest(void *self, const tn_call *call)
{
    const tn_host *h = call->host;
    const int64_t sizes[] = {2}, huge[] = {INT64_MAX / 8, 64}, many[] = {INT64_C(1) << 58};
    const tn_output output = {.size = sizeof output, .dtype = TN_FLOAT32, .rank = 1, .sizes = sizes};
    tn_storage_facts facts = {.size = sizeof facts};
    uint64_t native = 0;
    runs++;
    expect_refusal(h->native(NULL, TN_NATIVE_STREAM, NULL, &native), TN_E_CONTRACT, "no call was given");
    expect_refusal(h->native(call, TN_NATIVE_ALLOCATION, NULL, &native), TN_E_ARGUMENT,
                   "native: no allocation was given");
    expect_refusal(h->native(call, 9, NULL, &native), TN_E_ARGUMENT,
                   "native: there is no kind 9 of native handles");
    cr_expect_eq(h->native(call, TN_NATIVE_STREAM, NULL, &native), TN_OK);
    cr_expect_eq(native, (uint64_t)(uintptr_t)call->stream);
    expect_refusal(h->storage(NULL, call->args[0].as.tensor, &facts), TN_E_CONTRACT, "no call was given");
    expect_refusal(h->storage(call, NULL, &facts), TN_E_ARGUMENT, "storage: no tensor was given");
    expect_refusal(h->define_output(call, 0, &output), TN_E_CONTRACT,
                   "define_output: only shape rules may call it");
    expect_refusal(h->set_output(call, 0, call->args[0].as.tensor), TN_E_CONTRACT,
                   "set_output: only composites and gradients may call it");
    expect_refusal(h->keep_alive(call, &runs, NULL), TN_E_STATE, "keep_alive: release is NULL");
    expect_refusal(h->resize_output(call, 0, 2, huge), TN_E_SHAPE, "");
    cr_expect_eq(h->resize_output(call, 0, 1, many), TN_E_OUT_OF_MEMORY);
    cr_expect_eq(h->find_operator(h->context, "aten::relu"), TN_OP_RELU);
    expect_refusal(h->unregister_kernels(h->context, NULL, NULL), TN_E_NOT_FOUND, "device type \"NULL\"");
    expect_refusal(h->unregister_kernels(h->context, "nowhere", (const tn_kernel_row *)&runs), TN_E_NOT_FOUND,
                   "device type \"nowhere\"");
    cr_expect_eq(h->keep_alive(call, &runs, forget), TN_OK);
    cr_expect_eq(tn_tensor_numel(call->outs[0].as.tensor), 4, "what was refused changed nothing");
    return TN_OK;
}

Test(host_requests, slots_of_a_kernel)
{
    cr_expect_not_null(ask_with(ask_for_the_rest, 0));
    cr_expect_eq(runs, 1);
}

/* The same for a kernel that has a scope: it is a kernel all the same. */
Test(host_requests, slots_of_a_kernel_with_a_scope)
{
    cr_expect_not_null(ask_with(ask_for_the_rest, TN_ROW_SCOPE));
    cr_expect_eq(runs, 1);
}

static int32_t fail_on_the_scope(void *self, const tn_call *call)
{
    tn_scope *own = call->host->call_scope(call);
    tn_reshape(own, call->args[0].as.tensor, TN_INTS(3));
    return TN_OK;
}

Test(host_requests, the_scope_of_a_kernel_has_failed)
{
    cr_expect_null(ask_with(fail_on_the_scope, TN_ROW_SCOPE));
    expect_failure(TN_E_SHAPE, "shape '[3]' is invalid for input of size 4");
}

/* As the typed calls of a plugin do it. */
static int32_t call_an_operator(void *self, const tn_call *call)
{
    tn_scope *own = call->host->call_scope(call);
    tn_value out = tn_value_int(1);
    cr_expect_eq(call->host->call_scope(call), own);
    runs++;
    if (self) cr_expect_eq(slot_infer_like_first(NULL, call), TN_OK);
    cr_expect_eq(TN_SCOPE_HOST(own)->scope_call(own, TN_OP_RELU, call->args, 1, &out, 1), TN_E_CONTRACT);
    cr_expect_eq(out.tag, TN_TAG_NONE);
    cr_expect_eq(TN_SCOPE_HOST(own)->scope_failed(own), TN_E_CONTRACT);
    cr_expect_null(TN_SCOPE_HOST(own)->scope_memory(own, 8));
    TN_SCOPE_HOST(own)->drop(own, call->args[0].as.tensor);
    cr_expect_eq(tn_scope_close(own), TN_E_CONTRACT);
    return TN_OK;
}

static int32_t ask_for_a_scope(void *self, const tn_call *call)
{
    runs++;
    cr_expect_not_null(call->host->call_scope(call));
    return self ? slot_infer_like_first(NULL, call) : TN_OK;
}

/* The call fails, whatever the kernel makes of the failure. One that asks for a scope and calls nothing does not. */
Test(host_requests, kernels_without_a_scope_that_call_operators)
{
    cr_expect_null(ask_with(call_an_operator, 0));
    cr_expect_eq(runs, 1);
    expect_failure(TN_E_CONTRACT,
                   "asks: the kernel calls an operator, and its row does not have the flag TN_ROW_SCOPE");
    cr_assert_eq(tn_namespace_remove(ctx, "test"), TN_OK);
    cr_expect_not_null(ask_with(ask_for_a_scope, 0));
    cr_expect_eq(runs, 1);
}

Test(host_requests, shape_rules_that_call_operators)
{
    tn_kernel_fn rules[] = {call_an_operator, ask_for_a_scope};
    add_row("cpu", SCHEMA, 0, do_nothing, NULL);
    for (int i = 0; i < 2; i++) {
        uint32_t op = define_with(&(tn_operator_def){
            .size = sizeof(tn_operator_def), .schema = SCHEMA, .infer = rules[i], .self = &runs});
        runs = 0;
        tn_tensor *y = CALL(op, tn_value_tensor(tn_ones(s, TN_INTS(2))));
        cr_expect_eq(runs, 1);
        cr_expect_eq(y == NULL, i == 0);
        if (!y)
            expect_failure(TN_E_CONTRACT,
                           "asks: the shape rule calls an operator (expected only define_output)");
        cr_assert_eq(tn_namespace_remove(ctx, "test"), TN_OK);
        add_row("cpu", SCHEMA, 0, do_nothing, NULL);
    }
}

/* ---- Strides of a shape rule ---- */

static tn_output strided;

static int32_t give_strided(void *self, const tn_call *call)
{
    return call->host->define_output(call, 0, &strided);
}

Test(host_requests, strides_by_which_elements_share_memory)
{
    static const struct {
        uint32_t rank;
        int64_t sizes[3], strides[3];
        const char *text; /* NULL: good */
    } cases[] = {
        {2, {2, 3}, {0, 0}, "output 0 of sizes [2, 3] the strides [0, 0], by which elements share memory"},
        {2, {2, 3}, {0, 1}, "the strides [0, 1]"},
        {2, {2, 3}, {2, 1}, "the strides [2, 1]"},
        {3, {2, 2, 2}, {3, 4, 7}, "the strides [3, 4, 7]"},
        {1, {2}, {-1}, "the stride -1"},
        {2, {2, 3}, {3, 1}, NULL},
        {2, {2, 3}, {1, 2}, NULL},
        {2, {2, 3}, {8, 2}, NULL},
        {3, {1, 2, 1}, {0, 1, 0}, NULL},
        {2, {0, 3}, {0, 0}, NULL},
        {0, {0}, {0}, NULL},
    };
    const uint32_t op = define_with(
        &(tn_operator_def){.size = sizeof(tn_operator_def), .schema = SCHEMA, .infer = give_strided});
    add_row("cpu", SCHEMA, 0, do_nothing, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        strided = (tn_output){.size = sizeof strided,
                              .dtype = TN_FLOAT32,
                              .rank = cases[i].rank,
                              .sizes = cases[i].sizes,
                              .strides = cases[i].strides};
        tn_tensor *y = CALL(op, tn_value_tensor(tn_ones(s, TN_INTS(2))));
        cr_expect_eq(y != NULL, cases[i].text == NULL, "%zu", i);
        if (!y) expect_failure(TN_E_CONTRACT, cases[i].text ? cases[i].text : "");
        for (uint32_t d = 0; y && d < cases[i].rank; d++)
            cr_expect_eq(tn_tensor_strides(y)[d], cases[i].strides[d], "%zu", i);
    }
}

static int32_t wrong_rule(void *self, const tn_call *call)
{
    const int64_t sizes[] = {2, 2}, strides[] = {2, -1};
    const tn_output output = {
        .size = sizeof output, .dtype = TN_FLOAT32, .rank = 2, .sizes = sizes, .strides = strides};
    uint64_t native = 0;
    runs++;
    expect_refusal(call->host->define_output(call, 0, NULL), TN_E_ARGUMENT, "tn_output is NULL");
    const tn_output deep = {.size = sizeof deep,
                            .dtype = TN_FLOAT32,
                            .rank = TN_MAX_RANK + 1,
                            .sizes = sizes},
                    bare = {.size = sizeof bare, .dtype = TN_FLOAT32, .rank = 1},
                    negative = {.size = sizeof negative, .dtype = TN_FLOAT32, .rank = 2, .sizes = strides};
    expect_refusal(call->host->define_output(call, 1, &output), TN_E_CONTRACT,
                   "define_output: there is no output 1 (test::asks has 1 result)");
    expect_refusal(call->host->define_output(call, 0, &deep), TN_E_CONTRACT,
                   "asks: the shape rule defined output 0 of rank 65");
    expect_refusal(call->host->define_output(call, 0, &bare), TN_E_CONTRACT,
                   "asks: the shape rule defined output 0 of rank 1");
    expect_refusal(call->host->define_output(call, 0, &negative), TN_E_CONTRACT,
                   "asks: the shape rule gave output 0 the size -1 in dimension 1");
    expect_refusal(call->host->native(call, TN_NATIVE_STREAM, NULL, &native), TN_E_STATE,
                   "native: a shape rule or composite has no device");
    expect_refusal(call->host->keep_alive(call, &runs, forget), TN_E_STATE,
                   "keep_alive: only kernels may call it");
    return call->host->define_output(call, 0, &output);
}

Test(host_requests, slots_of_a_shape_rule)
{
    uint32_t op = define_with(
        &(tn_operator_def){.size = sizeof(tn_operator_def), .schema = SCHEMA, .infer = wrong_rule});
    cr_expect_null(CALL(op, tn_value_tensor(tn_ones(s, TN_INTS(2)))));
    expect_failure(TN_E_CONTRACT, "asks: the shape rule gave output 0 the stride -1");
    cr_expect_eq(runs, 1);
}

static int32_t composite_that_asks(void *self, const tn_call *call)
{
    tn_random_numbers numbers = {.size = sizeof numbers}, next = numbers;
    tn_generator *generator = tn_default_generator(ctx, TN_CPU);
    runs++;
    expect_refusal(call->host->random_reserve(call, NULL, 4, &numbers), TN_E_STATE,
                   "random_reserve: the call has neither a generator nor a device");
    cr_expect_eq(call->host->random_reserve(call, generator, 4, &numbers), TN_OK);
    cr_expect_eq(call->host->random_reserve(call, generator, 4, &next), TN_OK);
    cr_expect_eq(next.seed, numbers.seed);
    cr_expect_gt(next.offset, numbers.offset, "no number is drawn twice");
    expect_refusal(call->host->set_output(call, 1, call->args[0].as.tensor), TN_E_CONTRACT,
                   "set_output: there is no output 1");
    expect_refusal(call->host->keep_alive(call, &runs, forget), TN_E_STATE,
                   "keep_alive: only kernels may call it");
    return call->host->set_output(call, 0, call->args[0].as.tensor);
}

Test(host_requests, slots_of_a_composite)
{
    uint32_t op = define_with(&(tn_operator_def){
        .size = sizeof(tn_operator_def), .schema = SCHEMA, .composite = composite_that_asks});
    cr_expect_not_null(CALL(op, tn_value_tensor(tn_ones(s, TN_INTS(2)))));
    cr_expect_eq(runs, 1);
}

/* ---- Calls that are not the innermost ---------------------------------------------------------------------------- */

static const tn_call *outer_call;
static tn_call kept_call;
static tn_scope *outer_scope;

/* A kernel that asks for a call that it is inside of. */
static int32_t ask_for_the_outer(void *self, const tn_call *call)
{
    runs++;
    cr_expect_eq(call->host->call_scope(outer_call), outer_scope);
    cr_expect_neq(call->host->call_scope(call), outer_scope, "a kernel without TN_ROW_SCOPE may not use it");
    return TN_OK;
}

static int32_t composite_with_a_call(void *self, const tn_call *call)
{
    outer_call = call;
    kept_call = *call;
    outer_scope = call->host->call_scope(call);
    tn_value out = tn_value_none();
    int32_t status = tn_scope_call(outer_scope, tn_operator_find(ctx, "test::asks"), call->args, 1, &out, 1);
    return status ? status : call->host->set_output(call, 0, out.as.tensor);
}

Test(host_requests, calls_around_a_call_and_calls_that_are_over)
{
    uint32_t op = define_with(&(tn_operator_def){.size = sizeof(tn_operator_def),
                                                 .schema = "test::around(Tensor x) -> Tensor",
                                                 .composite = composite_with_a_call});
    define(SCHEMA);
    add_row("reference", SCHEMA, 0, ask_for_the_outer, NULL);
    runs = 0;
    tn_tensor *x = tn_full(s, TN_INTS(4), 2, .dtype = TN_FLOAT32, .device = device);
    cr_expect_not_null(CALL(op, tn_value_tensor(x)), "%s",
                       tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_expect_eq(runs, 1);
    cr_expect_not_null(outer_scope);
    const tn_host *h = kept_call.host;
    uint64_t native = 0;
    expect_refusal(h->native(&kept_call, TN_NATIVE_STREAM, NULL, &native), TN_E_CONTRACT,
                   "native: the call is over, or runs on another thread");
    cr_expect_null(h->call_scope(&kept_call));
    expect_last_error(TN_E_CONTRACT, "call_scope: the call is over");
    h->work_queued(&kept_call); /* has no status: the error says it */
    expect_last_error(TN_E_CONTRACT, "work_queued: the call is over");
}

static int32_t negative_status(void *self, const tn_call *call)
{
    return -3;
}

static int32_t large_status(void *self, const tn_call *call)
{
    return 9999;
}

Test(host_requests, kernels_that_return_no_status)
{
    cr_expect_null(ask_with(negative_status, 0));
    expect_failure(TN_E_CONTRACT, "returned -3, not a valid status code");
}

Test(host_requests, kernels_that_return_an_unknown_status)
{
    cr_expect_null(ask_with(large_status, 0));
    expect_failure(TN_E_CONTRACT, "returned 9999, not a valid status code");
}

/* ---- Captures ------------------------------------------------------------------------------------------------ */

static int32_t draw(void *self, const tn_call *call)
{
    tn_random_numbers numbers = {.size = sizeof numbers};
    int32_t status = call->host->random_reserve(call, NULL, 4, &numbers);
    if (!status) runs = numbers.state ? 2 : 1;
    return status;
}

static int32_t keep(void *self, const tn_call *call)
{
    return call->host->keep_alive(call, &runs, forget);
}

static int32_t out_of_memory(void *self, const tn_call *call)
{
    runs++;
    return call->host->error(call->host->context, TN_E_OUT_OF_MEMORY, "no memory");
}

static int32_t launch(void *self, const tn_call *call)
{
    runs++;
    return TN_OK;
}

/* The status of test::asks with the kernel while a stream captures. */
static tn_tensor *ask_while_capturing(tn_kernel_fn kernel, uint32_t flags)
{
    tn_stream *stream = NULL, *home = tn_stream_default(ctx, device);
    tn_graph *graph = NULL;
    cr_assert_eq(tn_stream_create(ctx, device, 0, &stream), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, device, &graph), TN_OK);
    const tn_kernel_row row = {
        .size = sizeof row, .strides = TN_STRIDES_ANY, .schema = SCHEMA, .run = kernel, .flags = flags};
    uint32_t op = define(SCHEMA);
    tn_tensor *x = tn_full(s, TN_INTS(4), 2, .dtype = TN_FLOAT32, .device = device);
    cr_assert_eq(tn_kernels_add(ctx, "reference", NULL, &row, 1), TN_OK);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    cr_assert_eq(tn_stream_set_current(ctx, stream), TN_OK);
    cr_assert_eq(tn_graph_capture_begin(graph, stream), TN_OK);
    runs = 0;
    tn_tensor *y = CALL(op, tn_value_tensor(x));
    (void)tn_graph_capture_end(graph);
    cr_assert_eq(tn_stream_set_current(ctx, home), TN_OK);
    tn_graph_release(graph);
    tn_stream_release(stream);
    return y;
}

Test(host_requests, random_numbers_in_a_capture)
{
    cr_expect_null(ask_while_capturing(draw, 0));
    expect_failure(TN_E_STATE, "whose kernel cannot draw other random numbers in each replay");
    cr_expect_eq(runs, 0);
}

Test(host_requests, a_kernel_that_reads_the_state_draws_in_a_capture)
{
    cr_expect_not_null(ask_while_capturing(draw, TN_ROW_RANDOM_STATE));
    cr_expect_eq(runs, 2, "it has the state that each replay advances");
}

Test(host_requests, what_a_kernel_keeps_in_a_capture)
{
    cr_expect_not_null(ask_while_capturing(keep, 0));
    cr_expect_eq(tn_scope_failed(s), TN_OK);
}

/* The caches stay as they are in a capture, so the kernel is not called again. */
Test(host_requests, a_kernel_without_memory_in_a_capture)
{
    cr_expect_null(ask_while_capturing(out_of_memory, 0));
    expect_failure(TN_E_OUT_OF_MEMORY, "no memory");
    cr_expect_eq(runs, 1);
}

Test(host_requests_alone, blocking_calls_do_not_wait_in_a_capture)
{
    setenv("TENON_BLOCKING", "1", 1);
    set_up();
    cr_expect_not_null(ask_while_capturing(launch, 0), "%s",
                       tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_expect_eq(runs, 1);
    tn_tensor *on_host = tn_add(s, tn_ones(s, TN_INTS(2)), tn_ones(s, TN_INTS(2)));
    cr_expect_eq(tn_item_double(s, tn_sum(s, on_host)), 4);
    tn_reshape(s, on_host, TN_INTS(7));
    expect_failure(TN_E_SHAPE, "invalid for input of size 2");
    close_context();
}

/* ---- Pinned results ---------------------------------------------------------------------------------------------- */

/* A copy to the host that need not wait goes to memory that the device can write meanwhile. */
Test(host_requests, copies_to_pinned_memory)
{
    tn_tensor *x = tn_full(s, TN_INTS(2, 3), 7, .dtype = TN_FLOAT32, .device = device);
    tn_tensor *soon = tn__to_copy(s, x, .device = TN_CPU, .non_blocking = 1);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    cr_expect_eq(tn_is_pinned(soon), 1);
    cr_expect_eq(tn_item_double(s, tn_sum(s, soon)), 42);
    tn_tensor *turned = tn__to_copy(s, tn_t(s, soon), .pin_memory = 1);
    cr_expect_eq(tn_is_pinned(turned), 1);
    cr_expect_eq(tn_item_double(s, tn_select(s, tn_select(s, turned, 0, 2), 0, 1)), 7);
    cr_expect_eq(tn_is_pinned(tn__to_copy(s, x, .device = TN_CPU)), 0);
    cr_expect_eq(tn_is_pinned(tn__to_copy(s, tn_ones(s, TN_INTS(2)), .dtype = TN_INT32, .non_blocking = 1)),
                 0);
    cr_expect_eq(tn_scope_failed(s), TN_OK);
}

/* ---- Limits of rows ------------------------------------------------------------------------------------------ */

static const char *which;

static int32_t note_row(void *self, const tn_call *call)
{
    which = call->data;
    return TN_OK;
}

/* Two rows of a built-in operator: one with limits, and one without that is tried after it. */
static void add_two(const char *schema, tn_kernel_row limited)
{
    const tn_kernel_row wide = {.size = sizeof wide,
                                .strides = TN_STRIDES_ANY,
                                .schema = schema,
                                .run = note_row,
                                .priority = 1000,
                                .data = "wide"};
    limited.size = sizeof limited;
    limited.strides = TN_STRIDES_ANY;
    limited.schema = schema;
    limited.run = note_row;
    limited.priority = 1001;
    limited.data = "narrow";
    cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &wide, 1), TN_OK);
    cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &limited, 1), TN_OK);
}

Test(host_requests, a_loop_nest_with_many_operands)
{
    tn_tensor *x = tn_ones(s, TN_INTS(3));
    add_two("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
            (tn_kernel_row){.max_operands = 2});
    add_two("aten::relu(Tensor self) -> Tensor", (tn_kernel_row){.max_operands = 2});
    tn_relu(s, x);
    cr_expect_str_eq(which, "narrow");
    tn_add(s, x, x);
    cr_expect_str_eq(which, "wide");
}

Test(host_requests, a_loop_nest_of_high_rank)
{
    tn_tensor *x = tn_ones(s, TN_INTS(3, 4, 5));
    add_two("aten::relu(Tensor self) -> Tensor", (tn_kernel_row){.max_rank = 1});
    tn_relu(s, x); /* contiguous: its dimensions become one */
    cr_expect_str_eq(which, "narrow");
    tn_relu(s, tn_slice(s, x, .dim = 1, .step = 2));
    cr_expect_str_eq(which, "wide");
}

Test(host_requests, a_loop_nest_with_far_elements)
{
    add_two("aten::relu(Tensor self) -> Tensor", (tn_kernel_row){.flags = TN_ROW_INDEX32});
    tn_relu(s, tn_ones(s, TN_INTS(100), .dtype = TN_UINT8));
    cr_expect_str_eq(which, "narrow");
    tn_relu(s, far_elements());
    cr_expect_str_eq(which, "wide");
    which = NULL; /* 2^31 elements in one byte; the kernel does not write the result */
    tn_relu(s, tn_expand(s, tn_ones(s, TN_INTS(1), .dtype = TN_UINT8), TN_INTS(INT64_C(1) << 31)));
    cr_expect_str_eq(which, "wide");
}

/* Without a loop nest the tensors count, those of lists too. */
Test(host_requests, lists_within_the_limits_of_a_row)
{
    static const char schema[] = "test::listed(Tensor x, Tensor?[] list) -> Tensor";
    tn_tensor *x = tn_ones(s, TN_INTS(3)), *square = tn_ones(s, TN_INTS(3, 3));
    tn_tensor *const flat[] = {x, NULL, x}, *const mixed[] = {x, NULL, square};
    uint32_t op = define(schema);
    add_two(schema, (tn_kernel_row){.max_rank = 1, .max_operands = 1, .flags = TN_ROW_INDEX32});
    CALL(op, tn_value_tensor(x), tn_value_tensors(flat, 3));
    cr_expect_str_eq(which, "narrow");
    CALL(op, tn_value_tensor(x), tn_value_tensors(mixed, 3));
    cr_expect_str_eq(which, "wide");
}
