/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and the sort of order.h. */
#include "order.h"

#include <string.h>

/* Up to here insertion is faster than counting. */
#define SHORT_SORT 48

/* ---- Keys
 * -------------------------------------------------------------------------------------------------------- */

static uint64_t key_of_float(float x)
{
    uint32_t bits;
    if (x != x) return UINT32_MAX;
    x += 0.0f; /* -0 becomes 0 */
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x80000000u ? ~bits & UINT32_MAX : bits | 0x80000000u;
}

static uint64_t key_of_double(double x)
{
    uint64_t bits;
    if (x != x) return UINT64_MAX;
    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

void cpu_keys(cpu_keyed *out, const void *from, int32_t slot, int64_t stride, int64_t n, int32_t descending)
{
    cpu_buffer dense, raw;
    int32_t hub = slot == CPU_F64                                                                ? CPU_F64
                  : slot == CPU_F32 || slot == CPU_F16 || slot == CPU_BF16 || slot >= CPU_E4M3FN ? CPU_F32
                                                                                                 : CPU_I64;
    uint64_t turn = descending ? hub == CPU_F32 ? UINT32_MAX : UINT64_MAX : 0;
    /* Unsigned 64-bit numbers keep their bits, and so their order. */
    uint64_t sign = slot == CPU_U64 ? 0 : UINT64_C(1) << 63;
    for (int64_t i = 0; i < n; i += CPU_CHUNK) {
        int64_t m = n - i < CPU_CHUNK ? n - i : CPU_CHUNK;
        cpu_gather(dense.bytes, hub, (const char *)from + i * stride, slot, stride, m, &raw);
        for (int64_t k = 0; k < m; k++) {
            uint64_t key = hub == CPU_F32   ? key_of_float(((const float *)(const void *)dense.bytes)[k])
                           : hub == CPU_F64 ? key_of_double(((const double *)(const void *)dense.bytes)[k])
                                            : ((const uint64_t *)(const void *)dense.bytes)[k] ^ sign;
            out[i + k] = (cpu_keyed){key ^ turn, i + k};
        }
    }
}

/* ---- Sort
 * -------------------------------------------------------------------------------------------------------- */

static void insertion_sort(cpu_keyed *items, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        cpu_keyed x = items[i];
        int64_t k = i;
        for (; k > 0 && items[k - 1].key > x.key; k--) items[k] = items[k - 1];
        items[k] = x;
    }
}

/* From the least significant byte on, each pass stable; a byte that all keys share needs none. */
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
