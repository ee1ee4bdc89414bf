/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that are compiled once for each dtype and level, and the choice among them. The build lists what it
 * compiles in kernel_lists.h. A family's x_dtype.c defines a struct of functions CPU_NAME(cpu_x_kernels):
 * cpu_x_kernels_f32_avx2 and so on. Its x.c joins them in a table:
 *
 *     #include "kernel_lists.h"
 *     CPU_KERNEL_TABLE(static cpu_kernel_table x_table, CPU_X_LISTS, cpu_x_kernels);
 *     ...
 *     const cpu_x_kernels *kernels = cpu_kernels_of(x_table, out->dtype);
 */
#ifndef TENON_CPU_KERNEL_TABLE_H
#define TENON_CPU_KERNEL_TABLE_H

#include "cpu.h"
#include "kernels/dtypes.h"

typedef const void *const cpu_kernel_table[CPU_LEVEL_COUNT][CPU_SLOT_COUNT];

/* The kernels of a slot or a dtype at the highest level that this process may use; NULL if there are none. */
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

/* Defines a table with the entries of a list of kernel_lists.h, which are of `type`. */
#define CPU_KERNEL_TABLE(definition, list, type) \
    list(CPU_LISTED_EXTERN, type) definition = {list(CPU_LISTED_ENTRY, type)}
#define CPU_LISTED_EXTERN(table, slot, level, type) extern const type table;
#define CPU_LISTED_ENTRY(table, slot, level, type)  [level][slot] = &table,

#endif
