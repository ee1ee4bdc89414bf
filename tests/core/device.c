/* SPDX-License-Identifier: Apache-2.0 */
/* Device types, opening, rank and choice, current devices, use after fork. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fake_driver.h"
#include "child.h"

static int32_t add_type(tn_context *ctx, fake *f)
{
    tni_driver d = fake_driver(f);
    return tni_device_type_add(ctx, &d);
}

Test(device, opens_at_first_use_and_closes_once)
{
    fake cpu = {0};
    tn_context *ctx = fake_context(&cpu, NULL);
    cr_assert_eq(cpu.opened, 0);
    tni_device *d = tni_device_get(ctx, TN_CPU);
    cr_assert_not_null(d);
    cr_assert_eq(tni_device_get(ctx, TN_DEVICE(TN_INTERNED_CPU, -1)), d);
    cr_assert_eq(cpu.opened, 1);
    cr_assert_eq(d->synchronous, 1);
    tn_context_destroy(ctx);
    cr_assert_eq(cpu.closed, 1);
    cr_assert_eq(cpu.live_streams, 0);
    cr_assert_eq(cpu.breaches, 0);
}

Test(device, failure_to_open_leaves_nothing_and_may_be_tried_again)
{
    fake cpu = {.type = "cpu", .count = 1};
    tn_context *ctx = fake_context(&cpu, NULL);
    cpu.fail_slot = 1; /* open */
    cr_assert_null(tni_device_get(ctx, TN_CPU));
    cr_assert_eq(tn_last_error()->code, TN_E_INTERNAL);
    cpu.fail_slot = 2; /* the default stream */
    cr_assert_null(tni_device_get(ctx, TN_CPU));
    cr_assert_eq(cpu.opened, 1);
    cr_assert_eq(cpu.closed, 1);
    cr_assert_not_null(tni_device_get(ctx, TN_CPU));
    tn_context_destroy(ctx);
    cr_assert_eq(cpu.breaches, 0);
}

Test(device, a_type_is_enumerated_when_a_program_asks_for_it)
{
    fake cpu = {.type = "cpu", .count = 1}, gpu = {.type = "gpu", .count = 2};
    tn_context *ctx = fake_context(&cpu, &gpu);
    tn_device id = tn_device_parse(ctx, "gpu:1");
    tn_memory_stats stats = {.size = sizeof stats};
    cr_assert_eq(cpu.enumerated, 0);
    cr_assert_not_null(tni_device_get(ctx, TN_CPU));
    cr_assert_eq(tn_device_count(ctx, "cpu"), 1);
    cr_assert_eq(tn_device_choose(ctx, "cpu", NULL), TN_CPU);
    cr_assert_eq(tn_device_current(ctx, "gpu"), 0);
    cr_assert_eq(tn_memory_get_stats(ctx, TN_CPU, &stats), TN_OK);
    tn_manual_seed(ctx, 3);
    cr_assert_eq(cpu.enumerated, 1);
    cr_assert_eq(gpu.enumerated, 0);
    cr_assert_eq(tn_device_count(ctx, "gpu"), 2);
    cr_assert_not_null(tni_device_get(ctx, id));
    cr_assert_eq(tn_device_count(ctx, NULL), 3);
    cr_assert_eq(gpu.enumerated, 1);
    tn_context_destroy(ctx);
    cr_assert_eq(gpu.breaches, 0);
}

static void ask_while_logging(void *user, int32_t level, const char *text)
{
    tn_context **ctx = user;
    if (*ctx) cr_assert_eq(tn_device_count(*ctx, "gpu"), 0);
}

/* The log sink asks while the plugin is being asked: it gets an answer, not a lock. */
Test(device, a_failed_enumeration_is_told_to_everyone_who_asks)
{
    tn_context *ctx = NULL;
    tn_context_options options = {
        .size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY, .log = ask_while_logging, .log_user = &ctx};
    fake gpu = {.type = "gpu", .count = 2, .enumerate_status = TN_E_IO};
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    cr_assert_eq(add_type(ctx, &gpu), TN_OK);
    for (int32_t i = 0; i < 2; i++) {
        tn_clear_error();
        cr_assert_null(tni_device_get(ctx, tn_device_parse(ctx, "gpu:0")));
        cr_assert_eq(tn_last_error()->code, TN_E_DEVICE);
        cr_assert(strstr(tn_last_error()->message, "device gpu:0: "), "%s", tn_last_error()->message);
        cr_assert(strstr(tn_last_error()->message, "enumeration of devices"), "%s", tn_last_error()->message);
        cr_assert_eq(tn_last_error()->cause->code, TN_E_IO);
        tn_clear_error();
        cr_assert_eq(tn_device_count(ctx, "gpu"), 0);
        cr_assert_eq(tn_last_error()->code, TN_E_IO);
        cr_assert_str_eq(tn_last_error()->plugin, "fake");
    }
    unsetenv("TENON_DEVICE");
    cr_assert(tn_device_choose(ctx, NULL, NULL) & TN_DEVICE_MISSING);
    cr_assert(strstr(tn_last_error()->message, "gpu: "), "%s", tn_last_error()->message);
    cr_assert_eq(gpu.enumerated, 1);
    tn_context_destroy(ctx);
}

static void *ask_for_device(void *argument)
{
    tn_context *ctx = argument;
    return tni_device_get(ctx, tn_device_parse(ctx, "gpu:1"));
}

Test(device, threads_that_ask_at_once_share_one_enumeration)
{
    enum { ROUNDS = 50, THREADS = 8 };
    for (int32_t round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        fake gpu = {.type = "gpu", .count = 2};
        tn_context *ctx = fake_context(NULL, &gpu);
        for (int32_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, ask_for_device, ctx);
        for (int32_t i = 0; i < THREADS; i++) {
            void *got = NULL;
            pthread_join(threads[i], &got);
            cr_assert_not_null(got);
            cr_assert_eq(got, &tni_device_type_find(ctx, tn_intern(ctx, "gpu"))->devices[1]);
        }
        cr_assert_eq(gpu.enumerated, 1);
        cr_assert_eq(gpu.opened, 1);
        tn_context_destroy(ctx);
    }
}

Test(device, names_what_is_missing)
{
    fake none = {.type = "acme", .count = 0, .reason = "no driver: libacme.so not found"};
    fake two = {.type = "duo", .count = 2, .device_class = TN_DEVICE_DISCRETE};
    tn_context *ctx = fake_context(&none, &two);
    cr_assert_null(tni_device_get(ctx, tn_device_parse(ctx, "acme:0")));
    cr_assert_str_eq(tn_last_error()->message, "device acme:0: no driver: libacme.so not found");
    cr_assert_null(tni_device_get(ctx, tn_device_parse(ctx, "duo:2")));
    cr_assert_str_eq(tn_last_error()->message, "device duo:2: there are only 2 of this type");
    cr_assert_null(tni_device_get(ctx, TN_CPU));
    cr_assert_eq(tn_last_error()->code, TN_E_DEVICE);
    cr_assert_null(tni_device_get(ctx, TN_DEVICE(TN_INTERNED_META, 0)));
    cr_assert_eq(tn_device_count(ctx, "duo"), 2);
    cr_assert_eq(tn_device_count(ctx, "acme"), 0);
    cr_assert_eq(tn_device_count(ctx, NULL), 2);
    tn_context_destroy(ctx);
}

Test(device, refuses_bad_registrations)
{
    fake cpu = {0}, again = {.type = "cpu", .count = 1}, meta = {.type = "meta", .count = 1},
         odd = {.type = "a:b", .count = 1};
    tn_context *ctx = fake_context(&cpu, NULL);
    cr_assert_eq(add_type(ctx, &again), TN_E_EXISTS);
    cr_assert_eq(add_type(ctx, &meta), TN_E_CONTRACT);
    cr_assert_eq(add_type(ctx, &odd), TN_E_CONTRACT);
    tni_driver d = fake_driver(&odd);
    d.device.type = "fine";
    d.copy.device_to_device = NULL;
    cr_assert_eq(tni_device_type_add(ctx, &d), TN_E_CONTRACT);
    cr_assert(strstr(tn_last_error()->message, "tenon.copy"));
    tn_context_destroy(ctx);
}

Test(device, rank_and_choice)
{
    const char *why = NULL;
    unsetenv("TENON_DEVICE");
    fake cpu = {0}, gpu = {.type = "gpu", .count = 2, .device_class = TN_DEVICE_DISCRETE},
         fast = {.type = "fast", .count = 1, .device_class = TN_DEVICE_ACCELERATOR, .flops = 1000},
         soc = {.type = "soc", .count = 1, .device_class = TN_DEVICE_INTEGRATED},
         test = {.type = "test", .count = 1, .device_class = TN_DEVICE_VIRTUAL, .flops = 5000};
    tn_context *ctx = fake_context(&cpu, &test);
    cr_assert_eq(tn_device_choose(ctx, NULL, &why), TN_CPU);
    cr_assert_eq(add_type(ctx, &soc), TN_OK);
    cr_assert_eq(tn_device_choose(ctx, "best", NULL), tn_device_parse(ctx, "soc:0"));
    cr_assert_eq(add_type(ctx, &gpu), TN_OK);
    cr_assert_eq(add_type(ctx, &fast), TN_OK);
    const char *order[] = {"fast:0", "gpu:0", "gpu:1", "soc:0", "cpu", "test:0"};
    for (int32_t i = 0; i < 6; i++)
        cr_assert_eq(tn_device_at(ctx, i), tn_device_parse(ctx, order[i]), "%s", order[i]);
    for (int32_t i = -1; i <= 6; i += 7) {
        char expected[128];
        tn_clear_error();
        cr_assert_eq(tn_device_at(ctx, i), TN_DEVICE_MISSING);
        snprintf(expected, sizeof expected,
                 "device_at: argument 'i': there is no such device (got %d, expected 0 to 5)", i);
        cr_assert_eq(tn_last_error()->code, TN_E_INDEX);
        cr_assert_str_eq(tn_last_error()->message, expected);
    }
    cr_assert_eq(tn_device_choose(ctx, NULL, &why), tn_device_parse(ctx, "fast:0"));
    cr_assert(strstr(why, "fast:0") && strstr(why, "accelerator"), "%s", why);
    setenv("TENON_DEVICE", "gpu:1", 1);
    cr_assert_eq(tn_device_choose(ctx, NULL, &why), tn_device_parse(ctx, "gpu:1"));
    cr_assert_str_eq(why, "TENON_DEVICE asks for gpu:1");
    cr_assert_eq(tn_device_choose(ctx, "test:0", &why), tn_device_parse(ctx, "test:0"));
    cr_assert_str_eq(why, "the program asks for test:0");
    cr_assert_eq(tn_device_choose(ctx, "gpu:7", &why), TN_DEVICE_MISSING | tn_device_parse(ctx, "gpu:7"));
    cr_assert_eq(tn_last_error()->code, TN_E_DEVICE);
    tn_context_destroy(ctx);
}

Test(device, only_virtual_devices_are_not_chosen)
{
    unsetenv("TENON_DEVICE");
    fake test = {.type = "test", .count = 1, .device_class = TN_DEVICE_VIRTUAL};
    tn_context *ctx = fake_context(NULL, &test);
    cr_assert(tn_device_choose(ctx, NULL, NULL) & TN_DEVICE_MISSING);
    cr_assert_eq(tn_last_error()->code, TN_E_DEVICE);
    tn_context_destroy(ctx);
}

/* A program that does not look at what tn_device_choose gave must not run on the CPU unnoticed. */
Test(device, missing_device_is_refused_by_name)
{
    fake cpu = {.type = "cpu", .count = 1},
         gpu = {.type = "gpu", .count = 0, .reason = "no card", .device_class = TN_DEVICE_DISCRETE};
    const struct {
        const char *wish, *text;
    } cases[] = {{"gpu:7", "missing device gpu:7: no card"},
                 {"cpu:3", "missing device cpu:3: there is only 1 of this type"},
                 {"nothing", "missing device nothing: no plugin offers this type (there are: cpu, gpu)"},
                 {"g p u", "missing device g p u: no plugin offers this type (there are: cpu, gpu)"}};
    tn_context *ctx = fake_context(&cpu, &gpu);
    float one = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_scope *s = tn_scope_open(ctx);
        tn_device d = tn_device_choose(ctx, cases[i].wish, NULL);
        cr_assert_null(tn_from_data(s, TN_FLOAT32, TN_INTS(1), &one, d));
        cr_assert_str_eq(tn_scope_error(s)->message, cases[i].text);
        cr_assert_eq(tn_scope_close(s), TN_E_DEVICE);
    }
    const tn_device absent[] = {tn_device_at(ctx, 9), tn_device_parse(ctx, "")};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        cr_assert_null(tni_device_get(ctx, absent[i]));
        cr_assert_str_eq(tn_last_error()->message,
                         "there is no such device: tn_device_at or tn_device_parse did "
                         "not find it (the value is TN_DEVICE_MISSING)");
    }
    setenv("TENON_DEVICE", "CPU:0", 1);
    cr_assert_null(tni_device_get(ctx, tn_device_choose(ctx, NULL, NULL)));
    cr_assert_str_eq(tn_last_error()->message, "missing device CPU:0, which TENON_DEVICE asks for: no plugin "
                                               "offers this type (there are: cpu, gpu)");
    unsetenv("TENON_DEVICE");
    cpu.fail_slot = 1; /* opening */
    tn_device d = tn_device_choose(ctx, "cpu", NULL);
    cr_assert_null(tni_device_get(ctx, d));
    cr_assert_str_eq(tn_last_error()->message, "missing device cpu: it could not be used when it was chosen");
    tn_context_destroy(ctx);
}

Test(device, current_device_is_per_context_and_type)
{
    fake cpu = {0}, gpu = {.type = "gpu", .count = 3, .device_class = TN_DEVICE_DISCRETE}, other = gpu;
    tn_context *a = fake_context(&cpu, &gpu), *b = fake_context(NULL, &other);
    cr_assert_eq(tn_device_current(a, "gpu"), 0);
    cr_assert_eq(tn_device_set_current(a, tn_device_parse(a, "gpu:2")), TN_OK);
    cr_assert_eq(tn_device_current(a, "gpu"), 2);
    cr_assert_eq(tn_device_current(a, "cpu"), 0);
    cr_assert_eq(tn_device_current(b, "gpu"), 0);
    cr_assert_eq(tni_device_get(a, tn_device_parse(a, "gpu"))->id, tn_device_parse(a, "gpu:2"));
    cr_assert_eq(tn_device_set_current(a, tn_device_parse(a, "gpu:3")), TN_E_DEVICE);
    cr_assert_eq(tn_device_set_current(a, tn_device_parse(a, "gpu:0")), TN_OK);
    cr_assert_eq(tn_device_current(a, "gpu"), 0);
    tn_context_destroy(a);
    tn_context_destroy(b);
}

Test(device, facts_and_memory)
{
    fake gpu = {.type = "gpu", .count = 1, .device_class = TN_DEVICE_DISCRETE, .memory = 1 << 30};
    tn_context *ctx = fake_context(NULL, &gpu);
    tn_device id = tn_device_parse(ctx, "gpu:0");
    tn_device_facts facts = {.size = sizeof facts};
    cr_assert_eq(tn_device_get_facts(ctx, id, &facts), TN_OK);
    cr_assert_eq(gpu.opened, 0);
    cr_assert_str_eq(facts.name, "fake");
    cr_assert_eq(facts.device_class, TN_DEVICE_DISCRETE);
    struct {
        uint32_t size, device_class;
        uint64_t canary;
    } old = {.size = 8, .canary = 42};
    cr_assert_eq(tn_device_get_facts(ctx, id, (tn_device_facts *)&old), TN_OK);
    cr_assert_eq(old.device_class, TN_DEVICE_DISCRETE);
    cr_assert_eq(old.canary, 42);
    uint64_t free_bytes = 0, total = 0;
    cr_assert_eq(tn_device_memory(ctx, id, &free_bytes, &total), TN_OK);
    cr_assert_eq(free_bytes, 1 << 30);
    cr_assert_eq(total, 1 << 30);
    tn_context_destroy(ctx);
}

Test(device, answers_forked_in_a_child)
{
    fake cpu = {0};
    tn_context *ctx = fake_context(&cpu, NULL);
    cr_assert_not_null(tni_device_get(ctx, TN_CPU));
    pid_t child = fork();
    if (!child) {
        int32_t ok = !tni_device_get(ctx, TN_CPU) && tn_last_error()->code == TN_E_FORKED;
        ok = ok && tn_stream_query(tni_device_type_find(ctx, TN_INTERNED_CPU)->devices[0].default_stream) ==
                       -TN_E_FORKED;
        tn_context_destroy(ctx);
        _exit(ok && cpu.closed == 0 ? 0 : 1);
    }
    expect_success_of(child);
    cr_assert_not_null(tni_device_get(ctx, TN_CPU));
    tn_context_destroy(ctx);
}

Test(device, every_failing_allocation_is_an_error_without_leak)
{
    for (int64_t n = 1;; n++) {
        fake cpu = {.type = "cpu", .count = 2};
        counting c = {.fail_at = n};
        tn_context_options options = {.size = sizeof options, .flags = TN_CONTEXT_NO_DISCOVERY};
        options.allocator = counting_allocator(&c);
        tn_context *ctx = NULL;
        int32_t code = tn_context_create(&options, &ctx);
        if (!code) {
            tni_driver d = fake_driver(&cpu);
            code = tni_device_type_add(ctx, &d);
            if (!code && !tni_device_get(ctx, TN_CPU)) code = tn_last_error()->code;
            tn_context_destroy(ctx);
        }
        cr_assert_eq(c.live, 0, "allocation %d", (int)n);
        cr_assert_eq(c.live_bytes, 0);
        cr_assert_eq(cpu.opened, cpu.closed);
        cr_assert_eq(cpu.breaches, 0);
        if (c.calls < n) {
            cr_assert_eq(code, TN_OK);
            break;
        }
        cr_assert_eq(code, TN_E_OUT_OF_MEMORY, "allocation %d gave %d", (int)n, code);
    }
}
