/* SPDX-License-Identifier: Apache-2.0 */
/* What benchmarks of training share. */
#ifndef TENON_BENCH_TRAINING_H
#define TENON_BENCH_TRAINING_H

#include <tenon/nn.h>
#include <tenon/optim.h>

static inline void training_close(tn_optimizer *optimizer, tn_module *net, tn_scope *s)
{
    tn_optimizer_destroy(optimizer);
    tn_module_destroy(net);
    tn_scope_close(s);
}

#endif
