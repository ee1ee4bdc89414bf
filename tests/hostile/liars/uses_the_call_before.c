/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel keeps a copy of its call and asks for memory with it in the next one. */
#include "../honest.h"

static tn_call kept;

static int32_t add(void *self, const tn_call *call)
{
    void *memory;
    uint64_t offset;
    int32_t status = kept.size ? call->host->workspace(&kept, 64, &memory, &offset, &memory) : TN_OK;
    kept = *call;
    return status ? status : honest_add(self, call);
}

void lie(void)
{
    the.rows[0].run = add;
}
