/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code of a module for a device. Modules are built for all devices; how float32 is computed is added here, since devices
 * support different modes. Without a mode a driver may take any: assume that there is no NaN, flush denormals, round up.
 */
#include "vulkan.h"

#include <stdlib.h>

/* The SPIR-V that is looked at or made, which is a word with the length and the opcode in front of the operands. */
enum {
    HEADER = 5, /* words */
    OP_ENTRY_POINT = 15,
    OP_EXECUTION_MODE = 4 << 16 | 16,
    OP_CAPABILITY = 2 << 16 | 17,
    OP_DECORATE = 3 << 16 | 71,
    NO_CONTRACTION = 42
};

typedef struct float_mode {
    uint32_t bit, mode, capability;
} float_mode;
static const float_mode modes[] = {{VULKAN_KEEPS_SPECIALS, 4461, 4466},  /* SignedZeroInfNanPreserve */
                                   {VULKAN_KEEPS_DENORMALS, 4459, 4464}, /* DenormPreserve */
                                   {VULKAN_ROUNDS_TO_EVEN, 4462, 4467}}; /* RoundingModeRTE */
enum { MODES = sizeof modes / sizeof *modes, MODE_WORDS = 2 + 4 };

/* Drivers may round less often, and reorder: takes out what forbids it, and returns how many words are left. */
static uint32_t allow_contraction(uint32_t *words, uint32_t n)
{
    uint32_t left = HEADER;
    for (uint32_t at = HEADER, length; at < n; at += length) {
        length = words[at] >> 16;
        if (words[at] == OP_DECORATE && words[at + 2] == NO_CONTRACTION) continue;
        memmove(words + left, words + at, length * sizeof *words);
        left += length;
    }
    return left;
}

/* Where the one entry point is. Behind it execution modes begin. */
static uint32_t find_entry(const uint32_t *words)
{
    uint32_t at = HEADER;
    while ((words[at] & 0xffff) != OP_ENTRY_POINT) at += words[at] >> 16;
    return at;
}

uint32_t *vulkan_shader_words(const vulkan_device *d, const vulkan_module *m, int32_t is_fast,
                              uint32_t *out_count)
{
    const uint32_t *from = m->words;
    uint32_t n = m->bytes / 4, at = HEADER, entry = find_entry(from), behind = entry + (from[entry] >> 16);
    uint32_t *words = malloc((n + MODES * MODE_WORDS) * sizeof *words);
    if (!words) return NULL;
    memcpy(words, from, HEADER * sizeof *words);
    for (uint32_t i = 0; i < MODES; i++) {
        if (!(d->float_modes & modes[i].bit)) continue;
        words[at++] = OP_CAPABILITY;
        words[at++] = modes[i].capability;
    }
    memcpy(words + at, from + HEADER, (behind - HEADER) * sizeof *words);
    at += behind - HEADER;
    for (uint32_t i = 0; i < MODES; i++) {
        if (!(d->float_modes & modes[i].bit)) continue;
        words[at++] = OP_EXECUTION_MODE;
        words[at++] = from[entry + 2];
        words[at++] = modes[i].mode;
        words[at++] = 32;
    }
    memcpy(words + at, from + behind, (n - behind) * sizeof *words);
    at += n - behind;
    *out_count = is_fast ? allow_contraction(words, at) : at;
    return words;
}
