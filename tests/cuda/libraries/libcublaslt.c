/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcublasLt.so.13 for tests, or a libhipblaslt.so.1: products of the test driver's memory, on its streams. It computes as the
 * documentation says, one element after the other, and refuses what cuBLASLt refuses: a thread without the handle's context, layouts
 * that overlap, pointers below the alignment of the choice, a bias of float64. If a sum may be put together in place, that is in the
 * dtype of the result, its order changes from call to call. That of hipBLASLt changes always, in float32. The environment:
 *
 *   LIBRARY_FAULT=1      products touch memory that is not there, and fail
 *   HIPBLASLT_NO_TF32=1  a GPU without TF32
 *
 * A handle of hipBLASLt has device memory, which all of its products use; the process ends if it cannot be allocated or freed.
 * -DBROKEN makes one that does not start.
 */
#define TN_PLUGIN
#include "cublaslt.h"
#include "stand_in.h"

#ifdef HIP /* it has one status for both */
enum { REFUSED = CUBLAS_INTERNAL_ERROR, FAILED = CUBLAS_INTERNAL_ERROR };
#else
enum { REFUSED = CUBLAS_NOT_SUPPORTED, FAILED = CUBLAS_EXECUTION_FAILED };
#endif

CUBLASLT_FUNCTIONS(DECLARE)
/* Products, choices, objects that the plugin has not given back. */
enum { PRODUCTS, CHOICES, LIVE };
enum { HANDLE_BYTES = 32 << 20 };

/* Of all kinds. */
typedef struct object {
    int type, batches;
    uint64_t rows, columns;
    int64_t leading, offset;
    int sums, scalars, transpose[2];
    uint32_t epilogue, reductions, alignments[4];
    const void *bias;
    size_t workspace;
    CUcontext context; /* of a handle, as what follows */
    void *memory;
    turns turns;
} object;

static int create(void **out, object o)
{
    return make_object(out, &o, sizeof o, LIVE) ? CUBLAS_SUCCESS : CUBLAS_ALLOC_FAILED;
}

static int destroy(void *o)
{
    return destroy_object(o, sizeof(object), LIVE);
}

int cublasLtCreate(void **out)
{
    *out = out; /* after a failure anything may be there */
    FAULT(__func__);
#ifdef BROKEN
    return CUBLAS_NOT_INITIALIZED;
#endif
    object handle = {0};
    if (library_context(&handle.context) || !handle.context || !has_memory()) return CUBLAS_NOT_INITIALIZED;
#ifdef HIP
    if (hipMalloc(&handle.memory, HANDLE_BYTES)) exit(1);
#endif
    return create(out, handle);
}

static int is_current(const object *handle)
{
    CUcontext context = NULL;
    return handle && !library_context(&context) && context == handle->context;
}

int cublasLtDestroy(void *handle)
{
#ifdef HIP
    size_t available, total; /* hipFree fails on a lost device */
    if (hipMemGetInfo(&available, &total) || hipFree(((object *)handle)->memory)) exit(1);
#endif
    return destroy(handle);
}

#ifdef HIP
/* HIPBLASLT_TEST_VERSION=NUMBER is another one. */
int hipblasLtGetVersion(void *handle, int *out)
{
    const char *text = getenv("HIPBLASLT_TEST_VERSION");
    *out = text ? atoi(text) : 100000;
    return handle ? CUBLAS_SUCCESS : CUBLAS_INVALID_VALUE;
}
#else
/* CUBLASLT_TEST_VERSION=NUMBER is another one. */
size_t cublasLtGetVersion(void)
{
    const char *text = getenv("CUBLASLT_TEST_VERSION");
    return text ? (size_t)atol(text) : 130000;
}

const char *cublasLtGetStatusName(int status)
{
    return status == CUBLAS_NOT_INITIALIZED    ? "CUBLAS_STATUS_NOT_INITIALIZED"
           : status == CUBLAS_ALLOC_FAILED     ? "CUBLAS_STATUS_ALLOC_FAILED"
           : status == CUBLAS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
                                               : "CUBLAS_STATUS_NOT_SUPPORTED";
}
#endif

int cublasLtMatmulDescCreate(void **out, int sums, int scalars)
{
    FAULT(__func__);
    return create(out, (object){.sums = sums,
                                .scalars = scalars,
                                .epilogue = LT_EPILOGUE_NONE,
                                .transpose = {LT_PLAIN, LT_PLAIN}});
}

int cublasLtMatmulDescDestroy(void *description)
{
    return destroy(description);
}

/* A place of an object and its size; NULL: the attribute is not known. */
static int set(void *place, size_t size, const void *value, size_t bytes)
{
    if (!place || size != bytes) return CUBLAS_INVALID_VALUE;
    memcpy(place, value, bytes);
    return CUBLAS_SUCCESS;
}

int cublasLtMatmulDescSetAttribute(void *description, int attribute, const void *value, size_t bytes)
{
    object *o = description;
    FAULT(__func__);
    if (attribute == LT_DESC_TRANSA || attribute == LT_DESC_TRANSB)
        return set(&o->transpose[attribute - LT_DESC_TRANSA], sizeof *o->transpose, value, bytes);
    if (attribute == LT_DESC_EPILOGUE) return set(&o->epilogue, sizeof o->epilogue, value, bytes);
    return set(attribute == LT_DESC_BIAS ? (void *)&o->bias : NULL, sizeof o->bias, value, bytes);
}

int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t leading)
{
    FAULT(__func__);
    return create(out,
                  (object){.type = type, .rows = rows, .columns = columns, .leading = leading, .batches = 1});
}

int cublasLtMatrixLayoutDestroy(void *layout)
{
    return destroy(layout);
}

int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes)
{
    object *o = layout;
    FAULT(__func__);
    if (attribute == LT_LAYOUT_BATCH_COUNT) return set(&o->batches, sizeof o->batches, value, bytes);
    return set(attribute == LT_LAYOUT_BATCH_OFFSET ? &o->offset : NULL, sizeof o->offset, value, bytes);
}

int cublasLtMatmulPreferenceCreate(void **out)
{
    const uint32_t any = LT_ALIGNMENTS ? 256 : 1;
    FAULT(__func__);
    return create(out, (object){.reductions = 7, .alignments = {any, any, any, any}});
}

int cublasLtMatmulPreferenceDestroy(void *preference)
{
    return destroy(preference);
}

int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes)
{
    object *o = preference;
    FAULT(__func__);
    if (attribute == LT_PREFER_WORKSPACE) return set(&o->workspace, sizeof o->workspace, value, bytes);
    if (LT_PREFER_REDUCTIONS != 0 && attribute == LT_PREFER_REDUCTIONS)
        return set(&o->reductions, sizeof o->reductions, value, bytes);
    if (attribute < LT_PREFER_ALIGNMENT || attribute >= LT_PREFER_ALIGNMENT + LT_ALIGNMENTS)
        return CUBLAS_INVALID_VALUE;
    return set(&o->alignments[attribute - LT_PREFER_ALIGNMENT], sizeof *o->alignments, value, bytes);
}

/* ---- Products ------------------------------------------------------------------------------------------------ */

typedef struct product {
    object description, layouts[4]; /* a, b, c, d */
    CUdeviceptr memory[4], workspace;
    size_t workspace_bytes;
    double alpha, beta;
    uint64_t in_place, turn;
    int is_faulty, number;
    object *handle;
} product;

static tn_dtype dtype_of(int type)
{
    return type == CUBLAS_R_64F    ? TN_FLOAT64
           : type == CUBLAS_R_16F  ? TN_FLOAT16
           : type == CUBLAS_R_16BF ? TN_BFLOAT16
                                   : TN_FLOAT32;
}

/* `operation` is that of the matrix. */
static int is_sound(const object *l, uint64_t rows, uint64_t columns, int operation)
{
    const int is_transposed = operation == LT_TRANSPOSED;
    if (operation != LT_TRANSPOSED && operation != LT_PLAIN) return 0;
    return l->rows == (is_transposed ? columns : rows) && l->columns == (is_transposed ? rows : columns) &&
           l->leading >= (int64_t)l->rows && l->batches > 0;
}

/* The largest power of two, up to 256, of which an address is a multiple. */
static uint64_t alignment_of(const void *place)
{
    const uint64_t address = (uintptr_t)place | 256;
    return address & -address;
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *description, void *a, void *b, void *c, void *d,
                                   void *preference, int wanted, lt_choice *out, int *out_count)
{
    const object *o = description, *of_d = d, *prefer = preference, *of_a = a;
    const uint64_t rows = of_d->rows, columns = of_d->columns;
    const uint64_t depth = o->transpose[0] == LT_TRANSPOSED ? of_a->rows : of_a->columns;
    FAULT(__func__);
    if (!is_current(handle)) return CUBLAS_NOT_INITIALIZED;
    count(CHOICES, 1);
    *out_count = 0;
    if (wanted < 1 || !is_sound(a, rows, depth, o->transpose[0]) ||
        !is_sound(b, depth, columns, o->transpose[1]) || !is_sound(c, rows, columns, LT_PLAIN) ||
        !is_sound(d, rows, columns, LT_PLAIN))
        return CUBLAS_INVALID_VALUE;
    if (o->epilogue == LT_EPILOGUE_BIAS && of_d->type == CUBLAS_R_64F) return REFUSED;
#ifdef HIP
    if (o->sums == CUBLAS_BY_TF32 && getenv("HIPBLASLT_NO_TF32")) return CUBLAS_SUCCESS;
#endif
    memset(out, 0, sizeof *out);
    out->algorithm.words[0] = (prefer->reductions & LT_REDUCE_IN_PLACE) && depth > 1;
    for (int i = 0; i < 4; i++) out->algorithm.words[1] |= (uint64_t)prefer->alignments[i] << 16 * i;
    out->algorithm.words[2] = alignment_of(o->bias);
    out->workspace = prefer->workspace < 4096 ? prefer->workspace : 4096;
    *out_count = 1;
    return CUBLAS_SUCCESS;
}

/* An element of a matrix as the library reads it; rounded to 10 bits of mantissa if it may. */
static double element(const product *p, int k, const char *at, uint64_t i)
{
    const tn_dtype dtype = dtype_of(p->layouts[k].type);
    double value = tn_number_load(dtype, at + i * (TN_DTYPE_BITS(dtype) / 8)).f;
    if (p->description.sums == CUBLAS_BY_TF32) {
        float f = (float)value;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        bits = (bits + 0xfff + (bits >> 13 & 1)) & ~UINT32_C(0x1fff);
        memcpy(&f, &bits, sizeof bits);
        value = (double)f;
    }
    return value;
}

static double sum_of(const product *p, char *const *at, uint64_t row, uint64_t column, uint64_t depth)
{
    const int t[] = {p->description.transpose[0] == LT_TRANSPOSED,
                     p->description.transpose[1] == LT_TRANSPOSED};
    const int64_t lead_a = p->layouts[0].leading, lead_b = p->layouts[1].leading;
    float narrow = 0;
    double wide = 0;
    for (uint64_t n = 0; n < depth; n++) {
        uint64_t k = p->in_place ? (n + p->turn) % depth : n;
        double a = element(p, 0, at[0], t[0] ? k + row * (uint64_t)lead_a : row + k * (uint64_t)lead_a);
        double b = element(p, 1, at[1], t[1] ? column + k * (uint64_t)lead_b : k + column * (uint64_t)lead_b);
        narrow += (float)a * (float)b;
        wide += a * b;
        if (p->in_place && LT_PREFER_REDUCTIONS != 0)
            narrow = (float)rounded(dtype_of(p->layouts[3].type), (double)narrow);
    }
    return p->description.sums == CUBLAS_BY_64F ? wide : (double)narrow;
}

static CUresult run(CUcontext context, void *data)
{
    const product *p = data;
    const object *d = &p->layouts[3];
    const tn_dtype dtype = dtype_of(d->type);
    const uint64_t bytes = TN_DTYPE_BITS(dtype) / 8;
    const uint64_t depth =
        p->description.transpose[0] == LT_TRANSPOSED ? p->layouts[0].rows : p->layouts[0].columns;
    const char *bias = NULL;
#ifdef HIP
    if (!is_in_turn(&p->handle->turns, p->number)) return CUDA_ERROR_LAUNCH_TIMEOUT;
#endif
    if (p->is_faulty || !use_workspace(context, p->workspace, p->workspace_bytes))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (p->description.epilogue == LT_EPILOGUE_BIAS) {
        bias = cuda_test_place(context, (CUdeviceptr)(uintptr_t)p->description.bias, d->rows * bytes);
        if (!bias) return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    for (uint64_t batch = 0; batch < (uint64_t)d->batches; batch++) {
        char *at[4];
        for (int k = 0; k < 4; k++) {
            const object *l = &p->layouts[k];
            uint64_t extent = (l->rows + (l->columns - 1) * (uint64_t)l->leading) * bytes;
            at[k] = cuda_test_place(context, p->memory[k] + batch * (uint64_t)l->offset * bytes, extent);
            if (!at[k]) return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        for (uint64_t i = 0; i < d->rows * d->columns; i++) {
            uint64_t row = i % d->rows, column = i / d->rows;
            double value = p->alpha * sum_of(p, at, row, column, depth);
            if (p->beta != 0)
                value += p->beta * element(p, 2, at[2], row + column * (uint64_t)p->layouts[2].leading);
            if (bias) value += tn_number_load(dtype, bias + row * bytes).f;
            tn_number_store(dtype, at[3] + (row + column * (uint64_t)d->leading) * bytes,
                            tn_number_real(value));
        }
    }
    return CUDA_SUCCESS;
}

int cublasLtMatmul(void *handle, void *description, const void *alpha, const void *a, void *a_layout,
                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout, void *d,
                   void *d_layout, const lt_algorithm *algorithm, void *workspace, size_t workspace_bytes,
                   void *stream)
{
    const void *memory[4] = {a, b, c, d};
    const object *layouts[4] = {a_layout, b_layout, c_layout, d_layout};
    product p = {.description = *(const object *)description,
                 .workspace = (CUdeviceptr)(uintptr_t)workspace,
                 .workspace_bytes = workspace_bytes,
                 .in_place = algorithm->words[0],
                 .is_faulty = getenv("LIBRARY_FAULT") != NULL,
                 .handle = handle};
    FAULT(__func__);
    if (!is_current(handle)) return CUBLAS_NOT_INITIALIZED;
    if (p.description.bias && alignment_of(p.description.bias) < algorithm->words[2])
        return CUBLAS_EXECUTION_FAILED;
    for (int k = 0; k < 4; k++) {
        const uint64_t alignment = algorithm->words[1] >> 16 * k & 0xffff;
        p.layouts[k] = *layouts[k];
        const uint64_t apart = (uint64_t)p.layouts[k].offset * TN_DTYPE_BITS(dtype_of(p.layouts[k].type)) / 8;
        if ((uintptr_t)memory[k] % alignment || (p.layouts[k].batches > 1 && apart % alignment))
            return CUBLAS_EXECUTION_FAILED;
        p.memory[k] = (CUdeviceptr)(uintptr_t)memory[k];
    }
    p.alpha = p.description.scalars == CUBLAS_R_64F ? *(const double *)alpha : (double)*(const float *)alpha;
    p.beta = p.description.scalars == CUBLAS_R_64F ? *(const double *)beta : (double)*(const float *)beta;
    p.turn = (uint64_t)count(PRODUCTS, 1);
    p.number = p.handle->turns.queued;
    if (library_queue(stream, run, &p, sizeof p)) return FAILED;
    p.handle->turns.queued++;
    return p.is_faulty && library_finish(stream) ? FAILED : CUBLAS_SUCCESS;
}
