/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that are compiled once for each dtype and level, and the choice among them. A family's NAME_dtype.c
 * defines a struct of functions CPU_NAME(cpu_x_kernels), which is cpu_x_kernels_f32_avx2 and so on; its
 * NAME.c joins them:
 *
 *     CPU_DECLARE_KERNELS(cpu_x_kernels, cpu_x_kernels, CPU_FLOATS)
 *     static cpu_kernel_table x_table = CPU_KERNEL_TABLE(cpu_x_kernels, CPU_FLOATS);
 *     ...
 *     const cpu_x_kernels *kernels = cpu_kernels_of(x_table, out->dtype);
 *
 * nn/meson.build compiles the file for the same list of dtypes.
 */
#ifndef TENON_CPU_KERNEL_TABLE_H
#define TENON_CPU_KERNEL_TABLE_H

#include "cpu.h"
#include "kernel_lists.h"
#include "kernels/dtypes.h"

typedef const void *const cpu_kernel_table[CPU_LEVEL_COUNT][CPU_SLOT_COUNT];

/*
 * The kernels of a slot or dtype at the highest level that this process may use; NULL if the table has none.
 */
static inline const void *cpu_kernels_at(cpu_kernel_table table, int32_t slot)
{
    uint32_t level = cpu_level();
    while (level > 0 && !table[level][slot]) level--;
    return table[level][slot];
}
static inline const void *cpu_kernels_of(cpu_kernel_table table, tn_dtype dtype)
{
    int32_t slot = cpu_slot(dtype);
    return slot < 0 ? NULL : cpu_kernels_at(table, slot);
}

/*
 * An entry of a table that is made from a list of kernel_lists.h:
 *
 *     static cpu_kernel_table hub_table = {CPU_CONVERT_LISTS(CPU_LISTED_KERNELS)};
 */
#define CPU_LISTED_KERNELS(table, slot, level) [level][slot] = &table,

/* Lists of dtypes by their names in the build. */
#define CPU_FULL_FLOATS(X, ...) \
    X(f32, __VA_ARGS__)         \
    X(f64, __VA_ARGS__)
#define CPU_FLOATS(X, ...) \
    X(f16, __VA_ARGS__)    \
    X(bf16, __VA_ARGS__)   \
    CPU_FULL_FLOATS(X, __VA_ARGS__)
#define CPU_INTEGERS(X, ...) \
    X(i64, __VA_ARGS__)      \
    X(i32, __VA_ARGS__)      \
    X(i16, __VA_ARGS__)      \
    X(i8, __VA_ARGS__)       \
    X(u8, __VA_ARGS__)
#define CPU_REALS(X, ...) CPU_FLOATS(X, __VA_ARGS__) CPU_INTEGERS(X, __VA_ARGS__)
#define CPU_ALL(X, ...)  \
    X(c64, __VA_ARGS__)  \
    X(c128, __VA_ARGS__) \
    X(b8, __VA_ARGS__)   \
    CPU_REALS(X, __VA_ARGS__)

/* The levels that the build has. */
#ifdef CPU_HAVE_AVX2
#define CPU_IF_AVX2(...) __VA_ARGS__
#else
#define CPU_IF_AVX2(...)
#endif
#ifdef CPU_HAVE_AVX512
#define CPU_IF_AVX512(...) __VA_ARGS__
#else
#define CPU_IF_AVX512(...)
#endif

#define CPU_DECLARE_KERNEL(dtype, type, name, level) extern const type name##_##dtype##_##level;
#define CPU_DECLARE_KERNELS(type, name, LIST)               \
    LIST(CPU_DECLARE_KERNEL, type, name, base)              \
    CPU_IF_AVX2(LIST(CPU_DECLARE_KERNEL, type, name, avx2)) \
    CPU_IF_AVX512(LIST(CPU_DECLARE_KERNEL, type, name, avx512))

#define CPU_KERNEL_ENTRY(dtype, name, level) [CPU_SLOT_##dtype] = &name##_##dtype##_##level,
#define CPU_KERNEL_TABLE(name, LIST)                                                     \
    {                                                                                    \
        [CPU_LEVEL_BASE] = {LIST(CPU_KERNEL_ENTRY, name, base)},                         \
        CPU_IF_AVX2([CPU_LEVEL_AVX2] = {LIST(CPU_KERNEL_ENTRY, name, avx2)}, )           \
            CPU_IF_AVX512([CPU_LEVEL_AVX512] = {LIST(CPU_KERNEL_ENTRY, name, avx512)}, ) \
    }

#endif
