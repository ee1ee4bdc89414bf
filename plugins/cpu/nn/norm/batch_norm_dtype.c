/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch normalisation. Sums of a line are taken in vector accumulators and added up in double. Moments are
 * taken about a value near the mean, so one pass over the data is exact enough.
 */
#include "nn/lanes.h"
#include "norm.h"
#include "params.h"
#include "nn/runs.h"

#define LARGEST_HALF 65504.0F

static void round_values(void *values, int64_t count, tn_dtype dtype, double factor)
{
    T *at = values;
    for (int64_t i = 0; i < count; i++) {
        float value = (float)(at[i] * (T)factor);
        if (dtype == TN_FLOAT16 && value > LARGEST_HALF)
            continue; /* a sum that the dtype cannot hold stays exact */
        if (dtype == TN_BFLOAT16)
            at[i] = (T)(float_of_bfloat(bfloat_of_float(value)) / factor);
        else if (dtype == TN_FLOAT16)
            at[i] = (T)(float_of_half(half_of_float(value)) / factor);
    }
}

static void inverse(const void *var, int64_t channels, double eps, void *invstd)
{
    for (int64_t c = 0; c < channels; c++)
        ((T *)invstd)[c] = (T)(1 / sqrt((double)((const T *)var)[c] + eps));
}

static void coefficients(int64_t channels, const void *mean, const void *invstd, const void *weight,
                         const void *bias, void *scale, void *shift)
{
    for (int64_t c = 0; c < channels; c++) {
        T w = ((const T *)invstd)[c] * ((const T *)weight)[c];
        ((T *)scale)[c] = w;
        ((T *)shift)[c] = ((const T *)bias)[c] - ((const T *)mean)[c] * w;
    }
}

static void update(const void *mean, const void *var, int64_t channels, int64_t count, double momentum,
                   const tn_tensor_desc *running_mean, const tn_tensor_desc *running_var)
{
    for (int64_t c = 0; c < channels; c++) {
        double unbiased = (double)((const T *)var)[c] * (double)count / (double)(count - 1);
        double news[2] = {(double)((const T *)mean)[c], unbiased};
        const tn_tensor_desc *olds[2] = {running_mean, running_var};
        for (int i = 0; i < 2; i++) {
            tn_tensor_desc element;
            T old;
            if (!olds[i]) continue;
            element = *olds[i];
            element.rank = 0;
            element.host = (char *)olds[i]->host +
                           c * olds[i]->strides[olds[i]->rank - 1] * tn_dtype_bytes(olds[i]->dtype);
            params_read(&element, 1, 0, &old);
            old = (T)(momentum * news[i] + (1 - momentum) * (double)old);
            params_write(&old, 1, &element);
        }
    }
}

/* ---- Row-major data: one channel after the other ----------------------------------------------------- */

typedef struct channel_job {
    const cpu_channels *d;
    const T *mean, *scale, *shift, *sum;
    T *a, *b; /* results for each channel */
    double *partials;
    bool train;
} channel_job;

static const E *line_of(const cpu_channels *d, const void *data, int64_t n, int64_t c)
{
    return (const E *)data + (n * d->channels + c) * d->inner;
}

static void channel_moments(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const channel_job *job = user;
    const cpu_channels *d = job->d;
    double count = (double)(d->batch * d->inner);
    for (int64_t c = begin; c < end; c++) {
        T near = lanes_sum(line_of(d, d->x, 0, c), d->inner) / (T)d->inner, sum, square;
        double sums = 0, squares = 0;
        for (int64_t n = 0; n < d->batch; n++) {
            lanes_moments(line_of(d, d->x, n, c), d->inner, near, &sum, &square);
            sums += (double)sum;
            squares += (double)square;
        }
        job->a[c] = (T)((double)near + sums / count);
        squares = squares / count - sums / count * (sums / count);
        job->b[c] = squares > 0 || squares != squares ? (T)squares : 0;
    }
}

ALWAYS_INLINE T affine_of(T x, T y, T scale, T shift, const T *c)
{
    return x * c[0] + c[1];
}
ALWAYS_INLINE T affine_by_channel(T x, T y, T scale, T shift, const T *c)
{
    return x * scale + shift;
}
ALWAYS_INLINE T times_scale(T g, T y, T v, T w, const T *c)
{
    return g * c[0];
}
ALWAYS_INLINE T train_gradient(T g, T x, T v, T w, const T *c)
{
    return (g - c[1] - (x - c[2]) * c[3]) * c[0];
}

static void channel_affine(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const channel_job *job = user;
    const cpu_channels *d = job->d;
    for (int64_t plane = begin; plane < end; plane++) {
        int64_t c = plane % d->channels;
        run_operands r = {.x = (const E *)d->x + plane * d->inner};
        run_map(r, d->inner, (const T[]){job->scale[c], job->shift[c]}, affine_of,
                (E *)d->out + plane * d->inner);
    }
}

static void channel_backward_sums(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const channel_job *job = user;
    const cpu_channels *d = job->d;
    for (int64_t c = begin; c < end; c++) {
        double sums = 0, dots = 0;
        T sum, dot;
        for (int64_t n = 0; n < d->batch; n++) {
            lanes_products(line_of(d, d->grad, n, c), line_of(d, d->x, n, c), NULL, d->inner, job->mean[c],
                           &sum, &dot);
            sums += (double)sum;
            dots += (double)dot;
        }
        job->a[c] = (T)sums;
        job->b[c] = (T)dots;
    }
}

/* In this job scale is invstd * weight, shift is the factor of x - mean, and sum is the mean gradient. */
static void channel_backward(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const channel_job *job = user;
    const cpu_channels *d = job->d;
    for (int64_t plane = begin; plane < end; plane++) {
        int64_t c = plane % d->channels;
        const T constants[] = {job->scale[c], job->sum[c], job->mean[c], job->shift[c]};
        const E *g = (const E *)d->grad + plane * d->inner, *x = (const E *)d->x + plane * d->inner;
        E *out = (E *)d->out + plane * d->inner;
        if (job->train)
            run_map((run_operands){.x = g, .y = x}, d->inner, constants, train_gradient, out);
        else
            run_map((run_operands){.x = g}, d->inner, constants, times_scale, out);
    }
}

/* ---- Channels-last data: rows of all channels -------------------------------------------------------- */

enum { ROW_PARTS = 64 };

static int64_t rows_of(const cpu_channels *d)
{
    return d->batch * d->inner;
}

/* Rows whose sums are taken in T before they are added to the doubles, and vectors of channels that are summed at once. */
enum { ROW_GROUP = 8, ROW_SETS = 4 };

static void add_wide(const T *restrict from, int64_t count, double *restrict to)
{
    for (int64_t i = 0; i < count; i++) to[i] += (double)from[i];
}

/* Adds `rows` rows of some vectors of channels, whose first element is at `at`, to the two sums. */
ALWAYS_INLINE void add_vectors(const channel_job *job, int64_t at, int64_t c, int64_t rows, const int sets,
                               const bool has_grad, double *sum, double *second)
{
    const E *x = (const E *)job->d->x + at, *g = (const E *)job->d->grad + (has_grad ? at : 0);
    lanes mean[ROW_SETS], total[ROW_SETS], dot[ROW_SETS];
    for (int i = 0; i < sets; i++) {
        mean[i] = lanes_of_acc(job->mean + c + i * LANE_COUNT);
        total[i] = dot[i] = (lanes){0};
    }
    for (int64_t r = 0; r < rows; r++, x += job->d->channels, g += has_grad ? job->d->channels : 0)
        for (int i = 0; i < sets; i++) {
            /* The next group: columns of rows are too short for the processor to see where reading goes on. */
            __builtin_prefetch(x + ROW_GROUP * job->d->channels + i * LANE_COUNT);
            if (has_grad) __builtin_prefetch(g + ROW_GROUP * job->d->channels + i * LANE_COUNT);
            lanes apart = lanes_load(x + i * LANE_COUNT) - mean[i];
            lanes value = has_grad ? lanes_load(g + i * LANE_COUNT) : apart;
            total[i] += value;
            dot[i] += value * apart;
        }
    add_wide((const T *)(const void *)total, sets * LANE_COUNT, sum + c);
    add_wide((const T *)(const void *)dot, sets * LANE_COUNT, second + c);
}

ALWAYS_INLINE void add_rows(const channel_job *job, int64_t first, int64_t rows, const bool has_grad,
                            double *sum, double *second)
{
    const int64_t channels = job->d->channels, at = first * channels;
    int64_t c = 0;
    for (; c + ROW_SETS * LANE_COUNT <= channels; c += ROW_SETS * LANE_COUNT)
        add_vectors(job, at + c, c, rows, ROW_SETS, has_grad, sum, second);
    for (; c + LANE_COUNT <= channels; c += LANE_COUNT)
        add_vectors(job, at + c, c, rows, 1, has_grad, sum, second);
    for (; c < channels; c++)
        for (int64_t r = 0; r < rows; r++) {
            T apart = load((const E *)job->d->x + at + r * channels + c) - job->mean[c];
            T value = has_grad ? load((const E *)job->d->grad + at + r * channels + c) : apart;
            sum[c] += (double)value;
            second[c] += (double)(value * apart);
        }
}

/* Part p computes two sums for each channel over its rows; job->mean is subtracted from x. */
static void row_sums(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const channel_job *job = user;
    const cpu_channels *d = job->d;
    int64_t channels = d->channels;
    for (int64_t part = begin; part < end; part++) {
        double *sum = job->partials + part * 2 * channels, *second = sum + channels;
        int64_t first = rows_of(d) * part / ROW_PARTS, last = rows_of(d) * (part + 1) / ROW_PARTS;
        memset(sum, 0, (size_t)(2 * channels) * sizeof(double));
        for (int64_t r = first; r < last; r += ROW_GROUP) {
            if (d->grad)
                add_rows(job, r, min_i64(ROW_GROUP, last - r), true, sum, second);
            else
                add_rows(job, r, min_i64(ROW_GROUP, last - r), false, sum, second);
        }
    }
}

static int32_t row_totals(channel_job *job, double *totals)
{
    const cpu_channels *d = job->d;
    int64_t bytes = ROW_PARTS * 2 * d->channels * (int64_t)sizeof(double);
    job->partials = cpu_alloc(d->call, bytes);
    if (!job->partials) return TN_E_OUT_OF_MEMORY;
    cpu_parallel_ranges(d->call, ROW_PARTS, 1, row_sums, job);
    for (int64_t i = 0; i < 2 * d->channels; i++) {
        totals[i] = 0;
        for (int64_t part = 0; part < ROW_PARTS; part++)
            totals[i] += job->partials[part * 2 * d->channels + i];
    }
    cpu_free(d->call, job->partials, bytes);
    return TN_OK;
}

static void row_affine(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const channel_job *job = user;
    const cpu_channels *d = job->d;
    for (int64_t r = begin; r < end; r++) {
        run_operands row = {.x = (const E *)d->x + r * d->channels, .v = job->scale, .w = job->shift};
        run_map(row, d->channels, NULL, affine_by_channel, (E *)d->out + r * d->channels);
    }
}

/* Channels that are processed together. */
enum { STRETCH = 256 };

ALWAYS_INLINE void row_stretch(const channel_job *job, int64_t at, int64_t c, int64_t length,
                               const bool train)
{
    T rooms[2][STRETCH], result[STRETCH];
    const T *restrict x = run_read((const E *)job->d->x + at, length, rooms[0]);
    const T *restrict g = run_read((const E *)job->d->grad + at, length, rooms[1]);
    const T *restrict mean = job->mean + c, *restrict average = job->sum + c,
                      *restrict factor = job->shift + c, *restrict scale = job->scale + c;
    for (int64_t i = 0; i < length; i++)
        result[i] = (g[i] - (train ? average[i] + (x[i] - mean[i]) * factor[i] : 0)) * scale[i];
    run_write(result, length, (E *)job->d->out + at);
}

ALWAYS_INLINE void row_gradient(const channel_job *job, int64_t row, const bool train)
{
    for (int64_t c = 0; c < job->d->channels; c += STRETCH)
        row_stretch(job, row * job->d->channels + c, c, min_i64(STRETCH, job->d->channels - c), train);
}

static void row_backward(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const channel_job *job = user;
    for (int64_t r = begin; r < end; r++) {
        if (job->train)
            row_gradient(job, r, true);
        else
            row_gradient(job, r, false);
    }
}

/* ---- The two layouts together ------------------------------------------------------------------------ */

static int32_t moments(const cpu_channels *d, void *mean, void *var)
{
    channel_job job = {.d = d, .a = mean, .b = var};
    int64_t bytes = d->channels * (int64_t)(2 * sizeof(double) + sizeof(T));
    double *totals, count = (double)rows_of(d);
    T *near;
    int32_t status;
    if (!d->channels_last) {
        cpu_parallel_ranges(d->call, d->channels, grain_for(32768, d->batch * d->inner), channel_moments,
                            &job);
        return TN_OK;
    }
    totals = cpu_alloc(d->call, bytes);
    if (!totals) return TN_E_OUT_OF_MEMORY;
    near = (T *)(totals + 2 * d->channels);
    for (int64_t c = 0; c < d->channels; c++) near[c] = load(&((const E *)d->x)[c]);
    job.mean = near;
    status = row_totals(&job, totals);
    for (int64_t c = 0; status == TN_OK && c < d->channels; c++) {
        double apart = totals[c] / count, v = totals[d->channels + c] / count - apart * apart;
        job.a[c] = (T)((double)near[c] + apart);
        job.b[c] = v > 0 || v != v ? (T)v : 0;
    }
    cpu_free(d->call, totals, bytes);
    return status;
}

static void affine(const cpu_channels *d, const void *scale, const void *shift)
{
    channel_job job = {.d = d, .scale = scale, .shift = shift};
    if (d->channels_last)
        cpu_parallel_ranges(d->call, rows_of(d), grain_for(32768, d->channels), row_affine, &job);
    else
        cpu_parallel_ranges(d->call, d->batch * d->channels, grain_for(32768, d->inner), channel_affine,
                            &job);
}

static int32_t backward_sums(const cpu_channels *d, const void *mean, void *sum, void *dot)
{
    channel_job job = {.d = d, .mean = mean, .a = sum, .b = dot};
    int64_t bytes = d->channels * (int64_t)(2 * sizeof(double));
    double *totals;
    int32_t status;
    if (!d->channels_last) {
        cpu_parallel_ranges(d->call, d->channels, grain_for(32768, d->batch * d->inner),
                            channel_backward_sums, &job);
        return TN_OK;
    }
    totals = cpu_alloc(d->call, bytes);
    if (!totals) return TN_E_OUT_OF_MEMORY;
    status = row_totals(&job, totals);
    for (int64_t c = 0; status == TN_OK && c < d->channels; c++) {
        job.a[c] = (T)totals[c];
        job.b[c] = (T)totals[d->channels + c];
    }
    cpu_free(d->call, totals, bytes);
    return status;
}

static int32_t backward(const cpu_channels *d, const void *mean, const void *invstd, const void *weight,
                        const void *sum, const void *dot, bool train)
{
    int64_t bytes = d->channels * 3 * (int64_t)sizeof(T);
    T *scale = cpu_alloc(d->call, bytes), *factor = scale + d->channels, *average = factor + d->channels;
    channel_job job = {.d = d, .mean = mean, .scale = scale, .shift = factor, .sum = average, .train = train};
    T count = (T)rows_of(d);
    if (!scale) return TN_E_OUT_OF_MEMORY;
    for (int64_t c = 0; c < d->channels; c++) {
        T inverse = ((const T *)invstd)[c];
        scale[c] = inverse * ((const T *)weight)[c];
        factor[c] = inverse * inverse * ((const T *)dot)[c] / count;
        average[c] = ((const T *)sum)[c] / count;
    }
    if (d->channels_last)
        cpu_parallel_ranges(d->call, rows_of(d), grain_for(32768, d->channels), row_backward, &job);
    else
        cpu_parallel_ranges(d->call, d->batch * d->channels, grain_for(32768, d->inner), channel_backward,
                            &job);
    cpu_free(d->call, scale, bytes);
    return TN_OK;
}

static void scale_by(const void *by, int64_t count, void *to)
{
    for (int64_t i = 0; i < count; i++) ((T *)to)[i] *= ((const T *)by)[i];
}

CPU_KERNELS(cpu_batch_norm_kernels, .acc_bytes = sizeof(T), .read = params_read, .write = params_write,
            .moments = moments, .affine = affine, .round = round_values, .inverse = inverse,
            .coefficients = coefficients, .update = update, .backward_sums = backward_sums,
            .backward = backward, .scale = scale_by);
