#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon check`: what it finds in a plugin with a known fault, exit statuses, lists of exceptions, its reports.

    check.py TENON FOLDER_OF_PLUGINS WRONG_PLUGIN
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from html.parser import HTMLParser
from pathlib import Path

from suite import Failure, end, run_checks, session


class Suite:
    """The command, the plugins, and a folder for files."""

    def __init__(self, tool, plugins, wrong, folder):
        self.tool, self.wrong, self.folder = tool, wrong, Path(folder)
        self.cpu, self.reference, self.null = (f"{plugins}/{n}/libtenon_{n}.so" for n in ("cpu", "reference", "null"))
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("TENON_") and k != "LD_PRELOAD"}

    def run(self, *arguments, expect=0, **environment):
        done = subprocess.run([self.tool, "check", *map(str, arguments)], capture_output=True, text=True, timeout=600,
                              env={**self.environment, **environment})
        if done.returncode != expect:
            raise Failure(f"{arguments}: status {done.returncode}, expected {expect}\n{done.stdout[-3000:]}"
                          f"\n{done.stderr[-1000:]}")
        return done

    def ended_report(self, *arguments, **environment):
        """Of a run that was ended when a case of its only worker slept."""
        command = [self.tool, "check", *arguments, "--jobs", "1", "--json", "-"]
        with session(command, {**self.environment, **environment}) as process:
            last = now = None
            while process.poll() is None and (now is None or now != last):
                time.sleep(1)
                last, now = now, sleeper(process.pid)
            done = end(process)
        expect(done.returncode == 1, f"status {done.returncode}: {done.stdout[-2000:]}{done.stderr[-1000:]}")
        return json.loads(done.stdout)

    def report(self, *arguments, **kwargs):
        return json.loads(self.run(*arguments, "--json", "-", **kwargs).stdout)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path


def sleeper(parent):
    """The child of a process and the time that it has used, if there is one and it sleeps."""
    try:
        for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            state, *fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            if state == "S":
                return child, fields[10:12]
    except OSError: # it has ended meanwhile
        pass
    return None


def expect(condition, what):
    if not condition:
        raise Failure(what)


def bad_cases(report):
    return {c["name"]: c for c in report["cases"] if not c["as_expected"]}


def check_usage(suite):
    for arguments in ([], ["a.so", "b.so"], ["a.so", "--mode", "dance"], ["a.so", "--tier", "9"], ["a.so", "--what"]):
        done = suite.run(*arguments, expect=2)
        expect("usage: tenon check" in done.stderr, f"{arguments}: usage is shown")
    expect("usage: tenon check" in suite.run("--help").stdout, "help")
    done = suite.run("/nonexistent.so", expect=1)
    expect("no file '/nonexistent.so'" in done.stdout, "a file that is not there is named")
    done = suite.run(suite.null, expect=1)
    expect("no device here" in done.stdout and "TENON_NULL_DEVICES" in done.stdout, "no device, and why")


def check_tier0(suite):
    for plugin in (suite.cpu, suite.reference, suite.null, suite.wrong):
        report = suite.report(plugin, "--tier", 0, TENON_NULL_DEVICES="2")
        expect(report["status"] == "passed" and report["tiers"][0]["whole"], f"{plugin}: tier 0")
        expect(report["tiers"][0]["passed"] >= 40, f"{plugin}: {report['tiers'][0]['passed']} cases passed")


def check_faults(suite):
    """Each fault is found by the case that is about it."""
    faults = {"copy": ("0/copy/bytes/4097", "byte 4096 of 4097 is"),
              "alignment": ("0/memory/alignment", "is not aligned to 64 bytes"),
              "fill": ("0/slot/memory.fill", "memory.fill of 3 bytes from 1 on with 0xff: byte 4 is 0xff, expected 0x"),
              "name": ("0/kernels/names", "no operator has the name 'aten::reluu' of a kernel row, so nothing calls it; "
                       "did you mean aten::relu"),
              "peer": ("0/slot/copy.peer", "copy.peer of 2 bytes to device 0: byte 4095 is 0x"),
              "self-test": ("0/slot/self_test", "self_test: status 4 (bad device): wrong: the fan does not turn"),
              "experimental": ("0/experimental/tenon.x.missing", "tenon.experimental lists 'tenon.x.missing', which get_interface "
                               "does not give"),
              "query": ("0/stream/create", "query of an empty stream: 0, expected 1")}
    for fault, (case, text) in faults.items():
        report = suite.report(suite.wrong, "--tier", 0, expect=1, TENON_TEST_FAULT=fault)
        bad = bad_cases(report)
        expect(case in bad, f"{fault}: {case} fails, but {sorted(bad)} did")
        expect(text in bad[case]["reason"], f"{fault}: {bad[case]['reason']}")
        expect("mylib" not in bad[case]["reason"], f"{fault}: operators of libraries")
        named = "tenon.x.there, tenon.x.missing" if fault == "experimental" else ""
        expect(report["subject"]["experimental"] == named, f"{fault}: experimental interfaces")
        expect(report["status"] == "failed" and report["not_as_expected"] == len(bad), f"{fault}: status")
    done = suite.run(suite.wrong, "--tier", 0, expect=1, TENON_TEST_FAULT="copy")
    named = [line.startswith("failed 0/slot/") for line in done.stdout.splitlines() if line.startswith("failed 0/")]
    expect({*named} == {True, False} and named == sorted(named, reverse=True), f"cases of slots come first: {done.stdout}")
    expect("gdb" not in done.stdout, "nothing crashed")
    done = suite.run(suite.wrong, "--filter", "^0/copy/bytes/1$", expect=1, TENON_TEST_FAULT="close")
    expect("the end of a context" in done.stdout and "Aborted" in done.stdout, "a crash at the end")
    done = suite.run(suite.wrong, "--filter", "^0/copy/bytes/1$", expect=1, TENON_TEST_FAULT="load")
    expect("Aborted" in done.stdout, "a crash while loading")


def check_kernels(suite):
    """Tier 1: a wrong kernel, one that crashes, hangs or breaks its word, and none at all."""
    add = "1/pointwise/aten::add.Tensor/float32"
    report = suite.report(suite.wrong, "--filter", f"^{add}/", expect=1, TENON_TEST_FAULT="add")
    bad = bad_cases(report)
    expect(f"{add}/contiguous" in bad and "165 of 165 differ" in bad[f"{add}/contiguous"]["reason"], f"{sorted(bad)}")
    expect(f"{add}/empty" not in bad, "an empty call reaches no kernel")
    report = suite.report(suite.wrong, "--filter", "^1/pointwise/aten::mul.Tensor/float32/", expect=1,
                          TENON_TEST_FAULT="strides")
    classes = {name.rsplit("/", 1)[1] for name in bad_cases(report)}
    expect({"sliced", "broadcast", "transposed"} <= classes, f"strides: {classes}")
    expect(not classes & {"contiguous", "0-dim", "large", "host-number"}, f"strides: {classes}")
    total = "^1/reduce/aten::sum/float32/(contiguous|sliced)"
    report = suite.report(suite.wrong, "--filter", total, expect=1, TENON_TEST_FAULT="crash")
    expect([c["outcome"] for c in report["cases"]] == ["crashed"] * 2, "a crash is a finding, and not the end")
    expect("Aborted" in report["cases"][0]["reason"], "with its signal")
    expect("warning: " in report["cases"][0]["log"] and "queue 3 is stuck" in report["cases"][0]["log"], "and what was logged before it")
    done = suite.run(suite.wrong, "--filter", total, expect=1, TENON_TEST_FAULT="crash")
    way = f"gdb -ex run --args tenon check {suite.wrong} --jobs 0 --filter '^1/reduce/aten::sum/float32/contiguous$'"
    expect(f"to see where: {way}\n" in done.stdout, f"how to see where: {done.stdout}")
    for jobs in ("0", "1"):
        page = suite.folder / "native.html"
        done = suite.run(suite.wrong, "--filter", total, "--jobs", jobs, "--html", page, expect=1, TENON_TEST_FAULT="native")
        expect("the queue refuses the sum" in done.stdout and "-36: CL_INVALID_COMMAND_QUEUE" in done.stdout, f"the vendor's own words: {done.stdout}")
        expect("queue 3 is stuck" in page.read_text(), "and the page has it")
        expect("log: warning: " in done.stdout and "queue 3 is stuck" in done.stdout, f"what was logged meanwhile: {done.stdout}")
    report = suite.report(suite.wrong, "--filter", total, "--timeout", 1, expect=1, TENON_TEST_FAULT="hang")
    expect(all("not done after 1 second" in c["reason"] for c in report["cases"]), "so is a hang")
    report = suite.report(suite.wrong, "--filter", total, "--isolate", expect=1, TENON_TEST_FAULT="breach")
    expect(all("refused after it had agreed" in c["reason"] for c in report["cases"]), "a refusal after can_run said yes")


def check_absence(suite):
    """What the CPU answers is told as absent, never as passed; it fails only where the tier is asked for."""
    some = "^(0/copy/bytes/1|1/(pointwise/aten::(add.Tensor|silu)|sort/aten::sort.stable|copy/prim::copy)/float32/contiguous)$"
    report = suite.report(suite.wrong, "--filter", some, TENON_TEST_FAULT="no-kernels")
    outcomes = {c["name"].split("/")[2]: c["outcome"] for c in report["cases"]}
    expect(outcomes == {"bytes": "passed", "aten::add.Tensor": "absent", "aten::silu": "absent",
                        "aten::sort.stable": "absent", "prim::copy": "absent"}, f"{outcomes}")
    tier = report["tiers"][1]
    expect(sorted(tier["missing"]) == ["copy/prim::copy", "pointwise/aten::add.Tensor", "sort/aten::sort.stable"],
           f"{tier}")
    expect(tier["optional"] == ["pointwise/aten::silu"] and not tier["whole"], f"{tier}")
    report = suite.report(suite.wrong, "--filter", some, "--tier", 1, expect=1, TENON_TEST_FAULT="no-kernels")
    expect(report["not_as_expected"] == 3, "asked for, absence fails")
    report = suite.report(suite.wrong, "--tier", 1, "--filter", "^1/pointwise/aten::(add.Tensor|polygamma)/float32/contiguous")
    tier = report["tiers"][0]
    expect(tier["lacking"] == ["pointwise/aten::polygamma"] and tier["whole"], "a kernel may lack an operator: it is told")
    report = suite.report(suite.wrong, "--filter", some)
    ways = {c["name"].split("/")[2]: c.get("way") for c in report["cases"]}
    expect(ways["aten::add.Tensor"] == "native" and ways["aten::silu"] == "composite", f"{ways}")


def check_two_of_tier1(suite):
    """The CPU and the reference device agree on a part of tier 1, by kernels of their own."""
    some = "^1/(pointwise/aten::(add.Tensor|exp|where.self|div.Tensor_mode)|reduce/aten::(sum.dim_IntList|argmax)|scan/|bmm/|random/)"
    for plugin in (suite.cpu, suite.reference):
        report = suite.report(plugin, "--filter", some + ".*/(float32|int64|bfloat16)/")
        passed = [c for c in report["cases"] if c["outcome"] == "passed"]
        expect(len(passed) > 200 and all(c["way"] == "native" for c in passed), f"{plugin}: {len(passed)} passed")


def check_networks(suite):
    """Tiers 2 to 4: with the twelve kernels alone a perceptron learns; parts of networks agree, gradients, too."""
    report = suite.report(suite.reference, "--filter", "^(2/perceptron/primitives/float32|3/(convolution/padded|attention/products|"
                          "norm/layer)/float32|4/)", TENON_REFERENCE_DEVICES="2")
    outcomes = {c["name"]: c["outcome"] for c in report["cases"]}
    expect(outcomes["2/perceptron/primitives/float32"] == "passed", f"{outcomes}")
    expect(outcomes["3/attention/products/float32"] == "passed", f"{outcomes}")
    expect(outcomes["3/convolution/padded/float32"] == "passed", "a composite over windows and products")
    expect(outcomes["4/devices/copies"] == outcomes["4/devices/gradients"] == "passed", f"{outcomes}")
    extra = {n: o for n, o in outcomes.items() if n.startswith(("4/graph/", "4/collectives/"))}
    expect(len(extra) > 100 and set(extra.values()) <= {"passed", "skipped"}, f"{extra}")
    expect(all(extra[f"4/graph/{n}"] == "passed" for n in ("training-step", "streams", "refusals", "memory", "update")), f"{extra}")
    expect(all(outcomes[f"4/{n}"] == "passed" for n in ("settings", "interop/dlpack", "interop/memory", "interop/event")), f"{outcomes}")
    expect(extra["4/collectives/reduce_scatter/sum/bfloat16"] == extra["4/collectives/order"] == "passed", f"{extra}")
    report = suite.report(suite.null, "--filter", "^4/(graph/update|collectives/order)", TENON_NULL_DEVICES="2")
    reasons = {c["name"]: (c["outcome"], c["reason"]) for c in report["cases"]}
    graph, order = reasons["4/graph/update"], reasons["4/collectives/order"]
    expect(graph[0] == "absent" and "allocator of its own" in graph[1], f"why there are no graphs: {graph}")
    expect(order[0] == "skipped" and "reduces no float32" in order[1], f"why nothing is reduced: {order}")
    report = suite.report(suite.wrong, "--filter", "^2/perceptron/primitives/float32", expect=1, TENON_TEST_FAULT="strides")
    expect(report["cases"][0]["outcome"] == "failed" and "loss" in report["cases"][0]["reason"], "a wrong product learns otherwise")


def check_modes(suite):
    calls = suite.file("calls.jsonl", "\n".join([
        '{"op":"aten::add.Tensor","n":3,"args":[{"t":[8,16],"d":"float32"},{"t":[16],"d":"float32"}],"kwargs":{"alpha":2}}',
        '{"op":"aten::add.Tensor","n":2,"args":[{"t":[64,64],"d":"float32"},{"t":[64],"d":"float32"}],"kwargs":{"alpha":1}}',
        '{"op":"aten::exp","n":5,"args":[{"t":[100],"d":"float32"}],"kwargs":{}}',
        '{"op":"aten::softmax.int","n":1,"args":[{"t":[4,5],"d":"float32","s":[1,4]},1],"kwargs":{}}']) + "\n")
    report = suite.report(suite.wrong, "--mode", "coverage", "--trace", calls)
    rows = {row[0]: row[1:] for row in report["tables"]["coverage"]["rows"]}
    expect(rows["aten::add.Tensor"] == [5, 5, 0, 0, 0, 0], f"two calls of one form, native: {rows}")
    expect(rows["all"][0] == 11, f"all calls: {rows}")
    # What a program calls, written down by the library: here by the suite itself, as good a program as any.
    written = suite.folder / "written.jsonl"
    suite.report(suite.reference, "--filter", "^2/perceptron/primitives/float32", TENON_TRACE=written)
    seen = [json.loads(line) for line in written.read_text().splitlines()]
    products = [c for c in seen if c["op"] == "aten::mm"]
    expect(products and all(a["d"] == "float32" and len(a["t"]) == 2 for c in products for a in c["args"]), f"{products}")
    report = suite.report(suite.wrong, "--mode", "coverage", "--trace", written)
    rows = {row[0]: row[1:] for row in report["tables"]["coverage"]["rows"]}
    expect(rows["aten::mm"][0] == len(products) and rows["all"][0] == len(seen), f"as many calls as were written: {rows}")
    report = suite.report(suite.wrong, "--mode", "coverage", "--trace", calls, TENON_TEST_FAULT="no-kernels")
    rows = {row[0]: row[1:] for row in report["tables"]["coverage"]["rows"]}
    expect(rows["aten::exp"] == [5, 0, 0, 5, 0, 0] and rows["aten::add.Tensor"][:5] == [5, 0, 0, 5, 0], f"on the CPU: {rows}")
    # Smallest call: 576 bytes in, 512 out; all five have 3 * 576 + 2 * 16640 bytes in: 60.8 times as much.
    expect(rows["aten::add.Tensor"][5] == 0.06, f"megabytes copied: {rows}")
    kernels = [row[0] for row in report["tables"]["next"]["rows"]]
    expect(kernels[0] == "aten::add.Tensor" and "aten::exp" in kernels, f"what to write next: {kernels}")
    expect({row[1] for row in report["tables"]["next"]["rows"]} == {"float32"}, "and in which dtype")
    layers = suite.file("layers.jsonl", '{"op":"aten::native_layer_norm","n":7,"args":[{"t":[4,8],"d":"float32"},[8],{"t":[8],"d":"float32"},'
                        '{"t":[8],"d":"float32"},{"f":"1e-5"}]}\n')
    report = suite.report(suite.reference, "--mode", "coverage", "--trace", layers)
    fuse = report["tables"]["fuse"]["rows"]
    expect(len(fuse) == 1 and fuse[0][0] == "aten::native_layer_norm" and fuse[0][3] == 7, f"composites to fuse: {fuse}")
    expect(fuse[0][4] >= 4 and fuse[0][2] == 7 * (fuse[0][4] - 1), f"launches that a kernel saves: {fuse}")
    # Large calls are made smaller where that is legal (a view of 2 x 2 x 15 elements as 15 x 15 is not);
    # what is copied is told for the recorded sizes: 8 MiB in, 4 MiB out. The strided one is read as it lies.
    large = suite.file("large.jsonl", "\n".join([
        '{"op":"aten::add.Tensor","n":1,"args":[{"t":[1024,1024],"d":"float32"},{"t":[1024,1024],"d":"float32","s":[1,1024]}]}',
        '{"op":"aten::view","n":1,"args":[{"t":[96,10,960],"d":"float32"},[960,960]]}',
        '{"op":"aten::gather","n":1,"args":[{"t":[300,700],"d":"float32"},1,{"t":[300,50],"d":"int64","low":0,"high":700}]}']) + "\n")
    for more in ((), ("--full-size",)):
        report = suite.report(suite.wrong, "--mode", "coverage", "--trace", large, *more, TENON_TEST_FAULT="no-kernels")
        rows = {row[0]: row[1:] for row in report["tables"]["coverage"]["rows"]}
        expect(rows["aten::add.Tensor"][:5] == [1, 0, 0, 1, 0] and abs(rows["aten::add.Tensor"][5] - 12.58) < 0.1, f"{more}: {rows}")
        expect(rows["aten::view"][:5] == [1, 1, 0, 0, 0] and rows["aten::gather"][:5] == [1, 0, 0, 1, 0], f"{more}: {rows}")
    done = suite.run(suite.wrong, "--mode", "coverage", "--trace", suite.file("none.jsonl", "nonsense\n"), expect=1)
    expect("none.jsonl:1 is not a call" in done.stdout, "a file that is none")
    report = suite.report(suite.wrong, "--mode", "speed", "--trace", calls)
    expect(len(report["tables"]["speed"]["rows"]) == 3 and all(row[4] > 0 for row in report["tables"]["speed"]["rows"]),
           f"{report['tables']}")
    report = suite.report(suite.wrong, "--mode", "speed", "--trace", large, "--max-bytes", "65536", "--filter", "add.Tensor")
    rows = report["tables"]["speed"]["rows"]
    expect(len(rows) == 1 and 0 < rows[0][3] <= 65.6 and rows[0][4] > 0, f"a cap on the bytes of a call: {rows}")
    report = suite.report(suite.wrong, "--mode", "speed", "--trace", calls, "--max-seconds", "0.001")
    expect(len(report["tables"]["speed"]["rows"]) == 3, "a cap on the time leaves one sample of each")
    suite.run(suite.wrong, "--mode", "speed", "--max-seconds", "0", expect=2)
    report = suite.report(suite.cpu, "--mode", "speed", "--filter", "^speed/aten::neg/")
    expect(report["cases"], "the installed workload is found")
    report = suite.report(suite.reference, "--mode", "gradient", "--filter", "^gradient/aten::(mul.Tensor|exp|sum|cumsum)/")
    expect([c["outcome"] for c in report["cases"]] == ["passed"] * 4, f"{report['cases']}")
    report = suite.report(suite.null, "--mode", "gradient", "--filter", "^gradient/aten::mul.Tensor/", TENON_NULL_DEVICES="1")
    case = report["cases"][0]
    expect(case["name"].endswith("float32") and case["outcome"] == "absent", "without float64 the CPU is the measure")


def check_golden(suite):
    """A folder of two recorded calls: their results are those of arithmetic."""
    folder = suite.folder / "golden" / "cases"
    folder.mkdir(parents=True)
    header = json.dumps({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]},
                         "b": {"dtype": "F32", "shape": [3], "data_offsets": [12, 24]},
                         "c": {"dtype": "F32", "shape": [3], "data_offsets": [24, 36]}})
    header += " " * (-len(header) % 8)
    data = struct.pack("<9f", 1, 2, 3, 10, 20, 30, 11, 22, 33)
    (folder / "add.safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode() + data)

    def tensor(key, name=None):
        entry = {"tensor": key, "dtype": "float32", "shape": [3]}
        return {"name": name, **entry} if name else entry

    lines = []
    for i, want in enumerate(("c", "b")):
        lines.append(json.dumps({"id": i, "op": "aten::add.Tensor", "dtype": "f32",
                                 "args": [tensor("a", "self"), tensor("b", "other"), {"name": "alpha", "int": 1}],
                                 "out": [tensor(want)], "rtol": 1e-6, "atol": 1e-6}, separators=(",", ":")))
    (folder / "add.jsonl").write_text("\n".join(lines) + "\n")
    report = suite.report(suite.wrong, "--golden", folder.parent, "--filter", "^1/golden", expect=1)
    outcomes = {c["name"]: c["outcome"] for c in report["cases"]}
    expect(outcomes == {"1/golden/aten::add.Tensor/f32/add:0": "passed", "1/golden/aten::add.Tensor/f32/add:1": "failed"},
           f"{outcomes}")
    done = suite.run(suite.wrong, "--golden", "/nonexistent", "--filter", "^1/golden", expect=1)
    expect("no folder /nonexistent/cases" in done.stdout, "a folder that is not there")


def check_lists(suite):
    known = suite.file("known", "# for now\n0/copy/bytes/*   long copies lose a bit\n0/copy/*  the same\n"
                                "0/context/* the same\n0/memory/* the same\n0/stream/* the same\n")
    arguments = [suite.wrong, "--filter", "^0/copy/bytes/(4097|65536)"]
    report = suite.report(*arguments, "--expected-failures", known, TENON_TEST_FAULT="copy")
    expect([c["outcome"] for c in report["cases"]] == ["failed", "failed"], "failures are still told")
    expect(report["cases"][0]["excuse"] == "long copies lose a bit", "with the reason of the list")
    report = suite.report(*arguments, "--expected-failures", known, expect=1)
    expect(report["not_as_expected"] == 2, "what passes unexpectedly fails")
    never = suite.file("never", "0/copy/bytes/4097 never will\n")
    report = suite.report(suite.wrong, "--filter", "^0/copy/bytes/", "--unsupported", never, expect=1,
                          TENON_TEST_FAULT="copy")
    skipped = [c for c in report["cases"] if c["outcome"] == "skipped"]
    expect(len(skipped) == 1 and skipped[0]["reason"] == "unsupported: never will", "unsupported cases do not run")
    for text in ("0/copy/bytes/4097\n", "0/copy/bytes/4097   \n"):
        done = suite.run(*arguments, "--unsupported", suite.file("bad", text), expect=1)
        expect("a pattern needs a reason" in done.stderr, "a list needs reasons")


def check_report(suite):
    page = suite.folder / "page.html"
    out = suite.folder / "out.json"
    suite.run(suite.wrong, "--tier", 0, "--json", out, "--html", page, expect=1, TENON_TEST_FAULT="copy")
    report = json.loads(out.read_text())
    types = {"tenon_check": int, "version": str, "mode": str, "seed": int, "status": str, "subject": dict,
             "not_as_expected": int, "tiers": list, "cases": list}
    for key, kind in types.items():
        expect(isinstance(report[key], kind), f"{key} is a {kind.__name__}")
    expect(report["fatal"] is None and report["subject"]["plugin"] == "wrong", "the subject")
    expect(report["subject"]["device"] == "wrong:0" and report["subject"]["compared_with"] == "cpu", "the devices")
    outcomes = {"passed", "failed", "absent", "skipped", "crashed"}
    for case in report["cases"]:
        expect(case["outcome"] in outcomes and isinstance(case["tier"], int) and isinstance(case["seconds"], float | int),
               f"the fields of {case}")
        expect(case["outcome"] in ("passed",) or case["reason"], f"{case['name']} says why")
    names = [c["name"] for c in report["cases"]]
    expect(len(set(names)) == len(names), "names are unique")
    parser = HTMLParser()
    parser.feed(page.read_text())
    expect("0/copy/bytes/4097" in page.read_text() and "http" not in page.read_text(), "one page that needs no other")


def check_manifest(suite):
    """A plugin that is checked by its path has to be found by the manifest beside it, too."""
    folder = suite.folder / "manifest"
    folder.mkdir(mode=0o755)
    library = Path(shutil.copy(suite.reference, folder))
    right = {"tenon_manifest": 1, "name": "reference", "library": library.name, "device_type": "reference"}
    manifests = [(None, "skipped", "no manifest beside the library names it"), (json.dumps(right), "passed", ""),
                 (json.dumps({**right, "library": "libother.so"}), "failed", "has the plugin's name, but its library is"),
                 (json.dumps({**right, "name": "other"}), "failed", "name: the manifest says 'other', the library 'reference'"),
                 (json.dumps({**right, "device_type": "acme"}), "failed", "the manifest says 'acme', the plugin 'reference'"),
                 (json.dumps(right)[:-1], "failed", "unexpected end of JSON")]
    for text, outcome, reason in manifests:
        if text:
            (folder / "acme.json").write_text(text)
        for variables in ({}, {"TENON_PLUGIN_DISABLE": "reference"}):
            report = suite.report(library, "--filter", "^0/manifest$", expect=int(outcome == "failed"), **variables)
            case = {"reason": "", **report["cases"][0]}
            expect(case["outcome"] == outcome and reason in case["reason"], f"{text}: {case['outcome']}: {case['reason']}")


def check_isolation(suite):
    """Each case in a process of its own, two at once, on a device whose streams delay and reorder; two devices are copied between."""
    report = suite.report(suite.reference, "--isolate", "--jobs", 2, "--filter", "^(0/(slot|stream)/|1/bmm/aten::mm/float32/)",
                          TENON_REFERENCE_CHAOS="7", TENON_REFERENCE_DEVICES="2")
    outcomes = {c["name"]: c["outcome"] for c in report["cases"]}
    expect(outcomes.pop("0/slot/self_test") == "skipped", f"{outcomes}")
    expect(outcomes["0/slot/copy.peer"] == "passed" and set(outcomes.values()) == {"passed"} and len(outcomes) > 8, f"{outcomes}")


def check_end(suite):
    """After SIGTERM, as `timeout` sends it, the report has the cases that ran."""
    total = "1/reduce/aten::sum/float32/contiguous"
    report = suite.ended_report(suite.wrong, "--filter", f"^(0/slot/memory.fill|{total})$", TENON_TEST_FAULT="hang")
    outcomes = {c["name"]: (c["outcome"], c.get("reason")) for c in report["cases"]}
    expect(outcomes["0/slot/memory.fill"][0] == "passed", f"{outcomes}")
    expect(outcomes[total] == ("skipped", "the run was ended before"), f"{outcomes}")
    expect(report["fatal"] == "the run was ended when 1 of 2 cases were left", report["fatal"])
    expect([t["whole"] for t in report["tiers"]][:2] == [True, False], f"{report['tiers']}")


def check_determinism(suite):
    """Neither the number of processes nor the filter changes what is found."""
    faults = {}
    for jobs in ("0", "1", "3"):
        report = suite.report(suite.wrong, "--filter", "^0/copy", "--jobs", jobs, expect=1, TENON_TEST_FAULT="copy")
        faults[jobs] = {name: c["reason"] for name, c in bad_cases(report).items()}
    expect(faults["0"] == faults["1"] == faults["3"], f"{faults}")


def main():
    checks = [check_usage, check_tier0, check_faults, check_kernels, check_absence, check_two_of_tier1, check_networks, check_modes,
              check_golden, check_lists, check_report, check_end, check_determinism, check_isolation, check_manifest]
    with tempfile.TemporaryDirectory() as folder:
        return run_checks(checks, Suite(*sys.argv[1:], folder))


if __name__ == "__main__":
    sys.exit(main())
