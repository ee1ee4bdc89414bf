/* SPDX-License-Identifier: Apache-2.0 */
/* Angles reduced without loss, however far out they are; see phase.c. */
#ifndef TENON_CPU_PHASE_H
#define TENON_CPU_PHASE_H

#include <stdint.h>
#include "wide.h"

/* x - halves pi / 4 is a multiple of pi / 2 plus the result, which is within pi / 4 of 0 and has a small
 * relative error even next to 0; the multiple goes to *quadrant, from 0 to 3. x >= 1, finite. */
wide phase_reduce(double x, int32_t halves, int32_t *quadrant);

#endif
