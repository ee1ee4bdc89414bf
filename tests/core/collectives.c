/* SPDX-License-Identifier: Apache-2.0 */
/* What collectives refuse, and the text of each refusal; tests/behaviour has what they compute. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include <tenon/collectives.h>
#include "core/dtype.h"
#include "fixture.h"
#include "at_end.h"
#include "gate.h"

/* A call is refused with a text that begins with its name. */
#define REFUSES(call, arguments, status, text) \
    REFUSED(tn_communicator_##call arguments, status, "tn_communicator_" #call ": " text)

static tn_device devices[2];
static tn_communicator *c;
static tn_tensor *a[2], *b[2], *none[2];

static tn_tensor *tensor(int rank, tn_dtype dtype, tn_ints sizes)
{
    static const char zeros[1024];
    tn_tensor *t = tn_from_data(s, dtype, sizes, zeros, devices[rank]);
    cr_assert_not_null(t, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    return t;
}

static void pair(tn_tensor *out[2], tn_dtype dtype, tn_ints sizes)
{
    for (int i = 0; i < 2; i++) out[i] = tensor(i, dtype, sizes);
}

static void open_communicator(void)
{
    open_full_fakes();
    devices[0] = tn_device_parse(ctx, "gpu:0");
    devices[1] = tn_device_parse(ctx, "gpu:1");
    cr_assert_eq(tn_communicator_create(ctx, devices, 2, &c), TN_OK);
    pair(a, TN_FLOAT32, TN_INTS(2, 4));
    pair(b, TN_FLOAT32, TN_INTS(2, 4));
    pair(none, TN_FLOAT32, TN_INTS(0));
}

/* After all refusals the communicator still works. */
static void close_communicator(void)
{
    int32_t calls = gpu.collectives;
    MUST_HOLD(tn_communicator_all_reduce(c, a, 2, TN_REDUCE_SUM) == TN_OK);
    MUST_HOLD(gpu.collectives == calls + 1);
    tn_communicator_release(c);
    close_fakes();
    MUST_HOLD(gpu.live_communicators == 0);
}

TestSuite(collectives, .init = open_communicator, .fini = close_communicator);

Test(collectives, communicators_that_cannot_be_made)
{
    tn_communicator *other = NULL;
    const tn_device twice[] = {devices[0], devices[0]}, mixed[] = {devices[0], TN_CPU}, host[] = {TN_CPU};
    const tn_device missing[] = {tn_device_parse(ctx, "gpu:7")};
    REFUSES(create, (ctx, devices, 0, &other), TN_E_ARGUMENT, "0 devices; 1 to 64 are possible");
    REFUSES(create, (ctx, devices, 65, &other), TN_E_ARGUMENT, "65 devices; 1 to 64 are possible");
    REFUSES(create, (ctx, twice, 2, &other), TN_E_DEVICE, "devices[0] and devices[1] are the same");
    REFUSES(create, (ctx, mixed, 2, &other), TN_E_DEVICE, "devices[1] is of another type than devices[0]");
    REFUSED(tn_communicator_create(ctx, host, 1, &other), TN_E_UNSUPPORTED,
            "plugin fake has no collectives (no interface tenon.collectives)");
    REFUSED(tn_communicator_create(ctx, missing, 1, &other), TN_E_DEVICE,
            "device gpu:7: there are only 2 of this type");
    REFUSED(tn_communicator_create(NULL, devices, 1, &other), TN_E_ARGUMENT,
            "the context is NULL: making it failed, or it was left out");
    cr_assert_null(other);
    cr_assert_eq(gpu.live_communicators, 1);
}

Test(collectives, groups_over_processes)
{
    tn_communicator *other = NULL;
    char id[8];
    uint64_t bytes = 0;
    tn_communicator_group group = {
        .size = sizeof group, .count = 2, .first_rank = 2, .world = 3, .devices = devices};
    REFUSES(join, (ctx, &group, &other), TN_E_ARGUMENT, "ranks 2 to 3 of 3");
    group.first_rank = 4;
    REFUSES(join, (ctx, &group, &other), TN_E_ARGUMENT, "ranks 4 to 5 of 3");
    group = (tn_communicator_group){.size = sizeof group, .count = 2, .world = 4, .devices = devices};
    const char *const without =
        "tn_communicator_join: argument 'id': missing, but 2 of 4 ranks are elsewhere";
    REFUSED(tn_communicator_join(ctx, &group, &other), TN_E_ARGUMENT, without);
    group.id = "id";
    REFUSED(tn_communicator_join(ctx, &group, &other), TN_E_ARGUMENT, without);
    group.size = 3;
    REFUSED(tn_communicator_join(ctx, &group, &other), TN_E_ARGUMENT,
            "tn_communicator_group: size is 3; set it to sizeof(tn_communicator_group)");
    cr_assert_null(other);
    REFUSED(tn_communicator_unique_id(ctx, devices[0], id, 3, &bytes), TN_E_ARGUMENT,
            "making the id of a communicator failed: bad argument");
    REFUSED(tn_communicator_unique_id(ctx, TN_CPU, id, sizeof id, &bytes), TN_E_UNSUPPORTED,
            "plugin fake has no collectives over several processes");
    cr_assert_eq(tn_communicator_unique_id(ctx, tn_device_parse(ctx, "gpu:9"), id, sizeof id, &bytes),
                 TN_E_DEVICE);
    cr_assert_eq(tn_communicator_unique_id(ctx, devices[0], id, sizeof id, &bytes), TN_OK);
    cr_assert_eq(bytes, 4);
    group = (tn_communicator_group){.size = sizeof group,
                                    .count = 2,
                                    .first_rank = 2,
                                    .world = 4,
                                    .devices = devices,
                                    .id = id,
                                    .id_bytes = bytes};
    cr_assert_eq(tn_communicator_join(ctx, &group, &other), TN_OK);
    cr_assert_eq(tn_communicator_size(other), 2);
    cr_assert_eq(tn_communicator_device(other, 1), devices[1]);
    cr_assert_eq(tn_communicator_device(other, 2), 0);
    cr_assert_eq(tn_communicator_broadcast(other, a, 2, 3), TN_OK, "a root elsewhere");
    REFUSES(broadcast, (other, a, 2, 4), TN_E_ARGUMENT, "root 4; the ranks are 0 to 3");
    tn_communicator_release(other);
}

/* A plugin whose collectives stay in one process has no ids. */
Test(collectives, one_process_only)
{
    static fake local = {
        .type = "local", .count = 1, .device_class = TN_DEVICE_DISCRETE, .has_collectives = 1};
    tni_driver driver = fake_driver(&local);
    tn_communicator *other = NULL;
    char id[8];
    uint64_t bytes;
    driver.collectives.unique_id = NULL;
    driver.collectives.abort = NULL;
    cr_assert_eq(tni_device_type_add(ctx, &driver), TN_OK);
    const tn_device d = tn_device_parse(ctx, "local:0");
    const tn_communicator_group group = {
        .size = sizeof group, .count = 1, .world = 2, .devices = &d, .id = "id", .id_bytes = 2};
    REFUSED(tn_communicator_unique_id(ctx, d, id, sizeof id, &bytes), TN_E_UNSUPPORTED,
            "plugin fake has no collectives over several processes");
    REFUSED(tn_communicator_join(ctx, &group, &other), TN_E_UNSUPPORTED,
            "plugin fake has collectives within one process only");
    cr_assert_eq(tn_communicator_create(ctx, &d, 1, &other), TN_OK);
    cr_assert_eq(tn_communicator_abort(other), TN_OK, "without the slot nothing is to end");
    cr_assert_eq(tn_communicator_abort(other), TN_OK, "once more");
    REFUSED(tn_communicator_barrier(other), TN_E_STATE, "the communicator was aborted");
    tn_communicator_release(other);
    cr_assert_eq(local.live_communicators, 0);
}

Test(collectives, without_send_or_receive)
{
    static fake local = {
        .type = "local", .count = 2, .device_class = TN_DEVICE_DISCRETE, .has_collectives = 1};
    tni_driver driver = fake_driver(&local);
    tn_communicator *other = NULL;
    driver.collectives.receive = NULL;
    cr_assert_eq(tni_device_type_add(ctx, &driver), TN_OK);
    const tn_device two[] = {tn_device_parse(ctx, "local:0"), tn_device_parse(ctx, "local:1")};
    cr_assert_eq(tn_communicator_create(ctx, two, 2, &other), TN_OK);
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(0), NULL, two[0]);
    REFUSED(tn_communicator_send(other, t, 1), TN_E_UNSUPPORTED,
            "tn_communicator_send: plugin fake cannot send from rank to rank");
    REFUSED(tn_communicator_receive(other, t, 1), TN_E_UNSUPPORTED,
            "tn_communicator_receive: plugin fake cannot send from rank to rank");
    tn_communicator_release(other);
    cr_assert_eq(local.live_communicators, 0);
}

/* ---- A call that waits for ever ---------------------------------------------------------------------------- */

static gate other_process;

/* As one that waits for other processes, until it is aborted. */
static int32_t wait_for_others(void *self, void *communicator, const tn_collective_rank *ranks,
                               uint32_t rank_bytes)
{
    gate_wait(&other_process);
    return TN_E_IO;
}

static int32_t end_calls(void *self, void *communicator)
{
    gate_open(&other_process);
    return TN_OK;
}

static void *call_barrier(void *communicator)
{
    return (void *)(intptr_t)tn_communicator_barrier(communicator);
}

/* A watchdog asks and aborts while the call has not returned, and one that waits for its turn is refused. */
Test(collectives, an_abort_does_not_wait_for_a_call_that_hangs, .timeout = 30)
{
    tn_communicator *other = NULL;
    pthread_t first, second;
    void *status = NULL;
    tn_collectives_interface *slots = &tni_device_get(ctx, devices[0])->type->driver.collectives;
    const tn_collectives_interface right = *slots;
    cr_assert_eq(tn_communicator_create(ctx, devices, 2, &other), TN_OK);
    gate_init(&other_process);
    slots->barrier = wait_for_others;
    slots->abort = end_calls;
    cr_assert_eq(pthread_create(&first, NULL, call_barrier, other), 0);
    sem_wait(&other_process.reached);
    cr_assert_eq(pthread_create(&second, NULL, call_barrier, other), 0);
    usleep(20000);
    cr_expect_eq(tn_communicator_status(other), TN_OK);
    cr_expect_eq(tn_communicator_abort(other), TN_OK);
    pthread_join(first, &status);
    cr_expect_eq((intptr_t)status, TN_E_IO);
    pthread_join(second, &status);
    cr_expect_eq((intptr_t)status, TN_E_STATE);
    cr_expect_eq(other_process.calls, 1);
    REFUSED(tn_communicator_status(other), TN_E_STATE, "the communicator was aborted");
    *slots = right;
    tn_communicator_release(other);
}

Test(collectives, communicators_that_are_missing)
{
    REFUSES(status, (NULL), TN_E_ARGUMENT, "no communicator");
    REFUSES(abort, (NULL), TN_E_ARGUMENT, "no communicator");
    REFUSES(barrier, (NULL), TN_E_ARGUMENT, "no communicator");
    REFUSES(all_reduce, (NULL, a, 2, TN_REDUCE_SUM), TN_E_ARGUMENT, "no communicator");
    cr_assert_eq(tn_communicator_size(NULL), 0);
    cr_assert_eq(tn_communicator_device(NULL, 0), 0);
    cr_assert_not(tn_communicator_reduces(NULL, TN_FLOAT32, TN_REDUCE_SUM));
    tn_communicator_release(NULL);
}

Test(collectives, lists_of_tensors)
{
    tn_tensor *swapped[] = {a[1], a[0]}, *holes[] = {a[0], NULL}, *other[2];
    const int64_t turned[] = {4, 2}, strides[] = {1, 4};
    REFUSES(all_reduce, (c, a, 1, TN_REDUCE_SUM), TN_E_ARGUMENT, "1 tensors for 2 ranks");
    REFUSES(all_reduce, (c, NULL, 2, TN_REDUCE_SUM), TN_E_ARGUMENT, "'tensors' is missing");
    REFUSES(all_reduce, (c, holes, 2, TN_REDUCE_SUM), TN_E_ARGUMENT, "tensors[1] is missing");
    REFUSES(all_reduce, (c, swapped, 2, TN_REDUCE_SUM), TN_E_DEVICE,
            "tensors[0] is on gpu:1; rank 0 is gpu:0");
    other[0] = a[0];
    other[1] = tensor(1, TN_FLOAT64, TN_INTS(2, 4));
    REFUSES(all_reduce, (c, other, 2, TN_REDUCE_SUM), TN_E_DTYPE,
            "tensors[1] is float64, but tensors[0] is float32");
    other[1] = tensor(1, TN_FLOAT32, TN_INTS(4, 2));
    REFUSES(all_reduce, (c, other, 2, TN_REDUCE_SUM), TN_E_SHAPE,
            "tensors[1] has the shape [4, 2], but tensors[0] [2, 4]");
    other[1] = tensor(1, TN_FLOAT32, TN_INTS(8));
    REFUSES(all_reduce, (c, other, 2, TN_REDUCE_SUM), TN_E_SHAPE,
            "tensors[1] has the shape [8], but tensors[0] [2, 4]");
    cr_assert_eq(tni_tensor_view(a[0], 2, turned, strides, 0, &other[0]), TN_OK);
    const char *const strided =
        "tn_communicator_all_reduce: tensors[0] must be contiguous (and not lazily conjugated or negated)";
    REFUSED(tn_communicator_all_reduce(c, other, 2, TN_REDUCE_SUM), TN_E_ARGUMENT, strided);
    tn_release(other[0]);
    other[0] = tensor(0, TN_COMPLEX64, TN_INTS(2, 4));
    other[0]->desc.flags |= TN_DESC_CONJ;
    REFUSED(tn_communicator_all_reduce(c, other, 2, TN_REDUCE_SUM), TN_E_ARGUMENT, strided);
}

Test(collectives, reductions)
{
    tn_tensor *complex_pair[2], *whole[2], *small[2];
    pair(complex_pair, TN_COMPLEX64, TN_INTS(2));
    pair(whole, TN_INT64, TN_INTS(2));
    pair(small, TN_FLOAT8_E4M3FN, TN_INTS(2));
    REFUSES(all_reduce, (c, a, 2, 5), TN_E_ARGUMENT, "there is no reduction 5 (TN_REDUCE_...)");
    REFUSES(all_reduce, (c, complex_pair, 2, TN_REDUCE_MIN), TN_E_DTYPE,
            "TN_REDUCE_MIN is not for complex64");
    REFUSES(all_reduce, (c, whole, 2, TN_REDUCE_AVERAGE), TN_E_DTYPE, "TN_REDUCE_AVERAGE is not for int64");
    REFUSES(all_reduce, (c, small, 2, TN_REDUCE_SUM), TN_E_DTYPE,
            "plugin fake does not reduce float8_e4m3fn by TN_REDUCE_SUM");
    cr_assert_eq(tn_communicator_all_reduce(c, complex_pair, 2, TN_REDUCE_AVERAGE), TN_OK);
    cr_assert_not(tn_communicator_reduces(c, TN_FLOAT32, 5));
    cr_assert(tn_communicator_reduces(c, TN_FLOAT32, TN_REDUCE_MAX));
}

Test(collectives, parts_of_tensors)
{
    tn_tensor *part[2], *whole[2], *third[2], *within[2], *own[2];
    const int64_t size = 4;
    pair(part, TN_FLOAT32, TN_INTS(4));
    pair(whole, TN_INT32, TN_INTS(2, 4));
    pair(third, TN_FLOAT32, TN_INTS(3));
    REFUSES(all_gather, (c, whole, part, 2), TN_E_DTYPE, "outs are int32, but inputs float32");
    REFUSES(all_gather, (c, a, third, 2), TN_E_SHAPE,
            "outs have 8 elements; 2 ranks with inputs of 3 make 6");
    REFUSES(all_gather, (c, a, NULL, 2), TN_E_ARGUMENT, "'inputs' is missing");
    REFUSES(reduce_scatter, (c, NULL, a, 2, TN_REDUCE_SUM), TN_E_ARGUMENT, "'outs' is missing");
    REFUSES(reduce_scatter, (c, part, a, 2, 9), TN_E_ARGUMENT, "there is no reduction 9 (TN_REDUCE_...)");
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(tni_tensor_view(a[i], 1, &size, NULL, 2, &within[i]), TN_OK);
        cr_assert_eq(tni_tensor_view(a[i], 1, &size, NULL, 4 * i, &own[i]), TN_OK);
    }
    REFUSES(all_gather, (c, a, within, 2), TN_E_ARGUMENT,
            "outs[0] and inputs[0] overlap; only a rank's own part of the larger "
            "may be "
            "shared");
    cr_assert_eq(tn_communicator_all_gather(c, a, own, 2), TN_OK, "each rank's own part");
    REFUSES(all_to_all, (c, a, within, 2), TN_E_SHAPE,
            "outs have 8 elements of float32, inputs 4 of float32");
    REFUSES(all_to_all, (c, a, NULL, 2), TN_E_ARGUMENT, "'inputs' is missing");
    REFUSES(all_to_all, (c, NULL, a, 2), TN_E_ARGUMENT, "'outs' is missing");
    REFUSES(all_to_all, (c, within, own, 2), TN_E_ARGUMENT, "outs[0] and inputs[0] overlap");
    REFUSES(all_to_all, (c, own, within, 2), TN_E_ARGUMENT, "outs[0] and inputs[0] overlap");
    pair(third, TN_INT32, TN_INTS(2, 4));
    REFUSES(all_to_all, (c, a, third, 2), TN_E_SHAPE, "outs have 8 elements of float32, inputs 8 of int32");
    pair(third, TN_FLOAT32, TN_INTS(3));
    pair(whole, TN_FLOAT32, TN_INTS(3));
    REFUSES(all_to_all, (c, third, whole, 2), TN_E_SHAPE, "3 elements are not 2 equal parts");
    for (int i = 0; i < 2; i++) {
        tn_release(within[i]);
        tn_release(own[i]);
    }
}

/* Without elements the plugin is not asked. */
Test(collectives, of_no_elements)
{
    tn_tensor *more[2];
    int32_t calls = gpu.collectives;
    pair(more, TN_FLOAT32, TN_INTS(0, 3));
    cr_assert_eq(tn_communicator_all_reduce(c, none, 2, TN_REDUCE_SUM), TN_OK);
    cr_assert_eq(tn_communicator_broadcast(c, none, 2, 0), TN_OK);
    cr_assert_eq(tn_communicator_all_gather(c, more, none, 2), TN_OK);
    cr_assert_eq(tn_communicator_all_to_all(c, more, none, 2), TN_OK);
    cr_assert_eq(tn_communicator_reduce_scatter(c, more, none, 2, TN_REDUCE_SUM), TN_OK);
    cr_assert_eq(gpu.collectives, calls);
}

/* A capture cannot contain a collective, and learns of the attempt. */
Test(collectives, while_a_stream_captures)
{
    tn_graph *graph = NULL;
    tn_stream *stream = NULL;
    cr_assert_eq(tn_graph_create(ctx, devices[1], &graph), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, devices[1], 0, &stream), TN_OK);
    cr_assert_eq(tn_graph_capture_begin(graph, stream), TN_OK);
    tn_stream_set_current(ctx, stream);
    REFUSED(tn_communicator_barrier(c), TN_E_STATE, "tn_communicator_barrier cannot be captured in a graph");
    tn_stream_set_current(ctx, tn_stream_default(ctx, devices[1]));
    REFUSED(tn_graph_capture_end(graph), TN_E_STATE,
            "the capture is invalid: tn_communicator_barrier cannot be captured in a graph");
    tn_stream_release(stream);
    tn_graph_release(graph);
}
