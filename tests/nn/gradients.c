/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of parameters that are clipped, and parameters as a vector. */
#include <math.h>
#include <tenon/nn.h>
#include "../autograd/suite.h"

TestSuite(gradients, .init = begin, .fini = end);

/* A model that is spread over devices. The norm of all is the square root of 50. */
Test(gradients, clipping_over_devices)
{
    tn_context *own;
    cr_assert_eq(tn_context_create(NULL, &own), TN_OK);
    tn_scope *step = tn_scope_open(own);
    const tn_device devices[] = {tn_device_choose(own, "reference:0", NULL), TN_CPU};
    for (int first = 0; first < 2; first++) {
        tn_tensor *p[3];
        for (int i = 0; i < 3; i++) {
            const tn_device device = devices[(first + i) % 2];
            p[i] = tn_zeros(step, TN_INTS(2), .dtype = TN_FLOAT64, .device = device);
            cr_assert_eq(tn_set_requires_grad(p[i], 1), TN_OK);
            tn_set_grad(p[i], tn_full(step, TN_INTS(2), i == 1 ? 4 : 3 / sqrt(2), .dtype = TN_FLOAT64,
                                      .device = device));
        }
        tn_tensor *norm = tn_clip_grad_norm(step, (tn_tensors){p, 3}, 1, 2);
        EXPECT(step, norm, sqrt(50));
        cr_assert_eq(tn_tensor_device(norm), devices[first]);
        for (int i = 0; i < 3; i++) {
            const double want = (i == 1 ? 4 : 3 / sqrt(2)) / (sqrt(50) + 1e-6);
            EXPECT(step, tn_grad_of(step, p[i]), want, want);
        }
    }
    cr_assert_eq(tn_scope_close(step), TN_OK);
    tn_context_destroy(own);
}

Test(gradients, clipping)
{
    tn_tensor *a = VECTOR(s, 1, 0, 0), *b = VECTOR(s, 1, 0), *none = VECTOR(s, 1, 0);
    tn_tensors all = TN_TENSORS(a, b, none);
    tn_set_grad(a, VECTOR(s, 0, 3, -4));
    tn_set_grad(b, VECTOR(s, 0, 12));
    tn_tensor *norm = tn_clip_grad_norm(s, all, 6.5, 2);
    cr_assert_float_eq(tn_item_double(s, norm), 13, 1e-12);
    expect_values(s, tn_grad_of(s, a), 2, VALUES(1.5, -2), 1e-6);
    expect_values(s, tn_grad_of(s, b), 1, VALUES(6), 1e-6);
    cr_assert_float_eq(tn_item_double(s, tn_clip_grad_norm(s, all, 100, INFINITY)), 6, 1e-6);
    cr_assert_eq(tn_clip_grad_value(s, all, 1.75), TN_OK);
    expect_values(s, tn_grad_of(s, a), 2, VALUES(1.5, -1.75), 1e-6);
    cr_assert_float_eq(tn_item_double(s, tn_clip_grad_norm(s, TN_TENSORS(none), 1, 2)), 0, 0);
    tn_tensor *v = tn_parameters_to_vector(s, TN_TENSORS(a, b));
    cr_assert_eq(tn_tensor_numel(v), 3);
    cr_assert_eq(tn_vector_to_parameters(s, VECTOR(s, 0, 7, 8, 9), TN_TENSORS(a, b)), TN_OK);
    EXPECT(s, tn_detach(s, a), 7, 8);
    EXPECT(s, tn_detach(s, b), 9);
    cr_assert_neq(tn_vector_to_parameters(s, VECTOR(s, 0, 7), TN_TENSORS(a, b)), TN_OK);
    expect_error(s, "vector_to_parameters");
}
