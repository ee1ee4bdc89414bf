/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that grows (expandable_segments): what it holds stays where it is, also for a graph; what is cut is the device's again;
 * each function of the mapping failing.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "../behaviour/dlpack.h"
#include "../core/at_end.h"
#include "second_device.h"

#define ELEMENTS ((int64_t)2 << 20) /* 8 MiB of float32 */

static uint64_t at_start;

static uint64_t free_bytes(void)
{
    uint64_t available = 0, total = 0;
    cr_assert_eq(tn_device_memory(ctx, device, &available, &total), TN_OK);
    return available;
}

static void open_device(void)
{
    open_first(NULL, "cuda", NO_TWINS);
    s = tn_scope_open(ctx);
    at_start = free_bytes();
    cr_assert_eq(tn_memory_configure(ctx, device, "expandable_segments:True"), TN_OK, "%s",
                 tn_last_error()->message);
}

/* Nothing is left of it in the driver. */
static void close_all(void)
{
    int (*live)(void);
    close_device();
    *(void **)(void *)&live = dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cuda_test_live");
    MUST_HOLD(live() == 0);
}
TestSuite(growing, .init = open_device, .fini = close_all, .timeout = 120);

static int64_t stat_of(const char *name)
{
    int64_t value = -1;
    cr_assert_eq(tn_memory_get_stat(ctx, device, name, &value), TN_OK);
    return value;
}

static tn_tensor *filled(double value)
{
    tn_scope *inner = tn_scope_open(ctx);
    tn_tensor *t = tn_retain(tn_full(inner, TN_INTS(ELEMENTS), value, .dtype = TN_FLOAT32, .device = device));
    cr_assert_not(tn_scope_failed(inner), "%s", tn_scope_failed(inner) ? tn_scope_error(inner)->message : "");
    tn_scope_close(inner);
    return t;
}

static void expect_filled(tn_tensor *t, double value)
{
    tn_scope *inner = tn_scope_open(ctx);
    cr_assert_eq(tn_item_double(inner, tn_min(inner, t)), value);
    cr_assert_eq(tn_item_double(inner, tn_max(inner, t)), value);
    tn_scope_close(inner);
}

Test(growing, keeps_what_it_holds_and_gives_the_rest_back)
{
    tn_tensor *t[6];
    for (int i = 0; i < 6; i++) t[i] = filled(i + 1);
    cr_assert_eq(stat_of("segment.large_pool.current"), 1);
    const uint64_t with_six = free_bytes();
    cr_assert_leq(with_six, at_start - 6 * 4 * (uint64_t)ELEMENTS);
    for (int i = 2; i < 6; i++) tn_release(t[i]);
    cr_assert_eq(tn_memory_empty_cache(ctx, device), TN_OK);
    cr_assert_geq(free_bytes(), with_six + 4 * 4 * (uint64_t)ELEMENTS,
                  "the end of the segment is the device's");
    for (int i = 0; i < 2; i++) expect_filled(t[i], i + 1);
    for (int i = 2; i < 6; i++) t[i] = filled(-i);
    for (int i = 2; i < 6; i++) expect_filled(t[i], -i);
    for (int i = 0; i < 2; i++) expect_filled(t[i], i + 1);
    for (int i = 0; i < 6; i++) tn_release(t[i]);
    cr_assert_eq(tn_memory_empty_cache(ctx, device), TN_OK);
    cr_assert_eq(free_bytes(), at_start);
}

/* DLPack gives the address; the pieces of memory behind it follow each other. */
Test(growing, dlpack_takes_a_tensor_of_several_pieces)
{
    struct DLManagedTensorVersioned *c = NULL;
    tn_tensor *t = filled(5);
    cr_assert_eq(tn_to_dlpack(t, &c), TN_OK, "%s", tn_last_error()->message);
    c->tensor.data = (char *)c->tensor.data + c->tensor.byte_offset; /* as other libraries do */
    c->tensor.byte_offset = 0;
    tn_tensor *same = tn_from_dlpack(s, c);
    cr_assert_not_null(same, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    expect_filled(same, 5);
    tn_drop(s, same);
    tn_release(t);
}

/* A graph knows addresses: they stay while the segment behind them grows and is cut. */
Test(growing, a_graph_is_replayed_while_it_grows)
{
    tn_stream *home = tn_stream_current(ctx, device), *side = NULL;
    tn_graph *graph = NULL;
    tn_tensor *x = filled(1), *out = filled(0), *behind[4];
    cr_assert_eq(tn_stream_create(ctx, device, 0, &side), TN_OK);
    cr_assert_eq(tn_graph_create(ctx, device, &graph), TN_OK);
    tn_stream_wait_stream(side, home);
    tn_stream_set_current(ctx, side);
    cr_assert_eq(tn_graph_capture_begin(graph, side), TN_OK, "%s", tn_last_error()->message);
    tn_copy_(s, out, tn_mul_scalar(s, x, 2.0));
    cr_assert_eq(tn_graph_capture_end(graph), TN_OK, "%s", tn_last_error()->message);
    tn_stream_set_current(ctx, home);
    for (int round = 1; round < 4; round++) {
        for (int i = 0; i < 4; i++) behind[i] = filled(i);
        tn_fill_scalar_(s, x, round);
        cr_assert_eq(tn_graph_replay(graph), TN_OK);
        expect_filled(out, 2.0 * round);
        for (int i = 0; i < 4; i++) {
            expect_filled(behind[i], i);
            tn_release(behind[i]);
        }
        cr_assert_eq(tn_memory_empty_cache(ctx, device), TN_OK);
    }
    tn_graph_release(graph);
    tn_stream_release(side);
    tn_release(x);
    tn_release(out);
}

/* More than the device has: what was mapped on the way is the device's again. */
Test(growing, more_than_there_is_fails_and_leaves_nothing_behind)
{
    tn_tensor *x = filled(3);
    const uint64_t before = free_bytes();
    const int64_t many[] = {(int64_t)(before / 4 + (4 << 20)), (int64_t)2 << 30};
    for (int i = 0; i < 2; i++) { /* more than is free, more than there are addresses */
        cr_assert_null(tn_empty(s, TN_INTS(many[i]), .dtype = TN_FLOAT32, .device = device));
        cr_assert_eq(tn_scope_failed(s), TN_E_OUT_OF_MEMORY, "%s", tn_scope_error(s)->message);
        tn_scope_clear(s);
        expect_filled(x, 3);
        cr_assert_geq(free_bytes(), before);
    }
    tn_release(x);
}

/* ---- Peers -------------------------------------------------------------------------------------------------- */

/* Mapped memory of one device is copied by the other: what there is at the first copy, and what is mapped later. */
Test(growing, the_other_device_may_read_it)
{
    open_second("cuda");
    cr_assert_eq(tn_memory_configure(ctx, other, "expandable_segments:True"), TN_OK);
    tn_tensor *kept[3];
    for (int i = 0; i < 3; i++) {
        kept[i] = tn_full(s, TN_INTS(ELEMENTS), tn_value_int(i + 4), .dtype = TN_FLOAT32, .device = other);
        cr_assert(kept[i]);
        expect_filled(tn_to_device(s, kept[i], device, TN_FLOAT32), i + 4);
    }
}

/* ---- Failures ----------------------------------------------------------------------------------------------- */

/* The driver reads the fault when it is first called. */
static void open_with(const char *fault)
{
    setenv("FAULTY_FAIL", fault, 1);
    open_device();
}
TestSuite(growing_fails, .fini = close_all, .timeout = 120);

/* A result, and what the program sees: no memory is asked for again, after the caches are emptied. */
typedef struct failure {
    char fault[64];
    int32_t status;
    char text[48];
} failure;

ParameterizedTestParameters(growing_fails, a_failure_changes_nothing)
{
    static failure failures[] = {
        {"cuMemGetAllocationGranularity:1:1", TN_E_INTERNAL, "cuMemGetAllocationGranularity failed"},
        {"cuMemGetAllocationGranularity:1:801", TN_OK,
         ""}, /* a GPU without such memory: allocations as usual */
        {"cuMemAddressReserve:1:1", TN_E_INTERNAL, "cuMemAddressReserve failed"},
        {"cuMemCreate:1:2", TN_OK, ""},
        {"cuMemCreate:3:1", TN_E_INTERNAL, "cuMemCreate failed"},
        {"cuMemMap:2:1", TN_E_INTERNAL, "cuMemMap failed"},
        {"cuMemSetAccess:1:1", TN_E_INTERNAL, "cuMemSetAccess failed"},
        {"cuMemSetAccess:1:2", TN_OK, ""},
    };
    return cr_make_param_array(failure, failures, sizeof failures / sizeof *failures);
}

ParameterizedTest(const failure *f, growing_fails, a_failure_changes_nothing)
{
    open_with(f->fault);
    const uint64_t before = free_bytes();
    tn_tensor *x = tn_full(s, TN_INTS(ELEMENTS), 5.0, .dtype = TN_FLOAT32, .device = device);
    cr_assert_eq(tn_scope_failed(s), f->status, "%s: %s", f->fault, x ? "" : tn_scope_error(s)->message);
    if (f->status) {
        cr_assert(strstr(tn_scope_error(s)->message, f->text), "%s: %s", f->fault,
                  tn_scope_error(s)->message);
        cr_assert_eq(free_bytes(), before, "%s: memory is missing", f->fault);
        tn_scope_clear(s);
        x = tn_full(s, TN_INTS(ELEMENTS), 5.0, .dtype = TN_FLOAT32, .device = device);
    }
    expect_filled(x, 5);
}

/* A segment with a tensor of ones, whose growth fails as asked; *out_lost: bytes that are free no more. */
static tn_tensor *grow_in_vain(const char *failures, uint64_t *out_lost)
{
    open_with(failures);
    tn_tensor *x = filled(1);
    const uint64_t before = free_bytes();
    cr_assert_null(tn_full(s, TN_INTS(4 * ELEMENTS), 5.0, .dtype = TN_FLOAT32, .device = device));
    cr_assert_eq(tn_scope_failed(s), TN_E_INTERNAL);
    cr_assert(strstr(tn_scope_error(s)->message, "cuMemSetAccess failed"), "%s", tn_scope_error(s)->message);
    tn_scope_clear(s);
    *out_lost = before - free_bytes();
    expect_filled(x, 1);
    return x;
}

/* Of a segment that is there already. */
Test(growing_fails, to_grow_leaves_what_there_is)
{
    uint64_t lost;
    tn_tensor *x = grow_in_vain("cuMemSetAccess:2:1", &lost);
    cr_assert_eq(lost, 0);
    expect_filled(tn_full(s, TN_INTS(4 * ELEMENTS), 5.0, .dtype = TN_FLOAT32, .device = device), 5);
    tn_release(x);
}

/* Memory that cannot be given back is still the segment's. */
Test(growing_fails, to_shrink_is_an_error_by_name)
{
    open_with("cuMemUnmap:1:1");
    tn_tensor *x = filled(1), *y = filled(2);
    tn_release(y);
    cr_assert_eq(tn_memory_empty_cache(ctx, device), TN_E_INTERNAL);
    cr_assert(strstr(tn_last_error()->message, "cuMemUnmap failed"), "%s", tn_last_error()->message);
    expect_filled(x, 1);
    expect_filled(y = filled(3), 3);
    tn_release(x);
    tn_release(y);
}

/* The segment is freed when the context ends; what fails then is done when the device is closed. */
Test(growing_fails, to_free_is_tried_again_in_the_end)
{
    open_with("cuMemUnmap:2:1");
    tn_tensor *x = filled(2);
    expect_filled(x, 2);
    tn_release(x);
}

/* A growth that fails, and whose pieces cannot all be given back: the next one uses them, and they hold what they should. */
Test(growing_fails, to_undo_a_growth_leaves_the_segment_sound)
{
    uint64_t lost;
    tn_tensor *x = grow_in_vain("cuMemSetAccess:2:1,cuMemUnmap:2:1", &lost);
    cr_assert_gt(lost, 0, "a piece stays");
    expect_filled(tn_full(s, TN_INTS(4 * ELEMENTS), 5.0, .dtype = TN_FLOAT32, .device = device), 5);
    expect_filled(tn_full(s, TN_INTS(2 * ELEMENTS), 6.0, .dtype = TN_FLOAT32, .device = device), 6);
    tn_release(x);
}

/* The other device cannot be allowed to use it: the copy fails by name, and the next one is tried anew. */
Test(growing_fails, to_allow_a_peer_is_an_error_by_name)
{
    open_with("cuMemSetAccess:2:1");
    open_second("cuda");
    tn_tensor *x = filled(3);
    cr_assert_null(tn_to_device(s, x, other, TN_FLOAT32));
    cr_assert(strstr(tn_scope_error(s)->message, "cuMemSetAccess failed"), "%s", tn_scope_error(s)->message);
    tn_scope_clear(s);
    expect_filled(tn_to_device(s, x, other, TN_FLOAT32), 3);
    tn_release(x);
}
