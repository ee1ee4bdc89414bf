/* SPDX-License-Identifier: Apache-2.0 */
/* Roots of unity for tables of Fourier transforms, on the host. */
#ifndef TENON_FORMULAS_TURN_H
#define TENON_FORMULAS_TURN_H

#include <math.h>
#include <stdint.h>

/* e^(-2 pi i k / n), for 0 <= k < n. The angle is reduced to an eighth of a turn without rounding. */
static inline void turn_of(int64_t k, int64_t n, double out[2])
{
    const double quarter = 1.57079632679489661923;
    int64_t quadrant = 4 * k / n, rest = 4 * k % n;
    int32_t is_swapped = 2 * rest > n;
    double angle = quarter * (double)(is_swapped ? n - rest : rest) / (double)n;
    double c = is_swapped ? sin(angle) : cos(angle), s = is_swapped ? cos(angle) : sin(angle);
    const double re[4] = {c, -s, -c, s}, im[4] = {-s, -c, s, c};
    out[0] = re[quadrant];
    out[1] = im[quadrant];
}

#endif
