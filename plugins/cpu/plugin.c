/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry of the CPU plugin: the info block, the interfaces and the list of all families with rows. The rows
 * of a family are in the file of its name.
 */
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "nn/product/gemm_choice.h"
#include "vendor/openblas.h"
#ifdef CPU_HAVE_ONEDNN
#include "vendor/onednn.h"
#endif

/*
 * The families with rows. Of rows of equal priority that fit a call the last one runs, so rows over a library
 * follow the rows they replace.
 */
#ifdef CPU_HAVE_ONEDNN
#define IF_ONEDNN(x) x
#else
#define IF_ONEDNN(x)
#endif
#define ROW_LISTS(X)                        \
    X(fill)                                 \
    X(copy)                                 \
    X(pointwise)                            \
    X(reduce)                               \
    X(sample)                               \
    X(random)                               \
    X(sobol)                                \
    X(scan)                                 \
    X(gather)                               \
    X(rearrange)                            \
    X(mask)                                 \
    X(sort)                                 \
    X(unique)                               \
    X(search)                               \
    X(factor)                               \
    X(lstsq)                                \
    X(orthogonal)                           \
    X(solve)                                \
    X(spectral)                             \
    X(matmul)                               \
    X(packed)                               \
    X(conv)                                 \
    IF_ONEDNN(X(conv_onednn)) X(batch_norm) \
    X(layer_norm)                           \
    X(softmax)                              \
    X(attention)                            \
    X(nll_loss)                             \
    X(pool)                                 \
    X(embedding)                            \
    X(embedding_bag)                        \
    X(upsample)                             \
    X(pad)                                  \
    X(grid_sample)                          \
    X(im2col)                               \
    X(margin_loss)                          \
    X(distance)                             \
    X(fft)                                  \
    X(ctc_loss)                             \
    X(cell)                                 \
    X(fused)                                \
    X(gate)

#define DECLARE_ROWS(name)                          \
    extern const tn_kernel_row cpu_##name##_rows[]; \
    extern const uint32_t cpu_##name##_row_count;
ROW_LISTS(DECLARE_ROWS)

#define ROW_LIST(name) {cpu_##name##_rows, &cpu_##name##_row_count},
static const struct row_list {
    const tn_kernel_row *rows;
    const uint32_t *count;
} row_lists[] = {ROW_LISTS(ROW_LIST)};
#define ROW_LIST_COUNT (sizeof(row_lists) / sizeof(row_lists[0]))

static uint32_t count_rows(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < ROW_LIST_COUNT; i++) n += *row_lists[i].count;
    return n;
}

static void join_rows(cpu_state *state)
{
    uint32_t n = 0;
    /* A row without schema is a variant that other rows choose. */
    for (uint32_t i = 0; i < ROW_LIST_COUNT; i++)
        for (uint32_t k = 0; k < *row_lists[i].count; k++)
            if (row_lists[i].rows[k].schema) state->rows[n++] = row_lists[i].rows[k];
    state->kernels = (tn_kernels_interface){
        .size = sizeof state->kernels, .count = n, .row_bytes = sizeof(tn_kernel_row), .rows = state->rows};
}

/* A mistyped level or choice is an error: programs would run with other kernels than were asked for. */
static int32_t check_environment(const tn_host *host)
{
    const char *tune = getenv("TENON_CPU_TUNE");
    char text[160];
    if (!cpu_level_is_known())
        snprintf(text, sizeof text, "TENON_CPU_LEVEL is '%.80s' (expected base, avx2 or avx512)",
                 getenv("TENON_CPU_LEVEL"));
    else if (!cpu_gemm_tune_is_known(tune))
        snprintf(text, sizeof text, "TENON_CPU_TUNE is '%.80s' (expected 0, 1 or all)", tune);
    else
        return TN_OK;
    return host->error(host->context, TN_E_ARGUMENT, text);
}

static int32_t init(const tn_host *host, void **out_self)
{
    uint32_t n = count_rows();
    if (check_environment(host)) return TN_E_ARGUMENT;
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
    cpu_gemm_find_cache(host);
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
    const tn_named_interface interfaces[] = {
        {"tenon.device", &cpu_device_interface},     {"tenon.memory", &cpu_memory_interface},
        {"tenon.copy", &cpu_copy_interface},         {"tenon.stream", &cpu_stream_interface},
        {"tenon.event", &cpu_event_interface},       {"tenon.kernels", &state->kernels},
        {"tenon.autocast", &cpu_autocast_interface}, {"tenon.settings", &cpu_settings_interface},
    };
    return tn_interface_find(interfaces, sizeof interfaces / sizeof *interfaces, name, version);
}

/* The libraries are opened at first need; a product shows that the one at hand has the interface that we call. */
static int32_t check_openblas(const tn_host *host)
{
    const cpu_openblas *blas = cpu_openblas_get();
    const double a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, expected[] = {19, 22, 43, 50};
    double c[4] = {0};
    if (!blas) return TN_OK;
    int token = cpu_openblas_begin(blas);
    if (token < 0) return TN_OK;
    blas->dgemm(CPU_BLAS_ROW_MAJOR, CPU_BLAS_NO_TRANS, CPU_BLAS_NO_TRANS, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
    cpu_openblas_end(blas, token);
    if (memcmp(c, expected, sizeof c) == 0) return TN_OK;
    return host->error(host->context, TN_E_INTERNAL, "cpu: OpenBLAS gave a wrong product of two matrices");
}

/* Says which library would do more here, or do it faster. The packages are those of Debian. */
static void log_hints(const tn_host *host)
{
    const cpu_openblas *blas = cpu_openblas_get();
    if (!blas)
        host->log(host->context, TN_LOG_INFO,
                  "hint: OpenBLAS makes products of matrices faster; factorizations and solvers are refused "
                  "without it: install libopenblas0-openmp");
    else if (blas->is_narrow)
        host->log(host->context, TN_LOG_INFO,
                  "hint: this OpenBLAS has no kernels with AVX-512, libopenblas0-openmp has them");
#ifdef CPU_HAVE_ONEDNN
    if (!cpu_onednn_get())
        host->log(host->context, TN_LOG_INFO,
                  "hint: oneDNN makes convolutions and products of bfloat16 faster: install libdnnl2");
#endif
}

/* Logs what the plugin computes with, for `tenon doctor`. */
static int32_t self_test(void *self)
{
    static const char *const levels[] = {"base", "AVX2", "AVX-512"};
    const cpu_state *state = self;
    const tn_host *host = state->host;
    char line[64];
    snprintf(line, sizeof line, "kernels for the level %s", levels[state->level]);
    host->log(host->context, TN_LOG_INFO, line);
    host->log(host->context, TN_LOG_INFO, cpu_openblas_describe());
#ifdef CPU_HAVE_ONEDNN
    host->log(host->context, TN_LOG_INFO, cpu_onednn_describe());
#else
    host->log(host->context, TN_LOG_INFO, "oneDNN is not used: the plugin was built without its headers");
#endif
    log_hints(host);
    cpu_gemm_log_choices(host);
    return check_openblas(host);
}

static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
{
    static const tn_plugin_table slots = {
        .init = init, .get_interface = get_interface, .shutdown = shutdown, .self_test = self_test};
    return tn_negotiate_slots(offer, out, &slots);
}

TN_DEFINE_PLUGIN("cpu", "0.1.0", "Tenon", 0, entry);
