/* SPDX-License-Identifier: Apache-2.0 */
/* The rooms that a context initialises, in order, and finishes, in reverse. */
#include <stdlib.h>
#include <string.h>
#include "dispatcher/backend.h"
#include "dispatcher/custom.h"
#include "dispatcher/rooms.h"

static int32_t host_init(tn_context *ctx, const tn_context_options *options)
{
    (void)options;
    tni_host_fill(ctx);
    return TN_OK;
}

static void host_finish(tn_context *ctx)
{
    (void)ctx;
}

/* TENON_FALLBACK=error|warn|silent. A mistyped value is an error: programs would run on the CPU unnoticed. */
static int32_t fallback_init(tn_context *ctx, const tn_context_options *options)
{
    static const char *const names[] = {
        [TN_FALLBACK_WARN] = "warn", [TN_FALLBACK_SILENT] = "silent", [TN_FALLBACK_ERROR] = "error"};
    const char *policy = secure_getenv("TENON_FALLBACK");
    (void)options;
    if (!policy || !*policy) return TN_OK;
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(policy, names[i]) != 0) continue;
        tn_set_fallback_policy(ctx, i);
        return TN_OK;
    }
    tni_error(TN_E_ARGUMENT, "TENON_FALLBACK is '%.100s' (expected error, warn or silent)", policy);
    tni_log(ctx, TN_LOG_ERROR, "%s", tn_last_error()->message);
    return TN_E_ARGUMENT;
}

/* TENON_BLOCKING=1: the host waits for each kernel, so that the call whose work fails reports it. */
static int32_t blocking_init(tn_context *ctx, const tn_context_options *options)
{
    const char *wish = secure_getenv("TENON_BLOCKING");
    (void)options;
    if (!wish || !*wish || !strcmp(wish, "0")) return TN_OK;
    if (!strcmp(wish, "1")) {
        atomic_fetch_or(&ctx->call_flags, TNI_CALL_BLOCKING);
        return TN_OK;
    }
    tni_error(TN_E_ARGUMENT, "TENON_BLOCKING is '%.100s' (expected 0 or 1)", wish);
    tni_log(ctx, TN_LOG_ERROR, "%s", tn_last_error()->message);
    return TN_E_ARGUMENT;
}

const tni_room tni_rooms[] = {
    {"host", host_init, host_finish},
    {"registry", tni_registry_init, tni_registry_finish},
    {"fallback", fallback_init, host_finish},
    {"blocking", blocking_init, host_finish},
    {"observe", tni_observe_init, host_finish},
    {"debug", tni_call_watch_init, tni_call_watch_finish},
    {"trace", tni_trace_init, host_finish},
    {"trace file", tni_trace_file_init, tni_trace_file_finish},
    {"profile", tni_call_profile_init, tni_call_profile_finish},
    {"autocast", tni_autocast_init, host_finish},
    {"autograd", tni_autograd_init, tni_autograd_finish},
    {"plugins", tni_plugins_init, tni_plugins_finish},
};
const uint32_t tni_room_count = sizeof tni_rooms / sizeof *tni_rooms;
