/* SPDX-License-Identifier: Apache-2.0 */
/* init never returns. */
#include "../honest.h"

#include <unistd.h>

static int32_t hang(const tn_host *host, void **out_self)
{
    while (!the.device.size || pause()) continue;
    return honest_init(host, out_self);
}

void lie(void)
{
    the.table.init = hang;
}
