/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Depthwise convolution: every input channel is a group of its own, so planes are worked on one by one.
 * Weight gradients are summed over the batch in order, a channel at a time, whatever the number of threads.
 */
#include "conv_columns.h"
#include "conv_depthwise.h"
#include "nn/tables.h"
#include <string.h>

typedef struct depthwise_job {
    const tni_conv_pass *pass;
    const tni_depthwise_kernels *kernels;
    int64_t multiplier;                       /* output channels of an input channel */
    int64_t x_bytes, y_bytes, w_bytes, bytes; /* of a plane, a kernel, an element */
} depthwise_job;

static void fill(const depthwise_job *job, char *to, int64_t volume, int64_t channel)
{
    const char *bias = job->pass->bias;
    tni_columns_of(job->pass->geometry->dtype)
        ->fill_channels(to, 1, volume, bias ? bias + channel * job->bytes : NULL);
}

static void forward_planes(void *context, int64_t begin, int64_t end)
{
    const depthwise_job *job = context;
    const tni_conv_pass *p = job->pass;
    for (int64_t plane = begin; plane < end; plane++) {
        int64_t channel = plane % p->geometry->y_channels;
        char *y = (char *)p->out + plane * job->y_bytes;
        fill(job, y, tni_volume(p->geometry->y_size), channel);
        job->kernels->forward(p->geometry, (const char *)p->x + plane / job->multiplier * job->x_bytes,
                              (const char *)p->w + channel * job->w_bytes, y);
    }
}

static void data_planes(void *context, int64_t begin, int64_t end)
{
    const depthwise_job *job = context;
    const tni_conv_pass *p = job->pass;
    for (int64_t plane = begin; plane < end; plane++) {
        int64_t channel = plane % p->geometry->x_channels;
        char *x = (char *)p->out + plane * job->x_bytes;
        fill(job, x, tni_volume(p->geometry->x_size), channel);
        for (int64_t m = 0; m < job->multiplier; m++)
            job->kernels->data(p->geometry, x,
                               (const char *)p->w + (channel * job->multiplier + m) * job->w_bytes,
                               (const char *)p->y + (plane * job->multiplier + m) * job->y_bytes);
    }
}

static void weight_channels(void *context, int64_t begin, int64_t end)
{
    const depthwise_job *job = context;
    const tni_conv_pass *p = job->pass;
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

bool tni_conv_depthwise_can(const tni_conv *c)
{
    return c->groups > 1 && c->groups == c->x_channels && tni_depthwise_of(c->dtype);
}

int32_t tni_conv_depthwise(const tni_conv_pass *p)
{
    const tni_conv *c = p->geometry;
    int64_t bytes = tn_dtype_bytes(c->dtype);
    depthwise_job job = {.pass = p,
                         .kernels = tni_depthwise_of(c->dtype),
                         .multiplier = c->y_channels / c->x_channels,
                         .bytes = bytes,
                         .x_bytes = tni_volume(c->x_size) * bytes,
                         .y_bytes = tni_volume(c->y_size) * bytes,
                         .w_bytes = tni_volume(c->kernel) * bytes};
    int64_t work = tni_volume(c->y_size) * tni_volume(c->kernel);
    if (p->kind == TNI_CONV_FORWARD)
        tni_for_ranges(p->call, c->batch * c->y_channels, grain_for(1 << 16, work), forward_planes, &job);
    else if (p->kind == TNI_CONV_DATA)
        tni_for_ranges(p->call, c->batch * c->x_channels, grain_for(1 << 16, work * job.multiplier),
                       data_planes, &job);
    else
        tni_for_ranges(p->call, c->y_channels, grain_for(1 << 16, work * c->batch), weight_channels, &job);
    return TN_OK;
}
