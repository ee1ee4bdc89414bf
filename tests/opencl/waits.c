/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every wait of a plugin of the GPU family, on a driver that begins no work before the host waits for it (../gpu/late.h). Each
 * test needs one wait; mutants.py takes them out one by one. Nothing depends on who is faster: whoever does not wait finds
 * the work unfinished, what must be unfinished is held by a gate, and threads meet where one waits for the other.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/plugin.h>
#include <tenon/tenon.h>
#include <time.h>
#include <unistd.h>
#include "../core/gate.h"
#include "../gpu/caller.h"
#include "../gpu/device_suite.h"
#include "../gpu/gate_file.h"
#include "../gpu/late.h"

#define DELAY  40 /* milliseconds */
#define COUNT  1000
#define PASSED (DELAY - 5) /* what at least has passed after one delay */

/* Whether the plugin itself waits for work behind a callback; others wait in the driver, which makes the blocked file. */
#define HOLDS_BACK (strcmp(DEVICE, "xpu") == 0)

static tn_stream *home, *side;
enum { FILE_NAME = GATE_NAME + 16 };
static char gate_file[GATE_NAME], reached_file[FILE_NAME], blocked_file[FILE_NAME], signal_file[FILE_NAME],
    meeting_file[FILE_NAME];
static atomic_int is_called, called, is_open, saw_open, has_read;
static gate in_callback;

static void make_file(const char *name)
{
    int file = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0) close(file);
}

static void close_gate(void)
{
    make_file(gate_file);
    cr_assert_eq(access(gate_file, F_OK), 0);
}

static void open_gate(void)
{
    unlink(gate_file);
}

static void remove_files(void)
{
    open_gate();
    unlink(reached_file);
    unlink(blocked_file);
    unlink(signal_file);
    unlink(meeting_file);
}

static double milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- Threads of the plugin that wait for each other. Sanitizers have these functions for themselves ------------------- */

#define SEES_WAITS (!TN_SANITIZER)
#if SEES_WAITS

/* The C library's own. */
#define LIBC(name)                                 \
    static __typeof__(&name) _Atomic real_##name;  \
    __typeof__(&name) real = real_##name;          \
    if (!real) {                                   \
        *(void **)&real = dlsym(RTLD_NEXT, #name); \
        real_##name = real;                        \
    }

/* These stand before the C library's, for the plugin, too. */
__attribute__((visibility("default"))) int pthread_cond_wait(pthread_cond_t *condition,
                                                             pthread_mutex_t *mutex)
{
    LIBC(pthread_cond_wait)
    const int is_plugin = is_of(__builtin_return_address(0), "libtenon_" DEVICE);
    if (signal_file[0] && is_plugin) make_file(signal_file);
    if (HOLDS_BACK && blocked_file[0] && is_plugin) make_file(blocked_file);
    return real(condition, mutex);
}

__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    LIBC(pthread_mutex_lock)
    if (!meeting_file[0] || !is_of(__builtin_return_address(0), "libtenon")) return real(mutex);
    int status = pthread_mutex_trylock(mutex);
    if (status != EBUSY) return status;
    make_file(meeting_file);
    return real(mutex);
}
#endif

/* Asks the driver for what the variable says, and gives the name of the file that it waits for. */
static void ask_driver(const char *variable, char name[FILE_NAME])
{
    snprintf(name, FILE_NAME, "%s.%s", gate_file, variable);
    setenv(variable, name, 1);
}

/* The kernels are compiled before: a compilation would hide a wait. */
static void open_device(void)
{
    open_tested_device();
    gate_init(&in_callback);
    home = tn_stream_current(ctx, device);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    tn_tensor *index = tn_zeros(s, TN_INTS(4), .dtype = TN_INT64);
    tn_nonzero(s, tn_gather(s, tn_add_scalar(s, tn_ones(s, TN_INTS(COUNT)), 1.0), 0, index));
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    name_gate(gate_file);
    snprintf(reached_file, sizeof reached_file, "%s.reached", gate_file);
    snprintf(blocked_file, sizeof blocked_file, "%s.blocked", gate_file);
    setenv("FAULTY_GATE", gate_file, 1);
    setenv("FAULTY_UNASKED", "1", 1);
}
static void close_streams(void)
{
    atomic_store(&has_read, 1); /* callbacks of a test that has failed return */
    gate_open(&in_callback);
    open_gate();
    unsetenv("FAULTY_UNASKED");
    tn_stream_release(side);
    close_device();
    remove_files(); /* the driver makes some until then */
}
TestSuite(waits, .init = open_device, .fini = close_streams, .timeout = 60);

static tn_tensor *ready_ones(void)
{
    tn_tensor *x = tn_ones(s, TN_INTS(COUNT), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    return x;
}

/* A tensor of ones that one late kernel will make threes. */
static tn_tensor *late_threes(void)
{
    return tn_add_scalar_(s, ready_ones(), 2.0);
}

/* The same kernel behind the gate. */
static tn_tensor *held_threes(void)
{
    tn_tensor *x = ready_ones();
    close_gate();
    return tn_add_scalar_(s, x, 2.0);
}

static void expect_threes(const tn_tensor *x)
{
    static float values[COUNT];
    memset(values, 0, sizeof values);
    cr_assert_eq(tn_to_host(s, x, values, sizeof values), TN_OK);
    for (int i = 0; i < COUNT; i++) cr_assert_eq(values[i], 3, "element %d is %f", i, (double)values[i]);
}

/* Reads on another stream, which does not wait for the work by itself. */
static void expect_threes_beside(const tn_tensor *x)
{
    tn_stream_set_current(ctx, side);
    expect_threes(x);
    tn_stream_set_current(ctx, home);
}

Test(waits, a_read_waits_for_the_work_before_it)
{
    expect_threes(late_threes());
}

Test(waits, a_device_synchronises_all_streams)
{
    tn_tensor *x = late_threes();
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    expect_threes_beside(x);
}

/* The gate opens, and the stream gets to its end. */
static void wait_by_queries(void)
{
    cr_assert_eq(tn_stream_query(home), 0);
    open_gate();
    while (tn_stream_query(home) == 0) usleep(100);
}

Test(waits, a_query_says_what_is_done)
{
    tn_tensor *x = held_threes();
    wait_by_queries();
    close_gate();
    tn_mul_scalar_(s, x, 5.0); /* later work needs a later answer */
    tn_add_scalar_(s, x, -12.0);
    wait_by_queries();
    expect_threes_beside(x);
}

Test(waits, a_stream_waits_for_a_stream)
{
    tn_tensor *x = late_threes();
    cr_assert_eq(tn_stream_wait_stream(side, home), TN_OK);
    expect_threes_beside(x);
}

Test(waits, a_stream_waits_for_an_event_of_another_device)
{
    tn_event *event;
    tn_stream *there;
    tn_device other = tn_device_parse(ctx, DEVICE ":1");
    if (tn_device_count(ctx, DEVICE) < 2) cr_skip_test("one device only");
    cr_assert_eq(tn_event_create(ctx, device, 0, &event), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, other, 0, &there), TN_OK);
    tn_tensor *x = late_threes();
    cr_assert_eq(tn_event_record(event, home), TN_OK);
    cr_assert_eq(tn_stream_wait_event(there, event), TN_OK);
    cr_assert_eq(tn_stream_synchronize(there), TN_OK);
    expect_threes_beside(x);
    tn_event_release(event);
    tn_stream_release(there);
}

Test(waits, an_event_waits_and_is_asked)
{
    tn_event *event;
    cr_assert_eq(tn_event_create(ctx, device, 0, &event), TN_OK);
    tn_tensor *x = held_threes();
    cr_assert_eq(tn_event_record(event, home), TN_OK);
    cr_assert_eq(tn_event_query(event), 0);
    open_gate();
    cr_assert_eq(tn_event_synchronize(event), TN_OK);
    cr_assert_eq(tn_event_query(event), 1);
    expect_threes_beside(x);
    tn_event_release(event);
}

Test(waits, the_time_between_events_has_the_work_between_them)
{
    tn_event *start, *stop;
    char delay[16];
    snprintf(delay, sizeof delay, "%d", DELAY);
    setenv("FAULTY_DELAY", delay, 1);
    double ms = 0, begin = milliseconds();
    cr_assert_eq(tn_event_create(ctx, device, TN_EVENT_TIMING, &start), TN_OK);
    cr_assert_eq(tn_event_create(ctx, device, TN_EVENT_TIMING, &stop), TN_OK);
    cr_assert_eq(tn_event_record(start, home), TN_OK);
    late_threes(); /* waits for the first event, then for the delay */
    cr_assert_eq(tn_event_record(stop, home), TN_OK);
    cr_assert_eq(tn_event_elapsed(start, stop, &ms), TN_OK, "%s", tn_last_error()->message);
    /* The device's clock may run a little faster than the host's, and is not read at the same time. */
    const double most = 1.1 * (milliseconds() - begin) + 5;
    cr_assert(ms >= PASSED && ms < most, "%f ms of %f", ms, most);
    unsetenv("FAULTY_DELAY");
    tn_event_release(start);
    tn_event_release(stop);
}

static tn_event *recorded_event(tn_stream *stream)
{
    tn_event *event;
    cr_assert_eq(tn_event_create(ctx, device, 0, &event), TN_OK);
    cr_assert_eq(tn_event_record(event, stream), TN_OK);
    return event;
}

/* The side stream comes to its wait when the event has long been signalled, released, and another was recorded. */
Test(waits, a_released_event_stays_for_a_stream_that_waits_for_it)
{
    tn_tensor *x = tn_ones(s, TN_INTS(COUNT), .dtype = TN_FLOAT32);
    tn_tensor *y = tn_ones(s, TN_INTS(COUNT), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    tn_stream_set_current(ctx, side);
    for (int i = 0; i < 4; i++) tn_add_scalar_(s, y, 0.5);
    tn_stream_set_current(ctx, home);
    tn_add_scalar_(s, x, 2.0);
    tn_event *event = recorded_event(home);
    cr_assert_eq(tn_stream_wait_event(side, event), TN_OK);
    tn_event_release(event);
    cr_assert_eq(tn_stream_synchronize(home), TN_OK);
    for (int i = 0; i < 16; i++) tn_event_release(recorded_event(home));
    tn_stream_set_current(ctx, side);
    expect_threes(x);
    expect_threes(y);
    tn_stream_set_current(ctx, home);
}

Test(waits, an_event_that_is_released_before_its_work_is_not_the_next_one)
{
    tn_tensor *x = late_threes();
    for (int i = 0; i < 4; i++) tn_event_release(recorded_event(home));
    tn_event *event = recorded_event(side); /* done at once */
    cr_assert_eq(tn_event_synchronize(event), TN_OK);
    tn_event_release(event);
    expect_threes(x);
}

static void *record_events(void *data)
{
    for (int i = 0; i < 20; i++) tn_event_release(recorded_event(home));
    return NULL;
}

/* Whoever is first in a call that uses the list stays until the other one waits for a lock, or is in one, too. */
Test(waits, two_threads_use_one_stream)
{
    pthread_t thread;
    tn_tensor *x = late_threes();
    if (SEES_WAITS) ask_driver("FAULTY_MEETING", meeting_file);
    cr_assert_eq(pthread_create(&thread, NULL, record_events, NULL), 0);
    for (int i = 0; i < 4; i++) tn_add_scalar_(s, x, i % 2 ? 2.0 : -2.0);
    pthread_join(thread, NULL);
    expect_threes(x);
}

/* ---- Callbacks ---------------------------------------------------------------------------------------------- */

/* Until the flag is set, or the driver has made the file. */
static void wait_for(const atomic_int *flag, const char *file)
{
    while (!atomic_load(flag) && access(file, F_OK) != 0) usleep(100);
}

/* Returns when the reader waits for it, or has not waited; at once if it was called too early. */
static void note_gate(void *user)
{
    atomic_store(&saw_open, atomic_load(&is_open));
    atomic_store(&is_called, 1);
    if (atomic_load(&saw_open) && HOLDS_BACK && !SEES_WAITS)
        usleep(100000); /* only a reader that does not wait has to be fast */
    else if (atomic_load(&saw_open))
        wait_for(&has_read, blocked_file);
    atomic_store(&called, 1);
}

Test(waits, a_callback_comes_after_the_work_before_it_and_later_work_after_it)
{
    tn_tensor *x = held_threes();
    cr_assert_eq(tn_stream_add_callback(home, note_gate, NULL), TN_OK);
    wait_for(&is_called, reached_file);
    atomic_store(&is_open, 1);
    open_gate();
    expect_threes(x);
    int was_called = atomic_load(&called);
    atomic_store(&has_read, 1);
    cr_assert(was_called, "the read did not wait for the callback");
    cr_assert(atomic_load(&saw_open), "the callback did not wait for the work before it");
}

/* The work behind a callback, for which another stream waits, begins when it has returned. */
Test(waits, a_stream_waits_for_what_is_behind_a_callback)
{
    tn_tensor *x = ready_ones();
    cr_assert_eq(tn_stream_add_callback(home, gate_wait, &in_callback), TN_OK);
    tn_add_scalar_(s, x, 2.0);
    tn_event *event = recorded_event(home);
    cr_assert_eq(tn_stream_wait_event(side, event), TN_OK);
    for (int i = 0; i < 2 * QUESTIONS; i++) cr_assert_eq(tn_event_query(event), 0);
    gate_open(&in_callback);
    tn_event_release(event);
    expect_threes_beside(x);
}

static void note_call(void *user)
{
    atomic_store(&called, 1);
}

/* The device closes when the thread of the callback needs it no more, which signals until the device waits for it. */
Test(waits, a_device_closes_after_its_callbacks)
{
    const int has_threads = strcmp(DEVICE, "opencl") == 0; /* that call the driver behind the callback */
    tn_context *own;
    cr_assert_eq(tn_context_create(NULL, &own), TN_OK);
    tn_stream *stream = tn_stream_current(own, tn_device_parse(own, DEVICE ":0"));
    if (SEES_WAITS && has_threads) ask_driver("FAULTY_SIGNALS", signal_file);
    cr_assert_eq(tn_stream_add_callback(stream, note_call, NULL), TN_OK);
    tn_context_destroy(own);
    cr_assert(atomic_load(&called));
    if (signal_file[0])
        cr_assert_eq(access(signal_file, F_OK), 0, "the device closed before its thread had ended");
}

/* ---- Flushes ------------------------------------------------------------------------------------------------- */

#ifdef FLUSHES
Test(waits, a_stream_waits_for_another_device_and_the_host_does_not)
{
    tn_stream *there;
    cr_assert_eq(tn_stream_create(ctx, tn_device_parse(ctx, DEVICE ":1"), 0, &there), TN_OK);
    tn_tensor *x = held_threes();
    tn_event *event = recorded_event(home);
    cr_assert_eq(tn_stream_wait_event(there, event), TN_OK);
    tn_event_release(event);
    cr_assert_eq(tn_stream_query(there), 0);
    open_gate();
    cr_assert_eq(tn_stream_synchronize(there), TN_OK);
    expect_threes_beside(x);
    tn_stream_release(there);
}

Test(waits, the_host_waits_for_an_event)
{
    tn_tensor *x = late_threes();
    tn_event *event = recorded_event(home);
    cr_assert_eq(tn_event_synchronize(event), TN_OK);
    expect_threes_beside(x);
    tn_event_release(event);
}

static void open_unflushed(void)
{
    open_device();
    unsetenv("FAULTY_UNASKED");
    setenv("FAULTY_UNFLUSHED", "1", 1);
}
static void close_unflushed(void)
{
    unsetenv("FAULTY_UNFLUSHED");
    close_streams();
}
TestSuite(flushes, .init = open_unflushed, .fini = close_unflushed, .timeout = 60);

/* By an event, by questions, and by another stream, on a driver that begins nothing by itself. */
Test(flushes, what_is_waited_for_is_begun)
{
    tn_tensor *x = late_threes();
    tn_event *event = recorded_event(home);
    cr_assert_eq(tn_event_synchronize(event), TN_OK);
    tn_event_release(event);
    tn_mul_scalar_(s, x, 5.0);
    tn_add_scalar_(s, x, -12.0);
    event = recorded_event(home);
    while (tn_event_query(event) == 0) usleep(100);
    tn_event_release(event);
    tn_mul_scalar_(s, x, 5.0);
    tn_add_scalar_(s, x, -12.0);
    while (tn_stream_query(home) == 0) usleep(100);
    tn_mul_scalar_(s, x, 5.0);
    tn_add_scalar_(s, x, -12.0);
    cr_assert_eq(tn_stream_add_callback(home, note_call, NULL), TN_OK);
    while (!atomic_load(&called)) usleep(100);
    tn_mul_scalar_(s, x, 5.0);
    tn_add_scalar_(s, x, -12.0);
    cr_assert_eq(tn_stream_wait_stream(side, home), TN_OK);
    expect_threes_beside(x);
}

static off_t size_of(const char *file)
{
    struct stat of = {0};
    stat(file, &of);
    return of.st_size;
}

Test(flushes, are_few_and_not_none)
{
    enum { LAUNCHES = 160 };
    char file[FILE_NAME];
    tn_tensor *x = ready_ones();
    ask_driver("FAULTY_FLUSHES", file);
    for (int i = 0; i < LAUNCHES; i++) tn_add_scalar_(s, x, 1.0 / 64);
    const off_t flushes = size_of(file);
    unsetenv("FAULTY_FLUSHES");
    unlink(file);
    cr_expect(flushes >= LAUNCHES / 64 && flushes <= LAUNCHES / 16 + 1, "%d flushes", (int)flushes);
    tn_add_scalar_(s, x, 2.0 - LAUNCHES / 64.0);
    expect_threes(x);
}
#endif

/* ---- Waits inside of operators ------------------------------------------------------------------------------ */

Test(waits, nonzero_waits_for_the_number_of_its_results)
{
    tn_tensor *x = tn_zeros(s, TN_INTS(COUNT), .dtype = TN_FLOAT32);
    tn_add_scalar_(s, x, 1.0);
    tn_tensor *places = tn_nonzero(s, x);
    cr_assert_eq(tn_scope_failed(s), TN_OK);
    cr_assert_eq(tn_tensor_size(places, 0), COUNT);
}

Test(waits, a_late_error_is_read_whole)
{
    tn_tensor *x = tn_ones(s, TN_INTS(5), .dtype = TN_FLOAT32);
    tn_tensor *index = tn_from_data(s, TN_INT64, TN_INTS(1), (int64_t[]){7}, device);
    float value;
    for (int i = 0; i < 2; i++) { /* the second time from memory that the first one has cleared */
        int32_t status = tn_to_host(s, tn_gather(s, x, 0, index), &value, sizeof value);
        cr_assert_eq(status, TN_E_INDEX, "%d", status);
        cr_assert_not_null(
            strstr(tn_scope_error(s)->message, "index 7 is out of bounds for dimension with size 5"));
        tn_scope_clear(s);
        cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    }
}

/* The stream that has met the error still works when a stream that waited for its result reads that. */
Test(waits, an_error_is_told_where_the_result_is_read)
{
    tn_tensor *x = tn_ones(s, TN_INTS(5), .dtype = TN_FLOAT32);
    tn_tensor *index = tn_from_data(s, TN_INT64, TN_INTS(1), (int64_t[]){7}, device);
    float value;
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    tn_tensor *y = tn_gather(s, x, 0, index);
    tn_event *event = recorded_event(home);
    cr_assert_eq(tn_stream_add_callback(home, gate_wait, &in_callback), TN_OK);
    cr_assert_eq(tn_stream_wait_event(side, event), TN_OK);
    tn_event_release(event);
    tn_stream_set_current(ctx, side);
    int32_t status = tn_to_host(s, tn_add_scalar(s, y, 1.0), &value, sizeof value);
    tn_stream_set_current(ctx, home);
    cr_assert_eq(tn_stream_query(home), 0, "the stream has ended");
    gate_open(&in_callback);
    cr_assert_eq(status, TN_E_INDEX, "%d", status);
    cr_assert_not_null(
        strstr(tn_scope_error(s)->message, "index 7 is out of bounds for dimension with size 5"));
    tn_scope_clear(s);
    status = tn_stream_synchronize(home);
    cr_assert_eq(status, TN_E_INDEX, "%d", status);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
}
