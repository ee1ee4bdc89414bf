/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices. */
#include "gpu.h"

/* mm(Tensor self, Tensor mat2) and bmm: column, row and batch are the dimensions of the nest. */
static int32_t product(void *self, const tn_call *call)
{
    const tn_tensor_desc *a = gpu_tensor(call->args[0]), *b = gpu_tensor(call->args[1]),
                         *out = gpu_tensor(call->outs[0]);
    uint32_t row = a->rank - 2, column = a->rank - 1;
    int64_t bytes = gpu_bytes(out->dtype);
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, out);
    if (!nest.numel) return TN_OK;
    gpu_nest_add(&nest, 1, a);
    gpu_nest_add(&nest, 2, b);
    nest.strides[1][0] = 0;
    nest.strides[1][1] = a->strides[row] * bytes;
    nest.strides[2][0] = b->strides[column] * bytes;
    nest.strides[2][1] = 0;
    nest.scalars[0] = (uint64_t)a->sizes[column];
    nest.scalars[1] = (uint64_t)(a->strides[column] * bytes);
    nest.scalars[2] = (uint64_t)(b->strides[row] * bytes);
    gpu_job job = gpu_job_of(call, GPU_FILE_NUMBERS, gpu_type(out->dtype), "product");
    gpu_give_memory(&job, out->allocation);
    gpu_give_memory(&job, a->allocation);
    gpu_give_memory(&job, b->allocation);
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, nest.numel, GPU_LIGHT);
}

#define ROW(text)                                                                          \
    {                                                                                      \
        .size = sizeof(tn_kernel_row), .strides = TN_STRIDES_ANY, .schema = "aten::" text, \
        .dtypes = gpu_number_dtypes, .run = product, .can_run = gpu_can_run                \
    }
static const tn_kernel_row rows[] = {
    ROW("mm(Tensor self, Tensor mat2) -> Tensor"),
    ROW("bmm(Tensor self, Tensor mat2) -> Tensor"),
};
const gpu_rows gpu_product_rows = GPU_ROW_LIST(rows);
