/* SPDX-License-Identifier: Apache-2.0 */
/* prim::fill and prim::iota. */
#include "copy/copy.h"
#include "walk/staging.h"

#include <string.h>

/* Elements below which a further thread does not pay. */
#define FILL_GRAIN ((int64_t)64 * 1024)
#define IOTA_GRAIN ((int64_t)32 * 1024)

/* Converts a scalar to one element of the dtype `slot`. */
static void element_of(tn_value v, int32_t slot, void *out)
{
    if (v.tag == TN_TAG_COMPLEX) {
        cpu_convert(out, slot, v.as.floats, CPU_C128, 1);
    } else if (v.tag == TN_TAG_FLOAT) {
        cpu_convert(out, slot, &v.as.f, CPU_F64, 1);
    } else {
        cpu_convert(out, slot, &v.as.i, CPU_I64, 1);
    }
}

/* ---- Fill -------------------------------------------------------------------------------------------- */

typedef struct fill_call {
    cpu_plan plan;
    cpu_buffer pattern; /* the element, repeated for a run */
    int64_t bytes;
    bool clears; /* adjacent elements become 0 bytes, without the pattern */
} fill_call;

static void fill_run(void *user, void *const *pointers, int64_t n, int64_t position)
{
    const fill_call *c = user;
    memcpy(pointers[0], c->pattern.bytes, (size_t)(n * c->bytes));
}

static void fill_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const fill_call *c = user;
    if (c->clears)
        memset(c->plan.operands[0].base + begin * c->bytes, 0, (size_t)((end - begin) * c->bytes));
    else
        cpu_plan_walk(&c->plan, begin, end, fill_run, user);
}

static bool clears(const fill_call *c)
{
    const cpu_plan_operand *o = &c->plan.operands[0];
    for (int64_t i = 0; i < c->bytes; i++)
        if (c->pattern.bytes[i] != 0) return false;
    return o->linear && o->stride == c->bytes;
}

int32_t cpu_fill(const tn_call *call, const tn_tensor_desc *out, tn_value value)
{
    int32_t slot = cpu_slot(out->dtype);
    cpu_axes axes;
    fill_call c;
    if (slot < 0) return cpu_error(call, TN_E_UNSUPPORTED, "fill: the dtype is not supported");
    cpu_axes_make(&axes, &out, 1, 1);
    if (axes.numel == 0) return TN_OK;
    cpu_plan_axes(&c.plan, &axes, &out, 1, &slot);
    c.bytes = cpu_slot_bytes[slot];
    element_of(value, slot, c.pattern.bytes);
    c.clears = clears(&c);
    if (!c.clears) {
        int64_t repeated = min_i64(CPU_CHUNK, axes.numel) - 1;
        cpu_move(c.pattern.bytes + c.bytes, c.bytes, c.pattern.bytes, 0, repeated, c.bytes);
    }
    cpu_parallel_for(call, axes.numel, FILL_GRAIN, fill_range, &c);
    return TN_OK;
}

static int32_t fill(void *self, const tn_call *call)
{
    return cpu_fill(call, tensor_out(call, 0), call->args[1]);
}

/* ---- Iota -------------------------------------------------------------------------------------------- */

/* start and step in the hub dtype that is counted in. */
typedef struct iota_call {
    cpu_plan plan;
    int32_t hub;
    int64_t start_int, step_int;
    double start[2], step[2];
} iota_call;

static void iota_run(void *user, void *const *pointers, int64_t n, int64_t position)
{
    const iota_call *c = user;
    if (c->hub == CPU_I64) {
        int64_t *o = pointers[0];
        for (int64_t i = 0; i < n; i++) o[i] = c->start_int + (position + i) * c->step_int;
        return;
    }
    double *o = pointers[0];
    int64_t parts = c->hub == CPU_C128 ? 2 : 1;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < parts; k++)
            o[i * parts + k] = c->start[k] + (double)(position + i) * c->step[k];
}

static void iota_range(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const iota_call *c = user;
    cpu_plan_walk(&c->plan, begin, end, iota_run, user);
}

static int32_t iota(void *self, const tn_call *call)
{
    const tn_tensor_desc *out = tensor_out(call, 0);
    tn_value start = call->args[1], step = call->args[2];
    iota_call c = {.hub = CPU_I64, .start_int = tn_value_as_int(start), .step_int = tn_value_as_int(step)};
    cpu_axes axes;
    if (start.tag == TN_TAG_FLOAT || step.tag == TN_TAG_FLOAT) c.hub = CPU_F64;
    if (start.tag == TN_TAG_COMPLEX || step.tag == TN_TAG_COMPLEX) c.hub = CPU_C128;
    c.start[0] = tn_value_as_float(start);
    c.step[0] = tn_value_as_float(step);
    c.start[1] = start.tag == TN_TAG_COMPLEX ? start.as.floats[1] : 0;
    c.step[1] = step.tag == TN_TAG_COMPLEX ? step.as.floats[1] : 0;
    cpu_axes_make(&axes, &out, 1, 0);
    if (axes.numel == 0) return TN_OK;
    if (cpu_plan_axes(&c.plan, &axes, &out, 1, &c.hub) != TN_OK)
        return cpu_error(call, TN_E_UNSUPPORTED, "iota: the dtype is not supported");
    cpu_parallel_for(call, axes.numel, IOTA_GRAIN, iota_range, &c);
    return TN_OK;
}

const tn_kernel_row cpu_fill_rows[] = {
    CPU_ROW(TN_SCHEMA_FILL, NULL, fill),
    CPU_ROW(TN_SCHEMA_IOTA, NULL, iota),
};
const uint32_t cpu_fill_row_count = CPU_ROW_COUNT(cpu_fill_rows);
