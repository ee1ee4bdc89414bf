/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenon golden DIR`: each file of cases runs in a process of its own, which writes a line for each case
 * into a pipe. A crash fails the case that runs; a new process continues behind it, and behind a case that has lost the device.
 * SIGTERM ends the run: what has run by then is reported.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../cmd.h"
#include "golden.h"
#include "run.h"

enum { FAILED = 1, UNREAD = 3, LOST = 4 }; /* statuses of the process of a file */

typedef struct operator_score {
    char name[96];
    uint32_t outcomes[GOLDEN_OUTCOMES];
    uint32_t fell_back; /* cases in which something ran on the CPU */
} operator_score;

/* An operator that ran on the CPU because the device has no kernel, in cases of whatever operators. */
typedef struct fallback_score {
    char name[96], reason[160];
    uint32_t cases;
    uint64_t calls;
    uint32_t last_file; /* the case that was counted last */
    int64_t last_case;
} fallback_score;

typedef struct dtype_score {
    char name[12];
    uint32_t passed, all;
} dtype_score;

typedef struct totals {
    operator_score *operators;
    uint32_t n_operators;
    fallback_score *fallbacks;
    uint32_t n_fallbacks, fell_back; /* cases */
    dtype_score dtypes[24];
    uint32_t n_dtypes, refusals, same_texts;
    cJSON *failures;
} totals;

typedef struct worker {
    pid_t pid;
    int fd;
    uint32_t file;
    int64_t running; /* id of the case that runs, -1: none */
    int fell_back;   /* the case that runs */
    char op[96], dtype[12];
    char buffer[4096];
    size_t used;
} worker;

typedef struct job {
    const golden_options *options;
    char **files;
    uint32_t n_files, next;
    totals totals;
    uint32_t cases;
    uint32_t unread; /* files that could not be run */
    uint32_t ended;  /* files that did not run to their end, as the run was ended */
    FILE *json;      /* opened before the cases run */
} job;

/* ---- one file, in the child ---- */

typedef struct watcher {
    tn_context *ctx;
    FILE *out;
} watcher;

/* Writes a line for each operator that ran on the CPU between the two calls. */
static void watch(void *user, int on)
{
    const watcher *w = user;
    if (on) {
        tn_inspect_fallback_reset(w->ctx);
        return;
    }
    for (uint32_t i = 0, n = tn_inspect_fallback_count(w->ctx); i < n; i++) {
        tn_fallback_info f = {.size = sizeof f};
        if (!tn_inspect_fallback(w->ctx, i, &f))
            fprintf(w->out, "F\t%llu\t%s\t%s\n", (unsigned long long)f.count, f.name, f.reason);
    }
}

static void run_line(const golden_file *file, const cJSON *line, FILE *out)
{
    golden_result r;
    const cJSON *id = cJSON_GetObjectItem(line, "id"), *op = cJSON_GetObjectItem(line, "op"),
                *dtype = cJSON_GetObjectItem(line, "dtype");
    fprintf(out, "B\t%d\t%s\t%s\n", (int)(golden_integer(id) & INT32_MAX), op->valuestring,
            cJSON_IsString(dtype) ? dtype->valuestring : "none");
    fflush(out);
    golden_case(file, line, &r);
    for (char *c = r.reason; *c; c++) {
        if (*c == '\n' || *c == '\t') *c = ' ';
    }
    fprintf(out, "E\t%d\t%d\t%d\t%.9g\t%.9g\t%s\n", r.outcome, cJSON_GetObjectItem(line, "raises") != NULL,
            r.same_text, r.difference, r.tolerances, r.reason);
    fflush(out);
}

static int run_lines(const golden_options *o, const golden_file *file, const char *path, int64_t first,
                     FILE *out)
{
    FILE *in = fopen(path, "r");
    char *text = NULL;
    size_t room = 0;
    regex_t filter;
    int status = 0;
    if (!in) return FAILED;
    if (o->filter && regcomp(&filter, o->filter, REG_EXTENDED | REG_NOSUB)) return FAILED;
    while (!status && getline(&text, &room, in) > 0) {
        cJSON *line = cJSON_Parse(text);
        const cJSON *id = cJSON_GetObjectItem(line, "id"), *op = cJSON_GetObjectItem(line, "op");
        if (cJSON_IsNumber(id) && cJSON_IsString(op) && golden_integer(id) >= first &&
            (!o->filter || !regexec(&filter, op->valuestring, 0, NULL, 0))) {
            run_line(file, line, out);
            if (tn_device_status(file->ctx, file->device) == TN_E_DEVICE_LOST) status = LOST;
        }
        cJSON_Delete(line);
    }
    free(text);
    fclose(in);
    return status;
}

static tn_device device_of(tn_context *ctx, const golden_options *o)
{
    tn_device device = o->device ? tn_device_parse(ctx, o->device) : TN_CPU;
    return TN_DEVICE_INDEX(device) < 0 ? TN_DEVICE(TN_DEVICE_TYPE(device), 0) : device;
}

static void log_line(void *user, int32_t level, const char *text)
{
    if (level == TN_LOG_ERROR) fprintf(user, "%s\n", text);
}

static int run_file(const golden_options *o, const char *name, int64_t first, int fd)
{
    char path[4096];
    tn_context_options options = {.size = sizeof options, .log = log_line, .log_user = stderr};
    golden_file file = {.device = TN_CPU};
    FILE *out = fdopen(fd, "w");
    int status;
    if (!out || tn_context_create(&options, &file.ctx)) return UNREAD;
    file.watch = watch;
    file.user = &(watcher){file.ctx, out};
    file.device = device_of(file.ctx, o);
    snprintf(path, sizeof path, "%s/cases/%s.safetensors", o->folder, name);
    if (!file.device || tn_safetensors_open(file.ctx, path, &file.tensors)) {
        fprintf(stderr, "tenon golden: %s: %s\n", path,
                tn_last_error() ? tn_last_error()->message : "cannot open");
        return UNREAD;
    }
    snprintf(path, sizeof path, "%s/cases/%s.jsonl", o->folder, name);
    status = run_lines(o, &file, path, first, out);
    if (status == LOST) return status; /* what is left of the context may wait for the device */
    tn_safetensors_close(file.tensors);
    tn_context_destroy(file.ctx);
    fclose(out);
    return status;
}

/* ---- scores, in the parent ---- */

/* Makes room for one more item of a list whose room is the next power of two. */
static void *grown(void *list, uint32_t count, size_t bytes)
{
    if ((count & (count - 1)) == 0) list = realloc(list, (count ? count * 2 : 1) * bytes);
    if (!list) exit(2);
    memset((char *)list + count * bytes, 0, bytes);
    return list;
}

static operator_score *score_of(totals *t, const char *name)
{
    operator_score *s;
    for (uint32_t i = t->n_operators; i-- > 0;) {
        if (strcmp(t->operators[i].name, name) == 0) return &t->operators[i];
    }
    t->operators = grown(t->operators, t->n_operators, sizeof *s);
    s = &t->operators[t->n_operators++];
    snprintf(s->name, sizeof s->name, "%s", name);
    return s;
}

/* A line of `watch`. Forward and backward of a case are one case. */
static void count_fallback(totals *t, worker *w, uint64_t calls, const char *name, const char *reason)
{
    fallback_score *f = t->fallbacks, *end = f + t->n_fallbacks;
    w->fell_back = 1;
    while (f < end && (strcmp(f->name, name) || strncmp(f->reason, reason, sizeof f->reason - 1))) f++;
    if (f == end) {
        t->fallbacks = grown(t->fallbacks, t->n_fallbacks, sizeof *f);
        f = &t->fallbacks[t->n_fallbacks++];
        snprintf(f->name, sizeof f->name, "%s", name);
        snprintf(f->reason, sizeof f->reason, "%s", reason);
    }
    if (!f->cases || f->last_file != w->file || f->last_case != w->running) f->cases++;
    f->calls += calls;
    f->last_file = w->file;
    f->last_case = w->running;
}

static void count_dtype(totals *t, const char *name, int32_t outcome)
{
    uint32_t i = 0;
    while (i < t->n_dtypes && strcmp(t->dtypes[i].name, name)) i++;
    if (i == 24) return;
    if (i == t->n_dtypes) snprintf(t->dtypes[t->n_dtypes++].name, sizeof t->dtypes[0].name, "%s", name);
    if (outcome == GOLDEN_ABSENT) return;
    t->dtypes[i].all++;
    t->dtypes[i].passed += outcome == GOLDEN_PASSED;
}

static void count(job *j, const worker *w, const golden_result *r, int32_t refusal)
{
    totals *t = &j->totals;
    operator_score *score = score_of(t, w->op);
    score->outcomes[r->outcome]++;
    score->fell_back += w->fell_back ? 1 : 0;
    t->fell_back += w->fell_back ? 1 : 0;
    count_dtype(t, w->dtype, r->outcome);
    j->cases++;
    t->refusals += (uint32_t)refusal;
    t->same_texts += (uint32_t)r->same_text;
    if (r->outcome == GOLDEN_FAILED || r->outcome == GOLDEN_ACCEPTED) {
        cJSON *f = cJSON_CreateObject();
        char where[160];
        snprintf(where, sizeof where, "%s:%lld", j->files[w->file], (long long)w->running);
        cJSON_AddStringToObject(f, "case", where);
        cJSON_AddStringToObject(f, "operator", w->op);
        cJSON_AddStringToObject(f, "dtype", w->dtype);
        cJSON_AddStringToObject(f, "outcome", r->outcome == GOLDEN_FAILED ? "failed" : "accepted");
        cJSON_AddNumberToObject(f, "difference", r->difference);
        cJSON_AddNumberToObject(f, "tolerances", r->tolerances);
        cJSON_AddStringToObject(f, "reason", r->reason);
        cJSON_AddItemToArray(t->failures, f);
    }
}

static void take_line(job *j, worker *w, char *line)
{
    golden_result r = {0};
    int refusal, at = 0;
    if (line[0] == 'B') {
        char *op = strchr(line + 2, '\t'), *dtype = op ? strchr(op + 1, '\t') : NULL;
        if (!dtype) return;
        *dtype = 0;
        w->running = strtoll(line + 2, NULL, 10);
        snprintf(w->op, sizeof w->op, "%s", op + 1);
        snprintf(w->dtype, sizeof w->dtype, "%s", dtype + 1);
        w->fell_back = 0;
    } else if (line[0] == 'F') {
        char *op = strchr(line + 2, '\t'), *reason = op ? strchr(op + 1, '\t') : NULL;
        if (!reason) return;
        *reason = 0;
        count_fallback(&j->totals, w, strtoull(line + 2, NULL, 10), op + 1, reason + 1);
    } else if (sscanf(line, "E\t%d\t%d\t%d\t%lg\t%lg\t%n", &r.outcome, &refusal, &r.same_text, &r.difference,
                      &r.tolerances, &at) >= 5 &&
               r.outcome >= 0 && r.outcome < GOLDEN_OUTCOMES) {
        snprintf(r.reason, sizeof r.reason, "%s", at ? line + at : "");
        count(j, w, &r, refusal);
        w->running = -1 - w->running; /* finished; the next process starts after it */
    }
}

static int start(job *j, worker *w, uint32_t file, int64_t first)
{
    int fds[2];
    if (pipe(fds)) return 0;
    fflush(NULL);
    w->pid = fork();
    if (w->pid < 0) return 0;
    if (w->pid == 0) {
        close(fds[0]);
        cmd_pass_over_end();
        alarm(j->options->timeout);
        _exit(run_file(j->options, j->files[file], first, fds[1]));
    }
    close(fds[1]);
    w->fd = fds[0];
    w->file = file;
    w->running = -1 - first;
    w->used = 0;
    return 1;
}

/* The child has ended: if a case was running it crashed, and the rest of the file still has to run; also if the last case has lost
 * the device. */
static void finish(job *j, worker *w)
{
    int status = 0;
    close(w->fd);
    waitpid(w->pid, &status, 0);
    w->pid = 0;
    if (w->running >= 0) {
        golden_result r = {.outcome = GOLDEN_FAILED};
        int64_t next = w->running + 1;
        snprintf(r.reason, sizeof r.reason, "crash: %s",
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit in the middle");
        count(j, w, &r, 0);
        start(j, w, w->file, next);
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == LOST) {
        start(j, w, w->file, -w->running);
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == UNREAD) {
        fprintf(stderr, "tenon golden: %s could not be run\n", j->files[w->file]);
        j->unread++;
    }
}

static void read_some(job *j, worker *w)
{
    ssize_t n = read(w->fd, w->buffer + w->used, sizeof w->buffer - 1 - w->used);
    char *line = w->buffer, *end;
    if (n <= 0) {
        finish(j, w);
        return;
    }
    w->used += (size_t)n;
    w->buffer[w->used] = 0;
    while ((end = strchr(line, '\n'))) {
        *end = 0;
        take_line(j, w, line);
        line = end + 1;
    }
    w->used = strlen(line);
    memmove(w->buffer, line, w->used);
    if (w->used == sizeof w->buffer - 1) w->used = 0;
}

/* Of a run that was ended. */
static void abandon(job *j, worker *w)
{
    if (!w->pid) return;
    kill(w->pid, SIGKILL);
    waitpid(w->pid, NULL, 0);
    close(w->fd);
    j->ended++;
}

static void run_all(job *j)
{
    worker *workers = calloc(j->options->jobs, sizeof *workers);
    for (uint32_t busy = 1; workers && busy && !cmd_has_ended();) {
        struct pollfd fds[64];
        busy = 0;
        for (uint32_t i = 0; i < j->options->jobs; i++) {
            if (!workers[i].pid && j->next < j->n_files) start(j, &workers[i], j->next++, 0);
            if (!workers[i].pid) continue;
            fds[busy].fd = workers[i].fd;
            fds[busy++].events = POLLIN;
        }
        if (!busy || poll(fds, busy, -1) < 0) continue;
        for (uint32_t i = 0; i < j->options->jobs; i++) {
            for (uint32_t k = 0; k < busy && workers[i].pid; k++) {
                if (fds[k].fd == workers[i].fd && fds[k].revents) {
                    read_some(j, &workers[i]);
                    break;
                }
            }
        }
    }
    for (uint32_t i = 0; workers && i < j->options->jobs; i++) abandon(j, &workers[i]);
    j->ended += j->n_files - j->next;
    free(workers);
}

/* ---- reports ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}
static int by_operator(const void *a, const void *b)
{
    return strcmp(((const operator_score *)a)->name, ((const operator_score *)b)->name);
}

static int by_cases(const void *a, const void *b)
{
    const fallback_score *x = a, *y = b;
    if (x->cases != y->cases) return x->cases < y->cases ? 1 : -1;
    return strcmp(x->name, y->name);
}

static int list_files(job *j)
{
    char path[4096];
    struct dirent *entry;
    DIR *folder;
    snprintf(path, sizeof path, "%s/cases", j->options->folder);
    folder = opendir(path);
    if (!folder) return 0;
    while ((entry = readdir(folder))) {
        size_t n = strlen(entry->d_name);
        if (n < 7 || strcmp(entry->d_name + n - 6, ".jsonl")) continue;
        j->files = realloc(j->files, (j->n_files + 1) * sizeof *j->files);
        if (!j->files) exit(2);
        j->files[j->n_files++] = strndup(entry->d_name, n - 6);
    }
    closedir(folder);
    if (j->n_files) qsort(j->files, j->n_files, sizeof *j->files, by_name);
    return 1;
}

static void print_report(const job *j, uint32_t *sum)
{
    const totals *t = &j->totals;
    const cJSON *f;
    for (uint32_t i = 0; i < t->n_operators; i++) {
        const uint32_t *o = t->operators[i].outcomes;
        for (int k = 0; k < GOLDEN_OUTCOMES; k++) sum[k] += o[k];
        if (o[GOLDEN_FAILED] + o[GOLDEN_ACCEPTED] || (j->options->all && !o[GOLDEN_ABSENT])) {
            printf("%-60s passed %5u  failed %5u  wrongly accepted %3u  fell back %5u\n",
                   t->operators[i].name, o[GOLDEN_PASSED], o[GOLDEN_FAILED], o[GOLDEN_ACCEPTED],
                   t->operators[i].fell_back);
        }
    }
    cJSON_ArrayForEach(f, t->failures)
    {
        if (!j->options->verbose) break;
        printf("%-32s %-40s %-5s %s\n", cJSON_GetObjectItem(f, "case")->valuestring,
               cJSON_GetObjectItem(f, "operator")->valuestring, cJSON_GetObjectItem(f, "dtype")->valuestring,
               cJSON_GetObjectItem(f, "reason")->valuestring);
    }
    for (uint32_t i = 0; i < t->n_dtypes; i++) {
        printf("%-6s %6u of %6u\n", t->dtypes[i].name, t->dtypes[i].passed, t->dtypes[i].all);
    }
    if (t->n_fallbacks)
        printf("%u cases ran on the CPU in part or wholly; by operator: cases, calls, why\n", t->fell_back);
    for (uint32_t i = 0; i < t->n_fallbacks; i++) {
        const fallback_score *b = &t->fallbacks[i];
        printf("%-60s %5u %7llu  %s\n", b->name, b->cases, (unsigned long long)b->calls, b->reason);
    }
    if (j->ended) printf("ended: %u of %u files of cases did not run to their end\n", j->ended, j->n_files);
    printf("refusals with the same text: %u of %u\n", t->same_texts, t->refusals);
    printf("golden: %u cases: %u passed, %u failed, %u wrongly accepted, %u not there yet\n", j->cases,
           sum[GOLDEN_PASSED], sum[GOLDEN_FAILED], sum[GOLDEN_ACCEPTED], sum[GOLDEN_ABSENT]);
}

static int write_json(const job *j)
{
    static const char *const names[] = {"passed", "failed", "accepted", "absent"};
    cJSON *root = cJSON_CreateObject(), *operators = cJSON_AddObjectToObject(root, "operators");
    char *text;
    int bad;
    for (uint32_t i = 0; i < j->totals.n_operators; i++) {
        cJSON *o = cJSON_AddObjectToObject(operators, j->totals.operators[i].name);
        for (int k = 0; k < GOLDEN_OUTCOMES; k++)
            cJSON_AddNumberToObject(o, names[k], j->totals.operators[i].outcomes[k]);
        cJSON_AddNumberToObject(o, "fell_back", j->totals.operators[i].fell_back);
    }
    cJSON *fallbacks = cJSON_AddArrayToObject(root, "fallbacks");
    cJSON_AddNumberToObject(root, "files", j->n_files);
    cJSON_AddNumberToObject(root, "ended_files", j->ended);
    cJSON_AddNumberToObject(root, "fell_back", j->totals.fell_back);
    for (uint32_t i = 0; i < j->totals.n_fallbacks; i++) {
        const fallback_score *b = &j->totals.fallbacks[i];
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "operator", b->name);
        cJSON_AddStringToObject(o, "reason", b->reason);
        cJSON_AddNumberToObject(o, "cases", b->cases);
        cJSON_AddNumberToObject(o, "calls", (double)b->calls);
        cJSON_AddItemToArray(fallbacks, o);
    }
    cJSON_AddItemReferenceToObject(root, "failures", j->totals.failures);
    text = cJSON_Print(root);
    bad = !text || fputs(text, j->json) < 0;
    free(text);
    cJSON_Delete(root);
    return fclose(j->json) == 0 && !bad;
}

/* ---- what can be known to be wrong before the first case ---- */

/* In a process of its own: this one has no context when those of the files begin. */
static int device_is_there(const golden_options *o)
{
    int how_it_ended = 0;
    pid_t child;
    fflush(NULL);
    child = fork();
    if (child == 0) {
        tn_context *ctx = NULL;
        tn_device_facts facts = {.size = sizeof facts};
        int32_t status = tn_context_create(NULL, &ctx);
        tn_device device = status ? 0 : device_of(ctx, o);
        if (!status && device && !tn_device_get_facts(ctx, device, &facts)) _exit(0);
        fprintf(stderr, "tenon golden: %s\n", tn_last_error() ? tn_last_error()->message : "no device");
        _exit(1);
    }
    return child > 0 && waitpid(child, &how_it_ended, 0) == child && WIFEXITED(how_it_ended) &&
           WEXITSTATUS(how_it_ended) == 0;
}

static int filter_is_good(const golden_options *o)
{
    regex_t filter;
    char text[128];
    int code = o->filter ? regcomp(&filter, o->filter, REG_EXTENDED | REG_NOSUB) : 0;
    if (code) {
        regerror(code, &filter, text, sizeof text);
        fprintf(stderr, "tenon golden: --filter '%s': %s\n", o->filter, text);
        return 0;
    }
    if (o->filter) regfree(&filter);
    return 1;
}

static int prepare(job *j)
{
    const golden_options *o = j->options;
    if (!list_files(j)) {
        fprintf(stderr, "tenon golden: no folder %s/cases: %s\n", o->folder, strerror(errno));
        return 0;
    }
    if (!filter_is_good(o) || !device_is_there(o)) return 0;
    if (o->json && !(j->json = fopen(o->json, "w"))) {
        fprintf(stderr, "tenon golden: cannot write %s: %s\n", o->json, strerror(errno));
        return 0;
    }
    return 1;
}

static void finish_job(job *j)
{
    cJSON_Delete(j->totals.failures);
    for (uint32_t i = 0; i < j->n_files; i++) free(j->files[i]);
    free(j->files);
    free(j->totals.operators);
    free(j->totals.fallbacks);
}

int golden_run(const golden_options *options)
{
    job j = {.options = options};
    uint32_t sum[GOLDEN_OUTCOMES] = {0};
    int status = 2;
    if (prepare(&j)) {
        j.totals.failures = cJSON_CreateArray();
        cmd_catch_end();
        run_all(&j);
        if (j.totals.n_operators)
            qsort(j.totals.operators, j.totals.n_operators, sizeof *j.totals.operators, by_operator);
        if (j.totals.n_fallbacks)
            qsort(j.totals.fallbacks, j.totals.n_fallbacks, sizeof *j.totals.fallbacks, by_cases);
        print_report(&j, sum);
        status = sum[GOLDEN_FAILED] + sum[GOLDEN_ACCEPTED] || j.ended ? 1 : 0;
        if (j.unread) status = 2;
        if (!j.cases && !j.ended) {
            fprintf(stderr, "tenon golden: no case %s\n", options->filter ? "matches the filter" : "to run");
            status = 2;
        }
        if (j.json && !write_json(&j)) {
            fprintf(stderr, "tenon golden: cannot write %s: %s\n", options->json, strerror(errno));
            status = 2;
        }
    }
    finish_job(&j);
    return status;
}
