/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel writes on behind its output, until it is stopped. */
#include "../honest.h"

static int32_t write_on(void *self, const tn_call *call)
{
    const tn_operand *out = call->nest->operands;
    volatile char *at = (char *)out->allocation + out->byte_offset;
    for (uint64_t i = 0; i < (uint64_t)1 << 32; i++) at[i] = 1;
    return TN_OK;
}

void lie(void)
{
    the.rows[0].run = write_on;
}
