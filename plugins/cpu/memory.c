/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that move and make data: prim::fill. */
#include "cpu.h"

const tn_kernel_row cpu_memory_rows[] = {{.size = 0}};
const uint32_t cpu_memory_row_count = 0;
