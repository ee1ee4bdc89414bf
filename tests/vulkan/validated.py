#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs under Vulkan's validation layer, which must find nothing.

    validated.py FOLDER [+order] PROGRAM [ARGUMENTS] [-- [+order] PROGRAM [ARGUMENTS]]...    FOLDER is for the layer's log and settings

+order: the layer looks at barriers and waits, too (synchronisation validation). It grows then with each submission, so that a program
that counts its memory fails.
"""
import os
import subprocess
import sys
from pathlib import Path

LAYER = "VK_LAYER_KHRONOS_validation"
ORDER = "khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT\n"


def run(folder, command):
    """The findings of the layer and of the program itself; None if the layer is not installed."""
    log = folder / "validation.log"
    log.unlink(missing_ok=True)
    looks_at_order = command[0] == "+order"
    command = command[looks_at_order:]
    (folder / "vk_layer_settings.txt").write_text(
        f"khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG\nkhronos_validation.log_filename = {log}\n"
        "khronos_validation.report_flags = error,warn,perf\n" + (ORDER if looks_at_order else ""))
    env = {**os.environ, "VK_LAYER_SETTINGS_PATH": str(folder), "VK_INSTANCE_LAYERS": LAYER}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if not log.exists(): # the layer makes it when it is loaded
        return None
    findings = log.read_text()
    said = f"{' '.join(command)}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}" if done.returncode else ""
    return findings[:4000] + said


def main():
    folder, words = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    commands = [[]]
    for word in words:
        if word == "--":
            commands.append([])
        else:
            commands[-1].append(word)
    failed = 0
    for command in commands:
        found = run(folder, command)
        if found is None:
            print(f"skipped: {LAYER} is not loaded (Debian: vulkan-validationlayers)\n0 passed, 0 failed, 1 skipped")
            return 77
        failed += bool(found)
        if found:
            print(found)
    print(f"{len(commands) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
