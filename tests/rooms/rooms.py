#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that a room's include path has the rooms of docs/map.md and no others: rooms.py BUILD

For each room it takes the compiler options of one source file, and compiles with them a file that includes one header of
another room. That must succeed where the map allows the include; elsewhere the header must not be found.
"""
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HEADERS = {"core": "core/shape.h", "dispatcher": "dispatcher/schema.h", "autograd": "autograd/graph.h",
           "ops": "ops/infer/infer.h", "plugins": "plugins/shims/shim.h", "kit": "kit/calls/request.h"}
# A file of each room, and the rooms that it may include from.
ROOMS = {"core/shape.c": {"core"}, "dispatcher/schema.c": {"core", "dispatcher"},
         "autograd/engine.c": {"core", "dispatcher", "autograd"}, "ops/infer/infer.c": {"core", "dispatcher", "ops"},
         "plugins/null/null.c": set(), "plugins/reference/plugin.c": set(), "bench/operator.c": {"kit"},
         "kit/tenon.c": set(), "nn/module.c": set(), "optim/optimizer.c": set(), "files/pt.c": set(), "data/idx.c": set()}


def options_of(build):
    """{path of a source: the options that say where headers are}"""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        path = (build / entry["file"]).resolve()
        if path.is_relative_to(ROOT):
            found[str(path.relative_to(ROOT))] = [w for w in words if w.startswith(("-I", "-D", "-std"))]
    return found


def main():
    build = Path(sys.argv[1]).resolve()
    options = options_of(build)
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.c"
        for source, visible in ROOMS.items():
            for room, header in HEADERS.items():
                if not (ROOT / header).exists() or source not in options:
                    print(f"{source}: not compiled, or {header} does not exist: the tables of this test are out of date")
                    failed += 1
                    continue
                probe.write_text(f'#include "{header}"\n')
                run = subprocess.run(["cc", "-fsyntax-only", *options[source], str(probe)], cwd=build, capture_output=True, text=True)
                found = f"{header}: No such file" not in run.stderr
                good = run.returncode == 0 if room in visible else not found
                passed, failed = passed + good, failed + (not good)
                if not good:
                    print(f"{source} with {header}: {'not found' if room in visible else 'found'}\n{run.stderr}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
