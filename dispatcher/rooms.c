/* SPDX-License-Identifier: Apache-2.0 */
/* Where the library is put together: the rooms that take part in a context's life, in order. */
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

/* TENON_FALLBACK=error|warn|silent */
static int32_t fallback_init(tn_context *ctx, const tn_context_options *options)
{
    const char *policy = secure_getenv("TENON_FALLBACK");
    (void)options;
    if (policy && strcmp(policy, "error") == 0) tn_set_fallback_policy(ctx, TN_FALLBACK_ERROR);
    if (policy && strcmp(policy, "silent") == 0) tn_set_fallback_policy(ctx, TN_FALLBACK_SILENT);
    return TN_OK;
}

const tni_room tni_rooms[] = {
    {"host", host_init, host_finish},
    {"registry", tni_registry_init, tni_registry_finish},
    {"fallback", fallback_init, host_finish},
    {"observe", tni_observe_init, host_finish},
    {"trace", tni_trace_init, host_finish},
    {"trace file", tni_trace_file_init, tni_trace_file_finish},
    {"autocast", tni_autocast_init, host_finish},
    {"autograd", tni_autograd_init, tni_autograd_finish},
    {"plugins", tni_plugins_init, tni_plugins_finish},
};
const uint32_t tni_room_count = sizeof tni_rooms / sizeof *tni_rooms;
