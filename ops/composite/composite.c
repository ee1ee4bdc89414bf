/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of composites; see composite.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tenon/random.h>
#include "core/graph.h"
#include "core/number_text.h"
#include "core/shape.h"
#include "ops/composite/composite.h"

tn_tensor *tni_tensor_in(const tn_value *v)
{
    return tn_value_as_tensor(*v);
}

int64_t tni_int_in(const tn_value *v)
{
    return tn_value_as_int(*v);
}

double tni_float_in(const tn_value *v)
{
    return tn_value_as_float(*v);
}

int32_t tni_bool_in(const tn_value *v)
{
    return tn_value_as_bool(*v);
}

tn_ints tni_ints_in(const tn_value *v)
{
    if (v->tag == TN_TAG_INTS) return (tn_ints){v->as.ints, v->count};
    if (v->tag == TN_TAG_INT) return (tn_ints){&v->as.i, 1};
    return (tn_ints){NULL, 0};
}

int32_t tni_same_sizes(tn_ints a, tn_ints b)
{
    return a.count == b.count && !memcmp(a.data, b.data, (size_t)a.count * sizeof(int64_t));
}

const int64_t tni_no_sizes[TN_MAX_RANK] = {0};

void *tni_scope_items(tn_scope *s, int64_t count, uint64_t bytes)
{
    uint64_t n = count > 0 ? (uint64_t)count : 1;
    if (n > INT64_MAX / bytes) return tn_scope_memory(s, INT64_MAX); /* an allocation of this size fails */
    return tn_scope_memory(s, n * bytes);
}

int64_t *tni_scope_ints(tn_scope *s, int64_t count)
{
    return tni_scope_items(s, count, sizeof(int64_t));
}

int64_t *tni_scope_ints_copy(tn_scope *s, tn_ints from)
{
    int64_t *to = tni_scope_ints(s, from.count);
    if (to && from.count > 0) memcpy(to, from.data, (size_t)from.count * sizeof(int64_t));
    return to;
}

tn_tensor **tni_scope_tensors(tn_scope *s, int64_t count)
{
    tn_tensor **list = tni_scope_items(s, count, sizeof(tn_tensor *));
    if (list) memset(list, 0, (size_t)(count > 0 ? count : 1) * sizeof(tn_tensor *));
    return list;
}

tn_ints tni_sizes_with(tn_scope *s, tn_ints size, int64_t dim, int64_t value)
{
    int64_t *to = tni_scope_ints_copy(s, size);
    if (!to) return (tn_ints){NULL, 0};
    if (dim >= 0 && dim < size.count) to[dim] = value;
    return (tn_ints){to, size.count};
}

tn_ints tni_sizes_without(tn_scope *s, tn_ints size, int64_t dim)
{
    int64_t *to = tni_scope_ints(s, size.count), n = 0;
    if (!to) return (tn_ints){NULL, 0};
    for (int64_t i = 0; i < size.count; i++) {
        if (i != dim) to[n++] = size.data[i];
    }
    return (tn_ints){to, n};
}

tn_ints tni_sizes_insert(tn_scope *s, tn_ints size, int64_t dim, int64_t value)
{
    int64_t *to = tni_scope_ints(s, size.count + 1);
    if (!to) return (tn_ints){NULL, 0};
    for (int64_t i = 0; i <= size.count; i++)
        to[i] = i < dim ? size.data[i] : i == dim ? value : size.data[i - 1];
    return (tn_ints){to, size.count + 1};
}

int32_t tni_scope_failf(tn_scope *s, int32_t status, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    tni_vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    return tn_scope_fail(s, status, text);
}

int64_t tni_dim(tn_scope *s, int64_t dim, int64_t rank)
{
    int64_t wrapped = 0;
    if (tn_scope_failed(s)) return 0;
    int32_t status = tni_wrap_dim(dim, rank, &wrapped);
    if (status) tni_scope_record(s, status);
    return status ? 0 : wrapped;
}

uint64_t tni_dims(tn_scope *s, tn_ints dims, int64_t rank)
{
    uint64_t mask = 0;
    if (tn_scope_failed(s)) return 0;
    int32_t status = tni_dim_mask(tn_value_ints(dims.data, dims.count), rank, 1, &mask);
    if (status) tni_scope_record(s, status);
    return status ? 0 : mask;
}

int64_t tni_numel_of(tn_ints size, uint64_t mask)
{
    int64_t n = 1;
    for (int64_t i = 0; i < size.count; i++) {
        if (mask >> i & 1) n *= size.data[i];
    }
    return n;
}

tni_options tni_options_at(tn_scope *s, const tn_value *args, uint32_t at)
{
    uint32_t layout = arg_layout(args, at + 1);
    if (layout && layout != TN_INTERNED_STRIDED)
        tni_scope_failf(s, TN_E_UNSUPPORTED, "layout %s is not supported", tni_interned_name(s->ctx, layout));
    return (tni_options){arg_dtype(args, at), arg_device(args, at + 2), arg_bool(args, at + 3)};
}

tn_tensor *tni_empty_with(tn_scope *s, tn_ints size, tni_options o)
{
    return tn_empty(s, size, .dtype = o.dtype, .device = o.device, .pin_memory = o.pin);
}

tn_tensor *tni_pinned_with(tn_scope *s, tn_tensor *t, tni_options o)
{
    return t && o.pin ? tn_pin_memory(s, t, 0) : t;
}

tn_tensor *tni_empty_like_with(tn_scope *s, const tn_value *args, uint32_t at)
{
    tni_options o = tni_options_at(s, args, at);
    return tn_empty_like(s, arg_tensor(args, 0), .dtype = o.dtype, .device = o.device, .pin_memory = o.pin,
                         .memory_format = arg_format(args, at + 4));
}

tn_tensor *tni_number_like(tn_scope *s, const tn_tensor *t, tn_value number)
{
    return t ? tn_scalar_tensor_of(s, number, dtype_of(t), tn_tensor_device(t)) : NULL;
}

tn_tensor *tni_cast(tn_scope *s, tn_tensor *t, tn_dtype dtype)
{
    return t && dtype_of(t) != dtype ? tn_to(s, t, dtype) : t;
}

tn_tensor *tni_empty_on(tn_scope *s, const tn_tensor *t, tn_dtype dtype, tn_ints size)
{
    if (!t) return NULL;
    return tn_empty(s, size, .dtype = dtype ? dtype : dtype_of(t), .device = tn_tensor_device(t));
}

tn_tensor *tni_full_on(tn_scope *s, const tn_tensor *t, tn_dtype dtype, tn_ints size, tn_value number)
{
    tn_tensor *out = tni_empty_on(s, t, dtype, size);
    return out ? tn_prim_fill(s, out, number) : NULL;
}

tn_tensor *tni_zeros_on(tn_scope *s, const tn_tensor *t, tn_dtype dtype, tn_ints size)
{
    return tni_full_on(s, t, dtype, size, tn_value_int(0));
}

tn_tensor *tni_range_on(tn_scope *s, const tn_tensor *t, int64_t start, int64_t count)
{
    tn_tensor *out = tni_empty_on(s, t, TN_INT64, TN_INTS(count));
    return out ? tn_prim_iota(s, out, start, 1) : NULL;
}

tn_ints tni_integers_of(tn_scope *s, tn_tensor *t, const char *name)
{
    int64_t count = t ? tn_tensor_numel(t) : 0, *list = tni_scope_ints(s, count);
    if (!t || !list || tn_scope_failed(s)) return (tn_ints){NULL, 0};
    if (!is_integer(dtype_of(t)))
        return tni_scope_failf(s, TN_E_DTYPE, "%s must be integral", name), (tn_ints){NULL, 0};
    tn_tensor *wide = tn_contiguous(s, tni_cast(s, t, TN_INT64));
    if (wide && count) tn_to_host(s, wide, list, (uint64_t)count * sizeof *list);
    return (tn_ints){list, count};
}

tn_tensor *tni_reduce_loss(tn_scope *s, tn_tensor *loss, int64_t reduction)
{
    return reduction == TN_REDUCTION_MEAN  ? tn_mean(s, loss)
           : reduction == TN_REDUCTION_SUM ? tn_sum(s, loss)
                                           : loss;
}

static void add_operand(tni_promotion *p, const tn_tensor *t)
{
    int32_t wrapped = (tn_desc(t)->flags & TN_DESC_WRAPPED) != 0;
    tni_promotion_add(p, dtype_of(t), rank_of(t) == 0, wrapped);
}

tn_dtype tni_common_dtype(tn_scope *s, const tn_tensor *a, const tn_tensor *b)
{
    tni_promotion p = {0};
    if (a) add_operand(&p, a);
    if (b) add_operand(&p, b);
    return tni_promotion_result(&p, tni_default_dtype(s->ctx));
}

/* Elements drawn by the 64-bit rule take half a counter, others a quarter; see tenon/random.h. */
static uint64_t random_counters(const tn_tensor *t, int64_t distribution, tn_value b)
{
    uint64_t n = (uint64_t)tn_tensor_numel(t), range = (uint64_t)tn_value_as_int(b);
    int32_t wide = TN_DTYPE_BITS(dtype_of(t)) > 32;
    if (distribution == TN_RANDOM_BITS)
        wide |= range == 0 || range > (UINT64_C(1) << 32);
    else if (is_complex(dtype_of(t)))
        wide = TN_DTYPE_BITS(dtype_of(t)) > 64;
    return wide ? (n + 1) / 2 : (n + 3) / 4;
}

tn_tensor *tni_fill_random(tn_scope *s, tn_tensor *t, int64_t distribution, tn_value a, tn_value b,
                           tn_generator *generator)
{
    uint64_t seed = 0, offset = 0, count;
    tn_tensor *state = NULL;
    if (!t || tn_scope_failed(s)) return NULL;
    if (tn_tensor_numel(t) == 0) return t;
    if (!generator) {
        tni_device *device = tni_device_get(s->ctx, tn_tensor_device(t));
        if (!device) return tni_scope_record(s, TN_E_DEVICE), NULL;
        generator = tni_default_generator(device);
    }
    count = random_counters(t, distribution, b);
    if (t->storage->device) {
        tn_stream *stream = tni_current_stream(t->storage->device);
        int32_t status = tni_capture_random(stream, generator, count, &offset, &state);
        if (status) return tni_scope_record(s, status), NULL;
    }
    if (!state) tni_generator_reserve(generator, count, &seed, &offset);
    return tn_prim_random(s, t, distribution, a, b, (int64_t)seed, (int64_t)offset, .state = state);
}
