/* SPDX-License-Identifier: Apache-2.0 */
/* A thread runs on after shutdown. */
#include "../honest.h"

#include <pthread.h>
#include <unistd.h>

static void *run_on(void *argument)
{
    for (;;) usleep(1000);
    return NULL;
}

static int32_t init(const tn_host *host, void **out_self)
{
    pthread_t thread;
    if (!pthread_create(&thread, NULL, run_on, NULL)) pthread_detach(thread);
    return honest_init(host, out_self);
}

void lie(void)
{
    the.table.init = init;
}
