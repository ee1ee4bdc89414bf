/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel rows that nothing calls. */
#ifndef TENON_KIT_ROWS_H
#define TENON_KIT_ROWS_H

#include <tenon/inspect.h>

/* Says for each kernel row of the plugin whose operator does not exist which name it has, and which names are
 * similar. The number of them. */
uint32_t misspelt_rows(tn_context *ctx, const char *plugin, void (*say)(void *user, const char *text),
                       void *user);

#endif
