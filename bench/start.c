/* SPDX-License-Identifier: Apache-2.0 */
/* Start of a process to its first result: adds two elements and prints the sum. run.py takes the time. */
#include <stdio.h>
#include <tenon/tenon.h>

int main(void)
{
    static const float one[1] = {1.0f};
    tn_context *ctx;
    tn_scope *s;
    double sum;
    if (tn_context_create(NULL, &ctx)) return 1;
    s = tn_scope_open(ctx);
    sum = tn_item_double(s, tn_add(s, tn_from_data(s, TN_FLOAT32, TN_INTS(1), one, TN_CPU),
                                   tn_from_data(s, TN_FLOAT32, TN_INTS(1), one, TN_CPU)));
    printf("%g\n", sum);
    fflush(stdout);
    tn_scope_close(s);
    tn_context_destroy(ctx);
    return sum == 2.0 ? 0 : 1;
}
