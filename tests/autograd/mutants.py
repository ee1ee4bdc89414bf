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

# Of a file of autograd/ and its tests: (what is forgotten, text, replacement, the test that runs first).
MUTANTS = {
    "checkpoint": [
        ("the second run: casts", "tni_tls.excluded_layers = c->excluded_layers;", "", "casts_and_makes_tensors_as_in_forward"),
        ("the second run: regions of casts", ".autocast = TN_SCOPE_AUTOCAST_OFF};", "};", "casts_and_makes_tensors_as_in_forward"),
        ("the second run: regions inside others", "a->enabled ? TN_SCOPE_AUTOCAST_ON : TN_SCOPE_AUTOCAST_OFF",
         "TN_SCOPE_AUTOCAST_ON", "casts_and_makes_tensors_as_in_forward"),
        ("the second run: the default dtype", ".default_dtype = c->default_dtype,", "", "casts_and_makes_tensors_as_in_forward"),
        ("the second run: gradients are recorded", ".grad_mode = TN_GRAD_ON,", "", "gives_the_gradients_of_the_plain_call"),
        ("the second run: the random numbers", "c->random.replays = 1;", "", "draws_the_same_random_numbers"),
        ("random numbers are noted", "if (!c->options.any_random_state) own->head.random = &c->random;", "", "draws_the_same_random_numbers"),
        ("other random numbers", "if (!status && c->random.is_short)\n        status = tni_scope_record(\n", "if (0)\n        status = tni_scope_record(\n",
         "notices_a_function_that_does_something_else"),
        ("the grad mode of the program", "tn_set_grad_mode(mode);", "(void)mode;", "leaves_the_grad_mode_as_it_was"),
        ("inputs want gradients", "if (in->requires_grad) status = tn_set_requires_grad(leaves[i], 1);", "",
         "gives_the_gradients_of_the_plain_call"),
        ("an input that was written", "if (tn_tensor_version(in->tensor) != in->version)", "if (0)", "notices_what_was_written"),
        ("a saved tensor that was written", "    if (now != p->version) {", "    if (0) {", "notices_what_was_written"),
        ("another number of tensors", "if (!status && c->filled != c->places.count)", "if (0)",
         "notices_a_function_that_does_something_else"),
        ("another shape", "if (p && !p->is_gone && !is_like(p, t)) {", "if (0) {", "notices_a_function_that_does_something_else"),
        ("what the first run saved", "    for (uint32_t i = 1; i <= c->places.count; i++) empty_place(c, i, 0);\n", "",
         "keeps_the_inputs_and_outputs_alone"),
        ("a function that runs backward", "p->tensor = tn_retain(t); /* for backward", "(void)0; /* for backward", "may_run_backward_inside"),
        ("what was read goes where the graph stays", "if (hooks.pack == keep_place) own->read = leave_place;", "",
         "runs_again_for_each_backward_run_that_keeps_the_graph"),
        ("one run for all that backward reads", "if (!p->tensor && run_again(c, s))", "if (run_again(c, s))",
         "gives_the_gradients_of_the_plain_call"),
        ("intermediate tensors go with the call", "status = call(c, inner, inputs, outs,", "status = call(c, s, inputs, outs,",
         "keeps_the_inputs_and_outputs_alone"),
        ("what the graph has let go of", "    tn_tensor *t = p->tensor;\n", "    tn_tensor *t = NULL;\n", "gives_the_gradients_of_the_plain_call"),
        ("the user's data", "if (c->options.destroy) c->options.destroy(c->user);", "", "gives_the_gradients_of_the_plain_call"),
        ("the user's data after wrong arguments", "if (o.destroy) o.destroy(user);", "", "refuses_wrong_arguments"),
    ],
    "functional": [
        ("results without a history", "tn_tensor *result = t && !p->o.create_graph ? tn_detach(p->s, t) : t;", "tn_tensor *result = t;",
         "jacobian"),
        ("results with a history", ".create_graph = create_graph,", "", "are_differentiable_themselves"),
        ("inputs that are followed", "int32_t follows = p->o.create_graph && tni_wants_grad(t);", "int32_t follows = 0;",
         "are_differentiable_themselves"),
        ("constant outputs", "if (tni_wants_grad(roots.data[i])) {", "if (1) {", "of_outputs_that_do_not_depend"),
        ("a strict caller: constant outputs", "} else if (p->o.strict) {", "} else if (0) {", "of_outputs_that_do_not_depend"),
        ("a strict caller: inputs without a way", "        if (p->o.strict)\n", "        if (0)\n", "of_outputs_that_do_not_depend"),
        ("the place of a row", "all[j * elements + e] = grads[j];", "all[e * n + j] = grads[j];", "jacobian"),
        ("the order of the results", "rows + i * p.inputs.count))", "rows + i))", "jacobian"),
        ("the sizes of vectors", "int32_t check_vectors(const point *p, tn_tensors v, tn_tensors like, const char *of)\n{",
         "int32_t check_vectors(const point *p, tn_tensors v, tn_tensors like, const char *of)\n{\n    if (v.data) return TN_OK;", "refusals"),
        ("the vector of a product", "weights[n++] = v.data ? v.data[i] : NULL;", "weights[n++] = NULL;", "products_with_the_jacobian"),
        ("the side of a Hessian's product", "return gradient(p, (tn_tensors){from_the_left, p->inputs.count}, weights, v, p->o.create_graph, out);",
         "return gradient(p, weights, weights, v, p->o.create_graph, out);", "products_with_the_jacobian"),
    ],
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--of", choices=MUTANTS, required=True)
    parser.add_argument("--only", default="", help="mutants whose description contains this")
    o = parser.parse_args()
    mutants = [(what, f"autograd/{o.of}.c", old, new, f"{o.of}/{test}") for what, old, new, test in MUTANTS[o.of] if o.only in what]
    return mutation.hunt_library(o.build.resolve(), o.program, os.environ, mutants)


if __name__ == "__main__":
    sys.exit(main())
