/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: the Fourier transforms that programs call. Each is one call of _fft_c2c, _fft_r2c or _fft_c2r after
 * the input has its size and dtype; the Hermitian ones are transforms of the conjugate.
 */
#include <string.h>
#include "ops/composite/composite.h"

typedef enum way { COMPLEX, HALF_SPECTRUM, REAL_SIGNAL } way;

typedef struct transform {
    const char *name;
    way way;
    int32_t forward;   /* what `norm` counts as forward */
    int32_t conjugate; /* real to complex: the result, complex to real: the input */
} transform;

/* ATen's codes of a normalization. */
enum { NOT_SCALED, BY_ROOT, BY_SIZE };

static int64_t normalization_of(tn_scope *s, const char *norm, int32_t forward)
{
    if (!norm || !strcmp(norm, "backward")) return forward ? NOT_SCALED : BY_SIZE;
    if (!strcmp(norm, "forward")) return forward ? BY_SIZE : NOT_SCALED;
    if (strcmp(norm, "ortho"))
        tni_scope_failf(
            s, TN_E_ARGUMENT,
            "Invalid normalization mode: \"%s\" (expected \"forward\", \"backward\" or \"ortho\")", norm);
    return BY_ROOT;
}

/* Integers in the default dtype. Half types have no transform. */
static tn_tensor *to_transformed(tn_scope *s, tn_tensor *t, int32_t to_complex)
{
    tn_dtype dtype = float_of(s, dtype_of(t));
    tn_dtype real = tni_dtype_to_real(dtype);
    if (real != TN_FLOAT32 && real != TN_FLOAT64)
        return tni_scope_failf(s, TN_E_DTYPE, "Unsupported dtype %s", tni_dtype_error_name(dtype)), NULL;
    return tni_cast(s, t, to_complex ? tni_dtype_to_complex(dtype) : dtype);
}

/* Cuts off elements behind size[i], or adds zeros, in each of the dims. */
static tn_tensor *resized(tn_scope *s, tn_tensor *t, tn_ints dims, const int64_t *size)
{
    int64_t rank = t ? rank_of(t) : 0, *pad = tni_scope_ints(s, 2 * rank), grows = 0;
    for (int64_t i = 0; pad && i < 2 * rank; i++) pad[i] = 0;
    for (int64_t i = 0; pad && t && i < dims.count; i++) {
        int64_t dim = dims.data[i], now = tn_tensor_size(t, dim);
        if (now > size[i]) t = tni_narrow(s, t, dim, 0, size[i]);
        if (now >= size[i]) continue;
        pad[2 * (rank - 1 - dim) + 1] = size[i] - now;
        grows = 1;
    }
    return grows && t ? tn_constant_pad_nd(s, t, (tn_ints){pad, 2 * rank}) : t;
}

/* The call, given the dims and the sizes that the signal has in them. */
static tn_tensor *run(tn_scope *s, const transform *f, tn_tensor *t, tn_ints dims, int64_t *size,
                      const char *norm, int32_t whole)
{
    int64_t normalization = normalization_of(s, norm, f->forward), last = dims.count - 1;
    for (int64_t i = 0; i < dims.count && !tn_scope_failed(s); i++) {
        if (size[i] < 1)
            tni_scope_failf(s, TN_E_ARGUMENT, "Invalid number of data points (%lld) specified",
                            (long long)size[i]);
    }
    if (tn_scope_failed(s)) return NULL;
    int64_t n = dims.count ? size[last] : 0;
    if (f->way == REAL_SIGNAL) size[last] = n / 2 + 1;
    t = resized(s, to_transformed(s, t, f->way != HALF_SPECTRUM), dims, size);
    if (f->way == COMPLEX) return tn__fft_c2c(s, t, dims, normalization, f->forward);
    if (f->way == REAL_SIGNAL)
        return tn__fft_c2r(s, f->conjugate && t ? tn_conj(s, t) : t, dims, normalization, n);
    t = tn__fft_r2c(s, t, dims, normalization, !whole);
    return f->conjugate && t ? tn_conj(s, t) : t;
}

/* A dimension of a tensor that has any. */
static int64_t dim_of(tn_scope *s, int64_t dim, int64_t rank)
{
    if (rank == 0)
        return tni_scope_failf(s, TN_E_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                               (long long)dim),
               0;
    return tni_dim(s, dim, rank);
}

static int32_t refuse_complex(tn_scope *s, const transform *f, const tn_tensor *t, const char *kind)
{
    if (f->way != HALF_SPECTRUM || !is_complex(dtype_of(t))) return 0;
    return tni_scope_failf(s, TN_E_DTYPE, "%s expects a %s input tensor, but got %s", f->name, kind,
                           tni_dtype_error_name(dtype_of(t)));
}

/* (self, n, dim, norm). fft and ifft of real signals give the whole spectrum. */
static void run_one(tn_scope *s, const transform *f, const tn_value *args, tn_value *outs)
{
    tn_tensor *t = arg_tensor(args, 0);
    transform of_real = *f;
    int64_t dim = dim_of(s, arg_int(args, 2), rank_of(t));
    if (tn_scope_failed(s) || refuse_complex(s, f, t, "real")) return;
    int64_t now = tn_tensor_size(t, dim),
            n = arg_int_or(args, 1, f->way == REAL_SIGNAL ? 2 * (now - 1) : now);
    int32_t is_real = f->way == COMPLEX && !is_complex(dtype_of(t));
    if (is_real) of_real = (transform){f->name, HALF_SPECTRUM, f->forward, !f->forward};
    give(outs, 0, run(s, &of_real, t, (tn_ints){&dim, 1}, &n, arg_string(args, 3), is_real));
}

/* The dims of (self, s, dim, norm): those given, else the last ones that `s` has sizes for, else all. */
static tn_ints transformed_dims(tn_scope *s, const tn_value *args)
{
    tn_ints sizes = arg_ints(args, 1), given = arg_ints(args, 2);
    int64_t rank = rank_of(arg_tensor(args, 0)), count = arg_given(args, 1) ? sizes.count : rank;
    int64_t *dims = tni_scope_ints(s, rank + given.count);
    uint64_t seen = 0;
    if (arg_given(args, 2)) {
        if (arg_given(args, 1) && sizes.count != given.count)
            tn_scope_fail(s, TN_E_ARGUMENT, "When given, dim and shape arguments must have the same length");
        for (int64_t i = 0; i < given.count && dims && !tn_scope_failed(s); i++) {
            dims[i] = dim_of(s, given.data[i], rank);
            if (seen >> dims[i] & 1) tn_scope_fail(s, TN_E_ARGUMENT, "FFT dims must be unique");
            seen |= UINT64_C(1) << dims[i];
        }
        return (tn_ints){dims, given.count};
    }
    if (count > rank)
        tni_scope_failf(s, TN_E_ARGUMENT,
                        "Got shape with %lld values but input tensor only has %lld dimensions.",
                        (long long)count, (long long)rank);
    for (int64_t i = 0; i < count && dims && !tn_scope_failed(s); i++) dims[i] = rank - count + i;
    return (tn_ints){dims, count};
}

/* (self, s, dim, norm); -1 in s leaves a size as it is. */
static void run_several(tn_scope *s, const transform *f, const tn_value *args, tn_value *outs)
{
    tn_tensor *t = arg_tensor(args, 0);
    tn_ints sizes = arg_ints(args, 1), dims;
    if (refuse_complex(s, f, t, "real-valued")) return;
    dims = transformed_dims(s, args);
    int64_t *size = tni_scope_ints(s, dims.count);
    if (!size || tn_scope_failed(s)) return;
    if (dims.count == 0 && f->way != COMPLEX)
        return (void)tni_scope_failf(s, TN_E_ARGUMENT, "%s must transform at least one axis", f->name);
    for (int64_t i = 0; i < dims.count; i++) {
        int64_t now = tn_tensor_size(t, dims.data[i]);
        int32_t doubled = f->way == REAL_SIGNAL && i == dims.count - 1;
        size[i] = i < sizes.count && sizes.data[i] != -1 ? sizes.data[i] : doubled ? 2 * (now - 1) : now;
    }
    give(outs, 0, run(s, f, t, dims, size, arg_string(args, 3), 0));
}

static const transform fft = {"fft", COMPLEX, 1, 0}, fftn = {"fftn", COMPLEX, 1, 0};
static const transform ifft = {"ifft", COMPLEX, 0, 0}, ifftn = {"ifftn", COMPLEX, 0, 0};
static const transform rfft = {"rfft", HALF_SPECTRUM, 1, 0}, rfftn = {"rfftn", HALF_SPECTRUM, 1, 0};
static const transform irfft = {"irfft", REAL_SIGNAL, 0, 0}, irfftn = {"irfftn", REAL_SIGNAL, 0, 0};
static const transform hfft = {"hfft", REAL_SIGNAL, 1, 1}, hfftn = {"hfftn", REAL_SIGNAL, 1, 1};
static const transform ihfft = {"ihfft", HALF_SPECTRUM, 0, 1}, ihfftn = {"ihfftn", HALF_SPECTRUM, 0, 1};

void composite_fft_fft(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run_one(s, &fft, args, outs);
}
void composite_fft_fftn(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run_several(s, &fftn, args, outs);
}

void composite_fft_ifft(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run_one(s, &ifft, args, outs);
}
void composite_fft_ifftn(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run_several(s, &ifftn, args, outs);
}

void composite_fft_rfft(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run_one(s, &rfft, args, outs);
}
void composite_fft_rfftn(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run_several(s, &rfftn, args, outs);
}

void composite_fft_irfft(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run_one(s, &irfft, args, outs);
}
void composite_fft_irfftn(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run_several(s, &irfftn, args, outs);
}

void composite_fft_hfft(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run_one(s, &hfft, args, outs);
}
void composite_fft_hfftn(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run_several(s, &hfftn, args, outs);
}

void composite_fft_ihfft(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run_one(s, &ihfft, args, outs);
}
void composite_fft_ihfftn(tn_scope *s, const tn_value *args, tn_value *outs)
{
    run_several(s, &ihfftn, args, outs);
}

/* (n, d, then the options of a new tensor): `count` numbers from `first` on, over n d. */
static tn_tensor *frequencies(tn_scope *s, const tn_value *args, const char *name, int64_t first,
                              int64_t count)
{
    tni_options o = tni_options_at(s, args, 2);
    if (!o.dtype) o.dtype = tni_default_dtype(s->ctx);
    if (is_integer(o.dtype))
        return tni_scope_failf(s, TN_E_DTYPE, "%s requires a floating point or complex dtype, but got %s",
                               name, tni_dtype_error_name(o.dtype)),
               NULL;
    tn_tensor *t =
        tn_arange_start(s, first, tn_value_int(first + count), .dtype = o.dtype, .device = o.device);
    return tn_mul_scalar_(s, t, 1 / ((double)arg_int(args, 0) * arg_float(args, 1)));
}

void composite_fft_fftfreq(tn_scope *s, const tn_value *args, tn_value *outs)
{
    int64_t n = arg_int(args, 0);
    tn_tensor *t = tn_fft_ifftshift(s, frequencies(s, args, "fftfreq", -(n / 2), n));
    give(outs, 0, tni_pinned_with(s, t, tni_options_at(s, args, 2)));
}

void composite_fft_rfftfreq(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *t = frequencies(s, args, "rfftfreq", 0, arg_int(args, 0) / 2 + 1);
    give(outs, 0, tni_pinned_with(s, t, tni_options_at(s, args, 2)));
}

/* Rolls each of the dims, all if none are given, by (size + more) / 2. */
static void roll_half(tn_scope *s, const tn_value *args, int64_t more, tn_value *outs)
{
    tn_tensor *t = arg_tensor(args, 0);
    tn_ints given = arg_ints(args, 1);
    int64_t count = arg_given(args, 1) ? given.count : rank_of(t);
    int64_t *dims = tni_scope_ints(s, count), *shifts = tni_scope_ints(s, count);
    for (int64_t i = 0; i < count && dims && shifts && !tn_scope_failed(s); i++) {
        dims[i] = arg_given(args, 1) ? tni_dim(s, given.data[i], rank_of(t)) : i;
        shifts[i] = ((rank_of(t) ? tn_tensor_size(t, dims[i]) : 1) + more) / 2;
    }
    if (tn_scope_failed(s)) return;
    give(outs, 0, tn_roll(s, t, (tn_ints){shifts, count}, .dims = (tn_ints){dims, count}));
}

void composite_fft_fftshift(tn_scope *s, const tn_value *args, tn_value *outs)
{
    roll_half(s, args, 0, outs);
}

void composite_fft_ifftshift(tn_scope *s, const tn_value *args, tn_value *outs)
{
    roll_half(s, args, 1, outs);
}
