/* SPDX-License-Identifier: Apache-2.0 */
/* Orthogonal polynomials (DTYPE=f32|f64), by the formulas of all plugins. */
#include "loops.h"

/* Of all steps, since terms cancel: wider than T for float64, too. */
#if defined(DTYPE_F32)
typedef double W;
#define WIDE(name)    name
#define MOST          __FLT_MAX__
#define HERMITE_LIMIT 128 /* beyond it the values overflow for nearly all arguments */
#else
typedef long double W;
#define WIDE(name)    name##l
#define MOST          __DBL_MAX__
#define HERMITE_LIMIT 512
#endif

#include "polynomials.h"

POINTWISE_KERNELS(polynomial) = {
    ENTRY(chebyshev_polynomial_t),
    ENTRY(chebyshev_polynomial_u),
    ENTRY(chebyshev_polynomial_v),
    ENTRY(chebyshev_polynomial_w),
    ENTRY(shifted_chebyshev_polynomial_t),
    ENTRY(shifted_chebyshev_polynomial_u),
    ENTRY(shifted_chebyshev_polynomial_v),
    ENTRY(shifted_chebyshev_polynomial_w),
    ENTRY(hermite_polynomial_h),
    ENTRY(hermite_polynomial_he),
    ENTRY(laguerre_polynomial_l),
    ENTRY(legendre_polynomial_p),
    END_OF_KERNELS,
};
