/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operator called with the same arguments on the device under test and on the other one. Most cases of
 * tier 1 end with it; gradient and speed begin with it. Arguments are described, not made, so that both
 * devices get tensors with the same bits and strides.
 */
#ifndef TENON_KIT_CHECK_CALL_H
#define TENON_KIT_CHECK_CALL_H

#include "check.h"

#define CALL_MAX_RANK 6
#define CALL_MAX_ARGS 24
#define CALL_MAX_OUTS 8

/* A tensor: contents, and a view over them. */
typedef struct call_tensor {
    tn_dtype dtype;
    uint32_t rank;
    int64_t sizes[CALL_MAX_RANK];
    int64_t strides[CALL_MAX_RANK]; /* in elements */
    int64_t offset;
    double low, high, step;  /* contents; see kit/calls/fill.h */
    const double *values;    /* the first elements of the storage instead, `count` of them, repeated */
    const int64_t *integers; /* the same, for integers: each keeps its low bits */
    uint32_t count;
    int on_host; /* a 0-dim tensor of the CPU among those of the device */
    int conjugated;
} call_tensor;

/* Row-major, of that shape. */
void call_shape(call_tensor *t, uint32_t rank, const int64_t *sizes);

typedef struct call_plan {
    uint32_t op;
    const char *name; /* of the operator, for texts */
    uint64_t seed;
    tn_value args[CALL_MAX_ARGS]; /* see call_argument; other lists are borrowed */
    uint32_t n_args;
    check_tolerance tolerance; /* rtol -1: that of each result's dtype */
    int positions;             /* the order among equal inputs may differ: compare values, not indices */
} call_plan;
/* Stands for a list of `count` tensors among the arguments of a plan; of one tensor if `count` is 0. */
static inline tn_value call_arguments_list(const call_tensor *t, uint32_t count)
{
    tn_value v = tn_value_make(TN_TAG_POINTER, count);
    v.as.pointer = (void *)(uintptr_t)t;
    return v;
}
static inline tn_value call_argument(const call_tensor *t)
{
    return call_arguments_list(t, 0);
}

/* Makes the tensor on a device; NULL and a failed scope otherwise. */
tn_tensor *call_make(tn_scope *s, const call_tensor *t, uint64_t seed, tn_device device);
/* The arguments of the plan on a device, in args[]. 0, or 1 and a failed scope. */
int call_arguments(tn_scope *s, const call_plan *p, tn_device device, tn_value *args);
/* Calls on both devices and compares results and written arguments; sets out->way. Absent when the CPU
 * computed the result; skipped when both devices refuse the call. */
void call_compare(check_target *t, const call_plan *p, check_result *out);
/* The same, with another call on the other device. */
void call_compare_plans(check_target *t, const call_plan *p, const call_plan *on_other, check_result *out);

#endif
