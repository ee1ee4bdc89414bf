/* SPDX-License-Identifier: Apache-2.0 */
/* A gate: what waits at it, on another thread, stays unfinished until the test opens it. */
#ifndef TESTS_CORE_GATE_H
#define TESTS_CORE_GATE_H

#include <pthread.h>
#include <semaphore.h>

typedef struct gate {
    sem_t reached, open;
    int calls; /* of gate_wait that have passed */
    pthread_t passed_by;
} gate;

static inline void gate_init(gate *g)
{
    sem_init(&g->reached, 0, 0);
    sem_init(&g->open, 0, 0);
    g->calls = 0;
}

/* The side that waits; a host callback, too. */
static inline void gate_wait(void *user)
{
    gate *g = user;
    sem_post(&g->reached);
    sem_wait(&g->open);
    g->passed_by = pthread_self();
    g->calls++;
}

static inline void gate_open(gate *g)
{
    sem_post(&g->open);
}

#endif
