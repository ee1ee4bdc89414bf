/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel rows that nothing calls. */
#ifndef TENON_KIT_ROWS_H
#define TENON_KIT_ROWS_H

#include <tenon/inspect.h>

/* Calls `say` for each kernel row of the plugin whose operator does not exist, with the row's name and similar names of
 * operators. Returns how many there are. */
uint32_t misspelt_rows(tn_context *ctx, const char *plugin, void (*say)(void *user, const char *text),
                       void *user);

#endif
