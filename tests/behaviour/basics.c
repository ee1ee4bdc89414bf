/* SPDX-License-Identifier: Apache-2.0 */
/* Broadcasting, promotion, creation, views, printing and gradients as the reference documents state them. */
#include "fixture.h"

ON_EACH_DEVICE(basics, broadcasting)
{
    tn_scope *s = p->s;
    tn_tensor *row = tn_ones(s, TN_INTS(3, 1, 1));
    expect_sizes(p, tn_add(s, tn_ones(s, TN_INTS(5, 1, 4, 1)), row), TN_INTS(5, 3, 4, 1));
    expect_sizes(p, tn_add(s, tn_ones(s, TN_INTS(1)), tn_ones(s, TN_INTS(3, 1, 7))), TN_INTS(3, 1, 7));
    expect_sizes(p, tn_add(s, tn_ones(s, TN_INTS(4, 1)), tn_ones(s, TN_INTS(4))), TN_INTS(4, 4));
    tn_tensor *x = tn_ones(s, TN_INTS(5, 3, 4, 1));
    expect_sizes(p, tn_add_(s, x, row), TN_INTS(5, 3, 4, 1));
    tn_add(s, tn_ones(s, TN_INTS(5, 2, 4, 1)), row);
    expect_error(p,
                 "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1");
    tn_add(s, tn_ones(s, TN_INTS(0)), tn_ones(s, TN_INTS(2, 2)));
    expect_error(p, "The size of tensor a (0) must match the size of tensor b (2)");
    tn_add_(s, tn_ones(s, TN_INTS(1, 3, 1)), tn_ones(s, TN_INTS(3, 1, 7)));
    cr_assert_eq(tn_scope_failed(s), TN_E_SHAPE);
    tn_scope_clear(s);
}

ON_EACH_DEVICE(basics, promotion)
{
    const struct {
        tn_dtype a, b, result;
    } table[] = {{TN_INT64, TN_INT32, TN_INT64},
                 {TN_BOOL, TN_INT64, TN_INT64},
                 {TN_BOOL, TN_UINT8, TN_UINT8},
                 {TN_FLOAT32, TN_FLOAT64, TN_FLOAT64},
                 {TN_COMPLEX64, TN_COMPLEX128, TN_COMPLEX128},
                 {TN_BOOL, TN_INT32, TN_INT32},
                 {TN_INT64, TN_FLOAT32, TN_FLOAT32}};
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        tn_tensor *a = tn_ones(p->s, TN_INTS(1), .dtype = table[i].a);
        tn_tensor *sum = tn_add(p->s, a, tn_ones(p->s, TN_INTS(1), .dtype = table[i].b));
        cr_assert_not_null(sum);
        cr_assert_eq(tn_tensor_dtype(sum), table[i].result, "pair %zu", i);
    }
    tn_tensor *narrow = tn_ones(p->s, TN_INTS(1), .dtype = TN_INT32);
    tn_tensor *scalar = tn_ones(p->s, TN_NO_INTS, .dtype = TN_INT64);
    cr_assert_eq(tn_tensor_dtype(tn_add(p->s, narrow, scalar)), TN_INT32);
    cr_assert_eq(tn_tensor_dtype(tn_add_scalar(p->s, narrow, 5)), TN_INT32);
}

ON_EACH_DEVICE(basics, casts_in_place)
{
    const struct {
        tn_dtype to, from;
        int allowed;
    } table[] = {{TN_FLOAT32, TN_FLOAT32, 1}, {TN_FLOAT32, TN_INT32, 1},   {TN_FLOAT32, TN_UINT8, 1},
                 {TN_FLOAT32, TN_BOOL, 1},    {TN_FLOAT32, TN_FLOAT64, 1}, {TN_INT32, TN_INT64, 1},
                 {TN_INT32, TN_UINT8, 1},     {TN_UINT8, TN_INT32, 1},     {TN_INT32, TN_FLOAT32, 0},
                 {TN_BOOL, TN_INT32, 0},      {TN_BOOL, TN_UINT8, 0},      {TN_FLOAT32, TN_COMPLEX64, 0}};
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        tn_tensor *x = tn_ones(p->s, TN_INTS(2), .dtype = table[i].to);
        tn_mul_(p->s, x, tn_ones(p->s, TN_INTS(2), .dtype = table[i].from));
        cr_assert_eq(!tn_scope_failed(p->s), table[i].allowed, "pair %zu", i);
        if (!table[i].allowed) expect_error(p, "can't be cast to the desired output type");
        cr_assert_eq(tn_tensor_dtype(x), table[i].to);
    }
}

ON_EACH_DEVICE(basics, host_scalars)
{
    tn_scope *s = p->s;
    tn_tensor *here = tn_ones(s, TN_INTS(1)), *zero_dim = tn_ones(s, TN_NO_INTS);
    tn_tensor *host = tn_ones(s, TN_INTS(1), .device = TN_CPU);
    tn_tensor *host_zero_dim = tn_ones(s, TN_NO_INTS, .device = TN_CPU);
    tn_tensor *const sums[] = {tn_add(s, host_zero_dim, zero_dim), tn_add(s, zero_dim, host_zero_dim),
                               tn_add(s, host_zero_dim, here), tn_add(s, here, host_zero_dim)};
    for (int i = 0; i < 4; i++) {
        EXPECT(p, sums[i], 2);
        cr_assert_eq(tn_tensor_device(sums[i]), tn_tensor_device(here));
    }
    if (tn_tensor_device(here) == TN_CPU) return;
    tn_add(s, zero_dim, host);
    cr_assert_eq(tn_scope_failed(s), TN_E_DEVICE);
    tn_scope_clear(s);
    tn_add(s, host, zero_dim);
    cr_assert_eq(tn_scope_failed(s), TN_E_DEVICE);
    tn_scope_clear(s);
}

ON_EACH_DEVICE(basics, full_infers)
{
    tn_scope *s = p->s;
    cr_assert_eq(tn_tensor_dtype(tn_full(s, TN_INTS(3), 1)), TN_INT64);
    cr_assert_eq(tn_tensor_dtype(tn_full(s, TN_INTS(3), (_Bool)1)), TN_BOOL);
    cr_assert_eq(tn_tensor_dtype(tn_full(s, TN_INTS(3), 1.0)), TN_FLOAT32);
    cr_assert_eq(tn_tensor_dtype(tn_full(s, TN_INTS(3), tn_value_complex((double[]){1, 1}))), TN_COMPLEX64);
}

ON_EACH_DEVICE(basics, views)
{
    tn_scope *s = p->s;
    tn_tensor *x = MAKE(p, TN_INT64, TN_INTS(2, 3), 1, 2, 3, 4, 5, 6);
    cr_assert_eq(tn_item_int(s, tn_index(s, x, TN_AT(1), TN_AT(2))), 6);
    tn_fill_scalar_(s, tn_index(s, x, TN_AT(0), TN_AT(1)), 8);
    EXPECT(p, x, 1, 8, 3, 4, 5, 6);
    tn_tensor *y = tn_zeros(s, TN_INTS(2, 5)), *turned = tn_t(s, y);
    cr_assert(tn_tensor_strides(y)[0] == 5 && tn_tensor_strides(y)[1] == 1);
    cr_assert(tn_tensor_strides(turned)[0] == 1 && tn_tensor_strides(turned)[1] == 5);
    cr_assert(tn_tensor_is_contiguous(y, TN_CONTIGUOUS_FORMAT));
    cr_assert_not(tn_tensor_is_contiguous(turned, TN_CONTIGUOUS_FORMAT));
    cr_assert(tn_tensor_is_alias(y, turned));
    cr_assert_not(tn_tensor_is_alias(y, tn_contiguous(s, turned)));
    tn_fill_scalar_(s, tn_index(s, turned, TN_AT(0), TN_AT(0)), 3.14);
    EXPECT(p, y, 3.14, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    cr_assert_not(tn_tensor_is_alias(x, tn_index(s, x, TN_BY(VECTOR(p, TN_INT64, 0)))));
}

/* x[torch.tensor(1), :, mask] and the like: a position, not an index that is broadcast with the others. */
ON_EACH_DEVICE(basics, indices_without_dimensions)
{
    tn_scope *s = p->s;
    tn_tensor *x = tn_reshape(s, tn_arange(s, 24, .device = p->device), TN_INTS(2, 3, 4));
    tn_tensor *one = tn_full(s, TN_INTS(), 1, .dtype = TN_INT32, .device = p->device);
    tn_tensor *yes = tn_ones(s, TN_INTS(), .dtype = TN_BOOL, .device = p->device);
    tn_tensor *mask = VECTOR(p, TN_BOOL, 1, 0, 0, 1);
    EXPECT(p, tn_index(s, x, TN_BY(one), TN_ALL, TN_BY(mask)), 12, 15, 16, 19, 20, 23);
    cr_assert_eq(tn_tensor_size(tn_index(s, x, TN_BY(one), TN_ALL, TN_BY(mask)), 0), 3);
    cr_assert(tn_tensor_is_alias(x, tn_index(s, x, TN_BY(one), TN_ELLIPSIS)));
    tn_tensor *wider = tn_index(s, x, TN_BY(yes), TN_AT(0));
    cr_assert(tn_tensor_rank(wider) == 3 && tn_tensor_size(wider, 0) == 1);
    tn_index_assign(s, x, VECTOR(p, TN_INT64, 7, 8, 9), TN_BY(one), TN_ALL, TN_BY(one));
    EXPECT(p, tn_index(s, x, TN_AT(1), TN_ALL, TN_AT(1)), 7, 8, 9);
    cr_assert_not(tn_scope_failed(s));
    cr_assert_null(tn_index(s, tn_select(s, x, 0, 0), TN_BY(tn_add(s, one, tn_mul_scalar(s, one, 4)))));
    cr_assert_eq(tn_scope_error(s)->code, TN_E_INDEX);
    tn_scope_clear(s);
}

ON_EACH_DEVICE(basics, gradients)
{
    tn_scope *s = p->s;
    tn_tensor *x = MAKE(p, TN_FLOAT32, TN_INTS(2, 2), 1, -1, 1, 1);
    tn_set_requires_grad(x, 1);
    tn_backward(s, tn_sum(s, tn_pow_tensor_scalar(s, x, 2)));
    EXPECT(p, tn_grad_of(s, x), 2, -2, 2, 2);
    tn_scope *quiet = tn_scope_open_child(
        s, &(tn_scope_options){.size = sizeof(tn_scope_options), .grad_mode = TN_GRAD_OFF});
    cr_assert_not(tn_requires_grad(tn_exp(quiet, x)));
    tn_scope_close(quiet);
    cr_assert_not_null(tn_grad_fn(tn_exp(s, x)));
    /* Layout of a gradient: that of a dense leaf, whatever its order of strides. */
    tn_tensor *turned = tn_detach(s, tn_t(s, tn_ones(s, TN_INTS(2, 3))));
    tn_set_requires_grad(turned, 1);
    tn_backward(s, tn_sum(s, tn_mul(s, turned, turned)));
    cr_assert_eq(tn_tensor_strides(tn_grad_of(s, turned))[0], 1);
    cr_assert_eq(tn_tensor_strides(tn_grad_of(s, turned))[1], 3);
}

Test(basics, printing)
{
    place p = {0};
    cr_assert_eq(tn_context_create(NULL, &p.ctx), TN_OK);
    p.s = tn_scope_open(p.ctx);
    p.device = TN_CPU;
    expect_text(&p, VECTOR(&p, TN_FLOAT64, 1, 2, 3, 4), "tensor([1., 2., 3., 4.], dtype=torch.float64)");
    expect_text(&p, MAKE(&p, TN_FLOAT32, TN_NO_INTS, 2.5), "tensor(2.5000)");
    expect_text(&p, MAKE(&p, TN_INT64, TN_INTS(1, 1), 1), "tensor([[1]])");
    expect_text(&p, MAKE(&p, TN_FLOAT32, TN_INTS(2, 2), 1, -1, 1, -1),
                "tensor([[ 1., -1.],\n        [ 1., -1.]])");
    expect_text(&p, VECTOR(&p, TN_FLOAT32, 1.123456789), "tensor([1.1235])");
    tn_scope_close(p.s);
    tn_context_destroy(p.ctx);
}
