/* SPDX-License-Identifier: Apache-2.0 */
/* The setup of a suite of tests of one plugin: a fixture, and its tensors. A file of tests includes this once. */
#ifndef TENON_TESTS_PLUGINS_SUITE_H
#define TENON_TESTS_PLUGINS_SUITE_H

#include "fixture.h"

static fixture f;

static void setup(void)
{
    fixture_open(&f);
}

static void teardown(void)
{
    fixture_close(&f);
}

static inline fixture_tensor vector(tn_dtype dtype, int64_t size, const void *data)
{
    return fixture_tensor_make(&f, dtype, 1, &size, data);
}

static inline fixture_tensor matrix(tn_dtype dtype, int64_t rows, int64_t columns, const void *data)
{
    return fixture_tensor_make(&f, dtype, 2, (int64_t[]){rows, columns}, data);
}

#endif
