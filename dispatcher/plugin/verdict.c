/* SPDX-License-Identifier: Apache-2.0 */
/* Files of verdicts; see verdict.h. */
#include "dispatcher/plugin/verdict.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/inspect.h>
#include <time.h>
#include <unistd.h>
#include "dispatcher/plugin/sha256.h"
#include "dispatcher/plugin/trust.h"

/* A file that changed this recently may change again within the resolution of its times. */
#define SETTLED_SECONDS 2
#define FOLDER_BYTES    (PATH_MAX - 128) /* leaves room for the names of the files */
#define OK_TEXT         "ok"
#define BAD_TEXT        "bad "

/* Makes the folder, each part with mode 0700; 0 on failure. */
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
        *slash = 0;
        int failed = mkdir(folder, 0700) != 0 && errno != EEXIST;
        *slash = '/';
        if (failed) return 0;
    }
    return mkdir(folder, 0700) == 0 || errno == EEXIST;
}

/* Hash of the library and of a version of the probe, which may judge differently in later versions. */
static int32_t hash_file(const char *path, char text[TNI_SHA256_TEXT_BYTES])
{
    static const char host[] = "tenon probe, generation 1, version 1";
    tni_sha256 h;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    tni_sha256_init(&h);
    tni_sha256_add(&h, host, sizeof(host));
    int32_t whole = tni_sha256_add_file(&h, fd);
    close(fd);
    tni_sha256_text(&h, text);
    return whole;
}

/* Reads a note; 0 if there is none or others may have written it. */
static int32_t read_note(const char *path, char *text, size_t bytes, struct stat *file)
{
    tni_reason ignored;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return 0;
    int32_t sound =
        fstat(fd, file) == 0 && S_ISREG(file->st_mode) && tni_trust_check(path, file, &ignored) == TN_OK;
    ssize_t n = sound ? read(fd, text, bytes - 1) : -1;
    close(fd);
    if (n >= 0) text[n] = 0;
    return n >= 0;
}

/* Writes atomically. Failures are ignored. */
static void write_note(const char *path, const char *text)
{
    char temporary[PATH_MAX + 16];
    ssize_t length = (ssize_t)strlen(text);
    snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) return;
    int32_t written = write(fd, text, (size_t)length) == length;
    if (close(fd) != 0 || !written || rename(temporary, path) != 0) unlink(temporary);
}

/* The hash of a library: from the note on it, else from its content. */
static int32_t find_hash(const char *folder, const char *library, char hash[TNI_SHA256_TEXT_BYTES])
{
    char note[PATH_MAX];
    struct stat file, ignored;
    if (stat(library, &file) != 0) return 0;
    snprintf(note, sizeof(note), "%s/%llx-%llx-%llx-%llx.%lx-%llx.%lx", folder,
             (unsigned long long)file.st_dev, (unsigned long long)file.st_ino,
             (unsigned long long)file.st_size, (long long)file.st_mtim.tv_sec, file.st_mtim.tv_nsec,
             (long long)file.st_ctim.tv_sec, file.st_ctim.tv_nsec);
    if (read_note(note, hash, TNI_SHA256_TEXT_BYTES, &ignored) && strlen(hash) == TNI_SHA256_TEXT_BYTES - 1)
        return 1;
    if (!hash_file(library, hash)) return 0;
    if (time(NULL) > file.st_ctim.tv_sec + SETTLED_SECONDS) write_note(note, hash);
    return 1;
}

void tni_verdict_locate(const char *library, tni_verdict *verdict)
{
    char folder[FOLDER_BYTES], hash[TNI_SHA256_TEXT_BYTES];
    verdict->path[0] = 0;
    if (!cache_folder(folder, sizeof(folder)) || !find_hash(folder, library, hash)) return;
    snprintf(verdict->path, sizeof(verdict->path), "%s/%s", folder, hash);
}

int32_t tni_verdict_read(const tni_verdict *verdict, int32_t *status, tni_reason *reason)
{
    char text[TNI_REASON_BYTES / 2] = "", when[32];
    struct stat file;
    struct tm utc;
    if (!verdict->path[0] || !read_note(verdict->path, text, sizeof(text), &file)) return 0;
    if (strcmp(text, OK_TEXT) == 0) {
        *status = TN_OK;
        return 1;
    }
    if (strncmp(text, BAD_TEXT, strlen(BAD_TEXT)) != 0) return 0;
    if (!gmtime_r(&file.st_mtime, &utc) || !strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &utc))
        snprintf(when, sizeof(when), "an unknown time");
    *status = tni_reason_set(reason, TN_E_CONTRACT,
                             "%s (probed at %s; 'tenon doctor --forget' deletes the verdict)",
                             text + strlen(BAD_TEXT), when);
    return 1;
}

void tni_verdict_write(const tni_verdict *verdict, int32_t status, const tni_reason *reason)
{
    char text[TNI_REASON_BYTES / 2];
    if (!verdict->path[0] || (status != TN_OK && status != TN_E_CONTRACT)) return;
    if (status == TN_OK)
        snprintf(text, sizeof(text), OK_TEXT);
    else
        snprintf(text, sizeof(text), BAD_TEXT "%.400s", reason->text);
    write_note(verdict->path, text);
}

uint32_t tn_inspect_forget_probes(void)
{
    char folder[FOLDER_BYTES];
    const struct dirent *entry;
    uint32_t verdicts = 0;
    DIR *files = cache_folder(folder, sizeof(folder)) ? opendir(folder) : NULL;
    while (files && (entry = readdir(files))) {
        if (entry->d_name[0] == '.' || unlinkat(dirfd(files), entry->d_name, 0) != 0) continue;
        verdicts += strlen(entry->d_name) == TNI_SHA256_TEXT_BYTES - 1;
    }
    if (files) closedir(files);
    return verdicts;
}
