/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norms that are folded into the layer before them, as torch.nn.utils.fusion does. */
#include "layers.h"

#include <stdlib.h>
#include <string.h>

extern const nn_layer nn_layer_identity;

static int32_t is_kind(const tn_module *m, const char *kind)
{
    return m && !strncmp(tn_module_class_name(m), kind, strlen(kind));
}

/* 1 but for a transposed convolution, whose weight has the outputs of one group in dimension 1. */
static int64_t groups_of(const tn_module *layer)
{
    return is_kind(layer, "ConvTranspose") ? ((const tn_conv_transpose1d_options *)layer->state)->groups : 1;
}

static int64_t outputs_of(const tn_module *layer)
{
    const tn_tensor *weight = tn_module_tensor(layer, "weight");
    return tn_tensor_size(weight, is_kind(layer, "ConvTranspose")) * groups_of(layer);
}

/* NULL, or why they cannot be fused. */
static const char *fault_of(const tn_module *layer, const char *kind, const tn_module *norm)
{
    if (!layer || !norm) return "a module is NULL";
    if (!is_kind(layer, kind) || layer->is_lazy) return "the first module is another layer";
    if (!is_kind(norm, "BatchNorm") || norm->is_lazy) return "the second module is not a batch norm";
    if (layer->is_training || norm->is_training) return "both must be in evaluation mode";
    if (!tn_module_own(norm, 2)) return "the norm has no running mean and variance";
    if (layer->computed_count) return "the layer is parametrized or pruned";
    if (norm->computed_count) return "the norm is parametrized or pruned";
    if (outputs_of(layer) != tn_tensor_numel(tn_module_own(norm, 2)))
        return "the norm has another number of features than the layer has outputs";
    return NULL;
}

/* A number for each output, to be multiplied with the weight. */
static tn_tensor *like_weight(tn_scope *s, const tn_module *layer, tn_tensor *scale, const tn_tensor *weight)
{
    const int64_t rank = tn_tensor_rank(weight), groups = groups_of(layer), in = tn_tensor_size(weight, 0),
                  each = tn_tensor_size(weight, 1);
    int64_t sizes[TN_MAX_RANK] = {-1};
    for (int64_t d = 1; d < rank; d++) sizes[d] = 1;
    if (is_kind(layer, "ConvTranspose")) { /* inputs stand group by group */
        scale =
            tn_expand(s, tn_reshape(s, scale, TN_INTS(groups, 1, each)), TN_INTS(groups, in / groups, each));
        sizes[0] = in;
        sizes[1] = each;
    }
    return tn_reshape(s, scale, (tn_ints){sizes, rank});
}

/* The weight and bias of a layer that does what both did. */
static void fused(tn_scope *s, const tn_module *layer, const tn_module *norm, tn_tensor **weight,
                  tn_tensor **bias)
{
    const tn_batch_norm1d_options *o = norm->state;
    tn_tensor *w = tn_detach(s, tn_module_tensor(layer, "weight")), *b = tn_module_tensor(layer, "bias"),
              *scale = tn_rsqrt(s, tn_add_scalar(s, tn_module_own(norm, 3), o->eps));
    if (tn_module_own(norm, 0)) scale = tn_mul(s, scale, tn_detach(s, tn_module_own(norm, 0)));
    *weight = tn_mul(s, w, like_weight(s, layer, scale, w));
    tn_tensor *mean = tn_module_own(norm, 2);
    *bias = tn_mul(s, b ? tn_sub(s, tn_detach(s, b), mean) : tn_neg(s, mean), scale);
    if (tn_module_own(norm, 1)) *bias = tn_add(s, *bias, tn_detach(s, tn_module_own(norm, 1)));
    if (*weight) *weight = tn_to(s, *weight, tn_tensor_dtype(w));
    if (*bias) *bias = tn_to(s, *bias, tn_tensor_dtype(w));
}

/* A frozen layer stays one. */
static void take(tn_module *layer, tn_tensor *weight, tn_tensor *bias)
{
    const int32_t trains = tn_requires_grad(tn_module_tensor(layer, "weight"));
    tn_module_set_tensor(layer, "weight", weight);
    if (!tn_module_tensor(layer, "bias")) tn_module_set_absent(layer, "bias");
    tn_module_set_tensor(layer, "bias", bias);
    if (!trains) tn_set_requires_grad(tn_module_tensor(layer, "weight"), 0);
    if (!trains) tn_set_requires_grad(tn_module_tensor(layer, "bias"), 0);
}

/* The norm does nothing from now on; its tensors are gone. */
static int32_t become_identity(tn_module *m)
{
    void *state = calloc(1, (size_t)nn_layer_identity.class.state_bytes);
    if (!state) return tn_module_fail(m, TN_E_OUT_OF_MEMORY, NULL);
    nn_layer_finish(m);
    free(m->state);
    while (m->slot_count) nn_remove_slot(m, m->slots[0].name);
    m->state = state;
    m->class = &nn_layer_identity.class;
    return TN_OK;
}

static int32_t fuse(tn_module *layer, tn_module *norm, const char *kind, const char *call)
{
    char text[160];
    const char *fault = fault_of(layer, kind, norm);
    tn_tensor *weight = NULL, *bias = NULL;
    if (fault) {
        snprintf(text, sizeof text, "%s: %s", call, fault);
        return tn_scope_fail(NULL, TN_E_ARGUMENT, text);
    }
    if (layer->tree->status || norm->tree->status)
        return nn_failed_before(NULL, layer->tree->status ? layer : norm);
    tn_scope *s = nn_scope(layer);
    if (!s) return tn_last_error()->code;
    fused(s, layer, norm, &weight, &bias);
    if (!tn_scope_failed(s)) {
        take(layer, weight, bias);
        become_identity(norm);
    }
    const int32_t status = tn_scope_close(s);
    return status ? status : tn_module_failed(layer);
}

int32_t tn_fuse_conv_bn_eval(tn_module *conv, tn_module *norm)
{
    return fuse(conv, norm, "Conv", "tn_fuse_conv_bn_eval");
}

int32_t tn_fuse_linear_bn_eval(tn_module *linear, tn_module *norm)
{
    return fuse(linear, norm, "Linear", "tn_fuse_linear_bn_eval");
}
