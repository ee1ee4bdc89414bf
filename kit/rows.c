/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel rows that nothing calls, since no operator has their name; for `tenon doctor` and `tenon check`. */
#include "rows.h"

#include <stdio.h>
#include <string.h>
#include <tenon/context.h>
#include <tenon/op.h>

/* Whether an operator of that namespace is defined: `length` is that of "myop::". */
static int has_namespace(tn_context *ctx, const char *name, size_t length)
{
    for (uint32_t i = tn_inspect_operator_count(ctx); i-- > 0;) { /* those of libraries are the last ones */
        tn_operator_info op = {.size = sizeof op};
        if (tn_inspect_operator(ctx, i, &op) == TN_OK && strncmp(op.name, name, length) == 0) return 1;
    }
    return 0;
}

static void explain(tn_context *ctx, const char *schema, const char *name, char *text, size_t bytes)
{
    if (tn_operator_find(ctx, name)) {
        snprintf(text, bytes,
                 "the kernel row \"%s\" does not fit the definition of its operator, so nothing calls it",
                 schema);
        return;
    }
    const tn_error *error = tn_last_error(); /* names similar operators */
    const char *similar = error && error->message ? strstr(error->message, "; did you mean") : NULL;
    snprintf(text, bytes, "no operator has the name '%s' of a kernel row, so nothing calls it%s", name,
             similar ? similar : "");
}

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
        const char *colons = strstr(name, "::");
        if (colons && !has_namespace(ctx, name, (size_t)(colons - name) + 2)) continue;
        explain(ctx, row.schema, name, text, sizeof text);
        say(user, text);
        found++;
    }
    return found;
}
