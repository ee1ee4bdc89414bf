/* SPDX-License-Identifier: Apache-2.0 */
/* Findings: breaches of the contract that the host or a shim saw, kept in the context; see tn_finding. */
#ifndef TNI_CORE_FINDING_H
#define TNI_CORE_FINDING_H

#include "core/context.h"
#include "core/error.h"

/* Keeps a finding and logs it. Equal ones (finder, kind, plugin, text, place) are counted, not kept again; it
 * is logged the first time. A struct of another age is read by the rule of skew. */
int32_t tni_report(tn_context *ctx, const tn_finding *finding);
/* What the host itself found. `op` may be NULL. */
void tni_breach(tn_context *ctx, const char *plugin, const char *kind, const char *op, const char *format,
                ...) TNI_PRINTF(5, 6);
void tni_findings_finish(tn_context *ctx);

#endif
