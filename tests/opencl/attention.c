/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of a device, forward and backward, against the plain formula in float64. No call runs on the CPU. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <tenon/tenon.h>
#include "../gpu/device_suite.h"
#include "../gpu/attention_check.h"

TestSuite(attention, .init = open_without_fallback, .fini = close_device);

static int32_t computes_in(tn_dtype dtype)
{
    tn_tensor *t = tn_ones(s, TN_INTS(2), .dtype = dtype);
    int32_t can = tn_add(s, t, t) != NULL;
    tn_scope_clear(s);
    return can;
}

Test(attention, is_the_formula_in_every_dtype)
{
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (computes_in(dtypes[i])) check((problem){2, 3, 3, 37, 41, 24, 24, .dtype = dtypes[i]});
}

/* Programs for GPUs have registers for 64, 128 or 256 features. */
Test(attention, takes_up_to_256_features)
{
    static const int64_t widths[] = {64, 65, 128, 129, 256};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        check((problem){1, 2, 2, 40, 50, widths[i], widths[i], .causal = i % 2 == 1, .dtype = TN_FLOAT32});
    if (computes_in(TN_FLOAT64))
        check((problem){1, 1, 1, 20, 50, 100, 100, .causal = true, .dtype = TN_FLOAT64});
    if (computes_in(TN_FLOAT64)) check((problem){1, 1, 1, 20, 50, 200, 200, .dtype = TN_FLOAT64});
}

Test(attention, covers_several_blocks)
{
    check((problem){1, 1, 1, 130, 170, 16, 16, .dtype = TN_FLOAT32});
    check((problem){1, 1, 1, 170, 100, 16, 16, .causal = true, .dtype = TN_FLOAT32});
}

/* A row or a head that sees no key is 0, and so are its gradients. */
Test(attention, masks_leave_scores_out)
{
    check((problem){1, 3, 3, 40, 45, 20, 20, .mask = 1, .dtype = TN_FLOAT32});
    check((problem){2, 3, 3, 40, 45, 20, 20, .mask = 2, .dtype = TN_FLOAT32});
}

Test(attention, several_heads_share_keys_and_values)
{
    check((problem){2, 6, 2, 33, 35, 40, 40, .causal = true, .dtype = TN_FLOAT32});
    check((problem){1, 4, 1, 33, 35, 40, 40, .mask = 1, .dtype = TN_FLOAT32});
}

/* The scores of 2048 queries and keys would take 16 MiB, and an operand takes 128 KiB. */
Test(attention, needs_no_memory_for_the_scores)
{
    tn_memory_stats before = {.size = sizeof before}, after = before;
    tn_tensor *x = tn_ones(s, TN_INTS(1, 1, 2048, 16), .dtype = TN_FLOAT32);
    cr_assert_eq(tn_memory_reset_peak(ctx, device), TN_OK);
    cr_assert_eq(tn_memory_get_stats(ctx, device, &before), TN_OK);
    tn__scaled_dot_product_flash_attention_for_cpu_result f =
        tn__scaled_dot_product_flash_attention_for_cpu(s, x, x, x, .is_causal = 1);
    tn__scaled_dot_product_flash_attention_for_cpu_backward_result b =
        tn__scaled_dot_product_flash_attention_for_cpu_backward(s, x, x, x, x, f.output, f.logsumexp, 0, 1);
    cr_assert_not_null(b.grad_query);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    cr_assert_eq(tn_memory_get_stats(ctx, device, &after), TN_OK);
    cr_assert_gt(after.allocated_peak, before.allocated_bytes);
    cr_assert_lt(after.allocated_peak - before.allocated_bytes, 2u << 20, "%llu bytes",
                 (unsigned long long)(after.allocated_peak - before.allocated_bytes));
}
