/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines of a context: see log.c. */
#ifndef TNI_CORE_LOG_H
#define TNI_CORE_LOG_H

#include "core/context.h"

/* Chooses where lines go; the context's sink is set if its program gave one. */
void tni_log_init(tn_context *ctx);
/* Warns about a variable of the environment whose value is not one of the `expected`; `assumed` is used in its place.
 * Without a sink the line goes to standard error. */
void tni_log_setting(tn_context *ctx, const char *variable, const char *value, const char *expected,
                     const char *assumed);

#endif
