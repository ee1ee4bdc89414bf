#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rooms of the house: which folder may include from which, and what library code may never call.

    abi <- core <- dispatcher <- { autograd, ops };  abi <- plugins/*;  abi <- { kit, tools, nn, optim, data, examples, ... }

An include in quotes is looked for beside the file, in the top folder of its plugin and from the root; one that is in
none of these places is made by the build and belongs to the room that its folder names. Prints every breach; exits with 1 if there is one.
"""
import re
import sys
from pathlib import Path

# Room -> rooms it may include from, besides itself. Clients and plugins see <tenon/...> only.
ARROWS = {
    "abi": [],
    "core": [],
    "dispatcher": ["core"],
    "autograd": ["core", "dispatcher"],
    "ops": ["core", "dispatcher"],
    "tools": [], "nn": [], "optim": [], "data": [], "examples": [], "bindings": [],
    "kit": [],
    "bench": ["kit"],  # kit/calls: calls of operators, described and filled
}
# Device plugins that share one family of code.
SHARED_PLUGINS = {"plugins/cuda": ["plugins/gpu"], "plugins/hip": ["plugins/gpu"], "plugins/xpu": ["plugins/gpu"]}
# A library returns errors; a program decides. These print, or end the process.
LIBRARY = ("core", "dispatcher", "autograd", "ops", "plugins", "nn", "optim", "data")
FORBIDDEN = re.compile(r"(?<![\w.>])(printf|vprintf|puts|putchar|perror|exit|_exit|_Exit|quick_exit|abort|err|errx)\s*\("
                       r"|(?<![\w.>])(fprintf|fputs|fputc|vfprintf|fwrite)\s*\([^;]*\bstd(?:out|err)\b")
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


def target_room(root, path, name):
    beside = (root / path).parent / name
    if beside.exists():
        return room_of(beside.resolve().relative_to(root))
    room = room_of(path)
    if room.startswith("plugins/") and (root / room / name).exists():
        return room
    if "/" not in name and not (root / name).exists():
        return room_of(path)  # made by the build for this room
    return room_of(Path(name))


def allowed(room, target):
    if room == target:
        return True
    if room.startswith("plugins/"):
        return target in SHARED_PLUGINS.get(room, [])
    return target in ARROWS[room]


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
        target = target_room(root, path, match[1])
        if not allowed(room, target):
            yield f"{path}:{number}: {room} may not include from {target or 'the root'}: \"{match[1]}\""


def check_calls(path, code):
    if path.parts[0] not in LIBRARY or path.suffix == ".py":
        return
    for match in FORBIDDEN.finditer(code):
        number = code.count("\n", 0, match.start()) + 1
        yield f"{path}:{number}: library code may not call {match[1] or match[2]}"


def check(root):
    breaches, files = [], 0
    for room in [*ARROWS, "plugins"]:
        for file in sorted((root / room).rglob("*")) if (root / room).is_dir() else []:
            if file.suffix not in SUFFIXES:
                continue
            path = file.relative_to(root)
            code = code_of(file.read_text())
            breaches += [*check_includes(root, path, code), *check_calls(path, code)]
            files += 1
    return breaches, files


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    breaches, files = check(root)
    print("\n".join(breaches) or f"{files} files keep to their rooms")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
