/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel fails without a word. */
#include "../honest.h"

static int32_t fail(void *self, const tn_call *call)
{
    return TN_E_INTERNAL;
}

void lie(void)
{
    the.rows[0].run = fail;
}
