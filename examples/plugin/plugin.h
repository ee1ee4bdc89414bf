/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the plugin share. */
#ifndef PLUGIN_H
#define PLUGIN_H

#define TN_PLUGIN
#include <tenon/plain_kernels.h>
#include <tenon/plugin.h>

extern const tn_dtype acme_dtypes[]; /* 0 ends them */
extern const tn_kernels_interface acme_kernels;

/* A row of kernels.c: schema, dtypes, flags, function, opcode. The host calls the function itself. */
#define ROW(...) TN_PLAIN_ROW(acme_can_run, __VA_ARGS__)

/* `return fail(host, TN_E_..., "...")` from any slot or kernel. */
static inline int32_t fail(const tn_host *host, int32_t status, const char *message)
{
    return host->error(host->context, status, message);
}

#endif
