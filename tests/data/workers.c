/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker processes: the batches of a loader without them, errors and deaths of workers, and a start that comes too late. A
 * program of its own, because workers are made in a process with one thread: each test runs in a child.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/data.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends the test, and says what the last error was. */
#define CHECK(condition) \
    if (!(condition)) fail(__LINE__, #condition)

static void fail(int line, const char *condition)
{
    fprintf(stderr, "workers.c:%d: not true: %s (last error: %s)\n", line, condition,
            tn_last_error() ? tn_last_error()->message : "none");
    _exit(1);
}

enum { COUNT = 23, BATCH = 4 };

static tn_context *ctx;
static tn_workers *w;
static tn_dataset *set;

/* What a sample is: its index with the low bits of its seed, and the process that read it. Samples in `bad` fail, those in
 * `deadly` kill their process. */
typedef struct reader {
    int64_t bad, deadly;
    int32_t is_refused;
} reader;

static reader how = {-1, -1, 0};

static int64_t count(void *user)
{
    (void)user;
    return COUNT;
}

static int32_t get(void *user, tn_scope *s, int64_t index, uint64_t seed, tn_tensor **out)
{
    const reader *r = user;
    const int64_t value[2] = {index, (int64_t)(seed & 0xffffff)};
    if (index == r->deadly) raise(SIGKILL);
    if (index == r->bad) return tn_scope_fail(s, TN_E_CORRUPT, "a damaged sample");
    out[0] = tn_from_data(s, TN_INT64, TN_INTS(2), value, TN_CPU);
    out[1] = tn_full(s, TN_INTS(1, 2), (double)index / 2, .dtype = TN_FLOAT16);
    out[2] = tn_scalar_tensor_of(s, tn_value_int(getpid()), TN_INT64, TN_CPU);
    out[3] = tn_empty(s, TN_INTS(0, 3));
    return tn_scope_failed(s);
}

static const tn_dataset_class class = {.size = sizeof class, .name = "numbers", .count = count, .get = get};

static tn_dataset *open_numbers(void *user, tn_context *own)
{
    if (((const reader *)user)->is_refused)
        return tn_scope_fail(NULL, TN_E_IO, "numbers: no such folder"), NULL;
    return tn_dataset_create(own, &class, user);
}

/* Processes are made before the context, as in a program. */
static void open_workers(int32_t processes)
{
    CHECK(tn_workers_create(processes, open_numbers, &how, &w) == TN_OK);
    CHECK(tn_context_create(NULL, &ctx) == TN_OK);
    set = tn_workers_dataset_create(ctx, w);
    CHECK(set != NULL);
}

static void close_workers(void)
{
    tn_dataset_destroy(set);
    tn_workers_destroy(w);
    tn_context_destroy(ctx);
}

/* The values of the next batches into `to`, and the processes into `by`. Returns how many samples. */
static int64_t take(tn_loader *l, int64_t batches, int64_t to[][2], int64_t *by)
{
    int64_t n = 0;
    CHECK(l != NULL);
    for (int64_t i = 0; i < batches; i++) {
        tn_scope *s = tn_scope_open(ctx);
        const tn_tensors batch = tn_loader_next(s, l);
        CHECK(!tn_scope_failed(s));
        CHECK(batch.count == 4);
        const int64_t rows = tn_tensor_size(batch.data[0], 0);
        CHECK(tn_to_host(s, batch.data[0], to[n], (uint64_t)rows * 16) == TN_OK);
        CHECK(tn_to_host(s, batch.data[2], by + n, (uint64_t)rows * 8) == TN_OK);
        CHECK(tn_tensor_dtype(batch.data[1]) == TN_FLOAT16);
        CHECK(tn_item_double(s, tn_select(s, tn_reshape(s, batch.data[1], TN_INTS(-1)), 0, 2 * (rows - 1))) ==
              (double)to[n + rows - 1][0] / 2);
        CHECK(tn_tensor_rank(batch.data[3]) == 3 && tn_tensor_size(batch.data[3], 0) == rows &&
              tn_tensor_size(batch.data[3], 1) == 0);
        n += rows;
        tn_scope_close(s);
    }
    return n;
}

static int32_t is_worker(int64_t process, int32_t processes)
{
    for (int32_t i = 0; i < processes; i++)
        if (tn_workers_process(w, i) == process) return 1;
    return 0;
}

/* Two epochs in random order, of threads over processes, and of the same reader in this process. */
static void batches_are_those_of_the_program(void)
{
    int64_t want[2 * COUNT][2], have[2 * COUNT][2], by[2 * COUNT];
    open_workers(3);
    tn_dataset *own = open_numbers(&how, ctx);
    tn_loader *l = tn_loader_create(own, .batch = BATCH, .shuffle = 1, .seed = 5);
    const int64_t batches = 2 * tn_loader_batches(l), n = take(l, batches, want, by);
    CHECK(n == 2 * COUNT);
    CHECK(!is_worker(by[0], 3) && by[0] == getpid());
    tn_loader_destroy(l);
    for (int32_t threads = 0; threads < 4; threads++) {
        l = tn_loader_create(set, .batch = BATCH, .shuffle = 1, .seed = 5, .workers = threads);
        CHECK(take(l, batches, have, by) == n);
        CHECK(memcmp(have, want, sizeof want) == 0);
        for (int64_t i = 0; i < n; i++) CHECK(is_worker(by[i], 3));
        tn_loader_destroy(l);
    }
    tn_dataset_destroy(own);
    close_workers();
}

/* A loader that begins in the middle of the second epoch. */
static void go_on_in_the_middle_of_an_epoch(void)
{
    int64_t want[2 * COUNT][2], have[2 * COUNT][2], by[2 * COUNT];
    open_workers(2);
    tn_loader *l = tn_loader_create(set, .batch = BATCH, .shuffle = 1, .seed = 5, .workers = 2);
    const int64_t batches = tn_loader_batches(l), n = take(l, 2 * batches, want, by);
    tn_loader_destroy(l);
    l = tn_loader_create(set, .batch = BATCH, .shuffle = 1, .seed = 77, .workers = 2);
    const tn_loader_state state = {.size = sizeof state, .seed = 5, .epoch = 1, .batch = 3};
    CHECK(tn_loader_set_state(l, &state) == TN_OK);
    const int64_t left = take(l, batches - 3, have, by);
    CHECK(left == COUNT - 3 * BATCH);
    CHECK(memcmp(have, want[n - left], (size_t)left * sizeof *have) == 0);
    tn_loader_destroy(l);
    close_workers();
}

/* What the program writes into a batch is its own. */
static void batches_can_be_written_and_single_samples_read(void)
{
    tn_tensor *out[TN_SAMPLE_MAX];
    open_workers(1);
    tn_loader *l = tn_loader_create(set, .batch = BATCH, .workers = 1);
    tn_scope *s = tn_scope_open(ctx);
    const tn_tensors batch = tn_loader_next(s, l);
    tn_add_scalar_(s, tn_list_at(batch, 0), (int64_t)100);
    CHECK(tn_item_int(s, tn_select(s, tn_select(s, batch.data[0], 0, 3), 0, 0)) == 103);
    CHECK(tn_dataset_get(s, set, 7, 9, out) == TN_OK);
    CHECK(tn_tensor_rank(out[0]) == 1);
    CHECK(tn_item_int(s, tn_select(s, out[0], 0, 0)) == 7);
    CHECK(tn_item_int(s, tn_select(s, out[0], 0, 1)) == 9);
    CHECK(tn_tensor_rank(out[2]) == 0);
    CHECK(!out[4]);
    tn_scope_close(s);
    tn_loader_destroy(l);
    close_workers();
}

static void expect_failure(tn_loader *l, const char *text)
{
    tn_scope *s = tn_scope_open(ctx);
    CHECK(tn_loader_next(s, l).count == 0);
    CHECK(tn_scope_failed(s) && strstr(tn_scope_error(s)->message, text));
    tn_scope_close(s);
}

static void errors_name_the_sample_and_the_batch(void)
{
    int64_t have[COUNT][2], by[COUNT];
    how.bad = 6;
    open_workers(2);
    tn_loader *l = tn_loader_create(set, .batch = BATCH, .workers = 2);
    CHECK(take(l, 1, have, by) == BATCH);
    expect_failure(l, "a damaged sample (sample 6) (batch 1 of epoch 0)");
    CHECK(take(l, 1, have, by) == BATCH);
    CHECK(have[0][0] == 8); /* it goes on with the next batch */
    tn_loader_destroy(l);
    close_workers();
}

/* Batch 1 kills its process; the other one makes all others, until the second epoch kills it, too. */
static void one_that_is_killed_is_named_and_the_others_go_on(void)
{
    int64_t have[COUNT][2], by[COUNT];
    how.deadly = 5;
    open_workers(2);
    tn_loader *l = tn_loader_create(set, .batch = BATCH, .workers = 1);
    CHECK(take(l, 1, have, by) == BATCH);
    expect_failure(l, "was killed by signal 9 while it read samples 4 to 7 (batch 1 of epoch 0)");
    CHECK(take(l, 5, have, by) == COUNT - 8 + BATCH); /* and batch 0 of the next epoch */
    CHECK(have[0][0] == 8);
    expect_failure(l, "was killed by signal 9 while it read samples 4 to 7 (batch 1 of epoch 1)");
    expect_failure(l, "all 2 processes have ended");
    tn_loader_destroy(l);
    close_workers();
}

static void a_data_set_that_cannot_be_opened_is_an_error(void)
{
    how.is_refused = 1;
    CHECK(tn_workers_create(2, open_numbers, &how, &w) == TN_OK);
    CHECK(tn_context_create(NULL, &ctx) == TN_OK);
    CHECK(!tn_workers_dataset_create(ctx, w));
    CHECK(strstr(tn_last_error()->message, "numbers: no such folder") != NULL);
    CHECK(tn_last_error()->code == TN_E_STATE);
    tn_workers_destroy(w);
    tn_context_destroy(ctx);
}

/* The processes of the second set have copies of the first one's sockets. */
static void two_sets_end_in_the_order_in_which_they_were_made(void)
{
    tn_workers *second;
    CHECK(tn_workers_create(2, open_numbers, &how, &w) == TN_OK);
    CHECK(tn_workers_create(2, open_numbers, &how, &second) == TN_OK);
    CHECK(tn_context_create(NULL, &ctx) == TN_OK);
    tn_dataset *sets[2] = {tn_workers_dataset_create(ctx, w), tn_workers_dataset_create(ctx, second)};
    CHECK(sets[0] && sets[1] && tn_dataset_count(sets[0]) == COUNT && tn_dataset_count(sets[1]) == COUNT);
    tn_dataset_destroy(sets[0]);
    tn_workers_destroy(w);
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *sample[TN_SAMPLE_MAX];
    CHECK(tn_dataset_get(s, sets[1], 7, 0, sample) == TN_OK);
    tn_scope_close(s);
    tn_dataset_destroy(sets[1]);
    tn_workers_destroy(second);
    CHECK(waitpid(-1, NULL, 0) < 0); /* no process is left */
    tn_context_destroy(ctx);
}

static void *wait_for_lock(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

/* Their sockets are the child's, too. */
static void the_child_of_a_fork_leaves_them_to_its_parent(void)
{
    open_workers(2);
    tn_loader *l = tn_loader_create(set, .batch = 4, .workers = 2);
    int64_t values[64][2], by[64];
    CHECK(take(l, 1, values, by) == 4);
    const pid_t child = fork();
    if (!child) {
        alarm(20);
        tn_scope *s = tn_scope_open(ctx);
        int ok = !s && tn_last_error()->code == TN_E_FORKED && !tn_loader_next(s, l).count;
        tn_context *own = NULL;
        ok = ok && !tn_context_create(NULL, &own) && (s = tn_scope_open(own)) != NULL;
        tn_tensor *sample[TN_SAMPLE_MAX];
        ok = ok && tn_dataset_get(s, set, 0, 0, sample) == TN_E_FORKED;
        tn_scope_close(s);
        tn_context_destroy(own);
        tn_loader_destroy(l);
        tn_workers_destroy(w);
        _exit(!ok);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(take(l, 4, values, by) > 0);
    tn_loader_destroy(l);
    close_workers();
}

static void are_refused_in_a_process_with_threads(void)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    pthread_mutex_lock(&lock);
    CHECK(pthread_create(&thread, NULL, wait_for_lock, &lock) == 0);
    CHECK(tn_workers_create(2, open_numbers, &how, &w) == TN_E_STATE);
    CHECK(strstr(tn_last_error()->message, "the process has 2 threads, expected one") != NULL);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    CHECK(tn_workers_create(0, open_numbers, &how, &w) == TN_E_ARGUMENT);
    CHECK(tn_workers_process(NULL, 0) == 0);
    CHECK(!tn_workers_dataset_create(NULL, NULL));
}

/* What is passed stays silent. */
static int32_t run(void (*test)(void), const char *name)
{
    int status = 0;
    const pid_t child = fork();
    if (!child) {
        alarm(60);
        test();
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || status) {
        printf("failed: %s (status 0x%x)\n", name, (unsigned)status);
        return 1;
    }
    return 0;
}

int main(void)
{
#define RUN(test)   \
    {               \
        test, #test \
    }
    static const struct {
        void (*test)(void);
        const char *name;
    } tests[] = {
        RUN(batches_are_those_of_the_program),
        RUN(go_on_in_the_middle_of_an_epoch),
        RUN(batches_can_be_written_and_single_samples_read),
        RUN(errors_name_the_sample_and_the_batch),
        RUN(one_that_is_killed_is_named_and_the_others_go_on),
        RUN(a_data_set_that_cannot_be_opened_is_an_error),
        RUN(two_sets_end_in_the_order_in_which_they_were_made),
        RUN(the_child_of_a_fork_leaves_them_to_its_parent),
        RUN(are_refused_in_a_process_with_threads),
    };
    int32_t failed = 0;
    const int32_t all = sizeof tests / sizeof *tests;
    for (int32_t i = 0; i < all; i++) failed += run(tests[i].test, tests[i].name);
    printf("%d passed, %d failed, 0 skipped\n", all - failed, failed);
    return failed != 0;
}
