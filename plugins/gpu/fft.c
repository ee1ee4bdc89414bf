/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fourier transforms: _fft_c2c, _fft_r2c, _fft_c2r (device/fft.cl). Dimensions are transformed one after another, the last of
 * them first: from the input into the output, then in place. A line takes one pass in the memory of a group, or several, between
 * which it is in a workspace.
 */
#include "fft.h"

#include <math.h>

#define WORK_BYTES (256u << 20) /* of each workspace; more lines are done one part after the other */

/* Where the elements of lines are. The strides are those of the other dimensions, in the order of the nest. */
typedef struct operand {
    void *memory;
    int64_t offset, step; /* in bytes, as the strides */
    int64_t strides[GPU_RANK];
} operand;

/* The lines of one dimension. */
typedef struct lines {
    const tn_call *call;
    gpu_fft_plan *plan;
    uint8_t type;
    uint32_t size, kept;
    uint32_t in_flags, out_flags;
    double scale;
    gpu_nest others; /* the other dimensions; operand 0 is out, operand 1 in */
    operand in, out;
} lines;

/* ---- Launches ----------------------------------------------------------------------------------------------- */

static uint64_t bits_of(uint8_t type, double number)
{
    return gpu_number_bits(type, tn_number_real(number));
}

/* Sets an operand of a launch, and gives whether neighbouring transforms are nearer than the points of one. */
static int32_t set_operand(gpu_fft *f, uint32_t k, const operand *o, int64_t points_apart,
                           int64_t transforms_apart)
{
    const int32_t has_lines = f->lines > 1 && (f->others == 1 || f->flags & GPU_FFT_LINES_NEAR);
    const int64_t near = has_lines ? o->strides[0] : f->others > 1 ? transforms_apart * o->step : INT64_MAX;
    f->steps[k] = o->step;
    f->offsets[k] = o->offset;
    memcpy(f->strides[k], o->strides, sizeof o->strides);
    return near < points_apart * o->step;
}

/* Transforms of a group: what its memory has room for, but fewer if the device would be idle. */
static uint32_t lanes_for(const gpu_device *d, const gpu_fft *f, uint8_t type)
{
    const uint64_t units = d->properties.compute_units ? d->properties.compute_units : 1;
    uint32_t lanes = (uint32_t)GPU_FFT_POINTS(type) / f->points;
    while (lanes > 8 && f->transforms < 2 * units * lanes) lanes /= 2;
    /* An odd number: then the points of a transform are in different banks of the memory. */
    if (!(f->flags & GPU_FFT_IN_NEAR && f->flags & GPU_FFT_OUT_NEAR) && lanes > 1) lanes -= lanes % 2 == 0;
    return lanes;
}

static int32_t launch(const lines *l, gpu_fft *f, const operand *in, const operand *out)
{
    const gpu_device *d = gpu_device_of(l->call);
    f->transforms = f->lines * f->others;
    if (set_operand(f, 1, in, f->others, 1)) f->flags |= GPU_FFT_IN_NEAR;
    if (set_operand(f, 0, out, f->stride, f->stride > 1 ? 1 : f->points)) f->flags |= GPU_FFT_OUT_NEAR;
    f->lanes = lanes_for(d, f, l->type);
    gpu_job job = gpu_job_of(l->call, GPU_FILE_FFT, l->type, "fft_pass");
    gpu_give_memory(&job, out->memory);
    gpu_give_memory(&job, in->memory);
    gpu_give_memory(&job, l->plan->memory);
    gpu_give(&job, f, sizeof *f);
    const uint64_t groups = (f->transforms + f->lanes - 1) / f->lanes;
    return gpu_launch(&job, groups * (d->properties.is_processor ? 1 : GPU_GROUP_ITEMS), GPU_HEAVY);
}

/* A pass of some lines; what it reads and writes of tensors is not set yet. */
static gpu_fft pass_of(const lines *l, uint32_t pass, uint32_t first, uint32_t count)
{
    const gpu_fft_passes *p = &l->plan->passes;
    gpu_fft f = {.points = p->points[pass],
                 .others = p->size / p->points[pass],
                 .stride = 1,
                 .lines = count,
                 .first = first,
                 .size = l->size,
                 .given = p->size,
                 .kept = p->size,
                 .rounds = 1,
                 .fine = p->fine,
                 .n_radices = p->n_radices[pass],
                 .tables = {[GPU_FFT_ROOTS] = p->roots[pass],
                            [GPU_FFT_FINE] = p->fine_at,
                            [GPU_FFT_COARSE] = p->coarse_at,
                            [GPU_FFT_BEFORE] = l->plan->chirp,
                            [GPU_FFT_AMID] = l->plan->spectrum},
                 .scale = bits_of(l->type, 1),
                 .rank = l->others.rank};
    for (uint32_t i = 0; i < pass; i++) f.stride *= p->points[i];
    memcpy(f.radices, p->radices[pass], sizeof f.radices);
    memcpy(f.sizes, l->others.sizes, sizeof f.sizes);
    return f;
}

/* The first pass reads the input: a padded line is multiplied by the chirp. */
static void begin_line(const lines *l, gpu_fft *f)
{
    f->flags |= l->in_flags | (l->plan->is_padded ? GPU_FFT_HAS_BEFORE : 0);
    f->given = l->size;
}

/* The last pass writes the output: of a padded line the second transform is a backward one. */
static void end_line(const lines *l, gpu_fft *f, int32_t has_two_rounds)
{
    f->flags |= l->out_flags;
    if (l->plan->is_padded) f->flags |= GPU_FFT_TURN_AMID | GPU_FFT_HAS_AFTER;
    f->tables[GPU_FFT_AFTER] = l->plan->chirp;
    f->rounds = has_two_rounds ? 2 : 1;
    f->kept = l->kept;
    f->scale = bits_of(l->type, l->scale);
}

static int32_t run_in_one_pass(const lines *l)
{
    gpu_fft f = pass_of(l, 0, 0, l->others.numel);
    begin_line(l, &f);
    end_line(l, &f, (int32_t)l->plan->is_padded);
    return launch(l, &f, &l->in, &l->out);
}

/* ---- Lines in several passes -------------------------------------------------------------------------------- */

/* Two workspaces, between which a part of the lines goes to and fro. */
typedef struct workspaces {
    operand at[2];
    uint32_t lines;     /* of a part */
    int32_t lines_near; /* the same element of all lines lies together, as in the tensors */
} workspaces;

static int32_t make_workspaces(const lines *l, workspaces *w)
{
    const uint64_t bytes = (uint64_t)l->plan->passes.size * (l->type / 4);
    const uint64_t most = bytes < WORK_BYTES ? WORK_BYTES / bytes : 1;
    const int32_t needs_two = l->plan->is_padded || l->plan->passes.count > 2;
    int32_t status = TN_OK;
    w->lines = (uint32_t)(l->others.numel < most ? l->others.numel : most);
    w->lines_near = w->lines > 1 && l->out.strides[0] < l->out.step;
    for (int32_t i = 0; i < 1 + needs_two && !status; i++) {
        operand *o = &w->at[i];
        uint64_t offset = 0;
        int64_t line = w->lines_near ? l->type / 4 : (int64_t)bytes;
        status = gpu_workspace(l->call, w->lines * bytes, &o->memory, &offset);
        o->offset = (int64_t)offset;
        o->step = w->lines_near ? (int64_t)w->lines * (l->type / 4) : l->type / 4;
        for (uint32_t d = 0; d < l->others.rank; d++) {
            o->strides[d] = line;
            line *= l->others.sizes[d];
        }
    }
    return status;
}

/* Of a padded line there are two transforms: the first one ends with the factors of the spectrum. */
static int32_t run_part(const lines *l, const workspaces *w, uint32_t first, uint32_t count)
{
    const uint32_t passes = l->plan->passes.count, transforms = l->plan->is_padded ? 2 : 1;
    operand at[2] = {w->at[0], w->at[1]};
    int32_t status = TN_OK;
    for (uint32_t i = 0; i < 2; i++) at[i].offset -= (int64_t)first * at[i].strides[0];
    for (uint32_t n = 0, last = passes * transforms - 1; n <= last && !status; n++) {
        gpu_fft f = pass_of(l, n % passes, first, count);
        if (w->lines_near) f.flags |= GPU_FFT_LINES_NEAR;
        if (n == 0) begin_line(l, &f);
        if (n == last) {
            end_line(l, &f, 0);
        } else if (n == passes - 1) {
            f.flags |= GPU_FFT_HAS_AFTER | GPU_FFT_TURN_OUT;
            f.tables[GPU_FFT_AFTER] = l->plan->spectrum;
        }
        status = launch(l, &f, n ? &at[(n + 1) % 2] : &l->in, n < last ? &at[n % 2] : &l->out);
    }
    return status;
}

static int32_t run_in_passes(const lines *l)
{
    workspaces w = {0};
    int32_t status = make_workspaces(l, &w);
    for (uint32_t first = 0; first < l->others.numel && !status; first += w.lines)
        status =
            run_part(l, &w, first, l->others.numel - first < w.lines ? l->others.numel - first : w.lines);
    return status;
}

/* Lines by the kernels. */
static int32_t run_kernels(lines *l)
{
    int32_t status = gpu_fft_plan_take(l->call, l->size, l->type, &l->plan);
    if (status) return status;
    status = l->plan->passes.count == 1 ? run_in_one_pass(l) : run_in_passes(l);
    gpu_fft_plan_give_back(l->call, l->plan);
    return status;
}

/* ---- Lines by the vendor's library -------------------------------------------------------------------------- */

/* Multiplies the elements of the output: each is a line of one point. */
static int32_t scale_output(const lines *l)
{
    lines points = *l;
    gpu_nest *n = &points.others;
    memmove(n->sizes + 1, n->sizes, n->rank * sizeof *n->sizes);
    memmove(points.out.strides + 1, points.out.strides, n->rank * sizeof *points.out.strides);
    n->sizes[0] = l->kept;
    points.out.strides[0] = l->out.step;
    n->rank++;
    n->numel *= l->kept;
    points.in = points.out;
    points.size = points.kept = 1;
    points.in_flags = points.out_flags = 0;
    return run_kernels(&points);
}

/* A step in elements that the library takes, or 0. */
static int64_t library_step(int64_t step, uint64_t count, uint32_t bytes)
{
    return count == 1 ? 1 : step / bytes;
}

/*
 * The library is not asked while a stream captures, since it may make a plan, nor for lines of several dimensions, spectra that
 * are written as a whole, and those of real lines that are read.
 */
static int32_t run_library(const lines *l)
{
    const uint32_t real = l->type / 8, pair = 2 * real, is_real = (l->in_flags & GPU_FFT_REAL_IN) != 0;
    const uint64_t count = l->others.numel;
    const gpu_transform t = {.dtype = l->type == 64 ? GPU_F64 : GPU_F32,
                             .is_real = is_real,
                             .is_backward = (l->in_flags & GPU_FFT_TURN_IN) != 0,
                             .size = l->size,
                             .lines = count,
                             .in_step = library_step(l->in.step, l->size, is_real ? real : pair),
                             .in_apart = library_step(l->in.strides[0], count, is_real ? real : pair),
                             .out_step = library_step(l->out.step, l->kept, pair),
                             .out_apart = library_step(l->out.strides[0], count, pair),
                             .in = {l->in.memory, (uint64_t)l->in.offset},
                             .out = {l->out.memory, (uint64_t)l->out.offset}};
    const uint32_t all = is_real ? l->size / 2 + 1 : l->size;
    if (l->in_flags & GPU_FFT_HALF_IN || l->kept != all || l->others.rank > 1 || !t.in_step || !t.in_apart)
        return TN_E_UNSUPPORTED;
    if (gpu_stream_capture(gpu_stream_of(l->call))) return TN_E_UNSUPPORTED;
    const int32_t status = gpu_library_transform(l->call, &t);
    return status || l->scale == 1 ? status : scale_output(l);
}

static int32_t run_lines(lines *l)
{
    const int32_t status = run_library(l);
    return status == TN_E_UNSUPPORTED ? run_kernels(l) : status;
}

/* ---- Dimensions --------------------------------------------------------------------------------------------- */

static uint32_t dim_of(const tn_call *call, uint32_t rank, uint32_t i)
{
    const int64_t dim = call->args[1].as.ints[i];
    return (uint32_t)(dim < 0 ? dim + rank : dim);
}

/* Lines along `dim` of two tensors whose other sizes are the same. */
static void set_lines(lines *l, const tn_tensor_desc *in, const tn_tensor_desc *out, uint32_t dim)
{
    gpu_nest nest;
    const uint32_t at = out->rank - 1 - dim;
    gpu_nest_of_tensor(&nest, out);
    gpu_nest_add(&nest, 1, in);
    l->in = (operand){.memory = in->allocation, .offset = nest.offsets[1], .step = nest.strides[1][at]};
    l->out = (operand){.memory = out->allocation, .offset = nest.offsets[0], .step = nest.strides[0][at]};
    nest.numel /= nest.sizes[at];
    nest.sizes[at] = 1;
    gpu_nest_merge(&nest, 0, 2);
    memcpy(l->in.strides, nest.strides[1], sizeof l->in.strides);
    memcpy(l->out.strides, nest.strides[0], sizeof l->out.strides);
    l->others = nest;
    l->kept = (uint32_t)out->sizes[dim];
}

/* The elements that a transform of the dims of `t` adds up; ATen's normalizations are none, by its root, by the number. */
static double scale_of(const tn_call *call, const tn_tensor_desc *t)
{
    double n = 1;
    for (uint32_t i = 0; i < call->args[1].count; i++) n *= (double)t->sizes[dim_of(call, t->rank, i)];
    const int64_t normalization = tn_value_as_int(call->args[2]);
    return normalization == 1 ? 1 / sqrt(n) : normalization == 2 ? 1 / n : 1;
}

/* Transforms the first `count` dims of the list, the last first, from one complex tensor into another. */
static int32_t run_dims(const tn_call *call, const tn_tensor_desc *in, const tn_tensor_desc *out,
                        uint32_t count, int32_t is_backward, double scale)
{
    int32_t status = TN_OK;
    for (uint32_t i = count; i-- > 0 && !status; in = out) {
        const uint32_t dim = dim_of(call, out->rank, i);
        lines l = {.call = call,
                   .type = out->dtype == TN_COMPLEX128 ? 64 : 32,
                   .size = (uint32_t)out->sizes[dim],
                   .in_flags = is_backward ? GPU_FFT_TURN_IN : 0,
                   .out_flags = is_backward ? GPU_FFT_TURN_OUT : 0,
                   .scale = i == 0 ? scale : 1};
        set_lines(&l, in, out, dim);
        status = run_lines(&l);
    }
    return status;
}

/* ---- Rows --------------------------------------------------------------------------------------------------- */

/* _fft_c2c(self, dim, normalization, forward) */
static int32_t complex_to_complex(void *self, const tn_call *call)
{
    const tn_tensor_desc *out = gpu_tensor(call->outs[0]);
    if (!gpu_numel(out)) return TN_OK;
    return run_dims(call, gpu_tensor(call->args[0]), out, call->args[1].count,
                    !tn_value_as_bool(call->args[3]), scale_of(call, out));
}

/* _fft_r2c(self, dim, normalization, onesided): of a whole spectrum all elements are kept. */
static int32_t real_to_complex(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *out = gpu_tensor(call->outs[0]);
    const uint32_t count = call->args[1].count, dim = dim_of(call, in->rank, count - 1);
    const double scale = scale_of(call, in);
    if (!gpu_numel(out)) return TN_OK;
    lines l = {.call = call,
               .type = in->dtype == TN_FLOAT64 ? 64 : 32,
               .size = (uint32_t)in->sizes[dim],
               .in_flags = GPU_FFT_REAL_IN,
               .scale = count == 1 ? scale : 1};
    set_lines(&l, in, out, dim);
    const int32_t status = run_lines(&l);
    return status ? status : run_dims(call, out, out, count - 1, 0, scale);
}

/* A contiguous tensor like t in a workspace, whose sizes and strides are in `numbers`. */
static int32_t make_middle(const tn_call *call, const tn_tensor_desc *t, int64_t numbers[TN_MAX_RANK],
                           tn_tensor_desc *out)
{
    uint64_t offset = 0;
    int64_t step = 1;
    *out = *t;
    for (uint32_t d = t->rank; d-- > 0; step *= t->sizes[d]) numbers[d] = step;
    out->strides = numbers;
    const int32_t status = gpu_workspace(call, gpu_numel(t) * gpu_bytes(t->dtype), &out->allocation, &offset);
    out->byte_offset = offset;
    return status;
}

/* _fft_c2r(self, dim, normalization, last_dim_size) */
static int32_t complex_to_real(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *out = gpu_tensor(call->outs[0]);
    const uint32_t count = call->args[1].count, dim = dim_of(call, out->rank, count - 1);
    int64_t strides[TN_MAX_RANK];
    tn_tensor_desc middle = *in;
    int32_t status = TN_OK;
    if (!gpu_numel(out)) return TN_OK;
    if (count > 1) {
        status = make_middle(call, in, strides, &middle);
        if (!status) status = run_dims(call, in, &middle, count - 1, 1, 1);
    }
    lines l = {.call = call,
               .type = out->dtype == TN_FLOAT64 ? 64 : 32,
               .size = (uint32_t)out->sizes[dim],
               .in_flags = GPU_FFT_HALF_IN | GPU_FFT_TURN_IN,
               .out_flags = GPU_FFT_REAL_OUT,
               .scale = scale_of(call, out)};
    set_lines(&l, &middle, out, dim);
    return status ? status : run_lines(&l);
}

static const char *can_transform(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *out = gpu_tensor(call->outs[0]);
    const char *reason = gpu_can_move(self, call);
    if (!reason) reason = gpu_can_complex(call);
    if (!reason && !call->args[1].count) reason = "no dimension is transformed";
    for (uint32_t i = 0; i < call->args[1].count && !reason; i++) {
        const uint32_t dim = dim_of(call, in->rank, i);
        if (in->sizes[dim] > GPU_FFT_LONGEST || out->sizes[dim] > GPU_FFT_LONGEST)
            reason = "a line has more than 2^26 elements";
    }
    return reason;
}

static const tn_dtype complex_dtypes[] = {TN_COMPLEX64, TN_COMPLEX128, 0},
                      real_dtypes[] = {TN_FLOAT32, TN_FLOAT64, 0};

#define ROW(text, list, function) GPU_ROW(ANY, text, list, .run = function, .can_run = can_transform)
static const tn_kernel_row rows[] = {
    ROW("_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor", complex_dtypes,
        complex_to_complex),
    ROW("_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", real_dtypes,
        real_to_complex),
    ROW("_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor", complex_dtypes,
        complex_to_real),
};
const gpu_rows gpu_fft_rows = GPU_ROW_LIST(rows);
