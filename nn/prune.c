/* SPDX-License-Identifier: Apache-2.0 */
/* Pruning as in torch.nn.utils.prune: a parameter becomes NAME_orig times NAME_mask. */
#include "computed.h"

#include <math.h>
#include <string.h>

/* The original and the mask of a parameter, which is pruned from now on, with nothing masked at first. */
typedef struct pruned {
    tn_tensor *original, *mask;
} pruned;

static void mark_extra(tn_module *m, const char *name)
{
    nn_slot *slot = nn_slot_find(m, name);
    if (slot) slot->is_extra = 1;
}

static int32_t begin(tn_module *m, const char *call, const char *name, pruned *out)
{
    char text[NN_NAME_BYTES];
    const nn_computed *c = nn_computed_find(m, name);
    if (!c || c->holder) {
        tn_tensor *t = nn_parameter_to_compute(m, call, name);
        if (!t) return m ? tn_module_failed(m) : TN_E_STATE;
        tn_scope *s = nn_scope(m);
        tn_module_add_parameter(m, nn_pruned_name(name, "_orig", text), t);
        mark_extra(m, text);
        tn_module_add_buffer(m, nn_pruned_name(name, "_mask", text), tn_ones_like(s, tn_detach(s, t)), 0);
        mark_extra(m, text);
        if (nn_scope_close(m, s) || nn_computed_add(m, name, NULL, NULL)) return tn_module_failed(m);
    }
    out->original = tn_module_tensor(m, nn_pruned_name(name, "_orig", text));
    out->mask = tn_module_tensor(m, nn_pruned_name(name, "_mask", text));
    return TN_OK;
}

/* How many of `left` to prune, rounded to even as Python does; -1, and the tree has failed. */
static int64_t number_of(tn_module *m, const char *call, double amount, int64_t left)
{
    const double n = amount < 1 ? nearbyint(amount * (double)left) : amount;
    if (amount >= 0 && n == floor(n) && n <= (double)left) return (int64_t)n;
    nn_fail(m, TN_E_ARGUMENT,
            "%s: argument 'amount': got %g, expected a share from 0 to 1 or a number of at most %lld", call,
            amount, (long long)left);
    return -1;
}

/* Masks the elements of the smallest scores among those that are left. */
static int32_t prune_smallest(tn_module *m, const char *call, const char *name, double amount,
                              int32_t is_random)
{
    pruned p;
    if (begin(m, call, name, &p)) return tn_module_failed(m);
    tn_scope *s = nn_scope(m);
    tn_tensor *gone = tn_eq_scalar(s, p.mask, 0), *t = tn_detach(s, p.original);
    tn_tensor *scores = is_random ? tn_rand_like(s, t) : tn_abs(s, t);
    scores = tn_reshape(s, tn_masked_fill_scalar(s, scores, gone, INFINITY), TN_INTS(-1));
    const int64_t left = tn_tensor_numel(p.mask) - tn_item_int(s, tn_sum(s, gone));
    const int64_t n = tn_scope_failed(s) ? 0 : number_of(m, call, amount, left);
    if (n > 0) {
        const tn_topk_result least = tn_topk(s, scores, n, .largest = 0);
        tn_index_fill_(s, tn_view(s, p.mask, TN_INTS(-1)), 0, least.indices, 0);
    }
    nn_scope_close(m, s);
    return tn_module_failed(m);
}

int32_t tn_prune_l1_unstructured(tn_module *m, const char *parameter, double amount)
{
    return m ? prune_smallest(m, "tn_prune_l1_unstructured", parameter, amount, 0)
             : nn_is_null("tn_prune_l1_unstructured");
}

int32_t tn_prune_random_unstructured(tn_module *m, const char *parameter, double amount)
{
    return m ? prune_smallest(m, "tn_prune_random_unstructured", parameter, amount, 1)
             : nn_is_null("tn_prune_random_unstructured");
}

int32_t tn_prune_ln_structured(tn_module *m, const char *parameter, double amount, double n, int64_t dim)
{
    static const char call[] = "tn_prune_ln_structured";
    pruned p;
    int64_t others[TN_MAX_RANK], count = 0;
    if (!m) return nn_is_null(call);
    if (begin(m, call, parameter, &p)) return tn_module_failed(m);
    const int64_t rank = tn_tensor_rank(p.mask);
    if (rank < 2 || dim < 0 || dim >= rank)
        return nn_fail(m, TN_E_ARGUMENT,
                       "%s: argument 'dim': got %lld, expected one of at least 2 dimensions (here %lld)",
                       call, (long long)dim, (long long)rank);
    for (int64_t d = 0; d < rank; d++)
        if (d != dim) others[count++] = d;
    tn_scope *s = nn_scope(m);
    tn_tensor *norms = tn_linalg_vector_norm(s, tn_mul(s, tn_detach(s, p.original), p.mask),
                                             .ord = TN_SCALAR(n), .dim = {others, count});
    tn_tensor *gone = tn_eq_scalar(s, tn_sum_dim(s, p.mask, (tn_ints){others, count}), 0);
    const int64_t left = tn_tensor_size(p.mask, dim) - tn_item_int(s, tn_sum(s, gone));
    const int64_t k = tn_scope_failed(s) ? 0 : number_of(m, call, amount, left);
    if (k > 0) {
        const tn_topk_result least =
            tn_topk(s, tn_masked_fill_scalar(s, norms, gone, INFINITY), k, .largest = 0);
        tn_index_fill_(s, p.mask, dim, least.indices, 0);
    }
    nn_scope_close(m, s);
    return tn_module_failed(m);
}

int32_t tn_prune_custom(tn_module *m, const char *parameter, tn_tensor *mask)
{
    pruned p;
    if (!m) return nn_is_null("tn_prune_custom");
    if (!mask) return nn_fail(m, TN_E_ARGUMENT, "tn_prune_custom: argument 'mask': it is NULL");
    if (begin(m, "tn_prune_custom", parameter, &p)) return tn_module_failed(m);
    if (!nn_same_sizes(p.mask, mask))
        return nn_fail(m, TN_E_SHAPE, "tn_prune_custom: argument 'mask': its sizes are not those of '%s'",
                       parameter);
    tn_scope *s = nn_scope(m);
    tn_mul_(s, p.mask, tn_to(s, mask, tn_tensor_dtype(p.mask)));
    nn_scope_close(m, s);
    return tn_module_failed(m);
}

int32_t tn_prune_remove(tn_module *m, const char *parameter)
{
    char name[NN_NAME_BYTES];
    nn_computed *c = nn_computed_find(m, parameter);
    if (!m) return nn_is_null("tn_prune_remove");
    if (!c || c->holder)
        return nn_fail(m, TN_E_NOT_FOUND, "tn_prune_remove: '%s' is not pruned",
                       parameter ? parameter : "(null)");
    int32_t status = nn_computed_remove(m, c);
    if (!status) nn_remove_slot(m, nn_pruned_name(parameter, "_orig", name));
    if (!status) nn_remove_slot(m, nn_pruned_name(parameter, "_mask", name));
    return status;
}
