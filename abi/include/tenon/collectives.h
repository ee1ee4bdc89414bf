/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives: sums, copies and waits over several devices of one type in one process, a rank for each
 * device. They are queued on the devices' current streams and the host does not wait, so what comes before
 * and after on those streams is in order without more ado.
 */
#ifndef TENON_COLLECTIVES_H
#define TENON_COLLECTIVES_H

#include <tenon/tensor.h>

TN_BEGIN_DECLS

/* Reductions. Integers wrap; booleans count as "any" in SUM and MAX, as "all" in PRODUCT and MIN. MIN and MAX
 * are not for complex dtypes, AVERAGE (the sum divided by the number of ranks) is for floating and complex
 * ones. With a NaN among the numbers SUM, PRODUCT and AVERAGE are NaN, MIN and MAX it or another of them. */
#define TN_REDUCE_SUM     0u
#define TN_REDUCE_PRODUCT 1u
#define TN_REDUCE_MIN     2u
#define TN_REDUCE_MAX     3u
#define TN_REDUCE_AVERAGE 4u

TN_END_DECLS
#endif
