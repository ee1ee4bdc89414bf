/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of matrices by oneDNN, on the tensors' own strides. What is added to a product is a bias of the primitive or the second
 * operand of an addition behind it. If it is scaled, it is copied into the result, to which the primitive adds.
 */
#include "dnn.h"

/* How something is added. */
enum { NOTHING, BIAS, ADDITION, SCALED };

/* What a plan depends on. No gaps: compared as bytes. */
typedef struct plan_key {
    uint64_t rows, columns, depth, batches;
    int64_t strides[4], batch_strides[4]; /* of a, b, out, and what is added */
    float alpha, beta;
    uint32_t dtype, is_transposed[2], addend, is_row, zero;
    xpu_dnn_rules rules;
    uint32_t zeros;
} plan_key;

typedef struct plan {
    gpu_plan head;
    plan_key key;
    xpu_dnn_work work;
} plan;

enum { A, B, OUT, ADDED };

/* Descriptions of the operands, for a descriptor. */
typedef struct operands {
    const plan_key *key;
    void *descriptions[4];
} operands;

/* ---- Keys --------------------------------------------------------------------------------------------------- */

/* Whether the matrix has no gaps, so that one copy moves it. */
static int32_t is_whole(const gpu_matrices *m, const gpu_matrix *matrix)
{
    return matrix->stride == (int64_t)m->columns &&
           (m->batches == 1 || matrix->batch_stride == (int64_t)(m->rows * m->columns));
}

/* 0: a matrix that is scaled cannot be copied. */
static int32_t choose_addend(const gpu_matrices *m, plan_key *k, const gpu_matrix **out)
{
    const gpu_matrix *added = &m->added;
    *out = m->bias.memory ? &m->bias : added;
    if (m->bias.memory) {
        k->addend = m->alpha == 1 ? BIAS : ADDITION;
        k->is_row = 1;
        return 1;
    }
    if (!added->memory) return 1;
    k->addend = m->beta == 1 ? ADDITION : SCALED;
    k->beta = (float)m->beta;
    return m->beta == 1 || (is_whole(m, added) && is_whole(m, &m->out));
}

/* 0: the library cannot do it. Places are those of the operands. */
static int32_t make_key(const tn_call *call, const gpu_matrices *m, plan_key *k, void *places[4])
{
    const gpu_matrix *matrices[] = {&m->a, &m->b, &m->out, NULL};
    *k = (plan_key){.rows = m->rows,
                    .columns = m->columns,
                    .depth = m->depth,
                    .batches = m->batches,
                    .alpha = (float)m->alpha,
                    .dtype = m->dtype,
                    .is_transposed = {m->a.is_transposed, m->b.is_transposed},
                    .rules = xpu_dnn_rules_of(call, m->dtype)};
    if (!choose_addend(m, k, &matrices[ADDED])) return 0;
    if (m->dtype == GPU_F64 && ((double)(float)m->alpha != m->alpha || (double)(float)m->beta != m->beta))
        return 0;
    for (uint32_t i = 0; i < (k->addend ? 4u : 3u); i++) {
        places[i] = xpu_place(matrices[i]->memory, matrices[i]->offset);
        if ((uintptr_t)places[i] % XPU_DNN_ALIGNMENT) return 0;
        k->strides[i] = matrices[i]->stride;
        k->batch_strides[i] = matrices[i]->batch_stride;
    }
    return 1;
}

/* ---- Plans -------------------------------------------------------------------------------------------------- */

/* A matrix that all batches share has one batch, which the library broadcasts. */
static int describe(const xpu_dnn *n, const plan_key *k, uint32_t i, void **out)
{
    const int64_t rows = (int64_t)(i == B ? k->depth : i == ADDED && k->is_row ? 1 : k->rows);
    const int64_t columns = (int64_t)(i == A ? k->depth : k->columns);
    const int64_t stride = i == ADDED && k->is_row ? columns : k->strides[i];
    const int32_t is_transposed = i < OUT && k->is_transposed[i];
    const int64_t one = stride * (is_transposed ? columns : rows);
    const int64_t sizes[] = {k->batch_strides[i] ? (int64_t)k->batches : 1, rows, columns};
    const int64_t strides[] = {k->batch_strides[i] ? k->batch_strides[i] : one, is_transposed ? 1 : stride,
                               is_transposed ? stride : 1};
    const uint32_t first = k->batches == 1;
    return xpu_dnn_describe(n, k->dtype, 3 - first, sizes + first, strides + first, out);
}

/* alpha times the product, then what is added. */
static int append(const xpu_dnn *n, const operands *o, void *operations)
{
    const plan_key *k = o->key;
    int result = DNNL_SUCCESS;
    if (k->alpha != 1) result = n->dnnl_post_ops_append_eltwise(operations, DNNL_LINEAR, k->alpha, 0);
    if (!result && k->addend == SCALED)
        result = n->dnnl_post_ops_append_sum(operations, k->beta, 0, DNNL_ANY_TYPE);
    if (!result && k->addend == ADDITION)
        result = n->dnnl_post_ops_append_binary(operations, DNNL_ADD, o->descriptions[ADDED]);
    return result;
}

static int create(const xpu_dnn *n, const void *user, void *attributes, void **out)
{
    const operands *o = user;
    void *operations = NULL;
    int result = n->dnnl_post_ops_create(&operations);
    if (result) return result;
    result = append(n, o, operations);
    if (!result) result = n->dnnl_primitive_attr_set_post_ops(attributes, operations);
    n->dnnl_post_ops_destroy(operations);
    if (result) return result;
    return n->dnnl_matmul_primitive_desc_create(out, n->engine, o->descriptions[A], o->descriptions[B],
                                                o->key->addend == BIAS ? o->descriptions[ADDED] : NULL,
                                                o->descriptions[OUT], attributes);
}

static int make_plan(const xpu_dnn *n, gpu_plan *head)
{
    plan *p = (plan *)head;
    const plan_key *k = &p->key;
    const int behind = DNNL_OF_POST_OPERATION(k->alpha != 1) | DNNL_SRC_1;
    const int arguments[] = {DNNL_SRC, DNNL_WEIGHTS, DNNL_DST, k->addend == BIAS ? DNNL_BIAS : behind};
    const uint32_t count = k->addend == BIAS || k->addend == ADDITION ? 4 : 3;
    operands o = {.key = k};
    int result = DNNL_SUCCESS;
    for (uint32_t i = 0; i < count && !result; i++) {
        result = describe(n, k, i, &o.descriptions[i]);
        if (!result) result = xpu_dnn_add(n, &p->work, arguments[i], o.descriptions[i]);
    }
    if (!result) result = xpu_dnn_make(n, &p->work, k->rules, create, &o);
    for (uint32_t i = 0; i < count; i++)
        if (o.descriptions[i]) n->dnnl_memory_desc_destroy(o.descriptions[i]);
    return result;
}

void xpu_dnn_destroy_product(const void *library, gpu_plan *p)
{
    xpu_dnn_work_finish(library, &((plan *)p)->work);
}

/* ---- Products ------------------------------------------------------------------------------------------------ */

static int32_t multiply(xpu_device *d, xpu_dnn *n, plan *p, xpu_queue *q, const tn_call *call,
                        const gpu_matrices *m, void *const *places)
{
    if (p->key.addend == SCALED) {
        const uint64_t bytes = m->rows * m->columns * m->batches * (uint64_t)gpu_code_bytes(m->dtype);
        int32_t status =
            xpu_copy(d, q, m->out.memory, m->out.offset, m->added.memory, m->added.offset, bytes);
        if (status) return status;
    }
    return xpu_dnn_execute(d, n, &p->head, &p->work, q, call, places);
}

static const xpu_dnn_plan_kind kind = {sizeof(plan_key), sizeof(plan), make_plan, xpu_dnn_destroy_product};

int32_t xpu_dnn_product(void *device, void *queue, const tn_call *call, const gpu_matrices *m)
{
    plan_key key;
    void *places[4] = {NULL};
    if (!make_key(call, m, &key, places)) return TN_E_UNSUPPORTED;
    xpu_dnn *n = xpu_dnn_begin(device, queue);
    if (!n) return TN_E_UNSUPPORTED;
    gpu_plan *p = xpu_dnn_plan(device, n, &n->products, &kind, &key);
    int32_t status = p ? multiply(device, n, (plan *)p, queue, call, m, places) : TN_E_UNSUPPORTED;
    xpu_dnn_end(n);
    return status;
}
