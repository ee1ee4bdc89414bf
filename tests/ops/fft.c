/* SPDX-License-Identifier: Apache-2.0 */
/* The Fourier transforms that programs call: sizes, scales, frequencies, frames, refusals. */
#include <math.h>
#include "suite.h"

TestSuite(fft, .init = begin);

/* 1, 2, 3, 4: sum 10, then -2 + 2i, -2, -2 - 2i. */
Test(fft, of_four_elements)
{
    tn_tensor *x = VECTOR(s, 0, 1, 2, 3, 4), *y = tn_fft_fft(s, x);
    EXPECT(s, tn_real(s, y), 10, -2, -2, -2);
    EXPECT(s, tn_imag(s, y), 0, 2, 0, -2);
    EXPECT(s, tn_real(s, tn_fft_rfft(s, x, .norm = "ortho")), 5, -1, -1);
    EXPECT(s, tn_imag(s, tn_fft_ihfft(s, x, .norm = "forward")), 0, -2, 0);
    EXPECT(s, tn_fft_irfft(s, tn_fft_rfft(s, x)), 1, 2, 3, 4);
    EXPECT(s, tn_real(s, tn_fft_ifft(s, y)), 1, 2, 3, 4);
    EXPECT(s, tn_fft_hfft(s, tn_fft_ihfft(s, x), .n = 4), 1, 2, 3, 4);
    end();
}

Test(fft, cuts_and_fills)
{
    tn_tensor *x = VECTOR(s, 0, 1, 2, 3, 4);
    EXPECT(s, tn_real(s, tn_fft_rfft(s, x, .n = 2)), 3, -1);
    EXPECT(s, tn_real(s, tn_fft_fft(s, x, .n = 5)), 10, -4.045084971874737, 1.545084971874737,
           1.545084971874737, -4.045084971874737);
    tn_tensor *grid = make(s, TN_INTS(2, 2), VALUES(1, 2, 3, 4), 0);
    EXPECT(s, tn_real(s, tn_fft_fft2(s, grid)), 10, -2, -4, 0);
    EXPECT(s, tn_real(s, tn_fft_rfftn(s, grid, .s_ = TN_INTS(1, -1))), 3, -1);
    EXPECT(s, tn_fft_irfft2(s, tn_fft_rfft2(s, grid)), 1, 2, 3, 4);
    end();
}

/* Without dims nothing is transformed. */
Test(fft, of_no_dims)
{
    const tn_ints none = {(const int64_t[1]){0}, 0};
    tn_tensor *z = tn_fft_fft(s, VECTOR(s, 0, 1, 2, 3, 4));
    EXPECT(s, tn_real(s, tn__fft_c2c(s, z, none, 0, 1)), 10, -2, -2, -2);
    EXPECT(s, tn_real(s, tn_fft_fftn(s, z, .dim = none)), 10, -2, -2, -2);
    tn_fft_rfftn(s, tn_real(s, z), .dim = none);
    expect_error(s, "rfftn must transform at least one axis");
    end();
}

Test(fft, frequencies_and_shifts)
{
    EXPECT(s, tn_fft_fftfreq(s, 5, .d = 0.5, .dtype = TN_FLOAT64), 0, 0.4, 0.8, -0.8, -0.4);
    EXPECT(s, tn_fft_fftfreq(s, 4), 0, 0.25, -0.5, -0.25);
    EXPECT(s, tn_fft_rfftfreq(s, 5, .dtype = TN_FLOAT64), 0, 0.2, 0.4);
    EXPECT(s, tn_fft_fftshift(s, tn_fft_fftfreq(s, 4)), -0.5, -0.25, 0, 0.25);
    EXPECT(s, tn_fft_ifftshift(s, VECTOR(s, 0, -2, -1, 0, 1, 2)), 0, 1, 2, -2, -1);
    end();
}

Test(fft, refuses)
{
    tn_tensor *x = VECTOR(s, 0, 1, 2, 3, 4), *z = tn_fft_fft(s, x);
    tn_fft_fft(s, x, .n = 0);
    expect_error(s, "Invalid number of data points (0) specified");
    tn_fft_fft(s, x, .norm = "unit");
    expect_error(s, "Invalid normalization mode: \"unit\" (expected \"forward\", \"backward\" or \"ortho\")");
    tn_fft_rfft(s, z);
    expect_error(s, "rfft expects a real input tensor, but got ComplexDouble");
    tn_fft_fftn(s, x, .s_ = TN_INTS(2, 2));
    expect_error(s, "Got shape with 2 values but input tensor only has 1 dimensions.");
    tn_fft_fftn(s, x, .dim = TN_INTS(0, -1));
    expect_error(s, "FFT dims must be unique");
    tn_fft_fft(s, tn_to(s, x, TN_FLOAT16));
    expect_error(s, "Unsupported dtype Half");
    end();
}

/* Frames of 4, 2 apart: without padding 2 of a signal of 6, with it 4. */
Test(fft, frames)
{
    tn_tensor *x = VECTOR(s, 0, 1, 2, 3, 4, 5, 6), *w = VECTOR(s, 0, 1, 1, 1, 1);
    tn_tensor *y = tn_stft(s, x, 4, .hop_length = 2, .window = w, .return_complex = 1);
    EXPECT(s, tn_real(s, y), 10, 18, -2, -2, -2, -2);
    EXPECT(s, tn_imag(s, y), 0, 0, 2, 2, 0, 0);
    EXPECT(s, tn_istft(s, y, 4, .hop_length = 2, .center = 0), 1, 2, 3, 4, 5, 6);
    y = tn_stft_center(s, x, 4, .hop_length = 2, .win_length = 2, .return_complex = 1);
    EXPECT(s, tn_real(s, tn_select(s, y, 0, 0)), 3, 5, 9, 11);
    end();
}

Test(fft, frames_come_back)
{
    double values[50];
    for (int i = 0; i < 50; i++) values[i] = sin(0.3 * i * i);
    tn_tensor *x = make(s, TN_INTS(2, 25), values, 0), *w = tn_hann_window(s, 8, .dtype = TN_FLOAT64);
    tn_tensor *y =
        tn_stft_center(s, x, 8, .hop_length = 2, .window = w, .normalized = 1, .return_complex = 1);
    tn_tensor *z = tn_istft(s, y, 8, .hop_length = 2, .window = w, .normalized = 1, .length = 25);
    EXPECT(s, tn_amax(s, tn_lt_scalar(s, tn_abs(s, tn_sub(s, z, x)), 1e-14)), 1);
    tn_istft(s, y, 8, .hop_length = 8, .window = w);
    expect_error(s, "window overlap add min");
    tn_stft(s, x, 30, .return_complex = 1);
    expect_error(s, "stft: expected 0 < n_fft < 25, but got n_fft=30");
    tn_stft(s, x, 8);
    expect_error(s, "stft requires the return_complex parameter");
    end();
}

/* Signals of one element that is repeated: all power is in the first frequency. */
Test(fft, of_expanded_signals)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64};
    for (int32_t i = 0; i < 2; i++) {
        tn_tensor *column = tn_to(s, make(s, TN_INTS(2, 1), VALUES(3, -1), 0), dtypes[i]);
        tn_tensor *even = tn_expand(s, column, TN_INTS(2, 8)), *odd = tn_expand(s, column, TN_INTS(2, 5));
        EXPECT(s, tn_real(s, tn_fft_rfft(s, even)), 24, 0, 0, 0, 0, -8, 0, 0, 0, 0);
        EXPECT(s, tn_imag(s, tn_fft_rfft(s, even)), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        EXPECT(s, tn_select(s, tn_real(s, tn_fft_fft(s, even)), 1, 0), 24, -8);
        EXPECT(s, tn_select(s, tn_real(s, tn_fft_rfft(s, odd)), 1, 0), 15, -5);
        EXPECT(s, tn_real(s, tn_fft_ihfft(s, even)), 3, 0, 0, 0, 0, -1, 0, 0, 0, 0);
        EXPECT(s, tn_select(s, tn_real(s, tn_fft_rfft2(s, even)), 1, 0), 16, 32);
    }
    end();
}
