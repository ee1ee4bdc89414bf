/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes of a convolution as products with column matrices, for every dtype and geometry. Each thread
 * takes images of its own, or all threads share the product of one image if there are too few images. Weight
 * gradients are summed in a fixed number of parts, so they do not depend on the number of threads.
 */
#include "kernel_lists.h"
#include "conv_columns.h"
#include "nn/product/gemm.h"
#include <string.h>

CPU_KERNEL_TABLE(cpu_kernel_table cpu_conv_columns_table, CPU_CONV_COLUMNS_LISTS, cpu_conv_columns_kernels);

enum { WEIGHT_PARTS = 8 };
#define PARTS_BYTES (64 << 20) /* limit of the memory for parts of weight gradients */

typedef struct column_job {
    const cpu_conv_pass *pass;
    const cpu_conv_columns_kernels *kernels;
    int64_t x_channels, y_channels, rows, positions, plane; /* of one group; rows of the column matrix */
    int64_t x_step, y_step, w_step, bytes; /* bytes of one group of an image, or of weights */
    bool direct;                           /* the image is its own column matrix */
    bool parallel_product;
    int64_t parts;
    char *partials;
    int32_t status;
} column_job;

static int64_t columns_bytes(const column_job *job)
{
    return job->direct ? 0 : job->rows * job->positions * job->bytes;
}

static void multiply(column_job *job, const cpu_gemm *g)
{
    const tn_call *call = job->pass->call;
    tn_dtype dtype = job->pass->geometry->dtype;
    int32_t status = job->parallel_product ? cpu_gemm_run(call, dtype, g) : cpu_gemm_serial(call, dtype, g);
    if (status != TN_OK) job->status = status;
}

static void forward_item(column_job *job, int64_t item, char *columns)
{
    const cpu_conv_pass *p = job->pass;
    int64_t group = item % p->geometry->groups;
    const char *x = (const char *)p->x + item * job->x_step, *bias = p->bias;
    char *y = (char *)p->out + item * job->y_step;
    cpu_gemm g = {.m = job->y_channels, .n = job->positions, .k = job->rows, .alpha = {1, 0}, .beta = {1, 0}};
    if (!job->direct) job->kernels->to_columns(p->geometry, x, job->x_channels, columns);
    if (bias)
        job->kernels->fill_channels(y, job->y_channels, job->positions,
                                    bias + group * job->y_channels * job->bytes);
    else
        g.beta[0] = 0;
    g.a = (const char *)p->w + group * job->w_step;
    g.a_row = job->rows;
    g.a_col = 1;
    g.b = job->direct ? x : columns;
    g.b_row = job->positions;
    g.b_col = 1;
    g.c = y;
    g.c_row = job->positions;
    multiply(job, &g);
}

static void data_item(column_job *job, int64_t item, char *columns)
{
    const cpu_conv_pass *p = job->pass;
    int64_t group = item % p->geometry->groups;
    const char *bias = p->bias;
    char *x = (char *)p->out + item * job->x_step;
    cpu_gemm g = {.m = job->rows, .n = job->positions, .k = job->y_channels, .alpha = {1, 0}};
    g.a = (const char *)p->w + group * job->w_step;
    g.a_row = 1;
    g.a_col = job->rows;
    g.b = (const char *)p->y + item * job->y_step;
    g.b_row = job->positions;
    g.b_col = 1;
    g.c = job->direct ? x : columns;
    g.c_row = job->positions;
    if (bias || !job->direct)
        job->kernels->fill_channels(x, job->x_channels, job->plane,
                                    bias ? bias + group * job->x_channels * job->bytes : NULL);
    if (bias && job->direct) g.beta[0] = 1;
    multiply(job, &g);
    if (!job->direct) job->kernels->from_columns(p->geometry, columns, job->x_channels, x);
}

static void weights_item(column_job *job, int64_t item, char *columns, char *out, bool first)
{
    const cpu_conv_pass *p = job->pass;
    const char *x = (const char *)p->x + item * job->x_step;
    cpu_gemm g = {.m = job->y_channels, .n = job->rows, .k = job->positions, .alpha = {1, 0}};
    if (!job->direct) job->kernels->to_columns(p->geometry, x, job->x_channels, columns);
    g.a = (const char *)p->y + item * job->y_step;
    g.a_row = job->positions;
    g.a_col = 1;
    g.b = job->direct ? x : columns;
    g.b_row = 1;
    g.b_col = job->positions;
    g.c = out + item % p->geometry->groups * job->w_step;
    g.c_row = job->rows;
    g.beta[0] = first ? 0 : 1;
    multiply(job, &g);
}

static void run_items(void *user, int64_t begin, int64_t end, int32_t thread)
{
    column_job *job = user;
    const tn_call *call = job->pass->call;
    int64_t bytes = columns_bytes(job);
    char *columns = bytes ? cpu_alloc(call, bytes) : NULL;
    if (bytes && !columns) {
        job->status = TN_E_OUT_OF_MEMORY;
        return;
    }
    for (int64_t item = begin; item < end; item++) {
        if (job->pass->kind == CPU_CONV_FORWARD)
            forward_item(job, item, columns);
        else
            data_item(job, item, columns);
    }
    cpu_free(call, columns, bytes);
}

/* Part i sums the images from batch * i / parts on; part 0 is summed in the result. */
static void run_weight_parts(void *user, int64_t begin, int64_t end, int32_t thread)
{
    column_job *job = user;
    const cpu_conv *c = job->pass->geometry;
    int64_t bytes = columns_bytes(job);
    char *columns = bytes ? cpu_alloc(job->pass->call, bytes) : NULL;
    if (bytes && !columns) {
        job->status = TN_E_OUT_OF_MEMORY;
        return;
    }
    for (int64_t part = begin; part < end; part++) {
        char *out = part ? job->partials + (part - 1) * c->groups * job->w_step : job->pass->out;
        int64_t first = c->batch * part / job->parts, last = c->batch * (part + 1) / job->parts;
        for (int64_t n = first; n < last; n++)
            for (int64_t g = 0; g < c->groups; g++)
                weights_item(job, n * c->groups + g, columns, out, n == first);
    }
    cpu_free(job->pass->call, columns, bytes);
}

static int32_t run_weights(column_job *job)
{
    const cpu_conv *c = job->pass->geometry;
    const tn_call *call = job->pass->call;
    int64_t all = c->groups * job->w_step, partial_bytes;
    if (c->batch == 0 || job->positions == 0) {
        memset(job->pass->out, 0, (size_t)all);
        return TN_OK;
    }
    job->parts = max_i64(1, min_i64(min_i64(c->batch, WEIGHT_PARTS), PARTS_BYTES / max_i64(1, all)));
    job->parallel_product = job->parts == 1;
    partial_bytes = (job->parts - 1) * all;
    job->partials = job->parts > 1 ? cpu_scratch(call, (uint64_t)partial_bytes) : NULL;
    if (job->parts > 1 && !job->partials) return TN_E_OUT_OF_MEMORY;
    cpu_parallel_ranges(call, job->parts, 1, run_weight_parts, job);
    for (int64_t part = 1; job->status == TN_OK && part < job->parts; part++)
        cpu_gemm_kernels_of(c->dtype)->add(job->pass->out, job->partials + (part - 1) * all,
                                           all / job->bytes);
    return job->status;
}

int32_t cpu_conv_columns(const cpu_conv_pass *p)
{
    const cpu_conv *c = p->geometry;
    int64_t items = c->batch * c->groups;
    column_job job = {.pass = p,
                      .kernels = cpu_kernels_of(cpu_conv_columns_table, c->dtype),
                      .x_channels = c->x_channels / c->groups,
                      .y_channels = c->y_channels / c->groups,
                      .positions = cpu_volume(c->y_size),
                      .plane = cpu_volume(c->x_size),
                      .bytes = tn_dtype_bytes(c->dtype),
                      .direct = cpu_volume(c->kernel) == 1};
    for (int i = 0; i < 3; i++) job.direct = job.direct && c->stride[i] == 1 && c->padding[i] == 0;
    job.rows = job.x_channels * cpu_volume(c->kernel);
    job.x_step = job.x_channels * job.plane * job.bytes;
    job.y_step = job.y_channels * job.positions * job.bytes;
    job.w_step = job.y_channels * job.rows * job.bytes;
    if (p->kind == CPU_CONV_WEIGHTS) return run_weights(&job);
    job.parallel_product = items < 2 * max_i64(1, p->call->threads);
    cpu_parallel_ranges(p->call, items, job.parallel_product ? max_i64(1, items) : 1, run_items, &job);
    return job.status;
}
