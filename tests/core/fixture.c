/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <criterion/criterion.h>
#include "at_end.h"

tn_context *ctx;
fake cpu, gpu;
tn_scope *s;

void open_fakes(void)
{
    gpu = (fake){.type = "gpu", .count = 2, .device_class = TN_DEVICE_DISCRETE};
    ctx = fake_context(&cpu, &gpu);
    s = tn_scope_open(ctx);
}

void open_full_fakes(void)
{
    gpu = (fake){.type = "gpu",
                 .count = 2,
                 .device_class = TN_DEVICE_DISCRETE,
                 .has_graphs = 1,
                 .has_collectives = 1,
                 .are_peers = 1};
    ctx = fake_context(&cpu, &gpu);
    s = tn_scope_open(ctx);
}

void close_fakes(void)
{
    tn_scope_close(s);
    tn_context_destroy(ctx);
    MUST_HOLD(cpu.closed == cpu.opened);
    MUST_HOLD(cpu.breaches + gpu.breaches == 0);
}

void expect_last(int32_t status, const char *text)
{
    cr_assert_not_null(tn_last_error(), "no error; expected: %s", text);
    cr_expect_eq(tn_last_error()->code, status, "%s", tn_last_error()->message);
    cr_expect_str_eq(tn_last_error()->message, text);
    tn_clear_error();
}

void expect_scope(int32_t status, const char *text)
{
    cr_assert(tn_scope_failed(s), "no error; expected: %s", text);
    cr_expect_eq(tn_scope_error(s)->code, status, "%s", tn_scope_error(s)->message);
    cr_expect_str_eq(tn_scope_error(s)->message, text);
    tn_scope_clear(s);
    tn_clear_error();
}
