/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather and the scatter family. An index out of range is found on the stream's thread, so it is a late
 * error.
 */
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

/* The position that the index tensor holds at `index`, checked against the size of `dim`. */
static int32_t read_position(const tn_tensor_desc *positions, const int64_t *index, int64_t dim, int64_t size,
                             int64_t *out, reference_failure *failure)
{
    int64_t position = tensor_load(positions, index).i;
    if (position < 0 || position >= size)
        return reference_fail(failure, TN_E_INDEX,
                              "index %lld is out of bounds for dimension %lld with size %lld",
                              (long long)position, (long long)dim, (long long)size);
    *out = position;
    return TN_OK;
}

/* gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) */
int32_t kernel_gather(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *t = tensor_argument(call, 0), *positions = tensor_argument(call, 2);
    const tn_tensor_desc *out = tensor_output(call, 0);
    int64_t dim = tensor_dim(t, tn_value_as_int(call->args[1]));
    int64_t index[TN_MAX_RANK] = {0}, from[TN_MAX_RANK];
    if (tensor_numel(positions) == 0) return TN_OK;
    do {
        memcpy(from, index, sizeof(from));
        int32_t status = read_position(positions, index, dim, tensor_size(t, dim), &from[dim], failure);
        if (status) return status;
        tensor_store(out, index, tensor_load(t, from));
    } while (tensor_next(positions->rank, positions->sizes, index));
    return TN_OK;
}

/* ---- scatter ----------------------------------------------------------------------------------------- */

enum { WRITE, ADD, MULTIPLY, LARGEST, SMALLEST, MEAN };

/* The action on an element, by opcode and the text of `reduce`; -1 for an unknown text. */
static int find_action(const tn_call *call, int32_t opcode)
{
    static const struct {
        const char *text;
        int action;
    } actions[] = {{"add", ADD},      {"multiply", MULTIPLY}, {"sum", ADD},  {"prod", MULTIPLY},
                   {"amax", LARGEST}, {"amin", SMALLEST},     {"mean", MEAN}};
    if (opcode == SCATTER_SOURCE || opcode == SCATTER_VALUE) return WRITE;
    if (opcode == SCATTER_ADD) return ADD;
    const char *text = call->args[4].tag == TN_TAG_STRING ? call->args[4].as.string : "";
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (!strcmp(text, actions[i].text)) return actions[i].action;
    return -1;
}

static number act(int action, number old, number value)
{
    switch (action) {
    case ADD:
    case MEAN:
        return number_add(old, value);
    case MULTIPLY:
        return number_multiply(old, value);
    case LARGEST:
        return number_larger(old, value);
    case SMALLEST:
        return number_smaller(old, value);
    default:
        return value;
    }
}

/* Row-major number of an element. */
static int64_t linear(const tn_tensor_desc *t, const int64_t *index)
{
    int64_t at = 0;
    for (uint32_t d = 0; d < t->rank; d++) at = at * t->sizes[d] + index[d];
    return at;
}

/*
 * The elements of a half type, for sums that are rounded once at their end, as in ATen. NULL for lack of memory:
 * then each step is rounded.
 */
static number *all_numbers(const tn_tensor_desc *t)
{
    number *all = calloc((size_t)tensor_numel(t), sizeof *all);
    int64_t index[TN_MAX_RANK] = {0};
    if (!all) return NULL;
    do all[linear(t, index)] = tensor_load(t, index);
    while (tensor_next(t->rank, t->sizes, index));
    return all;
}

/* Sums become means: divided by how many went in, integers rounded down. `sums` is as in scatter. */
static void divide_by_counts(const tn_tensor_desc *out, const int64_t *counts, const number *sums,
                             int include_self)
{
    int64_t index[TN_MAX_RANK] = {0};
    do {
        int64_t count = counts[linear(out, index)] + include_self;
        if (counts[linear(out, index)] == 0 || count == 1) continue;
        number sum = sums ? sums[linear(out, index)] : tensor_load(out, index);
        if (sum.domain == DOMAIN_UNSIGNED)
            sum.i = (int64_t)((uint64_t)sum.i / (uint64_t)count);
        else if (sum.domain == DOMAIN_SIGNED)
            sum.i = sum.i / count - (sum.i % count < 0);
        sum.re /= (double)count;
        sum.im /= (double)count;
        tensor_store(out, index, sum);
    } while (tensor_next(out->rank, out->sizes, index));
}

/*
 * `counts` (may be NULL) says how many values an element has received, `sums` (may be NULL) has the elements of
 * the output before they are rounded to its dtype.
 */
static int32_t scatter(const tn_call *call, int action, int include_self, int64_t *counts, number *sums,
                       reference_failure *failure)
{
    const tn_tensor_desc *out = tensor_output(call, 0), *positions = tensor_argument(call, 2);
    const tn_tensor_desc *source = tensor_argument(call, 3);
    int64_t dim = tensor_dim(out, tn_value_as_int(call->args[1]));
    int64_t index[TN_MAX_RANK] = {0}, to[TN_MAX_RANK];
    number value = source ? number_int(0) : number_of_value(call->args[3]);
    do {
        memcpy(to, index, sizeof(to));
        int32_t status = read_position(positions, index, dim, tensor_size(out, dim), &to[dim], failure);
        if (status) return status;
        if (source) value = tensor_load(source, index);
        int replace = counts && counts[linear(out, to)]++ == 0 && !include_self;
        value = number_rounded(out->dtype, value);
        number old = sums ? sums[linear(out, to)] : tensor_load(out, to);
        number result = replace ? value : act(action, old, value);
        if (sums) sums[linear(out, to)] = result;
        tensor_store(out, to, result);
    } while (tensor_next(positions->rank, positions->sizes, index));
    return TN_OK;
}

/* All have (self, dim, index, src or value), then `reduce` and `include_self` where there are such. */
int32_t kernel_scatter(const tn_call *call, int32_t opcode, reference_failure *failure)
{
    const tn_tensor_desc *out = tensor_output(call, 0);
    int action = find_action(call, opcode);
    int include_self = opcode != SCATTER_REDUCE_TWO || tn_value_as_bool(call->args[5]);
    int64_t *counts = NULL;
    number *sums = NULL;
    if (action < 0)
        return reference_fail(failure, TN_E_ARGUMENT,
                              "reduce argument must be either sum, prod, mean, amax or amin");
    if (tensor_numel(tensor_argument(call, 2)) == 0 || tensor_numel(out) == 0) return TN_OK;
    if (opcode == SCATTER_REDUCE_TWO) {
        counts = calloc((size_t)tensor_numel(out), sizeof(*counts));
        if (!counts) return reference_fail(failure, TN_E_OUT_OF_MEMORY, "no host memory to count values");
    }
    int is_sum = action == ADD || action == MEAN || action == MULTIPLY;
    if (is_sum && (out->dtype == TN_FLOAT16 || out->dtype == TN_BFLOAT16)) sums = all_numbers(out);
    int32_t status = scatter(call, action, include_self, counts, sums, failure);
    if (!status && action == MEAN && counts) divide_by_counts(out, counts, sums, include_self);
    free(sums);
    free(counts);
    return status;
}
