/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored verdicts of probes, by the content of the library, so that an unknown plugin is probed once and not at
 * every start. Success, crashes and hangs are stored; a plugin whose init refused (no licence, no driver) is
 * probed again each time. The files are in $XDG_CACHE_HOME/tenon/probe, else $HOME/.cache/tenon/probe; without
 * such a folder, and in set-id processes, nothing is stored. TENON_PLUGIN_PROBE=always probes again and renews
 * the verdict; tn_inspect_forget_probes deletes all.
 *
 * Beside the verdicts are notes: the hash of a file with this device, inode, size and times of change, so that
 * large libraries are hashed once.
 */
#ifndef TNI_PLUGIN_VERDICT_H
#define TNI_PLUGIN_VERDICT_H

#include <limits.h>
#include "dispatcher/plugin/reason.h"

typedef struct tni_verdict {
    char path[PATH_MAX]; /* "": nothing is stored */
} tni_verdict;

/* Finds the path of the verdict on a library; hashes the file. */
void tni_verdict_locate(const char *library, TN_OUT tni_verdict *verdict);
/* 1, the status and its reason if there is a verdict; else 0. */
int32_t tni_verdict_read(const tni_verdict *verdict, TN_OUT int32_t *status, TN_OUT tni_reason *reason);
/* Stores TN_OK and TN_E_CONTRACT. Failures are ignored. */
void tni_verdict_write(const tni_verdict *verdict, int32_t status, const tni_reason *reason);

#endif
