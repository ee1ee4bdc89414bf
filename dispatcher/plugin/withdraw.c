/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over the registry; see withdraw.h. */
#include "dispatcher/plugin/withdraw.h"

#include <dlfcn.h>
#include <string.h>
#include "dispatcher/rows.h"

static int32_t lies_in(const void *address, const char *library)
{
    Dl_info info;
    return dladdr(address, &info) && strcmp(info.dli_fname, library) == 0;
}

/* Behind a shim the function is the shim's, but the schema is the library's. */
static int32_t row_lies_in(const tn_kernel_row *row, const char *library)
{
    return lies_in((const void *)(uintptr_t)row->run, library) || lies_in(row->schema, library);
}

static void withdraw_rows(tni_op *op, const char *library)
{
    for (uint32_t slot = 0; slot < TNI_MAX_DEVICE_TYPES; slot++) {
        for (tni_kernel *k = atomic_load(&op->kernels[slot]); k; k = tni_kernel_follower(k)) {
            if (!tni_kernel_is_disabled(k) && row_lies_in(&k->row, library)) tni_kernel_disable(k);
        }
    }
}

void tni_plugin_withdraw(tn_context *ctx, const char *library)
{
    tni_registry *r = ctx->registry;
    uint32_t count = atomic_load(&r->count);
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < count; i++) {
        tni_op *op = tni_op_get(r, i);
        if (!op) continue;
        if (op->def && lies_in(op->def->schema, library)) tni_op_remove(op);
        withdraw_rows(op, library);
    }
    tni_rows_forget(r, row_lies_in, library);
    pthread_mutex_unlock(&r->lock);
}
