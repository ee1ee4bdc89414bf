/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each scenario once more with the n-th allocation of the context failing, for n = 1, 2, ... until none fails:
 * it reports an error or does without, nothing leaks, and nothing crashes. These are the parts of the
 * dispatcher that ordinary calls do not reach: definitions, rows, observers, traces, profiles, fallbacks, libraries.
 */
#include <stdio.h>
#include <stdlib.h>
#include "../plugins/slots.h"
#include <string.h>
#include <tenon/plugin.h>
#include <tenon/trace.h>
#include "../torture/counting.h"
#include "support.h"

static int32_t fill_with_sum(void *self, const tn_call *call)
{
    return TN_OK;
}

static int define_operators(void)
{
    static const char *const texts[] = {"test::one(Tensor x, float[2] f=0.5) -> Tensor",
                                        "test::two(Tensor x) -> Tensor"};
    const tn_kernel_row rows[] = {{.size = sizeof rows[0],
                                   .strides = TN_STRIDES_ANY,
                                   .schema = texts[1],
                                   .run = fill_with_sum}, /* waits */
                                  {.size = sizeof rows[0],
                                   .strides = TN_STRIDES_ANY,
                                   .schema = "test::one(Tensor x) -> Tensor",
                                   .run = fill_with_sum},
                                  {.size = sizeof rows[0],
                                   .strides = TN_STRIDES_ANY,
                                   .schema = "aten::gelu(Tensor self) -> Tensor",
                                   .run = fill_with_sum}};
    uint32_t numbers[2];
    for (int i = 0; i < 2; i++) {
        const tn_operator_def def = {.size = sizeof def, .schema = texts[i]};
        if (i == 1 && tn_kernels_add(ctx, "cpu", NULL, rows, 3)) return 0;
        if (tn_operator_define(ctx, &def, &numbers[i])) return 0;
    }
    tn_tensor *x = tn_ones(s, TN_INTS(4));
    for (int i = 0; x && i < 2; i++) {
        if (!CALL(numbers[i], tn_value_tensor(x))) return 0;
    }
    tn_operator_info info = {.size = sizeof info};
    return x && !tn_inspect_operator_by_number(ctx, TN_OP_ADD, &info) && !tn_namespace_remove(ctx, "test");
}

static void enter(void *user, const tn_call_info *info, uint64_t *token) {}

static int observe(void)
{
    const tn_observer o = {.size = sizeof o, .enter = enter};
    uint64_t handles[3];
    int n = 0;
    while (n < 3 && !tn_observer_add(ctx, &o, &handles[n])) n++;
    tn_relu(s, tn_ones(s, TN_INTS(4)));
    for (int i = 0; i < n; i++) tn_observer_remove(ctx, handles[i]);
    return n == 3 && !tn_scope_failed(s);
}

static int trace(void)
{
    tn_tensor *x = tn_ones(s, TN_INTS(4)), *y = NULL, *out = NULL;
    tn_call_trace *t = x ? tn_call_trace_begin(ctx, TN_TENSORS(x)) : NULL;
    if (!t) return 0;
    y = tn_cat(s, TN_TENSORS(tn_neg(s, x), tn_add_scalar(s, x, TN_SCALAR(2))));
    int32_t status = tn_call_trace_end(t, TN_TENSORS(y));
    if (!status) status = tn_call_trace_run(s, t, TN_TENSORS(x), &out);
    tn_call_trace_release(t);
    return !status && out && tn_item_double(s, tn_sum(s, out)) == 8;
}

static int32_t add_one(void *self, const tn_call *call)
{
    float *to = tn_tensor_data(call->outs[0].as.tensor);
    const tn_value *list = &call->args[0];
    to[0] = 0;
    for (uint32_t i = 0; i < list->count; i++) to[0] += *(float *)tn_tensor_data(list->as.tensors[i]);
    return TN_OK;
}

static int32_t infer_one(void *self, const tn_call *call)
{
    const int64_t one = 1;
    return slot_define(call, call->host, 0, TN_FLOAT32, 1, &one,
                       tn_tensor_device(call->args[0].as.tensors[0]));
}

static int fall_back(void)
{
    const char *schema = "test::listed(Tensor[] list) -> Tensor";
    const tn_operator_def def = {.size = sizeof def, .schema = schema, .infer = infer_one};
    const tn_kernel_row row = {
        .size = sizeof row, .strides = TN_STRIDES_ANY, .schema = schema, .run = add_one};
    uint32_t op;
    tn_device device = tn_device_parse(ctx, "reference:0");
    if (!device || tn_operator_define(ctx, &def, &op) || tn_kernels_add(ctx, "cpu", NULL, &row, 1)) return 0;
    tn_tensor *x = tn_full(s, TN_INTS(3), TN_SCALAR(2), .dtype = TN_FLOAT32, .device = device);
    tn_tensor *y = tn_full(s, TN_INTS(3), TN_SCALAR(3), .dtype = TN_FLOAT32, .device = device),
              *list[] = {x, y};
    if (!x || !y) return 0;
    tn_tensor *sum = CALL(op, tn_value_tensors(list, 2));
    return sum && tn_item_double(s, sum) == 5;
}

static int autocast_a_list(void)
{
    tn_scope_options options = {.size = sizeof options, .autocast = TN_SCOPE_AUTOCAST_ON};
    tn_scope *outer = s;
    tn_tensor *x = tn_ones(s, TN_INTS(2, 2)), *y = NULL;
    s = tn_scope_open_with(ctx, &options);
    if (s) {
        y = tn_cat(s, TN_TENSORS(tn_mm(s, x, x), x));
        y = y ? tn_scope_return(s, y) : NULL;
        tn_scope_close(s);
    }
    s = outer;
    if (y) tn_scope_adopt(s, y);
    return y && tn_item_double(s, tn_sum(s, y)) == 12;
}

static int results_of_every_kind(void)
{
    tn_tensor *x = tn_reshape(s, tn_arange(s, 6, .dtype = TN_COMPLEX64), TN_INTS(2, 3));
    tn_tensors parts = tn_split(s, x, 1);
    tn_tensor *wide = tn_ones(s, TN_INTS(2), .dtype = TN_FLOAT64), *sum = NULL;
    tn_tensor *given = tn_empty(s, TN_INTS(2), .dtype = TN_FLOAT32);
    if (given && wide) sum = tn_add_out(s, wide, wide, given); /* through a temporary */
    return parts.count == 2 && sum && tn_item_double(s, tn_sum(s, given)) == 4;
}

static int profile(void)
{
    const tn_profile_options o = {.size = sizeof o, .flags = TN_PROFILE_SHAPES | TN_PROFILE_MEMORY};
    tn_profile *p = NULL;
    tn_profile_summary all = {.size = sizeof all};
    tn_device d = tn_device_choose(ctx, "reference:0", NULL);
    if (tn_profile_begin(ctx, &o)) return 0;
    tn_profile_range_begin(ctx, "all");
    tn_exp(s, tn_ones(s, TN_INTS(4)));
    if (!(d & TN_DEVICE_MISSING)) tn_exp(s, tn_ones(s, TN_INTS(4), .device = d));
    tn_profile_range_end(ctx);
    if (tn_profile_end(ctx, &p)) return 0;
    int32_t status = tn_profile_write(p, "/dev/null");
    tn_profile_get_summary(p, &all);
    tn_profile_release(p);
    return !status && !tn_scope_failed(s) && !(d & TN_DEVICE_MISSING) && !all.dropped && !all.unmeasured;
}

/* Results of composites: a list, and a complex number. */
static int results_of_composites(void)
{
    const double pair[] = {1.5, -2};
    tn_tensor *x = tn_arange(s, 6, .dtype = TN_FLOAT32);
    tn_tensor *z = tn_full(s, TN_NO_INTS, tn_value_complex(pair), .dtype = TN_COMPLEX128);
    if (!x || !z) return 0;
    tn_tensors parts = tn_chunk(s, x, 3);
    tn_value arg = tn_value_tensor(z), item = tn_value_none(), mine = tn_value_none();
    if (tn_scope_call(s, TN_OP_ITEM, &arg, 1, &item, 1)) return 0;
    if (tn_call_operator(ctx, TN_OP_ITEM, &arg, 1, &mine, 1, NULL)) return 0;
    int same = item.as.floats[1] == -2 && mine.as.floats[0] == 1.5;
    tn_value_release(ctx, &mine);
    return same && parts.count == 3 && tn_item_double(s, tn_sum(s, parts.data[2])) == 9;
}

/* Arguments that are copied before a kernel runs, and results that are copied after it. */
static int copies_around_kernels(void)
{
    tn_device d = tn_device_parse(ctx, "reference:0"), other = tn_device_parse(ctx, "reference:1");
    tn_tensor *x = tn_full(s, TN_INTS(2, 3), 2, .dtype = TN_COMPLEX64, .device = d);
    tn_tensor *turned = tn_t(s, tn_conj(s, x)), *one = tn_ones(s, TN_NO_INTS, .dtype = TN_COMPLEX128);
    tn_tensor *sum = tn_add(s, turned, one), *there = NULL, *mask = NULL, *filled = NULL;
    tn_tensor *here = tn_zeros(s, TN_INTS(3, 2), .dtype = TN_COMPLEX128, .device = other);
    if (here && sum) there = tn_copy_(s, tn_t(s, tn_t(s, here)), sum);
    mask = tn_ones(s, TN_INTS(4, 1, 1), .dtype = TN_BOOL, .device = d);
    if (mask) filled = tn_masked_fill_scalar(s, tn_real(s, x), mask, 3); /* broadcasts: 4 x 2 x 3 */
    if (x) tn_fill_scalar_(s, tn_conj(s, x), 5);
    if (!there || !filled) return 0;
    return tn_item_double(s, tn_real(s, tn_sum(s, there))) == 18 &&
           tn_item_double(s, tn_sum(s, filled)) == 72;
}

static void forget(void *pointer) {}

/* out = 2 x, with the host's help; the second argument is in host memory. */
static int32_t twice(void *self, const tn_call *call)
{
    const tn_memory_request request = {.size = sizeof request, .bytes = 1000};
    tn_memory scratch = {.size = sizeof scratch};
    tn_scope *own = call->host->call_scope(call);
    int32_t status = call->host->workspace(call, &request, &scratch);
    if (!status) status = call->host->keep_alive(call, call->outs, forget);
    if (status) return status;
    const float *factor = tn_tensor_data(call->args[1].as.tensor);
    tn_tensor *product = tn_mul_scalar(own, call->args[0].as.tensor, (double)factor[0]);
    if (product) tn_copy_(own, call->outs[0].as.tensor, product);
    return TN_OK; /* what the scope met is the result of the kernel */
}

static int kernels_with_a_scope(void)
{
    static const tn_row_argument places[] = {{.strides = TN_STRIDES_ANY}, {.place = TN_PLACE_HOST}};
    const char *schema = "test::twice(Tensor x, Tensor factor) -> Tensor";
    const tn_operator_def def = {.size = sizeof def, .schema = schema};
    const tn_kernel_row row = {.size = sizeof row,
                               .schema = schema,
                               .run = twice,
                               .flags = TN_ROW_SCOPE,
                               .arguments = places,
                               .n_arguments = 2};
    uint32_t op;
    tn_device d = tn_device_parse(ctx, "reference:0");
    if (tn_operator_define(ctx, &def, &op) || tn_kernels_add(ctx, "reference", NULL, &row, 1)) return 0;
    tn_tensor *x = tn_full(s, TN_INTS(3), 4, .dtype = TN_FLOAT32, .device = d);
    tn_tensor *factor = tn_full(s, TN_INTS(1), 2, .dtype = TN_FLOAT32, .device = d);
    tn_tensor *y = x && factor ? CALL(op, tn_value_tensor(x), tn_value_tensor(factor)) : NULL;
    return y && tn_item_double(s, tn_sum(s, y)) == 24;
}

/* More tensors than a scope, and more copies than a call, has room for at first. */
static int many_tensors(void)
{
    enum { MANY = 80 };
    static tn_tensor *list[MANY];
    const char *schema = "test::listed(Tensor[] list) -> Tensor";
    const tn_operator_def def = {.size = sizeof def, .schema = schema, .infer = infer_one};
    const tn_kernel_row row = {.size = sizeof row, .schema = schema, .run = add_one};
    uint32_t op;
    if (tn_operator_define(ctx, &def, &op) || tn_kernels_add(ctx, "cpu", NULL, &row, 1)) return 0;
    tn_tensor *x = tn_slice(s, tn_full(s, TN_INTS(4), 3, .dtype = TN_FLOAT32), .step = 2);
    for (int i = 0; i < MANY; i++) list[i] = tn_view_as(s, x, x);
    tn_tensor *sum = x ? CALL(op, tn_value_tensors(list, MANY)) : NULL;
    return sum && tn_item_double(s, sum) == 3 * MANY;
}

/* Lists of which some items are copied, lists of results, and lists of given tensors that change their size. */
static int lists(void)
{
    tn_device d = tn_device_parse(ctx, "reference:0");
    tn_tensor *x = tn_full(s, TN_INTS(3, 3), 2, .dtype = TN_COMPLEX64, .device = d);
    tn_tensor *turned = tn_conj(s, tn_t(s, x));
    tn_tensor *both = tn_cat(s, TN_TENSORS(x, turned)), *product = tn_mm(s, turned, turned);
    tn_tensor *out = tn_zeros(s, TN_INTS(3)), *a = tn_full(s, TN_INTS(2), 1, .dtype = TN_FLOAT32);
    tn_tensors parts = tn_split_copy(s, tn_arange(s, 6, .dtype = TN_FLOAT32), 2);
    if (!a || !out) return 0;
    tn__foreach_maximum_list_out(s, TN_TENSORS(a), TN_TENSORS(tn_neg(s, a)), TN_TENSORS(out));
    if (!both || !product || parts.count != 3 || tn_scope_failed(s)) return 0;
    return tn_item_double(s, tn_real(s, tn_sum(s, both))) == 36 &&
           tn_item_double(s, tn_real(s, tn_sum(s, product))) == 108 &&
           tn_item_double(s, tn_sum(s, parts.data[2])) == 9 && tn_item_double(s, tn_sum(s, out)) == 2;
}

/* An operator that exists once its name is looked up. */
static int derived_forms(void)
{
    uint32_t op = tn_operator_find(ctx, "aten::linalg_lstsq.out"),
             out = tn_operator_find(ctx, "aten::flip.out");
    if (!op || !out) return 0;
    tn_tensor *x = tn_arange(s, 3, .dtype = TN_FLOAT32), *to = tn_zeros(s, TN_INTS(3));
    tn_tensor *y =
        x && to ? CALL(out, tn_value_tensor(x), tn_value_ints(&(int64_t){0}, 1), tn_value_tensor(to)) : NULL;
    return y == to && y && tn_item_double(s, tn_select(s, y, 0, 0)) == 2;
}

static const struct {
    const char *name;
    int (*run)(void);
} scenarios[] = {{"definitions", define_operators},
                 {"observers", observe},
                 {"traces", trace},
                 {"fallback", fall_back},
                 {"autocast", autocast_a_list},
                 {"results", results_of_every_kind},
                 {"profile", profile},
                 {"composites", results_of_composites},
                 {"copies", copies_around_kernels},
                 {"scopes", kernels_with_a_scope},
                 {"many", many_tensors},
                 {"lists", lists},
                 {"derived forms", derived_forms}};

/* 1: the scenario gave its result; 0: it reported a failure. `fail_at` counts from after the context is made. */
static int run_once(int (*scenario)(void), uint32_t flags, long long fail_at, counting *memory)
{
    const tn_context_options options = {.size = sizeof options,
                                        .flags = flags,
                                        .allocator = {.user = memory, .alloc = take, .free = give_back}};
    int done = 0;
    *memory = (counting){0};
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    tn_set_fallback_policy(ctx, TN_FALLBACK_SILENT);
    memory->fail_at = fail_at ? atomic_load(&memory->count) + fail_at : 0;
    s = tn_scope_open(ctx);
    if (s) {
        done = scenario();
        if (!done)
            cr_expect(tn_scope_failed(s) || tn_last_error(), "a failure without an error at %lld", fail_at);
        tn_scope_close(s);
    }
    memory->fail_at = 0;
    tn_context_destroy(ctx);
    cr_expect_eq(atomic_load(&memory->live), 0, "%lld leaks where allocation %lld fails",
                 (long long)atomic_load(&memory->live), fail_at);
    return done;
}

static void run_all(uint32_t flags)
{
    counting memory;
    setenv("TENON_REFERENCE_DEVICES", "2", 1);
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        cr_assert(run_once(scenarios[i].run, flags, 0, &memory), "%s: %s", scenarios[i].name,
                  tn_last_error() ? tn_last_error()->message : "");
        int failed = 0;
        for (long long n = 1; n < 1000; n++) {
            int done = run_once(scenarios[i].run, flags, n, &memory);
            failed += !done;
            /* The last runs made all their allocations: no later one is left to fail. */
            if (done && n > 2 * failed + 20) break;
        }
        cr_expect_gt(failed, 0, "%s", scenarios[i].name);
    }
}

Test(failing_allocations, after_the_context_is_made, .timeout = 110)
{
    run_all(0);
}

/* Small blocks are not kept for reuse here, so that every allocation can fail. */
Test(failing_allocations, of_every_size, .timeout = 110)
{
    run_all(TN_CONTEXT_DEBUG_HANDLES);
}

/* While the context is made: it is not made, rather than without a plugin. */
Test(failing_allocations, while_the_context_is_made, .timeout = 110)
{
    counting memory = {0};
    tn_context_options options = {.size = sizeof options,
                                  .allocator = {.user = &memory, .alloc = take, .free = give_back}};
    cr_assert_eq(tn_context_create(&options, &ctx), TN_OK);
    tn_context_destroy(ctx);
    long long count = atomic_load(&memory.count);
    cr_assert_gt(count, 50);
    for (long long n = 1; n <= count; n += n < 150 ? 1 : 17) {
        memory = (counting){.fail_at = n};
        ctx = NULL;
        int32_t status = tn_context_create(&options, &ctx);
        memory.fail_at = 0;
        cr_expect_eq(status, TN_E_OUT_OF_MEMORY, "allocation %lld: %d", n, status);
        if (!status) tn_context_destroy(ctx);
        cr_expect_eq(atomic_load(&memory.live), 0, "leak: allocation %lld fails", n);
    }
}
