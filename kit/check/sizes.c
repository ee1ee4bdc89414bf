/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 1, sizes: rows and sums that are longer than any block or loop of a kernel, and more dimensions than the other
 * cases have. What goes wrong has little to do with dtypes: all are of float32. Sums are of multiples of 1/16,
 * so they do not round in any order.
 */
#include "sources.h"
#include "words.h"

#include <stdio.h>

static const struct {
    const char *op, *name, *arguments;
} calls[] = {
    {"aten::mm", "deep", "q3,1031 q1031,5"},
    {"aten::mm", "wide", "q2,7 q7,2053"},
    {"aten::mm", "tall", "q1025,7 q7,3"},
    {"aten::bmm", "deep", "q2,3,1031 q2,1031,5"},
    {"aten::bmm", "many", "q300,3,4 q300,4,2"},
    {"aten::addmm", "deep", "q3,5 q3,1031 q1031,5 s1 s1"},
    {"aten::sum", "long", "q300001 -"},
    {"aten::sum.dim_IntList", "long", "q3,70001 i1 b0 -"},
    {"aten::sum.dim_IntList", "outer", "q5003,3 i0 b0 -"},
    {"aten::sum.dim_IntList", "two-of-four", "q7,6,5,4 i0,2 b0 -"},
    {"aten::amax", "long", "q3,70001 i1 b0"},
    {"aten::argmax", "long", "x3,70001 n1 b0"},
    {"aten::cumsum", "long", "q3,5003 n1 -"},
    {"aten::cumsum", "outer", "q5003,3 n0 -"},
    {"aten::sort.stable", "long", "q3,5003 b1 n1 b0"},
    {"aten::topk", "long", "x3,3001 n7 n1 b1 b1"},
    {"aten::nonzero", "long", "q70001"},
    {"aten::gather", "long", "x5,3001 n0 z4,3001 b0"},
    {"aten::scatter_add_", "long", "q5,3001 n0 z4,3001 q4,3001"},
    {"aten::index_select", "long", "x40,500 n0 z600"},
    {"aten::embedding", "long", "x100,33 z2,3,40 n-1 b0 b0"},
    {"aten::cat", "long", "c200,300 n1"},
    {"aten::_softmax", "long", "x3,3001 n-1 b0"},
    {"aten::_softmax", "inner", "x2,1500,3 n1 b0"},
    {"aten::_softmax", "four-dimensions", "x2,3,4,5 n1 b0"},
    {"aten::_log_softmax", "long", "x3,3001 n-1 b0"},
    {"aten::_log_softmax", "inner", "x2,1500,3 n1 b0"},
    {"aten::_log_softmax", "four-dimensions", "x2,3,4,5 n1 b0"},
    {"aten::_softmax_backward_data", "long", "x3,3001 p3,3001 n-1 e"},
    {"aten::_log_softmax_backward_data", "long", "x3,3001 x3,3001 n-1 e"},
    {"aten::logsumexp", "long", "x3,3001 i1 b0"},
    {"aten::native_layer_norm", "long", "x3,3001 i3001 x3001 x3001 f.001"},
    {"aten::native_layer_norm", "two-of-four", "x2,3,40,50 i40,50 x40,50 x40,50 f.001"},
    {"aten::rms_norm", "long", "x3,3001 i3001 x3001 f.001"},
    {"aten::native_group_norm", "long", "x2,6,1500 x6 x6 n2 n6 n1500 n3 f.001"},
    {"aten::native_batch_norm", "long", "x4,3,1500 x3 x3 x3 p3 b0 f.1 f.001"},
    {"aten::scaled_dot_product_attention", "long", "x2,3,130,72 x2,3,150,72 x2,3,150,72 - f0 b0 f.1"},
};

static void run(check_target *t, const check_case *c, check_result *out)
{
    words w = {.dtype = TN_FLOAT32};
    call_plan p = {.op = tn_operator_find(t->ctx, calls[c->number].op),
                   .name = calls[c->number].op,
                   .seed = check_seed(t, c),
                   .tolerance = {.rtol = -1}};
    words_write(&w, &p, calls[c->number].arguments);
    call_compare(t, &p, out);
}

void check_size_cases(check_target *t, check_list *list)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        uint32_t op = tn_operator_find(t->ctx, calls[i].op);
        if (!op || !check_has_kernel(t, op, t->type, TN_FLOAT32)) continue;
        check_add(list,
                  &(check_case){.tier = 1, .tags = CHECK_TAG_OPTIONAL, .run = run, .number = (int64_t)i},
                  "1/sizes/%s/%s", calls[i].op, calls[i].name);
    }
}
