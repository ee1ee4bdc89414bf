/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products in plain C, compiled once for each dtype and level: the whole of them for integers, small ones and
 * odd strides for the others. Blocks of B are unpacked into accumulators on the stack, so that the inner loop
 * is the same for every dtype and stride.
 */
#include "gemm.h"
#include "nn/types.h"

enum { BLOCK_M = 32, BLOCK_N = 32, BLOCK_K = 64, LANES = 16 };

static inline T read_at(const void *base, int64_t i)
{
    return ((const T *)base)[i];
}

static inline acc conjugate_if(acc x, int32_t conjugate)
{
#if CPU_KEY == 5
    return conjugate ? conjf(x) : x;
#elif CPU_KEY == 6
    return conjugate ? conj(x) : x;
#else
    (void)conjugate;
    return x;
#endif
}

static void unpack_b(const cpu_gemm *g, int64_t p0, int64_t j0, int64_t depth, int64_t width,
                     acc to[BLOCK_K][BLOCK_N])
{
    for (int64_t p = 0; p < depth; p++) {
        const T *row = (const T *)g->b + (p0 + p) * g->b_row + j0 * g->b_col;
        for (int64_t j = 0; j < width; j++) to[p][j] = load(row[j * g->b_col]);
        for (int64_t j = width; j < BLOCK_N; j++) to[p][j] = 0;
    }
}

static void add_block(const cpu_gemm *g, int64_t i, int64_t p0, int64_t depth, acc b[BLOCK_K][BLOCK_N],
                      acc *restrict sum)
{
    const T *a = (const T *)g->a + i * g->a_row + p0 * g->a_col;
    for (int64_t p = 0; p < depth; p++) {
        acc x = load(a[p * g->a_col]);
        for (int j = 0; j < BLOCK_N; j++) sum[j] += x * b[p][j];
    }
}

static void write_row(const cpu_gemm *g, int64_t i, int64_t j0, int64_t width, const acc *sum)
{
    T *c = (T *)g->c + i * g->c_row + j0;
    acc alpha = from_number(g->alpha), beta = from_number(g->beta);
    if (beta == 0) {
        for (int64_t j = 0; j < width; j++) c[j] = store(alpha * sum[j]);
    } else {
        for (int64_t j = 0; j < width; j++) c[j] = store(alpha * sum[j] + beta * load(c[j]));
    }
}

static void gemm(const cpu_gemm *g)
{
    acc b[BLOCK_K][BLOCK_N], sums[BLOCK_M][BLOCK_N];
    for (int64_t j0 = 0; j0 < g->n; j0 += BLOCK_N) {
        int64_t width = min_i64(BLOCK_N, g->n - j0);
        for (int64_t i0 = 0; i0 < g->m; i0 += BLOCK_M) {
            int64_t height = min_i64(BLOCK_M, g->m - i0);
            memset(sums, 0, sizeof(sums));
            for (int64_t p0 = 0; p0 < g->k; p0 += BLOCK_K) {
                int64_t depth = min_i64(BLOCK_K, g->k - p0);
                unpack_b(g, p0, j0, depth, width, b);
                for (int64_t i = 0; i < height; i++) add_block(g, i0 + i, p0, depth, b, sums[i]);
            }
            for (int64_t i = 0; i < height; i++) write_row(g, i0 + i, j0, width, sums[i]);
        }
    }
}

/* Sum of products in LANES accumulators that are added pairwise at the end. */
static inline acc dot_lanes(const T *restrict x, const T *restrict y, int64_t count)
{
    acc lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += load(x[i + j]) * load(y[i + j]);
    for (int j = 0; j < (int)(count % LANES); j++, i++) lane[j] += load(x[i]) * load(y[i]);
    for (int width = LANES / 2; width; width /= 2)
        for (int j = 0; j < width; j++) lane[j] += lane[j + width];
    return lane[0];
}

static acc dot_strided(const T *x, int64_t x_step, const T *y, int64_t y_step, int64_t count,
                       int32_t conjugate)
{
    acc lane[4] = {0};
    for (int64_t i = 0; i < count; i++)
        lane[i & 3] += conjugate_if(load(x[i * x_step]), conjugate) * load(y[i * y_step]);
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

static void dot(const void *x, int64_t x_step, const void *y, int64_t y_step, int32_t conjugate,
                int64_t begin, int64_t end, void *partial)
{
    const T *u = (const T *)x + begin * x_step, *v = (const T *)y + begin * y_step;
    acc sum = x_step == 1 && y_step == 1 && !(IS_COMPLEX && conjugate)
                  ? dot_lanes(u, v, end - begin)
                  : dot_strided(u, x_step, v, y_step, end - begin, conjugate);
    *(acc *)partial = sum;
}

static void dot_finish(const void *partials, int64_t count, void *out)
{
    acc sum = 0;
    for (int64_t i = 0; i < count; i++) sum += ((const acc *)partials)[i];
    *(T *)out = store(sum);
}

static inline void write_y(const cpu_gemv *g, int64_t i, acc sum)
{
    T *y = (T *)g->y;
    acc beta = from_number(g->beta), value = from_number(g->alpha) * sum;
    y[i] = store(beta == 0 ? value : value + beta * load(y[i]));
}

/* A by columns: adds one column after the other to a block of sums. */
static void gemv_columns(const cpu_gemv *g, int64_t begin, int64_t end)
{
    acc sums[256];
    for (int64_t i0 = begin; i0 < end; i0 += 256) {
        int64_t count = min_i64(256, end - i0);
        for (int64_t i = 0; i < count; i++) sums[i] = 0;
        for (int64_t p = 0; p < g->k; p++) {
            const T *restrict a = (const T *)g->a + i0 + p * g->a_col;
            acc x = load(read_at(g->x, p * g->x_step));
            for (int64_t i = 0; i < count; i++) sums[i] += load(a[i]) * x;
        }
        for (int64_t i = 0; i < count; i++) write_y(g, i0 + i, sums[i]);
    }
}

static void gemv(const cpu_gemv *g, int64_t begin, int64_t end)
{
    if (g->a_row == 1 && g->a_col != 1) {
        gemv_columns(g, begin, end);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        const T *a = (const T *)g->a + i * g->a_row, *x = g->x;
        write_y(g, i,
                g->a_col == 1 && g->x_step == 1 ? dot_lanes(a, x, g->k)
                                                : dot_strided(a, g->a_col, x, g->x_step, g->k, 0));
    }
}

/* Half types round after every step here, as ATen does: the sum of two products is not a long one. */
static inline acc rounded(acc x)
{
#if IS_HALF
    return load(store(x));
#else
    return x;
#endif
}

static void outer(const cpu_gemm *g, int64_t begin, int64_t end)
{
    acc alpha = rounded(from_number(g->alpha)), beta = rounded(from_number(g->beta));
    for (int64_t i = begin; i < end; i++) {
        acc x = rounded(alpha * load(read_at(g->a, i * g->a_row)));
        T *c = (T *)g->c + i * g->c_row;
        for (int64_t j = 0; j < g->n; j++) {
            acc value = rounded(x * load(read_at(g->b, j * g->b_col)));
            c[j] = store(beta == 0 ? value : rounded(beta * load(c[j])) + value);
        }
    }
}

static void gather(const void *from, int64_t row, int64_t col, int64_t rows, int64_t columns, void *to)
{
    T *out = to;
    for (int64_t i = 0; i < rows; i++) {
        const T *in = (const T *)from + i * row;
        if (col == 1) {
            memcpy(out + i * columns, in, (size_t)columns * sizeof(T));
            continue;
        }
        for (int64_t j = 0; j < columns; j++) out[i * columns + j] = in[j * col];
    }
}

static void add(const void *from, int64_t count, void *to)
{
    const T *restrict in = from;
    T *restrict out = to;
    for (int64_t i = 0; i < count; i++) out[i] = store(load(out[i]) + load(in[i]));
}

#if IS_HALF
static void widen_rows(const void *from, int64_t row, int64_t col, int64_t rows, int64_t columns, float *to)
{
    for (int64_t i = 0; i < rows; i++) {
        const T *in = (const T *)from + i * row;
        for (int64_t j = 0; j < columns; j++) to[i * columns + j] = load(in[j * col]);
    }
}
static void narrow_row(const float *from, int64_t count, const double beta[2], void *to)
{
    T *out = to;
    if (beta[0] == 0) {
        for (int64_t i = 0; i < count; i++) out[i] = store(from[i]);
    } else {
        for (int64_t i = 0; i < count; i++) out[i] = store(from[i] + (float)beta[0] * load(out[i]));
    }
}
#else
#define widen_rows NULL
#define narrow_row NULL
#endif

extern const cpu_product_kernels K(cpu_product_kernels);
const cpu_product_kernels K(cpu_product_kernels) = {
    .dtype = DTYPE_ID,
    .acc_bytes = sizeof(acc),
    .gemm = gemm,
    .gemv = gemv,
    .dot = dot,
    .dot_finish = dot_finish,
    .outer = outer,
    .gather = gather,
    .add = add,
    .widen = widen_rows,
    .narrow = narrow_row,
};
