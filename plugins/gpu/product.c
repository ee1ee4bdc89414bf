/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices. */
#include "gpu.h"

#define COLUMNS    64 /* of a panel; see device/product.cl */
#define ROWS       6
#define DEPTH      16
#define LEAST_WORK ((uint64_t)1 << 18) /* multiplications that repay packing and a program of its own */

/* Whether packed panels are worth it: not for few rows, which use each packed element only so often. */
static int32_t wants_panels(const tn_call *call, const gpu_nest *nest, uint8_t type)
{
    return type == 32 && gpu_device_of(call)->properties.is_processor && nest->sizes[1] >= 4 &&
           nest->sizes[0] >= 16 && nest->numel * nest->scalars[0] >= LEAST_WORK;
}

static int32_t multiply_panels(const tn_call *call, gpu_nest *nest, const tn_tensor_desc *out,
                               const tn_tensor_desc *a, const tn_tensor_desc *b)
{
    uint64_t panels = (nest->sizes[0] + COLUMNS - 1) / COLUMNS, depth = nest->scalars[0];
    uint64_t batches = nest->numel / nest->sizes[0] / nest->sizes[1], offset;
    void *packed;
    int32_t status = gpu_workspace(call, batches * panels * depth * COLUMNS * 4, &packed, &offset);
    int64_t first = (int64_t)offset / 4;
    nest->scalars[3] = panels;
    gpu_job pack = gpu_job_of(call, GPU_FILE_PRODUCT, 32, "pack_panels");
    gpu_give_memory(&pack, packed);
    gpu_give_memory(&pack, b->allocation);
    gpu_give(&pack, &first, sizeof first);
    gpu_give(&pack, nest, sizeof *nest);
    if (!status) status = gpu_launch(&pack, batches * panels * ((depth + DEPTH - 1) / DEPTH), GPU_HEAVY);
    gpu_job job = gpu_job_of(call, GPU_FILE_PRODUCT, 32, "product_panels");
    gpu_give_memory(&job, out->allocation);
    gpu_give_memory(&job, a->allocation);
    gpu_give_memory(&job, packed);
    gpu_give(&job, &first, sizeof first);
    gpu_give(&job, nest, sizeof *nest);
    return status ? status
                  : gpu_launch(&job, batches * panels * ((nest->sizes[1] + ROWS - 1) / ROWS), GPU_HEAVY);
}

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
    if (wants_panels(call, &nest, gpu_type(out->dtype))) return multiply_panels(call, &nest, out, a, b);
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
