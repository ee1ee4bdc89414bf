/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program has around its work: a main function, the end of it on an error, steps of loops, and objects that are
 * destroyed when their block is left. Mostly for C; C++ has tenon.hpp.
 *
 *     TN_MAIN(ctx, argc, argv)
 *     {
 *         TN_AUTO(tn_module) net = tn_module_create(ctx, "net", NULL);
 *         ...
 *         TN_AUTO(tn_optimizer) o = tn_adamw_create(net);
 *         TN_STEPS(s, ctx, i, 100) { ... }
 *         TN_TRY(tn_step_status());
 *         return tn_module_save(net, "net.safetensors");
 *     }
 */
#ifndef TENON_PROGRAM_H
#define TENON_PROGRAM_H

#include <tenon/tenon.h>

/* The default of a member of a struct of options, nothing for 0. In C++ the member has it; in C the macro of the call
 * sets it. */
#ifdef __cplusplus
#define TN_OPTION(...) \
    {                  \
        __VA_ARGS__    \
    }
#else
#define TN_OPTION(...)
#endif

/* No value has this type. A struct of options has a pointer to it behind the members that stand in order, so that an option
 * without its name does not compile, whether it is a number or a pointer: `.batch = 8`. */
struct tn_options_have_names;
#if defined(__GNUC__) && !defined(__cplusplus)
#define TN_OPTIONS_HAVE_NAMES(call)                                                                     \
    __extension__({                                                                                     \
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic error \"-Wincompatible-pointer-types\"") \
            call;                                                                                       \
        _Pragma("GCC diagnostic pop")                                                                   \
    })
#else
#define TN_OPTIONS_HAVE_NAMES(call) call
#endif

#ifndef TN_PLUGIN
#include <stdio.h>
#include <string.h>

TN_BEGIN_DECLS

/*
 * A file that replaces another as a whole: between the two calls the program writes to r.to, and a failure leaves the old
 * file. The new one gets the old one's mode, and its owner and group where the process may set them. A link stays one: the
 * file that it leads to is replaced, or made. What is not a file (a pipe, /dev/null) is written as it is. Return 0 or a number
 * of errno; after a failed begin there is no end. `is_good` 0: the old file stays.
 */
typedef struct tn_replacement {
    FILE *to;
    void *file, *reserved; /* private */
} tn_replacement;
TN_API int32_t tn_replace_begin(TN_OUT tn_replacement *r, const char *path) TN_ANY_THREAD;
TN_API int32_t tn_replace_end(tn_replacement *r, int32_t is_good) TN_ANY_THREAD;

/* A text made as printf makes it, for names and paths: tn_text(s, "h.%d.weight", i). Lives as long as the scope. "" on a scope
 * that has failed, which it fails when out of memory. Fractions have the decimal point of the program's locale. */
TN_API const char *tn_text(tn_scope *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * A scope for one step of a loop: TN_STEP(s, ctx) { ... }. It closes when the block is left: by its end, `continue`, `break`
 * (which ends the step alone) or `return`, but not by goto. The status of the last step of this thread, or of an open one
 * that has failed, is tn_step_status(), its error tn_last_error(). A step around others fails with the first of them that
 * fails, unless it failed itself. Look at the status after each step: the next one that succeeds sets it to 0.
 *
 *     for (int64_t i = 0; i < n && !tn_step_status(); i++) TN_STEP(s, ctx) { ... }
 *
 * TN_STEP_WITH takes options of the scope, which hold for steps inside, too:
 *
 *     TN_STEP_WITH(s, ctx, .grad_mode = TN_GRAD_OFF) { ... }
 *
 * TN_STEPS is a loop of n steps with number i, which ends with the first step that fails, and does nothing after a step
 * that failed: so a program looks at tn_step_status() once behind several loops. `break` in it goes on with the next step.
 *
 *     TN_STEPS(s, ctx, i, n) { ... }
 */
TN_API tn_scope *tn_step_open(tn_context *ctx);
TN_API tn_scope *tn_step_open_with(tn_context *ctx, TN_NULLABLE const tn_scope_options *options);
TN_API tn_scope *tn_step_close(TN_TAKES tn_scope *s);
TN_API int32_t tn_step_status(void) TN_ANY_THREAD;
static inline void tn_step_left(tn_scope **s)
{
    if (*s) tn_step_close(*s);
}
#define TN_STEP_OF(s, open) \
    for (__attribute__((cleanup(tn_step_left))) tn_scope *s = open; s; s = tn_step_close(s))
#define TN_STEP(s, ctx) TN_STEP_OF(s, tn_step_open(ctx))
#define TN_STEP_WITH(s, ctx, ...) \
    TN_STEP_OF(s, tn_step_open_with(ctx, &(tn_scope_options){.size = sizeof(tn_scope_options), __VA_ARGS__}))
#define TN_STEPS(s, ctx, i, n)                                                \
    for (int64_t i = 0, i##_end = (n); i < i##_end && !tn_step_status(); i++) \
        TN_STEP (s, ctx)

TN_END_DECLS
#endif

#if !defined(TN_PLUGIN) && !defined(__cplusplus)

/* A variable whose object is destroyed when its block is left, in any way but goto and longjmp; the last one declared
 * first. It must get a value where it is declared. For tn_tensor: one reference, which is released. */
#define TN_AUTO(type) __attribute__((cleanup(type##_left))) type *
#define TN_AUTO_TYPE(type, destroy)           \
    static inline void type##_left(type **at) \
    {                                         \
        destroy(*at);                         \
    }
TN_AUTO_TYPE(tn_context, tn_context_destroy)
TN_AUTO_TYPE(tn_scope, tn_scope_close)
TN_AUTO_TYPE(tn_tensor, tn_release)
TN_AUTO_TYPE(tn_safetensors, tn_safetensors_close)

/* Ends a function that returns a status with the status of a call that failed. */
#define TN_TRY(call)                   \
    do {                               \
        int32_t tn_tried = (call);     \
        if (tn_tried) return tn_tried; \
    } while (0)

/* A scope inside the scope s with options of its own, for a block. What is needed behind it leaves by tn_scope_return.
 *
 *     TN_WITHIN(low, s, .autocast = TN_SCOPE_AUTOCAST_ON) { loss = tn_scope_return(low, ...); } */
#define TN_WITHIN(inner, s, ...)                                                                         \
    for (TN_AUTO(tn_scope) inner =                                                                       \
             tn_scope_open_child(s, &(tn_scope_options){.size = sizeof(tn_scope_options), __VA_ARGS__}); \
         inner; inner = tn_scope_ended(inner))
static inline tn_scope *tn_scope_ended(tn_scope *s)
{
    tn_scope_close(s);
    return NULL;
}

/* A loop over the tensors of a list, absent ones (NULL) among them: TN_EACH (p, tn_module_parameters(s, net)) tn_zero_(s, p); */
#define TN_EACH(t, list)                                                               \
    for (tn_tensors t##_all = (list), *t##_once = &t##_all; t##_once; t##_once = NULL) \
        for (tn_tensor *const *t##_at = t##_all.data, *t = tn_list_at(t##_all, 0);     \
             t##_at && t##_at - t##_all.data < t##_all.count;                          \
             t##_at++, t = tn_list_at(t##_all, t##_at - t##_all.data))

/* A variable that keeps a tensor beyond its scope: takes a reference to t, and releases the one before. Returns t. */
static inline tn_tensor *tn_assign(tn_tensor **variable, tn_tensor *t)
{
    tn_tensor *before = *variable;
    *variable = tn_retain(t);
    tn_release(before);
    return t;
}

/* Fails with the text that says how a program is called: `if (argc < 2) return tn_usage("FILE [STEPS]");`. */
static inline int32_t tn_usage(const char *arguments)
{
    char text[512];
    snprintf(text, sizeof text, "usage: %s", arguments);
    return tn_scope_fail(NULL, TN_E_ARGUMENT, text);
}

/*
 * The body of main: a context, which is destroyed at the end, and the arguments. It returns a status. One that is not 0, or
 * that of the last step, ends the program with 1 and "PROGRAM: MESSAGE" on standard error.
 */
#define TN_MAIN(ctx, argc, argv)                                                                           \
    static int32_t tn_main_body(tn_context *ctx, int argc, char **argv);                                   \
    int main(int argc, char **argv)                                                                        \
    {                                                                                                      \
        return tn_main(argc, argv, tn_main_body);                                                          \
    }                                                                                                      \
    static int32_t tn_main_body(__attribute__((unused)) tn_context *ctx, __attribute__((unused)) int argc, \
                                __attribute__((unused)) char **argv)

/*
 * The same inside a step around the whole program, whose default device is the best there is, or the one that
 * TENON_DEVICE names: tensors and modules are made there. The first error of the step `s` ends the loops TN_STEPS, and the
 * program with its text; a device that is missing ends it before the body.
 *
 *     TN_MAIN_ON_DEVICE(ctx, device, s, argc, argv) { ... }
 */
#define TN_MAIN_ON_DEVICE(ctx_, device_, s_, argc_, argv_)                                            \
    static int32_t tn_main_on_device(tn_context *ctx_, tn_device device_, tn_scope *s_, int argc_,    \
                                     char **argv_);                                                   \
    TN_MAIN(tn_main_ctx, tn_main_argc, tn_main_argv)                                                  \
    {                                                                                                 \
        int32_t status = TN_OK;                                                                       \
        const tn_device best = tn_device_choose(tn_main_ctx, NULL, NULL);                             \
        if (best & TN_DEVICE_MISSING) return tn_last_error()->code;                                   \
        TN_STEP_WITH (tn_main_scope, tn_main_ctx, .device = best)                                     \
            status = tn_main_on_device(tn_main_ctx, best, tn_main_scope, tn_main_argc, tn_main_argv); \
        return status ? status : tn_step_status();                                                    \
    }                                                                                                 \
    static int32_t tn_main_on_device(                                                                 \
        __attribute__((unused)) tn_context *ctx_, __attribute__((unused)) tn_device device_,          \
        __attribute__((unused)) tn_scope *s_, __attribute__((unused)) int argc_,                      \
        __attribute__((unused)) char **argv_)

static inline int tn_main(int argc, char **argv, int32_t (*body)(tn_context *ctx, int argc, char **argv))
{
    const char *path = argc > 0 ? argv[0] : "program", *slash = strrchr(path, '/');
    tn_context *ctx = NULL;
    int32_t status = tn_context_create(NULL, &ctx);
    if (!status) status = body(ctx, argc, argv);
    if (!status) status = tn_step_status();
    if (status)
        fprintf(stderr, "%s: %s\n", slash ? slash + 1 : path,
                tn_last_error() ? tn_last_error()->message : tn_status_text(status));
    tn_context_destroy(ctx);
    return status != TN_OK;
}
#endif
#endif
