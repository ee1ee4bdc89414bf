/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of composites with arithmetic; see compute_dtype.h. */
#include <stdio.h>
#include "ops/composite/compute_dtype.h"

tn_ints tni_dims_between(tn_scope *s, int64_t first, int64_t end)
{
    int64_t count = end > first ? end - first : 0, *to = tni_scope_ints(s, count);
    for (int64_t i = 0; to && i < count; i++) to[i] = first + i;
    return (tn_ints){to, to ? count : 0};
}

tn_ints tni_dims_except(tn_scope *s, int64_t rank, int64_t dim)
{
    int64_t n = 0, *to = tni_scope_ints(s, rank);
    for (int64_t i = 0; to && i < rank; i++) {
        if (i != dim) to[n++] = i;
    }
    return (tn_ints){to, n};
}

tn_ints tni_ones_but(tn_scope *s, int64_t rank, int64_t dim, int64_t size)
{
    int64_t *to = tni_scope_ints(s, rank);
    for (int64_t i = 0; to && i < rank; i++) to[i] = i == dim ? size : 1;
    return (tn_ints){to, to ? rank : 0};
}

const char *tni_ints_text(tn_scope *s, tn_ints list)
{
    size_t room = (size_t)list.count * 22 + 3, used = 1;
    char *text = tn_scope_memory(s, room);
    if (!text) return "";
    text[0] = '[';
    for (int64_t i = 0; i < list.count; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", i ? ", " : "", (long long)list.data[i]);
    snprintf(text + used, room - used, "]");
    return text;
}

tn_ints tni_broadcast_sizes(tn_scope *s, tn_ints a, tn_ints b)
{
    int64_t rank = a.count > b.count ? a.count : b.count, *to = tni_scope_ints(s, rank);
    for (int64_t i = 0; to && i < rank; i++) {
        int64_t in_a = i - (rank - a.count), in_b = i - (rank - b.count);
        int64_t x = in_a < 0 ? 1 : a.data[in_a], y = in_b < 0 ? 1 : b.data[in_b];
        if (x != y && x != 1 && y != 1) {
            tni_scope_failf(s, TN_E_SHAPE,
                            "The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                            "non-singleton dimension %lld",
                            (long long)x, (long long)y, (long long)i);
            return (tn_ints){NULL, 0};
        }
        to[i] = x == 1 ? y : x;
    }
    return (tn_ints){to, to ? rank : 0};
}
