/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verdicts of probes, remembered by the content of the library, so that an unknown plugin is probed once and
 * not at every start. Kept are "ok" and crashes and hangs, with the time; a plugin that declined in good
 * order (no licence, no driver) is asked again each time. They lie in $XDG_CACHE_HOME/tenon/probe, else
 * $HOME/.cache/tenon/probe, a file each; without such a folder, and in set-id processes, nothing is
 * remembered. TENON_PLUGIN_PROBE=always asks again and renews; tn_inspect_forget_probes removes all.
 *
 * Beside the verdicts lie notes of what a file that looks like this one (device, inode, size, times of
 * change) hashed to, so that large libraries are read once, too.
 */
#ifndef TNI_PLUGIN_VERDICT_H
#define TNI_PLUGIN_VERDICT_H

#include <limits.h>
#include "dispatcher/plugin/reason.h"

typedef struct tni_verdict {
    char path[PATH_MAX]; /* "": nothing is remembered */
} tni_verdict;

/* The place of the verdict on a library; hashes the file. */
void tni_verdict_locate(const char *library, TN_OUT tni_verdict *verdict);
/* 1 and the status (with its reason) if there is a verdict. */
int32_t tni_verdict_read(const tni_verdict *verdict, TN_OUT int32_t *status, TN_OUT tni_reason *reason);
/* Remembers TN_OK and TN_E_CONTRACT. Failures to write are of no consequence. */
void tni_verdict_write(const tni_verdict *verdict, int32_t status, const tni_reason *reason);

#endif
