/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a loop nest. Adding an operand only fills what the kernel sees of it; strides are worked out at
 * the end. As long as every operand is row-major over the whole shape, or a single element, the nest is one
 * dimension and nothing is sorted: that is most calls. Otherwise dimensions of size 1 are dropped, the others
 * sorted by the strides of the operands (outputs first), and neighbours that lie evenly in all operands
 * become one.
 */
#include "core/loop_nest.h"

#include <string.h>
#include "core/error.h"

void tni_nest_init(tni_nest *n, uint32_t rank, const int64_t *sizes)
{
    int64_t numel = 1;
    for (uint32_t i = 0; i < rank; i++) {
        n->shape[i] = sizes[i];
        numel *= sizes[i];
    }
    n->rank = rank;
    n->is_contiguous = 1;
    n->nest = (tn_nest){
        .size = sizeof(tn_nest),
        .operand_bytes = sizeof(tn_operand),
        .numel = numel,
        .sizes = n->sizes,
        .operands = n->operands,
    };
}

static uint32_t next_operand(tni_nest *n, uint32_t flags)
{
    uint32_t k = n->nest.n_operands++;
    tn_operand *o = &n->operands[k];
    o->size = sizeof(*o);
    o->flags = flags;
    o->reserved = 0;
    o->strides = n->strides[k];
    n->nest.n_outputs += flags & TN_OPERAND_OUTPUT;
    return k;
}

static inline void fill_operand(tni_nest *n, const tn_tensor *t, uint32_t flags, uint64_t reduced)
{
    uint32_t k = next_operand(n, flags);
    tn_operand *o = &n->operands[k];
    o->dtype = t->desc.dtype;
    o->byte_offset = t->desc.byte_offset;
    o->allocation = t->desc.allocation;
    o->host = t->desc.host;
    o->address = t->desc.address;
    n->tensors[k] = t;
    n->reduced[k] = reduced;
    n->strides[k][0] = t->numel != 1 ? tn_dtype_bytes(t->desc.dtype) : 0; /* of a contiguous nest */
    /* What broadcasts to the shape and has as many elements has its sizes, but for ones. */
    if (t->numel != 1 && !(t->numel == n->nest.numel && tni_is_contiguous(t))) n->is_contiguous = 0;
}

void tni_nest_add(tni_nest *n, const tn_tensor *t, uint32_t flags)
{
    fill_operand(n, t, flags, 0);
}

/* With keepdim the dimensions are there, of size 1, and broadcast as any other. */
void tni_nest_add_reduced(tni_nest *n, const tn_tensor *t, uint64_t mask, int32_t keepdim)
{
    fill_operand(n, t, TN_OPERAND_OUTPUT, keepdim ? 0 : mask);
}

void tni_nest_add_immediate(tni_nest *n, const void *value, tn_dtype dtype)
{
    uint32_t k = next_operand(n, TN_OPERAND_IMMEDIATE);
    tn_operand *o = &n->operands[k];
    o->dtype = dtype;
    o->byte_offset = 0;
    o->allocation = NULL;
    o->host = (char *)(uintptr_t)value;
    o->address = 0;
    n->tensors[k] = NULL;
    n->strides[k][0] = 0;
}

/* The order of dimensions under work: position in the nest -> dimension of the shape. */
typedef struct nest_order {
    uint32_t rank;
    uint32_t kept;
    uint8_t dims[TN_MAX_RANK];
} nest_order;

/* Dimensions that are not of size 1, or are in `last`: innermost first, those in `last` after the others. */
static void order_dims(const tni_nest *n, uint64_t last, int32_t with_ones, nest_order *order)
{
    uint32_t rank = 0;
    for (uint32_t d = n->rank; d-- > 0;) {
        if (n->shape[d] != 1 && !(last >> d & 1)) order->dims[rank++] = (uint8_t)d;
    }
    order->kept = rank;
    for (uint32_t d = last ? n->rank : 0; d-- > 0;) {
        if ((last >> d & 1) && (with_ones || n->shape[d] != 1)) order->dims[rank++] = (uint8_t)d;
    }
    order->rank = rank;
}

/* Strides of an operand that has lost the dimensions in `lost`, which are aligned to the right without them. */
static void reduced_strides(int64_t *out, const tn_tensor_desc *desc, uint64_t lost, uint32_t rank,
                            const nest_order *order)
{
    int64_t bytes = tn_dtype_bytes(desc->dtype), strides[TN_MAX_RANK];
    uint32_t at = desc->rank;
    for (uint32_t d = rank; d-- > 0;) {
        strides[d] = 0;
        if (lost >> d & 1 || at == 0) continue;
        at--;
        if (desc->sizes[at] != 1) strides[d] = desc->strides[at] * bytes;
    }
    for (uint32_t i = 0; i < order->rank; i++) out[i] = strides[order->dims[i]];
}

/* Strides in bytes of operand k, in the order; 0 where it is broadcast. */
static void expand_strides(tni_nest *n, uint32_t k, const nest_order *order)
{
    const tn_tensor *t = n->tensors[k];
    int64_t *out = n->strides[k];
    if (!t || t->numel == 1) {
        for (uint32_t i = 0; i < order->rank; i++) out[i] = 0;
        return;
    }
    const tn_tensor_desc *desc = &t->desc;
    if (n->reduced[k]) {
        reduced_strides(out, desc, n->reduced[k], n->rank, order);
        return;
    }
    int64_t bytes = tn_dtype_bytes(desc->dtype);
    uint32_t offset = n->rank - desc->rank;
    for (uint32_t i = 0; i < order->rank; i++) {
        uint32_t d = order->dims[i];
        out[i] = d >= offset && desc->sizes[d - offset] != 1 ? desc->strides[d - offset] * bytes : 0;
    }
}

/* 1 if position a must come after b, -1 if before, 0 if the operands leave it open. */
static int32_t compare_positions(const tni_nest *n, uint32_t a, uint32_t b)
{
    for (uint32_t k = 0; k < n->nest.n_operands; k++) {
        int64_t x = n->strides[k][a], y = n->strides[k][b];
        if (x == 0 || y == 0) continue;
        if (x != y) return x < y ? -1 : 1;
        if (n->sizes[a] > n->sizes[b]) return 1;
    }
    return 0;
}

static void swap_positions(tni_nest *n, uint32_t a, uint32_t b)
{
    int64_t size = n->sizes[a];
    n->sizes[a] = n->sizes[b];
    n->sizes[b] = size;
    for (uint32_t k = 0; k < n->nest.n_operands; k++) {
        int64_t stride = n->strides[k][a];
        n->strides[k][a] = n->strides[k][b];
        n->strides[k][b] = stride;
    }
}

/* A stable insertion sort of positions [from, to); what cannot be compared stays and is looked past. */
static void sort_positions(tni_nest *n, uint32_t from, uint32_t to)
{
    for (uint32_t i = from + 1; i < to; i++) {
        uint32_t at = i;
        for (uint32_t j = i; j-- > from;) {
            int32_t c = compare_positions(n, j, at);
            if (c < 0) break;
            if (c == 0) continue;
            swap_positions(n, j, at);
            at = j;
        }
    }
}

static int32_t can_merge(const tni_nest *n, uint32_t inner, uint32_t outer)
{
    for (uint32_t k = 0; k < n->nest.n_operands; k++) {
        if (n->strides[k][inner] * n->sizes[inner] != n->strides[k][outer]) return 0;
    }
    return 1;
}

/* Merges neighbours of positions [from, to) and packs them at `at`; returns the position after them. */
static uint32_t merge_positions(tni_nest *n, uint32_t from, uint32_t to, uint32_t at)
{
    uint32_t first = at;
    for (uint32_t i = from; i < to; i++) {
        if (at > first && can_merge(n, at - 1, i)) {
            n->sizes[at - 1] *= n->sizes[i];
            continue;
        }
        if (at != i) {
            n->sizes[at] = n->sizes[i];
            for (uint32_t k = 0; k < n->nest.n_operands; k++) n->strides[k][at] = n->strides[k][i];
        }
        at++;
    }
    return at;
}

/* Fills sizes and strides, position by position of the order. */
static void expand(tni_nest *n, const nest_order *order)
{
    for (uint32_t i = 0; i < order->rank; i++) n->sizes[i] = n->shape[order->dims[i]];
    for (uint32_t k = 0; k < n->nest.n_operands; k++) expand_strides(n, k, order);
}

static void merge_all(tni_nest *n, const nest_order *order)
{
    n->nest.kept = merge_positions(n, 0, order->kept, 0);
    n->nest.rank = merge_positions(n, order->kept, order->rank, n->nest.kept);
}

static __attribute__((noinline)) void finish_sorted(tni_nest *n, uint64_t reduced)
{
    nest_order order;
    order_dims(n, reduced, 0, &order);
    expand(n, &order);
    sort_positions(n, 0, order.kept);
    sort_positions(n, order.kept, order.rank);
    merge_all(n, &order);
}

/* One dimension over everything, whose strides are there already; `kept` is 0 when all of it is reduced. */
static inline void finish_contiguous(tni_nest *n, uint32_t kept)
{
    n->sizes[0] = n->nest.numel;
    n->nest.rank = n->nest.numel != 1;
    n->nest.kept = kept & n->nest.rank;
}

/* Whether the reduction takes every dimension that has more than one element. */
static int32_t reduces_all(const tni_nest *n, uint64_t reduced)
{
    for (uint32_t d = 0; d < n->rank; d++) {
        if (n->shape[d] != 1 && !(reduced >> d & 1)) return 0;
    }
    return 1;
}

void tni_nest_finish(tni_nest *n, uint64_t reduced)
{
    if (TNI_LIKELY(n->is_contiguous)) {
        if (!reduced) {
            finish_contiguous(n, 1);
            return;
        }
        if (reduces_all(n, reduced)) {
            finish_contiguous(n, 0);
            return;
        }
    }
    finish_sorted(n, reduced);
}

void tni_nest_finish_positions(tni_nest *n, uint64_t reduced)
{
    nest_order order;
    order_dims(n, reduced, 0, &order);
    expand(n, &order);
    sort_positions(n, 0, order.kept);
    merge_all(n, &order);
}

/* A tensor without dimensions is scanned along one of size 1. */
void tni_nest_finish_scan(tni_nest *n, uint64_t scanned)
{
    nest_order order;
    if (n->rank == 0) {
        n->rank = 1;
        n->shape[0] = 1;
    }
    order_dims(n, scanned, 1, &order);
    expand(n, &order);
    sort_positions(n, 0, order.kept);
    merge_all(n, &order);
}
