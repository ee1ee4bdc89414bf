/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs reductions over a loop nest whose first dimensions index the results. Where the reduced elements are
 * contiguous, it goes along the run for one result at a time; where the results are, it takes one element for
 * each of many neighbouring results. A large reduction to few results is cut into blocks of a fixed size, so
 * the result does not depend on the number of threads. States and kernels are those of reduce_ops.h; the rows
 * at the end say which results are made of states.
 */
#include "kernel_lists.h"
#include "walk/staging.h"
#include "kernels/reduce_ops.h"
#include "support/kernel_table.h"

#include <math.h>
#include <string.h>

/* Least elements for a thread. */
#define REDUCE_GRAIN ((int64_t)32 * 1024)
/* Elements of a block of a large reduction. */
#define BLOCK_ELEMENTS ((int64_t)64 * 1024)
/* A reduction to more results is not cut into blocks. */
#define BLOCK_RESULTS 256
/* Lanes that a run is split into. */
#define RUN_LANES 64
/* Shorter runs are not worth a call of their own. */
#define SHORT_RUN 16

/* How results are made from the final states. */
enum {
    TAKE_STATE,
    TAKE_MEAN,
    TAKE_SECOND,
    TAKE_BOTH,
    TAKE_NORM,
    TAKE_VAR,
    TAKE_STD,
    TAKE_VAR_MEAN,
    TAKE_STD_MEAN
};

typedef struct reduction {
    uint32_t op;
    uint32_t take;
} reduction;

typedef struct reduce_call {
    cpu_plan results; /* walks the kept dimensions, outputs only */
    cpu_plan_operand input;
    const tn_nest *nest;
    const cpu_reduce_kernel *kernel;
    int32_t hub;
    uint32_t take;
    int32_t wide;          /* results are float64 */
    int64_t kept, reduced; /* numbers of elements */
    int64_t block;         /* reduced positions in a block */
    char *partial;         /* states of blocks, or NULL */
    double power, correction;
} reduce_call;

/* ---- Kernels by hub ------------------------------------------------------------------------------------ */

typedef cpu_reduce_kernel cpu_reduce_list[];
CPU_KERNEL_TABLE(static cpu_kernel_table reduce_table, CPU_REDUCE_LISTS, cpu_reduce_list);

static const cpu_reduce_kernel *find_kernel(uint32_t op, int32_t slot)
{
    const cpu_reduce_kernel *k = cpu_kernels_at(reduce_table, slot);
    for (; k && k->init; k++)
        if (k->op == op) return k;
    return NULL;
}

/* The dtype that elements are converted to: the input's hub dtype, unless the result is of another kind. */
static int32_t choose_hub(int32_t input, int32_t output, uint32_t op)
{
    bool truth = op == CPU_REDUCE_any || op == CPU_REDUCE_all || op == CPU_REDUCE_count;
    if (!truth && op != CPU_REDUCE_argmax && op != CPU_REDUCE_argmin) {
        if (cpu_slot_is_complex(output)) return CPU_C128;
        if (cpu_slot_is_float(output) && !cpu_slot_is_complex(input))
            return output != CPU_F64 && cpu_slot_is_float(input) ? cpu_exact_hub(input) : CPU_F64;
        if (!cpu_slot_is_complex(input)) return CPU_I64;
    }
    return cpu_slot_is_complex(input) ? CPU_C128 : cpu_exact_hub(input);
}

/* ---- Along a run --------------------------------------------------------------------------------------- */

typedef struct run_state {
    const reduce_call *call;
    cpu_lanes total; /* of one result */
} run_state;

static cpu_lanes lanes_at(cpu_lanes s, int64_t i)
{
    return (cpu_lanes){(char *)s.words + 8 * i, s.stride};
}

/* Takes n contiguous elements into one state: rows of lanes first, then the lanes by halves. */
static void take_run(const reduce_call *c, cpu_lanes total, const void *x, int64_t n, int64_t index)
{
    uint64_t words[CPU_MAX_PLANES * RUN_LANES];
    if (c->kernel->run) {
        c->kernel->run(total, x, n, index, 1, 0);
        return;
    }
    int64_t width = n >= 4 * RUN_LANES ? RUN_LANES : n >= 16 ? 8 : 1, bytes = cpu_slot_bytes[c->hub];
    cpu_lanes lanes = {words, RUN_LANES};
    c->kernel->init(lanes, width);
    for (int64_t i = 0; i < n; i += width) {
        int64_t m = n - i < width ? n - i : width;
        c->kernel->take(lanes, (const char *)x + i * bytes, m, index + i, 1, c->power);
    }
    for (width /= 2; width > 0; width /= 2) c->kernel->merge(lanes, lanes_at(lanes, width), width);
    c->kernel->merge(total, lanes, 1);
}

static void take_walked(void *user, void *const *pointers, int64_t n, int64_t position)
{
    const run_state *r = user;
    take_run(r->call, r->total, pointers[0], n, position);
}

/* Address of the input at a kept position. */
static char *input_at(const reduce_call *c, int64_t position)
{
    const tn_nest *nest = c->nest;
    char *address = c->input.base;
    for (uint32_t d = 0; d < nest->kept; d++) {
        address += position % nest->sizes[d] * c->input.strides[d];
        position /= nest->sizes[d];
    }
    return address;
}

/* Takes the reduced positions [begin, end) for each of n results. */
static void reduce_along(const reduce_call *c, cpu_lanes states, int64_t first, int64_t n, int64_t begin,
                         int64_t end)
{
    const tn_nest *nest = c->nest;
    cpu_plan plan = {.rank = nest->rank - nest->kept,
                     .n_operands = 1,
                     .numel = c->reduced,
                     .sizes = nest->sizes + nest->kept};
    plan.operands[0] = c->input;
    plan.operands[0].strides = c->input.strides + nest->kept;
    plan.operands[0].stride = plan.rank ? plan.operands[0].strides[0] : c->input.bytes;
    cpu_plan_finish(&plan);
    cpu_plan_operand *o = &plan.operands[0];
    bool neighbours = o->linear && o->stride == o->bytes;
    bool direct = neighbours && o->slot == c->hub, converted = neighbours && !direct;
    _Alignas(64) char buffer[CPU_CHUNK * 16];
    char *address = input_at(c, first);
    /*
     * Without conversion and with one plane, runs are as long as possible, since each end of a run costs.
     */
    int64_t most = converted || c->kernel->planes > 1 || !c->kernel->run ? CPU_CHUNK : BLOCK_ELEMENTS;
    if (direct && c->kernel->run && nest->kept == 1 && end - begin <= most) {
        c->kernel->run(states, address + begin * o->bytes, end - begin, begin, n, c->input.strides[0]);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        run_state r = {c, lanes_at(states, i)};
        o->base = nest->kept == 1 ? address + i * c->input.strides[0] : input_at(c, first + i);
        if (!direct && !converted) {
            cpu_plan_walk(&plan, begin, end, take_walked, &r);
            continue;
        }
        for (int64_t k = begin; k < end; k += most) {
            int64_t m = end - k < most ? end - k : most;
            const void *from = o->base + k * o->bytes;
            if (converted) cpu_convert(buffer, c->hub, from, o->slot, m);
            take_run(c, r.total, converted ? buffer : from, m, k);
        }
    }
}

/* ---- Across results ------------------------------------------------------------------------------------ */

typedef struct across_state {
    const reduce_call *call;
    cpu_lanes states;
    int64_t first, index;
} across_state;

static void take_across(void *user, void *const *pointers, int64_t n, int64_t position)
{
    const across_state *a = user;
    a->call->kernel->take(lanes_at(a->states, position - a->first), pointers[0], n, a->index, 0,
                          a->call->power);
}

/* Rows of another dtype are converted in stretches that stay in the first-level cache. */
static void take_rows(const reduce_call *c, cpu_lanes states, const cpu_plan_operand *o, const char *x,
                      int64_t row_bytes, int64_t rows, int64_t n)
{
    enum { STRETCH = 256 };
    _Alignas(64) char buffer[CPU_REDUCE_ROWS * STRETCH * 8];
    int64_t bytes = cpu_slot_bytes[c->hub];
    if (o->slot == c->hub) {
        c->kernel->rows(states, x, row_bytes, rows, n);
        return;
    }
    for (int64_t i = 0; i < n; i += STRETCH) {
        int64_t m = n - i < STRETCH ? n - i : STRETCH;
        for (int64_t r = 0; r < rows; r++)
            cpu_convert(buffer + r * STRETCH * bytes, c->hub, x + r * row_bytes + i * o->bytes, o->slot, m);
        c->kernel->rows(lanes_at(states, i), buffer, STRETCH * bytes, rows, m);
    }
}

static void reduce_across(const reduce_call *c, cpu_lanes states, int64_t first, int64_t n, int64_t begin,
                          int64_t end)
{
    const tn_nest *nest = c->nest;
    int64_t index[TN_MAX_RANK], rest = begin;
    cpu_plan plan = {.rank = nest->kept, .n_operands = 1, .numel = c->kept, .sizes = nest->sizes};
    across_state a = {c, states, first, 0};
    plan.operands[0] = c->input;
    plan.operands[0].stride = nest->kept ? c->input.strides[0] : c->input.bytes;
    cpu_plan_finish(&plan);
    cpu_plan_operand *o = &plan.operands[0];
    for (uint32_t d = nest->kept; d < nest->rank; d++) {
        index[d] = rest % nest->sizes[d];
        rest /= nest->sizes[d];
        o->base += index[d] * o->strides[d];
    }
    bool neighbours = o->linear && o->stride == o->bytes, direct = neighbours && o->slot == c->hub;
    for (a.index = begin; a.index < end; a.index++) {
        if (neighbours && c->kernel->rows) {
            bool any = nest->kept < nest->rank;
            int64_t rows = any ? nest->sizes[nest->kept] - index[nest->kept] : 1;
            if (rows > CPU_REDUCE_ROWS) rows = CPU_REDUCE_ROWS;
            if (rows > end - a.index) rows = end - a.index;
            take_rows(c, states, o, o->base + first * o->bytes, any ? o->strides[nest->kept] : 0, rows, n);
            /* The loop below steps past the last of these rows. */
            a.index += rows - 1;
            if (any) o->base += (rows - 1) * o->strides[nest->kept];
            if (any) index[nest->kept] += rows - 1;
        } else if (direct) {
            c->kernel->take(states, o->base + first * o->bytes, n, a.index, 0, c->power);
        } else {
            cpu_plan_walk(&plan, first, first + n, take_across, &a);
        }
        for (uint32_t d = nest->kept; d < nest->rank; d++) {
            o->base += o->strides[d];
            if (++index[d] < nest->sizes[d]) break;
            o->base -= index[d] * o->strides[d];
            index[d] = 0;
        }
    }
}

/* Computes the states of results [first, first + n), n at most CPU_CHUNK, from positions [begin, end). */
static void reduce_states(const reduce_call *c, cpu_lanes states, int64_t first, int64_t n, int64_t begin,
                          int64_t end)
{
    const tn_nest *nest = c->nest;
    int64_t inner = nest->kept < nest->rank ? c->input.strides[nest->kept] : 0;
    int64_t outer = nest->kept ? c->input.strides[0] : 0;
    c->kernel->init(states, n);
    bool along = nest->kept == 0 || outer == 0 || (inner <= outer && c->reduced >= SHORT_RUN);
    if (along)
        reduce_along(c, states, first, n, begin, end);
    else
        reduce_across(c, states, first, n, begin, end);
}

/* ---- Results ------------------------------------------------------------------------------------------- */

/*
 * A sum of powers overflows where the result's arithmetic does (float32 for half types), though its state is
 * wider.
 */
static double norm_of(const reduce_call *c, double state)
{
    double sum = c->wide ? state : (double)(float)state;
    switch (c->kernel->op) {
    case CPU_REDUCE_norm_2:
        return sqrt(sum);
    case CPU_REDUCE_norm_p:
        return pow(sum, 1 / c->power);
    default:
        return state;
    }
}

/* Writes a plane of the states as the real part of an output. */
static void put_plane(void *out, int32_t complex, const double *plane, int64_t n)
{
    double *o = out;
    for (int64_t i = 0; i < n; i++) o[complex ? 2 * i : i] = plane[i];
}

static void finish_real(const reduce_call *c, cpu_lanes s, void *const *out, int64_t n)
{
    double *a = s.words, *b = a + s.stride, *last = a + (c->kernel->planes - 1) * s.stride;
    double divisor = (double)c->reduced - c->correction;
    bool moments = c->kernel->op == CPU_REDUCE_moments, complex = c->hub == CPU_C128;
    if (divisor < 0) divisor = 0;
    if (c->take == TAKE_NORM)
        for (int64_t i = 0; i < n; i++) a[i] = norm_of(c, a[i]);
    if (moments) {
        bool root = c->take == TAKE_STD || c->take == TAKE_STD_MEAN;
        for (int64_t i = 0; i < n; i++) last[i] = root ? sqrt(last[i] / divisor) : last[i] / divisor;
        put_plane(out[0], 0, last, n);
        if (c->take != TAKE_VAR_MEAN && c->take != TAKE_STD_MEAN) return;
        put_plane(out[1], complex, b, n);
        if (complex) put_plane((double *)out[1] + 1, 1, b + s.stride, n);
        return;
    }
    put_plane(out[0], 0, c->take == TAKE_SECOND ? b : a, n);
    if (c->take == TAKE_BOTH) put_plane(out[1], 0, b, n);
}

/* Sums, means and products of complex numbers. */
static void finish_complex(const reduce_call *c, cpu_lanes s, void *const *out, int64_t n)
{
    const double *re = s.words, *im = re + s.stride;
    double *o = out[0], share = c->take == TAKE_MEAN ? (double)c->reduced : 1;
    for (int64_t i = 0; i < n; i++) {
        o[2 * i] = re[i] / share;
        o[2 * i + 1] = im[i] / share;
    }
}

static void finish(const reduce_call *c, cpu_lanes s, void *const *out, int64_t n)
{
    double *a = s.words;
    uint32_t op = c->kernel->op;
    if (c->hub == CPU_I64) {
        const int64_t *words = s.words;
        memcpy(out[0], words + (c->take == TAKE_SECOND ? s.stride : 0), (size_t)n * 8);
        if (c->take == TAKE_BOTH) memcpy(out[1], words + s.stride, (size_t)n * 8);
    } else if (c->hub == CPU_C128 &&
               (op == CPU_REDUCE_sum || op == CPU_REDUCE_nansum || op == CPU_REDUCE_prod)) {
        finish_complex(c, s, out, n);
    } else {
        for (int64_t i = 0; c->take == TAKE_MEAN && i < n; i++) a[i] /= (double)c->reduced;
        finish_real(c, s, out, n);
    }
}

static void results_run(void *user, void *const *pointers, int64_t n, int64_t position)
{
    const reduce_call *c = user;
    uint64_t words[CPU_MAX_PLANES * CPU_CHUNK];
    cpu_lanes states = {words, CPU_CHUNK};
    if (c->partial) {
        states = (cpu_lanes){c->partial + 8 * position, c->kept};
    } else {
        reduce_states(c, states, position, n, 0, c->reduced);
    }
    finish(c, states, pointers, n);
}

static void results_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const reduce_call *c = user;
    cpu_plan_walk(&c->results, begin, end, results_run, user);
}

/* ---- Large reductions to few results ------------------------------------------------------------------- */

static cpu_lanes block_states(const reduce_call *c, int64_t block)
{
    return (cpu_lanes){c->partial + block * c->kept * c->kernel->planes * 8, c->kept};
}

static void block_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const reduce_call *c = user;
    for (int64_t b = begin; b < end; b++) {
        int64_t stop = (b + 1) * c->block;
        reduce_states(c, block_states(c, b), 0, c->kept, b * c->block, stop < c->reduced ? stop : c->reduced);
    }
}

static int32_t reduce_blocks(const tn_call *call, reduce_call *c)
{
    int64_t blocks = (c->reduced + c->block - 1) / c->block;
    c->partial = cpu_scratch(call, (uint64_t)(blocks * c->kept * c->kernel->planes * 8));
    if (!c->partial) return TN_E_OUT_OF_MEMORY;
    cpu_parallel_for(call, blocks, 1, block_range, c);
    for (int64_t b = 1; b < blocks; b++) c->kernel->merge(block_states(c, 0), block_states(c, b), c->kept);
    results_range(c, 0, c->kept, 0);
    return TN_OK;
}

/* ---- Few rows ------------------------------------------------------------------------------------------ */

typedef struct few_rows {
    cpu_plan plan; /* of the output and of the first row */
    const reduce_call *call;
} few_rows;

static void few_run(void *user, void *const *pointers, int64_t n, int64_t position)
{
    const few_rows *f = user;
    const reduce_call *c = f->call;
    c->kernel->few(pointers[0], pointers[1], c->input.strides[c->nest->kept], c->reduced, n,
                   c->take == TAKE_MEAN ? (double)c->reduced : 1);
}

static void few_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const few_rows *f = user;
    cpu_plan_walk(&f->plan, begin, end, few_run, user);
}

/* Sums or means of a few rows of contiguous elements of the result's dtype, without states. Returns whether it ran. */
static bool reduce_few(const tn_call *call, const reduce_call *c)
{
    const tn_nest *nest = c->nest;
    const int32_t want[CPU_MAX_OPERANDS] = {c->hub, c->hub};
    few_rows f = {.call = c};
    if (!c->kernel->few || c->reduced < 1 || c->reduced > CPU_REDUCE_ROWS || nest->rank != nest->kept + 1 ||
        nest->n_operands != 2 || (c->take != TAKE_STATE && c->take != TAKE_MEAN) || c->input.slot != c->hub ||
        cpu_slot(cpu_operand(nest, 0)->dtype) != c->hub || nest->kept < 1)
        return false;
    if (cpu_plan_make(&f.plan, nest, nest->kept, want) != TN_OK) return false;
    for (int32_t i = 0; i < 2; i++) {
        const cpu_plan_operand *o = &f.plan.operands[i];
        if (o->stride != o->bytes || !(o->linear || f.plan.by_rows)) return false;
    }
    cpu_parallel_for(call, c->kept, REDUCE_GRAIN / c->reduced, few_range, &f);
    return true;
}

/* ---- A call -------------------------------------------------------------------------------------------- */

static int32_t plan_results(const tn_call *call, reduce_call *c)
{
    int32_t want[CPU_MAX_OPERANDS];
    tn_nest outputs = *call->nest;
    outputs.n_operands = outputs.n_outputs;
    for (uint32_t i = 0; i < outputs.n_outputs; i++) {
        bool complex = cpu_slot_is_complex(cpu_slot(cpu_operand(call->nest, i)->dtype));
        want[i] = c->hub == CPU_I64 ? CPU_I64 : c->hub == CPU_C128 && complex ? CPU_C128 : CPU_F64;
    }
    return cpu_plan_make(&c->results, &outputs, call->nest->kept, want);
}

static int32_t reduce(const tn_call *call, const reduction *r, double power, double correction)
{
    const tn_nest *nest = call->nest;
    const tn_operand *input = cpu_operand(nest, nest->n_outputs);
    int32_t slot = cpu_slot(input->dtype), out_slot = cpu_slot(cpu_operand(nest, 0)->dtype);
    reduce_call c = {
        .nest = nest, .take = r->take, .power = power, .correction = correction, .kept = 1, .reduced = 1};
    if (slot < 0 || out_slot < 0) return cpu_error(call, TN_E_UNSUPPORTED, "cpu: the dtype is unknown");
    c.hub = choose_hub(slot, out_slot, r->op);
    c.wide = out_slot == CPU_F64;
    /* A half type without this kernel goes through float32. */
    c.kernel = c.hub == CPU_F32 && slot != CPU_F32 ? find_kernel(r->op, slot) : NULL;
    if (c.kernel) c.hub = slot;
    if (!c.kernel) c.kernel = find_kernel(r->op, c.hub);
    if (!c.kernel) return cpu_error(call, TN_E_UNSUPPORTED, "cpu: no kernel of this reduction for the dtype");
    c.input = (cpu_plan_operand){.base = input->host,
                                 .strides = input->strides,
                                 .slot = slot,
                                 .want = c.hub,
                                 .bytes = cpu_slot_bytes[slot]};
    for (uint32_t d = 0; d < nest->rank; d++) *(d < nest->kept ? &c.kept : &c.reduced) *= nest->sizes[d];
    if (reduce_few(call, &c)) return TN_OK;
    int32_t status = plan_results(call, &c);
    if (status != TN_OK) return cpu_error(call, status, "cpu: the dtype is unknown");
    c.block = BLOCK_ELEMENTS / c.kept;
    if (c.kept <= BLOCK_RESULTS && c.reduced >= 2 * c.block) return reduce_blocks(call, &c);
    int64_t grain = REDUCE_GRAIN / c.reduced;
    /* Each thread gets whole cache lines of results. */
    cpu_parallel_for(call, c.kept, grain > 16 ? grain : c.kept >= 256 ? 16 : 1, results_range, &c);
    return TN_OK;
}

static int32_t run_reduction(void *self, const tn_call *call)
{
    return reduce(call, call->data, 0, 0);
}

/* aten::linalg_vector_norm(Tensor self, Scalar ord, ...). Of one element every norm is its size, also where its powers overflow. */
static int32_t run_norm(void *self, const tn_call *call)
{
    double order = float_arg(call, 1);
    reduction r = {CPU_REDUCE_norm_p, TAKE_NORM};
    int64_t reduced = 1;
    for (uint32_t d = call->nest->kept; d < call->nest->rank; d++) reduced *= call->nest->sizes[d];
    if (order == 0)
        r.op = CPU_REDUCE_count;
    else if (order == 1 || reduced == 1)
        r.op = CPU_REDUCE_norm_1;
    else if (order == 2)
        r.op = CPU_REDUCE_norm_2;
    else if (order == INFINITY)
        r.op = CPU_REDUCE_norm_inf;
    else if (order == -INFINITY)
        r.op = CPU_REDUCE_norm_negative_inf;
    return reduce(call, &r, order, 0);
}

/* aten::var.correction(Tensor self, int[1]? dim, *, Scalar? correction, bool keepdim) and its family */
static int32_t run_moments(void *self, const tn_call *call)
{
    double correction = call->args[2].tag == TN_TAG_NONE ? 1 : float_arg(call, 2);
    return reduce(call, call->data, 0, correction);
}

/* ---- Rows ---------------------------------------------------------------------------------------------- */

#define REDUCTION(name, how) (&(const reduction){CPU_REDUCE_##name, how})
/* Inputs are converted as they are read. */
#define REDUCE_ROW(row_schema, row_dtypes, function, row_data)                           \
    {                                                                                    \
        .size = sizeof(tn_kernel_row), .flags = TN_ROW_CASTS, .strides = TN_STRIDES_ANY, \
        .schema = row_schema, .dtypes = row_dtypes, .run = function, .data = row_data    \
    }
#define PLAIN(row_schema, row_dtypes, name, how) \
    REDUCE_ROW(row_schema, row_dtypes, run_reduction, REDUCTION(name, how))
const tn_kernel_row cpu_reduce_rows[] = {
    PLAIN("aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> "
          "Tensor",
          cpu_everything_dtypes, sum, TAKE_STATE),
    PLAIN("aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", cpu_everything_dtypes, sum,
          TAKE_STATE),
    PLAIN("aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> "
          "Tensor",
          cpu_all_dtypes, nansum, TAKE_STATE),
    PLAIN("aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
          cpu_inexact_dtypes, sum, TAKE_MEAN),
    PLAIN("aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", cpu_inexact_dtypes, sum, TAKE_MEAN),
    PLAIN("aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", cpu_all_dtypes, prod, TAKE_STATE),
    PLAIN("aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
          cpu_all_dtypes, prod, TAKE_STATE),
    PLAIN("aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", cpu_ordered_dtypes, max,
          TAKE_STATE),
    PLAIN("aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", cpu_ordered_dtypes, min,
          TAKE_STATE),
    PLAIN("aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
          cpu_ordered_dtypes, minmax, TAKE_BOTH),
    PLAIN("aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", cpu_ordered_dtypes,
          argmax, TAKE_SECOND),
    PLAIN("aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", cpu_ordered_dtypes,
          argmin, TAKE_SECOND),
    PLAIN("aten::max(Tensor self) -> Tensor", cpu_ordered_dtypes, max, TAKE_STATE),
    PLAIN("aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
          cpu_ordered_dtypes, argmax, TAKE_BOTH),
    PLAIN("aten::min(Tensor self) -> Tensor", cpu_ordered_dtypes, min, TAKE_STATE),
    PLAIN("aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
          cpu_ordered_dtypes, argmin, TAKE_BOTH),
    PLAIN("aten::any(Tensor self) -> Tensor", cpu_all_dtypes, any, TAKE_STATE),
    PLAIN("aten::any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", cpu_all_dtypes, any,
          TAKE_STATE),
    PLAIN("aten::any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", cpu_all_dtypes, any,
          TAKE_STATE),
    PLAIN("aten::all(Tensor self) -> Tensor", cpu_all_dtypes, all, TAKE_STATE),
    PLAIN("aten::all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", cpu_all_dtypes, all,
          TAKE_STATE),
    PLAIN("aten::all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", cpu_all_dtypes, all,
          TAKE_STATE),
    PLAIN("aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", cpu_all_dtypes, count,
          TAKE_STATE),
    REDUCE_ROW("aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
               "ScalarType? dtype=None) -> Tensor",
               cpu_inexact_dtypes, run_norm, NULL),
    REDUCE_ROW(
        "aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) "
        "-> Tensor",
        cpu_inexact_dtypes, run_moments, REDUCTION(moments, TAKE_VAR)),
    REDUCE_ROW(
        "aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) "
        "-> Tensor",
        cpu_inexact_dtypes, run_moments, REDUCTION(moments, TAKE_STD)),
    REDUCE_ROW("aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "
               "keepdim=False) -> (Tensor, Tensor)",
               cpu_inexact_dtypes, run_moments, REDUCTION(moments, TAKE_VAR_MEAN)),
    REDUCE_ROW("aten::std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool "
               "keepdim=False) -> (Tensor, Tensor)",
               cpu_inexact_dtypes, run_moments, REDUCTION(moments, TAKE_STD_MEAN)),
};
const uint32_t cpu_reduce_row_count = CPU_ROW_COUNT(cpu_reduce_rows);
