/* SPDX-License-Identifier: Apache-2.0 */
/* What a driver or a layer of tests says of its users: lines of the file that ZE_TEST_REPORT names, or of stderr. */
#ifndef TENON_TESTS_GPU_REPORT_H
#define TENON_TESTS_GPU_REPORT_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((format(printf, 2, 3))) static inline void report_of(const char *who, const char *format, ...)
{
    const char *path = getenv("ZE_TEST_REPORT");
    FILE *file = path ? fopen(path, "a") : stderr;
    va_list list;
    if (!file) return;
    va_start(list, format);
    fprintf(file, "%s: ", who);
    vfprintf(file, format, list);
    fputc('\n', file);
    va_end(list);
    if (path) fclose(file);
}

#endif
