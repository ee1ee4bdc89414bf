/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient rules of Fourier transforms. */
#include "rules.h"

Test(rules_fft, of_complex_signals)
{
    tn_scope *s = rules_begin();
    for (int64_t scale = 0; scale < 3; scale++)
        CHECK(s, TN_OP__FFT_C2C, of(complex_leaf(s, -1, 1, TN_INTS(2, 3))), list(TN_INTS(0, 1)), whole(scale),
              truth(scale & 1));
    rules_end(s);
}

Test(rules_fft, of_real_signals)
{
    tn_scope *s = rules_begin();
    for (int64_t n = 1; n < 6; n++) {
        CHECK(s, TN_OP__FFT_R2C, of(leaf(s, -1, 1, TN_INTS(2, n))), list(TN_INTS(1)), whole(0), truth(1));
        CHECK(s, TN_OP__FFT_R2C, of(leaf(s, -1, 1, TN_INTS(n, 2))), list(TN_INTS(1, 0)), whole(1), truth(1));
        CHECK(s, TN_OP__FFT_R2C, of(leaf(s, -1, 1, TN_INTS(2, n))), list(TN_INTS(-1)), whole(2), truth(0));
    }
    rules_end(s);
}

Test(rules_fft, to_real_signals)
{
    tn_scope *s = rules_begin();
    for (int64_t n = 1; n < 6; n++) {
        CHECK(s, TN_OP__FFT_C2R, of(complex_leaf(s, -1, 1, TN_INTS(2, n / 2 + 1))), list(TN_INTS(1)),
              whole(2), whole(n));
        CHECK(s, TN_OP__FFT_C2R, of(complex_leaf(s, -1, 1, TN_INTS(n / 2 + 1, 2))), list(TN_INTS(1, 0)),
              whole(0), whole(n));
    }
    rules_end(s);
}
