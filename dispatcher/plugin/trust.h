/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may have written a file that is about to run in this process.
 *
 * A file and the folder it lies in must belong to root, to the user the process runs as, or to the owner of
 * this library (who could have changed the library itself). Neither may be writable by everybody, nor by a
 * group, except the group root and the private group of the owner (the group whose number is the owner's user
 * number, as adduser makes it). A sticky folder, /tmp for one, counts as writable: names in it can be taken
 * before they are used.
 */
#ifndef TNI_PLUGIN_TRUST_H
#define TNI_PLUGIN_TRUST_H

#include <sys/stat.h>
#include "dispatcher/plugin/reason.h"

/* `path` is for the text. TN_E_STATE and a reason when others may write. */
int32_t tni_trust_check(const char *path, const struct stat *file, TN_OUT tni_reason *reason);
/* The folder that an absolute path lies in. */
int32_t tni_trust_check_folder(const char *path, TN_OUT tni_reason *reason);
/* Absolute path of the file that this library was loaded from, links resolved; "" when it cannot be told. */
const char *tni_library_path(char *buffer, size_t bytes);

#endif
