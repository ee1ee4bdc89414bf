/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a process write its coverage counts when it ends by _exit or by a signal: the compiler's runtime writes
 * them in destructors, which neither of these runs. Only SIGKILL still loses them. A shared library, since
 * every program and library has a runtime of its own: register.c registers each here.
 */
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_MODULES 64

void counts_register(void (*dump)(void));
void counts_unregister(void (*dump)(void));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*dumps[MAX_MODULES])(void);

static void replace(void (*from)(void), void (*to)(void))
{
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < MAX_MODULES && dumps[i] != from) i++;
    if (i < MAX_MODULES) dumps[i] = to;
    pthread_mutex_unlock(&lock);
}

void counts_register(void (*dump)(void))
{
    replace(NULL, dump);
}

/* A library that is unloaded has written its counts. */
void counts_unregister(void (*dump)(void))
{
    replace(dump, NULL);
}

/* Takes no lock: the thread that ends the process may hold it. */
static void write_counts(void)
{
    for (int i = 0; i < MAX_MODULES; i++) {
        if (dumps[i]) dumps[i]();
    }
}

/* The handler runs once: with SA_RESETHAND the second signal has its default effect. The alarm ends a process
 * that died inside malloc, whose lock the counts would wait for. */
static void on_signal(int number)
{
    signal(SIGALRM, SIG_DFL);
    alarm(5);
    write_counts();
    raise(number);
}

static __attribute__((constructor)) void watch_signals(void)
{
    static const int numbers[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTERM};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
}

/* These stand for the C library's. */
void _exit(int status)
{
    write_counts();
    for (;;) syscall(SYS_exit_group, status);
}

void _Exit(int status)
{
    _exit(status);
}
