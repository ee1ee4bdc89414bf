/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that say where the program made them, so that the error of a failed one has file and line. The typed calls
 * of ops.h do so by themselves; here are the functions of the other headers. Each is a macro over an inline
 * function, in C and C++; its name without parentheses is the function itself. Defined away by TN_NO_PLACES.
 *
 * A library over Tenon does the same for its functions: take the status of the scope before, and call
 * tn_scope_place if the scope had not failed before and has now.
 */
#ifndef TENON_PLACE_H
#define TENON_PLACE_H

#include <tenon/autograd.h>
#include <tenon/io.h>
#include <tenon/tensor.h>
#include <tenon/trace.h>

#if !defined(TN_NO_PLACES) && !defined(TN_PLUGIN)

TN_BEGIN_DECLS

/* The place of a call that was made on a scope with status `before`, if it was the first to fail. */
static inline void tn_place_failed(tn_scope *s, int32_t before, const char *file, int32_t line)
{
    if (!before && s && tn_scope_failed(s)) tn_scope_place(s, file, (uint32_t)line);
}
static inline tn_tensor *tn_from_data_at(const char *file, int32_t line, tn_scope *s, tn_dtype dtype,
                                         tn_ints sizes, const void *data, tn_device device)
{
    int32_t before = tn_scope_failed(s);
    tn_tensor *t = tn_from_data(s, dtype, sizes, data, device);
    if (!t) tn_place_failed(s, before, file, line);
    return t;
}
static inline tn_tensor *tn_from_blob_at(const char *file, int32_t line, tn_scope *s, const tn_blob *blob)
{
    int32_t before = tn_scope_failed(s);
    tn_tensor *t = tn_from_blob(s, blob);
    if (!t) tn_place_failed(s, before, file, line);
    return t;
}
static inline tn_tensor *tn_index_items_at(const char *file, int32_t line, tn_scope *s, tn_tensor *x,
                                           const tn_index_item *items, int64_t count)
{
    int32_t before = tn_scope_failed(s);
    tn_tensor *t = tn_index_items(s, x, items, count);
    if (!t) tn_place_failed(s, before, file, line);
    return t;
}
static inline tn_tensor *tn_index_put_items_at(const char *file, int32_t line, tn_scope *s, tn_tensor *x,
                                               tn_tensor *value, const tn_index_item *items, int64_t count)
{
    int32_t before = tn_scope_failed(s);
    tn_tensor *t = tn_index_put_items(s, x, value, items, count);
    if (!t) tn_place_failed(s, before, file, line);
    return t;
}
static inline double tn_item_double_at(const char *file, int32_t line, tn_scope *s, const tn_tensor *t)
{
    int32_t before = tn_scope_failed(s);
    double value = tn_item_double(s, t);
    if (value != value) tn_place_failed(s, before, file, line);
    return value;
}
static inline int64_t tn_item_int_at(const char *file, int32_t line, tn_scope *s, const tn_tensor *t)
{
    int32_t before = tn_scope_failed(s);
    int64_t value = tn_item_int(s, t);
    if (!value) tn_place_failed(s, before, file, line);
    return value;
}
static inline int32_t tn_item_bool_at(const char *file, int32_t line, tn_scope *s, const tn_tensor *t)
{
    int32_t before = tn_scope_failed(s);
    int32_t value = tn_item_bool(s, t);
    if (!value) tn_place_failed(s, before, file, line);
    return value;
}
static inline int32_t tn_to_host_at(const char *file, int32_t line, tn_scope *s, const tn_tensor *t,
                                    void *out, uint64_t bytes)
{
    int32_t before = tn_scope_failed(s), status = tn_to_host(s, t, out, bytes);
    if (status) tn_place_failed(s, before, file, line);
    return status;
}
static inline const char *tn_format_at(const char *file, int32_t line, tn_scope *s, const tn_tensor *t,
                                       const tn_print_options *options)
{
    int32_t before = tn_scope_failed(s);
    const char *text = tn_format(s, t, options);
    if (!text) tn_place_failed(s, before, file, line);
    return text;
}
static inline int32_t tn_backward_at(const char *file, int32_t line, tn_scope *s, tn_tensor *root)
{
    int32_t before = tn_scope_failed(s), status = tn_backward(s, root);
    if (status) tn_place_failed(s, before, file, line);
    return status;
}
static inline int32_t tn_backward_with_at(const char *file, int32_t line, tn_scope *s, tn_tensors roots,
                                          const tn_backward_options *options)
{
    int32_t before = tn_scope_failed(s), status = tn_backward_with(s, roots, options);
    if (status) tn_place_failed(s, before, file, line);
    return status;
}
static inline int32_t tn_grad_at(const char *file, int32_t line, tn_scope *s, tn_tensors roots,
                                 tn_tensors inputs, const tn_backward_options *options, tn_tensor **out)
{
    int32_t before = tn_scope_failed(s), status = tn_grad(s, roots, inputs, options, out);
    if (status) tn_place_failed(s, before, file, line);
    return status;
}
static inline tn_tensor *tn_safetensors_get_at(const char *file, int32_t line, tn_scope *s,
                                               tn_safetensors *tensors, const char *name, tn_device device)
{
    int32_t before = tn_scope_failed(s);
    tn_tensor *t = tn_safetensors_get(s, tensors, name, device);
    if (!t) tn_place_failed(s, before, file, line);
    return t;
}
static inline int32_t tn_call_trace_run_at(const char *file, int32_t line, tn_scope *s,
                                           const tn_call_trace *trace, tn_tensors inputs, tn_tensor **outs)
{
    int32_t before = tn_scope_failed(s), status = tn_call_trace_run(s, trace, inputs, outs);
    if (status) tn_place_failed(s, before, file, line);
    return status;
}

TN_END_DECLS

#define tn_from_data(...)       tn_from_data_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_from_blob(...)       tn_from_blob_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_index_items(...)     tn_index_items_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_index_put_items(...) tn_index_put_items_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_item_double(...)     tn_item_double_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_item_int(...)        tn_item_int_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_item_bool(...)       tn_item_bool_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_to_host(...)         tn_to_host_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_format(...)          tn_format_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_backward(...)        tn_backward_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_backward_with(...)   tn_backward_with_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_grad(...)            tn_grad_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_safetensors_get(...) tn_safetensors_get_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_call_trace_run(...)  tn_call_trace_run_at(__FILE__, __LINE__, __VA_ARGS__)
#endif

#endif
