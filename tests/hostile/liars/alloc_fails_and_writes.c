/* SPDX-License-Identifier: Apache-2.0 */
/* The first allocation fails, and has written a handle all the same. */
#include "../honest.h"

static int32_t alloc(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    static int calls;
    if (calls++) return honest_alloc(self, device, request, out);
    out->allocation = &the;
    return the.host->error(the.host->context, TN_E_OUT_OF_MEMORY, "liar: not yet");
}

void lie(void)
{
    the.memory.alloc = alloc;
}
