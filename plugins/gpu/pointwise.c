/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointwise operators. One kernel of a group runs all its operators over any dtypes and strides, so small calls
 * of every kind need few compilations. Operators are known by the shared list (pointwise_list.h) and the groups
 * of device/operators.h only.
 */
#include "gpu.h"

#include "device/operators.h"

#include <math.h>

/* ---- The table ------------------------------------------------------------------------------------------ */

typedef struct pointwise_op {
    uint32_t number;
    const char *types; /* see pointwise_list.h */
} pointwise_op;

#define DEFINE_OP(name, op_types, op_dtypes, grain, op_schema) {GPU_OP_##name, op_types},
static const pointwise_op ops[] = {POINTWISE_OPS(DEFINE_OP)};

/* The group of an operator for floats and for integers; 0: there is no formula. */
#define IN_ARITHMETIC(op, formula) [GPU_OP_##op] = GPU_GROUP_ARITHMETIC,
#define IN_ACTIVATION(op, formula) [GPU_OP_##op] = GPU_GROUP_ACTIVATION,
#define IN_FUNCTION(op, formula)   [GPU_OP_##op] = GPU_GROUP_FUNCTION,
#define IN_RARE(op, formula)       [GPU_OP_##op] = GPU_GROUP_RARE,
#define IN_SPECIAL(op, formula)    [GPU_OP_##op] = GPU_GROUP_SPECIAL,
#define IN_GAMMA(op, formula)      [GPU_OP_##op] = GPU_GROUP_GAMMA,
static const uint8_t float_groups[GPU_OP_COUNT] = {
    GPU_BASIC_OPS(IN_ARITHMETIC) GPU_FLOAT_OPS(IN_ARITHMETIC) GPU_ACTIVATION_OPS(IN_ACTIVATION)
        GPU_FUNCTION_OPS(IN_FUNCTION) GPU_RARE_OPS(IN_RARE) GPU_SPECIAL_OPS(IN_SPECIAL)
            GPU_POLYNOMIAL_OPS(IN_SPECIAL) GPU_GAMMA_OPS(IN_GAMMA)};
static const uint8_t integer_groups[GPU_OP_COUNT] = {
    GPU_BASIC_OPS(IN_ARITHMETIC) GPU_INTEGER_OPS(IN_ARITHMETIC) GPU_TRIVIAL_OPS(IN_ARITHMETIC)};

/* The tail of ndtri is too small for erfc in float64: there the formula has too few digits. */
static uint8_t group_of(uint32_t op, uint8_t type)
{
    if (op == GPU_OP_ndtri && type == 64) return 0;
    return type == 1 ? integer_groups[op] : float_groups[op];
}

/* ---- A call ---------------------------------------------------------------------------------------------- */

static const char *string_argument(const tn_call *call)
{
    for (uint32_t i = 0; i < call->n_args; i++)
        if (call->args[i].tag == TN_TAG_STRING) return call->args[i].as.string;
    return "";
}

static int32_t is_absent(const tn_call *call, uint32_t i)
{
    return call->n_args <= i || call->args[i].tag == TN_TAG_NONE;
}

/* The operator that computes the call: the row's, or the variant that an argument asks for; -1: none. */
static int32_t choose_variant(const tn_call *call, uint32_t op, tn_dtype dtype)
{
    const char *text = string_argument(call);
    switch (op) {
    case GPU_OP_div_mode:
        if (strcmp(text, "trunc") == 0) return GPU_OP_div_trunc;
        if (strcmp(text, "floor") == 0) return GPU_OP_floor_divide;
        return *text ? -1 : GPU_OP_div;
    case GPU_OP_gelu:
        return strcmp(text, "tanh") == 0 ? GPU_OP_gelu_tanh : strcmp(text, "none") == 0 ? (int32_t)op : -1;
    case GPU_OP_gelu_backward:
        return strcmp(text, "tanh") == 0   ? GPU_OP_gelu_tanh_backward
               : strcmp(text, "none") == 0 ? (int32_t)op
                                           : -1;
    case GPU_OP_bitwise_not:
        return dtype == TN_BOOL ? GPU_OP_logical_not : (int32_t)op;
    case GPU_OP_nextafter:
        return dtype == TN_FLOAT16    ? GPU_OP_nextafter_f16
               : dtype == TN_BFLOAT16 ? GPU_OP_nextafter_bf16
                                      : (int32_t)op;
    case GPU_OP_clamp_tensor:
        if (is_absent(call, 1)) return GPU_OP_clamp_max_tensor;
        return is_absent(call, 2) ? GPU_OP_clamp_min_tensor : (int32_t)op;
    default:
        return (int32_t)op;
    }
}

/* The operator whose list of dtypes and group decide whether the device has the call. */
static uint32_t listed_op(uint32_t op)
{
    return op == GPU_OP_div_mode ? GPU_OP_div_trunc : op;
}

/* The largest finite number of a float dtype. */
static double largest_finite(tn_dtype dtype)
{
    return dtype == TN_FLOAT16    ? 65504
           : dtype == TN_BFLOAT16 ? 0x1.fep127
           : dtype == TN_FLOAT32  ? 3.40282346638528859812e+38
                                  : 1.7976931348623157e+308;
}

/* The width in which a dtype is computed; small integers are computed as int32, as on the CPU. */
static int64_t computed_width(tn_dtype dtype)
{
    return TN_DTYPE_BITS(dtype) == 64 ? 64 : 32;
}

/* The scalars that a formula takes as x, y and z: mostly the call's, in order. */
static void scalars_of(const tn_call *call, uint32_t op, tn_dtype dtype, uint8_t type, uint64_t out[4])
{
    tn_number s[4];
    int32_t absent[4] = {1, 1, 1, 1};
    uint32_t n = 0;
    for (uint32_t k = 0; k < 4; k++) s[k] = tn_number_whole(0);
    for (uint32_t i = 0; i < call->n_args && n < 4; i++) {
        uint32_t tag = call->args[i].tag;
        if (tag == TN_TAG_TENSOR || tag == TN_TAG_STRING) continue;
        absent[n] = tag == TN_TAG_NONE;
        s[n] = tn_number_of(call->args[i]);
        /* ATen converts scalars to the dtype, where negative ones wrap around. */
        if (dtype == TN_UINT8 && s[n].i < 0) s[n] = tn_number_whole(s[n].i & UINT8_MAX);
        n++;
    }
    switch (op) {
    case GPU_OP_clamp:
        if (absent[0]) s[0] = type == 1 ? tn_number_whole(INT64_MIN) : tn_number_real(-(double)INFINITY);
        if (absent[1]) s[1] = type == 1 ? tn_number_whole(INT64_MAX) : tn_number_real((double)INFINITY);
        break;
    case GPU_OP_nan_to_num:
        if (absent[1]) s[1] = tn_number_real(largest_finite(dtype));
        if (absent[2]) s[2] = tn_number_real(-largest_finite(dtype));
        break;
    case GPU_OP_elu:
    case GPU_OP_elu_backward:
        s[0] = tn_number_real(s[0].f * s[1].f);
        break;
    case GPU_OP_bitwise_left_shift:
    case GPU_OP_bitwise_right_shift:
    case GPU_OP_lcm:
        s[0] = tn_number_whole(computed_width(dtype));
        break;
    default:
        break;
    }
    for (uint32_t k = 0; k < 4; k++) out[k] = gpu_number_bits(type, s[k]);
}

/* The input of type T that determines the dtype: the first one that is not a scalar, else the first one. */
static uint32_t leading_operand(const tn_nest *nest, const char *types)
{
    uint32_t first = 0;
    for (uint32_t i = nest->n_outputs; i < nest->n_operands && types[i]; i++) {
        if (types[i] != 'T') continue;
        if (!first) first = i;
        if (!(tn_nest_operand(nest, i)->flags & TN_OPERAND_IMMEDIATE)) return i;
    }
    return first;
}

/* A call in preparation. */
typedef struct pointwise_call {
    const tn_call *call;
    gpu_nest nest;
    uint8_t type, group;
    void *allocations[GPU_OPERANDS];
} pointwise_call;

static void give_operands(gpu_job *job, const pointwise_call *p)
{
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) gpu_give_memory(job, p->allocations[k]);
}

/* Whether an element can be wrong: an integer that is divided by zero. */
static int32_t may_divide_by_zero(const pointwise_call *p)
{
    const gpu_nest *n = &p->nest;
    int32_t divides = p->type == 1 && (n->opcode == GPU_OP_div_trunc || n->opcode == GPU_OP_floor_divide ||
                                       n->opcode == GPU_OP_remainder || n->opcode == GPU_OP_fmod);
    return divides && !(n->immediate >> 2 & 1 && n->values[2]);
}

static int32_t run_any(const pointwise_call *p)
{
    gpu_job job = gpu_job_of(p->call, GPU_FILE_POINTWISE, p->type, "pointwise");
    job.program.group = p->group;
    give_operands(&job, p);
    if (may_divide_by_zero(p))
        gpu_give_faults(&job);
    else
        gpu_give_memory(&job, NULL);
    gpu_give(&job, &p->nest, sizeof p->nest);
    return gpu_launch(&job, p->nest.numel, GPU_LIGHT);
}

/* Fewer elements do not repay the compilation of a kernel of their own. Processors gain more by one: ten times. */
#define LEAST_DENSE           65536
#define LEAST_DENSE_PROCESSOR 8192
#define LEAST_ROW             16

/* Whether the build has a program for dense operands of one dtype, and this call has no other operands. */
static int32_t has_dense_program(const pointwise_call *p)
{
    static const uint8_t built[GPU_DTYPES] = {[GPU_BOOL] = 1, [GPU_U8] = 1,   [GPU_I32] = 1, [GPU_I64] = 1,
                                              [GPU_F16] = 1,  [GPU_BF16] = 1, [GPU_F32] = 1, [GPU_F64] = 1};
    const gpu_nest *n = &p->nest;
    for (uint32_t k = 1; k < GPU_OPERANDS; k++)
        if (!(n->immediate >> k & 1) && n->dtypes[k] != n->dtypes[0]) return 0;
    int32_t is_float = n->dtypes[0] >= GPU_F16 && n->dtypes[0] <= GPU_F64;
    return built[n->dtypes[0]] && p->type == (!is_float ? 1 : n->dtypes[0] == GPU_F64 ? 64 : 32);
}

/*
 * Whether a kernel for this operator alone takes the call: operands are contiguous, on processors also
 * rows of them, or one value along a row, and no element can be wrong. Gives the bits of the latter.
 */
static int32_t is_dense(const pointwise_call *p, uint16_t *out_splat)
{
    const gpu_nest *n = &p->nest;
    const gpu_properties *properties = &gpu_device_of(p->call)->properties;
    int32_t rows = properties->is_processor;
    uint32_t least = rows ? LEAST_DENSE_PROCESSOR : LEAST_DENSE;
    if ((properties->is_precompiled && !(properties->has_dense && has_dense_program(p))) ||
        n->numel < least || !n->rank || may_divide_by_zero(p) ||
        (rows ? n->sizes[0] < LEAST_ROW : n->rank != 1))
        return 0;
    *out_splat = (uint16_t)n->immediate;
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) {
        if (n->immediate >> k & 1) continue;
        int32_t is_one = rows && k > 0 && n->strides[k][0] == 0;
        if (is_one) *out_splat |= (uint16_t)(1u << k);
        if (!is_one && n->strides[k][0] != gpu_code_bytes(n->dtypes[k])) return 0;
    }
    return 1;
}

static gpu_job dense_job(const pointwise_call *p, uint16_t splat)
{
    gpu_job job = gpu_job_of(p->call, GPU_FILE_POINTWISE, p->type, "dense");
    job.program.group = p->group;
    job.program.is_dense = 1;
    give_operands(&job, p);
    gpu_give(&job, &p->nest, sizeof p->nest);
    job.program.dtypes[0] = (uint8_t)p->nest.dtypes[0];
    if (gpu_device_of(p->call)->properties.is_precompiled) return job; /* for all operators and values */
    job.program.opcode = (uint16_t)p->nest.opcode;
    job.program.immediate = (uint16_t)p->nest.immediate;
    job.program.splat = splat;
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) job.program.dtypes[k] = (uint8_t)p->nest.dtypes[k];
    return job;
}

/* A processor takes rows in pieces; a GPU whole groups, and the rest as any call. */
static int32_t run_dense(pointwise_call *p, uint16_t splat)
{
    const gpu_device *d = gpu_device_of(p->call);
    gpu_nest *n = &p->nest;
    uint32_t run_length = gpu_dense_run(d);
    if (d->properties.is_processor) {
        uint32_t pieces = (n->sizes[0] + run_length - 1) / run_length;
        uint64_t rows = n->numel / n->sizes[0], each = gpu_rows_each(n->sizes[0], run_length);
        n->scalars[3] = pieces;
        n->values[0] = each;
        gpu_job job = dense_job(p, splat);
        return gpu_launch(&job, (rows + each - 1) / each * pieces, GPU_HEAVY);
    }
    uint32_t rest = n->numel % gpu_dense_group(d);
    n->numel -= rest;
    gpu_job job = dense_job(p, splat);
    int32_t status = n->numel ? gpu_launch(&job, n->numel / run_length, GPU_HEAVY) : TN_OK;
    if (status || !rest) return status;
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) n->offsets[k] += (int64_t)n->numel * n->strides[k][0];
    n->sizes[0] = n->numel = rest;
    return run_any(p);
}

int32_t gpu_convert_dense(const tn_call *call, const gpu_nest *nest, uint8_t type, void *out, void *in,
                          int32_t *out_status)
{
    pointwise_call p = {.call = call, .nest = *nest, .type = type, .group = GPU_GROUP_ARITHMETIC};
    uint16_t splat;
    p.allocations[0] = out;
    p.allocations[1] = in;
    p.nest.immediate = 0xc;                                         /* there is no second and third input */
    p.nest.opcode = type == 1 ? GPU_OP_ceil : GPU_OP_conj_physical; /* which are the identity there */
    if (!is_dense(&p, &splat)) return 0;
    *out_status = run_dense(&p, splat);
    return 1;
}

int32_t gpu_add(const tn_call *call, const gpu_nest *nest, void *out, void *a, void *b)
{
    const uint8_t type = nest->dtypes[0] == GPU_F64 ? 64 : 32;
    pointwise_call p = {.call = call,
                        .nest = *nest,
                        .type = type,
                        .group = group_of(GPU_OP_add, type),
                        .allocations = {out, a, b}};
    uint16_t splat;
    p.nest.immediate = 0x8; /* there is no third input */
    p.nest.opcode = GPU_OP_add;
    p.nest.scalars[0] = gpu_number_bits(type, tn_number_real(1));
    return is_dense(&p, &splat) ? run_dense(&p, splat) : run_any(&p);
}

static int32_t run(void *self, const tn_call *call)
{
    const pointwise_op *op = call->data;
    const tn_nest *from = call->nest;
    if (gpu_has_complex(call)) return gpu_complex_pointwise(call, op->number);
    tn_dtype dtype = tn_nest_operand(from, leading_operand(from, op->types))->dtype;
    int32_t number = choose_variant(call, op->number, dtype);
    pointwise_call p = {.call = call, .type = gpu_type(dtype)};
    if (number < 0)
        return gpu_error(self, TN_E_ARGUMENT,
                         op->number == GPU_OP_div_mode
                             ? "rounding_mode must be one of None, 'trunc' or 'floor', got '%s'"
                             : "approximate argument must be either none or tanh, got %s",
                         string_argument(call));
    p.group = group_of((uint32_t)number, p.type);
    gpu_nest_of_call(&p.nest, from, GPU_OPERANDS);
    p.nest.opcode = (uint32_t)number;
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) {
        const tn_operand *o = k < from->n_operands ? tn_nest_operand(from, k) : NULL;
        int32_t is_value = !o || o->flags & TN_OPERAND_IMMEDIATE;
        if (is_value) p.nest.immediate |= 1u << k;
        if (is_value) p.nest.values[k] = o ? gpu_number_bits(p.type, tn_number_load(o->dtype, o->host)) : 0;
        if (!is_value) p.allocations[k] = o->allocation;
    }
    scalars_of(call, (uint32_t)number, dtype, p.type, p.nest.scalars);
    /* The fourth scalar is the operand that the formula has left. */
    if (number == GPU_OP_elu_backward) p.nest.values[3] = p.nest.scalars[3];
    uint16_t splat;
    return is_dense(&p, &splat) ? run_dense(&p, splat) : run_any(&p);
}

/* A value that the host passes, whatever dtype its tensor has: the nest has it in the dtype of the call. */
static int32_t is_value(const tn_call *call, const tn_tensor_desc *t)
{
    return t->rank == 0 && t->device != gpu_result(call, 0)->device;
}

static const char *check_dtypes(const tn_call *call)
{
    for (uint32_t i = 0; i < call->n_args + call->n_outs; i++) {
        const tn_tensor_desc *t =
            gpu_optional(i < call->n_args ? call->args[i] : call->outs[i - call->n_args]);
        const tn_dtype *known = gpu_device_dtypes(gpu_device_of(call));
        if (!t || is_value(call, t)) continue;
        while (*known && *known != t->dtype) known++;
        if (!*known) return "a tensor has a dtype that the device does not compute in";
    }
    return NULL;
}

/* Their terms cancel around the roots, so that float32 would have too few digits. */
static int32_t is_polynomial(uint32_t number)
{
    return number >= GPU_OP_chebyshev_polynomial_t && number <= GPU_OP_legendre_polynomial_p;
}

/* The first tensor argument of type T decides about the formula, if it is not a value. */
static const char *can_run(void *self, const tn_call *call)
{
    const pointwise_op *op = call->data;
    const char *types = op->types + 1, *reason = gpu_can_move(self, call);
    const tn_tensor_desc *leading = NULL;
    if (!reason && gpu_has_complex(call)) return gpu_can_complex_pointwise(call, op->number);
    if (!reason) reason = check_dtypes(call);
    if (!reason && is_polynomial(op->number) && !gpu_device_of(call)->properties.has_double)
        reason = "the device has no float64, in which polynomials are computed";
    if (reason) return reason;
    for (uint32_t i = 0; i < call->n_args && *types; i++) {
        const tn_tensor_desc *t = gpu_argument_tensor(call, i);
        if (call->args[i].tag != TN_TAG_TENSOR || *types++ != 'T' || !t) continue;
        if (!leading || is_value(call, leading)) leading = t;
    }
    return !leading || group_of(listed_op(op->number), gpu_type(leading->dtype))
               ? NULL
               : "the device has no formula for this dtype";
}

/* ---- Rows ------------------------------------------------------------------------------------------------- */

/* The sets of dtypes of pointwise_list.h, without those that the family does not compute in. */
#define everything_dtypes gpu_everything_dtypes
#define all_dtypes        gpu_everything_dtypes
#define ordered_dtypes    gpu_all_dtypes
#define number_dtypes     gpu_number_or_complex_dtypes
#define real_dtypes       gpu_number_dtypes
#define inexact_dtypes    gpu_inexact_dtypes
#define float_dtypes      gpu_float_dtypes
#define full_float_dtypes gpu_float_dtypes
#define integral_dtypes   gpu_integral_dtypes
#define integer_dtypes    gpu_integer_dtypes

/* A scalar stays float32 when a half tensor is multiplied or divided by it. As in ATen: mul and the divisions. */
#define KEEPS_SCALARS(op)                                                                               \
    ((op) == GPU_OP_mul || (op) == GPU_OP_div || (op) == GPU_OP_div_mode || (op) == GPU_OP_floor_divide \
         ? TN_ROW_WIDE_IMMEDIATE                                                                        \
         : 0)
#define DEFINE_ROW(name, op_types, op_dtypes, grain, op_schema) \
    {.size = sizeof(tn_kernel_row),                             \
     .flags = KEEPS_SCALARS(GPU_OP_##name),                     \
     .strides = TN_STRIDES_ANY,                                 \
     .schema = op_schema,                                       \
     .dtypes = op_dtypes##_dtypes,                              \
     .run = run,                                                \
     .can_run = can_run,                                        \
     .data = &ops[GPU_OP_##name]},
static const tn_kernel_row rows[] = {POINTWISE_OPS(DEFINE_ROW)};

uint32_t gpu_pointwise_rows(tn_kernel_row *out)
{
    uint32_t n = 0;
    for (uint32_t op = 0; op < GPU_OP_COUNT; op++) {
        uint32_t listed = listed_op(op);
        int32_t has_formula = float_groups[listed] || integer_groups[listed] || op == GPU_OP_complex;
        if (!rows[op].schema || !has_formula) continue;
        if (out) out[n] = rows[op];
        n++;
    }
    return n;
}
