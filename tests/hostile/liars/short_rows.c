/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel rows of sixteen bytes. */
#include "../honest.h"

void lie(void)
{
    the.kernels.row_bytes = 16;
}
