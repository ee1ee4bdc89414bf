/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe: an unknown plugin is first loaded by a helper process, tenon-probe, which negotiates, calls init,
 * counts the devices and ends. A plugin that crashes or hangs there is not loaded by the program.
 *
 * Plugins from the standard folders beside the library, and libraries that the program names by path, are trusted
 * and not probed. TENON_PLUGIN_PROBE=always probes these too, =never probes none.
 *
 * The helper writes lines to descriptor 3: "stage WORDS" before each step, then "ok", or "fail WORDS". Its
 * other descriptors are closed or lead to /dev/null.
 */
#ifndef TNI_PLUGIN_PROBE_H
#define TNI_PLUGIN_PROBE_H

#include "dispatcher/plugin/search_path.h"

#define TNI_PROBE_TIMEOUT_MS 10000u

/* Absolute path of the helper, or "" if it is not installed. */
const char *tni_probe_helper(char *buffer, size_t bytes);
/* Whether to probe a plugin. `trusted`: it is from a standard folder, or named by the program. */
int32_t tni_probe_wanted(const tni_plugin_settings *settings, int32_t trusted);
/*
 * Probes one library. TN_OK; TN_E_CONTRACT (crash, hang, exit), TN_E_UNSUPPORTED (init or entry refused) or
 * TN_E_STATE (no helper), with the reason. Reaps its child, and no other child of the process. Any thread.
 */
int32_t tni_probe_run(const char *helper, const char *library, uint32_t timeout_ms,
                      TN_OUT tni_reason *reason);

#endif
