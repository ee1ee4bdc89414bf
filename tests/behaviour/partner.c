/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other process of tests/behaviour/sharing.c and ranks.c, started with fork and exec. Its status is 0 if all that it
 * saw was right; else it says on standard error what was not.
 *
 *     partner double SOCKET        receives float32 tensors, doubles them in place, answers with a byte
 *     partner follow SOCKET        is ready, then doubles a tensor that comes with an event, and again when it gets a byte
 *     partner send SOCKET DEVICE   sends a shared tensor and ends
 *     partner event SOCKET         sends a tensor and an event that comes when it gets a byte
 *     partner orphan SOCKET        sends a tensor and an event that never comes, and is killed
 *     partner rank ID WORLD FIRST COUNT    takes part in every collective
 *     partner leave ID WORLD FIRST COUNT   joins and is killed
 *     partner stay ID WORLD FIRST COUNT    joins, and expects that another is killed
 */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <tenon/ops.h>
#include <tenon/tenon.h>
#include <time.h>
#include <unistd.h>

#define MOST 8
#ifndef PARTNER_DEVICE
#define PARTNER_DEVICE "reference:0"
#endif

static tn_context *ctx;
static tn_scope *s;

static _Noreturn void fail(const char *what)
{
    const char *why = s && tn_scope_failed(s) ? tn_scope_error(s)->message
                      : tn_last_error()       ? tn_last_error()->message
                                              : "";
    fprintf(stderr, "partner %d: %s: %s\n", (int)getpid(), what, why);
    exit(1);
}

static void expect(int good, const char *what)
{
    if (!good) fail(what);
}

/* ---- Memory -------------------------------------------------------------------------------------------- */

static void run_double(int socket)
{
    char byte;
    for (int i = 0; i < 2; i++) { /* the CPU's, then a device's */
        tn_tensor *t = tn_share_receive(s, socket, NULL);
        expect(t != NULL, "receiving");
        tn_mul_scalar_(s, t, 2);
        expect(!tn_device_synchronize(ctx, tn_tensor_device(t)), "doubling");
        expect(write(socket, "d", 1) == 1, "answering");
    }
    expect(read(socket, &byte, 1) == 0, "the other side goes first"); /* the memory stays until then */
}

/* The work of each round waits for what the event has recorded by then. */
static void run_follow(int socket)
{
    tn_event *event = NULL;
    tn_tensor *t = NULL;
    char byte;
    tn_device device = tn_device_choose(ctx, PARTNER_DEVICE, NULL);
    tn_mul_scalar_(s, tn_ones(s, TN_INTS(2), .device = device), 2); /* the first use of a device takes long */
    expect(!tn_device_synchronize(ctx, device), "beginning");
    expect(write(socket, "r", 1) == 1, "being ready");
    for (int i = 0; i < 2; i++) {
        if (i)
            expect(read(socket, &byte, 1) == 1, "the second round");
        else
            t = tn_share_receive(s, socket, &event);
        expect(t && event, "receiving");
        expect(!tn_stream_wait_event(tn_stream_current(ctx, tn_tensor_device(t)), event), "the stream waits");
        tn_mul_scalar_(s, t, 2);
        expect(!tn_device_synchronize(ctx, tn_tensor_device(t)), "doubling");
        expect(write(socket, "d", 1) == 1, "answering");
    }
    tn_event_release(event);
    expect(read(socket, &byte, 1) == 0, "the other side goes first");
}

static void run_send(int socket, const char *device)
{
    const float values[] = {1, 2, 3, 4};
    tn_tensor *t =
        tn_share(s, tn_from_data(s, TN_FLOAT32, TN_INTS(2, 2), values, tn_device_parse(ctx, device)));
    expect(t && !tn_share_send(socket, t, NULL), "sending");
}

/* A tensor that is 7 only when held work has run, which is held until the other side has the event. */
static void run_event(int socket, int is_killed)
{
    tn_device device = tn_device_choose(ctx, PARTNER_DEVICE, NULL);
    tn_tensor *t = tn_share(s, tn_zeros(s, TN_INTS(2), .dtype = TN_FLOAT32, .device = device));
    tn_event *event;
    expect(t && !tn_device_synchronize(ctx, device), "sharing");
    expect(!tn_device_set_setting(ctx, device, "lazy", tn_value_int(60000)), "lazy");
    expect(!tn_event_create(ctx, device, TN_EVENT_INTERPROCESS, &event), "an event");
    tn_fill_scalar_(s, t, 7);
    expect(!tn_event_record(event, tn_stream_current(ctx, device)), "recording");
    expect(!tn_share_send(socket, t, event), "sending");
    char byte;
    expect(read(socket, &byte, 1) == 1, "the other side has it");
    if (is_killed) raise(SIGKILL);
    expect(!tn_device_synchronize(ctx, device), "running the work");
    expect(read(socket, &byte, 1) == 1, "the other side is done");
    tn_event_release(event);
}

/* ---- Ranks --------------------------------------------------------------------------------------------- */

/* Stands before the C library's, for the plugin, too: with PARTNER_SLOW_LOCKS a lock comes a while after it is asked for. */
__attribute__((visibility("default"))) int fcntl(int file, int command, ...)
{
    va_list more;
    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    if (command == F_OFD_SETLK && getenv("PARTNER_SLOW_LOCKS")) usleep(200000);
    return (int)syscall(SYS_fcntl, file, command, argument);
}

typedef struct ranks {
    tn_communicator *all;
    uint32_t world, first, count;
    tn_device devices[MOST];
} ranks;

static void join(char **argv, ranks *r)
{
    unsigned char id[128];
    uint64_t bytes = strlen(argv[0]) / 2;
    expect(bytes <= sizeof id, "the id fits");
    for (uint64_t i = 0; i < bytes; i++) {
        unsigned byte;
        expect(sscanf(argv[0] + 2 * i, "%2x", &byte) == 1, "the id");
        id[i] = (unsigned char)byte;
    }
    *r = (ranks){
        .world = (uint32_t)atoi(argv[1]), .first = (uint32_t)atoi(argv[2]), .count = (uint32_t)atoi(argv[3])};
    tn_device first = tn_device_choose(ctx, PARTNER_DEVICE, NULL);
    for (uint32_t i = 0; i < r->count; i++) r->devices[i] = TN_DEVICE(TN_DEVICE_TYPE(first), i);
    const tn_communicator_group group = {.size = sizeof group,
                                         .count = r->count,
                                         .first_rank = r->first,
                                         .world = r->world,
                                         .devices = r->devices,
                                         .id = id,
                                         .id_bytes = bytes};
    expect(!tn_communicator_join(ctx, &group, &r->all), "joining");
    expect(tn_communicator_world(r->all) == r->world && tn_communicator_first_rank(r->all) == r->first,
           "its ranks");
}

/* Element i of each local rank's tensor: a * (rank + 1) + i. */
static void fill(const ranks *r, int64_t count, double a, tn_tensor **out)
{
    for (uint32_t k = 0; k < r->count; k++) {
        tn_tensor *t = tn_arange(s, count, .dtype = TN_FLOAT64, .device = r->devices[k]);
        out[k] = tn_add_scalar(s, t, a * (r->first + k + 1));
    }
}

/* Whether element i of a tensor of rank k is what the formula says. */
typedef double formula(const ranks *r, uint32_t rank, int64_t i, int64_t count);

static void expect_elements(const ranks *r, tn_tensor **t, int64_t count, formula *want, const char *what)
{
    for (uint32_t k = 0; k < r->count; k++) {
        int64_t n = tn_tensor_numel(t[k]);
        double *got = malloc((size_t)n * sizeof *got);
        expect(!tn_to_host(s, t[k], got, (uint64_t)n * sizeof *got), what);
        for (int64_t i = 0; i < n; i++) {
            if (got[i] == want(r, r->first + k, i, count)) continue;
            fprintf(stderr, "rank %u, element %lld of %lld is %g, expected %g\n", r->first + k, (long long)i,
                    (long long)n, got[i], want(r, r->first + k, i, count));
            fail(what);
        }
        free(got);
    }
}

#define STEP 1e6

static double sum_of(const ranks *r, uint32_t rank, int64_t i, int64_t count)
{
    (void)rank, (void)count;
    return STEP * r->world * (r->world + 1) / 2 + (double)r->world * (double)i;
}

static double average_of_parts(const ranks *r, uint32_t rank, int64_t i, int64_t count)
{
    return STEP * (r->world + 1) / 2 + (double)(rank * count + i);
}

static double of_last(const ranks *r, uint32_t rank, int64_t i, int64_t count)
{
    (void)rank, (void)count;
    return STEP * r->world + (double)i;
}

static double gathered(const ranks *r, uint32_t rank, int64_t i, int64_t count)
{
    (void)r, (void)rank;
    return STEP * (double)(i / count + 1) + (double)(i % count);
}

static double exchanged(const ranks *r, uint32_t rank, int64_t i, int64_t count)
{
    (void)r;
    return STEP * (double)(i / count + 1) + (double)(rank * count + i % count);
}

static double of_previous(const ranks *r, uint32_t rank, int64_t i, int64_t count)
{
    (void)count;
    return STEP * ((rank + r->world - 1) % r->world + 1) + (double)i;
}

/* Each rank sends to the next. A message that does not fit in a slot waits for its receiver, so even ranks send first. */
static void pass_on(const ranks *r, int64_t count)
{
    tn_tensor *mine[MOST], *got[MOST];
    fill(r, count, STEP, mine);
    fill(r, count, 0, got);
    for (uint32_t k = 0; k < r->count; k++) {
        uint32_t rank = r->first + k, next = (rank + 1) % r->world, before = (rank + r->world - 1) % r->world;
        if (rank % 2 == 0) expect(!tn_communicator_send(r->all, mine[k], next), "send");
        expect(!tn_communicator_receive(r->all, got[k], before), "receive");
        if (rank % 2) expect(!tn_communicator_send(r->all, mine[k], next), "send");
    }
    expect_elements(r, got, count, of_previous, "what the rank before sent");
}

static void run_size(const ranks *r, int64_t count)
{
    tn_tensor *a[MOST], *b[MOST];
    fill(r, count, STEP, a);
    expect(!tn_communicator_all_reduce(r->all, a, r->count, TN_REDUCE_SUM), "all_reduce");
    expect_elements(r, a, count, sum_of, "all_reduce");
    fill(r, count, STEP, a);
    expect(!tn_communicator_broadcast(r->all, a, r->count, r->world - 1), "broadcast");
    expect_elements(r, a, count, of_last, "broadcast");
    fill(r, count, STEP, a);
    fill(r, count * r->world, 0, b);
    expect(!tn_communicator_all_gather(r->all, b, a, r->count), "all_gather");
    expect_elements(r, b, count, gathered, "all_gather");
    fill(r, count * r->world, STEP, b);
    expect(!tn_communicator_reduce_scatter(r->all, a, b, r->count, TN_REDUCE_AVERAGE), "reduce_scatter");
    expect_elements(r, a, count, average_of_parts, "reduce_scatter");
    tn_tensor *c[MOST];
    fill(r, count * r->world, 0, c);
    fill(r, count * r->world, STEP, b);
    expect(!tn_communicator_all_to_all(r->all, c, b, r->count), "all_to_all");
    expect_elements(r, c, count, exchanged, "all_to_all");
    pass_on(r, count);
    expect(!tn_communicator_barrier(r->all), "barrier");
}

static void run_rank(char **argv)
{
    ranks r;
    join(argv, &r);
    run_size(&r, 1);
    run_size(&r, 5);
    run_size(&r, 20001); /* several windows and slots of the reference plugin */
    expect(!tn_communicator_status(r.all), "the status");
    expect(!tn_communicator_barrier(r.all) && !tn_device_synchronize(ctx, r.devices[0]), "the last barrier");
    tn_communicator_release(r.all);
}

/* The error comes with a wait, which the test's own limit ends otherwise, and stays with the communicator. */
static void run_stay(char **argv)
{
    ranks r;
    tn_tensor *a[MOST];
    join(argv, &r);
    fill(&r, 3, STEP, a);
    expect(!tn_communicator_all_reduce(r.all, a, r.count, TN_REDUCE_SUM), "queueing");
    expect(tn_device_synchronize(ctx, r.devices[0]) == TN_E_STATE, "an error");
    expect(strstr(tn_last_error()->message, "has ended") != NULL, "which rank it was");
    expect(tn_communicator_status(r.all) == TN_E_STATE, "the status");
    expect(strstr(tn_last_error()->message, "the process of rank ") != NULL, "the status says it");
    expect(tn_communicator_all_reduce(r.all, a, r.count, TN_REDUCE_SUM) == TN_E_STATE, "later calls");
    expect(!tn_communicator_abort(r.all), "abort");
    tn_communicator_release(r.all);
}

static void discard(void *user, int32_t level, const char *line)
{
    (void)user, (void)level, (void)line;
}

int main(int argc, char **argv)
{
    const tn_context_options options = {.size = sizeof options, .log = discard};
    expect(argc > 2 && !tn_context_create(&options, &ctx), "starting");
    s = tn_scope_open(ctx);
    const char *what = argv[1];
    if (!strcmp(what, "double")) run_double(atoi(argv[2]));
    if (!strcmp(what, "follow")) run_follow(atoi(argv[2]));
    if (!strcmp(what, "send")) run_send(atoi(argv[2]), argv[3]);
    if (!strcmp(what, "event")) run_event(atoi(argv[2]), 0);
    if (!strcmp(what, "orphan")) run_event(atoi(argv[2]), 1);
    if (!strcmp(what, "rank")) run_rank(argv + 2);
    if (!strcmp(what, "stay")) run_stay(argv + 2);
    if (!strcmp(what, "leave")) {
        ranks r;
        join(argv + 2, &r);
        raise(SIGKILL);
    }
    expect(!tn_scope_failed(s), "the scope");
    tn_scope_close(s);
    tn_context_destroy(ctx);
    return 0;
}
