/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that replaces another as a whole. Until all of it is on the disk it has no name, where the file system can do that
 * (O_TMPFILE). Then, or else from the beginning, it is .tenon-NUMBERS.tmp in the same folder. It gets the mode of the file that
 * it replaces, and where the process may, its owner and group. A link stays one: the file that it leads to is replaced, or made.
 *
 * Must know nothing of Tenon: libtenon-train compiles this part, too. Functions return 0 or a number of errno.
 */
#ifndef TNI_REPLACEMENT_H
#define TNI_REPLACEMENT_H

#include <limits.h>
#include <stdint.h>

typedef struct tni_replacement {
    int descriptor; /* what is written to */
    int folder;     /* of the file: it may be renamed, and the process may change to another one */
    char name[NAME_MAX + 1];
    char temporary[48]; /* its name until the end; "": it has none yet */
} tni_replacement;

/* 1 if something other than a file is there, such as a folder or a device, which cannot be replaced. */
int32_t tni_is_special_file(const char *path);
/* The path of the file that links lead to, which need not be there. */
int32_t tni_follow_links(const char *path, char out[PATH_MAX]);
/* Opens the new file. After a failure there is no end. */
int32_t tni_replacement_begin(tni_replacement *r, const char *path);
/* Puts the new file in the place of the old one; or, if it is not good or cannot be kept, removes it. */
int32_t tni_replacement_end(tni_replacement *r, int32_t is_good);
/* Makes `path` an empty file with mode, owner and group of the file `like`; does nothing if that is not there. */
int32_t tni_file_like(const char *path, const char *like);

#endif
