/* SPDX-License-Identifier: Apache-2.0 */
/* Gives host memory at an odd address. */
#include "../honest.h"

static int32_t alloc_odd(void *self, void *device, uint64_t bytes, uint32_t kind, void **out_allocation,
                         void **out_host)
{
    int32_t status = honest_alloc(self, device, bytes, kind, out_allocation, out_host);
    *out_host = (char *)*out_allocation + 1;
    return status;
}

void lie(void)
{
    the.memory.alloc = alloc_odd;
}
