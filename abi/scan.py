# SPDX-License-Identifier: Apache-2.0
"""Reads the public headers: structs with their fields, constants, functions.

The headers are regular (one declarator for each field, constants as object-like macros), so a small scanner is
enough; what it cannot read it refuses, so that nothing stays outside the lock unseen. It knows the text of the
contract only; sizes and offsets come from the compilers, in lock.py.
"""
import re
from dataclasses import dataclass, field
from pathlib import Path

HEADERS = ["base.h", "value.h", "context.h", "tensor.h", "op.h", "autograd.h", "device.h", "graph.h",
           "collectives.h", "interop.h", "random.h", "io.h", "inspect.h", "trace.h", "profile.h",
           "activity.h", "plugin.h"]
# Words of the headers that do not belong to a type.
NOTES = re.compile(r"\bTN_(BORROWS|TAKES|GIVES|SCOPED|OUT|NULLABLE|ANY_THREAD|SCOPE_THREAD|HOST_THREAD|IN_KERNEL|"
                   r"IN_CALLBACK|API|BEGIN_DECLS|END_DECLS)\b")
# Constants that are meant to move (versions, what they are made of) or that depend on the compiler.
MOVING = {"TN_ABI_MINOR", "TN_VERSION_MAJOR", "TN_VERSION_MINOR", "TN_VERSION_PATCH", "TN_PLUGIN_STAMP",
          "TN_STATUS_COUNT", "TN_ARCHITECTURE", "TN_SANITIZER", "TN_BUILD_ID"}
TYPE_WORDS = {"char", "int", "void", "float", "double", "unsigned", "long", "short", "const"}


class ScanError(Exception):
    pass


@dataclass
class Field:
    name: str
    type: str
    notes: str = None  # of a slot


@dataclass
class Struct:
    name: str
    tag: str  # how C names it: "tn_error" or "struct tn_host"
    fields: list = field(default_factory=list)


@dataclass
class Interface:
    structs: dict = field(default_factory=dict)
    constants: dict = field(default_factory=dict)  # name -> None, or the text of a string
    functions: dict = field(default_factory=dict)  # name -> signature
    types: dict = field(default_factory=dict)  # typedefs of functions and numbers: name -> text
    notes: dict = field(default_factory=dict)  # functions and slots: name -> who owns what, and which threads may call


def strip_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def squeeze(text):
    text = re.sub(r"\s+", " ", NOTES.sub(" ", text)).strip()
    text = re.sub(r"\s*([(),\[\]])\s*", r"\1", text)
    text = re.sub(r"\s*\*\s*", " *", text)
    return text.replace("* *", "**").replace("( *", "(*").strip()


def split_top(text, separator):
    """Splits at separators outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "({["
        depth -= c in ")}]"
        if c == separator and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return parts


def matching(text, at):
    """Index behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += text[i] in "({["
        depth -= text[i] in ")}]"
        if depth == 0:
            return i + 1
    raise ScanError(f"unbalanced brackets at: {text[at:at + 60]!r}")


def without_names(parameters):
    """A parameter list without the names of the parameters: they do not belong to the contract."""
    out = []
    for p in split_top(parameters, ","):
        p = squeeze(p)
        pointer = re.match(r"^(.*)\(\*\w*\)(\(.*\))$", p)
        if pointer:
            p = f"{squeeze(pointer[1])}(*)({without_names(pointer[2][1:-1])})"
        else:
            p = re.sub(r"\w+(\[\w*\])$", r"\1", p)
            words = re.findall(r"\w+|\*+", p)
            if len(words) > 1 and words[-1] not in TYPE_WORDS and not words[-1].startswith("*"):
                if not (len(words) == 2 and words[0] in ("struct", "const")):
                    p = p[:p.rindex(words[-1])].strip()
        out.append(squeeze(p))
    return ",".join(out)


def notes_of(text):
    """The macros of ownership and threads of a function or slot: `0:BORROWS 2:OUT ANY_THREAD`, numbers being those of
    parameters; '-' when there are none."""
    match = re.search(r"\(\*\w+\)\s*\(|\btn_\w+\s*\(", text)
    end = matching(text, match.end() - 1)
    found = [f"{i}:{n}" for i, p in enumerate(split_top(text[match.end():end - 1], ",")) for n in NOTES.findall(p)]
    found += [n for n in NOTES.findall(text[:match.start()] + " " + text[end:]) if n not in ("API", "BEGIN_DECLS", "END_DECLS")]
    return " ".join(found) or "-"


def read_field(text, where):
    """One declaration of a struct's member."""
    raw, text = text, squeeze(text)
    pointer = re.match(r"^(.*?)\(\*(\w+)\)\((.*)\)$", text)
    if pointer:
        return [Field(pointer[2], f"{pointer[1].strip()}(*)({without_names(pointer[3])})", notes_of(raw))]
    plain = re.match(r"^(.*?[\s*])(\w+)((?:\[[^\]]*\])*)$", text)
    if not plain or "(" in text or "," in text or ":" in text:
        raise ScanError(f"{where}: cannot read the member {text!r}")
    return [Field(plain[2], squeeze(plain[1] + plain[3]))]


def read_fields(body, where):
    fields = []
    for part in split_top(body, ";"):
        part = part.strip()
        if not part:
            continue
        nested = re.match(r"^(union|struct)\s*\{", part)
        if not nested:
            fields += read_field(part, where)
            continue
        end = matching(part, part.index("{"))
        name = part[end:].strip()
        members = read_fields(part[part.index("{") + 1:end - 1], where)
        fields.append(Field(name, nested[1]))
        fields += [Field(f"{name}.{m.name}", m.type) for m in members]
    return fields


def read_aggregate(head, body, tail, api, where):
    if head.split()[-2:-1] == ["enum"] or head.split()[-1] == "enum":
        return  # the statuses, read from their list
    match = re.search(r"(typedef )?struct (\w+)$", head)
    if not match:
        raise ScanError(f"{where}: cannot read {head!r} {{...}}")
    name = tail if match[1] else match[2]
    api.structs[name] = Struct(name, name if match[1] else f"struct {name}", read_fields(body, f"{where}: {name}"))
    api.notes.update({f"{name}.{f.name}": f.notes for f in api.structs[name].fields if f.notes})


def read_plain(item, api, where):
    """A declaration without a body: function, typedef, forward declaration."""
    raw, item = item, squeeze(item)
    if not item or item.startswith("extern") or re.match(r"^(typedef )?struct \w+( \w+)?$", item):
        return
    pointer = re.match(r"^typedef (.*?)\(\*(\w+)\)\((.*)\)$", item)
    if pointer:
        api.types[pointer[2]] = f"{pointer[1].strip()}(*)({without_names(pointer[3])})"
        return
    alias = re.match(r"^typedef (.*?)(\w+)$", item)
    if alias:
        api.types[alias[2]] = alias[1].strip()
        return
    function = re.match(r"^(.*?[\s*])(tn_\w+)\((.*)\)$", item)
    if not function:
        raise ScanError(f"{where}: cannot read {item!r}")
    api.functions[function[2]] = f"{squeeze(function[1])}({without_names(function[3])})"
    api.notes[function[2]] = notes_of(raw)


def read_declarations(text, api, where):
    at = 0
    while True:
        match = re.compile(r"[;{]").search(text, at)
        if not match:
            if squeeze(text[at:]):
                raise ScanError(f"{where}: text behind the last declaration: {text[at:at + 60]!r}")
            return
        head = text[at:match.start()]
        if match[0] == ";":
            read_plain(head, api, where)
            at = match.end()
            continue
        end = matching(text, match.start())
        if re.search(r"\bstatic inline\b", head):
            at = end  # a helper: compiled into its caller
            continue
        stop = text.index(";", end)
        read_aggregate(squeeze(head), text[match.end():end - 1], text[end:stop].strip(), api, where)
        at = stop + 1


def read_constants(text, api):
    """Object-like TN_ macros; whether a body is an integer is settled by what it is made of."""
    bodies = dict(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(TN_[A-Z]\w*)[ \t]+(\S[^\n]*?)[ \t]*$", text, flags=re.M))
    bodies = {n: b for n, b in bodies.items() if n not in MOVING}
    for name, body in bodies.items():
        string = re.fullmatch(r'"(?:[^"\\]|\\.)*"', body)
        if string:
            api.constants[name] = body
    changed = True
    while changed:
        changed = False
        for name, body in bodies.items():
            rest = re.sub(r"\((u?int\d+_t)\)|\b0x[0-9a-fA-F]+[uUlL]*\b|\b\d+[uUlL]*\b|\bINT64_MIN\b", " ", body)
            words = set(re.findall(r"[A-Za-z_]\w*", rest))
            known = {n for n, b in api.constants.items() if b is None} | {"TN_DTYPE", "TN_DEVICE"}
            if name not in api.constants and not set('"{}') & set(body) and words <= known:
                api.constants[name] = None
                changed = True
    for name in re.findall(r"\bX\((TN_\w+), *-?\d+,", text):
        api.constants[name] = None


@dataclass
class Argument:
    type: str
    name: str
    notes: set


@dataclass
class Slot:
    """A function of a table, with the names and notes that do not belong to its layout."""
    name: str
    result: str
    arguments: list
    notes: set


def read_argument(text):
    notes = set(NOTES.findall(text))
    text = squeeze(text)
    pointer = re.match(r"^(.*)\(\*(\w+)\)(\(.*\))$", text)
    if pointer:
        return Argument(f"{squeeze(pointer[1])} (*)({without_names(pointer[3][1:-1])})", pointer[2], notes)
    plain = re.match(r"^(.*?[\s*])(\w+)$", text)
    if not plain:
        raise ScanError(f"cannot read the argument {text!r}")
    return Argument(plain[1].strip(), plain[2], notes)


def read_slots(text, struct):
    """The functions of a struct of a header's text: struct is "tn_memory_interface" or "struct tn_host"."""
    text = strip_comments(text)
    name = struct.split()[-1]
    start = re.search(rf"struct {name} \{{", text)
    if not start:
        raise ScanError(f"no struct {name}")
    slots = []
    for part in split_top(text[start.end():matching(text, start.end() - 1) - 1], ";"):
        slot = re.match(r"^\s*(.*?)\(\*(\w+)\)\s*\(", part, flags=re.S)
        if not slot:
            continue
        end = matching(part, slot.end() - 1)
        arguments = [read_argument(a) for a in split_top(part[slot.end():end - 1], ",") if a.strip() != "void"]
        slots.append(Slot(slot[2], squeeze(slot[1]), arguments, set(NOTES.findall(part[end:]))))
    return slots


def scan(folder):
    api = Interface()
    for header in HEADERS:
        text = strip_comments((Path(folder) / header).read_text()).replace("\\\n", " ")
        read_constants(text, api)
        declarations = re.sub(r"^[ \t]*#[^\n]*$", "", text, flags=re.M)
        read_declarations(re.sub(r"\)(TN_)", r") \1", declarations), api, header)
    return without_experimental(api)


def without_experimental(api):
    """Types and constants of experimental interfaces (tn_x_..., TN_X_...) may change with any version: they are not held."""
    for kept in vars(api).values():
        for name in [n for n in kept if n.startswith(("tn_x_", "TN_X_"))] if isinstance(kept, dict) else []:
            del kept[name]
    return api


def scan_demands(api, loader):
    """What the loader refuses a plugin for lacking, from its tables: interface or slot -> "required" or "optional"."""
    text = strip_comments(Path(loader).read_text())
    interfaces = re.findall(r'\{"(tenon\.\w+)",\s*PLACE\([\w.]+\),\s*([01]),', text)
    required = {f"{struct}.{slot}" for struct, slot in re.findall(r"\bSLOT\((tn_(?!x_)\w+),\s*(\w+)\)", text)}
    slots = [f"{s.name}.{f.name}" for s in api.structs.values() if s.name.endswith("_interface") for f in s.fields[1:]
             if not f.name.startswith("reserved")]
    if not interfaces or not required <= set(slots):
        raise ScanError(f"{loader}: the tables of required slots and interfaces are not where they were")
    demands = {name: "required" if flag == "1" else "optional" for name, flag in interfaces}
    return demands | {name: "required" if name in required else "optional" for name in slots}


def scan_operators(folder, numbers):
    """Built-in operators: number -> (name, the C constant that op_numbers.h gives it)."""
    constants = {}
    ops = Path(folder) / "op_numbers.h"
    if ops.exists():
        for name, number in re.findall(r"^#define (TN_OP_\w+) (\d+)u$", ops.read_text(), flags=re.M):
            constants[int(number)] = name
    operators = {}
    for line in Path(numbers).read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        number, name = line.split("\t")[:2]
        if int(number) in operators:
            raise ScanError(f"operator number {number} is given twice")
        operators[int(number)] = (name, constants.get(int(number), "-"))
    return operators
