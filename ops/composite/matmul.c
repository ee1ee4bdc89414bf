/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: matmul and contractions of tensors of any rank. */
#include <string.h>
#include "ops/composite/contraction.h"

/* ---- matmul ---- */

/* [..., n, k] and [k] or [k, m]: the leading dimensions fold into the rows of one matrix. */
static tn_tensor *folded(tn_scope *s, tn_tensor *large, tn_tensor *small)
{
    int64_t rank = rank_of(large), inner = tni_sizes(large)[rank - 1];
    int64_t columns = rank_of(small) == 2 ? tni_sizes(small)[1] : 1;
    tn_ints size = {tni_sizes(large), rank - 1};
    tn_tensor *rows = tn_reshape(s, large, TN_INTS(numel_of(size), inner));
    if (rank_of(small) == 1) return tn_reshape(s, tn_mv(s, rows, small), size);
    return tn_reshape(s, tn_mm(s, rows, small), tni_sizes_insert(s, size, rank - 1, columns));
}

/* The right operand is the larger one: the transposed product, transposed back. */
static tn_tensor *folded_right(tn_scope *s, tn_tensor *small, tn_tensor *large)
{
    tn_tensor *out, *turned = tn_transpose(s, large, -2, -1);
    if (!turned) return NULL;
    if (rank_of(small) == 1) return folded(s, turned, small);
    small = tn_t(s, small);
    out = small ? folded(s, turned, small) : NULL;
    return tn_contiguous(s, tn_transpose(s, out, -2, -1));
}

static tn_ints batch_of(const tn_tensor *t)
{
    return (tn_ints){tni_sizes(t), rank_of(t) > 2 ? rank_of(t) - 2 : 0};
}

/* t broadcast over the batch, as [batch, rows, columns]. */
static tn_tensor *as_batch(tn_scope *s, tn_tensor *t, tn_ints batch, int64_t rows, int64_t columns)
{
    tn_ints size =
        tni_sizes_insert(s, tni_sizes_insert(s, batch, batch.count, rows), batch.count + 1, columns);
    if (tn_scope_failed(s)) return NULL;
    if (rank_of(t) == 1) t = tn_reshape(s, t, TN_INTS(rows, columns));
    return tn_reshape(s, tn_expand(s, t, size), TN_INTS(numel_of(batch), rows, columns));
}

static tn_tensor *batched(tn_scope *s, tn_tensor *a, tn_tensor *b)
{
    const int64_t *in_a = tni_sizes(a), *in_b = tni_sizes(b);
    int64_t ra = rank_of(a), rb = rank_of(b);
    int64_t n = ra > 1 ? in_a[ra - 2] : 1, k = in_a[ra - 1], rows = rb > 1 ? in_b[rb - 2] : in_b[0];
    int64_t m = rb > 1 ? in_b[rb - 1] : 1;
    tn_ints batch = tni_broadcast_sizes(s, batch_of(a), batch_of(b)), size = batch;
    tn_tensor *out = tn_bmm(s, as_batch(s, a, batch, n, k), as_batch(s, b, batch, rows, m));
    if (ra > 1) size = tni_sizes_insert(s, size, size.count, n);
    if (rb > 1) size = tni_sizes_insert(s, size, size.count, m);
    return tn_reshape(s, out, size);
}

static tn_tensor *matmul(tn_scope *s, tn_tensor *a, tn_tensor *b)
{
    int64_t ra = rank_of(a), rb = rank_of(b);
    if (ra == 0 || rb == 0) {
        tni_scope_failf(s, TN_E_SHAPE,
                        "both arguments to matmul need to be at least 1D, but they are %lldD and %lldD",
                        (long long)ra, (long long)rb);
        return NULL;
    }
    if (ra == 1 && rb == 1) return tn_dot(s, a, b);
    if (ra == 2 && rb == 1) return tn_mv(s, a, b);
    if (ra == 1 && rb == 2) return tn_squeeze_dim(s, tn_mm(s, tn_unsqueeze(s, a, 0), b), 0);
    if (ra == 2 && rb == 2) return tn_mm(s, a, b);
    if (rb <= 2) return folded(s, a, b);
    if (ra <= 2) return folded_right(s, a, b);
    return batched(s, a, b);
}

void composite_matmul(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, matmul(s, arg_tensor(args, 0), arg_tensor(args, 1)));
}

/* ---- sums of products over dimensions ---- */

/* The roles of the dimensions: in both operands and kept, in one only, summed. */
typedef struct product_plan {
    int64_t batch[TN_MAX_RANK], left[TN_MAX_RANK], right[TN_MAX_RANK], inner[TN_MAX_RANK];
    int64_t n_batch, n_left, n_right, n_inner;
} product_plan;

static void plan_product(product_plan *p, tn_ints a, tn_ints b, uint64_t dims)
{
    memset(p, 0, sizeof *p);
    for (int64_t d = 0; d < a.count; d++) {
        if (dims >> d & 1)
            p->inner[p->n_inner++] = d;
        else if (b.data[d] == 1)
            p->left[p->n_left++] = d;
        else if (a.data[d] == 1)
            p->right[p->n_right++] = d;
        else
            p->batch[p->n_batch++] = d;
    }
}

static int64_t product_of(tn_ints size, const int64_t *dims, int64_t count)
{
    int64_t n = 1;
    for (int64_t i = 0; i < count; i++) n *= size.data[dims[i]];
    return n;
}

/* t with its dimensions in the order of the three groups, folded to three; those of `absent` have size 1. */
static tn_tensor *as_groups(tn_scope *s, tn_tensor *t, const int64_t *const groups[4],
                            const int64_t counts[4])
{
    int64_t order[TN_MAX_RANK], n = 0;
    tn_ints size = sizes_of(t);
    for (int g = 0; g < 4; g++) {
        for (int64_t i = 0; i < counts[g]; i++) order[n++] = groups[g][i];
    }
    return tn_reshape(s, tn_permute(s, t, (tn_ints){order, n}),
                      TN_INTS(product_of(size, groups[0], counts[0]), product_of(size, groups[1], counts[1]),
                              product_of(size, groups[2], counts[2])));
}

/* From [batch, left, right] back to the dimensions in their order, with summed ones of size 1. */
static tn_tensor *from_groups(tn_scope *s, tn_tensor *t, const product_plan *p, tn_ints a, tn_ints b,
                              int32_t keep)
{
    int64_t sizes[TN_MAX_RANK], order[TN_MAX_RANK], kept[TN_MAX_RANK], n = 0, n_kept = 0;
    for (int64_t i = 0; i < p->n_batch; i++) order[p->batch[i]] = n, sizes[n++] = a.data[p->batch[i]];
    for (int64_t i = 0; i < p->n_left; i++) order[p->left[i]] = n, sizes[n++] = a.data[p->left[i]];
    for (int64_t i = 0; i < p->n_right; i++) order[p->right[i]] = n, sizes[n++] = b.data[p->right[i]];
    for (int64_t i = 0; i < p->n_inner; i++) order[p->inner[i]] = n, sizes[n++] = 1;
    t = tn_permute(s, tn_reshape(s, t, (tn_ints){sizes, n}), (tn_ints){order, n});
    if (keep || !p->n_inner) return t;
    for (int64_t d = 0; d < n; d++) {
        int64_t i = 0;
        while (i < p->n_inner && p->inner[i] != d) i++;
        if (i == p->n_inner) kept[n_kept++] = sizes[order[d]];
    }
    return tn_reshape(s, t, (tn_ints){kept, n_kept});
}

/* The sum along a dimension with keepdim, in the dtype of t: integers stay narrow. */
static tn_tensor *sum_as_is(tn_scope *s, tn_tensor *t, int64_t dim)
{
    return tn_sum_dim(s, t, TN_INTS(dim), .keepdim = 1, .dtype = dtype_of(t));
}

tn_tensor *tni_product_summed(tn_scope *s, tn_tensor *a, tn_tensor *b, uint64_t dims, int32_t keep)
{
    product_plan p;
    uint64_t only_a = 0, only_b = 0;
    if (tn_scope_failed(s) || !a || !b) return NULL;
    for (int64_t d = 0; d < rank_of(a); d++) {
        int64_t x = tni_sizes(a)[d], y = tni_sizes(b)[d];
        if (!(dims >> d & 1) || x == y) continue;
        if (y == 1) only_a |= UINT64_C(1) << d;
        if (x == 1) only_b |= UINT64_C(1) << d;
    }
    for (int64_t d = 0; d < rank_of(a) && a && b; d++) { /* dimensions of one operand only are summed there */
        if (only_a >> d & 1) a = sum_as_is(s, a, d);
        if (only_b >> d & 1) b = sum_as_is(s, b, d);
        if (!a || !b) return NULL;
    }
    plan_product(&p, sizes_of(a), sizes_of(b), dims);
    const int64_t *const in_a[] = {p.batch, p.left, p.inner, p.right};
    const int64_t *const in_b[] = {p.batch, p.inner, p.right, p.left};
    const int64_t counts_a[] = {p.n_batch, p.n_left, p.n_inner, p.n_right};
    const int64_t counts_b[] = {p.n_batch, p.n_inner, p.n_right, p.n_left};
    tn_tensor *out = tn_bmm(s, as_groups(s, a, in_a, counts_a), as_groups(s, b, in_b, counts_b));
    return out ? from_groups(s, out, &p, sizes_of(a), sizes_of(b), keep) : NULL;
}

/* The mask of a list of dims in which none may stand twice; 0 if the list is empty. */
static uint64_t bits_of(tn_scope *s, tn_ints dims, int64_t rank)
{
    return dims.count ? tni_dims(s, dims, rank) : 0;
}

/* t with a dimension of size 1 inserted at each dim of a mask. */
static tn_tensor *unsqueezed(tn_scope *s, tn_tensor *t, uint64_t dims)
{
    for (int64_t d = 0; d < TN_MAX_RANK; d++) {
        if (dims >> d & 1) t = tn_unsqueeze(s, t, d);
    }
    return t;
}

/* The sum over sumdim of i1 * i2 * i3; first over the dimensions that i3 does not have. */
void composite_trilinear(tn_scope *s, const tn_value *args, tn_value *outs)
{
    int64_t own = rank_of(arg_tensor(args, 0)) + arg_ints(args, 3).count, gone[TN_MAX_RANK], n = 0;
    int64_t rank = own < TN_MAX_RANK ? own : TN_MAX_RANK;
    uint64_t sums, absent[3];
    tn_tensor *of[3], *out;
    for (uint32_t i = 0; i < 3; i++) {
        own = rank_of(arg_tensor(args, i)) + arg_ints(args, 3 + i).count;
        if (own != rank)
            return (void)tni_scope_failf(s, TN_E_SHAPE,
                                         "_trilinear: argument 'i%u': wrong rank with the dimensions of "
                                         "'expand%u' (got %lld, expected %lld)",
                                         i + 1, i + 1, (long long)own, (long long)rank);
        absent[i] = bits_of(s, arg_ints(args, 3 + i), rank);
        of[i] = unsqueezed(s, arg_tensor(args, i), absent[i]);
    }
    sums = bits_of(s, arg_ints(args, 6), rank);
    out = tni_product_summed(s, of[0], of[1], sums & absent[2], 1);
    out = tni_product_summed(s, out, of[2], sums & ~absent[2], 1);
    for (int64_t d = 0; d < TN_MAX_RANK; d++) {
        if (sums >> d & 1) gone[n++] = d;
    }
    give(outs, 0, out && n ? tn_squeeze_dims(s, out, (tn_ints){gone, n}) : out);
}

static int32_t check_bilinear(tn_scope *s, const tn_tensor *a, const tn_tensor *b, const tn_tensor *weight,
                              const tn_tensor *bias)
{
    int64_t rank = rank_of(a);
    if (rank != rank_of(b))
        return tni_scope_failf(s, TN_E_SHAPE, "bilinear(): input dimensions do not match: got %lld and %lld",
                               (long long)rank, (long long)rank_of(b));
    if (!rank)
        return tn_scope_fail(
            s, TN_E_SHAPE, "bilinear(): the inputs must have at least 1 dimension (got tensors without any)");
    if (rank_of(weight) != 3)
        return tni_scope_failf(
            s, TN_E_SHAPE, "bilinear(): the weight must have 3 dimensions (got a tensor of %lld dimension%s)",
            (long long)rank_of(weight), rank_of(weight) == 1 ? "" : "s");
    for (int64_t i = 0; i < rank - 1; i++) {
        if (tni_sizes(a)[i] != tni_sizes(b)[i])
            return tni_scope_failf(
                s, TN_E_SHAPE,
                "bilinear(): input batch dimensions do not match at dim %lld: got %lld and %lld",
                (long long)i, (long long)tni_sizes(a)[i], (long long)tni_sizes(b)[i]);
    }
    for (int64_t i = 1; i < 3; i++) {
        int64_t size = tni_sizes(i == 1 ? a : b)[rank - 1];
        if (size != tni_sizes(weight)[i])
            return tni_scope_failf(
                s, TN_E_SHAPE,
                "bilinear(): input%lld size does not match weight size: got %lld but expected %lld",
                (long long)i, (long long)size, (long long)tni_sizes(weight)[i]);
    }
    if (bias && dtype_of(bias) != dtype_of(weight))
        return tni_scope_failf(s, TN_E_DTYPE,
                               "bilinear(): all tensors must have the same dtype, got weight: %s, bias: %s",
                               tni_dtype_error_name(dtype_of(weight)), tni_dtype_error_name(dtype_of(bias)));
    if (bias && !rank_of(bias))
        return tn_scope_fail(s, TN_E_SHAPE,
                             "bilinear(): the bias must have 1 dimension (got a tensor without any)");
    if (bias && tni_sizes(bias)[0] != tni_sizes(weight)[0])
        return tni_scope_failf(s, TN_E_SHAPE,
                               "bilinear(): bias size does not match weight size: got %lld but expected %lld",
                               (long long)tni_sizes(bias)[0], (long long)tni_sizes(weight)[0]);
    return TN_OK;
}

void composite_bilinear(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1), *weight = arg_tensor(args, 2), *out;
    tn_tensor *bias = arg_tensor(args, 3);
    tn_ints size = sizes_of(a);
    int64_t rows;
    if (check_bilinear(s, a, b, weight, bias)) return;
    rows = numel_of((tn_ints){size.data, size.count - 1});
    a = tn_reshape(s, a, TN_INTS(rows, size.data[size.count - 1]));
    b = tn_reshape(s, b, TN_INTS(rows, tni_sizes(b)[size.count - 1]));
    out = tn__trilinear(s, a, weight, b, TN_INTS(1, 3), TN_INTS(0), TN_INTS(1, 2), TN_INTS(2, 3));
    out = tn_reshape(s, out, tni_sizes_with(s, size, size.count - 1, tni_sizes(weight)[0]));
    give(outs, 0, bias ? tn_add(s, out, bias) : out);
}

/* ---- tensordot ---- */

/* The dims that are not in a list, then those of the list; `front`: those of the list first. */
static tn_ints order_of(tn_scope *s, int64_t rank, tn_ints dims, int32_t front)
{
    int64_t *to = tni_scope_ints(s, rank), n = 0;
    uint64_t bits = bits_of(s, dims, rank);
    if (!to || tn_scope_failed(s)) return (tn_ints){NULL, 0};
    for (int64_t i = 0; front && i < dims.count; i++) to[n++] = dims.data[i];
    for (int64_t d = 0; d < rank; d++) {
        if (!(bits >> d & 1)) to[n++] = d;
    }
    for (int64_t i = 0; !front && i < dims.count; i++) to[n++] = dims.data[i];
    return (tn_ints){to, n};
}

/* Fails if a dim stands twice. */
static tn_ints wrapped(tn_scope *s, tn_ints dims, int64_t rank)
{
    int64_t *to = tni_scope_ints_copy(s, dims);
    bits_of(s, dims, rank);
    for (int64_t i = 0; to && i < dims.count; i++) to[i] = tni_dim(s, dims.data[i], rank);
    return (tn_ints){to, to ? dims.count : 0};
}

/* Contracted dims of size 1 broadcast: the other operand is summed over them. */
static int32_t match_contracted(tn_scope *s, tn_tensor **a, tn_tensor **b, tn_ints in_a, tn_ints in_b)
{
    for (int64_t i = 0; i < in_a.count; i++) {
        int64_t x = tni_sizes(*a)[in_a.data[i]], y = tni_sizes(*b)[in_b.data[i]];
        if (x != y && x != 1 && y != 1)
            return tni_scope_failf(
                s, TN_E_SHAPE,
                "contracted dimensions need to match, but first has size %lld in dim %lld and "
                "second has size %lld in dim %lld",
                (long long)x, (long long)in_a.data[i], (long long)y, (long long)in_b.data[i]);
        if (x != y && y == 1) *a = sum_as_is(s, *a, in_a.data[i]);
        if (x != y && x == 1) *b = sum_as_is(s, *b, in_b.data[i]);
        if (!*a || !*b) return TN_E_INTERNAL;
    }
    return TN_OK;
}

void composite_tensordot(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1);
    tn_ints in_a = arg_ints(args, 2), in_b = arg_ints(args, 3), order_a, order_b, size_a, size_b;
    int64_t inner = 1, rows = 1, columns = 1, n = 0, *size = tni_scope_ints(s, rank_of(a) + rank_of(b));
    if (in_a.count != in_b.count) {
        tn_scope_fail(s, TN_E_ARGUMENT, "both dimension lists should have same length");
        return;
    }
    in_a = wrapped(s, in_a, rank_of(a));
    in_b = wrapped(s, in_b, rank_of(b));
    if (tn_scope_failed(s) || match_contracted(s, &a, &b, in_a, in_b)) return;
    order_a = order_of(s, rank_of(a), in_a, 0);
    order_b = order_of(s, rank_of(b), in_b, 1);
    if (tn_scope_failed(s)) return;
    size_a = sizes_of(a), size_b = sizes_of(b);
    for (int64_t i = 0; i < in_a.count; i++) inner *= size_a.data[in_a.data[i]];
    for (int64_t i = 0; i < size_a.count - in_a.count; i++) rows *= size[n++] = size_a.data[order_a.data[i]];
    for (int64_t i = in_b.count; i < size_b.count; i++) columns *= size[n++] = size_b.data[order_b.data[i]];
    a = tn_reshape(s, tn_permute(s, a, order_a), TN_INTS(rows, inner));
    b = tn_reshape(s, tn_permute(s, b, order_b), TN_INTS(inner, columns));
    give(outs, 0, tn_reshape(s, tn_mm(s, a, b), (tn_ints){size, n}));
}

void composite_int_mm(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *a = arg_tensor(args, 0), *b = arg_tensor(args, 1);
    if (dtype_of(a) != TN_INT8 || dtype_of(b) != TN_INT8)
        return (void)tni_scope_failf(s, TN_E_DTYPE, "_int_mm: expected two matrices of int8 (got %s and %s)",
                                     tni_dtype_error_name(dtype_of(a)), tni_dtype_error_name(dtype_of(b)));
    give(outs, 0, tn_mm(s, tni_cast(s, a, TN_INT32), tni_cast(s, b, TN_INT32)));
}

/* ---- products in another dtype: half types are widened before, so sums are not rounded to them ---- */

static tn_tensor *in_dtype(tn_scope *s, const tn_value *args, uint32_t i, uint32_t dtype)
{
    tn_tensor *t = arg_tensor(args, i);
    tn_dtype to = arg_dtype(args, dtype);
    int32_t is_half = dtype_of(t) == TN_FLOAT16 || dtype_of(t) == TN_BFLOAT16;
    if (to == dtype_of(t) || (is_half && to == TN_FLOAT32)) return tni_cast(s, t, to);
    return tn_scope_fail(s, TN_E_DTYPE,
                         "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs"),
           NULL;
}

void composite_mm_dtype(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_mm(s, in_dtype(s, args, 0, 2), in_dtype(s, args, 1, 2)));
}

void composite_bmm_dtype(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, tn_bmm(s, in_dtype(s, args, 0, 2), in_dtype(s, args, 1, 2)));
}

/* (self, mat1, mat2, out_dtype, beta, alpha); self may have the dtype of the result. */
void composite_addmm_dtype(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = tni_cast(s, arg_tensor(args, 0), arg_dtype(args, 3));
    give(outs, 0,
         tn_addmm(s, self, in_dtype(s, args, 1, 3), in_dtype(s, args, 2, 3), .beta = args[4],
                  .alpha = args[5]));
}

void composite_baddbmm_dtype(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = tni_cast(s, arg_tensor(args, 0), arg_dtype(args, 3));
    give(outs, 0,
         tn_baddbmm(s, self, in_dtype(s, args, 1, 3), in_dtype(s, args, 2, 3), .beta = args[4],
                    .alpha = args[5]));
}
