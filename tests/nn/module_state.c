/* SPDX-License-Identifier: Apache-2.0 */
/* States of modules in files, and how a file takes the place of another. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "module_suite.h"

TestSuite(module_state, .init = open_module, .fini = close_module);

static char folder[] = "/tmp/module.XXXXXX", path[64];

Test(module_state, a_state_is_saved_and_loaded)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/net.safetensors", folder);
    tn_linear_create(net, "fc", 3, 2);
    tn_batch_norm1d_create(net, "n", 2);
    cr_assert_eq(tn_module_save(net, path), TN_OK);
    tn_tensor *was = tn_clone(s, tn_detach(s, tn_module_tensor(net, "fc.weight")));
    tn_init_constant(s, tn_module_tensor(net, "fc.weight"), 3);
    cr_assert_eq(tn_module_load(net, path, TN_STRICT), TN_OK);
    cr_assert(tn_equal(s, was, tn_detach(s, tn_module_tensor(net, "fc.weight"))));
    cr_assert(tn_requires_grad(tn_module_tensor(net, "fc.weight")));
    /* Another module: all differences in one error, and nothing changed. */
    tn_module *other = tn_module_create(ctx, "other", NULL);
    tn_linear_create(other, "fc", 3, 2, .bias = 0);
    tn_linear_create(other, "last", 2, 2);
    tn_init_constant(s, tn_module_tensor(other, "fc.weight"), 3);
    cr_assert_eq(tn_module_load(other, path, TN_STRICT), TN_E_SHAPE);
    const char *text = tn_last_error()->message;
    cr_assert_not_null(
        strstr(
            text,
            "missing: 'last.weight', 'last.bias'; unexpected: 'fc.bias', 'n.bias', 'n.num_batches_tracked'"),
        "%s", text);
    EXPECT(s, tn_detach(s, tn_module_tensor(other, "fc.weight")), 3, 3, 3, 3, 3, 3);
    cr_assert_eq(tn_module_load(other, path, TN_LENIENT), TN_OK);
    cr_assert(tn_allclose(s, tn__to_copy(s, was, .dtype = TN_FLOAT32),
                          tn_detach(s, tn_module_tensor(other, "fc.weight"))));
    tn_module_destroy(other);
    /* Another shape is refused in both modes. */
    other = tn_module_create(ctx, "other", NULL);
    tn_linear_create(other, "fc", 4, 2);
    cr_assert_eq(tn_module_load(other, path, TN_LENIENT), TN_E_SHAPE);
    cr_assert_not_null(strstr(tn_last_error()->message, "'fc.weight' has sizes [2, 3], the module's [2, 4]"),
                       "%s", tn_last_error()->message);
    tn_module_destroy(other);
    cr_assert_neq(tn_module_load(net, "/nonexistent/x", TN_STRICT), TN_OK);
    cr_assert_eq(tn_module_save(net, NULL), TN_E_ARGUMENT);
    cr_assert_not_null(strstr(tn_last_error()->message, "tn_module_save: argument 'path' is NULL"));
    cr_assert_neq(tn_module_save(net, "/nonexistent/x"), TN_OK);
    cr_assert_eq(tn_module_failed(net), TN_OK);
    unlink(path);
    rmdir(folder);
}

/* An error has room for 1,500 bytes: it names the first of each kind, says how many there are, and the report has all. */
Test(module_state, a_load_with_many_differences_counts_them)
{
    char name[64];
    const tn_named_tensor items[] = {{"other.weight", tn_ones(s, TN_INTS(1))},
                                     {"other.bias", tn_ones(s, TN_INTS(1))}};
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "a_rather_long_name_of_a_layer.%d", i);
        tn_linear_create(net, name, 1, 1);
    }
    cr_assert_eq(tn_module_load_state(net, (tn_named_tensors){items, 2}, TN_STRICT), TN_E_SHAPE);
    const char *text = tn_last_error()->message, *report = tn_module_load_report(net);
    cr_assert_not_null(strstr(text, "missing: 'a_rather_long_name_of_a_layer.0.weight', "
                                    "'a_rather_long_name_of_a_layer.0.bias', "),
                       "%s", text);
    cr_assert_not_null(strstr(text, "'a_rather_long_name_of_a_layer.2.weight' and 795 more; "
                                    "unexpected: 'other.weight', 'other.bias'"),
                       "%s", text);
    cr_assert_lt(strlen(text), 1400);
    cr_assert_not_null(
        strstr(report, "'a_rather_long_name_of_a_layer.399.bias'; unexpected: 'other.weight', 'other.bias'"));
}

Test(module_state, many_tensors_of_other_sizes_are_counted)
{
    tn_named_tensor items[9];
    char names[9][16];
    for (int i = 0; i < 9; i++) {
        snprintf(names[i], sizeof names[i], "fc%d", i);
        tn_linear_create(net, names[i], 2, 2, .bias = 0);
        snprintf(names[i], sizeof names[i], "fc%d.weight", i);
        items[i] = (tn_named_tensor){names[i], tn_ones(s, TN_INTS(3))};
    }
    cr_assert_eq(tn_module_load_state(net, (tn_named_tensors){items, 9}, TN_STRICT), TN_E_SHAPE);
    const char *text = tn_last_error()->message;
    cr_assert_not_null(
        strstr(text, "'fc4.weight' has sizes [3], the module's [2, 2]; 4 more have other sizes"), "%s", text);
    cr_assert_null(strstr(text, "fc5"), "%s", text);
}

Test(module_state, a_state_below_another_name_says_so)
{
    char below[] = "/tmp/tenon_below_XXXXXX";
    tn_module *fc = tn_linear_create(net, "model.fc", 2, 2);
    close(mkstemp(below));
    cr_assert_eq(tn_module_save(net, below), TN_OK);
    cr_assert_eq(tn_module_load(fc, below, TN_STRICT), TN_E_SHAPE);
    unlink(below);
    const char *text = tn_last_error()->message;
    cr_assert(strstr(text, below) && strstr(text, "the module's names stand below 'model.fc'"), "%s", text);
    cr_assert_null(strstr(text, "missing"), "%s", text);
}

/* The result of a call that failed: a strict load must not leave the parameter as it was. */
Test(module_state, a_tensor_that_is_null_is_refused)
{
    tn_linear_create(net, "fc", 1, 1, .bias = 0);
    const tn_named_tensor items[] = {{"fc.weight", NULL}, {NULL, tn_ones(s, TN_INTS(1, 1))}};
    for (int i = 0; i < 2; i++)
        for (uint32_t mode = TN_STRICT; mode <= TN_LENIENT; mode++) {
            cr_assert_eq(tn_module_load_state(net, (tn_named_tensors){&items[i], 1}, mode), TN_E_ARGUMENT);
            expect_last_error(i ? "module: item 0 of the state (''): its name is NULL"
                                : "module: item 0 of the state ('fc.weight'): its tensor is NULL");
        }
}

Test(module_state, names_below_another)
{
    tn_module *fc = tn_linear_create(net, "model.fc", 2, 2);
    tn_linear_create(net, "modelling", 2, 2);
    tn_named_tensors all = tn_module_tensors(s, net, TN_STATE), below = tn_named_below(s, all, "model.fc");
    cr_assert_eq(below.count, 2);
    cr_assert_str_eq(below.data[1].name, "bias");
    cr_assert_eq(below.data[1].tensor, tn_module_tensor(fc, "bias"));
    cr_assert_eq(tn_named_below(s, all, "mode").count, 0);
    expect_error(s, "no name begins with 'mode.'");
}

Test(module_state, a_file_replaces_another_as_a_whole)
{
    char place[] = "/tmp/tenon_replace_XXXXXX", file[64], by_link[64], text[8] = "";
    tn_replacement r;
    cr_assert_not_null(mkdtemp(place));
    snprintf(file, sizeof file, "%s/file", place);
    snprintf(by_link, sizeof by_link, "%s/link", place);
    cr_assert_eq(tn_replace_begin(&r, file), 0);
    fputs("old", r.to);
    cr_assert_eq(tn_replace_end(&r, 1), 0);
    cr_assert_eq(symlink("file", by_link), 0);
    for (int is_good = 0; is_good < 2; is_good++) { /* first one that is given up */
        cr_assert_eq(tn_replace_begin(&r, by_link), 0);
        fputs("new", r.to);
        const int32_t status = tn_replace_end(&r, is_good);
        cr_assert_eq(status == 0, is_good);
        FILE *in = fopen(file, "r");
        const size_t bytes = fread(text, 1, 3, in);
        cr_assert_eq(bytes, 3);
        fclose(in);
        cr_assert_str_eq(text, is_good ? "new" : "old");
    }
    cr_assert_gt(readlink(by_link, text, sizeof text), 0, "the link stays one");
    cr_assert_eq(tn_module_save(net, by_link), TN_OK);
    cr_assert_gt(readlink(by_link, text, sizeof text), 0, "the link stays one");
    cr_assert(unlink(by_link) == 0 && unlink(file) == 0);
    cr_assert_eq(mkfifo(file, 0600), 0);
    int end = open(file, O_RDWR);
    cr_assert_eq(tn_replace_begin(&r, file), 0);
    fputs("bytes", r.to);
    cr_assert_eq(tn_replace_end(&r, 1), 0);
    const ssize_t taken = read(end, text, sizeof text);
    cr_assert_eq(taken, 5, "a pipe receives them");
    close(end);
    cr_assert_neq(tn_replace_begin(&r, place), 0, "a folder is refused");
    cr_assert(unlink(file) == 0 && rmdir(place) == 0, "nothing is left");
}
