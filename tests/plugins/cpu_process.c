/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU plugin and what else happens to a process: signals, forks, its end, limits. Each case runs in a child. */
#include <criterion/criterion.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <tenon/plugin.h>
#include <tenon/tenon.h>
#include <ucontext.h>
#include <unistd.h>

enum { SECONDS = 60 }; /* until a child that hangs is killed */

static tn_context *make_context(int threads)
{
    tn_context *ctx = NULL;
    if (tn_context_create(NULL, &ctx)) _exit(10);
    tn_set_num_threads(ctx, threads);
    return ctx;
}

/* A product of ones, and its gradient, which have known values. */
static bool multiplies(tn_context *ctx, int n)
{
    tn_scope *s = tn_scope_open(ctx);
    if (!s) return false;
    tn_tensor *w = tn_ones(s, TN_INTS(n, n));
    tn_set_requires_grad(w, 1);
    tn_tensor *sum = tn_sum(s, tn_matmul(s, w, w));
    tn_backward(s, sum);
    double forward = tn_item_double(s, sum), backward = tn_item_double(s, tn_sum(s, tn_grad_of(s, w)));
    double expected = (double)n * n * n;
    return tn_scope_close(s) == TN_OK && forward == expected && backward == 2 * expected;
}

static bool convolves(tn_context *ctx)
{
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_ones(s, TN_INTS(2, 34, 20, 20)), *w = tn_ones(s, TN_INTS(34, 17, 3, 3));
    tn_tensor *y = tn_conv2d(s, x, w, .stride = TN_INTS(3, 3), .dilation = TN_INTS(2, 2), .groups = 2);
    double mean = tn_item_double(s, tn_mean(s, y));
    return tn_scope_close(s) == TN_OK && mean == 17 * 9;
}

static int status_of(void (*run)(void))
{
    int status = -1;
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (!child) {
        alarm(SECONDS);
        run();
        exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

#define EXPECT_SUCCESS(run) cr_expect_eq(status_of(run), 0, "%s", #run)

/* ---- Signals ----------------------------------------------------------------------------------------- */

#if defined(__x86_64__) && defined(__linux__)
static char *stack_low, *stack_high;
static volatile sig_atomic_t signals, outside;

/* Runs on a stack of its own, so that it survives what it looks for. */
static void look_at_stack_pointer(int number, siginfo_t *info, void *context)
{
    const char *sp = (const char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
    signals++;
    if (sp < stack_low || sp > stack_high) outside++;
}

static void find_stack(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t bytes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &bytes);
    pthread_attr_destroy(&attributes);
    stack_low = low;
    stack_high = stack_low + bytes;
}

static void compute_under_signals(void)
{
    static char other[1 << 16];
    const stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
    const struct sigaction action = {.sa_sigaction = look_at_stack_pointer,
                                     .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    const struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    tn_context *ctx = make_context(1);
    find_stack();
    sigaltstack(&stack, NULL);
    sigaction(SIGVTALRM, &action, NULL);
    setitimer(ITIMER_VIRTUAL, &often, NULL);
    for (int i = 0; i < 300; i++)
        if (!multiplies(ctx, 200) || !convolves(ctx)) _exit(11);
    setitimer(ITIMER_VIRTUAL, &never, NULL);
    if (!signals) _exit(12);
    if (outside) _exit(13);
    tn_context_destroy(ctx);
}

static void compute_once(void)
{
    tn_context *ctx = make_context(1);
    if (!multiplies(ctx, 200)) _exit(11);
    tn_context_destroy(ctx);
}

/* Replaces the choices of libraries, digits after the last line of each file. */
static void choose_library(const char *folder, char library)
{
    char pattern[128], text[4096];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/tenon/plugins/cpu/products-*", folder);
    if (glob(pattern, 0, NULL, &found)) return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "rb+");
        if (!file) continue;
        size_t length = fread(text, 1, sizeof text, file), first = length;
        while (first && text[first - 1] != '\n') first--;
        memset(text + first, library, length - first);
        fseek(file, 0, SEEK_SET);
        fwrite(text, 1, length, file);
        fclose(file);
    }
    globfree(&found);
}

Test(cpu_process, signals_find_the_stack_whatever_library_computes)
{
    char folder[] = "/tmp/tenon-process-XXXXXX", command[128];
    cr_assert_not_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    setenv("TENON_CPU_TUNE", "1", 1);
    EXPECT_SUCCESS(compute_once);
    for (char library = '1'; library <= '3'; library++) {
        choose_library(folder, library);
        cr_expect_eq(status_of(compute_under_signals), 0, "library %c", library);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}
#endif

/* ---- Forks and the end ------------------------------------------------------------------------------- */

/* Not with ThreadSanitizer, whose build has another OpenMP, that of LLVM. */
#if TN_SANITIZER != TN_SANITIZER_THREAD
static void compute_in_a_child(void)
{
    tn_context *ctx = make_context(4);
    int status = -1;
    if (!multiplies(ctx, 300)) _exit(11);
    pid_t child = fork();
    if (!child) {
        alarm(SECONDS / 2);
        tn_context *own = make_context(4);
        bool right = multiplies(own, 300) && convolves(own);
        tn_context_destroy(own);
        exit(right ? 0 : 12);
    }
    waitpid(child, &status, 0);
    if (status || !multiplies(ctx, 300)) _exit(13);
    tn_context_destroy(ctx);
}

Test(cpu_process, child_of_a_thread_with_a_team_computes)
{
    EXPECT_SUCCESS(compute_in_a_child);
}
#endif

static tn_context *last;

static void compute_at_exit(void)
{
    if (!multiplies(last, 300)) _exit(14);
    tn_context_destroy(last);
}

static void compute_until_exit(void)
{
    atexit(compute_at_exit);
    last = make_context(2);
    for (int i = 0; i < 3; i++)
        if (!multiplies(last, 300) || !convolves(last)) _exit(11);
}

/* Not with sanitizers: there oneDNN would still be making what it keeps, which the end of the process cannot wait for. */
#if !TN_SANITIZER
static atomic_int ready;

/* Threads that are ready have computed each kind of product: what libraries make at first use is there. */
static void *compute_for_ever(void *ctx)
{
    for (int i = 0;; i++) {
        multiplies(ctx, 200);
        if (i == 2) atomic_fetch_add(&ready, 1);
    }
    return NULL;
}

static void exit_while_threads_compute(void)
{
    pthread_t thread;
    tn_context *ctx = make_context(2);
    for (int i = 0; i < 40; i++) /* each library is tried, and has made what it keeps */
        if (!multiplies(ctx, 200)) _exit(11);
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread, NULL, compute_for_ever, ctx)) _exit(12);
    while (atomic_load(&ready) < 3) usleep(1000);
}

Test(cpu_process, threads_may_compute_until_the_end)
{
    for (int i = 0; i < 4; i++) EXPECT_SUCCESS(exit_while_threads_compute);
    setenv("TENON_CPU_TUNE", "0", 1);
    for (int i = 0; i < 4; i++) EXPECT_SUCCESS(exit_while_threads_compute);
}
#endif

Test(cpu_process, libraries_live_until_the_last_product)
{
    EXPECT_SUCCESS(compute_until_exit);
    setenv("TENON_CPU_TUNE", "0", 1);
    EXPECT_SUCCESS(compute_until_exit);
}

/* ---- Limits ------------------------------------------------------------------------------------------ */

#if !TN_SANITIZER
static void compute_with_few_threads(void)
{
    const struct rlimit data = {60 << 20, 60 << 20};
    tn_context *ctx = make_context(16);
    setrlimit(RLIMIT_DATA, &data);
    if (!multiplies(ctx, 400)) _exit(11);
    tn_context_destroy(ctx);
}

static void compute_in_little_address_space(void)
{
    const struct rlimit space = {(rlim_t)300 << 20, (rlim_t)300 << 20};
    setrlimit(RLIMIT_AS, &space);
    tn_context *ctx = make_context(2);
    if (!multiplies(ctx, 200)) _exit(11);
    tn_context_destroy(ctx);
}

static void compute_without_generated_code(void)
{
    (void)prctl(65 /* PR_SET_MDWE */, 1, 0, 0, 0); /* fails where the kernel is older */
    tn_context *ctx = make_context(2);
    for (int i = 0; i < 2; i++)
        if (!multiplies(ctx, 200) || !convolves(ctx)) _exit(11);
    tn_context_destroy(ctx);
}

static void *walk(void *ctx)
{
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_ones(s, TN_INTS(64, 64)), *y = tn_add(s, tn_transpose(s, x, 0, 1), x);
    double sum = tn_item_double(s, tn_sum(s, tn_softmax(s, y, 1)));
    tn_cumsum(s, tn_to_dtype_layout(s, y, .dtype = TN_COMPLEX128), 0);
    return tn_scope_close(s) == TN_OK && sum > 63.9 && sum < 64.1 ? ctx : NULL;
}

static void compute_on_a_small_stack(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    void *done = NULL;
    tn_context *ctx = make_context(1);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    if (pthread_create(&thread, &attributes, walk, ctx)) _exit(11);
    pthread_join(thread, &done);
    if (!done) _exit(12);
    tn_context_destroy(ctx);
}

Test(cpu_process, computes_within_limits)
{
    EXPECT_SUCCESS(compute_with_few_threads);
    EXPECT_SUCCESS(compute_in_little_address_space);
    EXPECT_SUCCESS(compute_without_generated_code);
    EXPECT_SUCCESS(compute_on_a_small_stack);
}
#endif

Test(cpu_process, mistyped_choice_is_refused)
{
    setenv("TENON_CPU_TUNE", "zz", 1);
    tn_context *ctx = make_context(1);
    cr_expect(tn_device_choose(ctx, "cpu", NULL) & TN_DEVICE_MISSING);
    tn_context_destroy(ctx);
}
