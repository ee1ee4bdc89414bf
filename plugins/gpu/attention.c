/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention in one pass, and its gradients: device/attention.cl for processors, where an item has a few queries, and
 * device/attention_groups.cl for GPUs, where a group has a block of them. A library of the vendor is asked first.
 */
#include "gpu.h"

#include <math.h>

#define ROWS        8 /* see device/attention.cl */
#define COLUMNS     16
#define MOST_WIDTH  256
#define FEW_QUERIES 8 /* which leave most of a group without work */

/* A call in preparation, with its workspace. */
typedef struct attention {
    const tn_call *call;
    gpu_attention a;
    const tn_tensor_desc *tensors[GPU_ATTENTION_OPERANDS];
    uint8_t type;
    double scale;
    void *work;
} attention;

static void set_tensor(attention *t, uint32_t operand, const tn_tensor_desc *tensor)
{
    int64_t bytes = gpu_bytes(tensor->dtype);
    t->tensors[operand] = tensor;
    for (uint32_t d = 0; d < 3; d++) t->a.strides[operand][d] = tensor->strides[d] * bytes;
    t->a.offsets[operand] = (int64_t)tensor->byte_offset;
}

/* A mask may have two dimensions or four, and sizes 1 for all. */
static void set_mask(attention *t, const tn_tensor_desc *mask)
{
    gpu_attention *a = &t->a;
    int64_t bytes = gpu_bytes(mask->dtype), strides[4] = {0};
    uint32_t more = 4 - mask->rank;
    for (uint32_t d = 0; d < mask->rank; d++)
        strides[d + more] = mask->sizes[d] == 1 ? 0 : mask->strides[d] * bytes;
    t->tensors[GPU_ATTENTION_MASK] = mask;
    memcpy(a->strides[GPU_ATTENTION_MASK], strides, sizeof a->strides[0]);
    a->mask_step = strides[3];
    a->mask_dtype = (uint32_t)gpu_dtype(mask->dtype);
    a->offsets[GPU_ATTENTION_MASK] = (int64_t)mask->byte_offset;
    a->flags |= GPU_ATTENTION_MASKED;
}

/* query, key and value from argument `first`; dropout_p, is_causal, attn_mask and scale from `options`. */
static attention describe(const tn_call *call, uint32_t first, uint32_t options)
{
    attention t = {.call = call};
    const tn_tensor_desc *q = gpu_tensor(call->args[first]), *k = gpu_tensor(call->args[first + 1]);
    const tn_tensor_desc *mask = gpu_argument_tensor(call, options + 2);
    double scale = call->args[options + 3].tag == TN_TAG_NONE ? 1 / sqrt((double)q->sizes[3])
                                                              : tn_number_of(call->args[options + 3]).f;
    t.type = gpu_type(q->dtype);
    t.a.batches = (uint32_t)q->sizes[0];
    t.a.heads = (uint32_t)q->sizes[1];
    t.a.shared = (uint32_t)(q->sizes[1] / k->sizes[1]);
    t.a.queries = (uint32_t)q->sizes[2];
    t.a.keys = (uint32_t)k->sizes[2];
    t.a.width = (uint32_t)q->sizes[3];
    t.scale = scale;
    t.a.scale = gpu_number_bits(t.type, tn_number_real(scale));
    if (tn_value_as_bool(call->args[options + 1])) t.a.flags |= GPU_ATTENTION_CAUSAL;
    set_tensor(&t, GPU_ATTENTION_QUERY, q);
    set_tensor(&t, GPU_ATTENTION_KEY, k);
    set_tensor(&t, GPU_ATTENTION_VALUE, gpu_tensor(call->args[first + 2]));
    if (mask) set_mask(&t, mask);
    return t;
}

static void set_stats(attention *t, const tn_tensor_desc *stats)
{
    set_tensor(t, GPU_ATTENTION_STATS, stats);
    t->a.stats_dtype = (uint32_t)gpu_dtype(stats->dtype);
}

static gpu_job job_of(const attention *t, uint32_t file, const char *kernel)
{
    gpu_job job = gpu_job_of(t->call, file, t->type, kernel);
    job.program.dtypes[0] = (uint8_t)gpu_dtype(t->tensors[GPU_ATTENTION_QUERY]->dtype);
    return job;
}

/* The operands of the kernel in its order, then the workspace, if there is one, and the description. */
static void give_operands(gpu_job *job, const attention *t, const uint32_t *operands, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        gpu_give_memory(job, t->tensors[operands[i]] ? t->tensors[operands[i]]->allocation : NULL);
    if (t->work) gpu_give_memory(job, t->work);
    gpu_give(job, &t->a, sizeof t->a);
}

static int32_t run(const attention *t, const char *kernel, const uint32_t *operands, uint32_t count,
                   uint64_t heads, uint64_t rows)
{
    gpu_job job = job_of(t, GPU_FILE_ATTENTION, kernel);
    give_operands(&job, t, operands, count);
    return gpu_launch(&job, t->a.batches * heads * ((rows + ROWS - 1) / ROWS), GPU_HEAVY);
}
#define OPERANDS(...) \
    (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)

static uint64_t blocks_of(uint64_t rows)
{
    return (rows + COLUMNS - 1) / COLUMNS;
}

/* Packs the rows of an operand to the place `packed[at]` of the workspace. */
static int32_t pack(const attention *t, uint32_t operand, uint32_t at)
{
    const gpu_attention *a = &t->a;
    uint32_t is_key = operand == GPU_ATTENTION_KEY || operand == GPU_ATTENTION_VALUE;
    uint32_t heads = is_key ? a->heads / a->shared : a->heads, rows = is_key ? a->keys : a->queries;
    gpu_job job = job_of(t, GPU_FILE_ATTENTION, "attention_pack");
    gpu_give_memory(&job, t->work);
    gpu_give_memory(&job, t->tensors[operand]->allocation);
    gpu_give(&job, &a->packed[at], sizeof a->packed[at]);
    gpu_give(&job, &operand, sizeof operand);
    gpu_give(&job, &heads, sizeof heads);
    gpu_give(&job, &rows, sizeof rows);
    gpu_give(&job, a, sizeof *a);
    return gpu_launch(&job, (uint64_t)a->batches * heads * blocks_of(rows), GPU_HEAVY);
}

/* Memory for two packed operands with so many rows in all heads of an image, and for `more` elements. */
static int32_t make_workspace(attention *t, uint64_t blocks, uint64_t more)
{
    uint64_t bytes = t->type / 8, elements = t->a.batches * blocks * COLUMNS * t->a.width, offset;
    int32_t status = gpu_workspace(t->call, (2 * elements + more) * bytes, &t->work, &offset);
    t->a.packed[0] = (int64_t)(offset / bytes);
    t->a.packed[1] = t->a.packed[0] + (int64_t)elements;
    t->a.delta = t->a.packed[1] + (int64_t)elements;
    return status;
}

/* ---- On processors ---------------------------------------------------------------------------------------- */

static int32_t forward_items(attention *t)
{
    int32_t status = make_workspace(t, t->a.heads / t->a.shared * blocks_of(t->a.keys), 0);
    if (!status) status = pack(t, GPU_ATTENTION_KEY, 0);
    return status ? status
                  : run(t, "attention_forward",
                        OPERANDS(GPU_ATTENTION_OUT, GPU_ATTENTION_STATS, GPU_ATTENTION_QUERY,
                                 GPU_ATTENTION_VALUE, GPU_ATTENTION_MASK),
                        t->a.heads, t->a.queries);
}

static int32_t sum_products(const attention *t)
{
    gpu_job job = job_of(t, GPU_FILE_ATTENTION, "attention_delta");
    gpu_give_memory(&job, t->work);
    gpu_give_memory(&job, t->tensors[GPU_ATTENTION_GRAD]->allocation);
    gpu_give_memory(&job, t->tensors[GPU_ATTENTION_OUT]->allocation);
    gpu_give(&job, &t->a, sizeof t->a);
    return gpu_launch(&job, (uint64_t)t->a.batches * t->a.heads * t->a.queries, GPU_LIGHT);
}

static int32_t backward_items(attention *t)
{
    uint64_t of_keys = t->a.heads / t->a.shared * blocks_of(t->a.keys),
             of_queries = t->a.heads * blocks_of(t->a.queries);
    int32_t status = make_workspace(t, of_keys > of_queries ? of_keys : of_queries,
                                    3ull * t->a.batches * t->a.heads * t->a.queries);
    if (!status) status = sum_products(t);
    if (!status) status = pack(t, GPU_ATTENTION_KEY, 0);
    if (!status) status = pack(t, GPU_ATTENTION_VALUE, 1);
    if (!status)
        status = run(t, "attention_query",
                     OPERANDS(GPU_ATTENTION_GRAD_QUERY, GPU_ATTENTION_QUERY, GPU_ATTENTION_KEY,
                              GPU_ATTENTION_GRAD, GPU_ATTENTION_STATS, GPU_ATTENTION_MASK),
                     t->a.heads, t->a.queries);
    if (!status) status = pack(t, GPU_ATTENTION_QUERY, 0);
    if (!status) status = pack(t, GPU_ATTENTION_GRAD, 1);
    return status ? status
                  : run(t, "attention_key",
                        OPERANDS(GPU_ATTENTION_GRAD_KEY, GPU_ATTENTION_GRAD_VALUE, GPU_ATTENTION_QUERY,
                                 GPU_ATTENTION_KEY, GPU_ATTENTION_VALUE, GPU_ATTENTION_GRAD,
                                 GPU_ATTENTION_STATS, GPU_ATTENTION_MASK),
                        t->a.heads / t->a.shared, t->a.keys);
}

/* ---- On GPUs ---------------------------------------------------------------------------------------------- */

/* The program has registers for 64, 128 or 256 features; see device/attention_groups.cl. */
static uint8_t width_group(const attention *t)
{
    return t->a.width <= 64 ? 0 : t->a.width <= 128 ? 1 : 2;
}

/* A group of items for each block of so many rows. */
static int32_t run_groups(const attention *t, const char *kernel, const uint32_t *operands, uint32_t count,
                          uint64_t heads, uint64_t rows, uint64_t block)
{
    gpu_job job = job_of(t, GPU_FILE_ATTENTION_GROUPS, kernel);
    job.program.group = width_group(t);
    give_operands(&job, t, operands, count);
    return gpu_launch(&job, t->a.batches * heads * ((rows + block - 1) / block) * GPU_GROUP_ITEMS, GPU_HEAVY);
}

static int32_t forward_groups(const attention *t)
{
    return run_groups(t, "attention_forward_group",
                      OPERANDS(GPU_ATTENTION_OUT, GPU_ATTENTION_STATS, GPU_ATTENTION_QUERY, GPU_ATTENTION_KEY,
                               GPU_ATTENTION_VALUE, GPU_ATTENTION_MASK),
                      t->a.heads, t->a.queries, width_group(t) < 2 ? 32 : 16);
}

static int32_t backward_groups(attention *t)
{
    uint64_t bytes = t->type / 8, numbers = 2ull * t->a.batches * t->a.heads * t->a.queries, offset;
    int32_t status = gpu_workspace(t->call, numbers * bytes, &t->work, &offset);
    t->a.delta = (int64_t)(offset / bytes);
    if (!status)
        status = run_groups(t, "attention_query_group",
                            OPERANDS(GPU_ATTENTION_GRAD_QUERY, GPU_ATTENTION_QUERY, GPU_ATTENTION_KEY,
                                     GPU_ATTENTION_VALUE, GPU_ATTENTION_GRAD, GPU_ATTENTION_OUT,
                                     GPU_ATTENTION_STATS, GPU_ATTENTION_MASK),
                            t->a.heads, t->a.queries, width_group(t) < 2 ? 32 : 16);
    return status ? status
                  : run_groups(t, "attention_key_group",
                               OPERANDS(GPU_ATTENTION_GRAD_KEY, GPU_ATTENTION_GRAD_VALUE, GPU_ATTENTION_QUERY,
                                        GPU_ATTENTION_KEY, GPU_ATTENTION_VALUE, GPU_ATTENTION_GRAD,
                                        GPU_ATTENTION_STATS, GPU_ATTENTION_MASK),
                               t->a.heads / t->a.shared, t->a.keys, 32u >> width_group(t));
}

/* ---- By the vendor's library ------------------------------------------------------------------------------- */

/* What the library gets. `memory` is what refers to the tensors. */
static gpu_attend describe_work(const attention *t, void *memory[GPU_ATTENTION_OPERANDS],
                                uint32_t is_backward)
{
    for (uint32_t i = 0; i < GPU_ATTENTION_OPERANDS; i++)
        memory[i] = t->tensors[i] ? t->tensors[i]->allocation : NULL;
    return (gpu_attend){.at = &t->a,
                        .dtype = (uint32_t)gpu_dtype(t->tensors[GPU_ATTENTION_QUERY]->dtype),
                        .is_backward = is_backward,
                        .scale = (float)t->scale,
                        .memory = memory};
}

/*
 * Libraries get half types, and no masks: where a mask hides all keys from a query, its result is 0, of libraries NaN. They may take
 * the largest score before they scale it.
 */
static int32_t is_for_library(const attention *t)
{
    return TN_DTYPE_BITS(t->tensors[GPU_ATTENTION_QUERY]->dtype) == 16 &&
           !(t->a.flags & GPU_ATTENTION_MASKED) && t->scale > 0;
}

static int32_t forward_by_library(const attention *t)
{
    void *memory[GPU_ATTENTION_OPERANDS];
    const gpu_attend work = describe_work(t, memory, 0);
    return is_for_library(t) ? gpu_library_attend(t->call, &work) : TN_E_UNSUPPORTED;
}

/* Copies the logarithms to row-major order in a workspace. */
static int32_t pack_stats(const attention *t, void **out_memory, int64_t *out_offset)
{
    const tn_tensor_desc *stats = t->tensors[GPU_ATTENTION_STATS];
    int64_t bytes = gpu_bytes(stats->dtype), stride = bytes;
    uint64_t offset;
    gpu_nest n;
    int32_t status = gpu_workspace(t->call, gpu_numel(stats) * (uint64_t)bytes, out_memory, &offset);
    if (status) return status;
    gpu_nest_of_tensor(&n, stats);
    n.offsets[1] = n.offsets[0];
    n.offsets[0] = *out_offset = (int64_t)offset;
    n.dtypes[1] = n.dtypes[0];
    for (uint32_t d = 0; d < n.rank; d++) {
        n.strides[1][d] = n.strides[0][d];
        n.strides[0][d] = stride;
        stride *= n.sizes[d];
    }
    return gpu_move_elements(t->call, &n, *out_memory, stats->allocation, gpu_bytes(stats->dtype));
}

static int32_t backward_by_library(const attention *t)
{
    void *memory[GPU_ATTENTION_OPERANDS];
    gpu_attention packed = t->a;
    gpu_attend work = describe_work(t, memory, 1);
    if (!is_for_library(t) || !gpu_library_can_attend(t->call, &work)) return TN_E_UNSUPPORTED;
    int32_t status = pack_stats(t, &memory[GPU_ATTENTION_STATS], &packed.offsets[GPU_ATTENTION_STATS]);
    work.at = &packed;
    return status ? status : gpu_library_attend(t->call, &work);
}

/* ---- Calls ------------------------------------------------------------------------------------------------ */

static int32_t is_processor(const tn_call *call)
{
    return (int32_t)gpu_device_of(call)->properties.is_processor;
}

/*
 * _scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p, bool is_causal, *,
 * Tensor? attn_mask, float? scale)
 */
static int32_t forward(void *self, const tn_call *call)
{
    attention t = describe(call, 0, 3);
    set_tensor(&t, GPU_ATTENTION_OUT, gpu_tensor(call->outs[0]));
    set_stats(&t, gpu_tensor(call->outs[1]));
    int32_t status = forward_by_library(&t);
    if (status != TN_E_UNSUPPORTED) return status;
    return is_processor(call) ? forward_items(&t) : forward_groups(&t);
}

/*
 * _scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out,
 * Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? attn_mask, float? scale)
 */
static int32_t backward(void *self, const tn_call *call)
{
    attention t = describe(call, 1, 6);
    set_tensor(&t, GPU_ATTENTION_GRAD, gpu_tensor(call->args[0]));
    set_tensor(&t, GPU_ATTENTION_OUT, gpu_tensor(call->args[4]));
    set_stats(&t, gpu_tensor(call->args[5]));
    for (uint32_t i = 0; i < 3; i++) set_tensor(&t, GPU_ATTENTION_GRAD_QUERY + i, gpu_tensor(call->outs[i]));
    int32_t status = backward_by_library(&t);
    if (status != TN_E_UNSUPPORTED) return status;
    return is_processor(call) ? backward_items(&t) : backward_groups(&t);
}

/* ---- What the kernels take ------------------------------------------------------------------------------- */

static int32_t broadcasts(const tn_tensor_desc *mask, const int64_t sizes[4])
{
    if (mask->rank != 2 && mask->rank != 4) return 0;
    for (uint32_t d = 0; d < mask->rank; d++)
        if (mask->sizes[d] != 1 && mask->sizes[d] != sizes[d + 4 - mask->rank]) return 0;
    return 1;
}

static const char *can_attend(const tn_call *call, uint32_t first, uint32_t options)
{
    const tn_tensor_desc *q = gpu_tensor(call->args[first]), *k = gpu_tensor(call->args[first + 1]);
    const tn_tensor_desc *v = gpu_tensor(call->args[first + 2]),
                         *mask = gpu_argument_tensor(call, options + 2);
    const int64_t scores[4] = {q->sizes[0], q->sizes[1], q->sizes[2], k->sizes[2]};
    if (gpu_device_of(call)->properties.lacks_attention) return "the device has no kernel for it";
    if (!is_processor(call) && q->sizes[2] < FEW_QUERIES) return "the composite is better for few queries";
    if (!gpu_numel(q) || !gpu_numel(k)) return "a tensor is empty";
    if (q->sizes[3] > MOST_WIDTH || v->sizes[3] != q->sizes[3])
        return "queries and values have too many features";
    if (q->sizes[0] != k->sizes[0] || q->sizes[0] != v->sizes[0] || k->sizes[1] != v->sizes[1] ||
        q->sizes[1] % k->sizes[1])
        return "batches or heads differ";
    if (mask && !broadcasts(mask, scores)) return "the mask does not broadcast to the scores";
    for (uint32_t i = 0; i < call->n_args; i++) {
        const tn_tensor_desc *t = gpu_argument_tensor(call, i);
        if (t && i != options + 2 && t->rank == 4 && t->strides[3] != 1 && t->sizes[3] != 1)
            return "features are not contiguous";
    }
    return gpu_can_run(NULL, call);
}

static const char *can_forward(void *self, const tn_call *call)
{
    return can_attend(call, 0, 3);
}
static const char *can_backward(void *self, const tn_call *call)
{
    return can_attend(call, 1, 6);
}

#define ROW(text, function, can) GPU_ROW(ANY, text, gpu_float_dtypes, .run = function, .can_run = can)
static const tn_kernel_row rows[] = {
    ROW("_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float "
        "dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor "
        "output, "
        "Tensor logsumexp)",
        forward, can_forward),
    ROW("_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, Tensor key, "
        "Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? "
        "attn_mask=None, float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
        backward, can_backward),
};
const gpu_rows gpu_attention_rows = GPU_ROW_LIST(rows);
