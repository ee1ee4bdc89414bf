/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <criterion/criterion.h>

tn_context *ctx;
fake cpu, gpu;
tn_scope *s;

void open_fakes(void)
{
    gpu = (fake){.type = "gpu", .count = 2, .device_class = TN_DEVICE_DISCRETE};
    ctx = fake_context(&cpu, &gpu);
    s = tn_scope_open(ctx);
}

void close_fakes(void)
{
    tn_scope_close(s);
    tn_context_destroy(ctx);
    cr_assert_eq(cpu.closed, cpu.opened);
    cr_assert_eq(cpu.breaches + gpu.breaches, 0);
}
