#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls every function of the public headers where it must do nothing.

`failed`: functions that take a scope, on a scope that has failed. They return its status, NULL or 0, call no function of the
program, write no file, and leave tensors, modules, optimisers and generators as they were.
`forked`: all functions, in the child of a fork. What returns a status returns TN_E_FORKED, and nothing crashes or hangs.

The functions are read from the headers, so a new one is in the test at once. Each call runs in a process of its own.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from declared import functions

# They end, read or change the scope itself.
OF_SCOPES = {"tn_scope_close", "tn_scope_place", "tn_scope_call_place", "tn_scope_add_to_error", "tn_scope_clear", "tn_scope_fail",
             "tn_scope_adopt", "tn_scope_return", "tn_drop", "tn_scope_open_child", "tn_scope_context", "tn_scope_failed",
             "tn_scope_error", "tn_step_close"}
# What they return on failure is documented otherwise: NaN, "" and a value that is not a status.
OTHER_RESULTS = {"tn_item_double": "void", "tn_format": "void", "tn_text": "void", "tn_item_bool": "int64_t"}
# In the child of a fork: calls that do not return a status, or touch only the memory of an object or a file of the program.
NO_STATUS = set("""
    tn_requires_grad tn_is_leaf tn_get_deterministic tn_device_count tn_device_current tn_device_is_same tn_device_format
    tn_stream_is_capturing tn_tensor_is_contiguous tn_is_pinned tn_module_failed tn_module_set_requires_grad tn_node_register_hook
    tn_module_is_parametrized tn_is_pruned tn_item_bool tn_events_scalar tn_events_flush tn_events_destroy
""".split())
PROGRAM = r"""
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
@INCLUDES@

#define TELL(...) (printf(__VA_ARGS__), fflush(stdout))

static int is_forked;
static tn_context *v_tn_context;
static tn_scope *v_tn_scope, *good;
static tn_tensor *v_tn_tensor;
static tn_stream *v_tn_stream;
static tn_event *v_tn_event;
static tn_generator *v_tn_generator;
static tn_memory_pool *v_tn_memory_pool;
static tn_graph *v_tn_graph;
static tn_module *v_tn_module;
static tn_optimizer *v_tn_optimizer;
static tn_average *v_tn_average;
static tn_grad_scaler *v_tn_grad_scaler;
static tn_dataset *v_tn_dataset;
static tn_loader *v_tn_loader;
static tn_file *v_tn_file;
static tn_pt *v_tn_pt;
static tn_safetensors *v_tn_safetensors;
static tn_events *v_tn_events;
static tn_progress *v_tn_progress;
static tn_node *v_tn_node;
static tn_tensors v_tn_tensors;
static tn_named_tensors v_tn_named_tensors;
static _Alignas(64) unsigned char room[65536], zeros[4096]; /* for whatever an argument points to */

static void called(void)
{
    TELL("called a function of the program\n");
    _exit(9);
}

/* What a call may change. */
static uint64_t state(void)
{
    uint64_t sum = 14695981039346656037u;
#define MIX(memory, bytes) \
    for (size_t i_ = 0; i_ < (size_t)(bytes); i_++) sum = (sum ^ ((const uint8_t *)(memory))[i_]) * 1099511628211u
    tn_tensor *tensors[16] = {v_tn_tensor, tn_module_tensor(v_tn_module, "a.weight"), tn_module_tensor(v_tn_module, "a.bias")};
    int n = 3;
    tn_scope *s = tn_scope_open(v_tn_context);
    for (int i = 1; i < 3; i++) tensors[n++] = tn_grad_of(s, tensors[i]);
    tn_named_tensors means = tn_average_tensors(s, v_tn_average), of = tn_optimizer_tensors(s, v_tn_optimizer);
    for (int64_t i = 0; i < means.count; i++) tensors[n++] = means.data[i].tensor;
    for (int64_t i = 0; i < of.count && n < 16; i++) tensors[n++] = of.data[i].tensor;
    for (int i = 0; i < n; i++) {
        double values[64] = {0};
        const uint64_t version = tn_tensor_version(tensors[i]);
        tn_to_host(s, tensors[i], values, (uint64_t)(tn_tensor_numel(tensors[i]) * tn_dtype_bytes(tn_tensor_dtype(tensors[i]))));
        MIX(values, sizeof values);
        MIX(&version, 8);
    }
    if (tn_scope_failed(s)) TELL("state: %s\n", tn_scope_error(s)->message), _exit(2);
    tn_scope_close(s);
    tn_generator_state g = {.size = sizeof g};
    tn_grad_scaler_state k = {.size = sizeof k};
    tn_loader_state l = {.size = sizeof l};
    tn_generator_get_state(v_tn_generator, &g);
    tn_grad_scaler_get_state(v_tn_grad_scaler, &k);
    tn_loader_get_state(v_tn_loader, &l);
    MIX(&g, sizeof g);
    MIX(&k, sizeof k);
    MIX(&l, sizeof l);
    tn_events_flush(v_tn_events);
    DIR *d = opendir(".");
    int entries = 0;
    for (struct dirent *e; (e = readdir(d));) entries++;
    closedir(d);
    MIX(&entries, sizeof entries);
    d = opendir("events");
    for (struct dirent *e; (e = readdir(d));) {
        char path[300];
        snprintf(path, sizeof path, "events/%s", e->d_name);
        int f = open(path, O_RDONLY);
        const int64_t bytes = e->d_name[0] == '.' ? 0 : lseek(f, 0, SEEK_END);
        close(f);
        MIX(&bytes, 8);
    }
    closedir(d);
    return sum;
}

@CASES@

static const struct {
    const char *name;
    void (*run)(void);
    int returns_status;
} cases[] = {@TABLE@};

static int32_t given; /* the status of a call */

@DEFINITIONS@

static int make(void)
{
    if (tn_context_create(&(tn_context_options){.size = sizeof(tn_context_options)}, &v_tn_context)) return 1;
    good = tn_scope_open(v_tn_context);
    v_tn_tensor = tn_ones(good, TN_INTS(4, 4));
    v_tn_generator = tn_default_generator(v_tn_context, TN_CPU);
    v_tn_module = tn_module_create(v_tn_context, "m", NULL);
    tn_linear_create(v_tn_module, "a", 4, 4);
    v_tn_optimizer = tn_adamw_create(v_tn_module);
    v_tn_average = tn_average_create(v_tn_module, 0.5);
    v_tn_grad_scaler = tn_grad_scaler_create(v_tn_context, NULL);
    v_tn_dataset = tn_tensor_dataset_create(good, TN_TENSORS(v_tn_tensor));
    v_tn_loader = tn_loader_create(v_tn_dataset, .batch = 2, .workers = is_forked * 2);
    v_tn_tensors = tn_module_parameters(good, v_tn_module);
    v_tn_named_tensors = tn_module_tensors(good, v_tn_module, TN_STATE);
    tn_tensor *loss = tn_sum(good, tn_mm(good, v_tn_tensor, tn_module_tensor(v_tn_module, "a.weight")));
    loss = tn_add(good, loss, tn_sum(good, tn_module_tensor(v_tn_module, "a.bias")));
    tn_backward(good, loss);
    tn_optimizer_step(good, v_tn_optimizer);
    tn_average_update(good, v_tn_average);
    v_tn_node = tn_grad_fn(loss);
    tn_module_save(v_tn_module, "kept.safetensors");
    tn_pt_save(good, "kept.pt", v_tn_named_tensors);
    tn_npy_save(good, "kept.npy", v_tn_tensor);
    if (tn_file_open(v_tn_context, "kept.safetensors", &v_tn_file)) return 2;
    if (tn_pt_open(v_tn_context, "kept.pt", &v_tn_pt)) return 3;
    if (tn_safetensors_open(v_tn_context, "kept.safetensors", &v_tn_safetensors)) return 4;
    if (tn_events_create("events", &v_tn_events)) return 5;
    if (is_forked) {
        v_tn_progress = tn_progress_create("p", 3);
        if (tn_stream_create(v_tn_context, TN_CPU, 0, &v_tn_stream)) return 6;
        if (tn_event_create(v_tn_context, TN_CPU, 0, &v_tn_event)) return 7;
        tn_loader_next(good, v_tn_loader);
    }
    v_tn_scope = tn_scope_open(v_tn_context);
    if (tn_scope_failed(good)) return TELL("%s\n", tn_scope_error(good)->message), 8;
    if (!v_tn_dataset || !v_tn_loader || !v_tn_average || tn_module_failed(v_tn_module)) return 9;
    *(uint32_t *)room = 64;
    return 0;
}

static int fails(int i)
{
    if (is_forked) {
        alarm(10);
        given = TN_E_FORKED;
        cases[i].run();
        /* A fault of the arguments may be found first. */
        if (cases[i].returns_status && (!given || given == TN_E_STATE))
            return TELL("%s: returns %d\n", cases[i].name, given), 1;
        return 0;
    }
    tn_scope_fail(v_tn_scope, TN_E_UNSUPPORTED, "first");
    const uint64_t before = state();
    alarm(10);
    cases[i].run();
    if (memcmp(zeros, (char[sizeof zeros]){0}, sizeof zeros)) return TELL("%s: does not return 0\n", cases[i].name), 1;
    if (cases[i].returns_status && given != TN_E_UNSUPPORTED) return TELL("%s: returns %d\n", cases[i].name, given), 1;
    if (tn_scope_failed(v_tn_scope) != TN_E_UNSUPPORTED || strcmp(tn_scope_error(v_tn_scope)->message, "first"))
        return TELL("%s: another error\n", cases[i].name), 1;
    if (state() != before) return TELL("%s: changes something\n", cases[i].name), 1;
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0, count = (int)(sizeof cases / sizeof *cases);
    is_forked = argc > 1 && !strcmp(argv[1], "forked");
    int wrong = is_forked ? make() : 0;
    if (wrong) return printf("the objects were not made: %d %s\n", wrong, tn_last_error() ? tn_last_error()->message : ""), 1;
    for (int i = 0; i < count; i++) {
        int status = 0;
        fflush(stdout);
        pid_t child = fork();
        if (!child) {
            if (is_forked) _exit(fails(i));
            if (chdir("..") || mkdtemp(strcpy((char *)room, "of_XXXXXX")) == NULL || chdir((char *)room)) _exit(2);
            memset(room, 0, 16);
            if ((wrong = make())) TELL("the objects were not made: %d %s\n", wrong, tn_last_error() ? tn_last_error()->message : ""), _exit(2);
            _exit(fails(i));
        }
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && !WEXITSTATUS(status)) continue;
        if (WIFSIGNALED(status)) printf("%s: signal %d\n", cases[i].name, WTERMSIG(status));
        else if (WEXITSTATUS(status) != 1) printf("%s: exit status %d\n", cases[i].name, WEXITSTATUS(status));
        failed++;
    }
    printf("%d passed, %d failed, 0 skipped\n", count - failed, failed);
    return failed != 0;
}
"""


OBJECTS = ("tn_context tn_scope tn_tensor tn_stream tn_event tn_generator tn_memory_pool tn_graph tn_module tn_optimizer tn_average "
           "tn_grad_scaler tn_dataset tn_loader tn_file tn_pt tn_safetensors tn_events tn_progress tn_node").split()
FUNCTIONS = ("tn_tensors_fn tn_closure tn_next_input tn_check_fn tn_tensor_hook tn_accumulate_hook tn_multi_hook_fn tn_node_hook "
             "tn_sample_function tn_workers_open tn_distance_function").split()


# Made by none of the calls here.
ABSENT = "tn_communicator tn_call_trace tn_function_call tn_workers tn_call tn_boxed tn_memory_pool tn_graph".split()


def value(parameter):
    """An argument that fits a parameter."""
    if "(*" in parameter:
        return "(void *)called"
    match = re.match(r"(?:const )?(?:struct )?(\w+) \*(?!\*)(?!const)", parameter)
    if match and match[1] in OBJECTS:
        return f"v_{match[1]}"
    if re.match(r"const char \*(?!\*|const)", parameter):
        return '"kept.npy"' if "path" in parameter else '"a.weight"'
    if "*" in parameter or "[" in parameter:
        return "(void *)room"
    type_name = " ".join(w for w in re.sub(r"\b\w+$", "", parameter).split() if w != "const")
    if type_name in FUNCTIONS:
        return "(void *)called"
    if type_name in ("tn_tensors", "tn_named_tensors"):
        return f"v_{type_name}"
    values = {"tn_ints": "TN_INTS(4, 4)", "tn_value": "tn_value_int(1)", "tn_device": "TN_CPU", "tn_dtype": "TN_FLOAT32"}
    if type_name in values:
        return values[type_name]
    return "1" if re.match(r"u?int\d+_t|double|float|int|size_t", type_name) else f"({type_name}){{0}}"


def is_for_fork(parameters):
    """Whether a function takes objects, and only those that the program has."""
    handles = [re.match(r"(?:const )?(tn_\w+) \*(?!\*|const)", p) for p in parameters]
    names = [m[1] for m in handles if m]
    return bool(set(names) & set(OBJECTS)) and not set(names) & set(ABSENT)


def body(mode, result, name, parameters):
    call = f"{name}({', '.join('%s' % value(p) for p in parameters if p != '...')})"
    if result == "void":
        return f"{call};"
    if result == "int32_t":
        return f"given = {call};"
    if mode == "forked" and "*" in result and re.match("tn_(context|scope) ", parameters[0]):
        return f"given = {call} ? TN_OK : TN_E_FORKED;"
    return f"{result} out_ = {call}; memcpy(zeros, &out_, sizeof out_);"


def main():
    mode, library, compiler, *folders = sys.argv[1:]
    compiler = compiler.split("|")
    includes, table, definitions, declarations = [], [], [], []
    for folder in folders:
        for header in sorted((Path(folder) / "tenon").glob("*.h")):
            name = header.stem
            if name in ("ops", "place", "plugin", "op_numbers", "typed_call", "kernel", "plain_kernels", "worker", "device_kernel", "op", "nn_layers"):
                continue
            includes.append(f"#include <tenon/{name}.h>")
            for result, function, parameters in functions(header.parent, name):
                result = OTHER_RESULTS.get(function, result)
                on_scope = any(re.match(r"tn_scope \*", p) for p in parameters)
                if mode == "failed" and (not on_scope or function in OF_SCOPES):
                    continue
                if mode == "forked" and (function == "tn_module_apply" or not is_for_fork(parameters)):
                    continue
                status = result == "int32_t" or (mode == "forked" and "*" in result)
                status = status and (mode != "forked" or function not in NO_STATUS)
                i = len(table)
                declarations.append(f"static void case_{i}(void);")
                definitions.append(f"static void case_{i}(void)\n{{\n    {body(mode, result, function, parameters)}\n}}")
                table.append(f'{{"{function}", case_{i}, {int(status)}}}')
    if len(table) < 100:
        sys.exit(f"only {len(table)} functions were found in the headers")
    source = PROGRAM.replace("@INCLUDES@", "\n".join(includes)).replace("@CASES@", "\n".join(declarations))
    source = source.replace("@TABLE@", ",\n    ".join(table)).replace("@DEFINITIONS@", "\n".join(definitions))
    with tempfile.TemporaryDirectory() as folder:
        path, program, work = Path(folder) / "calls.c", Path(folder) / "calls", Path(folder) / "work"
        work.mkdir()
        path.write_text(source)
        libraries = [library, str(Path(library).parent / "libtenon.so")]
        subprocess.run([*compiler, "-w", "-Werror=implicit-function-declaration", "-std=c17", "-D_GNU_SOURCE", *[f"-I{f}" for f in folders], str(path), "-o", str(program),
                        *libraries, f"-Wl,-rpath,{Path(library).resolve().parent}"], check=True)
        return subprocess.run([str(program), mode], cwd=work).returncode


if __name__ == "__main__":
    sys.exit(main())
