/* SPDX-License-Identifier: Apache-2.0 */
/* QR: reflectors of Householder, their product, their application to another matrix. */
#include "batch.h"

typedef struct reflector_job {
    const tensor *in, *tau, *other, *out, *out_tau;
    int rows, columns, reflectors; /* of the matrix that LAPACK works on */
    int input_rows, input_columns;
    char side, trans;
    int work;
} reflector_job;

/* Scratch: the matrix that changes, the reflectors where they are another, tau, work. */
static int32_t run(const tn_call *call, reflector_job *job, const tensor *like, tni_matrix_fn one,
                   void (*ask)(const tni_batches *b, const reflector_job *job, void *work))
{
    tni_batches b = tni_batches_of(call, like, 2, job->in->dtype);
    int64_t elements = (int64_t)job->rows * job->columns;
    double asked[2] = {1, 0};
    int32_t status = tni_check_lapack_sizes(call, like);
    if (status == TN_OK) status = tni_check_lapack_sizes(call, job->in);
    if (status != TN_OK) return status;
    b.job = job;
    b.run = one;
    b.cost = elements * job->reflectors;
    if (elements && job->reflectors) ask(&b, job, asked);
    job->work = tni_work_length(&b, asked);
    b.scratch = tni_part(elements, b.bytes) +
                tni_part((int64_t)job->input_rows * job->input_columns, b.bytes) +
                tni_part(job->reflectors, b.bytes) + tni_part(job->work, b.bytes);
    return tni_batches_run(&b);
}

static const int ask_for_work = -1;

/* ---- geqrf ---- */

static void ask_geqrf(const tni_batches *b, const reflector_job *job, void *work)
{
    int ld = tni_leading(job->rows), info;
    b->lapack->geqrf(&job->rows, &job->columns, NULL, &ld, NULL, work, &ask_for_work, &info);
}

static void geqrf_one(const tni_batches *b, int64_t item, char *scratch)
{
    const reflector_job *job = b->job;
    int ld = tni_leading(job->rows), info;
    void *a = tni_take(&scratch, (int64_t)job->rows * job->columns, b->bytes);
    void *tau = tni_take(&scratch, job->reflectors, b->bytes);
    tni_matrix_read(tni_matrix_of(b, job->in, item), a, ld, b->bytes);
    if (job->reflectors) b->lapack->geqrf(&job->rows, &job->columns, a, &ld, tau, scratch, &job->work, &info);
    tni_matrix_write(a, ld, tni_matrix_of(b, job->out, item), b->bytes);
    tni_matrix_write(tau, 1, tni_vector_of(b, job->out_tau, item), b->bytes);
}

/* (self) -> a, tau */
static int32_t run_geqrf(void *self, const tn_call *call)
{
    reflector_job job = {
        .in = arg_tensor(call, 0), .out = out_tensor(call, 0), .out_tau = out_tensor(call, 1)};
    job.rows = (int)job.in->sizes[job.in->rank - 2];
    job.columns = (int)job.in->sizes[job.in->rank - 1];
    job.reflectors = (int)min_i64(job.rows, job.columns);
    return run(call, &job, job.in, geqrf_one, ask_geqrf);
}

/* ---- the product ---- */

static void ask_product(const tni_batches *b, const reflector_job *job, void *work)
{
    int ld = tni_leading(job->rows), info;
    b->lapack->orgqr(&job->rows, &job->columns, &job->reflectors, NULL, &ld, NULL, work, &ask_for_work,
                     &info);
}

static void product_one(const tni_batches *b, int64_t item, char *scratch)
{
    const reflector_job *job = b->job;
    int ld = tni_leading(job->rows), info;
    tni_matrix out = tni_matrix_of(b, job->out, item);
    void *a = tni_take(&scratch, (int64_t)job->rows * job->columns, b->bytes);
    void *tau = tni_take(&scratch, job->reflectors, b->bytes);
    if (!job->reflectors) {
        tni_fill_unit(b, out);
        return;
    }
    tni_matrix_read(tni_matrix_of(b, job->in, item), a, ld, b->bytes);
    tni_matrix_read(tni_vector_of(b, job->tau, item), tau, 1, b->bytes);
    b->lapack->orgqr(&job->rows, &job->columns, &job->reflectors, a, &ld, tau, scratch, &job->work, &info);
    tni_matrix_write(a, ld, out, b->bytes);
}

/* (input, tau) */
static int32_t run_product(void *self, const tn_call *call)
{
    reflector_job job = {.in = arg_tensor(call, 0), .tau = arg_tensor(call, 1), .out = out_tensor(call, 0)};
    job.rows = (int)job.in->sizes[job.in->rank - 2];
    job.columns = (int)job.in->sizes[job.in->rank - 1];
    job.reflectors = (int)job.tau->sizes[job.tau->rank - 1];
    return run(call, &job, job.in, product_one, ask_product);
}

/* ---- applied to another matrix ---- */

static void ask_apply(const tni_batches *b, const reflector_job *job, void *work)
{
    int lda = tni_leading(job->input_rows), ldc = tni_leading(job->rows), info;
    b->lapack->ormqr(&job->side, &job->trans, &job->rows, &job->columns, &job->reflectors, NULL, &lda, NULL,
                     NULL, &ldc, work, &ask_for_work, &info, 1, 1);
}

static void apply_one(const tni_batches *b, int64_t item, char *scratch)
{
    const reflector_job *job = b->job;
    int lda = tni_leading(job->input_rows), ldc = tni_leading(job->rows), info;
    tni_matrix in = tni_matrix_of(b, job->in, item);
    void *c = tni_take(&scratch, (int64_t)job->rows * job->columns, b->bytes);
    void *a = tni_take(&scratch, in.rows * in.columns, b->bytes);
    void *tau = tni_take(&scratch, job->reflectors, b->bytes);
    tni_matrix_read(tni_matrix_of(b, job->other, item), c, ldc, b->bytes);
    tni_matrix_read(in, a, lda, b->bytes);
    tni_matrix_read(tni_vector_of(b, job->tau, item), tau, 1, b->bytes);
    if (job->rows && job->columns && job->reflectors)
        b->lapack->ormqr(&job->side, &job->trans, &job->rows, &job->columns, &job->reflectors, a, &lda, tau,
                         c, &ldc, scratch, &job->work, &info, 1, 1);
    tni_matrix_write(c, ldc, tni_matrix_of(b, job->out, item), b->bytes);
}

/* (self, input2, input3, left, transpose) */
static int32_t run_apply(void *self, const tn_call *call)
{
    reflector_job job = {.in = arg_tensor(call, 0),
                         .tau = arg_tensor(call, 1),
                         .other = arg_tensor(call, 2),
                         .out = out_tensor(call, 0),
                         .side = tn_value_as_bool(call->args[3]) ? 'L' : 'R'};
    bool is_complex = job.in->dtype == TN_COMPLEX64 || job.in->dtype == TN_COMPLEX128;
    job.trans = !tn_value_as_bool(call->args[4]) ? 'N' : is_complex ? 'C' : 'T';
    job.rows = (int)job.other->sizes[job.other->rank - 2];
    job.columns = (int)job.other->sizes[job.other->rank - 1];
    job.reflectors = (int)job.tau->sizes[job.tau->rank - 1];
    job.input_rows = (int)job.in->sizes[job.in->rank - 2];
    job.input_columns = (int)job.in->sizes[job.in->rank - 1];
    return run(call, &job, job.other, apply_one, ask_apply);
}

const tn_kernel_row cpu_orthogonal_rows[] = {
    TNI_LINALG_ROW("geqrf(Tensor self) -> (Tensor a, Tensor tau)", run_geqrf),
    TNI_LINALG_ROW("linalg_householder_product(Tensor input, Tensor tau) -> Tensor", run_product),
    TNI_LINALG_ROW(
        "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> "
        "Tensor",
        run_apply),
};
const uint32_t cpu_orthogonal_row_count = TNI_ROW_COUNT(cpu_orthogonal_rows);
