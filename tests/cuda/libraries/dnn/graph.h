/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs of several operations for tests, in any combination: what a graph must keep to, and its results, operation by operation in
 * the plainest way. Virtual tensors have memory here, and round as their type does.
 */
#ifndef TESTS_CUDA_LIBRARIES_DNN_GRAPH_H
#define TESTS_CUDA_LIBRARIES_DNN_GRAPH_H

#include "descriptors.h"

#include <math.h>

enum { GRAPH_TENSORS = 64, GRAPH_STEPS = 32, RANK = 4 };

typedef struct graph_tensor {
    const object *of;
    int64_t id, alignment, sizes[RANK], strides[RANK];
    int type, is_virtual, is_by_value, is_made;
    CUdeviceptr memory;
    float value; /* by value */
    char *place; /* in the device's memory */
    double *own; /* of a virtual tensor */
} graph_tensor;

/* An operation on tensors by their places in the graph; -1: it has no such operand. */
typedef struct graph_step {
    int type, kind, x, b, t, y;
    int64_t axis;
} graph_step;

typedef struct graph_work {
    struct graph_work *next; /* of its handle */
    int n_tensors, n_steps, reduces_sums;
    int has_wrong_copies; /* steps that copy give NaN */
    graph_tensor tensors[GRAPH_TENSORS];
    graph_step steps[GRAPH_STEPS];
    CUdeviceptr workspace;
    size_t workspace_bytes;
} graph_work;

/* ---- What a graph keeps to ---------------------------------------------------------------------------------- */

static int flag_of(const object *o, int name)
{
    const attribute *a = find(o, name);
    return a && (a->values[0] & 0xff) == 1;
}

/* The place of a tensor in the graph, or -1: there is no such operand. -2: it cannot be. */
static int tensor_at(graph_work *w, const object *of)
{
    if (!of) return -1;
    const attribute *sizes = find(of, DNN_TENSOR_SIZES), *strides = find(of, DNN_TENSOR_STRIDES);
    for (int i = 0; i < w->n_tensors; i++) {
        if (w->tensors[i].of == of) return i;
        if (w->tensors[i].id == find(of, DNN_TENSOR_ID)->values[0]) return -2;
    }
    if (w->n_tensors == GRAPH_TENSORS || sizes->count != RANK) return -2;
    graph_tensor *t = &w->tensors[w->n_tensors];
    *t = (graph_tensor){.of = of,
                        .id = find(of, DNN_TENSOR_ID)->values[0],
                        .alignment = find(of, DNN_TENSOR_ALIGNMENT)->values[0],
                        .type = number_of(of, DNN_TENSOR_DATA_TYPE),
                        .is_virtual = flag_of(of, DNN_TENSOR_IS_VIRTUAL),
                        .is_by_value = flag_of(of, DNN_TENSOR_IS_BY_VALUE)};
    memcpy(t->sizes, sizes->values, sizeof t->sizes);
    memcpy(t->strides, strides->values, sizeof t->strides);
    return w->n_tensors++;
}

static int is_binary(int kind)
{
    return kind == DNN_ADD || kind == DNN_MUL || kind == DNN_DIV || kind == DNN_SUB ||
           kind == DNN_GREATER_OR_EQUAL;
}

/* Every size of x is 1 or that of y. */
static int broadcasts(const graph_tensor *x, const graph_tensor *y)
{
    for (int d = 0; d < RANK; d++)
        if (x->sizes[d] != 1 && x->sizes[d] != y->sizes[d]) return 0;
    return 1;
}

/* The first `count` sizes of x divide those of y. */
static int divides(const graph_tensor *x, const graph_tensor *y, int count)
{
    for (int d = 0; d < count; d++)
        if (y->sizes[d] % x->sizes[d]) return 0;
    return 1;
}

static int is_pointwise(const graph_work *w, const graph_step *s)
{
    const graph_tensor *t = w->tensors, *x = &t[s->x], *y = &t[s->y];
    const int is_select = s->kind == DNN_SELECT, has_axis = s->kind == DNN_INDEX;
    if (is_binary(s->kind) + is_select != (s->b >= 0) || is_select != (s->t >= 0)) return 0;
    if ((s->b >= 0 && !broadcasts(&t[s->b], y)) || (s->t >= 0 && t[s->t].type != DNN_BOOL)) return 0;
    if (has_axis ? s->axis < 0 || s->axis >= RANK : s->axis != -1) return 0;
    return broadcasts(x, y) && (s->t < 0 || broadcasts(&t[s->t], y));
}

static int is_product(const graph_work *w, const graph_step *s)
{
    const graph_tensor *a = &w->tensors[s->x], *b = &w->tensors[s->b], *y = &w->tensors[s->y];
    return divides(a, y, 2) && divides(b, y, 2) && a->sizes[2] == y->sizes[2] && a->sizes[3] == b->sizes[2] &&
           b->sizes[3] == y->sizes[3];
}

static int64_t elements_of(const graph_tensor *t)
{
    return t->sizes[0] * t->sizes[1] * t->sizes[2] * t->sizes[3];
}

/* The inputs exist by then, and nothing else writes the output. */
static int is_step(graph_work *w, const graph_step *s)
{
    const int inputs[] = {s->x, s->b, s->t};
    if (s->x < 0 || s->y < 0 || s->b < -1 || s->t < -1) return 0;
    graph_tensor *t = w->tensors, *y = &t[s->y];
    for (int i = 0; i < 3; i++)
        if (inputs[i] >= 0 && t[inputs[i]].is_virtual && !t[inputs[i]].is_made) return 0;
    if (y->is_made || y->is_by_value) return 0;
    y->is_made = 1;
    return s->type == DNN_POINTWISE_OPERATION   ? is_pointwise(w, s)
           : s->type == DNN_PRODUCT_OPERATION   ? is_product(w, s)
           : s->type == DNN_REDUCTION_OPERATION ? divides(y, &t[s->x], RANK)
                                                : elements_of(&t[s->x]) == elements_of(y);
}

/* 0: the descriptor is no operation of such graphs. */
static int read_step(graph_work *w, const object *o, graph_step *out)
{
    const object *how;
    *out = (graph_step){.type = o->type, .b = -1, .t = -1, .axis = -1};
    switch (o->type) {
    case DNN_POINTWISE_OPERATION:
        how = descriptor_of(o, DNN_POINTWISE_HOW);
        out->kind = number_of(how, DNN_POINTWISE_KIND);
        if (find(how, DNN_POINTWISE_AXIS)) out->axis = find(how, DNN_POINTWISE_AXIS)->values[0];
        out->x = tensor_at(w, descriptor_of(o, DNN_POINTWISE_X));
        out->b = tensor_at(w, descriptor_of(o, DNN_POINTWISE_B));
        out->t = tensor_at(w, descriptor_of(o, DNN_POINTWISE_T));
        out->y = tensor_at(w, descriptor_of(o, DNN_POINTWISE_Y));
        return 1;
    case DNN_PRODUCT_OPERATION:
        out->x = tensor_at(w, descriptor_of(o, DNN_PRODUCT_A));
        out->b = tensor_at(w, descriptor_of(o, DNN_PRODUCT_B));
        out->y = tensor_at(w, descriptor_of(o, DNN_PRODUCT_OUT));
        return 1;
    case DNN_REDUCTION_OPERATION:
        out->kind = number_of(descriptor_of(o, DNN_REDUCTION_HOW), DNN_REDUCTION_KIND);
        out->x = tensor_at(w, descriptor_of(o, DNN_REDUCTION_X));
        out->y = tensor_at(w, descriptor_of(o, DNN_REDUCTION_Y));
        return 1;
    case DNN_VIEW_OPERATION:
        out->x = tensor_at(w, descriptor_of(o, DNN_VIEW_X));
        out->y = tensor_at(w, descriptor_of(o, DNN_VIEW_Y));
        return 1;
    default:
        return 0;
    }
}

/* 0: the operations of the graph do not fit together. */
static int read_graph(const object *graph, graph_work *w)
{
    const attribute *operations = find(graph, DNN_GRAPH_OPERATIONS);
    *w = (graph_work){.n_tensors = 0};
    if (operations->count > GRAPH_STEPS) return 0;
    for (int64_t i = 0; i < operations->count; i++) {
        graph_step *s = &w->steps[w->n_steps++];
        if (!read_step(w, (const object *)(uintptr_t)operations->values[i], s) || !is_step(w, s)) return 0;
    }
    return 1;
}

/* ---- Memory ------------------------------------------------------------------------------------------------- */

static int64_t bytes_of(const graph_tensor *t)
{
    return t->type == DNN_F16 || t->type == DNN_BF16 ? 2 : 4;
}

/* From the first element to the end of the last one. */
static int64_t span_of(const graph_tensor *t)
{
    int64_t span = 1;
    for (int d = 0; d < RANK; d++) span += (t->sizes[d] - 1) * t->strides[d];
    return span;
}

/* Rows of half types are as aligned as the tensor. */
static int is_aligned(const graph_tensor *t)
{
    for (int d = 0; d < RANK && bytes_of(t) == 2; d++)
        if (t->sizes[d] > 1 && t->strides[d] > 1 && t->strides[d] * 2 % t->alignment) return 0;
    return t->memory % (CUdeviceptr)t->alignment == 0;
}

/* What the graph writes is apart from all else that is in memory. */
static int is_apart(const graph_work *w, int tensor)
{
    const graph_tensor *t = &w->tensors[tensor];
    for (int i = 0; i < w->n_tensors; i++) {
        const graph_tensor *other = &w->tensors[i];
        if (i == tensor || other->is_virtual || other->is_by_value) continue;
        if (t->memory < other->memory + (CUdeviceptr)(span_of(other) * bytes_of(other)) &&
            other->memory < t->memory + (CUdeviceptr)(span_of(t) * bytes_of(t)))
            return 0;
    }
    return 1;
}

/* Every tensor that is in memory gets its place, and the pack has no other; 0: not so. */
static int take_pack(graph_work *w, const object *pack)
{
    const attribute *ids = find(pack, DNN_PACK_IDS), *pointers = find(pack, DNN_PACK_POINTERS);
    int64_t taken = 0;
    for (int i = 0; i < w->n_tensors; i++) {
        graph_tensor *t = &w->tensors[i];
        for (int64_t k = 0; k < ids->count && !t->is_virtual; k++)
            if (ids->values[k] == t->id) t->memory = (CUdeviceptr)pointers->values[k];
        if (t->is_virtual) continue;
        if (!t->memory || (!t->is_by_value && !is_aligned(t))) return 0;
        if (t->is_by_value) memcpy(&t->value, (const void *)(uintptr_t)t->memory, sizeof t->value);
        taken++;
    }
    for (int i = 0; i < w->n_tensors; i++)
        if (w->tensors[i].is_made && !w->tensors[i].is_virtual && !is_apart(w, i)) return 0;
    w->workspace = (CUdeviceptr)find(pack, DNN_PACK_WORKSPACE)->values[0];
    return taken == ids->count;
}

/* 0: memory is not there. */
static int find_places(CUcontext context, graph_work *w)
{
    for (int i = 0; i < w->n_tensors; i++) {
        graph_tensor *t = &w->tensors[i];
        if (t->is_virtual)
            t->own = calloc((size_t)span_of(t), sizeof *t->own);
        else if (!t->is_by_value)
            t->place = cuda_test_place(context, t->memory, (size_t)(span_of(t) * bytes_of(t)));
        if (!t->own && !t->place && !t->is_by_value) return 0;
    }
    return 1;
}

static double load(const graph_tensor *t, int64_t at)
{
    if (t->is_by_value) return (double)t->value;
    return t->own ? t->own[at] : tn_number_load(dtype_of(t->type), t->place + at * bytes_of(t)).f;
}

static void store(const graph_tensor *t, int64_t at, double value)
{
    const int is_float = t->type == DNN_F16 || t->type == DNN_BF16 || t->type == DNN_F32;
    if (t->own)
        t->own[at] = is_float ? rounded(dtype_of(t->type), value) : value;
    else
        tn_number_store(dtype_of(t->type), t->place + at * bytes_of(t), tn_number_real(value));
}

/* ---- Operations --------------------------------------------------------------------------------------------- */

/* The indices of an element, in row-major order. */
static void indices_of(const graph_tensor *t, int64_t element, int64_t out[RANK])
{
    for (int d = RANK - 1; d >= 0; d--) {
        out[d] = element % t->sizes[d];
        element /= t->sizes[d];
    }
}

/* Where the element of t lies that belongs to these indices of a tensor whose sizes those of t divide. */
static int64_t place_at(const graph_tensor *t, const int64_t index[RANK], const int64_t sizes[RANK])
{
    int64_t at = 0;
    for (int d = 0; d < RANK; d++) at += index[d] * t->sizes[d] / sizes[d] * t->strides[d];
    return at;
}

static double apply(const graph_step *s, double x, double b, double t, const int64_t index[RANK])
{
    switch (s->kind) {
    case DNN_ADD:
        return x + b;
    case DNN_MUL:
        return x * b;
    case DNN_DIV:
        return x / b;
    case DNN_SUB:
        return x - b;
    case DNN_EXP:
        return exp(x);
    case DNN_LOG:
        return log(x);
    case DNN_IDENTITY:
        return x;
    case DNN_GREATER_OR_EQUAL:
        return x >= b;
    case DNN_INDEX:
        return (double)index[s->axis];
    case DNN_SELECT:
        return t != 0 ? x : b;
    default:
        return NAN;
    }
}

static void run_pointwise(const graph_work *w, const graph_step *s)
{
    const graph_tensor *t = w->tensors, *y = &t[s->y];
    for (int64_t i = 0; i < elements_of(y); i++) {
        int64_t index[RANK];
        indices_of(y, i, index);
        double x = load(&t[s->x], place_at(&t[s->x], index, y->sizes)), b = 0, c = 0;
        if (s->b >= 0) b = load(&t[s->b], place_at(&t[s->b], index, y->sizes));
        if (s->t >= 0) c = load(&t[s->t], place_at(&t[s->t], index, y->sizes));
        const double value = w->has_wrong_copies && s->kind == DNN_IDENTITY ? NAN : apply(s, x, b, c, index);
        store(y, place_at(y, index, y->sizes), value);
    }
}

/* Heads of a that share one of b, or the other way round, are those one after the other. */
static void run_product(const graph_work *w, const graph_step *s)
{
    const graph_tensor *a = &w->tensors[s->x], *b = &w->tensors[s->b], *y = &w->tensors[s->y];
    for (int64_t i = 0; i < elements_of(y); i++) {
        int64_t index[RANK], of_a = 0, of_b = 0;
        double total = 0;
        indices_of(y, i, index);
        for (int d = 0; d < 2; d++) {
            of_a += index[d] * a->sizes[d] / y->sizes[d] * a->strides[d];
            of_b += index[d] * b->sizes[d] / y->sizes[d] * b->strides[d];
        }
        for (int64_t k = 0; k < a->sizes[3]; k++) {
            total += load(a, of_a + index[2] * a->strides[2] + k * a->strides[3]) *
                     load(b, of_b + k * b->strides[2] + index[3] * b->strides[3]);
            if (w->reduces_sums) total = rounded(dtype_of(b->type), total);
        }
        store(y, place_at(y, index, y->sizes), total);
    }
}

/* Over the indices of x that belong to one of y. 0: there is no memory. */
static int run_reduction(const graph_work *w, const graph_step *s)
{
    const graph_tensor *x = &w->tensors[s->x], *y = &w->tensors[s->y];
    const int is_max = s->kind == DNN_REDUCE_MAX;
    double *sums = malloc((size_t)span_of(y) * sizeof *sums);
    int64_t index[RANK];
    if (!sums) return 0;
    for (int64_t i = 0; i < span_of(y); i++) sums[i] = is_max ? -INFINITY : 0;
    for (int64_t i = 0; i < elements_of(x); i++) {
        indices_of(x, i, index);
        double value = load(x, place_at(x, index, x->sizes)), *total = &sums[place_at(y, index, x->sizes)];
        *total = is_max ? fmax(*total, value) : *total + value;
    }
    for (int64_t i = 0; i < elements_of(y); i++) {
        indices_of(y, i, index);
        store(y, place_at(y, index, y->sizes), sums[place_at(y, index, y->sizes)]);
    }
    free(sums);
    return 1;
}

/* Both have their elements at the same places. */
static void run_view(const graph_work *w, const graph_step *s)
{
    const graph_tensor *x = &w->tensors[s->x], *y = &w->tensors[s->y];
    for (int64_t i = 0; i < elements_of(y); i++) {
        int64_t index[RANK];
        indices_of(y, i, index);
        const int64_t at = place_at(y, index, y->sizes);
        store(y, at, at < span_of(x) ? load(x, at) : NAN);
    }
}

/* The workspace is written over between the steps, too: nothing else may lie there. */
static CUresult run_steps(CUcontext context, const graph_work *w)
{
    int is_done = 1;
    for (int i = 0; i < w->n_steps && is_done; i++) {
        const graph_step *s = &w->steps[i];
        if (!use_workspace(context, w->workspace, w->workspace_bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (s->type == DNN_POINTWISE_OPERATION) run_pointwise(w, s);
        if (s->type == DNN_PRODUCT_OPERATION) run_product(w, s);
        if (s->type == DNN_REDUCTION_OPERATION) is_done = run_reduction(w, s);
        if (s->type == DNN_VIEW_OPERATION) run_view(w, s);
    }
    return is_done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult run_graph(CUcontext context, void *data)
{
    graph_work *w = *(graph_work **)data;
    CUresult result = CUDA_ERROR_ILLEGAL_ADDRESS;
    if (find_places(context, w)) result = run_steps(context, w);
    for (int i = 0; i < w->n_tensors; i++) {
        free(w->tensors[i].own);
        w->tensors[i].own = NULL;
    }
    return result;
}

#endif
