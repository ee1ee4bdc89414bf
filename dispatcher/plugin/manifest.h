/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manifests: small JSON files that describe plugins, so that a folder can be listed without opening libraries.
 *
 *     {"tenon_manifest": 1, "name": "acme", "library": "libtenon-acme.so", "device_type": "acme",
 *      "description": "Acme accelerators", "enabled": true, "requires": ["cpu"]}
 *
 * `tenon_manifest`, `name` and `library` are required. `library` is relative to the manifest. A library that
 * adds kernels or operators for others lists those in `requires`; it is loaded after them. The manifest of a
 * shim has a key such as "shim": "validate". Unknown keys are ignored, so that later versions may add some.
 */
#ifndef TNI_PLUGIN_MANIFEST_H
#define TNI_PLUGIN_MANIFEST_H

#include <limits.h>
#include "dispatcher/plugin/reason.h"

#define TNI_MANIFEST_VERSION      1
#define TNI_MANIFEST_NAME_BYTES   32 /* of tn_plugin_info.name */
#define TNI_MANIFEST_MAX_REQUIRES 8

typedef struct tni_manifest {
    char name[TNI_MANIFEST_NAME_BYTES];
    char library[PATH_MAX]; /* as written */
    char device_type[TNI_MANIFEST_NAME_BYTES];
    char description[256];
    char shim[TNI_MANIFEST_NAME_BYTES]; /* "": an ordinary plugin */
    int32_t enabled;
    uint32_t n_requires;
    char requires[TNI_MANIFEST_MAX_REQUIRES][TNI_MANIFEST_NAME_BYTES];
} tni_manifest;

/* Reads an open file. TN_E_IO, TN_E_CORRUPT (the reason has line and column), TN_E_OUT_OF_MEMORY;
 * TN_E_NOT_FOUND for other JSON files, such as those of build tools. */
int32_t tni_manifest_read(int fd, TN_OUT tni_manifest *out, TN_OUT tni_reason *reason);
/* The same from memory. */
int32_t tni_manifest_parse(const char *text, size_t bytes, TN_OUT tni_manifest *out,
                           TN_OUT tni_reason *reason);

#endif
