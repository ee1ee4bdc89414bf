/* SPDX-License-Identifier: Apache-2.0 */
/* Refused calls of indexing, views, shapes, factories and random numbers. */
#include "refusals_operands.h"

TestSuite(refusals_shapes, .init = begin_with_operands);

Test(refusals_shapes, of_indices_and_masks)
{
    REFUSED(tn_index_fill(s, v, 0, v, 1), "index_fill_(): Expected dtype int64 for index.");
    REFUSED(tn_index_fill(s, v, 0, j, 1), "Index has to be a vector/scalar");
    REFUSED(tn_index_fill(s, v, 0, i, IMAGINARY),
            "index_fill_(): Converting complex Scalar to non-complex type is not supported");
    REFUSED(tn_index_fill_tensor(s, v, 0, i, tn_to(s, z, TN_COMPLEX64)),
            "index_fill_(): Converting complex Scalar to non-complex type is not supported");
    REFUSED(tn_masked_fill(s, v, k, v),
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with 1");
    REFUSED(tn_masked_fill_scalar_(s, v, bools(TN_INTS(2, 3)), 1),
            "output with shape [3] doesn't match the broadcast shape [2, 3]");
    REFUSED(tn_masked_scatter(s, v, k, tn_to(s, v, TN_FLOAT32)),
            "masked_scatter: expected self and source to have same dtypes but got");
    REFUSED(tn_index_tensor(s, v, TN_TENSORS(bools(TN_INTS(2)))),
            "The shape of the mask [2] at index 0 does not match the shape of the indexed tensor");
    REFUSED(tn_index_tensor(s, ones(TN_INTS(0)), TN_TENSORS(i)),
            "index is out of bounds for dimension with size 0");
    REFUSED(tn_index_put_default(s, v, TN_TENSORS(i), tn_to(s, v, TN_FLOAT32)),
            "Index put requires the source and destination dtypes match, got Double for the");
    REFUSED(tn_index_put_default(s, v, TN_TENSORS(i), v),
            "shape mismatch: value tensor of shape [3] cannot be broadcast to indexing result of");
    REFUSED(tn_index_select(s, v, 0, j), ": Index is supposed to be a vector");
    REFUSED(tn_index_select(s, v, 0, v), "Expected dtype int64 or int32 for index, but got Double");
    REFUSED(tn_index_select(s, z, 0, i), ": Index to scalar can have only 1 value, got 2 value(s)");
    end();
}

Test(refusals_shapes, of_writes_at_indices)
{
    REFUSED(tn_index_add(s, m, 0, i, ones(TN_INTS(2, 2))),
            "source tensor shape must match self tensor shape, excluding the specified dimension.");
    REFUSED(tn_index_add(s, m, 0, i, ones(TN_INTS(2))),
            "When source and destination are not scalars, their dimensionality must match. Source");
    REFUSED(tn_index_reduce(s, k, 0, i, bools(TN_INTS(2)), "prod"), "\" not implemented for 'Bool'");
    REFUSED(tn_index_reduce(s, v, 0, i, v, "sum"),
            "Expected reduce to be one of prod, mean, amax or amin but got sum.");
    REFUSED(tn_scatter_reduce(s, k, 0, i, bools(TN_INTS(2)), "mean"), "not implemented for 'Bool'");
    REFUSED(tn_scatter(s, m, 0, j, ones(TN_INTS(1, 2))),
            "Expected index [2, 2] to be no larger than self [3, 3] apart from dimension 0 and to");
    REFUSED(tn_take_along_dim(s, v, v),
            "torch.take_along_dim(): dtype of indices should be Long but got Double");
    REFUSED(tn_nonzero_static(s, v, -1), "nonzero_static: 'size' must be an non-negative integer");
    REFUSED(tn_repeat_interleave_tensor(s, tn_neg(s, i)), "repeats can not be negative");
    REFUSED(tn_repeat_interleave_tensor(s, i, .output_size = 7),
            "allocated size does not match required size");
    REFUSED(tn_trace_backward(s, z, TN_INTS(3)), "expected matrix input");
    end();
}

Test(refusals_shapes, of_sorted_data_and_tables)
{
    REFUSED(tn_segment_reduce(s, v, "sum", .lengths = tn_neg(s, longs(TN_INTS(1)))),
            "lengths contains negative value!");
    REFUSED(tn_segment_reduce(s, v, "sum", .lengths = longs(TN_INTS(1))),
            "segment_reduce(): Expected all rows of lengths along axis to sum to");
    REFUSED(tn_segment_reduce(s, v, "sum",
                              .offsets = tn_from_data(s, TN_INT64, TN_INTS(3), (int64_t[]){0, 3, 2}, TN_CPU)),
            "argument 'offsets': must not decrease");
    REFUSED(tn_segment_reduce(s, v, "odd", .lengths = longs(TN_INTS(1))),
            "reduce argument must be either sum, prod, mean, amax or amin, got odd");
    REFUSED(tn_searchsorted(s, r, v),
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1");
    REFUSED(tn_searchsorted_scalar(s, r, 1), ", but we got boundaries tensor");
    REFUSED(tn_searchsorted(s, v, v, .side = "odd"),
            "torch.searchsorted(): side can only be 'left' or 'right' but got odd");
    REFUSED(tn_searchsorted(s, v, v, .side = "left", .right = 1),
            "torch.searchsorted(): side and right can't be set to opposites, got side of left");
    REFUSED(tn_searchsorted(s, v, v, .sorter = v),
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype Double");
    REFUSED(tn_searchsorted(s, v, v, .sorter = i),
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary");
    REFUSED(tn_sort(s, tn_to(s, v, TN_COMPLEX64)).values,
            "\"sort\" not implemented for 'ComplexFloat' on device cpu");
    REFUSED(tn_unique_dim(s, z, 0).result0, "Dimension specified as 0 but tensor has no dimensions");
    REFUSED(tn_unique_dim(s, ones(TN_INTS(2, 0)), 0).result0,
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    REFUSED(tn_multinomial(s, b, 1), "prob_dist must be 1 or 2 dim");
    REFUSED(tn_embedding(s, v, i), "'weight' must be 2-D");
    REFUSED(tn__embedding_bag(s, v, i, i).result0,
            "weight has to be a 2D Tensor, but got Tensor of dimension 1");
    REFUSED(tn__embedding_bag(s, m, longs(TN_INTS(1, 1, 1)), i).result0,
            "input has to be a 1D or 2D Tensor, but got Tensor of dimension 3");
    REFUSED(tn__embedding_bag(s, m, i, j).result0,
            "offsets has to be a 1D Tensor, but got Tensor of dimension 2");
    REFUSED(tn__embedding_bag(s, m, i, longs(TN_INTS(0)), .include_last_offset = 1).result0,
            "include_last_offset: number of offset should be at least 1");
    REFUSED(tn__embedding_bag(s, m, i, tn_zeros(s, TN_INTS(1), .dtype = TN_INT64), .mode = 1,
                              .per_sample_weights = ones(TN_INTS(2)))
                .result0,
            "embedding_bag: per_sample_weights");
    REFUSED(tn__embedding_bag(s, m, i, tn_zeros(s, TN_INTS(1), .dtype = TN_INT64), .per_sample_weights = v)
                .result0,
            "xpected per_sample_weights");
    REFUSED(
        tn_embedding_bag_padding_idx(s, m, i, tn_zeros(s, TN_INTS(1), .dtype = TN_INT64), 0, 0, 0, NULL, 0, 7)
            .result0,
        "padding_idx must be within the number of embeddings, -3 through 2, but got 7");
    end();
}

Test(refusals_shapes, of_overlapping_memory)
{
    REFUSED(tn_scatter_(s, v, 0, tn_arange(s, TN_SCALAR(3)), v),
            "unsupported operation: some elements of the input tensor and the written-to tensor");
    REFUSED(
        tn_scatter_add_(s, tn_narrow(s, v, 0, 0, 2), 0, tn_arange(s, TN_SCALAR(2)), tn_narrow(s, v, 0, 1, 2)),
        "unsupported operation: some elements of the input tensor and the written-to tensor");
    REFUSED(tn_index_add_(s, v, 0, tn_arange(s, TN_SCALAR(3)), v),
            "unsupported operation: some elements of the input tensor and the written-to tensor");
    REFUSED(
        tn_index_copy_(s, tn_narrow(s, v, 0, 0, 2), 0, tn_arange(s, TN_SCALAR(2)), tn_narrow(s, v, 0, 1, 2)),
        "unsupported operation: some elements of the input tensor and the written-to tensor");
    REFUSED(tn_index_put_(s, v, TN_TENSORS(tn_arange(s, TN_SCALAR(3))), v),
            "unsupported operation: some elements of the input tensor and the written-to tensor");
    REFUSED(tn_index_fill_(s, i, 0, i, 0),
            "unsupported operation: some elements of the input tensor and the written-to tensor");
    REFUSED(tn_put_(s, v, tn_arange(s, TN_SCALAR(3)), v),
            "unsupported operation: some elements of the input tensor and the written-to tensor");
    REFUSED(tn_masked_fill_scalar_(s, tn_narrow(s, k, 0, 0, 2), tn_narrow(s, k, 0, 1, 2), 1),
            "unsupported operation: some elements of the input tensor and the written-to tensor");
    REFUSED(tn_add_(s, tn_narrow(s, v, 0, 0, 2), tn_narrow(s, v, 0, 1, 2)),
            "unsupported operation: some elements of the input tensor and the written-to tensor");
    REFUSED(tn_add_scalar_(s, tn_expand(s, z, TN_INTS(2)), 1),
            "unsupported operation: more than one element of the written-to tensor refers to a");
    REFUSED(tn_scatter_(s, tn_expand(s, z, TN_INTS(3)), 0, i, v),
            "unsupported operation: more than one element of the written-to tensor refers to a");
    end();
}

Test(refusals_shapes, of_pads_and_splits)
{
    REFUSED(tn_constant_pad_nd(s, v, TN_INTS(1)), "Length of pad must be even but instead it equals 1");
    REFUSED(tn_constant_pad_nd(s, v, TN_INTS(1, 1, 1, 1)),
            "Length of pad should be no more than twice the number of dimensions of the input.");
    REFUSED(tn_constant_pad_nd(s, v, TN_INTS(-2, -2)),
            "The input size 3, plus negative padding -2 and -2 resulted in a negative output");
    REFUSED(tn_reflection_pad2d(s, x, TN_INTS(1, 1)), "padding size is expected to be 4, but got: 2");
    REFUSED(tn_reflection_pad2d(s, r, TN_INTS(1, 1, 1, 1)),
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero");
    REFUSED(tn_reflection_pad2d(s, x, TN_INTS(9, 1, 1, 1)),
            "Argument #4: Padding size should be less than the corresponding input dimension, but");
    REFUSED(tn_replication_pad2d(s, x, TN_INTS(-3, -3, 0, 0)),
            "input (W: 4) is too small. Calculated output W: -2");
    REFUSED(tn_replication_pad1d(s, v, TN_INTS(1, 1)),
            "Expected 2D or 3D (batch mode) tensor with possibly 0 batch size and other non-zero");
    REFUSED(tn__pad_enum(s, x, TN_INTS(1, 1), 9), "Unrecognised padding mode");
    REFUSED(tn_pad(s, x, TN_INTS(1, 1), .mode = "reflect"),
            "pad: argument 'pad': mode 'reflect' takes 2 pads for an input of 2 or 3 dimensions, 4 for 3 or "
            "4, and 6 "
            "for 4 or 5 (got 2 pads and 4 dimensions)");
    REFUSED(tn__pad_circular(s, x, TN_INTS(1)), "Invalid padding size, expected");
    REFUSED(tn_repeat(s, v, TN_INTS(-1)), "Trying to create tensor with negative dimension -");
    REFUSED(tn_tile(s, v, TN_INTS(-1)), "Trying to create tensor with negative dimension -");
    REFUSED(tn_split(s, v, -1), "split expects split_size be non-negative, but got split_size=-1");
    REFUSED(tn_split(s, z, 1), "split expects at least a 1-dimensional tensor");
    REFUSED(tn_split(s, v, 0),
            "split_size can only be 0 if dimension size is 0, but got dimension size of 3");
    REFUSED(tn_split_with_sizes(s, v, TN_INTS(1, 1)),
            "split_with_sizes expects split_sizes to sum exactly to 3 (input tensor's size at");
    REFUSED(tn_split_with_sizes(s, v, TN_INTS(-1, 4)),
            "split_with_sizes expects split_sizes have only non-negative entries, but got");
    REFUSED(tn_unbind(s, z), "Dimension specified as 0 but tensor has no dimensions");
    REFUSED(tn_chunk(s, z, 2), "chunk expects at least a 1-dimensional tensor");
    REFUSED(tn_aten_tensor_split_tensor_indices_or_sections(s, v, v),
            "tensor_split expected tensor_indices_or_sections to have dtype of long");
    REFUSED(tn_aten_tensor_split_tensor_indices_or_sections(s, v, j),
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or");
    end();
}

Test(refusals_shapes, of_strides)
{
    REFUSED(tn_expand(s, m, TN_INTS(3)),
            ", size=[3]): the number of sizes provided (1) must be greater or equal to the number");
    REFUSED(tn_expand(s, v, TN_INTS(2)),
            "The expanded size of the tensor (2) must match the existing size (3) at");
    REFUSED(tn_expand(s, v, TN_INTS(-1, 3)),
            "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing");
    REFUSED(tn_permute(s, m, TN_INTS(0)),
            "permute(sparse_coo): number of dimensions in the tensor input does not match the");
    REFUSED(tn_permute(s, m, TN_INTS(0, 0)), "permute(): duplicate dims are not allowed.");
    REFUSED(tn_as_strided(s, v, TN_INTS(2), TN_INTS(1, 1)), "mismatch in length of strides and shape");
    REFUSED(tn_as_strided(s, v, TN_INTS(2), TN_INTS(-1)),
            "as_strided: Negative strides are not supported at the moment, got strides: [-1]");
    REFUSED(tn_as_strided(s, v, TN_INTS(1), TN_INTS(1), .storage_offset = (int64_t)1 << 62),
            "as_strided: Storage size calculation overflowed with storage offset 4611686018427387904 and 1 "
            "elements of 8 bytes");
    REFUSED(tn_as_strided(s, v, TN_INTS(9), TN_INTS(1)),
            "setStorage: sizes [9], strides [1], storage offset 0, and itemsize 8 requiring a");
    REFUSED(tn_as_strided(s, v, TN_INTS(1), TN_INTS(1), .storage_offset = -2),
            "Tensor: invalid storage offset -2");
    REFUSED(tn__reshape_alias(s, v, TN_INTS(2), TN_INTS(1, 1)), "mismatch in length of strides and shape");
    REFUSED(tn_unfold(s, v, 0, 4, 1), "maximum size for tensor at dimension 0 is 3 but size is 4");
    REFUSED(tn_unfold(s, v, 0, -1, 1), "size is -1 but must be >= 0");
    REFUSED(tn_unfold(s, v, 0, 1, 0), "step is 0 but must be > 0");
    end();
}

Test(refusals_shapes, of_views)
{
    REFUSED(tn_view(s, v, TN_INTS(2)), "shape '[2]' is invalid for input of size 3");
    REFUSED(tn_view(s, v, TN_INTS(-1, -1)), "only one dimension can be inferred");
    REFUSED(tn_view(s, v, TN_INTS(-2)), "invalid shape dimension -2 at index 0 of shape [-2]");
    REFUSED(tn_view(s, tn_t(s, r), TN_INTS(-1)),
            "view size is not compatible with input tensor's size and stride (at least one");
    REFUSED(tn_select(s, z, 0, 0), "select() cannot be applied to a 0-dim tensor.");
    REFUSED(tn_slice(s, z), "slice() cannot be applied to a 0-dim tensor.");
    REFUSED(tn_slice(s, v, .step = 0), "slice step must be positive");
    REFUSED(tn_diagonal(s, m, .dim1 = 0, .dim2 = 0), "diagonal dimensions cannot be identical 0, 0");
    REFUSED(tn_view_as_real(s, v), "view_as_real is only supported for complex tensors");
    REFUSED(tn_view_as_real(s, tn_conj(s, tn_to(s, v, TN_COMPLEX64))),
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the");
    REFUSED(tn_view_as_complex(s, i),
            "view_as_complex is only supported for half, float and double tensors, but got a");
    REFUSED(tn_view_as_complex(s, v), "Tensor must have a last dimension of size 2");
    REFUSED(tn_view_as_complex(s, z), "Input tensor must have one or more dimensions");
    REFUSED(tn_view_as_complex(s, tn_t(s, ones(TN_INTS(2, 3)))),
            "Tensor must have a last dimension with stride 1");
    REFUSED(tn_view_as_complex(s, tn_slice(s, ones(TN_INTS(4)), .start = 1, .end = 3)),
            "Tensor must have a storage_offset divisible by 2");
    REFUSED(tn_view_as_complex(s, tn_as_strided(s, ones(TN_INTS(9)), TN_INTS(2, 2), TN_INTS(3, 1))),
            "Tensor must have a stride divisible by 2 for all but last dimension");
    REFUSED(tn_view_dtype(s, z, TN_FLOAT32),
            "self.dim() cannot be 0 to view Double as Float (different element sizes)");
    REFUSED(tn_view_dtype(s, tn_t(s, r), TN_FLOAT32),
            "self.stride(-1) must be 1 to view Double as Float (different element sizes), but got");
    REFUSED(tn_view_dtype(s, tn_to(s, v, TN_FLOAT32), TN_FLOAT64),
            "self.size(-1) must be divisible by 2 to view Float as Double (different element");
    REFUSED(tn_view_dtype(s, tn_slice(s, tn_to(s, ones(TN_INTS(3)), TN_FLOAT32), .start = 1), TN_FLOAT64),
            "self.storage_offset() must be divisible by 2 to view Float as Double (different");
    REFUSED(tn_view_dtype(
                s, tn_as_strided(s, tn_to(s, ones(TN_INTS(9)), TN_FLOAT32), TN_INTS(2, 2), TN_INTS(3, 1)),
                TN_FLOAT64),
            "self.stride(0) must be divisible by 2 to view Float as Double (different element");
    REFUSED(tn_view_dtype(s, tn_conj(s, tn_to(s, v, TN_COMPLEX64)), TN_INT64),
            "torch.Tensor.view is not supported for conjugate view tensors when converting to a");
    end();
}

Test(refusals_shapes, of_shapes)
{
    REFUSED(tn_unflatten(s, v, 0, TN_NO_INTS), "unflatten: sizes must be non-empty");
    REFUSED(tn_mt(s, v), "tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor.");
    REFUSED(tn_mh(s, v), "is only supported on matrices or batches of matrices. Got 1-D tensor.");
    REFUSED(tn_adjoint(s, v),
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D");
    REFUSED(tn_t(s, b), "t() expects a tensor with <= 2 dimensions, but self is 3D");
    REFUSED(tn_meshgrid(s, TN_TENSORS(m)),
            "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got:");
    REFUSED(tn_meshgrid(s, TN_TENSORS(v, i)), "meshgrid expects all tensors to have the same dtype");
    REFUSED(tn_meshgrid_indexing(s, TN_TENSORS(v), "odd"),
            "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: odd");
    REFUSED(tn_transpose(s, m, 0, 2),
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
    REFUSED(tn_column_stack(s, (tn_tensors){&v, 0}), "column_stack expects a non-empty TensorList");
    REFUSED(tn_rot90(s, m, .dims = TN_INTS(0, 0)),
            "expected rotation dims to be different, but got dim0 = 0 and dim1 = 0");
    REFUSED(tn_rot90(s, m, .dims = TN_INTS(0, 5)),
            "Dimension out of range (expected to be in range of [-2, 1], but got 5)");
    REFUSED(tn_diag_embed(s, z), "Dimension out of range (expected to be in range of [-1, 0], but got -2)");
    REFUSED(tn_combinations(s, m), "Expect a 1D vector, but got shape [3, 3]");
    REFUSED(tn_pixel_unshuffle(s, x, 0), "pixel_unshuffle expects a positive downscale_factor, but got 0");
    REFUSED(tn_channel_shuffle(s, x, 2), "Number of channels must be divisible by groups.");
    REFUSED(tn_pad_sequence(s, TN_TENSORS(z)), "sequences must have at least 1 dimension");
    REFUSED(tn_fill_diagonal_(s, ones(TN_INTS(1, 2, 3)), 1),
            "all dimensions of input must be of equal length");
    REFUSED(tn_fill_diagonal_(s, v, 1), "dimensions must larger than 1");
    REFUSED(tn_fill(s, v, v),
            "fill_ only supports 0-dimension value tensor but got tensor with 1 dimensions.");
    REFUSED(tn_slice_scatter(s, v, v, .start = 1),
            "expected src to have a size equal to the slice of self. src size = [3], slice size =");
    end();
}

Test(refusals_shapes, of_samples_and_statistics)
{
    REFUSED(tn_gradient_tensorarrayint(s, m, TN_TENSORS(v)),
            "torch.gradient expected spacing to be unspecified, a scalar, or a list of length");
    REFUSED(tn_gradient_tensorarrayint(s, m, TN_TENSORS(m, m)),
            "torch.gradient expected each element of spacing to have one dimension, but got an");
    REFUSED(tn_quantile_scalar(s, v, 2), "quantile() q must be in the range [0, 1] but got 2");
    REFUSED(tn_quantile_scalar(s, v, 0.5, .interpolation = "odd"),
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest,");
    REFUSED(tn_quantile_scalar(s, ones(TN_INTS(0)), 0.5), "quantile() input tensor must be non-empty");
    REFUSED(tn_quantile_scalar(s, i, 0.5), "quantile() input tensor must be either float or double dtype");
    REFUSED(tn_quantile(s, v, tn_to(s, v, TN_FLOAT32)),
            "quantile() q tensor must be same dtype as the input tensor");
    REFUSED(tn_quantile(s, v, m), "quantile() q must be a scalar or 1D tensor");
    REFUSED(tn_quantile(s, v, tn_add_scalar(s, v, 1)), "quantile() q values must be in the range [0, 1]");
    REFUSED(tn_histogramdd_int_bins(s, m, 0), "torch.histogramdd(): bins must be positive, but got 0");
    REFUSED(tn_histogramdd(s, r, TN_INTS(2, 2, 2), .range = TN_FLOATS(0, 1)),
            ": for a 3-dimensional histogram range should have 6 elements, but got 2");
    REFUSED(tn_histogramdd(s, r, TN_INTS(2, 0, 2)), "torch.histogramdd(): bins must be positive, but got 0");
    REFUSED(tn_histc(s, v, .min = TN_SCALAR(INFINITY)), "histc: range of [inf, 0] is not finite");
    REFUSED(tn_random_to_(s, tn_to(s, v, TN_UINT8), 999), "to - 1 is out of bounds for u");
    REFUSED(tn_random_from_(s, tn_to(s, v, TN_UINT8), 300, TN_NONE), "from is out of bounds for u");
    REFUSED(tn_random_(s, tn_to(s, v, TN_COMPLEX64)), "\" not implemented for 'ComplexFloat'");
    REFUSED(tn_bernoulli_tensor_(s, v, tn_to(s, v, TN_COMPLEX64)), "the probabilities must be real");
    /* ATen's CPU refuses what is not from 0 to 1, whichever form is called. */
    const double wrong[] = {2, -1, NAN, INFINITY};
    for (int32_t n = 0; n < 4; n++) {
        tn_tensor *p = tn_mul_scalar(s, tn_ones_like(s, v), wrong[n]), *half = tn_to(s, p, TN_FLOAT16);
        REFUSED(tn_bernoulli(s, p), "bernoulli: expects probabilities in [0, 1], but got ");
        REFUSED(tn_bernoulli(s, half), "bernoulli: expects probabilities in [0, 1], but got ");
        REFUSED(tn_bernoulli_out(s, p, tn_zeros_like(s, p)), "expects probabilities in [0, 1], but got ");
        REFUSED(tn_bernoulli_tensor_(s, tn_zeros_like(s, v), p), "expects probabilities in [0, 1], but got ");
        REFUSED(tn_bernoulli_tensor_(s, longs(TN_INTS(4, 3)), p),
                "expects probabilities in [0, 1], but got ");
        REFUSED(tn_bernoulli_tensor(s, v, p), "expects probabilities in [0, 1], but got ");
    }
    REFUSED(tn_bernoulli(s, tn_full(s, TN_INTS(3), 2.0)),
            "bernoulli: expects probabilities in [0, 1], but got 2");
    REFUSED(tn_normal_tensor_tensor(s, v, tn_mul_scalar(s, tn_ones_like(s, v), NAN)),
            "normal expects all elements of std >= 0.0");
    REFUSED(tn_normal_float_tensor(s, 0, tn_mul_scalar(s, tn_ones_like(s, v), NAN)),
            "normal expects all elements of std >= 0.0");
    REFUSED(tn_normal_tensor_tensor(s, v, tn_to(s, v, TN_COMPLEX64)),
            "normal expects standard deviation to be non-complex");
    REFUSED(tn_multinomial(s, tn_neg(s, v), 1),
            "probability tensor contains either `inf`, `nan` or element < 0");
    REFUSED(tn_multinomial(s, tn_zeros_like(s, v), 1),
            "invalid multinomial distribution (sum of probabilities <= 0)");
    REFUSED(tn_empty(s, TN_INTS(2), .memory_format = TN_CHANNELS_LAST_3D),
            "required rank 5 tensor to use channels_last_3d format");
    REFUSED(tn_nuclear_norm_dim(s, m, TN_INTS(0, 0)),
            "linalg.matrix_norm: dims must be different. Got (0, 0)");
    REFUSED(tn_frobenius_norm(s, m, TN_INTS(0, 1, 1)),
            "Expected at most 2 dimensions, but got 3 dimensions instead.");
    end();
}

/* A count that comes from the caller may be any number: nothing is written behind what it asks for. */
Test(refusals_shapes, of_counts_without_end)
{
    const int64_t endless = INT64_C(1) << 62;
    REFUSED(tn_hann_window(s, endless), "memory");
    REFUSED(tn_kaiser_window(s, endless), "memory");
    REFUSED(tn_aten_tensor_split(s, v, endless), "memory");
    REFUSED(tn_pixel_shuffle(s, x, endless), "is not divisible by 4611686018427387904");
    REFUSED(tn_conv2d(s, x, w, .padding = TN_INTS(endless, 0)),
            "padding is out of range (got 4611686018427387904");
    REFUSED(tn__fft_r2c(s, ones(TN_INTS(2, 0)), TN_INTS(1), 0, 1),
            "Invalid number of data points (0) specified");
    cr_expect_eq(tn_tensor_numel(tn_tril_indices(s, endless, 0)), 0);
    end();
}

/* A 0-dim tensor counts as one of size 1 where it is indexed, an index or a source. */
Test(refusals_shapes, indexing_beside_0_dim_tensors)
{
    tn_tensor *first = tn_zeros(s, TN_NO_INTS, .dtype = TN_INT64),
              *twice = tn_zeros(s, TN_INTS(2), .dtype = TN_INT64);
    tn_tensor *none = ones(TN_INTS(0)), *one = ones(TN_INTS(1));
    const char *const source =
        "source tensor shape must match self tensor shape, excluding the specified dimension.";
    tn_tensor *selves[] = {v, one, none};
    for (int32_t at = 0; at < 3; at++) {
        tn_tensor *self = selves[at];
        REFUSED(tn_scatter(s, self, 0, first, none), "Expected index [] to be no larger than self");
        REFUSED(tn_scatter_add(s, self, 0, first, none), "Expected index [] to be no larger than self");
        REFUSED(tn_scatter_reduce(s, self, 0, first, none, "sum"),
                "Expected index [] to be no larger than self");
        REFUSED(tn_scatter_src_reduce(s, self, 0, first, none, "add"),
                "Expected index [] to be no larger than self");
        REFUSED(tn_scatter_(s, tn_clone(s, self), 0, first, none),
                "Expected index [] to be no larger than self");
        REFUSED(tn_scatter(s, self, 0, twice, z), "Expected index [2] to be no larger than self");
    }
    REFUSED(tn_index_add(s, v, 0, first, z), source);
    REFUSED(tn_index_add(s, z, 0, first, one), source);
    REFUSED(tn_index_add(s, r, 1, first, z), source);
    REFUSED(tn_index_reduce(s, r, 0, first, z, "amax"), source);
    REFUSED(tn_index_copy(s, r, 0, first, z), source);
    REFUSED(tn_index_copy(s, r, 1, first, z), source);
    EXPECT(s, tn_index_copy(s, tn_zeros_like(s, v), 0, first, z), 1, 0, 0);
    EXPECT(s, tn_index_copy(s, tn_zeros_like(s, z), 0, first, one), 1);
    EXPECT(s, tn_index_add(s, z, 0, first, z), 2);
    EXPECT(s, tn_scatter(s, tn_zeros_like(s, v), 0, first, one), 1, 0, 0);
    end();
}
