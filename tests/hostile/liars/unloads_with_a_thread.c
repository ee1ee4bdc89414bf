/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin says that it can be unloaded, and its thread sleeps and wakes for ever. */
#include "../honest.h"

#include <pthread.h>
#include <unistd.h>

static void *run_on(void *argument)
{
    for (;;) usleep(10000);
    return NULL;
}

static int32_t open_device(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    pthread_t thread;
    if (!pthread_create(&thread, NULL, run_on, NULL)) pthread_detach(thread);
    *out_device = &the;
    return TN_OK;
}

static int32_t quiesce(void *self)
{
    return TN_OK;
}

void lie(void)
{
    the.device.open = open_device;
    the.table.quiesce = quiesce;
}
