/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "bench.h"

/* Samples that share the time of one request; their median is the answer. */
#define SAMPLES 5
/* Below this a sample is repeated with more runs: the clock's own cost must not show. */
#define SHORTEST_SAMPLE 20e-6

int bench_threads(void)
{
    const char *text = getenv("TENON_BENCH_THREADS");
    int n = text ? atoi(text) : 0;
    return n > 0 ? n : 2;
}

/* Seconds of a clock that only goes forward. */
static double now(void)
{
    static clockid_t clock = CLOCK_MONOTONIC;
    struct timespec t;
    if (clock == CLOCK_MONOTONIC && getenv("TENON_BENCH_CPU_TIME")) clock = CLOCK_PROCESS_CPUTIME_ID;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int bench_absent(bench *b, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(b->reason, sizeof b->reason, format, list);
    va_end(list);
    return 1;
}

int bench_failed(bench *b, const tn_scope *s)
{
    const tn_error *e = s ? tn_scope_error(s) : tn_last_error();
    return bench_absent(b, "%s", e ? e->message : "unknown error");
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int finish(bench *b)
{
    if (b->device == TN_CPU || !tn_device_synchronize(b->ctx, b->device)) return 0;
    return bench_failed(b, NULL);
}

static int sample(bench *b, int64_t n, double *out_seconds)
{
    int host_only = b->runs_ahead && b->device != TN_CPU, status = 0;
    int64_t piece = host_only ? b->runs_ahead : n;
    *out_seconds = 0;
    for (; n > 0 && !status; n -= piece) {
        double from = now();
        status = b->current->run(b, n < piece ? n : piece);
        if (!status && !host_only) status = finish(b);
        *out_seconds += now() - from;
        if (!status && host_only) status = finish(b);
    }
    return status;
}

/* The median time of one run in nanoseconds; *n receives the runs of a sample. */
static int measure(bench *b, double seconds, double *out_ns, int64_t *out_n)
{
    double took, samples[SAMPLES];
    int64_t n = 1;
    int count = 0;
    double end = now() + seconds;
    if (sample(b, 1, &took)) return 1;
    while (took < SHORTEST_SAMPLE || took * SAMPLES < seconds / 4) {
        double want = seconds / SAMPLES / (took > 1e-9 ? took : 1e-9);
        n = want > 8 ? 8 * n : (int64_t)((double)n * (want > 2 ? want : 2));
        if (sample(b, n, &took)) return 1;
    }
    do {
        if (sample(b, n, &took)) return 1;
        samples[count++] = took * 1e9 / (double)n;
    } while (count < SAMPLES && now() < end);
    qsort(samples, (size_t)count, sizeof *samples, by_value);
    *out_ns = samples[count / 2];
    *out_n = n;
    return 0;
}

void *bench_state(bench *b, size_t bytes)
{
    b->state = calloc(1, bytes);
    if (!b->state) bench_absent(b, "no memory");
    return b->state;
}

static void close_case(bench *b)
{
    if (b->state && b->current->close) b->current->close(b);
    free(b->state);
    b->current = NULL;
    b->state = NULL;
    b->runs_ahead = 0;
}

/* The device that the request names. */
static int choose_device(bench *b)
{
    const cJSON *device = cJSON_GetObjectItem(b->request, "device");
    b->device = TN_CPU;
    if (!cJSON_IsString(device)) return 0;
    b->device = tn_device_choose(b->ctx, device->valuestring, NULL);
    return b->device & TN_DEVICE_MISSING ? bench_failed(b, NULL) : 0;
}

/* *out_seconds receives the time of the first run, which loads what opens at first need. */
static int open_case(bench *b, const bench_case *cases, uint32_t count, const char *name, double *out_seconds)
{
    close_case(b);
    if (choose_device(b)) return 1;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(cases[i].name, name) != 0) continue;
        b->current = &cases[i];
        if (!b->current->open(b) && !sample(b, 1, out_seconds)) return 0;
        close_case(b);
        return 1;
    }
    return bench_absent(b, "no case '%s'", name);
}

/* A line "VmHWM:   123 kB" of the process's status, in bytes. */
static double status_bytes(const char *key)
{
    char line[256];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) == 0) kib = strtod(line + strlen(key) + 1, NULL);
    }
    if (f) fclose(f);
    return kib * 1024;
}

static cJSON *absent_answer(const bench *b)
{
    cJSON *answer = cJSON_CreateObject();
    cJSON_AddStringToObject(answer, "absent", b->reason);
    return answer;
}

static cJSON *answer_time(bench *b, double seconds)
{
    cJSON *answer;
    double ns;
    int64_t n;
    if (!b->current) bench_absent(b, "no case is open");
    if (!b->current || measure(b, seconds, &ns, &n)) return absent_answer(b);
    answer = cJSON_CreateObject();
    cJSON_AddNumberToObject(answer, "ns", ns);
    cJSON_AddNumberToObject(answer, "n", (double)n);
    return answer;
}

static cJSON *answer_open(bench *b, const bench_case *cases, uint32_t count, const char *name)
{
    cJSON *answer;
    double seconds;
    if (open_case(b, cases, count, name, &seconds)) return absent_answer(b);
    answer = cJSON_CreateObject();
    cJSON_AddNumberToObject(answer, "first", seconds * 1e9);
    return answer;
}

static cJSON *answer_values(bench *b, int count)
{
    cJSON *answer = cJSON_CreateObject(), *values = cJSON_AddArrayToObject(answer, "values");
    if (!b->current) bench_absent(b, "no case is open");
    for (int i = 0; i < count; i++) {
        if (!b->current || b->current->run(b, 1)) {
            cJSON_Delete(answer);
            return absent_answer(b);
        }
        cJSON_AddItemToArray(values, cJSON_CreateNumber(b->value));
    }
    return answer;
}

static cJSON *answer_memory(const bench *b, double start)
{
    cJSON *answer = cJSON_CreateObject();
    tn_memory_stats stats = {.size = sizeof stats};
    int on_device = b->device && b->device != TN_CPU && !tn_memory_get_stats(b->ctx, b->device, &stats);
    cJSON_AddNumberToObject(answer, "peak", on_device ? (double)stats.allocated_peak : status_bytes("VmHWM"));
    cJSON_AddNumberToObject(answer, "start", on_device ? 0 : start);
    return answer;
}

static int serve(bench *b, const bench_case *cases, uint32_t count)
{
    double start = status_bytes("VmRSS");
    char *line = NULL, *text;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0) {
        cJSON *request = cJSON_Parse(line), *answer;
        const cJSON *open = cJSON_GetObjectItem(request, "open"),
                    *time = cJSON_GetObjectItem(request, "time"),
                    *values = cJSON_GetObjectItem(request, "values");
        b->request = request;
        if (cJSON_IsString(open))
            answer = answer_open(b, cases, count, open->valuestring);
        else if (cJSON_IsNumber(time))
            answer = answer_time(b, time->valuedouble);
        else if (cJSON_IsNumber(values))
            answer = answer_values(b, values->valueint);
        else
            answer = answer_memory(b, start);
        b->request = NULL;
        text = cJSON_PrintUnformatted(answer);
        puts(text);
        fflush(stdout);
        cJSON_free(text);
        cJSON_Delete(answer);
        cJSON_Delete(request);
    }
    free(line);
    return 0;
}

static int count_case(bench *b, const bench_case *cases, uint32_t count, const char *name, int64_t n)
{
    double first;
    if (!open_case(b, cases, count, name, &first) && !b->current->run(b, n)) return 0;
    fprintf(stderr, "%s: %s\n", name, b->reason);
    return 1;
}

int bench_main(int argc, char **argv, const bench_case *cases, uint32_t count)
{
    bench b = {0};
    int status;
    if (tn_context_create(NULL, &b.ctx)) {
        fprintf(stderr, "context: %s\n", tn_last_error()->message);
        return 1;
    }
    tn_set_num_threads(b.ctx, bench_threads());
    if (argc == 4 && strcmp(argv[1], "count") == 0)
        status = count_case(&b, cases, count, argv[2], strtoll(argv[3], NULL, 10));
    else
        status = serve(&b, cases, count);
    close_case(&b);
    tn_context_destroy(b.ctx);
    return status;
}
