/* SPDX-License-Identifier: Apache-2.0 */
/* Views, what shares and what copies, storages and files, as the reference documents state them. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/files.h>
#include <unistd.h>

/* x is 2 x 3 x 4; every one of these shows its storage. */
ON_EACH_DEVICE(views, share_the_storage)
{
    tn_scope *s = p->s;
    tn_tensor *x = tn_reshape(s, tn_arange(s, 24.0), TN_INTS(2, 3, 4));
    tn_tensor *matrix = tn_select(s, x, 0, 1), *z = tn_complex(s, x, x);
    tn_tensor *const of_x[] = {tn_as_strided(s, x, TN_INTS(2, 2), TN_INTS(1, 2)),
                               tn_detach(s, x),
                               tn_diagonal(s, x, .dim1 = 1, .dim2 = 2),
                               tn_expand(s, x, TN_INTS(5, 2, 3, 4)),
                               tn_expand_as(s, tn_select(s, x, 0, 0), x),
                               tn_movedim(s, x, 0, 2),
                               tn_narrow(s, x, 1, 1, 2),
                               tn_permute(s, x, TN_INTS(2, 0, 1)),
                               tn_select(s, x, 2, 3),
                               tn_squeeze(s, x),
                               tn_transpose(s, x, 0, 1),
                               tn_t(s, matrix),
                               tn_unfold(s, x, 2, 2, 1),
                               tn_unsqueeze(s, x, 0),
                               tn_view(s, x, TN_INTS(6, 4)),
                               tn_view_as(s, x, x),
                               tn_unflatten(s, x, 2, TN_INTS(2, 2)),
                               tn_swapaxes(s, x, 0, 1),
                               tn_swapdims(s, x, 0, 1),
                               tn_slice(s, x, 1, 0, 3, 2),
                               tn_flatten(s, x, .start_dim = 1),
                               tn_reshape(s, x, TN_INTS(-1)),
                               tn_contiguous(s, x),
                               tn_alias(s, x)};
    for (size_t i = 0; i < sizeof of_x / sizeof *of_x; i++) {
        cr_assert_not_null(of_x[i], "%zu: %s", i, tn_scope_error(s) ? tn_scope_error(s)->message : "");
        cr_assert(tn_tensor_is_alias(x, of_x[i]), "%zu", i);
    }
    cr_assert(tn_tensor_is_alias(z, tn_view_as_real(s, z)) && tn_tensor_is_alias(z, tn_real(s, z)));
    cr_assert(tn_tensor_is_alias(z, tn_imag(s, z)) && tn_tensor_is_alias(z, tn_conj(s, z)));
    const tn_tensors lists[] = {tn_unbind(s, x),
                                tn_split(s, x, 2, .dim = 1),
                                tn_split_sizes(s, x, TN_INTS(1, 3), .dim = 2),
                                tn_chunk(s, x, 2, .dim = 2),
                                tn_hsplit(s, x, 3),
                                tn_vsplit(s, x, 2),
                                tn_aten_tensor_split(s, x, 2, .dim = 2)};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        cr_assert_gt(lists[i].count, 1, "%zu", i);
        for (int64_t k = 0; k < lists[i].count; k++) cr_assert(tn_tensor_is_alias(x, lists[i].data[k]));
    }
}

ON_EACH_DEVICE(views, copies)
{
    tn_scope *s = p->s;
    tn_tensor *x = tn_reshape(s, tn_arange(s, 6.0), TN_INTS(2, 3)), *turned = tn_t(s, x);
    tn_tensor *const apart[] = {tn_clone(s, x),
                                tn_contiguous(s, turned),
                                tn_reshape(s, turned, TN_INTS(-1)),
                                tn_flatten(s, turned),
                                tn_narrow_copy(s, x, 0, 0, 1),
                                tn_repeat(s, x, TN_INTS(1, 1)),
                                tn_index(s, x, TN_BY(VECTOR(p, TN_INT64, 0))),
                                tn_index(s, x, TN_BY(VECTOR(p, TN_BOOL, 1, 0))),
                                tn_conj_physical(s, tn_complex(s, x, x))};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        cr_assert_not_null(apart[i], "%zu", i);
        cr_assert_not(tn_tensor_is_alias(x, apart[i]), "%zu", i);
    }
    EXPECT(p, tn_flatten(s, turned), 0, 3, 1, 4, 2, 5);
}

ON_EACH_DEVICE(views, are_written_through)
{
    tn_scope *s = p->s;
    tn_tensor *x = tn_zeros(s, TN_INTS(4, 4)), *y = tn_view(s, x, TN_INTS(2, 8));
    uint64_t version = tn_tensor_version(x);
    tn_fill_scalar_(s, tn_index(s, y, TN_AT(0), TN_AT(0)), 3.14);
    cr_assert_float_eq(tn_item_double(s, tn_index(s, x, TN_AT(0), TN_AT(0))), 3.14, 1e-6);
    cr_assert_gt(tn_tensor_version(x), version);
    cr_assert_eq(tn_tensor_version(x), tn_tensor_version(y));
    /* Assignment through advanced indexing is in place, too. */
    tn_index_assign(s, x, tn_full(s, TN_NO_INTS, 2.0), TN_BY(VECTOR(p, TN_INT64, 3, 1)), TN_AT(1));
    EXPECT_NEAR(p, x, 1e-6, 3.14, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0);
    tn_tensor *z = tn_complex(s, VECTOR(p, TN_FLOAT32, 1, 2), VECTOR(p, TN_FLOAT32, 3, 4)),
              *real = tn_real(s, z);
    cr_assert_eq(tn_tensor_strides(real)[0], 2);
    tn_mul_scalar_(s, real, 2);
    EXPECT(p, tn_view_as_real(s, z), 2, 3, 4, 4);
}

ON_EACH_DEVICE(views, as_strided_stays_inside)
{
    tn_scope *s = p->s;
    tn_tensor *x = tn_arange(s, 10);
    EXPECT(p, tn_as_strided(s, x, TN_INTS(2, 2), TN_INTS(3, 2), .storage_offset = 1), 1, 3, 4, 6);
    /* Without an offset: that of the input, in elements. */
    tn_tensor *tail = tn_slice(s, x, 0, 4, 10, 1);
    cr_assert_eq(tn_tensor_storage_offset(tail), 4);
    EXPECT(p, tn_as_strided(s, tail, TN_INTS(2), TN_INTS(1)), 4, 5);
    tn_as_strided(s, x, TN_INTS(2, 6), TN_INTS(6, 1));
    cr_assert_eq(tn_scope_failed(s), TN_E_SHAPE);
    tn_scope_clear(s);
}

ON_EACH_DEVICE(views, matrices_turned)
{
    tn_scope *s = p->s;
    tn_tensor *x = MAKE(p, TN_FLOAT32, TN_INTS(2, 1, 3), 1, 2, 3, 4, 5, 6);
    tn_tensor *m = MAKE(p, TN_FLOAT32, TN_INTS(2, 2), 0, 1, 2, 3);
    expect_sizes(p, tn_mt(s, x), TN_INTS(2, 3, 1));
    EXPECT(p, tn_numpy_t(s, m), 0, 2, 1, 3);
    tn_tensor *h = tn_mh(s, tn_complex(s, m, m));
    EXPECT(p, tn_contiguous(s, tn_imag(s, h)), 0, -2, -1, -3);
}

ON_EACH_DEVICE(views, columns_and_pieces)
{
    tn_scope *s = p->s;
    tn_tensor *a = VECTOR(p, TN_INT64, 1, 2, 3), *b = VECTOR(p, TN_INT64, 4, 5, 6);
    EXPECT(p, tn_column_stack(s, TN_TENSORS(a, b)), 1, 4, 2, 5, 3, 6);
    a = tn_arange(s, 5);
    b = tn_reshape(s, tn_arange(s, 10), TN_INTS(5, 2));
    EXPECT(p, tn_column_stack(s, TN_TENSORS(a, b, b)), 0, 0, 1, 0, 1, 1, 2, 3, 2, 3, 2, 4, 5, 4, 5, 3, 6, 7,
           6, 7, 4, 8, 9, 8, 9);
    EXPECT(p, tn_nonzero(s, VECTOR(p, TN_INT64, 1, 1, 1, 0, 1)), 0, 1, 2, 4);
    tn_tensor *d = tn_diag_embed(s, VECTOR(p, TN_FLOAT32, 0.6, 0.4, 1.2, -0.4));
    EXPECT(p, tn_nonzero(s, d), 0, 0, 1, 1, 2, 2, 3, 3);
    tn_tensors where = tn_nonzero_numpy(s, d);
    cr_assert_eq(where.count, 2);
    EXPECT(p, where.data[1], 0, 1, 2, 3);
    where = tn_nonzero_numpy(s, MAKE(p, TN_INT64, TN_NO_INTS, 5));
    cr_assert_eq(where.count, 1);
    EXPECT(p, where.data[0], 0);
    EXPECT(p, tn_diag_embed(s, MAKE(p, TN_INT64, TN_INTS(2, 3), 0, 1, 2, 3, 4, 5)), 0, 0, 0, 0, 1, 0, 0, 0, 2,
           3, 0, 0, 0, 4, 0, 0, 0, 5);
}

/* ---- Storages ------------------------------------------------------------------------------------------ */

ON_EACH_DEVICE(storage, bytes)
{
    tn_scope *s = p->s;
    tn_tensor *t = tn_ones(s, TN_INTS(3)), *bytes = tn_view_dtype(s, t, TN_UINT8);
    cr_assert_eq(tn_tensor_storage_bytes(t), 12);
    EXPECT(p, bytes, 0, 0, 128, 63, 0, 0, 128, 63, 0, 0, 128, 63);
    tn_tensor *other = tn_fill_scalar_(s, tn_clone(s, bytes), 0);
    EXPECT(p, other, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    EXPECT(p, t, 1, 1, 1);
    /* set_ moves the tensor to the other storage, with its own offset, sizes and strides. */
    tn_tensor *source = tn_view_dtype(s, other, TN_FLOAT32);
    tn_set_source_tensor_(s, t, tn_as_strided(s, source, TN_INTS(3), TN_INTS(1)));
    EXPECT(p, t, 0, 0, 0);
    cr_assert(tn_tensor_is_alias(t, other));
}

ON_EACH_DEVICE(storage, of_a_gradient_is_another)
{
    tn_scope *s = p->s;
    tn_tensor *t = tn_zeros(s, TN_INTS(3));
    tn_set_requires_grad(t, 1);
    tn_backward(s, tn_sum(s, t));
    EXPECT(p, t, 0, 0, 0);
    EXPECT(p, tn_grad_of(s, t), 1, 1, 1);
    cr_assert_not(tn_tensor_is_alias(t, tn_grad_of(s, t)));
}

/* A view that was made before its storage grew shows the grown one. */
ON_EACH_DEVICE(storage, views_follow_growth)
{
    tn_scope *s = p->s;
    tn_tensor *x = VECTOR(p, TN_FLOAT32, 1, 2, 3, 4), *view = tn_slice(s, x, 0, 1, 3, 1);
    tn_tensor *late = tn_slice(s, x, 0, 2, 4, 1);
    tn_resize_(s, x, TN_INTS(1000));
    cr_assert_eq(tn_tensor_storage_bytes(view), 4000);
    tn_fill_scalar_(s, x, 7);
    EXPECT(p, view, 7, 7);
    tn_mul_scalar_(s, view, 2);
    EXPECT(p, tn_slice(s, x, 0, 0, 4, 1), 7, 14, 14, 7);
    EXPECT(p, tn_add(s, late, late), 28, 14);
    tn_set_requires_grad(x, 0);
    const void *address = tn_tensor_data(late), *first = tn_tensor_data(x);
    if (first) cr_assert_eq((const char *)address - (const char *)first, 8);
}

/* ---- Files --------------------------------------------------------------------------------------------- */

static const char *file_name(void)
{
    static char path[4096];
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/tenon-behaviour-%d.safetensors", folder ? folder : P_tmpdir,
             (int)getpid());
    return path;
}

ON_EACH_DEVICE(files, keep_values)
{
    tn_scope *s = p->s;
    tn_safetensors *file = NULL;
    const char *path = file_name();
    tn_tensor *a = VECTOR(p, TN_FLOAT32, 1, 2), *b = VECTOR(p, TN_INT64, 3, 4);
    const tn_named_tensor both[] = {{"a", a}, {"b", tn_t(s, b)}};
    cr_assert_eq(tn_safetensors_save(s, path, both, 2, NULL, 0), TN_OK);
    cr_assert_eq(tn_safetensors_open(p->ctx, path, &file), TN_OK);
    cr_assert_eq(tn_safetensors_count(file), 2);
    EXPECT(p, tn_safetensors_get(s, file, "a", p->device), 1, 2);
    tn_tensor *loaded = tn_safetensors_get(s, file, "b", p->device);
    EXPECT(p, loaded, 3, 4);
    cr_assert_eq(tn_tensor_dtype(loaded), TN_INT64);
    cr_assert_eq(tn_tensor_device(loaded), p->device);
    tn_safetensors_close(file);
    unlink(path);
}

/* A view is written with its own elements only: the format has no shared storages. */
ON_EACH_DEVICE(files, store_a_view_alone)
{
    tn_scope *s = p->s;
    tn_safetensors *file = NULL;
    const char *path = file_name();
    tn_tensor *large = tn_arange_start(s, 1, 1000);
    const tn_named_tensor small = {"small", tn_slice(s, large, 0, 0, 5, 1)};
    cr_assert_eq(tn_tensor_storage_bytes(small.tensor), 999 * 8);
    cr_assert_eq(tn_tensor_storage_bytes(tn_clone(s, small.tensor)), 5 * 8);
    cr_assert_eq(tn_safetensors_save(s, path, &small, 1, NULL, 0), TN_OK);
    cr_assert_eq(tn_safetensors_open(p->ctx, path, &file), TN_OK);
    tn_tensor *loaded = tn_safetensors_get(s, file, "small", p->device);
    cr_assert_eq(tn_tensor_storage_bytes(loaded), 5 * 8);
    EXPECT(p, loaded, 1, 2, 3, 4, 5);
    tn_safetensors_close(file);
    unlink(path);
}

/* Files of PyTorch keep what shares a storage, all of which they hold, on each device. */
ON_EACH_DEVICE(storage, file_of_pytorch)
{
    tn_scope *s = p->s;
    char path[] = "/tmp/tenon-shared-XXXXXX.pt";
    close(mkstemps(path, 3));
    tn_tensor *numbers = tn_arange_start(s, 1, 10), *large = tn_arange_start(s, 1, 1000);
    const tn_named_tensor list[] = {{"numbers", numbers},
                                    {"evens", tn_index(s, numbers, TN_SLICE(1, TN_NONE, 2))},
                                    {"small", tn_slice(s, large, 0, 0, 5, 1)}};
    cr_assert_eq(tn_pt_save(s, path, (tn_named_tensors){list, 3}), TN_OK, "%s",
                 tn_scope_error(s) ? tn_scope_error(s)->message : "");
    tn_named_tensors loaded = tn_file_load(s, path);
    unlink(path);
    cr_assert_eq(loaded.count, 3);
    tn_tensor *again = tn_named_get(s, loaded, "numbers"), *evens = tn_named_get(s, loaded, "evens");
    cr_assert_eq(tn_tensor_device(evens), p->device);
    cr_assert_eq(tn_tensor_is_alias(again, evens), 1);
    tn_mul_scalar_(s, evens, 2);
    EXPECT(p, again, 1, 4, 3, 8, 5, 12, 7, 16, 9);
    cr_assert_eq(tn_tensor_storage_bytes(tn_named_get(s, loaded, "small")), 999 * 8);
    EXPECT(p, tn_named_get(s, loaded, "small"), 1, 2, 3, 4, 5);
}

/* Slices of one tensor go on sharing: writing to the even ones changes the numbers. */
ON_EACH_DEVICE(storage, evens)
{
    tn_scope *s = p->s;
    tn_tensor *numbers = tn_arange_start(s, 1, 10);
    tn_mul_scalar_(s, tn_index(s, numbers, TN_SLICE(1, TN_NONE, 2)), 2);
    EXPECT(p, numbers, 1, 4, 3, 8, 5, 12, 7, 16, 9);
}
