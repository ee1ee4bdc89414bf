#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays a folder of golden cases with `tenon golden` and holds the failures against the explained list.

The folder is --oracle, else TENON_ORACLE, else ../shared/oracle beside the checkout. Absent by default it is said in a line;
named and absent it is a failure. A failure that differences.tsv explains is expected; one that it does not, and one that it
names but that does not happen any more, fail the test.

The table was made with the CPU plugin's vectors of TABLE_LEVEL, with LIBRARIES and FIXED. With others sums have another order and some
products another rounding, so there a number may be some tolerances off, and a difference of the table may be none.
"""
import argparse
import fnmatch
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

TABLE_LEVEL = "avx2"
LIBRARIES = {"OPENBLAS_CORETYPE": "Haswell"} # OpenBLAS's kernels of that level
FIXED = {"TENON_CPU_TUNE": "0"} # on any level: which library computes a product does not depend on what is faster at the moment
OTHER_LEVEL = 8 # tolerances that another level may be off
HERE = Path(__file__).resolve().parent


def explained(device):
    """(pattern of cases, why) for a device: lines `devices<TAB>case pattern<TAB>why`."""
    rows = []
    for line in (HERE / "differences.tsv").read_text().splitlines():
        if line and not line.startswith("#"):
            on, pattern, why = line.split("\t")
            if on == "any" or device.split(":")[0] in on.split(","):
                rows.append((pattern, why))
    return rows


def is_table_level(tenon):
    """Whether the CPU plugin computes with the vectors that the table was made with."""
    listed = subprocess.run([tenon, "devices", "--json"], capture_output=True, text=True, check=True)
    return any(d["device"] == "cpu" and d["architecture"] == TABLE_LEVEL for d in json.loads(listed.stdout))


def is_there(tenon, device):
    listed = subprocess.run([tenon, "devices", "--json"], capture_output=True, text=True, check=True)
    return any(d["device"] == device for d in json.loads(listed.stdout))


def sampled(folder, each):
    """A filter for every so-manieth operator that the cases have, in the order of their files."""
    names = sorted({path.name.split(".")[0] for path in (folder / "cases").iterdir()})[::each]
    return "^aten::_?(" + "|".join(names) + r")($|\.|_)"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tenon", required=True)
    parser.add_argument("--oracle", default=os.environ.get("TENON_ORACLE"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--filter")
    parser.add_argument("--json", help="keeps the report of `tenon golden` there: all failures")
    parser.add_argument("--sample", type=int, help="of so many operators replay one, unless TENON_TEST_DEVICES is set; with sanitizers a quarter of these")
    o = parser.parse_args()
    folder = Path(o.oracle) if o.oracle else HERE.parent.parent.parent / "shared" / "oracle"
    if not (folder / "cases").is_dir():
        if o.oracle:
            print(f"golden: {folder} was named and is not there\n0 passed, 1 failed, 0 skipped")
            return 1
        print("skipped: oracle not found\n0 passed, 0 failed, 1 skipped")
        return 77
    if not is_there(o.tenon, o.device):
        print(f"skipped: there is no device {o.device}\n0 passed, 0 failed, 1 skipped")
        return 77
    if o.sample and "TENON_TEST_DEVICES" not in os.environ:
        o.filter = sampled(folder, o.sample * (4 if "SANITIZER_LOGS" in os.environ else 1))
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(o.json or Path(temporary) / "golden.json")
        report.unlink(missing_ok=True)
        command = [o.tenon, "golden", str(folder), "--device", o.device, "--json", str(report)]
        if o.filter:
            command += ["--filter", o.filter]
        strict = is_table_level(o.tenon)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**FIXED, **(LIBRARIES if strict else {}), **os.environ})
        signal.signal(signal.SIGTERM, lambda *_: process.terminate()) # it then reports what has run
        said, complained = process.communicate()
        if process.returncode not in (0, 1):
            print(said[-2000:], complained[-2000:], "0 passed, 1 failed, 0 skipped", sep="\n")
            return 1
        result = json.loads(report.read_text())
    rows = explained(o.device)
    used = set()
    surprises, near = [], 0
    for failure in result["failures"]:
        hit = [i for i, (pattern, _) in enumerate(rows) if fnmatch.fnmatchcase(failure["case"], pattern)]
        if hit:
            used.update(hit)
        elif not strict and 0 < failure["tolerances"] <= OTHER_LEVEL:
            near += 1
        else:
            surprises.append(failure)
    for failure in surprises[:200]:
        print(f"{failure['case']}  {failure['operator']}  {failure['dtype']}  {failure['reason']}")
    stale = [] if o.filter or not strict or result["ended_files"] else [pattern for i, (pattern, _) in enumerate(rows) if i not in used]
    for pattern in stale:
        print(f"differences.tsv explains {pattern}, which does not differ any more")
    passed = sum(s["passed"] for s in result["operators"].values())
    absent = sum(s["absent"] for s in result["operators"].values())
    if near:
        print(f"{near} results are up to {OTHER_LEVEL} tolerances off, with other vectors than those of the table ({TABLE_LEVEL})")
    print(f"{o.device}: {len(result['failures']) - len(surprises) - near} differences are explained, {absent} cases are of operators that are not there")
    if result["fell_back"]:
        counts = {}
        for f in result["fallbacks"]: # one for each reason
            counts[f["operator"]] = counts.get(f["operator"], 0) + f["cases"]
        listed = ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda c: (-c[1], c[0])))
        print(f"{result['fell_back']} cases ran on the CPU in part or wholly, because of {listed}")
    if result["ended_files"]:
        print(f"the run was ended: {result['ended_files']} of {result['files']} files of cases did not run to their end")
    print(f"{passed + near} passed, {len(surprises) + len(stale)} failed, 0 skipped")
    return 1 if surprises or stale or result["ended_files"] else 0


if __name__ == "__main__":
    sys.exit(main())
