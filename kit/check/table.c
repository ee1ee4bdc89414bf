/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 1 from the operator table: every pointwise operator, reduction and scan, in each dtype that the
 * device lists and the CPU plugin has a kernel for, in each class of strides. Operators that are not
 * primitives are checked, too, but their kernels are not required.
 *
 * Sums are of multiples of 1/4, so they do not round in any order: results agree exactly or are wrong.
 */
#include "table.h"
#include "words.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const class_names[TABLE_CLASSES] = {
    "contiguous", "transposed",  "sliced",     "broadcast",  "channels-last", "0-dim",  "empty",
    "large",      "host-number", "conjugated", "dimensions", "in-place",      "offset", "wide",
    "special",    "denormal",    NULL};

/* The primitives of these three kernels, which a device must have. */
static const char primitives[] =
    " aten::abs aten::neg aten::sgn aten::ceil aten::floor aten::trunc aten::round aten::sqrt "
    "aten::rsqrt aten::reciprocal aten::exp aten::exp2 aten::expm1 aten::log aten::log1p aten::log2 "
    "aten::log10 aten::sin aten::cos aten::tan aten::asin aten::acos aten::atan aten::sinh aten::cosh "
    "aten::tanh aten::asinh aten::acosh aten::atanh aten::sigmoid aten::erf aten::erfc aten::erfinv "
    "aten::lgamma aten::digamma aten::polygamma aten::i0 aten::bitwise_not aten::signbit aten::frexp.Tensor "
    "aten::conj_physical aten::add.Tensor aten::sub.Tensor aten::mul.Tensor aten::div.Tensor "
    "aten::div.Tensor_mode aten::remainder.Tensor aten::fmod.Tensor aten::pow.Tensor_Tensor "
    "aten::pow.Tensor_Scalar aten::atan2 aten::maximum aten::minimum aten::eq.Tensor aten::ne.Tensor "
    "aten::lt.Tensor aten::le.Tensor aten::gt.Tensor aten::ge.Tensor aten::bitwise_and.Tensor "
    "aten::bitwise_or.Tensor aten::bitwise_xor.Tensor aten::bitwise_left_shift.Tensor "
    "aten::bitwise_right_shift.Tensor aten::nextafter aten::gcd aten::igamma aten::igammac aten::complex "
    "aten::where.self aten::sum aten::sum.dim_IntList aten::prod aten::prod.dim_int aten::amax aten::amin "
    "aten::argmax aten::argmin aten::any aten::any.dim aten::cumsum aten::cumprod aten::cummax aten::cummin ";

/* Where a function is defined and far enough from its poles that rounding the input has little effect. The
 * second range is for the tensors after the first. */
typedef struct domain {
    const char *names;
    double low, high, low2, high2;
} domain;
static const domain domains[] = {
    {"log log2 log10 rsqrt", 0.05, 4, 0, 0},
    {"log1p", -0.9, 4, 0, 0},
    {"sqrt", 0, 4, 0, 0},
    {"reciprocal", 0.25, 3, 0, 0},
    {"lgamma", 0.1, 4, 0, 0},
    {"digamma", 0.1, 1.2, 0, 0},
    {"polygamma", 0.3, 4, 0, 0},
    {"asin acos atanh erfinv", -0.95, 0.95, 0, 0},
    {"special_ndtri logit", 0.05, 0.95, 0, 0},
    {"acosh", 1.05, 4, 0, 0},
    {"tan", -1.2, 1.2, 0, 0},
    {"logit_backward", 0.05, 0.95, 0.05, 0.95},
    {"div floor_divide remainder fmod addcdiv", -3, 3, 0.5, 3},
    {"pow", 0.1, 3, -2, 2},
    {"igamma igammac", 0.1, 4, 0.1, 4},
    {"_standard_gamma_grad", 0.2, 4, 0.2, 4},
    {"_dirichlet_grad", 0.2, 0.8, 1, 4},
    {"polar", 0, 2, -3, 3},
    {"xlogy", -3, 3, 0.1, 3},
    {"special_xlog1py", -3, 3, -0.8, 3},
    {"special_entr", 0.01, 3, 0, 0},
    {"special_zeta", 1.2, 4, 0.3, 4},
    {"special_bessel_y0 special_bessel_y1 special_modified_bessel_k0 special_modified_bessel_k1 "
     "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1",
     0.2, 6, 0, 0},
    {"special_log_ndtr", -3, 3, 0, 0},
};

/* ---- Contents ------------------------------------------------------------------------------------------ */

/* Whether "div" of "aten::div.Tensor_mode" is in a list of names with blanks between them. */
static int base_is(const char *name, const char *bases)
{
    const char *start = strstr(name, "::");
    start = start ? start + 2 : name;
    size_t length = strcspn(start, ".");
    for (; *bases; bases += strcspn(bases, " "), bases += *bases == ' ')
        if (strcspn(bases, " ") == length && strncmp(bases, start, length) == 0) return 1;
    return 0;
}

static void whole_contents(const table_case *c, call_tensor *x, uint32_t position)
{
    int is_signed = TN_DTYPE_CODE(x->dtype) == TN_CODE_INT;
    static const char *const divisions[] = {"div", "floor_divide", "remainder", "fmod"};
    x->low = is_signed ? -9 : 0;
    x->high = x->dtype == TN_BOOL ? 2 : is_signed ? 10 : 20;
    for (uint32_t i = 0; i < 4; i++) {
        if (position > 0 && base_is(c->name, divisions[i])) x->low = 1;
    }
    if (base_is(c->name, "pow")) {
        x->low = 0;
        x->high = 4;
    }
    if (position > 0 && strstr(c->name, "_shift")) {
        x->low = 0;
        x->high = 6;
    }
}

static int is_product(const char *name)
{
    return base_is(name, "prod") || base_is(name, "cumprod");
}

#define FACTORS 20480 /* no fewer than any class has elements */

/*
 * Factors whose product is exact and in range in any order and grouping. Floats: signs and a few powers of
 * two; two of one direction among those that a broadcast repeats five times, so that float16 holds all of
 * them together. Integers wrap around: odd numbers, so that no product becomes 0. Complex: quarter turns and
 * the same powers.
 */
static const double *factors_of(tn_dtype dtype)
{
    static double floats[FACTORS], whole[FACTORS], pairs[FACTORS];
    static const struct {
        int at;
        double factor;
    } powers[] = {{2, 2}, {5, 0.5}, {9, 2}, {14, 0.5}, {977, 2}, {8191, 0.5}, {17003, 2}};
    for (int i = 0; i < FACTORS; i++) {
        floats[i] = (i * 7 + i / 3) % 5 ? 1 : -1;
        whole[i] = 1 + 2 * (i % 7 == 3) + 4 * (i % 11 == 5);
        pairs[i] = i / 2 % 3 ? i % 2 == 0 : i % 2; /* i, 1, 1 and again */
    }
    for (size_t k = 0; k < sizeof powers / sizeof *powers; k++) {
        int even = powers[k].at & ~1;
        floats[powers[k].at] = pairs[even] = powers[k].factor;
        pairs[even + 1] = 0;
    }
    return tn_dtype_is_complex(dtype) ? pairs : tn_dtype_is_floating(dtype) ? floats : whole;
}

static void set_contents(const table_case *c, call_tensor *x, uint32_t position)
{
    int inexact = tn_dtype_is_floating(x->dtype) || tn_dtype_is_complex(x->dtype);
    x->low = -3;
    x->high = 3;
    if (strcmp(c->kind, "pointwise") != 0) x->step = 0.25;
    for (size_t i = 0; i < sizeof domains / sizeof *domains; i++) {
        const domain *d = &domains[i];
        if (!base_is(c->name, d->names)) continue;
        x->low = position && d->high2 > d->low2 ? d->low2 : d->low;
        x->high = position && d->high2 > d->low2 ? d->high2 : d->high;
    }
    if (!inexact) whole_contents(c, x, position);
    if (!is_product(c->name) || x->dtype == TN_BOOL) return;
    x->values = factors_of(x->dtype);
    x->count = FACTORS;
}

/* ---- Shapes and strides -------------------------------------------------------------------------------- */

static void set_view(call_tensor *x, const int64_t *strides, int64_t offset)
{
    memcpy(x->strides, strides, x->rank * sizeof *strides);
    x->offset = offset;
}

/* A power of two near the end of a dtype's range (times alpha it is finite, in whatever order a kernel
 * multiplies), the smallest normal number and the smallest one. */
static void range_of(tn_dtype dtype, double *large, double *normal, double *smallest)
{
    *large = dtype == TN_FLOAT64 ? 0x1p1021 : dtype == TN_FLOAT16 ? 0x1p13 : 0x1p125;
    *normal = dtype == TN_FLOAT64 ? DBL_MIN : dtype == TN_FLOAT16 ? 0x1p-14 : (double)FLT_MIN;
    *smallest = dtype == TN_FLOAT64    ? 0x1p-1074
                : dtype == TN_FLOAT32  ? 0x1p-149
                : dtype == TN_BFLOAT16 ? 0x1p-133
                                       : 0x1p-24;
}

#define SPECIAL_VALUES 18

/* The values of a class for a dtype; lives as long as the process. */
static const double *special_values(tn_dtype dtype, int64_t class)
{
    static double tables[4][3][SPECIAL_VALUES];
    static const tn_dtype dtypes[] = {TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64};
    double large, normal, smallest;
    int row = 0;
    while (row < 3 && dtypes[row] != dtype) row++;
    range_of(dtype, &large, &normal, &smallest);
    double zero = class == TABLE_DENORMAL ? 1 : 0, below = normal - smallest;
    const double special[SPECIAL_VALUES] = {0.0, -0.0,     1.0, -1.0, 0.5,       -2.0,
                                            3.0, INFINITY, 2.5, -0.5, -INFINITY, (double)NAN,
                                            100, -100.0,   20,  -20,  large,     -large};
    const double tiny[SPECIAL_VALUES] = {0.0,
                                         -0.0,
                                         1.0,
                                         -2.0,
                                         smallest * zero,
                                         -smallest * zero,
                                         2 * smallest * zero,
                                         -3 * smallest * zero,
                                         below * zero,
                                         -below * zero,
                                         normal,
                                         -normal,
                                         normal + smallest,
                                         4 * normal,
                                         -4 * normal,
                                         normal / 2 * zero,
                                         -normal / 2 * zero,
                                         0.5};
    double *values = tables[row][class - TABLE_SPECIAL];
    memcpy(values, class == TABLE_SPECIAL ? special : tiny, sizeof special);
    return values;
}

/* ATen's results at infinity, or near 0, follow from its formulas by accident. */
static int is_accidental(const char *name, int64_t class)
{
    static const char *const at_infinity[] = {"i0", "lerp", "gelu_backward", "mish_backward"};
    if (base_is(name, "igamma") || base_is(name, "igammac")) return 1;
    for (size_t i = 0; i < sizeof at_infinity / sizeof *at_infinity && class == TABLE_SPECIAL; i++)
        if (base_is(name, at_infinity[i])) return 1;
    return 0;
}

/* Whether the sign of a zero is a part of the result: ISO C or IEEE 754 says what it is. */
static int has_signed_zeros(const char *name)
{
    static const char *const names[] = {
        "abs",  "neg",   "add",   "sub",   "rsub",  "mul",      "div", "sqrt",  "rsqrt", "reciprocal",
        "ceil", "floor", "trunc", "round", "fmod",  "copysign", "sin", "tan",   "asin",  "atan",
        "sinh", "tanh",  "asinh", "atanh", "expm1", "log1p",    "erf", "atan2", "where", "square"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (base_is(name, names[i])) return 1;
    return 0;
}

/* Integers of all sizes. */
static void set_wide(const table_case *c, call_tensor *x, uint32_t position)
{
    int is_power = base_is(c->name, "pow") && (position > 0 || strstr(c->name, ".Scalar"));
    int is_count = position > 0 && strstr(c->name, "_shift");
    if (x->dtype != c->dtype || is_power || is_count) return; /* small exponents and counts of bits */
    x->integers = x->dtype == TN_INT64 ? words_wide : words_narrow;
    x->count = WORDS_WIDE;
    if (x->low == 1) x->integers++; /* a divisor is not 0: see whole_contents */
    if (x->low == 1) x->count--;
}

/* Each value, or with several tensors each combination of values. */
static void set_special(const table_case *c, call_tensor *x, int64_t class, uint32_t position,
                        uint32_t n_tensors)
{
    int64_t sizes[CALL_MAX_RANK] = {1, 1, 1, 1, 1, 1};
    uint32_t rank = n_tensors < CALL_MAX_RANK ? n_tensors : CALL_MAX_RANK;
    int pointwise = !strcmp(c->kind, "pointwise");
    if (pointwise || n_tensors > 1) {
        sizes[position % rank] = SPECIAL_VALUES;
        call_shape(x, rank, sizes);
    } else if (class != TABLE_WIDE) {
        call_shape(x, 2, (const int64_t[]){6, 4});
    }
    if (class == TABLE_WIDE) set_wide(c, x, position);
    if (!tn_dtype_is_floating(x->dtype)) return;
    x->values = special_values(x->dtype, class);
    x->count = pointwise ? SPECIAL_VALUES : 12;
}

/* A view of five dimensions in another order than its strides, and tensors that broadcast to it. */
static void set_dimensions(call_tensor *x, uint32_t position)
{
    static const int64_t whole[] = {2, 3, 2, 4, 5}, inner[] = {2, 1, 5}, outer[] = {2, 3, 1, 4, 1},
                         last[] = {5};
    if (position == 0) {
        call_shape(x, 5, whole);
        set_view(x, (const int64_t[]){1000, 300, 7, 60, 10}, 1);
    } else if (position == 1) {
        call_shape(x, 3, inner);
    } else if (position == 2) {
        call_shape(x, 5, outer);
    } else {
        call_shape(x, 1, last);
    }
}

static void set_shape(const table_case *c, call_tensor *x, int64_t class, uint32_t position,
                      uint32_t n_tensors)
{
    static const int64_t plain[] = {5, 33}, sliced[] = {5, 17}, pictures[] = {2, 3, 4, 5}, none[] = {0, 5},
                         large[] = {19, 1061}, column[] = {5, 1}, row[] = {33}, whole[] = {8, 32};
    call_shape(x, 2, plain);
    if (class == TABLE_TRANSPOSED && position == 0) set_view(x, (const int64_t[]){1, 5}, 0);
    if (class == TABLE_SLICED) {
        call_shape(x, 2, sliced);
        set_view(x, (const int64_t[]){71, 2}, 3 + (int64_t)position);
    }
    if (class == TABLE_DIMENSIONS) set_dimensions(x, position);
    if (class == TABLE_IN_PLACE) {
        call_shape(x, 2, sliced);
        if (position == 0) set_view(x, (const int64_t[]){71, 2}, 3);
    }
    if (class == TABLE_OFFSET) {
        call_shape(x, 2, whole);
        x->offset = 1 + (int64_t)position;
    }
    if (class == TABLE_BROADCAST && n_tensors == 1) set_view(x, (const int64_t[]){0, 1}, 0);
    if (class == TABLE_BROADCAST && n_tensors > 1) call_shape(x, position ? 1 : 2, position ? row : column);
    if (class == TABLE_CHANNELS_LAST) {
        call_shape(x, 4, pictures);
        set_view(x, (const int64_t[]){60, 1, 15, 3}, 0);
    }
    if (class == TABLE_NO_DIMENSIONS) call_shape(x, 0, NULL);
    if (class == TABLE_EMPTY) call_shape(x, 2, none);
    if (class == TABLE_LARGE) call_shape(x, 2, large);
    if (class == TABLE_HOST_NUMBER && position > 0) {
        call_shape(x, 0, NULL);
        x->on_host = 1;
    }
    x->conjugated = class == TABLE_CONJUGATED && tn_dtype_is_complex(x->dtype);
    if (class >= TABLE_WIDE) set_special(c, x, class, position, n_tensors);
}

/* ---- Arguments other than tensors ----------------------------------------------------------------------- */

/* Of clamp. */
static tn_value limit_argument(const table_case *c, int is_lower, int64_t class)
{
    int64_t limit = c->dtype == TN_INT64 ? INT64_C(9007199254740993) : c->dtype == TN_INT32 ? 16777217 : 100;
    if (class != TABLE_WIDE) return tn_value_int(is_lower ? 1 : 2);
    if (is_lower) limit = TN_DTYPE_CODE(c->dtype) == TN_CODE_INT ? -limit : 3;
    return tn_value_int(limit);
}

static tn_value number_argument(const table_case *c, const tn_argument_info *a, int64_t class)
{
    int inexact = tn_dtype_is_floating(c->dtype) || tn_dtype_is_complex(c->dtype);
    if (!strcmp(a->name, "alpha") && base_is(c->name, "elu_backward")) return tn_value_float(1.0);
    if (!strcmp(a->name, "alpha")) return c->dtype == TN_BOOL ? tn_value_none() : tn_value_int(2);
    if (!strcmp(a->name, "exponent")) return inexact ? tn_value_float(2.5) : tn_value_int(3);
    if (!strcmp(a->name, "min") || !strcmp(a->name, "max"))
        return limit_argument(c, !strcmp(a->name, "min"), class);
    if (!strcmp(a->name, "ord")) return tn_value_int(2);
    if (a->default_text) return tn_value_none();
    return inexact ? tn_value_float(0.5) : tn_value_int(2);
}

static tn_value dims_argument(const tn_argument_info *a, int64_t class)
{
    static const int64_t last[] = {-1}, first[] = {0}, both[] = {0, 1}, inner[] = {2, 3};
    const int64_t *dims = class == TABLE_TRANSPOSED      ? first
                          : class == TABLE_BROADCAST     ? both
                          : class == TABLE_CHANNELS_LAST ? inner
                                                         : last;
    if (!(a->flags & TN_ARG_LIST)) return tn_value_int(class == TABLE_TRANSPOSED ? 0 : -1);
    return tn_value_ints(dims, class == TABLE_BROADCAST || class == TABLE_CHANNELS_LAST ? 2 : 1);
}

static tn_value other_argument(const table_case *c, const tn_argument_info *a, int64_t class)
{
    int is_number = strncmp(a->type, "Scalar", 6) == 0 && strncmp(a->type, "ScalarType", 10) != 0;
    if (!strcmp(a->name, "dim")) return dims_argument(a, class);
    if (!strcmp(a->name, "keepdim")) return tn_value_bool(class == TABLE_SLICED);
    if (!strcmp(a->name, "rounding_mode"))
        return tn_value_string(class == TABLE_TRANSPOSED || class == TABLE_SPECIAL ? "trunc" : "floor");
    if (is_number) return number_argument(c, a, class);
    if (a->default_text || a->flags & TN_ARG_OPTIONAL) return tn_value_none();
    if (!strncmp(a->type, "int", 3)) return tn_value_int(strcmp(a->name, "decimals") ? 2 : 1);
    if (!strncmp(a->type, "float", 5)) return tn_value_float(0.5);
    if (!strncmp(a->type, "bool", 4)) return tn_value_bool(0);
    return tn_value_none();
}

/* ---- The case ------------------------------------------------------------------------------------------ */

static uint32_t count_tensors(check_target *t, uint32_t op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < tn_inspect_argument_count(t->ctx, op, 0); i++) {
        tn_argument_info a = {.size = sizeof a};
        tn_inspect_argument(t->ctx, op, 0, i, &a);
        n += strncmp(a.type, "Tensor", 6) == 0;
    }
    return n;
}

/* "aten::add_.Tensor" of "aten::add.Tensor", or 0; polygamma_ has its arguments in another order. */
static uint32_t in_place_form(check_target *t, const char *name)
{
    char text[160];
    if (base_is(name, "polygamma")) return 0;
    const char *overload = strchr(name, '.');
    int length = (int)(overload ? (size_t)(overload - name) : strlen(name));
    snprintf(text, sizeof text, "%.*s_%s", length, name, overload ? overload : "");
    return tn_operator_find(t->ctx, text);
}

uint32_t table_plan(check_target *t, const table_case *c, int64_t class, call_plan *p, call_tensor *tensors)
{
    uint32_t n_tensors = count_tensors(t, c->op), position = 0;
    if ((class == TABLE_IN_PLACE || class == TABLE_OFFSET) && !strcmp(c->kind, "pointwise"))
        p->op = in_place_form(t, c->name);
    if (!p->op) p->op = c->op;
    p->name = c->name;
    p->tolerance = (check_tolerance){
        -1, 0, class == TABLE_SPECIAL && !strcmp(c->kind, "pointwise") && has_signed_zeros(c->name)};
    p->n_args = tn_inspect_argument_count(t->ctx, c->op, 0);
    if (p->n_args > CALL_MAX_ARGS) p->n_args = CALL_MAX_ARGS;
    for (uint32_t i = 0; i < p->n_args; i++) {
        tn_argument_info a = {.size = sizeof a};
        tn_inspect_argument(t->ctx, c->op, 0, i, &a);
        if (strncmp(a.type, "Tensor", 6) != 0) {
            p->args[i] = other_argument(c, &a, class);
            continue;
        }
        call_tensor *x = &tensors[i];
        x->dtype = !strcmp(a.name, "condition") || !strcmp(a.name, "mask") ? TN_BOOL : c->dtype;
        set_contents(c, x, position);
        if (class == TABLE_LARGE && x->dtype == TN_FLOAT64 && x->step > 0)
            x->step = 0x1p-28; /* exact sums, but not in float32 */
        /* No result depends on the buffer, nor does the shape. */
        set_shape(c, x, class, strcmp(a.name, "buffer") ? position++ : 1, n_tensors);
        p->args[i] = call_argument(x);
    }
    return n_tensors;
}

static void run_table_case(check_target *t, const check_case *c, check_result *out)
{
    call_tensor tensors[CALL_MAX_ARGS] = {{0}};
    call_plan p = {.seed = check_seed(t, c)};
    table_plan(t, c->data, c->number, &p, tensors);
    call_compare(t, &p, out);
}

/* A device may keep denormal numbers or take them as zeros: then its results are those of zeros. */
static void run_denormals(check_target *t, const check_case *c, check_result *out)
{
    call_tensor tensors[CALL_MAX_ARGS] = {{0}}, zeros[CALL_MAX_ARGS] = {{0}};
    call_plan p = {.seed = check_seed(t, c)}, flushed = {.seed = p.seed};
    check_result kept = *out, taken_as_zeros = *out;
    table_plan(t, c->data, TABLE_DENORMAL, &p, tensors);
    call_compare(t, &p, &kept);
    *out = kept;
    if (kept.outcome != CHECK_FAILED) return;
    table_plan(t, c->data, TABLE_FLUSHED, &flushed, zeros);
    call_compare_plans(t, &p, &flushed, &taken_as_zeros);
    if (taken_as_zeros.outcome != CHECK_FAILED) *out = taken_as_zeros;
}

/* ---- The list ------------------------------------------------------------------------------------------ */

static int is_primitive(const char *name)
{
    char padded[160];
    snprintf(padded, sizeof padded, " %s ", name);
    return strstr(primitives, padded) != NULL;
}

/* Whether a class makes sense for this operator and dtype. */
static int class_fits(int in_place, const char *name, int64_t class, int pointwise, int primitive,
                      uint32_t n_tensors, tn_dtype dtype)
{
    int floating = tn_dtype_is_floating(dtype);
    if (class == TABLE_DIMENSIONS || class == TABLE_IN_PLACE || class == TABLE_OFFSET) {
        /* What they show has little to do with dtypes. */
        if (dtype != TN_BOOL && dtype != TN_INT64 && dtype != TN_BFLOAT16 && dtype != TN_FLOAT32) return 0;
        return class == TABLE_OFFSET ? pointwise || primitive
                                     : pointwise && (in_place || class == TABLE_DIMENSIONS);
    }
    if (class == TABLE_WIDE)
        return dtype != TN_BOOL && !floating && !tn_dtype_is_complex(dtype) && !is_product(name);
    if (class == TABLE_CONJUGATED) return tn_dtype_is_complex(dtype) && primitive;
    if (class == TABLE_HOST_NUMBER) return pointwise && n_tensors >= 2 && primitive;
    if (class >= TABLE_SPECIAL && is_accidental(name, class)) return 0;
    if (class == TABLE_SPECIAL && pointwise) return floating;
    if (class == TABLE_SPECIAL) return floating && primitive && n_tensors <= 2;
    if (class == TABLE_DENORMAL) return floating && pointwise;
    if (class == TABLE_FLUSHED) return 0;
    if (primitive) return 1;
    return class == TABLE_CONTIGUOUS || class == TABLE_SLICED || class == TABLE_BROADCAST ||
           class == TABLE_EMPTY;
}

static void add_operator(check_target *t, check_list *list, const tn_operator_info *op)
{
    static const tn_dtype dtypes[] = {TN_BOOL,    TN_UINT8,   TN_INT8,      TN_INT16,
                                      TN_INT32,   TN_INT64,   TN_FLOAT16,   TN_BFLOAT16,
                                      TN_FLOAT32, TN_FLOAT64, TN_COMPLEX64, TN_COMPLEX128};
    static const tn_dtype few[] = {TN_BOOL, TN_INT64, TN_FLOAT32};
    int unknown = !t->facts.dtypes || !*t->facts.dtypes, pointwise = strcmp(op->kind, "pointwise") == 0;
    int primitive = is_primitive(op->name), in_place = pointwise && in_place_form(t, op->name);
    uint32_t n = unknown ? 3 : 12, n_tensors = count_tensors(t, op->number);
    for (uint32_t i = 0; i < n; i++) {
        tn_dtype dtype = unknown ? few[i] : dtypes[i];
        if ((!unknown && !check_has_dtype(t, dtype)) || !check_has_kernel(t, op->number, "cpu", dtype))
            continue;
        table_case *data = check_memory(list, sizeof *data);
        *data = (table_case){op->number, op->name, op->kind, dtype};
        for (int64_t class = 0; class < TABLE_CLASSES; class ++) {
            if (!class_fits(in_place, op->name, class, pointwise, primitive, n_tensors, dtype)) continue;
            check_add(list,
                      &(check_case){.tier = 1,
                                    /* No kernel is called for empty tensors. */
                                    .tags = primitive && class != TABLE_EMPTY ? 0 : CHECK_TAG_OPTIONAL,
                                    .run = class == TABLE_DENORMAL ? run_denormals : run_table_case,
                                    .data = data,
                                    .number = class},
                      "1/%s/%s/%s/%s",
                      pointwise            ? "pointwise"
                      : op->kind[0] == 'r' ? "reduce"
                                           : "scan",
                      op->name, tn_dtype_name(dtype), class_names[class]);
        }
    }
}

void check_table_cases(check_target *t, check_list *list)
{
    uint32_t count = tn_inspect_operator_count(t->ctx);
    for (uint32_t i = 0; i < count; i++) {
        tn_operator_info op = {.size = sizeof op};
        if (tn_inspect_operator(t->ctx, i, &op) || op.base != op.number) continue;
        if (!strcmp(op.kind, "pointwise") || !strcmp(op.kind, "reduction") || !strcmp(op.kind, "scan"))
            add_operator(t, list, &op);
    }
}
