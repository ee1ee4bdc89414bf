/* SPDX-License-Identifier: Apache-2.0 */
/* From the first kernel on everything says that the device is lost. */
#include "../honest.h"

static int32_t is_lost;

static int32_t lost(void)
{
    return the.host->error(the.host->context, TN_E_DEVICE_LOST, "liar: the device is lost");
}

static int32_t add(void *self, const tn_call *call)
{
    is_lost = 1;
    return lost();
}

static int32_t synchronize(void *self, void *device, void *stream)
{
    return is_lost ? lost() : TN_OK;
}

void lie(void)
{
    the.rows[0].run = add;
    the.stream.synchronize = synchronize;
}
