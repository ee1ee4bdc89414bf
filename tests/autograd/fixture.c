/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../core/at_end.h"
#include "../torture/counting.h"

static counting memory;

tn_context *open_context(void)
{
    tn_context *ctx = NULL;
    tn_context_options options = {.size = sizeof options,
                                  .allocator = {&memory, take, give_back},
                                  .plugin_path = getenv("TENON_TEST_CPU")};
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    return ctx;
}

void close_context(tn_context *ctx)
{
    tn_context_destroy(ctx);
    if (atomic_load(&memory.live)) fprintf(stderr, "%lld blocks are left\n", atomic_load(&memory.live));
    MUST_HOLD(atomic_load(&memory.live) == 0);
}

bool fail_allocation(int64_t n)
{
    const long long count = atomic_load(&memory.count);
    const bool has_failed = memory.fail_at && count >= memory.fail_at;
    memory.fail_at = n ? count + n : 0;
    return has_failed;
}

uint32_t define(tn_context *ctx, const tn_operator_def *def)
{
    uint32_t op = 0;
    cr_assert_eq(tn_operator_define(ctx, def, &op), TN_OK, "%s: %s", def->schema,
                 tn_last_error() ? tn_last_error()->message : "");
    return op;
}

tn_tensor *make(tn_scope *s, tn_ints sizes, const double *values, int32_t wants)
{
    tn_tensor *t = tn_from_data(s, TN_FLOAT64, sizes, values, 0);
    expect_sound(s);
    if (wants) cr_assert_eq(tn_set_requires_grad(t, 1), TN_OK);
    return t;
}

void expect_values(tn_scope *s, tn_tensor *t, int64_t count, const double *want, double tolerance)
{
    expect_sound(s);
    cr_assert_not_null(t);
    cr_assert_eq(tn_tensor_numel(t), count, "%lld elements", (long long)tn_tensor_numel(t));
    tn_tensor *wide = tn__to_copy(s, t, .dtype = TN_FLOAT64);
    double *have = malloc((size_t)count * sizeof *have);
    cr_assert_eq(tn_to_host(s, wide, have, (uint64_t)count * sizeof *have), TN_OK);
    for (int64_t i = 0; i < count; i++) {
        int same = have[i] == want[i] || fabs(have[i] - want[i]) <= tolerance * (1 + fabs(want[i])) ||
                   (isnan(have[i]) && isnan(want[i]));
        cr_assert(same, "element %lld is %.17g, not %.17g", (long long)i, have[i], want[i]);
    }
    free(have);
}

bool is_sound(tn_scope *s)
{
    if (tn_scope_failed(s)) fprintf(stderr, "%s\n", tn_scope_error(s) ? tn_scope_error(s)->message : "?");
    return !tn_scope_failed(s);
}

void expect_sound(tn_scope *s)
{
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "?");
}

void expect_error(tn_scope *s, const char *part)
{
    cr_assert_neq(tn_scope_failed(s), TN_OK, "no error; expected: %s", part);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, part), "%s", tn_scope_error(s)->message);
    tn_scope_clear(s);
}

void expect_last_error(const char *part)
{
    cr_assert_not_null(tn_last_error());
    cr_assert_not_null(strstr(tn_last_error()->message, part), "%s", tn_last_error()->message);
    tn_clear_error();
}

int fail_each_allocation(tn_scope *s, void (*once)(tn_scope *own), void (*behind)(int64_t n))
{
    int failed = 0;
    for (int64_t n = 1, done = 0; !done; n++) {
        tn_scope *own = tn_scope_open_child(s, NULL);
        fail_allocation(n);
        once(own);
        done = !fail_allocation(0);
        const int32_t status = tn_scope_failed(own);
        if (status) cr_expect_eq(status, TN_E_OUT_OF_MEMORY, "allocation %lld: %d", (long long)n, status);
        failed += status != TN_OK;
        tn_scope_clear(own);
        tn_scope_close(own);
        if (behind) behind(n);
    }
    return failed;
}
