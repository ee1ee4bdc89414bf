/* SPDX-License-Identifier: Apache-2.0 */
/* Fourier transforms. */
#include "ops/infer/infer.h"

/* Checks the dims in argument 1 and gives the last of them, `rank` if there are none. */
static int32_t last_dim(tni_frame *f, int64_t *out)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    tn_ints dims = tni_arg_ints(f, 1);
    uint64_t seen = 0;
    *out = rank_of(self);
    for (int64_t i = 0; i < dims.count; i++) {
        TNI_TRY(tni_wrap_dim(dims.data[i], rank_of(self), out));
        if (rank_of(self) == 0)
            return tni_fail(f, TN_E_INDEX, "Dimension specified as %lld but tensor has no dimensions",
                            (long long)dims.data[i]);
        if (seen >> *out & 1) return tni_fail(f, TN_E_ARGUMENT, "FFT dims must be unique");
        seen |= UINT64_C(1) << *out;
    }
    return TN_OK;
}

static int32_t check_dtype(tni_frame *f, int32_t fits, const char *expected)
{
    if (fits) return TN_OK;
    return tni_fail(f, TN_E_DTYPE, "argument 'self': the dtype must be %s (got %s)", expected,
                    tni_dtype_error_name(dtype_of(tni_arg_tensor(f, 0))));
}

/* ATen's codes: none, by the root of the number of elements, by the number. */
static int32_t check_normalization(tni_frame *f)
{
    int64_t n = tni_arg_int(f, 2);
    if (n >= 0 && n <= 2) return TN_OK;
    return tni_fail(f, TN_E_ARGUMENT, "argument 'normalization': must be 0, 1 or 2 (got %lld)", (long long)n);
}

static int32_t check_call(tni_frame *f, int32_t fits, const char *expected, int64_t *out_dim)
{
    TNI_TRY(check_dtype(f, fits, expected));
    TNI_TRY(last_dim(f, out_dim));
    return check_normalization(f);
}

/* _fft_c2c (self, dim, normalization, forward). */
int32_t infer_fft_c2c(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t dim;
    TNI_TRY(check_call(f, is_complex(dtype_of(self)), "complex", &dim));
    return tni_out(f, 0, dtype_of(self), self->desc.rank, sizes_of(self));
}

/* The output: the sizes of self, but `size` in the last of the dims. */
static int32_t out_spectrum(tni_frame *f, tn_dtype dtype, int64_t dim, int64_t size)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t sizes[TN_MAX_RANK];
    if (dim == rank_of(self)) return tni_fail(f, TN_E_ARGUMENT, "argument 'dim': must not be empty");
    for (int64_t d = 0; d < rank_of(self); d++) sizes[d] = d == dim ? size : sizes_of(self)[d];
    return tni_out(f, 0, dtype, self->desc.rank, sizes);
}

/* _fft_r2c (self, dim, normalization, onesided). */
int32_t infer_fft_r2c(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t dim;
    TNI_TRY(check_call(f, is_float(dtype_of(self)), "floating point", &dim));
    int64_t n = dim < rank_of(self) ? sizes_of(self)[dim] : 0;
    if (dim < rank_of(self) && n < 1)
        return tni_fail(f, TN_E_SHAPE, "Invalid number of data points (%lld) specified", (long long)n);
    return out_spectrum(f, tni_dtype_to_complex(dtype_of(self)), dim, tni_arg_bool(f, 3) ? n / 2 + 1 : n);
}

/* _fft_c2r (self, dim, normalization, last_dim_size). */
int32_t infer_fft_c2r(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t dim, n = tni_arg_int(f, 3);
    TNI_TRY(check_call(f, is_complex(dtype_of(self)), "complex", &dim));
    if (n < 1)
        return tni_fail(f, TN_E_ARGUMENT, "Invalid number of data points (%lld) specified", (long long)n);
    if (dim < rank_of(self) && sizes_of(self)[dim] != n / 2 + 1)
        return tni_fail(
            f, TN_E_SHAPE,
            "argument 'self': dimension %lld must have last_dim_size / 2 + 1 = %lld elements (got %lld)",
            (long long)dim, (long long)(n / 2 + 1), (long long)sizes_of(self)[dim]);
    return out_spectrum(f, tni_dtype_to_real(dtype_of(self)), dim, n);
}
