#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls every function of the public headers with NULL in place of each handle and text that it takes.

A function may answer with an error, or with nothing; it may not crash. The list of functions is read from the headers, so
a new function is in it at once. Each call runs in a process of its own. Arguments that are not NULL in a call are valid.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import declared

HANDLES = ("tn_context", "tn_scope", "tn_tensor", "tn_stream", "tn_event", "tn_graph", "tn_memory_pool", "tn_generator", "tn_communicator",
           "tn_safetensors", "tn_node", "tn_call_trace", "tn_error", "tn_call", "tn_function_call")
HEADERS = ("context", "tensor", "autograd", "device", "random", "io", "inspect", "graph", "collectives", "interop", "trace", "op", "value")
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <tenon/tenon.h>
#include <tenon/collectives.h>
#include <tenon/graph.h>
#include <tenon/inspect.h>
#include <tenon/interop.h>
#include <tenon/io.h>
#include <tenon/trace.h>

static tn_context *v_tn_context;
static tn_scope *v_tn_scope;
static tn_tensor *v_tn_tensor;
static tn_stream *v_tn_stream;
static tn_event *v_tn_event;
static tn_generator *v_tn_generator;
static _Alignas(64) unsigned char room[65536]; /* for whatever an argument points to */

@CASES@

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {@TABLE@};

int main(void)
{
    int failed = 0, count = (int)(sizeof cases / sizeof *cases);
    const tn_context_options options = {.size = sizeof options};
    if (tn_context_create(&options, &v_tn_context)) return 1;
    v_tn_generator = tn_default_generator(v_tn_context, TN_CPU);
    v_tn_stream = tn_stream_default(v_tn_context, TN_CPU);
    if (tn_event_create(v_tn_context, TN_CPU, 0, &v_tn_event)) return 1;
    tn_context_destroy(v_tn_context);
    for (int i = 0; i < count; i++) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            if (tn_context_create(&options, &v_tn_context)) _exit(2);
            v_tn_scope = tn_scope_open(v_tn_context);
            v_tn_tensor = tn_ones(v_tn_scope, TN_INTS(2, 2));
            v_tn_generator = tn_default_generator(v_tn_context, TN_CPU);
            v_tn_stream = tn_stream_default(v_tn_context, TN_CPU);
            if (!v_tn_tensor || tn_event_create(v_tn_context, TN_CPU, 0, &v_tn_event)) _exit(2);
            *(uint32_t *)room = 64;
            alarm(20);
            cases[i].run();
            _exit(0);
        }
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && !WEXITSTATUS(status)) continue;
        printf("%s: %s %d\n", cases[i].name, WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        failed++;
    }
    printf("%d passed, %d failed, 0 skipped\n", count - failed, failed);
    return failed != 0;
}
"""


def functions(include):
    """(name, [parameter]) of each function that the headers declare."""
    for header in HEADERS:
        yield from ((name, parameters) for _, name, parameters in declared.functions(include, header))


def kind(parameter):
    """The handle type of a parameter, "text", "pointer", "function", or None for a value."""
    if "(*" in parameter:
        return "function"
    match = re.match(r"(?:const )?(?:struct )?(\w+) \*(?!\*)(?!const)", parameter)
    if match and match[1] in HANDLES:
        return match[1]
    if re.match(r"const char \*(?!\*|const)", parameter):
        return "text"
    return "pointer" if "*" in parameter or "[" in parameter else None


def value(parameter, what):
    """A valid argument; None where there is none to give."""
    if what == "text":
        return '"cpu"'
    if what in ("tn_context", "tn_scope", "tn_tensor", "tn_stream", "tn_event", "tn_generator"):
        return f"v_{what}"
    if what == "function":
        return "NULL"
    if what:
        return "(void *)room" if what == "pointer" else "NULL"
    type_name = " ".join(w for w in re.sub(r"\b\w+$", "", parameter).split() if w != "const")
    if type_name == "tn_device":
        return "TN_CPU"
    if type_name == "tn_dtype":
        return "TN_FLOAT32"
    return "0" if re.match(r"u?int\d+_t|double|float|int|size_t", type_name) else f"({type_name}){{0}}"


def cases_of(name, parameters):
    kinds = [kind(p) for p in parameters]
    handles = [i for i, k in enumerate(kinds) if k in HANDLES or k == "text"]
    # Everything at once, with places to write to, and one at a time.
    variants = [set(handles)] + [{i} for i in handles if len(handles) > 1]
    for nulls in variants if handles else []:
        arguments = ["NULL" if i in nulls else value(p, k) for i, (p, k) in enumerate(zip(parameters, kinds))]
        yield f"{name}({', '.join(arguments)})", f"(void){name}({', '.join(arguments)});"


def main():
    include, library, *compiler = sys.argv[1:]
    table, code = [], []
    for name, parameters in functions(Path(include) / "tenon"):
        for text, call in cases_of(name, parameters):
            returns_nothing = re.sub(r"^\(void\)", "", call)
            code.append(f"static void case_{len(table)}(void)\n{{\n    {returns_nothing}\n}}")
            quoted = text.replace('"', '\\"')
            table.append(f'{{"{quoted}", case_{len(table)}}}')
    if len(table) < 150:
        sys.exit(f"only {len(table)} calls were found in the headers")
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "calls.c", Path(folder) / "calls"
        source.write_text(PROGRAM.replace("@CASES@", "\n".join(code)).replace("@TABLE@", ",\n    ".join(table)))
        subprocess.run([*compiler, "-w", "-std=c17", "-D_GNU_SOURCE", f"-I{include}", str(source), "-o", str(program), library,
                        f"-Wl,-rpath,{Path(library).resolve().parent}"], check=True)
        return subprocess.run([str(program)]).returncode


if __name__ == "__main__":
    sys.exit(main())
