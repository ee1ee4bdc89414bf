/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of dtypes that vendors name: the library moves, prints and keeps their elements, and computes nothing. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/ops.h>
#include <unistd.h>
#include "fixture.h"

static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};

/* Two rows of three elements of so many bits. */
static tn_tensor *make_bits(place *p, const char *name, uint32_t bits)
{
    return tn_from_data(p->s, tn_dtype_intern(p->ctx, name, bits), TN_INTS(2, 3), bytes, p->device);
}

static void expect_bytes(place *p, tn_tensor *t, const uint8_t *want, uint64_t count)
{
    uint8_t got[32];
    cr_assert_eq(tn_to_host(p->s, t, got, count), TN_OK, "%s",
                 tn_scope_failed(p->s) ? tn_scope_error(p->s)->message : "");
    cr_assert_arr_eq(got, want, count);
}

#define EXPECT_BYTES(p, t, ...) \
    expect_bytes(p, t, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

/* 6 bits take a byte; 24 have no integer of their size, 32 have one. */
ON_EACH_DEVICE(vendor_dtypes, are_copied_with_any_strides)
{
    tn_tensor *one = make_bits(p, "acme_float6", 6), *three = make_bits(p, "acme_triple", 24);
    EXPECT_BYTES(p, tn_clone(p->s, tn_t(p->s, one)), 1, 4, 2, 5, 3, 6);
    EXPECT_BYTES(p, tn_contiguous(p->s, tn_t(p->s, one)), 1, 4, 2, 5, 3, 6);
    EXPECT_BYTES(p, tn_contiguous(p->s, tn_t(p->s, three)), 1, 2, 3, 10, 11, 12, 4, 5, 6, 13, 14, 15, 7, 8, 9,
                 16, 17, 18);
    tn_tensor *row = tn_select(p->s, three, 0, 1);
    EXPECT_BYTES(p, tn_copy_(p->s, tn_empty_like(p->s, three), row), 10, 11, 12, 13, 14, 15, 16, 17, 18, 10,
                 11, 12, 13, 14, 15, 16, 17, 18);
    EXPECT_BYTES(p, tn__to_copy(p->s, tn_t(p->s, one), .device = TN_CPU), 1, 4, 2, 5, 3, 6);
    EXPECT_BYTES(p, tn_cat(p->s, TN_TENSORS(row, row)), 10, 11, 12, 13, 14, 15, 16, 17, 18, 10, 11, 12, 13,
                 14, 15, 16, 17, 18);
    cr_assert_eq(tn_tensor_dtype(tn_clone(p->s, one)), tn_dtype_intern(p->ctx, "acme_float6", 6));
}

ON_EACH_DEVICE(vendor_dtypes, are_printed_as_bits)
{
    char want[160];
    const char *device = TN_DEVICE_TYPE(p->device) == TN_INTERNED_CPU ? "" : "device='reference:0',\n       ";
    snprintf(want, sizeof want,
             "tensor([[0x030201, 0x060504, 0x090807],\n        [0x0c0b0a, 0x0f0e0d, 0x121110]], "
             "%sdtype=acme_triple)",
             device);
    expect_text(p, make_bits(p, "acme_triple", 24), want);
}

static void expect_refused(place *p, const char *part)
{
    cr_assert(tn_scope_failed(p->s));
    cr_assert(strstr(tn_scope_error(p->s)->message, part), "%s", tn_scope_error(p->s)->message);
    tn_scope_close(p->s);
    p->s = tn_scope_open(p->ctx);
}

ON_EACH_DEVICE(vendor_dtypes, are_refused_by_name_where_no_row_takes_them)
{
    tn_tensor *t = make_bits(p, "acme_float6", 6);
    tn_add(p->s, t, t);
    expect_refused(p, "\"add\" not implemented for 'acme_float6'");
    tn_sum(p->s, make_bits(p, "acme_float6", 6));
    expect_refused(p, "\"sum\" not implemented for 'acme_float6'");
    tn__to_copy(p->s, make_bits(p, "acme_float6", 6), .dtype = TN_FLOAT32);
    expect_refused(p, "copy: no kernel from acme_float6 to float32");
    tn_tensor *ones = tn_ones(p->s, TN_INTS(2), .dtype = TN_FLOAT32, .device = p->device);
    tn__to_copy(p->s, ones, .dtype = tn_dtype_intern(p->ctx, "acme_float6", 6));
    expect_refused(p, "copy: no kernel from float32 to acme_float6");
    tn_zeros(p->s, TN_INTS(2), .dtype = tn_dtype_intern(p->ctx, "acme_float6", 6), .device = p->device);
    expect_refused(p, "zeros: no kernel for acme_float6");
    tn_item_double(
        p->s, tn_view(p->s, tn_narrow(p->s, tn_select(p->s, make_bits(p, "acme_float6", 6), 0, 0), 0, 0, 1),
                      TN_INTS(1)));
    expect_refused(p, "acme_float6");
    tn_empty(p->s, TN_INTS(2), .dtype = TN_DTYPE(250, 6), .device = p->device);
    expect_refused(p, "0x106fa is not a dtype");
}

/* Another context gives the names other codes. */
ON_EACH_DEVICE(vendor_dtypes, are_kept_in_files)
{
    char path[] = "/tmp/tenon-vendor-XXXXXX";
    int file = mkstemp(path);
    cr_assert_geq(file, 0);
    close(file);
    tn_tensor *three = make_bits(p, "acme_triple", 24),
              *one = tn_select(p->s, make_bits(p, "acme_float6", 6), 0, 1);
    const tn_named_tensor tensors[] = {{"a", three}, {"b", one}};
    const char *metadata[] = {"format", "pt"};
    cr_assert_eq(tn_safetensors_save(p->s, path, tensors, 2, metadata, 1), TN_OK);
    tn_context *ctx;
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
    place q = {ctx, tn_scope_open(ctx), TN_CPU};
    cr_assert_neq(tn_dtype_intern(ctx, "other", 7), 0);
    tn_safetensors *f;
    cr_assert_eq(tn_safetensors_open(ctx, path, &f), TN_OK, "%s", tn_last_error()->message);
    cr_assert_str_eq(tn_safetensors_metadata(f, "format"), "pt");
    tn_tensor *a = tn_safetensors_get(q.s, f, "a", TN_CPU), *b = tn_safetensors_get(q.s, f, "b", TN_CPU);
    cr_assert_str_eq(tn_dtype_interned(ctx, tn_tensor_dtype(a)), "acme_triple");
    cr_assert_eq(TN_DTYPE_BITS(tn_tensor_dtype(b)), 6);
    expect_sizes(&q, a, TN_INTS(2, 3));
    expect_sizes(&q, b, TN_INTS(3));
    expect_bytes(&q, a, bytes, 18);
    EXPECT_BYTES(&q, b, 4, 5, 6);
    cr_assert_eq(tn_safetensors_save(p->s, path, tensors, 1, (const char *[]){"tenon.dtype.a", "x:1"}, 1),
                 TN_E_ARGUMENT);
    expect_refused(p, "metadata has the key of a tensor's dtype ('tenon.dtype.a')");
    tn_safetensors_close(f);
    tn_scope_close(q.s);
    tn_context_destroy(ctx);
    unlink(path);
}

/* A file whose metadata do not fit its tensor. */
ON_EACH_DEVICE(vendor_dtypes, of_damaged_files_are_refused)
{
    static const char *const values[] = {"acme_wide:16", "acme", ":6", "acme:0", "acme:6x"};
    char path[] = "/tmp/tenon-vendor-XXXXXX";
    int file = mkstemp(path);
    close(file);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        tn_tensor *t = tn_ones(p->s, TN_INTS(2, 3), .dtype = TN_UINT8, .device = p->device);
        tn_safetensors *f;
        cr_assert_eq(tn_safetensors_save(p->s, path, (tn_named_tensor[]){{"a", t}}, 1,
                                         (const char *[]){"tenon.dtype.a", values[i]}, 1),
                     TN_OK);
        cr_assert_eq(tn_safetensors_open(p->ctx, path, &f), TN_OK);
        cr_assert_null(tn_safetensors_get(p->s, f, "a", p->device), "%s", values[i]);
        expect_refused(p, "");
        tn_safetensors_close(f);
    }
    unlink(path);
}
