/* SPDX-License-Identifier: Apache-2.0 */
/* Files that replace others as a whole. */
#include <tenon/program.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int32_t give_up(tn_replacement *r, int32_t why)
{
    free(r->path);
    free(r->other);
    *r = (tn_replacement){0};
    return why ? why : EIO;
}

int32_t tn_replace_begin(tn_replacement *r, const char *path)
{
    struct stat there;
    int32_t is_direct =
        !stat(path, &there) ? !S_ISREG(there.st_mode) : !lstat(path, &there); /* or a link to nothing */
    *r = (tn_replacement){0};
    if (is_direct) {
        r->to = fopen(path, "wbe");
        return r->to ? 0 : errno;
    }
    r->path = realpath(path, NULL);
    if (!r->path && errno == ENOENT) r->path = strdup(path);
    if (!r->path) return give_up(r, errno);
    if (asprintf(&r->other, "%s.%ld.part", r->path, (long)getpid()) < 0) r->other = NULL;
    if (r->other) r->to = fopen(r->other, "wbe");
    return r->to ? 0 : give_up(r, r->other ? errno : ENOMEM);
}

int32_t tn_replace_end(tn_replacement *r, int32_t is_good)
{
    if (!r->to) return give_up(r, EIO);
    int32_t failed = !is_good || fflush(r->to) || ferror(r->to), why = failed ? errno : 0;
    if (!failed && r->other && fsync(fileno(r->to))) failed = 1, why = errno;
    if (fclose(r->to) && !failed) failed = 1, why = errno;
    if (!failed && r->other && rename(r->other, r->path)) failed = 1, why = errno;
    if (failed && r->other) unlink(r->other);
    give_up(r, 0);
    return failed ? why ? why : EIO : 0;
}
