/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that say where the program made them, so that the error of a failed one has file and line, and what
 * TENON_DEBUG logs has them, too. The typed calls of ops.h do so by themselves; here are the functions of the other
 * headers, tn_scope_call among them. Each is a macro over an inline function, in C and C++, or a macro in C alone for those
 * whose errors are tn_last_error(). Its name without parentheses is the function itself. Defined away by TN_NO_PLACES.
 *
 * A library over Tenon does the same for its functions, in C by a line for each:
 *
 *     #define my_layer(...) TN_PLACED_IN(my_layer, __VA_ARGS__)    the first argument is a scope, and there are others
 *     #define my_open(...)  TN_PLACED(my_open(__VA_ARGS__))        without a scope: the error is tn_last_error()
 */
#ifndef TENON_PLACE_H
#define TENON_PLACE_H

#include <tenon/autograd.h>
#include <tenon/collectives.h>
#include <tenon/graph.h>
#include <tenon/interop.h>
#include <tenon/io.h>
#include <tenon/profile.h>
#include <tenon/random.h>
#include <tenon/tensor.h>
#include <tenon/trace.h>

#if !defined(TN_NO_PLACES) && !defined(TN_PLUGIN)

TN_BEGIN_DECLS

/* The place of a call that has returned. `before` is what tn_scope_place_begin gave before it. */
static inline void tn_place_after(tn_scope *s, int32_t before, const char *file, int32_t line)
{
    if (before == TN_PLACE_WANTED) tn_scope_call_place(s, file, TN_CAST(uint32_t, line));
    if (before <= 0 && s && tn_scope_failed(s)) tn_scope_place(s, file, TN_CAST(uint32_t, line));
}
/* The same for a function that runs functions of the program: the place of a call inside them is kept. */
static inline void tn_place_inner(tn_scope *s, int32_t before, const char *file, int32_t line)
{
    if (before == TN_PLACE_WANTED) tn_scope_call_place(s, file, TN_CAST(uint32_t, line));
    if (before <= 0 && s && tn_scope_failed(s) && !tn_scope_error(s)->file)
        tn_scope_place(s, file, TN_CAST(uint32_t, line));
}
static inline int32_t tn_scope_call_at(const char *file, int32_t line, tn_scope *s, uint32_t op,
                                       const tn_value *args, uint32_t n_args, tn_value *outs, uint32_t n_outs)
{
    int32_t status = tn_scope_call_placed(s, op, args, n_args, outs, n_outs);
    if (status) tn_scope_call_place(s, file, TN_CAST(uint32_t, line));
    return status == TN_PLACE_WANTED ? TN_OK : status;
}
static inline tn_tensor *tn_from_data_at(const char *file, int32_t line, tn_scope *s, tn_dtype dtype,
                                         tn_ints sizes, const void *data, tn_device device)
{
    int32_t before = tn_scope_place_begin(s);
    tn_tensor *y = tn_from_data(s, dtype, sizes, data, device);
    if (!y || before) tn_place_after(s, before, file, line);
    return y;
}
static inline tn_tensor *tn_from_blob_at(const char *file, int32_t line, tn_scope *s, const tn_blob *blob)
{
    int32_t before = tn_scope_place_begin(s);
    tn_tensor *y = tn_from_blob(s, blob);
    if (!y || before) tn_place_after(s, before, file, line);
    return y;
}
static inline tn_tensor *tn_pin_memory_at(const char *file, int32_t line, tn_scope *s, tn_tensor *t,
                                          tn_device device)
{
    int32_t before = tn_scope_place_begin(s);
    tn_tensor *y = tn_pin_memory(s, t, device);
    if (!y || before) tn_place_after(s, before, file, line);
    return y;
}
static inline tn_tensor *tn_scalar_tensor_of_at(const char *file, int32_t line, tn_scope *s, tn_value scalar,
                                                tn_dtype dtype, tn_device device)
{
    int32_t before = tn_scope_place_begin(s);
    tn_tensor *y = tn_scalar_tensor_of(s, scalar, dtype, device);
    if (!y || before) tn_place_after(s, before, file, line);
    return y;
}
static inline tn_tensor *tn_from_dlpack_at(const char *file, int32_t line, tn_scope *s,
                                           struct DLManagedTensorVersioned *managed)
{
    int32_t before = tn_scope_place_begin(s);
    tn_tensor *y = tn_from_dlpack(s, managed);
    if (!y || before) tn_place_after(s, before, file, line);
    return y;
}
static inline tn_tensor *tn_index_items_at(const char *file, int32_t line, tn_scope *s, tn_tensor *x,
                                           const tn_index_item *items, int64_t count)
{
    int32_t before = tn_scope_place_begin(s);
    tn_tensor *y = tn_index_items(s, x, items, count);
    if (!y || before) tn_place_after(s, before, file, line);
    return y;
}
static inline tn_tensor *tn_index_put_items_at(const char *file, int32_t line, tn_scope *s, tn_tensor *x,
                                               tn_tensor *value, const tn_index_item *items, int64_t count)
{
    int32_t before = tn_scope_place_begin(s);
    tn_tensor *y = tn_index_put_items(s, x, value, items, count);
    if (!y || before) tn_place_after(s, before, file, line);
    return y;
}
static inline double tn_item_double_at(const char *file, int32_t line, tn_scope *s, const tn_tensor *t)
{
    int32_t before = tn_scope_place_begin(s);
    double value = tn_item_double(s, t);
    if (value != value || before) tn_place_after(s, before, file, line);
    return value;
}
static inline int64_t tn_item_int_at(const char *file, int32_t line, tn_scope *s, const tn_tensor *t)
{
    int32_t before = tn_scope_place_begin(s);
    int64_t value = tn_item_int(s, t);
    if (!value || before) tn_place_after(s, before, file, line);
    return value;
}
static inline int32_t tn_item_bool_at(const char *file, int32_t line, tn_scope *s, const tn_tensor *t)
{
    int32_t before = tn_scope_place_begin(s), value = tn_item_bool(s, t);
    if (!value || before) tn_place_after(s, before, file, line);
    return value;
}
static inline int32_t tn_item_complex_at(const char *file, int32_t line, tn_scope *s, const tn_tensor *t,
                                         double *out)
{
    int32_t before = tn_scope_place_begin(s), status = tn_item_complex(s, t, out);
    if (status || before) tn_place_after(s, before, file, line);
    return status;
}
static inline int32_t tn_to_host_at(const char *file, int32_t line, tn_scope *s, const tn_tensor *t,
                                    void *out, uint64_t bytes)
{
    int32_t before = tn_scope_place_begin(s), status = tn_to_host(s, t, out, bytes);
    if (status || before) tn_place_after(s, before, file, line);
    return status;
}
static inline const char *tn_format_at(const char *file, int32_t line, tn_scope *s, const tn_tensor *t,
                                       const tn_print_options *options)
{
    int32_t before = tn_scope_place_begin(s);
    const char *text = tn_format(s, t, options);
    if (!*text || before) tn_place_after(s, before, file, line);
    return text;
}
static inline int32_t tn_backward_at(const char *file, int32_t line, tn_scope *s, tn_tensor *root)
{
    int32_t before = tn_scope_place_begin(s), status = tn_backward(s, root);
    if (status || before) tn_place_inner(s, before, file, line);
    return status;
}
static inline int32_t tn_backward_with_at(const char *file, int32_t line, tn_scope *s, tn_tensors roots,
                                          const tn_backward_options *options)
{
    int32_t before = tn_scope_place_begin(s), status = tn_backward_with(s, roots, options);
    if (status || before) tn_place_inner(s, before, file, line);
    return status;
}
static inline int32_t tn_grad_at(const char *file, int32_t line, tn_scope *s, tn_tensors roots,
                                 tn_tensors inputs, const tn_backward_options *options, tn_tensor **out)
{
    int32_t before = tn_scope_place_begin(s), status = tn_grad(s, roots, inputs, options, out);
    if (status || before) tn_place_inner(s, before, file, line);
    return status;
}
static inline int32_t tn_function_apply_at(const char *file, int32_t line, tn_scope *s,
                                           const tn_function *function, void *user, tn_tensors inputs,
                                           tn_tensor **out, uint32_t n_outs)
{
    int32_t before = tn_scope_place_begin(s),
            status = tn_function_apply(s, function, user, inputs, out, n_outs);
    if (status || before) tn_place_inner(s, before, file, line);
    return status;
}
static inline int32_t tn_gradcheck_at(const char *file, int32_t line, tn_scope *s, tn_check_fn f, void *user,
                                      tn_tensors inputs, const tn_gradcheck_options *options)
{
    int32_t before = tn_scope_place_begin(s), status = tn_gradcheck(s, f, user, inputs, options);
    if (status || before) tn_place_inner(s, before, file, line);
    return status;
}
static inline int32_t tn_checkpoint_at(const char *file, int32_t line, tn_scope *s, tn_tensors_fn f,
                                       void *user, tn_tensors inputs, const tn_checkpoint_options *options,
                                       tn_tensor **out)
{
    const uint64_t errors = tn_error_count();
    int32_t before = tn_scope_place_begin(s), status = tn_checkpoint(s, f, user, inputs, options, out);
    if (status || before) tn_place_inner(s, before, file, line);
    if (!s) tn_error_place(errors, file, TN_CAST(uint32_t, line));
    return status;
}
/* These keep a pointer, which may be that of a literal in the call. */
static inline int32_t tn_saved_hooks_push_at(const char *file, int32_t line, tn_context *ctx,
                                             const tn_saved_hooks *hooks)
{
    const uint64_t errors = tn_error_count();
    int32_t status = tn_saved_hooks_push(ctx, hooks);
    if (status) tn_error_place(errors, file, TN_CAST(uint32_t, line));
    return status;
}
static inline int32_t tn_register_hook_at(const char *file, int32_t line, tn_tensor *t, tn_tensor_hook hook,
                                          void *user, uint64_t *out_handle)
{
    const uint64_t errors = tn_error_count();
    int32_t status = tn_register_hook(t, hook, user, out_handle);
    if (status) tn_error_place(errors, file, TN_CAST(uint32_t, line));
    return status;
}
static inline int32_t tn_safetensors_save_at(const char *file, int32_t line, tn_scope *s, const char *path,
                                             const tn_named_tensor *tensors, uint64_t count,
                                             const char *const *metadata, uint64_t n_metadata)
{
    int32_t before = tn_scope_place_begin(s),
            status = tn_safetensors_save(s, path, tensors, count, metadata, n_metadata);
    if (status || before) tn_place_after(s, before, file, line);
    return status;
}
static inline tn_tensor *tn_safetensors_get_at(const char *file, int32_t line, tn_scope *s,
                                               tn_safetensors *tensors, const char *name, tn_device device)
{
    int32_t before = tn_scope_place_begin(s);
    tn_tensor *y = tn_safetensors_get(s, tensors, name, device);
    if (!y || before) tn_place_after(s, before, file, line);
    return y;
}
static inline tn_tensor *tn_safetensors_map_at(const char *file, int32_t line, tn_scope *s,
                                               tn_safetensors *tensors, const char *name)
{
    int32_t before = tn_scope_place_begin(s);
    tn_tensor *y = tn_safetensors_map(s, tensors, name);
    if (!y || before) tn_place_after(s, before, file, line);
    return y;
}
static inline int32_t tn_call_trace_run_at(const char *file, int32_t line, tn_scope *s,
                                           const tn_call_trace *trace, tn_tensors inputs, tn_tensor **outs)
{
    int32_t before = tn_scope_place_begin(s), status = tn_call_trace_run(s, trace, inputs, outs);
    if (status || before) tn_place_after(s, before, file, line);
    return status;
}

TN_END_DECLS

#define tn_scope_call(...)       tn_scope_call_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_from_data(...)        tn_from_data_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_from_blob(...)        tn_from_blob_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_pin_memory(...)       tn_pin_memory_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_scalar_tensor_of(...) tn_scalar_tensor_of_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_from_dlpack(...)      tn_from_dlpack_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_index_items(...)      tn_index_items_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_index_put_items(...)  tn_index_put_items_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_item_double(...)      tn_item_double_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_item_int(...)         tn_item_int_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_item_bool(...)        tn_item_bool_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_item_complex(...)     tn_item_complex_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_to_host(...)          tn_to_host_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_format(...)           tn_format_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_backward(...)         tn_backward_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_backward_with(...)    tn_backward_with_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_grad(...)             tn_grad_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_function_apply(...)   tn_function_apply_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_gradcheck(...)        tn_gradcheck_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_checkpoint(...)       tn_checkpoint_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_saved_hooks_push(...) tn_saved_hooks_push_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_register_hook(...)    tn_register_hook_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_safetensors_save(...) tn_safetensors_save_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_safetensors_get(...)  tn_safetensors_get_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_safetensors_map(...)  tn_safetensors_map_at(__FILE__, __LINE__, __VA_ARGS__)
#define tn_call_trace_run(...)   tn_call_trace_run_at(__FILE__, __LINE__, __VA_ARGS__)

#ifndef __cplusplus
/* A call of the program while it runs: a variable of the block that the call is made in. */
typedef struct tn_placed_call {
    tn_scope *scope; /* NULL: a function without a scope */
    const char *file;
    int32_t line;
    int32_t before; /* of tn_scope_place_begin */
    uint64_t errors;
} tn_placed_call;

static inline tn_placed_call tn_placed_in(tn_scope *s, const char *file, int32_t line)
{
    tn_placed_call c = {s, file, line, 0, tn_error_count()};
    c.before = tn_scope_place_begin(s);
    return c;
}
static inline tn_placed_call tn_placed_here(const char *file, int32_t line)
{
    tn_placed_call c = {NULL, file, line, 0, tn_error_count()};
    return c;
}
static inline void tn_placed_left(tn_placed_call *c)
{
    if (c->scope)
        tn_place_inner(c->scope, c->before, c->file, c->line);
    else
        tn_error_place(c->errors, c->file, (uint32_t)c->line);
}

/* A number makes the variable's name, so that calls as arguments of others do not hide it. */
#ifdef __GNUC__
#define TN_PLACED_IN(function, ...) TN_PLACED_IN_AS(__COUNTER__, function, __VA_ARGS__)
#define TN_PLACED(call)             TN_PLACED_AS(__COUNTER__, call, tn_placed_here, tn_placed_left)
#else
#define TN_PLACED_IN(function, ...) (function)(__VA_ARGS__)
#define TN_PLACED(call)             call
#endif
#define TN_PLACED_IN_AS(number, ...)    TN_PLACED_IN_VARIABLE(number, __VA_ARGS__)
#define TN_PLACED_AS(number, call, ...) TN_PLACED_VARIABLE(number, call, __VA_ARGS__)
#define TN_PLACED_IN_VARIABLE(number, function, s, ...)                              \
    __extension__({                                                                  \
        __attribute__((cleanup(tn_placed_left))) tn_placed_call tn_placed_##number = \
            tn_placed_in(s, __FILE__, __LINE__);                                     \
        function(tn_placed_##number.scope, __VA_ARGS__);                             \
    })
#define TN_PLACED_VARIABLE(number, call, begin, left)                              \
    __extension__({                                                                \
        __attribute__((cleanup(left), unused)) tn_placed_call tn_placed_##number = \
            begin(__FILE__, __LINE__);                                             \
        call;                                                                      \
    })

/* Not those that keep a pointer of their arguments beyond the call: what a literal in the call made would be gone. */
#define tn_safetensors_open(...)            TN_PLACED(tn_safetensors_open(__VA_ARGS__))
#define tn_scope_open(...)                  TN_PLACED(tn_scope_open(__VA_ARGS__))
#define tn_scope_open_with(...)             TN_PLACED(tn_scope_open_with(__VA_ARGS__))
#define tn_scope_open_child(...)            TN_PLACED(tn_scope_open_child(__VA_ARGS__))
#define tn_set_default_dtype(...)           TN_PLACED(tn_set_default_dtype(__VA_ARGS__))
#define tn_library_open(...)                TN_PLACED(tn_library_open(__VA_ARGS__))
#define tn_operator_find(...)               TN_PLACED(tn_operator_find(__VA_ARGS__))
#define tn_device_parse(...)                TN_PLACED(tn_device_parse(__VA_ARGS__))
#define tn_device_count(...)                TN_PLACED(tn_device_count(__VA_ARGS__))
#define tn_device_at(...)                   TN_PLACED(tn_device_at(__VA_ARGS__))
#define tn_device_get_facts(...)            TN_PLACED(tn_device_get_facts(__VA_ARGS__))
#define tn_device_choose(...)               TN_PLACED(tn_device_choose(__VA_ARGS__))
#define tn_device_setting(...)              TN_PLACED(tn_device_setting(__VA_ARGS__))
#define tn_device_get_setting(...)          TN_PLACED(tn_device_get_setting(__VA_ARGS__))
#define tn_device_set_setting(...)          TN_PLACED(tn_device_set_setting(__VA_ARGS__))
#define tn_device_synchronize(...)          TN_PLACED(tn_device_synchronize(__VA_ARGS__))
#define tn_device_memory(...)               TN_PLACED(tn_device_memory(__VA_ARGS__))
#define tn_device_native(...)               TN_PLACED(tn_device_native(__VA_ARGS__))
#define tn_device_current(...)              TN_PLACED(tn_device_current(__VA_ARGS__))
#define tn_device_set_current(...)          TN_PLACED(tn_device_set_current(__VA_ARGS__))
#define tn_stream_create(...)               TN_PLACED(tn_stream_create(__VA_ARGS__))
#define tn_stream_current(...)              TN_PLACED(tn_stream_current(__VA_ARGS__))
#define tn_stream_default(...)              TN_PLACED(tn_stream_default(__VA_ARGS__))
#define tn_stream_set_current(...)          TN_PLACED(tn_stream_set_current(__VA_ARGS__))
#define tn_stream_synchronize(...)          TN_PLACED(tn_stream_synchronize(__VA_ARGS__))
#define tn_stream_query(...)                TN_PLACED(tn_stream_query(__VA_ARGS__))
#define tn_stream_wait_event(...)           TN_PLACED(tn_stream_wait_event(__VA_ARGS__))
#define tn_stream_wait_stream(...)          TN_PLACED(tn_stream_wait_stream(__VA_ARGS__))
#define tn_stream_native(...)               TN_PLACED(tn_stream_native(__VA_ARGS__))
#define tn_stream_wrap(...)                 TN_PLACED(tn_stream_wrap(__VA_ARGS__))
#define tn_event_create(...)                TN_PLACED(tn_event_create(__VA_ARGS__))
#define tn_event_record(...)                TN_PLACED(tn_event_record(__VA_ARGS__))
#define tn_event_query(...)                 TN_PLACED(tn_event_query(__VA_ARGS__))
#define tn_event_synchronize(...)           TN_PLACED(tn_event_synchronize(__VA_ARGS__))
#define tn_event_elapsed(...)               TN_PLACED(tn_event_elapsed(__VA_ARGS__))
#define tn_tensor_native(...)               TN_PLACED(tn_tensor_native(__VA_ARGS__))
#define tn_record_stream(...)               TN_PLACED(tn_record_stream(__VA_ARGS__))
#define tn_memory_get_stats(...)            TN_PLACED(tn_memory_get_stats(__VA_ARGS__))
#define tn_memory_reset_peak(...)           TN_PLACED(tn_memory_reset_peak(__VA_ARGS__))
#define tn_memory_empty_cache(...)          TN_PLACED(tn_memory_empty_cache(__VA_ARGS__))
#define tn_memory_set_limit(...)            TN_PLACED(tn_memory_set_limit(__VA_ARGS__))
#define tn_memory_set_fraction(...)         TN_PLACED(tn_memory_set_fraction(__VA_ARGS__))
#define tn_memory_configure(...)            TN_PLACED(tn_memory_configure(__VA_ARGS__))
#define tn_memory_set_allocator(...)        TN_PLACED(tn_memory_set_allocator(__VA_ARGS__))
#define tn_memory_get_stat(...)             TN_PLACED(tn_memory_get_stat(__VA_ARGS__))
#define tn_memory_record_history(...)       TN_PLACED(tn_memory_record_history(__VA_ARGS__))
#define tn_memory_write_snapshot(...)       TN_PLACED(tn_memory_write_snapshot(__VA_ARGS__))
#define tn_memory_pool_create(...)          TN_PLACED(tn_memory_pool_create(__VA_ARGS__))
#define tn_memory_pool_begin(...)           TN_PLACED(tn_memory_pool_begin(__VA_ARGS__))
#define tn_memory_pool_end(...)             TN_PLACED(tn_memory_pool_end(__VA_ARGS__))
#define tn_memory_pool_get_stats(...)       TN_PLACED(tn_memory_pool_get_stats(__VA_ARGS__))
#define tn_graph_create(...)                TN_PLACED(tn_graph_create(__VA_ARGS__))
#define tn_graph_capture_begin(...)         TN_PLACED(tn_graph_capture_begin(__VA_ARGS__))
#define tn_graph_set_pool(...)              TN_PLACED(tn_graph_set_pool(__VA_ARGS__))
#define tn_graph_capture_end(...)           TN_PLACED(tn_graph_capture_end(__VA_ARGS__))
#define tn_graph_replay(...)                TN_PLACED(tn_graph_replay(__VA_ARGS__))
#define tn_graph_update(...)                TN_PLACED(tn_graph_update(__VA_ARGS__))
#define tn_graph_reset(...)                 TN_PLACED(tn_graph_reset(__VA_ARGS__))
#define tn_communicator_create(...)         TN_PLACED(tn_communicator_create(__VA_ARGS__))
#define tn_communicator_join(...)           TN_PLACED(tn_communicator_join(__VA_ARGS__))
#define tn_communicator_unique_id(...)      TN_PLACED(tn_communicator_unique_id(__VA_ARGS__))
#define tn_communicator_status(...)         TN_PLACED(tn_communicator_status(__VA_ARGS__))
#define tn_communicator_all_reduce(...)     TN_PLACED(tn_communicator_all_reduce(__VA_ARGS__))
#define tn_communicator_broadcast(...)      TN_PLACED(tn_communicator_broadcast(__VA_ARGS__))
#define tn_communicator_all_gather(...)     TN_PLACED(tn_communicator_all_gather(__VA_ARGS__))
#define tn_communicator_reduce_scatter(...) TN_PLACED(tn_communicator_reduce_scatter(__VA_ARGS__))
#define tn_communicator_all_to_all(...)     TN_PLACED(tn_communicator_all_to_all(__VA_ARGS__))
#define tn_communicator_send(...)           TN_PLACED(tn_communicator_send(__VA_ARGS__))
#define tn_communicator_receive(...)        TN_PLACED(tn_communicator_receive(__VA_ARGS__))
#define tn_communicator_barrier(...)        TN_PLACED(tn_communicator_barrier(__VA_ARGS__))
#define tn_generator_create(...)            TN_PLACED(tn_generator_create(__VA_ARGS__))
#define tn_generator_set_state(...)         TN_PLACED(tn_generator_set_state(__VA_ARGS__))
#define tn_default_generator(...)           TN_PLACED(tn_default_generator(__VA_ARGS__))
#define tn_manual_seed(...)                 TN_PLACED(tn_manual_seed(__VA_ARGS__))
#define tn_set_requires_grad(...)           TN_PLACED(tn_set_requires_grad(__VA_ARGS__))
#define tn_retain_grad(...)                 TN_PLACED(tn_retain_grad(__VA_ARGS__))
#define tn_set_grad(...)                    TN_PLACED(tn_set_grad(__VA_ARGS__))
#define tn_profile_begin(...)               TN_PLACED(tn_profile_begin(__VA_ARGS__))
#define tn_profile_end(...)                 TN_PLACED(tn_profile_end(__VA_ARGS__))
#define tn_profile_range_end(...)           TN_PLACED(tn_profile_range_end(__VA_ARGS__))
#define tn_profile_write(...)               TN_PLACED(tn_profile_write(__VA_ARGS__))
#define tn_to_dlpack(...)                   TN_PLACED(tn_to_dlpack(__VA_ARGS__))
#define tn_share_send(...)                  TN_PLACED(tn_share_send(__VA_ARGS__))
#define tn_call_trace_begin(...)            TN_PLACED(tn_call_trace_begin(__VA_ARGS__))
#define tn_call_trace_end(...)              TN_PLACED(tn_call_trace_end(__VA_ARGS__))
#define tn_grad_of(...)                     TN_PLACED_IN(tn_grad_of, __VA_ARGS__)
#define tn_detach(...)                      TN_PLACED_IN(tn_detach, __VA_ARGS__)

#define tn_save_on_cpu(...)                     TN_PLACED(tn_save_on_cpu(__VA_ARGS__))
#define tn_allow_mutation_on_saved_tensors(...) TN_PLACED(tn_allow_mutation_on_saved_tensors(__VA_ARGS__))
#define tn_disable_saved_tensors_hooks(...)     TN_PLACED(tn_disable_saved_tensors_hooks(__VA_ARGS__))
#define tn_jacobian(...)                        TN_PLACED_IN(tn_jacobian, __VA_ARGS__)
#define tn_hessian(...)                         TN_PLACED_IN(tn_hessian, __VA_ARGS__)
#define tn_vjp(...)                             TN_PLACED_IN(tn_vjp, __VA_ARGS__)
#define tn_jvp(...)                             TN_PLACED_IN(tn_jvp, __VA_ARGS__)
#define tn_vhp(...)                             TN_PLACED_IN(tn_vhp, __VA_ARGS__)
#define tn_hvp(...)                             TN_PLACED_IN(tn_hvp, __VA_ARGS__)
#endif

#ifdef __cplusplus
/* Indexing, as the macros of tensor.h do it in C. */
template <size_t N>
tn_tensor *tn_index_at(const char *file, int32_t line, tn_scope *s, tn_tensor *x,
                       const tn_index_item (&items)[N])
{
    return tn_index_items_at(file, line, s, x, items, static_cast<int64_t>(N));
}
template <size_t N>
tn_tensor *tn_index_assign_at(const char *file, int32_t line, tn_scope *s, tn_tensor *x, tn_tensor *value,
                              const tn_index_item (&items)[N])
{
    return tn_index_put_items_at(file, line, s, x, value, items, static_cast<int64_t>(N));
}
#define tn_index(s, x, ...)               tn_index_at(__FILE__, __LINE__, s, x, {__VA_ARGS__})
#define tn_index_assign(s, x, value, ...) tn_index_assign_at(__FILE__, __LINE__, s, x, value, {__VA_ARGS__})
#endif

#elif defined(__cplusplus) && !defined(TN_PLUGIN)
/* Without places. */
template <size_t N> tn_tensor *tn_index(tn_scope *s, tn_tensor *x, const tn_index_item (&items)[N])
{
    return tn_index_items(s, x, items, static_cast<int64_t>(N));
}
template <size_t N>
tn_tensor *tn_index_assign(tn_scope *s, tn_tensor *x, tn_tensor *value, const tn_index_item (&items)[N])
{
    return tn_index_put_items(s, x, value, items, static_cast<int64_t>(N));
}
#define tn_index(s, x, ...)               tn_index(s, x, {__VA_ARGS__})
#define tn_index_assign(s, x, value, ...) tn_index_assign(s, x, value, {__VA_ARGS__})
#endif

#endif
