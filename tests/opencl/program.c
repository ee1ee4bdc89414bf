/* SPDX-License-Identifier: Apache-2.0 */
/* What a program sees when something goes wrong on an OpenCL device, and that it can go on afterwards. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>
#include "../gpu/device_suite.h"

TestSuite(program, .init = open_tested_device, .fini = close_device);

/* ---- Before the first use ------------------------------------------------------------------------------ */

static int has_driver(void)
{
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) found |= strstr(line, "libOpenCL") != NULL;
    if (maps) fclose(maps);
    return found;
}

/* 11 + 22 on the device, in a context of its own; 0 if all went well. */
static int compute_in_child(void)
{
    tn_context *own;
    float values[2] = {0};
    alarm(60);
    if (tn_context_create(NULL, &own)) return 1;
    tn_scope *scope = tn_scope_open(own);
    tn_tensor *x =
        tn_from_data(scope, TN_FLOAT32, TN_INTS(2), (float[]){1, 2}, tn_device_parse(own, "opencl:0"));
    if (tn_to_host(scope, tn_add(scope, x, x), values, sizeof values)) return 2;
    return values[0] == 2 && values[1] == 4 ? 0 : 3;
}

/* A driver that has started cannot be used in a child: so it starts when a program first asks for its devices. */
Test(start, a_child_that_is_forked_before_the_first_use_computes)
{
    tn_context *own;
    int status = 0;
    cr_assert_eq(tn_context_create(NULL, &own), TN_OK);
    tn_scope *scope = tn_scope_open(own);
    cr_assert_eq(tn_item_double(scope, tn_sum(scope, tn_ones(scope, TN_INTS(3)))), 3);
    cr_assert_not(has_driver());
    pid_t child = fork();
    if (!child) _exit(compute_in_child());
    waitpid(child, &status, 0);
    if (tn_device_count(own, "opencl") == 0) cr_skip_test("no OpenCL device (Debian: pocl-opencl-icd)");
    cr_assert(has_driver());
    cr_assert(WIFEXITED(status), "signal %d", WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
    tn_scope_close(scope);
    tn_context_destroy(own);
}

static pthread_barrier_t at_once;

/* How many devices a context of this thread finds. */
static void *count_devices(void *out)
{
    tn_context *own;
    pthread_barrier_wait(&at_once);
    if (tn_context_create(NULL, &own)) return NULL;
    *(int32_t *)out = tn_device_count(own, "opencl");
    tn_device_choose(own, "opencl", NULL);
    tn_context_destroy(own);
    return NULL;
}

/* PoCL is not safe when two threads start it at once. */
Test(start, two_threads_make_the_first_contexts)
{
    pthread_t threads[2];
    int32_t counts[2] = {-1, -1};
    pthread_barrier_init(&at_once, NULL, 2);
    for (int i = 0; i < 2; i++) cr_assert_eq(pthread_create(&threads[i], NULL, count_devices, &counts[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    if (!counts[0] && !counts[1]) cr_skip_test("no OpenCL device (Debian: pocl-opencl-icd)");
    cr_assert_eq(counts[0], counts[1], "%d and %d devices", counts[0], counts[1]);
}

static tn_tensor *numbers(tn_dtype dtype, int64_t count, const double *values)
{
    return tn__to_copy(s, tn_from_data(s, TN_FLOAT64, TN_INTS(count), values, device), .dtype = dtype);
}

/* Fetching `t` gives this error, and the device works afterwards. */
static void expect_late(const tn_tensor *t, int32_t status, const char *text)
{
    char out[64];
    uint64_t bytes = t ? (uint64_t)(tn_tensor_numel(t) * tn_dtype_bytes(tn_tensor_dtype(t))) : 0;
    int32_t got = t ? tn_to_host(s, t, out, bytes) : tn_scope_failed(s);
    if (!got) got = tn_device_synchronize(ctx, device);
    cr_assert_eq(got, status, "status %d", got);
    const tn_error *error = tn_scope_failed(s) ? tn_scope_error(s) : tn_last_error();
    cr_assert_not_null(error);
    cr_assert_not_null(strstr(error->message, text), "%s", error->message);
    tn_scope_clear(s);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK, "the error comes once");
    tn_tensor *sum =
        tn_add(s, numbers(TN_FLOAT32, 2, (double[]){1, 2}), numbers(TN_FLOAT32, 2, (double[]){10, 20}));
    float values[2];
    cr_assert_eq(tn_to_host(s, sum, values, sizeof values), TN_OK);
    cr_assert(values[0] == 11 && values[1] == 22);
}

Test(program, an_index_out_of_bounds_is_reported_late)
{
    tn_tensor *x = numbers(TN_FLOAT32, 5, (double[]){0, 1, 2, 3, 4});
    expect_late(tn_gather(s, x, 0, numbers(TN_INT64, 2, (double[]){1, 7})), TN_E_INDEX,
                "gather: index 7 is out of bounds for dimension with size 5");
}

Test(program, index_select_checks_its_index)
{
    tn_tensor *x = numbers(TN_FLOAT32, 16, (double[16]){0, 1, 2, 3}), *rows = tn_view(s, x, TN_INTS(2, 8));
    tn_tensor *index = numbers(TN_INT64, 2, (double[]){1, 2});
    static const char text[] = "opencl: index_select: index out of range in self: got 2, expected 0 to 1";
    expect_late(tn_index_select(s, rows, 0, index), TN_E_INDEX, text);
    expect_late(tn_index_select(s, tn_t(s, rows), 1, index), TN_E_INDEX, text);
}

/* The index has another rank than what it goes into, which is allowed because it is empty. */
Test(program, the_gradient_of_a_gather_of_nothing_is_zero)
{
    float values[5] = {9, 9, 9, 9, 9};
    tn_tensor *x = numbers(TN_FLOAT32, 5, (double[]){0, 1, 2, 3, 4});
    tn_set_requires_grad(x, 1);
    tn_tensor *none = tn_empty(s, TN_INTS(2, 0), .dtype = TN_INT64, .device = device);
    tn_backward(s, tn_sum(s, tn_gather(s, x, 0, none)));
    cr_assert_eq(tn_to_host(s, tn_grad_of(s, x), values, sizeof values), TN_OK);
    for (int i = 0; i < 5; i++) cr_assert_eq(values[i], 0);
}

Test(program, scatter_checks_its_index_and_writes_nothing_outside)
{
    tn_tensor *x = numbers(TN_FLOAT32, 3, (double[]){1, 2, 3});
    tn_tensor *index = numbers(TN_INT64, 3, (double[]){0, -4, 2}),
              *source = numbers(TN_FLOAT32, 3, (double[]){7, 8, 9});
    float values[3];
    tn_scatter_(s, x, 0, index, source);
    expect_late(NULL, TN_E_INDEX, "scatter: index -4 is out of bounds for dimension with size 3");
    cr_assert_eq(tn_to_host(s, x, values, sizeof values), TN_OK);
    cr_assert(values[0] == 7 && values[1] == 2 && values[2] == 9);
}

Test(program, an_integer_division_by_zero)
{
    expect_late(
        tn_floor_divide(s, numbers(TN_INT32, 2, (double[]){1, 2}), numbers(TN_INT32, 2, (double[]){1, 0})),
        TN_E_ARGUMENT, "ZeroDivisionError");
}

Test(program, more_memory_than_there_is)
{
    tn_tensor *x = tn_empty(s, TN_INTS(1ll << 40), .dtype = TN_FLOAT32);
    cr_assert_null(x);
    cr_assert_eq(tn_scope_failed(s), TN_E_OUT_OF_MEMORY);
    tn_scope_clear(s);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
}

Test(program, operands_of_another_device)
{
    tn_tensor *here = numbers(TN_FLOAT32, 2, (double[]){1, 2});
    tn_tensor *there = tn_from_data(s, TN_FLOAT32, TN_INTS(2), (float[]){1, 2}, tn_device_parse(ctx, "cpu"));
    cr_assert_null(tn_add(s, here, there));
    cr_assert_eq(tn_scope_failed(s), TN_E_DEVICE);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "opencl:0"), "%s", tn_scope_error(s)->message);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "cpu"), "%s", tn_scope_error(s)->message);
    tn_scope_clear(s);
}

/* 1 + 1/2 + ... + 1/n is the logarithm of n, Euler's constant and 1 / 2n to within 1 / 12n^2. */
Test(program, long_sums_keep_their_digits)
{
    const double n = 1000000;
    tn_tensor *terms = tn_reciprocal(s, tn_arange_start(s, 1.0, n + 1, .dtype = TN_FLOAT32));
    double want = log(n) + 0.57721566490153286 + 1 / (2 * n);
    cr_assert_float_eq(tn_item_double(s, tn_sum(s, terms)), want, 2e-6);
    cr_assert_float_eq(tn_item_double(s, tn_select(s, tn_cumsum(s, terms, 0), 0, -1)), want, 2e-6);
    cr_assert_eq(tn_scope_failed(s), TN_OK);
}

/* 7 is a generator modulo 2^31 - 1: its powers are spread, and no two of the first 2^31 - 2 are the same. */
Test(program, a_long_line_is_sorted)
{
    enum { N = 20000 };
    static int64_t values[N], sorted[N], positions[N];
    int64_t power = 1;
    for (int i = 0; i < N; i++) values[i] = power = power * 7 % 2147483647;
    tn_tensor *t = tn_from_data(s, TN_INT64, TN_INTS(N), values, device);
    tn_sort_result out = tn_sort(s, t);
    cr_assert_eq(tn_to_host(s, out.values, sorted, sizeof sorted), TN_OK);
    cr_assert_eq(tn_to_host(s, out.indices, positions, sizeof positions), TN_OK);
    for (int i = 0; i < N; i++) {
        cr_assert(i == 0 || sorted[i - 1] < sorted[i]);
        cr_assert_eq(values[positions[i]], sorted[i]);
    }
}

/* native_library.c queues a kernel of its own on the plugin's stream, in order with the plugin's work. */
Test(program, a_library_of_kernels_gets_the_native_handles)
{
    float values[2];
    uint64_t context = 0;
    cr_assert_eq(tn_library_open(ctx, getenv("TENON_TEST_LIBRARY"), NULL), TN_OK, "%s",
                 tn_last_error()->message);
    tn_tensor *x = numbers(TN_FLOAT32, 4, (double[]){1, 2, 3, 4});
    tn_tensor *part = tn_narrow(s, tn_add_(s, x, x), 0, 1, 2);
    tn_value args[] = {tn_value_tensor(part), tn_value_float(0.25)}, out = tn_value_none();
    tn_scope_call(s, tn_operator_find(ctx, "clnative::scale"), args, 2, &out, 1);
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    tn_tensor *after = tn_mul_scalar(s, out.as.tensor, 2.0);
    cr_assert_eq(tn_to_host(s, after, values, sizeof values), TN_OK);
    cr_assert(values[0] == 2 && values[1] == 3, "%f %f", (double)values[0], (double)values[1]);
    cr_assert_eq(tn_device_native(ctx, device, TN_NATIVE_CONTEXT, &context), TN_OK);
    cr_assert_neq(context, 0);
}

/* Values from Abramowitz and Stegun's tables and closed forms: gamma's relatives and those of the normal distribution. */
Test(program, special_functions_run_on_the_device)
{
    const float of_1[1] = {1};
    tn_tensor *one = tn_from_data(s, TN_FLOAT32, TN_INTS(1), of_1, device);
    tn_tensor *two = tn_add(s, one, one), *ten = tn_mul_scalar(s, one, 10.0);
    tn_inspect_fallback_reset(ctx);
    const struct {
        tn_tensor *got;
        double want;
    } rows[] = {
        {tn_digamma(s, one), -0.57721566},
        {tn_polygamma(s, 1, one), 1.64493407},  /* pi^2 / 6 */
        {tn_polygamma(s, 2, one), -2.40411381}, /* -2 zeta(3) */
        {tn_special_zeta(s, two, one), 1.64493407},
        {tn_special_zeta(s, tn_add(s, two, two), two), 0.08232323}, /* pi^4 / 90 - 1 */
        {tn_igamma(s, two, one), 0.26424112},                       /* 1 - 2 / e */
        {tn_igammac(s, two, one), 0.73575888},
        {tn_igammac(s, tn_mul_scalar(s, one, 0.5), two), 0.04550026}, /* erfc(sqrt 2) */
        {tn_igamma(s, tn_mul_scalar(s, one, 100.0), tn_mul_scalar(s, one, 100.0)), 0.51329880},
        {tn_special_ndtri(s, tn_mul_scalar(s, one, 0.975)), 1.95996398},
        {tn_special_ndtr(s, tn_neg(s, one)), 0.15865525},
        {tn_special_log_ndtr(s, tn_neg(s, ten)), -53.23128515},
        {tn_special_erfcx(s, ten), 0.05614099},
        {tn_special_erfcx(s, tn_neg(s, one)), 5.00898008},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double got = tn_item_double(s, rows[i].got);
        cr_assert_float_eq(got, rows[i].want, 2e-6 * (fabs(rows[i].want) + 1), "row %zu: %.9g, not %.9g", i,
                           got, rows[i].want);
    }
    cr_assert_eq(tn_inspect_fallback_count(ctx), 0);
}

static void expect_complex(tn_tensor *t, int64_t count, const double *want)
{
    double got[8];
    cr_assert_eq(tn_to_host(s, tn__to_copy(s, t, .dtype = TN_COMPLEX128), got, (uint64_t)count * 16), TN_OK);
    for (int64_t i = 0; i < 2 * count; i++)
        cr_assert_float_eq(got[i], want[i], 1e-6, "part %lld is %.9g, not %.9g", (long long)i, got[i],
                           want[i]);
}

/* Two numbers, 1 + 2i and 3 - 4i, in both dtypes; nothing runs on the CPU. */
Test(program, complex_numbers_are_computed_on_the_device)
{
    const double parts[4] = {1, 2, 3, -4};
    tn_tensor *wide = tn_from_data(s, TN_COMPLEX128, TN_INTS(2), parts, device);
    tn_tensor *both[] = {wide, tn__to_copy(s, wide, .dtype = TN_COMPLEX64)};
    tn_inspect_fallback_reset(ctx);
    for (int k = 0; k < 2; k++) {
        tn_tensor *z = both[k], *first = tn_slice(s, z, .end = 1), *second = tn_slice(s, z, .start = 1);
        expect_complex(tn_mul(s, first, second), 1, (double[]){11, 2});
        expect_complex(tn_div(s, first, second), 1, (double[]){-0.2, 0.4});
        expect_complex(tn_sub(s, first, second), 1, (double[]){-2, 6});
        expect_complex(tn_sqrt(s, second), 1, (double[]){2, -1});
        expect_complex(tn_exp(s, first), 1, (double[]){-1.1312043838, 2.4717266720});
        expect_complex(tn_log(s, second), 1, (double[]){1.6094379124, -0.9272952180});
        expect_complex(tn_reciprocal(s, second), 1, (double[]){0.12, 0.16});
        expect_complex(tn_abs(s, z), 2, (double[]){2.2360679775, 0, 5, 0});
        expect_complex(tn_angle(s, z), 2, (double[]){1.1071487178, 0, -0.9272952180, 0});
        expect_complex(tn_conj_physical(s, z), 2, (double[]){1, -2, 3, 4});
        expect_complex(tn_resolve_conj(s, tn_conj(s, z)), 2, (double[]){1, -2, 3, 4});
        expect_complex(tn_resolve_neg(s, tn_imag(s, tn_conj(s, z))), 2, (double[]){-2, 0, 4, 0});
        expect_complex(tn_sum(s, z), 1, (double[]){4, -2});
        expect_complex(tn_mean(s, z), 1, (double[]){2, -1});
        expect_complex(tn_cumsum(s, z, 0), 2, (double[]){1, 2, 4, -2});
        expect_complex(tn_eq(s, z, first), 2, (double[]){1, 0, 0, 0});
        expect_complex(tn_mul_scalar(s, z, 2.0), 2, (double[]){2, 4, 6, -8});
    }
    cr_assert_eq(tn_inspect_fallback_count(ctx), 0);
}

/* ---- Pinned memory, queues of the program --------------------------------------------------------------- */

Test(program, copies_with_pinned_memory_need_not_be_waited_for)
{
    enum { COUNT = 3 << 20 };
    tn_tensor *there = tn_empty(s, TN_INTS(COUNT), .dtype = TN_FLOAT32, .device = device);
    tn_tensor *here =
        tn_arange(s, tn_value_int(COUNT), .dtype = TN_FLOAT32, .device = TN_CPU, .pin_memory = 1);
    cr_assert(tn_is_pinned(here), "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    tn_copy_(s, there, here, .non_blocking = 1);
    tn_tensor *twice = tn_add(s, there, there);
    tn_tensor *back = tn_to_dtype_layout(s, twice, .device = TN_CPU, .non_blocking = 1);
    cr_assert(tn_is_pinned(back));
    cr_assert_eq(tn_stream_synchronize(tn_stream_default(ctx, device)), TN_OK);
    const float *values = tn_tensor_data(back);
    for (int i = 0; i < COUNT; i++) cr_assert_eq(values[i], 2.0f * (float)i, "element %d", i);
    cr_assert_not(tn_scope_failed(s));
}

typedef struct cl_queue *make_queue_fn(void *context, void *id, uint64_t properties, int32_t *out_status);
typedef int32_t of_queue_fn(struct cl_queue *queue);

Test(program, a_queue_of_the_program_is_a_stream)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
    make_queue_fn *create;
    of_queue_fn *release, *finish;
    uint64_t context = 0, id = 0, native = 0;
    int32_t status = 0;
    tn_stream *stream = NULL;
    *(void **)&create = dlsym(library, "clCreateCommandQueue");
    *(void **)&release = dlsym(library, "clReleaseCommandQueue");
    *(void **)&finish = dlsym(library, "clFinish");
    cr_assert_eq(tn_device_native(ctx, device, TN_NATIVE_CONTEXT, &context), TN_OK);
    cr_assert_eq(tn_device_native(ctx, device, TN_NATIVE_DEVICE, &id), TN_OK);
    struct cl_queue *queue = create((void *)(uintptr_t)context, (void *)(uintptr_t)id, 0, &status);
    cr_assert_eq(status, 0);
    cr_assert_eq(tn_stream_wrap(ctx, device, (uint64_t)(uintptr_t)queue, &stream), TN_OK, "%s",
                 tn_last_error()->message);
    cr_assert_eq(tn_stream_native(stream, &native), TN_OK);
    cr_assert_eq(native, (uint64_t)(uintptr_t)queue);
    tn_stream_set_current(ctx, stream);
    tn_tensor *x = numbers(TN_FLOAT32, 2, (double[]){1, 2}), *y = tn_add(s, x, x);
    float values[2];
    cr_assert_eq(finish(queue), 0); /* the program's own wait is enough */
    while (!tn_stream_query(stream)) continue;
    cr_assert_eq(tn_to_host(s, y, values, sizeof values), TN_OK);
    cr_assert(values[0] == 2 && values[1] == 4);
    tn_stream_set_current(ctx, tn_stream_default(ctx, device));
    tn_drop(s, y);
    tn_drop(s, x);
    tn_stream_release(stream);
    cr_assert_eq(finish(queue), 0, "the queue is still the program's");
    release(queue);
    queue = create((void *)(uintptr_t)context, (void *)(uintptr_t)id, 1, &status); /* out of order */
    if (!status) {
        cr_assert_eq(tn_stream_wrap(ctx, device, (uint64_t)(uintptr_t)queue, &stream), TN_E_ARGUMENT);
        cr_assert_not_null(strstr(tn_last_error()->message, "out of order"), "%s", tn_last_error()->message);
        release(queue);
    }
}

/* Another library has queued work by the handle of a stream: it waits for an event of the program. */
Test(program, a_query_sees_work_that_others_have_queued)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *event;
    void *(*create)(void *context, int32_t *out_status);
    int32_t (*hold)(void *queue, uint32_t count, void *const *events, void **out_event);
    int32_t (*complete)(void *event, int32_t state), (*release)(void *event), status = 0;
    tn_stream *stream = tn_stream_default(ctx, device);
    uint64_t context = 0, queue = 0;
    *(void **)&create = dlsym(library, "clCreateUserEvent");
    *(void **)&hold = dlsym(library, "clEnqueueBarrierWithWaitList");
    *(void **)&complete = dlsym(library, "clSetUserEventStatus");
    *(void **)&release = dlsym(library, "clReleaseEvent");
    cr_assert_eq(tn_device_native(ctx, device, TN_NATIVE_CONTEXT, &context), TN_OK);
    cr_assert_eq(tn_stream_native(stream, &queue), TN_OK);
    cr_assert_eq(tn_stream_synchronize(stream), TN_OK);
    event = create((void *)(uintptr_t)context, &status);
    cr_assert_eq(status, 0);
    cr_assert_eq(hold((void *)(uintptr_t)queue, 1, &event, NULL), 0);
    cr_expect_eq(tn_stream_query(stream), 0);
    cr_assert_eq(complete(event, 0), 0);
    release(event);
    cr_assert_eq(tn_stream_synchronize(stream), TN_OK);
    while (!tn_stream_query(stream)) continue;
}
