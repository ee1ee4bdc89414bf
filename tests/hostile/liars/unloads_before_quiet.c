/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin says that it can be unloaded, and its quiesce that it could not stop. */
#include "../honest.h"

static int32_t quiesce(void *self)
{
    return the.host->error(the.host->context, TN_E_STATE, "liar: still busy");
}

void lie(void)
{
    the.table.quiesce = quiesce;
}
