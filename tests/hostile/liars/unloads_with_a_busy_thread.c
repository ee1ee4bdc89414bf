/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin says that it can be unloaded, and its thread computes for ever: nobody can see where it is. */
#include "../honest.h"

#include <pthread.h>

static volatile unsigned work;

static void *run_on(void *argument)
{
    for (;;) work++;
    return NULL;
}

static int32_t open_device(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    pthread_t thread;
    if (!pthread_create(&thread, NULL, run_on, NULL)) pthread_detach(thread);
    *out_device = &the;
    return TN_OK;
}

void lie(void)
{
    the.device.open = open_device;
}
