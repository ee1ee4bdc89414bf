/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses how a product is computed and cuts it into tiles for the threads:
 *
 *   C loops   integers, small products, and products with few rows, which only have to read B once
 *   OpenBLAS  float and complex dtypes
 *   oneDNN    float32 (by matmul or sgemm) and bfloat16
 *   panels    half types otherwise: panels that fit the cache are widened to float32
 *
 * A library runs on one thread for each tile, so a deterministic call can have the same tiles for any number of
 * threads.
 */
#include "kernel_lists.h"
#include "gemm.h"
#include "gemm_choice.h"
#include "gemm_onednn.h"
#include "vendor/openblas.h"
#include <limits.h>
#include <math.h>

CPU_KERNEL_TABLE(cpu_kernel_table cpu_gemm_table, CPU_GEMM_LISTS, cpu_gemm_kernels);

/* Up to this number of multiplications C loops compute the product: one that is alone is not worth opening a
 * library for, one of a batch not a call of it. */
#define SMALL_PRODUCT  4096
#define SMALL_IN_BATCH 512
/* Products with so few rows are limited by the reading of B. */
#define THIN_ROWS 4
/* The least multiplications of a tile. */
#define TILE_WORK (1 << 20)
/* The most tiles; more would pack the operands too often. */
#define MAX_TILES 16
/* The most multiplications in one call of oneDNN, because signals are blocked meanwhile: some 50 milliseconds. */
#define ONEDNN_MOST_WORK ((int64_t)1 << 32)
/* Sizes of the panels of half types: three of 256 x 512 floats fit the second-level cache. */
enum { PANEL_SIDE = 256, PANEL_DEPTH = 512 };

static bool has_openblas(tn_dtype dtype)
{
    return dtype == TN_FLOAT32 || dtype == TN_FLOAT64 || dtype == TN_COMPLEX64 || dtype == TN_COMPLEX128;
}

/* How BLAS can read a strided matrix; false if it must be copied first. */
typedef struct blas_view {
    int trans;
    int64_t lead;
} blas_view;
static bool view_for_blas(int64_t rows, int64_t columns, int64_t row, int64_t col, blas_view *out)
{
    int64_t lead = rows == 1 ? max_i64(1, columns) : row;
    if ((col == 1 || columns == 1) && lead >= max_i64(1, columns)) {
        *out = (blas_view){CPU_BLAS_NO_TRANS, lead};
        return lead <= INT_MAX;
    }
    lead = columns == 1 ? max_i64(1, rows) : col;
    if ((row == 1 || rows == 1) && lead >= max_i64(1, rows)) {
        *out = (blas_view){CPU_BLAS_TRANS, lead};
        return lead <= INT_MAX;
    }
    return false;
}

/* False: OpenBLAS may not be called any more. */
static bool call_openblas(const cpu_openblas *l, tn_dtype dtype, const cpu_gemm *g, blas_view a, blas_view b)
{
    int m = (int)g->m, n = (int)g->n, k = (int)g->k, lda = (int)a.lead, ldb = (int)b.lead;
    int ldc = (int)max_i64(g->c_row, max_i64(1, g->n)), token = cpu_openblas_begin(l);
    const int order = CPU_BLAS_ROW_MAJOR;
    if (token < 0) return false;
    float alpha[2] = {(float)g->alpha[0], (float)g->alpha[1]},
          beta[2] = {(float)g->beta[0], (float)g->beta[1]};
    if (dtype == TN_FLOAT32)
        l->sgemm(order, a.trans, b.trans, m, n, k, alpha[0], g->a, lda, g->b, ldb, beta[0], g->c, ldc);
    else if (dtype == TN_FLOAT64)
        l->dgemm(order, a.trans, b.trans, m, n, k, g->alpha[0], g->a, lda, g->b, ldb, g->beta[0], g->c, ldc);
    else if (dtype == TN_COMPLEX64)
        l->cgemm(order, a.trans, b.trans, m, n, k, alpha, g->a, lda, g->b, ldb, beta, g->c, ldc);
    else
        l->zgemm(order, a.trans, b.trans, m, n, k, g->alpha, g->a, lda, g->b, ldb, g->beta, g->c, ldc);
    cpu_openblas_end(l, token);
    return true;
}

/* Copies an operand that BLAS cannot read; the caller frees *memory. */
static int32_t make_dense(const tn_call *call, tn_dtype dtype, int64_t rows, int64_t columns,
                          const void **data, int64_t *row, int64_t *col, void **memory)
{
    *memory = cpu_alloc(call, rows * columns * tn_dtype_bytes(dtype));
    if (!*memory) return TN_E_OUT_OF_MEMORY;
    cpu_gemm_kernels_of(dtype)->gather(*memory, *data, *row, *col, rows, columns);
    *data = *memory;
    *row = columns;
    *col = 1;
    return TN_OK;
}

/* Writes the bias to each row, to which the product is then added. */
static void begin_with_bias(const cpu_gemm_kernels *kernels, cpu_gemm *g, int64_t bytes)
{
    if (!g->bias) return;
    for (int64_t i = 0; i < g->m; i++)
        kernels->gather((char *)g->c + i * g->c_row * bytes, g->bias, 0, 1, 1, g->n);
    g->bias = NULL;
    g->beta[0] = 1;
}

/* By oneDNN, some rows at a time. TN_E_UNSUPPORTED: `g` has the rows that are left. */
static int32_t call_onednn(const tn_call *call, tn_dtype dtype, int32_t library, cpu_gemm *g, blas_view a,
                           blas_view b)
{
    int64_t bytes = tn_dtype_bytes(dtype), most = g->m;
    int32_t status = TN_OK;
    if (dtype == TN_FLOAT32 && g->count <= 1) most = max_i64(192, ONEDNN_MOST_WORK / max_i64(1, g->n * g->k));
    while (g->m > 0 && status == TN_OK) {
        cpu_gemm part = *g;
        part.m = min_i64(most, g->m);
        if (library == CPU_GEMM_ONEDNN)
            status = cpu_gemm_onednn(call, dtype, &part);
        else
            status = cpu_gemm_onednn_sgemm(call, &part, a.trans == CPU_BLAS_TRANS, a.lead,
                                           b.trans == CPU_BLAS_TRANS, b.lead);
        if (status != TN_OK) break;
        g->a = (const char *)g->a + part.m * g->a_row * bytes;
        g->c = (char *)g->c + part.m * g->c_row * bytes;
        g->m -= part.m;
    }
    return status;
}

/* A and B are as BLAS wants them. */
static int32_t call_library(const tn_call *call, tn_dtype dtype, int32_t library, cpu_gemm *g, blas_view a,
                            blas_view b)
{
    const cpu_openblas *openblas;
    const cpu_gemm_kernels *kernels = cpu_gemm_kernels_of(dtype);
    int32_t status = TN_E_UNSUPPORTED;
    if (library == CPU_GEMM_ONEDNN_SGEMM) begin_with_bias(kernels, g, tn_dtype_bytes(dtype));
    if (library != CPU_GEMM_OPENBLAS) status = call_onednn(call, dtype, library, g, a, b);
    if (status != TN_E_UNSUPPORTED || g->count > 1 || !has_openblas(dtype)) return status;
    begin_with_bias(kernels, g, tn_dtype_bytes(dtype));
    openblas = cpu_openblas_get();
    bool fits = g->m <= INT_MAX && g->n <= INT_MAX && g->k <= INT_MAX && g->c_row <= INT_MAX;
    if (!openblas || !fits || !call_openblas(openblas, dtype, g, a, b)) kernels->gemm(g);
    return TN_OK;
}

/* TN_E_UNSUPPORTED, with nothing written, if the library does not take the product. */
static int32_t gemm_library(const tn_call *call, tn_dtype dtype, int32_t library, cpu_gemm g)
{
    blas_view a = {0}, b = {0};
    void *a_copy = NULL, *b_copy = NULL;
    bool fits = true;
    int32_t status = TN_OK;
    if (!view_for_blas(g.m, g.k, g.a_row, g.a_col, &a)) {
        status = make_dense(call, dtype, g.m, g.k, &g.a, &g.a_row, &g.a_col, &a_copy);
        fits = status == TN_OK && view_for_blas(g.m, g.k, g.a_row, g.a_col, &a);
    }
    if (status == TN_OK && !view_for_blas(g.k, g.n, g.b_row, g.b_col, &b)) {
        status = make_dense(call, dtype, g.k, g.n, &g.b, &g.b_row, &g.b_col, &b_copy);
        fits = fits && status == TN_OK && view_for_blas(g.k, g.n, g.b_row, g.b_col, &b);
    }
    if (status == TN_OK && fits) status = call_library(call, dtype, library, &g, a, b);
    if (status == TN_OK && !fits) status = TN_E_UNSUPPORTED; /* too large for the library's ints */
    cpu_free(call, a_copy, g.m * g.k * tn_dtype_bytes(dtype));
    cpu_free(call, b_copy, g.k * g.n * tn_dtype_bytes(dtype));
    return status;
}

/* ---- Half types by panels ---------------------------------------------------------------------------- */

/* Widens a panel of rows x columns. One that is stored by columns stays so. */
static void widen_panel(const cpu_gemm_kernels *kernels, float *to, const void *from, int64_t row,
                        int64_t col, int64_t rows, int64_t columns, int64_t *out_row, int64_t *out_col)
{
    bool by_columns = row == 1 && col != 1;
    if (by_columns)
        kernels->widen(to, from, col, 1, columns, rows);
    else
        kernels->widen(to, from, row, col, rows, columns);
    *out_row = by_columns ? 1 : columns;
    *out_col = by_columns ? rows : 1;
}

typedef struct panels {
    float *a, *b, *c;
} panels;

/* The block of C at row i and column j: summed in float32 over the panels of K and rounded once. */
static int32_t run_panels(const tn_call *call, const cpu_gemm_kernels *kernels, const cpu_gemm *g, int64_t i,
                          int64_t j, const panels *to)
{
    cpu_gemm wide = *g;
    int32_t status = TN_OK;
    char *c = (char *)g->c + (i * g->c_row + j) * 2;
    wide.m = min_i64(PANEL_SIDE, g->m - i);
    wide.n = min_i64(PANEL_SIDE, g->n - j);
    wide.a = to->a;
    wide.b = to->b;
    wide.c = to->c;
    wide.c_row = wide.n;
    for (int64_t p = 0; p < g->k && status == TN_OK; p += PANEL_DEPTH) {
        wide.k = min_i64(PANEL_DEPTH, g->k - p);
        wide.beta[0] = p > 0;
        wide.beta[1] = 0;
        widen_panel(kernels, to->a, (const char *)g->a + (i * g->a_row + p * g->a_col) * 2, g->a_row,
                    g->a_col, wide.m, wide.k, &wide.a_row, &wide.a_col);
        widen_panel(kernels, to->b, (const char *)g->b + (p * g->b_row + j * g->b_col) * 2, g->b_row,
                    g->b_col, wide.k, wide.n, &wide.b_row, &wide.b_col);
        status = cpu_gemm_serial(call, TN_FLOAT32, &wide);
    }
    for (int64_t r = 0; status == TN_OK && r < wide.m; r++)
        kernels->narrow(c + r * g->c_row * 2, to->c + r * wide.n, wide.n, g->beta);
    return status;
}

static int32_t gemm_half(const tn_call *call, const cpu_gemm_kernels *kernels, cpu_gemm g)
{
    int64_t m = min_i64(PANEL_SIDE, g.m), n = min_i64(PANEL_SIDE, g.n), k = min_i64(PANEL_DEPTH, g.k);
    int64_t bytes = (m * k + k * n + m * n) * (int64_t)sizeof(float);
    float *memory = cpu_alloc(call, bytes);
    panels to = {memory, memory + m * k, memory + m * k + k * n};
    int32_t status = TN_OK;
    if (!memory) return TN_E_OUT_OF_MEMORY;
    begin_with_bias(kernels, &g, 2);
    for (int64_t i = 0; i < g.m && status == TN_OK; i += PANEL_SIDE)
        for (int64_t j = 0; j < g.n && status == TN_OK; j += PANEL_SIDE)
            status = run_panels(call, kernels, &g, i, j, &to);
    cpu_free(call, memory, bytes);
    return status;
}

/* ---- One thread -------------------------------------------------------------------------------------- */

/* A product with few rows that the C loops compute at the speed at which memory gives B. They want A by rows: where no
 * library has products of the dtype, a copy of A pays. */
static bool is_thin(tn_dtype dtype, const cpu_gemm *g)
{
    bool by_rows = g->a_col == 1 || g->k == 1 || dtype == TN_FLOAT16;
    return cpu_gemm_kernels_of(dtype)->thin && g->m <= THIN_ROWS && by_rows &&
           (g->b_row == 1 || g->b_col == 1) && g->k > 0;
}

static int32_t run_thin(const tn_call *call, tn_dtype dtype, cpu_gemm g)
{
    const cpu_gemm_kernels *kernels = cpu_gemm_kernels_of(dtype);
    void *rows = NULL;
    int32_t status =
        g.a_col == 1 || g.k == 1 ? TN_OK : make_dense(call, dtype, g.m, g.k, &g.a, &g.a_row, &g.a_col, &rows);
    if (status != TN_OK) return status;
    begin_with_bias(kernels, &g, tn_dtype_bytes(dtype));
    kernels->thin(&g, 0, g.n);
    cpu_free(call, rows, g.m * g.k * tn_dtype_bytes(dtype));
    return TN_OK;
}

/* The transposed product, for a result of one column. */
static cpu_gemm transposed(const cpu_gemm *g)
{
    cpu_gemm t = *g;
    t.m = g->n;
    t.n = g->m;
    t.a = g->b;
    t.a_row = g->b_col;
    t.a_col = g->b_row;
    t.b = g->a;
    t.b_row = g->a_col;
    t.b_col = g->a_row;
    t.c_row = t.n;
    return t;
}

int32_t cpu_gemm_with(const tn_call *call, tn_dtype dtype, int32_t library, const cpu_gemm *g)
{
    const cpu_gemm_kernels *kernels = cpu_gemm_kernels_of(dtype);
    int32_t status = TN_E_UNSUPPORTED;
    cpu_gemm rest = *g;
    if (library != CPU_GEMM_OPENBLAS) status = gemm_library(call, dtype, library, *g);
    if (status != TN_E_UNSUPPORTED) return status;
    if (kernels->widen) return gemm_half(call, kernels, *g);
    if (has_openblas(dtype)) status = gemm_library(call, dtype, CPU_GEMM_OPENBLAS, *g);
    if (status != TN_E_UNSUPPORTED) return status;
    begin_with_bias(kernels, &rest, tn_dtype_bytes(dtype));
    kernels->gemm(&rest);
    return TN_OK;
}

static int32_t run_one(const tn_call *call, tn_dtype dtype, const cpu_gemm *g, int64_t small)
{
    const cpu_gemm_kernels *kernels = cpu_gemm_kernels_of(dtype);
    cpu_gemm own = *g;
    if (g->m <= 0 || g->n <= 0) return TN_OK;
    if (g->m * g->n * g->k <= small) {
        begin_with_bias(kernels, &own, tn_dtype_bytes(dtype));
        kernels->gemm(&own);
        return TN_OK;
    }
    if (g->n == 1 && g->c_row == 1 && !g->bias) own = transposed(g);
    if (is_thin(dtype, &own)) return run_thin(call, dtype, own);
    return cpu_gemm_with(call, dtype, cpu_gemm_choose(call, dtype, g), g);
}

/* At most `count` products of a batch, from the i-th on. */
static cpu_gemm some_of(tn_dtype dtype, const cpu_gemm *g, int64_t i, int64_t count)
{
    int64_t bytes = tn_dtype_bytes(dtype);
    cpu_gemm some = *g;
    some.count = min_i64(count, g->count - i);
    some.a = (const char *)g->a + i * g->m * g->k * bytes;
    some.b = (const char *)g->b + i * g->k * g->n * bytes;
    some.c = (char *)g->c + i * g->m * g->n * bytes;
    return some;
}

int32_t cpu_gemm_serial(const tn_call *call, tn_dtype dtype, const cpu_gemm *g)
{
    int64_t work = g->m * g->n * g->k, most = max_i64(1, ONEDNN_MOST_WORK / max_i64(1, work)), i = 0;
    int32_t status = TN_OK;
    if (g->count <= 1) return run_one(call, dtype, g, SMALL_PRODUCT);
    if (work > SMALL_PRODUCT && cpu_gemm_choose(call, dtype, g) != CPU_GEMM_OPENBLAS && !is_thin(dtype, g))
        for (; i < g->count && status == TN_OK; i += most)
            status = gemm_library(call, dtype, CPU_GEMM_ONEDNN, some_of(dtype, g, i, most));
    if (status == TN_E_UNSUPPORTED) {
        i -= most; /* the first products that oneDNN did not take */
        status = TN_OK;
    }
    for (; i < g->count && status == TN_OK; i++) {
        cpu_gemm one = some_of(dtype, g, i, 1);
        status = run_one(call, dtype, &one, has_openblas(dtype) ? SMALL_IN_BATCH : SMALL_PRODUCT);
    }
    return status;
}

/* ---- Tiles ------------------------------------------------------------------------------------------- */

typedef struct tiling {
    const tn_call *call;
    const cpu_gemm *g;
    tn_dtype dtype;
    int64_t rows, columns, depth; /* of one tile */
    int64_t down, across, layers;
    char *partials; /* layers - 1 matrices, or NULL */
    int32_t status;
} tiling;

/* Cuts C into about `wanted` nearly square tiles; if C is too small, cuts K too. */
static void choose_tiles(tiling *t, int64_t wanted)
{
    const cpu_gemm *g = t->g;
    double side = sqrt((double)g->m * (double)g->n / (double)wanted);
    int64_t least = max_i64(48, (int64_t)side);
    t->rows = min_i64(g->m, round_up(least, 16));
    if (g->n < least) t->rows = min_i64(g->m, round_up(max_i64(48, ceil_div(g->m, wanted)), 16));
    t->down = ceil_div(g->m, t->rows);
    t->across = max_i64(1, min_i64(wanted / t->down, ceil_div(g->n, 48)));
    t->columns = round_up(ceil_div(g->n, t->across), 16);
    t->across = ceil_div(g->n, t->columns);
    t->layers = max_i64(1, min_i64(wanted / (t->down * t->across), g->k / 512));
    t->depth = max_i64(1, ceil_div(g->k, t->layers));
    t->layers = max_i64(1, ceil_div(g->k, t->depth));
}

static void run_tiles(void *user, int64_t begin, int64_t end, int32_t thread)
{
    tiling *t = user;
    int64_t bytes = tn_dtype_bytes(t->dtype);
    for (int64_t index = begin; index < end; index++) {
        int64_t layer = index % t->layers, tile = index / t->layers;
        int64_t i = tile / t->across * t->rows, j = tile % t->across * t->columns, p = layer * t->depth;
        cpu_gemm g = *t->g;
        g.a = (const char *)g.a + (i * g.a_row + p * g.a_col) * bytes;
        g.b = (const char *)g.b + (p * g.b_row + j * g.b_col) * bytes;
        if (g.bias) g.bias = (const char *)g.bias + j * bytes;
        g.m = min_i64(t->rows, g.m - i);
        g.n = min_i64(t->columns, g.n - j);
        g.k = min_i64(t->depth, g.k - p);
        if (layer == 0) {
            g.c = (char *)g.c + (i * g.c_row + j) * bytes;
        } else {
            g.c = t->partials + (((layer - 1) * t->g->m + i) * t->g->n + j) * bytes;
            g.c_row = t->g->n;
            g.beta[0] = g.beta[1] = 0;
            g.bias = NULL;
        }
        int32_t status = cpu_gemm_serial(t->call, t->dtype, &g);
        if (status != TN_OK) t->status = status;
    }
}

static void add_layers(void *user, int64_t begin, int64_t end, int32_t thread)
{
    tiling *t = user;
    int64_t bytes = tn_dtype_bytes(t->dtype), layer_bytes = t->g->m * t->g->n * bytes;
    for (int64_t i = begin; i < end; i++)
        for (int64_t layer = 1; layer < t->layers; layer++)
            cpu_gemm_kernels_of(t->dtype)->add((char *)t->g->c + i * t->g->c_row * bytes,
                                               t->partials + (layer - 1) * layer_bytes + i * t->g->n * bytes,
                                               t->g->n);
}

static int32_t gemm_tiled(const tn_call *call, tn_dtype dtype, const cpu_gemm *g, int64_t wanted)
{
    tiling t = {.call = call, .g = g, .dtype = dtype, .status = TN_OK};
    int64_t partial_bytes = 0;
    choose_tiles(&t, wanted);
    if (cpu_gemm_kernels_of(dtype)->widen && t.layers > 1) {
        t.layers = 1; /* half types: partial sums would be rounded */
        t.depth = g->k;
    }
    if (t.layers > 1) {
        partial_bytes = (t.layers - 1) * g->m * g->n * tn_dtype_bytes(dtype);
        t.partials = cpu_alloc(call, partial_bytes);
        if (!t.partials) return TN_E_OUT_OF_MEMORY;
    }
    cpu_parallel_ranges(call, t.down * t.across * t.layers, 1, run_tiles, &t);
    if (t.layers > 1 && t.status == TN_OK)
        cpu_parallel_ranges(call, g->m, grain_for(32768, g->n * t.layers), add_layers, &t);
    cpu_free(call, t.partials, partial_bytes);
    return t.status;
}

int32_t cpu_gemm_run(const tn_call *call, tn_dtype dtype, const cpu_gemm *g)
{
    bool deterministic = call->flags & TN_CALL_DETERMINISTIC;
    int64_t tiles = min_i64(g->m * g->n * max_i64(1, g->k) / TILE_WORK, MAX_TILES);
    if (!deterministic) tiles = call->threads <= 1 ? 1 : min_i64(tiles, max_i64(call->threads, 2) * 2);
    if (tiles <= 1) return cpu_gemm_serial(call, dtype, g);
    return gemm_tiled(call, dtype, g, tiles);
}
