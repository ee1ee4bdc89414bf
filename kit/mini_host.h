/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host in miniature, for the parts of the kit that load a plugin without the library: errors, names, memory,
 * and logs that are discarded. Slots that take a call or a scope are absent: a user of this file that calls
 * kernels adds them. Links nothing of Tenon.
 */
#ifndef TENON_KIT_MINI_HOST_H
#define TENON_KIT_MINI_HOST_H

#include <tenon/plugin.h>

#define MINI_HOST_NAMES 256 /* interned at most; number 0 is none */
#define MINI_HOST_TEXT  512

/* The last error of this thread, with the vendor's own number and text. */
extern _Thread_local char mini_host_error[MINI_HOST_TEXT];

/* The first member of a struct that extends it: the host's context points to it. */
typedef struct mini_host {
    tn_host host;
    char names[MINI_HOST_NAMES][64];
} mini_host;

void mini_host_init(mini_host *h);

/* Calls `entry` of a plugin with the one generation of this build. On failure `why`, of `bytes` bytes, says what the
 * plugin answered. */
int32_t mini_host_negotiate(const tn_plugin_info *info, tn_plugin_table *out, char *why, uint32_t bytes);

#endif
