/* SPDX-License-Identifier: Apache-2.0 */
/* Removes what a library registered, found by the addresses of its code and texts. */
#ifndef TNI_PLUGIN_WITHDRAW_H
#define TNI_PLUGIN_WITHDRAW_H

#include "dispatcher/registry.h"

/*
 * Removes every operator whose schema, and disables every kernel whose function or schema, lies in the file
 * `library` (the path given to dlopen). Waiting rows are forgotten. The entries stay for calls in progress. Addresses identify them, since a
 * plugin may register under any `self`.
 */
void tni_plugin_withdraw(tn_context *ctx, const char *library);

#endif
