/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel hands its call to a thread, which asks the host for memory with it. */
#include "../honest.h"
#include "../../plugins/slots.h"

#include <pthread.h>

static int32_t status;

static void *ask(void *argument)
{
    const tn_call *call = argument;
    void *memory;
    status = slot_workspace(call, call->host, 64, &memory);
    return NULL;
}

static int32_t add(void *self, const tn_call *call)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, ask, (void *)(uintptr_t)call)) return TN_E_INTERNAL;
    pthread_join(thread, NULL);
    return status ? call->host->error(call->host->context, status, "liar: the host refused")
                  : honest_add(self, call);
}

void lie(void)
{
    the.rows[0].run = add;
}
