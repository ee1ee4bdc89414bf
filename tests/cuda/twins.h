/* SPDX-License-Identifier: Apache-2.0 */
/* What tools/gen_cuda.py knows of each kernel in the images of the CUDA plugin: its twin in OpenCL C, from the same file. */
#ifndef TESTS_CUDA_TWINS_H
#define TESTS_CUDA_TWINS_H

#include "gpu.h"

#include "device/transform.h"

typedef struct twin {
    const char *name; /* in the images, where it is unique */
    const char *file; /* of gpu_sources */
    const char *options;
    const char *kernel; /* in the file */
    uint32_t n_arguments;
    size_t sizes[GPU_ARGUMENTS]; /* of the arguments; 0: memory */
} twin;
extern const twin twins[]; /* the last has no name */

#endif
