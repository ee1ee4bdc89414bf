/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the lists of allowed libraries; see allow.h. */
#include "dispatcher/plugin/allow.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <tenon/base.h>
#include <unistd.h>
#include "plugin/paths.h" /* made by the build */
#include "dispatcher/plugin/sha256.h"
#include "dispatcher/plugin/trust.h"

#define HASH_BYTES (TNI_SHA256_TEXT_BYTES - 1)

/* 1: the list has the hash, 0: not. */
static int32_t has_hash(FILE *list, const char *hash)
{
    char line[PATH_MAX + 2 * HASH_BYTES];
    while (fgets(line, sizeof(line), list)) {
        if (strncasecmp(line, hash, HASH_BYTES) == 0 && strchr(" \t\r\n", line[HASH_BYTES])) return 1;
        while (!strchr(line, '\n') && fgets(line, sizeof(line), list)) continue; /* the rest of a long line */
    }
    return 0;
}

/* Checks one list. `optional`: the list may be missing. */
static int32_t check_list(const char *path, int32_t optional, int library, const char *name, char *hash,
                          tni_reason *reason)
{
    struct stat file;
    FILE *list = fopen(path, "re");
    if (!list && optional && (errno == ENOENT || errno == ENOTDIR)) return TN_OK;
    if (!list || fstat(fileno(list), &file) != 0 || !S_ISREG(file.st_mode)) {
        int32_t status = tni_reason_set(reason, TN_E_STATE,
                                        "refused: the list of allowed libraries '%s' cannot be read: %s",
                                        path, list ? "not a regular file" : strerror(errno));
        if (list) fclose(list);
        return status;
    }
    int32_t status = tni_trust_check(path, &file, reason);
    if (status == TN_OK && !hash[0] && !tni_sha256_file(library, hash))
        status = tni_reason_set(reason, TN_E_IO, "cannot read '%s': %s", name, strerror(errno));
    if (status == TN_OK && !has_hash(list, hash))
        status = tni_reason_set(reason, TN_E_STATE, "refused: '%s' allows no library with the SHA-256 %s",
                                path, hash);
    fclose(list);
    return status;
}

int32_t tni_allow_check(int fd, const char *library, tni_reason *reason)
{
    char path[PATH_MAX + 32], hash[TNI_SHA256_TEXT_BYTES] = "";
    const char *own = secure_getenv("TENON_PLUGIN_ALLOW");
    int32_t status = check_list(TNI_ALLOW_FILE, 1, fd, library, hash, reason);
    char *slash = strrchr(tni_library_path(path, PATH_MAX), '/');
    if (status == TN_OK && slash) {
        strcpy(slash, "/tenon/plugins.allow");
        status = check_list(path, 1, fd, library, hash, reason);
    }
    if (status == TN_OK && own && *own) status = check_list(own, 0, fd, library, hash, reason);
    return status;
}
