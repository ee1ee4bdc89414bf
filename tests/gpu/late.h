/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the drivers of tests make work late, each in a thread that may wait. Nothing here depends on who is faster. The environment:
 *
 *   FAULTY_DELAY=MS      late work begins that much later
 *   FAULTY_GATE=FILE     and not while there is such a file. FILE.reached appears when somebody waits for work behind the
 *                        gate, or for another process; FILE.blocked when somebody waits for work behind a callback that has
 *                        not returned
 *   FAULTY_UNASKED=1     no work begins before the host waits for it, or for work behind it. Whoever does not wait finds it
 *                        unfinished. A host that asks QUESTIONS times, and queues nothing in between, has waited, too
 *   FAULTY_SIGNALS=FILE  a call by which a thread of the plugin lets work begin returns when there is such a file
 *   FAULTY_MEETING=FILE  the first call that uses a list returns when another thread uses it, too, or there is such a file
 */
#ifndef TENON_TESTS_GPU_LATE_H
#define TENON_TESTS_GPU_LATE_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define QUESTIONS 20

static inline long late_delay(void)
{
    const char *text = getenv("FAULTY_DELAY");
    return text ? atol(text) : 0;
}

static inline void late_sleep(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static inline int late_has_file(const char *variable)
{
    const char *file = getenv(variable);
    return file && access(file, F_OK) == 0;
}

static inline int late_is_closed(void)
{
    return late_has_file("FAULTY_GATE");
}

static inline int late_until_asked(void)
{
    const char *text = getenv("FAULTY_UNASKED");
    return text && atoi(text);
}

/* Somebody waits for what cannot come before the test does something: `what` is reached or blocked. */
static inline void late_note(const char *what)
{
    char name[256];
    const char *shut = getenv("FAULTY_GATE");
    if (!shut) return;
    snprintf(name, sizeof name, "%s.%s", shut, what);
    int file = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0) close(file);
}

/* Questions in a row; one of all files of a driver. */
extern atomic_uint late_questions;
__attribute__((weak, visibility("hidden"))) atomic_uint late_questions;

/* When work is queued. */
static inline void late_queued(void)
{
    atomic_store(&late_questions, 0);
}

/* When the host asks about work that is unfinished: whether that is as good as a wait. */
static inline int late_insists(void)
{
    return !late_is_closed() && atomic_fetch_add(&late_questions, 1) + 1 >= QUESTIONS;
}

/* Before work that is late. */
static inline void late_begin(void)
{
    late_sleep(late_delay());
    while (late_is_closed()) late_sleep(1);
}

/* Until there is the file that the variable names, if it names one. */
static inline void late_until_file(const char *variable)
{
    while (getenv(variable) && !late_has_file(variable)) late_sleep(1);
}

#endif
