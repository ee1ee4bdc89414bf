/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers as data: what a row of layers.toml becomes. One function makes any layer from its row, one runs those that
 * are one operator, one prints them; layers_forward.c, rnn.c and attention.c have the rest.
 */
#ifndef NN_LAYERS_H
#define NN_LAYERS_H

#include "module.h"

/* An option of a layer. Its field in the struct of options has the type int64_t, double, int32_t, const char *,
 * tn_ints or tn_tensor *. */
enum { NN_INT, NN_FLOAT, NN_BOOL, NN_TEXT, NN_INTS, NN_TENSOR };
typedef struct nn_option {
    const char *name;
    uint32_t offset; /* of the field */
    uint8_t kind;
    uint8_t spread;      /* of INTS: a list of one item stands for this many; 0: lists of any length */
    int8_t like;         /* without a value this option has that of option `like`; -1: none */
    uint8_t is_given;    /* an argument: it has no default */
    uint8_t may_be_none; /* TN_NONE */
    double number;       /* the default of INT, FLOAT, BOOL, and of each item of INTS */
    const char *text;    /* the default of TEXT */
} nn_option;

/* How an option is printed: bits; layers.toml has their meaning. */
enum {
    NN_PLAIN = 1,
    NN_IF_CHANGED = 2,
    NN_TUPLE = 4,
    NN_OR_NONE = 8,
    NN_UNQUOTED = 16,
    NN_IF_TRUE = 32,  /* `words`, if the option is true */
    NN_IS_THERE = 64, /* words=True, if there is a tensor of that name */
    NN_ALWAYS = 128   /* `words` */
};
typedef struct nn_shown {
    uint8_t option;
    uint8_t how;
    const char *words;
} nn_shown;

/* Initial values of a tensor. */
enum { NN_ZEROS, NN_ONES, NN_FAN_IN, NN_FAN_FIRST, NN_NORMAL, NN_COUNT, NN_OPTION };

/* One size: factor * option / over; `spread`: all items of a list. Options are -1 where there is none. */
typedef struct nn_dim {
    int8_t option, over;
    uint8_t factor, spread;
} nn_dim;

#define NN_MAX_DIMS 6
typedef struct nn_tensor_row {
    const char *name;
    int8_t if_option[2]; /* only if these options are true; -1 */
    uint8_t is_buffer;
    uint8_t values;      /* NN_ZEROS, ... */
    int8_t value_option; /* of NN_OPTION */
    uint8_t dim_count;
    nn_dim dims[NN_MAX_DIMS];
} nn_tensor_row;

/* An argument of the operator. */
enum {
    NN_INPUT,
    NN_TENSOR_OF,
    NN_OPTION_OF,
    NN_OPTION_OR_NONE,
    NN_REDUCTION,
    NN_TRAINING,
    NN_NUMBER,
    NN_BOOLEAN,
    NN_LITERAL,
    NN_ABSENT
};
typedef struct nn_argument {
    uint8_t kind;
    uint8_t index; /* of the input, tensor or option */
    double number;
    const char *text;
} nn_argument;

typedef struct nn_layer {
    tn_module_class class; /* first: a module's class is its layer */
    uint8_t option_count, tensor_count, argument_count, shown_count;
    const nn_option *options;
    const nn_tensor_row *tensors;
    const nn_argument *arguments;
    const nn_shown *shown;
    uint32_t op, op_also; /* op_also: the operator with several results */
    int8_t also_option;   /* that runs if this option is true */
    int8_t check_option;  /* must be at least 1 and divide the first two arguments; -1: none */
    uint8_t results;
    uint8_t rank;   /* the n of Conv{n}d, else 0 */
    uint8_t inputs; /* of forward, at most */
    tn_tensor *(*forward)(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more); /* NULL: op runs */
    void (*init)(tn_scope *s, tn_module *m); /* after the tensors were made; may be NULL */
} nn_layer;

/* How every struct of options begins. */
typedef struct nn_options_head {
    uint32_t options_size;
    uint32_t reserved;
    const char *name;
} nn_options_head;

/* All of them, in the order of layers.toml. */
extern const nn_layer *const nn_layers[];
extern const uint32_t nn_layer_total;

/* Bytes of the field of an option. */
uint32_t nn_option_bytes(const nn_option *o);
/* The default of a number, at its field. Other kinds get theirs when the module takes them over. */
void nn_option_set_default(const nn_option *o, void *field);
/* Makes a module from a row; `options` is a struct of its options. */
tn_module *nn_layer_create(tn_module *parent, const nn_layer *layer, const void *options);
/* Refuses surplus inputs, and runs the row's operator or function. */
tn_tensor *nn_layer_forward(tn_scope *s, tn_module *m, tn_tensors in, tn_tensor **more);
void nn_layer_describe(const tn_module *m, char *text, uint64_t bytes);
void nn_layer_finish(tn_module *m);
static inline const nn_layer *nn_layer_of(const tn_module *m)
{
    return (const nn_layer *)(const void *)m->class;
}
/* Option i as a number, or as a list. */
double nn_number(const tn_module *m, uint32_t i);
/* An option that is a whole number, exactly. */
int64_t nn_integer(const tn_module *m, uint32_t i);
/* Fails the scope if there are more inputs than the layer takes. */
int32_t nn_refuse_inputs(tn_scope *s, const tn_module *m, tn_tensors in, int64_t most);
tn_ints nn_list(const tn_module *m, uint32_t i);
/* 0 none, 1 mean, 2 sum; another text fails the scope. */
int64_t nn_reduction(tn_scope *s, const char *text);
/* Uniform in [-bound, bound) into a new parameter of the module. */
tn_tensor *nn_add_uniform(tn_scope *s, tn_module *m, const char *name, tn_ints sizes, double bound);
/* A call of a recurrent layer with packed sequences. The states are in the order of the sequences before they were sorted, and
 * those that come back in that of the packed ones. */
tn_outputs nn_call_packed(tn_scope *s, tn_module *m, tn_packed_sequence sequence, tn_tensors in);
/* Batch norm in training mode over the batches of all ranks. */
tn_tensor *nn_sync_batch_norm(tn_scope *s, tn_module *m, tn_tensor *x);
/* Input i, or NULL. */
static inline tn_tensor *nn_input(tn_tensors in, int64_t i)
{
    return i < in.count ? in.data[i] : NULL;
}

#endif
