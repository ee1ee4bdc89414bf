/* SPDX-License-Identifier: Apache-2.0 */
/* Generators and the Philox reference; the words are the known answers published with the algorithm. */
#include <criterion/criterion.h>
#include <tenon/kernel.h>
#include <tenon/random.h>
#include "fake_driver.h"

Test(generator, philox_known_answers)
{
    const struct {
        uint32_t counter[4], key[2], words[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        tn_philox(cases[i].counter, cases[i].key, out);
        cr_assert_arr_eq(out, cases[i].words, sizeof out, "case %d", i);
    }
}

/* Words are taken in order: four elements a counter, or two by the 64-bit rule. */
Test(generator, words_of_elements)
{
    const uint64_t seed = 0x299f31d0a4093822ull, offset = 0x85a308d3243f6a88ull;
    for (uint64_t i = 0; i < 12; i++) {
        uint64_t c = offset + i / 4, wide = offset + i / 2;
        const uint32_t key[] = {0xa4093822, 0x299f31d0};
        uint32_t out[4];
        tn_philox((const uint32_t[]){(uint32_t)c, (uint32_t)(c >> 32), 0, 0}, key, out);
        cr_assert_eq(tn_random_word(seed, offset, i, 0), out[i % 4], "element %d", (int)i);
        uint32_t words[4];
        tn_random_words(seed, c, words);
        cr_assert_arr_eq(words, out, sizeof out, "element %d", (int)i);
        tn_philox((const uint32_t[]){(uint32_t)wide, (uint32_t)(wide >> 32), 0, 0}, key, out);
        cr_assert_eq((uint32_t)tn_random_word(seed, offset, i, 1), out[i % 2 ? 2 : 0], "element %d", (int)i);
        cr_assert_eq(tn_random_word(seed, offset, i, 1) >> 32, out[i % 2 ? 3 : 1], "element %d", (int)i);
    }
    cr_assert_eq(tn_random_word(0, 0, 0, 0), 0x6627e8d5);
    cr_assert_eq(tn_random_word(0, 0, 1, 1), 0x9b00dbd8bc57ac4cull);
}

Test(generator, state)
{
    fake cpu = {0};
    tn_context *ctx = fake_context(&cpu, NULL);
    tn_generator *g = NULL;
    cr_assert_eq(tn_generator_create(ctx, 7, &g), TN_OK);
    uint64_t seed, offset;
    tni_generator_reserve(g, 10, &seed, &offset);
    cr_assert(seed == 7 && offset == 0);
    tni_generator_reserve(g, 5, &seed, &offset);
    cr_assert(seed == 7 && offset == 10);
    tn_generator_state state = {.size = sizeof state};
    tn_generator_get_state(g, &state);
    cr_assert(state.seed == 7 && state.offset == 15 && state.size == sizeof state);
    tn_generator_seed(g, 9);
    tni_generator_reserve(g, 1, &seed, &offset);
    cr_assert(seed == 9 && offset == 0);
    cr_assert_eq(tn_generator_set_state(g, &state), TN_OK);
    tni_generator_reserve(g, 1, &seed, &offset);
    cr_assert(seed == 7 && offset == 15);
    state.size = 0;
    cr_assert_eq(tn_generator_set_state(g, &state), TN_E_ARGUMENT);
    tn_context_destroy(ctx);
    cr_assert_eq(cpu.closed, 0);
    tn_generator_release(g);
    tn_generator_release(NULL);
}

Test(generator, defaults_are_seeded_alike)
{
    fake cpu = {0}, gpu = {.type = "gpu", .count = 2, .device_class = TN_DEVICE_DISCRETE};
    tn_context *ctx = fake_context(&cpu, &gpu);
    uint64_t seed, offset, first;
    tn_generator *g = tn_default_generator(ctx, TN_CPU);
    tni_generator_reserve(g, 3, &first, &offset);
    tn_generator *h = tn_default_generator(ctx, tn_device_parse(ctx, "gpu:1"));
    tni_generator_reserve(h, 3, &seed, &offset);
    cr_assert_eq(seed, first);
    tn_manual_seed(ctx, 123);
    tn_generator *late = tn_default_generator(ctx, tn_device_parse(ctx, "gpu:0"));
    tn_generator *all[] = {g, h, late};
    for (int i = 0; i < 3; i++) {
        tni_generator_reserve(all[i], 1, &seed, &offset);
        cr_assert(seed == 123 && offset == 0);
    }
    cr_assert_eq(tn_default_generator(ctx, TN_CPU), g);
    cr_assert_null(tn_default_generator(ctx, TN_DEVICE(TN_INTERNED_META, 0)));
    tn_context_destroy(ctx);
}
