#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a binding must do beside calling functions, of the one in examples/python, whose folder is the argument."""
import os
import subprocess
import sys
import threading

sys.path.insert(0, sys.argv[1])
import tenon  # noqa: E402

c = tenon.Context()
x = c.tensor([1.0, 2.0], [2], requires_grad=True)


def raised_by(run):
    try:
        run()
    except BaseException as error:
        return error
    return None


def is_clear():
    """Nothing is left as the error of this thread."""
    return not tenon.LIB.tn_last_error()


error = raised_by(lambda: c.call("matmul", x, c.tensor([1.0], [1])))
assert isinstance(error, tenon.Error) and "size" in str(error), error
assert is_clear()
assert isinstance(raised_by(lambda: c.call("no_such_operator")), tenon.Error) and is_clear()
assert isinstance(raised_by(lambda: tenon.Module(c).add("NoSuchLayer")), tenon.Error) and is_clear()

# Sizes, strides, dtype, device; dtypes and devices by name.
m = c.call("zeros", [2, 3], dtype="int64", device="cpu")
assert (m.shape, m.strides, m.dtype, m.device) == ((2, 3), (3, 1), "int64", "cpu")
assert (m.t().shape, m.t().strides, c.tensor([1.0], []).shape) == ((3, 2), (1, 3), ())
assert c.call("zeros", [0, 4]).shape == (0, 4) and x.dtype == "float32"
assert isinstance(raised_by(lambda: c.call("zeros", [1], dtype="no_dtype")), ValueError)
error = raised_by(lambda: c.call("zeros", [1], device="no_device"))
assert isinstance(error, tenon.Error) and "no_device" in str(error) and is_clear(), error

# Overloads by the values that they get; the schemas say which of ATen's these are.
t = c.tensor([3.0, 1.0, 4.0, 1.0], [2, 2])


def chosen(name, *given, **named):
    return c.choose(name, given, named)[0].name


assert chosen("add", t, t) == "aten::add.Tensor" and chosen("add", t, 2, alpha=3) == "aten::add.Scalar"
assert chosen("add", t, t, out=t) == "aten::add.out" and chosen("add_", t, 2.5) == "aten::add_.Scalar"
assert chosen("max", t) == "aten::max" and chosen("max", t, 1) == "aten::max.dim" and chosen("max", t, t) == "aten::max.other"
assert chosen("pow", 2, t) == "aten::pow.Scalar" and chosen("pow", t, 2) == "aten::pow.Tensor_Scalar"
assert chosen("sum", t) == "aten::sum" and chosen("sum", t, 0) == chosen("sum", t, [0, 1]) == "aten::sum.dim_IntList"
assert chosen("std", t, False) == "aten::std" and chosen("std", t, correction=0) == "aten::std.correction"
assert chosen("split", t, 1) == "aten::split.Tensor" and chosen("split_with_sizes", t, [1, 1]) == "aten::split_with_sizes"
assert chosen("where", t, t, 0.0) == "aten::where.ScalarOther" and chosen("div", t, t, rounding_mode="floor") == "aten::div.Tensor_mode"
assert t.max(1)[0].sum().item() == 7 and (t + 1).sum().item() == 13 and (t * t).sum().item() == 27
error = raised_by(lambda: c.call("add", t, "text"))
assert isinstance(error, TypeError) and "aten::add.Tensor(Tensor self, Tensor other" in str(error), error
error = raised_by(lambda: c.call("matmul", t, "text"))  # one overload is left: the library says what is wrong
assert isinstance(error, tenon.Error) and "argument 'other' (position 2) must be Tensor, not str" in str(error), error

# Forms that follow by rule.
turned = c.tensor([0.0] * 4, [2, 2])
assert chosen("flip", t, [0], out=turned) == "aten::flip.out"
assert c.call("flip", t, [0], out=turned).handle.value == turned.handle.value and turned.max(1)[1].sum().item() == 0
assert is_clear() and isinstance(raised_by(lambda: c.call("flip", t, [0], no_such=1)), TypeError)

# Results of each kind. A complex number lies in memory of the library.
z = c.call("complex", c.tensor([1.5], []), c.tensor([-2.0], []))
assert c.call("item", z) == 1.5 - 2j and c.call("item", m.sum()) == 0
assert c.call("mul", z, 2j).dtype == "complex64" and c.call("item", c.call("mul", z, 2j)) == 4 + 3j
assert c.call("is_nonzero", c.tensor([1.0], [])) is True and c.call("chunk", t, 2)[1].shape == (1, 2)

# An error names the line of the program, and texts of errors are UTF-8 whatever the program gave.
error = raised_by(lambda: c.call("matmul", t, x.t().sum().relu()))
assert str(error).startswith(f"{__file__}:"), error
tenon.LIB.tn_scope_fail(None, 1, b"\xff\xfe")
assert tenon.LIB.tn_last_error().contents.message.decode() == "\\xff\\xfe"
tenon.LIB.tn_clear_error()

# What the library would read beyond its end, and what ctypes would cut off.
for run in (lambda: c.tensor([1.0], [3]), lambda: c.tensor([], [])):
    assert isinstance(raised_by(run), ValueError)
for run in (lambda: c.call("full", [1], 2**70), lambda: c.call("full", [2**70], 1), lambda: c.tensor([1.0] * 0, [2**70, 0])):
    assert isinstance(raised_by(run), OverflowError)
assert c.call("full", [1], 2**63 - 1).item() == float(2**63) and c.tensor([1.0], []).item() == 1

# A tensor has none of the methods that Python's libraries look for.
assert not hasattr(x, "__array_interface__") and not hasattr(x, "__deepcopy__")

# Lists of each type.
ones = c.call("ones", [1, 1, 2, 2])
assert c.call("upsample_nearest2d.vec", ones, None, [2, 1.5]).sum().item() == 12
assert c.call("_foreach_add.ScalarList", [x, x], [1, 0.5])[1].sum().item() == 4
x2, norms = c.tensor([1.0, 1.0], [1, 2]), c.tensor([1.0], [1, 1])
gradients = c.call("native_layer_norm_backward", x2, x2, [2], norms, norms, None, None, [True, False, False])
assert isinstance(gradients[0], tenon.Tensor) and not gradients[1]

# Backward raises the very exception of the hook, whatever its class; the next failure is its own.
for thrown in (ValueError("from a hook"), KeyboardInterrupt()):
    def throw(grad):
        raise thrown

    y = x * 2.0
    y.on_gradient(throw)
    assert raised_by(y.sum().backward) is thrown and is_clear()
    error = raised_by(lambda: c.call("matmul", x, c.tensor([1.0], [1])))
    assert isinstance(error, tenon.Error), error

# Each thread raises what its own hooks raised.
caught = {}


def run(name):
    def throw(grad):
        both.wait()
        raise ValueError(name)

    z = c.tensor([1.0], [1], requires_grad=True) * 2.0
    z.on_gradient(throw)
    caught[name] = str(raised_by(z.sum().backward))


both = threading.Barrier(2)
threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "other")]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert caught == {"one": "one", "other": "other"}, caught

# In the child of a fork every use raises, and none gives a value.
child = os.fork()
if not child:
    uses = [lambda: repr(x), x.item, x.sum, lambda: x.grad, lambda: x.on_gradient(print), lambda: c.tensor([1.0], [1]), x.backward,
            lambda: tenon.Context().call("neg", x)]
    errors = [raised_by(use) for use in uses]
    os._exit(sum(not isinstance(e, tenon.Error) or "after fork" not in str(e) for e in errors))
assert os.waitpid(child, 0)[1] == 0, "a tensor of the parent was used in the child"

# In the child of a fork finalisers call nothing, neither of single objects nor at the exit.
called = []
gone = c.tensor([1.0], [1])
tenon.when_gone(gone, called.append, 1)
child = os.fork()
if not child:
    del gone
    os._exit(1 if called else 0)
assert os.waitpid(child, 0)[1] == 0, "a finaliser ran in the child"
del gone
assert called == [1], called
child = os.fork()
if not child:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0, "the child ended in another way"

# At exit tensors end before their context, whose list of leaks is empty then.
environment = {**os.environ, "TENON_DEBUG": "handles,leaks"}
done = subprocess.run([sys.executable, "-B", f"{sys.argv[1]}/fit.py"], env=environment, capture_output=True, text=True)
assert (done.returncode, done.stderr) == (0, ""), done
print("a binding keeps the rules")
