/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shims, their order, and which of them are requested: by the environment (ignored in set-id processes) or
 * by the options of the context. A setting of "0" or "" turns a shim off.
 *
 *     TENON_VALIDATE=1   TENON_RECORD=FILE   TENON_INJECT=SLOT:N[:STATUS]
 */
#ifndef TNI_PLUGIN_SHIMS_H
#define TNI_PLUGIN_SHIMS_H

#include <limits.h>
#include <tenon/context.h>
#include "dispatcher/plugin/reason.h"

/* In order from the host to the plugin: record writes what the host sees, and validate sees a failure by inject as
 * one of the plugin. */
enum { TNI_SHIM_RECORD, TNI_SHIM_VALIDATE, TNI_SHIM_INJECT, TNI_SHIM_COUNT };

typedef struct tni_shim_kind {
    const char *name;     /* in manifests and options */
    const char *variable; /* of the environment */
} tni_shim_kind;
extern const tni_shim_kind tni_shim_kinds[TNI_SHIM_COUNT];

/* The settings of the requested shims; "" for the others. */
typedef struct tni_shim_wishes {
    uint32_t asked; /* bits 1 << TNI_SHIM_... */
    char setting[TNI_SHIM_COUNT][PATH_MAX];
} tni_shim_wishes;

/* Index of a name, or -1. */
int32_t tni_shim_index(const char *name);
/* Reads environment and options (may be NULL). TN_E_ARGUMENT for an unknown name or a setting that is too
 * long. */
int32_t tni_shim_wishes_read(const tn_context_options *options, TN_OUT tni_shim_wishes *out);

#endif
