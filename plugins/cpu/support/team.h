/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that OpenMP keeps waiting for the calling thread, its team. Where a team grows, its threads are made with
 * signals blocked, and only as many as the system allows. A fork ends the team of the thread that forks.
 */
#ifndef TENON_CPU_TEAM_H
#define TENON_CPU_TEAM_H

#include "cpu.h"

/* How many of `threads` a parallel region of this thread may ask for, at least 1. Each region asks here first. */
int32_t cpu_team_of(const tn_call *call, int64_t threads);

/* Ends the team of this thread in a further OpenMP runtime: oneDNN's, if it is not the plugin's own. */
void cpu_team_also_ends_by(int (*pause)(int kind));

#endif
