#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The `tenon` command from outside: exit statuses, JSON that parses, and what doctor says of broken plugins.

    command.py TENON SKEWED_FOLDER WRONG_PLUGIN [HIDE]

HIDE is preloaded to hide libraries and to change the number of cores; without it (builds with sanitizers) what needs it is
skipped.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from files import golden_folder
from suite import Failure, end, run_checks, session


def clean_environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("TENON_") and k != "LD_PRELOAD"}


def run(tool, *arguments, **environment):
    return subprocess.run([tool, *arguments], capture_output=True, text=True, env={**clean_environment(), **environment}, timeout=600)


def expect(condition, what, done):
    if not condition:
        raise Failure(f"{what}\nstatus {done.returncode}\n{done.stdout[:3000]}\n{done.stderr[:1000]}")


def check_usage(tool, _):
    done = run(tool)
    expect(done.returncode == 2 and "usage: tenon COMMAND" in done.stderr, "no command is a wrong call", done)
    done = run(tool, "nonsense")
    expect(done.returncode == 2 and "no command 'nonsense'" in done.stderr, "an unknown command is named", done)
    done = run(tool, "--version")
    expect(done.returncode == 0 and done.stdout.startswith("tenon 0."), "the version", done)
    for command in ("devices", "ops", "doctor", "new-app", "new-operators", "new-plugin", "replay", "file", "bench", "profile", "check", "golden"):
        done = run(tool, command, "--help")
        expect(done.returncode == 0 and f"usage: tenon {command}" in done.stdout, f"help of {command}", done)
        done = run(tool, command, "--what")
        # The two with many options use getopt, which names the option.
        wrong = f"{command}: unrecognized option '--what'" if command in ("check", "golden") else "unexpected argument '--what'"
        expect(done.returncode == 2 and wrong in done.stderr, f"{command} --what", done)
    for option, value in (("--jobs", "65"), ("--tier", "high"), ("--seed", "-1")):
        done = run(tool, "check", option, value)
        expect(done.returncode == 2 and f"tenon check: {option}: invalid value '{value}'" in done.stderr, f"check {option} {value}", done)
    done = run(tool, "replay")
    expect(done.returncode == 2 and "tenon replay: a file and --plugin or --list are needed" in done.stderr, "replay of nothing", done)


def check_log(tool, skewed):
    """TENON_LOG takes words and numbers; a plugin that fails to load is a warning."""
    with tempfile.TemporaryDirectory(dir=skewed) as folder:
        os.chmod(folder, 0o755)
        path = Path(folder) / "a.json"
        path.write_text(json.dumps({"tenon_manifest": 1, "name": "skewed", "library": f"{skewed}/libskewed_init_fails.so"}))
        path.chmod(0o644)
        for value, shown in (("error", False), ("0", False), ("warn", True), ("1", True), ("debug", True), ("loud", True), ("", False)):
            done = run(tool, "ops", "relu", TENON_PLUGIN_ADD=folder, XDG_CACHE_HOME=folder, TENON_LOG=value)
            expect(("tenon: warn: " in done.stderr) == shown, f"TENON_LOG={value}", done)
            expect(("expected error, warn, info or debug" in done.stderr) == (value == "loud"), f"TENON_LOG={value}: the word", done)


def check_profile(tool, skewed):
    """A profile of the tool itself, as of any program; files that are not profiles."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "profile.json"
        done = run(tool, "devices", TENON_PROFILE=str(trace))
        done = run(tool, "profile", str(trace))
        expect(done.returncode == 0 and "times in milliseconds" in done.stdout, "an empty table", done)
        row = {"name": "aten::mm", "shapes": "float32 [2, 2]", "calls": 3, "host_total": 4.5e6, "host_self": 1.25e6, "device_self": 2e6}
        trace.write_text(json.dumps({"tenon_profile": {"nanoseconds": 7e6, "dropped": 2, "rows": [row] * 40}}))
        done = run(tool, "profile", str(trace))
        expect(done.returncode == 0 and done.stdout.count("aten::mm") == 30 and "and 10 more" in done.stdout, "thirty rows", done)
        expect(re.search(r"aten::mm +3 +4\.500 +1\.250 +0\.000 +2\.000 +0  float32 \[2, 2\]", done.stdout), "the numbers of a row", done)
        expect("2 events were too many" in done.stdout, "what is missing", done)
        heading = next(line for line in done.stdout.splitlines() if line.startswith("name"))
        expect(heading.endswith("bytes  shapes"), "the heading of shapes", done)
        trace.write_text(json.dumps({"tenon_profile": {"nanoseconds": 7e6, "rows": [{**row, "shapes": ""}, *[{**row, "name": "aten::add"}] * 30]}}))
        expect("bytes  shapes\n" in run(tool, "profile", str(trace)).stdout, "a heading for some rows", done)
        trace.write_text(json.dumps({"tenon_profile": {"nanoseconds": 7e6, "rows": [{**row, "shapes": ""}] * 40}}))
        expect("bytes\n" in run(tool, "profile", str(trace)).stdout, "no shapes, no heading", done)
        trace.write_text(json.dumps({"tenon_profile": {"nanoseconds": 7e6, "dropped": 2, "rows": [row] * 40}}))
        done = run(tool, "profile", "--all", str(trace))
        expect(done.stdout.count("aten::mm") == 40, "all rows", done)
        for text in ("", "{", "[]", '{"tenon_profile": {"rows": 3}}', '{"tenon_profile": 1}'):
            trace.write_text(text)
            done = run(tool, "profile", str(trace))
            expect(done.returncode == 1 and "is not a profile of Tenon" in done.stderr, f"a file with {text!r}", done)
        done = run(tool, "profile", folder + "/absent")
        expect(done.returncode == 1 and "No such file" in done.stderr, "a missing file", done)
        done = run(tool, "profile", folder)
        expect(done.returncode == 1 and "cannot read" in done.stderr, "a folder", done)
        expect(run(tool, "profile").returncode == 2, "no file", done)


def check_bench(tool, _):
    """What is measured decides for the device "measured"."""
    with tempfile.TemporaryDirectory() as folder:
        expect(run(tool, "bench").returncode == 2, "bench of nothing", run(tool, "bench"))
        done = run(tool, "bench", "devices", "--dry", XDG_CACHE_HOME=folder)
        expect(done.returncode == 0 and "cpu" in done.stdout and not (Path(folder) / "tenon" / "devices.json").exists(), "--dry keeps nothing", done)
        done = run(tool, "bench", "devices", XDG_CACHE_HOME=folder)
        path = Path(folder) / "tenon" / "devices.json"
        expect(done.returncode == 0 and str(path) in done.stdout, "a measurement", done)
        kept = json.loads(path.read_text())
        expect([d["device"] for d in kept["devices"]] == ["cpu"], "only real devices", done)
        expect(all(kept["devices"][0][k] > 0 for k in ("bandwidth", "flops_f32", "call")), "three numbers", done)
        expect(path.stat().st_mode & 0o777 == 0o600, "for this user alone", done)
        path.parent.chmod(0o500)
        if os.geteuid():
            done = run(tool, "bench", "devices", XDG_CACHE_HOME=folder)
            expect(done.returncode == 1 and "cannot write" in done.stderr, "a folder that cannot be written", done)
        path.parent.chmod(0o700)
        path.unlink()
        path.mkdir()
        done = run(tool, "bench", "devices", XDG_CACHE_HOME=folder)
        expect(done.returncode == 1 and f"cannot write {path}: Is a directory" in done.stderr, "a folder in place of the file", done)
        expect(list(path.parent.glob("devices.json*")) == [path], "nothing half written is left", done)
        done = run(tool, "bench", "devices", XDG_CACHE_HOME="", HOME="")
        expect(done.returncode == 1 and "set XDG_CACHE_HOME or HOME" in done.stderr, "no folder", done)


def check_golden(tool, _):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "cases").mkdir()
        for arguments, expected in ((["--filter", "("], "--filter '('"), (["--device", "absent:0"], "device absent:0"),
                                    (["--json", "/nowhere/scores.json"], "cannot write /nowhere/scores.json"),
                                    ([], "no case to run"), (["--filter", "^none$"], "no case matches the filter")):
            done = run(tool, "golden", folder, *arguments)
            expect(done.returncode == 2 and expected in done.stderr, f"golden {arguments}", done)
        (Path(folder) / "cases" / "broken.jsonl").write_text("")
        (Path(folder) / "cases" / "broken.safetensors").write_bytes(b"\xff" * 64)
        done = run(tool, "golden", folder)
        expect(done.returncode == 2 and "broken could not be run" in done.stderr, "a broken file of cases", done)


def check_golden_fallbacks(tool, _):
    """What ran on the CPU because the device has no kernel is counted, a case once."""
    with tempfile.TemporaryDirectory() as folder:
        cases, report = Path(folder) / "cases", Path(folder) / "golden.json"
        golden_folder(cases)
        lines = [json.loads(line) for line in (cases / "some.jsonl").read_text().splitlines()]
        decomposition = {"op": "aten::geqrf", "dtype": "f32", "rtol": 0, "atol": 0, "values": False,
                         "args": [{**lines[0]["args"][0], "name": "self"}],
                         "out": [{"tensor": None, "dtype": "float32", "shape": shape} for shape in ([2, 3], [2])]}
        with open(cases / "some.jsonl", "a") as out:
            for number in (3, 4):
                out.write(json.dumps({"id": number, **decomposition}, separators=(",", ":")) + "\n")
        done = run(tool, "golden", folder, "--device", "reference:0", "--json", str(report))
        scores = json.loads(report.read_text())
        fell_back = {name: score["fell_back"] for name, score in scores["operators"].items()}
        expect(fell_back["aten::geqrf"] == 2 and fell_back["aten::add.Tensor"] == 0, f"per operator: {fell_back}", done)
        expect(scores["fell_back"] == sum(fell_back.values()), "in all", done)
        expect(scores["fallbacks"] and all(f["cases"] == 2 and f["calls"] >= 2 and f["reason"] for f in scores["fallbacks"]),
               f"by what ran on the CPU: {scores['fallbacks']}", done)
        expect("2 cases ran on the CPU" in done.stdout and scores["fallbacks"][0]["operator"] in done.stdout, "as a table", done)
        done = run(tool, "golden", folder, "--json", str(report))
        expect(json.loads(report.read_text())["fallbacks"] == [], "none on the CPU", done)


def check_golden_lost(tool, _):
    """A case that loses the device fails alone: those behind it run in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "golden.json"
        golden_folder(Path(folder) / "cases")
        done = run(tool, "golden", folder, "--device", "reference:0", "--json", str(report), TENON_REFERENCE_LOSE="6")
        scores = json.loads(report.read_text())
        outcomes = {name: (score["passed"], score["failed"]) for name, score in scores["operators"].items()}
        expect(outcomes == {"aten::add.Tensor": (0, 1), "aten::cat": (1, 0), "aten::mm": (1, 0)}, f"{outcomes}", done)


def check_golden_ended(tool, _):
    """After SIGTERM, as `timeout` sends it, the report has the files that ran."""
    with tempfile.TemporaryDirectory() as folder:
        cases, report = Path(folder) / "cases", Path(folder) / "golden.json"
        golden_folder(cases)
        os.mkfifo(cases / "waits.jsonl")
        (cases / "waits.safetensors").symlink_to("some.safetensors")
        with session([tool, "golden", folder, "--json", report, "--jobs", "1"], clean_environment()) as process:
            with open(cases / "waits.jsonl", "w"): # opens when the second file is being read
                done = end(process)
        expect(done.returncode == 1 and "ended: 1 of 2 files" in done.stdout, "what has run is reported", done)
        scores = json.loads(report.read_text())
        expect(sum(s["passed"] for s in scores["operators"].values()) == 3 and (scores["files"], scores["ended_files"]) == (2, 1), f"{scores}", done)


def check_devices(tool, _):
    done = run(tool, "devices", "--json")
    devices = {d["device"]: d for d in json.loads(done.stdout)}
    expect(done.returncode == 0 and "cpu" in devices, "the processor is a device", done)
    expect(devices["cpu"]["class"] == "host" and "float32" in devices["cpu"]["dtypes"], "its facts", done)
    expect(sum(d["chosen"] for d in devices.values()) == 1, "one is chosen", done)
    done = run(tool, "devices")
    expect(done.returncode == 0 and done.stdout.count("*") >= 1, "the same as text", done)
    done = run(tool, "devices", "--settings", "--json", TENON_SETTINGS="reference.lazy=7")
    (reference,) = [d for d in json.loads(done.stdout) if d["device"] == "reference:0"]
    settings = {x["name"]: x for x in reference["settings"]}
    expect(settings["lazy"]["value"] == "7" and settings["lazy"]["default"] == "0", "a setting of the environment", done)
    expect(settings["lazy"]["range"] == "int from 0 to 60000" and settings["seed"]["read_only"], "what it may be", done)
    done = run(tool, "devices", "--settings")
    expect(re.search(r"huge_pages +advise +.*\(advise,never; default advise\)", done.stdout), "the CPU's, as text", done)


def check_ops(tool, _):
    done = run(tool, "ops", "add.Tensor", "--json")
    (op,) = json.loads(done.stdout)
    expect(op["schema"] == "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", "schema", done)
    expect(op["kind"] == "pointwise" and op["gradient"] is True and op["form"] == "functional", "kind", done)
    cpu = [k for k in op["kernels"] if k["device_type"] == "cpu"]
    expect(cpu and {"float32", "int64", "bool"} <= set(cpu[0]["dtypes"]), "dtypes of the kernel", done)
    done = run(tool, "ops", "--json")
    expect(done.returncode == 0 and len(json.loads(done.stdout)) > 500, "all operators", done)
    numbers = Path(__file__).resolve().parents[2] / "ops" / "table" / "numbers.txt"
    names = [line.split()[1] for line in numbers.read_text().splitlines() if not line.startswith("#")]
    done = run(tool, "ops")
    expect([line.split()[0] for line in done.stdout.splitlines()] == ["NAME", *names], "a line for each operator, in the order of numbers", done)
    done = run(tool, "ops", "no_such_operator")
    expect(done.returncode == 1 and "no operator 'no_such_operator'" in done.stderr, "an unknown operator", done)
    for wish, similar in (("tn_to_dtype", "aten::to.dtype"), ("tn_set__source_tensor", "aten::set_.source_Tensor"), ("sofmax", "aten::softmax")):
        done = run(tool, "ops", "--c", wish)
        expect(done.returncode == 1 and "did you mean " in done.stderr and similar in done.stderr, f"a guess for {wish}", done)
    for wish, first in (("cross_entropy", "tn_cross_entropy_loss (aten::cross_entropy_loss)"), ("nll", "tn_nll_loss (aten::nll_loss)"),
                        ("tn_matmull", "tn_matmul "), ("max_pool", "tn_max_pool"), ("entropy_with_logits", "tn_binary_cross_entropy_with_logits "),
                        ("attention", "tn_scaled_dot_product_attention "), ("cast", "tn_to "), ("Conv", "tn_conv")):
        for options in ((), ("--c",)):
            done = run(tool, "ops", *options, wish)
            expect(done.returncode == 1 and f"; did you mean {first}" in done.stderr, f"the first guess for {wish}", done)
    done = run(tool, "ops", "--c", "qqqqqqqqqq")
    expect(done.stderr == "tenon ops: no operator 'qqqqqqqqqq'\n", "nothing is similar", done)
    done = run(tool, "ops", "--c")
    expect(done.returncode == 2 and not done.stdout and "--c needs the NAME of an operator" in done.stderr, "--c alone", done)


def check_c_calls(tool, _):
    done = run(tool, "ops", "--c", "layer_norm")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    expect(done.returncode == 0 and lines[0] == "tn_tensor *tn_layer_norm(tn_scope *s, tn_tensor *input, tn_ints normalized_shape, ...)",
           "the call", done)
    for line in (".weight tn_tensor * absent", ".eps double 1e-05", ".cudnn_enable int32_t 1", "aten::layer_norm"):
        expect(line in lines, line, done)
    done = run(tool, "ops", "--c", "conv2d")
    expect(".stride tn_ints TN_INTS(1, 1)" in [" ".join(line.split()) for line in done.stdout.splitlines()], "lists", done)
    for wish in ("tn_sum", "tn_sum(s, x, .dim = 1)", "sum"):  # the forms with a dim are beside it
        done = run(tool, "ops", "--c", wish)
        expect("tn_sum_dim(tn_scope *s, tn_tensor *self, tn_ints dim, ...)" in done.stdout, wish, done)
    done = run(tool, "ops", "--c", "add.Tensor")
    expect(".alpha tn_scalar TN_SCALAR(1)" in [" ".join(line.split()) for line in done.stdout.splitlines()], "scalars", done)
    done = run(tool, "ops", "--c", "mse_loss")
    expect("TN_REDUCTION_MEAN (or TN_REDUCTION_NONE, TN_REDUCTION_SUM)" in done.stdout, "constants", done)


def check_doctor(tool, _):
    done = run(tool, "doctor", "--json", "--fallbacks")
    report = json.loads(done.stdout)
    expect(done.returncode == 0 and report["problems"] == 0, "all is well", done)
    expect(any(p["name"] == "cpu" and p["state"] == "loaded" for p in report["plugins"]), "cpu is loaded", done)
    done = run(tool, "doctor", TENON_PLUGIN_DISABLE="cpu", TENON_PLUGIN_ADD="relative/folder")
    expect(done.returncode == 1 and "disabled: TENON_PLUGIN_DISABLE is 'cpu'" in done.stdout, "disabled", done)
    expect("'relative/folder' in the search path is not absolute" in done.stdout, "a relative folder", done)
    for name, value, expected in (
            ("TENON_DEVICE", "absent:0", "device absent:0: no plugin offers this type"),
            ("TENON_PLUGIN_SELECT", "cpu,mistake", "no plugin in the search path has the name 'mistake'"),
            ("TENON_PLUGIN_DISABLE", "mistake", "no plugin in the search path has the name 'mistake'"),
            ("TENON_SETTINGS", "cuda.tf32=1", "'cuda.tf32=1': no plugin has devices of this type"),
            ("TENON_SETTINGS", "poison=1", "'poison=1': expected device.name=value"),
            ("TENON_SETTINGS", "reference.poisn=1", "there is no setting 'poisn'; did you mean 'poison'?"),
            ("TENON_PLUGIN_PROBE", "often", "is not 'always', 'unknown' or 'never'; 'unknown' is assumed"),
            ("TENON_CPU_LEVEL", "avx3", "init failed: TENON_CPU_LEVEL is 'avx3' (expected base, avx2 or avx512)"),
            ("TENON_PLUGIN_ALLOW", "/nowhere/list", "the list of allowed libraries '/nowhere/list' cannot be read"),
            ("TENON_PLUGIN_ADD", "/nowhere", "cannot search '/nowhere': No such file or directory")):
        done = run(tool, "doctor", "--json", **{name: value})
        report = json.loads(done.stdout)
        expect(done.returncode == 1 and report["problems"] == len(report["not_working"]) > 0, f"{name} is a problem", done)
        expect(any(expected in line for line in report["not_working"]), f"{name}: {expected}", done)
        expect(report["environment"][name] == value, f"{name} is shown", done)


def check_doctor_fallbacks(tool, _):
    """The reference device has products, but no kernels of convolutions: these run on the CPU."""
    done = run(tool, "doctor", "--fallbacks")
    part = done.stdout.partition("fallbacks of 'reference'")[2]
    said = re.search(r"(\d+) of (\d+) operators that need a kernel run on the CPU instead", part)
    listed = re.findall(r"^  (\w+::\S+)$", part, re.M)
    expect(said and 0 < int(said[1]) < int(said[2]) and len(listed) == int(said[1]), "as many are listed as are counted", done)
    expect("aten::mm" not in listed and "aten::mul.Tensor" not in listed, "none that has a kernel", done)


def notes_of(done, plugin):
    return [note for p in json.loads(done.stdout)["plugins"] if p["name"] == plugin for note in p.get("notes", [])]


def check_twins(tool, _):
    """Hardware that two plugins offer."""
    twins = Path(sys.argv[2]).parents[1] / "behaviour"
    environment = {"TENON_PLUGIN_ADD": str(twins), "TENON_REFERENCE_UUID": "00112233445566778899aabbccddee0f"}
    done = run(tool, "doctor", **environment)
    expect("  twin:0  (the same hardware as reference:0)\n" in done.stdout and "  cpu  (chosen)\n  reference:0\n" in done.stdout, "doctor names the twin", done)
    done = run(tool, "devices", **environment)
    expect(", the same hardware as reference:0\n" in done.stdout, "so does devices", done)
    done = run(tool, "devices", "--json", **environment)
    same = {d["device"]: d["same_as"] for d in json.loads(done.stdout)}
    expect(same["twin:0"] == "reference:0" and same["reference:0"] is None and same["cpu"] is None, "and its JSON", done)


def check_doctor_libraries(tool, _):
    """The CPU plugin names its libraries, with version and kind; on a machine without them it says why they are absent."""
    known = {"OpenBLAS": r"OpenBLAS \d+\.\d+\.\d+, core type \w+, .*: /.*libopenblas", "oneDNN": r"oneDNN \d+\.\d+\.\d+, \S.*: /.*libdnnl"}
    done = run(tool, "doctor", "--json", TENON_CPU_LEVEL="base")
    notes = notes_of(done, "cpu")
    expect("kernels for the level base" in notes, "the level", done)
    for name, pattern in known.items():
        lines = [n for n in notes if n.startswith(name)]
        expect(len(lines) == 1 and (re.match(pattern, lines[0]) or re.match(f"{name} is (absent|not used): .", lines[0])), name, done)
    expect(all(f"           {note}\n" in run(tool, "doctor", TENON_CPU_LEVEL="base").stdout for note in notes), "the same as text", done)
    if all(re.match(pattern, n) for pattern, n in zip(known.values(), [n for n in notes if n.startswith(tuple(known))])):
        expect(not any(n.startswith("hint: ") for n in notes), "nothing is suggested where all is there", done)
    if len(sys.argv) < 5:
        return
    for name, library, package in (("OpenBLAS", "libopenblas", "libopenblas0-openmp"), ("oneDNN", "libdnnl", "libdnnl2")):
        done = run(tool, "doctor", "--json", LD_PRELOAD=sys.argv[4], TENON_TEST_HIDE=library)
        notes = notes_of(done, "cpu")
        hinted = any(n.startswith(f"hint: {name} ") and n.endswith(f": install {package}") for n in notes)
        expect(hinted or any("without its headers" in n for n in notes), f"{name} is suggested", done)
        expect(name != "OpenBLAS" or any("factorizations and solvers are refused without it" in n for n in notes),
               "what is refused without it is said", done)
        expect(sum(n.startswith("hint: ") for n in notes) == hinted, "no other library is", done)
        absent = re.compile(f"{name} is (absent: {library}.so.*cannot open shared object file: No such file or directory"
                            "|not used: the plugin was built without its headers)")
        expect(any(absent.match(n) for n in notes), f"{name} is hidden", done)
        expect(done.returncode == 0, "it may be absent", done)


def check_jobs(tool, _):
    """Cases run in a process for each core, also on a machine with more cores than processes are allowed."""
    if len(sys.argv) < 5:
        return
    forks = {}
    for cores in ("1", "64", "200"):
        done = run(tool, "check", "--device", "cpu", "--filter", "^1/pointwise/aten::(add|mul)[.]Tensor/float32/", LD_PRELOAD=sys.argv[4],
                   TENON_TEST_CORES=cores)
        expect(done.returncode == 0, f"a check on {cores} cores", done)
        forks[cores] = done.stderr.count("a fork")
    expect(forks["64"] == forks["200"] > forks["1"] + 8, f"processes by cores: {forks}", done)


def check_doctor_self_test(tool, _):
    """A plugin whose self-test fails is a problem, with its own words, and so is a row of an operator that does not exist."""
    with tempfile.TemporaryDirectory(dir=Path(sys.argv[3]).parent) as folder:
        os.chmod(folder, 0o755)
        path = Path(folder) / "wrong.json"
        path.write_text(json.dumps({"tenon_manifest": 1, "name": "wrong", "library": sys.argv[3]}))
        path.chmod(0o644)
        for fault, words in (("none", "no problems"), ("self-test", "wrong: self-test: wrong: the fan does not turn"),
                             ("name", "wrong: no operator has the name 'aten::reluu' of a kernel row, so nothing calls it; did you mean")):
            done = run(tool, "doctor", TENON_PLUGIN_ADD=folder, XDG_CACHE_HOME=folder, TENON_TEST_FAULT=fault)
            expect(done.returncode == (fault != "none"), f"{fault}: the status", done)
            expect(words in done.stdout, f"{fault}: the words", done)
        done = run(tool, "doctor", TENON_PLUGIN_ADD=folder, XDG_CACHE_HOME=folder, TENON_TEST_FAULT="rows", TENON_PLUGIN_DISABLE="reference")
        notes, problems = done.stdout.split("\nproblems\n")
        expect(done.returncode == 1, "a device type that nobody has is a problem", done)
        expect("wrong: 1 kernel row for the device type 'wrnog' waits: no plugin in the search path has it; is the name misspelt?"
               in problems and "reference" not in problems, "rows for a misspelt device type", done)
        expect("2 kernel rows for the device type 'reference' wait: no plugin that has it is loaded" in notes, "rows for an absent one", done)
        expect('the kernel row "aten::relu(Tensor self) -> Tensor" is passed over: unknown flags 0x40000000' in notes, "a newer row", done)
        done = run(tool, "doctor", "--json", TENON_PLUGIN_ADD=folder, XDG_CACHE_HOME=folder, TENON_TEST_FAULT="rows", TENON_PLUGIN_DISABLE="reference")
        plugin = next(p for p in json.loads(done.stdout)["plugins"] if p["name"] == "wrong")
        expect(len(plugin["notes"]) == 2 and "'reference'" in plugin["notes"][0], f"the notes of the plugin: {plugin}", done)


def check_doctor_passes_over(tool, _):
    """JSON files of other programs beside plugins are not listed; one that is meant as a manifest is."""
    with tempfile.TemporaryDirectory(dir=Path(sys.argv[3]).parent) as folder:
        os.chmod(folder, 0o755)
        for name, text in (("package", "{}"), ("compile_commands", "[]"), ("large", json.dumps(["x" * 70000]))):
            (Path(folder) / f"{name}.json").write_text(text)
        done = run(tool, "doctor", TENON_PLUGIN_ADD=folder)
        expect(done.returncode == 0 and f"{folder}/" not in done.stdout, "nothing of other JSON files", done)
        (Path(folder) / "typo.json").write_text('{"tenon_manifst": 1, "name": "a", "library": "liba.so"}')
        done = run(tool, "doctor", TENON_PLUGIN_ADD=folder)
        expect(done.returncode == 1 and 'manifest: "tenon_manifest" is missing' in done.stdout, "a mistyped one", done)


def write_manifest(folder, library):
    """A manifest in a folder, both with modes that the loader trusts."""
    os.chmod(folder, 0o755)
    path = Path(folder) / "a.json"
    path.write_text(json.dumps({"tenon_manifest": 1, "name": "skewed", "library": library}))
    path.chmod(0o644)
    return path


def check_forget(tool, skewed):
    """A verdict is shown with its time, until it is forgotten."""
    with tempfile.TemporaryDirectory(dir=skewed) as folder:
        write_manifest(folder, f"{skewed}/libskewed_constructor_crashes.so")
        crash = "probe: crashed with SIGABRT (6) while loading"
        remembered = re.compile(re.escape(crash) + r" \(probed at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; "
                                r"'tenon doctor --forget' deletes the verdict\)\n")
        for flags, again in (([], False), ([], True), (["--forget"], False), ([], True)):
            done = run(tool, "doctor", *flags, TENON_PLUGIN_ADD=folder, XDG_CACHE_HOME=folder)
            expect(done.returncode == 1 and crash in done.stdout, "the crash is found", done)
            expect(bool(remembered.search(done.stdout)) == again, f"{flags}: remembered is {again}", done)


def check_new_others(tool, _):
    """Wrong calls of new-app and new-operators; what they write is built and used by tests/install."""
    with tempfile.TemporaryDirectory() as folder:
        for command, arguments, expected in (
                ("new-app", [], "tenon new-app: --name is missing"),
                ("new-app", ["--name", "a", "--from", "bert"], "--from 'bert' is not one of classify, gpt2, decode, char_lstm, resnet, data_parallel, gpt2_cpp"),
                ("new-app", ["--name", "a", "--vendor", "A"], "unexpected argument '--vendor'"),
                ("new-app", ["--name", "A"], "must be small letters"),
                ("new-operators", ["--name", "a", "--from", "gpt2"], "unexpected argument '--from'"),
                ("new-operators", ["--name", "aten"], "the name 'aten' is reserved")):
            done = run(tool, command, *arguments, "--dir", f"{folder}/new")
            expect(done.returncode == 2 and expected in done.stderr, f"{command} {arguments}", done)
            expect(not list(Path(folder).iterdir()), "nothing was written", done)


def check_new_plugin(tool, _):
    """Wrong calls; what it writes is built and used by tests/install."""
    with tempfile.TemporaryDirectory() as folder:
        full = Path(folder) / "full"
        full.mkdir()
        (full / "file").touch()
        for arguments, status, expected in (
                ([], 2, "--name is missing"),
                (["--name"], 2, "--name needs a value"),
                (["--name", "acme", "--what"], 2, "unexpected argument '--what'"),
                (["--name", ""], 2, "is empty"),
                (["--name", "9a"], 2, "the name '9a' must be small letters, digits and '_', with a letter first"),
                (["--name", "ac-me"], 2, "must be small letters"),
                (["--name", "Acme"], 2, "must be small letters"),
                (["--name", "a" * 32], 2, "is longer than 31 characters"),
                (["--name", "cpu"], 2, "the name 'cpu' is reserved: it is Tenon's own device for the processor"),
                (["--name", "cuda"], 2, "the name 'cuda' is reserved"),
                (["--name", "reference"], 2, "the name 'reference' is reserved"),
                (["--name", "meta"], 2, "the name 'meta' is reserved"),
                (["--name", "best"], 2, "the name 'best' is reserved: it means the device that Tenon chooses"),
                (["--name", "acme", "--vendor", 'A "quoted" one'], 2, "simple punctuation only"),
                (["--name", "acme", "--license", "*/"], 2, "simple punctuation only"),
                (["--name", "acme", "--memory", "shared"], 2, "--memory 'shared' is neither 'host' nor 'opaque'"),
                (["--name", "acme", "--dir", str(full)], 2, "is not empty; nothing was written"),
                (["--name", "acme", "--dir", str(full / "file")], 1, "Not a directory"),
                (["--name", "acme", "--dir", "/nowhere/at/all"], 1, "cannot make the folder '/nowhere/at/all': No such")):
            done = run(tool, "new-plugin", *arguments)
            expect(done.returncode == status and expected in done.stderr, f"{arguments}: {expected}", done)
        expect(os.listdir(full) == ["file"], "nothing was written", done)
        empty = Path(folder) / "empty"
        empty.mkdir()
        done = run(tool, "new-plugin", "--name", "acme", "--dir", str(empty))
        expect(done.returncode == 0 and "sh check.sh" in done.stdout, "an empty folder is filled", done)
        written = sorted(str(p.relative_to(empty)) for p in empty.rglob("*") if p.is_file())
        expect({"plugin.c", "acme.json", "meson.build", "README.md", ".gitignore", "check.sh",
                ".github/workflows/check.yml"} <= set(written), f"files: {written}", done)


def check_broken(tool, skewed):
    cases = {"constructor_crashes": "probe: crashed with SIGABRT (6) while loading", "bss": "lies in .bss",
             "init_fails": "no licence for this machine", "experimental_name": "name 0 is 'tenon.trace'", "wrong_abi": "ABI generation: expected 2 to 2, found 7 to 7"}
    for case, expected in cases.items():
        with tempfile.TemporaryDirectory(dir=skewed) as folder:
            path = write_manifest(folder, f"{skewed}/libskewed_{case}.so")
            done = run(tool, "doctor", "--json", TENON_PLUGIN_ADD=folder, XDG_CACHE_HOME=folder)
            report = json.loads(done.stdout)
            found = [p for p in report["plugins"] if p["manifest"] == str(path)]
            expect(done.returncode == 1 and len(found) == 1, f"{case}: doctor finds it", done)
            expect(found[0]["state"] == "failed" and expected in found[0]["reason"], f"{case}: {expected}", done)


def check_experimental(tool, skewed):
    """The doctor says which experimental interfaces a plugin has."""
    with tempfile.TemporaryDirectory(dir=skewed) as folder:
        path = write_manifest(folder, f"{skewed}/libskewed_experimental.so")
        done = run(tool, "doctor", TENON_PLUGIN_ADD=folder, XDG_CACHE_HOME=folder)
        line = "experimental interfaces: tenon.x.first, tenon.x.second (any version may change them)\n"
        expect(line in done.stdout, "the interfaces are named", done)
        report = json.loads(run(tool, "doctor", "--json", TENON_PLUGIN_ADD=folder, XDG_CACHE_HOME=folder).stdout)
        names = {p["name"]: p.get("experimental") for p in report["plugins"]}
        expect(names["skewed"] == "tenon.x.first, tenon.x.second" and names["cpu"] is None, f"{path}: {names}", done)


def main():
    sys.argv[3:] = [str(Path(path).resolve()) for path in sys.argv[3:]]
    tool, skewed = sys.argv[1:3]
    checks = [check_usage, check_log, check_profile, check_bench, check_golden, check_golden_fallbacks, check_golden_lost, check_golden_ended, check_devices, check_ops, check_c_calls, check_doctor, check_doctor_fallbacks, check_twins, check_doctor_libraries, check_jobs, check_doctor_self_test,
              check_doctor_passes_over, check_broken, check_experimental, check_forget, check_new_others, check_new_plugin]
    return run_checks(checks, tool, skewed)


if __name__ == "__main__":
    sys.exit(main())
