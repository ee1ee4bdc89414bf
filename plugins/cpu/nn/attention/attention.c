/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scaled dot product attention: arguments, and the parts into which the work is cut. Calls that the kernels do
 * not cover are left to the composite. No result depends on how the work is cut.
 */
#include "kernel_lists.h"
#include "attention.h"
#include "nn/contiguous.h"
#include "support/kernel_table.h"
#include "walk/staging.h"
#include <math.h>

CPU_KERNEL_TABLE(static cpu_kernel_table attention_table, CPU_ATTENTION_LISTS, cpu_attention_kernels);

/* The most blocks of queries of a part: the packing of a tile of keys is shared by them. */
#define MAX_BLOCKS 8
/* Parts for each thread, so that threads end at nearly the same time. */
#define PARTS_PER_THREAD 4
/* The least multiplications of a range of parts. */
#define RANGE_WORK (1 << 18)

/* The arguments of both operators: the position of the query, and of what follows the tensors. */
typedef struct attention_form {
    uint32_t query, causal, mask, scale;
} attention_form;
static const attention_form forward_form = {0, 4, 5, 6}, backward_form = {1, 7, 8, 9};

/* ---- Arguments --------------------------------------------------------------------------------------- */

/* Whether the mask broadcasts to [batch, heads, queries, keys]. */
static bool mask_fits(const tn_tensor_desc *mask, const tn_tensor_desc *q, const tn_tensor_desc *k)
{
    const int64_t sizes[4] = {q->sizes[0], q->sizes[1], q->sizes[2], k->sizes[2]};
    if (mask->dtype != q->dtype && mask->dtype != TN_FLOAT32) return false;
    if (mask->rank > 4) return false;
    for (uint32_t i = 0; i < mask->rank; i++) {
        int64_t size = mask->sizes[mask->rank - 1 - i];
        if (size != 1 && size != sizes[3 - i]) return false;
    }
    return true;
}

static const char *can_run(void *self, const tn_call *call)
{
    const attention_form *form = call->n_outs == 3 ? &backward_form : &forward_form;
    const tn_tensor_desc *q = tensor_arg(call, form->query), *k = tensor_arg(call, form->query + 1),
                         *v = tensor_arg(call, form->query + 2), *mask = tensor_arg(call, form->mask);
    if (k->sizes[0] != q->sizes[0] || v->sizes[0] != q->sizes[0] || v->sizes[1] != k->sizes[1])
        return "batches or heads are broadcast";
    if (k->sizes[1] == 0 || q->sizes[1] % k->sizes[1])
        return "the heads of keys do not divide those of queries";
    if (mask && !mask_fits(mask, q, k)) return "the mask has another shape or dtype than the scores";
    return NULL;
}

/* Rows of an argument: in place, or of a contiguous copy. */
static int32_t read_heads(const tn_call *call, const tn_tensor_desc *t, cpu_heads *out)
{
    int64_t bytes = tn_dtype_bytes(t->dtype), width = t->sizes[3];
    if (t->strides[3] == 1 || width <= 1) {
        *out = (cpu_heads){t->host, t->strides[0] * bytes, t->strides[1] * bytes, t->strides[2] * bytes};
        return TN_OK;
    }
    void *copy;
    int32_t status = cpu_contiguous_read(call, t, &copy);
    int64_t row = width * bytes, head = t->sizes[2] * row;
    *out = (cpu_heads){copy, t->sizes[1] * head, head, row};
    return status;
}
/* The same of a result; finish_heads copies it to its place. */
static int32_t write_heads(const tn_call *call, const tn_tensor_desc *t, cpu_heads *out)
{
    int64_t bytes = tn_dtype_bytes(t->dtype), width = t->sizes[3];
    if (t->strides[3] == 1 || width <= 1) return read_heads(call, t, out);
    void *copy;
    int32_t status = cpu_contiguous_write(call, t, &copy);
    int64_t row = width * bytes, head = t->sizes[2] * row;
    *out = (cpu_heads){copy, t->sizes[1] * head, head, row};
    return status;
}
static void finish_heads(const tn_call *call, const tn_tensor_desc *t, const cpu_heads *h)
{
    cpu_contiguous_finish(call, t, h->data);
}

static void read_mask(const tn_tensor_desc *mask, cpu_attention *a)
{
    int64_t strides[4] = {0}, bytes;
    if (!mask) return;
    bytes = tn_dtype_bytes(mask->dtype);
    for (uint32_t i = 0; i < mask->rank; i++)
        if (mask->sizes[i] != 1) strides[4 - mask->rank + i] = mask->strides[i] * bytes;
    a->mask = (cpu_heads){mask->host, strides[0], strides[1], strides[2]};
    a->mask_column = strides[3];
    a->mask_slot = cpu_slot(mask->dtype);
}

static void read_logsumexp(const tn_tensor_desc *t, cpu_attention *a)
{
    int64_t bytes = tn_dtype_bytes(t->dtype);
    a->logsumexp = (cpu_heads){t->host, t->strides[0] * bytes, t->strides[1] * bytes, t->strides[2] * bytes};
}

static int32_t read_attention(const tn_call *call, const attention_form *form, cpu_attention *a)
{
    const tn_tensor_desc *q = tensor_arg(call, form->query), *k = tensor_arg(call, form->query + 1),
                         *v = tensor_arg(call, form->query + 2);
    *a = (cpu_attention){
        .call = call,
        .batch = q->sizes[0],
        .heads = q->sizes[1],
        .key_heads = k->sizes[1],
        .queries = q->sizes[2],
        .keys = k->sizes[2],
        .width = q->sizes[3],
        .value_width = v->sizes[3],
        .slot = cpu_slot(q->dtype),
        .scale =
            is_none_arg(call, form->scale) ? 1 / sqrt((double)q->sizes[3]) : float_arg(call, form->scale),
        .causal = bool_arg(call, form->causal),
    };
    read_mask(tensor_arg(call, form->mask), a);
    int32_t status = read_heads(call, q, &a->query);
    if (!status) status = read_heads(call, k, &a->key);
    if (!status) status = read_heads(call, v, &a->value);
    return status;
}

/* Half types are computed in float32. */
static const cpu_attention_kernels *kernels_for(tn_dtype dtype)
{
    return cpu_kernels_of(attention_table, dtype == TN_FLOAT64 ? TN_FLOAT64 : TN_FLOAT32);
}

static int32_t open_room(cpu_attention *a, int64_t bytes)
{
    a->room_bytes = round_up(bytes, 4096) + 64;
    a->room = cpu_scratch(a->call, (uint64_t)(a->room_bytes * cpu_thread_count(a->call)));
    return a->room ? TN_OK : TN_E_OUT_OF_MEMORY;
}

/* ---- Parts ------------------------------------------------------------------------------------------- */

typedef struct attention_job {
    const cpu_attention *a;
    const cpu_attention_kernels *kernels;
    int64_t queries, keys;          /* of a part; backward: keys 0 if a part has all of both */
    int64_t query_parts, key_parts; /* of a head */
} attention_job;

static void run_forward_parts(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const attention_job *job = user;
    const cpu_attention *a = job->a;
    for (int64_t i = begin; i < end; i++) {
        /* The longest parts of a causal head first. */
        int64_t head = i / job->query_parts,
                query = (job->query_parts - 1 - i % job->query_parts) * job->queries;
        cpu_attention_part part = {.batch = head / a->heads,
                                   .head = head % a->heads,
                                   .query_begin = query,
                                   .query_end = min_i64(query + job->queries, a->queries)};
        job->kernels->forward(a, &part, a->room + thread * a->room_bytes);
    }
}

static void run_backward_parts(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const attention_job *job = user;
    const cpu_attention *a = job->a;
    int64_t parts = job->query_parts + job->key_parts;
    for (int64_t i = begin; i < end; i++) {
        int64_t head = i / parts, index = i % parts, query = (index - job->key_parts) * job->queries;
        cpu_attention_part part = {.batch = head / a->key_heads, .head = head % a->key_heads};
        if (index >= job->key_parts) {
            part.query_begin = query;
            part.query_end = min_i64(query + job->queries, a->queries);
        } else {
            part.key_begin = index * job->keys;
            part.key_end = min_i64(part.key_begin + job->keys, a->keys);
        }
        if (job->key_parts == 0) part.key_end = a->keys;
        job->kernels->backward(a, &part, a->room + thread * a->room_bytes);
    }
}

/* Sizes of parts, multiples of `block` and at least one, such that `count` of `length` make about `wanted`. */
static int64_t part_size(int64_t length, int64_t block, int64_t count, int64_t wanted)
{
    int64_t blocks = ceil_div(length, block), parts = ceil_div(wanted, max_i64(count, 1));
    return max_i64(1, blocks / max_i64(parts, 1)) * block;
}

static int32_t run_forward(void *self, const tn_call *call)
{
    cpu_attention a;
    attention_job job = {.a = &a};
    const tn_tensor_desc *out = tensor_out(call, 0);
    int32_t status = read_attention(call, &forward_form, &a);
    if (!status) status = write_heads(call, out, &a.out);
    if (status || a.batch * a.heads * a.queries == 0) return status;
    read_logsumexp(tensor_out(call, 1), &a);
    job.kernels = kernels_for(out->dtype);
    job.queries = part_size(a.queries, CPU_ATTENTION_QUERIES, a.batch * a.heads,
                            PARTS_PER_THREAD * cpu_thread_count(call));
    job.queries = min_i64(job.queries, MAX_BLOCKS * CPU_ATTENTION_QUERIES);
    job.query_parts = ceil_div(a.queries, job.queries);
    status = open_room(&a, job.kernels->forward_room(&a, min_i64(job.queries, a.queries)));
    if (status) return status;
    cpu_parallel_ranges(
        call, a.batch * a.heads * job.query_parts,
        grain_for(RANGE_WORK, min_i64(job.queries, a.queries) * a.keys * (a.width + a.value_width)),
        run_forward_parts, &job);
    finish_heads(call, out, &a.out);
    return TN_OK;
}

/*
 * A part of a whole head computes scores once; parts of keys and parts of queries compute them for each kind, but
 * occupy more threads than there are heads.
 */
static void choose_backward_parts(const cpu_attention *a, attention_job *job)
{
    int64_t threads = cpu_thread_count(a->call), heads = a->batch * a->key_heads;
    job->queries = a->queries;
    job->query_parts = 1;
    if (threads == 1 || heads >= threads * 2) return;
    job->queries = part_size(a->queries, CPU_ATTENTION_QUERIES, heads, PARTS_PER_THREAD * threads);
    job->query_parts = ceil_div(a->queries, job->queries);
    job->keys = part_size(a->keys, CPU_ATTENTION_KEYS, heads, PARTS_PER_THREAD * threads);
    job->key_parts = ceil_div(a->keys, job->keys);
}

static int32_t run_backward(void *self, const tn_call *call)
{
    cpu_attention a;
    attention_job job = {.a = &a};
    const tn_tensor_desc *outs[3] = {tensor_out(call, 0), tensor_out(call, 1), tensor_out(call, 2)};
    int32_t status = read_attention(call, &backward_form, &a);
    if (!status) status = read_heads(call, tensor_arg(call, 0), &a.grad);
    if (!status) status = read_heads(call, tensor_arg(call, 4), &a.out);
    cpu_heads *results[3] = {&a.grad_query, &a.grad_key, &a.grad_value};
    for (int i = 0; i < 3 && !status; i++) status = write_heads(call, outs[i], results[i]);
    if (status || a.batch * a.heads == 0) return status;
    read_logsumexp(tensor_arg(call, 5), &a);
    job.kernels = kernels_for(outs[0]->dtype);
    choose_backward_parts(&a, &job);
    status = open_room(&a, job.kernels->backward_room(&a, job.queries));
    if (status) return status;
    cpu_parallel_ranges(call, a.batch * a.key_heads * (job.query_parts + job.key_parts),
                        grain_for(RANGE_WORK, a.queries * a.keys * (a.width + a.value_width)),
                        run_backward_parts, &job);
    for (int i = 0; i < 3; i++) finish_heads(call, outs[i], results[i]);
    return TN_OK;
}

const tn_kernel_row cpu_attention_rows[] = {
    CPU_ROW("aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float "
            "dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor "
            "output, "
            "Tensor logsumexp)",
            cpu_float_dtypes, run_forward, .can_run = can_run),
    CPU_ROW("aten::_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, "
            "Tensor key, "
            "Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, Tensor? "
            "attn_mask=None, "
            "float? scale=None) -> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
            cpu_float_dtypes, run_backward, .can_run = can_run),
};
const uint32_t cpu_attention_row_count = CPU_ROW_COUNT(cpu_attention_rows);
