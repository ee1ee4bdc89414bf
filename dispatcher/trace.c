/* SPDX-License-Identifier: Apache-2.0 */
/* Call traces: the layer that records calls, the life of a trace, and running it again. */
#include <stdio.h>
#include <string.h>
#include "core/scope.h"
#include "core/thread.h"
#include "dispatcher/rooms.h"
#include "dispatcher/trace.h"

static void give_up(tn_call_trace *trace, int32_t status)
{
    if (trace->status) return;
    trace->status = status;
    snprintf(trace->reason, sizeof trace->reason, "%s",
             tn_last_error() ? tn_last_error()->message : "trace: failed");
}

/* Records the call, not the calls that it makes. */
static int32_t trace_layer(tni_frame *f)
{
    uint32_t excluded = tni_tls.excluded_layers;
    if (tni_tls.trace->ctx != f->ctx) return tni_next(f); /* the trace is of another context */
    tni_tls.excluded_layers = excluded | TNI_LAYER_BIT(TNI_LAYER_TRACE);
    int32_t status = tni_next(f);
    tni_tls.excluded_layers = excluded;
    if (!status) {
        int32_t written = tni_trace_append(tni_tls.trace, f);
        if (written) give_up(tni_tls.trace, written);
    }
    return status;
}

int32_t tni_trace_init(tn_context *ctx, const tn_context_options *options)
{
    (void)options;
    tni_layer_set(ctx, TNI_LAYER_TRACE, trace_layer, 0);
    return TN_OK;
}

/* ---- Life ---- */

tn_call_trace *tn_call_trace_begin(tn_context *ctx, tn_tensors inputs)
{
    if (tni_context_check(ctx)) return NULL;
    if (tni_tls.trace) {
        tni_error(TN_E_STATE, "call_trace_begin: this thread already records a trace");
        return NULL;
    }
    tn_call_trace *trace = tni_alloc_zeroed(ctx, sizeof *trace);
    if (!trace) return NULL;
    trace->ctx = ctx;
    tni_handle_made(ctx, trace, "call trace");
    trace->n_inputs = (uint32_t)inputs.count;
    for (uint32_t i = 0; i < trace->n_inputs; i++) {
        int64_t number = inputs.data[i] ? tni_trace_number(trace, inputs.data[i], 0) : -1;
        if (number == i) continue;
        if (!inputs.data[i] || number >= 0)
            tni_error(TN_E_ARGUMENT, "call_trace_begin: input %u is %s", i,
                      inputs.data[i] ? "given twice" : "NULL");
        tn_call_trace_release(trace);
        return NULL;
    }
    tni_tls.trace = trace;
    return trace;
}

static int32_t take_outputs(tn_call_trace *trace, tn_tensors outputs)
{
    for (int64_t i = 0; i < outputs.count; i++) {
        uint32_t *place = tni_vector_push(trace->ctx, &trace->outputs, sizeof *place);
        if (!place) return TN_E_OUT_OF_MEMORY;
        if (!outputs.data[i])
            return tni_error(TN_E_ARGUMENT, "call_trace_end: output %lld is NULL", (long long)i);
        int64_t number = tni_trace_number(trace, outputs.data[i], 1);
        if (number < 0) return TN_E_OUT_OF_MEMORY;
        *place = (uint32_t)number;
        ((tni_trace_value *)trace->values.data)[number].last_use = UINT32_MAX;
    }
    return TN_OK;
}

int32_t tn_call_trace_end(tn_call_trace *trace, tn_tensors outputs)
{
    if (!trace || tni_tls.trace != trace)
        return tni_error(TN_E_STATE, "call_trace_end: this thread does not record this trace");
    tni_tls.trace = NULL;
    if (!trace->status) {
        int32_t status = take_outputs(trace, outputs);
        if (status) give_up(trace, status);
    }
    tni_trace_value *values = trace->values.data;
    for (uint32_t i = 0; i < trace->values.count; i++) {
        if (values[i].is_constant) continue;
        tn_release(values[i].tensor);
        values[i].tensor = NULL;
    }
    tni_pointer_map_finish(trace->ctx, &trace->storages);
    return trace->status ? tni_error(trace->status, "%s", trace->reason) : TN_OK;
}

void tn_call_trace_release(tn_call_trace *trace)
{
    if (!trace) return;
    tn_context *ctx = trace->ctx;
    if (!tni_handle_may_end(ctx, &trace->life, "call trace", __builtin_return_address(0))) return;
    if (tni_tls.trace == trace) tni_tls.trace = NULL;
    for (uint32_t i = 0; i < trace->values.count; i++)
        tn_release(((tni_trace_value *)trace->values.data)[i].tensor);
    for (uint32_t i = 0; i < trace->steps.count; i++) {
        const tni_trace_op *step = (const tni_trace_op *)trace->steps.data + i;
        tni_free(ctx, step->block, step->block_bytes);
    }
    tni_vector_finish(ctx, &trace->values, sizeof(tni_trace_value));
    tni_vector_finish(ctx, &trace->steps, sizeof(tni_trace_op));
    tni_vector_finish(ctx, &trace->outputs, sizeof(uint32_t));
    tni_pointer_map_finish(ctx, &trace->storages);
    tni_handle_free(ctx, trace, sizeof *trace, &trace->life);
}

/* ---- Running ---- */

/* The tensors of a run by number. Each is referenced from its creation to its last use. */
typedef struct running {
    const tn_call_trace *trace;
    tn_tensor **values;
    tn_tensor **list; /* room for the tensor lists of one call */
} running;

/* The arguments of a step, with tensors for their numbers. */
static void fill_arguments(const running *run, const tni_trace_op *step, tn_value *args)
{
    tn_tensor **list = run->list;
    for (uint32_t i = 0; i < step->op->n_args; i++) {
        args[i] = step->args[i];
        if (args[i].tag == TN_TAG_TENSOR) args[i].as.tensor = run->values[step->args[i].as.i];
        if (args[i].tag != TN_TAG_TENSORS) continue;
        args[i].as.tensors = list;
        for (uint32_t k = 0; k < args[i].count; k++) {
            int64_t number = step->args[i].as.ints[k];
            *list++ = number < 0 ? NULL : run->values[number];
        }
    }
}

static void set(const running *run, uint32_t number, tn_tensor *t)
{
    if (number == UINT32_MAX || run->values[number] == t) return;
    tn_release(run->values[number]);
    run->values[number] = tn_retain(t);
}

static void take_results(const running *run, const tni_trace_op *step, const tn_value *outs)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < step->op->n_returns; i++) {
        if (outs[i].tag == TN_TAG_TENSOR) set(run, step->made[at++], outs[i].as.tensor);
        for (uint32_t k = 0; outs[i].tag == TN_TAG_TENSORS && k < outs[i].count; k++) {
            if (at < step->n_made) set(run, step->made[at++], outs[i].as.tensors[k]);
        }
    }
}

static void drop_unused(const running *run, const uint32_t *numbers, uint32_t n, uint32_t step)
{
    const tni_trace_value *values = run->trace->values.data;
    for (uint32_t i = 0; i < n; i++) {
        if (numbers[i] == UINT32_MAX || values[numbers[i]].last_use > step + 1 ||
            values[numbers[i]].is_constant)
            continue;
        tn_release(run->values[numbers[i]]);
        run->values[numbers[i]] = NULL;
    }
}

static int32_t run_step(const running *run, uint32_t i)
{
    const tni_trace_op *step = (const tni_trace_op *)run->trace->steps.data + i;
    tn_value args[TNI_MAX_ARGS], outs[TNI_MAX_OUTPUTS];
    fill_arguments(run, step, args);
    int32_t status = tni_call(run->trace->ctx, step->op, args, step->op->n_args, outs, step->op->n_returns);
    if (status) return status;
    take_results(run, step, outs);
    for (uint32_t k = 0; k < step->op->n_returns; k++) tni_value_release(run->trace->ctx, &outs[k]);
    drop_unused(run, step->used, step->n_used, i);
    drop_unused(run, step->made, step->n_made, i);
    return TN_OK;
}

static int32_t check_run(const tn_call_trace *trace, tn_tensors inputs)
{
    if (!trace || tni_tls.trace == trace)
        return tni_error(TN_E_STATE, "call_trace_run: the trace is NULL or not ended");
    if (trace->status) return tni_error(trace->status, "%s", trace->reason);
    if (inputs.count != trace->n_inputs)
        return tni_error(TN_E_ARGUMENT, "call_trace_run: got %lld inputs, expected %u",
                         (long long)inputs.count, trace->n_inputs);
    for (int64_t i = 0; i < inputs.count; i++) {
        if (!inputs.data[i])
            return tni_error(TN_E_ARGUMENT, "call_trace_run: input %lld is NULL", (long long)i);
    }
    return TN_OK;
}

static int32_t run_steps(tn_scope *s, const running *run, tn_tensors inputs, tn_tensor **outs)
{
    const tn_call_trace *trace = run->trace;
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < trace->values.count; i++) {
        const tni_trace_value *v = (const tni_trace_value *)trace->values.data + i;
        run->values[i] = i < trace->n_inputs ? tn_retain(inputs.data[i])
                         : v->is_constant    ? tn_retain(v->tensor)
                                             : NULL;
    }
    for (uint32_t i = 0; i < trace->steps.count && !status; i++) status = run_step(run, i);
    for (uint32_t i = 0; i < trace->outputs.count && !status; i++)
        outs[i] = tni_scope_own(s, tn_retain(run->values[((const uint32_t *)trace->outputs.data)[i]]));
    for (uint32_t i = 0; i < trace->values.count; i++) tn_release(run->values[i]);
    return status ? status : tn_scope_failed(s);
}

int32_t tn_call_trace_run(tn_scope *s, const tn_call_trace *trace, tn_tensors inputs, tn_tensor **outs)
{
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    int32_t status = check_run(trace, inputs);
    if (status) return tni_scope_record(s, status);
    uint64_t bytes = ((uint64_t)trace->values.count + trace->longest + 1) * sizeof(tn_tensor *);
    running run = {.trace = trace, .values = tni_alloc(trace->ctx, bytes)};
    if (!run.values) return tni_scope_record(s, TN_E_OUT_OF_MEMORY);
    run.list = run.values + trace->values.count;
    status = run_steps(s, &run, inputs, outs);
    tni_free(trace->ctx, run.values, bytes);
    return status ? tni_scope_record(s, status) : TN_OK;
}

/* ---- Reading ---- */

uint32_t tn_call_trace_count(const tn_call_trace *trace)
{
    return trace ? trace->steps.count : 0;
}

int32_t tn_call_trace_get(const tn_call_trace *trace, uint32_t i, tn_call_trace_step *out)
{
    if (!trace) return tni_error(TN_E_ARGUMENT, "call_trace_get: the trace is NULL");
    if (i >= trace->steps.count)
        return tni_error(TN_E_INDEX, "call_trace_get: there is no call %u (the trace has %u)", i,
                         trace->steps.count);
    const tni_trace_op *step = (const tni_trace_op *)trace->steps.data + i;
    const tn_call_trace_step known = {.op = step->op->number,
                                      .name = step->op->schema->full_name,
                                      .used = step->used,
                                      .made = step->made,
                                      .n_used = step->n_used,
                                      .n_made = step->n_made};
    return tni_struct_write(out, &known, sizeof known, "tn_call_trace_step");
}
