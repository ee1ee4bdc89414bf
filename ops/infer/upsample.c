/* SPDX-License-Identifier: Apache-2.0 */
/* Upsampling to given sizes, and its gradient. Outputs follow the input's memory format. */
#include "ops/infer/infer.h"

static int32_t check_upsample(tni_frame *f, int64_t space, tn_ints output, const int64_t *input)
{
    if (output.count != space)
        return tni_fail(f, TN_E_ARGUMENT, "It is expected output_size equals to %lld, but got size %lld",
                        (long long)space, (long long)output.count);
    for (int64_t i = 0; i < space; i++) {
        if (output.data[i] <= 0 || input[i] <= 0)
            return tni_fail(f, TN_E_SHAPE,
                            "Input and output sizes should be greater than 0, but got input size %lld and "
                            "output size %lld in dimension %lld",
                            (long long)input[i], (long long)output.data[i], (long long)i);
    }
    return TN_OK;
}

/* Positions among the inputs are outputs divided by the given scale; kernels count them in 32-bit integers. With
 * align_corners, which then stands before the scales, kernels do not read them. */
static int32_t check_scales(tni_frame *f, int64_t space, tn_ints output)
{
    const double most = 0x1p31;
    uint32_t first = f->op->base->n_args - (uint32_t)space;
    if (f->args[first - 1].tag == TN_TAG_BOOL && tni_arg_bool(f, first - 1)) return TN_OK;
    for (int64_t i = 0; i < space; i++) {
        tn_value v = f->args[first + (uint32_t)i];
        double scale = v.tag == TN_TAG_NONE ? 0 : tn_value_as_float(v);
        if (scale > 0 && (double)output.data[i] / scale > most)
            return tni_fail(f, TN_E_ARGUMENT, "argument '%s': %g is too small for an output of size %lld",
                            f->op->base->schema->args[first + (uint32_t)i].name, scale,
                            (long long)output.data[i]);
    }
    return TN_OK;
}

int32_t infer_upsample(tni_frame *f)
{
    const tn_tensor *self = tni_arg_tensor(f, 0);
    int64_t space = tni_space_of(f), sizes[TN_MAX_RANK];
    tni_text text;
    if (rank_of(self) != space + 2)
        return tni_fail(f, TN_E_SHAPE, "It is expected input_size equals to %lld, but got size %u",
                        (long long)space + 2, self->desc.rank);
    TNI_TRY(check_upsample(f, space, tni_arg_ints(f, 1), sizes_of(self) + 2));
    TNI_TRY(check_scales(f, space, tni_arg_ints(f, 1)));
    if (sizes_of(self)[1] == 0)
        return tni_fail(f, TN_E_SHAPE, "Non-empty %lldD data tensor expected but got a tensor with sizes %s",
                        (long long)space + 2, tni_sizes_text(self, &text));
    tni_sized_space(f, self, 1, space, sizes);
    return tni_out_channels(f, 0, self, dtype_of(self), rank_of(self), sizes);
}

/* (grad_output, output_size, input_size, ...). */
int32_t infer_upsample_backward(tni_frame *f)
{
    const tn_tensor *grad = tni_arg_tensor(f, 0);
    tn_ints input = tni_arg_ints(f, 2);
    int64_t space = tni_space_of(f);
    if (input.count != space + 2)
        return tni_fail(f, TN_E_ARGUMENT, "It is expected input_size equals to %lld, but got size %lld",
                        (long long)space + 2, (long long)input.count);
    TNI_TRY(check_upsample(f, space, tni_arg_ints(f, 1), input.data + 2));
    TNI_TRY(check_scales(f, space, tni_arg_ints(f, 1)));
    if (rank_of(grad) != space + 2)
        return tni_fail(f, TN_E_SHAPE,
                        "Expected grad_output to be a tensor of dimension %lld but got: dimension %u",
                        (long long)space + 2, grad->desc.rank);
    for (int64_t d = 0; d < space + 2; d++) {
        int64_t expected = d < 2 ? input.data[d] : tni_arg_ints(f, 1).data[d - 2];
        if (sizes_of(grad)[d] != expected)
            return tni_fail(f, TN_E_SHAPE,
                            "Expected grad_output to have the same shape as output; output.size(%lld) = %lld "
                            "but got grad_output.size(%lld) = %lld",
                            (long long)d, (long long)expected, (long long)d, (long long)sizes_of(grad)[d]);
    }
    return tni_out_channels(f, 0, grad, dtype_of(grad), input.count, input.data);
}
