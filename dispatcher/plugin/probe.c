/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the helper, reads its report and judges; see probe.h. posix_spawn, not fork: the program may have
 * threads and much memory. The helper leads its own process group, so that processes it starts end with it.
 */
#include "dispatcher/plugin/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "plugin/paths.h" /* made by the build */
#include "dispatcher/plugin/trust.h"

#define HELPER_NAME "tenon-probe"
/* The descriptor that the helper reports on. */
#define REPORT_FD 3
/* Interval for checking whether a helper that has closed its report has ended. */
#define POLL_MS 2

extern char **environ;

typedef struct report {
    char text[2048];
    size_t used;
} report;

static int32_t is_program(const char *path)
{
    return access(path, X_OK) == 0;
}

const char *tni_probe_helper(char *buffer, size_t bytes)
{
    /* Relative to the library: installed, in a build folder. Then the configured folder. */
    static const char *const beside[] = {TNI_PROBE_RELATIVE "/" HELPER_NAME, "kit/" HELPER_NAME};
    char library[PATH_MAX];
    char *slash = strrchr(tni_library_path(library, sizeof(library)), '/');
    if (slash) *slash = 0;
    for (uint32_t i = 0; slash && i < 2; i++) {
        if ((size_t)snprintf(buffer, bytes, "%s/%s", library, beside[i]) < bytes && is_program(buffer))
            return buffer;
    }
    snprintf(buffer, bytes, "%s", TNI_PROBE_FOLDER "/" HELPER_NAME);
    if (!is_program(buffer)) buffer[0] = 0;
    return buffer;
}

int32_t tni_probe_wanted(const tni_plugin_settings *settings, int32_t trusted)
{
    if (settings->probe && strcmp(settings->probe, "never") == 0) return 0;
    return !trusted || (settings->probe && strcmp(settings->probe, "always") == 0);
}

/* ---- Starting ---------------------------------------------------------------------------------------- */

static int fill_actions(posix_spawn_file_actions_t *actions, int report_fd)
{
    int error = 0;
    for (int fd = 0; fd < 3 && !error; fd++)
        error = posix_spawn_file_actions_addopen(actions, fd, "/dev/null", fd == 0 ? O_RDONLY : O_WRONLY, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(actions, report_fd, REPORT_FD);
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
    if (!error) error = posix_spawn_file_actions_addclosefrom_np(actions, REPORT_FD + 1);
#endif
#endif
    return error;
}

/* All signals at their defaults and unblocked, whatever the program has set. */
static int fill_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawnattr_setsigmask(attributes, &none);
    if (!error) error = posix_spawnattr_setsigdefault(attributes, &all);
    if (!error) error = posix_spawnattr_setpgroup(attributes, 0);
    if (!error)
        error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                         POSIX_SPAWN_SETPGROUP);
    return error;
}

static int start(const char *helper, const char *library, int report_fd, pid_t *out)
{
    char *const arguments[] = {(char *)(uintptr_t)helper, (char *)(uintptr_t)library, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = fill_actions(&actions, report_fd);
        if (!error) error = fill_attributes(&attributes);
        if (!error) error = posix_spawn(out, helper, &actions, &attributes, arguments, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* ---- Listening --------------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads until the helper closes its end. 0: the deadline passed first. */
static int32_t listen_until(int fd, int64_t deadline, report *r)
{
    char rest[256];
    for (;;) {
        struct pollfd wait = {fd, POLLIN, 0};
        int64_t left = deadline - now_ms();
        if (left <= 0) return 0;
        int ready = poll(&wait, 1, (int)left);
        if (ready < 0 && errno != EINTR) return 0;
        if (ready <= 0) continue;
        size_t space = sizeof(r->text) - 1 - r->used;
        ssize_t n = space > 0 ? read(fd, r->text + r->used, space) : read(fd, rest, sizeof(rest));
        if (n == 0) return 1;
        if (n < 0 && errno != EINTR && errno != EAGAIN) return 1;
        if (n > 0 && space > 0) r->used += (size_t)n;
    }
}

/* Waits for the end of the child. 0: the deadline passed; 1: *status is set; -1: the program reaped it. */
static int32_t reap(pid_t child, int64_t deadline, int *status)
{
    for (;;) {
        pid_t ended = waitpid(child, status, WNOHANG);
        if (ended == child) return 1;
        if (ended < 0 && errno == ECHILD) return -1;
        if (now_ms() >= deadline) return 0;
        poll(NULL, 0, POLL_MS);
    }
}

/* Kills the process group and reaps the child. */
static void end_group(pid_t child)
{
    int status;
    kill(-child, SIGKILL);
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno != ECHILD) continue;
}

/* ---- Judging ----------------------------------------------------------------------------------------- */

#define NAME(signal) \
    case signal:     \
        return #signal

static const char *signal_name(int signal)
{
    switch (signal) {
        NAME(SIGSEGV);
        NAME(SIGABRT);
        NAME(SIGBUS);
        NAME(SIGILL);
        NAME(SIGFPE);
        NAME(SIGKILL);
        NAME(SIGTERM);
        NAME(SIGTRAP);
        NAME(SIGSYS);
    default:
        return "a signal";
    }
}

/* The rest of the last line that begins with `word`, in `buffer`; NULL if there is none. */
static const char *last_line(report *r, const char *word, char *buffer, size_t bytes)
{
    const char *found = NULL;
    for (const char *line = r->text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, word, strlen(word)) == 0) found = line + strlen(word);
    }
    if (found) snprintf(buffer, bytes, "%.*s", (int)strcspn(found, "\n"), found);
    return found ? buffer : NULL;
}

static int32_t judge(report *r, int32_t ended, int status, tni_reason *reason)
{
    char text[TNI_REASON_BYTES / 2], stage[64];
    if (!last_line(r, "stage ", stage, sizeof(stage))) snprintf(stage, sizeof(stage), "at start");
    if (ended > 0 && WIFSIGNALED(status))
        return tni_reason_set(reason, TN_E_CONTRACT, "probe: crashed with %s (%d) %s",
                              signal_name(WTERMSIG(status)), WTERMSIG(status), stage);
    if (last_line(r, "fail ", text, sizeof(text)))
        return tni_reason_set(reason, TN_E_UNSUPPORTED, "probe: %s", text);
    if (last_line(r, "ok", text, sizeof(text)) && (ended < 0 || WEXITSTATUS(status) == 0)) return TN_OK;
    if (ended > 0)
        return tni_reason_set(reason, TN_E_CONTRACT, "probe: ended the process with status %d %s",
                              WEXITSTATUS(status), stage);
    return tni_reason_set(reason, TN_E_CONTRACT, "probe: ended without a verdict %s", stage);
}

int32_t tni_probe_run(const char *helper, const char *library, uint32_t timeout_ms, tni_reason *reason)
{
    report r = {.used = 0};
    char stage[64];
    pid_t child;
    int ends[2], status = 0;
    if (!helper[0])
        return tni_reason_set(reason, TN_E_STATE,
                              "unknown plugin; it cannot be probed, since the helper '" HELPER_NAME
                              "' is not installed (TENON_PLUGIN_PROBE=never loads it without a probe)");
    if (pipe2(ends, O_CLOEXEC) != 0) return tni_reason_set(reason, TN_E_STATE, "probe: %s", strerror(errno));
    int64_t deadline = now_ms() + timeout_ms;
    int error = start(helper, library, ends[1], &child);
    close(ends[1]);
    if (error) {
        close(ends[0]);
        return tni_reason_set(reason, TN_E_STATE, "probe: cannot start '%s': %s", helper, strerror(error));
    }
    int32_t ended = listen_until(ends[0], deadline, &r) ? reap(child, deadline, &status) : 0;
    close(ends[0]);
    r.text[r.used] = 0;
    if (ended != 0) return judge(&r, ended, status, reason);
    end_group(child);
    if (!last_line(&r, "stage ", stage, sizeof(stage))) snprintf(stage, sizeof(stage), "at start");
    return tni_reason_set(reason, TN_E_CONTRACT, "probe: did not end within %u ms %s", timeout_ms, stage);
}
