/* SPDX-License-Identifier: Apache-2.0 */
/* A context with a fake CPU and two fake devices of the type "gpu", and a scope: init and fini of test suites. */
#ifndef TESTS_CORE_FIXTURE_H
#define TESTS_CORE_FIXTURE_H

#include "fake_driver.h"

extern tn_context *ctx;
extern fake cpu, gpu;
extern tn_scope *s;

void open_fakes(void);
/* With graphs, collectives and copies between the two devices. */
void open_full_fakes(void);
/* The tests leave no handle, and the drivers saw no call that the contract forbids. */
void close_fakes(void);

/* The thread's last error, or that of the scope, is this one; it is cleared. */
void expect_last(int32_t status, const char *text);
void expect_scope(int32_t status, const char *text);
/* The call returns the status, and the error has the text. */
#define REFUSED(call, status, text)     \
    do {                                \
        cr_expect_eq((call), (status)); \
        expect_last((status), (text));  \
    } while (0)

#endif
