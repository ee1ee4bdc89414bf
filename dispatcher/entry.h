/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is declared about an operator: the generator writes it from the table of built-in operators,
 * tn_operator_define makes it for all others. Constant after registration.
 */
#ifndef TNI_DISPATCHER_ENTRY_H
#define TNI_DISPATCHER_ENTRY_H

#include <tenon/op.h>

typedef struct tni_frame tni_frame;

/* A shape rule: reads the arguments of the frame and describes the outputs. That of a view makes them. */
typedef int32_t tni_infer_fn(tni_frame *f);
/*
 * A composite: calls other operators in a scope of its own. `args` are complete; results go into outs. The
 * scope keeps the first failure, and calls on it do nothing afterwards, so a composite checks no status.
 */
typedef void tni_composite_fn(tn_scope *s, const tn_value *args, tn_value *outs);

enum {
    TNI_KIND_POINTWISE,
    TNI_KIND_REDUCTION,
    TNI_KIND_SCAN,
    TNI_KIND_VIEW,
    TNI_KIND_STRUCTURED,
    TNI_KIND_DATA_DEPENDENT,
    TNI_KIND_RANDOM,
    TNI_KIND_FACTORY,
    TNI_KIND_COMPOSITE,
    TNI_KIND_FOREACH, /* a composite that calls one operator for each item of lists, see foreach.c */
    TNI_KIND_COUNT
};

/* Custom promotion: reads the arguments, sets f->call_dtype and the dtypes of the outputs (meta[i].dtype). */
typedef int32_t tni_promote_fn(tni_frame *f);

enum { TNI_FORM_FUNCTIONAL, TNI_FORM_INPLACE, TNI_FORM_OUT };

/* Dtype rules of pointwise operators: the dtype of the computation and that of the result. */
enum {
    TNI_PROMOTE_NONE,    /* the shape rule decides */
    TNI_PROMOTE_COMMON,  /* common dtype in and out */
    TNI_PROMOTE_FLOAT,   /* common, integers to the default float */
    TNI_PROMOTE_COMPARE, /* common in, bool out */
    TNI_PROMOTE_LOGICAL, /* common in (bool if no kernel takes the common dtype), bool out */
    TNI_PROMOTE_SAME,    /* that of the first tensor; others are cast to it */
    TNI_PROMOTE_REAL,    /* common in, its real dtype out */
    TNI_PROMOTE_CUSTOM   /* promote_rule sets call_dtype and the dtypes of the outputs */
};

/* Operators without a gradient that autograd makes no node for. */
enum {
    TNI_UNRECORDED_NONE,
    TNI_UNRECORDED_CONSTANT, /* the results have no gradient by definition */
    TNI_UNRECORDED_DETACH,   /* the same; in place, self leaves the graph */
    TNI_UNRECORDED_FORBIDDEN /* in place, a tensor that requires grad is refused */
};

/* Dtypes that an operator takes. Floats are the half types, too. */
enum {
    TNI_TAKES_ALL,
    TNI_TAKES_FLOATS,
    TNI_TAKES_FLOATS_AND_BYTE, /* uint8 */
    TNI_TAKES_FLOATS_AND_LONG, /* int64 */
    TNI_TAKES_FLOATS_AND_COMPLEX,
    TNI_TAKES_ALL_BUT_BOOL,
    TNI_TAKES_INTEGERS_AND_FLOATS,
    TNI_TAKES_ALL_BUT_INTEGERS
};

/* Bits of tags, ATen's and ours. Those of built-in operators are below TNI_BUILTIN_TAG_BITS. */
#define TNI_BUILTIN_TAG_BITS 12
#define TNI_TAG_LIST(X)                                             \
    X(CORE, 0, "core")                                              \
    X(POINTWISE, 1, "pointwise")                                    \
    X(VIEW_COPY, 2, "view_copy")                                    \
    X(NONDETERMINISTIC_SEEDED, 3, "nondeterministic_seeded")        \
    X(DATA_DEPENDENT_OUTPUT, 4, "data_dependent_output")            \
    X(DYNAMIC_OUTPUT_SHAPE, 5, "dynamic_output_shape")              \
    X(INPLACE, 6, "inplace")                                        \
    X(OUT, 7, "out")                                                \
    X(INPLACE_VIEW, 8, "inplace_view")                              \
    X(REDUCTION, 9, "reduction")                                    \
    X(GENERATED, 10, "generated")                                   \
    X(MAYBE_ALIASING_OR_MUTATING, 11, "maybe_aliasing_or_mutating") \
    X(NONDETERMINISTIC_BITWISE, 12, "nondeterministic_bitwise")     \
    X(NEEDS_EXACT_STRIDES, 13, "needs_exact_strides")               \
    X(NEEDS_CONTIGUOUS_STRIDES, 14, "needs_contiguous_strides")     \
    X(NEEDS_FIXED_STRIDE_ORDER, 15, "needs_fixed_stride_order")     \
    X(FLEXIBLE_LAYOUT, 16, "flexible_layout")                       \
    X(PT2_COMPLIANT, 17, "pt2_compliant_tag")                       \
    X(CUDAGRAPH_UNSAFE, 18, "cudagraph_unsafe")                     \
    X(DIFFERENTIABLE_ONCE, 19, "differentiable_once")
#define TNI_TAG_ENUM(name, bit, text) TNI_TAG_##name = 1 << (bit),
enum { TNI_TAG_LIST(TNI_TAG_ENUM) TNI_TAG_NONE = 0 };
#undef TNI_TAG_ENUM

/* Small fields together: there are two thousand entries. */
typedef struct tni_op_entry {
    tni_promote_fn *promote_rule; /* of TNI_PROMOTE_CUSTOM */
    tni_infer_fn *infer;
    tni_composite_fn *composite;
    const char *doc;
    uint32_t mutates; /* bits of arguments that are written although the schema does not say so */
    uint32_t tags;    /* TNI_TAG_... */
    uint16_t number;
    uint16_t base;    /* number of the form that the kernel implements; itself for that form */
    uint16_t calls;   /* composites such as "scalar_other": the operator that they call */
    uint8_t is_alias; /* this entry is another name of an operator */
    uint8_t kind;
    uint8_t form : 4;
    uint8_t autocast : 4; /* TN_AUTOCAST_... */
    uint8_t promote;
    uint8_t unrecorded : 4; /* TNI_UNRECORDED_... */
    uint8_t takes : 4;      /* TNI_TAKES_... */
    uint8_t is_out_exact;   /* tensors of an out form must have the dtypes of the results */
    uint8_t spreads;        /* a list of one int for an int[N] stands for N of them */
} tni_op_entry;

/*
 * An entry as the library stores it: small, as there are two thousand, and without addresses, which would be relocated
 * at start. Texts are offsets in the arrays below, functions indices of the lists below. The number of an operator is
 * one more than its row's.
 */
typedef struct tni_op_row {
    uint32_t tags : TNI_BUILTIN_TAG_BITS;
    uint32_t kind : 4;
    uint32_t form : 2;
    uint32_t promote : 3;
    uint32_t unrecorded : 2;
    uint32_t autocast : 2;
    uint32_t takes : 4;
    uint32_t is_out_exact : 1;
    uint32_t spreads : 1;
    uint16_t name; /* in full, without the signature */
    uint16_t doc;
    uint16_t signature;
    uint16_t base;
    uint16_t calls;
    uint16_t composite;
    uint16_t mutates;
    uint8_t infer;
    uint8_t promote_rule : 7;
    uint8_t is_alias : 1;
} tni_op_row;

extern const tni_op_row tni_builtin_ops[];
extern const uint32_t tni_builtin_op_count;
extern const char tni_builtin_names[];
extern const char tni_builtin_docs[];
extern const char tni_builtin_part_texts[];
/* A signature is a run of part numbers: its arguments, then what it returns, marked by TNI_LAST_PART. Parts are
 * shared, since most arguments stand in hundreds of schemas. */
#define TNI_LAST_PART 0x8000u
extern const uint16_t tni_builtin_signatures[];
extern const uint16_t tni_builtin_parts[];       /* offsets of the parts in their texts */
extern tni_infer_fn *const tni_builtin_infers[]; /* the first of each list is NULL */
extern tni_promote_fn *const tni_builtin_promote_rules[];
extern tni_composite_fn *const tni_builtin_composites[];

#endif
