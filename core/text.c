/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "core/number_text.h"

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

/* ---- UTF-8 -------------------------------------------------------------------------------------------- */

/* Bytes of the character that begins here, 0 for a bad one. */
static uint64_t utf8_length(const unsigned char *c, uint64_t left)
{
    uint64_t n = *c < 0x80                 ? 1
                 : *c >= 0xc2 && *c < 0xe0 ? 2
                 : *c >= 0xe0 && *c < 0xf0 ? 3
                 : *c >= 0xf0 && *c < 0xf5 ? 4
                                           : 0;
    if (!*c || n > left) return 0;
    for (uint64_t i = 1; i < n; i++) {
        if ((c[i] & 0xc0) != 0x80) return 0;
    }
    if (*c == 0xe0 && c[1] < 0xa0) return 0; /* longer than needed */
    if (*c == 0xed && c[1] > 0x9f) return 0; /* half of a pair */
    if (*c == 0xf0 && c[1] < 0x90) return 0;
    if (*c == 0xf4 && c[1] > 0x8f) return 0; /* past the last one */
    return n;
}

int32_t tni_utf8_check(const char *text, uint64_t bytes)
{
    for (uint64_t i = 0, n; i < bytes; i += n) {
        n = utf8_length((const unsigned char *)text + i, bytes - i);
        if (!n) return 0;
    }
    return 1;
}

uint64_t tni_utf8_copy(char *to, uint64_t bytes, const char *from)
{
    uint64_t left = strlen(from), length = 0, used = 0;
    for (uint64_t n; left; from += n, left -= n) {
        char escape[5];
        const char *item = from;
        uint64_t width = n = utf8_length((const unsigned char *)from, left);
        if (!n) {
            width = (uint64_t)snprintf(escape, sizeof escape, "\\x%02x", (unsigned char)*from);
            item = escape;
            n = 1;
        }
        if (used == length && used + width < bytes) {
            memmove(to + used, item, width);
            used += width;
        }
        length += width;
    }
    if (bytes) to[used] = 0;
    return length;
}
