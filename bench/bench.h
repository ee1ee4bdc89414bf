/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by all benchmark programs. A program is a table of cases; run.py starts it and asks for samples over
 * its standard streams, so that samples of Tenon and of its peer alternate in time. Each request and each
 * answer is one line of JSON.
 *
 * {"open": "add", "device": "cuda:0", ...}: prepares a case on a device, the CPU where none is named; the other
 * members are the case's own. The answer is {"first": ns}, the time of a first run, or {"absent": "why"}. A sample
 * ends when the device has done its work.
 *
 * {"time": 0.1}: runs the case for about that many seconds. The answer is {"ns": 41.2, "n": 250000}, the
 * median time of one run over several samples.
 *
 * {"values": 10}: runs the case so often. The answer is {"values": [...]}, what each run left in b->value.
 *
 * {"memory": true}: the answer is {"peak": bytes, "start": bytes}, the peak memory of the process and its
 * memory before the first case; on a device the peak of the tensors there, and 0.
 *
 * TENON_BENCH_THREADS is the number of threads (2). TENON_BENCH_CPU_TIME=1 measures the process's time
 * instead of wall time, for one thread on a busy machine. With arguments `count CASE N` a program prepares a
 * case, runs it N times and ends; instruction counts are differences of two such processes under callgrind.
 */
#ifndef TENON_BENCH_H
#define TENON_BENCH_H

#include <cjson/cJSON.h>
#include <tenon/tenon.h>

typedef struct bench bench;

/*
 * `open` asks for its state with bench_state, or reports with bench_absent why the case cannot run. `run` repeats the
 * case n times and returns nonzero on failure (after bench_absent). `close` finishes whatever `open` left in the state,
 * also after a failure; it is not called without a state.
 */
typedef struct bench_case {
    const char *name;
    int (*open)(bench *b);
    int (*run)(bench *b, int64_t n);
    void (*close)(bench *b);
    const void *data; /* the case's own */
} bench_case;

struct bench {
    tn_context *ctx;
    const bench_case *current; /* NULL: none is open */
    const cJSON *request;      /* while open runs; NULL in counting */
    tn_device device;          /* of the case */
    /* `open` may set it: on a device only the time counts in which the host makes its calls. After so many runs, whose
     * work every queue holds, it waits for the device. 0: all time counts. */
    int64_t runs_ahead;
    void *state;
    double value; /* of the last run: a loss, say */
    char reason[512];
};

/* Zeroed memory at b->state, which is freed behind `close`; or NULL, after bench_absent. */
void *bench_state(bench *b, size_t bytes);
/* Records why a case cannot run and returns 1. */
int bench_absent(bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The error of a scope (or of the thread, with NULL) as the reason; returns 1. */
int bench_failed(bench *b, const tn_scope *s);
/* Serves requests until its input ends. The exit code of the program. */
int bench_main(int argc, char **argv, const bench_case *cases, uint32_t count);
/* The number of threads of this run. */
int bench_threads(void);

#endif
