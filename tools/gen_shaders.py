#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a C file with the device code of the GPU family as SPIR-V for Vulkan: a module for each kernel and variant of a file.

    gen_shaders.py --cc CC --glslc GLSLC --spirv-opt SPIRV-OPT --spirv-val SPIRV-VAL --folders FOLDER,... --begin HEADER --work FOLDER
                   --files NAME,... VARIANT...

Device code is C in a dialect (docs/gpu-dialect.md). The C preprocessor expands it, pycparser parses it, and this tool
prints the functions that a kernel needs as GLSL, with all of C's conversions written out, since GLSL has few. Variants are those of
plugins/gpu/meson.build; `files` are the names of the device code in the order of gpu.h. In GLSL

    a pointer to global memory  is an address of 64 bits; what it points to is read and written through a buffer reference
    a type of 8 or 16 bits      is a type of 32 bits, cut when it is assigned to
    an argument of a kernel     is a member of a uniform block
    nest.opcode, nest.dtypes[k] are constants, which the driver knows when it makes a pipeline (vulkan.h)

Whatever has no such form is an error, which names the line of the preprocessed text.
"""
import argparse
import re
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pycparser import c_ast, c_parser

# ---- Types ------------------------------------------------------------------------------------------------------

# C's integers: (bits, is signed). A bool is the result of a comparison, which C calls an int.
INTEGERS = {"i8": (8, 1), "u8": (8, 0), "i16": (16, 1), "u16": (16, 0), "i32": (32, 1), "u32": (32, 0),
            "i64": (64, 1), "u64": (64, 0)}
BY_NAME = {"char": "i8", "signed char": "i8", "unsigned char": "u8", "short": "i16", "unsigned short": "u16", "int": "i32",
           "unsigned int": "u32", "long": "i64", "unsigned long": "u64", "long long": "i64", "unsigned long long": "u64",
           "float": "f32", "void": "void", "short int": "i16", "unsigned": "u32"}
GLSL = {"i8": "int", "u8": "uint", "i16": "int", "u16": "uint", "i32": "int", "u32": "uint", "i64": "int64_t",
        "u64": "uint64_t", "f32": "float", "bool": "bool", "void": "void"}
IN_MEMORY = {"i8": "int8_t", "u8": "uint8_t", "i16": "int16_t", "u16": "uint16_t", "i32": "int", "u32": "uint",
             "i64": "int64_t", "u64": "uint64_t", "f32": "float"}
BYTES = {"i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f32": 4, "void": 1}
RANK = ["bool", "i32", "u32", "i64", "u64", "f32"]
# Structs that are arguments of kernels: helper functions get the kernel's own.
ARGUMENTS = {"gpu_nest", "gpu_window", "gpu_channels", "gpu_step", "gpu_fft"}


class Pointer:
    def __init__(self, to):
        self.to = to


class Array:
    def __init__(self, of, size):
        self.of, self.size = of, size


class Struct:
    def __init__(self, name):
        self.name, self.members = name, None


class Unsupported(Exception):
    pass


def fail(node, why):
    raise Unsupported(f"{getattr(node, 'coord', None)}: {why}")


def promoted(t):
    return "i32" if t in ("bool", "i8", "u8", "i16", "u16") else t


def common(a, b):
    """The type of C's usual arithmetic conversions."""
    return max(promoted(a), promoted(b), key=RANK.index)


def literal(value, t):
    if t == "f32":
        value = struct.unpack("f", struct.pack("f", value))[0]
        return f"{value!r}" if "e" in repr(value) or "." in repr(value) else f"{value!r}.0"
    return str(value) + {"i32": "", "u32": "u", "i64": "L", "u64": "UL"}[t]


def convert(text, source, to):
    """An expression of one type as another one."""
    if source == to:
        return text
    if isinstance(to, (Pointer, Struct, Array)) or isinstance(source, (Pointer, Struct, Array)):
        if isinstance(to, Pointer) and isinstance(source, Pointer):
            return text
        if isinstance(to, Struct) and source is to:
            return text
        raise Unsupported(f"a conversion of {text}")
    if to == "void":
        return text
    if to == "bool":
        return f"({text} != {literal(0, promoted(source))})" if source != "f32" else f"({text} != 0.0)"
    if source == "bool" and GLSL[to] in ("int64_t", "uint64_t"):
        return f"{GLSL[to]}(int({text}))"
    if to in ("i8", "i16"):
        return text if source == to else f"bitfieldExtract(int({text}), 0, {BYTES[to] * 8})"
    if to in ("u8", "u16"):
        return f"(uint({text}) & {hex((1 << BYTES[to] * 8) - 1)}u)"
    return text if GLSL[source] == GLSL[to] else f"{GLSL[to]}({text})"


# Functions of GLSL, and of this tool, that device code calls: name, the result, the parameters.
BUILTIN = {
    "gpu_item": ("gpu_number", "u32", []), "gpu_group_item": ("gl_LocalInvocationID.x", "u32", []),
    "fn_floor": ("floor", "f32", ["f32"]), "fn_ceil": ("ceil", "f32", ["f32"]), "fn_trunc": ("trunc", "f32", ["f32"]),
    "fn_rint": ("roundEven", "f32", ["f32"]), "fn_fabs": ("abs", "f32", ["f32"]), "fn_sqrt": ("sqrt", "f32", ["f32"]),
    "fn_fma": ("fma", "f32", ["f32", "f32", "f32"]), "gpu_bits_of_float": ("floatBitsToUint", "u32", ["f32"]),
    "gpu_float_of_bits": ("uintBitsToFloat", "f32", ["u32"]), "tn_float_bits": ("floatBitsToUint", "u32", ["f32"]),
    "tn_float_of_bits": ("uintBitsToFloat", "f32", ["u32"]), "gpu_barrier": ("barrier", "void", []),
}


# ---- The printer ------------------------------------------------------------------------------------------------

class Printer:
    """The GLSL of one kernel of a parsed file."""

    def __init__(self, tree):
        self.typedefs, self.structs, self.enums, self.functions, self.globals = {}, {}, {}, {}, {}
        self.order = []
        for node in tree.ext:
            if isinstance(node, c_ast.Typedef):
                self.typedefs[node.name] = self.type_of(node.type)
            elif isinstance(node, c_ast.FuncDef):
                self.functions[node.decl.name] = node
                self.order.append(node.decl.name)
            elif isinstance(node, c_ast.Decl):
                if isinstance(node.type, c_ast.FuncDecl):
                    continue
                t = self.type_of(node.type)
                if node.name:
                    self.globals[node.name] = (t, node)

    def kernels(self):
        return [n for n in self.order if "_Noreturn" in self.functions[n].decl.funcspec]

    def type_of(self, node):
        if isinstance(node, c_ast.TypeDecl) or isinstance(node, c_ast.Typename):
            return self.type_of(node.type)
        if isinstance(node, c_ast.PtrDecl):
            return Pointer(self.type_of(node.type))
        if isinstance(node, c_ast.ArrayDecl):
            return Array(self.type_of(node.type), self.value(node.dim) if node.dim else None)
        if isinstance(node, c_ast.Enum):
            n = -1
            for e in node.values.enumerators if node.values else []:
                n = self.value(e.value) if e.value else n + 1
                self.enums[e.name] = n
            return "i32"
        if isinstance(node, (c_ast.Struct, c_ast.Union)):
            found = self.structs.setdefault(node.name, Struct(node.name))
            if node.decls:
                found.members = {d.name: self.type_of(d.type) for d in node.decls}
            return found
        if isinstance(node, c_ast.IdentifierType):
            name = " ".join(node.names)
            if name in self.typedefs:
                return self.typedefs[name]
            if name in BY_NAME:
                return BY_NAME[name]
        return fail(node, "an unknown type")

    def value(self, node):
        """The number of a constant expression."""
        if isinstance(node, c_ast.Constant):
            return int(node.value.rstrip("uUlL"), 0)
        if isinstance(node, c_ast.ID) and node.name in self.enums:
            return self.enums[node.name]
        if isinstance(node, c_ast.Cast):
            return self.value(node.expr)
        if isinstance(node, c_ast.UnaryOp) and node.op == "-":
            return -self.value(node.expr)
        if isinstance(node, c_ast.BinaryOp) and node.op in "+-*/<<>>|":
            a, b = self.value(node.left), self.value(node.right)
            return {"+": a + b, "-": a - b, "*": a * b, "/": a // b if b else 0, "<<": a << b if 0 <= b < 64 else 0,
                    ">>": a >> b if b >= 0 else 0, "|": a | b}[node.op]
        return fail(node, "not a constant")

    # ---- Declarations

    def lookup(self, name):
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def declared(self, t, name):
        """A declaration without its semicolon."""
        dims = ""
        while isinstance(t, Array):
            dims += f"[{t.size}]"
            t = t.of
        return f"{self.glsl_type(t)} {name}{dims}"

    def glsl_type(self, t):
        if isinstance(t, Pointer):
            return "uint64_t"
        if isinstance(t, Struct):
            self.used_structs.setdefault(t.name, t)
            return t.name
        return GLSL[t]

    def array_of(self, t, node):
        """The initial value of an array."""
        of = t.of
        values = [self.array_of(of, e) if isinstance(of, Array) else self.as_type(e, of) for e in node.exprs]
        zero = "0.0" if of == "f32" else literal(0, promoted(of)) if isinstance(of, str) else None
        values += [zero] * (t.size - len(values))
        dims = ""
        element = t
        while isinstance(element, Array):
            dims += f"[{element.size}]"
            element = element.of
        return f"{self.glsl_type(element)}{dims}({', '.join(values)})"

    def bytes_of(self, t):
        """Of memory that a group shares, where narrow types have 32 bits."""
        return t.size * self.bytes_of(t.of) if isinstance(t, Array) else max(BYTES[t], 4)

    def declaration(self, d):
        t = self.type_of(d.type)
        if "_Thread_local" in d.storage:
            self.shared.append(f"shared {self.declared(t, 'v_' + d.name)};")
            self.shared_bytes += self.bytes_of(t)
            self.scopes[-1][d.name] = (t, "v_" + d.name)
            return ""
        if isinstance(t, Pointer) and isinstance(t.to, Struct):
            fail(d, "a pointer to a struct")
        text = self.declared(t, "v_" + d.name)
        if d.init is not None:
            if isinstance(t, Array) and t.size is None:
                t.size = len(d.init.exprs)
                text = self.declared(t, "v_" + d.name)
            text += " = " + (self.array_of(t, d.init) if isinstance(d.init, c_ast.InitList) else self.as_type(d.init, t))
        self.scopes[-1][d.name] = (t, "v_" + d.name)
        return text + ";"

    # ---- Expressions: text and type

    def as_type(self, node, t):
        text, source = self.expression(node)
        try:
            return convert(text, source, t)
        except Unsupported as e:
            fail(node, str(e))

    def condition(self, node):
        text, t = self.expression(node)
        return text if t == "bool" else convert(text, t, "bool")

    def at(self, address, t):
        """What an address points to, as an lvalue."""
        if t not in IN_MEMORY:
            raise Unsupported("memory of an unknown type")
        self.references.add(t)
        return f"at_{t}({address}).v"

    def loaded(self, lvalue, t):
        """What an lvalue in memory holds: narrow types become those of 32 bits."""
        return f"{GLSL[t]}({lvalue})" if t in ("i8", "u8", "i16", "u16") else lvalue

    def place(self, node):
        """(text, type, is in memory) of an lvalue."""
        if isinstance(node, c_ast.ID):
            found = self.lookup(node.name)
            if not found:
                fail(node, f"{node.name} is not known")
            return found[1], found[0], False
        if isinstance(node, c_ast.UnaryOp) and node.op == "*":
            text, t = self.expression(node.expr)
            if not isinstance(t, Pointer):
                fail(node, "the operand of * is not a pointer")
            return self.at(text, t.to), t.to, True
        if isinstance(node, c_ast.ArrayRef):
            text, t = self.expression(node.name)
            index, index_type = self.expression(node.subscript)
            if isinstance(t, Array):
                return f"{text}[{index}]", t.of, False
            if isinstance(t, Pointer):
                return self.at(self.moved(text, t, index, index_type, "+"), t.to), t.to, True
        if isinstance(node, c_ast.StructRef):
            text, t = self.expression(node.name)
            if isinstance(t, Struct) and node.field.name in t.members:
                return f"{text}.v_{node.field.name}", t.members[node.field.name], False
        return fail(node, "not an lvalue")

    def moved(self, text, t, by, by_type, op):
        size = BYTES[t.to]
        by = convert(by, by_type, "i64")
        return f"({text} {op} uint64_t({by}))" if size == 1 else f"({text} {op} uint64_t({by} * {size}L))"

    def expression(self, node):
        method = getattr(self, "e_" + type(node).__name__, None)
        return method(node) if method else fail(node, f"{type(node).__name__} is not an expression that can stand here")

    def e_Constant(self, node):
        text = node.value
        if node.type == "int" or "int" in node.type or "long" in node.type:
            value = int(text.rstrip("uUlL"), 0)
            is_unsigned = "u" in text.lower()
            t = ("u32" if value < 1 << 32 else "u64") if is_unsigned else ("i32" if value < 1 << 31 else "i64")
            return literal(value, t), t
        number = text.rstrip("fFlL") if not text.lower().startswith("0x") else text.rstrip("fF")
        return literal(float.fromhex(number) if "x" in number.lower() else float(number), "f32"), "f32"

    def e_ID(self, node):
        if node.name == "gpu_infinity":
            return "uintBitsToFloat(0x7f800000u)", "f32"
        if node.name in self.enums and not self.lookup(node.name):
            return literal(self.enums[node.name], "i32"), "i32"
        if node.name.startswith("gpu_spec_"):
            return node.name, "u32"
        found = self.lookup(node.name)
        if not found and node.name in self.globals:
            t, declared = self.globals[node.name]
            self.scopes[0][node.name] = (t, "v_" + node.name)
            if isinstance(t, Array) and t.size is None:
                t.size = len(declared.init.exprs)
            self.constants.append(f"const {self.declared(t, 'v_' + node.name)} = {self.array_of(t, declared.init)};")
            found = self.lookup(node.name)
        if not found:
            fail(node, f"{node.name} is not known")
        return found[1], found[0]

    def e_Cast(self, node):
        t = self.type_of(node.to_type)
        text, source = self.expression(node.expr)
        try:
            return convert(text, source, t), t
        except Unsupported as e:
            return fail(node, str(e))

    def e_TernaryOp(self, node):
        condition = self.condition(node.cond)
        a, a_type = self.expression(node.iftrue)
        b, b_type = self.expression(node.iffalse)
        if isinstance(a_type, str) and isinstance(b_type, str):
            t = "bool" if a_type == b_type == "bool" else common(a_type, b_type)
            a, b = convert(a, a_type, t), convert(b, b_type, t)
        else:
            t = a_type
        return f"({condition} ? {a} : {b})", t

    def e_UnaryOp(self, node):
        if node.op == "sizeof":
            return literal(BYTES[self.type_of(node.expr)], "u64"), "u64"
        if node.op == "!":
            return f"(!{self.condition(node.expr)})", "bool"
        if node.op == "&":
            text, t = self.expression(node.expr)
            if isinstance(t, Struct):
                return text, t
            fail(node, "an address in memory of the item")
        if node.op in ("++", "--", "p++", "p--"):
            place, t, in_memory = self.place(node.expr)
            if isinstance(t, Pointer):
                sign = node.op.lstrip("p")[0]
                return f"({place} = {self.moved(place, t, '1', 'i32', sign)})", t
            if t in ("i8", "u8", "i16", "u16"):
                fail(node, f"{node.op} of a narrow type")
            return (f"{place}{node.op[1:]}" if node.op[0] == "p" else f"{node.op}{place}"), t
        if node.op == "*":
            place, t, in_memory = self.place(node)
            return self.loaded(place, t), t
        text, t = self.expression(node.expr)
        return f"({node.op}{convert(text, t, promoted(t))})", promoted(t)

    def e_BinaryOp(self, node):
        op = node.op
        if op in ("&&", "||"):
            return f"({self.condition(node.left)} {op} {self.condition(node.right)})", "bool"
        a, a_type = self.expression(node.left)
        b, b_type = self.expression(node.right)
        if isinstance(a_type, Pointer) and op in "+-":
            return self.moved(a, a_type, b, b_type, op), a_type
        if isinstance(b_type, Pointer) and op == "+":
            return self.moved(b, b_type, a, a_type, op), b_type
        if not isinstance(a_type, str) or not isinstance(b_type, str):
            fail(node, f"{op} of these types")
        return self.arithmetic(node, op, a, a_type, b, b_type)

    def arithmetic(self, node, op, a, a_type, b, b_type):
        if op in ("<<", ">>"):
            t = promoted(a_type)
            return f"({convert(a, a_type, t)} {op} {convert(b, b_type, 'u32')})", t
        if a_type == b_type == "bool" and op in ("==", "!=", "&", "|", "^"):
            return f"({a} { {'&': '&&', '|': '||', '^': '!='}.get(op, op)} {b})", "bool"
        t = common(a_type, b_type)
        a, b = convert(a, a_type, t), convert(b, b_type, t)
        if op in ("<", ">", "<=", ">=", "==", "!="):
            return f"({a} {op} {b})", "bool"
        if op == "%" and INTEGERS[t][1]: # GLSL does not say what the rest of a negative number is
            return f"gpu_rest({a}, {b})", t
        if t == "f32" and op not in "+-*/":
            fail(node, f"{op} of floats")
        if op == "*" and t == "f32": # lavapipe takes a product with a constant 0 for 0, whatever the other factor
            a, b = ("gpu_zero()" if x in ("0.0", "float(0)") else x for x in (a, b))
        return f"({a} {op} {b})", t

    def has_effect(self, node):
        if isinstance(node, (c_ast.Assignment,)) or (isinstance(node, c_ast.UnaryOp) and node.op in ("++", "--", "p++", "p--")):
            return True
        if isinstance(node, c_ast.FuncCall) and node.name.name not in BUILTIN:
            return True
        return any(self.has_effect(child) for _, child in node.children())

    def e_Assignment(self, node):
        place, t, in_memory = self.place(node.lvalue)
        if place.startswith("args."):
            fail(node, "an argument of the kernel is written")
        if node.op == "=":
            value = self.as_type(node.rvalue, t)
        else:
            if self.has_effect(node.lvalue):
                fail(node, "an lvalue with an effect")
            right, right_type = self.expression(node.rvalue)
            if isinstance(t, Pointer):
                value = self.moved(place, t, right, right_type, node.op[0])
            else:
                text, made = self.arithmetic(node, node.op[:-1], self.loaded(place, t) if in_memory else place, t, right, right_type)
                value = convert(text, made, t)
        if in_memory and t in ("i8", "u8", "i16", "u16"):
            return f"({place} = {IN_MEMORY[t]}({value}))", t
        return f"({place} = {value})", t

    def e_ArrayRef(self, node):
        if isinstance(node.name, c_ast.StructRef) and node.name.field.name == "dtypes":
            return f"gpu_spec_dtype_{self.value(node.subscript)}", "u32"
        place, t, in_memory = self.place(node)
        return (self.loaded(place, t) if in_memory else place), t

    def e_StructRef(self, node):
        text, t = self.expression(node.name)
        if isinstance(t, Struct) and t.name == "gpu_nest" and node.field.name == "opcode":
            return "gpu_spec_opcode", "u32"
        if isinstance(t, Struct) and t.name == "gpu_nest" and node.field.name == "dtypes":
            fail(node, "dtypes without a constant index")
        place, t, _ = self.place(node)
        return place, t

    def e_ExprList(self, node):
        texts = [self.expression(e) for e in node.exprs]
        return ", ".join(t[0] for t in texts), texts[-1][1]

    def e_FuncCall(self, node):
        name, given = node.name.name, node.args.exprs if node.args else []
        if name == "GPU_ATOMIC_CAS":
            place = self.at(self.expression(given[0])[0], "i32")
            return f"atomicCompSwap({place}, {self.as_type(given[1], 'i32')}, {self.as_type(given[2], 'i32')})", "i32"
        if name in self.functions and name not in BUILTIN:
            parameters, result = self.function(name)
            texts = []
            for parameter, e in zip(parameters, given):
                text, t = self.expression(e)
                if parameter is None: # the kernel's own argument
                    if not text.startswith("args."):
                        fail(node, f"{name} gets a struct that is not an argument of the kernel")
                elif isinstance(parameter, Array):
                    if not isinstance(t, Array):
                        fail(node, f"{name} gets a part of an array")
                    texts.append(text)
                else:
                    texts.append(convert(text, t, parameter))
            return f"f_{name}({', '.join(texts)})", result
        if name in BUILTIN:
            glsl, result, parameters = BUILTIN[name]
            if not glsl[0].islower() or "." in glsl or glsl == "gpu_number":
                return glsl, result
            return f"{glsl}({', '.join(self.as_type(e, t) for e, t in zip(given, parameters))})", result
        return fail(node, f"{name} is not known")

    # ---- Statements

    def block(self, nodes):
        self.scopes.append({})
        text = "\n".join(self.statement(n) for n in nodes or [])
        self.scopes.pop()
        return "{\n" + text + "\n}"

    def statement(self, node):
        if node is None or isinstance(node, c_ast.EmptyStatement):
            return ";"
        if isinstance(node, c_ast.Decl):
            return self.declaration(node)
        if isinstance(node, c_ast.DeclList):
            return "\n".join(self.declaration(d) for d in node.decls)
        if isinstance(node, c_ast.Compound):
            return self.block(node.block_items)
        if isinstance(node, c_ast.If):
            text = f"if ({self.condition(node.cond)}) {self.block([node.iftrue])}"
            return text + (f" else {self.block([node.iffalse])}" if node.iffalse else "")
        if isinstance(node, c_ast.For):
            self.scopes.append({})
            begin = self.statement(node.init) if node.init else ""
            if node.init and not isinstance(node.init, (c_ast.DeclList, c_ast.Decl)):
                begin += ""
            condition = self.condition(node.cond) if node.cond else "true"
            step = self.expression(node.next)[0] if node.next else ""
            text = f"{{\n{begin}\nfor (; {condition}; {step}) {self.block([node.stmt])}\n}}"
            self.scopes.pop()
            return text
        if isinstance(node, c_ast.While):
            return f"while ({self.condition(node.cond)}) {self.block([node.stmt])}"
        if isinstance(node, c_ast.Switch):
            return self.switch(node)
        if isinstance(node, c_ast.Return):
            if node.expr is None:
                return "return;"
            return f"return {self.as_type(node.expr, self.result)};"
        if isinstance(node, c_ast.Break):
            return "break;"
        if isinstance(node, c_ast.Continue):
            return "continue;"
        return self.expression(node)[0] + ";"

    def switch(self, node):
        lines = [f"switch ({self.as_type(node.cond, 'i32')}) {{"]
        self.scopes.append({})
        for case in node.stmt.block_items:
            while isinstance(case, (c_ast.Case, c_ast.Default)):
                lines.append(f"case {self.value(case.expr)}:" if isinstance(case, c_ast.Case) else "default:")
                inner = case.stmts or []
                if len(inner) == 1 and isinstance(inner[0], (c_ast.Case, c_ast.Default)):
                    case = inner[0]
                    continue
                lines += [self.statement(s) for s in inner]
                case = None
            if case is not None:
                lines.append(self.statement(case))
        self.scopes.pop()
        return "\n".join(lines + ["}"])

    # ---- Functions

    def parameters_of(self, node):
        listed = node.decl.type.args.params if node.decl.type.args else []
        return [p for p in listed if p.name]

    def function(self, name):
        """Prints a function once; gives the types of its parameters, None for those that are arguments of the kernel."""
        if name in self.printed:
            return self.printed[name]
        node = self.functions[name]
        saved = self.scopes, self.result
        self.result = self.type_of(node.decl.type.type)
        self.scopes = [self.scopes[0], {}]
        texts, types = [], []
        for p in self.parameters_of(node):
            t = self.type_of(p.type)
            of = t.to if isinstance(t, Pointer) else t
            if isinstance(of, Struct):
                if of.name in ARGUMENTS:
                    self.scopes[1][p.name] = (of, "args.v_" + self.argument)
                    types.append(None)
                    continue
                if isinstance(t, Pointer):
                    fail(p, "a pointer to a struct")
            is_array = isinstance(t, Array)
            is_const = "const" in (getattr(p.type.type, "quals", []) or []) if is_array else False
            texts.append(("inout " if is_array and not is_const else "") + self.declared(t, "v_" + p.name))
            self.scopes[1][p.name] = (t, "v_" + p.name)
            types.append(t)
        body = self.block(node.body.block_items)
        self.bodies.append(f"{self.glsl_type(self.result)} f_{name}({', '.join(texts)})\n{body}")
        self.printed[name] = (types, self.result)
        self.scopes, self.result = saved
        return self.printed[name]

    def kernel(self, name):
        self.printed, self.bodies, self.shared, self.constants = {}, [], [], []
        self.shared_bytes = 0
        self.references, self.used_structs = set(), {}
        self.scopes, self.result = [{}, {}], "void"
        node = self.functions[name]
        members, copies, self.argument = [], [], None
        for p in self.parameters_of(node):
            t = self.type_of(p.type)
            if isinstance(t, Struct):
                self.argument = p.name
                self.scopes[1][p.name] = (t, "args.v_" + p.name)
            else:
                copies.append(f"{self.declared(t, 'v_' + p.name)} = args.v_{p.name};")
                self.scopes[1][p.name] = (t, "v_" + p.name)
            members.append(f"    {self.declared(t, 'v_' + p.name)};")
        body = self.block(node.body.block_items)
        structs = "".join(f"struct {s.name} {{\n" + "".join(f"    {self.declared(t, 'v_' + m)};\n" for m, t in s.members.items())
                          + "};\n" for s in self.used_structs.values())
        references = "".join(f"layout(buffer_reference, std430, buffer_reference_align = {BYTES[t]}) buffer at_{t} "
                             f"{{ {IN_MEMORY[t]} v; }};\n" for t in sorted(self.references))
        return "\n".join([PROLOGUE, structs, references,
                          "layout(set = 0, binding = 0, std430) uniform gpu_args {\n    uint v_groups, v_zero;",
                          *members, "} args;", "float gpu_zero() { return uintBitsToFloat(args.v_zero); }", *self.shared, *self.constants, *self.bodies,
                          "void kernel()\n{", *copies, body, "}", MAIN])


PROLOGUE = """#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_scalar_block_layout : require
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint gpu_spec_opcode = 0;
layout(constant_id = 2) const uint gpu_spec_dtype_0 = 0;
layout(constant_id = 3) const uint gpu_spec_dtype_1 = 0;
layout(constant_id = 4) const uint gpu_spec_dtype_2 = 0;
layout(constant_id = 5) const uint gpu_spec_dtype_3 = 0;
layout(constant_id = 6) const uint gpu_spec_dtype = 0;
layout(constant_id = 7) const uint gpu_spec_splat = 0;
uint gpu_number;
int gpu_rest(int a, int b) { return a - a / b * b; }
int64_t gpu_rest(int64_t a, int64_t b) { return a - a / b * b; }
"""
# A dimension has at most 65,535 groups, so the last ones of a launch may be too many.
MAIN = """void main()
{
    uint group = gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
    gpu_number = group * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (group < args.v_groups) kernel();
}
"""

# ---- SPIR-V ------------------------------------------------------------------------------------------------------

# Instructions whose results NoContraction makes those of IEEE arithmetic: FNegate, FAdd, FSub, FMul, FDiv.
EXACT = {127, 129, 131, 133, 136}


def decorated(words):
    """The module with NoContraction at all arithmetic of floats. Decorations come before the first type."""
    at, exact, first_type = 5, [], None
    while at < len(words):
        opcode, count = words[at] & 0xffff, words[at] >> 16
        if first_type is None and 19 <= opcode <= 39:
            first_type = at
        if opcode in EXACT:
            exact.append(words[at + 2])
        at += count
    known = set()
    at = 5
    while at < first_type:
        if words[at] & 0xffff == 71 and words[at + 2] == 42:
            known.add(words[at + 1])
        at += words[at] >> 16
    added = [w for i in exact if i not in known for w in (3 << 16 | 71, i, 42)]
    return words[:first_type] + added + words[first_type:]


def checked(words, path):
    """The module, if the driver (shader.c) can add execution modes of float32 to it: before 1.4 that took an extension, and modes of
    other widths may have to be the same."""
    if words[1] < 0x10400:
        sys.exit(f"{path}: SPIR-V before 1.4")
    at, entries = 5, 0
    while at < len(words):
        opcode, count = words[at] & 0xffff, words[at] >> 16
        entries += opcode == 15
        if opcode == 22 and words[at + 2] != 32:
            sys.exit(f"{path}: floats of {words[at + 2]} bits")
        at += count
    if entries != 1:
        sys.exit(f"{path}: {entries} entry points")
    return words


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")


def words_of(path):
    data = path.read_bytes()
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def compile_glsl(options, path, text):
    """The words of the SPIR-V module of a shader. It is optimised only when it says what may not be reordered, and the result is
    checked by spirv-val: drivers need not refuse a module that is wrong."""
    path.write_text(text)
    plain, small = path.with_suffix(".spv"), path.with_suffix(".opt.spv")
    run([options.glslc, "-O0", "--target-env=vulkan1.2", "-fshader-stage=compute", path, "-o", plain])
    words = decorated(words_of(plain))
    plain.write_bytes(struct.pack(f"<{len(words)}I", *words))
    run([options.spirv_opt, "-O", plain, "-o", small])
    run([options.spirv_val, "--target-env", "vulkan1.2", "--uniform-buffer-standard-layout", small])
    return checked(words_of(small), small)


# ---- Variants ----------------------------------------------------------------------------------------------------

def variants(words):
    """(file, GPU_TYPE, GPU_GROUP, is dense) of FILE:TYPE[:GROUP[:DTYPE]]. There is no double, and a dtype is a constant."""
    found = []
    for word in words:
        path, type_, group, *_ = (word + ":0").split(":")
        if type_ == "64":
            continue
        for dense in (False, True) if path.endswith("pointwise.cl") else (False,):
            variant = Path(path), int(type_), int(group), dense
            if variant not in found:
                found.append(variant)
    return found


def preprocess(options, path, type_, group, dense):
    defines = [f"-DGPU_TYPE={type_}", f"-DGPU_GROUP={group}", "-DGPU_PROCESSOR=0", "-DGPU_GLSL", "-DGPU_DTYPE=gpu_spec_dtype"]
    if dense:
        defines += ["-DGPU_OPCODE=gpu_spec_opcode", "-DGPU_SPLAT=gpu_spec_splat", "-DGPU_RUN=4"]
        defines += [f"-DGPU_DTYPE_{k}=gpu_spec_dtype_{k}" for k in range(4)]
    text = f'#include "dialect.h"\n#include "{options.begin}"\n#include "{path.resolve()}"\n'
    command = [options.cc, "-E", "-P", "-nostdinc", "-x", "c", "-"] + defines + [f"-I{f}" for f in options.folders.split(",")]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return re.sub(r"(?m)^#.*$", "", done.stdout).replace("__extension__", "")


def main():
    parser = argparse.ArgumentParser()
    for name in ("cc", "glslc", "spirv-opt", "spirv-val", "folders", "begin", "work", "leave-out", "files"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("variants", nargs="+")
    options = parser.parse_args()
    work = Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    left_out = set(options.leave_out.split(","))
    jobs = []
    for path, type_, group, dense in variants(options.variants):
        stem = f"{path.stem}_{type_}_{group}{'_dense' if dense else ''}"
        source = preprocess(options, path, type_, group, dense)
        try:
            printer = Printer(c_parser.CParser().parse(source, stem))
            for kernel in printer.kernels():
                if kernel not in left_out:
                    text = printer.kernel(kernel)
                    jobs.append((path.name, type_, group, dense, kernel, work / f"{stem}_{kernel}.glsl", text, printer.shared_bytes))
        except Unsupported as e:
            (work / f"{stem}.i").write_text(source)
            sys.exit(f"{work / stem}.i: {e}")
    with ThreadPoolExecutor(2) as pool:
        modules = list(pool.map(lambda j: compile_glsl(options, j[5], j[6]), jobs))
    print('/* Made by tools/gen_shaders.py. */\n#include "vulkan.h"\n')
    for i, words in enumerate(modules):
        print(f"static const uint32_t words_{i}[] = {{{','.join(hex(w) for w in words)}}};")
    print("\nconst vulkan_module vulkan_modules[] = {")
    for i, (name, type_, group, dense, kernel, _, text, shared) in enumerate(jobs):
        body = text[text.index("uniform gpu_args"):]
        mask = sum(1 << bit for bit, c in enumerate(("opcode", "dtype_0", "dtype_1", "dtype_2", "dtype_3")) if f"gpu_spec_{c}" in body)
        print(f'    {{"{name}", "{kernel}", {type_}, {group}, {int(dense)}, {mask}, {shared}, sizeof words_{i}, words_{i}}},')
    print(f"}};\nconst uint32_t vulkan_n_modules = {len(modules)};\n")
    print("const gpu_source gpu_sources[] = {")
    for name in options.files.split(","):
        print(f'    {{"{name}", "{name}"}},')
    print("    {0, 0},\n};")


if __name__ == "__main__":
    main()
