/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing with steps of one; see pointer_map.h. */
#include "core/pointer_map.h"

#include "core/memory.h"

#define FIRST_CAPACITY 32u

/* The place of a key, or the free one where it would be. There is always a free one. */
static tni_pointer_place *place_of(const tni_pointer_map *map, const void *key)
{
    uint32_t i = (uint32_t)(((uintptr_t)key >> 4) * 0x9e3779b97f4a7c15u >> 32);
    while (map->places[i & (map->capacity - 1)].key && map->places[i & (map->capacity - 1)].key != key) i++;
    return &map->places[i & (map->capacity - 1)];
}

uint32_t *tni_pointer_map_get(const tni_pointer_map *map, const void *key)
{
    tni_pointer_place *place = map->capacity ? place_of(map, key) : NULL;
    return place && place->key ? &place->value : NULL;
}

static int32_t grow(tn_context *ctx, tni_pointer_map *map)
{
    tni_pointer_map larger = {.count = map->count,
                              .capacity = map->capacity ? 2 * map->capacity : FIRST_CAPACITY};
    larger.places = tni_alloc_zeroed(ctx, larger.capacity * sizeof *larger.places);
    if (!larger.places) return TN_E_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < map->capacity; i++) {
        if (map->places[i].key) *place_of(&larger, map->places[i].key) = map->places[i];
    }
    tni_pointer_map_finish(ctx, map);
    *map = larger;
    return TN_OK;
}

uint32_t *tni_pointer_map_put(tn_context *ctx, tni_pointer_map *map, const void *key)
{
    if (2 * map->count >= map->capacity && grow(ctx, map)) return NULL;
    tni_pointer_place *place = place_of(map, key);
    if (!place->key) {
        place->key = key;
        map->count++;
    }
    return &place->value;
}

void tni_pointer_map_finish(tn_context *ctx, tni_pointer_map *map)
{
    if (map->places) tni_free(ctx, map->places, map->capacity * sizeof *map->places);
    *map = (tni_pointer_map){0};
}
