/* SPDX-License-Identifier: Apache-2.0 */
/* Files that the build puts into the `tenon` command (embed.py), so that it is whole wherever it lies. */
#ifndef TENON_KIT_EMBEDDED_H
#define TENON_KIT_EMBEDDED_H

#include <stddef.h>

typedef struct embedded_file {
    const char *path; /* NULL ends an array */
    size_t bytes;
    const char *data;
} embedded_file;

/* examples/plugin and examples/plugin-opaque, by the paths that the files have in a plugin. */
extern const embedded_file new_plugin_files[];
extern const embedded_file new_plugin_opaque_files[];

#endif
