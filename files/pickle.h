/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads Python's pickles as far as torch.save writes them, without running anything: a class or function counts by its
 * name, and a few of them are known. Source of the opcodes: the documentation of Python's module pickletools.
 */
#ifndef FILES_PICKLE_H
#define FILES_PICKLE_H

#include <stdint.h>
#include <tenon/tensor.h>

typedef enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,    /* i */
    PICKLE_INT,     /* i */
    PICKLE_FLOAT,   /* f */
    PICKLE_TEXT,    /* text */
    PICKLE_LIST,    /* items: a list, tuple or torch.Size */
    PICKLE_DICT,    /* items: key, value, key, value, ... */
    PICKLE_GLOBAL,  /* text: "torch FloatStorage" */
    PICKLE_STORAGE, /* text: the key of its record; dtype (0: bytes), i: elements */
    PICKLE_TENSOR,  /* items: storage, offset, sizes, strides; dtype; i: PICKLE_CONJUGATE, PICKLE_NEGATIVE */
} pickle_kind;

/* What a tensor's view does to the elements of its storage. */
#define PICKLE_CONJUGATE 1
#define PICKLE_NEGATIVE  2

typedef struct pickle_node {
    pickle_kind kind;
    tn_dtype dtype;
    int64_t i;
    double f;
    char *text;
    struct pickle_node **items;
    uint32_t count, room;
    struct pickle_node *next; /* of all nodes */
} pickle_node;

typedef struct pickle {
    pickle_node *root;
    pickle_node *all;
    char error[256]; /* why it was refused */
} pickle;

/* TN_OK, TN_E_CORRUPT, TN_E_UNSUPPORTED (it names what is not taken), TN_E_OUT_OF_MEMORY. To be freed in each case. */
int32_t pickle_read(pickle *p, const uint8_t *bytes, uint64_t size);
void pickle_free(pickle *p);

/* The storage class of PyTorch for a dtype ("FloatStorage"), or NULL; and the name of any dtype there ("uint16"). */
const char *pickle_storage_name(tn_dtype dtype);
const char *pickle_dtype_name(tn_dtype dtype);

#endif
