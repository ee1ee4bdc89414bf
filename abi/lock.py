#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lock on the contract: abi/layout.lock.

    lock.py check     compares the headers with the lock; refuses what is not an addition
    lock.py update    writes the lock anew; refuses the same unless --breaking is given

For each data model a C file that names every struct, field and constant is compiled to assembly, and the numbers are
read out of the text: nothing is run, so a model that this machine cannot run is checked like the others.

What may change: constants, functions, operators and structs may be added. A struct that begins with `uint32_t size`
may get fields at its end, behind every byte it had before; a reserved field may get a name. All else is frozen:
values, order and types of fields, signatures, and whole structs without a size (tn_value, tn_plugin_info, ...). So are the
macros that say who owns what and which threads may call, and what the host requires of a plugin: neither may something
optional become required, nor the other way about.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import scan  # noqa: E402

# Two compilers must agree on the first model; the third shows that nothing depends on the size of an enum.
MODELS = {
    "lp64": [["gcc"], ["clang"]],
    "ilp32": [["gcc", "-m32", "-ffreestanding"], ["clang", "-m32", "-ffreestanding"]],
    "lp64-short-enums": [["gcc", "-fshort-enums"]],
}
MARK = re.compile(r'TNLOCK (\d+) \$?(-?\d+) \$?(-?\d+)')


class Breach(Exception):
    pass


# ---- Measuring ---------------------------------------------------------------------------------------------------


def expressions(api):
    """Every number of the contract: key -> C expression."""
    out = {}
    for s in api.structs.values():
        out["size", s.name] = f"sizeof({s.tag})"
        for f in s.fields:
            out["offset", s.name, f.name] = f"offsetof({s.tag}, {f.name})"
            out["width", s.name, f.name] = f"sizeof((({s.tag} *)0)->{f.name})"
    for name, text in api.constants.items():
        if text is None:
            out["constant", name] = name
    return out


def program(numbers):
    lines = ["#include <tenon/plugin.h>"] + [f"#include <tenon/{h}>" for h in scan.HEADERS]
    lines += ["void tni_lock(void);", "void tni_lock(void)", "{"]
    for i, expression in enumerate(numbers.values()):
        low, high = f"(int)((uint64_t)({expression}) & 0xffffffffu)", f"(int)((uint64_t)({expression}) >> 32)"
        lines.append(f'    __asm__ volatile(".ascii \\"TNLOCK {i} %0 %1\\"" : : "i"({low}), "i"({high}));')
    return "\n".join(lines + ["}", ""])


def measure(api, include, command):
    numbers = expressions(api)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "lock.c", Path(folder) / "lock.s"
        source.write_text(program(numbers))
        run = subprocess.run([*command, "-std=gnu17", "-S", "-w", f"-I{include}", str(source), "-o", str(out)],
                             capture_output=True, text=True)
        if run.returncode != 0:
            raise Breach(f"the headers do not compile with {' '.join(command)}:\n{run.stderr}")
        found = {int(i): (int(high) & 0xffffffff) << 32 | int(low) & 0xffffffff
                 for i, low, high in MARK.findall(out.read_text())}
    if len(found) != len(numbers):
        raise Breach(f"{' '.join(command)}: {len(found)} numbers in the assembly, expected {len(numbers)}")
    return {key: found[i] for i, key in enumerate(numbers)}


def measure_models(api, include):
    models = {}
    for model, commands in MODELS.items():
        results = [measure(api, include, c) for c in commands]
        for other in results[1:]:
            for key, value in results[0].items():
                if other[key] != value:
                    raise Breach(f"{model}: the compilers disagree on {' '.join(key)}: {value} and {other[key]}")
        models[model] = results[0]
    return models


# ---- The lock as text --------------------------------------------------------------------------------------------


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def lock_lines(api, models, operators, demands):
    def columns(*keys):
        return " ".join(":".join(str(signed(m[k])) for k in keys) for m in models.values())

    yield "models " + " ".join(models)
    for s in api.structs.values():
        yield f"struct {s.name} {columns(('size', s.name))}"
        for f in s.fields:
            yield f"field {s.name} {f.name} {columns(('offset', s.name, f.name), ('width', s.name, f.name))} {f.type}"
    for name, text in api.constants.items():
        yield f"constant {name} {text if text is not None else columns(('constant', name))}"
    for name, text in api.types.items():
        yield f"type {name} {text}"
    for name, signature in api.functions.items():
        yield f"function {name} {signature}"
    for name, notes in api.notes.items():
        yield f"notes {name} {notes}"
    for name, demand in demands.items():
        yield f"demand {name} {demand}"
    for number, (name, constant) in sorted(operators.items()):
        yield f"operator {number} {name} {constant}"


class Lock:
    """The lines of a lock by what they speak of."""

    def __init__(self, lines):
        self.structs, self.fields, self.others, self.models = {}, {}, {}, []
        for line in lines:
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            word, rest = line.split(" ", 1)
            if word == "models":
                self.models = rest.split()
            elif word == "struct":
                name, *sizes = rest.split()
                self.structs[name] = [int(s) for s in sizes]
                self.fields[name] = {}
            elif word == "field":
                name, member, *more = rest.split(" ", 2 + len(self.models))
                places = [tuple(int(n) for n in m.split(":")) for m in more[:len(self.models)]]
                self.fields[name][member] = (places, more[len(self.models)])
            else:
                name, value = rest.split(" ", 1)
                self.others[word, name] = value

    @property
    def demanding(self):
        """Interfaces of which the lock knows what the host requires."""
        return {name.partition(".")[0] for kind, name in self.others if kind == "demand"}

    def grows(self, name):
        members = self.fields[name]
        return bool(members) and next(iter(members)) == "size" and members["size"][1] == "uint32_t"


# ---- The rules ---------------------------------------------------------------------------------------------------


def named_reserve(old_name, old, new_fields, old_fields):
    """A reserved field that now has a name, at its old place."""
    if not old_name.startswith("reserved"):
        return False
    return any(name not in old_fields and new[0] == old[0] for name, new in new_fields.items())


def compare_struct(name, old, new, breaches, additions):
    if name not in new.structs:
        breaches.append(f"{name} is gone")
        return
    before, after = old.fields[name], new.fields[name]
    for member, was in before.items():
        now = after.get(member)
        if now is None:
            if not named_reserve(member, was, after, before):
                breaches.append(f"{name}.{member} is gone")
        elif now[0] != was[0]:
            breaches.append(f"{name}.{member} moved or changed its width: offset:width per model {was[0]}, now {now[0]}")
        elif now[1] != was[1]:
            breaches.append(f"{name}.{member} changed its type: '{was[1]}', now '{now[1]}'")
    added = [m for m in after if m not in before and not any(after[m][0] == w[0] for n, w in before.items()
                                                            if n.startswith("reserved") and n not in after)]
    if (added or new.structs[name] != old.structs[name]) and not old.grows(name):
        breaches.append(f"{name} is frozen: size {old.structs[name]}, now {new.structs[name]}"
                        + (f", with {', '.join(added)}" if added else ""))
        return
    for member in added:
        if any(place[0] < size for place, size in zip(after[member][0], old.structs[name])):
            breaches.append(f"{name}.{member} is not behind what was there: new fields go to the end, past the padding")
        else:
            additions.append(f"{name}.{member}")
    if any(b < a for a, b in zip(old.structs[name], new.structs[name])):
        breaches.append(f"{name} became smaller: {old.structs[name]}, now {new.structs[name]}")


def compare(old, new):
    breaches, additions = [], []
    for name in old.structs:
        compare_struct(name, old, new, breaches, additions)
    for (kind, name), value in old.others.items():
        now = new.others.get((kind, name))
        if now is None:
            breaches.append(f"{kind} {name} is gone")
        elif now != value:
            breaches.append(f"{kind} {name} changed: '{value}', now '{now}'")
    additions += [f"struct {n}" for n in new.structs if n not in old.structs]
    for (kind, name), value in new.others.items():
        if (kind, name) in old.others:
            continue
        if value == "required" and (name.partition(".")[0] in old.demanding or name.startswith("tenon.") and old.demanding):
            breaches.append(f"{name} is new and required: plugins that are there lack it")
        else:
            additions.append(f"{kind} {name}")
    return breaches, additions


def padding(api, models):
    """Holes inside structs in the first model: they must be written out, so that zero-extension is defined."""
    model = next(iter(models.values()))
    for s in api.structs.values():
        at = 0
        for f in s.fields:
            if "." in f.name:
                continue
            if model["offset", s.name, f.name] != at:
                yield f"{s.name}.{f.name}: a hole of {model['offset', s.name, f.name] - at} bytes before it"
            at = model["offset", s.name, f.name] + model["width", s.name, f.name]
        if model["size", s.name] != at:
            yield f"{s.name}: a hole of {model['size', s.name] - at} bytes at its end"


# ---- Commands ----------------------------------------------------------------------------------------------------


def read_headers(args):
    api = scan.scan(args.include / "tenon")
    operators = scan.scan_operators(args.include / "tenon", args.numbers)
    models = measure_models(api, args.include)
    holes = list(padding(api, models))
    return list(lock_lines(api, models, operators, scan.scan_demands(api, args.loader))), holes


def command_check(args, lines, holes):
    if not args.lock.exists():
        raise Breach(f"{args.lock} is not there; write it with 'lock.py update'")
    breaches, additions = compare(Lock(args.lock.read_text().splitlines()), Lock(lines))
    for text in holes + breaches:
        print(f"breach: {text}")
    if additions:
        print(f"{len(additions)} additions are not in the lock yet ('lock.py update' records them): "
              + ", ".join(additions[:8]) + (", ..." if len(additions) > 8 else ""))
    if holes or breaches or (args.strict and additions):
        return 1
    print(f"the contract holds: {len(lines)} lines")
    return 0


def command_update(args, lines, holes):
    breaches = []
    if args.lock.exists():
        breaches, _ = compare(Lock(args.lock.read_text().splitlines()), Lock(lines))
    for text in holes + breaches:
        print(f"breach: {text}")
    if holes or (breaches and not args.breaking):
        print("the lock is left as it was" + ("" if holes else "; --breaking writes it all the same"))
        return 1
    head = ["# Layout of the contract. Written by abi/lock.py from the headers; lock.py says what the lines mean.",
            "# field: offset:width for each data model, then the type."]
    args.lock.write_text("\n".join(head + lines) + "\n")
    print(f"{args.lock.name}: {len(lines)} lines")
    return 0


def main():
    parser = argparse.ArgumentParser(description="the lock on the contract", allow_abbrev=False)
    parser.add_argument("command", choices=["check", "update"])
    parser.add_argument("--include", type=Path, default=HERE / "include")
    parser.add_argument("--lock", type=Path, default=HERE / "layout.lock")
    parser.add_argument("--numbers", type=Path, default=HERE.parent / "ops" / "table" / "numbers.txt")
    parser.add_argument("--loader", type=Path, default=HERE.parent / "dispatcher" / "plugin" / "load.c")
    parser.add_argument("--strict", action="store_true", help="check: additions that the lock lacks are failures too")
    parser.add_argument("--breaking", action="store_true", help="update: accept breaches (needs a line in CHANGES)")
    args = parser.parse_args()
    try:
        lines, holes = read_headers(args)
        return {"check": command_check, "update": command_update}[args.command](args, lines, holes)
    except (Breach, scan.ScanError) as e:
        print(f"breach: {e}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
