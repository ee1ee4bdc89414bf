/* SPDX-License-Identifier: Apache-2.0 */
/* A device type without a name. */
#include "../honest.h"

void lie(void)
{
    the.device.type = NULL;
}
