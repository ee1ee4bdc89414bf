/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks who may have written a file whose code is about to run in this process.
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

/* `path` is for the reason. TN_E_STATE if others may write the file. */
int32_t tni_trust_check(const char *path, const struct stat *file, TN_OUT tni_reason *reason);
/* The same for the folder of an absolute path. */
int32_t tni_trust_check_folder(const char *path, TN_OUT tni_reason *reason);
/* Absolute path of the file of this library, links resolved; "" if it cannot be found. */
const char *tni_library_path(char *buffer, size_t bytes);

#endif
