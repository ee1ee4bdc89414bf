/* SPDX-License-Identifier: Apache-2.0 */
/* Least squares by the four drivers of LAPACK: gels (full rank), gelsy, gelsd, gelss. */
#include "batch.h"
#include <float.h>
#include <math.h>
#include <string.h>

typedef struct lstsq_job {
    const tn_tensor_desc *a, *b, *solution, *values;
    char driver; /* the last letter of the driver's name, but 'g' for gels */
    bool vector;
    int m, n, nrhs;
    double rcond;
    int work, real_work, int_work;
    int *ranks;
    double *residuals; /* nrhs for each item */
} lstsq_job;

typedef struct lstsq_memory {
    void *a, *b, *s, *work, *rwork;
    int *iwork;
} lstsq_memory;

static const int ask_for_work = -1;

static void call_driver(const cpu_batches *b, const lstsq_job *job, const lstsq_memory *p, const int *work,
                        int *rank, int *info)
{
    int lda = cpu_leading(job->m), ldb = cpu_leading(max_i64(job->m, job->n));
    const int *m = &job->m, *n = &job->n, *k = &job->nrhs;
    float small = (float)job->rcond;
    const void *rcond = b->real_bytes == 4 ? (const void *)&small : &job->rcond;
    if (job->driver == 'g')
        b->lapack->gels("N", m, n, k, p->a, &lda, p->b, &ldb, p->work, work, info, 1);
    else if (job->driver == 'y' && b->is_complex)
        b->lapack->for_complex.gelsy(m, n, k, p->a, &lda, p->b, &ldb, p->iwork, rcond, rank, p->work, work,
                                     p->rwork, info);
    else if (job->driver == 'y')
        b->lapack->for_real.gelsy(m, n, k, p->a, &lda, p->b, &ldb, p->iwork, rcond, rank, p->work, work,
                                  info);
    else if (job->driver == 'd' && b->is_complex)
        b->lapack->for_complex.gelsd(m, n, k, p->a, &lda, p->b, &ldb, p->s, rcond, rank, p->work, work,
                                     p->rwork, p->iwork, info);
    else if (job->driver == 'd')
        b->lapack->for_real.gelsd(m, n, k, p->a, &lda, p->b, &ldb, p->s, rcond, rank, p->work, work, p->iwork,
                                  info);
    else if (b->is_complex)
        b->lapack->for_complex.gelss(m, n, k, p->a, &lda, p->b, &ldb, p->s, rcond, rank, p->work, work,
                                     p->rwork, info);
    else
        b->lapack->for_real.gelss(m, n, k, p->a, &lda, p->b, &ldb, p->s, rcond, rank, p->work, work, info);
}

/* The sums of squares of the rows that LAPACK leaves below the solution. */
static void sum_residuals(const cpu_batches *b, const lstsq_job *job, const void *x, int64_t ld, double *to)
{
    int64_t parts = b->bytes / b->real_bytes;
    for (int64_t j = 0; j < job->nrhs; j++) {
        double sum = 0;
        for (int64_t i = (j * ld + job->n) * parts; i < (j * ld + job->m) * parts; i++) {
            double v = b->real_bytes == 4 ? (double)((const float *)x)[i] : ((const double *)x)[i];
            sum += v * v;
        }
        to[j] = sum;
    }
}

static cpu_matrix sides_of(const cpu_batches *b, const lstsq_job *job, const tn_tensor_desc *t, int64_t item)
{
    return job->vector ? cpu_vector_of(b, t, item) : cpu_matrix_of(b, t, item);
}

static void lstsq_one(const cpu_batches *b, int64_t item, char *scratch)
{
    const lstsq_job *job = b->job;
    int64_t m = job->m, n = job->n, ld = max_i64(1, max_i64(m, n));
    cpu_matrix out = sides_of(b, job, job->solution, item);
    lstsq_memory p;
    p.a = cpu_take_part(&scratch, m * n, b->bytes);
    p.b = cpu_take_part(&scratch, ld * job->nrhs, b->bytes);
    p.s = cpu_take_part(&scratch, min_i64(m, n), b->real_bytes);
    p.work = cpu_take_part(&scratch, job->work, b->bytes);
    p.rwork = cpu_take_part(&scratch, job->real_work, b->real_bytes);
    p.iwork = cpu_take_part(&scratch, job->int_work, sizeof(int));
    if (m == 0 || n == 0 || job->nrhs == 0) {
        cpu_fill_zero(out, b->bytes);
        job->ranks[item] = 0;
        return;
    }
    if (job->values && !cpu_is_finite(b, cpu_matrix_of(b, job->a, item))) {
        b->infos[item] = -4; /* as gelsd says of NaN; it and gelss do not end on infinities */
        job->ranks[item] = 0;
        return;
    }
    cpu_matrix_read(cpu_matrix_of(b, job->a, item), p.a, m, b->bytes);
    memset(p.b, 0, (size_t)(ld * job->nrhs * b->bytes));
    cpu_matrix_read(sides_of(b, job, job->b, item), p.b, ld, b->bytes);
    memset(p.iwork, 0, (size_t)job->int_work * sizeof(int)); /* gelsy: all columns may be permuted */
    job->ranks[item] = (int)n;
    call_driver(b, job, &p, &job->work, &job->ranks[item], &b->infos[item]);
    if (job->driver == 'g' && b->bytes == 4 && !cpu_is_finite(b, cpu_matrix_of(b, job->a, item))) {
        float *x = p.b; /* some versions of OpenBLAS lose NaN here, see factor.c */
        for (int64_t i = 0; i < ld * job->nrhs; i++) x[i] = NAN;
        b->infos[item] = 0;
    }
    cpu_matrix_write(p.b, ld, out, b->bytes);
    if (job->values) cpu_matrix_write(p.s, 1, cpu_vector_of(b, job->values, item), b->real_bytes);
    if (m > n) sum_residuals(b, job, p.b, ld, job->residuals + item * job->nrhs);
}

/* ---- results ---- */

/* Residuals are defined only if every matrix has full rank; otherwise the output is empty. */
static int32_t write_residuals(const cpu_batches *b, const lstsq_job *job)
{
    const tn_tensor_desc *out = tensor_out(b->call, 1);
    const int64_t none = 0;
    if (cpu_numel(out) == 0) return TN_OK;
    for (int64_t i = 0; i < b->count; i++) {
        if (job->ranks[i] != job->n) return b->call->host->resize_output(b->call, 1, 1, &none);
    }
    for (int64_t i = 0; i < b->count * job->nrhs; i++) {
        if (b->real_bytes == 4)
            ((float *)out->host)[i] = (float)job->residuals[i];
        else
            ((double *)out->host)[i] = job->residuals[i];
    }
    return TN_OK;
}

static int32_t finish(const cpu_batches *b)
{
    const lstsq_job *job = b->job;
    const tn_tensor_desc *ranks = tensor_out(b->call, 2);
    for (int64_t i = 0; job->driver != 'g' && i < b->count; i++) {
        int64_t rank = job->ranks[i];
        memcpy(cpu_number_of(b, ranks, i), &rank, sizeof(rank));
    }
    int32_t status = cpu_info_error(b->call, "linalg.lstsq", b->infos, b->count, job->a->rank == 2);
    return status ? status : write_residuals(b, job);
}

/* ---- scratch memory ---- */

static void measure(cpu_batches *b, lstsq_job *job)
{
    int64_t m = job->m, n = job->n, least = min_i64(m, n), most = max_i64(m, n);
    double asked[2] = {1, 0}, asked_real[2] = {1, 0};
    int asked_int[64] = {0}, rank, info;
    if (least && job->nrhs)
        call_driver(b, job, &(lstsq_memory){.work = asked, .rwork = asked_real, .iwork = asked_int},
                    &ask_for_work, &rank, &info);
    job->work = cpu_work_length(b, asked);
    job->real_work = job->driver == 'd' ? cpu_work_length(b, asked_real) : (int)(5 * most + 1);
    if (!b->is_complex) job->real_work = 0;
    job->int_work = (int)max_i64(job->driver == 'd' ? asked_int[0] : 0, n);
    b->cost = 4 * m * n * least;
    b->scratch = cpu_part_bytes(m * n, b->bytes) + cpu_part_bytes(max_i64(1, most) * job->nrhs, b->bytes) +
                 cpu_part_bytes(least, b->real_bytes) + cpu_part_bytes(job->work, b->bytes) +
                 cpu_part_bytes(job->real_work, b->real_bytes) + cpu_part_bytes(job->int_work, sizeof(int));
}

/* (self, b, rcond, driver) -> solution, residuals, rank, singular_values */
static int32_t run_lstsq(void *self, const tn_call *call)
{
    lstsq_job job = {.a = tensor_arg(call, 0), .b = tensor_arg(call, 1), .solution = tensor_out(call, 0)};
    const char *driver = is_none_arg(call, 3) ? "gelsy" : call->args[3].as.string;
    uint32_t rank = job.a->rank;
    job.vector = job.b->rank == 1 || (job.b->rank == rank - 1 &&
                                      memcmp(job.a->sizes, job.b->sizes, job.b->rank * sizeof(int64_t)) == 0);
    cpu_batches b = cpu_batches_of(call, job.solution, job.vector ? 1 : 2, job.a->dtype);
    int32_t status = cpu_check_lapack_sizes(call, job.a);
    if (status == TN_OK) status = cpu_check_lapack_sizes(call, job.b);
    if (status != TN_OK) return status;
    job.m = (int)job.a->sizes[rank - 2];
    job.n = (int)job.a->sizes[rank - 1];
    job.nrhs = job.vector ? 1 : (int)job.b->sizes[job.b->rank - 1];
    job.driver = driver[4] ? driver[4] : 'g';
    job.rcond = !is_none_arg(call, 2)
                    ? float_arg(call, 2)
                    : (b.real_bytes == 4 ? FLT_EPSILON : DBL_EPSILON) * max_i64(job.m, job.n);
    if (job.driver == 'd' || job.driver == 's') job.values = tensor_out(call, 3);
    measure(&b, &job);
    int64_t bytes = b.count * (job.nrhs * (int64_t)sizeof(double) + (int64_t)sizeof(int));
    job.residuals = cpu_alloc(call, bytes);
    if (!job.residuals) return TN_E_OUT_OF_MEMORY;
    job.ranks = (int *)(void *)(job.residuals + b.count * job.nrhs);
    b.job = &job;
    b.run = lstsq_one;
    status = cpu_batches_run_with_infos(&b, finish);
    cpu_free(call, job.residuals, bytes);
    return status;
}

const tn_kernel_row cpu_lstsq_rows[] = {
    CPU_LINALG_ROW("linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor "
                   "solution, Tensor residuals, Tensor rank, Tensor singular_values)",
                   run_lstsq),
};
const uint32_t cpu_lstsq_row_count = CPU_ROW_COUNT(cpu_lstsq_rows);
