/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes plans and keeps the latest. Channels-last operands are used in place. For row-major operands and
 * weights oneDNN chooses the layout, mostly blocks of channels.
 */
#include "onednn_plan.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_PLANS 256

/* ---- Descriptors ------------------------------------------------------------------------------------- */

static dnnl_data_type_t type_of(const cpu_onednn_plan_key *key)
{
    return key->geometry.dtype == TN_BFLOAT16 ? dnnl_bf16 : dnnl_f32;
}

/* A geometry in oneDNN's terms: only the spatial dimensions that the tensors have. */
typedef struct space {
    dnnl_dims_t stride, padding, dilation; /* oneDNN's 0 is ATen's 1 */
} space;

static space space_of(const cpu_conv *c)
{
    space s;
    memset(&s, 0, sizeof(s));
    for (int i = 0; i < c->spatial; i++) {
        int from = i + 3 - c->spatial;
        s.stride[i] = c->stride[from];
        s.padding[i] = c->padding[from];
        s.dilation[i] = c->dilation[from] - 1;
    }
    return s;
}

static bool describe_image(const cpu_onednn *dnn, const cpu_onednn_plan_key *key, int operand,
                           dnnl_memory_desc_t *given, dnnl_memory_desc_t *asked)
{
    const cpu_conv *c = &key->geometry;
    const int64_t *size = operand == CPU_ONEDNN_PLAN_X ? c->x_size : c->y_size;
    int rank = c->spatial + 2;
    dnnl_dims_t sizes = {c->batch, operand == CPU_ONEDNN_PLAN_X ? c->x_channels : c->y_channels},
                strides = {0};
    for (int i = 0; i < c->spatial; i++) sizes[i + 2] = size[i + 3 - c->spatial];
    for (int i = 0; i < rank; i++) strides[i] = key->strides[operand][i];
    if (dnn->memory_desc_init_by_strides(given, rank, sizes, type_of(key), strides) != dnnl_success)
        return false;
    *asked = *given;
    if (strides[1] == 1) return true;
    return dnn->memory_desc_init_by_tag(asked, rank, sizes, type_of(key), dnnl_format_tag_any) ==
           dnnl_success;
}

static bool describe_weights(const cpu_onednn *dnn, const cpu_onednn_plan_key *key, dnnl_memory_desc_t *given,
                             dnnl_memory_desc_t *asked)
{
    const cpu_conv *c = &key->geometry;
    const int64_t *steps = key->strides[CPU_ONEDNN_PLAN_W];
    int rank = 0;
    dnnl_dims_t sizes = {0}, strides = {0};
    if (c->groups > 1) {
        sizes[rank] = c->groups;
        strides[rank++] = c->y_channels / c->groups * steps[0];
    }
    sizes[rank] = c->y_channels / c->groups;
    strides[rank++] = steps[0];
    sizes[rank] = c->x_channels / c->groups;
    strides[rank++] = steps[1];
    for (int i = 0; i < c->spatial; i++) {
        sizes[rank] = c->kernel[i + 3 - c->spatial];
        strides[rank++] = steps[i + 2];
    }
    return dnn->memory_desc_init_by_strides(given, rank, sizes, type_of(key), strides) == dnnl_success &&
           dnn->memory_desc_init_by_tag(asked, rank, sizes, type_of(key), dnnl_format_tag_any) ==
               dnnl_success;
}

/* ---- Primitives -------------------------------------------------------------------------------------- */

static bool init_forward(const cpu_onednn *dnn, const cpu_onednn_plan *plan, const dnnl_memory_desc_t *asked,
                         dnnl_prop_kind_t kind, const dnnl_memory_desc_t *bias, dnnl_primitive_desc_t *out)
{
    space s = space_of(&plan->key.geometry);
    dnnl_convolution_desc_t d;
    return dnn->dilated_convolution_forward_desc_init(
               &d, kind, dnnl_convolution_direct, &asked[CPU_ONEDNN_PLAN_X], &asked[CPU_ONEDNN_PLAN_W], bias,
               &asked[CPU_ONEDNN_PLAN_Y], s.stride, s.dilation, s.padding, s.padding) == dnnl_success &&
           dnn->primitive_desc_create(out, &d, dnn->attr, dnn->engine, NULL) == dnnl_success;
}

static bool init_backward(const cpu_onednn *dnn, const cpu_onednn_plan *plan, const dnnl_memory_desc_t *asked,
                          const dnnl_memory_desc_t *bias, dnnl_primitive_desc_t *out)
{
    space s = space_of(&plan->key.geometry);
    dnnl_convolution_desc_t d;
    dnnl_primitive_desc_t hint;
    dnnl_status_t status;
    if (!init_forward(dnn, plan, asked, dnnl_forward_training, NULL, &hint)) return false;
    if (plan->key.kind == CPU_CONV_DATA)
        status = dnn->dilated_convolution_backward_data_desc_init(
            &d, dnnl_convolution_direct, &asked[CPU_ONEDNN_PLAN_X], &asked[CPU_ONEDNN_PLAN_W],
            &asked[CPU_ONEDNN_PLAN_Y], s.stride, s.dilation, s.padding, s.padding);
    else
        status = dnn->dilated_convolution_backward_weights_desc_init(
            &d, dnnl_convolution_direct, &asked[CPU_ONEDNN_PLAN_X], &asked[CPU_ONEDNN_PLAN_W], bias,
            &asked[CPU_ONEDNN_PLAN_Y], s.stride, s.dilation, s.padding, s.padding);
    if (status == dnnl_success) status = dnn->primitive_desc_create(out, &d, dnn->attr, dnn->engine, hint);
    dnn->primitive_desc_destroy(hint);
    return status == dnnl_success;
}

static bool make_reorder(const cpu_onednn *dnn, cpu_onednn_plan *plan, int operand)
{
    bool written = operand == cpu_onednn_plan_written(plan->key.kind);
    const dnnl_memory_desc_t *given = &plan->given[operand], *wanted = &plan->wanted[operand];
    dnnl_primitive_desc_t d;
    if (dnn->memory_desc_equal(given, wanted)) return true;
    plan->bytes[operand] = (int64_t)dnn->memory_desc_get_size(wanted);
    return dnn->reorder_primitive_desc_create(&d, written ? wanted : given, dnn->engine,
                                              written ? given : wanted, dnn->engine,
                                              dnn->attr) == dnnl_success &&
           cpu_onednn_step_make(dnn, d, &plan->reorder[operand]);
}

static bool make_pass(const cpu_onednn *dnn, cpu_onednn_plan *plan)
{
    static const dnnl_query_t queries[][CPU_ONEDNN_PLAN_OPERANDS] = {
        [CPU_CONV_FORWARD] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
        [CPU_CONV_DATA] = {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
        [CPU_CONV_WEIGHTS] = {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}};
    const cpu_onednn_plan_key *key = &plan->key;
    dnnl_memory_desc_t asked[CPU_ONEDNN_PLAN_OPERANDS];
    dnnl_dims_t channels = {key->geometry.y_channels}, one = {1};
    const dnnl_memory_desc_t *bias = key->has_bias ? &plan->bias : NULL;
    dnnl_prop_kind_t prop =
        key->strides[CPU_ONEDNN_PLAN_X][1] == 1 ? dnnl_forward_inference : dnnl_forward_training;
    dnnl_primitive_desc_t d = NULL;
    bool made;
    if (!describe_image(dnn, key, CPU_ONEDNN_PLAN_X, &plan->given[CPU_ONEDNN_PLAN_X],
                        &asked[CPU_ONEDNN_PLAN_X]) ||
        !describe_image(dnn, key, CPU_ONEDNN_PLAN_Y, &plan->given[CPU_ONEDNN_PLAN_Y],
                        &asked[CPU_ONEDNN_PLAN_Y]) ||
        !describe_weights(dnn, key, &plan->given[CPU_ONEDNN_PLAN_W], &asked[CPU_ONEDNN_PLAN_W]) ||
        dnn->memory_desc_init_by_strides(&plan->bias, 1, channels, type_of(key), one) != dnnl_success)
        return false;
    /* For inference oneDNN prefers channels-last images, for training blocks of channels, which row-major images
     * are reordered to faster. */
    made = key->kind == CPU_CONV_FORWARD ? init_forward(dnn, plan, asked, prop, bias, &d)
                                         : init_backward(dnn, plan, asked, bias, &d);
    if (!made) return false;
    made = cpu_onednn_is_fast(dnn, d);
    for (int i = 0; i < CPU_ONEDNN_PLAN_OPERANDS && made; i++)
        plan->wanted[i] = *dnn->primitive_desc_query_md(d, queries[key->kind][i], 0);
    if (!made) {
        dnn->primitive_desc_destroy(d);
        return false;
    }
    return cpu_onednn_step_make(dnn, d, &plan->pass);
}

/* ---- Plans ------------------------------------------------------------------------------------------- */

static void destroy(const cpu_onednn *dnn, cpu_onednn_plan *plan)
{
    if (plan->pass.primitive) dnn->primitive_destroy(plan->pass.primitive);
    for (int i = 0; i < CPU_ONEDNN_PLAN_OPERANDS; i++)
        if (plan->reorder[i].primitive) dnn->primitive_destroy(plan->reorder[i].primitive);
    free(plan);
}

/* A plan without a pass records that oneDNN cannot run the key; it is kept like the others. */
static cpu_onednn_plan *make(const cpu_onednn *dnn, const cpu_onednn_plan_key *key)
{
    cpu_onednn_plan *plan = calloc(1, sizeof(*plan));
    bool made;
    if (!plan) return NULL;
    plan->key = *key;
    made = make_pass(dnn, plan);
    for (int i = 0; i < CPU_ONEDNN_PLAN_OPERANDS && made; i++) made = make_reorder(dnn, plan, i);
    if (!made && plan->pass.primitive) {
        dnn->primitive_destroy(plan->pass.primitive);
        plan->pass.primitive = NULL;
    }
    return plan;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cpu_onednn_plan *kept[KEPT_PLANS];
static uint32_t next_place;

/* A free place for a plan, or that of a plan without users; NULL if all are in use. */
static cpu_onednn_plan **free_place(const cpu_onednn *dnn)
{
    for (uint32_t tries = 0; tries < KEPT_PLANS; tries++) {
        cpu_onednn_plan **place = &kept[next_place++ % KEPT_PLANS];
        if (*place && (*place)->users > 0) continue;
        if (*place) destroy(dnn, *place);
        *place = NULL;
        return place;
    }
    return NULL;
}

cpu_onednn_plan *cpu_onednn_plan_take(const cpu_onednn *dnn, const cpu_onednn_plan_key *key)
{
    cpu_onednn_plan *found = NULL, **place;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < KEPT_PLANS && !found; i++)
        if (kept[i] && memcmp(&kept[i]->key, key, sizeof(*key)) == 0) found = kept[i];
    if (!found && (place = free_place(dnn)) != NULL) *place = found = make(dnn, key);
    if (found && !found->pass.primitive) found = NULL;
    if (found) found->users++;
    pthread_mutex_unlock(&lock);
    return found;
}

void cpu_onednn_plan_give_back(cpu_onednn_plan *plan)
{
    if (!plan) return;
    pthread_mutex_lock(&lock);
    plan->users--;
    pthread_mutex_unlock(&lock);
}
