/* SPDX-License-Identifier: Apache-2.0 */
/* Text in a buffer of the caller. What does not fit is left out but counts, so that a caller can ask for the length. */
#ifndef TNI_TEXT_H
#define TNI_TEXT_H

#include "core/error.h"

typedef struct tni_text {
    char *to;
    uint64_t bytes;
    uint64_t length; /* of the whole text, without its final 0 */
} tni_text;

/* An empty text. `to` may be NULL. */
tni_text tni_text_begin(char *to, uint64_t bytes);
TNI_PRINTF(2, 3) void tni_text_add(tni_text *t, const char *format, ...);

/* 1 for well-formed UTF-8 without NUL. */
int32_t tni_utf8_check(const char *text, uint64_t bytes);
/*
 * Copies a text as well-formed UTF-8: a byte that is not part of a character becomes four letters, "\xff". Of a text that is too
 * long the last characters are left out, but they count: returns the length of all. `to` may be NULL if `bytes` is 0.
 */
uint64_t tni_utf8_copy(char *to, uint64_t bytes, const char *from);

#endif
