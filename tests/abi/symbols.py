#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What libraries export and import.

    symbols.py library libtenon.so HEADERS   exports tn_* only, all of what the headers declare, and nothing else
    symbols.py plugin PLUGIN.so...           exports tenon_plugin as initialised data, imports nothing of ours
"""
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "abi"))
import scan  # noqa: E402

# Symbols that compilers and their tools add.
TOLERATED = ("__asan_", "__ubsan_", "__tsan_", "__odr_asan", "__start_", "__stop_", "_init", "_fini", "__gcov", "__llvm")


def dynamic_symbols(path):
    """(kind letter, name) of each dynamic symbol; versions are cut off."""
    run = subprocess.run(["nm", "-D", str(path)], capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        *_, kind, name = line.split()
        yield kind, name.split("@")[0]


def check_library(path, include):
    exported = {n for k, n in dynamic_symbols(path) if k not in "Uwv" and not n.startswith(TOLERATED)}
    declared = set(scan.scan(include).functions)
    for name in sorted(exported - declared):
        yield f"{path}: exports '{name}', which no public header declares"
    for name in sorted(declared - exported):
        yield f"{path}: does not export '{name}', which the headers declare"


def check_plugin(path):
    kinds = {}
    for kind, name in dynamic_symbols(path):
        if kind in "Uwv":
            if name.startswith(("tn_", "tni_", "TN_", "tenon_")):
                yield f"{path}: imports '{name}': a plugin gets everything in tables"
        elif not name.startswith(TOLERATED):
            kinds[name] = kind
    if kinds.get("tenon_plugin") not in ("R", "D"):
        yield f"{path}: 'tenon_plugin' is not initialised data (nm says {kinds.get('tenon_plugin', 'absent')})"
    for name in sorted(set(kinds) - {"tenon_plugin"}):
        yield f"{path}: exports '{name}' besides 'tenon_plugin'"


def main():
    mode, *paths = sys.argv[1:]
    failures = []
    if mode == "library":
        failures = list(check_library(paths[0], paths[1]))
    else:
        for path in paths:
            failures += check_plugin(path)
    print("\n".join(failures) or "ok: " + " ".join(Path(p).name for p in paths))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
