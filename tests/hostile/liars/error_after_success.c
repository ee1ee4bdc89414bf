/* SPDX-License-Identifier: Apache-2.0 */
/* The work was done, said the kernel; the stream says later that it was not. */
#include "../honest.h"

static int32_t failed;

static int32_t add(void *self, const tn_call *call)
{
    failed = 1;
    return TN_OK;
}

static int32_t late(void *self, void *device, void *stream)
{
    int32_t status =
        failed ? the.host->error(the.host->context, TN_E_INTERNAL, "liar: it was not done") : TN_OK;
    failed = 0;
    return status;
}

void lie(void)
{
    the.rows[0].run = add;
    the.stream.synchronize = late;
}
