/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel rows that nothing calls, by the reason. */
#ifndef TENON_KIT_ROWS_H
#define TENON_KIT_ROWS_H

#include <tenon/inspect.h>

/* Receives a line about rows of one plugin. */
typedef void say_rows(void *user, const char *text);

/* Each function calls `say` for what it finds among the rows of the plugin, and returns how often it did. */

/* Rows that no operator uses: none has their name, though there are others in its namespace, or the schema does not
 * fit. */
uint32_t misspelt_rows(tn_context *ctx, const char *plugin, say_rows *say, void *user);
/* Device types that no plugin in the search path has, and that are not names of Tenon's own plugins; one line for each. */
uint32_t rows_of_unknown_types(tn_context *ctx, const char *plugin, say_rows *say, void *user);
/* Known device types whose plugin is not loaded, one line for each; and rows that need a newer version. */
uint32_t rows_that_wait(tn_context *ctx, const char *plugin, say_rows *say, void *user);

#endif
