/* SPDX-License-Identifier: Apache-2.0 */
/* The public ways into the dispatcher: calls on a scope, calls with owned results, definitions. */
#include <string.h>
#include "core/scope.h"
#include "dispatcher/backend.h"
#include "dispatcher/define.h"

/* The scope takes over what the call gave: tensors, and the memory of lists and complex numbers. */
static int32_t own_results(tn_scope *s, tn_value *outs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (outs[i].tag == TN_TAG_TENSOR) {
            if (!tni_scope_own(s, outs[i].as.tensor)) outs[i] = tn_value_none();
        } else if (outs[i].tag == TN_TAG_TENSORS) {
            tn_tensor **list = tn_scope_memory(s, (outs[i].count + 1ull) * sizeof *list);
            for (uint32_t k = 0; list && k < outs[i].count; k++)
                list[k] = tni_scope_own(s, tn_retain(outs[i].as.tensors[k]));
            uint32_t count = outs[i].count;
            tni_value_release(s->ctx, &outs[i]);
            if (list && !s->status) outs[i] = tn_value_tensors(list, count);
        } else if (outs[i].tag == TN_TAG_COMPLEX) {
            double *pair = tn_scope_memory(s, 2 * sizeof *pair);
            if (pair) memcpy(pair, outs[i].as.floats, 2 * sizeof *pair);
            tni_value_release(s->ctx, &outs[i]);
            if (pair) outs[i] = tn_value_complex(pair);
        }
    }
    return s->status;
}

static __attribute__((noinline)) int32_t refuse(int32_t status, tn_value *outs, uint32_t n_outs)
{
    for (uint32_t i = 0; i < n_outs; i++) outs[i] = tn_value_none();
    return status;
}

int32_t tn_scope_call(tn_scope *s, uint32_t op, const tn_value *args, uint32_t n_args, tn_value *outs,
                      uint32_t n_outs)
{
    int32_t status;
    if (TNI_UNLIKELY(!s || s->status || s->ctx->flags & TN_CONTEXT_DEBUG_HANDLES)) {
        status = tn_scope_failed(s);
        if (status) return refuse(status, outs, n_outs);
    }
    status = tni_call(s->ctx, tni_op_get(s->ctx->registry, op), args, n_args, outs, n_outs);
    if (TNI_UNLIKELY(status)) return tni_scope_record(s, status);
    if (TNI_LIKELY(n_outs == 1 && outs[0].tag == TN_TAG_TENSOR)) {
        if (tni_scope_own(s, outs[0].as.tensor)) return TN_OK;
        outs[0] = tn_value_none();
        return s->status;
    }
    return own_results(s, outs, n_outs);
}

int32_t tn_call_operator(tn_context *ctx, uint32_t op, const tn_value *args, uint32_t n_args, tn_value *outs,
                         uint32_t n_outs, tn_error **error)
{
    int32_t status = tni_call(ctx, tni_op_get(ctx->registry, op), args, n_args, outs, n_outs);
    if (status && error) *error = tni_error_copy();
    return status ? refuse(status, outs, n_outs) : TN_OK;
}

void tn_value_release(tn_context *ctx, tn_value *v)
{
    if (v) tni_value_release(ctx, v);
}

uint32_t tn_operator_find(tn_context *ctx, const char *name)
{
    const tni_op *op = name ? tni_op_find(ctx->registry, name) : NULL;
    if (op) return op->number;
    tni_error(TN_E_NOT_FOUND, "no operator \"%s\"", name ? name : "NULL");
    return 0;
}

int32_t tn_operator_define(tn_context *ctx, const tn_operator_def *def, uint32_t *out)
{
    return tni_operator_define(ctx, def, out);
}

int32_t tn_kernels_add(tn_context *ctx, const char *device_type, void *self, const tn_kernel_row *rows,
                       uint32_t count)
{
    return tni_kernels_register(ctx, device_type, "the program", self, rows, count, sizeof(tn_kernel_row));
}

int32_t tn_namespace_remove(tn_context *ctx, const char *name)
{
    return tni_namespace_remove(ctx, name ? name : "");
}
