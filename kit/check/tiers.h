/* SPDX-License-Identifier: Apache-2.0 */
/* The results of one run, tier by tier; for the reports. */
#ifndef TENON_KIT_CHECK_TIERS_H
#define TENON_KIT_CHECK_TIERS_H

#include "check.h"

#define CHECK_TIERS 5

typedef struct check_tier {
    uint32_t count;
    uint32_t outcomes[CHECK_OUTCOMES];
    uint32_t bad, left_out; /* cases that are not as expected, and those that an ended run has left */
    int whole;              /* nothing failed or was left out, and no required kernel is absent */
    cJSON *missing;         /* texts: absent kernels, "sort/aten::sort.stable" */
    cJSON *lacking;         /* operators that an existing kernel lacks, "pointwise/aten::erfinv" */
    cJSON *optional;        /* absent kernels that are not required */
} check_tier;

const char *check_tier_name(uint32_t tier);
/* Fills CHECK_TIERS of them. */
void check_tiers_init(check_tier *tiers, const check_run *run);
void check_tiers_finish(check_tier *tiers);
/* A cell of a table as text; `buffer` is for numbers. */
const char *check_cell_text(const cJSON *cell, char *buffer, size_t bytes);

#endif
