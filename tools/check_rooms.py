#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks of the rooms that include paths cannot make, and of calls that the library may not make.

The top meson.build gives each room an include path with the rooms that it may see. This script looks for the rest:
includes that climb out of a room ("../core/x.h"), client headers in plugins, calls that print or end the process, and
calls that read or write the decimal point of the program's locale.
Prints every breach; exits with 1 if there is one.
"""
import re
import sys
from pathlib import Path

ROOMS = ("abi", "core", "dispatcher", "autograd", "ops", "plugins", "kit", "nn", "optim", "files", "data", "progress", "examples", "bench")
# A library returns errors; a program decides. These print, or end the process.
LIBRARY = ("core", "dispatcher", "autograd", "ops", "plugins", "nn", "optim", "files", "data", "progress")
FORBIDDEN = re.compile(r"(?<![\w.>])(printf|vprintf|puts|putchar|perror|exit|_exit|_Exit|quick_exit|abort|err|errx)\s*\("
                       r"|(?<![\w.>])(fprintf|fputs|fputc|vfprintf|fwrite)\s*\([^;]*\bstd(?:out|err)\b")
# The functions that print: lines of the log, where the environment asks for them, and a program's main function in a header; and the
# one that ends a process, which it has made.
PRINTS = {"core/log.c": "write_to_stderr", "files/handle.c": "write_to_stderr", "data/workers.c": "start_worker", "nn/include/tenon/program.h": "tn_main"}
# The decimal point of these is the one of the program's locale. core/number_text.h and files/shared/number_text.h have the same
# with a point.
BY_LOCALE = re.compile(r"(?<![\w.>])(strto[fd]|strtold|atof|v(?:f|s|sn|as|d)printf)\s*\(")
FORMATTED = re.compile(r"(?<![\w.>])((?:f|s|sn|as|d)printf|[fs]?scanf)\s*\(")
FRACTION = re.compile(r"%[-+#0*]*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?[lL]?[aefgAEFG]")
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
# What may call them: the functions instead of them, and those whose format the program gives.
KNOWS_LOCALES = {"core/number_text.c", "files/shared/number_text.h", "nn/program.c", "progress/line.c"}
# Headers that vendors may not see: they declare functions of the library.
CLIENT_ONLY = {"tenon.h", "autograd.h", "inspect.h", "io.h", "trace.h"}
SUFFIXES = {".c", ".h", ".cc", ".cpp", ".cu", ".cl"}


def blank(match):
    """Keeps the line numbers of what is removed."""
    return re.sub(r"[^\n]", " ", match[0])


def code_of(text):
    text = re.sub(r"/\*.*?\*/", blank, text, flags=re.S)
    text = re.sub(r"//[^\n]*", blank, text)
    # The text of an include stays; other strings go.
    return "\n".join(line if re.match(r"\s*#\s*include", line) else re.sub(r'"(?:[^"\\]|\\.)*"', '""', line)
                     for line in text.split("\n"))


def room_of(path):
    """The room of a path relative to the root; each plugin is a room of its own."""
    parts = path.parts
    if len(parts) > 1 and parts[0] == "plugins":
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else ""


def check_includes(root, path, code):
    room = room_of(path)
    for number, line in enumerate(code.split("\n"), 1):
        match = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<tenon/([^>]+)>)', line)
        if not match:
            continue
        if match[2]:
            if room.startswith("plugins/") and match[2] in CLIENT_ONLY:
                yield f"{path}:{number}: a plugin may not include <tenon/{match[2]}>"
            continue
        if ".." not in Path(match[1]).parts:
            continue
        target = ((root / path).parent / match[1]).resolve()
        if not target.is_relative_to(root) or room_of(target.relative_to(root)) != room:
            yield f"{path}:{number}: this include leaves the room: \"{match[1]}\""


def check_calls(path, code):
    if path.parts[0] not in LIBRARY or path.suffix == ".py":
        return
    if str(path) in PRINTS:
        code = re.sub(rf"^static (?:inline )?\w+ {PRINTS[str(path)]}\(.*?^}}", blank, code, count=1, flags=re.S | re.M)
    for match in FORBIDDEN.finditer(code):
        number = code.count("\n", 0, match.start()) + 1
        yield f"{path}:{number}: library code may not call {match[1] or match[2]}"


def arguments(text, at):
    """From an opening bracket to its closing one."""
    depth = 0
    for match in re.finditer(STRING.pattern + "|[()]", text[at:]):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if not depth:
            return text[at:at + match.end()]
    return text[at:]


def check_numbers(path, text):
    """A file that calls plain_locale_begin may print numbers by itself. Plugins have no such functions, and print no fractions."""
    if path.parts[0] not in LIBRARY or str(path) in KNOWS_LOCALES:
        return
    text = re.sub(r"/\*.*?\*/", blank, text, flags=re.S)
    is_plugin = path.parts[0] == "plugins"
    found = [m for m in BY_LOCALE.finditer(text) if not (is_plugin and m[1] == "vsnprintf")]
    if is_plugin:
        found += [m for s in STRING.finditer(text) for m in [re.search(f"({FRACTION.pattern})", s[0].replace("%%", ""))] if m]
    elif "plain_locale_begin" not in text:
        found += [m for m in FORMATTED.finditer(text) if FRACTION.search(arguments(text, m.end() - 1).replace("%%", ""))]
    for match in found:
        number = text.count("\n", 0, match.start()) + 1
        yield f"{path}:{number}: the decimal point of {match[1]} is the one of the program's locale: see number_text.h"


def check(root):
    breaches, files = [], 0
    for room in ROOMS:
        for file in sorted((root / room).rglob("*")) if (root / room).is_dir() else []:
            if file.suffix not in SUFFIXES:
                continue
            path = file.relative_to(root)
            text = file.read_text()
            code = code_of(text)
            breaches += [*check_includes(root, path, code), *check_calls(path, code), *check_numbers(path, text)]
            files += 1
    return breaches, files


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    breaches, files = check(root)
    print("\n".join(breaches) or f"{files} files keep to their rooms")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
