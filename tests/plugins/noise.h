/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in [-1, 1) that look random and are the same each time. */
#ifndef TENON_TESTS_NOISE_H
#define TENON_TESTS_NOISE_H

#include <stdint.h>

static inline uint32_t noise_begin(uint32_t seed)
{
    return seed * 2654435761u + 1u;
}

static inline float noise_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)*state / 2147483648.0f;
}

#endif
