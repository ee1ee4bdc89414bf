/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inspection: operators, kernels, plugin candidates, findings, fallbacks. The `tenon` command is a client
 * of this header. Strings live as long as the context. The caller sets `size` of output structs; an index
 * past the end gives an error, TN_E_NOT_FOUND or TN_E_INDEX.
 */
#ifndef TENON_INSPECT_H
#define TENON_INSPECT_H

#include <tenon/op.h>

TN_BEGIN_DECLS

#ifndef TN_PLUGIN
/* An operator. */
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
    uint32_t has_gradient; /* 1: it has a gradient rule, or is a composite of operators that have one */
    uint32_t base;         /* number of the operator whose kernels this form uses */
    const char *
        saves; /* of an operator with a tn_operator_def that has a `backward`: what it saves, or ""; else NULL */
} tn_operator_info;
/* Those of the library and of operator libraries. Forms that follow from them by rule (aten::flip.out, see
 * docs/operators-naming.md) are among them once tn_operator_find has been asked for them. */
TN_API uint32_t tn_inspect_operator_count(tn_context *ctx) TN_ANY_THREAD;
/* Operator i of all, in no particular order. */
TN_API int32_t tn_inspect_operator(tn_context *ctx, uint32_t i, TN_OUT tn_operator_info *out) TN_ANY_THREAD;
/* The operator with a number. TN_E_NOT_FOUND if there is none. */
TN_API int32_t tn_inspect_operator_by_number(tn_context *ctx, uint32_t number,
                                             TN_OUT tn_operator_info *out) TN_ANY_THREAD;

/* An argument or result in an operator's schema. */
typedef struct tn_argument_info {
    uint32_t size;
    uint32_t flags;           /* TN_ARG_... */
    const char *name;         /* "" for a result without a name */
    const char *type;         /* "Tensor", "int[]", "Tensor?[]", "Scalar", "ScalarType", ... */
    const char *default_text; /* as in the schema, or NULL */
    const char *alias_set;    /* "a" of Tensor(a!), or NULL */
    int32_t list_length;      /* 2 of int[2], or 0 */
    int32_t reserved;
} tn_argument_info;
#define TN_ARG_OPTIONAL       1u
#define TN_ARG_LIST           2u
#define TN_ARG_KEYWORD_ONLY   4u
#define TN_ARG_WRITTEN        8u
#define TN_ARG_OPTIONAL_ITEMS 16u
/* Arguments of operator number `op` (`returns` 0) or its results (`returns` 1). */
TN_API uint32_t tn_inspect_argument_count(tn_context *ctx, uint32_t op, int32_t returns) TN_ANY_THREAD;
TN_API int32_t tn_inspect_argument(tn_context *ctx, uint32_t op, int32_t returns, uint32_t i,
                                   TN_OUT tn_argument_info *out) TN_ANY_THREAD;

/* A kernel of an operator, on any device type. */
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

/* Why nothing calls a kernel row. */
#define TN_UNUSED_OPERATOR 0u /* no operator has its name, or its schema does not fit */
#define TN_UNUSED_DEVICE   1u /* no loaded plugin has its device type */
#define TN_UNUSED_UNKNOWN  2u /* this version does not know a part of it, see `unknown` */

/* A kernel row that nothing calls. Its operator or its device type may come with a plugin that is loaded later, or the
 * name is misspelt. A row that needs a newer version stays unused. */
typedef struct tn_unused_row_info {
    uint32_t size;
    uint32_t reserved;
    const char *device_type;
    const char *plugin;
    const char *schema;
    uint32_t why; /* TN_UNUSED_... */
    uint32_t reserved2;
    const char *unknown; /* what this version does not know: "unknown flags 0x40000000"; else "" */
} tn_unused_row_info;
TN_API uint32_t tn_inspect_unused_row_count(tn_context *ctx) TN_ANY_THREAD;
TN_API int32_t tn_inspect_unused_row(tn_context *ctx, uint32_t i,
                                     TN_OUT tn_unused_row_info *out) TN_ANY_THREAD;

/* A plugin that discovery looked at, loaded or not, with the reason. */
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
    const char *reason; /* why it was skipped or failed, or has no device; else "" */
    uint32_t device_count;
    uint32_t reserved;
    const char *shim; /* "validate" if it is that shim, else "" */
    /* The experimental interfaces that it says it has, "tenon.x.a, tenon.x.b"; "" if none */
    const char *experimental;
} tn_candidate_info;
TN_API uint32_t tn_inspect_candidate_count(tn_context *ctx) TN_ANY_THREAD;
TN_API int32_t tn_inspect_candidate(tn_context *ctx, uint32_t i, TN_OUT tn_candidate_info *out) TN_ANY_THREAD;
/*
 * Lets a loaded plugin check itself, one caller at a time for each plugin. Returns its status, with the error; TN_OK
 * for a plugin that has nothing to check, TN_E_STATE for a candidate that is not loaded. What the plugin says about
 * itself meanwhile goes to the log (TN_LOG_INFO): the CPU plugin names its libraries, which this opens.
 */
TN_API int32_t tn_inspect_self_test(tn_context *ctx, uint32_t i) TN_HOST_THREAD;
/* Why a vendor's device may not have this name ("cpu", "best", ...): a static text; NULL if it may. */
TN_API const char *tn_inspect_reserved_name(const char *device_type) TN_ANY_THREAD;
/*
 * An unknown plugin is probed in another process before it is loaded, and the verdict is cached for the user.
 * This deletes all cached verdicts and returns their number; the next context probes again.
 */
TN_API uint32_t tn_inspect_forget_probes(void) TN_ANY_THREAD;
/* Folder i of those that were searched, in order; NULL past the end. */
TN_API const char *tn_inspect_search_path(tn_context *ctx, uint32_t i) TN_ANY_THREAD;

/*
 * Findings, in order; see context.h. At most 1000 are kept; tn_inspect_finding_dropped counts the rest. All
 * are logged too (TN_LOG_ERROR); those that are found while the context ends appear only in the log.
 */
TN_API uint32_t tn_inspect_finding_count(tn_context *ctx) TN_ANY_THREAD;
TN_API int32_t tn_inspect_finding(tn_context *ctx, uint32_t i, TN_OUT tn_finding *out) TN_ANY_THREAD;
TN_API uint64_t tn_inspect_finding_dropped(tn_context *ctx) TN_ANY_THREAD;

/* Calls of one operator that ran on the CPU because the device had no kernel. */
typedef struct tn_fallback_info {
    uint32_t size;
    uint32_t op;
    const char *name;
    const char *device_type;
    const char *reason;
    uint64_t count;
    uint64_t bytes; /* copied, both directions together */
} tn_fallback_info;
TN_API uint32_t tn_inspect_fallback_count(tn_context *ctx) TN_ANY_THREAD;
TN_API int32_t tn_inspect_fallback(tn_context *ctx, uint32_t i, TN_OUT tn_fallback_info *out) TN_ANY_THREAD;
TN_API void tn_inspect_fallback_reset(tn_context *ctx) TN_ANY_THREAD;
/* What a fallback to the CPU does besides being counted: nothing, warn in the log (the default), or fail. */
#define TN_FALLBACK_SILENT 0u
#define TN_FALLBACK_WARN   1u
#define TN_FALLBACK_ERROR  2u
TN_API void tn_set_fallback_policy(tn_context *ctx, uint32_t policy) TN_ANY_THREAD;
#endif

TN_END_DECLS
#endif
