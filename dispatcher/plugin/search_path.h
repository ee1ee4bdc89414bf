/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where to search for plugins, and which of them to load.
 *
 *   option plugin_path    replaces the standard folders, else
 *   TENON_PLUGIN_PATH     replaces the standard folders
 *   TENON_PLUGIN_ADD      is searched after them
 *   TENON_PLUGIN_SELECT   only plugins whose name matches one of these comma separated globs
 *   TENON_PLUGIN_DISABLE  not these
 *   TENON_PLUGIN_PROBE    always, unknown (the default) or never; see probe.h
 *
 * Paths are ':' separated; an item is a folder or a manifest, and absolute: relative items are refused, so
 * the current folder is never searched. The standard folders are tenon/plugins beside this library and under
 * the configured prefix. A process with privileges its user lacks (set-id) reads no environment.
 */
#ifndef TNI_PLUGIN_SEARCH_PATH_H
#define TNI_PLUGIN_SEARCH_PATH_H

#include <limits.h>
#include <tenon/context.h>
#include "dispatcher/plugin/reason.h"

/* NULL: not set. */
typedef struct tni_plugin_settings {
    const char *path;
    const char *path_from; /* the variable or the option, for reasons */
    const char *add;
    const char *select;
    const char *disable;
    const char *probe;
    uint32_t shims; /* bits of the shims that are requested; see shims.h */
} tni_plugin_settings;

/* From the options (may be NULL) and the environment; strings are borrowed from them. */
tni_plugin_settings tni_plugin_settings_read(tn_context *ctx, const tn_context_options *options);

/* Called for each place in order. `named_by`: the variable or the option; NULL for the standard places, which may be
 * missing and are trusted. A status other than TN_OK ends the walk. */
typedef int32_t (*tni_place_fn)(void *user, const char *path, const char *named_by);
int32_t tni_standard_folders_walk(tni_place_fn place, void *user);
int32_t tni_search_path_walk(const tni_plugin_settings *settings, tni_place_fn place, void *user);
/* 1 if a plugin of that name may be loaded; else 0 and the reason. */
int32_t tni_plugin_wanted(const tni_plugin_settings *settings, const char *name, TN_OUT tni_reason *reason);

#endif
