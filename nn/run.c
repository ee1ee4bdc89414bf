/* SPDX-License-Identifier: Apache-2.0 */
/* Forward: hooks, the default forward, the names of modules in errors; functional_call; print and summary. */
#include "module.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tn_tensor *nn_sequential_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    tn_tensor *x = in.data[0];
    (void)more;
    if (in.count != 1) {
        nn_scope_fail(s, TN_E_ARGUMENT, "a chain of modules takes one input, got %lld", (long long)in.count);
        return NULL;
    }
    for (uint32_t i = 0; i < m->child_count && x; i++) x = tn_module_forward(s, m->children[i], x);
    return x;
}

/* ---- Gradients for hooks ----------------------------------------------------------------------------------
 * The identity stands around the call: behind its first output it sees the gradient that comes in, before its inputs
 * those that go out. */

typedef struct watch {
    tn_module *module; /* while `life` is not over: the graph may outlive it */
    module_life *life;
    uint32_t owners; /* the call while it runs, and its functions: two, or one if no input wants a gradient */
    int32_t is_alone;                    /* no input wants a gradient */
    uint32_t count;                      /* inputs of the call */
    int32_t place[TN_MODULE_MAX_INPUTS]; /* of the inputs that are there */
    tn_tensor *grad_out;
} watch;

static int32_t same(tn_function_call *call, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    (void)call;
    for (int64_t i = 0; i < in.count; i++) out[i] = tn_alias(s, in.data[i]);
    return tn_scope_failed(s);
}

static void call_backward_hooks(const watch *w, tn_scope *s, tn_tensor **all)
{
    if (module_life_is_over(w->life)) return;
    for (uint32_t i = 0; i < w->module->hook_count && !tn_scope_failed(s); i++) {
        const tn_module_hook *h = &w->module->hooks[i].hook;
        if (h->backward) h->backward(h->user, s, w->module, w->grad_out, all, w->count);
    }
}

static int32_t keep_gradient(tn_function_call *call, tn_scope *s, tn_tensors grads, tn_tensor **out)
{
    watch *w = tn_function_user(call);
    tn_tensor *none[TN_MODULE_MAX_INPUTS] = {NULL};
    tn_release(w->grad_out);
    w->grad_out = tn_retain(grads.data[0]);
    out[0] = grads.data[0];
    if (w->is_alone)
        call_backward_hooks(w, s, none); /* no gradient goes out, so this is the last that is seen */
    return tn_scope_failed(s);
}

static int32_t run_backward_hooks(tn_function_call *call, tn_scope *s, tn_tensors grads, tn_tensor **out)
{
    watch *w = tn_function_user(call);
    tn_tensor *all[TN_MODULE_MAX_INPUTS] = {NULL};
    for (int64_t i = 0; i < grads.count; i++) all[w->place[i]] = grads.data[i];
    call_backward_hooks(w, s, all);
    for (int64_t i = 0; i < grads.count; i++) out[i] = all[w->place[i]];
    return tn_scope_failed(s);
}

static void forget(void *user)
{
    watch *w = user;
    if (--w->owners) return;
    tn_release(w->grad_out);
    module_life_release(w->life);
    free(w);
}

static const tn_function before = {.size = sizeof before,
                                   .name = "ModuleBackward",
                                   .forward = same,
                                   .backward = run_backward_hooks,
                                   .destroy = forget};
static const tn_function after = {.size = sizeof after,
                                  .name = "ModuleGradient",
                                  .forward = same,
                                  .backward = keep_gradient,
                                  .destroy = forget};

static int32_t has_backward_hook(const tn_module *m)
{
    for (uint32_t i = 0; i < m->hook_count; i++)
        if (m->hooks[i].hook.backward) return 1;
    return 0;
}

/* ---- The call ------------------------------------------------------------------------------------------ */

static tn_tensor *run(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    tn_tensor *(*forward)(tn_scope *, tn_module *, tn_tensors, tn_tensor **) = m->class->forward;
    return (forward ? forward : nn_sequential_forward)(s, m, in, more);
}

static tn_tensor *run_watched(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    watch *w = calloc(1, sizeof *w);
    tn_tensor *inner[TN_MODULE_MAX_INPUTS] = {NULL}, *there[TN_MODULE_MAX_INPUTS] = {NULL}, *out = NULL;
    uint32_t n = 0;
    if (!w) {
        tn_scope_fail(s, TN_E_OUT_OF_MEMORY, NULL);
        return NULL;
    }
    *w = (watch){
        .module = m, .life = module_life_of(m), .owners = 1, .count = (uint32_t)in.count, .is_alone = 1};
    for (int64_t i = 0; i < in.count; i++) {
        inner[i] = in.data[i];
        if (!in.data[i]) continue;
        if (tn_requires_grad(in.data[i])) w->is_alone = 0;
        w->place[n] = (int32_t)i;
        there[n++] = in.data[i];
    }
    /* A function that is not recorded ends before its call returns. */
    w->owners += !w->is_alone;
    if (w->is_alone || !tn_function_apply(s, &before, w, (tn_tensors){there, n}, there, n)) {
        for (uint32_t i = 0; i < n; i++) inner[w->place[i]] = there[i];
        tn_tensor *y = run(s, m, (tn_tensors){inner, in.count}, more);
        w->owners += y && !tn_scope_failed(s);
        if (y && !tn_scope_failed(s)) tn_function_apply(s, &after, w, TN_TENSORS(y), &out, 1);
    }
    forget(w);
    return out;
}

static tn_tensor *run_with_hooks(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    tn_tensor *inputs[TN_MODULE_MAX_INPUTS];
    tn_tensors given = {inputs, in.count};
    memcpy(inputs, in.data, (size_t)in.count * sizeof *inputs);
    for (uint32_t i = 0; i < m->hook_count && !tn_scope_failed(s); i++) {
        const tn_module_hook *h = &m->hooks[i].hook;
        if (h->before) h->before(h->user, s, m, inputs, (uint32_t)in.count);
    }
    if (tn_scope_failed(s)) return NULL;
    tn_tensor *y = has_backward_hook(m) ? run_watched(s, m, given, more) : run(s, m, given, more);
    for (uint32_t i = 0; i < m->hook_count && y && !tn_scope_failed(s); i++) {
        const tn_module_hook *h = &m->hooks[i].hook;
        tn_tensor *other = h->after ? h->after(h->user, s, m, given, y) : NULL;
        if (other) y = other;
    }
    return tn_scope_failed(s) ? NULL : y;
}

/* Adds the path of the innermost module of a failed call to the error, once. */
static void name_module(tn_scope *s, const tn_module *m)
{
    const tn_error *e = tn_scope_error(s);
    char path[512], text[640];
    if (!e || strstr(e->message, ": in module '")) return;
    nn_label(m, path, sizeof path);
    snprintf(text, sizeof text, ": in module '%s' (%s)", path, tn_module_class_name(m));
    tn_scope_add_to_error(s, text);
}

/* Deeper than any network: a forward that calls itself would otherwise take the whole stack. */
#define MOST_DEPTH 1000

/* Behind the places of the further outputs stand some more that a forward must leave NULL. */
#define FENCE 4

static tn_outputs call(tn_scope *s, tn_module *m, tn_tensors in)
{
    static _Thread_local uint32_t depth;
    enum { MORE = TN_MODULE_MAX_OUTPUTS - 1 };
    tn_tensor *more[MORE + FENCE] = {NULL};
    tn_outputs y = {NULL, {NULL}};
    if (depth == MOST_DEPTH) {
        tn_scope_fail(s, TN_E_STATE,
                      "module: 1000 calls of forward are inside one another: does one call itself?");
        return y;
    }
    if (m->is_lazy && nn_materialize(s, m, in)) return y;
    if (m->computed_count && nn_computed_begin(s, m)) return y;
    depth++;
    y.first = m->hook_count ? run_with_hooks(s, m, in, more) : run(s, m, in, more);
    depth--;
    if (m->computed_count) nn_computed_end(m);
    for (uint32_t i = MORE; i < MORE + FENCE; i++)
        if (more[i])
            tn_scope_fail(s, TN_E_CONTRACT, "module: forward wrote more[7] or behind it; it has 7 places");
    if (!y.first && !tn_scope_failed(s))
        tn_scope_fail(s, TN_E_STATE, "module: forward returned NULL without an error");
    if (tn_scope_failed(s)) return (tn_outputs){NULL, {NULL}};
    memcpy(y.more, more, sizeof y.more);
    return y;
}

tn_outputs tn_module_call(tn_scope *s, tn_module *m, tn_tensors in)
{
    tn_outputs y = {NULL, {NULL}};
    if (tn_scope_failed(s)) return y;
    if (!m || m->tree->status) {
        if (m)
            nn_failed_before(s, m);
        else
            tn_scope_fail(s, TN_E_STATE, "module: it is NULL");
        return y;
    }
    if (in.count < 1 || in.count > TN_MODULE_MAX_INPUTS)
        nn_scope_fail(s, TN_E_ARGUMENT, "module: forward takes 1 to 16 inputs, got %lld",
                      (long long)in.count);
    else if (!in.data)
        tn_scope_fail(s, TN_E_ARGUMENT, "module: the list of inputs is NULL");
    else if (!in.data[0])
        tn_scope_fail(s, TN_E_ARGUMENT, "module: the first input is NULL");
    else if (tn_scope_context(s) != m->tree->ctx)
        tn_scope_fail(s, TN_E_ARGUMENT, "module: the scope is of another context than the module");
    else
        y = call(s, m, in);
    if (!y.first) name_module(s, m);
    return y;
}

tn_outputs tn_child_call(tn_scope *s, tn_module *m, const char *name, tn_tensors in)
{
    tn_module *child = tn_module_child(m, name);
    if (m && !child && !tn_scope_failed(s) && !m->tree->status) {
        char path[512], text[1024];
        snprintf(text, sizeof text, "module '%s' (%s) has no child '%s'", nn_label(m, path, sizeof path),
                 tn_module_class_name(m), name ? name : "(null)");
        tn_scope_fail(s, TN_E_NOT_FOUND, text);
    }
    return tn_module_call(s, child ? child : m, in); /* fails with the tree or the scope if there is none */
}

int32_t tn_module_takes(tn_scope *s, tn_tensors in, int64_t count)
{
    if (tn_scope_failed(s) || in.count == count) return tn_scope_failed(s);
    return nn_scope_fail(s, TN_E_ARGUMENT, "module: forward takes %lld input%s, got %lld", (long long)count,
                         count == 1 ? "" : "s", (long long)in.count);
}

/* ---- Hooks --------------------------------------------------------------------------------------------- */

uint64_t tn_module_add_hook(tn_module *m, const tn_module_hook *hook)
{
    if (!m) return nn_is_null("tn_module_add_hook"), 0;
    if (!hook) {
        nn_fail(m, TN_E_ARGUMENT, "tn_module_add_hook: argument 'hook' is NULL");
        return 0;
    }
    if (hook->size < offsetof(tn_module_hook, save_begin)) {
        nn_fail(m, TN_E_ARGUMENT, "tn_module_hook: size is %u; set it to sizeof(tn_module_hook)", hook->size);
        return 0;
    }
    void *grown = nn_grown(m->hooks, m->hook_count, sizeof *m->hooks);
    if (!grown) return tn_scope_fail(NULL, TN_E_OUT_OF_MEMORY, NULL), 0;
    m->hooks = grown;
    nn_hook *added = &m->hooks[m->hook_count++];
    *added = (nn_hook){.handle = ++m->tree->handles};
    memcpy(&added->hook, hook, hook->size < sizeof *hook ? hook->size : sizeof *hook);
    return m->tree->handles;
}

void tn_module_remove_hook(tn_module *m, uint64_t handle)
{
    for (uint32_t i = 0; m && i < m->hook_count; i++) {
        if (m->hooks[i].handle != handle) continue;
        memmove(&m->hooks[i], &m->hooks[i + 1], (m->hook_count - i - 1) * sizeof *m->hooks);
        m->hook_count--;
        return;
    }
}

/* ---- Other tensors ------------------------------------------------------------------------------------- */

/* A slot that has another tensor during a call. */
typedef struct exchanged {
    tn_module *module;
    uint32_t slot; /* its number: the array may grow during the call */
    tn_tensor *own, *other;
} exchanged;

/* The slots that are named. Returns the status of the scope. */
static int32_t find_named(tn_scope *s, tn_module *m, tn_named_tensors with, exchanged *out)
{
    for (int64_t i = 0; i < with.count; i++) {
        const char *name = with.data[i].name;
        tn_module *owner = nn_owner_of(m, &name);
        const nn_slot *slot = owner ? nn_slot_find(owner, name) : NULL;
        if (!slot) {
            char similar[NN_SIMILAR_BYTES] = "";
            if (m) nn_similar_tensor(m, with.data[i].name, similar);
            return nn_scope_fail(s, TN_E_NOT_FOUND, "functional_call: the module has no tensor '%.512s'%s",
                                 with.data[i].name ? with.data[i].name : "", similar);
        }
        if (!with.data[i].tensor) /* the result of a call that failed, perhaps */
            return nn_scope_fail(s, TN_E_ARGUMENT, "functional_call: the tensor '%.512s' is NULL",
                                 with.data[i].name);
        out[i] = (exchanged){owner, (uint32_t)(slot - owner->slots), slot->tensor, with.data[i].tensor};
    }
    return tn_scope_failed(s);
}

static uint64_t count_slots(const tn_module *m)
{
    uint64_t n = m->slot_count;
    for (uint32_t i = 0; i < m->child_count; i++) n += count_slots(m->children[i]);
    return n;
}

/* Appends the other slots of the tree that share the tensor of one of the first `named`: they get the same. Returns the count. */
static int64_t add_shared(tn_module *m, exchanged *list, int64_t named, int64_t count)
{
    for (uint32_t i = 0; i < m->slot_count; i++) {
        tn_tensor *own = m->slots[i].tensor;
        const exchanged *from = NULL;
        int32_t is_named = 0;
        for (int64_t k = 0; k < named && own && !is_named; k++) {
            is_named = list[k].module == m && list[k].slot == i;
            if (!from && list[k].own == own) from = &list[k];
        }
        if (from && !is_named) list[count++] = (exchanged){m, i, own, from->other};
    }
    for (uint32_t i = 0; i < m->child_count; i++) count = add_shared(m->children[i], list, named, count);
    return count;
}

tn_outputs tn_module_functional_call(tn_scope *s, tn_module *m, tn_named_tensors with, tn_tensors in)
{
    tn_outputs y = {NULL, {NULL}};
    exchanged *list =
        tn_scope_memory(s, ((uint64_t)with.count + (m ? count_slots(m) : 0) + 1) * sizeof *list);
    if (!list || find_named(s, m, with, list)) return y;
    const int64_t count = m ? add_shared(m, list, with.count, with.count) : 0;
    for (int64_t i = 0; i < count; i++) list[i].module->slots[list[i].slot].tensor = list[i].other;
    y = tn_module_call(s, m, in);
    for (int64_t i = count; i-- > 0;) list[i].module->slots[list[i].slot].tensor = list[i].own;
    return y;
}

/* ---- Print --------------------------------------------------------------------------------------------- */

static void format(nn_text *t, const tn_module *m, int indent)
{
    char inside[1024] = "";
    if (m->class->describe) m->class->describe(m, inside, sizeof inside);
    nn_print(t, "%s(%s", tn_module_class_name(m), inside);
    for (uint32_t i = 0; i < m->child_count; i++) {
        nn_print(t, "\n%*s(%s): ", indent + 2, "", m->children[i]->name);
        format(t, m->children[i], indent + 2);
    }
    if (m->child_count) nn_print(t, "\n%*s", indent, "");
    nn_print(t, ")");
}

const char *tn_module_format(tn_scope *s, const tn_module *m)
{
    nn_text t = {.scope = s};
    if (!m || tn_scope_failed(s)) return NULL;
    format(&t, m, 0);
    return tn_scope_failed(s) ? NULL : t.text;
}

/* ---- Summary ------------------------------------------------------------------------------------------- */

typedef struct line {
    tn_module *module;
    uint64_t handle;
    char sizes[96];
    int32_t was_training;
    int64_t elements; /* of the output */
    int64_t products; /* multiply-adds of one run */
} line;

/* Each output element of a linear or convolution layer takes one product for each weight of its output; of a
 * transposed convolution each input element does. Other modules count none. */
static int64_t products_of(const tn_module *m, tn_tensors in, const tn_tensor *out)
{
    const tn_tensor *weight = tn_module_tensor(m, "weight");
    const char *name = tn_module_class_name(m);
    int32_t is_transposed = !strncmp(name, "ConvTranspose", 13);
    if (!weight || tn_tensor_rank(weight) < 2 || (strcmp(name, "Linear") && strncmp(name, "Conv", 4)))
        return 0;
    int64_t first = tn_tensor_sizes(weight)[0], per_element = first ? tn_tensor_numel(weight) / first : 0;
    return per_element * tn_tensor_numel(is_transposed ? in.data[0] : out);
}

static tn_tensor *note_output(void *user, tn_scope *s, tn_module *m, tn_tensors in, tn_tensor *out)
{
    line *l = user;
    (void)s;
    nn_sizes(out, l->sizes, sizeof l->sizes);
    l->elements += tn_tensor_numel(out);
    l->products += products_of(m, in, out);
    return NULL;
}

static int64_t own_elements(const tn_module *m)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < m->slot_count; i++)
        if (m->slots[i].is_parameter) n += tn_tensor_numel(m->slots[i].tensor);
    return n;
}

static uint32_t count_modules(const tn_module *m)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < m->child_count; i++) n += count_modules(m->children[i]);
    return n;
}

static void watch_modules(tn_module *m, line **next)
{
    line *l = (*next)++;
    *l = (line){.module = m, .sizes = "-", .was_training = m->is_training};
    l->handle = tn_module_add_hook(
        m, &(tn_module_hook){.size = sizeof(tn_module_hook), .user = l, .after = note_output});
    for (uint32_t i = 0; i < m->child_count; i++) watch_modules(m->children[i], next);
}

const char *tn_module_summary(tn_scope *s, tn_module *m, tn_tensors inputs)
{
    nn_text t = {.scope = s};
    uint32_t n = m ? count_modules(m) : 0;
    line *lines = m ? tn_scope_memory(s, n * sizeof *lines) : NULL, *next = lines;
    if (!lines) return NULL;
    watch_modules(m, &next);
    tn_scope_options quiet = {.size = sizeof quiet, .grad_mode = TN_GRAD_OFF};
    tn_scope *child = tn_scope_open_child(s, &quiet);
    tn_module_train(m, 0); /* the call leaves the statistics of batch norms alone */
    tn_module_call(child, m, inputs);
    int32_t status = tn_scope_close(child);
    int64_t products = 0, bytes = 0, elements = 0;
    nn_print(&t, "%-36s %-20s %14s %16s\n", "module", "output", "parameters", "multiply-adds");
    for (uint32_t i = 0; i < n; i++) {
        char name[600], path[512];
        const tn_module *at = lines[i].module;
        nn_path(at, path, sizeof path);
        snprintf(name, sizeof name, "%s%s%s", path, *path ? ": " : "", tn_module_class_name(at));
        nn_print(&t, "%-36s %-20s %14lld %16lld\n", name, lines[i].sizes, (long long)own_elements(at),
                 (long long)lines[i].products);
        products += lines[i].products;
        elements += at->child_count ? 0 : lines[i].elements;
        lines[i].module->is_training = lines[i].was_training;
        tn_module_remove_hook(lines[i].module, lines[i].handle);
    }
    tn_tensors all = tn_module_parameters(s, m);
    for (int64_t i = 0; i < all.count; i++)
        bytes += tn_tensor_numel(all.data[i]) * tn_dtype_bytes(tn_tensor_dtype(all.data[i]));
    nn_print(&t, "%lld parameters, %.2f MB; %lld multiply-adds; outputs of layers %lld elements\n",
             (long long)tn_module_parameter_count(m), (double)bytes / 1e6, (long long)products,
             (long long)elements);
    return status || tn_scope_failed(s) ? NULL : t.text;
}
