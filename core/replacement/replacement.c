/* SPDX-License-Identifier: Apache-2.0 */
/* Files that replace others as a whole; see replacement.h. */
#include "replacement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MOST_LINKS 40 /* as the kernel follows */
#define TRIES      100
#define PRIVATE    0600 /* until the file has the mode of the old one */
#define FOR_ALL    0666 /* less the umask */

/* ---- Paths --------------------------------------------------------------------------------------------- */

int32_t tni_is_special_file(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 && !S_ISREG(there.st_mode);
}

/* Of the folder's part of a path, with the last slash. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

int32_t tni_follow_links(const char *path, char out[PATH_MAX])
{
    char link[PATH_MAX];
    if (strlen(path) >= PATH_MAX) return ENAMETOOLONG;
    strcpy(out, path);
    for (int32_t links = 0;; links++) {
        ssize_t n = readlink(out, link, sizeof link);
        if (n < 0) return errno == EINVAL || errno == ENOENT ? 0 : errno; /* no link, or nothing is there */
        size_t folder = n > 0 && link[0] == '/' ? 0 : folder_length(out);
        if (folder + (size_t)n >= PATH_MAX) return ENAMETOOLONG;
        if (links == MOST_LINKS) return ELOOP;
        memcpy(out + folder, link, (size_t)n);
        out[folder + (size_t)n] = 0;
    }
}

/* Opens the folder and keeps the name in it. */
static int32_t enter_folder(tni_replacement *r, const char *path)
{
    char folder[PATH_MAX];
    int32_t failed = tni_follow_links(path, folder);
    if (failed) return failed;
    size_t length = folder_length(folder);
    const char *name = folder + length;
    if (!*name) return length ? EISDIR : ENOENT;
    if (strlen(name) > NAME_MAX) return ENAMETOOLONG;
    strcpy(r->name, name);
    folder[length] = 0;
    r->folder = open(length ? folder : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return r->folder < 0 ? errno : 0;
}

/* ---- Modes --------------------------------------------------------------------------------------------- */

/* Gives a new file mode, owner and group of the old one. Where the group cannot be kept, the new one may do no more than all
 * others. A file system without modes keeps its own. */
static void inherit(int descriptor, const struct stat *old)
{
    struct stat now;
    mode_t mode = old->st_mode & 0777;
    int32_t is_same = fstat(descriptor, &now) == 0 && now.st_uid == old->st_uid && now.st_gid == old->st_gid;
    if (!is_same && fchown(descriptor, old->st_uid, old->st_gid) != 0 &&
        fchown(descriptor, (uid_t)-1, old->st_gid) != 0)
        mode = (mode & 0707) | (mode & 07) << 3;
    (void)fchmod(descriptor, mode);
}

int32_t tni_file_like(const char *path, const char *like)
{
    struct stat old;
    if (stat(like, &old) != 0 || !S_ISREG(old.st_mode)) return 0;
    if (unlink(path) != 0 && errno != ENOENT) return errno;
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, PRIVATE);
    if (descriptor < 0) return errno;
    inherit(descriptor, &old);
    close(descriptor);
    return 0;
}

/* ---- New files ----------------------------------------------------------------------------------------- */

/* Short, since the name of the file may be as long as names can be. */
static void make_name(tni_replacement *r, uint32_t tries)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(r->temporary, sizeof r->temporary, ".tenon-%ld-%lx.tmp", (long)getpid(),
             (unsigned long)now.tv_nsec + tries);
}

static int32_t open_named(tni_replacement *r, mode_t mode)
{
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        make_name(r, tries);
        r->descriptor = openat(r->folder, r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (r->descriptor >= 0) return 0;
        if (errno != EEXIST) break;
    }
    return errno;
}

/* The name by which link_name finds a file without one. */
static void name_of_descriptor(int descriptor, char name[40])
{
    snprintf(name, 40, "/proc/self/fd/%d", descriptor);
}

/* 1: a file without a name is open. Some kernels before 5.19 do not apply the umask to it, which gives FOR_ALL; without
 * /proc it would get no name at the end. */
static int32_t open_nameless(tni_replacement *r, mode_t mode)
{
    char name[40];
    struct stat own, seen;
    int descriptor = openat(r->folder, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, mode);
    if (descriptor < 0) return 0;
    name_of_descriptor(descriptor, name);
    if (fstat(descriptor, &own) == 0 && (own.st_mode & 0777) != FOR_ALL && stat(name, &seen) == 0 &&
        seen.st_dev == own.st_dev && seen.st_ino == own.st_ino) {
        r->descriptor = descriptor;
        r->temporary[0] = 0;
        return 1;
    }
    close(descriptor);
    return 0;
}

int32_t tni_replacement_begin(tni_replacement *r, const char *path)
{
    struct stat old;
    int32_t failed = enter_folder(r, path);
    if (failed) return failed;
    int32_t is_old = fstatat(r->folder, r->name, &old, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(old.st_mode);
    mode_t mode = is_old ? PRIVATE : FOR_ALL;
    failed = open_nameless(r, mode) ? 0 : open_named(r, mode);
    if (failed)
        close(r->folder);
    else if (is_old)
        inherit(r->descriptor, &old);
    return failed;
}

/* ---- The end ------------------------------------------------------------------------------------------- */

/* Copies the file to one with a name, on the disk. */
static int32_t copy_to_named(tni_replacement *r)
{
    struct stat own;
    off_t at = 0;
    ssize_t n = 1;
    int from = r->descriptor;
    int32_t failed = fstat(from, &own) ? errno : open_named(r, PRIVATE);
    if (failed) {
        r->descriptor = from;
        r->temporary[0] = 0;
        return failed;
    }
    inherit(r->descriptor, &own);
    while (n > 0 || (n < 0 && errno == EINTR)) n = sendfile(r->descriptor, from, &at, 1 << 30);
    if (n < 0 || fsync(r->descriptor)) failed = errno;
    close(from);
    return failed;
}

/* Gives the file its temporary name, since a link cannot replace another file. Where programs may not link files, it is copied. */
static int32_t link_name(tni_replacement *r)
{
    char name[40];
    name_of_descriptor(r->descriptor, name);
    for (uint32_t tries = 0; tries < TRIES; tries++) {
        make_name(r, tries);
        if (linkat(AT_FDCWD, name, r->folder, r->temporary, AT_SYMLINK_FOLLOW) == 0) return 0;
        if (errno != EEXIST) break;
    }
    return copy_to_named(r);
}

/* The folder's entry must reach the disk, too. File systems that cannot do it lose nothing. */
static void sync_folder(const tni_replacement *r)
{
    int descriptor = openat(r->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    (void)fsync(descriptor);
    close(descriptor);
}

int32_t tni_replacement_end(tni_replacement *r, int32_t is_good)
{
    int32_t failed = is_good && fsync(r->descriptor) ? errno : 0;
    if (is_good && !failed && !r->temporary[0]) failed = link_name(r);
    if (close(r->descriptor) && !failed) failed = errno;
    if (is_good && !failed && renameat(r->folder, r->temporary, r->folder, r->name)) failed = errno;
    if (is_good && !failed)
        sync_folder(r);
    else if (r->temporary[0])
        unlinkat(r->folder, r->temporary, 0);
    close(r->folder);
    return failed;
}
