/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that a vendor's device may not have: those of Tenon's own devices, which only plugins whose block
 * names Tenon as the vendor may register, and words that mean something else wherever a device is named.
 */
#ifndef TNI_PLUGIN_RESERVED_H
#define TNI_PLUGIN_RESERVED_H

#include <tenon/inspect.h>
#include "dispatcher/plugin/reason.h"

/* TN_OK, or TN_E_EXISTS and why a plugin of that vendor may not name its device so. */
int32_t tni_reserved_check(const char *device_type, const char *vendor, TN_OUT tni_reason *reason);

#endif
