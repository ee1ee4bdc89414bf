/* SPDX-License-Identifier: Apache-2.0 */
/* Pointwise kernels of float64 (DTYPE=f64) that call the functions of special*.c. */
#include "loops.h"
#include "special.h"

UNARY(erfinv, special_erfinv(a))
UNARY(digamma, special_digamma(a))
BINARY(igamma, special_igamma(a, b))
BINARY(igammac, special_igammac(a, b))
BINARY(standard_gamma_grad, special_standard_gamma_grad(a, b))
TERNARY(dirichlet_grad, special_dirichlet_grad(a, b, c))
UNARY_WITH(polygamma, special_polygamma(x, a))
UNARY(i0, special_i0(a))
UNARY(i0e, special_i0e(a))
UNARY(i1, special_i1(a))
UNARY(i1e, special_i1e(a))
UNARY(erfcx, special_erfcx(a))
UNARY(ndtr, special_ndtr(a))
UNARY(log_ndtr, special_log_ndtr(a))
UNARY(ndtri, special_ndtri(a))
BINARY(zeta, special_zeta(a, b))
UNARY(airy_ai, special_airy_ai(a))
UNARY(bessel_j0, special_j0(a))
UNARY(bessel_j1, special_j1(a))
UNARY(bessel_y0, special_y0(a))
UNARY(bessel_y1, special_y1(a))
UNARY(modified_bessel_i0, special_i0(a))
UNARY(modified_bessel_i1, special_i1(a))
UNARY(modified_bessel_k0, special_k0(a))
UNARY(modified_bessel_k1, special_k1(a))
UNARY(scaled_modified_bessel_k0, special_scaled_k0(a))
UNARY(scaled_modified_bessel_k1, special_scaled_k1(a))
UNARY(spherical_bessel_j0, special_spherical_j0(a))

POINTWISE_KERNELS(special_loops) = {
    ENTRY(erfinv),
    ENTRY(digamma),
    ENTRY(polygamma),
    ENTRY(igamma),
    ENTRY(igammac),
    ENTRY(standard_gamma_grad),
    ENTRY(dirichlet_grad),
    ENTRY(i0),
    ENTRY(i0e),
    ENTRY(i1),
    ENTRY(i1e),
    ENTRY(erfcx),
    ENTRY(ndtr),
    ENTRY(log_ndtr),
    ENTRY(ndtri),
    ENTRY(zeta),
    ENTRY(airy_ai),
    ENTRY(bessel_j0),
    ENTRY(bessel_j1),
    ENTRY(bessel_y0),
    ENTRY(bessel_y1),
    ENTRY(modified_bessel_i0),
    ENTRY(modified_bessel_i1),
    ENTRY(modified_bessel_k0),
    ENTRY(modified_bessel_k1),
    ENTRY(scaled_modified_bessel_k0),
    ENTRY(scaled_modified_bessel_k1),
    ENTRY(spherical_bessel_j0),
    END_OF_KERNELS,
};
