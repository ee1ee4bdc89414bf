/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls a custom operator accepts. Each is tried as a case of a run of its own, so that one that crashes ends
 * only its process. The process that reports keeps what came of them, and the processes that it starts afterwards,
 * which list the parts, have it from there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "custom.h"

static struct {
    custom_try *items; /* by the number of the call */
    uint32_t count;
} tries;

custom_try custom_tried(const custom_call *call)
{
    return call->number < tries.count ? tries.items[call->number] : (custom_try){0};
}

/* Skipped: the operator refuses the call. Failed: it ends by a fault of the library. */
static void try_call(check_target *t, const check_case *c, check_result *out)
{
    const custom_call *call = c->data;
    char fault[400];
    custom_run r;
    custom_open(&r, t, call, t->device, TN_GRAD_OFF);
    if (custom_do(&r, call)) {
        if (custom_fault(t, call, &r, fault, sizeof fault))
            check_fail(out, "%s", fault);
        else
            check_skip(out, "%s", tn_scope_error(r.s)->message);
    }
    custom_close(&r);
    t->error_line[0] = 0; /* calls that are accepted are cases of the parts, which see the line, too */
}

static void list_tries(check_target *t, check_list *list)
{
    uint32_t op = tn_operator_find(t->ctx, t->options->op), n = 0;
    const custom_call *calls = op ? custom_calls(t, list, op, &n) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        check_case c = {.data = &calls[i], .run = try_call};
        if (custom_is_next(calls, i)) check_add(list, &c, "%u %s", calls[i].number, calls[i].name);
    }
    tn_clear_error();
}

static void keep(const check_entry *e)
{
    uint32_t number = (uint32_t)strtoul(e->name, NULL, 10);
    const check_result *r = &e->result;
    while (tries.count <= number) {
        if ((tries.count & (tries.count - 1)) == 0) {
            void *larger = realloc(tries.items, (tries.count ? tries.count * 2 : 1) * sizeof *tries.items);
            if (!larger) return; /* the call counts as not tried */
            tries.items = larger;
        }
        tries.items[tries.count++] = (custom_try){0};
    }
    custom_try *to = &tries.items[number];
    to->state = r->outcome == CHECK_SKIPPED   ? CUSTOM_REFUSED
                : r->outcome == CHECK_FAILED  ? CUSTOM_FAULTY
                : r->outcome == CHECK_CRASHED ? CUSTOM_CRASHED
                                              : CUSTOM_ACCEPTED;
    snprintf(to->reason, sizeof to->reason, "%.*s", (int)sizeof to->reason - 1, r->reason);
}

static int32_t try_next(check_run *run)
{
    static const check_source sources[] = {list_tries};
    check_options options = *run->options;
    options.filter = options.unsupported = options.expected_failures = NULL;
    options.demand_tier = 0;
    check_run tried = {.options = &options};
    int32_t status = check_execute(&tried, sources, 1);
    if (status) snprintf(run->fatal, sizeof run->fatal, "%s", tried.fatal);
    for (uint32_t i = 0; i < tried.count; i++) keep(&tried.entries[i]);
    check_run_finish(&tried);
    return status;
}

int32_t custom_try_calls(check_run *run)
{
    int32_t status = try_next(run);
    return status || run->options->args ? status : try_next(run); /* with vectors */
}

void custom_forget_tries(void)
{
    free(tries.items);
    tries.items = NULL;
    tries.count = 0;
}
