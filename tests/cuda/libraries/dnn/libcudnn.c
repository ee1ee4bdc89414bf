/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcudnn.so.9 for tests: convolutions of the test driver's memory, and graphs of several operations (graph.h), on its streams,
 * described by the graph API. It refuses what cuDNN refuses: attributes of another type or that are missing, descriptors that are
 * not final, sizes that do not fit, pointers below the alignment of their tensors. It offers engines whose numbers differ, so that
 * a wrong choice shows. It is wrong where versions of cuDNN are: in convolutions of three axes, in depthwise ones, and in gradients of
 * attention on GPUs of compute capability 9 with half a block of keys, or whole ones and a part of a block of queries. The environment: CUDNN_VERSION is the version; CUDNN_TEST_CROWD=N offers
 * N engines that round float32 before all others; CUDNN_TEST_LARGE=N is the workspace of the engine that needs most.
 */
#define TN_PLUGIN
#include "convolve.h"
#include "graph.h"

CUDNN_FUNCTIONS(DECLARE)
/* Convolutions, choices, objects that the plugin has not given back, the engine of the last work, graphs of several operations. */
enum { CONVOLUTIONS, CHOICES, LIVE, ENGINE, GRAPHS };

/* ---- Engines ------------------------------------------------------------------------------------------------ */

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

/* In the order in which they are offered; the last one is the fallback. */
enum { REDUCED, ROUNDED, UNORDERED, LARGE, PLAIN, ENGINES };
static const struct {
    int note; /* -1: none */
    int how;
    int64_t workspace;
} engines[ENGINES] = {[REDUCED] = {DNN_NOTE_REDUCED_SUMS, REDUCES_SUMS, 0},
                      [ROUNDED] = {DNN_NOTE_TENSOR_CORE, ROUNDS_FLOAT32, 0},
                      [UNORDERED] = {DNN_NOTE_NONDETERMINISTIC, CHANGES_THE_ORDER, 4096},
                      [LARGE] = {-1, 0, (int64_t)1 << 40},
                      [PLAIN] = {-1, 0, 4096}};

static int64_t workspace_of(int engine)
{
    return engine == LARGE ? setting("CUDNN_TEST_LARGE", engines[LARGE].workspace)
                           : engines[engine].workspace;
}

/* ---- Descriptors -------------------------------------------------------------------------------------------- */

static int create(void **out, object o)
{
    return make_object(out, &o, sizeof o, LIVE) ? DNN_SUCCESS : DNN_HOST_ALLOCATION_FAILED;
}

static int destroy(void *o)
{
    return destroy_object(o, sizeof(object), LIVE);
}

int cudnnBackendCreateDescriptor(int type, void **out)
{
    FAULT(__func__);
    return create(out, (object){.type = type, .engine = -1});
}

int cudnnBackendDestroyDescriptor(void *descriptor)
{
    return destroy(descriptor);
}

int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t n, const void *values)
{
    object *o = descriptor;
    FAULT(__func__);
    if (o->is_final || n < 1 || n > VALUES || o->n == ATTRIBUTES || !is_known(o, name, type) || find(o, name))
        return DNN_BAD_PARAMETER;
    attribute *a = &o->attributes[o->n++];
    *a = (attribute){.name = name, .type = type, .count = n};
    memcpy(a->values, values, (size_t)n * size_of(type));
    if (type != DNN_DESCRIPTOR) return DNN_SUCCESS;
    return descriptor_of(o, name)->is_final ? DNN_SUCCESS : DNN_BAD_PARAMETER;
}

/* ---- What is final ------------------------------------------------------------------------------------------- */

static int is_tensor(const object *o)
{
    const attribute *sizes = find(o, DNN_TENSOR_SIZES), *strides = find(o, DNN_TENSOR_STRIDES);
    for (int64_t i = 0; i < sizes->count && i < strides->count; i++)
        if (sizes->values[i] < 1 || strides->values[i] < 0) return 0;
    return strides->count == sizes->count;
}

static int is_row_major(const object *o)
{
    const attribute *sizes = find(o, DNN_TENSOR_SIZES), *strides = find(o, DNN_TENSOR_STRIDES);
    int64_t stride = 1;
    for (int64_t i = sizes->count - 1; i >= 0; i--) {
        if (strides->values[i] != stride) return 0;
        stride *= sizes->values[i];
    }
    return 1;
}

/* The sizes of a convolution's tensors belong together. */
static int is_convolution(const object *o)
{
    const int first = first_attribute(o->type);
    const object *c = descriptor_of(o, first + DNN_OPERATION_CONVOLUTION);
    for (int k = DNN_OPERATION_WEIGHT; k <= DNN_OPERATION_OUT; k++)
        if (!is_row_major(descriptor_of(o, first + k))) return 0;
    const attribute *in = find(descriptor_of(o, first + DNN_OPERATION_IN), DNN_TENSOR_SIZES);
    const attribute *weight = find(descriptor_of(o, first + DNN_OPERATION_WEIGHT), DNN_TENSOR_SIZES);
    const attribute *out = find(descriptor_of(o, first + DNN_OPERATION_OUT), DNN_TENSOR_SIZES);
    const int is_double = number_of(c, DNN_CONVOLUTION_SUMS) == DNN_F64;
    if (find(o, first)->type != (is_double ? DNN_DOUBLE : DNN_FLOAT)) return 0;
    if (in->values[0] != out->values[0] || weight->values[0] != out->values[1]) return 0;
    if (in->values[1] % weight->values[1] || weight->values[0] % (in->values[1] / weight->values[1]))
        return 0;
    for (int64_t i = 0; i < find(c, DNN_CONVOLUTION_DIMENSIONS)->values[0]; i++) {
        int64_t padding = find(c, DNN_CONVOLUTION_PRE_PADDINGS)->values[i] +
                          find(c, DNN_CONVOLUTION_POST_PADDINGS)->values[i];
        int64_t reach = find(c, DNN_CONVOLUTION_DILATIONS)->values[i] * (weight->values[2 + i] - 1) + 1;
        int64_t stride = find(c, DNN_CONVOLUTION_STRIDES)->values[i];
        if (out->values[2 + i] != (in->values[2 + i] + padding - reach) / stride + 1) return 0;
    }
    return 1;
}

static int has_several(const object *graph)
{
    return find(graph, DNN_GRAPH_OPERATIONS)->count > 1;
}

/* A convolution, or operations that fit together. */
static int is_graph(const object *o)
{
    graph_work w;
    return has_several(o) ? read_graph(o, &w)
                          : first_attribute(descriptor_of(o, DNN_GRAPH_OPERATIONS)->type) >= 0;
}

int cudnnBackendFinalize(void *descriptor)
{
    object *o = descriptor;
    FAULT(__func__);
    if (!is_complete(o)) return DNN_BAD_PARAMETER;
    if (o->type == DNN_TENSOR && !is_tensor(o)) return DNN_BAD_PARAMETER;
    if (first_attribute(o->type) >= 0 && !is_convolution(o)) return DNN_BAD_PARAMETER;
    if (o->type == DNN_GRAPH && !is_graph(o)) return DNN_BAD_PARAMETER;
    if (o->type == DNN_CHOICE) count(CHOICES, 1);
    o->is_final = 1;
    return DNN_SUCCESS;
}

/* ---- What the library gives ---------------------------------------------------------------------------------- */

/* No engine computes products of less than LEAST_DEPTH terms in graphs. */
static int is_computed(const object *graph)
{
    enum { LEAST_DEPTH = 8 };
    graph_work w;
    if (!has_several(graph)) return 1;
    read_graph(graph, &w);
    for (int i = 0; i < w.n_steps; i++)
        if (w.steps[i].type == DNN_PRODUCT_OPERATION && w.tensors[w.steps[i].x].sizes[3] < LEAST_DEPTH)
            return 0;
    return 1;
}

static int give_configs(const object *choice, int64_t wanted, int64_t *out_count, void **configs)
{
    const int is_best = number_of(choice, DNN_CHOICE_HOW) == DNN_CHOOSE_A, first = is_best ? 0 : PLAIN;
    const int crowd = is_best ? (int)setting("CUDNN_TEST_CROWD", 0) : 0;
    *out_count = 0;
    if (!is_computed(descriptor_of(choice, DNN_CHOICE_GRAPH))) return DNN_SUCCESS;
    for (; first + *out_count - crowd < ENGINES && *out_count < wanted; ++*out_count) {
        const int engine = first + (int)*out_count - crowd;
        object *config = configs[*out_count];
        if (config->type != DNN_CONFIG) return DNN_BAD_PARAMETER;
        *config = (object){.type = DNN_CONFIG, .is_final = 1, .engine = engine < 0 ? ROUNDED : engine};
        config->attributes[0] =
            (attribute){.name = DNN_CHOICE_GRAPH,
                        .count = 1,
                        .values = {(int64_t)(uintptr_t)descriptor_of(choice, DNN_CHOICE_GRAPH)}};
        config->n = 1;
    }
    return DNN_SUCCESS;
}

int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t wanted, int64_t *out_count,
                             void *values)
{
    const object *o = descriptor;
    FAULT(__func__);
    if (!o->is_final) return DNN_BAD_PARAMETER;
    if (o->type == DNN_CHOICE && name == DNN_CHOICE_RESULTS && type == DNN_DESCRIPTOR)
        return give_configs(o, wanted, out_count, values);
    if (o->type == DNN_CONFIG && name == DNN_CONFIG_ENGINE && type == DNN_DESCRIPTOR && wanted == 1) {
        **(object **)values = (object){.type = DNN_ENGINE, .is_final = 1, .engine = o->engine};
        *out_count = 1;
        return DNN_SUCCESS;
    }
    if (o->type == DNN_ENGINE && name == DNN_ENGINE_NOTES && type == DNN_NUMERICAL_NOTE) {
        *out_count = engines[o->engine].note >= 0;
        if (*out_count) *(int *)values = engines[o->engine].note;
        return DNN_SUCCESS;
    }
    if (o->type != DNN_PLAN || name != DNN_PLAN_WORKSPACE || type != DNN_INT64) return DNN_BAD_PARAMETER;
    *(int64_t *)values = workspace_of(descriptor_of(o, DNN_PLAN_CONFIG)->engine);
    *out_count = 1;
    return DNN_SUCCESS;
}

/* ---- Where versions are wrong -------------------------------------------------------------------------------- */

/* A wrong one reads all elements of a window at the same place. */
static int is_wrong_convolution(const convolution *c)
{
    const size_t version = cudnnGetVersion();
    if (c->sizes[0][1] > 1 && c->sizes[1][1] == 1 && version >= 92100 && version < 92400) return 1;
    if (c->axes != 3 || c->dtype == TN_FLOAT64) return 0;
    if (c->dtype != TN_FLOAT32) return version >= 90800 && version < 91500;
    return (c->how & ROUNDS_FLOAT32) && version >= 91002 && version < 91501;
}

/* Graphs of gradients have five products, of which the first one gives scores. */
static int is_wrong_graph(const graph_work *w)
{
    int64_t queries = 0, keys = 0;
    int products = 0, major = 0;
    for (int i = 0; i < w->n_steps; i++) {
        if (w->steps[i].type != DNN_PRODUCT_OPERATION) continue;
        if (products++) continue;
        queries = w->tensors[w->steps[i].y].sizes[2];
        keys = w->tensors[w->steps[i].y].sizes[3];
    }
    cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
    return products == 5 && major == 9 && (keys % 128 == 64 || (keys % 128 == 0 && queries % 64 != 0));
}

/* ---- Convolutions -------------------------------------------------------------------------------------------- */

static int execute_convolution(const object *handle, const object *config, const object *graph,
                               const object *pack)
{
    const object *op = descriptor_of(graph, DNN_GRAPH_OPERATIONS);
    const int first = first_attribute(op->type);
    const object *of_convolution = descriptor_of(op, first + DNN_OPERATION_CONVOLUTION);
    const attribute *ids = find(pack, DNN_PACK_IDS), *pointers = find(pack, DNN_PACK_POINTERS);
    static const int names[3] = {DNN_OPERATION_IN, DNN_OPERATION_WEIGHT, DNN_OPERATION_OUT};
    convolution c = {.pass = (first - DNN_OPERATION) / DNN_OPERATION_ATTRIBUTES,
                     .how = engines[config->engine].how,
                     .axes = (int)find(of_convolution, DNN_CONVOLUTION_DIMENSIONS)->values[0],
                     .workspace = (CUdeviceptr)find(pack, DNN_PACK_WORKSPACE)->values[0],
                     .workspace_bytes = (size_t)workspace_of(config->engine)};
    for (int k = 0; k < 3; k++) {
        const object *t = descriptor_of(op, first + names[k]);
        const attribute *sizes = find(t, DNN_TENSOR_SIZES);
        c.dtype = dtype_of(number_of(t, DNN_TENSOR_DATA_TYPE));
        for (int d = 0; d < 5; d++) c.sizes[k][d] = d < 2 ? sizes->values[d] : 1;
        for (int d = 0; d < c.axes; d++) c.sizes[k][5 - c.axes + d] = sizes->values[2 + d];
        for (int64_t i = 0; i < ids->count; i++)
            if (ids->values[i] == find(t, DNN_TENSOR_ID)->values[0])
                c.memory[k] = (CUdeviceptr)pointers->values[i];
        if (!c.memory[k] || c.memory[k] % (CUdeviceptr)find(t, DNN_TENSOR_ALIGNMENT)->values[0])
            return DNN_EXECUTION_FAILED;
    }
    for (int d = 0; d < 3; d++) {
        const int from = d - (3 - c.axes);
        c.strides[d] = from < 0 ? 1 : find(of_convolution, DNN_CONVOLUTION_STRIDES)->values[from];
        c.paddings[d] = from < 0 ? 0 : find(of_convolution, DNN_CONVOLUTION_PRE_PADDINGS)->values[from];
        c.dilations[d] = from < 0 ? 1 : find(of_convolution, DNN_CONVOLUTION_DILATIONS)->values[from];
    }
    if (is_wrong_convolution(&c)) memset(c.dilations, 0, sizeof c.dilations);
    c.turn = count(CONVOLUTIONS, 1);
    return library_queue(handle->stream, run_convolution, &c, sizeof c) ? DNN_EXECUTION_FAILED : DNN_SUCCESS;
}

/* ---- Work ---------------------------------------------------------------------------------------------------- */

static int execute_graph(object *handle, const object *config, const object *graph, const object *pack)
{
    graph_work *w = malloc(sizeof *w);
    if (!w) return DNN_HOST_ALLOCATION_FAILED;
    const int is_read = read_graph(graph, w) && take_pack(w, pack);
    w->reduces_sums = config->engine == REDUCED;
    w->has_wrong_copies = is_read && is_wrong_graph(w);
    w->workspace_bytes = (size_t)workspace_of(config->engine);
    w->next = handle->works;
    handle->works = w;
    count(GRAPHS, 1);
    return !is_read || library_queue(handle->stream, run_graph, &w, sizeof w) ? DNN_EXECUTION_FAILED
                                                                              : DNN_SUCCESS;
}

int cudnnBackendExecute(void *handle, void *plan, void *pack)
{
    const object *config = descriptor_of(plan, DNN_PLAN_CONFIG),
                 *graph = descriptor_of(config, DNN_CHOICE_GRAPH);
    FAULT(__func__);
    __atomic_store_n(&counts[ENGINE], config->engine, __ATOMIC_RELEASE);
    return has_several(graph) ? execute_graph(handle, config, graph, pack)
                              : execute_convolution(handle, config, graph, pack);
}

/* ---- The handle ---------------------------------------------------------------------------------------------- */

int cudnnCreate(void **out)
{
    FAULT(__func__);
    if (!has_context() || !has_memory()) return 1001; /* not initialized */
    return create(out, (object){0});
}

int cudnnDestroy(void *handle)
{
    for (graph_work *w = ((object *)handle)->works, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    return destroy(handle);
}

int cudnnSetStream(void *handle, void *stream)
{
    FAULT(__func__);
    ((object *)handle)->stream = stream;
    return DNN_SUCCESS;
}

size_t cudnnGetVersion(void)
{
    return (size_t)setting("CUDNN_VERSION", 92800);
}

const char *cudnnGetErrorString(int status)
{
    return status == DNN_EXECUTION_FAILED           ? "CUDNN_STATUS_EXECUTION_FAILED"
           : status == DNN_DEVICE_ALLOCATION_FAILED ? "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"
                                                    : "CUDNN_STATUS_NOT_SUPPORTED";
}
