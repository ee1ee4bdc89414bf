/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late errors: errors of queued work, which a plugin reports to whoever waits for the stream next. This keeps
 * them until the program has been told; late_error.c says how.
 */
#ifndef TNI_CORE_LATE_ERROR_H
#define TNI_CORE_LATE_ERROR_H

#include <stdint.h>
#include <tenon/device.h>

typedef struct tni_device tni_device;

/* A place in a stream: how many late errors of the stream were known there. If more are known later, work
 * before the place failed, or work behind it: the plugin does not tell these apart. */
typedef struct tni_late_mark {
    tn_stream *stream; /* its memory stays as long as the device */
    uint64_t id;       /* the stream's number; if it has another one now, the stream was released */
    uint64_t found;
} tni_late_mark;

void tni_late_init(tni_device *device);
void tni_late_finish(tni_device *device);
/* Keeps an error that the caller cannot return; nothing happens when status is 0. */
void tni_late_keep(tni_device *device, int32_t status, const char *what);
/* Returns the error that was kept, and forgets it. */
int32_t tni_late_take(tni_device *device);
tni_late_mark tni_late_mark_of(tn_stream *stream);
/* From here on, work of `stream` runs after all work before the mark. */
int32_t tni_late_follow(tn_stream *stream, const tni_late_mark *mark);
/* After a wait for `stream`, to which the plugin answered `status`: the late error of the stream, of a stream
 * that it had waited for, or the one that was kept for the device. `what` names the wait in the text. */
int32_t tni_late_of_stream(tn_stream *stream, int32_t status, const char *what);
/* The same after a wait for the device: the late error of any stream that nobody has been told. Streams of other threads report
 * theirs to them, too. */
int32_t tni_late_of_device(tni_device *device, int32_t status);
/* Keeps an error of a stream until somebody waits for it, or for the device. */
void tni_late_note(tn_stream *stream, int32_t status, const char *what);
/* Before a stream ends, which was waited for with this status: what nobody was told is kept for the device. */
void tni_late_of_release(tn_stream *stream, int32_t status);
/* The same after a wait for a place in a stream. */
int32_t tni_late_of_mark(const tni_late_mark *mark);
/* Clears what is known of a stream: it is made, or made again from the memory of a released one. */
void tni_late_forget(tn_stream *stream);

#endif
