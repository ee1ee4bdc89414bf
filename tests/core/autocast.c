/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of casts, and when a kept cast is used again. */
#include "core/autocast.h"

#include <criterion/criterion.h>
#include "core/thread.h"
#include "fixture.h"

TestSuite(autocast, .init = open_fakes, .fini = close_fakes);

static tni_autocast *region(tn_device device, uint32_t mode)
{
    const tn_scope_options options = {
        .size = sizeof options, .autocast = mode, .autocast_device = device, .autocast_dtype = TN_BFLOAT16};
    tni_autocast *a = tni_autocast_open(ctx, &options);
    cr_assert_not_null(a);
    return a;
}

static tn_tensor *number(tn_dtype dtype)
{
    tn_tensor *t = tn_scalar_tensor_of(s, tn_value_float(1), dtype, TN_CPU);
    cr_assert_not_null(t);
    return t;
}

Test(autocast, the_innermost_region_of_a_device_decides)
{
    tn_device gpu_device = tn_device_parse(ctx, "gpu:0");
    uint32_t gpu_type = TN_DEVICE_TYPE(gpu_device), cpu_type = TN_DEVICE_TYPE(TN_CPU);
    cr_assert_null(tni_autocast_for(ctx, cpu_type));
    tni_autocast *outer = region(0, TN_SCOPE_AUTOCAST_ON), *inner = region(gpu_device, TN_SCOPE_AUTOCAST_OFF);
    cr_assert_null(tni_autocast_for(ctx, gpu_type), "switched off");
    cr_assert_eq(tni_autocast_for(ctx, cpu_type), outer);
    fake device = {.type = "cpu", .count = 1};
    tn_context *other = fake_context(&device, NULL);
    cr_assert_null(tni_autocast_for(other, cpu_type), "the regions of another context");
    tn_context_destroy(other);
    tni_autocast_close(ctx, outer); /* before the one inside it */
    cr_assert_null(tni_autocast_for(ctx, cpu_type));
    tni_autocast_close(ctx, inner);
    cr_assert_null(tni_tls.autocast);
}

/* The thread that closes a region may be another than the one that opened it, whose list it is not in. */
Test(autocast, a_region_in_no_list_may_end)
{
    tni_autocast *a = region(0, TN_SCOPE_AUTOCAST_ON);
    tni_tls.autocast = NULL;
    tni_autocast_close(ctx, a);
    cr_assert_null(tni_tls.autocast);
}

Test(autocast, a_kept_cast_is_that_of_the_tensor_as_it_was)
{
    tn_tensor *from = number(TN_FLOAT32), *to = number(TN_BFLOAT16), *later = number(TN_BFLOAT16);
    tni_autocast_keep(from, to); /* no region: nothing is kept */
    cr_assert_null(tni_autocast_find(from, TN_BFLOAT16));
    tni_autocast *outer = region(0, TN_SCOPE_AUTOCAST_ON), *inner = region(0, TN_SCOPE_AUTOCAST_ON);
    cr_assert_null(tni_autocast_find(from, TN_BFLOAT16));
    tni_autocast_keep(from, to);
    cr_assert_eq(tni_autocast_find(from, TN_BFLOAT16), to);
    cr_assert_null(tni_autocast_find(to, TN_BFLOAT16));
    cr_assert_null(tni_autocast_find(from, TN_FLOAT16), "of another dtype");
    tni_autocast_close(ctx, inner);
    cr_assert_eq(tni_autocast_find(from, TN_BFLOAT16), to, "kept till the outermost region ends");
    tni_bump_version(from);
    cr_assert_null(tni_autocast_find(from, TN_BFLOAT16), "of other values");
    tni_autocast_keep(from, later);
    cr_assert_eq(tni_autocast_find(from, TN_BFLOAT16), later);
    tni_tls.grad_mode = TN_GRAD_OFF;
    cr_assert_null(tni_autocast_find(from, TN_BFLOAT16), "of another recording");
    tni_tls.grad_mode = TN_GRAD_ON;
    cr_assert_eq(tni_autocast_find(from, TN_BFLOAT16), later);
    tn_tensor *moved = number(TN_FLOAT32);
    tni_tensor_set_storage(from, moved->storage);
    cr_assert_null(tni_autocast_find(from, TN_BFLOAT16), "of another storage");
    for (int i = 0; i < 100; i++) tni_autocast_keep(number(TN_FLOAT32), to);
    tni_autocast_keep(to, from);
    cr_assert_eq(tni_autocast_find(to, TN_FLOAT32), from, "the table has grown");
    tni_autocast_close(ctx, outer);
    cr_assert_null(tni_autocast_find(to, TN_FLOAT32));
}

/* Without memory nothing is kept, and nothing else happens. */
Test(autocast, without_memory)
{
    for (int64_t n = 1;; n++) {
        fake device = {.type = "cpu", .count = 1};
        counting c = {0};
        tn_context *own = counted_context(&c, &device);
        tn_scope *scope = tn_scope_open(own);
        tn_tensor *from = tn_scalar_tensor_of(scope, tn_value_float(1), TN_FLOAT32, TN_CPU);
        tn_tensor *to = tn_scalar_tensor_of(scope, tn_value_float(1), TN_BFLOAT16, TN_CPU);
        const tn_scope_options options = {.size = sizeof options, .autocast = TN_SCOPE_AUTOCAST_ON};
        c.fail_at = c.calls + n;
        tni_autocast *a = tni_autocast_open(own, &options);
        if (a) tni_autocast_keep(from, to);
        int32_t reached = c.calls >= c.fail_at;
        cr_assert_eq(tni_autocast_find(from, TN_BFLOAT16), reached ? NULL : to);
        c.fail_at = 0;
        if (a) {
            tni_autocast_keep(from, to);
            cr_assert_eq(tni_autocast_find(from, TN_BFLOAT16), to, "kept the next time");
            tni_autocast_close(own, a);
        }
        tn_scope_close(scope);
        tn_context_destroy(own);
        cr_assert_eq(c.live, 0);
        if (!reached) break;
        cr_assert_lt(n, 20);
    }
}
