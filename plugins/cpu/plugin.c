/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU plugin's face: the info block, the interfaces and the list of all row tables. What a row does is in
 * the file that its table is named after; this file knows no operator.
 */
#include "device/device.h"

#include <string.h>

/* Row tables, joined at init into the one that the host reads. */
extern const tn_kernel_row cpu_memory_rows[];
extern const uint32_t cpu_memory_row_count;
extern const tn_kernel_row cpu_copy_rows[];
extern const uint32_t cpu_copy_row_count;
extern const tn_kernel_row cpu_pointwise_rows[];
extern const uint32_t cpu_pointwise_row_count;
extern const tn_kernel_row cpu_reduce_rows[];
extern const uint32_t cpu_reduce_row_count;
extern const tn_kernel_row cpu_random_rows[];
extern const uint32_t cpu_random_row_count;
extern const tn_kernel_row cpu_sample_rows[];
extern const uint32_t cpu_sample_row_count;
extern const tn_kernel_row cpu_scan_rows[];
extern const uint32_t cpu_scan_row_count;
extern const tn_kernel_row cpu_gather_rows[];
extern const uint32_t cpu_gather_row_count;
extern const tn_kernel_row cpu_shape_rows[];
extern const uint32_t cpu_shape_row_count;
extern const tn_kernel_row cpu_mask_rows[];
extern const uint32_t cpu_mask_row_count;
extern const tn_kernel_row cpu_sort_rows[];
extern const uint32_t cpu_sort_row_count;
extern const tn_kernel_row cpu_unique_rows[];
extern const uint32_t cpu_unique_row_count;
extern const tn_kernel_row cpu_search_rows[];
extern const uint32_t cpu_search_row_count;
extern const tn_kernel_row cpu_lstsq_rows[];
extern const uint32_t cpu_lstsq_row_count;
extern const tn_kernel_row cpu_factor_rows[];
extern const uint32_t cpu_factor_row_count;
extern const tn_kernel_row cpu_orthogonal_rows[];
extern const uint32_t cpu_orthogonal_row_count;
extern const tn_kernel_row cpu_solve_rows[];
extern const uint32_t cpu_solve_row_count;
extern const tn_kernel_row cpu_spectral_rows[];
extern const uint32_t cpu_spectral_row_count;

/* Rows of nn/, which depend on the level; `to` may be NULL. Returns how many they are. */
uint32_t cpu_nn_rows(tn_kernel_row *to);

static const struct row_list {
    const tn_kernel_row *rows;
    const uint32_t *count;
} row_lists[] = {
    {cpu_memory_rows, &cpu_memory_row_count},       {cpu_copy_rows, &cpu_copy_row_count},
    {cpu_pointwise_rows, &cpu_pointwise_row_count}, {cpu_reduce_rows, &cpu_reduce_row_count},
    {cpu_sample_rows, &cpu_sample_row_count},       {cpu_random_rows, &cpu_random_row_count},
    {cpu_scan_rows, &cpu_scan_row_count},           {cpu_gather_rows, &cpu_gather_row_count},
    {cpu_shape_rows, &cpu_shape_row_count},         {cpu_mask_rows, &cpu_mask_row_count},
    {cpu_sort_rows, &cpu_sort_row_count},           {cpu_unique_rows, &cpu_unique_row_count},
    {cpu_search_rows, &cpu_search_row_count},       {cpu_factor_rows, &cpu_factor_row_count},
    {cpu_lstsq_rows, &cpu_lstsq_row_count},         {cpu_orthogonal_rows, &cpu_orthogonal_row_count},
    {cpu_solve_rows, &cpu_solve_row_count},         {cpu_spectral_rows, &cpu_spectral_row_count},
};
#define ROW_LISTS (sizeof(row_lists) / sizeof(row_lists[0]))

static void join_rows(cpu_state *state)
{
    uint32_t n = 0;
    /* A row without schema stands for a variant that other rows choose. */
    for (uint32_t i = 0; i < ROW_LISTS; i++)
        for (uint32_t k = 0; k < *row_lists[i].count; k++)
            if (row_lists[i].rows[k].schema) state->rows[n++] = row_lists[i].rows[k];
    n += cpu_nn_rows(state->rows + n);
    state->kernels = (tn_kernels_interface){
        .size = sizeof state->kernels, .count = n, .row_bytes = sizeof(tn_kernel_row), .rows = state->rows};
}

static int32_t init(const tn_host *host, void **out_self)
{
    uint32_t n = cpu_nn_rows(NULL);
    for (uint32_t i = 0; i < ROW_LISTS; i++) n += *row_lists[i].count;
    cpu_state *state = host->alloc(host->context, sizeof *state);
    if (!state) return host->error(host->context, TN_E_OUT_OF_MEMORY, "cpu: out of memory");
    memset(state, 0, sizeof *state);
    state->host = host;
    state->level = cpu_level();
    state->row_count = n;
    state->rows = host->alloc(host->context, n * sizeof(tn_kernel_row));
    if (!state->rows) {
        host->free(host->context, state, sizeof *state);
        return host->error(host->context, TN_E_OUT_OF_MEMORY, "cpu: out of memory");
    }
    join_rows(state);
    *out_self = state;
    return TN_OK;
}

static void shutdown(void *self)
{
    cpu_state *state = self;
    const tn_host *host = state->host;
    host->free(host->context, state->rows, state->row_count * sizeof(tn_kernel_row));
    host->free(host->context, state, sizeof *state);
}

static const void *get_interface(void *self, const char *name, uint32_t version)
{
    const cpu_state *state = self;
    const struct {
        const char *name;
        const void *table;
    } interfaces[] = {
        {"tenon.device", &cpu_device_interface},     {"tenon.memory", &cpu_memory_interface},
        {"tenon.copy", &cpu_copy_interface},         {"tenon.stream", &cpu_stream_interface},
        {"tenon.event", &cpu_event_interface},       {"tenon.kernels", &state->kernels},
        {"tenon.autocast", &cpu_autocast_interface},
    };
    for (size_t i = 0; version == 1 && i < sizeof interfaces / sizeof interfaces[0]; i++)
        if (strcmp(name, interfaces[i].name) == 0) return interfaces[i].table;
    return NULL;
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    int32_t status = tn_negotiate(offer, out);
    if (status != TN_OK) return status;
    out->init = init;
    out->get_interface = get_interface;
    out->shutdown = shutdown;
    return TN_OK;
}

TN_DEFINE_PLUGIN("cpu", "0.1.0", "Tenon", 0, entry);
