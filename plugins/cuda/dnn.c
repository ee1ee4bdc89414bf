/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs of cuDNN. It offers engines for a graph, the best one first; a plan has the first engine that keeps the rules of the
 * call and needs no more workspace than its operands allow, so that the choice depends neither on the memory that is free nor on what
 * ran before.
 */
#include "dnn.h"

#include <stdbool.h>

/* As many are looked at: of those for float32 most round it to TF32. */
enum { ENGINES = 16, ENGINES_OF_F32 = 64 };

/* ---- Descriptors -------------------------------------------------------------------------------------------- */

dnn_maker dnn_begin(const cuda_dnn *n, int type)
{
    dnn_maker m = {.n = n};
    m.result = n->cudnnBackendCreateDescriptor(type, &m.made);
    return m;
}

void dnn_set(dnn_maker *m, int attribute, int type, int64_t count, const void *values)
{
    if (!m->result) m->result = m->n->cudnnBackendSetAttribute(m->made, attribute, type, count, values);
}

int dnn_end(dnn_maker *m, void **out)
{
    *out = m->made;
    return m->result ? m->result : m->n->cudnnBackendFinalize(m->made);
}

void dnn_destroy(const cuda_dnn *n, void *const *descriptors, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (descriptors[i]) n->cudnnBackendDestroyDescriptor(descriptors[i]);
}

int dnn_type_of(uint32_t dtype)
{
    static const int types[] = {
        [GPU_F16] = DNN_F16, [GPU_BF16] = DNN_BF16, [GPU_F32] = DNN_F32, [GPU_F64] = DNN_F64};
    return types[dtype];
}

int dnn_make_tensor(const cuda_dnn *n, const dnn_tensor *t, void **out)
{
    const bool yes = true;
    dnn_maker m = dnn_begin(n, DNN_TENSOR);
    dnn_set(&m, DNN_TENSOR_DATA_TYPE, DNN_DATA_TYPE, 1, &t->type);
    dnn_set(&m, DNN_TENSOR_SIZES, DNN_INT64, t->rank, t->sizes);
    dnn_set(&m, DNN_TENSOR_STRIDES, DNN_INT64, t->rank, t->strides);
    dnn_set(&m, DNN_TENSOR_ID, DNN_INT64, 1, &t->id);
    dnn_set(&m, DNN_TENSOR_ALIGNMENT, DNN_INT64, 1, &t->alignment);
    if (t->is_virtual) dnn_set(&m, DNN_TENSOR_IS_VIRTUAL, DNN_BOOLEAN, 1, &yes);
    if (t->is_by_value) dnn_set(&m, DNN_TENSOR_IS_BY_VALUE, DNN_BOOLEAN, 1, &yes);
    return dnn_end(&m, out);
}

int dnn_make_graph(const cuda_dnn *n, void *const *operations, uint32_t count, dnn_engine *e)
{
    dnn_maker m = dnn_begin(n, DNN_GRAPH);
    dnn_set(&m, DNN_GRAPH_HANDLE, DNN_HANDLE, 1, &n->base.handle);
    dnn_set(&m, DNN_GRAPH_OPERATIONS, DNN_DESCRIPTOR, count, operations);
    return dnn_end(&m, &e->graph);
}

/* ---- Engines ------------------------------------------------------------------------------------------------ */

uint32_t dnn_refused_notes(const tn_call *call, uint32_t dtype)
{
    uint32_t refused = 0;
    if (call->flags & TN_CALL_DETERMINISTIC) refused |= 1u << DNN_NOTE_NONDETERMINISTIC;
    if (dtype == GPU_F32 && !(call->flags & TN_CALL_ALLOW_TF32)) refused |= DNN_ROUNDS_F32;
    if (dtype == GPU_F64) refused |= 1u << DNN_NOTE_DOWN_CONVERT;
    if (dtype >= GPU_F32 || !(call->flags & TN_CALL_ALLOW_HALF_ACCUMULATION))
        refused |= 1u << DNN_NOTE_REDUCED_SUMS;
    return refused;
}

int32_t dnn_meaning(int result)
{
    if (result / 1000 == DNN_NOT_SUPPORTED / 1000 || result / 1000 == DNN_BAD_PARAMETER / 1000)
        return TN_E_UNSUPPORTED;
    return result == DNN_HOST_ALLOCATION_FAILED || result == DNN_DEVICE_ALLOCATION_FAILED ? TN_E_OUT_OF_MEMORY
                                                                                          : TN_E_INTERNAL;
}

/* DNN_NOT_SUPPORTED: the engine of a configuration has one of the notes. */
static int check_notes(const cuda_dnn *n, void *config, uint32_t refused)
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
    if (result) return result;
    if (count > DNN_NOTES) return DNN_NOT_SUPPORTED;
    for (int64_t i = 0; i < count; i++)
        if (notes[i] >= 0 && notes[i] < 32 && refused >> notes[i] & 1) return DNN_NOT_SUPPORTED;
    return DNN_SUCCESS;
}

/* The execution with the engine of a configuration; what is too large is refused. */
static int prepare(const cuda_dnn *n, dnn_engine *e, void *config)
{
    int64_t count = 0;
    dnn_maker m = dnn_begin(n, DNN_PLAN);
    dnn_set(&m, DNN_PLAN_HANDLE, DNN_HANDLE, 1, &n->base.handle);
    dnn_set(&m, DNN_PLAN_CONFIG, DNN_DESCRIPTOR, 1, &config);
    int result = dnn_end(&m, &e->execution);
    if (!result)
        result = n->cudnnBackendGetAttribute(e->execution, DNN_PLAN_WORKSPACE, DNN_INT64, 1, &count,
                                             &e->workspace);
    if (!result && e->workspace <= e->most_workspace) return DNN_SUCCESS;
    if (e->execution) n->cudnnBackendDestroyDescriptor(e->execution);
    e->execution = NULL;
    return result ? result : DNN_NOT_SUPPORTED;
}

/* The first configuration that serves is kept, as the execution refers to it. If none does, a failure that is not a refusal is
 * given before one that is. */
static int choose_among(const cuda_dnn *n, dnn_engine *e, uint32_t refused_notes, void **configs,
                        int64_t count)
{
    int failure = DNN_NOT_SUPPORTED;
    for (int64_t i = 0; i < count; i++) {
        int result = check_notes(n, configs[i], refused_notes);
        if (!result) result = prepare(n, e, configs[i]);
        if (!result) {
            e->config = configs[i];
            configs[i] = NULL;
        }
        if (!result || dnn_meaning(result) == TN_E_OUT_OF_MEMORY) return result;
        if (dnn_meaning(result) != TN_E_UNSUPPORTED) failure = result;
    }
    return failure;
}

static int choose(const cuda_dnn *n, dnn_engine *e, uint32_t refused_notes, int how)
{
    void *choice = NULL, *configs[ENGINES_OF_F32] = {NULL};
    const int most = refused_notes & 1u << DNN_NOTE_TENSOR_CORE ? ENGINES_OF_F32 : ENGINES;
    int64_t count = 0;
    dnn_maker m = dnn_begin(n, DNN_CHOICE);
    dnn_set(&m, DNN_CHOICE_GRAPH, DNN_DESCRIPTOR, 1, &e->graph);
    dnn_set(&m, DNN_CHOICE_HOW, DNN_CHOICE_MODE, 1, &how);
    int result = dnn_end(&m, &choice);
    for (int i = 0; i < most && !result; i++)
        result = n->cudnnBackendCreateDescriptor(DNN_CONFIG, &configs[i]);
    if (!result)
        result =
            n->cudnnBackendGetAttribute(choice, DNN_CHOICE_RESULTS, DNN_DESCRIPTOR, most, &count, configs);
    if (!result) result = choose_among(n, e, refused_notes, configs, count < most ? count : most);
    dnn_destroy(n, configs, (uint32_t)most);
    dnn_destroy(n, &choice, 1);
    return result;
}

/* Engines that use tensor cores may need copies of the operands in another order of axes, or float32 sums of them. */
static int64_t most_workspace(uint64_t operand_bytes)
{
    const uint64_t least = CUDA_DNN_WORKSPACE, most = (uint64_t)4 << 30, wanted = 4 * operand_bytes;
    return (int64_t)(wanted < least ? least : wanted > most ? most : wanted);
}

int dnn_choose(const cuda_dnn *n, dnn_engine *e, uint32_t refused_notes, uint64_t operand_bytes)
{
    e->most_workspace = most_workspace(operand_bytes);
    const int first = choose(n, e, refused_notes, DNN_CHOOSE_A);
    if (!first || dnn_meaning(first) == TN_E_OUT_OF_MEMORY) return first;
    const int second = choose(n, e, refused_notes, DNN_CHOOSE_FALLBACK);
    return second && dnn_meaning(second) == TN_E_UNSUPPORTED ? first : second;
}

/* ---- Work --------------------------------------------------------------------------------------------------- */

/* *out_began: the failure, if there is one, is of the work itself. */
static int execute(const cuda_dnn *n, void *queue, const dnn_work *w, int32_t *out_began)
{
    void *pack = NULL;
    dnn_maker m = dnn_begin(n, DNN_PACK);
    dnn_set(&m, DNN_PACK_IDS, DNN_INT64, w->count, w->ids);
    dnn_set(&m, DNN_PACK_POINTERS, DNN_POINTER, w->count, w->places);
    dnn_set(&m, DNN_PACK_WORKSPACE, DNN_POINTER, 1, &w->workspace);
    int result = dnn_end(&m, &pack);
    if (!result) result = n->cudnnSetStream(n->base.handle, cuda_stream_of(queue));
    *out_began = !result;
    if (!result) result = n->cudnnBackendExecute(n->base.handle, w->engine->execution, pack);
    if (pack) n->cudnnBackendDestroyDescriptor(pack);
    return result;
}

int32_t dnn_run(cuda_device *d, cuda_library *l, const tn_call *call, const dnn_work *w)
{
    int32_t began;
    int result = execute((cuda_dnn *)l, gpu_stream_of(call)->queue, w, &began);
    if (!result) return TN_OK;
    if (!began) return TN_E_UNSUPPORTED;
    w->plan->is_supported = dnn_meaning(result) != TN_E_UNSUPPORTED;
    if (!w->plan->is_supported) return TN_E_UNSUPPORTED;
    return cuda_library_error(d, l, call, result, "cudnnBackendExecute");
}
