/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs pointwise operators: finds the kernel for the dtype of a call, plans the loop nest, splits it over
 * threads. A dtype without a kernel is computed in a wider hub dtype: half types in float32, small integers
 * and bool in int32. Operators are known by their rows in kernels/pointwise_ops.h only.
 */
#include "kernel_lists.h"
#include "pointwise.h"
#include "support/kernel_table.h"
#include "walk/elementwise.h"

#include <string.h>

/* ---- The table --------------------------------------------------------------------------------------- */

#define DEFINE_OP(name, op_types, op_dtypes, thousand, op_schema) \
    {.number = CPU_OP_##name,                                     \
     .types = op_types,                                           \
     .dtypes = cpu_##op_dtypes##_dtypes,                          \
     .grain = thousand * 1024,                                    \
     .schema = op_schema},
static const cpu_pointwise_op ops[] = {POINTWISE_OPS(DEFINE_OP)};

/* By operator and slot. Filled once at load: base kernels first, then higher levels over them. */
static cpu_pointwise_fn kernels[CPU_OP_COUNT][CPU_SLOT_COUNT];
/* Operators that an argument or the dtype may turn into another one, or that refuse some elements. */
static const uint8_t looks_closer[CPU_OP_COUNT] = {
    [CPU_OP_div_mode] = 1,  [CPU_OP_gelu] = 1,      [CPU_OP_gelu_backward] = 1,
    [CPU_OP_remainder] = 1, [CPU_OP_fmod] = 1,      [CPU_OP_floor_divide] = 1,
    [CPU_OP_div_trunc] = 1, [CPU_OP_nextafter] = 1, [CPU_OP_bitwise_not] = 1,
};
/* 1 for the others if all their operands are of type T. Filled with the kernels. */
static uint8_t is_plain[CPU_OP_COUNT];

#define DECLARE(table, slot, level, type) extern const type table[];
CPU_POINTWISE_LISTS(DECLARE, cpu_pointwise_entry)

static void enter(const cpu_pointwise_entry *list, uint32_t level)
{
    for (; level <= cpu_level() && list->fn; list++) kernels[list->op][list->slot] = list->fn;
}

/* Runs after choose_level of level.c, whose priority is the first one free for programs. */
__attribute__((constructor(102))) static void fill_table(void)
{
    for (uint32_t i = 0; i < CPU_OP_COUNT; i++)
        is_plain[i] = !looks_closer[i] && !ops[i].types[strspn(ops[i].types, "T")];
#define ENTER(table, slot, level, type) enter(table, level);
    CPU_POINTWISE_LISTS(ENTER, cpu_pointwise_entry)
}

cpu_pointwise_fn cpu_pointwise_kernel(uint32_t op, int32_t hub)
{
    return kernels[op][hub];
}

/* Whether an input of type T is of another dtype in memory, so a half kernel would round it. */
static bool is_mixed(const tn_nest *nest, const char *types, int32_t slot)
{
    for (uint32_t i = 0; i < nest->n_operands && types[i]; i++)
        if (i >= nest->n_outputs && types[i] == 'T' && cpu_slot(cpu_operand(nest, i)->dtype) != slot)
            return true;
    return false;
}

/* The first hub dtype of a slot that has a kernel, the slot itself before all, or -1. */
static int32_t choose_hub(uint32_t op, const tn_nest *nest, const char *types, int32_t slot)
{
    static const int8_t wider[CPU_HUB_COUNT] = {
        [CPU_F32] = CPU_F64, [CPU_F64] = CPU_F64,  [CPU_I32] = CPU_I64,
        [CPU_I64] = CPU_I64, [CPU_C64] = CPU_C128, [CPU_C128] = CPU_C128};
    if (kernels[op][slot] && !(cpu_slot_is_half(slot) && is_mixed(nest, types, slot))) return slot;
    int32_t hub = cpu_slot_hubs[slot];
    if (!kernels[op][hub]) hub = wider[hub];
    return kernels[op][hub] ? hub : -1;
}

/* ---- A call ------------------------------------------------------------------------------------------ */

typedef struct pointwise_call {
    cpu_plan plan;
    cpu_pointwise_fn fn;
    cpu_scalars scalars;
} pointwise_call;

static inline void read_scalar(tn_value v, cpu_scalars *s, uint32_t n)
{
    s->imaginary[n] = 0;
    s->absent[n] = v.tag == TN_TAG_NONE;
    switch (v.tag) {
    case TN_TAG_INT:
    case TN_TAG_BOOL:
        s->f[n] = (double)v.as.i;
        s->i[n] = v.as.i;
        return;
    case TN_TAG_COMPLEX:
        s->imaginary[n] = v.as.floats[1];
        break;
    default:
        break;
    }
    s->f[n] = tn_value_as_float(v);
    s->i[n] = tn_value_as_int(v);
}

/* Scalars go to the kernel; strings choose a variant. */
static void read_scalars(const tn_call *call, cpu_scalars *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < call->n_args && n < CPU_MAX_SCALARS; i++) {
        if (call->args[i].tag != TN_TAG_TENSOR && call->args[i].tag != TN_TAG_STRING)
            read_scalar(call->args[i], s, n++);
    }
    s->count = n;
    s->absent_first = call->n_args > 1 && call->args[1].tag == TN_TAG_NONE;
}

/* ATen converts scalars to the dtype: negative ones wrap around in an unsigned dtype, but not in its hub. */
static void wrap_scalars(cpu_scalars *s, int32_t slot)
{
    int64_t bytes = cpu_slot_is(slot, CPU_KIND_UNSIGNED) ? cpu_slot_bytes[slot] : 8;
    int64_t mask = bytes < 8 ? (INT64_C(1) << 8 * bytes) - 1 : 0;
    for (uint32_t n = 0; mask && n < s->count; n++) {
        if (s->i[n] >= 0) continue;
        s->i[n] &= mask;
        s->f[n] = (double)s->i[n];
    }
}

static const char *string_argument(const tn_call *call)
{
    for (uint32_t i = 0; i < call->n_args; i++)
        if (call->args[i].tag == TN_TAG_STRING) return call->args[i].as.string;
    return "";
}

/* The operator that computes the call: the row's, or the variant that an argument or the dtype asks for. */
static int32_t choose_variant(const tn_call *call, uint32_t op, int32_t slot)
{
    const char *text;
    switch (op) {
    case CPU_OP_div_mode:
        text = string_argument(call);
        if (strcmp(text, "trunc") == 0) return CPU_OP_div_trunc;
        if (strcmp(text, "floor") == 0) return CPU_OP_floor_divide;
        return *text ? -1 : CPU_OP_div;
    case CPU_OP_gelu:
    case CPU_OP_gelu_backward:
        text = string_argument(call);
        if (strcmp(text, "tanh") == 0)
            return op == CPU_OP_gelu ? CPU_OP_gelu_tanh : CPU_OP_gelu_tanh_backward;
        return strcmp(text, "none") == 0 ? (int32_t)op : -1;
    case CPU_OP_bitwise_not:
        return slot == CPU_BOOL ? CPU_OP_logical_not : (int32_t)op;
    case CPU_OP_nextafter:
        return slot == CPU_F16    ? CPU_OP_nextafter_f16
               : slot == CPU_BF16 ? CPU_OP_nextafter_bf16
                                  : (int32_t)op;
    default:
        return (int32_t)op;
    }
}

/* The slot that a letter of `types` stands for in a hub. */
static int32_t wanted(char letter, int32_t hub)
{
    switch (letter) {
    case 'B':
        return CPU_BOOL;
    case 'I':
        return CPU_I32;
    case 'R':
        return hub == CPU_C64 ? CPU_F32 : hub == CPU_C128 ? CPU_F64 : hub;
    case 'C':
        return hub == CPU_F32 ? CPU_C64 : CPU_C128;
    default:
        return hub;
    }
}

static void run_block(void *user, void *const *pointers, int64_t n, int64_t position)
{
    const pointwise_call *c = user;
    c->fn(pointers, n, &c->scalars);
}

static void run_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const pointwise_call *c = user;
    cpu_elementwise_walk(&c->plan, begin, end, run_block, user);
}

/* 1 if one of n strided elements is zero. `bytes` is a constant after inlining. */
static inline __attribute__((always_inline)) int32_t row_holds_zero(const char *row, int64_t stride,
                                                                    int64_t n, size_t bytes)
{
    int32_t any = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t element = 0;
        memcpy(&element, row + i * stride, bytes);
        any |= element == 0;
    }
    return any;
}

/* Whether an integer operand holds a zero. Dimensions along which it is broadcast are visited once. */
static bool holds_zero(const tn_nest *nest, const tn_operand *o, int64_t bytes)
{
    int64_t index[TN_MAX_RANK] = {0}, stride = nest->rank ? o->strides[0] : 0;
    int64_t inner = stride ? nest->sizes[0] : 1;
    const char *row = o->host;
    for (;;) {
        int32_t any = bytes == 8   ? row_holds_zero(row, stride, inner, 8)
                      : bytes == 4 ? row_holds_zero(row, stride, inner, 4)
                      : bytes == 2 ? row_holds_zero(row, stride, inner, 2)
                                   : row_holds_zero(row, stride, inner, 1);
        if (any) return true;
        uint32_t d = 1;
        while (d < nest->rank && (o->strides[d] == 0 || ++index[d] == nest->sizes[d])) {
            if (o->strides[d]) row -= (nest->sizes[d] - 1) * o->strides[d];
            index[d++] = 0;
        }
        if (d >= nest->rank) return false;
        row += o->strides[d];
    }
}

/* Integer division by zero is refused before anything is written, with ATen's message. */
static bool divides_by_zero(const tn_nest *nest, int32_t number, int32_t slot)
{
    const tn_operand *divisor = cpu_operand(nest, nest->n_operands - 1);
    if (number != CPU_OP_remainder && number != CPU_OP_fmod && number != CPU_OP_floor_divide &&
        number != CPU_OP_div_trunc)
        return false;
    return cpu_slot_is(slot, CPU_KIND_UNSIGNED | CPU_KIND_SIGNED) &&
           holds_zero(nest, divisor, cpu_slot_bytes[slot]);
}

/* The slot of a call's dtype; most calls are float32. */
static inline int32_t slot_of(tn_dtype dtype)
{
    return dtype == TN_FLOAT32 ? CPU_F32 : cpu_slot(dtype);
}

/*
 * Runs the kernel without a plan if the call is one short run of contiguous operands of the dtypes that the
 * kernel computes in. Returns whether it did.
 */
static bool run_directly(const tn_call *call, const char *types, int32_t number, tn_dtype dtype, int32_t slot)
{
    const tn_nest *nest = call->nest;
    void *pointers[CPU_MAX_OPERANDS];
    cpu_scalars scalars;
    cpu_pointwise_fn fn = kernels[number][slot];
    if (!fn || nest->rank > 1 || nest->numel > CPU_CHUNK) return false;
    for (uint32_t i = 0; i < nest->n_operands; i++) {
        const tn_operand *o = cpu_operand(nest, i);
        char letter = types[i] ? types[i] : 'T';
        if (o->dtype != (letter == 'T' ? dtype : letter == 'B' ? TN_BOOL : 0)) return false;
        if (nest->numel != 1 && o->strides[0] != cpu_slot_bytes[letter == 'T' ? slot : CPU_BOOL])
            return false;
        pointers[i] = o->host;
    }
    read_scalars(call, &scalars);
    scalars.slot = (uint32_t)slot;
    fn(pointers, nest->numel, &scalars);
    return true;
}

/* The same for operators in is_plain, with fewer checks: most calls on small tensors. */
static inline bool run_plain(const tn_call *call, uint32_t number)
{
    const tn_nest *nest = call->nest;
    uint32_t n = nest->n_operands;
    void *pointers[CPU_MAX_OPERANDS];
    cpu_scalars scalars;
    if (nest->rank > 1 || nest->numel > CPU_CHUNK || n > CPU_MAX_OPERANDS) return false;
    const tn_operand *o = nest->operands;
    tn_dtype dtype = o->dtype;
    int32_t slot = slot_of(dtype);
    cpu_pointwise_fn fn = slot < 0 ? NULL : kernels[number][slot];
    if (!fn) return false;
    int64_t step = nest->rank ? cpu_slot_bytes[slot] : 0; /* scalars have no strides */
    for (uint32_t i = 0; i < n; i++, o = (const tn_operand *)((const char *)o + nest->operand_bytes)) {
        if (o->dtype != dtype || (step && o->strides[0] != step)) return false;
        pointers[i] = o->host;
    }
    scalars.count = scalars.absent_first = 0;
    if (call->n_args > n - nest->n_outputs) read_scalars(call, &scalars);
    scalars.slot = (uint32_t)slot;
    fn(pointers, nest->numel, &scalars);
    return true;
}

/*
 * The input of type T that determines the dtype: the first one that is not a scalar, else the first one. A
 * scalar may be wider.
 */
static uint32_t leading_operand(const tn_nest *nest, const char *types)
{
    uint32_t lead = nest->n_outputs, other;
    while (types[lead] != 'T') lead++;
    other = lead;
    while (types[other] && other < nest->n_operands &&
           (types[other] != 'T' || cpu_operand(nest, other)->flags & TN_OPERAND_IMMEDIATE))
        other++;
    return types[other] && other < nest->n_operands ? other : lead;
}

static __attribute__((noinline)) int32_t run_any(const tn_call *call)
{
    const cpu_pointwise_op *op = call->data;
    const tn_nest *nest = call->nest;
    const char *types = op->types;
    if (nest->n_operands > CPU_MAX_OPERANDS) return TN_E_UNSUPPORTED;
    uint32_t lead = leading_operand(nest, types);
    tn_dtype dtype = cpu_operand(nest, lead)->dtype;
    int32_t slot = slot_of(dtype);
    if (slot < 0) return cpu_error(call, TN_E_UNSUPPORTED, "cpu: the dtype is unknown");
    int32_t number = (int32_t)op->number;
    if (looks_closer[number]) {
        number = choose_variant(call, op->number, slot);
        if (number < 0)
            return cpu_error(call, TN_E_ARGUMENT,
                             op->number == CPU_OP_div_mode
                                 ? "rounding_mode must be one of None, 'trunc' or 'floor', got '%s'"
                                 : "approximate argument must be either none or tanh, got %s",
                             string_argument(call));
        if (divides_by_zero(nest, number, slot)) return cpu_error(call, TN_E_ARGUMENT, "ZeroDivisionError");
    }
    if (run_directly(call, types, number, dtype, slot)) return TN_OK;
    int32_t hub = choose_hub((uint32_t)number, nest, types, slot);
    if (hub < 0) return cpu_error(call, TN_E_UNSUPPORTED, "cpu: no kernel for this dtype of %s", op->schema);
    /* logical_not has a bool result, though it may be a variant of bitwise_not. */
    bool bool_result = number == CPU_OP_logical_not;
    pointwise_call c;
    int32_t want[CPU_MAX_OPERANDS];
    for (uint32_t i = 0; i < nest->n_operands; i++)
        want[i] = wanted(bool_result && i == 0 ? 'B' : types[i] ? types[i] : 'T', hub);
    read_scalars(call, &c.scalars);
    wrap_scalars(&c.scalars, slot);
    c.scalars.slot = (uint32_t)slot;
    c.fn = kernels[number][hub];
    int32_t status = cpu_plan_make(&c.plan, nest, nest->rank, want);
    if (status != TN_OK) return cpu_error(call, status, "cpu: the dtype is unknown");
    cpu_plan_elementwise(&c.plan);
    cpu_parallel_for(call, nest->numel, op->grain, run_range, &c);
    return TN_OK;
}

/*
 * The scalar by which a half tensor is multiplied or divided, or NULL if this is another call; see
 * KEEPS_SCALARS.
 */
static const float *scaling_scalar(const tn_nest *nest, uint32_t number)
{
    if ((number != CPU_OP_mul && number != CPU_OP_div) || nest->n_operands != 3) return NULL;
    const tn_operand *by = cpu_operand(nest, 2);
    if (!(by->flags & TN_OPERAND_IMMEDIATE) || by->dtype != TN_FLOAT32) return NULL;
    return cpu_slot_is_half(slot_of(cpu_operand(nest, 1)->dtype)) ? (const void *)by->host : NULL;
}

/* Runs it as an operator with one tensor, so the scalar is not expanded to a run. */
static __attribute__((noinline)) int32_t run_scaled(const tn_call *call, uint32_t number, const float *by)
{
    tn_nest nest = *call->nest;
    tn_value args[] = {call->args[0], tn_value_float(*by)};
    tn_call scaled = *call;
    nest.n_operands = 2;
    scaled.nest = &nest;
    scaled.args = args;
    scaled.n_args = 2;
    scaled.data = &ops[number == CPU_OP_mul ? CPU_OP_scale : CPU_OP_scale_down];
    return run_any(&scaled);
}

static int32_t run_pointwise(void *self, const tn_call *call)
{
    const cpu_pointwise_op *op = call->data;
    if (is_plain[op->number] && run_plain(call, op->number)) return TN_OK;
    const float *by = scaling_scalar(call->nest, op->number);
    return by ? run_scaled(call, op->number, by) : run_any(call);
}

/* ---- Rows -------------------------------------------------------------------------------------------- */

/*
 * A scalar stays float32 when a half tensor is multiplied or divided by it: 65536 is infinite in float16, but
 * x * 65536 need not be. As in ATen, only mul and the divisions do this.
 */
#define KEEPS_SCALARS(op)                                                                               \
    ((op) == CPU_OP_mul || (op) == CPU_OP_div || (op) == CPU_OP_div_mode || (op) == CPU_OP_floor_divide \
         ? TN_ROW_WIDE_IMMEDIATE                                                                        \
         : 0)
#define DEFINE_ROW(name, op_types, op_dtypes, thousand, op_schema) \
    {.size = sizeof(tn_kernel_row),                                \
     .flags = KEEPS_SCALARS(CPU_OP_##name),                        \
     .strides = TN_STRIDES_ANY,                                    \
     .schema = op_schema,                                          \
     .dtypes = cpu_##op_dtypes##_dtypes,                           \
     .run = run_pointwise,                                         \
     .data = &ops[CPU_OP_##name]},
const tn_kernel_row cpu_pointwise_rows[] = {POINTWISE_OPS(DEFINE_ROW)};
const uint32_t cpu_pointwise_row_count = CPU_ROW_COUNT(cpu_pointwise_rows);
