# SPDX-License-Identifier: Apache-2.0
"""Prints the typed calls of the built-in operators: ops.h for C, ops.hpp for C++, and those of the library itself."""
import re

from gen.schema import Bad

KEYWORDS = set("""auto break case char const continue default do double else enum extern float for goto if inline int long
register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while alignas alignof
bool catch class constexpr decltype delete explicit export false friend mutable namespace new noexcept not operator or and
private protected public template this throw true try typename using virtual xor s o v r""".split())


def c_type(t):
    if t.is_tensor:
        return "tn_tensors " if t.list else "tn_tensor *"
    if t.list:
        table = {"int": "tn_ints ", "SymInt": "tn_ints ", "float": "tn_floats ", "bool": "tn_bools ", "Scalar": "tn_scalars "}
    else:
        table = {"int": "int64_t ", "SymInt": "int64_t ", "float": "double ", "bool": "int32_t ", "Scalar": "tn_scalar ",
                 "str": "const char *", "ScalarType": "tn_dtype ", "Layout": "uint32_t ", "Device": "tn_device ",
                 "MemoryFormat": "int32_t ", "Generator": "tn_generator *"}
    if t.base not in table:
        raise Bad(f"no C type for {t}")
    return table[t.base]


def cpp_member_type(t):
    """The type of a member of the options: a list copies what TN_INTS and the like make."""
    if not t.list:
        return c_type(t)
    item, list_ = ("tn_tensor *", "tn_tensors") if t.is_tensor else CPP_LISTS[t.base]
    return f"tn_list<{list_}, {item}> "


def is_scalar(t):
    return t.base == "Scalar" and not t.list


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
    if text == "None":
        return "tn_value_none()"
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
    if is_scalar(t):
        if d != "None" and t.optional:
            raise Bad(f"{arg}: absent would be ambiguous")
        return None
    if d == "None":
        return {"int": "TN_NONE", "SymInt": "TN_NONE", "float": "TN_CAST(double, TN_NONE)", "bool": "-1", "MemoryFormat": "-1"}.get(t.base)
    if t.base in ("int", "SymInt", "MemoryFormat") and re.fullmatch(r"-?\d+", d):
        return None if int(d) == 0 else "INT64_MAX" if int(d) == 2**63 - 1 else d
    if t.base == "float":
        return None if float(d) == 0 else c_float(d)
    if t.base == "bool":
        return {"True": "1", "False": None}[d]
    if t.base == "str":
        return d
    if t.base == "ScalarType" and d in DTYPES:
        return DTYPES[d]
    raise Bad(f"no C default for {arg}")


def c_name(name):
    return name + "_" if name in KEYWORDS else name


LIST_KINDS = {"int": "ints", "SymInt": "ints", "float": "floats", "bool": "bools", "Scalar": "scalars"}


CPP_LISTS = {"int": ("int64_t", "tn_ints"), "SymInt": ("int64_t", "tn_ints"), "float": ("double", "tn_floats"),
             "bool": ("uint8_t", "tn_bools"), "Scalar": ("tn_value", "tn_scalars")}


def pack(arg, x, option):
    """The value of an argument; a member of the options that is a list may be given as a plain number."""
    t = arg.type
    values = list_default(arg)
    if t.list and option:
        kind = "tensors" if t.is_tensor else LIST_KINDS[t.base]
        default = f"d_{arg.name}, {len(values)}" if values else "tn_ops_nothing, 0" if values == [] else "NULL, 0"
        return f"tn_ops_{kind}({x}, {default})"
    if t.is_tensor:
        return f"tn_value_tensors({x}.data, {x}.count)" if t.list else f"tn_value_tensor({x})"
    if t.list:
        return f"tn_value_{LIST_KINDS[t.base]}({x}.data, {x}.count)"
    if is_scalar(t):
        return x if arg.default is None else f"tn_ops_option({x}, {scalar_maker(arg.default)})"
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
          "float": ("double ", "tn_value_as_float"), "ScalarType": ("tn_dtype ", "tn_value_as_dtype")}


class Call:
    """A typed call of one form, as all printers need it."""

    def __init__(self, form, structs):
        self.form = form
        schema, self.name = form.schema, form.cname
        self.args, self.returns = schema.args, schema.returns
        self.result_fields = []  # of the struct of several results that is declared here
        self.result = self.result_type(structs)
        required = [a for a in self.args if a.default is None]
        self.optional = [a for a in self.args if a.default is not None]
        if self.optional and not required:
            raise Bad(f"{schema.name}: a call needs a required argument")
        self.direct = required[:-1] if self.optional else required
        self.fields = required[-1:] + self.optional if self.optional else []
        clash = {c_name(a.name) for a in self.direct} & {c_name(a.name) for a in self.fields}
        if clash:
            raise Bad(f"{schema.name}: two arguments are called {clash}")
        self.options = f"{self.name}_args"
        self.last = c_name(self.fields[0].name) if self.fields else None
        self.plain = [c_name(a.name) for a in self.direct]
        self.params = [f"{c_type(a.type)}{c_name(a.name)}" for a in self.direct]
        self.scalars = any(is_scalar(a.type) for a in self.direct)

    def result_type(self, structs):
        schema = self.form.schema
        if not self.returns:
            return "int32_t "
        if len(self.returns) == 1:
            t = self.returns[0].type
            if t.is_tensor:
                return c_type(t)
            if is_scalar(t):
                return "tn_value "
            if t.base not in RESULT or t.list:
                raise Bad(f"{schema.name}: no C result for {t}")
            return RESULT[t.base][0]
        names = [c_name(r.name or f"result{i}") for i, r in enumerate(self.returns)]
        key = tuple((c_type(r.type), n) for r, n in zip(self.returns, names))
        base = self.form.entry.forms[0].cname
        if structs.get(base) != key:
            base = self.name
            structs[base] = key
            self.result_fields = [f"{type_}{n};" for type_, n in key]
        return f"{base}_result "

    def types(self, defaults):
        """The structs; with `defaults` members are initialised, as C++ can."""
        lines = []
        if self.result_fields:
            name = self.result.strip()
            lines += wrap_members(f"typedef struct {name} {{", self.result_fields, f"}} {name};")
        if self.fields:
            members = []
            for a in self.fields:
                d = c_default(a) if defaults and a.default is not None else None
                type_ = cpp_member_type(a.type) if defaults else c_type(a.type)
                members.append(f"{type_}{c_name(a.name)}{f' = {d}' if d else '{}' if defaults else ''};")
            head, tail = (f"struct {self.options} {{", "};") if defaults else \
                (f"typedef struct {self.options} {{", f"}} {self.options};")
            lines += wrap_members(head, members, tail)
        return lines

    def head(self, name, place, form="{}{}"):
        """The head of the function that makes the call; `place` are its last parameters."""
        params = ["tn_scope *s"] + self.params + ([f"const {self.options} *o"] if self.fields else []) + place
        return c_lines(form.format(self.result, name) + "(", params, end=")")

    def list_defaults(self):
        """The lists that are the defaults of arguments, as static arrays."""
        lines = []
        for a in self.args:
            values = list_default(a)
            if values:
                item = {"bool": "uint8_t", "float": "double"}.get(a.type.base, "int64_t")
                words = {"True": "1", "False": "0"}
                lines.append(f"    static const {item} d_{a.name}[] = {{{', '.join(words.get(v, v) for v in values)}}};")
        return lines

    def values(self):
        """The values of the arguments, in the order of the schema."""
        members = {id(a) for a in self.fields}
        return [pack(a, f"o->{c_name(a.name)}" if id(a) in members else c_name(a.name), id(a) in members) for a in self.args]

    def caller(self):
        """The function that makes the call, and the one that reads its result, or "". For at most one result."""
        if not self.returns:
            return "tn_ops_call", ""
        t = self.returns[0].type
        if t.is_tensor:
            return "tn_ops_list" if t.list else "tn_ops_tensor", ""
        return "tn_ops_value", RESULT[t.base][1] if t.base != "Scalar" else ""

    def body(self, place):
        """`place` says where the program made the call: two expressions."""
        values = self.values()
        out = ["{"] + self.list_defaults() + c_lines("    const tn_value v[] = {", values, end="};")
        call, n = f"s, {self.form.macro}, v, {len(values)}", len(self.returns)
        if n > 1:
            return out + self.several_results(call, n, place)
        function, reader = self.caller()
        value = f"{function}({call}, {place})" if n else f"{function}({call}, NULL, 0, {place})"
        return out + [f"    return {reader}({value});" if reader else f"    return {value};", "}"]

    def several_results(self, call, n, place):
        sets = [f"result.{c_name(r.name or f'result{i}')} = {'tn_ops_items' if r.type.list else 'tn_value_as_tensor'}(r[{i}]);"
                for i, r in enumerate(self.returns)]
        return [f"    {self.result}result; tn_value r[{n}];", f"    tn_ops_call({call}, r, {n}, {place});",
                *wrap_members("   ", sets[:-1], sets[-1]), "    return result;", "}"]

    def cpp_body(self):
        """The same in C++, where the values are an argument."""
        if len(self.returns) > 1:
            return self.body("at.file, at.line")
        function, reader = self.caller()
        items = self.values()
        items[0] = "{" + items[0]
        items[-1] += "}"
        head, end = (f"return {reader}(", ", at)); }") if reader else ("return ", ", at); }")
        defaults = self.list_defaults()
        lines = c_lines(("    " if defaults else "{ ") + f"{head}{function}(s, {self.form.macro}, ", items,
                        end=end[:-2] if defaults else end)
        return ["{", *defaults, *lines, "}"] if defaults else lines

    def wrapped(self):
        return [f"TN_SCALAR({c_name(a.name)})" if is_scalar(a.type) else c_name(a.name) for a in self.direct]

    def options_macro(self, function, place):
        """The macro that carries the defaults of the options."""
        rest = "TN_OPS_SCALAR_FIRST(__VA_ARGS__, )" if is_scalar(self.fields[0].type) else "__VA_ARGS__"
        sets = []
        for a in self.fields:
            unset = "TN_OPS_UNSET" if is_scalar(a.type) else "TN_OPS_UNSET_LIST" if a.type.list else None
            d = unset or (c_default(a) if a.default is not None else None)
            if d and not (a is self.fields[0] and is_scalar(a.type)):
                sets.append(f".{c_name(a.name)} = {d}")
        sets.append(f".{self.last} = {rest}")
        items = ["s"] + self.wrapped() + [f"&({self.options}){{{sets[0]}"] + sets[1:]
        items[-1] += "}"
        head = f"#define {self.name}({', '.join(['s'] + self.plain + ['...'])}) TN_OPTIONS_LISTS_ARE_TN_INTS_SCALARS_ARE_TN_SCALAR("
        return continued(c_lines(head, [f"{function}(" + items[0]] + items[1:] + place, end="))"))


PLACE = ["const char *file", "uint32_t line"]


def public_c(c):
    """The function with a place, the plain one, and the macro that says the place."""
    at, plain = f"{c.name}_at", f"{c.name}_with" if c.fields else c.name
    arguments = ["s"] + c.plain + (["o"] if c.fields else [])
    out = c.types(False) + c.head(at, PLACE, "static inline {}{}") + c.body("file, line")
    out += c.head(plain, [], "static inline {}{}") + [f"{{ return {at}({', '.join(arguments + ['NULL', '0'])}); }}"]
    if c.fields:
        out.append(f"#define {plain}(...) {at}(__VA_ARGS__, TN_PLACE)")
        return out + c.options_macro(at, ["TN_PLACE"])
    around, end = ("TN_NUMBERS_GO_TO_SCALAR_CALLS(", ")") if any("tn_tensor *" == c_type(a.type) for a in c.direct) else ("", "")
    taken, passed = (", ".join(["s"] + c.plain), ["s"] + c.wrapped()) if c.scalars else ("...", ["__VA_ARGS__"])
    passed[0] = f"{at}({passed[0]}"
    return out + continued(c_lines(f"#define {c.name}({taken}) {around}", passed + ["TN_PLACE"], end=")" + end))


def public_cpp(c):
    """In C++ a default argument says the place."""
    plain, at = f"{c.name}_with" if c.fields else c.name, "tn_place at = tn_place::here()"
    out = c.types(True) + c.head(plain, [at], "static inline {}{}") + c.cpp_body()
    if c.fields:
        params = ["tn_scope *s"] + c.params + [f"{c_type(c.fields[0].type)}{c.last}", f"{c.options} o = {{}}", at]
        out += c_lines(f"static inline {c.result}{c.name}(", params, end=")")
        out.append(f"{{ o.{c.last} = {c.last}; return {plain}({', '.join(['s'] + c.plain + ['&o', 'at'])}); }}")
    return out


CPP_PARAMS = {"tn_tensor *": "const tensor &", "tn_tensors ": "const tensor_list &", "tn_ints ": "const int_list &",
              "tn_floats ": "const float_list &", "tn_bools ": "const bool_list &"}
CPP_RESULTS = {"tn_tensor *": "tensor ", "tn_tensors ": "tensors ", "int32_t ": "bool "}


def tensor_call(c):
    """The same over tenon::tensor: the scope is the current one, a failure is an exception. Forms that write into tensors of the
    caller, and those that programs have no use for, stay with the functions above."""
    name = c_name(c.name[3:])
    if name.startswith("_"):
        return []
    if c.form.kind == "out" or c.name.endswith("_out"):
        return result_of_tensors(c)

    def named(arg):
        return c_name(arg.name) + ("_" if arg.name in ("tensor", "tensors") else "")

    def param(arg):
        return CPP_PARAMS.get(c_type(arg.type), c_type(arg.type)) + named(arg)

    required = c.direct + c.fields[:1]
    params = [param(a) for a in required] + ([f"{c.options} o = {{}}"] if c.fields else [])
    arguments = ["s"] + [named(a) + (".get()" if c_type(a.type) == "tn_tensor *" else "") for a in required]
    arguments += (["o"] if c.fields else []) + ["at"]
    result = CPP_RESULTS.get(c.result, c.result)
    if not c.returns:
        result = "void "
    members = []
    if len(c.returns) > 1:
        result = c.result[3:]
        members = [c_name(r.name or f"result{i}") for i, r in enumerate(c.returns)]
    out = result_of_tensors(c) + c_lines(f"inline {result}{name}(", params + ["tn_place at = tn_place::here()"], end=")")
    call, scope = f"{c.name}({', '.join(arguments)})", "{ tn_scope *s = scope::current(at); "
    if not members:
        return out + c_lines(scope, [f"return detail::take<{result.strip()}>(s, {call}); }}"])
    items = [f"detail::one_of(r.{m})" for m in members]
    return out + c_lines(scope, [f"const auto r = {call};"]) + ["        if (tn_scope_failed(s)) detail::fail(s);"] + \
        c_lines("        return {", items, end="}; }")


def result_of_tensors(c):
    """The struct of several results, if this call is the one that declares it."""
    if not c.result_fields:
        return []
    members = [f"{CPP_RESULTS[c_type(r.type)]}{c_name(r.name or f'result{i}')};" for i, r in enumerate(c.returns)]
    return wrap_members(f"struct {c.result[3:].strip()} {{", members, "};")


def shared_name(c):
    return f"{c.name}_with" if c.fields else c.name


def shared_declaration(c):
    head = c.head(shared_name(c), [])
    out = c.types(False) + head[:-1] + [head[-1] + ";"]
    if c.fields:
        out += c.options_macro(shared_name(c), [])
    elif c.scalars:
        out += continued(c_lines(f"#define {c.name}({', '.join(['s'] + c.plain)}) {c.name}(", ["s"] + c.wrapped(), end=")"))
    return out


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


LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"

NUMBERS = LICENCE + """/* Numbers of the built-in operators. They never change. Generated by tools/gen_ops.py from ops/table; do not edit. */
#ifndef TENON_OP_NUMBERS_H
#define TENON_OP_NUMBERS_H

#include <tenon/base.h>
"""

PUBLIC = LICENCE + """/*
 * Typed calls of the built-in operators in C; C++ gets them from ops.hpp. Generated by tools/gen_ops.py from ops/table;
 * do not edit. docs/operators-naming.md says how a schema becomes a C name and how arguments are passed.
 *
 * Required arguments are positional, optional ones are designated initialisers:
 *     tn_conv2d(s, x, w, .bias = b, .padding = TN_INTS(1, 1))
 * A required scalar is any number. Among the options a scalar is written TN_SCALAR(x) and a list TN_INTS(...): a plain
 * number there is refused, when the call is compiled or else when it runs. Lists and scalars that are left out take the
 * default of the schema.
 *
 * Each call is a macro over an inline function, so that the error of a failed call says where the program made it. A name
 * without parentheses is the function itself: tn_tensor *(*f)(tn_scope *, tn_tensor *) = tn_exp.
 */
#ifndef TENON_OPS_H
#define TENON_OPS_H

#ifdef __cplusplus
#include <tenon/ops.hpp>
#else

#include <tenon/typed_call.h>
"""

SHARED = LICENCE + """/*
 * The typed calls of tenon/ops.h as composites and gradient rules make them: functions that are there once, in
 * ops_calls.c, instead of inline ones. Stands for ops.h. Generated by tools/gen_ops.py from ops/table; do not edit.
 */
#ifndef TENON_OPS_H
#define TENON_OPS_H

#include <tenon/typed_call.h>
"""

SHARED_BODIES = LICENCE + """/* The functions of ops_calls.h. The linker drops those that nobody calls. Generated by tools/gen_ops.py; do not edit. */
#include "ops_calls.h"

/* Most calls have one of these lists of arguments. The number comes last, so that the others stay where they are. */
static __attribute__((noinline)) tn_tensor *of_tensor(tn_scope *s, tn_tensor *a, uint32_t op)
{
    const tn_value v = tn_value_tensor(a);
    return tn_ops_tensor(s, op, &v, 1, NULL, 0);
}
static __attribute__((noinline)) tn_tensor *of_two(tn_scope *s, tn_tensor *a, tn_tensor *b, uint32_t op)
{
    const tn_value v[] = {tn_value_tensor(a), tn_value_tensor(b)};
    return tn_ops_tensor(s, op, v, 2, NULL, 0);
}
static __attribute__((noinline)) tn_tensor *of_three(tn_scope *s, tn_tensor *a, tn_tensor *b, tn_tensor *c, uint32_t op)
{
    const tn_value v[] = {tn_value_tensor(a), tn_value_tensor(b), tn_value_tensor(c)};
    return tn_ops_tensor(s, op, v, 3, NULL, 0);
}
static __attribute__((noinline)) tn_tensor *of_tensor_scalar(tn_scope *s, tn_tensor *a, tn_scalar b, uint32_t op)
{
    const tn_value v[] = {tn_value_tensor(a), b};
    return tn_ops_tensor(s, op, v, 2, NULL, 0);
}
static __attribute__((noinline)) tn_tensor *of_tensor_ints(tn_scope *s, tn_tensor *a, tn_ints b, uint32_t op)
{
    const tn_value v[] = {tn_value_tensor(a), tn_value_ints(b.data, b.count)};
    return tn_ops_tensor(s, op, v, 2, NULL, 0);
}
"""
# The functions above, by the C types of their arguments.
SHARED_CALLS = {
    ("tn_tensor *",): "of_tensor", ("tn_tensor *",) * 2: "of_two", ("tn_tensor *",) * 3: "of_three",
    ("tn_tensor *", "tn_scalar "): "of_tensor_scalar", ("tn_tensor *", "tn_ints "): "of_tensor_ints"}

CPP = LICENCE + """/*
 * Typed calls of the built-in operators in C++; tenon/ops.h includes this file. Generated by tools/gen_ops.py from
 * ops/table; do not edit. docs/operators-naming.md says how a schema becomes a name and how arguments are passed.
 *
 * Required arguments are positional, optional ones are members of a struct, which has the defaults:
 *
 *     tn_conv2d_args o; o.bias = b; o.padding = TN_INTS(1, 1); tn_conv2d(s, x, w, o);
 *
 * A scalar is any number. The last parameter of each call is the place of the call, which the error of a failed one has.
 */
#ifndef TENON_OPS_HPP
#define TENON_OPS_HPP

#include <tenon/typed_call.h>
"""


TENSOR = LICENCE + """/*
 * The built-in operators over tenon::tensor; tenon/tenon.hpp includes this file. Generated by tools/gen_ops.py from ops/table;
 * do not edit. tenon::softmax(x, -1) is tn_softmax(s, x, -1) in the current scope; it throws tenon::error. A call with several
 * results returns a struct of tensors: auto [values, indices] = tenon::topk(x, 2).
 */
#ifndef TENON_TENSOR_OPS_HPP
#define TENON_TENSOR_OPS_HPP

#include <tenon/tenon.hpp>

namespace tenon {
"""


def print_calls(table, opening, text_of, ending):
    """The opening, then documentation and text_of(call) of every form."""
    out = [opening]
    structs = {}
    for family, doc in table.families:
        out.append(f"/* ---- {family}: {doc} */")
        last = None
        for e in (e for e in table.entries if e.family == family):
            lines = [line for f in e.forms for line in text_of(Call(f, structs))]
            if lines and e.doc != last:
                out.append(f"/* {e.doc} */")
                last = e.doc
            out += lines
        out.append("")
    return "\n".join(out + [ending])


def print_numbers(table):
    out = [NUMBERS]
    for family, doc in table.families:
        out.append(f"/* ---- {family}: {doc} */")
        out += [f"#define {f.macro} {f.number}u" for e in table.entries if e.family == family for f in e.forms]
        out.append("")
    return "\n".join(out + ["#endif\n"])


def print_header(table):
    return print_calls(table, PUBLIC, public_c, "#endif /* C */\n#endif\n")


def print_cpp_header(table):
    return print_calls(table, CPP, public_cpp, "#endif\n")


def print_tensor_header(table):
    return print_calls(table, TENSOR, tensor_call, "} // namespace tenon\n\n#endif\n")


def print_shared_header(table):
    """The same calls as functions that exist once, for the library's own code."""
    return print_calls(table, SHARED, shared_declaration, "#endif\n")


def print_shared_bodies(table):
    structs = {}
    out = [SHARED_BODIES]
    for e in table.entries:
        for f in e.forms:
            c = Call(f, structs)
            shared = SHARED_CALLS.get(tuple(c_type(a.type) for a in c.args)) if c.result == "tn_tensor *" and not c.fields else None
            out += c.head(shared_name(c), [], "{}({})")
            out += [f"{{ return {shared}({', '.join(['s'] + c.plain + [f.macro])}); }}"] if shared else c.body("NULL, 0")
    return "\n".join(out) + "\n"
