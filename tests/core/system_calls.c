/* SPDX-License-Identifier: Apache-2.0 */
#include "system_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Atomic int32_t left; /* calls until the one that fails; 0: none fails */
static _Atomic int32_t failed;
static int number;

void fail_system_call(int32_t n, int error)
{
    number = error;
    failed = 0;
    left = n;
}

int32_t system_call_failed(void)
{
    left = 0;
    return failed;
}

static int32_t fails(void)
{
    if (left <= 0 || --left) return 0;
    failed = 1;
    if (number != RETURNS_ZERO) errno = number;
    return 1;
}

/* ISO C has no conversion from an object pointer to a function pointer. */
static void find(void *function, const char *name)
{
    void *address = dlsym(RTLD_NEXT, name);
    if (!address) abort();
    memcpy(function, &address, sizeof address);
}

/* Results of a failing call: -1 or 0, NULL, or an errno. */
#define FAILED_INT    return number == RETURNS_ZERO ? 0 : -1
#define FAILED_NULL   return NULL
#define FAILED_MAP    return MAP_FAILED
#define FAILED_STATUS return number == RETURNS_ZERO ? 0 : number

/* Defines one function that hands its arguments on. */
#define CALL(result, name, parameters, arguments, failure) \
    result name parameters                                 \
    {                                                      \
        static result(*next) parameters;                   \
        if (fails()) failure;                              \
        if (!next) find(&next, #name);                     \
        return next arguments;                             \
    }

CALL(ssize_t, read, (int fd, void *to, size_t bytes), (fd, to, bytes), FAILED_INT)
CALL(ssize_t, pread, (int fd, void *to, size_t bytes, off_t at), (fd, to, bytes, at), FAILED_INT)
CALL(ssize_t, write, (int fd, const void *from, size_t bytes), (fd, from, bytes), FAILED_INT)
CALL(int, fstat, (int fd, struct stat *out), (fd, out), FAILED_INT)
CALL(int, stat, (const char *path, struct stat *out), (path, out), FAILED_INT)
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode), FAILED_INT)
CALL(int, fsync, (int fd), (fd), FAILED_INT)
CALL(int, memfd_create, (const char *text, unsigned flags), (text, flags), FAILED_INT)
CALL(int, ftruncate, (int fd, off_t bytes), (fd, bytes), FAILED_INT)
CALL(void *, mmap, (void *to, size_t bytes, int access, int flags, int fd, off_t at),
     (to, bytes, access, flags, fd, at), FAILED_MAP)
CALL(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), FAILED_INT)
CALL(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), FAILED_INT)
CALL(int, pthread_setspecific, (pthread_key_t key, const void *value), (key, value), FAILED_STATUS)
CALL(int, pthread_create, (pthread_t * out, const pthread_attr_t *a, void *(*run)(void *), void *user),
     (out, a, run, user), FAILED_STATUS)
CALL(int, sched_getaffinity, (pid_t process, size_t bytes, cpu_set_t *out), (process, bytes, out), FAILED_INT)
CALL(int, rename, (const char *from, const char *to), (from, to), FAILED_INT)
CALL(int, renameat, (int from_folder, const char *from, int to_folder, const char *to),
     (from_folder, from, to_folder, to), FAILED_INT)
CALL(int, linkat, (int from_folder, const char *from, int to_folder, const char *to, int flags),
     (from_folder, from, to_folder, to, flags), FAILED_INT)
CALL(int, fchmod, (int fd, mode_t mode), (fd, mode), FAILED_INT)
CALL(int, mkostemp, (char *path, int flags), (path, flags), FAILED_INT)
CALL(int, pipe2, (int ends[2], int flags), (ends, flags), FAILED_INT)
CALL(int, poll, (struct pollfd * list, nfds_t count, int ms), (list, count, ms), FAILED_INT)
CALL(pid_t, waitpid, (pid_t child, int *status, int options), (child, status, options), FAILED_INT)
CALL(FILE *, fopen, (const char *path, const char *mode), (path, mode), FAILED_NULL)
CALL(DIR *, opendir, (const char *path), (path), FAILED_NULL)
CALL(char *, realpath, (const char *path, char *to), (path, to), FAILED_NULL)
CALL(struct tm *, gmtime_r, (const time_t *t, struct tm *out), (t, out), FAILED_NULL)
CALL(int, dlinfo, (void *handle, int request, void *out), (handle, request, out), FAILED_INT)
CALL(int, posix_spawn_file_actions_init, (posix_spawn_file_actions_t * a), (a), FAILED_STATUS)
CALL(int, posix_spawn_file_actions_addopen,
     (posix_spawn_file_actions_t * a, int fd, const char *path, int flags, mode_t mode),
     (a, fd, path, flags, mode), FAILED_STATUS)
CALL(int, posix_spawn_file_actions_adddup2, (posix_spawn_file_actions_t * a, int fd, int to), (a, fd, to),
     FAILED_STATUS)
CALL(int, posix_spawn_file_actions_addclosefrom_np, (posix_spawn_file_actions_t * a, int from), (a, from),
     FAILED_STATUS)
CALL(int, posix_spawnattr_init, (posix_spawnattr_t * a), (a), FAILED_STATUS)
CALL(int, posix_spawnattr_setsigmask, (posix_spawnattr_t * a, const sigset_t *mask), (a, mask), FAILED_STATUS)
CALL(int, posix_spawnattr_setsigdefault, (posix_spawnattr_t * a, const sigset_t *mask), (a, mask),
     FAILED_STATUS)
CALL(int, posix_spawnattr_setpgroup, (posix_spawnattr_t * a, pid_t group), (a, group), FAILED_STATUS)
CALL(int, posix_spawnattr_setflags, (posix_spawnattr_t * a, short flags), (a, flags), FAILED_STATUS)
CALL(int, posix_spawn,
     (pid_t * child, const char *path, const posix_spawn_file_actions_t *actions,
      const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]),
     (child, path, actions, attributes, arguments, environment), FAILED_STATUS)
CALL(int, scandir,
     (const char *path, struct dirent ***out, int (*filter)(const struct dirent *),
      int (*compare)(const struct dirent **, const struct dirent **)),
     (path, out, filter, compare), FAILED_INT)

/* A descriptor whose close fails is closed all the same, as on Linux. */
int close(int fd)
{
    static int (*next)(int);
    if (!next) find(&next, "close");
    int32_t error = fails();
    int status = next(fd);
    if (error && number != RETURNS_ZERO) errno = number;
    return error ? -1 : status;
}

int open(const char *path, int flags, ...)
{
    static int (*next)(const char *, int, ...);
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (fails()) return -1;
    if (!next) find(&next, "open");
    return next(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    static int (*next)(int, const char *, int, ...);
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (fails()) return -1;
    if (!next) find(&next, "openat");
    return next(folder, path, flags, mode);
}

/* Commands with a number or without an argument. */
int fcntl(int fd, int command, ...)
{
    static int (*next)(int, int, ...);
    va_list args;
    va_start(args, command);
    long argument = va_arg(args, long);
    va_end(args);
    if (fails()) return -1;
    if (!next) find(&next, "fcntl");
    return next(fd, command, argument);
}
