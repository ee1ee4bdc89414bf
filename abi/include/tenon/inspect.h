/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking inside: operators, kernels, plugin candidates, fallbacks. Every tool of Tenon is a client of this
 * header. Strings live as long as the context. Output structs: the caller sets `size`.
 */
#ifndef TENON_INSPECT_H
#define TENON_INSPECT_H

#include <tenon/op.h>

TN_BEGIN_DECLS

#ifndef TN_PLUGIN
/* Operators, in no particular order: i from 0 to tn_inspect_operator_count() - 1. */
typedef struct tn_operator_info {
    uint32_t size;
    uint32_t number;
    const char *name; /* "aten::add.Tensor" */
    const char *schema;
    const char *kind; /* "pointwise", "reduction", "scan", "view", "structured", "data_dependent", "random",
                         "factory", "composite", "custom" */
    const char *form; /* "functional", "inplace", "out" */
    const char *tags; /* comma separated */
    const char *doc;
    uint32_t has_gradient; /* a rule of its own, or a composite that is differentiated through its body */
    uint32_t base;         /* number of the operator whose kernel this form uses */
} tn_operator_info;
TN_API uint32_t tn_inspect_operator_count(tn_context *ctx) TN_ANY_THREAD;
TN_API int32_t tn_inspect_operator(tn_context *ctx, uint32_t i, TN_OUT tn_operator_info *out) TN_ANY_THREAD;
/* By number. */
TN_API int32_t tn_inspect_operator_by_number(tn_context *ctx, uint32_t number,
                                             TN_OUT tn_operator_info *out) TN_ANY_THREAD;

/* Arguments and returns of an operator's schema. */
typedef struct tn_argument_info {
    uint32_t size;
    uint32_t flags;           /* TN_ARG_... */
    const char *name;         /* "" for returns without a name */
    const char *type;         /* "Tensor", "int[]", "Tensor?[]", "Scalar", "ScalarType", ... */
    const char *default_text; /* as in the schema, or NULL */
    const char *alias_set;    /* "a", or NULL */
    int32_t list_length;      /* of int[2], or 0 */
    int32_t reserved;
} tn_argument_info;
#define TN_ARG_OPTIONAL       1u
#define TN_ARG_LIST           2u
#define TN_ARG_KEYWORD_ONLY   4u
#define TN_ARG_WRITTEN        8u
#define TN_ARG_OPTIONAL_ITEMS 16u
TN_API uint32_t tn_inspect_argument_count(tn_context *ctx, uint32_t op, int32_t returns) TN_ANY_THREAD;
TN_API int32_t tn_inspect_argument(tn_context *ctx, uint32_t op, int32_t returns, uint32_t i,
                                   TN_OUT tn_argument_info *out) TN_ANY_THREAD;

/* Kernels of one operator, over all device types. */
typedef struct tn_kernel_info {
    uint32_t size;
    uint32_t strides;
    const char *device_type;
    const char *plugin;
    const tn_dtype *dtypes; /* zero-terminated; NULL: all */
    int32_t priority;
    uint32_t flags;
} tn_kernel_info;
TN_API uint32_t tn_inspect_kernel_count(tn_context *ctx, uint32_t op) TN_ANY_THREAD;
TN_API int32_t tn_inspect_kernel(tn_context *ctx, uint32_t op, uint32_t i,
                                 TN_OUT tn_kernel_info *out) TN_ANY_THREAD;

/* Everything that discovery looked at, loaded or not, with the reason. */
#define TN_CANDIDATE_LOADED  0u
#define TN_CANDIDATE_SKIPPED 1u
#define TN_CANDIDATE_FAILED  2u
typedef struct tn_candidate_info {
    uint32_t size;
    uint32_t state;       /* TN_CANDIDATE_... */
    const char *manifest; /* path, or NULL when loaded by path */
    const char *library;  /* path, or NULL when the manifest could not be read */
    const char *name;
    const char *version;
    const char *vendor;
    const char *device_type;
    const char *reason; /* why it was skipped or failed, why it has no device; "" otherwise */
    uint32_t device_count;
    uint32_t reserved;
    const char *shim; /* "validate" when it is a shim, else "" */
} tn_candidate_info;
TN_API uint32_t tn_inspect_candidate_count(tn_context *ctx) TN_ANY_THREAD;
TN_API int32_t tn_inspect_candidate(tn_context *ctx, uint32_t i, TN_OUT tn_candidate_info *out) TN_ANY_THREAD;
/*
 * Lets a loaded plugin check itself, one caller at a time for each plugin. Returns its status, with the error; TN_OK
 * for a plugin that has nothing to check, TN_E_STATE for a candidate that is not loaded. What the plugin says about
 * itself meanwhile goes to the log (TN_LOG_INFO): the CPU plugin names its libraries, which this opens.
 */
TN_API int32_t tn_inspect_self_test(tn_context *ctx, uint32_t i) TN_HOST_THREAD;
/* Why a vendor's device may not have this name ("cpu", "best", ...): a static text, or NULL when it may. */
TN_API const char *tn_inspect_reserved_name(const char *device_type) TN_ANY_THREAD;
/*
 * Unknown plugins are probed by another process before they are loaded, and the verdict is remembered for the
 * user. This forgets all verdicts and gives their number: the next context asks again.
 */
TN_API uint32_t tn_inspect_forget_probes(void) TN_ANY_THREAD;
/* The folders that were searched, in order; NULL past the end. */
TN_API const char *tn_inspect_search_path(tn_context *ctx, uint32_t i) TN_ANY_THREAD;

/*
 * Breaches of the contract that were seen, in order; see context.h. At most 1000 are kept, the rest is
 * counted in tn_inspect_finding_dropped. All go to the log as well (TN_LOG_ERROR), which is where those are
 * that come when the context ends.
 */
TN_API uint32_t tn_inspect_finding_count(tn_context *ctx) TN_ANY_THREAD;
TN_API int32_t tn_inspect_finding(tn_context *ctx, uint32_t i, TN_OUT tn_finding *out) TN_ANY_THREAD;
TN_API uint64_t tn_inspect_finding_dropped(tn_context *ctx) TN_ANY_THREAD;

/* Calls that ran on the CPU because the device had no kernel. */
typedef struct tn_fallback_info {
    uint32_t size;
    uint32_t op;
    const char *name;
    const char *device_type;
    const char *reason;
    uint64_t count;
    uint64_t bytes; /* copied both ways */
} tn_fallback_info;
TN_API uint32_t tn_inspect_fallback_count(tn_context *ctx) TN_ANY_THREAD;
TN_API int32_t tn_inspect_fallback(tn_context *ctx, uint32_t i, TN_OUT tn_fallback_info *out) TN_ANY_THREAD;
TN_API void tn_inspect_fallback_reset(tn_context *ctx) TN_ANY_THREAD;
/* What a fallback does: count and stay silent, warn in the log (the default), or fail. */
#define TN_FALLBACK_SILENT 0u
#define TN_FALLBACK_WARN   1u
#define TN_FALLBACK_ERROR  2u
TN_API void tn_set_fallback_policy(tn_context *ctx, uint32_t policy) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
