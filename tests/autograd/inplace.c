/* SPDX-License-Identifier: Apache-2.0 */
/* In-place calls, views of what they change, and the errors that keep gradients right. */
#include "suite.h"

TestSuite(inplace, .init = begin);

Test(inplace, chain_of_changes)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2, 3), *y = tn_mul_scalar(s, x, 2);
    tn_mul_(s, y, y); /* 4 x^2 */
    expect_sound(s);
    tn_tensor *z = tn_clone(s, tn_mul_scalar(s, x, 3));
    tn_exp_(s, z);
    tn_backward(s, tn_sum(s, z));
    EXPECT(s, tn_grad_of(s, x), 60.256610769563004, 1210.2863804782053, 24309.251782727225);
    tn_backward(s, tn_sum(s, y)); /* both factors were overwritten */
    expect_error(
        s, "one of the variables needed for gradient computation has been modified by an inplace operation: "
           "[torch.DoubleTensor [3]]");
    end();
}

Test(inplace, saved_value_changed)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *y = tn_exp(s, x);
    tn_add_scalar_(s, y, 1);
    tn_backward(s, tn_sum(s, y));
    expect_error(s, "which is output 0 of ExpBackward, is at version 1; expected version 0 instead.");
    tn_tensor *w = VECTOR(s, 0, 3, 4), *z = tn_mul(s, x, w);
    tn_add_scalar_(s, w, 1);
    tn_backward(s, tn_sum(s, z));
    expect_error(s, "[torch.DoubleTensor [2]] is at version 1; expected version 0 instead.");
    tn_tensor *kept = tn_add(s, x, w); /* saves nothing */
    tn_add_scalar_(s, kept, 1);
    tn_backward(s, tn_sum(s, kept));
    EXPECT(s, tn_grad_of(s, x), 1, 1);
    end();
}

Test(inplace, self_is_kept_where_the_rule_needs_it)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *y = tn_mul_scalar(s, x, 3);
    tn_sin_(s, y);
    tn_tensor *grad, *second;
    tn_backward_options create = {.size = sizeof create, .create_graph = 1};
    tn_grad(s, TN_TENSORS(tn_sum(s, y)), TN_TENSORS(x), &create, &grad);
    EXPECT(s, grad, 3 * -0.98999249660044542, 3 * 0.96017028665036597);
    tn_grad(s, TN_TENSORS(tn_sum(s, grad)), TN_TENSORS(x), NULL, &second);
    EXPECT(s, second, -9 * 0.14112000805986721, 9 * 0.27941549819892586);
    end();
}

Test(inplace, leaves_are_refused)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *plain = VECTOR(s, 0, 1, 2);
    tn_mul_(s, x, plain);
    expect_error(s, "a leaf Variable that requires grad is being used in an in-place operation.");
    tn_mul_(s, tn_select(s, x, 0, 0), tn_select(s, plain, 0, 0));
    expect_error(s, "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    uint32_t mode = tn_set_grad_mode(TN_GRAD_OFF);
    tn_mul_(s, x, plain);
    tn_set_grad_mode(mode);
    EXPECT(s, x, 1, 4);
    tn_mul_(s, plain, x); /* becomes part of the graph */
    cr_assert_eq(tn_requires_grad(plain), 1);
    tn_backward(s, tn_sum(s, plain));
    EXPECT(s, tn_grad_of(s, x), 1, 2);
    end();
}

Test(inplace, write_through_a_view)
{
    tn_tensor *x = make(s, TN_INTS(2, 2), VALUES(1, 2, 3, 4), 1), *w = VECTOR(s, 1, 10, 100);
    tn_tensor *y = tn_mul_scalar(s, x, 2), *row = tn_select(s, y, 0, 1);
    tn_mul_(s, row, w);
    EXPECT(s, y, 2, 4, 60, 800);
    cr_assert_str_eq(tn_node_name(tn_grad_fn(y)), "CopySlices");
    cr_assert_str_eq(tn_node_name(tn_grad_fn(row)), "AsStridedBackward");
    tn_backward(s, tn_sum(s, tn_mul(s, y, y)));
    EXPECT(s, tn_grad_of(s, x), 8, 16, 2 * 60 * 20, 2 * 800 * 200);
    EXPECT(s, tn_grad_of(s, w), 2 * 60 * 6, 2 * 800 * 8);
    end();
}

Test(inplace, write_through_a_view_of_a_plain_base)
{
    tn_tensor *w = VECTOR(s, 1, 5, 7), *base = make(s, TN_INTS(2, 2), VALUES(1, 2, 3, 4), 0);
    tn_tensor *column = tn_select(s, base, 1, 0), *other = tn_select(s, base, 1, 1);
    tn_copy_(s, column, w);
    cr_assert_eq(tn_requires_grad(base), 1);
    cr_assert_eq(tn_requires_grad(column), 1);
    cr_assert_eq(tn_requires_grad(other), 1); /* it follows its base */
    tn_backward(s, tn_sum(s, tn_mul(s, base, base)));
    EXPECT(s, tn_grad_of(s, w), 10, 14);
    end();
}

Test(inplace, views_follow_their_base)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2, 3), *y = tn_mul_scalar(s, x, 1);
    tn_tensor *first = tn_slice(s, y, .start = 0, .end = 2);
    tn_mul_scalar_(s, y, 10);
    EXPECT(s, first, 10, 20);
    tn_backward(s, tn_sum(s, first));
    EXPECT(s, tn_grad_of(s, x), 10, 10, 0);
    end();
}

Test(inplace, transposed_and_expanded_views)
{
    tn_tensor *x = make(s, TN_INTS(2, 3), VALUES(1, 2, 3, 4, 5, 6), 1), *y = tn_mul_scalar(s, x, 1);
    tn_tensor *t = tn_t(s, y), *wide = tn_expand(s, tn_select(s, y, 0, 0), TN_INTS(4, 3));
    tn_mul_scalar_(s, tn_select(s, t, 0, 1), 5); /* column 1 of y */
    EXPECT(s, y, 1, 10, 3, 4, 25, 6);
    tn_backward(s, tn_sum(s, wide)); /* row 0, four times */
    EXPECT(s, tn_grad_of(s, x), 4, 20, 4, 0, 0, 0);
    end();
}

Test(inplace, outputs_of_split_are_refused)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2, 3, 4), *y = tn_mul_scalar(s, x, 1);
    tn_tensors parts = tn_split(s, y, 2);
    tn_mul_scalar_(s, parts.data[1], 2);
    expect_error(
        s, "Output 1 of SplitBackward is a view and is being modified inplace. This view is the output of a "
           "function that returns multiple views.");
    end();
}

Test(inplace, views_made_without_recording)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *y = tn_mul_scalar(s, x, 2);
    uint32_t mode = tn_set_grad_mode(TN_GRAD_OFF);
    tn_tensor *view = tn_select(s, y, 0, 0);
    tn_set_grad_mode(mode);
    cr_assert_eq(tn_requires_grad(view), 0);
    cr_assert_eq(tn_requires_grad(tn_mul(s, view, view)), 0);
    tn_mul_scalar_(s, view, 2);
    expect_error(s,
                 "A view was created in no_grad mode and is being modified inplace with grad mode enabled.");
    end();
}

/* One more for each call, also where nothing changes; resize_ only counts what it changes, detach_ nothing. */
Test(inplace, views_in_place_raise_the_version)
{
    tn_tensor *x = tn_reshape(s, VECTOR(s, 0, 1, 2, 3, 4, 5, 6), TN_INTS(2, 3));
    tn_t_(s, x);
    cr_expect_eq(tn_tensor_version(x), 1);
    tn_transpose_(s, x, 0, 1);
    tn_unsqueeze_(s, x, 0);
    tn_squeeze_(s, x);
    tn_squeeze_(s, x);
    cr_expect_eq(tn_tensor_version(x), 5);
    tn_squeeze_dim_(s, x, 0);
    tn_squeeze_dims_(s, x, TN_INTS(1));
    tn_swapaxes_(s, x, 0, 1);
    tn_swapdims_(s, x, 0, 1);
    tn_as_strided_(s, x, TN_INTS(6), TN_INTS(1));
    cr_expect_eq(tn_tensor_version(x), 10);
    tn_resize_(s, x, TN_INTS(6));
    cr_expect_eq(tn_tensor_version(x), 10);
    tn_resize_(s, x, TN_INTS(3, 2));
    cr_expect_eq(tn_tensor_version(x), 11);
    tn_set_(s, x);
    cr_expect_eq(tn_tensor_version(x), 12);
    tn_tensor *y = tn_exp(s, VECTOR(s, 1, 1, 2));
    tn_detach_(s, y);
    cr_expect_eq(tn_tensor_version(y), 0);
    tn_tensor *z = tn_unsqueeze(s, tn_mul_scalar(s, VECTOR(s, 1, 1, 2), 2), 0), *square;
    z = tn_clone(s, z);
    square = tn_mul(s, z, z);
    tn_t_(s, z);
    tn_backward(s, tn_sum(s, square));
    expect_error(s, "is at version 1; expected version 0 instead.");
    end();
}

Test(inplace, detached_alias_shares_the_version)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *y = tn_exp(s, x), *d = tn_detach(s, y);
    cr_assert_eq(tn_tensor_is_alias(y, d), 1);
    tn_zero_(s, d);
    tn_backward(s, tn_sum(s, y));
    expect_error(s, "modified by an inplace operation");
    end();
}

/* A copy that the operator lays out by a view inside is not a view outside. */
Test(inplace, results_that_were_views_on_the_way)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *wide = tn_repeat(s, x, TN_INTS(2, 2));
    tn_mul_scalar_(s, wide, 3);
    tn_backward(s, tn_sum(s, wide));
    EXPECT(s, tn_grad_of(s, x), 12, 12);
    tn_tensor *y = VECTOR(s, 1, 1, 2), *tiled = tn_tile(s, y, TN_INTS(2));
    tn_neg_(s, tn_select(s, tiled, 0, 0));
    tn_backward(s, tn_sum(s, tiled));
    EXPECT(s, tn_grad_of(s, y), 0, 2);
    end();
}

Test(inplace, a_leaf_that_was_detached_takes_no_gradient)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *w = VECTOR(s, 1, 3, 4), *y = tn_mul(s, x, w);
    tn_detach_(s, x);
    tn_backward(s, tn_sum(s, y));
    expect_sound(s);
    cr_assert_null(tn_grad_of(s, x));
    EXPECT(s, tn_grad_of(s, w), 1, 2);
    tn_detach_(s, tn_select(s, tn_mul(s, w, w), 0, 0));
    expect_error(s, "Can't detach views in-place. Use detach() instead.");
    tn_detach_(s, tn_detach(s, w));
    expect_sound(s);
    uint32_t mode = tn_set_grad_mode(TN_GRAD_OFF);
    tn_detach_(s, w);
    tn_set_grad_mode(mode);
    cr_assert_not(tn_requires_grad(w));
    end();
}

Test(inplace, changed_shape)
{
    tn_tensor *x = make(s, TN_INTS(2, 3), VALUES(1, 2, 3, 4, 5, 6), 1), *y = tn_mul_scalar(s, x, 2);
    tn_unsqueeze_(s, y, 0);
    cr_assert_eq(tn_tensor_rank(y), 3);
    tn_tensor *w = make(s, TN_INTS(1, 2, 3), VALUES(1, 2, 3, 4, 5, 6), 0);
    tn_backward(s, tn_sum(s, tn_mul(s, y, w)));
    EXPECT(s, tn_grad_of(s, x), 2, 4, 6, 8, 10, 12);
    end();
}

Test(inplace, conjugated_view)
{
    const double z[] = {1, 2, 3, 4};
    tn_tensor *x = tn_from_data(s, TN_COMPLEX128, TN_INTS(2), z, 0);
    cr_assert_eq(tn_set_requires_grad(x, 1), TN_OK);
    tn_tensor *y = tn_mul_scalar(s, x, 1), *real = tn_view_as_real(s, y);
    tn_mul_scalar_(s, tn_select(s, real, -1, 1), 3); /* imaginary parts */
    tn_tensor *parts = tn_view_as_real(s, y), *w = make(s, TN_INTS(2, 2), VALUES(1, 10, 100, 1000), 0);
    tn_backward(s, tn_sum(s, tn_mul(s, parts, w)));
    EXPECT(s, tn_view_as_real(s, tn_grad_of(s, x)), 1, 30, 100, 3000);
    end();
}

/* A call may write a tensor saved by a call it depends on. The memory left is checked at the end. */
Test(inplace, a_saved_tensor_that_comes_to_depend_on_its_node_is_let_go)
{
    tn_tensor *w = VECTOR(s, 1, 2, 3), *constant = VECTOR(s, 0, 1, 1), *whole = VECTOR(s, 0, 1, 1, 1, 1);
    tn_add_(s, constant, tn_mul(s, constant, w));
    EXPECT(s, constant, 3, 4);
    tn_tensor *y = tn_mul_scalar(s, w, 2);
    tn_add_(s, y, tn_mul(s, y, w));
    EXPECT(s, y, 12, 24);
    tn_tensor *part = tn_narrow(s, whole, 0, 0, 2);
    tn_add_(s, part, tn_mul(s, part, w));
    EXPECT(s, whole, 3, 4, 1, 1);
    tn_backward(s, tn_sum(s, y));
    expect_error(s, "which is output 0 of MulBackward, is at version 1; expected version 0 instead.");
    end();
}

/* A saved tensor keeps its history, whatever happens to the tensor afterwards. */
Test(inplace, second_derivatives_through_what_was_saved)
{
    tn_tensor *x = VECTOR(s, 1, 2, 3), *y = tn_mul(s, x, x), *z = tn_mul(s, y, y); /* x^4 */
    tn_tensor *first, *second;
    tn_grad(s, TN_TENSORS(tn_sum(s, z)), TN_TENSORS(x),
            &(tn_backward_options){.size = sizeof(tn_backward_options), .create_graph = 1}, &first);
    EXPECT(s, first, 32, 108);
    tn_grad(s, TN_TENSORS(tn_sum(s, first)), TN_TENSORS(x), NULL, &second);
    EXPECT(s, second, 48, 108);
    end();
}

Test(inplace, view_of_many_more_dimensions)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2, 3, 4, 5, 6), *y = tn_mul_scalar(s, x, 2);
    tn_as_strided_(s, y, TN_INTS(2, 1, 1, 1, 1, 1, 1, 2), TN_INTS(2, 1, 1, 1, 1, 1, 1, 1));
    EXPECT(s, y, 2, 4, 6, 8);
    tn_backward(s, tn_sum(s, tn_mul(s, y, y)));
    EXPECT(s, tn_grad_of(s, x), 8, 16, 24, 32, 0, 0);
    end();
}

/* The product saves what it overwrites: without memory for that, nothing is changed and nothing leaks. */
Test(inplace, no_memory_for_what_is_saved)
{
    tn_tensor *w = VECTOR(s, 1, 3), *x = tn_ones(s, TN_INTS(4 << 20), .dtype = TN_FLOAT64);
    cr_assert_eq(tn_memory_set_limit(ctx, TN_CPU, 40u << 20), TN_OK);
    tn_mul_(s, x, w);
    expect_error(s, "memory");
    cr_assert_eq(tn_memory_set_limit(ctx, TN_CPU, 0), TN_OK);
    EXPECT(s, tn_sum(s, x), 4 << 20);
    end();
}

/* ---- Memory that several elements share ------------------------------------------------------------------- */

/* Each element of x gets the sum over the elements of the view that are it. */
Test(inplace, view_of_overlapping_elements)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2, 3, 4), *w = VECTOR(s, 0, 1, 2, 3, 4, 5, 6);
    tn_tensor *pairs = tn_as_strided(s, x, TN_INTS(3, 2), TN_INTS(1, 1));
    EXPECT(s, pairs, 1, 2, 2, 3, 3, 4);
    tn_backward(s, tn_sum(s, tn_mul(s, pairs, tn_reshape(s, w, TN_INTS(3, 2)))));
    EXPECT(s, tn_grad_of(s, x), 1, 2 + 3, 4 + 5, 6);
    end();
}

/* A leaf whose own elements overlap: those that are one element share its gradient, as in ATen. */
Test(inplace, view_of_a_leaf_with_overlapping_elements)
{
    tn_tensor *x = VECTOR(s, 0, 1, 2, 3, 4);
    tn_tensor *leaf = tn_detach(s, tn_as_strided(s, x, TN_INTS(3, 2), TN_INTS(1, 1)));
    cr_assert_eq(tn_set_requires_grad(leaf, 1), TN_OK);
    tn_backward(s, tn_sum(s, tn_as_strided(s, leaf, TN_INTS(2), TN_INTS(1))));
    EXPECT(s, tn_grad_of(s, leaf), 1, 0.5, 0.5, 0, 0, 0);
    end();
}

/* The imaginary parts of a complex tensor, written through a real view. */
Test(inplace, real_view_of_a_complex_tensor)
{
    tn_tensor *x = make(s, TN_INTS(2, 2), VALUES(1, 2, 3, 4), 1);
    tn_tensor *z = tn_mul_scalar(s, tn_view_as_complex(s, x), 1);
    tn_mul_scalar_(s, tn_select(s, tn_view_as_real(s, z), 1, 1), 10);
    EXPECT(s, tn_view_as_real(s, z), 1, 20, 3, 40);
    tn_tensor *w = make(s, TN_INTS(2, 2), VALUES(5, 6, 7, 8), 0);
    tn_backward(s, tn_sum(s, tn_mul(s, tn_view_as_real(s, z), w)));
    EXPECT(s, tn_grad_of(s, x), 5, 60, 7, 80);
    end();
}

/* ---- Views made while recording was off ------------------------------------------------------------------ */

Test(inplace, parts_made_without_recording)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2, 3, 4), *y = tn_mul_scalar(s, x, 2);
    tn_scope *off = tn_scope_open_with(
        ctx, &(tn_scope_options){.size = sizeof(tn_scope_options), .grad_mode = TN_GRAD_OFF});
    tn_tensors parts = tn_split(off, y, 2);
    cr_assert_eq(parts.count, 2);
    tn_tensor *part = tn_retain(parts.data[1]);
    cr_assert_eq(tn_scope_close(off), TN_OK);
    tn_mul_scalar_(s, part, 3);
    expect_error(s, "is being modified inplace with grad mode enabled");
    tn_release(part);
    end();
}

/* Tensor.set_: as in PyTorch there is no gradient, so the history of the old value must not stay. */
Test(inplace, another_storage)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *y = VECTOR(s, 0, 3, 4), *z = tn_mul_scalar(s, x, 2);
    tn_set_source_tensor_(s, z, y);
    tn_backward(s, tn_sum(s, z));
    expect_error(s, "derivative for aten::set_.source_Tensor is not implemented");
    cr_assert_null(tn_grad_of(s, x));
    tn_set_source_tensor_(s, x, y);
    expect_error(s, "a leaf Variable that requires grad is being used in an in-place operation");
    /* The offset counts from that of the source. */
    tn_tensor *all = VECTOR(s, 0, 0, 1, 2, 3, 4, 5), *end_of = tn_slice(s, all, 0, .start = 3),
              *w = VECTOR(s, 0, 9);
    tn_set_source_tensor_storage_offset_(s, w, end_of, 1, TN_INTS(2), TN_INTS(1));
    EXPECT(s, w, 4, 5);
    cr_assert_eq(tn_tensor_storage_offset(w), 4);
    tn_set_source_tensor_storage_offset_(s, w, tn_slice(s, all, 0, .step = 2), 0, TN_INTS(2), TN_INTS(1));
    expect_error(s, "set_: argument 'source': a tensor that is not contiguous");
    end();
}

/* The bits of a tensor are a constant: they take no gradient, and none is lost. */
Test(inplace, view_of_the_bits)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2), *bits = tn_view_dtype(s, x, TN_FLOAT32);
    cr_assert_not(tn_requires_grad(bits));
    cr_assert_eq(tn_tensor_numel(bits), 4);
    tn_backward(s, tn_add(s, tn_sum(s, x), tn_sum(s, tn_to(s, bits, TN_FLOAT64))));
    EXPECT(s, tn_grad_of(s, x), 1, 1);
    end();
}

/* Comparisons and the like have no gradient, so their out forms take what requires one. */
Test(inplace, outputs_that_have_no_gradient)
{
    tn_tensor *x = VECTOR(s, 1, 1, 2, 3), *y = VECTOR(s, 0, 2, 2, 2),
              *yes = tn_empty(s, TN_INTS(3), .dtype = TN_BOOL),
              *place = tn_empty(s, TN_INTS(0), .dtype = TN_INT64);
    tn_lt_out(s, x, y, yes);
    tn_argmax_out(s, x, place);
    EXPECT(s, yes, 1, 0, 0);
    EXPECT(s, place, 2);
    tn_tensor *numbers = tn_empty(s, TN_INTS(3), .dtype = TN_FLOAT64); /* get 0 and 1 */
    EXPECT(s, tn_lt_out(s, x, y, numbers), 1, 0, 0);
    EXPECT(s, tn_gt_scalar_out(s, x, 1.5, numbers), 0, 1, 1);
    EXPECT(s, tn_logical_not_out(s, x, numbers), 0, 0, 0);
    end();
}

/* The operator decides: those with a gradient refuse inputs that require one, into integers too. */
Test(inplace, outputs_whose_gradient_would_be_lost)
{
    static const char refused[] = "functions with out=... arguments don't support automatic differentiation";
    tn_tensor *x = VECTOR(s, 1, 1, 2, 3), *y = VECTOR(s, 0, 2, 2, 2);
    tn_add_out(s, x, y, tn_empty(s, TN_INTS(3), .dtype = TN_FLOAT64));
    expect_error(s, refused);
    tn_sum_dim_out(s, x, TN_INTS(0), tn_empty(s, TN_NO_INTS, .dtype = TN_INT64));
    expect_error(s, refused);
    tn_sign_out(s, x, tn_empty(s, TN_INTS(3), .dtype = TN_FLOAT64));
    expect_error(s, refused);
    end();
}

Test(inplace, views_are_not_detached)
{
    static const char refused[] = "Can't detach views in-place. Use detach() instead.";
    tn_tensor *part = tn_view(s, VECTOR(s, 1, 1, 2), TN_INTS(2, 1));
    tn_tensor *constant = tn_view(s, VECTOR(s, 0, 1, 2), TN_INTS(2, 1));
    const uint32_t mode = tn_set_grad_mode(TN_GRAD_OFF);
    tn_detach_(s, part);
    expect_error(s, refused);
    tn_set_grad_mode(mode);
    tn_detach_(s, constant);
    expect_error(s, refused);
    tn_set_grad_mode(TN_GRAD_INFERENCE); /* there it does nothing */
    tn_tensor *same = tn_detach_(s, part);
    tn_detach_(s, constant);
    tn_detach_(s, tn_view(s, tn_ones(s, TN_INTS(4)), TN_INTS(2, 2)));
    tn_set_grad_mode(mode);
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    cr_assert(same == part && tn_requires_grad(part));
    end();
}
