/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sort, topk, kthvalue, mode. A line is turned into keys with positions, these are ordered, and results are
 * written by position. Threads take lines.
 */
#include "index/index_walk.h"
#include "sort_keys.h"

#include <string.h>

/* Elements below which a further thread does not pay. */
#define SORT_GRAIN ((int64_t)4 * 1024)

enum { ORDER_SORT, ORDER_TOP, ORDER_KTH, ORDER_MODE };

typedef struct order_call {
    const tn_tensor_desc *self, *values, *positions;
    int64_t dim, length, take; /* elements of a line, and how many are written */
    int64_t k;
    int32_t slot, kind, descending;
    cpu_keyed *items; /* two runs of `room` for each thread */
    int64_t room;
    int32_t few; /* so few are written that the others need not be kept */
} order_call;

/* The byte offset of a line in a tensor. `reduced`: the tensor lacks the dimension, or has size 1 there. */
static int64_t line_offset(const order_call *c, const tn_tensor_desc *t, int64_t line)
{
    int64_t offset = 0;
    bool without = t->rank < c->self->rank;
    for (int64_t d = (int64_t)c->self->rank - 1; d >= 0; d--) {
        if (d == c->dim) continue;
        offset += line % c->self->sizes[d] * cpu_stride(t, without && d > c->dim ? d - 1 : d);
        line /= c->self->sizes[d];
    }
    return offset;
}

/* The last position of the longest run of equal keys, the first of such runs. */
static void most_frequent(cpu_keyed *items, int64_t n)
{
    int64_t longest = 0, run = 0;
    cpu_keyed best = items[0];
    for (int64_t i = 0; i < n; i++) {
        run++;
        if (i + 1 < n && items[i + 1].key == items[i].key) continue;
        if (run > longest) {
            longest = run;
            best = items[i];
        }
        run = 0;
    }
    items[0] = best;
}

static void write_line(const order_call *c, const cpu_keyed *items, int64_t line)
{
    int64_t bytes = cpu_slot_bytes[c->slot], stride = cpu_stride(c->self, c->dim);
    bool many = c->kind == ORDER_SORT || c->kind == ORDER_TOP;
    const char *from = (const char *)c->self->host + line_offset(c, c->self, line);
    char *values = (char *)c->values->host + line_offset(c, c->values, line);
    char *positions = (char *)c->positions->host + line_offset(c, c->positions, line);
    int64_t value_stride = many ? cpu_stride(c->values, c->dim) : 0;
    int64_t position_stride = many ? cpu_stride(c->positions, c->dim) : 0;
    for (int64_t i = 0; i < c->take; i++) {
        memcpy(values + i * value_stride, from + items[i].position * stride, (size_t)bytes);
        *(int64_t *)(void *)(positions + i * position_stride) = items[i].position;
    }
}

static void order_lines(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const order_call *c = user;
    cpu_keyed *items = c->items + 2 * c->room * thread, *other = items + c->room;
    for (int64_t line = begin; line < end; line++) {
        cpu_line l = {.from = (const char *)c->self->host + line_offset(c, c->self, line),
                      .slot = c->slot,
                      .descending = c->descending,
                      .stride = cpu_stride(c->self, c->dim),
                      .n = c->length};
        if (c->few) {
            cpu_least(items, other, &l, c->take);
        } else {
            cpu_keys(items, l.from, c->slot, l.stride, c->length, c->descending);
            if (c->kind == ORDER_KTH)
                items[0] = cpu_kth(items, (uint64_t *)(void *)other, c->length, c->k - 1);
            else
                cpu_sort_keyed(items, other, c->length);
            if (c->kind == ORDER_MODE) most_frequent(items, c->length);
        }
        write_line(c, items, line);
    }
}

static int32_t order(const tn_call *call, order_call *c, int64_t dim)
{
    c->self = tensor_arg(call, 0);
    c->values = tensor_out(call, 0);
    c->positions = tensor_out(call, 1);
    c->slot = cpu_slot(c->self->dtype);
    c->dim = cpu_dim(c->self, dim);
    c->length = cpu_size(c->self, c->dim);
    if (c->kind == ORDER_SORT) c->take = c->length;
    if (cpu_numel(c->self) == 0) return TN_OK;
    if (c->kind == ORDER_TOP && c->take == 0) return TN_OK;
    c->few = c->kind == ORDER_TOP && c->take <= c->length / 2;
    c->room = c->few ? cpu_least_room(c->length, c->take) : c->length;
    c->items = cpu_scratch(call, (uint64_t)(2 * c->room * cpu_thread_count(call)) * sizeof(cpu_keyed));
    if (!c->items) return TN_E_OUT_OF_MEMORY;
    int64_t grain = SORT_GRAIN / c->length;
    cpu_parallel_for(call, cpu_numel(c->self) / c->length, grain > 0 ? grain : 1, order_lines, c);
    return TN_OK;
}

/* aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False); always stable. */
static int32_t sort(void *state, const tn_call *call)
{
    order_call c = {.kind = ORDER_SORT, .descending = bool_arg(call, 3)};
    return order(call, &c, int_arg(call, 2));
}
/* aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True); always sorted. */
static int32_t topk(void *state, const tn_call *call)
{
    order_call c = {.kind = ORDER_TOP, .take = int_arg(call, 1), .descending = bool_arg(call, 3)};
    return order(call, &c, int_arg(call, 2));
}
/* aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) */
static int32_t kthvalue(void *state, const tn_call *call)
{
    const tn_tensor_desc *self = tensor_arg(call, 0);
    order_call c = {.kind = ORDER_KTH, .take = 1, .k = int_arg(call, 1)};
    int64_t dim = int_arg(call, 2);
    if (c.k < 1 || c.k > cpu_size(self, cpu_dim(self, dim)))
        return cpu_error(call, TN_E_INDEX, "kthvalue(): selected number k out of range for dimension %lld",
                         (long long)dim);
    return order(call, &c, dim);
}
/* aten::mode(Tensor self, int dim=-1, bool keepdim=False) */
static int32_t mode(void *state, const tn_call *call)
{
    order_call c = {.kind = ORDER_MODE, .take = 1};
    return order(call, &c, int_arg(call, 1));
}

const tn_kernel_row cpu_sort_rows[] = {
    CPU_ROW("aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor "
            "values, Tensor indices)",
            cpu_ordered_dtypes, sort),
    CPU_ROW("aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor "
            "values, Tensor indices)",
            cpu_ordered_dtypes, topk),
    CPU_ROW("aten::kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor "
            "indices)",
            cpu_ordered_dtypes, kthvalue),
    CPU_ROW("aten::mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
            cpu_ordered_dtypes, mode),
};
const uint32_t cpu_sort_row_count = CPU_ROW_COUNT(cpu_sort_rows);
