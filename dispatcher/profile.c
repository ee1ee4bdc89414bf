/* SPDX-License-Identifier: Apache-2.0 */
/* Observers of calls for the core: the profiler's (core/profile.h) while a profile runs, and one that says which
 * operator runs while an allocator records its history. */
#include "core/current.h"
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

/* ---- The history of allocators, which has the operator that asked for memory --------------------------- */

/* The program's own call counts, not those that its operator makes. */
static void enter_operator(void *user, const tn_call_info *info, uint64_t *token)
{
    const char *outer = tni_current_operator();
    (void)user;
    if (!outer) tni_current_set_operator(info->name);
    *token = (uint64_t)(uintptr_t)outer;
}

static void leave_operator(void *user, const tn_call_info *info, uint64_t token)
{
    (void)user;
    (void)info;
    tni_current_set_operator((const char *)(uintptr_t)token);
}

/* Without room for another observer the history has no operators. */
static void tell_operators(tn_context *ctx, int32_t on)
{
    const tn_observer observer = {.size = sizeof observer, .enter = enter_operator, .leave = leave_operator};
    tni_registry *r = ctx->registry;
    uint64_t handle = 0;
    pthread_mutex_lock(&r->lock);
    int32_t is_first = on && !r->histories++, is_last = !on && r->histories && !--r->histories;
    if (is_last) {
        handle = r->history_observer;
        r->history_observer = 0;
    }
    pthread_mutex_unlock(&r->lock);
    if (is_last && handle) tn_observer_remove(ctx, handle);
    if (is_first && !tn_observer_add(ctx, &observer, &handle)) r->history_observer = handle;
}

int32_t tni_call_profile_init(tn_context *ctx, const tn_context_options *options)
{
    tn_profile_options wish;
    (void)options;
    ctx->tell_operators = tell_operators;
    int32_t status = tni_profile_wish(ctx, &wish);
    return status || !ctx->profile_path ? status : tn_profile_begin(ctx, &wish);
}

void tni_call_profile_finish(tn_context *ctx)
{
    tni_profile_finish(ctx);
}
