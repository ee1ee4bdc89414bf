# SPDX-License-Identifier: Apache-2.0
"""A binding of Tenon for Python, in one file and without a compiler: every operator, by ctypes.

What it knows of operators it asks the library (inspect.h), so it also has those of libraries that are loaded later. It is a
beginning to copy: tensors of Python's numbers, gradients, hooks, layers by name. docs/write-a-binding.md explains it.
"""
import ctypes
import itertools
import math
import os
import threading
import weakref
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p

LIB = ctypes.CDLL(os.environ.get("TENON_LIBRARY", "libtenon-train.so.0"))  # it loads libtenon.so.0
FLOAT32, INT64 = (LIB.tn_dtype_parse(name) for name in (b"float32", b"int64"))
NONE, TENSOR, TENSORS, INT, FLOAT, BOOL, STRING, INTS, FLOATS, BOOLS, SCALARS = 0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11  # TN_TAG_...
DTYPE, DEVICE = 13, 15
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
    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("name", c_char_p), ("type", c_char_p), ("default_text", c_char_p)]


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


def check(status):
    if status:
        error = LIB.tn_last_error()
        fail(error.contents.message.decode() if error else f"status {status}")


def when_gone(owner, end, handle):
    """Calls end(handle) when the owner dies: on any thread, but not in a child of this process, whose threads are gone."""
    process = os.getpid()
    weakref.finalize(owner, lambda: end(handle) if os.getpid() == process else None)


class Context:
    """Devices, operators, plugins. Tensors keep it alive, so it may be destroyed before them."""

    def __init__(self):
        handle = c_void_p()
        check(LIB.tn_context_create(None, byref(handle)))
        self.handle, self.operators = handle, {}
        when_gone(self, LIB.tn_context_destroy, handle)

    def operator(self, name):
        """Number, number of results, and name and type of each argument."""
        full = name if "::" in name else f"aten::{name}"
        if full not in self.operators:
            number = LIB.tn_operator_find(self.handle, full.encode())
            check(0 if number else 1)
            arguments = []
            for i in range(LIB.tn_inspect_argument_count(self.handle, number, 0)):
                a = ArgumentInfo(ctypes.sizeof(ArgumentInfo))
                check(LIB.tn_inspect_argument(self.handle, number, 0, i, byref(a)))
                arguments.append((a.name.decode(), a.type.decode()))
            self.operators[full] = number, LIB.tn_inspect_argument_count(self.handle, number, 1), arguments
        return self.operators[full]

    def call(self, name, *given, **named):
        """Calls an operator: call("add.Tensor", x, y, alpha=2)."""
        number, n_results, arguments = self.operator(name)
        keep, values, error, n = [], (Value * max(1, len(arguments)))(), POINTER(ErrorInfo)(), 0
        for i, (argument, kind) in enumerate(arguments):  # what is not given stays NONE, which stands for its default
            if i < len(given) or argument in named:
                values[i] = value(given[i] if i < len(given) else named.pop(argument), kind, keep)
                n = i + 1
        if named or len(given) > len(arguments):
            raise TypeError(f"{name}: unexpected arguments {list(named) or given[len(arguments):]}")
        results = (Value * max(1, n_results))()
        status = LIB.tn_call_operator(self.handle, number, values, n, results, n_results, byref(error))
        if status:
            text = error.contents.message.decode()
            LIB.tn_error_release(error)
            fail(text)
        out = [self.result(v) for v in results[:n_results]]
        return out[0] if n_results == 1 else tuple(out)

    def result(self, v):
        if v.tag == TENSOR:
            return Tensor(self, v.as_.pointer)
        if v.tag == TENSORS:
            items = ctypes.cast(v.as_.pointer, POINTER(c_void_p))
            out = [Tensor(self, LIB.tn_retain(c_void_p(items[k]))) for k in range(v.count)]
            LIB.tn_value_release(self.handle, byref(v))
            return out
        return v.as_.f if v.tag == FLOAT else v.as_.i

    def scope(self):
        """Functions without a value of their own (format, grad) take a scope, which owns what they give."""
        return c_void_p(LIB.tn_scope_open(self.handle))

    def tensor(self, numbers, sizes, requires_grad=False):
        if math.prod(sizes) != len(numbers):  # the library reads as many as the sizes say
            raise ValueError(f"tensor: {len(numbers)} numbers for sizes {list(sizes)}")
        data = (ctypes.c_float * len(numbers))(*numbers)
        s = self.scope()
        t = LIB.tn_from_data(s, FLOAT32, Ints((c_int64 * max(1, len(sizes)))(*map(int64, sizes)), len(sizes)), data, c_uint64(0))
        kept = LIB.tn_retain(c_void_p(t))
        finish(s)
        tensor = Tensor(self, kept)
        if requires_grad:
            check(LIB.tn_set_requires_grad(tensor.handle, 1))
        return tensor


def finish(s):
    """Closes a scope, and raises what went wrong in it."""
    check(LIB.tn_scope_close(s))


def int64(v):
    """ctypes would cut the number off without a word."""
    if not -2**63 <= v < 2**63:
        raise OverflowError(f"{v} has more than 64 bits")
    return v


def value(v, kind, keep):
    """A Python value as an argument of a type of the schema; `keep` holds memory until the call is made."""
    out = Value()
    base = kind.rstrip("?")
    if v is None:
        return out
    if isinstance(v, Tensor):
        out.tag, out.as_.pointer = TENSOR, v.handle.value
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
    elif base == "ScalarType":
        out.tag, out.as_.i = DTYPE, v
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
        return self.context.call("add.Tensor" if isinstance(other, Tensor) else "add.Scalar", self, other)

    def __mul__(self, other):
        return self.context.call("mul.Tensor" if isinstance(other, Tensor) else "mul.Scalar", self, other)

    def __getattr__(self, name):  # x.sum(), x.relu(): the overload without a name
        if name.startswith("__"):  # what Python and its libraries look for: an operator would be taken for it
            raise AttributeError(name)
        return lambda *given, **named: self.context.call(name, self, *given, **named)

    def __repr__(self):
        s = self.context.scope()
        text = LIB.tn_format(s, self.handle, None).decode()
        finish(s)
        return text

    def item(self):
        s = self.context.scope()
        number = LIB.tn_item_double(s, self.handle)
        finish(s)
        return number

    def backward(self):
        s = self.context.scope()
        LIB.tn_backward(s, self.handle)
        finish(s)

    def update(self, by):
        """Adds to a leaf without recording, and takes its gradient away."""
        mode = LIB.tn_set_grad_mode(GRAD_OFF)
        try:
            self.context.call("add_.Tensor", self, by)
        finally:
            LIB.tn_set_grad_mode(mode)
        check(LIB.tn_set_grad(self.handle, None))

    @property
    def grad(self):
        s = self.context.scope()
        grad = LIB.tn_grad_of(s, self.handle)
        kept = LIB.tn_retain(c_void_p(grad)) if grad else None
        finish(s)
        return Tensor(self.context, kept) if kept else None

    def on_gradient(self, function):
        """function(grad) may return another gradient. Backward raises an exception of it again."""
        handle, key = c_uint64(), next(KEYS)
        HOOKS[key] = self.context, function
        try:
            check(LIB.tn_register_hook(self.handle, RUN_HOOK, c_void_p(key), byref(handle)))
        except Error:
            del HOOKS[key]
            raise
        check(LIB.tn_hook_on_destroy(self.handle, handle, DROP_HOOK))


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
        s = self.context.scope()
        y = LIB.tn_module_call(s, self.handle, Tensors((c_void_p * 1)(x.handle), 1)).first
        kept = LIB.tn_retain(c_void_p(y)) if y else None
        finish(s)
        return Tensor(self.context, kept)

    def parameters(self):
        s = self.context.scope()
        listed = LIB.tn_module_tensors(s, self.handle, PARAMETERS)
        tensors = [Tensor(self.context, LIB.tn_retain(c_void_p(listed.data[i].tensor))) for i in range(listed.count)]
        finish(s)
        return tensors
