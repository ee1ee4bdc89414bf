/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mm, bmm, addmm, baddbmm, linear, mv, addmv, dot, vdot, addr: they read arguments, broadcast the addend,
 * split batches over threads, and leave the arithmetic to gemm.h.
 */
#include "nn/contiguous.h"
#include "gemm.h"

static const double one[2] = {1, 0}, zero[2] = {0, 0};

/* The stride of a broadcast tensor's dimension `back`, counted from the end: 0 if its size is 1. */
static int64_t broadcast_stride(const tn_tensor_desc *t, uint32_t back)
{
    if (back >= t->rank || t->sizes[t->rank - 1 - back] == 1) return 0;
    return t->strides[t->rank - 1 - back];
}

/* Broadcasts self to the rows x columns matrices of out. */
typedef struct spread {
    const tn_tensor_desc *self, *out;
    int64_t rows, columns;
} spread;
static void spread_rows(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const spread *s = user;
    int64_t bytes = tn_dtype_bytes(s->out->dtype);
    int64_t batch = broadcast_stride(s->self, 2), row = broadcast_stride(s->self, 1),
            col = broadcast_stride(s->self, 0);
    for (int64_t i = begin; i < end; i++) {
        const char *from = (const char *)s->self->host + (i / s->rows * batch + i % s->rows * row) * bytes;
        cpu_gemm_kernels_of(s->out->dtype)
            ->gather((char *)s->out->host + i * s->columns * bytes, from, 0, col, 1, s->columns);
    }
}
static void spread_self(const tn_call *call, const tn_tensor_desc *self, const tn_tensor_desc *out)
{
    spread s = {self, out, out->rank >= 2 ? out->sizes[out->rank - 2] : 1, out->sizes[out->rank - 1]};
    int64_t count = s.columns ? cpu_numel(out) / s.columns : 0;
    if (self->host == out->host) return;
    cpu_parallel_ranges(call, count, grain_for(32768, s.columns), spread_rows, &s);
}

static cpu_gemm product_of(const tn_tensor_desc *a, const tn_tensor_desc *b, const tn_tensor_desc *out)
{
    uint32_t i = a->rank - 2;
    return (cpu_gemm){.m = a->sizes[i],
                      .n = b->sizes[i + 1],
                      .k = a->sizes[i + 1],
                      .a = a->host,
                      .a_row = a->strides[i],
                      .a_col = a->strides[i + 1],
                      .b = b->host,
                      .b_row = b->strides[i],
                      .b_col = b->strides[i + 1],
                      .c = out->host,
                      .c_row = b->sizes[i + 1],
                      .alpha = {1, 0}};
}

static void set_scale(cpu_gemm *g, const double alpha[2], const double beta[2])
{
    for (int i = 0; i < 2; i++) {
        g->alpha[i] = alpha[i];
        g->beta[i] = beta[i];
    }
}

static int32_t run_mm(void *self, const tn_call *call)
{
    const tn_tensor_desc *out = tensor_out(call, 0);
    cpu_gemm g = product_of(tensor_arg(call, 0), tensor_arg(call, 1), out);
    return cpu_gemm_run(call, out->dtype, &g);
}

/* beta and alpha of (self, a, b, *, beta, alpha); self is written to out unless beta is 0. */
static void begin_scaled(const tn_call *call, double alpha[2], double beta[2])
{
    const tn_tensor_desc *a = tensor_arg(call, 1);
    scalar_arg(call, 3, beta);
    scalar_arg(call, 4, alpha);
    /* Sums of no products are 0 whatever alpha is, infinite or not. */
    if (a->sizes[a->rank - 1] == 0) alpha[0] = alpha[1] = 0;
    if (beta[0] != 0 || beta[1] != 0) spread_self(call, tensor_arg(call, 0), tensor_out(call, 0));
}

/* The one row that is added to all rows of a product with these factors, or NULL. */
static const void *bias_row(const tn_call *call, const tn_tensor_desc *self, const tn_tensor_desc *out)
{
    double alpha[2], beta[2];
    scalar_arg(call, 3, beta);
    scalar_arg(call, 4, alpha);
    if (alpha[0] != 1 || alpha[1] != 0 || beta[0] != 1 || beta[1] != 0) return NULL;
    if (self->host == out->host || broadcast_stride(self, 1) != 0 || broadcast_stride(self, 0) != 1)
        return NULL;
    return self->host;
}

static int32_t run_addmm(void *self, const tn_call *call)
{
    const tn_tensor_desc *out = tensor_out(call, 0);
    cpu_gemm g = product_of(tensor_arg(call, 1), tensor_arg(call, 2), out);
    double alpha[2], beta[2];
    g.bias = bias_row(call, tensor_arg(call, 0), out);
    if (!g.bias) {
        begin_scaled(call, alpha, beta);
        set_scale(&g, alpha, beta);
    }
    return cpu_gemm_run(call, out->dtype, &g);
}

/* input [..., k] times the transposed weight [n, k] (or a vector [k]) plus bias. */
static int32_t run_linear(void *self, const tn_call *call)
{
    const tn_tensor_desc *w = tensor_arg(call, 1), *bias = tensor_arg(call, 2), *out = tensor_out(call, 0);
    int64_t k = w->sizes[w->rank - 1], n = w->rank == 2 ? w->sizes[0] : 1, count = cpu_numel(out);
    void *in;
    int32_t status = cpu_contiguous_read(call, tensor_arg(call, 0), &in);
    if (status == TN_OK && count > 0) {
        cpu_gemm g = {.m = count / n,
                      .n = n,
                      .k = k,
                      .a = in,
                      .a_row = k,
                      .a_col = 1,
                      .b = w->host,
                      .b_row = w->strides[w->rank - 1],
                      .b_col = w->rank == 2 ? w->strides[0] : 1,
                      .c = out->host,
                      .c_row = n,
                      .alpha = {1, 0}};
        if (bias && broadcast_stride(bias, 0) == 1) {
            g.bias = bias->host;
        } else if (bias) {
            int64_t sizes[2] = {g.m, n}, strides[2] = {n, 1};
            tn_tensor_desc flat = *out;
            flat.rank = 2;
            flat.sizes = sizes;
            flat.strides = strides;
            spread_self(call, bias, &flat);
            g.beta[0] = 1;
        }
        status = cpu_gemm_run(call, out->dtype, &g);
    }
    return status;
}

/* One call multiplies dense matrices of a batch: of the least work that is worth a range, or of more in so many ranges. */
#define LEAST_WORK   (1 << 20)
#define MOST_WORK    (1 << 22)
#define DENSE_RANGES 16

static int64_t dense_grain(int64_t count, int64_t work)
{
    int64_t grain = min_i64(grain_for(MOST_WORK, work), ceil_div(count, DENSE_RANGES));
    return max_i64(grain, grain_for(LEAST_WORK, work));
}

/* ---- Batches ----------------------------------------------------------------------------------------- */

typedef struct batch {
    const tn_call *call;
    cpu_gemm g;
    tn_dtype dtype;
    int64_t a_step, b_step, c_step; /* bytes from one matrix to the next */
    bool is_dense;
    int32_t status;
} batch;

static cpu_gemm batch_item(const batch *b, int64_t i)
{
    cpu_gemm g = b->g;
    g.a = (const char *)g.a + i * b->a_step;
    g.b = (const char *)g.b + i * b->b_step;
    g.c = (char *)g.c + i * b->c_step;
    return g;
}

static void run_items(void *user, int64_t begin, int64_t end, int32_t thread)
{
    batch *b = user;
    for (int64_t i = begin; i < end; i++) {
        cpu_gemm g = batch_item(b, i);
        int32_t status;
        if (b->is_dense) g.count = end - begin;
        status = cpu_gemm_serial(b->call, b->dtype, &g);
        if (status != TN_OK) b->status = status;
        if (b->is_dense) return;
    }
}

/* Whether the matrices lie one behind the other without gaps. */
static bool is_dense_batch(const batch *b, int64_t bytes)
{
    const cpu_gemm *g = &b->g;
    bool a = (g->a_col == 1 && g->a_row == g->k) || (g->a_row == 1 && g->a_col == g->m);
    bool right = (g->b_col == 1 && g->b_row == g->n) || (g->b_row == 1 && g->b_col == g->k);
    return a && right && b->a_step == g->m * g->k * bytes && b->b_step == g->k * g->n * bytes;
}

static int32_t run_batch(const tn_call *call, const tn_tensor_desc *a, const tn_tensor_desc *b,
                         const tn_tensor_desc *out, const double alpha[2], const double beta[2])
{
    int64_t count = out->sizes[0], bytes = tn_dtype_bytes(out->dtype), work, grain;
    batch all = {.call = call,
                 .g = product_of(a, b, out),
                 .dtype = out->dtype,
                 .a_step = a->strides[0] * bytes,
                 .b_step = b->strides[0] * bytes,
                 .c_step = out->sizes[1] * out->sizes[2] * bytes};
    set_scale(&all.g, alpha, beta);
    all.is_dense = is_dense_batch(&all, bytes);
    work = all.g.m * all.g.n * max_i64(1, all.g.k);
    if (count < 4 && work > 1 << 20) {
        for (int64_t i = 0; i < count && all.status == TN_OK; i++) {
            cpu_gemm g = batch_item(&all, i);
            all.status = cpu_gemm_run(call, out->dtype, &g);
        }
        return all.status;
    }
    grain = all.is_dense ? dense_grain(count, work) : grain_for(1 << 17, work);
    cpu_parallel_ranges(call, count, grain, run_items, &all);
    return all.status;
}

static int32_t run_bmm(void *self, const tn_call *call)
{
    return run_batch(call, tensor_arg(call, 0), tensor_arg(call, 1), tensor_out(call, 0), one, zero);
}

static int32_t run_baddbmm(void *self, const tn_call *call)
{
    double alpha[2], beta[2];
    begin_scaled(call, alpha, beta);
    return run_batch(call, tensor_arg(call, 1), tensor_arg(call, 2), tensor_out(call, 0), alpha, beta);
}

/* ---- Vectors ----------------------------------------------------------------------------------------- */

typedef struct vector_job {
    const cpu_gemm_kernels *kernels;
    cpu_gemv v;
    cpu_gemm g;
} vector_job;

CPU_RANGE(run_thin_columns, vector_job, job->kernels->thin(&job->g, begin, end))

CPU_RANGE(run_gemv_rows, vector_job, job->kernels->gemv(&job->v, begin, end))

/* The product with a vector as one of a row with the transposed matrix, if its elements are adjacent. */
static bool is_row_product(const cpu_gemm_kernels *kernels, const tn_tensor_desc *a, const tn_tensor_desc *x)
{
    return kernels->thin && (x->strides[0] == 1 || x->sizes[0] == 1) &&
           (a->strides[0] == 1 || a->strides[1] == 1) && a->sizes[1] > 0;
}

static int32_t run_row_product(const tn_call *call, const tn_tensor_desc *a, const tn_tensor_desc *x,
                               const double alpha[2], const double beta[2])
{
    const tn_tensor_desc *out = tensor_out(call, 0);
    vector_job job = {.kernels = cpu_gemm_kernels_of(out->dtype),
                      .g = {.m = 1,
                            .n = a->sizes[0],
                            .k = a->sizes[1],
                            .a = x->host,
                            .a_row = a->sizes[1],
                            .a_col = 1,
                            .b = a->host,
                            .b_row = a->strides[1],
                            .b_col = a->strides[0],
                            .c = out->host,
                            .c_row = a->sizes[0]}};
    set_scale(&job.g, alpha, beta);
    cpu_parallel_ranges(call, job.g.n, round_up(grain_for(1 << 16, job.g.k), 16), run_thin_columns, &job);
    return TN_OK;
}

static int32_t run_gemv(const tn_call *call, const tn_tensor_desc *a, const tn_tensor_desc *x,
                        const double alpha[2], const double beta[2])
{
    const tn_tensor_desc *out = tensor_out(call, 0);
    vector_job job = {.kernels = cpu_gemm_kernels_of(out->dtype),
                      .v = {.m = a->sizes[0],
                            .k = a->sizes[1],
                            .a = a->host,
                            .a_row = a->strides[0],
                            .a_col = a->strides[1],
                            .x = x->host,
                            .x_step = x->strides[0],
                            .y = out->host,
                            .alpha = {alpha[0], alpha[1]},
                            .beta = {beta[0], beta[1]}}};
    int64_t bytes = job.v.k * tn_dtype_bytes(out->dtype);
    void *packed = NULL;
    if (is_row_product(job.kernels, a, x)) return run_row_product(call, a, x, alpha, beta);
    if (job.v.k == 1) job.v.a_col = job.v.x_step = 1;
    if (job.v.x_step != 1) {
        packed = cpu_scratch(call, (uint64_t)bytes);
        if (!packed) return TN_E_OUT_OF_MEMORY;
        job.kernels->gather(packed, x->host, 0, job.v.x_step, 1, job.v.k);
        job.v.x = packed;
        job.v.x_step = 1;
    }
    cpu_parallel_ranges(call, job.v.m, round_up(grain_for(1 << 16, job.v.k), 16), run_gemv_rows, &job);
    return TN_OK;
}

static int32_t run_mv(void *self, const tn_call *call)
{
    return run_gemv(call, tensor_arg(call, 0), tensor_arg(call, 1), one, zero);
}

static int32_t run_addmv(void *self, const tn_call *call)
{
    double alpha[2], beta[2];
    begin_scaled(call, alpha, beta);
    return run_gemv(call, tensor_arg(call, 1), tensor_arg(call, 2), alpha, beta);
}

CPU_RANGE(run_outer_rows, vector_job, job->kernels->outer(&job->g, begin, end))

static int32_t run_addr(void *self, const tn_call *call)
{
    const tn_tensor_desc *a = tensor_arg(call, 1), *b = tensor_arg(call, 2), *out = tensor_out(call, 0);
    vector_job job = {.kernels = cpu_gemm_kernels_of(out->dtype),
                      .g = {.m = a->sizes[0],
                            .n = b->sizes[0],
                            .a = a->host,
                            .a_row = a->strides[0],
                            .b = b->host,
                            .b_col = b->strides[0],
                            .c = out->host,
                            .c_row = b->sizes[0]}};
    double alpha[2], beta[2];
    begin_scaled(call, alpha, beta);
    set_scale(&job.g, alpha, beta);
    cpu_parallel_ranges(call, job.g.m, grain_for(32768, job.g.n), run_outer_rows, &job);
    return TN_OK;
}

enum { DOT_RANGE = 16384 };

typedef struct dot_job {
    const cpu_gemm_kernels *kernels;
    const tn_tensor_desc *x, *y;
    int32_t conjugate;
    char *partials; /* one accumulator for each range */
} dot_job;

static void run_dot_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const dot_job *job = user;
    job->kernels->dot(job->x->host, job->x->strides[0], job->y->host, job->y->strides[0], job->conjugate,
                      begin, end, job->partials + begin / DOT_RANGE * job->kernels->acc_bytes);
}

static int32_t run_dot_conjugated(const tn_call *call, int32_t conjugate)
{
    const tn_tensor_desc *out = tensor_out(call, 0);
    dot_job job = {.kernels = cpu_gemm_kernels_of(out->dtype),
                   .x = tensor_arg(call, 0),
                   .y = tensor_arg(call, 1),
                   .conjugate = conjugate};
    int64_t count = job.x->sizes[0], parts = ceil_div(count, DOT_RANGE),
            bytes = parts * job.kernels->acc_bytes;
    job.partials = cpu_scratch(call, (uint64_t)bytes);
    if (!job.partials) return TN_E_OUT_OF_MEMORY;
    cpu_parallel_ranges(call, count, DOT_RANGE, run_dot_range, &job);
    job.kernels->dot_finish(job.partials, parts, out->host);
    return TN_OK;
}
static int32_t run_dot(void *self, const tn_call *call)
{
    return run_dot_conjugated(call, 0);
}
static int32_t run_vdot(void *self, const tn_call *call)
{
    return run_dot_conjugated(call, 1);
}

/* ---- Rows -------------------------------------------------------------------------------------------- */

const tn_kernel_row cpu_matmul_rows[] = {
    CPU_ROW("aten::mm(Tensor self, Tensor mat2) -> Tensor", cpu_number_dtypes, run_mm),
    CPU_ROW("aten::bmm(Tensor self, Tensor mat2) -> Tensor", cpu_number_dtypes, run_bmm),
    CPU_ROW("aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
            cpu_number_dtypes, run_addmm),
    CPU_ROW("aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> "
            "Tensor",
            cpu_number_dtypes, run_baddbmm),
    CPU_ROW("aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", cpu_number_dtypes,
            run_linear),
    CPU_ROW("aten::mv(Tensor self, Tensor vec) -> Tensor", cpu_number_dtypes, run_mv),
    CPU_ROW("aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
            cpu_number_dtypes, run_addmv),
    CPU_ROW("aten::dot(Tensor self, Tensor tensor) -> Tensor", cpu_number_dtypes, run_dot),
    CPU_ROW("aten::vdot(Tensor self, Tensor other) -> Tensor", cpu_number_dtypes, run_vdot),
    CPU_ROW("aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
            cpu_all_dtypes, run_addr),
};
const uint32_t cpu_matmul_row_count = CPU_ROW_COUNT(cpu_matmul_rows);
