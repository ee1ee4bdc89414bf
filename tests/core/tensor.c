/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors and storages: making, viewing, lifetimes, reading, dead handles, failing allocations. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include "core/scope.h"
#include "core/thread.h"
#include "core/transfer.h"
#include <stdio.h>
#include "fake_driver.h"

static fake cpu, gpu = {.type = "gpu", .count = 1, .device_class = TN_DEVICE_DISCRETE};
static tn_context *ctx;

static void open_cpu(void)
{
    ctx = fake_context(&cpu, NULL);
}

static void open_both(void)
{
    ctx = fake_context(&cpu, &gpu);
}

static void close_all(void)
{
    tn_context_destroy(ctx);
    cr_assert_eq(cpu.live_allocations + gpu.live_allocations, 0);
    cr_assert_eq(cpu.breaches + gpu.breaches, 0);
}

static tn_tensor *make(tn_dtype dtype, uint32_t rank, const int64_t *sizes)
{
    tn_tensor *t = NULL;
    cr_assert_eq(tni_tensor_create(ctx, TN_CPU, dtype, rank, sizes, NULL, &t), TN_OK);
    return t;
}

/* Numbers that are not dtypes are refused by every way to make a tensor. */
Test(tensor, unknown_dtypes_are_refused)
{
    open_cpu();
    const tn_dtype dtypes[] = {1, 0x1234, TN_DTYPE(TN_CODE_FLOAT, 24), TN_DTYPE(100, 32),
                               TN_FLOAT32 + (1u << 16)};
    float data[2] = {1, 2};
    int64_t two = 2;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        char text[64];
        tn_scope *s = tn_scope_open(ctx);
        tn_tensor *t = NULL;
        cr_assert_eq(tni_tensor_create(ctx, TN_CPU, dtypes[i], 1, &two, NULL, &t), TN_E_DTYPE);
        snprintf(text, sizeof text, "0x%x is not a dtype", dtypes[i]);
        cr_assert_str_eq(tn_last_error()->message, text);
        cr_assert_null(tn_from_data(s, dtypes[i], TN_INTS(2), data, TN_CPU));
        snprintf(text, sizeof text, "tn_from_data: 0x%x is not a dtype", dtypes[i]);
        cr_assert_str_eq(tn_scope_error(s)->message, text);
        tn_scope_clear(s);
        const tn_blob blob = {.size = sizeof blob, .data = data, .sizes = TN_INTS(2), .dtype = dtypes[i]};
        cr_assert_null(tn_from_blob(s, &blob));
        snprintf(text, sizeof text, "tn_from_blob: 0x%x is not a dtype", dtypes[i]);
        cr_assert_str_eq(tn_scope_error(s)->message, text);
        tn_scope_clear(s);
        cr_assert_null(tn_scalar_tensor_of(s, tn_value_int(1), dtypes[i], TN_CPU));
        cr_assert_eq(tn_scope_close(s), TN_E_DTYPE);
    }
    close_all();
}

Test(tensor, row_major)
{
    open_cpu();
    const int64_t sizes[] = {2, 3, 4};
    tn_tensor *t = make(TN_FLOAT32, 3, sizes);
    cr_assert_eq(tn_tensor_rank(t), 3);
    cr_assert_eq(tn_tensor_numel(t), 24);
    cr_assert_eq(tn_tensor_size(t, -1), 4);
    const int64_t strides[] = {12, 4, 1};
    cr_assert_arr_eq(tn_tensor_strides(t), strides, sizeof strides);
    cr_assert_eq(tn_tensor_storage_bytes(t), 96);
    cr_assert_eq(tn_tensor_device(t), TN_CPU);
    cr_assert_eq(tn_tensor_get_rank(t), 3);
    cr_assert_eq(tn_tensor_get_dtype(t), TN_FLOAT32);
    cr_assert_eq(tn_tensor_get_device(t), TN_CPU);
    cr_assert_arr_eq(tn_tensor_get_sizes(t), sizes, sizeof sizes);
    cr_assert_arr_eq(tn_tensor_get_strides(t), strides, sizeof strides);
    cr_assert_eq(tn_tensor_get_rank(NULL), 0);
    cr_assert_eq(tn_tensor_get_sizes(NULL)[TN_MAX_RANK - 1], 0);
    cr_assert_eq(tn_dtype_get_bytes(TN_FLOAT32), 4);
    cr_assert_eq(tn_dtype_get_bytes(TN_COMPLEX128), 16);
    cr_assert_eq(tn_dtype_get_bytes(0), 0);
    cr_assert_eq(tn_tensor_context(t), ctx);
    cr_assert_eq(tn_tensor_version(t), 0);
    cr_assert_eq(tn_tensor_is_contiguous(t, TN_CONTIGUOUS_FORMAT), 1);
    cr_assert_eq((uintptr_t)tn_tensor_data(t) % 64, 0);
    tni_bump_version(t);
    cr_assert_eq(tn_tensor_version(t), 1);
    tn_release(t);
    tn_release(NULL);
    cr_assert_null(tn_retain(NULL));
    close_all();
}

Test(tensor, odd_shapes)
{
    open_cpu();
    tn_tensor *t = make(TN_INT64, 0, NULL);
    cr_assert_eq(tn_tensor_storage_bytes(t), 8);
    tn_release(t);
    const int64_t empty[] = {0, 3}, empty_strides[] = {3, 1}, back[] = {3, 0}, back_strides[] = {1, 1};
    t = make(TN_INT64, 2, empty);
    cr_assert_arr_eq(tn_tensor_strides(t), empty_strides, sizeof empty);
    cr_assert_eq(tn_tensor_storage_bytes(t), 0);
    cr_assert_eq(t->numel, 0);
    tn_release(t);
    t = make(TN_INT64, 2, back);
    cr_assert_arr_eq(tn_tensor_strides(t), back_strides, sizeof empty);
    tn_release(t);
    int64_t many[TN_MAX_RANK + 1];
    for (int i = 0; i <= TN_MAX_RANK; i++) many[i] = i == 40 ? 5 : 1;
    t = make(TN_UINT8, TN_MAX_RANK, many);
    cr_assert_eq(tn_tensor_size(t, 40), 5);
    cr_assert_eq(tn_tensor_strides(t)[39], 5);
    tn_release(t);
    cr_assert_eq(tni_tensor_create(ctx, TN_CPU, TN_UINT8, TN_MAX_RANK + 1, many, NULL, &t), TN_E_SHAPE);
    const int64_t negative[] = {2, -1}, huge[] = {INT64_MAX / 2, 4}, wide[] = {INT64_MAX / 4};
    cr_assert_eq(tni_tensor_create(ctx, TN_CPU, TN_UINT8, 2, negative, NULL, &t), TN_E_SHAPE);
    cr_assert_eq(tni_tensor_create(ctx, TN_CPU, TN_UINT8, 2, huge, NULL, &t), TN_E_SHAPE);
    cr_assert_eq(tni_tensor_create(ctx, TN_CPU, TN_INT64, 1, wide, NULL, &t), TN_E_SHAPE);
    cr_assert_eq(tni_tensor_create(ctx, TN_CPU, 0, 1, back, NULL, &t), TN_E_DTYPE);
    cr_assert_eq(tni_tensor_create(ctx, 0, TN_UINT8, 1, back, NULL, &t), TN_E_DEVICE);
    close_all();
}

Test(tensor, strides_of_its_own)
{
    open_cpu();
    const int64_t sizes[] = {2, 3, 4, 5}, strides[] = {60, 1, 15, 3}, negative[] = {60, -1, 15, 3};
    tn_tensor *t = NULL;
    cr_assert_eq(tni_tensor_create(ctx, TN_CPU, TN_FLOAT64, 4, sizes, strides, &t), TN_OK);
    cr_assert_eq(tn_tensor_is_contiguous(t, TN_CHANNELS_LAST), 1);
    cr_assert_eq(tn_tensor_is_contiguous(t, TN_CONTIGUOUS_FORMAT), 0);
    cr_assert_eq(tn_tensor_storage_bytes(t), 960);
    tn_release(t);
    cr_assert_eq(tni_tensor_create(ctx, TN_CPU, TN_FLOAT64, 4, sizes, negative, &t), TN_E_SHAPE);
    close_all();
}

Test(tensor, views_share_and_keep)
{
    open_cpu();
    const int64_t sizes[] = {4, 5}, part[] = {2, 3}, strides[] = {5, 1}, turned[] = {3, 2}, back[] = {1, 5};
    tn_tensor *t = make(TN_INT32, 2, sizes), *v = NULL, *w = NULL, *a = NULL;
    for (int i = 0; i < 20; i++) ((int32_t *)tn_tensor_data(t))[i] = i;
    t->desc.flags |= TN_DESC_NEG;
    cr_assert_eq(tni_tensor_view(t, 2, part, strides, 6, &v), TN_OK);
    cr_assert_eq(tni_tensor_view(v, 2, turned, back, 6, &w), TN_OK);
    cr_assert_eq(tni_tensor_alias(t, TN_INT16, 1, part, back, 4, &a), TN_OK);
    cr_assert_eq(v->base, t);
    cr_assert_eq(w->base, t);
    cr_assert_null(a->base);
    cr_assert_eq(v->desc.flags, TN_DESC_NEG);
    cr_assert_eq(a->desc.flags, 0);
    cr_assert_eq(tn_tensor_storage_offset(v), 6);
    cr_assert_eq(tn_tensor_storage_offset(a), 4);
    cr_assert_eq(*(int32_t *)tn_tensor_data(v), 6);
    cr_assert_eq(*(int16_t *)tn_tensor_data(a), 2);
    cr_assert_eq(tn_tensor_is_alias(t, w), 1);
    tni_bump_version(w);
    cr_assert_eq(tn_tensor_version(a), 1);
    tn_release(t);
    tn_release(v);
    tn_release(a);
    int32_t out[6];
    const int32_t expected[] = {-6, -11, -7, -12, -8, -13};
    cr_assert_eq(tni_tensor_read(w, out, sizeof out), TN_OK);
    cr_assert_arr_eq(out, expected, sizeof out);
    cr_assert_eq(tni_tensor_read(w, out, 20), TN_E_ARGUMENT);
    tn_release(w);
    close_all();
}

Test(tensor, views_stay_inside_their_storage)
{
    open_cpu();
    const int64_t sizes[] = {4, 5}, strides[] = {5, 1}, wide[] = {5, 2}, none[] = {0, 5};
    tn_tensor *t = make(TN_INT32, 2, sizes), *v = NULL;
    cr_assert_eq(tni_tensor_view(t, 2, sizes, strides, 1, &v), TN_E_INDEX);
    cr_assert_str_eq(
        tn_last_error()->message,
        "setStorage: sizes [4, 5], strides [5, 1], storage offset 1, and itemsize 4 requiring a storage "
        "size of 84 are out of bounds for storage of size 80");
    cr_assert_eq(tni_tensor_view(t, 2, sizes, wide, 0, &v), TN_E_INDEX);
    cr_assert_eq(tni_tensor_view(t, 2, sizes, strides, -1, &v), TN_E_INDEX);
    cr_assert_eq(tni_tensor_alias(t, TN_INT64, 2, sizes, strides, 0, &v), TN_E_INDEX);
    cr_assert_eq(tni_tensor_view(t, 2, none, strides, 20, &v), TN_OK);
    tn_release(v);
    cr_assert_eq(atomic_load(&t->storage->refs), 1);
    tn_release(t);
    close_all();
}

Test(tensor, metadata_changes_in_place)
{
    open_cpu();
    const int64_t sizes[] = {4, 5}, flat[] = {20}, one[] = {1};
    int64_t many[10] = {1, 1, 1, 1, 1, 1, 1, 1, 4, 5},
            many_strides[10] = {20, 20, 20, 20, 20, 20, 20, 20, 5, 1};
    tn_tensor *t = make(TN_INT32, 2, sizes);
    cr_assert_eq(tni_tensor_set_view(t, 10, many, many_strides, 0), TN_OK);
    cr_assert_eq(tn_tensor_rank(t), 10);
    cr_assert_eq(tn_tensor_size(t, 9), 5);
    cr_assert_eq(tni_tensor_set_view(t, 1, flat, one, 1), TN_E_INDEX);
    cr_assert_eq(tn_tensor_rank(t), 10);
    cr_assert_eq(tni_tensor_set_view(t, 1, flat, one, 0), TN_OK);
    cr_assert_eq(tn_tensor_size(t, 0), 20);
    tn_release(t);
    close_all();
}

Test(tensor, storages_grow_and_old_views_stay_valid)
{
    open_both();
    tn_device ids[] = {TN_CPU, tn_device_parse(ctx, "gpu:0")};
    const int64_t sizes[] = {3}, more[] = {2000}, one[] = {1};
    for (int i = 0; i < 2; i++) {
        tn_tensor *t = NULL, *v = NULL;
        int32_t data[] = {7, 8, 9}, out[2000];
        cr_assert_eq(tni_tensor_create(ctx, ids[i], TN_INT32, 1, sizes, NULL, &t), TN_OK);
        cr_assert_eq(tni_tensor_write(t, data, sizeof data), TN_OK);
        cr_assert_eq(tni_tensor_view(t, 1, sizes, one, 0, &v), TN_OK);
        cr_assert_eq(tni_storage_resize(t->storage, 8000), TN_OK);
        cr_assert_eq(tni_tensor_set_view(t, 1, more, one, 0), TN_OK);
        cr_assert_eq(tni_tensor_read(t, out, sizeof out), TN_OK);
        cr_assert_arr_eq(out, data, sizeof data);
        cr_assert_eq(tni_tensor_read(v, out, sizeof data), TN_OK);
        cr_assert_arr_eq(out, data, sizeof data);
        tn_release(v);
        cr_assert_eq(tni_storage_resize(t->storage, 12), TN_OK);
        tn_release(t);
    }
    close_all();
}

static void count_up(void *user)
{
    ++*(int *)user;
}

Test(tensor, blobs_call_their_deleter_once)
{
    open_cpu();
    float data[6] = {0, 1, 2, 3, 4, 5};
    int calls = 0;
    tn_blob blob = {.size = sizeof blob,
                    .dtype = TN_FLOAT32,
                    .data = data,
                    .sizes = TN_INTS(2, 2),
                    .strides = TN_INTS(3, 1),
                    .storage_offset = 1,
                    .deleter = count_up,
                    .user = &calls};
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *t = tn_retain(tn_from_blob(s, &blob));
    cr_assert_not_null(t);
    cr_assert_eq(tn_tensor_data(t), data + 1);
    float out[4];
    const float expected[] = {1, 2, 4, 5};
    cr_assert_eq(tn_to_host(s, t, out, sizeof out), TN_OK);
    cr_assert_eq(tn_to_host(s, t, NULL, sizeof out), TN_E_ARGUMENT);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "is NULL"));
    tn_scope_clear(s);
    cr_assert_arr_eq(out, expected, sizeof out);
    cr_assert_eq(tni_storage_resize(t->storage, 100), TN_E_STATE);
    cr_assert_eq(tn_scope_close(s), TN_OK);
    tn_context_destroy(ctx);
    cr_assert_eq(calls, 0); /* the tensor keeps all it needs */
    tn_release(t);
    cr_assert_eq(calls, 1);
    cr_assert_eq(cpu.closed, 1);
}

Test(tensor, bad_blobs_call_their_deleter_too)
{
    open_cpu();
    float data[6];
    int calls = 0;
    tn_blob good = {.size = sizeof good,
                    .dtype = TN_FLOAT32,
                    .data = data,
                    .sizes = TN_INTS(2, 2),
                    .deleter = count_up,
                    .user = &calls};
    tn_blob bad[6] = {good, good, good, good, good, good};
    bad[0].data = NULL;
    bad[1].strides = TN_INTS(1);
    bad[2].sizes = TN_INTS(2, -2);
    bad[3].storage_offset = -1;
    bad[4].dtype = 0;
    bad[5].strides = TN_INTS(-1, 1);
    for (int i = 0; i < 6; i++) {
        tn_scope *s = tn_scope_open(ctx);
        cr_assert_null(tn_from_blob(s, &bad[i]));
        cr_assert_eq(calls, 2 * i + 1, "case %d", i);
        cr_assert_null(tn_from_blob(s, &good)); /* the scope has failed */
        cr_assert_eq(calls, 2 * i + 2, "case %d", i);
        cr_assert_neq(tn_scope_close(s), TN_OK);
    }
    close_all();
}

Test(tensor, numbers_in_and_out)
{
    open_both();
    tn_device ids[] = {TN_CPU, tn_device_parse(ctx, "gpu:0")};
    tn_scope *s = tn_scope_open(ctx);
    double pair[2] = {1.5, -2}, out[2];
    for (int i = 0; i < 2; i++) {
        tn_tensor *t = tn_scalar_tensor_of(s, TN_SCALAR(42), 0, ids[i]);
        cr_assert_eq(tn_tensor_dtype(t), TN_INT64);
        cr_assert_eq(tn_item_int(s, t), 42);
        t = tn_scalar_tensor_of(s, TN_SCALAR(2.5), 0, ids[i]);
        cr_assert_eq(tn_tensor_dtype(t), TN_FLOAT32);
        cr_assert_eq(tn_item_double(s, t), 2.5);
        cr_assert_eq(tn_item_int(s, t), 2);
        cr_assert_eq(tn_item_bool(s, t), 1);
        t = tn_scalar_tensor_of(s, TN_SCALAR((_Bool)1), 0, ids[i]);
        cr_assert_eq(tn_tensor_dtype(t), TN_BOOL);
        t = tn_scalar_tensor_of(s, tn_value_complex(pair), 0, ids[i]);
        cr_assert_eq(tn_tensor_dtype(t), TN_COMPLEX64);
        cr_assert_eq(tn_item_complex(s, t, out), TN_OK);
        cr_assert_arr_eq(out, pair, sizeof pair);
        t->desc.flags |= TN_DESC_CONJ;
        cr_assert_eq(tn_item_complex(s, t, out), TN_OK);
        cr_assert_eq(out[1], 2);
        t = tn_scalar_tensor_of(s, TN_SCALAR(-1), TN_UINT8, ids[i]);
        cr_assert_eq(tn_item_int(s, t), 255);
        t = tn_from_data(s, TN_UINT64, TN_INTS(1, 1), &(uint64_t){UINT64_MAX}, ids[i]);
        cr_assert_eq(tn_item_double(s, t), 18446744073709551616.0);
    }
    cr_assert_eq(tn_scope_failed(s), TN_OK);
    tn_tensor *t = tn_from_data(s, TN_INT32, TN_INTS(2), &(int32_t[]){1, 2}, 0);
    cr_assert(isnan(tn_item_double(s, t)));
    cr_assert_str_eq(tn_scope_error(s)->message,
                     "item: a Tensor with 2 elements cannot be converted to Scalar");
    cr_assert_eq(tn_item_int(s, t), 0);
    tn_scope_close(s);
    close_all();
}

Test(tensor, strided_reads_from_a_device)
{
    open_both();
    tn_scope *s = tn_scope_open(ctx);
    int16_t data[24], out[12], expected[12];
    for (int16_t i = 0; i < 24; i++) data[i] = i;
    tn_tensor *t = tn_from_data(s, TN_INT16, TN_INTS(2, 3, 4), data, tn_device_parse(ctx, "gpu:0")),
              *v = NULL;
    const int64_t sizes[] = {3, 2, 2},
                  strides[] = {4, 2, 12}; /* t[:, :, 1::2] with its dimensions permuted */
    for (int i = 0, n = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            for (int k = 0; k < 2; k++) expected[n++] = (int16_t)(1 + 4 * i + 2 * j + 12 * k);
    cr_assert_eq(tni_tensor_view(t, 3, sizes, strides, 1, &v), TN_OK);
    cr_assert_null(tn_tensor_data(v));
    cr_assert_eq(tn_to_host(s, v, out, sizeof out), TN_OK);
    cr_assert_arr_eq(out, expected, sizeof out);
    tn_release(v);
    tn_scope_close(s);
    close_all();
}

Test(tensor, meta_has_no_data)
{
    open_cpu();
    const int64_t sizes[] = {1000000, 1000000};
    tn_tensor *t = NULL;
    char byte;
    cr_assert_eq(tni_tensor_create(ctx, TN_DEVICE(TN_INTERNED_META, 0), TN_FLOAT32, 2, sizes, NULL, &t),
                 TN_OK);
    cr_assert_eq(tn_tensor_storage_bytes(t), 4000000000000);
    cr_assert_null(tn_tensor_data(t));
    cr_assert_eq(tni_tensor_read(t, &byte, 1), TN_E_DEVICE);
    cr_assert_eq(tni_storage_resize(t->storage, 5000000000000), TN_OK);
    tn_release(t);
    cr_assert_eq(cpu.opened, 0);
    close_all();
}

/* The header of a result lies in the block of its first storage: the block is in use as long as the header is, even
 * if the tensor got another storage. */
Test(tensor, a_header_outlives_its_first_storage)
{
    open_cpu();
    const int64_t size = 16;
    tn_tensor *model = make(TN_FLOAT32, 1, &size), *other = make(TN_FLOAT32, 1, &size), *t, *next[4];
    cr_assert_eq(tni_tensor_like(model, TN_FLOAT32, &t), TN_OK);
    const void *first = tn_tensor_data(t);
    memset(tn_tensor_data(other), 7, 64);
    tni_tensor_set_storage(t, other->storage);
    cr_assert_eq(tni_tensor_set_view(t, 1, &size, (const int64_t[]){1}, 0), TN_OK);
    tn_release(other);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(tni_tensor_like(model, TN_FLOAT32, &next[i]), TN_OK);
        cr_assert_neq(tn_tensor_data(next[i]), first);
        memset(tn_tensor_data(next[i]), 0, 64);
    }
    for (int i = 0; i < 64; i++) cr_assert_eq(((const char *)tn_tensor_data(t))[i], 7);
    cr_assert_eq(atomic_load(&t->storage->refs), 1u);
    tn_release(t);
    for (int i = 0; i < 4; i++) tn_release(next[i]);
    tn_release(model);
    close_all();
}

/* Changes to a header do not show in the next tensor that reuses it. */
Test(tensor, a_header_is_used_again_as_new)
{
    open_cpu();
    const int64_t size = 16, half = 8, ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    tn_tensor *model = make(TN_FLOAT32, 1, &size), *t;
    cr_assert_eq(tni_tensor_like(model, TN_FLOAT32, &t), TN_OK);
    const tn_tensor *header = t;
    const void *data = tn_tensor_data(t);
    uint32_t embedded = t->state & TNI_EMBEDDED; /* not if blocks are allocated one by one */
    t->desc.flags |= TN_DESC_NEG;
    cr_assert_eq(tni_tensor_set_view(t, 1, &half, (const int64_t[]){1}, 8), TN_OK);
    cr_assert_eq(tni_tensor_set_view(t, 8, ones, ones, 3), TN_OK);
    tn_release(t);
    cr_assert_eq(tni_tensor_like(model, TN_FLOAT64, &t), TN_OK);
    tn_release(t);
    cr_assert_eq(tni_tensor_like(model, TN_FLOAT32, &t), TN_OK);
    if (embedded) { /* the block that was freed last is reused first */
        cr_assert_eq(t, header);
        cr_assert_eq(tn_tensor_data(t), data);
    }
    cr_assert_eq(t->desc.flags, 0u);
    cr_assert_eq(tn_tensor_storage_offset(t), 0);
    cr_assert_eq(tn_tensor_rank(t), 1);
    cr_assert_eq(tn_tensor_size(t, 0), 16);
    cr_assert_eq(tn_tensor_strides(t)[0], 1);
    tn_release(t);
    tn_release(model);
    close_all();
}

Test(tensor, inference_mode_marks_what_it_makes)
{
    open_cpu();
    const int64_t sizes[] = {2}, one[] = {1};
    tn_tensor *plain = make(TN_FLOAT32, 1, sizes), *v = NULL;
    tni_tls.grad_mode = TN_GRAD_INFERENCE;
    tn_tensor *marked = make(TN_FLOAT32, 1, sizes);
    cr_assert_eq(tni_tensor_view(plain, 1, sizes, one, 0, &v), TN_OK);
    tni_tls.grad_mode = 0;
    cr_assert_eq(plain->state & TNI_INFERENCE, 0);
    cr_assert_eq(v->state & TNI_INFERENCE, 0);
    cr_assert_eq(marked->state & TNI_INFERENCE, TNI_INFERENCE);
    tn_release(v);
    cr_assert_eq(tni_tensor_view(marked, 1, sizes, one, 0, &v), TN_OK);
    cr_assert_eq(v->state & TNI_INFERENCE, TNI_INFERENCE);
    tn_release(v);
    tn_release(marked);
    tn_release(plain);
    close_all();
}

Test(tensor, dead_handles_are_named)
{
    cpu = (fake){.type = "cpu", .count = 1};
    tn_context_options options = {.size = sizeof options,
                                  .flags = TN_CONTEXT_NO_DISCOVERY | TN_CONTEXT_DEBUG_HANDLES};
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    tni_driver d = fake_driver(&cpu);
    cr_assert_eq(tni_device_type_add(ctx, &d), TN_OK);
    const int64_t sizes[] = {2, 3, 1, 1, 1, 1, 1, 1};
    tn_tensor *t = make(TN_FLOAT32, 2, sizes), *long_one = make(TN_INT8, 8, sizes);
    cr_assert_eq(tni_tensor_check(t), TN_OK);
    tn_release(t);
    tn_release(long_one);
    cr_assert_eq(tni_tensor_check(t), TN_E_DEAD_HANDLE);
    cr_assert(strstr(tn_last_error()->message, "sizes [2, 3] and dtype float32 was released"));
    tn_release(t); /* does nothing */
    cr_assert_eq(tni_tensor_check(NULL), TN_E_ARGUMENT);
    int8_t out[6];
    cr_assert_eq(tni_tensor_read(long_one, out, 6), TN_E_DEAD_HANDLE);
    tn_context_destroy(ctx);
    cr_assert_eq(cpu.closed, 1);
}

Test(tensor, foreign_streams_and_tensors)
{
    open_both();
    tn_device id = tn_device_parse(ctx, "gpu:0");
    const int64_t sizes[] = {2};
    tn_tensor *t = NULL, *m = NULL;
    tn_stream *s = NULL;
    cr_assert_eq(tni_tensor_create(ctx, id, TN_INT8, 1, sizes, NULL, &t), TN_OK);
    cr_assert_eq(tni_tensor_create(ctx, TN_DEVICE(TN_INTERNED_META, 0), TN_INT8, 1, sizes, NULL, &m), TN_OK);
    cr_assert_eq(tn_stream_create(ctx, id, 0, &s), TN_OK);
    cr_assert_eq(tn_record_stream(t, s), TN_OK);
    cr_assert_eq(tn_record_stream(t, tn_stream_default(ctx, TN_CPU)), TN_E_DEVICE);
    cr_assert_eq(tn_record_stream(m, s), TN_E_DEVICE);
    fake_work(s);
    tn_release(t);
    cr_assert_eq(gpu.live_events, 1);
    fake_finish(s);
    tn_stream_release(s);
    tn_release(m);
    close_all();
}

static tn_device shared_devices[2];
static _Atomic(tn_tensor *) shared[16];

/* Makes tensors, leaves them for others to release, and changes streams in between. */
static void *share(void *user)
{
    uint32_t seed = (uint32_t)(uintptr_t)&seed;
    tn_stream *stream = NULL;
    for (int i = 0; i < 1000; i++) {
        seed = seed * 1664525u + 1013904223u;
        const int64_t sizes[] = {1 + (seed >> 8) % 50, 1 + (seed >> 16) % 3000};
        tn_tensor *t = NULL, *v = NULL;
        if (i % 300 == 0) {
            tn_stream_release(stream);
            if (tn_stream_create(ctx, shared_devices[1], 0, &stream)) return user;
            tn_stream_set_current(ctx, stream);
        }
        if (tni_tensor_create(ctx, shared_devices[seed >> 31], TN_FLOAT32, 2, sizes, NULL, &t)) return user;
        if (seed >> 31)
            tn_record_stream(t, tn_stream_default(ctx, shared_devices[1]));
        else
            *(uint64_t *)t->desc.host = seed;
        if (tni_tensor_view(t, 2, t->desc.sizes, t->desc.strides, 0, &v)) return user;
        tn_release(v);
        tn_release(atomic_exchange(&shared[seed >> 24 & 15], t));
        if (i % 200 == 0) tn_memory_empty_cache(ctx, shared_devices[i / 200 % 2]);
    }
    tn_stream_release(stream);
    return NULL;
}

Test(tensor, threads_share_them)
{
    open_both();
    pthread_t threads[6];
    shared_devices[0] = TN_CPU;
    shared_devices[1] = tn_device_parse(ctx, "gpu:0");
    for (int i = 0; i < 6; i++) pthread_create(&threads[i], NULL, share, ctx);
    for (int i = 0; i < 6; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        cr_assert_null(failed);
    }
    tn_context_destroy(ctx);
    cr_assert_eq(cpu.closed, 0);
    for (int i = 0; i < 16; i++) tn_release(shared[i]);
    cr_assert_eq(cpu.closed + gpu.closed, 2);
    cr_assert_eq(cpu.live_allocations + gpu.live_allocations, 0);
    cr_assert_eq(cpu.breaches + gpu.breaches, 0);
}

static int32_t exercise(tn_device device)
{
    const int64_t sizes[] = {2, 3}, strides[] = {3, 1}, many[] = {1, 1, 1, 1, 1, 1, 1, 2, 3},
                  more[] = {6, 6, 6, 6, 6, 6, 6, 3, 1};
    tn_tensor *t = NULL, *v = NULL, *w = NULL;
    int32_t data[] = {1, 2, 3, 4, 5, 6}, out[6];
    tn_scope *s = tn_scope_open(ctx);
    if (!s) return tn_last_error()->code;
    t = tn_from_data(s, TN_INT32, TN_INTS(2, 3), data, device);
    int32_t code = tn_scope_failed(s) ? tn_scope_error(s)->code : TN_OK;
    if (!code) code = tni_tensor_view(t, 9, many, more, 0, &v);
    if (!code) code = tni_tensor_set_view(t, 9, many, more, 0);
    if (!code) code = tni_tensor_set_view(t, 2, sizes, strides, 0);
    if (!code) code = tni_storage_resize(t->storage, 1 << 21);
    if (!code) code = tni_tensor_alias(t, TN_INT8, 2, sizes, more, 5, &w);
    if (!code) code = tni_tensor_read(w, out, 6);
    if (!code) code = tn_to_host(s, t, out, sizeof out);
    tn_release(v);
    tn_release(w);
    tn_scope_close(s);
    return code;
}

Test(tensor, every_failing_allocation_is_an_error_without_leak)
{
    for (int kind = 0; kind < 4; kind++) {
        for (int64_t n = 1; n < 500; n++) {
            fake f = {
                .type = "dev", .count = 1, .device_class = kind % 2 ? TN_DEVICE_HOST : TN_DEVICE_DISCRETE};
            counting c = {0};
            ctx = counted_context(&c, &f);
            if (kind < 2)
                c.fail_at = c.calls + n;
            else
                f.fail_slot = (int32_t)n;
            int32_t code = exercise(tn_device_parse(ctx, "dev:0"));
            int32_t reached = kind < 2 ? c.calls >= c.fail_at : f.fail_slot <= 0;
            tn_context_destroy(ctx);
            cr_assert_eq(c.live, 0, "kind %d, n %d: %d live", kind, (int)n, (int)c.live);
            cr_assert_eq(f.breaches, 0, "kind %d, n %d", kind, (int)n);
            cr_assert_eq(f.live_allocations, 0);
            if (reached && kind >= 2)
                cr_assert_eq(code, TN_E_INTERNAL, "kind %d, n %d: %d", kind, (int)n, code);
            if (!reached) {
                cr_assert_eq(code, TN_OK);
                break;
            }
        }
    }
}
