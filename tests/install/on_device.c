/* SPDX-License-Identifier: Apache-2.0 */
/* A program on the device of a plugin that `tenon new-plugin` wrote (arguments: the device, and one to copy
 * to): its own kernels, an operator that falls back, printing. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

static int wrong(const char *what, const char *got)
{
    printf("%s: %s\n", what, got ? got : "nothing");
    return 1;
}

static uint64_t fallbacks(tn_context *ctx, const char *name)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < tn_inspect_fallback_count(ctx); i++) {
        tn_fallback_info info = {.size = sizeof(info)};
        if (!tn_inspect_fallback(ctx, i, &info) && !strcmp(info.name, name)) count += info.count;
    }
    return count;
}

static int compute(tn_context *ctx, tn_scope *s, tn_device device, const char *name, tn_device other)
{
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {10, 20, 30};
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(2, 3), a, device);
    tn_tensor *y = tn_from_data(s, TN_FLOAT32, TN_INTS(3), b, device);
    const char *text = tn_format(s, tn_add(s, x, y), NULL);
    if (!strstr(text, "[11., 22., 33.]") || !strstr(text, name)) return wrong("add, printed", text);
    if (tn_item_double(s, tn_sum(s, tn_mul(s, x, y))) != 460) return wrong("mul and sum", "not 460");
    if (fallbacks(ctx, "aten::add.Tensor") || fallbacks(ctx, "aten::mul.Tensor"))
        return wrong("own kernels", "add or mul fell back");
    tn_tensor *gamma = tn_lgamma(s, x); /* the device has no kernel for it */
    if (!gamma || tn_tensor_device(gamma) != device) return wrong("fallback", "not on the device");
    float back[6];
    if (tn_to_host(s, gamma, back, sizeof(back)) || back[0] != 0 || back[3] != logf(6))
        return wrong("lgamma", "wrong value");
    if (other) {
        tn_tensor *away = tn_to_device(s, tn_mul(s, x, y), other, TN_FLOAT32);
        tn_tensor *there = tn_to_device(s, away, TN_CPU, TN_FLOAT32);
        if (!away || tn_tensor_device(away) != other) return wrong("copy", "not on the other device");
        if (tn_to_host(s, there, back, sizeof(back)) || back[0] != 10 || back[5] != 180)
            return wrong("copy", "wrong on the other device");
    }
    if (tn_inspect_fallback_count(ctx) == 0) return wrong("fallbacks", "not counted");
    return tn_scope_failed(s);
}

int main(int argc, char **argv)
{
    tn_context *ctx;
    if (tn_context_create(NULL, &ctx)) return wrong("context", tn_last_error()->message);
    tn_device device = argc > 1 ? tn_device_parse(ctx, argv[1]) : 0;
    tn_device other = argc > 2 ? tn_device_parse(ctx, argv[2]) : 0;
    tn_scope *s = tn_scope_open(ctx);
    int status = device ? compute(ctx, s, device, argv[1], other) : wrong("device", "not there");
    if (tn_scope_failed(s)) status = wrong("error", tn_scope_error(s)->message);
    tn_scope_close(s);
    tn_context_destroy(ctx);
    if (!status) puts("well");
    return status;
}
