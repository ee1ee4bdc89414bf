/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documented behaviours, as a program sees them: public headers and the shared library. Each test runs once
 * on each device of the fixture. A missing device is reported as a skip.
 */
#ifndef TESTS_BEHAVIOUR_FIXTURE_H
#define TESTS_BEHAVIOUR_FIXTURE_H

#include <criterion/criterion.h>
#include <tenon/tenon.h>

typedef struct place {
    tn_context *ctx;
    tn_scope *s;
    tn_device device;
} place;

/* Runs `body` on the CPU and on reference:0. */
void on_each_device(void (*body)(place *p));
#define ON_EACH_DEVICE(suite, name)      \
    static void suite##_##name(place *); \
    Test(suite, name)                    \
    {                                    \
        on_each_device(suite##_##name);  \
    }                                    \
    static void suite##_##name(place *p)

/* A tensor of numbers, converted to dtype, on the place's device. */
tn_tensor *make(place *p, tn_dtype dtype, tn_ints sizes, const double *values);
#define MAKE(p, dtype, sizes, ...) make(p, dtype, sizes, (const double[]){__VA_ARGS__})
#define VECTOR(p, dtype, ...)                                                                  \
    make(p, dtype, TN_INTS((int64_t)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double))), \
         (const double[]){__VA_ARGS__})

void expect_sizes(place *p, const tn_tensor *t, tn_ints sizes);
void expect_values(place *p, tn_tensor *t, int64_t count, const double *want, double tolerance);
#define EXPECT(p, t, ...)                                                                                    \
    expect_values(p, t, (int64_t)(sizeof((const double[]){__VA_ARGS__}) / 8), (const double[]){__VA_ARGS__}, \
                  1e-6)
#define EXPECT_NEAR(p, t, tolerance, ...)                                                                    \
    expect_values(p, t, (int64_t)(sizeof((const double[]){__VA_ARGS__}) / 8), (const double[]){__VA_ARGS__}, \
                  tolerance)
/* The scope has failed with a text that contains `part`; clears it. */
void expect_error(place *p, const char *part);
void expect_text(place *p, const tn_tensor *t, const char *text);

#endif
