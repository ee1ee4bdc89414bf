/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel gives outputs that do not exist a size, and its own one that no memory has. */
#include "../honest.h"

static int32_t add(void *self, const tn_call *call)
{
    static const int64_t negative[] = {-5}, huge[] = {INT64_MAX, INT64_MAX};
    const tn_host *host = call->host;
    if (!host->resize_output(call, 77, 1, negative) || !host->resize_output(call, 0, 1, negative) ||
        !host->resize_output(call, 0, 2, huge) || !host->resize_output(call, 0, 1000, huge))
        return TN_E_INTERNAL;
    return honest_add(self, call);
}

void lie(void)
{
    the.rows[0].run = add;
}
