/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of matrices by cuBLASLt or hipBLASLt, if it is installed. Its matrices have contiguous columns, ours rows: so it computes
 * the transposed product, and its first matrix is our second. A plan is what the library chose for one kind of product; plans
 * are kept, and choosing is slow. What the library refuses before it has queued anything is left to the family's kernels.
 */
#include "cublaslt.h"
#include "libraries.h"

enum {
    BIAS_ALIGNMENT = 16,  /* bytes that a bias has at least */
    WORKSPACE = 32 << 20, /* bytes that a plan may ask for: what NVIDIA advises for sm_90 */
};

/* What a plan depends on. No gaps: compared as bytes. */
typedef struct plan_key {
    uint64_t rows, columns, depth, batches;
    int64_t strides[4], batch_strides[4]; /* of out, a, b, added */
    uint32_t dtype, sums, reductions;
    uint32_t is_transposed[2]; /* a, b */
    uint32_t alignments[4];
    uint32_t bias_alignment; /* which the choice looks at, as it gets the bias; 0: there is none */
} plan_key;

typedef struct plan {
    gpu_plan head;
    plan_key key;
    void *description, *layouts[4]; /* of b, a, added, out, in the library's order */
    lt_choice choice;
} plan;

typedef struct cuda_blas {
    cuda_library base;
#define DECLARE(result, name, arguments) result(*name) arguments;
    CUBLASLT_FUNCTIONS(DECLARE)
#undef DECLARE
} cuda_blas;

/* ---- Plans -------------------------------------------------------------------------------------------------- */

static void *matrix_at(const gpu_matrix *m)
{
    return cuda_place(m->memory, m->offset);
}

/* Of all matrices of a batch. */
static uint32_t alignment_of(const gpu_matrices *of, const gpu_matrix *m)
{
    const uint64_t apart = of->batches > 1 ? (uint64_t)m->batch_stride * gpu_code_bytes(of->dtype) : 0;
    return cuda_alignment((const void *)((uintptr_t)matrix_at(m) | apart));
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
        .is_transposed = {m->a.is_transposed, m->b.is_transposed},
        .alignments = {alignment_of(m, &m->b), alignment_of(m, &m->a), alignment_of(m, added),
                       alignment_of(m, &m->out)},
        .bias_alignment = m->bias.memory ? cuda_alignment(matrix_at(&m->bias)) : 0};
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

static int make_description(const cuda_blas *b, plan *p, const gpu_matrices *m, uint32_t sums)
{
    const plan_key *k = &p->key;
    const int32_t transpose[2] = {k->is_transposed[1] ? LT_TRANSPOSED : LT_PLAIN,
                                  k->is_transposed[0] ? LT_TRANSPOSED : LT_PLAIN};
    const uint32_t epilogue = k->bias_alignment ? LT_EPILOGUE_BIAS : LT_EPILOGUE_NONE;
    int result = b->cublasLtMatmulDescCreate(&p->description, (int)sums,
                                             k->dtype == GPU_F64 ? CUBLAS_R_64F : CUBLAS_R_32F);
    for (int i = 0; i < 2 && !result; i++)
        result = b->cublasLtMatmulDescSetAttribute(p->description, LT_DESC_TRANSA + i, &transpose[i],
                                                   sizeof transpose[i]);
    if (!result)
        result =
            b->cublasLtMatmulDescSetAttribute(p->description, LT_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    return result || !k->bias_alignment ? result : set_bias(b, p, m);
}

static int choose(const cuda_blas *b, plan *p)
{
    const size_t workspace = WORKSPACE;
    void *preference = NULL;
    int count = 0, result = b->cublasLtMatmulPreferenceCreate(&preference);
    if (result) return result;
    result = b->cublasLtMatmulPreferenceSetAttribute(preference, LT_PREFER_WORKSPACE, &workspace,
                                                     sizeof workspace);
    if (!result && LT_PREFER_REDUCTIONS != 0)
        result = b->cublasLtMatmulPreferenceSetAttribute(preference, LT_PREFER_REDUCTIONS, &p->key.reductions,
                                                         sizeof p->key.reductions);
    for (int i = 0; i < LT_ALIGNMENTS && !result; i++)
        result = b->cublasLtMatmulPreferenceSetAttribute(preference, LT_PREFER_ALIGNMENT + i,
                                                         &p->key.alignments[i], sizeof p->key.alignments[i]);
    if (!result)
        result = b->cublasLtMatmulAlgoGetHeuristic(b->base.handle, p->description, p->layouts[0],
                                                   p->layouts[1], p->layouts[2], p->layouts[3], preference, 1,
                                                   &p->choice, &count);
    b->cublasLtMatmulPreferenceDestroy(preference);
    if (result) return result;
    return count ? p->choice.status : CUBLAS_NOT_SUPPORTED;
}

static int32_t meaning(int result)
{
    if (VENDOR_BLAS_REFUSES(result)) return TN_E_UNSUPPORTED;
    switch (result) {
    case CUBLAS_INVALID_VALUE:
    case CUBLAS_ARCH_MISMATCH:
    case CUBLAS_NOT_SUPPORTED:
        return TN_E_UNSUPPORTED;
    default:
        return result == CUBLAS_ALLOC_FAILED ? TN_E_OUT_OF_MEMORY : TN_E_INTERNAL;
    }
}

static int describe_and_choose(const cuda_blas *b, plan *p, const gpu_matrices *m, uint32_t sums)
{
    const int result = make_description(b, p, m, sums);
    return result ? result : choose(b, p);
}

/* TF32 is allowed, not asked for: a library without it on this GPU computes in float32. */
static int make_plan(cuda_library *l, gpu_plan *made, const void *matrices)
{
    const cuda_blas *b = (cuda_blas *)l;
    plan *p = (plan *)made;
    int result = make_layouts(b, &p->key, p->layouts);
    if (!result) result = describe_and_choose(b, p, matrices, p->key.sums);
    if (p->key.sums != CUBLAS_BY_TF32 || !result || meaning(result) != TN_E_UNSUPPORTED) return result;
    if (p->description) b->cublasLtMatmulDescDestroy(p->description);
    p->description = NULL;
    return describe_and_choose(b, p, matrices, CUBLAS_BY_32F);
}

static void destroy_plan(const cuda_library *l, gpu_plan *made)
{
    const cuda_blas *b = (const cuda_blas *)l;
    const plan *p = (const plan *)made;
    for (uint32_t k = 0; k < 4; k++)
        if (p->layouts[k]) b->cublasLtMatrixLayoutDestroy(p->layouts[k]);
    if (p->description) b->cublasLtMatmulDescDestroy(p->description);
}

/* ---- Products ------------------------------------------------------------------------------------------------ */

static int32_t multiply(cuda_device *d, cuda_library *l, void *queue, const tn_call *call,
                        const void *matrices)
{
    const cuda_blas *b = (cuda_blas *)l;
    const gpu_matrices *m = matrices;
    const plan_key key = key_of(call, m);
    const gpu_matrix *added = m->added.memory ? &m->added : &m->out;
    const float alpha = (float)m->alpha, beta = (float)m->beta;
    const int32_t is_double = m->dtype == GPU_F64;
    void *workspace = NULL;
    uint64_t offset = 0;
    gpu_plan *found;
    int32_t status = cuda_plan_find(d, l, &(cuda_plan_request){call, &key, make_plan, m}, &found);
    if (status) return status;
    const plan *p = (plan *)found;
    if (p->choice.workspace) status = gpu_workspace(call, p->choice.workspace, &workspace, &offset);
    if (status) return status;
    int result = m->bias.memory ? set_bias(b, p, m) : CUBLAS_SUCCESS;
    if (!result)
        result = b->cublasLtMatmul(
            b->base.handle, p->description, is_double ? (const void *)&m->alpha : &alpha, matrix_at(&m->b),
            p->layouts[0], matrix_at(&m->a), p->layouts[1], is_double ? (const void *)&m->beta : &beta,
            matrix_at(added), p->layouts[2], matrix_at(&m->out), p->layouts[3], &p->choice.algorithm,
            cuda_place(workspace, offset), p->choice.workspace, cuda_stream_of(queue));
    if (!result) return TN_OK;
    if (meaning(result) != TN_E_UNSUPPORTED)
        return cuda_library_error(d, l, call, result, NAME(cublasLtMatmul));
    if (VENDOR_BLAS_REFUSES(result)) status = cuda_library_check_device(d, call, NAME(cublasLtMatmul));
    if (status) return status;
    found->is_supported = 0;
    return TN_E_UNSUPPORTED;
}

/* ---- The library -------------------------------------------------------------------------------------------- */

static size_t version(const cuda_library *l)
{
    return VENDOR_BLAS_VERSION((const cuda_blas *)l);
}

static const char *status_name(const cuda_library *l, int status)
{
    return VENDOR_BLAS_STATUS_NAME((const cuda_blas *)l, status);
}

static const cuda_library_kind kind = {.name = VENDOR_BLAS,
                                       .work = "products",
                                       .files = VENDOR_BLAS_FILES,
                                       CUDA_LIBRARY_SYMBOLS(CUBLASLT_FUNCTIONS),
                                       .size = sizeof(cuda_blas),
                                       .has_one_stream = VENDOR_HANDLE_HAS_ONE_STREAM,
                                       .handle_bytes = VENDOR_BLAS_HANDLE_BYTES,
                                       .version = version,
                                       .least = VENDOR_BLAS_LEAST,
                                       .status_name = status_name,
                                       .meaning = meaning,
                                       CUDA_LIBRARY_PLANS(plan_key, plan, destroy_plan)};

int32_t cuda_blas_product(void *device, void *queue, const tn_call *call, const gpu_matrices *m)
{
    if (m->batches > INT32_MAX || cuda_alignment(matrix_at(&m->bias)) < BIAS_ALIGNMENT)
        return TN_E_UNSUPPORTED;
    if (!LT_KEEPS_ORDER && (call->flags & TN_CALL_DETERMINISTIC)) return TN_E_UNSUPPORTED;
    return cuda_library_run(device, &kind, multiply, queue, call, m);
}
