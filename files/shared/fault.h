/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with options, as a text. Functions that check them give it, or NULL, and their callers fail with it. Other rooms of
 * libtenon-train may use it, too. */
#ifndef TENON_FILES_FAULT_H
#define TENON_FILES_FAULT_H

#include "number_text.h"

#define FAULT_BYTES 640

static inline const char *fault(char text[FAULT_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static inline const char *fault(char text[FAULT_BYTES], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    plain_vsnprintf(text, FAULT_BYTES, format, args);
    va_end(args);
    return text;
}

#endif
