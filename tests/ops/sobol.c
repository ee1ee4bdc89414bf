/* SPDX-License-Identifier: Apache-2.0 */
/* Sobol sequences against values of PyTorch 2.13. */
#include "suite.h"

TestSuite(sobol, .init = begin);

static tn_tensor *state_of(int64_t dimension)
{
    tn_tensor *state = tn_zeros(s, TN_INTS(dimension, 30), .dtype = TN_INT64);
    return tn__sobol_engine_initialize_state_(s, state, dimension);
}

static tn_tensor *head(tn_tensor *t, int64_t row, int64_t count)
{
    return tn_slice(s, tn_select(s, t, 0, row), .end = count);
}

Test(sobol, direction_numbers)
{
    EXPECT(s, head(state_of(5), 4, 10), 536870912, 268435456, 134217728, 738197504, 1040187392, 922746880,
           511705088, 658505728, 379584512, 200278016);
    tn_tensor *state = state_of(1111);
    EXPECT(s, tn_slice(s, tn_select(s, state, 0, 1110), .step = 6), 536870912, 58720256, 207486976, 612448256,
           359319968);
    EXPECT(s, tn_sum(s, state), 17932991659939);
    end();
}

/* Each of the first 2^k points of a dimension lies in a different one of 2^k equal intervals. */
Test(sobol, every_dimension_fills_the_intervals)
{
    tn_tensor *quasi = tn_zeros(s, TN_INTS(1111), .dtype = TN_INT64);
    tn__sobol_engine_draw_result r =
        tn__sobol_engine_draw(s, quasi, 255, state_of(1111), 1111, 0, TN_FLOAT64);
    tn_tensor *sorted = tn_sort(s, tn_floor(s, tn_mul_scalar(s, r.result0, 256)), .dim = 0).values;
    tn_tensor *expected = tn_unsqueeze(s, tn_arange_start(s, 1, 256, .dtype = TN_FLOAT64), 1);
    EXPECT(s, tn_sum(s, tn_abs(s, tn_sub(s, sorted, expected))), 0);
    end();
}

Test(sobol, points)
{
    tn_tensor *state = state_of(5), *quasi = tn_zeros(s, TN_INTS(5), .dtype = TN_INT64);
    tn__sobol_engine_draw_result r = tn__sobol_engine_draw(s, quasi, 4, state, 5, 0, 0);
    cr_expect_eq(tn_tensor_dtype(r.result0), TN_FLOAT32);
    EXPECT(s, r.result0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.75, 0.25, 0.25, 0.25, 0.75, 0.25, 0.75, 0.75, 0.75, 0.25,
           0.375, 0.375, 0.625, 0.875, 0.375);
    EXPECT(s, r.result1, 402653184, 402653184, 671088640, 939524096, 402653184);
    EXPECT(s, quasi, 0, 0, 0, 0, 0);
    tn__sobol_engine_ff_(s, r.result1, 7, state, 5, 4);
    EXPECT(s, r.result1, 469762048, 603979776, 201326592, 738197504, 872415232);
    r = tn__sobol_engine_draw(s, r.result1, 2, state, 5, 11, TN_FLOAT64);
    EXPECT(s, r.result0, 0.3125, 0.1875, 0.3125, 0.5625, 0.9375, 0.8125, 0.6875, 0.8125, 0.0625, 0.4375);
    end();
}

Test(sobol, scrambling)
{
    double bits[5 * 900];
    for (int64_t i = 0; i < 5 * 900; i++) bits[i] = (double)(i * i / 7 % 2);
    tn_tensor *matrices = tn_to(s, make(s, TN_INTS(5, 30, 30), bits, 0), TN_INT64);
    tn_tensor *state = tn__sobol_engine_scramble_(s, state_of(5), tn_tril(s, matrices), 5);
    EXPECT(s, head(state, 3, 6), 587598872, 1016672868, 235673648, 413221509, 934504141, 399614790);
    EXPECT(s, tn_sum(s, state), 81018568990);
    state = tn__sobol_engine_scramble_(s, state_of(5), matrices, 5);
    EXPECT(s, head(state, 3, 6), 587598872, 1016672868, 235673648, 10568325, 598959821, 835822406);
    EXPECT(s, tn_sum(s, state), 80736681076);
    end();
}

Test(sobol, bad_calls)
{
    tn_tensor *state = state_of(5), *quasi = tn_zeros(s, TN_INTS(5), .dtype = TN_INT64);
    tn__sobol_engine_draw(s, tn_to(s, quasi, TN_INT32), 3, state, 5, 0, 0);
    expect_error(s, "quasi needs to be of type Long");
    tn__sobol_engine_draw(s, quasi, 3, state, 5, 0, TN_FLOAT16);
    expect_error(s, "\"_sobol_engine_draw\" not implemented for 'Half'");
    tn__sobol_engine_initialize_state_(s, tn_to(s, state, TN_INT32), 5);
    expect_error(s, "sobolstate needs to be of type Long");
    tn__sobol_engine_initialize_state_(s, state, 6);
    expect_error(s, "argument 'sobolstate': expected size [6, 30] (got [5, 30])");
    tn__sobol_engine_initialize_state_(s, state, 1112);
    expect_error(s, "argument 'dimension': expected 1 to 1111 (got 1112)");
    tn__sobol_engine_ff_(s, quasi, 2, state, 5, (1 << 30) - 2);
    expect_error(s, "argument 'n': a sequence has 1073741823 points (got 2 after 1073741822)");
    end();
}
