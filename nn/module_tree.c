/* SPDX-License-Identifier: Apache-2.0 */
/* What concerns all of a tree of modules: lists of its tensors, training mode and gradients, moves. */
#include "module.h"
#include "similar_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Lists of tensors ---------------------------------------------------------------------------------- */

typedef struct gathering {
    tn_scope *scope;
    uint32_t what;
    tn_named_tensor *items;
    int64_t count, room;
    char path[NN_PATH_BYTES];
} gathering;

static int32_t is_wanted(const gathering *g, const nn_slot *slot)
{
    if (!slot->tensor) return 0;
    if (g->what & TN_STATE) return slot->is_persistent;
    if (!(g->what & (slot->is_parameter ? TN_PARAMETERS : TN_BUFFERS))) return 0;
    for (int64_t i = 0; i < g->count; i++)
        if (g->items[i].tensor == slot->tensor) return 0;
    return 1;
}

static void gather_one(gathering *g, const char *name, tn_tensor *t, uint64_t used)
{
    if (g->count == g->room) {
        int64_t room = 2 * g->room + 32;
        tn_named_tensor *grown = tn_scope_memory(g->scope, (uint64_t)room * sizeof *grown);
        if (!grown) return;
        if (g->count) memcpy(grown, g->items, (size_t)g->count * sizeof *grown);
        g->items = grown;
        g->room = room;
    }
    uint64_t bytes = used + strlen(name) + 2;
    char *full = tn_scope_memory(g->scope, bytes);
    if (!full) return;
    snprintf(full, bytes, "%.*s%s%s", (int)used, g->path, used ? "." : "", name);
    g->items[g->count++] = (tn_named_tensor){full, t};
}

/* PyTorch's order: the module's own tensors, then its children; in a state parameters stand before buffers. */
static void gather(gathering *g, const tn_module *m, uint64_t used)
{
    if (tn_scope_failed(g->scope)) return;
    if (m->is_lazy) {
        char path[NN_PATH_BYTES], text[NN_PATH_BYTES + 128];
        snprintf(text, sizeof text,
                 "module '%s' is lazy: its tensors are made by the first call, which must come before",
                 nn_label(m, path, sizeof path));
        tn_scope_fail(g->scope, TN_E_STATE, text);
        return;
    }
    for (int32_t parameters = 1; parameters >= 0; parameters--)
        for (uint32_t i = 0; i < m->slot_count; i++)
            if (m->slots[i].is_parameter == parameters && is_wanted(g, &m->slots[i]))
                gather_one(g, m->slots[i].name, m->slots[i].tensor, used);
    for (uint32_t i = 0; i < m->child_count; i++) {
        int n =
            snprintf(g->path + used, sizeof g->path - used, "%s%s", used ? "." : "", m->children[i]->name);
        if (n < 0 || used + (uint64_t)n >= sizeof g->path) {
            tn_scope_fail(g->scope, TN_E_ARGUMENT, "module: a path of names is longer than 511 bytes");
            return;
        }
        gather(g, m->children[i], used + (uint64_t)n);
        g->path[used] = 0;
    }
}

tn_named_tensors tn_module_tensors(tn_scope *s, const tn_module *m, uint32_t what)
{
    gathering g = {.scope = s, .what = what};
    if (!m) tn_scope_fail(s, TN_E_STATE, "module: it is NULL");
    if (m && m->tree->status == TN_E_DEAD_HANDLE) nn_failed_before(s, m);
    if (tn_scope_failed(s)) return (tn_named_tensors){NULL, 0};
    gather(&g, m, 0);
    return (tn_named_tensors){g.items, tn_scope_failed(s) ? 0 : g.count};
}

tn_tensor *tn_named_get(tn_scope *s, tn_named_tensors all, const char *name)
{
    char text[800], similar[SIMILAR_NAME_BYTES + 32];
    if (tn_scope_failed(s)) return NULL;
    for (int64_t i = 0; name && i < all.count; i++)
        if (all.data[i].name && !strcmp(all.data[i].name, name)) return all.data[i].tensor;
    similar_name best = similar_name_begin(name ? name : "");
    for (int64_t i = 0; name && i < all.count; i++)
        if (all.data[i].name) similar_name_try(&best, all.data[i].name);
    snprintf(text, sizeof text, "tn_named_get: no tensor '%.512s' among %lld%s", name ? name : "(null)",
             (long long)all.count, similar_name_text(&best, similar));
    tn_scope_fail(s, TN_E_NOT_FOUND, text);
    return NULL;
}

const char *nn_similar_tensor(const tn_module *m, const char *name, char text[NN_SIMILAR_BYTES])
{
    _Static_assert(NN_SIMILAR_BYTES == SIMILAR_NAME_BYTES + 32, "room for the text");
    tn_scope *s = name ? nn_scope(m) : NULL;
    gathering g = {.scope = s, .what = TN_PARAMETERS | TN_BUFFERS};
    similar_name best = similar_name_begin(name ? name : "");
    if (s) gather(&g, m, 0);
    for (int64_t i = 0; i < g.count; i++) similar_name_try(&best, g.items[i].name);
    similar_name_text(&best, text);
    tn_scope_close(s);
    return text;
}

tn_named_tensors tn_named_below(tn_scope *s, tn_named_tensors from, const char *folder)
{
    const uint64_t bytes = folder ? strlen(folder) : 0;
    tn_named_tensor *items = tn_scope_memory(s, (uint64_t)(from.count + 1) * sizeof *items);
    int64_t count = 0;
    for (int64_t i = 0; items && i < from.count; i++) {
        const char *name = from.data[i].name;
        if (bytes && (strncmp(name, folder, bytes) != 0 || name[bytes] != '.')) continue;
        items[count++] = (tn_named_tensor){name + (bytes ? bytes + 1 : 0), from.data[i].tensor};
    }
    if (count || !items) return (tn_named_tensors){items, count};
    char text[640];
    snprintf(text, sizeof text, "tn_named_below: no name begins with '%.512s.'", folder ? folder : "");
    tn_scope_fail(s, TN_E_NOT_FOUND, text);
    return (tn_named_tensors){NULL, 0};
}

tn_tensors tn_module_parameters(tn_scope *s, const tn_module *m)
{
    tn_named_tensors all = tn_module_tensors(s, m, TN_PARAMETERS);
    tn_tensor **items = tn_scope_memory(s, (uint64_t)(all.count + 1) * sizeof *items);
    if (!items) return (tn_tensors){NULL, 0};
    for (int64_t i = 0; i < all.count; i++) items[i] = all.data[i].tensor;
    return (tn_tensors){items, all.count};
}

int64_t tn_module_parameter_count(const tn_module *m)
{
    int64_t n = 0;
    tn_scope *s = m ? nn_scope(m) : NULL;
    tn_named_tensors all = m ? tn_module_tensors(s, m, TN_PARAMETERS) : (tn_named_tensors){NULL, 0};
    for (int64_t i = 0; i < all.count; i++) n += tn_tensor_numel(all.data[i].tensor);
    tn_scope_close(s);
    return n;
}

/* ---- The whole tree ------------------------------------------------------------------------------------ */

void tn_module_apply(tn_module *m, void (*function)(tn_module *m, void *user), void *user)
{
    if (!m || !function) return;
    for (uint32_t i = 0; i < m->child_count; i++) tn_module_apply(m->children[i], function, user);
    function(m, user);
}

static void set_training(tn_module *m, void *on)
{
    m->is_training = *(int32_t *)on != 0;
}

void tn_module_train(tn_module *m, int32_t on)
{
    tn_module_apply(m, set_training, &on);
}

int32_t tn_module_is_training(const tn_module *m)
{
    return m ? m->is_training : 0;
}

static void set_requires_grad(tn_module *m, void *on)
{
    for (uint32_t i = 0; i < m->slot_count; i++) {
        const nn_slot *slot = &m->slots[i];
        int32_t status =
            slot->is_parameter && slot->tensor ? tn_set_requires_grad(slot->tensor, *(int32_t *)on) : 0;
        if (status) tn_module_fail(m, status, tn_last_error() ? tn_last_error()->message : NULL);
    }
}

int32_t tn_module_set_requires_grad(tn_module *m, int32_t on)
{
    tn_module_apply(m, set_requires_grad, &on);
    return tn_module_failed(m);
}

static void zero_grad(tn_module *m, void *user)
{
    (void)user;
    for (uint32_t i = 0; i < m->slot_count; i++)
        if (m->slots[i].is_parameter && m->slots[i].tensor) tn_set_grad(m->slots[i].tensor, NULL);
}

void tn_module_zero_grad(tn_module *m)
{
    tn_module_apply(m, zero_grad, NULL);
}

/* ---- Moves --------------------------------------------------------------------------------------------- */

typedef struct moving {
    tn_scope *scope;
    tn_device device;
    tn_dtype dtype;
    int32_t status;
    uint32_t count;
    struct {
        tn_tensor *from, *to; /* from: compared only; to: one reference */
    } * done;                 /* so that tensors that modules share stay shared */
} moving;

static tn_tensor *moved(moving *v, const nn_slot *slot)
{
    tn_tensor *t = slot->tensor;
    for (uint32_t i = 0; i < v->count; i++)
        if (v->done[i].from == t) return v->done[i].to;
    tn_dtype own = tn_tensor_dtype(t);
    tn_dtype dtype = v->dtype && (tn_dtype_is_floating(own) || tn_dtype_is_complex(own)) ? v->dtype : own;
    tn_device device = v->device ? v->device : tn_tensor_device(t);
    tn_tensor *to = tn_detach(v->scope, t);
    if (dtype != own || device != tn_tensor_device(t))
        to = tn__to_copy(v->scope, to, .dtype = dtype, .device = device);
    if (to && slot->is_parameter && tn_requires_grad(t)) (void)tn_set_requires_grad(to, 1);
    void *grown = to ? nn_grown(v->done, v->count, sizeof *v->done) : NULL;
    if (!grown) return NULL;
    v->done = grown;
    v->done[v->count].from = t;
    v->done[v->count++].to = tn_retain(to);
    return to;
}

/* First all tensors are made, then all are exchanged: a move that fails leaves the module as it was. */
static void move_all(tn_module *m, void *user)
{
    moving *v = user;
    for (uint32_t i = 0; i < m->slot_count && !v->status; i++)
        if (m->slots[i].tensor && !moved(v, &m->slots[i])) {
            v->status = tn_scope_failed(v->scope);
            if (!v->status) v->status = TN_E_OUT_OF_MEMORY;
        }
}

static void exchange_all(tn_module *m, void *user)
{
    moving *v = user;
    for (uint32_t i = 0; i < m->slot_count; i++) {
        nn_slot *slot = &m->slots[i];
        for (uint32_t k = 0; slot->tensor && k < v->count; k++) {
            if (v->done[k].from != slot->tensor) continue;
            tn_release(slot->tensor);
            slot->tensor = tn_retain(v->done[k].to);
            break;
        }
    }
}

int32_t tn_module_to(tn_module *m, tn_device device, tn_dtype dtype)
{
    if (!m) return nn_is_null("tn_module_to");
    if (m->tree->status) return nn_failed_before(NULL, m);
    if (dtype && !tn_dtype_is_floating(dtype) && !tn_dtype_is_complex(dtype)) {
        char text[160];
        const char *name = tn_dtype_name(dtype);
        snprintf(text, sizeof text,
                 "tn_module_to: argument 'dtype': modules are floating or complex (got %s)",
                 name ? name : "an unknown one");
        return tn_scope_fail(NULL, TN_E_DTYPE, text); /* nothing has changed */
    }
    moving v = {.scope = nn_scope(m), .device = device, .dtype = dtype};
    if (!v.scope) return nn_no_scope(m);
    tn_module_apply(m, move_all, &v);
    if (!v.status) {
        tn_module *root = m; /* modules elsewhere may share a tensor of m */
        while (root->parent) root = root->parent;
        tn_module_apply(root, exchange_all, &v);
        m->tree->generation++;
        if (device && !m->parent) m->tree->device = device;
        if (dtype && !m->parent) m->tree->dtype = dtype;
    }
    for (uint32_t i = 0; i < v.count; i++) tn_release(v.done[i].to);
    free(v.done);
    if (nn_scope_close(m, v.scope)) return m->tree->status;
    return v.status;
}
