/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the threads that are inside a library, so that the end of the process can wait for them before the library's
 * objects are destroyed. The counters are spread, because all threads count at once.
 */
#ifndef TENON_CPU_USERS_H
#define TENON_CPU_USERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { CPU_USER_COUNTERS = 16 };

typedef struct cpu_users {
    struct {
        _Alignas(64)
            atomic_uint_fast64_t count; /* low half: threads inside; high half: those that have left */
    } counters[CPU_USER_COUNTERS];
    atomic_bool closed;
} cpu_users;

/* The counter of a thread goes by the address of its stack. */
static inline atomic_uint_fast64_t *cpu_users_counter(cpu_users *users, const void *on_stack)
{
    return &users->counters[((uintptr_t)on_stack >> 21) % CPU_USER_COUNTERS].count;
}

/* Whether the library may be used; if so, until cpu_users_leave on the same thread. */
static inline bool cpu_users_enter(cpu_users *users)
{
    char here;
    atomic_uint_fast64_t *counter = cpu_users_counter(users, &here);
    atomic_fetch_add(counter, 1);
    if (!atomic_load(&users->closed)) return true;
    atomic_fetch_sub(counter, 1);
    return false;
}
/* How many have left before, counted with this counter. */
static inline uint32_t cpu_users_leave(cpu_users *users)
{
    char here;
    return (uint32_t)(atomic_fetch_add(cpu_users_counter(users, &here), UINT32_MAX) >> 32);
}

/* Nobody enters any more; waits for those inside, at most 2 seconds. */
static inline void cpu_users_close(cpu_users *users)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    atomic_store(&users->closed, true);
    for (int waits = 0; waits < 2000; waits++) {
        uint32_t inside = 0;
        for (int i = 0; i < CPU_USER_COUNTERS; i++)
            inside += (uint32_t)atomic_load(&users->counters[i].count);
        if (!inside) return;
        nanosleep(&moment, NULL);
    }
}

/* In a forked child there are no other threads. */
static inline void cpu_users_forget(cpu_users *users)
{
    for (int i = 0; i < CPU_USER_COUNTERS; i++) atomic_store(&users->counters[i].count, 0);
}

#endif
