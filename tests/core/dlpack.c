/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors to and from DLPack: layout of the structs, who owns what, what is refused. */
#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>
#include "core/dlpack.h"
#include "core/scope.h"
#include "fixture.h"

/* The layout of the specification, on a machine with pointers of 64 bits. */
_Static_assert(offsetof(DLManagedTensorVersioned, manager_ctx) == 8, "");
_Static_assert(offsetof(DLManagedTensorVersioned, deleter) == 16, "");
_Static_assert(offsetof(DLManagedTensorVersioned, flags) == 24, "");
_Static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32, "");
_Static_assert(offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20, "");
_Static_assert(offsetof(DLTensor, shape) == 24 && offsetof(DLTensor, byte_offset) == 40, "");
_Static_assert(sizeof(DLManagedTensorVersioned) == 80, "");

TestSuite(dlpack, .init = open_fakes, .fini = close_fakes);

Test(dlpack, export_keeps_the_storage)
{
    const int64_t sizes[] = {3, 2}, strides[] = {1, 3};
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(2, 3), (const float[]){0, 1, 2, 3, 4, 5}, 0),
              *v = NULL;
    cr_assert_eq(tni_tensor_view(t, 2, sizes, strides, 0, &v), TN_OK);
    DLManagedTensorVersioned *m = NULL;
    cr_assert_eq(tn_to_dlpack(v, &m), TN_OK);
    tn_release(v);
    tn_drop(s, t);
    cr_assert_eq(m->version.major, 1);
    cr_assert_eq(m->flags, 0);
    cr_assert(m->dl_tensor.device.device_type == 1 && m->dl_tensor.device.device_id == 0);
    cr_assert(m->dl_tensor.dtype.code == 2 && m->dl_tensor.dtype.bits == 32 && m->dl_tensor.dtype.lanes == 1);
    cr_assert_eq(m->dl_tensor.ndim, 2);
    cr_assert_arr_eq(m->dl_tensor.shape, sizes, sizeof sizes);
    cr_assert_arr_eq(m->dl_tensor.strides, strides, sizeof strides);
    cr_assert_eq(m->dl_tensor.byte_offset, 0);
    cr_assert_eq(((float *)m->dl_tensor.data)[5], 5);
    tn_scope_close(s);
    tn_context_destroy(ctx);
    cr_assert_eq(cpu.closed, 0);
    m->deleter(m);
    cr_assert_eq(cpu.closed, 1);
    open_fakes();
}

Test(dlpack, there_and_back)
{
    tn_tensor *t = tn_from_data(s, TN_COMPLEX64, TN_INTS(1, 2), (const float[]){1, 2, 3, 4}, 0);
    DLManagedTensorVersioned *m = NULL;
    cr_assert_eq(tn_to_dlpack(t, &m), TN_OK);
    tn_tensor *u = tn_from_dlpack(s, m);
    cr_assert_eq(tn_tensor_data(u), tn_tensor_data(t));
    cr_assert_eq(tn_tensor_dtype(u), TN_COMPLEX64);
    cr_assert_eq(tn_tensor_size(u, 1), 2);
    const tn_dtype dtypes[] = {TN_BOOL, TN_UINT8, TN_BFLOAT16, TN_FLOAT8_E5M2, TN_COMPLEX128, TN_UINT64};
    for (int i = 0; i < 6; i++) {
        t = tn_from_data(s, dtypes[i], TN_INTS(0, 3), NULL, 0);
        cr_assert_eq(tn_to_dlpack(t, &m), TN_OK);
        cr_assert_null(m->dl_tensor.data);
        u = tn_from_dlpack(s, m);
        cr_assert_eq(tn_tensor_dtype(u), dtypes[i]);
        cr_assert(tn_tensor_size(u, 0) == 0 && tn_tensor_size(u, 1) == 3);
    }
    cr_assert_eq(tn_scope_failed(s), TN_OK);
}

static tn_tensor *small(void)
{
    return tn_from_data(s, TN_FLOAT32, TN_INTS(1), (const float[]){1}, 0);
}

Test(dlpack, refuses_to_export)
{
    DLManagedTensorVersioned *m = NULL;
    tn_tensor *t = small(), *meta = NULL;
    t->desc.flags = TN_DESC_CONJ;
    cr_assert_eq(tn_to_dlpack(t, &m), TN_E_UNSUPPORTED);
    t->desc.flags = TN_DESC_NEG;
    cr_assert_eq(tn_to_dlpack(t, &m), TN_E_UNSUPPORTED);
    t = small();
    t->state |= TNI_WANTS_GRAD;
    cr_assert_eq(tn_to_dlpack(t, &m), TN_E_AUTOGRAD);
    t = tn_from_data(s, TN_FLOAT32, TN_INTS(1), (const float[]){1}, tn_device_parse(ctx, "gpu:0"));
    cr_assert_eq(tn_to_dlpack(t, &m), TN_E_UNSUPPORTED);
    t = tn_from_data(s, TN_QINT8, TN_INTS(1), "", 0);
    cr_assert_eq(tn_to_dlpack(t, &m), TN_E_DTYPE);
    cr_assert_eq(tni_tensor_create(ctx, TN_DEVICE(TN_INTERNED_META, 0), TN_INT8, 0, NULL, NULL, &meta),
                 TN_OK);
    cr_assert_eq(tn_to_dlpack(meta, &m), TN_E_UNSUPPORTED);
    tn_release(meta);
    cr_assert_null(m);
}

static int deleted;

static void delete_capsule(DLManagedTensorVersioned *m)
{
    deleted++;
    cr_assert_eq(m->manager_ctx, &deleted);
}

static DLManagedTensorVersioned capsule(void *data, int32_t rank, int64_t *shape)
{
    return (DLManagedTensorVersioned){
        .version = {1, 0},
        .manager_ctx = &deleted,
        .deleter = delete_capsule,
        .dl_tensor = {data, {DLPACK_CPU, 0}, rank, {TN_CODE_INT, 16, 1}, shape, NULL, 0},
    };
}

Test(dlpack, import_shares_until_the_last_view)
{
    int16_t data[] = {9, 1, 2, 3, 4, 5, 6};
    int64_t shape[] = {2, 3}, strides[] = {1, 2};
    DLManagedTensorVersioned m = capsule(data, 2, shape);
    m.dl_tensor.byte_offset = 2;
    tn_tensor *t = tn_retain(tn_from_dlpack(s, &m));
    cr_assert_eq(tn_tensor_data(t), data + 1);
    cr_assert_eq(tn_tensor_is_contiguous(t, TN_CONTIGUOUS_FORMAT), 1);
    tn_scope_close(s);
    s = tn_scope_open(ctx);
    cr_assert_eq(deleted, 0);
    tn_release(t);
    cr_assert_eq(deleted, 1);
    m.dl_tensor.strides = strides;
    int16_t out[6];
    const int16_t expected[] = {1, 3, 5, 2, 4, 6};
    cr_assert_eq(tn_to_host(s, tn_from_dlpack(s, &m), out, sizeof out), TN_OK);
    cr_assert_arr_eq(out, expected, sizeof out);
    m = capsule(data, 0, NULL);
    m.flags = DLPACK_FLAG_IS_COPIED;
    cr_assert_eq(tn_item_int(s, tn_from_dlpack(s, &m)), 9);
    cr_assert_eq(deleted, 1);
    tn_scope_close(s);
    cr_assert_eq(deleted, 3);
    s = tn_scope_open(ctx);
}

Test(dlpack, read_only_memory_is_copied)
{
    int16_t data[] = {1, 2, 3, 4, 5, 6, 7};
    int64_t shape[] = {2, 3}, strides[] = {1, 2};
    DLManagedTensorVersioned m = capsule(data, 2, shape);
    m.flags = DLPACK_FLAG_READ_ONLY;
    m.dl_tensor.strides = strides;
    tn_tensor *t = tn_from_dlpack(s, &m);
    cr_assert_eq(deleted, 1);
    const int16_t expected[] = {1, 3, 5, 2, 4, 6};
    cr_assert_arr_eq(tn_tensor_data(t), expected, sizeof expected);
    cr_assert(tn_tensor_data(t) != data);
    m.flags = 0;
    m.dl_tensor.byte_offset = 1; /* an odd address */
    t = tn_from_dlpack(s, &m);
    cr_assert_eq(deleted, 2);
    cr_assert_eq(((int16_t *)tn_tensor_data(t))[0], 0x0200);
}

Test(dlpack, refuses_to_import_and_deletes)
{
    int16_t data[8] = {0};
    int64_t shape[] = {2, 3}, negative[] = {-1, 2}, huge[] = {INT64_MAX / 2, 3};
    const DLManagedTensorVersioned good = capsule(data, 2, shape);
    DLManagedTensorVersioned bad[10];
    for (int i = 0; i < 10; i++) bad[i] = good;
    bad[0].version.major = 2;
    bad[1].dl_tensor.device.device_type = 2;
    bad[2].dl_tensor.dtype.lanes = 2;
    bad[3].dl_tensor.dtype.bits = 4;
    bad[4].dl_tensor.ndim = -1;
    bad[5].dl_tensor.ndim = 65;
    bad[6].dl_tensor.shape = negative;
    bad[7].dl_tensor.strides = negative;
    bad[8].dl_tensor.shape = huge;
    bad[9].dl_tensor.data = NULL;
    const int32_t codes[] = {TN_E_VERSION, TN_E_UNSUPPORTED, TN_E_DTYPE,       TN_E_DTYPE, TN_E_SHAPE,
                             TN_E_SHAPE,   TN_E_SHAPE,       TN_E_UNSUPPORTED, TN_E_SHAPE, TN_E_ARGUMENT};
    for (int i = 0; i < 10; i++) {
        cr_assert_null(tn_from_dlpack(s, &bad[i]), "case %d", i);
        cr_assert_eq(tn_scope_error(s)->code, codes[i], "case %d: %s", i, tn_scope_error(s)->message);
        cr_assert_eq(deleted, 2 * i + 1);
        cr_assert_null(tn_from_dlpack(s, &bad[i])); /* the scope has failed */
        cr_assert_eq(deleted, 2 * i + 2);
        tn_scope_clear(s);
    }
    cr_assert_null(tn_from_dlpack(s, NULL));
    tn_scope_clear(s);
}

Test(dlpack, every_failing_allocation_deletes_once)
{
    int16_t data[8] = {0};
    int64_t shape[] = {1, 1, 1, 1, 1, 1, 2, 3};
    for (int kind = 0; kind < 2; kind++) {
        for (int64_t n = 1; n < 100; n++) {
            counting c = {0};
            fake f = {.type = "cpu", .count = 1};
            tn_context *other = counted_context(&c, &f);
            tn_scope *t = tn_scope_open(other);
            DLManagedTensorVersioned m = capsule(data, 8, shape), *back = NULL;
            m.flags = kind ? DLPACK_FLAG_READ_ONLY : 0;
            deleted = 0;
            c.fail_at = c.calls + n;
            tn_tensor *u = tn_from_dlpack(t, &m);
            if (u && !tn_to_dlpack(u, &back)) back->deleter(back);
            tn_scope_close(t);
            int32_t reached = c.calls >= c.fail_at;
            tn_context_destroy(other);
            cr_assert_eq(deleted, 1, "kind %d, n %d", kind, (int)n);
            cr_assert_eq(c.live, 0);
            if (!reached) break;
        }
    }
}
