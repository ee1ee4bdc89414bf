/* SPDX-License-Identifier: Apache-2.0 */
/* Owners and permissions of plugin files; the rule is in trust.h. */
#include "dispatcher/plugin/trust.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The path of the mapping of an address. dladdr gives the path that the loader got, which may be relative. */
static int32_t path_from_maps(const void *address, char *buffer, size_t bytes)
{
    char line[PATH_MAX + 128];
    int32_t found = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps) return 0;
    while (!found && fgets(line, sizeof(line), maps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx", &start, &end) != 2) continue;
        char *path = strchr(line, '/');
        if (!path || (uintptr_t)address < start || (uintptr_t)address >= end) continue;
        path[strcspn(path, "\n")] = 0;
        found = (size_t)snprintf(buffer, bytes, "%s", path) < bytes;
    }
    fclose(maps);
    return found;
}

const char *tni_library_path(char *buffer, size_t bytes)
{
    static const char here = 0;
    char resolved[PATH_MAX];
    Dl_info info;
    buffer[0] = 0;
    if (dladdr(&here, &info) && info.dli_fname && info.dli_fname[0] == '/' &&
        realpath(info.dli_fname, resolved)) {
        if ((size_t)snprintf(buffer, bytes, "%s", resolved) >= bytes) buffer[0] = 0;
    } else if (!path_from_maps(&here, buffer, bytes)) {
        buffer[0] = 0;
    }
    return buffer;
}

static int32_t is_trusted_owner(uid_t owner)
{
    char path[PATH_MAX];
    struct stat library;
    if (owner == 0 || owner == geteuid()) return 1;
    return stat(tni_library_path(path, sizeof(path)), &library) == 0 && library.st_uid == owner;
}

int32_t tni_trust_check(const char *path, const struct stat *file, tni_reason *reason)
{
    if (!is_trusted_owner(file->st_uid))
        return tni_reason_set(reason, TN_E_STATE,
                              "refused: '%s' belongs to user %lu, neither root nor the user of this process",
                              path, (unsigned long)file->st_uid);
    if (file->st_mode & S_IWOTH)
        return tni_reason_set(reason, TN_E_STATE, "refused: '%s' is writable by everybody (mode %04o)", path,
                              (unsigned)(file->st_mode & 07777));
    if ((file->st_mode & S_IWGRP) && file->st_gid != 0 && file->st_gid != file->st_uid)
        return tni_reason_set(reason, TN_E_STATE, "refused: '%s' is writable by group %lu (mode %04o)", path,
                              (unsigned long)file->st_gid, (unsigned)(file->st_mode & 07777));
    return TN_OK;
}

int32_t tni_trust_check_folder(const char *path, tni_reason *reason)
{
    char folder[PATH_MAX];
    struct stat file;
    const char *slash = strrchr(path, '/');
    size_t length = slash && slash > path ? (size_t)(slash - path) : 1;
    if (!slash || length >= sizeof(folder))
        return tni_reason_set(reason, TN_E_STATE, "refused: '%s' is not an absolute path", path);
    memcpy(folder, path, length);
    folder[length] = 0;
    if (stat(folder, &file) != 0)
        return tni_reason_set(reason, TN_E_IO, "cannot examine the folder '%s': %s", folder, strerror(errno));
    return tni_trust_check(folder, &file, reason);
}
