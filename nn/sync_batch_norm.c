/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch norm over the batches of several ranks: the sums of each channel are added over the ranks, first those of the
 * elements, then those of the squares of their distances from the mean. The gradient of such a sum is the sum of the
 * gradients of all ranks.
 */
#include "layers.h"

#include <string.h>

static int32_t add_over_ranks(tn_function_call *call, tn_scope *s, tn_tensors in, tn_tensor **out)
{
    tn_tensor *t = tn_clone(s, tn_contiguous(s, tn_detach(s, in.data[0])));
    if (!t) return tn_scope_failed(s);
    const int32_t status = tn_communicator_all_reduce(tn_function_user(call), &t, 1, TN_REDUCE_SUM);
    if (status) return tn_scope_fail(s, status, tn_last_error() ? tn_last_error()->message : NULL);
    out[0] = t;
    return TN_OK;
}

static tn_tensor *sum_over_ranks(tn_scope *s, tn_communicator *c, tn_tensor *t)
{
    static const tn_function function = {.size = sizeof function,
                                         .name = "SumOverRanks",
                                         .forward = add_over_ranks,
                                         .backward = add_over_ranks};
    tn_tensor *out = NULL;
    return t && !tn_function_apply(s, &function, c, TN_TENSORS(t), &out, 1) ? out : NULL;
}

/* The running averages take the new values in; `variance` is that of all elements without a bias. */
static void follow(tn_scope *scope, tn_module *m, tn_tensor *mean, tn_tensor *variance)
{
    const tn_batch_norm1d_options *o = m->state;
    tn_tensor *batches = tn_module_own(m, 4);
    tn_scope *s = nn_without_recording(scope);
    double momentum = o->momentum;
    tn_add_scalar_(s, batches, (int64_t)1);
    if (momentum == (double)TN_NONE || m->is_averaging) momentum = 1 / (double)tn_item_int(s, batches);
    tn_lerp_scalar_(s, tn_module_own(m, 2), tn_to(s, mean, tn_tensor_dtype(tn_module_own(m, 2))), momentum);
    tn_lerp_scalar_(s, tn_module_own(m, 3), tn_to(s, variance, tn_tensor_dtype(tn_module_own(m, 3))),
                    momentum);
    tn_scope_close(s);
}

tn_tensor *nn_sync_batch_norm(tn_scope *s, tn_module *m, tn_tensor *x)
{
    const tn_batch_norm1d_options *o = m->state;
    const int64_t rank = tn_tensor_rank(x), channels = tn_tensor_size(x, 1);
    const tn_dtype own = tn_tensor_dtype(x);
    int64_t dims[TN_MAX_RANK], shape[TN_MAX_RANK], n = 0;
    for (int64_t d = 0; d < rank; d++) {
        shape[d] = d == 1 ? channels : 1;
        if (d != 1) dims[n++] = d;
    }
    if (own == TN_FLOAT16 || own == TN_BFLOAT16) x = tn_to(s, x, TN_FLOAT32);
    const double count = channels ? (double)(tn_tensor_numel(x) / channels) : 0;
    tn_tensor *sum = tn_sum_dim(s, x, (tn_ints){dims, n});
    tn_tensor *all = sum_over_ranks(s, m->communicator,
                                    tn_cat(s, TN_TENSORS(sum, tn_new_full(s, sum, TN_INTS(1), count))));
    tn_tensor *total = tn_detach(s, tn_narrow(s, all, 0, channels, 1));
    tn_tensor *mean = tn_div(s, tn_narrow(s, all, 0, 0, channels), total);
    tn_tensor *apart = tn_sub(s, x, tn_view(s, mean, (tn_ints){shape, rank}));
    tn_tensor *squares =
        sum_over_ranks(s, m->communicator, tn_sum_dim(s, tn_mul(s, apart, apart), (tn_ints){dims, n}));
    if (tn_scope_failed(s)) return NULL;
    if (tn_module_own(m, 2))
        follow(s, m, tn_detach(s, mean),
               tn_div(s, tn_detach(s, squares), tn_sub_scalar(s, total, TN_SCALAR(1))));
    tn_tensor *scale = tn_rsqrt(s, tn_add_scalar(s, tn_div(s, squares, total), o->eps));
    if (tn_module_own(m, 0)) scale = tn_mul(s, scale, tn_module_own(m, 0));
    tn_tensor *y = tn_mul(s, apart, tn_view(s, scale, (tn_ints){shape, rank}));
    if (tn_module_own(m, 1)) y = tn_add(s, y, tn_view(s, tn_module_own(m, 1), (tn_ints){shape, rank}));
    return y ? tn_to(s, y, own) : NULL;
}

static void set_communicator(tn_module *m, void *communicator)
{
    if (!strncmp(m->class->name ? m->class->name : "", "BatchNorm", 9)) m->communicator = communicator;
}

int32_t tn_convert_sync_batchnorm(tn_module *m, tn_communicator *communicator)
{
    if (!m) return nn_is_null("tn_convert_sync_batchnorm");
    if (m->tree->status) return nn_failed_before(NULL, m);
    if (communicator && tn_communicator_size(communicator) != 1)
        return tn_scope_fail(
            NULL, TN_E_ARGUMENT,
            "tn_convert_sync_batchnorm: argument 'communicator': it has several ranks in this process, "
            "expected one: the forward of all ranks must run at the same time");
    tn_module_apply(m, set_communicator, communicator);
    return TN_OK;
}
