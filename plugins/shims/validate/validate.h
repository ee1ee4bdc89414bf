/* SPDX-License-Identifier: Apache-2.0 */
/*
 * validate: watches every call between the host and the plugins of a context and reports what the contract
 * forbids, whichever side does it. TENON_VALIDATE is 1, or a file to which findings are appended, a line
 * each, for programs that keep no log. It keeps what is alive and who has accessed what; it changes nothing
 * but where outputs are written for the length of a call, to see what a slot does to them.
 *
 *   validate.c   the tool: what is asked before and after each call; threads, statuses, leaks
 *   arguments.c  handles, ranges and numbers in the arguments of slots
 *   outputs.c    outputs of slots: untouched on failure, written on success, never past their size
 *   kernels.c    calls of kernels and rows: structs, descriptors, nests
 *   operators.c  the values of those calls, and functions of operators that a plugin defines
 *   objects.c    devices, streams, events, allocations, alive and dead
 *   order.c      the race detector
 *   graphs.c     work that is captured and launched, and collectives
 *
 * One lock guards all of it; it is taken before and after calls and never while one runs.
 */
#ifndef TENON_VALIDATE_H
#define TENON_VALIDATE_H

#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- order.c: clocks --------------------------------------------------------------------------------- */

/* The number of streams that are distinguished; with more at a time, races are not looked for. */
#define VALIDATE_CLOCKS   256u
#define VALIDATE_NO_CLOCK UINT32_MAX

/* For each stream, the number of its tasks known to come before. */
typedef struct validate_clock {
    uint64_t at[VALIDATE_CLOCKS];
} validate_clock;

/* A place in the run: "memory.free, call 12". Texts are static or the plugin's. */
typedef struct validate_place {
    const char *slot;
    const char *op; /* NULL but for kernels and functions of operators */
    uint64_t number;
} validate_place;

/* One access to bytes [from, to) of an allocation by task `task` of stream `clock`. */
typedef struct validate_access {
    struct validate_access *next;
    uint64_t from;
    uint64_t to;
    uint64_t gap; /* largest stride: any piece of that length meets an element. 0: all bytes are accessed */
    uint64_t task;
    uint64_t stream; /* its id, for the text */
    uint32_t clock;
    uint32_t writes;
    validate_place place;
} validate_access;

/* ---- objects.c --------------------------------------------------------------------------------------- */

/* The work of a capture, and of graphs and executables made of it; reference counted. */
typedef struct validate_work {
    uint32_t references;
    uint32_t is_over; /* no longer captured */
    struct validate_captured *accesses;
} validate_work;

/* What is behind a handle. Handles of one kind may be given more than once (a device with one stream): then
 * the object is shared and ends with the last. Dead ones stay for a while, to say where they ended. */
typedef struct validate_object {
    struct validate_object *next; /* in its bucket */
    shim_plugin *plugin;
    shim_kind kind; /* SHIM_DEVICE, _STREAM, _EVENT, _ALLOCATION, _GRAPH, _EXECUTABLE, _COMMUNICATOR */
    uint32_t alive; /* times returned and not yet destroyed */
    void *handle;
    struct validate_object *device; /* NULL for devices and communicators */
    validate_place made;
    validate_place ended;
    uint64_t id;           /* device: tn_device; stream: its id */
    uint64_t n_streams;    /* device: made so far */
    uint64_t bytes;        /* allocation */
    char *host;            /* allocation: its address for the host, or NULL */
    uint32_t by_plugin;    /* allocation: of tenon.allocator, parts of it are given */
    uint32_t in_order;     /* device: its work is done when a call returns */
    uint32_t kinds;        /* device: TN_MEMORY_... */
    uint32_t flags;        /* event: TN_EVENT_... */
    uint32_t clock;        /* stream */
    uint32_t is_recorded;  /* event */
    validate_clock *known; /* stream, event: what lies before; executable: its last launch */
    validate_work *work;   /* stream: that it captures; event: recorded in; graph, executable: made of */
    uint64_t last_task;    /* executable: of its last launch, on the stream of `clock` */
    uint32_t count;        /* communicator: devices */
    uint32_t reserved;
    void **devices;            /* communicator: their handles */
    validate_access *accesses; /* allocation */
} validate_object;

/* A running kernel or operator function, to detect use of its call elsewhere. */
typedef struct validate_past {
    const shim_plugin *plugin;
    validate_place place;
} validate_past;

#define VALIDATE_BUCKETS 1024u
#define VALIDATE_PAST    1024u
#define VALIDATE_THREADS 32u

/* A running call of a slot for one thread at a time. */
typedef struct validate_busy {
    const void *object;
    const shim_call *call;
    pthread_t thread;
} validate_busy;

/* The state of a context. */
typedef struct validate_state {
    const tn_host *host;
    const char *file; /* findings are appended to it, too; NULL: none */
    pthread_mutex_t lock;
    validate_object *buckets[VALIDATE_BUCKETS];
    uint32_t n_dead;
    uint32_t n_busy;
    validate_busy busy[VALIDATE_THREADS];
    validate_past past[VALIDATE_PAST]; /* the last ones, by number */
    validate_clock host_known;         /* what the host has seen finish */
    uint32_t clock_used[VALIDATE_CLOCKS];
} validate_state;

static inline validate_state *validate_of(const shim_call *c)
{
    return c->plugin->shim->state;
}

validate_place validate_here(const shim_call *c);
const char *validate_place_text(const validate_place *p, char *buffer, size_t bytes);

/* Alive or dead, preferring alive ones; `device` NULL: of any device. NULL: unknown handle. */
validate_object *validate_find(validate_state *v, const shim_plugin *w, shim_kind kind, const void *handle,
                               const validate_object *device);
/* The same in all plugins. */
validate_object *validate_find_anywhere(validate_state *v, shim_kind kind, const void *handle);
/* NULL when out of memory; the object is then not checked. */
validate_object *validate_made(validate_state *v, const shim_call *c, shim_kind kind, void *handle,
                               validate_object *device);
void validate_ended(validate_state *v, const shim_call *c, validate_object *o);
/* Reports the live objects of a plugin (device NULL) or a device as leaks, and forgets them. */
void validate_leaks(validate_state *v, const shim_call *c, const validate_object *device);
/* Forgets all that a plugin had. */
void validate_forget(validate_state *v, const shim_plugin *w);
const char *validate_kind_name(shim_kind kind);
/* The same with its article: "an event". */
const char *validate_a(shim_kind kind);

/* ---- Findings ---------------------------------------------------------------------------------------- */

/* Reports with printf's words. `other` (may be NULL) is the second place. */
void validate_say(const shim_call *c, const char *kind, const validate_place *other, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same, of a stream. */
void validate_say_on(const shim_call *c, const char *kind, uint64_t stream, const validate_place *other,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- arguments.c, kernels.c, outputs.c: with the lock held ------------------------------------------- */

void validate_arguments(validate_state *v, shim_call *c);
/* Registers objects that the slot made and removes those it took. */
void validate_results(validate_state *v, shim_call *c);
void validate_kernel_before(validate_state *v, const shim_call *c);
void validate_kernel_after(validate_state *v, const shim_call *c);
void validate_rows(const shim_call *c, const tn_kernel_row *rows, uint32_t count, uint32_t row_bytes);
/* host.resize_output has given output i its memory. */
void validate_resized(validate_state *v, const shim_call *c);
/* The object of an argument that names a live handle, or NULL. */
validate_object *validate_argument(validate_state *v, const shim_call *c, uint32_t i);
/* Checks bytes [offset, offset + bytes) of an allocation, which `what` names. 0: outside, which was
 * reported. */
int32_t validate_range(const shim_call *c, const validate_object *o, const char *what, uint64_t offset,
                       uint64_t bytes);
/* Notes the accesses of copies and fills that succeeded. */
void validate_accesses(validate_state *v, const shim_call *c);

/* Outputs point to storage of the shim during the call. Without the lock. */
void validate_outputs_before(shim_call *c);
void validate_outputs_after(shim_call *c);

/* Kernels and functions of operators get copies of the values of their call. Without the lock. */
void validate_values_before(shim_call *c);
void validate_values_after(shim_call *c);
/* Calls of the host's that a kernel or such a function makes with its call. */
void validate_host_call_before(const shim_call *c);
void validate_host_call_after(const shim_call *c);

/* ---- graphs.c: with the lock held -------------------------------------------------------------------- */

/* The object leaves its capture. */
void validate_drop_work(validate_object *o);
/* Reports a slot that may not be called on a capturing stream. */
void validate_check_capture(validate_state *v, const shim_call *c);
/* Begins and ends of captures, graphs, executables, launches. `failed`: only that a capture is over. */
void validate_graphs(validate_state *v, const shim_call *c, int32_t failed);
/* Notes an access as part of the capture. */
void validate_capture(const shim_call *c, const validate_object *allocation, const validate_object *stream,
                      const validate_access *access);
/* Handles and ranges of the ranks of a collective, and what they access when it went well. */
void validate_ranks(validate_state *v, const shim_call *c, int32_t done);

/* ---- order.c: with the lock held --------------------------------------------------------------------- */

void validate_stream_made(validate_state *v, validate_object *stream);
void validate_stream_ended(validate_state *v, const shim_call *c, validate_object *stream);
/* A new task of the stream, after everything that the host knows to be finished. Returns its number. */
uint64_t validate_task(validate_state *v, validate_object *stream);
void validate_recorded(validate_state *v, validate_object *event, validate_object *stream);
void validate_waits(validate_object *stream, const validate_object *event);
void validate_waits_for(validate_object *stream, const validate_clock *known);
/* The host knows that the stream's tasks up to `task`, or those before an event, are finished. */
void validate_seen_stream(validate_state *v, const validate_object *stream, uint64_t task);
void validate_seen_event(validate_state *v, const validate_object *event);
/* The number of the stream's last task. */
uint64_t validate_last_task(const validate_object *stream);
/* The device has finished everything. */
void validate_seen_device(validate_state *v, const validate_object *device);
/* Compares an access with earlier ones and stores it. `gap` as in validate_access. */
void validate_access_range(validate_state *v, const shim_call *c, validate_object *allocation,
                           validate_object *stream, uint64_t from, uint64_t to, uint64_t gap,
                           uint32_t writes);
/* The allocation is freed: no work may still use it. */
void validate_unused(validate_state *v, const shim_call *c, validate_object *allocation);
void validate_drop_accesses(validate_object *allocation);

#endif
