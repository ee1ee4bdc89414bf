/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop nest: operands brought to one shape, dimensions of size 1 dropped, sorted so that the innermost
 * has the smallest strides, neighbours coalesced. Kernels see it as tn_nest.
 */
#ifndef TNI_CORE_LOOP_NEST_H
#define TNI_CORE_LOOP_NEST_H

#include "core/shape.h"

#define TNI_MAX_OPERANDS 12

typedef struct tni_nest {
    tn_nest nest; /* what the kernel sees; points into this struct */
    int64_t sizes[TN_MAX_RANK];
    tn_operand operands[TNI_MAX_OPERANDS];
    int64_t strides[TNI_MAX_OPERANDS][TN_MAX_RANK];
    /* Working state until tni_nest_finish. */
    const tn_tensor *tensors[TNI_MAX_OPERANDS]; /* NULL: an immediate */
    uint64_t reduced[TNI_MAX_OPERANDS];         /* dimensions that the operand has lost to a reduction */
    uint32_t rank;
    int32_t is_contiguous; /* all operands so far are row-major over the whole shape, or one element */
    int64_t shape[TN_MAX_RANK];
} tni_nest;

/* Starts a nest over a shape. Tensors that are added must live until tni_nest_finish. */
void tni_nest_init(tni_nest *n, uint32_t rank, const int64_t *sizes);
/* Adds an operand; outputs first. Its sizes are aligned to the right and broadcast. */
void tni_nest_add(tni_nest *n, const tn_tensor *t, uint32_t flags);
/* Adds an output of a reduction: its dimensions are those of the shape with `mask` ones missing (or 1 if
 * keepdim). */
void tni_nest_add_reduced(tni_nest *n, const tn_tensor *t, uint64_t mask, int32_t keepdim);
/* Adds a number: 16 bytes at `value` (which must outlive the nest) in `dtype`. */
void tni_nest_add_immediate(tni_nest *n, const void *value, tn_dtype dtype);
/* Sorts and coalesces. `reduced`: bit mask of dimensions of the shape that come last as reduced ones. */
void tni_nest_finish(tni_nest *n, uint64_t reduced);
/*
 * For results that are positions (argmax): the reduced dimensions keep their order, the tensor's last one
 * innermost, and coalesce only where a later one is the inner; positions count over them row-major.
 */
void tni_nest_finish_positions(tni_nest *n, uint64_t reduced);
/* For scans: the one dimension in `scanned` comes last, alone, even if its size is 1; kept == rank - 1. */
void tni_nest_finish_scan(tni_nest *n, uint64_t scanned);

#endif
