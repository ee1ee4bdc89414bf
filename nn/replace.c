/* SPDX-License-Identifier: Apache-2.0 */
/* Files that replace others as a whole, as streams of C; a copy of the core's part does the work. */
#include <tenon/program.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "replacement.h"

/* A stream with a descriptor of its own, so that closing it leaves the other one. */
static FILE *open_stream(int descriptor)
{
    int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    FILE *stream = own < 0 ? NULL : fdopen(own, "wb");
    if (!stream && own >= 0) close(own);
    return stream;
}

int32_t tn_replace_begin(tn_replacement *r, const char *path)
{
    *r = (tn_replacement){0};
    if (!path) return EINVAL;
    if (tni_is_special_file(path)) {
        r->to = fopen(path, "wbe");
        return r->to ? 0 : errno;
    }
    tni_replacement *file = malloc(sizeof *file);
    int32_t why = file ? tni_replacement_begin(file, path) : ENOMEM;
    if (!why && !(r->to = open_stream(file->descriptor))) {
        why = errno;
        (void)tni_replacement_end(file, 0);
    }
    if (why)
        free(file);
    else
        r->file = file;
    return why;
}

int32_t tn_replace_end(tn_replacement *r, int32_t is_good)
{
    if (!r->to) return EIO;
    int32_t failed = !is_good || fflush(r->to) || ferror(r->to), why = failed ? errno : 0;
    if (fclose(r->to) && !failed) failed = 1, why = errno;
    const int32_t end = r->file ? tni_replacement_end(r->file, !failed) : 0;
    free(r->file);
    *r = (tn_replacement){0};
    if (!failed) return end;
    return why ? why : EIO;
}
