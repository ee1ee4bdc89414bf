#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The precision report of the CPU plugin, short: the numbers are there, bounds of errors hold, --max-ulp and --against do their
work.

    check_precision.py TENON PLUGIN
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def run(tool, plugin, *arguments, samples=150):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TENON_") or k == "TENON_CPU_LEVEL"}
    command = [tool, "check", plugin, "--mode", "precision", "--samples", str(samples), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=clean, timeout=600)


def expect(condition, what, done):
    if not condition:
        sys.exit(f"{what}\nstatus {done.returncode}\n{done.stdout[:4000]}\n{done.stderr[:1000]}")


def main():
    tool, plugin = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        first, page = Path(folder) / "first.json", Path(folder) / "page.html"
        done = run(tool, plugin, "--filter", "aten::(exp|add.Tensor|log|sqrt|tanh)/(float32|float64|bfloat16|complex64)", "--json",
                   str(first), "--html", str(page), "--max-ulp", "2")
        expect(done.returncode == 0 and "meets" in done.stdout, "elementary functions are within 2 ULP", done)
        report = json.loads(first.read_text())
        data = {c["name"]: c.get("data") for c in report["cases"]}
        exp = data["1/precision/aten::exp/float32"]
        expect(exp["opencl"] == 3, "OpenCL's bound for exp", done)
        expect(0.3 < exp["device"]["classes"]["medium"]["max"] < 1.1, "exp's error", done)
        expect(exp["device"]["classes"]["medium"]["count"] == 150, "as many inputs as asked for", done)
        add = data["1/precision/aten::add.Tensor/float32"]["device"]
        expect(0.4 < add["max"] <= 0.5 and add["special"]["unexpected"] == 0, "a sum is rounded once", done)
        expect(add["same_over_repeats"] and add["same_over_streams"] and not add["flushes_denormals"], "the same bits", done)
        pairs = data["1/precision/aten::exp/complex64"]["device"]["special"]
        expect(pairs["count"] == 49 and pairs["unexpected"] == 0, "complex special values, part by part", done)
        expect("aten::exp" in page.read_text(), "the page has the table", done)

        done = run(tool, plugin, "--filter", "(special_bessel_[jy]|airy|digamma|special_ndtr|lgamma|gelu|lerp).*/float64$",
                   "--max-ulp", "2.5", samples=10)
        expect(done.returncode == 0 and "does not meet" not in done.stdout, "float64 keeps its digits, next to roots too", done)

        done = run(tool, plugin, "--filter", "aten::exp/float32", "--max-ulp", "0.01")
        expect(done.returncode == 1 and "does not meet" in done.stdout, "a demand that nobody meets fails", done)

        sums = Path(folder) / "sums.json"
        done = run(tool, plugin, "--filter", "aten::(sum.dim_IntList|softmax.int|mm|conv2d)/(float32|float64)$", "--json", str(sums), "--html",
                   str(page), "--max-ulp", "12", samples=20)
        expect(done.returncode == 0 and "units of the last place of their terms" in done.stdout, "sums and products", done)
        data = {c["name"]: c.get("data") for c in json.loads(sums.read_text())["cases"]}
        added = data["1/precision/aten::sum.dim_IntList/float32"]
        expect(added["unit"] == "terms" and 0.3 < added["device"]["classes"]["uniform"]["max"] < 4, "a sum's error", done)
        expect(added["device"]["classes"]["cancelling"]["of_result"] > 10 * added["device"]["classes"]["cancelling"]["max"],
               "what cancels is counted in units of the terms", done)
        expect(data["1/precision/aten::mm/float64"]["device"]["same_over_repeats"], "the same bits", done)
        expect(added["device"]["special"]["unexpected"] == 0 and added["device"]["special"]["count"] == 22, "NaN and infinities", done)
        expect(added["device"]["gradient"]["max"] == 0, "the gradient of a sum is exact", done)
        expect("cancelling" in page.read_text(), "the page has the table", done)
        done = run(tool, plugin, "--filter", "aten::softmax.int/float32$", "--max-ulp", "0.1", "--against", str(sums), samples=20)
        expect(done.returncode == 1 and "does not meet" in done.stdout, "a demand on sums", done)

        done = run(tool, plugin, "--filter", "aten::exp/float32$", samples=20)
        expect(done.returncode == 0 and "\nmeasured: 1 cases, 0 not as expected" in done.stdout, "measured, not passed", done)
        expect("These are measurements: none of them fails a case." in done.stdout, "what the table means", done)

        old = json.loads(first.read_text())
        for case in old["cases"]:
            if case["name"] == "1/precision/aten::exp/float32":
                case["data"]["device"]["classes"]["medium"]["max"] = 7.25
        (Path(folder) / "old.json").write_text(json.dumps(old))
        done = run(tool, plugin, "--filter", "aten::exp/float32", "--against", str(Path(folder) / "old.json"))
        expect(done.returncode == 0 and "7.25" in done.stdout and "better" in done.stdout, "what moved", done)

        done = run(tool, plugin, "--filter", "aten::exp/float32", "--against", str(page))
        expect(done.returncode == 2 and "is not a report" in done.stdout, "another file", done)


main()
