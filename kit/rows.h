/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel rows that nothing calls. */
#ifndef TENON_KIT_ROWS_H
#define TENON_KIT_ROWS_H

#include <tenon/inspect.h>

/* Calls `say` for each kernel row of the plugin that no operator uses: none has its name, though there are others in its
 * namespace, or its schema does not fit. Returns how many there are. */
uint32_t misspelt_rows(tn_context *ctx, const char *plugin, void (*say)(void *user, const char *text),
                       void *user);

#endif
