/* SPDX-License-Identifier: Apache-2.0 */
/* Pruning as in torch.nn.utils.prune: a parameter becomes NAME_orig times NAME_mask. */
#include "computed.h"
#include "number_text.h"
#include "tensors.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* What a call prunes: a parameter, which has an original and a mask from then on. */
typedef struct pruned {
    const char *call;
    tn_module *module;
    const char *name;
    tn_tensor *original, *mask; /* mask NULL: nothing is pruned yet, and `original` is the parameter */
} pruned;

/* An error that leaves the module as it was: its argument was looked at before anything was changed. */
__attribute__((format(printf, 3, 4))) static int32_t refuse(const pruned *p, int32_t status,
                                                            const char *format, ...)
{
    char text[512];
    const int n = snprintf(text, sizeof text, "%s: ", p->call);
    va_list args;
    va_start(args, format);
    plain_vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    return tn_scope_fail(NULL, status, text);
}

/* Finds the parameter. */
static int32_t find(tn_module *m, const char *call, const char *name, pruned *out)
{
    char text[NN_NAME_BYTES];
    int32_t status;
    *out = (pruned){.call = call, .module = m, .name = name};
    if (!m) return nn_is_null(call);
    if (m->tree->status) return nn_failed_before(NULL, m);
    const nn_computed *c = nn_computed_find(m, name);
    if (!c || c->holder) {
        const char *why = nn_why_not_computed(m, name, &status);
        if (why) return refuse(out, status, "'%s': %s", name ? name : "(null)", why);
        out->original = nn_slot_find(m, name)->tensor;
        return TN_OK;
    }
    out->original = tn_module_tensor(m, nn_pruned_name(name, "_orig", text));
    out->mask = tn_module_tensor(m, nn_pruned_name(name, "_mask", text));
    return TN_OK;
}

/* Makes the original and the mask, with nothing masked at first, if they are not there. */
static int32_t begin(pruned *p)
{
    char text[NN_NAME_BYTES];
    tn_module *m = p->module;
    if (p->mask) return TN_OK;
    tn_scope *s = nn_scope(m);
    if (!s) return nn_no_scope(m);
    tn_tensor *original = tn_module_add_parameter(m, nn_pruned_name(p->name, "_orig", text), p->original);
    if (original && !tn_requires_grad(p->original)) tn_set_requires_grad(original, 0);
    tn_module_add_buffer(m, nn_pruned_name(p->name, "_mask", text),
                         tn_ones_like(s, tn_detach(s, p->original)), 0);
    if (nn_scope_close(m, s) || nn_computed_add(m, p->name, NULL, NULL)) return tn_module_failed(m);
    return find(m, p->call, p->name, p);
}

/* How many of `left` to prune, rounded to even as Python does; -1 for an amount that is refused. */
static int64_t number_of(const pruned *p, double amount, int64_t left)
{
    const double n = amount < 1 ? nearbyint(amount * (double)left) : amount;
    if (amount >= 0 && n == floor(n) && n <= (double)left) return (int64_t)n;
    refuse(p, TN_E_ARGUMENT,
           "argument 'amount': got %g, expected a share from 0 to 1 or a number of at most %lld", amount,
           (long long)left);
    return -1;
}

/* Where a mask is 0, in all dimensions but `dim` together; with dim -1 for each element. */
static tn_tensor *gone(tn_scope *s, const pruned *p, int64_t dim)
{
    tn_tensor *mask = p->mask ? p->mask : tn_ones_like(s, tn_detach(s, p->original));
    int64_t others[TN_MAX_RANK], count = 0;
    if (dim < 0) return tn_eq_scalar(s, mask, 0);
    for (int64_t d = 0; d < tn_tensor_rank(mask); d++)
        if (d != dim) others[count++] = d;
    return tn_eq_scalar(s, tn_sum_dim(s, mask, (tn_ints){others, count}), 0);
}

#define RANDOM NAN /* in the place of the order of a norm */

/* Importance of each element, or of each slice along `dim` by its norm of order n; RANDOM: random ones. */
static tn_tensor *scores_of(tn_scope *s, const pruned *p, double n, int64_t dim)
{
    tn_tensor *t = tn_detach(s, p->original);
    int64_t others[TN_MAX_RANK], count = 0;
    if (isnan(n)) return tn_rand_like(s, dim < 0 ? t : tn_new_empty(s, t, TN_INTS(tn_tensor_size(t, dim))));
    if (dim < 0) return tn_abs(s, t);
    for (int64_t d = 0; d < tn_tensor_rank(t); d++)
        if (d != dim) others[count++] = d;
    if (p->mask) t = tn_mul(s, t, p->mask);
    return tn_linalg_vector_norm(s, t, .ord = TN_SCALAR(n), .dim = {others, count});
}

/* Masks the elements, or slices along `dim`, of the smallest scores among those that are left. */
static int32_t prune_smallest(pruned *p, double amount, double n, int64_t dim)
{
    tn_module *m = p->module;
    tn_scope *s = nn_scope(m);
    if (!s) return nn_no_scope(m);
    tn_tensor *are_gone = gone(s, p, dim), *scores = scores_of(s, p, n, dim);
    scores = tn_reshape(s, tn_masked_fill_scalar(s, scores, are_gone, INFINITY), TN_INTS(-1));
    const int64_t left = tn_tensor_numel(are_gone) - tn_item_int(s, tn_sum(s, are_gone));
    const int64_t k = tn_scope_failed(s) ? 0 : number_of(p, amount, left);
    if (k >= 0 && !tn_scope_failed(s)) begin(p);
    if (k > 0 && p->mask) {
        const tn_topk_result least = tn_topk(s, scores, k, .largest = 0);
        tn_index_fill_(s, dim < 0 ? tn_view(s, p->mask, TN_INTS(-1)) : p->mask, dim < 0 ? 0 : dim,
                       least.indices, 0);
    }
    nn_scope_close(m, s);
    return k < 0 ? TN_E_ARGUMENT : tn_module_failed(m);
}

int32_t tn_prune_l1_unstructured(tn_module *m, const char *parameter, double amount)
{
    pruned p;
    const int32_t status = find(m, "tn_prune_l1_unstructured", parameter, &p);
    return status ? status : prune_smallest(&p, amount, 1, -1);
}

int32_t tn_prune_random_unstructured(tn_module *m, const char *parameter, double amount)
{
    pruned p;
    const int32_t status = find(m, "tn_prune_random_unstructured", parameter, &p);
    return status ? status : prune_smallest(&p, amount, RANDOM, -1);
}

static int32_t prune_slices(tn_module *m, const char *call, const char *parameter, double amount, double n,
                            int64_t dim)
{
    pruned p;
    const int32_t status = find(m, call, parameter, &p);
    if (status) return status;
    const int64_t rank = tn_tensor_rank(p.original);
    if (rank < 2 || dim < 0 || dim >= rank)
        return refuse(&p, TN_E_ARGUMENT,
                      "argument 'dim': got %lld, expected one of at least 2 dimensions (here %lld)",
                      (long long)dim, (long long)rank);
    return prune_smallest(&p, amount, n, dim);
}

int32_t tn_prune_ln_structured(tn_module *m, const char *parameter, double amount, double n, int64_t dim)
{
    return prune_slices(m, "tn_prune_ln_structured", parameter, amount, n, dim);
}

int32_t tn_prune_random_structured(tn_module *m, const char *parameter, double amount, int64_t dim)
{
    return prune_slices(m, "tn_prune_random_structured", parameter, amount, RANDOM, dim);
}

int32_t tn_prune_identity(tn_module *m, const char *parameter)
{
    pruned p;
    const int32_t status = find(m, "tn_prune_identity", parameter, &p);
    return status ? status : begin(&p);
}

int32_t tn_prune_custom(tn_module *m, const char *parameter, tn_tensor *mask)
{
    pruned p;
    int32_t status = find(m, "tn_prune_custom", parameter, &p);
    if (status) return status;
    if (!mask) return refuse(&p, TN_E_ARGUMENT, "argument 'mask': it is NULL");
    if (!same_sizes(p.original, mask))
        return refuse(&p, TN_E_SHAPE, "argument 'mask': its sizes are not those of '%s'", parameter);
    status = begin(&p);
    if (status) return status;
    tn_scope *s = nn_scope(m);
    if (!s) return nn_no_scope(m);
    tn_mul_(s, p.mask, tn_to(s, mask, tn_tensor_dtype(p.mask)));
    nn_scope_close(m, s);
    return tn_module_failed(m);
}

/* ---- Parameters of several modules, as if they were one ------------------------------------------------ */

/* The pruned elements of each, and their scores, in one row. Returns how many are left. */
static int64_t join(tn_scope *s, const pruned *list, int64_t count, tn_tensor **out_scores)
{
    tn_tensor **are_gone = tn_scope_memory(s, (uint64_t)count * sizeof *are_gone),
              **scores = tn_scope_memory(s, (uint64_t)count * sizeof *scores);
    for (int64_t i = 0; i < count && scores && are_gone; i++) {
        are_gone[i] = tn_reshape(s, gone(s, &list[i], -1), TN_INTS(-1));
        scores[i] = tn_reshape(s, scores_of(s, &list[i], 1, -1), TN_INTS(-1));
    }
    if (tn_scope_failed(s)) return 0;
    tn_tensor *all = tn_cat(s, (tn_tensors){are_gone, count});
    *out_scores = tn_masked_fill_scalar(s, tn_cat(s, (tn_tensors){scores, count}), all, INFINITY);
    return tn_tensor_numel(all) - tn_item_int(s, tn_sum(s, all));
}

static int32_t prune_together(tn_scope *s, pruned *list, int64_t count, double amount)
{
    tn_tensor *scores = NULL;
    const int64_t left = join(s, list, count, &scores);
    const int64_t k = tn_scope_failed(s) ? 0 : number_of(&list[0], amount, left);
    if (k < 0) return TN_E_ARGUMENT;
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    tn_tensor *keep = tn_ones(s, TN_INTS(tn_tensor_numel(scores)), .device = tn_tensor_device(scores));
    if (k > 0) tn_index_fill_(s, keep, 0, tn_topk(s, scores, k, .largest = 0).indices, 0);
    for (int64_t i = 0, at = 0; i < count && !tn_scope_failed(s); i++) {
        const int64_t n = tn_tensor_numel(list[i].original);
        if (begin(&list[i])) return tn_module_failed(list[i].module);
        tn_mul_(s, tn_view(s, list[i].mask, TN_INTS(-1)),
                tn_to(s, tn_narrow(s, keep, 0, at, n), tn_tensor_dtype(list[i].mask)));
        at += n;
    }
    return tn_scope_failed(s);
}

int32_t tn_prune_global_l1_unstructured(const tn_prune_target *targets, int64_t count, double amount)
{
    static const char call[] = "tn_prune_global_l1_unstructured";
    pruned *list = count > 0 && targets ? calloc((size_t)count, sizeof *list) : NULL;
    int32_t status = list ? TN_OK : TN_E_ARGUMENT;
    if (!list)
        tn_scope_fail(NULL, status, "tn_prune_global_l1_unstructured: argument 'targets': it is empty");
    for (int64_t i = 0; i < count && !status; i++)
        status = find(targets[i].module, call, targets[i].parameter, &list[i]);
    if (!status) {
        tn_scope *s = nn_scope(list[0].module);
        status = s ? prune_together(s, list, count, amount) : tn_last_error()->code;
        const int32_t failed = tn_scope_close(s);
        if (!status) status = failed;
    }
    free(list);
    return status;
}

/* ---- The end ------------------------------------------------------------------------------------------- */

int32_t tn_is_pruned(const tn_module *m)
{
    for (uint32_t i = 0; m && i < m->computed_count; i++)
        if (!m->computed[i].holder) return 1;
    for (uint32_t i = 0; m && i < m->child_count; i++)
        if (tn_is_pruned(m->children[i])) return 1;
    return 0;
}

int32_t tn_prune_remove(tn_module *m, const char *parameter)
{
    char name[NN_NAME_BYTES];
    const pruned p = {.call = "tn_prune_remove", .module = m, .name = parameter};
    nn_computed *c = nn_computed_find(m, parameter);
    if (!m) return nn_is_null(p.call);
    if (!c || c->holder)
        return refuse(&p, TN_E_NOT_FOUND, "'%s' is not pruned", parameter ? parameter : "(null)");
    int32_t status = nn_computed_remove(m, c, 1);
    if (!status) nn_remove_slot(m, nn_pruned_name(parameter, "_orig", name));
    if (!status) nn_remove_slot(m, nn_pruned_name(parameter, "_mask", name));
    return status;
}
