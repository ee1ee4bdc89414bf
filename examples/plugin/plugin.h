/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of the plugin share. */
#ifndef PLUGIN_H
#define PLUGIN_H

#define TN_PLUGIN
#include <tenon/plugin.h>

extern const tn_dtype acme_dtypes[]; /* what the device computes in; 0 ends */
extern const tn_kernels_interface acme_kernels;

/* `return fail(host, TN_E_..., "...")` from any slot or kernel. */
static inline int32_t fail(const tn_host *host, int32_t code, const char *message)
{
    return host->error(host->context, code, message);
}

#endif
