/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dtypes that vendors name. A context gives each name a code from TN_CODE_VENDOR up. The library moves and keeps
 * elements of such a dtype, and does not compute with them.
 */
#include <string.h>
#include "core/context.h"
#include "core/error.h"
#include "core/tensor.h"

/* Under the lock. The number of the name, or that of names if it is new. */
static uint32_t position(const tn_context *ctx, const char *name)
{
    char *const *names = ctx->vendor_dtypes.data;
    uint32_t i = 0;
    while (i < ctx->vendor_dtypes.count && strcmp(names[i], name) != 0) i++;
    return i;
}

/* Under the lock. */
static int32_t add(tn_context *ctx, const char *name, uint32_t bits)
{
    uint32_t i = ctx->vendor_dtypes.count;
    if (i == TNI_MAX_VENDOR_DTYPES)
        return tni_error(TN_E_STATE, "tn_dtype_intern: all %u codes of vendor dtypes are used",
                         TNI_MAX_VENDOR_DTYPES);
    char *copy = tni_strdup(ctx, name);
    char **slot = copy ? tni_vector_push(ctx, &ctx->vendor_dtypes, sizeof *slot) : NULL;
    if (!slot) {
        if (copy) tni_free(ctx, copy, strlen(copy) + 1);
        return TN_E_OUT_OF_MEMORY;
    }
    *slot = copy;
    ctx->vendor_bits[i] = bits;
    return TN_OK;
}

tn_dtype tn_dtype_intern(tn_context *ctx, const char *name, uint32_t bits)
{
    if (tni_context_check(ctx)) return 0;
    tn_dtype known = name ? tn_dtype_parse(name) : 0;
    if (!name || !name[0] || known || !bits || bits > 255) {
        tni_error(TN_E_ARGUMENT, "tn_dtype_intern: argument '%s': %s (got '%s', %u bits)",
                  !name || !name[0] || known ? "name" : "bits",
                  known ? "the library has a dtype of this name" : "expected a name and 1 to 255 bits",
                  name ? name : "", bits);
        return 0;
    }
    pthread_mutex_lock(&ctx->lock);
    uint32_t i = position(ctx, name);
    int32_t status = i == ctx->vendor_dtypes.count ? add(ctx, name, bits) : TN_OK;
    if (!status && ctx->vendor_bits[i] != bits)
        status = tni_error(TN_E_ARGUMENT, "tn_dtype_intern: argument 'bits': %s has %u bits (got %u)", name,
                           ctx->vendor_bits[i], bits);
    pthread_mutex_unlock(&ctx->lock);
    return status ? 0 : TN_DTYPE(TN_CODE_VENDOR + i, bits);
}

const char *tn_dtype_interned(tn_context *ctx, tn_dtype dtype)
{
    const char *name = NULL;
    uint32_t code = TN_DTYPE_CODE(dtype);
    if (tni_context_check_kept(ctx)) return NULL;
    if (code < TN_CODE_VENDOR) return tn_dtype_name(dtype);
    pthread_mutex_lock(&ctx->lock);
    uint32_t i = code - TN_CODE_VENDOR;
    if (i < ctx->vendor_dtypes.count && ctx->vendor_bits[i] == TN_DTYPE_BITS(dtype))
        name = ((char *const *)ctx->vendor_dtypes.data)[i];
    pthread_mutex_unlock(&ctx->lock);
    return name;
}

int32_t tni_dtype_check(tn_context *ctx, tn_dtype dtype, const char *call)
{
    if (tni_dtype_index(dtype) >= 0 || (tni_dtype_is_vendor(dtype) && tn_dtype_interned(ctx, dtype)))
        return TN_OK;
    return dtype ? tni_error(TN_E_DTYPE, "%s0x%x is not a dtype", call, dtype)
                 : tni_error(TN_E_DTYPE, "%sa tensor needs a dtype, and none was given", call);
}

const char *tni_dtype_text(tn_context *ctx, tn_dtype dtype)
{
    const char *name = tn_dtype_interned(ctx, dtype);
    return name ? name : "?";
}
