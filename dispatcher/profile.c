/* SPDX-License-Identifier: Apache-2.0 */
/* The profiler's view of calls (core/profile.h): an observer, which is there while a profile runs. */
#include "core/profile.h"
#include "dispatcher/call.h"
#include "dispatcher/rooms.h"

static void enter(void *user, const tn_call_info *info, uint64_t *token)
{
    char shapes[TNI_PROFILE_SHAPES];
    tni_profile_site site = {.kind = TN_PROFILE_OPERATOR, .number = info->op, .name = info->name};
    if (tni_profile_flags(user) & TN_PROFILE_SHAPES) {
        site.shapes = shapes;
        site.shapes_bytes = tni_profile_shapes(info->args, info->n_args, shapes);
    }
    *token = tni_profile_enter(user, &site);
}

static void leave(void *user, const tn_call_info *info, uint64_t token)
{
    (void)info;
    tni_profile_leave(user, token);
}

int32_t tn_profile_begin(tn_context *ctx, const tn_profile_options *options)
{
    const tn_observer observer = {.size = sizeof observer, .user = ctx, .enter = enter, .leave = leave};
    int32_t status = tni_profile_start(ctx, options);
    if (status) return status;
    status = tn_observer_add(ctx, &observer, &ctx->registry->profile_observer);
    tn_profile *begun;
    if (!status) return TN_OK;
    tn_error *error = tni_error_copy();
    if (!tni_profile_stop(ctx, &begun)) tn_profile_release(begun);
    tni_error_restore(error);
    tn_error_release(error);
    return status;
}

int32_t tn_profile_end(tn_context *ctx, tn_profile **out)
{
    uint64_t observer = ctx ? ctx->registry->profile_observer : 0;
    int32_t status = tni_profile_stop(ctx, out);
    if (ctx && !tni_is_profiled(ctx)) tn_observer_remove(ctx, observer);
    return status;
}

int32_t tni_call_profile_init(tn_context *ctx, const tn_context_options *options)
{
    tn_profile_options wish;
    (void)options;
    int32_t status = tni_profile_wish(ctx, &wish);
    return status || !ctx->profile_path ? status : tn_profile_begin(ctx, &wish);
}

void tni_call_profile_finish(tn_context *ctx)
{
    tni_profile_finish(ctx);
}
