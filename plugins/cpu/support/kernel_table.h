/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that are compiled once for each dtype and level, and the choice among them. The build lists what it
 * compiles in kernel_lists.h. A family's x_dtype.c defines a struct of functions CPU_NAME(cpu_x_kernels):
 * cpu_x_kernels_f32_avx2 and so on. Its x.c joins them in a table:
 *
 *     #include "kernel_lists.h"
 *     #define DECLARE(table, slot, level) extern const cpu_x_kernels table;
 *     CPU_X_LISTS(DECLARE)
 *     static cpu_kernel_table x_table = {CPU_X_LISTS(CPU_LISTED_KERNELS)};
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

/* An entry of a table that is made from a list of kernel_lists.h. */
#define CPU_LISTED_KERNELS(table, slot, level) [level][slot] = &table,

#endif
