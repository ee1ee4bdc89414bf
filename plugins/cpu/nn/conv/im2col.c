/* SPDX-License-Identifier: Apache-2.0 */
/* im2col and col2im: the column matrices of convolution as operators, image by image. */
#include "conv_columns.h"
#include "nn/contiguous.h"
#include <string.h>

typedef struct im2col_job {
    const cpu_conv_columns_kernels *kernels;
    cpu_conv c;
    const char *from;
    char *to;
    int64_t image_bytes, columns_bytes;
    bool back;
} im2col_job;

static void run_images(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const im2col_job *job = user;
    for (int64_t n = begin; n < end; n++) {
        if (job->back) {
            char *image = job->to + n * job->image_bytes;
            memset(image, 0, (size_t)job->image_bytes);
            job->kernels->from_columns(&job->c, job->from + n * job->columns_bytes, job->c.x_channels, image);
        } else {
            job->kernels->to_columns(&job->c, job->from + n * job->image_bytes, job->c.x_channels,
                                     job->to + n * job->columns_bytes);
        }
    }
}

/* kernel, dilation, padding and stride are the arguments from `first` on. */
static cpu_conv geometry_of(const tn_call *call, const tn_tensor_desc *image, uint32_t first)
{
    cpu_conv c = {
        .dtype = image->dtype, .spatial = 2, .groups = 1, .x_channels = image->sizes[image->rank - 3]};
    for (int i = 0; i < 3; i++) {
        bool there = i > 0;
        uint32_t k = there ? (uint32_t)i - 1 : 0;
        c.x_size[i] = there ? image->sizes[image->rank - 2 + k] : 1;
        c.kernel[i] = there ? list_arg(call, first, k, 1) : 1;
        c.dilation[i] = there ? list_arg(call, first + 1, k, 1) : 1;
        c.padding[i] = there ? list_arg(call, first + 2, k, 0) : 0;
        c.stride[i] = there ? list_arg(call, first + 3, k, 1) : 1;
        c.y_size[i] =
            (c.x_size[i] + 2 * c.padding[i] - c.dilation[i] * (c.kernel[i] - 1) - 1) / c.stride[i] + 1;
    }
    return c;
}

static int32_t run(const tn_call *call, bool back)
{
    const tn_tensor_desc *in = tensor_arg(call, 0), *out = tensor_out(call, 0), *image = back ? out : in;
    im2col_job job = {.kernels = cpu_kernels_of(cpu_conv_columns_table, in->dtype), .back = back};
    int64_t bytes = tn_dtype_bytes(in->dtype), batch = image->rank > 3 ? image->sizes[0] : 1;
    void *from, *to;
    int32_t status = cpu_contiguous_read(call, in, &from);
    if (status == TN_OK) status = cpu_contiguous_write(call, out, &to);
    job.c = geometry_of(call, image, back ? 2 : 1);
    if (status == TN_OK && cpu_numel(out) > 0) {
        job.from = from;
        job.to = to;
        job.image_bytes = job.c.x_channels * cpu_volume(job.c.x_size) * bytes;
        job.columns_bytes = job.c.x_channels * cpu_volume(job.c.kernel) * cpu_volume(job.c.y_size) * bytes;
        cpu_parallel_ranges(call, batch, grain_for(32768, job.columns_bytes), run_images, &job);
    }
    if (status == TN_OK) cpu_contiguous_finish(call, out, to);
    return status;
}

static int32_t run_im2col(void *self, const tn_call *call)
{
    return run(call, false);
}
static int32_t run_col2im(void *self, const tn_call *call)
{
    return run(call, true);
}

const tn_kernel_row cpu_im2col_rows[] = {
    CPU_ROW("aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) "
            "-> Tensor",
            cpu_all_dtypes, run_im2col),
    CPU_ROW("aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] "
            "padding, int[2] stride) -> Tensor",
            cpu_all_dtypes, run_col2im),
};
const uint32_t cpu_im2col_row_count = CPU_ROW_COUNT(cpu_im2col_rows);
