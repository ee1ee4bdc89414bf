/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler.h"
#include "file.h"

#include <string.h>

/* The finaliser of SplitMix64 (Steele et al. 2014): neighbouring numbers become unlike ones. */
static uint64_t mixed(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t sampler_seed(uint64_t seed, int64_t epoch, int64_t i)
{
    return mixed(mixed(mixed(seed) + (uint64_t)epoch) + (uint64_t)i);
}

/* Samples of an epoch before ranks share them. */
static int64_t drawn(const tn_loader_options *o)
{
    return (o->weights || o->sampler.order) && o->samples ? o->samples : tn_dataset_count(o->dataset);
}

int64_t sampler_count(const tn_loader_options *o)
{
    return o->drop_last ? drawn(o) / o->ranks : (drawn(o) + o->ranks - 1) / o->ranks;
}

static tn_tensor *draw(tn_scope *s, const tn_loader_options *o, tn_generator *g, int64_t epoch)
{
    const int64_t n = drawn(o);
    if (o->sampler.order) return o->sampler.order(o->sampler.user, s, g, epoch, n);
    if (o->weights) return tn_multinomial(s, o->weights, n, .replacement = 1, .generator = g);
    if (o->shuffle) return tn_randperm_generator(s, n, g, .device = TN_CPU);
    return tn_arange(s, TN_SCALAR(n), .dtype = TN_INT64, .device = TN_CPU);
}

/* Checked, because the numbers of a sampler are the program's. */
static int32_t check(tn_scope *s, const tn_loader_options *o, const tn_tensor *all)
{
    if (tn_scope_failed(s)) return tn_scope_failed(s);
    if (!all || tn_tensor_dtype(all) != TN_INT64 || tn_tensor_rank(all) != 1 ||
        tn_tensor_size(all, 0) != drawn(o))
        return data_fail(s, TN_E_ARGUMENT, "loader", NULL, "the sampler did not give int64 [%lld]",
                         (long long)drawn(o));
    /* Memory of a device may have an address, too, but its work may not have finished. */
    const int64_t *index = tn_tensor_device(all) == TN_CPU ? tn_tensor_data(all) : NULL;
    for (int64_t i = 0; index && i < drawn(o); i++)
        if (index[i] < 0 || index[i] >= tn_dataset_count(o->dataset))
            return data_fail(s, TN_E_INDEX, "loader", NULL,
                             "the sampler gave the sample %lld (expected 0 to %lld)", (long long)index[i],
                             (long long)tn_dataset_count(o->dataset) - 1);
    return index || !drawn(o)
               ? TN_OK
               : data_fail(s, TN_E_DEVICE, "loader", NULL, "the sampler's tensor is not on the CPU");
}

int32_t sampler_order(tn_scope *s, const tn_loader_options *o, int64_t epoch, int64_t *out)
{
    tn_generator *g = NULL;
    int32_t status = tn_generator_create(tn_scope_context(s), sampler_seed(o->seed, epoch, -1), &g);
    if (status) return tn_scope_fail(s, status, NULL);
    tn_tensor *all = draw(s, o, g, epoch);
    tn_generator_release(g);
    if (all) all = tn_contiguous(s, all);
    status = check(s, o, all);
    if (status) return status;
    const int64_t *index = tn_tensor_data(all), n = drawn(o), count = sampler_count(o);
    for (int64_t i = 0; i < count; i++) out[i] = index[(o->rank + i * o->ranks) % n];
    return TN_OK;
}
