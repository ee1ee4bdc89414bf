/* SPDX-License-Identifier: Apache-2.0 */
/* Reduction of arbitrarily large angles without loss; see phase.c. */
#ifndef TENON_CPU_PHASE_H
#define TENON_CPU_PHASE_H

#include <stdint.h>
#include "wide.h"

/*
 * Writes x - halves pi / 4 as a multiple of pi / 2 plus the result, which is within pi / 4 of 0 and has a
 * small relative error even next to 0. *quadrant is the multiple, from 0 to 3. For finite x >= 1.
 */
wide phase_reduce(double x, int32_t halves, int32_t *quadrant);

#endif
