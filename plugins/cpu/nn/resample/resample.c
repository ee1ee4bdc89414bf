/* SPDX-License-Identifier: Apache-2.0 */
/* What all resampling operators share: sizes, tables of taps, planes over the threads. */
#include "kernel_lists.h"
#include "resample.h"
#include "nn/contiguous.h"

CPU_KERNEL_TABLE(cpu_kernel_table cpu_resample_table, CPU_RESAMPLE_LISTS, cpu_resample_kernels);

typedef struct resample_job {
    const tn_call *call;
    const cpu_resample_kernels *kernels;
    const cpu_resample_form *form;
    cpu_resample r;
    bool moves;       /* one tap of weight 1 everywhere */
    int64_t channels; /* of a pixel, where images are channels-last; else 0 */
    int32_t status;
} resample_job;

static void set_sizes(const tn_tensor_desc *t, uint32_t spatial, int64_t out[3])
{
    for (uint32_t i = 0; i < 3; i++) out[i] = i + spatial < 3 ? 1 : t->sizes[t->rank + i - 3];
}

static int32_t make_tables(resample_job *job)
{
    int64_t taps[3], total = 0;
    char *next;
    for (int i = 0; i < 3; i++) {
        bool there = i >= 3 - (int)job->form->spatial;
        taps[i] = there ? job->form->count_taps(job->call, job->form, &job->r, i) : 1;
        total += taps[i] * job->r.out[i];
        if (taps[i] != 1) job->moves = false;
    }
    job->r.narrow_weights = job->form->spatial != 2 || taps[2] != 2; /* ATen's bilinear kernel keeps float */
    next = cpu_scratch(job->call, (uint64_t)total * 16);
    if (!next) return TN_E_OUT_OF_MEMORY;
    for (int i = 0; i < 3; i++) {
        int64_t count = taps[i] * job->r.out[i];
        cpu_taps *t = &job->r.taps[i];
        *t = (cpu_taps){
            .taps = taps[i], .at = (int64_t *)(void *)next, .weight = (double *)(void *)(next + count * 8)};
        next += count * 16;
        for (int64_t k = 0; k < count; k++) {
            t->at[k] = 0;
            t->weight[k] = 1;
        }
        if (i >= 3 - (int)job->form->spatial) job->form->make_taps(job->call, job->form, &job->r, i, t);
    }
    return TN_OK;
}

/* Whether input and output are channels-last images, which need no copy. */
static bool choose_last(const resample_job *job, const tn_tensor_desc *in, const tn_tensor_desc *out)
{
    if (job->form->back || in->rank != job->form->spatial + 2) return false;
    if (job->kernels->forward_images && job->form->spatial == 2) return false;
    if (cpu_is_contiguous(in) && cpu_is_contiguous(out)) return false;
    return cpu_is_channels_last(in) && cpu_is_channels_last(out);
}

CPU_RANGE(run_lines, resample_job, job->kernels->forward_last(&job->r, job->channels, begin, end))

static void run_planes(void *user, int64_t begin, int64_t end, int32_t thread)
{
    resample_job *job = user;
    int64_t plane = job->r.in[0] * job->r.in[1] * job->r.in[2];
    int64_t line_bytes = round_up(job->r.in[2] * job->kernels->line_bytes, 64);
    int64_t weight_bytes = job->r.taps[2].taps * job->r.out[2] * job->kernels->line_bytes;
    int64_t bytes = line_bytes + (job->form->back ? plane * job->kernels->acc_bytes : weight_bytes);
    bool images = job->kernels->forward_images && !job->form->back && job->form->spatial == 2;
    if (images)
        bytes = 2 * (job->r.taps[1].taps * job->r.out[1] + job->r.taps[2].taps * job->r.out[2]) +
                job->r.in[1] * job->r.out[2];
    char *memory;
    if (job->moves && !job->form->back) {
        job->kernels->move(&job->r, begin, end);
        return;
    }
    memory = cpu_alloc(job->call, bytes);
    if (!memory)
        job->status = TN_E_OUT_OF_MEMORY;
    else if (images)
        job->kernels->forward_images(&job->r, begin, end, memory);
    else if (job->form->back)
        job->kernels->backward(&job->r, begin, end, memory, memory + line_bytes);
    else
        job->kernels->forward(&job->r, begin, end, memory);
    cpu_free(job->call, memory, bytes);
}

static void run_all(resample_job *job, const tn_tensor_desc *in)
{
    const cpu_resample *r = &job->r;
    int64_t volume = r->out[0] * r->out[1] * r->out[2], lines = r->out[0] * r->out[1];
    if (job->channels)
        cpu_parallel_ranges(job->call, in->sizes[0] * lines, grain_for(16384, r->out[2] * job->channels),
                            run_lines, job);
    else
        cpu_parallel_ranges(job->call, r->planes, grain_for(16384, volume), run_planes, job);
}

int32_t cpu_resample_run(void *self, const tn_call *call)
{
    const tn_tensor_desc *in = tensor_arg(call, 0), *out = tensor_out(call, 0);
    resample_job job = {.call = call,
                        .form = call->data,
                        .kernels = cpu_kernels_of(cpu_resample_table, in->dtype),
                        .moves = true};
    void *x = in->host, *y = out->host;
    bool last = choose_last(&job, in, out);
    int32_t status = TN_OK;
    if (last)
        job.channels = in->sizes[1];
    else
        status = cpu_contiguous_read(call, in, &x);
    set_sizes(job.form->back ? out : in, job.form->spatial, job.r.in);
    set_sizes(job.form->back ? in : out, job.form->spatial, job.r.out);
    job.r.planes = cpu_span(out, 0, out->rank - job.form->spatial);
    if (status == TN_OK && !last) status = cpu_contiguous_write(call, out, &y);
    if (status == TN_OK) status = make_tables(&job);
    if (status == TN_OK && cpu_numel(out) > 0) {
        job.r.x = x;
        job.r.y = y;
        run_all(&job, in);
        status = job.status;
    }
    if (status == TN_OK) cpu_contiguous_finish(call, out, y);
    return status;
}
