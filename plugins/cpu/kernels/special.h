/* SPDX-License-Identifier: Apache-2.0 */
/* Special functions of float64 numbers, for the kernels of special_loops.c. */
#ifndef TENON_CPU_SPECIAL_H
#define TENON_CPU_SPECIAL_H

#include <math.h>
#include <stdint.h>

double special_digamma(double x);
double special_zeta(double x, double q);
double special_polygamma(double n, double x);
double special_igamma(double a, double x);
double special_igammac(double a, double x);
double special_standard_gamma_grad(double a, double x);
double special_dirichlet_grad(double x, double alpha, double total);
double special_erfcx(double x);
double special_erfinv(double x);
double special_ndtri(double p);
double special_ndtr(double x);
double special_log_ndtr(double x);
double special_i0e(double x);
double special_i1e(double x);
double special_i0(double x);
double special_i1(double x);
double special_k0(double x);
double special_k1(double x);
double special_scaled_k0(double x);
double special_scaled_k1(double x);
double special_airy_ai(double x);
double special_j0(double x);
double special_j1(double x);
double special_y0(double x);
double special_y1(double x);
double special_spherical_j0(double x);

#endif
