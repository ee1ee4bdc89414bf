/* SPDX-License-Identifier: Apache-2.0 */
/* A small table from addresses to numbers, that grows and forgets nothing. No locks. Zeroed: empty. */
#ifndef TNI_CORE_POINTER_MAP_H
#define TNI_CORE_POINTER_MAP_H

#include <tenon/base.h>

typedef struct tni_pointer_place {
    const void *key; /* NULL: free */
    uint32_t value;
} tni_pointer_place;

typedef struct tni_pointer_map {
    tni_pointer_place *places; /* open addressing; at most half are taken */
    uint32_t count;
    uint32_t capacity; /* a power of two, or 0 */
} tni_pointer_map;

/* The number of an address, or NULL. */
uint32_t *tni_pointer_map_get(const tni_pointer_map *map, const void *key);
/* The same; an address that is not there gets 0. NULL and an error when there is no memory. */
uint32_t *tni_pointer_map_put(tn_context *ctx, tni_pointer_map *map, const void *key);
void tni_pointer_map_finish(tn_context *ctx, tni_pointer_map *map);

#endif
