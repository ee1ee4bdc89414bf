/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that run callbacks of the program, for drivers whose runtime has no thread for them. */
#include "gpu.h"

#include <stdlib.h>

typedef struct callback_thread {
    gpu_callbacks *callbacks;
    void (*run)(void *data);
    void *data;
} callback_thread;

void gpu_callbacks_init(gpu_callbacks *c)
{
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->idle, NULL);
    c->running = 0;
}

void gpu_callbacks_finish(gpu_callbacks *c)
{
    pthread_mutex_lock(&c->lock);
    while (c->running) pthread_cond_wait(&c->idle, &c->lock);
    pthread_mutex_unlock(&c->lock);
    pthread_cond_destroy(&c->idle);
    pthread_mutex_destroy(&c->lock);
}

static void *run_thread(void *user)
{
    callback_thread *t = user;
    gpu_callbacks *c = t->callbacks;
    t->run(t->data);
    free(t);
    pthread_mutex_lock(&c->lock);
    if (--c->running == 0) pthread_cond_broadcast(&c->idle);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

int32_t gpu_callbacks_start(const gpu_plugin *plugin, gpu_callbacks *c, void (*run)(void *data), void *data)
{
    pthread_t thread;
    callback_thread *t = malloc(sizeof *t);
    if (!t) return gpu_error(plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    *t = (callback_thread){c, run, data};
    pthread_mutex_lock(&c->lock);
    int32_t failed = pthread_create(&thread, NULL, run_thread, t) != 0;
    if (!failed) c->running++;
    pthread_mutex_unlock(&c->lock);
    if (!failed) {
        pthread_detach(thread);
        return TN_OK;
    }
    free(t);
    return gpu_error(plugin, TN_E_OUT_OF_MEMORY, "no thread for a callback");
}
