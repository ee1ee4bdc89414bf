/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel says that it is done and has written nothing. */
#include "../honest.h"

static int32_t do_nothing(void *self, const tn_call *call)
{
    return TN_OK;
}

void lie(void)
{
    the.rows[0].run = do_nothing;
}
