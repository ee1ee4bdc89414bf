/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: a host callback that does not return until the case opens the gate, and so holds a stream. Work
 * queued behind it cannot have run before. Nothing depends on the speed of the device.
 *
 * A plugin that works synchronously may run a callback on the calling thread. The callback sees that and
 * does not wait.
 */
#ifndef TENON_KIT_CHECK_GATE_H
#define TENON_KIT_CHECK_GATE_H

#include <pthread.h>
#include "hand.h"

#define OPENING_NS 30000000 /* delay before another thread opens the gate */

typedef struct gate {
    pthread_mutex_t lock; /* of the flags; read them with gate_read */
    pthread_cond_t changed;
    pthread_t caller;
    int entered, open, at_once, gave_up;
    int passed; /* calls of gate_mark */
} gate;

void gate_init(gate *g);
void gate_finish(gate *g);
/* The host callback that holds its stream until the gate is open. */
void gate_hold(void *user);
/* A host callback that counts its calls in the gate. */
void gate_mark(void *user);
int gate_read(gate *g, const int *flag);
void gate_open(gate *g);
/* Closes an open gate that no stream is at, and forgets the marks. */
void gate_close(gate *g);
/* Another thread opens the gate in a moment, while the caller waits for the device. 0, or there is no thread. */
int gate_open_later(gate *g, pthread_t *out_thread);
void gate_pause(long nanoseconds);

/* The plugin opened by hand, with the first device, two streams of it, an event if it has events, and up to two devices in `h`.
 * The event was recorded before, and is done. */
typedef struct desk {
    hand h;
    gate g;
    void *device, *stream, *other, *event;
    uint64_t bytes; /* for the case */
    check_result *out;
} desk;

/* 0: the case has ended, as failed or skipped; desk_close is called in either case. */
int desk_open(desk *d, check_target *t, uint32_t devices, check_result *out);
/* Opens the gate and waits until nothing of the case is queued. */
void desk_close(desk *d);
/* 1, or 0 and the case fails with what the plugin said. */
int desk_ok(desk *d, int32_t status, const char *what);
/* What stream.query says; -1 and the case fails when it is an error. */
int desk_query(desk *d, void *stream);
/* Closes the gate in d->stream. 0: the case has ended: the device works synchronously, or something failed. */
int desk_hold(desk *d);
/* Opens it later, in a thread to be joined. 0: the case is skipped, as there is no thread. */
int desk_open_later(desk *d, pthread_t *out_thread);

#endif
