/* SPDX-License-Identifier: Apache-2.0 */
/* Calls its device type as the host's own is called. */
#include "../honest.h"

void lie(void)
{
    the.device.type = "cpu";
}
