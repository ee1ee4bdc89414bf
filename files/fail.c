/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of readers; see fail.h. */
#include "fail.h"
#include "number_text.h"

#include <stdarg.h>
#include <stdio.h>

int32_t files_fail(tn_scope *s, const char *reader, const char *path, int32_t status, const char *format, ...)
{
    char text[1024];
    int n = snprintf(text, sizeof text, "%s: '%.400s': ", reader, path);
    va_list list;
    va_start(list, format);
    plain_vsnprintf(text + n, sizeof text - (size_t)n, format, list);
    va_end(list);
    return tn_scope_fail(s, status, text);
}
