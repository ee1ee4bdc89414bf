#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds a release to the museum: what was built against its headers, kept as it was, for every later build to load and run.

    add.py BUILD VERSION [--replace]

BUILD is a build folder of the release (the client links its library). Writes tests/museum/VERSION with the plugins, the
operator library and the client, stripped, and the contract as libabigail sees it; says what it did.
"""
import argparse
import gzip
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
import header_library  # noqa: E402

MODULE = ["-shared", "-fPIC", "-fvisibility=hidden"]
# name -> (sources, more arguments, manifest)
EXHIBITS = {
    "libtenon_smallest.so": (["tests/museum/smallest.c"], MODULE, {"name": "smallest", "device_type": "smallest"}),
    "libtenon_null.so": ([f"plugins/null/{name}.c" for name in ("null", "graph", "collectives", "interop")], MODULE, {"name": "null", "device_type": "null"}),
    "libtenon_acme.so": (["examples/plugin/plugin.c", "examples/plugin/kernels.c"], [*MODULE, "-lm"],
                         {"name": "acme", "device_type": "acme"}),
    "libsmooth.so": (["examples/operators/smooth.c"], [*MODULE, "-lm"], None),
    "use": (["examples/operators/use.c"], ["-ltenon"], None),
    "on_device": (["tests/install/on_device.c"], ["-ltenon", "-lm"], None),
}


def compile_exhibit(name, folder, build, include):
    sources, more, manifest = EXHIBITS[name]
    with tempfile.TemporaryDirectory() as temporary:
        binary = Path(temporary) / name
        subprocess.run(["gcc", "-std=gnu17", "-Os", "-w", f"-I{include}", *[str(ROOT / s) for s in sources], f"-L{build}", *more,
                        "-Wl,--build-id=none,-z,noseparate-code", "-s", "-o", str(binary)], check=True)
        keep(folder / f"{name}.gz", binary.read_bytes(), shlex.join(sources))
    if manifest:
        (folder / f"{manifest['name']}.json").write_text(json.dumps({"tenon_manifest": 1, "library": name, **manifest}) + "\n")


def keep(path, data, what):
    path.write_bytes(gzip.compress(data, 9, mtime=0))
    print(f"{path.name}: {path.stat().st_size} bytes, {what}")


def main():
    parser = argparse.ArgumentParser(description="adds a release to the museum")
    parser.add_argument("build", type=Path)
    parser.add_argument("version")
    parser.add_argument("--replace", action="store_true", help="take the exhibits of this version away first")
    o = parser.parse_args()
    folder, include = HERE / o.version, ROOT / "abi" / "include"
    if folder.exists() and not o.replace:
        raise SystemExit(f"{folder} is there: what was released does not change (--replace before the release)")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in EXHIBITS:
        compile_exhibit(name, folder, o.build, include)
    with tempfile.TemporaryDirectory() as temporary:
        text = header_library.describe(include, temporary).read_bytes()
    keep(folder / "tenon.abi.gz", text, "the contract")
    print(f"{o.version}: {sum(f.stat().st_size for f in folder.iterdir())} bytes; commit {folder.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main())
