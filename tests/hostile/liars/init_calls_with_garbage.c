/* SPDX-License-Identifier: Apache-2.0 */
/* init calls the host's functions with NULL and nonsense, registers an operator and rows of garbage. */
#include "../honest.h"
#include "../../plugins/slots.h"

static int32_t rant(const tn_host *host, void **out_self)
{
    const tn_operator_def empty = {.size = 0}, garbage = {.size = sizeof garbage, .schema = "liar::((Tensor"},
                          huge = {.size = 0xffffffffu, .schema = "liar::op(Tensor x) -> Tensor"};
    void *context = host->context, *memory;
    host->error(context, 999, NULL);
    host->error_native(context, -7, NULL, 1, NULL);
    host->log(context, 77, NULL);
    host->intern(context, NULL);
    host->interned(context, 0xffffffffu);
    host->find_operator(context, NULL);
    host->find_operator(context, "(((");
    host->register_operator(context, NULL);
    host->register_operator(context, &empty);
    host->register_operator(context, &garbage);
    host->register_operator(context, &huge);
    host->register_kernels(context, NULL, NULL, NULL, 3, 0);
    host->register_kernels(context, "nowhere", NULL, NULL, 0xffffffffu, 1);
    host->register_kernels(context, "cpu", NULL, NULL, 3, sizeof(tn_kernel_row));
    host->register_kernels(context, "cpu", NULL, the.rows, 1, 2);
    if (host->workspace) { /* absent where a plugin is only tried out */
        slot_workspace(NULL, host, 16, &memory);
        host->call_scope(NULL);
        host->scope_call(NULL, 1, NULL, 0, NULL, 0);
    }
    host->free(context, NULL, 0);
    return honest_init(host, out_self);
}

void lie(void)
{
    the.table.init = rant;
}
