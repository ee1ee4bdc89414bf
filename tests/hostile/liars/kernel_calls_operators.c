/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel asks for a scope, as only composites may, and calls an operator on what it gets. */
#include "../honest.h"

static int32_t add(void *self, const tn_call *call)
{
    tn_scope *s = call->host->call_scope(call);
    tn_value out;
    uint32_t op = call->host->find_operator(call->host->context, "aten::mul.Tensor");
    int32_t status = call->host->scope_call(s, op, call->args, 2, &out, 1);
    return status ? status : honest_add(self, call);
}

void lie(void)
{
    the.rows[0].run = add;
}
