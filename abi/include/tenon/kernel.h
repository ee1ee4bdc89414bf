/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Help for kernels, and for the host code around them. It has the operands of a nest and the tensors among
 * the arguments as strided arrays, elements of any dtype as numbers, and a loop nest as one value for a device
 * kernel. It copies a call deeply for devices that work later. All of it is inline: it is compiled into
 * the plugin and adds nothing to the contract. It needs no libc and has no state; CUDA and HIP compile it
 * for both sides. What OpenCL C can include too is in tenon/device_kernel.h; whole kernels in plain C are in
 * tenon/plain_kernels.h.
 *
 * An array has its innermost dimension first, as nests have, so its elements are counted in the row-major
 * order of the tensor. Where the first `kept` dimensions of a nest have n elements together, element i + k *
 * n is the k-th one of the i-th line that is reduced or scanned. The function tn_strided_swap moves a dimension of a
 * tensor to the end, so that lines along it are counted in the same way.
 *
 * Finding an element by its number costs a division for each dimension. A thread of a device does that once;
 * a plain loop on the host does it for each element, so fast kernels walk the strides instead.
 */
#ifndef TENON_KERNEL_H
#define TENON_KERNEL_H

#include <tenon/device_kernel.h>
#include <tenon/op.h>

TN_BEGIN_DECLS

/* ---- Numbers: elements of any dtype ------------------------------------------------------------------- */

/*
 * A number as a double and as an integer, because a double cannot hold every integer from 2^53 on. Both
 * members are always set. A kernel that computes both need not know the dtype: storing takes the member that
 * the dtype needs. The dtypes are bool, the integers except uint64, float16, bfloat16, float32 and float64.
 */
typedef struct tn_number {
    double f;
    int64_t i; /* of a double: truncated; INT64_MIN for NaN and for what int64 cannot hold */
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

/* The number in an argument of type Scalar, int, float or bool; 0 for an absent one. */
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

/* Rounds once: to the nearest, ties to even. */
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

/* Floats round to the nearest, integers wrap, and bool is 0 or 1. Any other dtype writes nothing. */
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

/* An array somewhere in memory. Kernels may change all fields: fewer sizes, other strides, another start. */
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

/* The index here of the dimension that operators call `dim`, which counts from the outermost, or, when
 * negative, from the innermost. */
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

/* The address of element i, 0 <= i < numel. */
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
 * For gather and scatter: element i of `index` holds a position along dimension `dim`. Gives the address of
 * the element of `a` at that position whose other coordinates are those of i; NULL if the position is out of
 * range.
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

/* Broadcasts `a` to the rank and sizes of `like`: dimensions that are missing or of size 1 get stride 0. */
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

/* ---- Loop nests for device kernels --------------------------------------------------------------------- */

/*
 * Fills `out` with the nest; tenon/device_kernel.h walks it. 0 if the nest has more dimensions or operands
 * than a tn_walk holds: then launch another kernel, or let can_run refuse such calls.
 */
static inline int32_t tn_walk_of_nest(const tn_nest *nest, tn_walk *out)
{
    if (nest->rank > TN_WALK_RANK || nest->n_operands > TN_WALK_OPERANDS) return 0;
    out->rank = nest->rank;
    out->n_operands = nest->n_operands;
    out->numel = nest->numel;
    out->lines = 1;
    for (uint32_t d = 0; d < nest->kept; d++) out->lines *= nest->sizes[d];
    for (uint32_t d = 0; d < nest->rank; d++) out->sizes[d] = nest->sizes[d];
    for (uint32_t i = 0; i < nest->n_operands; i++)
        for (uint32_t d = 0; d < nest->rank; d++) out->strides[i][d] = tn_nest_operand(nest, i)->strides[d];
    return 1;
}

/* ---- Calls that run later ------------------------------------------------------------------------------ */

/* The address of a byte of an allocation, for the code that runs the copy of a call. */
typedef void *(*tn_address_fn)(void *allocation, uint64_t offset);

/* Where tn_call_copy puts things. `memory` is NULL while it only counts bytes. */
typedef struct tn_call_packer {
    char *memory;
    uint64_t used;
    tn_address_fn address;
} tn_call_packer;

static inline void *tn_pack(tn_call_packer *p, const void *from, uint64_t bytes)
{
    char *to = p->memory ? p->memory + p->used : NULL;
    p->used += (bytes + 7u) / 8u * 8u;
    for (uint64_t i = 0; to && i < bytes; i++) to[i] = ((const char *)from)[i];
    return to;
}

static inline tn_tensor *tn_pack_tensor(tn_call_packer *p, const tn_tensor *t)
{
    const tn_tensor_desc *from = tn_desc(t);
    tn_tensor_desc *to = (tn_tensor_desc *)tn_pack(p, from, sizeof(*from));
    const void *sizes = tn_pack(p, from->sizes, from->rank * sizeof(int64_t));
    const void *strides = tn_pack(p, from->strides, from->rank * sizeof(int64_t));
    uint64_t value = from->host && !from->allocation ? (TN_DTYPE_BITS(from->dtype) + 7u) / 8u : 0;
    void *host = tn_pack(p, from->host, value);
    if (!to) return NULL;
    to->sizes = (const int64_t *)sizes;
    to->strides = (const int64_t *)strides;
    to->host = value ? host : NULL; /* a 0-dim tensor in host memory: its value is copied */
    if (from->allocation && p->address) to->host = p->address(from->allocation, from->byte_offset);
    return (tn_tensor *)(void *)to;
}

static inline tn_value *tn_pack_values(tn_call_packer *p, const tn_value *from, uint32_t count)
{
    tn_value *to = (tn_value *)tn_pack(p, from, count * sizeof(*from));
    for (uint32_t i = 0; i < count; i++) {
        tn_value v = from[i];
        uint64_t n = v.count;
        if (v.tag == TN_TAG_TENSOR) v.as.tensor = tn_pack_tensor(p, v.as.tensor);
        if (v.tag == TN_TAG_COMPLEX) v.as.floats = (const double *)tn_pack(p, v.as.floats, 16);
        if (v.tag == TN_TAG_STRING) v.as.string = (const char *)tn_pack(p, v.as.string, n + 1u);
        if (v.tag == TN_TAG_INTS) v.as.ints = (const int64_t *)tn_pack(p, v.as.ints, 8u * n);
        if (v.tag == TN_TAG_FLOATS) v.as.floats = (const double *)tn_pack(p, v.as.floats, 8u * n);
        if (v.tag == TN_TAG_BOOLS) v.as.bools = (const uint8_t *)tn_pack(p, v.as.bools, n);
        if (v.tag == TN_TAG_SCALARS) v.as.values = tn_pack_values(p, v.as.values, v.count);
        if (v.tag == TN_TAG_TENSORS) {
            tn_tensor *const *list = v.as.tensors;
            tn_tensor **copies = (tn_tensor **)tn_pack(p, (const void *)list, n * sizeof(*list));
            for (uint64_t k = 0; k < n; k++) {
                tn_tensor *t = list[k] ? tn_pack_tensor(p, list[k]) : NULL;
                if (copies) copies[k] = t;
            }
            v.as.tensors = copies;
        }
        if (v.tag == TN_TAG_STRINGS) {
            const char *const *list = v.as.strings;
            const char **copies = (const char **)tn_pack(p, (const void *)list, n * sizeof(*list));
            for (uint64_t k = 0, length; k < n; k++) {
                for (length = 0; list[k][length]; length++) {
                }
                const char *text = (const char *)tn_pack(p, list[k], length + 1u);
                if (copies) copies[k] = text;
            }
            v.as.strings = copies;
        }
        if (to) to[i] = v;
    }
    return to;
}

static inline const tn_nest *tn_pack_nest(tn_call_packer *p, const tn_nest *from)
{
    tn_nest *to = (tn_nest *)tn_pack(p, from, sizeof(*from));
    const void *sizes = tn_pack(p, from->sizes, from->rank * sizeof(int64_t));
    char *operands = (char *)tn_pack(p, from->operands, (uint64_t)from->n_operands * from->operand_bytes);
    for (uint32_t i = 0; i < from->n_operands; i++) {
        const tn_operand *o = tn_nest_operand(from, i);
        uint64_t value = o->flags & TN_OPERAND_IMMEDIATE ? (TN_DTYPE_BITS(o->dtype) + 7u) / 8u : 0;
        const void *strides = tn_pack(p, o->strides, from->rank * sizeof(int64_t));
        void *immediate = tn_pack(p, o->host, value);
        if (!operands) continue;
        tn_operand *copy = (tn_operand *)(void *)(operands + (uint64_t)i * from->operand_bytes);
        copy->strides = (const int64_t *)strides;
        copy->host = (char *)immediate;
        if (!value) copy->host = p->address ? (char *)p->address(o->allocation, o->byte_offset) : NULL;
    }
    if (!to) return NULL;
    to->sizes = (const int64_t *)sizes;
    to->operands = (const tn_operand *)(const void *)operands;
    return to;
}

/*
 * Copies a call with all that it borrows, for a device that runs it after the kernel function has returned.
 * That is values, lists, strings, descriptors, the nest, and the values of IMMEDIATE operands and of 0-dim
 * tensors in host memory. Memory of the device is not copied: the host keeps it until the work is done. `address`
 * (may be NULL) gives the address at which the copy's reader finds it, which is stored as the host address.
 *
 * Returns the number of bytes; with memory NULL that is all. Otherwise `memory`, aligned to 8 bytes and as
 * large as that, then begins with the copied tn_call. `state` and `host` of the copy are those of the
 * original, and the host's functions that take a call may not be used with it.
 */
static inline uint64_t tn_call_copy(const tn_call *call, tn_address_fn address, void *memory)
{
    tn_call_packer p;
    p.memory = (char *)memory;
    p.used = 0;
    p.address = address;
    tn_call *to = (tn_call *)tn_pack(&p, call, sizeof(*call));
    const tn_value *args = tn_pack_values(&p, call->args, call->n_args);
    tn_value *outs = tn_pack_values(&p, call->outs, call->n_outs);
    const tn_nest *nest = call->nest ? tn_pack_nest(&p, call->nest) : NULL;
    if (!to) return p.used;
    to->args = args;
    to->outs = outs;
    to->nest = nest;
    return p.used;
}

/* ---- What can_run asks --------------------------------------------------------------------------------- */

/* 1 if the dtypes of all tensors of a call are in the list, which 0 ends. A row's `dtypes` is about one
 * tensor. */
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
