/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which library computes a product of float32 or bfloat16, found by measuring. Products fall into a few dozen
 * classes by dtype, sizes and storage. A class is measured when a product of it first comes, in milliseconds, and
 * the choice is kept in the user's cache folder for the next process. In deterministic mode, and with
 * TENON_CPU_TUNE=0, the choice is fixed.
 */
#ifndef TENON_CPU_NN_GEMM_CHOICE_H
#define TENON_CPU_NN_GEMM_CHOICE_H

#include "gemm.h"

enum {
    CPU_GEMM_OPENBLAS = 1,    /* for half types through panels of float32; C loops if it is missing */
    CPU_GEMM_ONEDNN = 2,      /* its matmul */
    CPU_GEMM_ONEDNN_SGEMM = 3 /* of float32; packs matrices that are not transposed in less time */
};

/* The library for a product, CPU_GEMM_... From any thread, also inside a parallel loop. */
int32_t cpu_gemm_choose(const tn_call *call, tn_dtype dtype, const cpu_gemm *g);

/* gemm.c: the product on this thread by one library, or by the next one if that does not take it. */
int32_t cpu_gemm_with(const tn_call *call, tn_dtype dtype, int32_t library, const cpu_gemm *g);

/* Whether a text is a value of TENON_CPU_TUNE: 0, 1 (as without it), all, or nothing. */
bool cpu_gemm_tune_is_known(const char *text);

/* Finds the folder of the file that keeps the choices. For `init`, because kernels may not ask the host. */
void cpu_gemm_find_cache(const tn_host *host);

/* For `tenon doctor`: logs how many classes have been measured. With TENON_CPU_TUNE=all it measures the others
 * first and logs a line for each class. */
void cpu_gemm_log_choices(const tn_host *host);

#endif
