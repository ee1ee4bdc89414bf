/* SPDX-License-Identifier: Apache-2.0 */
/* No device, and no reason. */
#include "../honest.h"

static int32_t none(void *self, uint32_t *out_count, const char **out_reason)
{
    *out_count = 0;
    *out_reason = NULL;
    return TN_OK;
}

void lie(void)
{
    the.device.enumerate = none;
}
