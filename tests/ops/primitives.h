/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A suite with tensors on a device that has primitives only. The CPU may not help: each operator runs its
 * composite.
 */
#ifndef TESTS_OPS_PRIMITIVES_H
#define TESTS_OPS_PRIMITIVES_H

#include <tenon/inspect.h>
#include "suite.h"

static tn_device device;

static void begin_on_primitives(void)
{
    begin();
    device = tn_device_parse(ctx, "reference:0");
    cr_assert(device, "%s", tn_last_error()->message);
    tn_set_fallback_policy(ctx, TN_FALLBACK_ERROR);
}

static tn_tensor *there(tn_ints sizes, const double *values)
{
    return tn__to_copy(s, make(s, sizes, values, 0), .device = device);
}

#endif
