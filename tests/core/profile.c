/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles without operators: their states, limits, text and file. tests/dispatcher has profiles of calls. */
#include "core/profile.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/graph.h"
#include "fixture.h"
#include "profile_row.h"

static void finish(void)
{
    tni_profile_finish(ctx); /* the dispatcher's in a whole library */
    close_fakes();
}

TestSuite(profile, .init = open_full_fakes, .fini = finish);

static void begin(uint32_t flags, uint64_t max_events)
{
    const tn_profile_options o = {.size = sizeof o, .flags = flags, .max_events = max_events};
    cr_assert_eq(tni_profile_start(ctx, &o), TN_OK);
}

static tn_profile *end(void)
{
    tn_profile *p = NULL;
    cr_assert_eq(tni_profile_stop(ctx, &p), TN_OK);
    return p;
}

static tn_profile_summary summary_of(const tn_profile *p)
{
    tn_profile_summary all = {.size = sizeof all};
    cr_assert_eq(tn_profile_get_summary(p, &all), TN_OK);
    return all;
}

static tn_tensor *on_gpu(int which)
{
    const float data[4] = {1, 2, 3, 4};
    char name[8];
    snprintf(name, sizeof name, "gpu:%d", which);
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(4), data, tn_device_parse(ctx, name));
    cr_assert_not_null(t);
    return t;
}

Test(profile, states)
{
    tn_profile *p = NULL;
    tn_profile_options o = {.size = sizeof o, .flags = 64};
    cr_assert_eq(tni_profile_stop(ctx, &p), TN_E_STATE);
    expect_last(TN_E_STATE, "profile_end: no profile has begun");
    cr_assert_eq(tni_profile_stop(NULL, &p), TN_E_ARGUMENT);
    cr_assert_eq(tni_profile_start(NULL, NULL), TN_E_ARGUMENT);
    cr_assert_eq(tni_profile_start(ctx, &o), TN_E_UNKNOWN_FIELD);
    expect_last(TN_E_UNKNOWN_FIELD, "tn_profile_options: unknown flags 0x40");
    o = (tn_profile_options){.size = 1};
    cr_assert_eq(tni_profile_start(ctx, &o), TN_E_ARGUMENT);
    cr_assert_eq(tn_profile_range_begin(ctx, "before"), TN_OK, "without a profile both do nothing");
    cr_assert_eq(tn_profile_range_end(ctx), TN_OK);
    begin(0, UINT64_MAX);
    cr_assert_eq(tni_profile_start(ctx, NULL), TN_E_STATE);
    expect_last(TN_E_STATE, "profile_begin: a profile has begun already");
    cr_assert_eq(tni_profile_stop(ctx, NULL), TN_E_ARGUMENT);
    expect_last(TN_E_ARGUMENT, "profile_end: out is NULL");
    cr_assert_eq(tn_profile_range_begin(ctx, NULL), TN_E_ARGUMENT);
    expect_last(TN_E_ARGUMENT, "profile_range_begin: name is NULL");
    cr_assert_eq(tn_profile_range_begin(NULL, "x"), TN_E_ARGUMENT);
    cr_assert_eq(tn_profile_range_end(NULL), TN_E_ARGUMENT);
    cr_assert_eq(tn_profile_range_end(ctx), TN_E_STATE);
    expect_last(TN_E_STATE, "profile_range_end: no range has begun on this thread");
    const tni_profile_site op = {.kind = TN_PROFILE_OPERATOR, .number = 7, .name = "op"};
    uint64_t token = tni_profile_enter(ctx, &op);
    cr_assert_eq(tn_profile_range_end(ctx), TN_E_STATE);
    expect_last(TN_E_STATE,
                "profile_range_end: no range has begun on this thread inside the operator that is running");
    tni_profile_leave(ctx, token);
    p = end();
    tni_profile_leave(ctx, token); /* of a profile that has ended */
    cr_assert_eq(tn_profile_count(p), 1);
    tn_profile_release(p);
    tn_profile_release(NULL);
    cr_assert_eq(tn_profile_count(NULL), 0);
    cr_assert_eq(tn_profile_text(NULL, 0, NULL, 0), 0);
    cr_assert_eq(tn_profile_get_summary(NULL, NULL), TN_E_ARGUMENT);
    cr_assert_eq(tn_profile_get(NULL, 0, NULL), TN_E_ARGUMENT);
}

/* Calls inside 128 others are counted as missing, and of a token's frame those inside it end with it. */
Test(profile, deep_nesting)
{
    tn_profile_row row = {.size = sizeof row};
    uint64_t outer = 0;
    begin(0, 0);
    for (int i = 0; i < 140; i++) {
        const tni_profile_site site = {.kind = TN_PROFILE_RANGE, .name = i < 100 ? "outer" : "inner"};
        uint64_t token = tni_profile_enter(ctx, &site);
        cr_assert_eq(token == 0, i >= 128, "%d", i);
        if (!i) outer = token;
    }
    on_gpu(0); /* a copy, in two entries */
    tni_profile_leave(ctx, outer);
    tn_profile *p = end();
    cr_assert_eq(summary_of(p).dropped, 12);
    cr_assert_eq(summary_of(p).events, 128 + 1);
    cr_assert_eq(tn_profile_count(p), 2);
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_eq(tn_profile_get(p, i, &row), TN_OK);
        cr_assert_eq(row.calls, strcmp(row.name, "outer") ? 28 : 100);
        cr_assert_leq(row.host_total, summary_of(p).nanoseconds, "nested calls of one name count once");
    }
    cr_assert_eq(tn_profile_get(p, 2, &row), TN_E_INDEX);
    tn_profile_release(p);
}

/* What is beyond max_events is counted as missing from the file; rows count everything. */
Test(profile, few_events)
{
    tn_profile_row row = {.size = sizeof row};
    begin(TN_PROFILE_MEMORY, 2);
    for (int i = 0; i < 5; i++) {
        tn_profile_range_begin(ctx, "range");
        on_gpu(0);
        tn_profile_range_end(ctx);
    }
    tn_profile *p = end();
    const tn_profile_summary all = summary_of(p);
    cr_assert_eq(all.events, 2 + 2 + 2, "ranges, copies, changes of memory");
    cr_assert_eq(all.dropped, 3 + 3 + 3);
    cr_assert_eq(tn_profile_get(p, 0, &row), TN_OK);
    cr_assert_eq(row.calls, 5);
    cr_assert_eq(row.bytes_total, 5 * 512);
    tn_profile_release(p);
}

/* Work is asked for its time when 256 pieces wait, and what has not finished stays. */
Test(profile, much_work)
{
    begin(0, 0);
    tn_tensor *a = on_gpu(0), *b = on_gpu(1);
    for (int i = 0; i < 300; i++) {
        cr_assert_eq(tni_fill_zeros(a->storage->device, a->desc.allocation, a->desc.byte_offset, 16), TN_OK);
        if (i % 100 == 0)
            cr_assert_eq(tni_fill_zeros(b->storage->device, b->desc.allocation, b->desc.byte_offset, 16),
                         TN_OK);
    }
    fake_work(tn_stream_current(ctx, a->desc.device));
    for (int i = 0; i < 300; i++)
        cr_assert_eq(tni_fill_zeros(a->storage->device, a->desc.allocation, a->desc.byte_offset, 16), TN_OK);
    tn_profile *p = end();
    tn_profile_row row = {.size = sizeof row};
    uint64_t calls = 0;
    for (uint32_t i = 0; !tn_profile_get(p, i, &row); i++) calls += row.calls;
    tn_clear_error();
    cr_assert_eq(calls, 600 + 3 + 2, "outside of calls each piece of work has a row");
    cr_assert_eq(summary_of(p).events, 605);
    cr_assert_eq(summary_of(p).unmeasured, 0);
    tn_profile_release(p);
    cr_assert_eq(gpu.live_events, 0);
}

/* Without events with timing, work is counted and has no time. A capture is not measured. */
Test(profile, work_without_a_time)
{
    static fake plain = {.type = "plain", .count = 1, .device_class = TN_DEVICE_DISCRETE};
    tni_driver driver = fake_driver(&plain);
    tni_profile_work work;
    tn_graph *g = NULL;
    tn_stream *stream = NULL;
    driver.event.elapsed = NULL;
    cr_assert_eq(tni_device_type_add(ctx, &driver), TN_OK);
    tn_device d = tn_device_parse(ctx, "plain:0"), first = tn_device_parse(ctx, "gpu:0");
    const float one = 1;
    begin(0, 0);
    cr_assert_not_null(tn_from_data(s, TN_FLOAT32, TN_INTS(1), &one, d));
    cr_assert_not_null(tn_from_data(s, TN_FLOAT32, TN_INTS(1), &one, TN_CPU));
    cr_assert_eq(tn_graph_create(ctx, first, &g), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, first, 0, &stream), TN_OK);
    cr_assert_eq(tn_graph_capture_begin(g, stream), TN_OK);
    cr_assert_not(tni_profile_work_begin(stream->device, stream, &work));
    cr_assert_eq(tn_graph_capture_end(g), TN_OK);
    cr_assert_eq(tn_graph_replay(g), TN_OK);
    tn_profile *p = end();
    cr_assert_eq(summary_of(p).unmeasured, 1);
    cr_assert_eq(summary_of(p).events, 1, "the replay");
    tn_profile_release(p);
    tn_stream_release(stream);
    tn_graph_release(g);
}

/* A profile may end between the beginning and the end of a piece of work, and another one begin. */
Test(profile, ends_while_work_is_queued)
{
    tn_stream *stream = tn_stream_current(ctx, tn_device_parse(ctx, "gpu:0"));
    tni_profile_work work;
    begin(0, 0);
    cr_assert(tni_profile_work_begin(stream->device, stream, &work));
    tn_profile_release(end());
    cr_assert_not(tni_profile_work_begin(stream->device, stream, &(tni_profile_work){0}));
    tni_profile_work_end(stream->device, stream, "late", &work);
    begin(0, 0);
    cr_assert(tni_profile_work_begin(stream->device, stream, &work));
    tn_profile_release(end());
    begin(0, 0);
    tni_profile_work_end(stream->device, stream, "late", &work);
    tn_profile *p = end();
    cr_assert_eq(tn_profile_count(p), 0, "it began in the profile before");
    tn_profile_release(p);
    cr_assert_eq(gpu.live_events, 0);
}

/* ---- What a vendor records --------------------------------------------------------------------------------- */

/* A profiler of a vendor: what it has recorded is in `script`; slots fail with the statuses. */
static struct {
    tn_x_activity script[8];
    int n_script, live, depth, pushes;
    int32_t begin_status, end_status;
    int failing_push;
} vendor;

static int32_t record_begin(void *self, void *device, void **out_recording)
{
    if (vendor.begin_status) return vendor.begin_status;
    vendor.live++;
    *out_recording = &vendor;
    return TN_OK;
}

static int32_t record_push(void *self, void *recording, uint64_t work)
{
    cr_assert_eq(recording, &vendor);
    if (++vendor.pushes == vendor.failing_push) return TN_E_INTERNAL;
    vendor.depth++;
    return TN_OK;
}

static void record_pop(void *self, void *device)
{
    vendor.depth--;
}

static int32_t record_end(void *self, void *recording,
                          void (*take)(void *user, const tn_x_activity *activity), void *user,
                          uint64_t *out_lost)
{
    vendor.live--;
    for (int i = 0; i < vendor.n_script; i++) take(user, &vendor.script[i]);
    if (!vendor.end_status) *out_lost = 3;
    return vendor.end_status;
}

/* A device that records, and a tensor on it. */
static tn_tensor *recorded(void)
{
    static fake recording = {.type = "rec", .count = 1, .device_class = TN_DEVICE_DISCRETE};
    tni_driver driver = fake_driver(&recording);
    const float one = 1;
    driver.activity = (tn_x_activity_interface){.size = sizeof driver.activity,
                                                .begin = record_begin,
                                                .push = record_push,
                                                .pop = record_pop,
                                                .end = record_end};
    cr_assert_eq(tni_device_type_add(ctx, &driver), TN_OK);
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(1), &one, tn_device_parse(ctx, "rec:0"));
    cr_assert_not_null(t);
    return t;
}

static void ran(uint64_t work, int64_t start, int64_t stop, const char *name)
{
    vendor.script[vendor.n_script++] = (tn_x_activity){
        .size = sizeof(tn_x_activity), .work = work, .stream = 5, .start = start, .end = stop, .name = name};
}

static void fill(const tn_tensor *t)
{
    cr_assert_eq(tni_fill_zeros(t->storage->device, t->desc.allocation, t->desc.byte_offset, 4), TN_OK);
}

static tn_profile_row row_named(const tn_profile *p, uint32_t kind, const char *name)
{
    return profile_row(p, (int32_t)kind, name, "");
}

static int32_t file_has(const tn_profile *p, const char *text)
{
    char path[] = "/tmp/tenon-profile-XXXXXX", all[1 << 14] = "";
    const int file = mkstemp(path);
    cr_assert_eq(tn_profile_write(p, path), TN_OK);
    cr_assert_gt(read(file, all, sizeof all - 1), 0);
    close(file);
    unlink(path);
    return strstr(all, text) != NULL;
}

/* The time of work is that in which a kernel of it ran; rows of kernels have all, also those of others. */
Test(profile, kernels_that_a_vendor_recorded)
{
    tn_tensor *t = recorded();
    begin(0, 0);
    cr_assert_eq(vendor.live, 1, "the device is open");
    const int64_t now = tni_profile_now();
    tn_profile_range_begin(ctx, "range");
    fill(t);
    fill(t);
    fill(t);
    tn_profile_range_end(ctx);
    cr_assert_eq(vendor.depth, 0);
    ran(2, now + 150, now + 250, "b");
    ran(2, now + 100, now + 200, "a");
    ran(2, now + 300, now + 310, "a");
    ran(2, now + 110, now + 120, "a");
    ran(1, now + 10, now + 15, "b");
    ran(77, now + 400, now + 500, "stranger");
    tn_profile *p = end();
    cr_assert_eq(vendor.live, 0);
    const tn_profile_row a = row_named(p, TN_PROFILE_KERNEL, "a"),
                         range = row_named(p, TN_PROFILE_RANGE, "range");
    cr_assert_eq(a.calls, 3);
    cr_assert_eq(a.device_total, 120);
    cr_assert_eq(a.device_self, 120);
    cr_assert_eq(row_named(p, TN_PROFILE_KERNEL, "b").device_self, 105);
    cr_assert_eq(row_named(p, TN_PROFILE_KERNEL, "stranger").device_self, 100);
    const tni_profile_span *spans = p->spans.data;
    cr_assert_eq(p->spans.count, 3);
    cr_assert_eq(spans[0].start, now + 10);
    cr_assert_eq(spans[1].start, now + 100);
    cr_assert_eq(spans[1].end, now + 310);
    cr_assert_eq(spans[1].busy, 160, "two overlap, and one is inside another");
    cr_assert_eq(range.device_self, 165 + (uint64_t)spans[2].busy, "the third is by events");
    cr_assert_eq(summary_of(p).lost, 3);
    cr_assert_eq(summary_of(p).events, 1 + 3 + 6);
    cr_assert(file_has(p, "\"name\":\"stream 5 of others\""));
    cr_assert(file_has(p, "\"cat\":\"kernel\",\"args\":{\"work\":\"fill with zeros\"}"));
    cr_assert(file_has(p, "\"kind\":\"kernel\""));
    cr_assert(file_has(p, "\"lost\":3"));
    tn_profile_release(p);
}

/* Those beyond max_events are in the table, not in the file. */
Test(profile, many_kernels)
{
    tn_tensor *t = recorded();
    begin(0, 2);
    fill(t);
    for (int i = 0; i < 5; i++) ran(1, tni_profile_now(), tni_profile_now() + 10, "k");
    tn_profile *p = end();
    cr_assert_eq(summary_of(p).dropped, 3);
    cr_assert_eq(row_named(p, TN_PROFILE_KERNEL, "k").calls, 5);
    tn_profile_release(p);
}

Test(profile, a_vendor_that_fails)
{
    tn_tensor *t = recorded();
    const int32_t statuses[] = {TN_E_UNSUPPORTED, TN_E_INTERNAL};
    for (int i = 0; i < 2; i++) {
        vendor.begin_status = statuses[i];
        begin(0, 0);
        fill(t);
        tn_profile *p = end();
        cr_assert_eq(row_named(p, TN_PROFILE_WORK, "fill with zeros").calls, 1);
        cr_assert_eq(summary_of(p).unmeasured, 0);
        cr_assert_eq(vendor.pushes, 0);
        cr_assert_eq(summary_of(p).lost, 0);
        tn_profile_release(p);
    }
    vendor.begin_status = TN_OK;
    vendor.failing_push = 1;
    begin(0, 0);
    fill(t);
    fill(t); /* this is number 1 now */
    ran(1, tni_profile_now(), tni_profile_now() + 1000, "k");
    vendor.end_status = TN_E_INTERNAL;
    tn_profile *p = end();
    cr_assert_eq(vendor.depth, 0);
    cr_assert_eq(summary_of(p).unmeasured, 0);
    cr_assert_eq(summary_of(p).lost, 0);
    const tni_profile_span *spans = p->spans.data;
    cr_assert_eq(p->spans.count, 2);
    cr_assert_eq(spans[0].is_recorded + spans[1].is_recorded, 1);
    tn_profile_release(p);
}

static void *range_of_a_thread(void *name)
{
    tn_profile_range_begin(ctx, name);
    tn_profile_range_end(ctx);
    return NULL;
}

Test(profile, threads)
{
    pthread_t threads[2];
    begin(0, 0);
    tn_profile_range_begin(ctx, "here");
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, range_of_a_thread, i ? "b" : "a"), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    tn_profile *p = end(); /* ends the range that is open */
    cr_assert_geq(summary_of(p).threads, 2);
    cr_assert_eq(tn_profile_count(p), 3);
    tn_profile_release(p);
    begin(0, 0);
    p = end();
    cr_assert_eq(summary_of(p).threads, 0, "nobody did anything");
    tn_profile_release(p);
}

/* ---- Tables ------------------------------------------------------------------------------------------------ */

static uint32_t shapes_of(tn_tensor *const *tensors, uint32_t count, char *out)
{
    const tn_value args[] = {{.tag = TN_TAG_TENSOR, .as.tensor = tensors[0]},
                             {.tag = TN_TAG_TENSORS, .count = count - 1, .as.tensors = tensors + 1},
                             {.tag = TN_TAG_INT}};
    return tni_profile_shapes(args, 3, out);
}

Test(profile, rows_by_shape)
{
    char shapes[TNI_PROFILE_SHAPES], text[4096];
    static float zeros[64];
    tn_tensor *many[120];
    tn_profile_row row = {.size = sizeof row};
    for (int i = 0; i < 120; i++)
        many[i] = tn_from_data(s, TN_FLOAT32, TN_INTS(1, 2, 1, 2, 1, 2, 1, 2), zeros, TN_CPU);
    many[1] = NULL;
    const uint32_t counts[] = {2, 3, 120};
    begin(TN_PROFILE_SHAPES, 0);
    for (int i = 0; i < 9; i++) {
        tni_profile_site site = {
            .kind = TN_PROFILE_OPERATOR, .name = i < 6 ? "op" : "another", .shapes = shapes};
        site.shapes_bytes = shapes_of(many, counts[i % 3], shapes);
        cr_assert_leq(site.shapes_bytes, sizeof shapes);
        tni_profile_leave(ctx, tni_profile_enter(ctx, &site));
    }
    tn_profile *p = end();
    cr_assert_eq(tn_profile_count(p), 6);
    int truncated = 0, two = 0;
    for (uint32_t i = 0; i < 6; i++) {
        cr_assert_eq(tn_profile_get(p, i, &row), TN_OK);
        cr_assert_eq(row.calls, strcmp(row.name, "op") ? 1 : 2);
        two += !strcmp(row.shapes, "float32 [1, 2, 1, 2, 1, 2, 1, 2], none []");
        truncated += strlen(row.shapes) > 400; /* of 120 tensors those that had room */
    }
    cr_assert_eq(two, 2);
    cr_assert_eq(truncated, 2);
    cr_assert_gt(tn_profile_text(p, 2, text, sizeof text), 100);
    cr_assert_not_null(strstr(text, "and 4 more\n"));
    tn_profile_release(p);
}

/* Times have the unit that suits them; rows of one time are in the order of their names and shapes. */
Test(profile, text)
{
    char text[2048];
    tn_profile_row rows[] = {{.name = "a name that is longer than twenty characters",
                              .shapes = "",
                              .calls = 1,
                              .host_total = 12345678901,
                              .host_self = 12345678,
                              .device_total = 12345,
                              .bytes_total = 77}};
    const tn_profile p = {.ctx = ctx, .flags = TN_PROFILE_MEMORY, .rows = rows, .row_count = 1};
    tn_profile_text(&p, 5, text, sizeof text);
    cr_assert_str_eq(
        text, "name                                            calls   host total    host self device total  "
              "device self        bytes\n"
              "a name that is longer than twenty characters        1    12.346 s     12.346 ms    12.345 us"
              "     0.000 us           77\n");
}

/* ---- The environment --------------------------------------------------------------------------------------- */

static void expect_wish(const char *with, int32_t status, uint32_t flags)
{
    tn_profile_options o;
    if (with)
        setenv("TENON_PROFILE_WITH", with, 1);
    else
        unsetenv("TENON_PROFILE_WITH");
    cr_expect_eq(tni_profile_wish(ctx, &o), status, "%s", with ? with : "none");
    cr_expect_eq(o.flags, flags, "%s", with ? with : "none");
    cr_expect_eq(ctx->profile_path != NULL, !status);
    if (ctx->profile_path) tni_free(ctx, ctx->profile_path, strlen(ctx->profile_path) + 1);
    ctx->profile_path = NULL;
}

Test(profile, wishes_of_the_environment)
{
    char path[] = "/tmp/tenon-profile-XXXXXX";
    close(mkstemp(path));
    tn_profile_options o;
    unsetenv("TENON_PROFILE");
    cr_assert_eq(tni_profile_wish(ctx, &o), TN_OK);
    setenv("TENON_PROFILE", "", 1);
    cr_assert_eq(tni_profile_wish(ctx, &o), TN_OK);
    cr_assert_null(ctx->profile_path);
    setenv("TENON_PROFILE", path, 1);
    expect_wish(NULL, TN_OK, 0);
    expect_wish("", TN_OK, 0);
    expect_wish("shapes", TN_OK, TN_PROFILE_SHAPES);
    expect_wish("memory,,shapes,", TN_OK, TN_PROFILE_SHAPES | TN_PROFILE_MEMORY);
    expect_wish("memori", TN_E_ARGUMENT, 0);
    expect_last(TN_E_ARGUMENT, "TENON_PROFILE_WITH: 'memori' is neither shapes nor memory");
    expect_wish("stacks", TN_E_ARGUMENT, 0);
    expect_wish("x", TN_E_ARGUMENT, 0);
    tn_clear_error();
    setenv("TENON_PROFILE", "/nonexistent/file", 1);
    expect_wish("shapes", TN_E_IO, TN_PROFILE_SHAPES);
    expect_last(TN_E_IO, "TENON_PROFILE: /nonexistent/file cannot be written: No such file or directory");
    cr_assert_eq(unlink(path), 0);
}

static char logged[256];

static void keep_line(void *user, int32_t level, const char *text)
{
    snprintf(logged, sizeof logged, "%s", text);
}

/* A file that cannot be written when the context ends is said in the log. */
Test(profile, of_the_environment_ends_with_the_context)
{
    char path[] = "/tmp/tenon-profile-XXXXXX", text[64] = "";
    close(mkstemp(path));
    setenv("TENON_PROFILE", path, 1);
    unsetenv("TENON_PROFILE_WITH");
    tn_profile_options o;
    tni_profile_close(ctx); /* no profile runs */
    cr_assert_eq(tni_profile_wish(ctx, &o), TN_OK);
    begin(0, 0);
    char begun[128];
    cr_assert_eq(tni_profile_start(ctx, NULL), TN_E_STATE);
    snprintf(begun, sizeof begun, "profile_begin: a profile has begun already, by TENON_PROFILE=%s", path);
    expect_last(TN_E_STATE, begun);
    tni_profile_close(ctx);
    FILE *file = fopen(path, "r");
    cr_assert_eq(fread(text, 1, 38, file), 38);
    fclose(file);
    cr_assert_str_eq(text, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":");
    cr_assert_eq(unlink(path), 0);
    tni_free(ctx, ctx->profile_path, strlen(ctx->profile_path) + 1);
    ctx->profile_path = tni_strdup(ctx, "/nonexistent/file");
    ctx->log = keep_line;
    begin(0, 0);
    tni_profile_close(ctx);
    ctx->log = NULL;
    cr_assert_not_null(strstr(logged, "TENON_PROFILE: "), "%s", logged);
    cr_assert_not_null(strstr(logged, "/nonexistent/file"), "%s", logged);
}
