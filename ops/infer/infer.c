/* SPDX-License-Identifier: Apache-2.0 */
/* What shape rules share; see infer.h. */
#include "ops/infer/infer.h"

tn_ints tni_arg_ints(const tni_frame *f, uint32_t i)
{
    const tn_value *v = &f->args[i];
    if (v->tag == TN_TAG_INTS) return (tn_ints){v->as.ints, v->count};
    if (v->tag == TN_TAG_INT) return (tn_ints){&v->as.i, 1};
    return (tn_ints){NULL, 0};
}

tn_dtype tni_arg_dtype(const tni_frame *f, uint32_t i)
{
    return f->args[i].tag == TN_TAG_DTYPE ? (tn_dtype)f->args[i].as.i : 0;
}

const char *tni_arg_string(const tni_frame *f, uint32_t i)
{
    return f->args[i].tag == TN_TAG_STRING ? f->args[i].as.string : NULL;
}

int32_t tni_arg_spread(const tni_frame *f, uint32_t i, uint32_t count, const char *name, int64_t *out)
{
    const tni_argument *a = &f->op->base->schema->args[i];
    tn_ints list = tni_arg_ints(f, i);
    if (a->list_length > 1 && !a->spreads && list.count != (int64_t)count)
        return tni_fail(f, TN_E_ARGUMENT, "It is expected %s equals to %u, but got size %lld", name, count,
                        (long long)list.count);
    if (list.count != 1 && list.count != (int64_t)count)
        return tni_fail(f, TN_E_ARGUMENT,
                        count < 4 ? "%s must either be a single int, or a tuple of %s ints"
                                  : "%s must either be a single int, or a tuple of ints",
                        name, (const char *const[]){"no", "one", "two", "three"}[count < 4 ? count : 0]);
    for (uint32_t k = 0; k < count; k++) {
        out[k] = list.data[list.count == 1 ? 0 : k];
        if (out[k] > INT32_MAX || out[k] < -INT32_MAX) /* so that rules may multiply two of them */
            return tni_fail(f, TN_E_ARGUMENT, "%s is out of range (got %lld, expected at most %d)", name,
                            (long long)out[k], INT32_MAX);
    }
    return TN_OK;
}

const char *tni_sizes_text(const tn_tensor *t, tni_text *text)
{
    return tni_shape_text(t->desc.rank, t->desc.sizes, text->bytes, sizeof(text->bytes));
}

const char *tni_list_text(tn_ints list, tni_text *text)
{
    return tni_shape_text((uint32_t)list.count, list.data, text->bytes, sizeof(text->bytes));
}

int32_t tni_check_index(const tni_frame *f, const tn_tensor *index, int32_t int32_too)
{
    tn_dtype dtype = dtype_of(index);
    if (dtype == TN_INT64 || (int32_too && dtype == TN_INT32)) return TN_OK;
    return tni_fail(f, TN_E_DTYPE, "Expected dtype int64%s for index, but got %s",
                    int32_too ? " or int32" : "", tni_dtype_error_name(dtype));
}

/* The first dimension that both have with another size; the last one if there is none. */
static int64_t first_difference(const tn_tensor *t, int64_t rank, const int64_t *sizes)
{
    int64_t both = rank < rank_of(t) ? rank : rank_of(t), d = 0;
    while (d < both - 1 && sizes_of(t)[d] == sizes[d]) d++;
    return d;
}

int32_t tni_check_sizes(const tni_frame *f, uint32_t i, int64_t rank, const int64_t *sizes)
{
    const tn_tensor *t = tni_arg_tensor(f, i);
    if (!t || (rank_of(t) == rank && !memcmp(sizes_of(t), sizes, (size_t)rank * sizeof(int64_t))))
        return TN_OK;
    const char *name = f->op->base->schema->args[i].name;
    long long own = rank_of(t), wanted = rank, d = first_difference(t, rank, sizes);
    if (!own || !wanted)
        return tni_fail(f, TN_E_SHAPE,
                        "argument '%s': Expected a tensor of dimension %lld but got: dimension %lld", name,
                        wanted, own);
    return tni_fail(
        f, TN_E_SHAPE,
        "argument '%s': Expected a tensor of dimension %lld and tensor.size[%lld] == %lld but got: "
        "dimension %lld and tensor.size[%lld] = %lld",
        name, wanted, d, (long long)sizes[d], own, d, (long long)sizes_of(t)[d]);
}

int32_t tni_check_count(const tni_frame *f, uint32_t i, int64_t count)
{
    const tn_tensor *t = tni_arg_tensor(f, i);
    if (!t || t->numel == count) return TN_OK;
    return tni_fail(f, TN_E_SHAPE, "%s should contain %lld elements not %lld",
                    f->op->base->schema->args[i].name, (long long)count, (long long)t->numel);
}

int32_t tni_check_dtype_like(const tni_frame *f, uint32_t i, const tn_tensor *self)
{
    const tn_tensor *t = tni_arg_tensor(f, i);
    if (!t || dtype_of(t) == dtype_of(self)) return TN_OK;
    return tni_fail(f, TN_E_DTYPE, "expected dtype %s for `%s` but got dtype %s",
                    tni_dtype_error_name(dtype_of(self)), f->op->base->schema->args[i].name,
                    tni_dtype_error_name(dtype_of(t)));
}

int32_t tni_arg_wants(const tni_frame *f, uint32_t mask, uint32_t i)
{
    return f->args[mask].tag == TN_TAG_BOOLS && i < f->args[mask].count && f->args[mask].as.bools[i];
}

int32_t tni_check_apart(const tni_frame *f, const tn_tensor *self, const tn_tensor *input, int32_t same_too)
{
    int32_t overlap = !input ? TNI_OVERLAP_NONE : self == input ? TNI_OVERLAP_FULL : tni_overlap(self, input);
    if (overlap == TNI_OVERLAP_NONE || (same_too && overlap == TNI_OVERLAP_FULL)) return TN_OK;
    return tni_fail(f, TN_E_ARGUMENT, TNI_SHARED_MEMORY);
}

int32_t tni_check_sparse(const tni_frame *f, uint32_t i)
{
    if (!f->wants_grad || !tni_arg_bool(f, i)) return TN_OK;
    return tni_fail(f, TN_E_UNSUPPORTED, TNI_NO_SPARSE, f->op->base->schema->args[i].name);
}

int32_t tni_check_fits(const tni_frame *f, tn_value number, tn_dtype dtype)
{
    const char *name = tni_overflowing(number, dtype);
    return name ? tni_fail(f, TN_E_DTYPE, TNI_OVERFLOW, name) : TN_OK;
}

int32_t tni_check_scalars(const tni_frame *f, tn_dtype dtype)
{
    const tni_schema *s = f->op->base->schema;
    for (uint32_t i = 0; i < s->n_args; i++) {
        if (s->args[i].type == TNI_TYPE_SCALAR && !s->args[i].is_list && f->args[i].tag != TN_TAG_NONE)
            TNI_TRY(tni_check_fits(f, f->args[i], dtype));
    }
    return TN_OK;
}

int64_t tni_product(const int64_t *sizes, int64_t first, int64_t end)
{
    int64_t n = 1;
    for (int64_t i = first; i < end; i++) n *= sizes[i];
    return n;
}

/*
 * Whether the strides are channels-last, whatever the strides of dimensions of size 1: channels innermost,
 * then space, then the batch.
 */
static int32_t follows_channels_last(const tn_tensor *t)
{
    const int64_t *sizes = sizes_of(t), *strides = strides_of(t);
    int64_t rank = rank_of(t), least = 0;
    if (strides[1] == 0) return 0;
    for (int64_t k = 0; k < rank; k++) {
        int64_t d = k == 0          ? 1
                    : k == rank - 1 ? 0
                                    : rank - k; /* C, then space from its last dimension, then N */
        if (sizes[d] == 0 || strides[d] < least) return 0;
        /* sizes N, 1, 1, 1 count as row-major */
        if (d == 0 && least == strides[1]) return 0;
        least = strides[d];
        if (sizes[d] > 1) least *= sizes[d];
    }
    return 1;
}

int32_t tni_suggest_format(const tn_tensor *t)
{
    int64_t rank = rank_of(t);
    if (rank != 4 && rank != 5) return TN_CONTIGUOUS_FORMAT;
    if (!follows_channels_last(t)) return TN_CONTIGUOUS_FORMAT;
    return rank == 4 ? TN_CHANNELS_LAST : TN_CHANNELS_LAST_3D;
}

int32_t tni_out_channels(tni_frame *f, uint32_t i, const tn_tensor *input, tn_dtype dtype, int64_t rank,
                         const int64_t *sizes)
{
    int64_t strides[TN_MAX_RANK];
    int32_t format = tni_suggest_format(input);
    if (format == TN_CONTIGUOUS_FORMAT || rank != rank_of(input))
        return tni_out(f, i, dtype, (uint32_t)rank, sizes);
    TNI_TRY(tni_format_strides((uint32_t)rank, sizes, format, strides));
    return tni_out_strided(f, i, dtype, (uint32_t)rank, sizes, strides);
}

int32_t tni_out_gradient(tni_frame *f, uint32_t i, int32_t row_major)
{
    const tn_tensor *like = tni_arg_tensor(f, i);
    for (uint32_t k = 0; k < f->n_args && k < 32; k++) {
        const tn_tensor *t = tni_arg_tensor(f, k);
        if (t && is_integer(dtype_of(t))) f->keep_dtype |= TNI_KEEP(k);
    }
    if (row_major) return tni_out(f, 0, dtype_of(like), like->desc.rank, sizes_of(like));
    return tni_out_channels(f, 0, like, dtype_of(like), rank_of(like), sizes_of(like));
}

int64_t tni_space_of(const tni_frame *f)
{
    const char *name = f->op->base->name;
    for (const char *p = name + strlen(name) - 1; p > name; p--) {
        if (*p == 'd' && p[-1] >= '1' && p[-1] <= '3') return p[-1] - '0';
    }
    return 2;
}

void tni_sized_space(const tni_frame *f, const tn_tensor *self, uint32_t i, int64_t space, int64_t *sizes)
{
    tn_ints list = tni_arg_ints(f, i);
    memcpy(sizes, sizes_of(self), self->desc.rank * sizeof(int64_t));
    for (int64_t k = 0; k < space; k++) sizes[rank_of(self) - space + k] = list.data[list.count == 1 ? 0 : k];
}
