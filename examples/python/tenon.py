# SPDX-License-Identifier: Apache-2.0
"""A binding of Tenon for Python, in one file and without a compiler: every operator, by ctypes.

What it knows of operators it asks the library (inspect.h), so it also has those of libraries that are loaded later. It is a
beginning to copy: tensors of Python's numbers, gradients, hooks, layers by name. docs/write-a-binding.md explains it.
"""
import ctypes
import itertools
import math
import os
import sys
import threading
import weakref
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p



def load(path):
    """libtenon-train needs libtenon, and the loader looks for that in its own folders only. What is loaded already it takes."""
    if os.path.dirname(path):
        ctypes.CDLL(os.path.join(os.path.dirname(path), "libtenon.so.0"))
    return ctypes.CDLL(path)


LIB = load(os.environ.get("TENON_LIBRARY", "libtenon-train.so.0"))
FLOAT32, INT64 = (LIB.tn_dtype_parse(name) for name in (b"float32", b"int64"))
NONE, TENSOR, TENSORS, INT, FLOAT, BOOL, COMPLEX, STRING, INTS, FLOATS, BOOLS, SCALARS = range(12)  # TN_TAG_...
DTYPE, DEVICE, MEMORY_FORMAT = 13, 15, 16
KEYWORD_ONLY = 4  # TN_ARG_KEYWORD_ONLY
MISSING = 1 << 63  # TN_DEVICE_MISSING
ARGUMENT = 1  # TN_E_ARGUMENT
GRAD_OFF = 2  # TN_GRAD_OFF
PARAMETERS = 1  # TN_PARAMETERS
MORE_OUTPUTS = 7  # TN_MODULE_MAX_OUTPUTS - 1


class Value(ctypes.Structure):  # tn_value: 16 bytes, frozen
    class As(ctypes.Union):
        _fields_ = [("i", c_int64), ("f", c_double), ("pointer", c_void_p), ("string", c_char_p)]
    _fields_ = [("tag", c_uint32), ("count", c_uint32), ("as_", As)]


class ErrorInfo(ctypes.Structure):  # tn_error, as far as it is used here
    _fields_ = [("size", c_uint32), ("code", c_int32), ("error_class", c_int32), ("native_code", c_int32), ("message", c_char_p)]


class OperatorInfo(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("number", c_uint32), ("name", c_char_p), ("schema", c_char_p)]


class ArgumentInfo(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("name", c_char_p), ("type", c_char_p), ("default_text", c_char_p),
                ("alias_set", c_char_p), ("list_length", c_int32), ("reserved", c_int32)]


class LayerOption(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", Value)]


class Ints(ctypes.Structure):  # functions other than operators take lists by value
    _fields_ = [("data", POINTER(c_int64)), ("count", c_int64)]


class Tensors(ctypes.Structure):
    _fields_ = [("data", POINTER(c_void_p)), ("count", c_int64)]


class NamedTensor(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("tensor", c_void_p)]


class NamedTensors(ctypes.Structure):
    _fields_ = [("data", POINTER(NamedTensor)), ("count", c_int64)]


class Outputs(ctypes.Structure):
    _fields_ = [("first", c_void_p), ("more", c_void_p * MORE_OUTPUTS)]


# Every function that returns a pointer or a number of 64 bits needs its type; ctypes takes the rest for int.
for name, result in {"tn_last_error": POINTER(ErrorInfo), "tn_scope_error": POINTER(ErrorInfo), "tn_scope_open": c_void_p, "tn_retain": c_void_p,
                     "tn_from_data": c_void_p, "tn_grad_of": c_void_p, "tn_format": c_char_p,
                     "tn_item_double": c_double, "tn_device_parse": c_uint64, "tn_module_create": c_void_p, "tn_layer_create": c_void_p,
                     "tn_error_count": c_uint64, "tn_tensor_get_rank": c_int64, "tn_tensor_get_sizes": POINTER(c_int64),
                     "tn_tensor_get_strides": POINTER(c_int64), "tn_tensor_get_device": c_uint64, "tn_dtype_name": c_char_p, "tn_device_format": c_char_p,
                     "tn_module_error": c_char_p, "tn_scope_adopt": c_void_p, "tn_module_call": Outputs, "tn_module_tensors": NamedTensors, "tn_module_tensor": c_void_p}.items():
    getattr(LIB, name).restype = result


class Error(Exception):
    """What Tenon refused: the text names the operator and the argument."""


RAISED = threading.local()  # .exception: of a hook that this thread ran, until the call that ran it has failed


def fail(text):
    """Raises what a hook raised, if it did, or an Error. Nobody needs the thread's own error then."""
    LIB.tn_clear_error()
    exception = RAISED.__dict__.pop("exception", None)
    raise Error(text) if exception is None else exception


def place(before):
    """Tells the library which line of the program made the call: for its error, and for the list of TENON_DEBUG=leaks."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    LIB.tn_error_place(c_uint64(before), os.fsencode(frame.f_code.co_filename), frame.f_lineno)


def fail_of_thread(before, status=0):
    """Raises this thread's error; `before` is tn_error_count() before the call that failed."""
    place(before)
    error = LIB.tn_last_error()
    fail(error.contents.message.decode() if error else f"status {status}")


def check(status, before):
    if status:
        fail_of_thread(before, status)


def when_gone(owner, end, handle):
    """Calls end(handle) when the owner dies: on any thread, but not in a child of this process, whose threads are gone."""
    process = os.getpid()
    weakref.finalize(owner, lambda: end(handle) if os.getpid() == process else None)


class Argument:
    """One of an operator's: its type, "Tensor?[]", in parts."""

    def __init__(self, info):
        self.name, self.type, self.has_default = info.name.decode(), info.type.decode(), info.default_text is not None
        self.base = self.type.partition("[")[0].rstrip("?")
        self.is_list, self.is_optional, self.list_length = "[" in self.type, self.type.endswith("?"), info.list_length
        self.keyword_only = bool(info.flags & KEYWORD_ONLY)


class Operator:
    """One overload, as the library describes it."""

    def __init__(self, context, number):
        self.number, before = number, LIB.tn_error_count()
        info = OperatorInfo(ctypes.sizeof(OperatorInfo))
        check(LIB.tn_inspect_operator_by_number(context.handle, number, byref(info)), before)
        self.name, self.schema, self.arguments = info.name.decode(), info.schema.decode(), []
        for i in range(LIB.tn_inspect_argument_count(context.handle, number, 0)):
            argument = ArgumentInfo(ctypes.sizeof(ArgumentInfo))
            check(LIB.tn_inspect_argument(context.handle, number, 0, i, byref(argument)), before)
            self.arguments.append(Argument(argument))
        self.n_results = LIB.tn_inspect_argument_count(context.handle, number, 1)

    def bind(self, given, named, fit):
        """How many values need a conversion, and the values in the order of the schema; None if they are not for this overload."""
        given, named, conversions, values = list(given), dict(named), 0, []
        for a in self.arguments:  # what is not given stays None, which stands for its default
            if given and not a.keyword_only:
                values.append(given.pop(0))
            elif a.name in named:
                values.append(named.pop(a.name))
            elif a.has_default:
                values.append(None)
                continue
            else:
                return None
            how = fit(values[-1], a)
            if how is None:
                return None
            conversions += how
        return None if given or named else (conversions, values)


class Context:
    """Devices, operators, plugins. Tensors keep it alive, so it may be destroyed before them."""

    def __init__(self):
        handle, before = c_void_p(), LIB.tn_error_count()
        check(LIB.tn_context_create(None, byref(handle)), before)
        self.handle, self.operators, self.names, self.count = handle, {}, {}, 0
        when_gone(self, LIB.tn_context_destroy, handle)

    def operator(self, name):
        """The one with this full name. Forms that follow by rule, "aten::flip.out", are made when they are asked for."""
        if name not in self.operators:
            before, number = LIB.tn_error_count(), LIB.tn_operator_find(self.handle, name.encode())
            if not number:
                fail_of_thread(before)
            self.operators[name] = Operator(self, number)
        return self.operators[name]

    def overloads(self, name):
        """All of a name, "aten::add", in the order of their numbers. Libraries may bring new ones at any time."""
        count, before = LIB.tn_inspect_operator_count(self.handle), LIB.tn_error_count()
        if count != self.count:
            self.names, self.count = {}, count
            for i in range(count):
                info = OperatorInfo(ctypes.sizeof(OperatorInfo))
                check(LIB.tn_inspect_operator(self.handle, i, byref(info)), before)
                self.names.setdefault(info.name.decode().partition(".")[0], []).append((info.number, info.name.decode()))
        return [self.operator(full) for _, full in sorted(self.names.get(name, []))] or [self.operator(name)]

    def with_derived_out(self, operators):
        """Those, and the out forms of them that follow by rule."""
        out = list(operators)
        for o in operators:
            try:
                out.append(self.operator(o.name + ("_out" if "." in o.name else ".out")))
            except Error:
                pass  # it has an out form of another name, or none
        return out

    def choose(self, name, given, named):
        """The overload for these values, which it needs to convert least, and the values in its order."""
        full = name if "::" in name else f"aten::{name}"
        found = [self.operator(full)] if "." in name else self.overloads(full)
        for operators in (lambda: found, lambda: self.with_derived_out(found) if "out" in named else []):
            bound = [(b[0], o, b[1]) for o in operators() if (b := o.bind(given, named, fits))]
            if bound:
                return min(bound, key=lambda b: b[0])[1:]  # the first of equals
        bound = [(o, b[1]) for o in found if (b := o.bind(given, named, lambda v, a: 0))]
        if len(bound) == 1:  # its names and count are right: the library says which type is not
            return bound[0]
        raise TypeError(f"{name}: these arguments are for none of:\n" + "\n".join(o.schema for o in found))

    def call(self, name, *given, **named):
        """Calls an operator: call("add", x, 2, alpha=3), or one overload: call("add.Tensor", x, y)."""
        operator, bound = self.choose(name, given, named)
        bound = [self.device(v) if a.base == "Device" and isinstance(v, str) else v for v, a in zip(bound, operator.arguments)]
        keep, n_results = [], operator.n_results
        values = (Value * max(1, len(bound)))(*(value(v, a.type, keep) for v, a in zip(bound, operator.arguments)))
        results, before = (Value * max(1, n_results))(), LIB.tn_error_count()
        status = LIB.tn_call_operator(self.handle, operator.number, values, len(bound), results, n_results, None)
        place(before)  # behind a success, too: what the call made is listed with it by TENON_DEBUG=leaks
        check(status, before)
        out = [self.result(v) for v in results[:n_results]]
        return out[0] if n_results == 1 else tuple(out)

    def result(self, v):
        """A result as a value of Python. Its memory is released, or belongs to a Tensor from now on."""
        if v.tag == TENSOR:
            return Tensor(self, v.as_.pointer)
        if v.tag in (TENSORS, COMPLEX):
            if v.tag == TENSORS:
                out = [Tensor(self, LIB.tn_retain(c_void_p(t))) for t in ctypes.cast(v.as_.pointer, POINTER(c_void_p))[:v.count]]
            else:
                out = complex(*ctypes.cast(v.as_.pointer, POINTER(c_double))[:2])
            LIB.tn_value_release(self.handle, byref(v))
            return out
        return None if v.tag == NONE else v.as_.f if v.tag == FLOAT else bool(v.as_.i) if v.tag == BOOL else v.as_.i

    def device(self, text):
        before, device = LIB.tn_error_count(), LIB.tn_device_parse(self.handle, text.encode())
        if device & MISSING:
            fail_of_thread(before)
        return device

    def tensor(self, numbers, sizes, requires_grad=False):
        if math.prod(sizes) != len(numbers):  # the library reads as many as the sizes say
            raise ValueError(f"tensor: {len(numbers)} numbers for sizes {list(sizes)}")
        data = (ctypes.c_float * len(numbers))(*numbers)
        with Scope(self) as s:
            tensor = kept(self, LIB.tn_from_data(s, FLOAT32, Ints((c_int64 * max(1, len(sizes)))(*map(int64, sizes)), len(sizes)), data, c_uint64(0)))
        if requires_grad:
            before = LIB.tn_error_count()
            check(LIB.tn_set_requires_grad(tensor.handle, 1), before)
        return tensor


class Scope:
    """Functions other than operators take a scope, which owns what they give and has their first error. It raises that at its end."""

    def __init__(self, context):
        self.context = context

    def __enter__(self):
        self.before = LIB.tn_error_count()
        self.handle = c_void_p(LIB.tn_scope_open(self.context.handle))
        if not self.handle:  # closing NULL would say that all is well
            fail_of_thread(self.before)
        return self.handle

    def __exit__(self, kind, exception, trace):
        status = LIB.tn_scope_close(self.handle)
        place(self.before)
        if kind:
            LIB.tn_clear_error()  # Python's exception is on its way
        else:
            check(status, self.before)


def kept(context, handle):
    """A tensor of a scope, for longer than that; None for what a failed call gave, whose error the scope has."""
    return Tensor(context, LIB.tn_retain(c_void_p(handle))) if handle else None


def int64(v):
    """ctypes would cut the number off without a word."""
    if not -2**63 <= v < 2**63:
        raise OverflowError(f"{v} has more than 64 bits")
    return v


def fits(v, a):
    """0 if a value is of the type of an argument, 1 if the library converts it, None if it is neither."""
    if v is None:
        return 0 if a.is_optional else 1 if a.has_default else None
    if a.is_list and isinstance(v, (list, tuple)):
        all_of_them = [0 if x is None and "?[" in a.type else fits_one(x, a.base) for x in v]
        return None if None in all_of_them else max(all_of_them, default=0)
    if a.is_list:  # int[2] takes one int
        return 1 if a.list_length and fits_one(v, a.base) is not None else None
    return fits_one(v, a.base)


def fits_one(v, base):
    types = {"Tensor": Tensor, "Scalar": (bool, int, float, complex), "int": int, "SymInt": int, "float": (float, int), "bool": bool, "str": str,
             "ScalarType": str, "Device": str, "MemoryFormat": int}
    if not isinstance(v, types.get(base, ())) or (isinstance(v, bool) and base not in ("Scalar", "bool")):
        return None
    return int(base == "float" and isinstance(v, int))


def value(v, kind, keep):
    """A Python value as an argument of a type of the schema; `keep` holds memory until the call is made."""
    out = Value()
    base = kind.rstrip("?")
    if v is None:
        return out
    if isinstance(v, Tensor):
        out.tag, out.as_.pointer = TENSOR, v.handle.value
    elif isinstance(v, str) and base == "ScalarType":
        if not LIB.tn_dtype_parse(v.encode()):
            raise ValueError(f"no dtype has the name {v!r}")
        out.tag, out.as_.i = DTYPE, LIB.tn_dtype_parse(v.encode())
    elif base.startswith("Tensor") and base.endswith("]"):
        keep.append(items := (c_void_p * max(1, len(v)))(*(t.handle.value if t is not None else None for t in v)))
        out.tag, out.count, out.as_.pointer = TENSORS, len(v), ctypes.addressof(items)
    elif isinstance(v, (list, tuple)):
        lists = {"float": (FLOATS, c_double, float), "bool": (BOOLS, c_uint8, bool), "Scalar": (SCALARS, Value, lambda x: value(x, "", keep))}
        tag, item, of = lists.get(base.partition("[")[0], (INTS, c_int64, int64))
        keep.append(items := (item * max(1, len(v)))(*map(of, v)))
        out.tag, out.count, out.as_.pointer = tag, len(v), ctypes.addressof(items)
    elif isinstance(v, str):
        keep.append(text := v.encode())
        out.tag, out.count, out.as_.string = STRING, len(text), text
    elif base in ("ScalarType", "Device", "MemoryFormat"):
        out.tag, out.as_.i = {"ScalarType": DTYPE, "Device": DEVICE, "MemoryFormat": MEMORY_FORMAT}[base], v
    elif isinstance(v, complex):
        keep.append(parts := (c_double * 2)(v.real, v.imag))
        out.tag, out.count, out.as_.pointer = COMPLEX, 2, ctypes.addressof(parts)
    elif isinstance(v, bool):
        out.tag, out.as_.i = BOOL, v
    elif isinstance(v, int) and base != "float":
        out.tag, out.as_.i = INT, int64(v)
    else:
        out.tag, out.as_.f = FLOAT, v
    return out


class Tensor:
    """Owns one reference, which Python's collector releases on any thread."""

    def __init__(self, context, handle):
        self.context, self.handle = context, c_void_p(handle)
        when_gone(self, LIB.tn_release, self.handle)

    def __add__(self, other):
        return self.context.call("add", self, other)

    def __mul__(self, other):
        return self.context.call("mul", self, other)

    @property
    def shape(self):
        return tuple(LIB.tn_tensor_get_sizes(self.handle)[:LIB.tn_tensor_get_rank(self.handle)])

    @property
    def strides(self):
        return tuple(LIB.tn_tensor_get_strides(self.handle)[:LIB.tn_tensor_get_rank(self.handle)])

    @property
    def dtype(self):
        return LIB.tn_dtype_name(LIB.tn_tensor_get_dtype(self.handle)).decode()

    @property
    def device(self):
        text = ctypes.create_string_buffer(80)
        return LIB.tn_device_format(self.context.handle, c_uint64(LIB.tn_tensor_get_device(self.handle)), text, c_uint64(80)).decode()

    def __getattr__(self, name):  # x.sum(), x.relu(), x.max(1)
        if name.startswith("__"):  # what Python and its libraries look for: an operator would be taken for it
            raise AttributeError(name)
        return lambda *given, **named: self.context.call(name, self, *given, **named)

    def __repr__(self):
        with Scope(self.context) as s:
            text = LIB.tn_format(s, self.handle, None).decode()
        return text

    def item(self):
        with Scope(self.context) as s:
            number = LIB.tn_item_double(s, self.handle)
        return number

    def backward(self):
        with Scope(self.context) as s:
            LIB.tn_backward(s, self.handle)

    def update(self, by):
        """Adds to a leaf without recording, and takes its gradient away."""
        mode = LIB.tn_set_grad_mode(GRAD_OFF)
        try:
            self.context.call("add_.Tensor", self, by)
        finally:
            LIB.tn_set_grad_mode(mode)
        before = LIB.tn_error_count()
        check(LIB.tn_set_grad(self.handle, None), before)

    @property
    def grad(self):
        with Scope(self.context) as s:
            grad = kept(self.context, LIB.tn_grad_of(s, self.handle))
        return grad

    def on_gradient(self, function):
        """function(grad) may return another gradient. Backward raises an exception of it again."""
        handle, key, before = c_uint64(), next(KEYS), LIB.tn_error_count()
        HOOKS[key] = self.context, function
        try:
            check(LIB.tn_register_hook(self.handle, RUN_HOOK, c_void_p(key), byref(handle)), before)
        except Error:
            del HOOKS[key]
            raise
        check(LIB.tn_hook_on_destroy(self.handle, handle, DROP_HOOK), before)


# The graph may outlive the tensor of a hook, and needs Python's function as long: the library calls DROP_HOOK when the graph is
# gone. C has pointers to these two functions only, which live for ever.
KEYS, HOOKS = itertools.count(1), {}


@ctypes.CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_void_p)
def RUN_HOOK(key, scope, grad):
    context, function = HOOKS[key]
    try:
        made = function(Tensor(context, LIB.tn_retain(c_void_p(grad))))
        return LIB.tn_scope_adopt(c_void_p(scope), c_void_p(LIB.tn_retain(made.handle))) if made is not None else None
    except BaseException as e:  # an exception must not leave a function that C calls
        RAISED.exception = e
        LIB.tn_scope_fail(c_void_p(scope), ARGUMENT, f"{type(e).__name__}: {e}".encode())
        return None


@ctypes.CFUNCTYPE(None, c_void_p)
def DROP_HOOK(key):
    HOOKS.pop(key, None)


class Module:
    """A chain of layers: Module(c).add("Linear", in_features=2, out_features=1)."""

    def __init__(self, context):
        self.context, self.handle = context, c_void_p(LIB.tn_module_create(context.handle, b"net", None))
        when_gone(self, LIB.tn_module_destroy, self.handle)

    def add(self, layer, **options):
        keep, given = [], (LayerOption * max(1, len(options)))()
        for i, (name, v) in enumerate(options.items()):
            given[i] = LayerOption(name.encode(), value(v, "int[]" if isinstance(v, (list, tuple)) else "", keep))
        if not LIB.tn_layer_create(self.handle, None, layer.encode(), given, len(options)):
            fail(LIB.tn_module_error(self.handle).decode())
        return self

    def __call__(self, x):
        with Scope(self.context) as s:
            y = kept(self.context, LIB.tn_module_call(s, self.handle, Tensors((c_void_p * 1)(x.handle), 1)).first)
        return y

    def parameters(self):
        with Scope(self.context) as s:
            listed = LIB.tn_module_tensors(s, self.handle, PARAMETERS)
            tensors = [kept(self.context, listed.data[i].tensor) for i in range(listed.count)]
        return tensors
