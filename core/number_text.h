/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as text and back, with a decimal point in every locale that the program may set. The library calls these functions
 * instead of strtod and vsnprintf, which follow the locale; tools/check_rooms.py finds code that does not.
 */
#ifndef TNI_NUMBER_TEXT_H
#define TNI_NUMBER_TEXT_H

#include <locale.h>
#include <stdarg.h>
#include <stddef.h>
#include "core/error.h"

/* Puts this thread into the locale "C" for code that writes many numbers. Returns the locale that tni_plain_locale_end
 * restores. */
locale_t tni_plain_locale_begin(void);
void tni_plain_locale_end(locale_t before);

double tni_strtod(const char *text, char **end);
int tni_vsnprintf(char *to, size_t bytes, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
TNI_PRINTF(3, 4) int tni_snprintf(char *to, size_t bytes, const char *format, ...);

#endif
