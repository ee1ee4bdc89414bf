/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel keeps its call and uses it in the next one, when it is over. */
#include "../honest.h"
#include "../../plugins/slots.h"

static const tn_call *kept;
static void *kept_state;

static int32_t add(void *self, const tn_call *call)
{
    tn_call dead = *call;
    void *memory;
    if (!kept) {
        kept = call;
        kept_state = (char *)call->state + 4096;
    }
    dead.state = kept_state; /* what a frame that is gone looks like */
    int32_t status = slot_workspace(&dead, call->host, 64, &memory);
    return status ? status : honest_add(self, call);
}

void lie(void)
{
    the.rows[0].run = add;
}
