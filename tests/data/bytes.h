/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tests: those that record_files.py wrote, and bytes as a file. */
#ifndef TESTS_DATA_BYTES_H
#define TESTS_DATA_BYTES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tenon/data.h>
#include <unistd.h>

static inline const char *path_of(const char *file)
{
    static char path[4][1024];
    static uint32_t turn;
    const char *folder = getenv("TENON_TEST_FILES");
    snprintf(path[++turn % 4], sizeof path[0], "%s/%s", folder ? folder : "files", file);
    return path[turn % 4];
}

static inline uint8_t *contents(const char *path, size_t *out_size)
{
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    fseek(file, 0, SEEK_END);
    *out_size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*out_size + 1);
    cr_assert_eq(fread(bytes, 1, *out_size, file), *out_size);
    fclose(file);
    return bytes;
}

/* Writes the bytes to a file in memory, the same one each time, and returns its path. */
static inline const char *file_of(const void *bytes, size_t count)
{
    static char path[64];
    static int file = -1;
    if (file < 0) file = memfd_create("tenon_data", MFD_CLOEXEC);
    cr_assert(file >= 0 && ftruncate(file, 0) == 0 && pwrite(file, bytes, count, 0) == (ssize_t)count);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return path;
}
#define FILE_OF(...) file_of((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static inline uint32_t random_below(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % below;
}

/*
 * Changes and cuts the bytes in many ways and reads each result. A failure has a text, and changes as many as `least`
 * fail; every cut fails. `read` returns the status.
 */
static inline void fuzz(const uint8_t *bytes, size_t count, uint32_t rounds, uint32_t least,
                        int32_t (*read)(const uint8_t *bytes, size_t count))
{
    uint8_t *copy = malloc(count + 1);
    uint32_t failed = 0;
    for (uint32_t seed = 1; seed <= rounds; seed++) {
        uint32_t state = seed;
        memcpy(copy, bytes, count);
        for (uint32_t n = 1 + random_below(&state, 6); n > 0; n--)
            copy[random_below(&state, (uint32_t)count)] ^= (uint8_t)(1 + random_below(&state, 255));
        failed += read(copy, count) != TN_OK;
    }
    cr_assert_geq(failed, least, "%u of %u", failed, rounds);
    for (size_t cut = 0; cut + 1 < count; cut += 1 + count / 97)
        cr_assert_neq(read(bytes, cut), TN_OK, "%zu of %zu bytes", cut, count);
    free(copy);
}

#endif
