// SPDX-License-Identifier: Apache-2.0
/* A client in C++17: typed calls with option structs, lists, indices, gradients, errors. */
#include <complex>
#include <cstdio>
#include <cstring>
#include <tenon/tenon.h>

static int wrong(const char *what)
{
    std::printf("wrong: %s\n", what);
    return 1;
}

static int convolution(tn_scope *s)
{
    const int64_t one_image[] = {1, 1, 3, 3}, one_filter[] = {1, 1, 2, 2}, one[] = {1}, two[] = {2, 2};
    const float image[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, filter[] = {1, 0, 0, 1}, offset[] = {0.5F};
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, tn_ints{one_image, 4}, image, TN_CPU);
    tn_tensor *w = tn_from_data(s, TN_FLOAT32, tn_ints{one_filter, 4}, filter, TN_CPU);
    tn_conv2d_args options{};
    options.bias = tn_from_data(s, TN_FLOAT32, tn_ints{one, 1}, offset, TN_CPU);
    options.stride = tn_ints{two, 2};
    tn_tensor *y = tn_conv2d(s, x, w, options);
    if (tn_scope_failed(s) || tn_item_double(s, y) != 6.5) return wrong("conv2d with bias and stride");
    tn_tensor *plain = tn_conv2d(s, x, w, tn_conv2d_args{});
    if (tn_tensor_numel(plain) != 4) return wrong("defaults of conv2d");
    return 0;
}

static int gradient(tn_scope *s)
{
    const int64_t sizes[] = {2, 2};
    const float data[] = {1, -1, 1, 1};
    float grad[4];
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, tn_ints{sizes, 2}, data, TN_CPU);
    tn_set_requires_grad(x, 1);
    tn_backward(s, tn_sum(s, tn_pow_tensor_scalar(s, x, 2), tn_sum_args{}));
    tn_to_host(s, tn_grad_of(s, x), grad, sizeof(grad));
    if (tn_scope_failed(s) || grad[0] != 2 || grad[1] != -2 || grad[3] != 2) return wrong("gradient");
    tn_add_args options{};
    options.alpha = 10;
    if (tn_item_double(s, tn_sum(s, tn_add(s, x, x, options), tn_sum_args{})) != 22) return wrong("alpha");
    return 0;
}

/* Whatever is a number serves as a scalar and keeps its kind. */
static int scalars(tn_scope *s)
{
    const int64_t one[] = {1};
    const tn_ints sizes{one, 1};
    const double pair[] = {4, 5};
    tn_add_scalar_args options{};
    tn_tensor *i = tn_full(s, sizes, 3u), *z = tn_full(s, sizes, std::complex<float>(1, -2));
    if (tn_tensor_dtype(i) != TN_INT64 || tn_tensor_dtype(tn_full(s, sizes, 3.0f)) != TN_FLOAT32 ||
        tn_tensor_dtype(tn_full(s, sizes, true)) != TN_BOOL || tn_tensor_dtype(z) != TN_COMPLEX64)
        return wrong("the kind of a scalar");
    options.alpha = TN_SCALAR(2);
    if (tn_item_double(s, tn_add_scalar(s, i, 4, options)) != 11) return wrong("an int as an option");
    options.alpha = std::complex<double>(0, 1);
    if (tn_item_double(s, tn_real(s, tn_add_scalar(s, z, 3, options))) != 1 ||
        tn_item_double(s, tn_imag(s, tn_add_scalar(s, z, 3, options))) != 1)
        return wrong("a complex option");
    options.alpha = tn_value_complex(pair);
    if (tn_item_double(s, tn_imag(s, tn_add_scalar(s, z, tn_value_int(1), options))) != 3)
        return wrong("a value");
    return 0;
}

static tn_conv2d_args of_stride(int64_t stride)
{
    tn_conv2d_args o;
    o.stride = TN_INTS(stride, stride); /* the option keeps the items */
    return o;
}

/* Lists and indices are written as in C. */
static int lists(tn_scope *s)
{
    const size_t rows = 3;
    auto sizes = TN_INTS(rows, 4); /* kept to the end of the block */
    tn_tensor *x = tn_reshape(s, tn_arange(s, 12), sizes);
    if (tn_item_int(s, tn_index(s, x, TN_AT(1), TN_AT(-1))) != 7) return wrong("an index");
    tn_tensor *part = tn_index(s, x, TN_SLICE(0, 2), TN_ELLIPSIS, TN_SLICE(1, TN_NONE, 2), TN_NEW_DIM);
    if (tn_tensor_rank(part) != 3 || tn_tensor_numel(part) != 4) return wrong("slices");
    tn_index_assign(s, x, tn_zeros(s, TN_INTS(1)), TN_BY(tn_gt_scalar(s, x, 5)));
    if (tn_item_int(s, tn_sum(s, x)) != 15) return wrong("an assignment");
    tn_tensor *both = tn_cat(s, TN_TENSORS(x, x, tn_index(s, x, TN_ALL)));
    if (tn_tensor_size(both, 0) != 9) return wrong("a list of tensors");
    if (tn_tensor_numel(tn_sum_dim(s, x, TN_INTS(0))) != 4 || tn_tensor_numel(tn_sum_dim(s, x, TN_NO_INTS)) != 1)
        return wrong("dimensions");
    tn_tensor *image = tn_ones(s, TN_INTS(1, 1, 6, 6)), *filter = tn_ones(s, TN_INTS(1, 1, 2, 2));
    tn_conv2d_args o = of_stride(2), copy = o;
    if (tn_tensor_numel(tn_conv2d(s, image, filter, copy)) != 9) return wrong("a list that an option keeps");
    const uint32_t line = __LINE__ + 1;
    if (tn_index(s, x, TN_AT(3)) || tn_scope_error(s)->line != line) return wrong("the place of an index");
    tn_scope_clear(s);
    return tn_scope_failed(s);
}

static int error(tn_scope *s)
{
    const int64_t three[] = {3}, four[] = {4};
    const float data[] = {1, 2, 3, 4};
    tn_tensor *a = tn_from_data(s, TN_FLOAT32, tn_ints{three, 1}, data, TN_CPU);
    tn_tensor *b = tn_from_data(s, TN_FLOAT32, tn_ints{four, 1}, data, TN_CPU);
    const uint32_t line = __LINE__ + 1;
    if (tn_add(s, a, b, tn_add_args{}) || tn_scope_failed(s) != TN_E_SHAPE) return wrong("an error");
    if (!std::strstr(tn_scope_error(s)->message, "size of tensor a (3)")) return wrong("its text");
    if (tn_scope_error(s)->line != line || std::strcmp(tn_scope_error(s)->file, __FILE__)) return wrong("its place");
    tn_scope_clear(s);
    if (tn_mm(s, a, b)) return wrong("a product of vectors");
    if (tn_scope_error(s)->line != line + 4) return wrong("the place of a call without options");
    tn_scope_clear(s);
    if (tn_backward(s, a) == TN_OK || tn_scope_error(s)->line != line + 7) return wrong("the place of backward");
    tn_scope_clear(s);
    if (tn_split(s, a, -1).data[0]) return wrong("a list of a failed call");
    tn_scope_clear(s);
    /* the 0 is a null pointer */
    if (tn_sum_dim(s, a, {0, 1}) || !std::strstr(tn_scope_error(s)->message, "a list that points to NULL has no items (got 1)"))
        return wrong("a list of numbers in braces");
    tn_scope_clear(s);
    return 0;
}

int main()
{
    tn_context *ctx = nullptr;
    if (tn_context_create(nullptr, &ctx) != TN_OK) return wrong("context");
    tn_scope *s = tn_scope_open(ctx);
    int status = convolution(s) || gradient(s) || scalars(s) || lists(s) || error(s);
    if (tn_scope_failed(s)) std::printf("%s\n", tn_scope_error(s)->message);
    tn_scope_close(s);
    tn_context_destroy(ctx);
    if (status == 0) std::puts("well");
    return status;
}
