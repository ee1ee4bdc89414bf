/* SPDX-License-Identifier: Apache-2.0 */
/* Corners of what goes between tensors and the host's memory. */
#include "core/transfer.h"

#include <complex.h>
#include <criterion/criterion.h>
#include <string.h>
#include <tenon/collectives.h>
#include <unistd.h>
#include "core/graph.h"
#include "core/profile.h"
#include "core/scope.h"
#include "core/shape.h"
#include "fixture.h"
#include "child.h"

TestSuite(transfer, .init = open_full_fakes, .fini = close_fakes);

static tn_tensor *scalar_of(tn_dtype dtype, const void *bytes)
{
    tn_tensor *t = tn_from_data(s, dtype, TN_NO_INTS, bytes, TN_CPU);
    cr_assert_not_null(t);
    return t;
}

Test(transfer, no_bytes)
{
    tni_device *d = tni_device_get(ctx, tn_device_parse(ctx, "gpu:0"));
    gpu.fail_slot = 1; /* any call would fail */
    cr_assert_eq(tni_copy_to_device(d, NULL, 0, NULL, 0), TN_OK);
    cr_assert_eq(tni_copy_to_host(d, NULL, NULL, 0, 0), TN_OK);
    cr_assert_eq(gpu.fail_slot, 1);
    gpu.fail_slot = 0;
    tn_tensor *meta = NULL;
    const int64_t two = 2;
    cr_assert_eq(tni_tensor_create(ctx, TN_DEVICE(TN_INTERNED_META, 0), TN_FLOAT32, 1, &two, NULL, &meta),
                 TN_OK);
    cr_assert_eq(tni_tensor_write(meta, NULL, 8), TN_OK, "it has no data");
    tn_release(meta);
    tn_tensor *none = tn_from_data(s, TN_FLOAT32, TN_INTS(0), NULL, d->id);
    cr_assert_eq(tni_tensor_write(none, NULL, 0), TN_OK);
    cr_assert_eq(tn_to_host(s, none, NULL, 0), TN_OK);
}

Test(transfer, elements_of_every_kind)
{
    const float _Complex imaginary = 2.0f * I, zero = 0;
    const double half = 0.5, nothing = 0;
    const uint64_t most = UINT64_MAX;
    const int8_t minus = -3;
    double pair[2] = {9, 9};
    cr_assert_eq(tn_item_bool(s, scalar_of(TN_COMPLEX64, &imaginary)), 1);
    cr_assert_eq(tn_item_bool(s, scalar_of(TN_COMPLEX64, &zero)), 0);
    cr_assert_eq(tn_item_bool(s, scalar_of(TN_FLOAT64, &half)), 1);
    cr_assert_eq(tn_item_bool(s, scalar_of(TN_FLOAT64, &nothing)), 0);
    cr_assert_eq(tn_item_bool(s, scalar_of(TN_UINT64, &most)), 1);
    cr_assert_eq(tn_item_complex(s, scalar_of(TN_UINT64, &most), pair), TN_OK);
    cr_assert_eq(pair[0], 18446744073709551616.0);
    cr_assert_eq(tn_item_complex(s, scalar_of(TN_INT8, &minus), pair), TN_OK);
    cr_assert_eq(pair[0], -3);
    cr_assert_eq(pair[1], 0);
    cr_assert_eq(tn_item_complex(s, scalar_of(TN_COMPLEX64, &imaginary), pair), TN_OK);
    cr_assert_eq(pair[1], 2);
    cr_assert_eq(tn_item_double(s, scalar_of(TN_COMPLEX64, &zero)), 0);
    cr_assert_eq(tn_item_complex(s, NULL, pair), TN_E_ARGUMENT);
    expect_scope(TN_E_ARGUMENT, "item: a tensor is missing");
}

/* A tensor in a plugin's own layout has no elements at known places. */
Test(transfer, a_layout_of_a_plugin)
{
    float got[2] = {7, 7};
    const float data[2] = {1, 2};
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(2), data, tn_device_parse(ctx, "gpu:0"));
    t->desc.layout = tn_intern(ctx, "tiled");
    cr_assert_eq(tn_to_host(s, t, got, sizeof got), TN_E_UNSUPPORTED);
    expect_scope(TN_E_UNSUPPORTED, "a tensor in a plugin's own layout must be converted before it is read");
    cr_assert_eq(got[0], 7);
    t->desc.layout = TN_INTERNED_STRIDED;
    cr_assert_eq(tn_to_host(s, t, got, sizeof got), TN_OK);
}

/* Rows of a view with no inner dimension of its own, and one element. */
Test(transfer, strided_reads)
{
    const float data[4] = {1, 2, 3, 4};
    float got[4] = {0};
    const int64_t sizes[] = {2, 2}, strides[] = {1, 2};
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(4), data, tn_device_parse(ctx, "gpu:0")), *v = NULL;
    cr_assert_eq(tni_tensor_view(t, 2, sizes, strides, 0, &v), TN_OK);
    cr_assert_eq(tn_to_host(s, v, got, sizeof got), TN_OK);
    cr_assert_eq(got[1], 3);
    cr_assert_eq(got[2], 2);
    tn_release(v);
}

static int32_t unmap_fails(void *self, void *device, void *allocation, void *host)
{
    ++*(_Atomic int32_t *)&gpu.waits;
    return TN_E_IO;
}

Test(transfer, a_mapping_that_does_not_end)
{
    static fake mapped = {.type = "mapped", .count = 1, .device_class = TN_DEVICE_DISCRETE, .has_maps = 1};
    const float data[4] = {1, 2, 3, 4};
    float got[2];
    const int64_t sizes[] = {2}, strides[] = {2};
    tni_driver driver = fake_driver(&mapped);
    tn_tensor *v = NULL;
    driver.memory.unmap = unmap_fails;
    cr_assert_eq(tni_device_type_add(ctx, &driver), TN_OK);
    tn_device d = tn_device_parse(ctx, "mapped:0");
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(4), data, d);
    cr_assert_eq(tni_tensor_view(t, 1, sizes, strides, 0, &v), TN_OK);
    int32_t before = gpu.waits;
    cr_assert_eq(tn_to_host(s, v, got, sizeof got), TN_E_IO);
    cr_assert_eq(gpu.waits, before + 2, "it is tried twice: the device cannot use mapped memory");
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "end of a mapping of device memory"));
    tn_scope_clear(s);
    tn_clear_error();
    tni_device_get(ctx, d)->type->driver.memory.unmap = NULL;
    cr_assert_eq(tn_to_host(s, v, got, sizeof got), TN_OK, "maps that do not end are not used");
    cr_assert_eq(got[1], 3);
    tn_release(v);
    mapped.live_maps = 0;
}

/* Peers need the slot, another device of the same type, and a bit in the facts. */
Test(transfer, peers)
{
    tni_device *a = tni_device_get(ctx, tn_device_parse(ctx, "gpu:0")), *b = a + 1;
    cr_assert(tni_are_peers(b, a));
    cr_assert_not(tni_are_peers(a, a));
    cr_assert_not(tni_are_peers(tni_device_get(ctx, TN_CPU), a));
    uint64_t peers = b->facts.peers;
    b->facts.peers = 2;
    cr_assert_not(tni_are_peers(b, a));
    b->facts.peers = peers;
    a->type->driver.copy.peer = NULL;
    cr_assert_not(tni_are_peers(b, a));
}

static void count_call(void *user)
{
    ++*(int *)user;
}

Test(transfer, memory_of_the_program)
{
    static fake lonely = {.type = "gpu", .count = 1, .device_class = TN_DEVICE_DISCRETE};
    int deleted = 0;
    float data[4] = {0};
    tni_storage *storage = NULL;
    tn_blob b = {
        .size = sizeof b, .dtype = TN_FLOAT32, .data = data, .user = &deleted, .deleter = count_call};
    b.sizes = TN_INTS(4);
    cr_assert_null(tn_from_blob(s, NULL));
    expect_scope(TN_E_ARGUMENT, "tn_blob is NULL");
    tn_scope_fail(s, TN_E_SHAPE, "before");
    cr_assert_null(tn_from_blob(s, NULL), "the first error stays");
    b.deleter = NULL;
    cr_assert_null(tn_from_blob(s, &b));
    expect_scope(TN_E_SHAPE, "before");
    b.sizes = TN_INTS(-1);
    cr_assert_null(tn_from_blob(s, &b), "without a deleter nothing is called");
    tn_scope_clear(s);
    b.sizes = TN_INTS(0);
    b.data = NULL;
    cr_assert_not_null(tn_from_blob(s, &b), "no elements need no memory");
    b.data = data;
    b.deleter = count_call;
    b.sizes = (tn_ints){NULL, TN_MAX_RANK + 1};
    cr_assert_null(tn_from_blob(s, &b));
    cr_assert_eq(deleted, 1);
    tn_scope_clear(s);
    tni_device *d = tni_device_get(ctx, tn_device_parse(ctx, "gpu:0"));
    cr_assert_eq(tni_storage_wrap(d, data, sizeof data, count_call, &deleted, &storage), TN_E_DEVICE);
    expect_last(TN_E_DEVICE, "memory of the host can only be shown as tensors of a host device");
    cr_assert_eq(deleted, 2);
    cr_assert_eq(tni_storage_wrap(d, data, sizeof data, NULL, NULL, &storage), TN_E_DEVICE);
    /* Without a CPU there is no device to show it as. */
    tn_context *other = fake_context(NULL, &lonely);
    tn_scope *scope = tn_scope_open(other);
    b.sizes = TN_INTS(4);
    cr_assert_null(tn_from_blob(scope, &b));
    cr_assert_eq(tn_scope_failed(scope), TN_E_DEVICE);
    cr_assert_str_eq(tn_scope_error(scope)->message,
                     "device cpu: no plugin offers this type (there are: gpu)");
    cr_assert_eq(deleted, 3);
    tn_scope_close(scope);
    tn_context_destroy(other);
    tn_clear_error();
}

/* A tensor made where no device is named is on the scope's. */
Test(transfer, default_device)
{
    const float one = 1;
    tn_device d = tn_device_parse(ctx, "gpu:1");
    const tn_scope_options options = {.size = sizeof options, .device = d};
    tn_scope *inner = tn_scope_open_child(s, &options);
    cr_assert_eq(tn_from_data(inner, TN_FLOAT32, TN_INTS(1), &one, 0)->desc.device, d);
    cr_assert_eq(tn_scalar_tensor_of(inner, tn_value_int(1), 0, 0)->desc.device, d);
    cr_assert_eq(tn_scope_close(inner), TN_OK);
    cr_assert_eq(tn_from_data(s, TN_FLOAT32, TN_INTS(1), &one, 0)->desc.device, TN_CPU);
}

/* ---- Tensors ----------------------------------------------------------------------------------------------- */

static void refuse(uint32_t rank, const int64_t *sizes, const int64_t *strides, const char *text)
{
    tn_tensor *t = NULL;
    cr_expect_eq(tni_tensor_create(ctx, TN_CPU, TN_FLOAT32, rank, sizes, strides, &t), TN_E_SHAPE);
    expect_last(TN_E_SHAPE, text);
    cr_expect_null(t);
}

Test(transfer, sizes_that_are_too_large)
{
    const int64_t empty[] = {0, INT64_MAX, 4}, huge[] = {INT64_MAX / 2, 8}, row[] = {0, 3},
                  wide[] = {1, INT64_MAX};
    const int64_t below[] = {2, -1}, minus[] = {1, -1};
    refuse(3, empty, NULL, "the sizes are too large: their strides overflow");
    refuse(2, row, wide, "the sizes are too large: their extent overflows");
    refuse(2, below, minus, "Negative strides are not supported at the moment, got strides: [1, -1]");
    tn_tensor *t = NULL;
    cr_assert_eq(tni_tensor_create(ctx, TN_CPU, TN_FLOAT32, 2, huge, NULL, &t), TN_E_SHAPE);
    cr_assert_eq(tni_tensor_create(ctx, TN_CPU, TN_FLOAT32, 0, NULL, empty, &t), TN_OK,
                 "no dimensions, no strides");
    tn_tensor *v = NULL;
    const int64_t all[] = {INT64_MAX / 8}, one[] = {1};
    cr_assert_eq(tni_tensor_view(t, 1, all, one, INT64_MAX / 2, &v), TN_E_SHAPE);
    expect_last(TN_E_SHAPE, "the sizes are too large: their bytes overflow");
    cr_assert_eq(tni_tensor_on(t->storage, 77, 0, NULL, NULL, 0, &v), TN_E_DTYPE);
    expect_last(TN_E_DTYPE, "0x4d is not a dtype");
    cr_assert_eq(tni_tensor_on(t->storage, TN_FLOAT32, 0, NULL, NULL, 1, &v), TN_E_INDEX);
    tn_clear_error();
    tni_tensor_set_storage(t, t->storage);
    cr_assert_eq(atomic_load(&t->storage->refs), 1);
    tn_release(t);
}

/* A storage goes and comes back: what it was made with is home to the tensor. */
Test(transfer, storages_of_a_tensor)
{
    const float data[2] = {1, 2}, more[2] = {3, 4};
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(2), data, TN_CPU),
              *u = tn_from_data(s, TN_FLOAT32, TN_INTS(2), more, TN_CPU), *meta = NULL, *v = NULL;
    tni_storage *home = t->storage;
    const int64_t two = 2;
    tni_storage_retain(home); /* it may stand alone */
    tni_tensor_set_storage(t, u->storage);
    cr_assert_eq(atomic_load(&u->storage->refs), 2);
    tni_tensor_set_storage(t, home);
    tni_storage_release(home);
    cr_assert_eq(atomic_load(&u->storage->refs), 1);
    cr_assert_eq(tni_tensor_create(ctx, TN_DEVICE(TN_INTERNED_META, 0), TN_FLOAT32, 1, &two, NULL, &meta),
                 TN_OK);
    tni_storage_retain(meta->storage);
    cr_assert_eq(tni_tensor_on(meta->storage, TN_FLOAT32, 1, &two, NULL, 0, &v), TN_OK);
    cr_assert_eq(TN_DEVICE_TYPE(v->desc.device), TN_INTERNED_META);
    tn_release(v);
    tn_release(meta);
}

Test(transfer, questions_about_nothing)
{
    cr_assert_eq(tn_tensor_version(NULL), 0);
    cr_assert_eq(tn_tensor_storage_bytes(NULL), 0);
    cr_assert_eq(tn_tensor_storage_offset(NULL), 0);
    cr_assert_null(tn_tensor_data(NULL));
    cr_assert_null(tn_tensor_context(NULL));
    cr_assert_eq(tn_tensor_is_alias(NULL, NULL), 0);
    cr_assert_eq(tn_tensor_is_contiguous(NULL, TN_CONTIGUOUS_FORMAT), 0);
    const float one = 1;
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(1), &one, TN_CPU);
    cr_assert_eq(tn_tensor_is_alias(t, NULL), 0);
    cr_assert_eq(tn_tensor_is_contiguous(t, TN_CONTIGUOUS_FORMAT), 1);
    cr_assert_eq(tn_tensor_is_contiguous(t, TN_CHANNELS_LAST), 0);
    cr_assert_eq(tn_tensor_is_contiguous(t, TN_CHANNELS_LAST_3D), 0);
    cr_assert_eq(tn_tensor_is_contiguous(t, 77), 0);
    tn_release(NULL);
}

/* ---- Overlap ----------------------------------------------------------------------------------------------- */

static tn_tensor *view(tn_tensor *t, uint32_t rank, const int64_t *sizes, const int64_t *strides,
                       int64_t offset)
{
    tn_tensor *v = NULL;
    cr_assert_eq(tni_tensor_view(t, rank, sizes, strides, offset, &v), TN_OK);
    tni_scope_own(s, v);
    return v;
}

Test(transfer, overlap)
{
    static const float data[12];
    const int64_t all[] = {3, 4}, rows[] = {4, 1}, turned[] = {4, 3}, columns[] = {1, 4}, flat[] = {12},
                  one[] = {1};
    const int64_t part[] = {2, 4}, square[] = {3, 3}, single[] = {1}, spread[] = {3, 4}, zero[] = {0, 1},
                  no[] = {0};
    const int64_t ones[] = {1, 1}, same[] = {0, 0};
    tn_tensor *t = tn_from_data(s, TN_FLOAT32, TN_INTS(3, 4), data, TN_CPU),
              *u = tn_from_data(s, TN_FLOAT32, TN_INTS(3, 4), data, TN_CPU), *words = NULL, *pair = NULL;
    cr_assert_eq(tni_overlap(t, t), TNI_OVERLAP_FULL);
    cr_assert_eq(tni_overlap(t, u), TNI_OVERLAP_NONE);
    cr_assert_eq(tni_overlap(t, view(t, 2, all, rows, 0)), TNI_OVERLAP_FULL, "the same elements");
    cr_assert_eq(tni_overlap(t, view(t, 2, turned, columns, 0)), TNI_OVERLAP_PARTIAL, "in another order");
    cr_assert_eq(tni_overlap(t, view(t, 1, flat, one, 0)), TNI_OVERLAP_PARTIAL, "of another rank");
    cr_assert_eq(tni_overlap(t, view(t, 1, no, one, 0)), TNI_OVERLAP_NONE, "no elements");
    tn_tensor *first = view(t, 2, part, rows, 0), *last = view(t, 2, part, rows, 4),
              *end = view(t, 1, single, one, 11);
    cr_assert_eq(tni_overlap(first, last), TNI_OVERLAP_PARTIAL);
    cr_assert_eq(tni_overlap(t, first), TNI_OVERLAP_PARTIAL);
    cr_assert_eq(tni_overlap(first, end), TNI_OVERLAP_NONE);
    cr_assert_eq(tni_overlap(end, first), TNI_OVERLAP_NONE);
    cr_assert_eq(tni_overlap(t, view(t, 2, square, rows, 0)), TNI_OVERLAP_NONE, "unknown: not dense");
    cr_assert_eq(tni_overlap(view(t, 2, square, rows, 0), t), TNI_OVERLAP_NONE);
    cr_assert_eq(tni_tensor_alias(t, TN_INT32, 2, all, rows, 0, &words), TN_OK);
    cr_assert_eq(tni_overlap(t, words), TNI_OVERLAP_FULL, "elements of one size");
    const int64_t half[] = {3, 2}, half_rows[] = {2, 1};
    cr_assert_eq(tni_tensor_alias(t, TN_INT64, 2, half, half_rows, 0, &pair), TN_OK);
    cr_assert_eq(tni_overlap(t, pair), TNI_OVERLAP_PARTIAL);
    tn_tensor *a = view(t, 0, NULL, NULL, 1), *b = view(t, 0, NULL, NULL, 1), *c = view(t, 0, NULL, NULL, 2);
    cr_assert_eq(tni_overlap(a, b), TNI_OVERLAP_FULL, "of rank 0");
    cr_assert_eq(tni_overlap(a, c), TNI_OVERLAP_NONE);
    cr_assert_eq(tni_overlap(view(t, 1, single, one, 3), view(t, 2, ones, same, 3)), TNI_OVERLAP_PARTIAL);
    cr_assert_eq(tni_overlaps_itself(view(t, 2, spread, zero, 0)), 1);
    cr_assert_eq(tni_overlaps_itself(view(t, 2, square, rows, 0)), 0);
    const int64_t one_row[] = {1, 3}, gap[] = {0, 2};
    cr_assert_eq(tni_overlaps_itself(view(t, 2, one_row, gap, 0)), 0,
                 "a dimension of size 1 may have any stride");
    tn_release(words);
    tn_release(pair);
}

/* ---- Scopes ------------------------------------------------------------------------------------------------ */

Test(transfer, places_and_failures_of_scopes)
{
    tn_scope_place(NULL, "model.c", 1);
    tn_scope_place(s, "model.c", 1); /* no error */
    tn_scope_add_to_error(NULL, "more");
    tn_scope_add_to_error(s, "more");
    tn_scope_call_place(NULL, "model.c", 1);
    tn_scope_call_place(s, "model.c", 1);
    cr_assert_eq(tn_scope_fail(s, TN_OK, "nothing"), TN_OK);
    cr_assert_eq(tn_scope_fail(s, TN_E_SHAPE, NULL), TN_E_SHAPE);
    tn_scope_place(s, NULL, 1);
    tn_scope_add_to_error(s, NULL);
    cr_assert_null(tn_scope_error(s)->file);
    tn_scope_place(s, "model.c", 7);
    cr_assert_str_eq(tn_scope_error(s)->file, "model.c");
    cr_assert_not_null(strstr(tn_scope_error(s)->message, tn_status_text(TN_E_SHAPE)));
    tn_scope_clear(s);
    tn_clear_error();
}

/* Whatever allocation fails, a scope that owns many tensors keeps those that it has. */
Test(transfer, scopes_that_cannot_grow)
{
    for (int64_t n = 1;; n++) {
        fake device = {.type = "cpu", .count = 1};
        counting c = {0};
        tn_context *own = failing_context(&c, &device, n);
        tn_scope *scope = tn_scope_open(own);
        int made = 0;
        for (int i = 0; scope && i < 100; i++)
            made += tn_scalar_tensor_of(scope, tn_value_int(i), 0, TN_CPU) != NULL;
        int32_t reached = c.calls >= c.fail_at;
        cr_assert(scope ? (made < 100) == (tn_scope_failed(scope) == TN_E_OUT_OF_MEMORY) : reached);
        c.fail_at = 0;
        if (scope) {
            tn_scope_clear(scope);
            cr_assert_not_null(tn_scalar_tensor_of(scope, tn_value_int(1), 0, TN_CPU));
            cr_assert_eq(tn_scope_close(scope), TN_OK);
        }
        tn_context_destroy(own);
        cr_assert_eq(c.live, 0);
        if (!reached) break;
        cr_assert_lt(n, 4000);
    }
}

/* ---- After a fork ------------------------------------------------------------------------------------------- */

/* In a child of the program every handle is refused, and releasing it does nothing. */
Test(transfer, handles_in_a_child)
{
    const tn_device devices[] = {tn_device_parse(ctx, "gpu:0"), tn_device_parse(ctx, "gpu:1")};
    tn_communicator *c = NULL;
    tn_graph *g = NULL;
    tn_profile *p = NULL;
    tn_event *e = NULL;
    cr_assert_eq(tn_communicator_create(ctx, devices, 2, &c), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, devices[0], &g), TN_OK);
    cr_assert_eq(tn_event_create(ctx, devices[0], 0, &e), TN_OK);
    cr_assert_eq(tni_profile_start(ctx, NULL), TN_OK);
    cr_assert_eq(tni_profile_stop(ctx, &p), TN_OK);
    pid_t child = fork();
    if (!child) {
        int ok = tn_communicator_status(c) == TN_E_FORKED && tn_communicator_abort(c) == TN_E_FORKED &&
                 tn_communicator_barrier(c) == TN_E_FORKED && tn_graph_reset(g) == TN_E_FORKED &&
                 tn_event_query(e) == -TN_E_FORKED && !tn_scope_open(ctx);
        tn_communicator_release(c);
        tn_graph_release(g);
        tn_profile_release(p);
        tn_event_release(e);
        tni_devices_finish(ctx);
        ok = ok && gpu.live_communicators == 1 && gpu.live_events == 1 && !gpu.closed;
        _exit(!ok);
    }
    expect_success_of(child);
    tn_communicator_release(c);
    tn_graph_release(g);
    tn_profile_release(p);
    tn_event_release(e);
    tni_profile_finish(ctx);
}

/* A list has at most so many items that their number fits. */
Test(transfer, lists_without_end)
{
    tni_vector v = {.count = 3u << 30, .capacity = 3u << 30};
    cr_assert_null(tni_vector_push(ctx, &v, 8));
    expect_last(TN_E_OUT_OF_MEMORY, "out of memory: a list needs 51539607552 bytes");
    cr_assert_eq(v.count, 3u << 30);
}
