/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of float32 that are quick enough to be repeated, one for each kind of kernel; words.h has the notation. */
#ifndef TENON_KIT_CHECK_SMALL_CALLS_H
#define TENON_KIT_CHECK_SMALL_CALLS_H

static const struct {
    const char *op, *arguments;
} check_small_calls[] = {
    {"aten::add.Tensor", "q64,512 q64,512 s1"},
    {"aten::exp", "x64,512"},
    {"aten::sum", "q64,512 -"},
    {"aten::sum.dim_IntList", "q64,512 i1 b0 -"},
    {"aten::cumsum", "q64,512 n1 -"},
    {"aten::gather", "q64,512 n1 z64,512 b0"},
    {"aten::scatter_add_", "q64,512 n1 z64,512 q64,512"},
    {"aten::mm", "q24,40 q40,24"},
    {"aten::bmm", "q4,16,24 q4,24,16"},
    {"prim::copy", "q64,512 q64,512"},
    {"aten::sort.stable", "q32,256 b1 n1 b0"},
    {"aten::nonzero", "q64,128"},
    {"aten::_softmax", "x64,128 n1 b0"},
    {"aten::native_layer_norm", "x64,128 i128 x128 x128 f.001"},
    {"aten::native_batch_norm", "x4,8,100 x8 x8 x8 p8 b0 f.1 f.001"},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", "x1,2,33,16 x1,2,40,16 x1,2,40,16 f0 b0 - f.1"},
};
#define CHECK_SMALL_CALLS (sizeof check_small_calls / sizeof *check_small_calls)

#endif
