/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks signals on the calling thread: all but those that an instruction of the thread itself causes. oneDNN's
 * generated code for gemm keeps an address of the heap in the stack pointer for a part of its time. There the kernel
 * would write the frame of a signal handler over other memory.
 */
#ifndef TENON_CPU_SIGNALS_H
#define TENON_CPU_SIGNALS_H

#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int cpu_own_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
#define CPU_OWN_SIGNALS (int)(sizeof cpu_own_signals / sizeof cpu_own_signals[0])

/* Where threads may be made: they begin with the mask of this one. The C library's own signals stay free, because each
 * thread of the process has to answer them (setuid). */
static inline void cpu_signals_block(sigset_t *out_before)
{
    sigset_t set;
    sigfillset(&set);
    for (int i = 0; i < CPU_OWN_SIGNALS; i++) sigdelset(&set, cpu_own_signals[i]);
    pthread_sigmask(SIG_BLOCK, &set, out_before);
}
static inline void cpu_signals_restore(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* Where no thread is made: the C library's own signals, too, which pthread_sigmask leaves out. */
static inline uint64_t cpu_signals_block_all(void)
{
    uint64_t set = UINT64_MAX, before = 0;
    for (int i = 0; i < CPU_OWN_SIGNALS; i++) set &= ~(UINT64_C(1) << (cpu_own_signals[i] - 1));
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &before, sizeof set);
    return before;
}
static inline void cpu_signals_restore_all(uint64_t before)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

#endif
