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
 * Writes the best matches for `wish`, the best first, and returns how many. `wish` is a C name or the name of a schema.
 * A name that begins with `wish` ranks before one that contains it, and that before one with other letters. Names of
 * PyTorch's Python functions are known where ATen has another name ("cross_entropy").
 */
uint32_t cmd_find_similar(tn_context *ctx, const char *wish, cmd_similar out[CMD_MAX_SIMILAR]);

#endif
