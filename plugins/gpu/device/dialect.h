/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words that device code is written in, so that one text is OpenCL C, CUDA, HIP and (translated) GLSL, and
 * plain C or C++ for checks on the host. docs/gpu-dialect.md has the rules.
 *
 *   GPU_KERNEL, GPU_GLOBAL, GPU_LOCAL   qualifiers of kernels and pointers
 *   GPU_LOCAL_ARGUMENT                  what a parameter of a helper is that points to local memory
 *   GPU_FUNCTION                        what every helper function is
 *   GPU_INDEPENDENT                     before a loop: no iteration reads what another one writes
 *   GPU_UNROLL                          before a loop over private arrays, which then stay in registers
 *   GPU_UNROLL_LITTLE                   before a loop that would take too many registers if it were unrolled
 *   gpu_item()                          the number of the work item; gpu_group_item(), its number in the group
 *   GPU_ATOMIC_CAS(p, expected, value)  32 bits in global memory; gives what was there
 *
 * A program is compiled for one computation type, GPU_TYPE:
 *
 *   32, 64   T is float or double; half types are computed in float
 *   1        T is int64_t: integers and bool
 *   0        no type: elements are moved as bits
 */
#ifndef TENON_GPU_DIALECT_H
#define TENON_GPU_DIALECT_H

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
#define GPU_IN_OPENCL 1
#if GPU_PROCESSOR
#define GPU_KERNEL __kernel
#else /* group_of of launch.c: compilers then know how many registers an item may have */
#define GPU_KERNEL __kernel __attribute__((reqd_work_group_size(128, 1, 1)))
#endif
#define GPU_GLOBAL         __global
#define GPU_LOCAL          __local
#define GPU_LOCAL_ARGUMENT __local
#define GPU_FUNCTION       static inline
#define GPU_INDEPENDENT    _Pragma("clang loop vectorize(assume_safety)")
#define gpu_item()         ((uint32_t)get_global_id(0))
#define gpu_group_item()   ((uint32_t)get_local_id(0))
#define GPU_BARRIER()      barrier(CLK_LOCAL_MEM_FENCE)
#define GPU_ATOMIC_CAS     atomic_cmpxchg
#if GPU_PROCESSOR /* drivers' own are calls with branches, which no compiler makes vectors of */
#define gpu_half_load(p)     gpu_float_of_half(*(GPU_GLOBAL const ushort *)(p))
#define gpu_half_store(p, f) (*(GPU_GLOBAL ushort *)(p) = gpu_half_of_float(f))
#else
#define gpu_half_load(p)     vload_half(0, (GPU_GLOBAL const half *)(p))
#define gpu_half_store(p, f) vstore_half_rte(f, 0, (GPU_GLOBAL half *)(p))
#endif
/* The same for 16 elements, which many devices convert at once. */
#define gpu_half_load16(to, p)    vstore16(vload_half16(0, (GPU_GLOBAL const half *)(p)), 0, to)
#define gpu_half_store16(p, from) vstore_half16_rte(vload16(0, from), 0, (GPU_GLOBAL half *)(p))
#define gpu_bits_of_float(f)      as_uint(f)
#define gpu_float_of_bits(b)      as_float(b)
#define gpu_bits_of_double(f)     as_ulong(f)
#define gpu_double_of_bits(b)     as_double(b)
#if defined(cl_khr_fp64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define GPU_HAS_DOUBLE 1
#else
#define GPU_HAS_DOUBLE 0
#endif
#pragma OPENCL FP_CONTRACT OFF
typedef uchar uint8_t;
typedef char int8_t;
typedef ushort uint16_t;
typedef short int16_t;
typedef uint uint32_t;
typedef int int32_t;
typedef ulong uint64_t;
typedef long int64_t;
#define FN(name) name
#if GPU_PROCESSOR
/* Like tn_float_of_half and tn_half_of_float, but without branches, so that compilers make vectors of them. The exponent is
 * moved to its place and multiplied by 2^(127 - 15), which is exact, also of denormals. */
GPU_FUNCTION float gpu_float_of_half(uint32_t bits)
{
    float f = as_float((bits & 0x7fffu) << 13) * 0x1p112f;
    uint32_t infinite = f >= 0x1p16f ? 0x7f800000u : 0u;
    return as_float(as_uint(f) | infinite | (bits & 0x8000u) << 16);
}
/* Below 2^-14 a sum with 0.5 rounds to multiples of 2^-24; above, integers do, and carry into the exponent. */
GPU_FUNCTION uint16_t gpu_half_of_float(float f)
{
    uint32_t bits = as_uint(f), magnitude = bits & 0x7fffffffu;
    uint32_t denormal = as_uint(as_float(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    uint32_t kept = magnitude < 0x38800000u ? denormal : normal;
    kept = magnitude >= 0x47800000u ? 0x7c00u : kept;
    kept = magnitude > 0x7f800000u ? 0x7e00u : kept;
    return (uint16_t)(kept | (bits >> 16 & 0x8000u));
}
#endif
#elif defined(GPU_GLSL) /* C that tools/gen_shaders.py turns into GLSL */
#define GPU_KERNEL   _Noreturn
#define GPU_GLOBAL   volatile
#define GPU_LOCAL    _Thread_local
#define GPU_FUNCTION static inline
#define GPU_INDEPENDENT
#define GPU_BARRIER()        gpu_barrier()
#define gpu_half_load(p)     tn_float_of_half(*(GPU_GLOBAL const uint16_t *)(p))
#define gpu_half_store(p, f) (*(GPU_GLOBAL uint16_t *)(p) = tn_half_of_float(f))
#define GPU_HAS_DOUBLE       0
#define TN_DEVICE_HAS_DOUBLE 0
#define TN_DEVICE_FUNCTION   GPU_FUNCTION
#define INFINITY             gpu_infinity
typedef unsigned char uint8_t;
typedef signed char int8_t;
typedef unsigned short uint16_t;
typedef short int16_t;
typedef unsigned int uint32_t;
typedef int int32_t;
typedef unsigned long uint64_t;
typedef long int64_t;
#define FN(name)             fn_##name /* plugins/vulkan/functions.h */
#else
#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
#endif
#include <math.h>
#include <stdint.h>
#include <string.h>
#define GPU_GLOBAL
#define GPU_HAS_DOUBLE 1
#if defined(__CUDACC__) || defined(__HIPCC__)
/*
 * Groups have 128 items (group_of in launch.c). CUDA's second number is groups at once: so many leave 64 and 128 registers,
 * and none are spilled. HIP's is wavefronts in a SIMD unit, and the compiler chooses it.
 */
#if defined(__HIPCC__)
#define GPU_KERNEL extern "C" __global__ __launch_bounds__(128)
#else
#if !defined(GPU_GROUPS_AT_ONCE) /* a file may ask for fewer */
#define GPU_GROUPS_AT_ONCE (GPU_TYPE == 32 ? 8 : 4)
#endif
#define GPU_KERNEL extern "C" __global__ __launch_bounds__(128, GPU_GROUPS_AT_ONCE)
#endif
#define GPU_LOCAL                          __shared__
#define GPU_FUNCTION                       static __device__ inline
#define gpu_item()                         ((uint32_t)(blockIdx.x * blockDim.x + threadIdx.x))
#define gpu_group_item()                   ((uint32_t)threadIdx.x)
#define GPU_BARRIER()                      __syncthreads()
#define GPU_ATOMIC_CAS(p, expected, value) atomicCAS((int *)(p), expected, value)
#define GPU_INDEPENDENT
#else /* one work item after the other, for checks */
extern uint32_t gpu_current_item;
#define GPU_KERNEL
#define GPU_LOCAL
#define GPU_FUNCTION                       static inline
#define gpu_item()                         gpu_current_item
#define gpu_group_item()                   0u
#define GPU_BARRIER()                      ((void)0)
#define GPU_ATOMIC_CAS(p, expected, value) gpu_plain_cas(p, expected, value)
#define GPU_INDEPENDENT
static inline int32_t gpu_plain_cas(int32_t *p, int32_t expected, int32_t value)
{
    int32_t old = *p;
    if (old == expected) *p = value;
    return old;
}
#endif
#define TN_DEVICE_FUNCTION GPU_FUNCTION
#define FN(name)           name
#define GPU_BITS_OF(name, from, to)         \
    GPU_FUNCTION to name(from value)        \
    {                                       \
        to bits;                            \
        memcpy(&bits, &value, sizeof bits); \
        return bits;                        \
    }
GPU_BITS_OF(gpu_bits_of_float, float, uint32_t)
GPU_BITS_OF(gpu_float_of_bits, uint32_t, float)
GPU_BITS_OF(gpu_bits_of_double, double, uint64_t)
GPU_BITS_OF(gpu_double_of_bits, uint64_t, double)
#if defined(__CUDACC__) /* an instruction each */
GPU_FUNCTION float gpu_half_load(const void *p)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(*(const uint16_t *)p));
    return value;
}
GPU_FUNCTION void gpu_half_store(void *p, float value)
{
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    *(uint16_t *)p = bits;
}
#elif defined(__HIPCC__)
#define gpu_half_load(p)     ((float)*(const _Float16 *)(p))
#define gpu_half_store(p, f) (*(_Float16 *)(p) = (_Float16)(f))
#else
#define gpu_half_load(p)     tn_float_of_half(*(const uint16_t *)(p))
#define gpu_half_store(p, f) (*(uint16_t *)(p) = tn_half_of_float(f))
#endif
#define gpu_half_load16(to, p) \
    for (int half_i = 0; half_i < 16; half_i++) (to)[half_i] = gpu_half_load((const uint16_t *)(p) + half_i)
#define gpu_half_store16(p, from) \
    for (int half_i = 0; half_i < 16; half_i++) gpu_half_store((uint16_t *)(p) + half_i, (from)[half_i])
#endif

#if !defined(GPU_LOCAL_ARGUMENT)
#define GPU_LOCAL_ARGUMENT
#endif
#if defined(__CUDACC__) || defined(__HIPCC__) || \
    (defined(GPU_IN_OPENCL) && !GPU_PROCESSOR && defined(__clang__))
#define GPU_UNROLL        _Pragma("unroll")
#define GPU_UNROLL_LITTLE _Pragma("unroll 4")
#else
#define GPU_UNROLL
#define GPU_UNROLL_LITTLE
#endif

#include "arguments.h"
#include "device_kernel.h"

/* ---- The computation type ------------------------------------------------------------------------------ */

#if GPU_TYPE == 32
typedef float T;
#define gpu_value(bits) gpu_float_of_bits((uint32_t)(bits))
#define gpu_bits(value) ((uint64_t)gpu_bits_of_float(value))
#define GPU_LOWEST      (-INFINITY)
#define GPU_HIGHEST     INFINITY
#elif GPU_TYPE == 64
typedef double T;
#define gpu_value(bits) gpu_double_of_bits(bits)
#define gpu_bits(value) gpu_bits_of_double(value)
#define GPU_LOWEST      (-INFINITY)
#define GPU_HIGHEST     INFINITY
#else
typedef int64_t T;
#define gpu_value(bits) ((T)(bits))
#define gpu_bits(value) ((uint64_t)(value))
#define GPU_LOWEST      ((int64_t)1 << 63)
#define GPU_HIGHEST     (~((int64_t)1 << 63))
#endif
#define GPU_IS_FLOAT (GPU_TYPE == 32 || GPU_TYPE == 64)
typedef T R;
#define ALWAYS_INLINE GPU_FUNCTION
#define is_nan(x)     ((x) != (x))

/* Truncated; the lowest number for NaN and for what int64 cannot hold. */
#define GPU_WHOLE(f) \
    ((f) >= -9223372036854775808.0f && (f) < 9223372036854775808.0f ? (int64_t)(f) : (int64_t)1 << 63)
#if GPU_IS_FLOAT
#define gpu_whole(x) GPU_WHOLE(x)
#define gpu_from(f)  ((T)(f))
#else
#define gpu_whole(x) (x)
#define gpu_from(f)  GPU_WHOLE(f)
#endif

/* An element of a dtype (GPU_F32, ...) as T. Where the dtype is a constant, nothing but the load remains. */
GPU_FUNCTION T gpu_load(GPU_GLOBAL const uint8_t *p, uint32_t dtype)
{
    switch (dtype) {
    case GPU_I8:
        return (T) * (GPU_GLOBAL const int8_t *)p;
    case GPU_I16:
        return (T) * (GPU_GLOBAL const int16_t *)p;
    case GPU_I32:
        return (T) * (GPU_GLOBAL const int32_t *)p;
    case GPU_I64:
        return (T) * (GPU_GLOBAL const int64_t *)p;
    case GPU_U16:
        return (T) * (GPU_GLOBAL const uint16_t *)p;
    case GPU_U32:
        return (T) * (GPU_GLOBAL const uint32_t *)p;
    case GPU_F16:
        return gpu_from(gpu_half_load(p));
    case GPU_BF16:
        return gpu_from(tn_float_of_bfloat16(*(GPU_GLOBAL const uint16_t *)p));
    case GPU_F32:
        return gpu_from(*(GPU_GLOBAL const float *)p);
#if GPU_HAS_DOUBLE
    case GPU_F64:
        return gpu_from(*(GPU_GLOBAL const double *)p);
#endif
    default: /* GPU_BOOL, GPU_U8 */
        return (T)*p;
    }
}

/* Floats round to the nearest, integers wrap, bool is 0 or 1. */
GPU_FUNCTION void gpu_store(GPU_GLOBAL uint8_t *p, uint32_t dtype, T x)
{
    switch (dtype) {
    case GPU_BOOL:
        *p = x != 0;
        break;
    case GPU_I16:
    case GPU_U16:
        *(GPU_GLOBAL int16_t *)p = (int16_t)gpu_whole(x);
        break;
    case GPU_I32:
    case GPU_U32:
        *(GPU_GLOBAL int32_t *)p = (int32_t)gpu_whole(x);
        break;
    case GPU_I64:
        *(GPU_GLOBAL int64_t *)p = gpu_whole(x);
        break;
    case GPU_F16:
        gpu_half_store(p, (float)x);
        break;
    case GPU_BF16:
        *(GPU_GLOBAL uint16_t *)p = tn_bfloat16_of_float((float)x);
        break;
    case GPU_F32:
        *(GPU_GLOBAL float *)p = (float)x;
        break;
#if GPU_HAS_DOUBLE
    case GPU_F64:
        *(GPU_GLOBAL double *)p = (double)x;
        break;
#endif
    default: /* GPU_U8, GPU_I8 */
        *p = (uint8_t)gpu_whole(x);
    }
}

/* The size of an element; a constant where the dtype is one. */
#define GPU_BYTES(dtype)                                                                         \
    ((dtype) == GPU_BOOL || (dtype) == GPU_U8 || (dtype) == GPU_I8                           ? 1 \
     : (dtype) == GPU_I16 || (dtype) == GPU_U16 || (dtype) == GPU_F16 || (dtype) == GPU_BF16 ? 2 \
     : (dtype) == GPU_I64 || (dtype) == GPU_F64                                              ? 8 \
                                                                                             : 4)

/* Moves an element of 1, 2, 4, 8 or 16 bytes. */
GPU_FUNCTION void gpu_move(GPU_GLOBAL uint8_t *to, GPU_GLOBAL const uint8_t *from, uint32_t bytes)
{
    switch (bytes) {
    case 1:
        *to = *from;
        break;
    case 2:
        *(GPU_GLOBAL uint16_t *)to = *(GPU_GLOBAL const uint16_t *)from;
        break;
    case 4:
        *(GPU_GLOBAL uint32_t *)to = *(GPU_GLOBAL const uint32_t *)from;
        break;
    case 16:
        *(GPU_GLOBAL uint64_t *)(to + 8) = *(GPU_GLOBAL const uint64_t *)(from + 8);
        /* fall through */
    default:
        *(GPU_GLOBAL uint64_t *)to = *(GPU_GLOBAL const uint64_t *)from;
    }
}

/*
 * Adds to `sum` an expression `f` for `at` from 0 to `size`, in `chains` chains, which a processor keeps in vectors. `load`
 * declares what f needs. The same order of additions on every device.
 */
#define GPU_ADD_UP(sum, chains, size, load, f)                            \
    {                                                                     \
        T lanes[chains];                                                  \
        uint32_t whole = (size) / (chains) * (chains);                    \
        for (int j = 0; j < (chains); j++) lanes[j] = 0;                  \
        for (uint32_t i = 0; i < whole; i += (chains))                    \
            for (int j = 0; j < (chains); j++) {                          \
                uint32_t at = i + (uint32_t)j;                            \
                load lanes[j] += (f);                                     \
            }                                                             \
        for (int pairs = (chains) / 2; pairs > 0; pairs /= 2)             \
            for (int j = 0; j < pairs; j++) lanes[j] += lanes[j + pairs]; \
        for (uint32_t at = whole; at < (size); at++) {                    \
            load lanes[0] += (f);                                         \
        }                                                                 \
        sum += lanes[0];                                                  \
    }

#define GPU_GROUP_ITEMS 128 /* of a GPU's group */
#define GPU_AHEAD       4   /* elements that an item reads before it takes the first of them */

/* Adds up `value` over each `width` items, of which all get the sum. All items of a group do this. */
#define GPU_ADD_GROUP(value, shared, me, width)                               \
    shared[me] = value;                                                       \
    for (uint32_t half_way = (width) / 2; half_way > 0; half_way /= 2) {      \
        GPU_BARRIER();                                                        \
        if ((me) % (width) < half_way) shared[me] += shared[(me) + half_way]; \
    }                                                                         \
    GPU_BARRIER();                                                            \
    value = shared[(me) - (me) % (width)];                                    \
    GPU_BARRIER();

/* ---- Faults: what a kernel finds wrong with its data, which the host reports late ----------------------- */

GPU_FUNCTION void gpu_fault(GPU_GLOBAL int32_t *fault, int32_t code, int32_t operation, int64_t index,
                            int64_t size)
{
    if (GPU_ATOMIC_CAS(fault, 0, code)) return; /* the first one stays */
    fault[1] = operation;
    fault[2] = (int32_t)index;
    fault[3] = (int32_t)(index >> 32);
    fault[4] = (int32_t)size;
    fault[5] = (int32_t)(size >> 32);
}

/* ---- The walk over a nest -------------------------------------------------------------------------------- */

/*
 * `body` with d from `first` to `last`, of GPU_RANK indices at most. Compilers of OpenCL C copy an argument that is indexed
 * by a variable into memory of each item: there d is a constant, and the body is there for each of its values.
 */
#if defined(GPU_IN_OPENCL) && !GPU_PROCESSOR
#define GPU_EACH_INDEX(d, first, last, body) \
    GPU_AT_INDEX(0, d, first, last, body)    \
    GPU_AT_INDEX(1, d, first, last, body)    \
    GPU_AT_INDEX(2, d, first, last, body)    \
    GPU_AT_INDEX(3, d, first, last, body)    \
    GPU_AT_INDEX(4, d, first, last, body)    \
    GPU_AT_INDEX(5, d, first, last, body)    \
    GPU_AT_INDEX(6, d, first, last, body)    \
    GPU_AT_INDEX(7, d, first, last, body)    \
    GPU_AT_INDEX(8, d, first, last, body)    \
    GPU_AT_INDEX(9, d, first, last, body)    \
    GPU_AT_INDEX(10, d, first, last, body)   \
    GPU_AT_INDEX(11, d, first, last, body)
#define GPU_AT_INDEX(n, d, first, last, body)                 \
    if ((n) >= (uint32_t)(first) && (n) < (uint32_t)(last)) { \
        enum { d = n };                                       \
        body                                                  \
    }
/* Element i of an array of GPU_RANK. */
#define GPU_OF_INDEX(array, i) \
    ((i) == 0    ? (array)[0]  \
     : (i) == 1  ? (array)[1]  \
     : (i) == 2  ? (array)[2]  \
     : (i) == 3  ? (array)[3]  \
     : (i) == 4  ? (array)[4]  \
     : (i) == 5  ? (array)[5]  \
     : (i) == 6  ? (array)[6]  \
     : (i) == 7  ? (array)[7]  \
     : (i) == 8  ? (array)[8]  \
     : (i) == 9  ? (array)[9]  \
     : (i) == 10 ? (array)[10] \
                 : (array)[11])
#else
#define GPU_EACH_INDEX(d, first, last, body)      \
    for (uint32_t d = (first); d < (last); d++) { \
        body                                      \
    }
#define GPU_OF_INDEX(array, i) (array)[i]
#endif

/*
 * Adds the offset of element i to the places of the first `count` operands; gives what is left of i. No loop over the
 * operands: with constant indices `places` stays in registers.
 */
#define GPU_WALK(nest, first, last, i, places, count)                                                \
    GPU_EACH_INDEX(walk_d, first, last, uint32_t walk_index = (i) % (nest).sizes[walk_d];            \
                   (i) /= (nest).sizes[walk_d];                                                      \
                   GPU_WALK_OPERAND(nest, places, count, 0) GPU_WALK_OPERAND(nest, places, count, 1) \
                       GPU_WALK_OPERAND(nest, places, count, 2) GPU_WALK_OPERAND(nest, places, count, 3))
#define GPU_WALK_OPERAND(nest, places, count, k) \
    if ((k) < (count)) (places)[(k) < (count) ? (k) : 0] += (int64_t)walk_index * (nest).strides[k][walk_d];

#endif
