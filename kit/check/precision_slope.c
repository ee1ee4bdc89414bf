/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of exact functions, as differences of exact values; see precision.h. */
#include "precision.h"

/* With a step of 2^-100 x the error of a central difference is about 2^-200 of the slope. */
#define STEP_BITS   100
#define SLOPE_BITS  320
#define SLOPE_LIMIT 6000
#define NEEDED      128

void precision_slope(const precision_function *f, mpfr_t out, mpfr_t *x, const double *p, int32_t which)
{
    for (mpfr_prec_t bits = SLOPE_BITS; bits <= SLOPE_LIMIT; bits *= 4) {
        mpfr_t at[PRECISION_MAX_INPUTS], up, down, step;
        mpfr_inits2(bits, up, down, step, (mpfr_ptr)0);
        for (int32_t i = 0; i < f->inputs; i++) {
            mpfr_init2(at[i], bits);
            mpfr_set(at[i], x[i], MPFR_RNDN);
        }
        if (mpfr_zero_p(x[which]))
            mpfr_set_ui_2exp(step, 1, -STEP_BITS, MPFR_RNDN);
        else
            mpfr_mul_2si(step, x[which], -STEP_BITS, MPFR_RNDN);
        mpfr_add(at[which], x[which], step, MPFR_RNDN);
        f->real(up, at, p);
        mpfr_sub(at[which], x[which], step, MPFR_RNDN);
        f->real(down, at, p);
        int64_t scale = mpfr_regular_p(up) ? mpfr_get_exp(up) : 0;
        mpfr_sub(up, up, down, MPFR_RNDN);
        int enough = mpfr_regular_p(up) ? mpfr_get_exp(up) > scale - bits + NEEDED : !mpfr_zero_p(up);
        mpfr_mul_ui(step, step, 2, MPFR_RNDN);
        mpfr_div(out, up, step, MPFR_RNDN);
        for (int32_t i = 0; i < f->inputs; i++) mpfr_clear(at[i]);
        mpfr_clears(up, down, step, (mpfr_ptr)0);
        if (enough) return;
    }
}
