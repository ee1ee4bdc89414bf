/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walks of gather, scatter and their family. `self` is the tensor that the indices choose positions of;
 * `other` is walked in full (a result, a source, values). Positions of the dimensions without an index are
 * lines; the indexed dimensions form one list of chosen positions.
 */
#ifndef TENON_CPU_INDEX_WALK_H
#define TENON_CPU_INDEX_WALK_H

#include "walk/staging.h"
#include "kernels/combine.h"

/* What a walk does with each row. */
typedef void (*cpu_row_fn)(void *user, const cpu_row *row);

typedef struct cpu_walk {
    uint32_t rank; /* of lines, dimension 0 innermost */
    int64_t sizes[TN_MAX_RANK];
    int64_t self_strides[TN_MAX_RANK]; /* in bytes, all of them */
    int64_t other_strides[TN_MAX_RANK];
    int64_t index_strides[TN_MAX_RANK]; /* of an index tensor with its own indices for each line */
    int64_t lines;
    char *self;
    char *other;

    int64_t count;         /* chosen positions */
    const int64_t *chosen; /* the offset in self of each, in bytes; NULL: computed from `index` */
    const int64_t *places; /* the offset in other of each; NULL: other_step apart */
    int64_t other_step;

    const char *index;
    int64_t index_step;
    int32_t index_wide;  /* int64, else int32 */
    int64_t index_scale; /* bytes in self between neighbouring indices */

    int32_t shared; /* rows write to self, so only lines are split over threads */
    cpu_row_fn fn;
    void *user;
} cpu_walk;

/* Sets the lines from the dimensions of a shape but `dim` (-1: all of them), innermost first, without
 * those of size 1. */
void cpu_walk_lines(cpu_walk *w, const tn_tensor_desc *shape, int64_t dim, const tn_tensor_desc *self,
                    const tn_tensor_desc *other, const tn_tensor_desc *index);
void cpu_walk_run(const tn_call *call, const cpu_walk *w);
/* For walks that only move elements of `bytes`: if the innermost line is contiguous and short, makes it
 * one element and returns its size, else returns `bytes`. */
int64_t cpu_walk_widen(cpu_walk *w, int64_t bytes);

/* Dimension d of a tensor, which may be negative; a tensor of rank 0 has one dimension of size 1. */
int64_t cpu_dim(const tn_tensor_desc *t, int64_t d);
int64_t cpu_size(const tn_tensor_desc *t, int64_t d);
/* In bytes. */
int64_t cpu_stride(const tn_tensor_desc *t, int64_t d);

/* Element i of an index tensor. */
static inline int64_t cpu_index_at(const char *p, int32_t wide)
{
    return wide ? *(const int64_t *)(const void *)p : *(const int32_t *)(const void *)p;
}

/* Whether n indices are all in [low, size). */
int32_t cpu_indices_inside(const int64_t *x, int64_t n, int64_t low, int64_t size);

/* Rows that move elements of 1, 2, 4, 8 or 16 bytes: from self to other (take) or back (put). */
cpu_row_fn cpu_take_fn(int64_t bytes);
cpu_row_fn cpu_put_fn(int64_t bytes);

#endif
