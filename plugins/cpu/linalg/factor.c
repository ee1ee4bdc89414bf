/* SPDX-License-Identifier: Apache-2.0 */
/* Factorizations: LU with partial pivoting, Cholesky, LDL; lu_unpack and _linalg_check_errors. */
#include "batch.h"
#include <math.h>
#include <string.h>

/* ---- with infos and, where the operator has them, pivots ---- */

typedef struct factor_job {
    const tn_tensor_desc *in, *out, *pivots;
    const char *name; /* for errors */
    const tn_tensor_desc *info;
    bool check;
    char uplo;
    bool hermitian;
} factor_job;

static int32_t finish(const cpu_batches *b)
{
    const factor_job *job = b->job;
    cpu_write_infos(b, job->info);
    return job->check ? cpu_info_error(b->call, job->name, b->infos, b->count, job->in->rank == 2) : TN_OK;
}

/* Scratch memory holds the matrix, the pivots and LAPACK's work array. */
static int32_t run(const tn_call *call, const factor_job *job, cpu_matrix_fn one, int64_t work)
{
    cpu_batches b = cpu_batches_of(call, job->in, 2, job->in->dtype);
    int64_t rows = job->in->sizes[job->in->rank - 2], columns = job->in->sizes[job->in->rank - 1];
    int32_t status = cpu_check_lapack_sizes(call, job->in);
    if (status != TN_OK) return status;
    b.job = job;
    b.run = one;
    b.cost = rows * columns * min_i64(rows, columns);
    b.scratch = cpu_part_bytes(rows * columns, b.bytes) +
                cpu_part_bytes(min_i64(rows, columns), sizeof(int)) + cpu_part_bytes(work, b.bytes);
    return cpu_batches_run_with_infos(&b, finish);
}

/*
 * In float32, some versions of OpenBLAS (0.3.21 on Haswell) take a scale that is NaN for 0, so that elimination with a
 * NaN as pivot would leave finite numbers. Writes NaN where elimination has it: below and to the right of the first such
 * pivot. Rows stay as they were exchanged; a later pivot of 0 comes from the zeros.
 */
static void spread_nan(const cpu_batches *b, float *a, int m, int n, int *info)
{
    int k = 0, end = b->bytes == 4 ? min_i64(m, n) : 0;
    while (k < end && !isnan(a[(int64_t)k * (m + 1)])) k++;
    if (k == end) return;
    for (int64_t j = k; j < n; j++) {
        for (int64_t i = k + 1; i < m; i++) a[j * m + i] = NAN;
    }
    if (*info > k) *info = 0;
}

static void lu_one(const cpu_batches *b, int64_t item, char *scratch)
{
    const factor_job *job = b->job;
    cpu_matrix in = cpu_matrix_of(b, job->in, item);
    int m = (int)in.rows, n = (int)in.columns, ld = cpu_leading(m);
    void *a = cpu_take_part(&scratch, in.rows * in.columns, b->bytes);
    int *pivots = cpu_take_part(&scratch, min_i64(m, n), sizeof(int));
    cpu_matrix_read(in, a, ld, b->bytes);
    if (m && n) b->lapack->getrf(&m, &n, a, &ld, pivots, &b->infos[item]);
    spread_nan(b, a, m, n, &b->infos[item]);
    cpu_matrix_write(a, ld, cpu_matrix_of(b, job->out, item), b->bytes);
    cpu_matrix_write(pivots, 1, cpu_vector_of(b, job->pivots, item), sizeof(int));
}

/* (self, ..., check_errors) -> factors, pivots, info */
static factor_job pivoted_job(const tn_call *call, const char *name)
{
    return (factor_job){.in = tensor_arg(call, 0),
                        .out = tensor_out(call, 0),
                        .pivots = tensor_out(call, 1),
                        .name = name,
                        .info = tensor_out(call, 2),
                        .check = bool_arg(call, 2)};
}

/* (A, pivot, check_errors) -> LU, pivots, info */
static int32_t run_lu_factor(void *self, const tn_call *call)
{
    const factor_job job = pivoted_job(call, "linalg.lu_factor_ex");
    if (!bool_arg(call, 1))
        return cpu_error(call, TN_E_ARGUMENT,
                         "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
    return run(call, &job, lu_one, 0);
}

/* Zeroes the triangle that the factor does not use. */
static void clear_other_side(const cpu_batches *b, char *a, int64_t n, char uplo)
{
    for (int64_t j = 0; j < n; j++) {
        int64_t first = uplo == 'L' ? 0 : j + 1, end = uplo == 'L' ? j : n;
        if (end > first) memset(a + (j * n + first) * b->bytes, 0, (size_t)((end - first) * b->bytes));
    }
}

/*
 * The order of the first leading minor that is not positive-definite: `info`, or less if the factor has a NaN on its
 * diagonal before. Not every LAPACK takes NaN for a pivot that is not positive.
 */
static int first_bad_minor(const cpu_batches *b, const char *a, int n, int info)
{
    int end = info > 0 ? info - 1 : n;
    for (int i = 0; i < end; i++) {
        const char *pivot = a + (int64_t)i * (n + 1) * b->bytes;
        if (b->real_bytes == 4 ? isnan(*(const float *)(const void *)pivot)
                               : isnan(*(const double *)(const void *)pivot))
            return i + 1;
    }
    return info;
}

static void cholesky_one(const cpu_batches *b, int64_t item, char *scratch)
{
    const factor_job *job = b->job;
    cpu_matrix in = cpu_matrix_of(b, job->in, item);
    int n = (int)in.rows, ld = cpu_leading(n);
    char *a = cpu_take_part(&scratch, in.rows * in.columns, b->bytes);
    cpu_matrix_read(in, a, ld, b->bytes);
    if (n) b->lapack->potrf(&job->uplo, &n, a, &ld, &b->infos[item], 1);
    b->infos[item] = first_bad_minor(b, a, n, b->infos[item]);
    clear_other_side(b, a, n, job->uplo);
    cpu_matrix_write(a, ld, cpu_matrix_of(b, job->out, item), b->bytes);
}

/* (self, upper, check_errors) -> L, info */
static int32_t run_cholesky(void *self, const tn_call *call)
{
    factor_job job = {.in = tensor_arg(call, 0),
                      .out = tensor_out(call, 0),
                      .name = "linalg.cholesky_ex",
                      .info = tensor_out(call, 1),
                      .check = bool_arg(call, 2),
                      .uplo = bool_arg(call, 1) ? 'U' : 'L'};
    return run(call, &job, cholesky_one, 0);
}

/* The blocked form works on panels of 64 columns. */
#define LDL_WORK(n) (64 * max_i64(n, 1))

static void ldl_one(const cpu_batches *b, int64_t item, char *scratch)
{
    const factor_job *job = b->job;
    cpu_matrix in = cpu_matrix_of(b, job->in, item);
    int n = (int)in.rows, ld = cpu_leading(n), length = (int)min_i64(LDL_WORK(n), 1 << 30);
    void *a = cpu_take_part(&scratch, in.rows * in.columns, b->bytes);
    int *pivots = cpu_take_part(&scratch, n, sizeof(int));
    void *work = cpu_take_part(&scratch, LDL_WORK(n), b->bytes);
    cpu_matrix_read(in, a, ld, b->bytes);
    if (n)
        (job->hermitian ? b->lapack->hetrf : b->lapack->sytrf)(&job->uplo, &n, a, &ld, pivots, work, &length,
                                                               &b->infos[item], 1);
    clear_other_side(b, a, n, job->uplo);
    cpu_matrix_write(a, ld, cpu_matrix_of(b, job->out, item), b->bytes);
    cpu_matrix_write(pivots, 1, cpu_vector_of(b, job->pivots, item), sizeof(int));
}

/* (self, hermitian, check_errors) -> LD, pivots, info */
static int32_t run_ldl(void *self, const tn_call *call)
{
    factor_job job = pivoted_job(call, "linalg.ldl_factor_ex");
    job.uplo = 'L';
    job.hermitian = bool_arg(call, 1);
    return run(call, &job, ldl_one, LDL_WORK(job.in->sizes[job.in->rank - 1]));
}

/* ---- LU taken apart ---- */

typedef struct unpack_job {
    const tn_tensor_desc *lu, *pivots, *p, *l, *u;
} unpack_job;

static void unpack_permutation(const cpu_batches *b, const unpack_job *job, int64_t item, int *order)
{
    cpu_matrix p = cpu_matrix_of(b, job->p, item), pivots = cpu_vector_of(b, job->pivots, item);
    cpu_fill_zero(p, b->bytes);
    for (int64_t i = 0; i < p.rows; i++) order[i] = (int)i;
    for (int64_t i = 0; i < pivots.rows; i++) {
        int other, here = order[i];
        memcpy(&other, pivots.at + i * pivots.row * (int64_t)sizeof(int), sizeof(int));
        order[i] = order[other - 1];
        order[other - 1] = here;
    }
    for (int64_t i = 0; i < p.rows; i++) {
        cpu_matrix one = p;
        one.at += (order[i] * p.row + i * p.column) * b->bytes;
        cpu_fill_unit(b, cpu_corner(one, 1, 1));
    }
}

/* Copies column j of `from`, rows first to end. */
static void copy_part(cpu_matrix from, cpu_matrix to, int64_t j, int64_t first, int64_t end, int64_t bytes)
{
    for (int64_t i = first; i < end; i++)
        memcpy(to.at + (i * to.row + j * to.column) * bytes,
               from.at + (i * from.row + j * from.column) * bytes, (size_t)bytes);
}

static void unpack_one(const cpu_batches *b, int64_t item, char *scratch)
{
    const unpack_job *job = b->job;
    if (job->l) {
        cpu_matrix lu = cpu_matrix_of(b, job->lu, item), l = cpu_matrix_of(b, job->l, item),
                   u = cpu_matrix_of(b, job->u, item);
        cpu_fill_unit(b, l);
        cpu_fill_zero(u, b->bytes);
        for (int64_t j = 0; j < l.columns; j++) copy_part(lu, l, j, j + 1, l.rows, b->bytes);
        for (int64_t j = 0; j < u.columns; j++) copy_part(lu, u, j, 0, min_i64(j + 1, u.rows), b->bytes);
    }
    if (job->p) unpack_permutation(b, job, item, (int *)(void *)scratch);
}

/* (LU_data, LU_pivots, unpack_data, unpack_pivots) -> P, L, U */
static int32_t run_unpack(void *self, const tn_call *call)
{
    bool data = bool_arg(call, 2), pivots = bool_arg(call, 3);
    unpack_job job = {tensor_arg(call, 0), tensor_arg(call, 1), pivots ? tensor_out(call, 0) : NULL,
                      data ? tensor_out(call, 1) : NULL, data ? tensor_out(call, 2) : NULL};
    cpu_batches b = cpu_batches_of(call, job.lu, 2, job.lu->dtype);
    int64_t rows = job.lu->sizes[job.lu->rank - 2];
    int32_t status = pivots ? cpu_check_pivots(call, job.pivots, "LU_pivots", rows, false) : TN_OK;
    if (status) return status;
    b.job = &job;
    b.run = unpack_one;
    b.cost = rows * max_i64(rows, job.lu->sizes[job.lu->rank - 1]);
    b.scratch = rows * (int64_t)sizeof(int);
    return cpu_batches_run(&b);
}

/* ---- infos ---- */

/* (info, api_name, is_matrix): an error if an info is not 0. */
static int32_t run_check_errors(void *self, const tn_call *call)
{
    const tn_tensor_desc *info = tensor_arg(call, 0);
    int64_t count = cpu_numel(info);
    return cpu_info_error(call, call->args[1].as.string, info->host, count, bool_arg(call, 2));
}

static const tn_dtype int32_dtypes[] = {TN_INT32, 0};

const tn_kernel_row cpu_factor_rows[] = {
    CPU_LINALG_ROW("linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor "
                   "LU, Tensor pivots, Tensor info)",
                   run_lu_factor),
    CPU_LINALG_ROW("linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor "
                   "L, Tensor info)",
                   run_cholesky),
    CPU_LINALG_ROW("linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> "
                   "(Tensor LD, Tensor pivots, Tensor info)",
                   run_ldl),
    CPU_LINALG_ROW("lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool "
                   "unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)",
                   run_unpack),
    {.size = sizeof(tn_kernel_row),
     .strides = TN_STRIDES_CONTIGUOUS,
     .schema = "aten::_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()",
     .dtypes = int32_dtypes,
     .run = run_check_errors},
};
const uint32_t cpu_factor_row_count = CPU_ROW_COUNT(cpu_factor_rows);
