#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step is recorded on two devices and played on both: the same plugin gives the same bits, the other one the same
numbers; a broken kernel, a file that is cut off and one that is damaged are found."""
import argparse
import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path


def replay(o, file, *arguments):
    run = subprocess.run([o.tenon, "replay", str(file), *arguments], capture_output=True, text=True, timeout=300)
    return run.returncode, run.stdout + run.stderr


def sealed(data):
    """The recording with the checksums that its records should have."""
    out, at = bytearray(data), 16
    while at < len(data):
        tag, _, size = struct.unpack_from("<IIQ", data, at)
        body = struct.pack("<IQ", tag, size) + data[at + 16 : at + 16 + size]
        struct.pack_into("<I", out, at + 4, zlib.crc32(body))
        at += 16 + size
    return bytes(out)


def with_unknown_slot(data):
    """The same recording with another name for the first memory.alloc."""
    at = data.index(b"memory.alloc")
    return sealed(data[:at] + b"memory.frob_" + data[at + 12:])


def all_slots(o, folder, checks):
    """Copies to a peer, an allocator of the plugin's own, mappings, pinned pages and callbacks."""
    file = folder / "slots.rec"
    run = subprocess.run([o.slots, o.shim, o.full, str(file)], capture_output=True, text=True)
    # 2 * ((10 + i) + (20 + i)), and one callback that ran.
    want = " ".join(str(2 * (30 + 2 * i)) for i in range(16)) + " 1\n"
    checks["slots: recording changes no result"] = (run.returncode == 0 and run.stdout == want, run.stdout + run.stderr)
    status, text = replay(o, file, "--list")
    for slot in ("copy.peer", "allocator.alloc", "allocator.free", "memory.map", "memory.unmap", "memory.pin", "memory.unpin",
                 "memory.trim", "stream.host_callback"):
        checks[f"slots: {slot} is there"] = (status == 0 and f" {slot} " in text, text)
    status, text = replay(o, file, "--plugin", o.full)
    checks["slots played on their plugin"] = (status == 0 and "1 kernel and" in text and "bit for bit" in text, text)
    for plugin in ("reference", "cpu"):
        status, text = replay(o, file, "--of", "liar", "--plugin", getattr(o, plugin))
        checks[f"slots played on {plugin}, which lacks most"] = (
            status == 0 and "1 kernel and" in text and "within tolerance" in text, text)
    texts = ["memory.map: other bytes came back", "aten::add.Tensor: output 0", "copy.device_to_host: other bytes came back",
             "stream.synchronize: the stream is done, and a host callback has not run"]
    for plugin, want in zip(o.full_broken, texts):
        status, text = replay(o, file, "--plugin", plugin)
        checks[f"slots: {Path(plugin).stem} is found"] = (status == 1 and want in text, text)
    data = file.read_bytes()
    for slot, why in ((b"graph.begin", "a graph does its work after the recorded call"),
                      (b"memory.frob", "this tenon cannot play that slot")):
        (folder / "other.rec").write_bytes(sealed(data.replace(b"memory.trim", slot)))
        status, text = replay(o, folder / "other.rec", "--plugin", o.full)
        checks[f"slots: {slot.decode()} is refused"] = (status == 1 and slot.decode() in text and why in text, text)


def growing(o, folder, checks):
    """A program whose memory is reserved as addresses and grows; a plugin whose memory does not grow says so."""
    file, grows = folder / "growing.rec", dict(os.environ, TENON_ALLOC_CONF="expandable_segments:True")
    plain = subprocess.run([o.program, "reference:0"], capture_output=True, text=True)
    run = subprocess.run([o.program, "reference:0"], capture_output=True, text=True, env=dict(grows, TENON_RECORD=str(file)))
    checks["growing: neither recording nor memory changes the result"] = (run.returncode == 0 and run.stdout == plain.stdout, run.stderr + run.stdout)
    status, text = replay(o, file, "--of", "reference", "--list")
    for slot in ("memory.reserve", "memory.resize"):
        checks[f"growing: {slot} is there"] = (status == 0 and f" {slot} " in text, text[-300:])
    status, text = replay(o, file, "--of", "reference", "--plugin", o.reference)
    checks["growing: played"] = (status == 0 and "all as recorded, bit for bit" in text and "\n0 kernels" not in "\n" + text, text)
    status, text = replay(o, file, "--of", "reference", "--plugin", o.cpu)
    checks["growing: not on memory that does not grow"] = (status == 1 and "record without expandable_segments" in text, text)


def operator_library(o, folder, checks):
    """A kernel of a library runs on the device of another plugin, and is recorded as a call of that device."""
    file = folder / "library.rec"
    plain = subprocess.run([o.library_program, o.library], capture_output=True, text=True)
    # The program calls no copy.peer, so nothing is injected.
    for shim, setting in (("TENON_RECORD", str(file)), ("TENON_VALIDATE", str(folder / "findings")), ("TENON_INJECT", "copy.peer:1")):
        run = subprocess.run([o.library_program, o.library], capture_output=True, text=True, env=dict(os.environ, **{shim: setting}))
        checks[f"library: {shim} changes no result"] = (run.returncode == 0 and run.stdout == plain.stdout, f"{run.returncode} {run.stderr}{run.stdout}")
    findings = folder / "findings"
    checks["library: validate finds nothing"] = (not findings.exists() or not findings.read_text(), findings.read_text() if findings.exists() else "")
    run = subprocess.run([o.library_program, o.library], capture_output=True, text=True, env=dict(os.environ, TENON_INJECT="kernel:mylib::smooth_max:1"))
    checks["library: its kernel fails when that is asked for"] = (run.returncode != 0 and "injected failure of kernel.run of mylib::smooth_max" in run.stdout + run.stderr, run.stderr + run.stdout)
    status, text = replay(o, file, "--list")
    index = re.search(r"^plugin (\d+): cpu ", text, re.M)
    checks["library: its kernel is a call of the device"] = (
        status == 0 and index and re.search(rf"^ *\d+  {index[1]}  kernel mylib::smooth_max$", text, re.M), text[-500:])
    status, text = replay(o, file, "--plugin", o.cpu)
    calls = re.search(r"^(\d+) calls without a kernel in this plugin, the first of mylib::smooth_max$", text, re.M)
    checks["library: played on the device without its kernel"] = (status == 0 and calls and "all as recorded, bit for bit" in text, text)
    status, text = replay(o, file, "--plugin", o.library)
    checks["library: it alone cannot be played on"] = (
        status == 1 and "it lacks the interface 'tenon.device', so it has no device to play on; --plugin takes the plugin of a device" in text, text)


def main():
    parser = argparse.ArgumentParser()
    for name in ("tenon", "program", "cpu", "reference", "broken", "crashing", "slots", "shim", "full", "library", "library-program"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--full-broken", nargs=4, required=True)
    o = parser.parse_args()
    checks = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for device in ("cpu", "reference:0"):
            short = device.split(":")[0]
            file = folder / (short + ".rec")
            plain = subprocess.run([o.program, device], capture_output=True, text=True)
            run = subprocess.run([o.program, device], capture_output=True, text=True, env=dict(os.environ, TENON_RECORD=str(file)))
            checks[f"{short}: recording changes no result"] = (run.returncode == 0 and run.stdout == plain.stdout, run.stderr + run.stdout)
            for plugin in ("cpu", "reference"):
                status, text = replay(o, file, "--of", short, "--plugin", getattr(o, plugin))
                want = "all as recorded, bit for bit" if plugin == short else "all as recorded, within tolerance"
                checks[f"{short} played on {plugin}"] = (status == 0 and want in text and "\n0 kernels" not in "\n" + text, text)
                print(text.splitlines()[0] if text else "")
            status, text = replay(o, file, "--list")
            checks[f"{short}: listed"] = (status == 0 and "memory.alloc" in text and "kernel aten::tanh" in text, text[-300:])
            data = file.read_bytes()
            cut = folder / "cut.rec"
            cut.write_bytes(data[: len(data) * 2 // 3])
            status, text = replay(o, cut, "--of", short, "--plugin", getattr(o, short))
            checks[f"{short}: a file that is cut off"] = (status == 1 and "is cut off after" in text, text)
            cut.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
            status, text = replay(o, cut, "--of", short, "--plugin", getattr(o, short))
            checks[f"{short}: a changed bit"] = (status == 1 and "does not match its checksum" in text, text)
            checks[f"{short}: checksums are those of zlib"] = (sealed(data) == data, "")
            cut.write_bytes(with_unknown_slot(data))
            status, text = replay(o, cut, "--of", short, "--plugin", getattr(o, short))
            checks[f"{short}: an unknown slot"] = (status == 1 and "memory.frob_: this tenon cannot play that slot" in text, text)
        all_slots(o, folder, checks)
        growing(o, folder, checks)
        operator_library(o, folder, checks)
        status, text = replay(o, folder / "reference.rec", "--of", "reference", "--plugin", o.broken)
        checks["a broken kernel is named"] = (status == 1 and "aten::tanh: output 0, element" in text and ("1 difference;" in text or " differences;" in text), text)
        status, text = replay(o, folder / "reference.rec", "--of", "reference", "--plugin", o.crashing)
        checks["a crash is named with its call"] = (status == 1 and re.search(r"call \d+, aten::tanh: the plugin crashed with SIG", text), text)
        status, text = replay(o, folder / "reference.rec", "--list", "--timeout", "soon")
        checks["a timeout is a number"] = (status == 2 and "--timeout 'soon' is not a number of seconds" in text, text)
        (folder / "no.rec").write_bytes(b"TENONREC" + struct.pack("<II", 99, 0))
        status, text = replay(o, folder / "no.rec", "--list")
        checks["another version"] = (status == 1 and "is of version 99" in text, text)
        status, text = replay(o, Path(o.tenon), "--list")
        checks["another file"] = (status == 1 and "is not a recording" in text, text)
    for text, (good, why) in checks.items():
        print("ok  " if good else "FAIL", text, "" if good else why[-1500:])
    failed = sum(not good for good, _ in checks.values())
    print(f"{len(checks) - failed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
