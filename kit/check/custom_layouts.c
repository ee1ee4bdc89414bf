/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Custom operators on tensors that lie in memory as those of programs do: behind an offset, transposed, as a column,
 * expanded. The call must give what it gives for row-major copies, and write nothing beside the elements of its tensors.
 */
#include <stdio.h>
#include <string.h>
#include <tenon/inspect.h>
#include "custom.h"

#define SURROUNDINGS 7 /* the elements of a storage that the tensor does not have */
#define OFFSET       3
#define WHAT_BYTES   400

/* A layout gives the strides and the offset, in elements. 0: tensors of these sizes cannot lie so. */
typedef struct geometry {
    int64_t rank, sizes[TN_MAX_RANK], strides[TN_MAX_RANK], offset;
    int64_t expanded; /* the dimension, -1: none */
} geometry;
typedef int (*layout_fn)(geometry *g);

/* From the last dimension to the first, or the other way round; `step`: between neighbours. */
static void set_strides(geometry *g, int64_t step, int is_reversed)
{
    for (int64_t k = 0; k < g->rank; k++) {
        const int64_t d = is_reversed ? k : g->rank - 1 - k;
        g->strides[d] = step;
        if (g->sizes[d] && d != g->expanded) step *= g->sizes[d];
    }
}

static int behind_offset(geometry *g)
{
    set_strides(g, 1, 0);
    g->offset = OFFSET;
    return 1;
}

static int transposed(geometry *g)
{
    set_strides(g, 1, 1);
    return g->rank > 1;
}

/* Each element is one of three, as in a column of a matrix with three columns. */
static int column(geometry *g)
{
    set_strides(g, 3, 0);
    g->offset = 1;
    return 1;
}

static int expanded(geometry *g)
{
    for (int64_t d = 0; d < g->rank && g->expanded < 0; d++)
        if (g->sizes[d] > 1) g->expanded = d;
    if (g->expanded < 0) return 0;
    set_strides(g, 1, 0);
    g->strides[g->expanded] = 0;
    return 1;
}

static const struct {
    const char *name;
    layout_fn lay;
    int only_read; /* several elements are at one place, so nothing may be written there */
} layouts[] = {{"behind a storage offset", behind_offset, 0},
               {"transposed", transposed, 0},
               {"as a column of a matrix", column, 0},
               {"expanded", expanded, 1}};
#define N_LAYOUTS (sizeof layouts / sizeof *layouts)

/* A tensor among the arguments, and what it lies in. */
typedef struct place {
    custom_input which;
    int written,
        is_out; /* is_out: the host gives it the size of the result, and only then it gets its layout */
    tn_tensor *base, *view; /* NULL: row-major */
    geometry g;
} place;

typedef struct layout_run {
    check_target *t;
    const custom_call *call;
    custom_run plain, laid;
    uint32_t n, layout;
    int32_t alone; /* the only place with the layout, -1: all have it */
    place places[CUSTOM_MAX_INPUTS];
} layout_run;

static tn_tensor *at_place(const custom_run *r, const custom_input *which)
{
    const tn_value *v = &r->args[which->argument];
    return which->item < 0 ? v->as.tensor : v->as.tensors[which->item];
}

static void add_place(layout_run *l, uint32_t argument, int32_t item, int written, int is_out)
{
    if (l->n < CUSTOM_MAX_INPUTS)
        l->places[l->n++] = (place){.which = {argument, item}, .written = written, .is_out = is_out};
}

static void find_places(layout_run *l)
{
    tn_operator_info op = {.size = sizeof op};
    tn_inspect_operator_by_number(l->t->ctx, l->call->op, &op);
    const int has_out = strcmp(op.form, "out") == 0;
    for (uint32_t i = 0; i < l->laid.n_args; i++) {
        const tn_value *v = &l->laid.args[i];
        const int written = (custom_argument(l->t, l->call->op, 0, i).flags & TN_ARG_WRITTEN) != 0;
        if (v->tag == TN_TAG_TENSOR) add_place(l, i, -1, written, written && has_out);
        for (uint32_t k = 0; v->tag == TN_TAG_TENSORS && k < v->count; k++)
            if (v->as.tensors[k]) add_place(l, i, (int32_t)k, written, written && has_out);
    }
}

/* The place gets a tensor of the layout in a storage of its own; `contents` (NULL: none) is copied into it. */
static void lay(layout_run *l, place *p, const tn_tensor *like, tn_tensor *contents)
{
    tn_scope *s = l->laid.s;
    geometry *g = &p->g;
    int64_t elements = 1;
    *g = (geometry){.rank = tn_tensor_rank(like), .expanded = -1};
    memcpy(g->sizes, tn_tensor_sizes(like), (size_t)g->rank * sizeof *g->sizes);
    if (!layouts[l->layout].lay(g)) return;
    for (int64_t d = 0; d < g->rank; d++) elements += g->sizes[d] ? (g->sizes[d] - 1) * g->strides[d] : 0;
    p->base = tn_full(s, TN_INTS(g->offset + elements + OFFSET), SURROUNDINGS, .dtype = tn_tensor_dtype(like),
                      .device = tn_tensor_device(like));
    p->view = tn_as_strided(s, p->base, ((tn_ints){g->sizes, g->rank}), {g->strides, g->rank},
                            .storage_offset = g->offset);
    if (!contents) return;
    if (g->expanded < 0) {
        tn_copy_(s, p->view, contents);
    } else {
        tn_tensor *first = tn_narrow(s, p->view, g->expanded, 0, 1);
        tn_copy_(s, first, tn_narrow(s, contents, g->expanded, 0, 1));
    }
}

static int has_layout(const layout_run *l, uint32_t k)
{
    return (l->alone < 0 || l->alone == (int32_t)k) &&
           !(l->places[k].written && layouts[l->layout].only_read);
}

/* All arguments of the plain call are row-major copies of those of the other one. */
static void lay_inputs(layout_run *l)
{
    tn_tensor *views[CUSTOM_MAX_INPUTS], *copies[CUSTOM_MAX_INPUTS];
    custom_input which[CUSTOM_MAX_INPUTS];
    for (uint32_t k = 0; k < l->n; k++) {
        place *p = &l->places[k];
        tn_tensor *x = at_place(&l->laid, &p->which);
        which[k] = p->which;
        if (has_layout(l, k) && !p->is_out) lay(l, p, x, x);
        views[k] = p->view ? p->view : tn_clone(l->laid.s, x, .memory_format = TN_CONTIGUOUS_FORMAT);
        copies[k] = tn_clone(l->plain.s, views[k], .memory_format = TN_CONTIGUOUS_FORMAT);
    }
    custom_replace(l->laid.s, which, l->n, views, l->laid.args);
    custom_replace(l->plain.s, which, l->n, copies, l->plain.args);
}

/* Given results, when the plain call has found their sizes. */
static void lay_given(layout_run *l)
{
    for (uint32_t k = 0; k < l->n; k++) {
        place *p = &l->places[k];
        if (!p->is_out || !has_layout(l, k)) continue;
        lay(l, p, at_place(&l->plain, &p->which), NULL);
        if (p->view) custom_replace(l->laid.s, &p->which, 1, &p->view, l->laid.args);
    }
}

/* "argument 'x' transposed", or "all tensors transposed". */
static const char *describe(const layout_run *l, char *text, size_t bytes)
{
    const char *layout = layouts[l->layout].name;
    if (l->alone < 0) {
        snprintf(text, bytes, "all tensors %s", layout);
        return text;
    }
    const custom_input *which = &l->places[l->alone].which;
    const char *name = custom_argument(l->t, l->call->op, 0, which->argument).name;
    if (which->item < 0)
        snprintf(text, bytes, "argument '%s' %s", name, layout);
    else
        snprintf(text, bytes, "item %d of argument '%s' %s", which->item, name, layout);
    return text;
}

/* What the view does not cover must be as before. */
static void check_surroundings(const layout_run *l, const place *p, const char *way, check_result *out)
{
    tn_scope *s = l->laid.s;
    const geometry *g = &p->g;
    if (!tn_tensor_is_alias(at_place(&l->laid, &p->which), p->base)) return; /* the host has resized it */
    tn_tensor *want = tn_full_like(s, p->base, tn_value_int(SURROUNDINGS));
    tn_tensor *covered = tn_as_strided(s, want, ((tn_ints){g->sizes, g->rank}), {g->strides, g->rank},
                                       .storage_offset = g->offset);
    char what[WHAT_BYTES];
    if (g->expanded < 0)
        tn_copy_(s, covered, p->view);
    else
        tn_copy_(s, tn_narrow(s, covered, g->expanded, 0, 1), tn_narrow(s, p->view, g->expanded, 0, 1));
    snprintf(what, sizeof what, "%s: elements of its storage that do not belong to it were written", way);
    check_same(out, s, what, p->base, want, (check_tolerance){0});
}

static void compare(layout_run *l, const char *way, check_result *out)
{
    char what[WHAT_BYTES];
    for (uint32_t k = 0; k < l->n; k++)
        if (l->places[k].view) check_surroundings(l, &l->places[k], way, out);
    for (uint32_t i = 0; i < l->plain.n_outs; i++) {
        tn_tensor *want[CUSTOM_MAX_ITEMS], *got[CUSTOM_MAX_ITEMS];
        const uint32_t n = custom_tensors(&l->plain.outs[i], 1, want, CUSTOM_MAX_ITEMS);
        const uint32_t found = custom_tensors(&l->laid.outs[i], 1, got, CUSTOM_MAX_ITEMS);
        check_that(out, n == found, "%s: result %u has %u tensors, expected %u as for row-major copies", way,
                   i, found, n);
        snprintf(what, sizeof what, "%s, compared with row-major copies: result %u", way, i);
        for (uint32_t k = 0; k < n && k < found; k++)
            check_same(out, l->laid.s, what, got[k], want[k], check_tolerance_of(tn_tensor_dtype(want[k])));
    }
    for (uint32_t k = 0; k < l->n; k++) {
        const place *p = &l->places[k];
        tn_tensor *want = at_place(&l->plain, &p->which);
        if (!p->written) continue;
        snprintf(what, sizeof what, "%s, compared with row-major copies: the written argument '%s'", way,
                 custom_argument(l->t, l->call->op, 0, p->which.argument).name);
        check_same(out, l->laid.s, what, at_place(&l->laid, &p->which), want,
                   check_tolerance_of(tn_tensor_dtype(want)));
    }
}

/* One layout, of all tensors or of one alone. An operator may refuse a layout, and values that repeat. */
static void try_layout(layout_run *l, check_result *out)
{
    char way[160], fault[400];
    int laid = 0;
    custom_open(&l->plain, l->t, l->call, l->t->device, TN_GRAD_OFF);
    custom_open(&l->laid, l->t, l->call, l->t->device, TN_GRAD_OFF);
    l->n = 0;
    find_places(l);
    if (!tn_scope_failed(l->laid.s)) lay_inputs(l);
    if (!custom_do(&l->plain, l->call)) {
        lay_given(l);
        for (uint32_t k = 0; k < l->n; k++) laid |= l->places[k].view != NULL;
        describe(l, way, sizeof way);
        if (laid && !custom_do(&l->laid, l->call))
            compare(l, way, out);
        else if (laid && custom_fault(l->t, l->call, &l->laid, fault, sizeof fault))
            check_fail(out, "%s: %s", way, fault);
    }
    custom_close(&l->laid);
    custom_close(&l->plain);
}

static uint32_t count_places(check_target *t, const custom_call *call)
{
    layout_run l = {.t = t, .call = call};
    custom_open(&l.laid, t, call, t->device, TN_GRAD_OFF);
    find_places(&l);
    custom_close(&l.laid);
    return l.n;
}

void custom_layouts(check_target *t, const check_case *c, check_result *out)
{
    const custom_call *call = c->data;
    if (custom_has_tag(t, call, "nondeterministic")) {
        check_skip(out, "two equal calls give different results");
        return;
    }
    const int32_t n = (int32_t)count_places(t, call);
    for (uint32_t k = 0; k < N_LAYOUTS; k++) {
        /* First each tensor alone, so that the finding names it. */
        for (int32_t i = 0; i <= n && n && out->outcome == CHECK_PASSED; i++) {
            if (n == 1 && i == 1) continue;
            layout_run l = {.t = t, .call = call, .layout = k, .alone = i < n ? i : -1};
            try_layout(&l, out);
        }
    }
}
