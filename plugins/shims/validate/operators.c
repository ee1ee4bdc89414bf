/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels and the functions of operators that a plugin defines, by the values of their calls: each gets
 * copies for the length of the call, so that what it writes beside the host's functions does no harm and is
 * seen. What a shape rule, a composite and a gradient give is compared with what the arguments, or an earlier
 * function of the same call, say; see validate.h.
 */
#include "validate.h"

#include <inttypes.h>

/* One output as defined by a shape rule. */
typedef struct shape {
    int32_t defined;
    tn_dtype dtype;
    uint32_t rank;
    uint32_t reserved;
    tn_device device; /* 0: not said */
    int64_t sizes[TN_MAX_RANK];
} shape;

#define MAX_SHAPES 8u

/* From the last shape rule on this thread: the composite of the same call follows. */
typedef struct inferred {
    const shim_operator *definition;
    const tn_value *args; /* the host's, by which the call is known */
    uint32_t count;
    uint32_t reserved;
    validate_place place;
    shape shapes[MAX_SHAPES];
} inferred;
static _Thread_local inferred last_rule;

/* A running call. */
typedef struct values_note {
    uint32_t n_args;
    uint32_t n_outs;
    tn_value *args;     /* what the function gets */
    tn_value *outs;     /* likewise */
    tn_value *expected; /* the outs, as they came and as set_output leaves them */
    int32_t *given;     /* outs that set_output or define_output gave */
    inferred *rule;     /* composites: what the shape rule defined, or NULL */
    tn_value storage[];
} values_note;

/* ---- Words ------------------------------------------------------------------------------------------- */

/* The function, before "of mylib::myop". */
static const char *function_name(uint32_t id)
{
    return id == SHIM_KERNEL_RUN           ? "the kernel"
           : id == SHIM_OPERATOR_INFER     ? "the shape rule"
           : id == SHIM_OPERATOR_BACKWARD  ? "the gradient"
           : id == SHIM_KERNEL_CAN_RUN     ? "can_run"
           : id == SHIM_OPERATOR_COMPOSITE ? "the composite"
                                           : "the batching rule";
}

static const char *dtype_text(tn_dtype dtype, char *buffer, size_t bytes)
{
    static const char *const codes[] = {"int", "uint", "float", NULL, "bfloat", "complex"};
    uint32_t code = TN_DTYPE_CODE(dtype), bits = TN_DTYPE_BITS(dtype);
    if (dtype == TN_BOOL)
        snprintf(buffer, bytes, "bool");
    else if (code < sizeof(codes) / sizeof(codes[0]) && codes[code] && bits >= 8)
        snprintf(buffer, bytes, "%s%u", codes[code], bits);
    else
        snprintf(buffer, bytes, "dtype 0x%x", dtype);
    return buffer;
}

static const char *sizes_text(uint32_t rank, const int64_t *sizes, char *buffer, size_t bytes)
{
    size_t used = (size_t)snprintf(buffer, bytes, "[");
    for (uint32_t i = 0; i < rank && used < bytes; i++)
        used += (size_t)snprintf(buffer + used, bytes - used, "%s%" PRId64, i ? ", " : "", sizes[i]);
    if (used < bytes) snprintf(buffer + used, bytes - used, "]");
    return buffer;
}

static int32_t is_known_dtype(tn_dtype dtype)
{
    static const tn_dtype known[] = {
        TN_BOOL,           TN_UINT8,         TN_UINT16,      TN_UINT32,          TN_UINT64,
        TN_INT8,           TN_INT16,         TN_INT32,       TN_INT64,           TN_FLOAT16,
        TN_BFLOAT16,       TN_FLOAT32,       TN_FLOAT64,     TN_COMPLEX32,       TN_COMPLEX64,
        TN_COMPLEX128,     TN_FLOAT8_E4M3FN, TN_FLOAT8_E5M2, TN_FLOAT8_E4M3FNUZ, TN_FLOAT8_E5M2FNUZ,
        TN_FLOAT8_E8M0FNU, TN_QUINT8,        TN_QINT8,       TN_QINT32,          TN_QUINT4X2};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i] == dtype) return 1;
    return TN_DTYPE_CODE(dtype) > TN_CODE_QUINT4X2; /* interned by the program */
}

/* ---- Schemas ----------------------------------------------------------------------------------------- */

/* What a schema says of a result. */
typedef struct result_type {
    int32_t is_plain;   /* neither a list nor optional: it must be given */
    int32_t is_tensor;  /* no list and no number: set_output gives it */
    int32_t is_written; /* it is an argument that the operator writes */
} result_type;

/* Result i of a schema, and how many there are. */
static uint32_t results_of(const char *schema, uint32_t i, result_type *out)
{
    const char *at = strstr(schema, "->");
    uint32_t count = 0, depth = 0;
    int32_t empty = 1;
    const result_type unread = {.is_plain = 1};
    result_type result = unread;
    *out = (result_type){.is_plain = 0};
    if (!at) return 0;
    at += 2 + strspn(at + 2, " ");
    uint32_t base = *at == '('; /* several results stand in brackets */
    for (;; at++) {
        if (*at == ',' || *at == 0) {
            if (depth <= base && !empty) {
                if (count++ == i) *out = result;
                result = unread;
                empty = 1;
            }
            if (!*at) return count;
            continue;
        }
        depth += *at == '(';
        depth -= *at == ')' && depth > 0;
        if (*at == '?' || *at == '[') result.is_plain = 0;
        if (*at == '[') result.is_tensor = 0;
        if (*at == '!') result.is_written = 1;
        if (*at == ' ' || *at == '(' || *at == ')') continue;
        if (empty) result.is_tensor = strncmp(at, "Tensor", strlen("Tensor")) == 0;
        empty = 0;
    }
}

/* Whether the operator works in place: its first argument is written. */
static int32_t is_in_place(const char *schema)
{
    const char *at = strchr(schema, '('), *end = at ? at + 1 + strcspn(at + 1, " ") : NULL;
    return end && memchr(at, '!', (size_t)(end - at));
}

/* ---- Devices ----------------------------------------------------------------------------------------- */

/* The first tensor among the arguments; NULL: there is none. */
static const tn_tensor_desc *first_tensor(const tn_call *call)
{
    for (uint32_t i = 0; i < call->n_args; i++) {
        const tn_value *v = &call->args[i];
        if (v->tag == TN_TAG_TENSOR && v->as.tensor) return tn_desc(v->as.tensor);
        for (uint32_t k = 0; v->tag == TN_TAG_TENSORS && k < v->count; k++)
            if (v->as.tensors[k]) return tn_desc(v->as.tensors[k]);
    }
    return NULL;
}

static int32_t is_device_of(const tn_value *v, tn_device device)
{
    if (v->tag == TN_TAG_TENSOR) return v->as.tensor && tn_desc(v->as.tensor)->device == device;
    for (uint32_t k = 0; v->tag == TN_TAG_TENSORS && k < v->count; k++)
        if (v->as.tensors[k] && tn_desc(v->as.tensors[k])->device == device) return 1;
    return 0;
}

/* Results are on a device of the arguments, unless an argument says which. */
static int32_t device_fits(const shim_call *c, tn_device device)
{
    const tn_call *call = c->call;
    if (!device || !first_tensor(call) || strstr(c->definition->def.schema, "Device")) return 1;
    for (uint32_t i = 0; i < call->n_args; i++)
        if (is_device_of(&call->args[i], device)) return 1;
    return 0;
}

/* ---- Calls of the host's ----------------------------------------------------------------------------- */

/* Whether the function may call this slot of the host. */
static int32_t belongs(uint32_t host, const shim_call *of)
{
    const uint32_t function = of->id;
    switch (host) {
    case SHIM_HOST_DEFINE_OUTPUT:
        return function == SHIM_OPERATOR_INFER;
    case SHIM_HOST_SET_OUTPUT:
        return function == SHIM_OPERATOR_COMPOSITE || function == SHIM_OPERATOR_BACKWARD;
    case SHIM_HOST_CALL_SCOPE:
        return function == SHIM_OPERATOR_COMPOSITE || function == SHIM_OPERATOR_BACKWARD ||
               (of->row && of->row->row.flags & TN_ROW_SCOPE);
    case SHIM_HOST_STORAGE:
        return 1;
    case SHIM_HOST_RANDOM_RESERVE:
        return function == SHIM_KERNEL_RUN || function == SHIM_OPERATOR_COMPOSITE;
    default:
        return function == SHIM_KERNEL_RUN;
    }
}

/* The host refuses all strides by which elements share memory; those of expanded arguments are passed on by mistake. */
static void check_strides(const shim_call *c, const validate_place *other)
{
    const shim_value *v = c->values;
    const int64_t *sizes = v[4].pointer, *strides = v[5].pointer;
    const uint32_t rank = (uint32_t)v[3].number;
    char of_sizes[160], of_strides[160];
    int32_t is_shared = 0;
    if (!strides || is_in_place(c->of->definition->def.schema)) return;
    for (uint32_t d = 0; d < rank; d++) {
        if (sizes[d] < 1) return;
        is_shared |= sizes[d] > 1 && strides[d] <= 0;
    }
    if (!is_shared) return;
    validate_say(c, "bad-value", other,
                 "the shape rule of %s gives output %u of sizes %s the strides %s, by which elements share "
                 "memory",
                 c->op, (uint32_t)v[1].number, sizes_text(rank, sizes, of_sizes, sizeof of_sizes),
                 sizes_text(rank, strides, of_strides, sizeof of_strides));
}

static void check_defined(const shim_call *c)
{
    const shim_value *v = c->values; /* call, i, dtype, rank, sizes, strides, device */
    const validate_place other = validate_here(c->of);
    const int64_t *sizes = v[4].pointer;
    uint32_t i = (uint32_t)v[1].number, rank = (uint32_t)v[3].number;
    if (i >= c->call->n_outs)
        validate_say(c, "bad-value", &other, "the shape rule of %s defines output %u of %u", c->op, i,
                     c->call->n_outs);
    if (!is_known_dtype((tn_dtype)v[2].number))
        validate_say(c, "bad-value", &other, "the shape rule of %s gives output %u the dtype 0x%x", c->op, i,
                     (uint32_t)v[2].number);
    if (rank > TN_MAX_RANK || (rank && !sizes)) {
        validate_say(c, "bad-value", &other, "the shape rule of %s gives output %u rank %u%s", c->op, i, rank,
                     rank > TN_MAX_RANK ? "" : " and no sizes");
        return;
    }
    for (uint32_t d = 0; d < rank; d++)
        if (sizes[d] < 0)
            validate_say(c, "bad-value", &other, "the shape rule of %s gives output %u the size %" PRId64,
                         c->op, i, sizes[d]);
    check_strides(c, &other);
    if (!device_fits(c->of, v[6].number))
        validate_say(c, "wrong-device", &other,
                     "the shape rule of %s puts output %u on a device that no argument is on", c->op, i);
}

static int32_t gives_output(uint32_t id)
{
    return id == SHIM_HOST_SET_OUTPUT || id == SHIM_HOST_RESIZE_OUTPUT;
}

void validate_host_call_before(const shim_call *c)
{
    const validate_place other = validate_here(c->of);
    if (!belongs(c->id, c->of))
        validate_say(c, "wrong-place", &other, "%s of %s calls %s, which it may not call",
                     function_name(c->of->id), c->op, c->slot->name);
    else if (c->id == SHIM_HOST_DEFINE_OUTPUT)
        check_defined(c);
    else if (gives_output(c->id) && c->values[1].number >= c->call->n_outs)
        validate_say(c, "bad-value", &other, "%s of %s calls %s for output %u of %u",
                     function_name(c->of->id), c->op, c->slot->name, (uint32_t)c->values[1].number,
                     c->call->n_outs);
}

static void keep_shape(const shim_call *c, values_note *n)
{
    const shim_value *v = c->values;
    uint32_t i = (uint32_t)v[1].number;
    if (!n->rule || i >= MAX_SHAPES) return;
    shape *s = &n->rule->shapes[i];
    *s = (shape){
        .defined = 1, .dtype = (tn_dtype)v[2].number, .rank = (uint32_t)v[3].number, .device = v[6].number};
    if (s->rank) memcpy(s->sizes, v[4].pointer, s->rank * sizeof(int64_t));
}

void validate_host_call_after(const shim_call *c)
{
    values_note *n = c->of->note;
    uint32_t i = (uint32_t)c->values[1].number;
    int32_t sets = c->id == SHIM_HOST_SET_OUTPUT, defines = c->id == SHIM_HOST_DEFINE_OUTPUT;
    if (!n || !(sets || defines) || i >= n->n_outs) return;
    n->given[i] = 1;
    if (sets) n->expected[i] = tn_value_tensor(c->values[2].pointer);
    if (defines && c->of->id == SHIM_OPERATOR_INFER) keep_shape(c, n);
}

/* ---- Around a function ------------------------------------------------------------------------------- */

static int32_t wants_rule(const shim_call *c)
{
    return c->id == SHIM_OPERATOR_INFER ||
           (c->id == SHIM_OPERATOR_COMPOSITE && last_rule.definition == c->definition &&
            last_rule.args == c->call->args);
}

void validate_values_before(shim_call *c)
{
    const tn_call *call = c->call;
    tn_call *inner = c->values[0].pointer;
    uint64_t n_values = call->n_args + 2ull * call->n_outs;
    values_note *n = calloc(1, sizeof(*n) + n_values * sizeof(tn_value) + call->n_outs * sizeof(int32_t));
    if (!n) return; /* out of memory: this call is not checked */
    n->n_args = call->n_args;
    n->n_outs = call->n_outs;
    n->args = n->storage;
    n->outs = n->args + n->n_args;
    n->expected = n->outs + n->n_outs;
    n->given = (int32_t *)(void *)(n->expected + n->n_outs);
    if (n->n_args) memcpy(n->args, call->args, n->n_args * sizeof(tn_value));
    if (n->n_outs) memcpy(n->outs, call->outs, n->n_outs * sizeof(tn_value));
    if (n->n_outs) memcpy(n->expected, call->outs, n->n_outs * sizeof(tn_value));
    if (wants_rule(c) && (n->rule = calloc(1, sizeof(*n->rule))) && c->id == SHIM_OPERATOR_COMPOSITE)
        *n->rule = last_rule;
    if (c->definition) last_rule.definition = NULL;
    inner->args = n->args;
    inner->outs = n->outs;
    c->note = n;
}

static int32_t same_value(const tn_value *a, const tn_value *b)
{
    return a->tag == b->tag && a->count == b->count && a->as.i == b->as.i;
}

/* Composites and gradients store what set_output cannot give: lists, and composites also numbers. */
static int32_t may_be_stored(const shim_call *c, uint32_t i, const tn_value *v)
{
    result_type result;
    if (c->id == SHIM_KERNEL_RUN || c->id == SHIM_OPERATOR_INFER) return 0;
    if (c->id != SHIM_OPERATOR_COMPOSITE || v->tag == TN_TAG_TENSORS) return v->tag == TN_TAG_TENSORS;
    results_of(c->definition->def.schema, i, &result);
    return !result.is_tensor;
}

static void check_untouched(const shim_call *c, const values_note *n)
{
    for (uint32_t i = 0; i < n->n_args; i++)
        if (!same_value(&n->args[i], &c->call->args[i]))
            validate_say(c, "arguments-changed", NULL, "%s of %s replaces argument %u of its call",
                         function_name(c->id), c->op, i);
    for (uint32_t i = 0; i < n->n_outs; i++) {
        if (same_value(&n->outs[i], &n->expected[i]) || may_be_stored(c, i, &n->outs[i])) continue;
        if (c->status != TN_OK)
            validate_say(c, "written-on-failure", NULL,
                         "%s of %s fails and has written output %u of its call", function_name(c->id), c->op,
                         i);
        else
            validate_say(c, "written-directly", NULL, "%s of %s replaces output %u of its call%s",
                         function_name(c->id), c->op, i,
                         c->id == SHIM_KERNEL_RUN       ? ""
                         : c->id == SHIM_OPERATOR_INFER ? "; define_output says what it is"
                                                        : "; set_output gives it");
    }
}

/* A composite that ends with an error of its scope need not set its outputs. */
static int32_t has_failed(const shim_call *c)
{
    const tn_host *host = c->call->host;
    const tn_scope *s = host->call_scope(c->call);
    return !s || host->scope_failed(s);
}

/* A result that is an argument: a composite may have written that, and in place a shape rule need not define it. */
static void check_given(const shim_call *c, const values_note *n)
{
    const char *schema = c->definition->def.schema;
    int32_t composite = c->id == SHIM_OPERATOR_COMPOSITE, failed = -1;
    for (uint32_t i = 0; i < n->n_outs; i++) {
        result_type result;
        results_of(schema, i, &result);
        if (!result.is_plain || (result.is_written && (composite || is_in_place(schema)))) continue;
        if (composite ? n->outs[i].tag != TN_TAG_NONE : n->given[i]) continue;
        if (composite && failed < 0) failed = has_failed(c);
        if (!composite || !failed)
            validate_say(c, "output-not-written", NULL, "%s of %s succeeds and has not %s output %u",
                         function_name(c->id), c->op, composite ? "given" : "defined", i);
    }
}

static int32_t same_sizes(uint32_t rank, const int64_t *sizes, const tn_tensor_desc *d)
{
    return d->rank == rank && (!rank || memcmp(d->sizes, sizes, rank * sizeof(int64_t)) == 0);
}

/* Compares a tensor that the function gave with the one that `whose` defines. */
static void compare(const shim_call *c, const tn_tensor_desc *d, const char *what, uint32_t i,
                    const char *whose, const validate_place *other, const shape *expected)
{
    char dtype[32], wanted_dtype[32], sizes[160], wanted_sizes[160];
    const char *function = function_name(c->id);
    if (expected->device && d->device != expected->device)
        validate_say(c, "wrong-device", other, "%s of %s gives %s %u on another device than %s", function,
                     c->op, what, i, whose);
    if (d->dtype != expected->dtype)
        validate_say(c, "wrong-dtype", other, "%s of %s gives %s %u as %s; %s has %s", function, c->op, what,
                     i, dtype_text(d->dtype, dtype, sizeof(dtype)), whose,
                     dtype_text(expected->dtype, wanted_dtype, sizeof(wanted_dtype)));
    if (!same_sizes(expected->rank, expected->sizes, d))
        validate_say(c, "wrong-shape", other, "%s of %s gives %s %u as %s; %s has %s", function, c->op, what,
                     i, sizes_text(d->rank, d->sizes, sizes, sizeof(sizes)), whose,
                     sizes_text(expected->rank, expected->sizes, wanted_sizes, sizeof(wanted_sizes)));
}

static void check_body(const shim_call *c, const values_note *n)
{
    for (uint32_t i = 0; i < n->n_outs; i++) {
        const tn_tensor *t = tn_value_as_tensor(n->outs[i]);
        if (!t) continue;
        if (!device_fits(c, tn_desc(t)->device))
            validate_say(c, "wrong-device", NULL,
                         "the composite of %s gives output %u on a device that no argument is on", c->op, i);
        if (!n->rule || i >= MAX_SHAPES || !n->rule->shapes[i].defined) continue;
        result_type result;
        shape expected = n->rule->shapes[i];
        results_of(c->definition->def.schema, i, &result);
        if (result.is_written) expected.dtype = tn_desc(t)->dtype; /* the host casts it to the argument's */
        compare(c, tn_desc(t), "output", i, "the shape rule", &n->rule->place, &expected);
    }
}

/* The gradient of argument i, or of an item of it, like `of`, which is NULL if the tensor is not saved. */
static void check_gradient_of(const shim_call *c, uint32_t i, const tn_tensor *t, const tn_tensor *of)
{
    if (t && !of && !device_fits(c, tn_desc(t)->device))
        validate_say(c, "wrong-device", NULL,
                     "the gradient of %s gives that of argument %u on a device that no argument is on", c->op,
                     i);
    if (!t || !of) return;
    const tn_tensor_desc *d = tn_desc(of);
    shape expected = {.defined = 1, .dtype = d->dtype, .rank = d->rank, .device = d->device};
    if (d->rank <= TN_MAX_RANK && d->rank) memcpy(expected.sizes, d->sizes, d->rank * sizeof(int64_t));
    compare(c, tn_desc(t), "that of argument", i, "the argument", NULL, &expected);
}

/* Its arguments are the gradients of the results, the arguments of the call, and saved results. */
static void check_gradient(const shim_call *c, const values_note *n)
{
    result_type result;
    uint32_t first = results_of(c->definition->def.schema, 0, &result);
    for (uint32_t i = 0; i < n->n_outs && first + i < n->n_args; i++) {
        const tn_value *arg = &n->args[first + i], *given = &n->outs[i];
        const int32_t is_list = given->tag == TN_TAG_TENSORS;
        if (given->tag == TN_TAG_NONE) continue;
        if (arg->tag != TN_TAG_NONE && arg->tag != TN_TAG_TENSOR && arg->tag != TN_TAG_TENSORS)
            validate_say(c, "bad-value", NULL,
                         "the gradient of %s gives one for argument %u, which is not a tensor", c->op, i);
        else if (is_list && arg->tag == TN_TAG_TENSOR)
            validate_say(c, "bad-value", NULL,
                         "the gradient of %s gives a list for argument %u, which is one tensor", c->op, i);
        else if (!is_list)
            check_gradient_of(c, i, tn_value_as_tensor(*given), tn_value_as_tensor(*arg));
        for (uint32_t k = 0; is_list && arg->tag == TN_TAG_TENSORS && k < given->count && k < arg->count; k++)
            check_gradient_of(c, i, given->as.tensors[k], arg->as.tensors[k]);
    }
}

/* The shape rule's outputs are kept for the composite of the same call. */
static void keep_rule(const shim_call *c, const values_note *n)
{
    if (!n->rule) return;
    last_rule = *n->rule;
    last_rule.definition = c->definition;
    last_rule.args = c->call->args;
    last_rule.count = n->n_outs;
    last_rule.place = validate_here(c);
}

void validate_values_after(shim_call *c)
{
    values_note *n = c->note;
    if (!n) return;
    check_untouched(c, n);
    if (c->status == TN_OK && (c->id == SHIM_OPERATOR_INFER || c->id == SHIM_OPERATOR_COMPOSITE))
        check_given(c, n);
    if (c->status == TN_OK && c->id == SHIM_OPERATOR_INFER) keep_rule(c, n);
    if (c->status == TN_OK && c->id == SHIM_OPERATOR_COMPOSITE) check_body(c, n);
    if (c->status == TN_OK && c->id == SHIM_OPERATOR_BACKWARD) check_gradient(c, n);
    int32_t gives = c->id != SHIM_KERNEL_RUN && c->id != SHIM_OPERATOR_INFER && c->status == TN_OK;
    if (gives && n->n_outs) memcpy(c->call->outs, n->outs, n->n_outs * sizeof(tn_value));
    c->note = NULL;
    free(n->rule);
    free(n);
}
