/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation succeeds and gives no memory. */
#include "../honest.h"

static int32_t alloc_nothing(void *self, void *device, const tn_memory_request *request, tn_memory *out)
{
    out->allocation = out->host = NULL;
    return TN_OK;
}

void lie(void)
{
    the.memory.alloc = alloc_nothing;
}
