/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations aligned to 48 bytes. */
#include "../honest.h"

static int32_t odd(void *self, uint32_t index, tn_device_facts *out)
{
    int32_t status = honest_facts(self, index, out);
    out->alignment = 48;
    return status;
}

void lie(void)
{
    the.device.facts = odd;
}
