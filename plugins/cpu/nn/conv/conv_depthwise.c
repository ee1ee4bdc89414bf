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

typedef struct depthwise_job {
    const cpu_conv_pass *pass;
    const cpu_conv_depthwise_kernels *kernels;
    int64_t multiplier;                       /* output channels of an input channel */
    int64_t x_bytes, y_bytes, w_bytes, bytes; /* of a plane, a kernel, an element */
} depthwise_job;

static void fill(const depthwise_job *job, char *to, int64_t volume, int64_t channel)
{
    const char *bias = job->pass->bias;
    const cpu_conv_columns_kernels *columns =
        cpu_kernels_of(cpu_conv_columns_table, job->pass->geometry->dtype);
    columns->fill_channels(to, 1, volume, bias ? bias + channel * job->bytes : NULL);
}

static void forward_planes(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const depthwise_job *job = user;
    const cpu_conv_pass *p = job->pass;
    for (int64_t plane = begin; plane < end; plane++) {
        int64_t channel = plane % p->geometry->y_channels;
        char *y = (char *)p->out + plane * job->y_bytes;
        fill(job, y, cpu_volume(p->geometry->y_size), channel);
        job->kernels->forward(p->geometry, (const char *)p->x + plane / job->multiplier * job->x_bytes,
                              (const char *)p->w + channel * job->w_bytes, y);
    }
}

static void data_planes(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const depthwise_job *job = user;
    const cpu_conv_pass *p = job->pass;
    for (int64_t plane = begin; plane < end; plane++) {
        int64_t channel = plane % p->geometry->x_channels;
        char *x = (char *)p->out + plane * job->x_bytes;
        fill(job, x, cpu_volume(p->geometry->x_size), channel);
        for (int64_t m = 0; m < job->multiplier; m++)
            job->kernels->data(p->geometry, x,
                               (const char *)p->w + (channel * job->multiplier + m) * job->w_bytes,
                               (const char *)p->y + (plane * job->multiplier + m) * job->y_bytes);
    }
}

static void weight_channels(void *user, int64_t begin, int64_t end, int32_t thread)
{
    const depthwise_job *job = user;
    const cpu_conv_pass *p = job->pass;
    for (int64_t channel = begin; channel < end; channel++) {
        char *w = (char *)p->out + channel * job->w_bytes;
        memset(w, 0, (size_t)job->w_bytes);
        for (int64_t n = 0; n < p->geometry->batch; n++) {
            int64_t plane = n * p->geometry->y_channels + channel;
            job->kernels->weights(p->geometry, (const char *)p->x + plane / job->multiplier * job->x_bytes, w,
                                  (const char *)p->y + plane * job->y_bytes);
        }
    }
}

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
    if (p->kind == CPU_CONV_FORWARD)
        cpu_parallel_ranges(p->call, c->batch * c->y_channels, grain_for(1 << 16, work), forward_planes,
                            &job);
    else if (p->kind == CPU_CONV_DATA)
        cpu_parallel_ranges(p->call, c->batch * c->x_channels, grain_for(1 << 16, work * job.multiplier),
                            data_planes, &job);
    else
        cpu_parallel_ranges(p->call, c->y_channels, grain_for(1 << 16, work * c->batch), weight_channels,
                            &job);
    return TN_OK;
}
