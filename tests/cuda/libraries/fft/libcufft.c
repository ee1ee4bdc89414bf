/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcufft.so.12 for tests, or a libhipfft.so.0: transforms of lines in the test driver's memory, on its streams, by the sum that defines them in
 * long double. It writes over its work, and refuses plans that are not made, work that is missing, directions that are none and elements
 * that are not aligned. Short lines need no work, and a plan has to be told so.
 */
#include "cufft.h"
#include "stand_in.h"

#include <math.h>

CUFFT_FUNCTIONS(DECLARE)
/* Lines that were transformed, plans that the plugin has not given back, plans that it has made. */
enum { LINES, LIVE, PLANS };

typedef struct shape {
    int is_alive, is_made, has_area, type, direction;
    long long size, lines, in_step, in_apart, out_step, out_apart;
    CUdeviceptr in, out, work;
    CUstream stream;
} shape;

enum { MOST = 256, WORK = 4096, LONG = 6 };
static shape plans[MOST];

static size_t work_of(const shape *p)
{
    return p->size < LONG ? 0 : WORK;
}

/* Number 0 is a plan of cuFFT, too; one of hipFFT is a pointer. */
#ifdef HIP
static shape *plan_of(fft_handle plan)
{
    for (int i = 0; i < MOST; i++)
        if (plan == &plans[i] && plans[i].is_alive) return &plans[i];
    return NULL;
}

static fft_handle handle_of(int i)
{
    return &plans[i];
}
#else
static shape *plan_of(fft_handle plan)
{
    return plan >= 0 && plan < MOST && plans[plan].is_alive ? &plans[plan] : NULL;
}

static fft_handle handle_of(int i)
{
    return i;
}
#endif

/* ---- Transforms --------------------------------------------------------------------------------------------- */

static int is_double(const shape *p)
{
    return p->type == FFT_Z2Z || p->type == FFT_D2Z;
}

static int is_real(const shape *p)
{
    return p->type == FFT_R2C || p->type == FFT_D2Z;
}

static double part_at(const shape *p, const void *memory, long long i)
{
    return is_double(p) ? ((const double *)memory)[i] : (double)((const float *)memory)[i];
}

static void set_part(const shape *p, void *memory, long long i, long double value)
{
    if (is_double(p))
        ((double *)memory)[i] = (double)value;
    else
        ((float *)memory)[i] = (float)value;
}

/* A line; `pairs` has room for its elements, since `out` may be `in`. */
static void run_line(const shape *p, const void *in, void *out, long long from, long long to,
                     long double *pairs)
{
    const long double turn = p->direction * 2 * acosl(-1) / (long double)p->size;
    const long long kept = is_real(p) ? p->size / 2 + 1 : p->size;
    for (long long j = 0; j < p->size; j++) {
        const long long at = from + j * p->in_step;
        pairs[2 * j] = part_at(p, in, is_real(p) ? at : 2 * at);
        pairs[2 * j + 1] = is_real(p) ? 0 : part_at(p, in, 2 * at + 1);
    }
    for (long long k = 0; k < kept; k++) {
        long double re = 0, im = 0;
        for (long long j = 0; j < p->size; j++) {
            const long double angle = turn * (long double)(j * k % p->size);
            re += pairs[2 * j] * cosl(angle) - pairs[2 * j + 1] * sinl(angle);
            im += pairs[2 * j] * sinl(angle) + pairs[2 * j + 1] * cosl(angle);
        }
        set_part(p, out, 2 * (to + k * p->out_step), re);
        set_part(p, out, 2 * (to + k * p->out_step) + 1, im);
    }
}

/* The bytes from the first element to the last one. */
static size_t extent(long long size, long long step, long long lines, long long apart, size_t bytes)
{
    return (size_t)((size - 1) * step + (lines - 1) * apart + 1) * bytes;
}

static CUresult run(CUcontext context, void *data)
{
    const shape *p = data;
    const size_t part = is_double(p) ? sizeof(double) : sizeof(float);
    const long long kept = is_real(p) ? p->size / 2 + 1 : p->size;
    const void *in = cuda_test_place(
        context, p->in, extent(p->size, p->in_step, p->lines, p->in_apart, is_real(p) ? part : 2 * part));
    void *out = cuda_test_place(context, p->out, extent(kept, p->out_step, p->lines, p->out_apart, 2 * part));
    long double *pairs = malloc((size_t)p->size * 2 * sizeof *pairs);
    const int is_good = in && out && pairs && use_workspace(context, p->work, work_of(p));
    for (long long i = 0; i < p->lines && is_good; i++)
        run_line(p, in, out, i * p->in_apart, i * p->out_apart, pairs);
    free(pairs);
    return is_good ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static int execute(const char *function, fft_handle plan, int type, void *in, void *out, int direction)
{
    shape *p = plan_of(plan), job;
    FAULT(function);
    if (!p || !p->is_made) return 1; /* an invalid plan */
    if (p->type != type || (direction != FFT_FORWARD && direction != FFT_INVERSE)) return FFT_INVALID_VALUE;
    if (!p->has_area) return FFT_NO_WORKSPACE;
    if ((work_of(p) && !p->work) || ((uintptr_t)in | (uintptr_t)out) % (is_double(p) ? 16 : 8))
        return FFT_EXEC_FAILED;
    job = *p;
    job.in = (CUdeviceptr)(uintptr_t)in;
    job.out = (CUdeviceptr)(uintptr_t)out;
    job.direction = direction;
    count(LINES, (int)p->lines);
    return library_queue(p->stream, run, &job, sizeof job) ? FFT_EXEC_FAILED : FFT_SUCCESS;
}

int cufftExecC2C(fft_handle plan, void *in, void *out, int direction)
{
    return execute(__func__, plan, FFT_C2C, in, out, direction);
}

int cufftExecZ2Z(fft_handle plan, void *in, void *out, int direction)
{
    return execute(__func__, plan, FFT_Z2Z, in, out, direction);
}

int cufftExecR2C(fft_handle plan, void *in, void *out)
{
    return execute(__func__, plan, FFT_R2C, in, out, FFT_FORWARD);
}

int cufftExecD2Z(fft_handle plan, void *in, void *out)
{
    return execute(__func__, plan, FFT_D2Z, in, out, FFT_FORWARD);
}

/* ---- Plans -------------------------------------------------------------------------------------------------- */

int cufftCreate(fft_handle *out)
{
    FAULT(__func__);
    if (!has_context()) return FFT_SETUP_FAILED;
    for (int i = 0; i < MOST; i++) {
        if (plans[i].is_alive) continue;
        plans[i] = (shape){.is_alive = 1};
        count(LIVE, 1);
        *out = handle_of(i);
        return FFT_SUCCESS;
    }
    return FFT_ALLOC_FAILED;
}

int cufftDestroy(fft_handle plan)
{
    if (!plan_of(plan)) return 1;
    plan_of(plan)->is_alive = 0;
    count(LIVE, -1);
    return FFT_SUCCESS;
}

int cufftSetAutoAllocation(fft_handle plan, int is_on)
{
    FAULT(__func__);
    return plan_of(plan) && !is_on ? FFT_SUCCESS : FFT_INVALID_VALUE;
}

int cufftMakePlanMany64(fft_handle plan, int rank, long long *sizes, long long *in_sizes, long long in_step,
                        long long in_apart, long long *out_sizes, long long out_step, long long out_apart,
                        int type, long long batch, size_t *out_bytes)
{
    shape *p = plan_of(plan);
    FAULT(__func__);
    if (!p || p->is_made || rank != 1 || sizes[0] < 1 || batch < 1 || in_step < 1 || out_step < 1 ||
        in_apart < 1 || out_apart < 1)
        return FFT_INVALID_VALUE;
    *p = (shape){1, 1, 0, type, 0, sizes[0], batch, in_step, in_apart, out_step, out_apart, 0, 0, 0, NULL};
    if (in_sizes[0] != sizes[0] || out_sizes[0] != (is_real(p) ? sizes[0] / 2 + 1 : sizes[0]))
        return FFT_INVALID_VALUE;
    count(PLANS, 1);
    *out_bytes = work_of(p);
    return FFT_SUCCESS;
}

int cufftSetStream(fft_handle plan, void *stream)
{
    FAULT(__func__);
    if (!plan_of(plan)) return 1;
    plan_of(plan)->stream = stream;
    return FFT_SUCCESS;
}

int cufftSetWorkArea(fft_handle plan, void *work)
{
    FAULT(__func__);
    if (!plan_of(plan)) return 1;
    plan_of(plan)->has_area = 1;
    plan_of(plan)->work = (CUdeviceptr)(uintptr_t)work;
    return FFT_SUCCESS;
}

int cufftGetVersion(int *out)
{
    *out = 12000;
    return FFT_SUCCESS;
}

#ifdef OTHER_RUNTIME
/* As a library that is linked with another generation of HIP. */
TEST_API hipError_t hipInit(unsigned flags)
{
    return flags ? hipErrorInvalidValue : hipSuccess;
}
#endif
