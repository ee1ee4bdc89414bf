/* SPDX-License-Identifier: Apache-2.0 */
/* Forms of convolutions that libraries of vendors compute, with all passes, for tests that have session.h. */
#ifndef TENON_TESTS_GPU_CONVOLUTION_FORMS_H
#define TENON_TESTS_GPU_CONVOLUTION_FORMS_H

typedef struct convolution_form {
    const char *name;
    int axes, is_transposed, has_bias;
    int64_t images, in_channels, out_channels, groups;
    int64_t size[3], kernel[3], stride[3], padding[3], dilation[3], output_padding[3];
} convolution_form;

static const convolution_form forms[] = {
    {"plain", 2, 0, 0, 2, 3, 4, 1, {8, 7}, {3, 3}, {1, 1}, {0, 0}, {1, 1}, {0, 0}},
    {"bias", 2, 0, 1, 2, 3, 4, 1, {8, 7}, {3, 2}, {1, 1}, {1, 0}, {1, 1}, {0, 0}},
    {"strided", 2, 0, 1, 1, 2, 3, 1, {9, 8}, {3, 3}, {2, 3}, {1, 2}, {1, 1}, {0, 0}},
    {"dilated", 2, 0, 0, 1, 2, 3, 1, {9, 11}, {2, 3}, {1, 2}, {2, 1}, {3, 2}, {0, 0}},
    {"grouped", 2, 0, 1, 2, 4, 6, 2, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}},
    {"depthwise", 2, 0, 0, 2, 4, 4, 4, {5, 6}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, {0, 0}},
    {"one axis", 1, 0, 1, 2, 3, 5, 1, {20}, {4}, {3}, {2}, {1}, {0}},
    {"three axes", 3, 0, 1, 1, 2, 3, 1, {4, 5, 6}, {2, 3, 2}, {1, 2, 1}, {1, 0, 1}, {1, 1, 2}, {0, 0, 0}},
    {"flat axis with padding",
     3,
     0,
     0,
     1,
     2,
     2,
     1,
     {1, 4, 4},
     {1, 3, 3},
     {3, 1, 1},
     {1, 1, 1},
     {1, 1, 1},
     {0, 0, 0}},
    {"transposed", 2, 1, 1, 2, 4, 3, 1, {4, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 0}},
    {"transposed groups", 2, 1, 0, 1, 4, 6, 2, {3, 4}, {2, 3}, {1, 3}, {0, 1}, {2, 1}, {0, 2}},
};
enum { FORMS_OF_CONVOLUTIONS = sizeof forms / sizeof *forms };

static tn_ints sizes_of(int64_t *memory, int64_t first, int64_t second, const int64_t *rest, int n)
{
    memory[0] = first;
    memory[1] = second;
    memcpy(memory + 2, rest, (size_t)n * sizeof *rest);
    return (tn_ints){memory, (uint32_t)(n + 2)};
}

static tn_ints axes_of(const convolution_form *f, const int64_t *values)
{
    return (tn_ints){values, (uint32_t)f->axes};
}

enum { OUT, GRAD_IN, GRAD_WEIGHT, GRAD_BIAS, RESULTS };

/* All passes of a form. */
static void convolve(const convolution_form *f, tn_dtype dtype, tn_tensor *out[RESULTS])
{
    int64_t memory[5];
    const int32_t t = f->is_transposed;
    tn_manual_seed(ctx, 5);
    tn_tensor *x = numbers(dtype, sizes_of(memory, f->images, f->in_channels, f->size, f->axes));
    tn_tensor *w =
        numbers(dtype, sizes_of(memory, t ? f->in_channels : f->out_channels,
                                (t ? f->out_channels : f->in_channels) / f->groups, f->kernel, f->axes));
    tn_tensor *bias = f->has_bias ? numbers(dtype, TN_INTS(f->out_channels)) : NULL;
    out[OUT] = tn_convolution(s, x, w, bias, axes_of(f, f->stride), axes_of(f, f->padding),
                              axes_of(f, f->dilation), t, axes_of(f, f->output_padding), f->groups);
    cr_assert_not(tn_scope_failed(s), "%s: %s", f->name,
                  tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    tn_tensor *g =
        tn_to(s, tn_uniform_(s, tn_empty_like(s, out[OUT], .dtype = TN_FLOAT32), .from = -1, .to = 1), dtype);
    const uint8_t all[] = {1, 1, 1};
    tn_convolution_backward_result r = tn_convolution_backward(
        s, g, x, w, TN_INTS(f->out_channels), axes_of(f, f->stride), axes_of(f, f->padding),
        axes_of(f, f->dilation), t, axes_of(f, f->output_padding), f->groups, (tn_bools){all, 3});
    out[GRAD_IN] = r.result0;
    out[GRAD_WEIGHT] = r.result1;
    out[GRAD_BIAS] = r.result2;
}

/* All passes of a form by the kernels and by the library, at most so far apart. How many passes the library did, of which it
 * counts `what`. */
static int compare_convolutions(const convolution_form *f, tn_dtype dtype, double tolerance, int what)
{
    tn_tensor *want[RESULTS], *got[RESULTS];
    use_library(0);
    int before = count(what);
    convolve(f, dtype, want);
    cr_assert_eq(count(what), before, "the library was off");
    use_library(1);
    convolve(f, dtype, got);
    for (int r = 0; r < RESULTS; r++) {
        double most = difference(got[r], want[r]);
        cr_assert_leq(most, tolerance, "%s, dtype %d, result %d: the difference is %g", f->name, (int)dtype,
                      r, most);
    }
    return count(what) - (before < 0 ? 0 : before);
}

#endif
