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

/* NULL, or why they cannot be fused. */
static const char *fault_of(const tn_module *layer, const char *kind, const tn_module *norm)
{
    if (!layer || !norm) return "a module is NULL";
    if (!is_kind(layer, kind) || layer->is_lazy) return "the first module is another layer";
    if (!is_kind(norm, "BatchNorm") || norm->is_lazy) return "the second module is not a batch norm";
    if (layer->is_training || norm->is_training) return "both must be in evaluation mode";
    if (!tn_module_own(norm, 2)) return "the norm has no running mean and variance";
    if (layer->computed_count) return "the layer is parametrized or pruned";
    return NULL;
}

/* The weight and bias of a layer that does what both did. */
static void fused(tn_scope *s, const tn_module *layer, const tn_module *norm, tn_tensor **weight,
                  tn_tensor **bias)
{
    const tn_batch_norm1d_options *o = norm->state;
    const int64_t dim = is_kind(layer, "ConvTranspose");
    tn_tensor *w = tn_detach(s, tn_module_tensor(layer, "weight")), *b = tn_module_tensor(layer, "bias"),
              *scale = tn_rsqrt(s, tn_add_scalar(s, tn_module_own(norm, 3), o->eps));
    int64_t sizes[TN_MAX_RANK];
    if (tn_module_own(norm, 0)) scale = tn_mul(s, scale, tn_detach(s, tn_module_own(norm, 0)));
    for (int64_t d = 0; d < tn_tensor_rank(w); d++) sizes[d] = d == dim ? -1 : 1;
    *weight = tn_mul(s, w, tn_reshape(s, scale, (tn_ints){sizes, tn_tensor_rank(w)}));
    tn_tensor *mean = tn_module_own(norm, 2);
    *bias = tn_mul(s, b ? tn_sub(s, tn_detach(s, b), mean) : tn_neg(s, mean), scale);
    if (tn_module_own(norm, 1)) *bias = tn_add(s, *bias, tn_detach(s, tn_module_own(norm, 1)));
    if (*weight) *weight = tn_to(s, *weight, tn_tensor_dtype(w));
    if (*bias) *bias = tn_to(s, *bias, tn_tensor_dtype(w));
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
        tn_module_set_tensor(layer, "weight", weight);
        if (!tn_module_tensor(layer, "bias")) tn_module_set_absent(layer, "bias");
        tn_module_set_tensor(layer, "bias", bias);
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
