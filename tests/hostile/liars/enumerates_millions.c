/* SPDX-License-Identifier: Apache-2.0 */
/* Says that there are two thousand million devices. */
#include "../honest.h"

static int32_t many(void *self, uint32_t *out_count, const char **out_reason)
{
    *out_count = 2000000000u;
    return TN_OK;
}

void lie(void)
{
    the.device.enumerate = many;
}
