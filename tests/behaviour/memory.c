/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocators of users, and what an error says of memory that is not there.
 *
 * On the CPU the allocator is that of examples/allocator. On the reference device it is arena.c, which hands out parts of
 * a tensor of another context: addresses of the device that the plugin has not given to this one.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <tenon/plugin.h>
#include <tenon/tenon.h>

static tn_context *ctx, *other;
static tn_device device;
static const char *counting, *arena_library;

static void open_context(void)
{
    counting = getenv("TENON_COUNTING");
    arena_library = getenv("TENON_ARENA");
    cr_assert_not_null(counting);
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_OK, "%s", tn_last_error()->message);
    device = tn_device_parse(ctx, "reference:0");
}

static void close_context(void)
{
    tn_context_destroy(ctx);
    tn_context_destroy(other);
}

TestSuite(user_allocator, .init = open_context, .fini = close_context);

static void *function_of(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL), *f = handle ? dlsym(handle, name) : NULL;
    cr_assert_not_null(f, "%s", name);
    return f;
}

static void refused(int32_t status, int32_t want, const char *part)
{
    cr_expect_eq(status, want, "%d, expected %d", status, want);
    cr_expect_not_null(strstr(tn_last_error()->message, part), "%s", tn_last_error()->message);
}

static void read_counts(ssize_t out[3])
{
    void (*read)(ssize_t out[3]);
    void *f = function_of(counting, "counting_read");
    memcpy(&read, &f, sizeof f);
    read(out);
}

Test(user_allocator, serves_the_cpu)
{
    ssize_t counts[3];
    tn_memory_stats stats = {.size = sizeof stats};
    cr_assert_eq(tn_memory_set_allocator(ctx, TN_CPU, counting, "counting_alloc", "counting_free"), TN_OK);
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_ones(s, TN_INTS(1000)), *y = tn_mul_scalar(s, x, 3);
    cr_expect_eq(tn_item_double(s, tn_sum(s, y)), 3000);
    read_counts(counts);
    cr_expect_geq(counts[0], 2 * 4000);
    cr_expect_geq(counts[2], 3);
    cr_assert_eq(tn_memory_get_stats(ctx, TN_CPU, &stats), TN_OK);
    cr_expect_eq(stats.allocated_bytes, (uint64_t)counts[0]);
    cr_expect_eq(stats.allocations, (uint64_t)counts[2]);
    cr_expect_not(tn_scope_failed(s));
    tn_scope_close(s);
    read_counts(counts);
    cr_expect_eq(counts[0], 0);
    /* It is not changed after use. */
    refused(tn_memory_set_allocator(ctx, TN_CPU, counting, "counting_alloc", "counting_free"), TN_E_STATE,
            "memory_set_allocator: Can't swap an already initialized allocator (cpu has allocations");
    tn_memory_pool *pool;
    refused(tn_memory_pool_create(ctx, TN_CPU, &pool), TN_E_UNSUPPORTED,
            "allocate the device's memory: it has no private pools");
    refused(tn_memory_configure(ctx, TN_CPU, "no_cache:True"), TN_E_UNSUPPORTED, "no cache to switch off");
}

Test(user_allocator, is_refused_after_the_first_allocation)
{
    tn_scope *s = tn_scope_open(ctx);
    cr_assert_not_null(tn_ones(s, TN_INTS(3)));
    refused(tn_memory_set_allocator(ctx, TN_CPU, counting, "counting_alloc", "counting_free"), TN_E_STATE,
            "Can't swap an already initialized allocator");
    tn_scope_close(s);
    tn_memory_pool *pool;
    cr_assert_eq(tn_memory_pool_create(ctx, device, &pool), TN_OK);
    refused(tn_memory_set_allocator(ctx, device, counting, "counting_alloc", "counting_free"), TN_E_STATE,
            "reference:0 has allocations, pools or a user's allocator");
    tn_memory_pool_release(pool);
    cr_assert_eq(tn_memory_configure(ctx, device, "no_cache:True"), TN_OK);
    refused(tn_memory_set_allocator(ctx, device, counting, "counting_alloc", "counting_free"), TN_E_STATE,
            "the option no_cache is on");
}

Test(user_allocator, what_is_not_there_is_named)
{
    refused(tn_memory_set_allocator(ctx, TN_CPU, "/no/such/library.so", "a", "f"), TN_E_IO,
            "memory_set_allocator: the library cannot be loaded: /no/such/library.so");
    refused(tn_memory_set_allocator(ctx, TN_CPU, "/proc/self/maps", "a", "f"), TN_E_IO, "cannot be loaded");
    refused(tn_memory_set_allocator(ctx, TN_CPU, counting, "counting_aloc", "counting_free"), TN_E_NOT_FOUND,
            "has no function 'counting_aloc'");
    refused(tn_memory_set_allocator(ctx, TN_CPU, counting, "counting_alloc", "counting_fre"), TN_E_NOT_FOUND,
            "has no function 'counting_fre'");
    refused(tn_memory_set_allocator(ctx, TN_CPU, NULL, "a", "f"), TN_E_ARGUMENT, "library is NULL");
    refused(tn_memory_set_allocator(ctx, TN_CPU, counting, NULL, "f"), TN_E_ARGUMENT, "alloc_name is NULL");
    refused(tn_memory_set_allocator(ctx, TN_CPU, counting, "a", NULL), TN_E_ARGUMENT, "free_name is NULL");
    /* The device works as before. */
    tn_scope *s = tn_scope_open(ctx);
    cr_expect_eq(tn_item_double(s, tn_sum(s, tn_ones(s, TN_INTS(7)))), 7);
    tn_scope_close(s);
}

Test(user_allocator, nothing_given_is_out_of_memory)
{
    cr_assert_eq(setenv("COUNTING_LIMIT", "5000", 1), 0);
    cr_assert_eq(tn_memory_set_allocator(ctx, TN_CPU, counting, "counting_alloc", "counting_free"), TN_OK);
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_ones(s, TN_INTS(1000));
    cr_assert_not_null(x);
    cr_expect_null(tn_ones(s, TN_INTS(1000)));
    const tn_error *e = tn_scope_error(s);
    cr_assert_eq(e->code, TN_E_OUT_OF_MEMORY);
    cr_expect_not_null(strstr(e->message, "cpu is out of memory. Tried to allocate 3.91 KiB."), "%s",
                       e->message);
    cr_assert_not_null(e->cause);
    cr_expect_not_null(strstr(e->cause->message, "gave no memory (4000 bytes asked for)"), "%s",
                       e->cause->message);
    tn_scope_close(s);
    s = tn_scope_open(ctx); /* memory is there again */
    cr_expect_eq(tn_item_double(s, tn_sum(s, tn_ones(s, TN_INTS(1000)))), 1000);
    tn_scope_close(s);
}

Test(user_allocator, memory_that_is_not_aligned)
{
    cr_assert_eq(tn_memory_set_allocator(ctx, TN_CPU, arena_library, "odd_alloc", "odd_free"), TN_OK);
    tn_scope *s = tn_scope_open(ctx);
    cr_expect_null(tn_ones(s, TN_INTS(10)));
    cr_expect_eq(tn_scope_error(s)->code, TN_E_CONTRACT);
    cr_expect_not_null(strstr(tn_scope_error(s)->message, "(expected a multiple of 64)"), "%s",
                       tn_scope_error(s)->message);
    tn_scope_close(s);
    int *live = function_of(arena_library, "odd_live");
    cr_expect_eq(*live, 0, "what was refused goes back");
}

/* ---- A device with addresses --------------------------------------------------------------------------- */

static void set_arena(void *base, ssize_t bytes)
{
    void (*set)(void *memory, ssize_t room), *f = function_of(arena_library, "arena_set");
    memcpy(&set, &f, sizeof f);
    set(base, bytes);
}

/* The arena: a tensor of another context. */
static tn_tensor *fill_arena(int64_t bytes)
{
    cr_assert_eq(tn_context_create(NULL, &other), TN_OK);
    tn_scope *s = tn_scope_open(other);
    tn_tensor *t = tn_retain(
        tn_empty(s, TN_INTS(bytes), .dtype = TN_UINT8, .device = tn_device_parse(other, "reference:0")));
    tn_scope_close(s);
    cr_assert_not_null(t);
    set_arena((void *)(uintptr_t)tn_desc(t)->address, bytes);
    return t;
}

Test(user_allocator, serves_a_device_through_its_plugin)
{
    tn_tensor *arena = fill_arena(1 << 16);
    const ssize_t *counts = function_of(arena_library, "arena_counts");
    void *const *stream = function_of(arena_library, "arena_stream");
    cr_assert_eq(tn_memory_set_allocator(ctx, device, arena_library, "arena_alloc", "arena_free"), TN_OK,
                 "%s", tn_last_error()->message);
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *x = tn_full(s, TN_INTS(100), 2, .dtype = TN_FLOAT32, .device = device);
    cr_expect_eq(tn_item_double(s, tn_sum(s, tn_mul(s, x, x))), 400);
    cr_expect_not(tn_scope_failed(s), "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    cr_expect_geq(counts[0], 3);
    uint64_t native = 1;
    cr_assert_eq(tn_stream_native(tn_stream_current(ctx, device), &native), TN_OK);
    cr_expect_eq((uint64_t)(uintptr_t)*stream, native);
    tn_graph *graph;
    refused(tn_graph_create(ctx, device, &graph), TN_E_UNSUPPORTED, "it has no memory that stays for graphs");
    /* Another stream's use is waited for by the stream of the memory. */
    tn_stream *second;
    cr_assert_eq(tn_stream_create(ctx, device, 0, &second), TN_OK);
    cr_assert_eq(tn_record_stream(x, second), TN_OK);
    tn_scope_close(s);
    cr_expect_eq(counts[0], counts[1], "all has gone back");
    tn_stream_release(second);
    /* The arena ends: no memory. */
    s = tn_scope_open(ctx);
    cr_expect_null(tn_full(s, TN_INTS(1 << 20), 2, .dtype = TN_FLOAT32, .device = device));
    cr_expect_eq(tn_scope_error(s)->code, TN_E_OUT_OF_MEMORY);
    tn_scope_close(s);
    cr_assert_eq(tn_device_synchronize(ctx, device), TN_OK);
    tn_release(arena);
}

Test(user_allocator, an_address_that_is_not_the_devices)
{
    static _Alignas(4096) char host[1 << 16];
    const ssize_t *counts = function_of(arena_library, "arena_counts");
    set_arena(host, sizeof host);
    cr_assert_eq(tn_memory_set_allocator(ctx, device, arena_library, "arena_alloc", "arena_free"), TN_OK);
    tn_scope *s = tn_scope_open(ctx);
    cr_expect_null(tn_full(s, TN_INTS(10), 2, .dtype = TN_FLOAT32, .device = device));
    const tn_error *e = tn_scope_error(s);
    cr_expect_not_null(strstr(e->message, "which is not memory of the device"), "%s", e->message);
    tn_scope_close(s);
    cr_expect_eq(counts[0], 1);
    cr_expect_eq(counts[1], 1, "what was refused goes back");
}

/* ---- The variable -------------------------------------------------------------------------------------- */

static tn_context *context_with(const char *format, const char *library)
{
    char text[4200];
    tn_context *made = NULL;
    snprintf(text, sizeof text, format, library);
    setenv("TENON_ALLOC_CONF", text, 1);
    if (tn_context_create(NULL, &made)) return NULL;
    return made;
}

Test(user_allocator, by_the_variable)
{
    ssize_t counts[3];
    tn_context *c = context_with(
        "max_split_size_mb:64,pluggable_allocator:cpu=%s:counting_alloc:counting_free", counting);
    cr_assert_not_null(c, "%s", tn_last_error()->message);
    tn_scope *s = tn_scope_open(c);
    cr_expect_eq(tn_item_double(s, tn_sum(s, tn_ones(s, TN_INTS(1000)))), 1000);
    read_counts(counts);
    cr_expect_geq(counts[0], 4000);
    /* The other device has its own. */
    cr_expect_not_null(
        tn_full(s, TN_INTS(10), 2, .dtype = TN_FLOAT32, .device = tn_device_parse(c, "reference:0")));
    cr_expect_not(tn_scope_failed(s), "%s", tn_scope_failed(s) ? tn_scope_error(s)->message : "");
    tn_scope_close(s);
    tn_context_destroy(c);
    read_counts(counts);
    cr_expect_eq(counts[0], 0);
}

Test(user_allocator, wrong_values_of_the_variable)
{
    static const char *const wrong[] = {"pluggable_allocator:%s", "pluggable_allocator:%s:a",
                                        "pluggable_allocator:%s::f",
                                        "pluggable_allocator:%s:a:", "pluggable_allocator::a:f"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_expect_null(context_with(wrong[i], counting), "%s", wrong[i]);
        refused(tn_last_error()->code, TN_E_ARGUMENT, "(expected library:alloc_function:free_function");
    }
    /* What cannot be loaded is an error when the device is first used. */
    tn_context *c = context_with("pluggable_allocator:%s:counting_alloc:nothing", counting);
    cr_assert_not_null(c);
    tn_scope *s = tn_scope_open(c);
    cr_expect_null(tn_ones(s, TN_INTS(3)));
    cr_expect_not_null(strstr(tn_scope_error(s)->message, "has no function 'nothing'"), "%s",
                       tn_scope_error(s)->message);
    tn_scope_close(s);
    tn_context_destroy(c);
}

/* ---- Out of memory ------------------------------------------------------------------------------------- */

typedef struct seen {
    uint64_t bytes;
    char operator_name[64];
} seen;

static void see(void *user, const tn_memory_shortage *shortage)
{
    seen *s = user;
    s->bytes = shortage->largest_bytes;
    snprintf(s->operator_name, sizeof s->operator_name, "%s", shortage->largest_operator);
}

/* While a device records its history, the error names the operator that made the largest allocation. */
Test(user_allocator, the_largest_allocation_and_its_operator)
{
    seen found = {0};
    uint64_t handle;
    tn_scope *s = tn_scope_open(ctx);
    cr_assert_eq(tn_memory_observer_add(ctx, see, &found, &handle), TN_OK);
    cr_assert_eq(tn_memory_set_limit(ctx, device, 64 << 20), TN_OK);
    for (int recorded = 1; recorded >= 0; recorded--) {
        tn_scope *inner = tn_scope_open_child(s, NULL);
        cr_assert_eq(tn_memory_record_history(ctx, device, recorded ? 100 : 0, 8), TN_OK);
        tn_tensor *x = tn_full(inner, TN_INTS(1 << 20), 1, .dtype = TN_FLOAT32, .device = device);
        tn_tensor *y = tn_cat(inner, TN_TENSORS(x, x, x));
        cr_assert_not_null(y);
        cr_expect_null(tn_cat(inner, TN_TENSORS(y, y, y, y, y)));
        const char *text = tn_scope_error(inner)->message;
        cr_expect_not_null(strstr(text, recorded ? " The largest allocation is 12.00 MiB, made by aten::cat."
                                                 : " The largest allocation is 12.00 MiB."),
                           "%s", text);
        cr_expect_eq(found.bytes, 12 << 20);
        cr_expect_str_eq(found.operator_name, recorded ? "aten::cat" : "");
        tn_scope_close(inner);
        tn_scope_clear(s);
    }
    tn_scope_close(s);
}

/* Small tensors of the CPU, which a cache counts late, are in the sum as in the largest allocation. */
Test(user_allocator, an_error_of_the_cpu_counts_small_tensors)
{
    tn_scope *s = tn_scope_open(ctx);
    cr_assert_eq(tn_memory_set_limit(ctx, TN_CPU, 64 << 20), TN_OK);
    cr_assert_not_null(tn_ones(s, TN_INTS(4, 4), .dtype = TN_FLOAT32, .device = TN_CPU));
    cr_expect_null(tn_empty(s, TN_INTS(1 << 30), .dtype = TN_FLOAT32, .device = TN_CPU));
    const char *text = tn_scope_error(s) ? tn_scope_error(s)->message : "no error";
    cr_expect_not_null(strstr(text, " Tried to allocate 4.00 GiB."), "%s", text);
    cr_expect_not_null(strstr(text, " 64 bytes is allocated by tensors"), "%s", text);
    cr_expect_not_null(strstr(text, "; the limit set for this program is 64.00 MiB."), "%s", text);
    /* With AddressSanitizer each block is an allocation of its own, and there is no list. */
#if TN_SANITIZER != TN_SANITIZER_ADDRESS
    cr_expect_not_null(strstr(text, " The largest allocation is 64 bytes."), "%s", text);
#endif
    tn_scope_close(s);
}

/* Below the memory of the machine, else it says nothing; sanitizers need more address space than that. */
static void limit_the_process(int which)
{
    uint64_t unused, total;
    struct rlimit limit;
    cr_assert_eq(tn_device_memory(ctx, TN_CPU, &unused, &total), TN_OK);
    cr_assert_eq(getrlimit(which, &limit), 0);
    limit.rlim_cur = total / 2;
    cr_assert_eq(setrlimit(which, &limit), 0);
}

Test(user_allocator, limits_of_the_process_are_named)
{
    if (TN_SANITIZER) return;
    tn_scope *s = tn_scope_open(ctx);
    cr_assert_eq(tn_memory_set_limit(ctx, TN_CPU, 64 << 20), TN_OK);
    tn_empty(s, TN_INTS(1 << 30), .dtype = TN_FLOAT32, .device = TN_CPU);
    const char *text = tn_scope_failed(s) ? tn_scope_error(s)->message : "no error";
    cr_expect_null(strstr(text, "The process may have"), "%s", text);
    tn_scope_clear(s);
    limit_the_process(RLIMIT_AS);
    limit_the_process(RLIMIT_DATA);
    tn_empty(s, TN_INTS(1 << 30), .dtype = TN_FLOAT32, .device = TN_CPU);
    text = tn_scope_failed(s) ? tn_scope_error(s)->message : "no error";
    cr_expect_not_null(strstr(text, " is free. The process may have at most "), "%s", text);
    cr_expect_not_null(strstr(text, " of address space (RLIMIT_AS). The process may have at most "), "%s",
                       text);
    cr_expect_not_null(strstr(text, " of data (RLIMIT_DATA)."), "%s", text);
    tn_scope_close(s);
}

/* ---- Segments that grow -------------------------------------------------------------------------------- */

TestSuite(segments, .init = open_context, .fini = close_context);

#define ELEMENTS (2 << 20) /* 8 MiB of float32 */

static double sum_of(tn_tensor *t)
{
    tn_scope *s = tn_scope_open(ctx);
    double sum = tn_item_double(s, tn_sum(s, t));
    tn_scope_close(s);
    return sum;
}

static tn_tensor *filled(double value)
{
    tn_scope *s = tn_scope_open(ctx);
    tn_tensor *t = tn_retain(tn_full(s, TN_INTS(ELEMENTS), value, .device = device));
    cr_assert_not(tn_scope_failed(s), "%s", tn_scope_error(s)->message);
    tn_scope_close(s);
    return t;
}

/* Growing and cutting the end change nothing in tensors that stay, and there is one segment of them. */
Test(segments, keep_what_they_hold)
{
    tn_tensor *t[7];
    int64_t segments, reserved;
    cr_assert_eq(tn_memory_configure(ctx, device, "expandable_segments:True"), TN_OK);
    for (int i = 0; i < 7; i++) t[i] = filled(i + 1);
    for (int i = 0; i < 7; i++) cr_expect_eq(sum_of(t[i]), (i + 1.0) * ELEMENTS);
    cr_assert_eq(tn_memory_get_stat(ctx, device, "segment.large_pool.current", &segments), TN_OK);
    cr_expect_eq(segments, 1);
    for (int i = 3; i < 7; i++) tn_release(t[i]);
    cr_assert_eq(tn_memory_empty_cache(ctx, device), TN_OK);
    cr_assert_eq(tn_memory_get_stat(ctx, device, "reserved_bytes.large_pool.current", &reserved), TN_OK);
    cr_expect_eq(reserved, 24 << 20);
    for (int i = 0; i < 3; i++) cr_expect_eq(sum_of(t[i]), (i + 1.0) * ELEMENTS);
    for (int i = 3; i < 7; i++) t[i] = filled(-i);
    for (int i = 3; i < 7; i++) cr_expect_eq(sum_of(t[i]), -(double)i * ELEMENTS);
    for (int i = 0; i < 3; i++) cr_expect_eq(sum_of(t[i]), (i + 1.0) * ELEMENTS);
    for (int i = 0; i < 7; i++) tn_release(t[i]);
    cr_assert_eq(tn_memory_empty_cache(ctx, device), TN_OK);
    cr_assert_eq(tn_memory_get_stat(ctx, device, "reserved_bytes.all.current", &reserved), TN_OK);
    cr_expect_eq(reserved, 0);
    cr_expect_eq(tn_memory_configure(ctx, TN_CPU, "expandable_segments:True"), TN_E_UNSUPPORTED);
}

/* Tensors of 1 MiB share segments of 2 MiB, two by two. */
Test(segments, of_a_pool_hold_two_small_tensors)
{
    tn_memory_pool *pool;
    tn_memory_stats stats = {.size = sizeof stats};
    const uint64_t segments[] = {1, 1, 2};
    tn_scope *s = tn_scope_open(ctx);
    cr_assert_eq(tn_memory_pool_create(ctx, device, &pool), TN_OK);
    cr_assert_eq(tn_memory_pool_begin(pool), TN_OK);
    for (int i = 0; i < 3; i++) {
        tn_empty(s, TN_INTS((1 << 20) / 4), .dtype = TN_FLOAT32, .device = device);
        cr_assert_eq(tn_memory_pool_get_stats(pool, &stats), TN_OK);
        cr_expect_eq(stats.segments, segments[i], "%d: %llu", i, (unsigned long long)stats.segments);
        cr_expect_eq(stats.reserved_bytes, segments[i] << 21);
    }
    cr_assert_eq(tn_memory_pool_end(pool), TN_OK);
    cr_expect_eq(tn_scope_close(s), TN_OK);
    tn_memory_pool_release(pool);
}
