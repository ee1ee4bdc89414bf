/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tensors of any kind, sharded checkpoints, and runs that go on bit for bit. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/checkpoint.h>
#include <unistd.h>
#include "../core/at_end.h"
#include "../core/client_suite.h"

static char folder[64];

static void make_folder(void)
{
    begin();
    strcpy(folder, "/tmp/tenon_files_XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
    char command[128];
    end();
    snprintf(command, sizeof command, "rm -r %s", folder);
    MUST_HOLD(system(command) == 0);
}

TestSuite(file, .init = make_folder, .fini = remove_folder, .timeout = 60);
TestSuite(checkpoint, .init = make_folder, .fini = remove_folder, .timeout = 60);

static const char *in_folder(const char *name)
{
    static char path[16][256];
    static int turn;
    snprintf(path[++turn % 16], sizeof path[0], "%s/%s", folder, name);
    return path[turn % 16];
}

static const char *message(void)
{
    return tn_last_error() ? tn_last_error()->message : "";
}

static void expect_error(int32_t status, int32_t expected, const char *words)
{
    cr_assert_eq(status, expected, "%d: %s", status, message());
    cr_assert_not_null(strstr(message(), words), "%s", message());
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void expect_values(tn_tensor *t, int64_t count, const float *want)
{
    float have[64];
    cr_assert_not_null(t, "%s", tn_scope_error(s) ? tn_scope_error(s)->message : "");
    cr_assert_eq(tn_to_host(s, t, have, (uint64_t)count * 4), TN_OK, "%s", tn_scope_error(s)->message);
    for (int64_t i = 0; i < count; i++) cr_assert_eq(have[i], want[i]);
}

/* ---- Files of any kind -------------------------------------------------------------------------------- */

static tn_named_tensors three(void)
{
    static tn_named_tensor list[3];
    list[0] = (tn_named_tensor){"a", tn_arange(s, TN_SCALAR(4.0))};
    list[1] = (tn_named_tensor){"b.weight", tn_ones(s, TN_INTS(2, 3))};
    list[2] = (tn_named_tensor){"c", tn_full(s, TN_INTS(5), 7.0)};
    return (tn_named_tensors){list, 3};
}

/* In one call, on the scope's default device; the tensors outlive the file. */
static void expect_loaded(const char *path)
{
    tn_named_tensors all = tn_file_load(s, path);
    cr_assert_eq(all.count, 3, "%s", message());
    expect_values(tn_named_get(s, all, "c"), 5, (float[]){7, 7, 7, 7, 7});
    cr_assert_eq(tn_tensor_device(tn_named_get(s, all, "a")), TN_CPU);
}

static void expect_three(const char *path, const char *format)
{
    tn_file *f = NULL;
    cr_assert_eq(tn_file_open(ctx, path, &f), TN_OK, "%s", message());
    cr_assert_str_eq(tn_file_format(f), format);
    cr_assert_eq(tn_file_count(f), 3);
    cr_assert_null(tn_file_name(f, 3));
    expect_values(tn_file_get(s, f, "a", TN_CPU), 4, (float[]){0, 1, 2, 3});
    expect_values(tn_file_map(s, f, "b.weight"), 6, (float[]){1, 1, 1, 1, 1, 1});
    tn_named_tensors all = tn_file_tensors(s, f);
    cr_assert_eq(all.count, 3);
    static const char *const absent[][2] = {{"d", "there is no tensor 'd'"},
                                            {"b.wieght", "no tensor 'b.wieght'; did you mean 'b.weight'?"}};
    for (int i = 0; i < 2; i++) {
        cr_assert_null(tn_file_get(s, f, absent[i][0], TN_CPU));
        cr_assert_not_null(strstr(tn_scope_error(s)->message, absent[i][1]));
        tn_scope_clear(s);
    }
    tn_file_close(f);
    expect_loaded(path);
    for (int64_t i = 0; i < 3; i++) /* they outlive the file */
        if (!strcmp(all.data[i].name, "c")) expect_values(all.data[i].tensor, 5, (float[]){7, 7, 7, 7, 7});
}

Test(file, every_format_by_one_name)
{
    tn_named_tensors all = three();
    cr_assert_eq(tn_safetensors_save(s, in_folder("x.safetensors"), all.data, 3, NULL, 0), TN_OK);
    cr_assert_eq(tn_pt_save(s, in_folder("x.pt"), all), TN_OK);
    expect_three(in_folder("x.safetensors"), "safetensors");
    expect_three(in_folder("x.pt"), "pytorch");
    tn_file *f = NULL;
    expect_error(tn_file_open(ctx, in_folder("y"), &f), TN_E_NOT_FOUND, "No such file");
    FILE *text = fopen(in_folder("z"), "wb");
    cr_assert(text && fputs("#include <stdio.h>\n", text) >= 0 && !fclose(text));
    expect_error(tn_file_open(ctx, in_folder("z"), &f), TN_E_CORRUPT, "it is neither a safetensors file nor");
    cr_assert_eq(tn_file_load(s, in_folder("y")).count, 0);
    cr_assert_eq(tn_scope_failed(s), TN_E_NOT_FOUND);
    tn_scope_clear(s);
    cr_assert_null(f);
}

Test(file, shards)
{
    const char *path = in_folder("model");
    cr_assert_eq(tn_shards_save(s, path, three(), 24), TN_OK, "%s", tn_scope_error(s)->message);
    cr_assert_eq(access(in_folder("model/model-00001-of-00003.safetensors"), F_OK), 0);
    cr_assert_eq(access(in_folder("model/model-00003-of-00003.safetensors"), F_OK), 0);
    expect_three(path, "shards");
    expect_three(in_folder("model/model.safetensors.index.json"), "shards");
    tn_module *net = tn_module_create(ctx, "net", NULL);
    tn_module_add_parameter(net, "a", tn_zeros(s, TN_INTS(4)));
    tn_linear_create(net, "b", 3, 2, .bias = 0);
    tn_module_add_buffer(net, "c", tn_zeros(s, TN_INTS(5)), 0);
    cr_assert_eq(tn_module_load(net, path, TN_STRICT), TN_OK, "%s", message());
    expect_values(tn_detach(s, tn_module_tensor(net, "a")), 4, (float[]){0, 1, 2, 3});
    tn_module_destroy(net);
    cr_assert_eq(tn_shards_save(s, path, three(), 1 << 20), TN_OK); /* one file: no index any more */
    cr_assert_neq(access(in_folder("model/model.safetensors.index.json"), F_OK), 0);
    expect_three(path, "safetensors");
    cr_assert_eq(tn_shards_save(s, "/nowhere/model", three(), 24), TN_E_IO);
    tn_scope_clear(s);
}

/* A tensor that cannot be written ends the call before a file of the old checkpoint is replaced. */
Test(file, shards_that_fail_leave_the_old_ones)
{
    tn_named_tensor list[2] = {{"a", tn_zeros(s, TN_INTS(6))}, {"b", tn_zeros(s, TN_INTS(6))}};
    const char *path = in_folder("model");
    cr_assert_eq(tn_shards_save(s, path, (tn_named_tensors){list, 2}, 24), TN_OK);
    list[0].tensor = tn_ones(s, TN_INTS(6));
    mkdir(in_folder("model/model-00002-of-00002.safetensors.new"), 0777); /* in the way of the second shard */
    cr_assert_neq(tn_shards_save(s, path, (tn_named_tensors){list, 2}, 24), TN_OK);
    tn_scope_clear(s);
    tn_file *f = NULL;
    cr_assert_eq(tn_file_open(ctx, path, &f), TN_OK);
    expect_values(tn_file_get(s, f, "a", TN_CPU), 6, (float[]){0, 0, 0, 0, 0, 0});
    tn_file_close(f);
    cr_assert_neq(access(in_folder("model/model-00001-of-00002.safetensors.new"), F_OK), 0);
}

Test(file, damaged_indices)
{
    static const char *const texts[][2] = {
        {"", "it is not JSON"},
        {"[1]", "it has no 'weight_map'"},
        {"{\"weight_map\": {\"a\": 1}}", "tensor 'a': it does not name a file of its folder"},
        {"{\"weight_map\": {\"a\": \"../x.safetensors\"}}",
         "tensor 'a': it does not name a file of its folder"},
        {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "tensor 'a': it does not name a file of its folder"},
        {"{\"weight_map\": {\"a\": \"\"}}", "tensor 'a': it does not name a file of its folder"},
        {"{\"weight_map\": {\"z\": \"x.safetensors\"}}", "tensor 'z' is not in 'x.safetensors'"},
        {"{\"weight_map\": {\"a\": \"x.safetensors\", \"a\": \"x.safetensors\"}}",
         "it has the tensor 'a' twice"},
    };
    tn_file *f = NULL;
    const char *index = in_folder("model.safetensors.index.json");
    cr_assert_eq(tn_safetensors_save(s, in_folder("x.safetensors"), three().data, 3, NULL, 0), TN_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_text(index, texts[i][0]);
        expect_error(tn_file_open(ctx, index, &f), TN_E_CORRUPT, texts[i][1]);
    }
    write_text(index, "{\"weight_map\": {\"a\": \"y.safetensors\"}}");
    expect_error(tn_file_open(ctx, index, &f), TN_E_NOT_FOUND, "y.safetensors");
    char good[] = "{\"metadata\": {}, \"weight_map\": {\"a\": \"x.safetensors\", \"c\": \"x.safetensors\"}}",
         bad[sizeof good];
    for (uint32_t seed = 1, state = 1; seed <= 500; seed++) {
        memcpy(bad, good, sizeof good);
        for (int n = 0; n < 3; n++) {
            state = state * 1664525u + 1013904223u;
            bad[(state >> 8) % (sizeof good - 1)] = (char)(1 + (state >> 20) % 126);
        }
        write_text(index, bad);
        int32_t status = tn_file_open(ctx, index, &f);
        cr_assert(!status || message()[0]);
        if (!status) tn_file_close(f);
    }
}

/* ---- Whole runs --------------------------------------------------------------------------------------- */

typedef struct run {
    tn_module *net;
    tn_optimizer *optimizer;
    tn_average *average;
    tn_grad_scaler *scaler;
    tn_dataset *set;
    tn_loader *loader;
    tn_plateau plateau;
    tn_tensor *history; /* of the program: the sum of all losses */
    int64_t step;
} run;

static int32_t add_noise(void *user, tn_scope *scope, uint64_t seed, tn_tensor **sample)
{
    (void)user;
    sample[0] = tn_add_scalar(scope, sample[0], TN_SCALAR((double)(seed % 1000) / 1000));
    return tn_scope_failed(scope);
}

/* A run with all that has a state: random numbers in the model and in the data, momentum, running
 * statistics. */
static run begin_run(uint64_t seed, tn_dataset *of)
{
    run r = {.plateau = {.lr = 0.1, .patience = 1}};
    tn_manual_seed(ctx, seed);
    r.net = tn_module_create(ctx, "net", NULL);
    tn_linear_create(r.net, "in", 3, 8);
    tn_batch_norm1d_create(r.net, "norm", 8);
    tn_dropout_create(r.net, "drop");
    tn_linear_create(r.net, "out", 8, 1);
    r.optimizer = tn_adamw_create(r.net, .lr = seed == 1 ? 0.1 : 7);
    r.average = tn_average_create(r.net, 0.9);
    r.scaler = tn_grad_scaler_create(ctx, &(tn_grad_scaler_options){.scale = 8, .interval = 3});
    r.set = tn_map_dataset_create(of, add_noise, NULL);
    r.loader = tn_loader_create(r.set, .batch = 4, .shuffle = 1, .workers = 2, .seed = seed);
    r.history = tn_retain(tn_zeros(s, TN_INTS(1)));
    cr_assert(r.optimizer && r.average && r.scaler && r.loader, "%s", message());
    return r;
}

static void end_run(run *r)
{
    tn_loader_destroy(r->loader);
    tn_dataset_destroy(r->set);
    tn_grad_scaler_destroy(r->scaler);
    tn_average_destroy(r->average);
    tn_optimizer_destroy(r->optimizer);
    tn_module_destroy(r->net);
    tn_release(r->history);
}

static void train(run *r, int64_t to)
{
    for (; r->step < to; r->step++) {
        tn_scope *step = tn_scope_open(ctx);
        tn_tensor *x = tn_list_at(tn_loader_next(step, r->loader), 0);
        tn_tensor *y = tn_module_forward(step, r->net, x), *loss = tn_mean(step, tn_mul(step, y, y));
        tn_backward(step, tn_grad_scaler_scale(step, r->scaler, loss));
        tn_step_options options = {.options_size = sizeof options,
                                   .lr = tn_plateau_step(&r->plateau, tn_item_double(step, loss))};
        tn_grad_scaler_step(step, r->scaler, r->optimizer, &options);
        tn_optimizer_zero_grad(r->optimizer);
        tn_average_update(step, r->average);
        tn_add_(step, r->history, tn_detach(step, loss));
        cr_assert_eq(tn_scope_failed(step), TN_OK, "%s", tn_scope_error(step)->message);
        tn_scope_close(step);
    }
}

#define PARTS(r)                                                                                 \
    .module = (r).net, .optimizer = (r).optimizer, .average = (r).average, .scaler = (r).scaler, \
    .loader = (r).loader, .plateau = &(r).plateau, .step = &(r).step,                            \
    .more = {&(tn_named_tensor){"history", (r).history}, 1}

static void expect_same(run *a, run *b)
{
    tn_named_tensors x = tn_module_tensors(s, a->net, TN_STATE), y = tn_module_tensors(s, b->net, TN_STATE);
    for (int64_t i = 0; i < x.count; i++)
        cr_assert(tn_equal(s, x.data[i].tensor, y.data[i].tensor), "%s", x.data[i].name);
    cr_assert_eq(tn_average_swap(s, a->average) + tn_average_swap(s, b->average), TN_OK);
    for (int64_t i = 0; i < x.count; i++)
        cr_assert(tn_equal(s, x.data[i].tensor, y.data[i].tensor), "%s", x.data[i].name);
    cr_assert(tn_equal(s, a->history, b->history));
    cr_assert_eq(a->plateau.lr, b->plateau.lr);
    cr_assert_eq(tn_grad_scaler_get_scale(a->scaler), tn_grad_scaler_get_scale(b->scaler));
}

/* In the middle of an epoch; the run before it stops at another step than the file's. */
Test(checkpoint, a_run_goes_on_bit_for_bit)
{
    tn_dataset *data =
        tn_tensor_dataset_create(s, TN_TENSORS(tn_reshape(s, tn_arange(s, TN_SCALAR(54.0)), TN_INTS(18, 3))));
    const char *path = in_folder("run.safetensors");
    run first = begin_run(1, data), second;
    train(&first, 7);
    cr_assert_eq(tn_checkpoint_save(path, PARTS(first)), TN_OK, "%s", message());
    train(&first, 17);
    second = begin_run(2, data);
    train(&second, 3);
    cr_assert_eq(tn_checkpoint_load(path, PARTS(second)), TN_OK, "%s", message());
    cr_assert_eq(second.step, 7);
    train(&second, 17);
    expect_same(&first, &second);
    end_run(&first);
    end_run(&second);
    tn_dataset_destroy(data);
}

Test(checkpoint, the_parts_must_be_those_of_the_file)
{
    tn_module *net = tn_module_create(ctx, "net", NULL);
    tn_linear_create(net, "fc", 2, 1);
    tn_optimizer *o = tn_sgd_create(net, .lr = 1), *other = tn_adam_create(net, .lr = 1);
    const char *path = in_folder("run.safetensors");
    int64_t step = 3;
    expect_error(tn_checkpoint_load(path, .module = net), TN_E_NOT_FOUND, "No such file");
    cr_assert_eq(tn_checkpoint_save(path, .module = net, .optimizer = o), TN_OK, "%s", message());
    expect_error(tn_checkpoint_load(path, .module = net), TN_E_ARGUMENT,
                 "run.safetensors': it has a part 'optimizer', which the call was not given");
    expect_error(tn_checkpoint_load(path, .module = net, .optimizer = o, .step = &step), TN_E_ARGUMENT,
                 "it has no part 'step', which the call was given");
    expect_error(tn_checkpoint_load(path, .module = net, .optimizer = other), TN_E_ARGUMENT,
                 "of another optimizer");
    expect_error(tn_checkpoint_save(path, .optimizer = o), TN_E_ARGUMENT, "argument 'module': it is NULL");
    expect_error(tn_checkpoint_save(NULL, .module = net), TN_E_ARGUMENT, "argument 'path': it is NULL");
    expect_error(tn_checkpoint_save_with(&(tn_checkpoint_parts){.path = path, .module = net}), TN_E_ARGUMENT,
                 "set it to sizeof(tn_checkpoint_parts)");
    tn_module *wide = tn_module_create(ctx, "wide", NULL);
    tn_linear_create(wide, "head", 2, 1);
    tn_optimizer *of_wide = tn_sgd_create(wide, .lr = 1);
    expect_error(tn_checkpoint_load(path, .module = wide, .optimizer = of_wide), TN_E_SHAPE,
                 "run.safetensors': module state: missing: 'head.weight', 'head.bias'");
    tn_optimizer_destroy(of_wide);
    tn_module_destroy(wide);
    expect_error(tn_checkpoint_save("/nowhere/run", .module = net), TN_E_IO, "/nowhere/run");
    cr_assert_eq(step, 3);
    tn_optimizer_destroy(o);
    tn_optimizer_destroy(other);
    tn_module_destroy(net);
}

Test(checkpoint, a_loader_with_another_number_of_batches)
{
    const char *path = in_folder("run.safetensors");
    tn_module *net = tn_module_create(ctx, "net", NULL);
    tn_linear_create(net, "fc", 2, 1);
    tn_dataset *data = tn_tensor_dataset_create(s, TN_TENSORS(tn_ones(s, TN_INTS(12, 2))));
    tn_loader *by_three = tn_loader_create(data, .batch = 3), *by_two = tn_loader_create(data, .batch = 2);
    cr_assert_eq(tn_checkpoint_save(path, .module = net, .loader = by_three), TN_OK, "%s", message());
    expect_error(tn_checkpoint_load(path, .module = net, .loader = by_two), TN_E_ARGUMENT,
                 "the loader of the file has 4 batches in an epoch, the one that is given 6");
    tn_loader_destroy(by_three);
    tn_loader_destroy(by_two);
    tn_dataset_destroy(data);
    tn_module_destroy(net);
}

Test(checkpoint, a_module_without_tensors)
{
    tn_module *net = tn_module_create(ctx, "net", NULL);
    tn_relu_create(net, "relu");
    const char *path = in_folder("run.safetensors");
    int64_t step = 3;
    cr_assert_eq(tn_checkpoint_save(path, .module = net, .step = &step), TN_OK, "%s", message());
    step = 0;
    cr_assert_eq(tn_checkpoint_load(path, .module = net, .step = &step), TN_OK, "%s", message());
    cr_assert_eq(step, 3);
    tn_linear_create(net, "fc", 2, 1);
    expect_error(tn_checkpoint_load(path, .module = net, .step = &step), TN_E_ARGUMENT,
                 "it has no part 'module', which the call was given");
    tn_module_destroy(net);
}

/* Not one value for all elements. */
Test(checkpoint, tensors_of_other_sizes)
{
    tn_module *net = tn_module_create(ctx, "net", NULL);
    tn_linear_create(net, "fc", 2, 1);
    const char *path = in_folder("run.safetensors");
    const tn_named_tensor one = {"mean", tn_full(s, TN_INTS(1), 5.0, .dtype = TN_FLOAT32)},
                          three = {"mean", tn_zeros(s, TN_INTS(3), .dtype = TN_FLOAT32)};
    cr_assert_eq(tn_checkpoint_save(path, .module = net, .more = {&one, 1}), TN_OK, "%s", message());
    expect_error(tn_checkpoint_load(path, .module = net, .more = {&three, 1}), TN_E_SHAPE,
                 "run.safetensors': other sizes than the tensor of the call has more.mean");
    expect_values(three.tensor, 3, (const float[]){0, 0, 0});
    tn_module_destroy(net);
}
