/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors of an integrated device of the GPU family, in memory that the host sees. The driver for tests begins no work before the
 * host waits for it, and keeps the host from memory that queued work uses: a read that does not wait is a crash. The build names
 * what the driver's environment asks for: INTEGRATED, the variable that makes its devices integrated; OLD, the one that takes the
 * host's access while work runs from it, with OLD_VALUE; ALLOCATES, the function that gives such memory; OUT_OF_MEMORY, its result.
 */
#include <stdlib.h>
#include <string.h>
#include <tenon/interop.h>
#include <unistd.h>
#include "../behaviour/dlpack.h"
#include "../core/at_end.h"
#include "device_suite.h"

#define LARGE (64 << 20)

static tn_device_facts facts;

static void open_as(const char *integrated)
{
    setenv(INTEGRATED, integrated, 1);
    open_tested_device();
    facts = (tn_device_facts){.size = sizeof facts};
    cr_assert_eq(tn_device_get_facts(ctx, device, &facts), TN_OK, "%s", tn_last_error()->message);
}

/* Programs are compiled before: a compilation would hide a wait. */
static void open_integrated(void)
{
    open_as("1");
    expect_pair(tn_mul_scalar(s, tn_add_scalar(s, pair(device, 1, 2), 1), 1), 2, 3);
    setenv("FAULTY_UNASKED", "1", 1);
}

static void close_integrated(void)
{
    unsetenv("FAULTY_UNASKED");
    MUST_HOLD(!tn_scope_failed(s));
    close_device();
}
TestSuite(unified, .init = open_integrated, .fini = close_integrated, .timeout = 60);
TestSuite(unified_not, .timeout = 60);

static void good(int32_t status)
{
    cr_assert_eq(status, TN_OK, "%d: %s", status, tn_last_error() ? tn_last_error()->message : "");
}

/* Whether the host may read there: the kernel says so without a crash. */
static int is_readable(const void *p)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    const ssize_t n = write(ends[1], p, 4);
    close(ends[0]);
    close(ends[1]);
    return n == 4;
}

static const float *data_of(const tn_tensor *t)
{
    return tn_tensor_data(t);
}

/* [[2, 3], [4, 5]], which work that has not begun will write. */
static tn_tensor *late_square(void)
{
    tn_tensor *x = tn_from_data(s, TN_FLOAT32, TN_INTS(2, 2), (float[]){1, 2, 3, 4}, device);
    return tn_add_scalar(s, x, 1);
}

static void expect_square(const float got[4], float a, float b, float c, float d)
{
    cr_assert(got[0] == a && got[1] == b && got[2] == c && got[3] == d, "%g %g %g %g", (double)got[0],
              (double)got[1], (double)got[2], (double)got[3]);
}

/* ---- What the host sees, and when ---------------------------------------------------------------------------- */

Test(unified, tensors_of_an_integrated_device_have_addresses)
{
    cr_expect_eq(facts.device_class, TN_DEVICE_INTEGRATED);
    cr_expect_eq(facts.memory_kinds, TN_MEMORY_DEVICE | TN_MEMORY_HOST | TN_MEMORY_UNIFIED);
    tn_tensor *x = pair(device, 1, 2);
    cr_assert_not_null(data_of(x));
    cr_expect_eq((uintptr_t)data_of(x) % 64, 0);
    cr_expect_eq(data_of(tn_slice(s, x, .start = 1)), data_of(x) + 1);
}

Test(unified, the_host_reads_what_the_device_wrote_after_a_wait)
{
    tn_tensor *x = late_square();
    cr_assert_not(is_readable(data_of(x)), "the work that writes it has not run");
    good(tn_stream_synchronize(tn_stream_current(ctx, device)));
    cr_assert(is_readable(data_of(x)));
    expect_square(data_of(x), 2, 3, 4, 5);
}

Test(unified, the_device_reads_what_the_host_wrote)
{
    tn_tensor *x = pair(device, 1, 2);
    good(tn_device_synchronize(ctx, device));
    ((float *)tn_tensor_data(x))[1] = 7;
    expect_pair(tn_mul_scalar(s, x, 2), 2, 14);
}

/* ---- Reads, each of which waits ------------------------------------------------------------------------------- */

Test(unified, a_read)
{
    float got[4] = {0};
    good(tn_to_host(s, late_square(), got, sizeof got));
    expect_square(got, 2, 3, 4, 5);
}

Test(unified, a_read_of_a_transposed_tensor)
{
    float got[4] = {0};
    good(tn_to_host(s, tn_t(s, late_square()), got, sizeof got));
    expect_square(got, 2, 4, 3, 5);
}

Test(unified, an_element)
{
    cr_assert_eq(tn_item_double(s, tn_select(s, tn_select(s, late_square(), 0, 1), 0, 1)), 5);
}

Test(unified, a_print)
{
    const char *text = tn_format(s, late_square(), NULL);
    cr_assert_not_null(strstr(text, "5"), "%s", text);
}

Test(unified, a_copy_on_the_cpu)
{
    tn_tensor *y = tn_to_device(s, late_square(), TN_CPU, TN_FLOAT32);
    expect_square(data_of(y), 2, 3, 4, 5);
}

/* A tensor without dimensions takes part in a call on another device by value. */
Test(unified, a_scalar_of_the_device_in_a_call_on_the_cpu)
{
    tn_tensor *two = tn_add_scalar(s, tn_from_data(s, TN_FLOAT32, TN_NO_INTS, (float[]){1}, device), 1);
    tn_tensor *y = tn_mul(s, pair(TN_CPU, 3, 4), tn_to_device(s, two, TN_CPU, TN_FLOAT32));
    expect_pair(y, 6, 8);
}

/* A kernel with a workspace, whose memory is of the kind that tensors have. */
Test(unified, a_workspace)
{
    int64_t got[2] = {0};
    tn_set_fallback_policy(ctx, TN_FALLBACK_ERROR);
    tn_tensor *places = tn_nonzero(s, tn_from_data(s, TN_FLOAT32, TN_INTS(4), (float[]){0, 5, 0, 7}, device));
    cr_assert_not_null(places, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    good(tn_to_host(s, places, got, sizeof got));
    cr_expect(got[0] == 1 && got[1] == 3);
}

/* ---- Beside other memory --------------------------------------------------------------------------------------- */

Test(unified, pinned_memory)
{
    tn_tensor *from = tn_pin_memory(s, pair(TN_CPU, 1, 2), device), *x = pair(device, 0, 0);
    tn_tensor *to = tn_pin_memory(s, pair(TN_CPU, 0, 0), device);
    cr_assert(tn_is_pinned(from) && tn_is_pinned(to));
    tn_copy_(s, x, from, .non_blocking = 1);
    tn_copy_(s, to, tn_add_scalar(s, x, 1), .non_blocking = 1);
    cr_assert_eq(data_of(to)[0], 0, "nobody has waited");
    good(tn_stream_synchronize(tn_stream_current(ctx, device)));
    cr_expect_eq(data_of(to)[0], 2);
    cr_expect_eq(data_of(to)[1], 3);
}

Test(unified, memory_of_another_library)
{
    struct DLManagedTensorVersioned *c = NULL;
    tn_tensor *x = late_square();
    float got[4] = {0};
    good(tn_to_dlpack(x, &c));
    cr_assert_eq(c->tensor.data, tn_tensor_data(x));
    expect_square(c->tensor.data, 2, 3, 4, 5);
    tn_tensor *taken = tn_from_dlpack(s, c);
    cr_assert_not_null(taken);
    cr_assert_eq(tn_tensor_device(taken), device);
    tn_add_scalar_(s, taken, 1);
    good(tn_to_host(s, tn_t(s, taken), got, sizeof got));
    expect_square(got, 3, 5, 4, 6);
    good(tn_to_host(s, x, got, sizeof got));
    expect_square(got, 3, 4, 5, 6);
}

static uint64_t free_memory(void)
{
    uint64_t bytes = 0, total = 0;
    good(tn_memory_empty_cache(ctx, device));
    good(tn_device_memory(ctx, device, &bytes, &total));
    return bytes;
}

Test(unified, memory_is_counted_and_given_back)
{
    const uint64_t before = free_memory();
    tn_tensor *x = tn_empty(s, TN_INTS(LARGE), .dtype = TN_UINT8);
    cr_assert_not_null(x);
    cr_expect_eq(before - free_memory(), LARGE);
    tn_drop(s, x);
    cr_expect_eq(free_memory(), before);
}

#ifdef GROWS /* the driver also has memory that grows, and memory that processes share: both are memory of the device */
Test(unified, memory_that_grows)
{
    good(tn_memory_configure(ctx, device, "expandable_segments:True"));
    tn_tensor *x = tn_add_scalar(s, tn_ones(s, TN_INTS(1 << 20), .dtype = TN_FLOAT32), 1);
    cr_expect_null(data_of(x));
    cr_expect_eq(tn_item_double(s, tn_select(s, x, 0, 77)), 2);
}

Test(unified, memory_that_processes_share)
{
    tn_shared_tensor shared = {.size = sizeof shared};
    tn_tensor *x = tn_share(s, pair(device, 1, 2));
    cr_assert_not_null(x, "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_expect_null(data_of(x));
    expect_pair(tn_add_scalar_(s, x, 1), 2, 3);
    good(tn_share_export(x, &shared));
    close(shared.memory.file);
}
#endif

/* ---- Other devices, and no memory ------------------------------------------------------------------------------ */

static void expect_hidden(void)
{
    tn_tensor *x = tn_add_scalar(s, pair(device, 1, 2), 1);
    cr_expect_null(data_of(x));
    expect_pair(x, 2, 3);
    close_device();
}

Test(unified_not, of_a_discrete_device)
{
    open_as("0");
    cr_expect_eq(facts.device_class, TN_DEVICE_DISCRETE);
    cr_expect(facts.memory_kinds & TN_MEMORY_UNIFIED, "it has such memory, too");
    expect_hidden();
}

/* The host may use a part of an allocation while the device uses another, or tensors lie in memory of the device. */
Test(unified_not, where_the_host_has_to_stay_away_from_running_work)
{
    setenv(OLD, OLD_VALUE, 1);
    open_as("1");
    cr_expect_eq(facts.device_class, TN_DEVICE_INTEGRATED);
    cr_expect_eq(facts.memory_kinds, TN_MEMORY_DEVICE | TN_MEMORY_HOST);
    expect_hidden();
}

/* What is kept is given back, and the function is called once more. */
Test(unified_not, out_of_memory_once)
{
    setenv("FAULTY_FAIL", ALLOCATES ":1:" OUT_OF_MEMORY, 1);
    open_as("1");
    tn_tensor *x = pair(device, 1, 2);
    cr_assert_not_null(data_of(x), "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    expect_pair(x, 1, 2);
    close_device();
}

Test(unified_not, more_than_there_is)
{
    open_as("1");
    tn_tensor *x = tn_empty(s, TN_INTS((int64_t)5 << 30), .dtype = TN_UINT8), *y;
    cr_expect_null(x);
    cr_assert_eq(tn_scope_failed(s), TN_E_OUT_OF_MEMORY);
    tn_scope_clear(s);
    y = pair(device, 1, 2);
    cr_expect_not_null(data_of(y));
    expect_pair(y, 1, 2);
    close_device();
}
