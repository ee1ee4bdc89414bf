/* SPDX-License-Identifier: Apache-2.0 */
/* Elements and the walk over them. The two switches over dtypes are all that has to change for a new one. */
#include <math.h>
#include "plugin.h"

number number_whole(int64_t i)
{
    return (number){0, 0, i, 0};
}

number number_real(double f)
{
    return (number){1, 0, 0, f};
}

double as_real(number n)
{
    return n.is_real ? n.f : (double)n.i;
}

/* What does not fit becomes the least integer: the cast would be undefined. */
int64_t as_whole(number n)
{
    return !n.is_real ? n.i : n.f >= -0x1p63 && n.f < 0x1p63 ? (int64_t)n.f : INT64_MIN;
}

int is_true(number n)
{
    return n.is_real ? n.f != 0 : n.i != 0;
}

int is_nan(number n)
{
    return n.is_real && isnan(n.f);
}

int is_real_dtype(tn_dtype dtype)
{
    return TN_DTYPE_CODE(dtype) == TN_CODE_FLOAT;
}

static number load(tn_dtype dtype, const void *at)
{
    switch (dtype) {
    case TN_BOOL:
    case TN_UINT8:
        return number_whole(*(const uint8_t *)at);
    case TN_INT32:
        return number_whole(*(const int32_t *)at);
    case TN_INT64:
        return number_whole(*(const int64_t *)at);
    case TN_FLOAT32:
        return number_real((double)*(const float *)at);
    default: /* TN_FLOAT64 */
        return number_real(*(const double *)at);
    }
}

static void store(tn_dtype dtype, void *at, number n)
{
    switch (dtype) {
    case TN_BOOL:
        *(uint8_t *)at = (uint8_t)is_true(n);
        break;
    case TN_UINT8:
        *(uint8_t *)at = (uint8_t)as_whole(n);
        break;
    case TN_INT32:
        *(int32_t *)at = (int32_t)as_whole(n);
        break;
    case TN_INT64:
        *(int64_t *)at = as_whole(n);
        break;
    case TN_FLOAT32:
        *(float *)at = n.is_real ? (float)n.f : (float)n.i;
        break;
    default: /* TN_FLOAT64 */
        *(double *)at = as_real(n);
        break;
    }
}

number number_rounded(tn_dtype dtype, number n)
{
    double element; /* of eight bytes, and aligned for all */
    store(dtype, &element, n);
    return load(dtype, &element);
}

number number_of_value(tn_value v)
{
    return v.tag == TN_TAG_FLOAT ? number_real(v.as.f) : number_whole(tn_value_as_int(v));
}

/* ---- Arrays ------------------------------------------------------------------------------------------- */

/* Operands are stepped over by the size that the host gives, which may be larger than ours. */
array array_of_operand(const tn_nest *nest, uint32_t i)
{
    const tn_operand *o =
        (const tn_operand *)(const void *)((const char *)nest->operands + (size_t)i * nest->operand_bytes);
    return (array){o->host, nest->sizes, o->strides, 1, o->dtype, nest->rank};
}

array array_of_tensor(tn_value v)
{
    const tn_tensor_desc *t = tn_desc(v.as.tensor);
    return (array){t->host, t->sizes, t->strides, (int64_t)TN_DTYPE_BITS(t->dtype) / 8, t->dtype, t->rank};
}

static char *element(const array *a, const int64_t *index)
{
    int64_t distance = 0;
    for (uint32_t d = 0; d < a->rank; d++) distance += index[d] * a->strides[d];
    return a->data + distance * a->unit;
}

number array_get(const array *a, const int64_t *index)
{
    return load(a->dtype, element(a, index));
}

void array_put(const array *a, const int64_t *index, number n)
{
    store(a->dtype, element(a, index), n);
}

int has_elements(const array *a)
{
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->sizes[d] == 0) return 0;
    return 1;
}

int next_in_nest(uint32_t rank, const int64_t *sizes, int64_t *index)
{
    for (uint32_t d = 0; d < rank; d++) {
        if (++index[d] < sizes[d]) return 1;
        index[d] = 0;
    }
    return 0;
}

int next_in_tensor(uint32_t rank, const int64_t *sizes, int64_t *index)
{
    for (uint32_t d = rank; d-- > 0;) {
        if (++index[d] < sizes[d]) return 1;
        index[d] = 0;
    }
    return 0;
}
