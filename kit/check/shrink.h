/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes recorded calls smaller. The way that a call takes depends on operator, dtypes, ranks and strides,
 * but hardly on sizes, so a slow device can show it quickly.
 */
#ifndef TENON_KIT_CHECK_SHRINK_H
#define TENON_KIT_CHECK_SHRINK_H

#include <cjson/cJSON.h>

/*
 * Divides sizes above SHRINK_KEPT by `divisor`, rounding up: with `leading` 0 all of them, and whole numbers
 * among the arguments alike; else those of the first `leading` dimensions of tensors that have more. Equal
 * sizes stay equal, strides keep their order and gaps. Only the operator knows whether the call is still
 * legal.
 */
void shrink_call(cJSON *call, int divisor, int leading);
#define SHRINK_KEPT 8

#endif
