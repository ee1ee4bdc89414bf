/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Factors of matrices by cuSOLVER or hipSOLVER, if it is installed: one matrix after the other on the call's stream, in one workspace. The
 * infos stay on the device. There are no plans: the length of a workspace follows from the sizes.
 */
#include "cusolver.h"
#include "libraries.h"

#include <limits.h>
#include <stdio.h>

typedef struct cuda_solver {
    cuda_library base;
#define DECLARE(result, name, arguments) result(*name) arguments;
    CUSOLVER_FUNCTIONS(DECLARE)
#undef DECLARE
    CUstream stream; /* which the handle was told last; NULL at first, the default one */
} cuda_solver;

/* The function of the dtype, float or double. */
#define TYPED(s, f, name) ((f)->dtype == GPU_F64 ? (s)->cusolverDnD##name : (s)->cusolverDnS##name)

static int triangle_of(const gpu_factors *f)
{
    return f->is_upper ? SOLVER_UPPER : SOLVER_LOWER;
}

static int mode_of(const gpu_factors *f)
{
    return f->wants_vectors ? SOLVER_VALUES_AND_VECTORS : SOLVER_VALUES;
}

static int length_of_work(const cuda_solver *s, const gpu_factors *f, int *out)
{
    void *handle = s->base.handle, *a = cuda_place(f->a.memory, f->a.offset);
    const void *extra = cuda_place(f->extra.memory, f->extra.offset);
    const int m = (int)f->rows, n = (int)f->columns, lda = m;
    switch (f->kind) {
    case GPU_FACTOR_CHOLESKY:
        return TYPED(s, f, potrf_bufferSize)(handle, triangle_of(f), n, a, lda, out);
    case GPU_FACTOR_LU:
        return TYPED(s, f, getrf_bufferSize)(handle, m, n, a, lda, out);
    case GPU_FACTOR_QR:
        return TYPED(s, f, geqrf_bufferSize)(handle, m, n, a, lda, out);
    case GPU_FACTOR_REFLECTORS:
        return TYPED(s, f, orgqr_bufferSize)(handle, m, n, (int)f->count, a, lda, extra, out);
    case GPU_FACTOR_EIGENVALUES:
        return TYPED(s, f, syevd_bufferSize)(handle, mode_of(f), triangle_of(f), n, a, lda, extra, out);
    case GPU_FACTOR_SINGULAR:
        return TYPED(s, f, gesvd_bufferSize)(handle, m, n, out);
    default:
        *out = 0;
        return SOLVER_SUCCESS;
    }
}

/* Singular values of one matrix, of at least as many rows as columns; left vectors are `right_sides` columns. */
static int find_singular_values(const cuda_solver *s, const gpu_factors *f, uint64_t i, void *a, void *extra,
                                void *work, int length, int *info)
{
    const uint64_t bytes = gpu_code_bytes(f->dtype);
    const int m = (int)f->rows, n = (int)f->columns;
    const signed char how = !f->wants_vectors ? 'N' : f->right_sides == f->rows ? 'A' : 'S';
    void *u = NULL, *vt = NULL;
    if (f->wants_vectors) {
        u = cuda_place(f->b.memory, f->b.offset + i * f->rows * f->right_sides * bytes);
        vt = cuda_place(f->c.memory, f->c.offset + i * f->columns * f->columns * bytes);
    }
    return TYPED(s, f, gesvd)(s->base.handle, how, how, m, n, a, m, extra, u, m, vt, n, work, length, NULL,
                              info);
}

/* The work of one matrix. */
static int run(const cuda_solver *s, const gpu_factors *f, uint64_t i, void *work, int length)
{
    const uint64_t bytes = gpu_code_bytes(f->dtype);
    const uint64_t extra_bytes =
        f->kind == GPU_FACTOR_LU || f->kind == GPU_FACTOR_SOLVE ? sizeof(int) : bytes;
    void *handle = s->base.handle,
         *a = cuda_place(f->a.memory, f->a.offset + i * f->rows * f->columns * bytes);
    void *extra = cuda_place(f->extra.memory, f->extra.offset + i * f->count * extra_bytes);
    int *info = cuda_place(f->infos.memory, f->infos.offset + i * sizeof(int));
    const int m = (int)f->rows, n = (int)f->columns, lda = m;
    switch (f->kind) {
    case GPU_FACTOR_CHOLESKY:
        return TYPED(s, f, potrf)(handle, triangle_of(f), n, a, lda, work, length, info);
    case GPU_FACTOR_LU:
        return TYPED(s, f, getrf)(handle, m, n, a, lda, work, extra, info);
    case GPU_FACTOR_SOLVE:
        return TYPED(s, f, getrs)(
            handle, f->is_transposed ? SOLVER_TRANSPOSED : SOLVER_PLAIN, n, (int)f->right_sides, a, lda,
            extra, cuda_place(f->b.memory, f->b.offset + i * f->columns * f->right_sides * bytes), n, info);
    case GPU_FACTOR_QR:
        return TYPED(s, f, geqrf)(handle, m, n, a, lda, extra, work, length, info);
    case GPU_FACTOR_REFLECTORS:
        return TYPED(s, f, orgqr)(handle, m, n, (int)f->count, a, lda, extra, work, length, info);
    case GPU_FACTOR_SINGULAR:
        return find_singular_values(s, f, i, a, extra, work, length, info);
    default:
        return TYPED(s, f, syevd)(handle, mode_of(f), triangle_of(f), n, a, lda, extra, work, length, info);
    }
}

/* Telling may ask the stream something. */
static int set_stream(cuda_solver *s, const void *queue)
{
    if (VENDOR_SOLVER_KEEPS_STREAM && s->stream == cuda_stream_of(queue)) return SOLVER_SUCCESS;
    int result = s->cusolverDnSetStream(s->base.handle, cuda_stream_of(queue));
    if (!result) s->stream = cuda_stream_of(queue);
    return result;
}

/* What the library does not do on the GPU it says when it is asked for the length of work. */
static int32_t meaning(int result)
{
    if (result == SOLVER_ARCH_MISMATCH || result == SOLVER_NOT_SUPPORTED) return TN_E_UNSUPPORTED;
    return result == SOLVER_ALLOC_FAILED ? TN_E_OUT_OF_MEMORY : TN_E_INTERNAL;
}

static int32_t factor(cuda_device *d, cuda_library *l, void *queue, const tn_call *call, const void *asked)
{
    cuda_solver *s = (cuda_solver *)l;
    const gpu_factors *f = asked;
    static const char *const names[] = {[GPU_FACTOR_CHOLESKY] = "potrf",   [GPU_FACTOR_LU] = "getrf",
                                        [GPU_FACTOR_SOLVE] = "getrs",      [GPU_FACTOR_QR] = "geqrf",
                                        [GPU_FACTOR_REFLECTORS] = "orgqr", [GPU_FACTOR_EIGENVALUES] = "syevd",
                                        [GPU_FACTOR_SINGULAR] = "gesvd"};
    char name[32];
    int length = 0;
    void *work = NULL;
    uint64_t offset = 0;
    int result = set_stream(s, queue);
    if (!result) result = length_of_work(s, f, &length);
    if (!result && length > 0) {
        int32_t status = gpu_workspace(call, (uint64_t)length * gpu_code_bytes(f->dtype), &work, &offset);
        if (status) return status;
    }
    for (uint64_t i = 0; i < f->batches && !result; i++)
        result = run(s, f, i, cuda_place(work, offset), length);
    if (!result) return TN_OK;
    snprintf(name, sizeof name, VENDOR_SOLVER_TYPED "%c%s", f->dtype == GPU_F64 ? 'D' : 'S', names[f->kind]);
    return cuda_library_error(d, l, call, result, name);
}

/* Whether a length may be so large that some versions of cuSOLVER give a wrong one: the square of the left vectors, or the
 * least work of LAPACK's eigenvectors. */
static int32_t may_wrap(const gpu_factors *f)
{
    const uint64_t m = f->rows, n = f->columns;
    const uint64_t least = f->kind == GPU_FACTOR_SINGULAR      ? m * m
                           : f->kind == GPU_FACTOR_EIGENVALUES ? 2 * n * n + 6 * n + 1
                                                               : 0;
    return VENDOR_SOLVER_WRAPS && least > INT_MAX;
}

/* For a length beyond an int the library gives an error or a negative number. The work itself reports any other error. */
static int32_t ask(cuda_device *d, cuda_library *l, void *queue, const tn_call *call, const void *asked)
{
    int length = 0;
    if (may_wrap(asked)) return TN_E_UNSUPPORTED;
    const int result = length_of_work((cuda_solver *)l, asked, &length);
    if (meaning(result) == TN_E_UNSUPPORTED) return TN_E_UNSUPPORTED;
    return VENDOR_SOLVER_IS_TOO_LONG(result) || (!result && length < 0) ? TN_E_UNSUPPORTED : TN_OK;
}

/* ---- The library -------------------------------------------------------------------------------------------- */

static size_t version(const cuda_library *l)
{
    int number = 0;
    VENDOR_SOLVER_VERSION((const cuda_solver *)l, &number);
    return (size_t)number;
}

static const char *status_name(const cuda_library *l, int status)
{
    static const char *const names[] = VENDOR_SOLVER_STATUSES;
    static const int count = sizeof names / sizeof *names;
    return status >= 0 && status < count ? names[status] : "unknown status";
}

static const cuda_library_kind kind = {.name = VENDOR_SOLVER,
                                       .work = "factors of matrices",
                                       .otherwise = "the CPU computes",
                                       .files = VENDOR_SOLVER_FILES,
                                       CUDA_LIBRARY_SYMBOLS(CUSOLVER_FUNCTIONS),
                                       .size = sizeof(cuda_solver),
                                       .has_one_stream = VENDOR_HANDLE_HAS_ONE_STREAM,
                                       .version = version,
                                       .least = VENDOR_SOLVER_LEAST,
                                       .status_name = status_name,
                                       .meaning = meaning};

const char *cuda_solver_can_factor(void *device, const tn_call *call, const gpu_factors *f)
{
    if (!cuda_library_of(device, &kind, 1)) return "no library for factors of matrices is installed";
    const int32_t status = cuda_library_run(device, &kind, ask, NULL, call, f);
    return status == TN_E_UNSUPPORTED ? "the library does not do such work, or cannot count the memory for it"
                                      : NULL;
}

int32_t cuda_solver_factor(void *device, void *queue, const tn_call *call, const gpu_factors *f)
{
    return cuda_library_run(device, &kind, factor, queue, call, f);
}
