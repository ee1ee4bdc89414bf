/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prim::random. Each element has its own counter and words, so results do not depend on the number of
 * threads. Floats are made by kernels/random.c, integers of a range here.
 */
#include "kernel_lists.h"
#include "walk/staging.h"
#include "kernels/draw.h"
#include "support/kernel_table.h"

/* Least elements for a thread. */
#define DRAW_GRAIN ((int64_t)4 * 1024)

typedef struct draw_call {
    cpu_plan plan;
    cpu_draw draw;
    cpu_draw_fn fn;
    uint64_t low, range; /* of integers */
    int32_t wide;        /* 64-bit words */
} draw_call;

CPU_KERNEL_TABLE(static cpu_kernel_table draw_table, CPU_RANDOM_LISTS, cpu_draw_fn);

static void draw_run(void *user, void *const *pointers, int64_t n, int64_t position)
{
    const draw_call *c = user;
    c->fn(pointers[0], n, position, &c->draw);
}

/* low + word % range, or all bits where the range is 0. */
static void bits_run(void *user, void *const *pointers, int64_t n, int64_t position)
{
    const draw_call *c = user;
    int64_t *o = pointers[0], per_counter = c->wide ? 2 : 4;
    uint32_t words[4];
    for (int64_t i = 0; i < n; i++) {
        int64_t counter = (position + i) / per_counter, k = (position + i) % per_counter;
        if (k == 0 || i == 0) cpu_philox(c->draw.seed, c->draw.offset + (uint64_t)counter, words);
        uint64_t w = c->wide ? words[2 * k] | (uint64_t)words[2 * k + 1] << 32 : words[k];
        o[i] = (int64_t)(c->low + (c->range ? w % c->range : w));
    }
}

static void draw_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const draw_call *c = user;
    cpu_plan_walk(&c->plan, begin, end, c->draw.distribution == TN_RANDOM_BITS ? bits_run : draw_run, user);
}

/* prim::random(Tensor(a!) self, int distribution, Scalar a, Scalar b, int seed, int offset) */
static int32_t draw_numbers(void *self, const tn_call *call)
{
    const tn_tensor_desc *out = tensor_out(call, 0);
    const tn_value *args = call->args;
    cpu_axes axes;
    draw_call c = {.draw = {.seed = (uint64_t)tn_value_as_int(args[4]),
                            .offset = (uint64_t)tn_value_as_int(args[5]),
                            .distribution = tn_value_as_int(args[1]),
                            .slot = cpu_slot(out->dtype),
                            .a = tn_value_as_float(args[2]),
                            .b = tn_value_as_float(args[3])},
                   .low = (uint64_t)tn_value_as_int(args[2]),
                   .range = (uint64_t)tn_value_as_int(args[3])};
    if (c.draw.distribution < TN_RANDOM_UNIFORM || c.draw.distribution > TN_RANDOM_LOG_NORMAL)
        return cpu_error(call, TN_E_ARGUMENT, "random: distribution %lld is unknown",
                         (long long)c.draw.distribution);
    bool bits = c.draw.distribution == TN_RANDOM_BITS, long_dtype = TN_DTYPE_BITS(out->dtype) == 64;
    c.wide = long_dtype || (bits && (c.range == 0 || c.range > UINT64_C(1) << 32));
    int32_t hub = bits ? CPU_I64 : long_dtype ? CPU_F64 : CPU_F32;
    if (!bits) c.fn = *(const cpu_draw_fn *)cpu_kernels_at(draw_table, hub);
    cpu_axes_make(&axes, &out, 1, 0);
    if (axes.numel == 0) return TN_OK;
    cpu_plan_axes(&c.plan, &axes, &out, 1, &hub);
    cpu_parallel_for(call, axes.numel, DRAW_GRAIN, draw_range, &c);
    return TN_OK;
}

const tn_kernel_row cpu_random_rows[] = {CPU_ROW(TN_SCHEMA_RANDOM, cpu_every_real_dtypes, draw_numbers)};
const uint32_t cpu_random_row_count = CPU_ROW_COUNT(cpu_random_rows);
