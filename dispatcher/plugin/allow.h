/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of the libraries that may be loaded, for machines whose administrator wants to know each of them. A
 * list is a text file as sha256sum prints it: a line begins with the SHA-256 of a library; what follows,
 * empty lines and lines that begin with '#' mean nothing. Where a list is there, a library that it lacks is
 * refused, wherever it comes from; a list that cannot be read, or that others may write, allows nothing.
 *
 *   SYSCONFDIR/tenon/plugins.allow     of the configured prefix
 *   LIBRARY_FOLDER/tenon/plugins.allow beside this library
 *   TENON_PLUGIN_ALLOW                 the user's own, besides those
 */
#ifndef TNI_PLUGIN_ALLOW_H
#define TNI_PLUGIN_ALLOW_H

#include "dispatcher/plugin/reason.h"

/* TN_OK when every list that is there has the open library `fd`; else TN_E_STATE and the reason. */
int32_t tni_allow_check(int fd, const char *library, TN_OUT tni_reason *reason);

#endif
