/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the vendor's libraries share: a device whose log is kept, the setting that switches libraries off, tensors
 * of random numbers and how far apart two are. A test file defines LIBRARY. The tests of the HIP plugin compile it, too, with the
 * names of its libraries.
 */
#ifndef TESTS_CUDA_LIBRARIES_SESSION_H
#define TESTS_CUDA_LIBRARIES_SESSION_H

#ifndef DEVICE
#define DEVICE "cuda"
#endif

#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../../core/rows.h"
#include "../../gpu/device_suite.h"

/* The first of a list of files, and the symbol behind a name. */
#define FIRST_OF(...) (((const char *const[])__VA_ARGS__)[0])
#define NAME(x)       NAME_OF(x)
#define NAME_OF(x)    #x

static char said[4096]; /* the log */

static void keep_log(void *user, int32_t level, const char *text)
{
    size_t used = strlen(said);
    snprintf(said + used, sizeof said - used, "%d %s\n", level, text);
}

/* Call `call` of the function fails with the status. */
static inline void let_fail(const char *function, int call, int status)
{
    char text[96];
    snprintf(text, sizeof text, "%s:%d:%d", function, call, status);
    setenv("LIBRARY_FAIL", text, 1);
}

static inline void expect_in(const char *text, const char *format, ...)
{
    char want[512];
    va_list list;
    va_start(list, format);
    vsnprintf(want, sizeof want, format, list);
    va_end(list);
    cr_assert(strstr(text, want), "\"%s\" has no \"%s\"", text, want);
}

static void open_device(void)
{
    tn_context_options options = {.size = sizeof options, .log = keep_log};
    open_first(&options, DEVICE, NO_TWINS);
    s = scope_on_device();
}

/* What the library counts, or -1: it is not loaded. */
static int count(int what)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    int (*function)(int);
    if (!library) return -1;
    *(void **)(void *)&function = dlsym(library, "stand_in_count");
    return function(what);
}

/* The library's objects live until the device is closed, and none stays. `live` counts them. */
static inline void expect_objects_until_the_end(int live)
{
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    cr_assert_gt(count(live), 0);
    close_device();
    cr_assert_eq(count(live), 0, "objects of the library are left");
}

static inline void use_library(int32_t on)
{
    cr_assert_eq(tn_device_set_setting(ctx, device, "libraries", tn_value_bool(on)), TN_OK);
}

static inline tn_tensor *numbers(tn_dtype dtype, tn_ints sizes)
{
    tn_tensor *t = tn_empty(s, sizes, .dtype = TN_FLOAT32);
    return tn_to(s, tn_uniform_(s, t, .from = -1, .to = 1), dtype);
}

/* The largest difference, in float64. */
static inline double difference(const tn_tensor *a, const tn_tensor *b)
{
    cr_assert_not(tn_scope_failed(s), "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "");
    tn_tensor *d = tn_sub(s, tn_to(s, (tn_tensor *)a, TN_FLOAT64), tn_to(s, (tn_tensor *)b, TN_FLOAT64));
    return tn_item_double(s, tn_max(s, tn_abs(s, d)));
}

/* expect_in_order, where the host waits for stream `first` before the other one. */
static inline void expect_in_order_from(int first, tn_tensor *(*compute)(double x), double (*want)(double x))
{
    tn_stream *home = tn_stream_current(ctx, device), *sides[2] = {NULL};
    tn_tensor *outs[2];
    setenv("FAULTY_UNASKED", "1", 1);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(tn_stream_create(ctx, device, 0, &sides[i]), TN_OK);
        tn_stream_set_current(ctx, sides[i]);
        outs[i] = compute(i + 1);
    }
    for (int k = 0; k < 2; k++) {
        const int i = first ? 1 - k : k;
        tn_stream_set_current(ctx, sides[i]);
        cr_assert_eq(tn_item_double(s, tn_max(s, outs[i])), want(i + 1));
        cr_assert_eq(tn_item_double(s, tn_min(s, outs[i])), want(i + 1));
    }
    unsetenv("FAULTY_UNASKED");
    tn_stream_set_current(ctx, home);
    for (int i = 0; i < 2; i++) tn_stream_release(sides[i]);
}

/* On two streams, whose work begins when the host waits for it: `compute` gets 1 and 2, and all of the results are want(1) and want(2). */
static inline void expect_in_order(tn_tensor *(*compute)(double x), double (*want)(double x))
{
    for (int first = 0; first < 2; first++) expect_in_order_from(first, compute, want);
}

/* A graph in which `compute` makes `out` of `in`: replays with other values in it give want() of them. */
static inline void capture_and_replay(tn_tensor *in, tn_tensor *out, tn_tensor *(*compute)(tn_tensor *in),
                                      double (*want)(double x))
{
    tn_stream *home = tn_stream_current(ctx, device), *side = NULL;
    tn_graph *graph = NULL;
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, device, &graph), TN_OK);
    tn_stream_wait_stream(side, home);
    tn_stream_set_current(ctx, side);
    cr_assert_eq(tn_graph_capture_begin(graph, side), TN_OK);
    tn_copy_(s, out, compute(in));
    cr_assert_eq(tn_graph_capture_end(graph), TN_OK, "%s", tn_last_error() ? tn_last_error()->message : "");
    tn_stream_set_current(ctx, home);
    for (int i = 1; i < 4; i++) {
        tn_fill_scalar_(s, in, i);
        cr_assert_eq(tn_graph_replay(graph), TN_OK);
        cr_assert_eq(tn_item_double(s, tn_max(s, out)), want(i));
    }
    tn_graph_release(graph);
    tn_stream_release(side);
}

/* How often the library is called for a capture of work that it has done before, and for its replays. */
static inline int calls_for_replays(tn_tensor *in, tn_tensor *out, tn_tensor *(*compute)(tn_tensor *in),
                                    double (*want)(double x), int counter)
{
    compute(in);
    cr_assert_eq(count(counter), 1);
    capture_and_replay(in, out, compute, want);
    return count(counter) - 1;
}

/* A capture opens no library and makes no plan: it has the kernels, and the next call asks the library. */
static inline void expect_kernels_in_captures(tn_tensor *in, tn_tensor *out,
                                              tn_tensor *(*compute)(tn_tensor *in), double (*want)(double x),
                                              int counter)
{
    capture_and_replay(in, out, compute, want);
    cr_assert_eq(count(counter), -1, "the library was opened");
    compute(in);
    cr_assert_eq(count(counter), 1);
}

#endif
