/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every operator library needs beside its operators: a plugin without a device. All of it is inline.
 *
 *     static int32_t init(const tn_host *host, void **out_self)
 *     {
 *         *out_self = NULL;
 *         return tn_operators_register(host, operators, 2, "cpu", rows, 3);
 *     }
 *     static int32_t entry(const tn_host_offer *offer, tn_plugin_table *out)
 *     {
 *         return tn_operators_entry(offer, out, init);
 *     }
 *     TN_DEFINE_PLUGIN("mylib", "1.0", "My Name", 0, entry);
 */
#ifndef TENON_OPERATOR_LIBRARY_H
#define TENON_OPERATOR_LIBRARY_H

#include <tenon/plugin.h>

TN_BEGIN_DECLS

/* Registers all operators, then all kernel rows for one type of device; the first error ends it. */
static inline int32_t tn_operators_register(const tn_host *host, const tn_operator_def *operators,
                                            uint32_t n_operators, const char *device_type,
                                            const tn_kernel_row *rows, uint32_t n_rows)
{
    for (uint32_t i = 0; i < n_operators; i++) {
        int32_t status = host->register_operator(host->context, &operators[i]);
        if (status) return status;
    }
    if (!n_rows) return TN_OK;
    return host->register_kernels(host->context, device_type, NULL, rows, n_rows,
                                  (uint32_t)sizeof(tn_kernel_row));
}

static inline const void *tn_operators_no_interface(void *self, const char *name, uint32_t version)
{
    (void)self;
    (void)name;
    (void)version;
    return NULL;
}

static inline void tn_operators_nothing_to_shut_down(void *self)
{
    (void)self;
}

/* The entry function of a library that has no device and no state to free. */
static inline int32_t tn_operators_entry(const tn_host_offer *offer, tn_plugin_table *out,
                                         int32_t (*init)(const tn_host *host, void **out_self))
{
    int32_t status = tn_negotiate(offer, out);
    if (status) return status;
    out->init = init;
    out->get_interface = tn_operators_no_interface;
    out->shutdown = tn_operators_nothing_to_shut_down;
    return TN_OK;
}

TN_END_DECLS
#endif
