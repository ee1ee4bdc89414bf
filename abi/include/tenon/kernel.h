/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Help for kernels, and for what surrounds them on the host. The operands of a nest and the tensors among the
 * arguments of a call are seen alike, their elements are counted, a number becomes the bytes of any dtype and
 * back, and the words of random numbers are made. All of it is compiled into the plugin and nothing crosses
 * the contract. There is no libc in it and no state, so it serves device code, too: CUDA and HIP compile it
 * for both sides.
 *
 * An array has its innermost dimension first, as nests have, so that counting goes in row-major order of a
 * tensor. Of a nest whose first `kept` dimensions have n elements together, element i + k * n is the k-th one
 * of the i-th line that is reduced or scanned; tn_strided_swap brings a dimension of a tensor last, so that
 * lines along it are counted in the same way.
 *
 * Finding an element by its number costs a division for each dimension. That is what a thread of a device
 * does once, and what a plain loop on the host pays for each element: kernels that care walk the strides.
 */
#ifndef TENON_KERNEL_H
#define TENON_KERNEL_H

#include <tenon/op.h>

TN_BEGIN_DECLS

#if defined(__CUDACC__) || defined(__HIPCC__)
#define TN_BOTH_SIDES __host__ __device__
#else
#define TN_BOTH_SIDES
#endif

/* ---- Numbers: elements of whatever dtype -------------------------------------------------------------- */

/*
 * A number twice: as a real one, and as a whole one, which a double cannot hold from 2^53 on. Both are always
 * set. What computes both needs to know no dtype; storing takes the one that the dtype wants. The dtypes are
 * bool, the integers but uint64, float16, bfloat16, float32 and float64.
 */
typedef struct tn_number {
    double f;
    int64_t i; /* cut off towards zero; of a real that is beyond int64, or no number, INT64_MIN */
} tn_number;

TN_BOTH_SIDES static inline tn_number tn_number_whole(int64_t i)
{
    tn_number n;
    n.f = (double)i;
    n.i = i;
    return n;
}

TN_BOTH_SIDES static inline tn_number tn_number_real(double f)
{
    tn_number n;
    n.f = f;
    n.i = f >= -9223372036854775808.0 && f < 9223372036854775808.0 ? (int64_t)f : INT64_MIN;
    return n;
}

/* Of an argument that is a Scalar, an int, a float or a bool. */
TN_BOTH_SIDES static inline tn_number tn_number_of(tn_value v)
{
    return v.tag == TN_TAG_FLOAT ? tn_number_real(v.as.f)
                                 : tn_number_whole(v.tag == TN_TAG_NONE ? 0 : v.as.i);
}

/* The value of a float16 (10 bits of fraction, bias 15) or bfloat16 (7, 127). */
TN_BOTH_SIDES static inline double tn_half_load(uint32_t bits, int32_t fraction_bits, int32_t bias)
{
    uint32_t exponent = (bits & 0x7fffu) >> fraction_bits, fraction = bits & ((1u << fraction_bits) - 1u);
    union {
        uint64_t bits;
        double f;
    } power, special;
    double value;
    special.bits = (uint64_t)0x7ff << 52 | (uint64_t)fraction << (52 - fraction_bits);
    power.bits = (uint64_t)(int64_t)(1023 + (exponent ? (int32_t)exponent : 1) - bias - fraction_bits) << 52;
    value = (double)(fraction + (exponent ? 1u << fraction_bits : 0u)) * power.f;
    if (exponent == 0x7fffu >> fraction_bits) value = special.f;
    return bits & 0x8000u ? -value : value;
}

/* Rounds once, to the nearest and there to the even one. */
TN_BOTH_SIDES static inline uint16_t tn_half_store(double f, int32_t fraction_bits, int32_t bias)
{
    union {
        double f;
        uint64_t bits;
    } u;
    u.f = f;
    uint64_t sign = u.bits >> 48 & 0x8000u, fraction = u.bits & 0xfffffffffffffu, rest, half, bits;
    int32_t exponent = (int32_t)(u.bits >> 52 & 0x7ffu) - 1023 + bias, cut = 52 - fraction_bits;
    uint64_t infinity = (0x7fffu >> fraction_bits) << fraction_bits;
    if (f != f) return (uint16_t)(sign | infinity | 1u << (fraction_bits - 1));
    if (exponent >= 0x7fff >> fraction_bits) return (uint16_t)(sign | infinity);
    if (exponent <= 0) { /* denormal */
        fraction |= (uint64_t)1 << 52;
        cut += 1 - exponent;
        exponent = 0;
        if (cut > 54) return (uint16_t)sign;
    }
    rest = fraction & (((uint64_t)1 << cut) - 1u);
    half = (uint64_t)1 << (cut - 1);
    bits = ((uint64_t)exponent << fraction_bits) + (fraction >> cut);
    if (rest > half || (rest == half && (bits & 1u))) bits++; /* a carry raises the exponent, as it should */
    return (uint16_t)(sign | bits);
}

TN_BOTH_SIDES static inline tn_number tn_number_load(tn_dtype dtype, const void *at)
{
    switch (dtype) {
    case TN_INT8:
        return tn_number_whole(*(const int8_t *)at);
    case TN_INT16:
        return tn_number_whole(*(const int16_t *)at);
    case TN_INT32:
        return tn_number_whole(*(const int32_t *)at);
    case TN_INT64:
        return tn_number_whole(*(const int64_t *)at);
    case TN_UINT16:
        return tn_number_whole(*(const uint16_t *)at);
    case TN_UINT32:
        return tn_number_whole(*(const uint32_t *)at);
    case TN_FLOAT16:
        return tn_number_real(tn_half_load(*(const uint16_t *)at, 10, 15));
    case TN_BFLOAT16:
        return tn_number_real(tn_half_load(*(const uint16_t *)at, 7, 127));
    case TN_FLOAT32:
        return tn_number_real((double)*(const float *)at);
    case TN_FLOAT64:
        return tn_number_real(*(const double *)at);
    default: /* TN_BOOL, TN_UINT8 */
        return tn_number_whole(*(const uint8_t *)at);
    }
}

/* Reals round to the nearest, whole numbers wrap, for bool all but 0 is 1. Other dtypes leave it as it is. */
TN_BOTH_SIDES static inline void tn_number_store(tn_dtype dtype, void *at, tn_number n)
{
    if (dtype == TN_BOOL) *(uint8_t *)at = n.f != 0;
    if (dtype == TN_UINT8 || dtype == TN_INT8) *(uint8_t *)at = (uint8_t)n.i;
    if (dtype == TN_UINT16 || dtype == TN_INT16) *(uint16_t *)at = (uint16_t)n.i;
    if (dtype == TN_UINT32 || dtype == TN_INT32) *(uint32_t *)at = (uint32_t)n.i;
    if (dtype == TN_INT64) *(int64_t *)at = n.i;
    if (dtype == TN_FLOAT16) *(uint16_t *)at = tn_half_store(n.f, 10, 15);
    if (dtype == TN_BFLOAT16) *(uint16_t *)at = tn_half_store(n.f, 7, 127);
    if (dtype == TN_FLOAT32) *(float *)at = (float)n.f;
    if (dtype == TN_FLOAT64) *(double *)at = n.f;
}

/* ---- Arrays -------------------------------------------------------------------------------------------- */

/* Elements somewhere in memory. All fields may be changed: fewer sizes, other strides, another start. */
typedef struct tn_strided {
    char *data; /* of the first element: `host`, or an address that the device knows */
    tn_dtype dtype;
    uint32_t rank;
    int64_t sizes[TN_MAX_RANK];
    int64_t strides[TN_MAX_RANK]; /* in bytes */
} tn_strided;

/* Operand i of a nest: outputs first, then the tensor arguments. */
TN_BOTH_SIDES static inline const tn_operand *tn_nest_operand(const tn_nest *nest, uint32_t i)
{
    return (const tn_operand *)(const void *)((const char *)nest->operands +
                                              (uint64_t)i * nest->operand_bytes);
}

/* `data` is the operand's host address. */
TN_BOTH_SIDES static inline tn_strided tn_strided_operand(const tn_nest *nest, uint32_t i)
{
    const tn_operand *o = tn_nest_operand(nest, i);
    tn_strided a;
    a.data = o->host;
    a.dtype = o->dtype;
    a.rank = nest->rank;
    for (uint32_t d = 0; d < a.rank; d++) {
        a.sizes[d] = nest->sizes[d];
        a.strides[d] = o->strides[d];
    }
    return a;
}

/* `data` is the tensor's host address. A tensor without dimensions is a line of one element: rank 1. */
TN_BOTH_SIDES static inline tn_strided tn_strided_tensor(const tn_tensor_desc *t)
{
    int64_t bytes = (int64_t)((TN_DTYPE_BITS(t->dtype) + 7u) / 8u);
    tn_strided a;
    a.data = (char *)t->host;
    a.dtype = t->dtype;
    a.rank = t->rank ? t->rank : 1;
    a.sizes[0] = 1;
    a.strides[0] = 0;
    for (uint32_t d = 0; d < t->rank; d++) {
        a.sizes[d] = t->sizes[t->rank - 1 - d];
        a.strides[d] = t->strides[t->rank - 1 - d] * bytes;
    }
    return a;
}

/* Where a dimension that operators call `dim` stands: from the outermost, or from the end when negative. */
TN_BOTH_SIDES static inline uint32_t tn_strided_dim(const tn_strided *a, int64_t dim)
{
    return (uint32_t)(dim < 0 ? -1 - dim : (int64_t)a->rank - 1 - dim);
}

TN_BOTH_SIDES static inline int64_t tn_strided_numel(const tn_strided *a)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < a->rank; d++) n *= a->sizes[d];
    return n;
}

/* The address of element i, which must be there. */
TN_BOTH_SIDES static inline void *tn_strided_at(const tn_strided *a, int64_t i)
{
    char *at = a->data;
    for (uint32_t d = 0; d < a->rank; d++) {
        at += i % a->sizes[d] * a->strides[d];
        i /= a->sizes[d];
    }
    return at;
}

TN_BOTH_SIDES static inline tn_number tn_strided_get(const tn_strided *a, int64_t i)
{
    return tn_number_load(a->dtype, tn_strided_at(a, i));
}

TN_BOTH_SIDES static inline void tn_strided_put(const tn_strided *a, int64_t i, tn_number n)
{
    tn_number_store(a->dtype, tn_strided_at(a, i), n);
}

/*
 * The address of what element i of `index`, an array of positions along dimension `dim`, picks: of the
 * element whose other coordinates are those of i. NULL when the position is out of range.
 */
TN_BOTH_SIDES static inline void *tn_strided_pick(const tn_strided *a, uint32_t dim, const tn_strided *index,
                                                  int64_t i)
{
    int64_t position = tn_strided_get(index, i).i;
    char *at = a->data;
    if (position < 0 || position >= a->sizes[dim]) return NULL;
    for (uint32_t d = 0; d < a->rank; d++) {
        at += (d == dim ? position : i % index->sizes[d]) * a->strides[d];
        i /= index->sizes[d];
    }
    return at;
}

/* Broadcasts: gives it the rank and sizes of `like`, in which a dimension that it lacks, or has one element
 * in, repeats that. */
TN_BOTH_SIDES static inline void tn_strided_expand(tn_strided *a, const tn_strided *like)
{
    for (uint32_t d = 0; d < like->rank; d++) {
        if (d >= a->rank || (a->sizes[d] == 1 && like->sizes[d] != 1)) a->strides[d] = 0;
        a->sizes[d] = like->sizes[d];
    }
    a->rank = like->rank;
}

/* Exchanges two dimensions, and so changes the order in which elements are counted. */
TN_BOTH_SIDES static inline void tn_strided_swap(tn_strided *a, uint32_t d, uint32_t e)
{
    int64_t size = a->sizes[d], stride = a->strides[d];
    a->sizes[d] = a->sizes[e];
    a->strides[d] = a->strides[e];
    a->sizes[e] = size;
    a->strides[e] = stride;
}

/* ---- The words of random numbers; tenon/random.h says which number is made of which ------------------- */

/* Philox-4x32-10: the four words of a counter under a key. */
TN_BOTH_SIDES static inline void tn_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int32_t round = 0; round < 10; round++) {
        uint64_t first = (uint64_t)0xD2511F53u * c0, second = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(second >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)second;
        c2 = (uint32_t)(first >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)first;
        k0 += 0x9E3779B9u; /* the golden ratio */
        k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The word of element i: 32 bits, or by the 64-bit rule with `is_wide`. Kernels that fill many elements use
 * all words of each counter instead. */
TN_BOTH_SIDES static inline uint64_t tn_random_word(uint64_t seed, uint64_t offset, uint64_t i,
                                                    int32_t is_wide)
{
    uint64_t c = offset + i / (is_wide ? 2u : 4u);
    const uint32_t counter[4] = {(uint32_t)c, (uint32_t)(c >> 32), 0, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t words[4];
    tn_philox(counter, key, words);
    if (!is_wide) return words[i % 4u];
    return words[i % 2u * 2u] | (uint64_t)words[i % 2u * 2u + 1u] << 32;
}

/* ---- What can_run asks ----------------------------------------------------------------------------------
 */

/* 1 if all tensors of a call have dtypes of the list (0 ends it). A row's `dtypes` speaks of one of them. */
static inline int32_t tn_call_dtypes_in(const tn_call *call, const tn_dtype *list)
{
    for (uint32_t i = 0; i < call->n_args + call->n_outs; i++) {
        tn_value v = i < call->n_args ? call->args[i] : call->outs[i - call->n_args];
        uint32_t n = v.tag == TN_TAG_TENSOR ? 1 : v.tag == TN_TAG_TENSORS ? v.count : 0;
        for (uint32_t k = 0; k < n; k++) {
            const tn_tensor *t = v.tag == TN_TAG_TENSOR ? v.as.tensor : v.as.tensors[k];
            const tn_dtype *known = list;
            while (t && *known && *known != tn_desc(t)->dtype) known++;
            if (t && !*known) return 0;
        }
    }
    return 1;
}

TN_END_DECLS
#endif
