/* SPDX-License-Identifier: Apache-2.0 */
/* State of modules: names and tensors, to files and back. */
#include "module.h"
#include "tensors.h"

#include <tenon/files.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Hooks --------------------------------------------------------------------------------------------- */

enum { SAVE_BEGIN, SAVE, LOAD, LOADED };

/* The hooks of one module for a part of the work. */
static tn_named_tensors run_hooks(tn_scope *s, tn_module *m, const char *prefix, int32_t part,
                                  tn_named_tensors state)
{
    for (uint32_t i = 0; i < m->hook_count && !tn_scope_failed(s); i++) {
        const tn_module_hook *h = &m->hooks[i].hook;
        if (part == SAVE_BEGIN && h->save_begin) h->save_begin(h->user, s, m, prefix);
        if (part == SAVE && h->save) state = h->save(h->user, s, m, prefix, state);
        if (part == LOAD && h->load) state = h->load(h->user, s, m, prefix, state);
        if (part == LOADED && h->loaded) h->loaded(h->user, s, m, prefix);
    }
    return state;
}

/* Those of the whole tree. `used` bytes of the prefix are this module's. */
static tn_named_tensors run_all_hooks(tn_scope *s, tn_module *m, char prefix[512], uint64_t used,
                                      int32_t part, tn_named_tensors state)
{
    const int32_t is_before = part == SAVE_BEGIN || part == LOAD;
    if (is_before) state = run_hooks(s, m, prefix, part, state);
    for (uint32_t i = 0; i < m->child_count && !tn_scope_failed(s); i++) {
        const uint64_t more = used + strlen(m->children[i]->name) + 1;
        if (more >= 512) continue; /* tn_module_tensors refuses such a path */
        snprintf(prefix + used, 512 - used, "%s.", m->children[i]->name);
        state = run_all_hooks(s, m->children[i], prefix, more, part, state);
        prefix[used] = 0;
    }
    return is_before ? state : run_hooks(s, m, prefix, part, state);
}

static tn_named_tensors with_hooks(tn_scope *s, tn_module *m, int32_t part, tn_named_tensors state)
{
    char prefix[512] = "";
    return run_all_hooks(s, m, prefix, 0, part, state);
}

static int32_t has_load_hook(const tn_module *m)
{
    for (uint32_t i = 0; i < m->hook_count; i++)
        if (m->hooks[i].hook.load) return 1;
    for (uint32_t i = 0; i < m->child_count; i++)
        if (has_load_hook(m->children[i])) return 1;
    return 0;
}

/* ---- Saving -------------------------------------------------------------------------------------------- */

tn_named_tensors tn_module_state_dict(tn_scope *s, tn_module *m)
{
    const tn_named_tensors none = {NULL, 0};
    if (!m) tn_scope_fail(s, TN_E_STATE, "tn_module_state_dict: the module is NULL");
    if (tn_scope_failed(s)) return none;
    with_hooks(s, m, SAVE_BEGIN, none);
    tn_named_tensors state = tn_module_tensors(s, m, TN_STATE);
    if (!tn_scope_failed(s)) state = with_hooks(s, m, SAVE, state);
    return tn_scope_failed(s) ? none : state;
}

int32_t tn_module_save(tn_module *m, const char *path)
{
    if (!m) return nn_is_null("tn_module_save");
    if (m->tree->status) return nn_failed_before(NULL, m);
    if (!path) return tn_scope_fail(NULL, TN_E_ARGUMENT, "tn_module_save: argument 'path' is NULL");
    tn_scope *s = nn_scope(m);
    if (!s) return tn_last_error()->code;
    tn_named_tensors state = tn_module_state_dict(s, m);
    if (!tn_scope_failed(s)) tn_safetensors_save(s, path, state.data, (uint64_t)state.count, NULL, 0);
    return tn_scope_close(s); /* a file that cannot be written does not make the module unusable */
}

/* ---- Loading ------------------------------------------------------------------------------------------- */

/* Where values come from: a file, or tensors of the program. */
typedef struct source {
    const char *path; /* NULL: tensors of the program */
    tn_file *file;
    tn_named_tensors list;
} source;

static int64_t count_of(const source *from)
{
    return from->file ? (int64_t)tn_file_count(from->file) : from->list.count;
}

static const char *name_of(const source *from, int64_t i)
{
    return from->file ? tn_file_name(from->file, (uint64_t)i) : from->list.data[i].name;
}

static int64_t find_name(const source *from, const char *name)
{
    for (int64_t i = 0; i < count_of(from); i++)
        if (!strcmp(name_of(from, i), name)) return i;
    return -1;
}

static tn_tensor *value_of(tn_scope *s, const source *from, int64_t i, tn_device device)
{
    if (!from->file) return from->list.data[i].tensor;
    return tn_file_get(s, from->file, name_of(from, i), device);
}

static void print_sizes(nn_text *t, const tn_tensor *a)
{
    nn_print(t, "[");
    for (int64_t d = 0; d < tn_tensor_rank(a); d++)
        nn_print(t, "%s%lld", d ? ", " : "", (long long)tn_tensor_sizes(a)[d]);
    nn_print(t, "]");
}

/* A list of names, "missing: 'a', 'b'". In an error, which is cut where it is too long, the first of them stand for all:
 * "missing: 'a', 'b' and 798 more". */
typedef struct names {
    nn_text all, first;
    int64_t count, shown;
} names;

#define MOST_NAMES      5
#define MOST_NAME_BYTES 400 /* of one list in an error */

static void add_name(names *n, const char *what, const char *name)
{
    const int32_t is_shown = n->shown == n->count && n->shown < MOST_NAMES &&
                             (!n->shown || n->first.bytes + strlen(name) < MOST_NAME_BYTES);
    nn_print(&n->all, "%s'%s'", n->count ? ", " : what, name);
    if (is_shown) nn_print(&n->first, "%s'%s'", n->shown++ ? ", " : what, name);
    n->count++;
}

static void end_names(names *n)
{
    if (n->shown < n->count) nn_print(&n->first, " and %lld more", (long long)(n->count - n->shown));
}

/* Names that one side has and the other has not: all of them, and what an error has. */
static void compare_names(nn_text *all, nn_text *first, tn_named_tensors state, const source *from)
{
    names missing = {{.scope = all->scope}, {.scope = all->scope}, 0, 0}, unexpected = missing;
    for (int64_t i = 0; i < state.count; i++)
        if (find_name(from, state.data[i].name) < 0) add_name(&missing, "missing: ", state.data[i].name);
    for (int64_t i = 0; i < count_of(from); i++) {
        int32_t found = 0;
        for (int64_t k = 0; k < state.count && !found; k++)
            found = !strcmp(state.data[k].name, name_of(from, i));
        if (!found) add_name(&unexpected, "unexpected: ", name_of(from, i));
    }
    end_names(&missing);
    end_names(&unexpected);
    for (const names *n = &missing; n; n = n == &missing ? &unexpected : NULL) {
        if (!n->count) continue;
        nn_print(all, "%s%s", all->bytes ? "; " : "", n->all.text);
        nn_print(first, "%s%s", first->bytes ? "; " : "", n->first.text);
    }
}

/* What stands before the module's names in all those of the source: "model", in memory of the scope. NULL: they differ by
 * more than that. */
static const char *folder_of(tn_scope *s, tn_named_tensors state, const source *from)
{
    const char *first = state.count ? state.data[0].name : "";
    const uint64_t wanted = strlen(first);
    for (int64_t i = 0; wanted && i < count_of(from); i++) {
        const char *name = name_of(from, i);
        const uint64_t bytes = strlen(name);
        if (bytes < wanted + 2 || name[bytes - wanted - 1] != '.' || strcmp(name + bytes - wanted, first))
            continue;
        nn_text folder = {.scope = s};
        int32_t is_there = 1;
        nn_print(&folder, "%.*s", (int)(bytes - wanted - 1), name);
        for (int64_t k = 0; k < state.count && is_there && folder.text; k++) {
            nn_text full = {.scope = s};
            nn_print(&full, "%s.%s", folder.text, state.data[k].name);
            is_there = full.text && find_name(from, full.text) >= 0;
        }
        if (is_there) return folder.text;
    }
    return NULL;
}

/* Reads all values first, so that a wrong one leaves the module as it was, and copies them then. */
static void load(tn_scope *s, tn_module *m, tn_named_tensors state, const source *from, uint32_t mode)
{
    nn_text wrong = {.scope = s};
    tn_tensor **values = tn_scope_memory(s, (uint64_t)(state.count + 1) * sizeof *values);
    nn_text report = {.scope = s}, listed = {.scope = s};
    int64_t fits = 0, other_sizes = 0;
    compare_names(&report, &listed, state, from);
    if (mode == TN_STRICT && listed.bytes) nn_print(&wrong, "%s", listed.text);
    for (int64_t i = 0; i < state.count && values && !tn_scope_failed(s); i++) {
        int64_t at = find_name(from, state.data[i].name);
        values[i] = at < 0 ? NULL : value_of(s, from, at, tn_tensor_device(state.data[i].tensor));
        fits += values[i] != NULL;
        if (!values[i] || same_sizes(values[i], state.data[i].tensor) || other_sizes++ >= MOST_NAMES)
            continue;
        nn_print(&wrong, "%s'%s' has sizes ", wrong.bytes ? "; " : "", state.data[i].name);
        print_sizes(&wrong, values[i]);
        nn_print(&wrong, ", the module's ");
        print_sizes(&wrong, state.data[i].tensor);
    }
    if (other_sizes > MOST_NAMES)
        nn_print(&wrong, "; %lld more have other sizes", (long long)(other_sizes - MOST_NAMES));
    if (mode == TN_LENIENT && !fits && state.count) nn_print(&wrong, "no name fits: %s", listed.text);
    if (wrong.bytes && !tn_scope_failed(s)) {
        nn_text all = {.scope = s};
        const char *folder = fits ? NULL : folder_of(s, state, from);
        nn_print(&all, from->path ? "module state: '%s': " : "module state: ", from->path);
        if (folder)
            nn_print(
                &all,
                "the module's names stand below '%s': give tn_module_load_state what tn_named_below gives",
                folder);
        else
            nn_print(&all, "%s", wrong.text);
        tn_scope_fail(s, TN_E_SHAPE, all.text);
    }
    for (int64_t i = 0; i < state.count && values && !tn_scope_failed(s); i++)
        if (values[i]) tn_copy_(s, state.data[i].tensor, values[i]);
    free(m->tree->report);
    m->tree->report = report.bytes ? strdup(report.text) : NULL;
    if (report.bytes && !m->tree->report) tn_scope_fail(s, TN_E_OUT_OF_MEMORY, NULL);
}

const char *tn_module_load_report(const tn_module *m)
{
    return m && m->tree->report ? m->tree->report : "";
}

static int32_t load_from(tn_module *m, const source *from, uint32_t mode)
{
    const tn_named_tensors none = {NULL, 0};
    if (m->tree->status) return nn_failed_before(NULL, m);
    tn_scope *s = nn_scope(m);
    if (!s) return tn_last_error()->code;
    tn_named_tensors state = tn_module_tensors(s, m, TN_STATE);
    source changed = *from;
    if (mode > TN_LENIENT) tn_scope_fail(s, TN_E_ARGUMENT, "module state: mode is TN_STRICT or TN_LENIENT");
    if (!tn_scope_failed(s) && has_load_hook(m)) {
        changed.list = with_hooks(s, m, LOAD, from->file ? tn_file_tensors(s, from->file) : from->list);
        changed.file = NULL;
    }
    if (!tn_scope_failed(s) && !changed.file) refuse_null_items(s, "module", changed.list);
    if (!tn_scope_failed(s)) load(s, m, state, &changed, mode);
    if (!tn_scope_failed(s)) with_hooks(s, m, LOADED, none);
    return tn_scope_close(s);
}

int32_t tn_module_load(tn_module *m, const char *path, uint32_t mode)
{
    source from = {path, NULL, {NULL, 0}};
    if (!m) return nn_is_null("tn_module_load");
    if (m->tree->status) return nn_failed_before(NULL, m);
    int32_t status = tn_file_open(m->tree->ctx, path, &from.file);
    if (status) return status;
    status = load_from(m, &from, mode);
    tn_file_close(from.file);
    return status;
}

int32_t tn_module_load_state(tn_module *m, tn_named_tensors state, uint32_t mode)
{
    source from = {NULL, NULL, state};
    if (!m) return nn_is_null("tn_module_load_state");
    return load_from(m, &from, mode);
}
