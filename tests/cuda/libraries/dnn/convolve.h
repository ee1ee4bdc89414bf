/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of the test driver's memory. */
#ifndef TESTS_CUDA_LIBRARIES_DNN_CONVOLVE_H
#define TESTS_CUDA_LIBRARIES_DNN_CONVOLVE_H

#include "../../../gpu/convolve.h"
#include "stand_in.h"

static CUresult run_convolution(CUcontext context, void *data)
{
    const convolution *c = data;
    const int64_t bytes = TN_DTYPE_BITS(c->dtype) / 8;
    char *at[3];
    for (int k = 0; k < 3; k++) {
        at[k] = cuda_test_place(context, c->memory[k], (size_t)(volume(c->sizes[k], 0) * bytes));
        if (!at[k]) return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (!use_workspace(context, c->workspace, c->workspace_bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    return convolve_all(c, at) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

#endif
