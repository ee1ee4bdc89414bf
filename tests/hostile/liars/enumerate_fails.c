/* SPDX-License-Identifier: Apache-2.0 */
/* Fails with a number that is not a status, and without a message. */
#include "../honest.h"

static int32_t fail(void *self, uint32_t *out_count, const char **out_reason)
{
    return 4711;
}

void lie(void)
{
    the.device.enumerate = fail;
}
