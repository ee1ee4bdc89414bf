/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses the library: loads it by path, calls the operator, checks its gradient. */
#include <stdio.h>
#include <tenon/tenon.h>

static uint32_t smooth_max;

static tn_tensor *call_smooth_max(tn_scope *s, tn_tensor *x, tn_tensor *y, double beta)
{
    const tn_value args[] = {tn_value_tensor(x), tn_value_tensor(y), tn_value_float(beta)};
    tn_value out;
    tn_scope_call(s, smooth_max, args, 3, &out, 1);
    return tn_value_as_tensor(out);
}

static int32_t function(void *user, tn_scope *s, tn_tensors inputs, tn_tensor **out)
{
    (void)user;
    out[0] = call_smooth_max(s, inputs.data[0], inputs.data[1], 2.0);
    return tn_scope_failed(s);
}

static int run(tn_context *ctx)
{
    const double a[] = {1.0, -2.0, 0.5}, b[] = {0.0, 3.0, 0.5};
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_from_data(s, TN_FLOAT64, TN_INTS(3), a, TN_CPU);
    tn_tensor *y = tn_from_data(s, TN_FLOAT64, TN_INTS(3), b, TN_CPU);
    int status;
    puts(tn_format(s, call_smooth_max(s, x, y, 2.0), NULL));
    tn_set_requires_grad(x, 1);
    tn_set_requires_grad(y, 1);
    status = tn_gradcheck(s, function, NULL, TN_TENSORS(x, y), NULL);
    puts(status ? tn_scope_error(s)->message : "gradient is right");
    tn_scope_close(s);
    return status != 0;
}

int main(int argc, char **argv)
{
    tn_context *ctx;
    int status = 1;
    if (argc != 2) {
        fprintf(stderr, "usage: use LIBRARY.so\n");
        return 2;
    }
    if (tn_context_create(NULL, &ctx)) {
        fprintf(stderr, "use: %s\n", tn_last_error()->message);
        return 1;
    }
    if (!tn_library_open(ctx, argv[1], NULL)) smooth_max = tn_operator_find(ctx, "mylib::smooth_max");
    if (smooth_max)
        status = run(ctx);
    else
        fprintf(stderr, "use: %s\n", tn_last_error()->message);
    tn_context_destroy(ctx);
    return status;
}
