/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions of the dispatcher, except tn_scope_call: calls with owned results, definitions. */
#include "dispatcher/backend.h"
#include "dispatcher/define.h"
#include "dispatcher/rows.h"

static int32_t check_call(const tn_context *ctx, const tn_value *args, uint32_t n_args, const tn_value *outs,
                          uint32_t n_outs)
{
    if (TNI_LIKELY(ctx && (args || !n_args) && (outs || !n_outs))) return TN_OK;
    return tni_error(TN_E_ARGUMENT, "tn_call_operator: %s NULL",
                     !ctx              ? "the context is"
                     : !args && n_args ? "args are"
                                       : "outs are");
}

int32_t tn_call_operator(tn_context *ctx, uint32_t op, const tn_value *args, uint32_t n_args, tn_value *outs,
                         uint32_t n_outs, tn_error **error)
{
    int32_t status = check_call(ctx, args, n_args, outs, n_outs);
    if (!status) status = tni_call(ctx, tni_op_get(ctx->registry, op), args, n_args, outs, n_outs);
    if (status && error) *error = tni_error_copy();
    return status ? tni_no_results(status, outs, outs ? n_outs : 0) : TN_OK;
}

void tn_value_release(tn_context *ctx, tn_value *v)
{
    if (v) tni_value_release(ctx, v);
}

uint32_t tn_operator_find(tn_context *ctx, const char *name)
{
    if (tni_context_check(ctx)) return 0;
    const tni_op *op = name ? tni_op_find(ctx->registry, name) : NULL;
    if (!op && name) op = tni_derive_form(ctx->registry, name);
    if (op) return op->number;
    char similar[256];
    if (name)
        tni_error(TN_E_NOT_FOUND, "no operator \"%s\"%s", name,
                  tni_suggest(ctx->registry, name, similar, sizeof similar));
    else
        tni_error(TN_E_ARGUMENT, "tn_operator_find: name is NULL");
    return 0;
}

int32_t tn_operator_define(tn_context *ctx, const tn_operator_def *def, uint32_t *out)
{
    int32_t unusable = tni_context_check(ctx);
    if (unusable) return unusable;
    return tni_operator_define(ctx, def, out);
}

int32_t tn_kernels_add(tn_context *ctx, const char *device_type, void *self, const tn_kernel_row *rows,
                       uint32_t count)
{
    int32_t unusable = tni_context_check(ctx);
    if (unusable) return unusable;
    /* Rows stand as far apart as in the program, whose header may be older or newer. */
    const uint32_t bytes = rows && count && rows->size ? rows->size : (uint32_t)sizeof(tn_kernel_row);
    return tni_kernels_register(ctx, &(tni_rows){.device_type = device_type,
                                                 .owner = "the program",
                                                 .self = self,
                                                 .rows = rows,
                                                 .count = count,
                                                 .row_bytes = bytes,
                                                 .is_complete = 1});
}

int32_t tn_namespace_remove(tn_context *ctx, const char *name)
{
    int32_t unusable = tni_context_check(ctx);
    if (unusable) return unusable;
    return tni_namespace_remove(ctx, name ? name : "");
}
