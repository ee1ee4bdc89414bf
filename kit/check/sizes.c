/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tier 1, sizes: rows, sums and products that are longer than blocks and loops of kernels mostly are, no dimension and
 * more of them than the other cases have, and large integers. What goes wrong with long tensors has little to do with
 * dtypes: nearly all are of float32. Sums are of multiples of 1/16, so they do not round in any order, except where a
 * case is about rounding.
 */
#include "sources.h"
#include "words.h"

static const struct {
    const char *op, *name, *arguments;
    tn_dtype of;    /* dtype of the kernel; 0: float32 */
    tn_dtype other; /* of the tensors that are not of words z and w; 0: the same */
} calls[] = {
    {"aten::add.Tensor", "long", "q1100003 q1100003 n1", 0, 0},
    {"aten::exp", "long", "x1100003", 0, 0},
    {"prim::copy", "long", "q1100003 q1100003", 0, 0},
    {"prim::fill", "long", "q1100003 f1.5", 0, 0},
    {"prim::random", "long", "x200003 n0 f-1 f2 n123456789012345 n7", 0, 0},
    {"aten::mm", "deep", "q3,20011 q20011,5", 0, 0},
    {"aten::mm", "deeper", "k2,70001 l70001,3", 0, 0},
    {"aten::mm", "wide", "q2,7 q7,2053", 0, 0},
    {"aten::mm", "tall", "q1025,7 q7,3", 0, 0},
    {"aten::bmm", "deep", "q2,3,1031 q2,1031,5", 0, 0},
    {"aten::bmm", "many", "q300,3,4 q300,4,2", 0, 0},
    {"aten::addmm", "deep", "q3,5 q3,1031 q1031,5 s1 s1", 0, 0},
    {"aten::sum", "long", "q1100003 -", 0, 0},
    {"aten::sum.dim_IntList", "long", "q3,70001 i1 b0 -", 0, 0},
    {"aten::sum.dim_IntList", "outer", "q5003,3 i0 b0 -", 0, 0},
    {"aten::sum.dim_IntList", "two-of-four", "q7,6,5,4 i0,2 b0 -", 0, 0},
    {"aten::amax", "long", "q3,70001 i1 b0", 0, 0},
    {"aten::argmax", "long", "x3,1100003 n1 b0", 0, 0},
    {"aten::cumsum", "long", "q2,20011 n1 -", 0, 0},
    {"aten::cumsum", "outer", "q5003,3 n0 -", 0, 0},
    {"aten::sort.stable", "long", "q2,40009 b1 n1 b0", 0, 0},
    {"aten::topk", "long", "x3,3001 n7 n1 b1 b1", 0, 0},
    {"aten::nonzero", "long", "q70001", 0, 0},
    {"aten::gather", "long", "x70001 n0 z66003:70001 b0", 0, 0},
    {"aten::gather", "four-dimensions", "x3,4,5,2 n2 z3,4,3,2:5 b0", 0, 0},
    {"aten::scatter_add_", "long", "q5,30011 n0 z3,30011:5 q3,30011", 0, 0},
    {"aten::scatter_add_", "four-dimensions", "q3,4,5,2 n2 z3,4,3,2:5 q3,4,4,2", 0, 0},
    {"aten::index_select", "long", "x40,500 n0 z600:40", 0, 0},
    {"aten::embedding", "long", "x100,33 z2,3,40:100 n-1 b0 b0", 0, 0},
    {"aten::cat", "long", "c200,300 n1", 0, 0},
    {"aten::_softmax", "long", "x2,20011 n-1 b0", 0, 0},
    {"aten::_softmax", "many", "x1031,7 n1 b0", 0, 0},
    {"aten::_softmax", "inner", "x2,1500,3 n1 b0", 0, 0},
    {"aten::_softmax", "four-dimensions", "x2,3,4,5 n1 b0", 0, 0},
    {"aten::_log_softmax", "long", "x2,20011 n-1 b0", 0, 0},
    {"aten::_log_softmax", "many", "x1031,7 n1 b0", 0, 0},
    {"aten::_log_softmax", "inner", "x2,1500,3 n1 b0", 0, 0},
    {"aten::_log_softmax", "four-dimensions", "x2,3,4,5 n1 b0", 0, 0},
    {"aten::_softmax_backward_data", "long", "x3,3001 p3,3001 n-1 e", 0, 0},
    {"aten::_log_softmax_backward_data", "long", "x3,3001 x3,3001 n-1 e", 0, 0},
    {"aten::logsumexp", "long", "x3,3001 i1 b0", 0, 0},
    {"aten::native_layer_norm", "long", "x3,3001 i3001 x3001 x3001 f.001", 0, 0},
    {"aten::native_layer_norm", "two-of-four", "x2,3,40,50 i40,50 x40,50 x40,50 f.001", 0, 0},
    {"aten::rms_norm", "long", "x3,3001 i3001 x3001 f.001", 0, 0},
    {"aten::native_group_norm", "long", "x2,6,1500 x6 x6 n2 n6 n1500 n3 f.001", 0, 0},
    {"aten::native_batch_norm", "long", "x4,3,1500 x3 x3 x3 p3 b0 f.1 f.001", 0, 0},
    {"aten::scaled_dot_product_attention", "long", "x2,3,130,72 x2,3,150,72 x2,3,150,72 - f0 b0 f.1", 0, 0},
    /* One element behind a multiple of what loops take at once. */
    {"aten::add.Tensor", "tail", "p4097 p4097 n1", 0, 0},
    {"aten::exp", "tail", "x4097", 0, 0},
    {"prim::copy", "tail", "p4097 p4097", 0, 0},
    {"aten::add.Tensor", "fine-alpha", "x33 x33 s.1", 0, 0},
    /* What beta 0 does not read; variances far from 0. */
    {"aten::addmm", "beta-0", "u3,4 p3,7 p7,4 s0 s1", 0, 0},
    {"aten::baddbmm", "beta-0", "u2,3,4 p2,3,7 p2,7,4 s0 s1", 0, 0},
    {"aten::native_layer_norm", "offset", "j3,301 i301 x301 x301 f.001", 0, 0},
    {"aten::native_group_norm", "offset", "j2,6,50 x6 x6 n2 n6 n50 n3 f.001", 0, 0},
    {"aten::native_batch_norm", "offset", "j4,3,50 x3 x3 x3 p3 b1 f.1 f.001", 0, 0},
    {"aten::var.correction", "offset", "j3,301 i1 n1 b0", 0, 0},
    /* Windows whose numbers differ in the two dimensions, equal elements, NaN. */
    {"aten::max_pool2d_with_indices", "general", "q2,3,9,11 i3,2 i2,3 i1,0 i1,2 b0", 0, 0},
    {"aten::max_pool2d_with_indices", "ceil", "x2,3,9,11 i3,2 i2,3 i1,1 i1,1 b1", 0, 0},
    {"aten::max_pool2d_with_indices", "special", "a2,3,6,7 i3,2 i2,2 i1,1 i1,1 b0", 0, 0},
    {"aten::avg_pool2d", "general", "x2,3,9,11 i3,2 i2,3 i1,1 b0 b1", 0, 0},
    /* Indices of int32. */
    {"aten::embedding", "int32", "x10,7 y3,4:10 n-1 b0 b0", 0, 0},
    {"aten::index_select", "int32", "x10,7 n0 y5:10", 0, 0},
    /* Rows that are wholly masked. */
    {"aten::_softmax", "masked", "u3,4 n1 b0", 0, 0},
    {"aten::_log_softmax", "masked", "u3,4 n1 b0", 0, 0},
    {"aten::logsumexp", "masked", "u3,4 i1 b0", 0, 0},
    /* 0-dim. */
    {"aten::add.Tensor", "0-dim", "q q n1", 0, 0},
    {"aten::exp", "0-dim", "x", 0, 0},
    {"prim::copy", "0-dim", "x o", 0, 0},
    {"prim::fill", "0-dim", "q f1.5", 0, 0},
    {"aten::sum", "0-dim", "q -", 0, 0},
    {"aten::cumsum", "0-dim", "q n0 -", 0, 0},
    {"aten::sort.stable", "0-dim", "q b1 n0 b0", 0, 0},
    {"aten::_softmax", "0-dim", "x n0 b0", 0, 0},
    {"aten::_log_softmax", "0-dim", "x n-1 b0", 0, 0},
    /* What a sum in 16 bits would lose. */
    {"aten::mm", "float16", "p3,4099 p4099,5", TN_FLOAT16, 0},
    {"aten::mm", "bfloat16", "p3,4099 p4099,5", TN_BFLOAT16, 0},
    {"aten::bmm", "float16", "p2,3,4099 p2,4099,5", TN_FLOAT16, 0},
    {"aten::bmm", "bfloat16", "p2,3,4099 p2,4099,5", TN_BFLOAT16, 0},
    {"aten::addmm", "float16", "p3,5 p3,4099 p4099,5 s1 s1", TN_FLOAT16, 0},
    {"aten::addmm", "bfloat16", "p3,5 p3,4099 p4099,5 s1 s1", TN_BFLOAT16, 0},
    {"aten::sum", "float16", "p20011 -", TN_FLOAT16, 0},
    {"aten::sum", "bfloat16", "p20011 -", TN_BFLOAT16, 0},
    {"aten::sum.dim_IntList", "float16", "p3,20011 i1 b0 -", TN_FLOAT16, 0},
    {"aten::sum.dim_IntList", "bfloat16", "p3,20011 i1 b0 -", TN_BFLOAT16, 0},
    {"aten::_softmax", "float16", "x2,4099 n-1 b0", TN_FLOAT16, 0},
    {"aten::_log_softmax", "float16", "x2,4099 n-1 b0", TN_FLOAT16, 0},
    /* What is lost when only the sums of blocks are kept in 16 bits. */
    {"aten::mm", "float16-parts", "k3,20004 l20004,5", TN_FLOAT16, 0},
    {"aten::mm", "bfloat16-parts", "k3,20004 l20004,5", TN_BFLOAT16, 0},
    {"aten::bmm", "float16-parts", "k2,3,20004 l2,20004,5", TN_FLOAT16, 0},
    {"aten::bmm", "bfloat16-parts", "k2,3,20004 l2,20004,5", TN_BFLOAT16, 0},
    {"aten::addmm", "float16-parts", "p3,5 k3,20004 l20004,5 s1 s1", TN_FLOAT16, 0},
    {"aten::addmm", "bfloat16-parts", "p3,5 k3,20004 l20004,5 s1 s1", TN_BFLOAT16, 0},
    {"aten::sum", "float16-parts", "k20004 -", TN_FLOAT16, 0},
    {"aten::sum", "bfloat16-parts", "k20004 -", TN_BFLOAT16, 0},
    {"aten::sum.dim_IntList", "float16-parts", "k3,20004 i1 b0 -", TN_FLOAT16, 0},
    {"aten::sum.dim_IntList", "bfloat16-parts", "k3,20004 i1 b0 -", TN_BFLOAT16, 0},
    /* What a sum of float32 loses that adds one element after the other. */
    {"aten::sum", "rounding", "p1100003 -", 0, 0},
    {"aten::sum.dim_IntList", "rounding", "p2,1100003 i1 b0 -", 0, 0},
    {"aten::mean", "rounding", "p1100003 -", 0, 0},
    /* Factors of float32 that 10 bits do not hold, and sums that only float64 holds. */
    {"aten::mm", "fine", "p9,7 p7,5", 0, 0},
    {"aten::bmm", "fine", "p2,9,7 p2,7,5", 0, 0},
    {"aten::addmm", "fine", "p9,5 p9,7 p7,5 s1 s1", 0, 0},
    {"aten::baddbmm", "fine", "p2,9,5 p2,9,7 p2,7,5 s1 s1", 0, 0},
    {"aten::mm", "float64", "g3,4098 l4098,5", TN_FLOAT64, 0},
    {"aten::bmm", "float64", "g2,3,4098 l2,4098,5", TN_FLOAT64, 0},
    {"aten::addmm", "float64", "p3,5 g3,4098 l4098,5 s1 s1", TN_FLOAT64, 0},
    {"aten::sum", "float64", "g4098 -", TN_FLOAT64, 0},
    {"aten::sum.dim_IntList", "float64", "g3,4098 i1 b0 -", TN_FLOAT64, 0},
    {"aten::cumsum", "float64", "g3,4098 n1 -", TN_FLOAT64, 0},
    /* Beyond what 32 bits and doubles hold. */
    {"aten::add.Tensor", "int64", "w5,33 w5,33 n1", TN_INT64, 0},
    {"aten::add.Tensor", "alpha", "z5,33 z5,33 n4294967299", TN_INT64, 0},
    {"aten::sub.Tensor", "int64", "w5,33 w5,33 n1", TN_INT64, 0},
    {"aten::neg", "int64", "w5,33", TN_INT64, 0},
    {"aten::abs", "int64", "w5,33", TN_INT64, 0},
    {"aten::relu", "int64", "w5,33", TN_INT64, 0},
    {"aten::where.self", "int64", "h5,33 w5,33 w5,33", TN_INT64, 0},
    {"aten::maximum", "int64", "w5,33 w5,33", TN_INT64, 0},
    {"aten::minimum", "int64", "w5,33 w5,33", TN_INT64, 0},
    {"aten::eq.Tensor", "int64", "w18,1 w18", TN_INT64, 0},
    {"aten::ne.Tensor", "int64", "w18,1 w18", TN_INT64, 0},
    {"aten::lt.Tensor", "int64", "w18,1 w18", TN_INT64, 0},
    {"aten::le.Tensor", "int64", "w18,1 w18", TN_INT64, 0},
    {"aten::gt.Tensor", "int64", "w18,1 w18", TN_INT64, 0},
    {"aten::ge.Tensor", "int64", "w18,1 w18", TN_INT64, 0},
    {"aten::bitwise_and.Tensor", "int64", "w18,1 w18", TN_INT64, 0},
    {"aten::bitwise_or.Tensor", "int64", "w18,1 w18", TN_INT64, 0},
    {"aten::bitwise_xor.Tensor", "int64", "w18,1 w18", TN_INT64, 0},
    {"aten::bitwise_not", "int64", "w5,33", TN_INT64, 0},
    {"aten::sum", "int64", "w5,33 -", TN_INT64, 0},
    {"aten::sum.dim_IntList", "int64", "w5,33 i1 b0 -", TN_INT64, 0},
    {"aten::amax", "int64", "w5,7 i1 b0", TN_INT64, 0},
    {"aten::amin", "int64", "w5,7 i1 b0", TN_INT64, 0},
    {"aten::cumsum", "int64", "w5,33 n1 -", TN_INT64, 0},
    {"aten::mm", "int64", "w5,17 z17,7", TN_INT64, 0},
    {"aten::bmm", "int64", "w2,5,17 z2,17,7", TN_INT64, 0},
    {"aten::sort.stable", "int64", "w5,33 b1 n1 b0", TN_INT64, 0},
    {"aten::index_select", "int64", "w5,33 n1 z7:33", TN_INT64, 0},
    {"aten::gather", "int64", "w5,33 n1 z5,33:33 b0", TN_INT64, 0},
    {"aten::scatter_add_", "int64", "w5,33 n1 z5,33:33 w5,33", TN_INT64, 0},
    {"aten::nonzero", "int64", "w5,33", TN_INT64, 0},
    {"prim::fill", "int64", "w5,33 n9007199254740993", TN_INT64, 0},
    {"prim::copy", "int64", "z5,33 w5,33", TN_INT64, 0},
    {"prim::copy", "int64-to-int32", "x5,33 w5,33", TN_INT64, TN_INT32},
    {"prim::copy", "int64-to-float32", "x5,33 w5,33", TN_INT64, TN_FLOAT32},
    {"prim::copy", "int64-to-float64", "x5,33 w5,33", TN_INT64, TN_FLOAT64},
};

static void run(check_target *t, const check_case *c, check_result *out)
{
    const char *op = calls[c->number].op;
    tn_dtype of = calls[c->number].of ? calls[c->number].of : TN_FLOAT32, other = calls[c->number].other;
    words w = {.dtype = other ? other : of};
    call_plan p = {
        .op = tn_operator_find(t->ctx, op), .name = op, .seed = check_seed(t, c), .tolerance = {.rtol = -1}};
    words_write(&w, &p, calls[c->number].arguments);
    call_compare(t, &p, out);
}

void check_size_cases(check_target *t, check_list *list)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        uint32_t op = tn_operator_find(t->ctx, calls[i].op);
        tn_dtype of = calls[i].of ? calls[i].of : TN_FLOAT32;
        if (!op || !check_has_kernel(t, op, t->type, of) || (calls[i].of && !check_has_dtype(t, of)) ||
            (calls[i].other && !check_has_dtype(t, calls[i].other)))
            continue;
        check_add(list,
                  &(check_case){.tier = 1, .tags = CHECK_TAG_OPTIONAL, .run = run, .number = (int64_t)i},
                  "1/sizes/%s/%s", calls[i].op, calls[i].name);
    }
}
