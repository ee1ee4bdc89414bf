/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled programs in the folder that the host gives for them. A file is named after a hash of all that the program
 * was made from, and begins with a second hash of the same, so that a file of another program is not taken for it.
 * Whatever goes wrong, the program is compiled again.
 */
#include "gpu.h"

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

void gpu_cache_find(gpu_plugin *plugin)
{
    const tn_host *host = plugin->host;
    struct stat s;
    char *folder = plugin->cache_folder;
    /* Code that another user could have written is not loaded. */
    if (host->cache_folder(host->context, gpu_the_driver.type, folder, sizeof plugin->cache_folder) !=
            TN_OK ||
        stat(folder, &s) != 0 || s.st_uid != geteuid() || s.st_mode & (S_IWGRP | S_IWOTH))
        folder[0] = 0;
}

static int32_t file_of(const char *folder, const char *key, const char *source, char *out, size_t bytes)
{
    int n = snprintf(out, bytes, "%s/%016llx%016llx.bin", folder, (unsigned long long)hash(0, key),
                     (unsigned long long)hash(0, source));
    return folder[0] && n > 0 && (size_t)n < bytes;
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

void gpu_cache_read(const char *folder, const char *key, const char *source, gpu_binary *out)
{
    char path[4096];
    header found, expected;
    *out = (gpu_binary){0};
    if (!file_of(folder, key, source, path, sizeof path)) return;
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

void gpu_cache_write(const char *folder, const char *key, const char *source, const gpu_binary *binary)
{
    char path[4096], made[4200];
    header h = header_of(key, source, binary->size);
    if (binary->size > GPU_CACHE_LIMIT || !file_of(folder, key, source, path, sizeof path)) return;
    snprintf(made, sizeof made, "%s.XXXXXX", path);
    int fd = mkstemp(made);
    if (fd < 0) return;
    int32_t written = write(fd, &h, sizeof h) == (ssize_t)sizeof h &&
                      write(fd, binary->bytes, binary->size) == (ssize_t)binary->size;
    if (close(fd) != 0 || !written || rename(made, path) != 0) unlink(made);
}
