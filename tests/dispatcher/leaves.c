/* SPDX-License-Identifier: Apache-2.0 */
/* A program that ends with its context, its scope and work of a device, for profile.c. */
#include <tenon/tenon.h>

/* LeakSanitizer asks whether a program wants no search for leaks: what is left here is left on purpose. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

int main(void)
{
    tn_context *ctx = NULL;
    if (tn_context_create(NULL, &ctx)) return 1;
    tn_scope *s = tn_scope_open(ctx);
    tn_exp(s, tn_ones(s, TN_INTS(2)));
    tn_device device = tn_device_parse(ctx, "reference:0");
    tn_log(s, tn_ones(s, TN_INTS(2), .device = device));
    return tn_scope_failed(s) ? 2 : 0;
}
