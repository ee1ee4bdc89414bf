/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles with the records of a CUPTI for tests (libcupti.c), which keeps the times of all that it recorded: the time of each
 * operator is that of its kernels, to the nanosecond; libraries, graphs, other devices, contexts and threads; absence and failures.
 */
#define LIBRARY "libcupti.so.13"
#include "../session.h"
#include "../../../core/profile_row.h"

#include <malloc.h>
#include <pthread.h>
#include <unistd.h>
#include <cjson/cJSON.h>

enum { KERNELS, COPIES, FILLS, LIVE, KINDS, WRONG, PUSHED, CALLS };

static void close_all(void)
{
    if (count(KERNELS) >= 0) {
        cr_expect_eq(count(WRONG), 0, "CUPTI was used wrongly");
        cr_expect_eq(count(LIVE), 0, "buffers are left");
        cr_expect_eq(count(KINDS), 0, "records are switched on");
        cr_expect_eq(count(PUSHED), 0, "numbers are left on a thread");
    }
    close_device();
}

TestSuite(activities, .init = open_device, .fini = close_all, .timeout = 120);
TestSuite(absent, .init = open_device, .fini = close_device, .timeout = 60);

static tn_tensor *ones(void)
{
    return tn_ones(s, TN_INTS(64), .dtype = TN_FLOAT32);
}

static void begin(void)
{
    cr_assert_eq(tn_profile_begin(ctx, NULL), TN_OK);
}

static tn_profile *end(void)
{
    tn_profile *p = NULL;
    cr_assert_not(tn_scope_failed(s), "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(tn_profile_end(ctx, &p), TN_OK, "%s", tn_last_error() ? tn_last_error()->message : "");
    return p;
}

/* The row of a kind and a name; zeros if there is none. */
static tn_profile_row row_of(const tn_profile *p, uint32_t kind, const char *name)
{
    return profile_row(p, (int32_t)kind, name, "");
}

/* The sum of a kind's own times, or all rows of kernels and how many they are. */
static uint64_t sum_of(const tn_profile *p, int of_kernels, uint64_t *out_calls)
{
    tn_profile_row row = {.size = sizeof row};
    uint64_t sum = 0, calls = 0;
    for (uint32_t i = 0; !tn_profile_get(p, i, &row); i++) {
        if ((row.kind == TN_PROFILE_KERNEL) != of_kernels) continue;
        sum += row.device_self;
        calls += row.calls;
    }
    tn_clear_error();
    if (out_calls) *out_calls = calls;
    return sum;
}

static tn_profile_summary summary_of(const tn_profile *p)
{
    tn_profile_summary all = {.size = sizeof all};
    cr_assert_eq(tn_profile_get_summary(p, &all), TN_OK);
    return all;
}

static void *function_of(const char *name)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    cr_assert_not_null(library, "the plugin has not opened " LIBRARY);
    return dlsym(library, name);
}

/* What the library has recorded under a name: the sum of the times, and how many they are. */
static uint64_t recorded(const char *name, uint64_t *out_times)
{
    uint64_t (*function)(const char *, uint64_t *);
    *(void **)(void *)&function = function_of("cupti_test_time");
    return function(name, out_times);
}

static uint64_t time_of(const char *name)
{
    uint64_t times;
    return recorded(name, &times);
}

static uint64_t times_of(const char *name)
{
    uint64_t times;
    recorded(name, &times);
    return times;
}

/* ---- Times --------------------------------------------------------------------------------------------- */

Test(activities, the_time_of_an_operator_is_that_of_its_kernels)
{
    tn_tensor *x = ones();
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    begin();
    tn_exp(s, x);
    tn_profile *p = end();
    const tn_profile_row row = row_of(p, TN_PROFILE_OPERATOR, "aten::exp");
    cr_assert_eq(count(KERNELS), 1);
    cr_assert_eq(row.calls, 1);
    cr_assert_gt(row.device_self, 0);
    cr_assert_eq(row.device_self, time_of(NULL), "%lu, %lu", row.device_self, time_of(NULL));
    cr_assert_eq(row.device_total, row.device_self);
    cr_assert_eq(summary_of(p).lost, 0);
    cr_assert_eq(summary_of(p).unmeasured, 0);
    tn_profile_release(p);
}

Test(activities, rows_of_kernels_are_what_was_recorded)
{
    uint64_t calls = 0;
    setenv("CUPTI_TEST_BUFFER", "1000", 1); /* records of one call come in different buffers */
    tn_tensor *x = ones();
    float host[64];
    begin();
    for (int i = 0; i < 20; i++) x = tn_add(s, x, tn_exp(s, tn_neg(s, x)));
    cr_assert_eq(tn_to_host(s, tn_sum(s, x), host, sizeof *host), TN_OK);
    tn_profile *p = end();
    cr_assert_eq(sum_of(p, 1, &calls), time_of(NULL));
    cr_assert_eq(calls, times_of(NULL));
    cr_assert_geq(calls, 61);
    tn_profile_row row = {.size = sizeof row};
    for (uint32_t i = 0; !tn_profile_get(p, i, &row); i++) {
        if (row.kind != TN_PROFILE_KERNEL) continue;
        cr_assert_eq(row.calls, times_of(row.name), "%s", row.name);
        cr_assert_eq(row.device_total, time_of(row.name), "%s", row.name);
        cr_assert_eq(row.host_total, 0);
    }
    tn_clear_error();
    /* Everything was queued by an operator or is work of its own, and nothing ran at the same time. */
    cr_assert_eq(sum_of(p, 0, NULL), time_of(NULL));
    cr_assert_eq(row_of(p, TN_PROFILE_KERNEL, "copy device to host").calls, (uint64_t)count(COPIES));
    cr_assert_eq(row_of(p, TN_PROFILE_WORK, "copy to the host").device_self +
                     row_of(p, TN_PROFILE_OPERATOR, "aten::_local_scalar_dense").device_self,
                 time_of("copy device to host"));
    cr_assert_eq(row_of(p, TN_PROFILE_OPERATOR, "aten::exp").calls, 20);
    tn_profile_release(p);
}

/* In bytes; 0 with sanitizers, which look for leaks themselves. */
static size_t allocated(void)
{
    const struct mallinfo2 all = mallinfo2();
    return all.uordblks + all.hblkhd;
}

/* The plugin gives CUPTI a buffer of a megabyte at least once in each profile. */
Test(activities, buffers_are_freed)
{
    enum { PROFILES = 16 };
    tn_tensor *x = ones();
    size_t before = 0;
    for (int i = 0; i < PROFILES + 2; i++) {
        if (i == 2) before = allocated();
        begin();
        tn_exp(s, x);
        tn_profile_release(end());
    }
    cr_assert_lt(allocated(), before + PROFILES * ((size_t)1 << 18), "%zu, then %zu bytes", before,
                 allocated());
}

Test(activities, kernels_of_a_library_are_those_of_its_operator)
{
    tn_tensor *a = numbers(TN_FLOAT32, TN_INTS(8, 16)), *b = numbers(TN_FLOAT32, TN_INTS(16, 8));
    begin();
    tn_tensor *c = tn_mm(s, a, b);
    tn_exp(s, c);
    tn_profile *p = end();
    const char *name = "kernel of a library";
    cr_assert_eq(row_of(p, TN_PROFILE_KERNEL, name).calls, 1);
    cr_assert_eq(row_of(p, TN_PROFILE_OPERATOR, "aten::mm").device_self, time_of(name));
    cr_assert_eq(row_of(p, TN_PROFILE_OPERATOR, "aten::exp").device_self, time_of(NULL) - time_of(name));
    tn_profile_release(p);
}

Test(activities, kernels_of_a_graph_are_those_of_its_replay)
{
    tn_graph *g = NULL;
    tn_stream *stream = NULL;
    tn_tensor *x = ones(), *y = ones();
    tn_exp(s, x); /* programs are loaded */
    cr_assert_eq(tn_graph_create(ctx, device, &g), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, device, 0, &stream), TN_OK);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    begin();
    tn_stream *home = tn_stream_current(ctx, device);
    tn_stream_set_current(ctx, stream);
    cr_assert_eq(tn_graph_capture_begin(g, stream), TN_OK);
    tn_copy_(s, y, tn_exp(s, tn_neg(s, x)));
    cr_assert_eq(tn_graph_capture_end(g), TN_OK);
    tn_stream_set_current(ctx, home);
    for (int i = 0; i < 3; i++) cr_assert_eq(tn_graph_replay(g), TN_OK);
    tn_profile *p = end();
    const tn_profile_row replay = row_of(p, TN_PROFILE_WORK, "graph replay");
    cr_assert_eq(replay.calls, 3);
    cr_assert_eq(count(KERNELS) % 3, 0);
    cr_assert_geq(count(KERNELS), 6);
    cr_assert_eq(row_of(p, TN_PROFILE_OPERATOR, "aten::exp").device_self, 0, "it was captured");
    cr_assert_eq(sum_of(p, 0, NULL), replay.device_self);
    cr_assert_eq(sum_of(p, 1, NULL), time_of(NULL));
    /* Nodes run one after the other here. Errors of kernels are cleared before the graph and read after it. */
    cr_assert_eq(replay.device_self,
                 time_of(NULL) - time_of("copy host to device") - time_of("copy device to host"));
    tn_profile_release(p);
    tn_stream_release(stream);
    tn_graph_release(g);
}

/* Another library of the process fills memory. */
static void fill_by_another(tn_tensor *x)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *before;
    int (*fill)(uint64_t to, unsigned char value, size_t count, void *stream), (*enter)(void *),
        (*leave)(void **);
    uint64_t native = 0, offset = 0, context = 0;
    const int fills = count(FILLS);
    *(void **)(void *)&fill = dlsym(driver, "cuMemsetD8Async");
    *(void **)(void *)&enter = dlsym(driver, "cuCtxPushCurrent_v2");
    *(void **)(void *)&leave = dlsym(driver, "cuCtxPopCurrent_v2");
    cr_assert_eq(tn_tensor_native(x, &native, &offset), TN_OK);
    cr_assert_eq(tn_device_native(ctx, device, TN_NATIVE_CONTEXT, &context), TN_OK);
    cr_assert_eq(enter((void *)(uintptr_t)context), 0);
    cr_assert_eq(fill(native + offset, 0, 16, NULL), 0);
    cr_assert_eq(leave(&before), 0);
    while (count(FILLS) == fills) usleep(1000);
}

/* The device worked, but for none of our operators. */
Test(activities, work_of_others_is_in_no_operator)
{
    tn_tensor *x = ones();
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    begin();
    tn_exp(s, x);
    fill_by_another(x);
    tn_profile *p = end();
    cr_assert_eq(row_of(p, TN_PROFILE_KERNEL, "fill").device_self, time_of("fill"));
    cr_assert_eq(sum_of(p, 0, NULL), time_of(NULL) - time_of("fill"));
    tn_profile_release(p);
}

/* ---- Devices, threads, contexts ------------------------------------------------------------------------- */

typedef struct job {
    int which;
} job;

static void *run_on_a_device(void *data)
{
    const job *j = data;
    char name[16];
    snprintf(name, sizeof name, "cuda:%d", j->which);
    tn_scope *own = tn_scope_open_with(
        ctx, &(tn_scope_options){.size = sizeof(tn_scope_options), .device = tn_device_parse(ctx, name)});
    tn_tensor *x = tn_ones(own, TN_INTS(32), .dtype = TN_FLOAT32);
    for (int i = 0; i < 50; i++) x = j->which ? tn_exp(own, tn_neg(own, x)) : tn_cos(own, x);
    tn_scope_close(own);
    return NULL;
}

Test(activities, threads_and_devices)
{
    pthread_t threads[4];
    job jobs[4] = {{0}, {1}, {0}, {1}};
    for (int i = 0; i < 2; i++) run_on_a_device(&jobs[i]); /* opens it */
    begin();
    for (int i = 0; i < 4; i++) cr_assert_eq(pthread_create(&threads[i], NULL, run_on_a_device, &jobs[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    tn_profile *p = end();
    static const char *const operators[] = {"aten::exp", "aten::neg", "aten::cos"};
    cr_assert_eq(sum_of(p, 1, NULL), time_of(NULL));
    cr_assert_eq(sum_of(p, 0, NULL), time_of(NULL));
    for (int i = 0; i < 3; i++) {
        const tn_profile_row row = row_of(p, TN_PROFILE_OPERATOR, operators[i]);
        cr_assert_eq(row.calls, 100);
        cr_assert_gt(row.device_self, 0);
    }
    tn_profile_release(p);
}

/* Two contexts record at the same time, and each has its own work. */
Test(activities, two_contexts)
{
    tn_context *other = NULL;
    tn_profile *p = NULL;
    cr_assert_eq(tn_context_create(NULL, &other), TN_OK);
    tn_scope *own =
        tn_scope_open_with(other, &(tn_scope_options){.size = sizeof(tn_scope_options),
                                                      .device = tn_device_parse(other, "cuda:0")});
    tn_tensor *y = tn_ones(own, TN_INTS(4), .dtype = TN_FLOAT32);
    tn_tensor *x = ones();
    begin();
    x = tn_exp(s, x);
    fill_by_another(x); /* before the other one begins */
    cr_assert_eq(tn_profile_begin(other, NULL), TN_OK);
    tn_cos(own, y);
    tn_exp(s, x);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    cr_assert_eq(tn_profile_end(other, &p), TN_OK);
    cr_assert_eq(row_of(p, TN_PROFILE_OPERATOR, "aten::exp").calls, 0);
    const uint64_t theirs = sum_of(p, 1, NULL);
    cr_assert_eq(sum_of(p, 0, NULL), theirs);
    cr_assert_gt(theirs, 0);
    tn_profile_release(p);
    tn_scope_close(own);
    tn_context_destroy(other);
    tn_exp(s, x);
    p = end();
    cr_assert_eq(row_of(p, TN_PROFILE_OPERATOR, "aten::exp").calls, 3);
    cr_assert_eq(sum_of(p, 1, NULL), time_of(NULL) - theirs);
    cr_assert_eq(row_of(p, TN_PROFILE_KERNEL, "fill").device_self, time_of("fill"));
    cr_assert_eq(sum_of(p, 0, NULL), sum_of(p, 1, NULL) - time_of("fill") -
                                         row_of(p, TN_PROFILE_KERNEL, "copy device to host").device_self);
    tn_profile_release(p);
}

Test(activities, one_profile_after_the_other)
{
    tn_tensor *x = ones();
    uint64_t before = 0;
    for (int i = 0; i < 3; i++) {
        begin();
        tn_exp(s, x);
        tn_profile *p = end();
        cr_assert_eq(row_of(p, TN_PROFILE_OPERATOR, "aten::exp").device_self + before, time_of(NULL));
        tn_profile_release(p);
        before = time_of(NULL);
        tn_exp(s, x);
        cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
        cr_assert_eq(time_of(NULL), before, "nothing is recorded between profiles");
    }
}

/* Calls that come with every other one are not in the buffers: of the records of calls one is that of the launch. */
Test(activities, buffers_are_not_full_of_calls)
{
    tn_tensor *x = ones();
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    begin();
    tn_exp(s, x);
    const int before = count(CALLS);
    for (int i = 0; i < 100; i++) tn_exp(s, x);
    cr_assert_leq(count(CALLS) - before, 600, "%d records of 100 calls", count(CALLS) - before);
    tn_profile_release(end());
}

/* ---- The file ------------------------------------------------------------------------------------------- */

static cJSON *written(const tn_profile *p)
{
    char path[] = "/tmp/tenon-activities-XXXXXX";
    static char text[1 << 20];
    int file = mkstemp(path);
    cr_assert_eq(tn_profile_write(p, path), TN_OK);
    const ssize_t bytes = read(file, text, sizeof text - 1);
    cr_assert_gt(bytes, 0);
    close(file);
    unlink(path);
    return cJSON_Parse(text);
}

static double number_in(const cJSON *item, const char *key)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(item, key));
}

static const char *text_in(const cJSON *item, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItem(item, key));
}

/* Kernels lie inside their work, on its track, between the two ends of the profile. */
Test(activities, the_file_shows_kernels_below_their_work)
{
    tn_tensor *x = ones();
    begin();
    for (int i = 0; i < 3; i++) tn_exp(s, x);
    tn_profile *p = end();
    cJSON *root = written(p);
    const double length = (double)summary_of(p).nanoseconds * 1e-3;
    const cJSON *event, *work;
    int kernels = 0;
    cJSON_ArrayForEach(event, cJSON_GetObjectItem(root, "traceEvents"))
    {
        const char *category = text_in(event, "cat");
        if (!category || strcmp(category, "kernel") != 0) continue;
        const double at = number_in(event, "ts"), took = number_in(event, "dur");
        int inside = 0;
        kernels++;
        cr_assert(at >= 0 && at + took <= length, "%g to %g of %g", at, at + took, length);
        cr_assert_str_eq(text_in(cJSON_GetObjectItem(event, "args"), "work"), "aten::exp");
        cJSON_ArrayForEach(work, cJSON_GetObjectItem(root, "traceEvents"))
        {
            category = text_in(work, "cat");
            if (!category || strcmp(category, "work") != 0) continue;
            inside += number_in(work, "tid") == number_in(event, "tid") &&
                      number_in(work, "ts") <= at + 0.002 &&
                      number_in(work, "ts") + number_in(work, "dur") >= at + took - 0.002;
        }
        cr_assert_eq(inside, 1);
    }
    cr_assert_eq(kernels, 3);
    cJSON_Delete(root);
    tn_profile_release(p);
}

/* ---- Failures ------------------------------------------------------------------------------------------- */

Test(activities, what_the_library_has_lost_is_said)
{
    tn_tensor *x = ones();
    setenv("CUPTI_TEST_DROP", "2", 1);
    begin();
    for (int i = 0; i < 5; i++) tn_exp(s, x);
    tn_profile *p = end();
    uint64_t calls = 0;
    sum_of(p, 1, &calls);
    cr_assert_eq(summary_of(p).lost, 2);
    cr_assert_eq(calls, 3);
    const tn_profile_row row = row_of(p, TN_PROFILE_OPERATOR, "aten::exp");
    cr_assert_eq(row.calls, 5);
    cr_assert_gt(row.device_self, time_of(NULL), "the time of two is from events");
    tn_profile_release(p);
}

static const char *const functions[] = {"cuptiActivityRegisterCallbacks", "cuptiActivityEnable",
                                        "cuptiGetTimestamp"};

/* A profile without records is one by events. */
static void profile_by_events(void)
{
    tn_tensor *x = ones();
    begin();
    tn_exp(s, x);
    tn_profile *p = end();
    const tn_profile_row row = row_of(p, TN_PROFILE_OPERATOR, "aten::exp");
    cr_assert_gt(row.device_self, 0);
    cr_assert_eq(sum_of(p, 1, NULL), 0);
    tn_profile_release(p);
}

ParameterizedTestParameters(activities, a_beginning_that_fails)
{
    static int rows[3];
    return row_numbers(rows, 3);
}
ParameterizedTest(int *row, activities, a_beginning_that_fails)
{
    let_fail(functions[*row], *row == 1 ? 4 : 1, 15);
    profile_by_events();
    expect_in(said, "1 profile: ");
    expect_in(said, "%s failed: CUPTI_ERROR_NOT_INITIALIZED", functions[*row]);
    begin(); /* the next one has records */
    tn_exp(s, ones());
    tn_profile *p = end();
    cr_assert_eq(sum_of(p, 1, NULL), time_of(NULL));
    cr_assert_gt(time_of(NULL), 0);
    tn_profile_release(p);
}

/* One call is measured by events, the others by records. */
Test(activities, a_number_that_fails)
{
    tn_tensor *x = ones();
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    begin();
    let_fail("cuptiActivityPushExternalCorrelationId", 2, 15);
    for (int i = 0; i < 3; i++) tn_exp(s, x);
    tn_profile *p = end();
    const tn_profile_row row = row_of(p, TN_PROFILE_OPERATOR, "aten::exp");
    cr_assert_eq(row.calls, 3);
    cr_assert_eq(sum_of(p, 1, NULL), time_of(NULL));
    cr_assert_eq(count(KERNELS), 3);
    cr_assert_gt(row.device_self, time_of(NULL) / 2);
    tn_profile_release(p);
}

Test(activities, a_flush_that_fails)
{
    tn_tensor *x = ones();
    begin();
    tn_exp(s, x);
    let_fail("cuptiActivityFlushAll", 1, 15);
    tn_profile *p = end();
    cr_assert_gt(row_of(p, TN_PROFILE_OPERATOR, "aten::exp").device_self, 0);
    cr_assert_eq(sum_of(p, 1, NULL), 0);
    expect_in(said, "cuptiActivityFlushAll failed: CUPTI_ERROR_NOT_INITIALIZED");
    tn_profile_release(p);
    begin(); /* what stayed in the library is not of the next profile */
    p = end();
    cr_assert_eq(sum_of(p, 1, NULL), 0);
    tn_profile_release(p);
}

/* The path of the tests has a file with the library's name that is none. */
Test(absent, without_the_library_times_are_from_events)
{
    profile_by_events();
    cr_assert_eq(count(KERNELS), -1);
    expect_in(said, "2 cuda:0: libcupti.so.13 cannot be loaded: ");
    expect_in(said, "/libcupti.so.13: invalid ELF header: profiles do not show kernels");
}
