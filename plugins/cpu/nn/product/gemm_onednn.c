/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A primitive takes tens of microseconds to make and is tied to sizes, strides and factors, so the latest
 * primitives are kept: in sets of a few places, of which the one unused for longest is replaced. All run on one
 * thread, so a result depends on the product alone.
 */
#include "gemm_onednn.h"
#include "support/signals.h"
#include "vendor/onednn.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 128, PLACES = 4 };

/* All that a primitive depends on; compared as bytes, so it has no padding. */
typedef struct matmul_key {
    int64_t count, m, n, k;
    int64_t a_row, a_col, b_row, b_col, c_row;
    int64_t dtype, has_bias;
    double alpha, beta;
} matmul_key;

typedef struct matmul {
    matmul_key key;
    cpu_onednn_step step; /* without a primitive: oneDNN has no fast code for the key */
    dnnl_memory_desc_t a, b, c, bias;
    int64_t users;
    uint64_t last_use;
} matmul;

/* ---- Primitives -------------------------------------------------------------------------------------- */

/* `count` matrices of rows x columns, which lie one behind the other. */
static bool describe(const cpu_onednn *dnn, const matmul_key *key, int64_t rows, int64_t columns, int64_t row,
                     int64_t col, dnnl_memory_desc_t *out)
{
    dnnl_dims_t sizes = {key->count, rows, columns}, strides = {rows * columns, row, col};
    int batched = key->count > 1;
    return dnn->memory_desc_init_by_strides(out, 2 + batched, sizes + !batched,
                                            key->dtype == TN_BFLOAT16 ? dnnl_bf16 : dnnl_f32,
                                            strides + !batched) == dnnl_success;
}

/* The scratch memory is the caller's. dst = alpha * a * b + beta * dst. */
static bool make_attr(const cpu_onednn *dnn, const matmul_key *key, dnnl_primitive_attr_t *out)
{
    const float alpha = (float)key->alpha;
    dnnl_post_ops_t ops = NULL;
    bool made;
    if (dnn->primitive_attr_create(out) != dnnl_success) return false;
    made = dnn->primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user) == dnnl_success;
    if (made && alpha != 1) made = dnn->primitive_attr_set_output_scales(*out, 1, 0, &alpha) == dnnl_success;
    if (made && key->beta != 0) {
        made = dnn->post_ops_create(&ops) == dnnl_success &&
               dnn->post_ops_append_sum(ops, (float)key->beta) == dnnl_success &&
               dnn->primitive_attr_set_post_ops(*out, ops) == dnnl_success;
        if (ops) dnn->post_ops_destroy(ops);
    }
    if (!made) dnn->primitive_attr_destroy(*out);
    return made;
}

static bool make_primitive(const cpu_onednn *dnn, matmul *p)
{
    const matmul_key *key = &p->key;
    dnnl_primitive_attr_t attr;
    dnnl_matmul_desc_t d;
    dnnl_primitive_desc_t pd = NULL;
    bool made;
    if (!describe(dnn, key, key->m, key->k, key->a_row, key->a_col, &p->a) ||
        !describe(dnn, key, key->k, key->n, key->b_row, key->b_col, &p->b) ||
        !describe(dnn, key, key->m, key->n, key->c_row, 1, &p->c) ||
        !describe(dnn, key, 1, key->n, key->n, 1, &p->bias) || !make_attr(dnn, key, &attr))
        return false;
    made = dnn->matmul_desc_init(&d, &p->a, &p->b, key->has_bias ? &p->bias : NULL, &p->c) == dnnl_success &&
           dnn->primitive_desc_create(&pd, &d, attr, dnn->engine, NULL) == dnnl_success;
    dnn->primitive_attr_destroy(attr);
    if (!made) return false;
    if (!cpu_onednn_is_fast(dnn, pd)) {
        dnn->primitive_desc_destroy(pd);
        return false;
    }
    return cpu_onednn_step_make(dnn, pd, &p->step);
}

static matmul *make(const cpu_onednn *dnn, const matmul_key *key)
{
    matmul *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->key = *key;
    if (!make_primitive(dnn, p)) p->step.primitive = NULL;
    return p;
}

/* ---- Kept primitives --------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static matmul *kept[SETS][PLACES];
static uint64_t uses;

static matmul **set_of(const matmul_key *key)
{
    const uint64_t *words = (const uint64_t *)(const void *)key;
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof *key / sizeof *words; i++)
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15), hash ^= hash >> 29;
    return kept[hash % SETS];
}

static matmul *find(matmul **set, const matmul_key *key)
{
    for (int i = 0; i < PLACES; i++)
        if (set[i] && memcmp(&set[i]->key, key, sizeof *key) == 0) return set[i];
    return NULL;
}

/* An empty place, or that of the unused primitive whose last use is the longest ago; NULL if all are in use. */
static matmul **place_in(const cpu_onednn *dnn, matmul **set)
{
    matmul **best = NULL;
    for (int i = 0; i < PLACES; i++) {
        if (!set[i]) return &set[i];
        if (set[i]->users == 0 && (!best || set[i]->last_use < (*best)->last_use)) best = &set[i];
    }
    if (!best) return NULL;
    if ((*best)->step.primitive) dnn->primitive_destroy((*best)->step.primitive);
    free(*best);
    *best = NULL;
    return best;
}

/* The primitive of a key, to be given back; NULL if there is none. Between cpu_onednn_begin and cpu_onednn_end, because
 * primitives remember the number of threads. */
static matmul *take(const cpu_onednn *dnn, const matmul_key *key)
{
    matmul **set = set_of(key), **place, *p;
    pthread_mutex_lock(&lock);
    p = find(set, key);
    if (!p && (place = place_in(dnn, set)) != NULL) p = *place = make(dnn, key);
    if (p) p->last_use = ++uses;
    if (p && !p->step.primitive) p = NULL;
    if (p) p->users++;
    pthread_mutex_unlock(&lock);
    return p;
}

static void give_back(matmul *p)
{
    pthread_mutex_lock(&lock);
    p->users--;
    pthread_mutex_unlock(&lock);
}

/* ---- A product --------------------------------------------------------------------------------------- */

bool cpu_gemm_onednn_has_bfloat16(void)
{
    const cpu_onednn *dnn = cpu_onednn_get();
    return dnn && dnn->has_bfloat16;
}

/* The stride of a dimension of size 1 is arbitrary: keys have that of a matrix without gaps. */
static matmul_key key_of(tn_dtype dtype, const cpu_gemm *g)
{
    return (matmul_key){.count = max_i64(1, g->count),
                        .m = g->m,
                        .n = g->n,
                        .k = g->k,
                        .a_row = g->m > 1        ? g->a_row
                                 : g->a_col == 1 ? g->k
                                                 : 1,
                        .a_col = g->k > 1 ? g->a_col : 1,
                        .b_row = g->k > 1        ? g->b_row
                                 : g->b_col == 1 ? g->n
                                                 : 1,
                        .b_col = g->n > 1 ? g->b_col : 1,
                        .c_row = g->m > 1 ? g->c_row : g->n,
                        .dtype = dtype,
                        .has_bias = g->bias != NULL,
                        .alpha = g->alpha[0],
                        .beta = g->beta[0]};
}

static int32_t run_primitive(const tn_call *call, const cpu_onednn *dnn, const matmul *p, const cpu_gemm *g)
{
    cpu_onednn_operand operands[CPU_ONEDNN_OPERANDS] = {
        {DNNL_ARG_SRC, &p->a, (void *)(uintptr_t)g->a},
        {DNNL_ARG_WEIGHTS, &p->b, (void *)(uintptr_t)g->b},
        {DNNL_ARG_DST, &p->c, g->c},
        {DNNL_ARG_BIAS, &p->bias, (void *)(uintptr_t)g->bias}};
    int64_t bytes = p->step.scratch_bytes;
    void *scratch = bytes > 0 ? cpu_alloc(call, bytes) : NULL;
    int32_t status = TN_E_OUT_OF_MEMORY;
    if (scratch || bytes == 0)
        status = cpu_onednn_step_run(call, dnn, &p->step, operands, g->bias ? 4 : 3, scratch);
    cpu_free(call, scratch, bytes);
    return status;
}

int32_t cpu_gemm_onednn(const tn_call *call, tn_dtype dtype, const cpu_gemm *g)
{
    const cpu_onednn *dnn = cpu_onednn_get();
    matmul_key key = key_of(dtype, g);
    int32_t status = TN_E_UNSUPPORTED;
    int token = dnn ? cpu_onednn_begin(dnn, 1) : -1;
    matmul *p;
    if (token < 0) return TN_E_UNSUPPORTED;
    p = take(dnn, &key);
    if (p) {
        status = run_primitive(call, dnn, p, g);
        give_back(p);
    }
    cpu_onednn_end(dnn, token);
    return status;
}

int32_t cpu_gemm_onednn_sgemm(const tn_call *call, const cpu_gemm *g, bool a_transposed, int64_t a_lead,
                              bool b_transposed, int64_t b_lead)
{
    const cpu_onednn *dnn = cpu_onednn_get();
    dnnl_status_t status;
    uint64_t signals;
    int token = dnn ? cpu_onednn_begin(dnn, 1) : -1;
    if (token < 0) return TN_E_UNSUPPORTED;
    signals = cpu_signals_block_all();
    status =
        dnn->sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', g->m, g->n, g->k, (float)g->alpha[0],
                   g->a, a_lead, g->b, b_lead, (float)g->beta[0], g->c, max_i64(g->c_row, g->n));
    cpu_signals_restore_all(signals);
    cpu_onednn_end(dnn, token);
    cpu_onednn_check(call, status);
    return status == dnnl_success ? TN_OK : TN_E_UNSUPPORTED;
}
