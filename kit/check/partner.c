/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes: see partner.h. */
#include "partner.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tenon/interop.h>
#include <unistd.h>

extern char **environ;

/* ---- The case's side ----------------------------------------------------------------------------------- */

int partner_start(partner *p, const check_target *t, check_result *out)
{
    int ends[2];
    char number[16];
    *p = (partner){.pid = -1, .socket = -1};
    if (!check_that(out, !socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "no socket")) return 0;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    snprintf(number, sizeof number, "%d", ends[1]);
    const char *const words[] = {"tenon",    "check", "--partner",        number,
                                 "--device", t->name, t->options->plugin, NULL};
    char *argv[8];
    memcpy(argv, words, sizeof words);
    int failed = posix_spawn(&p->pid, "/proc/self/exe", NULL, NULL, argv, environ);
    close(ends[1]);
    p->socket = ends[0];
    if (failed) p->pid = -1;
    return check_that(out, !failed, "another process cannot be started: %s", strerror(failed));
}

int partner_answer(const partner *p, check_result *out)
{
    char text[400] = "it ended without an answer";
    ssize_t n = recv(p->socket, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    return check_that(out, n > 0 && !strcmp(text, "good"), "the other process: %s",
                      n > 0 ? text : "ended without an answer");
}

int partner_received(const partner *p, check_result *out)
{
    char byte = 1;
    if (recv(p->socket, &byte, 1, MSG_PEEK) == 1 && !byte) return recv(p->socket, &byte, 1, 0) == 1;
    return partner_answer(p, out) &&
           check_that(out, 0, "the other process did not say that it has the tensor");
}

void partner_finish(partner *p)
{
    if (p->socket >= 0) close(p->socket);
    if (p->pid > 0) waitpid(p->pid, NULL, 0);
    *p = (partner){.pid = -1, .socket = -1};
}

/* ---- The partner's side -------------------------------------------------------------------------------- */

static const char *why(const tn_scope *s)
{
    const tn_error *e = s && tn_scope_failed(s) ? tn_scope_error(s) : tn_last_error();
    return e && e->message ? e->message : "unknown error";
}

/* What went wrong with the tensor, or "good". */
static void use(check_target *t, tn_scope *s, int socket, char *text, size_t bytes)
{
    static float got[PARTNER_COUNT];
    tn_event *event = NULL;
    tn_tensor *x = tn_share_receive(s, socket, &event);
    int32_t status = x && send(socket, "", 1, 0) == 1 ? TN_OK : TN_E_INTERNAL;
    if (!status && event) status = tn_stream_wait_event(tn_stream_current(t->ctx, t->device), event);
    if (!status) status = tn_to_host(s, x, got, sizeof got);
    snprintf(text, bytes, "good");
    for (int i = 0; !status && i < PARTNER_COUNT; i++) {
        if (got[i] == (float)i) continue;
        snprintf(text, bytes, "element %d of what came is %g, expected %d", i, (double)got[i], i);
        break;
    }
    if (!status) tn_mul_scalar_(s, x, 3);
    if (!status) status = tn_device_synchronize(t->ctx, t->device);
    if (status || tn_scope_failed(s)) snprintf(text, bytes, "%s", why(s));
    tn_event_release(event);
}

int check_partner(const check_options *options)
{
    char text[400];
    int socket = (int)options->partner;
    check_target *t = check_target_open(options, text, sizeof text);
    tn_scope *s = t ? tn_scope_open(t->ctx) : NULL;
    signal(SIGPIPE, SIG_IGN);
    if (s) use(t, s, socket, text, sizeof text);
    int told = send(socket, text, strlen(text), 0) > 0;
    char byte;
    while (told && recv(socket, &byte, 1, 0) > 0)
        continue; /* the memory is open until the other side is done */
    tn_scope_close(s);
    check_target_close(t);
    return !told;
}
