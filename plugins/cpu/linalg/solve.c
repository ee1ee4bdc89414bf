/* SPDX-License-Identifier: Apache-2.0 */
/* Systems of equations by factors that are there (LU, LDL, a triangle). */
#include "batch.h"

typedef struct solve_job {
    const tensor *a, *pivots, *b, *out;
    bool left, adjoint, upper, unit, hermitian;
} solve_job;

/* Matrix, pivots and right-hand sides are read into scratch memory by each item. */
static int32_t run(const tn_call *call, const solve_job *job, tni_matrix_fn one)
{
    tni_batches b = tni_batches_of(call, job->out, 2, job->a->dtype);
    int64_t n = job->a->sizes[job->a->rank - 1];
    int64_t elements = job->out->sizes[job->out->rank - 2] * job->out->sizes[job->out->rank - 1];
    int32_t status = tni_check_lapack_sizes(call, job->out);
    if (status == TN_OK) status = tni_check_lapack_sizes(call, job->a);
    if (status != TN_OK) return status;
    b.job = job;
    b.run = one;
    b.cost = n * elements;
    b.scratch = tni_part(n * n, b.bytes) + tni_part(n, sizeof(int)) + tni_part(elements, b.bytes);
    return tni_batches_run(&b);
}

/* X op(A) = B is solved as op(A)^T X^T = B^T; a conjugate that LAPACK has no flag for is taken of B and X. */
static void lu_one(const tni_batches *b, int64_t item, char *scratch)
{
    const solve_job *job = b->job;
    tni_matrix lu = tni_matrix_of(b, job->a, item), right = tni_matrix_of(b, job->b, item),
               out = tni_matrix_of(b, job->out, item);
    if (!job->left) {
        right = tni_transposed(right);
        out = tni_transposed(out);
    }
    int n = (int)lu.rows, nrhs = (int)right.columns, ld = tni_leading(n), info;
    char trans = job->left ? (job->adjoint ? 'C' : 'N') : (job->adjoint ? 'N' : 'T');
    void *a = tni_take(&scratch, lu.rows * lu.columns, b->bytes);
    int *pivots = tni_take(&scratch, n, sizeof(int));
    void *x = tni_take(&scratch, right.rows * right.columns, b->bytes);
    bool conjugate = !job->left && job->adjoint;
    tni_matrix_read(lu, a, ld, b->bytes);
    tni_matrix_read(tni_vector_of(b, job->pivots, item), pivots, 1, sizeof(int));
    tni_matrix_read(right, x, ld, b->bytes);
    if (conjugate) tni_conjugate(b, x, right.rows * right.columns);
    if (n && nrhs) b->lapack->getrs(&trans, &n, &nrhs, a, &ld, pivots, x, &ld, &info, 1);
    if (conjugate) tni_conjugate(b, x, right.rows * right.columns);
    tni_matrix_write(x, ld, out, b->bytes);
}

/* Whether LAPACK may follow these pivots: rows from 1 to n; of LDL also pairs of negative ones. */
static bool pivots_fit(const int *pivots, int64_t step, int64_t n, bool pairs)
{
    for (int64_t i = 0; i < n; i++) {
        int pivot = pivots[i * step];
        if (pairs && pivot < 0) {
            if (++i == n || pivot < -n || pivots[i * step] >= 0 || pivots[i * step] < -n) return false;
        } else if (pivot < 1 || pivot > n) {
            return false;
        }
    }
    return true;
}

static int32_t check_pivots(const tn_call *call, const tensor *pivots, int64_t n, bool pairs)
{
    tni_batches b = tni_batches_of(call, pivots, 1, TN_FLOAT32);
    for (int64_t item = 0; item < b.count; item++) {
        tni_matrix m = tni_vector_of(&b, pivots, item);
        if (!pivots_fit((const int *)(const void *)m.at, m.row, n, pairs))
            return tni_fail(call, TN_E_INDEX,
                            "pivots: each must be from 1 to %lld, as a factorization gives them",
                            (long long)n);
    }
    return TN_OK;
}

/* (LU, pivots, B, left, adjoint) */
static int32_t run_lu_solve(void *self, const tn_call *call)
{
    solve_job job = {.a = arg_tensor(call, 0),
                     .pivots = arg_tensor(call, 1),
                     .b = arg_tensor(call, 2),
                     .out = out_tensor(call, 0),
                     .left = tn_value_as_bool(call->args[3]),
                     .adjoint = tn_value_as_bool(call->args[4])};
    int32_t status = check_pivots(call, job.pivots, job.a->sizes[job.a->rank - 1], false);
    return status ? status : run(call, &job, lu_one);
}

static void ldl_one(const tni_batches *b, int64_t item, char *scratch)
{
    const solve_job *job = b->job;
    tni_matrix ld_matrix = tni_matrix_of(b, job->a, item), right = tni_matrix_of(b, job->b, item);
    int n = (int)ld_matrix.rows, nrhs = (int)right.columns, ld = tni_leading(n), info;
    void *a = tni_take(&scratch, ld_matrix.rows * ld_matrix.columns, b->bytes);
    int *pivots = tni_take(&scratch, n, sizeof(int));
    void *x = tni_take(&scratch, right.rows * right.columns, b->bytes);
    tni_matrix_read(ld_matrix, a, ld, b->bytes);
    tni_matrix_read(tni_vector_of(b, job->pivots, item), pivots, 1, sizeof(int));
    tni_matrix_read(right, x, ld, b->bytes);
    if (n && nrhs)
        (job->hermitian ? b->lapack->hetrs : b->lapack->sytrs)("L", &n, &nrhs, a, &ld, pivots, x, &ld, &info,
                                                               1);
    tni_matrix_write(x, ld, tni_matrix_of(b, job->out, item), b->bytes);
}

/* (LD, pivots, B, hermitian) */
static int32_t run_ldl_solve(void *self, const tn_call *call)
{
    solve_job job = {.a = arg_tensor(call, 0),
                     .pivots = arg_tensor(call, 1),
                     .b = arg_tensor(call, 2),
                     .out = out_tensor(call, 0),
                     .hermitian = tn_value_as_bool(call->args[3])};
    int32_t status = check_pivots(call, job.pivots, job.a->sizes[job.a->rank - 1], true);
    return status ? status : run(call, &job, ldl_one);
}

static void triangular_one(const tni_batches *b, int64_t item, char *scratch)
{
    const solve_job *job = b->job;
    tni_matrix triangle = tni_matrix_of(b, job->a, item), right = tni_matrix_of(b, job->b, item);
    int n = (int)triangle.rows, m = (int)right.rows, columns = (int)right.columns, ld = tni_leading(n),
        ldb = tni_leading(m);
    const double one_d[2] = {1, 0};
    const float one_f[2] = {1, 0};
    void *a = tni_take(&scratch, triangle.rows * triangle.columns, b->bytes);
    tni_take(&scratch, n, sizeof(int));
    void *x = tni_take(&scratch, right.rows * right.columns, b->bytes);
    tni_matrix_read(triangle, a, ld, b->bytes);
    tni_matrix_read(right, x, ldb, b->bytes);
    if (m && columns)
        b->lapack->trsm(job->left ? "L" : "R", job->upper ? "U" : "L", "N", job->unit ? "U" : "N", &m,
                        &columns, b->real_bytes == 4 ? (const void *)one_f : one_d, a, &ld, x, &ldb, 1, 1, 1,
                        1);
    tni_matrix_write(x, ldb, tni_matrix_of(b, job->out, item), b->bytes);
}

/* (self, B, upper, left, unitriangular) */
static int32_t run_triangular(void *self, const tn_call *call)
{
    solve_job job = {.a = arg_tensor(call, 0),
                     .b = arg_tensor(call, 1),
                     .out = out_tensor(call, 0),
                     .upper = tn_value_as_bool(call->args[2]),
                     .left = tn_value_as_bool(call->args[3]),
                     .unit = tn_value_as_bool(call->args[4])};
    return run(call, &job, triangular_one);
}

const tn_kernel_row cpu_solve_rows[] = {
    TNI_LINALG_ROW("linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool "
                   "adjoint=False) -> Tensor",
                   run_lu_solve),
    TNI_LINALG_ROW("linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
                   run_ldl_solve),
    TNI_LINALG_ROW("linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool "
                   "unitriangular=False) -> Tensor",
                   run_triangular),
};
const uint32_t cpu_solve_row_count = TNI_ROW_COUNT(cpu_solve_rows);
