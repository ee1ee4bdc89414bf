# SPDX-License-Identifier: Apache-2.0
"""The table of operators (ops/table/*.toml, numbers.txt): its entries, their forms, C names and numbers."""
import os
import re
import tomllib

from gen.schema import Bad, Schema, derive_functional, derive_inplace, derive_out

KINDS = ("pointwise", "reduction", "scan", "view", "structured", "data_dependent", "random", "factory", "composite")
PROMOTIONS = ("common", "float", "compare", "logical", "same", "real")
FIELDS = {"schema", "inplace", "out", "functional", "forms", "kind", "promote", "infer", "composite", "calls", "gradient",
          "saves", "differentiable_outputs", "unrecorded", "tags", "mutates", "autocast", "doc", "alias_of", "takes", "out_dtype",
          "spreads"}
# Why autograd makes no node for a call of an operator without a gradient: its results have no gradient by definition; it
# takes self out of the graph; it may not be used on tensors that require grad.
UNRECORDED = ("constant", "detach", "forbidden")
TAGS = ("core", "pointwise", "reduction", "view_copy", "nondeterministic_seeded", "data_dependent_output",
        "dynamic_output_shape", "inplace_view", "maybe_aliasing_or_mutating", "inplace", "out")

# The overload that gets the plain name: the first of these that the operator has.
MAIN = ("self", "", "self_Tensor", "Tensor", "Tensor_Tensor", "src", "int", "dtype", "x", "sections", "scalarint",
        "bin_ct", "int_Scalar", "input", "Scalar", "float", "memory_format")
# Overload names that are shortened, or lengthened because another operator has the name.
SHORT = {"scatter.reduce": "src_reduce", "dim_IntList": "dim", "dim_int": "dim", "ScalarOpt_dim": "dim", "ScalarOpt_dim_dtype": "dim_dtype",
         "ScalarOpt_dtype": "dtype", "int_Scalar": "scalar", "int_Tensor": "tensor"}
# Classes of mixed precision where the device has no opinion, see docs/mixed-precision.md.
AUTOCAST = ("low", "full", "widest")
# Dtypes that an operator takes, where it does not take all.
TAKES = ("floats", "floats_and_byte", "floats_and_long", "floats_and_complex", "all_but_bool", "integers_and_floats", "all_but_integers")
# Names and prefixes that the runtime itself uses. An operator that would have one gets its overload appended; if that does
# not help, its prefix is tn_aten_. Names in the headers are refused as well.
RESERVED = re.compile(r"tn_(retain|release|drop|backward|copy|detach|index|index_put|version|can_cast|promote_types"
                      r"|(scope|tensor|item|context|device|stream|event|generator|library|plugin)_.*"
                      r"|value_(as|make|none|same|opt|tensor|int|float|bool|complex|string|scalar|dtype|layout|device|memory).*)$")


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
        self.target = self.callee = self.gradient = self.gradient_call = None
        self.saves = []
        if self.alias_of:
            extra = set(raw) - {"schema", "alias_of", "forms", "inplace", "out", "functional", "tags"}
            if extra:
                raise Bad(f"{self.name}: an alias has no {', '.join(sorted(extra))}")
        else:
            self.check(raw)
        self.kind = raw.get("kind")
        self.is_foreach = raw.get("composite") == "foreach"
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
        if raw.get("autocast", "low") not in AUTOCAST:
            raise Bad(f"{self.name}: autocast {raw['autocast']!r} is not one of {', '.join(AUTOCAST)}")
        if raw.get("takes", "floats") not in TAKES:
            raise Bad(f"{self.name}: takes {raw['takes']!r} is not one of {', '.join(TAKES)}")
        if raw.get("out_dtype", "any") not in ("any", "same"):
            raise Bad(f"{self.name}: out_dtype is any or same")
        if raw.get("spreads", True) is not True:
            raise Bad(f"{self.name}: spreads is true or absent")
        # The infer of a pointwise or composite entry only checks arguments.
        if kind not in ("pointwise", "composite") and "infer" not in raw:
            raise Bad(f"{self.name}: kind {kind} needs infer")
        if kind == "composite" and "composite" not in raw:
            raise Bad(f"{self.name}: kind composite needs composite")
        if "unrecorded" in raw and (raw["unrecorded"] not in UNRECORDED or "gradient" in raw):
            raise Bad(f"{self.name}: unrecorded is one of {', '.join(UNRECORDED)}, of an entry without gradient")
        for key in ("infer", "composite", "gradient"):
            if key in raw and not re.fullmatch(r"[a-z][a-z0-9_]*" if key != "gradient" or "::" not in raw[key] else r"\w+::\w+(\.\w+)?", raw[key]):
                raise Bad(f"{self.name}: {key} {raw[key]!r} is not a C name")
        if "saves" in raw and "gradient" not in raw:
            raise Bad(f"{self.name}: saves without gradient")
        for item in filter(None, (x.strip() for x in raw.get("saves", "").split(","))):
            self.saves.append(self.save(item))
        self.gradient = "one_call" if "::" in raw.get("gradient", "") else raw.get("gradient")
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
                    raise Bad(f"{self.name}: argument {name} is not a tensor; non-tensors are always passed")
                return i
        raise Bad(f"{self.name}: there is no argument {name}")

    def save(self, item):
        """One item of `saves`: ARGUMENT, ARGUMENT.geometry (an alias without history) or RESULT, saved only if `:ARGUMENT` needs grad."""
        what, _, needs = item.partition(":")
        if_needs = self.argument(needs) if needs else -1
        m = re.fullmatch(r"result(\d*)", what)
        if what.endswith(".geometry"):
            return "GEOMETRY", self.argument(what[:-9]), if_needs
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

    def gradient_source(self, arg, i):
        """
        Where argument `i` of the operator that computes the gradient of argument 0 comes from. The first is the gradient; the
        others are arguments of this operator with the same name, its results, or follow from argument 0.
        """
        names = [a.name for a in self.schema.args]
        if i == 0:
            return "TNI_SOURCE_GRAD"
        if arg.name in names:
            k = names.index(arg.name)
            if arg.type.is_tensor and ("ARG", k) not in [s[:2] for s in self.saves]:
                raise Bad(f"{self.name}: its gradient needs {arg.name}, which is not saved")
            return f"TNI_SOURCE_ARG + {k}"
        if arg.type.is_tensor and ("RESULT", len(self.schema.returns) - 1) in [s[:2] for s in self.saves]:
            return f"TNI_SOURCE_RESULT + {len(self.schema.returns) - 1}"
        source = {"input_size": "TNI_SOURCE_SIZES", "input_dtype": "TNI_SOURCE_DTYPE", "self_is_result": "TNI_SOURCE_FALSE"}
        if arg.name not in source:
            raise Bad(f"{self.name}: nothing gives the argument {arg.name} of its gradient {self.gradient_call.name}")
        return source[arg.name]

    def called(self, form):
        """The form that a composite over one other operator calls for a form of its own; a view has only one form."""
        functional = self.is_foreach and form.kind == "out" # the result of each call is copied
        return self.callee.forms[0] if self.callee.kind == "view" else self.callee.form("functional" if functional else form.kind)

    @property
    def is_out_exact(self):
        """Whether the tensors of an out form need the dtypes of the results: ATen casts where an iterator over elements writes."""
        is_own = not self.callee or ("view_copy" in self.raw.get("tags", []) and not self.schema.returns[0].type.list)
        default = "same" if self.kind in ("structured", "data_dependent", "composite") and is_own else "any"
        return self.raw.get("out_dtype", default) == "same"

    def form(self, kind):
        for form in self.forms:
            if form.kind == kind:
                return form
        return None


def expand(blocks):
    """
    Entries of a block `foreach`, whose `schema`, `calls` and `doc` name each of `names` as NAME: composites that call one
    operator for each item of their lists.
    """
    entries = []
    for block in blocks:
        names = block.get("names")
        if not names or "calls" not in block:
            raise Bad("a block foreach needs names and calls")
        for name in names:
            entry = {k: v.replace("NAME", name) if isinstance(v, str) else v for k, v in block.items() if k != "names"}
            entries.append({"kind": "composite", "composite": "foreach"} | entry)
    return entries


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
            if set(data) - {"family", "op", "foreach"}:
                raise Bad(f"{file}: only family, op and foreach belong here")
            family = file[:-5]
            self.families.append((family, data.get("family", "")))
            self.entries += [Entry(family, raw) for raw in data.get("op", []) + expand(data.get("foreach", []))]
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
            if e.raw.get("gradient", "").count("::"):
                e.gradient_call = self.find(e.raw["gradient"], e.name)
                e.gradient_sources = [e.gradient_source(arg, i) for i, arg in enumerate(e.gradient_call.schema.args)]
            if "calls" in e.raw:
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
