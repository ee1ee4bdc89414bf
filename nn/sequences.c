/* SPDX-License-Identifier: Apache-2.0 */
/* Packed sequences as in torch.nn.utils.rnn: sorted by length, without padding. */
#include "layers.h"

static const tn_packed_sequence none;

/* The place of each index: indices[i] = k gives place[k] = i. */
static tn_tensor *inverted(tn_scope *s, tn_tensor *indices)
{
    tn_tensor *places = tn_arange(s, TN_SCALAR(tn_tensor_numel(indices)), .dtype = TN_INT64,
                                  .device = tn_tensor_device(indices));
    return tn_index_copy(s, tn_empty_like(s, indices), 0, indices, places);
}

tn_packed_sequence tn_pack_padded_sequence(tn_scope *s, tn_tensor *input, tn_tensor *lengths,
                                           int32_t batch_first, int32_t enforce_sorted)
{
    tn_packed_sequence y = none;
    const int64_t dim = batch_first ? 0 : 1;
    if (!tn_scope_failed(s) && (!input || !lengths))
        tn_scope_fail(s, TN_E_ARGUMENT, "tn_pack_padded_sequence: argument 'input' or 'lengths' is NULL");
    if (tn_scope_failed(s)) return none;
    lengths = tn_to_device(s, lengths, TN_CPU, TN_INT64);
    if (!enforce_sorted) {
        const tn_sort_stable_result sorted = tn_sort_stable(s, lengths, 1, .descending = 1);
        lengths = sorted.values;
        y.sorted_indices = tn_to_device(s, sorted.indices, tn_tensor_device(input), TN_INT64);
        y.unsorted_indices = y.sorted_indices ? inverted(s, y.sorted_indices) : NULL;
        input = tn_index_select(s, input, dim, y.sorted_indices);
    }
    const tn__pack_padded_sequence_result packed = tn__pack_padded_sequence(s, input, lengths, batch_first);
    y.data = packed.result0;
    y.batch_sizes = packed.result1;
    return tn_scope_failed(s) ? none : y;
}

tn_packed_sequence tn_pack_sequence(tn_scope *s, tn_tensors sequences, int32_t enforce_sorted)
{
    int64_t *lengths = tn_scope_memory(s, (uint64_t)(sequences.count + 1) * sizeof *lengths);
    for (int64_t i = 0; lengths && i < sequences.count; i++)
        lengths[i] =
            sequences.data[i] && tn_tensor_rank(sequences.data[i]) ? tn_tensor_size(sequences.data[i], 0) : 0;
    if (!lengths) return none;
    return tn_pack_padded_sequence(s, tn_pad_sequence(s, sequences),
                                   tn_from_data(s, TN_INT64, TN_INTS(sequences.count), lengths, TN_CPU), 0,
                                   enforce_sorted);
}

tn_padded_sequence tn_pad_packed_sequence(tn_scope *s, tn_packed_sequence packed, int32_t batch_first,
                                          double padding_value, int64_t total_length)
{
    tn_padded_sequence y = {NULL, NULL};
    const tn__pad_packed_sequence_result padded = tn__pad_packed_sequence(
        s, packed.data, packed.batch_sizes, batch_first, padding_value, total_length > 0 ? total_length : -1);
    y.data = padded.result0;
    y.lengths = padded.result1;
    if (packed.unsorted_indices) {
        y.data = tn_index_select(s, y.data, batch_first ? 0 : 1, packed.unsorted_indices);
        y.lengths =
            tn_index_select(s, y.lengths, 0, tn_to_device(s, packed.unsorted_indices, TN_CPU, TN_INT64));
    }
    return tn_scope_failed(s) ? (tn_padded_sequence){NULL, NULL} : y;
}

tn_tensors tn_unpad_sequence(tn_scope *s, tn_tensor *padded, tn_tensor *lengths, int32_t batch_first)
{
    const tn_tensors nothing = {NULL, 0};
    if (!tn_scope_failed(s) &&
        (!padded || !lengths || tn_tensor_rank(lengths) != 1 || tn_tensor_rank(padded) < 2))
        tn_scope_fail(
            s, TN_E_ARGUMENT,
            "tn_unpad_sequence: expected a padded tensor of at least 2 dimensions, and lengths of 1");
    if (tn_scope_failed(s)) return nothing;
    const int64_t n = tn_tensor_size(lengths, 0);
    int64_t *items = tn_scope_memory(s, (uint64_t)(n + 1) * sizeof *items);
    tn_tensor **out = tn_scope_memory(s, (uint64_t)(n + 1) * sizeof *out);
    lengths = tn_to_device(s, lengths, TN_CPU, TN_INT64);
    if (!items || !out || tn_to_host(s, lengths, items, (uint64_t)n * sizeof *items)) return nothing;
    for (int64_t i = 0; i < n; i++)
        out[i] = tn_narrow(s, tn_select(s, padded, batch_first ? 0 : 1, i), 0, 0, items[i]);
    return tn_scope_failed(s) ? nothing : (tn_tensors){out, n};
}

tn_tensors tn_unpack_sequence(tn_scope *s, tn_packed_sequence packed)
{
    const tn_padded_sequence y = tn_pad_packed_sequence(s, packed, 1, 0, 0);
    return tn_unpad_sequence(s, y.data, y.lengths, 1);
}

/* The batches of a state in the order of the sequences before they were sorted. */
static tn_tensor *permuted(tn_scope *s, tn_tensor *state, tn_tensor *indices)
{
    return state && indices ? tn_index_select(s, state, 1, indices) : state;
}

tn_packed_outputs tn_module_call_packed(tn_scope *s, tn_module *m, tn_packed_sequence packed, tn_tensor *h,
                                        tn_tensor *c)
{
    tn_packed_outputs y = {.sequence = packed};
    if (!tn_scope_failed(s) && !packed.batch_sizes)
        tn_scope_fail(s, TN_E_ARGUMENT, "tn_module_call_packed: argument 'packed' has no batch_sizes");
    tn_tensor *in[] = {packed.data, h, c};
    const tn_outputs out = nn_call_packed(s, m, packed, (tn_tensors){in, c ? 3 : h ? 2 : 1});
    y.sequence.data = out.first;
    y.h = permuted(s, out.more[0], packed.unsorted_indices);
    y.c = permuted(s, out.more[1], packed.unsorted_indices);
    return tn_scope_failed(s) ? (tn_packed_outputs){.sequence = none} : y;
}
