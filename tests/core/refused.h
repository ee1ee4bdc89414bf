/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables of what is refused: what is given, or the status, and a part of the error's text. */
#ifndef TESTS_CORE_REFUSED_H
#define TESTS_CORE_REFUSED_H

#include <stdint.h>

typedef struct refused_text {
    const char *given, *text;
} refused_text;

typedef struct refused_status {
    int32_t status;
    const char *text;
} refused_status;

#endif
