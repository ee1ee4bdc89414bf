/* SPDX-License-Identifier: Apache-2.0 */
#include "scenarios.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/inspect.h>
#include <tenon/plugin.h>
#include <tenon/trace.h>
#include <unistd.h>

/* 0, 1, 2, ... as rows. */
static tn_tensor *numbers(tn_scope *s, tn_device d, int64_t rows, int64_t columns, tn_dtype dtype)
{
    return tn_reshape(s, tn_arange(s, rows * columns, .dtype = dtype, .device = d), TN_INTS(rows, columns));
}

/* Compares the sum of a tensor, which is small enough to be exact. */
static int has_sum(tn_scope *s, tn_tensor *t, double expected)
{
    double sum = t ? tn_item_double(s, tn_sum(s, tn__to_copy(s, t, .dtype = TN_FLOAT64))) : 0;
    if (!t || tn_scope_failed(s)) return 0;
    return sum == expected ? 1 : -1;
}

/* The worse of two results. */
static int both(int a, int b)
{
    return a < b ? a : b;
}

static int arithmetic(tn_scope *s, tn_device d)
{
    tn_tensor *a = numbers(s, d, 3, 4, TN_FLOAT32), *b = tn_t(s, numbers(s, d, 4, 3, TN_FLOAT32));
    tn_tensor *c = tn_add(s, tn_mul(s, a, b), tn_select(s, a, 0, 1));
    tn_tensor *mixed = tn_add(s, numbers(s, d, 2, 2, TN_INT32), tn_full(s, TN_INTS(2), 0.5, .device = d));
    return both(has_sum(s, c, 506), has_sum(s, mixed, 8));
}

static int products(tn_scope *s, tn_device d)
{
    tn_tensor *y =
        tn_softmax(s, tn_linear(s, numbers(s, d, 3, 4, TN_FLOAT32), numbers(s, d, 5, 4, TN_FLOAT32)), 1);
    return has_sum(s, tn_round(s, tn_sum(s, y)), 3);
}

static int indexing(tn_scope *s, tn_device d)
{
    tn_tensor *a = numbers(s, d, 4, 4, TN_FLOAT32), *mask = tn_gt_scalar(s, a, 9);
    tn_tensor *found = tn_nonzero(s, mask);
    tn_tensor *b = tn_masked_fill_scalar(s, a, mask, 1);
    int result = both(has_sum(s, tn_index(s, a, TN_BY(mask)), 75), has_sum(s, b, 45 + 6));
    return found && tn_tensor_sizes(found)[0] != 6 ? -1 : both(result, found != NULL);
}

static int gradient(tn_scope *s, tn_device d)
{
    tn_tensor *x = numbers(s, d, 2, 2, TN_FLOAT32);
    if (!x || tn_set_requires_grad(x, 1)) return 0;
    if (tn_backward(s, tn_sum(s, tn_mm(s, x, x)))) return 0;
    return has_sum(s, tn_grad_of(s, x),
                   24); /* of each element: the sums of its row's and its column's partners */
}

static int lists(tn_scope *s, tn_device d)
{
    tn_tensors parts = tn_split(s, numbers(s, d, 6, 2, TN_FLOAT32), 4);
    tn_tensor *joined = parts.count == 2 ? tn_cat(s, parts) : NULL;
    tn_tensor *mixed = parts.count == 2
                           ? tn_cat(s, TN_TENSORS(parts.data[0], tn_ones(s, TN_INTS(1, 2), .device = d)))
                           : NULL;
    const char *text = joined ? tn_format(s, joined, NULL) : "";
    if (*text && strncmp(text, "tensor([[ 0.,  1.],", 19) != 0) return -1;
    return both(*text != 0, has_sum(s, mixed, 30));
}

static int reductions(tn_scope *s, tn_device d)
{
    tn_tensor *a = numbers(s, d, 4, 6, TN_INT32), *none = tn_zeros(s, TN_INTS(0, 3), .device = d);
    int result = both(has_sum(s, tn_sum_dim(s, a, TN_INTS(1)), 276), has_sum(s, tn_prod(s, none), 1));
    result = both(result, has_sum(s, tn_sum_dim(s, none, TN_INTS(0)), 0));
    tn_tensor *given = tn_empty(s, TN_INTS(6), .dtype = TN_FLOAT32, .device = d);
    if (given) tn_sum_dim_out(s, a, TN_INTS(0), given, .dtype = TN_FLOAT32);
    result = both(result, has_sum(s, given, 276));
    return both(result, has_sum(s, tn_cumsum(s, a, 1), 896));
}

static int copies(tn_scope *s, tn_device d)
{
    double host[12], got[6];
    for (int i = 0; i < 12; i++) host[i] = i;
    tn_tensor *a = tn_from_data(s, TN_FLOAT64, TN_INTS(3, 4), host, d);
    tn_tensor *even = tn_slice(s, tn_t(s, a), 0, 0, 4, 2); /* columns 0 and 2: neither dense nor in order */
    tn_tensor *there = tn__to_copy(s, even, .device = d == TN_CPU ? TN_CPU : TN_DEVICE(TN_DEVICE_TYPE(d), 1));
    tn_tensor *here = tn__to_copy(s, there, .device = TN_CPU, .dtype = TN_FLOAT32);
    tn_tensor *filled = tn_zeros(s, TN_INTS(2, 3), .dtype = TN_INT16, .device = d);
    if (filled && even) tn_copy_(s, filled, even);
    if (!even || tn_to_host(s, even, got, sizeof got)) return 0;
    if (got[0] != 0 || got[1] != 4 || got[5] != 10) return -1;
    return both(has_sum(s, here, 30), has_sum(s, filled, 30));
}

/* Outputs that must grow, have another dtype, other strides, or overlap an input. */
static int given_outputs(tn_scope *s, tn_device d)
{
    tn_tensor *a = numbers(s, d, 3, 3, TN_FLOAT32), *grown = tn_empty(s, TN_INTS(0), .device = d);
    tn_tensor *wide = tn_empty(s, TN_INTS(3, 3), .dtype = TN_FLOAT64, .device = d);
    tn_tensor *turned = tn_t(s, tn_empty(s, TN_INTS(3, 3), .device = d));
    tn_tensor *line = tn_arange(s, 8, .dtype = TN_FLOAT32, .device = d);
    if (!a || !grown || !wide || !turned || !line) return 0;
    tn_add_out(s, a, a, grown);
    tn_add_out(s, a, a, wide);
    tn_mm_out(s, a, a, turned);
    tn_copy_(s, tn_slice(s, line, 0, 1, 8, 1), tn_slice(s, line, 0, 0, 7, 1)); /* 0 0 1 2 3 4 5 6 */
    int result = both(has_sum(s, grown, 72), has_sum(s, wide, 72));
    return both(both(result, has_sum(s, turned, 486)), has_sum(s, line, 21));
}

static int in_place(tn_scope *s, tn_device d)
{
    tn_tensor *a = numbers(s, d, 2, 4, TN_FLOAT32), *n = numbers(s, d, 2, 4, TN_INT32);
    if (!a || !n) return 0;
    tn_add_(s, tn_select(s, a, 0, 0), tn_select(s, a, 0, 1)); /* 4 6 8 10 | 4 5 6 7 */
    tn_mul_scalar_(s, tn_slice(s, a, 1, 0, 4, 2), 2);
    tn_add_(s, n, tn_ones(s, TN_INTS(4), .dtype = TN_INT32, .device = d));
    tn_index_put_(s, n, TN_TENSORS(tn_gt_scalar(s, n, 7)),
                  tn_zeros(s, TN_NO_INTS, .dtype = TN_INT32, .device = d));
    tn_resize_(s, a, TN_INTS(2, 2));
    return both(has_sum(s, a, 8 + 6 + 16 + 10), has_sum(s, n, 28));
}

static int sorting(tn_scope *s, tn_device d)
{
    tn_tensor *a = tn_neg(s, numbers(s, d, 3, 5, TN_FLOAT32));
    tn_sort_result sorted = tn_sort(s, a, .dim = 1);
    tn_topk_result most = tn_topk(s, a, 2);
    int result =
        both(has_sum(s, tn_select(s, sorted.values, 1, 0), -(4 + 9 + 14)), has_sum(s, sorted.indices, 30));
    return both(result, has_sum(s, most.values, -(0 + 1 + 5 + 6 + 10 + 11)));
}

static int networks(tn_scope *s, tn_device d)
{
    tn_tensor *x = tn_ones(s, TN_INTS(1, 2, 4, 4), .device = d),
              *w = tn_ones(s, TN_INTS(3, 2, 3, 3), .device = d);
    tn_tensor *last = tn_contiguous(s, x, .memory_format = TN_CHANNELS_LAST);
    tn_tensor *y = tn_conv2d(s, last, w, .padding = TN_INTS(1));
    tn_tensor *pooled = tn_max_pool2d(s, y, TN_INTS(2));
    /* Of the 16 places of a channel 4 see 4 ones, 8 see 6, 4 see 9, in both channels of x. */
    return both(has_sum(s, y, 3 * 2 * (16 + 48 + 36)), has_sum(s, pooled, 3 * 4 * 18));
}

static int complex_numbers(tn_scope *s, tn_device d)
{
    tn_tensor *pairs = numbers(s, d, 3, 2, TN_FLOAT32);
    tn_tensor *z = tn_view_as_complex(s, pairs), *c = tn_conj(s, z);
    tn_tensor *p = tn_mul(s, z, c), *parts = tn_view_as_real(s, tn_resolve_conj(s, c));
    return both(has_sum(s, tn_real(s, p), 55), has_sum(s, parts, 6 - 9));
}

static int random_numbers(tn_scope *s, tn_device d)
{
    tn_tensor *a, *b;
    tn_manual_seed(tn_scope_context(s), 7);
    a = tn_dropout(s, tn_rand(s, TN_INTS(64), .device = d), 0.5, 1);
    tn_manual_seed(tn_scope_context(s), 7);
    b = tn_dropout(s, tn_rand(s, TN_INTS(64), .device = d), 0.5, 1);
    return a && b ? has_sum(s, tn_ne(s, a, b), 0) : 0;
}

static int mixed_precision(tn_scope *s, tn_device d)
{
    const tn_scope_options options = {.size = sizeof options,
                                      .autocast = TN_SCOPE_AUTOCAST_ON,
                                      .autocast_device = d,
                                      .autocast_dtype = TN_BFLOAT16};
    tn_tensor *x = tn_ones(s, TN_INTS(2, 2), .device = d), *y = NULL;
    tn_scope *inner = x ? tn_scope_open_child(s, &options) : NULL;
    if (!inner) return 0;
    y = tn_cat(inner, TN_TENSORS(tn_mm(inner, x, x), x));
    if (y) y = tn_scope_return(inner, y);
    if (tn_scope_close(inner)) return 0;
    return has_sum(s, y, 12);
}

static int file(tn_scope *s, tn_device d)
{
    char path[] = P_tmpdir "/tenon-torture-XXXXXX";
    int fd = mkstemp(path), result = 0;
    tn_named_tensor one = {"x", numbers(s, d, 2, 3, TN_FLOAT32)};
    tn_safetensors *f = NULL;
    if (fd >= 0) close(fd);
    if (one.tensor && !tn_safetensors_save(s, path, &one, 1, NULL, 0) &&
        !tn_safetensors_open(tn_scope_context(s), path, &f))
        result = both(has_sum(s, tn_safetensors_get(s, f, "x", d), 15),
                      has_sum(s, tn_safetensors_map(s, f, "x"), 15));
    tn_safetensors_close(f);
    unlink(path);
    return result;
}

static int call_trace(tn_scope *s, tn_device d)
{
    tn_tensor *x = numbers(s, d, 2, 2, TN_FLOAT32), *y, *out = NULL;
    tn_call_trace *t = x ? tn_call_trace_begin(tn_scope_context(s), TN_TENSORS(x)) : NULL;
    if (!t) return 0;
    y = tn_cat(s, TN_TENSORS(tn_neg(s, x), tn_add_scalar(s, x, 2)));
    int32_t status = tn_call_trace_end(t, TN_TENSORS(y));
    if (!status) status = tn_call_trace_run(s, t, TN_TENSORS(x), &out);
    tn_call_trace_release(t);
    return status ? 0 : has_sum(s, out, 8);
}

static int share(tn_scope *s, tn_device d)
{
    struct DLManagedTensorVersioned *shared = NULL;
    tn_tensor *x = numbers(s, d, 2, 2, TN_FLOAT32), *back = NULL;
    if (!x || tn_to_dlpack(x, &shared)) return 0;
    back = tn_from_dlpack(s, shared);
    return has_sum(s, back, 6);
}

/* Two steps of a perceptron with one hidden layer; the loss after them, or NaN and a failed scope. */
static double train(tn_scope *s, tn_device d)
{
    tn_scope_options options = {.size = sizeof options, .device = d};
    tn_scope_options update = {.size = sizeof update, .device = d, .grad_mode = TN_GRAD_OFF};
    tn_scope *inner = tn_scope_open_child(s, &options);
    if (!inner) return NAN;
    tn_tensor *x = tn_reshape(inner, tn_arange(inner, 8, .dtype = TN_FLOAT32), TN_INTS(4, 2));
    tn_tensor *w[2] = {tn_full(inner, TN_INTS(3, 2), 0.125, .dtype = TN_FLOAT32),
                       tn_full(inner, TN_INTS(1, 3), 0.5, .dtype = TN_FLOAT32)};
    tn_tensor *y = tn_select(inner, x, 1, 1), *loss = NULL;
    for (int i = 0; i < 2 && w[i]; i++) tn_set_requires_grad(w[i], 1);
    for (int step = 0; step < 3; step++) {
        tn_tensor *h = tn_linear(inner, tn_tanh(inner, tn_linear(inner, x, w[0])), w[1]);
        loss = tn_mse_loss(inner, tn_squeeze_dim(inner, h, 1), y);
        if (step == 2 || tn_backward(inner, loss)) break;
        for (int i = 0; i < 2; i++) {
            tn_scope *u = tn_scope_open_child(inner, &update);
            tn_sub_(u, w[i], tn_mul_scalar(u, tn_grad_of(u, w[i]), 0.01));
            tn_scope_close(u);
            tn_set_grad(w[i], NULL);
        }
    }
    double value = tn_item_double(inner, loss);
    return tn_scope_close(inner) ? NAN : value;
}

/* The loss in plain arithmetic, in double. */
static double expected_loss(void)
{
    double w0[3][2], w1[3], loss = 0;
    for (int j = 0; j < 3; j++) w0[j][0] = w0[j][1] = 0.125, w1[j] = 0.5;
    for (int step = 0; step < 3; step++) {
        double g0[3][2] = {{0}}, g1[3] = {0};
        loss = 0;
        for (int i = 0; i < 4; i++) {
            double x[2] = {2 * i, 2 * i + 1}, h[3], y = 0;
            for (int j = 0; j < 3; j++) y += w1[j] * (h[j] = tanh(w0[j][0] * x[0] + w0[j][1] * x[1]));
            double e = y - x[1];
            loss += e * e / 4;
            for (int j = 0; j < 3; j++) {
                double g = e / 2 * w1[j] * (1 - h[j] * h[j]);
                g1[j] += e / 2 * h[j];
                g0[j][0] += g * x[0];
                g0[j][1] += g * x[1];
            }
        }
        for (int j = 0; j < 3 && step < 2; j++) {
            w1[j] -= 0.01 * g1[j];
            w0[j][0] -= 0.01 * g0[j][0];
            w0[j][1] -= 0.01 * g0[j][1];
        }
    }
    return loss;
}

static int training(tn_scope *s, tn_device d)
{
    double value = train(s, d);
    if (isnan(value)) return 0;
    return fabs(value - expected_loss()) <= 1e-5 ? 1 : -1;
}

/* ---- Streams ------------------------------------------------------------------------------------------- */

static int on_two_streams(tn_scope *s, tn_device d, tn_stream *a, tn_stream *b, tn_event *e)
{
    tn_context *ctx = tn_scope_context(s);
    if (tn_stream_set_current(ctx, a)) return 0;
    tn_tensor *x = numbers(s, d, 8, 8, TN_FLOAT32);
    if (!x || tn_event_record(e, a) || tn_stream_wait_event(b, e) || tn_record_stream(x, b)) return 0;
    if (tn_stream_set_current(ctx, b)) return 0;
    tn_tensor *y = tn_add_scalar(s, x, 1);
    tn_drop(s, x);
    if (!y || tn_stream_wait_stream(a, b) || tn_stream_set_current(ctx, a)) return 0;
    tn_tensor *z = tn_mul_scalar(s, y, 2);
    return tn_stream_query(a) < 0 || tn_event_query(e) < 0 || tn_event_synchronize(e)
               ? 0
               : has_sum(s, z, 2 * (2016 + 64));
}

static int streams(tn_scope *s, tn_device d)
{
    tn_context *ctx = tn_scope_context(s);
    tn_stream *a = NULL, *b = NULL;
    tn_event *e = NULL;
    int result = 0;
    if (!tn_stream_create(ctx, d, 0, &a) && !tn_stream_create(ctx, d, 0, &b) &&
        !tn_event_create(ctx, d, 0, &e))
        result = on_two_streams(s, d, a, b, e);
    if (result > 0 && (tn_device_synchronize(ctx, d) || tn_memory_empty_cache(ctx, d))) result = 0;
    tn_event_release(e);
    tn_stream_release(a);
    tn_stream_release(b);
    return result;
}

static int capture(tn_scope *s, tn_device d, tn_stream *stream, tn_graph *graph, tn_tensor *x)
{
    tn_context *ctx = tn_scope_context(s);
    tn_stream *home = tn_stream_default(ctx, d);
    if (tn_stream_wait_stream(stream, home) || tn_stream_set_current(ctx, stream)) return 0;
    int32_t status = tn_graph_capture_begin(graph, stream);
    if (!status) {
        tn_add_scalar_(s, x, 2);
        tn_add_(s, x, tn_mul_scalar(s, tn_ones_like(s, x), 1));
        status = tn_graph_capture_end(graph);
    }
    return !status && !tn_stream_set_current(ctx, home) && !tn_scope_failed(s);
}

/* Each replay adds 3 to four elements; the second graph takes the first one's place. */
static int graphs(tn_scope *s, tn_device d)
{
    tn_context *ctx = tn_scope_context(s);
    tn_stream *stream = NULL;
    tn_graph *g = NULL, *other = NULL;
    tn_tensor *x = tn_zeros(s, TN_INTS(4), .device = d);
    int result = x && !tn_stream_create(ctx, d, 0, &stream) && !tn_graph_create(ctx, d, &g) &&
                 !tn_graph_create(ctx, d, &other) && capture(s, d, stream, g, x) && !tn_graph_replay(g) &&
                 !tn_graph_replay(g) && capture(s, d, stream, other, x) && !tn_graph_update(g, other) &&
                 !tn_graph_replay(g);
    if (result) result = has_sum(s, x, 4 * 9);
    if (result > 0 && tn_graph_reset(g)) result = 0;
    tn_stream *home = tn_stream_default(ctx, d);
    if (home) tn_stream_set_current(ctx, home);
    tn_graph_release(other);
    tn_graph_release(g);
    tn_stream_release(stream);
    return result;
}

static int over_ranks(tn_scope *s, const tn_device *devices, tn_communicator *c)
{
    tn_tensor *t[2], *large[2], *small[2];
    for (int i = 0; i < 2; i++) {
        t[i] = tn_full(s, TN_INTS(2), 1 + i, .dtype = TN_FLOAT32, .device = devices[i]);
        large[i] = tn_zeros(s, TN_INTS(4), .device = devices[i]);
        small[i] = tn_zeros(s, TN_INTS(2), .device = devices[i]);
        if (!t[i] || !large[i] || !small[i]) return 0;
    }
    if (tn_communicator_all_reduce(c, t, 2, TN_REDUCE_SUM) || tn_communicator_barrier(c)) return 0;
    if (tn_communicator_all_gather(c, large, t, 2)) return 0;                            /* 3 3 3 3 on both */
    if (tn_communicator_reduce_scatter(c, small, large, 2, TN_REDUCE_PRODUCT)) return 0; /* 9 9 on both */
    if (tn_communicator_broadcast(c, t, 2, 1)) return 0;
    int result = both(has_sum(s, t[0], 6), has_sum(s, large[1], 12));
    return both(result, both(has_sum(s, small[0], 18), has_sum(s, small[1], 18)));
}

static int collectives(tn_scope *s, tn_device d)
{
    const tn_device devices[2] = {d, TN_DEVICE(TN_DEVICE_TYPE(d), 1)};
    tn_communicator *c = NULL;
    int result = !tn_communicator_create(tn_scope_context(s), devices, 2, &c) ? over_ranks(s, devices, c) : 0;
    tn_communicator_release(c);
    return result;
}

/* ---- Other processes, played by this one --------------------------------------------------------------- */

static int processes(tn_scope *s, tn_device d)
{
    tn_shared_tensor shared = {.size = sizeof shared};
    tn_tensor *x = tn_full(s, TN_INTS(3), 2, .dtype = TN_FLOAT32, .device = d), *mine = tn_share(s, x);
    if (!mine || tn_share_export(mine, &shared)) return 0;
    tn_tensor *theirs = tn_share_import(s, &shared);
    close(shared.memory.file);
    if (!theirs || !tn_add_scalar_(s, theirs, 1)) return 0;
    if (tn_device_synchronize(tn_scope_context(s), d)) return 0;
    return both(has_sum(s, mine, 9), has_sum(s, theirs, 9));
}

static int over_events(tn_context *ctx, tn_device d, tn_event *here, tn_event **there)
{
    tn_process_handle handle = {.size = sizeof handle, .file = -1};
    if (tn_event_export(here, &handle)) return 0;
    int32_t status = tn_event_import(ctx, d, &handle, there);
    if (handle.file >= 0) close(handle.file);
    if (status || tn_event_record(here, tn_stream_current(ctx, d))) return 0;
    if (tn_stream_wait_event(tn_stream_current(ctx, d), *there) || tn_event_synchronize(*there)) return 0;
    return tn_event_query(*there) == 1 ? 1 : 0;
}

static int process_events(tn_scope *s, tn_device d)
{
    tn_event *here = NULL, *there = NULL;
    tn_context *ctx = tn_scope_context(s);
    int result =
        tn_event_create(ctx, d, TN_EVENT_INTERPROCESS, &here) ? 0 : over_events(ctx, d, here, &there);
    tn_event_release(there);
    tn_event_release(here);
    return result;
}

/* ---- An operator that the device does not have ---------------------------------------------------------- */

static int32_t add_all(void *self, const tn_call *call)
{
    const tn_value *list = &call->args[0];
    float *to = tn_tensor_data(call->outs[0].as.tensor), *counter = tn_tensor_data(call->args[1].as.tensor);
    (void)self;
    to[0] = 0;
    for (uint32_t i = 0; i < list->count; i++) to[0] += *(float *)tn_tensor_data(list->as.tensors[i]);
    counter[0] += 1;
    return TN_OK;
}

static int32_t infer_all(void *self, const tn_call *call)
{
    const int64_t one = 1;
    (void)self;
    const tn_output output = {.size = sizeof output,
                              .dtype = TN_FLOAT32,
                              .rank = 1,
                              .sizes = &one,
                              .device = tn_tensor_device(call->args[0].as.tensors[0])};
    return call->host->define_output(call, 0, &output);
}

static int fallback(tn_scope *s, tn_device d)
{
    static const char schema[] = "torture::add_all(Tensor[] list, Tensor(a!) counter) -> Tensor";
    const tn_operator_def def = {.size = sizeof def, .schema = schema, .infer = infer_all};
    const tn_kernel_row row = {
        .size = sizeof row, .strides = TN_STRIDES_ANY, .schema = schema, .run = add_all};
    tn_context *ctx = tn_scope_context(s);
    uint32_t op = tn_operator_find(ctx, "torture::add_all");
    tn_clear_error();
    if (!op && tn_operator_define(ctx, &def, &op)) return 0;
    if (!tn_inspect_kernel_count(ctx, op) && tn_kernels_add(ctx, "cpu", NULL, &row, 1)) return 0;
    tn_tensor *x = tn_full(s, TN_INTS(3), 2, .dtype = TN_FLOAT32, .device = d);
    tn_tensor *y = tn_full(s, TN_INTS(3), 3, .dtype = TN_FLOAT32, .device = d), *list[] = {x, y};
    tn_tensor *counter = tn_zeros(s, TN_INTS(1), .device = d);
    tn_value out = tn_value_none();
    if (!x || !y || !counter) return 0;
    const tn_value args[] = {tn_value_tensors(list, 2), tn_value_tensor(counter)};
    if (tn_scope_call(s, op, args, 2, &out, 1)) return 0;
    return both(has_sum(s, tn_value_as_tensor(out), 5), has_sum(s, counter, 1));
}

static const scenario scenarios[] = {{"arithmetic", arithmetic, 0},
                                     {"products", products, 0},
                                     {"indexing", indexing, 0},
                                     {"gradient", gradient, 0},
                                     {"training", training, 0},
                                     {"lists", lists, 0},
                                     {"reductions", reductions, 0},
                                     {"copies", copies, 0},
                                     {"given outputs", given_outputs, 0},
                                     {"in place", in_place, 0},
                                     {"sorting", sorting, 0},
                                     {"networks", networks, 0},
                                     {"complex numbers", complex_numbers, 0},
                                     {"random numbers", random_numbers, 0},
                                     {"mixed precision", mixed_precision, 0},
                                     {"file", file, 0},
                                     {"call trace", call_trace, 0},
                                     {"sharing", share, 0},
                                     {"streams", streams, 0},
                                     {"graphs", graphs, 1},
                                     {"collectives", collectives, 1},
                                     {"processes", processes, 0},
                                     {"events of processes", process_events, 1},
                                     {"fallback", fallback, 0}};

int run_scenarios(int (*run)(const scenario *c, const char *device))
{
    static const char *const devices[] = {"cpu", "reference:0"};
    int passed = 0, failed = 0;
    setenv("TENON_REFERENCE_DEVICES", "2", 1);
    for (uint32_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        for (uint32_t k = scenarios[i].asynchronous_only ? 1 : 0; k < 2; k++) {
            int bad = run(&scenarios[i], devices[k]);
            printf("%s on %s: %s\n", scenarios[i].name, devices[k], bad ? "failed" : "ok");
            bad ? failed++ : passed++;
        }
    }
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
