/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel returns a number that is not a status. */
#include "../honest.h"

static int32_t fail(void *self, const tn_call *call)
{
    return -12345;
}

void lie(void)
{
    the.rows[0].run = fail;
}
