/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dtypes that have kernels or conversions. This list is the only one: sizes, slots, kinds and the conversion
 * tables follow from it. docs/cpu-plugin.md says what else a new dtype needs.
 */
#ifndef TENON_CPU_DTYPES_H
#define TENON_CPU_DTYPES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * X(name in the build's dtype lists, name of the slot, bytes of an element, tn_dtype, hub, kind). The hub dtypes come
 * first. Operators without a kernel for a dtype are computed in its hub.
 */
#define CPU_HUB_DTYPES(X)                      \
    X(f32, F32, 4, TN_FLOAT32, F32, FLOAT)     \
    X(f64, F64, 8, TN_FLOAT64, F64, FLOAT)     \
    X(i32, I32, 4, TN_INT32, I32, SIGNED)      \
    X(i64, I64, 8, TN_INT64, I64, SIGNED)      \
    X(c64, C64, 8, TN_COMPLEX64, C64, COMPLEX) \
    X(c128, C128, 16, TN_COMPLEX128, C128, COMPLEX)
#define CPU_OTHER_DTYPES(X)                  \
    X(b8, BOOL, 1, TN_BOOL, I32, BOOL)       \
    X(u8, U8, 1, TN_UINT8, I32, UNSIGNED)    \
    X(i8, I8, 1, TN_INT8, I32, SIGNED)       \
    X(i16, I16, 2, TN_INT16, I32, SIGNED)    \
    X(u16, U16, 2, TN_UINT16, I32, UNSIGNED) \
    X(u32, U32, 4, TN_UINT32, I64, UNSIGNED) \
    X(u64, U64, 8, TN_UINT64, I64, UNSIGNED) \
    X(f16, F16, 2, TN_FLOAT16, F32, HALF)    \
    X(bf16, BF16, 2, TN_BFLOAT16, F32, HALF) \
    X(c32, C32, 4, TN_COMPLEX32, C64, COMPLEX)
#define CPU_FLOAT8_DTYPES(X)                                  \
    X(e4m3fn, E4M3FN, 1, TN_FLOAT8_E4M3FN, F32, FLOAT8)       \
    X(e4m3fnuz, E4M3FNUZ, 1, TN_FLOAT8_E4M3FNUZ, F32, FLOAT8) \
    X(e5m2, E5M2, 1, TN_FLOAT8_E5M2, F32, FLOAT8)             \
    X(e5m2fnuz, E5M2FNUZ, 1, TN_FLOAT8_E5M2FNUZ, F32, FLOAT8) \
    X(e8m0, E8M0, 1, TN_FLOAT8_E8M0FNU, F32, FLOAT8)
#define CPU_DTYPES(X)   \
    CPU_HUB_DTYPES(X)   \
    CPU_OTHER_DTYPES(X) \
    CPU_FLOAT8_DTYPES(X)

/* A slot is the index of a dtype in the tables: CPU_F32, CPU_BOOL, ... */
#define CPU_DTYPE_SLOT(name, slot, bytes, dtype, hub, kind) CPU_##slot,
enum { CPU_DTYPES(CPU_DTYPE_SLOT) CPU_SLOT_COUNT, CPU_HUB_COUNT = CPU_C128 + 1 };
#undef CPU_DTYPE_SLOT

/* The same by the name that the build uses: CPU_SLOT_f32, CPU_SLOT_b8, ... */
#define CPU_DTYPE_SLOT(name, slot, bytes, dtype, hub, kind) CPU_SLOT_##name = CPU_##slot,
enum { CPU_DTYPES(CPU_DTYPE_SLOT) };
#undef CPU_DTYPE_SLOT

/* The kinds, one bit each. FLOAT is the full floats; HALF is those of 16 bits that are computed in float32. */
enum {
    CPU_KIND_BOOL = 1,
    CPU_KIND_UNSIGNED = 2,
    CPU_KIND_SIGNED = 4,
    CPU_KIND_FLOAT = 8,
    CPU_KIND_HALF = 16,
    CPU_KIND_FLOAT8 = 32,
    CPU_KIND_COMPLEX = 64
};
/* Whether a slot is of one of the kinds; false for slot -1. */
static inline __attribute__((always_inline)) bool cpu_slot_is(int32_t slot, int32_t kinds)
{
#define CPU_DTYPE_IS(name, dtype_slot, bytes, dtype, hub, kind) \
    || ((CPU_KIND_##kind & kinds) != 0 && slot == CPU_##dtype_slot)
    return false CPU_DTYPES(CPU_DTYPE_IS);
#undef CPU_DTYPE_IS
}
/* Half and 8-bit floats too. */
static inline bool cpu_slot_is_float(int32_t slot)
{
    return cpu_slot_is(slot, CPU_KIND_FLOAT | CPU_KIND_HALF | CPU_KIND_FLOAT8);
}
static inline bool cpu_slot_is_half(int32_t slot)
{
    return cpu_slot_is(slot, CPU_KIND_HALF);
}
static inline bool cpu_slot_is_complex(int32_t slot)
{
    return cpu_slot_is(slot, CPU_KIND_COMPLEX);
}
/* Bool too, as in kernels. */
static inline bool cpu_slot_is_integer(int32_t slot)
{
    return cpu_slot_is(slot, CPU_KIND_BOOL | CPU_KIND_UNSIGNED | CPU_KIND_SIGNED);
}

#endif
