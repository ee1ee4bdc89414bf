/* SPDX-License-Identifier: Apache-2.0 */
/* Writes more facts than there is room for. */
#include "../honest.h"

#include <string.h>

static int32_t overrun(void *self, uint32_t index, tn_device_facts *out)
{
    int32_t status = honest_facts(self, index, out);
    memset((char *)out + out->size, 0x5a, 64);
    return status;
}

void lie(void)
{
    the.device.facts = overrun;
}
