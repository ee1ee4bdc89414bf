/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NVIDIA's own cuDNN and cuBLASLt say of the plugin's descriptions, without a GPU: cuDNN makes a plan for each form of attention
 * and of convolutions on GPUs that are described to it, and neither refuses an attribute. Numbers are not compared: nothing runs.
 * Skipped where the machine has no such library.
 */
#include <library_names.h>
static const char *tested_library = "libcudnn.so.9";
#define LIBRARY tested_library
#include "../libraries/session.h"

enum { REFUSED, CHOICES, EXECUTED }; /* what the libraries count */

/* As cuDNN describes a GPU; sizes in bytes, after NVIDIA's data sheets. `version` is 100 times the compute capability. */
static const struct {
    const char *name;
    int version, processors, shared, bus, cache_mib;
    long memory_gib;
} gpus[] = {
    {"A100", 800, 108, 166912, 5120, 40, 80},     {"L40S", 890, 142, 101376, 384, 96, 48},
    {"H100", 900, 132, 232448, 5120, 50, 80},     {"B200", 1000, 148, 232448, 8192, 126, 180},
    {"RTX 5090", 1200, 170, 101376, 512, 96, 32},
};
enum { GPUS = sizeof gpus / sizeof *gpus };

static void describe_gpu(int i)
{
    char text[1024];
    snprintf(
        text, sizeof text,
        "{\"deviceName\":\"%s\",\"cudaDeviceId\":0,\"deviceVer\":%d,\"multiProcessorCount\":%d,\"driverVer\":"
        "13000,"
        "\"totalGlobalMem\":%ld,\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
        "\"regsPerBlock\":65536,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
        "\"maxSharedMemoryPerBlockOptin\":%d,"
        "\"oversizedSharedMemoryPerBlock\":0,\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":"
        "65536,"
        "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,"
        "\"isTccDriver\":0,"
        "\"supportCoopLaunch\":1,\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,\"memoryBusWidth\":%"
        "d,"
        "\"l2CacheSize\":%d,\"smCountOrigin\":0}",
        gpus[i].name, gpus[i].version, gpus[i].processors, gpus[i].memory_gib << 30, gpus[i].shared,
        gpus[i].bus, gpus[i].cache_mib << 20);
    setenv("CUDNN_TEST_GPU", text, 1);
}

static void open_with(const char *variable, const char *name)
{
    const char *file = getenv(variable);
    if (!file || !*file)
        cr_skip("NVIDIA's %s not found: the option libraries_of_vendors names its folder", name);
    open_device();
}

static int count_now(int what)
{
    const int n = count(what);
    return n < 0 ? 0 : n;
}

TestSuite(plans, .timeout = 600);

static tn_tensor *leaf(tn_dtype dtype, tn_ints sizes)
{
    tn_tensor *t = numbers(dtype, sizes);
    cr_assert_eq(tn_set_requires_grad(t, 1), TN_OK);
    return t;
}

/* The gradient is a matrix of its own, not one number that is repeated. */
static void go_back(tn_tensor *y)
{
    cr_assert_not(tn_scope_failed(s), "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(tn_backward(s, tn_sum(s, tn_mul(s, y, tn_ones_like(s, y)))), TN_OK);
}

/* Each pass has a plan whose workspace is not too large. */
static void expect_passes(int before, int wanted, const char *what)
{
    cr_expect_eq(count_now(EXECUTED) - before, wanted, "%s: %d passes by the library, wanted %d", what,
                 count_now(EXECUTED) - before, wanted);
    cr_expect_eq(count_now(REFUSED), 0, "%s: the library refused %d calls", what, count_now(REFUSED));
}

/* ---- Attention ---------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int64_t heads, key_heads, queries, keys, width;
    int32_t is_causal;
    int passes; /* forward, and the gradients up to a width of 128 */
} attentions[] = {
    {"plain", 4, 4, 128, 128, 64, 0, 2},        {"causal", 4, 4, 2048, 2048, 64, 1, 2},
    {"fewer queries", 4, 4, 64, 128, 64, 1, 2}, {"odd sizes", 4, 4, 100, 37, 64, 0, 2},
    {"shared keys", 8, 2, 128, 128, 64, 1, 2},  {"narrow", 4, 4, 128, 128, 8, 0, 2},
    {"width 80", 4, 4, 128, 128, 80, 0, 2},     {"width 128", 4, 4, 333, 333, 128, 1, 2},
    {"width 192", 4, 4, 128, 128, 192, 0, 1},   {"width 256", 4, 4, 128, 128, 256, 0, 1},
};

static tn_tensor *heads_of(tn_tensor *t, int is_transposed)
{
    return is_transposed ? tn_transpose(s, t, 1, 2) : t;
}

static void attend(int i, tn_dtype dtype, int is_transposed)
{
    const int64_t e = attentions[i].width, h = attentions[i].heads, q = attentions[i].queries,
                  k = attentions[i].keys, kh = attentions[i].key_heads;
    const int before = count_now(EXECUTED);
    tn_tensor *query = leaf(dtype, is_transposed ? TN_INTS(2, q, h, e) : TN_INTS(2, h, q, e)),
              *key = leaf(dtype, is_transposed ? TN_INTS(2, k, kh, e) : TN_INTS(2, kh, k, e)),
              *value = leaf(dtype, is_transposed ? TN_INTS(2, k, kh, e) : TN_INTS(2, kh, k, e));
    tn_tensor *y = tn_scaled_dot_product_attention(
        s, heads_of(query, is_transposed), heads_of(key, is_transposed), heads_of(value, is_transposed),
        .is_causal = attentions[i].is_causal, .enable_gqa = h != kh);
    go_back(heads_of(y, is_transposed));
    expect_passes(before, attentions[i].passes, attentions[i].name);
}

TEST_OF_ROWS(plans, attention, gpus)
{
    describe_gpu(*row);
    open_with("TEST_CUDNN", "cuDNN");
    for (int i = 0; i < (int)(sizeof attentions / sizeof *attentions); i++)
        attend(i, i % 2 ? TN_BFLOAT16 : TN_FLOAT16, 0);
    attend(0, TN_BFLOAT16, 1);
    attend(1, TN_FLOAT16, 1);
    close_device();
}

/* ---- Convolutions ------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int64_t in, size, out, window, stride, padding, dilation, groups;
} convolutions[] = {
    {"one element", 16, 16, 32, 1, 1, 0, 1, 1},      {"three by three", 64, 14, 128, 3, 1, 1, 1, 1},
    {"of an image", 3, 64, 64, 7, 2, 3, 1, 1},       {"in groups", 32, 8, 32, 3, 1, 1, 1, 4},
    {"of each channel", 64, 12, 64, 3, 2, 1, 1, 64}, {"few channels", 6, 11, 10, 3, 1, 1, 1, 1},
    {"many channels", 512, 7, 512, 3, 1, 1, 1, 1},   {"dilated", 16, 16, 32, 3, 1, 2, 2, 1},
};
static const tn_dtype dtypes[] = {TN_FLOAT16, TN_BFLOAT16, TN_FLOAT32, TN_FLOAT64};

/* Forward and two gradients; dilated ones are left to the kernels in deterministic mode. */
TEST_OF_ROWS(plans, convolutions, gpus)
{
    describe_gpu(*row);
    open_with("TEST_CUDNN", "cuDNN");
    for (int is_ordered = 0; is_ordered < 2; is_ordered++) {
        tn_set_deterministic(ctx, is_ordered);
        for (int i = 0; i < 4 * (int)(sizeof convolutions / sizeof *convolutions); i++) {
            const __typeof__(*convolutions) c = convolutions[i / 4];
            const int before = count_now(EXECUTED);
            tn_tensor *x = leaf(dtypes[i % 4], TN_INTS(2, c.in, c.size, c.size)),
                      *w = leaf(dtypes[i % 4], TN_INTS(c.out, c.in / c.groups, c.window, c.window));
            go_back(tn_conv2d(s, x, w, .stride = TN_INTS(c.stride, c.stride),
                              .padding = TN_INTS(c.padding, c.padding),
                              .dilation = TN_INTS(c.dilation, c.dilation), .groups = c.groups));
            expect_passes(before, is_ordered && c.dilation > 1 ? 0 : 3, c.name);
        }
    }
    close_device();
}

TEST_OF_ROWS(plans, other_axes_and_transposed_convolutions, gpus)
{
    describe_gpu(*row);
    open_with("TEST_CUDNN", "cuDNN");
    for (int i = 0; i < 3; i++) {
        const int before = count_now(EXECUTED);
        go_back(tn_conv1d(s, leaf(dtypes[i], TN_INTS(2, 8, 40)), leaf(dtypes[i], TN_INTS(16, 8, 3)),
                          .padding = TN_INTS(1)));
        go_back(
            tn_conv3d(s, leaf(dtypes[i], TN_INTS(1, 8, 6, 8, 8)), leaf(dtypes[i], TN_INTS(16, 8, 3, 3, 3))));
        go_back(tn_conv_transpose2d(s, leaf(dtypes[i], TN_INTS(2, 16, 8, 8)),
                                    leaf(dtypes[i], TN_INTS(16, 8, 3, 3)), .stride = TN_INTS(2, 2),
                                    .padding = TN_INTS(1, 1), .output_padding = TN_INTS(1, 1)));
        expect_passes(before, 9, "one axis, three axes, transposed");
    }
    close_device();
}

/* ---- Products ----------------------------------------------------------------------------------------------- */

Test(plans, products)
{
    tested_library = "libcublasLt.so.13";
    open_with("TEST_CUBLASLT", "cuBLASLt");
    for (int i = 0; i < 4; i++) {
        const tn_dtype d = dtypes[i];
        const int before = count_now(CHOICES);
        tn_mm(s, numbers(d, TN_INTS(33, 20)), numbers(d, TN_INTS(20, 50)));
        tn_mm(s, tn_t(s, numbers(d, TN_INTS(20, 33))), tn_t(s, numbers(d, TN_INTS(50, 20))));
        tn_bmm(s, numbers(d, TN_INTS(5, 33, 20)), numbers(d, TN_INTS(5, 20, 50)));
        tn_linear(s, numbers(d, TN_INTS(3, 7, 20)), numbers(d, TN_INTS(50, 20)),
                  .bias = numbers(d, TN_INTS(50)));
        cr_assert_not(tn_scope_failed(s), "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "");
        cr_expect_eq(count_now(CHOICES) - before, 4, "dtype %d: %d choices", i, count_now(CHOICES) - before);
    }
    cr_expect_eq(count_now(REFUSED), 0, "the library refused %d calls", count_now(REFUSED));
    close_device();
}
