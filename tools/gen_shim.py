#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the forwarding functions of the shims from plugin.h.

    gen_shim.py INCLUDE_FOLDER OUT.h OUT.c

For every slot of every interface, of the plugin's table and of the host's: its number, what its arguments are (by the
types, names and notes in the header), and one function that makes a shim_call, shows it to the tool, and calls the
plugin's or host's function. For every function of a tn_operator_def (op.h): its number and the function that replaces it.
A declaration that the script does not understand is an error, so that no slot that is appended to the header is missed.
"""
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "abi"))
import scan  # noqa: E402

# Interface -> struct. tenon.kernels has rows, which shim.c wraps; a shim is not wrapped itself.
INTERFACES = ["device", "memory", "copy", "stream", "event", "autocast", "allocator", "graph", "collectives", "settings",
              "interop"]
NOT_WRAPPED = {"kernels", "shim", "experimental"}
# The kind of a pointer, by the name of the argument. The kind of a number follows from its type, and from NUMBERS.
POINTERS = {"device": "DEVICE", "to_device": "DEVICE", "from_device": "DEVICE", "out_device": "DEVICE",
            "stream": "STREAM", "out_stream": "STREAM",
            "event": "EVENT", "out_event": "EVENT", "start": "EVENT", "end": "EVENT",
            "allocation": "ALLOCATION", "out_allocation": "ALLOCATION", "to": "ALLOCATION", "from": "ALLOCATION",
            "host": "HOST_MEMORY", "out_host": "HOST_MEMORY", "memory": "HOST_MEMORY",
            "graph": "GRAPH", "out_graph": "GRAPH", "executable": "EXECUTABLE", "out_executable": "EXECUTABLE",
            "communicator": "COMMUNICATOR", "out_communicator": "COMMUNICATOR",
            "user": "USER", "handle": "POINTER", "id": "POINTER", "data": "POINTER", "out_self": "SELF", "pointer": "USER", "self": "SELF"}
NUMBERS = {"bytes": "BYTES", "offset": "OFFSET", "to_offset": "OFFSET", "from_offset": "OFFSET"}
WIDTHS = {"uint32_t": 4, "int32_t": 4, "uint64_t": 8, "int64_t": 8, "double": 8, "tn_dtype": 4, "tn_device": 8}
# Structs whose fields stand in the place of the argument that points to them, one argument each: what a tool knows of
# handles, offsets and sizes then holds for them, too.
FLATTENED = ["tn_memory_request", "tn_memory", "tn_device_options", "tn_stream_options", "tn_graph_options",
             "tn_random_numbers", "tn_output", "tn_storage_facts", "tn_communicator_options"]
# Arguments of these names are left as pointers; `stream` of a request may be NULL, and so may allocations of pinned
# memory.
WHOLE = {"pinned"}
# int32_t results that are not a status.
VALUES = {"autocast.classify", "collectives.supports"}
NOTES = ["OPTIONAL", "OUT", "TAKES", "NULLABLE", "ANY_THREAD", "HOST_THREAD", "IN_KERNEL", "IN_CALLBACK"]


class Argument:
    def __init__(self, given, slot):
        self.type, self.name, self.notes = given.type, given.name, given.notes
        out = "OUT" in self.notes
        pointee = re.sub(r"\s*\*$", "", self.type)
        base = pointee if out else self.type
        self.bytes = "sizeof(void *)"
        self.member = "pointer"
        self.place = None
        if self.type.endswith("(*)(void *)"):
            self.kind, self.member = "CALLBACK", "function"
        elif base in WIDTHS:
            self.kind, self.bytes = NUMBERS.get(self.name, "NUMBER"), f"{WIDTHS[base]}"
            self.kind = "OFFSET" if self.name == "out_offset" else self.kind
            self.member = "pointer" if out else "number"
        elif base == "const char *":
            self.kind, self.member = "TEXT", "pointer" if out else "text"
        elif base == "const tn_tensor_desc *":
            self.kind = "POINTER"
        elif base == "tn_device_facts":
            self.kind, self.bytes = "FACTS", f"sizeof({base})"
        elif base == "void *const *" and self.name == "devices":
            self.kind = "DEVICES"
        elif base == "const tn_collective_rank *":
            self.kind = "RANKS"
        elif base == "const tn_call *":
            self.kind = "CALL"
        elif base == "char *" and out or self.name.removeprefix("out_") == "state":
            self.kind = "POINTER"
        elif base in ("char", "void", "tn_setting", "tn_value", "tn_process_handle") and out:
            self.kind, self.bytes = "POINTER", "0"
        elif re.fullmatch(r"(const )?void \*", base) and self.name in POINTERS:
            self.kind = POINTERS[self.name]
        elif re.fullmatch(r"(const )?(tn_\w+|int64_t) \*", base):
            self.kind = "POINTER"
        else:
            raise scan.ScanError(f"{slot}: what is {self.type} {self.name}? Tell tools/gen_shim.py")

    def pack(self):
        value = self.place if self.place else self.name
        if self.place and "OUT" in self.notes:
            return f"{{.pointer = &{value}}}"
        if self.member == "number":
            return f"{{.number = (uint64_t){value}}}"
        if self.member == "pointer":
            return f"{{.pointer = (void *)(uintptr_t){value}}}"
        return f"{{.{self.member} = {value}}}"

    def unpack(self, i):
        value = f"c.values[{i}].{self.member}"
        return f"({self.type}){value}" if self.member == "number" else value


class Parameter:
    """A parameter as the header has it, and the arguments that stand for it: itself, or the fields of its struct."""

    def __init__(self, given, slot, structs):
        self.type, self.name = given.type, given.name
        self.struct = re.sub(r"^const |\s*\*$", "", given.type) if given.name not in WHOLE else None
        self.out = "OUT" in given.notes
        if self.struct not in structs:
            self.struct = None
            self.arguments = [Argument(given, slot)]
            return
        self.arguments = [self.field(f, given, slot) for f in structs[self.struct]
                          if f.name != "size" and not f.name.startswith("reserved")]

    def field(self, f, given, slot):
        notes = set(given.notes)
        pins = slot in ("memory.pin", "memory.unpin") and f.name == "allocation"
        if f.name != "allocation":
            notes -= {"TAKES"}
        if self.out and (f.name != "allocation" or pins):
            notes.add("OPTIONAL")
        if not self.out and (f.name == "stream" and slot != "allocator.alloc" or pins):
            notes.add("NULLABLE")
        name = f"out_{f.name}" if self.out else f.name
        kind = f"{f.type}{'' if f.type.endswith('*') else ' '}*" if self.out else f.type
        a = Argument(scan.Argument(kind, name, notes), slot)
        a.place = f"{self.local()}.{f.name}"
        a.field_type = f.type
        if pins:
            a.kind = "POINTER"
        if self.out and a.kind == "BYTES":
            a.kind = "NUMBER"
        return a

    def local(self):
        return f"own_{self.name}"

    def declaration(self):
        if self.type.endswith("(*)(void *)"):
            return self.type.replace("(*)", f"(*{self.name})", 1)
        return f"{self.type}{'' if self.type.endswith('*') else ' '}{self.name}"

    def read(self):
        """Statements that make the shim's own copy of the struct."""
        if not self.struct:
            return []
        return [f"    {self.struct} {self.local()};",
                f"    shim_read_struct(&{self.local()}, {self.name}, sizeof({self.local()}));"]

    def before(self, at):
        """Statements that take over what the tool made of the arguments, which begin with value `at`."""
        if not self.struct or not self.out:
            return [f"        {a.place} = {a.unpack(at + i)};" for i, a in enumerate(self.arguments) if self.struct]
        copy = [f"        {self.struct} inner_{self.name} = {self.local()};"]
        return copy + [f"        memcpy(&inner_{self.name}.{a.place.split('.')[1]}, c.values[{at + i}].pointer, "
                       f"sizeof({a.place}));" for i, a in enumerate(self.arguments)]

    def after(self, at):
        if not self.struct or not self.out:
            return []
        return [f"        memcpy(c.values[{at + i}].pointer, &inner_{self.name}.{a.place.split('.')[1]}, "
                f"sizeof({a.place}));" for i, a in enumerate(self.arguments)]

    def passed(self, at):
        if not self.struct:
            return self.arguments[0].unpack(at)
        return f"{self.name} ? &{'inner_' + self.name if self.out else self.local()} : NULL"

    def write(self):
        if not self.struct or not self.out:
            return []
        return [f"    shim_write_struct({self.name}, &{self.local()}, sizeof({self.local()}));"]


def notes_of(notes):
    return " | ".join(f"SHIM_{n}" for n in NOTES if n in notes) or "0"


def constant(name):
    return "SHIM_" + re.sub(r"\W", "_", name).upper()


class Slot:
    """`name` is "memory.alloc"; arguments are without self, context and call when `lead` says that one comes first."""

    def __init__(self, prefix, given, structs):
        self.name, self.notes, self.result = f"{prefix}.{given.name}", given.notes, given.result
        self.lead = given.arguments[0] if given.arguments else None
        self.parameters = [Parameter(a, self.name, structs) for a in given.arguments[1:]]
        self.plain, self.of_host = given.name, prefix == "host"
        self.kind = {"void": "NOTHING", "int32_t": "STATUS"}.get(self.result, "VALUE")
        self.kind = "VALUE" if self.name in VALUES else self.kind
        self.takes_call = self.of_host and self.lead.type == "const tn_call *"
        if self.takes_call:
            self.parameters.insert(0, Parameter(self.lead, self.name, {}))
        self.arguments = [a for p in self.parameters for a in p.arguments]
        if len(self.arguments) > 16:
            raise scan.ScanError(f"{self.name}: more arguments than SHIM_MAX_ARGUMENTS")

    def describe(self):
        rows = [f'    {{"{a.name}", SHIM_{a.kind}, {notes_of(a.notes)}, {a.bytes}}},' for a in self.arguments]
        return f"static const shim_argument {self.function()}_arguments[] = {{\n" + "\n".join(rows) + "\n};" \
            if rows else ""

    def entry(self):
        arguments = f"{self.function()}_arguments" if self.arguments else "NULL"
        return f'    [{constant(self.name)}] = {{"{self.name}", {notes_of(self.notes)}, {int(self.of_host)}, ' \
               f"SHIM_{self.kind}, {len(self.arguments)}, {arguments}}},"

    def function(self):
        return self.name.replace(".", "_")

    def forward(self, inner):
        """The function that stands for the slot. `inner`: the expression of the function behind it."""
        values = ", ".join(a.pack() for a in self.arguments)
        first = [] if self.takes_call else [f"{self.lead.type}{self.lead.name}"]
        parameters = ", ".join(first + [p.declaration() for p in self.parameters])
        places, at = [], 0
        for p in self.parameters:
            places.append((p, at))
            at += len(p.arguments)
        passed = [p.passed(at) for p, at in places]
        passed = ["&outer", *passed[1:]] if self.takes_call else [self.behind_lead(), *passed]
        call = f"{inner}({', '.join(passed)})"
        result = f"{self.result}{'' if self.result.endswith('*') else ' '}"
        out = [f"static {result}{self.function()}({parameters})", "{"]
        if self.takes_call:
            names = ", ".join(["call", *(p.name for p in self.parameters[1:])])
            is_void = self.result == "void"
            nothing = "" if is_void else " NULL" if self.result.endswith("*") else " TN_E_CONTRACT"
            behind, end = ("", "return; ") if is_void else ("return ", "")
            out += ["    const tn_host *host;", "    shim_plugin *w = shim_of_call(call, &host);",
                    f"    if (!w && !host) return{nothing};",
                    f"    if (!w) {{ {behind}host->{self.plain}({names}); {end}}}", "    tn_call outer;"]
        else:
            out += [f"    shim_plugin *w = {self.lead.name};"]
        out += [line for p, _ in places for line in p.read()]
        initial = f".slot = &shim_slots[{constant(self.name)}], .plugin = w, .id = {constant(self.name)}"
        initial += f", .values = {{{values}}}" if values else ""
        out += [f"    shim_call c = {{{initial}}};"]
        before = [line for p, at in places for line in p.before(at)]
        after = [line for p, at in places for line in p.after(at)]
        conditions = [] if self.kind == "NOTHING" else ["shim_enter(&c)"]
        conditions += ["shim_host_call(&c, call, &outer)"] if self.takes_call else []
        member = "number" if self.result in WIDTHS else "pointer"
        cast = "(void *)(uintptr_t)" if member == "pointer" else "(uint64_t)"
        store = {"NOTHING": "", "STATUS": "c.status = ", "VALUE": f"c.value.{member} = {cast}"}[self.kind]
        out += ["    (void)shim_enter(&c);"] if self.kind == "NOTHING" else []
        out += [f"    if ({' && '.join(conditions)}) {{" if conditions else "    {"]
        out += [*before, f"        {store}{call};", *after, "    }", "    shim_leave(&c);"]
        out += [line for p, _ in places for line in p.write()]
        if self.kind == "STATUS":
            out += ["    return c.status;"]
        elif self.kind == "VALUE":
            out += [f"    return ({self.result})c.value.{member};" if member == "number" else "    return c.value.pointer;"]
        return "\n".join(out + ["}"])

    def behind_lead(self):
        return "w->outer->context" if self.of_host else "w->self"


def wraps(slot):
    """Slots of the host that take a scope or a definition as their first argument lead to no plugin: left alone."""
    return not slot.of_host or slot.lead.name == "context" or slot.lead.type == "const tn_call *"


def read(folder):
    text = (Path(folder) / "tenon" / "plugin.h").read_text()
    known = set(re.findall(r"typedef struct tn_(\w+)_interface \{\n    uint32_t size;", text))
    if known != set(INTERFACES) | NOT_WRAPPED:
        raise scan.ScanError(f"plugin.h has interfaces {sorted(known)}; tell tools/gen_shim.py about new ones")
    api = scan.Interface()
    scan.read_declarations(re.sub(r"\)(TN_)", r") \1", re.sub(r"^[ \t]*#[^\n]*$", "", scan.strip_comments(text).replace("\\\n", " "),
                                                            flags=re.M)), api, "plugin.h")
    structs = {name: api.structs[name].fields for name in FLATTENED}
    tables = {i: [Slot(i, s, structs) for s in scan.read_slots(text, f"tn_{i}_interface")] for i in INTERFACES}
    plugin = {s.name: s for s in scan.read_slots(text, "tn_plugin_table")}
    plugin["init"].arguments.insert(0, None)  # has no self before it
    host = [Slot("host", s, structs) for s in scan.read_slots(text, "struct tn_host")]
    return tables, [Slot("plugin", s, structs) for s in plugin.values()], [s for s in host if wraps(s)]


def read_definition(folder):
    """The functions of a definition of an operator."""
    text = (Path(folder) / "tenon" / "op.h").read_text()
    fields = re.search(r"typedef struct tn_operator_def \{(.*?)\} tn_operator_def;", text, re.S).group(1)
    found = re.findall(r"tn_kernel_fn (\w+);", fields)
    if "(*" in fields or not found:
        raise scan.ScanError("tn_operator_def: a function that is not a tn_kernel_fn; tell tools/gen_shim.py")
    return found


def print_header(tables, plugin, host, functions):
    names = [s.name for t in tables.values() for s in t] + [s.name for s in plugin]
    names += ["kernel.can_run", "kernel.run", *(f"operator.{f}" for f in functions), "callback.run"]
    names += [s.name for s in host]
    lines = ["/* Printed by tools/gen_shim.py from plugin.h. */", "#ifndef TENON_SHIM_SLOTS_H",
             "#define TENON_SHIM_SLOTS_H", "", "enum {"]
    lines += [f"    {constant(n)}," for n in names] + ["    SHIM_SLOT_COUNT", "};", "",
                                                       "typedef struct shim_tables {"]
    lines += [f"    tn_{i}_interface {i};" for i in [*tables, "kernels"]] + ["} shim_tables;", "", "#endif", ""]
    return "\n".join(lines)


def print_operator_functions(functions):
    out = []
    for f in functions:
        out += [f"static int32_t operator_{f}(void *self, const tn_call *call)", "{",
                "    const shim_operator *o = self;",
                f"    return shim_run_operator(o, call, {constant('operator.' + f)}, o->def.{f});", "}", ""]
    out += ["const shim_wrapped_slot shim_operator_slots[] = {"]
    out += [f"    {{offsetof(tn_operator_def, {f}), (void (*)(void))operator_{f}}}," for f in functions]
    return out + ["};", f"const uint32_t shim_operator_slot_count = {len(functions)};", ""]


def print_source(tables, plugin, host, functions):
    slots = [s for t in tables.values() for s in t]
    out = ["/* Printed by tools/gen_shim.py from plugin.h. */", '#include "shim.h"', "", "#include <stddef.h>", "#include <string.h>", ""]
    out += [d for s in [*slots, *plugin, *host] if (d := s.describe())]
    out += ['static const shim_argument kernel_arguments[] = {{"call", SHIM_CALL, 0, sizeof(void *)}};', "",
            "const shim_slot shim_slots[SHIM_SLOT_COUNT] = {"]
    out += [s.entry() for s in [*slots, *plugin, *host]]
    out += ['    [SHIM_KERNEL_CAN_RUN] = {"kernel.can_run", 0, 0, SHIM_VALUE, 1, kernel_arguments},',
            '    [SHIM_KERNEL_RUN] = {"kernel.run", 0, 0, SHIM_STATUS, 1, kernel_arguments},',
            *(f'    [{constant("operator." + f)}] = {{"operator.{f}", 0, 0, SHIM_STATUS, 1, kernel_arguments}},'
              for f in functions),
            '    [SHIM_CALLBACK_RUN] = {"callback.run", 0, 0, SHIM_NOTHING, 0, NULL},', "};", ""]
    for name, table in tables.items():
        out += [s.forward(f"w->inner.{name}.{s.plain}") + "\n" for s in table]
        out += [f"static const shim_wrapped_slot {name}_slots[] = {{"]
        out += [f"    {{offsetof(tn_{name}_interface, {s.plain}), (void (*)(void)){s.function()}}}," for s in table]
        out += ["};", ""]
    out += print_operator_functions(functions)
    out += [s.forward(f"w->outer->{s.plain}") + "\n" for s in host]
    out += ["const shim_wrapped_slot shim_host_slots[] = {"]
    out += [f"    {{offsetof(tn_host, {s.plain}), (void (*)(void)){s.function()}}}," for s in host]
    out += ["};", f"const uint32_t shim_host_slot_count = {len(host)};", "",
            "const shim_interface shim_interfaces[] = {"]
    out += [f'    {{"tenon.{n}", offsetof(shim_tables, {n}), sizeof(tn_{n}_interface), {len(t)}, {n}_slots}},'
            for n, t in tables.items()]
    out += ["};", f"const uint32_t shim_interface_count = {len(tables)};", ""]
    return "\n".join(out)


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    found = [*read(sys.argv[1]), read_definition(sys.argv[1])]
    Path(sys.argv[2]).write_text(print_header(*found))
    Path(sys.argv[3]).write_text(print_source(*found))


if __name__ == "__main__":
    main()
