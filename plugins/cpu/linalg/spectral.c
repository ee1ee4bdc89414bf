/* SPDX-License-Identifier: Apache-2.0 */
/* Singular values and eigenvalues, with or without vectors. */
#include "batch.h"
#include <string.h>

typedef struct spectral_job {
    const tn_tensor_desc *in, *values, *left, *right; /* right: the rows of Vh */
    const char *name;
    int rows, columns;
    char job; /* which vectors to compute, in LAPACK's letters */
    char uplo;
    int u_columns, vh_rows;
    int work, real_work, int_work; /* lengths of scratch arrays */
    int64_t svd_real_work;
} spectral_job;

static const int ask_for_work = -1;

/* LAPACK's 32-bit integers count scratch memory of up to five times the square of the shorter side. */
static int32_t check_sizes(const tn_call *call, const tn_tensor_desc *in)
{
    int64_t least = min_i64(in->sizes[in->rank - 2], in->sizes[in->rank - 1]);
    int32_t status = cpu_check_lapack_sizes(call, in);
    if (status == TN_OK && least > 20000)
        return cpu_error(
            call, TN_E_SHAPE,
            "a matrix of %lld x %lld is too large for LAPACK (the shorter side may be at most 20000)",
            (long long)in->sizes[in->rank - 2], (long long)in->sizes[in->rank - 1]);
    return status;
}

static int32_t finish(const cpu_batches *b)
{
    const spectral_job *job = b->job;
    return cpu_info_error(b->call, job->name, b->infos, b->count, job->in->rank == 2);
}

/* ---- singular values ---- */

typedef struct svd_memory {
    void *a, *s, *u, *vh, *work, *rwork;
    int *iwork;
} svd_memory;

static void call_gesdd(const cpu_batches *b, const spectral_job *job, const svd_memory *m, const int *length,
                       int *info)
{
    int ld = cpu_leading(job->rows), ldvh = cpu_leading(job->vh_rows);
    if (b->is_complex)
        b->lapack->for_complex.gesdd(&job->job, &job->rows, &job->columns, m->a, &ld, m->s, m->u, &ld, m->vh,
                                     &ldvh, m->work, length, m->rwork, m->iwork, info, 1);
    else
        b->lapack->for_real.gesdd(&job->job, &job->rows, &job->columns, m->a, &ld, m->s, m->u, &ld, m->vh,
                                  &ldvh, m->work, length, m->iwork, info, 1);
}

static void svd_one(const cpu_batches *b, int64_t item, char *scratch)
{
    const spectral_job *job = b->job;
    int64_t m = job->rows, n = job->columns, k = min_i64(m, n);
    int ld = cpu_leading(m), ldvh = cpu_leading(job->vh_rows);
    svd_memory p;
    p.a = cpu_take_part(&scratch, m * n, b->bytes);
    p.s = cpu_take_part(&scratch, k, b->real_bytes);
    p.u = cpu_take_part(&scratch, m * job->u_columns, b->bytes);
    p.vh = cpu_take_part(&scratch, job->vh_rows * n, b->bytes);
    p.work = cpu_take_part(&scratch, job->work, b->bytes);
    p.rwork = cpu_take_part(&scratch, job->svd_real_work, b->real_bytes);
    p.iwork = cpu_take_part(&scratch, job->int_work, sizeof(int));
    if (k == 0) { /* an empty matrix: any basis is valid */
        if (job->job == 'N') return;
        cpu_fill_unit(b, cpu_matrix_of(b, job->left, item));
        cpu_fill_unit(b, cpu_matrix_of(b, job->right, item));
        return;
    }
    if (!cpu_is_finite(b, cpu_matrix_of(b, job->in, item))) {
        b->infos[item] = -4; /* as gesdd says of NaN; it does not end on infinities */
        return;
    }
    cpu_matrix_read(cpu_matrix_of(b, job->in, item), p.a, ld, b->bytes);
    call_gesdd(b, job, &p, &job->work, &b->infos[item]);
    cpu_matrix_write(p.s, 1, cpu_vector_of(b, job->values, item), b->real_bytes);
    if (job->job == 'N') return;
    cpu_matrix_write(p.u, ld, cpu_matrix_of(b, job->left, item), b->bytes);
    cpu_matrix_write(p.vh, ldvh, cpu_matrix_of(b, job->right, item), b->bytes);
}

/* The length that the documentation of cgesdd and zgesdd requires, of all versions of LAPACK. */
static int64_t svd_real_work(const spectral_job *job)
{
    int64_t least = min_i64(job->rows, job->columns), most = max_i64(job->rows, job->columns);
    if (job->job == 'N') return 7 * least;
    return max_i64(5 * least * least + 7 * least, 2 * most * least + 2 * least * least + least);
}

/* (A, full_matrices, compute_uv, driver) -> U, S, Vh */
static int32_t run_svd(void *self, const tn_call *call)
{
    spectral_job job = {.in = tensor_arg(call, 0),
                        .values = tensor_out(call, 1),
                        .left = tensor_out(call, 0),
                        .right = tensor_out(call, 2),
                        .name = "linalg.svd"};
    cpu_batches b = cpu_batches_of(call, job.in, 2, job.in->dtype);
    int64_t m = job.in->sizes[job.in->rank - 2], n = job.in->sizes[job.in->rank - 1], k = min_i64(m, n);
    bool full = bool_arg(call, 1), vectors = bool_arg(call, 2);
    double asked[2] = {1, 0};
    int info = 0, none;
    int32_t status = check_sizes(call, job.in);
    if (status != TN_OK) return status;
    job.rows = (int)m;
    job.columns = (int)n;
    job.job = !vectors ? 'N' : full ? 'A' : 'S';
    job.u_columns = !vectors ? 0 : (int)(full ? m : k);
    job.vh_rows = !vectors ? 0 : (int)(full ? n : k);
    if (k) call_gesdd(&b, &job, &(svd_memory){.work = asked, .iwork = &none}, &ask_for_work, &info);
    job.work = cpu_work_length(&b, asked);
    job.svd_real_work = b.is_complex ? svd_real_work(&job) : 0;
    job.int_work = (int)(8 * k);
    b.job = &job;
    b.run = svd_one;
    b.cost = 4 * m * n * k;
    b.scratch = cpu_part_bytes(m * n, b.bytes) + cpu_part_bytes(k, b.real_bytes) +
                cpu_part_bytes(m * job.u_columns, b.bytes) + cpu_part_bytes(job.vh_rows * n, b.bytes) +
                cpu_part_bytes(job.work, b.bytes) + cpu_part_bytes(job.svd_real_work, b.real_bytes) +
                cpu_part_bytes(job.int_work, sizeof(int));
    return cpu_batches_run_with_infos(&b, finish);
}

/* ---- eigenvalues of hermitian matrices ---- */

typedef struct eigh_memory {
    void *a, *w, *work, *rwork;
    int *iwork;
} eigh_memory;

static void call_syevd(const cpu_batches *b, const spectral_job *job, const eigh_memory *m, const int *work,
                       const int *real_work, const int *int_work, int *info)
{
    int ld = cpu_leading(job->rows);
    if (b->is_complex)
        b->lapack->for_complex.heevd(&job->job, &job->uplo, &job->rows, m->a, &ld, m->w, m->work, work,
                                     m->rwork, real_work, m->iwork, int_work, info, 1, 1);
    else
        b->lapack->for_real.syevd(&job->job, &job->uplo, &job->rows, m->a, &ld, m->w, m->work, work, m->iwork,
                                  int_work, info, 1, 1);
}

static void eigh_one(const cpu_batches *b, int64_t item, char *scratch)
{
    const spectral_job *job = b->job;
    int64_t n = job->rows;
    eigh_memory p;
    p.a = cpu_take_part(&scratch, n * n, b->bytes);
    p.w = cpu_take_part(&scratch, n, b->real_bytes);
    p.work = cpu_take_part(&scratch, job->work, b->bytes);
    p.rwork = cpu_take_part(&scratch, job->real_work, b->real_bytes);
    p.iwork = cpu_take_part(&scratch, job->int_work, sizeof(int));
    if (n == 0) return;
    cpu_matrix_read(cpu_matrix_of(b, job->in, item), p.a, n, b->bytes);
    call_syevd(b, job, &p, &job->work, &job->real_work, &job->int_work, &b->infos[item]);
    cpu_matrix_write(p.w, 1, cpu_vector_of(b, job->values, item), b->real_bytes);
    if (job->job == 'V') cpu_matrix_write(p.a, n, cpu_matrix_of(b, job->left, item), b->bytes);
}

/* (A, UPLO, compute_v) -> eigenvalues, eigenvectors */
static int32_t run_eigh(void *self, const tn_call *call)
{
    spectral_job job = {.in = tensor_arg(call, 0),
                        .values = tensor_out(call, 0),
                        .left = tensor_out(call, 1),
                        .name = "linalg.eigh",
                        .job = bool_arg(call, 2) ? 'V' : 'N'};
    cpu_batches b = cpu_batches_of(call, job.in, 2, job.in->dtype);
    int64_t n = job.in->sizes[job.in->rank - 1];
    double asked[2] = {1, 0}, asked_real[2] = {1, 0};
    char letter = call->args[1].as.string[0];
    int info, asked_int = 1;
    int32_t status = check_sizes(call, job.in);
    if (status != TN_OK) return status;
    job.rows = job.columns = (int)n;
    job.uplo = letter == 'u' || letter == 'U' ? 'U' : 'L';
    if (n)
        call_syevd(&b, &job, &(eigh_memory){.work = asked, .rwork = asked_real, .iwork = &asked_int},
                   &ask_for_work, &ask_for_work, &ask_for_work, &info);
    job.work = cpu_work_length(&b, asked);
    job.real_work = b.is_complex ? cpu_work_length(&b, asked_real) : 0;
    job.int_work = asked_int;
    b.job = &job;
    b.run = eigh_one;
    b.cost = 4 * n * n * n;
    b.scratch = cpu_part_bytes(n * n, b.bytes) + cpu_part_bytes(n, b.real_bytes) +
                cpu_part_bytes(job.work, b.bytes) + cpu_part_bytes(job.real_work, b.real_bytes) +
                cpu_part_bytes(job.int_work, sizeof(int));
    return cpu_batches_run_with_infos(&b, finish);
}

/* ---- eigenvalues of any square matrix ---- */

typedef struct eig_memory {
    void *a, *w, *wi, *v, *work, *rwork;
} eig_memory;

static void call_geev(const cpu_batches *b, const spectral_job *job, const eig_memory *m, const int *work,
                      int *info)
{
    int ld = cpu_leading(job->rows);
    if (b->is_complex)
        b->lapack->for_complex.geev("N", &job->job, &job->rows, m->a, &ld, m->w, NULL, &ld, m->v, &ld,
                                    m->work, work, m->rwork, info, 1, 1);
    else
        b->lapack->for_real.geev("N", &job->job, &job->rows, m->a, &ld, m->w, m->wi, NULL, &ld, m->v, &ld,
                                 m->work, work, info, 1, 1);
}

/* Writes complex element (i, j) from a real and an imaginary part; without the latter it is 0. `negate`
 * changes its sign. */
static void put_pair(const cpu_batches *b, cpu_matrix to, int64_t i, int64_t j, const char *re,
                     const char *im, bool negate)
{
    char *at = to.at + (i * to.row + j * to.column) * 2 * b->bytes;
    memcpy(at, re, (size_t)b->bytes);
    memset(at + b->bytes, 0, (size_t)b->bytes);
    if (im) memcpy(at + b->bytes, im, (size_t)b->bytes);
    if (negate)
        at[2 * b->bytes - 1] ^= (char)0x80; /* the sign bit, in the last byte of little-endian machines */
}

static bool is_zero(const cpu_batches *b, const char *x)
{
    static const char zeros[8];
    return memcmp(x, zeros, (size_t)b->bytes) == 0;
}

/* geev of a real matrix gives real and imaginary parts of eigenvalues apart. For a conjugate pair it gives
 * the real and the imaginary part of the first vector. */
static void put_real_eig(const cpu_batches *b, const spectral_job *job, int64_t item, const eig_memory *p)
{
    int64_t n = job->rows;
    const char *re = p->w, *im = p->wi, *v = p->v;
    cpu_matrix values = cpu_vector_of(b, job->values, item);
    for (int64_t j = 0; j < n; j++) put_pair(b, values, j, 0, re + j * b->bytes, im + j * b->bytes, false);
    if (job->job == 'N') return;
    cpu_matrix to = cpu_matrix_of(b, job->left, item);
    for (int64_t j = 0; j < n; j++) {
        bool paired = !is_zero(b, im + j * b->bytes) && j + 1 < n;
        for (int64_t i = 0; i < n; i++) {
            const char *x = v + (j * n + i) * b->bytes, *y = paired ? x + n * b->bytes : NULL;
            put_pair(b, to, i, j, x, y, false);
            if (paired) put_pair(b, to, i, j + 1, x, y, true);
        }
        j += paired;
    }
}

static void eig_one(const cpu_batches *b, int64_t item, char *scratch)
{
    const spectral_job *job = b->job;
    int64_t n = job->rows;
    eig_memory p;
    p.a = cpu_take_part(&scratch, n * n, b->bytes);
    p.w = cpu_take_part(&scratch, n, b->bytes);
    p.wi = cpu_take_part(&scratch, n, b->bytes);
    p.v = cpu_take_part(&scratch, job->job == 'V' ? n * n : 0, b->bytes);
    p.work = cpu_take_part(&scratch, job->work, b->bytes);
    p.rwork = cpu_take_part(&scratch, 2 * n, b->real_bytes);
    if (n == 0) return;
    cpu_matrix_read(cpu_matrix_of(b, job->in, item), p.a, n, b->bytes);
    call_geev(b, job, &p, &job->work, &b->infos[item]);
    if (b->is_complex) {
        cpu_matrix_write(p.w, 1, cpu_vector_of(b, job->values, item), b->bytes);
        if (job->job == 'V') cpu_matrix_write(p.v, n, cpu_matrix_of(b, job->left, item), b->bytes);
    } else {
        put_real_eig(b, job, item, &p);
    }
}

/* geev does not end on NaN or infinities. */
static bool all_finite(const cpu_batches *b, const tn_tensor_desc *t)
{
    for (int64_t item = 0; item < b->count; item++)
        if (!cpu_is_finite(b, cpu_matrix_of(b, t, item))) return false;
    return true;
}

static int32_t run_eig_of(const tn_call *call, const tn_tensor_desc *values, const tn_tensor_desc *vectors)
{
    spectral_job job = {.in = tensor_arg(call, 0),
                        .values = values,
                        .left = vectors,
                        .name = "linalg.eig",
                        .job = vectors ? 'V' : 'N'};
    cpu_batches b = cpu_batches_of(call, job.in, 2, job.in->dtype);
    int64_t n = job.in->sizes[job.in->rank - 1];
    double asked[2] = {1, 0}, asked_real[2];
    int info;
    int32_t status = check_sizes(call, job.in);
    if (status != TN_OK) return status;
    if (!all_finite(&b, job.in))
        return cpu_error(call, TN_E_ARGUMENT,
                         "torch.linalg.eig: input tensor should not contain infs or NaNs.");
    job.rows = job.columns = (int)n;
    if (n) call_geev(&b, &job, &(eig_memory){.work = asked, .rwork = asked_real}, &ask_for_work, &info);
    job.work = cpu_work_length(&b, asked);
    b.job = &job;
    b.run = eig_one;
    b.cost = 10 * n * n * n;
    b.scratch = 2 * cpu_part_bytes(n * n, b.bytes) + 2 * cpu_part_bytes(n, b.bytes) +
                cpu_part_bytes(job.work, b.bytes) + cpu_part_bytes(2 * n, b.real_bytes);
    return cpu_batches_run_with_infos(&b, finish);
}

static int32_t run_eig(void *self, const tn_call *call)
{
    return run_eig_of(call, tensor_out(call, 0), tensor_out(call, 1));
}

static int32_t run_eigvals(void *self, const tn_call *call)
{
    return run_eig_of(call, tensor_out(call, 0), NULL);
}

const tn_kernel_row cpu_spectral_rows[] = {
    CPU_LINALG_ROW("_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? "
                   "driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
                   run_svd),
    CPU_LINALG_ROW("_linalg_eigh(Tensor A, str UPLO=\"L\", bool compute_v=True) -> (Tensor eigenvalues, "
                   "Tensor eigenvectors)",
                   run_eigh),
    CPU_LINALG_ROW("linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)", run_eig),
    CPU_LINALG_ROW("_linalg_eigvals(Tensor self) -> Tensor", run_eigvals),
};
const uint32_t cpu_spectral_row_count = CPU_ROW_COUNT(cpu_spectral_rows);
