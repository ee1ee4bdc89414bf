/* SPDX-License-Identifier: Apache-2.0 */
/* A log sink that counts lines and keeps the text of errors, and of the last warning. */
#ifndef TENON_TESTS_CORE_LOG_LINES_H
#define TENON_TESTS_CORE_LOG_LINES_H

#include <stdio.h>
#include <string.h>
#include <tenon/context.h>

typedef struct lines {
    char text[8192]; /* of errors, a line each */
    int count;       /* of all lines */
    char warning[512];
    int warnings;
} lines;

static inline void keep_line(void *user, int32_t level, const char *text)
{
    lines *l = user;
    size_t n = strlen(l->text);
    if (level == TN_LOG_ERROR) snprintf(l->text + n, sizeof l->text - n, "%s\n", text);
    if (level == TN_LOG_WARN) snprintf(l->warning, sizeof l->warning, "%s", text), l->warnings++;
    l->count++;
}

#endif
