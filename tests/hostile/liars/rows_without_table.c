/* SPDX-License-Identifier: Apache-2.0 */
/* A thousand rows at NULL. */
#include "../honest.h"

void lie(void)
{
    the.kernels.rows = NULL;
    the.kernels.count = 1000;
}
