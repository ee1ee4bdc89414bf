/* SPDX-License-Identifier: Apache-2.0 */
/* nonzero and masked_scatter. */
#include "index_walk.h"

#include <string.h>

/* ---- Nonzero --------------------------------------------------------------------------------------- */

typedef struct nonzero_call {
    cpu_plan plan;
    const tn_tensor_desc *self;
    const tn_tensor_desc *out;
    int64_t count;
} nonzero_call;

static void count_run(void *user, void *const *pointers, int64_t n, int64_t position)
{
    nonzero_call *c = user;
    const uint8_t *truth = pointers[0];
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += truth[i];
    c->count += count;
}

/* Advances coordinates by `step` positions. */
static void advance(int64_t *at, const tn_tensor_desc *t, int64_t step)
{
    for (uint32_t d = t->rank; d-- > 0 && step;) {
        at[d] += step;
        if (at[d] < t->sizes[d]) return;
        step = at[d] / t->sizes[d];
        at[d] -= step * t->sizes[d];
    }
}

static void write_run(void *user, void *const *pointers, int64_t n, int64_t position)
{
    nonzero_call *c = user;
    const uint8_t *truth = pointers[0];
    int64_t row = c->out->strides[0], column = c->out->strides[1], rank = c->self->rank;
    int64_t at[TN_MAX_RANK] = {0}, last = 0, *o = (int64_t *)c->out->host + c->count * row;
    advance(at, c->self, position);
    for (int64_t i = 0; i < n; i++) {
        if (!truth[i]) continue;
        advance(at, c->self, i - last);
        last = i;
        for (int64_t d = 0; d < rank; d++) o[d * column] = at[d];
        o += row;
        c->count++;
    }
}

/* aten::nonzero(Tensor self) -> Tensor */
static int32_t nonzero(void *state, const tn_call *call)
{
    const tn_tensor_desc *self = tensor_arg(call, 0);
    int32_t truth = CPU_BOOL;
    cpu_axes axes;
    nonzero_call c = {.self = self};
    cpu_axes_make(&axes, &self, 1, 0);
    if (cpu_plan_axes(&c.plan, &axes, &self, 0, &truth) != TN_OK)
        return cpu_error(call, TN_E_UNSUPPORTED, "nonzero: the dtype is not supported");
    cpu_plan_walk(&c.plan, 0, axes.numel, count_run, &c);
    int64_t sizes[2] = {c.count, self->rank};
    int32_t status = call->host->resize_output(call, 0, 2, sizes);
    if (status != TN_OK || c.count == 0) return status;
    c.out = tensor_out(call, 0);
    c.count = 0;
    cpu_plan_walk(&c.plan, 0, axes.numel, write_run, &c);
    return TN_OK;
}

/* ---- Masks ----------------------------------------------------------------------------------------- */

/* aten::masked_scatter_(Tensor(a!) self, Tensor mask, Tensor source): the elements of source in turn. */
typedef struct masked_call {
    cpu_plan plan;
    char *self;
    const char *source;
    const int64_t *sizes;
    int64_t bytes, taken, available;
    const tn_tensor_desc *desc;
} masked_call;

static void count_masked(void *user, void *const *pointers, int64_t n, int64_t position)
{
    masked_call *c = user;
    const uint8_t *mask = pointers[0];
    for (int64_t i = 0; i < n; i++) c->taken += mask[i];
}

static char *element_at(const masked_call *c, int64_t position)
{
    int64_t offset = 0;
    for (uint32_t d = c->desc->rank; d-- > 0; position /= c->desc->sizes[d])
        offset += position % c->desc->sizes[d] * c->desc->strides[d];
    return c->self + offset * c->bytes;
}

static void scatter_masked(void *user, void *const *pointers, int64_t n, int64_t position)
{
    masked_call *c = user;
    const uint8_t *mask = pointers[0];
    for (int64_t i = 0; i < n; i++)
        if (mask[i]) memcpy(element_at(c, position + i), c->source + c->taken++ * c->bytes, (size_t)c->bytes);
}

/* A walk over the mask, broadcast to the shape of self. */
static int32_t plan_mask(masked_call *c, cpu_axes *axes, const tn_tensor_desc *self,
                         const tn_tensor_desc *mask)
{
    const tn_tensor_desc *tensors[2] = {self, mask};
    int32_t want[2] = {cpu_slot(self->dtype), CPU_BOOL};
    cpu_axes_make(axes, tensors, 2, 0);
    int32_t status = cpu_plan_axes(&c->plan, axes, tensors, 0, want);
    c->plan.operands[0] = c->plan.operands[1];
    c->plan.n_operands = 1;
    cpu_plan_finish(&c->plan);
    return status;
}

static int32_t masked_scatter(void *state, const tn_call *call)
{
    const tn_tensor_desc *self = tensor_out(call, 0), *mask = tensor_arg(call, 1),
                         *source = tensor_arg(call, 2);
    masked_call c = {.self = self->host,
                     .source = source->host,
                     .bytes = tn_dtype_bytes(self->dtype),
                     .available = cpu_numel(source),
                     .desc = self};
    cpu_axes axes;
    int32_t status = plan_mask(&c, &axes, self, mask);
    if (status != TN_OK) return cpu_error(call, status, "masked_scatter: the dtype is not supported");
    cpu_plan_walk(&c.plan, 0, axes.numel, count_masked, &c);
    if (c.taken > c.available)
        return cpu_error(call, TN_E_ARGUMENT,
                         "masked_scatter: expected at least %lld elements in source, got %lld",
                         (long long)c.taken, (long long)c.available);
    c.taken = 0;
    cpu_plan_walk(&c.plan, 0, axes.numel, scatter_masked, &c);
    return TN_OK;
}

const tn_kernel_row cpu_mask_rows[] = {
    CPU_ROW("aten::nonzero(Tensor self) -> Tensor", NULL, nonzero),
    CPU_CONTIGUOUS_ROW("aten::masked_scatter_(Tensor(a!) self, Tensor mask, Tensor source) -> Tensor(a!)",
                       NULL, masked_scatter),
};
const uint32_t cpu_mask_row_count = CPU_ROW_COUNT(cpu_mask_rows);
