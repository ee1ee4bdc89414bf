# SPDX-License-Identifier: Apache-2.0
"""Reads the notation of recorded calls: `((T([2, 3], f16, stride=(1, 2)), 0.5), {'dtype': f32})`.

A call becomes a request to bench_operator and peer.py. Which values an integer tensor may hold (positions, offsets)
depends on the operator; limit_positions knows it.
"""
import math

DTYPES = {"b8": "bool", "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16",
          "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c32": "complex32", "c64": "complex64",
          "c128": "complex128"}
BYTES = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "float16": 2, "bfloat16": 2,
         "float32": 4, "float64": 8, "complex32": 4, "complex64": 8, "complex128": 16}


class Dtype(str):
    pass


class Torch:
    strided = {"layout": "strided"}
    bool = Dtype("bool")


def T(sizes, dtype, stride=None):
    wish = {"t": list(sizes), "d": str(dtype)}
    if stride is not None:
        wish["s"] = list(stride)
    if dtype == "bool":
        wish["high"] = 2
    elif dtype.startswith(("int", "uint")):
        wish["high"] = 100
    return wish


NAMES = {"T": T, "torch": Torch, "inf": math.inf, "nan": math.nan, "__builtins__": {},
         **{short: Dtype(name) for short, name in DTYPES.items()}}


def encode(value):
    """A value of the notation as bench.h's requests have it."""
    if isinstance(value, Dtype):
        return {"dtype": str(value)}
    if isinstance(value, float):
        return {"f": repr(value)}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def below(tensor, high, offsets=False):
    tensor["high"] = high
    if offsets:
        tensor["offsets"] = True


def limit_positions(operator, a):
    """Gives each tensor of positions among the arguments `a` its range."""
    base = operator.split("::")[1].split(".")[0]
    if base == "embedding":
        below(a[1], a[0]["t"][0])
    elif base == "embedding_dense_backward":
        below(a[1], a[2])
    elif base == "_embedding_bag":
        below(a[1], a[0]["t"][0])
        below(a[2], a[1]["t"][0], offsets=True)
    elif base in ("_index_put_impl_", "index_put", "index_put_", "index"):
        for dim, index in enumerate(a[1]):
            if index and index["d"] != "bool":
                below(index, a[0]["t"][dim])
    elif base in ("scatter", "scatter_", "scatter_add", "scatter_add_", "gather", "index_select"):
        below(a[2], a[0]["t"][a[1]])
    elif base in ("nll_loss_forward", "cross_entropy_loss"):
        below(a[1], a[0]["t"][-1])
    elif base == "nll_loss_backward":
        below(a[2], a[1]["t"][-1])
    elif base == "max_pool2d_with_indices_backward":
        below(a[7], a[1]["t"][-1] * a[1]["t"][-2])


def on_device(value, device):
    """The arguments of a request with `device` where a recorded call names the CPU: it was recorded there."""
    if isinstance(value, dict):
        return {key: device if key == "device" and item == "cpu" else on_device(item, device) for key, item in value.items()}
    return [on_device(item, device) for item in value] if isinstance(value, list) else value


def operator_name(text):
    """aten.add.Tensor -> aten::add.Tensor; the overload `default` has no name."""
    namespace, base, overload = text.split(".")
    return f"{namespace}::{base}" + ("" if overload == "default" else "." + overload)


# In-place calls that change the shape of their tensor, and the call with the same arguments that undoes each of them:
# otherwise the tensor would grow from run to run.
UNDONE_BY = {"aten::unsqueeze_": "aten::squeeze_.dim"}


def request(operator, arguments):
    """`operator` as in aten.add.Tensor, `arguments` in the notation."""
    # The text comes from tables that the user names, and sees only the names above.
    args, kwargs = eval(arguments, dict(NAMES))  # pylint: disable=eval-used
    name, args = operator_name(operator), [encode(value) for value in args]
    limit_positions(name, args)
    call = {"open": "call", "op": name, "args": args, "kwargs": {key: encode(value) for key, value in kwargs.items()}}
    return {**call, "undo": UNDONE_BY[name]} if name in UNDONE_BY else call


def tensors(call):
    found, rest = [], [call["args"], list(call["kwargs"].values())]
    while rest:
        item = rest.pop()
        if isinstance(item, list):
            rest.extend(item)
        elif isinstance(item, dict) and "t" in item:
            found.append(item)
    return found


def call_bytes(call):
    """Bytes that the call moves at least: each tensor argument once, twice if it is changed in place."""
    found = sum(math.prod(t["t"]) * BYTES[t["d"]] for t in tensors(call))
    base = call["op"].split("::")[1].split(".")[0]
    if base.endswith("_") and base != "copy_":
        found += math.prod(call["args"][0]["t"]) * BYTES[call["args"][0]["d"]]
    return found


def table(path):
    """Lines of a table: lists of columns; the first line names them, lines with # are comments."""
    lines = [line.rstrip("\n") for line in open(path, encoding="utf-8")]
    return [line.split("\t") for line in lines[1:] if line and not line.startswith("#")]


def main():
    """Prints a table (operator, number of calls, arguments) as the lines of JSON that `tenon check` replays."""
    import gzip  # pylint: disable=import-outside-toplevel
    import json  # pylint: disable=import-outside-toplevel
    import sys   # pylint: disable=import-outside-toplevel
    with (gzip.open if sys.argv[1].endswith(".gz") else open)(sys.argv[1], "rt", encoding="utf-8") as lines:
        for line in list(lines)[1:]:
            if line.strip() and not line.startswith("#"):
                operator, count, arguments = line.rstrip("\n").split("\t")
                call = request(operator, arguments)
                print(json.dumps({"op": call["op"], "n": int(count), "args": call["args"], "kwargs": call["kwargs"]},
                                 separators=(",", ":")))


if __name__ == "__main__":
    main()
