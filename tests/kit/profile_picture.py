#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The picture of a profile: places of bars and lines, parts of the time, files that are not profiles.

    profile_picture.py TOOL BENCH    TOOL is tools/profile_svg.py, BENCH a program that calls operators
"""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"
failures = []


def expect(holds, what):
    if not holds:
        failures.append(what)


def draw(tool, *arguments):
    return subprocess.run([sys.executable, tool, *map(str, arguments)], capture_output=True, text=True)


def processor_time():
    """Seconds of the processes that have ended: a busy machine does not make it longer."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def bars_of(svg):
    """Title, left, top and width of each bar."""
    return [(r.find(SVG + "title").text, *(float(r.get(k)) for k in ("x", "y", "width")))
            for r in ElementTree.fromstring(svg).iter(SVG + "rect") if r.find(SVG + "title") is not None]


def call(name, tid, ts, dur, pid=1, **more):
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "cat": "operator", **more}


def name(what, pid, tid, text):
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": text}}


# A range of 100 us with a call of 40 in it, which queues work of 50 that begins at 150; then a second range.
EVENTS = [name("process_name", 1, 0, "host"), name("process_name", 2, 0, "acme:0"), name("thread_name", 1, 7, "thread 7"),
          call("step", 7, 0, 100, cat="range"), call("aten::a<b", 7, 20, 40, args={"shapes": "float32 [2]"}),
          call("aten::a<b", 0, 150, 50, pid=2, cat="work"), {"ph": "s", "name": "queued", "pid": 1, "tid": 7, "ts": 30, "id": 1},
          {"ph": "f", "name": "queued", "pid": 2, "tid": 0, "ts": 150, "id": 1}, call("step", 7, 300, 100, cat="range")]


def check_places(tool, path):
    path.write_text(json.dumps({"traceEvents": EVENTS}))
    done = draw(tool, "--width", 1016, "--range", "step", path)  # 1000 pixels for 200 us
    expect(done.returncode == 0 and not done.stderr, done.stderr)
    bars = {title: rest for title, *rest in bars_of(done.stdout)}
    expect(bars["step, 100.00 us"][::2] == [8, 500], f"the range: {bars}")
    expect(bars["aten::a<b float32 [2], 40.00 us"][::2] == [108, 200], f"the call: {bars}")
    expect(bars["aten::a<b, 50.00 us"][::2] == [758, 250], f"the work: {bars}")
    expect(bars["aten::a<b float32 [2], 40.00 us"][1] == bars["step, 100.00 us"][1] + 18, "the call is below its range")
    expect(re.search(r'class="a" d="M158\.00 \d+C.* 758\.00 \d+"', done.stdout), "the line from the launch to the work")
    expect("host: thread 7" in done.stdout and "acme:0: track 0" in done.stdout, "names of rows")
    expect(len(bars_of(draw(tool, "--range", "step", "--nth", 2, path).stdout)) == 1, "the second range alone")
    part = draw(tool, "--width", 1016, "--from", 0.16, "--to", 0.18, path)
    expect([bar[1::2] for bar in bars_of(part.stdout)] == [(8, 1000)], "a part of the work fills the picture")
    path.write_text(json.dumps(EVENTS + [call("tiny", 7, 500, 0.001)]))  # a list alone is a trace, too
    expect("1 bars are too short" in draw(tool, path).stdout, "short bars are counted")


def check_refusals(tool, path):
    path.write_text(json.dumps({"traceEvents": EVENTS}))
    for arguments, words in ((["--range", "none", path], "none"), (["--range", "step", "--nth", 3, path], "has 2 of this name"),
                             (["--from", 9, path], "no calls from 9"), ([path.parent / "absent"], "No such file"), ([path.parent], "directory")):
        done = draw(tool, *arguments)
        expect(done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr, f"{arguments}: {done.stderr}")
    texts = ["", "{", "[1]", "{}", '{"traceEvents": 3}', "[" * 100000, "\0", '[{"ph": "X"}]', '[{"ph": "M", "name": "process_name"}]',
             json.dumps([call("x", 1, "y", 1)]), json.dumps([call("x", 1, float("nan"), 1)]), json.dumps([call("x", [1], 0, 1, cat=[1])])]
    whole = json.dumps(EVENTS)
    texts += [whole[:n] for n in range(0, len(whole), 97)]
    for text in texts:
        path.write_text(text)
        begin = processor_time()
        done = draw(tool, path)
        expect(done.returncode in (0, 1) and "Traceback" not in done.stderr, f"{text[:60]!r}: {done.stderr[-300:]}")
        expect(done.returncode == 0 or "profile_svg.py: " in done.stderr, f"{text[:60]!r} has no message")
        expect(processor_time() - begin < 10, f"{text[:60]!r} takes long")


def check_profile(tool, bench, path):
    """A profile of a program of ours."""
    counts = []
    for calls in ("3", "8"):
        subprocess.run([bench, "count", "add", calls], env={**os.environ, "TENON_PROFILE": str(path)})
        done = draw(tool, path)
        counts.append(sum(title.startswith("aten::add.Tensor, ") for title, *_ in bars_of(done.stdout)) if not done.returncode else done.stderr)
    expect(isinstance(counts[0], int) and counts[1] == counts[0] + 5, f"a bar for each call: {counts}")


def main():
    tool, bench = sys.argv[1:]
    checks = 3
    with tempfile.TemporaryDirectory() as folder:
        check_places(tool, Path(folder) / "trace.json")
        check_refusals(tool, Path(folder) / "trace.json")
        check_profile(tool, bench, Path(folder) / "profile.json")
    print(*failures, sep="\n")
    print(f"{checks if not failures else 0} passed, {len(failures)} failed, 0 skipped")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
