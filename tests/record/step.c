/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small training step on the device that is named: a perceptron with dropout, its loss, its gradients, one
 * step down, and a few things beside (sorting, a data-dependent size, strided views). What run.py records.
 */
#include <stdio.h>
#include <tenon/tenon.h>

static tn_tensor *pattern(tn_scope *s, int64_t rows, int64_t columns, tn_device device)
{
    tn_tensor *t = tn_arange(s, rows * columns, .dtype = TN_FLOAT32, .device = device);
    t = tn_sub_scalar(s, tn_div_scalar(s, t, (double)(rows * columns)), 0.5);
    return tn_reshape(s, t, TN_INTS(rows, columns));
}

static double step(tn_scope *s, tn_device device)
{
    tn_tensor *x = pattern(s, 6, 8, device), *w1 = pattern(s, 5, 8, device), *w2 = pattern(s, 3, 5, device);
    const int64_t classes[] = {0, 1, 2, 2, 1, 0};
    tn_tensor *y = tn_from_data(s, TN_INT64, TN_INTS(6), classes, device);
    if (!y || tn_set_requires_grad(w1, 1) || tn_set_requires_grad(w2, 1)) return 0;
    tn_tensor *hidden = tn_dropout(s, tn_tanh(s, tn_linear(s, x, w1)), 0.25, 1);
    tn_tensor *loss = tn_cross_entropy_loss(s, tn_linear(s, hidden, w2), y);
    if (tn_backward(s, loss)) return 0;
    tn_tensor *down = tn_sub(s, w1, tn_mul_scalar(s, tn_grad_of(s, w1), 0.1));
    tn_tensor *positive = tn_nonzero(s, tn_gt_scalar(s, tn_t(s, down), 0.1));
    tn_tensor *most = tn_amax(s, tn_softmax(s, tn_t(s, down), 0), .dim = TN_INTS(1));
    tn_tensor *sum = tn_add(s, tn_sum(s, down), tn_sum(s, most));
    return tn_item_double(s, sum) + (double)tn_tensor_size(positive, 0) + tn_item_double(s, loss);
}

int main(int count, char **words)
{
    tn_context *ctx = NULL;
    if (count != 2 || tn_context_create(NULL, &ctx)) return 2;
    tn_device device = tn_device_choose(ctx, words[1], NULL);
    tn_scope *s = tn_scope_open(ctx);
    double result = device ? step(s, device) : 0;
    int failed = !device || tn_scope_failed(s);
    if (failed)
        fprintf(stderr, "%s\n", tn_scope_error(s) ? tn_scope_error(s)->message : tn_last_error()->message);
    printf("%.9g\n", result);
    tn_scope_close(s);
    tn_context_destroy(ctx);
    return failed;
}
