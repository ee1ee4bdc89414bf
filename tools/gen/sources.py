# SPDX-License-Identifier: Apache-2.0
"""What the hand-written sources declare and define."""
import os
import re

from gen.tables import names_of, promotions


def public_names(folder):
    """The functions and types that hand-written public headers declare."""
    names = set()
    for file in os.listdir(folder) if os.path.isdir(folder) else ():
        if file.endswith(".h") and file not in ("ops.h", "op_numbers.h"):
            with open(os.path.join(folder, file)) as f:
                text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
            names |= set(re.findall(r"\b(tn_\w+)\b", text))
    return names


def missing(table, folder):
    wanted = names_of(table, "infer", "infer_") + names_of(table, "composite", "composite_") + \
        names_of(table, "gradient", "grad_") + promotions(table)
    defined = set()
    pattern = re.compile(r"^(?!extern\b|\s|#|/|\*).*\b((?:infer|composite|grad|promote)_\w+)\s*\(", re.M)
    for root, dirs, files in os.walk(folder):
        dirs[:] = [d for d in dirs if not d.startswith((".", "build"))]
        for file in files:
            if file.endswith(".c"):
                with open(os.path.join(root, file), errors="replace") as f:
                    defined |= set(pattern.findall(f.read()))
    return [n for n in wanted if n not in defined]
