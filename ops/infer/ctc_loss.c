/* SPDX-License-Identifier: Apache-2.0 */
/* ctc_loss and its gradient. */
#include "ops/infer/infer.h"

/* Checks what both have, from `first` on: log_probs, targets; lengths at `at` and behind it. Gives the longest target. */
static int32_t check_ctc(tni_frame *f, uint32_t first, uint32_t at, int64_t blank, int64_t *most)
{
    const tn_tensor *p = tni_arg_tensor(f, first), *targets = tni_arg_tensor(f, first + 1);
    tn_ints lengths = tni_arg_ints(f, at), labels = tni_arg_ints(f, at + 1);
    int64_t sum = 0;
    f->keep_dtype = TNI_KEEP(first + 1);
    if (rank_of(p) != 3)
        return tni_fail(f, TN_E_SHAPE, "argument 'log_probs': must have 3 dimensions (got %lld)",
                        (long long)rank_of(p));
    if (p->numel == 0) return tni_fail(f, TN_E_SHAPE, "log_probs tensor must not be empty");
    if (!is_integer(dtype_of(targets)))
        return tni_fail(f, TN_E_DTYPE, "argument 'targets': must be integers (got %s)",
                        tni_dtype_error_name(dtype_of(targets)));
    if (blank < 0 || blank >= sizes_of(p)[2])
        return tni_fail(f, TN_E_ARGUMENT, "blank must be in label range");
    if (lengths.count != sizes_of(p)[1])
        return tni_fail(f, TN_E_ARGUMENT, "input_lengths must be of size batch_size");
    if (labels.count != sizes_of(p)[1])
        return tni_fail(f, TN_E_ARGUMENT, "target_lengths must be of size batch_size");
    *most = 0;
    for (int64_t b = 0; b < lengths.count; b++) {
        if (lengths.data[b] < 0 || lengths.data[b] > sizes_of(p)[0])
            return tni_fail(f, TN_E_ARGUMENT,
                            "Expected input_lengths to have value at most %lld, but got value %lld",
                            (long long)sizes_of(p)[0], (long long)lengths.data[b]);
        if (labels.data[b] < 0)
            return tni_fail(f, TN_E_ARGUMENT,
                            "Expected target_lengths to have value at least 0, but got value %lld",
                            (long long)labels.data[b]);
        if (__builtin_add_overflow(sum, labels.data[b], &sum)) sum = INT64_MAX;
        *most = labels.data[b] > *most ? labels.data[b] : *most;
    }
    if (rank_of(targets) == 1 ? targets->numel != sum
                              : rank_of(targets) != 2 || sizes_of(targets)[0] != sizes_of(p)[1] ||
                                    sizes_of(targets)[1] < *most) {
        tni_text text;
        return tni_fail(
            f, TN_E_SHAPE,
            "argument 'targets': must have %lld elements, or the size [%lld, %lld] or more (got %s)",
            (long long)sum, (long long)sizes_of(p)[1], (long long)*most, tni_sizes_text(targets, &text));
    }
    return TN_OK;
}

/* _ctc_loss (log_probs, targets, input_lengths, target_lengths, blank, zero_infinity) -> losses, log_alpha. */
int32_t infer_ctc_loss(tni_frame *f)
{
    const tn_tensor *p = tni_arg_tensor(f, 0);
    int64_t most;
    TNI_TRY(check_ctc(f, 0, 2, tni_arg_int(f, 4), &most));
    TNI_TRY(tni_out(f, 0, dtype_of(p), 1, &sizes_of(p)[1]));
    return tni_out(f, 1, dtype_of(p), 3, (const int64_t[]){sizes_of(p)[1], sizes_of(p)[0], 2 * most + 1});
}

/* _ctc_loss_backward (grad, log_probs, targets, input_lengths, target_lengths, losses, log_alpha, blank, ...). */
int32_t infer_ctc_loss_backward(tni_frame *f)
{
    const tn_tensor *p = tni_arg_tensor(f, 1);
    int64_t most;
    TNI_TRY(check_ctc(f, 1, 3, tni_arg_int(f, 7), &most));
    const int64_t alpha[] = {sizes_of(p)[1], sizes_of(p)[0], 2 * most + 1};
    if (rank_of(tni_arg_tensor(f, 0))) TNI_TRY(tni_check_sizes(f, 0, 1, alpha)); /* or one for all */
    TNI_TRY(tni_check_sizes(f, 5, 1, alpha));
    TNI_TRY(tni_check_sizes(f, 6, 3, alpha));
    for (uint32_t i = 0; i < 7; i += i ? 1 : 5) TNI_TRY(tni_check_dtype_like(f, i, p));
    return tni_out(f, 0, dtype_of(p), p->desc.rank, sizes_of(p));
}
