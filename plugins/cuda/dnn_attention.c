/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention by cuDNN's graph API, if it is installed. Its engines know attention as a graph of products, pointwise operations and
 * reductions: two products with a softmax between them, and for the gradients five products. The matrices between are virtual:
 * in no memory. Whether there is an engine depends on the GPU, the sizes and the version; cuDNN is asked for each kind of work.
 *
 * cuDNN does not compare addresses and strides with the alignment that it was told: this is done here.
 */
#include "dnn.h"

#include <math.h>

enum {
    ALIGNMENT = 16, /* in bytes, of all rows */
    OPERATIONS = 32,
    DESCRIPTORS = 96,              /* of a graph, at most */
    TENSORS = 16,                  /* in memory, at most */
    MOST_WIDTH_OF_GRADIENTS = 128, /* not all GPUs compute wider ones in this form */
    KEYS_AT_ONCE = 128,            /* of gradients, on GPUs of compute capability 9 */
    QUERIES_AT_ONCE = 64,          /* the same */
    LEAST_VERSION =
        91501 /* some older ones compute wrong gradients, most if the keys are not a multiple of 128 */
};

/* Ids of tensors: of an operand its number and 1. */
enum { ID_SCALE = 101, ID_INFINITY, ID_ONE, ID_SUMS, ID_GRAD_QUERY, ID_VIRTUAL };

/* What a plan depends on. No gaps: compared as bytes. */
typedef struct plan_key {
    uint32_t batches, heads, shared, queries, keys, width, is_causal, is_backward, dtype, refused_notes;
    int64_t strides[GPU_ATTENTION_OPERANDS][3]; /* in elements */
} plan_key;

typedef struct plan {
    gpu_plan head;
    plan_key key;
    uint32_t n_made;
    void *made[DESCRIPTORS];
    dnn_engine engine;
} plan;

/* A graph that is being made: after a failure nothing more is done. */
typedef struct graph {
    const cuda_dnn *n;
    plan *p;
    const plan_key *k;
    void *operations[OPERATIONS];
    uint32_t count;
    int64_t next_id;
    int result;
} graph;

/* ---- Tensors ------------------------------------------------------------------------------------------------ */

/* A new descriptor belongs to the plan. */
static void *keep(graph *g, void *made, int result)
{
    g->p->made[g->p->n_made++] = made;
    g->result = result;
    return made;
}

static void *make_tensor(graph *g, const dnn_tensor *t)
{
    void *made = NULL;
    if (g->result) return NULL;
    int result = dnn_make_tensor(g->n, t, &made);
    return keep(g, made, result);
}

/* Matrices in row-major order, one for each head of a query. */
static dnn_tensor matrices(const graph *g, int type, int64_t rows, int64_t columns)
{
    const int64_t heads = g->k->heads;
    return (dnn_tensor){.type = type,
                        .alignment = ALIGNMENT,
                        .rank = 4,
                        .sizes = {g->k->batches, heads, rows, columns},
                        .strides = {heads * rows * columns, rows * columns, columns, 1}};
}

static void transpose(dnn_tensor *t)
{
    const int64_t size = t->sizes[2], stride = t->strides[2];
    t->sizes[2] = t->sizes[3];
    t->sizes[3] = size;
    t->strides[2] = t->strides[3];
    t->strides[3] = stride;
}

static void *make_virtual(graph *g, dnn_tensor t)
{
    t.is_virtual = 1;
    t.id = g->next_id++;
    return make_tensor(g, &t);
}

/* Queries by keys. */
static void *make_scores(graph *g, int type)
{
    return make_virtual(g, matrices(g, type, g->k->queries, g->k->keys));
}

/* A number for each query. */
static void *make_numbers(graph *g)
{
    return make_virtual(g, matrices(g, DNN_F32, g->k->queries, 1));
}

static int32_t is_of_keys(uint32_t operand)
{
    return operand == GPU_ATTENTION_KEY || operand == GPU_ATTENTION_VALUE ||
           operand == GPU_ATTENTION_GRAD_KEY || operand == GPU_ATTENTION_GRAD_VALUE;
}

static dnn_tensor operand_of(const graph *g, uint32_t operand)
{
    const plan_key *k = g->k;
    const int64_t *strides = k->strides[operand];
    const int32_t is_stats = operand == GPU_ATTENTION_STATS;
    return (dnn_tensor){.type = is_stats ? DNN_F32 : dnn_type_of(k->dtype),
                        .id = operand + 1,
                        .alignment = ALIGNMENT,
                        .rank = 4,
                        .sizes = {k->batches, is_of_keys(operand) ? k->heads / k->shared : k->heads,
                                  is_of_keys(operand) ? k->keys : k->queries, is_stats ? 1 : k->width},
                        .strides = {strides[0], strides[1], strides[2], 1}};
}

static void *make_operand(graph *g, uint32_t operand)
{
    const dnn_tensor t = operand_of(g, operand);
    return make_tensor(g, &t);
}

static void *make_transposed(graph *g, uint32_t operand)
{
    dnn_tensor t = operand_of(g, operand);
    transpose(&t);
    return make_tensor(g, &t);
}

static void *make_number(graph *g, int64_t id)
{
    return make_tensor(g, &(dnn_tensor){.type = DNN_F32,
                                        .is_by_value = 1,
                                        .id = id,
                                        .alignment = ALIGNMENT,
                                        .rank = 4,
                                        .sizes = {1, 1, 1, 1},
                                        .strides = {1, 1, 1, 1}});
}

/* ---- Operations --------------------------------------------------------------------------------------------- */

/* An attribute that is a descriptor. */
typedef struct part {
    int attribute;
    void *descriptor; /* NULL: it has none */
} part;

static void add_operation(graph *g, int type, const part *parts, uint32_t count)
{
    void *made = NULL;
    if (g->result) return;
    dnn_maker m = dnn_begin(g->n, type);
    for (uint32_t i = 0; i < count; i++)
        if (parts[i].descriptor) dnn_set(&m, parts[i].attribute, DNN_DESCRIPTOR, 1, &parts[i].descriptor);
    int result = dnn_end(&m, &made);
    g->operations[g->count++] = keep(g, made, result);
}

/* How an operation computes, in sums or elements of the type; `attribute` has its kind. */
typedef struct manner {
    int descriptor, attribute, attribute_type, kind, type_attribute, type;
    int64_t axis; /* 0: it has none */
} manner;

static void *make_manner(graph *g, const manner *how)
{
    void *made = NULL;
    if (g->result) return NULL;
    dnn_maker m = dnn_begin(g->n, how->descriptor);
    if (how->attribute_type) dnn_set(&m, how->attribute, how->attribute_type, 1, &how->kind);
    dnn_set(&m, how->type_attribute, DNN_DATA_TYPE, 1, &how->type);
    if (how->axis) dnn_set(&m, DNN_POINTWISE_AXIS, DNN_INT64, 1, &how->axis);
    int result = dnn_end(&m, &made);
    return keep(g, made, result);
}

/* b and t are NULL where the operation has no such operand. */
typedef struct pointwise {
    int kind, type;
    int64_t axis;
    void *x, *b, *t;
} pointwise;

/* Gives y. */
static void *compute(graph *g, pointwise w, void *y)
{
    const manner how = {
        DNN_POINTWISE, DNN_POINTWISE_KIND, DNN_POINTWISE_MODE, w.kind, DNN_POINTWISE_TYPE, w.type, w.axis};
    const part parts[] = {{DNN_POINTWISE_HOW, make_manner(g, &how)},
                          {DNN_POINTWISE_X, w.x},
                          {DNN_POINTWISE_B, w.b},
                          {DNN_POINTWISE_T, w.t},
                          {DNN_POINTWISE_Y, y}};
    add_operation(g, DNN_POINTWISE_OPERATION, parts, 5);
    return y;
}

/* y = x (kind) b */
static void *combine(graph *g, int kind, void *x, void *b, void *y)
{
    return compute(g, (pointwise){.kind = kind, .type = DNN_F32, .x = x, .b = b}, y);
}

static void *multiply(graph *g, void *a, void *b, void *out)
{
    const manner how = {.descriptor = DNN_PRODUCT, .type_attribute = DNN_PRODUCT_TYPE, .type = DNN_F32};
    const part parts[] = {{DNN_PRODUCT_HOW, make_manner(g, &how)},
                          {DNN_PRODUCT_A, a},
                          {DNN_PRODUCT_B, b},
                          {DNN_PRODUCT_OUT, out}};
    add_operation(g, DNN_PRODUCT_OPERATION, parts, 4);
    return out;
}

static void *reduce(graph *g, int kind, void *x, void *y)
{
    const manner how = {
        DNN_REDUCTION, DNN_REDUCTION_KIND, DNN_REDUCTION_MODE, kind, DNN_REDUCTION_TYPE, DNN_F32, 0};
    const part parts[] = {
        {DNN_REDUCTION_HOW, make_manner(g, &how)}, {DNN_REDUCTION_X, x}, {DNN_REDUCTION_Y, y}};
    add_operation(g, DNN_REDUCTION_OPERATION, parts, 3);
    return y;
}

static void *view(graph *g, void *x, void *y)
{
    const part parts[] = {{DNN_VIEW_X, x}, {DNN_VIEW_Y, y}};
    add_operation(g, DNN_VIEW_OPERATION, parts, 2);
    return y;
}

/* ---- Graphs ------------------------------------------------------------------------------------------------- */

/* A query does not see later keys. */
static void *hide_later(graph *g, void *scores)
{
    const pointwise by_row = {.kind = DNN_INDEX, .type = DNN_F32, .axis = 2, .x = scores},
                    by_column = {.kind = DNN_INDEX, .type = DNN_F32, .axis = 3, .x = scores};
    void *row = compute(g, by_row, make_scores(g, DNN_I32)),
         *column = compute(g, by_column, make_scores(g, DNN_I32));
    void *seen =
        compute(g, (pointwise){.kind = DNN_GREATER_OR_EQUAL, .type = DNN_BOOL, .x = row, .b = column},
                make_scores(g, DNN_BOOL));
    return compute(
        g,
        (pointwise){
            .kind = DNN_SELECT, .type = DNN_F32, .x = scores, .b = make_number(g, ID_INFINITY), .t = seen},
        make_scores(g, DNN_F32));
}

/* The weights of keys, and for the gradients the logarithms of the sums. */
static void *weigh(graph *g, void *scores)
{
    void *most = reduce(g, DNN_REDUCE_MAX, scores, make_numbers(g));
    void *below = combine(g, DNN_SUB, scores, most, make_scores(g, DNN_F32));
    void *powers = combine(g, DNN_EXP, below, NULL, make_scores(g, DNN_F32));
    void *sums = reduce(g, DNN_REDUCE_ADD, powers, make_numbers(g));
    void *logarithms = combine(g, DNN_LOG, sums, NULL, make_numbers(g));
    combine(g, DNN_ADD, most, logarithms, make_operand(g, GPU_ATTENTION_STATS));
    return combine(g, DNN_DIV, powers, sums, make_scores(g, dnn_type_of(g->k->dtype)));
}

static void make_forward(graph *g)
{
    void *scores = multiply(g, make_operand(g, GPU_ATTENTION_QUERY), make_transposed(g, GPU_ATTENTION_KEY),
                            make_scores(g, DNN_F32));
    scores = combine(g, DNN_MUL, scores, make_number(g, ID_SCALE), make_scores(g, DNN_F32));
    if (g->k->is_causal) scores = hide_later(g, scores);
    multiply(g, weigh(g, scores), make_operand(g, GPU_ATTENTION_VALUE), make_operand(g, GPU_ATTENTION_OUT));
}

/* The parts of the graph of the gradients that several steps use. */
typedef struct shared_parts {
    void *query, *key, *grad, *scale, *sums; /* the key is transposed */
} shared_parts;

/* The sum of grad * out of each query, in memory. */
static void *sum_products(graph *g, void *grad)
{
    dnn_tensor sums = matrices(g, DNN_F32, g->k->queries, 1);
    sums.id = ID_SUMS;
    void *products = combine(g, DNN_MUL, grad, make_operand(g, GPU_ATTENTION_OUT),
                             make_virtual(g, matrices(g, DNN_F32, g->k->queries, g->k->width)));
    void *sum = reduce(g, DNN_REDUCE_ADD, products, make_numbers(g));
    return combine(g, DNN_MUL, sum, make_number(g, ID_ONE), make_tensor(g, &sums));
}

/* The weights once more, from the logarithms of the sums. */
static void *weigh_again(graph *g, const shared_parts *s)
{
    void *scores = multiply(g, s->query, s->key, make_scores(g, DNN_F32));
    scores = combine(g, DNN_MUL, scores, s->scale, make_scores(g, DNN_F32));
    scores = combine(g, DNN_SUB, scores, make_operand(g, GPU_ATTENTION_STATS), make_scores(g, DNN_F32));
    if (g->k->is_causal) scores = hide_later(g, scores);
    return combine(g, DNN_EXP, scores, NULL, make_scores(g, DNN_F32));
}

/* The gradient of keys or values: scores, transposed, by `right`; of shared ones the sum over the heads that share them. */
static void make_gradient(graph *g, void *scores, void *right, uint32_t operand)
{
    const int type = dnn_type_of(g->k->dtype);
    dnn_tensor t = matrices(g, type, g->k->queries, g->k->keys);
    transpose(&t);
    void *left = view(g, scores, make_virtual(g, t)), *out = make_operand(g, operand);
    if (g->k->shared == 1) {
        multiply(g, left, right, out);
        return;
    }
    void *of_heads = multiply(g, left, right, make_virtual(g, matrices(g, type, g->k->keys, g->k->width)));
    reduce(g, DNN_REDUCE_ADD, of_heads, out);
}

/* Engines add parts of it to float32 elements in memory. */
static void make_query_gradient(graph *g, void *slopes, void *key)
{
    dnn_tensor sums = matrices(g, DNN_F32, g->k->queries, g->k->width);
    sums.id = ID_GRAD_QUERY;
    void *plain = view(g, key, make_virtual(g, operand_of(g, GPU_ATTENTION_KEY))),
         *sum = multiply(g, slopes, plain, make_tensor(g, &sums));
    combine(g, DNN_IDENTITY, sum, NULL, make_operand(g, GPU_ATTENTION_GRAD_QUERY));
}

static void make_backward(graph *g)
{
    shared_parts s = {.query = make_operand(g, GPU_ATTENTION_QUERY),
                      .key = make_transposed(g, GPU_ATTENTION_KEY),
                      .grad = make_operand(g, GPU_ATTENTION_GRAD),
                      .scale = make_number(g, ID_SCALE)};
    s.sums = sum_products(g, s.grad);
    void *weights = weigh_again(g, &s);
    make_gradient(g, weights, s.grad, GPU_ATTENTION_GRAD_VALUE);
    void *slopes = multiply(g, s.grad, make_transposed(g, GPU_ATTENTION_VALUE), make_scores(g, DNN_F32));
    slopes = combine(g, DNN_SUB, slopes, s.sums, make_scores(g, DNN_F32));
    slopes = combine(g, DNN_MUL, slopes, weights, make_scores(g, DNN_F32));
    slopes = combine(g, DNN_MUL, slopes, s.scale, make_scores(g, DNN_F32));
    make_gradient(g, slopes, s.query, GPU_ATTENTION_GRAD_KEY);
    make_query_gradient(g, slopes, s.key);
}

/* ---- Plans -------------------------------------------------------------------------------------------------- */

/* Of the tensors that are like the query, and like the key; gradients are as many more. */
static uint64_t bytes_of(const plan_key *k)
{
    const uint64_t of_query = (uint64_t)k->batches * k->heads * k->queries * k->width,
                   of_key = (uint64_t)k->batches * (k->heads / k->shared) * k->keys * k->width;
    return (of_query + of_key) * (k->is_backward ? 4 : 2) * gpu_code_bytes(k->dtype);
}

static int make_plan(cuda_library *l, gpu_plan *made, const void *unused)
{
    plan *p = (plan *)made;
    graph g = {.n = (cuda_dnn *)l, .p = p, .k = &p->key, .next_id = ID_VIRTUAL};
    if (p->key.is_backward)
        make_backward(&g);
    else
        make_forward(&g);
    if (!g.result) g.result = dnn_make_graph(g.n, g.operations, g.count, &p->engine);
    return g.result ? g.result : dnn_choose(g.n, &p->engine, p->key.refused_notes, bytes_of(&p->key));
}

static void destroy_plan(const cuda_library *l, gpu_plan *made)
{
    const cuda_dnn *n = (const cuda_dnn *)l;
    const plan *p = (plan *)made;
    dnn_destroy(n, (void *const[]){p->engine.execution, p->engine.config, p->engine.graph}, 3);
    dnn_destroy(n, p->made, p->n_made);
}

static void *place_of(const gpu_attend *a, uint32_t operand)
{
    return cuda_place(a->memory[operand], (uint64_t)a->at->offsets[operand]);
}

/*
 * The strides in elements; of one batch, head or row, and of logarithms that backward gets, those of memory without gaps. 0: cuDNN
 * does not take the operand.
 */
static int32_t set_strides(plan_key *k, const gpu_attend *a, uint32_t operand)
{
    const int32_t is_stats = operand == GPU_ATTENTION_STATS, bytes = is_stats ? 4 : 2;
    const int64_t rows = is_of_keys(operand) ? k->keys : k->queries,
                  heads = is_of_keys(operand) ? k->heads / k->shared : k->heads,
                  sizes[] = {k->batches, heads, rows}, width = is_stats ? 1 : k->width,
                  contiguous[] = {heads * rows * width, rows * width, width};
    memcpy(k->strides[operand], contiguous, sizeof contiguous);
    if (is_stats && k->is_backward) return 1;
    if ((uintptr_t)place_of(a, operand) % ALIGNMENT) return 0;
    for (int d = 0; d < 3; d++) {
        const int64_t stride = a->at->strides[operand][d];
        if (sizes[d] == 1) continue;
        if (stride <= 0 || (!is_stats && stride % ALIGNMENT)) return 0;
        k->strides[operand][d] = stride / bytes;
    }
    return 1;
}

/*
 * Gradients on GPUs of compute capability 9 become NaN where scores are far below 0. They hide the keys beyond the last one in blocks
 * of half as many as they take at once: where a half is left, the other one counts as keys of 0. Where no keys are left, they are
 * known to be NaN for one query and 128 keys: parts of a block of queries are not trusted then.
 */
static int32_t may_be_nan(const cuda_device *d, const gpu_attention *a)
{
    const uint32_t keys = a->keys % KEYS_AT_ONCE;
    return (keys == KEYS_AT_ONCE / 2 || (!keys && a->queries % QUERIES_AT_ONCE)) &&
           cuda_number_of(d->cu, d->id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 9;
}

/*
 * 0: the work is not for cuDNN. In deterministic mode all is left to the kernels: engines for gradients that add in any order do not
 * have the note that says so.
 */
static int32_t make_key(const cuda_device *d, plan_key *k, const tn_call *call, const gpu_attend *a)
{
    const gpu_attention *at = a->at;
    *k = (plan_key){.batches = at->batches,
                    .heads = at->heads,
                    .shared = at->shared,
                    .queries = at->queries,
                    .keys = at->keys,
                    .width = at->width,
                    .is_causal = at->flags & GPU_ATTENTION_CAUSAL,
                    .is_backward = a->is_backward,
                    .dtype = a->dtype,
                    .refused_notes = dnn_refused_notes(call, a->dtype)};
    if (call->flags & TN_CALL_DETERMINISTIC || (a->is_backward && at->width > MOST_WIDTH_OF_GRADIENTS))
        return 0;
    if (a->is_backward && may_be_nan(d, at)) return 0;
    for (uint32_t i = 0; i < GPU_ATTENTION_OPERANDS; i++)
        if (a->memory[i] && !set_strides(k, a, i)) return 0;
    return 1;
}

static int32_t find_plan(const cuda_device *d, cuda_library *l, const tn_call *call, const gpu_attend *a,
                         gpu_plan **out)
{
    plan_key key;
    if (!make_key(d, &key, call, a)) return TN_E_UNSUPPORTED;
    return cuda_plan_find(d, l, &(cuda_plan_request){call, &key, make_plan, NULL}, out);
}

/* ---- Work --------------------------------------------------------------------------------------------------- */

/* The tensors of a call that are in memory. */
typedef struct tensors {
    int64_t ids[TENSORS], count;
    void *places[TENSORS];
} tensors;

static void give(tensors *t, int64_t id, void *place)
{
    t->ids[t->count] = id;
    t->places[t->count++] = place;
}

/* A multiple of 256, as cuDNN's workspaces are. */
static uint64_t rounded_up(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Memory for the engine, which comes first, and for what a graph of gradients has in memory between its steps. */
static int32_t give_workspace(tensors *t, const plan *p, const tn_call *call, void **out)
{
    const plan_key *k = &p->key;
    const uint64_t rows = (uint64_t)k->batches * k->heads * k->queries,
                   sums = k->is_backward ? rounded_up(rows * 4) : 0,
                   gradient = k->is_backward ? rows * k->width * 4 : 0,
                   own = p->engine.workspace > 0 ? rounded_up((uint64_t)p->engine.workspace) : 0;
    void *memory = NULL;
    uint64_t offset = 0;
    int32_t status = own + sums ? gpu_workspace(call, own + sums + gradient, &memory, &offset) : TN_OK;
    *out = cuda_place(memory, offset);
    if (status || !k->is_backward) return status;
    give(t, ID_SUMS, cuda_place(memory, offset + own));
    give(t, ID_GRAD_QUERY, cuda_place(memory, offset + own + sums));
    return TN_OK;
}

static int32_t attend(cuda_device *d, cuda_library *l, void *queue, const tn_call *call, const void *work)
{
    const gpu_attend *a = work;
    tensors t = {.count = 0};
    float scale = a->scale, infinity = -INFINITY, one = 1;
    void *workspace;
    gpu_plan *found;
    int32_t status = find_plan(d, l, call, a, &found);
    if (status) return status;
    const plan *p = (plan *)found;
    for (uint32_t i = 0; i < GPU_ATTENTION_OPERANDS; i++)
        if (a->memory[i]) give(&t, i + 1, place_of(a, i));
    give(&t, ID_SCALE, &scale);
    if (p->key.is_causal) give(&t, ID_INFINITY, &infinity);
    if (p->key.is_backward) give(&t, ID_ONE, &one);
    status = give_workspace(&t, p, call, &workspace);
    if (status) return status;
    return dnn_run(d, l, call,
                   &(dnn_work){.plan = found,
                               .engine = &p->engine,
                               .ids = t.ids,
                               .places = t.places,
                               .count = t.count,
                               .workspace = workspace});
}

static int32_t can_attend(cuda_device *d, cuda_library *l, void *queue, const tn_call *call, const void *work)
{
    gpu_plan *found;
    return find_plan(d, l, call, work, &found);
}

/* ---- The library -------------------------------------------------------------------------------------------- */

static const cuda_library_kind kind = {DNN_KIND, .work = "attention", .least = LEAST_VERSION,
                                       CUDA_LIBRARY_PLANS(plan_key, plan, destroy_plan)};

int32_t cuda_dnn_can_attend(void *device, const tn_call *call, const gpu_attend *a)
{
    return !cuda_library_run(device, &kind, can_attend, NULL, call, a);
}

int32_t cuda_dnn_attend(void *device, void *queue, const tn_call *call, const gpu_attend *a)
{
    return cuda_library_run(device, &kind, attend, queue, call, a);
}
