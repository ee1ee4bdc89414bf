/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: sequences of several lengths, the longest first, as a padded batch [step, batch, ...] and packed: the rows of
 * the first step, of the second one, and so on, without padding.
 */
#include "ops/composite/composite.h"

/* The first step from `i` on with another number of rows. */
static int64_t end_of_run(tn_ints sizes, int64_t i)
{
    int64_t end = i + 1;
    while (end < sizes.count && sizes.data[end] == sizes.data[i]) end++;
    return end;
}

/* The rows of each step, from the lengths of the sequences. */
static tn_ints sizes_of_steps(tn_scope *s, tn_ints lengths)
{
    int64_t count = lengths.count ? lengths.data[0] : 0, rows = lengths.count, *sizes;
    for (int64_t i = 0; i < lengths.count; i++) {
        if (lengths.data[i] <= 0)
            tn_scope_fail(s, TN_E_ARGUMENT,
                          "Length of all samples has to be greater than 0, but found an element in 'lengths' "
                          "that is <= 0");
        else if (i && lengths.data[i] > lengths.data[i - 1])
            tn_scope_fail(s, TN_E_ARGUMENT,
                          "`lengths` array must be sorted in decreasing order when `enforce_sorted` is "
                          "True. You can pass `enforce_sorted=False` to pack_padded_sequence and/or "
                          "pack_sequence to sidestep this requirement if you do not need ONNX "
                          "exportability.");
    }
    if (tn_scope_failed(s)) return (tn_ints){NULL, 0};
    sizes = tni_scope_ints(s, count);
    for (int64_t t = 0; sizes && t < count; t++) {
        while (rows > 0 && lengths.data[rows - 1] <= t) rows--;
        sizes[t] = rows;
    }
    return (tn_ints){sizes, sizes ? count : 0};
}

/* A run of steps of a padded batch, and its rows of a packed one: [steps, rows, ...]. */
static tn_tensor *padded_run(tn_scope *s, tn_tensor *padded, int64_t start, int64_t end, int64_t rows)
{
    return tni_narrow(s, tni_narrow(s, padded, 0, start, end - start), 1, 0, rows);
}
static tn_tensor *packed_run(tn_scope *s, tn_tensor *packed, int64_t at, int64_t steps, int64_t rows)
{
    tn_tensor *t = tni_narrow(s, packed, 0, at, steps * rows);
    tn_ints size =
        t ? tni_sizes_insert(s, tni_sizes_with(s, sizes_of(t), 0, rows), 0, steps) : (tn_ints){NULL, 0};
    return t && size.data ? tni_reshape(s, t, size) : NULL;
}

/* _pack_padded_sequence (input, lengths, batch_first) -> data, batch_sizes. */
void composite_pack_padded_sequence(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *in = arg_tensor(args, 0), **list;
    tn_ints lengths = tni_integers_of(s, arg_tensor(args, 1), "lengths"), sizes;
    int64_t count = 0;
    if (tn_scope_failed(s)) return;
    if (rank_of(in) < 2)
        return (void)tn_scope_fail(s, TN_E_SHAPE,
                                   "pack_padded_sequence: the input must have 2 dimensions or more");
    if (arg_bool(args, 2)) in = tn_transpose(s, in, 0, 1);
    if (!in) return;
    if (lengths.count != tn_tensor_size(in, 1))
        return (void)tni_scope_failf(
            s, TN_E_ARGUMENT,
            "Expected `len(lengths)` to be equal to batch_size, but got %lld (batch_size=%lld)",
            (long long)lengths.count, (long long)tn_tensor_size(in, 1));
    sizes = sizes_of_steps(s, lengths);
    if (sizes.count > tn_tensor_size(in, 0))
        return (void)tni_scope_failf(s, TN_E_ARGUMENT, "Expected lengths of at most %lld, but got %lld",
                                     (long long)tn_tensor_size(in, 0), (long long)sizes.count);
    list = tni_scope_tensors(s, sizes.count);
    for (int64_t i = 0, end; i < sizes.count && list && !tn_scope_failed(s); i = end) {
        end = end_of_run(sizes, i);
        tn_tensor *run = padded_run(s, in, i, end, sizes.data[i]);
        tn_ints size = run ? tni_sizes_without(s, sizes_of(run), 0) : (tn_ints){NULL, 0};
        list[count++] = tni_reshape(s, run, tni_sizes_with(s, size, 0, (end - i) * sizes.data[i]));
    }
    if (!list || tn_scope_failed(s)) return;
    give(outs, 0, tn_cat(s, (tn_tensors){list, count}));
    give(outs, 1, tn_from_data(s, TN_INT64, TN_INTS(sizes.count), sizes.data, TN_CPU));
}

/* Copies packed rows into a padded batch of that many steps, filled with `padding`. */
static tn_tensor *unpacked(tn_scope *s, tn_tensor *data, tn_ints sizes, int64_t steps, tn_value padding)
{
    int64_t at = 0, rows = sizes.count ? sizes.data[0] : 0;
    tn_ints size = tni_sizes_insert(s, tni_sizes_with(s, sizes_of(data), 0, rows), 0, steps);
    tn_tensor *out = size.data ? tni_full_on(s, data, 0, size, padding) : NULL;
    for (int64_t i = 0, end; i < sizes.count && !tn_scope_failed(s); i = end) {
        end = end_of_run(sizes, i);
        tn_copy_(s, padded_run(s, out, i, end, sizes.data[i]),
                 packed_run(s, data, at, end - i, sizes.data[i]));
        at += (end - i) * sizes.data[i];
    }
    return out;
}

/* _pack_padded_sequence_backward (grad, input_size, batch_sizes, batch_first). */
void composite_pack_padded_sequence_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_ints sizes = tni_integers_of(s, arg_tensor(args, 2), "batch_sizes"), size = arg_ints(args, 1);
    int32_t batch_first = arg_bool(args, 3);
    if (tn_scope_failed(s)) return;
    if (size.count < 2)
        return (void)tni_scope_failf(
            s, TN_E_ARGUMENT,
            "_pack_padded_sequence_backward: argument 'input_size': must have at least 2 "
            "items, got %lld",
            (long long)size.count);
    tn_tensor *t = unpacked(s, arg_tensor(args, 0), sizes, size.data[batch_first ? 1 : 0], tn_value_int(0));
    give(outs, 0, batch_first ? tn_transpose(s, t, 0, 1) : t);
}

/* _pad_packed_sequence (data, batch_sizes, batch_first, padding_value, total_length) -> padded, lengths. */
void composite_pad_packed_sequence(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *data = arg_tensor(args, 0), *out;
    tn_ints sizes = tni_integers_of(s, arg_tensor(args, 1), "batch_sizes");
    int64_t total = arg_int(args, 4), rows = sizes.count ? sizes.data[0] : 0,
            *lengths = tni_scope_ints(s, rows);
    if (tn_scope_failed(s)) return;
    if (total > 0 && total < sizes.count)
        return (void)tni_scope_failf(
            s, TN_E_ARGUMENT,
            "Expected total_length to be at least the length of the longest sequence in input, "
            "but got total_length=%lld and max sequence length being %lld",
            (long long)total, (long long)sizes.count);
    for (int64_t i = 0; i < rows; i++) {
        lengths[i] = 0;
        while (lengths[i] < sizes.count && sizes.data[lengths[i]] > i) lengths[i]++;
    }
    out = unpacked(s, data, sizes, total > 0 ? total : sizes.count, args[3]);
    give(outs, 0, arg_bool(args, 2) ? tn_transpose(s, out, 0, 1) : out);
    give(outs, 1, tn_from_data(s, TN_INT64, TN_INTS(rows), lengths, TN_CPU));
}
