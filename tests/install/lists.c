/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists in the calls of an ordinary program, which is compiled at every level of optimisation: the elements that it wrote
 * must reach the library. gcc 12 dropped them where headers hand their address back in a struct.
 */
#include <stdio.h>
#include <tenon/tenon.h>

static tn_tensor *block(tn_scope *s, tn_tensor *x, tn_tensor *w)
{
    return tn_max_pool2d(s, tn_relu(s, tn_conv2d(s, x, w, .padding = TN_INTS(1, 1))), TN_INTS(2, 2));
}

/* Hands a list on, as the call does. */
static tn_tensor *sum(tn_scope *s, tn_tensor *x, tn_ints dims)
{
    return tn_sum_dim_out(s, x, dims, tn_empty(s, TN_INTS(0)));
}

int main(void)
{
    tn_context *ctx;
    if (tn_context_create(NULL, &ctx)) return 1;
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_ones(s, TN_INTS(1, 1, 8, 8)), *w = tn_ones(s, TN_INTS(1, 1, 3, 3));
    tn_tensor *a = tn_max_pool2d(s, x, TN_INTS(2, 2), .stride = TN_INTS(1, 1));
    tn_tensor *b = tn_max_pool2d(s, x, TN_INTS(2, 2), .stride = TN_INTS(2, 2));
    tn_tensor *c = tn_max_pool2d(s, x, TN_INTS(3, 3), .stride = TN_INTS(1, 1));
    tn_tensor *d = tn_max_pool2d(s, tn_relu(s, tn_conv2d(s, x, w, .padding = TN_INTS(1, 1))), TN_INTS(2, 2));
    d = tn_max_pool2d(s, tn_relu(s, tn_conv2d(s, d, w, .padding = TN_INTS(1, 1))), TN_INTS(2, 2));
    tn_tensor *e = block(s, block(s, x, w), w);
    tn_tensor *row = tn_zeros(s, TN_INTS(1, 4)), *f = tn_expand(s, row, TN_INTS(3, 4)),
              *g = tn_expand(s, row, TN_INTS(5, 4)), *h = tn_repeat(s, row, TN_INTS(5, 4));
    tn_tensor *box = tn_zeros(s, TN_INTS(3, 4, 5)), *i = sum(s, box, TN_INTS(0, 1)),
              *j = sum(s, box, TN_INTS(1, 2)),
              *k = tn_sum_dim_out(s, box, TN_INTS(2), tn_empty(s, TN_INTS(0)));
    tn_tensor *all[] = {a, b, c, d, e, f, g, h, i, j, k};
    for (int n = 0; n < 11 && !tn_scope_failed(s); n++) printf("%lld ", (long long)tn_tensor_numel(all[n]));
    puts(tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    tn_scope_close(s);
    tn_context_destroy(ctx);
    return 0;
}
