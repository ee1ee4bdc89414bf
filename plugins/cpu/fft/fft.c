/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fourier transforms: _fft_c2c, _fft_r2c, _fft_c2r. Dimensions are transformed one after another, the last of them
 * first: from the input into the output, then in place. A dimension is a set of lines, which run in lanes, or, if
 * lines are long, one at a time; what runs how depends on sizes and strides alone.
 */
#include "kernel_lists.h"
#include "copy/copy.h"
#include "fft_kernels.h"
#include "nn/contiguous.h"
#include "support/kernel_table.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

CPU_KERNEL_TABLE(static cpu_kernel_table fft_table, CPU_FFT_LISTS, cpu_fft_kernels);

/* Lines whose lanes need more memory than this run one at a time, because they would leave the second-level cache. */
#define LANES_BYTES (512 << 10)

const cpu_fft_kernels *cpu_fft_kernels_of(tn_dtype dtype)
{
    return cpu_kernels_of(fft_table, dtype);
}

/* The lines of one dimension. Strides in bytes. */
typedef struct fft_job {
    const tn_call *call;
    const cpu_fft_kernels *kernels;
    cpu_fft_lanes lines; /* what all lines share: without their places and scratch memory */
    int64_t read;        /* elements of an input line */
    const char *in;
    char *out;
    int64_t in_bytes, out_bytes; /* of elements */
    uint32_t rank;               /* of the other dimensions, the innermost last */
    int64_t sizes[TN_MAX_RANK], in_strides[TN_MAX_RANK], out_strides[TN_MAX_RANK];
    int64_t count; /* lines */
    int64_t inner,
        per_row; /* lines of the innermost dimension; groups of lanes in it, 0: groups do not end with it */
    int64_t real_bytes;
    int64_t grain;
    atomic_int status;
} fft_job;

static void *take_scratch(fft_job *job, int64_t bytes)
{
    void *scratch = cpu_alloc(job->call, bytes);
    if (!scratch) atomic_store(&job->status, TN_E_OUT_OF_MEMORY);
    return scratch;
}

/* Start of a line in the input and in the output. */
static void find_line(const fft_job *job, int64_t line, const char **in, char **out)
{
    int64_t from = 0, to = 0;
    for (uint32_t d = job->rank; d-- > 0;) {
        int64_t at = line % job->sizes[d];
        line /= job->sizes[d];
        from += at * job->in_strides[d];
        to += at * job->out_strides[d];
    }
    *in = job->in + from;
    *out = job->out + to;
}

/* ---- several lines at once ---- */

static int64_t lanes_bytes(const fft_job *job)
{
    int64_t padded = job->lines.plan->padded ? job->lines.plan->padded->n : 0;
    return 2 * max_i64(job->lines.n + 1, padded) * job->kernels->cell_bytes;
}

static int64_t group_count(const fft_job *job)
{
    if (job->per_row) return job->count / job->inner * job->per_row;
    return ceil_div(job->count, job->kernels->lanes);
}

static void run_groups(void *user, int64_t begin, int64_t end, int32_t thread)
{
    fft_job *job = user;
    int64_t bytes = lanes_bytes(job), lanes = job->kernels->lanes;
    cpu_fft_lanes l = job->lines;
    l.scratch = take_scratch(job, bytes);
    if (!l.scratch) return;
    for (int64_t g = begin; g < end; g++) {
        int64_t first = g * lanes, limit = job->count;
        if (job->per_row) {
            int64_t row = g / job->per_row * job->inner;
            first = row + g % job->per_row * lanes;
            limit = row + job->inner;
        }
        l.count = (int32_t)min_i64(lanes, limit - first);
        for (int32_t i = 0; i < l.count; i++) find_line(job, first + i, &l.in[i], &l.out[i]);
        job->kernels->run_lanes(&l);
    }
    cpu_free(job->call, l.scratch, bytes);
}

/* ---- one line at a time ---- */

static const cpu_fft_plan *split_of(const cpu_fft_plan *plan)
{
    return plan->padded ? plan->padded : plan;
}

/* Cells of the middle of a split line, and of the scratch memory of its columns and rows. */
static int64_t middle_cells(const fft_job *job)
{
    const cpu_fft_plan *p = split_of(job->lines.plan);
    return round_up(p->columns->n, job->kernels->lanes) * p->rows->n / job->kernels->lanes;
}
static int64_t scratch_cells(const fft_job *job)
{
    const cpu_fft_plan *p = split_of(job->lines.plan);
    return 2 * max_i64(p->columns->n, p->rows->n);
}

/* Memory for one line: a contiguous copy of the input and of the output, the middle, a padded copy, scratch. */
typedef struct line_memory {
    char *input, *output, *middle, *padded, *scratch;
    int64_t bytes;
} line_memory;

static line_memory line_memory_of(const fft_job *job)
{
    line_memory m;
    int64_t at = 0, pair = 2 * job->real_bytes, n = job->lines.n + 2;
    m.input = (char *)(intptr_t)at;
    at += round_up(n * pair, 64);
    m.output = (char *)(intptr_t)at;
    at += round_up(n * pair, 64);
    m.middle = (char *)(intptr_t)at;
    at += middle_cells(job) * job->kernels->cell_bytes;
    m.padded = (char *)(intptr_t)at;
    at += job->lines.plan->padded ? round_up(job->lines.plan->padded->n * pair, 64) : 0;
    m.scratch = (char *)(intptr_t)at;
    at += scratch_cells(job) * job->kernels->cell_bytes;
    m.bytes = at;
    return m;
}

static void place_memory(line_memory *m, char *base)
{
    char **parts[] = {&m->input, &m->output, &m->middle, &m->padded, &m->scratch};
    for (int i = 0; i < 5; i++) *parts[i] = base + (intptr_t)*parts[i];
}

typedef struct split_job {
    fft_job *job;
    cpu_fft_line line;
    bool rows;
} split_job;

static void run_split_part(void *user, int64_t begin, int64_t end, int32_t thread)
{
    split_job *s = user;
    int64_t bytes = scratch_cells(s->job) * s->job->kernels->cell_bytes;
    void *scratch = take_scratch(s->job, bytes);
    if (!scratch) return;
    (s->rows ? s->job->kernels->run_rows : s->job->kernels->run_columns)(&s->line, scratch, begin, end);
    cpu_free(s->job->call, scratch, bytes);
}

/* Transforms a contiguous complex line of a split plan. */
static void run_split(fft_job *job, const line_memory *m, const cpu_fft_plan *plan, const void *in, void *out,
                      bool backward, double scale)
{
    const cpu_fft_kernels *k = job->kernels;
    split_job s = {.job = job, .line = {plan, in, out, m->middle, backward, scale}};
    int64_t column_groups = ceil_div(plan->rows->n, k->lanes),
            row_groups = ceil_div(plan->columns->n, k->lanes);
    if (job->count > 1 || plan->n < 32768) {
        k->run_columns(&s.line, m->scratch, 0, column_groups);
        k->run_rows(&s.line, m->scratch, 0, row_groups);
        return;
    }
    cpu_parallel_ranges(job->call, column_groups, max_i64(1, column_groups / 8), run_split_part, &s);
    s.rows = true;
    cpu_parallel_ranges(job->call, row_groups, max_i64(1, row_groups / 8), run_split_part, &s);
}

/* Transforms a contiguous complex line of the plan's length. */
static void run_contiguous(fft_job *job, const line_memory *m, const void *in, void *out, bool backward,
                           double scale)
{
    const cpu_fft_plan *plan = job->lines.plan;
    int64_t n = plan->n, padded = plan->padded ? plan->padded->n : 0, pair = 2 * job->real_bytes;
    if (!padded) {
        run_split(job, m, plan, in, out, backward, scale);
        return;
    }
    job->kernels->multiply(in, plan->chirp, m->padded, n, backward, false, 1);
    memset(m->padded + n * pair, 0, (size_t)((padded - n) * pair));
    run_split(job, m, plan->padded, m->padded, m->padded, false, 1);
    job->kernels->multiply(m->padded, plan->spectrum, m->padded, padded, false, false, 1);
    run_split(job, m, plan->padded, m->padded, m->padded, true, 1);
    job->kernels->multiply(m->padded, plan->chirp, out, n, false, backward, scale);
}

/* Copies elements of 4, 8 or 16 bytes; steps in bytes. */
static void copy_elements(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n,
                          int64_t bytes)
{
    for (int64_t i = 0; i < n; i++) {
        if (bytes == 8)
            memcpy(to + i * to_step, from + i * from_step, 8);
        else if (bytes == 4)
            memcpy(to + i * to_step, from + i * from_step, 4);
        else
            memcpy(to + i * to_step, from + i * from_step, 16);
    }
}

/* Real elements to complex ones, and the real parts of complex ones. */
static void real_to_pairs(char *out, const char *in, int64_t n, int64_t bytes)
{
    memset(out, 0, (size_t)(2 * n * bytes));
    copy_elements(out, 2 * bytes, in, bytes, n, bytes);
}

/* out[written - k] = conjugate of out[k], for the elements from `known` on; `n` is the period. */
static void mirror(void *line, int64_t known, int64_t written, int64_t n, int64_t bytes)
{
    for (int64_t k = known; k < written; k++) {
        if (bytes == 8) {
            double *z = line;
            z[2 * k] = z[2 * (n - k)];
            z[2 * k + 1] = -z[2 * (n - k) + 1];
        } else {
            float *z = line;
            z[2 * k] = z[2 * (n - k)];
            z[2 * k + 1] = -z[2 * (n - k) + 1];
        }
    }
}

/* A contiguous line of a real signal to `written` elements of its spectrum. */
static void run_real_in(fft_job *job, const line_memory *m, const char *in, char *out)
{
    int64_t n = job->lines.n, half = n / 2, pair = 2 * job->real_bytes;
    if (n % 2) {
        real_to_pairs(m->output, in, n, job->real_bytes);
        run_contiguous(job, m, m->output, m->output, false, job->lines.scale);
        memcpy(out, m->output, (size_t)(job->lines.written * pair));
        return;
    }
    run_contiguous(job, m, in, m->output, false, 1);
    job->kernels->unpack(job->lines.plan, m->output, job->lines.scale, 0, half / 2 + 1);
    memcpy(out, m->output, (size_t)(min_i64(job->lines.written, half + 1) * pair));
    mirror(out, half + 1, job->lines.written, n, job->real_bytes);
}

/* Half a spectrum to a contiguous line of the real signal. */
static void run_real_out(fft_job *job, const line_memory *m, const char *in, char *out)
{
    int64_t n = job->lines.n, half = n / 2, pair = 2 * job->real_bytes;
    if (n % 2 == 0) {
        job->kernels->pack(job->lines.plan, in, m->output, 0, half / 2 + 1);
        run_contiguous(job, m, m->output, out, true, job->lines.scale);
        return;
    }
    memcpy(m->output, in, (size_t)((half + 1) * pair));
    memset(m->output + job->real_bytes, 0, (size_t)job->real_bytes);
    mirror(m->output, half + 1, n, n, job->real_bytes);
    run_contiguous(job, m, m->output, m->output, true, job->lines.scale);
    copy_elements(out, job->real_bytes, m->output, pair, n, job->real_bytes);
}

static void run_line(fft_job *job, const line_memory *m, int64_t line)
{
    const char *in;
    char *out, *to;
    find_line(job, line, &in, &out);
    if (job->lines.in_step != job->in_bytes) {
        copy_elements(m->input, job->in_bytes, in, job->lines.in_step, job->read, job->in_bytes);
        in = m->input;
    }
    to = job->lines.out_step == job->out_bytes
             ? out
             : m->input; /* the input has been read when the output is written */
    if (job->lines.kind == CPU_FFT_REAL_IN)
        run_real_in(job, m, in, to);
    else if (job->lines.kind == CPU_FFT_REAL_OUT)
        run_real_out(job, m, in, to);
    else
        run_contiguous(job, m, in, to, job->lines.backward, job->lines.scale);
    if (to != out)
        copy_elements(out, job->lines.out_step, to, job->out_bytes, job->lines.written, job->out_bytes);
}

static void run_line_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    fft_job *job = user;
    line_memory m = line_memory_of(job);
    char *base = take_scratch(job, m.bytes);
    if (!base) return;
    place_memory(&m, base);
    for (int64_t line = begin; line < end; line++) run_line(job, &m, line);
    cpu_free(job->call, base, m.bytes);
}

/* ---- one dimension ---- */

/* Whether lines run one at a time: they are too long for lanes, or lanes would idle or have to be transposed. */
static bool prefers_line(const fft_job *job, int64_t complex_n)
{
    const cpu_fft_kernels *k = job->kernels;
    tn_dtype dtype = job->real_bytes == 8 ? TN_FLOAT64 : TN_FLOAT32;
    bool across = job->rank > 0 && job->in_strides[job->rank - 1] == job->in_bytes &&
                  job->out_strides[job->rank - 1] == job->out_bytes && 2 * job->inner > k->lanes;
    if (!cpu_fft_fits_line(complex_n, dtype)) return false;
    return !across || 2 * complex_n * k->cell_bytes > LANES_BYTES;
}

static int32_t run_dimension(fft_job *job)
{
    bool halved = job->lines.kind != CPU_FFT_COMPLEX && job->lines.n % 2 == 0;
    int64_t complex_n = halved ? job->lines.n / 2 : job->lines.n;
    cpu_fft_key key = {
        .n = complex_n, .dtype = job->real_bytes == 8 ? TN_FLOAT64 : TN_FLOAT32, .has_turns = halved};
    job->kernels = cpu_fft_kernels_of(key.dtype);
    job->inner = job->rank ? job->sizes[job->rank - 1] : 1;
    if (prefers_line(job, complex_n)) key.form = CPU_FFT_LINE;
    job->lines.plan = cpu_fft_plan_take(job->call, &key);
    if (!job->lines.plan) return TN_E_OUT_OF_MEMORY;
    if (key.form == CPU_FFT_LINE) {
        cpu_parallel_ranges(job->call, job->count, max_i64(grain_for(1 << 15, job->lines.n), job->count / 64),
                            run_line_range, job);
    } else {
        int64_t lanes = job->kernels->lanes, groups;
        job->per_row =
            job->lines.in_step != job->in_bytes && 2 * job->inner > lanes ? ceil_div(job->inner, lanes) : 0;
        groups = group_count(job);
        cpu_parallel_ranges(job->call, groups, max_i64(grain_for(1 << 15, job->lines.n * lanes), groups / 64),
                            run_groups, job);
    }
    cpu_fft_plan_give_back(job->lines.plan);
    return atomic_load(&job->status);
}

/* A tensor's memory as the transforms see it, strides in elements. */
typedef struct operand {
    char *data;
    tn_dtype dtype;
    const int64_t *sizes, *strides;
} operand;

static operand operand_of(const tn_tensor_desc *t)
{
    return (operand){t->host, t->dtype, t->sizes, t->strides};
}

/* Lines along `dim` of two tensors whose other sizes are the same. */
static void set_lines(fft_job *job, const operand *from, const operand *to, uint32_t rank, uint32_t dim)
{
    int64_t in = tn_dtype_bytes(from->dtype), out = tn_dtype_bytes(to->dtype);
    job->rank = 0;
    job->count = 1;
    for (uint32_t d = 0; d < rank; d++) {
        if (d == dim) continue;
        job->sizes[job->rank] = to->sizes[d];
        job->in_strides[job->rank] = from->strides[d] * in;
        job->out_strides[job->rank++] = to->strides[d] * out;
        job->count *= to->sizes[d];
    }
    job->in = from->data;
    job->out = to->data;
    job->in_bytes = in;
    job->out_bytes = out;
    job->lines.in_step = from->strides[dim] * in;
    job->lines.out_step = to->strides[dim] * out;
    job->read = from->sizes[dim];
    job->lines.written = to->sizes[dim];
    job->real_bytes = job->lines.kind == CPU_FFT_REAL_OUT  ? out
                      : job->lines.kind == CPU_FFT_REAL_IN ? in
                                                           : out / 2;
}

/* ---- rows ---- */

/* The normalization of ATen: none, by the root of the number of elements, by the number. */
static double scale_of(int64_t normalization, double elements)
{
    return normalization == 1 ? 1 / sqrt(elements) : normalization == 2 ? 1 / elements : 1;
}

static uint32_t dim_arg(const tn_call *call, uint32_t rank, uint32_t i)
{
    int64_t dim = call->args[1].as.ints[i];
    return (uint32_t)(dim < 0 ? dim + rank : dim);
}

/* Transforms the first `count` dims of the list, the last first, from one complex tensor into another. */
static int32_t run_dims(fft_job *job, const operand *from, const operand *to, uint32_t rank, uint32_t count,
                        double scale)
{
    int32_t status = TN_OK;
    job->lines.kind = CPU_FFT_COMPLEX;
    for (uint32_t i = count; i-- > 0 && status == TN_OK; from = to) {
        uint32_t dim = dim_arg(job->call, rank, i);
        set_lines(job, from, to, rank, dim);
        job->lines.n = to->sizes[dim];
        job->lines.scale = i == 0 ? scale : 1;
        status = run_dimension(job);
    }
    return status;
}

/* The elements that a transform of these dims of `t` adds up. */
static double elements_of(const tn_call *call, const tn_tensor_desc *t)
{
    double n = 1;
    for (uint32_t i = 0; i < call->args[1].count; i++) n *= (double)t->sizes[dim_arg(call, t->rank, i)];
    return n;
}

/* complex32 is transformed in a copy in complex64, and rounded once. */
static int32_t run_c2c_half(const tn_call *call, const tn_tensor_desc *in, const tn_tensor_desc *out)
{
    int64_t strides[TN_MAX_RANK], bytes = cpu_numel(out) * tn_dtype_bytes(TN_COMPLEX64), step = 1;
    tn_tensor_desc wide = *out;
    fft_job job = {.call = call, .lines.backward = !bool_arg(call, 3)};
    int32_t status;
    for (uint32_t d = out->rank; d-- > 0; step *= out->sizes[d]) strides[d] = step;
    wide.dtype = TN_COMPLEX64;
    wide.strides = strides;
    wide.host = cpu_alloc(call, bytes);
    if (!wide.host) return TN_E_OUT_OF_MEMORY;
    operand to = operand_of(&wide);
    status = cpu_copy_tensor(call, &wide, in);
    if (status == TN_OK)
        status = run_dims(&job, &to, &to, out->rank, call->args[1].count,
                          scale_of(int_arg(call, 2), elements_of(call, out)));
    if (status == TN_OK) status = cpu_copy_tensor(call, out, &wide);
    cpu_free(call, wide.host, bytes);
    return status;
}

static int32_t run_c2c(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = tensor_arg(call, 0), *out = tensor_out(call, 0);
    operand from = operand_of(in), to = operand_of(out);
    fft_job job = {.call = call, .lines.backward = !bool_arg(call, 3)};
    if (cpu_numel(out) == 0) return TN_OK;
    if (call->args[1].count == 0) {
        cpu_copy(call, in, out);
        return TN_OK;
    }
    if (out->dtype == TN_COMPLEX32) return run_c2c_half(call, in, out);
    return run_dims(&job, &from, &to, out->rank, call->args[1].count,
                    scale_of(int_arg(call, 2), elements_of(call, out)));
}

static int32_t run_r2c(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = tensor_arg(call, 0), *out = tensor_out(call, 0);
    uint32_t count = call->args[1].count, dim = dim_arg(call, in->rank, count - 1);
    operand from = operand_of(in), to = operand_of(out);
    double scale = scale_of(int_arg(call, 2), elements_of(call, in));
    fft_job job = {.call = call,
                   .lines = {.kind = CPU_FFT_REAL_IN, .n = in->sizes[dim], .scale = count == 1 ? scale : 1}};
    int32_t status;
    if (cpu_numel(out) == 0) return TN_OK;
    set_lines(&job, &from, &to, out->rank, dim);
    status = run_dimension(&job);
    return status ? status : run_dims(&job, &to, &to, out->rank, count - 1, scale);
}

static int32_t run_c2r(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = tensor_arg(call, 0), *out = tensor_out(call, 0);
    uint32_t count = call->args[1].count, rank = out->rank, dim = dim_arg(call, rank, count - 1);
    int64_t strides[TN_MAX_RANK], bytes = cpu_numel(in) * tn_dtype_bytes(in->dtype), step = 1;
    operand from = operand_of(in), to = operand_of(out), middle = {NULL, in->dtype, in->sizes, strides};
    double scale = scale_of(int_arg(call, 2), elements_of(call, out));
    fft_job job = {.call = call, .lines.backward = true};
    int32_t status = TN_OK;
    if (cpu_numel(out) == 0) return TN_OK;
    if (count > 1) {
        for (uint32_t d = rank; d-- > 0; step *= in->sizes[d]) strides[d] = step;
        middle.data = cpu_alloc(call, bytes);
        if (!middle.data) return TN_E_OUT_OF_MEMORY;
        status = run_dims(&job, &from, &middle, rank, count - 1, 1);
    }
    job.lines.kind = CPU_FFT_REAL_OUT;
    job.lines.n = out->sizes[dim];
    job.lines.scale = scale;
    set_lines(&job, count > 1 ? &middle : &from, &to, rank, dim);
    if (status == TN_OK) status = run_dimension(&job);
    cpu_free(call, middle.data, bytes);
    return status;
}

static const tn_dtype c2c_dtypes[] = {TN_COMPLEX32, TN_COMPLEX64, TN_COMPLEX128, 0};

const tn_kernel_row cpu_fft_rows[] = {
    CPU_ROW("aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor",
            c2c_dtypes, run_c2c),
    CPU_ROW("aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor",
            cpu_full_float_dtypes, run_r2c),
    CPU_ROW("aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor",
            cpu_complex_dtypes, run_c2r),
};
const uint32_t cpu_fft_row_count = CPU_ROW_COUNT(cpu_fft_rows);
