/* SPDX-License-Identifier: Apache-2.0 */
/* Refused calls of pointwise operators, products, reductions and decompositions. */
#include "refusals_operands.h"

TestSuite(refusals_math, .init = begin_with_operands);

Test(refusals_math, of_activations)
{
    REFUSED(tn_celu(s, v, .alpha = TN_SCALAR(0)), "ZeroDivisionError: alpha cannot be 0 for CELU");
    REFUSED(tn_prelu(s, v, tn_to(s, v, TN_FLOAT32)),
            "prelu: Type promoting not supported. Got Double and Float");
    REFUSED(tn_prelu(s, z, ones(TN_INTS(2))), "Not allow zero-dim input tensor.");
    REFUSED(tn_prelu(s, m, ones(TN_INTS(2))),
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = 2");
    REFUSED(tn_prelu(s, m, m),
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = 9");
    REFUSED(tn_rrelu(s, v, .lower = TN_SCALAR(1), .upper = TN_SCALAR(0)),
            "Lower bound should be less than or equal to the upper bound");
    REFUSED(tn_glu(s, z), "glu does not support 0-dimensional tensors");
    REFUSED(tn_glu(s, v), "Halving dimension must be even, but dimension 0 is size 3");
    REFUSED(tn_softshrink(s, v, .lambd = TN_SCALAR(-1)), "] for input dtype Double, but found -1");
    REFUSED(tn_softshrink(s, v, .lambd = TN_SCALAR(NAN)), "] for input dtype Double, but found nan");
    REFUSED(tn_softshrink(s, tn_to(s, v, TN_FLOAT16), .lambd = TN_SCALAR(1e6)),
            "lambda must be in range [0, 65504] for input dtype Half, but found 1e+06");
    REFUSED(tn_float_power_tensor_scalar_(s, tn_to(s, v, TN_FLOAT32), 2),
            "the base given to float_power_ has dtype Float but the operation's result requires");
    REFUSED(tn_float_power_(s, v, tn_to(s, v, TN_COMPLEX64)),
            "the base given to float_power_ has dtype Double but the operation's result requires");
    REFUSED(tn_float_power_out(s, v, v, tn_to(s, v, TN_FLOAT32)),
            "the output given to float_power has dtype Float but the operation's result requires");
    REFUSED(tn_polygamma(s, -1, v), "polygamma(n, x) does not support negative n.");
    REFUSED(tn_polygamma_(s, longs(TN_INTS(2)), 1),
            "result type Float can't be cast to the desired output type Long");
    end();
}

Test(refusals_math, of_operand_dtypes)
{
    REFUSED(tn_mvlgamma(s, v, 0), "p has to be greater than or equal to 1");
    REFUSED(tn_add(s, i, i, .alpha = TN_SCALAR(0.5)),
            "For integral input tensors, argument alpha must not be a floating point number.");
    REFUSED(tn_add(s, v, v, .alpha = IMAGINARY),
            "For non-complex input tensors, argument alpha must not be a complex number.");
    REFUSED(tn_add(s, v, v, .alpha = tn_value_bool(1)), "Boolean alpha only supported for Boolean results.");
    REFUSED(tn_sub(s, k, k),
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^`");
    REFUSED(tn_sub(s, v, k),
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are");
    REFUSED(tn_neg(s, k),
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to");
    REFUSED(tn_pow(s, k, k), "\"pow\" not implemented for 'Bool'");
    REFUSED(tn_where(s, v, v, v),
            "where expected condition to be a boolean tensor, but got a tensor with dtype Double");
    REFUSED(tn_div_tensor_mode(s, v, v, "odd"),
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found 'odd'");
    REFUSED(tn_gelu(s, v, .approximate = "odd"), "approximate argument must be either none or tanh, got odd");
    REFUSED(tn_gelu_backward(s, v, v, .approximate = "odd"),
            "approximate argument must be either none or tanh, got odd");
    REFUSED(tn_complex(s, i, i),
            "Expected both inputs to be Half, Float or Double tensors but got Long and Long");
    REFUSED(tn_complex(s, v, tn_to(s, v, TN_FLOAT32)),
            "Expected object of scalar type Double but got scalar type Float for second argument");
    REFUSED(tn_frexp(s, i).mantissa, "torch.frexp() only supports floating-point dtypes");
    REFUSED(tn_clamp(s, tn_to(s, v, TN_COMPLEX128), .min = TN_SCALAR(0)),
            "clamp is not supported for complex types");
    REFUSED(tn_pow_tensor_scalar(s, i, -1), "Integers to negative integer powers are not allowed.");
    REFUSED(tn_isclose(s, v, i), "Double did not match Long");
    REFUSED(tn_isclose(s, v, v, .rtol = -1), "rtol must be greater than or equal to zero, but got -1");
    REFUSED(tn_isclose(s, v, v, .atol = -1), "atol must be greater than or equal to zero, but got -1");
    REFUSED(tn_isin(s, tn_to(s, v, TN_COMPLEX64), v), "Unsupported input type encountered for isin():");
    REFUSED(tn_imag(s, v), "imag is not implemented for tensors with non-complex dtypes.");
    end();
}

Test(refusals_math, of_products)
{
    REFUSED(tn_baddbmm(s, b, b, ones(TN_INTS(1, 3, 2))),
            "Expected size for first two dimensions of batch2 tensor to be: [2, 3] but got: [1,");
    REFUSED(tn_addbmm(s, m, b, ones(TN_INTS(1, 3, 2))),
            "batch1 and batch2 must have same number of batches, got 2 and 1");
    REFUSED(tn_addbmm(s, m, b, b), "Incompatible matrix sizes for bmm (2x3 and 2x3)");
    REFUSED(tn_addr(s, j, i, i, .alpha = TN_SCALAR(0.5)),
            "For integral input tensors, argument alpha must not be a floating point number.");
    REFUSED(tn_addr(s, j, i, i, .beta = tn_value_bool(1)),
            "Boolean beta only supported for Boolean results.");
    REFUSED(tn_bmm(s, b, tn_to(s, b, TN_FLOAT32)),
            "Expected size for first two dimensions of batch2 tensor to be: [2, 3] but got: [2,");
    REFUSED(tn_addmv(s, v, v, v), "vector + matrix @ vector expected, got 1, 1, 1");
    REFUSED(tn_addmv(s, v, m, tn_to(s, v, TN_FLOAT32)), "expected scalar type Double but found Float");
    REFUSED(tn_addmv(s, ones(TN_INTS(2)), m, v), "size mismatch, got input (2), mat (3x3), vec (3)");
    REFUSED(tn_linear(s, v, b), "weight must have 1 or 2 dimensions, got 3");
    REFUSED(tn_linear(s, r, ones(TN_INTS(2, 2))), "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x2)");
    REFUSED(tn_linear(s, r, tn_to(s, r, TN_FLOAT32)), "have the same dtype, but got");
    REFUSED(tn_bilinear(s, r, m, b), "bilinear(): input batch dimensions do not match at dim 0: got 2 and 3");
    REFUSED(tn_bilinear(s, r, r, b),
            "bilinear(): input1 size does not match weight size: got 3 but expected 2");
    REFUSED(tn_bilinear(s, m, m, ones(TN_INTS(2, 3, 3)), .bias = v),
            "bilinear(): bias size does not match weight size: got 3 but expected 2");
    REFUSED(tn_bilinear(s, z, v, m), "bilinear(): input dimensions do not match: got 0 and 1");
    REFUSED(tn_bilinear(s, z, z, m),
            "bilinear(): the inputs must have at least 1 dimension (got tensors without any)");
    REFUSED(tn_bilinear(s, v, v, m),
            "bilinear(): the weight must have 3 dimensions (got a tensor of 2 dimensions)");
    REFUSED(tn_bilinear(s, v, v, v),
            "bilinear(): the weight must have 3 dimensions (got a tensor of 1 dimension)");
    REFUSED(tn_bilinear(s, m, m, ones(TN_INTS(2, 3, 3)), .bias = z),
            "bilinear(): the bias must have 1 dimension (got a tensor without any)");
    REFUSED(tn_einsum(s, "i", (tn_tensors){&v, 0}), "einsum(): must provide at least one operand");
    end();
}

Test(refusals_math, of_norms_and_reductions)
{
    REFUSED(tn_linalg_multi_dot(s, TN_TENSORS(m, tn_to(s, m, TN_FLOAT32))),
            "expected m1 and m2 to have the same dtype, but got: Double != Float");
    REFUSED(tn_linalg_vander(s, v, .N = 1), "N must be greater than 1.");
    REFUSED(tn_matrix_exp(s, v), "linalg.matrix_exp: The input tensor A must have at least 2 dimensions.");
    REFUSED(tn__cdist_forward(s, v, m, 2, TN_NONE), "cdist only supports at least 2D tensors, X1 got: 1D");
    REFUSED(tn__cdist_forward(s, r, ones(TN_INTS(2, 2)), 2, TN_NONE),
            "X1 and X2 must have the same number of columns. X1: 3 X2: 2");
    REFUSED(tn__cdist_forward(s, m, m, -1, TN_NONE), "cdist only supports non-negative p values");
    REFUSED(tn__cdist_forward(s, m, m, NAN, TN_NONE), "cdist only supports non-negative p values");
    REFUSED(tn__pdist_forward(s, v), "pdist only supports 2D tensors, got: 1D");
    REFUSED(tn_cosine_similarity(s, i, i),
            "expected common dtype to be floating point, yet common dtype is Long");
    REFUSED(tn_linalg_vector_norm(s, i),
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got Long");
    REFUSED(tn_linalg_vector_norm(s, v, .dtype = TN_INT64),
            "linalg.vector_norm: the dtype of the input (Double) should be convertible without");
    REFUSED(tn_linalg_vector_norm(s, v, .dtype = TN_COMPLEX64),
            "linalg.vector_norm: dtype should be real for real inputs, but got ComplexFloat");
    REFUSED(tn_linalg_vector_norm(s, ones(TN_INTS(0)), .ord = TN_SCALAR(INFINITY)),
            "linalg.vector_norm cannot compute the inf norm on an empty tensor because the");
    REFUSED(tn_linalg_vector_norm(s, ones(TN_INTS(2, 0)), .ord = TN_SCALAR(INFINITY), .dim = TN_INTS(1)),
            "because this dimension is empty and the operation does not have an identity");
    REFUSED(tn_sum_to_size(s, m, TN_INTS(2)), "size {[2]} is not expandable to size {[3, 3]}.");
    REFUSED(tn_nansum(s, tn_to(s, v, TN_COMPLEX64)), "does not support complex inputs");
    REFUSED(tn_mean(s, i),
            "mean(): could not infer output dtype. Input dtype must be either a floating point or");
    REFUSED(tn_var(s, i), "std and var only support floating point and complex dtypes");
    REFUSED(tn_std(s, i), "std and var only support floating point and complex dtypes");
    REFUSED(tn_std_mean(s, i).result0, "std_mean only support floating point and complex dtypes");
    REFUSED(tn_kthvalue(s, v, 4).values,
            "kthvalue(): selected number k out of range for dimension 0: got 4, expected 1 to 3");
    REFUSED(tn_renorm(s, m, IMAGINARY, 0, 1), "renorm: p must be real-valued");
    end();
}

Test(refusals_math, of_covariances_and_hashes)
{
    REFUSED(tn_cov(s, ones(TN_INTS(1, 1, 1))),
            "cov(): expected input to have two or fewer dimensions but got an input with 3");
    REFUSED(tn_cov(s, k), "cov(): bool dtype is not supported for input");
    REFUSED(tn_cov(s, m, .fweights = v),
            "cov(): expected fweights to have integral dtype but got fweights with Double dtype");
    REFUSED(tn_cov(s, m, .fweights = k),
            "cov(): expected fweights to have integral dtype but got fweights with Bool dtype");
    REFUSED(tn_cov(s, m, .fweights = longs(TN_INTS(3, 3))),
            "cov(): expected fweights to have one or fewer dimensions but got fweights with 2");
    REFUSED(tn_cov(s, m, .fweights = i),
            "cov(): expected fweights to have the same numel as there are observations in the");
    REFUSED(tn_cov(s, m, .fweights = tn_neg(s, longs(TN_INTS(3)))), "cov(): fweights cannot be negative");
    REFUSED(tn_cov(s, m, .aweights = longs(TN_INTS(3))),
            "cov(): expected aweights to have floating point dtype but got aweights with Long");
    REFUSED(tn_cov(s, m, .aweights = tn_neg(s, v)), "cov(): aweights cannot be negative");
    REFUSED(tn_cov(s, m, .aweights = tn_zeros_like(s, v)), "cov(): weights sum to zero, can't be normalized");
    REFUSED(tn_corrcoef(s, ones(TN_INTS(1, 1, 1))),
            "corrcoef(): expected input to have two or fewer dimensions but got an input with 3");
    REFUSED(tn_hash_tensor(s, v, .mode = 1), "Unknown hash_tensor mode: 1");
    REFUSED(tn_hash_tensor(s, tn_to(s, v, TN_COMPLEX64)), "\" not implemented for 'ComplexFloat'");
    REFUSED(tn_hash_tensor(s, ones(TN_INTS(0))),
            ": Expected reduction dim to be specified for input.numel() == 0. Specify the");
    REFUSED(tn_hash_tensor(s, ones(TN_INTS(0, 2)), .dim = TN_INTS(0)),
            ": Expected reduction dim 0 to have non-zero size.");
    end();
}

Test(refusals_math, of_decompositions)
{
    REFUSED(tn_linalg_cholesky(s, j), ": Expected a floating point or complex tensor as input. Got Long");
    REFUSED(tn_linalg_cholesky(s, v), ": The input tensor A must have at least 2 dimensions.");
    REFUSED(tn_linalg_cholesky(s, r), ": A must be batches of square matrices, but they are 2 by 3 matrices");
    REFUSED(tn_linalg_det(s, r),
            "linalg.det: A must be batches of square matrices, but they are 2 by 3 matrices");
    REFUSED(tn_linalg_inv(s, r),
            "linalg.inv: A must be batches of square matrices, but they are 2 by 3 matrices");
    REFUSED(tn_linalg_solve(s, m, ones(TN_INTS(2, 2))),
            "solve: Incompatible shapes of A and B for the equation AX = B (3x3 and 2x2)");
    REFUSED(tn_linalg_solve(s, m, tn_to(s, m, TN_FLOAT32)),
            "solve: Expected A and B to have the same dtype, but found A of type Double and B of");
    REFUSED(tn_linalg_solve_triangular(s, m, ones(TN_INTS(2, 2)), 1),
            "solve_triangular: Incompatible shapes of A and B for the equation AX = B (3x3 and");
    REFUSED(tn_linalg_lu_solve(s, m, v, m), "Expected pivots of type Int, but got Double");
    REFUSED(tn_linalg_lu_solve(s, m, tn_to(s, i, TN_INT32), m),
            "lu_solve: Number of pivots per batch should be same as the dimension of the matrix");
    REFUSED(tn_linalg_eigh(s, m, .UPLO = "x").eigenvalues,
            "Expected UPLO argument to be 'L' or 'U', but got x");
    REFUSED(tn_linalg_qr(s, m, .mode = "odd").Q,
            "qr received unrecognized mode 'odd' but expected one of 'reduced' (default), 'r', or");
    /* LAPACK's function does not end on infinities. */
    REFUSED(
        tn_linalg_svd(s, tn_mul_scalar(s, m, INFINITY)).U,
        "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values.");
    REFUSED(tn_linalg_householder_product(s, r, v),
            "householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]");
    REFUSED(tn_linalg_householder_product(s, m, ones(TN_INTS(4))),
            "householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]");
    REFUSED(tn_linalg_householder_product(s, ones(TN_INTS(2, 3, 3)), v), "householder_product: Expected");
    REFUSED(tn_ormqr(s, m, ones(TN_INTS(4)), m),
            "other.shape[-2] must be greater than or equal to tau.shape[-1]");
    REFUSED(tn_ormqr(s, m, v, ones(TN_INTS(4, 3))),
            "ormqr: other.shape[-2] must be equal to input.shape[-2]");
    REFUSED(tn_ormqr(s, m, v, ones(TN_INTS(2, 3, 3))),
            "batch dimensions of other should be equal to those of input");
    REFUSED(tn_ormqr(s, m, v, r), "ormqr: other.shape[-2] must be");
    end();
}

/* svdvals, or its refusal, of a 3x4 matrix of ones of which one element is another number. */
static tn_tensor *values_with(tn_dtype dtype, int32_t layout, int64_t at, double number)
{
    const double pair[] = {1, number};
    tn_tensor *a = tn_ones(s,
                           TN_INTS(layout == 1 ? 4 : 3, layout == 2   ? 8
                                                        : layout == 1 ? 3
                                                                      : 4),
                           .dtype = dtype);
    if (layout == 1) a = tn_t(s, a);
    if (layout == 2) { /* every second column of a matrix whose other columns do not count */
        tn_fill_scalar_(s, tn_slice(s, a, .dim = 1, .start = 1, .step = 2), NAN);
        a = tn_slice(s, a, .dim = 1, .step = 2);
    }
    tn_tensor *element = tn_select(s, tn_select(s, a, 0, at / 4), 0, at % 4);
    tn_fill_scalar_(s, element, tn_dtype_is_complex(dtype) ? tn_value_complex(pair) : tn_value_float(number));
    return tn_linalg_svdvals(s, a);
}

/* In each place, whatever the strides are; in imaginary parts, too. */
Test(refusals_math, of_numbers_that_are_not_finite)
{
    static const char refused[] = "the input matrix contained non-finite values.";
    static const tn_dtype dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_COMPLEX64, TN_COMPLEX128};
    static const double numbers[] = {INFINITY, -INFINITY, NAN};
    for (int32_t which = 0; which < 4 * 3; which++) {
        for (int64_t at = 0; at < 12; at++)
            REFUSED(values_with(dtypes[which / 3], which % 3, at, numbers[at % 3]), refused);
        tn_tensor *values =
            values_with(dtypes[which / 3], which % 3, 5, tn_dtype_is_complex(dtypes[which / 3]) ? 0 : 1);
        cr_assert_not_null(values, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
        cr_expect_float_eq(tn_item_double(s, tn_sum(s, values)), sqrt(12), 1e-5); /* rank 1 */
    }
    end();
}

Test(refusals_math, of_solvers)
{
    REFUSED(tn_linalg_lstsq(s, m, v, .driver = "odd").solution,
            "lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
    REFUSED(tn_linalg_lstsq(s, m, ones(TN_INTS(2))).solution,
            "lstsq: input.size(-2) should match other.size(-1)");
    tn_tensor *infinite = tn_clone(s, tn_to(s, tn_eye(s, 5), TN_FLOAT32));
    tn_fill_scalar_(s, tn_slice(s, tn_select(s, infinite, 0, 0), .end = 1), INFINITY);
    for (int32_t d = 0; d < 2; d++) /* LAPACK's functions do not end on infinities */
        REFUSED(tn_linalg_lstsq(s, infinite, infinite, .driver = d ? "gelsd" : "gelss").solution,
                "linalg.lstsq: Argument 4 has an illegal value, for example NaN or infinity.");
    cr_expect_not_null(tn_linalg_lstsq(s, infinite, infinite).solution); /* gelsy ends: NaN and zeros */
    REFUSED(tn_linalg_tensorinv(s, m, .ind = 0), "xpected a strictly positive integer for 'ind'");
    REFUSED(tn_linalg_tensorinv(s, r, .ind = 1),
            "Expected self to satisfy the requirement prod(self.shape[ind:]) ==");
    REFUSED(tn_linalg_tensorsolve(s, r, v),
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) ==");
    REFUSED(tn_linalg_ldl_solve(s, m, v, m), "ldl_solve: Expected pivots");
    REFUSED(tn_lu_unpack(s, m, v).P, "Expected pivots of type Int, but got Double");
    REFUSED(tn_linalg_matrix_rank(s, v, 1), "linalg.matrix_rank: The input tensor");
    REFUSED(tn_linalg_pinv_atol_rtol_float(s, v),
            "linalg.pinv: The input tensor A must have at least 2 dimensions.");
    REFUSED(tn_linalg_cond(s, v), "must have at least 2 dimensions.");
    REFUSED(tn_linalg_pinv_atol_rtol_tensor(s, m, .atol = tn_to(s, v, TN_COMPLEX64)),
            ": atol tensor of complex type is not supported. Got ComplexFloat");
    REFUSED(tn_cholesky_solve(s, v, m), "have at least 2 dimensions");
    REFUSED(tn_triangular_solve(s, v, m).solution, "have at least 2 dimensions");
    REFUSED(tn_linalg_eig(s, r).eigenvalues,
            "must be batches of square matrices, but they are 2 by 3 matrices");
    REFUSED(tn_linalg_eig(s, v).eigenvalues, "must have at least 2 dimensions.");
    REFUSED(tn_linalg_matrix_exp(s, r),
            "linalg.matrix_exp: A must be batches of square matrices, but they are 2 by 3 matrices");
    REFUSED(tn_scaled_dot_product_attention(s, m, m, m, .attn_mask = m, .is_causal = 1),
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when");
    REFUSED(tn__chunk_cat(s, TN_TENSORS(v, i), 0, 2),
            "_chunk_cat expects all input tensors with the same dtype");
    end();
}

Test(refusals_math, spectra_of_parts)
{
    tn_tensor *signal = ones(TN_INTS(16)), *cube = ones(TN_INTS(2, 2, 2)), *window = ones(TN_INTS(4));
    REFUSED(tn_stft(s, signal, 4, .hop_length = 0, .return_complex = 1),
            "stft: expected hop_length > 0, but got hop_length=0");
    REFUSED(tn_stft(s, signal, 4, .win_length = 5, .return_complex = 1),
            "stft: expected 0 < win_length <= n_fft, but got win_length=5");
    REFUSED(tn_stft(s, signal, 8, .window = window, .return_complex = 1),
            "stft: expected a 1D window tensor of size equal to win_length=8, but got window with size [4]");
    REFUSED(tn_stft(s, tn_to(s, signal, TN_INT64), 4, .return_complex = 1),
            "stft: expected a tensor of floating point or complex values");
    REFUSED(tn_stft(s, cube, 2, .return_complex = 1), "stft: expected a 1D or 2D tensor");
    tn_tensor *spectra = tn_stft(s, signal, 4, .return_complex = 1),
              *turning = tn_to(s, window, TN_COMPLEX128);
    cr_assert_not_null(spectra);
    REFUSED(tn_istft(s, signal, 4), "istft requires a complex-valued input tensor");
    REFUSED(tn_istft(s, tn_to(s, ones(TN_INTS(0)), TN_COMPLEX128), 4),
            "istft: input tensor cannot be empty.");
    REFUSED(tn_istft(s, tn_select(s, spectra, 0, 0), 4),
            "istft: expected a tensor with 2 or 3 dimensions, but got 1");
    REFUSED(tn_istft(s, spectra, 8),
            "istft: expected the frequency dimension (2nd to the last) of the input tensor to "
            "match n_fft / 2 + 1 when onesided=True, but got 3");
    REFUSED(tn_istft(s, spectra, 4, .hop_length = 5), "istft: expected 0 < hop_length <= win_length");
    REFUSED(tn_istft(s, spectra, 4, .win_length = 5), "istft: expected 0 < win_length <= n_fft");
    REFUSED(tn_istft(s, spectra, 4, .window = ones(TN_INTS(3))), "istft: Invalid window shape.");
    REFUSED(tn_istft(s, spectra, 4, .window = turning, .onesided = 1),
            "Complex windows are incompatible with return_complex=False");
    REFUSED(tn_istft(s, spectra, 4, .onesided = 1, .return_complex = 1),
            "Cannot have onesided output if window or input is complex");
    end();
}

/* Two sequences of at most three steps and four labels. */
Test(refusals_math, losses_of_sequences)
{
    tn_tensor *p = ones(TN_INTS(3, 2, 4)), *targets = tn_to(s, ones(TN_INTS(2, 2)), TN_INT64);
    const tn_ints three = TN_INTS(3, 3), two = TN_INTS(2, 2);
    REFUSED(tn__ctc_loss(s, ones(TN_INTS(3, 4)), targets, three, two).result0,
            "argument 'log_probs': must have 3 dimensions (got 2)");
    REFUSED(tn__ctc_loss(s, ones(TN_INTS(0, 2, 4)), targets, three, two).result0,
            "log_probs tensor must not be empty");
    REFUSED(tn__ctc_loss(s, p, ones(TN_INTS(2, 2)), three, two).result0,
            "argument 'targets': must be integers (got Double)");
    REFUSED(tn__ctc_loss(s, p, targets, three, two, .blank = 4).result0, "blank must be in label range");
    REFUSED(tn__ctc_loss(s, p, targets, TN_INTS(3), two).result0, "input_lengths must be of size batch_size");
    REFUSED(tn__ctc_loss(s, p, targets, three, TN_INTS(2)).result0,
            "target_lengths must be of size batch_size");
    REFUSED(tn__ctc_loss(s, p, targets, TN_INTS(3, 4), two).result0,
            "Expected input_lengths to have value at most 3, but got value 4");
    REFUSED(tn__ctc_loss(s, p, targets, three, TN_INTS(2, -1)).result0,
            "Expected target_lengths to have value at least 0, but got value -1");
    REFUSED(tn__ctc_loss(s, p, targets, three, TN_INTS(2, 3)).result0,
            "argument 'targets': must have 5 elements, or the size [2, 3] or more (got [2, 2])");
    end();
}
