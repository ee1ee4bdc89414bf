/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel rows of all operator files as one table. */
#include "gpu.h"

int32_t gpu_rows_make(gpu_plugin *plugin)
{
    static const gpu_rows *const lists[] = {
        &gpu_basic_rows, &gpu_reduce_rows, &gpu_index_rows,     &gpu_product_rows,
        &gpu_sort_rows,  &gpu_line_rows,   &gpu_norm_rows,      &gpu_convolution_rows,
        &gpu_pool_rows,  &gpu_step_rows,   &gpu_embedding_rows, &gpu_attention_rows,
        &gpu_fft_rows,   &gpu_search_rows, &gpu_resample_rows,  &gpu_factor_rows};
    const int32_t has_factors = gpu_the_driver.libraries && gpu_the_driver.libraries->factor;
    const size_t n_lists = sizeof lists / sizeof *lists - (has_factors ? 0 : 1);
    uint32_t count = gpu_pointwise_rows(NULL), at = count;
    for (size_t i = 0; i < n_lists; i++) count += lists[i]->count;
    plugin->rows = plugin->host->alloc(plugin->host->context, count * sizeof(tn_kernel_row));
    if (!plugin->rows) return gpu_error(plugin, TN_E_OUT_OF_MEMORY, "out of host memory");
    plugin->n_rows = count;
    gpu_pointwise_rows(plugin->rows);
    for (size_t i = 0; i < n_lists; i++) {
        memcpy(plugin->rows + at, lists[i]->rows, lists[i]->count * sizeof(tn_kernel_row));
        at += lists[i]->count;
    }
    plugin->kernels = (tn_kernels_interface){.size = sizeof(tn_kernels_interface),
                                             .count = count,
                                             .row_bytes = sizeof(tn_kernel_row),
                                             .rows = plugin->rows};
    return TN_OK;
}
