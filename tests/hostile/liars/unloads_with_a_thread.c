/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin says that it can be unloaded, and its thread sleeps for ever. */
#include "../honest.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static atomic_int thread_id;

static void *run_on(void *argument)
{
    atomic_store(&thread_id, (int)gettid());
    for (;;) pause();
    return NULL;
}

/* Whether the thread sleeps by now: only then can others see where it is. */
static int sleeps(void)
{
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&thread_id));
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 0;
    if (file) fclose(file);
    return state == 'S';
}

static int32_t open_device(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_on, NULL)) return TN_E_INTERNAL;
    pthread_detach(thread);
    while (!atomic_load(&thread_id) || !sleeps()) usleep(1000);
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
