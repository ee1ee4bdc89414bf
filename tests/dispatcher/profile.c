/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles: the table and its arithmetic, names, shapes, bytes, the work of an asynchronous device, the file, what
 * TENON_PROFILE does, and what is refused.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <cjson/cJSON.h>
#include <tenon/plugin.h>
#include "support.h"
#include "../behaviour/partner.h"
#include "../core/profile_row.h"

TestSuite(profile, .init = open_context, .fini = close_context);

static void begin(uint32_t flags)
{
    const tn_profile_options o = {.size = sizeof o, .flags = flags};
    cr_assert_eq(tn_profile_begin(ctx, &o), TN_OK);
}

static tn_profile *end(void)
{
    tn_profile *p = NULL;
    cr_assert_eq(tn_profile_end(ctx, &p), TN_OK, "%s", tn_last_error() ? tn_last_error()->message : "");
    return p;
}

/* The row with a name, and with a part of the shapes; zeros if there is none. */
static tn_profile_row row_with(const tn_profile *p, const char *name, const char *shapes)
{
    return profile_row(p, -1, name, shapes);
}

static tn_profile_row row_of(const tn_profile *p, const char *name)
{
    return row_with(p, name, "");
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int32_t nap(void *self, const tn_call *call)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    return TN_OK;
}

Test(profile, times_add_up)
{
    const char *schema = "test::nap(Tensor self) -> Tensor";
    uint32_t op = define(schema);
    add_row("cpu", schema, 0, nap, NULL);
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    int64_t start = now();
    begin(0);
    tn_profile_range_begin(ctx, "outer");
    for (int i = 0; i < 3; i++) CALL(op, tn_value_tensor(x));
    tn_profile_range_begin(ctx, "inner");
    CALL(op, tn_value_tensor(x));
    tn_ones(s, TN_INTS(2)); /* a composite: calls others */
    cr_assert_eq(tn_profile_range_end(ctx), TN_OK);
    cr_assert_eq(tn_profile_range_end(ctx), TN_OK);
    tn_profile *p = end();
    int64_t wall = now() - start;
    tn_profile_row naps = row_of(p, "test::nap"), outer = row_of(p, "outer"), inner = row_of(p, "inner"),
                   ones = row_of(p, "aten::ones"), row = {.size = sizeof row};
    cr_expect_eq(naps.calls, 4);
    cr_expect_eq(naps.kind, TN_PROFILE_OPERATOR);
    cr_expect_geq(naps.host_self, 8000000, "%llu", (unsigned long long)naps.host_self);
    cr_expect_leq((int64_t)outer.host_total, wall);
    cr_expect_eq(outer.kind, TN_PROFILE_RANGE);
    cr_expect_eq(outer.calls, 1);
    cr_expect_geq(inner.host_total, 2000000);
    cr_expect_lt(inner.host_total, outer.host_total);
    cr_expect_gt(ones.host_total, ones.host_self);
    uint64_t sum = 0, before = UINT64_MAX;
    for (uint32_t i = 0; i < tn_profile_count(p); i++) {
        cr_assert_eq(tn_profile_get(p, i, &row), TN_OK);
        cr_expect_leq(row.host_self, before, "the longest comes first");
        before = row.host_self;
        sum += row.host_self;
        cr_expect_eq(row.device_total, 0);
        cr_expect_eq(row.bytes_total, 0);
        cr_expect_str_eq(row.shapes, "");
    }
    cr_expect_eq(sum, outer.host_total);
    tn_profile_summary all = {.size = sizeof all};
    cr_assert_eq(tn_profile_get_summary(p, &all), TN_OK);
    cr_expect_eq(all.threads, 1);
    cr_expect_leq((int64_t)all.nanoseconds, wall);
    cr_expect_geq(all.nanoseconds, outer.host_total);
    cr_expect_eq(all.dropped, 0);
    tn_profile_release(p);
    tn_profile_release(NULL);
}

static void count_call(void *user, const tn_call_info *info, uint64_t *token)
{
    (void)token;
    if (!strcmp(info->name, "aten::exp")) ++*(int *)user;
}

/* With another observer, and after it has gone, a profile has the same calls. */
Test(profile, beside_an_observer)
{
    int calls = 0;
    uint64_t handle = 0;
    const tn_observer observer = {.size = sizeof observer, .user = &calls, .enter = count_call};
    tn_tensor *x = tn_ones(s, TN_INTS(2, 3));
    cr_assert_eq(tn_observer_add(ctx, &observer, &handle), TN_OK);
    begin(TN_PROFILE_SHAPES);
    tn_exp(s, x);
    tn_exp(s, tn_ones(s, TN_INTS(4)));
    tn_observer_remove(ctx, handle);
    tn_exp(s, x);
    tn_profile *p = end();
    cr_expect_eq(calls, 2);
    cr_expect_eq(row_with(p, "aten::exp", "float32 [2, 3]").calls, 2);
    cr_expect_eq(row_with(p, "aten::exp", "float32 [4]").calls, 1);
    tn_profile_release(p);
    begin(0); /* without shapes both are one row */
    cr_assert_eq(tn_observer_add(ctx, &observer, &handle), TN_OK);
    tn_exp(s, x);
    tn_exp(s, tn_ones(s, TN_INTS(4)));
    p = end();
    tn_observer_remove(ctx, handle);
    cr_expect_eq(calls, 4);
    cr_expect_eq(row_of(p, "aten::exp").calls, 2);
    cr_expect_str_eq(row_of(p, "aten::exp").shapes, "");
    tn_profile_release(p);
}

/* Only what happens between begin and end is in a profile. */
Test(profile, one_after_the_other)
{
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    tn_exp(s, x);
    begin(0);
    tn_profile *p = end();
    cr_expect_eq(tn_profile_count(p), 0);
    tn_profile_release(p);
    tn_exp(s, x);
    begin(0);
    tn_exp(s, x);
    p = end();
    tn_exp(s, x);
    cr_expect_eq(row_of(p, "aten::exp").calls, 1);
    cr_expect_eq(tn_profile_count(p), 1);
    tn_profile_release(p);
}

Test(profile, nodes_of_backward)
{
    tn_tensor *x = tn_ones(s, TN_INTS(3));
    tn_set_requires_grad(x, 1);
    tn_tensor *y = tn_sum(s, tn_mul(s, tn_mul(s, x, x), x));
    begin(0);
    tn_backward(s, y);
    tn_profile *p = end();
    cr_assert_eq(tn_scope_failed(s), TN_OK);
    tn_profile_row mul = row_of(p, "MulBackward0"), leaf = row_of(p, "AccumulateGrad");
    cr_expect_eq(mul.calls, 2);
    cr_expect_eq(mul.kind, TN_PROFILE_BACKWARD);
    cr_expect_gt(mul.host_total, mul.host_self); /* it calls aten::mul */
    cr_expect_eq(row_of(p, "SumBackward0").calls, 1);
    cr_expect_eq(leaf.calls, 1);
    cr_expect_eq(row_of(p, "aten::mul.Tensor").calls, 4);
    tn_profile_release(p);
}

Test(profile, shapes_and_bytes)
{
    tn_tensor *a = tn_ones(s, TN_INTS(2, 3)), *b = tn_ones(s, TN_INTS(3, 256), .dtype = TN_FLOAT32),
              *i = tn_ones(s, TN_INTS(4), .dtype = TN_INT64);
    begin(TN_PROFILE_SHAPES | TN_PROFILE_MEMORY);
    tn_profile_range_begin(ctx, "all");
    for (int k = 0; k < 2; k++) tn_mm(s, a, b);
    tn_exp(s, a);
    tn_exp(s, b);
    tn_cat(s, TN_TENSORS(i, i), .dim = 0);
    tn_profile_range_end(ctx);
    tn_profile *p = end();
    cr_expect_eq(row_with(p, "aten::mm", "float32 [2, 3], float32 [3, 256]").calls, 2);
    cr_expect_eq(row_with(p, "aten::exp", "float32 [2, 3]").calls, 1);
    cr_expect_eq(row_with(p, "aten::exp", "float32 [3, 256]").calls, 1);
    cr_expect_eq(row_with(p, "aten::cat", "int64 [4], int64 [4]").calls, 1);
    cr_expect_eq(row_with(p, "aten::exp", "float32 [3, 256]").bytes_self, 3 * 256 * 4);
    cr_expect_geq(row_with(p, "aten::mm", "").bytes_total, 2 * 2 * 256 * 4);
    uint64_t sum = 0;
    for (uint32_t k = 0; k < tn_profile_count(p); k++) {
        tn_profile_row row = {.size = sizeof row};
        tn_profile_get(p, k, &row);
        sum += row.bytes_self;
    }
    cr_expect_eq(row_of(p, "all").bytes_total, sum);
    tn_profile_release(p);
    tn_exp(s, b); /* the cache of small blocks is back */
    cr_assert_eq(tn_scope_failed(s), TN_OK);
}

/* ---- The file ------------------------------------------------------------------------------------------ */

static char path[] = "/tmp/tenon_profile_XXXXXX";

static void make_path(void)
{
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
}

static cJSON *read_json(const char *from)
{
    FILE *file = fopen(from, "r");
    cr_assert_not_null(file, "%s", from);
    char *text = calloc(1, 1 << 22);
    size_t n = fread(text, 1, (1 << 22) - 1, file);
    fclose(file);
    cJSON *json = cJSON_Parse(text);
    cr_assert_not_null(json, "%s: %zu bytes: %.200s", from, n, text);
    free(text);
    return json;
}

static cJSON *written(const tn_profile *p)
{
    make_path();
    cr_assert_eq(tn_profile_write(p, path), TN_OK);
    cJSON *json = read_json(path);
    unlink(path);
    return json;
}

static double number(const cJSON *event, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(event, key);
    cr_assert(cJSON_IsNumber(item), "%s", key);
    return item->valuedouble;
}

static const char *text(const cJSON *event, const char *key)
{
    const cJSON *item = cJSON_GetObjectItem(event, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* The n-th event with a phase and a name; NULL if there is none. */
static const cJSON *event_of(const cJSON *json, const char *phase, const char *name, int n)
{
    const cJSON *e;
    cJSON_ArrayForEach(e, cJSON_GetObjectItem(json, "traceEvents"))
    {
        if (!strcmp(text(e, "ph"), phase) && (!name || !strcmp(text(e, "name"), name)) && n-- == 0) return e;
    }
    return NULL;
}

Test(profile, file)
{
    begin(TN_PROFILE_SHAPES | TN_PROFILE_MEMORY);
    tn_profile_range_begin(ctx, "a \"quoted\"\nname\\");
    tn_tensor *x = tn_ones(s, TN_INTS(1024));
    tn_exp(s, x);
    tn_drop(s, x);
    tn_profile_range_end(ctx);
    tn_profile *p = end();
    cJSON *json = written(p);
    const cJSON *range = event_of(json, "X", "a \"quoted\"\nname\\", 0),
                *op = event_of(json, "X", "aten::exp", 0);
    cr_assert_not_null(range);
    cr_assert_not_null(op);
    cr_expect_str_eq(text(op, "cat"), "operator");
    cr_expect_str_eq(text(cJSON_GetObjectItem(op, "args"), "shapes"), "float32 [1024]");
    cr_expect_geq(number(op, "ts"), number(range, "ts"));
    cr_expect_leq(number(op, "ts") + number(op, "dur"), number(range, "ts") + number(range, "dur"));
    cr_expect_eq(number(op, "pid"), 1);
    cr_expect_not_null(event_of(json, "M", "process_name", 0));
    /* Memory grows by each kilobyte of floats and falls when the first tensor goes. */
    double before = 0, least = 1e18, most = 0;
    for (int i = 0;; i++) {
        const cJSON *change = event_of(json, "C", "memory of cpu", i);
        if (!change) break;
        before = number(cJSON_GetObjectItem(change, "args"), "allocated");
        least = before < least ? before : least;
        most = before > most ? before : most;
    }
    cr_expect_eq(most - before, 4096, "%g %g", most, before);
    cr_expect_eq(most - least, 4096);
    const cJSON *rows = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "tenon_profile"), "rows");
    cr_expect_eq((uint32_t)cJSON_GetArraySize(rows), tn_profile_count(p));
    cJSON_Delete(json);
    tn_profile_release(p);
}

Test(profile, text)
{
    begin(TN_PROFILE_SHAPES | TN_PROFILE_MEMORY);
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    tn_exp(s, x);
    tn_profile *p = end();
    char all[4096], little[16];
    uint64_t length = tn_profile_text(p, 0, all, sizeof all);
    cr_expect_eq(length, strlen(all));
    cr_expect_eq(strncmp(all, "name ", 5), 0);
    cr_expect_not_null(strstr(all, "aten::exp"));
    cr_expect_not_null(strstr(all, "float32 [2]"));
    cr_expect_eq(tn_profile_text(p, 0, little, sizeof little), length);
    cr_expect_eq(strncmp(all, little, 15), 0);
    cr_expect_eq(little[15], 0);
    tn_profile_text(p, 1, all, sizeof all);
    cr_expect_not_null(strstr(all, "and 3 more"), "%s", all);
    tn_profile_release(p);
}

/* ---- An asynchronous device ---------------------------------------------------------------------------- */

static tn_device reference(void)
{
    tn_device d = tn_device_choose(ctx, "reference:0", NULL);
    cr_assert(!(d & TN_DEVICE_MISSING), "%s", tn_last_error() ? tn_last_error()->message : "");
    return d;
}

Test(profile, work_of_a_device)
{
    tn_device d = reference();
    float one = 1;
    tn_tensor *a = tn_ones(s, TN_INTS(160, 160), .device = d);
    tn_stream *side;
    tn_device_synchronize(ctx, d);
    cr_assert_eq(tn_stream_create(ctx, d, 0, &side), TN_OK);
    begin(0);
    int64_t start = now();
    tn_profile_range_begin(ctx, "range");
    tn_mm(s, a, a); /* 4 million products, one after the other */
    tn_profile_range_end(ctx);
    tn_device_synchronize(ctx, d);
    int64_t wall = now() - start;
    tn_stream_set_current(ctx, side);
    tn_exp(s, tn_ones(s, TN_INTS(2), .device = d));
    tn_stream_set_current(ctx, tn_stream_default(ctx, d));
    tn_from_data(s, TN_FLOAT32, TN_INTS(1), &one, d);
    tn_profile *p = end();
    cr_assert_eq(tn_scope_failed(s), TN_OK);
    tn_profile_row mm = row_of(p, "aten::mm"), range = row_of(p, "range"),
                   copy = row_of(p, "copy to the device");
    cr_expect_geq(mm.device_self, 1000000, "%llu ns",
                  (unsigned long long)mm.device_self); /* on any machine */
    cr_expect_leq(mm.device_self, (uint64_t)wall);
    cr_expect_eq(range.device_self, 0);
    cr_expect_geq(range.device_total, mm.device_self);
    cr_expect_eq(copy.kind, TN_PROFILE_WORK);
    cr_expect_eq(copy.calls, 1);
    cr_expect_gt(copy.device_self, 0);
    cJSON *json = written(p);
    /* Each arrow leads from a call that runs on the host to work that begins later. */
    int arrows = 0, on_side = 0;
    for (const cJSON *from; (from = event_of(json, "s", NULL, arrows)); arrows++) {
        const cJSON *to = event_of(json, "f", NULL, arrows), *work = NULL;
        cr_assert_not_null(to);
        cr_expect_eq(number(from, "id"), number(to, "id"));
        cr_expect_eq(number(from, "pid"), 1);
        cr_expect_eq(number(to, "pid"), 2);
        cr_expect_geq(number(to, "ts"), number(from, "ts"));
        for (int i = 0; (work = event_of(json, "X", NULL, i)); i++) {
            if (number(work, "pid") == 2 && number(work, "ts") == number(to, "ts")) break;
        }
        cr_assert_not_null(work);
        on_side += number(work, "tid") == (double)tn_stream_id(side);
    }
    cr_expect_geq(arrows, 4);
    cr_expect_geq(on_side, 2);
    cJSON_Delete(json);
    tn_profile_release(p);
    tn_stream_release(side);
}

Test(profile, many_pieces_of_work)
{
    tn_device d = reference();
    tn_tensor *x = tn_ones(s, TN_INTS(4), .device = d);
    begin(0);
    for (int i = 0; i < 1000; i++) tn_drop(s, tn_exp(s, x));
    tn_profile *p = end();
    cr_expect_eq(row_of(p, "aten::exp").calls, 1000);
    tn_profile_summary all = {.size = sizeof all};
    tn_profile_get_summary(p, &all);
    cr_expect_eq(all.events, 2000);
    cr_expect_eq(all.unmeasured, 0);
    tn_profile_release(p);
}

Test(profile, replay_of_a_graph)
{
    tn_device d = reference();
    tn_stream *stream;
    tn_graph *graph;
    tn_tensor *x = tn_ones(s, TN_INTS(4), .device = d);
    cr_assert_eq(tn_stream_create(ctx, d, 0, &stream), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, d, &graph), TN_OK);
    tn_device_synchronize(ctx, d);
    tn_stream_set_current(ctx, stream);
    begin(0);
    cr_assert_eq(tn_graph_capture_begin(graph, stream), TN_OK);
    tn_tensor *y = tn_exp(s, x); /* no event may be recorded in between */
    cr_assert_eq(tn_graph_capture_end(graph), TN_OK);
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    cr_assert_eq(tn_graph_replay(graph), TN_OK);
    tn_profile *p = end();
    cr_expect_eq(row_of(p, "graph replay").calls, 2);
    cr_expect_gt(row_of(p, "graph replay").device_self, 0);
    cr_expect_eq(row_of(p, "aten::exp").calls, 1);
    cr_expect_eq(row_of(p, "aten::exp").device_self, 0);
    float out[4];
    cr_assert_eq(tn_to_host(s, y, out, sizeof out), TN_OK);
    cr_expect_float_eq(out[3], 2.7182818f, 1e-5);
    tn_profile_release(p);
    tn_stream_set_current(ctx, tn_stream_default(ctx, d));
    tn_graph_release(graph);
    tn_stream_release(stream);
}

/* ---- Threads ------------------------------------------------------------------------------------------- */

static void *call_exp(void *unused)
{
    tn_scope *mine = tn_scope_open(ctx);
    tn_tensor *x = tn_ones(mine, TN_INTS(2));
    for (int i = 0; i < 20000; i++) tn_drop(mine, tn_exp(mine, x));
    tn_scope_close(mine);
    return unused;
}

Test(profile, ends_while_threads_run)
{
    pthread_t threads[3];
    uint64_t calls = 0;
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, call_exp, NULL);
    for (int i = 0; i < 20; i++) {
        begin(i & 1 ? TN_PROFILE_MEMORY : 0);
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
        tn_profile *p = end();
        calls += row_of(p, "aten::exp").calls;
        tn_profile_release(p);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    cr_expect_leq(calls, 60000);
    begin(0);
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, call_exp, NULL);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    tn_profile *p = end();
    tn_profile_summary all = {.size = sizeof all};
    tn_profile_get_summary(p, &all);
    cr_expect_eq(row_of(p, "aten::exp").calls, 60000);
    cr_expect_eq(all.threads, 3);
    tn_profile_release(p);
}

/* ---- Refusals ------------------------------------------------------------------------------------------ */

Test(profile, refusals)
{
    tn_profile *p = NULL;
    tn_profile_options o = {.size = sizeof o, .flags = 64};
    tn_profile_row row = {.size = sizeof row};
    tn_profile_summary all = {.size = sizeof all};
    cr_expect_eq(tn_profile_end(ctx, &p), TN_E_STATE);
    expect_last_error(TN_E_STATE, "profile_end: no profile has begun");
    cr_expect_eq(tn_profile_begin(ctx, &o), TN_E_UNKNOWN_FIELD);
    expect_last_error(TN_E_UNKNOWN_FIELD, "unknown flags 0x40");
    cr_expect_eq(tn_profile_begin(NULL, NULL), TN_E_ARGUMENT);
    begin(0);
    cr_expect_eq(tn_profile_begin(ctx, NULL), TN_E_STATE);
    expect_last_error(TN_E_STATE, "profile_begin: a profile has begun already");
    cr_expect_eq(tn_profile_end(ctx, NULL), TN_E_ARGUMENT);
    cr_expect_eq(tn_profile_range_begin(ctx, NULL), TN_E_ARGUMENT);
    cr_expect_eq(tn_profile_range_end(ctx), TN_E_STATE);
    expect_last_error(TN_E_STATE, "profile_range_end: no range has begun on this thread");
    p = end();
    cr_expect_eq(tn_profile_range_begin(ctx, "outside"), TN_OK);
    cr_expect_eq(tn_profile_range_end(ctx), TN_OK);
    cr_expect_eq(tn_profile_get(p, 0, &row), TN_E_INDEX);
    expect_last_error(TN_E_INDEX, "profile_get: there is no row 0 (the profile has 0)");
    cr_expect_eq(tn_profile_get(NULL, 0, &row), TN_E_ARGUMENT);
    cr_expect_eq(tn_profile_get_summary(NULL, &all), TN_E_ARGUMENT);
    cr_expect_eq(tn_profile_count(NULL), 0);
    cr_expect_eq(tn_profile_write(p, "/no/such/folder/p.json"), TN_E_IO);
    expect_last_error(TN_E_IO,
                      "profile_write: /no/such/folder/p.json cannot be written: No such file or directory");
    cr_expect_eq(tn_profile_write(p, "/dev/full"), TN_E_IO);
    expect_last_error(TN_E_IO, "/dev/full cannot be written: No space left on device");
    cr_expect_eq(tn_profile_write(NULL, "x"), TN_E_ARGUMENT);
    cr_expect_eq(tn_profile_write(p, NULL), TN_E_ARGUMENT);
    expect_last_error(TN_E_ARGUMENT, "profile_write: path is NULL");
    cr_expect_eq(tn_profile_text(NULL, 0, NULL, 0), 0);
    tn_profile_release(p);
    tn_profile_release(NULL);
}

/* What a text needs is the same whatever there is room for; flags decide about the columns. */
Test(profile, text_without_room)
{
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    for (int with = 0; with < 2; with++) {
        char all[4096];
        begin(with ? TN_PROFILE_SHAPES | TN_PROFILE_MEMORY : 0);
        for (int i = 0; i < 3; i++) tn_exp(s, x);
        tn_profile *p = end();
        uint64_t length = tn_profile_text(p, 100, all, sizeof all);
        cr_expect_eq(tn_profile_text(p, 100, NULL, 0), length);
        cr_expect_eq(tn_profile_text(p, 100, NULL, 50), length);
        cr_expect_eq(strstr(all, "bytes") != NULL, with, "%s", all);
        cr_expect_eq(strstr(all, "shapes") != NULL, with, "%s", all);
        cr_expect_null(strstr(all, "more"));
        tn_profile_release(p);
    }
}

/* Ranges and operators that take longer are shown in milliseconds, then in seconds. */
Test(profile, long_times)
{
    char all[4096];
    begin(0);
    tn_profile_range_begin(ctx, "long");
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    tn_profile_range_end(ctx);
    tn_profile *p = end();
    tn_profile_text(p, 0, all, sizeof all);
    cr_expect_not_null(strstr(all, " ms"), "%s", all);
    tn_profile_release(p);
}

/* Calls that differ in one thing have rows of their own: the shapes, the dtype, the name of a range. */
Test(profile, rows_that_differ_in_one_thing)
{
    tn_tensor *a = tn_ones(s, TN_INTS(2)), *b = tn_ones(s, TN_INTS(3)),
              *c = tn_ones(s, TN_INTS(2), .dtype = TN_FLOAT64), *d = tn_ones(s, TN_INTS(2, 1));
    tn_tensor *each[] = {a, b, c, d};
    static const char *const shapes[] = {"float32 [2]", "float32 [3]", "float64 [2]", "float32 [2, 1]"};
    begin(TN_PROFILE_SHAPES);
    for (int i = 0; i < 12; i++) tn_exp(s, each[i % 4]);
    for (int i = 0; i < 300; i++) { /* more names than the table has places at first */
        char name[16];
        snprintf(name, sizeof name, "range %d", i % 150);
        tn_profile_range_begin(ctx, name);
        tn_profile_range_end(ctx);
    }
    tn_profile *p = end();
    for (int i = 0; i < 4; i++) cr_expect_eq(row_with(p, "aten::exp", shapes[i]).calls, 3, "%s", shapes[i]);
    cr_expect_eq(row_of(p, "range 0").calls, 2);
    cr_expect_eq(row_of(p, "range 149").calls, 2);
    tn_profile_release(p);
}

Test(profile, too_many_events)
{
    const tn_profile_options o = {.size = sizeof o, .max_events = 10};
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    cr_assert_eq(tn_profile_begin(ctx, &o), TN_OK);
    for (int i = 0; i < 25; i++) tn_exp(s, x);
    tn_profile *p = end();
    tn_profile_summary all = {.size = sizeof all};
    tn_profile_get_summary(p, &all);
    cr_expect_eq(all.events, 10);
    cr_expect_eq(all.dropped, 15);
    cr_expect_eq(row_of(p, "aten::exp").calls, 25); /* the table counts them all */
    tn_profile_release(p);
}

/* A context that ends in the middle of a profile. */
Test(profile, never_ended)
{
    tn_device d = reference();
    begin(TN_PROFILE_MEMORY);
    tn_profile_range_begin(ctx, "open");
    tn_exp(s, tn_ones(s, TN_INTS(2), .device = d));
}

/* ---- TENON_PROFILE ------------------------------------------------------------------------------------- */

Test(profile_environment, writes_a_file)
{
    make_path();
    setenv("TENON_PROFILE", path, 1);
    setenv("TENON_PROFILE_WITH", "shapes,memory", 1);
    open_context();
    cr_expect_eq(tn_profile_begin(ctx, NULL), TN_E_STATE);
    expect_last_error(TN_E_STATE,
                      "profile_begin: a profile has begun already, by TENON_PROFILE=/tmp/tenon_prof");
    tn_exp(s, tn_ones(s, TN_INTS(2)));
    close_context();
    cJSON *json = read_json(path);
    const cJSON *e = event_of(json, "X", "aten::exp", 0);
    cr_assert_not_null(e);
    cr_expect_str_eq(text(cJSON_GetObjectItem(e, "args"), "shapes"), "float32 [2]");
    cr_expect_not_null(event_of(json, "C", "memory of cpu", 0));
    cJSON_Delete(json);
    unlink(path);
}

/*
 * The program exits with its context, its scope and work of a device. It is a process of its own, not the child of a
 * fork: Criterion has threads here, and what is forked from several threads should start none.
 */
Test(profile_environment, writes_a_file_when_the_program_exits)
{
    make_path();
    setenv("TENON_PROFILE", path, 1);
    expect_good(start_partner((char *const[]){"leaves", NULL}));
    cJSON *json = read_json(path);
    cr_assert_not_null(event_of(json, "X", "aten::exp", 0));
    cr_assert_not_null(event_of(json, "X", "aten::log", 0));
    cJSON_Delete(json);
    unlink(path);
}

/* A child that is forked does not write the profile of its parent. What tells the sanitizer of OpenMP's order ends a child. */
Test(profile_environment, a_forked_child_writes_nothing)
{
#if TN_SANITIZER == TN_SANITIZER_THREAD
    cr_skip_test("a forked child does not survive libarcher");
#endif
    struct stat before, after;
    make_path();
    setenv("TENON_PROFILE", path, 1);
    open_context();
    tn_exp(s, tn_ones(s, TN_INTS(2)));
    cr_assert_eq(stat(path, &before), 0);
    pid_t child = fork();
    if (!child) exit(0); /* runs what atexit has noted */
    expect_good(child);
    cr_assert_eq(stat(path, &after), 0);
    cr_expect_eq(before.st_size, after.st_size);
    close_context();
    cJSON *json = read_json(path);
    cr_assert_not_null(event_of(json, "X", "aten::exp", 0));
    cJSON_Delete(json);
    unlink(path);
}

Test(profile_environment, bad_values)
{
    tn_context *c = NULL;
    setenv("TENON_PROFILE", "/no/such/folder/p.json", 1);
    cr_expect_eq(tn_context_create(NULL, &c), TN_E_IO);
    expect_last_error(TN_E_IO,
                      "TENON_PROFILE: /no/such/folder/p.json cannot be written: No such file or directory");
    make_path();
    setenv("TENON_PROFILE", path, 1);
    setenv("TENON_PROFILE_WITH", "memory,colours", 1);
    cr_expect_eq(tn_context_create(NULL, &c), TN_E_ARGUMENT);
    expect_last_error(TN_E_ARGUMENT, "TENON_PROFILE_WITH: 'colours' is neither shapes nor memory");
    unlink(path);
}
