#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An option without its name does not compile, whether it is a number or a pointer; with its name it does."""
import os
import shutil
import subprocess
import sys

CALL = """#include <tenon/checkpoint.h>
#include <tenon/data.h>
#include <tenon/lowrank.h>
#include <tenon/optim.h>
#include <tenon/progress.h>
int f(tn_context *c, tn_scope *s, tn_optimizer *o, tn_dataset *d, tn_module *m, tn_tensor *t);
int f(tn_context *c, tn_scope *s, tn_optimizer *o, tn_dataset *d, tn_module *m, tn_tensor *t)
{{ (void)c, (void)s, (void)o, (void)d, (void)m, (void)t; {}; return 0; }}
"""
GOOD = ["tn_optimizer_step(s, o)", "tn_optimizer_step(s, o, .lr = 0.1)", "tn_optimizer_step(s, o, .lr_scale = tn_lr_cosine(1, 1, 9, 0))",
        "tn_sgd_create(m)", "tn_sgd_create(m, .lr = 0.1)", "tn_adamw_create_of(c, TN_TENSORS(t, t))", "tn_adamw_create_of(c, TN_TENSORS(t), .lr = 1)",
        "tn_optimizer_add_group(o, TN_TENSORS(t), .lr = 1)", "tn_loader_create(d)", "tn_loader_create(d, .batch = 8, .weights = t)",
        "tn_checkpoint_save(\"a\", .module = m, .optimizer = o)", "tn_csv_read(s, \"a\", .columns = TN_INTS(1))", "tn_svd_lowrank(s, t, .mean = t)", "tn_progress_create(\"a\", 1, .unit = \"b\")"]
BAD = ["tn_optimizer_step(s, o, {})", "tn_sgd_create(m, {})", "tn_adamw_create_of(c, TN_TENSORS(t), {})", "tn_loader_create(d, {})",
       "tn_csv_read(s, \"a\", {})", "tn_checkpoint_save(\"a\", {})", "tn_checkpoint_load(\"a\", {})"]
PLAIN = {**os.environ, "LC_ALL": "C"}  # ASCII quotes in messages


def main():
    include = [f"-isystem{folder}" for folder in sys.argv[1:]]  # as an installed header is: there gcc gives no warnings
    bad = [call.format(value) for call in BAD for value in ("o", "m", "t", "2", "0.5", "\"text\"")]
    failures = []
    for compiler in (c for c in ("gcc", "clang") if shutil.which(c)):
        command = [compiler, "-x", "c", "-std=c17", "-Wall", "-Wextra", *include, "-fsyntax-only", "-"]
        for expression in GOOD + bad:
            run = subprocess.run(command, input=CALL.format(expression), capture_output=True, text=True, env=PLAIN)
            if (run.returncode == 0) != (expression in GOOD) or (expression in GOOD and run.stderr) or (expression in bad and "tn_options_have_names" not in run.stderr):
                failures.append(f"{' '.join(command)}  # {expression}: {run.returncode}\n{run.stderr}")
    print("\n".join(failures) or f"{len(GOOD)} calls compile, {len(bad)} do not")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
