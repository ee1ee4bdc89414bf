/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Philox-4x32-10 as Salmon et al. define it ("Parallel random numbers: as easy as 1, 2, 3", 2011): the
 * reference that tests compare devices with. Which element gets which bits is said in tenon/random.h.
 */
#ifndef TNI_CORE_PHILOX_H
#define TNI_CORE_PHILOX_H

#include <stdint.h>

/* The four words of counter {c0, c1, c2, c3} under key {k0, k1}. */
static inline void tni_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u; /* the golden ratio */
        k1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Counter `c` of a generator's stream. */
static inline void tni_philox_words(uint64_t seed, uint64_t c, uint32_t out[4])
{
    const uint32_t counter[4] = {(uint32_t)c, (uint32_t)(c >> 32), 0, 0};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    tni_philox(counter, key, out);
}

#endif
