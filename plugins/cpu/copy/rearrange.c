/* SPDX-License-Identifier: Apache-2.0 */
/* cat, flip, roll, tril, triu: copies between parts of tensors. */
#include "copy.h"
#include "index/index_walk.h"

#include <string.h>

/* A part of a tensor: its storage with other sizes and strides. */
typedef struct part {
    tn_tensor_desc desc;
    int64_t sizes[TN_MAX_RANK];
    int64_t strides[TN_MAX_RANK];
} part;

static void part_of(part *p, const tn_tensor_desc *t)
{
    p->desc = *t;
    memcpy(p->sizes, t->sizes, t->rank * sizeof p->sizes[0]);
    memcpy(p->strides, t->strides, t->rank * sizeof p->strides[0]);
    p->desc.sizes = p->sizes;
    p->desc.strides = p->strides;
}

/* Keeps positions [begin, begin + n) of dimension d. */
static void narrow(part *p, int64_t d, int64_t begin, int64_t n)
{
    p->desc.host = (char *)p->desc.host + begin * p->strides[d] * tn_dtype_bytes(p->desc.dtype);
    p->sizes[d] = n;
}

/* aten::cat(Tensor[] tensors, int dim=0) -> Tensor */
static int32_t cat(void *self, const tn_call *call)
{
    const tn_tensor_desc *out = tensor_out(call, 0);
    tn_tensors list = tn_value_as_tensors(call->args[0]);
    int64_t dim = cpu_dim(out, int_arg(call, 1)), begin = 0;
    for (int64_t i = 0; i < list.count; i++) {
        const tn_tensor_desc *t = tn_desc(list.data[i]);
        part p;
        /* ATen accepts empty vectors among tensors of any shape. */
        if (t->rank != out->rank || (t->rank == 1 && t->sizes[0] == 0)) continue;
        part_of(&p, out);
        narrow(&p, dim, begin, t->sizes[dim]);
        begin += t->sizes[dim];
        int32_t status = cpu_copy_tensor(call, &p.desc, t);
        if (status != TN_OK) return status;
    }
    return TN_OK;
}

/* aten::flip(Tensor self, int[] dims) -> Tensor */
static int32_t flip(void *self, const tn_call *call)
{
    const tn_tensor_desc *t = tensor_arg(call, 0);
    part p;
    part_of(&p, t);
    for (uint32_t i = 0; cpu_numel(t) && i < call->args[1].count; i++) {
        int64_t d = cpu_dim(t, call->args[1].as.ints[i]);
        if (t->rank == 0) continue;
        narrow(&p, d, t->sizes[d] - 1, t->sizes[d]);
        p.strides[d] = -p.strides[d];
    }
    return cpu_copy_tensor(call, tensor_out(call, 0), &p.desc);
}

typedef struct roll_call {
    const tn_call *call;
    int64_t shifts[TN_MAX_RANK]; /* in [0, size) */
    uint32_t count;
} roll_call;

/* Each rolled dimension is copied in two parts. */
static int32_t roll_from(const roll_call *r, uint32_t d, const part *to, const part *from)
{
    if (d == to->desc.rank) return cpu_copy_tensor(r->call, &to->desc, &from->desc);
    int64_t n = to->sizes[d], shift = r->shifts[d];
    for (int32_t half = 0; half < 2; half++) {
        int64_t size = half ? n - shift : shift;
        part a, b;
        if (size == 0) continue;
        part_of(&a, &to->desc);
        part_of(&b, &from->desc);
        narrow(&a, d, half ? shift : 0, size);
        narrow(&b, d, half ? 0 : n - shift, size);
        int32_t status = roll_from(r, d + 1, &a, &b);
        if (status != TN_OK) return status;
    }
    return TN_OK;
}

/* aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor; without dims the tensor is one long
 * line. */
static int32_t roll(void *self, const tn_call *call)
{
    const tn_tensor_desc *t = tensor_arg(call, 0);
    tn_value shifts = call->args[1], dims = call->args[2];
    roll_call r = {.call = call};
    part to, from;
    if (cpu_numel(t) == 0) return TN_OK;
    part_of(&to, tensor_out(call, 0));
    part_of(&from, t);
    if (dims.count == 0) {
        to.desc.rank = from.desc.rank = 1;
        to.sizes[0] = from.sizes[0] = cpu_numel(t);
        to.strides[0] = from.strides[0] = 1;
    }
    for (uint32_t i = 0; i < shifts.count; i++) {
        int64_t d = dims.count ? cpu_dim(t, dims.as.ints[i]) : 0, n = to.desc.rank ? to.sizes[d] : 1;
        int64_t shift = (r.shifts[d] + shifts.as.ints[i]) % n;
        r.shifts[d] = shift < 0 ? shift + n : shift;
    }
    return roll_from(&r, 0, &to, &from);
}

/* ---- Triangles ------------------------------------------------------------------------------------- */

typedef struct triangle_call {
    char *to;
    const char *from;
    int64_t rows, columns, bytes, diagonal;
    int32_t upper;
} triangle_call;

static void triangle_rows(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const triangle_call *c = user;
    int64_t line = c->columns * c->bytes;
    for (int64_t r = begin; r < end; r++) {
        /* The first column above the lower triangle. */
        int64_t edge = r % c->rows + c->diagonal + (c->upper ? 0 : 1);
        edge = edge < 0 ? 0 : edge > c->columns ? c->columns : edge;
        int64_t cut = edge * c->bytes;
        char *to = c->to + r * line;
        const char *from = c->from + r * line;
        if (c->upper) {
            memset(to, 0, (size_t)cut);
            memmove(to + cut, from + cut, (size_t)(line - cut));
        } else {
            memmove(to, from, (size_t)cut);
            memset(to + cut, 0, (size_t)(line - cut));
        }
    }
}

/* aten::tril and triu(Tensor self, SymInt diagonal=0) -> Tensor; the row's data says which. */
static int32_t triangle(void *self, const tn_call *call)
{
    const bool *is_upper = call->data;
    const tn_tensor_desc *t = tensor_arg(call, 0), *out = tensor_out(call, 0);
    if (t->rank < 2 || cpu_numel(t) == 0) return TN_OK;
    triangle_call c = {.to = out->host,
                       .from = t->host,
                       .rows = t->sizes[t->rank - 2],
                       .columns = t->sizes[t->rank - 1],
                       .bytes = tn_dtype_bytes(t->dtype),
                       .diagonal = int_arg(call, 1),
                       .upper = *is_upper};
    int64_t grain = 32 * 1024 / c.columns;
    cpu_parallel_for(call, cpu_numel(t) / c.columns, grain > 0 ? grain : 1, triangle_rows, &c);
    return TN_OK;
}

static const bool lower = false, upper = true;

const tn_kernel_row cpu_rearrange_rows[] = {
    CPU_ROW("aten::cat(Tensor[] tensors, int dim=0) -> Tensor", NULL, cat),
    CPU_ROW("aten::flip(Tensor self, int[] dims) -> Tensor", NULL, flip),
    CPU_CONTIGUOUS_ROW("aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", NULL, roll),
    CPU_CONTIGUOUS_ROW("aten::tril(Tensor self, SymInt diagonal=0) -> Tensor", NULL, triangle,
                       .data = &lower),
    CPU_CONTIGUOUS_ROW("aten::triu(Tensor self, SymInt diagonal=0) -> Tensor", NULL, triangle,
                       .data = &upper),
};
const uint32_t cpu_rearrange_row_count = CPU_ROW_COUNT(cpu_rearrange_rows);
