/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolution: every input channel is its own group, so planes are independent. Weight gradients
 * are summed over the batch in order, so they do not depend on the number of threads.
 */
#include "kernel_lists.h"
#include "conv_columns.h"
#include "conv_depthwise.h"
#include "support/kernel_table.h"
#include <string.h>

CPU_KERNEL_TABLE(static cpu_kernel_table conv_depthwise_table, CPU_CONV_DEPTHWISE_LISTS,
                 cpu_conv_depthwise_kernels);

typedef struct depthwise_job depthwise_job;
struct depthwise_job {
    void (*run)(const depthwise_job *job, int64_t item); /* for a plane, or a channel of the weight */
    const cpu_conv_pass *pass;
    const cpu_conv_depthwise_kernels *kernels;
    int64_t multiplier;                       /* output channels of an input channel */
    int64_t x_bytes, y_bytes, w_bytes, bytes; /* of a plane, a kernel, an element */
};

/* Plane `plane` of the result, filled with the channel's bias or zeros. */
static char *filled_plane(const depthwise_job *job, int64_t plane, int64_t plane_bytes, int64_t channel)
{
    const char *bias = job->pass->bias;
    const cpu_conv_columns_kernels *columns =
        cpu_kernels_of(cpu_conv_columns_table, job->pass->geometry->dtype);
    char *to = (char *)job->pass->out + plane * plane_bytes;
    columns->fill_channels(to, 1, plane_bytes / job->bytes, bias ? bias + channel * job->bytes : NULL);
    return to;
}

static void forward_plane(const depthwise_job *job, int64_t plane)
{
    const cpu_conv_pass *p = job->pass;
    int64_t channel = plane % p->geometry->y_channels;
    char *y = filled_plane(job, plane, job->y_bytes, channel);
    job->kernels->forward(p->geometry, (const char *)p->x + plane / job->multiplier * job->x_bytes,
                          (const char *)p->w + channel * job->w_bytes, y);
}

static void data_plane(const depthwise_job *job, int64_t plane)
{
    const cpu_conv_pass *p = job->pass;
    int64_t channel = plane % p->geometry->x_channels;
    char *x = filled_plane(job, plane, job->x_bytes, channel);
    for (int64_t m = 0; m < job->multiplier; m++)
        job->kernels->data(p->geometry, x,
                           (const char *)p->w + (channel * job->multiplier + m) * job->w_bytes,
                           (const char *)p->y + (plane * job->multiplier + m) * job->y_bytes);
}

static void weight_channel(const depthwise_job *job, int64_t channel)
{
    const cpu_conv_pass *p = job->pass;
    char *w = (char *)p->out + channel * job->w_bytes;
    memset(w, 0, (size_t)job->w_bytes);
    for (int64_t n = 0; n < p->geometry->batch; n++) {
        int64_t plane = n * p->geometry->y_channels + channel;
        job->kernels->weights(p->geometry, (const char *)p->x + plane / job->multiplier * job->x_bytes, w,
                              (const char *)p->y + plane * job->y_bytes);
    }
}

CPU_RANGE(run_items, depthwise_job, for (int64_t i = begin; i < end; i++) job->run(job, i))

bool cpu_conv_depthwise_can(const cpu_conv *c)
{
    return c->groups > 1 && c->groups == c->x_channels && cpu_kernels_of(conv_depthwise_table, c->dtype);
}

int32_t cpu_conv_depthwise(const cpu_conv_pass *p)
{
    const cpu_conv *c = p->geometry;
    int64_t bytes = tn_dtype_bytes(c->dtype);
    depthwise_job job = {.pass = p,
                         .kernels = cpu_kernels_of(conv_depthwise_table, c->dtype),
                         .multiplier = c->y_channels / c->x_channels,
                         .bytes = bytes,
                         .x_bytes = cpu_volume(c->x_size) * bytes,
                         .y_bytes = cpu_volume(c->y_size) * bytes,
                         .w_bytes = cpu_volume(c->kernel) * bytes};
    int64_t work = cpu_volume(c->y_size) * cpu_volume(c->kernel);
    int64_t items = c->y_channels;
    if (p->kind == CPU_CONV_FORWARD) {
        job.run = forward_plane;
        items *= c->batch;
    } else if (p->kind == CPU_CONV_DATA) {
        job.run = data_plane;
        items = c->batch * c->x_channels;
        work *= job.multiplier;
    } else {
        job.run = weight_channel;
        work *= c->batch;
    }
    cpu_parallel_ranges(p->call, items, grain_for(1 << 16, work), run_items, &job);
    return TN_OK;
}
