/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather, scatter and its reductions, index_select, index_add, index_copy, index_reduce, index and
 * index_put. Indices are checked before anything is written.
 */
#include "copy/copy.h"
#include "kernel_lists.h"
#include "index_walk.h"
#include "support/kernel_table.h"

#include <math.h>
#include <string.h>

/* ---- Indices --------------------------------------------------------------------------------------- */

/* The tensor that in-place rows write to. */
static const tn_tensor_desc *written(const tn_call *call)
{
    return tensor_out(call, 0);
}

/* Whether the tensor is contiguous int64 and all its elements are in [low, size). */
static bool all_inside(const tn_tensor_desc *index, int64_t n, int64_t low, int64_t size)
{
    int64_t expected = tn_dtype_bytes(index->dtype);
    for (uint32_t k = index->rank; k-- > 0;) {
        if (index->sizes[k] != 1 && cpu_stride(index, k) != expected) return false;
        expected *= index->sizes[k];
    }
    return cpu_indices_inside(index->host, n, low, size);
}

/* Finds an element outside [low, size) and sets *out_bad to whether there is one. Of an expanded dimension
 * only one position is read. */
static int64_t find_outside(const tn_tensor_desc *index, int64_t low, int64_t size, int32_t *out_bad)
{
    int64_t n = 1, position[TN_MAX_RANK] = {0}, sizes[TN_MAX_RANK];
    bool wide = index->dtype == TN_INT64;
    tn_tensor_desc seen = *index;
    const char *p = index->host;
    seen.sizes = sizes;
    for (uint32_t k = 0; k < index->rank; k++) {
        sizes[k] = index->strides[k] == 0 && index->sizes[k] > 1 ? 1 : index->sizes[k];
        n *= sizes[k];
    }
    *out_bad = 0;
    if (wide && all_inside(&seen, n, low, size)) return 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t x = cpu_index_at(p, wide);
        if (x < low || x >= size) {
            *out_bad = 1;
            return x;
        }
        for (uint32_t k = index->rank; k-- > 0;) {
            int64_t stride = cpu_stride(index, k);
            p += stride;
            if (++position[k] < sizes[k]) break;
            p -= position[k] * stride;
            position[k] = 0;
        }
    }
    return 0;
}

static int32_t check_indices(const tn_call *call, const tn_tensor_desc *index, int64_t dim, int64_t size)
{
    int32_t bad;
    int64_t x = find_outside(index, 0, size, &bad);
    if (!bad) return TN_OK;
    return cpu_error(call, TN_E_INDEX, "index %lld is out of bounds for dimension %lld with size %lld",
                     (long long)x, (long long)dim, (long long)size);
}

/* The offsets of a list of indices along one dimension. */
static int32_t list_offsets(const tn_call *call, const tn_tensor_desc *index, const tn_tensor_desc *self,
                            int64_t dim, cpu_walk *w)
{
    int32_t bad;
    const int64_t x = find_outside(index, 0, cpu_size(self, dim), &bad);
    if (bad)
        return cpu_error(call, TN_E_INDEX,
                         "index out of range in self: got %lld, dimension %lld has size %lld", (long long)x,
                         (long long)dim, (long long)cpu_size(self, dim));
    w->count = cpu_numel(index);
    int64_t *offsets = cpu_scratch(call, (uint64_t)w->count * 8);
    if (!offsets) return TN_E_OUT_OF_MEMORY;
    int64_t step = index->rank ? cpu_stride(index, 0) : 0, stride = cpu_stride(self, dim);
    const char *at = index->host;
    if (index->dtype == TN_INT64)
        for (int64_t i = 0; i < w->count; i++) offsets[i] = cpu_index_at(at + i * step, 1) * stride;
    else
        for (int64_t i = 0; i < w->count; i++) offsets[i] = cpu_index_at(at + i * step, 0) * stride;
    w->chosen = offsets;
    return TN_OK;
}

/* ---- Reductions into self -------------------------------------------------------------------------- */

typedef cpu_combine_fn cpu_combine_list[CPU_COMBINE_COUNT];
CPU_KERNEL_TABLE(static cpu_kernel_table combine_table, CPU_COMBINE_LISTS, cpu_combine_list);

static const cpu_combine_fn *combine_list(int32_t slot)
{
    return slot < 0 ? NULL : cpu_kernels_at(combine_table, slot);
}

typedef struct combination {
    cpu_combine_fn fn;
    double alpha, alpha_imaginary;
    int64_t alpha_int;
} combination;

static void combine_row(void *user, const cpu_row *row)
{
    const combination *c = user;
    c->fn(row, c->alpha, c->alpha_imaginary, c->alpha_int);
}

/* For bool, add is or and multiply is and: the maximum and minimum of bytes. */
static cpu_combine_fn find_combine(tn_dtype dtype, int32_t op)
{
    if (dtype == TN_BOOL)
        return combine_list(CPU_U8)[op == CPU_COMBINE_ADD        ? CPU_COMBINE_MAX
                                    : op == CPU_COMBINE_MULTIPLY ? CPU_COMBINE_MIN
                                                                 : op];
    const cpu_combine_fn *list = combine_list(cpu_slot(dtype));
    return list ? list[op] : NULL;
}

/* The combination that a `reduce` string names, or -1; *out_mean is whether sums are divided by their
 * counts. */
static int32_t reduction_of(const char *word, int32_t *out_mean)
{
    *out_mean = strcmp(word, "mean") == 0;
    if (*out_mean || strcmp(word, "sum") == 0 || strcmp(word, "add") == 0) return CPU_COMBINE_ADD;
    if (strcmp(word, "prod") == 0 || strcmp(word, "multiply") == 0) return CPU_COMBINE_MULTIPLY;
    if (strcmp(word, "amax") == 0) return CPU_COMBINE_MAX;
    if (strcmp(word, "amin") == 0) return CPU_COMBINE_MIN;
    return -1;
}

/* The neutral element of a reduction, in a dtype. */
static void identity_of(int32_t op, tn_dtype dtype, void *out)
{
    int32_t slot = cpu_slot(dtype);
    int64_t bits = TN_DTYPE_BITS(dtype), is_signed = TN_DTYPE_CODE(dtype) == TN_CODE_INT;
    double infinity = op == CPU_COMBINE_MAX ? -INFINITY : INFINITY;
    int64_t highest = dtype == TN_BOOL ? 1 : (int64_t)(UINT64_MAX >> (64 - bits + is_signed));
    int64_t whole = op == CPU_COMBINE_MULTIPLY ? 1
                    : op == CPU_COMBINE_ADD    ? 0
                    : op == CPU_COMBINE_MIN    ? highest
                    : is_signed                ? -highest - 1
                                               : 0;
    if (cpu_slot_is_float(slot) && (op == CPU_COMBINE_MAX || op == CPU_COMBINE_MIN))
        cpu_convert(out, slot, &infinity, CPU_F64, 1);
    else
        cpu_convert(out, slot, &whole, CPU_I64, 1);
}

/* Writes one element to all positions that a walk chooses. */
static void put_everywhere(const tn_call *call, const cpu_walk *w, void *element, int64_t bytes)
{
    cpu_walk put = *w;
    put.other = element;
    put.other_step = 0;
    put.places = NULL;
    memset(put.other_strides, 0, sizeof put.other_strides);
    put.fn = cpu_put_fn(bytes);
    cpu_walk_run(call, &put);
}

static void divide_by_counts(const tn_tensor_desc *self, const char *counts, int64_t count_bytes)
{
    /* `counts` is contiguous and has the shape of self. */
    int64_t n = cpu_numel(self), position[TN_MAX_RANK] = {0};
    int32_t slot = cpu_slot(self->dtype);
    char *p = self->host;
    bool whole = cpu_slot_is_integer(slot);
    for (int64_t i = 0; i < n; i++) {
        int64_t count = *(const int64_t *)(const void *)(counts + i * count_bytes);
        if (count > 1 && whole) {
            int64_t x;
            cpu_convert(&x, CPU_I64, p, slot, 1);
            x = x / count - (x % count < 0);
            cpu_convert(p, slot, &x, CPU_I64, 1);
        } else if (count > 1) {
            double x[2];
            cpu_convert(x, CPU_C128, p, slot, 1);
            x[0] /= (double)count;
            x[1] /= (double)count;
            cpu_convert(p, slot, x, CPU_C128, 1);
        }
        for (uint32_t k = self->rank; k-- > 0;) {
            int64_t stride = cpu_stride(self, k);
            p += stride;
            if (++position[k] < self->sizes[k]) break;
            p -= position[k] * stride;
            position[k] = 0;
        }
    }
}

/* A contiguous tensor in scratch memory with the sizes of t. Returns its memory, NULL for lack of it. */
static void *make_like(const tn_call *call, const tn_tensor_desc *t, tn_dtype dtype, tn_tensor_desc *out)
{
    int64_t *strides = cpu_scratch(call, (uint64_t)(t->rank + 1) * sizeof *strides), step = 1;
    *out = *t;
    out->flags = 0;
    out->dtype = dtype;
    out->strides = strides;
    out->host = cpu_scratch(call, (uint64_t)(cpu_numel(t) * tn_dtype_bytes(dtype)));
    for (uint32_t k = t->rank; strides && k-- > 0;) {
        strides[k] = step;
        step *= t->sizes[k];
    }
    return strides ? out->host : NULL;
}

/* Divides by the number of elements combined at each position of self, which the same walk over a
 * contiguous tensor of counts gives. */
static int32_t mean_of(const tn_call *call, const cpu_walk *w, const tn_tensor_desc *self,
                       const tn_tensor_desc *shape, int64_t dim, const tn_tensor_desc *index, int32_t by_list,
                       int32_t include_self)
{
    int64_t n = cpu_numel(self), one = 1, *chosen = NULL;
    tn_tensor_desc as_counts;
    int64_t *counts = make_like(call, self, TN_INT64, &as_counts);
    if (!counts) return TN_E_OUT_OF_MEMORY;
    for (int64_t i = 0; i < n; i++) counts[i] = include_self ? 1 : 0;
    cpu_walk count = *w;
    combination add = {combine_list(CPU_I64)[CPU_COMBINE_ADD], 1, 0, 1};
    cpu_walk_lines(&count, shape, dim, &as_counts, NULL, by_list ? NULL : index);
    count.self = (char *)counts;
    count.other = (char *)&one;
    count.other_step = 0;
    count.index_scale = cpu_stride(&as_counts, dim);
    count.fn = combine_row;
    count.user = &add;
    if (by_list) {
        int64_t from = cpu_stride(self, dim), to = cpu_stride(&as_counts, dim);
        chosen = cpu_scratch(call, (uint64_t)w->count * 8);
        if (!chosen) return TN_E_OUT_OF_MEMORY;
        for (int64_t i = 0; i < w->count; i++) chosen[i] = from ? w->chosen[i] / from * to : 0;
        count.chosen = chosen;
    }
    cpu_walk_run(call, &count);
    divide_by_counts(self, (const char *)counts, 8);
    return TN_OK;
}

/* ---- Along one dimension, an index for each element ------------------------------------------------ */

static void set_index(cpu_walk *w, const tn_tensor_desc *index, const tn_tensor_desc *self,
                      const tn_tensor_desc *other, int64_t dim)
{
    cpu_walk_lines(w, index, dim, self, other, index);
    w->self = self->host;
    w->other = other ? other->host : NULL;
    w->count = cpu_size(index, dim);
    w->other_step = other ? cpu_stride(other, dim) : 0;
    w->index = index->host;
    w->index_step = cpu_stride(index, dim);
    w->index_wide = index->dtype == TN_INT64;
    w->index_scale = cpu_stride(self, dim);
}

/* aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor */
static int32_t gather(void *state, const tn_call *call)
{
    const tn_tensor_desc *self = tensor_arg(call, 0), *index = tensor_arg(call, 2),
                         *out = tensor_out(call, 0);
    int64_t dim = cpu_dim(self, int_arg(call, 1));
    cpu_walk w = {.fn = cpu_take_fn(tn_dtype_bytes(self->dtype))};
    if (cpu_numel(index) == 0) return TN_OK;
    int32_t status = check_indices(call, index, dim, cpu_size(self, dim));
    if (status != TN_OK) return status;
    set_index(&w, index, self, out, dim);
    cpu_walk_run(call, &w);
    return TN_OK;
}

/* Converts a Scalar argument to one element. */
static void element_of(tn_value v, tn_dtype dtype, void *out)
{
    int32_t slot = cpu_slot(dtype);
    if (v.tag == TN_TAG_COMPLEX)
        cpu_convert(out, slot, v.as.floats, CPU_C128, 1);
    else if (v.tag == TN_TAG_FLOAT)
        cpu_convert(out, slot, &v.as.f, CPU_F64, 1);
    else
        cpu_convert(out, slot, &v.as.i, CPU_I64, 1);
}

/* Overwrites where `word` is NULL; without `src` argument 3 is a number. */
static int32_t scatter_into(const tn_call *call, const tn_tensor_desc *self, const tn_tensor_desc *src,
                            const char *word, int32_t include_self)
{
    const tn_tensor_desc *index = tensor_arg(call, 2);
    int64_t dim = cpu_dim(self, int_arg(call, 1)), bytes = tn_dtype_bytes(self->dtype);
    char element[16];
    int32_t mean = 0, op = word ? reduction_of(word, &mean) : 0;
    combination c = {.alpha = 1, .alpha_int = 1};
    cpu_walk w = {.shared = 1, .user = &c};
    if (cpu_numel(index) == 0) return TN_OK;
    if (op < 0)
        return cpu_error(call, TN_E_ARGUMENT,
                         "reduce argument must be either sum, prod, mean, amax or amin, got %s", word);
    c.fn = word ? find_combine(self->dtype, op) : NULL;
    if (word && !c.fn)
        return cpu_error(call, TN_E_UNSUPPORTED,
                         "argument 'reduce': the dtype does not support this reduction");
    int32_t status = check_indices(call, index, dim, cpu_size(self, dim));
    if (status != TN_OK) return status;
    set_index(&w, index, self, src, dim);
    if (!src) {
        element_of(call->args[3], self->dtype, element);
        w.other = element;
    }
    if (word && !include_self) {
        char identity[16];
        identity_of(op, self->dtype, identity);
        put_everywhere(call, &w, identity, bytes);
    }
    w.fn = word ? combine_row : cpu_put_fn(bytes);
    cpu_walk_run(call, &w);
    return mean ? mean_of(call, &w, self, index, dim, index, 0, include_self) : TN_OK;
}

/* Sums and products of half types are taken in float32 and rounded once, as in ATen. */
static int32_t scatter_any(const tn_call *call, const char *word, int32_t include_self)
{
    const tn_tensor_desc *self = written(call), *src = tensor_arg(call, 3);
    int32_t mean, op = word ? reduction_of(word, &mean) : -1;
    tn_tensor_desc result, terms;
    if (!cpu_slot_is_half(cpu_slot(self->dtype)) || (op != CPU_COMBINE_ADD && op != CPU_COMBINE_MULTIPLY))
        return scatter_into(call, self, src, word, include_self);
    if (!make_like(call, self, TN_FLOAT32, &result) || (src && !make_like(call, src, TN_FLOAT32, &terms)))
        return TN_E_OUT_OF_MEMORY;
    int32_t status = cpu_copy_tensor(call, &result, self);
    if (!status && src) status = cpu_copy_tensor(call, &terms, src);
    if (!status) status = scatter_into(call, &result, src ? &terms : NULL, word, include_self);
    return status ? status : cpu_copy_tensor(call, self, &result);
}

/* aten::scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src) and .value */
static int32_t scatter(void *state, const tn_call *call)
{
    return scatter_any(call, NULL, 1);
}
/* aten::scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) */
static int32_t scatter_add(void *state, const tn_call *call)
{
    return scatter_any(call, "sum", 1);
}
/* aten::scatter_.reduce(..., *, str reduce), .value_reduce, scatter_reduce_.two(..., str reduce, *, bool
 * include_self) */
static int32_t scatter_reduce(void *state, const tn_call *call)
{
    return scatter_any(call, call->args[4].as.string, call->n_args > 5 ? bool_arg(call, 5) : 1);
}

/* ---- Along one dimension, one index for each slice ------------------------------------------------- */

static void set_list(cpu_walk *w, const tn_tensor_desc *shape, const tn_tensor_desc *self,
                     const tn_tensor_desc *other, int64_t dim)
{
    cpu_walk_lines(w, shape, dim, self, other, NULL);
    w->self = self->host;
    w->other = other->host;
    w->other_step = cpu_stride(other, dim);
}

/* aten::index_select(Tensor self, int dim, Tensor index) -> Tensor */
static int32_t index_select(void *state, const tn_call *call)
{
    const tn_tensor_desc *self = tensor_arg(call, 0), *index = tensor_arg(call, 2),
                         *out = tensor_out(call, 0);
    int64_t dim = cpu_dim(self, int_arg(call, 1));
    cpu_walk w = {0};
    int32_t status = list_offsets(call, index, self, dim, &w);
    if (status != TN_OK) return status;
    set_list(&w, out, self, out, dim);
    w.fn = cpu_take_fn(cpu_walk_widen(&w, tn_dtype_bytes(self->dtype)));
    cpu_walk_run(call, &w);
    return TN_OK;
}

static int32_t index_write(const tn_call *call, int32_t op, tn_value alpha, int32_t mean,
                           int32_t include_self)
{
    const tn_tensor_desc *self = written(call), *index = tensor_arg(call, 2), *source = tensor_arg(call, 3);
    int64_t dim = cpu_dim(self, int_arg(call, 1)), bytes = tn_dtype_bytes(self->dtype);
    combination c = {.alpha = tn_value_as_float(alpha),
                     .alpha_imaginary = alpha.tag == TN_TAG_COMPLEX ? alpha.as.floats[1] : 0,
                     .alpha_int = tn_value_as_int(alpha)};
    cpu_walk w = {.shared = 1, .user = &c};
    if (cpu_numel(source) == 0) return TN_OK;
    int32_t status = list_offsets(call, index, self, dim, &w);
    if (status != TN_OK) return status;
    c.fn = op >= 0 ? find_combine(self->dtype, op) : NULL;
    if (op >= 0 && !c.fn)
        return cpu_error(call, TN_E_UNSUPPORTED,
                         "argument 'reduce': the dtype does not support this reduction");
    set_list(&w, source->rank ? source : self, self, source, dim);
    if (!include_self) {
        char identity[16];
        identity_of(op, self->dtype, identity);
        put_everywhere(call, &w, identity, bytes);
    }
    w.fn = op >= 0 ? combine_row : cpu_put_fn(cpu_walk_widen(&w, bytes));
    cpu_walk_run(call, &w);
    return mean ? mean_of(call, &w, self, source->rank ? source : self, dim, index, 1, include_self) : TN_OK;
}

/* aten::index_add_(Tensor(a!) self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) */
static int32_t index_add(void *state, const tn_call *call)
{
    return index_write(call, CPU_COMBINE_ADD, call->args[4], 0, 1);
}
/* aten::index_copy_(Tensor(a!) self, int dim, Tensor index, Tensor source) */
static int32_t index_copy(void *state, const tn_call *call)
{
    return index_write(call, -1, tn_value_int(1), 0, 1);
}
/* aten::index_reduce_(Tensor(a!) self, int dim, Tensor index, Tensor source, str reduce, *, bool
 * include_self=True) */
static int32_t index_reduce(void *state, const tn_call *call)
{
    int32_t mean, op = reduction_of(call->args[4].as.string, &mean);
    if (op < 0)
        return cpu_error(call, TN_E_ARGUMENT,
                         "reduce argument must be either prod, mean, amax or amin, got %s.",
                         call->args[4].as.string);
    return index_write(call, op, tn_value_int(1), mean, bool_arg(call, 5));
}

/* ---- Lists of index tensors ------------------------------------------------------------------------ */

/* The broadcast shape of the index tensors and its place in the result. */
typedef struct index_shape {
    uint32_t rank;
    int64_t sizes[TN_MAX_RANK];
    int64_t at;      /* the dimension of the result where that shape begins */
    int64_t indexed; /* bit d: dimension d of self is indexed */
} index_shape;

static void join_shape(index_shape *s, const tn_tensor_desc *t)
{
    if (t->rank > s->rank) {
        uint32_t more = t->rank - s->rank;
        memmove(s->sizes + more, s->sizes, s->rank * sizeof s->sizes[0]);
        for (uint32_t d = 0; d < more; d++) s->sizes[d] = 1;
        s->rank = t->rank;
    }
    for (uint32_t d = 0; d < t->rank; d++)
        if (t->sizes[d] != 1) s->sizes[s->rank - t->rank + d] = t->sizes[d];
}

static void shape_of_indices(tn_tensors list, index_shape *s)
{
    int64_t first = -1, last = -1, n = 0;
    memset(s, 0, sizeof *s);
    for (int64_t k = 0; k < list.count; k++) {
        if (!list.data[k]) continue;
        join_shape(s, tn_desc(list.data[k]));
        s->indexed |= INT64_C(1) << k;
        first = first < 0 ? k : first;
        last = k;
        n++;
    }
    /* The index shape takes the place of adjacent indexed dimensions; otherwise it comes first. */
    s->at = last - first + 1 == n ? first : 0;
}

static int64_t broadcast_index_stride(const tn_tensor_desc *t, const index_shape *s, uint32_t d)
{
    int64_t own = (int64_t)d - (int64_t)(s->rank - t->rank);
    return own < 0 || t->sizes[own] == 1 ? 0 : cpu_stride(t, own);
}

/* Adds the offsets in self that the index tensor of dimension k gives to all positions of the index shape. */
static int32_t add_offsets(const tn_call *call, const index_shape *s, const tn_tensor_desc *t,
                           const tn_tensor_desc *self, int64_t k, int64_t *offsets, int64_t count)
{
    int64_t position[TN_MAX_RANK] = {0}, size = self->sizes[k], stride = cpu_stride(self, k);
    const char *p = t->host;
    bool wide = t->dtype == TN_INT64;
    for (int64_t i = 0; i < count; i++) {
        int64_t x = cpu_index_at(p, wide);
        if (x < -size || x >= size)
            return cpu_error(call, TN_E_INDEX,
                             "index %lld is out of bounds for dimension %lld with size %lld", (long long)x,
                             (long long)k, (long long)size);
        offsets[i] += (x < 0 ? x + size : x) * stride;
        for (uint32_t d = s->rank; d-- > 0;) {
            int64_t step = broadcast_index_stride(t, s, d);
            p += step;
            if (++position[d] < s->sizes[d]) break;
            p -= position[d] * step;
            position[d] = 0;
        }
    }
    return TN_OK;
}

/* The stride in bytes of `other`, broadcast to the shape of the result, in the result's dimension d. */
static int64_t other_stride(const tn_tensor_desc *other, int64_t rank, int64_t d)
{
    int64_t own = d - (rank - (int64_t)other->rank);
    return own < 0 || other->sizes[own] == 1 ? 0 : cpu_stride(other, own);
}

/* The offset in `other` of each position of the index shape. */
static void fill_places(const index_shape *s, const tn_tensor_desc *other, int64_t rank, int64_t *places,
                        int64_t count)
{
    int64_t position[TN_MAX_RANK] = {0}, offset = 0;
    for (int64_t i = 0; i < count; i++) {
        places[i] = offset;
        for (uint32_t d = s->rank; d-- > 0;) {
            int64_t step = other_stride(other, rank, s->at + d);
            offset += step;
            if (++position[d] < s->sizes[d]) break;
            offset -= position[d] * step;
            position[d] = 0;
        }
    }
}

static int32_t places_are_even(const index_shape *s, const tn_tensor_desc *other, int64_t rank)
{
    for (uint32_t d = 0; d + 1 < s->rank; d++)
        if (other_stride(other, rank, s->at + d) !=
            other_stride(other, rank, s->at + d + 1) * s->sizes[d + 1])
            return 0;
    return 1;
}

static int32_t index_walk(const tn_call *call, const tn_tensor_desc *self, const tn_tensor_desc *other,
                          cpu_walk *w)
{
    tn_tensors list = tn_value_as_tensors(call->args[1]);
    index_shape s;
    shape_of_indices(list, &s);
    int64_t count = 1, kept = 0, rank = s.rank;
    for (uint32_t d = 0; d < s.rank; d++) count *= s.sizes[d];
    for (uint32_t k = 0; k < self->rank; k++) rank += s.indexed >> k & 1 ? 0 : 1;
    w->count = count;
    w->self = self->host;
    w->other = other->host;
    w->lines = 1;
    for (int64_t k = (int64_t)self->rank - 1; k >= 0; k--) {
        if (s.indexed >> k & 1) continue;
        /* The dimension of the result: kept dimensions stand before and after the index shape. */
        int64_t before = 0, d;
        for (int64_t j = 0; j < k; j++) before += s.indexed >> j & 1 ? 0 : 1;
        d = before < s.at ? before : before + s.rank;
        w->lines *= self->sizes[k];
        if (self->sizes[k] == 1) continue;
        w->sizes[kept] = self->sizes[k];
        w->self_strides[kept] = cpu_stride(self, k);
        w->other_strides[kept++] = other_stride(other, rank, d);
    }
    w->rank = (uint32_t)kept;
    if (count == 0 || w->lines == 0) return TN_OK;
    int64_t *offsets = cpu_scratch(call, (uint64_t)count * 8);
    if (!offsets) return TN_E_OUT_OF_MEMORY;
    memset(offsets, 0, (size_t)count * 8);
    for (int64_t k = 0; k < list.count; k++) {
        if (!list.data[k]) continue;
        int32_t status = add_offsets(call, &s, tn_desc(list.data[k]), self, k, offsets, count);
        if (status != TN_OK) return status;
    }
    w->chosen = offsets;
    w->other_step = s.rank ? other_stride(other, rank, s.at + s.rank - 1) : 0;
    if (!places_are_even(&s, other, rank)) {
        int64_t *places = cpu_scratch(call, (uint64_t)count * 8);
        if (!places) return TN_E_OUT_OF_MEMORY;
        fill_places(&s, other, rank, places, count);
        w->places = places;
    }
    return TN_OK;
}

/* aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor */
static int32_t index_list(void *state, const tn_call *call)
{
    const tn_tensor_desc *self = tensor_arg(call, 0);
    cpu_walk w = {0};
    int32_t status = index_walk(call, self, tensor_out(call, 0), &w);
    w.fn = cpu_take_fn(cpu_walk_widen(&w, tn_dtype_bytes(self->dtype)));
    if (status == TN_OK) cpu_walk_run(call, &w);
    return status;
}

/* aten::_index_put_impl_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate, bool unsafe) */
static int32_t index_put(void *state, const tn_call *call)
{
    const tn_tensor_desc *self = written(call), *values = tensor_arg(call, 2);
    combination c = {.fn = find_combine(self->dtype, CPU_COMBINE_ADD), .alpha = 1, .alpha_int = 1};
    int32_t accumulate = bool_arg(call, 3);
    cpu_walk w = {.shared = 1, .user = &c};
    if (accumulate && !c.fn)
        return cpu_error(call, TN_E_UNSUPPORTED, "argument 'accumulate': the dtype does not support it");
    int32_t status = index_walk(call, self, values, &w);
    w.fn = accumulate ? combine_row : cpu_put_fn(cpu_walk_widen(&w, tn_dtype_bytes(self->dtype)));
    if (status == TN_OK) cpu_walk_run(call, &w);
    return status;
}

/* ---- Rows ------------------------------------------------------------------------------------------ */

const tn_kernel_row cpu_gather_rows[] = {
    CPU_ROW("aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", NULL,
            gather),
    CPU_ROW("aten::scatter_.src(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)", NULL,
            scatter),
    CPU_ROW("aten::scatter_.value(Tensor(a!) self, int dim, Tensor index, Scalar value) -> Tensor(a!)", NULL,
            scatter),
    CPU_ROW("aten::scatter_.reduce(Tensor(a!) self, int dim, Tensor index, Tensor src, *, str reduce) -> "
            "Tensor(a!)",
            cpu_all_dtypes, scatter_reduce),
    CPU_ROW("aten::scatter_.value_reduce(Tensor(a!) self, int dim, Tensor index, Scalar value, *, str "
            "reduce) -> Tensor(a!)",
            cpu_all_dtypes, scatter_reduce),
    CPU_ROW("aten::scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> Tensor(a!)",
            cpu_all_dtypes, scatter_add),
    CPU_ROW("aten::scatter_reduce_.two(Tensor(a!) self, int dim, Tensor index, Tensor src, str reduce, *, "
            "bool include_self=True) -> Tensor(a!)",
            cpu_all_dtypes, scatter_reduce),
    CPU_ROW("aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", NULL, index_select),
    CPU_ROW("aten::index_add_(Tensor(a!) self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> "
            "Tensor(a!)",
            cpu_all_dtypes, index_add),
    CPU_ROW("aten::index_copy_(Tensor(a!) self, int dim, Tensor index, Tensor source) -> Tensor(a!)", NULL,
            index_copy),
    CPU_ROW("aten::index_reduce_(Tensor(a!) self, int dim, Tensor index, Tensor source, str reduce, *, bool "
            "include_self=True) -> Tensor(a!)",
            cpu_all_dtypes, index_reduce),
    CPU_ROW("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", NULL, index_list),
    CPU_ROW("aten::_index_put_impl_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool "
            "accumulate=False, bool unsafe=False) -> Tensor(a!)",
            NULL, index_put),
};
const uint32_t cpu_gather_row_count = CPU_ROW_COUNT(cpu_gather_rows);
