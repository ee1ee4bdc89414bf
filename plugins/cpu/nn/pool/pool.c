/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling: window tables from ATen's arguments, planes over the threads. Channels-last images have their own
 * kernels; images that are neither row-major nor channels-last are copied, and results are written with the
 * strides of the output.
 */
#include "kernel_lists.h"
#include "pool.h"
#include "nn/contiguous.h"
#include "nn/product/gemm.h"
#include "support/kernel_table.h"

CPU_KERNEL_TABLE(static cpu_kernel_table pool_table, CPU_POOL_LISTS, cpu_pool_kernels);
CPU_KERNEL_TABLE(static cpu_kernel_table pool_channels_last_table, CPU_POOL_CHANNELS_LAST_LISTS,
                 cpu_pool_kernels);

/* The data of a row: the number of spatial dimensions and the kind of pooling. */
typedef enum pool_work { MAX, AVERAGE, MAX_BACKWARD, AVERAGE_BACKWARD, UNPOOL, FRACTIONAL } pool_work;
typedef struct pool_form {
    uint32_t spatial;
    pool_work work;
    bool adaptive;
    uint32_t kernel;  /* argument of kernel_size, followed by stride and padding; 0: none */
    uint32_t indices; /* argument of the indices, backward only */
} pool_form;

typedef struct pool_job {
    const tn_call *call;
    const cpu_pool_kernels *kernels;
    const pool_form *form;
    cpu_pool p;
    void *x, *y, *indices;
    bool last; /* channels-last throughout */
    int64_t bad_index;
    double *samples; /* fractional pooling: `spatial` numbers for each plane */
    int32_t status;
} pool_job;

/* Sizes of the spatial dimensions, with leading ones. */
static void spatial_sizes(const tn_tensor_desc *t, uint32_t spatial, int64_t out[3])
{
    for (uint32_t i = 0; i < 3; i++) out[i] = i + spatial < 3 ? 1 : t->sizes[t->rank + i - 3];
}

static int64_t pool_argument(const pool_job *job, uint32_t argument, int i, int64_t otherwise)
{
    int k = i - (3 - (int)job->form->spatial);
    return k < 0 ? otherwise : list_arg(job->call, argument, (uint32_t)k, otherwise);
}

static void plain_windows(pool_job *job, int i, int64_t *lo, int64_t *hi, int64_t *extent)
{
    cpu_pool *p = &job->p;
    uint32_t at = job->form->kernel;
    bool max = job->form->work == MAX;
    p->kernel[i] = pool_argument(job, at, i, 1);
    p->stride[i] = pool_argument(job, at + 1, i, p->kernel[i]);
    p->padding[i] = pool_argument(job, at + 2, i, 0);
    p->step[i] = max ? pool_argument(job, at + 3, i, 1) : 1;
    for (int64_t o = 0; o < p->out[i]; o++) {
        int64_t start = o * p->stride[i] - p->padding[i], end = start + (p->kernel[i] - 1) * p->step[i] + 1;
        extent[o] = min_i64(end, p->in[i] + p->padding[i]) - start;
        while (start < 0) start += p->step[i];
        lo[o] = start;
        hi[o] = min_i64(end, p->in[i]);
    }
}

static void adaptive_windows(pool_job *job, int i, int64_t *lo, int64_t *hi)
{
    cpu_pool *p = &job->p;
    p->step[i] = 1;
    for (int64_t o = 0; o < p->out[i]; o++) {
        lo[o] = o / p->out[i] * p->in[i] + o % p->out[i] * p->in[i] / p->out[i];
        hi[o] = ceil_div((o + 1) * p->in[i], p->out[i]);
    }
}

/* The tables of pooling with a regular stride: see pool.h. */
static void line_windows(cpu_pool *p, int64_t *from, int64_t *to)
{
    p->first = 0;
    p->last = p->out[2];
    for (int64_t k = 0; k < p->kernel[2]; k++) {
        int64_t shift = k * p->step[2] - p->padding[2], size = p->in[2];
        from[k] = shift >= 0 ? 0 : min_i64(p->out[2], ceil_div(-shift, p->stride[2]));
        to[k] = size <= shift ? 0 : min_i64(p->out[2], ceil_div(size - shift, p->stride[2]));
        p->first = max_i64(p->first, from[k]);
        p->last = min_i64(p->last, to[k]);
    }
    p->from = from;
    p->to = to;
    p->square = p->in[0] == 1 && p->kernel[0] == 1 && p->kernel[1] == p->kernel[2] &&
                p->stride[1] == p->stride[2] && p->step[1] == 1 && p->step[2] == 1 &&
                p->in[1] * p->in[2] < INT32_MAX;
}

static int32_t make_windows(pool_job *job)
{
    cpu_pool *p = &job->p;
    uint32_t at = job->form->kernel;
    int64_t *next;
    bool average = job->form->work == AVERAGE || job->form->work == AVERAGE_BACKWARD;
    int64_t kernel = job->form->adaptive ? 0 : pool_argument(job, at, 2, 1);
    next = cpu_scratch(job->call, (uint64_t)(3 * (p->out[0] + p->out[1] + p->out[2]) + 2 * kernel) * 8);
    if (!next) return TN_E_OUT_OF_MEMORY;
    for (int i = 0; i < 3; i++) {
        int64_t *lo = next, *hi = lo + p->out[i], *extent = hi + p->out[i];
        next = extent + p->out[i];
        p->lo[i] = lo;
        p->hi[i] = hi;
        if (job->form->adaptive) {
            adaptive_windows(job, i, lo, hi);
        } else {
            plain_windows(job, i, lo, hi, extent);
            if (average && int_arg(job->call, at + 4)) p->extent[i] = extent;
        }
    }
    p->plain = !job->form->adaptive;
    if (p->plain) line_windows(p, next, next + kernel);
    if (average && !job->form->adaptive && !is_none_arg(job->call, at + 5))
        p->divisor = int_arg(job->call, at + 5);
    return TN_OK;
}

/* ---- Fractional pooling (Graham 2014): windows of each plane from its random numbers ------------------- */

/* Positions are computed in float for all dtypes but float64, as in ATen. */
static void fractional_windows(const cpu_pool *p, int i, double sample, bool wide, int64_t *lo, int64_t *hi)
{
    int64_t reach = p->in[i] - p->kernel[i], last = p->out[i] - 1;
    double step = last > 0 ? (double)reach / (double)last : 0;
    float narrow_step = last > 0 ? (float)reach / (float)last : 0, narrow = (float)sample;
    for (int64_t o = 0; o <= last; o++) {
        int64_t start = wide ? (int64_t)(((double)o + sample) * step) - (int64_t)(sample * step)
                             : (int64_t)(((float)o + narrow) * narrow_step) - (int64_t)(narrow * narrow_step);
        lo[o] = o == last ? reach : start;
        hi[o] = lo[o] + p->kernel[i];
    }
}

static void run_fractional(pool_job *job, int64_t begin, int64_t end)
{
    int64_t outs = job->p.out[0] + job->p.out[1] + job->p.out[2], bytes = outs * 16;
    int spatial = (int)job->form->spatial;
    int64_t *table = cpu_alloc(job->call, bytes);
    if (!table) {
        job->status = TN_E_OUT_OF_MEMORY;
        return;
    }
    for (int64_t plane = begin; plane < end; plane++) {
        const double *samples = job->samples + plane * spatial;
        int64_t *next = table;
        cpu_pool p = job->p;
        for (int i = 0; i < 3; i++) {
            int64_t *lo = next, *hi = lo + p.out[i];
            /* The samples are (width, height) in two dimensions, (depth, height, width) in three. */
            double sample = i < 3 - spatial ? 0 : spatial == 2 ? samples[2 - i] : samples[i];
            fractional_windows(&p, i, sample, tensor_arg(job->call, 0)->dtype == TN_FLOAT64, lo, hi);
            next = hi + p.out[i];
            p.lo[i] = lo;
            p.hi[i] = hi;
        }
        job->kernels->max(&p, plane, plane + 1);
    }
    cpu_free(job->call, table, bytes);
}

/* (self, kernel_size, output_size, random_samples) */
static int32_t open_samples(pool_job *job)
{
    const tn_tensor_desc *t = tensor_arg(job->call, 3);
    int64_t count = cpu_numel(t);
    const cpu_gemm_kernels *products = cpu_gemm_kernels_of(t->dtype);
    void *data;
    int32_t status = cpu_contiguous_read(job->call, t, &data);
    if (status == TN_OK) {
        job->samples = cpu_scratch(job->call, (uint64_t)count * 8);
        if (!job->samples) status = TN_E_OUT_OF_MEMORY;
    }
    for (int64_t i = 0; status == TN_OK && i < count; i++) {
        float narrow = 0;
        if (products->widen) products->widen(&narrow, (const char *)data + 2 * i, 0, 1, 1, 1);
        job->samples[i] = t->dtype == TN_FLOAT64   ? ((const double *)data)[i]
                          : t->dtype == TN_FLOAT32 ? (double)((const float *)data)[i]
                                                   : (double)narrow;
    }
    for (int i = 0; i < 3; i++) {
        job->p.step[i] = 1;
        job->p.kernel[i] = pool_argument(job, 1, i, 1);
    }
    return status;
}

static bool is_back(const pool_job *job)
{
    return job->form->work == MAX_BACKWARD || job->form->work == AVERAGE_BACKWARD;
}

static void run_planes(void *user, int64_t begin, int64_t end, int32_t thread)
{
    pool_job *job = user;
    const tn_call *call = job->call;
    int64_t bytes = cpu_volume(job->p.in) * job->kernels->acc_bytes * (job->last ? CPU_POOL_BLOCK : 1), bad;
    void *sums;
    switch (job->form->work) {
    case MAX:
        job->kernels->max(&job->p, begin, end);
        return;
    case AVERAGE:
        job->kernels->average(&job->p, begin, end);
        return;
    case FRACTIONAL:
        run_fractional(job, begin, end);
        return;
    case UNPOOL:
        bad = job->kernels->unpool(&job->p, begin, end);
        if (bad >= 0) job->bad_index = bad;
        return;
    default:
        break;
    }
    sums = cpu_alloc(call, bytes);
    if (!sums) {
        job->status = TN_E_OUT_OF_MEMORY;
        return;
    }
    if (job->form->work == MAX_BACKWARD)
        job->kernels->max_backward(&job->p, begin, end, sums);
    else
        job->kernels->average_backward(&job->p, begin, end, sums);
    cpu_free(call, sums, bytes);
}

/* The number of items of the parallel loop, and the cost of one. */
static int64_t count_items(const pool_job *job, int64_t *out_cost)
{
    const cpu_pool *p = &job->p;
    *out_cost = max_i64(cpu_volume(p->in), cpu_volume(p->out));
    if (!job->last) return p->planes;
    if (is_back(job)) {
        *out_cost *= CPU_POOL_BLOCK;
        return p->planes * ceil_div(p->channels, CPU_POOL_BLOCK);
    }
    *out_cost = ceil_div(*out_cost * p->channels, p->out[0] * p->out[1]);
    return p->planes * p->out[0] * p->out[1];
}

static int32_t run_all(pool_job *job)
{
    int64_t cost, count = count_items(job, &cost);
    job->bad_index = -1;
    cpu_parallel_ranges(job->call, count, grain_for(16384, cost), run_planes, job);
    if (job->bad_index >= 0)
        return cpu_error(job->call, TN_E_INDEX,
                         "Found an invalid max index: %lld (output volumes are of size %lldx%lld)",
                         (long long)job->bad_index, (long long)job->p.out[1], (long long)job->p.out[2]);
    return job->status;
}

static bool writes_indices(const pool_job *job)
{
    return job->form->work == MAX || job->form->work == FRACTIONAL;
}

static const tn_tensor_desc *indices_of(const pool_job *job)
{
    if (writes_indices(job)) return tensor_out(job->call, 1);
    return job->form->indices ? tensor_arg(job->call, job->form->indices) : NULL;
}

/* Uses the channels-last kernels if all tensors are channels-last images. */
static void choose_layout(pool_job *job, const tn_tensor_desc *in, const tn_tensor_desc *out)
{
    const tn_tensor_desc *indices = indices_of(job);
    if (in->rank != job->form->spatial + 2 || job->form->work == UNPOOL || job->form->work == FRACTIONAL)
        return;
    if (cpu_volume(job->p.in) > INT32_MAX || (cpu_is_contiguous(in) && cpu_is_contiguous(out))) return;
    if (!cpu_is_channels_last(in) || !cpu_is_channels_last(out)) return;
    if (indices && !cpu_is_channels_last(indices)) return;
    job->last = true;
    job->kernels = cpu_kernels_of(pool_channels_last_table, out->dtype);
    job->p.planes = in->sizes[0];
    job->p.channels = in->sizes[1];
}

static int32_t open_one(const pool_job *job, const tn_tensor_desc *t, bool written, void **out)
{
    if (job->last) {
        *out = t ? t->host : NULL;
        return TN_OK;
    }
    return written ? cpu_contiguous_write(job->call, t, out) : cpu_contiguous_read(job->call, t, out);
}

static int32_t open_tensors(pool_job *job, const tn_tensor_desc *in, const tn_tensor_desc *out)
{
    int32_t status = open_one(job, in, false, &job->x);
    if (status == TN_OK) status = open_one(job, out, true, &job->y);
    if (status == TN_OK) status = open_one(job, indices_of(job), writes_indices(job), &job->indices);
    job->p.x = job->x;
    job->p.y = job->y;
    job->p.indices = job->indices;
    return status;
}

static int32_t run(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = tensor_arg(call, 0), *out = tensor_out(call, 0);
    pool_job job = {.call = call, .form = call->data, .kernels = cpu_kernels_of(pool_table, out->dtype)};
    bool windows = job.form->work != MAX_BACKWARD && job.form->work != UNPOOL && job.form->work != FRACTIONAL;
    int32_t status = TN_OK;
    if (!cpu_numel(out)) return TN_OK; /* the tables of what has no elements could be of any size */
    spatial_sizes(is_back(&job) ? out : in, job.form->spatial, job.p.in);
    spatial_sizes(is_back(&job) ? in : out, job.form->spatial, job.p.out);
    job.p.planes = cpu_span(in, 0, in->rank - job.form->spatial);
    choose_layout(&job, in, out);
    if (windows) status = make_windows(&job);
    if (job.form->work == FRACTIONAL) status = open_samples(&job);
    if (status == TN_OK) status = open_tensors(&job, in, out);
    if (status == TN_OK) status = run_all(&job);
    if (status == TN_OK) cpu_contiguous_finish(call, out, job.y);
    if (status == TN_OK && writes_indices(&job)) cpu_contiguous_finish(call, indices_of(&job), job.indices);
    return status;
}

/* ---- Rows -------------------------------------------------------------------------------------------- */

static const tn_dtype floats_and_long[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16, TN_INT64, 0};

/* A row with the members of its pool_form. */
#define POOL_ROW(schema, list, ...) CPU_ROW(schema, list, run, .data = &(const pool_form){__VA_ARGS__})

const tn_kernel_row cpu_pool_rows[] = {
    POOL_ROW("aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] "
             "padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
             cpu_real_dtypes, 2, MAX, false, 1, 0),
    POOL_ROW("aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] "
             "padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
             cpu_real_dtypes, 3, MAX, false, 1, 0),
    POOL_ROW("aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, "
             "int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor",
             cpu_float_dtypes, 2, MAX_BACKWARD, false, 0, 7),
    POOL_ROW("aten::max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, "
             "int[3] stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor",
             cpu_float_dtypes, 3, MAX_BACKWARD, false, 0, 7),
    POOL_ROW("aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool "
             "ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
             floats_and_long, 2, AVERAGE, false, 1, 0),
    POOL_ROW("aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool "
             "ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
             floats_and_long, 3, AVERAGE, false, 1, 0),
    POOL_ROW("aten::avg_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, "
             "int[2] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
             cpu_float_dtypes, 2, AVERAGE_BACKWARD, false, 2, 0),
    POOL_ROW("aten::avg_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] stride, "
             "int[3] padding, bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
             cpu_float_dtypes, 3, AVERAGE_BACKWARD, false, 2, 0),
    POOL_ROW("aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", cpu_float_dtypes, 2,
             AVERAGE, true, 0, 0),
    POOL_ROW("aten::_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor", cpu_float_dtypes, 3,
             AVERAGE, true, 0, 0),
    POOL_ROW("aten::_adaptive_avg_pool2d_backward(Tensor grad_output, Tensor self) -> Tensor",
             cpu_float_dtypes, 2, AVERAGE_BACKWARD, true, 0, 0),
    POOL_ROW("aten::_adaptive_avg_pool3d_backward(Tensor grad_output, Tensor self) -> Tensor",
             cpu_float_dtypes, 3, AVERAGE_BACKWARD, true, 0, 0),
    POOL_ROW("aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)",
             cpu_float_dtypes, 2, MAX, true, 0, 0),
    POOL_ROW("aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)",
             cpu_float_dtypes, 3, MAX, true, 0, 0),
    POOL_ROW("aten::adaptive_max_pool2d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor",
             cpu_float_dtypes, 2, MAX_BACKWARD, true, 0, 2),
    POOL_ROW("aten::adaptive_max_pool3d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor",
             cpu_float_dtypes, 3, MAX_BACKWARD, true, 0, 2),
    POOL_ROW("aten::fractional_max_pool2d(Tensor self, int[2] kernel_size, int[2] output_size, Tensor "
             "random_samples) -> (Tensor, Tensor)",
             cpu_float_dtypes, 2, FRACTIONAL, false, 0, 0),
    POOL_ROW("aten::fractional_max_pool3d(Tensor self, int[3] kernel_size, int[3] output_size, Tensor "
             "random_samples) -> (Tensor, Tensor)",
             cpu_float_dtypes, 3, FRACTIONAL, false, 0, 0),
    POOL_ROW("aten::fractional_max_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, "
             "int[2] output_size, Tensor indices) -> Tensor",
             cpu_float_dtypes, 2, MAX_BACKWARD, true, 0, 4),
    POOL_ROW("aten::fractional_max_pool3d_backward(Tensor grad_output, Tensor self, int[3] kernel_size, "
             "int[3] output_size, Tensor indices) -> Tensor",
             cpu_float_dtypes, 3, MAX_BACKWARD, true, 0, 4),
    POOL_ROW("aten::max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
             cpu_float_dtypes, 2, UNPOOL, false, 0, 1),
    POOL_ROW("aten::max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] "
             "padding) -> Tensor",
             cpu_float_dtypes, 3, UNPOOL, false, 0, 1),
};
const uint32_t cpu_pool_row_count = CPU_ROW_COUNT(cpu_pool_rows);
