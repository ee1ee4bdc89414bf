/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of matrices by cuBLASLt, if it is installed. Its matrices have contiguous columns, ours rows: so it computes
 * the transposed product, and its first matrix is our second. A plan is what the library chose for one kind of product; plans
 * are kept, and choosing is slow. What the library refuses before it has queued anything is left to the family's kernels.
 */
#include "cublaslt.h"
#include "cuda_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define NEWEST "libcublasLt.so.13"
#define OLDER  "libcublasLt.so.12"

enum {
    BUCKETS = 256,
    PLANS = 4096,         /* as many are kept; then all are made anew */
    BIAS_ALIGNMENT = 16,  /* bytes; the library has no preference for it */
    WORKSPACE = 32 << 20, /* bytes that a plan may ask for: what NVIDIA advises for sm_90 */
};

/* What a plan depends on. No gaps: compared as bytes. */
typedef struct plan_key {
    uint64_t rows, columns, depth, batches;
    int64_t strides[4], batch_strides[4]; /* of out, a, b, added */
    uint32_t dtype, sums, reductions, has_bias;
    uint32_t is_transposed[2]; /* a, b */
    uint32_t alignments[4];
} plan_key;

typedef struct plan {
    struct plan *next;
    plan_key key;
    int32_t is_supported;
    void *description, *layouts[4]; /* of b, a, added, out, in the library's order */
    lt_choice choice;
} plan;

struct cuda_blas {
#define DECLARE(result, name, arguments) result(*name) arguments;
    CUBLASLT_FUNCTIONS(DECLARE)
#undef DECLARE
    void *library, *handle; /* handle NULL: the library is not there, or it has failed */
    pthread_mutex_t lock;
    plan *plans[BUCKETS];
    uint32_t n_plans;
};

/* ---- The library -------------------------------------------------------------------------------------------- */

/* A line for the program's log, once for each device. */
static void tell(const cuda_device *d, const char *text)
{
    const tn_host *host = d->plugin->host;
    char line[160];
    snprintf(line, sizeof line, "cuda:%u: %s", d->index, text);
    host->log(host->context, TN_LOG_INFO, line);
}

static int32_t load(cuda_blas *b)
{
    b->library = dlopen(NEWEST, RTLD_NOW | RTLD_LOCAL);
    if (!b->library) b->library = dlopen(OLDER, RTLD_NOW | RTLD_LOCAL);
    if (!b->library) return 0;
#define LOAD(result, name, arguments)                      \
    *(void **)(void *)&b->name = dlsym(b->library, #name); \
    if (!b->name) return 0;
    CUBLASLT_FUNCTIONS(LOAD)
#undef LOAD
    return 1;
}

static cuda_blas *make_blas(cuda_device *d)
{
    char text[128];
    cuda_blas *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    pthread_mutex_init(&b->lock, NULL);
    if (!load(b)) {
        tell(d, b->library ? "cuBLASLt lacks a function: the plugin's own kernels compute products"
                           : NEWEST " not found: the plugin's own kernels compute products");
        return b;
    }
    int32_t was_entered = cuda_enter(d);
    int result = b->cublasLtCreate(&b->handle);
    cuda_leave(d, was_entered);
    if (result) {
        b->handle = NULL;
        snprintf(text, sizeof text, "cublasLtCreate failed (%s): the plugin's own kernels compute products",
                 b->cublasLtGetStatusName(result));
    } else {
        snprintf(text, sizeof text, "cuBLASLt %zu computes products", b->cublasLtGetVersion());
    }
    tell(d, text);
    return b;
}

/* The device's library, which may have no handle; NULL without host memory. */
static cuda_blas *blas_of(cuda_device *d)
{
    cuda_blas *b = __atomic_load_n(&d->blas, __ATOMIC_ACQUIRE);
    if (b) return b;
    pthread_mutex_lock(&d->lock);
    b = d->blas;
    if (!b) {
        b = make_blas(d);
        __atomic_store_n(&d->blas, b, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&d->lock);
    return b;
}

static void destroy_plan(const cuda_blas *b, plan *p)
{
    for (uint32_t k = 0; k < 4; k++)
        if (p->layouts[k]) b->cublasLtMatrixLayoutDestroy(p->layouts[k]);
    if (p->description) b->cublasLtMatmulDescDestroy(p->description);
    free(p);
}

static void forget_plans(cuda_blas *b)
{
    for (uint32_t i = 0; i < BUCKETS; i++) {
        for (plan *p = b->plans[i], *next; p; p = next) {
            next = p->next;
            destroy_plan(b, p);
        }
        b->plans[i] = NULL;
    }
    b->n_plans = 0;
}

/* The library stays loaded, as that of the driver does. */
void cuda_blas_destroy(cuda_device *d)
{
    cuda_blas *b = d->blas;
    if (!b) return;
    forget_plans(b);
    int32_t was_entered = cuda_enter(d);
    if (b->handle) b->cublasLtDestroy(b->handle);
    cuda_leave(d, was_entered);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* ---- Plans -------------------------------------------------------------------------------------------------- */

static const void *matrix_at(const gpu_matrix *m)
{
    return (const char *)m->memory + m->offset;
}

/* The largest power of two, up to 256, of which an address is a multiple. */
static uint32_t alignment_of(const gpu_matrix *m)
{
    uintptr_t address = (uintptr_t)matrix_at(m) | 256;
    return (uint32_t)(address & -address);
}

/*
 * Sums of half types may be put together in half types if the call allows it. In deterministic mode parts are added in one
 * order: in the type of sums, in the workspace. All plans may take the same workspace, so that the choice does not depend on
 * the memory that is free; each call has one of its own, so that streams do not share any.
 */
static uint32_t reductions_of(const tn_call *call, uint32_t dtype)
{
    if (call->flags & TN_CALL_DETERMINISTIC) return LT_REDUCE_COMPUTE;
    if (dtype < GPU_F32 && !(call->flags & TN_CALL_ALLOW_HALF_ACCUMULATION)) return LT_REDUCE_COMPUTE;
    return LT_REDUCE_IN_PLACE | LT_REDUCE_COMPUTE | LT_REDUCE_OUTPUT;
}

static plan_key key_of(const tn_call *call, const gpu_matrices *m)
{
    const gpu_matrix *added = m->added.memory ? &m->added : &m->out;
    int32_t is_tf32 = m->dtype == GPU_F32 && (call->flags & TN_CALL_ALLOW_TF32);
    return (plan_key){
        .rows = m->rows,
        .columns = m->columns,
        .depth = m->depth,
        .batches = m->batches,
        .strides = {m->out.stride, m->a.stride, m->b.stride, added->stride},
        .batch_strides = {m->out.batch_stride, m->a.batch_stride, m->b.batch_stride, added->batch_stride},
        .dtype = m->dtype,
        .sums = m->dtype == GPU_F64 ? CUBLAS_BY_64F
                : is_tf32           ? CUBLAS_BY_TF32
                                    : CUBLAS_BY_32F,
        .reductions = reductions_of(call, m->dtype),
        .has_bias = m->bias.memory != NULL,
        .is_transposed = {m->a.is_transposed, m->b.is_transposed},
        .alignments = {alignment_of(&m->b), alignment_of(&m->a), alignment_of(added), alignment_of(&m->out)}};
}

static int type_of(uint32_t dtype)
{
    static const int types[] = {[GPU_F16] = CUBLAS_R_16F,
                                [GPU_BF16] = CUBLAS_R_16BF,
                                [GPU_F32] = CUBLAS_R_32F,
                                [GPU_F64] = CUBLAS_R_64F};
    return types[dtype];
}

/* A layout of the library has columns; `lines` are ours, rows or columns of a transposed matrix, of so many elements. */
static int make_layout(const cuda_blas *b, const plan_key *k, uint64_t elements, uint64_t lines,
                       int64_t stride, int64_t batch_stride, void **out)
{
    const int32_t batches = (int32_t)k->batches;
    int result = b->cublasLtMatrixLayoutCreate(out, type_of(k->dtype), elements, lines, stride);
    if (result || batches == 1) return result;
    result = b->cublasLtMatrixLayoutSetAttribute(*out, LT_LAYOUT_BATCH_COUNT, &batches, sizeof batches);
    if (result) return result;
    return b->cublasLtMatrixLayoutSetAttribute(*out, LT_LAYOUT_BATCH_OFFSET, &batch_stride,
                                               sizeof batch_stride);
}

static int make_layouts(const cuda_blas *b, const plan_key *k, void **out)
{
    const uint32_t *t = k->is_transposed;
    int result = make_layout(b, k, t[1] ? k->depth : k->columns, t[1] ? k->columns : k->depth, k->strides[2],
                             k->batch_strides[2], &out[0]);
    if (!result)
        result = make_layout(b, k, t[0] ? k->rows : k->depth, t[0] ? k->depth : k->rows, k->strides[1],
                             k->batch_strides[1], &out[1]);
    if (!result) result = make_layout(b, k, k->columns, k->rows, k->strides[3], k->batch_strides[3], &out[2]);
    if (!result) result = make_layout(b, k, k->columns, k->rows, k->strides[0], k->batch_strides[0], &out[3]);
    return result;
}

static int set_bias(const cuda_blas *b, const plan *p, const gpu_matrices *m)
{
    const void *bias = matrix_at(&m->bias);
    return b->cublasLtMatmulDescSetAttribute(p->description, LT_DESC_BIAS, &bias, sizeof bias);
}

static int make_description(const cuda_blas *b, plan *p, const gpu_matrices *m)
{
    const plan_key *k = &p->key;
    const int32_t transpose[2] = {(int32_t)k->is_transposed[1], (int32_t)k->is_transposed[0]};
    const uint32_t epilogue = k->has_bias ? LT_EPILOGUE_BIAS : LT_EPILOGUE_NONE;
    int result = b->cublasLtMatmulDescCreate(&p->description, (int)k->sums,
                                             k->dtype == GPU_F64 ? CUBLAS_R_64F : CUBLAS_R_32F);
    for (int i = 0; i < 2 && !result; i++)
        result = b->cublasLtMatmulDescSetAttribute(p->description, LT_DESC_TRANSA + i, &transpose[i],
                                                   sizeof transpose[i]);
    if (!result)
        result =
            b->cublasLtMatmulDescSetAttribute(p->description, LT_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    return result || !k->has_bias ? result : set_bias(b, p, m);
}

static int choose(const cuda_blas *b, plan *p)
{
    const size_t workspace = WORKSPACE;
    void *preference = NULL;
    int count = 0, result = b->cublasLtMatmulPreferenceCreate(&preference);
    if (result) return result;
    result = b->cublasLtMatmulPreferenceSetAttribute(preference, LT_PREFER_WORKSPACE, &workspace,
                                                     sizeof workspace);
    if (!result)
        result = b->cublasLtMatmulPreferenceSetAttribute(preference, LT_PREFER_REDUCTIONS, &p->key.reductions,
                                                         sizeof p->key.reductions);
    for (int i = 0; i < 4 && !result; i++)
        result = b->cublasLtMatmulPreferenceSetAttribute(preference, LT_PREFER_ALIGNMENT + i,
                                                         &p->key.alignments[i], sizeof p->key.alignments[i]);
    if (!result)
        result = b->cublasLtMatmulAlgoGetHeuristic(b->handle, p->description, p->layouts[0], p->layouts[1],
                                                   p->layouts[2], p->layouts[3], preference, 1, &p->choice,
                                                   &count);
    b->cublasLtMatmulPreferenceDestroy(preference);
    if (result) return result;
    return count ? p->choice.status : CUBLAS_NOT_SUPPORTED;
}

static uint32_t bucket_of(const plan_key *key)
{
    const uint8_t *bytes = (const uint8_t *)key;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof *key; i++) hash = (hash ^ bytes[i]) * 16777619u;
    return (hash ^ hash >> 16) % BUCKETS;
}

/* The plan for a product, or NULL without host memory. A plan that could not be made is kept as one that is not supported. */
static plan *find_plan(cuda_blas *b, const plan_key *key, const gpu_matrices *m)
{
    plan **bucket = &b->plans[bucket_of(key)], *p = *bucket;
    while (p && memcmp(&p->key, key, sizeof *key) != 0) p = p->next;
    if (p) return p;
    if (b->n_plans == PLANS) forget_plans(b);
    p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->key = *key;
    p->is_supported = !make_description(b, p, m) && !make_layouts(b, key, p->layouts) && !choose(b, p);
    p->next = *bucket;
    *bucket = p;
    b->n_plans++;
    return p;
}

/* ---- Products ------------------------------------------------------------------------------------------------ */

/* With the library's lock held. */
static int32_t multiply(cuda_device *d, const cuda_blas *b, plan *p, void *queue, const tn_call *call,
                        const gpu_matrices *m)
{
    const gpu_matrix *added = m->added.memory ? &m->added : &m->out;
    const float alpha = (float)m->alpha, beta = (float)m->beta;
    const int32_t is_double = m->dtype == GPU_F64;
    void *workspace = NULL;
    uint64_t offset = 0;
    if (p->choice.workspace) {
        int32_t status = gpu_workspace(call, p->choice.workspace, &workspace, &offset);
        if (status) return status;
    }
    int32_t was_entered = cuda_enter(d);
    int result = m->bias.memory ? set_bias(b, p, m) : CUBLAS_SUCCESS;
    if (!result)
        result = b->cublasLtMatmul(
            b->handle, p->description, is_double ? (const void *)&m->alpha : &alpha, matrix_at(&m->b),
            p->layouts[0], matrix_at(&m->a), p->layouts[1], is_double ? (const void *)&m->beta : &beta,
            matrix_at(added), p->layouts[2], (char *)m->out.memory + m->out.offset, p->layouts[3],
            &p->choice.algorithm, (char *)workspace + offset, p->choice.workspace, cuda_stream_of(queue));
    cuda_leave(d, was_entered);
    switch (result) {
    case CUBLAS_SUCCESS:
        return TN_OK;
    case CUBLAS_INVALID_VALUE:
    case CUBLAS_ARCH_MISMATCH:
    case CUBLAS_NOT_SUPPORTED:
        p->is_supported = 0;
        return TN_E_UNSUPPORTED;
    default:
        return gpu_error_native(d->plugin, result == CUBLAS_ALLOC_FAILED ? TN_E_OUT_OF_MEMORY : TN_E_INTERNAL,
                                result, b->cublasLtGetStatusName(result), "cublasLtMatmul failed: %s",
                                b->cublasLtGetStatusName(result));
    }
}

static int32_t product(void *device, void *queue, const tn_call *call, const gpu_matrices *m)
{
    cuda_device *d = device;
    cuda_blas *b = blas_of(d);
    if (!b || !b->handle || m->batches > INT32_MAX || alignment_of(&m->bias) < BIAS_ALIGNMENT)
        return TN_E_UNSUPPORTED;
    const plan_key key = key_of(call, m);
    pthread_mutex_lock(&b->lock);
    plan *p = find_plan(b, &key, m);
    int32_t status = p && p->is_supported ? multiply(d, b, p, queue, call, m) : TN_E_UNSUPPORTED;
    pthread_mutex_unlock(&b->lock);
    return status;
}

const gpu_library_driver cuda_libraries = {.product = product};
