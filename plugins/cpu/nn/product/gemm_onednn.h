/* SPDX-License-Identifier: Apache-2.0 */
/* Products by oneDNN's matmul, in float32 and bfloat16, and by its sgemm. Only gemm.c calls it. */
#ifndef TENON_CPU_NN_GEMM_ONEDNN_H
#define TENON_CPU_NN_GEMM_ONEDNN_H

#include "gemm.h"

/*
 * A product on the calling thread. In A and in B one of the two strides is 1, and the other one is at least the
 * size of that dimension. g->count matrices are multiplied at once; they must lie one behind the other without
 * gaps. TN_E_UNSUPPORTED, with nothing written, if oneDNN is missing, fails or has no fast code for the product.
 */
#ifdef CPU_HAVE_ONEDNN
int32_t cpu_gemm_onednn(const tn_call *call, tn_dtype dtype, const cpu_gemm *g);
/* The same for one product of float32 by oneDNN's sgemm, without a bias. A lead is the stride between rows, or
 * between columns of a transposed matrix. */
int32_t cpu_gemm_onednn_sgemm(const tn_call *call, const cpu_gemm *g, bool a_transposed, int64_t a_lead,
                              bool b_transposed, int64_t b_lead);
/* Whether oneDNN multiplies bfloat16 with instructions made for it. Opens oneDNN. */
bool cpu_gemm_onednn_has_bfloat16(void);
#else
static inline int32_t cpu_gemm_onednn(const tn_call *call, tn_dtype dtype, const cpu_gemm *g)
{
    return TN_E_UNSUPPORTED;
}
static inline int32_t cpu_gemm_onednn_sgemm(const tn_call *call, const cpu_gemm *g, bool a_transposed,
                                            int64_t a_lead, bool b_transposed, int64_t b_lead)
{
    return TN_E_UNSUPPORTED;
}
static inline bool cpu_gemm_onednn_has_bfloat16(void)
{
    return false;
}
#endif

#endif
