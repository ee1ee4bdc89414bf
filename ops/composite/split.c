/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: splits of a tensor along a dimension. The results of unsafe ones are not views for autograd. */
#include "ops/composite/composite.h"

static void give_detached(tn_scope *s, tn_value *outs, tn_tensors list)
{
    tn_tensor **out = tni_scope_tensors(s, list.count);
    for (int64_t i = 0; out && i < list.count; i++) out[i] = tn_detach_default(s, list.data[i]);
    give_list(outs, 0, (tn_tensors){out, list.count});
}

void composite_split_sizes(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_list(outs, 0,
              tn_split_with_sizes(s, arg_tensor(args, 0), arg_ints(args, 1), .dim = arg_int(args, 2)));
}

void composite_unsafe_split(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_detached(s, outs, tn_split(s, arg_tensor(args, 0), arg_int(args, 1), .dim = arg_int(args, 2)));
}

void composite_unsafe_split_with_sizes(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give_detached(s, outs,
                  tn_split_with_sizes(s, arg_tensor(args, 0), arg_ints(args, 1), .dim = arg_int(args, 2)));
}

/* The size of a chunk; 0 if the dimension is empty, -1 after a failure. */
static int64_t chunk_size(tn_scope *s, const tn_tensor *self, int64_t chunks, int64_t dim)
{
    if (rank_of(self) == 0)
        return tn_scope_fail(s, TN_E_SHAPE, "chunk expects at least a 1-dimensional tensor"), -1;
    if (chunks <= 0)
        return tni_scope_failf(s, TN_E_ARGUMENT, "chunk expects `chunks` to be greater than 0, got: %lld",
                               (long long)chunks),
               -1;
    dim = tni_dim(s, dim, rank_of(self));
    if (tn_scope_failed(s)) return -1;
    int64_t size = tn_tensor_size(self, dim);
    return size ? (size - 1) / chunks + 1 : 0;
}

static tn_ints zeros_of(tn_scope *s, int64_t count)
{
    int64_t *list = tni_scope_ints(s, count);
    for (int64_t i = 0; list && i < count; i++) list[i] = 0;
    return (tn_ints){list, list ? count : 0};
}

static void give_chunks(tn_scope *s, const tn_value *args, tn_value *outs, int32_t is_unsafe)
{
    tn_tensor *self = arg_tensor(args, 0);
    int64_t chunks = arg_int(args, 1), dim = arg_int(args, 2), size = chunk_size(s, self, chunks, dim);
    if (size < 0) return;
    if (size == 0) {
        tn_ints zeros = zeros_of(s, chunks);
        give_list(outs, 0,
                  is_unsafe ? tn_unsafe_split_with_sizes(s, self, zeros, .dim = dim)
                            : tn_split_with_sizes(s, self, zeros, .dim = dim));
    } else
        give_list(outs, 0,
                  is_unsafe ? tn_unsafe_split(s, self, size, .dim = dim)
                            : tn_split(s, self, size, .dim = dim));
}

FORWARD(composite_chunk, give_chunks, 0)
FORWARD(composite_unsafe_chunk, give_chunks, 1)

/* ---- tensor_split ---- */

static int32_t check_tensor_split(tn_scope *s, const tn_tensor *self)
{
    if (rank_of(self)) return TN_OK;
    return tn_scope_fail(
        s, TN_E_SHAPE, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
}

static void split_sections(tn_scope *s, tn_tensor *self, int64_t sections, int64_t dim, tn_value *outs)
{
    if (check_tensor_split(s, self)) return;
    dim = tni_dim(s, dim, rank_of(self));
    if (sections <= 0) {
        tni_scope_failf(s, TN_E_ARGUMENT, "number of sections must be larger than 0, got %lld",
                        (long long)sections);
        return;
    }
    tn_tensor **out = tni_scope_tensors(s, sections);
    int64_t size = tn_tensor_size(self, dim), least = size / sections, longer = size % sections;
    for (int64_t i = 0, start = 0; out && i < sections; i++) {
        int64_t length = least + (i < longer);
        out[i] = tn_slice(s, self, .dim = dim, .start = start, .end = start + length);
        start += length;
    }
    give_list(outs, 0, (tn_tensors){out, sections});
}

static void split_at(tn_scope *s, tn_tensor *self, tn_ints indices, int64_t dim, tn_value *outs)
{
    if (check_tensor_split(s, self)) return;
    dim = tni_dim(s, dim, rank_of(self));
    tn_tensor **out = tni_scope_tensors(s, indices.count + 1);
    int64_t start = 0;
    for (int64_t i = 0; out && i < indices.count; i++) {
        out[i] = tn_slice(s, self, .dim = dim, .start = start, .end = indices.data[i]);
        start = indices.data[i];
    }
    if (out) out[indices.count] = tn_slice(s, self, .dim = dim, .start = start);
    give_list(outs, 0, (tn_tensors){out, indices.count + 1});
}

void composite_tensor_split(tn_scope *s, const tn_value *args, tn_value *outs)
{
    split_sections(s, arg_tensor(args, 0), arg_int(args, 1), arg_int(args, 2), outs);
}

void composite_tensor_split_indices(tn_scope *s, const tn_value *args, tn_value *outs)
{
    split_at(s, arg_tensor(args, 0), arg_ints(args, 1), arg_int(args, 2), outs);
}

void composite_tensor_split_tensor_indices_or_sections(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *t = arg_tensor(args, 1);
    if (check_tensor_split(s, self)) return;
    if (dtype_of(t) != TN_INT64) {
        tn_scope_fail(s, TN_E_DTYPE,
                      "tensor_split expected tensor_indices_or_sections to have dtype of long");
        return;
    }
    if (rank_of(t) > 1) {
        tni_scope_failf(s, TN_E_SHAPE,
                        "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                        "one-dimensional tensor, but got a tensor with %lld dims",
                        (long long)rank_of(t));
        return;
    }
    int64_t n = tn_tensor_numel(t), *list = tni_scope_ints(s, n);
    if (!list || tn_to_host(s, t, list, (uint64_t)n * sizeof(int64_t))) return;
    if (rank_of(t) == 0)
        split_sections(s, self, list[0], arg_int(args, 2), outs);
    else
        split_at(s, self, (tn_ints){list, n}, arg_int(args, 2), outs);
}

/* hsplit, vsplit, dsplit: need `need` dimensions and split along `dim`; `sections` 0: split at indices. */
static int32_t check_named_split(tn_scope *s, const tn_tensor *self, const char *name, int64_t need)
{
    if (rank_of(self) >= need) return TN_OK;
    return tni_scope_failf(
        s, TN_E_SHAPE,
        "torch.%s requires a tensor with at least %lld dimension, but got a tensor with %lld dimensions!",
        name, (long long)need, (long long)rank_of(self));
}

/* hsplit splits columns, or the elements of a vector. */
typedef struct named_split {
    const char *name;
    int64_t need, dim; /* dimensions that it asks for; the one that it splits */
} named_split;
static const named_split hsplit = {"hsplit", 1, 1}, vsplit = {"vsplit", 2, 0}, dsplit = {"dsplit", 3, 2};

/* Into equal sections, or at the indices. */
static void split_named(tn_scope *s, const tn_value *args, tn_value *outs, const named_split *f,
                        int32_t at_indices)
{
    tn_tensor *self = arg_tensor(args, 0);
    if (check_named_split(s, self, f->name, f->need)) return;
    int64_t dim = rank_of(self) == 1 ? 0 : f->dim, size = tn_tensor_size(self, dim);
    if (at_indices) {
        split_at(s, self, arg_ints(args, 1), dim, outs);
        return;
    }
    int64_t sections = arg_int(args, 1);
    if (sections == 0 || size % sections) {
        tni_scope_failf(s, TN_E_ARGUMENT,
                        "torch.%s attempted to split along dimension %lld, but the size of the dimension "
                        "%lld is not divisible by the split_size %lld!",
                        f->name, (long long)dim, (long long)size, (long long)sections);
        return;
    }
    split_sections(s, self, sections, dim, outs);
}

FORWARD(composite_hsplit, split_named, &hsplit, 0)
FORWARD(composite_hsplit_array, split_named, &hsplit, 1)
FORWARD(composite_vsplit, split_named, &vsplit, 0)
FORWARD(composite_vsplit_array, split_named, &vsplit, 1)
FORWARD(composite_dsplit, split_named, &dsplit, 0)
FORWARD(composite_dsplit_array, split_named, &dsplit, 1)

/* ---- lists as one vector ---- */

void composite_flatten_dense_tensors(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensors list = arg_tensors(args, 0);
    tn_tensor **flat = tni_scope_tensors(s, list.count);
    for (int64_t i = 0; flat && i < list.count; i++)
        flat[i] = tni_reshape(s, tn_contiguous(s, list.data[i]), TN_INTS(-1));
    if (flat) give(outs, 0, tn_cat(s, ((tn_tensors){flat, list.count})));
}

void composite_unflatten_dense_tensors(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *flat = arg_tensor(args, 0);
    tn_tensors like = arg_tensors(args, 1);
    tn_tensor **parts = tni_scope_tensors(s, like.count);
    for (int64_t i = 0, start = 0; parts && i < like.count; i++) {
        int64_t count = tn_tensor_numel(like.data[i]);
        parts[i] = tn_view(s, tni_narrow(s, flat, 0, start, count), sizes_of(like.data[i]));
        start += count;
    }
    give_list(outs, 0, (tn_tensors){parts, like.count});
}
