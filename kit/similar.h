/* SPDX-License-Identifier: Apache-2.0 */
/* Calls whose names resemble one that no operator has. */
#ifndef TENON_KIT_SIMILAR_H
#define TENON_KIT_SIMILAR_H

#include <tenon/context.h>

#define CMD_MAX_SIMILAR 5

typedef struct cmd_similar {
    uint32_t rank; /* of cmd_find_similar, the best first */
    uint32_t length;
    const char *c_name;
    char name[128]; /* "aten::sum.dim_IntList" */
} cmd_similar;

/*
 * The best matches for `wish`, which is a C name or that of a schema, first the best; returns how many. A name that
 * begins with `wish` is better than one that has it elsewhere, and that is better than one with other letters. Names
 * of PyTorch's Python functions that ATen calls otherwise ("cross_entropy") are known.
 */
uint32_t cmd_find_similar(tn_context *ctx, const char *wish, cmd_similar out[CMD_MAX_SIMILAR]);

#endif
