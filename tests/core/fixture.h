/* SPDX-License-Identifier: Apache-2.0 */
/* A context with a fake CPU and two fake devices of the type "gpu", and a scope: init and fini of test suites. */
#ifndef TESTS_CORE_FIXTURE_H
#define TESTS_CORE_FIXTURE_H

#include "fake_driver.h"

extern tn_context *ctx;
extern fake cpu, gpu;
extern tn_scope *s;

void open_fakes(void);
/* The tests leave no handle, and the drivers saw no call that the contract forbids. */
void close_fakes(void);

#endif
