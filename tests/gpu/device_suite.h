/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The setup of a suite of tests that use a GPU plugin as programs do: a context, the first device of its type and
 * a scope. A file of tests includes this once; what it sets up beside them it does itself.
 */
#ifndef TENON_TESTS_GPU_DEVICE_SUITE_H
#define TENON_TESTS_GPU_DEVICE_SUITE_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <tenon/tenon.h>

static tn_context *ctx;
static tn_device device;
static tn_scope *s;

#define NO_TWINS "no OpenCL device for the twins (Debian: pocl-opencl-icd)"

/* The context and the device; skips the test where there is none, and `absent` says what is missing. */
static inline void open_first(const tn_context_options *with, const char *type, const char *absent)
{
    char name[64];
    cr_assert_eq(tn_context_create(with, &ctx), TN_OK);
    if (!tn_device_count(ctx, type)) cr_skip_test("%s", absent);
    snprintf(name, sizeof name, "%s:0", type);
    device = tn_device_parse(ctx, name);
}

/* Of a program that the build makes for several plugins: the type of the device. */
#ifndef DEVICE
#define DEVICE "opencl"
#endif

/* A scope whose new tensors are on the device. */
static inline tn_scope *scope_on_device(void)
{
    return tn_scope_open_with(ctx, &(tn_scope_options){.size = sizeof(tn_scope_options), .device = device});
}

static inline void open_tested_device(void)
{
    open_first(NULL, DEVICE, "no device of type " DEVICE);
    s = scope_on_device();
}

/* A call that the device has no kernel for is an error. */
static inline void open_without_fallback(void)
{
    open_tested_device();
    tn_set_fallback_policy(ctx, TN_FALLBACK_ERROR);
}

static inline void close_device(void)
{
    if (s) tn_scope_close(s);
    tn_context_destroy(ctx);
    s = NULL;
    ctx = NULL;
}

/* Whether the device computes in float64. */
static inline bool has_double(void)
{
    tn_device_facts facts = {.size = sizeof facts};
    cr_assert_eq(tn_device_get_facts(ctx, device, &facts), TN_OK);
    for (const tn_dtype *d = facts.dtypes; *d; d++)
        if (*d == TN_FLOAT64) return true;
    return false;
}

/* A tensor of two floats, and what it must hold. */
static inline tn_tensor *pair(tn_device on, float first, float second)
{
    return tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[]){first, second}, on);
}

static inline void expect_pair(tn_tensor *t, float first, float second)
{
    float got[2] = {0};
    cr_assert_eq(tn_to_host(s, t, got, sizeof got), TN_OK, "%s",
                 tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_assert(got[0] == first && got[1] == second, "%g, %g", got[0], got[1]);
}

#endif
