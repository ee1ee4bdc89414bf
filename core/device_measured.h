/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a device by measurement: `tenon bench devices` has written how fast each one is. */
#ifndef TNI_CORE_DEVICE_MEASURED_H
#define TNI_CORE_DEVICE_MEASURED_H

#include "core/device.h"

#define TNI_MEASURED_TEXT 512

/* The device that is fastest by the user's measurement, NULL if there is none that holds for the devices of this
 * context. `text` says which numbers decided, or why there is no choice. */
tni_device *tni_measured_best(tn_context *ctx, char text[TNI_MEASURED_TEXT]);

#endif
