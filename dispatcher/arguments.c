/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks arguments against the schema, once for each call. Arguments that fit by their tags stay where the
 * caller has them. The others come here: they are converted where ATen converts them, and defaults are filled
 * in.
 */
#include <string.h>
#include "dispatcher/call.h"

static const char *const tag_names[] = {"None",   "Tensor",       "Tensor[]",  "int",        "float",
                                        "bool",   "complex",      "str",       "int[]",      "float[]",
                                        "bool[]", "Scalar[]",     "str[]",     "ScalarType", "Layout",
                                        "Device", "MemoryFormat", "Generator", "pointer"};

static int32_t bad_argument(const tni_op *op, uint32_t i, const tn_value *v)
{
    const tni_argument *a = &op->schema->args[i];
    const char *got = v->tag < sizeof tag_names / sizeof *tag_names ? tag_names[v->tag] : "an unknown tag";
    if (v->tag == TN_TAG_PLAIN) {
        got = !a->is_list                  ? "a plain number: write TN_SCALAR(x)"
              : a->type == TNI_TYPE_TENSOR ? "a plain number: write TN_TENSORS(...)"
              : a->type == TNI_TYPE_FLOAT  ? "a plain number: write TN_FLOATS(...)"
              : a->type == TNI_TYPE_BOOL   ? "a plain number: write TN_BOOLS(...)"
                                           : "a plain number: write TN_INTS(...)";
    }
    if (v->tag == TN_TAG_NONE) {
        return tni_error(TN_E_ARGUMENT, "%s(): argument '%s' (position %u) must be %s, not None",
                         op->schema->name, a->name, i + 1, a->type_text);
    }
    return tni_error(TN_E_ARGUMENT, "%s(): argument '%s' (position %u) must be %s, not %s", op->schema->name,
                     a->name, i + 1, a->type_text, got);
}

static int32_t bad_length(const tni_op *op, uint32_t i, uint32_t count)
{
    const tni_argument *a = &op->schema->args[i];
    return tni_error(TN_E_ARGUMENT, "%s(): argument '%s' must have %d items, got %u", op->schema->name,
                     a->name, a->list_length, count);
}

/* One int or float for a list: repeated as often as the schema says. */
static int32_t widen_to_list(tni_frame *f, const tni_argument *a, tn_value *v)
{
    uint32_t n = a->list_length > 1 ? (uint32_t)a->list_length : 1;
    union {
        int64_t i;
        double f;
    } *items = tni_frame_memory(f, n * 8ull);
    if (!items) return TN_E_INTERNAL;
    for (uint32_t k = 0; k < n; k++) {
        if (a->type == TNI_TYPE_FLOAT)
            items[k].f = tn_value_as_float(*v);
        else
            items[k].i = v->as.i;
    }
    *v = a->type == TNI_TYPE_FLOAT ? tn_value_floats(&items->f, n) : tn_value_ints(&items->i, n);
    return TN_OK;
}

/* A scalar for a tensor: wrapped in a 0-dim tensor that promotes like a scalar. */
static int32_t wrap_scalar(tni_call_state *c, tn_value *v)
{
    tn_tensor *t;
    int32_t status = tni_wrap_scalar(c->frame.ctx, *v, &t);
    if (status) return status;
    c->wrapped[c->n_wrapped++] = t;
    *v = tn_value_tensor(t);
    return TN_OK;
}

/* Whether a tag fits an argument. */
enum { FITS, DOES_NOT_FIT, FITS_CONVERTED };

/* The tag of lists of this type; 0 for a type that has no lists. */
static uint32_t list_tag(int32_t type)
{
    static const uint8_t tags[TNI_TYPE_COUNT] = {
        [TNI_TYPE_TENSOR] = TN_TAG_TENSORS, [TNI_TYPE_INT] = TN_TAG_INTS,
        [TNI_TYPE_FLOAT] = TN_TAG_FLOATS,   [TNI_TYPE_BOOL] = TN_TAG_BOOLS,
        [TNI_TYPE_SCALAR] = TN_TAG_SCALARS, [TNI_TYPE_STRING] = TN_TAG_STRINGS,
        [TNI_TYPE_DIMNAME] = TN_TAG_STRINGS};
    return tags[type];
}

static int32_t fits_list(const tni_argument *a, const tn_value *v)
{
    uint32_t tag = list_tag(a->type);
    if (!tag) return v->tag <= TN_TAG_POINTER ? FITS : DOES_NOT_FIT; /* Any, Stream */
    if (v->tag == tag) return FITS;
    if (a->type == TNI_TYPE_INT) return v->tag == TN_TAG_INT ? FITS_CONVERTED : DOES_NOT_FIT;
    if (a->type != TNI_TYPE_FLOAT) return DOES_NOT_FIT;
    return v->tag == TN_TAG_FLOAT || v->tag == TN_TAG_INT || v->tag == TN_TAG_INTS ? FITS_CONVERTED
                                                                                   : DOES_NOT_FIT;
}

/* What is absent and has no default: an optional argument stays so, and a required list is empty, because typed calls
 * write {NULL, 0} for an empty list. */
static int32_t take_absent(const tni_op *op, uint32_t i, tn_value *v)
{
    static const int64_t none;
    const tni_argument *a = &op->schema->args[i];
    if (v->count && a->is_list) /* in C++ an integer 0 is a null pointer: tn_permute(s, x, {0, 1}) */
        return tni_error(
            TN_E_ARGUMENT,
            "%s(): argument '%s' (position %u): a list that points to NULL has no items (got %u)",
            op->schema->name, a->name, i + 1, v->count);
    if (a->is_optional || a->type == TNI_TYPE_GENERATOR) return TN_OK;
    if (!a->is_list || !list_tag(a->type)) return bad_argument(op, i, v);
    *v = tn_value_make(list_tag(a->type), 0);
    v->as.ints = &none;
    return TN_OK;
}

static int32_t fits_item(const tni_argument *a, const tn_value *v)
{
    /* of types that only one tag fits */
    static const uint8_t only[TNI_TYPE_COUNT] = {
        [TNI_TYPE_STRING] = TN_TAG_STRING,      [TNI_TYPE_DIMNAME] = TN_TAG_STRING,
        [TNI_TYPE_DTYPE] = TN_TAG_DTYPE,        [TNI_TYPE_LAYOUT] = TN_TAG_LAYOUT,
        [TNI_TYPE_DEVICE] = TN_TAG_DEVICE,      [TNI_TYPE_MEMORY_FORMAT] = TN_TAG_MEMORY_FORMAT,
        [TNI_TYPE_GENERATOR] = TN_TAG_GENERATOR};
    switch (a->type) {
    case TNI_TYPE_TENSOR:
        return v->tag == TN_TAG_TENSOR ? 0 : tni_is_number(v->tag) ? 2 : 1;
    case TNI_TYPE_INT:
        return v->tag == TN_TAG_INT ? 0 : v->tag == TN_TAG_BOOL ? 2 : 1;
    case TNI_TYPE_FLOAT:
        return v->tag == TN_TAG_FLOAT ? 0 : v->tag == TN_TAG_INT || v->tag == TN_TAG_BOOL ? 2 : 1;
    case TNI_TYPE_BOOL:
        return v->tag == TN_TAG_BOOL ? 0 : v->tag == TN_TAG_INT ? 2 : 1;
    case TNI_TYPE_SCALAR:
    case TNI_TYPE_COMPLEX:
        return tni_is_number(v->tag) ? 0 : 1;
    default:
        return only[a->type] ? v->tag != only[a->type] : v->tag > TN_TAG_POINTER; /* Any, Stream */
    }
}

/* Converts a value whose tag is FITS_CONVERTED. */
static int32_t convert(tni_call_state *c, const tni_argument *a, tn_value *v)
{
    if (a->is_list) {
        if (a->type == TNI_TYPE_FLOAT && v->tag == TN_TAG_INTS) {
            double *items = tni_frame_memory(&c->frame, (v->count + 1ull) * 8);
            if (!items) return TN_E_INTERNAL;
            for (uint32_t k = 0; k < v->count; k++) items[k] = (double)v->as.ints[k];
            *v = tn_value_floats(items, v->count);
            return TN_OK;
        }
        return widen_to_list(&c->frame, a, v);
    }
    if (a->type == TNI_TYPE_TENSOR) return wrap_scalar(c, v);
    if (a->type == TNI_TYPE_FLOAT)
        *v = tn_value_float(tn_value_as_float(*v));
    else if (a->type == TNI_TYPE_BOOL)
        *v = tn_value_bool(v->as.i != 0);
    else
        *v = tn_value_int(v->as.i);
    return TN_OK;
}

static int32_t check_items(const tni_op *op, uint32_t i, const tn_value *v)
{
    const tni_argument *a = &op->schema->args[i];
    /* As in ATen, only lists of bools must have the length; operators check the others. */
    if (v->tag == TN_TAG_BOOLS && a->list_length && v->count != (uint32_t)a->list_length)
        return bad_length(op, i, v->count);
    if (v->tag == TN_TAG_TENSORS && !a->optional_items) {
        for (uint32_t k = 0; k < v->count; k++) {
            if (!v->as.tensors[k]) {
                return tni_error(TN_E_ARGUMENT, "%s(): argument '%s': item %u is None", op->schema->name,
                                 a->name, k);
            }
        }
    }
    return TN_OK;
}

/* A list of one int for an int[2] is repeated by operators that do so in ATen: convolutions and pools, not paddings. */
static int32_t widen_short_list(tni_frame *f, const tni_argument *a, tn_value *v)
{
    tn_value one = tn_value_int(v->as.ints[0]);
    int32_t status = widen_to_list(f, a, &one);
    if (!status) *v = one;
    return status;
}

static int32_t check_argument(tni_call_state *c, const tni_op *op, uint32_t i, tn_value *v)
{
    const tni_argument *a = &op->schema->args[i];
    int32_t fit, status;
    if (v->tag == TN_TAG_NONE) return take_absent(op, i, v);
    if (v->tag <= TN_TAG_POINTER && tni_points_to_null(v)) return TN_OK; /* the call refuses it */
    fit = a->is_list ? fits_list(a, v) : fits_item(a, v);
    if (fit == DOES_NOT_FIT) return bad_argument(op, i, v);
    if (fit == FITS_CONVERTED) return convert(c, a, v);
    if (!a->is_list) return TN_OK;
    status = check_items(op, i, v);
    if (!status && a->spreads && v->count == 1 && v->tag == TN_TAG_INTS)
        status = widen_short_list(&c->frame, a, v);
    return status;
}

static int32_t wrong_count(const tni_op *op, uint32_t n_args)
{
    const tni_schema *s = op->schema;
    if (n_args > s->n_args) {
        return tni_error(TN_E_ARGUMENT, "%s() takes %u arguments but %u were given; schema: %s", s->name,
                         s->n_args, n_args, s->text);
    }
    return tni_error(TN_E_ARGUMENT, "%s() missing argument '%s' (position %u); schema: %s", s->name,
                     s->args[n_args].name, n_args + 1, s->text);
}

/* Whether a value fits by its tag alone. Lists fit unless their length or items must be checked; an absent list must
 * have no items. */
static int32_t fits_as_it_is(const tni_argument *a, const tn_value *v)
{
    if (v->tag == TN_TAG_NONE) return a->is_optional && !a->is_list;
    if (!a->is_list) return !fits_item(a, v);
    if (a->list_length > 1 || (v->tag == TN_TAG_TENSORS && !a->optional_items)) return 0;
    return !fits_list(a, v);
}

uint32_t tni_accepted_tags(const tni_argument *a)
{
    uint32_t bits = 0;
    for (uint32_t tag = 0; tag <= TN_TAG_POINTER; tag++) {
        tn_value v = tn_value_make(tag, 0);
        if (fits_as_it_is(a, &v)) bits |= 1u << tag;
    }
    return bits;
}

int32_t tni_check_result(const tni_op *op, uint32_t i, const tn_value *v)
{
    const tni_argument *a = &op->schema->returns[i];
    int32_t fits = v->tag == TN_TAG_NONE ? a->is_optional
                   : a->is_list          ? v->tag == list_tag(a->type)
                                         : !fits_item(a, v);
    if (fits) return TN_OK;
    if (v->tag == TN_TAG_NONE)
        return tni_error(TN_E_CONTRACT, "the composite of %s did not set output %u (expected %s)",
                         tni_op_name(op), i, a->type_text);
    return tni_error(TN_E_CONTRACT, "the composite of %s set output %u to %s (expected %s)", tni_op_name(op),
                     i, v->tag < sizeof tag_names / sizeof *tag_names ? tag_names[v->tag] : "an unknown tag",
                     a->type_text);
}

int32_t tni_change_arguments(tni_call_state *c, const tni_op *op, const tn_value *args, uint32_t n_args)
{
    const tni_schema *s = op->schema;
    uint32_t i = 0;
    if (n_args > s->n_args) return wrong_count(op, n_args);
    if (n_args) memcpy(c->args, args, n_args * sizeof *args);
    c->frame.args = c->args;
    for (i = 0; i < s->n_args; i++) {
        int32_t status;
        if (i >= n_args || (c->args[i].tag == TN_TAG_NONE && !c->args[i].count && !s->args[i].is_optional &&
                            s->args[i].default_text)) {
            if (i >= n_args && !s->args[i].default_text && !s->args[i].is_optional) return wrong_count(op, i);
            c->args[i] = s->args[i].default_value;
            continue;
        }
        status = check_argument(c, op, i, &c->args[i]);
        if (status) return status;
    }
    return TN_OK;
}
