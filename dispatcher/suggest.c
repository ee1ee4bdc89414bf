/* SPDX-License-Identifier: Apache-2.0 */
/* "did you mean": the operators whose names are closest to one that does not exist. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "core/similar/similar_name.h"
#include "dispatcher/define.h"

#define LONGEST     64 /* longer names are compared up to here */
#define SUGGESTIONS 3

typedef struct suggestion {
    uint32_t distance;
    const char *name; /* up to '(' */
    uint32_t length;
} suggestion;

/* The name as C spells it: without namespace and "tn_", in lower case, '_' before the overload. */
static uint32_t spell(const char *name, uint32_t length, char out[LONGEST])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i + 1 < length; i++) {
        if (name[i] == ':' && name[i + 1] == ':') {
            name += i + 2;
            length -= i + 2;
            break;
        }
    }
    if (length > 3 && strncmp(name, "tn_", 3) == 0) {
        name += 3;
        length -= 3;
    }
    for (; n < length && n < LONGEST; n++)
        out[n] = name[n] == '.' ? '_' : (char)tolower((unsigned char)name[n]);
    return n;
}

/* Of the whole name, of the name without its overload, or of the name with the first word of its overload, as C
 * spells "sum.dim_IntList": the smallest. */
static uint32_t distance_to(const char *wish, uint32_t wish_length, const char *name, uint32_t length,
                            uint32_t limit)
{
    char spelled[LONGEST];
    uint32_t n = spell(name, length, spelled),
             best = similar_name_distance(wish, wish_length, spelled, n, limit);
    const char *end = name + length, *dot = memchr(name, '.', length);
    const char *word = dot ? memchr(dot, '_', (size_t)(end - dot)) : NULL, *const ends[] = {dot, word};
    for (uint32_t i = 0; i < 2 && ends[i]; i++) {
        uint32_t part =
            similar_name_distance(wish, wish_length, spelled, n - (uint32_t)(end - ends[i]), limit);
        if (part < best) best = part;
    }
    return best;
}

static void insert(suggestion best[SUGGESTIONS], suggestion s)
{
    for (uint32_t i = 0; i < SUGGESTIONS; i++) {
        if (best[i].name && best[i].distance <= s.distance) continue;
        suggestion pushed = best[i];
        best[i] = s;
        if (!pushed.name) return;
        s = pushed;
    }
}

const char *tni_suggest(const tni_registry *r, const char *name, char *out, uint64_t bytes)
{
    suggestion best[SUGGESTIONS] = {0};
    char wish[LONGEST];
    uint32_t length = spell(name, (uint32_t)strnlen(name, 4 * LONGEST), wish), limit = length / 4 + 2;
    uint32_t count = atomic_load_explicit(&r->count, memory_order_acquire);
    uint64_t used = 0;
    for (uint32_t number = 1; number < count; number++) {
        const tni_op *op = tni_op_get(r, number);
        if (op->removed) continue;
        const char *full = op->name;
        uint32_t n = (uint32_t)strcspn(full, "(");
        uint32_t d = distance_to(wish, length, full, n, limit);
        if (d < limit && d < length) /* some letter stays */
            insert(best, (suggestion){d, full, n});
    }
    out[0] = 0;
    for (uint32_t i = 0; i < SUGGESTIONS && best[i].name && used < bytes; i++) {
        if (best[i].distance > best[0].distance + 1) break;
        int n = snprintf(out + used, bytes - used, "%s%.*s", i ? ", " : "; did you mean ",
                         (int)best[i].length, best[i].name);
        used += n > 0 ? (uint64_t)n : 0;
    }
    if (used && used + 1 < bytes) memcpy(out + used, "?", 2);
    return out;
}
