/* SPDX-License-Identifier: Apache-2.0 */
/* Files of verdicts; see verdict.h. */
#include "dispatcher/plugin/verdict.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/base.h>
#include <unistd.h>
#include "dispatcher/plugin/sha256.h"
#include "dispatcher/plugin/trust.h"

#define READ_BYTES 65536
#define OK_TEXT    "ok"
#define BAD_TEXT   "bad "

/* Makes the folder, each part 0700; 0 when there is no place for it. */
static int32_t cache_folder(char *folder, size_t bytes)
{
    const char *root = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME"), *below = "";
    if (!root || root[0] != '/') {
        root = home;
        below = "/.cache";
    }
    if (!root || root[0] != '/') return 0;
    if ((size_t)snprintf(folder, bytes, "%s%s/tenon/probe", root, below) >= bytes) return 0;
    for (char *slash = folder + strlen(root); slash; slash = strchr(slash + 1, '/')) {
        if (*slash != '/') break;
        *slash = 0;
        int failed = folder[0] && mkdir(folder, 0700) != 0 && errno != EEXIST;
        *slash = '/';
        if (failed) return 0;
    }
    return mkdir(folder, 0700) == 0 || errno == EEXIST;
}

/* Of the library and of what probes it: another version of the host may judge otherwise. */
static int32_t hash_file(const char *path, char text[TNI_SHA256_TEXT_BYTES])
{
    static const char host[] = "tenon probe, generation 1, version 1";
    char buffer[READ_BYTES];
    tni_sha256 h;
    ssize_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    tni_sha256_init(&h);
    tni_sha256_add(&h, host, sizeof(host));
    do {
        n = read(fd, buffer, sizeof(buffer));
        if (n > 0) tni_sha256_add(&h, buffer, (size_t)n);
    } while (n > 0 || (n < 0 && errno == EINTR));
    close(fd);
    tni_sha256_text(&h, text);
    return n == 0;
}

void tni_verdict_locate(const char *library, tni_verdict *verdict)
{
    char folder[PATH_MAX], hash[TNI_SHA256_TEXT_BYTES];
    verdict->path[0] = 0;
    if (!cache_folder(folder, sizeof(folder)) || !hash_file(library, hash)) return;
    if ((size_t)snprintf(verdict->path, sizeof(verdict->path), "%s/%s", folder, hash) >=
        sizeof(verdict->path))
        verdict->path[0] = 0;
}

int32_t tni_verdict_read(const tni_verdict *verdict, int32_t *status, tni_reason *reason)
{
    char text[TNI_REASON_BYTES / 2] = "";
    struct stat file;
    tni_reason ignored;
    int fd = verdict->path[0] ? open(verdict->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0) return 0;
    int32_t sound = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
                    tni_trust_check(verdict->path, &file, &ignored) == TN_OK;
    ssize_t n = sound ? read(fd, text, sizeof(text) - 1) : -1;
    close(fd);
    if (n < 0) return 0;
    text[n] = 0;
    if (strcmp(text, OK_TEXT) == 0) {
        *status = TN_OK;
        return 1;
    }
    if (strncmp(text, BAD_TEXT, strlen(BAD_TEXT)) != 0) return 0;
    *status = tni_reason_set(reason, TN_E_CONTRACT, "%s (remembered; TENON_PLUGIN_PROBE=always asks again)",
                             text + strlen(BAD_TEXT));
    return 1;
}

void tni_verdict_write(const tni_verdict *verdict, int32_t status, const tni_reason *reason)
{
    char temporary[PATH_MAX + 16], text[TNI_REASON_BYTES / 2];
    if (!verdict->path[0] || (status != TN_OK && status != TN_E_CONTRACT)) return;
    int length = status == TN_OK ? snprintf(text, sizeof(text), OK_TEXT)
                                 : snprintf(text, sizeof(text), BAD_TEXT "%.400s", reason->text);
    snprintf(temporary, sizeof(temporary), "%s.XXXXXX", verdict->path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) return;
    int32_t written = write(fd, text, (size_t)length) == length;
    if (close(fd) != 0 || !written || rename(temporary, verdict->path) != 0) unlink(temporary);
}
