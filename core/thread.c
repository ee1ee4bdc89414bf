/* SPDX-License-Identifier: Apache-2.0 */
/* The one struct that hangs from each thread. What a member points to is looked after by its owner, or goes
 * with the thread when it comes from tni_thread_alloc. */
#include "core/thread.h"

#include <signal.h>
#include <stdlib.h>

_Thread_local tni_thread tni_tls __attribute__((tls_model("initial-exec")));

/* In front of the memory; its size keeps what follows aligned. */
typedef struct block {
    struct block *next;
    void **member;
} block;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key; /* value: the first block of the thread */
static int32_t has_key;

static void finish_thread(void *first)
{
    for (block *b = first, *next; b; b = next) {
        next = b->next;
        *b->member = NULL;
        free(b);
    }
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, finish_thread) == 0;
}

void *tni_thread_alloc(void **member, uint64_t bytes)
{
    pthread_once(&once, make_key);
    block *b = has_key ? calloc(1, sizeof(*b) + bytes) : NULL;
    if (!b) return NULL;
    *b = (block){pthread_getspecific(key), member};
    if (pthread_setspecific(key, b) != 0) {
        free(b);
        return NULL;
    }
    return *member = b + 1;
}

int tni_thread_start(pthread_t *out, void *(*run)(void *argument), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(out, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

void tni_recursive_lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
}
