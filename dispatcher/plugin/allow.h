/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of the libraries that may be loaded, for administrators who want to approve each of them. A list is a
 * text file as sha256sum prints it: each line begins with the SHA-256 of a library; the rest of the line, empty
 * lines and lines that begin with '#' are ignored. If a list exists, every library that is not in it is
 * refused. A list that cannot be read, or that others may write, allows nothing.
 *
 *   SYSCONFDIR/tenon/plugins.allow     of the configured prefix
 *   LIBRARY_FOLDER/tenon/plugins.allow beside this library
 *   TENON_PLUGIN_ALLOW                 the user's own, besides those
 */
#ifndef TNI_PLUGIN_ALLOW_H
#define TNI_PLUGIN_ALLOW_H

#include "dispatcher/plugin/reason.h"

/* TN_OK if every existing list has the open library `fd`; else TN_E_STATE and the reason. */
int32_t tni_allow_check(int fd, const char *library, TN_OUT tni_reason *reason);

#endif
