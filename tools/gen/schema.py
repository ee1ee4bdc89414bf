# SPDX-License-Identifier: Apache-2.0
"""Schemas in ATen's grammar, and the forms that are derived from one."""
import re

OPTIONS = ("dtype", "layout", "device", "pin_memory")  # arguments of a factory that its out form lacks


class Bad(Exception):
    pass


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

    @property
    def parts(self):
        """The texts between the commas; the last is what is returned."""
        out, keyword = [], False
        for arg in self.args:
            if arg.keyword and not keyword:
                out.append("*")
                keyword = True
            out.append(str(arg))
        ret = ", ".join(map(str, self.returns))
        return out + [f"({ret})" if self.tuple else ret]

    def __str__(self):
        *args, ret = self.parts
        return f"{self.name}({', '.join(args)}) -> {ret}"

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
    if not base.args or base.args[0].type.plain not in ("Tensor", "Tensor[]") or len(base.returns) != 1:
        raise Bad(f"{base.name}: no in-place form can be derived")
    args = [Arg(a.type.with_alias("(a!)") if i == 0 else a.type, a.name, a.default, a.keyword) for i, a in enumerate(base.args)]
    if base.args[0].type.list:
        return Schema(name, args, [], True)
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
