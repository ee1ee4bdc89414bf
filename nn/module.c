/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of modules: building and asking; module_tree.c does what concerns all of a tree. */
#include "computed.h"
#include "number_text.h"
#include "tensors.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tn_module_class sequential = {.size = sizeof sequential, .name = "Sequential"};

static tn_tensor *list_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    (void)m;
    (void)in;
    (void)more;
    tn_scope_fail(s, TN_E_UNSUPPORTED, "a module list has no forward; call its children");
    return NULL;
}
static const tn_module_class list = {.size = sizeof list, .name = "ModuleList", .forward = list_forward};

/* ---- Errors -------------------------------------------------------------------------------------------- */

int32_t nn_is_null(const char *call)
{
    char text[128];
    snprintf(text, sizeof text, "%s: the module is NULL", call);
    return tn_scope_fail(NULL, TN_E_STATE, text);
}

int32_t tn_module_failed(const tn_module *m)
{
    return m ? m->tree->status : TN_E_STATE;
}

const char *tn_module_error(const tn_module *m)
{
    if (!m) return "the module is NULL";
    if (!m->tree->status) return NULL;
    return m->tree->error ? m->tree->error : tn_status_text(m->tree->status);
}

void tn_module_clear_error(tn_module *m)
{
    if (!m || m->tree->status == TN_E_DEAD_HANDLE) return;
    free(m->tree->error);
    m->tree->error = NULL;
    m->tree->status = TN_OK;
}

/* Of the thread: where the program makes the call that builds a tree. */
static _Thread_local struct {
    const char *file; /* NULL: unknown */
    int32_t line;
} place;

void tn_module_place(const char *file, int32_t line)
{
    place.file = file;
    place.line = line;
}

tn_module *tn_module_placed(tn_module *m)
{
    place.file = NULL;
    return m;
}

int32_t nn_failed_before(tn_scope *s, const tn_module *m)
{
    char text[1200];
    if (m->tree->status == TN_E_DEAD_HANDLE) return tn_scope_fail(s, TN_E_DEAD_HANDLE, tn_module_error(m));
    while (m->parent) m = m->parent;
    snprintf(text, sizeof text, "module '%s' failed before: %s", tn_module_name(m), tn_module_error(m));
    return tn_scope_fail(s, m->tree->status, text);
}

int32_t tn_module_fail(tn_module *m, int32_t status, const char *text)
{
    if (!m || !status) return status;
    if (m->tree->status) {
        const tn_error *last = tn_last_error();
        if (last && m->tree->error && !strcmp(last->message, m->tree->error)) return m->tree->status;
        return nn_failed_before(NULL, m);
    }
    const uint64_t before = tn_error_count();
    m->tree->status = status;
    tn_scope_fail(NULL, status, text);
    tn_error_place(before, place.file, (uint32_t)place.line);
    const tn_error *e = text || place.file ? tn_last_error() : NULL;
    m->tree->error = e ? strdup(e->message) : NULL;
    return status;
}

/* The text of a function that ends with "const char *format, ...". */
#define FORMAT(text, format)                           \
    char text[1024];                                   \
    va_list args;                                      \
    va_start(args, format);                            \
    plain_vsnprintf(text, sizeof(text), format, args); \
    va_end(args)

int32_t nn_fail(tn_module *m, int32_t status, const char *format, ...)
{
    FORMAT(text, format);
    return tn_module_fail(m, status, text);
}

int32_t nn_scope_fail(tn_scope *s, int32_t status, const char *format, ...)
{
    FORMAT(text, format);
    return tn_scope_fail(s, status, text);
}

tn_scope *nn_scope(const tn_module *m)
{
    tn_scope_options options = {.size = sizeof options,
                                .grad_mode = TN_GRAD_OFF,
                                .device = m->tree->device,
                                .default_dtype = m->tree->dtype,
                                .autocast = TN_SCOPE_AUTOCAST_OFF};
    return tn_scope_open_with(m->tree->ctx, &options);
}

int32_t nn_no_scope(tn_module *m)
{
    char path[NN_PATH_BYTES];
    const tn_error *e = tn_last_error();
    return nn_fail(m, e->code, "%s '%s': %s", tn_module_class_name(m), nn_label(m, path, sizeof path),
                   e->message);
}

int32_t nn_scope_close(tn_module *m, tn_scope *s)
{
    int32_t status = tn_scope_failed(s);
    if (status) {
        const tn_error *e = tn_scope_error(s);
        char path[NN_PATH_BYTES];
        nn_fail(m, status, "%s '%s': %s", tn_module_class_name(m), nn_label(m, path, sizeof path),
                e ? e->message : tn_status_text(status));
    }
    tn_scope_close(s);
    return status;
}

/* ---- Text ---------------------------------------------------------------------------------------------- */

const char *nn_sizes(const tn_tensor *t, char *text, uint64_t bytes)
{
    uint64_t n = (uint64_t)snprintf(text, bytes, "[");
    for (int64_t d = 0; d < tn_tensor_rank(t) && n < bytes; d++)
        n += (uint64_t)snprintf(text + n, bytes - n, "%s%lld", d ? ", " : "",
                                (long long)tn_tensor_sizes(t)[d]);
    if (n < bytes) snprintf(text + n, bytes - n, "]");
    return text;
}

void nn_print(nn_text *t, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int need = plain_vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (need >= 0 && t->bytes + (uint64_t)need + 1 > t->room) {
        uint64_t room = 2 * (t->bytes + (uint64_t)need) + 256;
        char *grown = tn_scope_memory(t->scope, room);
        if (grown && t->text) memcpy(grown, t->text, t->bytes + 1);
        if (grown) *t = (nn_text){t->scope, grown, t->bytes, room};
        if (!grown) need = -1;
    }
    if (need >= 0) {
        plain_vsnprintf(t->text + t->bytes, t->room - t->bytes, format, again);
        t->bytes += (uint64_t)need;
    }
    va_end(again);
}

const char *nn_label(const tn_module *m, char *path, uint64_t bytes)
{
    if (m->parent) return nn_path(m, path, bytes);
    snprintf(path, bytes, "%s", m->name);
    return path;
}

const char *nn_path(const tn_module *m, char *path, uint64_t bytes)
{
    path[0] = 0;
    if (!m || !m->parent) return path;
    nn_path(m->parent, path, bytes);
    uint64_t used = strlen(path);
    snprintf(path + used, bytes - used, "%s%s", used ? "." : "", m->name);
    return path;
}

/* ---- Building ------------------------------------------------------------------------------------------ */

void *nn_grown(void *items, uint32_t count, uint64_t item_bytes)
{
    if (count & (count - 1)) return items; /* room for the next power of two */
    return realloc(items, (size_t)(count ? 2 * (uint64_t)count : 1) * item_bytes);
}

/* The struct of a module is the last to go: with TENON_DEBUG=handles it stays, without children and tensors. */
static void destroy(tn_module *m)
{
    if (!m) return;
    if (m->class && m->class->finish) m->class->finish(m);
    for (uint32_t i = 0; i < m->child_count; i++) destroy(m->children[i]);
    for (uint32_t i = 0; i < m->slot_count; i++) {
        tn_release(m->slots[i].tensor);
        free(m->slots[i].name);
    }
    for (uint32_t i = 0; i < m->computed_count; i++) {
        free(m->computed[i].name);
        free(m->computed[i].how);
    }
    free(m->children);
    free(m->slots);
    free(m->computed);
    free(m->hooks);
    free(m->state);
    handle_free(m->name);
    *m = (tn_module){.class = &sequential, .tree = m->tree, .parent = m->parent, .name = m->name};
    handle_free(m);
}

void nn_remove_slot(tn_module *m, const char *name)
{
    nn_slot *slot = nn_slot_find(m, name);
    if (!slot) return;
    tn_release(slot->tensor);
    free(slot->name);
    memmove(slot, slot + 1, (m->slot_count - (uint32_t)(slot - m->slots) - 1) * sizeof *slot);
    m->slot_count--;
}

void nn_remove_child(tn_module *m, tn_module *child)
{
    for (uint32_t i = 0; i < m->child_count; i++) {
        if (m->children[i] != child) continue;
        memmove(&m->children[i], &m->children[i + 1], (m->child_count - i - 1) * sizeof *m->children);
        m->child_count--;
        destroy(child);
        return;
    }
}

static tn_module *make(nn_tree *tree, const char *name, uint64_t bytes, const tn_module_class *class)
{
    tn_module *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    *m = (tn_module){.class = class ? class : &sequential, .tree = tree, .is_training = 1};
    m->name = strndup(name, bytes);
    m->state = m->class->state_bytes ? calloc(1, (size_t)m->class->state_bytes) : NULL;
    if (m->name && (m->state || !m->class->state_bytes)) return m;
    free(m->name);
    free(m->state);
    free(m);
    return NULL;
}

#define WRONG_CLASS "module: the field 'size' of its class is not sizeof(tn_module_class)"

tn_module *tn_module_create(tn_context *ctx, const char *name, const tn_module_class *class)
{
    nn_tree *tree = ctx ? calloc(1, sizeof *tree) : NULL;
    if (!ctx) tn_scope_fail(NULL, TN_E_ARGUMENT, "tn_module_create: argument 'ctx' is NULL");
    int32_t status = ctx ? handle_context_check(ctx) : TN_OK;
    if (!status && ctx && class && class->size < sizeof *class)
        status = tn_scope_fail(NULL, TN_E_ARGUMENT, WRONG_CLASS);
    if (status) {
        free(tree);
        return NULL;
    }
    tn_module *m = tree ? make(tree, name ? name : "", name ? strlen(name) : 0, class) : NULL;
    if (m) tree->life = nn_life_begin(name);
    if (!m || !tree->life) {
        destroy(m);
        free(tree);
        if (ctx) tn_scope_fail(NULL, TN_E_OUT_OF_MEMORY, "tn_module_create: out of host memory");
        return NULL;
    }
    tree->ctx = ctx;
    handle_begin(ctx, m, "module '%s' (%s)", m->name, tn_module_class_name(m));
    return m;
}

void tn_module_destroy(tn_module *root)
{
    char what[NN_PATH_BYTES + 16];
    if (!root) return;
    if (root->parent) {
        char path[NN_PATH_BYTES];
        nn_fail(root, TN_E_STATE, "tn_module_destroy: module '%s' is a child; its root destroys it",
                nn_path(root, path, sizeof path));
        return;
    }
    nn_tree *tree = root->tree;
    snprintf(what, sizeof what, "module '%s'", root->name);
    if (!handle_end(&tree->mark, what, __builtin_return_address(0))) return;
    destroy(root);
    nn_life_end(tree->life);
    tree->life = NULL;
    free(tree->error);
    free(tree->report);
    tree->report = NULL;
    tree->status = TN_E_DEAD_HANDLE; /* with TENON_DEBUG=handles all calls of the tree fail from now on */
    tree->error = NULL;
    if (handle_is_kept()) {
        strncat(what, " was destroyed and is used again", sizeof what - strlen(what) - 1);
        tree->error = strdup(what);
        handle_free(tree->error);
    }
    handle_free(tree);
}

static tn_module *find_child(const tn_module *m, const char *name, uint64_t bytes)
{
    for (uint32_t i = 0; m && i < m->child_count; i++)
        if (strlen(m->children[i]->name) == bytes && !memcmp(m->children[i]->name, name, bytes))
            return m->children[i];
    return NULL;
}

static tn_module *add(tn_module *parent, const char *name, uint64_t bytes, const tn_module_class *class)
{
    void *grown = nn_grown(parent->children, parent->child_count, sizeof *parent->children);
    if (grown) parent->children = grown;
    tn_module *m = grown ? make(parent->tree, name, bytes, class) : NULL;
    if (!m) {
        tn_module_fail(parent, TN_E_OUT_OF_MEMORY, NULL);
        return NULL;
    }
    m->parent = parent;
    m->is_training = parent->is_training;
    if (!m->tree->first_added) m->tree->first_added = m;
    return parent->children[parent->child_count++] = m;
}

/* The module on the way, and what is left of the name behind its last dot. */
static tn_module *parent_of(tn_module *m, const char **name)
{
    for (const char *dot = strchr(*name, '.'); m && dot; dot = strchr(*name, '.')) {
        uint64_t bytes = (uint64_t)(dot - *name);
        tn_module *next = bytes ? find_child(m, *name, bytes) : NULL;
        if (!next && bytes) next = add(m, *name, bytes, NULL);
        if (!bytes) nn_fail(m, TN_E_ARGUMENT, "module '%s': a name with an empty part", *name);
        m = next;
        *name = dot + 1;
    }
    return m;
}

/* The parent of a module is NULL, perhaps because it was not made: what the thread's last error says is kept. */
static void fail_without_parent(const char *name)
{
    static const char text[] = "the parent is NULL";
    const tn_error *e = tn_last_error();
    char message[640];
    if (e && strstr(e->message, text)) return;
    snprintf(message, sizeof message, "module '%.100s': %s%s%.400s%s", name ? name : "", text,
             e ? " (the last error: " : "", e ? e->message : "", e ? ")" : "");
    const uint64_t before = tn_error_count();
    tn_scope_fail(NULL, TN_E_ARGUMENT, message);
    tn_error_place(before, place.file, (uint32_t)place.line);
}

void tn_module_undo_add(tn_module *m)
{
    if (m && m->parent) nn_remove_child(m->parent, m);
}

static tn_module *add_below(tn_module *parent, const char *name, const tn_module_class *class)
{
    char path[NN_PATH_BYTES], number[16];
    if (!name) {
        snprintf(number, sizeof number, "%u", parent->child_count);
        name = number;
    }
    const char *last = name;
    if (!*name) {
        nn_fail(parent, TN_E_ARGUMENT, "module '%s': a child needs a name",
                nn_label(parent, path, sizeof path));
        return NULL;
    }
    if (class && class->size < sizeof *class) {
        tn_module_fail(parent, TN_E_ARGUMENT, WRONG_CLASS);
        return NULL;
    }
    tn_module *m = parent_of(parent, &last);
    if (!m) return NULL;
    if (!*last || find_child(m, last, strlen(last)) || nn_slot_find(m, last)) {
        nn_fail(
            m, *last ? TN_E_EXISTS : TN_E_ARGUMENT, "module '%s': %s '%s'", nn_label(m, path, sizeof path),
            *last ? "has already a child or tensor" : "a name that ends with a dot:", *last ? last : name);
        return NULL;
    }
    return add(m, last, strlen(last), class);
}

tn_module *tn_module_add(tn_module *parent, const char *name, const tn_module_class *class)
{
    if (!parent) return fail_without_parent(name), NULL;
    if (parent->tree->status) return NULL;
    parent->tree->first_added = NULL;
    tn_module *m = add_below(parent, name, class);
    if (!m) tn_module_undo_add(parent->tree->first_added);
    return m;
}

tn_module *tn_module_list_create(tn_module *parent, const char *name)
{
    return tn_module_add(parent, name, &list);
}

nn_slot *nn_slot_find(const tn_module *m, const char *name)
{
    for (uint32_t i = 0; m && i < m->slot_count; i++)
        if (!strcmp(m->slots[i].name, name)) return &m->slots[i];
    return NULL;
}

/* Puts the tensor into the slot. A leaf that requires a gradient is shared as it is, so that modules can share a
 * parameter; others are detached. */
static int32_t hold(tn_module *m, nn_slot *slot, tn_tensor *t)
{
    tn_scope *s = nn_scope(m);
    if (!s) return nn_no_scope(m);
    int32_t is_shared = t && slot->is_parameter && tn_is_leaf(t) && tn_requires_grad(t);
    tn_tensor *held = t && !is_shared ? tn_detach(s, t) : t;
    if (held && slot->is_parameter && !is_shared) {
        int32_t status = tn_set_requires_grad(held, 1);
        if (status) tn_scope_fail(s, status, tn_last_error() ? tn_last_error()->message : NULL);
    }
    if (!tn_scope_failed(s)) {
        tn_release(slot->tensor);
        slot->tensor = tn_retain(held);
    }
    return nn_scope_close(m, s);
}

static tn_tensor *add_tensor(tn_module *m, const char *name, tn_tensor *t, nn_slot slot)
{
    char path[NN_PATH_BYTES];
    if (!m || m->tree->status) return NULL;
    if (!name || !*name || strchr(name, '.') || nn_slot_find(m, name) || find_child(m, name, strlen(name))) {
        int32_t taken = name && *name && !strchr(name, '.');
        nn_fail(m, taken ? TN_E_EXISTS : TN_E_ARGUMENT, "module '%s': tensor '%s': %s",
                nn_label(m, path, sizeof path), name ? name : "",
                taken ? "the name is taken" : "a name must not be empty or have dots");
        return NULL;
    }
    void *grown = nn_grown(m->slots, m->slot_count, sizeof *m->slots);
    if (grown) m->slots = grown;
    slot.name = grown ? strdup(name) : NULL;
    if (!slot.name) {
        tn_module_fail(m, TN_E_OUT_OF_MEMORY, NULL);
        return NULL;
    }
    if (hold(m, &slot, t)) {
        free(slot.name);
        return NULL;
    }
    m->slots[m->slot_count++] = slot;
    return slot.tensor;
}

tn_tensor *tn_module_add_parameter(tn_module *m, const char *name, tn_tensor *t)
{
    return add_tensor(m, name, t, (nn_slot){.is_parameter = 1, .is_persistent = 1});
}

tn_tensor *tn_module_add_buffer(tn_module *m, const char *name, tn_tensor *t, uint32_t flags)
{
    return add_tensor(m, name, t, (nn_slot){.is_persistent = !(flags & TN_BUFFER_NOT_PERSISTENT)});
}

/* ---- Asking -------------------------------------------------------------------------------------------- */

tn_module *tn_module_child(const tn_module *m, const char *name)
{
    for (const char *dot; m && name; name = dot + 1) {
        dot = strchr(name, '.');
        m = find_child(m, name, dot ? (uint64_t)(dot - name) : strlen(name));
        if (!dot) return (tn_module *)m;
    }
    return NULL;
}

tn_module *nn_owner_of(const tn_module *m, const char **name)
{
    const char *dot = *name ? strrchr(*name, '.') : NULL;
    char path[NN_PATH_BYTES];
    if (!dot) return *name ? (tn_module *)m : NULL;
    if ((uint64_t)(dot - *name) >= sizeof path) return NULL;
    memcpy(path, *name, (size_t)(dot - *name));
    path[dot - *name] = 0;
    *name = dot + 1;
    return tn_module_child(m, path);
}

static nn_slot *slot_at(const tn_module *m, const char *name)
{
    const tn_module *owner = nn_owner_of(m, &name);
    return owner ? nn_slot_find(owner, name) : NULL;
}

/* Fails the tree if calls compute the tensor: they would not take another one. */
static int32_t refuse_computed(tn_module *m, const char *name)
{
    const char *last = name;
    char path[NN_PATH_BYTES];
    const tn_module *owner = nn_owner_of(m, &last);
    if (!owner || !nn_computed_find(owner, last)) return TN_OK;
    return nn_fail(m, TN_E_STATE, "module '%s': tensor '%s': it is parametrized or pruned; set its original",
                   nn_label(m, path, sizeof path), name);
}

tn_tensor *tn_module_tensor(const tn_module *m, const char *name)
{
    const nn_slot *slot = slot_at(m, name);
    return slot ? slot->tensor : NULL;
}

static int32_t no_tensor(tn_module *m, const char *name)
{
    char path[NN_PATH_BYTES], similar[NN_SIMILAR_BYTES];
    return nn_fail(m, TN_E_NOT_FOUND, "module '%s': no tensor '%s'%s", nn_label(m, path, sizeof path),
                   name ? name : "", nn_similar_tensor(m, name, similar));
}

int32_t tn_module_set_tensor(tn_module *m, const char *name, tn_tensor *t)
{
    nn_slot *slot = slot_at(m, name);
    char path[NN_PATH_BYTES], present[96], given[96];
    if (!m) return nn_is_null("tn_module_set_tensor");
    nn_label(m, path, sizeof path);
    if (!slot) return no_tensor(m, name);
    if (!t)
        return nn_fail(m, TN_E_ARGUMENT,
                       "module '%s': tensor '%s': got NULL; tn_module_set_absent removes a tensor", path,
                       name);
    if (slot->tensor && !same_sizes(slot->tensor, t))
        return nn_fail(m, TN_E_SHAPE,
                       "module '%s': tensor '%s': got sizes %s, the present one has %s "
                       "(tn_module_set_absent first, to change them)",
                       path, name, nn_sizes(t, given, sizeof given),
                       nn_sizes(slot->tensor, present, sizeof present));
    if (refuse_computed(m, name)) return m->tree->status;
    m->tree->generation++;
    return hold(m, slot, t);
}

int32_t tn_module_set_absent(tn_module *m, const char *name)
{
    nn_slot *slot = slot_at(m, name);
    if (!m) return nn_is_null("tn_module_set_absent");
    if (!slot) return no_tensor(m, name);
    if (refuse_computed(m, name)) return m->tree->status;
    m->tree->generation++;
    return hold(m, slot, NULL);
}

uint64_t tn_module_generation(const tn_module *m)
{
    return m ? m->tree->generation : 0;
}

tn_tensor *tn_module_own(const tn_module *m, uint32_t i)
{
    return m && i < m->slot_count ? m->slots[i].tensor : NULL;
}
uint32_t tn_module_child_count(const tn_module *m)
{
    return m ? m->child_count : 0;
}
tn_module *tn_module_child_at(const tn_module *m, uint32_t i)
{
    return m && i < m->child_count ? m->children[i] : NULL;
}
tn_module *tn_module_parent(const tn_module *m)
{
    return m ? m->parent : NULL;
}
tn_context *tn_module_context(const tn_module *m)
{
    return m ? m->tree->ctx : NULL;
}
const char *tn_module_name(const tn_module *m)
{
    return m ? m->name : "";
}
const char *tn_module_class_name(const tn_module *m)
{
    if (m && m->communicator) return "SyncBatchNorm";
    return !m ? "" : m->class->name ? m->class->name : sequential.name;
}
void *tn_module_state(const tn_module *m)
{
    return m ? m->state : NULL;
}
const char *tn_module_path(tn_scope *s, const tn_module *m)
{
    char *path = tn_scope_memory(s, NN_PATH_BYTES);
    return path ? nn_path(m, path, NN_PATH_BYTES) : NULL;
}
