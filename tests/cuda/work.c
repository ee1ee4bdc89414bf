/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work of every kind on a device of CUDA or HIP, whatever fails: memory, streams, events, copies, fills, kernels, DLPack, a callback.
 * Prints each error as `STATUS MESSAGE`, then what the library for tests still has. faults.py looks at it.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <tenon/interop.h>
#include <tenon/tenon.h>
#include <unistd.h>
#include "../behaviour/dlpack.h"

#ifndef DEVICE
#define DEVICE  "cuda"
#define LIBRARY "libcuda.so.1"
#endif

#define COUNT 70000 /* enough for a dense kernel */

static tn_context *ctx;
static tn_device device, other;
static tn_scope *s;
static atomic_int queued, called;

static void report(int32_t status)
{
    if (status) printf("%d %s\n", status, tn_last_error()->message);
}

static void report_scope(void)
{
    if (tn_scope_failed(s)) printf("%d %s\n", tn_scope_failed(s), tn_scope_error(s)->message);
    tn_scope_clear(s);
}

/* Reads an element at least, so that queued work is waited for. */
static void expect(const tn_tensor *t, double value)
{
    static double values[COUNT];
    const tn_tensor *wide = t && !tn_scope_failed(s) ? tn_to(s, (tn_tensor *)t, TN_FLOAT64) : NULL;
    int32_t status = wide ? tn_to_host(s, wide, values, (uint64_t)tn_tensor_numel(wide) * sizeof *values) : 1;
    if (!status && values[0] != value) printf("wrong: %g, not %g\n", values[0], value);
    report_scope();
}

static void call(void *user)
{
    atomic_fetch_add(&called, 1);
}

static void use_kernels(void)
{
    tn_tensor *x = tn_full(s, TN_INTS(COUNT), tn_value_float(1.5), .dtype = TN_FLOAT32, .device = device);
    expect(tn_add(s, x, x), 3);
    expect(tn_sum(s, tn_narrow(s, x, 0, 0, 1000)), 1500);
    expect(tn_mm(s, tn_ones(s, TN_INTS(50, 60), .device = device),
                 tn_ones(s, TN_INTS(60, 40), .device = device)),
           60);
    for (int bytes = 0; bytes < 5; bytes++) {
        static const tn_dtype dtypes[] = {TN_INT8, TN_INT16, TN_INT32, TN_INT64, TN_FLOAT64};
        expect(tn_full(s, TN_INTS(300), tn_value_int(77), .dtype = dtypes[bytes], .device = device), 77);
    }
}

static void use_streams(void)
{
    tn_stream *side = NULL;
    tn_event *start = NULL, *stop = NULL;
    double ms = -1;
    report(tn_stream_create(ctx, device, -1, &side));
    report(tn_event_create(ctx, device, TN_EVENT_TIMING, &start));
    report(tn_event_create(ctx, device, TN_EVENT_TIMING, &stop));
    if (side && start && stop) {
        tn_stream *home = tn_stream_current(ctx, device);
        report(tn_event_record(start, home));
        tn_tensor *x = tn_full(s, TN_INTS(10), tn_value_float(2), .dtype = TN_FLOAT32, .device = device);
        tn_add_scalar_(s, x, 1.0);
        int32_t status = tn_stream_add_callback(home, call, NULL);
        report(status);
        queued += !status;
        status = tn_stream_wait_stream(side, home);
        report(status);
        if (status) report(tn_stream_synchronize(home)); /* so that x is whole all the same */
        tn_stream_set_current(ctx, side);
        tn_add_scalar_(s, x, 1.0);
        report_scope();
        report(tn_event_record(stop, side));
        int32_t done;
        while ((done = tn_event_query(stop)) == 0) continue;
        if (done != 1) report(done);
        while ((done = tn_stream_query(side)) == 0) continue;
        if (done != 1) report(done);
        report(tn_event_synchronize(stop));
        report(tn_event_elapsed(start, stop, &ms));
        expect(x, 4);
        tn_stream_set_current(ctx, home);
    }
    tn_event_release(start);
    tn_event_release(stop);
    tn_stream_release(side);
}

static void use_memory(void)
{
    uint64_t available, total;
    struct DLManagedTensorVersioned *capsule = NULL;
    tn_tensor *here =
        tn_full(s, TN_INTS(COUNT), tn_value_float(3), .dtype = TN_FLOAT32, .device = TN_CPU, .pin_memory = 1);
    report_scope();
    tn_tensor *there = here ? tn_to_device(s, here, device, TN_FLOAT32) : NULL;
    expect(there, 3);
    expect(there ? tn_clone(s, there) : NULL, 3);
    if (there) expect(tn_to_device(s, there, other, TN_FLOAT32), 3);
    if (there) report(tn_to_dlpack(there, &capsule));
    if (capsule) expect(tn_from_dlpack(s, capsule), 3);
    report(tn_device_memory(ctx, device, &available, &total));
    tn_memory_empty_cache(ctx, device);
}

/* A graph, its update to other numbers, and the two replays. */
static void use_graphs(void)
{
    tn_stream *home = tn_stream_current(ctx, device), *side = NULL;
    tn_graph *graphs[2] = {NULL, NULL};
    tn_tensor *x = tn_full(s, TN_INTS(10), tn_value_float(1), .dtype = TN_FLOAT32, .device = device);
    report_scope();
    report(tn_stream_create(ctx, device, 0, &side));
    for (int i = 0; i < 2; i++) report(tn_graph_create(ctx, device, &graphs[i]));
    double want = 1;
    for (int i = 0; i < 2 && x && side && graphs[i]; i++) {
        report(tn_stream_wait_stream(side, home));
        tn_stream_set_current(ctx, side);
        int32_t status = tn_graph_capture_begin(graphs[i], side);
        report(status);
        if (!status) {
            tn_add_scalar_(s, x, i ? 10.0 : 1.0);
            int32_t is_whole = !tn_scope_failed(s);
            report_scope();
            status = tn_graph_capture_end(graphs[i]);
            report(status);
            if (!status && !is_whole) status = TN_E_STATE;
        }
        tn_stream_set_current(ctx, home);
        if (!status && i) report(status = tn_graph_update(graphs[0], graphs[1]));
        if (!status) report(status = tn_graph_replay(graphs[0]));
        if (!status) want += i ? 10 : 1;
        expect(x, want);
        if (status) break; /* the second graph changes the first one */
    }
    for (int i = 0; i < 2; i++) tn_graph_release(graphs[i]);
    tn_stream_release(side);
}

/* What another process would open, opened here. */
static void use_sharing(void)
{
    tn_shared_tensor description = {.size = sizeof description};
    tn_process_handle handle = {.size = sizeof handle};
    tn_event *event = NULL, *same = NULL;
    tn_tensor *x = tn_full(s, TN_INTS(10), tn_value_float(5), .dtype = TN_FLOAT32, .device = device);
    report_scope();
    tn_tensor *whole = x ? tn_share(s, x) : NULL;
    report_scope();
    int32_t status = whole ? tn_share_export(whole, &description) : TN_E_STATE;
    if (whole) report(status);
    if (!status) {
        expect(tn_share_import(s, &description), 5);
        close(description.memory.file);
    }
    status = tn_event_create(ctx, device, TN_EVENT_INTERPROCESS, &event);
    report(status);
    if (!status) report(status = tn_event_record(event, tn_stream_current(ctx, device)));
    if (!status) report(status = tn_event_export(event, &handle));
    if (!status) report(status = tn_event_import(ctx, device, &handle, &same));
    if (!status) report(tn_event_synchronize(same));
    tn_event_release(same);
    tn_event_release(event);
}

int main(void)
{
    int32_t status = tn_context_create(NULL, &ctx);
    if (status) return 1;
    device = tn_device_parse(ctx, DEVICE ":0");
    other = tn_device_parse(ctx, DEVICE ":1");
    if (!device) {
        printf("no device\n");
        tn_context_destroy(ctx);
        return 0;
    }
    s = tn_scope_open(ctx);
    expect(tn_zeros(s, TN_INTS(2), .device = device), 0); /* opens the device */
    use_memory();
    use_kernels();
    use_streams();
    use_graphs();
    use_sharing();
    report(tn_device_synchronize(ctx, device));
    printf("status %d, other %d\n", tn_device_status(ctx, device), other ? tn_device_status(ctx, other) : 0);
    tn_tensor *on_cpu = tn_ones(s, TN_INTS(COUNT), .dtype = TN_FLOAT32);
    expect(tn_add(s, on_cpu, on_cpu), 2);
    tn_scope_close(s);
    tn_context_destroy(ctx);
    int (*live)(void);
    *(void **)(void *)&live = dlsym(dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD), "cuda_test_live");
    if (queued != called) printf("wrong: of %d callbacks %d were called\n", queued, called);
    printf("called %d, live %d\n", called, live ? live() : 0);
    return 0;
}
