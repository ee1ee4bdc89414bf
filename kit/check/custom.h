/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon check --op`: what the files about custom operators share. */
#ifndef TENON_KIT_CHECK_CUSTOM_H
#define TENON_KIT_CHECK_CUSTOM_H

#include "check.h"
#include "../calls/request.h"

#define CUSTOM_MAX_OUTS 8
#define CUSTOM_SEED     20 /* before each call, so that a random operator draws the same numbers */

/* A call to try; its arguments are as in kit/calls/request.h. */
typedef struct custom_call {
    const char *text; /* JSON, {"args": [...], "kwargs": {...}} */
    const char *name; /* "float32 [3, 4]", or "given 1" */
    uint32_t op;
    int32_t given;    /* given by --args: it must work */
    tn_dtype dtype;   /* of all tensors, 0 for given calls */
    uint32_t number;  /* the same in each process */
    uint32_t shape;   /* guessed calls: which shape */
    uint32_t vectors; /* guessed calls: which tensors are vectors, a bit each */
    int32_t chosen;   /* it is checked */
} custom_call;

/* The calls given by --args, or guessed from the schema; `n` of them, in the list's memory. */
custom_call *custom_calls(check_target *t, check_list *list, uint32_t op, uint32_t *n);

/* FAULTY: the call failed by a fault of the library, not because the operator refuses it. */
enum { CUSTOM_UNTRIED, CUSTOM_ACCEPTED, CUSTOM_REFUSED, CUSTOM_FAULTY, CUSTOM_CRASHED };
/* What came of a call. */
typedef struct custom_try {
    int32_t state;
    char reason[300]; /* unless it was accepted */
} custom_try;
/* Tries the calls; in the process that reports, before the parts run. 0, or 1 and run->fatal. */
int32_t custom_try_calls(check_run *run);
custom_try custom_tried(const custom_call *call);
/* 1 if call i has to be tried: one with vectors only after the operator has refused tensors of one shape. */
int custom_is_next(const custom_call *calls, uint32_t i);
/* Chooses the calls that are checked among those that were tried. */
void custom_choose(custom_call *calls, uint32_t n);
/* Adds cases that name the dtypes and shapes of which no call is checked. */
void custom_list_refused(check_target *t, check_list *list, const custom_call *calls, uint32_t n);
void custom_forget_tries(void);

/* A call and its results, in one scope. */
typedef struct custom_run {
    tn_scope *s;
    const check_target *target;
    tn_device device; /* 0: the CPU */
    uint32_t n_args, n_outs;
    uint64_t refusals; /* before the call, of kernels whose can_run had agreed */
    tn_value args[REQUEST_MAX_ARGUMENTS], outs[CUSTOM_MAX_OUTS];
} custom_run;
/* Opens the scope and makes the arguments on a device (0: on the CPU, as they are). On failure the scope
 * has failed. */
void custom_open(custom_run *r, check_target *t, const custom_call *c, tn_device device, uint32_t grad_mode);
/* Makes the call. 0, or 1 and a failed scope. */
int custom_do(custom_run *r, const custom_call *c);
void custom_close(custom_run *r);
/* 1 if the operator has that tag. */
int custom_has_tag(const check_target *t, const custom_call *call, const char *tag);
/* Argument or return i of the operator. */
tn_argument_info custom_argument(const check_target *t, uint32_t op, int32_t returns, uint32_t i);

/* A tensor that a gradient is taken for: argument `argument`, or item `item` of it. */
typedef struct custom_input {
    uint32_t argument;
    int32_t item; /* -1: the argument is not a list */
} custom_input;
#define CUSTOM_MAX_INPUTS 16
/* The arguments of the call with other tensors for those inputs. What the call writes in place is a clone, so that the
 * input may be a leaf. */
void custom_place(tn_scope *s, const check_target *t, uint32_t op, const custom_input *which, uint32_t n,
                  tn_tensor *const *inputs, tn_value *args);
/* The same, and what the call writes is the given tensor. */
void custom_replace(tn_scope *s, const custom_input *which, uint32_t n, tn_tensor *const *inputs,
                    tn_value *args);
/* The tensors among the values, also in lists, as many as there is room for; their number. */
uint32_t custom_tensors(const tn_value *values, uint32_t n, tn_tensor **out, uint32_t room);
#define CUSTOM_MAX_ITEMS 64
/* 1 if the call, which has failed, failed by a fault of the library instead of refusing its arguments: `text` says by which
 * one. */
int custom_fault(const check_target *t, const custom_call *call, const custom_run *r, char *text,
                 size_t bytes);

/* The parts, a case each; c->data is the custom_call. */
void custom_schema(check_target *t, const check_case *c, check_result *out);
void custom_shape(check_target *t, const check_case *c, check_result *out);
void custom_gradient(check_target *t, const check_case *c, check_result *out);
void custom_traced(check_target *t, const check_case *c, check_result *out);
void custom_layouts(check_target *t, const check_case *c, check_result *out);
void custom_leaks(check_target *t, const check_case *c, check_result *out);
/* Of the library as a whole. */
void custom_library_leaks(check_target *t, const check_case *c, check_result *out);
/* The call, recorded, and the gradients of its results; skipped if it has none. */
void custom_backward(check_target *t, const custom_call *call, check_result *out);
void custom_differences(check_target *t, const check_case *c, check_result *out);

#endif
