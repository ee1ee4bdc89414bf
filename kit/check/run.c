/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs cases in processes of their own: a crash or a hang ends only the case in which it happens, and a new
 * process continues. This process never loads the plugin, except with --jobs 0, which is for debuggers. SIGTERM ends the run: what
 * has run by then is reported.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../cmd.h"
#include "list.h"
#include "worker.h"

typedef struct worker {
    pid_t pid; /* 0: none */
    int to, from;
    int64_t running; /* number of the case that runs, -1: none */
    char doing[240]; /* what that case said last, see check_doing */
    double deadline;
    char *buffer; /* what it wrote, up to the end of a line */
    size_t used, room;
} worker;

typedef struct runner {
    check_run *run;
    const check_source *sources;
    uint32_t n_sources;
    check_exceptions exceptions;
    uint32_t next, done, left_out;
} runner;

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- Processes ----------------------------------------------------------------------------------------- */

/* In the child. Output of the plugin must not mix with the lines of a report. */
static void serve(runner *r, int in, int out)
{
    const struct rlimit none = {0, 0};
    FILE *from = fdopen(in, "r"), *to = fdopen(out, "w");
    /* Pipes of other workers: kept open here, they would never end there. */
    for (int fd = 3; fd < 512; fd++) {
        if (fd != in && fd != out) close(fd);
    }
    setrlimit(RLIMIT_CORE, &none);
    cmd_pass_over_end();
    dup2(STDERR_FILENO, STDOUT_FILENO);
    _exit(from && to ? check_serve(r->run->options, r->sources, r->n_sources, from, to) : 4);
}

static int start(runner *r, worker *w)
{
    int down[2], up[2];
    if (pipe(down)) return 1;
    if (pipe(up)) {
        close(down[0]);
        close(down[1]);
        return 1;
    }
    fflush(NULL);
    w->pid = fork();
    if (w->pid == 0) {
        close(down[1]);
        close(up[0]);
        serve(r, down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    w->to = down[1];
    w->from = up[0];
    w->used = 0;
    w->running = -1;
    if (w->pid > 0) return 0;
    w->pid = 0;
    close(w->to);
    close(w->from);
    return 1;
}

/* Asks for a case. If the worker has died the write fails, which reading the answer shows. */
static void ask(runner *r, worker *w, int64_t number)
{
    w->running = number;
    w->doing[0] = 0;
    w->deadline = seconds_now() + (double)r->run->options->timeout;
    dprintf(w->to, "%lld\n", (long long)number);
}

/* Lines that begin with '#' are log lines of the case that runs; with "#@", what it is doing. */
static char *pass_log(runner *r, worker *w)
{
    char *end;
    while ((end = strchr(w->buffer, '\n')) && w->buffer[0] == '#') {
        *end = 0;
        if (w->buffer[1] == '@')
            snprintf(w->doing, sizeof w->doing, "%.*s", (int)sizeof w->doing - 1, w->buffer + 2);
        else if (w->running >= 0)
            check_log_line(r->run->entries[w->running].result.log, w->buffer + 1);
        w->used -= (size_t)(end + 1 - w->buffer);
        memmove(w->buffer, end + 1, w->used + 1);
    }
    return end;
}

/* Reads available bytes. 1: a whole answer is in w->buffer; 0: not yet; -1: the worker is gone. */
static int read_line(runner *r, worker *w)
{
    char *end;
    ssize_t n;
    if (w->room - w->used < 4096) {
        size_t room = w->room ? w->room * 2 : 65536;
        char *larger = realloc(w->buffer, room);
        if (!larger) return -1;
        w->buffer = larger;
        w->room = room;
    }
    n = read(w->from, w->buffer + w->used, w->room - w->used - 1);
    if (n < 0 && errno == EINTR) return 0;
    if (n <= 0) return -1;
    w->used += (size_t)n;
    w->buffer[w->used] = 0;
    end = pass_log(r, w);
    if (!end) return 0;
    *end = 0;
    w->used = 0; /* one question, one line */
    return 1;
}

/* Waits for a worker whose input is closed; kills it when its shutdown hangs. */
static int reap(worker *w, double patience)
{
    int status = 0;
    double until = seconds_now() + patience;
    while (waitpid(w->pid, &status, WNOHANG) == 0) {
        if (seconds_now() > until) {
            kill(w->pid, SIGKILL);
            waitpid(w->pid, &status, 0);
            break;
        }
        usleep(2000);
    }
    w->pid = 0;
    return status;
}

static void describe_end(int status, char *text, size_t bytes)
{
    if (WIFSIGNALED(status))
        snprintf(text, bytes, "crashed: %s", strsignal(WTERMSIG(status)));
    else
        snprintf(text, bytes, "ended the process with status %d", WEXITSTATUS(status));
}

/* Ends an idle worker. If it dies now, the plugin's shutdown is at fault. */
static void dismiss(runner *r, worker *w)
{
    char text[128];
    close(w->to);
    close(w->from);
    int status = reap(w, (double)r->run->options->timeout);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    describe_end(status, text, sizeof text);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) snprintf(text, sizeof text, "hung");
    if (!r->run->fatal[0])
        snprintf(r->run->fatal, sizeof r->run->fatal, "the end of a context (quiesce, shutdown): %s", text);
}

/* ---- Results ------------------------------------------------------------------------------------------- */

static void settle(runner *r, int64_t number)
{
    check_entry *e = &r->run->entries[number];
    if (e->result.outcome != CHECK_ABSENT)
        r->run->bad += (uint32_t)check_is_bad(r->run, e); /* else forgive decides */
    check_progress(r->run, ++r->done, e->name);
}

static void take_answer(runner *r, worker *w)
{
    cJSON *j = cJSON_Parse(w->buffer);
    check_result_read(j, &r->run->entries[w->running].result);
    cJSON_Delete(j);
    settle(r, w->running);
    w->running = -1;
}

/* The process of the case crashed, or did not answer in time. */
static void take_crash(runner *r, worker *w, int late)
{
    check_result *out = &r->run->entries[w->running].result;
    if (late) kill(w->pid, SIGKILL);
    close(w->to);
    close(w->from);
    int status = reap(w, 5);
    out->outcome = CHECK_CRASHED;
    describe_end(status, out->reason, sizeof out->reason);
    const size_t used = strlen(out->reason);
    if (w->doing[0]) snprintf(out->reason + used, sizeof out->reason - used, ", while %s", w->doing);
    if (late)
        snprintf(out->reason, sizeof out->reason, "not done after %u second%s", r->run->options->timeout,
                 r->run->options->timeout == 1 ? "" : "s");
    settle(r, w->running);
    w->running = -1;
}

/* ---- The loop ------------------------------------------------------------------------------------------ */

/* The next case that is not listed as unsupported; -1 at the end. */
static int64_t next_case(runner *r)
{
    while (r->next < r->run->count) {
        uint32_t i = r->next++;
        check_result *out = &r->run->entries[i].result;
        if (out->listed != CHECK_UNSUPPORTED) return i;
        out->outcome = CHECK_SKIPPED;
        snprintf(out->reason, sizeof out->reason, "unsupported: %s", out->excuse);
        settle(r, i);
    }
    return -1;
}

/* A case that has not run to its end, as the run was ended. */
static void leave_out(runner *r, uint32_t number)
{
    check_result *out = &r->run->entries[number].result;
    out->outcome = CHECK_SKIPPED;
    out->left_out = 1;
    snprintf(out->reason, sizeof out->reason, "the run was ended before");
    r->left_out++;
}

static void leave_out_the_rest(runner *r)
{
    while (r->next < r->run->count) leave_out(r, r->next++);
    if (r->left_out && !r->run->fatal[0])
        snprintf(r->run->fatal, sizeof r->run->fatal, "the run was ended when %u of %u cases were left",
                 r->left_out, r->run->count);
}

/* Cases with CHECK_TAG_ALONE, and all with --isolate, get a fresh process. */
static int alone(const runner *r, int64_t number)
{
    return r->run->options->isolate || r->run->entries[number].tags & CHECK_TAG_ALONE;
}

/* Gives a worker its next case; 0 if no case is left. */
static int feed(runner *r, worker *w)
{
    int64_t number = next_case(r);
    if (number < 0) return 0;
    if (w->pid && alone(r, number)) dismiss(r, w);
    if (!w->pid && start(r, w)) {
        snprintf(r->run->fatal, sizeof r->run->fatal, "no process: %s", strerror(errno));
        return 0;
    }
    ask(r, w, number);
    return 1;
}

static void serve_worker(runner *r, worker *w, int readable)
{
    int64_t number = w->running;
    if (readable) {
        int got = read_line(r, w);
        if (got == 0) return;
        if (got > 0)
            take_answer(r, w);
        else
            take_crash(r, w, 0);
    } else if (seconds_now() > w->deadline) {
        take_crash(r, w, 1);
    } else {
        return;
    }
    if (w->pid && (alone(r, number) || r->run->entries[number].result.ends)) dismiss(r, w);
}

/* Of a run that was ended. */
static void abandon(runner *r, worker *w)
{
    if (!w->pid) return;
    kill(w->pid, SIGKILL);
    waitpid(w->pid, NULL, 0);
    close(w->to);
    close(w->from);
    if (w->running >= 0) leave_out(r, (uint32_t)w->running);
}

static void run_all(runner *r)
{
    uint32_t jobs = r->run->options->jobs, busy = 1;
    worker *workers = calloc(jobs, sizeof *workers);
    while (workers && busy && !cmd_has_ended()) {
        struct pollfd fds[64];
        uint32_t which[64];
        busy = 0;
        for (uint32_t i = 0; i < jobs; i++) {
            worker *w = &workers[i];
            if (!w->pid || w->running < 0) {
                if (!feed(r, w)) continue;
            }
            fds[busy] = (struct pollfd){.fd = w->from, .events = POLLIN};
            which[busy++] = i;
        }
        if (busy) poll(fds, busy, 100);
        for (uint32_t k = 0; k < busy; k++)
            serve_worker(r, &workers[which[k]], (fds[k].revents & (POLLIN | POLLHUP)) != 0);
    }
    for (uint32_t i = 0; workers && i < jobs; i++) {
        if (cmd_has_ended())
            abandon(r, &workers[i]);
        else if (workers[i].pid)
            dismiss(r, &workers[i]);
        free(workers[i].buffer);
    }
    free(workers);
}

/* ---- The list of cases --------------------------------------------------------------------------------- */

static int take_survey(runner *r, const char *line)
{
    check_run *run = r->run;
    cJSON *j = cJSON_Parse(line), *item;
    const cJSON *fatal = cJSON_GetObjectItem(j, "fatal"), *cases = cJSON_GetObjectItem(j, "cases");
    if (cJSON_IsString(fatal)) snprintf(run->fatal, sizeof run->fatal, "%s", fatal->valuestring);
    run->subject = cJSON_DetachItemFromObject(j, "subject");
    run->entries = calloc((size_t)cJSON_GetArraySize(cases) + 1, sizeof *run->entries);
    cJSON_ArrayForEach(item, cases)
    {
        const cJSON *name = cJSON_GetArrayItem(item, 0);
        check_entry *e = &run->entries[run->count++];
        e->name = strdup(name->valuestring);
        e->tier = (uint32_t)cJSON_GetArrayItem(item, 1)->valuedouble;
        e->tags = (uint32_t)cJSON_GetArrayItem(item, 2)->valuedouble;
        check_exceptions_apply(&r->exceptions, e->name, &e->result);
    }
    cJSON_Delete(j);
    return run->fatal[0] != 0;
}

/* A separate worker lists the cases: loading may crash or hang, too. */
static int survey(runner *r)
{
    worker w = {0};
    char text[128];
    int got = 0;
    if (start(r, &w)) {
        snprintf(r->run->fatal, sizeof r->run->fatal, "no process: %s", strerror(errno));
        return 1;
    }
    ask(r, &w, -1);
    while (got == 0 && seconds_now() < w.deadline && !cmd_has_ended()) {
        struct pollfd fd = {.fd = w.from, .events = POLLIN};
        if (poll(&fd, 1, 100) > 0) got = read_line(r, &w);
    }
    if (got == 0) kill(w.pid, SIGKILL);
    close(w.to);
    close(w.from);
    int status = reap(&w, 5);
    describe_end(status, text, sizeof text);
    if (got > 0)
        got = take_survey(r, w.buffer);
    else
        got = snprintf(r->run->fatal, sizeof r->run->fatal, "%s: %s",
                       r->run->options->op ? "loading the library" : "loading",
                       got == 0 ? "not done in time" : text) > 0;
    free(w.buffer);
    return got;
}

/* ---- In this process ----------------------------------------------------------------------------------- */

static int run_here(runner *r)
{
    check_run *run = r->run;
    check_list list;
    check_target *t = check_target_open(run->options, run->fatal, sizeof run->fatal);
    if (!t) return 1;
    run->fatal[0] = 0;
    if (check_list_init(&list, run->options)) return 1;
    for (uint32_t i = 0; i < r->n_sources; i++) r->sources[i](t, &list);
    run->subject = check_subject(t);
    run->entries = calloc(list.count + 1, sizeof *run->entries);
    for (uint32_t i = 0; i < list.count; i++) {
        run->entries[i] = (check_entry){
            .name = strdup(list.cases[i].name), .tier = list.cases[i].tier, .tags = list.cases[i].tags};
        check_exceptions_apply(&r->exceptions, list.cases[i].name, &run->entries[i].result);
    }
    run->count = list.count;
    for (int64_t i = next_case(r); i >= 0; i = cmd_has_ended() ? -1 : next_case(r)) {
        check_result before = run->entries[i].result, *out = &run->entries[i].result;
        check_run_case(t, &list.cases[i], out);
        out->listed = before.listed;
        memcpy(out->excuse, before.excuse, sizeof out->excuse);
        settle(r, i);
    }
    check_list_finish(&list);
    check_target_close(t);
    return 0;
}

/* "pointwise" of "1/pointwise/aten::add.Tensor/float32/sliced". */
static size_t kernel_of(const check_entry *e, const char **out)
{
    *out = strchr(e->name, '/');
    *out = *out ? *out + 1 : e->name;
    return strcspn(*out, "/");
}

static int has_native_pass(const check_run *run, const check_entry *like)
{
    const char *kernel, *other;
    size_t length = kernel_of(like, &kernel);
    for (uint32_t i = 0; i < run->count; i++) {
        const check_entry *e = &run->entries[i];
        if (e->tier == 1 && e->result.outcome == CHECK_PASSED && e->result.way == CHECK_WAY_NATIVE &&
            kernel_of(e, &other) == length && strncmp(kernel, other, length) == 0)
            return 1;
    }
    return 0;
}

/* The twelve kernels are required; an operator or dtype that one of them lacks is reported but does not
 * fail. Cases of one kernel are adjacent, so the answer for the previous case is reused. */
static void forgive(check_run *run)
{
    const check_entry *last = NULL;
    const char *a, *b;
    int there = 0;
    run->bad = 0;
    for (uint32_t i = 0; i < run->count; i++) {
        check_entry *e = &run->entries[i];
        if (e->tier == 1 && e->result.outcome == CHECK_ABSENT && !(e->tags & CHECK_TAG_OPTIONAL)) {
            size_t length = kernel_of(e, &a);
            if (!last || kernel_of(last, &b) != length || strncmp(a, b, length))
                there = has_native_pass(run, e);
            last = e;
            if (there) e->tags |= CHECK_TAG_PARTLY;
        }
        run->bad += (uint32_t)check_is_bad(run, e);
    }
}

static void warn_unused(const check_exceptions *e)
{
    for (uint32_t i = 0; i < e->count; i++) {
        if (!e->items[i].used)
            fprintf(stderr, "tenon check: no case matches the exception '%s'\n", e->items[i].pattern);
    }
}

int32_t check_execute(check_run *run, const check_source *sources, uint32_t count)
{
    runner r = {.run = run, .sources = sources, .n_sources = count};
    const check_options *o = run->options;
    int status = check_exceptions_read(&r.exceptions, o->unsupported, CHECK_UNSUPPORTED) ||
                 check_exceptions_read(&r.exceptions, o->expected_failures, CHECK_EXPECTED_FAILURE);
    if (status) snprintf(run->fatal, sizeof run->fatal, "a list of exceptions cannot be read");
    signal(SIGPIPE, SIG_IGN); /* a worker that has died is noticed by its status */
    cmd_catch_end();
    if (!status) status = o->jobs ? survey(&r) : run_here(&r);
    if (!status && o->jobs) run_all(&r);
    if (!status) leave_out_the_rest(&r);
    check_progress_end();
    if (!status && !run->count && o->filter) {
        snprintf(run->fatal, sizeof run->fatal, "no case matches the filter '%.200s'", o->filter);
        status = 1;
    }
    if (!status) forgive(run);
    if (!status && !o->filter && !o->demand_tier) warn_unused(&r.exceptions);
    check_exceptions_finish(&r.exceptions);
    return status;
}

void check_run_finish(check_run *run)
{
    for (uint32_t i = 0; i < run->count; i++) {
        free(run->entries[i].name);
        cJSON_Delete(run->entries[i].result.data);
    }
    free(run->entries);
    cJSON_Delete(run->tables);
    cJSON_Delete(run->subject);
}

int check_is_bad(const check_run *run, const check_entry *e)
{
    const check_result *r = &e->result;
    int held = r->outcome == CHECK_PASSED;
    if (r->outcome == CHECK_SKIPPED) return 0;
    if (r->listed == CHECK_EXPECTED_FAILURE) return held;
    if (r->outcome == CHECK_ABSENT)
        return run->options->demand_tier && !(e->tags & (CHECK_TAG_OPTIONAL | CHECK_TAG_PARTLY));
    return !held;
}

int32_t check_verdict(const check_run *run)
{
    return run->fatal[0] || run->bad || run->unmet ? CMD_FAILED : CMD_OK;
}
