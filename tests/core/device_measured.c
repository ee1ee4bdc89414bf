/* SPDX-License-Identifier: Apache-2.0 */
/* The device "measured": which of two is chosen by a measurement, and what is said where there is none that holds. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "fake_driver.h"
#include "at_end.h"

static fake cpu, gpu;
static tn_context *ctx;
static char folder[64], path[128];

static void start(void)
{
    strcpy(folder, "/tmp/tenon_measured_XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tenon", folder);
    cr_assert_eq(mkdir(path, 0700), 0);
    strcat(path, "/devices.json");
    setenv("XDG_CACHE_HOME", folder, 1);
    unsetenv("TENON_DEVICE");
    gpu = (fake){.type = "gpu", .count = 1, .device_class = TN_DEVICE_DISCRETE};
    cpu = (fake){0};
    ctx = fake_context(&cpu, &gpu);
}

static void stop(void)
{
    char command[128];
    tn_context_destroy(ctx);
    snprintf(command, sizeof command, "rm -r %s", folder);
    MUST_HOLD(system(command) == 0);
}

TestSuite(device_measured, .init = start, .fini = stop);

static void keep(const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
    cr_assert_eq(chmod(path, 0600), 0);
}

/* A measurement of both; "cpu" is what the first device of that type is called. */
static void keep_both(double cpu_bandwidth, double cpu_call, double gpu_bandwidth, double gpu_call,
                      const char *name)
{
    char text[1024];
    snprintf(
        text, sizeof text,
        "{\"tenon_devices\": 1, \"devices\": ["
        "{\"device\": \"cpu\", \"name\": \"fake\", \"bandwidth\": %g, \"flops_f32\": 1e11, \"call\": %g},"
        "{\"device\": \"gpu:0\", \"name\": \"%s\", \"bandwidth\": %g, \"flops_f32\": 1e11, \"call\": %g}]}",
        cpu_bandwidth, cpu_call, name, gpu_bandwidth, gpu_call);
    keep(text);
}

static void expect_choice(const char *wish, const char *device, const char *part)
{
    const char *reason = NULL;
    char name[64];
    tn_device d = tn_device_choose(ctx, wish, &reason);
    cr_assert(!(d & TN_DEVICE_MISSING), "%s", tn_last_error() ? tn_last_error()->message : "");
    cr_expect_str_eq(tn_device_format(ctx, d, name, sizeof name), device);
    cr_assert_not_null(reason);
    cr_expect_not_null(strstr(reason, part), "%s", reason);
}

Test(device_measured, the_fastest_step_wins)
{
    keep_both(1e10, 1e-6, 1e12, 1e-6, "fake"); /* 1 GB in 100 ms or in 1 ms */
    expect_choice("measured", "gpu:0",
                  "gpu:0 (fake) is the fastest as measured: 1e+03 GB/s, 100 Gflop/s, 1 us a call");
    keep_both(1e10, 1e-6, 1e12, 1e-3, "fake"); /* 1000 calls take a second more */
    expect_choice("measured", "cpu", "cpu (fake) is the fastest as measured: 10 GB/s");
    setenv("TENON_DEVICE", "measured", 1);
    expect_choice(NULL, "cpu", "cpu (fake) is the fastest as measured");
    expect_choice("gpu:0", "gpu:0", "the program asks for gpu:0");
}

/* Without a measurement that holds the facts decide, which prefer a discrete device to the host. */
Test(device_measured, without_a_measurement)
{
    expect_choice("measured", "gpu:0",
                  "`tenon bench devices` has not been run; gpu:0 (fake, discrete) is the best of 2");
    static const char *const damaged[] = {"", "{", "[]", "{\"tenon_devices\": 2, \"devices\": []}",
                                          "{\"tenon_devices\": 1, \"devices\": 3}"};
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        keep(damaged[i]);
        expect_choice("measured", "gpu:0", "the measurement is damaged: /tmp/tenon_measured_");
    }
    static const char *const useless[] = {
        "{\"tenon_devices\": 1, \"devices\": []}",
        "{\"tenon_devices\": 1, \"devices\": [1, null, {}, {\"device\": 3}]}",
        "{\"tenon_devices\": 1, \"devices\": [{\"device\": \"cpu\", \"name\": \"fake\", \"bandwidth\": -1, "
        "\"flops_f32\": 1e11, \"call\": 1e-6}]}",
        "{\"tenon_devices\": 1, \"devices\": [{\"device\": \"cpu\", \"name\": \"fake\", \"bandwidth\": "
        "1e999, "
        "\"flops_f32\": 1e11, \"call\": 1e-6}]}"};
    for (size_t i = 0; i < sizeof useless / sizeof *useless; i++) {
        keep(useless[i]);
        expect_choice("measured", "gpu:0",
                      "no device of the measurement is here; run `tenon bench devices` again");
    }
    keep_both(1e12, 1e-6, 1e10, 1e-6, "fake");
    cr_assert_eq(chmod(path, 0622), 0);
    expect_choice("measured", "gpu:0", "the measurement may have been written by others: ");
    cr_assert_eq(chmod(path, 0600), 0);
    expect_choice("measured", "cpu", "cpu (fake) is the fastest");
    keep_both(1e10, 1e-6, 1e12, 1e-6, "another card"); /* the entry of gpu:0 is of another card */
    expect_choice("measured", "cpu", "cpu (fake) is the fastest");
    setenv("XDG_CACHE_HOME", "relative", 1);
    unsetenv("HOME");
    expect_choice("measured", "gpu:0", "neither XDG_CACHE_HOME nor HOME is set");
}

static void expect_no_measurement(const char *part)
{
    expect_choice("measured", "gpu:0", part);
}

Test(device_measured, entries_that_lack_a_number)
{
    static const char *const lacking[] = {"bandwidth", "flops_f32", "call"};
    for (int i = 0; i < 3; i++) {
        char text[512] = "{\"tenon_devices\": 1, \"devices\": [{\"device\": \"cpu\", \"name\": \"fake\"";
        for (int k = 0; k < 3; k++) {
            size_t n = strlen(text);
            if (k != i) snprintf(text + n, sizeof text - n, ", \"%s\": 1e9", lacking[k]);
        }
        strcat(text, "}]}");
        keep(text);
        expect_no_measurement("no device of the measurement is here");
    }
}

Test(device_measured, files_that_are_not_read)
{
    char cache[128];
    keep_both(1e10, 1e-6, 1e12, 1e-3, "fake");
    cr_assert_eq(truncate(path, 1 << 20), 0);
    expect_no_measurement("the measurement is too large: ");
    setenv("XDG_CACHE_HOME", path, 1); /* a file where a folder should be */
    expect_no_measurement("the measurement cannot be read: Not a directory");
    memset(cache, 'x', sizeof cache - 1);
    cache[0] = '/', cache[sizeof cache - 1] = 0;
    setenv("XDG_CACHE_HOME", cache, 1);
    expect_no_measurement("`tenon bench devices` has not been run");
    cr_assert_eq(remove(path), 0);
    cr_assert_eq(mkdir(path, 0700), 0);
    setenv("XDG_CACHE_HOME", folder, 1);
    expect_no_measurement("the measurement may have been written by others: ");
}

/* Without XDG_CACHE_HOME it lies in .cache of the home folder, which is a link to the same place here. */
Test(device_measured, in_the_home_folder)
{
    char link[128];
    keep_both(1e10, 1e-6, 1e12, 1e-3, "fake");
    snprintf(link, sizeof link, "%s/.cache", folder);
    cr_assert_eq(symlink(".", link), 0);
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", folder, 1);
    expect_choice("measured", "cpu", "cpu (fake) is the fastest as measured");
}

/* The path may be too long, in a home, or that of no file; and there may be no memory to read it. */
Test(device_measured, odd_paths)
{
    static char longer[8192] = "/";
    setenv("XDG_CACHE_HOME", "/nonexistent", 1);
    setenv("HOME", "/nonexistent", 1);
    expect_no_measurement("`tenon bench devices` has not been run");
    unsetenv("XDG_CACHE_HOME");
    expect_no_measurement("`tenon bench devices` has not been run");
    setenv("HOME", "relative", 1);
    expect_no_measurement("neither XDG_CACHE_HOME nor HOME is set");
    memset(longer + 1, 'x', sizeof longer - 2);
    setenv("HOME", longer, 1);
    expect_no_measurement("neither XDG_CACHE_HOME nor HOME is set");
}
