/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 4, several devices of the plugin: copies and waits between them, streams of each, results that stay
 * where they were computed, gradients across. Graphs and collectives are in tier4_graph.c and
 * tier4_collectives.c.
 */
#include "sources.h"

#include <stdio.h>
#include <string.h>

#define N 20000

static tn_device device_at(const check_target *t, uint32_t i)
{
    return TN_DEVICE(TN_DEVICE_TYPE(t->device), i);
}

static const float *numbers(tn_scope *s, float first)
{
    float *data = tn_scope_memory(s, N * sizeof *data);
    for (int i = 0; data && i < N; i++) data[i] = first + (float)(i % 1000);
    return data;
}

static int holds(check_result *out, tn_scope *s, const char *what, const tn_tensor *x, const float *want)
{
    float *got = tn_scope_memory(s, N * sizeof *got);
    if (!x || !got || tn_to_host(s, x, got, N * sizeof *got)) {
        check_fail_with_error(out, s, what);
        return 0;
    }
    for (int i = 0; i < N; i++) {
        if (got[i] != want[i])
            return check_that(out, 0, "%s: element %d is %g, expected %g", what, i, (double)got[i],
                              (double)want[i]);
    }
    return 1;
}

/* Copies from each device to each other one and back. */
static void run_copies(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    for (uint32_t from = 0; from < t->device_count; from++) {
        for (uint32_t to = 0; to < t->device_count && out->outcome == CHECK_PASSED; to++) {
            char what[64];
            const float *data = numbers(s, (float)(from * 16 + to));
            if (from == to) continue;
            snprintf(what, sizeof what, "from device %u to device %u", from, to);
            tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(N), data, device_at(t, from));
            tn_tensor *y = tn__to_copy(s, x, .device = device_at(t, to));
            check_that(out, !y || tn_tensor_device(y) == device_at(t, to),
                       "%s: the copy is on another device", what);
            holds(out, s, what, y, data);
            holds(out, s, "the source, afterwards", x, data);
        }
    }
    tn_scope_close(s);
}

/* The same arithmetic on all devices at the same time. */
static void run_arithmetic(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    tn_tensor *sums[16];
    const float *data = numbers(s, 1);
    float *want = tn_scope_memory(s, N * sizeof *want);
    uint32_t count = t->device_count < 16 ? t->device_count : 16;
    for (int i = 0; i < N; i++) want[i] = data[i] * 4;
    for (uint32_t i = 0; i < count; i++) {
        sums[i] = tn_from_data(s, TN_FLOAT32, TN_INTS(N), data, device_at(t, i));
        for (int k = 0; k < 2; k++) sums[i] = tn_add(s, sums[i], sums[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        char what[32];
        snprintf(what, sizeof what, "device %u", i);
        if (!holds(out, s, what, sums[i], want)) break;
    }
    tn_scope_close(s);
}

/* Operands on two devices are an error that names both, not a wrong number. */
static void run_mixed(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    const float *data = numbers(s, 1);
    tn_tensor *a = tn_from_data(s, TN_FLOAT32, TN_INTS(N), data, device_at(t, 0)),
              *b = tn_from_data(s, TN_FLOAT32, TN_INTS(N), data, device_at(t, 1));
    check_that(out, a && b && !tn_add(s, a, b), "tensors of two devices were added");
    tn_scope_close(s);
    t->error_line[0] = 0;
}

/* A stream of device 1 waits for an event of device 0. */
static void run_events(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    tn_event *event = NULL;
    tn_stream *first = tn_stream_current(t->ctx, device_at(t, 0)),
              *second = tn_stream_current(t->ctx, device_at(t, 1));
    const float *data = numbers(s, 3);
    if (tn_event_create(t->ctx, device_at(t, 0), 0, &event)) check_fail_with_error(out, NULL, "event create");
    for (int round = 0; event && round < 10 && out->outcome == CHECK_PASSED; round++) {
        tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(N), data, device_at(t, 0));
        if (tn_event_record(event, first)) check_fail_with_error(out, NULL, "record");
        if (tn_stream_wait_event(second, event))
            check_fail_with_error(out, NULL, "wait_event of another device");
        holds(out, s, "behind the event", tn__to_copy(s, x, .device = device_at(t, 1)), data);
    }
    tn_event_release(event);
    tn_scope_close(s);
}

/* Gradients cross from one device to the other. */
static void run_backward(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    const float *data = numbers(s, 1);
    float *want = tn_scope_memory(s, N * sizeof *want);
    for (int i = 0; i < N; i++) want[i] = 2 * data[i];
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(N), data, device_at(t, 0));
    if (x) tn_set_requires_grad(x, 1);
    tn_tensor *y = tn_to_device(s, x, device_at(t, 1), TN_FLOAT32);
    tn_backward(s, tn_sum(s, tn_mul(s, y, y)));
    tn_tensor *grad = x && !tn_scope_failed(s) ? tn_grad_of(s, x) : NULL;
    check_that(out, !grad || tn_tensor_device(grad) == device_at(t, 0), "the gradient is on another device");
    holds(out, s, "the gradient", grad, want);
    tn_scope_close(s);
}

/* A stream on each device, all busy at once; each gets its own numbers back. */
static void run_streams(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    tn_stream *streams[16] = {NULL};
    tn_tensor *x[16];
    uint32_t count = t->device_count < 16 ? t->device_count : 16;
    for (uint32_t i = 0; i < count; i++) {
        if (tn_stream_create(t->ctx, device_at(t, i), t->facts.priority_low, &streams[i]) ||
            tn_stream_set_current(t->ctx, streams[i]))
            check_fail_with_error(out, NULL, "a stream for each device");
        x[i] = tn_full(s, TN_INTS(N), i + 1.0, .dtype = TN_FLOAT32, .device = device_at(t, i));
    }
    for (int round = 0; round < 10; round++) {
        for (uint32_t i = 0; i < count; i++) x[i] = tn_add_scalar(s, x[i], i + 1.0);
    }
    for (uint32_t i = count; i-- > 0 && out->outcome == CHECK_PASSED;) {
        char what[32];
        float *want = tn_scope_memory(s, N * sizeof *want);
        for (int k = 0; want && k < N; k++) want[k] = 11.0f * (float)(i + 1);
        snprintf(what, sizeof what, "a stream of device %u", i);
        holds(out, s, what, x[i], want);
    }
    for (uint32_t i = 0; i < count; i++)
        tn_stream_set_current(t->ctx, tn_stream_default(t->ctx, device_at(t, i)));
    tn_scope_close(s);
    for (uint32_t i = 0; i < count; i++) tn_stream_release(streams[i]);
}

/* Results of tensors on device i are on device i, whichever device is current. */
static void run_placement(check_target *t, const check_case *c, check_result *out)
{
    tn_scope *s = tn_scope_open(t->ctx);
    const float *data = numbers(s, 1);
    for (uint32_t i = 0; i < t->device_count && out->outcome == CHECK_PASSED; i++) {
        tn_device_set_current(t->ctx, device_at(t, (i + 1) % t->device_count));
        tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(N), data, device_at(t, i));
        tn_tensor *made[] = {x,
                             tn_mul(s, x, x),
                             tn_sum(s, x),
                             tn_cumsum(s, x, 0),
                             tn_zeros_like(s, x),
                             tn_narrow(s, x, 0, 5, 10),
                             tn__to_copy(s, x, .dtype = TN_INT32)};
        for (size_t k = 0; k < sizeof made / sizeof *made; k++)
            check_that(out, !made[k] || tn_tensor_device(made[k]) == device_at(t, i),
                       "result %zu of a tensor on device %u is on another device", k, i);
        holds(out, s, "the tensor itself", x, data);
    }
    tn_device_set_current(t->ctx, device_at(t, 0));
    if (tn_scope_failed(s)) check_fail_with_error(out, s, "operators on each device");
    tn_scope_close(s);
}

/* A plugin that ignores the index has one device under two names, on which all other cases pass. */
static void run_native(check_target *t, const check_case *c, check_result *out)
{
    uint64_t first, other;
    if (tn_device_native(t->ctx, device_at(t, 0), TN_NATIVE_DEVICE, &first)) {
        check_skip(out, "the plugin has no native handles of devices");
        return;
    }
    for (uint32_t i = 1; i < t->device_count; i++) {
        if (tn_device_native(t->ctx, device_at(t, i), TN_NATIVE_DEVICE, &other))
            check_fail_with_error(out, NULL, "device.native");
        else
            check_that(out, other != first, "device %u has the native handle of device 0, 0x%llx", i,
                       (unsigned long long)first);
    }
}

static const struct {
    const char *name;
    check_fn run;
} cases[] = {{"copies", run_copies},      {"arithmetic", run_arithmetic}, {"mixed-arguments", run_mixed},
             {"events", run_events},      {"streams", run_streams},       {"placement", run_placement},
             {"gradients", run_backward}, {"native", run_native}};

static void run_several(check_target *t, const check_case *c, check_result *out)
{
    check_watch watch;
    check_watch_begin(t, &watch);
    cases[c->number].run(t, c, out);
    out->way = check_watch_end(t, &watch);
    if (out->way == CHECK_WAY_CPU) check_absent(out, "the CPU answers for %s", watch.fallbacks);
}

static void run_one_device(check_target *t, const check_case *c, check_result *out)
{
    check_skip(out, "the plugin has one device here");
}

void check_tier4(check_target *t, check_list *list)
{
    int several = t->device_count > 1 && TN_DEVICE_TYPE(t->device) != TN_INTERNED_CPU;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_add(
            list,
            &(check_case){.tier = 4, .run = several ? run_several : run_one_device, .number = (int64_t)i},
            "4/devices/%s", cases[i].name);
}
