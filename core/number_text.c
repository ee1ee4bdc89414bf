/* SPDX-License-Identifier: Apache-2.0 */
#include "core/number_text.h"

#include <stdio.h>
#include <stdlib.h>

/* libc has this locale ready: nothing is allocated, and nothing is to be freed. */
static locale_t plain_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t tni_plain_locale_begin(void)
{
    return uselocale(plain_locale());
}

void tni_plain_locale_end(locale_t before)
{
    uselocale(before);
}

double tni_strtod(const char *text, char **end)
{
    return strtod_l(text, end, plain_locale());
}

int tni_vsnprintf(char *to, size_t bytes, const char *format, va_list args)
{
    locale_t before = tni_plain_locale_begin();
    int length = vsnprintf(to, bytes, format, args);
    tni_plain_locale_end(before);
    return length;
}

int tni_snprintf(char *to, size_t bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = tni_vsnprintf(to, bytes, format, args);
    va_end(args);
    return length;
}
