/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel rows that nothing calls, since no operator has their name, or no plugin their device type; for `tenon doctor` and
 * `tenon check`. */
#include "rows.h"

#include <stdio.h>
#include <string.h>
#include <tenon/context.h>
#include <tenon/op.h>
#include "similar_name.h"

/* Reads unused row i; 0 if it is one of another plugin than this (NULL: of any), or for another reason. */
static int read_row(tn_context *ctx, uint32_t i, const char *plugin, uint32_t why, tn_unused_row_info *out)
{
    *out = (tn_unused_row_info){.size = sizeof *out};
    return !tn_inspect_unused_row(ctx, i, out) && (!plugin || strcmp(out->plugin, plugin) == 0) &&
           out->why == why;
}

/* ---- Operators ---------------------------------------------------------------------------------------- */

/* "myop" of "myop::f": its length; 0 if there is none. */
static size_t namespace_length(const char *name)
{
    const char *colons = strstr(name, "::");
    return colons ? (size_t)(colons - name) : 0;
}

/* Whether two texts are equal but for one letter that is replaced, added or left out. */
static int is_near(const char *a, size_t n, const char *b, size_t m)
{
    return similar_name_distance(a, (uint32_t)n, b, (uint32_t)m, 2) < 2;
}

/* Namespaces shorter than this resemble each other by chance; then the rest of the name must be equal. */
#define LONG_NAMESPACE 4

/*
 * Whether an operator of that namespace is defined, or one whose namespace it resembles: then the name of the row is
 * misspelt. Operators of other namespaces may come with a library.
 */
static int has_namespace(tn_context *ctx, const char *name)
{
    const size_t length = namespace_length(name);
    for (uint32_t i = tn_inspect_operator_count(ctx); i-- > 0;) { /* those of libraries are the last ones */
        tn_operator_info op = {.size = sizeof op};
        if (tn_inspect_operator(ctx, i, &op) != TN_OK) continue;
        const size_t other = namespace_length(op.name);
        if (!is_near(name, length, op.name, other)) continue;
        if (length == other && strncmp(op.name, name, length) == 0) return 1;
        if ((length >= LONG_NAMESPACE && other >= LONG_NAMESPACE) || !strcmp(name + length, op.name + other))
            return 1;
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

/* A row of the namespace of `op`, or of one that it resembles. */
static int is_beside(const char *row, const char *op)
{
    return is_near(row, namespace_length(row), op, namespace_length(op));
}

uint32_t misspelt_rows(tn_context *ctx, const unused_rows *which, say_rows *say, void *user)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < tn_inspect_unused_row_count(ctx); i++) {
        tn_unused_row_info row;
        char name[128], text[512];
        if (!read_row(ctx, i, which->plugin, TN_UNUSED_OPERATOR, &row)) continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(row.schema, "("), row.schema);
        if (!which->plugin && !is_beside(name, which->op)) continue;
        if (!has_namespace(ctx, name)) {
            if (!which->foreign) continue;
            snprintf(text, sizeof text,
                     "no operator of the namespace of the kernel row '%s' is defined, so nothing calls it "
                     "unless another library defines it",
                     name);
        } else if (which->foreign) {
            continue;
        } else {
            explain(ctx, row.schema, name, text, sizeof text);
        }
        say(user, text);
        found++;
    }
    return found;
}

/* ---- Device types ------------------------------------------------------------------------------------- */

static int is_known_type(tn_context *ctx, const char *type)
{
    for (uint32_t i = 0; i < tn_inspect_candidate_count(ctx); i++) {
        tn_candidate_info c = {.size = sizeof c};
        if (tn_inspect_candidate(ctx, i, &c) == TN_OK && c.device_type && strcmp(c.device_type, type) == 0)
            return 1;
    }
    return tn_inspect_reserved_name(type) != NULL;
}

/* How many rows wait for the device type of row i; 0 if an earlier row has said so. */
static uint32_t count_type(tn_context *ctx, const char *plugin, uint32_t i, const char *type)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < tn_inspect_unused_row_count(ctx); k++) {
        tn_unused_row_info row;
        if (!read_row(ctx, k, plugin, TN_UNUSED_DEVICE, &row) || strcmp(row.device_type, type)) continue;
        if (k < i) return 0;
        count++;
    }
    return count;
}

static uint32_t waiting_types(tn_context *ctx, const char *plugin, int known, const char *why, say_rows *say,
                              void *user)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < tn_inspect_unused_row_count(ctx); i++) {
        tn_unused_row_info row;
        char text[256];
        if (!read_row(ctx, i, plugin, TN_UNUSED_DEVICE, &row)) continue;
        uint32_t count = count_type(ctx, plugin, i, row.device_type);
        if (!count || is_known_type(ctx, row.device_type) != known) continue;
        snprintf(text, sizeof text, "%u kernel row%s for the device type '%s' wait%s: %s", count,
                 count == 1 ? "" : "s", row.device_type, count == 1 ? "s" : "", why);
        say(user, text);
        found++;
    }
    return found;
}

uint32_t rows_of_unknown_types(tn_context *ctx, const char *plugin, say_rows *say, void *user)
{
    return waiting_types(ctx, plugin, 0, "no plugin in the search path has it; is the name misspelt?", say,
                         user);
}

uint32_t rows_that_wait(tn_context *ctx, const char *plugin, say_rows *say, void *user)
{
    uint32_t found = waiting_types(ctx, plugin, 1, "no plugin that has it is loaded", say, user);
    for (uint32_t i = 0; i < tn_inspect_unused_row_count(ctx); i++) {
        tn_unused_row_info row;
        char text[512];
        if (!read_row(ctx, i, plugin, TN_UNUSED_UNKNOWN, &row)) continue;
        snprintf(text, sizeof text, "the kernel row \"%.300s\" is passed over: %s", row.schema, row.unknown);
        say(user, text);
        found++;
    }
    return found;
}
