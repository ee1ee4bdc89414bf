/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu_nn.h"
#include "noise.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

int32_t nn_run(fixture *f, const char *name, const tn_value *args, uint32_t n_args, tn_value *outs,
               uint32_t n_outs, int32_t threads, uint32_t flags)
{
    const tn_kernel_row *row = fixture_row(f, name);
    cr_assert_not_null(row, "%s has a row", name);
    tn_call call = fixture_call(f, row, args, n_args, outs, n_outs);
    call.flags = flags;
    call.threads = threads;
    return fixture_run_call(f, row, &call);
}

void nn_noise(float *to, int64_t count, uint32_t seed)
{
    uint32_t state = noise_begin(seed);
    for (int64_t i = 0; i < count; i++) to[i] = noise_next(&state);
}

fixture_tensor nn_tensor(fixture *f, uint32_t rank, const int64_t *sizes, uint32_t seed)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) count *= sizes[i];
    float *data = calloc((size_t)count + 1, sizeof(float));
    cr_assert_not_null(data);
    if (seed) nn_noise(data, count, seed);
    fixture_tensor t = fixture_tensor_make(f, TN_FLOAT32, rank, sizes, data);
    free(data);
    return t;
}

void nn_expect(fixture *f, const fixture_tensor *t, const double *expected, double tolerance,
               const char *what)
{
    int64_t count = (int64_t)(t->bytes / sizeof(float));
    float *got = malloc(t->bytes + 1);
    cr_assert_not_null(got);
    cr_assert_eq(fixture_read(f, t, got), TN_OK);
    for (int64_t i = 0; i < count; i++)
        cr_assert(fabs((double)got[i] - expected[i]) <= tolerance, "%s: element %lld is %g, not %g", what,
                  (long long)i, (double)got[i], expected[i]);
    free(got);
}

fixture_tensor nn_transposed(const fixture_tensor *t, uint32_t a, uint32_t b)
{
    fixture_tensor view = *t;
    view.sizes[a] = t->sizes[b];
    view.sizes[b] = t->sizes[a];
    view.strides[a] = t->strides[b];
    view.strides[b] = t->strides[a];
    return view;
}
