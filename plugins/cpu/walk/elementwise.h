/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_CPU_ELEMENTWISE_H
#define TENON_CPU_ELEMENTWISE_H

#include "staging.h"

/*
 * cpu_plan_walk for operators whose results depend only on the inputs at the same position (after
 * cpu_plan_elementwise): elements come in any order, `position` has no meaning, and a repeated element may be
 * computed once. The ranges of one plan must be adjacent: a row belongs to the range in which it begins.
 */
void cpu_elementwise_walk(const cpu_plan *plan, int64_t begin, int64_t end, cpu_run_fn fn, void *user);

#endif
