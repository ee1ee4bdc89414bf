/* SPDX-License-Identifier: Apache-2.0 */
/* Layers by the names of their classes, with options that are values, and what their options are. */
#include "layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t tags[] = {TN_TAG_INT,    TN_TAG_FLOAT, TN_TAG_BOOL,
                                TN_TAG_STRING, TN_TAG_INTS,  TN_TAG_TENSOR}; /* NN_INT, ... */

static const nn_layer *find(const char *name)
{
    for (uint32_t i = 0; name && i < nn_layer_total; i++)
        if (!strcmp(nn_layers[i]->class.name, name)) return nn_layers[i];
    return NULL;
}

/* ---- What there is ------------------------------------------------------------------------------------- */

uint32_t tn_layer_count(void)
{
    return nn_layer_total;
}

const char *tn_layer_name(uint32_t i)
{
    return i < nn_layer_total ? nn_layers[i]->class.name : NULL;
}

/* A list's default has one item for all; `=other` and tensors have none. */
static tn_value standard_of(const nn_option *o)
{
    if (o->is_given || o->kind == NN_TENSOR || o->like >= 0) return tn_value_none();
    if (o->kind == NN_TEXT) return o->text ? tn_value_string(o->text) : tn_value_none();
    if (isnan(o->number)) return tn_value_none();
    if (o->kind == NN_FLOAT) return tn_value_float(o->number);
    return o->kind == NN_BOOL ? tn_value_bool(o->number != 0) : tn_value_int((int64_t)o->number);
}

int32_t tn_layer_option_at(const char *layer, uint32_t i, tn_layer_option_info *out)
{
    const nn_layer *l = find(layer);
    char text[160];
    const uint32_t size = out ? out->size : 0;
    if (size < offsetof(tn_layer_option_info, standard))
        return tn_scope_fail(NULL, TN_E_ARGUMENT, "tn_layer_option_at: `out` is NULL or its size is not set");
    if (!l) {
        snprintf(text, sizeof text, "tn_layer_option_at: there is no layer '%.80s'", layer ? layer : "NULL");
        return tn_scope_fail(NULL, TN_E_NOT_FOUND, text);
    }
    if (i >= l->option_count) {
        snprintf(text, sizeof text, "tn_layer_option_at: %s has %u options, got %u", l->class.name,
                 l->option_count, i);
        return tn_scope_fail(NULL, TN_E_INDEX, text);
    }
    const nn_option *o = &l->options[i];
    const tn_layer_option_info info = {.size = size,
                                       .tag = tags[o->kind],
                                       .name = o->name,
                                       .is_required = o->is_given,
                                       .items = o->spread,
                                       .standard = standard_of(o)};
    memcpy(out, &info, size < sizeof info ? size : sizeof info);
    return TN_OK;
}

/* ---- Making -------------------------------------------------------------------------------------------- */

/* What a struct of options has for None: TN_NONE, or the 0 or NaN that stands for it. 0: the option is always a number. */
static int32_t put_none(const nn_layer *l, const nn_option *o, double *field)
{
    int32_t is_zero = 0;
    for (uint32_t i = 0; i < l->shown_count; i++)
        is_zero |= &l->options[l->shown[i].option] == o && l->shown[i].how & NN_OR_NONE;
    *field = is_zero ? 0 : o->may_be_none ? (double)TN_NONE : NAN;
    return is_zero || o->may_be_none || isnan(o->number);
}

/* Writes a value into the field of an option; 0 if it is of another kind. */
static int32_t put(const nn_layer *l, const nn_option *o, const tn_value *v, void *field)
{
    const int32_t is_whole = v->tag == TN_TAG_INT || v->tag == TN_TAG_BOOL;
    switch (o->kind) {
    case NN_INT:
        if (v->tag == TN_TAG_INT) *(int64_t *)field = v->as.i;
        return v->tag == TN_TAG_INT;
    case NN_FLOAT:
        if (v->tag == TN_TAG_NONE) return put_none(l, o, field);
        *(double *)field = v->tag == TN_TAG_FLOAT ? v->as.f : (double)v->as.i;
        return v->tag == TN_TAG_FLOAT || v->tag == TN_TAG_INT;
    case NN_BOOL:
        *(int32_t *)field = v->as.i != 0;
        return is_whole && (v->as.i == 0 || v->as.i == 1);
    case NN_TEXT:
        *(const char **)field = v->as.string;
        return v->tag == TN_TAG_STRING && v->as.string;
    case NN_INTS:
        if (v->tag == TN_TAG_INT) *(tn_ints *)field = (tn_ints){&v->as.i, 1};
        if (v->tag == TN_TAG_INTS) *(tn_ints *)field = (tn_ints){v->as.ints, v->count};
        return v->tag == TN_TAG_INT || v->tag == TN_TAG_INTS;
    default:
        *(tn_tensor **)field = v->tag == TN_TAG_TENSOR ? v->as.tensor : NULL;
        return v->tag == TN_TAG_TENSOR || v->tag == TN_TAG_NONE;
    }
}

static const tn_layer_option *given(const nn_option *o, const tn_layer_option *options, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (options[i].name && !strcmp(options[i].name, o->name)) return &options[i];
    return NULL;
}

static int32_t has_option(const nn_layer *l, const char *name)
{
    for (uint32_t i = 0; name && i < l->option_count; i++)
        if (!strcmp(l->options[i].name, name)) return 1;
    return 0;
}

/* The struct of options that a program in C would have written. */
static int32_t fill(tn_module *parent, const nn_layer *l, const tn_layer_option *options, uint32_t count,
                    char *to)
{
    static const char *const kinds[] = {"an int", "a float", "a bool", "a string", "ints", "a tensor"};
    for (uint32_t i = 0; i < count; i++) {
        if (!has_option(l, options[i].name))
            return nn_fail(parent, TN_E_ARGUMENT, "%s: there is no option '%s'", l->class.name,
                           options[i].name ? options[i].name : "NULL");
    }
    for (uint32_t i = 0; i < l->option_count; i++) {
        const nn_option *o = &l->options[i];
        const tn_layer_option *value = given(o, options, count);
        if (!value && o->is_given)
            return nn_fail(parent, TN_E_ARGUMENT, "%s: the option '%s' must be given, %s", l->class.name,
                           o->name, kinds[o->kind]);
        if (!value)
            nn_option_set_default(o, to + o->offset);
        else if (!put(l, o, &value->value, to + o->offset))
            return nn_fail(parent, TN_E_ARGUMENT, "%s: option '%s': got a value with the tag %u, expected %s",
                           l->class.name, o->name, value->value.tag, kinds[o->kind]);
    }
    return TN_OK;
}

tn_module *tn_layer_create(tn_module *parent, const char *name, const char *layer,
                           const tn_layer_option *options, uint32_t count)
{
    const nn_layer *l = find(layer);
    if (!parent) return tn_module_add(NULL, name, NULL); /* says so */
    if (!l || (count && !options)) {
        nn_fail(parent, TN_E_ARGUMENT, l ? "%s: the options are NULL" : "there is no layer '%s'",
                layer ? layer : "NULL");
        return NULL;
    }
    char *all = calloc(1, l->class.state_bytes);
    if (!all) return tn_module_fail(parent, TN_E_OUT_OF_MEMORY, NULL), NULL;
    *(nn_options_head *)(void *)all =
        (nn_options_head){.options_size = (uint32_t)l->class.state_bytes, .name = name};
    tn_module *m = fill(parent, l, options, count, all) ? NULL : nn_layer_create(parent, l, all);
    free(all);
    return m;
}
