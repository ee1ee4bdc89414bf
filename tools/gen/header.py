# SPDX-License-Identifier: Apache-2.0
"""Prints abi/include/tenon/ops.h: the typed calls of the built-in operators."""
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
        return "TN_OPS_UNSET"
    if d == "None":
        return {"int": "TN_NONE", "SymInt": "TN_NONE", "float": "(double)TN_NONE", "bool": "-1", "MemoryFormat": "-1"}.get(t.base)
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
          "float": ("double ", "tn_value_as_float"), "ScalarType": ("tn_dtype ", "(tn_dtype)tn_value_as_int")}


class Call:
    """A typed call in parts: the structs it needs, the head of its function, the body, the macros."""

    def __init__(self):
        self.types, self.head, self.body, self.macros = [], None, [], []


def typed_call(f, structs):
    c = Call()
    schema, name = f.schema, f.cname
    returns = schema.returns
    # The result.
    if not returns:
        result = "int32_t "
    elif len(returns) == 1:
        t = returns[0].type
        if t.is_tensor:
            result = c_type(t)
        elif is_scalar(t):
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
            c.types += wrap_members(f"typedef struct {base}_result {{", [f"{type_}{n};" for type_, n in key], f"}} {base}_result;")
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
            d = c_default(a) if a.default is not None and not is_scalar(a.type) else None
            members.append(f"{c_type(a.type)}{c_name(a.name)}{f' TN_DEFAULT({d})' if d else ''};")
        c.types += wrap_members(f"typedef struct {args_type} {{", members, f"}} {args_type};")
    params = [f"{c_type(a.type)}{c_name(a.name)}" for a in direct]
    call = name + "_with" if fields else name
    head_params = ["tn_scope *s"] + params + ([f"const {args_type} *o"] if fields else [])
    c.head = lambda form="{}{}": c_lines(form.format(result, call) + "(", head_params, end=")")
    out = c.body
    out.append("{")
    for a in schema.args:
        values = list_default(a)
        if values:
            item = {"bool": "uint8_t", "float": "double"}.get(a.type.base, "int64_t")
            words = {"True": "1", "False": "0"}
            out.append(f"    static const {item} d_{a.name}[] = {{{', '.join(words.get(v, v) for v in values)}}};")
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
    out = c.macros
    if fields:
        last = c_name(fields[0].name)
        plain = [c_name(a.name) for a in direct]
        wrapped = [f"TN_SCALAR({c_name(a.name)})" if is_scalar(a.type) else c_name(a.name) for a in direct]
        rest = "TN_OPS_SCALAR_FIRST(__VA_ARGS__, )" if is_scalar(fields[0].type) else "__VA_ARGS__"
        sets = [f".{c_name(a.name)} = {c_default(a)}" for a in optional if c_default(a)] + [f".{last} = {rest}"]
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
    elif any(is_scalar(a.type) for a in direct):
        plain = [c_name(a.name) for a in direct]
        wrapped = [f"TN_SCALAR({c_name(a.name)})" if is_scalar(a.type) else c_name(a.name) for a in direct]
        out.append("#ifndef __cplusplus")
        out += continued(c_lines(f"#define {name}({', '.join(['s'] + plain)}) {name}(", ["s"] + wrapped, end=")"))
        out.append("#endif")
    return c


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


PUBLIC = """/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed calls of the built-in operators. Generated by tools/gen_ops.py from ops/table; do not edit.
 * docs/operators-naming.md tells how a schema becomes a C name and how arguments are passed.
 *
 * Required arguments are positional. Optional ones are designated initialisers in C,
 *     tn_conv2d(s, x, w, .bias = b, .padding = TN_INTS(1, 1))
 * and members of a struct in C++,
 *     tn_conv2d_args o{}; o.bias = b; tn_conv2d(s, x, w, o);
 * A required scalar is any number. In C a scalar among the options is written TN_SCALAR(x): C cannot convert a number
 * there, and refuses one (with optimisation when it compiles, else when it runs). Lists and scalars left out take the
 * schema's default.
 */
"""

SHARED = """/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The typed calls of tenon/ops.h as bodies and gradient rules make them: functions that are there once, in
 * ops_calls.c, instead of inline ones. Stands for ops.h. Generated by tools/gen_ops.py from ops/table; do not edit.
 */
"""

SHARED_BODIES = """/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of ops_calls.h. What nobody calls the linker leaves out. Generated by tools/gen_ops.py; do not edit. */
#include "ops_calls.h"
"""

COMMON = """#ifndef TENON_OPS_H
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

/* A scalar as the calls take it: in C a value; in C++ whatever is a number. */
#ifdef __cplusplus
struct tn_scalar {
    tn_value value;
    double pair[2]; /* what a complex value points to */
    template <class T> tn_scalar(T *) = delete; /* a pointer would be true */
    tn_scalar(decltype(nullptr)) = delete;
    tn_scalar() : value(tn_value_none()), pair() {}
    tn_scalar(bool x) : value(tn_value_bool(x)), pair() {}
    tn_scalar(int x) : value(tn_value_int(x)), pair() {}
    tn_scalar(long x) : value(tn_value_int(x)), pair() {}
    tn_scalar(long long x) : value(tn_value_int(x)), pair() {}
    tn_scalar(unsigned x) : value(tn_value_int(x)), pair() {}
    tn_scalar(unsigned long x) : value(tn_value_int((int64_t)x)), pair() {}
    tn_scalar(unsigned long long x) : value(tn_value_int((int64_t)x)), pair() {}
    tn_scalar(double x) : value(tn_value_float(x)), pair() {}
    tn_scalar(long double x) : value(tn_value_float((double)x)), pair() {}
    tn_scalar(tn_value x) : value(x), pair()
    {
        if (x.tag == TN_TAG_COMPLEX) { pair[0] = x.as.floats[0]; pair[1] = x.as.floats[1]; }
    }
    /* std::complex, without its header. */
    template <class T, class = decltype(T().imag())>
    tn_scalar(const T &x) : value(tn_value_complex(NULL)), pair{(double)x.real(), (double)x.imag()} {}
    operator tn_value() const { return value.tag == TN_TAG_COMPLEX ? tn_value_complex(pair) : value; }
};
#define TN_SCALAR(x) tn_scalar(x)
#else
typedef tn_value tn_scalar;
#endif

/* The first argument becomes a scalar; those behind it are options. */
#define TN_OPS_SCALAR_FIRST(x, ...) TN_SCALAR(x), __VA_ARGS__
/* What a scalar option is until the caller sets it: no number leaves this tag, and no maker of values this count. */
#define TN_OPS_UNSET_TAG 0x80706050u
#define TN_OPS_UNSET_COUNT 0x8f7f6f5fu
#define TN_OPS_UNSET {TN_OPS_UNSET_TAG, TN_OPS_UNSET_COUNT, {0}}
#if defined(__has_attribute) && !defined(__cplusplus)
#if __has_attribute(error)
#define TN_OPS_CAN_REFUSE
void tn_ops_plain_number(void) __attribute__((error("a scalar option is written TN_SCALAR(x), not as a plain number")));
#endif
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
/* The value of a scalar option. A plain number set the tag of the one that was unset, and nothing else. */
static inline tn_value tn_ops_option(tn_value v, tn_value other)
{
    if (v.count != TN_OPS_UNSET_COUNT) return v.tag == TN_TAG_NONE ? other : v;
    if (v.tag == TN_OPS_UNSET_TAG) return other;
#ifdef TN_OPS_CAN_REFUSE
    if (__builtin_constant_p(v.count) && __builtin_constant_p(v.tag)) tn_ops_plain_number();
#endif
    return tn_value_make(TN_TAG_PLAIN, 0);
}
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


def print_calls(table, opening, text_of):
    """The opening, then numbers, documentation and text_of(call) of every form."""
    out = [opening]
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
                out += text_of(typed_call(f, structs))
        out.append("")
    out.append("#undef TN_DEFAULT\n#endif\n")
    return "\n".join(out)


def print_header(table):
    return print_calls(table, PUBLIC + COMMON, lambda c: c.types + c.head("static inline {}{}") + c.body + c.macros)


def print_shared_header(table):
    """The same calls as functions that are there once, for the library's own code."""
    return print_calls(table, SHARED + COMMON, lambda c: c.types + c.head()[:-1] + [c.head()[-1] + ";"] + c.macros)


def print_shared_bodies(table):
    structs = {}
    calls = (typed_call(f, structs) for e in table.entries for f in e.forms)
    return "\n".join([SHARED_BODIES] + [line for c in calls for line in c.head("{}({})") + c.body]) + "\n"
