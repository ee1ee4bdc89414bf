/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold at the end of a test, in the fini of its suite. */
#ifndef TESTS_CORE_AT_END_H
#define TESTS_CORE_AT_END_H

#include <stdio.h>
#include <stdlib.h>

/* Criterion prints a failed assertion of a fini, and the test passes all the same. A crash there fails the program. */
#define MUST_HOLD(condition)                                                               \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

#endif
