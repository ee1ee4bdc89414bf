/* SPDX-License-Identifier: Apache-2.0 */
/* No lie: the plugin says that it can be unloaded, and its thread has ended when quiesce returns. */
#include "../honest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static pthread_t thread;
static atomic_int stop;

static void *run(void *argument)
{
    while (!atomic_load(&stop)) usleep(1000);
    return NULL;
}

static int32_t init(const tn_host *host, void **out_self)
{
    if (pthread_create(&thread, NULL, run, NULL)) return TN_E_INTERNAL;
    return honest_init(host, out_self);
}

static int32_t quiesce(void *self)
{
    atomic_store(&stop, 1);
    return pthread_join(thread, NULL) ? TN_E_INTERNAL : TN_OK;
}

void lie(void)
{
    the.table.init = init;
    the.table.quiesce = quiesce;
}
