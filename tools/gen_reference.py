#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The calls of all operators as headers that Doxygen reads, and its settings.

    gen_reference.py TENON SOURCE VERSION FOLDER

Writes FOLDER/operators/*.h, a header for each first letter, from what `tenon ops` says, and FOLDER/Doxyfile.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

SETTINGS = """
PROJECT_NAME = Tenon
PROJECT_NUMBER = {version}
PROJECT_BRIEF = "A tensor and autograd runtime whose devices are plugins"
OUTPUT_DIRECTORY = {folder}
INPUT = {source}/README.md {source}/docs {source}/plugins/reference/README.md {source}/plugins/null/README.md {examples} {headers} {folder}/operators
FILE_PATTERNS = *.h *.hpp *.md
EXCLUDE = {source}/abi/include/tenon/ops.h {source}/abi/include/tenon/ops.hpp {source}/abi/include/tenon/tensor_ops.hpp {source}/nn/include/tenon/nn_layers.hpp {source}/abi/include/tenon/op_numbers.h
USE_MDFILE_AS_MAINPAGE = {source}/README.md
INPUT_FILTER = "{python} {source}/tools/doc_filter.py"
STRIP_FROM_PATH = {source} {source}/abi/include {source}/nn/include {source}/optim/include {source}/files/include {source}/data/include {source}/progress/include {folder}
EXTRACT_ALL = YES
JAVADOC_AUTOBRIEF = YES
SHOW_HEADERFILE = NO
OPTIMIZE_OUTPUT_FOR_C = YES
MARKDOWN_SUPPORT = YES
TOC_INCLUDE_HEADINGS = 3
TYPEDEF_HIDES_STRUCT = YES
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = TN_API= TN_ANY_THREAD= TN_NULLABLE= TN_TAKES= TN_SCOPED= TN_BEGIN_DECLS= TN_END_DECLS= "__attribute__(x)=" DOXYGEN
GENERATE_LATEX = NO
HAVE_DOT = NO
GENERATE_TREEVIEW = YES
DISABLE_INDEX = NO
SEARCHENGINE = YES
HTML_COLORSTYLE_HUE = 210
HTML_TIMESTAMP = NO
VERBATIM_HEADERS = NO
SORT_BRIEF_DOCS = YES
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_AS_ERROR = FAIL_ON_WARNINGS
"""


def calls_of(tenon):
    """(declaration, options, operator) for each call; options are (name, type, default)."""
    blocks = re.split(r"\n(?=\S)", subprocess.run([tenon, "ops", "--c", "*"], capture_output=True, text=True, check=True).stdout.strip())
    for block in blocks:
        declaration, *lines = block.split("\n")
        options = [re.match(r" *\.(\w+) +(\S+(?: \*)?) +(.*)", line).groups() for line in lines if line.startswith("    .")]
        yield declaration, options, next(line.strip() for line in lines if "::" in line)


def comment(options, operator, about):
    lines = ["/**", f" * {about['doc']}", " *", f" * Operator `{operator}`; " + ("it has a gradient." if about["gradient"] else "without a gradient.")]
    if options:
        lines += [" *", " * | option | type | default |", " * |---|---|---|"]
        lines += [f" * | `.{name}` | `{kind}` | `{default}` |" for name, kind, default in options]
    return "\n".join([*lines, " *", f" *     {about['schema']}", " */"])


def main():
    tenon, source, version, folder = sys.argv[1], Path(sys.argv[2]).resolve(), sys.argv[3], Path(sys.argv[4]).resolve()
    rows = json.loads(subprocess.run([tenon, "ops", "--json", "*"], capture_output=True, text=True, check=True).stdout)
    about = {row["name"]: row for row in rows}
    letters = {}
    for declaration, options, operator in calls_of(tenon):
        name = re.search(r"\btn_(\w+)\(", declaration)[1]
        letter = name.strip("_")[0].lower()
        letters.setdefault(letter, []).append((name, f"{comment(options, operator, about[operator])}\n{declaration};\n"))
    (folder / "operators").mkdir(parents=True, exist_ok=True)
    for letter, calls in letters.items():
        text = "\n".join(text for _, text in sorted(calls))
        (folder / "operators" / f"operators_{letter}.h").write_text(
            f"/** @file\n * Calls of operators with {letter.upper()}. They are in tenon/ops.h, as macros that take options: `.name = value`.\n */\n\n{text}")
    headers = " ".join(f"{source}/{room}/include/tenon" for room in ("abi", "nn", "optim", "files", "data", "progress"))
    examples = " ".join(map(str, sorted(source.glob("examples/*/README.md"))))
    (folder / "Doxyfile").write_text(
        SETTINGS.format(version=version, folder=folder, source=source, headers=headers, examples=examples, python=sys.executable))


if __name__ == "__main__":
    main()
