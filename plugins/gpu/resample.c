/* SPDX-License-Identifier: Apache-2.0 */
/* Upsampling and padding by reflection and replication on processors (device/resample.cl). */
#include "gpu.h"

#include "device/resample.h"

#include <math.h>

typedef struct resample_form {
    uint32_t spatial; /* dimensions */
    uint32_t kind;
    int32_t is_backward; /* argument 0 is the gradient */
    int32_t align;       /* the argument align_corners; -1: there is none */
    uint32_t numbers;    /* the argument with the padding, or the first of the scales */
} resample_form;

static int32_t is_padding(const resample_form *form)
{
    return form->kind == GPU_TAPS_REFLECT || form->kind == GPU_TAPS_REPLICATE;
}

static int32_t is_smooth(const resample_form *form)
{
    return form->kind == GPU_TAPS_LINEAR || form->kind == GPU_TAPS_CUBIC;
}

/* The scale that the caller gave for spatial dimension k, or 0. */
static double given_scale(const tn_call *call, const resample_form *form, uint32_t k)
{
    tn_value scale = call->args[form->numbers + k];
    double given = scale.tag == TN_TAG_NONE ? 0 : tn_number_of(scale).f;
    return given > 0 ? given : 0;
}

/* Elements of `in` for each of `out`: in float32 unless T is float64 and the filter has weights, as in ATen. */
static double step_of(const gpu_resample *r, const resample_form *form, double given, uint32_t axis,
                      uint8_t type)
{
    double in = r->in[axis], out = r->out[axis];
    int32_t is_wide = type == 64 && is_smooth(form);
    if (r->flags & GPU_RESAMPLE_ALIGN) {
        if (r->out[axis] <= 1) return 0;
        return is_wide ? (in - 1) / (out - 1) : (double)((float)(in - 1) / (float)(out - 1));
    }
    if (given > 0) return is_wide ? 1 / given : (double)(float)(1 / given);
    return is_wide ? in / out : (double)((float)in / (float)out);
}

/* A nearest neighbour of the same or twice the size needs no step; only images ignore a given scale there. */
static uint32_t kind_of(const gpu_resample *r, const resample_form *form, double given, uint32_t axis)
{
    int32_t by_size = form->kind == GPU_TAPS_NEAREST && (!(given > 0) || form->spatial == 2);
    if (form->kind == GPU_TAPS_LINEAR && r->in[axis] == r->out[axis]) return GPU_TAPS_SAME;
    if (by_size && r->out[axis] == r->in[axis]) return GPU_TAPS_SAME;
    if (by_size && r->out[axis] == 2 * r->in[axis]) return GPU_TAPS_HALF;
    return form->kind;
}

static gpu_resample describe(const tn_call *call, const resample_form *form, const tn_tensor_desc *in,
                             const tn_tensor_desc *out)
{
    gpu_resample r = {.images = 1, .in = {1, 1, 1}, .out = {1, 1, 1}, .run = GPU_RESAMPLE_RUN};
    uint32_t space = form->spatial;
    uint8_t type = gpu_type(in->dtype);
    for (uint32_t d = 0; d + space < in->rank; d++) r.images *= (uint32_t)in->sizes[d];
    if (form->align >= 0 && tn_value_as_bool(call->args[form->align])) r.flags = GPU_RESAMPLE_ALIGN;
    /* ATen rounds weights to half types, except for bilinear images and for gradients. */
    if (is_smooth(form) && !form->is_backward && !(space == 2 && form->kind == GPU_TAPS_LINEAR))
        r.flags |= GPU_RESAMPLE_ROUNDED;
    for (uint32_t k = 0; k < space; k++) {
        uint32_t axis = 3 - space + k;
        r.in[axis] = (uint32_t)in->sizes[in->rank - space + k];
        r.out[axis] = (uint32_t)out->sizes[out->rank - space + k];
        r.kind[axis] = form->kind;
        if (is_padding(form)) {
            r.before[axis] = (int32_t)call->args[form->numbers].as.ints[2 * (space - 1 - k)];
            continue;
        }
        double given = given_scale(call, form, k), step = step_of(&r, form, given, axis, type);
        r.kind[axis] = kind_of(&r, form, given, axis);
        r.step[axis] = gpu_number_bits(type, tn_number_real(step));
        /* A run must fit into the line, with its taps at both ends. */
        if (axis == 2 && step > 3)
            r.run = step > GPU_RESAMPLE_LINE / 2 ? 1 : (uint32_t)((GPU_RESAMPLE_LINE - 8) / step);
    }
    return r;
}

static int32_t resample(void *self, const tn_call *call)
{
    const resample_form *form = call->data;
    const tn_tensor_desc *to = gpu_tensor(call->outs[0]), *from = gpu_tensor(call->args[0]);
    gpu_resample r = form->is_backward ? describe(call, form, to, from) : describe(call, form, from, to);
    gpu_contiguous result;
    if (!gpu_numel(to)) return TN_OK;
    int32_t status =
        form->is_backward ? gpu_sums_begin(call, to, &result) : gpu_contiguous_begin(call, to, &result);
    if (status) return status;
    r.offsets[0] = result.offset;
    r.offsets[1] = (int64_t)from->byte_offset;
    gpu_job job = gpu_job_of(call, GPU_FILE_RESAMPLE, gpu_type(to->dtype),
                             form->is_backward ? "resample_backward" : "resample");
    job.program.dtypes[0] = (uint8_t)gpu_dtype(from->dtype);
    gpu_give_memory(&job, result.memory);
    gpu_give_memory(&job, from->allocation);
    gpu_give(&job, &r, sizeof r);
    uint64_t runs = form->is_backward ? 1 : (r.out[2] + r.run - 1) / r.run;
    status = gpu_launch(&job, r.images * runs, GPU_HEAVY);
    if (status) return status;
    return form->is_backward ? gpu_sums_end(call, &result) : gpu_contiguous_end(call, &result);
}

static const char *can_resample(void *self, const tn_call *call)
{
    const resample_form *form = call->data;
    const tn_tensor_desc *from = gpu_tensor(call->args[0]), *to = gpu_result(call, 0);
    if (!gpu_device_of(call)->properties.is_processor) return "the device gathers by tables";
    if (from->rank < form->spatial) return "the image has too few dimensions";
    if (!gpu_numel(from)) return "the image is empty";
    if (from->dtype != to->dtype) return "the result has another dtype";
    return gpu_can_run(self, call);
}

#define ROW(text, ...)                                                                    \
    GPU_ROW(CONTIGUOUS, text, gpu_float_dtypes, .run = resample, .can_run = can_resample, \
            .data = &(const resample_form){__VA_ARGS__})
#define SCALES_1 "float? scales=None"
#define SCALES_2 "float? scales_h=None, float? scales_w=None"
#define SCALES_3 "float? scales_d=None, float? scales_h=None, float? scales_w=None"
#define NEAREST_ROWS(name, dims, sizes, taps)                                                        \
    ROW(name #dims "d(Tensor self, SymInt[" #dims "] output_size, " SCALES_##dims ") -> Tensor",     \
        .spatial = dims, .kind = taps, .align = -1, .numbers = 2),                                   \
        ROW(name #dims "d_backward(Tensor grad_output, SymInt[" #dims "] output_size, SymInt[" sizes \
                       "] input_size, " SCALES_##dims ") -> Tensor",                                 \
            .spatial = dims, .kind = taps, .is_backward = 1, .align = -1, .numbers = 3)
#define SMOOTH_ROWS(name, dims, sizes, taps)                                                   \
    ROW(name "(Tensor self, SymInt[" #dims "] output_size, bool align_corners, " SCALES_##dims \
        ") -> Tensor",                                                                         \
        .spatial = dims, .kind = taps, .align = 2, .numbers = 3),                              \
        ROW(name "_backward(Tensor grad_output, SymInt[" #dims "] output_size, SymInt[" sizes  \
                 "] input_size, bool align_corners, " SCALES_##dims ") -> Tensor",             \
            .spatial = dims, .kind = taps, .is_backward = 1, .align = 3, .numbers = 4)
#define PAD_ROWS(name, dims, amounts, taps)                                                                  \
    ROW(name #dims "d(Tensor self, SymInt[" amounts "] padding) -> Tensor", .spatial = dims, .kind = taps,   \
        .align = -1, .numbers = 1),                                                                          \
        ROW(name #dims "d_backward(Tensor grad_output, Tensor self, SymInt[" amounts "] padding) -> Tensor", \
            .spatial = dims, .kind = taps, .is_backward = 1, .align = -1, .numbers = 2)
static const tn_kernel_row rows[] = {
    NEAREST_ROWS("upsample_nearest", 1, "3", GPU_TAPS_NEAREST),
    NEAREST_ROWS("upsample_nearest", 2, "4", GPU_TAPS_NEAREST),
    NEAREST_ROWS("upsample_nearest", 3, "5", GPU_TAPS_NEAREST),
    NEAREST_ROWS("_upsample_nearest_exact", 1, "3", GPU_TAPS_EXACT),
    NEAREST_ROWS("_upsample_nearest_exact", 2, "4", GPU_TAPS_EXACT),
    NEAREST_ROWS("_upsample_nearest_exact", 3, "5", GPU_TAPS_EXACT),
    SMOOTH_ROWS("upsample_linear1d", 1, "3", GPU_TAPS_LINEAR),
    SMOOTH_ROWS("upsample_bilinear2d", 2, "4", GPU_TAPS_LINEAR),
    SMOOTH_ROWS("upsample_trilinear3d", 3, "5", GPU_TAPS_LINEAR),
    SMOOTH_ROWS("upsample_bicubic2d", 2, "4", GPU_TAPS_CUBIC),
    PAD_ROWS("reflection_pad", 1, "2", GPU_TAPS_REFLECT),
    PAD_ROWS("reflection_pad", 2, "4", GPU_TAPS_REFLECT),
    PAD_ROWS("reflection_pad", 3, "6", GPU_TAPS_REFLECT),
    PAD_ROWS("replication_pad", 1, "2", GPU_TAPS_REPLICATE),
    PAD_ROWS("replication_pad", 2, "4", GPU_TAPS_REPLICATE),
    PAD_ROWS("replication_pad", 3, "6", GPU_TAPS_REPLICATE),
};
const gpu_rows gpu_resample_rows = GPU_ROW_LIST(rows);
