/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel keeps a copy of its call and asks for memory with it in the next one. */
#include "../honest.h"
#include "../../plugins/slots.h"

static tn_call kept;

static int32_t add(void *self, const tn_call *call)
{
    void *memory;
    int32_t status = kept.size ? slot_workspace(&kept, call->host, 64, &memory) : TN_OK;
    kept = *call;
    return status ? status : honest_add(self, call);
}

void lie(void)
{
    the.rows[0].run = add;
}
