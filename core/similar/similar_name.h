/* SPDX-License-Identifier: Apache-2.0 */
/* "did you mean": the name of a list that is closest to one that is not in it. Needs nothing of Tenon; the kit and
 * libtenon-train include it, too. */
#ifndef TENON_SIMILAR_NAME_H
#define TENON_SIMILAR_NAME_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SIMILAR_NAME_BYTES 128 /* longer names are not compared */

typedef struct similar_name {
    const char *wish, *best; /* best: NULL if none is similar */
    uint32_t least;          /* a name of so many different letters or more is not similar */
} similar_name;

static inline similar_name similar_name_begin(const char *wish)
{
    const uint32_t n = (uint32_t)strnlen(wish, SIMILAR_NAME_BYTES);
    return (similar_name){wish, NULL, n < 3 ? n : n / 3 + 2};
}

/* Letters to insert, remove or replace between n and m letters (Levenshtein); `limit` stands for anything from there on. */
static inline uint32_t similar_name_distance(const char *a, uint32_t n, const char *b, uint32_t m,
                                             uint32_t limit)
{
    uint32_t row[SIMILAR_NAME_BYTES];
    if (n >= SIMILAR_NAME_BYTES || m >= SIMILAR_NAME_BYTES || (n > m ? n - m : m - n) >= limit) return limit;
    for (uint32_t j = 0; j <= m; j++) row[j] = j;
    for (uint32_t i = 1; i <= n; i++) {
        uint32_t diagonal = row[0], least = row[0] = i;
        for (uint32_t j = 1; j <= m; j++) {
            const uint32_t replaced = diagonal + (a[i - 1] != b[j - 1]),
                           moved = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < moved ? replaced : moved;
            if (row[j] < least) least = row[j];
        }
        if (least >= limit) return limit;
    }
    return row[m] < limit ? row[m] : limit;
}

/* 1 if `name` is closer than those before; it is borrowed until the end. */
static inline int similar_name_try(similar_name *s, const char *name)
{
    const uint32_t n = (uint32_t)strnlen(s->wish, SIMILAR_NAME_BYTES),
                   m = (uint32_t)strnlen(name, SIMILAR_NAME_BYTES),
                   different = similar_name_distance(s->wish, n, name, m, s->least);
    if (different >= s->least) return 0;
    s->least = different;
    s->best = name;
    return 1;
}

/* What an error ends with: "; did you mean 'fc.weight'?", or "". */
static inline const char *similar_name_text(const similar_name *s, char text[SIMILAR_NAME_BYTES + 32])
{
    snprintf(text, SIMILAR_NAME_BYTES + 32, "%s%s%s", s->best ? "; did you mean '" : "",
             s->best ? s->best : "", s->best ? "'?" : "");
    return text;
}

#endif
