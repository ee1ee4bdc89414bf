#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch side of the benchmarks: answers the requests of bench.h, one line of JSON each.

Started by run.py with a Python that has torch. `peer.py start` adds two elements, prints the sum and ends.
`peer.py version` prints torch's. An argument `--calls FILE.so` says where the C++ loops of calls go; they are compiled
when that is missing, and replaced by Python's where there is no compiler.

PyTorch computes as Tenon does without permissions of the program: no TF32, sums of half types in float32.
"""
import ctypes
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

import peer_models

THREADS = int(os.environ.get("TENON_BENCH_THREADS") or 2)
NOW = time.process_time if os.environ.get("TENON_BENCH_CPU_TIME") else time.perf_counter
SAMPLES = 5
SHORTEST_SAMPLE = 20e-6
CHAIN = 100


# ---- Calls -------------------------------------------------------------------------------------------------------

def compile_calls(library):
    """The loops of peer_calls.cpp as a function, or None."""
    source = Path(__file__).with_name("peer_calls.cpp")
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        root = Path(torch.__file__).parent
        command = ["g++", "-O2", "-shared", "-fPIC", "-std=c++20", "-w", str(source), "-o", str(library),
                   f"-I{root}/include", f"-I{root}/include/torch/csrc/api/include",
                   f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
                   f"-L{root}/lib", f"-Wl,-rpath,{root}/lib", "-ltorch_cpu", "-lc10"]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=600)
        except (OSError, subprocess.SubprocessError):
            return None
    run = ctypes.CDLL(str(library)).peer_run
    run.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_char_p]
    return run


def loop(body):
    def run(n):
        for _ in range(n):
            body()
    return run


def python_calls(device):
    """The same loops in Python. Their tensors are on the default device."""
    a, b, out, rows = torch.ones(1), torch.ones(1), torch.ones(1), torch.zeros(4, 4)
    x, w = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)

    def chain(first, factor, backward=False):
        y = first
        for _ in range(CHAIN):
            y = y * factor
        if backward:
            y.backward()
            first.grad = factor.grad = None

    return {
        "add": loop(lambda: torch.add(a, b)),
        "add_out": loop(lambda: torch.add(a, b, out=out)),
        "add_": loop(lambda: out.add_(b)),
        "mul_scalar": loop(lambda: torch.mul(a, 2.0)),
        "unsqueeze": loop(lambda: rows.unsqueeze(0)),
        "select": loop(lambda: rows.select(0, 1)),
        "transpose": loop(lambda: rows.transpose(0, 1)),
        "empty": loop(lambda: torch.empty(1, device=device)),
        "item": loop(lambda: a.item()),
        "chain": loop(lambda: chain(a, b)),
        "chain_recorded": loop(lambda: chain(x, w)),
        "chain_backward": loop(lambda: chain(x, w, True)),
    }


# ---- Any operator ------------------------------------------------------------------------------------------------

def tensor(wish):
    sizes, dtype = wish["t"], getattr(torch, wish["d"])
    low, high = wish.get("low", 0), wish.get("high", 1)
    strides = wish.get("s")
    t = torch.empty(sizes, dtype=dtype) if strides is None else torch.empty_strided(sizes, strides, dtype=dtype)
    flat = t.as_strided([t.untyped_storage().nbytes() // t.element_size()], [1])
    if wish.get("offsets"):
        flat.copy_(torch.arange(len(flat), device=t.device) * high // max(len(flat), 1))
    elif t.is_complex():
        flat.fill_((low + high) / 2)
    elif len(flat):
        numbers = torch.empty(min(len(flat), 4096), dtype=torch.float64, device="cpu").uniform_(low, high)
        numbers = (numbers if t.is_floating_point() else numbers.floor()).to(dtype).to(t.device)
        whole = len(flat) // len(numbers) * len(numbers)
        flat[:whole].view(-1, len(numbers)).copy_(numbers)
        flat[whole:].copy_(numbers[:len(flat) - whole])
    return t


def value(j):
    if isinstance(j, list):
        return [value(item) for item in j]
    if not isinstance(j, dict):
        return j
    if "t" in j:
        return tensor(j)
    if "f" in j:
        return float(j["f"])
    return getattr(torch, j["dtype"] if "dtype" in j else j["layout"])


def operator(name):
    """aten::add.Tensor"""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")


def open_call(request):
    function = operator(request["op"])
    args, kwargs = value(request["args"]), {key: value(j) for key, j in request.get("kwargs", {}).items()}
    if "undo" not in request:
        return loop(lambda: function(*args, **kwargs))
    undo = operator(request["undo"])
    return loop(lambda: (function(*args, **kwargs), undo(*args)))


# ---- The training step -------------------------------------------------------------------------------------------

def open_step(form):
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.MaxPool2d(2), nn.BatchNorm2d(16), nn.ReLU(),
                          nn.Conv2d(16, 32, 3, padding=1), nn.MaxPool2d(2), nn.BatchNorm2d(32), nn.ReLU(),
                          nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(), nn.Linear(128, 10))
    if form in ("sgd", "graph"):
        optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    else:
        optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-2, fused=True)
    images, labels = torch.rand(128, 1, 28, 28) * 2 - 1, torch.arange(128) % 10

    def step():
        with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=form == "bfloat16"):
            logits = model(images)
        torch.nn.functional.cross_entropy(logits.float(), labels).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return loop(captured(step) if form == "graph" else step)


def captured(step):
    """Replays a step that was captured after some that make what stays."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return lambda kept=step: graph.replay()  # the step's tensors are the graph's memory


# ---- Requests ----------------------------------------------------------------------------------------------------

class Server:
    def __init__(self, library):
        self.library = library
        self.native = None
        self.calls = None
        self.run = None
        self.value = None  # a step that returns its value
        self.through = None  # the language of the loop of a case of calls
        self.device = "cpu"
        self.calls_ahead = 0  # on a device only the host's time counts; after so many runs it waits
        self.start = status_bytes("VmRSS")

    def find(self, request):
        name = request["open"]
        if name == "call":
            return open_call(request)
        if name in peer_models.MODELS:
            step = peer_models.open_model(request)
            self.value = step
            return loop(step)
        if name.startswith("step"):
            return open_step(name.partition("_")[2])
        if self.calls is None:
            self.calls = python_calls(self.device)
            self.native = compile_calls(self.library) if self.library else None
        self.calls_ahead = 256 // CHAIN if name.startswith("chain") else 256  # as in calls.c
        case, device = name.encode(), self.device.encode()
        self.through = "C++" if self.native and self.native(case, 1, device) == 0 else "Python"
        if self.through == "C++":
            return lambda n: self.native(case, n, device)
        if name not in self.calls:
            raise LookupError(f"no case '{name}'")
        return self.calls[name]

    def open(self, request):
        self.run, self.value, self.calls_ahead, self.through = None, None, 0, None
        device = request.get("device", "cpu")
        if device != self.device:
            if device != "cpu":
                torch.get_device_module(device).set_device(device)  # whose streams are waited for
            torch.ones(1, device=device)  # fails where there is no such device
            self.device, self.calls = device, None
        with torch.device(device):  # while the inputs are made: it makes each call dearer
            self.run = self.find(request)
        return {"first": self.sample(1) * 1e9, "through": self.through}

    def finish(self):
        if self.device != "cpu":
            torch.get_device_module(self.device).synchronize()

    def sample(self, n):
        host_only = self.calls_ahead and self.device != "cpu"
        took = 0
        while n > 0:
            count = min(n, self.calls_ahead) if host_only else n
            begin = NOW()
            self.run(count)
            if not host_only:
                self.finish()
            took += NOW() - begin
            self.finish()
            n -= count
        return took

    def time(self, seconds):
        if not self.run:
            return {"absent": "no case is open"}
        n, took, end = 1, self.sample(1), NOW() + seconds
        while took < SHORTEST_SAMPLE or took * SAMPLES < seconds / 4:
            want = seconds / SAMPLES / max(took, 1e-9)
            n = int(n * min(max(want, 2), 8))
            took = self.sample(n)
        samples = []
        while not samples or (len(samples) < SAMPLES and NOW() < end):
            samples.append(self.sample(n) * 1e9 / n)
        return {"ns": statistics.median(samples), "n": n}

    def answer(self, request):
        if "open" in request:
            return self.open(request)
        if "time" in request:
            return self.time(request["time"])
        if "values" in request:
            return {"values": [self.value() for _ in range(request["values"])]}
        if self.device != "cpu":
            return {"peak": torch.get_device_module(self.device).max_memory_allocated(self.device), "start": 0}
        return {"peak": status_bytes("VmHWM"), "start": self.start}


def status_bytes(key):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return 0


def serve(library):
    torch.set_num_threads(THREADS)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    server = Server(library)
    gc.disable()
    for line in sys.stdin:
        try:
            answer = server.answer(json.loads(line))
        except Exception as error:  # whatever PyTorch refuses is a missing figure, not the end of the run
            answer = {"absent": str(error).split("\n")[0][:300]}
        print(json.dumps(answer), flush=True)


def describe(device):
    """PyTorch's version and, beside the CPU, what computes there. Fails where there is no such device."""
    torch.ones(1, device=device)
    if device == "cpu":
        return torch.__version__
    module = torch.get_device_module(device)
    parts = [torch.__version__, f"on {module.get_device_name(device)}", torch.version.cuda and f"CUDA {torch.version.cuda}",
             torch.version.cuda and f"cuDNN {torch.backends.cudnn.version()}"]
    return ", ".join(filter(None, parts))


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["version"]:
        print(describe(*arguments[1:2] or ["cpu"]))
    elif arguments[:1] == ["start"]:
        print((torch.ones(1) + torch.ones(1)).item(), flush=True)
    else:
        serve(Path(arguments[1]) if arguments[:1] == ["--calls"] else None)


if __name__ == "__main__":
    main()
