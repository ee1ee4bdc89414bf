/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled programs in the user's cache folder: $XDG_CACHE_HOME/tenon/plugins/TYPE, else
 * $HOME/.cache/tenon/plugins/TYPE. A file is named after a hash of all that the program was made from, and begins
 * with a second hash of the same, so that a file of another program is not taken for it. Whatever goes wrong, the
 * program is compiled again.
 */
#include "gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define GPU_CACHE_LIMIT ((size_t)256 << 20) /* no program is larger */

/* FNV-1a, started from `seed`. */
static uint64_t hash(uint64_t seed, const char *text)
{
    uint64_t h = 14695981039346656037u ^ seed;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

/* Makes the folders of a path, each for this user alone. */
static int32_t make_folders(char *path)
{
    for (char *at = path + 1;; at++) {
        if (*at && *at != '/') continue;
        char end = *at;
        *at = 0;
        int32_t failed = mkdir(path, 0700) != 0 && errno != EEXIST;
        *at = end;
        if (failed) return 0;
        if (!end) return 1;
    }
}

/* 0 if there is no folder. */
static int32_t folder(const char *type, char *out, size_t bytes)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct stat s;
    int n = cache && *cache == '/' ? snprintf(out, bytes, "%s/tenon/plugins/%s", cache, type)
            : home && *home == '/' ? snprintf(out, bytes, "%s/.cache/tenon/plugins/%s", home, type)
                                   : -1;
    if (n < 0 || (size_t)n >= bytes || !make_folders(out)) return 0;
    /* Code that another user could have written is not loaded. */
    return stat(out, &s) == 0 && s.st_uid == geteuid() && !(s.st_mode & (S_IWGRP | S_IWOTH));
}

static int32_t file_of(const char *type, const char *key, const char *source, char *out, size_t bytes)
{
    char path[3500];
    if (!folder(type, path, sizeof path)) return 0;
    int n = snprintf(out, bytes, "%s/%016llx%016llx.bin", path, (unsigned long long)hash(0, key),
                     (unsigned long long)hash(0, source));
    return n > 0 && (size_t)n < bytes;
}

typedef struct header {
    char magic[8];
    uint64_t key;
    uint64_t source;
    uint64_t size;
} header;

static header header_of(const char *key, const char *source, size_t size)
{
    return (header){"TNGPU01", hash(1, key), hash(1, source), size};
}

void gpu_cache_read(const char *type, const char *key, const char *source, gpu_binary *out)
{
    char path[4096];
    header found, expected;
    *out = (gpu_binary){0};
    if (!file_of(type, key, source, path, sizeof path)) return;
    FILE *file = fopen(path, "rbe");
    if (!file) return;
    if (fread(&found, sizeof found, 1, file) == 1 && found.size && found.size <= GPU_CACHE_LIMIT) {
        expected = header_of(key, source, (size_t)found.size);
        out->bytes = memcmp(&found, &expected, sizeof found) == 0 ? malloc((size_t)found.size) : NULL;
        out->size = (size_t)found.size;
        if (out->bytes && (fread(out->bytes, 1, out->size, file) != out->size || fgetc(file) != EOF)) {
            free(out->bytes);
            out->bytes = NULL;
        }
    }
    fclose(file);
}

void gpu_cache_write(const char *type, const char *key, const char *source, const gpu_binary *binary)
{
    char path[4096], made[4200];
    header h = header_of(key, source, binary->size);
    if (binary->size > GPU_CACHE_LIMIT || !file_of(type, key, source, path, sizeof path)) return;
    snprintf(made, sizeof made, "%s.XXXXXX", path);
    int fd = mkstemp(made);
    if (fd < 0) return;
    int32_t written = write(fd, &h, sizeof h) == (ssize_t)sizeof h &&
                      write(fd, binary->bytes, binary->size) == (ssize_t)binary->size;
    if (close(fd) != 0 || !written || rename(made, path) != 0) unlink(made);
}
