/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel rows that nothing calls, by the reason. */
#ifndef TENON_KIT_ROWS_H
#define TENON_KIT_ROWS_H

#include <tenon/inspect.h>

/* Receives a line about rows. */
typedef void say_rows(void *user, const char *text);

/* Which rows that no operator uses. */
typedef struct unused_rows {
    /* Rows of this plugin; NULL: of any, if their namespace is that of `op` or resembles it. */
    const char *plugin;
    const char *op; /* "mylib::f" */
    int foreign;    /* rows whose namespace is not known, instead of those that are misspelt */
} unused_rows;

/* Each function calls `say` for what it finds, and returns how often it did. */

/* Rows that no operator uses: none has their name, though there are others in its namespace or in one that resembles it, or the
 * schema does not fit. */
uint32_t misspelt_rows(tn_context *ctx, const unused_rows *which, say_rows *say, void *user);
/* Device types that no plugin in the search path has, and that are not names of Tenon's own plugins; one line for each, of rows
 * of this plugin (NULL: of any). */
uint32_t rows_of_unknown_types(tn_context *ctx, const char *plugin, say_rows *say, void *user);
/* Known device types whose plugin is not loaded, one line for each; and rows that need a newer version. */
uint32_t rows_that_wait(tn_context *ctx, const char *plugin, say_rows *say, void *user);

#endif
