/* SPDX-License-Identifier: Apache-2.0 */
/* Makes keys and sorts them; see sort_keys.h. */
#include "sort_keys.h"

#include <string.h>

/* Up to this length insertion sort is faster than counting. */
#define SHORT_SORT 48

/* ---- Keys ------------------------------------------------------------------------------------------ */

/* Without branches, so that loops vectorise. */
static inline uint32_t key_of_float(float x)
{
    uint32_t bits;
    x += 0.0f; /* -0 becomes 0 */
    memcpy(&bits, &x, sizeof bits);
    bits ^= (uint32_t)((int32_t)bits >> 31) | 0x80000000u;
    return x != x ? UINT32_MAX : bits;
}

static inline uint64_t key_of_double(double x)
{
    uint64_t bits;
    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    bits ^= (uint64_t)((int64_t)bits >> 63) | UINT64_C(1) << 63;
    return x != x ? UINT64_MAX : bits;
}

/* Keys of elements [first, first + n), at most CPU_CHUNK. */
static void chunk_keys(uint64_t *restrict keys, const cpu_line *line, int64_t first, int64_t n)
{
    cpu_buffer dense, raw;
    int32_t slot = line->slot, hub = cpu_exact_hub(slot);
    const float *narrow = (const float *)(const void *)dense.bytes;
    const double *wide = (const double *)(const void *)dense.bytes;
    const uint64_t *whole = (const uint64_t *)(const void *)dense.bytes;
    cpu_gather(dense.bytes, hub, (const char *)line->from + first * line->stride, slot, line->stride, n,
               raw.bytes);
    if (hub == CPU_F32) {
        uint32_t turn = line->descending ? UINT32_MAX : 0;
        for (int64_t i = 0; i < n; i++) keys[i] = key_of_float(narrow[i]) ^ turn;
        return;
    }
    uint64_t turn = line->descending ? UINT64_MAX : 0;
    /* uint64 elements are their own keys. */
    uint64_t sign = slot == CPU_U64 ? turn : turn ^ UINT64_C(1) << 63;
    if (hub == CPU_F64)
        for (int64_t i = 0; i < n; i++) keys[i] = key_of_double(wide[i]) ^ turn;
    else
        for (int64_t i = 0; i < n; i++) keys[i] = whole[i] ^ sign;
}

void cpu_keys(cpu_keyed *out, const void *from, int32_t slot, int64_t stride, int64_t n, int32_t descending)
{
    uint64_t keys[CPU_CHUNK];
    cpu_line line = {.from = from, .slot = slot, .descending = descending, .stride = stride, .n = n};
    for (int64_t i = 0; i < n; i += CPU_CHUNK) {
        int64_t m = n - i < CPU_CHUNK ? n - i : CPU_CHUNK;
        chunk_keys(keys, &line, i, m);
        for (int64_t k = 0; k < m; k++) out[i + k] = (cpu_keyed){keys[k], i + k};
    }
}

/* ---- Selection --------------------------------------------------------------------------------------- */

/* Up to this many elements are kept in order while the line is read. */
#define FEW 16

/* The k-th smallest of n keys, found byte by byte from the highest that differs; overwrites the array. */
static uint64_t kth_key(uint64_t *keys, int64_t n, int64_t k)
{
    uint64_t differ = 0;
    for (int64_t i = 1; i < n; i++) differ |= keys[i] ^ keys[0];
    for (int shift = 56; shift >= 0 && n > 1; shift -= 8) {
        int64_t counts[256], left = 0, v = 0;
        if (!(differ >> shift & 255)) continue;
        memset(counts, 0, sizeof counts);
        for (int64_t i = 0; i < n; i++) counts[keys[i] >> shift & 255]++;
        for (; k >= counts[v]; v++) k -= counts[v];
        for (int64_t i = 0; i < n; i++) {
            keys[left] = keys[i];
            left += (int64_t)(keys[i] >> shift & 255) == v;
        }
        n = left;
    }
    return keys[0];
}

/* Keeps the k smallest items in their present order and returns their largest key. */
static uint64_t keep_least(cpu_keyed *items, uint64_t *room, int64_t n, int64_t k)
{
    int64_t left = 0, equal = k;
    for (int64_t i = 0; i < n; i++) room[i] = items[i].key;
    uint64_t bound = kth_key(room, n, k - 1);
    for (int64_t i = 0; i < n; i++) equal -= items[i].key < bound;
    for (int64_t i = 0; i < n; i++) {
        int32_t take = items[i].key < bound || (items[i].key == bound && equal-- > 0);
        items[left] = items[i];
        left += take;
    }
    return bound;
}

cpu_keyed cpu_kth(const cpu_keyed *items, uint64_t *room, int64_t n, int64_t k)
{
    int64_t i = 0;
    for (int64_t j = 0; j < n; j++) room[j] = items[j].key;
    uint64_t key = kth_key(room, n, k);
    for (int64_t j = 0; j < n; j++) k -= items[j].key < key;
    for (; items[i].key != key || k-- > 0; i++) {
    }
    return items[i];
}

int64_t cpu_least_room(int64_t n, int64_t k)
{
    return n < 2 * k + CPU_CHUNK ? n : 2 * k + CPU_CHUNK;
}

/* Inserts an item into the ordered list of the smallest so far. */
static int64_t insert_ordered(cpu_keyed *items, int64_t held, int64_t k, cpu_keyed x)
{
    int64_t i = held < k ? held : k - 1;
    for (; i > 0 && items[i - 1].key > x.key; i--) items[i] = items[i - 1];
    items[i] = x;
    return held < k ? held + 1 : k;
}

/* The smallest items so far. Elements arrive by position, so kept ones win over equal later ones: once k
 * are kept, only keys below the largest of them matter. */
typedef struct least {
    cpu_keyed *items;
    uint64_t *room, bound;
    int64_t k, held, capacity;
    int32_t bounded;
} least;

/* Either an ordered list, or a list that is cut to k items when it is full. */
static void enter_item(least *found, cpu_keyed x)
{
    if (found->k <= FEW) {
        found->held = insert_ordered(found->items, found->held, found->k, x);
        found->bounded = found->held == found->k;
        found->bound = found->items[found->held - 1].key;
        return;
    }
    found->items[found->held++] = x;
    if (found->held < found->capacity) return;
    found->bound = keep_least(found->items, found->room, found->held, found->k);
    found->held = found->k;
    found->bounded = 1;
}

void cpu_least(cpu_keyed *items, cpu_keyed *other, const cpu_line *line, int64_t k)
{
    uint64_t keys[CPU_CHUNK];
    least found = {
        .items = items, .room = (uint64_t *)(void *)other, .k = k, .capacity = cpu_least_room(line->n, k)};
    for (int64_t i = 0; i < line->n; i += CPU_CHUNK) {
        int64_t m = line->n - i < CPU_CHUNK ? line->n - i : CPU_CHUNK;
        chunk_keys(keys, line, i, m);
        for (int64_t j = 0; j < m; j++)
            if (!found.bounded || keys[j] < found.bound) enter_item(&found, (cpu_keyed){keys[j], i + j});
    }
    if (k <= FEW) return;
    if (found.held > k) keep_least(items, found.room, found.held, k);
    cpu_sort_keyed(items, other, k);
}

/* ---- Sort ------------------------------------------------------------------------------------------ */

static void insertion_sort(cpu_keyed *items, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        cpu_keyed x = items[i];
        int64_t k = i;
        for (; k > 0 && items[k - 1].key > x.key; k--) items[k] = items[k - 1];
        items[k] = x;
    }
}

/* Radix sort from the least significant byte on, in stable passes; bytes that all keys share are skipped. */
static void radix_sort(cpu_keyed *items, cpu_keyed *other, int64_t n)
{
    int64_t counts[8][256];
    cpu_keyed *from = items, *to = other;
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < 8; b++) counts[b][items[i].key >> (8 * b) & 255]++;
    for (int b = 0; b < 8; b++) {
        int64_t at = 0;
        if (counts[b][items[0].key >> (8 * b) & 255] == n) continue;
        for (int v = 0; v < 256; v++) {
            int64_t count = counts[b][v];
            counts[b][v] = at;
            at += count;
        }
        for (int64_t i = 0; i < n; i++) to[counts[b][from[i].key >> (8 * b) & 255]++] = from[i];
        cpu_keyed *swap = from;
        from = to;
        to = swap;
    }
    if (from != items) memcpy(items, from, (size_t)n * sizeof *items);
}

void cpu_sort_keyed(cpu_keyed *items, cpu_keyed *other, int64_t n)
{
    if (n <= SHORT_SORT)
        insertion_sort(items, n);
    else
        radix_sort(items, other, n);
}
