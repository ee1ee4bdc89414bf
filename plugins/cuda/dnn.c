/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions by cuDNN's graph API, if it is installed. A pass is a graph of one operation. cuDNN offers engines for it, the
 * best one first; a plan has the first engine that keeps the rules of the call and needs no more than a fixed workspace, so that
 * the choice depends neither on the memory that is free nor on what ran before.
 */
#include "cudnn.h"
#include "libraries.h"

#include <library_names.h>

enum {
    ENGINES = 16, /* as many are looked at */
    TENSORS = 3   /* in, weight, out; their ids in a graph are 1, 2, 3 */
};

/* What a plan depends on. No gaps: compared as bytes. */
typedef struct plan_key {
    gpu_window_key window;
    uint32_t refused_notes, alignments[TENSORS], zero;
} plan_key;

typedef struct plan {
    gpu_plan head;
    plan_key key;
    void *tensors[TENSORS], *convolution, *operation, *graph, *config, *execution;
    int64_t workspace;
} plan;

typedef struct cuda_dnn {
    cuda_library base;
#define DECLARE(result, name, arguments) result(*name) arguments;
    CUDNN_FUNCTIONS(DECLARE)
#undef DECLARE
} cuda_dnn;

/* ---- Descriptors -------------------------------------------------------------------------------------------- */

/* A descriptor that is being made: after a failure nothing more is done. */
typedef struct maker {
    const cuda_dnn *n;
    void *made;
    int result;
} maker;

static maker begin(const cuda_dnn *n, int type)
{
    maker m = {.n = n};
    m.result = n->cudnnBackendCreateDescriptor(type, &m.made);
    return m;
}

static void set(maker *m, int attribute, int type, int64_t count, const void *values)
{
    if (!m->result) m->result = m->n->cudnnBackendSetAttribute(m->made, attribute, type, count, values);
}

/* *out is destroyed with the plan, whatever happens. */
static int end(maker *m, void **out)
{
    *out = m->made;
    return m->result ? m->result : m->n->cudnnBackendFinalize(m->made);
}

/* ---- Graphs ------------------------------------------------------------------------------------------------- */

static int type_of(uint32_t dtype)
{
    static const int types[] = {
        [GPU_F16] = DNN_F16, [GPU_BF16] = DNN_BF16, [GPU_F32] = DNN_F32, [GPU_F64] = DNN_F64};
    return types[dtype];
}

static int make_tensor(const cuda_dnn *n, const plan_key *k, uint32_t which, void **out)
{
    const int64_t id = which + 1, alignment = k->alignments[which];
    const int type = type_of(k->window.dtype);
    int64_t sizes[5], strides[5], rank = gpu_window_sizes(&k->window, which, sizes);
    for (int64_t i = rank - 1; i >= 0; i--) strides[i] = i == rank - 1 ? 1 : strides[i + 1] * sizes[i + 1];
    maker m = begin(n, DNN_TENSOR);
    set(&m, DNN_TENSOR_DATA_TYPE, DNN_DATA_TYPE, 1, &type);
    set(&m, DNN_TENSOR_SIZES, DNN_INT64, rank, sizes);
    set(&m, DNN_TENSOR_STRIDES, DNN_INT64, rank, strides);
    set(&m, DNN_TENSOR_ID, DNN_INT64, 1, &id);
    set(&m, DNN_TENSOR_ALIGNMENT, DNN_INT64, 1, &alignment);
    return end(&m, out);
}

static int make_convolution(const cuda_dnn *n, const gpu_window_key *k, void **out)
{
    const int mode = DNN_CROSS_CORRELATION, sums = k->dtype == GPU_F64 ? DNN_F64 : DNN_F32;
    const int64_t axes = k->axes;
    int64_t strides[3], paddings[3], dilations[3];
    for (uint32_t i = 0; i < k->axes; i++) {
        strides[i] = k->stride[3 - k->axes + i];
        paddings[i] = k->padding[3 - k->axes + i];
        dilations[i] = k->dilation[3 - k->axes + i];
    }
    maker m = begin(n, DNN_CONVOLUTION);
    set(&m, DNN_CONVOLUTION_SUMS, DNN_DATA_TYPE, 1, &sums);
    set(&m, DNN_CONVOLUTION_KIND, DNN_CONVOLUTION_MODE, 1, &mode);
    set(&m, DNN_CONVOLUTION_DIMENSIONS, DNN_INT64, 1, &axes);
    set(&m, DNN_CONVOLUTION_STRIDES, DNN_INT64, axes, strides);
    set(&m, DNN_CONVOLUTION_PRE_PADDINGS, DNN_INT64, axes, paddings);
    set(&m, DNN_CONVOLUTION_POST_PADDINGS, DNN_INT64, axes, paddings);
    set(&m, DNN_CONVOLUTION_DILATIONS, DNN_INT64, axes, dilations);
    return end(&m, out);
}

static int make_operation(const cuda_dnn *n, plan *p)
{
    static const int types[] = {DNN_FORWARD, DNN_BACKWARD_DATA,
                                DNN_BACKWARD_WEIGHT}; /* by GPU_CONVOLVE_... */
    const int first = DNN_OPERATION + DNN_OPERATION_ATTRIBUTES * (int)p->key.window.pass;
    const double one = 1, zero = 0;
    const float narrow_one = 1, narrow_zero = 0;
    const int is_double = p->key.window.dtype == GPU_F64, type = is_double ? DNN_DOUBLE : DNN_FLOAT;
    maker m = begin(n, types[p->key.window.pass]);
    set(&m, first + DNN_OPERATION_ALPHA, type, 1, is_double ? (const void *)&one : &narrow_one);
    set(&m, first + DNN_OPERATION_BETA, type, 1, is_double ? (const void *)&zero : &narrow_zero);
    set(&m, first + DNN_OPERATION_CONVOLUTION, DNN_DESCRIPTOR, 1, &p->convolution);
    set(&m, first + DNN_OPERATION_IN, DNN_DESCRIPTOR, 1, &p->tensors[0]);
    set(&m, first + DNN_OPERATION_WEIGHT, DNN_DESCRIPTOR, 1, &p->tensors[1]);
    set(&m, first + DNN_OPERATION_OUT, DNN_DESCRIPTOR, 1, &p->tensors[2]);
    return end(&m, &p->operation);
}

static int make_graph(const cuda_dnn *n, plan *p)
{
    int result = DNN_SUCCESS;
    for (uint32_t i = 0; i < TENSORS && !result; i++) result = make_tensor(n, &p->key, i, &p->tensors[i]);
    if (!result) result = make_convolution(n, &p->key.window, &p->convolution);
    if (!result) result = make_operation(n, p);
    if (result) return result;
    maker m = begin(n, DNN_GRAPH);
    set(&m, DNN_GRAPH_HANDLE, DNN_HANDLE, 1, &n->base.handle);
    set(&m, DNN_GRAPH_OPERATIONS, DNN_DESCRIPTOR, 1, &p->operation);
    return end(&m, &p->graph);
}

/* ---- Engines ------------------------------------------------------------------------------------------------ */

/* Notes of engines that the call does not allow, as bits. */
static uint32_t refused_notes(const tn_call *call, uint32_t dtype)
{
    uint32_t refused = 0;
    if (call->flags & TN_CALL_DETERMINISTIC) refused |= 1u << DNN_NOTE_NONDETERMINISTIC;
    if (dtype == GPU_F32 && !(call->flags & TN_CALL_ALLOW_TF32))
        refused |= 1u << DNN_NOTE_TENSOR_CORE | 1u << DNN_NOTE_DOWN_CONVERT;
    if (dtype == GPU_F64) refused |= 1u << DNN_NOTE_DOWN_CONVERT;
    if (dtype >= GPU_F32 || !(call->flags & TN_CALL_ALLOW_HALF_ACCUMULATION))
        refused |= 1u << DNN_NOTE_REDUCED_SUMS;
    return refused;
}

/* Whether the engine of a configuration has none of the notes. */
static int32_t is_allowed(const cuda_dnn *n, void *config, uint32_t refused)
{
    int notes[DNN_NOTES];
    int64_t count = 0, one = 0;
    void *engine = NULL;
    int result = n->cudnnBackendCreateDescriptor(DNN_ENGINE, &engine);
    if (!result)
        result = n->cudnnBackendGetAttribute(config, DNN_CONFIG_ENGINE, DNN_DESCRIPTOR, 1, &one, &engine);
    if (!result)
        result = n->cudnnBackendGetAttribute(engine, DNN_ENGINE_NOTES, DNN_NUMERICAL_NOTE, DNN_NOTES, &count,
                                             notes);
    if (engine) n->cudnnBackendDestroyDescriptor(engine);
    if (result || count > DNN_NOTES) return 0;
    for (int64_t i = 0; i < count; i++)
        if (notes[i] >= 0 && notes[i] < 32 && refused >> notes[i] & 1) return 0;
    return 1;
}

/* The plan with the engine of a configuration; what is too large is refused. */
static int prepare(const cuda_dnn *n, plan *p, void *config)
{
    int64_t count = 0;
    maker m = begin(n, DNN_PLAN);
    set(&m, DNN_PLAN_HANDLE, DNN_HANDLE, 1, &n->base.handle);
    set(&m, DNN_PLAN_CONFIG, DNN_DESCRIPTOR, 1, &config);
    int result = end(&m, &p->execution);
    if (!result)
        result = n->cudnnBackendGetAttribute(p->execution, DNN_PLAN_WORKSPACE, DNN_INT64, 1, &count,
                                             &p->workspace);
    if (!result && p->workspace <= CUDA_CONVOLUTION_WORKSPACE) return DNN_SUCCESS;
    if (p->execution) n->cudnnBackendDestroyDescriptor(p->execution);
    p->execution = NULL;
    return result ? result : DNN_NOT_SUPPORTED;
}

/* The first configuration that serves is kept, as its plan refers to it. */
static int choose_among(const cuda_dnn *n, plan *p, void **configs, int64_t count)
{
    int result = DNN_NOT_SUPPORTED;
    for (int64_t i = 0; i < count && result; i++) {
        if (!is_allowed(n, configs[i], p->key.refused_notes)) continue;
        result = prepare(n, p, configs[i]);
        if (result) continue;
        p->config = configs[i];
        configs[i] = NULL;
    }
    return result;
}

static int choose(const cuda_dnn *n, plan *p, int how)
{
    void *choice = NULL, *configs[ENGINES] = {NULL};
    int64_t count = 0;
    maker m = begin(n, DNN_CHOICE);
    set(&m, DNN_CHOICE_GRAPH, DNN_DESCRIPTOR, 1, &p->graph);
    set(&m, DNN_CHOICE_HOW, DNN_CHOICE_MODE, 1, &how);
    int result = end(&m, &choice);
    for (int i = 0; i < ENGINES && !result; i++)
        result = n->cudnnBackendCreateDescriptor(DNN_CONFIG, &configs[i]);
    if (!result)
        result =
            n->cudnnBackendGetAttribute(choice, DNN_CHOICE_RESULTS, DNN_DESCRIPTOR, ENGINES, &count, configs);
    if (!result) result = choose_among(n, p, configs, count < ENGINES ? count : ENGINES);
    for (int i = 0; i < ENGINES; i++)
        if (configs[i]) n->cudnnBackendDestroyDescriptor(configs[i]);
    if (choice) n->cudnnBackendDestroyDescriptor(choice);
    return result;
}

/* ---- Plans -------------------------------------------------------------------------------------------------- */

static plan_key key_of(const tn_call *call, const gpu_convolution *c, void *const places[TENSORS])
{
    plan_key k = {.window = gpu_window_key_of(c), .refused_notes = refused_notes(call, c->window->dtype)};
    for (uint32_t i = 0; i < TENSORS; i++) k.alignments[i] = cuda_alignment(places[i]);
    return k;
}

static int make_plan(cuda_library *l, gpu_plan *made, const void *unused)
{
    const cuda_dnn *n = (cuda_dnn *)l;
    plan *p = (plan *)made;
    int result = make_graph(n, p);
    if (result) return result;
    return choose(n, p, DNN_CHOOSE_A) ? choose(n, p, DNN_CHOOSE_FALLBACK) : DNN_SUCCESS;
}

static void destroy_plan(const cuda_library *l, gpu_plan *made)
{
    const plan *p = (plan *)made;
    void *const all[] = {p->execution,   p->config,     p->graph,      p->operation,
                         p->convolution, p->tensors[0], p->tensors[1], p->tensors[2]};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) ((const cuda_dnn *)l)->cudnnBackendDestroyDescriptor(all[i]);
}

/* ---- Convolutions ------------------------------------------------------------------------------------------- */

/* *out_began: the failure, if there is one, is of the work itself. */
static int execute(const cuda_dnn *n, const plan *p, void *queue, void *const places[TENSORS],
                   void *workspace, int32_t *out_began)
{
    static const int64_t ids[TENSORS] = {1, 2, 3};
    void *pack = NULL;
    maker m = begin(n, DNN_PACK);
    set(&m, DNN_PACK_IDS, DNN_INT64, TENSORS, ids);
    set(&m, DNN_PACK_POINTERS, DNN_POINTER, TENSORS, places);
    set(&m, DNN_PACK_WORKSPACE, DNN_POINTER, 1, &workspace);
    int result = end(&m, &pack);
    if (!result) result = n->cudnnSetStream(n->base.handle, cuda_stream_of(queue));
    *out_began = !result;
    if (!result) result = n->cudnnBackendExecute(n->base.handle, p->execution, pack);
    if (pack) n->cudnnBackendDestroyDescriptor(pack);
    return result;
}

static int32_t convolve(cuda_device *d, cuda_library *l, void *queue, const tn_call *call, const void *work)
{
    const cuda_dnn *n = (cuda_dnn *)l;
    const gpu_convolution *c = work;
    void *const places[TENSORS] = {cuda_place(c->in.memory, c->in.offset),
                                   cuda_place(c->weight.memory, c->weight.offset),
                                   cuda_place(c->out.memory, c->out.offset)};
    const plan_key key = key_of(call, c, places);
    plan *p = (plan *)cuda_plan_find(l, &key, make_plan, NULL);
    void *workspace = NULL;
    uint64_t offset = 0;
    if (!p || !p->head.is_supported) return TN_E_UNSUPPORTED;
    int32_t status =
        p->workspace > 0 ? gpu_workspace(call, (uint64_t)p->workspace, &workspace, &offset) : TN_OK;
    if (status) return status;
    int32_t began;
    int result = execute(n, p, queue, places, cuda_place(workspace, offset), &began);
    if (!result) return TN_OK;
    if (!began) return TN_E_UNSUPPORTED;
    p->head.is_supported =
        result / 1000 != DNN_NOT_SUPPORTED / 1000 && result / 1000 != DNN_BAD_PARAMETER / 1000;
    if (!p->head.is_supported) return TN_E_UNSUPPORTED;
    int32_t is_memory = result == DNN_HOST_ALLOCATION_FAILED || result == DNN_DEVICE_ALLOCATION_FAILED;
    return cuda_library_error(d, &n->base, is_memory ? TN_E_OUT_OF_MEMORY : TN_E_INTERNAL, result,
                              "cudnnBackendExecute");
}

/* ---- The library -------------------------------------------------------------------------------------------- */

static const cuda_library_kind kind = {.name = VENDOR_DNN,
                                       .work = "convolutions",
                                       .files = VENDOR_DNN_FILES,
                                       CUDA_LIBRARY_SYMBOLS(CUDNN_FUNCTIONS),
                                       .size = sizeof(cuda_dnn),
                                       CUDA_LIBRARY_PLANS(plan_key, plan, destroy_plan)};

int32_t cuda_dnn_convolve(void *device, void *queue, const tn_call *call, const gpu_convolution *c)
{
    return cuda_library_run(device, &kind, convolve, queue, call, c);
}
