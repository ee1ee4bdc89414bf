/* SPDX-License-Identifier: Apache-2.0 */
/* Text of tensors. The expected strings are what PyTorch 2.13 prints for the same values. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "core/scope.h"
#include "core/print_number.h"
#include "fixture.h"

TestSuite(print, .init = open_fakes, .fini = close_fakes);

#define DATA(type, ...)     ((const type[]){__VA_ARGS__})
#define EXPECT(tensor, ...) cr_assert_str_eq(tn_format(s, tensor, NULL), __VA_ARGS__)
#define FLOATS(sizes, ...)  tn_from_data(s, TN_FLOAT32, sizes, DATA(float, __VA_ARGS__), 0)

Test(print, floats)
{
    EXPECT(FLOATS(TN_INTS(2, 2), 1, 2, 3, 4), "tensor([[1., 2.],\n        [3., 4.]])");
    EXPECT(FLOATS(TN_INTS(2), 1e-5f, 1), "tensor([1.0000e-05, 1.0000e+00])");
    EXPECT(FLOATS(TN_INTS(2), 1e10f, 1), "tensor([1.0000e+10, 1.0000e+00])");
    EXPECT(FLOATS(TN_INTS(2), 0, -0.0f), "tensor([0., -0.])");
    EXPECT(FLOATS(TN_INTS(2), NAN, NAN), "tensor([nan, nan])");
    EXPECT(FLOATS(TN_INTS(2), -NAN, INFINITY), "tensor([nan, inf])");
    EXPECT(FLOATS(TN_INTS(5), 0.001f, 5e-5f, NAN, INFINITY, -INFINITY),
           "tensor([1.0000e-03, 5.0000e-05,        nan,        inf,       -inf])");
    EXPECT(FLOATS(((tn_ints){NULL, 0}), 5), "tensor(5.)");
    EXPECT(FLOATS(((tn_ints){NULL, 0}), 1e-5f), "tensor(1.0000e-05)");
    EXPECT(tn_from_data(s, TN_FLOAT64, TN_INTS(2, 2, 2), DATA(double, 1.5, -2, 3, 4, 5, 6, 7, 8), 0),
           "tensor([[[ 1.5000, -2.0000],\n         [ 3.0000,  4.0000]],\n\n        [[ 5.0000,  6.0000],\n"
           "         [ 7.0000,  8.0000]]], dtype=torch.float64)");
    EXPECT(tn_from_data(s, TN_FLOAT16, TN_INTS(2), DATA(uint16_t, 0x3c00, 0x4000), 0),
           "tensor([1., 2.], dtype=torch.float16)");
    EXPECT(tn_from_data(s, TN_FLOAT8_E4M3FN, TN_INTS(2), DATA(uint8_t, 0x3c, 0x40), 0),
           "tensor([1.5000, 2.0000], dtype=torch.float8_e4m3fn)");
}

Test(print, integers_and_bools)
{
    EXPECT(tn_from_data(s, TN_BOOL, TN_INTS(2), DATA(uint8_t, 1, 0), 0), "tensor([ True, False])");
    EXPECT(tn_from_data(s, TN_UINT64, TN_INTS(1), DATA(uint64_t, UINT64_MAX), 0),
           "tensor([18446744073709551615], dtype=torch.uint64)");
    EXPECT(tn_from_data(s, TN_INT64, TN_INTS(3), DATA(int64_t, -1, 10, 100), 0), "tensor([ -1,  10, 100])");
    EXPECT(tn_from_data(s, TN_INT32, TN_INTS(1), DATA(int32_t, 7), 0), "tensor([7], dtype=torch.int32)");
}

Test(print, complex_numbers)
{
    EXPECT(tn_from_data(s, TN_COMPLEX64, TN_INTS(2), DATA(float, 1, 2, -0.0f, -3.5f), 0),
           "tensor([1.+2.0000j, -0.-3.5000j])");
    EXPECT(tn_from_data(s, TN_COMPLEX64, TN_INTS(2), DATA(float, 1, 2, 3.5f, -1), 0),
           "tensor([1.0000+2.j, 3.5000-1.j])");
    tn_tensor *t = tn_from_data(s, TN_COMPLEX128, TN_INTS(1), DATA(double, 1, 2), 0);
    t->desc.flags |= TN_DESC_CONJ;
    EXPECT(t, "tensor([1.-2.j], dtype=torch.complex128)");
}

Test(print, empty_and_meta)
{
    tn_tensor *t = NULL;
    EXPECT(FLOATS(TN_INTS(0, 3), 0), "tensor([], size=(0, 3))");
    EXPECT(FLOATS(TN_INTS(0), 0), "tensor([])");
    EXPECT(tn_from_data(s, TN_INT64, TN_INTS(0), NULL, 0), "tensor([], dtype=torch.int64)");
    EXPECT(tn_from_data(s, TN_INT32, TN_INTS(2, 0), NULL, 0), "tensor([], size=(2, 0), dtype=torch.int32)");
    cr_assert_eq(
        tni_tensor_create(ctx, TN_DEVICE(TN_INTERNED_META, 0), TN_FLOAT32, 1, DATA(int64_t, 3), NULL, &t), 0);
    EXPECT(t, "tensor(..., device='meta', size=(3,))");
    tn_release(t);
}

Test(print, lines_wrap)
{
    int64_t data[40];
    for (int i = 0; i < 40; i++) data[i] = i * 1000;
    EXPECT(tn_from_data(s, TN_INT64, TN_INTS(2, 20), data, 0),
           "tensor([[    0,  1000,  2000,  3000,  4000,  5000,  6000,  7000,  8000,  9000,\n"
           "         10000, 11000, 12000, 13000, 14000, 15000, 16000, 17000, 18000, 19000],\n"
           "        [20000, 21000, 22000, 23000, 24000, 25000, 26000, 27000, 28000, 29000,\n"
           "         30000, 31000, 32000, 33000, 34000, 35000, 36000, 37000, 38000, 39000]])");
    const double v = 0.123456, same[] = {v, v, v, v, v, v, v};
    EXPECT(tn_from_data(s, TN_FLOAT64, TN_INTS(7), same, 0),
           "tensor([0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235, 0.1235],\n       dtype=torch.float64)");
}

Test(print, large_tensors_are_summarised_on_every_device)
{
    int64_t data[2001];
    float zeros[1600] = {0};
    tn_tensor *turned = NULL;
    for (int i = 0; i < 2001; i++) data[i] = i;
    EXPECT(tn_from_data(s, TN_INT64, TN_INTS(2001), data, 0),
           "tensor([   0,    1,    2,  ..., 1998, 1999, 2000])");
    EXPECT(tn_from_data(s, TN_FLOAT32, TN_INTS(40, 40), zeros, 0),
           "tensor([[0., 0., 0.,  ..., 0., 0., 0.],\n        [0., 0., 0.,  ..., 0., 0., 0.],\n"
           "        [0., 0., 0.,  ..., 0., 0., 0.],\n        ...,\n        [0., 0., 0.,  ..., 0., 0., 0.],\n"
           "        [0., 0., 0.,  ..., 0., 0., 0.],\n        [0., 0., 0.,  ..., 0., 0., 0.]])");
    tn_tensor *t = tn_from_data(s, TN_INT64, TN_INTS(20, 100), data, tn_device_parse(ctx, "gpu:1"));
    const int64_t sizes[] = {100, 20}, strides[] = {1, 100};
    cr_assert_eq(tni_tensor_view(t, 2, sizes, strides, 0, &turned), TN_OK);
    EXPECT(turned, "tensor([[   0,  100,  200,  ..., 1700, 1800, 1900],\n"
                   "        [   1,  101,  201,  ..., 1701, 1801, 1901],\n"
                   "        [   2,  102,  202,  ..., 1702, 1802, 1902],\n"
                   "        ...,\n"
                   "        [  97,  197,  297,  ..., 1797, 1897, 1997],\n"
                   "        [  98,  198,  298,  ..., 1798, 1898, 1998],\n"
                   "        [  99,  199,  299,  ..., 1799, 1899, 1999]], device='gpu:1')");
    tn_release(turned);
}

Test(print, options)
{
    tn_tensor *t = FLOATS(TN_INTS(4), 1.5f, 2.25f, 3, 4);
    tn_print_options o = {.size = sizeof o, .precision = 2};
    cr_assert_str_eq(tn_format(s, t, &o), "tensor([1.50, 2.25, 3.00, 4.00])");
    o.scientific = 1;
    cr_assert_str_eq(tn_format(s, t, &o), "tensor([1.50e+00, 2.25e+00, 3.00e+00, 4.00e+00])");
    o = (tn_print_options){.size = sizeof o, .threshold = 3, .edge_items = 1};
    cr_assert_str_eq(tn_format(s, t, &o), "tensor([1.5000,  ..., 4.0000])");
    o = (tn_print_options){.size = sizeof o, .line_width = 24};
    cr_assert_str_eq(tn_format(s, t, &o), "tensor([1.5000, 2.2500,\n        3.0000, 4.0000])");
    o = (tn_print_options){.size = sizeof o, .scientific = -1};
    cr_assert_str_eq(tn_format(s, FLOATS(TN_INTS(2), 1e-5f, 1), &o), "tensor([0.0000, 1.0000])");
}

static void describe(const tn_tensor *t, char *buffer, uint64_t bytes)
{
    snprintf(buffer, bytes, "%s", t->state & TNI_WANTS_GRAD ? "grad_fn=<MulBackward0>" : "");
}

Test(print, what_autograd_says)
{
    const tni_autograd_hooks hooks = {.describe = describe};
    ctx->autograd = &hooks;
    tn_tensor *t = FLOATS(TN_INTS(2, 2), 2, 4, 6, 8);
    EXPECT(t, "tensor([[2., 4.],\n        [6., 8.]])");
    t->state |= TNI_WANTS_GRAD;
    EXPECT(t, "tensor([[2., 4.],\n        [6., 8.]], grad_fn=<MulBackward0>)");
}

Test(print_failures, leave_nothing) /* no suite of its own: it makes its contexts itself */
{
    float zeros[1600] = {0};
    for (int64_t n = 1; n < 200; n++) {
        counting c = {0};
        fake f = {.type = "gpu", .count = 1, .device_class = TN_DEVICE_DISCRETE};
        ctx = counted_context(&c, &f);
        s = tn_scope_open(ctx);
        tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(40, 40), zeros, tn_device_parse(ctx, "gpu:0"));
        if (n % 2)
            c.fail_at = c.calls + n / 2 + 1;
        else
            f.fail_slot = (int32_t)n / 2;
        const char *text = tn_format(s, t, NULL);
        int32_t reached = n % 2 ? c.calls >= c.fail_at : f.fail_slot <= 0;
        cr_assert_eq(*text != 0, !reached || tn_scope_close(s) == TN_OK);
        if (!reached) tn_scope_close(s);
        tn_context_destroy(ctx);
        cr_assert_eq(c.live, 0);
        cr_assert_eq(f.breaches, 0);
    }
}

/* ---- Corners ----------------------------------------------------------------------------------------------- */

/* Quantised elements are shown as the integers that are stored. */
Test(print, quantised_elements)
{
    const int8_t chars[] = {-1, 5};
    const int32_t ints[] = {-70000, 5};
    const uint8_t bytes[] = {255, 5};
    cr_assert_str_eq(tn_format(s, tn_from_data(s, TN_QINT8, TN_INTS(2), chars, TN_CPU), NULL),
                     "tensor([-1,  5], dtype=torch.qint8)");
    cr_assert_str_eq(tn_format(s, tn_from_data(s, TN_QINT32, TN_INTS(2), ints, TN_CPU), NULL),
                     "tensor([-70000,      5], dtype=torch.qint32)");
    cr_assert_str_eq(tn_format(s, tn_from_data(s, TN_QUINT8, TN_INTS(2), bytes, TN_CPU), NULL),
                     "tensor([255,   5], dtype=torch.quint8)");
}

Test(print, more_options)
{
    char text[128];
    tn_tensor *t = FLOATS(TN_INTS(2), 1.5f, 2.25f);
    tn_print_options o = {.size = sizeof o, .precision = 5000};
    snprintf(text, sizeof text, "tensor([1.5%0*d,", TNI_PRECISION_LIMIT - 1, 0);
    cr_assert_eq(strncmp(tn_format(s, t, &o), text, strlen(text)), 0, "%s", tn_format(s, t, &o));
    o = (tn_print_options){.size = sizeof o, .line_width = 3}; /* one element in a line */
    cr_assert_str_eq(tn_format(s, t, &o), "tensor([1.5000,\n        2.2500])");
    o.size = 1;
    cr_assert_str_eq(tn_format(s, t, &o), "");
    expect_scope(TN_E_ARGUMENT, "tn_print_options: size is 1; set it to sizeof(tn_print_options)");
    /* An odd number of edges, and a dimension that is shown whole beside one that is not. */
    tn_tensor *wide = FLOATS(TN_INTS(2, 4), 1, 2, 3, 4, 5, 6, 7, 8);
    o = (tn_print_options){.size = sizeof o, .threshold = 3, .edge_items = 1};
    cr_assert_str_eq(tn_format(s, wide, &o), "tensor([[1.,  ..., 4.],\n        [5.,  ..., 8.]])");
    cr_assert_str_eq(tn_format(s, FLOATS(TN_INTS(2), 1e9f, 1), NULL), "tensor([1.0000e+09, 1.0000e+00])");
    cr_assert_str_eq(tn_format(s, FLOATS(TN_INTS(2), 2e8f, 3e8f), NULL), "tensor([2.0000e+08, 3.0000e+08])");
    cr_assert_str_eq(tn_format(s, FLOATS(TN_INTS(1), 2e-5f), NULL), "tensor([2.0000e-05])");
}

/* The usual dtype of complex tensors follows the default dtype. */
Test(print, complex_elements_and_the_default_dtype)
{
    const double pair[] = {1, 2};
    const float single[] = {1, 2};
    tn_tensor *z = tn_from_data(s, TN_COMPLEX128, TN_NO_INTS, pair, TN_CPU),
              *c = tn_from_data(s, TN_COMPLEX64, TN_NO_INTS, single, TN_CPU);
    cr_assert_str_eq(tn_format(s, z, NULL), "tensor(1.+2.j, dtype=torch.complex128)");
    cr_assert_str_eq(tn_format(s, c, NULL), "tensor(1.+2.j)");
    cr_assert_eq(tn_set_default_dtype(ctx, TN_FLOAT64), TN_OK);
    cr_assert_str_eq(tn_format(s, z, NULL), "tensor(1.+2.j)");
    cr_assert_str_eq(tn_format(s, c, NULL), "tensor(1.+2.j, dtype=torch.complex64)");
    cr_assert_eq(tn_set_default_dtype(ctx, TN_FLOAT32), TN_OK);
}
