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

/* Folders of examples/, by the paths that the files have in a project. */
extern const embedded_file new_plugin_files[];
extern const embedded_file new_plugin_opaque_files[];
extern const embedded_file new_operators_files[];
extern const embedded_file new_classify_files[];
extern const embedded_file new_data_parallel_files[];
extern const embedded_file new_decode_files[];
extern const embedded_file new_gpt2_files[];
extern const embedded_file new_char_lstm_files[];
extern const embedded_file new_resnet_files[];
extern const embedded_file new_gpt2_cpp_files[];

#endif
