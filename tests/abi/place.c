/* SPDX-License-Identifier: Apache-2.0 */
/* The error of a failed call says where the program made it; failed calls return what can be used. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <tenon/checkpoint.h>
#include <tenon/lowrank.h>
#include <tenon/progress.h>
#include "../core/client_suite.h"

TestSuite(place, .init = begin, .fini = end);

/* The scope's error has this line of this file, in its fields and at the start of its message. */
static void expect_place(int line, const char *text)
{
    const tn_error *e = tn_scope_error(s);
    char start[512];
    cr_assert_not_null(e);
    cr_assert_str_eq(e->file, __FILE__);
    cr_assert_eq(e->line, (uint32_t)line, "line %u: %s", e->line, e->message);
    snprintf(start, sizeof start, "%s:%d: ", __FILE__, line);
    cr_assert_eq(strncmp(e->message, start, strlen(start)), 0, "%s", e->message);
    cr_assert_not_null(strstr(e->message, text), "%s", e->message);
    cr_assert_null(strstr(e->message + strlen(start), __FILE__), "two places: %s", e->message);
    tn_scope_clear(s);
}

static tn_tensor *ones(int64_t rows, int64_t columns)
{
    return tn_ones(s, TN_INTS(rows, columns));
}

Test(place, typed_calls)
{
    tn_tensor *a = ones(2, 9), *b = ones(8, 8), *c = ones(2, 9);
    cr_assert_null(tn_mm(s, a, b));
    expect_place(__LINE__ - 1, "mat1 and mat2 shapes cannot be multiplied (2x9 and 8x8)");
    cr_assert_null(tn_add(s, a, b, .alpha = TN_SCALAR(2)));
    expect_place(__LINE__ - 1, "size of tensor a");
    cr_assert_null(tn_reshape(s, a, (tn_ints){(const int64_t[]){5, 7}, 2}));
    expect_place(__LINE__ - 1, "shape '[5, 7]' is invalid");
    cr_assert_null(tn_add(s, tn_mul(s, a, c), /* the inner call is well */
                          b));
    cr_assert_gt(tn_scope_error(s)->line, (uint32_t)(__LINE__ - 6));
    cr_assert_leq(tn_scope_error(s)->line, (uint32_t)(__LINE__ - 2));
    tn_scope_clear(s);
    cr_assert_eq(tn_equal(s, a, NULL), 0);
    expect_place(__LINE__ - 1, "must be Tensor, not None");
    cr_assert_null(tn_max_dim(s, a, 7).values);
    expect_place(__LINE__ - 1, "Dimension out of range");
    cr_assert_null(tn_add_with(s, a, &(tn_add_args){.other = b}));
    expect_place(__LINE__ - 1, "size of tensor a");
    const tn_value values[] = {tn_value_tensor(a), tn_value_tensor(b)};
    tn_value out;
    cr_assert_neq(tn_scope_call(s, TN_OP_MM, values, 2, &out, 1), TN_OK);
    expect_place(__LINE__ - 1, "mat1 and mat2");
    cr_assert_null(tn_mul_scalar(s, NULL, 2));
    expect_place(__LINE__ - 1, "must be Tensor");
}

Test(place, composites_and_layers)
{
    /* The operators inside fail; the line is that of the call that the program made. */
    tn_module *net = tn_module_create(ctx, "net", NULL), *layer = tn_linear_create(net, "layer", 8, 8);
    tn_tensor *x = ones(2, 9);
    cr_assert_null(tn_linear(s, x, ones(8, 8)));
    expect_place(__LINE__ - 1, "(2x9 and 8x8)");
    cr_assert_null(tn_module_forward(s, layer, x));
    expect_place(__LINE__ - 1, "(2x9 and 8x8)");
    tn_module_destroy(net);
}

Test(place, functions_of_other_headers)
{
    tn_tensor *x = ones(2, 3);
    float room[6];
    cr_assert_neq(tn_backward(s, x), TN_OK);
    expect_place(__LINE__ - 1, "grad");
    cr_assert_null(tn_index(s, x, TN_AT(2)));
    expect_place(__LINE__ - 1, "index 2 is out of bounds");
    tn_item_double(s, x);
    expect_place(__LINE__ - 1, "cannot be converted to Scalar");
    cr_assert_null(tn_from_data(s, TN_FLOAT32, TN_INTS(-1), room, TN_CPU));
    expect_place(__LINE__ - 1, "");
    cr_assert_neq(tn_to_host(s, x, room, 1), TN_OK);
    expect_place(__LINE__ - 1, "");
}

static int line_inside;

static int32_t fails_inside(tn_function_call *call, tn_scope *scope, tn_tensors inputs, tn_tensor **out)
{
    (void)call;
    line_inside = __LINE__ + 1;
    out[0] = tn_mm(scope, inputs.data[0], inputs.data[0]);
    return tn_scope_failed(scope);
}

static int32_t fails_with_status(tn_function_call *call, tn_scope *scope, tn_tensors inputs, tn_tensor **out)
{
    (void)call, (void)scope, (void)inputs, (void)out;
    return TN_E_UNSUPPORTED;
}

static int32_t no_gradient(tn_function_call *call, tn_scope *scope, tn_tensors grads, tn_tensor **out)
{
    (void)call, (void)scope;
    out[0] = grads.data[0];
    return TN_OK;
}

static int32_t identity(void *user, tn_scope *scope, tn_tensors inputs, tn_tensor **out)
{
    (void)user;
    out[0] = tn_mul_scalar(scope, inputs.data[0], 1);
    return tn_scope_failed(scope);
}

Test(place, functions_that_run_functions_of_the_program)
{
    tn_tensor *x = ones(2, 3), *out;
    tn_function f = {.size = sizeof f, .name = "f", .forward = fails_inside, .backward = no_gradient};
    cr_assert_neq(tn_function_apply(s, &f, NULL, (tn_tensors){&x, 1}, &out, 1), TN_OK);
    expect_place(line_inside, "mat1 and mat2");
    f.forward = fails_with_status;
    cr_assert_neq(tn_function_apply(s, &f, NULL, (tn_tensors){&x, 1}, &out, 1), TN_OK);
    expect_place(__LINE__ - 1, "");
    cr_assert_neq(tn_gradcheck(s, identity, NULL, (tn_tensors){&x, 1}, NULL), TN_OK);
    expect_place(__LINE__ - 1, "requires_grad");
}

Test(place, functions_of_files_and_other_libraries)
{
    tn_tensor *x = ones(2, 3);
    double pair[2];
    cr_assert_neq(tn_item_complex(s, x, pair), TN_OK);
    expect_place(__LINE__ - 1, "cannot be converted to Scalar");
    cr_assert_neq(tn_safetensors_save(s, "/nowhere/a", (tn_named_tensor[]){{"x", x}}, 1, NULL, 0), TN_OK);
    expect_place(__LINE__ - 1, "/nowhere/a");
    cr_assert_null(tn_from_dlpack(s, NULL));
    expect_place(__LINE__ - 1, "no capsule");
    cr_assert_null(tn_scalar_tensor_of(s, tn_value_none(), 0, TN_CPU));
    expect_place(__LINE__ - 1, "");
}

Test(place, layers_optimisers_and_data)
{
    cr_assert_null(tn_idx_read(s, "/nowhere/a"));
    expect_place(__LINE__ - 1, "/nowhere/a");
    tn_tensor *w = ones(2, 3);
    cr_assert_eq(tn_set_requires_grad(w, 1), TN_OK);
    tn_optimizer *o = tn_adam_create_of(ctx, (tn_tensors){&w, 1}, .lr = 0.1, .beta2 = 0.99);
    cr_assert_not_null(o);
    cr_assert_eq(tn_set_grad(w, ones(2, 3)), TN_OK);
    cr_assert_eq(tn_optimizer_step(s, o), TN_OK);
    tn_resize_(s, tn_optimizer_state(o, w, "exp_avg"), TN_INTS(5, 5));
    cr_assert_neq(tn_optimizer_step(s, o), TN_OK);
    expect_place(__LINE__ - 1, "");
    tn_optimizer_destroy(o);
}

/* The thread's last error has this line, once. */
static void expect_last_place(int line, const char *text)
{
    const tn_error *e = tn_last_error();
    char start[512];
    cr_assert_not_null(e);
    snprintf(start, sizeof start, "%s:%d: ", __FILE__, line);
    cr_assert_eq(strncmp(e->message, start, strlen(start)), 0, "line %d: %s", line, e->message);
    cr_assert_str_eq(e->file, __FILE__);
    cr_assert_eq(e->line, (uint32_t)line);
    cr_assert_not_null(strstr(e->message, text), "%s", e->message);
    cr_assert_null(strstr(e->message + strlen(start), __FILE__), "two places: %s", e->message);
    tn_clear_error();
}

Test(place, calls_without_a_scope)
{
    tn_pt *pt;
    tn_file *file;
    tn_safetensors *tensors;
    tn_events *events;
    int64_t step = 0;
    cr_assert_neq(tn_pt_open(ctx, "/nowhere/a", &pt), TN_OK);
    expect_last_place(__LINE__ - 1, "/nowhere/a");
    cr_assert_neq(tn_file_open(ctx, "/nowhere/a", &file), TN_OK);
    expect_last_place(__LINE__ - 1, "/nowhere/a");
    cr_assert_neq(tn_safetensors_open(ctx, "/nowhere/a", &tensors), TN_OK);
    expect_last_place(__LINE__ - 1, "/nowhere/a");
    cr_assert_null(tn_sgd_create(NULL, .lr = 0.1));
    expect_last_place(__LINE__ - 1, "module");
    cr_assert_null(tn_loader_create(NULL, .batch = 2));
    expect_last_place(__LINE__ - 1, "");
    cr_assert_null(tn_dataset_create(ctx, NULL, NULL));
    expect_last_place(__LINE__ - 1, "");
    cr_assert_neq(tn_checkpoint_load("/nowhere/a", .step = &step), TN_OK);
    expect_last_place(__LINE__ - 1, "module");
    cr_assert_neq(tn_events_create("/proc/nowhere", &events), TN_OK);
    expect_last_place(__LINE__ - 1, "/proc/nowhere");
    cr_assert_null(tn_module_create(NULL, "net", NULL));
    expect_last_place(__LINE__ - 1, "ctx");
}

Test(place, of_devices_streams_and_memory)
{
    tn_stream *stream;
    tn_generator *generator;
    tn_graph *graph;
    tn_profile *profile;
    tn_tensor *x = ones(2, 3), *loss = tn_sum(s, x);
    int64_t figure;
    tn_clear_error();
    cr_assert(tn_device_choose(ctx, "nothing", NULL) & TN_DEVICE_MISSING);
    expect_last_place(__LINE__ - 1, "'nothing'");
    cr_assert_neq(tn_device_synchronize(ctx, tn_device_parse(ctx, "cpu:7")), TN_OK);
    expect_last_place(__LINE__ - 1, "cpu:7");
    cr_assert_neq(tn_device_set_setting(ctx, TN_CPU, "huge_page", tn_value_string("never")), TN_OK);
    expect_last_place(__LINE__ - 1, "huge_pages");
    cr_assert_neq(tn_stream_create(ctx, TN_DEVICE(TN_INTERNED_CPU, 7), 0, &stream), TN_OK);
    expect_last_place(__LINE__ - 1, "cpu:7");
    cr_assert_neq(tn_stream_synchronize(tn_stream_current(ctx, TN_DEVICE(TN_INTERNED_CPU, 7))), TN_OK);
    expect_last_place(__LINE__ - 1, "");
    cr_assert_neq(tn_memory_configure(ctx, TN_CPU, "max_split:3"), TN_OK);
    expect_last_place(__LINE__ - 1, "max_split_size_mb");
    cr_assert_neq(tn_memory_get_stat(ctx, TN_CPU, "none.such", &figure), TN_OK);
    expect_last_place(__LINE__ - 1, "none.such");
    cr_assert_neq(tn_graph_create(ctx, TN_DEVICE(TN_INTERNED_CPU, 7), &graph), TN_OK);
    expect_last_place(__LINE__ - 1, "cpu:7");
    cr_assert_neq(tn_generator_create(NULL, 1, &generator), TN_OK);
    expect_last_place(__LINE__ - 1, "");
    cr_assert_neq(tn_profile_end(ctx, &profile), TN_OK);
    expect_last_place(__LINE__ - 1, "no profile");
    cr_assert_null(tn_scope_open(NULL));
    expect_last_place(__LINE__ - 1, "context");
    cr_assert_neq(tn_set_requires_grad(tn_arange(s, 3), 1), TN_OK);
    expect_last_place(__LINE__ - 1, "floating point");
    cr_assert_neq(tn_set_grad(x, loss), TN_OK);
    expect_last_place(__LINE__ - 1, "[2, 3]");
    cr_assert_null(tn_grad_of(s, NULL));
    expect_place(__LINE__ - 1, "NULL");
}

Test(place, calls_that_change_a_tree)
{
    tn_module *net = tn_module_create(ctx, "net", NULL);
    tn_linear_create(net, "fc", 3, 4);
    cr_assert_eq(tn_module_failed(net), TN_OK);
    cr_assert_neq(tn_prune_l1_unstructured(net, "bias", 0.5), TN_OK);
    expect_last_place(__LINE__ - 1, "bias");
    cr_assert_neq(tn_module_load(net, "/nowhere/a", TN_STRICT), TN_OK);
    expect_last_place(__LINE__ - 1, "/nowhere/a");
    tn_module_destroy(net);
    net = tn_module_create(ctx, "net", NULL);
    cr_assert_null(tn_linear_create(net, "fc", -3, 4));
    int line = __LINE__ - 1;
    char start[512];
    snprintf(start, sizeof start, "%s:%d: ", __FILE__, line);
    cr_assert_eq(strncmp(tn_module_error(net), start, strlen(start)), 0, "%s", tn_module_error(net));
    expect_last_place(line, "fc");
    tn_module_destroy(net);
}

Test(place, calls_of_libtenon_train_with_a_scope)
{
    tn_tensor *x = ones(2, 3);
    cr_assert_neq(tn_vector_to_parameters(s, x, TN_TENSORS(x, x)), TN_OK);
    expect_place(__LINE__ - 1, "");
    cr_assert_null(tn_init_dirac(s, x, 1));
    expect_place(__LINE__ - 1, "dirac");
    cr_assert_null(tn_file_load(s, "/nowhere/a").data);
    expect_place(__LINE__ - 1, "/nowhere/a");
    cr_assert_null(tn_svd_lowrank(s, x, .q = 40).u);
    expect_place(__LINE__ - 1, "");
    cr_assert_neq(tn_optimizer_step(s, NULL), TN_OK);
    expect_place(__LINE__ - 1, "optimizer");
    /* A failure of an argument has the place of its own call, which is inside that of the other. */
    cr_assert_null(tn_init_constant(s, tn_normalize(s, x, 2, 7, 0), 1));
    expect_place(__LINE__ - 1, "Dimension out of range");
}

Test(place, of_errors_without_a_scope)
{
    tn_clear_error();
    const uint64_t before = tn_error_count();
    tn_error_place(before, "model.c", 7);
    cr_assert_null(tn_last_error(), "no error, no place");
    tn_scope_fail(NULL, TN_E_IO, "one");
    cr_assert_eq(tn_error_count(), before + 1);
    tn_error_place(before + 1, "model.c", 7);
    cr_assert_str_eq(tn_last_error()->message, "one", "the error of an earlier call keeps having no place");
    tn_error_place(before, "model.c", 7);
    tn_error_place(before, "other.c", 8);
    cr_assert_str_eq(tn_last_error()->message, "model.c:7: one");
    cr_assert_str_eq(tn_last_error()->file, "model.c");
    cr_assert_eq(tn_last_error()->line, 7);
    tn_scope_fail(NULL, TN_E_IO, "two");
    cr_assert_str_eq(tn_last_error()->message, "two");
    cr_assert_null(tn_last_error()->file);
    /* The error of a scope has its place as the thread's error, too. */
    tn_scope *root = tn_scope_open(ctx);
    tn_scope_fail(root, TN_E_IO, "three");
    tn_scope_place(root, "model.c", 9);
    tn_scope_close(root);
    cr_assert_str_eq(tn_last_error()->message, "model.c:9: three");
    cr_assert_str_eq(tn_last_error()->file, "model.c");
    cr_assert_eq(tn_last_error()->line, 9);
}

Test(place, is_that_of_the_first_failure)
{
    tn_tensor *a = ones(2, 9), *b = ones(8, 8);
    tn_mm(s, a, b);
    int line = __LINE__ - 1;
    tn_add(s, a, b);
    tn_backward(s, a);
    expect_place(line, "mat1 and mat2");
    /* A failure without a place does not get that of a later call. */
    tn_scope_fail(s, TN_E_ARGUMENT, "the program's own");
    tn_add(s, a, b);
    tn_backward(s, a);
    cr_assert_str_eq(tn_scope_error(s)->message, "the program's own");
    cr_assert_null(tn_scope_error(s)->file);
    cr_assert_eq(tn_scope_error(s)->line, 0);
    tn_scope_clear(s);
    cr_assert_null((tn_mm)(s, a, b));
    tn_exp(s, a);
    cr_assert_null(tn_scope_error(s)->file);
}

Test(place, moves_to_the_parent)
{
    tn_scope *outer = s, *inner = tn_scope_open_child(outer, NULL);
    tn_mm(inner, ones(2, 9), ones(8, 8));
    int line = __LINE__ - 1;
    cr_assert_neq(tn_scope_close(inner), TN_OK);
    expect_place(line, "mat1 and mat2");
}

Test(place, outer_place_replaces_the_inner)
{
    tn_mm(s, ones(2, 9), ones(8, 8));
    tn_scope_place(s, "model.c", 7);
    cr_assert_str_eq(tn_scope_error(s)->file, "model.c");
    cr_assert_eq(strncmp(tn_scope_error(s)->message, "model.c:7: ", 11), 0, "%s", tn_scope_error(s)->message);
    cr_assert_null(strstr(tn_scope_error(s)->message, __FILE__));
    tn_scope_clear(s);
    tn_scope_place(s, "model.c", 7);
    cr_assert_null(tn_scope_error(s), "no error, no place");
    tn_scope_place(NULL, "model.c", 7);
    tn_scope_call_place(NULL, "model.c", 7);
}

Test(place, text_added_to_an_error_keeps_its_fields)
{
    tn_mm(s, ones(2, 9), ones(8, 8));
    int line = __LINE__ - 1;
    char message[512];
    snprintf(message, sizeof message, "%s: in step 3", tn_scope_error(s)->message);
    tn_scope_add_to_error(s, ": in step");
    tn_scope_add_to_error(s, " 3");
    const tn_error *e = tn_scope_error(s);
    cr_assert_str_eq(e->message, message);
    cr_assert_str_eq(e->op, "aten::mm");
    cr_assert_str_eq(e->file, __FILE__);
    cr_assert_eq(e->line, (uint32_t)line);
    tn_scope_place(s, "model.c", 7);
    cr_assert_not_null(strstr(tn_scope_error(s)->message, "model.c:7: "));
    cr_assert_not_null(strstr(tn_scope_error(s)->message, ": in step 3"));
    tn_scope_clear(s);
    tn_scope_add_to_error(s, "more");
    cr_assert_null(tn_scope_error(s), "no error, no text");
}

Test(place, functions_by_name)
{
    tn_tensor *(*const table[])(tn_scope *, tn_tensor *) = {tn_exp, tn_neg};
    cr_assert_eq(tn_item_double(s, tn_sum(s, table[1](s, ones(2, 3)))), -6);
}

Test(place, failed_lists_can_be_indexed)
{
    tn_tensor *x = ones(2, 3);
    tn_tensors parts = tn_split(s, x, -1, .dim = 7);
    cr_assert_neq(tn_scope_failed(s), TN_OK);
    cr_assert_eq(parts.count, 0);
    for (int64_t i = 0; i < TN_FAILED_LIST_ITEMS; i++) cr_assert_null(parts.data[i]);
    /* What a program does before it looks for the error. */
    cr_assert_null(tn_add(s, parts.data[0], parts.data[1]));
    cr_assert_null(tn_add(s, NULL, NULL));
    cr_assert_eq(tn_tensor_numel(parts.data[0]), 0);
    cr_assert_null(tn_list_at(parts, 0));
    tn_scope_clear(s);
    parts = tn_split(s, x, 1);
    cr_assert_eq(parts.count, 2);
    cr_assert_eq(tn_list_at(parts, 1), parts.data[1]);
    cr_assert_null(tn_list_at(parts, 2));
    cr_assert_null(tn_list_at(parts, -1));
    cr_assert_null(tn_list_at((tn_tensors){0}, 0));
}

Test(place, queries_of_nothing)
{
    cr_assert_eq(tn_tensor_rank(NULL), 0);
    cr_assert_eq(tn_tensor_dtype(NULL), 0);
    cr_assert_eq(tn_tensor_device(NULL), 0);
    cr_assert_eq(tn_tensor_numel(NULL), 0);
    cr_assert_eq(tn_tensor_size(NULL, 0), 0);
    for (int i = 0; i < TN_MAX_RANK; i++) {
        cr_assert_eq(tn_tensor_sizes(NULL)[i], 0);
        cr_assert_eq(tn_tensor_strides(NULL)[i], 0);
    }
}

/* Without optimisation 0, which is a null pointer, compiles in the place of a list; the call is refused. */
Test(place, zero_is_no_list)
{
    volatile int64_t zero = 0;
    tn_sum_dim_args o = {.dim = {NULL, TN_OPS_UNSET_COUNT + zero}};
    cr_assert_null(tn_sum_dim_with(s, ones(2, 3), &o));
    expect_place(__LINE__ - 1,
                 "argument 'dim' (position 2) must be int[]?, not a plain number: write TN_INTS(...)");
}
