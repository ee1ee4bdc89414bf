#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Prints what is made from the table of operators (ops/table/*.toml): the typed calls, the built-in registrations,
the list of gradient rules and the table in the documentation. It decides nothing: what is not in the table or
in numbers.txt is an error here, never a guess. docs/operators-naming.md states the rule for C names.
"""
import argparse
import os
import re
import sys
import tomllib

KINDS = ("pointwise", "reduction", "scan", "view", "structured", "data_dependent", "random", "factory", "composite")
PROMOTIONS = ("common", "float", "compare", "logical", "same", "real")
FIELDS = {"schema", "inplace", "out", "functional", "forms", "kind", "promote", "infer", "composite", "calls", "gradient",
          "saves", "differentiable_outputs", "tags", "mutates", "doc", "alias_of"}
TAGS = ("core", "pointwise", "reduction", "view_copy", "nondeterministic_seeded", "data_dependent_output",
        "dynamic_output_shape", "inplace_view", "maybe_aliasing_or_mutating", "inplace", "out")
OPTIONS = ("dtype", "layout", "device", "pin_memory")  # what a factory is told and an out form is not

# The overload that bears the plain name: the first of these that the operator has.
MAIN = ("self", "", "self_Tensor", "Tensor", "Tensor_Tensor", "src", "int", "dtype", "x", "sections", "scalarint",
        "bin_ct", "int_Scalar", "input", "Scalar", "float", "memory_format")
# Overload names that are shortened, or lengthened because another operator bears the name.
SHORT = {"scatter.reduce": "src_reduce", "dim_IntList": "dim", "dim_int": "dim", "ScalarOpt_dim": "dim", "ScalarOpt_dim_dtype": "dim_dtype",
         "ScalarOpt_dtype": "dtype", "int_Scalar": "scalar", "int_Tensor": "tensor"}
# Names of the runtime itself, and prefixes that it keeps. An operator that would bear one gets its overload appended,
# and tn_aten_ where that is no help. The headers are searched as well, so that a clash cannot slip in.
RESERVED = re.compile(r"tn_(retain|release|drop|backward|copy|detach|index|index_put|version|can_cast|promote_types"
                      r"|(scope|tensor|item|context|device|stream|event|generator|library|plugin)_.*"
                      r"|value_(as|make|none|same|opt|tensor|int|float|bool|complex|string|scalar|dtype|layout|device|memory).*)$")
KEYWORDS = set("""auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while alignas alignof
bool catch class constexpr decltype delete explicit export false friend mutable namespace new noexcept not operator or and
private protected public template this throw true try typename using virtual xor s o v r""".split())


class Bad(Exception):
    pass


# Schemas --------------------------------------------------------------------------------------------------------

class Type:
    """`Tensor(a!)[]?` as base, alias annotation, and what follows."""

    def __init__(self, text):
        m = re.fullmatch(r"(\w+)(\([^()]*\))?((?:\?|\[\d*\])*)", text)
        if not m:
            raise Bad(f"type does not parse: {text!r}")
        self.base, self.alias, self.suffix = m.group(1), m.group(2) or "", m.group(3)
        self.list = "[" in self.suffix
        self.optional = self.suffix.endswith("?")
        size = re.search(r"\[(\d+)\]", self.suffix)
        self.size = int(size.group(1)) if size else None

    def with_alias(self, alias):
        t = Type(self.base + self.suffix)
        t.alias = alias
        return t

    @property
    def plain(self):
        return self.base + self.suffix

    @property
    def is_tensor(self):
        return self.base == "Tensor"

    def __str__(self):
        return self.base + self.alias + self.suffix


class Arg:
    def __init__(self, type_, name, default=None, keyword=False):
        self.type, self.name, self.default, self.keyword = type_, name, default, keyword

    def __str__(self):
        head = str(self.type) + (f" {self.name}" if self.name else "")
        return head + (f"={self.default}" if self.default is not None else "")


def split_commas(text):
    parts, depth, quoted, part = [], 0, False, ""
    for ch in text:
        if ch == '"':
            quoted = not quoted
        if not quoted:
            depth += (ch in "([") - (ch in ")]")
        if ch == "," and depth == 0 and not quoted:
            parts.append(part.strip())
            part = ""
        else:
            part += ch
    return parts + [part.strip()] if part.strip() else parts


class Schema:
    def __init__(self, name, args, returns, listed=None):
        self.name, self.args, self.returns = name, args, returns
        self.tuple = len(returns) != 1 if listed is None else listed

    @classmethod
    def parse(cls, text):
        m = re.fullmatch(r"(\w+::\w+(?:\.\w+)?)\((.*)\) -> (.+)", text)
        if not m:
            raise Bad(f"schema does not parse: {text!r}")
        args, keyword = [], False
        for part in split_commas(m.group(2)):
            if part == "*":
                keyword = True
                continue
            head, default = part, None
            eq = re.match(r"([^\"=]*?)=(.*)$", part)
            if eq:
                head, default = eq.group(1), eq.group(2)
            type_, _, name = head.rpartition(" ")
            if not type_ or not re.fullmatch(r"\w+", name):
                raise Bad(f"argument {part!r} of {text!r} does not parse")
            args.append(Arg(Type(type_), name, default, keyword))
        ret, listed = m.group(3), False
        if ret.startswith("("):
            ret, listed = ret[1:-1], True
        returns = []
        for part in split_commas(ret):
            bits = part.rsplit(" ", 1)
            named = len(bits) == 2 and re.fullmatch(r"[A-Za-z_]\w*", bits[1])
            returns.append(Arg(Type(bits[0] if named else part), bits[1] if named else ""))
        schema = cls(m.group(1), args, returns, listed)
        if str(schema) != text:
            raise Bad(f"schema does not print as it reads: {text!r} gives {schema}")
        return schema

    def __str__(self):
        out, keyword = [], False
        for arg in self.args:
            if arg.keyword and not keyword:
                out.append("*")
                keyword = True
            out.append(str(arg))
        ret = ", ".join(map(str, self.returns))
        return f"{self.name}({', '.join(out)}) -> {f'({ret})' if self.tuple else ret}"

    @property
    def stem(self):
        return self.name.partition("::")[2].partition(".")[0]

    @property
    def overload(self):
        return self.name.partition("::")[2].partition(".")[2]

    @property
    def space(self):
        return self.name.partition("::")[0]

    @property
    def is_inplace(self):
        return bool(self.args) and "!" in self.args[0].type.alias and self.stem.endswith("_") and not self.stem.endswith("__")

    @property
    def signature(self):
        return [a.type.plain for a in self.args]


def derive_functional(base, name):
    if not base.is_inplace:
        raise Bad(f"{base.name}: only an in-place schema has a derived functional form")
    args = [Arg(a.type.with_alias("") if i == 0 else a.type, a.name, a.default, a.keyword) for i, a in enumerate(base.args)]
    return Schema(name, args, [Arg(Type("Tensor"), "")])


def derive_inplace(base, name):
    if not base.args or base.args[0].type.plain != "Tensor" or len(base.returns) != 1:
        raise Bad(f"{base.name}: no in-place form can be derived")
    args = [Arg(a.type.with_alias("(a!)") if i == 0 else a.type, a.name, a.default, a.keyword) for i, a in enumerate(base.args)]
    return Schema(name, args, [Arg(Type("Tensor(a!)"), "")])


def derive_out(base, name, names=None):
    if base.is_inplace:
        base = derive_functional(base, name)
    if not base.returns or not all(r.type.is_tensor for r in base.returns):
        raise Bad(f"{base.name}: no out form can be derived")
    present = {a.name for a in base.args}
    dropped = OPTIONS if all(o in present for o in OPTIONS) else ()
    args = [Arg(a.type if "!" in a.type.alias else a.type.with_alias(""), a.name, a.default, a.keyword)
            for a in base.args if a.name not in dropped]
    used = {m for a in args for m in re.findall(r"\((\w)!", a.type.alias)}
    letter = ord("a") if not used else ord(max(used)) + 1
    many = len(base.returns) > 1
    if names is None:
        names = [r.name or (f"out{i}" if many else "out") for i, r in enumerate(base.returns)]
    if len(names) != len(base.returns):
        raise Bad(f"{name}: {len(names)} names for {len(base.returns)} outputs")
    returns = []
    for i, r in enumerate(base.returns):
        type_ = Type(r.type.plain).with_alias(f"({chr(letter + i)}!)")
        args.append(Arg(type_, names[i], None, True))
        returns.append(Arg(type_, r.name))
    if not many and base.returns[0].type.list:
        return Schema(name, args, [], True)
    return Schema(name, args, returns)


# The table ------------------------------------------------------------------------------------------------------

class Form:
    """One schema: the base of an entry or derived from it."""

    def __init__(self, entry, kind, schema):
        self.entry, self.kind, self.schema = entry, kind, schema
        self.number = self.cname = None


class Entry:
    def __init__(self, family, raw):
        self.family, self.raw = family, raw
        where = f"{family}: {raw.get('schema', '(no schema)')}"
        unknown = set(raw) - FIELDS
        if unknown:
            raise Bad(f"{where}: unknown field {', '.join(sorted(unknown))}")
        if "schema" not in raw:
            raise Bad(f"{where}: an entry needs a schema")
        self.schema = Schema.parse(raw["schema"])
        self.name = self.schema.name
        self.alias_of = raw.get("alias_of")
        self.doc = raw.get("doc", "")
        self.target = self.callee = None
        self.saves = []
        if self.alias_of:
            extra = set(raw) - {"schema", "alias_of", "forms", "inplace", "out", "functional", "tags"}
            if extra:
                raise Bad(f"{self.name}: an alias has no {', '.join(sorted(extra))}")
        else:
            self.check(raw)
        self.kind = raw.get("kind")
        for tag in raw.get("tags", []):
            if tag not in TAGS:
                raise Bad(f"{self.name}: unknown tag {tag}")
        self.forms = [Form(self, "inplace" if self.schema.is_inplace else "functional", self.schema)]
        for text in raw.get("forms", []):
            self.forms.append(self.derive(text))
        for kind in ("functional", "inplace", "out"):
            given = raw.get(kind, [])
            for text in [given] if isinstance(given, str) else given:
                self.forms.append(Form(self, kind, Schema.parse(text)))

    def check(self, raw):
        kind, promote = raw.get("kind"), raw.get("promote")
        if kind not in KINDS:
            raise Bad(f"{self.name}: kind {kind!r} is not one of {', '.join(KINDS)}")
        if not self.doc.endswith("."):
            raise Bad(f"{self.name}: doc must be a sentence")
        if (kind == "pointwise") != (promote is not None):
            raise Bad(f"{self.name}: promote belongs to pointwise entries, and to all of them")
        if promote and promote not in PROMOTIONS and not promote.startswith("custom:"):
            raise Bad(f"{self.name}: promote {promote!r} is unknown")
        # The infer of a pointwise entry is a check of its arguments beyond promotion.
        if kind not in ("pointwise", "composite") and "infer" not in raw:
            raise Bad(f"{self.name}: kind {kind} needs infer")
        if kind == "composite" and "composite" not in raw:
            raise Bad(f"{self.name}: kind composite needs composite")
        for key in ("infer", "composite", "gradient"):
            if key in raw and not re.fullmatch(r"[a-z][a-z0-9_]*", raw[key]):
                raise Bad(f"{self.name}: {key} {raw[key]!r} is not a C name")
        if "saves" in raw and "gradient" not in raw:
            raise Bad(f"{self.name}: saves without gradient")
        for item in filter(None, (x.strip() for x in raw.get("saves", "").split(","))):
            self.saves.append(self.save(item))
        for i in raw.get("differentiable_outputs", []):
            if not 0 <= i < len(self.schema.returns):
                raise Bad(f"{self.name}: there is no output {i}")
        self.mutates = 0
        for name in filter(None, (x.strip() for x in raw.get("mutates", "").split(","))):
            self.mutates |= 1 << self.argument(name)

    def argument(self, name):
        for i, arg in enumerate(self.schema.args):
            if arg.name == name:
                if not arg.type.is_tensor:
                    raise Bad(f"{self.name}: argument {name} is no tensor; those are always there")
                return i
        raise Bad(f"{self.name}: there is no argument {name}")

    def save(self, item):
        what, _, needs = item.partition(":")
        if_needs = self.argument(needs) if needs else -1
        m = re.fullmatch(r"result(\d*)", what)
        if m:
            index = int(m.group(1) or 0)
            if index >= len(self.schema.returns):
                raise Bad(f"{self.name}: there is no {what}")
            return "RESULT", index, if_needs
        return "ARG", self.argument(what), if_needs

    def derive(self, text):
        m = re.fullmatch(r"(inplace|out|functional)(?:=(\w+(?:\.\w+)?)(?:\(([\w, ]+)\))?)?", text)
        if not m:
            raise Bad(f"{self.name}: form {text!r} does not parse")
        kind, name, names = m.groups()
        base = self.schema
        stem = base.stem[:-1] if base.is_inplace else base.stem
        if name is None:
            ov = base.overload
            if kind == "out":
                ov = f"{ov}_out" if ov else "out"
            name = (stem + "_" if kind == "inplace" else stem) + (f".{ov}" if ov else "")
        name = f"{base.space}::{name}"
        names = [x.strip() for x in names.split(",")] if names else None
        if kind == "out":
            return Form(self, kind, derive_out(base, name, names))
        return Form(self, kind, (derive_inplace if kind == "inplace" else derive_functional)(base, name))

    def called(self, form):
        """What a composite over one other operator calls for a form of its own. A view has nothing but itself."""
        return self.callee.forms[0] if self.callee.kind == "view" else self.callee.form(form.kind)

    def form(self, kind):
        for form in self.forms:
            if form.kind == kind:
                return form
        return None


class Table:
    def __init__(self, folder, public=frozenset()):
        self.folder, self.entries, self.families = folder, [], []
        for file in sorted(os.listdir(folder)):
            if not file.endswith(".toml"):
                continue
            with open(os.path.join(folder, file), "rb") as f:
                try:
                    data = tomllib.load(f)
                except tomllib.TOMLDecodeError as e:
                    raise Bad(f"{file}: {e}")
            if set(data) - {"family", "op"}:
                raise Bad(f"{file}: only family and op belong here")
            family = file[:-5]
            self.families.append((family, data.get("family", "")))
            self.entries += [Entry(family, raw) for raw in data.get("op", [])]
        self.public = public
        self.by_name = {}
        for form in self.all_forms():
            if form.schema.name in self.by_name:
                raise Bad(f"{form.schema.name} is declared twice")
            self.by_name[form.schema.name] = form
        self.link()
        self.name_forms()

    def all_forms(self):
        return [f for e in self.entries for f in e.forms]

    def find(self, name, who):
        if name not in self.by_name:
            raise Bad(f"{who}: there is no {name}")
        return self.by_name[name].entry

    def link(self):
        for e in self.entries:
            if e.alias_of:
                e.target = self.find(e.alias_of, e.name)
                if e.target.alias_of:
                    raise Bad(f"{e.name}: {e.alias_of} is itself an alias")
                for f in e.forms:
                    to = e.target.form(f.kind)
                    if not to:
                        raise Bad(f"{f.schema.name}: {e.alias_of} has no {f.kind} form")
                    if to.schema.signature != f.schema.signature:
                        raise Bad(f"{f.schema.name}: its arguments are not those of {to.schema.name}")
                e.doc = e.target.doc
            elif "calls" in e.raw:
                e.callee = self.find(e.raw["calls"], e.name)
                for f in e.forms:
                    if not e.called(f):
                        raise Bad(f"{f.schema.name}: {e.raw['calls']} has no {f.kind} form to call")

    def name_forms(self):
        groups = {}
        for e in self.entries:
            first = e.form("functional") or e.forms[0]
            e.stem = first.schema.stem[:-1] if first.schema.is_inplace else first.schema.stem
            e.overload = first.schema.overload
            groups.setdefault((first.schema.space, e.stem), []).append(e)
        taken = {}
        for (space, stem), entries in groups.items():
            overloads = [e.overload for e in entries]
            main = overloads[0] if len(set(overloads)) == 1 else next((m for m in MAIN if m in overloads), None)
            if main is None:
                raise Bad(f"{stem}: none of {', '.join(overloads)} is a main overload")
            prefix = "tn_" if space == "aten" else f"tn_{space}_"
            for e in entries:
                long = f"{prefix}{stem}_{SHORT.get(f'{stem}.{e.overload}', SHORT.get(e.overload, e.overload)) or 'default'}".lower()
                plain = long if e.overload != main else (prefix + stem).lower()
                seen = set()
                for f in e.forms:
                    tail = {"functional": "", "inplace": "_", "out": "_out"}[f.kind]
                    if f.kind in seen:
                        tail = f"_{f.schema.overload.lower()}{'_' if f.kind == 'inplace' else ''}"
                    seen.add(f.kind)
                    f.cname = plain + tail
                    if RESERVED.match(f.cname):
                        f.cname = long + tail
                    if RESERVED.match(f.cname):
                        f.cname = "tn_aten_" + (plain + tail)[3:]
                    if f.cname in self.public or f.cname in taken:
                        raise Bad(f"{f.schema.name}: the C name {f.cname} is taken by {taken.get(f.cname, 'the runtime')}")
                    taken[f.cname] = f.schema.name
        macros = {}
        for f in self.all_forms():
            f.macro = "TN_OP_" + f.cname[3:].upper()
            if f.macro in macros:
                raise Bad(f"{f.schema.name} and {macros[f.macro]} share {f.macro}")
            macros[f.macro] = f.schema.name

    def read_numbers(self):
        path, numbers = os.path.join(self.folder, "numbers.txt"), {}
        seen = set()
        if os.path.exists(path):
            with open(path) as f:
                for line in f:
                    if line.startswith("#") or not line.strip():
                        continue
                    number, _, name = line.rstrip("\n").partition("\t")
                    if not number.isdigit() or int(number) in seen or name in numbers:
                        raise Bad(f"numbers.txt: {line.strip()!r} is malformed or given twice")
                    seen.add(int(number))
                    numbers[name] = int(number)
        return numbers

    def number(self):
        numbers = self.read_numbers()
        missing = [f.schema.name for f in self.all_forms() if f.schema.name not in numbers]
        if missing:
            raise Bad(f"numbers.txt has no number for {missing[0]} and {len(missing) - 1} more (tools/gen_ops.py --number)")
        for f in self.all_forms():
            f.number = numbers[f.schema.name]
        gone = set(numbers) - set(self.by_name)
        if gone:
            raise Bad(f"numbers.txt numbers {sorted(gone)[0]}, which the table lacks; a built-in number is for ever")

    def append_numbers(self):
        numbers = self.read_numbers()
        last = max(numbers.values(), default=0)
        lines = []
        for f in self.all_forms():
            if f.schema.name not in numbers:
                last += 1
                lines.append(f"{last}\t{f.schema.name}\n")
        path = os.path.join(self.folder, "numbers.txt")
        fresh = not os.path.exists(path)
        with open(path, "a") as out:
            if fresh:
                out.write("# SPDX-License-Identifier: Apache-2.0\n# NUMBER<TAB>name.overload of every built-in schema. "
                          "Append only: a number is ABI for ever.\n")
            out.writelines(lines)
        return len(lines)


# abi/include/tenon/ops.h ----------------------------------------------------------------------------------------

def c_string(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def c_type(t):
    if t.is_tensor:
        return "tn_tensors " if t.list else "tn_tensor *"
    if t.list:
        table = {"int": "tn_ints ", "SymInt": "tn_ints ", "float": "tn_floats ", "bool": "tn_bools ", "Scalar": "tn_scalars "}
    else:
        table = {"int": "int64_t ", "SymInt": "int64_t ", "float": "double ", "bool": "int32_t ", "Scalar": "tn_value ",
                 "str": "const char *", "ScalarType": "tn_dtype ", "Layout": "uint32_t ", "Device": "tn_device ",
                 "MemoryFormat": "int32_t ", "Generator": "tn_generator *"}
    if t.base not in table:
        raise Bad(f"no C type for {t}")
    return table[t.base]


def list_default(arg):
    """The values of a default that is a list, or None."""
    t, d = arg.type, arg.default
    if not t.list or d in (None, "None"):
        return None
    if d.startswith("["):
        return [x.strip() for x in d[1:-1].split(",") if x.strip()]
    return [d] * (t.size or 1)


DTYPES = {"4": "TN_INT64", "6": "TN_FLOAT32", "7": "TN_FLOAT64", "long": "TN_INT64", "float": "TN_FLOAT32"}


def scalar_maker(text):
    if text in ("True", "False"):
        return f"tn_value_bool({int(text == 'True')})"
    if re.fullmatch(r"-?\d+", text):
        return f"tn_value_int({text})"
    return f"tn_value_float({c_float(text)})"


def c_float(text):
    if text in ("inf", "-inf", "nan"):
        raise Bad(f"no literal for {text}")
    return text + ("0" if text.endswith(".") else ".0" if re.fullmatch(r"-?\d+", text) else "")


def c_default(arg):
    """The initialiser of an optional argument, or None if zero serves."""
    t, d = arg.type, arg.default
    if t.is_tensor or t.list:
        return None
    if d == "None":
        return {"int": "TN_NONE", "SymInt": "TN_NONE", "float": "(double)TN_NONE", "bool": "-1", "MemoryFormat": "-1",
                "Scalar": None}.get(t.base)
    if t.base in ("int", "SymInt", "MemoryFormat") and re.fullmatch(r"-?\d+", d):
        return None if int(d) == 0 else "INT64_MAX" if int(d) == 2**63 - 1 else d
    if t.base == "float":
        return None if float(d) == 0 else c_float(d)
    if t.base == "bool":
        return {"True": "1", "False": None}[d]
    if t.base == "Scalar":
        if t.optional:
            raise Bad(f"{arg}: absent would be ambiguous")
        return None
    if t.base == "str":
        return d
    if t.base == "ScalarType" and d in DTYPES:
        return DTYPES[d]
    raise Bad(f"no C default for {arg}")


def c_name(name):
    return name + "_" if name in KEYWORDS else name


def pack(arg, x):
    t = arg.type
    values = list_default(arg)
    if values:
        kind = {"int": "ints", "SymInt": "ints", "bool": "bools", "float": "floats"}[t.base]
        return f"tn_ops_{kind}({x}, d_{arg.name}, {len(values)})"
    if values == []:
        return f"tn_ops_no_ints({x})"
    if t.is_tensor:
        return f"tn_value_tensors({x}.data, {x}.count)" if t.list else f"tn_value_tensor({x})"
    if t.list:
        kind = {"int": "ints", "SymInt": "ints", "float": "floats", "bool": "bools", "Scalar": "scalars"}[t.base]
        return f"tn_value_{kind}({x}.data, {x}.count)"
    if t.base == "Scalar":
        return f"tn_ops_scalar({x}, {scalar_maker(arg.default)})" if arg.default not in (None, "None") else x
    if t.base == "bool":
        return f"tn_ops_opt_bool({x})" if t.optional else f"tn_value_bool({x})"
    if t.base in ("int", "SymInt"):
        return f"tn_value_opt_int({x})" if t.optional else f"tn_value_int({x})"
    if t.base == "float":
        return f"tn_value_opt_float({x})" if t.optional else f"tn_value_float({x})"
    return {"str": "tn_value_string", "ScalarType": "tn_value_dtype", "Layout": "tn_value_layout",
            "Device": "tn_value_device", "MemoryFormat": "tn_value_memory_format",
            "Generator": "tn_value_generator"}[t.base] + f"({x})"


def c_lines(head, items, width=118, end=""):
    """`head` and the items, broken at the width."""
    lines, line = [], head
    for i, item in enumerate(items):
        piece = item + (", " if i + 1 < len(items) else end)
        if len(line) + len(piece.rstrip()) > width and line.strip():
            lines.append(line.rstrip())
            line = "        "
        line += piece
    return lines + [line.rstrip()]


RESULT = {"bool": ("int32_t ", "tn_value_as_bool"), "int": ("int64_t ", "tn_value_as_int"), "SymInt": ("int64_t ", "tn_value_as_int"),
          "float": ("double ", "tn_value_as_float"), "ScalarType": ("tn_dtype ", "(tn_dtype)tn_value_as_int")}


def emit_call(f, structs, out):
    schema, name = f.schema, f.cname
    returns = schema.returns
    # The result.
    if not returns:
        result = "int32_t "
    elif len(returns) == 1:
        t = returns[0].type
        if t.is_tensor:
            result = c_type(t)
        elif t.base == "Scalar":
            result = "tn_value "
        elif t.base in RESULT and not t.list:
            result = RESULT[t.base][0]
        else:
            raise Bad(f"{schema.name}: no C result for {t}")
    else:
        fields = [c_name(r.name or f"result{i}") for i, r in enumerate(returns)]
        key = tuple((c_type(r.type), n) for r, n in zip(returns, fields))
        base = f.entry.forms[0].cname
        if structs.get(base) != key:
            base = name
            structs[base] = key
            out += wrap_members(f"typedef struct {base}_result {{", [f"{c}{n};" for c, n in key], f"}} {base}_result;")
        result = f"{base}_result "
    required = [a for a in schema.args if a.default is None]
    optional = [a for a in schema.args if a.default is not None]
    if optional and not required:
        raise Bad(f"{schema.name}: a call needs a required argument")
    direct = required[:-1] if optional else required
    fields = required[-1:] + optional if optional else []
    args_type = f"{name}_args"
    if fields:
        members = []
        for a in fields:
            d = c_default(a) if a.default is not None else None
            members.append(f"{c_type(a.type)}{c_name(a.name)}{f' TN_DEFAULT({d})' if d else ''};")
        out += wrap_members(f"typedef struct {args_type} {{", members, f"}} {args_type};")
    params = [f"{c_type(a.type)}{c_name(a.name)}" for a in direct]
    call = name + "_with" if fields else name
    head_params = ["tn_scope *s"] + params + ([f"const {args_type} *o"] if fields else [])
    out += c_lines(f"static inline {result}{call}(", head_params, end=")")
    out.append("{")
    for a in schema.args:
        values = list_default(a)
        if values:
            c = {"bool": "uint8_t", "float": "double"}.get(a.type.base, "int64_t")
            words = {"True": "1", "False": "0"}
            out.append(f"    static const {c} d_{a.name}[] = {{{', '.join(words.get(v, v) for v in values)}}};")
    names = {a.name: c_name(a.name) for a in direct} | {a.name: f"o->{c_name(a.name)}" for a in fields}
    values = [pack(a, names[a.name]) for a in schema.args]
    out += c_lines("    const tn_value v[] = {", values, end="};")
    n = len(values)
    if not returns:
        out.append(f"    return tn_scope_call(s, {f.macro}, v, {n}, NULL, 0);")
    elif len(returns) == 1:
        t = returns[0].type
        if t.is_tensor:
            out.append(f"    return {'tn_ops_list' if t.list else 'tn_ops_tensor'}(s, {f.macro}, v, {n});")
        else:
            reader = "" if t.base == "Scalar" else RESULT[t.base][1]
            out.append(f"    return {reader}(tn_ops_value(s, {f.macro}, v, {n}));" if reader
                       else f"    return tn_ops_value(s, {f.macro}, v, {n});")
    else:
        k = len(returns)
        out.append(f"    {result}result; tn_value r[{k}];")
        out.append(f"    tn_ops_call(s, {f.macro}, v, {n}, r, {k});")
        sets = [f"result.{c_name(r.name or f'result{i}')} = tn_value_as_tensor{'s' if r.type.list else ''}(r[{i}]);"
                for i, r in enumerate(returns)]
        out += wrap_members("   ", sets[:-1], sets[-1])
        out.append("    return result;")
    out.append("}")
    # The calls that carry the defaults.
    if fields:
        last = c_name(fields[0].name)
        plain = [c_name(a.name) for a in direct]
        wrapped = [f"TN_SCALAR({c_name(a.name)})" if a.type.plain == "Scalar" else c_name(a.name) for a in direct]
        sets = [f".{c_name(a.name)} = {c_default(a)}" for a in optional if c_default(a)] + [f".{last} = __VA_ARGS__"]
        clash = set(plain) & {c_name(a.name) for a in fields}
        if clash:
            raise Bad(f"{schema.name}: two arguments are called {clash}")
        out.append("#ifndef __cplusplus")
        out += continued(c_lines(f"#define {name}({', '.join(['s'] + plain + ['...'])}) {call}(",
                                 ["s"] + wrapped + [f"&({args_type}){{{sets[0]}"] + sets[1:], end="})"))
        out.append("#else")
        cpp = ["tn_scope *s"] + params + [f"{c_type(fields[0].type)}{last}", f"{args_type} o = {{}}"]
        out += c_lines(f"static inline {result}{name}(", cpp, end=")")
        out.append(f"{{ o.{last} = {last}; return {call}({', '.join(['s'] + plain + ['&o'])}); }}")
        out.append("#endif")
    elif any(a.type.plain == "Scalar" for a in direct):
        plain = [c_name(a.name) for a in direct]
        wrapped = [f"TN_SCALAR({c_name(a.name)})" if a.type.plain == "Scalar" else c_name(a.name) for a in direct]
        out.append("#ifndef __cplusplus")
        out += continued(c_lines(f"#define {name}({', '.join(['s'] + plain)}) {name}(", ["s"] + wrapped, end=")"))
        out.append("#endif")


def wrap_members(head, members, tail, width=118):
    lines, line = [], head
    for m in members + [tail]:
        if len(line) + 1 + len(m) > width:
            lines.append(line)
            line = "   "
        line += " " + m
    return lines + [line]


def continued(lines):
    return [x + " \\" for x in lines[:-1]] + lines[-1:]


HEADER = """/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed calls of the built-in operators. Generated by tools/gen_ops.py from ops/table; do not edit.
 * docs/operators-naming.md tells how a schema becomes a C name and how arguments are passed.
 *
 * Required arguments are positional. Optional ones are designated initialisers in C,
 *     tn_conv2d(s, x, w, .bias = b, .padding = TN_INTS(1, 1))
 * and members of a struct in C++,
 *     tn_conv2d_args o{}; o.bias = b; tn_conv2d(s, x, w, o);
 * A scalar among the options, or as the last required argument of a call that has options, is written
 * TN_SCALAR(x) (-Wmissing-braces tells of a plain number there); elsewhere a plain number does. Lists and
 * scalars left out take the schema's default.
 */
#ifndef TENON_OPS_H
#define TENON_OPS_H

#include <tenon/op.h>
#ifdef TN_PLUGIN
#include <tenon/plugin.h> /* the calls go through the host's table */
#endif

/* A default that the caller overrides is the point of the calls below, not a slip. */
#if defined(__GNUC__) && !defined(__cplusplus)
#ifdef __clang__
#pragma clang diagnostic ignored "-Winitializer-overrides"
#else
#pragma GCC diagnostic ignored "-Woverride-init"
#endif
#endif

#ifdef __cplusplus
#define TN_DEFAULT(x) = x
#else
#define TN_DEFAULT(x)
#endif

/* Used by the calls below only. After a failure results are absent. */
static inline void tn_ops_call(tn_scope *s, uint32_t op, const tn_value *v, uint32_t n, tn_value *r, uint32_t n_results)
{
    for (uint32_t i = 0; i < n_results; i++) r[i] = tn_value_none();
    if (tn_scope_call(s, op, v, n, r, n_results) != 0) {
        for (uint32_t i = 0; i < n_results; i++) r[i] = tn_value_none();
    }
}
static inline tn_value tn_ops_value(tn_scope *s, uint32_t op, const tn_value *v, uint32_t n)
{
    tn_value r;
    tn_ops_call(s, op, v, n, &r, 1);
    return r;
}
static inline tn_tensor *tn_ops_tensor(tn_scope *s, uint32_t op, const tn_value *v, uint32_t n)
{
    return tn_value_as_tensor(tn_ops_value(s, op, v, n));
}
static inline tn_tensors tn_ops_list(tn_scope *s, uint32_t op, const tn_value *v, uint32_t n)
{
    return tn_value_as_tensors(tn_ops_value(s, op, v, n));
}
static inline tn_value tn_ops_opt_bool(int32_t b) { return b < 0 ? tn_value_none() : tn_value_bool(b); }
static inline tn_value tn_ops_scalar(tn_value v, tn_value other) { return v.tag == TN_TAG_NONE ? other : v; }
static inline tn_value tn_ops_ints(tn_ints list, const int64_t *other, int64_t count)
{
    return list.data ? tn_value_ints(list.data, list.count) : tn_value_ints(other, count);
}
static inline tn_value tn_ops_bools(tn_bools list, const uint8_t *other, int64_t count)
{
    return list.data ? tn_value_bools(list.data, list.count) : tn_value_bools(other, count);
}
static inline tn_value tn_ops_no_ints(tn_ints list)
{
    static const int64_t none[] = {0};
    return tn_ops_ints(list, none, 0);
}
"""


def print_header(table):
    out = [HEADER]
    structs = {}
    for family, doc in table.families:
        entries = [e for e in table.entries if e.family == family]
        out.append(f"/* ---- {family}: {doc} */\n")
        for e in entries:
            for f in e.forms:
                out.append(f"#define {f.macro} {f.number}u")
        out.append("")
        last = None
        for e in entries:
            if e.doc != last:
                out.append(f"/* {e.doc} */")
                last = e.doc
            for f in e.forms:
                emit_call(f, structs, out)
        out.append("")
    out.append("#undef TN_DEFAULT\n#endif\n")
    return "\n".join(out)


# The C tables ---------------------------------------------------------------------------------------------------

PREAMBLE = """/* SPDX-License-Identifier: Apache-2.0 */
/* %s Generated by tools/gen_ops.py from ops/table; do not edit. */
#include "dispatcher/entry.h"
"""


def names_of(table, key, prefix):
    """Functions that the table names. What calls one other operator needs no body: the dispatcher does it."""
    return sorted({prefix + e.raw[key] for e in table.entries if key in e.raw and not (key == "composite" and e.callee)})


def promotions(table):
    return sorted({"promote_" + e.raw["promote"][7:] for e in table.entries if e.raw.get("promote", "").startswith("custom:")})


def tags_of(form):
    owner = form.entry.target or form.entry
    tags = [t for t in (form.entry.raw.get("tags") or owner.raw.get("tags", [])) if t not in ("inplace", "out", "inplace_view", "core")
            or form is form.entry.forms[0]]
    if form.kind in ("inplace", "out") and form.kind not in tags:
        tags.append(form.kind)
    if form.kind == "inplace" and owner.kind == "view" and "inplace_view" not in tags:
        tags.append("inplace_view")
    return [t for t in TAGS if t in tags]


def form_of(form):
    """Primitives that write their first argument are in-place forms, though no underscore ends their names."""
    schema = form.schema
    return "inplace" if schema.space == "prim" and schema.args and "!" in schema.args[0].type.alias else form.kind


def print_table(table):
    out = [PREAMBLE % "The built-in operators, in the order of their numbers.", ""]
    for key, prefix, type_ in (("infer", "infer_", "tni_infer_fn"), ("composite", "composite_", "tni_composite_fn")):
        out += [f"extern {type_} {n};" for n in names_of(table, key, prefix)]
    out += [f"extern tni_promote_fn {n};" for n in promotions(table)]
    out += ["", "const tni_op_entry tni_builtin_ops[] = {"]
    forms = sorted(table.all_forms(), key=lambda f: f.number)
    for f in forms:
        e = f.entry
        owner = e.target or e
        raw = owner.raw
        row = [f".number = {f.number}", f".schema = {c_string(str(f.schema))}", f".kind = TNI_KIND_{owner.kind.upper()}",
               f".form = TNI_FORM_{form_of(f).upper()}", f".base = {owner.forms[0].number}"]
        promote = raw.get("promote")
        if promote and promote.startswith("custom:"):
            row += [".promote = TNI_PROMOTE_CUSTOM", f".promote_rule = promote_{promote[7:]}"]
        elif promote:
            row.append(f".promote = TNI_PROMOTE_{promote.upper()}")
        for key in ("infer", "composite"):
            if key in raw and not (key == "composite" and owner.callee):
                row.append(f".{key} = {key}_{raw[key]}")
        if owner.callee:
            row.append(f".calls = {owner.called(f).number}")
        if e.target:
            row.append(f".alias_of = {e.target.form(f.kind).number}")
        if owner.mutates:
            row.append(f".mutates = {owner.mutates:#x}u")
        tags = tags_of(f)
        if tags:
            row.append(".tags = " + " | ".join("TNI_TAG_" + t.upper() for t in tags))
        row.append(f".doc = {c_string(e.doc)}")
        out += ["    {" + ", ".join(row) + "},"]
    out += ["};", f"const uint32_t tni_builtin_op_count = {len(forms)};", ""]
    return "\n".join(out)


def print_gradient_rules(table):
    out = [(PREAMBLE % "What autograd/rules defines.").replace("dispatcher/entry.h", "autograd/rule.h"),
           "#ifndef TNI_GRADIENT_RULES_H", "#define TNI_GRADIENT_RULES_H", ""]
    return "\n".join(out + [f"tni_grad_fn {n};" for n in names_of(table, "gradient", "grad_")] + ["", "#endif", ""])


def print_rules(table):
    out = [PREAMBLE % "What ops/infer and ops/composite define.", "#ifndef TNI_OPS_RULES_H", "#define TNI_OPS_RULES_H", ""]
    for key, prefix, type_ in (("infer", "infer_", "tni_infer_fn"), ("composite", "composite_", "tni_composite_fn")):
        out += [f"{type_} {n};" for n in names_of(table, key, prefix)]
    out += [f"tni_promote_fn {n};" for n in promotions(table)]
    return "\n".join(out + ["", "#endif", ""])


def print_gradients(table):
    out = [(PREAMBLE % "The gradient rules of the built-in operators and what they save.").replace("dispatcher/entry.h", "autograd/rule.h"), ""]
    out += [f"extern tni_grad_fn {n};" for n in names_of(table, "gradient", "grad_")]
    out += ["", "const tni_gradient_entry tni_builtin_gradients[] = {"]
    count = 0
    for e in sorted((e for e in table.entries if "gradient" in e.raw), key=lambda e: e.forms[0].number):
        row = [f".op = {e.forms[0].number}", f".rule = grad_{e.raw['gradient']}"]
        if e.saves:
            items = ", ".join(f"{{.kind = TNI_SAVE_{k}, .index = {i}, .if_needs = {n}}}" for k, i, n in e.saves)
            row += [f".saves = (const tni_save[]){{{items}}}", f".save_count = {len(e.saves)}"]
        wanted = e.raw.get("differentiable_outputs")
        if wanted is not None:
            mask = sum(1 << i for i in range(len(e.schema.returns)) if i not in wanted)
            row.append(f".non_differentiable = {mask:#x}u")
        out.append(f"    {{{', '.join(row)}}}, /* {e.name} */")
        count += 1
    out += ["};", f"const uint32_t tni_builtin_gradient_count = {count};", ""]
    return "\n".join(out)


# docs/operators.md ----------------------------------------------------------------------------------------------

def print_doc(table):
    out = ["<!-- SPDX-License-Identifier: Apache-2.0 -->", "# Operators", "",
           "Generated by `tools/gen_ops.py` from `ops/table`; do not edit. `operators-naming.md` tells how a schema becomes a C name.",
           "In the column of gradients, *body* means that the composite differentiates through its own operators."]
    for family, doc in table.families:
        out += ["", f"## {family}", "", doc, "", "| operator | C call | kind | other forms | gradient | |", "|---|---|---|---|---|---|"]
        for e in (e for e in table.entries if e.family == family):
            forms = ", ".join(f"`{f.cname}`" for f in e.forms[1:])
            if e.target:
                kind, gradient = f"alias of `{e.target.name[6:]}`", ""
            else:
                kind = e.kind.replace("_", "-")
                gradient = f"`{e.raw['gradient']}`" if "gradient" in e.raw else "body" if e.kind == "composite" else ""
            name = e.name.removeprefix("aten::")
            out.append(f"| `{name}` | `{e.forms[0].cname}` | {kind} | {forms} | {gradient} | {e.doc.replace('|', chr(92) + '|')} |")
    return "\n".join(out) + "\n"


# Entry ----------------------------------------------------------------------------------------------------------

def public_names(folder):
    """The functions and types that hand-written public headers declare."""
    names = set()
    for file in os.listdir(folder) if os.path.isdir(folder) else ():
        if file.endswith(".h") and file != "ops.h":
            with open(os.path.join(folder, file)) as f:
                text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
            names |= set(re.findall(r"\b(tn_\w+)\b", text))
    return names


def missing(table, folder):
    wanted = names_of(table, "infer", "infer_") + names_of(table, "composite", "composite_") + \
        names_of(table, "gradient", "grad_") + promotions(table)
    defined = set()
    pattern = re.compile(r"^(?!extern\b|\s|#|/|\*).*\b((?:infer|composite|grad|promote)_\w+)\s*\(", re.M)
    for root, dirs, files in os.walk(folder):
        dirs[:] = [d for d in dirs if not d.startswith((".", "build"))]
        for file in files:
            if file.endswith(".c"):
                with open(os.path.join(root, file), errors="replace") as f:
                    defined |= set(pattern.findall(f.read()))
    return [n for n in wanted if n not in defined]


def write(path, text):
    """Leaves a file alone whose text is the same, so that a build does not start over."""
    if os.path.exists(path):
        with open(path) as f:
            if f.read() == text:
                return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def differs(path, text):
    if not os.path.exists(path):
        return True
    with open(path) as f:
        return f.read() != text


def main():
    parser = argparse.ArgumentParser(description="Prints what is made from the table of operators.")
    parser.add_argument("--table", default=os.path.join(os.path.dirname(__file__), "..", "ops", "table"))
    parser.add_argument("--out-header", metavar="FILE")
    parser.add_argument("--out-table", metavar="FILE")
    parser.add_argument("--out-gradients", metavar="FILE")
    parser.add_argument("--out-rules", metavar="FILE")
    parser.add_argument("--out-gradient-rules", metavar="FILE")
    parser.add_argument("--out-doc", metavar="FILE")
    parser.add_argument("--headers", metavar="DIR", default=os.path.join(os.path.dirname(__file__), "..", "abi", "include", "tenon"),
                        help="the public headers, whose names no operator may bear")
    parser.add_argument("--check", action="store_true", help="only look for inconsistencies")
    parser.add_argument("--compare", action="store_true", help="write nothing; fail where a file differs from what would be written")
    parser.add_argument("--number", action="store_true", help="append the numbers of new schemas to numbers.txt")
    parser.add_argument("--missing", metavar="DIR", help="list the rules that no .c file under DIR defines")
    parser.add_argument("--list-schemas", action="store_true", help="print every schema, derived ones too")
    args = parser.parse_args()
    try:
        table = Table(args.table, public_names(args.headers))
        if args.number:
            print(f"{table.append_numbers()} numbers appended")
        table.number()
        texts = [(args.out_header, print_header(table)), (args.out_table, print_table(table)),
                 (args.out_gradients, print_gradients(table)), (args.out_rules, print_rules(table)),
                 (args.out_gradient_rules, print_gradient_rules(table)),
                 (args.out_doc, print_doc(table))]
        for path, text in texts:
            if path and args.compare:
                if differs(path, text):
                    raise Bad(f"{path} is not what the table gives: run tools/gen_ops.py")
            elif path:
                write(path, text)
        if args.list_schemas:
            for f in table.all_forms():
                print(f"{f.number}\t{f.kind}\t{f.cname}\t{f.schema}")
        if args.missing:
            print("\n".join(missing(table, args.missing)))
        if args.check:
            print(f"{len(table.entries)} entries, {len(table.all_forms())} schemas")
    except Bad as e:
        sys.exit(f"gen_ops: {e}")


if __name__ == "__main__":
    main()
