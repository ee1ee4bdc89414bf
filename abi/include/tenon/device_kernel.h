/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Help for kernels in device languages: the words and numbers of random streams, conversions of 16-bit
 * floats, and the walk over a loop nest. The text is C, C++, CUDA, HIP and OpenCL C at once. It includes
 * nothing, has no state, needs no double where the device has none, and keeps no pointer in a structure.
 *
 * A device source includes it, or is handed to the compiler behind its text where a device compiler sees no
 * files: clCreateProgramWithSource takes both as two strings. Host code gets it through tenon/kernel.h, so
 * that both sides share one text. Pointers are those of private memory; a kernel reads its arrays itself.
 *
 * An operand begins `byte_offset` bytes behind its allocation, unless its flags have TN_OPERAND_IMMEDIATE:
 * then it has no allocation, and the host passes the element that `host` points to (tenon/op.h). So the
 * kernel of a sum takes both forms of each input:
 *
 *     float load(__global const char *memory, ulong at, float immediate, int is_immediate)
 *     {
 *         return is_immediate ? immediate : *(__global const float *)(memory + at);
 *     }
 *     __kernel void add(__global char *out, ulong out_at, __global const char *a, ulong a_at, float a_value,
 *                       __global const char *b, ulong b_at, float b_value, int immediates, tn_walk walk)
 *     {
 *         tn_s64 i = (tn_s64)get_global_id(0);
 *         if (i >= walk.numel) return;
 *         float x = load(a, a_at + (ulong)tn_walk_offset(&walk, 1, i), a_value, immediates & 1);
 *         float y = load(b, b_at + (ulong)tn_walk_offset(&walk, 2, i), b_value, immediates & 2);
 *         *(__global float *)(out + out_at + tn_walk_offset(&walk, 0, i)) = x + y;
 *     }
 */
#ifndef TENON_DEVICE_KERNEL_H
#define TENON_DEVICE_KERNEL_H

#if defined(__CUDACC__) || defined(__HIPCC__)
#define TN_BOTH_SIDES __host__ __device__
#else
#define TN_BOTH_SIDES
#endif
/* What every function here is; a device compiler that wants another word defines it first. */
#ifndef TN_DEVICE_FUNCTION
#define TN_DEVICE_FUNCTION TN_BOTH_SIDES static inline
#endif

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
typedef ushort tn_u16;
typedef uint tn_u32;
typedef ulong tn_u64;
typedef long tn_s64;
#if defined(cl_khr_fp64)
#define TN_DEVICE_HAS_DOUBLE 1
#else
#define TN_DEVICE_HAS_DOUBLE 0
#endif
#else
typedef unsigned short tn_u16;
typedef unsigned int tn_u32;
/* Of 64 bits in every data model; __extension__ as `long long` is not part of older C++. */
__extension__ typedef unsigned long long tn_u64;
__extension__ typedef long long tn_s64;
#ifndef TN_DEVICE_HAS_DOUBLE
#define TN_DEVICE_HAS_DOUBLE 1
#endif
#endif

/* ---- Random numbers: tenon/random.h says which element gets which word --------------------------------- */

/* Philox-4x32-10: the four words of a counter under a key. */
TN_DEVICE_FUNCTION void tn_philox(const tn_u32 counter[4], const tn_u32 key[2], tn_u32 out[4])
{
    tn_u32 c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    tn_u32 k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        tn_u64 first = (tn_u64)0xD2511F53u * c0, second = (tn_u64)0xCD9E8D57u * c2;
        c0 = (tn_u32)(second >> 32) ^ c1 ^ k0;
        c1 = (tn_u32)second;
        c2 = (tn_u32)(first >> 32) ^ c3 ^ k1;
        c3 = (tn_u32)first;
        k0 += 0x9E3779B9u; /* the golden ratio */
        k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The four words of a generator at `counter`: offset + i / 4 for element i, or offset + i / 2 by the 64-bit rule. */
TN_DEVICE_FUNCTION void tn_random_words(tn_u64 seed, tn_u64 counter, tn_u32 out[4])
{
    tn_u32 parts[4], key[2];
    parts[0] = (tn_u32)counter;
    parts[1] = (tn_u32)(counter >> 32);
    parts[2] = 0;
    parts[3] = 0;
    key[0] = (tn_u32)seed;
    key[1] = (tn_u32)(seed >> 32);
    tn_philox(parts, key, out);
}

/*
 * The word of element i: 32 bits, or 64 with `is_wide` (the 64-bit rule). A kernel that fills many elements
 * calls tn_random_words once for each counter and uses all of its words.
 */
TN_DEVICE_FUNCTION tn_u64 tn_random_word(tn_u64 seed, tn_u64 offset, tn_u64 i, int is_wide)
{
    tn_u32 words[4];
    tn_random_words(seed, offset + i / (is_wide ? 2u : 4u), words);
    if (!is_wide) return words[i % 4u];
    return words[i % 2u * 2u] | (tn_u64)words[i % 2u * 2u + 1u] << 32;
}

/* Uniform in [0, 1) from a 32-bit word; with `up` 1 in (0, 1], which a logarithm may take. */
TN_DEVICE_FUNCTION float tn_uniform_float(tn_u32 word, tn_u32 up)
{
    return (float)((word >> 8) + up) * 5.9604644775390625e-8f; /* 2^-24 */
}

#if TN_DEVICE_HAS_DOUBLE
/* The same from a 64-bit word. */
TN_DEVICE_FUNCTION double tn_uniform_double(tn_u64 word, tn_u32 up)
{
    return (double)((word >> 11) + up) * 1.1102230246251565e-16; /* 2^-53 */
}
#endif

/* ---- 16-bit floats, in integer arithmetic: a device that flushes denormals gives the same bits --------- */

TN_DEVICE_FUNCTION tn_u32 tn_float_bits(float f)
{
    union {
        float f;
        tn_u32 bits;
    } u;
    u.f = f;
    return u.bits;
}

TN_DEVICE_FUNCTION float tn_float_of_bits(tn_u32 bits)
{
    union {
        tn_u32 bits;
        float f;
    } u;
    u.bits = bits;
    return u.f;
}

/* Every float16 is a float32. */
TN_DEVICE_FUNCTION float tn_float_of_half(tn_u16 bits)
{
    tn_u32 sign = (tn_u32)(bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 0x3ffu;
    if (exponent == 31u) return tn_float_of_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0u) { /* zero, or a denormal: shift its first bit into the implicit place */
        if (fraction == 0u) return tn_float_of_bits(sign);
        for (exponent = 1u; !(fraction & 0x400u); exponent--) fraction <<= 1;
        fraction &= 0x3ffu;
    }
    return tn_float_of_bits(sign | (exponent + 112u) << 23 | fraction << 13);
}

/* To the nearest, ties to even; beyond the range infinity. NaN becomes a quiet NaN. */
TN_DEVICE_FUNCTION tn_u16 tn_half_of_float(float f)
{
    tn_u32 bits = tn_float_bits(f), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    tn_u32 cut = 13u, kept, rest, middle;
    if (magnitude > 0x7f800000u) return (tn_u16)(sign | 0x7e00u);
    if (magnitude >= 0x47800000u) return (tn_u16)(sign | 0x7c00u); /* 2^16 and more */
    if (magnitude < 0x33000000u) return (tn_u16)sign;              /* less than 2^-25 */
    if (magnitude < 0x38800000u) { /* a denormal of float16: the implicit bit becomes visible */
        cut = 126u - (magnitude >> 23);
        magnitude = (magnitude & 0x7fffffu) | 0x800000u;
        kept = magnitude >> cut;
    } else {
        kept = (magnitude - 0x38000000u) >> cut;
    }
    rest = magnitude & (((tn_u32)1 << cut) - 1u);
    middle = (tn_u32)1 << (cut - 1u);
    if (rest > middle || (rest == middle && (kept & 1u)))
        kept++; /* a carry raises the exponent, as it should */
    return (tn_u16)(sign | kept);
}

TN_DEVICE_FUNCTION float tn_float_of_bfloat16(tn_u16 bits)
{
    return tn_float_of_bits((tn_u32)bits << 16);
}

/* To the nearest, ties to even. NaN becomes a quiet NaN. */
TN_DEVICE_FUNCTION tn_u16 tn_bfloat16_of_float(float f)
{
    tn_u32 bits = tn_float_bits(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (tn_u16)((bits >> 16 & 0x8000u) | 0x7fc0u);
    return (tn_u16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* ---- The walk over a loop nest ------------------------------------------------------------------------ */

/*
 * A loop nest as one value: an argument of a device kernel, 504 bytes of the 1024 that every OpenCL device
 * takes. The host fills it with tn_walk_of_nest (tenon/kernel.h). Dimension 0 is the innermost; strides are
 * in bytes; operands are outputs first, then tensors. For a reduction or scan element i + k * lines is the
 * k-th one of line i.
 */
#define TN_WALK_RANK     12
#define TN_WALK_OPERANDS 4

typedef struct tn_walk {
    tn_u32 rank;
    tn_u32 n_operands;
    tn_s64 numel;
    tn_s64 lines; /* elements in the dimensions that a reduction keeps; for pointwise operators numel */
    tn_s64 sizes[TN_WALK_RANK];
    tn_s64 strides[TN_WALK_OPERANDS][TN_WALK_RANK];
} tn_walk;

/* Bytes from the first element of an operand to element i. */
TN_DEVICE_FUNCTION tn_s64 tn_walk_offset(const tn_walk *walk, tn_u32 operand, tn_s64 i)
{
    tn_s64 offset = 0;
    for (tn_u32 d = 0; d < walk->rank; d++) {
        offset += i % walk->sizes[d] * walk->strides[operand][d];
        i /= walk->sizes[d];
    }
    return offset;
}

#endif
