/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenon check`, the conformance suite: an ordinary client of the public headers. This header has what its
 * files share.
 *
 * A *source* adds cases to a list. A *mode* (check_test, check_gradient, ...) passes its sources to
 * check_execute, which runs the cases in processes of their own and stores the results in the run; a mode
 * may then make tables of them. report.c prints run and tables as text, JSON and HTML.
 *
 * The process that reports never loads the plugin: every worker loads it and builds the same list of cases
 * from the same sources, so a case is identified by its number. Sources must therefore add the same cases
 * each time they are called.
 */
#ifndef TENON_KIT_CHECK_H
#define TENON_KIT_CHECK_H

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>
#include <tenon/tenon.h>

/* ---- Options ------------------------------------------------------------------------------------------ */

typedef struct check_options {
    const char *plugin;            /* path of the library; NULL: the installed plugin of `device` */
    const char *device;            /* "acme:1"; NULL: the first of the plugin */
    const char *mode;              /* "test", "gradient", "speed", "coverage", "precision" */
    const char *op;                /* --op ns::name: a custom operator of the library, or NULL */
    const char *args;              /* --args: calls of that operator, JSON or a file of it, or NULL */
    const char *filter;            /* extended regular expression over names of cases, NULL: all */
    const char *golden;            /* folder of recorded calls (tenon golden), or NULL */
    const char *unsupported;       /* lists of exceptions, or NULL */
    const char *expected_failures; /* */
    const char *json;              /* reports to write, or NULL */
    const char *html;              /* */
    const char *against;           /* an earlier JSON report, or NULL */
    const char *trace;             /* calls to replay; NULL: the installed workload */
    double max_ulp;                /* demanded accuracy; 0: none */
    double max_bytes;              /* speed: the largest call that is measured */
    double max_seconds;            /* speed: for all samples together */
    uint64_t samples;              /* precision: inputs of each class; 0: 1000 */
    uint64_t seed;
    uint32_t max_tier; /* highest tier that runs */
    uint32_t jobs;     /* processes at once, 1 to 64; 0: in this process, for a debugger */
    uint32_t timeout;  /* seconds for one case */
    int demand_tier;   /* --tier was given: an absent kernel of these tiers fails */
    int isolate;       /* each case in a process of its own */
    int cpu_time;      /* speed: processor time of the process, the least of the samples */
    int full_size;     /* coverage: run only calls of the recorded sizes */
    int all;           /* text: print cases that passed, too */
    uint32_t partner; /* the process is started by a case, as the other one, with this socket; 0: it is not */
} check_options;

/* ---- The plugin under test, in a process that runs cases ----------------------------------------------- */

#define CHECK_LOG_BYTES 1600
#define CHECK_SEEN      48

/* An operator that was called on tensors of a dtype. */
typedef struct check_seen {
    uint32_t op;
    tn_dtype dtype;
} check_seen;

typedef struct check_target {
    const check_options *options;
    tn_context *ctx;
    tn_device device;      /* under test */
    tn_device other;       /* compared with: the CPU, or for the CPU plugin the reference device; 0: none */
    tn_device_facts facts; /* of `device` */
    uint32_t device_count; /* of its type */
    char type[48];         /* "acme" */
    char name[56];         /* "acme:0" */
    char other_name[56];   /* "cpu", or "" */
    char plugin[48], version[48], vendor[72], library[4096];
    char experimental[512];    /* interfaces, "tenon.x.a, tenon.x.b"; or "" */
    char error_line[256];      /* first error that the library logged while the case ran, or "" */
    char log[CHECK_LOG_BYTES]; /* lines logged while the case ran, as many as fit */
    FILE *log_stream; /* each log line is written here at once, after a '#': a crash keeps it; or NULL */
    uint32_t nested;  /* calls made inside operators while watched */
    uint32_t n_seen;  /* operators called while watched, with the dtype of the first tensor; each pair once */
    check_seen seen[CHECK_SEEN];
} check_target;

/* Loads the plugin and opens its device. NULL and a reason (`bytes` long) when that fails. */
check_target *check_target_open(const check_options *options, char *reason, size_t bytes);
void check_target_close(check_target *t);
/* 1 if the device's facts list `dtype`. */
int check_has_dtype(const check_target *t, tn_dtype dtype);
/* 1 if the device type has a kernel row of the operator that takes `dtype` (0: any dtype). */
int check_has_kernel(const check_target *t, uint32_t op, const char *device_type, tn_dtype dtype);

/* ---- Cases and results --------------------------------------------------------------------------------- */

/* ABSENT: the result was right, but the CPU computed it because the plugin has no kernel. */
enum { CHECK_PASSED, CHECK_FAILED, CHECK_ABSENT, CHECK_SKIPPED, CHECK_CRASHED, CHECK_OUTCOMES };
/* What computed the result. */
enum { CHECK_WAY_NONE, CHECK_WAY_NATIVE, CHECK_WAY_COMPOSITE, CHECK_WAY_CPU, CHECK_WAYS };
/* What the lists of exceptions say of a case. */
enum { CHECK_NOT_LISTED, CHECK_UNSUPPORTED, CHECK_EXPECTED_FAILURE };

typedef struct check_result {
    int32_t outcome;
    int32_t way;
    int32_t listed;
    int32_t ends;      /* the device is lost: the next case needs another process */
    int32_t left_out;  /* the run was ended before */
    double difference; /* largest among the elements that differ */
    double seconds;
    cJSON *data;               /* measurements of a mode, an object, or NULL; the run owns it */
    char reason[640];          /* unless it passed: what came, what was expected, which call */
    char excuse[160];          /* from the list, if listed */
    char log[CHECK_LOG_BYTES]; /* what the library and the plugin logged during the case, a line each */
} check_result;

#define CHECK_TAG_OPTIONAL         1u /* an absent kernel does not fail: it would only be faster */
#define CHECK_TAG_NONDETERMINISTIC 2u
#define CHECK_TAG_DATA_DEPENDENT   4u
#define CHECK_TAG_RANDOM           8u
#define CHECK_TAG_GRADIENT         16u
#define CHECK_TAG_ALONE            32u /* always runs in a process of its own */
/* Set by the runner: absent here, but the kernel exists for other operators or dtypes. */
#define CHECK_TAG_PARTLY 64u

typedef struct check_case check_case;
typedef void (*check_fn)(check_target *t, const check_case *c, check_result *out);
struct check_case {
    const char *name; /* "1/pointwise/aten::add.Tensor/float32/transposed"; the tier comes first */
    uint32_t tier;
    uint32_t tags;    /* CHECK_TAG_... */
    check_fn run;     /* called with `out` set to passed; changes it otherwise */
    const void *data; /* private to the case; lives as long as the list */
    int64_t number;   /* for cases that need only a number */
};

typedef struct check_list check_list;
typedef void (*check_source)(check_target *t, check_list *list);
/* Adds a case with that name unless the filter or --tier excludes it. */
void check_add(check_list *list, const check_case *c, const char *name, ...)
    __attribute__((format(printf, 3, 4)));
/* Zeroed memory that lives as long as the list; exits when out of memory. */
void *check_memory(check_list *list, size_t bytes);
/* A formatted text that lives as long as the list. */
const char *check_text(check_list *list, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* These end a case that did not pass. Only the first such call has an effect. */
void check_fail(check_result *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_skip(check_result *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_absent(check_result *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An error with the vendor's own number and text, if it has them. */
void check_error_text(const tn_error *error, char *text, size_t bytes);
/* Appends a line to a log of CHECK_LOG_BYTES; what does not fit is left out. */
void check_log_line(char *log, const char *line);
/* Fails with the error of the scope (NULL: of the thread). */
void check_fail_with_error(check_result *out, const tn_scope *s, const char *what);
/* Fails unless `condition`; returns the condition. */
int check_that(check_result *out, int condition, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What the case is doing, "backward ran": the reason of a crash ends with the last such text. */
void check_doing(const check_target *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The seed of one case: from --seed and the name, so that neither order nor filter changes it. */
uint64_t check_seed(const check_target *t, const check_case *c);

/* ---- Ways ---------------------------------------------------------------------------------------------- */

/* Between begin and end the operators called on the device are watched. `end` returns the worst way that a
 * call took; w->fallbacks names the operators that ran on the CPU. */
typedef struct check_watch {
    uint64_t handle;
    char fallbacks[560];
    uint64_t bytes; /* copied by the fallbacks */
    uint64_t count;
} check_watch;
void check_watch_begin(check_target *t, check_watch *w);
int32_t check_watch_end(check_target *t, check_watch *w);

/* ---- Comparing ----------------------------------------------------------------------------------------- */

typedef struct check_tolerance {
    double rtol, atol;
    int signs; /* zeros must have the same sign */
} check_tolerance;
/* ATen's tolerances for a dtype; 0 for integers and bool. */
check_tolerance check_tolerance_of(tn_dtype dtype);
/* Compares dtype, shape and values of two tensors on any devices; NaN equals NaN. 1 if they agree;
 * otherwise the case fails with the first and the largest difference. */
int check_same(check_result *out, tn_scope *s, const char *what, tn_tensor *got, tn_tensor *want,
               check_tolerance tolerance);
/* All elements as float64 (pairs for complex) in memory of the scope, copied to the host; NULL on failure. */
double *check_doubles(tn_scope *s, const tn_tensor *t);

/* ---- Running ------------------------------------------------------------------------------------------- */

/* A case in the process that reports. */
typedef struct check_entry {
    char *name;
    uint32_t tier;
    uint32_t tags;
    check_result result;
} check_entry;

typedef struct check_run {
    const check_options *options;
    cJSON *subject; /* plugin, version, vendor, library, device, other, facts: as the report says them */
    check_entry *entries;
    uint32_t count;
    cJSON *tables; /* of check_table, in order */
    char fatal[512];
    char note[512]; /* what the tables of a mode mean for the outcome; the text report prints it below them */
    uint32_t bad;   /* cases that are not as expected */
    int32_t unmet;  /* a demand of the mode is not met (precision: --max-ulp) */
} check_run;

/* Runs the cases of the sources. 0; or 1 and run->fatal when the plugin cannot be used at all. */
int32_t check_execute(check_run *run, const check_source *sources, uint32_t count);
/* Frees what the run owns. */
void check_run_finish(check_run *run);
/* CMD_OK or CMD_FAILED, from the results, `fatal` and `unmet`. */
int32_t check_verdict(const check_run *run);
/* 1 if an entry is not as expected: failed, crashed, or passed although listed as an expected failure. */
int check_is_bad(const check_run *run, const check_entry *e);

/* Modes: each fills the run and returns check_verdict(run). */
int32_t check_test(check_run *run);
int32_t check_precision(check_run *run);
int32_t check_custom(check_run *run); /* --op, whatever the mode */

/* Adds a table to the report. `columns` ends with NULL; each row is an array of that many texts and
 * numbers. The run owns it. `key` names it in the JSON report. */
cJSON *check_table(check_run *run, const char *key, const char *title, const char *const *columns);
/* Appends a row, which the table then owns. */
void check_table_row(cJSON *table, cJSON *row);

/* ---- Reporting ----------------------------------------------------------------------------------------- */

/* Progress while cases run: a line that changes on a terminal, else a line on stderr now and then. */
void check_progress(const check_run *run, uint32_t done, const char *name);
void check_progress_end(void);
/* Text on stdout, JSON and HTML where the options ask. 1 if a file could not be written. */
int32_t check_report(const check_run *run);
cJSON *check_report_json(const check_run *run);
int32_t check_report_html(const check_run *run, const char *path);
/* A file with JSON; NULL if it cannot be read or is not JSON. */
cJSON *check_read_json(const char *path);
/* Names of outcomes and ways. */
const char *check_outcome_name(int32_t outcome);
const char *check_way_name(int32_t way);

#endif
