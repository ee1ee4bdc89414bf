/* SPDX-License-Identifier: Apache-2.0 */
/* The loop over the matrices of a batch, and what else batch.h declares. */
#include "batch.h"
#include "vendor/openblas.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

const tn_dtype cpu_linalg_dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_COMPLEX64, TN_COMPLEX128, 0};

const char *cpu_linalg_can_run(void *self, const tn_call *call)
{
    return cpu_lapack_get(0) ? NULL : "OpenBLAS with LAPACK was not found";
}

static const cpu_lapack *lapack_of(tn_dtype dtype)
{
    return cpu_lapack_get(dtype == TN_FLOAT32 ? 0 : dtype == TN_FLOAT64 ? 1 : dtype == TN_COMPLEX64 ? 2 : 3);
}

cpu_batches cpu_batches_of(const tn_call *call, const tn_tensor_desc *like, uint32_t tail, tn_dtype dtype)
{
    cpu_batches b = {.call = call,
                     .lapack = lapack_of(dtype),
                     .dtype = dtype,
                     .bytes = tn_dtype_bytes(dtype),
                     .is_complex = dtype == TN_COMPLEX64 || dtype == TN_COMPLEX128,
                     .rank = like->rank - tail,
                     .sizes = like->sizes,
                     .count = cpu_span(like, 0, like->rank - tail)};
    b.real_bytes = b.is_complex ? b.bytes / 2 : b.bytes;
    return b;
}

/* ---- running ---- */

typedef struct run_job {
    const cpu_batches *b;
    char *scratch;
    int64_t each; /* bytes of a range's scratch memory */
    int64_t grain;
    atomic_bool *refused; /* OpenBLAS cannot be used */
} run_job;

static void run_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const run_job *job = user;
    const cpu_openblas *blas = cpu_openblas_get();
    int token = blas ? cpu_openblas_begin(blas) : -1;
    if (token < 0) {
        atomic_store(job->refused, true);
        return;
    }
    char *scratch = job->scratch + begin / job->grain * job->each;
    for (int64_t item = begin; item < end; item++) job->b->run(job->b, item, scratch);
    cpu_openblas_end(blas, token);
}

/* Each range has its own scratch memory, so there are at most as many ranges as threads, and one if the
 * work is small. */
int32_t cpu_batches_run(cpu_batches *b)
{
    int64_t least = grain_for(20000, b->cost), threads = max_i64(1, b->call->threads), ranges;
    atomic_bool refused = false;
    run_job job = {.b = b, .each = round_up(b->scratch, 64), .refused = &refused};
    if (b->count == 0) return TN_OK;
    job.grain = max_i64(least, ceil_div(b->count, threads));
    ranges = ceil_div(b->count, job.grain);
    job.scratch = cpu_alloc(b->call, ranges * job.each);
    if (!job.scratch) return TN_E_OUT_OF_MEMORY;
    cpu_parallel_ranges(b->call, b->count, job.grain, run_range, &job);
    cpu_free(b->call, job.scratch, ranges * job.each);
    if (atomic_load(&refused))
        return cpu_error(b->call, TN_E_STATE, "OpenBLAS cannot be used any more: the process ends");
    return TN_OK;
}

int32_t cpu_batches_run_with_infos(cpu_batches *b, cpu_infos_fn use)
{
    int64_t bytes = b->count * (int64_t)sizeof(int);
    int32_t status;
    b->infos = cpu_alloc(b->call, bytes);
    if (!b->infos) return TN_E_OUT_OF_MEMORY;
    memset(b->infos, 0, (size_t)bytes);
    status = cpu_batches_run(b);
    if (status == TN_OK && use) status = use(b);
    cpu_free(b->call, b->infos, bytes);
    return status;
}

int cpu_work_length(const cpu_batches *b, const void *work)
{
    float f;
    double d;
    if (b->real_bytes == 4) {
        memcpy(&f, work, sizeof(f));
        d = f;
    } else {
        memcpy(&d, work, sizeof(d));
    }
    /* A float does not hold every integer, so the length is rounded up. */
    return d < 1 ? 1 : d >= (double)INT_MAX ? INT_MAX : (int)(d * (1 + 0x1p-23)) + 1;
}

/* ---- items ---- */

/* The address of an item. Batch dimensions are aligned from the right, and those of size 1 are broadcast. */
static char *address(const cpu_batches *b, const tn_tensor_desc *t, uint32_t tail, int64_t item)
{
    int64_t at = 0, rest = item, own = (int64_t)t->rank - tail;
    for (uint32_t back = 0; back < b->rank; back++) {
        int64_t size = b->sizes[b->rank - 1 - back], index = rest % size, d = own - 1 - back;
        rest /= size;
        if (d >= 0 && t->sizes[d] != 1) at += index * t->strides[d];
    }
    return (char *)t->host + at * tn_dtype_bytes(t->dtype);
}

cpu_matrix cpu_matrix_of(const cpu_batches *b, const tn_tensor_desc *t, int64_t item)
{
    uint32_t r = t->rank;
    return (cpu_matrix){address(b, t, 2, item), t->sizes[r - 2], t->sizes[r - 1], t->strides[r - 2],
                        t->strides[r - 1]};
}

cpu_matrix cpu_vector_of(const cpu_batches *b, const tn_tensor_desc *t, int64_t item)
{
    uint32_t r = t->rank;
    return (cpu_matrix){address(b, t, 1, item), t->sizes[r - 1], 1, t->strides[r - 1], 0};
}

char *cpu_number_of(const cpu_batches *b, const tn_tensor_desc *t, int64_t item)
{
    return address(b, t, 0, item);
}

cpu_matrix cpu_transposed(cpu_matrix m)
{
    return (cpu_matrix){m.at, m.columns, m.rows, m.column, m.row};
}

cpu_matrix cpu_corner(cpu_matrix m, int64_t rows, int64_t columns)
{
    m.rows = rows;
    m.columns = columns;
    return m;
}

/* `count` elements of 4, 8 or 16 bytes, steps in elements. */
static void copy_column(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count,
                        int64_t bytes)
{
    if (from_step == 1 && to_step == 1) {
        if (count) memcpy(to, from, (size_t)(count * bytes));
    } else if (bytes == 4) {
        for (int64_t i = 0; i < count; i++) memcpy(to + i * to_step * 4, from + i * from_step * 4, 4);
    } else if (bytes == 8) {
        for (int64_t i = 0; i < count; i++) memcpy(to + i * to_step * 8, from + i * from_step * 8, 8);
    } else {
        for (int64_t i = 0; i < count; i++) memcpy(to + i * to_step * 16, from + i * from_step * 16, 16);
    }
}

void cpu_matrix_read(cpu_matrix m, void *to, int64_t ld, int64_t bytes)
{
    for (int64_t j = 0; j < m.columns; j++)
        copy_column((char *)to + j * ld * bytes, 1, m.at + j * m.column * bytes, m.row, m.rows, bytes);
}

void cpu_matrix_write(const void *from, int64_t ld, cpu_matrix m, int64_t bytes)
{
    for (int64_t j = 0; j < m.columns; j++)
        copy_column(m.at + j * m.column * bytes, m.row, (const char *)from + j * ld * bytes, 1, m.rows,
                    bytes);
}

void cpu_conjugate(const cpu_batches *b, void *data, int64_t count)
{
    if (b->dtype == TN_COMPLEX64) {
        float *x = data;
        for (int64_t i = 0; i < count; i++) x[2 * i + 1] = -x[2 * i + 1];
    } else if (b->dtype == TN_COMPLEX128) {
        double *x = data;
        for (int64_t i = 0; i < count; i++) x[2 * i + 1] = -x[2 * i + 1];
    }
}

/* `count` floats or doubles, one behind the other. The exponents of infinities and NaN have all bits set. */
static bool run_is_finite(const char *x, int64_t count, int64_t bytes)
{
    const uint32_t exponent = UINT32_C(0x7f800000);
    const uint64_t wide_exponent = UINT64_C(0x7ff0000000000000);
    uint64_t found = 0, wide;
    uint32_t bits;
    for (int64_t i = 0; bytes == 4 && i < count; i++) {
        memcpy(&bits, x + 4 * i, 4);
        found |= (bits & exponent) == exponent;
    }
    for (int64_t i = 0; bytes == 8 && i < count; i++) {
        memcpy(&wide, x + 8 * i, 8);
        found |= (wide & wide_exponent) == wide_exponent;
    }
    return !found;
}

bool cpu_is_finite(const cpu_batches *b, cpu_matrix m)
{
    int64_t parts = b->bytes / b->real_bytes, run = 1; /* elements that lie one behind the other */
    if (m.row < m.column) m = cpu_transposed(m);
    if (m.column == 1 && m.row == m.columns) m = (cpu_matrix){m.at, 1, m.rows * m.columns, 0, 1};
    if (m.column == 1) run = m.columns;
    for (int64_t i = 0; i < m.rows; i++) {
        for (int64_t j = 0; j < m.columns; j += run) {
            const char *x = m.at + (i * m.row + j * m.column) * b->bytes;
            if (!run_is_finite(x, run * parts, b->real_bytes)) return false;
        }
    }
    return true;
}

void cpu_fill_zero(cpu_matrix m, int64_t bytes)
{
    for (int64_t j = 0; j < m.columns; j++) {
        for (int64_t i = 0; i < m.rows; i++)
            memset(m.at + (i * m.row + j * m.column) * bytes, 0, (size_t)bytes);
    }
}

void cpu_fill_unit(const cpu_batches *b, cpu_matrix m)
{
    const double one = 1;
    const float one_f = 1;
    const void *value = b->real_bytes == 4 ? (const void *)&one_f : &one;
    cpu_fill_zero(m, b->bytes);
    for (int64_t i = 0; i < min_i64(m.rows, m.columns); i++)
        memcpy(m.at + i * (m.row + m.column) * b->bytes, value, (size_t)b->real_bytes);
}

/* ---- errors ---- */

int32_t cpu_check_lapack_sizes(const tn_call *call, const tn_tensor_desc *t)
{
    for (uint32_t i = t->rank > 2 ? t->rank - 2 : 0; i < t->rank; i++) {
        if (t->sizes[i] > INT_MAX / 4)
            return cpu_error(call, TN_E_SHAPE, "a matrix with a side of %lld is too large for LAPACK",
                             (long long)t->sizes[i]);
    }
    return TN_OK;
}

static bool pivots_fit(cpu_matrix pivots, int64_t rows, bool pairs)
{
    const int *pivot = (const int *)(const void *)pivots.at;
    int64_t n = pivots.rows, step = pivots.row;
    for (int64_t i = 0; i < n; i++) {
        int here = pivot[i * step];
        if (pairs && here < 0) {
            if (++i == n || here < -rows || pivot[i * step] >= 0 || pivot[i * step] < -rows) return false;
        } else if (here < 1 || here > rows) {
            return false;
        }
    }
    return true;
}

int32_t cpu_check_pivots(const tn_call *call, const tn_tensor_desc *pivots, const char *name, int64_t rows,
                         bool pairs)
{
    cpu_batches b = cpu_batches_of(call, pivots, 1, TN_FLOAT32);
    for (int64_t item = 0; item < b.count; item++) {
        if (!pivots_fit(cpu_vector_of(&b, pivots, item), rows, pairs))
            return cpu_error(call, TN_E_INDEX,
                             "argument '%s': must be rows from 1 to %lld, as a factorization returns them",
                             name, (long long)rows);
    }
    return TN_OK;
}

/* Messages by operator: `%s` is the place in the batch, `%d` is info. */
static const struct {
    const char *prefix, *text;
} meanings[] = {
    {"linalg.inv", "%sThe diagonal element %d is zero, the inversion could not be completed because the "
                   "input matrix is singular."},
    {"cholesky_inverse",
     "%sThe diagonal element %d is zero, the inversion could not be completed because the "
     "input matrix is singular."},
    {"linalg.solve", "%sThe solver failed because the input matrix is singular."},
    {"linalg.cholesky",
     "%sThe factorization could not be completed because the input is not positive-definite "
     "(the leading minor of order %d is not positive-definite)."},
    {"cholesky", "%sThe factorization could not be completed because the input is not positive-definite (the "
                 "leading minor of order %d is not positive-definite)."},
    {"linalg.svd",
     "%sThe algorithm failed to converge because the input matrix is ill-conditioned or has too "
     "many repeated singular values (error code: %d)."},
    {"linalg.eigh", "%sThe algorithm failed to converge because the input matrix is ill-conditioned or has "
                    "too many repeated eigenvalues (error code: %d)."},
    {"linalg.eig",
     "%sThe algorithm failed to converge because the input matrix is ill-conditioned or has too "
     "many repeated eigenvalues (error code: %d)."},
    {"linalg.lstsq", "%sThe least squares solution could not be computed because the input matrix does not "
                     "have full rank (error code: %d)."},
    {"linalg.lu_factor", "%sU[%d,%d] is zero and using it on lu_solve would result in a division by zero. If "
                         "you still want to perform the factorization, consider calling linalg.lu(A, pivot) "
                         "or linalg.lu_factor_ex(A, pivot)"},
    {"", "%sThe diagonal element %d is zero, so that the matrix is singular."},
};

int32_t cpu_info_error(const tn_call *call, const char *name, const int *infos, int64_t count, bool is_matrix)
{
    char where[64] = "", text[200];
    int64_t i = 0;
    uint32_t k = 0;
    while (i < count && infos[i] == 0) i++;
    if (i == count) return TN_OK;
    if (!is_matrix) snprintf(where, sizeof(where), "(Batch element %lld): ", (long long)i);
    if (infos[i] < 0 && strcmp(name, "linalg.svd") == 0)
        return cpu_error(
            call, TN_E_ARGUMENT,
            "%s: %sThe algorithm failed to converge because the input matrix contained non-finite "
            "values.",
            name, where);
    if (infos[i] < 0)
        return cpu_error(call, TN_E_ARGUMENT,
                         "%s: %sArgument %d has an illegal value, for example NaN or infinity.", name, where,
                         -infos[i]);
    while (strncmp(name, meanings[k].prefix, strlen(meanings[k].prefix)) != 0) k++;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof(text), meanings[k].text, where, infos[i], infos[i]);
#pragma GCC diagnostic pop
    return cpu_error(call, TN_E_ARGUMENT, "%s: %s", name, text);
}

void cpu_write_infos(const cpu_batches *b, const tn_tensor_desc *to)
{
    for (int64_t i = 0; i < b->count; i++) memcpy(cpu_number_of(b, to, i), &b->infos[i], sizeof(int32_t));
}
