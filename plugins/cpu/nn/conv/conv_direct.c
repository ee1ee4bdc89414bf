/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes of a convolution with stride 1 as products with shifted images: geometry, scratch memory and
 * threads. Results do not depend on the number of threads: one thread computes an output, and weights are
 * summed over the images in order.
 */
#include "kernel_lists.h"
#include "conv_direct.h"
#include "support/kernel_table.h"
#include <string.h>

CPU_KERNEL_TABLE(static cpu_kernel_table conv_direct_table, CPU_CONV_DIRECT_LISTS, cpu_conv_direct_kernels);

/* Scratch memory for padded images in the weights pass: enough work for the threads between two phases. */
#define PLACED_BYTES (8 << 20)
/* Outputs of a block of channels that fit the first-level cache. */
#define BLOCK_BYTES (16 << 10)

bool cpu_conv_direct_can(const cpu_conv *c, int32_t kind)
{
    int64_t kernel = cpu_volume(c->kernel);
    if (!cpu_kernels_of(conv_direct_table, c->dtype) || kernel < 2 || kernel > CPU_DIRECT_KERNEL)
        return false;
    for (int i = 0; i < 3; i++) {
        if (c->stride[i] != 1) return false;
        if (kind == CPU_CONV_DATA && c->padding[i] > (c->kernel[i] - 1) * c->dilation[i]) return false;
    }
    /* Narrow images waste most of each row, and few output channels waste registers of a block. */
    return c->y_size[2] >= (c->kernel[2] - 1) * c->dilation[2];
}

static cpu_direct describe(const cpu_conv *c, int32_t kind)
{
    cpu_direct d = {.kernel_count = cpu_volume(c->kernel)};
    bool data = kind == CPU_CONV_DATA;
    int64_t x_channels = c->x_channels / c->groups, y_channels = c->y_channels / c->groups, size[3], n = 0;
    const int64_t *out = data ? c->x_size : c->y_size;
    for (int i = 0; i < 3; i++) {
        size[i] = out[i] + (c->kernel[i] - 1) * c->dilation[i];
        d.out_size[i] = out[i];
    }
    d.in_channels = data ? y_channels : x_channels;
    d.out_channels = data ? x_channels : y_channels;
    d.flip = data;
    d.w_out = data ? d.kernel_count : x_channels * d.kernel_count;
    d.w_in = data ? x_channels * d.kernel_count : d.kernel_count;
    d.height = size[1];
    d.width = size[2];
    d.image_step = cpu_volume(size);
    d.positions = ((out[0] - 1) * d.height + out[1] - 1) * d.width + out[2];
    for (int64_t z = 0; z < c->kernel[0]; z++)
        for (int64_t y = 0; y < c->kernel[1]; y++)
            for (int64_t x = 0; x < c->kernel[2]; x++)
                d.offsets[n++] =
                    (z * c->dilation[0] * d.height + y * c->dilation[1]) * d.width + x * c->dilation[2];
    return d;
}

/* The place of the input image within its padding. */
static cpu_grid image_grid(const cpu_conv *c, const cpu_direct *d, int32_t kind)
{
    cpu_grid grid = {.width = d->width, .height = d->height, .channel_step = d->image_step};
    int64_t margin[3];
    for (int i = 0; i < 3; i++) {
        grid.size[i] = kind == CPU_CONV_DATA ? c->y_size[i] : c->x_size[i];
        margin[i] =
            kind == CPU_CONV_DATA ? (c->kernel[i] - 1) * c->dilation[i] - c->padding[i] : c->padding[i];
    }
    grid.origin = (margin[0] * d->height + margin[1]) * d->width + margin[2];
    return grid;
}

typedef struct direct_job {
    const cpu_conv_pass *pass;
    const cpu_conv_direct_kernels *kernels;
    cpu_direct d;
    cpu_grid grid, y_grid;
    int64_t blocks, packed_step; /* blocks of output channels; elements of a group's packed weights */
    int64_t parts;               /* parts that the blocks of one image are cut into */
    char *packed;
    char *x_placed, *y_placed;
    int64_t first, images, at_once;
    int32_t status;
} direct_job;

static int64_t element_bytes(const direct_job *job)
{
    return tn_dtype_bytes(job->pass->geometry->dtype);
}

static void run_images(void *user, int64_t begin, int64_t end, int32_t thread)
{
    direct_job *job = user;
    const cpu_conv *c = job->pass->geometry;
    const cpu_direct *d = &job->d;
    int64_t bytes = element_bytes(job);
    int64_t scratch_bytes = (d->in_channels * d->image_step + job->kernels->slack) * bytes;
    int64_t in_step = d->in_channels * cpu_volume(job->grid.size) * bytes;
    int64_t out_step = d->out_channels * cpu_volume(d->out_size) * bytes;
    const char *in = job->pass->kind == CPU_CONV_DATA ? job->pass->y : job->pass->x;
    char *image = cpu_alloc(job->pass->call, scratch_bytes);
    int64_t placed = -1;
    if (!image) {
        job->status = TN_E_OUT_OF_MEMORY;
        return;
    }
    memset(image + d->in_channels * d->image_step * bytes, 0, (size_t)(job->kernels->slack * bytes));
    for (int64_t item = begin; item < end; item++) {
        int64_t index = item / job->parts, part = item % job->parts, group = index % c->groups;
        const char *bias = job->pass->bias;
        if (placed != index) job->kernels->place(image, in + index * in_step, &job->grid, d->in_channels);
        placed = index;
        job->kernels->image_blocks(d, image, job->packed + group * job->packed_step * bytes,
                                   bias ? bias + group * d->out_channels * bytes : NULL,
                                   job->blocks * part / job->parts, job->blocks * (part + 1) / job->parts,
                                   (char *)job->pass->out + index * out_step);
    }
    cpu_free(job->pass->call, image, scratch_bytes);
}

static int32_t run_outputs(direct_job *job)
{
    const cpu_conv_pass *p = job->pass;
    const cpu_conv *c = p->geometry;
    int64_t bytes = element_bytes(job), images = c->batch * c->groups,
            wanted = 4 * max_i64(1, p->call->threads);
    int64_t w_step = c->y_channels / c->groups * (c->x_channels / c->groups) * job->d.kernel_count * bytes;
    job->packed_step = job->blocks * job->kernels->rows * job->d.in_channels * job->d.kernel_count;
    job->packed = cpu_scratch(p->call, (uint64_t)(c->groups * job->packed_step * bytes));
    if (!job->packed) return TN_E_OUT_OF_MEMORY;
    for (int64_t g = 0; g < c->groups; g++)
        job->kernels->pack(job->packed + g * job->packed_step * bytes, (const char *)p->w + g * w_step,
                           &job->d);
    job->parts = images >= wanted ? 1 : min_i64(job->blocks, ceil_div(wanted, max_i64(1, images)));
    cpu_parallel_ranges(p->call, images * job->parts, max_i64(1, images * job->parts / (4 * wanted)),
                        run_images, job);
    return job->status;
}

/* ---- Backward weights -------------------------------------------------------------------------------- */

static void place_images(void *user, int64_t begin, int64_t end, int32_t thread)
{
    direct_job *job = user;
    const cpu_conv *c = job->pass->geometry;
    int64_t bytes = element_bytes(job), x_used = c->x_channels * job->d.image_step;
    for (int64_t i = begin; i < end; i++) {
        char *x = job->x_placed + i * job->d.x_image_step * bytes;
        char *y = job->y_placed + i * job->d.y_image_step * bytes;
        int64_t n = job->first + i;
        job->kernels->place(x, (const char *)job->pass->x + n * c->x_channels * cpu_volume(c->x_size) * bytes,
                            &job->grid, c->x_channels);
        memset(x + x_used * bytes, 0, (size_t)((job->d.x_image_step - x_used) * bytes));
        job->kernels->place(y, (const char *)job->pass->y + n * c->y_channels * cpu_volume(c->y_size) * bytes,
                            &job->y_grid, c->y_channels);
    }
}

static void run_weight_blocks(void *user, int64_t begin, int64_t end, int32_t thread)
{
    direct_job *job = user;
    const cpu_direct *d = &job->d;
    int64_t bytes = element_bytes(job), columns = d->in_channels * d->kernel_count;
    for (int64_t item = begin; item < end; item++) {
        int64_t group = item / job->blocks, block = item % job->blocks;
        const char *x = job->x_placed + group * d->in_channels * d->image_step * bytes;
        const char *y = job->y_placed + group * d->out_channels * d->y_step * bytes;
        char *out = (char *)job->pass->out + group * d->out_channels * columns * bytes;
        for (int64_t i = 0; i < job->images; i += job->at_once)
            job->kernels->weights_block(d, x + i * d->x_image_step * bytes, y + i * d->y_image_step * bytes,
                                        min_i64(job->at_once, job->images - i), block, out);
    }
}

static int32_t run_weights(direct_job *job)
{
    const cpu_conv_pass *p = job->pass;
    const cpu_conv *c = p->geometry;
    cpu_direct *d = &job->d;
    int64_t bytes = element_bytes(job), image_bytes, chunk, x_bytes, y_bytes;
    d->y_step = round_up(d->positions, job->kernels->lanes);
    d->x_image_step = c->x_channels * d->image_step + job->kernels->slack;
    d->y_image_step = c->y_channels * d->y_step;
    job->y_grid = (cpu_grid){.width = d->width, .height = d->height, .channel_step = d->y_step};
    memcpy(job->y_grid.size, c->y_size, sizeof(c->y_size));
    image_bytes = (d->x_image_step + d->y_image_step) * bytes;
    chunk = max_i64(1, min_i64(c->batch, PLACED_BYTES / image_bytes));
    job->at_once = max_i64(1, BLOCK_BYTES / (job->kernels->rows * d->y_step * bytes));
    x_bytes = chunk * d->x_image_step * bytes;
    y_bytes = chunk * d->y_image_step * bytes;
    job->x_placed = cpu_scratch(p->call, (uint64_t)x_bytes);
    job->y_placed = cpu_scratch(p->call, (uint64_t)y_bytes);
    job->status = job->x_placed && job->y_placed ? TN_OK : TN_E_OUT_OF_MEMORY;
    memset(p->out, 0, (size_t)(c->y_channels * d->in_channels * d->kernel_count * bytes));
    for (job->first = 0; job->status == TN_OK && job->first < c->batch; job->first += chunk) {
        job->images = min_i64(chunk, c->batch - job->first);
        cpu_parallel_ranges(p->call, job->images, grain_for(1 << 16, image_bytes), place_images, job);
        cpu_parallel_ranges(p->call, c->groups * job->blocks, 1, run_weight_blocks, job);
    }
    return job->status;
}

int32_t cpu_conv_direct(const cpu_conv_pass *p)
{
    const cpu_conv *c = p->geometry;
    direct_job job = {
        .pass = p, .kernels = cpu_kernels_of(conv_direct_table, c->dtype), .d = describe(c, p->kind)};
    job.grid = image_grid(c, &job.d, p->kind);
    job.blocks = ceil_div(job.d.out_channels, job.kernels->rows);
    return p->kind == CPU_CONV_WEIGHTS ? run_weights(&job) : run_outputs(&job);
}
