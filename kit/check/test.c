/* SPDX-License-Identifier: Apache-2.0 */
/* The default mode: all tiers. */
#include "sources.h"

int32_t check_test(check_run *run)
{
    static const check_source sources[] = {check_tier0,
                                           check_tier0_streams,
                                           check_tier0_slots,
                                           check_leak_slots,
                                           check_tier0_gate,
                                           check_tier0_lost,
                                           check_tier0_manifest,
                                           check_tier0_pinned,
                                           check_tier0_unified,
                                           check_tier0_rare,
                                           check_table_cases,
                                           check_family_cases,
                                           check_index_cases,
                                           check_late_cases,
                                           check_option_cases,
                                           check_size_cases,
                                           check_far_cases,
                                           check_stream_cases,
                                           check_leak_kernels,
                                           check_tier2,
                                           check_tier3,
                                           check_tier4,
                                           check_tier4_graph,
                                           check_leak_graphs,
                                           check_tier4_collectives,
                                           check_tier4_interop,
                                           check_golden_cases};
    check_execute(run, sources, sizeof sources / sizeof *sources);
    return check_verdict(run);
}
