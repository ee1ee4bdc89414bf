/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel writes its result and then takes the output out of its call. */
#include "../honest.h"

static int32_t add(void *self, const tn_call *call)
{
    int32_t status = honest_add(self, call);
    if (call->n_outs) call->outs[0] = tn_value_none();
    return status;
}

void lie(void)
{
    the.rows[0].run = add;
}
