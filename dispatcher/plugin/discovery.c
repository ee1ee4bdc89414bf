/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over the search path; see discovery.h. */
#include "dispatcher/plugin/discovery.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/inspect.h>
#include <unistd.h>
#include "core/log.h"
#include "dispatcher/plugin/allow.h"
#include "dispatcher/plugin/shims.h"
#include "dispatcher/plugin/trust.h"

/* A folder with more manifests than this is refused. */
#define MAX_MANIFESTS 1024

typedef struct walk {
    tni_discovery *d;
    const tni_plugin_settings *settings;
    int32_t only_shims; /* manifests of other plugins are passed over */
} walk;

/* ---- Candidates -------------------------------------------------------------------------------------- */

int32_t tni_candidate_text(tn_context *ctx, char **slot, const char *text)
{
    char *copy = tni_strdup(ctx, text);
    if (!copy) return TN_E_OUT_OF_MEMORY;
    if (*slot) tni_free(ctx, *slot, strlen(*slot) + 1);
    *slot = copy;
    return TN_OK;
}

int32_t tni_candidate_set(tn_context *ctx, tni_candidate *c, uint32_t state, const char *reason)
{
    int32_t status = tni_candidate_text(ctx, &c->reason, reason);
    if (status == TN_OK) c->state = state;
    return status;
}

static void candidate_destroy(tn_context *ctx, tni_candidate *c)
{
    char *const strings[] = {c->manifest, c->library, c->name,  c->device_type,
                             c->requires, c->shim,    c->reason};
    for (uint32_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
        if (strings[i]) tni_free(ctx, strings[i], strlen(strings[i]) + 1);
    }
    tni_free(ctx, c, sizeof(*c));
}

static int32_t candidate_add(tni_discovery *d, const char *manifest, tni_candidate **out)
{
    tn_context *ctx = d->ctx;
    tni_candidate *c = tni_alloc_zeroed(ctx, sizeof(*c));
    if (!c) return TN_E_OUT_OF_MEMORY;
    tni_candidate **slot = NULL;
    c->state = TN_CANDIDATE_FAILED;
    if ((manifest && tni_candidate_text(ctx, &c->manifest, manifest)) ||
        tni_candidate_text(ctx, &c->name, "") || tni_candidate_text(ctx, &c->device_type, "") ||
        tni_candidate_text(ctx, &c->requires, "") || tni_candidate_text(ctx, &c->shim, "") ||
        tni_candidate_text(ctx, &c->reason, "") ||
        !(slot = tni_vector_push(ctx, &d->candidates, sizeof(*slot)))) {
        candidate_destroy(ctx, c);
        return TN_E_OUT_OF_MEMORY;
    }
    *slot = c;
    *out = c;
    return TN_OK;
}

/* Adds a candidate of which only a path is known, with the reason why it is refused. */
static int32_t refuse_place(tni_discovery *d, const char *path, uint32_t state, const tni_reason *reason)
{
    tni_candidate *c;
    int32_t status = candidate_add(d, path, &c);
    return status == TN_OK ? tni_candidate_set(d->ctx, c, state, reason->text) : status;
}

/* ---- What is missing --------------------------------------------------------------------------------- */

/* The plugin of that type if it was refused, else what may have been one, else the first that was refused. */
static const tni_candidate *find_cause(const tni_discovery *d, const char *type, int32_t has_others)
{
    const tni_candidate *unknown = NULL, *first = NULL;
    for (uint32_t i = 0; i < d->candidates.count; i++) {
        const tni_candidate *c = tni_candidate_at(d, i);
        if (c->state == TN_CANDIDATE_LOADED || c->shim[0]) continue;
        if (type && (strcmp(c->device_type, type) == 0 || strcmp(c->name, type) == 0)) return c;
        if (!unknown && c->state == TN_CANDIDATE_FAILED && !c->device_type[0]) unknown = c;
        if (!first) first = c;
    }
    return unknown || has_others ? unknown : first;
}

/* Whether the library is part of the program, which then searches beside itself and not where 'tenon doctor' does. */
static int32_t is_in_program(void)
{
    char library[PATH_MAX], program[PATH_MAX];
    return realpath("/proc/self/exe", program) && !strcmp(tni_library_path(library, sizeof library), program);
}

static void explain_empty_folders(const tni_discovery *d, tni_reason *out)
{
    for (uint32_t i = 0; i < d->folders.count; i++)
        tni_reason_add(out, "'%s' has no manifest of a plugin", ((char **)d->folders.data)[i]);
    if (is_in_program())
        tni_reason_add(out, "the library is part of this program, which searches beside itself");
    tni_reason_add(out, "TENON_PLUGIN_PATH or the option plugin_path names other folders");
}

void tni_discovery_explain(const tni_discovery *d, const char *type, int32_t has_others, tni_reason *out)
{
    const tni_candidate *c = find_cause(d, type, has_others);
    const char *place = !c ? NULL : c->manifest ? c->manifest : c->library;
    out->text[0] = 0;
    if (c && (!place || strstr(c->reason, place)))
        tni_reason_add(out, "%s", c->reason);
    else if (c)
        tni_reason_add(out, "%s: %s", place, c->reason);
    else if (!has_others && d->folders.count)
        explain_empty_folders(d, out);
    if ((d->folders.count || d->candidates.count) && !is_in_program())
        tni_reason_add(out, "'tenon doctor' shows all");
}

/* A plugin that is refused is not loaded, so nothing else tells of it. Shims that were not requested are left out. */
static void log_candidates(const tni_discovery *d)
{
    for (uint32_t i = 0; i < d->candidates.count; i++) {
        const tni_candidate *c = tni_candidate_at(d, i);
        if (c->state == TNI_CANDIDATE_READY || (c->shim[0] && c->state == TN_CANDIDATE_SKIPPED)) continue;
        tni_log(d->ctx, c->state == TN_CANDIDATE_FAILED ? TN_LOG_WARN : TN_LOG_DEBUG, "plugin %s: %s",
                c->name[0]    ? c->name
                : c->manifest ? c->manifest
                              : "?",
                c->reason);
    }
}

/* ---- Libraries --------------------------------------------------------------------------------------- */

/* The same file, or the same name, earlier in the list. */
static const tni_candidate *find_earlier(const tni_discovery *d, const tni_candidate *c, int32_t by_name)
{
    for (uint32_t i = 0; i < d->candidates.count; i++) {
        const tni_candidate *other = tni_candidate_at(d, i);
        if (other == c) break;
        if (other->state == TN_CANDIDATE_SKIPPED || other->state == TN_CANDIDATE_FAILED) continue;
        if (by_name ? strcmp(other->name, c->name) == 0
                    : other->device == c->device && other->inode == c->inode)
            return other;
    }
    return NULL;
}

/* O_NONBLOCK: opening a pipe in place of a file must not hang the program. */
static int open_regular(const char *path, const char *what, struct stat *file, tni_reason *reason)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && fstat(fd, file) == 0 && S_ISREG(file->st_mode)) return fd;
    if (fd >= 0)
        tni_reason_set(reason, TN_E_IO, "%s '%s' is not a regular file", what, path);
    else
        tni_reason_set(reason, TN_E_IO, "cannot open %s '%s': %s", what, path, strerror(errno));
    if (fd >= 0) close(fd);
    return -1;
}

/* Checks the permissions and the block of one library file; fills in the candidate. */
static int32_t examine_file(tni_candidate *c, const char *path, tni_reason *reason)
{
    const tni_elf_host host = tni_elf_host_here();
    struct stat file;
    int fd = open_regular(path, "library", &file, reason);
    if (fd < 0) return TN_E_IO;
    c->device = file.st_dev;
    c->inode = file.st_ino;
    int32_t status = tni_trust_check(path, &file, reason);
    if (status == TN_OK) status = tni_trust_check_folder(path, reason);
    if (status == TN_OK) status = tni_allow_check(fd, path, reason);
    if (status == TN_OK) status = tni_elf_info_read(fd, &c->elf, reason);
    if (status == TN_OK) status = tni_elf_info_check(&c->elf, &host, reason);
    close(fd);
    return status;
}

/*
 * Examines a library for a candidate, whose name is "" if the program gave a path. What is wrong with the library
 * becomes the candidate's reason; the only failure returned is TN_E_OUT_OF_MEMORY.
 */
static int32_t take_library(tni_discovery *d, tni_candidate *c, const char *path)
{
    char resolved[PATH_MAX];
    tni_reason reason = {""};
    const tni_candidate *earlier;
    int32_t status = tni_candidate_text(d->ctx, &c->library, path);
    if (status != TN_OK) return status;
    if (!realpath(path, resolved)) {
        tni_reason_set(&reason, TN_E_IO, "cannot find library '%s': %s", path, strerror(errno));
        return tni_candidate_set(d->ctx, c, TN_CANDIDATE_FAILED, reason.text);
    }
    if ((status = tni_candidate_text(d->ctx, &c->library, resolved))) return status;
    if (examine_file(c, resolved, &reason) != TN_OK)
        return tni_candidate_set(d->ctx, c, TN_CANDIDATE_FAILED, reason.text);
    if (c->name[0] && strcmp(c->name, c->elf.info.name) != 0) {
        tni_reason_set(&reason, TN_E_STATE, "name: the manifest says '%s', the library '%s'", c->name,
                       c->elf.info.name);
        return tni_candidate_set(d->ctx, c, TN_CANDIDATE_FAILED, reason.text);
    }
    if ((status = tni_candidate_text(d->ctx, &c->name, c->elf.info.name))) return status;
    if ((earlier = find_earlier(d, c, 0)) || (earlier = find_earlier(d, c, 1))) {
        int32_t same = earlier->device == c->device && earlier->inode == c->inode;
        tni_reason_set(&reason, TN_E_EXISTS, same ? "the same file as '%s'" : "the name is taken by '%s'",
                       earlier->manifest && !same ? earlier->manifest : earlier->library);
        return tni_candidate_set(d->ctx, c, TN_CANDIDATE_SKIPPED, reason.text);
    }
    return tni_candidate_set(d->ctx, c, TNI_CANDIDATE_READY, "");
}

int32_t tni_discover_library(tni_discovery *d, const char *path, tni_candidate **out)
{
    tni_candidate *c;
    int32_t status = candidate_add(d, NULL, &c);
    if (status == TN_OK) status = take_library(d, c, path);
    if (status == TN_OK) *out = c;
    return status;
}

int32_t tni_discover_nothing(tni_discovery *d, const char *shim, tni_candidate **out)
{
    tni_candidate *c;
    int32_t status = candidate_add(d, NULL, &c);
    if (status == TN_OK) status = tni_candidate_text(d->ctx, &c->shim, shim);
    if (status == TN_OK) status = tni_candidate_text(d->ctx, &c->name, shim);
    if (status == TN_OK) *out = c;
    return status;
}

/* ---- Manifests --------------------------------------------------------------------------------------- */

static int32_t read_manifest(const char *path, tni_manifest *out, tni_reason *reason)
{
    struct stat file;
    int fd = open_regular(path, "manifest", &file, reason);
    if (fd < 0) return TN_E_IO;
    int32_t status = tni_trust_check(path, &file, reason);
    if (status == TN_OK) status = tni_trust_check_folder(path, reason);
    if (status == TN_OK) status = tni_manifest_read(fd, out, reason);
    close(fd);
    return status;
}

static int32_t take_names(tn_context *ctx, tni_candidate *c, const tni_manifest *m)
{
    char required[TNI_MANIFEST_MAX_REQUIRES * TNI_MANIFEST_NAME_BYTES] = "";
    for (uint32_t i = 0; i < m->n_requires; i++) {
        if (i > 0) strcat(required, ",");
        strcat(required, m->requires[i]);
    }
    int32_t status = tni_candidate_text(ctx, &c->name, m->name);
    if (status == TN_OK) status = tni_candidate_text(ctx, &c->device_type, m->device_type);
    if (status == TN_OK) status = tni_candidate_text(ctx, &c->requires, required);
    if (status == TN_OK) status = tni_candidate_text(ctx, &c->shim, m->shim);
    return status;
}

/* `library` of a manifest as an absolute path: relative ones start where the manifest really lies. */
static void locate_library(const char *manifest, const tni_manifest *m, char *out, size_t bytes)
{
    if (m->library[0] == '/')
        snprintf(out, bytes, "%s", m->library);
    else
        snprintf(out, bytes, "%.*s/%s", (int)(strrchr(manifest, '/') - manifest), manifest, m->library);
}

/* Whether a plugin is wanted; the lists of names are for plugins, shims are asked for one by one. */
static int32_t wanted(const walk *w, const tni_manifest *m, tni_reason *reason)
{
    int32_t index = m->shim[0] ? tni_shim_index(m->shim) : -1;
    if (!m->enabled) {
        tni_reason_set(reason, TN_E_STATE, "disabled in its manifest");
        return 0;
    }
    if (!m->shim[0]) return tni_plugin_wanted(w->settings, m->name, reason);
    if (index < 0)
        tni_reason_set(reason, TN_E_STATE, "this library knows no shim '%s'", m->shim);
    else if (!(w->settings->shims >> index & 1u))
        tni_reason_set(reason, TN_E_STATE, "a shim, loaded on request only: set %s",
                       tni_shim_kinds[index].variable);
    return index >= 0 && w->settings->shims >> index & 1u;
}

/* `listed`: found in a folder and not named by anybody, so that it need not be a manifest. */
static int32_t take_manifest(walk *w, const char *path, int32_t trusted, int32_t listed)
{
    tni_discovery *d = w->d;
    tni_reason reason = {""};
    tni_manifest m;
    tni_candidate *c;
    char library[2 * PATH_MAX], resolved[PATH_MAX];
    int32_t failed = realpath(path, resolved)
                         ? read_manifest(resolved, &m, &reason)
                         : tni_reason_set(&reason, TN_E_IO, "cannot open manifest: %s", strerror(errno));
    if (w->only_shims && (failed || !m.shim[0])) return TN_OK;
    if (listed && failed == TN_E_NOT_FOUND) return TN_OK; /* a JSON file of something else */
    int32_t status = candidate_add(d, path, &c);
    if (status != TN_OK) return status;
    c->trusted = trusted;
    if (failed) {
        return tni_candidate_set(d->ctx, c, TN_CANDIDATE_FAILED, reason.text);
    }
    locate_library(resolved, &m, library, sizeof(library));
    if ((status = take_names(d->ctx, c, &m)) || (status = tni_candidate_text(d->ctx, &c->library, library)))
        return status;
    if (!wanted(w, &m, &reason)) return tni_candidate_set(d->ctx, c, TN_CANDIDATE_SKIPPED, reason.text);
    return take_library(d, c, library);
}

static int is_manifest(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

/* By bytes, independent of the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int32_t take_folder(walk *w, const char *path, int32_t trusted)
{
    struct dirent **entries = NULL;
    char manifest[PATH_MAX + 257];
    tni_reason reason = {""};
    int32_t status = TN_OK;
    int count = scandir(path, &entries, is_manifest, by_name);
    if (count < 0 || count > MAX_MANIFESTS) {
        tni_reason_set(&reason, TN_E_IO, "cannot search the folder: %s",
                       count < 0 ? strerror(errno) : "too many manifests");
        status = refuse_place(w->d, path, TN_CANDIDATE_FAILED, &reason);
    }
    for (int i = 0; i < count; i++) {
        snprintf(manifest, sizeof(manifest), "%s/%s", path, entries[i]->d_name);
        if (status == TN_OK && count <= MAX_MANIFESTS) status = take_manifest(w, manifest, trusted, 1);
        free(entries[i]);
    }
    free(entries);
    return status;
}

/* ---- Places ------------------------------------------------------------------------------------------ */

/* Adds a place to the list of those searched. 0: it is there already, or *status is TN_E_OUT_OF_MEMORY. */
static int32_t add_place(tni_discovery *d, const char *path, int32_t *status)
{
    for (uint32_t i = 0; i < d->folders.count; i++) {
        if (strcmp(((char **)d->folders.data)[i], path) == 0) return 0;
    }
    char *copy = tni_strdup(d->ctx, path);
    char **slot = copy ? tni_vector_push(d->ctx, &d->folders, sizeof(*slot)) : NULL;
    if (slot)
        *slot = copy;
    else if (copy)
        tni_free(d->ctx, copy, strlen(copy) + 1);
    if (!slot) *status = TN_E_OUT_OF_MEMORY;
    return slot != NULL;
}

static int32_t take_place(void *user, const char *path, const char *named_by)
{
    walk *w = user;
    char resolved[PATH_MAX];
    struct stat file;
    tni_reason reason = {""};
    int32_t status = TN_OK;
    if (path[0] != '/') {
        tni_reason_set(&reason, TN_E_STATE, "refused: '%s' in the search path is not absolute", path);
        if (named_by) tni_reason_add(&reason, "%s names it", named_by);
        return refuse_place(w->d, path, TN_CANDIDATE_FAILED, &reason);
    }
    if (!realpath(path, resolved) || stat(resolved, &file) != 0) {
        int32_t is_absent = errno == ENOENT || errno == ENOTDIR;
        tni_reason_set(&reason, TN_E_IO, "cannot search '%s': %s", path, strerror(errno));
        if (named_by) tni_reason_add(&reason, "%s names it", named_by);
        if (named_by || !is_absent) return refuse_place(w->d, path, TN_CANDIDATE_FAILED, &reason);
        add_place(w->d, path, &status);
        return status;
    }
    if (!add_place(w->d, resolved, &status)) return status;
    int32_t sound = S_ISDIR(file.st_mode) ? tni_trust_check(resolved, &file, &reason)
                                          : tni_trust_check_folder(resolved, &reason);
    if (sound != TN_OK) return refuse_place(w->d, resolved, TN_CANDIDATE_FAILED, &reason);
    return S_ISDIR(file.st_mode) ? take_folder(w, resolved, !named_by)
                                 : take_manifest(w, resolved, !named_by, 0);
}

int32_t tni_discover(tn_context *ctx, const tni_plugin_settings *settings, tni_discovery *d)
{
    walk w = {d, settings, 0};
    *d = (tni_discovery){.ctx = ctx};
    int32_t status = tni_search_path_walk(settings, take_place, &w);
    if (status != TN_OK)
        tni_discovery_finish(d);
    else
        log_candidates(d);
    return status;
}

int32_t tni_discover_shims(tni_discovery *d, const tni_plugin_settings *settings)
{
    walk w = {d, settings, 1};
    return tni_standard_folders_walk(take_place, &w);
}

void tni_discovery_finish(tni_discovery *d)
{
    for (uint32_t i = 0; i < d->candidates.count; i++) candidate_destroy(d->ctx, tni_candidate_at(d, i));
    for (uint32_t i = 0; i < d->folders.count; i++) {
        char *folder = ((char **)d->folders.data)[i];
        tni_free(d->ctx, folder, strlen(folder) + 1);
    }
    tni_vector_finish(d->ctx, &d->candidates, sizeof(tni_candidate *));
    tni_vector_finish(d->ctx, &d->folders, sizeof(char *));
}
