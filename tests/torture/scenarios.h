/* SPDX-License-Identifier: Apache-2.0 */
/* What programs do with a device, a few calls each, with results that are written down here. */
#ifndef TESTS_TORTURE_SCENARIOS_H
#define TESTS_TORTURE_SCENARIOS_H

#include <stdint.h>
#include <tenon/tenon.h>

/* Device 1 of the type must be there too. */
typedef struct scenario {
    const char *name;
    /* 1: every result was right. 0: something is missing; the scope or tn_last_error has an error. -1: a wrong result. */
    int (*run)(tn_scope *s, tn_device device);
    int32_t asynchronous_only; /* not for the CPU */
} scenario;

/* Runs each of them on the CPU and on the reference device with `run`, which returns what went wrong; the program's
 * exit status. */
int run_scenarios(int (*run)(const scenario *c, const char *device));

#endif
