/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>

tni_text tni_text_begin(char *to, uint64_t bytes)
{
    tni_text t = {.to = to, .bytes = to ? bytes : 0};
    if (t.bytes) to[0] = 0;
    return t;
}

void tni_text_add(tni_text *t, const char *format, ...)
{
    va_list list;
    uint64_t room = t->length < t->bytes ? t->bytes - t->length : 0;
    va_start(list, format);
    int n = vsnprintf(room ? t->to + t->length : NULL, room, format, list);
    va_end(list);
    t->length += n > 0 ? (uint64_t)n : 0;
}
