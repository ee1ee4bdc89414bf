/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that programs use beside layers: normalised vectors, samples with a gradient, statistics of batch norms. */
#include "layers.h"

#include <string.h>

tn_tensor *tn_normalize(tn_scope *s, tn_tensor *x, double p, int64_t dim, double eps)
{
    tn_tensor *norm = tn_linalg_vector_norm(s, x, .ord = TN_SCALAR(p), .dim = TN_INTS(dim), .keepdim = 1);
    return tn_div(s, x, tn_clamp_min(s, norm, eps));
}

tn_tensor *tn_gumbel_softmax(tn_scope *s, tn_tensor *logits, double tau, int32_t hard, int64_t dim)
{
    if (!(tau > 0) && !tn_scope_failed(s))
        return nn_scope_fail(s, TN_E_ARGUMENT, "gumbel_softmax: argument 'tau': got %g, expected more than 0",
                             tau),
               NULL;
    tn_tensor *noise = tn_neg(s, tn_log(s, tn_exponential_(s, tn_empty_like(s, logits))));
    tn_tensor *soft = tn_softmax(s, tn_div_scalar(s, tn_add(s, logits, noise), tau), dim);
    if (!hard || tn_scope_failed(s)) return soft;
    tn_tensor *best = tn_argmax(s, soft, .dim = dim, .keepdim = 1);
    tn_tensor *one = tn_scatter_value(s, tn_zeros_like(s, soft), dim, best, 1.0);
    return tn_add(s, tn_sub(s, one, tn_detach(s, soft)), soft);
}

/* ---- Statistics of batch norms ------------------------------------------------------------------------------ */

static int32_t is_batch_norm(const tn_module *m)
{
    return m->class->name && !strncmp(m->class->name, "BatchNorm", 9);
}

static void begin_mean(tn_module *m, void *scope)
{
    if (!is_batch_norm(m) || !tn_module_own(m, 2)) return;
    tn_zero_(scope, tn_module_own(m, 2));
    tn_fill_scalar_(scope, tn_module_own(m, 3), 1.0);
    tn_zero_(scope, tn_module_own(m, 4));
    m->is_averaging = 1;
}

static void end_mean(tn_module *m, void *unused)
{
    (void)unused;
    m->is_averaging = 0;
}

/* Whether there was a batch. */
static int32_t take_batch(tn_scope *parent, tn_module *m, tn_next_input next, void *user)
{
    tn_scope *s = nn_without_recording(parent);
    tn_tensor *x = tn_scope_failed(s) ? NULL : next(user, s);
    if (x) tn_module_forward(s, m, x);
    return !tn_scope_close(s) && x;
}

int32_t tn_update_bn(tn_scope *s, tn_module *m, tn_next_input next, void *user)
{
    if (!m || !next)
        return tn_scope_fail(s, TN_E_ARGUMENT,
                             m ? "tn_update_bn: 'next' is NULL" : "tn_update_bn: the module is NULL");
    if (m->tree->status) return nn_failed_before(s, m);
    const int32_t was_training = m->is_training;
    tn_scope *quiet = nn_without_recording(s);
    tn_module_apply(m, begin_mean, quiet);
    tn_scope_close(quiet);
    tn_module_train(m, 1);
    while (!tn_scope_failed(s) && take_batch(s, m, next, user)) continue;
    tn_module_train(m, was_training);
    tn_module_apply(m, end_mean, NULL);
    return tn_scope_failed(s);
}
