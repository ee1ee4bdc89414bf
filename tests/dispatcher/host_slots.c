/* SPDX-License-Identifier: Apache-2.0 */
/* What the host offers a kernel, and which rows it passes over, on the CPU and the reference device. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/plugin.h>
#include <tenon/ops.h>
#include <tenon/tenon.h>
#include "support.h"

TestSuite(host_slots, .init = open_context, .fini = close_context);

/* ---- Kernels that tell what they saw --------------------------------------------------------------------- */

static struct {
    int runs;
    int failures; /* how often the kernel is to say that it is out of memory */
    uint32_t flags, op;
    char name[64];
    const void *data;
    tn_storage_facts storage;
    int32_t (*look)(const tn_call *call);
} seen;

static int32_t run(void *self, const tn_call *call)
{
    seen.runs++;
    seen.flags = call->flags;
    seen.op = call->op;
    seen.data = call->data;
    snprintf(seen.name, sizeof seen.name, "%s", call->name);
    if (seen.failures-- > 0)
        return call->host->error(call->host->context, TN_E_OUT_OF_MEMORY, "no memory today");
    return seen.look ? seen.look(call) : TN_OK;
}

#define SEEN "test::seen(Tensor x) -> Tensor"

static uint32_t define_seen(void)
{
    uint32_t op = 0;
    const tn_operator_def def = {.size = sizeof def, .schema = SEEN};
    memset(&seen, 0, sizeof seen);
    cr_assert_eq(tn_operator_define(ctx, &def, &op), TN_OK);
    return op;
}

static void add_seen_row(tn_kernel_row row)
{
    row.size = sizeof row;
    row.schema = SEEN;
    row.run = run;
    row.strides = TN_STRIDES_ANY;
    cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &row, 1), TN_OK);
}

static int32_t call_seen(uint32_t op, tn_tensor *x)
{
    tn_value arg = tn_value_tensor(x), out = tn_value_none();
    tn_scope_call(s, op, &arg, 1, &out, 1);
    int32_t status = tn_scope_failed(s);
    return status;
}

Test(host_slots, the_call_names_its_operator)
{
    uint32_t op = define_seen();
    add_seen_row((tn_kernel_row){.flags = 0});
    cr_assert_eq(call_seen(op, tn_ones(s, TN_INTS(2))), TN_OK);
    cr_assert_eq(seen.op, op);
    cr_assert_str_eq(seen.name, "test::seen");
}

Test(host_slots, a_kernel_without_memory_is_called_once_more)
{
    uint32_t op = define_seen();
    add_seen_row((tn_kernel_row){.flags = 0});
    seen.failures = 1;
    cr_assert_eq(call_seen(op, tn_ones(s, TN_INTS(2))), TN_OK);
    cr_assert_eq(seen.runs, 2);
    seen.failures = 5;
    seen.runs = 0;
    cr_assert_eq(call_seen(op, tn_ones(s, TN_INTS(2))), TN_E_OUT_OF_MEMORY);
    cr_assert_eq(seen.runs, 2);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "no memory today"));
}

/* Adds 1 to x at once, then finds no memory: in which way, `data` says. */
static int32_t grow(void *self, const tn_call *call)
{
    const char *way = call->data;
    float *x = call->args[0].as.tensor ? tn_tensor_data(call->args[0].as.tensor) : NULL;
    seen.runs++;
    x[0] += 1;
    if (!strcmp(way, "says so")) call->host->work_queued(call);
    if (!strcmp(way, "workspace")) {
        const tn_memory_request request = {.size = sizeof request, .bytes = 1ull << 30};
        tn_memory memory = {.size = sizeof memory};
        return call->host->workspace(call, &request, &memory);
    }
    return call->host->error(call->host->context, TN_E_OUT_OF_MEMORY, "no memory any more");
}

/* Work in place must not be done twice. */
Test(host_slots, a_kernel_that_has_queued_work_is_not_called_again)
{
    static const struct {
        const char *way;
        int runs;
    } cases[] = {{"says so", 1}, {"workspace", 1}, {"says nothing", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char schema[64];
        uint32_t op = 0;
        snprintf(schema, sizeof schema, "test::grow%zu(Tensor(a!) x) -> Tensor(a!)", i);
        const tn_operator_def def = {.size = sizeof def, .schema = schema};
        tn_kernel_row row = {.size = sizeof row,
                             .schema = schema,
                             .run = grow,
                             .strides = TN_STRIDES_ANY,
                             .data = cases[i].way};
        cr_assert_eq(tn_operator_define(ctx, &def, &op), TN_OK);
        cr_assert_eq(tn_kernels_add(ctx, "cpu", NULL, &row, 1), TN_OK);
        tn_tensor *x = tn_zeros(s, TN_INTS(1));
        cr_assert_eq(tn_memory_set_limit(ctx, TN_CPU, 256 << 20), TN_OK);
        seen.runs = 0;
        cr_assert_eq(call_seen(op, x), TN_E_OUT_OF_MEMORY, "%s", cases[i].way);
        cr_expect_eq(tn_scope_error(s)->error_class, TN_CLASS_OUT_OF_MEMORY);
        tn_scope_clear(s);
        cr_expect_eq(seen.runs, cases[i].runs, "%s: %d runs", cases[i].way, seen.runs);
        cr_expect_eq(tn_item_double(s, x), cases[i].runs, "%s", cases[i].way);
    }
}

/* ---- Rows that are passed over ---------------------------------------------------------------------------- */

Test(host_slots, flags_of_calls_bind_or_permit)
{
    static const char first[] = "first", second[] = "second";
    uint32_t op = define_seen();
    tn_tensor *x = tn_ones(s, TN_INTS(2));
    add_seen_row((tn_kernel_row){.priority = 1, .data = first});
    add_seen_row((tn_kernel_row){.priority = 0, .data = second, .honours = 4});
    tn_set_call_flags(ctx, TN_CALL_ALLOW_TF32 | TN_CALL_BENCHMARK, TN_CALL_ALLOW_TF32 | TN_CALL_BENCHMARK);
    cr_assert_eq(call_seen(op, x), TN_OK);
    cr_assert_eq(seen.data, first, "a flag that permits passes no row over");
    cr_assert_eq(seen.flags, TN_CALL_ALLOW_TF32 | TN_CALL_BENCHMARK);
    tn_set_call_flags(ctx, 4, 4 | TN_CALL_BENCHMARK);
    cr_assert_eq(call_seen(op, x), TN_OK);
    cr_assert_eq(seen.data, second, "the row that honours the flag");
    cr_assert_eq(seen.flags, TN_CALL_ALLOW_TF32 | 4);
    cr_assert_eq(tn_get_call_flags(ctx), TN_CALL_ALLOW_TF32 | 4);
    tn_set_call_flags(ctx, 8, 12);
    cr_assert_neq(call_seen(op, x), TN_OK, "no row honours the flag");
    tn_set_call_flags(ctx, 0, UINT32_MAX);
    tn_set_deterministic(ctx, 1);
    cr_assert_eq(tn_get_call_flags(ctx), TN_CALL_DETERMINISTIC);
    cr_assert_eq(tn_get_deterministic(ctx), 1);
}

Test(host_slots, a_row_may_limit_the_rank)
{
    static const char narrow[] = "narrow", wide[] = "wide";
    uint32_t op = define_seen();
    add_seen_row((tn_kernel_row){.priority = 1, .data = narrow, .max_rank = 2});
    add_seen_row((tn_kernel_row){.priority = 0, .data = wide});
    cr_assert_eq(call_seen(op, tn_ones(s, TN_INTS(2, 3))), TN_OK);
    cr_assert_eq(seen.data, narrow);
    cr_assert_eq(call_seen(op, tn_ones(s, TN_INTS(2, 3, 4))), TN_OK);
    cr_assert_eq(seen.data, wide);
}

Test(host_slots, a_row_may_index_with_32_bits)
{
    static const char small[] = "small", large[] = "large";
    uint32_t op = define_seen();
    add_seen_row((tn_kernel_row){.priority = 1, .data = small, .flags = TN_ROW_INDEX32});
    add_seen_row((tn_kernel_row){.priority = 0, .data = large});
    cr_assert_eq(call_seen(op, tn_ones(s, TN_INTS(1000))), TN_OK);
    cr_assert_eq(seen.data, small);
    cr_assert_eq(call_seen(op, far_elements()), TN_OK);
    cr_assert_eq(seen.data, large);
}

/* ---- Slots ------------------------------------------------------------------------------------------------- */

static int32_t look_at_storage(const tn_call *call)
{
    seen.storage = (tn_storage_facts){.size = sizeof seen.storage};
    return call->host->storage(call, call->args[0].as.tensor, &seen.storage);
}

Test(host_slots, a_storage_has_an_identity_and_a_version)
{
    uint32_t op = define_seen();
    add_seen_row((tn_kernel_row){.flags = 0});
    seen.look = look_at_storage;
    tn_tensor *x = tn_ones(s, TN_INTS(4)), *view = tn_narrow(s, x, 0, 1, 2);
    cr_assert_eq(call_seen(op, x), TN_OK);
    const tn_storage_facts before = seen.storage;
    cr_assert_neq(before.identity, 0);
    cr_assert_eq(before.bytes, 16);
    cr_assert_eq(call_seen(op, view), TN_OK);
    cr_assert_eq(seen.storage.identity, before.identity);
    cr_assert_eq(seen.storage.version, before.version);
    tn_add_scalar_(s, x, 1);
    cr_assert_eq(call_seen(op, x), TN_OK);
    cr_assert_eq(seen.storage.identity, before.identity);
    cr_assert_neq(seen.storage.version, before.version);
    /* Memory that is used again has another identity. */
    tn_drop(s, view);
    tn_drop(s, x);
    for (int i = 0; i < 20; i++) {
        tn_tensor *other = tn_ones(s, TN_INTS(4));
        cr_assert_eq(call_seen(op, other), TN_OK);
        cr_assert_neq(seen.storage.identity, before.identity);
        tn_drop(s, other);
    }
}

static int32_t look_at_memory(const tn_call *call)
{
    const tn_host *host = call->host;
    const tn_memory_request request = {.size = sizeof request, .bytes = 1 << 20, .alignment = 65536};
    const tn_memory_request flagged = {.size = sizeof flagged, .bytes = 16, .flags = 1};
    const tn_memory_request odd = {.size = sizeof odd, .bytes = 16, .alignment = 48};
    tn_memory memory = {.size = sizeof memory}, scratch = {.size = sizeof scratch};
    uint64_t freed = 1;
    int32_t status = host->memory_alloc(host->context, call->device, &request, &memory);
    if (!status) status = host->workspace(call, &request, &scratch);
    if (status) return status;
    cr_assert_eq((uintptr_t)memory.host % 65536, 0);
    cr_assert_eq((uintptr_t)scratch.host % 65536, 0);
    cr_assert_eq(memory.address, (uint64_t)(uintptr_t)memory.host);
    cr_assert_neq(memory.host, scratch.host);
    memset(memory.host, 7, 1 << 20);
    memset(scratch.host, 8, 1 << 20);
    cr_assert_eq(((char *)memory.host)[(1 << 20) - 1], 7);
    cr_assert_eq(host->workspace(call, &flagged, &scratch), TN_E_UNKNOWN_FIELD);
    cr_assert_eq(host->workspace(call, &odd, &scratch), TN_E_ARGUMENT);
    cr_assert_eq(host->memory_alloc(host->context, &seen, &request, &memory), TN_E_DEVICE);
    host->memory_free(host->context, call->device, &memory);
    cr_assert_eq(host->reclaim(host->context, call->device, &freed), TN_OK);
    return TN_OK;
}

Test(host_slots, memory_of_the_device)
{
    tn_memory_stats before = {.size = sizeof before}, after = before;
    uint32_t op = define_seen();
    add_seen_row((tn_kernel_row){.flags = 0});
    seen.look = look_at_memory;
    tn_memory_get_stats(ctx, TN_CPU, &before);
    cr_assert_eq(call_seen(op, tn_ones(s, TN_INTS(1))), TN_OK, "%s", tn_scope_error(s)->message);
    tn_memory_get_stats(ctx, TN_CPU, &after);
    cr_assert_leq(after.allocated_bytes, before.allocated_bytes + 4096);
}

static int32_t look_at_folder(const tn_call *call)
{
    const tn_host *host = call->host;
    char path[512], small[8];
    struct stat found;
    cr_assert_eq(host->cache_folder(host->context, "acme", path, sizeof path), TN_OK);
    cr_assert_eq(strncmp(path, getenv("XDG_CACHE_HOME"), strlen(getenv("XDG_CACHE_HOME"))), 0);
    cr_assert_not_null(strstr(path, "/tenon/plugins/acme"));
    cr_assert_eq(stat(path, &found), 0);
    cr_assert_eq(found.st_mode & 0777, 0700);
    cr_assert_eq(host->cache_folder(host->context, "acme", small, sizeof small), TN_E_IO);
    cr_assert_eq(host->cache_folder(host->context, "../acme", path, sizeof path), TN_E_ARGUMENT);
    cr_assert_eq(host->cache_folder(host->context, "", path, sizeof path), TN_E_ARGUMENT);
    setenv("XDG_CACHE_HOME", "/proc/nothing/here", 1);
    cr_assert_eq(host->cache_folder(host->context, "acme", path, sizeof path), TN_E_IO);
    return TN_OK;
}

Test(host_slots, a_folder_for_compiled_code)
{
    char folder[] = "/tmp/tenon-cache-XXXXXX", command[64];
    uint32_t op = define_seen();
    cr_assert_not_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    add_seen_row((tn_kernel_row){.flags = 0});
    seen.look = look_at_folder;
    cr_assert_eq(call_seen(op, tn_ones(s, TN_INTS(1))), TN_OK, "%s", tn_scope_error(s)->message);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
}

static int32_t look_at_dtypes(const tn_call *call)
{
    tn_dtype six = call->host->intern_dtype(call->host->context, "acme_float6", 6);
    cr_assert_eq(TN_DTYPE_CODE(six), TN_CODE_VENDOR);
    return TN_OK;
}

Test(host_slots, dtypes_of_vendors)
{
    uint32_t op = define_seen();
    add_seen_row((tn_kernel_row){.flags = 0});
    seen.look = look_at_dtypes;
    cr_assert_eq(call_seen(op, tn_ones(s, TN_INTS(1))), TN_OK);
    tn_dtype six = tn_dtype_intern(ctx, "acme_float6", 6), four = tn_dtype_intern(ctx, "acme_int4", 4);
    cr_assert_eq(TN_DTYPE_BITS(six), 6);
    cr_assert_eq(TN_DTYPE_CODE(four), TN_CODE_VENDOR + 1);
    cr_assert_str_eq(tn_dtype_interned(ctx, six), "acme_float6");
    cr_assert_str_eq(tn_dtype_interned(ctx, TN_FLOAT32), "float32");
    cr_assert_null(tn_dtype_interned(ctx, TN_DTYPE(TN_CODE_VENDOR + 2, 4)));
    cr_assert_eq(tn_dtype_intern(ctx, "acme_float6", 8), 0);
    cr_assert_not_null(strstr(tn_last_error()->message, "acme_float6 has 6 bits (got 8)"));
    cr_assert_eq(tn_dtype_intern(ctx, "float32", 32), 0);
    cr_assert_eq(tn_dtype_intern(ctx, "wide", 256), 0);
    /* Elements of several lanes are packed, then rounded up to bytes. */
    cr_assert_eq(tn_dtype_bytes((six & 0xffffu) | 4u << 16), 3);
    cr_assert_eq(tn_dtype_bytes((four & 0xffffu) | 2u << 16), 1);
    cr_assert_eq(tn_dtype_bytes(TN_FLOAT64), 8);
}

/* ---- Errors of the device ---------------------------------------------------------------------------------- */

Test(host_slots_alone, blocking_calls_report_their_own_late_errors)
{
    setenv("TENON_BLOCKING", "1", 1);
    open_context();
    tn_device d = tn_device_parse(ctx, "reference:0");
    tn_tensor *x = tn_ones(s, TN_INTS(4), .device = d);
    tn_tensor *index = tn_from_data(s, TN_INT64, TN_INTS(1), &(int64_t){9}, d);
    cr_assert_null(tn_gather(s, x, 0, index));
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "gather"), "%s", tn_scope_error(s)->message);
    close_context();
    setenv("TENON_BLOCKING", "perhaps", 1);
    cr_assert_eq(tn_context_create(NULL, &ctx), TN_E_ARGUMENT);
    cr_assert_not_null(strstr(tn_last_error()->message, "TENON_BLOCKING is 'perhaps' (expected 0 or 1)"));
}

Test(host_slots_alone, a_lost_device_is_refused_and_others_go_on)
{
    setenv("TENON_REFERENCE_LOSE", "3", 1);
    open_context();
    tn_device d = tn_device_parse(ctx, "reference:0");
    cr_assert_eq(tn_device_status(ctx, d), TN_OK);
    tn_tensor *x = tn_ones(s, TN_INTS(4), .device = d);
    for (int i = 0; i < 5; i++) x = tn_add(s, x, x);
    int32_t status = tn_scope_failed(s) ? tn_scope_failed(s) : tn_device_synchronize(ctx, d);
    cr_assert_eq(status, TN_E_DEVICE_LOST);
    tn_scope_clear(s);
    cr_assert_null(tn_ones(s, TN_INTS(4), .device = d));
    cr_assert_not_null(
        strstr(tn_scope_error(s)->message, "device reference:0 is lost, and its tensors with it: "), "%s",
        tn_scope_error(s)->message);
    tn_scope_clear(s);
    cr_assert_eq(tn_device_status(ctx, d), TN_E_DEVICE_LOST);
    cr_assert_eq(tn_item_double(s, tn_sum(s, tn_ones(s, TN_INTS(4)))), 4);
    close_context();
}

/* ---- Flags that no row honours ------------------------------------------------------------------------------- */

/* Then not even a copy or a fill has a kernel, and the text says for which dtypes. */
Test(host_slots, copies_under_a_flag_that_no_row_honours)
{
    tn_tensor *x = tn_ones(s, TN_INTS(2, 3)), *whole = tn_zeros(s, TN_INTS(2, 3), .dtype = TN_INT16);
    tn_set_call_flags(ctx, 4, 4);
    cr_expect_null(tn_copy_(s, whole, x));
    cr_expect_eq(tn_scope_failed(s), TN_E_UNSUPPORTED);
    cr_expect_not_null(
        strstr(tn_scope_error(s)->message, "copy_: no kernel from float32 to int16 on the CPU"), "%s",
        tn_scope_error(s)->message);
    tn_scope_clear(s);
    cr_expect_null(tn_fill_scalar_(s, whole, 1));
    cr_expect_eq(tn_scope_failed(s), TN_E_UNSUPPORTED);
    cr_expect_not_null(strstr(tn_scope_error(s)->message, "fill_: no kernel for int16 on the CPU"), "%s",
                       tn_scope_error(s)->message);
    tn_scope_clear(s);
    tn_set_call_flags(ctx, 0, 4);
    cr_expect_eq(tn_item_double(s, tn_sum(s, tn_copy_(s, whole, x))), 6);
}
