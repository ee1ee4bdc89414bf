/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the plugin under test beside the CPU plugin, and watches how its calls are computed. */
#include "check.h"
#include "guard.h"

#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Loading ------------------------------------------------------------------------------------------- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

/* Errors that no status carries (a kernel that refuses after can_run agreed) are only logged: the first
 * one fails the case. All lines are shown with a case that fails. The library may log from any thread. */
static void note_log(void *user, int32_t level, const char *text)
{
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    check_target *t = user;
    char line[440];
    snprintf(line, sizeof line, "%s: %.400s", level >= 0 && level < 4 ? levels[level] : "log", text);
    for (char *c = line; *c; c++) {
        if (*c == '\n') *c = ' ';
    }
    pthread_mutex_lock(&log_lock);
    if (level == TN_LOG_ERROR && !t->error_line[0]) snprintf(t->error_line, sizeof t->error_line, "%s", text);
    check_log_line(t->log, line);
    if (t->log_stream) {
        fprintf(t->log_stream, "#%s\n", line);
        fflush(t->log_stream);
    }
    pthread_mutex_unlock(&log_lock);
}

void check_doing(const check_target *t, const char *format, ...)
{
    va_list args;
    if (!t->log_stream) return;
    pthread_mutex_lock(&log_lock);
    fputs("#@", t->log_stream);
    va_start(args, format);
    vfprintf(t->log_stream, format, args);
    va_end(args);
    fputc('\n', t->log_stream);
    fflush(t->log_stream);
    pthread_mutex_unlock(&log_lock);
}

static const char *last_error(void)
{
    return tn_last_error() && tn_last_error()->message ? tn_last_error()->message : "unknown error";
}

static int make_context(check_target *t)
{
    const tn_context_options options = {.size = sizeof options, .log = note_log, .log_user = t};
    if (tn_context_create(&options, &t->ctx) != TN_OK) return 1;
    if (t->options->op) guard_begin(t->ctx);
    return 0;
}

/* The candidate of a library file; state TN_CANDIDATE_LOADED first. */
static int find_candidate(const check_target *t, const char *library, tn_candidate_info *out)
{
    int found = 0;
    for (uint32_t i = 0; i < tn_inspect_candidate_count(t->ctx); i++) {
        tn_candidate_info c = {.size = sizeof c};
        if (tn_inspect_candidate(t->ctx, i, &c) || !c.library || strcmp(c.library, library)) continue;
        if (!found || c.state == TN_CANDIDATE_LOADED) *out = c;
        found = 1;
    }
    return found;
}

/* Keeps discovery from loading the installed plugin of the same name. */
static int disable(const char *name)
{
    char list[1024];
    const char *before = getenv("TENON_PLUGIN_DISABLE");
    snprintf(list, sizeof list, "%s%s%s", before ? before : "", before && *before ? "," : "", name);
    return setenv("TENON_PLUGIN_DISABLE", list, 1);
}

static int load(check_target *t, char *reason, size_t bytes)
{
    tn_candidate_info c = {.size = sizeof c};
    if (!realpath(t->options->plugin, t->library)) {
        snprintf(reason, bytes, "no file '%s'", t->options->plugin);
        return 1;
    }
    int32_t status = tn_library_open(t->ctx, t->library, NULL);
    if (status == TN_E_EXISTS && find_candidate(t, t->library, &c) && c.state != TN_CANDIDATE_LOADED) {
        if (disable(c.name)) return 1;
        tn_context_destroy(t->ctx);
        t->ctx = NULL;
        status = make_context(t) ? TN_E_STATE : tn_library_open(t->ctx, t->library, NULL);
    }
    /* It was loaded before. The error of an `init` may have the same status: an operator that is defined already. */
    if (status == TN_E_EXISTS && find_candidate(t, t->library, &c) && c.state == TN_CANDIDATE_LOADED)
        return 0;
    if (status == TN_OK) return 0;
    snprintf(reason, bytes, "cannot be loaded: %s", last_error());
    return 1;
}

/* ---- Choosing the devices ------------------------------------------------------------------------------ */

static void note_plugin(check_target *t, const tn_candidate_info *c)
{
    snprintf(t->plugin, sizeof t->plugin, "%s", c->name ? c->name : "");
    snprintf(t->version, sizeof t->version, "%s", c->version ? c->version : "");
    snprintf(t->vendor, sizeof t->vendor, "%s", c->vendor ? c->vendor : "");
    snprintf(t->library, sizeof t->library, "%s", c->library ? c->library : "");
    snprintf(t->experimental, sizeof t->experimental, "%s", c->experimental ? c->experimental : "");
}

/* The plugin that a device type comes from, when only the device was named. */
static void note_plugin_of(check_target *t)
{
    for (uint32_t i = 0; i < tn_inspect_candidate_count(t->ctx); i++) {
        tn_candidate_info c = {.size = sizeof c};
        if (tn_inspect_candidate(t->ctx, i, &c) == TN_OK && c.state == TN_CANDIDATE_LOADED && c.device_type &&
            strcmp(c.device_type, t->type) == 0 && c.device_count)
            note_plugin(t, &c);
    }
}

static int choose(check_target *t, char *reason, size_t bytes)
{
    const char *wish = t->options->device;
    tn_candidate_info c = {.size = sizeof c};
    if (t->options->plugin) {
        if (!find_candidate(t, t->library, &c)) return 1;
        note_plugin(t, &c);
        if (!wish && t->options->op) wish = "cpu";
        if (!wish && !c.device_count) {
            const char *none = c.device_type && *c.device_type ? "it does not say why"
                                                               : "it is a library of operators: use --op";
            snprintf(reason, bytes, "has no device here: %s", c.reason && *c.reason ? c.reason : none);
            return 1;
        }
    }
    t->device = tn_device_parse(t->ctx, wish ? wish : c.device_type);
    if (TN_DEVICE_INDEX(t->device) < 0) t->device = TN_DEVICE(TN_DEVICE_TYPE(t->device), 0);
    t->facts.size = sizeof t->facts;
    if (tn_device_get_facts(t->ctx, t->device, &t->facts)) {
        snprintf(reason, bytes, "device '%s': %s", wish ? wish : c.device_type, last_error());
        return 1;
    }
    snprintf(t->type, sizeof t->type, "%s", tn_interned(t->ctx, TN_DEVICE_TYPE(t->device)));
    tn_device_format(t->ctx, t->device, t->name, sizeof t->name);
    if (t->options->plugin && !t->options->op && strcmp(c.device_type, t->type)) {
        snprintf(reason, bytes, "its devices are of the type '%s', not '%s'", c.device_type, t->type);
        return 1;
    }
    if (!t->options->plugin) note_plugin_of(t);
    t->device_count = (uint32_t)tn_device_count(t->ctx, t->type);
    return 0;
}

/* The CPU plugin is compared with the reference device, everything else with the CPU. */
static void choose_other(check_target *t)
{
    t->other = TN_CPU;
    if (TN_DEVICE_TYPE(t->device) == TN_INTERNED_CPU)
        t->other = tn_device_count(t->ctx, "reference") > 0 ? tn_device_parse(t->ctx, "reference:0") : 0;
    else if (tn_device_count(t->ctx, "cpu") <= 0)
        t->other = 0;
    if (t->other) tn_device_format(t->ctx, t->other, t->other_name, sizeof t->other_name);
}

check_target *check_target_open(const check_options *options, char *reason, size_t bytes)
{
    check_target *t = calloc(1, sizeof *t);
    snprintf(reason, bytes, "out of memory");
    if (!t) return NULL;
    t->options = options;
    if (make_context(t)) {
        snprintf(reason, bytes, "no context: %s", last_error());
    } else if ((!options->plugin || !load(t, reason, bytes)) && !choose(t, reason, bytes)) {
        choose_other(t);
        tn_set_fallback_policy(t->ctx, TN_FALLBACK_SILENT);
        t->error_line[0] = 0;
        return t;
    }
    check_target_close(t);
    return NULL;
}

void check_target_close(check_target *t)
{
    if (t) tn_context_destroy(t->ctx);
    free(t);
}

/* ---- What there is ------------------------------------------------------------------------------------- */

static int holds(const tn_dtype *list, tn_dtype dtype)
{
    for (; list && *list; list++) {
        if (*list == dtype) return 1;
    }
    return 0;
}

int check_has_dtype(const check_target *t, tn_dtype dtype)
{
    return holds(t->facts.dtypes, dtype);
}

int check_has_kernel(const check_target *t, uint32_t op, const char *device_type, tn_dtype dtype)
{
    for (uint32_t i = 0; i < tn_inspect_kernel_count(t->ctx, op); i++) {
        tn_kernel_info k = {.size = sizeof k};
        if (tn_inspect_kernel(t->ctx, op, i, &k) || strcmp(k.device_type, device_type)) continue;
        if (!dtype || !k.dtypes || holds(k.dtypes, dtype)) return 1;
    }
    return 0;
}

/* ---- Ways ---------------------------------------------------------------------------------------------- */

/* The dtype of the first tensor among the arguments, 0 if no argument is one. */
static tn_dtype first_dtype(const tn_call_info *info)
{
    for (uint32_t i = 0; i < info->n_args; i++) {
        const tn_tensor *x = tn_value_as_tensor(info->args[i]);
        tn_tensors list = tn_value_as_tensors(info->args[i]);
        if (!x && list.count) x = list.data[0];
        if (x) return tn_tensor_dtype(x);
    }
    return 0;
}

static void count_nested(void *user, const tn_call_info *info, uint64_t *token)
{
    check_target *t = user;
    tn_operator_info op = {.size = sizeof op};
    t->nested += info->depth > 0;
    if (tn_inspect_operator_by_number(t->ctx, info->op, &op)) return;
    const check_seen now = {op.base, first_dtype(info)};
    for (uint32_t i = 0; i < t->n_seen; i++) {
        if (t->seen[i].op == now.op && t->seen[i].dtype == now.dtype) return;
    }
    if (t->n_seen < CHECK_SEEN) t->seen[t->n_seen++] = now;
}

void check_watch_begin(check_target *t, check_watch *w)
{
    const tn_observer observer = {.size = sizeof observer, .user = t, .enter = count_nested};
    memset(w, 0, sizeof *w);
    t->nested = t->n_seen = 0;
    tn_inspect_fallback_reset(t->ctx);
    if (tn_observer_add(t->ctx, &observer, &w->handle)) w->handle = 0;
}

int32_t check_watch_end(check_target *t, check_watch *w)
{
    size_t used = 0;
    if (w->handle) tn_observer_remove(t->ctx, w->handle);
    for (uint32_t i = 0; i < tn_inspect_fallback_count(t->ctx); i++) {
        tn_fallback_info f = {.size = sizeof f};
        if (tn_inspect_fallback(t->ctx, i, &f) || !f.count) continue;
        w->bytes += f.bytes;
        w->count += f.count;
        if (used < sizeof w->fallbacks)
            used += (size_t)snprintf(w->fallbacks + used, sizeof w->fallbacks - used, "%s%s",
                                     used ? ", " : "", f.name);
    }
    return w->count ? CHECK_WAY_CPU : t->nested ? CHECK_WAY_COMPOSITE : CHECK_WAY_NATIVE;
}
