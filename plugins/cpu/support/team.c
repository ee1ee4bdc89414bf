/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libgomp ends the process if it cannot make a thread, so the threads of a larger team are made here first, for a
 * moment. In a forked child it would wait for ever for threads that are not there, so a team ends before the fork, and
 * parent and child make a new one when they need it. LLVM's runtime does both by itself.
 */
#include "team.h"
#include "limits.h"
#include "signals.h"
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

/* A function of LLVM's runtime, which libgomp does not have. */
extern void kmp_set_defaults(const char *text) __attribute__((weak));

static _Thread_local struct {
    int32_t size;   /* of the team, with this thread; 0: none yet */
    int32_t proved; /* a team of this size could be made */
    int32_t limit;  /* a larger one could not; 0: none was refused */
} team;

static int (*_Atomic other_pause)(int kind);

void cpu_team_also_ends_by(int (*pause)(int kind))
{
    atomic_store(&other_pause, pause);
}

/* ---- Forks ------------------------------------------------------------------------------------------- */

static void before_fork(void)
{
    int (*pause)(int) = atomic_load(&other_pause);
    if (team.size <= 1) return;
    /* Refused where a region of this thread is running: a signal handler forks. */
    if (!kmp_set_defaults && omp_pause_resource_all(omp_pause_hard) != 0) return;
    if (pause) pause(omp_pause_hard);
    team.size = 0;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void watch_forks(void)
{
    pthread_atfork(before_fork, NULL, NULL);
}

/* ---- Growing ----------------------------------------------------------------------------------------- */

static int32_t min_i32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static void *wait_for_others(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

/* The threads of the process, 0 if unknown. */
static uint64_t threads_of_process(void)
{
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 ? (uint64_t)tasks.st_nlink : 0;
}

/* A thread counts for a moment after pthread_join. Waits until the process has no more threads than before. */
static void wait_until_gone(uint64_t before)
{
    const struct timespec moment = {.tv_nsec = 100000};
    for (int i = 0; i < 200 && before && threads_of_process() > before; i++) nanosleep(&moment, NULL);
}

/*
 * How many of `wanted` further threads to use. Half of those that the system allows if it refuses some, because their
 * stacks would take all memory, and other threads come and go. Where memory is tight, room for twice as many has to be
 * there.
 */
static int32_t try_threads(int32_t wanted)
{
    enum { MOST = 256 };
    static atomic_uint_fast64_t proved; /* the process has had so many threads at once */
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t made[MOST];
    uint64_t before = threads_of_process();
    int32_t most = min_i32(cpu_memory_is_tight() ? 2 * wanted : wanted, MOST), count = 0;
    if (before && before + (uint64_t)wanted <= atomic_load(&proved)) return wanted;
    pthread_mutex_lock(&lock);
    while (count < most && pthread_create(&made[count], NULL, wait_for_others, &lock) == 0) count++;
    pthread_mutex_unlock(&lock);
    for (int32_t i = 0; i < count; i++) pthread_join(made[i], NULL);
    wait_until_gone(before);
    if (count < most) return min_i32(wanted, count / 2);
    if (before + (uint64_t)count > atomic_load(&proved)) atomic_store(&proved, before + (uint64_t)count);
    return wanted;
}

static void warn(const tn_call *call, int32_t threads, int32_t granted)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    char line[160];
    if (atomic_flag_test_and_set(&warned)) return;
    snprintf(line, sizeof line, "cpu: the system refuses threads: %d of %d are used (see ulimit, pids.max)",
             (int)granted, (int)threads);
    call->host->log(call->host->context, TN_LOG_WARN, line);
}

static int32_t grow(const tn_call *call, int32_t threads)
{
    int32_t has = team.size > 1 ? team.size : 1, granted = threads;
    sigset_t signals;
    pthread_once(&once, watch_forks);
    cpu_signals_block(&signals);
    if (threads > team.proved) granted = has + try_threads(threads - has);
    if (granted > team.proved) team.proved = granted;
        /* A region that does nothing: the runtime makes the threads, and keeps them for the next one. */
#pragma omp parallel num_threads((int)granted)
    {
        atomic_signal_fence(memory_order_seq_cst);
    }
    cpu_signals_restore(&signals);
    team.size = granted;
    if (granted < threads) {
        team.limit = granted;
        warn(call, threads, granted);
    }
    return granted;
}

int32_t cpu_team_of(const tn_call *call, int64_t threads)
{
    if (threads <= 1 || omp_in_parallel()) return 1;
    if (team.limit && threads > team.limit) threads = team.limit;
    if (threads > team.size) return grow(call, (int32_t)threads);
    if (threads > 1) team.size = (int32_t)threads; /* libgomp ends the others */
    return (int32_t)threads;
}
