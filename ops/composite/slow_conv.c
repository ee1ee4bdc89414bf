/* SPDX-License-Identifier: Apache-2.0 */
/* Composites: ATen's slow_conv operators, which are convolutions of one group, and gradients of conv_tbc. */
#include <string.h>
#include "ops/composite/composite.h"

#define MOST_DIMS 3

/* `value` for each dimension of the kernel. */
static tn_ints same_for_all(int64_t *list, int64_t dims, int64_t value)
{
    for (int64_t i = 0; i < dims; i++) list[i] = value;
    return (tn_ints){list, dims};
}

/* `lists` are the names of the arguments from 4 on, which are as long as kernel_size; NULL ends them. */
static int32_t has_kernel(tn_scope *s, const tn_value *args, const char *const *lists)
{
    tn_ints size = sizes_of(arg_tensor(args, 1)), kernel = arg_ints(args, 2);
    int64_t dims = kernel.count;
    if (dims > MOST_DIMS || size.count != dims + 2 ||
        memcmp(size.data + 2, kernel.data, (size_t)dims * sizeof *kernel.data) != 0) {
        tn_scope_fail(s, TN_E_SHAPE, "argument 'kernel_size': it must be the last sizes of 'weight'");
        return 0;
    }
    for (uint32_t i = 0; lists[i]; i++) {
        int64_t count = arg_ints(args, 4 + i).count;
        if (count == dims) continue;
        tni_scope_failf(s, TN_E_ARGUMENT, "It is expected %s equals to %lld, but got size %lld", lists[i],
                        (long long)dims, (long long)count);
        return 0;
    }
    return 1;
}

/* (self, weight, kernel_size, bias, stride, padding) */
void composite_conv_strided(tn_scope *s, const tn_value *args, tn_value *outs)
{
    int64_t ones[MOST_DIMS], zeros[MOST_DIMS], dims = arg_ints(args, 2).count;
    if (!has_kernel(s, args, (const char *const[]){"stride", "padding", NULL})) return;
    give(outs, 0,
         tn_convolution(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 3), arg_ints(args, 4),
                        arg_ints(args, 5), same_for_all(ones, dims, 1), 0, same_for_all(zeros, dims, 0), 1));
}

/* (self, weight, kernel_size, bias, stride, padding, dilation) */
void composite_conv_dilated(tn_scope *s, const tn_value *args, tn_value *outs)
{
    int64_t zeros[MOST_DIMS];
    if (!has_kernel(s, args, (const char *const[]){"stride", "padding", "dilation", NULL})) return;
    give(outs, 0,
         tn_convolution(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 3), arg_ints(args, 4),
                        arg_ints(args, 5), arg_ints(args, 6), 0,
                        same_for_all(zeros, arg_ints(args, 2).count, 0), 1));
}

/* (self, weight, kernel_size, bias, stride, padding, output_padding, dilation) */
void composite_conv_transposed(tn_scope *s, const tn_value *args, tn_value *outs)
{
    if (!has_kernel(s, args, (const char *const[]){"stride", "padding", "output_padding", "dilation", NULL}))
        return;
    give(outs, 0,
         tn_convolution(s, arg_tensor(args, 0), arg_tensor(args, 1), arg_tensor(args, 3), arg_ints(args, 4),
                        arg_ints(args, 5), arg_ints(args, 7), 1, arg_ints(args, 6), 1));
}

static tn_tensor *permuted(tn_scope *s, tn_tensor *t, tn_ints dims)
{
    return tn_contiguous(s, tn_permute(s, t, dims));
}

/* (self, input, weight, bias, pad), where self is the gradient of the result of conv_tbc. */
void composite_conv_tbc_backward(tn_scope *s, const tn_value *args, tn_value *outs)
{
    tn_ints reversed = TN_INTS(2, 1, 0), channels = TN_INTS(1, 2, 0), one = TN_INTS(1);
    const uint8_t all[3] = {1, 1, 1};
    tn_convolution_backward_result g = tn_convolution_backward(
        s, tn_permute(s, arg_tensor(args, 0), channels), tn_permute(s, arg_tensor(args, 1), channels),
        tn_permute(s, arg_tensor(args, 2), reversed), sizes_of(arg_tensor(args, 3)), one,
        TN_INTS(arg_int(args, 4)), one, 0, TN_INTS(0), 1, ((tn_bools){all, 3}));
    give(outs, 0, permuted(s, g.result0, TN_INTS(2, 0, 1)));
    give(outs, 1, permuted(s, g.result1, reversed));
    give(outs, 2, g.result2);
}
