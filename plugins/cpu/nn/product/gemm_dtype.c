/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products as C loops: all products of integers, and small ones and odd strides of the other dtypes. Blocks
 * of B are unpacked into acc on the stack, so the inner loop is the same for every dtype and stride.
 */
#include "gemm.h"
#include "nn/runs.h"
#if CPU_IS_FLOAT
#include "nn/lanes.h"
#endif
#if CPU_IS_COMPLEX
#include <complex.h>
#endif

enum { BLOCK_M = 32, BLOCK_N = 32, BLOCK_K = 64, LANES = 16 };

static inline acc load_at(const void *base, int64_t i)
{
    return load_acc((const E *)base + i);
}

static inline acc conjugate_if(acc x, int32_t conjugate)
{
#if CPU_IS_COMPLEX
    return conjugate ? FN(conj)(x) : x;
#else
    return x;
#endif
}

static void unpack_b(const cpu_gemm *g, int64_t p0, int64_t j0, int64_t depth, int64_t width,
                     acc to[BLOCK_K][BLOCK_N])
{
    for (int64_t p = 0; p < depth; p++) {
        const E *row = (const E *)g->b + (p0 + p) * g->b_row + j0 * g->b_col;
        for (int64_t j = 0; j < width; j++) to[p][j] = load_acc(&row[j * g->b_col]);
        for (int64_t j = width; j < BLOCK_N; j++) to[p][j] = 0;
    }
}

static void add_block(const cpu_gemm *g, int64_t i, int64_t p0, int64_t depth, acc b[BLOCK_K][BLOCK_N],
                      acc *restrict sum)
{
    const E *a = (const E *)g->a + i * g->a_row + p0 * g->a_col;
    for (int64_t p = 0; p < depth; p++) {
        acc x = load_acc(&a[p * g->a_col]);
        for (int j = 0; j < BLOCK_N; j++) sum[j] += x * b[p][j];
    }
}

static void write_row(const cpu_gemm *g, int64_t i, int64_t j0, int64_t width, const acc *sum)
{
    E *c = (E *)g->c + i * g->c_row + j0;
    acc alpha = from_scalar(g->alpha), beta = from_scalar(g->beta);
    if (beta == 0) {
        for (int64_t j = 0; j < width; j++) store_acc(&c[j], alpha * sum[j]);
    } else {
        for (int64_t j = 0; j < width; j++) store_acc(&c[j], alpha * sum[j] + beta * load_acc(&c[j]));
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
static inline acc dot_lanes(const E *restrict x, const E *restrict y, int64_t count)
{
    acc lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += load_acc(&x[i + j]) * load_acc(&y[i + j]);
    for (int j = 0; j < (int)(count % LANES); j++, i++) lane[j] += load_acc(&x[i]) * load_acc(&y[i]);
    for (int width = LANES / 2; width; width /= 2)
        for (int j = 0; j < width; j++) lane[j] += lane[j + width];
    return lane[0];
}

static acc dot_strided(const E *x, int64_t x_step, const E *y, int64_t y_step, int64_t count,
                       int32_t conjugate)
{
    acc lane[4] = {0};
    for (int64_t i = 0; i < count; i++)
        lane[i & 3] += conjugate_if(load_acc(&x[i * x_step]), conjugate) * load_acc(&y[i * y_step]);
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

static void dot(const void *x, int64_t x_step, const void *y, int64_t y_step, int32_t conjugate,
                int64_t begin, int64_t end, void *partial)
{
    const E *u = (const E *)x + begin * x_step, *v = (const E *)y + begin * y_step;
    acc sum = x_step == 1 && y_step == 1 && !(CPU_IS_COMPLEX && conjugate)
                  ? dot_lanes(u, v, end - begin)
                  : dot_strided(u, x_step, v, y_step, end - begin, conjugate);
    *(acc *)partial = sum;
}

static void dot_finish(const void *partials, int64_t count, void *out)
{
    acc sum = 0;
    for (int64_t i = 0; i < count; i++) sum += ((const acc *)partials)[i];
    store_acc((E *)out, sum);
}

static inline void write_y(const cpu_gemv *g, int64_t i, acc sum)
{
    E *y = (E *)g->y;
    acc beta = from_scalar(g->beta), value = from_scalar(g->alpha) * sum;
    store_acc(&y[i], beta == 0 ? value : value + beta * load_acc(&y[i]));
}

/* A by columns: adds one column after the other to a block of sums. */
static void gemv_columns(const cpu_gemv *g, int64_t begin, int64_t end)
{
    acc sums[256];
    for (int64_t i0 = begin; i0 < end; i0 += 256) {
        int64_t count = min_i64(256, end - i0);
        for (int64_t i = 0; i < count; i++) sums[i] = 0;
        for (int64_t p = 0; p < g->k; p++) {
            const E *restrict a = (const E *)g->a + i0 + p * g->a_col;
            acc x = load_at(g->x, p * g->x_step);
            for (int64_t i = 0; i < count; i++) sums[i] += load_acc(&a[i]) * x;
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
        const E *a = (const E *)g->a + i * g->a_row, *x = g->x;
        write_y(g, i,
                g->a_col == 1 && g->x_step == 1 ? dot_lanes(a, x, g->k)
                                                : dot_strided(a, g->a_col, x, g->x_step, g->k, 0));
    }
}

/* Half types round after every step here, as in ATen. */
static inline acc rounded(acc x)
{
#if CPU_IS_HALF
    E half;
    store_acc(&half, x);
    return load_acc(&half);
#else
    return x;
#endif
}

static void outer(const cpu_gemm *g, int64_t begin, int64_t end)
{
    acc alpha = rounded(from_scalar(g->alpha)), beta = rounded(from_scalar(g->beta));
    for (int64_t i = begin; i < end; i++) {
        acc x = rounded(alpha * load_at(g->a, i * g->a_row));
        E *c = (E *)g->c + i * g->c_row;
        for (int64_t j = 0; j < g->n; j++) {
            acc value = rounded(x * load_at(g->b, j * g->b_col));
            store_acc(&c[j], beta == 0 ? value : rounded(beta * load_acc(&c[j])) + value);
        }
    }
}

#if CPU_IS_FLOAT
/* ---- Products with few rows ---- */

enum { THIN_ROWS = 4, THIN_STRIP = 1024, THIN_DEPTH = 4 };
/* The most elements of A in a half type that are widened once for all columns. */
enum { THIN_WIDE = 8192 };

static inline void write_thin(const cpu_gemm *g, int64_t i, int64_t j, T sum)
{
    E *c = (E *)g->c + i * g->c_row + j;
    T value = (T)g->alpha[0] * sum;
    store(c, g->beta[0] == 0 ? value : value + (T)g->beta[0] * load(c));
}

/* `wide` has the elements of A in T, one row behind the other, or is NULL. */
ALWAYS_INLINE lanes thin_load(const cpu_gemm *g, const T *wide, int64_t i, int64_t p)
{
    return wide ? lanes_of_acc(wide + i * g->k + p) : lanes_load((const E *)g->a + i * g->a_row + p);
}

/*
 * B is read so many bytes ahead: the sums at the end of each column keep the processor from doing it early enough.
 * Addresses behind B do no harm.
 */
enum { THIN_AHEAD = 4096 };
ALWAYS_INLINE void read_ahead(const E *b)
{
    const char *from = (const char *)b + THIN_AHEAD;
    for (int64_t i = 0; i < LANE_COUNT * (int64_t)sizeof(E); i += 64) __builtin_prefetch(from + i);
}

/* Column j of C, from left to right through a column of B: the speed of memory limits such a product. */
ALWAYS_INLINE void column_dots(const cpu_gemm *g, const T *wide, int64_t j, const int rows, const int sets)
{
    const E *b = (const E *)g->b + j * g->b_col;
    lanes sum[THIN_ROWS][LANE_SETS] = {{{0}}};
    int64_t p = 0;
    for (; p + sets * LANE_COUNT <= g->k; p += sets * LANE_COUNT)
        for (int s = 0; s < sets; s++) {
            lanes y = lanes_load(b + p + s * LANE_COUNT);
            read_ahead(b + p + s * LANE_COUNT);
            for (int i = 0; i < rows; i++) sum[i][s] += y * thin_load(g, wide, i, p + s * LANE_COUNT);
        }
    for (; p + LANE_COUNT <= g->k; p += LANE_COUNT)
        for (int i = 0; i < rows; i++) sum[i][0] += lanes_load(b + p) * thin_load(g, wide, i, p);
    for (int i = 0; i < rows; i++) {
        T total = lanes_total_of_sets(sum[i]);
        for (int64_t q = p; q < g->k; q++) total += load((const E *)g->a + i * g->a_row + q) * load(b + q);
        write_thin(g, i, j, total);
    }
}

ALWAYS_INLINE void thin_columns_by(const cpu_gemm *g, const T *wide, int64_t begin, int64_t end)
{
    int64_t j = begin;
    switch (g->m) {
    case 1:
        for (; j < end; j++) column_dots(g, wide, j, 1, 4);
        break;
    case 2:
        for (; j < end; j++) column_dots(g, wide, j, 2, 2);
        break;
    case 3:
        for (; j < end; j++) column_dots(g, wide, j, 3, 2);
        break;
    default:
        for (; j < end; j++) column_dots(g, wide, j, 4, 2);
        break;
    }
}

static void thin_columns(const cpu_gemm *g, int64_t begin, int64_t end)
{
#if CPU_IS_HALF
    T wide[THIN_WIDE];
    if (g->m * g->k <= THIN_WIDE) {
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t p = 0; p < g->k; p++) wide[i * g->k + p] = load((const E *)g->a + i * g->a_row + p);
        thin_columns_by(g, wide, begin, end);
        return;
    }
#endif
    thin_columns_by(g, NULL, begin, end);
}

/* Adds a few rows of B, times elements of A, to the sums of a strip of columns. */
static inline void add_thin_rows(const cpu_gemm *g, int64_t i, int64_t p, int64_t j0, int64_t width,
                                 int depth, T *restrict sum)
{
    const E *a = (const E *)g->a + i * g->a_row + p, *b = (const E *)g->b + p * g->b_row + j0;
    T x[THIN_DEPTH];
    int64_t j = 0;
    for (int q = 0; q < depth; q++) x[q] = load(a + q);
    for (; j + LANE_COUNT <= width; j += LANE_COUNT) {
        lanes total = *(loose_lanes *)(sum + j);
        for (int q = 0; q < depth; q++) {
            total += x[q] * lanes_load(b + q * g->b_row + j);
            __builtin_prefetch(b + (q + depth) * g->b_row + j);
        }
        *(loose_lanes *)(sum + j) = total;
    }
    for (; j < width; j++)
        for (int q = 0; q < depth; q++) sum[j] += x[q] * load(b + q * g->b_row + j);
}

static void thin_strips(const cpu_gemm *g, int64_t begin, int64_t end)
{
    T sum[THIN_ROWS][THIN_STRIP];
    for (int64_t i0 = 0; i0 < g->m; i0 += THIN_ROWS) {
        int64_t rows = min_i64(THIN_ROWS, g->m - i0);
        for (int64_t j0 = begin; j0 < end; j0 += THIN_STRIP) {
            int64_t width = min_i64(THIN_STRIP, end - j0), p = 0;
            memset(sum, 0, sizeof sum);
            for (; p + THIN_DEPTH <= g->k; p += THIN_DEPTH)
                for (int64_t i = 0; i < rows; i++) add_thin_rows(g, i0 + i, p, j0, width, THIN_DEPTH, sum[i]);
            for (; p < g->k; p++)
                for (int64_t i = 0; i < rows; i++) add_thin_rows(g, i0 + i, p, j0, width, 1, sum[i]);
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < width; j++) write_thin(g, i0 + i, j0 + j, sum[i][j]);
        }
    }
}

static void thin_product(const cpu_gemm *g, int64_t begin, int64_t end)
{
    if (g->b_row == 1)
        thin_columns(g, begin, end);
    else
        thin_strips(g, begin, end);
}
#else
#define thin_product NULL
#endif

static void gather(void *to, const void *from, int64_t row, int64_t col, int64_t rows, int64_t columns)
{
    E *out = to;
    for (int64_t i = 0; i < rows; i++) {
        const E *in = (const E *)from + i * row;
        if (col == 1) {
            memcpy(out + i * columns, in, (size_t)columns * sizeof(E));
            continue;
        }
        for (int64_t j = 0; j < columns; j++) out[i * columns + j] = in[j * col];
    }
}

static void add(void *to, const void *from, int64_t count)
{
    const E *restrict in = from;
    E *restrict out = to;
    for (int64_t i = 0; i < count; i++) store_acc(&out[i], load_acc(&out[i]) + load_acc(&in[i]));
}

#if CPU_IS_HALF
static void widen_rows(float *to, const void *from, int64_t row, int64_t col, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++) {
        const E *in = (const E *)from + i * row;
        if (col == 1)
            run_read(in, columns, to + i * columns);
        else
            for (int64_t j = 0; j < columns; j++) to[i * columns + j] = load_acc(&in[j * col]);
    }
}
static void narrow_row(void *to, const float *from, int64_t count, const double beta[2])
{
    E *out = to;
    if (beta[0] == 0) {
        run_write(from, count, out);
    } else {
        for (int64_t i = 0; i < count; i++) store_acc(&out[i], from[i] + (float)beta[0] * load_acc(&out[i]));
    }
}
#else
#define widen_rows NULL
#define narrow_row NULL
#endif

CPU_KERNELS(cpu_gemm_kernels, .acc_bytes = sizeof(acc), .gemm = gemm, .gemv = gemv, .dot = dot,
            .dot_finish = dot_finish, .outer = outer, .thin = thin_product, .gather = gather, .add = add,
            .widen = widen_rows, .narrow = narrow_row);
