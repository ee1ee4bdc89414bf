/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_CPU_ELEMENTWISE_H
#define TENON_CPU_ELEMENTWISE_H

#include "staging.h"

/*
 * cpu_plan_walk for operators each of whose results depends on the inputs at its place and on nothing else
 * (cpu_plan_elementwise has been called): elements come in any order, `position` means nothing, and an
 * element that is repeated may be computed once. Ranges of one plan must meet: a row belongs to the range in
 * which it begins.
 */
void cpu_elementwise_walk(const cpu_plan *plan, int64_t begin, int64_t end, cpu_run_fn fn, void *user);

#endif
