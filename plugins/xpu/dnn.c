/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN: found with dlopen when it is first needed, refused without Level Zero; its streams, primitives and execution. */
#include "dnn.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define LIBRARY "libdnnl.so.3"
#define DOES    "products and convolutions"

/* ---- Opening ------------------------------------------------------------------------------------------------ */

static const char *status_name(int status)
{
    static const char *const names[] = DNNL_STATUSES;
    return status >= 0 && (size_t)status < sizeof names / sizeof *names ? names[status] : "unknown status";
}

/* After a failure anything may be where the library should have put an object. */
static int made(int result, void **object)
{
    if (result) *object = NULL;
    return result;
}

/* A line for the program's log, once for each device. */
static void tell(const xpu_device *d, const char *text, const char *wrong)
{
    const tn_host *host = d->plugin->host;
    char line[544];
    if (wrong)
        snprintf(line, sizeof line, "xpu:%u: %s %s: the plugin's own kernels compute " DOES, d->index, text,
                 wrong);
    else
        snprintf(line, sizeof line, "xpu:%u: %s computes " DOES, d->index, text);
    host->log(host->context, TN_LOG_INFO, line);
}

/* NULL, or what is wrong with the library; `text` becomes its name and version. Builds for SYCL have all the functions, too. */
static const char *look(const xpu_dnn *n, char *text, size_t size)
{
    const dnnl_version_numbers *v = n->dnnl_version();
    snprintf(text, size, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    if (v->major != DNNL_MAJOR || v->minor < DNNL_LEAST_MINOR) return "is not 3.12 or a later 3";
    return v->gpu_runtime == DNNL_RUNTIME_LEVEL_ZERO ? NULL : "is not built for Level Zero";
}

/* NULL, or what is wrong, which `failed` may hold. A library that is refused stays loaded: what it is linked with may have threads. */
static const char *load(xpu_dnn *n, char *text, size_t size, char *failed, size_t failed_size)
{
    n->library = gpu_dlopen(LIBRARY, failed, failed_size);
    snprintf(text, size, failed[0] ? "oneDNN:" : LIBRARY);
    if (!n->library) return failed[0] ? failed : "not found";
#define LOAD(result, name, arguments)                      \
    *(void **)(void *)&n->name = dlsym(n->library, #name); \
    if (!n->name) return "lacks " #name;
    DNNL_VERSION_FUNCTION(LOAD)
    const char *wrong = look(n, text, size);
    if (wrong) return wrong;
    DNNL_FUNCTIONS(LOAD)
#undef LOAD
    return NULL;
}

static xpu_dnn *make_library(xpu_device *d)
{
    char text[64], failed[400];
    xpu_dnn *n = calloc(1, sizeof *n);
    if (!n) return NULL;
    pthread_mutex_init(&n->lock, NULL);
    const int32_t keeps_order = __atomic_load_n(&d->keeps_order, __ATOMIC_RELAXED);
    const char *wrong = keeps_order ? load(n, text, sizeof text, failed, sizeof failed) : "is not used";
    if (!keeps_order) snprintf(text, sizeof text, "the driver has no lists in order, so oneDNN");
    int result = wrong ? 0 : n->dnnl_ze_interop_engine_create(&n->engine, d->driver, d->handle, d->context);
    if (made(result, &n->engine)) {
        snprintf(failed, sizeof failed, "makes no engine (%s)", status_name(result));
        wrong = failed;
    }
    tell(d, text, wrong);
    return n;
}

static xpu_dnn *library_of(xpu_device *d)
{
    xpu_dnn *n = __atomic_load_n(&d->dnn, __ATOMIC_ACQUIRE);
    if (n) return n;
    pthread_mutex_lock(&d->lock);
    n = d->dnn;
    if (!n) {
        n = make_library(d);
        __atomic_store_n(&d->dnn, n, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&d->lock);
    return n;
}

xpu_dnn *xpu_dnn_begin(xpu_device *d, const xpu_queue *q)
{
    xpu_dnn *n = library_of(d);
    if (!n || !n->engine || !q->is_ordered) return NULL;
    if (xpu_queue_is_held(q)) return NULL;
    pthread_mutex_lock(&n->lock);
    return n;
}

void xpu_dnn_end(xpu_dnn *n)
{
    pthread_mutex_unlock(&n->lock);
}

void xpu_dnn_close(xpu_device *d)
{
    xpu_dnn *n = d->dnn;
    if (!n) return;
    gpu_plans_clear(&n->products, xpu_dnn_destroy_product, n);
    gpu_plans_clear(&n->windows, xpu_dnn_destroy_window, n);
    if (n->engine) n->dnnl_engine_destroy(n->engine);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

/* ---- Streams ------------------------------------------------------------------------------------------------ */

static int give_stream(xpu_dnn *n, xpu_queue *q)
{
    if (q->dnn_stream) return DNNL_SUCCESS;
    int result =
        made(n->dnnl_ze_interop_stream_create(&q->dnn_stream, n->engine, q->list, 0), &q->dnn_stream);
    if (result) return result;
    q->next = n->queues;
    n->queues = q;
    return DNNL_SUCCESS;
}

/* The stream is older than the list that it is of. */
void xpu_dnn_forget(xpu_device *d, xpu_queue *q)
{
    xpu_dnn *n = __atomic_load_n(&d->dnn, __ATOMIC_ACQUIRE);
    if (!n || !q->dnn_stream) return;
    GPU_UNLINK(&n->lock, &n->queues, q);
    n->dnnl_stream_destroy(q->dnn_stream);
}

/* ---- Primitives --------------------------------------------------------------------------------------------- */

xpu_dnn_rules xpu_dnn_rules_of(const tn_call *call, uint32_t dtype)
{
    const uint32_t is_deterministic = (call->flags & TN_CALL_DETERMINISTIC) != 0;
    return (xpu_dnn_rules){.by_tf32 = dtype == GPU_F32 && (call->flags & TN_CALL_ALLOW_TF32),
                           .adds_half = dtype < GPU_F32 && (call->flags & TN_CALL_ALLOW_HALF_ACCUMULATION) &&
                                        !is_deterministic,
                           .is_deterministic = is_deterministic};
}

int xpu_dnn_describe(const xpu_dnn *n, uint32_t dtype, uint32_t rank, const int64_t *sizes,
                     const int64_t *strides, void **out)
{
    static const int types[] = {
        [GPU_F16] = DNNL_F16, [GPU_BF16] = DNNL_BF16, [GPU_F32] = DNNL_F32, [GPU_F64] = DNNL_F64};
    dnnl_dims s = {0}, t = {0};
    memcpy(s, sizes, rank * sizeof *sizes);
    memcpy(t, strides, rank * sizeof *strides);
    return made(n->dnnl_memory_desc_create_with_strides(out, (int)rank, s, types[dtype], t), out);
}

static int add_memory(const xpu_dnn *n, xpu_dnn_work *w, uint32_t i, int argument, const void *description)
{
    void *none = NULL;
    w->arguments[i].argument = argument;
    void **out = &w->arguments[i].memory;
    return made(n->dnnl_ze_interop_memory_create(out, description, n->engine, 1, &none), out);
}

int xpu_dnn_add(const xpu_dnn *n, xpu_dnn_work *w, int argument, const void *description)
{
    int result = add_memory(n, w, w->n_operands, argument, description);
    if (!result) w->n_operands++;
    return result;
}

/* The environment may have set other defaults, so all attributes are set. */
static int make_attributes(const xpu_dnn *n, const xpu_dnn_rules *rules, void **out)
{
    int result = n->dnnl_primitive_attr_create(out);
    if (result) return result;
    result = n->dnnl_primitive_attr_set_fpmath_mode(*out, rules->by_tf32 ? DNNL_MATH_TF32 : DNNL_MATH_STRICT);
    if (!result)
        result = n->dnnl_primitive_attr_set_accumulation_mode(*out, rules->adds_half ? DNNL_SUMS_RELAXED
                                                                                     : DNNL_SUMS_STRICT);
    if (!result) result = n->dnnl_primitive_attr_set_deterministic(*out, (int)rules->is_deterministic);
    if (!result) result = n->dnnl_primitive_attr_set_scratchpad_mode(*out, DNNL_SCRATCHPAD_USER);
    if (result) n->dnnl_primitive_attr_destroy(*out);
    return result;
}

/* Whether the implementation is one of the library's plain ones ("ref"), which are slower than the plugin's kernels. */
static int32_t is_plain(const xpu_dnn *n, const void *description)
{
    const char *name = NULL;
    int result = n->dnnl_primitive_desc_query(description, DNNL_QUERY_IMPLEMENTATION, 0, (void *)&name);
    return result || !name || strstr(name, "ref") != NULL;
}

/* The primitive of a descriptor, and its scratchpad. */
static int complete(const xpu_dnn *n, xpu_dnn_work *w, const void *description)
{
    if (is_plain(n, description)) return DNNL_UNIMPLEMENTED;
    const void *scratchpad = n->dnnl_primitive_desc_query_md(description, DNNL_QUERY_SCRATCHPAD, 0);
    int result = DNNL_SUCCESS;
    w->scratchpad = scratchpad ? n->dnnl_memory_desc_get_size(scratchpad) : 0;
    if (w->scratchpad > XPU_DNN_WORKSPACE) return DNNL_UNIMPLEMENTED;
    if (w->scratchpad) result = add_memory(n, w, w->n_operands, DNNL_SCRATCHPAD, scratchpad);
    return result ? result : made(n->dnnl_primitive_create(&w->primitive, description), &w->primitive);
}

static int make_primitive(const xpu_dnn *n, xpu_dnn_work *w, const xpu_dnn_rules *rules,
                          xpu_dnn_create *create, const void *user)
{
    void *attributes = NULL, *description = NULL;
    int result = make_attributes(n, rules, &attributes);
    if (result) return result;
    result = create(n, user, attributes, &description);
    n->dnnl_primitive_attr_destroy(attributes);
    if (result) return result;
    result = complete(n, w, description);
    n->dnnl_primitive_desc_destroy(description);
    return result;
}

/* An implementation may exist only for sums of half types in float32, which are always allowed. */
int xpu_dnn_make(const xpu_dnn *n, xpu_dnn_work *w, xpu_dnn_rules rules, xpu_dnn_create *create,
                 const void *user)
{
    int result = make_primitive(n, w, &rules, create, user);
    if (result != DNNL_UNIMPLEMENTED || !rules.adds_half) return result;
    rules.adds_half = 0;
    return make_primitive(n, w, &rules, create, user);
}

void xpu_dnn_work_finish(const xpu_dnn *n, const xpu_dnn_work *w)
{
    for (uint32_t i = 0; i <= XPU_DNN_OPERANDS; i++)
        if (w->arguments[i].memory) n->dnnl_memory_destroy(w->arguments[i].memory);
    if (w->primitive) n->dnnl_primitive_destroy(w->primitive);
}

/* Room in a full table: all plans are forgotten when the queues have finished, since the kernels of a primitive must have run
 * before it is destroyed. */
static void make_room(xpu_device *d, const xpu_dnn *n, gpu_plans *plans, const xpu_dnn_plan_kind *kind)
{
    if (plans->count < GPU_PLANS) return;
    for (xpu_queue *q = n->queues; q; q = q->next) xpu_queue_finish(d, q);
    gpu_plans_clear(plans, kind->destroy, n);
}

gpu_plan *xpu_dnn_plan(xpu_device *d, xpu_dnn *n, gpu_plans *plans, const xpu_dnn_plan_kind *kind,
                       const void *key)
{
    gpu_plan *p = gpu_plan_find(plans, key, kind->key_bytes);
    if (!p) {
        make_room(d, n, plans, kind);
        p = gpu_plan_add(plans, key, kind->key_bytes, kind->plan_bytes);
        if (p) p->is_supported = !kind->make(n, p);
    }
    return p && p->is_supported ? p : NULL;
}

/* ---- Execution ---------------------------------------------------------------------------------------------- */

static int32_t error_of(const xpu_device *d, int result)
{
    const char *name = status_name(result);
    return gpu_error_native(d->plugin, result == DNNL_OUT_OF_MEMORY ? TN_E_OUT_OF_MEMORY : TN_E_INTERNAL,
                            result, name, "dnnl_ze_interop_primitive_execute failed: %s", name);
}

int32_t xpu_dnn_execute(xpu_device *d, xpu_dnn *n, gpu_plan *p, const xpu_dnn_work *w, xpu_queue *q,
                        const tn_call *call, void *const *places)
{
    void *scratchpad = NULL;
    uint64_t offset = 0;
    const uint32_t count = w->n_operands + (w->scratchpad ? 1 : 0);
    int32_t status = w->scratchpad ? gpu_workspace(call, w->scratchpad, &scratchpad, &offset) : TN_OK;
    if (status) return status;
    int result = give_stream(n, q);
    for (uint32_t i = 0; i < count && !result; i++)
        result = n->dnnl_memory_set_data_handle(
            w->arguments[i].memory, i < w->n_operands ? places[i] : xpu_place(scratchpad, offset));
    if (result) return TN_E_UNSUPPORTED;
    status = xpu_begin(d, q);
    if (status) return status;
    result = n->dnnl_ze_interop_primitive_execute(w->primitive, q->dnn_stream, (int)count, w->arguments, 0,
                                                  NULL, NULL);
    xpu_end(d, q, ZE_RESULT_SUCCESS, "a primitive");
    if (!result) return TN_OK;
    if (result != DNNL_INVALID_ARGUMENTS && result != DNNL_UNIMPLEMENTED) return error_of(d, result);
    p->is_supported = 0;
    return TN_E_UNSUPPORTED;
}

const gpu_library_driver xpu_libraries = {.product = xpu_dnn_product, .convolve = xpu_dnn_convolve};
