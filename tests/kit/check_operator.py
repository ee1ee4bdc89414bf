#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon check --op`: the example passes, and each operator that is wrong is found in the part that it is wrong in.

    check_operator.py TENON EXAMPLE WRONG_OPERATORS MISSPELT_OPERATORS OTHER_NAMESPACE TWICE PLUGINS [sanitized]
"""
import json
import os
import subprocess
import sys
import tempfile

# operator: (part, a word of the finding)
WRONG = {
    "mutates": ("schema", "argument 'x' changed"),
    "aliases": ("schema", "shares memory with argument 'x'"),
    "aliased_list": ("schema", "a tensor of the list that is result 0 shares memory with argument 'x'"),
    "wrong_once": ("differences", "finite differences"),
    "reads_unsaved": ("gradient", "backward"),
    "gradient_of_number": ("gradient", "which is not a tensor"),
    "no_gradient": ("gradient", "backward gave no gradient"),
    "float_gradient": ("gradient", "backward gives the gradient of 'x' as float32, and the argument is float64"),
    "meta_gradient": ("gradient", "backward gives the gradient of 'x' on meta, and the argument is on cpu"),
    "complex_gradient": ("gradient", "the gradient of argument 'x' is complex128, but the argument is float64"),
    "wrong_gradient": ("differences", "finite differences"),
    "longer": ("shape", "the shape rule"),
    "leaves_one": ("shape", "does not write all of it"),
    "ignores_strides": ("layouts", "argument 'x' transposed, compared with row-major copies: result 0"),
    "ignores_strides_": ("layouts", "argument 'x' as a column of a matrix: elements of its storage"),
    "reads_allocation": ("layouts", "argument 'x' behind a storage offset, compared with row-major copies: result 0"),
    "writes_between_": ("layouts", "'x' as a column of a matrix: elements of its storage that do not belong to it were written"),
    "two_ways": ("traced", "by the composite"),
    "overruns": ("schema", "writes outside of result 0: byte 1 behind"),
    "refuses_late": ("call", "the kernel of wrong::refuses_late refused after it had agreed"),
    "bad_status": ("call", "the shape rule of wrong::bad_status returned -77, not a valid status code"),
    "no_text": ("call", "wrong::no_text failed: bad shape (a function that fails records why with host->error"),
    "negative_size": ("call", "the shape rule gave output 0 the size -1 in dimension 1"),
    "reads_elements": ("shape", "while the shape rule ran on the device 'meta', whose tensors have no memory"),
    "aborts": ("schema", "crashed: Aborted, while the operator ran on cpu: its composite had called aten::mul.Tensor last"),
    "calls_itself": ("call", "101 calls are nested in each other"),
    "wrong_": ("differences", "finite differences"),
    "wrong_list": ("differences", "finite differences"),
}


# Not in builds with a sanitizer, which would report them, too.
LEAKS = ("leaks_heap", "leaks_of_host", "leaks_in_backward")


def run(tool, *arguments, **environment):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TENON_")} | environment
    done = subprocess.run([tool, "check", *arguments], capture_output=True, text=True, env=clean, timeout=600)
    try:
        return done, json.loads(done.stdout)
    except json.JSONDecodeError:
        return done, None


def expect(condition, what, done):
    if not condition:
        sys.exit(f"{what}\nstatus {done.returncode}\n{done.stdout[:3000]}\n{done.stderr[:1000]}")


def parts_failed(report):
    return {c["name"].split("/")[3]: c.get("reason", "") for c in reversed(report["cases"])
            if c["outcome"] in ("failed", "crashed")}


def main():
    tool, example, wrong, misspelt, other, twice, plugins = sys.argv[1:8]
    sanitized = sys.argv[8:] == ["sanitized"]
    done, report = run(tool, example, "--op", "mylib::smooth_max", "--json", "-")
    expect(done.returncode == 0 and report, "the example is as it should be", done)
    passed = {c["name"].split("/")[3] for c in report["cases"] if c["outcome"] == "passed"}
    expect(passed == {"schema", "shape", "layouts", "gradient", "differences", "traced", "leaks"}, f"all parts ran: {passed}", done)
    kept = [c for c in report["cases"] if c["name"].endswith("/arguments")]
    expect(len(kept) == 1 and "leave 'beta' at the defaults" in kept[0]["reason"], f"what was not varied: {kept}", done)

    for name in ("right", "right_", "right.out", "right_list", "noise", "any", "any_", "any.out", "halves", "multiples", "once"):
        done, report = run(tool, wrong, "--op", f"wrong::{name}", "--json", "-")
        expect(done.returncode == 0 and report, f"{name} is right", done)
        passed = {c["name"].split("/")[3] for c in report["cases"] if c["outcome"] == "passed"}
        recorded = set() if name in ("right.out", "noise", "any", "any_", "any.out") else {"gradient", "differences"}
        expect(passed == {"schema", "shape", "layouts", "traced", "leaks"} | recorded, f"{name}: these parts ran: {passed}", done)
    done, report = run(tool, wrong, "--op", "wrong::rank", "--json", "-")
    skipped = {c["reason"] for c in report["cases"] if c["name"].split("/")[3] in ("gradient", "differences")} if report else {}
    expect(done.returncode == 0 and "no result is a tensor that takes a gradient" in skipped, f"a number: {skipped}", done)
    done, report = run(tool, wrong, "--op", "wrong::above_one", "--json", "-")
    skipped = {c["reason"] for c in report["cases"] if c["name"].split("/")[3] == "shape"} if report else {}
    expect(done.returncode == 0 and skipped == {"shapes depend on data"}, f"a result of unknown size: {skipped}", done)
    for name, (part, words) in WRONG.items():
        only = [] if part == "call" else ["--filter", "float64"]
        done, report = run(tool, wrong, "--op", f"wrong::{name}", "--json", "-", *only)
        expect(done.returncode == 1 and report, f"{name} fails", done)
        failed = parts_failed(report)
        expect(part in failed and words in failed[part], f"{name} is found in '{part}' by '{words}', not {failed}", done)

    done, report = run(tool, wrong, "--op", "wrong::overruns", "--json", "-")
    crashed = {c["name"] for c in report["cases"] if c["outcome"] == "crashed"} if report else set()
    expect(done.returncode == 1 and "1/custom/wrong::overruns/schema/float64 [0,3]" in crashed,
           f"a guessed call that crashes fails alone: {crashed}", done)
    expect(report["tables"] and not any("[3,4]" in name for name in crashed), "the other calls are checked", done)

    call = '[{"t": [2, 3], "d": "float64", "low": 1, "high": 2}, 7]'
    done, report = run(tool, wrong, "--op", "wrong::needs_number", "--args", call, "--json", "-")
    expect(done.returncode == 0 and report and all("given 1" in c["name"] or c["name"].endswith("/leaks/library") for c in report["cases"]), "a given call", done)
    done, _ = run(tool, wrong, "--op", "wrong::needs_number", "--args", '[{"t": [2], "d": "float64"}, "seven"]')
    expect(done.returncode == 1 and "given call" in done.stdout, "a given call that is refused", done)
    expect(".c:" not in done.stdout, "no line of the tool's own source", done)
    done, report = run(tool, wrong, "--op", "wrong::rows", "--json", "-")
    names = {c["name"].split("/", 4)[4]: c.get("reason", "") for c in report["cases"]
             if c["name"].split("/")[3] in ("schema", "refused")} if report else {}
    expect(done.returncode == 0 and {"float64 [3,4], weight [4]", "float64 [2,3,4], weight [4]", "float32 [5]",
                                     "bfloat16 [3,4], weight [4]"} <= set(names), f"dtypes and shapes: {names}", done)
    expect(not any(name.startswith(("float16 ", "int64 ")) for name in names), f"of accepted dtypes: {names}", done)
    expect("no guessed call of float16 is accepted: " in names["float16"] and "x must be wide" in names["float16"],
           f"a dtype that did not run: {names}", done)
    expect("no guessed call with tensors of [] is accepted: " in names["shapes"], f"a shape that did not run: {names}", done)

    tensor = '{"t": [2], "d": "float64"}'
    for call, words in ((f'{{"args": [{tensor}, 7], "kwargs": {{"beta": 1}}}}',
                         "wrong::needs_number has no argument 'beta' (it has x, k)"),
                        (f'{{"args": [{tensor}, 7], "kwargs": {{"k": 1}}}}', "argument 'k' of wrong::needs_number is given twice"),
                        (f'[{tensor}, 7, 8]', "3 arguments, and wrong::needs_number has 2 (x, k)"),
                        ('[{"t": [2], "d": "flot32"}, 7]', "there is no dtype 'flot32'"),
                        ('[{"t": [2]}, 7]', "a tensor has no dtype"),
                        ('[{"t": [2], "d": "float64", "hihg": 2}, 7]', "a tensor has the unknown key 'hihg'"),
                        ('[{"t": ["2"], "d": "float64"}, 7]', "a list of integers has another value"),
                        ('[{"t": [2], "d": "float64", "o": -1}, 7]', "the storage offset of a tensor is negative"),
                        ('[{"t": 2, "d": "float64"}, 7]', "the sizes of a tensor are a list of integers"),
                        (f'[{tensor}, {{"n": 7}}]', 'an unknown value: {"n":7}'),
                        (f'[{tensor}, {{"dtype": "int63"}}]', "there is no dtype 'int63'"),
                        (f'{{"arg": [{tensor}, 7]}}', "a call has the unknown key 'arg'")):
        done, _ = run(tool, wrong, "--op", "wrong::needs_number", "--args", call)
        expect(done.returncode == 1 and words in done.stdout, f"{call} is refused by '{words}'", done)
    for name, refused in (("any", False), ("ignores_strides", True), ("reads_allocation", True)):
        view = '[{"t": [2, 3], "d": "float64", "s": [1, 2], "o": 5}]'
        done, report = run(tool, wrong, "--op", f"wrong::{name}", "--args", view, "--json", "-")
        expect(report and done.returncode == refused and ("layouts" in parts_failed(report)) == refused, f"{name}: a given view", done)
    text = '[{"t": [2], "d": "float64"}, "tanh", [0], 0.1]'
    done, report = run(tool, wrong, "--op", "wrong::text", "--args", text, "--json", "-")
    expect(done.returncode == 0 and report, "a text lives as long as its call", done)
    named = '{"args": [{"t": [2], "d": "float64"}, "tanh"], "kwargs": {"e": 0.5}}'
    done, report = run(tool, wrong, "--op", "wrong::text", "--args", named, "--json", "-")
    expect(done.returncode == 0 and report, "a list between given arguments has its default", done)
    done, report = run(tool, misspelt, "--op", "wrong::right", "--json", "-", "--filter", "rows")
    found = parts_failed(report).get("rows", "")
    expect("no operator has the name 'wrong::rihgt' of a kernel row" in found and "did you mean wrong::right" in found,
           f"a misspelt row: {found}", done)
    elsewhere = [c["reason"] for c in report["cases"] if c["name"].endswith("/rows/devices") and c["outcome"] == "skipped"]
    expect(elsewhere == ["1 kernel row for the device type 'cpuu' waits: no plugin in the search path has it; is the name misspelt?"],
           f"a row for a device that nobody has: {elsewhere}", done)
    bias = '[{"t": [2, 3], "d": "float64"}, {"t": [2, 3], "d": "float64", "seed": 1}]'
    done, report = run(tool, wrong, "--op", "wrong::saved_bias", "--args", bias, "--json", "-")
    expect(done.returncode == 0 and report, "an optional argument that is saved", done)
    done, report = run(tool, wrong, "--op", "wrong::unsaved_bias", "--args", bias, "--json", "-")
    found = parts_failed(report).get("differences", "")
    expect("`saves` does not list the optional argument 'bias', so backward sees None" in found, f"one that is not: {found}", done)
    done, report = run(tool, other, "--op", "aten::tril", "--json", "-")
    found = parts_failed(report).get("traced", "") if report else ""
    expect("on the other device" in found, f"a wrong row of a built-in operator: {found}", done)
    done, report = run(tool, wrong, "--op", "wrong::partly", "--json", "-")
    table = report["tables"]["custom_ways"] if report else {}
    expect(done.returncode == 0 and table["columns"] == ["calls of", "by the row", "by the composite", "on the CPU"]
           and table["rows"] == [["float64", 8, 0, 0], ["float32", 0, 8, 0]], f"who computed: {table}", done)
    done, report = run(tool, example, "--op", "mylib::smooth_max", "--json", "-")
    expect("custom_ways" in report["tables"], "the example has a row", done)
    for name in () if sanitized else LEAKS:
        done, report = run(tool, wrong, "--op", f"wrong::{name}", "--json", "-")
        expect(done.returncode == 1 and report, f"{name} fails", done)
        failed = parts_failed(report)
        words = "the call and its backward: the heap" if name == "leaks_in_backward" else "the call: the heap of the process grew by"
        expect(set(failed) == {"leaks"} and words in failed["leaks"], f"{name} leaks: {failed}", done)
    for library, words in () if sanitized else ((misspelt, "the heap of the process grew"), (other, "bytes of host->alloc were not freed")):
        done, report = run(tool, library, "--op", "wrong::right", "--json", "-", "--filter", "leaks/library")
        expect(report and words in parts_failed(report).get("leaks", ""), f"the library leaks: {words}", done)
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/misspelt.json", "w") as manifest:
            json.dump({"tenon_manifest": 1, "name": "wrong_operators", "library": os.path.abspath(misspelt)}, manifest)
        done, report = run(tool, "--device", "cpu", "--op", "wrong::right", "--json", "-", "--filter", "rows", TENON_PLUGIN_PATH=f"{plugins}/cpu:{folder}", TENON_PLUGIN_PROBE="never")
    found = parts_failed(report).get("rows", "") if report else ""
    expect("no operator has the name 'wrong::rihgt'" in found, f"a misspelt row of a library with a manifest: {found}", done)
    done, report = run(tool, other, "--op", "wrong::right", "--json", "-", "--filter", "rows")
    rows = {c["name"].split("/", 3)[3]: (c["outcome"], c["reason"]) for c in report["cases"]}
    expect(rows["rows"][0] == "failed" and "no operator has the name 'wrongs::right'" in rows["rows"][1]
           and "did you mean wrong::right" in rows["rows"][1], f"a misspelt namespace: {rows}", done)
    expect(rows["rows/namespace"][0] == "skipped" and "the kernel row 'elsewhere::right'" in rows["rows/namespace"][1],
           f"a namespace of another library: {rows}", done)
    done, report = run(tool, other, "--op", "wrong::any", "--json", "-", TENON_VALIDATE="1",
                       TENON_PLUGIN_PATH=f"{plugins}/cpu:{plugins}/shims", TENON_PLUGIN_PROBE="never")
    found = parts_failed(report).get("load", "") if report else ""
    expect("the row of wrong::longer has flags 0x40000000" in found, f"a finding when the library is loaded: {found}", done)
    done, _ = run(tool, twice, "--op", "wrong::right")
    expect(done.returncode == 1 and "init failed: operator wrong::aborts is defined already" in done.stdout, "an operator that is defined twice", done)
    done, _ = run(tool, wrong, "--op", "wrong::nothing")
    expect(done.returncode == 1 and "no operator 'wrong::nothing'" in done.stdout, "an operator that is not there", done)
    done, _ = run(tool, wrong, "--args", "[]")
    expect(done.returncode == 2, "--args without --op", done)


main()
