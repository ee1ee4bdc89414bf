/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 0, the manifest: `tenon check PLUGIN.so` loads a plugin by its path, programs find it by a manifest. A context
 * that searches the plugin's folder alone must load it.
 */
#include "sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What keeps discovery from a plugin, and the value it has outside of the case. */
typedef struct variable {
    const char *name;
    char *before;
} variable;

static void take_away(variable *v)
{
    const char *now = getenv(v->name);
    v->before = now ? strdup(now) : NULL;
    unsetenv(v->name);
}

static void put_back(variable *v)
{
    if (v->before) setenv(v->name, v->before, 1);
    free(v->before);
}

/* Whether the manifest is the library's; else *excuse has why it might have been meant. */
static int is_of_library(const check_target *t, const tn_candidate_info *c, char *excuse, size_t bytes)
{
    char path[4096] = "";
    if (c->library && realpath(c->library, path) && !strcmp(path, t->library)) return 1;
    if (!c->library)
        snprintf(excuse, bytes, "the manifest %s beside the library: %s", c->manifest, c->reason);
    else if (c->name && !strcmp(c->name, t->plugin))
        snprintf(excuse, bytes, "the manifest %s has the plugin's name, but its library is %s", c->manifest,
                 c->library);
    return 0;
}

static void look(const check_target *t, tn_context *ctx, check_result *out)
{
    char excuse[600] = "";
    for (uint32_t i = 0; i < tn_inspect_candidate_count(ctx); i++) {
        tn_candidate_info c = {.size = sizeof c};
        if (tn_inspect_candidate(ctx, i, &c) || !c.manifest || !is_of_library(t, &c, excuse, sizeof excuse))
            continue;
        check_that(out, c.state == TN_CANDIDATE_LOADED,
                   "programs do not find the plugin by its manifest %s: %s", c.manifest, c.reason);
        return;
    }
    if (check_that(out, !excuse[0], "%s", excuse))
        check_skip(out, "no manifest beside the library names it: programs find it by its path alone");
}

static void run(check_target *t, const check_case *c, check_result *out)
{
    variable variables[] = {
        {"TENON_PLUGIN_DISABLE", NULL}, {"TENON_PLUGIN_SELECT", NULL}, {"TENON_PLUGIN_ADD", NULL}};
    enum { COUNT = sizeof variables / sizeof *variables };
    char folder[sizeof t->library];
    snprintf(folder, sizeof folder, "%s", t->library);
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
    const tn_context_options options = {.size = sizeof options, .plugin_path = folder};
    tn_context *ctx = NULL;
    for (int i = 0; i < COUNT; i++) take_away(&variables[i]);
    if (tn_context_create(&options, &ctx))
        check_fail_with_error(out, NULL, "a context that searches the plugin's folder");
    else
        look(t, ctx, out);
    tn_context_destroy(ctx);
    for (int i = 0; i < COUNT; i++) put_back(&variables[i]);
}

void check_tier0_manifest(check_target *t, check_list *list)
{
    check_add(list, &(check_case){.run = run}, "0/manifest");
}
