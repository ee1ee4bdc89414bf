/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the drivers of tests make work late, each in a thread that may wait. The environment:
 *
 *   FAULTY_DELAY=MS     late work begins that much later
 *   FAULTY_GATE=FILE    and not while there is such a file: what must be unfinished is, however slow the test is
 */
#ifndef TENON_TESTS_GPU_LATE_H
#define TENON_TESTS_GPU_LATE_H

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

/* Before work that is late. */
static inline void late_begin(void)
{
    const char *gate = getenv("FAULTY_GATE");
    late_sleep(late_delay());
    while (gate && access(gate, F_OK) == 0) late_sleep(1);
}

#endif
