/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction set of the kernels: the best that the CPU, the build and TENON_CPU_LEVEL allow. */
#include "cpu.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
static uint32_t level_of_cpu(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CPU_LEVEL_BASE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return CPU_LEVEL_AVX2;
    return CPU_LEVEL_AVX512;
}
#else
static uint32_t level_of_cpu(void)
{
    return CPU_LEVEL_BASE;
}
#endif

static const char *const level_names[] = {
    [CPU_LEVEL_BASE] = "base", [CPU_LEVEL_AVX2] = "avx2", [CPU_LEVEL_AVX512] = "avx512"};

/* The level that TENON_CPU_LEVEL names, the highest if it is not set; CPU_LEVEL_COUNT for another text. */
static uint32_t level_of_environment(void)
{
    const char *text = getenv("TENON_CPU_LEVEL");
    uint32_t level = 0;
    if (!text || !*text) return CPU_LEVEL_AVX512;
    while (level < CPU_LEVEL_COUNT && strcmp(text, level_names[level]) != 0) level++;
    return level;
}

int32_t cpu_level_is_known(void)
{
    return level_of_environment() < CPU_LEVEL_COUNT;
}

static uint32_t chosen_level;

/* Runs before the constructors that fill function tables. */
__attribute__((constructor(101))) static void choose_level(void)
{
    uint32_t level = level_of_cpu(), allowed = level_of_environment();
    if (allowed < level) level = allowed;
#ifndef CPU_HAVE_AVX512
    if (level == CPU_LEVEL_AVX512) level = CPU_LEVEL_AVX2;
#endif
#ifndef CPU_HAVE_AVX2
    if (level == CPU_LEVEL_AVX2) level = CPU_LEVEL_BASE;
#endif
    chosen_level = level;
}

uint32_t cpu_level(void)
{
    return chosen_level;
}
