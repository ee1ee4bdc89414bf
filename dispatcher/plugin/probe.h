/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe: a plugin that nobody vouches for is first loaded by a helper process, tenon-probe, which
 * negotiates, makes the plugin's state, counts its devices and ends. A crash or a hang then marks the file
 * and spares the program.
 *
 * Plugins from the standard folders beside the library are vouched for by whoever installed them and are not
 * probed; nor is a library that the program itself names by path. TENON_PLUGIN_PROBE=always probes those too,
 * =never probes nothing.
 *
 * The helper writes lines to descriptor 3: "stage WORDS" before each step, then "ok", or "fail WORDS". Its
 * other descriptors are closed or lead to /dev/null.
 */
#ifndef TNI_PLUGIN_PROBE_H
#define TNI_PLUGIN_PROBE_H

#include "dispatcher/plugin/search_path.h"

#define TNI_PROBE_TIMEOUT_MS 10000u

/* Absolute path of the helper, or "" when it is not installed. */
const char *tni_probe_helper(char *buffer, size_t bytes);
/* Whether a plugin is to be probed. `vouched`: from a standard folder, or named by the program. */
int32_t tni_probe_wanted(const tni_plugin_settings *settings, int32_t vouched);
/*
 * Probes one library. TN_OK; TN_E_CONTRACT (crash, hang, exit), TN_E_UNSUPPORTED (it declined in good order)
 * or TN_E_STATE (no helper), with the reason. No child is left behind. May be called from any thread; other
 * children of the process are not touched.
 */
int32_t tni_probe_run(const char *helper, const char *library, uint32_t timeout_ms,
                      TN_OUT tni_reason *reason);

#endif
