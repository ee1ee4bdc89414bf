/* SPDX-License-Identifier: Apache-2.0 */
/* open succeeds and gives no device. */
#include "../honest.h"

static int32_t open_nothing(void *self, uint32_t index, const tn_device_options *options, void **out_device)
{
    return TN_OK;
}

void lie(void)
{
    the.device.open = open_nothing;
}
