#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public header compiles alone, as C11, C17 and C++17, without one warning, with gcc and clang; those that
vendors use also with TN_PLUGIN, under which no function of ours may be declared."""
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wundef", "-Wshadow", "-Werror", "-fsyntax-only"]
LANGUAGES = [("c", "c11"), ("c", "c17"), ("c++", "c++17")]
VENDOR = ["plugin.h", "op.h", "ops.h", "value.h", "base.h", "device.h", "graph.h", "collectives.h",
          "random.h", "tensor.h", "context.h", "kernel.h", "device_kernel.h", "plain_kernels.h", "worker.h", "typed_call.h", "operator_library.h", "activity.h"]
OPS = "#include <tenon/ops.h>\n"
PLAIN = {**os.environ, "LC_ALL": "C"}  # ASCII quotes in messages


def compile_alone(include, header, compiler, language, standard, defines):
    only_c = ["-Wstrict-prototypes", "-Wmissing-prototypes"] if language == "c" else []
    command = [compiler, "-x", language, f"-std={standard}", *STRICT, *only_c, *defines, f"-I{include}", "-"]
    return command, f"#include <tenon/{header}>\n", header, None


def compile_job(job):
    """A command, the code, what it is, and words that the compiler has to refuse it with, or None if it compiles. Returns what
    is wrong, or None."""
    command, code, what, words = job
    run = subprocess.run(command, input=code, capture_output=True, text=True, env=PLAIN)
    if run.returncode == 0 if words is None else run.returncode != 0 and words in run.stderr:
        return None
    return f"{' '.join(map(str, command))}  # {what}: {run.returncode}\n{run.stderr}"


def compile_calls(command, head, call, good, bad):
    """The jobs of calls that compile, all in one, and of those that do not, with their words, each alone."""
    calls = "".join(call.format(f"f{i}", expression) for i, expression in enumerate(good))
    if good:
        yield command, head + calls, "; ".join(good), None
    for expression, words in bad:
        yield command, head + call.format("f", expression), expression, words


def declared_functions(include, header):
    """Functions that a vendor's translation unit would have to link: declarations without a body."""
    code = f"#define TN_PLUGIN\n#define TN_API __attribute__((annotate(\"api\")))\n#include <tenon/{header}>\n"
    run = subprocess.run(["gcc", "-E", "-P", f"-I{include}", "-"], input=code, capture_output=True, text=True)
    return [line for line in run.stdout.splitlines() if 'visibility("default")' in line and "tenon_plugin" not in line]


def plain_numbers(include):
    """A plain number among the options of a typed call does not compile in C; the ways to write a scalar do."""
    call = "tn_tensor *{}(tn_scope *s, tn_tensor *x, tn_value v) {{ (void)v; return {}; }}\n"
    good = ["tn_add(s, x, x, .alpha = TN_SCALAR(2))", "tn_add(s, x, x, .alpha = v)", "tn_add_scalar(s, x, 2)",
            "tn_add_scalar(s, x, v, .alpha = TN_SCALAR(0.5))", "tn_clamp(s, x, .max = TN_SCALAR(TN_SCALAR(2)))",
            "tn_mul_scalar(s, x, TN_SCALAR(2))", "tn_range_step(s, 0, 4.5, .step = v)"]
    bad = ["tn_add(s, x, x, .alpha = 2)", "tn_add_scalar(s, x, 2, .alpha = 3)", "tn_clamp(s, x, .min = 0.5)",
           "tn_var_correction(s, x, .correction = 0)"]
    for compiler in (c for c in ("gcc", "clang") if shutil.which(c)):
        # A system header, as an installed one is: there gcc gives no warnings.
        command = [compiler, "-x", "c", "-std=c11", "-O1", "-isystem", include, "-c", "-o", "/dev/null", "-"]
        yield from compile_calls(command, OPS, call, good, [(b, "TN_SCALAR(x)") for b in bad])


def warnings_of_the_program(include):
    """Options give no warning, and the header leaves the warnings of the program as they are, in C11 and C17."""
    head = "#include <tenon/tenon.h>\ntn_tensor *f(tn_scope *s, tn_tensor *x);\ntn_tensor *f(tn_scope *s, tn_tensor *x)\n{\n"
    good = "    return tn_add(s, tn_add(s, x, tn_sum_dim(s, x, TN_INTS(0), .keepdim = 1), .alpha = TN_SCALAR(2)), x,\n" \
           "                  .alpha = TN_SCALAR(3));\n}\n"
    own = "    struct { int a; } twice = {.a = 1, .a = 2};\n    (void)twice;\n"
    for compiler, warning in (("gcc", "-Woverride-init"), ("clang", "-Winitializer-overrides")):
        for standard in ("c11", "c17"):
            command = [compiler, "-x", "c", f"-std={standard}", *STRICT, warning, f"-I{include}", "-"]
            yield command, head + good, "options", None
            yield command, head + own + good, warning, warning[2:]


def plain_lists(include):
    """A plain number where a list is wanted does not compile, and the message says how a list is written."""
    call = "tn_tensor *{}(tn_scope *s, tn_tensor *x, int64_t d) {{ (void)d; return {}; }}\n"
    good = ["tn_sum_dim(s, x, TN_INTS(1))", "tn_conv2d(s, x, x, .stride = TN_INTS(2, 2))", "tn_sum_dim(s, x, TN_NO_INTS)",
            "tn_conv2d(s, x, x, .stride = (tn_ints){&d, 1})", "tn_sum_dim(s, x, (tn_ints){NULL, 0}, .keepdim = 1)"]
    bad = [("tn_sum_dim(s, x, 1)", "TN_INTS"), ("tn_sum_dim(s, x, d)", "TN_INTS"), ("tn_reshape(s, x, 6)", "tn_ints"),
           ("tn_conv2d(s, x, x, .stride = 2)", "TN_INTS"), ("tn_conv2d(s, x, x, .stride = d)", "TN_INTS"),
           ("tn_layer_norm(s, x, 8)", "TN_INTS"), ("tn_sum(s, x, .dim = 1)", "tn_sum_args")]
    zero = ["tn_sum_dim(s, x, 0)", "tn_conv2d(s, x, x, .padding = 0)"]  # a null pointer: seen with optimisation, or when it runs
    zeros = [(z, "a list option is written TN_INTS(...)") for z in zero]
    for compiler in (c for c in ("gcc", "clang") if shutil.which(c)):
        for level, refused in (("-O0", bad), ("-O1", zeros), ("-O2", bad)):
            command = [compiler, "-x", "c", "-std=c11", level, "-isystem", include, "-c", "-o", "/dev/null", "-"]
            yield from compile_calls(command, OPS, call, good, refused)


def numbers_for_tensors(include):
    """A number where a tensor is wanted does not compile, whatever warnings the program has off; the message says what is wanted."""
    call = "tn_tensor *{}(tn_scope *s, tn_tensor *x, int64_t n) {{ (void)n; return {}; }}\n"
    good = ["tn_mul(s, x, tn_mul(s, x, x))", "tn_mul_scalar(s, x, 2)", "tn_mul_scalar(s, tn_exp(s, x), n)", "tn_add(s, x, tn_exp(s, x))",
            "tn_pow_scalar(s, 2, x)", "tn_linear(s, x, x, .bias = NULL)"]
    bad = ["tn_mul(s, x, 2)", "tn_mul(s, x, n)", "tn_mul_(s, x, -1)", "tn_exp(s, 1)", "tn_mul_scalar(s, 2, x)", "tn_pow_scalar(s, 2, 3)",
           "tn_mul(s, x, tn_exp(s, 2))", "tn_mul(s, x, 2.5)", "tn_mul_out(s, x, x, 1)"]
    for compiler in (c for c in ("gcc", "clang") if shutil.which(c)):
        command = [compiler, "-x", "c", "-std=c11", "-Wno-int-conversion", "-isystem", include, "-fsyntax-only", "-"]
        yield from compile_calls(command, OPS, call, good, [(b, "'tn_tensor *'") for b in bad])


def pointers_for_scalars(include):
    """In C++ a scalar is any number and no pointer, which would be true."""
    call = "tn_tensor *{}(tn_scope *s, tn_tensor *x) {{ tn_add_args o; {} return tn_add(s, x, x, o); }}\n"
    good = ["o.alpha = 2;", "o.alpha = 0.5;", "o.alpha = true;", "o.alpha = TN_SCALAR(3);"]
    bad = ["o.alpha = x;", "o.alpha = nullptr;", "tn_mul_scalar(s, x, x);", "tn_sum_dim(s, x, 1);", "tn_sum_dim(s, x, 0);",
           "tn_conv2d_args c; c.stride = 2;"]
    for compiler in (c for c in ("g++", "clang++") if shutil.which(c)):
        command = [compiler, "-x", "c++", "-std=c++17", "-fsyntax-only", f"-I{include}", "-"]
        yield from compile_calls(command, OPS, call, good, [(b, "") for b in bad])


def main():
    include = Path(sys.argv[1])
    headers = sorted(p.name for p in (include / "tenon").glob("*.h"))
    compilers = [c for c in ("gcc", "clang") if shutil.which(c)]
    jobs = [compile_alone(include, h, c, *l, d) for h in headers for c in compilers for l in LANGUAGES
            for d in ([[], ["-DTN_PLUGIN"]] if h in VENDOR else [[]])]
    jobs += [compile_alone(include, h, c, "c++", standard, d) for h in ("ops.hpp", "cplusplus.hpp", "place.h") for c in compilers
             for standard in ("c++14", "c++17", "c++20")
             for d in ([], ["-DTN_PLUGIN"], ["-DTN_NO_PLACES"])]
    for of_calls in (plain_numbers, plain_lists, numbers_for_tensors, warnings_of_the_program, pointers_for_scalars):
        jobs += of_calls(include)
    with ThreadPoolExecutor(2) as pool:
        failures = [f for f in pool.map(compile_job, jobs) if f]
    for header in VENDOR:
        failures += [f"{header} with TN_PLUGIN declares: {line}" for line in declared_functions(include, header)]
    print("\n".join(failures) or f"{len(jobs)} compilations of {len(headers)} headers with {', '.join(compilers)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
