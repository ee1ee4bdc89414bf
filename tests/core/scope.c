/* SPDX-License-Identifier: Apache-2.0 */
#include "core/scope.h"

#include <criterion/criterion.h>
#include <string.h>
#include <tenon/device.h>
#include <tenon/io.h>
#include "core/thread.h"

static tn_context *ctx;

static void open_context(void)
{
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK);
}

static void close_context(void)
{
    tn_context_destroy(ctx);
}

TestSuite(scope, .init = open_context, .fini = close_context);

Test(scope, first_error_stays)
{
    tn_scope *s = tn_scope_open(ctx);
    cr_assert_eq(TN_SCOPE_HOST(s), &ctx->host);
    cr_assert_eq(tn_scope_context(s), ctx);
    cr_assert_eq(tn_scope_failed(s), 0);
    cr_assert_null(tn_scope_error(s));
    cr_assert_eq(tn_scope_fail(s, TN_E_SHAPE, "first"), TN_E_SHAPE);
    cr_assert_eq(tn_scope_fail(s, TN_E_DTYPE, "second"), TN_E_DTYPE);
    cr_assert_eq(tn_scope_failed(s), TN_E_SHAPE);
    cr_assert_str_eq(tn_scope_error(s)->message, "first");
    cr_assert_null(tn_scope_memory(s, 8));
    tn_scope_clear(s);
    cr_assert_eq(tn_scope_failed(s), 0);
    cr_assert_null(tn_last_error());
    cr_assert_not_null(tn_scope_memory(s, 8));
    tni_scope_record(s, TN_E_SHAPE); /* nobody said more */
    cr_assert_str_eq(tn_scope_error(s)->message, "a call failed: bad shape");
    tn_scope_clear(s);
    cr_assert_eq(tn_scope_close(s), TN_OK);
    cr_assert_eq(tn_scope_close(NULL), TN_OK);
}

/* A program that ignores a failure gets errors from every later call, and no crash. */
Test(scope, nothing_is_NULL_by_surprise)
{
    cr_assert_null(tn_scope_open(NULL));
    cr_assert_not_null(strstr(tn_last_error()->message, "the context is NULL"));
    cr_assert_null(tn_scope_open_with(NULL, NULL));
    cr_assert_eq(tn_device_count(NULL, NULL), 0);
    cr_assert_eq(tn_device_at(NULL, 0), TN_DEVICE_MISSING);
    cr_assert_eq(tn_device_choose(NULL, NULL, NULL), TN_DEVICE_MISSING);
    cr_assert_eq(tn_device_get_facts(NULL, TN_CPU, NULL), TN_E_ARGUMENT);
    cr_assert_null(tn_tensor_context(NULL));
    cr_assert_null(tn_tensor_data(NULL));
    cr_assert_eq(tn_tensor_storage_offset(NULL), 0);
    cr_assert_eq(tn_tensor_storage_bytes(NULL), 0);
    cr_assert_eq(tn_tensor_version(NULL), 0);
    cr_assert_eq(tn_tensor_is_contiguous(NULL, TN_CONTIGUOUS_FORMAT), 0);
    cr_assert_eq(tn_tensor_is_alias(NULL, NULL), 0);
    cr_assert_eq(tn_safetensors_count(NULL), 0);
    cr_assert_null(tn_safetensors_name(NULL, 0));
    cr_assert_null(tn_safetensors_metadata(NULL, "k"));
    tn_scope *s = tn_scope_open(ctx);
    cr_assert_null(tn_from_blob(s, NULL));
    cr_assert_str_eq(tn_scope_error(s)->message, "tn_blob is NULL");
    cr_assert_eq(tn_scope_close(s), TN_E_ARGUMENT);
}

Test(scope, error_moves_to_the_parent)
{
    tn_scope *parent = tn_scope_open(ctx), *child = tn_scope_open_child(parent, NULL);
    tn_scope_fail(child, TN_E_INDEX, "inner");
    cr_assert_eq(tn_scope_failed(parent), 0);
    cr_assert_eq(tn_scope_close(child), TN_E_INDEX);
    cr_assert_eq(tn_scope_failed(parent), TN_E_INDEX);
    child = tn_scope_open_child(parent, NULL);
    tn_scope_clear(child);
    tn_scope_fail(child, TN_E_IO, "later");
    tn_scope_close(child);
    cr_assert_str_eq(tn_scope_error(parent)->message, "inner");
    cr_assert_eq(tn_scope_close(parent), TN_E_INDEX);
}

/* Else a function that works in a scope of its own would do what no call on the scope it was given does. */
Test(scope, the_child_of_a_scope_that_has_failed_has_failed)
{
    tn_scope *parent = tn_scope_open(ctx);
    tn_scope_fail(parent, TN_E_INDEX, "first");
    tn_scope_place(parent, "model.c", 7);
    tn_scope *child = tn_scope_open_child(parent, NULL);
    cr_assert_eq(tn_scope_failed(child), TN_E_INDEX);
    cr_assert_str_eq(tn_scope_error(child)->message, "model.c:7: first");
    cr_assert_str_eq(tn_scope_error(child)->file, "model.c");
    cr_assert_eq(tn_scope_error(child)->line, 7);
    cr_assert_null(tn_scope_memory(child, 8));
    cr_assert_eq(tn_scope_close(child), TN_E_INDEX);
    cr_assert_str_eq(tn_scope_error(parent)->message, "model.c:7: first");
    tn_scope_close(parent);
}

Test(scope, options_hold_until_close)
{
    cr_assert(tni_grad_enabled());
    tn_scope_options o = {
        .size = sizeof(o), .grad_mode = TN_GRAD_OFF, .default_dtype = TN_FLOAT64, .device = TN_CPU};
    tn_scope *s = tn_scope_open_with(ctx, &o);
    cr_assert_not(tni_grad_enabled());
    cr_assert_eq(tni_default_dtype(ctx), TN_FLOAT64);
    cr_assert_eq(tni_tls.default_device, TN_CPU);
    tn_scope_options inner = {.size = sizeof(inner), .grad_mode = TN_GRAD_ON};
    tn_scope *c = tn_scope_open_child(s, &inner);
    cr_assert(tni_grad_enabled());
    cr_assert_eq(tni_default_dtype(ctx), TN_FLOAT64);
    tn_scope_close(c);
    cr_assert_not(tni_grad_enabled());
    tn_scope_close(s);
    cr_assert(tni_grad_enabled());
    cr_assert_eq(tni_default_dtype(ctx), TN_FLOAT32);
    cr_assert_eq(tni_tls.default_device, 0);
}

Test(scope, bad_options_fail_the_scope)
{
    tn_scope_options o[] = {{.size = sizeof(o[0]), .grad_mode = 9},
                            {.size = sizeof(o[0]), .flags = 2},
                            {.size = sizeof(o[0]), .default_dtype = TN_INT8},
                            {.size = 0}};
    int32_t expected[] = {TN_E_ARGUMENT, TN_E_UNKNOWN_FIELD, TN_E_DTYPE, TN_E_ARGUMENT};
    for (int i = 0; i < 4; i++) {
        tn_scope *s = tn_scope_open_with(ctx, &o[i]);
        cr_assert_eq(tn_scope_failed(s), expected[i]);
        cr_assert_eq(tn_scope_close(s), expected[i]);
    }
}

Test(scope, memory_is_aligned_and_distinct)
{
    tn_scope *s = tn_scope_open(ctx);
    char *blocks[300];
    for (uint64_t i = 0; i < 300; i++) {
        blocks[i] = tn_scope_memory(s, i * 13);
        cr_assert_eq((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], (int)i, i * 13);
    }
    char *large = tn_scope_memory(s, 1 << 20);
    memset(large, 1, 1 << 20);
    for (uint64_t i = 1; i < 300; i++) {
        cr_assert_eq((unsigned char)blocks[i][0], i & 0xff);
        cr_assert_eq((unsigned char)blocks[i][i * 13 - 1], i & 0xff);
    }
    cr_assert_null(tn_scope_memory(s, UINT64_MAX));
    cr_assert_eq(tn_scope_close(s), TN_E_OUT_OF_MEMORY);
}

static tn_tensor *make_tensor(void)
{
    tn_tensor *t = NULL;
    int64_t sizes[] = {2};
    tn_device meta = TN_DEVICE(TN_INTERNED_META, 0);
    cr_assert_eq(tni_tensor_create(ctx, meta, TN_FLOAT32, 1, sizes, NULL, &t), TN_OK);
    return t;
}

static uint32_t references(const tn_tensor *t)
{
    return atomic_load(&t->refs);
}

Test(scope, owns_tensors_until_it_closes)
{
    tn_tensor *kept[100];
    tn_scope *s = tn_scope_open(ctx);
    for (int i = 0; i < 100; i++) {
        kept[i] = tn_retain(make_tensor());
        cr_assert_eq(tn_scope_adopt(s, kept[i]), kept[i]);
        cr_assert_eq(references(kept[i]), 2);
    }
    tn_drop(s, kept[50]);
    cr_assert_eq(references(kept[50]), 1);
    tn_drop(s, kept[50]); /* no longer of the scope */
    tn_drop(s, NULL);
    cr_assert_eq(references(kept[50]), 1);
    tn_scope_close(s);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(references(kept[i]), 1);
        tn_release(kept[i]);
    }
}

Test(scope, returns_to_the_parent)
{
    tn_scope *parent = tn_scope_open(ctx), *child = tn_scope_open_child(parent, NULL);
    tn_tensor *t = tn_retain(tn_scope_adopt(child, make_tensor()));
    cr_assert_eq(tn_scope_return(child, t), t);
    tn_scope_close(child);
    cr_assert_eq(references(t), 2);
    child = tn_scope_open_child(parent, NULL);
    cr_assert_eq(tn_scope_return(child, t), t); /* the parent's already */
    cr_assert_null(tn_scope_return(child, NULL));
    tn_scope_close(child);
    cr_assert_eq(references(t), 2);
    cr_assert_eq(tn_scope_return(parent, t), t); /* to the caller */
    tn_scope_close(parent);
    cr_assert_eq(references(t), 2);
    tn_release(t);
    tn_release(t);
}

Test(scope, root_gives_the_caller_a_reference)
{
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *t = make_tensor();
    cr_assert_eq(tn_scope_return(s, t), t);
    cr_assert_eq(references(t), 2);
    tn_scope_close(s);
    tn_release(t);
    tn_release(t);
}

Test(scope, a_tensor_outlives_the_context)
{
    tn_context *own = NULL, *saved = ctx;
    cr_assert_eq(tn_context_create(NULL, &own), TN_OK);
    ctx = own;
    tn_tensor *t = make_tensor();
    ctx = saved;
    tn_context_destroy(own);
    cr_assert_eq(tn_tensor_size(t, 0), 2);
    tn_release(t);
}
