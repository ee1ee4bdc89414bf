/* SPDX-License-Identifier: Apache-2.0 */
/* A row that does not say its size. */
#include "../honest.h"

void lie(void)
{
    the.rows[0].size = 0;
}
