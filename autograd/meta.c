/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The autograd metadata of a tensor, and what a program asks about it. Most tensors have none; the bit
 * TNI_WANTS_GRAD of a tensor's state says whether calls on it are recorded. Knows nodes by reference only.
 */
#include <tenon/ops.h>
#include "autograd/graph.h"

#include "core/dtype.h"
#include "core/scope.h"
#include "core/shape.h"

#include <stdio.h>
#include <string.h>

tni_autograd_meta *tni_meta_ensure(tn_tensor *t)
{
    if (t->autograd) return t->autograd;
    tni_autograd_meta *meta = tni_alloc(t->ctx, sizeof *meta);
    if (!meta) return NULL;
    *meta = (tni_autograd_meta){.tensor = t};
    __atomic_store_n(&t->autograd, meta, __ATOMIC_RELEASE); /* see tni_follow_base */
    return meta;
}

/* Moves the hook that retains the gradient of t to another result. */
static int32_t move_retain(tn_tensor *t, tn_node *old, tn_node *node, uint32_t output)
{
    tni_hook hook = {.kind = TNI_HOOK_RETAIN, .input = output, .as.retain = t};
    tni_hook_drop_retain(old, t);
    return tni_hook_add(node, &hook, NULL);
}

/* Readers of a view see the new history no later than the version that it is for. */
static inline int32_t set_history(tn_tensor *t, tn_node *node, uint32_t output, tn_node **out_old)
{
    tni_autograd_meta *meta = tni_meta_ensure(t);
    tn_node *old = meta ? meta->grad_fn : NULL;
    int32_t status = meta ? TN_OK : TN_E_OUT_OF_MEMORY;
    if (TNI_UNLIKELY(old && meta->retains_grad)) status = move_retain(t, old, node, output);
    if (TNI_UNLIKELY(status)) {
        tni_node_release(node);
        return status;
    }
    meta->grad_fn = node;
    meta->output = output;
    atomic_store_explicit(&meta->view_version,
                          atomic_load_explicit(&t->storage->version, memory_order_relaxed),
                          memory_order_release);
    *out_old = old;
    return TN_OK;
}

int32_t tni_set_history(tn_tensor *t, tn_node *node, uint32_t output)
{
    tn_node *old;
    int32_t status = set_history(t, node, output, &old);
    if (TNI_UNLIKELY(status)) return status;
    t->state = (t->state & ~TNI_LEAF) | TNI_WANTS_GRAD;
    if (TNI_UNLIKELY(old != NULL)) tni_node_release(old);
    return TN_OK;
}

/* The state stays as it is: that of the base says that a gradient is wanted. */
int32_t tni_follow_base(tn_tensor *view, tn_node *node, tn_node **out_old)
{
    return set_history(view, node, 0, out_old);
}

void tni_clear_history(tn_tensor *t)
{
    tni_autograd_meta *meta = t->autograd;
    t->state &= ~(TNI_WANTS_GRAD | TNI_LEAF);
    if (!meta) return;
    tn_node *old = meta->grad_fn;
    if (old && meta->retains_grad) tni_hook_drop_retain(old, t);
    meta->grad_fn = NULL;
    meta->retains_grad = 0;
    tni_node_release(old);
}

int32_t tni_gradient_edge_of_view(tn_tensor *t, tni_edge *out)
{
    const int32_t follows = tni_follows_base(t);
    *out = (tni_edge){NULL, 0};
    if (follows) {
        int32_t status = tni_view_refresh(t);
        if (status) return status;
    }
    if (!(follows || t->state & TNI_WANTS_GRAD) || !t->autograd) return TN_OK;
    tni_autograd_meta *meta = t->autograd;
    if (meta->grad_fn)
        *out = (tni_edge){meta->grad_fn, meta->output};
    else if (meta->leaf && t->state & TNI_WANTS_GRAD)
        *out = (tni_edge){&meta->leaf->node, 0};
    return TN_OK;
}

tni_meta tni_note(const tn_tensor *t)
{
    return (tni_meta){t->desc.dtype, t->desc.rank, t->desc.device, t->desc.sizes};
}

static const char *type_name(tn_dtype dtype)
{
    switch (dtype) {
    case TN_FLOAT16:
        return "HalfTensor";
    case TN_BFLOAT16:
        return "BFloat16Tensor";
    case TN_FLOAT32:
        return "FloatTensor";
    case TN_FLOAT64:
        return "DoubleTensor";
    case TN_COMPLEX32:
        return "ComplexHalfTensor";
    case TN_COMPLEX64:
        return "ComplexFloatTensor";
    case TN_COMPLEX128:
        return "ComplexDoubleTensor";
    case TN_BOOL:
        return "BoolTensor";
    case TN_UINT8:
        return "ByteTensor";
    case TN_INT8:
        return "CharTensor";
    case TN_INT16:
        return "ShortTensor";
    case TN_INT32:
        return "IntTensor";
    case TN_INT64:
        return "LongTensor";
    default:
        return "Tensor";
    }
}

const char *tni_tensor_text(const tn_tensor *t, char *buffer, uint64_t bytes)
{
    int used;
    uint32_t type = TN_DEVICE_TYPE(t->desc.device);
    const char *device = type == TN_INTERNED_CPU ? NULL : tn_interned(t->ctx, type);
    used = snprintf(buffer, bytes, "[torch.%s%s%s", device ? device : "", device ? "." : "",
                    type_name(t->desc.dtype));
    if (used > 0 && (uint64_t)used < bytes && t->desc.rank) {
        char *rest = buffer + used;
        uint64_t left = bytes - (uint64_t)used;
        *rest = ' ';
        tni_shape_text(t->desc.rank, t->desc.sizes, rest + 1, left - 1);
    }
    uint64_t length = strlen(buffer);
    if (length + 1 < bytes) memcpy(buffer + length, "]", 2);
    return buffer;
}

const char *tni_kind_text(tn_dtype dtype, uint32_t rank, const int64_t *sizes, char *buffer, uint64_t bytes)
{
    const int used = snprintf(buffer, bytes, "%s ", tn_dtype_name(dtype));
    if (used > 0 && (uint64_t)used < bytes)
        tni_shape_text(rank, sizes, buffer + used, bytes - (uint64_t)used);
    return buffer;
}

/* ---- public ---- */

int32_t tni_tensor_given(const tn_tensor *t, const char *what)
{
    if (TNI_UNLIKELY(!t)) return tni_error(TN_E_ARGUMENT, "%s is NULL", what);
    int32_t status = tni_tensor_check(t);
    return TNI_LIKELY(!status) ? TN_OK : tni_error(status, "%s: %s", what, tn_last_error()->message);
}

int32_t tn_requires_grad(const tn_tensor *t)
{
    return t && tni_wants_grad(t);
}

int32_t tn_is_leaf(const tn_tensor *t)
{
    return !t || tni_is_leaf(t);
}

int32_t tn_set_requires_grad(tn_tensor *t, int32_t on)
{
    int32_t status = tni_tensor_given(t, "requires_grad_: the tensor");
    if (status) return status;
    if (!tn_is_leaf(t)) {
        if (on) return TN_OK;
        return tni_error(
            TN_E_AUTOGRAD,
            "you can only change requires_grad flags of leaf variables. If you want to use a computed "
            "variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    }
    if (!on) {
        t->state &= ~(TNI_WANTS_GRAD | TNI_LEAF);
        return TN_OK;
    }
    if (!tni_is_differentiable(t->desc.dtype))
        return tni_error(TN_E_DTYPE,
                         "only Tensors of floating point and complex dtype can require gradients");
    if ((t->state & TNI_INFERENCE) && tni_tls.grad_mode != TN_GRAD_INFERENCE)
        return tni_error(
            TN_E_AUTOGRAD,
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    tni_autograd_meta *meta = tni_meta_ensure(t);
    if (!meta) return TN_E_OUT_OF_MEMORY;
    if (!meta->leaf && !(meta->leaf = tni_leaf_create(t))) return TN_E_OUT_OF_MEMORY;
    t->state |= TNI_WANTS_GRAD | TNI_LEAF;
    return TN_OK;
}

int32_t tn_retain_grad(tn_tensor *t)
{
    int32_t status = tni_tensor_given(t, "retain_grad: the tensor");
    if (status) return status;
    if (!tni_wants_grad(t))
        return tni_error(TN_E_AUTOGRAD, "can't retain_grad on Tensor that has requires_grad=False");
    tni_edge edge;
    status = tni_gradient_edge(t, &edge);
    if (status || !edge.node || edge.node->is_leaf || t->autograd->retains_grad) return status;
    tni_hook hook = {.kind = TNI_HOOK_RETAIN, .input = edge.input, .as.retain = t};
    t->state |= TNI_RETAINS_GRAD; /* before the node knows of it */
    status = tni_hook_add(edge.node, &hook, NULL);
    if (!status) t->autograd->retains_grad = 1;
    return status;
}

pthread_mutex_t *tni_grad_lock(const tn_tensor *t)
{
    tni_autograd_meta *meta = t->autograd;
    return meta->leaf ? &meta->leaf->lock : &tni_autograd_of(t->ctx)->gradients;
}

tn_tensor *tn_grad_of(tn_scope *s, const tn_tensor *t)
{
    if (tn_scope_failed(s)) return NULL;
    int32_t status = tni_tensor_given(t, "grad_of: the tensor");
    if (status) {
        tni_scope_record(s, status);
        return NULL;
    }
    if (!t->autograd) return NULL;
    pthread_mutex_t *lock = tni_grad_lock(t);
    pthread_mutex_lock(lock);
    tn_tensor *grad = tn_retain(t->autograd->grad);
    pthread_mutex_unlock(lock);
    return grad ? tni_scope_own(s, grad) : NULL;
}

static int32_t check_grad(const tn_tensor *t, const tn_tensor *grad)
{
    if (t == grad) return tni_error(TN_E_ARGUMENT, "can't assign Variable as its own grad");
    if (t->desc.dtype != grad->desc.dtype)
        return tni_error(TN_E_DTYPE, "assigned grad has data of a different type: %s for a tensor of %s",
                         tn_dtype_name(grad->desc.dtype), tn_dtype_name(t->desc.dtype));
    if (t->desc.device != grad->desc.device)
        return tni_error(TN_E_DEVICE, "assigned grad has data located on a different device");
    if (t->desc.rank != grad->desc.rank ||
        (t->desc.rank && memcmp(t->desc.sizes, grad->desc.sizes, t->desc.rank * sizeof(int64_t)) != 0)) {
        char have[256], want[256];
        return tni_error(TN_E_SHAPE, "assigned grad has data of a different size: %s for a tensor of %s",
                         tni_shape_text(grad->desc.rank, grad->desc.sizes, have, sizeof have),
                         tni_shape_text(t->desc.rank, t->desc.sizes, want, sizeof want));
    }
    return TN_OK;
}

int32_t tn_set_grad(tn_tensor *t, tn_tensor *grad)
{
    int32_t status = tni_tensor_given(t, "set_grad: the tensor");
    if (!status && grad) status = tni_tensor_given(grad, "set_grad: the gradient");
    if (!status && grad) status = check_grad(t, grad);
    if (status) return status;
    if (!grad && !t->autograd) return TN_OK;
    tni_autograd_meta *meta = tni_meta_ensure(t);
    if (!meta) return TN_E_OUT_OF_MEMORY;
    tn_retain(grad);
    pthread_mutex_t *lock = tni_grad_lock(t);
    pthread_mutex_lock(lock);
    tn_tensor *old = meta->grad;
    meta->grad = grad;
    if (meta->leaf) meta->leaf->added_on = NULL; /* the program orders what it has done to it */
    pthread_mutex_unlock(lock);
    tn_release(old);
    return TN_OK;
}

tn_tensor *tn_detach(tn_scope *s, tn_tensor *t)
{
    if (tn_scope_failed(s)) return NULL;
    int32_t status = tni_tensor_given(t, "detach: argument 'self'");
    if (status) {
        tni_scope_record(s, status);
        return NULL;
    }
    if (tni_tls.trace) { /* traced as a call */
        tn_value self = tn_value_tensor(t), result;
        return tn_scope_call(s, TN_OP_DETACH_DEFAULT, &self, 1, &result, 1) ? NULL
                                                                            : tn_value_as_tensor(result);
    }
    tn_tensor *out = NULL;
    status = tni_tensor_twin(t, &out);
    if (status) {
        tni_scope_record(s, status);
        return NULL;
    }
    return tni_scope_own(s, out);
}

uint32_t tn_grad_mode(void)
{
    return tni_tls.grad_mode ? tni_tls.grad_mode : TN_GRAD_ON;
}

uint32_t tn_set_grad_mode(uint32_t mode)
{
    uint32_t before = tn_grad_mode();
    if (mode >= TN_GRAD_ON && mode <= TN_GRAD_INFERENCE) tni_tls.grad_mode = mode;
    return before;
}
