/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcublasLt.so.13 in front of NVIDIA's (TEST_CUBLASLT is its file): it describes products, matrices and preferences, which needs
 * no GPU. The choice of an algorithm does, so each product is left to the kernels.
 */
#include "real.h"

#include <cublaslt.h>

CUBLASLT_FUNCTIONS(DECLARE)

#define CUBLASLT(function, ...) REAL("TEST_CUBLASLT", function, __VA_ARGS__)

static char a_handle;

int cublasLtCreate(void **out_handle)
{
    *out_handle = &a_handle;
    return CUBLAS_SUCCESS;
}

int cublasLtDestroy(void *handle)
{
    return CUBLAS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    __typeof__(&cublasLtGetVersion) version =
        (__typeof__(&cublasLtGetVersion))real("TEST_CUBLASLT", __func__);
    return version ? version() : 0;
}

const char *cublasLtGetStatusName(int status)
{
    __typeof__(&cublasLtGetStatusName) name =
        (__typeof__(&cublasLtGetStatusName))real("TEST_CUBLASLT", __func__);
    return name ? name(status) : "";
}

int cublasLtMatmulDescCreate(void **out, int sums, int scalars)
{
    return CUBLASLT(cublasLtMatmulDescCreate, out, sums, scalars);
}

int cublasLtMatmulDescDestroy(void *description)
{
    return CUBLASLT(cublasLtMatmulDescDestroy, description);
}

int cublasLtMatmulDescSetAttribute(void *description, int attribute, const void *value, size_t bytes)
{
    return CUBLASLT(cublasLtMatmulDescSetAttribute, description, attribute, value, bytes);
}

int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t leading)
{
    return CUBLASLT(cublasLtMatrixLayoutCreate, out, type, rows, columns, leading);
}

int cublasLtMatrixLayoutDestroy(void *layout)
{
    return CUBLASLT(cublasLtMatrixLayoutDestroy, layout);
}

int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes)
{
    return CUBLASLT(cublasLtMatrixLayoutSetAttribute, layout, attribute, value, bytes);
}

int cublasLtMatmulPreferenceCreate(void **out)
{
    return CUBLASLT(cublasLtMatmulPreferenceCreate, out);
}

int cublasLtMatmulPreferenceDestroy(void *preference)
{
    return CUBLASLT(cublasLtMatmulPreferenceDestroy, preference);
}

int cublasLtMatmulPreferenceSetAttribute(void *preference, int attribute, const void *value, size_t bytes)
{
    return CUBLASLT(cublasLtMatmulPreferenceSetAttribute, preference, attribute, value, bytes);
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, void *description, void *a, void *b, void *c, void *d,
                                   void *preference, int wanted, lt_choice *out, int *out_count)
{
    count(CHOICES, 1);
    *out_count = 0;
    return CUBLAS_NOT_SUPPORTED;
}

int cublasLtMatmul(void *handle, void *description, const void *alpha, const void *a, void *a_layout,
                   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout, void *d,
                   void *d_layout, const lt_algorithm *algorithm, void *workspace, size_t workspace_bytes,
                   void *stream)
{
    count(EXECUTED, 1);
    return CUBLAS_NOT_SUPPORTED;
}
