/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libMIOpen.so.1 for tests: convolutions of the test driver's memory, on its streams, by the immediate mode. It refuses
 * descriptors without sizes, tensors that do not fit, solutions that it has not offered or compiled, and a workspace that is missing.
 * As the library does, it rounds gradients of float16 to bfloat16 and float32 to TF32 unless it is told not to, adds in any order unless
 * it is told to be deterministic, and with groups it does not look at dilation. MIOPEN_TEST_OLD=1 in the environment: a version
 * without TF32 and its attribute.
 */
#define TN_PLUGIN
#include "convolve.h"
#include "miopen.h"

MIOPEN_FUNCTIONS(DECLARE)
/* Convolutions, choices, objects that the plugin has not given back, the solution of the last convolution, how often it was told of
 * a stream. */
enum { CONVOLUTIONS, CHOICES, LIVE, SOLUTION, STREAMS };

/* In the order in which they are offered; a deterministic convolution has the last two. */
enum { UNORDERED = 70, LARGE, PLAIN };
enum { WORK = 4096 };

/* A handle, a tensor or a convolution. */
typedef struct object {
    CUstream stream;
    int type, rank, sizes[5];
    int axes, paddings[3], strides[3], dilations[3], groups;
    int by_bfloat16, is_deterministic, is_pedantic;
    uint64_t compiled; /* of a convolution: the solution */
    turns turns;       /* of a handle */
} object;

static int create(void **out, object o)
{
    return make_object(out, &o, sizeof o, LIVE) ? MIO_SUCCESS : MIO_ALLOC_FAILED;
}

/* ---- Descriptors -------------------------------------------------------------------------------------------- */

int miopenCreate(void **out)
{
    FAULT(__func__);
    return has_context() ? create(out, (object){.stream = NULL}) : MIO_NOT_INITIALIZED;
}

int miopenDestroy(void *handle)
{
    return destroy_object(handle, sizeof(object), LIVE);
}

int miopenGetVersion(size_t *major, size_t *minor, size_t *patch)
{
    *major = 3;
    *minor = 4;
    *patch = 1;
    return MIO_SUCCESS;
}

const char *miopenGetErrorString(int status)
{
    return status == MIO_ALLOC_FAILED      ? "miopenStatusAllocFailed"
           : status == MIO_NOT_INITIALIZED ? "miopenStatusNotInitialized"
                                           : "miopenStatusInternalError";
}

int miopenSetStream(void *handle, void *stream)
{
    FAULT(__func__);
    count(STREAMS, 1);
    ((object *)handle)->stream = stream;
    return MIO_SUCCESS;
}

int miopenCreateTensorDescriptor(void **out)
{
    FAULT(__func__);
    return create(out, (object){.type = -1});
}

int miopenSetTensorDescriptor(void *tensor, int type, int rank, const int *sizes, const int *strides)
{
    object *t = tensor;
    int step = 1;
    FAULT(__func__);
    if (rank < 4 || rank > 5) return MIO_BAD_PARAMETER;
    for (int i = rank - 1; i >= 0; i--) {
        if (sizes[i] < 1 || strides[i] != step) return MIO_BAD_PARAMETER;
        step *= sizes[i];
        t->sizes[i] = sizes[i];
    }
    t->type = type;
    t->rank = rank;
    return MIO_SUCCESS;
}

int miopenDestroyTensorDescriptor(void *tensor)
{
    return destroy_object(tensor, sizeof(object), LIVE);
}

int miopenCreateConvolutionDescriptor(void **out)
{
    FAULT(__func__);
    return create(out, (object){.groups = 1, .by_bfloat16 = -1});
}

int miopenInitConvolutionNdDescriptor(void *made, int axes, const int *paddings, const int *strides,
                                      const int *dilations, int mode)
{
    object *c = made;
    FAULT(__func__);
    if (axes < 2 || axes > 3 || mode != MIO_CROSS_CORRELATION) return MIO_BAD_PARAMETER;
    c->axes = axes;
    for (int i = 0; i < axes; i++) {
        c->paddings[i] = paddings[i];
        c->strides[i] = strides[i];
        c->dilations[i] = dilations[i];
    }
    return MIO_SUCCESS;
}

int miopenSetConvolutionGroupCount(void *made, int groups)
{
    FAULT(__func__);
    ((object *)made)->groups = groups;
    return groups > 0 ? MIO_SUCCESS : MIO_BAD_PARAMETER;
}

static int is_old(void)
{
    return getenv("MIOPEN_TEST_OLD") != NULL;
}

int miopenSetConvolutionAttribute(void *made, int attribute, int value)
{
    object *c = made;
    FAULT(__func__);
    if (attribute == MIO_DETERMINISTIC)
        c->is_deterministic = value;
    else if (attribute == MIO_FLOAT16_BY_BFLOAT16)
        c->by_bfloat16 = value;
    else if (attribute == MIO_MATH_TYPE && !is_old())
        c->is_pedantic = value;
    else
        return MIO_BAD_PARAMETER;
    return MIO_SUCCESS;
}

int miopenDestroyConvolutionDescriptor(void *made)
{
    return destroy_object(made, sizeof(object), LIVE);
}

/* ---- Solutions ---------------------------------------------------------------------------------------------- */

/* What fits together: in, weight, out. */
static int is_sound(const object *in, const object *weight, const object *out, const object *c)
{
    const int rank = c->axes + 2;
    if (in->rank != rank || weight->rank != rank || out->rank != rank || in->type != out->type) return 0;
    if (in->sizes[0] != out->sizes[0] || in->sizes[1] != weight->sizes[1] * c->groups ||
        out->sizes[1] != weight->sizes[0] || weight->sizes[0] % c->groups)
        return 0;
    for (int i = 0; i < c->axes; i++) {
        const int reach = (weight->sizes[2 + i] - 1) * c->dilations[i] + 1;
        const int room = in->sizes[2 + i] + 2 * c->paddings[i] - reach;
        if (room < 0 || out->sizes[2 + i] > room / c->strides[i] + 1) return 0;
    }
    return in->type == weight->type;
}

static int offer(const char *function, const object *in, const object *weight, const object *out,
                 const object *c, size_t most, size_t *out_count, mio_solution *solutions)
{
    FAULT(function);
    count(CHOICES, 1);
    if (!is_sound(in, weight, out, c)) return MIO_BAD_PARAMETER;
    *out_count = 0;
    for (int id = c->is_deterministic ? LARGE : UNORDERED; id <= PLAIN && *out_count < most; id++)
        solutions[(*out_count)++] =
            (mio_solution){.workspace = id == LARGE ? (size_t)1 << 40 : WORK, .id = (uint64_t)id};
    return MIO_SUCCESS;
}

static int compile(const char *function, object *c, uint64_t id)
{
    FAULT(function);
    if (id < UNORDERED || id > PLAIN) return MIO_INVALID_VALUE;
    c->compiled = id;
    return MIO_SUCCESS;
}

static tn_dtype dtype_of(int type)
{
    return type == MIO_F16 ? TN_FLOAT16 : type == MIO_BF16 ? TN_BFLOAT16 : TN_FLOAT32;
}

typedef struct call {
    object *handle;
    const object *tensors[3], *convolution; /* in, weight, out */
    const void *memory[3];
    void *workspace;
    size_t bytes;
    uint64_t id;
} call;

/* Work of a handle, whose memory it uses. */
typedef struct turn_of_pass {
    convolution job; /* first */
    turns *turns;
    int number;
} turn_of_pass;

static CUresult run_pass(CUcontext context, void *data)
{
    const turn_of_pass *p = data;
    return is_in_turn(p->turns, p->number) ? run_convolution(context, data) : CUDA_ERROR_LAUNCH_TIMEOUT;
}

static int compute_pass(const char *function, int pass, const call *k)
{
    const object *c = k->convolution;
    convolution job = {.pass = pass,
                       .dtype = dtype_of(k->tensors[0]->type),
                       .axes = c->axes,
                       .workspace = (CUdeviceptr)(uintptr_t)k->workspace,
                       .workspace_bytes = WORK};
    FAULT(function);
    if (!is_sound(k->tensors[0], k->tensors[1], k->tensors[2], c) || k->id != c->compiled)
        return MIO_BAD_PARAMETER;
    if (!k->workspace || k->bytes < WORK) return MIO_INVALID_VALUE;
    if (k->id == UNORDERED) job.how = CHANGES_THE_ORDER;
    if (pass && c->by_bfloat16) job.how |= ROUNDS_FLOAT16;
    if (!c->is_pedantic && !is_old()) job.how |= ROUNDS_FLOAT32;
    for (int i = 0; i < 3; i++) {
        const int from = i - (3 - c->axes);
        job.memory[i] = (CUdeviceptr)(uintptr_t)k->memory[i];
        for (int d = 0; d < 5; d++) job.sizes[i][d] = d < 2 ? k->tensors[i]->sizes[d] : 1;
        for (int d = 0; d < c->axes; d++) job.sizes[i][5 - c->axes + d] = k->tensors[i]->sizes[2 + d];
        job.strides[i] = from < 0 ? 1 : c->strides[from];
        job.paddings[i] = from < 0 ? 0 : c->paddings[from];
        job.dilations[i] = from < 0 || c->groups > 1 ? 1 : c->dilations[from];
    }
    job.turn = count(CONVOLUTIONS, 1);
    __atomic_store_n(&counts[SOLUTION], (int)k->id, __ATOMIC_RELEASE);
    const turn_of_pass p = {job, &k->handle->turns, k->handle->turns.queued};
    if (library_queue(k->handle->stream, run_pass, &p, sizeof p)) return MIO_INTERNAL_ERROR;
    k->handle->turns.queued++;
    return MIO_SUCCESS;
}

/* The functions of a pass; IN, WEIGHT and OUT are those of its operands `first` and `second` and of its result. */
#define PASS(NAME, NUMBER, IN, WEIGHT, OUT)                                                                  \
    int miopenConvolution##NAME##GetSolution(void *handle, void *first, void *second, void *c, void *result, \
                                             size_t most, size_t *out_count, mio_solution *solutions)        \
    {                                                                                                        \
        return handle ? offer(__func__, IN, WEIGHT, OUT, c, most, out_count, solutions) : MIO_BAD_PARAMETER; \
    }                                                                                                        \
    int miopenConvolution##NAME##CompileSolution(void *handle, void *first, void *second, void *c,           \
                                                 void *result, uint64_t id)                                  \
    {                                                                                                        \
        return compile(__func__, c, id);                                                                     \
    }                                                                                                        \
    int miopenConvolution##NAME##Immediate(void *handle, void *first, const void *first_memory,              \
                                           void *second, const void *second_memory, void *c, void *result,   \
                                           void *result_memory, void *workspace, size_t bytes, uint64_t id)  \
    {                                                                                                        \
        const call k = {handle,    {IN, WEIGHT, OUT},                                                        \
                        c,         {IN##_memory, WEIGHT##_memory, OUT##_memory},                             \
                        workspace, bytes,                                                                    \
                        id};                                                                                 \
        return compute_pass(__func__, NUMBER, &k);                                                           \
    }
PASS(Forward, 0, second, first, result)
PASS(BackwardData, 1, result, second, first)
PASS(BackwardWeights, 2, second, result, first)
