/* SPDX-License-Identifier: Apache-2.0 */
/* sort.stable by merging (device/sort.cl). */
#include "gpu.h"

#define RUN 16 /* elements that insertion sorts faster than merging */

/* Keys and positions of all lines, in one allocation; merging goes from one to the other. */
typedef struct half {
    int64_t keys, places; /* where they begin, in words */
} half;

static int32_t merge(const tn_call *call, const gpu_nest *nest, void *memory, half to, half from)
{
    gpu_job job = gpu_job_of(call, GPU_FILE_SORT, 0, "sort_merge");
    for (int k = 0; k < 4; k++) gpu_give_memory(&job, memory);
    gpu_give(&job, &to.keys, sizeof to.keys);
    gpu_give(&job, &to.places, sizeof to.places);
    gpu_give(&job, &from.keys, sizeof from.keys);
    gpu_give(&job, &from.places, sizeof from.places);
    gpu_give(&job, nest, sizeof *nest);
    return gpu_launch(&job, nest->numel, GPU_LIGHT);
}

static int32_t sort_keys(const tn_call *call, const tn_tensor_desc *in, gpu_nest *nest, void *memory, half to)
{
    uint64_t runs = nest->numel / nest->sizes[0] * ((nest->sizes[0] + RUN - 1) / RUN);
    gpu_job job = gpu_job_of(call, GPU_FILE_SORT, 0, "sort_runs");
    nest->scalars[3] = RUN;
    gpu_give_memory(&job, in->allocation);
    gpu_give_memory(&job, memory);
    gpu_give_memory(&job, memory);
    gpu_give(&job, &to.keys, sizeof to.keys);
    gpu_give(&job, &to.places, sizeof to.places);
    gpu_give(&job, nest, sizeof *nest);
    return gpu_launch(&job, runs, GPU_LIGHT);
}

/* sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) */
static int32_t sort(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = gpu_tensor(call->args[0]), *values = gpu_tensor(call->outs[0]);
    const tn_tensor_desc *positions = gpu_tensor(call->outs[1]);
    int64_t dim = tn_value_as_int(call->args[2]);
    void *memory;
    uint64_t offset;
    gpu_nest nest;
    gpu_nest_of_tensor(&nest, in);
    if (!nest.numel) return TN_OK;
    gpu_nest_add(&nest, 1, values);
    gpu_nest_add(&nest, 2, positions);
    if (!nest.rank) nest.sizes[nest.rank++] = 1;
    uint32_t d = (uint32_t)(dim < 0 ? -1 - dim : (int64_t)nest.rank - 1 - dim), size = nest.sizes[d];
    nest.sizes[d] = nest.sizes[0];
    nest.sizes[0] = size;
    for (uint32_t k = 0; k < 3; k++) {
        int64_t stride = nest.strides[k][d];
        nest.strides[k][d] = nest.strides[k][0];
        nest.strides[k][0] = stride;
    }
    nest.scalars[0] = size;
    nest.scalars[1] = nest.numel / size;
    nest.scalars[2] = tn_value_as_bool(call->args[3]) ? 1 : 0;
    nest.opcode = gpu_bytes(in->dtype);

    int32_t status = gpu_workspace(call, (uint64_t)nest.numel * 32, &memory, &offset);
    if (status) return status;
    int64_t words = (int64_t)offset / 8, n = nest.numel;
    half from = {words, words + n}, to = {words + 2 * n, words + 3 * n};
    status = sort_keys(call, in, &nest, memory, from);
    for (uint64_t run = RUN; !status && run < size; run *= 2) {
        nest.scalars[3] = run;
        status = merge(call, &nest, memory, to, from);
        half swap = from;
        from = to;
        to = swap;
    }
    if (status) return status;
    gpu_job job = gpu_job_of(call, GPU_FILE_SORT, 0, "sort_write");
    gpu_give_memory(&job, in->allocation);
    gpu_give_memory(&job, values->allocation);
    gpu_give_memory(&job, positions->allocation);
    gpu_give_memory(&job, memory);
    gpu_give(&job, &from.places, sizeof from.places);
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, nest.numel, GPU_LIGHT);
}

static const tn_kernel_row rows[] = {
    {.size = sizeof(tn_kernel_row),
     .strides = TN_STRIDES_ANY,
     .schema = "aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> "
               "(Tensor values, Tensor indices)",
     .dtypes = gpu_all_dtypes,
     .run = sort,
     .can_run = gpu_can_run},
};
const gpu_rows gpu_sort_rows = GPU_ROW_LIST(rows);
