/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions and scans: lines are cut into parts, as many as keep the device busy (device/reduce.cl). */
#include "gpu.h"

#include <stdlib.h>

typedef struct reduction {
    uint32_t opcode;
    uint32_t is_scan;
} reduction;

#define LEAST_PART 1024 /* elements for which an item and its state are worth their cost */

/* The parts of a line: enough for the device if `width` items take a part, none shorter than `least`. */
static void cut(const gpu_device *d, gpu_nest *nest, uint32_t kept, uint64_t lines, uint32_t width,
                uint64_t least)
{
    uint64_t size = nest->numel / lines, tasks = gpu_items_wanted(d) / width;
    uint64_t parts = (tasks + lines - 1) / lines, most = (size + least - 1) / least;
    if (parts > most) parts = most;
    if (parts < 1) parts = 1;
    uint64_t length = (size + parts - 1) / parts;
    nest->scalars[0] = kept;
    nest->scalars[1] = lines;
    nest->scalars[2] = (size + length - 1) / length;
    nest->scalars[3] = length;
}

/* The type to compute in: that of the result for sums and products, else that of the elements. */
static uint8_t type_of(uint32_t opcode, tn_dtype in, tn_dtype out)
{
    if (opcode > GPU_PROD || out == TN_BOOL || in == TN_FLOAT64) return gpu_type(in);
    return gpu_type(out);
}

typedef struct pass {
    const tn_call *call;
    gpu_nest nest;
    uint8_t type;
    void *states;
    int64_t first_state; /* in words */
} pass;

static gpu_job job_of(const pass *p, const char *kernel)
{
    return gpu_job_of(p->call, GPU_FILE_REDUCE, p->type, kernel);
}

/* What the kernels take: the result, what they read, the states, the items of a line and the nest; NULL: not this one. */
static void give_pass(gpu_job *job, const pass *p, const tn_operand *out, const tn_operand *in,
                      const uint32_t *width)
{
    gpu_give_memory(job, out->allocation);
    if (in) gpu_give_memory(job, in->allocation);
    gpu_give_memory(job, p->states);
    gpu_give(job, &p->first_state, sizeof p->first_state);
    if (width) gpu_give(job, width, sizeof *width);
    gpu_give(job, &p->nest, sizeof p->nest);
}

static int32_t make_states(pass *p, uint64_t items)
{
    uint64_t offset;
    int32_t status = gpu_workspace(p->call, items * 16, &p->states, &offset);
    p->first_state = (int64_t)offset / 8;
    return status;
}

/* Short parts are launched in groups, unless there are too few for all cores: a group of its own costs as much as 100 elements. */
static int32_t weight_of(const pass *p, uint64_t items)
{
    uint64_t each = p->nest.numel / items;
    return each >= 1024 || (each >= 64 && items < 64 * gpu_items_wanted(gpu_device_of(p->call))) ? GPU_HEAVY
                                                                                                 : GPU_LIGHT;
}

/* Queues `reduce` over all parts. */
static int32_t reduce_all_parts(pass *p, const tn_operand *out, const tn_operand *in, uint64_t items)
{
    gpu_job job = job_of(p, "reduce");
    give_pass(&job, p, out, in, NULL);
    return gpu_launch(&job, items, weight_of(p, items));
}

#define LANES        64  /* lines that an item of scan_columns takes */
#define LINES_BESIDE 256 /* lines that an item of reduce_columns takes */

/* Whether neighbouring lines are beside each other, so that a processor takes many of them at once. */
static int32_t are_columns(const pass *p, uint32_t kept)
{
    const gpu_nest *n = &p->nest;
    int32_t has_lanes =
        n->opcode == GPU_SUM || n->opcode == GPU_MEAN || n->opcode == GPU_MAX || n->opcode == GPU_MIN;
    return gpu_device_of(p->call)->properties.is_processor && has_lanes && kept && kept < n->rank &&
           n->strides[1][0] == gpu_code_bytes(n->dtypes[1]) && n->sizes[0] >= LANES;
}

/* Blocks of lines, each in as many parts as keep the device busy. With one part that is the result. */
static int32_t reduce_columns(pass *p, const tn_operand *out, const tn_operand *in, uint64_t lines)
{
    uint64_t across = (p->nest.sizes[0] + LINES_BESIDE - 1) / LINES_BESIDE, size = p->nest.numel / lines;
    uint64_t blocks = across * (lines / p->nest.sizes[0]);
    uint64_t parts = (gpu_items_wanted(gpu_device_of(p->call)) + blocks - 1) / blocks,
             most = (size + 63) / 64;
    if (parts > most) parts = most;
    uint64_t length = (size + parts - 1) / parts;
    parts = p->nest.scalars[2] = (size + length - 1) / length;
    p->nest.scalars[3] = length;
    int32_t status = parts > 1 ? make_states(p, lines * parts) : TN_OK;
    p->nest.scalars[1] = across;
    gpu_job job = job_of(p, "reduce_columns");
    give_pass(&job, p, out, in, NULL);
    if (!status) status = gpu_launch(&job, blocks * parts, GPU_HEAVY);
    p->nest.scalars[1] = lines;
    return status;
}

/* ---- Groups of a GPU ----------------------------------------------------------------------------------- */

#define FEW_LINES 32 /* fewer neighbouring lines do not fill a read of memory */

/* How many items take a part: one where many lines lie beside each other, else as many as have work. */
static uint32_t width_of(const gpu_nest *n, uint32_t kept, uint64_t lines)
{
    if (kept && kept < n->rank && lines >= FEW_LINES && llabs(n->strides[1][0]) < llabs(n->strides[1][kept]))
        return 1;
    return gpu_width_for(n->numel / lines);
}

/* As reduce_all_parts, but `width` items take a part. */
static int32_t reduce_by_groups(const tn_call *call, pass *p, uint64_t lines)
{
    const tn_operand *out = tn_nest_operand(call->nest, 0), *in = tn_nest_operand(call->nest, 1);
    uint32_t width = width_of(&p->nest, call->nest->kept, lines);
    uint64_t least = width == 1 ? 64 : 8 * (uint64_t)width; /* elements for which a state is worth its cost */
    cut(gpu_device_of(call), &p->nest, call->nest->kept, lines, width, least);
    uint64_t parts = p->nest.scalars[2];
    int32_t status = parts > 1 ? make_states(p, lines * parts) : TN_OK;
    gpu_job job = job_of(p, "reduce_group");
    give_pass(&job, p, out, in, &width);
    if (!status) status = gpu_launch(&job, lines * parts * width, GPU_HEAVY);
    if (status || parts == 1) return status;
    uint32_t merging = gpu_width_for(parts);
    gpu_job merge = job_of(p, "merge_group");
    give_pass(&merge, p, out, NULL, &merging);
    return gpu_launch(&merge, lines * merging, GPU_HEAVY);
}

/* ---- Calls ------------------------------------------------------------------------------------------------ */

static int32_t reduce(const tn_call *call, pass *p, uint64_t lines)
{
    const tn_operand *out = tn_nest_operand(call->nest, 0), *in = tn_nest_operand(call->nest, 1);
    uint64_t parts = p->nest.scalars[2];
    int32_t status = TN_OK;
    if (!gpu_device_of(call)->properties.is_processor) return reduce_by_groups(call, p, lines);
    if (are_columns(p, call->nest->kept)) {
        status = reduce_columns(p, out, in, lines);
    } else {
        if (parts > 1) status = make_states(p, lines * parts);
        if (!status) status = reduce_all_parts(p, out, in, lines * parts);
    }
    if (status || p->nest.scalars[2] == 1) return status;
    gpu_job job = job_of(p, "reduce_parts");
    give_pass(&job, p, out, NULL, NULL);
    return gpu_launch(&job, lines, GPU_LIGHT);
}

/* Running sums of lines that lie beside each other, where there are enough of them for all cores. */
static int32_t is_scan_of_columns(const pass *p, uint64_t lines)
{
    const gpu_nest *n = &p->nest;
    return gpu_device_of(p->call)->properties.is_processor && n->opcode == GPU_SUM && n->rank == 2 &&
           p->type == 32 && n->dtypes[0] == GPU_F32 && n->dtypes[1] == GPU_F32 && n->strides[0][0] == 4 &&
           n->strides[1][0] == 4 &&
           lines >= LANES * (uint64_t)gpu_device_of(p->call)->properties.compute_units;
}

/* The state of each part becomes that of all before it. */
static int32_t scan_parts(const pass *p, uint64_t lines)
{
    int32_t is_processor = (int32_t)gpu_device_of(p->call)->properties.is_processor;
    uint32_t width = gpu_width_for(p->nest.scalars[2]);
    gpu_job job = job_of(p, is_processor ? "scan_parts" : "scan_group");
    gpu_give_memory(&job, p->states);
    gpu_give(&job, &p->first_state, sizeof p->first_state);
    if (!is_processor) gpu_give(&job, &width, sizeof width);
    gpu_give(&job, &p->nest, sizeof p->nest);
    return is_processor ? gpu_launch(&job, lines, GPU_LIGHT) : gpu_launch(&job, lines * width, GPU_HEAVY);
}

static int32_t scan(const tn_call *call, pass *p, uint64_t lines)
{
    const tn_operand *out = tn_nest_operand(call->nest, 0);
    const tn_operand *in = tn_nest_operand(call->nest, call->nest->n_outputs);
    const tn_operand *positions = tn_nest_operand(call->nest, call->nest->n_outputs - 1);
    uint64_t parts = p->nest.scalars[2];
    int32_t status = TN_OK;
    if (is_scan_of_columns(p, lines)) {
        gpu_job job = job_of(p, "scan_columns");
        gpu_give_memory(&job, out->allocation);
        gpu_give_memory(&job, in->allocation);
        gpu_give(&job, &p->nest, sizeof p->nest);
        return gpu_launch(&job, (lines + LANES - 1) / LANES, GPU_HEAVY);
    }
    if (parts > 1) {
        status = make_states(p, lines * parts);
        if (!status) status = reduce_all_parts(p, out, in, lines * parts);
        if (!status) status = scan_parts(p, lines);
    }
    gpu_job job = job_of(p, "scan");
    gpu_give_memory(&job, out->allocation);
    gpu_give_memory(&job, in->allocation);
    gpu_give_memory(&job, positions->allocation);
    gpu_give_memory(&job, p->states);
    gpu_give(&job, &p->first_state, sizeof p->first_state);
    gpu_give(&job, &p->nest, sizeof p->nest);
    return status ? status : gpu_launch(&job, lines * parts, weight_of(p, lines * parts));
}

/* Operands of the device's nest: out, in, and the positions of cummax and cummin. */
static void arrange(pass *p, const tn_nest *nest)
{
    uint32_t in = nest->n_outputs;
    gpu_nest_of_call(&p->nest, nest, in + 1);
    if (in != 2) return;
    gpu_nest n = p->nest;
    memcpy(n.strides[1], p->nest.strides[2], sizeof n.strides[1]);
    memcpy(n.strides[2], p->nest.strides[1], sizeof n.strides[2]);
    n.offsets[1] = p->nest.offsets[2];
    n.offsets[2] = p->nest.offsets[1];
    n.dtypes[1] = p->nest.dtypes[2];
    n.dtypes[2] = p->nest.dtypes[1];
    p->nest = n;
}

static int32_t run_lines(pass *p, const reduction *r, uint64_t lines)
{
    cut(gpu_device_of(p->call), &p->nest, p->call->nest->kept, lines, 1, LEAST_PART);
    return r->is_scan ? scan(p->call, p, lines) : reduce(p->call, p, lines);
}

/* Sums of complex numbers: those of their real parts, then those of their imaginary ones. */
static int32_t run_parts(const pass *whole, const reduction *r, uint64_t lines)
{
    uint8_t is_wide = tn_nest_operand(whole->call->nest, 0)->dtype == TN_COMPLEX128;
    int32_t status = TN_OK;
    for (int32_t part = 0; part < 2 && !status; part++) {
        pass p = *whole;
        p.type = is_wide ? 64 : 32;
        for (uint32_t k = 0; k < 2; k++) {
            p.nest.dtypes[k] = is_wide ? GPU_F64 : GPU_F32;
            p.nest.offsets[k] += part * (is_wide ? 8 : 4);
        }
        status = run_lines(&p, r, lines);
    }
    return status;
}

static const char *can_sum(void *self, const tn_call *call)
{
    const char *reason = gpu_can_move(self, call);
    if (reason || !gpu_has_complex(call)) return gpu_can_run(self, call);
    if (gpu_tensor(call->args[0])->dtype != gpu_result(call, 0)->dtype) return "the result has another dtype";
    return gpu_can_complex(call);
}

static int32_t run(void *self, const tn_call *call)
{
    const reduction *r = call->data;
    const tn_nest *nest = call->nest;
    tn_dtype out = tn_nest_operand(nest, 0)->dtype, in = tn_nest_operand(nest, nest->n_outputs)->dtype;
    uint64_t lines = 1;
    pass p = {.call = call, .type = type_of(r->opcode, in, out)};
    for (uint32_t d = 0; d < nest->kept; d++) lines *= (uint64_t)nest->sizes[d];
    arrange(&p, nest);
    p.nest.opcode = r->opcode;
    if (gpu_is_complex(out)) return run_parts(&p, r, lines);
    if (out == TN_BOOL && r->opcode == GPU_SUM) p.nest.opcode = GPU_ANY;
    if (out == TN_BOOL && r->opcode == GPU_PROD) p.nest.opcode = GPU_ALL;
    return run_lines(&p, r, lines);
}

#define ROW_OF(text, list, ...)                                  \
    GPU_ROW(ANY, text, list, .run = run, .can_run = gpu_can_run, \
            .data = &(const reduction){.opcode = __VA_ARGS__})
#define ROW(text, ...) ROW_OF(text, gpu_all_dtypes, __VA_ARGS__)
#define SUM_ROW(text, ...)                                                    \
    GPU_ROW(ANY, text, gpu_everything_dtypes, .run = run, .can_run = can_sum, \
            .data = &(const reduction){.opcode = __VA_ARGS__})
#define LOG_ROW(text) ROW_OF(text, gpu_float_dtypes, GPU_LOG_SUM, .is_scan = 1)
#define DIMS                                                                     \
    "(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) " \
    "-> Tensor"
#define TOTAL "(Tensor self, *, ScalarType? dtype=None) -> Tensor"
static const tn_kernel_row rows[] = {
    SUM_ROW("sum" TOTAL, GPU_SUM),
    SUM_ROW("sum.dim_IntList" DIMS, GPU_SUM),
    SUM_ROW("mean" TOTAL, GPU_MEAN),
    SUM_ROW("mean.dim" DIMS, GPU_MEAN),
    ROW("prod" TOTAL, GPU_PROD),
    ROW("prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? "
        "dtype=None) -> Tensor",
        GPU_PROD),
    ROW("amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", GPU_MAX),
    ROW("amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", GPU_MIN),
    ROW("max(Tensor self) -> Tensor", GPU_MAX),
    ROW("min(Tensor self) -> Tensor", GPU_MIN),
    ROW("any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", GPU_ANY),
    ROW("all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", GPU_ALL),
    ROW("any(Tensor self) -> Tensor", GPU_ANY),
    ROW("any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", GPU_ANY),
    ROW("all(Tensor self) -> Tensor", GPU_ALL),
    ROW("all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", GPU_ALL),
    ROW("argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", GPU_ARGMAX),
    ROW("argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", GPU_ARGMIN),
    SUM_ROW("cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", GPU_SUM, .is_scan = 1),
    ROW("cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", GPU_PROD, .is_scan = 1),
    LOG_ROW("logcumsumexp(Tensor self, int dim) -> Tensor"),
    LOG_ROW("_logcumsumexp(Tensor self, int dim) -> Tensor"),
    ROW("cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", GPU_LAST_MAX, .is_scan = 1),
    ROW("cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", GPU_LAST_MIN, .is_scan = 1),
};
const gpu_rows gpu_reduce_rows = GPU_ROW_LIST(rows);
