/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as text and back, with a decimal point in every locale that the program may set. The rooms of libtenon-train call these
 * functions instead of strtod and vsnprintf, which follow the locale; tools/check_rooms.py finds code that does not.
 */
#ifndef TENON_FILES_NUMBER_TEXT_H
#define TENON_FILES_NUMBER_TEXT_H

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* libc has this locale ready: nothing is allocated, and nothing is to be freed. */
static inline locale_t plain_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* Puts this thread into the locale "C" for code that writes many numbers. Returns the locale that plain_locale_end restores. */
static inline locale_t plain_locale_begin(void)
{
    return uselocale(plain_locale());
}

static inline void plain_locale_end(locale_t before)
{
    uselocale(before);
}

static inline double plain_strtod(const char *text, char **end)
{
    return strtod_l(text, end, plain_locale());
}

static inline int plain_vsnprintf(char *to, size_t bytes, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
static inline int plain_vsnprintf(char *to, size_t bytes, const char *format, va_list args)
{
    locale_t before = plain_locale_begin();
    int length = vsnprintf(to, bytes, format, args);
    plain_locale_end(before);
    return length;
}

static inline int plain_snprintf(char *to, size_t bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline int plain_snprintf(char *to, size_t bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = plain_vsnprintf(to, bytes, format, args);
    va_end(args);
    return length;
}

#endif
