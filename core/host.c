/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core's part of the host table: what plugins and out-of-tree operators call for errors, logging,
 * interning, memory and scopes. The dispatcher adds the slots that take a call or an operator.
 */
#include "core/context.h"
#include "core/error.h"
#include "core/finding.h"

static int32_t host_error(void *context, int32_t code, const char *message)
{
    return tni_error(code, "%s", message ? message : tn_status_text(code));
}

static int32_t host_error_native(void *context, int32_t code, const char *message, int32_t native_code,
                                 const char *native_text)
{
    tni_error(code, "%s", message ? message : tn_status_text(code));
    tni_error_native(native_code, native_text);
    return code;
}

static void host_log(void *context, int32_t level, const char *text)
{
    tni_log(context, level, "%s", text ? text : "");
}

static uint32_t host_intern(void *context, const char *text)
{
    return tn_intern(context, text);
}

static const char *host_interned(void *context, uint32_t id)
{
    return tn_interned(context, id);
}

static void *host_alloc(void *context, uint64_t bytes)
{
    return tni_alloc(context, bytes);
}

static void host_free(void *context, void *memory, uint64_t bytes)
{
    tni_free(context, memory, bytes);
}

static int32_t host_report(void *context, const tn_finding *finding)
{
    return tni_report(context, finding);
}

void tni_host_init(tn_context *ctx)
{
    ctx->host = (tn_host){
        .size = sizeof(tn_host),
        .abi_major = TN_ABI_MAJOR,
        .abi_minor = TN_ABI_MINOR,
        .context = ctx,
        .error = host_error,
        .error_native = host_error_native,
        .log = host_log,
        .intern = host_intern,
        .interned = host_interned,
        .alloc = host_alloc,
        .free = host_free,
        .scope_failed = tn_scope_failed,
        .scope_fail = tn_scope_fail,
        .scope_memory = tn_scope_memory,
        .drop = tn_drop,
        .report = host_report,
    };
}
