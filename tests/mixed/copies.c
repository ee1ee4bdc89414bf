/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between devices of different plugins, which go through memory of the host: every ordered pair of the devices
 * that this machine has. Work that writes memory of the test drivers begins late.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

#define PIECES  2621440 /* elements of int32 that go in two and a half pieces of 4 MiB */
#define FEW     1000
#define DEVICES 6

static const char *const names[DEVICES] = {"cpu", "reference:0", "opencl:0", "vulkan:0", "xpu:0", "cuda:0"};

static tn_context *ctx;
static tn_scope *s;

static void open_all(void)
{
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK, "%s", tn_last_error()->message);
    s = tn_scope_open(ctx);
}
static void close_all(void)
{
    cr_expect_not(tn_scope_failed(s), "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    tn_scope_close(s);
    tn_context_destroy(ctx);
}
TestSuite(copies, .timeout = 100);

/* Every ordered pair of two devices that are there. */
typedef struct pair {
    uint32_t from, to;
} pair;

static pair pairs[DEVICES * (DEVICES - 1)];

static size_t make_pairs(void)
{
    size_t n = 0;
    for (uint32_t from = 0; from < DEVICES; from++)
        for (uint32_t to = 0; to < DEVICES; to++)
            if (from != to) pairs[n++] = (pair){from, to};
    return n;
}
#define EACH_PAIR(test)                                 \
    ParameterizedTestParameters(copies, test)           \
    {                                                   \
        size_t count = make_pairs();                    \
        return cr_make_param_array(pair, pairs, count); \
    }                                                   \
    ParameterizedTest(pair *p, copies, test, .timeout = 100)

/* Opens a context; the test is skipped if one of the devices is not on this machine. */
static void open_pair(const pair *p, tn_device *from, tn_device *to)
{
    open_all();
    *from = tn_device_choose(ctx, names[p->from], NULL);
    *to = tn_device_choose(ctx, names[p->to], NULL);
    if (*from & TN_DEVICE_MISSING || *to & TN_DEVICE_MISSING)
        cr_skip_test("%s, %s: not both are here", names[p->from], names[p->to]);
}

static tn_tensor *row(tn_device device, int64_t count)
{
    int32_t *values = malloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++) values[i] = (int32_t)((uint32_t)i * 2654435761u);
    tn_tensor *t = tn_from_data(s, TN_INT32, TN_INTS(count), values, device);
    free(values);
    cr_assert_not_null(t, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    return t;
}

static void expect_row(const tn_tensor *t, int64_t count, const char *where)
{
    int32_t *got = calloc((size_t)count, sizeof *got);
    cr_assert_eq(tn_to_host(s, t, got, (uint64_t)count * sizeof *got), TN_OK, "%s: %s", where,
                 tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    for (int64_t i = 0; i < count; i++)
        cr_assert_eq(got[i], (int32_t)((uint32_t)i * 2654435761u), "%s: element %lld of %lld", where,
                     (long long)i, (long long)count);
    free(got);
}

static void expect_all(const tn_tensor *t, float want, const char *where)
{
    float got[FEW] = {0};
    cr_assert_eq(tn_to_host(s, t, got, sizeof got), TN_OK, "%s: %s", where,
                 tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    for (int i = 0; i < FEW; i++)
        cr_assert_eq(got[i], want, "%s: element %d is %g", where, i, (double)got[i]);
}

/* A copy to the CPU that is not waited for is there when the stream of its source has run it. */
static void wait_for(tn_device device)
{
    cr_assert_eq(tn_stream_synchronize(tn_stream_current(ctx, device)), TN_OK);
}

EACH_PAIR(give_the_same_elements)
{
    static const int64_t counts[] = {1, FEW, PIECES};
    tn_device from, to;
    char where[96];
    open_pair(p, &from, &to);
    for (int i = 0; i < 6; i++) {
        tn_scope *before = s;
        s = tn_scope_open_child(before, NULL);
        snprintf(where, sizeof where, "%s to %s%s", names[p->from], names[p->to],
                 i % 2 ? ", not waited for" : "");
        tn_tensor *there =
            tn_to_dtype_layout(s, row(from, counts[i / 2]), .device = to, .non_blocking = i % 2);
        cr_assert_not_null(there, "%s: %s", where, tn_scope_error(s)->message);
        cr_assert_eq(tn_tensor_device(there), to);
        wait_for(from);
        expect_row(there, counts[i / 2], where);
        tn_scope_close(s);
        s = before;
    }
    close_all();
}

/* The source is computed before the copy and overwritten behind it, the target the other way about; all of it late. */
EACH_PAIR(come_in_order_on_both_sides)
{
    tn_device from, to;
    char where[96];
    open_pair(p, &from, &to);
    for (int i = 0; i < 2; i++) {
        setenv("FAULTY_UNASKED", "0", 1);
        snprintf(where, sizeof where, "%s to %s%s", names[p->from], names[p->to],
                 i ? ", not waited for" : "");
        tn_tensor *here = tn_full(s, TN_INTS(FEW), 1, .dtype = TN_FLOAT32, .device = from);
        tn_tensor *there = tn_full(s, TN_INTS(FEW), 5, .dtype = TN_FLOAT32, .device = to);
        tn_add_scalar_(s, tn_clone(s, here), 2); /* compiles the kernels */
        tn_add_scalar_(s, tn_clone(s, there), 2);
        cr_assert_eq(tn_device_synchronize(ctx, from), TN_OK);
        cr_assert_eq(tn_device_synchronize(ctx, to), TN_OK);
        setenv("FAULTY_UNASKED", "1", 1);
        tn_add_scalar_(s, here, 2);
        tn_add_scalar_(s, there, 2);
        tn_copy_(s, there, here, .non_blocking = i);
        if (to == TN_CPU) wait_for(from);
        tn_add_scalar_(s, here, 6);
        tn_add_scalar_(s, there, 10);
        expect_all(there, 13, where);
        expect_all(here, 9, where);
    }
    close_all();
}

static void hold(void *user)
{
    sem_wait(user);
}

/* The copy waits for its source, not for the work that is queued before it on the target. */
EACH_PAIR(do_not_wait_for_the_target)
{
    tn_device from, to;
    open_pair(p, &from, &to);
    if (to == TN_CPU) cr_skip_test("the CPU does all work at once");
    for (int64_t count = FEW; count <= 500 * FEW; count *= 500) {
        sem_t gate;
        sem_init(&gate, 0, 0);
        tn_stream *target = tn_stream_current(ctx, to);
        tn_tensor *here = row(from, count), *there = row(to, count);
        tn_zero_(s, there);
        tn_copy_(s, there, here); /* compiles the kernels */
        tn_zero_(s, row(from, count));
        cr_assert_eq(tn_device_synchronize(ctx, from), TN_OK);
        cr_assert_eq(tn_device_synchronize(ctx, to), TN_OK);
        tn_zero_(s, there);
        cr_assert_eq(tn_stream_add_callback(target, hold, &gate), TN_OK);
        alarm(60); /* a copy that waits for the target waits for ever */
        tn_copy_(s, there, here, .non_blocking = 1);
        cr_expect_eq(tn_stream_query(target), 0, "%s to %s: the copy has waited", names[p->from],
                     names[p->to]);
        tn_drop(s, here);
        for (int i = 0; i < 3; i++) tn_zero_(s, row(from, count)); /* would use the memory of the copy */
        sem_post(&gate);
        alarm(0);
        expect_row(there, count, names[p->to]);
        sem_destroy(&gate);
    }
    close_all();
}

/* ---- Failures ---------------------------------------------------------------------------------------------- */

/* The second piece fails, once in each slot. What was there before stays, and the next copy is whole. */
EACH_PAIR(fail_with_the_call_that_failed)
{
    static const struct {
        char inject[40]; /* from_data has called copy.host_to_device once */
        const char *words;
    } faults[] = {{"copy.device_to_host:2", "copy.device_to_host"},
                  {"copy.host_to_device:3", "copy.host_to_device"},
                  {"event.record:2", "event.record"}};
    tn_device from, to;
    if (!p->from || !p->to) cr_skip_test("the CPU copies by itself");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        setenv("TENON_INJECT", faults[i].inject, 1);
        open_pair(p, &from, &to);
        tn_tensor *here = row(from, PIECES),
                  *there = tn_empty(s, TN_INTS(PIECES), .dtype = TN_INT32, .device = to);
        tn_copy_(s, there, here);
        cr_assert_eq(tn_scope_failed(s), TN_E_INTERNAL, "%s to %s, %s: %s", names[p->from], names[p->to],
                     faults[i].inject, tn_scope_failed(s) ? tn_scope_error(s)->message : "no error");
        const tn_error *e = tn_scope_error(s);
        cr_expect(strstr(e->message, faults[i].words), "%s: %s", faults[i].inject, e->message);
        tn_scope_clear(s);
        expect_row(here, PIECES, "the source after a failure");
        tn_copy_(s, there, here);
        expect_row(there, PIECES, "the second copy");
        close_all();
    }
}

/* A device that is lost while the copy runs: the error names it, and the other one goes on. */
typedef struct loss {
    char from[16], to[16], fault[64], lost[16], words[48];
} loss;

ParameterizedTestParameters(copies, survive_a_lost_device)
{
    static loss rows[] = {
        {"xpu:0", "cuda:0", "zeCommandListAppendMemoryCopy:4:0x70000001", "xpu:0",
         "ZE_RESULT_ERROR_DEVICE_LOST"},
        {"cuda:0", "xpu:0", "zeCommandListAppendMemoryCopy:4:0x70000001", "xpu:0",
         "ZE_RESULT_ERROR_DEVICE_LOST"},
        {"cuda:0", "opencl:0", "cuMemcpyDtoHAsync:2:700", "cuda:0", "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {"reference:0", "cuda:0", "cuMemcpyHtoDAsync:4:700", "cuda:0", "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {"opencl:0", "vulkan:0", "clEnqueueReadBuffer:2:-36", "opencl:0", "CL_INVALID_COMMAND_QUEUE"},
        {"vulkan:0", "opencl:0", "clEnqueueWriteBuffer:4:-36", "opencl:0", "CL_INVALID_COMMAND_QUEUE"},
    };
    return cr_make_param_array(loss, rows, sizeof rows / sizeof *rows);
}

ParameterizedTest(loss *r, copies, survive_a_lost_device, .timeout = 100)
{
    setenv("FAULTY_FAIL", r->fault, 1);
    open_all();
    tn_device from = tn_device_choose(ctx, r->from, NULL), to = tn_device_choose(ctx, r->to, NULL);
    tn_device lost = tn_device_parse(ctx, r->lost), other = lost == from ? to : from;
    if (from & TN_DEVICE_MISSING || to & TN_DEVICE_MISSING) cr_skip_test("%s, %s", r->from, r->to);
    tn_tensor *here = row(from, PIECES), *mine = row(other, FEW);
    tn_tensor *there = tn_empty(s, TN_INTS(PIECES), .dtype = TN_INT32, .device = to);
    tn_copy_(s, there, here);
    if (!tn_scope_failed(s)) cr_assert_neq(tn_device_synchronize(ctx, lost), TN_OK, "%s: no error", r->fault);
    const tn_error *e = tn_scope_failed(s) ? tn_scope_error(s) : tn_last_error();
    cr_expect_eq(e->code, TN_E_DEVICE_LOST, "%s: %s", r->fault, e->message);
    cr_expect(strstr(e->message, r->words), "%s: %s", r->fault, e->message);
    cr_expect_eq(tn_device_status(ctx, lost), TN_E_DEVICE_LOST);
    tn_scope_clear(s);
    expect_row(mine, FEW, "what the other device has");
    if (other == from) expect_row(here, PIECES, "the source");
    expect_row(tn_to_dtype_layout(s, mine, .device = TN_CPU), FEW, "a copy of it");
    close_all();
}
