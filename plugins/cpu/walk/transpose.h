/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_CPU_TRANSPOSE_H
#define TENON_CPU_TRANSPOSE_H

#include <stdint.h>

/*
 * Moves element (r, c) from from + c * from_column + r * bytes to to + r * to_row + c * bytes: the source is
 * contiguous along r, the target along c. Any strides; elements of 1, 2, 4, 8 or 16 bytes.
 */
void cpu_transpose(char *to, int64_t to_row, const char *from, int64_t from_column, int64_t columns,
                   int64_t rows, int64_t bytes);

#endif
