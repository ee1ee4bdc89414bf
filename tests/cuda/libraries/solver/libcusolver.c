/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcusolver.so.12 for tests, or a libhipsolver.so.1: factors of matrices in the test driver's memory, on its streams, in float64 by the plainest
 * algorithms. It reads only the triangle that it is told to read, writes over its work, and refuses sizes that cannot be.
 * SOLVER_TEST_LENGTH=N is the length of any work.
 */
#include "cusolver.h"
#include "stand_in.h"

#include <math.h>

CUSOLVER_FUNCTIONS(DECLARE)
/* Matrices, handles that the plugin has not given back, how often one was told of a stream. */
enum { MATRICES, LIVE, STREAMS };

typedef struct handle {
    CUstream stream;
    turns turns;
} handle;

/* ---- Algorithms --------------------------------------------------------------------------------------------- */

typedef enum algorithm { CHOLESKY, LU, SOLVE, QR, REFLECTORS, EIGENVALUES, SINGULAR } algorithm;

/* The matrix a has m rows and n columns; b has m rows. `flag`: upper, or transposed. */
typedef struct job {
    algorithm algorithm;
    int is_double, flag, wants_vectors, m, n, k;
    CUdeviceptr a, b, extra, info, work;
    size_t work_bytes;
    CUdeviceptr c; /* vectors of the right */
    handle *handle;
    int number;
} job;

static int factor_cholesky(const job *j, double *a)
{
    const int n = j->n, down = j->flag ? n : 1,
              across = j->flag ? 1 : n; /* an upper factor is a lower one, transposed */
    for (int c = 0; c < n; c++) {
        for (int r = c; r < n; r++) {
            double sum = a[r * down + c * across];
            for (int i = 0; i < c; i++) sum -= a[r * down + i * across] * a[c * down + i * across];
            if (r == c && !(sum > 0)) return c + 1;
            a[r * down + c * across] = r == c ? sqrt(sum) : sum / a[c * down + c * across];
        }
    }
    return 0;
}

static int factor_lu(const job *j, double *a, int *pivots)
{
    const int m = j->m, n = j->n;
    int info = 0;
    for (int c = 0; c < m && c < n; c++) {
        int best = c;
        for (int r = c + 1; r < m; r++)
            if (fabs(a[r + c * m]) > fabs(a[best + c * m])) best = r;
        pivots[c] = best + 1;
        if (a[best + c * m] == 0) {
            if (!info) info = c + 1;
            continue;
        }
        for (int i = 0; i < n && best != c; i++) {
            double swapped = a[c + i * m];
            a[c + i * m] = a[best + i * m];
            a[best + i * m] = swapped;
        }
        for (int r = c + 1; r < m; r++) {
            double factor = a[r + c * m] /= a[c + c * m];
            for (int i = c + 1; i < n; i++) a[r + i * m] -= factor * a[c + i * m];
        }
    }
    return info;
}

/* Solves with a triangle of the factors; the lower one has ones on its diagonal, also when it is transposed. */
static void solve_triangle(const double *a, int n, int is_lower, int is_transposed, double *x)
{
    const int goes_down = is_lower != is_transposed;
    for (int i = 0; i < n; i++) {
        const int r = goes_down ? i : n - 1 - i;
        for (int k = 0; k < i; k++) {
            const int c = goes_down ? k : n - 1 - k;
            x[r] -= (is_transposed ? a[c + r * n] : a[r + c * n]) * x[c];
        }
        if (!is_lower) x[r] /= a[r + r * n];
    }
}

static void swap_rows(const int *pivots, int n, int forwards, double *x)
{
    for (int i = 0; i < n; i++) {
        const int r = forwards ? i : n - 1 - i, other = pivots[r] - 1;
        double swapped = x[r];
        x[r] = x[other];
        x[other] = swapped;
    }
}

static void solve(const job *j, const double *a, const int *pivots, double *b)
{
    for (int c = 0; c < j->k; c++) {
        double *x = b + c * j->n;
        if (!j->flag) swap_rows(pivots, j->n, 1, x);
        solve_triangle(a, j->n, !j->flag, j->flag, x);
        solve_triangle(a, j->n, j->flag, j->flag, x);
        if (j->flag) swap_rows(pivots, j->n, 0, x);
    }
}

/* a -= tau v (v' a), for the columns from `first` on; v has a one in row c, and below it what column c of `of` has. */
static void reflect(const double *of, double tau, int c, int m, double *a, int first, int n)
{
    for (int i = first; i < n; i++) {
        double sum = a[c + i * m];
        for (int r = c + 1; r < m; r++) sum += of[r + c * m] * a[r + i * m];
        a[c + i * m] -= tau * sum;
        for (int r = c + 1; r < m; r++) a[r + i * m] -= tau * sum * of[r + c * m];
    }
}

static void factor_qr(const job *j, double *a, double *tau)
{
    for (int c = 0; c < j->m && c < j->n; c++) {
        double below = 0, here = a[c + c * j->m];
        for (int r = c + 1; r < j->m; r++) below += a[r + c * j->m] * a[r + c * j->m];
        tau[c] = 0;
        if (below == 0) continue;
        const double length = -copysign(sqrt(here * here + below), here);
        tau[c] = (length - here) / length;
        for (int r = c + 1; r < j->m; r++) a[r + c * j->m] /= here - length;
        reflect(a, tau[c], c, j->m, a, c + 1, j->n);
        a[c + c * j->m] = length;
    }
}

/* The first n columns of the product of k reflections. `a` has room for two such matrices. */
static void multiply_reflectors(const job *j, double *a, const double *tau)
{
    const int m = j->m, n = j->n;
    double *q = a + m * n;
    for (int i = 0; i < m * n; i++) q[i] = i % m == i / m;
    for (int c = j->k - 1; c >= 0; c--) reflect(a, tau[c], c, m, q, 0, n);
    memcpy(a, q, (size_t)(m * n) * sizeof *a);
}

/* Rotates rows and columns p and q of a symmetric matrix, so that the element between them becomes 0; and vectors. */
static void rotate(double *a, double *v, int n, int p, int q)
{
    const double between = a[p + q * n];
    if (between == 0) return;
    const double theta = (a[q + q * n] - a[p + p * n]) / (2 * between);
    const double t = copysign(1, theta) / (fabs(theta) + sqrt(theta * theta + 1)), c = 1 / sqrt(t * t + 1),
                 s = t * c;
    for (int pass = 0; pass < 3; pass++) { /* columns, rows, vectors */
        double *of = pass == 2 ? v : a;
        for (int i = 0; i < n; i++) {
            double *x = pass == 1 ? &of[p + i * n] : &of[i + p * n],
                   *y = pass == 1 ? &of[q + i * n] : &of[i + q * n];
            const double old = *x;
            *x = c * old - s * *y;
            *y = s * old + c * *y;
        }
    }
}

/* By Jacobi's rotations. `a` has room for two matrices. A matrix with NaN does not converge. */
static int find_eigenvalues(const job *j, double *a, double *w)
{
    const int n = j->n;
    double *v = a + n * n;
    for (int i = 0; i < n * n; i++) {
        const int r = i % n, c = i / n;
        if (isnan(a[i])) return 1;
        v[i] = r == c;
        if (j->flag ? r > c : r < c) a[i] = a[c + r * n];
    }
    for (int round = 0; round < 60; round++)
        for (int i = 0; i < n * n; i++)
            if (i % n < i / n) rotate(a, v, n, i % n, i / n);
    for (int c = 0; c < n; c++) { /* the smallest first */
        int best = -1;
        for (int i = 0; i < n; i++)
            if (!isnan(a[i + i * n]) && (best < 0 || a[i + i * n] < a[best + best * n])) best = i;
        w[c] = a[best + best * n];
        a[best + best * n] = NAN;
        for (int r = 0; r < n; r++) w[n + c * n + r] = j->wants_vectors ? v[r + best * n] : NAN;
    }
    memcpy(a, w + n, (size_t)(n * n) * sizeof *a);
    return 0;
}

/* Column c of a matrix of m rows above column c of one of n: the matrix and its vectors, of which `vt` has the rows. */
static double *stacked(double *a, double *vt, int m, int n, int c, int row)
{
    return row < m ? &a[row + c * m] : &vt[c + (row - m) * n];
}

static double dot(const double *x, const double *y, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* Jacobi's rotation of columns p and q, after which they are orthogonal. */
static void rotate_columns(double *a, double *vt, int m, int n, int p, int q)
{
    const double pq = dot(a + p * m, a + q * m, m);
    if (pq == 0) return;
    const double theta = (dot(a + q * m, a + q * m, m) - dot(a + p * m, a + p * m, m)) / (2 * pq);
    const double t = copysign(1, theta) / (fabs(theta) + sqrt(theta * theta + 1));
    const double c = 1 / sqrt(t * t + 1), s = t * c;
    for (int r = 0; r < m + n; r++) {
        double *x = stacked(a, vt, m, n, p, r), *y = stacked(a, vt, m, n, q, r);
        const double old = *x;
        *x = c * old - s * *y;
        *y = s * old + c * *y;
    }
}

/* Swaps column c with the longest one from there on, and gives the square of its length. */
static double put_longest_first(double *a, double *vt, int m, int n, int c)
{
    int best = c;
    double most = -1;
    for (int i = c; i < n; i++) {
        const double length = dot(a + i * m, a + i * m, m);
        if (length > most) most = length, best = i;
    }
    for (int r = 0; r < m + n; r++) {
        double *x = stacked(a, vt, m, n, c, r), *y = stacked(a, vt, m, n, best, r);
        const double old = *x;
        *x = *y;
        *y = old;
    }
    return most;
}

/* Columns `from` to k of u: what is left of unit vectors beside the columns before. */
static void complete_columns(double *u, int m, int from, int k)
{
    for (int c = from, unit = 0; c < k; unit++) {
        double *x = &u[c * m];
        for (int r = 0; r < m; r++) x[r] = r == unit;
        for (int i = 0; i < 2 * c; i++) { /* twice, for what rounding leaves */
            const double *other = &u[i % c * m];
            const double part = dot(x, other, m);
            for (int r = 0; r < m; r++) x[r] -= part * other[r];
        }
        const double length = dot(x, x, m);
        if (length < 1e-6) continue;
        for (int r = 0; r < m; r++) x[r] /= sqrt(length);
        c++;
    }
}

/*
 * Of a matrix of at least as many rows as columns: Jacobi's rotations of the columns until they are orthogonal. Their lengths
 * are the values. `u` receives k columns, of which those without a value are made orthogonal to the others; `vt` n rows.
 */
static int find_singular_values(const job *j, double *a, double *values, double *u, double *vt)
{
    const int m = j->m, n = j->n;
    for (int i = 0; i < m * n; i++)
        if (isnan(a[i])) return 2;
    for (int i = 0; i < n * n; i++) vt[i] = i % n == i / n;
    for (int i = 0; i < 60 * n * n; i++)
        if (i % n < i / n % n) rotate_columns(a, vt, m, n, i % n, i / n % n);
    int whole = 0; /* columns of u that are there: those of other values than 0 */
    for (int c = 0; c < n; c++) {
        const double most = put_longest_first(a, vt, m, n, c);
        values[c] = sqrt(most);
        if (most > 0) whole = c + 1;
        for (int r = 0; r < m; r++) u[r + c * m] = a[r + c * m] / values[c];
    }
    complete_columns(u, m, whole, j->k);
    return 0;
}

/* ---- Memory ------------------------------------------------------------------------------------------------- */

static void move_numbers(int is_double, char *device, double *host, int64_t n, int is_write)
{
    const tn_dtype dtype = is_double ? TN_FLOAT64 : TN_FLOAT32;
    for (int64_t i = 0; i < n; i++) {
        char *at = device + i * (is_double ? 8 : 4);
        if (is_write)
            tn_number_store(dtype, at, tn_number_real(host[i]));
        else
            host[i] = tn_number_load(dtype, at).f;
    }
}

static CUresult run(CUcontext context, void *data)
{
    const job *j = data;
    const int64_t size = (int64_t)j->m * j->n, sides = j->algorithm == SOLVE      ? (int64_t)j->n * j->k
                                                       : j->algorithm == SINGULAR ? (int64_t)j->m * j->k
                                                                                  : 0;
    const int64_t squares = j->algorithm == SINGULAR && j->k ? (int64_t)j->n * j->n : 0;
    const int64_t extra = j->algorithm == REFLECTORS ? j->k : j->m < j->n ? j->m : j->n;
    const size_t bytes = j->is_double ? 8 : 4;
#ifdef HIP
    if (!is_in_turn(&j->handle->turns, j->number)) return CUDA_ERROR_LAUNCH_TIMEOUT;
#endif
    const int has_pivots = j->algorithm == LU || j->algorithm == SOLVE;
    char *a = cuda_test_place(context, j->a, (size_t)size * bytes);
    char *b = sides ? cuda_test_place(context, j->b, (size_t)sides * bytes) : a;
    char *e = j->algorithm == CHOLESKY
                  ? a
                  : cuda_test_place(context, j->extra, (size_t)extra * (has_pivots ? 4 : bytes));
    char *c = squares ? cuda_test_place(context, j->c, (size_t)squares * bytes) : a;
    int *info = cuda_test_place(context, j->info, sizeof *info);
    if (!a || !b || !c || !e || !info || !use_workspace(context, j->work, j->work_bytes))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    double *numbers = calloc((size_t)(5 * size + sides + extra), sizeof *numbers), *x = numbers + 3 * size;
    double *u = x + extra;
    if (!numbers) return CUDA_ERROR_OUT_OF_MEMORY;
    move_numbers(j->is_double, a, numbers, size, 0);
    *info = 0;
    switch (j->algorithm) {
    case CHOLESKY:
        *info = factor_cholesky(j, numbers);
        break;
    case LU:
        *info = factor_lu(j, numbers, (int *)(void *)e);
        break;
    case SOLVE:
        move_numbers(j->is_double, b, x, sides, 0);
        solve(j, numbers, (const int *)(const void *)e, x);
        move_numbers(j->is_double, b, x, sides, 1);
        break;
    case QR:
        factor_qr(j, numbers, x);
        break;
    case REFLECTORS:
        move_numbers(j->is_double, e, x, extra, 0);
        multiply_reflectors(j, numbers, x);
        break;
    case EIGENVALUES:
        *info = find_eigenvalues(j, numbers, x);
        break;
    case SINGULAR:
        *info = find_singular_values(j, numbers, x, j->k ? u : numbers + size, numbers + 2 * size);
        if (j->k) move_numbers(j->is_double, b, u, sides, 1);
        if (j->k) move_numbers(j->is_double, c, numbers + 2 * size, squares, 1);
    }
    if (j->algorithm != SOLVE) move_numbers(j->is_double, a, numbers, size, 1);
    if (j->algorithm == QR || j->algorithm == EIGENVALUES || j->algorithm == SINGULAR)
        move_numbers(j->is_double, e, x, extra, 1);
    free(numbers);
    return CUDA_SUCCESS;
}

/* ---- Functions ---------------------------------------------------------------------------------------------- */

static CUdeviceptr at(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

/* The work of a function for each element, in elements. */
static int ask(const char *function, int elements, int *out)
{
    const char *length = getenv("SOLVER_TEST_LENGTH");
    FAULT(function);
    *out = length ? atoi(length) : 2 * elements + 32;
    return SOLVER_SUCCESS;
}

static int start(const char *function, void *h, int lda, job j)
{
    FAULT(function);
    if (lda < j.m || j.m < 1 || j.n < 1) return SOLVER_INVALID_VALUE;
    count(MATRICES, 1);
    j.handle = h;
    j.number = j.handle->turns.queued;
    if (library_queue(j.handle->stream, run, &j, sizeof j)) return SOLVER_EXECUTION_FAILED;
    j.handle->turns.queued++;
    return SOLVER_SUCCESS;
}

#define IS_DOUBLE   0
#define NAMED(name) cusolverDnS##name
#include "libcusolver_typed.h"
#undef IS_DOUBLE
#undef NAMED
#define IS_DOUBLE   1
#define NAMED(name) cusolverDnD##name
#include "libcusolver_typed.h"

int cusolverDnCreate(void **out)
{
    const handle none = {.stream = NULL};
    FAULT(__func__);
    if (!has_context() || !has_memory()) return 1; /* not initialized */
    return make_object(out, &none, sizeof none, LIVE) ? SOLVER_SUCCESS : SOLVER_ALLOC_FAILED;
}

int cusolverDnDestroy(void *h)
{
    return destroy_object(h, sizeof(handle), LIVE);
}

int cusolverDnSetStream(void *h, void *stream)
{
    FAULT(__func__);
    count(STREAMS, 1);
    ((handle *)h)->stream = stream;
    return SOLVER_SUCCESS;
}

#ifndef HIP
int cusolverGetVersion(int *out)
{
    const char *text = getenv("SOLVER_TEST_VERSION");
    *out = text ? atoi(text) : 12000;
    return SOLVER_SUCCESS;
}
#endif
