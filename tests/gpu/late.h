/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the drivers of tests make work late, each in a thread that may wait. The environment:
 *
 *   FAULTY_DELAY=MS     late work begins that much later
 *   FAULTY_GATE=FILE    and not while there is such a file: what must be unfinished is, however slow the test is
 *   FAULTY_UNASKED=1    and not before the host, the gate being open, waits for work or asks about work. Whoever does not
 *                       wait finds the work unfinished, however slow the host is
 */
#ifndef TENON_TESTS_GPU_LATE_H
#define TENON_TESTS_GPU_LATE_H

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static inline long late_delay(void)
{
    const char *text = getenv("FAULTY_DELAY");
    return text ? atol(text) : 0;
}

static inline void late_sleep(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static inline int late_is_closed(void)
{
    const char *gate = getenv("FAULTY_GATE");
    return gate && access(gate, F_OK) == 0;
}

static inline int late_until_asked(void)
{
    const char *text = getenv("FAULTY_UNASKED");
    return text && atoi(text);
}

/* One of all files of a driver. */
extern atomic_ulong late_times_asked;
__attribute__((weak, visibility("hidden"))) atomic_ulong late_times_asked;

/* When a wait of the host begins, and when the host has got an answer. */
static inline void late_asked(void)
{
    if (!late_is_closed()) atomic_fetch_add(&late_times_asked, 1);
}

/* When work is queued: what late_hold has to know. */
static inline unsigned long late_queued(void)
{
    return atomic_load(&late_times_asked);
}

/* Until the host has asked since the work was queued; a stream that ends counts as asked. */
static inline void late_hold(unsigned long queued)
{
    while (late_until_asked() && atomic_load(&late_times_asked) == queued) late_sleep(1);
}

/* Before work that is late. */
static inline void late_begin(void)
{
    late_sleep(late_delay());
    while (late_is_closed()) late_sleep(1);
}

#endif
