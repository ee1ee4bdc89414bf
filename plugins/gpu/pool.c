/* SPDX-License-Identifier: Apache-2.0 */
/* Pooling (device/windows.cl): maxima with their positions, averages, both with adaptive windows, and the gradients. */
#include "gpu.h"

#define CHUNK 16 /* windows that an item takes on processors; see device/windows.cl */

typedef struct pool_form {
    const char *kernel;
    uint32_t spatial; /* dimensions */
    int32_t is_adaptive;
    int32_t is_backward; /* argument 0 is the gradient and argument 1 the input */
    uint32_t window;     /* the argument kernel_size, with stride and padding behind it */
    uint32_t indices;    /* backward: their argument; 0: none */
} pool_form;

static int32_t is_average(const pool_form *form)
{
    return form->kernel[0] == 'a';
}

static int32_t list_item(tn_value list, int32_t i, int32_t otherwise)
{
    if (!list.count) return otherwise;
    return (int32_t)(list.count == 1 ? list.as.ints[0] : list.as.ints[i]);
}

static gpu_window describe(const tn_call *call, const pool_form *form, const tn_tensor_desc *in,
                           const tn_tensor_desc *out)
{
    gpu_window w = {.images = 1, .groups = 1, .in_channels = 1, .out_channels = 1};
    uint32_t at = form->window;
    for (uint32_t d = 0; d + form->spatial < in->rank; d++) w.images *= (uint32_t)in->sizes[d];
    for (int32_t axis = 0; axis < 3; axis++) {
        int32_t k = axis - (3 - (int32_t)form->spatial), has_window = k >= 0 && !form->is_adaptive;
        w.in[axis] = k < 0 ? 1 : (uint32_t)in->sizes[in->rank - form->spatial + (uint32_t)k];
        w.out[axis] = k < 0 ? 1 : (uint32_t)out->sizes[out->rank - form->spatial + (uint32_t)k];
        int32_t kernel = has_window ? list_item(call->args[at], k, 1) : 1;
        w.kernel_size[axis] = (uint32_t)kernel;
        w.stride[axis] = has_window ? list_item(call->args[at + 1], k, kernel) : 1;
        w.padding[axis] = has_window ? list_item(call->args[at + 2], k, 0) : 0;
        w.dilation[axis] = has_window && !is_average(form) ? list_item(call->args[at + 3], k, 1) : 1;
    }
    if (!form->is_adaptive && is_average(form)) {
        if (tn_value_as_bool(call->args[at + 4])) w.flags = GPU_WINDOW_COUNT_PADDING;
        if (call->args[at + 5].tag != TN_TAG_NONE) w.divisor = call->args[at + 5].as.i;
    }
    return w;
}

/* Operands of the kernel: what is written, what is read, and the indices, if any. */
static int32_t pool(void *self, const tn_call *call)
{
    const pool_form *form = call->data;
    const tn_tensor_desc *to = gpu_tensor(call->outs[0]), *from = gpu_tensor(call->args[0]);
    gpu_window w = form->is_backward ? describe(call, form, to, from) : describe(call, form, from, to);
    uint64_t items = gpu_numel(to);
    gpu_contiguous result, positions = {0};
    if (!items) return TN_OK;
    int32_t writes_indices = !is_average(form) && !form->is_backward;
    int32_t is_processor = (int32_t)gpu_device_of(call)->properties.is_processor;
    int32_t by_image = is_processor && form->is_backward;
    int32_t status = by_image ? gpu_sums_begin(call, to, &result) : gpu_contiguous_begin(call, to, &result);
    if (!status && writes_indices) status = gpu_contiguous_begin(call, gpu_tensor(call->outs[1]), &positions);
    if (status) return status;
    const char *image_kernel = is_average(form) ? "average_pool_backward_images" : "max_pool_backward_images";
    gpu_job job =
        gpu_job_of(call, GPU_FILE_WINDOWS, gpu_type(from->dtype), by_image ? image_kernel : form->kernel);
    job.program.dtypes[0] = (uint8_t)gpu_dtype(from->dtype);
    job.program.group = form->is_adaptive ? 1 : 0;
    if (by_image) items = w.images;
    if (!form->is_backward && !form->is_adaptive && is_processor)
        items = (uint64_t)w.images * w.out[0] * w.out[1] * ((w.out[2] + CHUNK - 1) / CHUNK);
    w.offsets[0] = result.offset;
    w.offsets[1] = (int64_t)from->byte_offset;
    gpu_give_memory(&job, result.memory);
    gpu_give_memory(&job, from->allocation);
    if (writes_indices) {
        w.offsets[2] = positions.offset;
        gpu_give_memory(&job, positions.memory);
    } else if (form->indices) {
        const tn_tensor_desc *indices = gpu_tensor(call->args[form->indices]);
        w.offsets[2] = (int64_t)indices->byte_offset;
        gpu_give_memory(&job, indices->allocation);
    }
    gpu_give(&job, &w, sizeof w);
    status = gpu_launch(&job, items, by_image ? GPU_HEAVY : GPU_LIGHT);
    if (!status) status = by_image ? gpu_sums_end(call, &result) : gpu_contiguous_end(call, &result);
    return status || !writes_indices ? status : gpu_contiguous_end(call, &positions);
}

static const char *can_pool(void *self, const tn_call *call)
{
    const pool_form *form = call->data;
    const tn_tensor_desc *from = gpu_tensor(call->args[0]);
    if (from->rank < form->spatial) return "the image has too few dimensions";
    if (form->is_backward && gpu_tensor(call->args[1])->dtype != from->dtype)
        return "the gradient has another dtype";
    return gpu_can_run(self, call);
}

#define KERNEL(n) "int[" #n "] kernel_size, int[" #n "] stride=[], int[" #n "] padding=0, "
#define GIVEN(n)  "int[" #n "] kernel_size, int[" #n "] stride, int[" #n "] padding, "
#define ROW(text, list, ...) \
    GPU_ROW(CONTIGUOUS, text, list, .run = pool, .can_run = can_pool, .data = &(const pool_form){__VA_ARGS__})
#define POOL_ROWS(n)                                                                                        \
    ROW("max_pool" #n "d_with_indices(Tensor self, " KERNEL(n) "int[" #n                                    \
                                                               "] dilation=1, bool ceil_mode=False) -> "    \
                                                               "(Tensor, Tensor)",                          \
        gpu_number_dtypes, .kernel = "max_pool", .spatial = n, .window = 1),                                \
        ROW("max_pool" #n "d_with_indices_backward(Tensor grad_output, Tensor self, " GIVEN(                \
                n) "int[" #n "] "                                                                           \
                   "dilation, bool ceil_mode, Tensor indices) -> Tensor",                                   \
            gpu_float_dtypes, .kernel = "max_pool_backward", .spatial = n, .is_backward = 1, .window = 2,   \
            .indices = 7),                                                                                  \
        ROW("avg_pool" #n                                                                                   \
            "d(Tensor self, " KERNEL(n) "bool ceil_mode=False, bool count_include_pad=True, int? "          \
                                        "divisor_override=None) -> Tensor",                                 \
            gpu_float_dtypes, .kernel = "average_pool", .spatial = n, .window = 1),                         \
        ROW("avg_pool" #n "d_backward(Tensor grad_output, Tensor self, " GIVEN(                             \
                n) "bool ceil_mode, bool "                                                                  \
                   "count_include_pad, int? divisor_override) -> Tensor",                                   \
            gpu_float_dtypes, .kernel = "average_pool_backward", .spatial = n, .is_backward = 1,            \
            .window = 2),                                                                                   \
        ROW("_adaptive_avg_pool" #n "d(Tensor self, SymInt[" #n "] output_size) -> Tensor",                 \
            gpu_float_dtypes, .kernel = "average_pool", .spatial = n, .is_adaptive = 1),                    \
        ROW("_adaptive_avg_pool" #n "d_backward(Tensor grad_output, Tensor self) -> Tensor",                \
            gpu_float_dtypes, .kernel = "average_pool_backward", .spatial = n, .is_adaptive = 1,            \
            .is_backward = 1),                                                                              \
        ROW("adaptive_max_pool" #n "d(Tensor self, int[" #n "] output_size) -> (Tensor, Tensor)",           \
            gpu_float_dtypes, .kernel = "max_pool", .spatial = n, .is_adaptive = 1),                        \
        ROW("adaptive_max_pool" #n "d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor", \
            gpu_float_dtypes, .kernel = "max_pool_backward", .spatial = n, .is_adaptive = 1,                \
            .is_backward = 1, .indices = 2)
static const tn_kernel_row rows[] = {POOL_ROWS(2), POOL_ROWS(3)};
const gpu_rows gpu_pool_rows = GPU_ROW_LIST(rows);
