/* SPDX-License-Identifier: Apache-2.0 */
/* The first allocation fails, and has written a handle all the same. */
#include "../honest.h"

static int32_t alloc(void *self, void *device, uint64_t bytes, uint32_t kind, void **out_allocation,
                     void **out_host)
{
    static int calls;
    if (calls++) return honest_alloc(self, device, bytes, kind, out_allocation, out_host);
    *out_allocation = &the;
    return the.host->error(the.host->context, TN_E_OUT_OF_MEMORY, "liar: not yet");
}

void lie(void)
{
    the.memory.alloc = alloc;
}
