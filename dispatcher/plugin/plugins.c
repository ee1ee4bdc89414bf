/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugins of a context: discovers, probes, loads and registers them when the context is made, lists the
 * candidates, opens libraries by path. If a plugin fails, only its own device is missing: the context is made
 * all the same, and the reason is kept.
 */
#include <stdio.h>
#include <string.h>
#include <tenon/inspect.h>
#include <unistd.h>
#include "core/thread.h"
#include "dispatcher/rows.h"
#include "dispatcher/plugin/discovery.h"
#include "dispatcher/plugin/load.h"
#include "dispatcher/plugin/probe.h"
#include "dispatcher/plugin/reserved.h"
#include "dispatcher/plugin/verdict.h"
#include "dispatcher/plugin/withdraw.h"
#include "dispatcher/rooms.h"

typedef struct plugins {
    tni_discovery found;
    tni_vector loaded;    /* tni_plugin * each, in the order of loading */
    tni_vector retired;   /* char * each: replaced texts, which programs may still hold */
    tn_library *opened;   /* open handles, linked by `next` */
    tni_shim_chain chain; /* stands before every plugin that is loaded */
    pthread_mutex_t lock; /* of the lists, and of loading */
    tni_plugin_settings
        settings; /* strings borrowed from the environment and the options: valid during init only */
} plugins;

struct tn_library {
    tn_context *ctx;
    tni_plugin *plugin;
    tni_candidate *candidate;
    tn_library *next;
};

/* ---- One candidate ----------------------------------------------------------------------------------- */

static int32_t fail_with_error(tni_reason *reason, int32_t status)
{
    const tn_error *error = tn_last_error();
    return tni_reason_set(reason, status, "%s", error ? error->message : tn_status_text(status));
}

/* The device type and kernel rows of a loaded plugin. */
static int32_t register_plugin(tni_plugin *p, tni_candidate *c, tni_reason *reason)
{
    tn_context *ctx = p->ctx;
    const char *type = p->has_device ? p->driver.device.type : c->device_type;
    const tni_device_type *taken;
    int32_t status = TN_OK;
    if (p->has_device && c->device_type[0] && strcmp(c->device_type, type) != 0)
        return tni_reason_set(reason, TN_E_STATE, "device type: the manifest says '%s', the plugin '%s'",
                              c->device_type, type);
    if (p->has_device && (status = tni_reserved_check(type, p->info->vendor, reason))) return status;
    taken = p->has_device ? tni_device_type_find(ctx, tn_intern(ctx, type)) : NULL;
    if (taken)
        return tni_reason_set(reason, TN_E_EXISTS, "the device type '%s' is taken by the plugin '%s'", type,
                              taken->driver.plugin);
    if (p->has_device && (status = tni_device_type_add(ctx, &p->driver)))
        return fail_with_error(reason, status);
    if (p->kernels.count > 0 && !type[0])
        return tni_reason_set(
            reason, TN_E_STATE,
            "kernels without a device: the manifest must name the device_type they are for");
    if (p->kernels.count > 0)
        status = tni_kernels_register(ctx, &(tni_rows){.device_type = type,
                                                       .owner = p->info->name,
                                                       .self = p->self,
                                                       .rows = p->kernels.rows,
                                                       .count = p->kernels.count,
                                                       .row_bytes = p->kernels.row_bytes});
    /* Behind the plugin's own rows, so that the order of loading does not change which row runs. */
    if (!status && p->has_device) tni_rows_adopt_device(ctx, tni_device_type_find(ctx, tn_intern(ctx, type)));
    return status ? fail_with_error(reason, status) : TN_OK;
}

/* Updates the candidate of a loaded plugin. */
static int32_t note_loaded(const tni_plugin *p, tni_candidate *c)
{
    if (p->has_device && tni_candidate_text(p->ctx, &c->device_type, p->driver.device.type))
        return TN_E_OUT_OF_MEMORY;
    return tni_candidate_set(p->ctx, c, TN_CANDIDATE_LOADED, "");
}

/* Removes its operators and kernels. Rows are found by address and, if the plugin has one, by `self`. */
static void withdraw(const tni_plugin *p, const tni_candidate *c)
{
    if (p->self) tni_kernels_remove(p->ctx, p->self);
    tni_plugin_withdraw(p->ctx, c->library);
}

/* The manifest and the library must agree on whether it is a shim: one loaded as a plugin would do nothing. */
static int32_t check_shim(const tni_plugin *p, const tni_candidate *c, tni_reason *reason)
{
    if (c->shim[0] && (!p->shim.size || p->has_device))
        return tni_reason_set(reason, TN_E_CONTRACT, "the manifest says shim '%s', but the library %s",
                              c->shim, p->has_device ? "has a device" : "has no interface 'tenon.shim'");
    if (!c->shim[0] && (p->shim.size || p->shim_behind))
        return tni_reason_set(reason, TN_E_CONTRACT,
                              "a shim: its manifest must have the key \"shim\", and the environment or "
                              "tn_context_options.shims must request it");
    return TN_OK;
}

/* Loads and registers a plugin. If registration fails, it stays loaded, since rows may point into it. */
static int32_t bring_up(plugins *all, tni_candidate *c, tni_plugin **out, tni_reason *reason)
{
    const tni_shim_chain *chain = c->shim[0] ? NULL : &all->chain;
    tn_context *ctx = all->found.ctx;
    tni_plugin *p;
    tni_plugin **slot = tni_vector_push(ctx, &all->loaded, sizeof(*slot));
    if (!slot) return tni_reason_set(reason, TN_E_OUT_OF_MEMORY, "out of memory");
    *slot = NULL;
    int32_t status = tni_plugin_load(ctx, c->library, &c->elf, chain, &p, reason);
    if (status != TN_OK) {
        tni_plugin_withdraw(ctx, c->library);
        return status;
    }
    *slot = p;
    status = check_shim(p, c, reason);
    if (status == TN_OK) status = register_plugin(p, c, reason);
    if (status == TN_OK) status = note_loaded(p, c);
    if (status != TN_OK) withdraw(p, c);
    if (status == TN_OK && out) *out = p;
    return status;
}

/* Runs the probe, unless a verdict on this file is stored. */
static int32_t probe(const plugins *all, const tni_candidate *c, int32_t trusted, tni_reason *reason)
{
    char helper[PATH_MAX];
    tni_verdict verdict;
    int32_t status;
    if (!tni_probe_wanted(&all->settings, trusted)) return TN_OK;
    tni_verdict_locate(c->library, &verdict);
    int32_t again = all->settings.probe && strcmp(all->settings.probe, "always") == 0;
    if (!again && tni_verdict_read(&verdict, &status, reason)) return status;
    status =
        tni_probe_run(tni_probe_helper(helper, sizeof(helper)), c->library, TNI_PROBE_TIMEOUT_MS, reason);
    tni_verdict_write(&verdict, status, reason);
    return status;
}

/* Probes, loads and registers; sets the state of the candidate. Returns the status of the plugin. */
static int32_t try_candidate(plugins *all, tni_candidate *c, int32_t trusted, tni_plugin **out,
                             tni_reason *reason)
{
    int32_t status = probe(all, c, trusted, reason);
    if (status == TN_OK) status = bring_up(all, c, out, reason);
    if (status != TN_OK) {
        tni_candidate_set(all->found.ctx, c, TN_CANDIDATE_FAILED, reason->text);
        tni_log(all->found.ctx, TN_LOG_WARN, "plugin %s: %s", c->name, reason->text);
    }
    return status;
}

/* ---- All candidates ---------------------------------------------------------------------------------- */

static int32_t is_loaded(const plugins *all, const char *name, size_t length)
{
    for (uint32_t i = 0; i < all->found.candidates.count; i++) {
        const tni_candidate *c = tni_candidate_at(&all->found, i);
        if (c->state == TN_CANDIDATE_LOADED && strlen(c->name) == length &&
            memcmp(c->name, name, length) == 0)
            return 1;
    }
    return 0;
}

/* The first required name that is not loaded, or NULL. */
static const char *missing_requirement(const plugins *all, const tni_candidate *c, size_t *out_length)
{
    for (const char *name = c->requires; *name;) {
        size_t length = strcspn(name, ",");
        *out_length = length;
        if (!is_loaded(all, name, length)) return name;
        name += length + (name[length] == ',');
    }
    return NULL;
}

/* Loads the candidates that are ready, each after those it requires, until no more can be loaded. */
static int32_t load_ready(plugins *all)
{
    tni_reason reason;
    size_t length;
    int32_t progress = 1;
    while (progress) {
        progress = 0;
        for (uint32_t i = 0; i < all->found.candidates.count; i++) {
            tni_candidate *c = tni_candidate_at(&all->found, i);
            if (c->state != TNI_CANDIDATE_READY || missing_requirement(all, c, &length)) continue;
            reason.text[0] = 0;
            (void)try_candidate(all, c, c->trusted, NULL, &reason);
            if (c->state == TNI_CANDIDATE_READY) return TN_E_OUT_OF_MEMORY; /* its state could not be set */
            progress = 1;
        }
    }
    for (uint32_t i = 0; i < all->found.candidates.count; i++) {
        tni_candidate *c = tni_candidate_at(&all->found, i);
        const char *name = c->state == TNI_CANDIDATE_READY ? missing_requirement(all, c, &length) : NULL;
        if (!name) continue;
        tni_reason_set(&reason, TN_E_STATE, "requires '%.*s', which is not loaded", (int)length, name);
        if (tni_candidate_set(all->found.ctx, c, TN_CANDIDATE_SKIPPED, reason.text))
            return TN_E_OUT_OF_MEMORY;
    }
    return TN_OK;
}

/* ---- Shims ------------------------------------------------------------------------------------------- */

static tni_candidate *ready_shim(const plugins *all, uint32_t index)
{
    for (uint32_t i = 0; i < all->found.candidates.count; i++) {
        tni_candidate *c = tni_candidate_at(&all->found, i);
        if (c->state == TNI_CANDIDATE_READY && strcmp(c->shim, tni_shim_kinds[index].name) == 0) return c;
    }
    return NULL;
}

/* Why no shim of that name is ready: the reason of the last candidate, or NULL if there is none. */
static const char *why_no_shim(const plugins *all, uint32_t index)
{
    const char *reason = NULL;
    for (uint32_t i = 0; i < all->found.candidates.count; i++) {
        const tni_candidate *c = tni_candidate_at(&all->found, i);
        if (strcmp(c->shim, tni_shim_kinds[index].name) == 0) reason = c->reason;
    }
    return reason;
}

/* Adds a candidate for a shim that has no file, so that the list shows every shim that was requested. */
static int32_t note_missing(plugins *all, uint32_t index, const tni_reason *reason)
{
    tni_candidate *c;
    int32_t status = tni_discover_nothing(&all->found, tni_shim_kinds[index].name, &c);
    return status ? status : tni_candidate_set(all->found.ctx, c, TN_CANDIDATE_FAILED, reason->text);
}

static int32_t configure(const tni_plugin *p, const char *setting, tni_reason *reason)
{
    tn_clear_error();
    int32_t status = p->shim.configure ? p->shim.configure(p->self, setting) : TN_OK;
    return status ? fail_with_error(reason, status) : TN_OK;
}

/* Finds, loads and configures one shim, and appends it to the chain. */
static int32_t load_shim(plugins *all, uint32_t index, const char *setting, tni_reason *reason)
{
    tn_context *ctx = all->found.ctx;
    tni_plugin *p = NULL;
    tni_candidate *c = ready_shim(all, index);
    int32_t status = TN_OK;
    if (!c) status = tni_discover_shims(&all->found, &all->settings);
    if (status == TN_OK && !c) c = ready_shim(all, index);
    if (status != TN_OK) return tni_reason_set(reason, status, "out of memory");
    if (!c) {
        const char *why = why_no_shim(all, index);
        tni_reason_set(reason, TN_E_NOT_FOUND, "%s",
                       why ? why : "no manifest in the search path or the standard folders offers it");
        return !why && note_missing(all, index, reason) ? TN_E_OUT_OF_MEMORY : TN_E_NOT_FOUND;
    }
    status = try_candidate(all, c, c->trusted, &p, reason);
    if (status == TN_OK && (status = configure(p, setting, reason)) != TN_OK)
        tni_candidate_set(ctx, c, TN_CANDIDATE_FAILED, reason->text);
    if (status == TN_OK) all->chain.shims[all->chain.count++] = p;
    return status;
}

/* Loads the shims that were requested, before any plugin. A shim that cannot be loaded is an error. */
static int32_t load_shims(plugins *all, const tni_shim_wishes *wishes)
{
    tn_context *ctx = all->found.ctx;
    for (uint32_t i = 0; i < TNI_SHIM_COUNT; i++) {
        tni_reason reason = {""};
        int32_t status = wishes->asked >> i & 1u ? load_shim(all, i, wishes->setting[i], &reason) : TN_OK;
        if (status == TN_OK) continue;
        if (status == TN_E_OUT_OF_MEMORY) return status;
        if (ctx->flags & TN_CONTEXT_TOLERATE_SHIMS) continue;
        tni_error(status, "shim '%s' was requested (%s=%s or an option of the context): %s",
                  tni_shim_kinds[i].name, tni_shim_kinds[i].variable, wishes->setting[i], reason.text);
        /* Many programs only say that there is no context: the user who set the variable should see why. */
        tni_log(ctx, TN_LOG_ERROR, "%s", tn_last_error()->message);
        return status;
    }
    for (uint32_t i = 0; i < TNI_SHIM_COUNT; i++) {
        tni_candidate *c;
        while ((c = ready_shim(all, i)))
            if (tni_candidate_set(ctx, c, TN_CANDIDATE_SKIPPED, "another file serves as this shim"))
                return TN_E_OUT_OF_MEMORY;
    }
    return TN_OK;
}

/* ---- Missing devices --------------------------------------------------------------------------------- */

/* See tn_context.explain_missing. Plugins may ask while they are loaded, with the lock held: then there is no reason. */
static void explain_missing(tn_context *ctx, const char *type, char *out, uint64_t bytes)
{
    plugins *all = ctx->plugins;
    tni_reason reason = {""};
    if (all && pthread_mutex_trylock(&all->lock) == 0) {
        tni_discovery_explain(&all->found, type, ctx->type_count > 0, &reason);
        pthread_mutex_unlock(&all->lock);
    }
    snprintf(out, bytes, "%s%s", reason.text[0] ? "; " : "", reason.text);
}

/* ---- The room ---------------------------------------------------------------------------------------- */

static void destroy(tn_context *ctx, plugins *all)
{
    /* In a child of fork the devices belong to the parent: nothing of a plugin may be called. */
    int32_t forked = ctx->pid != getpid();
    for (uint32_t i = all->loaded.count; i-- > 0;)
        (forked ? tni_plugin_abandon : tni_plugin_unload)(((tni_plugin **)all->loaded.data)[i]);
    tni_vector_finish(ctx, &all->loaded, sizeof(tni_plugin *));
    for (uint32_t i = 0; i < all->retired.count; i++) {
        char *text = ((char **)all->retired.data)[i];
        tni_free(ctx, text, strlen(text) + 1);
    }
    tni_vector_finish(ctx, &all->retired, sizeof(char *));
    while (all->opened) {
        tn_library *library = all->opened;
        all->opened = library->next;
        tni_free(ctx, library, sizeof(*library));
    }
    tni_discovery_finish(&all->found);
    pthread_mutex_destroy(&all->lock);
    tni_free(ctx, all, sizeof(*all));
}

int32_t tni_plugins_init(tn_context *ctx, const tn_context_options *options)
{
    plugins *all = tni_alloc_zeroed(ctx, sizeof(*all));
    tni_shim_wishes wishes;
    int32_t status;
    if (!all) return TN_E_OUT_OF_MEMORY;
    pthread_mutex_init(&all->lock, NULL);
    all->found.ctx = ctx;
    all->settings = tni_plugin_settings_read(ctx, options);
    ctx->plugins = all;
    ctx->explain_missing = explain_missing;
    status = tni_shim_wishes_read(options, &wishes);
    all->settings.shims = wishes.asked;
    if (status == TN_OK && !(ctx->flags & TN_CONTEXT_NO_DISCOVERY))
        status = tni_discover(ctx, &all->settings, &all->found);
    if (status == TN_OK) status = load_shims(all, &wishes);
    if (status == TN_OK) status = load_ready(all);
    all->settings = (tni_plugin_settings){0};
    if (status == TN_OK) return TN_OK;
    ctx->plugins = NULL;
    tni_devices_finish(ctx); /* before their plugins go */
    destroy(ctx, all);
    return status;
}

void tni_plugins_finish(tn_context *ctx)
{
    if (ctx->plugins) destroy(ctx, ctx->plugins);
    ctx->plugins = NULL;
}

/* ---- Libraries by path ------------------------------------------------------------------------------- */

static int32_t open_locked(plugins *all, const char *path, tn_library *library)
{
    tni_reason reason = {""};
    int32_t status = tni_discover_library(&all->found, path, &library->candidate);
    if (status != TN_OK) return status;
    tni_candidate *c = library->candidate;
    if (c->state == TNI_CANDIDATE_READY) {
        all->settings = tni_plugin_settings_read(all->found.ctx, NULL);
        status = try_candidate(all, c, 1, &library->plugin, &reason);
        return status ? tni_error_wrap(status, "%s: %s", path, reason.text) : TN_OK;
    }
    return tni_error(c->state == TN_CANDIDATE_SKIPPED ? TN_E_EXISTS : TN_E_IO, "%s: %s", path, c->reason);
}

/* A program that names a device plugin asks for its devices. */
static int32_t check_devices(const tni_plugin *p, const char *path)
{
    if (!p->has_device) return TN_OK;
    tni_device_type *type = tni_device_type_find(p->ctx, tn_intern(p->ctx, p->driver.device.type));
    int32_t status = tni_device_type_enumerate(type);
    return status ? tni_error_wrap(status, "%s: %s", path, tn_last_error()->message) : TN_OK;
}

int32_t tn_library_open(tn_context *ctx, const char *path, tn_library **out)
{
    int32_t unusable = tni_context_check(ctx);
    if (unusable) return unusable;
    plugins *all = ctx->plugins;
    if (!path || !path[0]) return tni_error(TN_E_ARGUMENT, "library_open: path is NULL or empty");
    tn_library *library = tni_alloc_zeroed(ctx, sizeof(*library));
    if (!library) return TN_E_OUT_OF_MEMORY;
    library->ctx = ctx;
    pthread_mutex_lock(&all->lock);
    int32_t status = open_locked(all, path, library);
    pthread_mutex_unlock(&all->lock);
    if (status == TN_OK) status = check_devices(library->plugin, path);
    if (status || !out) {
        tni_free(ctx, library, sizeof(*library));
        return status;
    }
    pthread_mutex_lock(&all->lock);
    library->next = all->opened;
    all->opened = *out = library;
    pthread_mutex_unlock(&all->lock);
    return TN_OK;
}

/* Programs may hold the old text: it lives as long as the context. */
static int32_t replace_reason(plugins *all, tni_candidate *c, const char *text)
{
    tn_context *ctx = all->found.ctx;
    char *copy = tni_strdup(ctx, text);
    char **slot = copy ? tni_vector_push(ctx, &all->retired, sizeof(*slot)) : NULL;
    if (slot) {
        *slot = c->reason;
        c->reason = copy;
    } else if (copy) {
        tni_free(ctx, copy, strlen(copy) + 1);
    }
    return slot ? TN_OK : TN_E_OUT_OF_MEMORY;
}

int32_t tn_library_close(tn_library *library)
{
    if (!library) return TN_OK;
    tn_context *ctx = library->ctx;
    plugins *all = ctx->plugins;
    tni_plugin *p = library->plugin;
    if (tni_tls.call_depth > 0) return tni_error(TN_E_STATE, "library_close: called from inside an operator");
    if (p->has_device)
        return tni_error(TN_E_STATE, "library_close: '%s' is a device plugin; it ends with the context",
                         p->info->name);
    pthread_mutex_lock(&all->lock);
    int32_t status = replace_reason(all, library->candidate, "closed by the program");
    if (status == TN_OK) {
        /* Its code and state stay until the context ends: a call on another thread may still be in it. */
        withdraw(p, library->candidate);
        library->candidate->state = TN_CANDIDATE_SKIPPED;
        tn_library **link = &all->opened;
        while (*link != library) link = &(*link)->next;
        *link = library->next;
    }
    pthread_mutex_unlock(&all->lock);
    if (status == TN_OK) tni_free(ctx, library, sizeof(*library));
    return status;
}

/* ---- Introspection ----------------------------------------------------------------------------------- */

uint32_t tn_inspect_candidate_count(tn_context *ctx)
{
    if (tni_context_check(ctx)) return 0;
    plugins *all = ctx->plugins;
    pthread_mutex_lock(&all->lock);
    uint32_t count = all->found.candidates.count;
    pthread_mutex_unlock(&all->lock);
    return count;
}

/* `type` is that of a loaded device plugin, else NULL. */
static tn_candidate_info candidate_info(const tni_candidate *c, const tni_plugin *p,
                                        const tni_device_type *type)
{
    int32_t known = c->elf.info.size != 0;
    const char *experimental = p && p->experimental_text ? tn_interned(p->ctx, p->experimental_text) : NULL;
    tn_candidate_info info = {
        .size = sizeof(tn_candidate_info),
        .state = c->state == TNI_CANDIDATE_READY ? TN_CANDIDATE_SKIPPED : c->state,
        .manifest = c->manifest,
        .library = c->library,
        .name = c->name,
        .version = known ? c->elf.info.version : "",
        .vendor = known ? c->elf.info.vendor : "",
        .device_type = c->device_type,
        .reason = c->reason,
        .device_count = type ? type->count : 0,
        .shim = c->shim,
        .experimental = experimental ? experimental : "",
    };
    if (type && !type->count && type->reason) info.reason = type->reason;
    if (type && type->failure) info.state = TN_CANDIDATE_FAILED;
    return info;
}

/* The plugin of candidate i if it is loaded, else NULL. With the lock held. */
static tni_plugin *loaded_plugin(const plugins *all, uint32_t i)
{
    const tni_candidate *c = tni_candidate_at(&all->found, i);
    for (uint32_t k = 0; c->state == TN_CANDIDATE_LOADED && k < all->loaded.count; k++) {
        tni_plugin *p = ((tni_plugin **)all->loaded.data)[k];
        if (p && strcmp(p->info->name, c->name) == 0) return p;
    }
    return NULL;
}

static tni_device_type *type_of(const plugins *all, uint32_t i)
{
    const tni_plugin *p = i < all->found.candidates.count ? loaded_plugin(all, i) : NULL;
    return p && p->has_device ? tni_device_type_find(p->ctx, tn_intern(p->ctx, p->driver.device.type)) : NULL;
}

/* Asks for the candidate's devices. The plugin may log, and a log sink may ask for candidates: so the lock is not
 * held. */
static int32_t enumerate(plugins *all, uint32_t i, tni_device_type **out)
{
    pthread_mutex_lock(&all->lock);
    *out = type_of(all, i);
    pthread_mutex_unlock(&all->lock);
    return *out && tni_device_type_enumerate(*out) == TN_E_OUT_OF_MEMORY ? TN_E_OUT_OF_MEMORY : TN_OK;
}

int32_t tn_inspect_candidate(tn_context *ctx, uint32_t i, tn_candidate_info *out)
{
    int32_t unusable = tni_context_check(ctx);
    if (unusable) return unusable;
    plugins *all = ctx->plugins;
    tn_candidate_info info;
    if (!out) return tni_error(TN_E_ARGUMENT, "inspect_candidate: out is NULL");
    uint32_t size = out->size;
    if (size < sizeof(size))
        return tni_error(TN_E_ARGUMENT, "inspect_candidate: size is %u; set it to sizeof(tn_candidate_info)",
                         size);
    tni_device_type *type;
    int32_t status = enumerate(all, i, &type);
    if (status) return status;
    pthread_mutex_lock(&all->lock);
    int32_t found = i < all->found.candidates.count;
    if (found) info = candidate_info(tni_candidate_at(&all->found, i), loaded_plugin(all, i), type);
    pthread_mutex_unlock(&all->lock);
    if (!found) return tni_error(TN_E_INDEX, "inspect_candidate: there is no candidate %u", i);
    memcpy(out, &info, size < sizeof(info) ? size : sizeof(info));
    out->size = size;
    return TN_OK;
}

/* The plugin logs while it checks itself, and a log sink may ask for candidates: so the lock is not held. */
int32_t tn_inspect_self_test(tn_context *ctx, uint32_t i)
{
    int32_t unusable = tni_context_check(ctx);
    if (unusable) return unusable;
    plugins *all = ctx->plugins;
    pthread_mutex_lock(&all->lock);
    int32_t found = i < all->found.candidates.count;
    const tni_plugin *p = found ? loaded_plugin(all, i) : NULL;
    pthread_mutex_unlock(&all->lock);
    if (!found)
        return tni_error(TN_E_INDEX, "inspect_self_test: argument 'i': no such candidate (got %u)", i);
    if (!p) return tni_error(TN_E_STATE, "inspect_self_test: argument 'i': candidate %u is not loaded", i);
    return p->table.self_test ? p->table.self_test(p->self) : TN_OK;
}

const char *tn_inspect_search_path(tn_context *ctx, uint32_t i)
{
    if (tni_context_check(ctx)) return NULL;
    const plugins *all = ctx->plugins;
    return i < all->found.folders.count ? ((char **)all->found.folders.data)[i] : NULL;
}
