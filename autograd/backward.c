/* SPDX-License-Identifier: Apache-2.0 */
/* The calls that start a backward run: they check the arguments, fill in defaults and run the engine. */
#include "autograd/graph.h"

#include "core/context.h"
#include "core/scope.h"
#include "core/shape.h"

#include <stdio.h>
#include <string.h>

#include <tenon/ops.h>

static int32_t fail(tn_scope *s, int32_t status)
{
    return tni_scope_record(s, status);
}

/* Checks that item i of a list is a live tensor. `what` is "root", "gradient" or "input". */
static int32_t check_given(const char *what, const tn_tensor *t, int64_t i)
{
    char name[64];
    if (TNI_LIKELY(t && !(t->state & TNI_DEAD))) return TN_OK;
    snprintf(name, sizeof name, "backward: %s %lld", what, (long long)i);
    return tni_tensor_given(t, name);
}

static int32_t check_root(const tn_tensor *root, int64_t i)
{
    int32_t status = check_given("root", root, i);
    if (status) return status;
    if (!tni_wants_grad(root))
        return tni_error(TN_E_AUTOGRAD,
                         "element %lld of tensors does not require grad and does not have a grad_fn",
                         (long long)i);
    return TN_OK;
}

static int32_t check_root_gradient(const tn_tensor *root, const tn_tensor *grad, int64_t i)
{
    if (!grad) {
        if (root->numel != 1)
            return tni_error(TN_E_AUTOGRAD, "grad can be implicitly created only for scalar outputs");
        if (tn_dtype_is_complex(root->desc.dtype))
            return tni_error(TN_E_AUTOGRAD,
                             "grad can be implicitly created only for real scalar outputs but got %s",
                             tn_dtype_name(root->desc.dtype));
        return TN_OK;
    }
    int32_t status = check_given("gradient", grad, i);
    if (status) return status;
    if (grad->desc.rank != root->desc.rank ||
        (grad->desc.rank &&
         memcmp(grad->desc.sizes, root->desc.sizes, grad->desc.rank * sizeof(int64_t)) != 0)) {
        char a[256], b[256];
        return tni_error(
            TN_E_SHAPE,
            "Mismatch in shape: grad_output[%lld] has a shape of torch.Size(%s) and output[%lld] has a "
            "shape of torch.Size(%s).",
            (long long)i, tni_shape_text(grad->desc.rank, grad->desc.sizes, a, sizeof a), (long long)i,
            tni_shape_text(root->desc.rank, root->desc.sizes, b, sizeof b));
    }
    if (tn_dtype_is_complex(grad->desc.dtype) != tn_dtype_is_complex(root->desc.dtype))
        return tni_error(
            TN_E_DTYPE,
            "For complex Tensors, both grad_output and output are required to have the same dtype. "
            "Mismatch in dtype: grad_output[%lld] has a dtype of %s and output[%lld] has a dtype of %s.",
            (long long)i, tn_dtype_name(grad->desc.dtype), (long long)i, tn_dtype_name(root->desc.dtype));
    return TN_OK;
}

int32_t tni_bad_list(const char *call, const char *argument, tn_tensors list)
{
    return tni_error(TN_E_ARGUMENT, "%s: argument '%s' has %lld tensor%s%s", call, argument,
                     (long long)list.count, list.count == 1 ? "" : "s", list.data ? "" : " and no list");
}

/* Absent lists have no tensors. */
static int32_t check_list(const char *argument, tn_tensors list)
{
    return list.data || !list.count ? TN_OK : tni_bad_list("backward", argument, list);
}

static int32_t check_goal(const tni_goal *goal)
{
    if (goal->roots.count <= 0 || !goal->roots.data)
        return tni_error(TN_E_ARGUMENT, "backward: there are no tensors to start from");
    int32_t status = check_list("grad_outputs", goal->grads);
    if (!status) status = check_list("inputs", goal->inputs);
    if (status) return status;
    if (goal->grads.count && goal->grads.count != goal->roots.count)
        return tni_error(TN_E_ARGUMENT, "got %lld tensors and %lld gradients", (long long)goal->roots.count,
                         (long long)goal->grads.count);
    for (int64_t i = 0; i < goal->roots.count && !status; i++) {
        status = check_root(goal->roots.data[i], i);
        if (!status)
            status =
                check_root_gradient(goal->roots.data[i], goal->grads.count ? goal->grads.data[i] : NULL, i);
    }
    for (int64_t i = 0; i < goal->inputs.count && !status; i++)
        status = check_given("input", goal->inputs.data[i], i);
    return status;
}

static void fill_goal(tni_goal *goal, const tn_backward_options *o, tn_tensors roots)
{
    goal->roots = roots;
    goal->grads = o->grad_outputs;
    goal->create_graph = o->create_graph;
    goal->keep_graph = o->retain_graph || o->create_graph;
}

static int32_t open_goal(tn_scope *s, tn_tensors roots, const tn_backward_options *options,
                         tn_backward_options *o, tni_goal *goal)
{
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    memset(o, 0, sizeof *o);
    int32_t status = options ? tni_struct_read(o, sizeof *o, options, "tn_backward_options") : TN_OK;
    if (status) return fail(s, status);
    *goal = (tni_goal){.keep_graph = 0};
    fill_goal(goal, o, roots);
    return TN_OK;
}

int32_t tn_backward(tn_scope *s, tn_tensor *root)
{
    tn_tensor *list[] = {root};
    return tn_backward_with(s, (tn_tensors){list, 1}, NULL);
}

int32_t tn_backward_with(tn_scope *s, tn_tensors roots, const tn_backward_options *options)
{
    tn_backward_options o;
    tni_goal goal;
    if (open_goal(s, roots, options, &o, &goal)) return tn_scope_failed(s);
    goal.inputs = o.inputs;
    if (o.inputs.data && o.inputs.count == 0)
        return fail(s, tni_error(TN_E_ARGUMENT, "`inputs` argument to `backward` cannot be empty."));
    int32_t status = check_goal(&goal);
    for (int64_t i = 0; i < goal.inputs.count && !status; i++) {
        if (!tni_wants_grad(goal.inputs.data[i]))
            status = tni_error(TN_E_AUTOGRAD, "One of the differentiated Tensors does not require grad");
        else if (!tn_is_leaf(goal.inputs.data[i]))
            status = tn_retain_grad(goal.inputs.data[i]);
    }
    if (goal.create_graph && !status)
        tni_warn_once(
            tn_scope_context(s), TNI_WARNING_GRADIENT_CYCLE,
            "backward: with create_graph a tensor and its gradient may refer to each other, and then neither "
            "is freed: clear the gradient after use (tn_set_grad with NULL, tn_optimizer_zero_grad, "
            "tn_module_zero_grad), or take gradients from tn_grad, which stores none");
    return status ? fail(s, status) : tni_engine_run(s, &goal);
}

/* The scope takes what a run has found, which may have failed since. */
static void own_captures(tn_scope *s, const tni_goal *goal)
{
    for (int64_t i = 0; i < goal->inputs.count; i++)
        if (goal->captures[i]) goal->captures[i] = tni_scope_own(s, goal->captures[i]);
}

/* The results of tn_grad, which the scope has. A missing one is an error, NULL or zeros. */
static int32_t hand_out(tn_scope *s, const tni_goal *goal, const tn_backward_options *o, tn_tensor **out)
{
    for (int64_t i = 0; i < goal->inputs.count; i++) {
        if (goal->captures[i]) continue;
        if (!o->allow_unused && !o->materialize_grads)
            return tni_error(
                TN_E_AUTOGRAD,
                "One of the differentiated Tensors appears to not have been used in the graph. Set "
                "allow_unused=True if this is the desired behavior. (Here input %lld; in C: .allow_unused = "
                "1.)",
                (long long)i);
        if (o->materialize_grads) goal->captures[i] = tn_zeros_like(s, goal->inputs.data[i]);
    }
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    memcpy(out, goal->captures, (uint64_t)goal->inputs.count * sizeof *out);
    return TN_OK;
}

int32_t tn_grad(tn_scope *s, tn_tensors roots, tn_tensors inputs, const tn_backward_options *options,
                tn_tensor **out)
{
    tn_backward_options o;
    tni_goal goal;
    if (open_goal(s, roots, options, &o, &goal)) return tn_scope_failed(s);
    goal.inputs = inputs;
    if (!out || inputs.count <= 0 || !inputs.data)
        return fail(s, tni_error(TN_E_ARGUMENT, "grad requires non-empty inputs."));
    int32_t status = check_goal(&goal);
    if (status) return fail(s, status);
    uint64_t bytes = (uint64_t)inputs.count * sizeof *goal.captures;
    goal.captures = tn_scope_memory(s, bytes);
    if (!goal.captures) return tn_scope_failed(s);
    memset(goal.captures, 0, bytes);
    status = tni_engine_run(s, &goal);
    own_captures(s, &goal);
    if (!status) status = tn_scope_failed(s);
    if (!status) status = hand_out(s, &goal, &o, out);
    return status ? fail(s, status) : TN_OK;
}
