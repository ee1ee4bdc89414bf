/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels and the table of the operators that they serve; plugin.h says when a row's function runs. The
 * table begins with plain kernels of all twelve families (tenon/plain_kernels.h): replace them family by
 * family. An operator without a row runs as a composite of others, or on the CPU, counted.
 */
#include "plugin.h"

/* What the device computes in; the facts list it, too. */
const tn_dtype acme_dtypes[] = {TN_BOOL,    TN_UINT8,   TN_INT32,    TN_INT64, TN_FLOAT32,
                                TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16, 0};

static const char *acme_can_run(void *self, const tn_call *call)
{
    return tn_plain_can_run(call, acme_dtypes);
}

/* A kernel of your own. Operand 0 of the nest is the output, 1 the first tensor (tenon/kernel.h). */
static int32_t relu(void *self, const tn_call *call)
{
    tn_strided out = tn_strided_operand(call->nest, 0), in = tn_strided_operand(call->nest, 1);
    for (int64_t i = 0; i < call->nest->numel; i++) {
        tn_number x = tn_strided_get(&in, i);
        tn_strided_put(&out, i, x.f <= 0 ? tn_number_whole(0) : x); /* NaN stays */
    }
    return TN_OK;
}

/* `tenon ops NAME` prints the schema of an operator. If several rows fit a call, the last of them runs. */
static const tn_kernel_row rows[] = {
    TN_PLAIN_FILL(ROW),
    TN_PLAIN_COPY(ROW),
    TN_PLAIN_IOTA(ROW),
    TN_PLAIN_RANDOM(ROW),
    TN_PLAIN_POINTWISE(ROW),
    TN_PLAIN_REDUCE(ROW),
    TN_PLAIN_SCAN(ROW),
    TN_PLAIN_GATHER(ROW),
    TN_PLAIN_SCATTER(ROW),
    TN_PLAIN_PRODUCT(ROW),
    TN_PLAIN_SORT(ROW),
    TN_PLAIN_NONZERO(ROW),
    ROW("aten::relu(Tensor self) -> Tensor", tn_plain_numbers, 0, relu, .opcode = 0),
};

const tn_kernels_interface acme_kernels =
    TN_INTERFACE(tn_kernels_interface, .count = sizeof(rows) / sizeof(rows[0]), .row_bytes = sizeof(rows[0]),
                 .rows = rows);
