/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks of the program. The driver may run those of all streams one after another, and calls none behind a fault. So each
 * is kept in a list of the device until it has run: either the driver calls it, or, when the device is lost, whoever destroys
 * its queue.
 */
#include "cuda_driver.h"

#include <stdlib.h>

struct cuda_callback {
    cuda_callback *next; /* in the device's list, in the order in which they were queued */
    cuda_device *device;
    const void *queue;
    void (*callback)(void *user);
    void *user;
    int32_t is_running;
    int32_t
        is_dead; /* called in the driver's place: it stays until the device is closed, should the driver call it yet */
};

void cuda_callbacks_init(cuda_callbacks *c)
{
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->ended, NULL);
}

void cuda_callbacks_finish(cuda_callbacks *c)
{
    for (cuda_callback *one = c->dead, *next; one; one = next) {
        next = one->next;
        free(one);
    }
    pthread_cond_destroy(&c->ended);
    pthread_mutex_destroy(&c->lock);
}

/* With the lock held. */
static void take_out(cuda_callbacks *c, const cuda_callback *one)
{
    cuda_callback **link = &c->first;
    while (*link != one) link = &(*link)->next;
    *link = one->next;
}

void cuda_callback_run(cuda_callback *one)
{
    cuda_callbacks *c = &one->device->callbacks;
    pthread_mutex_lock(&c->lock);
    const int32_t is_dead = one->is_dead;
    one->is_running = !is_dead;
    pthread_mutex_unlock(&c->lock);
    if (is_dead) return;
    one->callback(one->user);
    pthread_mutex_lock(&c->lock);
    take_out(c, one);
    pthread_cond_broadcast(&c->ended);
    pthread_mutex_unlock(&c->lock);
    free(one);
}

int32_t cuda_queue_callback(void *device, void *queue, void (*callback)(void *user), void *user)
{
    cuda_device *d = device;
    cuda_callbacks *c = &d->callbacks;
    cuda_callback *one = calloc(1, sizeof *one);
    if (!one) return gpu_error(d->plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    *one = (cuda_callback){.device = d, .queue = queue, .callback = callback, .user = user};
    pthread_mutex_lock(&c->lock);
    cuda_callback **end = &c->first;
    while (*end) end = &(*end)->next;
    *end = one;
    pthread_mutex_unlock(&c->lock);
    int32_t status = cuda_host_function(d, cuda_stream_of(queue), one);
    if (status) {
        pthread_mutex_lock(&c->lock);
        take_out(c, one);
        pthread_mutex_unlock(&c->lock);
        free(one);
    }
    return status;
}

/* With the lock held. */
static cuda_callback *first_of(const cuda_callbacks *c, const void *queue)
{
    cuda_callback *one = c->first;
    while (one && one->queue != queue) one = one->next;
    return one;
}

/* In order. One that runs already has a thread of the driver. */
static void call_the_rest(cuda_callbacks *c, const void *queue)
{
    pthread_mutex_lock(&c->lock);
    for (cuda_callback *one = first_of(c, queue); one; one = first_of(c, queue)) {
        if (one->is_running) {
            pthread_cond_wait(&c->ended, &c->lock);
            continue;
        }
        take_out(c, one);
        one->is_dead = 1;
        one->next = c->dead;
        c->dead = one;
        pthread_mutex_unlock(&c->lock);
        one->callback(one->user);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

void cuda_callbacks_end(cuda_device *d, const void *queue)
{
    cuda_callbacks *c = &d->callbacks;
    pthread_mutex_lock(&c->lock);
    const int32_t has_some = first_of(c, queue) != NULL;
    pthread_mutex_unlock(&c->lock);
    if (has_some && CALL(d, cuStreamSynchronize, cuda_stream_of(queue)) != CUDA_SUCCESS)
        call_the_rest(c, queue);
}
