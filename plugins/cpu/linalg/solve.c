/* SPDX-License-Identifier: Apache-2.0 */
/* Linear systems with factored matrices: LU, LDL, triangular. */
#include "batch.h"

typedef struct solve_job {
    const tn_tensor_desc *a, *pivots, *b, *out;
    bool left, adjoint, upper, unit, hermitian;
} solve_job;

/* Each item reads its matrix, pivots and right-hand sides into scratch memory. */
static int32_t run(const tn_call *call, const solve_job *job, cpu_matrix_fn one)
{
    cpu_batches b = cpu_batches_of(call, job->out, 2, job->a->dtype);
    int64_t n = job->a->sizes[job->a->rank - 1];
    int64_t elements = job->out->sizes[job->out->rank - 2] * job->out->sizes[job->out->rank - 1];
    int32_t status = cpu_check_lapack_sizes(call, job->out);
    if (status == TN_OK) status = cpu_check_lapack_sizes(call, job->a);
    if (status != TN_OK) return status;
    b.job = job;
    b.run = one;
    b.cost = n * elements;
    b.scratch =
        cpu_part_bytes(n * n, b.bytes) + cpu_part_bytes(n, sizeof(int)) + cpu_part_bytes(elements, b.bytes);
    return cpu_batches_run(&b);
}

/* X op(A) = B is solved as op(A)^T X^T = B^T. LAPACK has no flag for a conjugate without transposition, so
 * B and X are conjugated instead. */
static void lu_one(const cpu_batches *b, int64_t item, char *scratch)
{
    const solve_job *job = b->job;
    cpu_matrix lu = cpu_matrix_of(b, job->a, item), right = cpu_matrix_of(b, job->b, item),
               out = cpu_matrix_of(b, job->out, item);
    if (!job->left) {
        right = cpu_transposed(right);
        out = cpu_transposed(out);
    }
    int n = (int)lu.rows, nrhs = (int)right.columns, ld = cpu_leading(n), info;
    char trans = job->left ? (job->adjoint ? 'C' : 'N') : (job->adjoint ? 'N' : 'T');
    void *a = cpu_take_part(&scratch, lu.rows * lu.columns, b->bytes);
    int *pivots = cpu_take_part(&scratch, n, sizeof(int));
    void *x = cpu_take_part(&scratch, right.rows * right.columns, b->bytes);
    bool conjugate = !job->left && job->adjoint;
    cpu_matrix_read(lu, a, ld, b->bytes);
    cpu_matrix_read(cpu_vector_of(b, job->pivots, item), pivots, 1, sizeof(int));
    cpu_matrix_read(right, x, ld, b->bytes);
    if (conjugate) cpu_conjugate(b, x, right.rows * right.columns);
    if (n && nrhs) b->lapack->getrs(&trans, &n, &nrhs, a, &ld, pivots, x, &ld, &info, 1);
    if (conjugate) cpu_conjugate(b, x, right.rows * right.columns);
    cpu_matrix_write(x, ld, out, b->bytes);
}

/* The arguments that all solvers with a factorization begin with: (factors, pivots, B). */
static solve_job factored_job(const tn_call *call)
{
    return (solve_job){.a = tensor_arg(call, 0),
                       .pivots = tensor_arg(call, 1),
                       .b = tensor_arg(call, 2),
                       .out = tensor_out(call, 0)};
}

static int32_t run_factored(const tn_call *call, const solve_job *job, bool pairs, cpu_matrix_fn one)
{
    int32_t status = cpu_check_pivots(call, job->pivots, "pivots", job->a->sizes[job->a->rank - 1], pairs);
    return status ? status : run(call, job, one);
}

/* (LU, pivots, B, left, adjoint) */
static int32_t run_lu_solve(void *self, const tn_call *call)
{
    solve_job job = factored_job(call);
    job.left = bool_arg(call, 3);
    job.adjoint = bool_arg(call, 4);
    return run_factored(call, &job, false, lu_one);
}

static void ldl_one(const cpu_batches *b, int64_t item, char *scratch)
{
    const solve_job *job = b->job;
    cpu_matrix ld_matrix = cpu_matrix_of(b, job->a, item), right = cpu_matrix_of(b, job->b, item);
    int n = (int)ld_matrix.rows, nrhs = (int)right.columns, ld = cpu_leading(n), info;
    void *a = cpu_take_part(&scratch, ld_matrix.rows * ld_matrix.columns, b->bytes);
    int *pivots = cpu_take_part(&scratch, n, sizeof(int));
    void *x = cpu_take_part(&scratch, right.rows * right.columns, b->bytes);
    cpu_matrix_read(ld_matrix, a, ld, b->bytes);
    cpu_matrix_read(cpu_vector_of(b, job->pivots, item), pivots, 1, sizeof(int));
    cpu_matrix_read(right, x, ld, b->bytes);
    if (n && nrhs)
        (job->hermitian ? b->lapack->hetrs : b->lapack->sytrs)("L", &n, &nrhs, a, &ld, pivots, x, &ld, &info,
                                                               1);
    cpu_matrix_write(x, ld, cpu_matrix_of(b, job->out, item), b->bytes);
}

/* (LD, pivots, B, hermitian) */
static int32_t run_ldl_solve(void *self, const tn_call *call)
{
    solve_job job = factored_job(call);
    job.hermitian = bool_arg(call, 3);
    return run_factored(call, &job, true, ldl_one);
}

static void triangular_one(const cpu_batches *b, int64_t item, char *scratch)
{
    const solve_job *job = b->job;
    cpu_matrix triangle = cpu_matrix_of(b, job->a, item), right = cpu_matrix_of(b, job->b, item);
    int n = (int)triangle.rows, m = (int)right.rows, columns = (int)right.columns, ld = cpu_leading(n),
        ldb = cpu_leading(m);
    const double one_d[2] = {1, 0};
    const float one_f[2] = {1, 0};
    void *a = cpu_take_part(&scratch, triangle.rows * triangle.columns, b->bytes);
    cpu_take_part(&scratch, n, sizeof(int));
    void *x = cpu_take_part(&scratch, right.rows * right.columns, b->bytes);
    cpu_matrix_read(triangle, a, ld, b->bytes);
    cpu_matrix_read(right, x, ldb, b->bytes);
    if (m && columns)
        b->lapack->trsm(job->left ? "L" : "R", job->upper ? "U" : "L", "N", job->unit ? "U" : "N", &m,
                        &columns, b->real_bytes == 4 ? (const void *)one_f : one_d, a, &ld, x, &ldb, 1, 1, 1,
                        1);
    cpu_matrix_write(x, ldb, cpu_matrix_of(b, job->out, item), b->bytes);
}

/* (self, B, upper, left, unitriangular) */
static int32_t run_triangular(void *self, const tn_call *call)
{
    solve_job job = {.a = tensor_arg(call, 0),
                     .b = tensor_arg(call, 1),
                     .out = tensor_out(call, 0),
                     .upper = bool_arg(call, 2),
                     .left = bool_arg(call, 3),
                     .unit = bool_arg(call, 4)};
    return run(call, &job, triangular_one);
}

const tn_kernel_row cpu_solve_rows[] = {
    CPU_LINALG_ROW("linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool "
                   "adjoint=False) -> Tensor",
                   run_lu_solve),
    CPU_LINALG_ROW("linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
                   run_ldl_solve),
    CPU_LINALG_ROW("linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool "
                   "unitriangular=False) -> Tensor",
                   run_triangular),
};
const uint32_t cpu_solve_row_count = CPU_ROW_COUNT(cpu_solve_rows);
