/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses how a product is computed (C loops for integers and small products, OpenBLAS for float and complex
 * ones, through float32 for half types) and cuts it into tiles for the threads. OpenBLAS runs on one thread
 * per tile, so a deterministic call can have the same tiles for any number of threads.
 */
#include "kernel_lists.h"
#include "gemm.h"
#include "vendor/openblas.h"
#include <limits.h>
#include <math.h>

#define DECLARE(table, slot, level) extern const cpu_gemm_kernels table;
CPU_GEMM_LISTS(DECLARE)
cpu_kernel_table cpu_gemm_table = {CPU_GEMM_LISTS(CPU_LISTED_KERNELS)};

/* Below this number of multiplications the C loop is faster than a call of the library. */
#define SMALL_PRODUCT 4096
/* The least multiplications of a tile. */
#define TILE_WORK (1 << 20)
/* The most tiles; more would pack the operands too often. */
#define MAX_TILES 16

static bool has_library(tn_dtype dtype)
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

static void call_library(const cpu_openblas *l, tn_dtype dtype, const cpu_gemm *g, blas_view a, blas_view b)
{
    int m = (int)g->m, n = (int)g->n, k = (int)g->k, lda = (int)a.lead, ldb = (int)b.lead;
    int ldc = (int)max_i64(g->c_row, max_i64(1, g->n)), token = cpu_openblas_begin(l);
    const int order = CPU_BLAS_ROW_MAJOR;
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
}

/* Copies an operand that BLAS cannot read; the caller frees *memory. */
static int32_t make_dense(const tn_call *call, tn_dtype dtype, int64_t rows, int64_t columns,
                          const void **data, int64_t *row, int64_t *col, void **memory)
{
    *memory = cpu_alloc(call, rows * columns * tn_dtype_bytes(dtype));
    if (!*memory) return TN_E_OUT_OF_MEMORY;
    cpu_gemm_kernels_of(dtype)->gather(*data, *row, *col, rows, columns, *memory);
    *data = *memory;
    *row = columns;
    *col = 1;
    return TN_OK;
}

static int32_t gemm_library(const tn_call *call, tn_dtype dtype, const cpu_openblas *library, cpu_gemm g)
{
    blas_view a = {0}, b = {0};
    void *a_copy = NULL, *b_copy = NULL;
    int32_t status = TN_OK;
    if (!view_for_blas(g.m, g.k, g.a_row, g.a_col, &a))
        status = make_dense(call, dtype, g.m, g.k, &g.a, &g.a_row, &g.a_col, &a_copy);
    if (status == TN_OK && !view_for_blas(g.k, g.n, g.b_row, g.b_col, &b))
        status = make_dense(call, dtype, g.k, g.n, &g.b, &g.b_row, &g.b_col, &b_copy);
    if (status == TN_OK) {
        if (!view_for_blas(g.m, g.k, g.a_row, g.a_col, &a) || !view_for_blas(g.k, g.n, g.b_row, g.b_col, &b))
            cpu_gemm_kernels_of(dtype)->gemm(&g); /* too large for the library's ints */
        else
            call_library(library, dtype, &g, a, b);
    }
    cpu_free(call, a_copy, g.m * g.k * tn_dtype_bytes(dtype));
    cpu_free(call, b_copy, g.k * g.n * tn_dtype_bytes(dtype));
    return status;
}

/* Half types: computed in float32 and rounded once. */
static int32_t gemm_half(const tn_call *call, const cpu_gemm_kernels *kernels, const cpu_gemm *g)
{
    int64_t a_count = g->m * g->k, b_count = g->k * g->n, c_count = g->m * g->n;
    int64_t bytes = (a_count + b_count + c_count) * (int64_t)sizeof(float);
    float *a = cpu_alloc(call, bytes), *b = a + a_count, *c = b + b_count;
    int32_t status;
    cpu_gemm wide = *g;
    if (!a) return TN_E_OUT_OF_MEMORY;
    kernels->widen(g->a, g->a_row, g->a_col, g->m, g->k, a);
    /* A transposed B stays transposed: its columns are widened as rows. */
    if (g->b_row == 1 && g->b_col != 1) {
        kernels->widen(g->b, g->b_col, 1, g->n, g->k, b);
        wide.b_row = 1;
        wide.b_col = g->k;
    } else {
        kernels->widen(g->b, g->b_row, g->b_col, g->k, g->n, b);
        wide.b_row = g->n;
        wide.b_col = 1;
    }
    wide.a = a;
    wide.a_row = g->k;
    wide.a_col = 1;
    wide.b = b;
    wide.c = c;
    wide.c_row = g->n;
    wide.beta[0] = wide.beta[1] = 0;
    status = cpu_gemm_serial(call, TN_FLOAT32, &wide);
    for (int64_t i = 0; status == TN_OK && i < g->m; i++)
        kernels->narrow(c + i * g->n, g->n, g->beta, (char *)g->c + i * g->c_row * 2);
    cpu_free(call, a, bytes);
    return status;
}

int32_t cpu_gemm_serial(const tn_call *call, tn_dtype dtype, const cpu_gemm *g)
{
    const cpu_gemm_kernels *kernels = cpu_gemm_kernels_of(dtype);
    const cpu_openblas *library;
    bool small = g->m * g->n * g->k <= SMALL_PRODUCT;
    if (g->m <= 0 || g->n <= 0) return TN_OK;
    if (!small && kernels->widen) return gemm_half(call, kernels, g);
    library = small || !has_library(dtype) ? NULL : cpu_openblas_get();
    if (library && g->m <= INT_MAX && g->n <= INT_MAX && g->k <= INT_MAX && g->c_row <= INT_MAX)
        return gemm_library(call, dtype, library, *g);
    kernels->gemm(g);
    return TN_OK;
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
        g.m = min_i64(t->rows, g.m - i);
        g.n = min_i64(t->columns, g.n - j);
        g.k = min_i64(t->depth, g.k - p);
        if (layer == 0) {
            g.c = (char *)g.c + (i * g.c_row + j) * bytes;
        } else {
            g.c = t->partials + (((layer - 1) * t->g->m + i) * t->g->n + j) * bytes;
            g.c_row = t->g->n;
            g.beta[0] = g.beta[1] = 0;
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
            cpu_gemm_kernels_of(t->dtype)->add(t->partials + (layer - 1) * layer_bytes + i * t->g->n * bytes,
                                               t->g->n, (char *)t->g->c + i * t->g->c_row * bytes);
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
