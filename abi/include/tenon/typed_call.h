/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the typed calls of ops.h and ops.hpp are made of: how options that are left out are told from those that are
 * given, and how the values are passed on and the results read. Programs use the calls and nothing of this file.
 */
#ifndef TENON_TYPED_CALL_H
#define TENON_TYPED_CALL_H

#include <tenon/op.h>
#include <tenon/op_numbers.h>
#ifdef TN_PLUGIN
#include <tenon/plugin.h> /* the calls go through the host's table */
#endif

#ifdef __cplusplus
#include <tenon/cplusplus.hpp>
#define TN_NUMBERS_GO_TO_SCALAR_CALLS(call) call /* a number is not a tensor in C++ */
#else
typedef tn_value tn_scalar;

/* The first argument becomes a scalar; the options follow it. */
#define TN_OPS_SCALAR_FIRST(x, ...) TN_SCALAR(x), __VA_ARGS__

/*
 * Around a call with options. A default that the caller overrides is intended, so the warning is off for the length of
 * the call; an integer where a list (a pointer) is wanted is an error. Compilers show the name of this macro beside it.
 */
#ifdef __GNUC__
#define TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(call)                             \
    __extension__({                                                                          \
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Woverride-init\"") \
            _Pragma("GCC diagnostic error \"-Wint-conversion\"") call;                       \
        _Pragma("GCC diagnostic pop")                                                        \
    })
/* Around a call that takes tensors: a number in place of one is an error, tn_mul(s, x, 2). For numbers there is tn_mul_scalar. */
#define TN_NUMBERS_GO_TO_SCALAR_CALLS(call)                                                       \
    __extension__({                                                                               \
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic error \"-Wint-conversion\"") call; \
        _Pragma("GCC diagnostic pop")                                                             \
    })
#else
#define TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR(call) call
#define TN_NUMBERS_GO_TO_SCALAR_CALLS(call)                      call
#endif

/* What scalar and list options are until the caller sets them. A plain number sets the first member only. */
#define TN_OPS_UNSET                          \
    {                                         \
        TN_OPS_UNSET_TAG, TN_OPS_UNSET_COUNT, \
        {                                     \
            0                                 \
        }                                     \
    }
#define TN_OPS_UNSET_LIST                     \
    {                                         \
        TN_OPS_UNSET_DATA, TN_OPS_UNSET_COUNT \
    }
#if defined(__has_attribute)
#if __has_attribute(error)
#define TN_OPS_CAN_REFUSE
void tn_ops_plain_number(void)
    __attribute__((error("a scalar option is written TN_SCALAR(x), not as a plain number")));
void tn_ops_plain_list(void)
    __attribute__((error("a list option is written TN_INTS(...), not as a plain number")));
#endif
#endif

/* Where the program makes a call. TN_NO_PLACES, defined before this header, leaves the places out; operator libraries
 * have none, so that an error says where the program called the operator. */
#ifndef TN_PLACE
#if defined(TN_NO_PLACES) || defined(TN_PLUGIN)
#define TN_PLACE NULL, 0
#else
#define TN_PLACE __FILE__, __LINE__
#endif
#endif
#endif

/* No maker of values gives this tag or count, and no program has this address. */
#define TN_OPS_UNSET_TAG   0x80706050u
#define TN_OPS_UNSET_COUNT 0x8f7f6f5fu
#ifdef __cplusplus
#define TN_OPS_UNSET_DATA reinterpret_cast<const void *>(TN_CAST(uintptr_t, TN_OPS_UNSET_TAG))
#else
#define TN_OPS_UNSET_DATA ((const void *)(uintptr_t)TN_OPS_UNSET_TAG)
#endif

/* Used by the calls below only. After a failure results are absent. */
static inline int32_t tn_ops_call(tn_scope *s, uint32_t op, const tn_value *v, uint32_t n, tn_value *r,
                                  uint32_t n_results, const char *file, uint32_t line)
{
    for (uint32_t i = 0; i < n_results; i++) r[i] = tn_value_none();
#ifdef TN_PLUGIN
    (void)file;
    (void)line;
    int32_t status = tn_scope_call(s, op, v, n, r, n_results);
    if (status == 0) return status;
#else
    int32_t status =
        file ? tn_scope_call_placed(s, op, v, n, r, n_results) : tn_scope_call(s, op, v, n, r, n_results);
    if (status == 0) return status;
    if (file) tn_scope_call_place(s, file, line);
    if (status == TN_PLACE_WANTED) return 0;
#endif
    for (uint32_t i = 0; i < n_results; i++) r[i] = tn_value_none();
    return status;
}
static inline tn_value tn_ops_value(tn_scope *s, uint32_t op, const tn_value *v, uint32_t n, const char *file,
                                    uint32_t line)
{
    tn_value r;
    tn_ops_call(s, op, v, n, &r, 1, file, line);
    return r;
}
static inline tn_tensor *tn_ops_tensor(tn_scope *s, uint32_t op, const tn_value *v, uint32_t n,
                                       const char *file, uint32_t line)
{
    return tn_value_as_tensor(tn_ops_value(s, op, v, n, file, line));
}
/* A list of results. After a failure its items are NULL. */
static inline TN_ALWAYS_INLINE tn_tensors tn_ops_items(tn_value v)
{
    static tn_tensor *none[TN_FAILED_LIST_ITEMS];
    tn_tensors list = tn_value_as_tensors(v);
    if (!list.data) list.data = none;
    return list;
}
static inline tn_tensors tn_ops_list(tn_scope *s, uint32_t op, const tn_value *v, uint32_t n,
                                     const char *file, uint32_t line)
{
    return tn_ops_items(tn_ops_value(s, op, v, n, file, line));
}
static inline TN_ALWAYS_INLINE tn_value tn_ops_opt_bool(int32_t b)
{
    return b < 0 ? tn_value_none() : tn_value_bool(b);
}
/* The value of a scalar option. A plain number set the tag of the one that was unset, and nothing else. */
static inline TN_ALWAYS_INLINE tn_value tn_ops_option(tn_value v, tn_value other)
{
#ifdef TN_OPS_CAN_REFUSE
    const int plain = (v.count == TN_OPS_UNSET_COUNT) & (v.tag != TN_OPS_UNSET_TAG);
    if (__builtin_constant_p(plain) && plain) tn_ops_plain_number();
#endif
    if (v.count != TN_OPS_UNSET_COUNT) return v.tag == TN_TAG_NONE ? other : v;
    return v.tag == TN_OPS_UNSET_TAG ? other : tn_value_make(TN_TAG_PLAIN, 0);
}
/* The value of a list option: the list, or the default if it is absent or unset. A plain number set the address of
 * the one that was unset, and not the count. A list that points to NULL but has items goes on as it is: the call
 * refuses it. */
static inline TN_ALWAYS_INLINE tn_value tn_ops_option_list(tn_value list, tn_value other)
{
    const int unset = list.as.pointer == TN_OPS_UNSET_DATA,
              plain = (list.count == TN_OPS_UNSET_COUNT) & !unset;
#ifdef TN_OPS_CAN_REFUSE
    if (__builtin_constant_p(plain) && plain) tn_ops_plain_list();
#endif
    if (plain) return tn_value_make(TN_TAG_PLAIN, 0);
    return unset || (list.tag == TN_TAG_NONE && list.count == 0) ? other : list;
}
static inline TN_ALWAYS_INLINE tn_value tn_ops_ints(tn_ints list, const int64_t *other, int64_t count)
{
    return tn_ops_option_list(tn_value_ints(list.data, list.count), tn_value_ints(other, count));
}
static inline TN_ALWAYS_INLINE tn_value tn_ops_floats(tn_floats list, const double *other, int64_t count)
{
    return tn_ops_option_list(tn_value_floats(list.data, list.count), tn_value_floats(other, count));
}
static inline TN_ALWAYS_INLINE tn_value tn_ops_bools(tn_bools list, const uint8_t *other, int64_t count)
{
    return tn_ops_option_list(tn_value_bools(list.data, list.count), tn_value_bools(other, count));
}
static inline TN_ALWAYS_INLINE tn_value tn_ops_scalars(tn_scalars list, const tn_value *other, int64_t count)
{
    return tn_ops_option_list(tn_value_scalars(list.data, list.count), tn_value_scalars(other, count));
}
static inline TN_ALWAYS_INLINE tn_value tn_ops_tensors(tn_tensors list, tn_tensor *const *other,
                                                       int64_t count)
{
    return tn_ops_option_list(tn_value_tensors(list.data, list.count), tn_value_tensors(other, count));
}
/* The empty list, where that is a default. */
static const int64_t tn_ops_nothing[1] = {0};

#ifdef __cplusplus
/* The values of the arguments as one list, and the place of the call. */
template <size_t N> int32_t tn_ops_call(tn_scope *s, uint32_t op, const tn_value (&v)[N], tn_place at)
{
    return tn_ops_call(s, op, v, static_cast<uint32_t>(N), NULL, 0, at.file, at.line);
}
template <size_t N> tn_value tn_ops_value(tn_scope *s, uint32_t op, const tn_value (&v)[N], tn_place at)
{
    return tn_ops_value(s, op, v, static_cast<uint32_t>(N), at.file, at.line);
}
template <size_t N> tn_tensor *tn_ops_tensor(tn_scope *s, uint32_t op, const tn_value (&v)[N], tn_place at)
{
    return tn_ops_tensor(s, op, v, static_cast<uint32_t>(N), at.file, at.line);
}
template <size_t N> tn_tensors tn_ops_list(tn_scope *s, uint32_t op, const tn_value (&v)[N], tn_place at)
{
    return tn_ops_list(s, op, v, static_cast<uint32_t>(N), at.file, at.line);
}
#endif

#endif
