/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions by MIOpen's immediate mode, if it is installed. The library offers solutions for a pass, the best one first; a plan
 * has the first that compiles and needs no more than a fixed workspace, so that the choice depends neither on the memory that is
 * free nor on what ran before.
 */
#include "libraries.h"
#include "miopen.h"

#include <library_names.h>
#include <limits.h>

enum {
    SOLUTIONS = 16, /* as many are looked at */
    TENSORS = 3     /* in, weight, out */
};

/* What a plan depends on. No gaps: compared as bytes. */
typedef struct plan_key {
    gpu_window_key window;
    uint32_t is_deterministic;
    uint32_t is_pedantic; /* float32 without TF32 */
} plan_key;

typedef struct plan {
    gpu_plan head;
    plan_key key;
    void *tensors[TENSORS], *convolution;
    mio_solution solution;
} plan;

typedef struct hip_dnn {
    cuda_library base;
#define DECLARE(result, name, arguments) result(*name) arguments;
    MIOPEN_FUNCTIONS(DECLARE)
#undef DECLARE
    CUstream stream; /* which the handle was told last; NULL at first, the default one */
} hip_dnn;

/* The operands and the result of each pass, as places in `tensors`, by GPU_CONVOLVE_... */
static const uint32_t roles[3][TENSORS] = {{1, 0, 2}, {2, 1, 0}, {2, 0, 1}};

/* The function of the pass. */
#define OF_PASS(n, p, name)                                                 \
    ((p)->key.window.pass == 0   ? (n)->miopenConvolutionForward##name      \
     : (p)->key.window.pass == 1 ? (n)->miopenConvolutionBackwardData##name \
                                 : (n)->miopenConvolutionBackwardWeights##name)

/* ---- Plans -------------------------------------------------------------------------------------------------- */

static int type_of(uint32_t dtype)
{
    return dtype == GPU_F16 ? MIO_F16 : dtype == GPU_BF16 ? MIO_BF16 : MIO_F32;
}

/* Tensors whose strides do not fit an int are refused. */
static int make_tensor(const hip_dnn *n, const gpu_window_key *k, uint32_t which, void **out)
{
    int64_t wide[5], step = 1;
    int rank = (int)gpu_window_sizes(k, which, wide), sizes[5], strides[5];
    for (int i = rank - 1; i >= 0; i--) {
        if (wide[i] > INT_MAX || step > INT_MAX) return MIO_UNSUPPORTED;
        sizes[i] = (int)wide[i];
        strides[i] = (int)step;
        step *= wide[i];
    }
    int result = n->miopenCreateTensorDescriptor(out);
    if (result) return result;
    return n->miopenSetTensorDescriptor(*out, type_of(k->dtype), rank, sizes, strides);
}

static int make_convolution(const hip_dnn *n, const plan_key *key, void **out)
{
    const gpu_window_key *k = &key->window;
    const uint32_t first = 3 - k->axes;
    int result = n->miopenCreateConvolutionDescriptor(out);
    if (!result)
        result =
            n->miopenInitConvolutionNdDescriptor(*out, (int)k->axes, k->padding + first, k->stride + first,
                                                 k->dilation + first, MIO_CROSS_CORRELATION);
    if (!result) result = n->miopenSetConvolutionGroupCount(*out, (int)k->groups);
    if (!result && k->dtype == GPU_F16)
        result = n->miopenSetConvolutionAttribute(*out, MIO_FLOAT16_BY_BFLOAT16, 0);
    if (!result && key->is_deterministic)
        result = n->miopenSetConvolutionAttribute(*out, MIO_DETERMINISTIC, 1);
    if (result || !key->is_pedantic) return result;
    result = n->miopenSetConvolutionAttribute(*out, MIO_MATH_TYPE, 1);
    return result == MIO_BAD_PARAMETER ? MIO_SUCCESS : result; /* that version has no TF32 */
}

static int32_t meaning(int result)
{
    switch (result) {
    case MIO_INVALID_VALUE:
    case MIO_BAD_PARAMETER:
    case MIO_NOT_IMPLEMENTED:
    case MIO_UNSUPPORTED:
        return TN_E_UNSUPPORTED;
    default:
        return result == MIO_ALLOC_FAILED ? TN_E_OUT_OF_MEMORY : TN_E_INTERNAL;
    }
}

/* Solutions that do not compile are passed over, but for lack of memory: the next call could have them. */
static int choose(const hip_dnn *n, plan *p)
{
    const uint32_t *role = roles[p->key.window.pass];
    void *first = p->tensors[role[0]], *second = p->tensors[role[1]], *out = p->tensors[role[2]];
    mio_solution solutions[SOLUTIONS];
    size_t count = 0;
    int result = OF_PASS(n, p, GetSolution)(n->base.handle, first, second, p->convolution, out, SOLUTIONS,
                                            &count, solutions);
    if (result) return result;
    int failure = MIO_UNSUPPORTED;
    for (size_t i = 0; i < count && i < SOLUTIONS; i++) {
        if (solutions[i].workspace > CUDA_DNN_WORKSPACE) continue;
        result = OF_PASS(n, p, CompileSolution)(n->base.handle, first, second, p->convolution, out,
                                                solutions[i].id);
        p->solution = solutions[i];
        if (!result || meaning(result) == TN_E_OUT_OF_MEMORY) return result;
        if (meaning(result) != TN_E_UNSUPPORTED) failure = result;
    }
    return failure;
}

/* Telling takes time: the library reads the properties of the device again. */
static int set_stream(hip_dnn *n, const void *queue)
{
    if (n->stream == cuda_stream_of(queue)) return MIO_SUCCESS;
    const int result = n->miopenSetStream(n->base.handle, cuda_stream_of(queue));
    if (!result) n->stream = cuda_stream_of(queue);
    return result;
}

static int make_plan(cuda_library *l, gpu_plan *made, const void *queue)
{
    hip_dnn *n = (hip_dnn *)l;
    plan *p = (plan *)made;
    int result = set_stream(n, queue);
    for (uint32_t i = 0; i < TENSORS && !result; i++)
        result = make_tensor(n, &p->key.window, i, &p->tensors[i]);
    if (!result) result = make_convolution(n, &p->key, &p->convolution);
    return result ? result : choose(n, p);
}

static void destroy_plan(const cuda_library *l, gpu_plan *made)
{
    const hip_dnn *n = (const hip_dnn *)l;
    const plan *p = (const plan *)made;
    for (uint32_t i = 0; i < TENSORS; i++)
        if (p->tensors[i]) n->miopenDestroyTensorDescriptor(p->tensors[i]);
    if (p->convolution) n->miopenDestroyConvolutionDescriptor(p->convolution);
}

static plan_key key_of(const tn_call *call, const gpu_convolution *c)
{
    return (plan_key){.window = gpu_window_key_of(c),
                      .is_deterministic = (call->flags & TN_CALL_DETERMINISTIC) != 0,
                      .is_pedantic = c->window->dtype == GPU_F32 && !(call->flags & TN_CALL_ALLOW_TF32)};
}

/* ---- Convolutions ------------------------------------------------------------------------------------------- */

static int32_t convolve(cuda_device *d, cuda_library *l, void *queue, const tn_call *call, const void *work)
{
    hip_dnn *n = (hip_dnn *)l;
    const gpu_convolution *c = work;
    const gpu_place *const places[TENSORS] = {&c->in, &c->weight, &c->out};
    const plan_key key = key_of(call, c);
    const uint32_t *role = roles[c->pass];
    void *workspace = NULL, *at[TENSORS];
    uint64_t offset = 0;
    gpu_plan *found;
    int32_t status = cuda_plan_find(d, l, &(cuda_plan_request){call, &key, make_plan, queue}, &found);
    if (status) return status;
    const plan *p = (plan *)found;
    for (uint32_t i = 0; i < TENSORS; i++)
        at[i] = cuda_place(places[role[i]]->memory, places[role[i]]->offset);
    if (p->solution.workspace) status = gpu_workspace(call, p->solution.workspace, &workspace, &offset);
    if (status) return status;
    if (set_stream(n, queue)) return TN_E_UNSUPPORTED;
    int result = OF_PASS(n, p, Immediate)(
        n->base.handle, p->tensors[role[0]], at[0], p->tensors[role[1]], at[1], p->convolution,
        p->tensors[role[2]], at[2], cuda_place(workspace, offset), p->solution.workspace, p->solution.id);
    if (!result) return TN_OK;
    if (meaning(result) != TN_E_UNSUPPORTED)
        return cuda_library_error(d, l, call, result, "miopenConvolution");
    found->is_supported = 0;
    return TN_E_UNSUPPORTED;
}

/* ---- The library -------------------------------------------------------------------------------------------- */

static size_t version(const cuda_library *l)
{
    size_t major = 0, minor = 0, patch = 0;
    ((const hip_dnn *)l)->miopenGetVersion(&major, &minor, &patch);
    return major * 10000 + minor * 100 + patch;
}

static const char *status_name(const cuda_library *l, int status)
{
    return ((const hip_dnn *)l)->miopenGetErrorString(status);
}

static const cuda_library_kind kind = {.name = VENDOR_DNN,
                                       .work = "convolutions",
                                       .files = VENDOR_DNN_FILES,
                                       CUDA_LIBRARY_SYMBOLS(MIOPEN_FUNCTIONS),
                                       .size = sizeof(hip_dnn),
                                       .has_one_stream = VENDOR_HANDLE_HAS_ONE_STREAM,
                                       .version = version,
                                       .status_name = status_name,
                                       .meaning = meaning,
                                       CUDA_LIBRARY_PLANS(plan_key, plan, destroy_plan)};

/* A window that is dilated along an axis. */
static int32_t is_dilated(const gpu_window *w)
{
    return w->dilation[0] > 1 || w->dilation[1] > 1 || w->dilation[2] > 1;
}

/* MIOpen does not compute float64, and not all of its solutions look at dilation where there are groups. */
int32_t cuda_dnn_convolve(void *device, void *queue, const tn_call *call, const gpu_convolution *c)
{
    if (c->window->dtype == GPU_F64) return TN_E_UNSUPPORTED;
    if (c->window->groups > 1 && is_dilated(c->window)) return TN_E_UNSUPPORTED;
    return cuda_library_run(device, &kind, convolve, queue, call, c);
}
