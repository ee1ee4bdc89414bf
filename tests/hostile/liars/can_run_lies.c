/* SPDX-License-Identifier: Apache-2.0 */
/* can_run says yes, the kernel then says that it cannot. */
#include "../honest.h"

static const char *agree(void *self, const tn_call *call)
{
    return NULL;
}

static int32_t refuse(void *self, const tn_call *call)
{
    return TN_E_UNSUPPORTED;
}

void lie(void)
{
    the.rows[0].can_run = agree;
    the.rows[0].run = refuse;
}
