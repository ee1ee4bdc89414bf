/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dtypes that have kernels or conversions. This list is the only one: sizes, slots and the conversion
 * tables follow from it. docs/cpu-plugin.md says what else a new dtype needs.
 */
#ifndef TENON_CPU_DTYPES_H
#define TENON_CPU_DTYPES_H

/*
 * X(name in the build's dtype lists, name of the slot, bytes of an element, tn_dtype, hub). The hub dtypes come
 * first. Operators without a kernel for a dtype are computed in its hub.
 */
#define CPU_HUB_DTYPES(X)             \
    X(f32, F32, 4, TN_FLOAT32, F32)   \
    X(f64, F64, 8, TN_FLOAT64, F64)   \
    X(i32, I32, 4, TN_INT32, I32)     \
    X(i64, I64, 8, TN_INT64, I64)     \
    X(c64, C64, 8, TN_COMPLEX64, C64) \
    X(c128, C128, 16, TN_COMPLEX128, C128)
#define CPU_OTHER_DTYPES(X)            \
    X(b8, BOOL, 1, TN_BOOL, I32)       \
    X(u8, U8, 1, TN_UINT8, I32)        \
    X(i8, I8, 1, TN_INT8, I32)         \
    X(i16, I16, 2, TN_INT16, I32)      \
    X(u16, U16, 2, TN_UINT16, I32)     \
    X(u32, U32, 4, TN_UINT32, I64)     \
    X(u64, U64, 8, TN_UINT64, I64)     \
    X(f16, F16, 2, TN_FLOAT16, F32)    \
    X(bf16, BF16, 2, TN_BFLOAT16, F32) \
    X(c32, C32, 4, TN_COMPLEX32, C64)
#define CPU_FLOAT8_DTYPES(X)                          \
    X(e4m3fn, E4M3FN, 1, TN_FLOAT8_E4M3FN, F32)       \
    X(e4m3fnuz, E4M3FNUZ, 1, TN_FLOAT8_E4M3FNUZ, F32) \
    X(e5m2, E5M2, 1, TN_FLOAT8_E5M2, F32)             \
    X(e5m2fnuz, E5M2FNUZ, 1, TN_FLOAT8_E5M2FNUZ, F32) \
    X(e8m0, E8M0, 1, TN_FLOAT8_E8M0FNU, F32)
#define CPU_DTYPES(X)   \
    CPU_HUB_DTYPES(X)   \
    CPU_OTHER_DTYPES(X) \
    CPU_FLOAT8_DTYPES(X)

/* A slot is the index of a dtype in the tables: CPU_F32, CPU_BOOL, ... */
#define CPU_DTYPE_SLOT(name, slot, bytes, dtype, hub) CPU_##slot,
enum { CPU_DTYPES(CPU_DTYPE_SLOT) CPU_SLOT_COUNT, CPU_HUB_COUNT = CPU_C128 + 1 };
#undef CPU_DTYPE_SLOT

/* The same by the name that the build uses: CPU_SLOT_f32, CPU_SLOT_b8, ... */
#define CPU_DTYPE_SLOT(name, slot, bytes, dtype, hub) CPU_SLOT_##name = CPU_##slot,
enum { CPU_DTYPES(CPU_DTYPE_SLOT) };
#undef CPU_DTYPE_SLOT

#endif
