/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schemas: the parsed form of "ns::name.overload(Tensor(a!) self, int[2] dim=[], *, ScalarType? dtype=None)
 * -> (Tensor values, Tensor indices)". The whole ATen grammar: alias sets and mutation, optionals, lists with
 * and without length, keyword-only arguments, defaults of every type, several or no returns, "...".
 */
#ifndef TNI_DISPATCHER_SCHEMA_H
#define TNI_DISPATCHER_SCHEMA_H

#include "core/context.h"

enum {
    TNI_TYPE_TENSOR,
    TNI_TYPE_INT, /* SymInt too */
    TNI_TYPE_FLOAT,
    TNI_TYPE_BOOL,
    TNI_TYPE_SCALAR,
    TNI_TYPE_COMPLEX,
    TNI_TYPE_STRING,
    TNI_TYPE_DTYPE,
    TNI_TYPE_LAYOUT,
    TNI_TYPE_DEVICE,
    TNI_TYPE_MEMORY_FORMAT,
    TNI_TYPE_GENERATOR,
    TNI_TYPE_DIMNAME,
    TNI_TYPE_STORAGE,
    TNI_TYPE_STREAM,
    TNI_TYPE_ANY,
    TNI_TYPE_COUNT
};

typedef struct tni_argument {
    const char *name;         /* "" where the schema gives none */
    const char *type_text;    /* "Tensor(a!)?[]" without alias set: "Tensor?[]" */
    const char *alias_set;    /* "a", "a|b", "*"; NULL: none */
    const char *default_text; /* NULL: required */
    tn_value default_value;   /* NONE for None and where there is none */
    uint8_t type;             /* TNI_TYPE_... of the item */
    uint8_t is_list;
    uint8_t is_optional;    /* of the whole */
    uint8_t optional_items; /* Tensor?[] */
    uint8_t keyword_only;
    uint8_t written;     /* ! */
    uint8_t spreads;     /* a list of one int stands for list_length of them, too; see tni_op_entry */
    int32_t list_length; /* int[2]: 2, a single int stands for the list; 0: none */
} tni_argument;

typedef struct tni_schema {
    const char *text;      /* as given */
    const char *full_name; /* "aten::add.Tensor" */
    const char *ns;        /* "aten" */
    const char *name;      /* "add" */
    const char *overload;  /* "Tensor" or "" */
    uint32_t n_args;
    uint32_t n_returns;
    uint32_t required; /* positional arguments before the first with a default */
    uint32_t variadic; /* "..." among the arguments */
    tni_argument *args;
    tni_argument *returns;
    uint32_t *accepted; /* for each argument: bits of the tags that fit by themselves */
    void *memory;       /* the one allocation */
    uint64_t memory_bytes;
} tni_schema;

/* TN_E_SYNTAX with the column on failure. Defaults that name devices or layouts are interned in ctx. */
int32_t tni_schema_parse(tn_context *ctx, const char *text, tni_schema **out);
/* See arguments.c. */
uint32_t tni_accepted_tags(const tni_argument *a);
void tni_schema_destroy(tn_context *ctx, tni_schema *schema);

#endif
