/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composites: transforms of the overlapping parts (frames) of a signal, and the signal that has given ones: the sum of
 * the windowed frames over the sum of the squared windows (D. Griffin, J. Lim, "Signal estimation from modified
 * short-time Fourier transform", 1984).
 */
#include <string.h>
#include "ops/composite/compute_dtype.h"

typedef struct frames {
    const char *name;
    int64_t n_fft, hop, length; /* length: of the window */
    tn_tensor *window;          /* NULL: all ones */
    int32_t normalized;
} frames;

/* (self, n_fft, hop_length, win_length, window, ...). */
static frames frames_of(const char *name, const tn_value *args, int32_t normalized)
{
    int64_t n = arg_int(args, 1);
    return (frames){.name = name,
                    .n_fft = n,
                    .hop = arg_int_or(args, 2, n / 4),
                    .length = arg_int_or(args, 3, n),
                    .window = arg_tensor(args, 4),
                    .normalized = normalized};
}

/* The window in the middle of n_fft elements, or NULL. */
static tn_tensor *whole_window(tn_scope *s, const frames *f, const tn_tensor *like)
{
    int64_t left = (f->n_fft - f->length) / 2;
    tn_tensor *w = f->window;
    if (f->length == f->n_fft) return w;
    if (!w)
        w = tn_ones(s, TN_INTS(f->length), .dtype = tni_dtype_to_real(dtype_of(like)),
                    .device = tn_tensor_device(like));
    return tn_constant_pad_nd(s, w, TN_INTS(left, f->n_fft - f->length - left));
}

static int32_t check_frames(tn_scope *s, const frames *f, int64_t length)
{
    if (f->n_fft <= 0 || f->n_fft > length)
        return tni_scope_failf(s, TN_E_ARGUMENT, "%s: expected 0 < n_fft < %lld, but got n_fft=%lld", f->name,
                               (long long)length, (long long)f->n_fft);
    if (f->hop <= 0)
        return tni_scope_failf(s, TN_E_ARGUMENT, "%s: expected hop_length > 0, but got hop_length=%lld",
                               f->name, (long long)f->hop);
    if (f->length <= 0 || f->length > f->n_fft)
        return tni_scope_failf(s, TN_E_ARGUMENT,
                               "%s: expected 0 < win_length <= n_fft, but got win_length=%lld", f->name,
                               (long long)f->length);
    if (f->window && (rank_of(f->window) != 1 || tn_tensor_size(f->window, 0) != f->length))
        return tni_scope_failf(
            s, TN_E_SHAPE,
            "%s: expected a 1D window tensor of size equal to win_length=%lld, but got window "
            "with size %s",
            f->name, (long long)f->length, sizes_text(s, f->window));
    return TN_OK;
}

/* The frames as a view [batch, frame, n_fft] of a signal [batch, length]; a frame begins `hop` after the last one. */
static tn_tensor *framed(tn_scope *s, const frames *f, tn_tensor *t, int32_t align_to_window)
{
    int64_t left = align_to_window ? (f->n_fft - f->length) / 2 : 0,
            right = align_to_window ? f->n_fft - f->length - left : 0;
    if (left || right) t = tn_constant_pad_nd(s, t, TN_INTS(left, right));
    return tn_unfold(s, t, 1, f->n_fft, f->hop);
}

/* The transforms of frames [batch, frame, n_fft], as [batch, frequency, frame]. */
static tn_tensor *transformed(tn_scope *s, const frames *f, tn_tensor *t, tn_value onesided)
{
    int32_t complex = t && is_complex(dtype_of(t));
    int32_t half = onesided.tag == TN_TAG_NONE ? !complex : tn_value_as_bool(onesided);
    if (complex && half)
        return tn_scope_fail(s, TN_E_ARGUMENT, "Cannot have onesided output if window or input is complex"),
               NULL;
    t = complex ? tn__fft_c2c(s, t, TN_INTS(2), f->normalized, 1)
                : tn__fft_r2c(s, t, TN_INTS(2), f->normalized, half);
    return tn_transpose(s, t, 1, 2);
}

/* t, padded by n_fft / 2 at both ends; `t` is [batch, length]. */
static tn_tensor *centred(tn_scope *s, const frames *f, tn_tensor *t, const char *mode)
{
    int64_t pad = f->n_fft / 2;
    return tn_squeeze_dim(s, tn_pad(s, tn_unsqueeze(s, t, 0), TN_INTS(pad, pad), .mode = mode), 0);
}

/* The arguments from `at` on: normalized, onesided, return_complex, align_to_window. `mode` NULL: not centred. */
static tn_tensor *run_stft(tn_scope *s, const tn_value *args, uint32_t at, const char *mode)
{
    tn_tensor *self = arg_tensor(args, 0), *t = self, *window;
    frames f = frames_of("stft", args, arg_bool(args, at));
    int32_t complex = is_complex(dtype_of(self)) || (f.window && is_complex(dtype_of(f.window)));
    int32_t align = arg_bool_or(args, at + 3, 0);
    if (mode && arg_given(args, at + 3))
        return tn_scope_fail(s, TN_E_ARGUMENT,
                             "stft align_to_window should only be set when center = false."),
               NULL;
    if (!complex && !arg_given(args, at + 2))
        return tn_scope_fail(
                   s, TN_E_ARGUMENT,
                   "stft requires the return_complex parameter be given for real inputs, and will further "
                   "require that return_complex=True in a future PyTorch release."),
               NULL;
    if (is_integer(dtype_of(self)))
        return tn_scope_fail(s, TN_E_DTYPE, "stft: expected a tensor of floating point or complex values"),
               NULL;
    if (rank_of(self) < 1 || rank_of(self) > 2)
        return tn_scope_fail(s, TN_E_SHAPE, "stft: expected a 1D or 2D tensor"), NULL;
    if (rank_of(self) == 1) t = tn_unsqueeze(s, t, 0);
    if (mode) t = centred(s, &f, t, mode);
    if (!t || check_frames(s, &f, tn_tensor_size(t, 1) + (align ? f.n_fft - f.length : 0))) return NULL;
    window = whole_window(s, &f, t);
    t = framed(s, &f, t, align);
    t = transformed(s, &f, window ? tn_mul(s, t, window) : t, args[at + 1]);
    if (rank_of(self) == 1) t = tn_squeeze_dim(s, t, 0);
    return arg_bool_or(args, at + 2, complex) ? t : tn_view_as_real(s, t);
}

/* stft (self, n_fft, hop_length, win_length, window, normalized, ...). */
void composite_stft(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, run_stft(s, args, 5, NULL));
}

/* stft.center (self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, ...). */
void composite_stft_center(tn_scope *s, const tn_value *args, tn_value *outs)
{
    give(outs, 0, run_stft(s, args, 7, arg_bool(args, 5) ? arg_string(args, 6) : NULL));
}

static int32_t check_spectra(tn_scope *s, const frames *f, const tn_tensor *t, int32_t onesided)
{
    if (!is_complex(dtype_of(t)))
        return tn_scope_fail(
            s, TN_E_DTYPE,
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True.");
    if (tn_tensor_numel(t) == 0) return tn_scope_fail(s, TN_E_SHAPE, "istft: input tensor cannot be empty.");
    if (rank_of(t) != 2 && rank_of(t) != 3)
        return tni_scope_failf(s, TN_E_SHAPE, "istft: expected a tensor with 2 or 3 dimensions, but got %lld",
                               (long long)rank_of(t));
    int64_t given = tn_tensor_size(t, -2), expected = onesided ? f->n_fft / 2 + 1 : f->n_fft;
    if (given != expected)
        return tni_scope_failf(
            s, TN_E_SHAPE,
            "istft: expected the frequency dimension (2nd to the last) of the input tensor to match "
            "%s when onesided=%s, but got %lld",
            onesided ? "n_fft / 2 + 1" : "n_fft", onesided ? "True" : "False", (long long)given);
    if (f->hop <= 0 || f->hop > f->length)
        return tn_scope_fail(s, TN_E_ARGUMENT, "istft: expected 0 < hop_length <= win_length");
    if (f->length <= 0 || f->length > f->n_fft)
        return tn_scope_fail(s, TN_E_ARGUMENT, "istft: expected 0 < win_length <= n_fft");
    if (f->window && (rank_of(f->window) != 1 || tn_tensor_size(f->window, 0) != f->length))
        return tn_scope_fail(s, TN_E_SHAPE,
                             "istft: Invalid window shape. window has to be 1D and length of `win_length`");
    return TN_OK;
}

/* The frames [batch, frame, n_fft] of spectra [batch, frequency, frame]. */
static tn_tensor *frames_from(tn_scope *s, const frames *f, tn_tensor *t, int32_t onesided, int32_t complex)
{
    int64_t normalization = f->normalized ? 1 : 2;
    t = tn_transpose(s, t, 1, 2);
    if (complex && onesided)
        return tn_scope_fail(s, TN_E_ARGUMENT, "Cannot have onesided output if window or input is complex"),
               NULL;
    if (complex) return tn__fft_c2c(s, t, TN_INTS(2), normalization, 0);
    if (f->window && is_complex(dtype_of(f->window)))
        return tn_scope_fail(s, TN_E_ARGUMENT, "Complex windows are incompatible with return_complex=False"),
               NULL;
    if (!onesided) t = tni_narrow(s, t, 2, 0, f->n_fft / 2 + 1);
    return tn__fft_c2r(s, t, TN_INTS(2), normalization, f->n_fft);
}

/* The sum of frames that overlap: [batch, length] from [batch, frame, n_fft]. */
static tn_tensor *joined(tn_scope *s, const frames *f, tn_tensor *t, int64_t length)
{
    return t ? tn_unfold_backward(s, t, TN_INTS(tn_tensor_size(t, 0), length), 1, f->n_fft, f->hop) : NULL;
}

/* Whether the sum of squared windows is so small somewhere that elements of the signal are lost. */
static int32_t loses_elements(tn_scope *s, tn_tensor *envelope)
{
    tn_tensor *least = tn_lt_scalar(s, tn_min(s, tn_abs(s, envelope)), 1e-11);
    return least && tn_item_bool(s, least);
}

/* istft (self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex). */
void composite_istft(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_tensor *self = arg_tensor(args, 0), *t = self, *window, *envelope;
    frames f = frames_of("istft", args, arg_bool(args, 6));
    int64_t bins = rank_of(self) > 1 ? tn_tensor_size(self, -2) : 0,
            start = arg_bool(args, 5) ? f.n_fft / 2 : 0;
    int32_t onesided = arg_bool_or(args, 7, bins != f.n_fft), complex = arg_bool(args, 9);
    if (check_spectra(s, &f, self, onesided)) return;
    int64_t count = tn_tensor_size(self, -1), length = f.n_fft + f.hop * (count - 1);
    int64_t end = arg_given(args, 8) ? start + arg_int(args, 8) : length - start;
    if (rank_of(self) == 2) t = tn_unsqueeze(s, t, 0);
    window = whole_window(s, &f, self);
    if (!window)
        window = tn_ones(s, TN_INTS(f.n_fft), .dtype = tni_dtype_to_real(dtype_of(self)),
                         .device = tn_tensor_device(self));
    t = frames_from(s, &f, t, onesided, complex);
    t = joined(s, &f, tn_mul(s, t, window), length);
    envelope = joined(s, &f, tn_expand(s, tn_mul(s, window, window), TN_INTS(1, count, f.n_fft)), length);
    t = tn_slice(s, t, .dim = 1, .start = start, .end = end);
    envelope = tn_slice(s, envelope, .dim = 1, .start = start, .end = end);
    if (loses_elements(s, envelope))
        return (void)tn_scope_fail(s, TN_E_ARGUMENT, "istft: window overlap add min: 1");
    t = tn_div(s, t, envelope);
    if (rank_of(self) == 2) t = tn_squeeze_dim(s, t, 0);
    give(outs, 0, end > length ? tn_constant_pad_nd(s, t, TN_INTS(0, end - length)) : t);
}
