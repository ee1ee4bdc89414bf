/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that a vendor's device may not have: those of Tenon's own devices, reserved for plugins whose block has the
 * vendor Tenon, and words with another meaning where a device is named.
 */
#ifndef TNI_PLUGIN_RESERVED_H
#define TNI_PLUGIN_RESERVED_H

#include <tenon/inspect.h>
#include "dispatcher/plugin/reason.h"

/* TN_OK; or TN_E_EXISTS and the reason why a plugin of that vendor may not use the name. */
int32_t tni_reserved_check(const char *device_type, const char *vendor, TN_OUT tni_reason *reason);

#endif
