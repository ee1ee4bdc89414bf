#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tenon file: command.py TENON. Works on checkpoint.pt, which PyTorch wrote, and on safetensors files made here."""
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def safetensors(path, tensors):
    """Writes {name: list of float32}."""
    header, data = {}, b""
    for name, values in tensors.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": [len(values)], "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main(tool):
    failures = 0

    def expect(words, status, *parts, to="stdout"):
        nonlocal failures
        done = subprocess.run([tool, "file", *map(str, words)], capture_output=True, text=True, timeout=300)
        missing = [part for part in parts if part not in getattr(done, to)]
        if done.returncode != status or missing:
            failures += 1
            print(f"tenon file {words}: status {done.returncode} (expected {status}), missing {missing}\n{done.stdout}{done.stderr}")
        return done.stdout

    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        pt, a, b, nan = HERE / "checkpoint.pt", folder / "a.safetensors", folder / "b.safetensors", folder / "nan.safetensors"
        text = expect([pt], 0, "pytorch: 13 tensors")
        rows = {line.split()[0]: line.split(None, 1)[1] for line in text.splitlines()}
        if rows.get("model.fc.weight") != "float32    [2, 3]" or rows.get("unsigned") != "uint16     [1]":
            failures += 1
            print(rows)
        expect(["check", pt], 0, "pytorch: 13 tensors, sound")
        for to in (a, folder / "c.pt", folder / "shards"):
            expect(["convert", *(["--shard", "0.00002"] if to.name == "shards" else []), pt, to], 0)
            expect(["compare", pt, to], 0, "13 tensors compared, 0 differences")
        expect(["list", folder / "shards"], 0, "shards: 13 tensors")
        safetensors(a, {"x": [1, 2, 3], "y": [1], "only": [0]})
        safetensors(b, {"x": [1, 2, 3.5], "y": [1, 2]})
        expect(["compare", a, b], 1, "x: differs by up to 0.111111 of", "y: float32 [1] and float32 [2]", f"only: only in {a}",
               "2 tensors compared, 3 differences")
        safetensors(a, {"x": [1, 2, 3], "y": [1, 2]})
        expect(["compare", "--tolerance", "0.2", a, b], 0, "0 differences")
        safetensors(nan, {"x": [1, float("nan"), float("-inf")]})
        eight = folder / "eight.safetensors"
        header = json.dumps({"x": {"dtype": "F8_E4M3", "shape": [3], "data_offsets": [0, 3]}}).encode()
        eight.write_bytes(struct.pack("<Q", len(header)) + header + b"\x38\x7f\x00")  # 1, NaN, 0
        expect(["check", eight], 0, "x: 1 of 3 elements are not finite", "sound")
        expect(["check", nan], 0, "x: 2 of 3 elements are not finite")
        expect(["compare", nan, nan], 0, "0 differences")
        safetensors(b, {"x": [1, 2, float("-inf")]})
        expect(["compare", nan, b], 1, "x: differs by up to inf")
        a.write_bytes(a.read_bytes()[:-1])
        expect(["check", a], 1, "a.safetensors", to="stderr")
        expect(["list", folder / "none"], 1, "No such file", to="stderr")
        expect(["convert", pt], 2, "another number of files", to="stderr")
        expect(["compare", "--tolerance", "x", pt, pt], 2, "a number is expected", to="stderr")
        expect(["--what", pt], 2, "unexpected argument '--what'", to="stderr")
        expect(["--help"], 0, "usage: tenon file")
    print(f"{failures} failures")
    return failures > 0


sys.exit(main(sys.argv[1]))
