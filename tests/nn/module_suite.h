/* SPDX-License-Identifier: Apache-2.0 */
/* The setup of a suite: a module of float64 without layers beside a context and a scope (../autograd/suite.h). */
#ifndef TESTS_NN_MODULE_SUITE_H
#define TESTS_NN_MODULE_SUITE_H

#include <tenon/nn.h>
#include "../autograd/suite.h"

static tn_module *net;

static void open_module(void)
{
    begin();
    net = tn_module_create(ctx, "net", NULL);
    tn_module_to(net, 0, TN_FLOAT64);
}

static void close_module(void)
{
    tn_module_destroy(net);
    end();
}

#endif
