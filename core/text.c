/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text.h"

#include <stdarg.h>
#include <string.h>
#include "core/number_text.h"

#define LONGEST 63u

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
    int n = tni_vsnprintf(room ? t->to + t->length : NULL, room, format, list);
    va_end(list);
    t->length += n > 0 ? (uint64_t)n : 0;
}

uint32_t tni_different_letters(const char *a, const char *b)
{
    uint32_t row[LONGEST + 1], n = (uint32_t)strnlen(a, LONGEST), m = (uint32_t)strnlen(b, LONGEST);
    for (uint32_t j = 0; j <= m; j++) row[j] = j;
    for (uint32_t i = 1; i <= n; i++) {
        uint32_t diagonal = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= m; j++) {
            uint32_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            uint32_t moved = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < moved ? replaced : moved;
        }
    }
    return row[m];
}
