/* SPDX-License-Identifier: Apache-2.0 */
/* Takes what a library registered out of the registry again, told by where its code and texts lie. */
#ifndef TNI_PLUGIN_WITHDRAW_H
#define TNI_PLUGIN_WITHDRAW_H

#include "dispatcher/registry.h"

/*
 * Marks every operator whose schema, and every kernel row whose function, lies in the file `library` (as it
 * was given to dlopen). Entries stay in place for calls that are under way. Reasoning by address finds what a
 * plugin registered under whatever self.
 */
void tni_plugin_withdraw(tn_context *ctx, const char *library);

#endif
