/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fourier transforms by Stockham's algorithm (D. Swarztrauber, "FFT algorithms for vector computers", 1984), which needs no
 * reordering. A line that fits into the memory of a group is transformed there, several short lines together: their points
 * alternate, so that they are one transform that begins with a stride. Longer lines take several passes, each of which is
 * a step of the same algorithm with a radix of some hundred points. Lengths with large prime factors are convolutions with
 * a chirp (L. Bluestein, 1970), by two transforms, which are two rounds of one pass if the group's memory suffices.
 */
#include "pair.h"
#include "transform.h"

#if GPU_PROCESSOR
#define GPU_ITEMS 1u
#define GPU_ME    0u
#else
#define GPU_ITEMS 128u
#define GPU_ME    gpu_group_item()
#endif
#if GPU_TYPE == 64
#define GPU_HALF GPU_FFT_POINTS_64
#else
#define GPU_HALF GPU_FFT_POINTS_32
#endif

/* ---- Transforms of a few points, in place -------------------------------------------------------------------- */

/* -i z. */
GPU_FUNCTION gpu_pair quarter(gpu_pair z)
{
    return pair_of(z.im, -z.re);
}

GPU_FUNCTION void transform_2(gpu_pair z[8])
{
    gpu_pair a = z[0], b = z[1];
    z[0] = plus(a, b);
    z[1] = minus(a, b);
}

GPU_FUNCTION void transform_3(gpu_pair z[8])
{
    gpu_pair sum = plus(z[1], z[2]), apart = quarter(scaled(minus(z[1], z[2]), (T)0.86602540378443864676));
    gpu_pair middle = minus(z[0], scaled(sum, (T)0.5));
    z[0] = plus(z[0], sum);
    z[1] = plus(middle, apart);
    z[2] = minus(middle, apart);
}

GPU_FUNCTION void transform_4(gpu_pair z[8])
{
    gpu_pair even = plus(z[0], z[2]), even_apart = minus(z[0], z[2]), odd = plus(z[1], z[3]);
    gpu_pair odd_apart = quarter(minus(z[1], z[3]));
    z[0] = plus(even, odd);
    z[1] = plus(even_apart, odd_apart);
    z[2] = minus(even, odd);
    z[3] = minus(even_apart, odd_apart);
}

GPU_FUNCTION void transform_5(gpu_pair z[8])
{
    const T cos_1 = (T)0.30901699437494742410, sin_1 = (T)0.95105651629515357212;
    const T cos_2 = (T)-0.80901699437494742410, sin_2 = (T)0.58778525229247312917;
    gpu_pair sum_1 = plus(z[1], z[4]), sum_2 = plus(z[2], z[3]), apart_1 = minus(z[1], z[4]), apart_2 = minus(z[2], z[3]);
    gpu_pair a = plus(z[0], plus(scaled(sum_1, cos_1), scaled(sum_2, cos_2)));
    gpu_pair b = plus(z[0], plus(scaled(sum_1, cos_2), scaled(sum_2, cos_1)));
    gpu_pair c = quarter(plus(scaled(apart_1, sin_1), scaled(apart_2, sin_2)));
    gpu_pair d = quarter(minus(scaled(apart_1, sin_2), scaled(apart_2, sin_1)));
    z[0] = plus(z[0], plus(sum_1, sum_2));
    z[1] = plus(a, c);
    z[2] = plus(b, d);
    z[3] = minus(b, d);
    z[4] = minus(a, c);
}

GPU_FUNCTION void transform_8(gpu_pair z[8])
{
    const T half_root = (T)0.70710678118654752440;
    gpu_pair even[8], odd[8];
    for (uint32_t t = 0; t < 4; t++) {
        even[t] = z[2 * t];
        odd[t] = z[2 * t + 1];
    }
    transform_4(even);
    transform_4(odd);
    odd[1] = pair_of((odd[1].re + odd[1].im) * half_root, (odd[1].im - odd[1].re) * half_root);
    odd[2] = quarter(odd[2]);
    odd[3] = pair_of((odd[3].im - odd[3].re) * half_root, -(odd[3].re + odd[3].im) * half_root);
    for (uint32_t t = 0; t < 4; t++) {
        z[t] = plus(even[t], odd[t]);
        z[t + 4] = minus(even[t], odd[t]);
    }
}

/* ---- Elements ------------------------------------------------------------------------------------------------ */

GPU_FUNCTION gpu_pair of_table(GPU_GLOBAL const T *tables, int64_t at)
{
    return pair_of(tables[2 * at], tables[2 * at + 1]);
}

GPU_FUNCTION gpu_pair turned(gpu_pair z, uint32_t is_turned)
{
    return is_turned ? pair_of(z.re, -z.im) : z;
}

/* Element e of a line; the imaginary parts of frequencies that a real line cannot have count as 0. */
GPU_FUNCTION gpu_pair read_element(GPU_GLOBAL const uint8_t *line, uint32_t e, gpu_fft f)
{
    uint32_t is_mirrored = f.flags & GPU_FFT_HALF_IN && e > f.size / 2u, from = is_mirrored ? f.size - e : e;
    GPU_GLOBAL const uint8_t *p = line + (int64_t)from * f.steps[1];
    if (e >= f.given) return pair_of(0, 0);
    T re = *(GPU_GLOBAL const T *)p, im = 0;
    if (f.flags & GPU_FFT_REAL_IN) return pair_of(re, im);
    if (!(f.flags & GPU_FFT_HALF_IN && (e == 0 || 2u * e == f.size))) im = *(GPU_GLOBAL const T *)(p + sizeof(T));
    return turned(pair_of(re, im), is_mirrored);
}

GPU_FUNCTION void write_element(GPU_GLOBAL uint8_t *p, gpu_pair z, uint32_t is_real)
{
    *(GPU_GLOBAL T *)p = z.re;
    if (!is_real) *(GPU_GLOBAL T *)(p + sizeof(T)) = z.im;
}

/* e^(-2 pi i k / n) of the whole line. */
GPU_FUNCTION gpu_pair line_root(GPU_GLOBAL const T *tables, uint32_t k, gpu_fft f)
{
    gpu_pair root = of_table(tables, f.tables[GPU_FFT_FINE] + k % f.fine);
    if (k >= f.fine) root = times(root, of_table(tables, f.tables[GPU_FFT_COARSE] + k / f.fine));
    return root;
}

/* ---- The kernel ---------------------------------------------------------------------------------------------- */

/* For each transform b of `radix` points: k is its frequency in this step, q those of the steps before and the lane. */
#if GPU_PROCESSOR
#define GPU_FFT_EACH(b, k, q)                        \
    for (uint32_t k = 0; k < many / step; k++)       \
        GPU_INDEPENDENT                              \
    for (uint32_t q = 0, b = k * step; q < step; q++, b++)
#define GPU_FFT_PLACE(b, k, q)
#else
#define GPU_FFT_EACH(b, k, q) for (uint32_t b = GPU_ME; b < many; b += GPU_ITEMS)
#define GPU_FFT_PLACE(b, k, q) uint32_t k = b / step, q = b % step;
#endif

#define GPU_FFT_STEP(radix)                                                                        \
    GPU_FFT_EACH(b, k, q)                                                                          \
    {                                                                                              \
        GPU_FFT_PLACE(b, k, q)                                                                     \
        gpu_pair z[8];                                                                             \
        for (uint32_t t = 0; t < radix; t++) z[t] = pair_of(re[here + b + t * many], im[here + b + t * many]); \
        transform_##radix(z);                                                                      \
        for (uint32_t j = 0; j < radix; j++) {                                                     \
            uint32_t to = there + q + step * (radix * k + j);                                      \
            if (j > 0 && k > 0) z[j] = times(z[j], of_table(tables, f.tables[GPU_FFT_ROOTS] + done * k * j)); \
            re[to] = z[j].re;                                                                      \
            im[to] = z[j].im;                                                                      \
        }                                                                                          \
    }

/* Which point of which transform element i of the group is. */
#define GPU_FFT_FIND(is_near)                                                          \
    uint32_t lane = is_near ? i % lanes : i / f.points, point = is_near ? i / lanes : i % f.points; \
    uint32_t transform = first + lane;                                                 \
    uint32_t is_beside = f.flags & GPU_FFT_LINES_NEAR;                                 \
    uint32_t line = f.first + (is_beside ? transform % f.lines : transform / f.others); \
    uint32_t other = is_beside ? transform / f.lines : transform % f.others;           \
    int64_t at[2] = {f.offsets[0], f.offsets[1]};                                      \
    GPU_WALK(f, 0, f.rank, line, at, 2)

/* A group takes `lanes` transforms. Their points lie in re and im, in one half of each and then in the other. */
GPU_KERNEL void fft_pass(GPU_GLOBAL uint8_t *out, GPU_GLOBAL const uint8_t *in, GPU_GLOBAL const T *tables, gpu_fft f)
{
    GPU_LOCAL T re[2 * GPU_HALF];
    GPU_LOCAL T im[2 * GPU_HALF];
    uint32_t first = gpu_item() / GPU_ITEMS * f.lanes, here = 0;
    uint32_t lanes = f.transforms - first < f.lanes ? f.transforms - first : f.lanes, count = lanes * f.points;
    for (uint32_t i = GPU_ME; i < count; i += GPU_ITEMS) {
        GPU_FFT_FIND(f.flags & GPU_FFT_IN_NEAR)
        uint32_t e = other + point * f.others;
        gpu_pair z = turned(read_element(in + at[1], e, f), f.flags & GPU_FFT_TURN_IN);
        if (f.flags & GPU_FFT_HAS_BEFORE && e < f.given) z = times(z, of_table(tables, f.tables[GPU_FFT_BEFORE] + e));
        re[point * lanes + lane] = z.re;
        im[point * lanes + lane] = z.im;
    }
    for (uint32_t round = 0; round < f.rounds; round++) {
        uint32_t done = 1, step = lanes;
        if (round > 0) {
            GPU_BARRIER();
            for (uint32_t i = GPU_ME; i < count; i += GPU_ITEMS) {
                gpu_pair z = pair_of(re[here + i], im[here + i]);
                z = times(z, of_table(tables, f.tables[GPU_FFT_AMID] + i / lanes));
                re[here + i] = z.re;
                im[here + i] = -z.im;
            }
        }
        for (uint32_t n = 0; n < f.n_radices; n++) {
            uint32_t radix = GPU_OF_INDEX(f.radices, n), many = count / radix, there = (uint32_t)GPU_HALF - here;
            GPU_BARRIER();
            if (radix == 2u) {
                GPU_FFT_STEP(2)
            } else if (radix == 3u) {
                GPU_FFT_STEP(3)
            } else if (radix == 4u) {
                GPU_FFT_STEP(4)
            } else if (radix == 5u) {
                GPU_FFT_STEP(5)
            } else if (radix == 8u) {
                GPU_FFT_STEP(8)
            } else {
                for (uint32_t i = GPU_ME; i < count; i += GPU_ITEMS) {
                    uint32_t b = i % many, j = i / many, k = b / step, to = there + b % step + step * (radix * k + j);
                    gpu_pair sum = pair_of(re[here + b], im[here + b]);
                    for (uint32_t t = 1; t < radix; t++) {
                        gpu_pair root =
                            of_table(tables, f.tables[GPU_FFT_ROOTS] + j * t % radix * (f.points / radix));
                        sum = plus(sum, times(pair_of(re[here + b + t * many], im[here + b + t * many]), root));
                    }
                    if (j > 0 && k > 0) sum = times(sum, of_table(tables, f.tables[GPU_FFT_ROOTS] + done * k * j));
                    re[to] = sum.re;
                    im[to] = sum.im;
                }
            }
            here = there;
            done *= radix;
            step *= radix;
        }
    }
    GPU_BARRIER();
    for (uint32_t i = GPU_ME; i < count; i += GPU_ITEMS) {
        GPU_FFT_FIND(f.flags & GPU_FFT_OUT_NEAR)
        uint32_t k = other / f.stride, e = other % f.stride + f.stride * (f.points * k + point);
        gpu_pair z = pair_of(re[here + point * lanes + lane], im[here + point * lanes + lane]);
        if (e >= f.kept) continue;
        if (k > 0 && point > 0) z = times(z, line_root(tables, f.stride * k * point, f));
        z = turned(z, f.flags & GPU_FFT_TURN_AMID);
        if (f.flags & GPU_FFT_HAS_AFTER) z = times(z, of_table(tables, f.tables[GPU_FFT_AFTER] + e));
        z = turned(scaled(z, gpu_value(f.scale)), f.flags & GPU_FFT_TURN_OUT);
        write_element(out + at[0] + (int64_t)e * f.steps[0], z, f.flags & GPU_FFT_REAL_OUT);
    }
}
