#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files are input: damaged recordings, traces, profiles, manifests, golden folders, indices of shards, reports, measurements of
devices, caches, lists and options end in a message.

    files.py TENON RECORD_STEP FOLDER_OF_PLUGINS [SEED [SLOWNESS]]

Each file that `tenon` reads is changed (bytes, cuts, repeated parts, huge numbers) and read again. The command must end by
itself, with status 0, 1 or 2, quickly, and say what is wrong when it does not succeed. TENON_TEST_LONG=1 tries many more.
"""
import concurrent.futures
import gzip
import json
import os
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

LONG = bool(os.environ.get("TENON_TEST_LONG"))
SECONDS = 10.0  # of processor time, for one damaged file (a sanitizer's build: times the slowness); a busy host inflates it
SPACE = 8 << 30 # bytes of addresses; a damaged size may ask for any number, which must not fill the machine's memory
SLOWNESS = float(sys.argv[5]) if len(sys.argv) > 5 else 1.0
PATIENCE = 300  # seconds that a busy machine may take for it
TIMEOUT = ["--timeout", str(PATIENCE)]  # of the commands: a loop is ended by its processor time, so that load decides nothing


def changed(data, random):
    """The bytes with one to eight changes of one kind."""
    out = bytearray(data)
    kind = random.randrange(6)
    if not out or kind == 0:  # cut
        return bytes(out[: random.randrange(len(out) + 1)])
    at = random.randrange(len(out))
    if kind == 1:  # a part twice, or not at all
        end = min(len(out), at + random.randrange(1, 64))
        return bytes(out[:at] + (out[at:end] * 2 if random.randrange(2) else b"") + out[end:])
    if kind == 2:  # a number as large, or as strange, as can be
        width = random.choice((4, 8))
        number = random.choice((2**63 - 1, 2**63, 2**64 - 1, 2**32 - 1, 2**31, 2**40, 0)) & (2 ** (8 * width) - 1)
        at = min(at, max(0, len(out) - width))
        return bytes(out[:at] + number.to_bytes(width, "little") + out[at + width :])
    for _ in range(random.randrange(1, 9)):
        at = random.randrange(len(out))
        out[at] = random.randrange(256) if kind < 5 else out[at] ^ 1 << random.randrange(8)
    return bytes(out)


def changed_text(data, random):
    """The same for text: numbers and words are exchanged, too, so that more of it still parses."""
    text = data.decode("latin-1")
    if random.randrange(3) == 0:
        return changed(data, random)
    words = list(re.finditer(r'-?\d+(\.\d+)?|"[^"]*"|true|false|null|\[\]|\{\}', text))
    if not words:
        return changed(data, random)
    for _ in range(random.randrange(1, 4)):
        word = random.choice(words)
        other = random.choice(["-1", "0", "1e308", "9223372036854775807", "18446744073709551616", "null", "[]", "{}", '""', '"x"',
                               "0.5", "[[[]]]", "true", random.choice(words).group()])
        text = text[: word.start()] + other + text[word.end() :]
        words = [w for w in words if w.end() <= word.start()] or [word]
    return text.encode("latin-1")


def sealed(data):
    """A recording whose records have the checksums that they should have, as far as it can be cut into records."""
    out, at = bytearray(data), 16
    while at + 16 <= len(out):
        tag, _, size = struct.unpack_from("<IIQ", out, at)
        if at + 16 + size > len(out):
            break
        struct.pack_into("<I", out, at + 4, zlib.crc32(struct.pack("<IQ", tag, size) + out[at + 16 : at + 16 + size]))
        at += 16 + size
    return bytes(out)


class Run:
    """How a command ended."""

    def __init__(self, command, environment):
        # MALLOC_PERTURB_, which meson sets, would touch all that a damaged size allocates.
        left_out = ("LD_PRELOAD", "XDG_CACHE_HOME", "MALLOC_PERTURB_")
        clean = {k: v for k, v in os.environ.items() if not k.startswith("TENON_") and k not in left_out}
        start = time.monotonic()
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       env={**clean, "OMP_NUM_THREADS": "1", **environment}, preexec_fn=self.limit)
            self.status, self.seconds = None, 0.0
            while self.status is None and time.monotonic() < start + PATIENCE:
                pid, status, used = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    process.returncode = self.status = os.waitstatus_to_exitcode(status)
                    self.seconds = used.ru_utime + used.ru_stime
                else:
                    time.sleep(0.002)
            if self.status is None:
                process.kill()
                process.wait()
            out.seek(0)
            self.text = out.read().decode("utf-8", "replace")

    @staticmethod
    def limit():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        if SLOWNESS == 1:  # else a sanitizer takes terabytes of addresses for itself
            resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE))


class Kind:
    """A kind of file. `place` is where it lies, `command` what reads it; `judge` may say more of a run than is said for all."""

    def __init__(self, name, data, place, command, change=changed, count=8, environment=None, judge=None, seconds=SECONDS):
        self.name, self.data, self.place, self.command, self.change = name, data, place, command, change
        self.count, self.environment, self.judge, self.seconds = count, environment or {}, judge, seconds

    def wrong(self, run):
        """What is wrong with a run, or None."""
        if run.status is None:
            return f"did not end within {PATIENCE} seconds"
        if run.status < 0 or run.status > 2:
            return f"ended with status {run.status}"
        if re.search(r"ERROR: \w+Sanitizer|runtime error:", run.text):
            return "a sanitizer found something"
        if run.status and not run.text.strip():
            return "failed without a word"
        if run.seconds > self.seconds * SLOWNESS:
            return f"took {run.seconds:.1f} seconds of processor time"
        return self.judge(run) if self.judge else None

    def undamaged(self):
        self.place.write_bytes(self.data)
        run = Run(self.command(self.place), {k: v.replace("@", str(self.place.parent.parent)) for k, v in self.environment.items()})
        return None if run.status == 0 else f"{self.name}: the file as it is: status {run.status}\n{run.text[-1500:]}"

    def attempt(self, seed, number):
        r = random.Random(f"{seed}/{self.name}/{number}")
        data = self.change(self.data, r)
        if data == self.data:
            return None
        with tempfile.TemporaryDirectory() as name:  # a folder of its own: attempts run side by side
            place = Path(name) / self.place.name
            if self.place.parent.name in ("cases", "plugin", "cache", "shards", "tenon"):
                shutil.copytree(self.place.parent, Path(name) / self.place.parent.name, symlinks=True)
                place = Path(name) / self.place.parent.name / self.place.name
            place.write_bytes(data)
            run = Run(self.command(place), {k: v.replace("@", name) for k, v in self.environment.items()})
        why = self.wrong(run)
        return f"{self.name}, seed {seed}, number {number}: {why}\n{run.text[-1500:]}" if why else None


def damaged_recording(run):
    """Any changed byte of a recording is noticed."""
    if run.status != 1:
        return f"status {run.status}"
    if not re.search(r"is damaged|is cut off|is not a recording|is of version|cannot be read", run.text):
        return "does not say that the file is damaged"
    return None


def no_crash(run):
    """The cases of a suite run in processes of their own: one of them must not crash either."""
    found = re.search(r"crash[^\n]*|exit in the middle|ended the process", run.text)
    return found.group() if found else None


def says(*texts):
    """A command that fails prints one of the texts."""
    def judge(run):
        return None if run.status == 0 or any(t in run.text for t in texts) else "does not say what is wrong"
    return judge


def measured(run):
    """A damaged measurement decides nothing, which is said, and the command does its work."""
    if run.status:
        return f"status {run.status}"
    texts = ("is the fastest as measured", "the measurement is damaged", "no device of the measurement is here")
    return None if any(t in run.text for t in texts) else "does not say what the measurement is"


def shards(folder):
    """Two shards and their index."""
    folder.mkdir()
    for shard in ("a", "b"):
        header = json.dumps({shard: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
        (folder / f"{shard}.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    return b'{"metadata": {"total_size": 16}, "weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}'


def measurement(tenon, folder, environment):
    """What `tenon bench devices` writes, in the folder that it writes to."""
    folder.mkdir()
    devices = json.loads(subprocess.run([tenon, "devices", "--json"], check=True, stdout=subprocess.PIPE,
                                        env={**os.environ, **environment}).stdout)
    entries = [{"device": d["device"], "name": d["name"], "bandwidth": 2e10, "flops_f32": 1e11, "call": 5e-7} for d in devices]
    return json.dumps({"tenon_devices": 1, "devices": entries}).encode()


def golden_folder(folder):
    """Three recorded calls with gradients and a refusal."""
    names, data = {}, b""
    for name, shape, values in (("a", [2, 3], [1, 2, 3, 4, 5, 6]), ("b", [3], [10, 20, 30]), ("c", [2, 3], [11, 22, 33, 14, 25, 36]),
                                ("one", [2, 3], [1] * 6), ("three", [3], [2] * 3)):
        names[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    header = json.dumps(names).encode()
    header += b" " * (-len(header) % 8)
    folder.mkdir()
    (folder / "some.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + data)

    def tensor(key, **more):
        return {"tensor": key, "dtype": "float32", "shape": names[key]["shape"], **more}

    calls = [{"id": 0, "op": "aten::add.Tensor", "dtype": "f32", "rtol": 1e-6, "atol": 1e-6, "grad_rtol": 1e-6, "grad_atol": 1e-6,
              "args": [tensor("a", name="self"), tensor("b", name="other"), {"name": "alpha", "int": 1}], "out": [tensor("c")],
              "cotangents": [tensor("one", out=0)], "grad": [tensor("one", wrt="self"), tensor("three", wrt="other")]},
             {"id": 1, "op": "aten::cat", "dtype": "f32", "rtol": 0, "atol": 0,
              "args": [{"name": "tensors", "tensors": [tensor("b"), tensor("b")]}, {"name": "dim", "int": 0}],
              "out": [{"tensor": None, "dtype": "float32", "shape": [6]}], "values": False},
             {"id": 2, "op": "aten::mm", "dtype": "f32", "raises": {"text": "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"},
              "args": [tensor("a", name="self"), tensor("a", name="mat2")]}]
    (folder / "some.jsonl").write_text("".join(json.dumps(c, separators=(",", ":")) + "\n" for c in calls))


def record(step, plugins, path, profile):
    for variable, file in (("TENON_RECORD", path), ("TENON_PROFILE", profile)):
        subprocess.run([step, "cpu"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, variable: str(file), "TENON_PLUGIN_PATH": f"{plugins}/cpu:{plugins}/shims"})


def cached_verdict(tenon, plugin, cache):
    """The file of a verdict on a plugin that was probed, in a cache that is made for it."""
    subprocess.run([tenon, "devices"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env=dict(os.environ, TENON_PLUGIN_PATH=str(plugin), XDG_CACHE_HOME=str(cache)))
    return [p for p in cache.rglob("*") if p.is_file()]


def make_kinds(tenon, step, plugins, folder):
    cpu = f"{plugins}/cpu/libtenon_cpu.so"
    # A context of the commands below finds the CPU plugin and nothing else.
    here = {"TENON_PLUGIN_PATH": f"{plugins}/cpu"}
    check = [tenon, "check", cpu, "--jobs", "1", *TIMEOUT]
    recording, profile = folder / "a.rec", folder / "profile.json"
    record(step, plugins, recording, profile)
    bytes_of_recording = recording.read_bytes()
    trace = (b'{"op": "aten::add.Tensor", "n": 12, "args": [{"t": [8, 16], "d": "float32"}, {"t": [16], "d": "float32", "s": [1]}], '
             b'"kwargs": {"alpha": 2}}\n'
             b'{"op": "aten::cat", "args": [[{"t": [2, 3], "d": "float32"}, {"t": [2, 3], "d": "float32", "s": [1, 2]}], 1]}\n'
             b'{"op": "aten::gather", "args": [{"t": [30, 7], "d": "float32"}, 1, {"t": [30, 5], "d": "int64", "low": 0, "high": 7}]}\n'
             b'{"op": "aten::clamp", "args": [{"t": [5], "d": "float64", "low": -2, "high": 2}, {"f": "-0.5"}, {"f": "0.5"}]}\n')
    golden = folder / "cases"
    golden_folder(golden)
    report = folder / "report.json"
    subprocess.run([*check, "--filter", "^0/copy/bytes/1$", "--json", str(report)], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, **here})
    plugin = folder / "plugin"
    plugin.mkdir()
    (plugin / "libtenon_cpu.so").symlink_to(cpu)
    manifest = next(Path(f"{plugins}/cpu").glob("*.json"))
    shutil.copy(manifest, plugin / manifest.name)
    listed = b"# for now\n0/copy/*   a reason\n1/*/float64/* another one\n0/memory/info a third one\n"
    arguments = b'[[{"t": [2, 3], "d": "float64"}, {"t": [3], "d": "float64"}], {"args": [{"t": [4], "d": "float64"}, 1]}]\n'
    kinds = [
        Kind("recording", bytes_of_recording, recording, lambda p: [tenon, "replay", p, "--plugin", cpu, *TIMEOUT],
             count=20, judge=damaged_recording),
        Kind("recording, listed", bytes_of_recording, recording, lambda p: [tenon, "replay", p, "--list"], judge=damaged_recording),
        # Damage that the checksums do not show: what lies inside is looked at, too. The plugin itself may fail, which is said. A
        # size may have become 2^40 over one element: the command ends such a call.
        Kind("recording, sealed", bytes_of_recording, recording,
             lambda p: [tenon, "replay", p, "--plugin", cpu, "--timeout", "5"], change=lambda d, r: sealed(changed(d, r)), count=20,
             seconds=60),
        Kind("trace", trace, folder / "t.jsonl", lambda p: [*check, "--mode", "coverage", "--trace", p], change=changed_text,
             environment=here, judge=no_crash, seconds=30),
        Kind("workload", gzip.compress(trace, mtime=0), folder / "t.jsonl.gz",
             lambda p: [*check, "--mode", "coverage", "--trace", p], environment=here, judge=no_crash, seconds=30),
        Kind("golden lines", (golden / "some.jsonl").read_bytes(), golden / "some.jsonl",
             lambda p: [tenon, "golden", p.parent.parent, "--jobs", "1", "--failures", *TIMEOUT], change=changed_text, count=20,
             environment=here, judge=no_crash),
        Kind("golden tensors (safetensors)", (golden / "some.safetensors").read_bytes(), golden / "some.safetensors",
             lambda p: [tenon, "golden", p.parent.parent, "--jobs", "1", "--failures", *TIMEOUT],
             change=lambda d, r: (changed_text if r.randrange(2) else changed)(d, r), count=20, environment=here, judge=no_crash),
        Kind("golden lines in the suite", (golden / "some.jsonl").read_bytes(), golden / "some.jsonl",
             lambda p: [*check, "--golden", p.parent.parent, "--filter", "^1/golden"], change=changed_text, environment=here,
             judge=no_crash),
        Kind("exceptions", listed, folder / "known", lambda p: [*check, "--filter", "^0/copy/bytes/1$", "--unsupported", p],
             change=changed_text, environment=here, judge=no_crash),
        Kind("arguments", arguments, folder / "args.json", lambda p: [*check, "--op", "aten::neg", "--args", p],
             change=changed_text, environment=here, judge=no_crash, seconds=30),
        Kind("manifest", (plugin / manifest.name).read_bytes(), plugin / manifest.name, lambda p: [tenon, "doctor"],
             change=changed_text, environment={"TENON_PLUGIN_PATH": "@/plugin", "XDG_CACHE_HOME": "@"}),
        Kind("profile", profile.read_bytes(), profile, lambda p: [tenon, "profile", "--all", p], change=changed_text, count=20,
             judge=says("is not a profile of Tenon")),
        Kind("index of shards", shards(folder / "shards"), folder / "shards" / "model.safetensors.index.json",
             lambda p: [tenon, "file", "check", p], change=changed_text, count=20, environment=here, judge=says("tenon file: ")),
        Kind("measurement of devices", measurement(tenon, folder / "tenon", here), folder / "tenon" / "devices.json",
             lambda p: [tenon, "devices"], change=changed_text, count=20,
             environment={**here, "TENON_DEVICE": "measured", "XDG_CACHE_HOME": "@"}, judge=measured),
    ]
    done = Run([*check, "--mode", "precision", "--filter", "aten::abs/float32$", "--samples", "5", "--json", report], here)
    if done.status == 0:  # built with MPFR
        kinds.append(Kind("report", report.read_bytes(), report,
                          lambda p: [*check, "--mode", "precision", "--filter", "aten::abs/float32$", "--samples", "5", "--against", p],
                          change=changed_text, environment=here, judge=no_crash, seconds=30))
    kinds[9].undamaged = lambda: None  # aten::neg is not an operator of the library: refused by name, whatever its arguments
    return kinds


def check_cache(tenon, plugins, folder, seed, count):
    """Verdicts on plugins are kept beside each other: a damaged one is read as if it were not there."""
    cache = folder / "verdicts"
    cache.mkdir(mode=0o700)
    environment = dict(TENON_PLUGIN_PATH=f"{plugins}/cpu", XDG_CACHE_HOME=str(cache))
    sound, failures = Run([tenon, "devices"], environment), []

    def told(run):  # free memory changes
        return re.sub(r"[\d.]+ free", "", run.text)

    for number in range(count):
        r = random.Random(f"{seed}/cache/{number}")
        for path in (p for p in cache.rglob("*") if p.is_file()):
            path.write_bytes(changed(path.read_bytes(), r) if r.randrange(3) else r.randbytes(r.randrange(300)))
        run = Run([tenon, "devices"], environment)
        if run.status != 0 or told(run) != told(sound):
            failures.append(f"verdict cache, seed {seed}, number {number}: status {run.status}\n{run.text[-1500:]}")
    return count, failures


def check_options(tenon, plugins, seed, count):
    """Options in any order and number: the usage, an error, or the answer."""
    words = ["--list", "--plugin", "--of", "--timeout", "--jobs", "--seed", "--tier", "--filter", "--mode", "--json", "--html",
             "--device", "--args", "--op", "--samples", "--max-ulp", "--isolate", "--against", "--trace", "--golden", "--failures",
             "--all", "--name", "--dir", "-1", "0", "99999999999999999999", "1e9", "nan", "", "(", "[", "cpu:99", "cpu:-7", ":",
             "a" * 5000, "%s%n%s%n", "/nonexistent", "/", "acme", "--", "-", "-h"]
    failures = []
    for number in range(count):
        r = random.Random(f"{seed}/options/{number}")
        command = r.choice(["check", "replay", "golden", "devices", "doctor", "ops", "nonsense"])
        arguments = [r.choice(words) for _ in range(r.randrange(6))]
        run = Run([tenon, command, *arguments], {"TENON_PLUGIN_PATH": f"{plugins}/cpu"})
        if run.status not in (0, 1, 2) or (run.status and not run.text.strip()):
            failures.append(f"options, seed {seed}: {command} {arguments}: status {run.status}\n{run.text[-1500:]}")
    return count, failures


def main():
    tenon, step, plugins = map(os.path.abspath, sys.argv[1:4])
    seed = sys.argv[4] if len(sys.argv) > 4 else "1"
    times = 40 if LONG else 1
    os.umask(0o022)  # a measurement that others can write is not read
    done, failures = 0, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)  # options name files that are then written
        kinds = make_kinds(tenon, step, plugins, folder)
        failures += [f for f in (k.undamaged() for k in kinds) if f]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            attempts = [pool.submit(k.attempt, seed, n) for k in kinds for n in range(k.count * times)]
            for attempt in attempts:
                done += 1
                if attempt.result():
                    failures.append(attempt.result())
        for count, found in (check_cache(tenon, plugins, folder, seed, 4 * times), check_options(tenon, plugins, seed, 12 * times)):
            done += count
            failures += found
    for failure in failures[:20]:
        print("FAIL", failure)
    print(f"{done - len(failures)} passed, {len(failures)} failed, 0 skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
