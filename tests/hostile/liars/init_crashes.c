/* SPDX-License-Identifier: Apache-2.0 */
/* init reads where nothing is. */
#include "../honest.h"

static int *volatile nowhere;

static int32_t crash(const tn_host *host, void **out_self)
{
    *nowhere = 1;
    return honest_init(host, out_self);
}

void lie(void)
{
    the.table.init = crash;
}
