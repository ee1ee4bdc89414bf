/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions and scans, by one way of going on: a running result takes one element after the other. The first
 * `kept` dimensions of the nest are those of the result; the others are reduced, or scanned.
 */
#include "plugin.h"

/* Whether `next` takes the place of `best`: a NaN wins over all. Ties go to the first, in scans the last. */
static int is_better(int greatest, int ties, number best, number next)
{
    int order = next.is_real ? (next.f > best.f) - (next.f < best.f) : (next.i > best.i) - (next.i < best.i);
    if (is_nan(next)) return ties || !is_nan(best);
    return !is_nan(best) && (order == 0 ? ties : greatest == (order > 0));
}

/* The running result of a sum or product. */
static number accumulate(int opcode, number so_far, number next)
{
    return compute(opcode == PROD ? MUL : ADD, (number[]){so_far, next, number_whole(1)});
}

static number start(int opcode, tn_dtype dtype)
{
    int64_t one = opcode == PROD || opcode == ALL;
    return is_real_dtype(dtype) ? number_real((double)one) : number_whole(one);
}

/* One element of the result: `index` stands at the first of those that it is made from. */
static number reduce_one(int opcode, const tn_nest *nest, const array *in, tn_dtype dtype, int64_t *index)
{
    uint32_t reduced = nest->rank - nest->kept;
    int extremum = opcode == AMAX || opcode == AMIN || opcode == ARGMAX || opcode == ARGMIN;
    number best = extremum ? array_get(in, index) : start(opcode, dtype);
    int64_t count = 0, position = 0;
    do {
        number next = array_get(in, index);
        if (extremum && is_better(opcode == AMAX || opcode == ARGMAX, 0, best, next)) {
            best = next;
            position = count;
        } else if (opcode == ANY || opcode == ALL) {
            best.i = opcode == ANY ? best.i || is_true(next) : best.i && is_true(next);
        } else if (!extremum) { /* elements have the dtype of the result before they are added */
            best = accumulate(opcode, best, number_rounded(dtype, next));
        }
        count++;
    } while (next_in_nest(reduced, nest->sizes + nest->kept, index + nest->kept));
    if (opcode == MEAN) best.f /= (double)count;
    return opcode == ARGMAX || opcode == ARGMIN ? number_whole(position) : best;
}

int32_t reduce(void *self, const tn_call *call)
{
    const tn_nest *nest = call->nest;
    int opcode = *(const int32_t *)call->data;
    array out = array_of_operand(nest, 0), in = array_of_operand(nest, 1);
    int64_t index[TN_MAX_RANK] = {0};
    do array_put(&out, index, reduce_one(opcode, nest, &in, out.dtype, index));
    while (next_in_nest(nest->kept, nest->sizes, index));
    return TN_OK;
}

/* One line of cumsum and cumprod, or of cummax and cummin, which have positions as a second output. */
static void scan_line(int opcode, const array *in, const array *out, const array *positions, int64_t *index)
{
    int64_t *along = &index[in->rank - 1], position = 0;
    number best = positions ? array_get(in, index) : start(opcode, out->dtype);
    for (*along = 0; *along < in->sizes[in->rank - 1]; ++*along) {
        number next = array_get(in, index);
        if (!positions) {
            best = accumulate(opcode, best, number_rounded(out->dtype, next));
        } else if (is_better(opcode == AMAX, 1, best, next)) {
            best = next;
            position = *along;
        }
        array_put(out, index, best);
        if (positions) array_put(positions, index, number_whole(position));
    }
    *along = 0;
}

int32_t scan(void *self, const tn_call *call)
{
    const tn_nest *nest = call->nest;
    array out = array_of_operand(nest, 0), second = array_of_operand(nest, 1);
    array in = array_of_operand(nest, nest->n_outputs);
    int64_t index[TN_MAX_RANK] = {0};
    do scan_line(*(const int32_t *)call->data, &in, &out, nest->n_outputs > 1 ? &second : NULL, index);
    while (next_in_nest(nest->kept, nest->sizes, index));
    return TN_OK;
}
