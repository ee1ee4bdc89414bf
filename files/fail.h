/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of readers. */
#ifndef FILES_FAIL_H
#define FILES_FAIL_H

#include <tenon/tenon.h>

/* Puts an error in the scope, which may be NULL; it begins with the reader ("pt") and the path. */
int32_t files_fail(tn_scope *s, const char *reader, const char *path, int32_t status, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
