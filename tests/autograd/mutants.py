#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Faults in checkpoints and in derivatives of functions, one by one: the tests of each find them.

    mutants.py --build BUILD --program TESTS --of checkpoint|functional [--only WORDS]
"""
import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True
import mutation  # noqa: E402

# Of a file of autograd/ and its tests, by the test that runs first: (what is forgotten, text, replacement).
MUTANTS = {
    "checkpoint": {
        "casts_and_makes_tensors_as_in_forward": [
            ("the second run: casts", "tni_tls.excluded_layers = c->excluded_layers;", ""),
            ("the second run: regions of casts", ".autocast = TN_SCOPE_AUTOCAST_OFF};", "};"),
            ("the second run: regions inside others", "a->enabled ? TN_SCOPE_AUTOCAST_ON : TN_SCOPE_AUTOCAST_OFF", "TN_SCOPE_AUTOCAST_ON"),
            ("the second run: the default dtype", ".default_dtype = c->default_dtype,", ""),
        ],
        "gives_the_gradients_of_the_plain_call": [
            ("the second run: gradients are recorded", ".grad_mode = TN_GRAD_ON,", ""),
            ("inputs want gradients", "if (in->requires_grad) status = tn_set_requires_grad(leaves[i], 1);", ""),
            ("one run for all that backward reads", "if (!p->tensor && run_again(c, s))", "if (run_again(c, s))"),
            ("what the graph has let go of", "    tn_tensor *t = p->tensor;\n", "    tn_tensor *t = NULL;\n"),
            ("the user's data", "if (c->options.destroy) c->options.destroy(c->user);", ""),
        ],
        "draws_the_same_random_numbers": [
            ("the second run: the random numbers", "c->random.replays = 1;", ""),
            ("random numbers are noted", "if (!c->options.any_random_state) own->head.random = &c->random;", ""),
        ],
        "notices_a_function_that_does_something_else": [
            ("other random numbers",
             "if (!status && c->random.is_short)\n        status = tni_scope_record(\n",
             "if (0)\n        status = tni_scope_record(\n"),
            ("another number of tensors", "if (!status && c->filled != c->places.count)", "if (0)"),
            ("another shape", "if (p && !p->is_gone && !is_like(p, t)) {", "if (0) {"),
        ],
        "leaves_the_grad_mode_as_it_was": [
            ("the grad mode of the program", "tn_set_grad_mode(mode);", "(void)mode;"),
        ],
        "notices_what_was_written": [
            ("an input that was written", "if (tn_tensor_version(in->tensor) != in->version)", "if (0)"),
            ("a saved tensor that was written", "    if (now != p->version) {", "    if (0) {"),
        ],
        "keeps_the_inputs_and_outputs_alone": [
            ("what the first run saved", "    for (uint32_t i = 1; i <= c->places.count; i++) empty_place(c, i, 0);\n", ""),
            ("intermediate tensors go with the call", "status = call(c, inner, inputs, outs,", "status = call(c, s, inputs, outs,"),
        ],
        "may_run_backward_inside": [
            ("a function that runs backward", "p->tensor = tn_retain(t); /* for backward", "(void)0; /* for backward"),
        ],
        "runs_again_for_each_backward_run_that_keeps_the_graph": [
            ("what was read goes where the graph stays", "if (hooks.pack == keep_place) own->read = leave_place;", ""),
        ],
        "refuses_wrong_arguments": [
            ("the user's data after wrong arguments", "if (o.destroy) o.destroy(user);", ""),
        ],
    },
    "functional": {
        "jacobian": [
            ("results without a history", "tn_tensor *result = t && !p->o.create_graph ? tn_detach(p->s, t) : t;", "tn_tensor *result = t;"),
            ("the place of a row", "all[j * elements + e] = grads[j];", "all[e * n + j] = grads[j];"),
            ("the order of the results", "rows + i * p.inputs.count))", "rows + i))"),
        ],
        "are_differentiable_themselves": [
            ("results with a history", ".create_graph = create_graph,", ""),
            ("inputs that are followed", "int32_t follows = p->o.create_graph && tni_wants_grad(t);", "int32_t follows = 0;"),
        ],
        "of_outputs_that_do_not_depend": [
            ("constant outputs", "if (tni_wants_grad(roots.data[i])) {", "if (1) {"),
            ("a strict caller: constant outputs", "} else if (p->o.strict) {", "} else if (0) {"),
            ("a strict caller: inputs without a way", "        if (p->o.strict)\n", "        if (0)\n"),
        ],
        "refusals": [
            ("the sizes of vectors",
             "int32_t check_vectors(const point *p, tn_tensors v, tn_tensors like, const char *of)\n{",
             "int32_t check_vectors(const point *p, tn_tensors v, tn_tensors like, const char *of)\n{\n    if (v.data) return TN_OK;"),
        ],
        "products_with_the_jacobian": [
            ("the vector of a product", "weights[n++] = v.data ? v.data[i] : NULL;", "weights[n++] = NULL;"),
            ("the side of a Hessian's product",
             "return gradient(p, (tn_tensors){from_the_left, p->inputs.count}, weights, v, p->o.create_graph, out);",
             "return gradient(p, weights, weights, v, p->o.create_graph, out);"),
        ],
    },
}


def mutants_of(file):
    """The table of a file as (what is forgotten, file, text, replacement, the test that runs first)."""
    return [(what, f"autograd/{file}.c", old, new, f"{file}/{test}") for test, mutants in MUTANTS[file].items()
            for what, old, new in mutants]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--of", choices=MUTANTS, required=True)
    parser.add_argument("--only", default="", help="mutants whose description contains this")
    o = parser.parse_args()
    return mutation.hunt_library(o.build.resolve(), o.program, os.environ, [m for m in mutants_of(o.of) if o.only in m[0]])


if __name__ == "__main__":
    sys.exit(main())
