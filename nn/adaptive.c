/* SPDX-License-Identifier: Apache-2.0 */
/* Adaptive softmax: frequent classes in the head, the others in clusters with fewer features the rarer they
 * are. */
#include "layers.h"

#include <math.h>
#include <stdio.h>

/* Named in layers.toml. */
tn_tensor *nn_adaptive_log_softmax_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
void nn_adaptive_log_softmax_init(tn_scope *s, tn_module *m);

/* The first class of cluster i, which are those behind the head: cutoffs, then the number of classes. */
static int64_t bound(const tn_adaptive_log_softmax_with_loss_options *o, int64_t i)
{
    return i < o->cutoffs.count ? o->cutoffs.data[i] : o->n_classes;
}

static int32_t check(tn_module *m, const tn_adaptive_log_softmax_with_loss_options *o)
{
    int32_t rises = o->cutoffs.count > 0 && o->cutoffs.data[0] > 0;
    for (int64_t i = 0; i < o->cutoffs.count; i++) rises &= bound(o, i) < bound(o, i + 1);
    if (rises && o->div_value > 0) return TN_OK;
    return nn_fail(m, TN_E_ARGUMENT,
                   "AdaptiveLogSoftmaxWithLoss '%s': cutoffs must rise from above 0 to below n_classes, and "
                   "div_value be "
                   "above 0",
                   m->name);
}

void nn_adaptive_log_softmax_init(tn_scope *s, tn_module *m)
{
    const tn_adaptive_log_softmax_with_loss_options *o = m->state;
    (void)s;
    if (check(m, o)) return;
    tn_linear_create(m, "head", o->in_features, bound(o, 0) + o->cutoffs.count, .bias = o->head_bias);
    tn_module *tail = tn_module_list_create(m, "tail");
    for (int64_t i = 0; i < o->cutoffs.count; i++) {
        const int64_t hidden = (int64_t)floor((double)o->in_features / pow(o->div_value, (double)(i + 1)));
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        tn_module *cluster = tn_module_add(tail, name, NULL);
        tn_linear_create(cluster, "0", o->in_features, hidden, .bias = 0);
        tn_linear_create(cluster, "1", hidden, bound(o, i + 1) - bound(o, i), .bias = 0);
    }
}

/* The log probabilities of the classes of cluster i within it, for the rows that have one; 0 elsewhere. */
static tn_tensor *of_cluster(tn_scope *s, tn_module *m, int64_t i, tn_tensor *x, tn_tensor *target,
                             tn_tensor *rows)
{
    const tn_adaptive_log_softmax_with_loss_options *o = m->state;
    tn_module *cluster = tn_module_child_at(tn_module_child(m, "tail"), (uint32_t)i);
    tn_tensor *local = tn_sub_scalar(s, tn_index_select(s, target, 0, rows), TN_SCALAR(bound(o, i)));
    tn_tensor *all = tn_log_softmax(s, tn_module_forward(s, cluster, tn_index_select(s, x, 0, rows)), 1);
    tn_tensor *mine = tn_squeeze_dim(s, tn_gather(s, all, 1, tn_unsqueeze(s, local, 1)), 1);
    return tn_index_add(s, tn_new_zeros(s, mine, TN_INTS(tn_tensor_size(x, 0))), 0, rows, mine);
}

tn_tensor *nn_adaptive_log_softmax_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more)
{
    const tn_adaptive_log_softmax_with_loss_options *o = m->state;
    tn_tensor *x = in.data[0], *target = nn_input(in, 1);
    if (!target)
        return tn_scope_fail(s, TN_E_ARGUMENT, "AdaptiveLogSoftmaxWithLoss: the second input is missing"),
               NULL;
    const int32_t is_single = tn_tensor_rank(x) == 1;
    if (is_single) {
        x = tn_unsqueeze(s, x, 0);
        target = tn_unsqueeze(s, target, 0);
    }
    tn_tensor *index = target, *sum = NULL; /* index: the class or the cluster, in the head */
    for (int64_t i = 0; i < o->cutoffs.count && !tn_scope_failed(s); i++) {
        tn_tensor *is_here =
            tn_logical_and(s, tn_ge_scalar(s, target, bound(o, i)), tn_lt_scalar(s, target, bound(o, i + 1)));
        tn_tensor *rows = tn_squeeze_dim(s, tn_nonzero(s, is_here), 1);
        index = tn_masked_fill_scalar(s, index, is_here, bound(o, 0) + i);
        if (!tn_tensor_numel(rows)) continue;
        tn_tensor *part = of_cluster(s, m, i, x, target, rows);
        sum = sum ? tn_add(s, sum, part) : part;
    }
    tn_tensor *head = tn_log_softmax(s, tn_module_forward(s, tn_module_child(m, "head"), x), 1);
    tn_tensor *y = tn_squeeze_dim(s, tn_gather(s, head, 1, tn_unsqueeze(s, index, 1)), 1);
    if (sum) y = tn_add(s, y, sum);
    more[0] = tn_mean(s, tn_neg(s, y));
    return is_single ? tn_squeeze_dim(s, y, 0) : y;
}
