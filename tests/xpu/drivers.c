/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drivers and devices of Level Zero that differ: without float64, with several engines, other clocks, limits, tiles, and versions
 * that do not know what the plugin would like. ze_driver.c says what the settings mean; each is made before the driver is asked.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <level_zero/ze_api.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "../core/gate.h"

#define DEVICE "xpu"
#include "../gpu/caller.h"
#include "../gpu/device_suite.h"
#include "../gpu/gate_file.h"

TestSuite(drivers, .fini = close_device, .timeout = 120);

/* ---- What the driver reports, in a file of the test -------------------------------------------------------------- */

static char report_file[64], said[16384];

static void listen(const char *setting)
{
    snprintf(report_file, sizeof report_file, "/tmp/tenon_xpu_drivers_XXXXXX");
    const int file = mkstemp(report_file);
    cr_assert_geq(file, 0);
    close(file);
    setenv("ZE_TEST_REPORT", report_file, 1);
    setenv(setting, "1", 1);
}

/* Reads what was said, and begins again. */
static void heard(void)
{
    FILE *file = fopen(report_file, "r+");
    cr_assert_not_null(file);
    const size_t n = fread(said, 1, sizeof said - 1, file);
    said[n] = 0;
    fclose(file);
    cr_assert_eq(truncate(report_file, 0), 0);
}

static void stop_listening(const char *setting)
{
    unsetenv("ZE_TEST_REPORT");
    unsetenv(setting);
    unlink(report_file);
}

/* ---- Modules --------------------------------------------------------------------------------------------------- */

/* The driver refuses every module that declares doubles. */
Test(drivers, a_device_without_float64_computes_the_other_dtypes)
{
    float sum, products[4];
    int64_t whole[2];
    setenv("FAULTY_NO_DOUBLE", "1", 1);
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1); /* programs are compiled */
    open_without_fallback();
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(2, 2), (float[]){1, 2, 3, 4}, device);
    tn_tensor *y = tn__to_copy(s, tn__to_copy(s, x, .dtype = TN_FLOAT16), .dtype = TN_FLOAT32);
    tn_tensor *i = tn_from_data(s, TN_INT64, TN_INTS(2), (int64_t[]){7, 5}, device);
    cr_assert_eq(tn_to_host(s, tn_mm(s, x, y), products, sizeof products), TN_OK, "%s",
                 tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(tn_to_host(s, tn_sum(s, x), &sum, sizeof sum), TN_OK);
    cr_assert_eq(tn_to_host(s, tn_add(s, i, i), whole, sizeof whole), TN_OK);
    cr_assert(products[0] == 7 && products[1] == 10 && products[2] == 15 && products[3] == 22);
    cr_assert(sum == 10 && whole[0] == 14 && whole[1] == 10);
}

static const char *flags_of_a_module(void)
{
    open_without_fallback();
    cr_assert_not_null(tn_add_scalar(s, pair(device, 1, 2), 1));
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    close_device();
    heard();
    cr_expect_null(strstr(said, "the code was built for another device"), "%s", said);
    char *end = strchr(said, '\n');
    if (end) *end = 0;
    return said;
}

/* The compiled code is kept, and is not taken when the flags would be others. */
Test(drivers, build_flags_follow_the_device)
{
    char cache[] = "/tmp/tenon_xpu_cache_XXXXXX", command[64];
    cr_assert_not_null(mkdtemp(cache));
    setenv("XDG_CACHE_HOME", cache, 1);
    listen("ZE_TEST_FLAGS");
    for (int i = 0; i < 2; i++)
        cr_expect_str_eq(flags_of_a_module(),
                         "ze_driver: zeModuleCreate: flags '-ze-fp32-correctly-rounded-divide-sqrt "
                         "-ze-opt-greater-than-4GB-buffer-required'");
    setenv("ZE_TEST_MEMORY", "2147483648", 1);
    cr_expect_str_eq(flags_of_a_module(),
                     "ze_driver: zeModuleCreate: flags '-ze-fp32-correctly-rounded-divide-sqrt'");
    setenv("ZE_TEST_UNROUNDED", "1", 1);
    cr_expect_str_eq(flags_of_a_module(), "ze_driver: zeModuleCreate: flags ''");
    setenv("FAULTY_NO_DOUBLE", "1", 1);
    cr_expect_str_eq(flags_of_a_module(), "ze_driver: zeModuleCreate: flags ''");
    stop_listening("ZE_TEST_FLAGS");
    snprintf(command, sizeof command, "rm -r %s", cache);
    cr_expect_eq(system(command), 0);
}

/* ---- Queues and callbacks ---------------------------------------------------------------------------------------- */

Test(drivers, streams_take_turns_on_the_engines)
{
    enum { STREAMS = 7, ENGINES = 3 };
    tn_stream *streams[STREAMS];
    unsigned index, last = 0;
    int n = 0;
    open_tested_device();
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    listen("ZE_TEST_INDICES");
    for (int i = 0; i < STREAMS; i++)
        cr_assert_eq(tn_stream_create(ctx, device, 0, &streams[i]), TN_OK, "%s", tn_last_error()->message);
    heard();
    stop_listening("ZE_TEST_INDICES");
    for (const char *line = said; (line = strstr(line, "index ")); n++) {
        cr_assert_eq(sscanf(line, "index %u", &index), 1);
        cr_expect(index < ENGINES && (!n || index == (last + 1) % ENGINES), "%u after %u", index, last);
        last = index;
        line++;
    }
    cr_assert_eq(n, STREAMS, "%s", said);
    for (int i = 0; i < STREAMS; i++) tn_stream_release(streams[i]);
}

static atomic_int calls;

static void count_call(void *user)
{
    atomic_fetch_add(&calls, 1);
}

/* A stream whose callback has not returned, with work behind it and an event at the end. */
static tn_event *hold_stream(tn_stream *stream, gate *in_callback, tn_tensor *x)
{
    tn_event *event;
    tn_stream *home = tn_stream_current(ctx, device);
    gate_init(in_callback);
    cr_assert_eq(tn_stream_add_callback(stream, gate_wait, in_callback), TN_OK, "%s",
                 tn_last_error()->message);
    tn_stream_set_current(ctx, stream);
    tn_add_scalar_(s, x, 1);
    tn_stream_set_current(ctx, home);
    cr_assert_eq(tn_event_create(ctx, device, 0, &event), TN_OK);
    cr_assert_eq(tn_event_record(event, stream), TN_OK, "%s", tn_last_error()->message);
    return event;
}

/* No list of the driver waits for the callback (ze_lists.c reports those that do): other streams go on, and those that wait for
 * what is behind it are held back as well, each callback in its turn. */
Test(drivers, work_behind_a_callback_waits_on_the_host)
{
    gate in_callback;
    tn_stream *side, *third;
    open_tested_device();
    tn_tensor *x = pair(device, 1, 2), *y = pair(device, 5, 6);
    tn_stream *home = tn_stream_current(ctx, device);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &third), TN_OK);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    tn_event *event = hold_stream(side, &in_callback, x);
    cr_assert_eq(tn_stream_wait_event(third, event), TN_OK);
    cr_assert_eq(tn_stream_add_callback(third, count_call, NULL), TN_OK);
    tn_stream_set_current(ctx, third);
    tn_mul_scalar_(s, x, 10);
    tn_zero_(s, y);
    tn_stream_set_current(ctx, home);
    expect_pair(y, 5, 6);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(tn_stream_query(side), 0);
        cr_assert_eq(tn_stream_query(third), 0);
        cr_assert_eq(tn_event_query(event), 0);
        usleep(1000);
    }
    cr_expect_eq(atomic_load(&calls), 0);
    gate_open(&in_callback);
    tn_stream_set_current(ctx, third);
    expect_pair(x, 20, 30);
    expect_pair(y, 0, 0);
    cr_expect_eq(atomic_load(&calls), 1);
    tn_stream_set_current(ctx, home);
    tn_event_release(event);
    tn_stream_release(side);
    tn_stream_release(third);
}

static void *open_later(void *user)
{
    usleep(30000);
    gate_open(user);
    return NULL;
}

/* Events are taken from those that were used before: the driver says that they have come until they are appended. */
static void use_events(void)
{
    tn_event *events[8];
    tn_stream *home = tn_stream_current(ctx, device);
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(tn_event_create(ctx, device, 0, &events[i]), TN_OK);
        cr_assert_eq(tn_event_record(events[i], home), TN_OK);
        cr_assert_eq(tn_event_synchronize(events[i]), TN_OK);
    }
    for (int i = 0; i < 8; i++) tn_event_release(events[i]);
}

static void expect_wait_for_a_callback(int is_by_event)
{
    gate in_callback;
    pthread_t thread;
    tn_stream *side;
    open_tested_device();
    tn_tensor *x = pair(device, 1, 2);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    use_events();
    tn_event *event = hold_stream(side, &in_callback, x);
    cr_expect_eq(tn_event_query(event), 0);
    cr_assert_eq(pthread_create(&thread, NULL, open_later, &in_callback), 0);
    cr_expect_eq(is_by_event ? tn_event_synchronize(event) : tn_stream_synchronize(side), TN_OK);
    cr_expect_eq(in_callback.calls, 1, "the host has not waited for the callback");
    pthread_join(thread, NULL);
    cr_expect_eq(tn_stream_synchronize(side), TN_OK);
    tn_event_release(event);
    tn_stream_release(side);
    expect_pair(x, 2, 3);
}

Test(drivers, the_host_waits_for_an_event_behind_a_callback)
{
    expect_wait_for_a_callback(1);
}

Test(drivers, the_host_waits_for_a_stream_behind_a_callback)
{
    expect_wait_for_a_callback(0);
}

/* The call that queued the work has returned, so the next wait for the stream tells; the event comes nevertheless. */
static void expect_late_failure(const char *fault, int32_t status)
{
    gate in_callback;
    tn_stream *side;
    setenv("FAULTY_FAIL", fault, 1);
    open_tested_device();
    tn_tensor *x = pair(device, 1, 2);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    tn_event *event = hold_stream(side, &in_callback, x);
    gate_open(&in_callback);
    cr_expect_eq(tn_stream_synchronize(side), status);
    cr_expect_not_null(strstr(tn_last_error()->message, "work behind a callback was not queued"), "%s",
                       tn_last_error()->message);
    cr_expect_neq(tn_event_query(event), 0); /* it has come, and tells of the failure as well */
    cr_expect_eq(tn_stream_synchronize(side), TN_OK);
    cr_expect_eq(tn_device_status(ctx, device), TN_OK);
    tn_event_release(event);
    tn_stream_release(side);
}

Test(drivers, work_behind_a_callback_that_fails)
{
    expect_late_failure("zeCommandListAppendLaunchKernel:1:0x7ffffffe", TN_E_INTERNAL);
}

enum { BARRIERS = 4 }; /* at least so many are needed until the stream has been waited for */

ParameterizedTestParameters(drivers, a_callback_that_fails_is_not_called)
{
    static int nth[] = {1, 2, 3, 4, 5, 6, 7, 8};
    return cr_make_param_array(int, nth, sizeof nth / sizeof *nth);
}

/* Whatever barrier fails: a call that succeeds calls back once, a call that fails never. */
ParameterizedTest(int *nth, drivers, a_callback_that_fails_is_not_called)
{
    char fault[64];
    snprintf(fault, sizeof fault, "zeCommandListAppendBarrier:%d:0x7ffffffe", *nth);
    setenv("FAULTY_FAIL", fault, 1);
    open_tested_device();
    tn_stream *side;
    const int32_t made = tn_stream_create(ctx, device, 0, &side);
    const int32_t status = made ? made : tn_stream_add_callback(side, count_call, NULL);
    const int32_t waited = made ? made : tn_stream_synchronize(side);
    const int called = atomic_load(&calls);
    if (!made) tn_stream_release(side);
    close_device();
    cr_expect_eq(atomic_load(&calls), status ? 0 : 1);
    if (*nth <= BARRIERS) cr_expect(status || waited, "nobody tells of the failure");
    if (!waited) cr_expect_eq(called, atomic_load(&calls), "the stream did not wait for the callback");
}

ParameterizedTestParameters(drivers, an_event_behind_a_callback_that_is_not_queued)
{
    static int nth[12];
    for (int i = 0; i < 12; i++) nth[i] = i + 1;
    return cr_make_param_array(int, nth, sizeof nth / sizeof *nth);
}

/* Whatever barrier fails: if all calls succeed, the event and what waits for it come to their end. Where its own barrier has failed
 * nothing will signal it, and the host cannot. */
ParameterizedTest(int *nth, drivers, an_event_behind_a_callback_that_is_not_queued)
{
    gate in_callback;
    tn_stream *side = NULL, *third = NULL;
    tn_event *event = NULL;
    char fault[64];
    snprintf(fault, sizeof fault, "zeCommandListAppendBarrier:%d:0x7ffffffe", *nth);
    setenv("FAULTY_FAIL", fault, 1);
    gate_init(&in_callback);
    open_tested_device();
    int32_t status = tn_event_create(ctx, device, 0, &event);
    if (!status) status = tn_stream_create(ctx, device, 0, &side);
    if (!status) status = tn_stream_create(ctx, device, 0, &third);
    if (!status) status = tn_stream_add_callback(side, gate_wait, &in_callback);
    if (!status) status = tn_event_record(event, side);
    if (!status) status = tn_stream_wait_event(third, event);
    gate_open(&in_callback);
    if (!status) {
        tn_event_synchronize(event); /* tells of the failure, as the streams do */
        cr_expect_neq(tn_event_query(event), 0);
        tn_stream_synchronize(third);
        cr_expect_eq(tn_stream_synchronize(third), TN_OK);
        tn_stream_synchronize(side);
        cr_expect_eq(tn_stream_synchronize(side), TN_OK);
    }
    tn_event_release(event);
    tn_stream_release(side);
    tn_stream_release(third);
}

/* ---- Events -------------------------------------------------------------------------------------------------------- */

/* Work that writes device memory waits from then on while there is the file. */
static void close_gate(char name[GATE_NAME])
{
    name_gate(name);
    setenv("FAULTY_GATE", name, 1);
    close(open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

/* The events behind late work stay the oldest ones that were given back. A second pool cannot be made. */
Test(drivers, events_are_used_again_beside_one_that_never_comes)
{
    char gate_file[GATE_NAME];
    tn_stream *side;
    tn_event *event;
    setenv("FAULTY_FAIL", "zeEventPoolCreate:2:0x70000003", 1);
    open_tested_device();
    tn_stream *home = tn_stream_current(ctx, device);
    tn_tensor *x = pair(device, 1, 2);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    close_gate(gate_file);
    tn_stream_set_current(ctx, side);
    tn_add_scalar_(s, x, 1);
    tn_stream_set_current(ctx, home);
    for (int i = 0; i < 300; i++) {
        cr_assert_eq(tn_event_create(ctx, device, 0, &event), TN_OK);
        cr_assert_eq(tn_event_record(event, i < 8 ? side : home), TN_OK, "%d: %s", i,
                     tn_last_error()->message);
        if (i >= 8) cr_assert_eq(tn_event_synchronize(event), TN_OK);
        tn_event_release(event);
    }
    unlink(gate_file);
    cr_assert_eq(tn_stream_synchronize(side), TN_OK);
    tn_stream_release(side);
}

/* The streams wait for each other and nobody asks them: callbacks tell how far they are. A third pool cannot be made. */
Test(drivers, events_that_streams_have_waited_for_are_used_again)
{
    tn_stream *side;
    setenv("FAULTY_FAIL", "zeEventPoolCreate:3:0x70000003", 1);
    open_tested_device();
    tn_stream *home = tn_stream_current(ctx, device);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    for (int i = 0; i < 160; i++) {
        tn_stream *from = i % 2 ? side : home, *to = i % 2 ? home : side;
        tn_event *event;
        cr_assert_eq(tn_event_create(ctx, device, 0, &event), TN_OK);
        cr_assert_eq(tn_event_record(event, from), TN_OK, "%d: %s", i, tn_last_error()->message);
        cr_assert_eq(tn_stream_wait_event(to, event), TN_OK, "%d: %s", i, tn_last_error()->message);
        tn_event_release(event);
        if (i % 16 != 15) continue;
        cr_assert_eq(tn_stream_add_callback(home, count_call, NULL), TN_OK);
        while (atomic_load(&calls) <= i / 16) usleep(100);
    }
    tn_stream_release(side);
}

/* Another library fills a tensor by the handle of its stream. */
Test(drivers, a_stream_sees_work_that_others_have_appended)
{
    char gate_file[GATE_NAME];
    const float seven = 7;
    float values[2];
    uint64_t list;
    __typeof__(&zeCommandListAppendMemoryFill) fill;
    *(void **)(void *)&fill = dlsym(dlopen("libze_loader.so.1", RTLD_NOW), "zeCommandListAppendMemoryFill");
    open_tested_device();
    tn_stream *home = tn_stream_current(ctx, device);
    tn_tensor *t = pair(device, 1, 2);
    cr_assert_neq(tn_desc(t)->address, 0);
    cr_assert_eq(tn_stream_native(home, &list), TN_OK);
    cr_assert_eq(tn_stream_synchronize(home), TN_OK);
    close_gate(gate_file);
    cr_assert_eq(
        fill((void *)(uintptr_t)list, (void *)(uintptr_t)tn_desc(t)->address, &seven, 4, 8, NULL, 0, NULL),
        ZE_RESULT_SUCCESS);
    cr_expect_eq(tn_stream_query(home), 0);
    unlink(gate_file);
    cr_expect_eq(tn_stream_synchronize(home), TN_OK);
    while (!tn_stream_query(home)) continue;
    cr_assert_eq(tn_to_host(s, t, values, sizeof values), TN_OK);
    cr_expect(values[0] == 7 && values[1] == 7, "%g, %g", (double)values[0], (double)values[1]);
}

/* Intel's driver is slow to say that an event with timestamps has not come. */
Test(drivers, only_events_for_times_have_timestamps)
{
    tn_event *event;
    double ms;
    listen("ZE_TEST_POOLS");
    open_tested_device();
    tn_stream *home = tn_stream_current(ctx, device);
    cr_assert_not_null(pair(device, 1, 2));
    cr_assert_eq(tn_stream_add_callback(home, count_call, NULL), TN_OK);
    cr_assert_eq(tn_event_create(ctx, device, 0, &event), TN_OK);
    cr_assert_eq(tn_event_record(event, home), TN_OK);
    while (tn_stream_query(home) == 0) continue;
    heard();
    cr_expect_str_eq(said, "ze_driver: zeEventPoolCreate: without times\n");
    tn_event_release(event);
    cr_assert_eq(tn_event_create(ctx, device, TN_EVENT_TIMING, &event), TN_OK);
    cr_assert_eq(tn_event_record(event, home), TN_OK);
    cr_expect_eq(tn_event_elapsed(event, event, &ms), TN_OK);
    heard();
    stop_listening("ZE_TEST_POOLS");
    cr_expect_str_eq(said, "ze_driver: zeEventPoolCreate: with times\n");
    cr_expect_eq(ms, 0);
    tn_event_release(event);
}

/* The driver says of no event that the device is lost, and the program does not wait. The first work is that of the stream. */
Test(drivers, a_program_that_only_asks_learns_of_a_lost_device)
{
    char gate_file[GATE_NAME];
    int32_t state;
    setenv("FAULTY_FAIL", "work:2:0x70000001", 1);
    open_tested_device();
    tn_stream *home = tn_stream_current(ctx, device);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    close_gate(gate_file);
    cr_assert_not_null(tn_zeros(s, TN_INTS(1), .dtype = TN_FLOAT32));
    cr_assert_eq(tn_stream_query(home), 0); /* all that is appended for a query is there */
    unlink(gate_file);
    while ((state = tn_stream_query(home)) == 0) continue;
    cr_expect_lt(state, 0);
    cr_expect_eq(tn_device_status(ctx, device), TN_E_DEVICE_LOST);
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */

/* Nanoseconds on the clock of the plugin and the driver, 0 outside of these tests: it moves when the driver sleeps, or the test. A
 * host that is slow does not change the times. */
static atomic_llong moved_clock;

static int has_moved_clock(const void *caller)
{
    return atomic_load(&moved_clock) && (is_of(caller, "libtenon_xpu") || is_of(caller, "libze_driver"));
}

/* These stand before the C library's, for plugin and driver, too. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (!has_moved_clock(__builtin_return_address(0))) return (int)syscall(SYS_clock_gettime, clock, out);
    const long long now = atomic_load(&moved_clock);
    *out = (struct timespec){now / 1000000000, (long)(now % 1000000000)};
    return 0;
}

__attribute__((visibility("default"))) int nanosleep(const struct timespec *time, struct timespec *rest)
{
    if (!has_moved_clock(__builtin_return_address(0))) return (int)syscall(SYS_nanosleep, time, rest);
    atomic_fetch_add(&moved_clock, time->tv_sec * 1000000000LL + time->tv_nsec);
    return 0;
}

enum { BY_THE_EVENT, BY_THE_STREAM, LATER };

/* The time between two events with work of that length between them, if `how` is not LATER; else that time passes before it is
 * asked. */
static double time_of(int delay, int how, double *out_back)
{
    tn_event *start, *stop;
    double ms = 0;
    char text[16];
    snprintf(text, sizeof text, "%d", how == LATER ? 0 : delay);
    atomic_store(&moved_clock, 1000000000);
    open_tested_device();
    tn_tensor *x = pair(device, 1, 2);
    tn_stream *home = tn_stream_current(ctx, device);
    tn_add_scalar_(s, x, 1); /* the kernel is compiled */
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    setenv("FAULTY_DELAY", text, 1);
    setenv("FAULTY_UNASKED", "1", 1); /* the work begins, and moves the clock, when the host waits for it */
    cr_assert_eq(tn_event_create(ctx, device, TN_EVENT_TIMING, &start), TN_OK);
    cr_assert_eq(tn_event_create(ctx, device, TN_EVENT_TIMING, &stop), TN_OK);
    cr_assert_eq(tn_event_record(start, home), TN_OK);
    tn_add_scalar_(s, x, 1);
    cr_assert_eq(tn_event_record(stop, home), TN_OK);
    if (how != BY_THE_EVENT) cr_assert_eq(tn_stream_synchronize(home), TN_OK);
    if (how == LATER) atomic_fetch_add(&moved_clock, delay * 1000000LL);
    cr_assert_eq(tn_event_elapsed(start, stop, &ms), TN_OK, "%s", tn_last_error()->message);
    cr_assert_eq(tn_event_elapsed(stop, start, out_back), TN_OK);
    unsetenv("FAULTY_UNASKED");
    unsetenv("FAULTY_DELAY");
    tn_event_release(start);
    tn_event_release(stop);
    close_device();
    atomic_store(&moved_clock, 0);
    return ms;
}

static void expect_time(int delay, int how)
{
    double back, ms = time_of(delay, how, &back);
    cr_expect_float_eq(ms, how == LATER ? 0 : delay, 1e-3, "%f ms", ms); /* ticks are not longer than 52 ns */
    cr_expect_float_eq(back, -ms, 1e-6);
}

/* 1.67 nanoseconds: in whole ones the time would be too short by two fifths. */
Test(drivers, clocks_whose_ticks_are_no_whole_nanoseconds)
{
    setenv("ZE_TEST_HERTZ", "600000000", 1);
    expect_time(100, BY_THE_EVENT);
}

Test(drivers, clocks_of_old_drivers)
{
    setenv("ZE_TEST_HERTZ", "500000000", 1);
    setenv("ZE_TEST_VERSION", "1", 1);
    expect_time(100, BY_THE_EVENT);
}

/* Of 25 bits, which wrap after 1,748 ms. A host that is late by less than half of that is not mistaken. */
static void expect_long_time(int how)
{
    setenv("ZE_TEST_BITS", "25", 1);
    expect_time(1500, how);
}

Test(drivers, times_longer_than_the_range_of_timestamps)
{
    expect_long_time(BY_THE_EVENT);
}

Test(drivers, times_longer_than_the_range_after_a_wait_for_the_stream)
{
    expect_long_time(BY_THE_STREAM);
}

Test(drivers, times_longer_than_the_range_that_are_asked_for_later)
{
    expect_long_time(LATER);
}

/* ---- Several cards ----------------------------------------------------------------------------------------------- */

/* The driver reports lists that wait for what counts in memory of another card. */
static void expect_values_of_another(void)
{
    tn_event *event;
    open_tested_device();
    const tn_device second = tn_device_parse(ctx, "xpu:1");
    tn_stream *target = tn_stream_current(ctx, second);
    tn_tensor *x = pair(device, 1, 2);
    expect_pair(tn_mul_scalar(s, tn_to_device(s, tn_add_scalar(s, x, 1), second, TN_FLOAT32), 10), 20, 30);
    cr_assert_eq(tn_event_create(ctx, device, 0, &event), TN_OK);
    tn_fill_scalar_(s, x, 3);
    cr_assert_eq(tn_event_record(event, tn_stream_current(ctx, device)), TN_OK);
    cr_assert_eq(tn_stream_wait_event(target, event), TN_OK);
    cr_assert_eq(tn_stream_synchronize(target), TN_OK);
    cr_expect_eq(tn_event_query(event), 1);
    tn_event_release(event);
    close_device();
}

Test(drivers, cards_do_not_wait_for_each_others_counters)
{
    expect_values_of_another();
    setenv("ZE_TEST_UUID", "a", 1);
    expect_values_of_another();
}

/* By a thread: what is queued behind the wait is held back. */
Test(drivers, a_stream_waits_for_another_card_and_the_host_does_not)
{
    gate in_callback;
    open_tested_device();
    const tn_device second = tn_device_parse(ctx, "xpu:1");
    tn_stream *home = tn_stream_current(ctx, device), *target = tn_stream_current(ctx, second);
    tn_tensor *x = pair(device, 1, 2);
    gate_init(&in_callback);
    cr_assert_eq(tn_stream_add_callback(home, gate_wait, &in_callback), TN_OK);
    tn_add_scalar_(s, x, 1);
    tn_tensor *y = tn_mul_scalar(s, tn_to_device(s, x, second, TN_FLOAT32), 10);
    cr_assert_eq(tn_stream_add_callback(target, count_call, NULL), TN_OK);
    for (int i = 0; i < 20; i++) {
        cr_assert_eq(tn_stream_query(target), 0);
        usleep(1000);
    }
    cr_expect_eq(atomic_load(&calls), 0);
    gate_open(&in_callback);
    expect_pair(y, 20, 30);
    cr_expect_eq(atomic_load(&calls), 1);
}

/* ---- Devices and memory --------------------------------------------------------------------------------------------- */

Test(drivers, only_gpus_are_devices)
{
    tn_device_facts f = {.size = sizeof f};
    setenv("ZE_TEST_NPU", "1", 1);
    open_tested_device();
    cr_assert_eq(tn_device_count(ctx, "xpu"), 2);
    cr_assert_eq(tn_device_get_facts(ctx, device, &f), TN_OK);
    cr_expect_str_eq(f.name, "Level Zero test device 0");
}

static int32_t make_bytes(int64_t bytes)
{
    tn_scope *inner = scope_on_device();
    tn_empty(inner, TN_INTS(bytes), .dtype = TN_UINT8);
    const int32_t status = tn_scope_failed(inner);
    tn_scope_close(inner);
    return status;
}

Test(drivers, allocations_above_the_limit)
{
    const int64_t limit = 64 << 20;
    setenv("ZE_TEST_LARGEST", "67108864", 1);
    open_tested_device();
    cr_expect_eq(make_bytes(limit), TN_OK);
    cr_expect_eq(make_bytes(limit + 1), TN_OK, "%s", tn_last_error()->message);
    close_device();
    setenv("ZE_TEST_INTEGRATED", "1", 1);
    open_tested_device();
    cr_expect_eq(make_bytes(limit + 1), TN_OK, "%s", tn_last_error()->message);
    close_device();
    setenv("ZE_TEST_LIMITED", "1", 1);
    open_tested_device();
    cr_expect_eq(make_bytes(limit), TN_OK);
    cr_expect_eq(make_bytes(limit + 1), TN_E_OUT_OF_MEMORY);
    tn_pin_memory(s, tn_zeros(s, TN_INTS(limit + 1), .dtype = TN_UINT8, .device = TN_CPU), device);
    cr_expect_eq(tn_scope_failed(s), TN_E_OUT_OF_MEMORY, "%s", tn_last_error()->message);
}

/* Elements of two bytes, from an even or odd place to another one. */
Test(drivers, fills_of_half_words)
{
    open_without_fallback();
    for (int64_t from = 0; from < 3; from++)
        for (int64_t count = 1; count < 6; count++) {
            float got[10] = {0};
            tn_tensor *x = tn_zeros(s, TN_INTS(10), .dtype = TN_FLOAT16);
            tn_fill_scalar_(s, tn_narrow(s, x, 0, from, count), 1.5);
            tn_tensor *all = tn__to_copy(s, x, .dtype = TN_FLOAT32);
            cr_assert_eq(tn_to_host(s, all, got, sizeof got), TN_OK);
            for (int i = 0; i < 10; i++)
                cr_expect_eq(got[i], i >= from && i < from + count ? 1.5f : 0, "element %d of %d + %d", i,
                             (int)from, (int)count);
        }
}

/* System management shows the memory of both tiles, of which each is a device. */
Test(drivers, free_memory_of_a_tile)
{
    const uint64_t memory = (uint64_t)4 << 30;
    setenv("ZES_ENABLE_SYSMAN", "1", 1);
    for (int tiles = 0; tiles < 3; tiles++) {
        char text[2] = {(char)('0' + tiles), 0};
        uint64_t bytes, total, less;
        setenv("ZE_TEST_TILES", text, 1);
        open_tested_device();
        const tn_device second = tn_device_parse(ctx, "xpu:1");
        cr_assert_eq(tn_device_memory(ctx, second, &bytes, &total), TN_OK, "%s", tn_last_error()->message);
        cr_expect_eq(total, memory, "%d: %llu", tiles, (unsigned long long)total);
        /* Without the number of the tile the plugin counts for itself. Somebody else has a quarter. */
        cr_expect(tiles == 1 ? bytes > memory / 4 * 3 : bytes <= memory / 4 * 3, "%d: %llu", tiles,
                  (unsigned long long)bytes);
        cr_assert_not_null(tn_empty(s, TN_INTS(64 << 20), .dtype = TN_UINT8, .device = second));
        cr_assert_eq(tn_device_memory(ctx, second, &less, &total), TN_OK);
        cr_expect_eq(bytes - less, 64 << 20, "%d: %llu", tiles, (unsigned long long)(bytes - less));
        close_device();
    }
}
