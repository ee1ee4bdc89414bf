/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions and their gradients by oneDNN: row-major tensors, the direct algorithm, since others round more. */
#include "dnn.h"

enum { TENSORS = 3 }; /* in, weight, out */

/* What a plan depends on. No gaps: compared as bytes. */
typedef struct plan_key {
    gpu_window_key window;
    xpu_dnn_rules rules;
} plan_key;

typedef struct plan {
    gpu_plan head;
    plan_key key;
    xpu_dnn_work work;
} plan;

/* What a descriptor is made of. */
typedef struct operands {
    uint32_t pass;
    void *tensors[TENSORS];
    dnnl_dims strides, dilations, paddings;
} operands;

/* The arguments of each pass, by GPU_CONVOLVE_... */
static const int arguments[3][TENSORS] = {{DNNL_SRC, DNNL_WEIGHTS, DNNL_DST},
                                          {DNNL_DIFF_SRC, DNNL_WEIGHTS, DNNL_DIFF_DST},
                                          {DNNL_SRC, DNNL_DIFF_WEIGHTS, DNNL_DIFF_DST}};

/* A weight of several groups has these as its first dimension. */
static int describe(const xpu_dnn *n, const gpu_window_key *k, uint32_t which, void **out)
{
    int64_t all[6], strides[6], *sizes = all + 1, step = 1;
    uint32_t rank = gpu_window_sizes(k, which, sizes);
    if (which == 1 && k->groups > 1) {
        sizes[0] = k->out_channels;
        sizes = all;
        sizes[0] = k->groups;
        rank++;
    }
    for (uint32_t i = rank; i-- > 0;) {
        strides[i] = step;
        step *= sizes[i];
    }
    return xpu_dnn_describe(n, k->dtype, rank, sizes, strides, out);
}

/* oneDNN counts the elements that a dilation leaves out. */
static void set_window(const gpu_window_key *k, operands *o)
{
    for (uint32_t i = 0; i < k->axes; i++) {
        o->strides[i] = k->stride[3 - k->axes + i];
        o->dilations[i] = k->dilation[3 - k->axes + i] - 1;
        o->paddings[i] = k->padding[3 - k->axes + i];
    }
}

static int create(const xpu_dnn *n, const void *user, void *attributes, void **out)
{
    const operands *o = user;
    void *const *t = o->tensors;
    switch (o->pass) {
    case GPU_CONVOLVE_OUT:
        return n->dnnl_convolution_forward_primitive_desc_create(
            out, n->engine, DNNL_FORWARD_INFERENCE, DNNL_DIRECT, t[0], t[1], NULL, t[2], o->strides,
            o->dilations, o->paddings, o->paddings, attributes);
    case GPU_CONVOLVE_IN:
        return n->dnnl_convolution_backward_data_primitive_desc_create(
            out, n->engine, DNNL_DIRECT, t[0], t[1], t[2], o->strides, o->dilations, o->paddings, o->paddings,
            NULL, attributes);
    default:
        return n->dnnl_convolution_backward_weights_primitive_desc_create(
            out, n->engine, DNNL_DIRECT, t[0], t[1], NULL, t[2], o->strides, o->dilations, o->paddings,
            o->paddings, NULL, attributes);
    }
}

static int make_plan(const xpu_dnn *n, gpu_plan *head)
{
    plan *p = (plan *)head;
    const gpu_window_key *k = &p->key.window;
    operands o = {.pass = k->pass};
    int result = DNNL_SUCCESS;
    set_window(k, &o);
    for (uint32_t i = 0; i < TENSORS && !result; i++) {
        result = describe(n, k, i, &o.tensors[i]);
        if (!result) result = xpu_dnn_add(n, &p->work, arguments[k->pass][i], o.tensors[i]);
    }
    if (!result) result = xpu_dnn_make(n, &p->work, p->key.rules, create, &o);
    for (uint32_t i = 0; i < TENSORS; i++)
        if (o.tensors[i]) n->dnnl_memory_desc_destroy(o.tensors[i]);
    return result;
}

void xpu_dnn_destroy_window(const void *library, gpu_plan *p)
{
    xpu_dnn_work_finish(library, &((plan *)p)->work);
}

static const xpu_dnn_plan_kind kind = {sizeof(plan_key), sizeof(plan), make_plan, xpu_dnn_destroy_window};

int32_t xpu_dnn_convolve(void *device, void *queue, const tn_call *call, const gpu_convolution *c)
{
    const gpu_place *const tensors[TENSORS] = {&c->in, &c->weight, &c->out};
    const plan_key key = {gpu_window_key_of(c), xpu_dnn_rules_of(call, c->window->dtype)};
    void *places[TENSORS];
    for (uint32_t i = 0; i < TENSORS; i++) {
        places[i] = xpu_place(tensors[i]->memory, tensors[i]->offset);
        if ((uintptr_t)places[i] % XPU_DNN_ALIGNMENT) return TN_E_UNSUPPORTED;
    }
    xpu_dnn *n = xpu_dnn_begin(device, queue);
    if (!n) return TN_E_UNSUPPORTED;
    gpu_plan *p = xpu_dnn_plan(device, n, &n->windows, &kind, &key);
    int32_t status =
        p ? xpu_dnn_execute(device, n, p, &((plan *)p)->work, queue, call, places) : TN_E_UNSUPPORTED;
    xpu_dnn_end(n);
    return status;
}
