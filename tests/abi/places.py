#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every function of libtenon-train that can fail says where the program called it.

    places.py ROOT   names functions that are neither macros with a place nor in the list below
"""
import re
import sys
from pathlib import Path

ROOMS = ("nn", "optim", "files", "data", "progress")
# Functions that cannot fail, that say something about an error themselves, or whose failure is in what they return.
WITHOUT = set("""
tn_module_failed tn_module_error tn_module_fail tn_module_placed tn_module_takes tn_layer_count tn_layer_name tn_layer_option_at tn_module_path tn_module_load_report
tn_module_generation tn_module_child tn_module_child_at tn_module_child_count tn_module_tensor tn_module_own tn_module_parent
tn_module_context tn_module_name tn_module_class_name tn_module_state tn_module_parameter_count tn_module_is_training
tn_module_is_parametrized tn_is_pruned tn_init_gain tn_step_open tn_step_open_with tn_step_close tn_step_status
tn_rank_over_1 tn_optimizer_options_init tn_optimizer_group tn_optimizer_group_count tn_optimizer_state tn_plateau_step
tn_grad_scaler_get_scale tn_dataset_count tn_folder_class tn_folder_path tn_workers_process tn_loader_batches
tn_pt_count tn_pt_name tn_pt_value tn_file_format tn_file_count tn_file_name tn_progress_step tn_text
tn_replace_begin tn_replace_end
""".split())
PLACED = re.compile(r"#define (tn_\w+)\(\.\.\.\)\s+(?:\\\n\s*)?(?:TN_PLACED_IN\(\1|TN_(?:PLACED|CHANGES|BUILDS)\(\1\(|tn_\w+_at\(__FILE__)")
BUILDS = re.compile(r"TN_BUILDS\(\s*(?:\\\n\s*)?(tn_\w+)\(")
FUNCTION = re.compile(r"\bTN_API\b([^;{]*?)\b(tn_\w+)\(", re.S)


def main():
    headers = [h for room in ROOMS for h in sorted(Path(sys.argv[1], room, "include", "tenon").glob("*.h"))]
    texts = [header.read_text() for header in headers]
    placed = {name for text in texts for pattern in (PLACED, BUILDS) for name in pattern.findall(text)}
    declared = {}
    for header, text in zip(headers, texts):
        for result, name in FUNCTION.findall(re.sub(r"/\*.*?\*/", "", text, flags=re.S)):
            if result.split() != ["void"] and not name.startswith("tn_lr_"):
                declared[name] = header
    missing = [f"{declared[n]}: {n} has no place" for n in sorted(set(declared) - placed - WITHOUT)]
    missing += [f"{n} of the list in places.py is not a function without a place"
                for n in sorted(WITHOUT - (set(declared) - placed))]
    print("\n".join(missing) or f"{len(declared)} functions, {len(placed)} of them with a place")
    return bool(missing) or not placed


if __name__ == "__main__":
    sys.exit(main())
