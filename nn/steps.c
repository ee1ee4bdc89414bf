/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a program (TN_STEPS): scopes whose failure is remembered when they have closed. */
#include <tenon/nn.h>

/* Of the thread: open steps, and the status of the last, or of the first that failed inside the outermost open one. */
#define WATCHED_STEPS \
    32 /* deeper ones are open, but tn_step_status does not see that they failed before they close */
static _Thread_local tn_scope *watched_steps[WATCHED_STEPS];
static _Thread_local uint32_t open_steps;
static _Thread_local int32_t step_status;

tn_scope *tn_step_open(tn_context *ctx)
{
    return tn_step_open_with(ctx, NULL);
}

tn_scope *tn_step_open_with(tn_context *ctx, const tn_scope_options *options)
{
    tn_scope *s = tn_scope_open_with(ctx, options);
    if (!open_steps) step_status = TN_OK;
    if (s && open_steps < WATCHED_STEPS) watched_steps[open_steps] = s;
    if (s)
        open_steps++;
    else if (!step_status)
        step_status = TN_E_OUT_OF_MEMORY;
    return s;
}

tn_scope *tn_step_close(tn_scope *s)
{
    int32_t status = tn_scope_close(s);
    if (!step_status) step_status = status;
    if (open_steps) open_steps--;
    return NULL;
}

int32_t tn_step_status(void)
{
    const uint32_t watched = open_steps < WATCHED_STEPS ? open_steps : WATCHED_STEPS;
    int32_t status = step_status;
    for (uint32_t i = 0; i < watched && !status; i++) status = tn_scope_failed(watched_steps[i]);
    return status;
}
