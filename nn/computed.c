/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that a call computes: parametrised and pruned parameters. Between calls their slot is empty, so
 * that lists of tensors have the originals alone.
 */
#include "computed.h"
#include "tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

nn_computed *nn_computed_find(const tn_module *m, const char *name)
{
    for (uint32_t i = 0; m && name && i < m->computed_count; i++)
        if (!strcmp(m->computed[i].name, name)) return &m->computed[i];
    return NULL;
}

static tn_tensor *value_of(tn_scope *s, const tn_module *m, const nn_computed *c)
{
    if (c->holder) {
        tn_tensor *originals[TN_MODULE_MAX_OUTPUTS];
        for (uint32_t i = 0; i < c->holder->slot_count; i++) originals[i] = c->holder->slots[i].tensor;
        tn_tensor *t =
            c->how[0]->forward(s, c->holder->children[0], (tn_tensors){originals, c->holder->slot_count});
        for (uint32_t i = 1; i < c->count && t; i++)
            t = c->how[i]->forward(s, c->holder->children[i], TN_TENSORS(t));
        return t;
    }
    char name[NN_NAME_BYTES];
    tn_tensor *original = tn_module_tensor(m, nn_pruned_name(c->name, "_orig", name));
    return tn_mul(s, original, tn_module_tensor(m, nn_pruned_name(c->name, "_mask", name)));
}

int32_t nn_computed_begin(tn_scope *s, tn_module *m)
{
    for (uint32_t i = 0; i < m->computed_count; i++) {
        nn_computed *c = &m->computed[i];
        if (c->calls || !nn_slot_find(m, c->name)->tensor) c->calls++;
        if (c->calls != 1) continue; /* filled by a call around this one, or given */
        tn_tensor *t = value_of(s, m, c);
        if (!t && !tn_scope_failed(s))
            tn_scope_fail(s, TN_E_STATE, "module: a parametrization returned NULL without an error");
        nn_slot_find(m, c->name)->tensor = tn_scope_failed(s) ? NULL : tn_retain(t);
    }
    if (tn_scope_failed(s)) nn_computed_end(m);
    return tn_scope_failed(s);
}

void nn_computed_end(tn_module *m)
{
    for (uint32_t i = 0; i < m->computed_count; i++) {
        nn_computed *c = &m->computed[i];
        nn_slot *slot = nn_slot_find(m, c->name);
        if (!c->calls || --c->calls) continue;
        tn_release(slot->tensor);
        slot->tensor = NULL;
    }
}

tn_tensor *tn_module_compute(tn_scope *s, tn_module *m, const char *name)
{
    const nn_computed *c = nn_computed_find(m, name);
    if (tn_scope_failed(s)) return NULL;
    tn_tensor *t = c ? value_of(s, m, c) : tn_module_tensor(m, name);
    if (!t && !tn_scope_failed(s))
        tn_scope_fail(s, TN_E_NOT_FOUND, "tn_module_compute: the module has no such tensor");
    return t && !c ? tn_scope_adopt(s, tn_retain(t)) : t;
}

int32_t nn_computed_add(tn_module *m, const char *name, tn_module *holder, const tn_parametrization *how)
{
    nn_slot *slot = nn_slot_find(m, name);
    void *grown = nn_grown(m->computed, m->computed_count, sizeof *m->computed);
    if (grown) m->computed = grown;
    char *own = grown ? strdup(name) : NULL;
    const tn_parametrization **first = malloc(sizeof *first);
    if (!own || !first) {
        free(own);
        free(first);
        return tn_module_fail(m, TN_E_OUT_OF_MEMORY, NULL);
    }
    *first = how;
    m->computed[m->computed_count++] = (nn_computed){.name = own, .holder = holder, .how = first, .count = 1};
    tn_release(slot->tensor);
    slot->tensor = NULL;
    m->tree->generation++;
    return TN_OK;
}

/* Whether one of the originals is: a frozen parameter stays one. */
static int32_t is_trained(const tn_module *m, const nn_computed *c)
{
    char name[NN_NAME_BYTES];
    int32_t is = 0;
    if (!c->holder) return tn_requires_grad(tn_module_tensor(m, nn_pruned_name(c->name, "_orig", name)));
    for (uint32_t i = 0; i < c->holder->slot_count; i++) is |= tn_requires_grad(c->holder->slots[i].tensor);
    return is;
}

/* The original, if there is one. */
static tn_tensor *only_original(const tn_module *m, const nn_computed *c)
{
    char name[NN_NAME_BYTES];
    if (!c->holder) return tn_module_tensor(m, nn_pruned_name(c->name, "_orig", name));
    return c->holder->slot_count == 1 ? c->holder->slots[0].tensor : NULL;
}

static int32_t is_like(const tn_tensor *a, const tn_tensor *b)
{
    return same_sizes(a, b) && tn_tensor_dtype(a) == tn_tensor_dtype(b);
}

int32_t nn_computed_remove(tn_module *m, nn_computed *c, int32_t keeps_value)
{
    tn_scope *s = nn_scope(m);
    if (!s) return nn_no_scope(m);
    tn_tensor *original = only_original(m, c), *value = keeps_value ? value_of(s, m, c) : NULL, *t = original;
    if (value && original && is_like(original, value)) {
        tn_copy_(s, tn_detach(s, original), value); /* who has the parameter goes on with it */
    } else if (keeps_value) {
        t = value ? tn_clone(s, tn_detach(s, value)) : NULL;
        if (t) tn_set_requires_grad(t, is_trained(m, c));
    }
    tn_retain(t);
    int32_t status = nn_scope_close(m, s);
    if (status) return tn_release(t), status;
    nn_slot_find(m, c->name)->tensor = t;
    free(c->name);
    free(c->how);
    memmove(c, c + 1, (m->computed_count - (uint32_t)(c - m->computed) - 1) * sizeof *c);
    m->computed_count--;
    m->tree->generation++;
    return TN_OK;
}

const char *nn_why_not_computed(const tn_module *m, const char *name, int32_t *out_status)
{
    const nn_slot *slot = name ? nn_slot_find(m, name) : NULL;
    *out_status = nn_computed_find(m, name) ? TN_E_EXISTS : TN_E_ARGUMENT;
    if (*out_status == TN_E_EXISTS) return "it is parametrized or pruned";
    if (!slot || !slot->is_parameter || !slot->tensor) return "there is no such parameter";
    return m->class->forward ? NULL : "a module without a forward of its own is a chain";
}

tn_tensor *nn_parameter_to_compute(tn_module *m, const char *call, const char *name)
{
    int32_t status;
    if (!m || m->tree->status) return m ? nn_failed_before(NULL, m) : nn_is_null(call), NULL;
    const char *why = nn_why_not_computed(m, name, &status);
    if (why) return nn_fail(m, status, "%s: '%s': %s", call, name ? name : "(null)", why), NULL;
    return nn_slot_find(m, name)->tensor;
}

/* ---- Parametrisations --------------------------------------------------------------------------------- */

/* Calls the right inverse. 0, or the status with which the scope has failed. */
static int32_t invert(tn_scope *s, const tn_parametrization *how, tn_module *m, tn_tensor *value,
                      tn_tensor **out)
{
    int32_t status = how->right_inverse(s, m, value, out);
    if (status && !tn_scope_failed(s))
        tn_scope_fail(s, status, "the right inverse of the parametrization failed");
    return tn_scope_failed(s);
}

/* The originals of a parameter, as parameters of `holder`. One of the same sizes is the parameter itself, with other values, so that
 * optimisers and modules that have it go on with it. */
static void add_originals(tn_scope *s, tn_module *holder, tn_module *zero, const tn_parametrization *how,
                          tn_tensor *parameter)
{
    tn_tensor *out[TN_MODULE_MAX_OUTPUTS] = {parameter};
    int32_t n = 1;
    if (how->right_inverse) {
        out[0] = NULL;
        if (invert(s, how, zero, tn_clone(s, tn_detach(s, parameter)), out)) return;
        for (n = 0; n < TN_MODULE_MAX_OUTPUTS && out[n]; n++) continue;
    }
    if (n == 1 && out[0] != parameter && is_like(out[0], parameter)) {
        tn_copy_(s, tn_detach(s, parameter), out[0]);
        out[0] = parameter;
    }
    for (int32_t i = 0; i < n && !tn_scope_failed(s); i++) {
        char name[16];
        snprintf(name, sizeof name, n == 1 ? "original" : "original%d", i);
        tn_tensor *original = tn_module_add_parameter(holder, name, out[i]);
        if (original && !tn_requires_grad(parameter)) tn_set_requires_grad(original, 0);
    }
}

static tn_module *add_number(tn_module *holder, const tn_parametrization *how, const void *options)
{
    tn_module *m = tn_module_add(holder, NULL, how->class_);
    if (m && options) memcpy(m->state, options, (size_t)how->class_->state_bytes);
    return m;
}

static int32_t fill_holder(tn_module *m, const char *name, tn_module *holder, tn_tensor *value,
                           const tn_parametrization *how, const void *options)
{
    tn_module *zero = add_number(holder, how, options);
    if (!zero) return tn_module_failed(m);
    tn_scope *s = nn_scope(m);
    if (!s) return nn_no_scope(m);
    add_originals(s, holder, zero, how, value);
    if (nn_scope_close(m, s)) return tn_module_failed(m);
    return nn_computed_add(m, name, holder, how);
}

/* The first one: the parameter becomes originals. */
static int32_t parametrize(tn_module *m, const char *name, const tn_parametrization *how, const void *options)
{
    char path[NN_NAME_BYTES];
    tn_tensor *value = nn_parameter_to_compute(m, "tn_module_parametrize", name);
    if (!value) return tn_module_failed(m);
    snprintf(path, sizeof path, "parametrizations.%s", name);
    tn_module *holder = tn_module_list_create(m, path), *first = m->tree->first_added;
    if (!holder) return tn_module_failed(m);
    int32_t status = fill_holder(m, name, holder, value, how, options);
    if (status) tn_module_undo_add(first);
    return status;
}

/* The value and the one that a further parametrisation makes of it; its right inverse makes its buffers. */
static void try_chained(tn_scope *s, tn_module *m, const nn_computed *c, tn_module *number,
                        const tn_parametrization *how)
{
    tn_tensor *out[TN_MODULE_MAX_OUTPUTS] = {NULL}, *value = value_of(s, m, c);
    value = value ? tn_clone(s, tn_detach(s, value)) : NULL;
    if (value && how->right_inverse && invert(s, how, number, value, out)) return;
    tn_tensor *y = value && !out[1] ? how->forward(s, number, TN_TENSORS(value)) : NULL;
    if (out[1])
        tn_scope_fail(s, TN_E_ARGUMENT, "it has several originals, so that it can only be the first one");
    else if (y && (!same_sizes(y, value) || tn_tensor_dtype(y) != tn_tensor_dtype(value)))
        tn_scope_fail(s, TN_E_SHAPE,
                      "it changes the sizes or the dtype, so that it can only be the first one");
    else if (!y && !tn_scope_failed(s))
        tn_scope_fail(s, TN_E_STATE, "its forward returned NULL without an error");
}

/* A further one computes from the value of those before it; the originals stay. */
static int32_t chain(tn_module *m, const char *name, const tn_parametrization *how, const void *options)
{
    nn_computed *c = nn_computed_find(m, name);
    const tn_parametrization **grown = realloc(c->how, (c->count + 1) * sizeof *grown);
    if (!grown) return tn_module_fail(m, TN_E_OUT_OF_MEMORY, NULL);
    c->how = grown;
    tn_module *number = add_number(c->holder, how, options);
    if (!number) return tn_module_failed(m);
    tn_scope *s = nn_scope(m);
    if (s) try_chained(s, m, c, number, how);
    int32_t status = s ? nn_scope_close(number, s) : nn_no_scope(m);
    if (status) {
        tn_module_undo_add(number);
        return tn_module_failed(m);
    }
    c->how[c->count++] = how;
    m->tree->generation++;
    return TN_OK;
}

int32_t tn_module_parametrize(tn_module *m, const char *name, const tn_parametrization *how,
                              const void *options)
{
    if (!m) return nn_is_null("tn_module_parametrize");
    if (m->tree->status) return nn_failed_before(NULL, m);
    if (!how || how->size < sizeof *how || !how->class_ || how->class_->size < sizeof *how->class_ ||
        !how->forward)
        return nn_fail(m, TN_E_ARGUMENT,
                       "tn_module_parametrize: argument 'how': it is NULL, too small, or has no forward");
    const nn_computed *c = nn_computed_find(m, name);
    return (c && c->holder ? chain : parametrize)(m, name, how, options);
}

int32_t tn_module_is_parametrized(const tn_module *m, const char *name)
{
    for (uint32_t i = 0; m && i < m->computed_count; i++)
        if (m->computed[i].holder && (!name || !strcmp(m->computed[i].name, name))) return 1;
    return 0;
}

/* The value stays as the parameter, or the one original becomes it again. */
static int32_t remove_parametrization(tn_module *m, const char *name, const char *call, int32_t keeps_value)
{
    nn_computed *c = nn_computed_find(m, name);
    tn_module *holder = c ? c->holder : NULL, *all = m ? tn_module_child(m, "parametrizations") : NULL;
    if (!m) return nn_is_null(call);
    if (!holder)
        return nn_fail(m, TN_E_NOT_FOUND, "%s: '%s' is not parametrized", call, name ? name : "(null)");
    if (!keeps_value && !only_original(m, c))
        return nn_fail(m, TN_E_ARGUMENT, "%s: '%s' has several originals, expected one", call, name);
    const int32_t status = nn_computed_remove(m, c, keeps_value);
    if (status) return status;
    nn_remove_child(all, holder);
    if (!all->child_count) nn_remove_child(m, all);
    return TN_OK;
}

int32_t tn_module_remove_parametrization(tn_module *m, const char *name)
{
    return remove_parametrization(m, name, "tn_module_remove_parametrization", 1);
}

int32_t tn_module_restore_parametrized(tn_module *m, const char *name)
{
    return remove_parametrization(m, name, "tn_module_restore_parametrized", 0);
}
