#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a binding must do beside calling functions, of the one in examples/python, whose folder is the argument."""
import os
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
print("a binding keeps the rules")
