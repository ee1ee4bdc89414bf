/* SPDX-License-Identifier: Apache-2.0 */
#include "collate.h"
#include "dataset.h"
#include "file.h"

#include <stdio.h>
#include <string.h>

static void describe_sizes(const tn_tensor *t, char *text, size_t room)
{
    size_t n = (size_t)snprintf(text, room, "%s [", tn_dtype_name(tn_tensor_dtype(t)));
    for (int64_t d = 0; d < tn_tensor_rank(t) && n + 24 < room; d++)
        n += (size_t)snprintf(text + n, room - n, "%s%lld", d ? ", " : "", (long long)tn_tensor_size(t, d));
    snprintf(text + n, room - n, "]");
}

static int32_t is_like(const tn_tensor *a, const tn_tensor *b)
{
    const int64_t rank = tn_tensor_rank(a);
    return tn_tensor_dtype(a) == tn_tensor_dtype(b) && tn_tensor_device(a) == tn_tensor_device(b) &&
           rank == tn_tensor_rank(b) && !memcmp(tn_tensor_sizes(a), tn_tensor_sizes(b), (size_t)rank * 8);
}

/* Tensor k of all samples must have one shape. */
static int32_t check(tn_scope *s, const batch_job *job, tn_tensor *const *samples, int64_t k)
{
    for (int64_t i = 0; i < job->count; i++) {
        const tn_tensor *first = samples[k], *t = samples[i * TN_SAMPLE_MAX + k];
        char a[256] = "no tensor", b[256] = "no tensor";
        if (first == t || (first && t && is_like(first, t))) continue;
        if (t) describe_sizes(t, a, sizeof a);
        if (first) describe_sizes(first, b, sizeof b);
        return data_fail(s, TN_E_SHAPE, "loader", NULL,
                         "tensor %lld of sample %lld is %s, of sample %lld in the same batch it is %s; they "
                         "cannot be stacked",
                         (long long)k, (long long)job->indices[i], a, (long long)job->indices[0], b);
    }
    return TN_OK;
}

/* By hand on the host: no copy on the way, and no threads of an operator. */
static tn_tensor *stack(tn_scope *s, const batch_job *job, tn_tensor *const *samples, int64_t k,
                        tn_device pins)
{
    const tn_tensor *first = samples[k];
    const int64_t rank = tn_tensor_rank(first);
    int64_t sizes[TN_MAX_RANK] = {job->count};
    if (rank + 1 > TN_MAX_RANK)
        return data_fail(s, TN_E_SHAPE, "loader", NULL,
                         "a batch of samples with %lld dimensions has too many", (long long)rank),
               NULL;
    if (tn_tensor_device(first) != TN_CPU) {
        tn_tensor **list = tn_scope_memory(s, (uint64_t)job->count * sizeof *list);
        for (int64_t i = 0; list && i < job->count; i++) list[i] = samples[i * TN_SAMPLE_MAX + k];
        return list ? tn_stack(s, (tn_tensors){list, job->count}) : NULL;
    }
    if (rank) memcpy(sizes + 1, tn_tensor_sizes(first), (size_t)rank * sizeof *sizes);
    tn_tensor *out = tn_empty(s, (tn_ints){sizes, rank + 1}, .dtype = tn_tensor_dtype(first),
                              .device = TN_CPU, .pin_memory = pins != 0);
    if (!out) return NULL;
    const uint64_t bytes = (uint64_t)(tn_tensor_numel(first) * tn_dtype_bytes(tn_tensor_dtype(first)));
    for (int64_t i = 0; i < job->count && bytes; i++) {
        tn_tensor *t = samples[i * TN_SAMPLE_MAX + k];
        if (tn_to_host(s, t, (char *)tn_tensor_data(out) + (uint64_t)i * bytes, bytes)) return NULL;
    }
    return out;
}

static int32_t stack_all(tn_scope *s, const batch_job *job, tn_tensor *const *samples, tn_device pins,
                         tn_tensor **out)
{
    for (int64_t k = 0; k < TN_SAMPLE_MAX && !tn_scope_failed(s); k++) {
        if (check(s, job, samples, k) || !samples[k]) break;
        out[k] = stack(s, job, samples, k, pins);
    }
    return tn_scope_failed(s);
}

static int32_t read_samples(tn_scope *s, const tn_loader_options *o, const batch_job *job,
                            tn_tensor **samples)
{
    for (int64_t i = 0; i < job->count && !tn_scope_failed(s); i++) {
        char text[96];
        if (!tn_dataset_get(s, o->dataset, job->indices[i], job->seeds[i], samples + i * TN_SAMPLE_MAX))
            continue;
        snprintf(text, sizeof text,
                 job->epoch < 0 ? " (sample %lld)" : " (sample %lld, batch %lld of epoch %lld)",
                 (long long)job->indices[i], (long long)job->batch, (long long)job->epoch);
        tn_scope_add_to_error(s, text);
    }
    return tn_scope_failed(s);
}

/* The whole batch at once, or its samples one after another. */
static int32_t make(tn_scope *s, const tn_loader_options *o, tn_device pins, batch_job *job)
{
    if (o->dataset->class->get_batch && !o->collate)
        return dataset_get_batch(s, o->dataset, (tn_ints){job->indices, job->count}, job->seeds, job->out);
    tn_tensor **samples = tn_scope_memory(s, (uint64_t)job->count * TN_SAMPLE_MAX * sizeof *samples);
    if (!samples || read_samples(s, o, job, samples)) return tn_scope_failed(s);
    if (!o->collate) return stack_all(s, job, samples, pins, job->out);
    int32_t status = o->collate(o->collate_user, s, samples, job->count, job->out);
    if (status && !tn_scope_failed(s))
        data_fail(s, status, "loader", NULL, "collate failed without an error in the scope");
    if (!job->out[0] && !tn_scope_failed(s))
        data_fail(s, TN_E_STATE, "loader", NULL, "collate gave no tensor");
    return tn_scope_failed(s);
}

int32_t collate_batch(tn_scope *s, const tn_loader_options *o, tn_device pins, batch_job *job)
{
    memset(job->out, 0, sizeof job->out);
    if (make(s, o, pins, job)) {
        if (job->epoch >= 0 && !strstr(tn_scope_error(s)->message, ", batch ")) {
            char text[96];
            snprintf(text, sizeof text, " (batch %lld of epoch %lld)", (long long)job->batch,
                     (long long)job->epoch);
            tn_scope_add_to_error(s, text);
        }
        return tn_scope_failed(s);
    }
    for (int64_t k = 0; k < TN_SAMPLE_MAX && pins && !tn_scope_failed(s); k++)
        if (job->out[k] && tn_tensor_device(job->out[k]) == TN_CPU)
            job->out[k] = tn_pin_memory(s, job->out[k], pins);
    return tn_scope_failed(s);
}
