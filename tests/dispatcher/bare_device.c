/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device without any kernel (bare.c): the CPU fills and copies for it, and runs every operator. Copies between two
 * such devices, of every dtype and stride. What happens if the slots that these copies need fail.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/inspect.h>
#include "../torture/counting.h"
#include "support.h"

static tn_device first, second;

static void set_up(void)
{
    open_context();
    cr_assert_eq(tn_library_open(ctx, getenv("TENON_TEST_BARE_PLUGIN"), NULL), TN_OK, "%s",
                 tn_last_error() ? tn_last_error()->message : "");
    first = tn_device_parse(ctx, "bare:0");
    second = tn_device_parse(ctx, "bare:1");
    cr_assert(!(first & TN_DEVICE_MISSING) && !(second & TN_DEVICE_MISSING));
}

TestSuite(bare_device, .init = set_up, .fini = close_context);

/* The elements, row-major, in host memory as float32. */
static void expect(tn_tensor *t, const float *want, uint64_t count)
{
    float got[32] = {0};
    tn_tensor *here = tn__to_copy(s, t, .dtype = TN_FLOAT32, .device = TN_CPU);
    cr_assert_not_null(here, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "no tensor");
    cr_assert_eq(tn_to_host(s, here, got, count * sizeof *got), TN_OK);
    for (uint64_t i = 0; i < count; i++) cr_expect_eq(got[i], want[i], "%d: %g", (int)i, (double)got[i]);
}
#define EXPECT(t, ...) \
    expect(t, (const float[]){__VA_ARGS__}, sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

/* 0, 1, 2, ... as rows. */
static tn_tensor *rows(int64_t n, int64_t m, tn_device device)
{
    return tn__to_copy(s, tn_reshape(s, tn_arange(s, n * m, .dtype = TN_FLOAT32), TN_INTS(n, m)),
                       .device = device);
}

static uint64_t fallbacks(const char *name)
{
    tn_fallback_info info = {.size = sizeof info};
    for (uint32_t i = 0; i < tn_inspect_fallback_count(ctx); i++) {
        cr_assert_eq(tn_inspect_fallback(ctx, i, &info), TN_OK);
        if (!strncmp(info.name, name, strlen(name))) return info.count;
    }
    return 0;
}

Test(bare_device, the_cpu_fills)
{
    tn_tensor *x = tn_full(s, TN_INTS(2, 3), 7, .dtype = TN_FLOAT32, .device = first);
    EXPECT(x, 7, 7, 7, 7, 7, 7);
    cr_expect_eq(fallbacks("prim::fill"), 1);
    cr_expect_eq(tn_inspect_fallback(ctx, 0, NULL), TN_E_NOT_FOUND);
    tn_fill_scalar_(s, tn_select(s, x, 1, 1), 0); /* elements with gaps between them */
    EXPECT(x, 7, 0, 7, 7, 0, 7);
    cr_expect_eq(fallbacks("prim::fill"), 2);
    tn_fill_scalar_(s, x, 0); /* zero bytes, which memory.fill writes */
    EXPECT(x, 0, 0, 0, 0, 0, 0);
    tn_fill_scalar_(s, tn_ones(s, TN_INTS(2), .dtype = TN_BOOL, .device = first), TN_SCALAR((_Bool)0));
    cr_expect_eq(fallbacks("prim::fill"), 3, "one for the ones, none for zeros");
    tn_fill_scalar_(s, x, -0.0);
    cr_expect_eq(fallbacks("prim::fill"), 4, "-0.0 is not zero bytes");
    tn_tensor *z = tn_zeros(s, TN_INTS(2), .dtype = TN_COMPLEX64, .device = first);
    tn_fill_scalar_(s, tn_conj(s, z), tn_value_complex((const double[]){1, 2}));
    EXPECT(tn_view_as_real(s, z), 1, -2, 1, -2);
    tn_fill_scalar_(s, tn_imag(s, tn_conj(s, z)), 3); /* reads as negated */
    EXPECT(tn_view_as_real(s, z), 1, -3, 1, -3);
}

Test(bare_device, the_cpu_copies)
{
    tn_tensor *x = rows(2, 3, first), *to = tn_zeros(s, TN_INTS(3, 2), .device = first);
    tn_copy_(s, to, tn_t(s, x));
    EXPECT(to, 0, 3, 1, 4, 2, 5);
    cr_expect_eq(fallbacks("prim::copy"), 1);
    tn_copy_(s, tn_select(s, to, 1, 0), tn_select(s, x, 0, 1)); /* between strided views */
    EXPECT(to, 3, 3, 4, 4, 5, 5);
    tn_tensor *whole = tn_zeros(s, TN_INTS(3, 2), .dtype = TN_INT16, .device = first);
    tn_copy_(s, whole, to);
    EXPECT(whole, 3, 3, 4, 4, 5, 5);
    tn_tensor *row = tn_slice(s, x, .dim = 0, .start = 1); /* 1 x 3 */
    tn_tensor *wide = tn_zeros(s, TN_INTS(2, 3), .device = first);
    tn_copy_(s, wide, row); /* broadcast */
    EXPECT(wide, 3, 4, 5, 3, 4, 5);
}

/* Between the CPU and the device, in both directions. */
Test(bare_device, copies_to_and_from_the_cpu)
{
    tn_tensor *x = rows(2, 3, first), *here = tn_zeros(s, TN_INTS(3, 2), .dtype = TN_FLOAT64);
    tn_copy_(s, here, tn_t(s, x));
    EXPECT(here, 0, 3, 1, 4, 2, 5);
    tn_copy_(s, tn_select(s, x, 1, 1), tn_full(s, TN_INTS(2), 9, .dtype = TN_FLOAT32)); /* into gaps */
    EXPECT(x, 0, 9, 2, 3, 9, 5);
    tn_copy_(s, x, tn_full(s, TN_INTS(1), 8, .dtype = TN_FLOAT32)); /* broadcast */
    EXPECT(x, 8, 8, 8, 8, 8, 8);
    tn_tensor *z = tn_full(s, TN_INTS(2), tn_value_complex((const double[]){1, 2}), .dtype = TN_COMPLEX64);
    tn_tensor *far = tn_zeros(s, TN_INTS(2), .dtype = TN_COMPLEX64, .device = first);
    tn_copy_(s, far, tn_conj(s, z));
    EXPECT(tn_view_as_real(s, far), 1, -2, 1, -2);
    tn_copy_(s, tn_conj(s, far), z);
    EXPECT(tn_view_as_real(s, far), 1, -2, 1, -2);
    tn_copy_(s, tn_zeros(s, TN_INTS(0), .device = first), tn_zeros(s, TN_INTS(0)));
    cr_expect_eq(tn_scope_failed(s), TN_OK);
    tn_copy_(s, far, tn_empty(s, TN_INTS(2), .dtype = TN_COMPLEX64, .device = tn_device_parse(ctx, "meta")));
    expect_failure(TN_E_UNSUPPORTED, "Cannot copy out of meta tensor; no data!");
}

/* copy.peer copies bytes: one of the devices casts, conjugates and changes strides before or after it. */
Test(bare_device, copies_between_peers)
{
    tn_tensor *x = rows(2, 3, first), *there = tn_zeros(s, TN_INTS(2, 3), .device = second);
    tn_copy_(s, there, x);
    EXPECT(there, 0, 1, 2, 3, 4, 5);
    cr_expect_eq(fallbacks("prim::copy"), 0);
    tn_tensor *turned = tn_zeros(s, TN_INTS(3, 2), .device = second);
    tn_copy_(s, turned, tn_t(s, x)); /* strides of the source */
    EXPECT(turned, 0, 3, 1, 4, 2, 5);
    tn_copy_(s, tn_t(s, turned), x); /* strides of the target */
    EXPECT(tn_t(s, turned), 0, 1, 2, 3, 4, 5);
    tn_copy_(s, there, tn_slice(s, x, .dim = 0, .start = 1)); /* broadcast */
    EXPECT(there, 3, 4, 5, 3, 4, 5);
    tn_tensor *whole = tn_zeros(s, TN_INTS(2, 3), .dtype = TN_INT32, .device = second);
    tn_copy_(s, whole, x); /* cast */
    EXPECT(whole, 0, 1, 2, 3, 4, 5);
    tn_tensor *z = tn_full(s, TN_INTS(2), tn_value_complex((const double[]){1, 2}), .dtype = TN_COMPLEX64,
                           .device = first);
    tn_tensor *c = tn_zeros(s, TN_INTS(2), .dtype = TN_COMPLEX64, .device = second);
    tn_copy_(s, c, tn_conj(s, z));
    EXPECT(tn_view_as_real(s, c), 1, -2, 1, -2);
    tn_copy_(s, tn_conj(s, c), z);
    EXPECT(tn_view_as_real(s, c), 1, -2, 1, -2);
}

/* Two plugins' devices know nothing of each other: bytes go through host memory. */
Test(bare_device, copies_between_devices_of_two_plugins)
{
    tn_device reference = tn_device_parse(ctx, "reference:0");
    tn_tensor *x = rows(2, 3, first), *there = tn_zeros(s, TN_INTS(2, 3), .device = reference);
    tn_copy_(s, there, x);
    EXPECT(there, 0, 1, 2, 3, 4, 5);
    cr_expect_eq(fallbacks("prim::copy"), 0);
    tn_copy_(s, tn_t(s, there), tn_reshape(s, x, TN_INTS(3, 2)));
    EXPECT(there, 0, 2, 4, 1, 3, 5);
    tn_copy_(s, x, there);
    EXPECT(x, 0, 2, 4, 1, 3, 5);
    tn_tensor *whole = tn_zeros(s, TN_INTS(2, 3), .dtype = TN_INT16, .device = reference);
    tn_copy_(s, whole, x); /* cast */
    EXPECT(whole, 0, 2, 4, 1, 3, 5);
}

/* An element of 16 bytes has no integer of its size: its bytes are one more dimension. */
Test(bare_device, elements_of_a_vendor_that_are_larger_than_integers)
{
    uint8_t bytes[64], got[64];
    int64_t sizes[TN_MAX_RANK];
    for (int i = 0; i < 64; i++) bytes[i] = (uint8_t)i;
    for (int i = 0; i < TN_MAX_RANK; i++) sizes[i] = 1;
    tn_dtype wide = tn_dtype_intern(ctx, "acme_wide", 128);
    tn_tensor *x = tn_from_data(s, wide, TN_INTS(2, 2), bytes, TN_CPU);
    cr_assert_eq(tn_to_host(s, tn_contiguous(s, tn_t(s, x)), got, sizeof got), TN_OK);
    for (int i = 0; i < 64; i++)
        cr_expect_eq(got[i], bytes[(i / 16 % 2 * 2 + i / 32) * 16 + i % 16], "%d", i);
    tn_tensor *row = tn_slice(s, x, .dim = 0, .start = 1);
    cr_assert_eq(tn_to_host(s, tn_copy_(s, tn_empty_like(s, x), row), got, sizeof got),
                 TN_OK); /* broadcast */
    for (int i = 0; i < 64; i++) cr_expect_eq(got[i], 32 + i % 32, "%d", i);
    tn_tensor *deep = tn_reshape(s, tn_slice(s, row, .dim = 1, .end = 1), ((tn_ints){sizes, TN_MAX_RANK}));
    cr_assert_not_null(deep, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_expect_null(tn_clone(s, deep));
    expect_failure(TN_E_SHAPE, "copy: a tensor of acme_wide has at most 63 dimensions");
}

/* ---- Without memory ------------------------------------------------------------------------------------------- */

/* The sum of all elements that the copies gave, -1 if one of them failed. */
static double copy_in_every_way(void)
{
    tn_device reference = tn_device_parse(ctx, "reference:0");
    tn_tensor *x = rows(2, 3, first), *there = tn_zeros(s, TN_INTS(3, 2), .device = second);
    if (x && there) tn_copy_(s, there, tn_t(s, x)); /* the source's device makes it contiguous */
    if (there) tn_copy_(s, tn_t(s, there), x);
    tn_tensor *z = tn_full(s, TN_INTS(2), tn_value_complex((const double[]){1, 2}), .dtype = TN_COMPLEX64,
                           .device = first);
    if (z) tn_copy_(s, tn_conj(s, z), tn_full(s, TN_INTS(1), 3, .dtype = TN_FLOAT64)); /* through an image */
    if (x) tn_fill_scalar_(s, tn_select(s, x, 1, 1), 7);                               /* into gaps */
    if (x) tn_add_(s, x, x);
    if (z) tn_fill_scalar_(s, tn_imag(s, tn_conj(s, z)), -1);
    tn_tensor *far = tn_zeros(s, TN_INTS(2, 3), .dtype = TN_FLOAT64, .device = reference);
    if (far && x) tn_copy_(s, far, x);
    tn_tensor *triple = tn_from_data(s, tn_dtype_intern(ctx, "acme_triple", 24), TN_INTS(2, 1),
                                     (const uint8_t[]){1, 2, 3, 4, 5, 6}, TN_CPU);
    if (triple) tn_contiguous(s, tn_expand(s, triple, TN_INTS(2, 2)));
    if (tn_scope_failed(s)) return -1;
    return tn_item_double(s, tn_sum(s, far)) + tn_item_double(s, tn_sum(s, there)) +
           tn_item_double(s, tn_sum(s, tn_view_as_real(s, z)));
}

/* x is (0 14 4; 6 14 10), `there` 15 in all, z twice 3 + 1i. */
static const double copied = 48 + 15 + 8;

/* The n-th allocation fails, for every n: the call says so, nothing leaks, and a later one gives the right values. */
Test(bare_alone, copies_without_memory, .timeout = 110)
{
    counting memory = {0};
    const tn_context_options options = {.size = sizeof options,
                                        .flags = TN_CONTEXT_DEBUG_HANDLES, /* keeps no block for reuse */
                                        .allocator = {.user = &memory, .alloc = take, .free = give_back}};
    int failed = 0, done = 0;
    for (long long n = 1; !done; n++) {
        memory = (counting){0};
        cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
        tn_set_fallback_policy(ctx, TN_FALLBACK_SILENT);
        cr_assert_eq(tn_library_open(ctx, getenv("TENON_TEST_BARE_PLUGIN"), NULL), TN_OK);
        s = tn_scope_open(ctx);
        first = tn_device_parse(ctx, "bare:0");
        second = tn_device_parse(ctx, "bare:1");
        memory.fail_at = atomic_load(&memory.count) + n;
        double sum = copy_in_every_way();
        done = atomic_load(&memory.count) < memory.fail_at;
        memory.fail_at = 0;
        failed += sum < 0;
        cr_expect(sum == copied || tn_scope_failed(s), "allocation %lld: %g", n, sum);
        tn_scope_clear(s);
        cr_expect_eq(copy_in_every_way(), copied, "after allocation %lld", n);
        tn_scope_close(s);
        tn_context_destroy(ctx);
        cr_expect_eq(atomic_load(&memory.live), 0, "leak: allocation %lld", n);
    }
    cr_expect_gt(failed, 30);
}

/* Operators of every kind run on the CPU, and their results are on the device. */
Test(bare_device, the_cpu_runs_operators)
{
    tn_tensor *x = rows(2, 3, first);
    tn_tensor *sum = tn_add(s, x, x);
    cr_expect_eq(tn_tensor_device(sum), first);
    EXPECT(sum, 0, 2, 4, 6, 8, 10);
    EXPECT(tn_sum_dim(s, x, TN_INTS(1)), 3, 12);
    EXPECT(tn_cumsum(s, x, 1), 0, 1, 3, 3, 7, 12);
    EXPECT(tn_mm(s, x, tn_t(s, x)), 5, 14, 14, 50);
    EXPECT(tn_cat(s, TN_TENSORS(x, x)), 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5);
    tn_mul_scalar_(s, x, 2);
    EXPECT(x, 0, 2, 4, 6, 8, 10);
    tn_tensor *z = tn_full(s, TN_INTS(2), tn_value_complex((const double[]){1, 2}), .dtype = TN_COMPLEX64,
                           .device = first);
    tn_add_(s, tn_conj(s, z), z); /* 1 - 2i + 1 + 2i is stored conjugated */
    EXPECT(tn_view_as_real(s, z), 2, 0, 2, 0);
    tn_mul_scalar_(s, tn_imag(s, tn_conj(s, tn_fill_scalar_(s, z, tn_value_complex((const double[]){1, 2})))),
                   5);
    EXPECT(tn_view_as_real(s, z), 1, 10, 1, 10);
    tn_tensor *given = tn_empty(s, TN_INTS(0), .device = first);
    tn_add_out(s, x, x, given);
    EXPECT(given, 0, 4, 8, 12, 16, 20);
    cr_expect_geq(fallbacks("aten::add.Tensor"), 2);
    tn_inspect_fallback_reset(ctx);
    cr_expect_eq(tn_inspect_fallback_count(ctx), 0);
}

Test(bare_device, where_fallbacks_are_forbidden)
{
    tn_tensor *x = rows(2, 3, first), *other = rows(2, 3, second), *z = NULL;
    tn_set_fallback_policy(ctx, TN_FALLBACK_ERROR);
    z = tn_zeros(s, TN_INTS(2), .device = first); /* needs no kernel */
    cr_assert_not_null(z);
    cr_expect_null(tn_fill_scalar_(s, z, 1));
    expect_failure(TN_E_UNSUPPORTED, "prim::fill: would run on the CPU (no kernel), which TENON_FALLBACK or "
                                     "tn_set_fallback_policy forbids");
    cr_expect_null(tn_copy_(s, x, tn_flip(s, other, TN_INTS(0))));
    cr_expect_eq(tn_scope_failed(s), TN_E_UNSUPPORTED);
    tn_scope_clear(s);
    cr_expect_null(tn_contiguous(s, tn_t(s, x)));
    expect_failure(TN_E_UNSUPPORTED, "prim::copy: would run on the CPU (no kernel), which TENON_FALLBACK or "
                                     "tn_set_fallback_policy forbids");
    cr_expect_not_null(tn_copy_(s, other, tn_t(s, rows(3, 2, TN_CPU))),
                       "a copy from the CPU does not count as a fallback");
    cr_expect_null(tn_copy_(s, other, tn_t(s, tn_reshape(s, x, TN_INTS(3, 2)))));
    expect_failure(TN_E_UNSUPPORTED, "prim::copy: would run on the CPU");
    EXPECT(x, 0, 1, 2, 3, 4, 5);
}

static void expect_slot_failure(const char *what)
{
    cr_assert_not_null(tn_scope_error(s), "no error; expected: %s", what);
    cr_expect_str_eq(tn_scope_error(s)->plugin, "bare");
    expect_failure(TN_E_DEVICE, what);
}

/* A slot that fails ends the call with the plugin's name; afterwards the tensors can be used. */
Test(bare_device, slots_that_fail)
{
    static const struct {
        const char *slot, *text;
    } cases[] = {{"upload", "copy to a device"}, {"download", "copy from a device"}};
    tn_tensor *x = rows(2, 3, first), *there = tn_zeros(s, TN_INTS(2, 3), .device = second);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("TENON_TEST_BARE", cases[i].slot, 1);
        cr_expect_null(tn_fill_scalar_(s, tn_select(s, x, 1, 1), 1), "%s", cases[i].slot);
        expect_slot_failure(cases[i].text);
        cr_expect_null(tn_contiguous(s, tn_t(s, x)), "%s", cases[i].slot);
        expect_slot_failure(cases[i].text);
        cr_expect_null(tn_copy_(s, there, tn_t(s, tn_reshape(s, x, TN_INTS(3, 2)))), "%s", cases[i].slot);
        expect_slot_failure(cases[i].text);
        cr_expect_null(tn_add(s, x, x), "%s", cases[i].slot);
        expect_slot_failure(cases[i].text);
        cr_expect_null(tn_add_(s, x, x), "%s", cases[i].slot);
        expect_slot_failure(cases[i].text);
        cr_expect_null(tn_uniform_(s, x), "%s", cases[i].slot); /* which has no functional form to call */
        expect_slot_failure(cases[i].text);
        unsetenv("TENON_TEST_BARE");
    }
    setenv("TENON_TEST_BARE", "fill", 1);
    cr_expect_null(tn_zeros(s, TN_INTS(2), .device = first));
    expect_slot_failure("fill of device memory");
    setenv("TENON_TEST_BARE", "peer", 1);
    cr_expect_null(tn_copy_(s, there, x));
    expect_slot_failure("copy between devices");
    cr_expect_null(tn_copy_(s, tn_t(s, there), tn_reshape(s, x, TN_INTS(3, 2))));
    expect_slot_failure("copy between devices");
    unsetenv("TENON_TEST_BARE");
    tn_copy_(s, x, rows(2, 3, TN_CPU));
    tn_copy_(s, there, x);
    EXPECT(there, 0, 1, 2, 3, 4, 5);
}

/* ---- Rows that a program adds for the device ------------------------------------------------------------------ */

static int32_t refuse_late(void *self, const tn_call *call)
{
    return TN_E_UNSUPPORTED;
}

/* A row that agrees and refuses then is the last one: the CPU runs the call, with given outputs too. */
Test(bare_device, rows_that_refuse_late)
{
    static const char *const schemas[] = {
        "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
        "aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        "aten::mm(Tensor self, Tensor mat2) -> Tensor"};
    for (int i = 0; i < 4; i++) add_row("bare", schemas[i], 0, refuse_late, NULL);
    tn_tensor *x = rows(2, 2, first), *out = tn_empty(s, TN_INTS(0), .device = first);
    EXPECT(tn_sum(s, x), 6);
    EXPECT(tn_cumsum(s, x, 1), 0, 1, 2, 5);
    EXPECT(tn_add(s, x, tn_t(s, x)), 0, 3, 3, 6);
    EXPECT(tn_mm(s, x, x), 2, 3, 6, 11);
    tn_sum_dim_out(s, x, TN_NO_INTS, out);
    EXPECT(out, 6);
    tn_mm_out(s, x, x, out);
    EXPECT(out, 2, 3, 6, 11);
    tn_add_out(s, x, tn_t(s, x), out);
    EXPECT(out, 0, 3, 3, 6);
    cr_expect_geq(tn_inspect_finding_count(ctx), 4, "findings: %u", tn_inspect_finding_count(ctx));
}

static int copies;

static int32_t copy_bytes(void *self, const tn_call *call)
{
    const tn_operand *to = &call->nest->operands[0], *from = &call->nest->operands[1];
    copies++;
    memcpy((char *)to->allocation + to->byte_offset, (const char *)from->allocation + from->byte_offset,
           (size_t)call->nest->numel * (size_t)tn_dtype_bytes(to->dtype));
    return TN_OK;
}

/* A row for copies gets no lazily conjugated tensors unless it says that it reads them; the next row is tried. */
Test(bare_device, rows_for_copies)
{
    static const char schema[] = "prim::copy(Tensor(a!) self, Tensor src) -> Tensor(a!)";
    static const tn_dtype complex[] = {TN_COMPLEX64, 0};
    const tn_kernel_row row = {.size = sizeof row, .schema = schema, .dtypes = complex, .run = copy_bytes};
    cr_assert_eq(tn_kernels_add(ctx, "bare", NULL, &row, 1), TN_OK);
    tn_tensor *z = tn_full(s, TN_INTS(2), tn_value_complex((const double[]){1, 2}), .dtype = TN_COMPLEX64,
                           .device = first);
    copies = 0;
    tn_tensor *same = tn_clone(s, z), *turned = tn_resolve_conj(s, tn_conj(s, z));
    EXPECT(tn_view_as_real(s, same), 1, 2, 1, 2);
    EXPECT(tn_view_as_real(s, turned), 1, -2, 1, -2);
    cr_expect_eq(copies, 1, "%d", copies);
    cr_expect_eq(fallbacks("prim::copy"), 1, "the conjugated one");
    add_row("bare", schema, 10, refuse_late, NULL);
    EXPECT(tn_view_as_real(s, tn_clone(s, z)), 1, 2, 1, 2);
    cr_expect_eq(copies, 2, "%d", copies);
}

static tn_dtype seen;

/* *out = !*in for one byte each: the handle of an allocation is its address. */
static int32_t negate(void *self, const tn_call *call)
{
    const tn_operand *to = &call->nest->operands[0], *from = &call->nest->operands[1];
    uint8_t *out = (uint8_t *)to->allocation + to->byte_offset;
    const uint8_t *in = (const uint8_t *)from->allocation + from->byte_offset;
    seen = from->dtype;
    for (int64_t i = 0; i < call->nest->numel; i++) out[i] = !in[i];
    return TN_OK;
}

/* Only whether an element is zero matters: a row for bool serves all dtypes. */
Test(bare_device, logical_operators_by_a_row_for_bool)
{
    static const tn_dtype bools[] = {TN_BOOL, 0};
    const tn_kernel_row row = {.size = sizeof row,
                               .strides = TN_STRIDES_ANY,
                               .schema = "aten::logical_not(Tensor self) -> Tensor",
                               .dtypes = bools,
                               .run = negate};
    cr_assert_eq(tn_kernels_add(ctx, "bare", NULL, &row, 1), TN_OK);
    tn_tensor *x = rows(1, 3, first);
    EXPECT(tn_logical_not(s, x), 1, 0, 0);
    cr_expect_eq(seen, TN_BOOL);
    cr_expect_eq(fallbacks("aten::logical_not"), 0);
}

static void max_out(tn_tensor *x, tn_tensor *values, tn_tensor *indices)
{
    const tn_value args[] = {tn_value_tensor(x), tn_value_int(1), tn_value_bool(0), tn_value_tensor(values),
                             tn_value_tensor(indices)};
    tn_value outs[2];
    tn_scope_call(s, tn_operator_find(ctx, "aten::max.dim_max"), args, 5, outs, 2);
}

/* The second result is released if the first does not fit. */
Test(bare_device, results_that_do_not_fit)
{
    tn_tensor *x = rows(2, 3, first), *values = tn_empty(s, TN_INTS(0), .dtype = TN_INT32, .device = first);
    tn_tensor *indices = tn_empty(s, TN_INTS(0), .dtype = TN_INT64, .device = first);
    max_out(x, values, indices);
    expect_failure(TN_E_DTYPE, "Expected out tensor to have dtype float, but got int instead");
    values = tn_empty(s, TN_INTS(0), .device = second);
    max_out(x, values, indices);
    expect_failure(TN_E_DEVICE, "Expected out tensor to have device bare:0, but got bare:1 instead");
    values = tn_empty(s, TN_INTS(0), .device = first);
    max_out(x, values, indices);
    EXPECT(values, 2, 5);
    EXPECT(indices, 2, 2);
}

/* ---- Mixed precision ------------------------------------------------------------------------------------------ */

/* The plugin's class of an operator counts, else the host's; lists and tensors of other devices stay as they are. */
Test(bare_device, classes_of_mixed_precision)
{
    const tn_scope_options o = {.size = sizeof o, .autocast = TN_SCOPE_AUTOCAST_ON};
    tn_tensor *x = rows(2, 2, first), *h = tn_to(s, x, TN_FLOAT16), *outer_x = rows(1, 4, first);
    tn_scope *outer = s;
    s = tn_scope_open_child(outer, &o);
    cr_expect_eq(tn_tensor_dtype(tn_relu(s, x)), TN_FLOAT16);
    cr_expect_eq(tn_tensor_dtype(tn_exp(s, h)), TN_FLOAT16);
    cr_expect_eq(tn_tensor_dtype(tn_exp(s, x)), TN_FLOAT32);
    cr_expect_eq(tn_tensor_dtype(tn_neg(s, h)), TN_FLOAT16);
    cr_expect_eq(tn_tensor_dtype(tn_mm(s, x, x)), TN_FLOAT16, "a class of the host");
    cr_expect_eq(tn_tensor_dtype(tn_add(s, h, tn_ones(s, TN_NO_INTS))), TN_FLOAT16);
    cr_expect_eq(tn_tensor_dtype(tn_cat(s, TN_TENSORS(h, x))), TN_FLOAT32, "the widest");
    cr_expect_eq(tn_tensor_dtype(tn_index(s, outer_x, TN_AT(0))), TN_FLOAT32);
    tn_tensor *i = tn_zeros(s, TN_INTS(1), .dtype = TN_INT64, .device = first);
    tn_tensor *const items[] = {NULL, i};
    tn_tensor *y = tn_index_tensor(s, x, ((tn_tensors){items, 2}));
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    cr_expect_eq(tn_tensor_dtype(y), TN_FLOAT32);
    tn_scope_close(s);
    s = outer;
}

/* The operators of a program have classes, too; items of a list may be absent. */
Test(bare_device, classes_of_the_operators_of_a_program)
{
    const tn_scope_options o = {.size = sizeof o, .autocast = TN_SCOPE_AUTOCAST_ON};
    const tn_operator_def low = {.size = sizeof low,
                                 .schema = "test::low(Tensor x, Tensor?[] list) -> Tensor",
                                 .autocast = TN_AUTOCAST_LOW},
                          widest = {.size = sizeof widest,
                                    .schema = "test::widest(Tensor x, Tensor?[] list) -> Tensor",
                                    .autocast = TN_AUTOCAST_WIDEST};
    uint32_t casts = define_with(&low), promotes = define_with(&widest);
    add_row("cpu", low.schema, 0, do_nothing, NULL);
    add_row("cpu", widest.schema, 0, do_nothing, NULL);
    tn_tensor *x = rows(2, 2, first), *h = tn_to(s, x, TN_FLOAT16), *whole = tn_to(s, x, TN_INT32);
    tn_tensor *const with_x[] = {NULL, whole, x}, *const with_h[] = {h, NULL};
    tn_scope *outer = s;
    s = tn_scope_open_child(outer, &o);
    cr_expect_eq(tn_tensor_dtype(CALL(casts, tn_value_tensor(x), tn_value_tensors(with_x, 3))), TN_FLOAT16);
    cr_expect_eq(tn_tensor_dtype(CALL(casts, tn_value_tensor(whole), tn_value_tensors(with_x, 3))), TN_INT32);
    cr_expect_eq(tn_tensor_dtype(CALL(promotes, tn_value_tensor(h), tn_value_tensors(with_x, 3))),
                 TN_FLOAT32);
    cr_expect_eq(tn_tensor_dtype(CALL(promotes, tn_value_tensor(h), tn_value_tensors(with_h, 2))),
                 TN_FLOAT16);
    cr_assert_eq(tn_scope_failed(s), TN_OK, "%s", tn_scope_error(s)->message);
    tn_scope_close(s);
    s = outer;
}

/* ---- Without the CPU ------------------------------------------------------------------------------------------ */

/* A context that has this device alone: no operator can run, and each says so. */
Test(bare_alone, a_context_without_the_cpu)
{
    float two[2] = {1, 2}, got[2] = {0};
    setenv("TENON_PLUGIN_DISABLE", "cpu", 1);
    set_up();
    cr_expect_eq(tn_device_count(ctx, "cpu"), 0);
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(2), two, first);
    cr_assert_not_null(x, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(tn_to_host(s, x, got, sizeof got), TN_OK);
    cr_expect_eq(got[1], 2);
    cr_expect_null(tn_add(s, x, x));
    expect_failure(TN_E_DEVICE, "device cpu: no plugin offers this type");
    cr_expect_null(tn_mul_scalar(s, x, 2));
    expect_failure(TN_E_DEVICE, "device cpu: no plugin offers this type");
    cr_expect_null(tn_fill_scalar_(s, x, 3));
    expect_failure(TN_E_DEVICE, "device cpu: no plugin offers this type");
    cr_assert_eq(tn_to_host(s, x, got, sizeof got), TN_OK);
    cr_expect_eq(got[0], 1);
    close_context();
}

/* ---- TENON_DEBUG ------------------------------------------------------------------------------------------------ */

static char found[4096];

static void keep_lines(void *user, int32_t level, const char *text)
{
    size_t used = strlen(found);
    snprintf(found + used, sizeof found - used, "%s\n", text);
}

/* A result that cannot be read is said in the log, and the call has its result. */
Test(bare_alone, results_that_cannot_be_looked_at)
{
    const tn_context_options options = {.size = sizeof options, .log = keep_lines};
    setenv("TENON_DEBUG", "nan", 1);
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    tn_set_fallback_policy(ctx, TN_FALLBACK_SILENT);
    s = tn_scope_open(ctx);
    cr_assert_eq(tn_library_open(ctx, getenv("TENON_TEST_BARE_PLUGIN"), NULL), TN_OK);
    first = tn_device_parse(ctx, "bare:0");
    setenv("TENON_TEST_BARE", "download", 1);
    tn_tensor *x = tn_zeros(s, TN_INTS(2), .device = first);
    unsetenv("TENON_TEST_BARE");
    cr_assert_not_null(x);
    cr_expect_not_null(strstr(found, "TENON_DEBUG: reading a result failed: copy from a device failed"), "%s",
                       found);
    /* Both kinds in one tensor, in one part of a complex number each. */
    const float parts[] = {1, 2, 3, NAN, INFINITY, 0};
    tn_tensor *z = tn_from_data(s, TN_COMPLEX64, TN_INTS(3), parts, TN_CPU);
    tn_tensors halves = tn_split_copy(s, z, 3);
    cr_assert_eq(halves.count, 1);
    cr_expect_not_null(strstr(found, "first NaN: element 1 of result 0 of aten::clone"), "%s", found);
    cr_expect_not_null(strstr(found, "first infinity: element 2 of result 0 of aten::split_copy"), "%s",
                       found);
    tn_reshape(s, z, TN_INTS(7)); /* a call that fails has no results to look at */
    expect_failure(TN_E_SHAPE, "invalid for input of size 3");
    close_context();
}
