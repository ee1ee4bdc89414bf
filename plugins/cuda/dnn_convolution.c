/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions by cuDNN's graph API, if it is installed. A pass is a graph of one operation. A version does not get the
 * convolutions that it computes wrong.
 */
#include "dnn.h"

enum { TENSORS = 3 }; /* in, weight, out; their ids in a graph are 1, 2, 3 */

/* Versions whose convolutions of three axes are wrong: of half types, unless the window is one element; of float32 by TF32. */
enum { HALVES_FAIL_FROM = 90800, HALVES_WORK_FROM = 91500, TF32_FAILS_FROM = 91002, TF32_WORKS_FROM = 91501 };
/* Versions whose depthwise convolutions are wrong behind others of other sizes. */
enum { DEPTHWISE_FAILS_FROM = 92100, DEPTHWISE_WORKS_FROM = 92400 };

/* What a plan depends on. No gaps: compared as bytes. */
typedef struct plan_key {
    gpu_window_key window;
    uint32_t refused_notes, alignments[TENSORS], zero;
} plan_key;

typedef struct plan {
    gpu_plan head;
    plan_key key;
    void *tensors[TENSORS], *convolution, *operation;
    dnn_engine engine;
} plan;

/* ---- Graphs ------------------------------------------------------------------------------------------------- */

static int make_tensor(const cuda_dnn *n, const plan_key *k, uint32_t which, void **out)
{
    dnn_tensor t = {.type = dnn_type_of(k->window.dtype), .id = which + 1, .alignment = k->alignments[which]};
    t.rank = gpu_window_sizes(&k->window, which, t.sizes);
    for (int64_t i = t.rank - 1; i >= 0; i--)
        t.strides[i] = i == t.rank - 1 ? 1 : t.strides[i + 1] * t.sizes[i + 1];
    return dnn_make_tensor(n, &t, out);
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
    dnn_maker m = dnn_begin(n, DNN_CONVOLUTION);
    dnn_set(&m, DNN_CONVOLUTION_SUMS, DNN_DATA_TYPE, 1, &sums);
    dnn_set(&m, DNN_CONVOLUTION_KIND, DNN_CONVOLUTION_MODE, 1, &mode);
    dnn_set(&m, DNN_CONVOLUTION_DIMENSIONS, DNN_INT64, 1, &axes);
    dnn_set(&m, DNN_CONVOLUTION_STRIDES, DNN_INT64, axes, strides);
    dnn_set(&m, DNN_CONVOLUTION_PRE_PADDINGS, DNN_INT64, axes, paddings);
    dnn_set(&m, DNN_CONVOLUTION_POST_PADDINGS, DNN_INT64, axes, paddings);
    dnn_set(&m, DNN_CONVOLUTION_DILATIONS, DNN_INT64, axes, dilations);
    return dnn_end(&m, out);
}

static int make_operation(const cuda_dnn *n, plan *p)
{
    static const int types[] = {DNN_FORWARD, DNN_BACKWARD_DATA,
                                DNN_BACKWARD_WEIGHT}; /* by GPU_CONVOLVE_... */
    const int first = DNN_OPERATION + DNN_OPERATION_ATTRIBUTES * (int)p->key.window.pass;
    const double one = 1, zero = 0;
    const float narrow_one = 1, narrow_zero = 0;
    const int is_double = p->key.window.dtype == GPU_F64, type = is_double ? DNN_DOUBLE : DNN_FLOAT;
    dnn_maker m = dnn_begin(n, types[p->key.window.pass]);
    dnn_set(&m, first + DNN_OPERATION_ALPHA, type, 1, is_double ? (const void *)&one : &narrow_one);
    dnn_set(&m, first + DNN_OPERATION_BETA, type, 1, is_double ? (const void *)&zero : &narrow_zero);
    dnn_set(&m, first + DNN_OPERATION_CONVOLUTION, DNN_DESCRIPTOR, 1, &p->convolution);
    dnn_set(&m, first + DNN_OPERATION_IN, DNN_DESCRIPTOR, 1, &p->tensors[0]);
    dnn_set(&m, first + DNN_OPERATION_WEIGHT, DNN_DESCRIPTOR, 1, &p->tensors[1]);
    dnn_set(&m, first + DNN_OPERATION_OUT, DNN_DESCRIPTOR, 1, &p->tensors[2]);
    return dnn_end(&m, &p->operation);
}

static int make_graph(const cuda_dnn *n, plan *p)
{
    int result = DNN_SUCCESS;
    for (uint32_t i = 0; i < TENSORS && !result; i++) result = make_tensor(n, &p->key, i, &p->tensors[i]);
    if (!result) result = make_convolution(n, &p->key.window, &p->convolution);
    if (!result) result = make_operation(n, p);
    return result ? result : dnn_make_graph(n, &p->operation, 1, &p->engine);
}

/* ---- What is left to the kernels ---------------------------------------------------------------------------- */

static int32_t has_window(const gpu_window_key *k)
{
    return k->kernel_size[0] != 1 || k->kernel_size[1] != 1 || k->kernel_size[2] != 1;
}

static int32_t is_dilated(const gpu_window_key *k)
{
    return k->dilation[0] != 1 || k->dilation[1] != 1 || k->dilation[2] != 1;
}

static int32_t is_depthwise(const gpu_window_key *k)
{
    return k->groups > 1 && k->in_channels == 1;
}

/* Not all engines for dilated windows that add in any order have the note that says so. */
static int32_t is_taken(size_t version, const tn_call *call, const gpu_window_key *k)
{
    if (call->flags & TN_CALL_DETERMINISTIC && is_dilated(k)) return 0;
    if (is_depthwise(k) && version >= DEPTHWISE_FAILS_FROM && version < DEPTHWISE_WORKS_FROM) return 0;
    return k->axes != 3 || k->dtype >= GPU_F32 || !has_window(k) || version < HALVES_FAIL_FROM ||
           version >= HALVES_WORK_FROM;
}

static uint32_t refused_notes(size_t version, const tn_call *call, const gpu_window_key *k)
{
    const int32_t is_wrong =
        k->axes == 3 && k->dtype == GPU_F32 && version >= TF32_FAILS_FROM && version < TF32_WORKS_FROM;
    return dnn_refused_notes(call, k->dtype) | (is_wrong ? DNN_ROUNDS_F32 : 0);
}

/* ---- Plans -------------------------------------------------------------------------------------------------- */

static plan_key key_of(const cuda_dnn *n, const tn_call *call, const gpu_convolution *c,
                       void *const places[TENSORS])
{
    plan_key k = {.window = gpu_window_key_of(c)};
    k.refused_notes = refused_notes(n->cudnnGetVersion(), call, &k.window);
    for (uint32_t i = 0; i < TENSORS; i++) k.alignments[i] = cuda_alignment(places[i]);
    return k;
}

static uint64_t bytes_of(const gpu_window_key *k)
{
    uint64_t elements = 0;
    for (uint32_t which = 0; which < TENSORS; which++) {
        int64_t sizes[5], of_tensor = 1;
        const uint32_t rank = gpu_window_sizes(k, which, sizes);
        for (uint32_t i = 0; i < rank; i++) of_tensor *= sizes[i];
        elements += (uint64_t)of_tensor;
    }
    return elements * gpu_code_bytes(k->dtype);
}

static int make_plan(cuda_library *l, gpu_plan *made, const void *unused)
{
    const cuda_dnn *n = (cuda_dnn *)l;
    plan *p = (plan *)made;
    int result = make_graph(n, p);
    return result ? result : dnn_choose(n, &p->engine, p->key.refused_notes, bytes_of(&p->key.window));
}

static void destroy_plan(const cuda_library *l, gpu_plan *made)
{
    const plan *p = (plan *)made;
    void *const all[] = {p->engine.execution, p->engine.config, p->engine.graph, p->operation,
                         p->convolution,      p->tensors[0],    p->tensors[1],   p->tensors[2]};
    dnn_destroy((const cuda_dnn *)l, all, sizeof all / sizeof *all);
}

/* ---- Convolutions ------------------------------------------------------------------------------------------- */

static int32_t convolve(cuda_device *d, cuda_library *l, void *queue, const tn_call *call, const void *work)
{
    static const int64_t ids[TENSORS] = {1, 2, 3};
    const gpu_convolution *c = work;
    void *const places[TENSORS] = {cuda_place(c->in.memory, c->in.offset),
                                   cuda_place(c->weight.memory, c->weight.offset),
                                   cuda_place(c->out.memory, c->out.offset)};
    const cuda_dnn *n = (cuda_dnn *)l;
    const plan_key key = key_of(n, call, c, places);
    void *workspace = NULL;
    uint64_t offset = 0;
    gpu_plan *found;
    if (!is_taken(n->cudnnGetVersion(), call, &key.window)) return TN_E_UNSUPPORTED;
    int32_t status = cuda_plan_find(d, l, &(cuda_plan_request){call, &key, make_plan, NULL}, &found);
    if (status) return status;
    const plan *p = (plan *)found;
    if (p->engine.workspace > 0)
        status = gpu_workspace(call, (uint64_t)p->engine.workspace, &workspace, &offset);
    if (status) return status;
    return dnn_run(d, l, call,
                   &(dnn_work){.plan = found,
                               .engine = &p->engine,
                               .ids = ids,
                               .places = places,
                               .count = TENSORS,
                               .workspace = cuda_place(workspace, offset)});
}

/* ---- The library -------------------------------------------------------------------------------------------- */

static const cuda_library_kind kind = {DNN_KIND, .work = "convolutions",
                                       CUDA_LIBRARY_PLANS(plan_key, plan, destroy_plan)};

int32_t cuda_dnn_convolve(void *device, void *queue, const tn_call *call, const gpu_convolution *c)
{
    return cuda_library_run(device, &kind, convolve, queue, call, c);
}
