/* SPDX-License-Identifier: Apache-2.0 */
/* What operators refuse, with ATen's words. */
#include "refusals.h"

TestSuite(refusals, .init = begin);

Test(refusals, of_matrices)
{
    tn_tensor *v = ones(TN_INTS(3)), *m = ones(TN_INTS(3, 3)), *whole = longs(TN_INTS(3, 3));
    REFUSED(tn_linalg_matrix_norm_str_ord(s, v),
            "linalg.matrix_norm: The input tensor A must have at least 2 dimensions.");
    REFUSED(tn_linalg_matrix_norm_str_ord(s, m, .dim = TN_INTS(0)), "dim must be a 2-tuple. Got [0]");
    REFUSED(tn_linalg_matrix_norm_str_ord(s, m, .dim = TN_INTS(1, -1)),
            "dims must be different. Got (1, -1)");
    REFUSED(tn_linalg_matrix_norm_str_ord(s, whole),
            "Expected a floating point or complex tensor as input. Got Long");
    REFUSED(tn_linalg_matrix_norm_str_ord(s, m, .dtype = TN_COMPLEX128),
            "dtype should be real, but got ComplexDouble");
    REFUSED(tn_linalg_matrix_norm(s, m, 7), "Order 7 not supported.");
    REFUSED(tn_linalg_matrix_norm_str_ord(s, m, .ord = "odd"),
            "Order odd not supported. (Expected fro or nuc.)");
    REFUSED(tn_linalg_norm(s, ones(TN_INTS(1, 1, 1)), .ord = TN_SCALAR(2), .dim = TN_INTS(0, 1, 2)),
            "must be of length 1 or 2");
    REFUSED(tn_linalg_norm(s, ones(TN_INTS(1, 1, 1)), .ord = TN_SCALAR(1)),
            "the input must be 1D or 2D. Got 3D.");
    REFUSED(tn_linalg_norm_ord_str(s, v, "fro"), "linalg.norm: 'fro' and 'nuc' are norms of matrices");
    REFUSED(tn_renorm(s, m, -1, 0, 1), "renorm: non-positive-norm not supported");
    REFUSED(tn_renorm(s, m, 2, 0, -1), "renorm: expected maxnorm to be >= 0 but got -1");
    REFUSED(tn_renorm(s, v, 2, 0, 1), "renorm: input needs at least 2 dimensions, got 1 dimensions");
    REFUSED(tn_cdist(s, whole, m), "cdist only supports floating-point dtypes, X1 got: Long");
    REFUSED(tn_cdist(s, m, v), "cdist only supports at least 2D tensors, X2 got: 1D");
    REFUSED(tn_cdist(s, m, ones(TN_INTS(2, 2))),
            "X1 and X2 must have the same number of columns. X1: 3 X2: 2");
    REFUSED(tn_cdist(s, m, m, .p = -1), "cdist only supports non-negative p values");
    REFUSED(tn_cdist(s, m, m, .compute_mode = 7), "possible modes: 0, 1, 2, but was: 7");
    REFUSED(tn_clamp_tensor(s, v), "torch.clamp: At least one of 'min' or 'max' must not be None");
    REFUSED(tn_pdist(s, v), "pdist only supports 2D tensors, got: 1D");
    REFUSED(tn_pdist(s, whole), "pdist only supports floating-point dtypes");
    REFUSED(tn_pdist(s, m, .p = -1), "pdist only supports non-negative p values");
    end();
}

Test(refusals, of_contractions)
{
    tn_tensor *v = ones(TN_INTS(3)), *m = ones(TN_INTS(3, 3)), *whole = longs(TN_INTS(3, 3));
    REFUSED(tn_einsum(s, "i.j", TN_TENSORS(m)), "found '.' for an operand that is not part of any ellipsis");
    REFUSED(tn_einsum(s, "i,j", TN_TENSORS(v)), "fewer operands were provided than specified");
    REFUSED(tn_einsum(s, "i", TN_TENSORS(v, v)), "more operands were provided than specified");
    REFUSED(tn_einsum(s, "i1", TN_TENSORS(m)), "invalid subscript given at index 1");
    REFUSED(tn_einsum(s, "ij->i1", TN_TENSORS(m)), "invalid subscript '1' in the output");
    REFUSED(tn_einsum(s, "ij->ii", TN_TENSORS(m)), "output subscript i appears more than once");
    REFUSED(tn_einsum(s, "i", TN_TENSORS(m)), "does not match the number of dimensions (2) for operand 0");
    REFUSED(tn_einsum(s, "ii", TN_TENSORS(ones(TN_INTS(2, 3)))),
            "subscript i is repeated for operand but the sizes don't match");
    REFUSED(tn_einsum(s, "i,i", TN_TENSORS(v, ones(TN_INTS(2)))),
            "operands do not broadcast with remapped shapes");
    REFUSED(tn_einsum(s, "i,i", TN_TENSORS(v, v), .path = TN_INTS(0, 7)), "cannot contract operands 0 and 7");
    REFUSED(tn_einsum(s, "i,i", TN_TENSORS(v, v), .path = TN_INTS(0)), "expected contraction path");
    REFUSED(tn_bilinear(s, v, m, m), "bilinear(): input dimensions do not match: got 1 and 2");
    REFUSED(tn_tensordot(s, m, m, TN_INTS(0), TN_INTS(0, 1)), "both dimension lists should have same length");
    REFUSED(tn_tensordot(s, m, ones(TN_INTS(2, 2)), TN_INTS(0), TN_INTS(0)),
            "contracted dimensions need to match");
    static const int64_t zeros[40];
    const char *twice = "dim 0 appears multiple times in the list of dims";
    REFUSED(tn_tensordot(s, v, v, (tn_ints){zeros, 40}, (tn_ints){zeros, 40}), twice);
    REFUSED(tn_tensordot(s, m, m, TN_INTS(0, 1), TN_INTS(0, -2)), twice);
    REFUSED(tn__trilinear(s, m, m, m, TN_NO_INTS, TN_NO_INTS, TN_NO_INTS, TN_INTS(65)),
            "Dimension out of range (expected to be in range of [-2, 1], but got 65)");
    REFUSED(tn__trilinear(s, v, v, v, TN_INTS(0), TN_INTS(-1), TN_INTS(2), TN_NO_INTS),
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
    REFUSED(tn__trilinear(s, m, m, m, TN_NO_INTS, TN_NO_INTS, TN_NO_INTS, TN_INTS(0, -2)), twice);
    REFUSED(tn__trilinear(s, m, v, m, TN_NO_INTS, TN_NO_INTS, TN_NO_INTS, TN_INTS(1)),
            "_trilinear: argument 'i2': wrong rank with the dimensions of 'expand2' (got 1, expected 2)");
    REFUSED(tn_linalg_multi_dot(s, TN_TENSORS(m)), "multi_dot(): expected at least 2 tensors but got 1");
    REFUSED(tn_linalg_multi_dot(s, TN_TENSORS(m, v, m)), "tensor must be 2D but got 1D");
    REFUSED(tn_linalg_multi_dot(s, TN_TENSORS(m, ones(TN_INTS(2, 2)))), "cannot be multiplied");
    REFUSED(tn_chain_matmul(s, TN_TENSORS(v, m)), "is expected to have 2 dimension(s), but it has 1");
    REFUSED(tn_matrix_power(s, v, 2), "must have at least 2 dimensions");
    REFUSED(tn_matrix_power(s, ones(TN_INTS(2, 3)), 2), "but they are 2 by 3 matrices");
    REFUSED(tn_vander(s, m), "x must be a one-dimensional tensor.");
    REFUSED(tn_vander(s, v, .N = -1), "N must be non-negative.");
    REFUSED(tn_cross(s, ones(TN_INTS(2)), ones(TN_INTS(2))), "no dimension of size 3 in input");
    REFUSED(tn_outer(s, m, v), "outer: Expected 1-D argument self, but got 2-D");
    REFUSED(tn_inner(s, m, ones(TN_INTS(2, 2))), "the last dimension must match on both input tensors");
    REFUSED(tn_addr(s, m, m, v), "addr: Expected 1-D argument vec1, but got 2-D");
    REFUSED(tn_linalg_vecdot(s, whole, whole),
            "Expected a floating point or complex tensor as input. Got Long");
    REFUSED(tn_block_diag(s, TN_TENSORS(ones(TN_INTS(1, 1, 1)))), "must have 2 or fewer dimensions");
    end();
}

Test(refusals, of_indices)
{
    tn_tensor *v = ones(TN_INTS(3)), *m = ones(TN_INTS(3, 3)), *i = longs(TN_INTS(2)),
              *none = ones(TN_INTS(0));
    REFUSED(tn_index_fill_tensor(s, v, 0, i, m),
            "Only supports 0-dimension value tensor, but got tensor with 2 dimension(s).");
    REFUSED(tn_take(s, none, i), "take(): tried to take from an empty tensor");
    REFUSED(tn_take(s, v, v), "take(): Expected a long tensor for index, but got");
    REFUSED(tn_put(s, v, v, v), "put_(): Expected a long tensor for index");
    REFUSED(tn_put(s, v, i, tn_to(s, v, TN_FLOAT32)),
            "put_(): self and source expected to have the same dtype");
    REFUSED(tn_put(s, v, i, v), "Expected source and index to have the same number of elements");
    REFUSED(tn_put(s, none, i, ones(TN_INTS(2))), "put_(): Tried to put elements into an empty tensor");
    REFUSED(tn_masked_scatter(s, v, tn_gt_scalar(s, v, 0), ones(TN_INTS(1))),
            "expected at least 3 elements in source, got 1");
    REFUSED(tn_repeat_interleave(s, v, longs(TN_INTS(1, 2))), "repeats must be 0-dim or 1-dim tensor");
    REFUSED(tn_repeat_interleave(s, v, i), "repeats must have the same size as input along dim");
    REFUSED(tn_repeat_interleave_tensor(s, longs(TN_INTS(1, 1))),
            "repeat_interleave only accept 1D vector as repeat");
    REFUSED(tn_repeat_interleave_tensor(s, v), "repeats has to be Long or Int tensor");
    REFUSED(tn_one_hot(s, v), "one_hot is only applicable to index tensor of type LongTensor.");
    REFUSED(tn_one_hot(s, i, .num_classes = 1),
            "Class values must be smaller than num_classes: got 1, expected 0 to 0");
    REFUSED(tn_one_hot(s, longs(TN_INTS(0))), "Can not infer total number of classes from empty tensor.");
    REFUSED(tn_trace(s, v), "trace: expected a matrix, but got tensor with dim 1");
    REFUSED(tn_take_along_dim(s, m, i, .dim = 0),
            "input and indices should have the same number of dimensions");
    REFUSED(tn_nonzero_static(s, v, -1), "must be an non-negative integer");
    REFUSED(tn_bucketize(s, v, m), "boundaries tensor must be 1 dimension, but got dim(2)");
    REFUSED(tn_aten_tensor_split(s, v, 0), "number of sections must be larger than 0, got 0");
    REFUSED(tn_chunk(s, v, 0), "chunk expects `chunks` to be greater than 0, got: 0");
    REFUSED(tn_hsplit(s, v, 2), "attempted to split along dimension 0");
    REFUSED(tn_vsplit(s, v, 3), "torch.vsplit requires a tensor with at least 2 dimension");
    end();
}

Test(refusals, of_factories)
{
    tn_tensor *v = ones(TN_INTS(3));
    REFUSED(tn_eye(s, -1), "n must be greater or equal to 0, got -1");
    REFUSED(tn_eye_m(s, 1, -1), "m must be greater or equal to 0, got -1");
    REFUSED(tn_tril_indices(s, -1, 1), "row must be non-negative, got -1");
    REFUSED(tn_tril_indices(s, 1, -1), "col must be non-negative, got -1");
    REFUSED(tn_linspace(s, TN_SCALAR(0), TN_SCALAR(1), -1), "number of steps must be non-negative");
    REFUSED(tn_linspace_tensor_tensor(s, v, v, 2), "only supports 0-dimensional start and end tensors");
    REFUSED(tn_linspace_tensor_scalar(s, v, 1, 2), "but got start with 1 dimension(s).");
    REFUSED(tn_linspace(s, TN_SCALAR(-4.0), TN_SCALAR(1), 3, .dtype = TN_UINT8),
            "value cannot be converted to type uint8_t without overflow");
    REFUSED(tn_linspace(s, TN_SCALAR(300), TN_SCALAR(1), 1, .dtype = TN_UINT8),
            "value cannot be converted to type uint8_t without overflow");
    REFUSED(tn_logspace(s, TN_SCALAR(0), TN_SCALAR(300), 3, .dtype = TN_INT8),
            "value cannot be converted to type int8_t without overflow");
    REFUSED(tn_arange_start(s, TN_SCALAR(0), TN_SCALAR(INFINITY)), "unsupported range: 0 -> inf");
    REFUSED(tn_arange_start(s, TN_SCALAR(1), TN_SCALAR(0)),
            "upper bound and lower bound inconsistent with step sign");
    REFUSED(tn_hann_window(s, -1), "hann_window requires non-negative window_length, got window_length=-1");
    REFUSED(tn_hann_window(s, 3, .dtype = TN_INT64), "hann_window expects floating point dtypes, got: int64");
    end();
}

Test(refusals, of_shapes)
{
    tn_tensor *v = ones(TN_INTS(3)), *m = ones(TN_INTS(3, 3)), *x = ones(TN_INTS(1, 1, 2, 2));
    REFUSED(tn_diff(s, tn_sum(s, v)), "diff expects input to be at least one-dimensional");
    REFUSED(tn_diff(s, v, .n = -1), "order must be non-negative but got -1");
    REFUSED(tn_diff(s, v, .prepend = m), "diff expects prepend or append to be the same dimension as input");
    REFUSED(tn_gradient(s, tn_to(s, v, TN_UINT8)), "torch.gradient does not support uint8 input.");
    REFUSED(tn_gradient(s, v, .edge_order = 3),
            "torch.gradient only supports edge_order=1 and edge_order=2.");
    REFUSED(tn_gradient(s, ones(TN_INTS(1))), "expected each dimension size to be at least edge_order+1");
    REFUSED(tn_trapezoid_dx(s, tn_gt_scalar(s, v, 0)), "bool is not supported");
    REFUSED(tn_trapezoid(s, v, ones(TN_INTS(2))), "There must be one `x` value for each sample point");
    REFUSED(tn_histc(s, v, .bins = 0), "bins must be > 0");
    REFUSED(tn_histogram_bins_tensor(s, v, m), "torch.histogram(): bins tensor should have one dimension");
    REFUSED(tn_histogram(s, v, 2, .range = TN_FLOATS(1, 0)),
            "min should not exceed max, but got min 1 max 0");
    REFUSED(tn_histogramdd(s, v, TN_INTS(2)),
            "torch.histogramdd(): input tensor should have at least 2 dimensions");
    REFUSED(tn_histogramdd(s, m, TN_INTS(2)),
            "expected 3 bin sequences for a D-dimensional histogram but got 1");
    REFUSED(tn_stack(s, TN_TENSORS(v, m)),
            "stack expects each tensor to be equal size, but got [3] at entry 0 and [3, 3] at entry 1");
    REFUSED(tn_rot90(s, m, .dims = TN_INTS(0)), "expected total rotation dims == 2, but got dims = 1");
    REFUSED(tn_rot90(s, v), "expected total dims >= 2, but got total dims = 1");
    REFUSED(tn_fliplr(s, v), "Input must be >= 2-d.");
    REFUSED(tn_diag_embed(s, v, .dim1 = 0, .dim2 = 0), "diagonal dimensions cannot be identical 0, 0");
    REFUSED(tn_diag(s, x), "diag(): Supports 1D or 2D tensors. Got 4D");
    REFUSED(tn_cartesian_prod(s, TN_TENSORS(m)), "Expect a 1D vector, but got shape [3, 3]");
    REFUSED(tn_combinations(s, v, .r_ = -1), "Expect a non-negative number, but got -1");
    REFUSED(tn_pixel_shuffle(s, m, 2), "pixel_shuffle expects input to have at least 3 dimensions");
    REFUSED(tn_pixel_shuffle(s, x, 0), "pixel_shuffle expects a positive upscale_factor, but got 0");
    REFUSED(tn_pixel_shuffle(s, x, 2), "is not divisible by 4");
    REFUSED(tn_pixel_unshuffle(s, m, 2), "pixel_unshuffle expects input to have at least 3 dimensions");
    REFUSED(tn_pixel_unshuffle(s, x, 3), "expects height and width to be divisible by downscale_factor");
    REFUSED(tn_channel_shuffle(s, m, 1), "channel_shuffle expects input with > 2 dims");
    REFUSED(tn_channel_shuffle(s, x, 0), "Number of groups to divide channels in must be positive");
    REFUSED(tn_pad_sequence(s, TN_TENSORS(v), .padding_side = "top"),
            "Expected padding_side to be one of left or right, but got top.");
    REFUSED(tn_unflatten(s, v, 0, TN_INTS(2, 2)), "don't multiply up to the size of dim 0 (3)");
    REFUSED(tn_flatten(s, m, .start_dim = 1, .end_dim = 0), "start_dim cannot come after end_dim");
    REFUSED(tn_movedim_intlist(s, m, TN_INTS(0), TN_INTS(0, 1)), "Invalid source or destination dims");
    REFUSED(tn_narrow(s, v, 0, 0, -1), "narrow(): length must be non-negative.");
    REFUSED(tn_narrow(s, v, 0, 2, 2), "start (2) + length (2) exceeds dimension size (3).");
    REFUSED(tn_pad(s, v, TN_INTS(1)), "Padding length must be divisible by 2");
    REFUSED(tn_pad(s, v, TN_INTS(1, 1, 1, 1)), "less than or equal to two times the input dimension");
    REFUSED(tn_pad(s, x, TN_INTS(1, 1), .mode = "odd"),
            "Unrecognised padding mode odd (expected constant, reflect, replicate or circular)");
    REFUSED(tn_pad(s, x, TN_INTS(3, 3, 0, 0), .mode = "circular"),
            "Padding value causes wrapping around more than once.");
    REFUSED(tn_pad(s, x, TN_INTS(1, 1), .mode = "reflect", .value = 1), "doesn't take in value argument");
    end();
}

Test(refusals, of_layers_and_samples)
{
    tn_tensor *v = ones(TN_INTS(3)), *m = ones(TN_INTS(3, 3)), *x = ones(TN_INTS(1, 3, 4, 4)),
              *w = ones(TN_INTS(3, 3, 2, 2));
    REFUSED(tn_scaled_dot_product_attention(s, m, tn_to(s, m, TN_FLOAT32), m),
            "Expected query, key, and value to have the same dtype");
    REFUSED(tn_scaled_dot_product_attention(s, v, v, v), "at least 2 dimensional, but got query.dim(): 1");
    REFUSED(tn_scaled_dot_product_attention(s, m, m, m, .attn_mask = longs(TN_INTS(3, 3))),
            "Expected attn_mask dtype to be bool or float");
    REFUSED(tn_scaled_dot_product_attention(s, m, m, m, .attn_mask = m, .is_causal = 1),
            "Explicit attn_mask should not be set when is_causal=True");
    REFUSED(tn_scaled_dot_product_attention(s, m, m, m, .enable_gqa = 1),
            "enable_gqa requires tensors of at least 3 dimensions");
    REFUSED(tn_batch_norm(s, v, NULL, NULL, NULL, NULL, 1, 0.1, 1e-5, 0),
            "expected at least 2D input (got 1D input)");
    REFUSED(tn_batch_norm(s, x, m, NULL, NULL, NULL, 1, 0.1, 1e-5, 0), "should contain 3 elements not 9");
    REFUSED(tn_batch_norm(s, x, NULL, NULL, NULL, NULL, 0, 0.1, 1e-5, 0),
            "must be defined in evaluation mode");
    REFUSED(tn_instance_norm(s, x, NULL, NULL, NULL, NULL, 0, 0.1, 1e-5, 0),
            "to be defined when use_input_stats is false");
    REFUSED(tn_rms_norm(s, v, TN_INTS(4)), "Given normalized_shape=[4], expected input with shape [*, 4]");
    REFUSED(tn_group_norm(s, v, 1), "Expected at least 2 dims for input tensor, but got 1");
    REFUSED(tn_group_norm(s, x, 0), "Expected num groups to be greater than 0, got 0");
    REFUSED(tn_group_norm(s, x, 2), "Expected number of channels in input to be divisible by num_groups");
    REFUSED(tn_group_norm(s, x, 3, .weight = m),
            "equal to the number of channels in input, but got weight of shape [3, 3]");
    REFUSED(tn_conv2d(s, v, w),
            "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [3]");
    REFUSED(tn_conv2d_padding(s, v, w, .padding = "same"),
            "Expected 3D (unbatched) or 4D (batched) input to conv2d");
    REFUSED(tn_conv2d_padding(s, x, w, .padding = "odd"),
            "Invalid padding string: 'odd' (expected 'valid' or 'same')");
    REFUSED(tn_conv2d_padding(s, x, w, .padding = "same", .stride = TN_INTS(2, 2)),
            "padding='same' is not supported for strided convolutions");
    REFUSED(tn_conv_tbc(s, m, m, v), "Input must have 3 dims: time, batch, in_channel");
    REFUSED(tn_dropout(s, v, 2, 1), "dropout probability has to be between 0 and 1, but got 2");
    REFUSED(tn_feature_dropout(s, v, 0.5, 1), "Feature dropout requires at least 2 dimensions in the input");
    REFUSED(tn_feature_alpha_dropout(s, tn_ones(s, TN_INTS(2, 2), .dtype = TN_INT32), 0.5, 1),
            "result type Float can't be cast to the desired output type Int");
    REFUSED(tn_bernoulli_p(s, v, 2), "bernoulli_ expects p to be in [0, 1], but got p=2");
    REFUSED(tn_uniform_(s, v, .from = 1, .to = 0),
            "uniform_ expects to return a [from, to) range, but found from=1 > to=0");
    REFUSED(tn_uniform_(s, longs(TN_INTS(2))), "\"check_uniform_bounds\" not implemented for");
    REFUSED(tn_normal_(s, longs(TN_INTS(2))), "\"normal_kernel_cpu\" not implemented for");
    REFUSED(tn_normal_(s, v, .std = -1), "normal expects std >= 0.0, but found std -1");
    REFUSED(tn_exponential_(s, v, .lambd = 0), "exponential_ expects lambda > 0.0, but found lambda=0");
    REFUSED(tn_geometric_(s, v, 0), "geometric_ expects p to be in (0, 1), but got p=0");
    REFUSED(tn_cauchy_(s, v, .sigma = 0), "cauchy_ expects sigma > 0.0, but found sigma=0");
    REFUSED(tn_log_normal_(s, longs(TN_INTS(2))),
            "Log-normal distribution is a continuous probability distribution");
    REFUSED(tn_random_from_(s, v, 3, 2),
            "random_ expects 'from' to be less than 'to', but got from=3 >= to=2");
    REFUSED(tn_random_from_(s, tn_to(s, v, TN_UINT8), -1, 2), "from is out of bounds for");
    REFUSED(tn_randperm(s, -1), "n must be non-negative, got -1");
    REFUSED(tn_normal_float_tensor(s, 0, tn_neg(s, v)), "normal expects all elements of std >= 0.0");
    end();
}

Test(refusals, of_products)
{
    tn_tensor *v = ones(TN_INTS(3)), *m = ones(TN_INTS(2, 3)), *b = ones(TN_INTS(2, 2, 3));
    tn_tensor *single = tn_to(s, m, TN_FLOAT32);
    REFUSED(tn_mm(s, v, m), "self must be a matrix");
    REFUSED(tn_mm(s, m, m), "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)");
    REFUSED(tn_mm(s, m, tn_t(s, single)), "expected m1 and m2 to have the same dtype");
    REFUSED(tn_addmm(s, m, v, m), "mat1 must be a matrix, got 1-D tensor");
    REFUSED(tn_addmm(s, m, m, v), "mat2 must be a matrix, got 1-D tensor");
    REFUSED(tn_addmm(s, b, tn_t(s, m), m), "the number of sizes provided (2) must be greater or equal");
    REFUSED(tn_bmm(s, m, b), "batch1 must be a 3D tensor");
    REFUSED(tn_bmm(s, b, m), "batch2 must be a 3D tensor");
    REFUSED(tn_bmm(s, b, b),
            "Expected size for first two dimensions of batch2 tensor to be: [2, 3] but got: [2, 2].");
    REFUSED(tn_mv(s, m, ones(TN_INTS(2))), "size mismatch, got input (2), mat (2x3), vec (2)");
    REFUSED(tn_dot(s, m, v), "1D tensors expected, but got 2D and 1D tensors");
    REFUSED(tn_dot(s, v, tn_to(s, v, TN_FLOAT32)), "expected both vectors to have same dtype");
    REFUSED(tn_dot(s, v, ones(TN_INTS(2))), "inconsistent tensor size, expected tensor [3] and src [2]");
    REFUSED(tn_linear(s, tn_sum(s, v), m), "both arguments to linear need to be at least 1D");
    REFUSED(tn_linalg_cross(s, v, m), "inputs must have the same number of dimensions.");
    REFUSED(tn_linalg_cross(s, ones(TN_INTS(2)), ones(TN_INTS(2))), "must have length 3. Got 2 and 2");
    end();
}

Test(refusals, of_convolutions)
{
    tn_tensor *v = ones(TN_INTS(3)), *m = ones(TN_INTS(2, 3)), *x = ones(TN_INTS(1, 4, 5, 5)),
              *w = ones(TN_INTS(4, 4, 3, 3)), *image = ones(TN_INTS(1, 1, 3, 3));
    REFUSED(tn_conv2d(s, x, tn_to(s, w, TN_FLOAT32)), "should be the same");
    REFUSED(tn_conv2d(s, x, w, .padding = TN_INTS(-1, 0)), "negative padding is not supported");
    REFUSED(tn_conv2d(s, x, w, .stride = TN_INTS(0, 1)), "non-positive stride is not supported");
    REFUSED(tn_conv2d(s, x, w, .dilation = TN_INTS(0, 1)), "dilation should be greater than zero");
    REFUSED(tn_conv2d(s, x, w, .groups = 0), "non-positive groups is not supported");
    REFUSED(tn_conv2d(s, x, w, .groups = 3), "expected weight to be divisible by 3 at dimension 0");
    REFUSED(tn_conv2d(s, x, w, .groups = 2), "but got 4 channels instead");
    REFUSED(tn_conv2d(s, x, w, .bias = v), "expected bias to be 1-dimensional with 4 elements");
    REFUSED(tn_conv2d(s, x, ones(TN_INTS(4, 4, 6, 6))),
            "Kernel size can't be greater than actual input size");
    REFUSED(tn_conv_transpose2d(s, x, w, .output_padding = TN_INTS(-1, 0)),
            "negative output_padding is not supported");
    REFUSED(tn_im2col(s, image, TN_INTS(0, 1), TN_INTS(1, 1), TN_INTS(0, 0), TN_INTS(1, 1)),
            "kernel size should be greater than zero");
    REFUSED(tn_im2col(s, image, TN_INTS(1, 1), TN_INTS(1, 1), TN_INTS(0, 0), TN_INTS(0, 1)),
            "stride should be greater than zero");
    REFUSED(tn_im2col(s, image, TN_INTS(1, 1), TN_INTS(0, 1), TN_INTS(0, 0), TN_INTS(1, 1)),
            "dilation should be greater than zero");
    REFUSED(tn_im2col(s, image, TN_INTS(1, 1), TN_INTS(1, 1), TN_INTS(-1, 0), TN_INTS(1, 1)),
            "padding should be non-negative");
    REFUSED(tn_im2col(s, image, TN_INTS(4, 4), TN_INTS(1, 1), TN_INTS(0, 0), TN_INTS(1, 1)),
            "too small (non-positive)");
    REFUSED(tn_im2col(s, v, TN_INTS(1, 1), TN_INTS(1, 1), TN_INTS(0, 0), TN_INTS(1, 1)),
            "Expected 3D or 4D (batch mode) tensor");
    REFUSED(tn_col2im(s, v, TN_INTS(3, 3), TN_INTS(1, 1), TN_INTS(1, 1), TN_INTS(0, 0), TN_INTS(1, 1)),
            "Expected 2D or 3D (batch mode) tensor for input");
    REFUSED(tn_col2im(s, m, TN_INTS(3, 3), TN_INTS(2, 2), TN_INTS(1, 1), TN_INTS(0, 0), TN_INTS(1, 1)),
            "to be divisible by the product of kernel_size");
    REFUSED(tn_grid_sampler(s, image, m, 0, 0, 0),
            "expected 4D or 5D input and grid with same number of dimensions");
    REFUSED(tn_grid_sampler(s, image, ones(TN_INTS(2, 1, 1, 2)), 0, 0, 0),
            "expected grid and input to have same batch size");
    REFUSED(tn_grid_sampler(s, image, ones(TN_INTS(1, 1, 1, 3)), 0, 0, 0),
            "expected grid to have size 2 in last dimension");
    end();
}

Test(refusals, of_windows)
{
    tn_tensor *v = ones(TN_INTS(3)), *image = ones(TN_INTS(1, 1, 4, 4));
    REFUSED(tn_max_pool2d(s, v, TN_INTS(2, 2)), "non-empty 3D or 4D (batch mode) tensor expected for input");
    REFUSED(tn_max_pool2d(s, image, TN_INTS(0, 2)), "kernel size should be greater than zero, but got");
    REFUSED(tn_max_pool2d(s, image, TN_INTS(2, 2), .dilation = TN_INTS(0, 1)),
            "dilation should be greater than zero, but got");
    REFUSED(tn_max_pool2d(s, image, TN_INTS(2, 2), .padding = TN_INTS(-1, 0)),
            "pad must be non-negative, but got pad: -1");
    REFUSED(tn_max_pool2d(s, image, TN_INTS(2, 2), .padding = TN_INTS(2, 0)),
            "pad should be smaller than or equal to half of kernel size");
    REFUSED(tn_max_pool2d(s, image, TN_INTS(2, 2), .padding = TN_INTS(2, 0), .dilation = TN_INTS(4, 4)),
            "pad should be smaller than or equal to half of kernel size, but got pad=2 and kernel_size=2");
    REFUSED(tn_avg_pool2d(s, image, TN_INTS(2, 2), .padding = TN_INTS(2, 0)),
            "pad should be at most half of effective kernel size");
    REFUSED(tn_max_pool2d(s, image, TN_INTS(9, 9)), "Output size is too small");
    REFUSED(tn_avg_pool2d(s, image, TN_INTS(2, 2), .divisor_override = 0), "divisor must be not zero");
    REFUSED(tn_adaptive_max_pool2d(s, v, TN_INTS(1, 1)), "Expected 3D or 4D tensor, but got");
    REFUSED(tn_adaptive_avg_pool1d(s, v, TN_INTS(1)),
            "Expected 2 to 3 dimensions, but got 1-dimensional tensor");
    REFUSED(tn_upsample_nearest2d(s, image, TN_INTS(0, 1)),
            "Input and output sizes should be greater than 0");
    REFUSED(tn__upsample_nearest_exact2d(s, image, TN_INTS(3, 3), .scales_w = 1e-300),
            "argument 'scales_w': 1e-300 is too small for an output of size 3");
    REFUSED(tn_upsample_bicubic2d(s, image, TN_INTS(3, 3), 0, .scales_h = 1e-12),
            "argument 'scales_h': 1e-12 is too small for an output of size 3");
    REFUSED(tn_upsample_nearest2d_backward(s, image, TN_INTS(4, 4), TN_INTS(1, 1, 8, 8), .scales_h = 1e-300),
            "argument 'scales_h': 1e-300 is too small for an output of size 4");
    end();
}

Test(refusals, of_writes_at_indices)
{
    tn_tensor *v = ones(TN_INTS(3)), *m = ones(TN_INTS(2, 3)), *i = longs(TN_INTS(2)),
              *grid = longs(TN_INTS(2, 3));
    REFUSED(tn_gather(s, m, 0, i), "Index tensor must have the same number of dimensions as input tensor");
    REFUSED(tn_gather(s, m, 0, m), "gather(): Expected dtype int32/int64 for index");
    REFUSED(tn_gather(s, m, 0, longs(TN_INTS(1, 5))),
            "Size does not match at dimension 1 expected index [1, 5]");
    REFUSED(tn_scatter(s, m, 0, m, m), "scatter(): Expected dtype int32/int64 for index");
    REFUSED(tn_scatter(s, m, 0, grid, tn_to(s, m, TN_FLOAT32)),
            "scatter(): Expected self.dtype to be equal to src.dtype");
    REFUSED(tn_scatter_src_reduce(s, m, 0, grid, m, "odd"),
            "reduce argument must be either add or multiply. Got odd");
    REFUSED(tn_scatter_reduce(s, m, 0, grid, m, "odd"),
            "must be either sum, prod, mean, amax or amin, got odd");
    REFUSED(tn_index_put_default(s, tn_zeros(s, TN_INTS(0, 0)), TN_TENSORS(i), tn_zeros(s, TN_INTS(3, 0))),
            "index is out of bounds for dimension with size 0");
    REFUSED(tn_index_add(s, m, 0, grid, m), "Index should have dimension 1 or 0 (got 2)");
    REFUSED(tn_index_add(s, m, 0, i, tn_to(s, m, TN_FLOAT32)),
            "self and source expected to have the same dtype");
    REFUSED(tn_index_add(s, m, 0, longs(TN_INTS(1)), m),
            "Number of indices (1) should be equal to source.size(dim): (2)");
    REFUSED(tn_index_tensor(s, v, TN_TENSORS(i, i)), "too many indices for tensor of dimension 1 (got 2)");
    REFUSED(tn_index_tensor(s, v, TN_TENSORS(v)),
            "tensors used as indices must be long, int, byte or bool tensors");
    REFUSED(tn_index_tensor(s, m, TN_TENSORS(i, longs(TN_INTS(3)))),
            "indexing tensors could not be broadcast together");
    REFUSED(tn_masked_select(s, v, v), "masked_select: expected BoolTensor for mask");
    REFUSED(tn_masked_fill_scalar(s, v, v, 1), "only supports boolean masks, but got mask with dtype");
    end();
}

Test(refusals, of_strides_and_counts)
{
    tn_tensor *v = ones(TN_INTS(3)), *m = ones(TN_INTS(2, 3)), *i = longs(TN_INTS(2));
    REFUSED(tn_empty(s, TN_INTS(2), .memory_format = TN_CHANNELS_LAST),
            "required rank 4 tensor to use channels_last format");
    REFUSED(tn_empty(s, TN_INTS(-1)), "Trying to create tensor with negative dimension -1: [-1]");
    REFUSED(tn_empty_strided(s, TN_INTS(2), TN_INTS(1, 1)),
            "dimensionality of sizes (1) must match dimensionality of strides (2)");
    REFUSED(tn_empty_strided(s, TN_INTS(2), TN_INTS(-1)),
            "Negative strides are not supported, got strides: [-1]");
    REFUSED(tn_empty_permuted(s, TN_INTS(2, 2), TN_INTS(0)),
            "does not match the length of the physical_layout");
    REFUSED(tn_empty_permuted(s, TN_INTS(2, 2), TN_INTS(0, 0)), "Duplicate dim not allowed");
    REFUSED(tn_empty_permuted(s, TN_INTS(2), TN_INTS(3)),
            "Dimension out of range (expected to be between 0 and 0, but got 3 at index 0)");
    REFUSED(tn_set_source_tensor_(s, v, i), "Could not set tensor of type");
    REFUSED(tn_cat(s, (tn_tensors){&v, 0}), "torch.cat(): expected a non-empty list of Tensors");
    REFUSED(tn_cat(s, TN_TENSORS(tn_sum(s, v), v)),
            "zero-dimensional tensor (at position 0) cannot be concatenated");
    REFUSED(tn_cat(s, TN_TENSORS(m, v)), "Tensors must have same number of dimensions: got 2 and 1");
    REFUSED(tn_cat(s, TN_TENSORS(m, ones(TN_INTS(2, 2)))),
            "Sizes of tensors must match except in dimension 0.");
    REFUSED(tn_roll(s, v, TN_NO_INTS), "`shifts` required");
    REFUSED(tn_roll(s, m, TN_INTS(1), .dims = TN_INTS(0, 1)),
            "shifts and dimensions must align. shifts: 1, dims:2");
    REFUSED(tn_tril(s, v), "input tensor must have at least 2 dimensions");
    REFUSED(tn_repeat(s, m, TN_INTS(2)), "can not be smaller than number of dimensions of tensor");
    REFUSED(tn_multinomial(s, v, 4), "cannot sample n_sample > prob_dist.size(-1) samples without "
                                     "replacement: got 4, the last dimension has size 3");
    REFUSED(tn_multinomial(s, v, 0), "cannot sample n_sample <= 0 samples");
    REFUSED(tn_multinomial(s, i, 1), "multinomial only supports floating-point dtypes for input");
    REFUSED(tn_bincount(s, v), "bincount only supports 1-d non-negative integral inputs.");
    REFUSED(tn_bincount(s, i, .minlength = -1), "minlength should be >= 0");
    REFUSED(tn_bincount(s, i, .weights = v), "weights should be 1-d and have the same length as input");
    REFUSED(tn_topk(s, v, 4), "selected index k out of range: got 4, dimension 0 has size 3");
    end();
}

/* Sums and products of sizes that do not fit in 64 bits. */
Test(refusals, of_sizes_beyond_integers)
{
    const int64_t huge = INT64_MAX, half = INT64_C(1) << 62;
    tn_tensor *v = ones(TN_INTS(3)), *m = ones(TN_INTS(2, 3)), *none = ones(TN_INTS(0, 2));
    REFUSED(tn_constant_pad_nd(s, v, TN_INTS(huge, huge)), "argument 'pad': 9223372036854775807 and");
    REFUSED(tn_constant_pad_nd(s, v, TN_INTS(INT64_MIN, INT64_MIN)), "are too large");
    REFUSED(tn_replication_pad1d(s, m, TN_INTS(half, half)), "are too large");
    REFUSED(tn_unflatten(s, none, 0, TN_INTS(INT64_C(1) << 32, INT64_C(1) << 32)), "don't multiply up to");
    REFUSED(tn_repeat_interleave_self_int(s, none, huge, .dim = 1), "would have too many elements");
    REFUSED(tn_diag_embed(s, v, .offset = INT64_MIN),
            "diag_embed: the offset -9223372036854775808 is too large");
    REFUSED(tn_diag_embed(s, v, .offset = huge), "diag_embed: the offset 9223372036854775807 is too large");
    REFUSED(tn_max_pool1d(s, m, TN_INTS(half), .padding = TN_INTS(half / 2)),
            "kernel_size, stride and dilation must be at most 2147483647");
    REFUSED(tn_conv1d_padding(s, ones(TN_INTS(1, 1, 4)), ones(TN_INTS(1, 1, 3)), .padding = "same",
                              .dilation = TN_INTS(huge)),
            "dilation is out of range (got 9223372036854775807)");
    cr_expect_eq(tn_chunk(s, v, huge).count, 3);
    end();
}

/* Tables of kernels are as long as outputs, even where those have no elements. */
Test(refusals, of_nothing_in_many_rows)
{
    const int64_t huge = INT64_MAX, large = INT64_C(1) << 61;
    tn_tensor *rows = tn_embedding_dense_backward(s, ones(TN_INTS(1, 0)), longs(TN_INTS(1)), huge, -1, 0);
    cr_assert(rows && tn_tensor_size(rows, 0) == huge);
    cr_assert_not_null(tn_embedding_dense_backward(s, ones(TN_INTS(1, 0)), longs(TN_INTS(1)), huge, -1, 1));
    tn_adaptive_max_pool1d_result pooled = tn_adaptive_max_pool1d(s, ones(TN_INTS(0, 3, 4)), TN_INTS(large));
    expect_sound(s);
    cr_expect_eq(tn_tensor_size(pooled.result0, 2), large);
    cr_expect_eq(tn_tensor_size(pooled.result1, 2), large);
    static const char channels[] = "Expected input to have non-zero size for non-batch dimensions";
    REFUSED(tn_adaptive_max_pool1d(s, ones(TN_INTS(3, 0, 4)), TN_INTS(large)), channels);
    REFUSED(tn_adaptive_max_pool2d(s, ones(TN_INTS(3, 0, 4, 4)), TN_INTS(2, 2)), channels);
    REFUSED(tn_adaptive_avg_pool3d(s, ones(TN_INTS(3, 0, 4, 4, 4)), TN_INTS(2, 2, 2)), channels);
    tn_tensor *images = tn_adaptive_avg_pool2d(s, ones(TN_INTS(3, 0, 4, 4)), TN_INTS(2, 2));
    tn_tensor *one = tn_adaptive_avg_pool3d(s, ones(TN_INTS(0, 4, 4, 4)), TN_INTS(2, 2, 2));
    expect_sound(s);
    cr_expect(tn_tensor_size(images, 3) == 2 && tn_tensor_size(one, 3) == 2);
    end();
}

/* Kernels that gradients are given to read one dtype: another would be taken for it. */
Test(refusals, of_gradients_of_another_dtype)
{
    tn_tensor *g = ones(TN_INTS(1, 2, 2)), *whole = longs(TN_INTS(1, 2, 2));
    tn_tensor *single = tn_ones(s, TN_INTS(1, 2, 2), .dtype = TN_FLOAT32);
    REFUSED(tn__adaptive_avg_pool2d_backward(s, g, whole),
            "expected dtype Long for `grad_output` but got dtype Double");
    REFUSED(tn_avg_pool2d_backward(s, g, single, TN_INTS(1), TN_INTS(1), TN_INTS(0), 0, 1, TN_NONE),
            "expected dtype Float for `grad_output` but got dtype Double");
    REFUSED(tn__log_softmax_backward_data(s, single, single, 0, TN_FLOAT64),
            "expected input and grad types to match");
    REFUSED(tn__softmax_backward_data(s, g, g, 0, TN_FLOAT16), "expected input and grad types to match");
    REFUSED(tn__softmax_backward_data(s, single, single, 0, TN_INT16),
            "expected input and grad types to match");
    tn_tensor *w = tn_ones(s, TN_INTS(2, 2), .dtype = TN_FLOAT32),
              *half = tn_ones(s, TN_INTS(2), .dtype = TN_FLOAT16);
    REFUSED(tn__weight_norm_interface(s, w, half).result0, "expected dtype Float for `g` but got dtype Half");
    REFUSED(tn_cdist(s, ones(TN_INTS(3, 2)), w), "expected dtype Double for `x2` but got dtype Float");
    REFUSED(tn__pack_padded_sequence_backward(s, ones(TN_INTS(3, 2)), TN_NO_INTS, longs(TN_INTS(2)), 1),
            "argument 'input_size': must have at least 2 items, got 0");
    end();
}
