/* SPDX-License-Identifier: Apache-2.0 */
/* Making an event succeeds and gives none. */
#include "../honest.h"

static int32_t create_nothing(void *self, void *device, uint32_t flags, void **out_event)
{
    return TN_OK;
}

void lie(void)
{
    the.event.create = create_nothing;
}
