/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel rows that nothing calls, since no operator has their name; for `tenon doctor` and `tenon check`. */
#include "rows.h"

#include <stdio.h>
#include <string.h>
#include <tenon/context.h>
#include <tenon/op.h>

uint32_t misspelt_rows(tn_context *ctx, const char *plugin, void (*say)(void *user, const char *text),
                       void *user)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < tn_inspect_unused_row_count(ctx); i++) {
        tn_unused_row_info row = {.size = sizeof row};
        char name[128], text[512];
        if (tn_inspect_unused_row(ctx, i, &row) || strcmp(row.plugin, plugin)) continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(row.schema, "("), row.schema);
        /* Operators of other namespaces may come with a library. */
        if (strncmp(name, "aten::", 6) && strncmp(name, "prim::", 6) && strstr(name, "::")) continue;
        tn_operator_find(ctx, name); /* its error names similar operators */
        const tn_error *error = tn_last_error();
        const char *similar = error && error->message ? strstr(error->message, "; did you mean") : NULL;
        snprintf(text, sizeof text, "no operator has the name '%s' of a kernel row, so nothing calls it%s",
                 name, similar ? similar : "");
        say(user, text);
        found++;
    }
    return found;
}
