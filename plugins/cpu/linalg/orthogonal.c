/* SPDX-License-Identifier: Apache-2.0 */
/* QR: Householder reflectors, their product, and their application to another matrix. */
#include "batch.h"
#include <math.h>

typedef struct reflector_job {
    const tn_tensor_desc *in, *tau, *other, *out, *out_tau;
    int rows, columns, reflectors; /* of the matrix that LAPACK works on */
    int input_rows, input_columns;
    char side, trans;
    int work;
} reflector_job;

/* Scratch memory holds the matrix that changes, the reflectors if they are another matrix, tau and the
 * work array. */
static int32_t run(const tn_call *call, reflector_job *job, const tn_tensor_desc *like, cpu_matrix_fn one,
                   void (*ask)(const cpu_batches *b, const reflector_job *job, void *work))
{
    cpu_batches b = cpu_batches_of(call, like, 2, job->in->dtype);
    int64_t elements = (int64_t)job->rows * job->columns;
    double asked[2] = {1, 0};
    int32_t status = cpu_check_lapack_sizes(call, like);
    if (status == TN_OK) status = cpu_check_lapack_sizes(call, job->in);
    if (status != TN_OK) return status;
    b.job = job;
    b.run = one;
    b.cost = elements * job->reflectors;
    if (elements && job->reflectors) ask(&b, job, asked);
    job->work = cpu_work_length(&b, asked);
    b.scratch = cpu_part_bytes(elements, b.bytes) +
                cpu_part_bytes((int64_t)job->input_rows * job->input_columns, b.bytes) +
                cpu_part_bytes(job->reflectors, b.bytes) + cpu_part_bytes(job->work, b.bytes);
    return cpu_batches_run(&b);
}

static const int ask_for_work = -1;

/*
 * In float32, some versions of OpenBLAS take a scale that is NaN for 0, see factor.c: a reflector of a column with NaN would
 * lose it. These write NaN where the reference implementation has it.
 */

/* From the first reflector with NaN on, everything but the rows above it is NaN. A reflector of one row changes nothing. */
static void spread_nan(const cpu_batches *b, float *a, float *tau)
{
    const reflector_job *job = b->job;
    int64_t m = job->rows, k = 0, end = b->bytes == 4 ? job->reflectors : 0;
    while (k < end && !isnan(tau[k])) k++;
    for (int64_t j = k; j < job->columns && k < end; j++) {
        for (int64_t i = j == k ? k + 1 : k; i < m; i++) a[j * m + i] = NAN;
        if (j < end && j < m - 1) tau[j] = NAN;
    }
}

/* Column k of the product is the reflector k, scaled by its tau. */
static void spread_nan_to_product(const cpu_batches *b, float *a, const float *tau)
{
    const reflector_job *job = b->job;
    int64_t end = b->bytes == 4 ? job->reflectors : 0;
    for (int64_t k = 0; k < end; k++) {
        for (int64_t i = k + 1; i < job->rows && isnan(tau[k]); i++) a[k * job->rows + i] = NAN;
    }
}

/* ---- geqrf ---- */

static void ask_geqrf(const cpu_batches *b, const reflector_job *job, void *work)
{
    int ld = cpu_leading(job->rows), info;
    b->lapack->geqrf(&job->rows, &job->columns, NULL, &ld, NULL, work, &ask_for_work, &info);
}

static void geqrf_one(const cpu_batches *b, int64_t item, char *scratch)
{
    const reflector_job *job = b->job;
    int ld = cpu_leading(job->rows), info;
    void *a = cpu_take_part(&scratch, (int64_t)job->rows * job->columns, b->bytes);
    void *tau = cpu_take_part(&scratch, job->reflectors, b->bytes);
    cpu_matrix_read(cpu_matrix_of(b, job->in, item), a, ld, b->bytes);
    if (job->reflectors) b->lapack->geqrf(&job->rows, &job->columns, a, &ld, tau, scratch, &job->work, &info);
    spread_nan(b, a, tau);
    cpu_matrix_write(a, ld, cpu_matrix_of(b, job->out, item), b->bytes);
    cpu_matrix_write(tau, 1, cpu_vector_of(b, job->out_tau, item), b->bytes);
}

/* (self) -> a, tau */
static int32_t run_geqrf(void *self, const tn_call *call)
{
    reflector_job job = {
        .in = tensor_arg(call, 0), .out = tensor_out(call, 0), .out_tau = tensor_out(call, 1)};
    job.rows = (int)job.in->sizes[job.in->rank - 2];
    job.columns = (int)job.in->sizes[job.in->rank - 1];
    job.reflectors = (int)min_i64(job.rows, job.columns);
    return run(call, &job, job.in, geqrf_one, ask_geqrf);
}

/* ---- the product ---- */

static void ask_product(const cpu_batches *b, const reflector_job *job, void *work)
{
    int ld = cpu_leading(job->rows), info;
    b->lapack->orgqr(&job->rows, &job->columns, &job->reflectors, NULL, &ld, NULL, work, &ask_for_work,
                     &info);
}

static void product_one(const cpu_batches *b, int64_t item, char *scratch)
{
    const reflector_job *job = b->job;
    int ld = cpu_leading(job->rows), info;
    cpu_matrix out = cpu_matrix_of(b, job->out, item);
    void *a = cpu_take_part(&scratch, (int64_t)job->rows * job->columns, b->bytes);
    void *tau = cpu_take_part(&scratch, job->reflectors, b->bytes);
    if (!job->reflectors) {
        cpu_fill_unit(b, out);
        return;
    }
    cpu_matrix_read(cpu_matrix_of(b, job->in, item), a, ld, b->bytes);
    cpu_matrix_read(cpu_vector_of(b, job->tau, item), tau, 1, b->bytes);
    b->lapack->orgqr(&job->rows, &job->columns, &job->reflectors, a, &ld, tau, scratch, &job->work, &info);
    spread_nan_to_product(b, a, tau);
    cpu_matrix_write(a, ld, out, b->bytes);
}

/* (input, tau) */
static int32_t run_product(void *self, const tn_call *call)
{
    reflector_job job = {.in = tensor_arg(call, 0), .tau = tensor_arg(call, 1), .out = tensor_out(call, 0)};
    job.rows = (int)job.in->sizes[job.in->rank - 2];
    job.columns = (int)job.in->sizes[job.in->rank - 1];
    job.reflectors = (int)job.tau->sizes[job.tau->rank - 1];
    return run(call, &job, job.in, product_one, ask_product);
}

/* ---- applied to another matrix ---- */

static void ask_apply(const cpu_batches *b, const reflector_job *job, void *work)
{
    int lda = cpu_leading(job->input_rows), ldc = cpu_leading(job->rows), info;
    b->lapack->ormqr(&job->side, &job->trans, &job->rows, &job->columns, &job->reflectors, NULL, &lda, NULL,
                     NULL, &ldc, work, &ask_for_work, &info, 1, 1);
}

static void apply_one(const cpu_batches *b, int64_t item, char *scratch)
{
    const reflector_job *job = b->job;
    int lda = cpu_leading(job->input_rows), ldc = cpu_leading(job->rows), info;
    cpu_matrix in = cpu_matrix_of(b, job->in, item);
    void *c = cpu_take_part(&scratch, (int64_t)job->rows * job->columns, b->bytes);
    void *a = cpu_take_part(&scratch, in.rows * in.columns, b->bytes);
    void *tau = cpu_take_part(&scratch, job->reflectors, b->bytes);
    cpu_matrix_read(cpu_matrix_of(b, job->other, item), c, ldc, b->bytes);
    cpu_matrix_read(in, a, lda, b->bytes);
    cpu_matrix_read(cpu_vector_of(b, job->tau, item), tau, 1, b->bytes);
    if (job->rows && job->columns && job->reflectors)
        b->lapack->ormqr(&job->side, &job->trans, &job->rows, &job->columns, &job->reflectors, a, &lda, tau,
                         c, &ldc, scratch, &job->work, &info, 1, 1);
    cpu_matrix_write(c, ldc, cpu_matrix_of(b, job->out, item), b->bytes);
}

/* (self, input2, input3, left, transpose) */
static int32_t run_apply(void *self, const tn_call *call)
{
    reflector_job job = {.in = tensor_arg(call, 0),
                         .tau = tensor_arg(call, 1),
                         .other = tensor_arg(call, 2),
                         .out = tensor_out(call, 0),
                         .side = bool_arg(call, 3) ? 'L' : 'R'};
    bool is_complex = job.in->dtype == TN_COMPLEX64 || job.in->dtype == TN_COMPLEX128;
    job.trans = !bool_arg(call, 4) ? 'N' : is_complex ? 'C' : 'T';
    job.rows = (int)job.other->sizes[job.other->rank - 2];
    job.columns = (int)job.other->sizes[job.other->rank - 1];
    job.reflectors = (int)job.tau->sizes[job.tau->rank - 1];
    job.input_rows = (int)job.in->sizes[job.in->rank - 2];
    job.input_columns = (int)job.in->sizes[job.in->rank - 1];
    return run(call, &job, job.other, apply_one, ask_apply);
}

const tn_kernel_row cpu_orthogonal_rows[] = {
    CPU_LINALG_ROW("geqrf(Tensor self) -> (Tensor a, Tensor tau)", run_geqrf),
    CPU_LINALG_ROW("linalg_householder_product(Tensor input, Tensor tau) -> Tensor", run_product),
    CPU_LINALG_ROW(
        "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor",
        run_apply),
};
const uint32_t cpu_orthogonal_row_count = CPU_ROW_COUNT(cpu_orthogonal_rows);
