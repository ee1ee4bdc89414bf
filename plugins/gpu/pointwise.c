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
static const uint8_t float_groups[GPU_OP_COUNT] = {GPU_BASIC_OPS(IN_ARITHMETIC) GPU_FLOAT_OPS(
    IN_ARITHMETIC) GPU_ACTIVATION_OPS(IN_ACTIVATION) GPU_FUNCTION_OPS(IN_FUNCTION) GPU_RARE_OPS(IN_RARE)};
static const uint8_t integer_groups[GPU_OP_COUNT] = {
    GPU_BASIC_OPS(IN_ARITHMETIC) GPU_INTEGER_OPS(IN_ARITHMETIC) GPU_TRIVIAL_OPS(IN_ARITHMETIC)};

static uint8_t group_of(uint32_t op, uint8_t type)
{
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
        s[n++] = tn_number_of(call->args[i]);
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

static int32_t run(void *self, const tn_call *call)
{
    const pointwise_op *op = call->data;
    const tn_nest *from = call->nest;
    tn_dtype dtype = tn_nest_operand(from, leading_operand(from, op->types))->dtype;
    uint8_t type = gpu_type(dtype);
    int32_t number = choose_variant(call, op->number, dtype);
    gpu_nest nest;
    void *allocations[GPU_OPERANDS] = {NULL};
    if (number < 0)
        return gpu_error(self, TN_E_ARGUMENT, "unexpected argument \"%s\"", string_argument(call));
    gpu_nest_of_call(&nest, from, GPU_OPERANDS);
    nest.opcode = (uint32_t)number;
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) {
        const tn_operand *o = k < from->n_operands ? tn_nest_operand(from, k) : NULL;
        int32_t is_value = !o || o->flags & TN_OPERAND_IMMEDIATE;
        if (is_value) nest.immediate |= 1u << k;
        if (is_value) nest.values[k] = o ? gpu_number_bits(type, tn_number_load(o->dtype, o->host)) : 0;
        if (!is_value) allocations[k] = o->allocation;
    }
    scalars_of(call, (uint32_t)number, dtype, type, nest.scalars);
    gpu_job job = gpu_job_of(call, GPU_FILE_POINTWISE, type, "pointwise");
    job.program.group = group_of((uint32_t)number, type);
    for (uint32_t k = 0; k < GPU_OPERANDS; k++) gpu_give_memory(&job, allocations[k]);
    gpu_give_faults(&job);
    gpu_give(&job, &nest, sizeof nest);
    job.looks_for_faults = type == 1;
    return gpu_launch(&job, nest.numel, GPU_LIGHT);
}

/* The first tensor argument of type T decides about the formula. */
static const char *can_run(void *self, const tn_call *call)
{
    const pointwise_op *op = call->data;
    const char *types = op->types + 1;
    const char *reason = gpu_can_run(self, call);
    if (reason) return reason;
    for (uint32_t i = 0; i < call->n_args && *types; i++) {
        if (call->args[i].tag != TN_TAG_TENSOR) continue;
        if (*types++ != 'T') continue;
        return group_of(listed_op(op->number), gpu_type(gpu_tensor(call->args[i])->dtype))
                   ? NULL
                   : "the device has no formula for this dtype";
    }
    return NULL;
}

/* ---- Rows ------------------------------------------------------------------------------------------------- */

/* The sets of dtypes of pointwise_list.h, without those that the family does not compute in. */
#define everything_dtypes gpu_all_dtypes
#define all_dtypes        gpu_all_dtypes
#define ordered_dtypes    gpu_all_dtypes
#define number_dtypes     gpu_number_dtypes
#define real_dtypes       gpu_number_dtypes
#define inexact_dtypes    gpu_float_dtypes
#define float_dtypes      gpu_float_dtypes
#define full_float_dtypes gpu_float_dtypes
#define integral_dtypes   gpu_integral_dtypes
#define integer_dtypes    gpu_integer_dtypes

/* A scalar stays float32 when a half tensor is multiplied or divided by it. As in ATen, only mul and div do. */
#define KEEPS_SCALARS(op) ((op) == GPU_OP_mul || (op) == GPU_OP_div ? TN_ROW_WIDE_IMMEDIATE : 0)
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
        if (!rows[op].schema || (!float_groups[listed] && !integer_groups[listed])) continue;
        if (out) out[n] = rows[op];
        n++;
    }
    return n;
}
