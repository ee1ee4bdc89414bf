/* SPDX-License-Identifier: Apache-2.0 */
/* The sources of cases, one file each. */
#ifndef TENON_KIT_CHECK_SOURCES_H
#define TENON_KIT_CHECK_SOURCES_H

#include "check.h"

/* tier0.c, tier0_streams.c: what a device is before it computes. */
void check_tier0(check_target *t, check_list *list);
void check_tier0_streams(check_target *t, check_list *list);
/* tier0_manifest.c: whether programs find the plugin. */
void check_tier0_manifest(check_target *t, check_list *list);
/* tier0_slots.c: slots called by hand. */
void check_tier0_slots(check_target *t, check_list *list);
/* tier0_rare.c: memory that is mapped, memory that grows, streams of queues of the program. */
void check_tier0_rare(check_target *t, check_list *list);
/* tier0_gate.c: work that is held back must say that it is unfinished. */
void check_tier0_gate(check_target *t, check_list *list);
/* tier0_lost.c: a device that is lost. */
void check_tier0_lost(check_target *t, check_list *list);
/* tier0_pinned.c: pinned memory and copies that do not block. */
void check_tier0_pinned(check_target *t, check_list *list);
/* tier0_unified.c: memory that host and device share. */
void check_tier0_unified(check_target *t, check_list *list);
/* table.c: pointwise operators, reductions and scans, from the operator table. */
void check_table_cases(check_target *t, check_list *list);
/* families.c: fill, copy, iota, random, gather, scatter, bmm, sort, nonzero. */
void check_family_cases(check_target *t, check_list *list);
/* index.c: indices out of range. */
void check_index_cases(check_target *t, check_list *list);
/* late.c: errors found late, and what a kernel borrows until it returns. */
void check_late_cases(check_target *t, check_list *list);
/* options.c: each option of each operator that the plugin has. */
void check_option_cases(check_target *t, check_list *list);
/* sizes.c: long rows, deep products, many dimensions. */
void check_size_cases(check_target *t, check_list *list);
/* far.c: elements that are gigabytes apart. */
void check_far_cases(check_target *t, check_list *list);
/* leaks.c: host memory that slots and kernels leave. */
void check_leak_slots(check_target *t, check_list *list);
void check_leak_kernels(check_target *t, check_list *list);
void check_leak_graphs(check_target *t, check_list *list);
/* streams.c: a kernel on two streams at once. */
void check_stream_cases(check_target *t, check_list *list);
/* tier2.c: a perceptron learns. */
void check_tier2(check_target *t, check_list *list);
/* tier3.c: convolution, attention, normalisation, mixed precision. */
void check_tier3(check_target *t, check_list *list);
/* tier4.c: several devices. */
void check_tier4(check_target *t, check_list *list);
/* tier4_graph.c, tier4_collectives.c, tier4_interop.c: what a plugin may offer beyond kernels. */
void check_tier4_graph(check_target *t, check_list *list);
void check_tier4_collectives(check_target *t, check_list *list);
void check_tier4_interop(check_target *t, check_list *list);
/* golden.c: recorded calls, with --golden. */
void check_golden_cases(check_target *t, check_list *list);

/* precision_case.c: errors of functions in units of the last place. */
void check_precision_functions(check_target *t, check_list *list);
void check_precision_sums(check_target *t, check_list *list);

/* custom.c: one operator of a library, for --op. */
void check_custom_operator(check_target *t, check_list *list);

#endif
