/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The classes, how one is measured, and the file that keeps the choices: a head that names the processor and the
 * libraries, then a digit for each class. The name has a hash of the head, so each set of libraries has a file of its
 * own. A file with another head is ignored and replaced.
 */
#include "gemm_choice.h"
#include "gemm_onednn.h"
#include "device/device.h"
#include "vendor/openblas.h"
#ifdef CPU_HAVE_ONEDNN
#include "vendor/onednn.h"
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Classes ----------------------------------------------------------------------------------------- */

enum { SIDES = 3, DEPTHS = 2, WAYS = 4, DTYPES = 2, CLASSES = DTYPES * WAYS * DEPTHS * SIDES * SIDES };

/* The largest size of a class but the last, and the size that stands for a class. */
static const int64_t side_limits[] = {32, 192}, side_sizes[] = {24, 128, 384};
static const int64_t depth_limits[] = {128}, depth_sizes[] = {64, 512};

/* Below these multiplications a call of oneDNN costs more than it saves. In float32 signals are blocked meanwhile, which
 * takes 0.4 microseconds. */
#define ONEDNN_WORK_FLOAT32  ((int64_t)1 << 20)
#define ONEDNN_WORK_BATCH    ((int64_t)1 << 18) /* of float32 */
#define ONEDNN_WORK_BFLOAT16 ((int64_t)1 << 15)

static int place(int64_t size, const int64_t *limits, int count)
{
    int i = 0;
    while (i < count && size > limits[i]) i++;
    return i;
}

static int class_of(tn_dtype dtype, const cpu_gemm *g)
{
    bool a_by_columns = g->a_col != 1 && g->k > 1, b_by_columns = g->b_col != 1 && g->n > 1;
    int way = 2 * a_by_columns + b_by_columns;
    int at = (dtype == TN_BFLOAT16) * WAYS + way;
    at = at * DEPTHS + place(g->k, depth_limits, DEPTHS - 1);
    at = at * SIDES + place(g->m, side_limits, SIDES - 1);
    return at * SIDES + place(g->n, side_limits, SIDES - 1);
}

/* The product that stands for a class, without its operands. */
static cpu_gemm product_of_class(int at, tn_dtype *out_dtype)
{
    cpu_gemm g = {.n = side_sizes[at % SIDES],
                  .m = side_sizes[at / SIDES % SIDES],
                  .k = depth_sizes[at / (SIDES * SIDES) % DEPTHS],
                  .alpha = {1, 0}};
    int way = at / (SIDES * SIDES * DEPTHS) % WAYS;
    *out_dtype = at / (CLASSES / DTYPES) ? TN_BFLOAT16 : TN_FLOAT32;
    g.a_row = way & 2 ? 1 : g.k;
    g.a_col = way & 2 ? g.m : 1;
    g.b_row = way & 1 ? 1 : g.n;
    g.b_col = way & 1 ? g.k : 1;
    g.c_row = g.n;
    return g;
}

/* ---- Measuring --------------------------------------------------------------------------------------- */

enum { ROUNDS = 8 };

/* Of this thread, so that other work of the machine does not count. */
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#ifdef CPU_HAVE_ONEDNN
static bool has_onednn(void)
{
    return cpu_onednn_get() != NULL;
}
static bool onednn_has_failed(void)
{
    return cpu_onednn_was_given_up();
}
#else
static bool has_onednn(void)
{
    return false;
}
static bool onednn_has_failed(void)
{
    return false;
}
#endif

/* The libraries take turns, and the fastest run of each counts; the first run only warms up. */
static int32_t measure(const tn_call *call, int at)
{
    tn_dtype dtype;
    cpu_gemm g = product_of_class(at, &dtype);
    double best[] = {1e9, 1e9, 1e9, 1e9};
    int32_t choice = CPU_GEMM_OPENBLAS;
    int64_t a = g.m * g.k, b = g.k * g.n, c = g.m * g.n, bytes = (a + b + c) * (int64_t)sizeof(float);
    float *memory = call->host->alloc(call->host->context, (uint64_t)bytes);
    if (!memory) return CPU_GEMM_OPENBLAS;
    for (int64_t i = 0; i < a + b; i++) memory[i] = 1; /* as bfloat16 0 and 1 */
    g.a = memory;
    g.b = memory + a;
    g.c = memory + a + b;
    for (int i = 0; i <= ROUNDS; i++) {
        for (int32_t library = CPU_GEMM_OPENBLAS; library <= CPU_GEMM_ONEDNN_SGEMM; library++) {
            double start = seconds(), passed;
            if (library == CPU_GEMM_ONEDNN_SGEMM && dtype != TN_FLOAT32) continue;
            if (library != CPU_GEMM_OPENBLAS && !has_onednn()) continue;
            if (cpu_gemm_with(call, dtype, library, &g) != TN_OK) continue;
            passed = seconds() - start;
            if (i > 0 && passed < best[library]) best[library] = passed;
        }
    }
    call->host->free(call->host->context, memory, (uint64_t)bytes);
    if (!has_onednn()) return CPU_GEMM_OPENBLAS;
    for (int32_t library = CPU_GEMM_ONEDNN; library <= CPU_GEMM_ONEDNN_SGEMM; library++)
        if (best[library] < best[choice]) choice = library;
    return choice;
}

/* ---- The file ---------------------------------------------------------------------------------------- */

static void write_head(char *out, size_t bytes)
{
    char name[128];
    cpu_device_name(name, sizeof name);
#ifdef CPU_HAVE_ONEDNN
    const char *onednn = cpu_onednn_describe();
#else
    const char *onednn = "without oneDNN";
#endif
    snprintf(out, bytes, "%s\n%s\n%s\nlevel %u\n", name, cpu_openblas_describe(), onednn, cpu_level());
}

static atomic_uchar choices[CLASSES];                    /* 0: not yet measured */
static char cache_folder[3800];                          /* "": none is known */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* one thread measures at a time */

/* The folder is known before the first kernel runs. */
static bool file_name(const char *head, char *out, size_t bytes)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *c = head; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return cache_folder[0] &&
           snprintf(out, bytes, "%s/products-3-%016llx", cache_folder, (unsigned long long)hash) < (int)bytes;
}

static void read_choices(void)
{
    char path[4096], head[1400], found[1400 + CLASSES + 1] = {0};
    size_t length;
    FILE *file;
    write_head(head, sizeof head);
    file = file_name(head, path, sizeof path) ? fopen(path, "rbe") : NULL;
    if (!file) return;
    length = strlen(head);
    if (fread(found, 1, sizeof found, file) == length + CLASSES && memcmp(found, head, length) == 0)
        for (int i = 0; i < CLASSES; i++) {
            char digit = found[length + (size_t)i];
            if (digit >= '0' + CPU_GEMM_OPENBLAS && digit <= '0' + CPU_GEMM_ONEDNN_SGEMM)
                atomic_store(&choices[i], (unsigned char)(digit - '0'));
        }
    fclose(file);
}

static void write_choices(void)
{
    char path[4096], made[4200], head[1400];
    FILE *file = NULL;
    int fd;
    if (onednn_has_failed()) return; /* other processes may use it */
    write_head(head, sizeof head);
    if (!file_name(head, path, sizeof path)) return;
    snprintf(made, sizeof made, "%s.XXXXXX", path);
    fd = mkstemp(made);
    if (fd < 0) return;
    file = fdopen(fd, "wb");
    if (!file) close(fd);
    bool written = file != NULL;
    if (file) {
        written = fputs(head, file) >= 0;
        for (int i = 0; i < CLASSES; i++)
            written = fputc('0' + atomic_load(&choices[i]), file) != EOF && written;
        written = fclose(file) == 0 && written;
    }
    if (!written || rename(made, path) != 0) unlink(made);
}

/* ---- Choosing ---------------------------------------------------------------------------------------- */

bool cpu_gemm_tune_is_known(const char *text)
{
    return !text || !*text || strcmp(text, "0") == 0 || strcmp(text, "1") == 0 || strcmp(text, "all") == 0;
}

static bool has_read;
/* Products of float32 that a measured product of bfloat16 consists of are not measured themselves. */
static _Thread_local bool measuring;

/* Read once, because getenv walks the whole environment. */
static bool may_measure(void)
{
    static atomic_int answer; /* 0: not yet read; 1: no; 2: yes */
    if (!atomic_load_explicit(&answer, memory_order_relaxed)) {
        const char *text = getenv("TENON_CPU_TUNE");
        atomic_store(&answer, text && strcmp(text, "0") == 0 ? 1 : 2);
    }
    return atomic_load_explicit(&answer, memory_order_relaxed) == 2;
}

void cpu_gemm_find_cache(const tn_host *host)
{
    static bool has_looked; /* then the folder stays as it is, so that kernels read it without the lock */
    size_t end = offsetof(tn_host, cache_folder) + sizeof host->cache_folder;
    if (!may_measure() || host->size < end || !host->cache_folder) return;
    pthread_mutex_lock(&lock);
    if (!has_looked && host->cache_folder(host->context, "cpu", cache_folder, sizeof cache_folder) != TN_OK)
        cache_folder[0] = 0;
    has_looked = true;
    pthread_mutex_unlock(&lock);
}

static int32_t fixed_choice(tn_dtype dtype)
{
    if (dtype == TN_BFLOAT16) return cpu_gemm_onednn_has_bfloat16() ? CPU_GEMM_ONEDNN : CPU_GEMM_OPENBLAS;
    return cpu_openblas_get() ? CPU_GEMM_OPENBLAS : CPU_GEMM_ONEDNN;
}

static int32_t measured_choice(const tn_call *call, int at, bool *out_new)
{
    int32_t choice;
    *out_new = false;
    pthread_mutex_lock(&lock);
    if (!has_read) read_choices();
    has_read = true;
    choice = atomic_load(&choices[at]);
    if (!choice) {
        measuring = true;
        choice = measure(call, at);
        measuring = false;
        atomic_store(&choices[at], (unsigned char)choice);
        *out_new = true;
    }
    pthread_mutex_unlock(&lock);
    return choice;
}

int32_t cpu_gemm_choose(const tn_call *call, tn_dtype dtype, const cpu_gemm *g)
{
    int64_t work = g->m * g->n * g->k * max_i64(1, g->count);
    int64_t least = dtype == TN_BFLOAT16 ? ONEDNN_WORK_BFLOAT16
                    : g->count > 1       ? ONEDNN_WORK_BATCH
                                         : ONEDNN_WORK_FLOAT32;
    int32_t choice;
    bool is_new;
    int at;
    if (dtype != TN_FLOAT32 && dtype != TN_BFLOAT16) return CPU_GEMM_OPENBLAS;
    if (work < least) return CPU_GEMM_OPENBLAS;
    at = class_of(dtype, g);
    choice = atomic_load_explicit(&choices[at], memory_order_relaxed);
    if (call->flags & TN_CALL_DETERMINISTIC || !may_measure()) return fixed_choice(dtype);
    if (choice) return choice;
    if (measuring) return CPU_GEMM_OPENBLAS;
    choice = measured_choice(call, at, &is_new);
    if (is_new) write_choices();
    return choice;
}

static void log_choice(const tn_host *host, int at, int32_t choice)
{
    static const char *const ways[] = {"A B", "A B^T", "A^T B", "A^T B^T"};
    tn_dtype dtype;
    cpu_gemm g = product_of_class(at, &dtype);
    bool half = dtype == TN_BFLOAT16;
    char line[160];
    snprintf(line, sizeof line, "%s %s, about %lld x %lld x %lld: %s", half ? "bfloat16" : "float32",
             ways[at / (SIDES * SIDES * DEPTHS) % WAYS], (long long)g.m, (long long)g.k, (long long)g.n,
             choice == CPU_GEMM_ONEDNN         ? "oneDNN"
             : choice == CPU_GEMM_ONEDNN_SGEMM ? "sgemm of oneDNN"
             : half                            ? "OpenBLAS in float32"
                                               : "OpenBLAS");
    host->log(host->context, TN_LOG_INFO, line);
}

void cpu_gemm_log_choices(const tn_host *host)
{
    const tn_call call = {.size = sizeof call, .host = host, .threads = 1};
    const char *text = getenv("TENON_CPU_TUNE");
    bool all = text && strcmp(text, "all") == 0, is_new, any = false;
    int measured = 0;
    char line[96];
    pthread_mutex_lock(&lock);
    if (!has_read) read_choices();
    has_read = true;
    pthread_mutex_unlock(&lock);
    for (int at = 0; at < CLASSES; at++) {
        if (all) {
            log_choice(host, at, measured_choice(&call, at, &is_new));
            any = any || is_new;
        }
        measured += atomic_load(&choices[at]) != 0;
    }
    if (any) write_choices();
    snprintf(line, sizeof line,
             may_measure() ? "products: %d of %d classes measured" : "products: fixed choices", measured,
             CLASSES);
    host->log(host->context, TN_LOG_INFO, line);
}
