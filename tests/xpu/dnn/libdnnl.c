/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libdnnl.so.3 for tests: matrix products and convolutions of the Level Zero driver for tests, on its lists. It computes as the
 * documentation says, and reports wrong uses: dead objects and those in use, tensors that are no device memory or not aligned,
 * arguments that are missing, scratchpads that are the library's, streams that outlive their list. The environment:
 *
 *   LIBRARY_FAIL=FUNCTION:N:STATUS   call N of the function gives the status
 *   DNNL_TEST_VERSION=3.11           another version
 *   DNNL_TEST_RUNTIME=512            another runtime of GPUs
 *   DNNL_TEST_SLOW=1                 places of memory objects are set slowly, so that threads meet
 */
#include "objects.h"

#include <dlfcn.h>
#include "../../gpu/late.h"

#define DECLARE(result, name, arguments) DNN_API result name arguments;
DNNL_VERSION_FUNCTION(DECLARE)
DNNL_FUNCTIONS(DECLARE)

/* ---- Objects -------------------------------------------------------------------------------------------------- */

const driver_functions *the_driver(void)
{
    static driver_functions functions;
    const char *file = getenv("ZE_ENABLE_ALT_DRIVERS");
    void *library = file ? dlopen(file, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (!library) return NULL;
    *(void **)(void *)&functions.queue = dlsym(library, "ze_test_queue");
    *(void **)(void *)&functions.is_idle = dlsym(library, "ze_test_is_idle");
    *(void **)(void *)&functions.place = dlsym(library, "ze_test_place");
    return functions.queue && functions.is_idle && functions.place ? &functions : NULL;
}

object *use(const void *handle, char kind, const char *function)
{
    object *o = (object *)(uintptr_t)handle;
    if (o && o->kind == kind && !o->is_dead) return o;
    report("%s: %s", function, !o ? "NULL" : o->kind == kind ? "a dead object" : "an object of another kind");
    return NULL;
}

int create(void **out, object o)
{
    object *made = malloc(sizeof *made);
    if (!made) return DNNL_OUT_OF_MEMORY;
    *made = o;
    if (o.engine) __atomic_add_fetch(&o.engine->children, 1, __ATOMIC_ACQ_REL);
    count(LIVE, 1);
    *out = made;
    return DNNL_SUCCESS;
}

/* Dead objects stay until the library is unloaded, so that each use of one is seen. */
static object *the_dead;

static void bury(object *o)
{
    o->is_dead = 1;
    o->next_dead = __atomic_load_n(&the_dead, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&the_dead, &o->next_dead, o, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        continue;
}

__attribute__((destructor)) static void free_the_dead(void)
{
    for (object *o = the_dead, *next; o; o = next) {
        next = o->next_dead;
        free(o);
    }
    the_dead = NULL;
}

int destroy(void *handle, char kind, const char *function)
{
    object *o = use(handle, kind, function);
    if (!o) return DNNL_INVALID_ARGUMENTS;
    if (__atomic_load_n(&o->in_use, __ATOMIC_ACQUIRE)) report("%s: queued work uses it", function);
    if (o->children) report("%s: %d objects of the engine are left", function, o->children);
    if (o->engine) __atomic_sub_fetch(&o->engine->children, 1, __ATOMIC_ACQ_REL);
    bury(o);
    count(LIVE, -1);
    return DNNL_SUCCESS;
}

#define DESTROY(function, object_kind)                 \
    int function(void *handle)                         \
    {                                                  \
        return destroy(handle, object_kind, __func__); \
    }
DESTROY(dnnl_engine_destroy, 'e')
DESTROY(dnnl_memory_desc_destroy, 't')
DESTROY(dnnl_memory_destroy, 'm')
DESTROY(dnnl_primitive_attr_destroy, 'a')
DESTROY(dnnl_post_ops_destroy, 'o')
DESTROY(dnnl_primitive_desc_destroy, 'd')
DESTROY(dnnl_primitive_destroy, 'p')

/* Begins a function: after a failure anything may be in the result. */
#define BEGIN(out, handle, kind)             \
    *(out) = (void *)(out);                  \
    FAULT(__func__);                         \
    object *o = use(handle, kind, __func__); \
    if (!o) return DNNL_INVALID_ARGUMENTS
#define BEGIN_SETTING(handle, kind)          \
    FAULT(__func__);                         \
    object *o = use(handle, kind, __func__); \
    if (!o) return DNNL_INVALID_ARGUMENTS

/* ---- Engines and streams -------------------------------------------------------------------------------------- */

const dnnl_version_numbers *dnnl_version(void)
{
    static dnnl_version_numbers v;
    const char *version = getenv("DNNL_TEST_VERSION"), *runtime = getenv("DNNL_TEST_RUNTIME");
    v = (dnnl_version_numbers){3, 12, 1, "tests", 2, runtime ? (unsigned)atoi(runtime) : 1024u};
    if (version) sscanf(version, "%d.%d", &v.major, &v.minor);
    return &v;
}

int dnnl_ze_interop_engine_create(void **out, ze_driver_handle_t driver, ze_device_handle_t device,
                                  ze_context_handle_t context)
{
    *out = out;
    FAULT(__func__);
    if (!driver || !device || !context || !the_driver()) return DNNL_INVALID_ARGUMENTS;
    return create(out, (object){.kind = 'e', .context = context});
}

int dnnl_ze_interop_stream_create(void **out, void *engine, ze_command_list_handle_t list, int profiling)
{
    BEGIN(out, engine, 'e');
    if (!list || profiling) return DNNL_INVALID_ARGUMENTS;
    return create(out, (object){.kind = 's', .engine = o, .list = list});
}

/* The library waits for the list, so it has to be there; the plugin has waited. */
int dnnl_stream_destroy(void *stream)
{
    const object *o = use(stream, 's', __func__);
    if (o && !the_driver()->is_idle(o->list)) report("%s: its list is not idle", __func__);
    return destroy(stream, 's', __func__);
}

/* ---- Tensors -------------------------------------------------------------------------------------------------- */

/* Whether no two elements share a place: each stride is as large as all that the smaller ones reach. */
static int is_apart(const shape *s)
{
    for (int i = 0; i < s->rank; i++) {
        int64_t reach = 1;
        for (int j = 0; j < s->rank; j++) {
            const int is_smaller = s->strides[j] < s->strides[i] || (s->strides[j] == s->strides[i] && j > i);
            if (j != i && is_smaller && s->sizes[j] > 1) reach += (s->sizes[j] - 1) * s->strides[j];
        }
        if (s->sizes[i] < 1 || s->strides[i] < 1 || (s->sizes[i] > 1 && s->strides[i] < reach)) return 0;
    }
    return 1;
}

int dnnl_memory_desc_create_with_strides(void **out, int rank, const dnnl_dims sizes, int type,
                                         const dnnl_dims strides)
{
    shape s = {.rank = rank, .type = type};
    int64_t reach = 1;
    *out = out;
    FAULT(__func__);
    if (rank < 1 || rank > MOST_RANK) return DNNL_INVALID_ARGUMENTS;
    for (int i = 0; i < rank; i++) {
        s.sizes[i] = sizes[i];
        s.strides[i] = strides[i];
        reach += (sizes[i] - 1) * strides[i];
    }
    if (!is_apart(&s)) return DNNL_INVALID_ARGUMENTS;
    s.bytes = (size_t)reach * (TN_DTYPE_BITS(dtype_of(type)) / 8);
    return create(out, (object){.kind = 't', .tensor = s});
}

size_t dnnl_memory_desc_get_size(const void *tensor)
{
    const object *o = use(tensor, 't', __func__);
    return o ? o->tensor.bytes : 0;
}

int dnnl_ze_interop_memory_create(void **out, const void *tensor, void *engine, int n, void **places)
{
    BEGIN(out, engine, 'e');
    const object *t = use(tensor, 't', __func__);
    if (!t || n != 1 || places[0]) return DNNL_INVALID_ARGUMENTS;
    return create(out, (object){.kind = 'm', .engine = o, .tensor = t->tensor});
}

int dnnl_memory_set_data_handle(void *memory, void *place)
{
    BEGIN_SETTING(memory, 'm');
    o->place = place;
    o->setter = pthread_self();
    if (getenv("DNNL_TEST_SLOW")) late_sleep(1);
    return DNNL_SUCCESS;
}

/* ---- Attributes ----------------------------------------------------------------------------------------------- */

/* The defaults are those of an environment that allows everything. */
int dnnl_primitive_attr_create(void **out)
{
    *out = out;
    FAULT(__func__);
    return create(out, (object){.kind = 'a', .how = {.math = 3, .sums = 2}});
}

#define SETTER(function, field)               \
    int function(void *attributes, int value) \
    {                                         \
        BEGIN_SETTING(attributes, 'a');       \
        o->how.field = value;                 \
        return DNNL_SUCCESS;                  \
    }
SETTER(dnnl_primitive_attr_set_fpmath_mode, math)
SETTER(dnnl_primitive_attr_set_accumulation_mode, sums)
SETTER(dnnl_primitive_attr_set_deterministic, deterministic)
SETTER(dnnl_primitive_attr_set_scratchpad_mode, scratchpad)

int dnnl_primitive_attr_set_post_ops(void *attributes, const void *operations)
{
    BEGIN_SETTING(attributes, 'a');
    const object *p = use(operations, 'o', __func__);
    if (!p) return DNNL_INVALID_ARGUMENTS;
    o->how.n_operations = p->how.n_operations;
    memcpy(o->how.operations, p->how.operations, sizeof p->how.operations);
    return DNNL_SUCCESS;
}

int dnnl_post_ops_create(void **out)
{
    *out = out;
    FAULT(__func__);
    return create(out, (object){.kind = 'o'});
}

static int append(object *o, operation next)
{
    if (o->how.n_operations == MOST_OPERATIONS) return DNNL_OUT_OF_MEMORY;
    o->how.operations[o->how.n_operations++] = next;
    return DNNL_SUCCESS;
}

int dnnl_post_ops_append_eltwise(void *operations, int algorithm, float alpha, float beta)
{
    BEGIN_SETTING(operations, 'o');
    if (algorithm != 0x26 || beta != 0) return DNNL_UNIMPLEMENTED; /* alpha x + beta */
    return append(o, (operation){.kind = LINEAR, .alpha = alpha});
}

int dnnl_post_ops_append_sum(void *operations, float scale, int32_t zero_point, int type)
{
    BEGIN_SETTING(operations, 'o');
    if (zero_point || type) return DNNL_UNIMPLEMENTED;
    return append(o, (operation){.kind = SUM, .alpha = scale});
}

int dnnl_post_ops_append_binary(void *operations, int algorithm, const void *tensor)
{
    BEGIN_SETTING(operations, 'o');
    const object *t = use(tensor, 't', __func__);
    if (!t || algorithm != 0x1fff0) return DNNL_UNIMPLEMENTED; /* addition */
    return append(
        o, (operation) {
            .kind = BINARY
            , .second = t->tensor
        });
}

/* ---- Descriptors of primitives -------------------------------------------------------------------------------- */

static int broadcasts(const shape *s, const shape *to)
{
    if (s->rank != to->rank) return 0;
    for (int i = 0; i < s->rank; i++)
        if (s->sizes[i] != 1 && s->sizes[i] != to->sizes[i]) return 0;
    return 1;
}

/* What fits together: src, weights, dst, bias. */
static int is_product(const description *d)
{
    const shape *t = d->tensors, *dst = &t[2];
    const int r = dst->rank;
    if (r < 2 || r > 3 || t[0].rank != r || t[1].rank != r || t[0].type != t[1].type) return 0;
    if (t[0].sizes[r - 2] != dst->sizes[r - 2] || t[1].sizes[r - 1] != dst->sizes[r - 1]) return 0;
    if (t[0].sizes[r - 1] != t[1].sizes[r - 2] || t[0].type != dst->type) return 0;
    if (r == 3) { /* the batches of a product are those of its operands */
        const int64_t a = t[0].sizes[0], b = t[1].sizes[0], batches = a > b ? a : b;
        if (dst->sizes[0] != batches || (a != 1 && a != batches) || (b != 1 && b != batches)) return 0;
    }
    for (int i = 0; i < d->how.n_operations; i++)
        if (d->how.operations[i].kind == BINARY && !broadcasts(&d->how.operations[i].second, dst)) return 0;
    return !t[3].rank || broadcasts(&t[3], dst);
}

/* in, weight, out; the weight of several groups has one dimension more. */
static int is_convolution(const description *d)
{
    const shape *in = &d->tensors[0], *w = &d->tensors[1], *out = &d->tensors[2];
    const int grouped = w->rank == in->rank + 1, axes = in->rank - 2;
    const int64_t groups = grouped ? w->sizes[0] : 1;
    const int64_t *weight = w->sizes + grouped;
    if (axes < 1 || axes > 3 || w->rank - grouped != in->rank || out->rank != in->rank) return 0;
    if (in->sizes[0] != out->sizes[0] || in->type != w->type || in->type != out->type) return 0;
    if (in->sizes[1] != weight[1] * groups || out->sizes[1] != weight[0] * groups) return 0;
    for (int i = 0; i < axes; i++) {
        const int64_t reach = (weight[2 + i] - 1) * (d->dilations[i] + 1) + 1;
        const int64_t room = in->sizes[2 + i] + 2 * d->paddings[i] - reach;
        if (room < 0 || out->sizes[2 + i] != room / d->strides[i] + 1) return 0;
    }
    return d->how.n_operations == 0;
}

/* Sums of bfloat16 in bfloat16 are not there for convolutions. Tensors of one element need no scratchpad. */
static int describe(void **out, object *engine, description d, const void *attributes, const char *function)
{
    const object *a = use(attributes, 'a', function);
    count(CHOICES, 1);
    if (!a) return DNNL_INVALID_ARGUMENTS;
    d.how = a->how;
    if (!d.how.scratchpad) report("%s: the scratchpad is the library's", function);
    if (!(d.pass == MATMUL ? is_product(&d) : is_convolution(&d))) return DNNL_INVALID_ARGUMENTS;
    if (d.pass != MATMUL && d.tensors[0].type == DNNL_BF16 && d.how.sums) return DNNL_UNIMPLEMENTED;
    if (d.tensors[2].bytes > 8)
        d.scratchpad = (shape){.rank = 1, .type = DNNL_F32, .sizes = {1000}, .strides = {1}, .bytes = 4000};
    if (d.tensors[2].sizes[0] == 77) d.scratchpad.bytes = (size_t)1 << 40;
    return create(out, (object){.kind = 'd', .engine = engine, .what = d});
}

/* Tensors, of which some may be missing. 0: one is not alive. */
static int set_tensors(description *d, const void *const *tensors, int n, const char *function)
{
    for (int i = 0; i < n; i++) {
        if (!tensors[i] && i == 3) continue;
        const object *t = use(tensors[i], 't', function);
        if (!t) return 0;
        d->tensors[i] = t->tensor;
    }
    return 1;
}

int dnnl_matmul_primitive_desc_create(void **out, void *engine, const void *src, const void *weights,
                                      const void *bias, const void *dst, const void *attributes)
{
    description d = {.pass = MATMUL};
    BEGIN(out, engine, 'e');
    if (!set_tensors(&d, (const void *const[]){src, weights, dst, bias}, 4, __func__))
        return DNNL_INVALID_ARGUMENTS;
    return describe(out, o, d, attributes, __func__);
}

typedef struct window {
    const int64_t *strides, *dilations, *before, *after;
} window;

static int describe_pass(void **out, object *engine, int pass, const void *const tensors[3], window w,
                         const void *attributes, const char *function)
{
    description d = {.pass = pass};
    if (!set_tensors(&d, tensors, 3, function)) return DNNL_INVALID_ARGUMENTS;
    for (int i = 0; i < 3 && i < d.tensors[0].rank - 2; i++) {
        d.strides[i] = w.strides[i];
        d.dilations[i] = w.dilations[i];
        d.paddings[i] = w.before[i];
        if (w.before[i] != w.after[i]) return DNNL_UNIMPLEMENTED;
    }
    return describe(out, engine, d, attributes, function);
}

int dnnl_convolution_forward_primitive_desc_create(void **out, void *engine, int propagation, int algorithm,
                                                   const void *src, const void *weights, const void *bias,
                                                   const void *dst, const dnnl_dims strides,
                                                   const dnnl_dims dilations, const dnnl_dims before,
                                                   const dnnl_dims after, const void *attributes)
{
    BEGIN(out, engine, 'e');
    if (propagation != 96 || algorithm != 1 || bias) return DNNL_UNIMPLEMENTED;
    return describe_pass(out, o, 0, (const void *const[]){src, weights, dst},
                         (window){strides, dilations, before, after}, attributes, __func__);
}

int dnnl_convolution_backward_data_primitive_desc_create(void **out, void *engine, int algorithm,
                                                         const void *diff_src, const void *weights,
                                                         const void *diff_dst, const dnnl_dims strides,
                                                         const dnnl_dims dilations, const dnnl_dims before,
                                                         const dnnl_dims after, const void *hint,
                                                         const void *attributes)
{
    BEGIN(out, engine, 'e');
    if (algorithm != 1 || hint) return DNNL_UNIMPLEMENTED;
    return describe_pass(out, o, 1, (const void *const[]){diff_src, weights, diff_dst},
                         (window){strides, dilations, before, after}, attributes, __func__);
}

int dnnl_convolution_backward_weights_primitive_desc_create(
    void **out, void *engine, int algorithm, const void *src, const void *diff_weights, const void *diff_bias,
    const void *diff_dst, const dnnl_dims strides, const dnnl_dims dilations, const dnnl_dims before,
    const dnnl_dims after, const void *hint, const void *attributes)
{
    BEGIN(out, engine, 'e');
    if (algorithm != 1 || hint || diff_bias) return DNNL_UNIMPLEMENTED;
    return describe_pass(out, o, 2, (const void *const[]){src, diff_weights, diff_dst},
                         (window){strides, dilations, before, after}, attributes, __func__);
}

/* Convolutions of float64 are those of the plain implementation. */
int dnnl_primitive_desc_query(const void *descriptor, int what, int index, void *out)
{
    BEGIN_SETTING(descriptor, 'd');
    if (what != 8 || index) return DNNL_INVALID_ARGUMENTS; /* the name of the implementation */
    const int is_plain = o->what.pass != MATMUL && o->what.tensors[0].type == DNNL_F64;
    *(const char **)out = is_plain ? "ocl:ref:any" : o->what.pass == MATMUL ? "jit:gemm:any" : "jit:ir";
    return DNNL_SUCCESS;
}

const void *dnnl_primitive_desc_query_md(const void *descriptor, int what, int index)
{
    static object answers[64];
    static int n;
    const object *o = use(descriptor, 'd', __func__);
    if (!o || what != 136 || index || !o->what.scratchpad.rank) return NULL;
    object *answer = &answers[__atomic_fetch_add(&n, 1, __ATOMIC_RELAXED) % 64]; /* used at once */
    *answer = (object){.kind = 't', .tensor = o->what.scratchpad};
    return answer;
}

/* ---- Primitives ----------------------------------------------------------------------------------------------- */

int dnnl_primitive_create(void **out, const void *descriptor)
{
    BEGIN(out, descriptor, 'd');
    return create(out, (object){.kind = 'p', .engine = o->engine, .what = o->what});
}

int dnnl_ze_interop_primitive_execute(const void *primitive, void *stream, int n,
                                      const dnnl_argument *arguments, int n_waits,
                                      const ze_event_handle_t *waits, ze_event_handle_t *out_event)
{
    FAULT(__func__);
    object *p = use(primitive, 'p', __func__);
    const object *s = use(stream, 's', __func__);
    if (!p || !s || p->engine != s->engine || n_waits || waits || out_event) return DNNL_INVALID_ARGUMENTS;
    return execute(p, s, n, arguments);
}
