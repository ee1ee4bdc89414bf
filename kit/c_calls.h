/* SPDX-License-Identifier: Apache-2.0 */
/* The C calls of the built-in operators as text, generated from ops/table. */
#ifndef TENON_KIT_C_CALLS_H
#define TENON_KIT_C_CALLS_H

#include <stddef.h>
#include <stdint.h>

typedef struct cmd_c_call {
    uint32_t number;  /* of the operator; 0 ends the list */
    const char *name; /* "tn_add" */
    const char *text; /* result, name, required arguments; a line for each option with type and default */
} cmd_c_call;
extern const cmd_c_call cmd_c_calls[];

#endif
