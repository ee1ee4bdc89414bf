#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests once more with every call between the library and its plugins watched: run.py SHORT... -- LONG...

TENON_VALIDATE names a file to which the shim `validate` appends its findings. A test passes when it passes as always and
nothing was found; that the file is there shows that the shim was. The programs behind -- are for TENON_TEST_LONG=1.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def run(program, folder):
    findings = Path(folder) / f"{Path(program).name}.findings"
    done = subprocess.run([program], env={**os.environ, "TENON_VALIDATE": str(findings)}, capture_output=True, text=True)
    if done.returncode != 0:
        return f"status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    if not findings.exists():
        return "the shim was not loaded"
    found = sorted(set(findings.read_text().splitlines()))
    return "\n".join([f"{len(found)} findings", *found[:20]]) if found else None


def main():
    split = sys.argv.index("--")
    programs = sys.argv[1:split] + (sys.argv[split + 1:] if os.environ.get("TENON_TEST_LONG") else [])
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for program in programs:
            problem = run(program, folder)
            failed += problem is not None
            print(f"{Path(program).name}: {problem or 'nothing was found'}", flush=True)
    print(f"{len(programs) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
