/* SPDX-License-Identifier: Apache-2.0 */
/* What the environment asks for: TENON_LOG, and TENON_DEBUG's list of what is alive and of dead handles. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/interop.h>
#include <tenon/io.h>
#include <unistd.h>
#include "core/debug.h"
#include "core/dlpack.h"
#include "core/log.h"
#include "core/profile.h"
#include "core/scope.h"
#include "fake_driver.h"
#include "log_lines.h"
#include "child.h"

/* ---- Where lines go ------------------------------------------------------------------------------------ */

/* What `run` writes to standard error. */
static const char *printed_by(void (*run)(void))
{
    static char text[4096];
    char path[] = P_tmpdir "/tenon-log-XXXXXX";
    int file = mkstemp(path), before = dup(2);
    cr_assert(file >= 0 && before >= 0);
    unlink(path);
    fflush(stderr);
    dup2(file, 2);
    run();
    fflush(stderr);
    dup2(before, 2);
    ssize_t n = pread(file, text, sizeof text - 1, 0);
    text[n < 0 ? 0 : n] = 0;
    close(file);
    close(before);
    return text;
}

/* What `run` prints with TENON_LOG set to `level`. */
static void expect_printed(const char *level, void (*run)(void), const char *text)
{
    setenv("TENON_LOG", level, 1);
    cr_assert_str_eq(printed_by(run), text, "TENON_LOG=%s", level);
}

static void log_all_levels(void)
{
    tn_context *ctx = NULL;
    const tn_context_options options = {.size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY};
    if (tn_context_create(&options, &ctx)) return;
    tni_log(ctx, TN_LOG_ERROR, "a %d", 1);
    tni_log(ctx, TN_LOG_WARN, "b");
    tni_log(ctx, TN_LOG_INFO, "c");
    tni_log(ctx, TN_LOG_DEBUG, "d");
    tn_context_destroy(ctx);
}

static void forget_environment(void)
{
    static const char *const names[] = {"TENON_LOG",    "TENON_VALIDATE", "TENON_RECORD",
                                        "TENON_INJECT", "TENON_DEBUG",    "TENON_TRACE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
}

TestSuite(debug, .init = forget_environment);

Test(debug, without_a_sink_nothing_is_printed)
{
    cr_assert_str_eq(printed_by(log_all_levels), "");
}

Test(debug, log_prints_up_to_its_level)
{
    expect_printed("error", log_all_levels, "tenon: error: a 1\n");
    expect_printed("info", log_all_levels, "tenon: error: a 1\ntenon: warn: b\ntenon: info: c\n");
    expect_printed("3", log_all_levels,
                   "tenon: error: a 1\ntenon: warn: b\ntenon: info: c\ntenon: debug: d\n");
    setenv("TENON_LOG", "loud", 1);
    cr_assert_str_eq(
        printed_by(log_all_levels),
        "tenon: warn: TENON_LOG is 'loud' (expected error, warn, info or debug); warn is assumed\n"
        "tenon: error: a 1\ntenon: warn: b\n");
}

static void log_odd_levels(void)
{
    tn_context *ctx = NULL;
    const tn_context_options options = {.size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY};
    if (tn_context_create(&options, &ctx)) return;
    tni_log(ctx, -3, "below");
    tni_log(ctx, 77, "above");
    tn_context_destroy(ctx);
}

Test(debug, levels_that_there_are_not)
{
    expect_printed("debug", log_odd_levels, "tenon: error: below\n");
    static const char *const words[] = {"4", "/", "errors"};
    for (int i = 0; i < 3; i++) {
        char text[160];
        snprintf(text, sizeof text,
                 "tenon: warn: TENON_LOG is '%s' (expected error, warn, info or debug); warn is assumed\n"
                 "tenon: error: below\n",
                 words[i]);
        expect_printed(words[i], log_odd_levels, text);
    }
    setenv("TENON_LOG", "", 1);
    setenv("TENON_DEBUG", "", 1);
    cr_assert_str_eq(printed_by(log_odd_levels), "");
    expect_printed("0", log_odd_levels, "tenon: error: below\n");
}

Test(debug, layer_of_the_environment_prints_warnings)
{
    setenv("TENON_DEBUG", "leaks", 1);
    cr_assert_str_eq(printed_by(log_all_levels), "tenon: error: a 1\ntenon: warn: b\n");
    expect_printed("error", log_all_levels, "tenon: error: a 1\n");
}

static void warn_of_a_setting(void)
{
    tn_context *ctx = NULL;
    const tn_context_options options = {.size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY};
    if (tn_context_create(&options, &ctx)) return;
    tni_log_setting(ctx, "TENON_X", "b", "c or d", "c");
    tn_context_destroy(ctx);
}

Test(debug, a_wrong_setting_is_always_said)
{
    const char *const expected = "tenon: warn: TENON_X is 'b' (expected c or d); c is assumed\n";
    cr_assert_str_eq(printed_by(warn_of_a_setting), expected);
    setenv("TENON_TRACE", "/nonexistent/file", 1); /* a layer: its warnings are printed */
    cr_assert_str_eq(printed_by(warn_of_a_setting), expected);
    cr_assert_str_eq(printed_by(log_all_levels), "tenon: error: a 1\ntenon: warn: b\n");
    expect_printed("error", warn_of_a_setting, "");
}

/* ---- TENON_DEBUG --------------------------------------------------------------------------------------- */

static fake cpu;
static lines l; /* of the log */

static tn_context *watched(const char *wishes)
{
    tn_context *ctx = NULL;
    const tn_context_options options = {
        .size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY, .log = keep_line, .log_user = &l};
    setenv("TENON_DEBUG", wishes, 1);
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    cpu = (fake){.type = "cpu", .count = 1};
    const tni_driver driver = fake_driver(&cpu);
    cr_assert_eq(tni_device_type_add(ctx, &driver), TN_OK);
    return ctx;
}

Test(debug, unknown_words_are_refused)
{
    tn_context *ctx = NULL;
    setenv("TENON_DEBUG", "leaks,handels", 1);
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_E_ARGUMENT);
    cr_assert_str_eq(tn_last_error()->message,
                     "TENON_DEBUG: unknown word 'handels' (expected handles, leaks, nan or anomaly)");
}

Test(debug, words_are_read)
{
    tn_context *ctx = watched("nan,,leaks,handles");
    cr_assert_eq(tni_debug_wishes(ctx), TNI_DEBUG_HANDLES | TNI_DEBUG_LEAKS | TNI_DEBUG_NAN);
    tn_context_destroy(ctx);
    ctx = watched("");
    cr_assert_eq(tni_debug_wishes(ctx), 0);
    tn_context_destroy(ctx);
    cr_assert_eq(l.count, 0, "%s", l.text);
}

Test(debug, leaks_are_listed_with_their_makers)
{
    tn_context *ctx = watched("leaks");
    tn_scope *s = tn_scope_open(ctx), *child = tn_scope_open_child(s, NULL);
    tn_tensor *kept = tn_retain(tn_from_data(child, TN_FLOAT32, TN_INTS(2, 3), (float[6]){0}, TN_CPU));
    tn_from_data(child, TN_INT64, TN_INTS(1), (int64_t[]){1}, TN_CPU);
    tn_scope_close(child);
    tn_scalar_tensor_of(s, tn_value_int(1), 0, TN_CPU);
    tn_context_destroy(ctx);
    cr_assert_str_eq(
        l.text,
        "TENON_DEBUG: leak: scope of tn_scope_open is open and owns 1 tensor (number 1)\n"
        "TENON_DEBUG: leak: tensor [] int64 with 1 reference, made by tn_scalar_tensor_of (number 5)\n"
        "TENON_DEBUG: leak: tensor [2, 3] float32 with 1 reference, made by tn_from_data (number 3)\n"
        "TENON_DEBUG: 2 tensors, 1 scope and 0 other objects are alive when the context is destroyed\n");
    tn_scope_close(s); /* what is alive keeps the context */
    tn_release(kept);
    cr_assert_eq(cpu.closed, 1);
    cr_assert_eq(cpu.live_allocations, 0);
}

Test(debug, objects_that_are_not_destroyed_are_listed)
{
    tn_context *ctx = watched("leaks");
    tn_generator *kept, *gone;
    int object;
    cr_assert_eq(tn_generator_create(ctx, 1, &kept), TN_OK);
    cr_assert_eq(tn_generator_create(ctx, 1, &gone), TN_OK);
    tn_generator_release(gone);
    tn_debug_object_begin(ctx, &object, "model 'net'");
    tn_debug_object_begin(ctx, &ctx, "ended");
    tn_debug_object_end(&ctx);
    tn_debug_object_end(&ctx);
    tn_debug_object_end(NULL);
    tn_context_destroy(ctx);
    cr_assert_str_eq(
        l.text,
        "TENON_DEBUG: leak: model 'net' was not destroyed (number 3)\n"
        "TENON_DEBUG: leak: generator was not destroyed (number 1)\n"
        "TENON_DEBUG: 0 tensors, 0 scopes and 2 other objects are alive when the context is destroyed\n");
    tn_generator_release(kept); /* what is alive keeps the context */
    tn_debug_object_end(&object);
}

Test(debug, streams_and_profiles_that_are_not_released_are_listed)
{
    tn_context *ctx = watched("leaks");
    tn_stream *kept, *gone, *next;
    tn_profile *profile, *released;
    cr_assert_eq(tn_stream_create(ctx, TN_CPU, 0, &kept), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, TN_CPU, 0, &gone), TN_OK);
    tn_stream_release(gone);
    cr_assert_eq(tn_stream_create(ctx, TN_CPU, 0, &next), TN_OK); /* in the place of the one before */
    tn_stream_release(next);
    cr_assert_not_null(tn_stream_default(ctx, TN_CPU));
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(tni_profile_start(ctx, NULL), TN_OK);
        cr_assert_eq(tni_profile_stop(ctx, i ? &profile : &released), TN_OK);
    }
    tn_profile_release(released);
    tni_profile_finish(ctx); /* the dispatcher's in a whole library */
    tn_context_destroy(ctx);
    cr_assert_str_eq(
        l.text,
        "TENON_DEBUG: leak: profile was not destroyed (number 5)\n"
        "TENON_DEBUG: leak: stream was not destroyed (number 1)\n"
        "TENON_DEBUG: 0 tensors, 0 scopes and 2 other objects are alive when the context is destroyed\n");
    tn_profile_release(profile);
    tn_stream_release(kept); /* what is alive keeps the context */
    cr_assert_eq(cpu.closed, 1);
}

/* The place of a call without a scope is that of the objects that it made, not of those from before it. */
Test(debug, objects_are_listed_with_the_place_of_their_call)
{
    tn_context *ctx = watched("leaks");
    int before, first, second;
    tn_debug_object_begin(ctx, &before, "model 'before'");
    uint64_t errors = tn_error_count();
    tn_debug_object_begin(ctx, &first, "model 'first'");
    tn_error_place(errors, "train.c", 7);
    errors = tn_error_count();
    tn_debug_object_begin(ctx, &second, "model 'second'");
    tn_error_place(errors, "train.c", 8);
    tn_error_place(errors, "train.c", 9); /* the outer call: the first place is kept */
    tn_context_destroy(ctx);
    cr_assert_str_eq(
        l.text,
        "TENON_DEBUG: train.c:8: leak: model 'second' was not destroyed (number 3)\n"
        "TENON_DEBUG: train.c:7: leak: model 'first' was not destroyed (number 2)\n"
        "TENON_DEBUG: leak: model 'before' was not destroyed (number 1)\n"
        "TENON_DEBUG: 0 tensors, 0 scopes and 3 other objects are alive when the context is destroyed\n");
}

/* Tensors, too, of a caller that opens a scope and closes it again before it knows whether the call failed. */
Test(debug, tensors_are_listed_with_the_place_of_a_call_without_a_scope)
{
    tn_context *ctx = watched("leaks");
    tn_tensor *kept[3];
    for (int i = 0; i < 3; i++) {
        const uint64_t errors = tn_error_count();
        tn_scope *s = tn_scope_open(ctx);
        kept[i] = tn_retain(tn_scalar_tensor_of(s, tn_value_int(1), 0, TN_CPU));
        cr_assert_eq(tn_scope_close(s), TN_OK);
        if (i) tn_error_place(errors, "train.py", (uint32_t)i);
    }
    tn_context_destroy(ctx);
    cr_assert_str_eq(
        l.text,
        "TENON_DEBUG: train.py:2: leak: tensor [] int64 with 1 reference, made by tn_scalar_tensor_of "
        "(number 6)\n"
        "TENON_DEBUG: train.py:1: leak: tensor [] int64 with 1 reference, made by tn_scalar_tensor_of "
        "(number 4)\n"
        "TENON_DEBUG: leak: tensor [] int64 with 1 reference, made by tn_scalar_tensor_of (number 2)\n"
        "TENON_DEBUG: 3 tensors, 0 scopes and 0 other objects are alive when the context is destroyed\n");
    for (int i = 0; i < 3; i++) tn_release(kept[i]);
}

/* A wrapper says where it took an object over that has no place. */
Test(debug, an_object_gets_its_place_later)
{
    tn_context *ctx = watched("leaks");
    int first, second;
    tn_debug_object_begin(ctx, &first, "model 'first'");
    tn_debug_object_begin(ctx, &second, "model 'second'");
    tn_debug_object_place(&second, "train.cpp", 7);
    tn_debug_object_place(&second, "train.cpp", 8); /* the first place is kept */
    tn_debug_object_place(&ctx, "train.cpp", 9);
    tn_debug_object_place(NULL, "train.cpp", 9);
    tn_debug_object_place(&first, NULL, 9);
    tn_context_destroy(ctx);
    cr_assert_str_eq(
        l.text,
        "TENON_DEBUG: train.cpp:7: leak: model 'second' was not destroyed (number 2)\n"
        "TENON_DEBUG: leak: model 'first' was not destroyed (number 1)\n"
        "TENON_DEBUG: 0 tensors, 0 scopes and 2 other objects are alive when the context is destroyed\n");
}

/* The arguments of a call may be calls with places of their own. */
Test(debug, an_object_of_a_call_around_another_has_its_place)
{
    tn_context *ctx = watched("leaks");
    int object;
    tn_scope *s = tn_scope_open(ctx);
    const int32_t outer = tn_scope_place_begin(s), inner = tn_scope_place_begin(s);
    cr_assert(outer == TN_PLACE_WANTED && inner == TN_PLACE_WANTED);
    tn_tensor *kept = tn_retain(tn_scalar_tensor_of(s, tn_value_int(1), 0, TN_CPU));
    tn_scope_call_place(s, "model.c", 6);
    tn_debug_object_begin(ctx, &object, "data set");
    tn_scope_call_place(s, "model.c", 5);
    tn_scope_close(s);
    tn_context_destroy(ctx);
    cr_assert_str_eq(
        l.text,
        "TENON_DEBUG: model.c:5: leak: data set was not destroyed (number 3)\n"
        "TENON_DEBUG: model.c:6: leak: tensor [] int64 with 1 reference, made by tn_scalar_tensor_of "
        "(number 2)\n"
        "TENON_DEBUG: 1 tensor, 0 scopes and 1 other object are alive when the context is destroyed\n");
    tn_release(kept);
}

/* A call with a scope: objects that it made have its place, and so do tensors. */
Test(debug, objects_of_a_call_with_a_scope_have_its_place)
{
    tn_context *ctx = watched("leaks");
    int before, object;
    tn_scope *s = tn_scope_open(ctx);
    tn_debug_object_begin(ctx, &before, "model 'before'");
    cr_assert_eq(tn_scope_place_begin(s), TN_PLACE_WANTED);
    tn_debug_object_begin(ctx, &object, "model 'net'");
    tn_tensor *kept = tn_retain(tn_scalar_tensor_of(s, tn_value_int(1), 0, TN_CPU));
    tn_scope_call_place(s, "model.c", 5);
    tn_scope_close(s);
    tn_context_destroy(ctx);
    cr_assert_str_eq(
        l.text,
        "TENON_DEBUG: model.c:5: leak: model 'net' was not destroyed (number 3)\n"
        "TENON_DEBUG: leak: model 'before' was not destroyed (number 2)\n"
        "TENON_DEBUG: model.c:5: leak: tensor [] int64 with 1 reference, made by tn_scalar_tensor_of "
        "(number 4)\n"
        "TENON_DEBUG: 1 tensor, 0 scopes and 2 other objects are alive when the context is destroyed\n");
    tn_release(kept);
    tn_debug_object_end(&object);
    tn_debug_object_end(&before);
}

/* Tensors that no operator made. */
Test(debug, leaks_of_imported_and_shared_tensors)
{
    tn_context *ctx = watched("leaks");
    tn_scope *s = tn_scope_open(ctx);
    DLManagedTensorVersioned *m = NULL;
    tn_tensor *none = tn_from_data(s, TN_FLOAT32, TN_INTS(0, 3), NULL, TN_CPU);
    cr_assert_eq(tn_to_dlpack(none, &m), TN_OK);
    tn_tensor *imported = tn_retain(tn_from_dlpack(s, m)), *shared = tn_retain(tn_share(s, none));
    tn_scope_close(s);
    tn_context_destroy(ctx);
    cr_assert_eq(l.count, 3, "%s", l.text);
    cr_assert_not_null(strstr(l.text, "tensor [0, 3] float32 with 1 reference, made by tn_from_dlpack"));
    cr_assert_not_null(strstr(l.text, "tensor [0, 3] float32 with 1 reference, made by tn_share"));
    tn_release(imported);
    tn_release(shared);
    cr_assert_eq(cpu.closed, 1);
}

/* A line of the log and the thread's error say it; the log is forgotten. */
static void expect_dead(const char *text)
{
    cr_assert_not_null(strstr(l.text, text), "%s instead of %s", l.text, text);
    cr_assert_eq(tn_last_error()->code, TN_E_DEAD_HANDLE);
    cr_assert_not_null(strstr(tn_last_error()->message, text), "%s", tn_last_error()->message);
    l = (lines){0};
    tn_clear_error();
}

Test(debug, objects_that_are_released_twice_are_errors)
{
    tn_context *ctx = watched("handles");
    char path[] = "/tmp/tenon-debug-XXXXXX";
    cr_assert_geq(mkstemp(path), 0);
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[2]){0}, TN_CPU);
    const tn_named_tensor item = {"x", x};
    cr_assert_eq(tn_safetensors_save(s, path, &item, 1, NULL, 0), TN_OK);

    tn_safetensors *file;
    cr_assert_eq(tn_safetensors_open(ctx, path, &file), TN_OK);
    tn_safetensors_close(file);
    cr_assert_eq(l.count, 0, "%s", l.text);
    tn_safetensors_close(file);
    expect_dead("safetensors file was released and is released again at ");
    cr_assert_null(tn_safetensors_get(s, file, "x", TN_CPU));
    expect_dead("safetensors file was released and is used again");
    tn_scope_clear(s);
    cr_assert_null(tn_safetensors_map(s, file, "x"));
    expect_dead("safetensors file was released and is used again");
    tn_scope_clear(s);
    cr_assert_eq(tn_safetensors_count(file), 0);
    cr_assert_null(tn_safetensors_name(file, 0));
    cr_assert_null(tn_safetensors_metadata(file, "x"));

    tn_generator *g;
    cr_assert_eq(tn_generator_create(ctx, 1, &g), TN_OK);
    tn_generator_release(g);
    tn_generator_release(g);
    expect_dead("generator was released and is released again at ");
    tn_event *e;
    cr_assert_eq(tn_event_create(ctx, TN_CPU, 0, &e), TN_OK);
    tn_event_release(e);
    tn_event_release(e);
    expect_dead("event was released and is released again at ");
    cr_assert_eq(tn_event_synchronize(e), TN_E_DEAD_HANDLE);
    expect_dead("event was released and is used again");
    tn_scope_close(s);
    tn_context_destroy(ctx);
    unlink(path);
    cr_assert_eq(cpu.closed, 1, "the dead objects do not keep the context");
}

/* A tensor keeps the context that the program has destroyed. */
Test(debug, a_context_that_is_destroyed_twice_is_an_error)
{
    tn_context *ctx = watched("handles");
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *kept = tn_retain(tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[2]){0}, TN_CPU));
    tn_scope_close(s);
    tn_context_destroy(ctx);
    cr_assert_eq(l.count, 0, "%s", l.text);
    tn_context_destroy(ctx);
    expect_dead("context was released and is released again at ");
    cr_assert_eq(tn_tensor_numel(kept), 2);
    tn_release(kept);
}

/* The same calls fail as on a context that nothing keeps; what the program has made may still end. */
Test(debug, calls_on_a_destroyed_context_that_a_tensor_keeps_are_errors)
{
    const char *text = "context was released and is used again";
    tn_context *ctx = watched("handles");
    tn_scope *s = tn_scope_open(ctx);
    tn_generator *g;
    tn_stream *stream;
    tn_tensor *kept = tn_retain(tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[2]){0}, TN_CPU));
    cr_assert_eq(tn_generator_create(ctx, 1, &g), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, TN_CPU, 0, &stream), TN_OK);
    tn_context_destroy(ctx);
    cr_assert_null(tn_scope_open(ctx));
    expect_dead(text);
    cr_assert_null(tn_scope_open_child(s, NULL));
    expect_dead(text);
    cr_assert_null(tn_from_data(s, TN_FLOAT32, TN_INTS(1), (float[1]){0}, TN_CPU));
    expect_dead(text);
    cr_assert_eq(tn_set_default_dtype(ctx, TN_FLOAT64), TN_E_DEAD_HANDLE);
    expect_dead(text);
    cr_assert_eq(tn_device_count(ctx, "cpu"), 0);
    expect_dead(text);
    cr_assert_null(tn_stream_default(ctx, TN_CPU));
    expect_dead(text);
    cr_assert_eq(tn_scope_close(s), TN_OK);
    tn_generator_release(g);
    tn_stream_release(stream);
    cr_assert_eq(tn_tensor_version(kept), 0);
    cr_assert_eq(cpu.closed, 0);
    tn_release(kept);
    cr_assert_eq(cpu.closed, 1);
    cr_assert_eq(cpu.live_allocations, 0);
    cr_assert_eq(l.count, 0, "%s", l.text);
}

/* Its memory stays. The program's log may have ended with it, so the lines go nowhere. */
Test(debug, calls_on_a_dead_context_are_errors)
{
    tn_context *ctx = watched("handles");
    tn_context_destroy(ctx);
    cr_assert_null(tn_scope_open(ctx));
    cr_assert_eq(tn_last_error()->code, TN_E_DEAD_HANDLE);
    cr_assert_str_eq(tn_last_error()->message, "context was released and is used again");
    tn_clear_error();
    cr_assert_eq(tn_intern(ctx, "text"), 0);
    cr_assert_eq(tn_last_error()->code, TN_E_DEAD_HANDLE);
    cr_assert_eq(tn_device_count(ctx, NULL), 0);
    cr_assert_eq(tn_device_synchronize(ctx, TN_CPU), TN_E_DEAD_HANDLE);
    tn_set_num_threads(ctx, 3);
    tn_clear_error();
    tn_context_destroy(ctx);
    cr_assert_eq(tn_last_error()->code, TN_E_DEAD_HANDLE);
    cr_assert_eq(l.count, 0, "%s", l.text);
}

static void use_dead_context(void)
{
    tn_context *ctx = NULL;
    const tn_context_options options = {.size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY};
    if (tn_context_create(&options, &ctx)) return;
    tn_context_destroy(ctx);
    tn_scope_open(ctx);
}

Test(debug, a_dead_context_is_told_on_standard_error)
{
    setenv("TENON_DEBUG", "handles", 1);
    cr_assert_str_eq(printed_by(use_dead_context), "tenon: error: context was released and is used again\n");
}

Test(debug, program_without_leaks_is_silent)
{
    tn_context *ctx = watched("handles,leaks,nan");
    for (int i = 0; i < 3; i++) {
        tn_scope *s = tn_scope_open(ctx);
        tn_tensor *t = tn_retain(tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[2]){0}, TN_CPU));
        cr_assert_eq(tn_scope_close(s), TN_OK);
        tn_release(t);
    }
    tn_context_destroy(ctx);
    cr_assert_eq(l.count, 0, "%s", l.text);
    cr_assert_eq(cpu.live_allocations, 0);
}

Test(debug, use_after_the_end_is_logged)
{
    tn_context *ctx = watched("handles");
    tn_scope *s = tn_scope_open(ctx), *other = tn_scope_open(ctx);
    tn_tensor *t = tn_retain(tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[2]){0}, TN_CPU));
    tn_scope_close(s);
    tn_release(t);
    cr_assert_str_eq(l.text, "");
    tn_release(t);
    cr_assert_not_null(
        strstr(l.text, "of sizes [2] and dtype float32 was released and is released again at "));
    const char *place = strstr(l.text, "+0x"); /* in this program, whatever the test's runner calls it */
    cr_assert(place && strtoull(place + 1, NULL, 16) > 0, "%s", l.text);
    l.text[0] = 0;
    cr_assert(isnan(tn_item_double(other, t)));
    cr_assert_eq(tn_scope_failed(other), TN_E_DEAD_HANDLE);
    cr_assert_not_null(strstr(l.text, "was released and is used again"));
    l.text[0] = 0;
    cr_assert_null(tn_scope_memory(s, 8));
    cr_assert_not_null(strstr(l.text, "was closed and is used again"));
    tn_scope_close(other);
    tn_context_destroy(ctx);
}

/* Each misuse is logged once, with the place of the call, and the questions behind the call log nothing. */
Test(debug, misused_handles_have_the_place_of_the_call)
{
    char text[256];
    tn_context *ctx = watched("handles");
    tn_scope *s = tn_scope_open(ctx), *other = tn_scope_open(ctx);
    tn_tensor *t = tn_retain(tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[2]){0}, TN_CPU));
    tn_scope_close(s);
    tn_release(t);
    cr_assert_eq(tn_scope_place_begin(s), TN_PLACE_WANTED);
    cr_assert_null(tn_scope_memory(s, 8));
    cr_assert_str_eq(l.text, "");
    tn_scope_call_place(s, "model.c", 12);
    cr_assert_eq(tn_scope_failed(s), TN_E_DEAD_HANDLE);
    snprintf(text, sizeof text, "TENON_DEBUG: model.c:12: scope %p was closed and is used again\n",
             (void *)s);
    cr_assert_str_eq(l.text, text);
    l.text[0] = 0;
    cr_assert_eq(tn_scope_place_begin(other), TN_PLACE_WANTED);
    tn_item_double(other, t);
    tn_scope_call_place(other, "model.c", 13);
    snprintf(text, sizeof text,
             "TENON_DEBUG: model.c:13: tensor %p of sizes [2] and dtype float32 was released and is used "
             "again\n",
             (void *)t);
    cr_assert_str_eq(l.text, text);
    tn_scope_close(other);
    tn_context_destroy(ctx);
}

/* With `leaks`, too, an error of an object that has ended says which call made it. */
Test(debug, misused_handles_have_the_place_where_they_were_made)
{
    char text[256];
    tn_context *ctx = watched("handles,leaks");
    tn_scope *s = tn_scope_open(ctx), *other = tn_scope_open(ctx); /* numbers 1 and 2 */
    tn_generator *g;
    tn_scope_place_begin(s);
    tn_tensor *t = tn_retain(tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[2]){0}, TN_CPU));
    tn_scope_call_place(s, "model.c", 11);
    tn_scope_place_begin(other);
    cr_assert_eq(tn_generator_create(ctx, 1, &g), TN_OK);
    tn_scope_call_place(other, "model.c", 12);
    tn_scope_close(s);
    tn_release(t);
    tn_generator_release(g);
    cr_assert_str_eq(l.text, "");
    tn_item_double(other, t);
    snprintf(text, sizeof text,
             "tensor %p of sizes [2] and dtype float32 was released and is used again (made by tn_from_data "
             "at model.c:11, number 3)",
             (void *)t);
    expect_dead(text);
    tn_scope_clear(other);
    tn_release(t);
    cr_assert_not_null(strstr(l.text, "(made by tn_from_data at model.c:11, number 3)"), "%s", l.text);
    l = (lines){0};
    tn_generator_release(g);
    expect_dead(" (made at model.c:12, number ");
    cr_assert_null(tn_scope_memory(s, 8));
    expect_dead(" was closed and is used again (made by tn_scope_open, first used at model.c:11, number 1)");
    tn_scope_close(other);
    tn_context_destroy(ctx);
    cr_assert_str_eq(l.text, "", "what has ended is no leak");
}

/* ---- Places ------------------------------------------------------------------------------------------------- */

/* What is found inside a call waits for the call's place, as far as there is room; elsewhere it is logged at once. */
Test(debug, findings_and_the_places_of_calls)
{
    tn_context *ctx = watched("nan");
    tn_scope *s = tn_scope_open(ctx);
    tni_debug_found(ctx, "zero");
    cr_assert_str_eq(l.text, "TENON_DEBUG: zero\n");
    cr_assert_eq(tn_scope_place_begin(s), TN_PLACE_WANTED);
    tni_debug_found(ctx, "one");
    tni_debug_found(ctx, "two");
    tni_debug_found(ctx, "three");
    cr_assert_str_eq(l.text, "TENON_DEBUG: zero\nTENON_DEBUG: three\n");
    l.text[0] = 0;
    tn_scope_call_place(s, "model.c", 12);
    cr_assert_str_eq(l.text, "TENON_DEBUG: model.c:12: one\nTENON_DEBUG: model.c:12: two\n");
    l.text[0] = 0;
    tn_scope_call_place(s, "model.c", 13);
    cr_assert_str_eq(l.text, "", "each is said once");
    tn_scope_close(s);
    tn_context_destroy(ctx);
}

/* A place that begins in one context and ends in another without TENON_DEBUG, as in a call inside a call. */
Test(debug, places_of_another_context)
{
    fake plain = {.type = "cpu", .count = 1};
    tn_context *ctx = watched("leaks");
    unsetenv("TENON_DEBUG");
    tn_context *other = fake_context(&plain, NULL);
    tn_scope *s = tn_scope_open(ctx), *o = tn_scope_open(other);
    cr_assert_eq(tn_scope_place_begin(s), TN_PLACE_WANTED);
    tn_scope_call_place(o, "model.c", 1);
    tn_scope_call_place(NULL, "model.c", 1);
    cr_assert_eq(l.count, 0);
    tn_scope_close(s);
    tn_scope_close(o);
    tn_context_destroy(other);
    tn_context_destroy(ctx);
}

static void *make_elsewhere(void *scope)
{
    return tn_retain(tn_scalar_tensor_of(scope, tn_value_int(1), 0, TN_CPU));
}

/* A report has fifty lines and says how much there is; tensors of other threads have no place of this one's calls. */
Test(debug, reports_are_short)
{
    static tn_tensor *kept[60];
    static tn_scope *open[60];
    pthread_t thread;
    void *foreign = NULL;
    tn_context *ctx = watched("leaks");
    tn_scope *s = tn_scope_open(ctx);
    cr_assert_eq(tn_scope_place_begin(s), TN_PLACE_WANTED);
    tn_scope *t = tn_scope_open(ctx);
    cr_assert_eq(pthread_create(&thread, NULL, make_elsewhere, t), 0);
    pthread_join(thread, &foreign);
    tn_scope_call_place(s, "model.c", 5);
    for (int i = 0; i < 59; i++) kept[i] = tn_retain(tn_scalar_tensor_of(s, tn_value_int(1), 0, TN_CPU));
    tn_scope_close(s);
    tn_scope_close(t);
    tn_release(foreign);
    tn_tensor *one = tn_retain(kept[0]);
    tn_context_destroy(ctx);
    cr_assert_eq(l.count, 51);
    cr_assert_not_null(strstr(l.text, "leak: tensor [] int64 with 1 reference, made by tn_scalar_tensor_of"));
    tn_release(one);
    for (int i = 0; i < 59; i++) tn_release(kept[i]);
    l = (lines){.count = 0};
    ctx = watched("leaks");
    for (int i = 0; i < 60; i++) open[i] = tn_scope_open(ctx);
    tn_tensor *last = tn_retain(tn_scalar_tensor_of(open[0], tn_value_int(1), 0, TN_CPU));
    tn_context_destroy(ctx);
    cr_assert_eq(l.count, 51, "no line is left for the tensor");
    for (int i = 0; i < 60; i++) tn_scope_close(open[i]);
    tn_release(last);
}

/* In a child of the program nothing is written down: another thread may have held the lock at the fork. */
Test(debug, after_a_fork)
{
    tn_context *ctx = watched("leaks");
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *t = tn_retain(tn_scalar_tensor_of(s, tn_value_int(1), 0, TN_CPU));
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        tn_release(t);
        tn_release(t);
        _exit(tn_scope_open(ctx) != NULL);
    }
    expect_success_of(child);
    tn_scope_close(s);
    tn_release(t);
    tn_context_destroy(ctx);
    cr_assert_eq(l.count, 0, "%s", l.text);
}

/* Without memory a context is not made, or its lists are incomplete. */
Test(debug, without_memory)
{
    setenv("TENON_DEBUG", "leaks", 1);
    for (int64_t n = 1;; n++) {
        counting c = {.fail_at = n};
        tn_context *ctx = NULL;
        const tn_context_options options = {
            .size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY, .allocator = counting_allocator(&c)};
        int32_t status = tn_context_create(&options, &ctx);
        tn_scope *s = status ? NULL : tn_scope_open(ctx);
        int32_t reached = c.calls >= n;
        cr_assert(reached || s);
        if (s) cr_assert_eq(tn_scope_close(s), TN_OK);
        if (!status) tn_context_destroy(ctx);
        cr_assert_eq(c.live, 0);
        if (!reached) break;
        cr_assert(status == TN_E_OUT_OF_MEMORY || !status, "%d", status);
        cr_assert_lt(n, 100);
    }
}
