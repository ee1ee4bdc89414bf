/* SPDX-License-Identifier: Apache-2.0 */
/* searchsorted (device/search.cl). */
#include "gpu.h"

#define RIGHT  1u /* see device/search.cl */
#define INT32  2u
#define SORTER 4u

/* The type in which both dtypes are compared without rounding, as far as there is one. */
static uint8_t type_of(tn_dtype a, tn_dtype b)
{
    uint8_t of_a = gpu_type(a), of_b = gpu_type(b);
    if (of_a == 1 && of_b == 1) return 1;
    return of_a == 32 && of_b == 32 ? 32 : 64;
}

static uint64_t flags_of(const tn_call *call)
{
    const char *side = call->args[4].tag == TN_TAG_STRING ? call->args[4].as.string : "";
    uint64_t flags = tn_value_as_bool(call->args[3]) || strcmp(side, "right") == 0 ? RIGHT : 0;
    if (gpu_tensor(call->outs[0])->dtype == TN_INT32) flags |= INT32;
    return flags | (gpu_argument_tensor(call, 5) ? SORTER : 0);
}

static void add(gpu_nest *nest, uint32_t k, const tn_tensor_desc *t)
{
    if (!t) return;
    nest->offsets[k] = (int64_t)t->byte_offset;
    nest->dtypes[k] = (uint32_t)gpu_dtype(t->dtype);
}

/*
 * searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32, bool right, str? side, Tensor? sorter). A sorter
 * that points outside is reported late.
 */
static int32_t search_sorted(void *self, const tn_call *call)
{
    const tn_tensor_desc *sorted = gpu_tensor(call->args[0]), *values = gpu_tensor(call->args[1]);
    const tn_tensor_desc *sorter = gpu_argument_tensor(call, 5), *out = gpu_tensor(call->outs[0]);
    gpu_nest nest = {.numel = (uint32_t)gpu_numel(values), .opcode = GPU_BY_SORTER};
    if (!nest.numel) return TN_OK;
    add(&nest, 0, out);
    add(&nest, 1, sorted);
    add(&nest, 2, sorter);
    add(&nest, 3, values);
    nest.scalars[0] = (uint64_t)sorted->sizes[sorted->rank - 1];
    nest.scalars[1] = sorted->rank == 1 ? 0 : values->rank ? (uint64_t)values->sizes[values->rank - 1] : 1;
    nest.scalars[2] = flags_of(call);
    gpu_job job = gpu_job_of(call, GPU_FILE_SEARCH, type_of(sorted->dtype, values->dtype), "search_sorted");
    gpu_give_memory(&job, out->allocation);
    gpu_give_memory(&job, sorted->allocation);
    gpu_give_memory(&job, sorter ? sorter->allocation : NULL);
    gpu_give_memory(&job, values->allocation);
    gpu_give_faults(&job);
    job.looks_for_faults = sorter != NULL;
    gpu_give(&job, &nest, sizeof nest);
    return gpu_launch(&job, nest.numel, GPU_LIGHT);
}

static const char *can_search(void *self, const tn_call *call)
{
    tn_dtype a = gpu_tensor(call->args[0])->dtype, b = gpu_tensor(call->args[1])->dtype;
    if (type_of(a, b) == 64 && !gpu_device_of(call)->properties.has_double)
        return "the device has no float64, in which these dtypes are compared";
    return gpu_can_run(self, call);
}

static const tn_kernel_row rows[] = {
    GPU_ROW(CONTIGUOUS,
            "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool "
            "right=False, str? "
            "side=None, Tensor? sorter=None) -> Tensor",
            gpu_all_dtypes, .run = search_sorted, .can_run = can_search),
};
const gpu_rows gpu_search_rows = GPU_ROW_LIST(rows);
