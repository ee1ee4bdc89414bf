/* SPDX-License-Identifier: Apache-2.0 */
/* Device code that was compiled with the plugin, for drivers that compile nothing at run time. */
#ifndef TENON_GPU_MODULES_H
#define TENON_GPU_MODULES_H

#include <stdint.h>

typedef struct gpu_module {
    const char *name;    /* of the source file: "reduce.cl"; NULL ends the table */
    const char *options; /* as launch.c writes them */
    const uint8_t *bytes;
    uint64_t size;
} gpu_module;

extern const gpu_module gpu_modules[]; /* made by the build */

/* The module of a source (a text of gpu_sources) with these options, or NULL. */
const gpu_module *gpu_module_find(const char *source, const char *options);

#endif
