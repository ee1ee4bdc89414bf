/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixed precision: which calls are cast to which dtype, as in PyTorch's documents and its registrations for
 * AutocastCPU and AutocastCUDA, and the dtypes of gradients.
 */
#include "suite.h"

#include <pthread.h>
#include <string.h>
#include <tenon/plugin.h>

TestSuite(autocast, .init = begin, .fini = end);

static tn_scope *region(uint32_t mode, tn_dtype dtype, tn_device device)
{
    tn_scope_options o = {
        .size = sizeof o, .autocast = mode, .autocast_dtype = dtype, .autocast_device = device};
    tn_scope *r = tn_scope_open_child(s, &o);
    expect_sound(r);
    return r;
}

static tn_tensor *matrix(tn_dtype dtype, tn_device device)
{
    return tn__to_copy(s, make(s, TN_INTS(2, 2), VALUES(1.25, -2, 0.5, 3), 0), .dtype = dtype,
                       .device = device);
}

#define DTYPE(t) tn_dtype_name(tn_tensor_dtype(t))
#define EXPECT_DTYPE(r, t, want)                                                       \
    do {                                                                               \
        tn_tensor *result = t;                                                         \
        expect_sound(r);                                                               \
        cr_assert_eq(tn_tensor_dtype(result), want, "%s is of %s", #t, DTYPE(result)); \
    } while (0)

Test(autocast, classes_of_the_cpu)
{
    tn_tensor *x = matrix(TN_FLOAT32, TN_CPU), *h = matrix(TN_BFLOAT16, TN_CPU),
              *d = matrix(TN_FLOAT64, TN_CPU);
    tn_tensor *mixed[] = {x, h}, *low[] = {h, h};
    EXPECT_DTYPE(s, tn_mm(s, x, x), TN_FLOAT32);
    tn_scope *r = region(TN_SCOPE_AUTOCAST_ON, 0, 0);
    EXPECT_DTYPE(r, tn_mm(r, x, x), TN_BFLOAT16);
    EXPECT_DTYPE(r, tn_mm(r, x, h), TN_BFLOAT16);
    EXPECT_DTYPE(r, tn_linear(r, x, x), TN_BFLOAT16);
    EXPECT_DTYPE(r, tn_mse_loss(r, h, h), TN_FLOAT32);
    EXPECT_DTYPE(r, tn_cat(r, ((tn_tensors){mixed, 2})), TN_FLOAT32);
    EXPECT_DTYPE(r, tn_cat(r, ((tn_tensors){low, 2})), TN_BFLOAT16);
    EXPECT_DTYPE(r, tn_exp(r, h), TN_BFLOAT16); /* not in the lists of the CPU */
    EXPECT_DTYPE(r, tn_add(r, h, x), TN_FLOAT32);
    EXPECT_DTYPE(r, tn_mm(r, d, d), TN_FLOAT64);
    EXPECT_DTYPE(r, tn_mm_out(r, x, x, matrix(TN_FLOAT32, TN_CPU)), TN_FLOAT32);
    EXPECT_DTYPE(r, tn_addmm_(r, matrix(TN_FLOAT32, TN_CPU), x, x), TN_FLOAT32);
    EXPECT_DTYPE(r, tn_prod(r, h), TN_FLOAT32);
    EXPECT_DTYPE(r, tn_prod(r, h, .dtype = TN_BFLOAT16), TN_BFLOAT16);
    EXPECT(r, tn_mm(r, x, x), 0.5625, -8.5, 2.125, 8);
    tn_scope_close(r);
}

Test(autocast, regions_nest_and_name_devices)
{
    tn_tensor *x = matrix(TN_FLOAT32, TN_CPU);
    tn_device reference = tn_device_parse(ctx, "reference:0");
    tn_scope *other = region(TN_SCOPE_AUTOCAST_ON, 0, reference);
    EXPECT_DTYPE(other, tn_mm(other, x, x), TN_FLOAT32);
    tn_scope *half = region(TN_SCOPE_AUTOCAST_ON, TN_FLOAT16, TN_CPU);
    EXPECT_DTYPE(half, tn_mm(half, x, x), TN_FLOAT16);
    tn_scope *off = region(TN_SCOPE_AUTOCAST_OFF, 0, TN_CPU);
    EXPECT_DTYPE(off, tn_mm(off, x, x), TN_FLOAT32);
    tn_scope_close(off);
    EXPECT_DTYPE(half, tn_mm(half, x, x), TN_FLOAT16);
    tn_scope_close(half);
    tn_scope_close(other);
    EXPECT_DTYPE(s, tn_mm(s, x, x), TN_FLOAT32);
}

/* The host's classes, those of PyTorch for CUDA, and the tensors of the device alone. */
Test(autocast, classes_of_a_device_without_opinion)
{
    tn_device reference = tn_device_parse(ctx, "reference:0");
    tn_tensor *h = matrix(TN_BFLOAT16, reference), *x = matrix(TN_FLOAT32, reference);
    tn_scope *r = region(TN_SCOPE_AUTOCAST_ON, 0, 0);
    EXPECT_DTYPE(r, tn_mm(r, x, x), TN_BFLOAT16);
    EXPECT_DTYPE(r, tn_exp(r, h), TN_FLOAT32);
    EXPECT_DTYPE(r, tn_softmax(r, h, 1), TN_FLOAT32);
    EXPECT_DTYPE(r, tn_atan2(r, h, x), TN_FLOAT32);
    EXPECT_DTYPE(r, tn_atan2(r, h, h), TN_BFLOAT16);
    EXPECT_DTYPE(r, tn_sum(r, h), TN_FLOAT32);
    EXPECT_DTYPE(r, tn_sum(r, h, .dtype = TN_BFLOAT16), TN_BFLOAT16);
    EXPECT_DTYPE(r, tn_relu(r, h), TN_BFLOAT16);
    tn_scope_close(r);
}

static void count_casts(void *user, const tn_call_info *info, uint64_t token)
{
    (void)token;
    if (strcmp(info->name, "aten::_to_copy") == 0) ++*(int *)user;
}

/* A parameter is cast once in a region, and again after it was written. */
Test(autocast, parameters_are_cast_once)
{
    int casts = 0;
    uint64_t handle;
    const tn_observer observer = {.size = sizeof observer, .user = &casts, .leave = count_casts};
    tn_tensor *w = matrix(TN_FLOAT32, TN_CPU), *x = matrix(TN_BFLOAT16, TN_CPU);
    tn_set_requires_grad(w, 1);
    tn_scope *r = region(TN_SCOPE_AUTOCAST_ON, 0, 0);
    cr_assert_eq(tn_observer_add(ctx, &observer, &handle), TN_OK);
    tn_tensor *first = tn_mm(r, x, w);
    tn_tensor *loss = tn_sum(r, tn_mm(r, first, w));
    cr_assert_eq(casts, 1);
    cr_assert_eq(tn_backward(r, loss), TN_OK);
    tn_scope_options none = {.size = sizeof none, .grad_mode = TN_GRAD_OFF};
    tn_scope *quiet = tn_scope_open_child(r, &none);
    tn_fill_scalar_(quiet, w, 1);
    tn_scope_close(quiet);
    casts = 0;
    tn_tensor *other = tn_mm(r, x, w);
    cr_assert_eq(casts, 1);
    tn_observer_remove(ctx, handle);
    EXPECT(r, other, -0.75, -0.75, 3.5, 3.5);
    tn_scope_close(r);
    EXPECT_DTYPE(s, tn_grad_of(s, w), TN_FLOAT32);
    EXPECT(s, tn_grad_of(s, w), 1.375, 8.8125, -1.25, 3); /* PyTorch 2.13 under torch.autocast("cpu") */
}

static void *on_another_thread(void *user)
{
    tn_scope *mine = tn_scope_open(ctx);
    *(tn_dtype *)user =
        tn_tensor_dtype(tn_mm(mine, tn_ones(mine, TN_INTS(2, 2)), tn_ones(mine, TN_INTS(2, 2))));
    tn_scope_close(mine);
    return NULL;
}

/* Out forms have composites, too, and those are not cast: 1 + 2^-10 needs ten bits. */
Test(autocast, bodies_of_out_forms_are_left_alone)
{
    tn_tensor *x = tn_full(s, TN_INTS(1, 1), 1.0009765625, .dtype = TN_FLOAT32);
    tn_tensor *one = tn_ones(s, TN_INTS(1, 1)), *out = tn_zeros(s, TN_INTS(1, 1));
    tn_scope *r = region(TN_SCOPE_AUTOCAST_ON, 0, 0);
    tn_matmul_out(r, x, one, out);
    expect_sound(r);
    tn_scope_close(r);
    EXPECT(s, out, 1.0009765625);
}

/* set_ gives a parameter other elements without a write. */
Test(autocast, another_storage_is_cast_anew)
{
    tn_tensor *x = matrix(TN_FLOAT32, TN_CPU), *w = matrix(TN_FLOAT32, TN_CPU);
    tn_set_requires_grad(w, 1);
    tn_scope *r = region(TN_SCOPE_AUTOCAST_ON, 0, 0);
    EXPECT(r, tn_mm(r, x, w), 0.5625, -8.5, 2.125, 8);
    tn_scope_options none = {.size = sizeof none, .grad_mode = TN_GRAD_OFF};
    tn_scope *quiet = tn_scope_open_child(r, &none);
    tn_set_source_tensor_(quiet, w, tn_ones(quiet, TN_INTS(2, 2)));
    expect_sound(quiet);
    tn_scope_close(quiet);
    EXPECT(r, tn_mm(r, x, w), -0.75, -0.75, 3.5, 3.5);
    tn_scope_close(r);
}

Test(autocast, regions_close_in_any_order)
{
    tn_tensor *x = matrix(TN_FLOAT32, TN_CPU);
    tn_scope *a = region(TN_SCOPE_AUTOCAST_ON, 0, 0), *b = region(TN_SCOPE_AUTOCAST_ON, TN_FLOAT16, 0);
    tn_scope_close(a);
    EXPECT_DTYPE(b, tn_mm(b, x, x), TN_FLOAT16);
    tn_scope_close(b);
    EXPECT_DTYPE(s, tn_mm(s, x, x), TN_FLOAT32);
}

Test(autocast, is_the_threads_own)
{
    tn_dtype seen = 0;
    pthread_t thread;
    tn_scope *r = region(TN_SCOPE_AUTOCAST_ON, 0, 0);
    pthread_create(&thread, NULL, on_another_thread, &seen);
    pthread_join(thread, NULL);
    tn_scope_close(r);
    cr_assert_eq(seen, TN_FLOAT32);
}

static int32_t twice(void *self, const tn_call *call)
{
    tn_scope *inner = call->host->call_scope(call);
    (void)self;
    call->host->set_output(call, 0, tn_add(inner, call->args[0].as.tensor, call->args[0].as.tensor));
    return TN_OK;
}

Test(autocast, operators_of_a_program_have_a_class)
{
    const tn_operator_def def = {.size = sizeof def,
                                 .schema = "mine::twice(Tensor x) -> Tensor",
                                 .composite = twice,
                                 .autocast = TN_AUTOCAST_LOW};
    tn_value out, x = tn_value_tensor(matrix(TN_FLOAT32, TN_CPU));
    const uint32_t op = define(ctx, &def);
    tn_scope *r = region(TN_SCOPE_AUTOCAST_ON, TN_FLOAT16, 0);
    cr_assert_eq(tn_scope_call(r, op, &x, 1, &out, 1), TN_OK);
    EXPECT_DTYPE(r, out.as.tensor, TN_FLOAT16);
    EXPECT(r, out.as.tensor, 2.5, -4, 1, 6);
    tn_scope_close(r);
}

static int32_t infer_like_x(void *self, const tn_call *call)
{
    const tn_tensor_desc *x = tn_desc(call->args[0].as.tensor);
    const tn_output out = {.size = sizeof out, .dtype = x->dtype, .rank = x->rank, .sizes = x->sizes};
    return call->host->define_output(call, 0, &out);
}

static int32_t square_of_matrix(void *self, const tn_call *call)
{
    tn_tensor *x = call->args[0].as.tensor;
    return call->host->set_output(call, 0, tn_mm(call->host->call_scope(call), x, x));
}

/* A composite in the place of a kernel gives what the shape rule says. Without a rule its calls are cast. */
Test(autocast, calls_of_composites_without_a_class)
{
    for (int ruled = 0; ruled < 2; ruled++) {
        const tn_operator_def def = {.size = sizeof def,
                                     .schema = "mine::matrix_square(Tensor x) -> Tensor",
                                     .infer = ruled ? infer_like_x : NULL,
                                     .composite = square_of_matrix};
        tn_value out, x = tn_value_tensor(matrix(TN_FLOAT32, TN_CPU));
        const uint32_t op = define(ctx, &def);
        tn_scope *r = region(TN_SCOPE_AUTOCAST_ON, 0, 0);
        cr_assert_eq(tn_scope_call(r, op, &x, 1, &out, 1), TN_OK);
        EXPECT_DTYPE(r, out.as.tensor, ruled ? TN_FLOAT32 : TN_BFLOAT16);
        tn_scope_close(r);
        cr_assert_eq(tn_namespace_remove(ctx, "mine"), TN_OK);
    }
}

Test(autocast, wrong_options)
{
    tn_scope_options o = {.size = sizeof o, .autocast = 3};
    tn_scope *r = tn_scope_open_child(s, &o);
    expect_error(r, "unknown autocast 3 (expected TN_SCOPE_AUTOCAST_");
    tn_scope_close(r);
    o = (tn_scope_options){.size = sizeof o, .autocast = TN_SCOPE_AUTOCAST_ON, .autocast_dtype = TN_FLOAT32};
    r = tn_scope_open_child(s, &o);
    expect_error(r, "autocast_dtype must be float16 or bfloat16");
    tn_scope_close(r);
}
