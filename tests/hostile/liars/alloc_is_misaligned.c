/* SPDX-License-Identifier: Apache-2.0 */
/* Gives host memory at an odd address. */
#include "../honest.h"

static int32_t alloc_odd(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    int32_t status = honest_alloc(self, device, request, out);
    out->host = (char *)out->allocation + 1;
    return status;
}

void lie(void)
{
    the.memory.alloc = alloc_odd;
}
