#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks and prints their tables; `./dev bench` starts it.

Samples of Tenon and of its peers alternate, round by round, and the tables show medians. Compare figures of one run
only: the machine may have other work. The peer is PyTorch, if one of these Pythons has it: TENON_PEER_PYTHON, else
python3, else .venv/bin/python of the checkout.
"""
import argparse
import contextlib
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import notation

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
NOTHING = "-"
CHAIN = 100


# ---- Workers -----------------------------------------------------------------------------------------------------

class Worker:
    """A program that answers the requests of bench.h, for cases on a device. One that has died or lost its device is started
    again for the next case."""

    def __init__(self, *command, device=None):
        self.command = [str(part) for part in command]
        self.device = device
        self.process = None
        self.through = None # the language of the loop of a case, if it says so

    def ask(self, **request):
        if self.device and "open" in request and "device" not in request:
            request = {**notation.on_device(request, self.device), "device": self.device}
        answer = self.exchange(request)
        self.through = answer.get("through", self.through)
        if re.search(r"CUDA error|HIP error|\blost\b", answer.get("absent", "")):
            self.close()
        return answer

    def exchange(self, request):
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        status = self.process.wait()
        self.process = None
        return {"absent": f"the program ended with status {status}"}

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()
        self.process = None


def find_peer(device):
    """A Python that has torch, and what it says of itself and the device, or None and why there is none."""
    named = os.environ.get("TENON_PEER_PYTHON")
    for python in [named] if named else ["python3", ROOT / ".venv/bin/python"]:
        try:
            said = subprocess.run([python, HERE / "peer.py", "version", device or "cpu"], capture_output=True, text=True, check=False)
        except OSError:
            continue
        if said.returncode and subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
            continue
        if not device:
            return None, "PyTorch has no such device"
        if said.returncode:
            return None, f"PyTorch cannot use {device}: {(said.stderr.strip().splitlines() or ['it crashed'])[-1]}"
        return str(python), said.stdout.strip()
    return None, "TENON_PEER_PYTHON names a Python that has torch"


def peer_device(name):
    """PyTorch's name of a device, or None: its HIP devices have CUDA's names."""
    kind, _, number = name.partition(":")
    kind = {"cpu": "cpu", "cuda": "cuda", "hip": "cuda", "xpu": "xpu"}.get(kind)
    return f"{kind}:{number}" if kind and number else kind


class Bench:
    def __init__(self, options):
        self.build = options.build
        self.rounds = options.rounds
        self.seconds = options.seconds
        self.options = options
        self.python, self.torch = find_peer(peer_device(options.device or "cpu"))
        self.memory = "of tensors" if options.device else "whole"
        self.valgrind = shutil.which("valgrind")
        self.results = {}

    def program(self, name):
        if name == "native" and self.options.device:
            return None # the libraries called directly are the CPU's
        return Worker(self.build / "bench" / f"bench_{name}", device=self.options.device)

    def peer(self):
        """The PyTorch worker, or None, also where PyTorch has no such device."""
        library = (self.build / "bench" / "peer_calls.so").resolve()
        if not self.python:
            return None
        return Worker(self.python, "-W", "ignore", HERE / "peer.py", "--calls", library, device=peer_device(self.options.device or "cpu"))

    def compare(self, workers, requests, rounds=None, seconds=None, long_run=math.inf):
        """Median nanoseconds for each worker, or None and the reason. A request None is skipped.
        The first run is not counted: it touches new memory and chooses libraries. A case whose first run takes more
        than `long_run` seconds has one round."""
        reasons, samples, rounds_left = [None] * len(workers), [[] for _ in workers], [0] * len(workers)
        for i, (worker, request) in enumerate(zip(workers, requests)):
            if not worker or not request:
                reasons[i] = "not asked for"
                continue
            answer = worker.ask(**request)
            reasons[i] = answer.get("absent")
            rounds_left[i] = 1 if answer.get("first", 0) > long_run * 1e9 else rounds or self.rounds
        for turn in range(rounds or self.rounds):
            for i, worker in list(enumerate(workers))[::-1 if turn % 2 else 1]: # neither is always the one behind a pause
                if reasons[i] or turn >= rounds_left[i]:
                    continue
                answer = worker.ask(time=seconds or self.seconds)
                reasons[i] = answer.get("absent")
                if not reasons[i]:
                    samples[i].append(answer["ns"])
        return [statistics.median(s) if s and not reasons[i] else None for i, s in enumerate(samples)], reasons

    def instructions(self, program, case):
        """Instructions of one run by callgrind on the CPU: N and 10 N runs, the difference divided."""
        if not self.valgrind or self.options.device:
            return None
        n = 20 if case.startswith("chain") else 200
        totals = []
        for count in (n, 10 * n):
            command = [self.valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null",
                       self.build / "bench" / f"bench_{program}", "count", case, str(count)]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            found = re.search(r"Collected\s*:\s*(\d+)", run.stderr)
            if run.returncode or not found:
                return None
            totals.append(int(found[1]))
        return (totals[1] - totals[0]) / (9 * n)

    @contextlib.contextmanager
    def workers(self, *names):
        """The programs of these names; "peer" is PyTorch's."""
        workers = [self.peer() if name == "peer" else self.program(name) for name in names]
        try:
            yield workers
        finally:
            for worker in filter(None, workers):
                worker.close()

    def keep(self, table, row):
        """Keeps a row of figures, in the file at once: a run may be broken off."""
        self.results.setdefault(table, []).append(row)
        if self.options.json:
            self.options.json.write_text(json.dumps({"torch": self.torch, "tables": self.results}, indent=1) + "\n")

    def is_empty(self, table):
        """Whether no row has a figure of Tenon's."""
        values = [next((row[key] for key in ("ns", "ns_a_batch", "ms", "losses") if key in row), None) for row in self.results.get(table, [])]
        return all((value[0] if isinstance(value, list) else value) is None for value in values)


# ---- Tables ------------------------------------------------------------------------------------------------------

def figure(value, digits=1):
    return NOTHING if value is None else f"{value:,.{digits}f}"


def percent(part, whole):
    return NOTHING if part is None or not whole else f"{100 * part / whole:.0f} %"


def ratio(a, b):
    return a / b if a and b else None


def print_table(title, heads, rows):
    cells = [heads] + [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    print(f"\n{title}\n")
    for number, row in enumerate(cells):
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))
    sys.stdout.flush()


class Report:
    """A table of one benchmark: rows, and what could not be measured."""

    def __init__(self, title, heads):
        self.title, self.heads, self.rows, self.absent = title, heads, [], []

    def add(self, row, *reasons):
        """The reasons are Tenon's and PyTorch's."""
        self.rows.append(row)
        self.absent.append((row[0], reasons))

    def show(self, peer=None):
        print_table(self.title, self.heads, self.rows)
        note_absent(self.absent)
        if peer and peer.through == "Python":
            print("  torch: through Python, there is no compiler for its C++ interface")


def note_absent(cases):
    """Says why figures are missing; PyTorch's reasons once each."""
    theirs = {}
    for name, reasons in cases:
        for i, reason in enumerate(reasons[:2]):
            if reason and reason != "not asked for" and i == 0:
                print(f"  {name}: {reason}")
            elif reason and reason != "not asked for":
                theirs.setdefault(reason, []).append(name)
    for reason, names in theirs.items():
        print(f"  torch, {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {reason}")


# ---- Calls and recording -----------------------------------------------------------------------------------------

def bench_calls(b):
    cases = ["add", "add_kept", "add_out", "add_", "mul_scalar", "unsqueeze", "select", "transpose", "empty", "item", "scope"]
    report = Report("calls: one element, nanoseconds a call", ["case", "tenon ns", "instructions", "torch ns", "torch/tenon"])
    with b.workers("calls", "peer") as workers:
        for case in cases:
            (ours, theirs), reasons = b.compare(workers, [{"open": case}, {"open": case} if case != "scope" else None])
            count = b.instructions("calls", case) if ours else None
            report.add([case, figure(ours, 0), figure(count, 0), figure(theirs, 0), figure(ratio(theirs, ours), 2)], *reasons)
            b.keep("calls", {"case": case, "ns": ours, "instructions": count, "torch_ns": theirs})
    report.show(workers[1])


def bench_recording(b):
    cases = ["chain", "chain_recorded", "chain_backward"]
    found, rows = {}, []
    with b.workers("calls", "peer") as workers:
        for case in cases:
            times, reasons = b.compare(workers, [{"open": case}] * 2)
            found[case] = times + [b.instructions("calls", case) if times[0] else None]
            note_absent([(case, reasons)])
    for name, after, before in [("a product, not recorded", "chain", None),
                                ("extra of recording", "chain_recorded", "chain"),
                                ("a step backward", "chain_backward", "chain_recorded")]:
        ours, theirs, count = [(x - (y or 0)) / CHAIN if x is not None and y is not None else None
                               for x, y in zip(found[after], found[before] if before else [0, 0, 0])]
        rows.append([name, figure(ours, 0), figure(count, 0), figure(theirs, 0), figure(ratio(theirs, ours), 2)])
        b.keep("recording", {"case": name, "ns": ours, "instructions": count, "torch_ns": theirs})
    print_table("recording: a chain of 100 mul of one element, nanoseconds for each",
                ["case", "tenon ns", "instructions", "torch ns", "torch/tenon"], rows)


def table_calls(file):
    """The cases of a table of this folder: name and request."""
    return [(name, notation.request(operator, arguments)) for name, operator, arguments in notation.table(HERE / file)]


# ---- Kernels -----------------------------------------------------------------------------------------------------

def bench_pointwise(b):
    size = 16 * 1024 * 1024
    report = Report("pointwise: 64 MiB tensors, GB/s and share of a copy: memcpy with as many threads, on a device copy_",
                    ["case", "tenon GB/s", "of copy", "torch GB/s", "of copy", "torch/tenon"])
    whole = {"t": [size], "d": "float32"}
    copying = {"open": "call", "op": "aten::copy_", "args": [whole, whole]} if b.options.device else {"open": "memcpy", "m": size}
    with b.workers("operator", "peer", "operator" if b.options.device else "native") as workers:
        for name, call in table_calls("pointwise.tsv"):
            (ours, theirs, copy), reasons = b.compare(workers, [call, call, copying])
            volume = notation.call_bytes(call)
            speeds = [volume / t if t else None for t in (ours, theirs)]
            most = ratio(8 * size, copy)
            report.add([name, figure(speeds[0]), percent(speeds[0], most), figure(speeds[1]), percent(speeds[1], most),
                        figure(ratio(theirs, ours), 2)], *reasons)
            b.keep("pointwise", {"case": name, "ns": ours, "torch_ns": theirs, "bytes": volume, "copy_gbs": most})
    report.show()


def product_of(call):
    """Batch and sizes of a product, for the libraries called directly; "single" is false for a dtype that they do not have."""
    left, right = call["args"][:2]
    *batch, m, k = left["t"]
    return {"batch": math.prod(batch), "m": m, "n": right["t"][-1], "k": k, "transposed": "s" in right,
            "single": left["d"] == "float32"}


def bench_gemm(b):
    report = Report("gemm: GFLOP/s, and share of the best library called directly",
                    ["product", "tenon", "OpenBLAS", "oneDNN", "of best", "torch", "torch/tenon"])
    with b.workers("operator", "peer", "native", "native") as workers:
        for name, call in table_calls("gemm.tsv"):
            p = product_of(call)
            direct = [{"open": library, **p} if p["single"] else None for library in ("openblas", "onednn")]
            times, reasons = b.compare(workers, [call, call] + direct)
            flops = 2 * p["batch"] * p["m"] * p["n"] * p["k"]
            speeds = [flops / t if t else None for t in times]
            best = max([s for s in speeds[2:] if s], default=None)
            report.add([name, figure(speeds[0]), figure(speeds[2]), figure(speeds[3]), percent(speeds[0], best),
                        figure(speeds[1]), figure(ratio(times[1], times[0]), 2)], *reasons)
            b.keep("gemm", {"case": name, "ns": times[0], "torch_ns": times[1], "openblas_ns": times[2],
                            "onednn_ns": times[3], "flops": flops})
    report.show()


def convolution_flops(call):
    a = call["args"]
    forward = call["op"] == "aten::convolution"
    weight = (a[1] if forward else a[2])["t"]
    if forward:
        out = [a[0]["t"][0], weight[0]] + [(size + 2 * pad - kernel) // stride + 1 for size, pad, kernel, stride in
                                          zip(a[0]["t"][2:], a[4], weight[2:], a[3])]
    else:
        out = a[0]["t"]
    return 2 * math.prod(out) * math.prod(weight[1:])


def bench_conv(b):
    report = Report("conv: milliseconds and GFLOP/s",
                    ["convolution", "tenon ms", "GFLOP/s", "torch ms", "GFLOP/s", "torch/tenon"])
    with b.workers("operator", "peer") as workers:
        for name, call in table_calls("conv.tsv"):
            (ours, theirs), reasons = b.compare(workers, [call, call])
            flops = convolution_flops(call)
            report.add([name, figure(ours / 1e6 if ours else None, 2), figure(ratio(flops, ours)),
                        figure(theirs / 1e6 if theirs else None, 2), figure(ratio(flops, theirs)),
                        figure(ratio(theirs, ours), 2)], *reasons)
            b.keep("conv", {"case": name, "ns": ours, "torch_ns": theirs, "flops": flops})
    report.show()


def least_times(b, workers, requests):
    """Least nanoseconds for each worker over interleaved rounds, or None and the reasons: other work only adds to a time."""
    answers = [worker.ask(**request) if worker else {"absent": "not asked for"} for worker, request in zip(workers, requests)]
    reasons, least = [answer.get("absent") for answer in answers], [math.inf] * len(workers)
    for _ in range(b.rounds):
        for i, worker in enumerate(workers):
            answer = {"absent": reasons[i]} if reasons[i] else worker.ask(time=b.seconds)
            reasons[i] = answer.get("absent")
            least[i] = min(least[i], answer.get("ns", math.inf))
    return [t if t < math.inf and not r else None for t, r in zip(least, reasons)], reasons


def bench_devices(b):
    device, families = b.options.device, {}
    report = Report(f"devices: the CPU plugin with {b.options.threads} threads beside {device} and PyTorch there, milliseconds, the least of "
                    f"{b.rounds} rounds",
                    ["case", "cpu", device, f"cpu/{device}", "torch", f"torch/{device}"])
    with b.workers("operator", "operator", "peer") as workers:
        for name, family, operator, arguments in notation.table(HERE / "devices.tsv"):
            if b.options.cases and not any(word in name for word in b.options.cases.split(",")):
                continue
            call = notation.request(operator, arguments)
            (cpu, other, theirs), reasons = least_times(b, workers, [{**call, "device": "cpu"}, call, call])
            if cpu and other:
                families.setdefault(family, []).append(cpu / other)
            report.add([name, *(figure(t and t / 1e6, 2) for t in (cpu, other)), figure(ratio(cpu, other), 2),
                        figure(theirs and theirs / 1e6, 2), figure(ratio(theirs, other), 2)], next(filter(None, reasons[:2]), None), reasons[2])
            b.keep("devices", {"case": name, "device": device, "cpu_ns": cpu, "ns": other, "torch_ns": theirs})
    for family, ratios in families.items():
        report.rows.append([f"  {family}: geometric mean, least", "", "", f"{statistics.geometric_mean(ratios):.2f}, {min(ratios):.2f}", "", ""])
    report.show()


# ---- Whole programs ----------------------------------------------------------------------------------------------

def bench_step(b):
    report = Report(f"step: a training step of the demo's network, batch 128; peak memory in MiB, {b.memory} and since start",
                    ["case", "tenon ms", "torch ms", "torch/tenon", "peak", "torch", "growth", "torch"])
    for case in ("step", "step_bfloat16", "step_sgd", *(["step_graph"] if b.options.device else [])):
        with b.workers("step", "peer") as workers:
            times, reasons = b.compare(workers, [{"open": case}] * 2, rounds=3 * b.rounds)
            peaks = [peak_after(worker, took) for worker, took in zip(workers, times)]
        mib = [peak.get("peak") and peak["peak"] / 2**20 for peak in peaks]
        own = [peak.get("peak") and (peak["peak"] - peak["start"]) / 2**20 for peak in peaks]
        report.add([case, figure(times[0] and times[0] / 1e6, 2), figure(times[1] and times[1] / 1e6, 2),
                    figure(ratio(times[1], times[0]), 2), figure(mib[0]), figure(mib[1]), figure(own[0]), figure(own[1])],
                   *reasons)
        b.keep("step", {"case": case, "ns": times[0], "torch_ns": times[1], "peak_mib": mib[0], "torch_peak_mib": mib[1],
                        "growth_mib": own[0], "torch_growth_mib": own[1]})
    report.show()


def bench_loader(b):
    report = Report("loader: samples a second, by workers; 128 rows of a tensor, 32 images of 128 x 128 from PNG",
                    ["samples", "0", "1 thread", "2", "4", "1 process", "2", "4"])
    suffixes = ["0", "1", "2", "4", "1_process", "2_process", "4_process"]
    for what, batch in (("rows", 128), ("images", 32)):
        rates, reasons = [], []
        with b.workers("loader") as workers:
            for suffix in suffixes:  # not interleaved: a loader that waits reads ahead
                times, reason = b.compare(workers, [{"open": f"{what}_{suffix}"}], rounds=b.rounds)
                rates.append(times[0] and batch * 1e9 / times[0])
                reasons += filter(None, reason)
                b.keep("loader", {"samples": what, "workers": suffix, "ns_a_batch": times[0], "batch": batch})
        report.add([what, *(figure(rate, 0) for rate in rates)], reasons[0] if reasons else None)
    report.show()


def peak_after(worker, took):
    """The memory of a worker after at least 50 steps of `took` nanoseconds, {} if it cannot make them."""
    if not took:
        return {}
    worker.ask(time=max(took * 60e-9, 0.1))
    return worker.ask(memory=True)


# Forms of each model: dtype, and the layout where it is not the usual one.
MODELS = {"gpt2": ["float32", "bfloat16"], "gpt2_decode": ["float32", "bfloat16"],
          "resnet18": ["float32", "float32 channels_last", "bfloat16", "bfloat16 channels_last"],
          "resnet50": ["float32", "float32 channels_last", "bfloat16", "bfloat16 channels_last"],
          "lstm": ["float32"], "vit": ["float32", "bfloat16"], "mlp": ["float32"]}


def bench_models(b):
    chosen = b.options.models.split(",") if b.options.models else list(MODELS)
    for model in chosen:
        report = Report(f"models: a step of {model} (decoding: a token); peak memory in MiB, {b.memory} and since start; losses: the "
                        "tenth, and the largest relative difference of ten", ["", "tenon ms", "torch ms", "torch/tenon", "peak",
                        "torch", "growth", "torch", "loss", "torch", "apart"])
        for form in ["float64 small", *MODELS[model]]:
            dtype, *layout = form.split()
            found, reasons = model_case(b, {"open": model, "dtype": dtype, "layout": "".join(layout), "small": layout == ["small"]})
            report.add([form, *(figure(ms, 2) for ms in found["ms"]), figure(ratio(*reversed(found["ms"])), 2),
                        *(figure(mib, 0) for mib in found["peak"] + found["growth"]),
                        *(f"{values[-1]:.10f}" if values else NOTHING for values in found["values"]),
                        NOTHING if found["apart"] is None else f"{found['apart']:.0e}"], *reasons)
            b.keep("models", {"case": f"{model} {form}", **found})
        report.show()


def model_case(b, request):
    """Figures of a model, each for Tenon and PyTorch, and why Tenon's are missing. Ours writes the weights that both start from."""
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as weights, b.workers("models", "peer") as workers:
        answers = [worker.ask(**request, weights=weights.name) if worker else {"absent": "not asked for"} for worker in workers]
        workers = [None if "absent" in answer else worker for worker, answer in zip(workers, answers)]
        values = [worker.ask(values=10).get("values") if worker else None for worker in workers]
        samples = [[], []]
        for _ in range(b.rounds):
            for worker, taken in zip(workers, samples):
                taken.extend([worker.ask(time=b.seconds).get("ns", math.nan) / 1e6] if worker else [])
        peaks = [worker.ask(memory=True) if worker else None for worker in workers]
    return {"ms": [statistics.median(taken) if taken else None for taken in samples], "values": values,
            "apart": max(abs(x - y) / abs(y) for x, y in zip(*values)) if all(values) else None,
            "peak": [p and p["peak"] / 2**20 for p in peaks],
            "growth": [p and (p["peak"] - p["start"]) / 2**20 for p in peaks]}, [answer.get("absent") for answer in answers]


def start_seconds(command):
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        return time.perf_counter() - begin


def stripped_bytes(path):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "stripped"
        subprocess.run(["strip", "-o", out, path], check=True)
        return out.stat().st_size


def bench_start(b):
    ours, theirs = [], []
    for _ in range(3 * b.rounds):
        ours.append(1000 * start_seconds([b.build / "bench" / "bench_start"]))
        if b.python and len(theirs) < 3:
            theirs.append(1000 * start_seconds([b.python, HERE / "peer.py", "start"]))
    ms, torch_ms = statistics.median(ours), statistics.median(theirs) if theirs else None
    sizes = {name: stripped_bytes(b.build / path) for name, path in
             [("libtenon.so", "libtenon.so"), ("CPU plugin", "plugins/cpu/libtenon_cpu.so")]}
    rows = [["start to first result, ms", figure(ms), figure(torch_ms)]]
    rows += [[f"{name} stripped, MB", figure(size / 1e6, 2), NOTHING] for name, size in sizes.items()]
    print_table("start: the whole process, and sizes", ["", "tenon", "torch"], rows)
    b.keep("start", {"ms": ms, "torch_ms": torch_ms, **sizes})


# ---- The workload ------------------------------------------------------------------------------------------------

def worst_decile(values):
    values = sorted(values)
    return values[max(0, math.ceil(len(values) / 10) - 1)]


def bench_workload(b):
    path = Path(b.options.workload or os.environ.get("TENON_WORKLOAD") or ROOT.parent / "shared/ops/workload_bench.tsv")
    if not path.exists():
        print(f"\nworkload: {path} is not there")
        return
    calls = notation.table(path)
    seconds = b.options.workload_seconds / len(calls) / 4
    found, absent, theirs_absent = {}, {}, []
    with b.workers("operator", "peer") as workers:
        for operator, _, arguments in calls:
            call = notation.request(operator, re.sub(r"\bf16\b", b.options.dtype, arguments))
            (ours, theirs), reasons = b.compare(workers, [call, call], rounds=2, seconds=seconds, long_run=2 * seconds)
            b.keep("workload", {"operator": operator, "arguments": arguments, "dtype": b.options.dtype, "ns": ours, "torch_ns": theirs,
                                "absent": reasons[0] if not ours else None})
            theirs_absent.append((operator, [None, reasons[1]]))
            if not ours:
                absent.setdefault(f"{operator}: {reasons[0]}", []).append(arguments)
            else:
                found.setdefault(operator, []).append((ours, theirs))
    print_workload(b.options.dtype, calls, found, absent)
    note_absent(theirs_absent)


def print_workload(dtype, calls, found, absent):
    rows, ratios = [], []
    for operator, times in sorted(found.items()):
        mine = [theirs / ours for ours, theirs in times if theirs]
        ratios += mine
        rows.append((statistics.median(mine) if mine else None, operator, times, mine))
    rows.sort(key=lambda row: (row[0] is None, row[0]))
    recorded = "as recorded" if dtype == "f16" else f"{dtype} in the place of f16"
    print_table(f"workload, {recorded}: per operator, medians", ["operator", "calls", "tenon us", "torch us", "torch/tenon", "worst"],
                [[operator, len(times), figure(statistics.median(t[0] for t in times) / 1e3),
                  figure(statistics.median([t[1] for t in times if t[1]] or [0]) / 1e3 if mine else None),
                  figure(middle, 2), figure(min(mine, default=None), 2)] for middle, operator, times, mine in rows])
    print(f"\n{sum(len(t) for t in found.values())} of {len(calls)} calls measured")
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"torch/tenon: geometric mean {mean:.2f}, worst decile {worst_decile(ratios):.2f}")
    for text, missing in sorted(absent.items()):
        print(f"  absent ({len(missing)}): {text}")


# ---- Programs of the examples, beside the same ones in Python ----------------------------------------------------

def code_lines(path):
    """Lines that are neither empty nor comments; and those of them that have more than braces."""
    text = path.read_text()
    text = re.sub(r'""".*?"""|^ *#.*?$' if path.suffix == ".py" else r"/\*.*?\*/", "", text, flags=re.S | re.M)
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines), sum(bool(re.search(r"\w", line)) for line in lines)


def last_loss(*command, folder, given=None, **environment):
    """The last loss that a program shows, None if it shows none, and its failure."""
    done = subprocess.run(list(map(str, command)), cwd=folder, input=given, capture_output=True, text=True, errors="replace",
                          env={**os.environ, **environment}, check=False)
    losses = re.findall(r"loss ([\d.]+)", done.stderr)
    return float(losses[-1]) if losses else None, done.stderr.strip().splitlines()[-1] if done.returncode else None


def example_source(name):
    return next((ROOT / "examples" / name).glob("main.c*"))


def example_program(b, name, folder):
    """An example compiled against the build."""
    rooms = [f"-I{ROOT / room / 'include'}" for room in ("abi", "nn", "optim", "data", "files", "progress")]
    program, source = folder / name, example_source(name)
    compiler = ["c++", "-std=c++20"] if source.suffix == ".cpp" else ["cc", "-std=gnu17"]
    subprocess.run([*compiler, "-O2", *rooms, source, f"-L{b.options.build}",
                    "-ltenon-train", "-ltenon", "-lm", f"-Wl,-rpath,{b.options.build.resolve()}", "-o", program], check=True)
    return program


def bench_programs(b):
    report = Report("programs: lines of code in C and Python, without empty ones and comments (in C also without those of braces "
                    "alone), and the loss of the last of 20 steps", ["program", "C", "without braces", "Python", "C/Python", "loss", "torch"])
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        text = folder / "text"
        text.write_bytes(b"".join(file.read_bytes() for file in sorted((ROOT / "docs").glob("*.md"))))
        for name, arguments in (("gpt2", [text, 20]), ("gpt2_cpp", [text, 20]), ("decode", None), ("char_lstm", [text, 20]), ("resnet", None)):
            peer = HERE / f"programs/{name.removesuffix('_cpp')}.py"
            (c, plain), (python, _) = code_lines(example_source(name)), code_lines(peer)
            program, losses, why = example_program(b, name, folder), [None, None], None
            if arguments:
                losses[0], why = last_loss(program, *arguments, folder=folder, TENON_DEVICE="cpu")
                if b.python and not why:
                    losses[1], why = last_loss(b.python, peer, *arguments, folder=folder)
            elif name == "decode":
                for command in ([program, "gpt2.safetensors"], [b.python, HERE / "programs/decode.py", "gpt2.pt"] if b.python else None):
                    why = why or (command and last_loss(*command, 20, folder=folder, given="the core\n", TENON_DEVICE="cpu")[1])
            report.add([name, str(c), str(plain), str(python), figure(c / python, 2), *(figure(loss, 4) for loss in losses)], why)
            b.keep("programs", {"program": name, "c": c, "c_without_braces": plain, "python": python, "losses": losses})
    report.show()


# ---- The program -------------------------------------------------------------------------------------------------

BENCHES = {"calls": bench_calls, "recording": bench_recording, "pointwise": bench_pointwise, "gemm": bench_gemm,
           "conv": bench_conv, "devices": bench_devices, "step": bench_step, "models": bench_models, "programs": bench_programs, "loader": bench_loader, "start": bench_start, "workload": bench_workload}


ON_DEVICES = ["calls", "recording", "pointwise", "gemm", "conv", "devices", "step", "models", "workload"]
OF_SOURCES = ["programs", "start"] # a packed copy has no sources


def all_benches(options):
    if options.device:
        return ON_DEVICES
    return [name for name in BENCHES if name != "devices" and not (name in OF_SOURCES and (ROOT / "packed").exists())]


def main():
    parser = argparse.ArgumentParser(description="Runs the benchmarks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {' '.join(BENCHES)}; when none is given all that run on the CPU or, with --device, there")
    parser.add_argument("--json", metavar="FILE", type=Path, help="writes all figures there, too")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side (5)")
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a turn (0.1)")
    parser.add_argument("--workload", metavar="FILE", help="recorded calls; TENON_WORKLOAD, else beside the checkout")
    parser.add_argument("--workload-seconds", type=float, default=90, help="for each side of the workload (90)")
    parser.add_argument("--dtype", default="f16", choices=["f16", "bf16", "f32"], help="of the workload, in the place of f16, in which most of it was recorded")
    parser.add_argument("--models", metavar="A,B", help=f"only these models of: {' '.join(MODELS)}")
    parser.add_argument("--device", metavar="NAME", help="where the cases run, those of PyTorch, too: cuda:0, opencl:0, ...")
    parser.add_argument("--cases", metavar="A,B", help="of `devices` only the cases whose names contain one of these")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build folder")
    parser.add_argument("--threads", type=int, default=2, help="threads of every side (2)")
    parser.add_argument("--cpu-time", action="store_true", help="the processes' own CPU time instead of wall time, for one "
                        "thread on a busy machine")
    options = parser.parse_args()
    os.environ["TENON_BENCH_THREADS"] = str(options.threads)
    if options.cpu_time:
        os.environ["TENON_BENCH_CPU_TIME"] = "1"
    plugin = options.build / "plugins" / (options.device or "").split(":")[0]
    if options.device and plugin.is_dir(): # in the build folder GPU plugins are loaded only on request
        os.environ.setdefault("TENON_PLUGIN_ADD", str(plugin.resolve()))
    unknown = [name for name in options.names if name not in BENCHES]
    if unknown:
        parser.error(f"no benchmark {unknown[0]}; there are: {' '.join(BENCHES)}")
    if "devices" in options.names and not options.device:
        parser.error("devices needs a --device, `opencl:0` for one")
    b = Bench(options)
    print(f"peer: PyTorch {b.torch}" if b.python else f"peer: none, its columns stay empty; {b.torch}")
    if not b.valgrind:
        print("instructions: none without valgrind")
    empty = []
    for name in options.names or all_benches(options):
        BENCHES[name](b)
        empty += [name] if name in b.results and b.is_empty(name) else []
    if empty:
        sys.exit(f"nothing was measured by: {' '.join(empty)}")


if __name__ == "__main__":
    main()
