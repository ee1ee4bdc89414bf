/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values: the arguments and results of every operator. A value is 16 bytes, tagged, and lives on the caller's
 * stack. It borrows the memory of lists, strings and complex numbers. A list with NULL data is absent
 * (`dim=None`); a list with data and count 0 is empty (`dim=[]`).
 *
 * Frozen: a value has no size field and never changes.
 */
#ifndef TENON_VALUE_H
#define TENON_VALUE_H

#include <tenon/base.h>

TN_BEGIN_DECLS

#define TN_TAG_NONE          0u
#define TN_TAG_TENSOR        1u  /* as.tensor; never NULL (an absent tensor is NONE) */
#define TN_TAG_TENSORS       2u  /* as.tensors, count; an item may be NULL where the schema says Tensor?[] */
#define TN_TAG_INT           3u  /* as.i */
#define TN_TAG_FLOAT         4u  /* as.f */
#define TN_TAG_BOOL          5u  /* as.i, 0 or 1 */
#define TN_TAG_COMPLEX       6u  /* as.floats points to {real, imaginary} */
#define TN_TAG_STRING        7u  /* as.string, zero-terminated; count is its length in bytes */
#define TN_TAG_INTS          8u  /* as.ints, count */
#define TN_TAG_FLOATS        9u  /* as.floats, count */
#define TN_TAG_BOOLS         10u /* as.bools, count; one byte each */
#define TN_TAG_SCALARS       11u /* as.values, count; each INT, FLOAT, BOOL or COMPLEX */
#define TN_TAG_STRINGS       12u /* as.strings, count */
#define TN_TAG_DTYPE         13u /* as.i */
#define TN_TAG_LAYOUT        14u /* as.i, an interned string */
#define TN_TAG_DEVICE        15u /* as.device */
#define TN_TAG_MEMORY_FORMAT 16u /* as.i */
#define TN_TAG_GENERATOR     17u /* as.generator */
#define TN_TAG_POINTER       18u /* as.pointer; caller and callee agree on its meaning */
#define TN_TAG_PLAIN         19u /* an option that was given a plain number; every operator refuses it */

typedef struct tn_value {
    uint32_t tag;
    uint32_t count;
    union {
        int64_t i;
        double f;
        tn_device device;
        tn_tensor *tensor;
        tn_tensor *const *tensors;
        const int64_t *ints;
        const double *floats;
        const uint8_t *bools;
        const struct tn_value *values;
        const char *string;
        const char *const *strings;
        tn_generator *generator;
        void *pointer;
    } as;
} tn_value;

/* Lists as typed calls take and return them. {NULL, 0} is absent; as a required list it is an empty one. */
/* Compilers name this type when they refuse a plain number in the place of a list. */
typedef int64_t tn_write_TN_INTS;
typedef struct tn_ints {
    const tn_write_TN_INTS *data;
    int64_t count;
} tn_ints;
typedef struct tn_floats {
    const double *data;
    int64_t count;
} tn_floats;
typedef struct tn_bools {
    const uint8_t *data;
    int64_t count;
} tn_bools;
typedef struct tn_tensors {
    tn_tensor *const *data;
    int64_t count;
} tn_tensors;
typedef struct tn_scalars {
    const tn_value *data;
    int64_t count;
} tn_scalars;

/* A list that a failed call returns has count 0, and this many items behind `data`, all NULL, so that a program
 * that indexes it before it looks for errors gets NULL. */
#define TN_FAILED_LIST_ITEMS 1024
/* Item i of a list, or NULL if there is no item i. */
static inline TN_ALWAYS_INLINE tn_tensor *tn_list_at(tn_tensors list, int64_t i)
{
    return list.data && i >= 0 && i < list.count ? list.data[i] : NULL;
}

/* Make a value. None of these allocates or fails; spans are borrowed, not copied. */
static inline TN_ALWAYS_INLINE tn_value tn_value_make(uint32_t tag, uint32_t count)
{
    tn_value v;
    v.tag = tag;
    v.count = count;
    v.as.i = 0;
    return v;
}
static inline TN_ALWAYS_INLINE tn_value tn_value_none(void)
{
    return tn_value_make(TN_TAG_NONE, 0);
}
static inline TN_ALWAYS_INLINE tn_value tn_value_tensor(tn_tensor *t)
{
    tn_value v = tn_value_make(t ? TN_TAG_TENSOR : TN_TAG_NONE, 0);
    v.as.tensor = t;
    return v;
}
static inline TN_ALWAYS_INLINE tn_value tn_value_tensors(tn_tensor *const *data, int64_t count)
{
    tn_value v = tn_value_make(data ? TN_TAG_TENSORS : TN_TAG_NONE, TN_CAST(uint32_t, count));
    v.as.tensors = data;
    return v;
}
static inline TN_ALWAYS_INLINE tn_value tn_value_int(int64_t i)
{
    tn_value v = tn_value_make(TN_TAG_INT, 0);
    v.as.i = i;
    return v;
}
static inline TN_ALWAYS_INLINE tn_value tn_value_opt_int(int64_t i)
{
    return i == TN_NONE ? tn_value_none() : tn_value_int(i);
}
static inline TN_ALWAYS_INLINE tn_value tn_value_float(double f)
{
    tn_value v = tn_value_make(TN_TAG_FLOAT, 0);
    v.as.f = f;
    return v;
}
static inline TN_ALWAYS_INLINE tn_value tn_value_opt_float(double f)
{
    return f == TN_CAST(double, TN_NONE) ? tn_value_none() : tn_value_float(f);
}
static inline TN_ALWAYS_INLINE tn_value tn_value_bool(int32_t b)
{
    tn_value v = tn_value_make(TN_TAG_BOOL, 0);
    v.as.i = b != 0;
    return v;
}
/* `pair` is {real, imaginary} and must outlive the value. */
static inline TN_ALWAYS_INLINE tn_value tn_value_complex(const double *pair)
{
    tn_value v = tn_value_make(TN_TAG_COMPLEX, 2);
    v.as.floats = pair;
    return v;
}
static inline TN_ALWAYS_INLINE tn_value tn_value_string(const char *s)
{
    tn_value v = tn_value_make(s ? TN_TAG_STRING : TN_TAG_NONE, 0);
    if (s) {
        while (s[v.count]) v.count++;
    }
    v.as.string = s;
    return v;
}
static inline TN_ALWAYS_INLINE tn_value tn_value_ints(const int64_t *data, int64_t count)
{
    tn_value v = tn_value_make(data ? TN_TAG_INTS : TN_TAG_NONE, TN_CAST(uint32_t, count));
    v.as.ints = data;
    return v;
}
static inline TN_ALWAYS_INLINE tn_value tn_value_floats(const double *data, int64_t count)
{
    tn_value v = tn_value_make(data ? TN_TAG_FLOATS : TN_TAG_NONE, TN_CAST(uint32_t, count));
    v.as.floats = data;
    return v;
}
static inline TN_ALWAYS_INLINE tn_value tn_value_bools(const uint8_t *data, int64_t count)
{
    tn_value v = tn_value_make(data ? TN_TAG_BOOLS : TN_TAG_NONE, TN_CAST(uint32_t, count));
    v.as.bools = data;
    return v;
}
static inline TN_ALWAYS_INLINE tn_value tn_value_scalars(const tn_value *data, int64_t count)
{
    tn_value v = tn_value_make(data ? TN_TAG_SCALARS : TN_TAG_NONE, TN_CAST(uint32_t, count));
    v.as.values = data;
    return v;
}
static inline TN_ALWAYS_INLINE tn_value tn_value_strings(const char *const *data, int64_t count)
{
    tn_value v = tn_value_make(data ? TN_TAG_STRINGS : TN_TAG_NONE, TN_CAST(uint32_t, count));
    v.as.strings = data;
    return v;
}
/* 0 is absent. */
static inline TN_ALWAYS_INLINE tn_value tn_value_dtype(tn_dtype dtype)
{
    tn_value v = tn_value_make(dtype ? TN_TAG_DTYPE : TN_TAG_NONE, 0);
    v.as.i = dtype;
    return v;
}
static inline TN_ALWAYS_INLINE tn_value tn_value_layout(uint32_t layout)
{
    tn_value v = tn_value_make(layout ? TN_TAG_LAYOUT : TN_TAG_NONE, 0);
    v.as.i = layout;
    return v;
}
static inline TN_ALWAYS_INLINE tn_value tn_value_device(tn_device device)
{
    tn_value v = tn_value_make(device ? TN_TAG_DEVICE : TN_TAG_NONE, 0);
    v.as.device = device;
    return v;
}
/* -1 is absent: 0 is the contiguous format. */
static inline TN_ALWAYS_INLINE tn_value tn_value_memory_format(int32_t format)
{
    tn_value v = tn_value_make(format >= 0 ? TN_TAG_MEMORY_FORMAT : TN_TAG_NONE, 0);
    v.as.i = format;
    return v;
}
static inline TN_ALWAYS_INLINE tn_value tn_value_generator(tn_generator *generator)
{
    tn_value v = tn_value_make(generator ? TN_TAG_GENERATOR : TN_TAG_NONE, 0);
    v.as.generator = generator;
    return v;
}

/* Read a value. A value of another tag reads as NULL, 0 or NaN. */
static inline TN_ALWAYS_INLINE tn_tensor *tn_value_as_tensor(tn_value v)
{
    return v.tag == TN_TAG_TENSOR ? v.as.tensor : NULL;
}
static inline TN_ALWAYS_INLINE int64_t tn_value_as_int(tn_value v)
{
    return v.tag == TN_TAG_FLOAT     ? TN_CAST(int64_t, v.as.f)
           : v.tag == TN_TAG_COMPLEX ? TN_CAST(int64_t, v.as.floats[0])
           : v.tag == TN_TAG_NONE    ? 0
                                     : v.as.i;
}
static inline TN_ALWAYS_INLINE tn_dtype tn_value_as_dtype(tn_value v)
{
    return TN_CAST(tn_dtype, tn_value_as_int(v));
}
static inline TN_ALWAYS_INLINE double tn_value_as_float(tn_value v)
{
    return v.tag == TN_TAG_FLOAT                         ? v.as.f
           : v.tag == TN_TAG_COMPLEX                     ? v.as.floats[0]
           : v.tag == TN_TAG_INT || v.tag == TN_TAG_BOOL ? TN_CAST(double, v.as.i)
                                                         : 0.0 / 0.0;
}
static inline TN_ALWAYS_INLINE int32_t tn_value_as_bool(tn_value v)
{
    return v.tag == TN_TAG_FLOAT ? v.as.f != 0 : v.tag == TN_TAG_NONE ? 0 : v.as.i != 0;
}
static inline TN_ALWAYS_INLINE tn_tensors tn_value_as_tensors(tn_value v)
{
    tn_tensors list;
    list.data = v.tag == TN_TAG_TENSORS ? v.as.tensors : NULL;
    list.count = v.tag == TN_TAG_TENSORS ? TN_CAST(int64_t, v.count) : 0;
    return list;
}

#ifndef __cplusplus
static inline TN_ALWAYS_INLINE tn_value tn_value_same(tn_value v)
{
    return v;
}
/*
 * The value of a Scalar argument, from any C number: bool, float and complex keep their kind, every other
 * type becomes an int; a tn_value is passed through. The parts of a complex number live to the end of the
 * enclosing block, like the items of the lists below.
 */
#define TN_SCALAR(x) TN_SCALAR_MAKER(x)(TN_SCALAR_CONTENTS(x))

/* Lists from their items: TN_INTS(2, 3). TN_NO_INTS is the empty list. They live to the end of the enclosing
 * block. */
#define TN_INTS(...) \
    ((tn_ints){(const int64_t[]){__VA_ARGS__}, (int64_t)(sizeof((const int64_t[]){__VA_ARGS__}) / 8)})
#define TN_NO_INTS ((tn_ints){(const int64_t[]){0}, 0})
#define TN_FLOATS(...) \
    ((tn_floats){(const double[]){__VA_ARGS__}, (int64_t)(sizeof((const double[]){__VA_ARGS__}) / 8)})
#define TN_BOOLS(...) \
    ((tn_bools){(const uint8_t[]){__VA_ARGS__}, (int64_t)sizeof((const uint8_t[]){__VA_ARGS__})})
#define TN_TENSORS(...)                              \
    ((tn_tensors){(tn_tensor *const[]){__VA_ARGS__}, \
                  (int64_t)(sizeof((tn_tensor *const[]){__VA_ARGS__}) / sizeof(tn_tensor *))})
#endif

TN_END_DECLS

#ifndef __cplusplus
#define TN_SCALAR_MAKER(x)                            \
    _Generic((x), _Bool                               \
             : tn_value_bool, float                   \
             : tn_value_float, double                 \
             : tn_value_float, long double            \
             : tn_value_float, float _Complex         \
             : tn_value_complex, double _Complex      \
             : tn_value_complex, long double _Complex \
             : tn_value_complex, tn_value             \
             : tn_value_same, default                 \
             : tn_value_int)
#define TN_SCALAR_CONTENTS(x)                           \
    _Generic((x), float _Complex                        \
             : TN_SCALAR_PARTS(x), double _Complex      \
             : TN_SCALAR_PARTS(x), long double _Complex \
             : TN_SCALAR_PARTS(x), default              \
             : (x))
/* C lays a complex number out as an array of its two parts. */
#define TN_SCALAR_PARTS(x) ((const double *)&(double _Complex){_Generic((x), tn_value : 0, default : (x))})
#endif
#endif
