/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines of a context: see log.c. */
#ifndef TNI_CORE_LOG_H
#define TNI_CORE_LOG_H

#include "core/context.h"

/* Chooses where lines go; the context's sink is set if its program gave one. */
void tni_log_init(tn_context *ctx);

#endif
