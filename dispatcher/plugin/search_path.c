/* SPDX-License-Identifier: Apache-2.0 */
/* The search path and the lists of names to load; see search_path.h. */
#include "dispatcher/plugin/search_path.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plugin/paths.h" /* made by the build */
#include "core/log.h"
#include "dispatcher/plugin/trust.h"

/* NULL for a variable that is empty or not set. */
static const char *environment(const char *name)
{
    const char *text = secure_getenv(name);
    return text && *text ? text : NULL;
}

/* NULL for a value that is not one of the three, after a warning: then unknown plugins are probed. */
static const char *probe_setting(tn_context *ctx)
{
    const char *text = environment("TENON_PLUGIN_PROBE");
    if (!text || !strcmp(text, "always") || !strcmp(text, "unknown") || !strcmp(text, "never")) return text;
    tni_log_setting(ctx, "TENON_PLUGIN_PROBE", text, "always, unknown or never", "unknown");
    return NULL;
}

tni_plugin_settings tni_plugin_settings_read(tn_context *ctx, const tn_context_options *options)
{
    tni_plugin_settings s = {
        .path = environment("TENON_PLUGIN_PATH"),
        .path_from = "TENON_PLUGIN_PATH",
        .add = environment("TENON_PLUGIN_ADD"),
        .select = environment("TENON_PLUGIN_SELECT"),
        .disable = environment("TENON_PLUGIN_DISABLE"),
        .probe = probe_setting(ctx),
    };
    if (options && options->plugin_path) {
        s.path = options->plugin_path;
        s.path_from = "the option plugin_path";
    }
    return s;
}

/* Copies the next item of a list, cut if it is too long; moves *list behind it. 0 at the end. */
static int32_t next_item(const char **list, char separator, char *item, size_t bytes)
{
    while (*list && **list) {
        const char *end = strchr(*list, separator);
        size_t length = end ? (size_t)(end - *list) : strlen(*list);
        const char *start = *list;
        *list += length + (end != NULL);
        if (length == 0) continue;
        if (length >= bytes) length = bytes - 1;
        memcpy(item, start, length);
        item[length] = 0;
        return 1;
    }
    return 0;
}

static int32_t walk_list(const char *list, const char *named_by, tni_place_fn place, void *user)
{
    char item[PATH_MAX];
    int32_t status = TN_OK;
    while (status == TN_OK && next_item(&list, ':', item, sizeof(item))) status = place(user, item, named_by);
    return status;
}

int32_t tni_standard_folders_walk(tni_place_fn place, void *user)
{
    char library[PATH_MAX], folder[PATH_MAX + 32];
    char *slash = strrchr(tni_library_path(library, sizeof(library)), '/');
    int32_t status = TN_OK;
    if (slash) {
        *slash = 0;
        snprintf(folder, sizeof(folder), "%s/tenon/plugins", library);
        status = place(user, folder, NULL);
    }
    if (status == TN_OK && !(slash && strcmp(folder, TNI_PLUGIN_FOLDER) == 0))
        status = place(user, TNI_PLUGIN_FOLDER, NULL);
    return status;
}

int32_t tni_search_path_walk(const tni_plugin_settings *settings, tni_place_fn place, void *user)
{
    const char *from = settings->path_from ? settings->path_from : "the search path";
    int32_t status = settings->path ? walk_list(settings->path, from, place, user)
                                    : tni_standard_folders_walk(place, user);
    if (status == TN_OK && settings->add) status = walk_list(settings->add, "TENON_PLUGIN_ADD", place, user);
    return status;
}

static int32_t matches(const char *list, const char *name)
{
    char glob[128];
    while (next_item(&list, ',', glob, sizeof(glob))) {
        if (fnmatch(glob, name, 0) == 0) return 1;
    }
    return 0;
}

int32_t tni_plugin_wanted(const tni_plugin_settings *settings, const char *name, tni_reason *reason)
{
    if (settings->select && !matches(settings->select, name)) {
        tni_reason_set(reason, TN_E_STATE, "not selected: TENON_PLUGIN_SELECT is '%s'", settings->select);
        return 0;
    }
    if (settings->disable && matches(settings->disable, name)) {
        tni_reason_set(reason, TN_E_STATE, "disabled: TENON_PLUGIN_DISABLE is '%s'", settings->disable);
        return 0;
    }
    return 1;
}
