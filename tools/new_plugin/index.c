/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that go by positions: gather, scatter, sort, nonzero. They have no nest and walk the tensors; empty
 * ones reach them. A tensor of rank 0 counts as one line of one element.
 */
#include <stdlib.h>
#include <string.h>
#include "plugin.h"

/* A dimension as arguments give it: negative ones count from the end. */
static uint32_t dimension(const array *a, tn_value v)
{
    int64_t dim = tn_value_as_int(v);
    return (uint32_t)(dim < 0 ? dim + (a->rank ? a->rank : 1) : dim);
}

static int64_t size_of(const array *a, uint32_t dim)
{
    return a->rank ? a->sizes[dim] : 1;
}

/* `index` with what `positions` holds there in place of dimension `dim`; 0 when that is out of range. */
static int redirect(const array *positions, const int64_t *index, uint32_t dim, int64_t size, int64_t *out)
{
    memcpy(out, index, TN_MAX_RANK * sizeof(*index));
    out[dim] = array_get(positions, index).i;
    return out[dim] >= 0 && out[dim] < size;
}

/* gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) */
int32_t gather(void *self, const tn_call *call)
{
    array in = array_of_tensor(call->args[0]), positions = array_of_tensor(call->args[2]);
    array out = array_of_tensor(call->outs[0]);
    uint32_t dim = dimension(&in, call->args[1]);
    int64_t index[TN_MAX_RANK] = {0}, from[TN_MAX_RANK];
    if (!has_elements(&positions)) return TN_OK;
    do {
        if (!redirect(&positions, index, dim, size_of(&in, dim), from))
            return fail(call->host, TN_E_INDEX, "gather: an index is out of bounds");
        array_put(&out, index, array_get(&in, from));
    } while (next_in_tensor(positions.rank, positions.sizes, index));
    return TN_OK;
}

/* ---- scatter ------------------------------------------------------------------------------------------ */

/* All have (self, dim, index, source or value), most a word for what is done to an element: the row's, or the
 * argument behind. Overwriting is WHERE of whatever was there. */
static int32_t action_of(const tn_call *call)
{
    const char *word = call->data;
    if (!word) word = call->args[4].as.string;
    return !strcmp(word, "add") || !strcmp(word, "sum")         ? ADD
           : !strcmp(word, "multiply") || !strcmp(word, "prod") ? MUL
           : !strcmp(word, "amax")                              ? MAXIMUM
           : !strcmp(word, "amin")                              ? MINIMUM
           : !strcmp(word, "overwrite")                         ? WHERE
                                                                : 0;
}

/* A mean would have to count what every element receives, and so would include_self=False: not for this
 * device.
 */
const char *scatter_can_run(void *self, const tn_call *call)
{
    if (!action_of(call)) return "acme: scatter adds, multiplies and takes extrema only";
    if (call->n_args > 5 && !tn_value_as_bool(call->args[5])) return "acme: scatter always includes self";
    return dtypes_are_known(self, call);
}

/* What is written stands in outs, and holds self already. */
int32_t scatter(void *self, const tn_call *call)
{
    array out = array_of_tensor(call->outs[0]), positions = array_of_tensor(call->args[2]), source = {0};
    int is_tensor = call->args[3].tag == TN_TAG_TENSOR;
    uint32_t dim = dimension(&out, call->args[1]);
    int32_t action = action_of(call);
    int64_t index[TN_MAX_RANK] = {0}, to[TN_MAX_RANK];
    if (is_tensor) source = array_of_tensor(call->args[3]);
    if (!has_elements(&positions)) return TN_OK;
    do {
        if (!redirect(&positions, index, dim, size_of(&out, dim), to))
            return fail(call->host, TN_E_INDEX, "scatter: an index is out of bounds");
        number value = is_tensor ? array_get(&source, index) : number_of_value(call->args[3]);
        value = number_rounded(out.dtype, value);
        if (action != WHERE) value = compute(action, (number[]){array_get(&out, to), value, number_whole(1)});
        array_put(&out, to, value);
    } while (next_in_tensor(positions.rank, positions.sizes, index));
    return TN_OK;
}

/* ---- sort --------------------------------------------------------------------------------------------- */

typedef struct item {
    number value;
    int64_t position;
    int64_t descending;
} item;

/* A NaN is the largest; equal ones stay in the order in which they came, which makes it stable. */
static int compare_items(const void *left, const void *right)
{
    const item *a = left, *b = right;
    number x = a->value, y = b->value;
    int order = is_nan(x) || is_nan(y) ? is_nan(x) - is_nan(y)
                : x.is_real            ? (x.f > y.f) - (x.f < y.f)
                                       : (x.i > y.i) - (x.i < y.i);
    if (order) return a->descending ? -order : order;
    return (a->position > b->position) - (a->position < b->position);
}

/* sort(self, dim, descending) and sort.stable(self, stable, dim, descending): data says where dim stands. */
int32_t sort(void *self, const tn_call *call)
{
    int32_t first = *(const int32_t *)call->data;
    array in = array_of_tensor(call->args[0]);
    array values = array_of_tensor(call->outs[0]), positions = array_of_tensor(call->outs[1]);
    uint32_t dim = dimension(&in, call->args[first]);
    int64_t index[TN_MAX_RANK] = {0}, starts[TN_MAX_RANK], size = size_of(&in, dim), *along = &index[dim];
    if (!has_elements(&in)) return TN_OK;
    item *items = calloc((size_t)size, sizeof(*items));
    if (!items) return fail(call->host, TN_E_OUT_OF_MEMORY, "sort: no memory for a line");
    for (uint32_t d = 0; d < in.rank; d++) starts[d] = d == dim ? 1 : in.sizes[d];
    do {
        for (*along = 0; *along < size; ++*along)
            items[*along] = (item){array_get(&in, index), *along, tn_value_as_bool(call->args[first + 1])};
        qsort(items, (size_t)size, sizeof(*items), compare_items);
        for (*along = 0; *along < size; ++*along) {
            array_put(&values, index, items[*along].value);
            array_put(&positions, index, number_whole(items[*along].position));
        }
        *along = 0;
    } while (next_in_tensor(in.rank, starts, index));
    free(items);
    return TN_OK;
}

/* ---- nonzero ------------------------------------------------------------------------------------------ */

/* The size of the result depends on the data: it is counted first, then asked for. */
int32_t nonzero(void *self, const tn_call *call)
{
    array in = array_of_tensor(call->args[0]);
    int64_t index[TN_MAX_RANK] = {0}, sizes[2] = {0, in.rank}, to[2] = {0};
    int some = has_elements(&in);
    while (some) {
        sizes[0] += is_true(array_get(&in, index));
        if (!next_in_tensor(in.rank, in.sizes, index)) break;
    }
    int32_t status = call->host->resize_output(call, 0, 2, sizes);
    if (status || sizes[0] == 0) return status;
    array out = array_of_tensor(call->outs[0]);
    do {
        if (!is_true(array_get(&in, index))) continue;
        for (to[1] = 0; to[1] < sizes[1]; to[1]++) array_put(&out, to, number_whole(index[to[1]]));
        to[0]++;
    } while (next_in_tensor(in.rank, in.sizes, index));
    return TN_OK;
}
